/*
 * The loop: epoll behind one descriptor, timers, posts from other threads, and the run queue from
 * which every callback of a user is made. It never waits for a peer and starts no thread.
 *
 * A round: wait (or not) -> posts -> descriptors -> timers -> run queue -> end-of-round hooks. Work
 * armed outside of a round makes the descriptor readable.
 */
#ifndef WALDO_LOOP_LOOP_H
#define WALDO_LOOP_LOOP_H

#include "base/clock.h"
#include "base/str.h"
#include <waldo/cancel.h>
#include <waldo/runtime.h>
#include <waldo/sys/error.h>

typedef struct waldo__loop waldo__loop;

waldo_status waldo__loop_new(waldo__loop **ret_loop, waldo_error **ret_err);

/*
 * Everything registered must be gone; in a forked child it forgets memory and closes descriptors.
 */
void waldo__loop_free(waldo__loop *loop);

int waldo__loop_fd(waldo__loop *loop);

/* WALDO_OK, WALDO_EFORKED or, while a round is being made, WALDO_EREENTRANT. */
waldo_status waldo__loop_check(const waldo__loop *loop);
int waldo__loop_forked(const waldo__loop *loop);

/*
 * One round. deadline_ns: wait until then for work (0: do not wait; WALDO__NEVER). max_us: stop
 * starting new work after so long (0: no limit). WALDO_ETIMEDOUT when a wait ended without work;
 * WALDO_OK also when a signal ended it.
 */
waldo_status waldo__loop_round(waldo__loop *loop, int64_t deadline_ns, uint32_t max_us);

/* When the current or the last round began: a cheap clock for what may be a little late. */
int64_t waldo__loop_now(const waldo__loop *loop);

/* ---- watches ---- */

enum { WALDO__READ = 1u, WALDO__WRITE = 2u, WALDO__HANGUP = 4u };

/* one per registration, whatever number the descriptor has */
typedef struct waldo__watch waldo__watch;
typedef void (*waldo__watch_fn)(void *userdata, unsigned events);

/* The watch does not own fd. events is the union of WALDO__READ and WALDO__WRITE; 0 is allowed. */
waldo_status waldo__watch_new(waldo__loop *loop, int fd, unsigned events, waldo__watch_fn fn,
                              void *userdata, waldo__watch **ret_watch);
waldo_status waldo__watch_set(waldo__watch *watch, unsigned events);
void waldo__watch_free(waldo__watch *watch); /* from its own callback too; before fd is closed */

/* ---- timers ---- */

typedef void (*waldo__task_fn)(void *userdata);

typedef struct waldo__timer {
    int64_t due_ns;
    size_t slot; /* position in the heap + 1; 0: not armed */
    waldo__task_fn fn;
    void *userdata;
} waldo__timer;

void waldo__timer_init(waldo__timer *timer, waldo__task_fn fn, void *userdata);
/* re-arms; NEVER disarms */
waldo_status waldo__timer_arm(waldo__loop *loop, waldo__timer *timer, int64_t due_ns);
void waldo__timer_disarm(waldo__loop *loop, waldo__timer *timer);
int waldo__timer_armed(const waldo__timer *timer);

/* ---- the run queue ---- */

/*
 * Memory of the owner; queued at most once at a time; callable from anywhere on the driving thread.
 */
typedef struct waldo__task {
    struct waldo__task *next;
    struct waldo__task *prev;
    int queued;
    waldo__task_fn fn;
    void *userdata;
} waldo__task;

void waldo__task_init(waldo__task *task, waldo__task_fn fn, void *userdata);
void waldo__task_queue(waldo__loop *loop, waldo__task *task);
void waldo__task_cancel(waldo__loop *loop, waldo__task *task);

/* Called once at the end of every round that did something: commit of stores. */
typedef struct waldo__hook {
    struct waldo__hook *next;
    waldo__task_fn fn;
    void *userdata;
} waldo__hook;

void waldo__loop_add_hook(waldo__loop *loop, waldo__hook *hook);
void waldo__loop_remove_hook(waldo__loop *loop, waldo__hook *hook);

/* ---- other threads ---- */

/*
 * One reference; see waldo_poster_post(). Posts made before the loop was freed are run or dropped.
 */
waldo_poster *waldo__loop_poster(waldo__loop *loop);

/*
 * Any thread: waldo_poster_post() without an allocation. The task's memory is the caller's, and it
 * must not be queued. WALDO_ECLOSED when the loop is gone; dropped when it goes first;
 * WALDO_EFORKED.
 */
waldo_status waldo__poster_add(waldo_poster *poster, waldo__task *task);

/* Take a task back that was added; 0: the poster does not have it (any more). Not after fork. */
int waldo__poster_remove(waldo_poster *poster, waldo__task *task);

/* ---- cancel objects ---- */

/* Told on the driving thread, from a round, at most once; at once (queued) if already triggered. */
typedef struct waldo__cancel_watch waldo__cancel_watch;
waldo_status waldo__cancel_watch_new(waldo__loop *loop, waldo_cancel *cancel, waldo__task_fn fn,
                                     void *userdata, waldo__cancel_watch **ret_watch);
void waldo__cancel_watch_free(waldo__cancel_watch *watch); /* no call comes after */

/* ---- log ---- */

void waldo__loop_set_log(waldo__loop *loop, waldo_log_level level, waldo_log_fn fn, void *userdata,
                         void (*scrub)(void *context, waldo_str line, waldo_log_fn fn,
                                       void *userdata, waldo_log_level level, const char *area),
                         void *scrub_context);
int waldo__log_wants(const waldo__loop *loop, waldo_log_level level);
void waldo__log(waldo__loop *loop, waldo_log_level level, const char *area, const char *format, ...)
    WALDO_PRINTF(4, 5);

#endif
