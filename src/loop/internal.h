/* The loop's own structure, shared by the files of src/loop only. */
#ifndef WALDO_LOOP_INTERNAL_H
#define WALDO_LOOP_INTERNAL_H

#include <sys/types.h>

#include "loop/loop.h"

/* waldo__task.queued */
enum { WALDO__TASK_IDLE = 0, WALDO__TASK_QUEUED = 1, WALDO__TASK_POSTED = 2 };

struct waldo__watch {
    waldo__loop *loop;
    int fd;
    unsigned wanted; /* what the owner asked for */
    unsigned armed;  /* what the kernel was told; differs within a round, and while it rests */
    int rang;        /* something came while it rests */
    int dirty;
    int dead;
    waldo__watch *next_dirty;
    waldo__watch *next_dead;
    waldo__watch_fn fn;
    void *userdata;
};

struct waldo__loop {
    int epoll_fd;
    int timer_fd;
    pid_t pid; /* the process it was made in */
    int in_round;
    int shown;       /* somebody may poll epoll_fd */
    int64_t now_ns;  /* when the current round began */
    int64_t stop_ns; /* this round starts nothing new after it */
    waldo_poster *poster;

    waldo__watch *dirty;
    waldo__watch *dead;

    waldo__timer **heap;
    size_t timer_count;
    size_t timer_cap;
    int64_t timer_fd_due; /* when timer_fd becomes readable; may be earlier than the first timer */

    waldo__task tasks;   /* head of a ring: waiting */
    waldo__task running; /* head of a ring: this pass of the run queue */

    waldo__hook *hooks;
    waldo__hook *next_hook;

    waldo_log_level log_level;
    waldo_log_fn log_fn;
    void *log_userdata;
    void (*scrub)(void *context, waldo_str line, waldo_log_fn fn, void *userdata,
                  waldo_log_level level, const char *area);
    void *scrub_context;
};

/* ---- rings of tasks ---- */

void waldo__task_ring_init(waldo__task *head);
int waldo__task_ring_empty(const waldo__task *head);
void waldo__task_ring_add(waldo__task *head, waldo__task *task, int state);
void waldo__task_ring_remove(waldo__task *task);
void waldo__task_ring_prepend(waldo__task *head,
                              waldo__task *from); /* all of from before head's first */

/* ---- run queue, timers ---- */

/* Passes of the queue until it is empty, bounded; how many tasks ran. */
size_t waldo__tasks_run(waldo__loop *loop);
size_t waldo__timers_run(waldo__loop *loop, int64_t now);

/* Make timer_fd fit the first timer; now: a recent time. */
void waldo__timers_sync(waldo__loop *loop, int64_t now);

/* max_us is used up. Each phase does one thing before it asks, so that none starves. */
int waldo__round_over(const waldo__loop *loop);
void waldo__loop_wake(waldo__loop *loop); /* make the descriptor readable */

/* ---- the poster: its wake-up descriptor is also the driving thread's own ---- */

waldo_poster *waldo__poster_new(waldo_status *ret_status, int *ret_errno);
int waldo__poster_wake_fd(const waldo_poster *poster);
void waldo__poster_wake(waldo_poster *poster);
void waldo__poster_take(waldo_poster *poster, waldo__task *queue); /* what was posted so far */
void waldo__poster_close(waldo_poster *poster);                    /* the loop is going */
void waldo__poster_drop(waldo__task *task); /* free a task that is a post; others are left alone */

/*
 * From awake to asleep the loop looks at the posts by itself, so that nobody has to wake it. rang:
 * wake_fd was readable.
 */
void waldo__poster_awake(waldo_poster *poster, int rang);
void waldo__poster_asleep(waldo_poster *poster, waldo__task *queue);

#endif
