#include "backend/api.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"

enum {
    BODY_MAX = 1024 * 1024,
    ANSWER_MAX = 16 * 1024 * 1024,
    TEXT_MAX = 8192,
    SAID_MAX = 1000,
    TRIES = 6,
    WAIT_MAX_MS = 60000
};

/* ---- what an answer means ---- */

void waldo__api_put_said(const waldo__api_call *call, waldo_str said, waldo__buf *out)
{
    size_t before = out->len;

    waldo__scrub(call->env->secrets, waldo__str_trim(said), out);
    waldo__buf_truncate(out, before + SAID_MAX);
}

/* No answer at all. What happened to a request that may have been carried out stays unknown. */
static waldo_status not_reached(const waldo__api_call *call, waldo_status status,
                                const waldo_error *error, waldo_error **ret_err)
{
    static const waldo_status down[] = { WALDO_ETIMEDOUT,      WALDO_ETIMEDOUT_CONNECT,
                                         WALDO_ETIMEDOUT_IDLE, WALDO_ETIMEDOUT_DEADLINE,
                                         WALDO_ERESOLVE,       WALDO_ECONNECT,
                                         WALDO_ETRANSPORT,     WALDO_ETRUNCATED };

    for (size_t i = 0; i < WALDO__COUNT(down); i++) {
        status = status == down[i] ? WALDO_EUNAVAILABLE : status;
    }
    return waldo_error_set(ret_err, status, WALDO_CLASS_TRANSPORT, "%s: %s: %s%s", call->api->name,
                           call->request.what,
                           status == WALDO_EUNAVAILABLE ? "the provider cannot be reached: " : "",
                           waldo__error_text(status, error));
}

/* What a status means everywhere; the key's name stands behind the first one's advice. */
static const waldo__api_rule usual[] = {
    { 401, 0, WALDO_EAUTH, "; check the key " },
    { 400, -1, WALDO_EINVAL, "" },
    { 401, -1, WALDO_EAUTH, "" },
    { 403, -1, WALDO_EACCESS, "" },
    { 404, -1, WALDO_ENOTFOUND, "" },
    { 409, -1, WALDO_EBUSY, "" },
    { 429, -1, WALDO_ERATE, "; too many requests for now" },
    { 500, -1, WALDO_EPROVIDER, "" },
    { 502, -1, WALDO_EUNAVAILABLE, "" },
    { 503, -1, WALDO_EUNAVAILABLE, "; the provider has no room just now" },
    { 504, -1, WALDO_EUNAVAILABLE, "; the provider took too long" },
    { 507, -1, WALDO_ENOSPACE, "" },
};

/* The first rule that fits; NULL: none. */
static const waldo__api_rule *find_rule(const waldo__api_call *call, const waldo__api_rule *rules,
                                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].http == call->ask.http_status &&
            (rules[i].kind < 0 || rules[i].kind == call->request.kind)) {
            return &rules[i];
        }
    }
    return NULL;
}

/* The provider's own rules count more. */
static const waldo__api_rule *rule_of(const waldo__api_call *call)
{
    static const waldo__api_rule none = { 0, -1, WALDO_EHTTP, "" };
    const waldo__api_rule *rule = find_rule(call, call->api->rules, call->api->rule_count);

    rule = rule != NULL ? rule : find_rule(call, usual, WALDO__COUNT(usual));
    return rule != NULL ? rule : &none;
}

static waldo_status refused(const waldo__api_call *call, waldo_error **ret_err)
{
    const waldo__api *api = call->api;
    const waldo__ask *ask = &call->ask;
    waldo_str head = waldo__buf_str(&ask->head);
    int64_t wait_ms = waldo__header_retry_after_ms(head, waldo__wall_ms());
    waldo__buf said = WALDO__BUF_INIT(ANSWER_MAX);
    waldo__buf trace = WALDO__BUF_INIT(TEXT_MAX);
    waldo__buf name = WALDO__BUF_INIT(ANSWER_MAX);
    waldo__json *doc = NULL;
    const waldo__json_value *root;
    const waldo__api_rule *rule = rule_of(call);
    waldo_status status = rule->status;
    const char *advice = rule->advice;
    waldo_str text = { "", 0 };
    waldo_str code;

    waldo__json_parse(waldo__buf_str(&ask->answer), NULL, &doc, NULL);
    root = waldo__json_root(doc);
    code = waldo__json_get_str(root, "error_code");
    code = code.len > 0 ? code : waldo__json_get_str(root, "code");
    waldo__api_put_said(
        call, doc != NULL ? waldo__json_get_str(root, "message") : waldo__buf_str(&ask->answer),
        &said);
    waldo__header_get(head, api->trace, &text);
    waldo__api_put_said(call, text, &trace);
    waldo__api_put_said(call, code, &name);
    if (ask->http_status == 429 && wait_ms < 0 && call->request.kind == 0) {
        status = WALDO_EQUOTA;
        advice = api->quota;
    }
    status = api->by_code != NULL ? api->by_code(code, status) : status;
    waldo_error_set(ret_err, status, WALDO_CLASS_PROVIDER, "%s: %s: HTTP status %d%s%s%s%s",
                    api->name, call->request.what, ask->http_status, said.len > 0 ? ": " : "",
                    waldo__buf_str(&said).ptr, advice, rule == &usual[0] ? api->key : "");
    waldo_error_add_http(ret_err != NULL ? *ret_err : NULL, ask->http_status,
                         name.len > 0 ? waldo__buf_str(&name).ptr : NULL,
                         trace.len > 0 ? waldo__buf_str(&trace).ptr : NULL, wait_ms);
    waldo__json_free(doc);
    waldo__buf_free(&said);
    waldo__buf_free(&trace);
    waldo__buf_free(&name);
    return status;
}

void waldo__api_read(const waldo__api_call *call, waldo_status status, const waldo_error *error,
                     waldo__api_answer *ret_answer)
{
    *ret_answer = (waldo__api_answer){ .status = status, .error = error };
    if (status == WALDO_OK) {
        ret_answer->status = waldo__json_parse_answer(waldo__buf_str(&call->ask.answer),
                                                      &ret_answer->doc, &ret_answer->made);
        ret_answer->error = ret_answer->made;
        ret_answer->root = waldo__json_root(ret_answer->doc);
    }
}

void waldo__api_answer_free(waldo__api_answer *answer)
{
    waldo__json_free(answer->doc);
    waldo_error_free(answer->made);
}

/* ---- sending ---- */

/* A failure: there was no memory or room for all of it. */
static waldo_status fill(const waldo__api *api, const void *place, const waldo__api_request *from,
                         const char *path, waldo__buf *url, waldo__buf *headers,
                         waldo__http_request *to)
{
    waldo__api_request request = *from;

    request.path = path;
    *to = (waldo__http_request){ .method = from->method,
                                 .auth_key = api->key,
                                 .replay = from->replay,
                                 .idle_timeout_ms = from->idle_ms,
                                 .deadline_ns = from->deadline_ns,
                                 .http2 = 1 };
    waldo__buf_puts(headers, "User-Agent: waldo\nContent-Type: ");
    waldo__buf_puts(headers, from->type != NULL ? from->type : "application/json");
    waldo__buf_putc(headers, '\n');
    api->fill(place, &request, url, headers, to);
    to->url = waldo__buf_str(url).ptr;
    to->headers = waldo__buf_str(headers);
    return url->status != WALDO_OK ? url->status : headers->status;
}

/* Both answers say that nothing was done. */
static int try_again(waldo__api_call *call)
{
    int64_t wait_ms, at;

    if (call->ask.http_status == 401 && call->request.kind == 0 && !call->renewed) {
        call->renewed = 1;
        return call->env->key(call->env, call->api->key, 1, NULL) == WALDO_OK &&
               waldo__timer_arm(call->env->loop, &call->timer, waldo__now_ns()) == WALDO_OK;
    }
    if (call->ask.http_status != 429) {
        return 0;
    }
    wait_ms = waldo__header_retry_after_ms(waldo__buf_str(&call->ask.head), waldo__wall_ms());
    at = waldo__deadline_ns(wait_ms);
    return wait_ms >= 0 && wait_ms <= WAIT_MAX_MS && at < call->request.deadline_ns &&
           ++call->tries < TRIES && waldo__timer_arm(call->env->loop, &call->timer, at) == WALDO_OK;
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__api_call *call = userdata;
    waldo_error *made = NULL;

    if (status == WALDO_OK && try_again(call)) {
        return;
    }
    if (status != WALDO_OK) {
        status = not_reached(call, status, error, &made);
    } else if (call->ask.http_status < 200 || call->ask.http_status > 299) {
        status = refused(call, &made);
    }
    call->done(call->userdata, status, made);
    waldo_error_free(made);
}

static waldo_status take_bytes(void *userdata, waldo_str bytes)
{
    waldo__api_call *call = userdata;

    return call->on_bytes(call->userdata, bytes);
}

static void ask(void *userdata)
{
    waldo__api_call *call = userdata;
    waldo__buf url = WALDO__BUF_INIT(TEXT_MAX);
    waldo__buf headers = WALDO__BUF_INIT(TEXT_MAX);
    waldo__http_request request;
    waldo_status status = fill(call->api, call->place, &call->request,
                               waldo__buf_str(&call->path).ptr, &url, &headers, &request);

    status = call->path.status != WALDO_OK ? call->path.status : status;
    request.body = waldo__buf_str(&call->body);
    call->ask.on_bytes = call->on_bytes != NULL ? take_bytes : NULL;
    waldo__ask_start(&call->ask, &request, status != WALDO_OK ? status : call->body.status,
                     on_done);
    waldo__buf_free(&url);
    waldo__buf_free(&headers);
}

void waldo__api_call_init(waldo__api_call *call, const waldo__api *api,
                          const waldo_backend_env *env, const void *place, void *userdata)
{
    *call = (waldo__api_call){ .api = api,
                               .env = env,
                               .place = place,
                               .body = WALDO__BUF_INIT(BODY_MAX),
                               .path = WALDO__BUF_INIT(TEXT_MAX),
                               .userdata = userdata };
    waldo__ask_init(&call->ask, env->loop, env->http, ANSWER_MAX, call);
    waldo__timer_init(&call->timer, ask, call);
}

void waldo__api_call_free(waldo__api_call *call)
{
    if (call->env != NULL) {
        waldo__timer_disarm(call->env->loop, &call->timer);
        waldo__ask_free(&call->ask);
        waldo__buf_free(&call->body);
        waldo__buf_free(&call->path);
    }
}

void waldo__api_call_start(waldo__api_call *call, const waldo__api_request *request,
                           waldo__api_fn done)
{
    int64_t own = request->ms > 0 ? waldo__deadline_ns(request->ms) : WALDO__NEVER;

    call->request = *request;
    if (request->deadline_ns == 0 || own < request->deadline_ns) {
        call->request.deadline_ns = own;
    }
    call->done = done;
    call->tries = 0;
    call->renewed = 0;
    if (request->path != NULL) {
        waldo__buf_clear(&call->path);
        waldo__buf_puts(&call->path, request->path);
    }
    ask(call);
}

void waldo__api_tell(const waldo__api *api, const waldo_backend_env *env, const void *place,
                     const waldo__api_request *about, const char *body)
{
    waldo__buf url = WALDO__BUF_INIT(TEXT_MAX);
    waldo__buf headers = WALDO__BUF_INIT(TEXT_MAX);
    waldo__http_request request;
    waldo__transfer *transfer;
    waldo_status status = fill(api, place, about, about->path, &url, &headers, &request);

    request.body = waldo__str(body);
    request.deadline_ns = waldo__deadline_ns(WAIT_MAX_MS);
    if (status == WALDO_OK) {
        waldo__http_start(env->http, &request, &transfer, NULL);
    }
    waldo__buf_free(&url);
    waldo__buf_free(&headers);
}
