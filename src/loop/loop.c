/* The loop itself: one epoll descriptor that everything hangs on, and the round. */
#include "loop/internal.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/ident.h"

enum { EVENTS_PER_ROUND = 128 };

/* ---- making and ending ---- */

static waldo_status add_own(waldo__loop *loop, int fd, void *mark)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = mark };

    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? WALDO_OK : WALDO_ESETUP;
}

waldo_status waldo__loop_new(waldo__loop **ret_loop, waldo_error **ret_err)
{
    waldo_status status = WALDO_ESETUP;
    waldo__loop *loop = WALDO__NEW(waldo__loop);
    int error_number = 0;

    if (loop == NULL) {
        return waldo__error_nomem(ret_err);
    }
    loop->pid = waldo__process_id();
    loop->now_ns = waldo__now_ns();
    loop->timer_fd_due = WALDO__NEVER;
    loop->stop_ns = WALDO__NEVER;
    waldo__task_ring_init(&loop->tasks);
    waldo__task_ring_init(&loop->running);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    error_number = errno;
    if (loop->epoll_fd < 0 || loop->timer_fd < 0) {
        goto fail;
    }
    loop->poster = waldo__poster_new(&status, &error_number);
    if (loop->poster == NULL) {
        goto fail;
    }
    if (add_own(loop, loop->timer_fd, &loop->timer_fd) != WALDO_OK ||
        add_own(loop, waldo__poster_wake_fd(loop->poster), &loop->poster) != WALDO_OK) {
        error_number = errno;
        status = WALDO_ESETUP;
        goto fail;
    }
    *ret_loop = loop;
    return WALDO_OK;

fail:
    waldo__loop_free(loop);
    if (status == WALDO_ENOMEM) {
        return waldo__error_nomem(ret_err);
    }
    return waldo_error_set(ret_err, status, WALDO_CLASS_SYSTEM, "cannot make the event loop: %s",
                           waldo__errno_text(error_number));
}

static void free_dead(waldo__loop *loop)
{
    while (loop->dead != NULL) {
        waldo__watch *watch = loop->dead;

        loop->dead = watch->next_dead;
        waldo__free(watch);
    }
}

static void drop_tasks(waldo__task *head)
{
    while (!waldo__task_ring_empty(head)) {
        waldo__task *task = head->next;

        waldo__task_ring_remove(task);
        waldo__poster_drop(task);
    }
}

void waldo__loop_free(waldo__loop *loop)
{
    if (loop == NULL) {
        return;
    }
    free_dead(loop);
    drop_tasks(&loop->running);
    drop_tasks(&loop->tasks);
    if (loop->poster != NULL) {
        waldo__poster_close(loop->poster);
        waldo_poster_unref(loop->poster);
    }
    if (loop->timer_fd >= 0) {
        close(loop->timer_fd);
    }
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
    waldo__free(loop->heap);
    waldo__free(loop);
}

int64_t waldo__loop_now(const waldo__loop *loop)
{
    return loop->now_ns;
}

int waldo__loop_forked(const waldo__loop *loop)
{
    return loop->pid != waldo__process_id();
}

int waldo__loop_fd(waldo__loop *loop)
{
    if (waldo__loop_forked(loop)) {
        return -1;
    }
    if (!loop->shown) {
        loop->shown = 1;
        if (!waldo__task_ring_empty(&loop->tasks)) {
            waldo__loop_wake(loop);
        }
    }
    return loop->epoll_fd;
}

waldo_status waldo__loop_check(const waldo__loop *loop)
{
    if (waldo__loop_forked(loop)) {
        return WALDO_EFORKED;
    }
    return loop->in_round ? WALDO_EREENTRANT : WALDO_OK;
}

/*
 * A round does not wait while there are tasks: only who polls the descriptor has to be told of
 * them. In a forked child the eventfd is still the parent's.
 */
void waldo__loop_wake(waldo__loop *loop)
{
    if (loop->shown && !waldo__loop_forked(loop)) {
        waldo__poster_wake(loop->poster);
    }
}

waldo_poster *waldo__loop_poster(waldo__loop *loop)
{
    return waldo_poster_ref(loop->poster);
}

/* ---- watches ---- */

/*
 * A watch is known to the kernel for its whole life, so that changing it cannot fail for want of
 * memory. One that wants nothing is edge-triggered: a hang-up, which cannot be masked, wakes once.
 */
static int tell_kernel(waldo__watch *watch, int operation)
{
    struct epoll_event event = { .data.ptr = watch };

    event.events |= watch->wanted & WALDO__READ ? EPOLLIN : 0u;
    event.events |= watch->wanted & WALDO__WRITE ? EPOLLOUT : 0u;
    event.events |= watch->wanted == 0 ? EPOLLET : 0u;
    watch->armed = watch->wanted;
    watch->rang = 0;
    return epoll_ctl(watch->loop->epoll_fd, operation, watch->fd, &event);
}

waldo_status waldo__watch_new(waldo__loop *loop, int fd, unsigned events, waldo__watch_fn fn,
                              void *userdata, waldo__watch **ret_watch)
{
    waldo__watch *watch;

    if (waldo__loop_forked(loop)) {
        return WALDO_EFORKED;
    }
    watch = WALDO__NEW(waldo__watch);
    if (watch == NULL) {
        return WALDO_ENOMEM;
    }
    watch->loop = loop;
    watch->fd = fd;
    watch->wanted = events & (WALDO__READ | WALDO__WRITE);
    watch->fn = fn;
    watch->userdata = userdata;
    if (tell_kernel(watch, EPOLL_CTL_ADD) != 0) {
        waldo_status status = waldo__errno_status(errno);

        waldo__free(watch);
        return status;
    }
    *ret_watch = watch;
    return WALDO_OK;
}

/*
 * Of one that wants nothing the kernel hears only when something comes after all: most connections
 * rest until they are used again, and that costs nothing then.
 */
static int must_tell(const waldo__watch *watch)
{
    return watch->wanted != watch->armed && (watch->wanted != 0 || watch->rang);
}

static void add_dirty(waldo__watch *watch)
{
    if (!watch->dirty && must_tell(watch)) {
        watch->dirty = 1;
        watch->next_dirty = watch->loop->dirty;
        watch->loop->dirty = watch;
    }
}

/* Within a round changes are collected. */
waldo_status waldo__watch_set(waldo__watch *watch, unsigned events)
{
    waldo__loop *loop = watch->loop;

    watch->wanted = events & (WALDO__READ | WALDO__WRITE);
    if (loop->in_round) {
        add_dirty(watch);
        return WALDO_OK;
    }
    if (!must_tell(watch)) {
        return WALDO_OK;
    }
    if (waldo__loop_forked(loop)) {
        return WALDO_EFORKED;
    }
    return tell_kernel(watch, EPOLL_CTL_MOD) == 0 ? WALDO_OK : waldo__errno_status(errno);
}

static void settle_watches(waldo__loop *loop)
{
    while (loop->dirty != NULL) {
        waldo__watch *watch = loop->dirty;

        loop->dirty = watch->next_dirty;
        watch->dirty = 0;
        if (!watch->dead && must_tell(watch) && !waldo__loop_forked(loop)) {
            tell_kernel(watch, EPOLL_CTL_MOD);
        }
    }
    free_dead(loop);
}

/* The registration is shared with a parent process: a forked child must leave it alone. */
void waldo__watch_free(waldo__watch *watch)
{
    waldo__loop *loop;

    if (watch == NULL) {
        return;
    }
    loop = watch->loop;
    if (!waldo__loop_forked(loop)) {
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    }
    if (!loop->in_round) {
        waldo__free(watch);
        return;
    }
    /* This round's events may still name it. */
    watch->dead = 1;
    watch->next_dead = loop->dead;
    loop->dead = watch;
}

static int run_watch(waldo__watch *watch, uint32_t got)
{
    unsigned events = 0;

    if (watch->dead) {
        return 0;
    }
    if (watch->wanted == 0) {
        watch->rang = 1;
        add_dirty(watch);
        return 0;
    }
    events |= got & EPOLLIN ? WALDO__READ : 0u;
    events |= got & EPOLLOUT ? WALDO__WRITE : 0u;
    events &= watch->wanted;
    events |= got & (EPOLLHUP | EPOLLERR) ? WALDO__HANGUP : 0u;
    if (events == 0) {
        return 0;
    }
    watch->fn(watch->userdata, events);
    return 1;
}

/* ---- hooks ---- */

void waldo__loop_add_hook(waldo__loop *loop, waldo__hook *hook)
{
    waldo__hook **at = &loop->hooks;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    hook->next = NULL;
    *at = hook;
}

void waldo__loop_remove_hook(waldo__loop *loop, waldo__hook *hook)
{
    waldo__hook **at = &loop->hooks;

    while (*at != NULL && *at != hook) {
        at = &(*at)->next;
    }
    if (*at == hook) {
        *at = hook->next;
    }
    if (loop->next_hook == hook) {
        loop->next_hook = hook->next;
    }
}

static void run_hooks(waldo__loop *loop)
{
    loop->next_hook = loop->hooks;
    while (loop->next_hook != NULL) {
        waldo__hook *hook = loop->next_hook;

        loop->next_hook = hook->next;
        hook->fn(hook->userdata);
    }
}

/* ---- the round ---- */

int waldo__round_over(const waldo__loop *loop)
{
    return loop->stop_ns != WALDO__NEVER && waldo__now_ns() >= loop->stop_ns;
}

/* For epoll_wait(): rounded up, so that a wait never ends just before its deadline. */
static int wait_ms(const waldo__loop *loop, int64_t deadline_ns)
{
    int64_t left;

    if (deadline_ns == 0 || !waldo__task_ring_empty(&loop->tasks)) {
        return 0;
    }
    if (deadline_ns == WALDO__NEVER) {
        return -1;
    }
    left = deadline_ns - waldo__now_ns();
    if (left <= 0) {
        return 0;
    }
    left = (left + WALDO__NS_PER_MS - 1) / WALDO__NS_PER_MS;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Descriptors of one batch; those not looked at in time are reported again by the next wait. */
static size_t run_events(waldo__loop *loop, const struct epoll_event *events, int count)
{
    size_t done = 0;
    int rang = 0;

    for (int i = 0; i < count; i++) {
        rang |= events[i].data.ptr == &loop->poster;
    }
    waldo__poster_awake(loop->poster, rang);
    for (int i = 0; i < count && (done == 0 || !waldo__round_over(loop)); i++) {
        if (events[i].data.ptr != &loop->poster && events[i].data.ptr != &loop->timer_fd) {
            done += (size_t)run_watch(events[i].data.ptr, events[i].events);
        }
    }
    return done;
}

/* Everything of a round but the wait; 1 when something was done. */
static int do_round(waldo__loop *loop, const struct epoll_event *events, int count, uint32_t max_us)
{
    int64_t now = waldo__now_ns();
    size_t done;

    loop->in_round = 1;
    loop->now_ns = now;
    loop->stop_ns = max_us != 0 ? now + (int64_t)max_us * 1000 : WALDO__NEVER;
    done = run_events(loop, events, count);
    done += waldo__timers_run(loop, now);
    done += waldo__tasks_run(loop);
    if (done != 0) {
        run_hooks(loop);
    }
    settle_watches(loop);
    waldo__timers_sync(loop, now);
    waldo__poster_asleep(loop->poster, &loop->tasks);
    if (!waldo__task_ring_empty(&loop->tasks)) {
        waldo__loop_wake(loop);
    }
    loop->in_round = 0;
    return done != 0;
}

waldo_status waldo__loop_round(waldo__loop *loop, int64_t deadline_ns, uint32_t max_us)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    waldo_status status = waldo__loop_check(loop);

    if (status != WALDO_OK) {
        return status;
    }
    for (;;) {
        int timeout = wait_ms(loop, deadline_ns);
        int count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_ROUND, timeout);
        int interrupted = count < 0; /* by a signal: the host gets a turn to look at what it did */

        if (do_round(loop, events, interrupted ? 0 : count, max_us) || interrupted ||
            deadline_ns == 0) {
            return WALDO_OK;
        }
        if (deadline_ns != WALDO__NEVER && waldo__now_ns() >= deadline_ns) {
            return WALDO_ETIMEDOUT;
        }
    }
}
