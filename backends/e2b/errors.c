/* What an answer that is no success means: tables of HTTP statuses and of Connect's codes. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "e2b.h"

enum { WORDS_MAX = 2048, SAID_MAX = 1000 };

/* in_sandbox -1: wherever it comes from. */
static const struct rule {
    int http;
    int in_sandbox;
    waldo_status status;
    const char *advice;
} rules[] = {
    { 400, -1, WALDO_EINVAL, "" },
    { 401, 0, WALDO_EAUTH, "; check the key " E2B_KEY },
    { 401, 1, WALDO_EAUTH, "; the sandbox's access token was refused" },
    { 403, -1, WALDO_EACCESS, "" },
    { 404, -1, WALDO_ENOTFOUND, "" },
    { 409, -1, WALDO_EBUSY, "" },
    { 429, -1, WALDO_ERATE, "; too many requests for now" },
    { 500, -1, WALDO_EPROVIDER, "" },
    { 502, 0, WALDO_EUNAVAILABLE, "" },
    { 502, 1, WALDO_ELOST, "; it was killed or paused, or its time was over" },
    { 503, -1, WALDO_EUNAVAILABLE, "; the provider has no room just now" },
    { 504, -1, WALDO_EUNAVAILABLE, "; the provider took too long" },
    { 507, -1, WALDO_ENOSPACE, "" },
};

/* Connect protocol reference, "Error codes". */
static const struct {
    const char *code;
    waldo_status status;
} codes[] = {
    { "canceled", WALDO_ECANCELED },
    { "unknown", WALDO_EPROVIDER },
    { "invalid_argument", WALDO_EINVAL },
    { "deadline_exceeded", WALDO_ETIMEDOUT },
    { "not_found", WALDO_ENOTFOUND },
    { "already_exists", WALDO_EEXISTS },
    { "permission_denied", WALDO_EACCESS },
    { "resource_exhausted", WALDO_ERATE },
    { "failed_precondition", WALDO_EINVAL },
    { "aborted", WALDO_EBUSY },
    { "out_of_range", WALDO_EINVAL },
    { "unimplemented", WALDO_ENOTSUP },
    { "internal", WALDO_EPROVIDER },
    { "unavailable", WALDO_EUNAVAILABLE },
    { "data_loss", WALDO_EIO },
    { "unauthenticated", WALDO_EAUTH },
};

static waldo_status by_code(waldo_str code, waldo_status otherwise)
{
    for (size_t i = 0; i < WALDO__COUNT(codes); i++) {
        if (waldo__str_is(code, codes[i].code)) {
            return codes[i].status;
        }
    }
    return otherwise;
}

/* A provider may quote what it was sent. */
static void put_said(const e2b_call *call, waldo_str said, waldo__buf *out)
{
    said = waldo__str_trim(said);
    waldo__scrub(call->place->env->secrets, said, out);
    if (out->len > SAID_MAX) {
        waldo__buf_truncate(out, SAID_MAX);
    }
}

/* No answer at all. What happened to one that may have been carried out stays unknown. */
static waldo_status not_reached(const e2b_call *call, waldo_status status, const waldo_error *error,
                                waldo_error **ret_err)
{
    static const waldo_status down[] = { WALDO_ETIMEDOUT,      WALDO_ETIMEDOUT_CONNECT,
                                         WALDO_ETIMEDOUT_IDLE, WALDO_ETIMEDOUT_DEADLINE,
                                         WALDO_ERESOLVE,       WALDO_ECONNECT,
                                         WALDO_ETRANSPORT,     WALDO_ETRUNCATED };
    const char *why = error != NULL ? waldo_error_message(error) : waldo_status_text(status);

    for (size_t i = 0; i < WALDO__COUNT(down); i++) {
        if (status == down[i]) {
            return waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_TRANSPORT,
                                   "e2b: %s: the provider cannot be reached: %s",
                                   call->request.what, why);
        }
    }
    return waldo_error_set(ret_err, status, WALDO_CLASS_TRANSPORT, "e2b: %s: %s",
                           call->request.what, why);
}

waldo_status waldo__e2b_call_error(const e2b_call *call, waldo_status status,
                                   const waldo_error *error, waldo_error **ret_err)
{
    const waldo__ask *ask = &call->ask;
    waldo_str head = waldo__buf_str(&ask->head);
    int64_t wait_ms = waldo__header_retry_after_ms(head, waldo__wall_ms());
    waldo__buf said = WALDO__BUF_INIT(WORDS_MAX * 64);
    waldo__json *doc = NULL;
    waldo_str trace = { "", 0 };
    waldo_str message;
    waldo_str code;
    const char *advice = "";

    if (status != WALDO_OK) {
        return not_reached(call, status, error, ret_err);
    }
    waldo__json_parse(waldo__buf_str(&ask->answer), NULL, &doc, NULL);
    message = waldo__json_get_str(waldo__json_root(doc), "message");
    code = waldo__json_get_str(waldo__json_root(doc), "error_code");
    code = code.len > 0 ? code : waldo__json_get_str(waldo__json_root(doc), "code");
    put_said(call, doc != NULL ? message : waldo__buf_str(&ask->answer), &said);
    waldo__header_get(head, "X-E2B-Trace-ID", &trace);
    status = WALDO_EHTTP;
    for (size_t i = 0; i < WALDO__COUNT(rules); i++) {
        if (rules[i].http == ask->http_status &&
            (rules[i].in_sandbox < 0 || rules[i].in_sandbox == call->request.in_sandbox)) {
            status = rules[i].status;
            advice = rules[i].advice;
        }
    }
    if (ask->http_status == 429 && wait_ms < 0 && !call->request.in_sandbox) {
        status = WALDO_EQUOTA;
        advice =
            "; end sandboxes that are not needed (waldo ps, waldo gc), or have the limit raised";
    }
    status = by_code(code, status);
    waldo_error_set(ret_err, status, WALDO_CLASS_PROVIDER, "e2b: %s: HTTP status %d%s%s%s",
                    call->request.what, ask->http_status, said.len > 0 ? ": " : "",
                    waldo__buf_str(&said).ptr, advice);
    if (ret_err != NULL) {
        waldo__buf_clear(&said);
        put_said(call, trace, &said);
        waldo_error_add_http(*ret_err, ask->http_status, code.len > 0 ? code.ptr : NULL,
                             said.len > 0 ? waldo__buf_str(&said).ptr : NULL, wait_ms);
    }
    waldo__json_free(doc);
    waldo__buf_free(&said);
    return status;
}

waldo_status waldo__e2b_end_error(const e2b_call *call, waldo_str message, waldo_error **ret_err)
{
    waldo__buf said = WALDO__BUF_INIT(WORDS_MAX * 64);
    waldo__json *doc = NULL;
    const waldo__json_value *found;
    waldo_status status = waldo__json_parse(message, NULL, &doc, ret_err);
    waldo_str code;

    found = waldo__json_get(waldo__json_root(doc), "error");
    if (status == WALDO_OK && found != NULL) {
        code = waldo__json_get_str(found, "code");
        status = by_code(code, WALDO_EPROVIDER);
        put_said(call, waldo__json_get_str(found, "message"), &said);
        waldo_error_set(ret_err, status, WALDO_CLASS_PROVIDER, "e2b: %s: %.*s: %s",
                        call->request.what, (int)(code.len & 63), code.ptr,
                        waldo__buf_str(&said).ptr);
        if (ret_err != NULL) {
            waldo_error_add_http(*ret_err, call->ask.http_status, code.ptr, NULL, -1);
        }
    }
    waldo__json_free(doc);
    waldo__buf_free(&said);
    return status;
}
