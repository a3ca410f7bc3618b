/*
 * The e2b backend: one sandbox of the provider for each machine, in it a durable hand, and a
 * process stream of the sandbox's daemon (envd) to that hand. Transport only.
 */
#ifndef WALDO_E2B_E2B_H
#define WALDO_E2B_E2B_H

#include "backend/api.h"
#include "backend/attach.h"
#include "backend/endpoint.h"
#include "backend/finder.h"
#include "codec/connect.h"

#define E2B_LABEL "dev.waldo"   /* of every sandbox of ours; "1": what a listing asks for */
#define E2B_KEY   "E2B_API_KEY" /* its name in the host's source of keys */

enum { E2B_WORD_MAX = WALDO__WORD_MAX };
enum { E2B_CONTROL, E2B_DAEMON }; /* kinds of requests */

/* ---- the provider (api.c) ---- */

/* Copied by who may outlive its owner. */
typedef struct e2b_place {
    const waldo_backend_env *env;
    char api[WALDO__ENDPOINT_MAX];    /* control plane */
    char envd[WALDO__ENDPOINT_MAX];   /* data plane of every sandbox; empty: by the domain */
    char domain[WALDO__ENDPOINT_MAX]; /* of the sandbox, or where there is none yet */
    char id[E2B_WORD_MAX];            /* of the sandbox; empty: none */
    char token[E2B_WORD_MAX]; /* name of its access token in the secrets; empty: it has none */
    char user[E2B_WORD_MAX];  /* of the commands */
    int old;                  /* 1: a control plane that has only the first version of its paths */
} e2b_place;

/* From the options, the environment and what is usual; pure but for the environment. */
waldo_status waldo__e2b_place_find(e2b_place *place, const waldo_backend_env *env,
                                   const waldo_backend_spec *spec, waldo_error **ret_err);

void waldo__e2b_call_init(waldo__api_call *call, const e2b_place *place, void *userdata);

/*
 * About the place's sandbox: what is "", "/timeout" and so on, words are for errors. Without done
 * nobody waits for the answer, call is not used and words are the body.
 */
void waldo__e2b_about(const e2b_place *place, waldo__api_call *call, const char *method,
                      const char *what, const char *words, int64_t deadline_ns, waldo__api_fn done);

/* ---- processes in the sandbox (envd.c) ---- */

/* number: process id, or exit code. A failure stops the feed. */
typedef waldo_status (*e2b_event_fn)(void *userdata, waldo__process_event event, int64_t number,
                                     waldo_str text);

typedef struct e2b_stream {
    waldo__api_call call;
    waldo__connect frames;
    waldo__buf bytes;     /* of one message */
    waldo_error *failure; /* what the end of the stream said */
} e2b_stream;

/* userdata is for on_bytes, which calls waldo__e2b_stream_feed(), and for done. */
void waldo__e2b_stream_init(e2b_stream *stream, const e2b_place *place, void *userdata);
void waldo__e2b_stream_free(e2b_stream *stream);

/* Start /bin/sh -c SCRIPT with args ($0, $1 ...; NULL ends them) as a user of the sandbox. */
void waldo__e2b_stream_start(e2b_stream *stream, const waldo__api_request *limits,
                             const char *script, const char *const *args, int with_stdin,
                             waldo_status (*on_bytes)(void *userdata, waldo_str bytes),
                             waldo__api_fn done);
waldo_status waldo__e2b_stream_feed(e2b_stream *stream, waldo_str bytes, e2b_event_fn fn,
                                    void *userdata);

/* In done of its start: what the end of the stream means; never WALDO_OK, as no process ended. */
waldo_status waldo__e2b_stream_status(e2b_stream *stream, waldo_status status,
                                      const waldo_error *error, waldo_error **ret_err);

/* ---- the stream to the hand (channel.c) ---- */

typedef struct e2b_channel e2b_channel;

typedef struct e2b_channel_options {
    const char *hand;    /* its path */
    const char *address; /* of the durable one */
    int64_t start_ms;    /* for the process to start; 0: the usual */
    int64_t idle_ms;     /* longest silence of the stream; 0: the usual */
} e2b_channel_options;

/* done comes from the run queue, unless the channel is freed. */
waldo_status waldo__e2b_channel_new(const e2b_place *place, const e2b_channel_options *options,
                                    waldo__api_fn done, void *userdata, e2b_channel **ret_channel);
void waldo__e2b_channel_free(e2b_channel *channel);
waldo_channel *waldo__e2b_channel_base(e2b_channel *channel);

/* ---- without a machine (query.c) ---- */

void waldo__e2b_check(const waldo_backend_env *env, const waldo_backend_spec *spec,
                      const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__e2b_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                      waldo_backend_done_fn done);
void waldo__e2b_list(const waldo_backend_env *env, const waldo_backend_call *call,
                     waldo_backend_id_fn each, waldo_backend_done_fn done);
void waldo__e2b_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                           const char *id, waldo_backend_done_fn done);

/* The path of a listing; key and value are of plain characters. */
void waldo__e2b_put_list(waldo__buf *out, const char *key, const char *value, waldo_str next);

#endif
