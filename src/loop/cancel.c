/* Cancel objects, and the watches by which a loop hears of them. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/ident.h"
#include "loop/internal.h"

struct waldo_cancel {
    atomic_uint refs;
    atomic_int triggered;
    pid_t pid;
    pthread_mutex_t lock; /* taken before a poster's */
    waldo__cancel_watch *watches;
};

struct waldo__cancel_watch {
    waldo__task task; /* posted by the trigger */
    waldo__loop *loop;
    waldo_cancel *cancel;
    waldo__cancel_watch *next; /* under the cancel's lock */
    waldo__cancel_watch *prev;
    int linked;
};

waldo_cancel *waldo_cancel_new(void)
{
    waldo_cancel *cancel = WALDO__NEW(waldo_cancel);

    if (cancel == NULL) {
        return NULL;
    }
    atomic_init(&cancel->refs, 1);
    atomic_init(&cancel->triggered, 0);
    cancel->pid = waldo__process_id();
    pthread_mutex_init(&cancel->lock, NULL);
    return cancel;
}

waldo_cancel *waldo_cancel_ref(waldo_cancel *cancel)
{
    if (cancel != NULL) {
        atomic_fetch_add_explicit(&cancel->refs, 1, memory_order_relaxed);
    }
    return cancel;
}

void waldo_cancel_unref(waldo_cancel *cancel)
{
    if (cancel == NULL || atomic_fetch_sub_explicit(&cancel->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (cancel->pid == waldo__process_id()) {
        pthread_mutex_destroy(&cancel->lock);
    }
    waldo__free(cancel);
}

static void unlink_watch(waldo__cancel_watch *watch)
{
    if (watch->prev != NULL) {
        watch->prev->next = watch->next;
    } else {
        watch->cancel->watches = watch->next;
    }
    if (watch->next != NULL) {
        watch->next->prev = watch->prev;
    }
    watch->linked = 0;
}

/* In a forked child the watches are the parent's: nothing to tell, and the lock may be held. */
void waldo_cancel_trigger(waldo_cancel *cancel)
{
    if (cancel == NULL || atomic_load(&cancel->triggered)) {
        return;
    }
    if (cancel->pid != waldo__process_id()) {
        atomic_store(&cancel->triggered, 1);
        return;
    }
    pthread_mutex_lock(&cancel->lock);
    atomic_store(&cancel->triggered, 1);
    while (cancel->watches != NULL) {
        waldo__cancel_watch *watch = cancel->watches;

        unlink_watch(watch);
        waldo__poster_add(watch->loop->poster, &watch->task);
    }
    pthread_mutex_unlock(&cancel->lock);
}

int waldo_cancel_triggered(const waldo_cancel *cancel)
{
    return cancel != NULL && atomic_load(&cancel->triggered);
}

waldo_status waldo__cancel_watch_new(waldo__loop *loop, waldo_cancel *cancel, waldo__task_fn fn,
                                     void *userdata, waldo__cancel_watch **ret_watch)
{
    waldo__cancel_watch *watch;
    int triggered;

    if (waldo__loop_forked(loop) || cancel->pid != loop->pid) {
        return WALDO_EFORKED;
    }
    watch = WALDO__NEW(waldo__cancel_watch);
    if (watch == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__task_init(&watch->task, fn, userdata);
    watch->loop = loop;
    watch->cancel = waldo_cancel_ref(cancel);
    pthread_mutex_lock(&cancel->lock);
    triggered = atomic_load(&cancel->triggered);
    if (!triggered) {
        watch->next = cancel->watches;
        if (watch->next != NULL) {
            watch->next->prev = watch;
        }
        cancel->watches = watch;
        watch->linked = 1;
    }
    pthread_mutex_unlock(&cancel->lock);
    if (triggered) {
        waldo__task_queue(loop, &watch->task);
    }
    *ret_watch = watch;
    return WALDO_OK;
}

void waldo__cancel_watch_free(waldo__cancel_watch *watch)
{
    int linked;

    if (watch == NULL) {
        return;
    }
    if (!waldo__loop_forked(watch->loop)) {
        pthread_mutex_lock(&watch->cancel->lock);
        linked = watch->linked;
        if (linked) {
            unlink_watch(watch);
        }
        pthread_mutex_unlock(&watch->cancel->lock);
        if (!linked && !waldo__poster_remove(watch->loop->poster, &watch->task)) {
            waldo__task_cancel(watch->loop, &watch->task);
        }
    }
    waldo_cancel_unref(watch->cancel);
    waldo__free(watch);
}
