/* What an error keeps of a provider's refusal, and which refusals are asked again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/httpd.h"
#include "backends/e2b/e2b.h"

#define KEY   "e2b_0123456789abcdef"
#define TRACE "X-E2B-Trace-ID: 0af7651916cd43dd\r\n"

typedef struct answer {
    int http;
    int kind;
    const char *headers;
    const char *body;
    waldo_status status;
    const char *code; /* "": none */
    const char *id;
    int64_t wait_ms;
    int requests; /* within twenty seconds */
    const char *words;
} answer;

typedef struct scene {
    httpd server;
    const answer *_Atomic now;
    waldo__loop *loop;
    waldo__secrets *secrets;
    waldo__http *http;
    waldo_backend_env env;
    int renewed;
    int over;
    waldo_status status;
    waldo_error *error;
} scene;

static scene s;

static void serve(httpd *server, int fd, int connection)
{
    httpd_request request;

    (void)connection;
    while (httpd_read(server, fd, &request)) {
        free(request.body);
        httpd_reply(fd, s.now->http, s.now->headers, s.now->body);
    }
}

static waldo_status renew(const waldo_backend_env *env, const char *name, int anew,
                          waldo_error **ret_err)
{
    (void)env;
    (void)ret_err;
    s.renewed += anew && strcmp(name, E2B_KEY) == 0;
    return WALDO_OK;
}

static void on_answer(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)userdata;
    s.over++;
    s.status = status;
    s.error = waldo_error_copy(error);
}

static int begin(void **state)
{
    (void)state;
    memset(&s, 0, sizeof s);
    if (waldo__loop_new(&s.loop, NULL) != WALDO_OK ||
        waldo__secrets_new(&s.secrets, NULL) != WALDO_OK ||
        waldo__secrets_put(s.secrets, E2B_KEY, waldo__str(KEY), 0) != WALDO_OK) {
        return -1;
    }
    s.env = (waldo_backend_env){
        .size = sizeof s.env, .loop = s.loop, .secrets = s.secrets, .key = renew
    };
    if (waldo__http_new(s.loop, s.secrets, NULL, &s.http, NULL) != WALDO_OK) {
        return -1;
    }
    s.env.http = s.http;
    return httpd_start(&s.server, serve, NULL, NULL);
}

static int end(void **state)
{
    (void)state;
    waldo__http_free(s.http);
    waldo__loop_free(s.loop);
    waldo__secrets_free(s.secrets);
    httpd_stop(&s.server);
    return 0;
}

/* One request with twenty seconds for it; the number of times it was sent. */
static int ask(const answer *from)
{
    const waldo__api_request request = { .method = "POST",
                                         .path = "/x",
                                         .what = "asking",
                                         .kind = from->kind,
                                         .replay = WALDO__REPLAY_NEVER,
                                         .ms = 20000 };
    int64_t until = waldo__deadline_ns(60000);
    e2b_place place = { .id = "i1", .env = &s.env };
    waldo__api_call call;
    int before = atomic_load(&s.server.requests);

    s.now = from;
    s.over = s.renewed = 0;
    snprintf(place.api, sizeof place.api, "%s", s.server.url);
    snprintf(place.envd, sizeof place.envd, "%s", s.server.url);
    waldo__e2b_call_init(&call, &place, NULL);
    waldo__api_call_start(&call, &request, on_answer);
    while (!s.over && waldo__now_ns() < until) {
        waldo__loop_round(s.loop, waldo__deadline_ns(50), 0);
    }
    waldo__api_call_free(&call);
    return atomic_load(&s.server.requests) - before;
}

static void refusals(void **state)
{
    static const answer rows[] = {
        { 400, 0, TRACE, "{\"code\":400,\"message\":\"bad \" }", WALDO_EINVAL, "",
          "0af7651916cd43dd", -1, 1, "asking: HTTP status 400: bad" },
        { 401, 0, "", "{\"code\":401,\"message\":\"who?\"}", WALDO_EAUTH, "", "", -1, 2,
          "check the key " E2B_KEY },
        { 401, 1, "", "{\"code\":401,\"message\":\"no\"}", WALDO_EAUTH, "", "", -1, 1,
          "access token was refused" },
        { 401, 1, "", "{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'zz'\"}",
          WALDO_EAUTH, "unauthenticated", "", -1, 1, "no such user" },
        { 403, 0, "", "{\"code\":403,\"message\":\"blocked\"}", WALDO_EACCESS, "", "", -1, 1,
          "blocked" },
        { 404, 0, "", "<html>", WALDO_ENOTFOUND, "", "", -1, 1, "404: <html>" },
        { 404, 1, "", "{\"code\":\"not_found\"}", WALDO_ENOTFOUND, "not_found", "", -1, 1, "404" },
        { 409, 1, "", "{\"message\":\"The sandbox is still transitioning.\",\"code\":409}",
          WALDO_EBUSY, "", "", -1, 1, "still transitioning" },
        { 409, 0, TRACE,
          "{\"code\":409,\"message\":\"m\",\"error_code\":\"sandbox_start_in_flight\"}",
          WALDO_EBUSY, "sandbox_start_in_flight", "0af7651916cd43dd", -1, 1, "409: m" },
        { 429, 0, "", "{\"code\":429,\"message\":\"maximum number\"}", WALDO_EQUOTA, "", "", -1, 1,
          "waldo gc" },
        { 429, 0, "Retry-After: 0\r\n", "{\"code\":429,\"message\":\"slow\"}", WALDO_ERATE, "", "",
          0, 6, "too many requests" },
        { 429, 0, "Retry-After: 60\r\n", "{}", WALDO_ERATE, "", "", 60000, 1, "429" },
        { 429, 1, "", "{\"message\":\"too many concurrent incoming connections\",\"code\":429}",
          WALDO_ERATE, "", "", -1, 1, "incoming connections" },
        { 500, 0, "", "{\"code\":500,\"message\":\"x\",\"error_code\":\"internal_server_error\"}",
          WALDO_EPROVIDER, "internal_server_error", "", -1, 1, "500: x" },
        { 502, 1, "",
          "{\"sandboxId\":\"i1\",\"message\":\"The sandbox was not found\",\"code\":502}",
          WALDO_ELOST, "", "", -1, 1, "its time was over" },
        { 502, 0, "", "", WALDO_EUNAVAILABLE, "", "", -1, 1, "502" },
        { 503, 0, TRACE,
          "{\"code\":503,\"message\":\"f\",\"error_code\":\"sandbox_capacity_unavailable\"}",
          WALDO_EUNAVAILABLE, "sandbox_capacity_unavailable", "0af7651916cd43dd", -1, 1,
          "no room just now" },
        { 504, 0, "", "{\"code\":504,\"error_code\":\"sandbox_placement_timeout\"}",
          WALDO_EUNAVAILABLE, "sandbox_placement_timeout", "", -1, 1, "took too long" },
        { 507, 1, "", "{\"code\":507,\"message\":\"not enough disk space available\"}",
          WALDO_ENOSPACE, "", "", -1, 1, "disk space" },
        { 418, 0, "", "{}", WALDO_EHTTP, "", "", -1, 1, "418" },
        { 400, 0, "X-E2B-Trace-ID: " KEY "\r\n",
          "{\"message\":\"" KEY "\",\"error_code\":\"" KEY "\"}", WALDO_EINVAL, "[" E2B_KEY "]",
          "[" E2B_KEY "]", -1, 1, "400: [" E2B_KEY "]" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int requests = ask(&rows[i]);

        assert_int_equal(s.over, 1);
        assert_int_equal(s.status, rows[i].status);
        assert_int_equal(waldo_error_status(s.error), rows[i].status);
        assert_int_equal(waldo_error_get_class(s.error), WALDO_CLASS_PROVIDER);
        assert_int_equal(waldo_error_http_status(s.error), rows[i].http);
        assert_string_equal(waldo_error_provider_code(s.error), rows[i].code);
        assert_string_equal(waldo_error_request_id(s.error), rows[i].id);
        assert_int_equal(waldo_error_retry_after_ms(s.error), rows[i].wait_ms);
        assert_non_null(strstr(waldo_error_message(s.error), rows[i].words));
        assert_int_equal(requests, rows[i].requests);
        assert_int_equal(s.renewed, rows[i].http == 401 && rows[i].kind == 0);
        waldo_error_free(s.error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refusals, begin, end),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
