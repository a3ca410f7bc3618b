/* Machines that exist: each backend that can list is asked in turn; one is ended by its id. */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"

enum { LIST_MS = 15000, DESTROY_MS = 60000 };

/* Of waldo_sandbox_list() or waldo_sandbox_destroy(). */
typedef struct inquiry {
    const waldo_backend_env *env;
    waldo__task task;
    const waldo_backend_ops *ops;
    size_t next; /* backend, of a list */
    char *id;    /* to be ended */
    waldo_sandbox_info_fn each;
    waldo_sandbox_fn done;
    void *userdata;
    waldo_status status; /* the first failure */
    waldo_error *error;
} inquiry;

static void finish(inquiry *ask)
{
    if (ask->done != NULL) {
        ask->done(ask->userdata, ask->status, ask->error);
    }
    waldo_error_free(ask->error);
    waldo__free(ask->id);
    waldo__free(ask);
}

/* The next step comes from the run queue: the backend's own state is gone then. */
static void answered(void *userdata, waldo_status status, const waldo_error *error)
{
    inquiry *ask = userdata;

    if (status != WALDO_OK && ask->status != WALDO_OK) {
        waldo__log(ask->env->loop, WALDO_LOG_ERROR, ask->ops->name, "%s",
                   waldo__error_text(status, error));
    } else if (status != WALDO_OK) {
        ask->status = status;
        if (error == NULL) {
            waldo_error_set(&ask->error, status, WALDO_CLASS_BACKEND, "%s: %s", ask->ops->name,
                            waldo_status_text(status));
        } else {
            ask->error = waldo_error_copy(error);
            if (!waldo__str_starts(waldo__str(waldo_error_message(error)), ask->ops->name)) {
                waldo__error_prefix(ask->error, ask->ops->name);
            }
        }
    }
    waldo__task_queue(ask->env->loop, &ask->task);
}

static inquiry *inquiry_new(waldo_runtime *rt, waldo__task_fn step, waldo_sandbox_fn done,
                            void *userdata)
{
    inquiry *ask = WALDO__NEW(inquiry);

    if (ask == NULL) {
        if (done != NULL) {
            done(userdata, WALDO_ENOMEM, NULL);
        }
        return NULL;
    }
    ask->env = waldo__runtime_backend_env(rt);
    ask->done = done;
    ask->userdata = userdata;
    waldo__task_init(&ask->task, step, ask);
    ask->status = waldo__runtime_accepts(rt);
    if (ask->status != WALDO_OK) {
        waldo_error_set(&ask->error, ask->status, WALDO_CLASS_USAGE, "machines: %s",
                        waldo_status_text(ask->status));
    }
    return ask;
}

/* ---- list ---- */

static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* What a backend left out, or does not know yet, has its neutral value. */
static void tell(void *userdata, const waldo_sandbox_info *info)
{
    inquiry *ask = userdata;
    waldo_sandbox_info full = { .size = sizeof full, .owner_alive = -1, .mine = -1 };

    memcpy(&full, info, info->size < sizeof full ? info->size : sizeof full);
    full.size = sizeof full;
    full.backend = ask->ops->name;
    full.id = text_or_empty(full.id);
    full.name = text_or_empty(full.name);
    full.owner = text_or_empty(full.owner);
    full.about = text_or_empty(full.about);
    ask->each(ask->userdata, &full);
}

static void list_next(void *userdata)
{
    inquiry *ask = userdata;
    waldo_backend_call call = { .size = sizeof call,
                                .deadline_ns = waldo__deadline_ns(LIST_MS),
                                .userdata = ask };

    while ((ask->ops = waldo__backend_at(ask->next)) != NULL) {
        ask->next++;
        if (WALDO__BACKEND_HAS(ask->ops, list_sandboxes)) {
            ask->ops->list_sandboxes(ask->env, &call, tell, answered);
            return;
        }
    }
    finish(ask);
}

void waldo_sandbox_list(waldo_runtime *rt, waldo_sandbox_info_fn each, waldo_sandbox_fn done,
                        void *userdata)
{
    inquiry *ask = inquiry_new(rt, list_next, done, userdata);

    if (ask == NULL) {
        return;
    }
    ask->each = each;
    if (ask->status != WALDO_OK) {
        ask->next = SIZE_MAX; /* nobody is asked */
    }
    waldo__task_queue(ask->env->loop, &ask->task);
}

/* ---- destroy ---- */

static void destroyed(void *userdata)
{
    finish(userdata);
}

static waldo_status find_destroyer(inquiry *ask, const char *backend, const char *id)
{
    ask->ops = waldo__backend_find(waldo__str(backend));
    if (ask->ops == NULL || id == NULL || id[0] == '\0') {
        return waldo__error_invalid(&ask->error,
                                    "machines: no backend \"%s\" in this build, or no id given",
                                    text_or_empty(backend));
    }
    if (!WALDO__BACKEND_HAS(ask->ops, destroy_id)) {
        return waldo_error_set(&ask->error, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                               "%s: its machines cannot be ended by id", ask->ops->name);
    }
    ask->id = waldo__strdup(id);
    return ask->id != NULL ? WALDO_OK : waldo__error_nomem(&ask->error);
}

void waldo_sandbox_destroy(waldo_runtime *rt, const char *backend, const char *id,
                           waldo_sandbox_fn done, void *userdata)
{
    inquiry *ask = inquiry_new(rt, destroyed, done, userdata);
    waldo_backend_call call = { .size = sizeof call,
                                .deadline_ns = waldo__deadline_ns(DESTROY_MS),
                                .userdata = ask };

    if (ask == NULL) {
        return;
    }
    if (ask->status == WALDO_OK) {
        ask->status = find_destroyer(ask, backend, id);
    }
    if (ask->status == WALDO_OK) {
        ask->ops->destroy_id(ask->env, &call, ask->id, answered);
    } else {
        waldo__task_queue(ask->env->loop, &ask->task);
    }
}
