/*
 * The stream to the hand where a provider runs processes: one process passes the stream of the
 * durable hand on (`waldo-hand attach`), its output is a long answer, its input are requests. This
 * holds when it is open, when and why it is over; how each is asked for is the backend's.
 */
#ifndef WALDO_BACKEND_ATTACH_H
#define WALDO_BACKEND_ATTACH_H

#include "backend/pipe.h"

enum {
    WALDO__ATTACH_PIECE = 512 * 1024, /* most that one request sends */
    WALDO__ATTACH_START_MS = 20000,   /* for the process to start */
    WALDO__ATTACH_IDLE_MS = 70000,    /* longest silence of the stream */
    WALDO__ATTACH_ASK_MS = 5000       /* for the question whether the machine is there */
};

/* What is heard of a process in a machine. */
typedef enum waldo__process_event {
    WALDO__PROCESS_STARTED,
    WALDO__PROCESS_OUTPUT,
    WALDO__PROCESS_DIAGNOSTIC,
    WALDO__PROCESS_ENDED
} waldo__process_event;

typedef struct waldo__attach_fns {
    void (*send)(void *owner, waldo_str piece); /* to the process; then waldo__attach_sent() */
    void (*ask)(void *owner); /* whether the machine is there; then waldo__attach_asked() */
    void (*pause)(void *owner, int paused); /* reading of what the process says */
    void (*free)(void *owner);              /* the attach with it, by waldo__attach_free() */
} waldo__attach_fns;

typedef enum waldo__attach_stage {
    WALDO__ATTACH_STARTING,
    WALDO__ATTACH_OPEN,
    WALDO__ATTACH_OVER
} waldo__attach_stage;

typedef struct waldo__attach {
    waldo__pipe pipe; /* first */
    waldo__attach_stage stage;
    const char *backend; /* its name, for errors */
    const waldo__attach_fns *fns;
    void *owner;
    waldo_backend_done_fn opened;
    void *userdata;
    waldo_error *cause;
    waldo__timer timer; /* until it is open */
} waldo__attach;

/*
 * opened comes once from the run queue, unless the pipe is closed before; start_ms 0: the usual.
 * On failure (WALDO_ENOMEM) there is only waldo__attach_free() to be called.
 */
waldo_status waldo__attach_init(waldo__attach *attach, const char *backend, waldo__loop *loop,
                                const waldo__attach_fns *fns, void *owner, int64_t start_ms,
                                waldo_backend_done_fn opened, void *userdata);
void waldo__attach_free(waldo__attach *attach);

/*
 * What came of the process; within waldo__pipe_enter() and leave. text: its bytes, or how it ended.
 * A failure, which is to stop what gives the events: what cannot be, or the pipe was closed.
 */
waldo_status waldo__attach_event(waldo__attach *attach, waldo__process_event event, waldo_str text);

/* The stream, or what was sent, ended without such a word. error is taken. */
void waldo__attach_broke(waldo__attach *attach, waldo_status status, waldo_error *error);

/* The answers to fns; from the run queue. asked: WALDO_OK is there, WALDO_ELOST is not. */
void waldo__attach_sent(waldo__attach *attach, waldo_status status, const waldo_error *error);
void waldo__attach_asked(waldo__attach *attach, waldo_status status);

#endif
