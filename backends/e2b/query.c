/* Without a machine: does the key work, which sandboxes are ours, end one of them. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "hand/embedded.h"
#include "e2b.h"

enum { PAGES_MAX = 1000, NEXT_MAX = 1024 };

typedef struct query {
    e2b_place place;
    waldo__api_call call;
    int64_t deadline_ns;
    waldo_backend_id_fn each; /* of a list */
    int probing;
    int pages;
    waldo_backend_done_fn done;
    void *userdata;
    waldo__task task; /* completion */
    waldo_status status;
    waldo_error *error;
} query;

static void complete(void *userdata)
{
    query *q = userdata;

    waldo__api_call_free(&q->call);
    q->done(q->userdata, q->status, q->error);
    waldo_error_free(q->error);
    waldo__free(q);
}

static void finish(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;

    q->status = status;
    q->error = q->error != NULL ? q->error : waldo_error_copy(error);
    complete(q);
}

/* Key and value are escaped twice within the whole, which changes nothing about plain ones. */
void waldo__e2b_put_list(waldo__buf *out, const char *key, const char *value, waldo_str next)
{
    waldo__buf_clear(out);
    waldo__buf_printf(out, "/v2/sandboxes?metadata=%s%%3D%s&state=running,paused&limit=100%s", key,
                      value, next.len > 0 ? "&nextToken=" : "");
    waldo__buf_url(out, next);
}

/* ---- a list ---- */

static void tell_each(query *q, const waldo__json_value *item)
{
    waldo_str state = waldo__json_get_str(item, "state");
    waldo_str about = waldo__json_get_str(item, "alias");
    const waldo__json_value *labels = waldo__json_get(item, "metadata");
    char word[WALDO__WORD_MAX];
    waldo_sandbox_info info = {
        .size = sizeof info,
        .state = waldo__str_is(state, "running")  ? WALDO_MACHINE_RUNNING
                 : waldo__str_is(state, "paused") ? WALDO_MACHINE_PAUSED
                                                  : WALDO_MACHINE_UNKNOWN,
        .id = waldo__json_get_str(item, "sandboxID").ptr,
        .about = about.len > 0 ? about.ptr : waldo__json_get_str(item, "templateID").ptr,
        .created_ms = waldo__rfc3339_ms(waldo__json_get_str(item, "startedAt"))
    };

    if (info.state == WALDO_MACHINE_RUNNING) {
        info.expires_ms = waldo__rfc3339_ms(waldo__json_get_str(item, "endAt"));
    }
    waldo__labels_read(labels, &info);
    if (waldo__take_word(word, waldo__str(info.id)) &&
        waldo__json_get_str(labels, WALDO__LABEL_RUN).len > 0) { /* not all filter as asked */
        q->each(q->userdata, &info);
    }
}

static void list(query *q, waldo_str next);

static void on_list(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__json *doc = NULL;
    const waldo__json_value *item;
    waldo_str next = { "", 0 };
    char copy[NEXT_MAX];

    if (status == WALDO_OK) {
        status = waldo__api_parse(&q->call, &doc, &q->error);
    }
    item = waldo__json_first(waldo__json_root(doc));
    for (; status == WALDO_OK && q->each != NULL && item != NULL; item = waldo__json_next(item)) {
        tell_each(q, item);
    }
    waldo__json_free(doc);
    waldo__header_get(waldo__buf_str(&q->call.ask.head), "X-Next-Token", &next);
    if (status == WALDO_OK && q->each != NULL && next.len > 0 && next.len < sizeof copy &&
        ++q->pages < PAGES_MAX) {
        memcpy(copy, next.ptr, next.len);
        list(q, waldo__strn(copy, next.len));
        return;
    }
    finish(q, status, error);
}

static void list(query *q, waldo_str next)
{
    const waldo__api_request request = { .method = "GET",
                                         .what = "listing sandboxes",
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = E2B_SLOW_MS,
                                         .deadline_ns = q->deadline_ns };

    waldo__e2b_put_list(&q->call.path, E2B_LABEL, "1", next);
    waldo__api_call_start(&q->call, &request, on_list);
}

/* ---- ending one ---- */

/* Only one with our label, so that no id can end another's. */
static void on_looked_at(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__json *doc = NULL;
    const waldo__json_value *labels;

    if (status == WALDO_OK) {
        status = waldo__api_parse(&q->call, &doc, &q->error);
    }
    labels = waldo__json_get(waldo__json_root(doc), "metadata");
    if (status == WALDO_OK && waldo__json_get_str(labels, WALDO__LABEL_RUN).len == 0) {
        status = waldo_error_set(&q->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                 "e2b: the sandbox %s is not one of waldo's", q->place.id);
    }
    waldo__json_free(doc);
    if (status != WALDO_OK) {
        finish(q, status, error);
    } else {
        waldo__e2b_about(&q->place, &q->call, "DELETE", "", "ending the sandbox", q->deadline_ns,
                         finish);
    }
}

/* ---- all ---- */

static void start(const waldo_backend_env *env, const waldo_backend_call *call,
                  const waldo_backend_spec *spec, query as, const char *id)
{
    const waldo_backend_spec usual = { .size = sizeof usual };
    query *q = WALDO__NEW(query);

    if (q == NULL) {
        as.done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    *q = as;
    q->userdata = call->userdata;
    q->deadline_ns = call->deadline_ns;
    waldo__task_init(&q->task, complete, q);
    q->status = waldo__e2b_place_find(&q->place, env, spec != NULL ? spec : &usual, &q->error);
    waldo__e2b_call_init(&q->call, &q->place, q);
    if (q->status == WALDO_OK && q->probing && waldo__hand_native() == NULL) {
        q->status = waldo_error_set(&q->error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                    "e2b: this build has no hand");
    } else if (q->status == WALDO_OK && id != NULL &&
               !waldo__take_word(q->place.id, waldo__str(id))) {
        q->status = waldo_error_set(&q->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                    "e2b: no sandbox has such an id");
    } else if (q->status == WALDO_OK) {
        q->status = env->key(env, E2B_KEY, 0, &q->error);
    }
    if (q->status == WALDO_EAUTH && q->each != NULL) { /* who has no key has no sandboxes */
        waldo__error_clear(&q->error);
        q->status = WALDO_OK;
        waldo__task_queue(env->loop, &q->task);
    } else if (q->status != WALDO_OK) {
        waldo__task_queue(env->loop, &q->task);
    } else if (id != NULL) {
        waldo__e2b_about(&q->place, &q->call, "GET", "", "looking at the sandbox", q->deadline_ns,
                         on_looked_at);
    } else {
        list(q, WALDO__S(""));
    }
}

void waldo__e2b_check(const waldo_backend_env *env, const waldo_backend_spec *spec,
                      const waldo_backend_call *call, waldo_backend_done_fn done)
{
    start(env, call, spec, (query){ .probing = 1, .done = done }, NULL);
}

void waldo__e2b_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    start(env, call, NULL, (query){ .probing = 1, .done = done }, NULL);
}

void waldo__e2b_list(const waldo_backend_env *env, const waldo_backend_call *call,
                     waldo_backend_id_fn each, waldo_backend_done_fn done)
{
    start(env, call, NULL, (query){ .each = each, .done = done }, NULL);
}

void waldo__e2b_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                           const char *id, waldo_backend_done_fn done)
{
    start(env, call, NULL, (query){ .done = done }, id);
}
