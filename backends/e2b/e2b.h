/*
 * The e2b backend: one sandbox of the provider for each machine, in it a durable hand, and a
 * process stream of the sandbox's daemon (envd) to that hand. Transport only.
 */
#ifndef WALDO_E2B_E2B_H
#define WALDO_E2B_E2B_H

#include "codec/connect.h"
#include "http/ask.h"
#include "json/json.h"
#include <waldo/sys/backend.h>

/* Labels of every sandbox of ours: its metadata. */
#define E2B_LABEL       "dev.waldo" /* "1": what a listing asks for */
#define E2B_LABEL_RUN   "dev.waldo.run"
#define E2B_LABEL_OWNER "dev.waldo.owner"
#define E2B_LABEL_NAME  "dev.waldo.name"
#define E2B_LABEL_LEASE "dev.waldo.lease" /* "ephemeral", or milliseconds */
#define E2B_LABEL_PID   "dev.waldo.pid"   /* this and the next three: base/ident.h */
#define E2B_LABEL_START "dev.waldo.start"
#define E2B_LABEL_HOST  "dev.waldo.host"
#define E2B_LABEL_USER  "dev.waldo.user"

#define E2B_KEY "E2B_API_KEY" /* its name in the host's source of keys */

enum { E2B_QUICK_MS = 15000, E2B_SLOW_MS = 90000 };

/* ---- where things are (place.c) ---- */

enum { E2B_URL_MAX = 256, E2B_WORD_MAX = 72 };

/* Copied by who may outlive its owner. */
typedef struct e2b_place {
    const waldo_backend_env *env;
    char api[E2B_URL_MAX];    /* control plane */
    char envd[E2B_URL_MAX];   /* data plane of every sandbox; empty: by the domain */
    char domain[E2B_URL_MAX]; /* of the sandbox, or where there is none yet */
    char id[E2B_WORD_MAX];    /* of the sandbox; empty: none */
    char token[E2B_WORD_MAX]; /* name of its access token in the secrets; empty: it has none */
    char user[E2B_WORD_MAX];  /* of the commands */
    int old;                  /* 1: a control plane that has only the first version of its paths */
} e2b_place;

/* From the options, the environment and what is usual; pure but for the environment. */
waldo_status waldo__e2b_place_find(e2b_place *place, const waldo_backend_env *env,
                                   const waldo_backend_spec *spec, waldo_error **ret_err);
waldo_str waldo__e2b_option(const waldo_backend_spec *spec, const char *key);
int waldo__e2b_is_host(waldo_str text); /* a domain, perhaps with a port */
int waldo__e2b_is_word(waldo_str text); /* ASCII letters and digits: safe in every path and URL */

/* ---- requests (call.c) ---- */

typedef struct e2b_call e2b_call;

/* error says all of an answer that is no success; the answer is in the call, to be freed or not. */
typedef void (*e2b_call_fn)(void *userdata, waldo_status status, const waldo_error *error);

typedef struct e2b_request {
    const char *method;
    const char *path;
    const char *what; /* for errors: "creating the sandbox"; static */
    const char *type; /* of the body; NULL: JSON */
    const char *user; /* who is to do it in the sandbox; NULL: nobody */
    int in_sandbox;   /* to its daemon, else to the control plane */
    waldo__replay replay;
    int64_t ms; /* 0: no limit of its own */
    int64_t idle_ms;
    int64_t deadline_ns;
} e2b_request;

struct e2b_call {
    const e2b_place *place;
    waldo__ask ask;
    waldo__timer timer; /* until it is tried again */
    waldo__buf body;
    waldo__buf path;
    e2b_request request;
    unsigned tries;
    int renewed;                                               /* the key was asked for anew */
    waldo_status (*on_bytes)(void *userdata, waldo_str bytes); /* of a stream */
    e2b_call_fn done;
    void *userdata;
};

void waldo__e2b_call_init(e2b_call *call, const e2b_place *place, void *userdata);
void waldo__e2b_call_free(e2b_call *call); /* nothing is called any more; may be started again */

/* Send call->body. 429 that says when to come again is waited for; 401 gets one other key. */
void waldo__e2b_call_start(e2b_call *call, const e2b_request *request, e2b_call_fn done);

/* About the place's sandbox, "" or "/timeout" and so on; nobody waits for the answer. */
void waldo__e2b_tell(const e2b_place *place, const char *method, const char *what,
                     const char *body);

waldo_status waldo__e2b_parse(const e2b_call *call, waldo__json **ret_doc, waldo_error **ret_err);

/* ---- what an answer means (errors.c) ---- */

/* Of a call that has ended: how, and why. */
waldo_status waldo__e2b_call_error(const e2b_call *call, waldo_status status,
                                   const waldo_error *error, waldo_error **ret_err);

/* Of the message that ended a stream: WALDO_OK when it holds no error. */
waldo_status waldo__e2b_end_error(const e2b_call *call, waldo_str message, waldo_error **ret_err);

/* ---- processes in the sandbox (envd.c) ---- */

typedef enum e2b_event { E2B_STARTED, E2B_OUTPUT, E2B_DIAGNOSTIC, E2B_ENDED } e2b_event;

/* number: process id, or exit code. A failure stops the feed. */
typedef waldo_status (*e2b_event_fn)(void *userdata, e2b_event event, int64_t number,
                                     waldo_str text);

typedef struct e2b_stream {
    e2b_call call;
    waldo__connect frames;
    waldo__buf bytes;     /* of one message */
    waldo_error *failure; /* what the end of the stream said */
} e2b_stream;

/* userdata is for on_bytes, which calls waldo__e2b_stream_feed(), and for done. */
void waldo__e2b_stream_init(e2b_stream *stream, const e2b_place *place, void *userdata);
void waldo__e2b_stream_free(e2b_stream *stream);

/* Start /bin/sh -c SCRIPT with args ($0, $1 ...; NULL ends them) as a user of the sandbox. */
void waldo__e2b_stream_start(e2b_stream *stream, const e2b_request *limits, const char *script,
                             const char *const *args, int with_stdin,
                             waldo_status (*on_bytes)(void *userdata, waldo_str bytes),
                             e2b_call_fn done);
waldo_status waldo__e2b_stream_feed(e2b_stream *stream, waldo_str bytes, e2b_event_fn fn,
                                    void *userdata);

/* In done of its start: what the end of the stream means; WALDO_OK: it said no error. */
waldo_status waldo__e2b_stream_status(e2b_stream *stream, waldo_status status,
                                      const waldo_error *error, waldo_error **ret_err);

/* ---- the stream to the hand (channel.c) ---- */

typedef struct e2b_channel e2b_channel;

typedef struct e2b_channel_options {
    const char *hand;    /* its path */
    const char *address; /* of the durable one */
    int64_t start_ms;    /* for the process to start; 0: 20 s */
    int64_t idle_ms; /* longest silence of the stream, which says "alive" twice in it; 0: 70 s */
} e2b_channel_options;

/* done comes from the run queue, unless the channel is freed. */
waldo_status waldo__e2b_channel_new(const e2b_place *place, const e2b_channel_options *options,
                                    e2b_call_fn done, void *userdata, e2b_channel **ret_channel);
void waldo__e2b_channel_free(e2b_channel *channel);
waldo_channel *waldo__e2b_channel_base(e2b_channel *channel);

/* ---- a machine's making (open.c) and the rest of its life (machine.c): machine.h ---- */

/* ---- without a machine (query.c) ---- */

void waldo__e2b_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                      waldo_backend_done_fn done);
void waldo__e2b_list(const waldo_backend_env *env, const waldo_backend_call *call,
                     waldo_backend_id_fn each, waldo_backend_done_fn done);
void waldo__e2b_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                           const char *id, waldo_backend_done_fn done);

/* Append the path of a listing; key and value are of plain characters. */
void waldo__e2b_put_list(waldo__buf *out, const char *key, const char *value, waldo_str next);

#endif
