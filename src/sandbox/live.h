/*
 * The inside of a sandbox. Whatever is asked of it is an op in its ring: ops wait until the machine
 * is open, then talk to the hand or to the backend's own functions, and end exactly once from the
 * run queue.
 */
#ifndef WALDO_SANDBOX_LIVE_H
#define WALDO_SANDBOX_LIVE_H

#include "base/buf.h"
#include "base/vec.h"
#include "sandbox/hand_session.h"
#include "sandbox/sandbox.h"
#include "sandbox/spec.h"

typedef struct waldo__op waldo__op;
typedef struct waldo__workspace waldo__workspace;
typedef struct waldo__background waldo__background;

typedef struct waldo__op_kind {
    void (*start)(waldo__op *op); /* the machine is there */
    void (*stop)(waldo__op *op);  /* it goes: hear nothing more of the hand. May be NULL */
    void (*finish)(waldo__op *op, waldo_status status,
                   const waldo_error *error); /* tell the user */
    void (*free)(waldo__op *op);
    int is_job;
} waldo__op_kind;

typedef enum waldo__op_state {
    WALDO__OP_WAITING,
    WALDO__OP_RUNNING,
    WALDO__OP_ENDED, /* finish is queued, or was called */
} waldo__op_state;

/* First member of every op. */
struct waldo__op {
    waldo__op *next;
    waldo__op *prev;
    waldo_sandbox *sandbox;
    const waldo__op_kind *kind;
    waldo__op_state state;
    waldo_status status;
    waldo_error *error;
    int in_backend; /* a function of the backend has not completed: not freed before */
    int finished;   /* finish was called */
    int internal;   /* part of opening: starts while the machine is being prepared */
    int goes_on;    /* a command that outlives the session where the machine does */
    waldo__task task;
};

typedef enum waldo__live_state {
    WALDO__LIVE_NEW,
    WALDO__LIVE_OPENING,
    WALDO__LIVE_PREPARING, /* the machine is there; the workspace is being copied into it */
    WALDO__LIVE_PAUSED,    /* or about to be; the next op lets it go on */
    WALDO__LIVE_OPEN,
    WALDO__LIVE_CLOSING, /* commands get their grace */
    WALDO__LIVE_ENDING,  /* the backend ends the machine */
    WALDO__LIVE_CLOSED
} waldo__live_state;

typedef struct waldo__news {
    const char *what;
    char *text;
    uint32_t generation; /* of the machine it is about */
} waldo__news;

/* Of failover.c: machines that take each other's place, and what is kept for them. */
typedef struct waldo__failover {
    uint32_t generation; /* lost machines before this one */
    uint32_t news_of;    /* whose news are being told */
    int moving;          /* the machine is lost, and the next one not open yet */
    int64_t lost_ns;
    waldo_error *lost;   /* why it is */
    waldo_error *absent; /* the first backend that works and has no machine of the name says so */
    struct {
        WALDO__VEC(char *);
    } notices; /* for models, in order; NULL: memory was out, or it is not known yet */
    char *snapshot;
    size_t snapshot_len;
    int64_t snapshot_ns;   /* when it was begun */
    int64_t taking_ns;     /* the same of the one that is being taken; 0: none is */
    int64_t not_before_ns; /* the next one, so that they take a small part of the time only */
    waldo__timer timer;    /* for one that waits for that */
    int again;             /* another one, when that is there */
    int told_too_big;
    waldo_sandbox *grave_of; /* it only ends a machine of that sandbox; held. NULL: no grave */
} waldo__failover;

/* Whoever waits for the machine to be gone. */
typedef struct waldo__sandbox_closer {
    struct waldo__sandbox_closer *next;
    void (*tell)(struct waldo__sandbox_closer *closer); /* frees it */
} waldo__sandbox_closer;

struct waldo_sandbox {
    waldo__sandbox_node node;
    waldo_runtime *rt;
    const waldo_backend_env *env;
    waldo_sandbox_spec *spec;
    unsigned refs;  /* the users' */
    unsigned holds; /* our own: ops, callbacks being made, an end in progress */
    waldo__live_state state;
    size_t entry; /* of the spec, in use or first in line */
    waldo_machine *machine;
    waldo__hand *hand;
    waldo_error *lost;           /* why the machine is gone */
    waldo_error *broke;          /* why its stream did, until there is another; else NULL */
    waldo__workspace *workspace; /* baseline of a copied workspace */
    int is_spare;                /* nobody's yet: a machine that was opened ahead */
    int was_open;                /* this machine */
    waldo_machine_info info;     /* of the machine; size 0: not known yet */
    char *scratch;               /* host directory; NULL: none */
    char id[17];
    waldo_error *refusal; /* why opening could not be begun, until its ops were told */
    const char *why_closed;
    waldo__op ops;     /* head of the ring */
    waldo__op zombies; /* finished, but still known to the backend */
    waldo__timer idle_timer;
    waldo__timer close_timer;
    waldo__task end_task;
    waldo__task closed_task;
    waldo__sandbox_closer *closers;
    waldo__task news_task;
    struct {
        WALDO__VEC(waldo__news);
    } news;
    waldo__sandbox_listener *listeners;
    waldo__sandbox_listener *listener_at; /* next one to be told, while news are given */
    waldo__turn turns;                    /* head of a ring */
    waldo__task turn_task;
    uint64_t next_file;             /* names of capture and script files */
    uint64_t first_file;            /* the one before those of this machine, made elsewhere */
    int reuse_capture;              /* capture file next_file - 1 was not needed */
    char *saved;                    /* what the backend needs to reach it again; NULL: a new one */
    int saved_empty;                /* 1: the saved machine began without a workspace */
    int64_t joined_ns;              /* when the present stream came to be */
    int detaching;                  /* it is to go on when this sandbox is closed */
    int settled;                    /* the hand has taken what was sent before that */
    waldo__background *backgrounds; /* oldest first */
    int64_t next_background;        /* number of the newest */
    int taking;                     /* a spare's machine, whose hand has yet to answer */
    unsigned failures;              /* of this spare to open, in a row */
    waldo__failover failover;
    int inside;   /* above 0: operations that begin now are part of opening */
    int pausing;  /* the backend is at it */
    int resuming; /* the same; OPENING meanwhile */
    waldo__timer spare_timer;
};

static inline const waldo__spec_entry *waldo__live_entry(const waldo_sandbox *sandbox)
{
    return &sandbox->spec->entries[sandbox->entry];
}

/* What the machine can do; before there is one, what is hoped for. */
static inline uint32_t waldo__live_caps(const waldo_sandbox *sandbox)
{
    return sandbox->info.size != 0 ? sandbox->info.caps : waldo__live_entry(sandbox)->ops->caps;
}

/* Does the machine outlive this process? */
static inline int waldo__live_durable(const waldo_sandbox *sandbox)
{
    return waldo_sandbox_spec_error(sandbox->spec) == NULL &&
           (sandbox->saved != NULL || waldo__live_entry(sandbox)->lease_ms > 0);
}

/* Does its hand go on when the stream to it breaks? */
static inline int waldo__live_rejoins(const waldo_sandbox *sandbox)
{
    return waldo__live_durable(sandbox) || (sandbox->info.flags & WALDO_MACHINE_REJOINS) != 0;
}

#define WALDO__CAPTURE_NAME "/tmp/waldo-output-%llu.txt" /* of next_file */
#define WALDO__SCRIPT_NAME  "/tmp/waldo-script-%llu.sh"

/* ---- ops (op.c) ---- */

/* Put it into the ring and start it when the machine is there; opens the machine if need be. */
void waldo__op_begin(waldo_sandbox *sandbox, waldo__op *op, const waldo__op_kind *kind);

/* Its end is known already: it only has to be told, later. error is taken. */
void waldo__op_begin_ended(waldo_sandbox *sandbox, waldo__op *op, const waldo__op_kind *kind,
                           waldo_status status, waldo_error *error);

/* It is over; error is taken. Only the first end counts. */
void waldo__op_end(waldo__op *op, waldo_status status, waldo_error *error);

/* The same with an error of something below, whose message begins with a name from now on. */
void waldo__op_pass_on(waldo__op *op, waldo_status status, const char *name,
                       const waldo_error *error);

/* The same with a message. */
void waldo__op_fail(waldo__op *op, waldo_status status, const char *format, ...) WALDO_PRINTF(3, 4);

/* A function of the backend was called with op as userdata, and has completed. */
void waldo__op_backend_call(waldo__op *op, waldo_backend_call *call, int64_t deadline_ns);
int waldo__op_backend_done(waldo__op *op); /* 0: op is over and was freed, touch nothing */

/* Begin what waits; end everything at once. */
void waldo__ops_start(waldo_sandbox *sandbox);
void waldo__ops_end_waiting(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error);
void waldo__ops_stop(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error);
void waldo__ops_finish_now(waldo_sandbox *sandbox); /* without the run queue */
void waldo__ops_drop_zombies(waldo_sandbox *sandbox);
/* Give what was begun to the sandbox that has the machine now. */
void waldo__ops_move(waldo_sandbox *from, waldo_sandbox *to);
int waldo__ops_have_jobs(const waldo_sandbox *sandbox);
int waldo__ops_have_other_jobs(const waldo_sandbox *sandbox, const waldo__op *than);

/* ---- life (lifecycle.c, sandbox.c) ---- */

void waldo__live_hold(waldo_sandbox *sandbox);
void waldo__live_release(waldo_sandbox *sandbox); /* may free it */
void waldo__live_open(waldo_sandbox *sandbox);
void waldo__live_prepared(waldo_sandbox *sandbox, waldo_status status, waldo_error *error);
/* What went on in it is known; error is borrowed. */
void waldo__live_recovered(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error);
/* Commands get grace_ms between TERM and KILL. */
void waldo__live_begin_close(waldo_sandbox *sandbox, const char *why, int64_t grace_ms);

enum { WALDO__CLOSE_GRACE_MS = 2000 };
void waldo__live_lose(waldo_sandbox *sandbox, const waldo_error *error);
void waldo__live_op_gone(waldo_sandbox *sandbox); /* an op left the ring */
void waldo__live_abandon(waldo_sandbox *sandbox);
void waldo__live_init(waldo_sandbox *sandbox);
void waldo__live_add_closer(waldo_sandbox *sandbox, waldo__sandbox_closer *link);
void waldo__live_news(waldo_sandbox *sandbox, const char *what, const char *format, ...)
    WALDO_PRINTF(3, 4);

void waldo__live_machine_ready(waldo_sandbox *sandbox); /* all but its workspace is there */
void waldo__live_drop_machine(waldo_sandbox *sandbox);  /* at once, without waiting */
void waldo__live_leave(waldo_sandbox *sandbox);         /* closed: it has no machine any more */
/* All that belongs to the machine, but for operations and news of it. */
void waldo__live_give_machine(waldo_sandbox *from, waldo_sandbox *to);

/* WALDO_OK when ops can be begun; else the reason. */
waldo_status waldo__live_check(const waldo_sandbox *sandbox, waldo_error **ret_err);

/* ---- going on in another machine (failover.c) ---- */

/* The open machine is lost. 1: the next one is being opened in its place. */
int waldo__failover_begin(waldo_sandbox *sandbox, const waldo_error *why);
/* The machine that was to be opened is not to be had. 1: seen to. */
int waldo__failover_refused(waldo_sandbox *sandbox, waldo_status status, const waldo_error *why);
int waldo__failover_restore(waldo_sandbox *sandbox); /* 1: the newest snapshot is on its way */
void waldo__failover_opened(waldo_sandbox *sandbox);
void waldo__failover_init(waldo_sandbox *sandbox);
void waldo__failover_free(waldo_sandbox *sandbox);

/* ---- pausing; hands in machines made elsewhere (machine.c) ---- */

/* Files of this session get names that no other session uses, for it takes them away. */
void waldo__live_name_files(waldo_sandbox *sandbox);
/* Shut its hand down, and leave none of our files; fns may be NULL. */
waldo_status waldo__live_shut_hand(waldo_sandbox *sandbox, const waldo__hand_call_fns *fns);

void waldo__live_resume(waldo_sandbox *sandbox); /* PAUSED: let it go on */
void waldo__live_resumed(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error);

/* ---- spares (spares.c) ---- */

int waldo__spares_take(waldo_sandbox *sandbox); /* 1: it is being opened with a spare's machine */
void waldo__spares_refill(const waldo_sandbox *sandbox); /* one of this recipe is open */
void waldo__spare_ready(waldo_sandbox *spare);
int waldo__spares_opening_failed(waldo_sandbox *sandbox, const waldo_error *error); /* 1: seen to */
void waldo__spare_lost(const waldo_sandbox *spare);
void waldo__spares_init(waldo_sandbox *sandbox);

/* ---- commands (exec.c) ---- */

void waldo__job_op_cancel(waldo__op *op, int64_t grace_ms);

/* ---- files (files.c, paths.c) ---- */

/* A path as ops use it: below the workspace relative to it, others absolute. */
typedef struct waldo__path {
    char *text;  /* normal form; relative when beneath, absolute otherwise */
    int beneath; /* 1: relative to WALDO__WORKSPACE and must stay there */
} waldo__path;

waldo_status waldo__path_parse(const char *path, waldo__path *ret_path, waldo_error **ret_err);
void waldo__path_absolute(const waldo__path *path, waldo__buf *out);

enum {
    WALDO__WRITE_APPEND = 1u,
    WALDO__WRITE_PLAIN = 2u,  /* no temporary file */
    WALDO__WRITE_ARCHIVE = 4u /* a tar archive, unpacked into the workspace; without a hand only */
};

/* What a copied workspace needs beside the public functions. */
void waldo__files_write(waldo_sandbox *sandbox, const char *path, waldo_str bytes, uint32_t mode,
                        unsigned flags, waldo_sandbox_fn done, void *userdata);
void waldo__files_mkdir(waldo_sandbox *sandbox, const char *path, uint32_t mode,
                        waldo_sandbox_fn done, void *userdata);

/* ---- the workspace (workspace.c, changes.c) ---- */

void waldo__workspace_begin(waldo_sandbox *sandbox); /* ends with waldo__live_prepared() */
void waldo__workspace_stop(waldo_sandbox *sandbox);  /* no step comes after */
void waldo__workspace_free(waldo__workspace *workspace);

/* ---- host directories (scratch.c) ---- */

waldo_status waldo__scratch_make(const char *parent, char **ret_path, waldo_error **ret_err);
/* With all it holds, but in a forked child: there it is the parent's. */
void waldo__scratch_drop(const waldo__loop *loop, char **path);

#endif
