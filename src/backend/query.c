#include "backend/query.h"

#include "base/alloc.h"
#include "base/error.h"
#include "hand/embedded.h"

enum { PAGES_MAX = 1000, NEXT_MAX = 1024 };

static void complete(void *userdata)
{
    waldo__query *query = userdata;

    query->fns->free(query);
    query->done(query->userdata, query->status, query->error);
    waldo_error_free(query->error);
    waldo__free(query);
}

void waldo__query_ended(waldo__query *query, waldo_status status, const waldo_error *error)
{
    query->status = status;
    query->error = query->error != NULL ? query->error : waldo_error_copy(error);
    complete(query);
}

/* ---- answers ---- */

/* Not every provider filters as it was asked to. */
void waldo__query_see(waldo__query *query, waldo_sandbox_info *info,
                      const waldo__json_value *labels)
{
    char word[WALDO__WORD_MAX];

    if (query->each != NULL && waldo__take_word(word, waldo__str(info->id)) &&
        waldo__json_get_str(labels, WALDO__LABEL_RUN).len > 0) {
        waldo__labels_read(labels, info);
        query->each(query->userdata, info);
    }
}

void waldo__query_listed(waldo__query *query, waldo_status status, const waldo_error *error,
                         waldo_str next)
{
    char copy[NEXT_MAX];

    if (status == WALDO_OK && query->each != NULL && next.len > 0 && next.len < sizeof copy &&
        ++query->pages < PAGES_MAX) {
        memcpy(copy, next.ptr, next.len);
        query->fns->list(query, waldo__strn(copy, next.len));
    } else {
        waldo__query_ended(query, status, error);
    }
}

/* Only one with our label, so that no id can end another's. */
void waldo__query_inspected(waldo__query *query, waldo_status status, const waldo_error *error,
                            const waldo__json_value *labels)
{
    if (status == WALDO_OK && waldo__json_get_str(labels, WALDO__LABEL_RUN).len == 0) {
        status = waldo_error_set(&query->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                 "%s: the sandbox %s is not one of waldo's", query->fns->backend,
                                 query->id);
    }
    if (status == WALDO_OK) {
        query->fns->end(query);
    } else {
        waldo__query_ended(query, status, error);
    }
}

/* ---- questions ---- */

/* Nothing is asked of the provider unless all is there that it takes. */
static waldo_status prepare(waldo__query *query, const waldo_backend_spec *spec, const char *id)
{
    const waldo_backend_spec usual = { .size = sizeof usual };
    const waldo__query_fns *fns = query->fns;
    waldo_status status = fns->init(query, spec != NULL ? spec : &usual, &query->error);

    if (status == WALDO_OK && query->probing && waldo__hand_native() == NULL) {
        return waldo_error_set(&query->error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                               "%s: this build has no hand", fns->backend);
    }
    if (status == WALDO_OK && id != NULL && !waldo__take_word(query->id, waldo__str(id))) {
        return waldo_error_set(&query->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                               "%s: no sandbox has such an id", fns->backend);
    }
    return status == WALDO_OK ? query->env->key(query->env, fns->key, 0, &query->error) : status;
}

static void start(const waldo__query_fns *fns, const waldo_backend_env *env,
                  const waldo_backend_call *call, const waldo_backend_spec *spec, const char *id,
                  const waldo__query *as)
{
    waldo__query *query = waldo__calloc(1, fns->size);

    if (query == NULL) {
        as->done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    *query = *as;
    query->fns = fns;
    query->env = env;
    query->userdata = call->userdata;
    query->deadline_ns = call->deadline_ns;
    waldo__task_init(&query->task, complete, query);
    query->status = prepare(query, spec, id);
    if (query->status == WALDO_EAUTH && query->each != NULL) { /* no key, no sandboxes */
        waldo__error_clear(&query->error);
        query->status = WALDO_OK;
        waldo__task_queue(env->loop, &query->task);
    } else if (query->status != WALDO_OK) {
        waldo__task_queue(env->loop, &query->task);
    } else if (id != NULL) {
        fns->inspect(query);
    } else {
        fns->list(query, WALDO__S(""));
    }
}

void waldo__query_check(const waldo__query_fns *fns, const waldo_backend_env *env,
                        const waldo_backend_spec *spec, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    start(fns, env, call, spec, NULL, &(waldo__query){ .probing = 1, .done = done });
}

void waldo__query_list(const waldo__query_fns *fns, const waldo_backend_env *env,
                       const waldo_backend_call *call, waldo_backend_id_fn each,
                       waldo_backend_done_fn done)
{
    start(fns, env, call, NULL, NULL, &(waldo__query){ .each = each, .done = done });
}

void waldo__query_end(const waldo__query_fns *fns, const waldo_backend_env *env,
                      const waldo_backend_call *call, const char *id, waldo_backend_done_fn done)
{
    start(fns, env, call, NULL, id, &(waldo__query){ .done = done });
}
