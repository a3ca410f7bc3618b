/* Transfers against a server of our own: course, headers, limits, ends, pauses. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "http/internal.h"
#include "http_client.h"
#include "httpd.h"

enum { BIG = 3 * 1024 * 1024 };

static httpd server;
static struct client client;

static int is_path(const httpd_request *request, const char *path)
{
    const char *at = strchr(request->head, ' ');

    return at != NULL && strncmp(at + 1, path, strlen(path)) == 0;
}

static void send_big(int fd)
{
    char chunk[8192];
    char head[128];

    memset(chunk, 'z', sizeof chunk);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    httpd_send(fd, head, strlen(head));
    for (int sent = 0; sent < BIG; sent += (int)sizeof chunk) {
        if (!httpd_send(fd, chunk, sizeof chunk)) {
            return;
        }
    }
}

static void send_many_headers(int fd)
{
    char line[1024];

    httpd_send(fd, "HTTP/1.1 200 OK\r\n", 17);
    memset(line, 'h', sizeof line);
    memcpy(line, "X-Many: ", 8);
    memcpy(line + sizeof line - 2, "\r\n", 2);
    for (int i = 0; i < 80; i++) {
        httpd_send(fd, line, sizeof line);
    }
    httpd_send(fd, "\r\n", 2);
}

static void wait_for_eof(httpd *on, int fd)
{
    char byte;

    while (recv(fd, &byte, 1, 0) > 0) {
    }
    atomic_fetch_add(&on->eofs, 1);
}

static int answer(httpd *on, int fd, const httpd_request *request)
{
    if (is_path(request, "/echo")) {
        return httpd_reply(fd, 200, "X-Kind: echo\r\n", request->body);
    }
    if (is_path(request, "/missing")) {
        return httpd_reply(fd, 404, "", "no such thing");
    }
    if (is_path(request, "/away")) {
        return httpd_reply(fd, 302, "Location: /echo\r\n", "");
    }
    if (is_path(request, "/early")) {
        httpd_send(fd, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 37);
        return httpd_reply(fd, 200, "X-Real: yes\r\n", "late");
    }
    if (is_path(request, "/big")) {
        send_big(fd);
        return 1;
    }
    if (is_path(request, "/headers")) {
        send_many_headers(fd);
        return 0;
    }
    if (is_path(request, "/cut")) {
        httpd_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", 44);
        return 0;
    }
    if (is_path(request, "/hang")) {
        httpd_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", 44);
        wait_for_eof(on, fd);
        return 0;
    }
    if (is_path(request, "/silent")) {
        wait_for_eof(on, fd);
        return 0;
    }
    if (is_path(request, "/garbage")) {
        httpd_send(fd, "SSH-2.0-nonsense\r\n\r\n", 20);
        return 0;
    }
    return httpd_reply(fd, 200, "", "plain");
}

static void serve(httpd *on, int fd, int connection)
{
    httpd_request request;

    (void)connection;
    while (httpd_read(on, fd, &request)) {
        int more = answer(on, fd, &request);

        free(request.body);
        if (!more) {
            return;
        }
    }
}

static int setup(void **state)
{
    (void)state;
    return httpd_start(&server, serve, NULL, NULL) || client_open(&client, NULL);
}

static int teardown(void **state)
{
    (void)state;
    client_close(&client);
    httpd_stop(&server);
    return 0;
}

/* ---- the ordinary course ---- */

static void answer_comes_in_order(void **state)
{
    waldo__http_request request = { .url = url_of(server.url, "/echo"),
                                    .method = "POST",
                                    .headers = WALDO__S("X-Test: 1\nX-Empty:\n"),
                                    .body = WALDO__S("hello") };
    struct course course = { 0 };

    (void)state;
    assert_int_equal(course_start(&client, &course, &request, NULL), WALDO_OK);
    assert_int_equal(course.heads + course.dones, 0); /* never within the start */
    course_wait(&client, &course);
    assert_int_equal(course.result, WALDO_OK);
    assert_null(course.error);
    assert_int_equal(course.status, 200);
    assert_int_equal(course.heads, 1);
    assert_int_equal(course.dones, 1);
    assert_false(course.out_of_order);
    assert_string_equal(text_of(&course.body), "hello");
    assert_non_null(strstr(text_of(&course.head), "X-Kind: echo\n"));
    assert_null(strchr(text_of(&course.head), '\r'));
    assert_non_null(strstr(server.last_head, "X-Test: 1\r\n"));
    assert_non_null(strstr(server.last_head, "X-Empty:\r\n"));
    assert_null(strcasestr(server.last_head, "expect"));
    assert_null(strcasestr(server.last_head, "content-type"));
    course_free(&course);
}

static void one_connection_for_requests_in_a_row(void **state)
{
    waldo__http_request request = { .url = server.url };

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct course course = { 0 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, WALDO_OK);
        assert_string_equal(text_of(&course.body), "plain");
        course_free(&course);
    }
    assert_int_equal(server.connections, 1);
}

static void any_http_status_is_an_answer(void **state)
{
    static const struct {
        const char *path;
        int status;
    } rows[] = { { "/missing", 404 }, { "/away", 302 }, { "/early", 200 } };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        waldo__http_request request = { .url = url_of(server.url, rows[i].path) };
        struct course course = { 0 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, WALDO_OK);
        assert_int_equal(course.status, rows[i].status);
        assert_int_equal(course.heads, 1);
        assert_null(strstr(text_of(&course.head), "Link")); /* of the interim head */
        course_free(&course);
    }
    assert_int_equal(server.requests, 3); /* the redirect was not followed */
}

static void key_goes_into_its_header(void **state)
{
    waldo__http_request request = { .url = server.url,
                                    .auth_header = "Authorization",
                                    .auth_prefix = "Bearer ",
                                    .auth_key = "TEST_KEY" };
    struct course course = { 0 };

    (void)state;
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_EAUTH);
    assert_non_null(strstr(waldo_error_message(course.error), "TEST_KEY"));
    course_free(&course);
    assert_int_equal(waldo__secrets_put(client.secrets, "TEST_KEY", WALDO__S("sk-0123456789"), 0),
                     WALDO_OK);
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_OK);
    assert_non_null(strstr(server.last_head, "\r\nAuthorization: Bearer sk-0123456789\r\n"));
    course_free(&course);
    assert_int_equal(
        waldo__secrets_put(client.secrets, "TEST_KEY", WALDO__S("sk-012345\r\nX-Injected: 1"), 0),
        WALDO_OK);
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_EAUTH);
    assert_int_equal(server.requests, 1);
    course_free(&course);
}

static void methods_and_large_bodies(void **state)
{
    static const char *const methods[] = { "PUT", "PATCH", "DELETE", "POST", "HEAD" };
    char *large = malloc(BIG + 1);
    waldo__http_request request = { .url = url_of(server.url, "/echo"), .method = "POST" };
    struct course course = { 0 };

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        waldo__http_request row = { .url = server.url, .method = methods[i] };

        course_run(&client, &course, &row);
        assert_int_equal(course.result, WALDO_OK);
        assert_int_equal(strncmp(server.last_head, methods[i], strlen(methods[i])), 0);
        course_free(&course);
        if (i == 4) { /* our server sends HEAD a body, which no client may read */
            break;
        }
    }
    memset(large, 'u', BIG);
    large[BIG] = '\0';
    request.body = waldo__str(large);
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_OK);
    assert_int_equal(course.body.len, BIG);
    course_free(&course);
    free(large);
}

/* Handles and lists of headers are used again: what one request had, the next has not. */
static void nothing_is_left_of_the_request_before(void **state)
{
    static const struct {
        const char *method;
        const char *headers;
        const char *body;
        const char *key;
        int compressed;
    } rows[] = { { "POST", "X-A: 1\n", "first", "TEST_KEY", 0 },
                 { "GET", "", "", NULL, 0 },
                 { "POST", "X-B: 2\nContent-Type: text/x\n", "third", NULL, 0 },
                 { "GET", "X-A: 1\n", "", NULL, 1 },
                 { "GET", "", "with body", NULL, 0 },
                 { "DELETE", "", "", "TEST_KEY", 0 },
                 { "POST", "X-A: 1\n", "", NULL, 0 },
                 { "GET", "X-A: 1\n", "", "TEST_KEY", 0 } };

    (void)state;
    waldo__secrets_put(client.secrets, "TEST_KEY", WALDO__S("sk-0123456789"), 0);
    for (size_t i = 0; i < 3 * (sizeof rows / sizeof rows[0]); i++) {
        size_t row = i % (sizeof rows / sizeof rows[0]);
        waldo_str body = waldo__str(rows[row].body);
        waldo__http_request request = { .url = url_of(server.url, "/echo"),
                                        .method = rows[row].method,
                                        .headers = waldo__str(rows[row].headers),
                                        .body = body,
                                        .compressed = rows[row].compressed,
                                        .auth_header = "X-Key",
                                        .auth_key = rows[row].key };
        struct course course = { 0 };
        char start[32];

        course_run(&client, &course, &request);
        assert_int_equal(course.result, WALDO_OK);
        assert_string_equal(text_of(&course.body), rows[row].body);
        snprintf(start, sizeof start, "%s /echo HTTP/1.1\r\n", rows[row].method);
        assert_int_equal(strncmp(server.last_head, start, strlen(start)), 0);
        assert_int_equal(strstr(server.last_head, "X-A: 1\r\n") != NULL,
                         strstr(rows[row].headers, "X-A") != NULL);
        assert_int_equal(strstr(server.last_head, "X-B: 2\r\n") != NULL,
                         strstr(rows[row].headers, "X-B") != NULL);
        assert_int_equal(strstr(server.last_head, "Content-Type") != NULL,
                         strstr(rows[row].headers, "Content-Type") != NULL);
        assert_int_equal(strstr(server.last_head, "X-Key: sk-0123456789\r\n") != NULL,
                         rows[row].key != NULL);
        assert_int_equal(strstr(server.last_head, "Accept-Encoding") != NULL, rows[row].compressed);
        assert_int_equal(strstr(server.last_head, "Content-Length") != NULL,
                         body.len > 0 || strcmp(rows[row].method, "POST") == 0);
        course_free(&course);
    }
    assert_int_equal(server.connections, 1);
}

/* More different ones at once than are kept. */
static void many_lists_of_headers(void **state)
{
    enum { MANY = 30 };
    static struct course courses[MANY];
    char headers[MANY][32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        waldo__http_request request = { .url = url_of(server.url, "/echo"), .method = "POST" };

        snprintf(headers[i], sizeof headers[i], "X-Number: %d\n", i);
        request.body = waldo__str(headers[i]);
        request.headers = waldo__str(headers[i]);
        assert_int_equal(course_start(&client, &courses[i], &request, NULL), WALDO_OK);
    }
    for (int i = 0; i < MANY; i++) {
        course_wait(&client, &courses[i]);
        assert_int_equal(courses[i].result, WALDO_OK);
        assert_string_equal(text_of(&courses[i].body), headers[i]);
        course_free(&courses[i]);
    }
}

/* ---- bad input ---- */

static void bad_requests_are_named(void **state)
{
    static const struct {
        const char *url;
        const char *headers;
        const char *says;
    } rows[] = {
        { "http://example.test/", "", "ALLOW_PLAIN_HTTP" },
        { "ftp://127.0.0.1/", "", "ftp" },
        { "file:///etc/passwd", "", "needs a scheme and a host" },
        { "https://user:password@127.0.0.1/", "", "user name" },
        { "no url", "", "not a valid URL" },
        { "http://127.0.0.1.example.test/", "", "ALLOW_PLAIN_HTTP" },
        { "http://127.0.0.1:1/", "no colon\n", "one line" },
        { "http://127.0.0.1:1/", "X: a\rY: b\n", "one line" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        waldo__http_request request = { .url = rows[i].url,
                                        .headers = waldo__str(rows[i].headers) };
        struct course course = { 0 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, WALDO_EINVAL);
        assert_non_null(strstr(waldo_error_message(course.error), rows[i].says));
        assert_null(strstr(waldo_error_message(course.error), "password@"));
        assert_int_equal(course.dones, 0);
        course_free(&course);
    }
}

static void failures_have_their_own_status(void **state)
{
    char closed_url[64];
    struct {
        waldo__http_request request;
        waldo_status status;
    } rows[] = {
        { { .url = closed_url }, WALDO_ECONNECT },
        { { .url = url_of(server.url, "/cut") }, WALDO_ETRUNCATED },
        { { .url = url_of(server.url, "/big"), .max_body = 1000 }, WALDO_ETOOBIG },
        { { .url = url_of(server.url, "/headers") }, WALDO_ETOOBIG },
    };
    httpd closed;

    (void)state;
    assert_int_equal(httpd_start(&closed, serve, NULL, NULL), 0);
    snprintf(closed_url, sizeof closed_url, "%s", closed.url);
    httpd_stop(&closed);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct course course = { 0 };

        course_run(&client, &course, &rows[i].request);
        assert_int_equal(course.result, rows[i].status);
        assert_int_equal(waldo_error_status(course.error), rows[i].status);
        assert_non_null(strstr(waldo_error_message(course.error), "127.0.0.1:"));
        assert_int_equal(course.dones, 1);
        course_free(&course);
    }
}

static void what_is_not_http_is_a_protocol_error(void **state)
{
    waldo__http_request request = { .url = url_of(server.url, "/garbage") };
    struct course course = { 0 };

    (void)state;
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_EPROTO);
    course_free(&course);
}

/* ---- time ---- */

static void silence_and_deadline_differ(void **state)
{
    waldo__http_request idle = { .url = url_of(server.url, "/silent"), .idle_timeout_ms = 500 };
    waldo__http_request middle = { .url = url_of(server.url, "/hang"), .idle_timeout_ms = 500 };
    waldo__http_request late = { .url = url_of(server.url, "/hang"), .idle_timeout_ms = 60000 };
    struct course course[3] = { { 0 }, { 0 }, { 0 } };
    int64_t limit;
    int closed = 3;

    (void)state;
    course_run(&client, &course[0], &idle);
    course_run(&client, &course[1], &middle);
    while (course[1].body.len == 0 && middle.idle_timeout_ms < 60000) {
        assert_int_equal(course[1].result, WALDO_ETIMEDOUT_IDLE);
        middle.idle_timeout_ms *= 8; /* where it is too slow for the half to come by then */
        course_free(&course[1]);
        course_run(&client, &course[1], &middle);
        closed++;
    }
    late.deadline_ns = waldo__deadline_ns(1000);
    course_run(&client, &course[2], &late);
    assert_int_equal(course[0].result, WALDO_ETIMEDOUT_IDLE);
    assert_int_equal(course[1].result, WALDO_ETIMEDOUT_IDLE);
    assert_string_equal(text_of(&course[1].body), "half"); /* what came is not lost */
    assert_int_equal(course[2].result, WALDO_ETIMEDOUT_DEADLINE);
    limit = waldo__deadline_ns(30000);
    while (server.eofs < closed && waldo__now_ns() < limit) { /* the connections were closed */
        waldo__loop_round(client.loop, waldo__deadline_ns(5), 0);
    }
    assert_int_equal(server.eofs, closed);
    for (int i = 0; i < 3; i++) {
        course_free(&course[i]);
    }
}

/* ---- ends made by the owner ---- */

static void end_before_during_and_after(void **state)
{
    waldo__http_request request = { .url = url_of(server.url, "/hang") };
    struct course early = { 0 };
    struct course in_head = { .end_in_head = 1 };
    struct course in_body = { .stop_after = 1 };
    struct course while_reading = { .end_in_body = 1 };

    (void)state;
    course_start(&client, &early, &request, NULL);
    waldo__transfer_end(early.transfer, WALDO_ECANCELED);
    waldo__transfer_end(early.transfer, WALDO_EIO); /* the first counts */
    assert_int_equal(early.dones, 0);
    course_wait(&client, &early);
    assert_int_equal(early.result, WALDO_ECANCELED);
    assert_int_equal(early.heads + early.bodies, 0);
    course_run(&client, &in_head, &request);
    assert_int_equal(in_head.result, WALDO_ECANCELED);
    assert_int_equal(in_head.bodies, 0);
    course_run(&client, &in_body, &request);
    assert_int_equal(in_body.result, WALDO_EUSER);
    assert_int_equal(in_body.bodies, 1);
    assert_int_equal(in_body.dones, 1);
    course_run(&client, &while_reading, &request);
    assert_int_equal(while_reading.result, WALDO_ECANCELED);
    assert_string_equal(text_of(&while_reading.body), "half");
    course_free(&while_reading);
    course_free(&early);
    course_free(&in_head);
    course_free(&in_body);
}

static void dropped_transfers_say_nothing(void **state)
{
    waldo__http_request request = { .url = url_of(server.url, "/hang") };
    struct course at_once = { 0 };
    struct course in_head = { .drop_in_head = 1 };
    struct course in_body = { .drop_in_body = 1 };
    int64_t limit = waldo__deadline_ns(60000);

    (void)state;
    course_start(&client, &at_once, &request, NULL);
    waldo__transfer_drop(at_once.transfer);
    course_start(&client, &in_head, &request, NULL);
    course_start(&client, &in_body, &request, NULL);
    while ((in_head.heads == 0 || in_body.bodies == 0) && waldo__now_ns() < limit) {
        waldo__loop_round(client.loop, limit, 0);
    }
    waldo__loop_round(client.loop, waldo__deadline_ns(5), 0);
    assert_int_equal(at_once.heads + at_once.dones, 0);
    assert_int_equal(in_head.heads, 1);
    assert_int_equal(in_head.bodies + in_head.dones, 0);
    assert_int_equal(in_body.bodies, 1);
    assert_int_equal(in_body.dones, 0);
    course_free(&at_once);
    course_free(&in_head);
    course_free(&in_body);
}

static void free_with_open_transfers(void **state)
{
    waldo__http_request request = { .url = url_of(server.url, "/hang") };
    struct course course[3] = { { 0 }, { 0 }, { 0 } };
    struct client other = { 0 };

    (void)state;
    assert_int_equal(client_open(&other, NULL), 0);
    for (int i = 0; i < 3; i++) {
        course_start(&other, &course[i], &request, NULL);
    }
    waldo__loop_round(other.loop, waldo__deadline_ns(20), 0);
    client_close(&other);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(course[i].dones, 0);
        course_free(&course[i]);
    }
}

/* ---- reading no more than is consumed ---- */

static void paused_transfer_stops_and_goes_on(void **state)
{
    waldo__http_request request = { .url = url_of(server.url, "/big"), .idle_timeout_ms = 60000 };
    struct course course = { 0 };
    int64_t until;
    size_t held;

    (void)state;
    course_start(&client, &course, &request, NULL);
    while (course.bodies == 0) {
        waldo__loop_round(client.loop, waldo__deadline_ns(60000), 0);
    }
    waldo__transfer_pause(course.transfer, 1);
    held = course.body.len;
    /* The limit is shorter than the pause, and only for as long: our silence is not the peer's. */
    course.transfer->idle_ns = 500 * WALDO__NS_PER_MS;
    assert_int_equal(waldo__transfer_arm(course.transfer), WALDO_OK);
    until = waldo__deadline_ns(1500);
    while (waldo__now_ns() < until) {
        waldo__loop_round(client.loop, until, 0);
    }
    assert_int_equal(course.body.len, held);
    assert_true(course.transfer->body.len <= 256 * 1024 + CURL_MAX_WRITE_SIZE);
    assert_int_equal(course.dones, 0);
    course.transfer->idle_ns = 60 * WALDO__NS_PER_S;
    waldo__transfer_pause(course.transfer, 0);
    course_wait(&client, &course);
    assert_int_equal(course.result, WALDO_OK);
    assert_int_equal(course.body.len, BIG);
    course_free(&course);
}

static void connections_to_one_host_are_limited(void **state)
{
    waldo__http_options options = { .max_host_connections = 3 };
    waldo__http_request request = { .url = server.url };
    struct course courses[30] = { { 0 } };
    struct client limited = { 0 };

    (void)state;
    assert_int_equal(client_open(&limited, &options), 0);
    for (int i = 0; i < 30; i++) {
        course_start(&limited, &courses[i], &request, NULL);
    }
    for (int i = 0; i < 30; i++) {
        course_wait(&limited, &courses[i]);
        assert_int_equal(courses[i].result, WALDO_OK);
        course_free(&courses[i]);
    }
    assert_true(server.connections <= 3);
    client_close(&limited);
}

/* ---- other ways there ---- */

static void over_a_unix_socket(void **state)
{
    char path[64];
    httpd on_unix;
    struct course course = { 0 };

    (void)state;
    snprintf(path, sizeof path, "/tmp/waldo-http-%d.sock", (int)getpid());

    waldo__http_request request = { .url = "http://engine/v1", .unix_socket = path };

    assert_int_equal(httpd_start(&on_unix, serve, NULL, path), 0);
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_OK);
    assert_string_equal(text_of(&course.body), "plain");
    course_free(&course);
    client_close(&client);
    client_open(&client, NULL);
    httpd_stop(&on_unix);
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_ECONNECT);
    assert_non_null(strstr(waldo_error_message(course.error), path));
    course_free(&course);
}

static void proxies_are_used_but_never_for_loopback(void **state)
{
    waldo__http_options options = { .proxy = server.url, .allow_plain = 1 };
    waldo__http_request beyond = { .url = "http://example.test/x" };
    waldo__http_request here = { .url = url_of(server.url, "/here") };
    struct client proxied = { 0 };
    struct course course = { 0 };

    (void)state;
    assert_int_equal(client_open(&proxied, &options), 0);
    course_run(&proxied, &course, &beyond);
    assert_int_equal(course.result, WALDO_OK);
    assert_non_null(strstr(server.last_head, "GET http://example.test/x HTTP/1.1"));
    course_free(&course);
    course_run(&proxied, &course, &here);
    assert_int_equal(course.result, WALDO_OK);
    assert_non_null(strstr(server.last_head, "GET /here HTTP/1.1"));
    course_free(&course);
    client_close(&proxied);
}

static void proxy_of_the_environment(void **state)
{
    static const char *const options_proxy[] = { NULL, "none" };

    (void)state;
    setenv("http_proxy", server.url, 1);
    for (int i = 0; i < 2; i++) {
        waldo__http_options options = { .proxy = options_proxy[i], .allow_plain = 1 };
        waldo__http_request beyond = { .url = "http://127.1.2.3.nip.invalid:9/x",
                                       .deadline_ns = waldo__deadline_ns(i == 0 ? 60000 : 3000) };
        waldo__http_request here = { .url = url_of(server.url, "/here") };
        struct client other = { 0 };
        struct course course = { 0 };

        assert_int_equal(client_open(&other, &options), 0);
        course_run(&other, &course, &beyond);
        assert_int_equal(course.result == WALDO_OK, i == 0);
        course_free(&course);
        course_run(&other, &course, &here);
        assert_int_equal(course.result, WALDO_OK);
        assert_non_null(strstr(server.last_head, "GET /here HTTP/1.1"));
        course_free(&course);
        client_close(&other);
    }
    unsetenv("http_proxy");
}

static void public_only_refuses_this_machine(void **state)
{
    static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        char url[64];
        struct course course = { 0 };

        snprintf(url, sizeof url, "http://%s:%d/", hosts[i], server.port);

        waldo__http_request request = { .url = url, .public_only = 1 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, WALDO_EACCESS);
        course_free(&course);
    }
    assert_int_equal(server.connections, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(answer_comes_in_order),
        CASE(one_connection_for_requests_in_a_row),
        CASE(any_http_status_is_an_answer),
        CASE(key_goes_into_its_header),
        CASE(methods_and_large_bodies),
        CASE(nothing_is_left_of_the_request_before),
        CASE(many_lists_of_headers),
        CASE(bad_requests_are_named),
        CASE(failures_have_their_own_status),
        CASE(what_is_not_http_is_a_protocol_error),
        CASE(silence_and_deadline_differ),
        CASE(end_before_during_and_after),
        CASE(dropped_transfers_say_nothing),
        CASE(free_with_open_transfers),
        CASE(paused_transfer_stops_and_goes_on),
        CASE(connections_to_one_host_are_limited),
        CASE(over_a_unix_socket),
        CASE(proxies_are_used_but_never_for_loopback),
        CASE(proxy_of_the_environment),
        CASE(public_only_refuses_this_machine),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    waldo_library_shutdown();
    return !!failed;
}
