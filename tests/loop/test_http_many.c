/* A thousand requests at once, driven by plain poll(2) on the one descriptor. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>

#include "http/internal.h"
#include "http_client.h"
#include "httpd.h"

enum { MANY = 1000, ROUNDS = 2 };

/* Holds every first answer back until all requests are here, so that they are open at once. */
static void serve(httpd *server, int fd, int connection)
{
    httpd_request request;

    (void)connection;
    while (httpd_read(server, fd, &request)) {
        while (atomic_load(&server->requests) < MANY) {
            usleep(1000);
        }
        httpd_reply(fd, 200, "", request.body);
        free(request.body);
    }
}

static int all_done(const struct course *courses)
{
    int done = 0;

    for (int i = 0; i < MANY; i++) {
        done += courses[i].dones;
    }
    return done == MANY;
}

static size_t most_in_a_multi(const waldo__http *http, size_t *ret_multis)
{
    size_t most = 0;

    *ret_multis = 0;
    for (const waldo__multi *multi = http->multis; multi != NULL; multi = multi->next) {
        most = multi->transfers > most ? multi->transfers : most;
        ++*ret_multis;
    }
    return most;
}

static void a_thousand_at_once(void **state)
{
    struct course *courses = calloc(MANY, sizeof *courses);
    struct client client = { 0 };
    struct pollfd item = { .events = POLLIN };
    httpd server;
    size_t multis;

    (void)state;
    assert_int_equal(httpd_start(&server, serve, NULL, NULL), 0);
    assert_int_equal(client_open(&client, NULL), 0);
    item.fd = waldo__loop_fd(client.loop);
    for (int round = 0; round < ROUNDS; round++) {
        waldo__http_request request = { .url = server.url,
                                        .method = "POST",
                                        .body = WALDO__S("many") };
        int good = 0;

        for (int i = 0; i < MANY; i++) {
            assert_int_equal(course_start(&client, &courses[i], &request, NULL), WALDO_OK);
        }
        assert_true(most_in_a_multi(client.http, &multis) <= 256);
        assert_int_equal(multis, 4);
        while (!all_done(courses) && poll(&item, 1, 60000) == 1) {
            waldo__loop_round(client.loop, 0, 0);
        }
        for (int i = 0; i < MANY; i++) {
            good += courses[i].result == WALDO_OK &&
                    waldo__str_is(waldo__buf_str(&courses[i].body), "many");
            course_free(&courses[i]);
        }
        assert_int_equal(good, MANY);
    }
    assert_int_equal(server.requests, ROUNDS * MANY);
    assert_int_equal(server.connections, MANY); /* the second round used them again */
    client_close(&client);
    httpd_stop(&server);
    free(courses);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_thousand_at_once) };
    struct rlimit files;
    int failed;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    waldo_library_shutdown();
    return !!failed;
}
