/*
 * A channel to the hand that is made of requests: what comes is given to it, what goes is asked of
 * its owner piece by piece, one at a time, each with all that has gathered meanwhile.
 */
#ifndef WALDO_BACKEND_PIPE_H
#define WALDO_BACKEND_PIPE_H

#include "loop/loop.h"
#include "loop/sendq.h"
#include <waldo/sys/backend.h>

typedef struct waldo__pipe_fns {
    void (*send)(void *owner, waldo_str piece); /* borrowed for the call; then waldo__pipe_sent() */
    void (*pause)(void *owner, int paused);
    void (*free)(void *owner); /* the pipe with it */
} waldo__pipe_fns;

typedef struct waldo__pipe {
    waldo_channel base; /* first */
    waldo__loop *loop;
    const waldo__pipe_fns *fns;
    void *owner;
    size_t piece; /* the largest */
    waldo_channel_events events;
    waldo__sendq out;
    size_t sending; /* of its front */
    waldo__task task;
    int open; /* by its owner: before and after, nothing is sent */
    int listening;
    int got_bytes;
    int told;
    int busy;
    int closed;
} waldo__pipe;

void waldo__pipe_init(waldo__pipe *pipe, waldo__loop *loop, const waldo__pipe_fns *fns, void *owner,
                      size_t piece);
void waldo__pipe_free(waldo__pipe *pipe); /* what is its own, in fns->free */
void waldo__pipe_close(waldo__pipe *pipe);

/* Around every callback of the owner's; leave: 0 when the owner is gone. */
void waldo__pipe_enter(waldo__pipe *pipe);
int waldo__pipe_leave(waldo__pipe *pipe);

/* What came. Each may close the pipe: only within enter and leave. */
void waldo__pipe_bytes(waldo__pipe *pipe, waldo_str bytes);
void waldo__pipe_diagnostic(waldo__pipe *pipe, waldo_str bytes);
void waldo__pipe_sent(waldo__pipe *pipe);

/* It is over, told once: lost when it worked before, else unavailable. */
void waldo__pipe_over(waldo__pipe *pipe, const char *backend, const char *what,
                      const waldo_error *cause);

#endif
