/*
 * HTTP on the loop (the only code that touches curl): a hidden set of multi handles of at most 256
 * transfers, redirects off, TLS verified, every descriptor close-on-exec, quick exit, and a stated
 * replay policy for every request.
 */
#ifndef WALDO_HTTP_HTTP_H
#define WALDO_HTTP_HTTP_H

#include "loop/loop.h"
#include "secret/secret.h"
#include <waldo/cancel.h>

typedef struct waldo__http waldo__http;
typedef struct waldo__transfer waldo__transfer;

typedef struct waldo__http_options {
    const char *proxy;             /* NULL or "env", "none", URL */
    const char *ca_file;           /* NULL: the system's */
    int curl_ready;                /* the host has initialised libcurl */
    int allow_plain;               /* http:// beyond loopback */
    uint32_t max_host_connections; /* 0: no limit */
} waldo__http_options;

waldo_status waldo__http_new(waldo__loop *loop, waldo__secrets *secrets,
                             const waldo__http_options *options, waldo__http **ret_http,
                             waldo_error **ret_err);
void waldo__http_free(waldo__http *http); /* transfers end without completion */

/* What may happen when a connection dies (law 2). */
typedef enum waldo__replay {
    WALDO__REPLAY_NEVER,     /* once sent, its outcome is unknown: WALDO_EUNKNOWN_OUTCOME */
    WALDO__REPLAY_IF_UNSENT, /* again only when the server cannot have seen it */
    WALDO__REPLAY_SAFE       /* again at will */
} waldo__replay;

/* The answer's head, given once before the first body bytes. Borrowed for the call. */
typedef struct waldo__http_head {
    int status;
    waldo_str headers; /* "Name: value\n" lines, at most 64 KiB: see base/header.h */
} waldo__http_head;

typedef struct waldo__http_request {
    const char *method; /* "GET", "POST", ... */
    const char *url;
    waldo_str headers;       /* "Name: value\n" lines */
    waldo_str body;          /* borrowed until done */
    const char *auth_header; /* header that gets auth_prefix + the key; NULL: none */
    const char *auth_prefix;
    const char *auth_key;    /* name in the secrets */
    const char *unix_socket; /* NULL: TCP */
    int public_only;         /* 1: refuse loopback, private and link-local addresses when connecting
                                (WALDO_EACCESS), and use no proxy */
    waldo__replay replay;
    int64_t connect_timeout_ms; /* 0: 10 s */
    int64_t idle_timeout_ms;    /* longest silence of the peer; 0: none */
    int64_t deadline_ns;        /* monotonic; 0: none */
    uint64_t max_body;          /* 0: no limit, for streams that on_body consumes */
    int http2;                  /* 1: HTTP/2 over TLS where the server has it */
    int compressed;             /* 1: accept compression; never for event streams */
    void *userdata;
    /* All three from the run queue. A failure of on_body ends the transfer with that status. */
    void (*on_head)(void *userdata, const waldo__http_head *head); /* may be NULL */
    waldo_status (*on_body)(void *userdata, waldo_str bytes);
    /* Exactly once, also after a cancel (WALDO_ECANCELED). status is about the transport: an answer
       of any HTTP status is WALDO_OK. NULL: nobody waits for the answer, the body is copied, and
       the transfer is left alone. */
    void (*on_done)(void *userdata, waldo_status status, const waldo_error *error);
} waldo__http_request;

/* Strings are copied, the body is not. On failure on_done is not called. */
waldo_status waldo__http_start(waldo__http *http, const waldo__http_request *request,
                               waldo__transfer **ret_transfer, waldo_error **ret_err);

/* End it: on_done comes from the run queue with this status, no on_head or on_body before it. */
void waldo__transfer_end(waldo__transfer *transfer, waldo_status status);

/* End it and forget it: nothing is called any more. For owners that are being freed. */
void waldo__transfer_drop(waldo__transfer *transfer);

/* Stop or go on reading from the peer. */
void waldo__transfer_pause(waldo__transfer *transfer, int paused);

#endif
