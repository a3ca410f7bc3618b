/*
 * The docker backend: one container per machine, with the hand as its main process, reached through
 * an attached stream. Transport only.
 */
#ifndef WALDO_DOCKER_DOCKER_H
#define WALDO_DOCKER_DOCKER_H

#include "backend/labels.h"
#include "base/buf.h"
#include "codec/docker_frames.h"
#include "hand/embedded.h"
#include "http/ask.h"
#include "json/json.h"
#include <waldo/sys/backend.h>

/* Abstract socket of a durable hand, then the machine's id; within the container's own network. */
#define DOCKER_ADDRESS "waldo-"

/* ---- the engine (engine.c) ---- */

enum { DOCKER_PATH_MAX = 512, DOCKER_VERSION_MAX = 16 };

typedef struct docker_engine {
    const waldo_backend_env *env;
    int port;
    int podman;                       /* says so in its headers */
    char text[DOCKER_PATH_MAX];       /* as the user knows it */
    char path[DOCKER_PATH_MAX];       /* of the Unix socket; empty: TCP */
    char host[DOCKER_PATH_MAX];       /* numeric, or localhost */
    char prefix[DOCKER_PATH_MAX];     /* of every URL path */
    char version[DOCKER_VERSION_MAX]; /* agreed on; empty: not yet */
} docker_engine;

/* Find the engine: named (by host=) or not. WALDO_EUNAVAILABLE says what to do. */
waldo_status waldo__docker_engine_find(docker_engine *engine, const waldo_backend_env *env,
                                       waldo_str named, waldo_error **ret_err);

/* A new connection, perhaps still being made: the descriptor, or -1 and errno. */
int waldo__docker_engine_connect(const docker_engine *engine);

/* Take the version from the headers of an answer to /_ping. */
waldo_status waldo__docker_engine_agree(docker_engine *engine, waldo_str offered,
                                        waldo_error **ret_err);

/* What a connection that could not be made means. */
waldo_status waldo__docker_engine_refused(const docker_engine *engine, int error_number,
                                          waldo_error **ret_err);

/*
 * Remove a container of a machine that is being abandoned, at once. While the engine is still
 * creating it, that is tried again for so long; otherwise nobody waits for the answer.
 */
void waldo__docker_engine_forget(const docker_engine *engine, const char *container, int64_t ms);

/* ---- requests (call.c) ---- */

typedef struct docker_call docker_call;

/* Of the transport; what the engine said is in the call. From the run queue. */
typedef void (*docker_call_fn)(void *userdata, waldo_status status, const waldo_error *error);

struct docker_call {
    docker_engine *engine;
    docker_call_fn done;
    waldo_status (*on_line)(void *userdata, waldo_str line);   /* of a stream of JSON lines */
    waldo_status (*on_bytes)(void *userdata, waldo_str bytes); /* of another stream */
    void *userdata;
    waldo__buf path; /* follows the version prefix, but for /_ping; empty again when it was sent */
    waldo__buf body;
    waldo__ask ask;
};

void waldo__docker_call_init(docker_call *call, docker_engine *engine, void *userdata);
void waldo__docker_call_free(docker_call *call); /* nothing is called any more */

/*
 * Send call->body to call->path; what is not whole ends with its status. The peer has until the
 * deadline and at most ms (0: no limit of its own).
 */
void waldo__docker_call_start(docker_call *call, const char *method, int64_t ms,
                              int64_t deadline_ns, docker_call_fn done);

/* Set an error for an answer that is not what was hoped for; what: "creating the container". */
waldo_status waldo__docker_call_error(const docker_call *call, waldo_status status,
                                      const waldo_error *error, const char *what,
                                      waldo_error **ret_err);

/* What the engine says in an error body: JSON with a message, or plain text. */
void waldo__docker_call_message(const docker_call *call, waldo__buf *out);

/* ---- what a container is to be (create.c) ---- */

typedef enum docker_pull { DOCKER_PULL_NEVER, DOCKER_PULL_MISSING, DOCKER_PULL_ALWAYS } docker_pull;

typedef enum docker_hand { DOCKER_HAND_AUTO, DOCKER_HAND_NEVER, DOCKER_HAND_ALWAYS } docker_hand;

/* What a container's first process is. Those beside the hand wait for the end of their input. */
typedef enum docker_main { DOCKER_MAIN_HAND, DOCKER_MAIN_SHELL, DOCKER_MAIN_CAT } docker_main;

typedef struct docker_options {
    char *image;
    char *platform; /* NULL: the engine's */
    char *runtime;  /* NULL: the engine's */
    char *host;     /* NULL: to be found */
    docker_pull pull;
    docker_hand hand;
    docker_main main;
    waldo_isolation isolation; /* of the runtime, by its name */
    uint32_t uid;
    uint32_t gid;
    int net;
    uint64_t tmp; /* bytes of /tmp */
    uint64_t memory;
    double cpus;
    uint32_t processes;
    int memory_asked; /* by the user: the limit must hold */
    int tmp_asked;
    int cpus_asked;
    int processes_asked;
    char *owner;
    char *id;         /* of the machine: label run, and part of the hand's address */
    char *name;       /* NULL: none */
    int64_t lease_ms; /* 0: ends with this process */
    char *scratch;    /* host directory of the sandbox; NULL: none */
    int shared;       /* the hand is in it, and shown inside */
    int find;         /* by its name; never made */
    int user_asked;
    char *attach; /* a container made elsewhere; NULL: none */
    int place;    /* above 0: it is foreign, and its hand is there (attach.c) */
} docker_options;

waldo_status waldo__docker_options_parse(docker_options *options, const waldo_backend_spec *spec,
                                         waldo_error **ret_err);
void waldo__docker_options_free(docker_options *options);

int waldo__docker_parse_user(docker_options *options, waldo_str text); /* 0: no numbers */
waldo_isolation waldo__docker_grade(waldo_str runtime);

waldo_status waldo__docker_put_create(const docker_options *options, const docker_engine *engine,
                                      waldo__buf *out);
waldo_status waldo__docker_put_pull_path(const docker_options *options, waldo__buf *out);
waldo_status waldo__docker_put_hand(const waldo__hand_program *hand,
                                    waldo__buf *out); /* an archive */
/* Another, that gives a volume's folder to the user. */
waldo_status waldo__docker_put_owner(const docker_options *options, uint32_t mode, waldo__buf *out);
const char *waldo__docker_hand_folder(void);
/* The hand for images of an architecture (empty: it is not known), or NULL. */
const waldo__hand_program *waldo__docker_hand_for(waldo_str arch);

/* WALDO_ENOTSUP when a warning of the engine says that an asked limit does not hold. */
waldo_status waldo__docker_check_warning(const docker_options *options, waldo_str warning,
                                         waldo_error **ret_err);
int waldo__docker_limits_asked(const docker_options *options);
/* The same when a runtime or limit that was asked for is not in the container's HostConfig. */
waldo_status waldo__docker_check_taken(const docker_options *options, const waldo__json_value *host,
                                       waldo_error **ret_err);

/* ---- the hand from the host's files (share.c) ---- */

/* 1: ready. */
int waldo__docker_share(const docker_options *options, const docker_engine *engine,
                        const waldo__hand_program *program);
void waldo__docker_put_shared(const docker_options *options, waldo__json_writer *jw);

/* ---- the stream to the hand (channel.c) ---- */

typedef struct docker_channel docker_channel;

/* A POST whose connection is taken over: the attached stream, or a program's that is run inside. */
typedef struct docker_hijack {
    const char *path;      /* follows the version prefix */
    waldo_str body;        /* JSON, or empty */
    const char *what;      /* for errors: "attaching to the container" */
    const char *container; /* asked how it ended when the stream has */
    uint64_t memory;       /* its limit, for words about its end */
    int durable;           /* it may go on without the stream */
} docker_hijack;

/* done comes from the run queue, unless the channel is freed. */
waldo_status waldo__docker_channel_new(const docker_engine *engine, const docker_hijack *hijack,
                                       int64_t deadline_ns, docker_call_fn done, void *userdata,
                                       docker_channel **ret_channel, waldo_error **ret_err);
void waldo__docker_channel_free(docker_channel *channel);
waldo_channel *waldo__docker_channel_base(docker_channel *channel);

/*
 * Until the container has said something, which stays to be read: WALDO_OK; WALDO_ESTART when it
 * ended before; else the engine is gone. Before anyone listens.
 */
void waldo__docker_channel_await(docker_channel *channel, docker_call_fn done, void *userdata);

/* ---- without a machine (query.c) ---- */

void waldo__docker_check(const waldo_backend_env *env, const waldo_backend_spec *spec,
                         const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__docker_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                         waldo_backend_done_fn done);
void waldo__docker_list(const waldo_backend_env *env, const waldo_backend_call *call,
                        waldo_backend_id_fn each, waldo_backend_done_fn done);
void waldo__docker_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                              const char *id, waldo_backend_done_fn done);

#endif
