/*
 * Requests to a provider's API: which key and headers, what an answer means, what is tried again. A
 * backend says what its provider is, once, in a table.
 */
#ifndef WALDO_BACKEND_API_H
#define WALDO_BACKEND_API_H

#include "http/ask.h"
#include "json/json.h"
#include <waldo/sys/backend.h>

typedef struct waldo__api_request {
    const char *method;
    const char *path; /* NULL: the call's */
    const char *what; /* for errors: "creating the sandbox"; static */
    const char *type; /* of the body; NULL: JSON */
    const char *user; /* who is to do it in the machine; NULL: nobody */
    int kind;         /* the provider's own; 0 is the one that its key is for */
    waldo__replay replay;
    int64_t ms; /* 0: no limit of its own */
    int64_t idle_ms;
    int64_t deadline_ns; /* 0: none */
} waldo__api_request;

typedef struct waldo__api_rule {
    short http; /* status */
    short kind; /* -1: any */
    short status;
    const char *advice; /* "" or "; check ..." */
} waldo__api_rule;

typedef struct waldo__api {
    const char *name;             /* of the backend: before every message */
    const char *key;              /* name in the host's source of keys */
    const char *trace;            /* header that names a request */
    const char *quota;            /* advice for 429 that does not say when to come again */
    const waldo__api_rule *rules; /* what is other than usual */
    size_t rule_count;
    waldo_status (*by_code)(waldo_str code, waldo_status otherwise); /* NULL: none */
    /* Put the URL and the headers; which key it is may be set, too. place: of the call. */
    void (*fill)(const void *place, const waldo__api_request *request, waldo__buf *url,
                 waldo__buf *headers, waldo__http_request *ret_request);
} waldo__api;

/* error says all of an answer that is no success; the answer is in the call, to be freed or not. */
typedef void (*waldo__api_fn)(void *userdata, waldo_status status, const waldo_error *error);

typedef struct waldo__api_call {
    const waldo__api *api;
    const waldo_backend_env *env; /* NULL: was never made */
    const void *place;
    unsigned tries;
    int renewed;                                               /* the key was asked for anew */
    waldo_status (*on_bytes)(void *userdata, waldo_str bytes); /* of a stream */
    waldo__api_fn done;
    void *userdata;
    waldo__api_request request;
    waldo__buf body;
    waldo__buf path;
    waldo__timer timer; /* until it is tried again */
    waldo__ask ask;
} waldo__api_call;

void waldo__api_call_init(waldo__api_call *call, const waldo__api *api,
                          const waldo_backend_env *env, const void *place, void *userdata);
void waldo__api_call_free(waldo__api_call *call); /* nothing is called any more; may be reused */

/*
 * Send call->body; one that is not whole ends with its status. 429 that says when to come again is
 * waited for; 401 gets one other key.
 */
void waldo__api_call_start(waldo__api_call *call, const waldo__api_request *request,
                           waldo__api_fn done);

/* Nobody waits for the answer; it may get lost with the runtime. */
void waldo__api_tell(const waldo__api *api, const waldo_backend_env *env, const void *place,
                     const waldo__api_request *request, const char *body);

/* What a call was answered, for its done. */
typedef struct waldo__api_answer {
    waldo_status status;
    const waldo_error *error;
    const waldo__json_value *root; /* NULL: it is a failure */
    waldo__json *doc;
    waldo_error *made;
} waldo__api_answer;

/* Of a success its JSON; what is none is a failure. The call may be used again, or freed, then. */
void waldo__api_read(const waldo__api_call *call, waldo_status status, const waldo_error *error,
                     waldo__api_answer *ret_answer);
void waldo__api_answer_free(waldo__api_answer *answer);

/* Append what a provider said, without the keys it may quote, cut to a thousand bytes. */
void waldo__api_put_said(const waldo__api_call *call, waldo_str said, waldo__buf *out);

#endif
