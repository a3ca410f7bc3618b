#include "cloud_floor.h"

#include "bench.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, WAIT_MS = 20000, MANY = 16 };

/* An answer of a command ends with these, which are nowhere else in the stream. */
static const char end_mark[] = "////";

static struct {
    CURLM *multi;
    CURL *stream;
    CURL *input;
    CURL *number;
    struct curl_slist *headers[2];
    struct text {
        char *bytes;
        size_t len;
    } bodies[3];    /* of the stream, one command, sixteen */
    bool begun;     /* the stream has said something */
    size_t marks;   /* answers so far */
    size_t matched; /* bytes of the next one's mark */
} fl;

static size_t on_stream(char *bytes, size_t one, size_t count, void *userdata)
{
    (void)one;
    (void)userdata;
    fl.begun = true;
    for (size_t i = 0; i < count; i++) {
        fl.matched = bytes[i] == end_mark[fl.matched] ? fl.matched + 1 : 0;
        if (end_mark[fl.matched] == '\0') {
            fl.matched = 0;
            fl.marks++;
        }
    }
    return count;
}

static size_t on_answer(char *bytes, size_t one, size_t count, void *userdata)
{
    (void)bytes;
    (void)one;
    (void)userdata;
    return count;
}

static bool read_text(const char *folder, const char *name, struct text *ret)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "re");
    ret->bytes = calloc(1, TEXT_MAX);
    ret->len = file != NULL && ret->bytes != NULL ? fread(ret->bytes, 1, TEXT_MAX - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    if (ret->len == 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
    }
    return ret->len > 0;
}

static CURL *new_request(const char *folder, const char *name, struct curl_slist **ret_headers)
{
    CURL *curl = curl_easy_init();
    struct text text;
    char *rest;
    char *line;

    if (!read_text(folder, name, &text) || curl == NULL) {
        curl_easy_cleanup(curl);
        free(text.bytes);
        return NULL;
    }
    rest = text.bytes;
    line = strsep(&rest, "\n");
    curl_easy_setopt(curl, CURLOPT_URL, line);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    *ret_headers = curl_slist_append(NULL, "Expect:");
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        *ret_headers = curl_slist_append(*ret_headers, line);
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *ret_headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
    free(text.bytes);
    return curl;
}

/* What has ended: the request, whose success is told, or the stream. */
static bool take_ends(bool *ret_sent)
{
    CURLMsg *message;
    long status = 0;
    int left;

    while ((message = curl_multi_info_read(fl.multi, &left)) != NULL) {
        CURLcode code = message->data.result;

        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        if (message->easy_handle == fl.stream || code != CURLE_OK || status != 200) {
            fprintf(stderr, "libcurl: %s ended with %s, status %ld\n",
                    message->easy_handle == fl.stream ? "the stream" : "the request",
                    curl_easy_strerror(code), status);
            return false;
        }
        curl_multi_remove_handle(fl.multi, fl.input);
        *ret_sent = true;
    }
    return true;
}

/* Until the stream has begun, the request (NULL: none) is answered, and so many answers came. */
static bool drive(const struct text *body, size_t wanted)
{
    double give_up_us = bench_wall_us() + WAIT_MS * 1000.0;
    bool sent = body == NULL;
    int running;

    if (body != NULL) {
        curl_easy_setopt(fl.input, CURLOPT_POSTFIELDS, body->bytes);
        curl_easy_setopt(fl.input, CURLOPT_POSTFIELDSIZE, (long)body->len);
        if (curl_multi_add_handle(fl.multi, fl.input) != CURLM_OK) {
            return false;
        }
    }
    for (;;) {
        if (curl_multi_perform(fl.multi, &running) != CURLM_OK || !take_ends(&sent)) {
            return false;
        }
        if (sent && fl.begun && fl.marks >= wanted) {
            return true;
        }
        /* It also returns for timers of its own. */
        if (curl_multi_poll(fl.multi, NULL, 0, WAIT_MS, NULL) != CURLM_OK ||
            bench_wall_us() > give_up_us) {
            fprintf(stderr, "libcurl: no answer\n");
            return false;
        }
    }
}

bool floor_begin(const char *folder)
{
    static const char *const names[] = { "stream.body", "1.body", "16.body" };

    fl.multi = curl_multi_init();
    fl.stream = new_request(folder, "stream", &fl.headers[0]);
    fl.input = new_request(folder, "input", &fl.headers[1]);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!read_text(folder, names[i], &fl.bodies[i])) {
            return false;
        }
    }
    if (fl.multi == NULL || fl.stream == NULL || fl.input == NULL) {
        return false;
    }
    curl_easy_setopt(fl.stream, CURLOPT_WRITEFUNCTION, on_stream);
    curl_easy_setopt(fl.stream, CURLOPT_POSTFIELDS, fl.bodies[0].bytes);
    curl_easy_setopt(fl.stream, CURLOPT_POSTFIELDSIZE, (long)fl.bodies[0].len);
    return curl_multi_add_handle(fl.multi, fl.stream) == CURLM_OK && drive(NULL, 0);
}

void floor_end(void)
{
    if (fl.multi != NULL) {
        curl_multi_remove_handle(fl.multi, fl.stream);
    }
    curl_easy_cleanup(fl.stream);
    curl_easy_cleanup(fl.input);
    curl_multi_cleanup(fl.multi);
    for (size_t i = 0; i < 3; i++) {
        free(fl.bodies[i].bytes);
    }
    curl_slist_free_all(fl.headers[0]);
    curl_slist_free_all(fl.headers[1]);
}

bool floor_one(void)
{
    fl.marks = 0;
    return drive(&fl.bodies[1], 1);
}

bool floor_sixteen(void)
{
    fl.marks = 0;
    return drive(&fl.bodies[2], MANY);
}

static size_t on_number(char *bytes, size_t one, size_t count, void *userdata)
{
    char text[32] = "";

    (void)one;
    memcpy(text, bytes, count < sizeof(text) - 1 ? count : sizeof(text) - 1);
    *(long *)userdata = strtol(text, NULL, 10);
    return count;
}

long floor_number(const char *url)
{
    long number = -1;

    fl.number = fl.number != NULL ? fl.number : curl_easy_init();
    curl_easy_setopt(fl.number, CURLOPT_URL, url);
    curl_easy_setopt(fl.number, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(fl.number, CURLOPT_WRITEFUNCTION, on_number);
    curl_easy_setopt(fl.number, CURLOPT_WRITEDATA, &number);
    return curl_easy_perform(fl.number) == CURLE_OK ? number : -1;
}
