/* Until src/agent/runtime.c is there. */
#include "base/alloc.h"
#include "sandbox/sandbox.h"

struct waldo_runtime {
    waldo__loop *loop;
    waldo_backend_env env;
    waldo__sandbox_node ring;
    int closing;
};

waldo_runtime *waldo_runtime_new(const waldo_runtime_options *options)
{
    waldo_runtime *rt = WALDO__NEW(waldo_runtime);

    (void)options;
    waldo__loop_new(&rt->loop, NULL);
    rt->env = (waldo_backend_env){ .size = sizeof rt->env, .loop = rt->loop };
    rt->ring.next = rt->ring.prev = &rt->ring;
    return rt;
}

const waldo_backend_env *waldo__runtime_backend_env(waldo_runtime *rt)
{
    return &rt->env;
}

const char *waldo__runtime_state_dir(const waldo_runtime *rt)
{
    (void)rt;
    return "/tmp";
}

const char *waldo__runtime_owner(const waldo_runtime *rt)
{
    (void)rt;
    return "test";
}

waldo_status waldo__runtime_accepts(const waldo_runtime *rt)
{
    return rt->closing ? WALDO_ECLOSED : WALDO_OK;
}

waldo__sandbox_node *waldo__runtime_sandboxes(waldo_runtime *rt)
{
    return &rt->ring;
}

void waldo__runtime_sandbox_gone(waldo_runtime *rt)
{
    (void)rt;
}

waldo_status waldo_runtime_step(waldo_runtime *rt, int64_t timeout_ms)
{
    return waldo__loop_round(rt->loop, timeout_ms == 0 ? 0 : waldo__deadline_ns(timeout_ms), 0);
}

int waldo_runtime_fd(const waldo_runtime *rt)
{
    return waldo__loop_fd(rt->loop);
}

void waldo_runtime_free(waldo_runtime *rt)
{
    rt->closing = 1;
    while (rt->ring.next != &rt->ring) {
        waldo_sandbox *sandbox = waldo__sandbox_of_node(rt->ring.next);

        waldo__sandbox_abandon(sandbox);
    }
    waldo__loop_free(rt->loop);
    waldo__free(rt);
}
