/*
 * Posts from other threads, and the eventfd by which anybody makes the loop's descriptor readable.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "loop/internal.h"

struct waldo_poster {
    atomic_uint refs;
    atomic_int signalled; /* no write to wake_fd is needed: there was one, or the loop is awake */
    pid_t pid;
    int wake_fd;
    pthread_mutex_t lock;
    int closed;       /* under lock: the loop is gone */
    waldo__task list; /* under lock: head of the ring of what was posted */
};

/* One waldo_poster_post(). */
struct post {
    waldo__task task;
    waldo_post_fn fn;
    void *userdata;
};

static void run_post(void *userdata)
{
    struct post *post = userdata;
    waldo_post_fn fn = post->fn;
    void *given = post->userdata;

    waldo__free(post);
    fn(given);
}

void waldo__poster_drop(waldo__task *task)
{
    if (task->fn == run_post) {
        waldo__free(WALDO__CONTAINER(task, struct post, task));
    }
}

waldo_poster *waldo__poster_new(waldo_status *ret_status, int *ret_errno)
{
    waldo_poster *poster = WALDO__NEW(waldo_poster);

    if (poster == NULL) {
        *ret_status = WALDO_ENOMEM;
        return NULL;
    }
    poster->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (poster->wake_fd < 0) {
        *ret_errno = errno;
        *ret_status = WALDO_ESETUP;
        waldo__free(poster);
        return NULL;
    }
    atomic_init(&poster->refs, 1);
    atomic_init(&poster->signalled, 0);
    poster->pid = waldo__process_id();
    pthread_mutex_init(&poster->lock, NULL);
    waldo__task_ring_init(&poster->list);
    return poster;
}

int waldo__poster_wake_fd(const waldo_poster *poster)
{
    return poster->wake_fd;
}

void waldo__poster_wake(waldo_poster *poster)
{
    uint64_t one = 1;

    if (!atomic_exchange(&poster->signalled, 1)) {
        /* Fails only when the counter is full, and then the descriptor is readable anyway. */
        ssize_t done = write(poster->wake_fd, &one, sizeof one);

        (void)done;
    }
}

void waldo__poster_take(waldo_poster *poster, waldo__task *queue)
{
    pthread_mutex_lock(&poster->lock);
    while (!waldo__task_ring_empty(&poster->list)) {
        waldo__task *task = poster->list.next;

        waldo__task_ring_remove(task);
        waldo__task_ring_add(queue, task, WALDO__TASK_QUEUED);
    }
    pthread_mutex_unlock(&poster->lock);
}

void waldo__poster_awake(waldo_poster *poster, int rang)
{
    uint64_t counter;

    if (rang) {
        ssize_t got = read(poster->wake_fd, &counter, sizeof counter);

        (void)got;
    }
    atomic_store(&poster->signalled, 1);
}

/*
 * The flag is cleared before the list is taken: a post that came too late for the list finds the
 * flag clear and writes.
 */
void waldo__poster_asleep(waldo_poster *poster, waldo__task *queue)
{
    atomic_store(&poster->signalled, 0);
    waldo__poster_take(poster, queue);
}

waldo_status waldo__poster_add(waldo_poster *poster, waldo__task *task)
{
    waldo_status status = WALDO_OK;

    if (poster->pid != waldo__process_id()) {
        return WALDO_EFORKED;
    }
    pthread_mutex_lock(&poster->lock);
    if (poster->closed) {
        status = WALDO_ECLOSED;
    } else {
        waldo__task_ring_add(&poster->list, task, WALDO__TASK_POSTED);
        waldo__poster_wake(poster);
    }
    pthread_mutex_unlock(&poster->lock);
    return status;
}

int waldo__poster_remove(waldo_poster *poster, waldo__task *task)
{
    int found;

    pthread_mutex_lock(&poster->lock);
    found = task->queued == WALDO__TASK_POSTED;
    if (found) {
        waldo__task_ring_remove(task);
    }
    pthread_mutex_unlock(&poster->lock);
    return found;
}

/* In a forked child the lock may be held by a thread that does not exist there. */
void waldo__poster_close(waldo_poster *poster)
{
    int forked = poster->pid != waldo__process_id();

    if (!forked) {
        pthread_mutex_lock(&poster->lock);
        while (!waldo__task_ring_empty(&poster->list)) {
            waldo__task *task = poster->list.next;

            waldo__task_ring_remove(task);
            waldo__poster_drop(task);
        }
    }
    poster->closed = 1;
    close(poster->wake_fd);
    if (!forked) {
        pthread_mutex_unlock(&poster->lock);
    }
}

waldo_status waldo_poster_post(waldo_poster *poster, waldo_post_fn fn, void *userdata)
{
    struct post *post;
    waldo_status status;

    if (poster == NULL || fn == NULL) {
        return WALDO_EINVAL;
    }
    post = WALDO__NEW(struct post);
    if (post == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__task_init(&post->task, run_post, post);
    post->fn = fn;
    post->userdata = userdata;
    status = waldo__poster_add(poster, &post->task);
    if (status != WALDO_OK) {
        waldo__free(post);
    }
    return status;
}

waldo_poster *waldo_poster_ref(waldo_poster *poster)
{
    if (poster != NULL) {
        atomic_fetch_add_explicit(&poster->refs, 1, memory_order_relaxed);
    }
    return poster;
}

void waldo_poster_unref(waldo_poster *poster)
{
    if (poster == NULL || atomic_fetch_sub_explicit(&poster->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (poster->pid == waldo__process_id()) {
        pthread_mutex_destroy(&poster->lock);
    }
    waldo__free(poster);
}
