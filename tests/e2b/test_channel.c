/* The stream to the hand, against a server of our own: silence, keepalives, pressure, pieces. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/httpd.h"
#include "backends/e2b/e2b.h"
#include "base/alloc.h"

enum { LONG_MS = 60000, BEATS = 15, FLOOD_FRAMES = 2000, FLOOD_BYTES = 20000 };

typedef enum mode { SILENT, ALIVE, FLOOD, NO_START } mode;

typedef struct scene {
    httpd server;
    mode mode;
    int64_t idle_ms; /* four beats */
    atomic_int inputs;
    atomic_int hold; /* 1: the answer to an input waits */
    char input[4][256];
    waldo__loop *loop;
    waldo__secrets *secrets;
    waldo__http *http;
    waldo_backend_env env;
    e2b_channel *made;
    waldo_channel *channel;
    int opened;
    waldo_status status;
    char message[512];
    size_t bytes;
    int drained;
    int close_at_bytes;
} scene;

static int chunk(int fd, const char *json, unsigned flags)
{
    char head[32];
    size_t len = strlen(json);
    unsigned char envelope[5] = { (unsigned char)flags, (unsigned char)(len >> 24),
                                  (unsigned char)(len >> 16), (unsigned char)(len >> 8),
                                  (unsigned char)len };

    snprintf(head, sizeof head, "%zx\r\n", len + 5);
    return httpd_send(fd, head, strlen(head)) && httpd_send(fd, envelope, 5) &&
           httpd_send(fd, json, len) && httpd_send(fd, "\r\n", 2);
}

static void serve_start(scene *s, int fd)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    struct pollfd gone = { .fd = fd, .events = POLLIN };

    httpd_send(fd, head, sizeof head - 1);
    if (s->mode != NO_START) {
        chunk(fd, "{\"event\":{\"start\":{\"pid\":7}}}", 0);
    }
    for (int i = 0; s->mode == ALIVE && i < BEATS; i++) {
        poll(&gone, 1, (int)s->idle_ms / 4);
        chunk(fd, "{\"event\":{\"keepalive\":{}}}", 0);
    }
    if (s->mode == ALIVE) {
        chunk(fd, "{\"event\":{\"data\":{\"stdout\":\"bGF0ZQ==\"}}}", 0);
    }
    if (s->mode == FLOOD) {
        static char json[FLOOD_BYTES / 3 * 4 + 64] = "{\"event\":{\"data\":{\"stdout\":\"";
        size_t used = strlen(json);

        memset(json + used, 'A', FLOOD_BYTES / 3 * 4);
        memcpy(json + used + FLOOD_BYTES / 3 * 4, "\"}}}", 5);
        for (int i = 0; i < FLOOD_FRAMES && chunk(fd, json, 0); i++) {
        }
        json[used] = '\0';
    }
    poll(&gone, 1, 2 * LONG_MS);
}

static void serve(httpd *server, int fd, int connection)
{
    scene *s = server->data;
    httpd_request request;

    (void)connection;
    while (httpd_read(server, fd, &request)) {
        if (strstr(request.head, "/Start ") != NULL) {
            free(request.body);
            serve_start(s, fd);
            return;
        }
        if (strstr(request.head, "/SendInput ") != NULL) {
            int at = atomic_load(&s->inputs);

            if (at < 4) {
                snprintf(s->input[at], sizeof s->input[at], "%.*s", (int)request.body_len,
                         request.body);
            }
            atomic_fetch_add(&s->inputs, 1);
            for (int i = 0; i < LONG_MS / 10 && atomic_load(&s->hold); i++) {
                poll(NULL, 0, 10);
            }
        }
        free(request.body);
        httpd_reply(fd, 200, "Content-Type: application/json\r\n", "{}");
    }
}

static void on_bytes(void *userdata, waldo_str bytes)
{
    scene *s = userdata;

    s->bytes += bytes.len;
    if (s->close_at_bytes) {
        s->channel->ops->close(s->channel);
        s->channel = NULL;
    }
}

static void on_drained(void *userdata)
{
    ((scene *)userdata)->drained++;
}

static void on_closed(void *userdata, waldo_status status, const waldo_error *error)
{
    scene *s = userdata;

    s->status = status;
    snprintf(s->message, sizeof s->message, "%s", waldo_error_message(error));
}

static void on_opened(void *userdata, waldo_status status, const waldo_error *error)
{
    scene *s = userdata;

    s->opened++;
    on_closed(s, status, error);
    if (status == WALDO_OK) {
        s->channel = waldo__e2b_channel_base(s->made);
        s->channel->ops->listen(s->channel,
                                &(waldo_channel_events){ .size = sizeof(waldo_channel_events),
                                                         .userdata = s,
                                                         .on_bytes = on_bytes,
                                                         .on_drained = on_drained,
                                                         .on_closed = on_closed });
    }
}

static void begin_with(scene *s, mode how, int64_t start_ms, int64_t idle_ms)
{
    e2b_place place = { .id = "i1", .user = "user" };
    const e2b_channel_options options = {
        .hand = "/tmp/h", .address = "waldo-x", .start_ms = start_ms, .idle_ms = idle_ms
    };

    memset(s, 0, sizeof *s);
    s->mode = how;
    s->idle_ms = idle_ms;
    assert_int_equal(httpd_start(&s->server, serve, s, NULL), 0);
    assert_int_equal(waldo__loop_new(&s->loop, NULL), WALDO_OK);
    assert_int_equal(waldo__secrets_new(&s->secrets, NULL), WALDO_OK);
    assert_int_equal(waldo__http_new(s->loop, s->secrets, NULL, &s->http, NULL), WALDO_OK);
    s->env = (waldo_backend_env){
        .size = sizeof s->env, .loop = s->loop, .http = s->http, .secrets = s->secrets
    };
    place.env = &s->env;
    snprintf(place.envd, sizeof place.envd, "%s", s->server.url);
    assert_int_equal(waldo__e2b_channel_new(&place, &options, on_opened, s, &s->made), WALDO_OK);
}

/* Where silence is not what it is about. */
static void begin(scene *s, mode how)
{
    begin_with(s, how, LONG_MS, LONG_MS);
}

static void end(scene *s)
{
    if (s->channel != NULL) {
        s->channel->ops->close(s->channel);
    } else if (s->status != WALDO_OK) {
        waldo__e2b_channel_free(s->made);
    }
    waldo__http_free(s->http);
    waldo__loop_free(s->loop);
    waldo__secrets_free(s->secrets);
    httpd_stop(&s->server);
}

/* Until it holds, or for a time in which it must not. */
#define DRIVE(s, condition, ms)                                                                    \
    do {                                                                                           \
        int64_t until = waldo__deadline_ns(ms);                                                    \
        while (!(condition) && waldo__now_ns() < until) {                                          \
            waldo__loop_round((s)->loop, waldo__deadline_ns(50), 0);                               \
        }                                                                                          \
    } while (0)

/* Silence is measured by the clock: a machine that stands still for so long is given more of it. */
static const int64_t idles_ms[] = { 400, 3200, 25600 };

static void silence_breaks_it(void **state)
{
    scene s;

    (void)state;
    begin_with(&s, SILENT, LONG_MS, idles_ms[0]);
    DRIVE(&s, s.opened, 2 * LONG_MS);
    for (size_t i = 1; i < WALDO__COUNT(idles_ms) && s.status != WALDO_OK; i++) {
        end(&s);
        begin_with(&s, SILENT, LONG_MS, idles_ms[i]);
        DRIVE(&s, s.opened, 2 * LONG_MS);
    }
    assert_int_equal(s.status, WALDO_OK);
    DRIVE(&s, s.status != WALDO_OK, 2 * LONG_MS);
    assert_int_equal(s.status, WALDO_EUNAVAILABLE);
    assert_non_null(strstr(s.message, "silent"));
    assert_int_equal(s.channel->ops->send(s.channel, waldo__str("x")), WALDO_ECLOSED);
    end(&s);
}

static void keepalives_hold_it(void **state)
{
    scene s;

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(idles_ms); i++) {
        begin_with(&s, ALIVE, LONG_MS, idles_ms[i]);
        DRIVE(&s, s.bytes > 0 || (s.opened && s.status != WALDO_OK), 3 * LONG_MS);
        if (s.status == WALDO_OK || i + 1 == WALDO__COUNT(idles_ms)) {
            break;
        }
        end(&s);
    }
    assert_int_equal(s.status, WALDO_OK);
    assert_int_equal(s.bytes, 4);
    end(&s);
}

static void no_start(void **state)
{
    scene s;

    (void)state;
    begin_with(&s, NO_START, 1000, LONG_MS);
    DRIVE(&s, s.opened, LONG_MS);
    assert_int_equal(s.opened, 1);
    assert_int_equal(s.status, WALDO_EUNAVAILABLE);
    end(&s);
}

/* A reader that stands still takes nothing, loses nothing, and is not thought dead. */
static void a_stalled_reader(void **state)
{
    const size_t all = (size_t)FLOOD_FRAMES * (FLOOD_BYTES / 3 * 3);
    size_t before;
    scene s;

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(idles_ms); i++) {
        begin_with(&s, FLOOD, LONG_MS, idles_ms[i]);
        DRIVE(&s, s.bytes > 0 || (s.opened && s.status != WALDO_OK), LONG_MS);
        if (s.bytes > 0) {
            s.channel->ops->pause(s.channel, 1);
            before = s.bytes;
            DRIVE(&s, s.status != WALDO_OK, 3 * idles_ms[i]);
            assert_int_equal(s.status, WALDO_OK);
            assert_int_equal(s.bytes, before);
            assert_true(before < (size_t)FLOOD_FRAMES * FLOOD_BYTES / 2);
            s.channel->ops->pause(s.channel, 0);
            DRIVE(&s, s.bytes == all || s.status != WALDO_OK, LONG_MS);
        }
        if (s.status == WALDO_OK || i + 1 == WALDO__COUNT(idles_ms)) {
            break;
        }
        end(&s);
    }
    assert_int_equal(s.bytes, all);
    end(&s);
}

/* What one round sends is one request; so is what gathers while it is on its way. */
static void pieces(void **state)
{
    scene s;

    (void)state;
    begin(&s, ALIVE);
    DRIVE(&s, s.opened, LONG_MS);
    atomic_store(&s.hold, 1);
    assert_int_equal(s.channel->ops->send(s.channel, waldo__str("ab")), WALDO_OK);
    assert_int_equal(s.channel->ops->send(s.channel, waldo__str("c")), WALDO_OK);
    DRIVE(&s, atomic_load(&s.inputs) == 1, LONG_MS);
    assert_int_equal(s.channel->ops->send(s.channel, waldo__str("d")), WALDO_OK);
    assert_int_equal(s.channel->ops->send(s.channel, waldo__str("ef")), WALDO_OK);
    DRIVE(&s, atomic_load(&s.inputs) > 1, 100);
    assert_int_equal(atomic_load(&s.inputs), 1);
    assert_int_equal(s.channel->ops->queued(s.channel), 6);
    atomic_store(&s.hold, 0);
    DRIVE(&s, s.drained > 0, LONG_MS);
    assert_int_equal(atomic_load(&s.inputs), 2);
    assert_int_equal(s.drained, 1);
    assert_int_equal(s.channel->ops->queued(s.channel), 0);
    assert_string_equal(s.input[0], "{\"process\":{\"pid\":7},\"input\":{\"stdin\":\"YWJj\"}}");
    assert_string_equal(s.input[1], "{\"process\":{\"pid\":7},\"input\":{\"stdin\":\"ZGVm\"}}");
    end(&s);
}

static void closed_from_inside(void **state)
{
    scene s;

    (void)state;
    begin(&s, FLOOD);
    s.close_at_bytes = 1;
    DRIVE(&s, s.bytes > 0, LONG_MS);
    assert_null(s.channel);
    DRIVE(&s, 0, 50);
    end(&s);
}

static void on_asked(void *userdata, waldo_status status, const waldo_error *error)
{
    scene *s = userdata;

    s->opened++;
    on_closed(s, status, error);
}

/* One part that did not fit, and nothing leaves; then the call is as good as new. */
static void what_is_not_whole_is_not_sent(void **state)
{
    static char body[2 * 1024 * 1024];
    static char text[20000];
    const char *const almost = text + sizeof text - 8190; /* leaves no room for a host */
    const struct {
        const char *path;
        const char *type;
        size_t body_len;
        waldo_status status;
    } cases[] = { { "/x", "text/plain", sizeof body, WALDO_ETOOBIG },
                  { text, "text/plain", 1, WALDO_ETOOBIG },
                  { almost, "text/plain", 1, WALDO_ETOOBIG },
                  { "/x", text, 1, WALDO_ETOOBIG },
                  { "/x", "text/plain", 1, WALDO_OK } };
    waldo__api_request request = { .method = "POST", .what = "asking", .kind = E2B_DAEMON };
    e2b_place place = { 0 };
    waldo__api_call call;
    int before;
    scene s;

    (void)state;
    memset(text, '/', sizeof text - 1);
    begin(&s, SILENT);
    DRIVE(&s, s.opened, LONG_MS);
    before = atomic_load(&s.server.requests);
    place.env = &s.env;
    snprintf(place.envd, sizeof place.envd, "%s", s.server.url);
    waldo__e2b_call_init(&call, &place, &s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request.path = cases[i].path;
        request.type = cases[i].type;
        waldo__buf_clear(&call.body);
        waldo__buf_add(&call.body, body, cases[i].body_len);
        s.opened = 0;
        waldo__api_call_start(&call, &request, on_asked);
        assert_int_equal(s.opened, 0); /* only from the run queue */
        waldo__api_tell(call.api, &s.env, &place, &request, "");
        DRIVE(&s, s.opened, LONG_MS);
        assert_int_equal(s.opened, 1);
        assert_int_equal(s.status, cases[i].status);
    }
    DRIVE(&s, atomic_load(&s.server.requests) >= before + 3, LONG_MS);
    /* Both of the last, and the first case's that only the call's body made too large. */
    assert_int_equal(atomic_load(&s.server.requests), before + 3);
    waldo__api_call_free(&call);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_breaks_it),
        cmocka_unit_test(keepalives_hold_it),
        cmocka_unit_test(no_start),
        cmocka_unit_test(a_stalled_reader),
        cmocka_unit_test(pieces),
        cmocka_unit_test(closed_from_inside),
        cmocka_unit_test(what_is_not_whole_is_not_sent),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
