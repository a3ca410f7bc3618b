/* Waits of backends: timers and cancel watches of the loop, for those without private headers. */
#include "base/alloc.h"
#include "loop/loop.h"
#include <waldo/sys/backend.h>

struct waldo_backend_wait {
    waldo__loop *loop;
    waldo__cancel_watch *watch;
    waldo__timer timer;
    waldo__task due;
    waldo_backend_wake_fn wake;
    void *userdata;
};

static void time_came(void *userdata)
{
    waldo_backend_wait *wait = userdata;

    waldo__task_queue(wait->loop, &wait->due);
}

static void is_due(void *userdata)
{
    waldo_backend_wait *wait = userdata;

    wait->wake(wait->userdata, 0);
}

static void is_cancelled(void *userdata)
{
    waldo_backend_wait *wait = userdata;

    wait->wake(wait->userdata, 1);
}

waldo_backend_wait *waldo_backend_wait_new(const waldo_backend_env *env, waldo_cancel *cancel,
                                           waldo_backend_wake_fn wake, void *userdata)
{
    waldo_backend_wait *wait = WALDO__NEW(waldo_backend_wait);

    if (wait == NULL) {
        return NULL;
    }
    wait->loop = env->loop;
    wait->wake = wake;
    wait->userdata = userdata;
    waldo__timer_init(&wait->timer, time_came, wait);
    waldo__task_init(&wait->due, is_due, wait);
    if (cancel != NULL &&
        waldo__cancel_watch_new(wait->loop, cancel, is_cancelled, wait, &wait->watch) != WALDO_OK) {
        waldo__free(wait);
        return NULL;
    }
    return wait;
}

waldo_status waldo_backend_wait_until(waldo_backend_wait *wait, int64_t due_ns)
{
    waldo__timer_disarm(wait->loop, &wait->timer);
    waldo__task_cancel(wait->loop, &wait->due);
    if (due_ns > 0) {
        return waldo__timer_arm(wait->loop, &wait->timer, due_ns);
    }
    waldo__task_queue(wait->loop, &wait->due);
    return WALDO_OK;
}

void waldo_backend_wait_free(waldo_backend_wait *wait)
{
    if (wait != NULL) {
        waldo__timer_disarm(wait->loop, &wait->timer);
        waldo__task_cancel(wait->loop, &wait->due);
        waldo__cancel_watch_free(wait->watch);
        waldo__free(wait);
    }
}
