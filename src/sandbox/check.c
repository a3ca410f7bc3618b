/* waldo_sandbox_check(): the backends of a spec are asked in turn, and no machine is made. */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/spec.h"

enum { CHECK_MS = 10000 };

typedef struct checking {
    waldo_runtime *rt;
    const waldo_backend_env *env;
    waldo_sandbox_spec *spec;
    waldo__task task;
    size_t next;
    waldo_status status; /* of the last one */
    waldo_error *error;
    waldo_sandbox_fn done;
    void *userdata;
} checking;

static void finish(checking *state)
{
    state->done(state->userdata, state->status, state->error);
    waldo_error_free(state->error);
    waldo_sandbox_spec_unref(state->spec);
    waldo__free(state);
}

static void on_answer(void *userdata, waldo_status status, const waldo_error *error)
{
    checking *state = userdata;

    waldo_error_free(state->error);
    state->status = status;
    state->error = status != WALDO_OK ? waldo_error_copy(error) : NULL;
    state->next = status == WALDO_OK ? state->spec->entry_count : state->next + 1;
    waldo__task_queue(state->env->loop, &state->task);
}

static void ask_next(void *userdata)
{
    checking *state = userdata;
    const waldo__spec_entry *entry;
    waldo_backend_spec spec;
    const waldo_backend_call call = { .size = sizeof call,
                                      .deadline_ns = waldo__deadline_ns(CHECK_MS),
                                      .userdata = state };

    if (state->next >= state->spec->entry_count) {
        finish(state);
        return;
    }
    entry = &state->spec->entries[state->next];
    spec = waldo__spec_for_backend(state->spec, entry);
    spec.owner = waldo__runtime_owner(state->rt);
    spec.id = "";
    if (WALDO__BACKEND_HAS(entry->ops, check)) {
        entry->ops->check(state->env, &spec, &call, on_answer);
    } else {
        entry->ops->probe(state->env, &call, on_answer);
    }
}

void waldo_sandbox_check(waldo_runtime *rt, waldo_sandbox_spec *spec, waldo_sandbox_fn done,
                         void *userdata)
{
    checking *state = WALDO__NEW(checking);
    const waldo_error *bad = waldo_sandbox_spec_error(spec);

    if (state == NULL) {
        done(userdata, WALDO_ENOMEM, NULL);
        return;
    }
    *state = (checking){ .rt = rt,
                         .env = waldo__runtime_backend_env(rt),
                         .spec = waldo_sandbox_spec_ref(spec),
                         .done = done,
                         .userdata = userdata };
    waldo__task_init(&state->task, ask_next, state);
    if (bad != NULL) {
        state->status = waldo_error_status(bad);
        state->error = waldo_error_copy(bad);
        state->next = spec->entry_count;
    }
    waldo__task_queue(state->env->loop, &state->task);
}
