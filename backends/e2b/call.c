/* Requests: the key and the routing of each, and what may be tried again. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/header.h"
#include "e2b.h"

enum {
    BODY_MAX = 1024 * 1024,
    ANSWER_MAX = 16 * 1024 * 1024,
    PATH_MAX_LEN = 4096,
    TRIES = 6,
    WAIT_MAX_MS = 60000
};

/*
 * Four domains have one host for every sandbox, routed by headers; elsewhere each has its own. What
 * the official client does (e2b 2.51, ConnectionConfig).
 */
static void put_daemon(const e2b_place *place, waldo__buf *out)
{
    static const char *const shared[] = { "e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev" };

    for (size_t i = 0; i < WALDO__COUNT(shared) && place->envd[0] == '\0'; i++) {
        if (strcmp(place->domain, shared[i]) == 0) {
            waldo__buf_printf(out, "https://sandbox.%s", place->domain);
            return;
        }
    }
    if (place->envd[0] != '\0') {
        waldo__buf_puts(out, place->envd);
    } else {
        waldo__buf_printf(out, "https://49983-%s.%s", place->id, place->domain);
    }
}

static void put_headers(const e2b_place *place, const e2b_request *request, waldo__buf *out)
{
    waldo__buf user = WALDO__BUF_INIT(E2B_WORD_MAX + 1);

    waldo__buf_printf(out, "User-Agent: waldo\nContent-Type: %s\n",
                      request->type != NULL ? request->type : "application/json");
    if (request->in_sandbox) {
        waldo__buf_printf(out,
                          "E2b-Sandbox-Id: %s\nE2b-Sandbox-Port: 49983\n"
                          "Connect-Protocol-Version: 1\n",
                          place->id);
    }
    if (request->user != NULL) {
        waldo__buf_printf(&user, "%s:", request->user);
        waldo__buf_puts(out, "Authorization: Basic ");
        waldo__base64(waldo__buf_str(&user), out);
        waldo__buf_putc(out, '\n');
    }
    if (request->idle_ms > 0) {
        waldo__buf_printf(
            out, "Keepalive-Ping-Interval: %lld\n",
            (long long)(request->idle_ms > 2000 ? request->idle_ms / 7 * 3 / 1000 : 1));
    }
    waldo__buf_free(&user);
}

/* Everything but who is told. */
static void fill(const e2b_place *place, const e2b_request *from, const char *path, waldo_str body,
                 waldo__buf *url, waldo__buf *headers, waldo__http_request *to)
{
    const char *token = place->token[0] != '\0' ? place->token : NULL;

    if (from->in_sandbox) {
        put_daemon(place, url);
    } else {
        waldo__buf_puts(url, place->api);
    }
    waldo__buf_puts(url, path);
    put_headers(place, from, headers);
    *to = (waldo__http_request){ .method = from->method,
                                 .url = waldo__buf_str(url).ptr,
                                 .headers = waldo__buf_str(headers),
                                 .body = body,
                                 .auth_header = from->in_sandbox ? "X-Access-Token" : "X-API-Key",
                                 .auth_key = from->in_sandbox ? token : E2B_KEY,
                                 .replay = from->replay,
                                 .idle_timeout_ms = from->idle_ms,
                                 .deadline_ns = from->deadline_ns,
                                 .http2 = 1 };
}

static void ask_again(void *userdata);

static waldo_status take_bytes(void *userdata, waldo_str bytes)
{
    e2b_call *call = userdata;

    return call->on_bytes(call->userdata, bytes);
}

/* Both answers say that nothing was done. */
static int try_again(e2b_call *call)
{
    const waldo_backend_env *env = call->place->env;
    int64_t wait_ms =
        waldo__header_retry_after_ms(waldo__buf_str(&call->ask.head), waldo__wall_ms());
    int64_t at = waldo__deadline_ns(wait_ms);

    if (call->ask.http_status == 401 && !call->request.in_sandbox && !call->renewed) {
        call->renewed = 1;
        at = waldo__now_ns();
        return env->key(env, E2B_KEY, 1, NULL) == WALDO_OK &&
               waldo__timer_arm(env->loop, &call->timer, at) == WALDO_OK;
    }
    return call->ask.http_status == 429 && wait_ms >= 0 && wait_ms <= WAIT_MAX_MS &&
           at < call->request.deadline_ns && ++call->tries < TRIES &&
           waldo__timer_arm(env->loop, &call->timer, at) == WALDO_OK;
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_call *call = userdata;
    waldo_error *made = NULL;

    if (status == WALDO_OK && try_again(call)) {
        return;
    }
    if (status != WALDO_OK || call->ask.http_status < 200 || call->ask.http_status > 299) {
        status = waldo__e2b_call_error(call, status, error, &made);
    }
    call->done(call->userdata, status, made);
    waldo_error_free(made);
}

static void ask_again(void *userdata)
{
    e2b_call *call = userdata;
    waldo__buf url = WALDO__BUF_INIT(PATH_MAX_LEN + E2B_URL_MAX);
    waldo__buf headers = WALDO__BUF_INIT(PATH_MAX_LEN);
    waldo__http_request request;

    fill(call->place, &call->request, waldo__buf_str(&call->path).ptr, waldo__buf_str(&call->body),
         &url, &headers, &request);
    call->ask.on_bytes = call->on_bytes != NULL ? take_bytes : NULL;
    waldo__ask_start(&call->ask, &request, on_done);
    waldo__buf_free(&url);
    waldo__buf_free(&headers);
}

void waldo__e2b_call_init(e2b_call *call, const e2b_place *place, void *userdata)
{
    *call = (e2b_call){ .place = place,
                        .body = WALDO__BUF_INIT(BODY_MAX),
                        .path = WALDO__BUF_INIT(PATH_MAX_LEN),
                        .userdata = userdata };
    waldo__ask_init(&call->ask, place->env->loop, place->env->http, ANSWER_MAX, call);
    waldo__timer_init(&call->timer, ask_again, call);
}

void waldo__e2b_call_free(e2b_call *call)
{
    if (call->place == NULL) {
        return;
    }
    waldo__timer_disarm(call->place->env->loop, &call->timer);
    waldo__ask_free(&call->ask);
    waldo__buf_free(&call->body);
    waldo__buf_free(&call->path);
}

void waldo__e2b_call_start(e2b_call *call, const e2b_request *request, e2b_call_fn done)
{
    int64_t own = request->ms > 0 ? waldo__deadline_ns(request->ms) : WALDO__NEVER;

    call->request = *request;
    if (request->deadline_ns == 0 || own < request->deadline_ns) {
        call->request.deadline_ns = own;
    }
    call->done = done;
    call->tries = 0;
    call->renewed = 0;
    waldo__buf_clear(&call->path);
    waldo__buf_puts(&call->path, request->path);
    ask_again(call);
}

void waldo__e2b_tell(const e2b_place *place, const char *method, const char *what, const char *body)
{
    waldo__buf path = WALDO__BUF_INIT(PATH_MAX_LEN);
    waldo__buf url = WALDO__BUF_INIT(PATH_MAX_LEN);
    waldo__buf headers = WALDO__BUF_INIT(PATH_MAX_LEN);
    const e2b_request about = { .method = method,
                                .replay = WALDO__REPLAY_SAFE,
                                .deadline_ns = waldo__deadline_ns(E2B_QUICK_MS) };
    waldo__http_request request;
    waldo__transfer *transfer;

    waldo__buf_printf(&path, "/sandboxes/%s%s", place->id, what);
    fill(place, &about, waldo__buf_str(&path).ptr, waldo__str(body), &url, &headers, &request);
    waldo__http_start(place->env->http, &request, &transfer, NULL);
    waldo__buf_free(&path);
    waldo__buf_free(&url);
    waldo__buf_free(&headers);
}

waldo_status waldo__e2b_parse(const e2b_call *call, waldo__json **ret_doc, waldo_error **ret_err)
{
    const waldo__json_limits limits = { .allow_duplicates = 1, .repair_surrogates = 1 };
    waldo_status status =
        waldo__json_parse(waldo__buf_str(&call->ask.answer), &limits, ret_doc, ret_err);

    if (status != WALDO_OK && ret_err != NULL) {
        waldo__error_prefix(*ret_err, call->request.what);
    }
    return status;
}
