/* What the HTTP tests share: a client with a loop, and a transfer whose course is recorded. */
#ifndef WALDO_TEST_HTTP_CLIENT_H
#define WALDO_TEST_HTTP_CLIENT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "http/http.h"

struct client {
    waldo__loop *loop;
    waldo__secrets *secrets;
    waldo__http *http;
};

struct course {
    waldo__transfer *transfer;
    waldo__buf head;
    waldo__buf body;
    int status; /* HTTP */
    int heads, bodies, dones;
    int out_of_order;
    waldo_status result;
    waldo_error *error;
    size_t stop_after; /* on_body fails once so many bytes came; 0: never */
    int end_in_head, end_in_body, drop_in_head, drop_in_body;
};

static inline int client_open(struct client *client, const waldo__http_options *options)
{
    return waldo__loop_new(&client->loop, NULL) != WALDO_OK ||
           waldo__secrets_new(&client->secrets, NULL) != WALDO_OK ||
           waldo__http_new(client->loop, client->secrets, options, &client->http, NULL) != WALDO_OK;
}

static inline void client_close(struct client *client)
{
    waldo__http_free(client->http);
    waldo__secrets_free(client->secrets);
    waldo__loop_free(client->loop);
}

static inline void course_on_head(void *userdata, const waldo__http_head *head)
{
    struct course *course = userdata;

    course->out_of_order |= course->heads || course->bodies || course->dones;
    course->heads++;
    course->status = head->status;
    waldo__buf_add_str(&course->head, head->headers);
    if (course->end_in_head) {
        waldo__transfer_end(course->transfer, WALDO_ECANCELED);
    }
    if (course->drop_in_head) {
        waldo__transfer_drop(course->transfer);
    }
}

static inline waldo_status course_on_body(void *userdata, waldo_str bytes)
{
    struct course *course = userdata;

    course->out_of_order |= !course->heads || course->dones;
    course->bodies++;
    if (course->end_in_body) {
        waldo__transfer_end(course->transfer, WALDO_ECANCELED); /* bytes stay readable */
    }
    waldo__buf_add_str(&course->body, bytes);
    if (course->drop_in_body) {
        waldo__transfer_drop(course->transfer);
    }
    return course->stop_after != 0 && course->body.len >= course->stop_after ? WALDO_EUSER
                                                                             : WALDO_OK;
}

static inline void course_on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    struct course *course = userdata;

    course->dones++;
    course->result = status;
    course->error = waldo_error_copy(error);
}

static inline waldo_status course_start(struct client *client, struct course *course,
                                        const waldo__http_request *given, waldo_error **ret_err)
{
    waldo__http_request request = *given;

    waldo__buf_init(&course->head, 128 * 1024);
    waldo__buf_init(&course->body, 64 * 1024 * 1024);
    course->result = WALDO_PENDING;
    request.method = request.method != NULL ? request.method : "GET";
    request.userdata = course;
    request.on_head = course_on_head;
    request.on_body = course_on_body;
    request.on_done = course_on_done;
    return waldo__http_start(client->http, &request, &course->transfer, ret_err);
}

/* Until it is done, or 60 s. */
static inline void course_wait(struct client *client, const struct course *course)
{
    int64_t limit = waldo__deadline_ns(60000);

    while (course->dones == 0 && waldo__now_ns() < limit) {
        waldo__loop_round(client->loop, limit, 0);
    }
}

static inline void course_free(struct course *course)
{
    waldo__buf_free(&course->head);
    waldo__buf_free(&course->body);
    waldo_error_free(course->error);
    *course = (struct course){ 0 };
}

/* Start and wait; a start that fails is told as the result. */
static inline void course_run(struct client *client, struct course *course,
                              const waldo__http_request *request)
{
    waldo_error *error = NULL;
    waldo_status status = course_start(client, course, request, &error);

    if (status != WALDO_OK) {
        course->result = status;
        course->error = error;
        return;
    }
    course_wait(client, course);
}

static inline const char *text_of(const waldo__buf *buf)
{
    return waldo__buf_str(buf).ptr;
}

/* "URL" + path, in one of a few static places. */
static inline const char *url_of(const char *base, const char *path)
{
    static char places[4][256];
    static unsigned next;
    char *place = places[next++ % 4];

    snprintf(place, sizeof places[0], "%s%s", base, path);
    return place;
}

#endif
