#include "held.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "loop/loop.h"
#include <waldo/runtime.h>

static struct {
    waldo__loop *loop;
    waldo__task task;
    waldo_backend_done_fn done;
    void *userdata;
} held;

static void hold(void *userdata, waldo_status status, const waldo_error *error)
{
    if (status == WALDO_OK) {
        held.userdata = userdata;
    } else {
        held.done(userdata, status, error);
    }
}

static void opened(void *userdata)
{
    (void)userdata;
    held.done(held.userdata, WALDO_OK, NULL);
}

waldo_backend_done_fn held_back(const waldo_backend_env *env, waldo_backend_done_fn done)
{
    held.loop = env->loop;
    held.done = done;
    held.userdata = NULL;
    return hold;
}

void held_wait(waldo_runtime *rt, uint32_t step_ms)
{
    while (held.userdata == NULL) {
        assert_int_equal(waldo_runtime_step(rt, step_ms), WALDO_OK);
    }
}

void held_release(void)
{
    waldo__task_init(&held.task, opened, NULL);
    waldo__task_queue(held.loop, &held.task);
}
