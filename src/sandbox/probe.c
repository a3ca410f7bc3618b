/* waldo_backend_probe(): each backend of this build is asked in turn. */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"

enum { PROBE_MS = 10000 };

typedef struct probing {
    waldo_runtime *rt;
    const waldo_backend_env *env;
    waldo__task task;
    size_t next;
    waldo_backend_report_fn each;
    waldo_sandbox_fn done;
    void *userdata;
} probing;

static void probe_next(void *userdata);

static void on_probe(void *userdata, waldo_status status, const waldo_error *error)
{
    probing *state = userdata;
    const waldo_backend_ops *ops = waldo__backend_at(state->next++);
    const waldo_backend_report report = { .size = sizeof report,
                                          .usable = status == WALDO_OK,
                                          .isolation = ops->isolation,
                                          .name = ops->name,
                                          .about = ops->about,
                                          .reason = waldo_error_message(error) };

    state->each(state->userdata, &report);
    waldo__task_queue(state->env->loop, &state->task);
}

static void probe_next(void *userdata)
{
    probing *state = userdata;
    const waldo_backend_ops *ops = waldo__backend_at(state->next);
    waldo_backend_call call = { .size = sizeof call,
                                .deadline_ns = waldo__deadline_ns(PROBE_MS),
                                .userdata = state };

    if (ops != NULL) {
        ops->probe(state->env, &call, on_probe);
        return;
    }
    if (state->done != NULL) {
        state->done(state->userdata, WALDO_OK, NULL);
    }
    waldo__free(state);
}

void waldo_backend_probe(waldo_runtime *rt, waldo_backend_report_fn each, waldo_sandbox_fn done,
                         void *userdata)
{
    probing *state = WALDO__NEW(probing);

    if (state == NULL) {
        if (done != NULL) {
            done(userdata, WALDO_ENOMEM, NULL);
        }
        return;
    }
    *state = (probing){ .rt = rt,
                        .env = waldo__runtime_backend_env(rt),
                        .each = each,
                        .done = done,
                        .userdata = userdata };
    waldo__task_init(&state->task, probe_next, state);
    waldo__task_queue(state->env->loop, &state->task);
}
