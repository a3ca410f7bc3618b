/* Timers: a binary heap whose members know their place, behind one timerfd. */
#include <sys/timerfd.h>

#include "base/alloc.h"
#include "loop/internal.h"

static void place(waldo__loop *loop, size_t at, waldo__timer *timer)
{
    loop->heap[at] = timer;
    timer->slot = at + 1;
}

static void sift_up(waldo__loop *loop, size_t at, waldo__timer *timer)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;

        if (loop->heap[parent]->due_ns <= timer->due_ns) {
            break;
        }
        place(loop, at, loop->heap[parent]);
        at = parent;
    }
    place(loop, at, timer);
}

static void sift_down(waldo__loop *loop, size_t at, waldo__timer *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= loop->timer_count) {
            break;
        }
        if (child + 1 < loop->timer_count &&
            loop->heap[child + 1]->due_ns < loop->heap[child]->due_ns) {
            child++;
        }
        if (timer->due_ns <= loop->heap[child]->due_ns) {
            break;
        }
        place(loop, at, loop->heap[child]);
        at = child;
    }
    place(loop, at, timer);
}

/* Put a timer where its time belongs, starting from a free place. */
static void settle(waldo__loop *loop, size_t at, waldo__timer *timer)
{
    if (at > 0 && loop->heap[(at - 1) / 2]->due_ns > timer->due_ns) {
        sift_up(loop, at, timer);
    } else {
        sift_down(loop, at, timer);
    }
}

void waldo__timer_init(waldo__timer *timer, waldo__task_fn fn, void *userdata)
{
    *timer = (waldo__timer){ .fn = fn, .userdata = userdata };
}

int waldo__timer_armed(const waldo__timer *timer)
{
    return timer->slot != 0;
}

void waldo__timer_disarm(waldo__loop *loop, waldo__timer *timer)
{
    size_t at = timer->slot;
    waldo__timer *last;

    if (at == 0) {
        return;
    }
    timer->slot = 0;
    last = loop->heap[--loop->timer_count];
    if (last != timer) {
        settle(loop, at - 1, last);
    }
}

/* Room in the heap for one more. */
static int grow(waldo__loop *loop)
{
    size_t cap = loop->timer_cap != 0 ? 2 * loop->timer_cap : 32;
    waldo__timer **heap;

    if (loop->timer_count < loop->timer_cap) {
        return 1;
    }
    heap = waldo__reallocarray(loop->heap, cap, sizeof *heap);
    if (heap == NULL) {
        return 0;
    }
    loop->heap = heap;
    loop->timer_cap = cap;
    return 1;
}

waldo_status waldo__timer_arm(waldo__loop *loop, waldo__timer *timer, int64_t due_ns)
{
    if (due_ns == WALDO__NEVER) {
        waldo__timer_disarm(loop, timer);
        return WALDO_OK;
    }
    if (timer->slot == 0) {
        if (!grow(loop)) {
            return WALDO_ENOMEM;
        }
        timer->due_ns = due_ns;
        loop->timer_count++;
        sift_up(loop, loop->timer_count - 1, timer);
    } else {
        timer->due_ns = due_ns;
        settle(loop, timer->slot - 1, timer);
    }
    if (!loop->in_round && due_ns < loop->timer_fd_due) {
        waldo__timers_sync(loop, 0);
    }
    return WALDO_OK;
}

size_t waldo__timers_run(waldo__loop *loop, int64_t now)
{
    size_t limit =
        loop->timer_count; /* one that re-arms itself in the past must not hold the round */
    size_t count = 0;

    while (count < limit && loop->timer_count > 0 && loop->heap[0]->due_ns <= now &&
           (count == 0 || !waldo__round_over(loop))) {
        waldo__timer *timer = loop->heap[0];

        waldo__timer_disarm(loop, timer);
        count++;
        timer->fn(timer->userdata);
    }
    return count;
}

/*
 * The descriptor may fire too early, never too late: a first timer that moved away costs nothing
 * until the old time has come. Setting it also takes back that it was readable.
 */
void waldo__timers_sync(waldo__loop *loop, int64_t now)
{
    int64_t due = loop->timer_count > 0 ? loop->heap[0]->due_ns : WALDO__NEVER;
    struct itimerspec when = { 0 };

    if ((due >= loop->timer_fd_due && loop->timer_fd_due > now) || waldo__loop_forked(loop)) {
        return;
    }
    if (due != WALDO__NEVER) {
        int64_t at = due > 0 ? due : 1; /* all zeroes would disarm it */

        when.it_value.tv_sec = at / WALDO__NS_PER_S;
        when.it_value.tv_nsec = at % WALDO__NS_PER_S;
    }
    loop->timer_fd_due = due;
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}
