/* Without a machine: does the key work, which sandboxes are ours, end one of them. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "base/ident.h"
#include "hand/embedded.h"
#include "e2b.h"

enum { PAGES_MAX = 1000, TOKEN_MAX = 1024 };

typedef struct query {
    e2b_place place;
    e2b_call call;
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

    waldo__e2b_call_free(&q->call);
    q->done(q->userdata, q->status, q->error);
    waldo_error_free(q->error);
    waldo__free(q);
}

static void finish(query *q, waldo_status status, const waldo_error *error)
{
    q->status = status;
    q->error = q->error != NULL ? q->error : waldo_error_copy(error);
    complete(q);
}

static void ask(query *q, const char *method, const char *path, const char *what, e2b_call_fn done)
{
    const e2b_request request = { .method = method,
                                  .path = path,
                                  .what = what,
                                  .replay = WALDO__REPLAY_SAFE,
                                  .ms = E2B_QUICK_MS,
                                  .deadline_ns = q->deadline_ns };

    waldo__e2b_call_start(&q->call, &request, done);
}

/* Key and value are escaped twice within the whole, which changes nothing about plain ones. */
void waldo__e2b_put_list(waldo__buf *out, const char *key, const char *value, waldo_str next)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    waldo__buf_printf(out, "/v2/sandboxes?metadata=%s%%3D%s&state=running,paused&limit=100", key,
                      value);
    if (next.len > 0) {
        waldo__buf_puts(out, "&nextToken=");
    }
    for (size_t i = 0; i < next.len; i++) {
        if (next.ptr[i] != '\0' && strchr(plain, next.ptr[i]) != NULL) {
            waldo__buf_putc(out, next.ptr[i]);
        } else {
            waldo__buf_printf(out, "%%%02X", (unsigned)(unsigned char)next.ptr[i]);
        }
    }
}

/* ---- a list ---- */

/* Labels are whoever's who has the key: nothing is believed but text. Texts end in NUL. */
static void tell_each(query *q, const waldo__json_value *item)
{
    const waldo__json_value *labels = waldo__json_get(item, "metadata");
    waldo_str start = waldo__json_get_str(labels, E2B_LABEL_START);
    waldo_str host = waldo__json_get_str(labels, E2B_LABEL_HOST);
    waldo_str state = waldo__json_get_str(item, "state");
    waldo_str about = waldo__json_get_str(item, "alias");
    waldo_sandbox_info info = {
        .size = sizeof info,
        .state = waldo__str_is(state, "running")  ? WALDO_MACHINE_RUNNING
                 : waldo__str_is(state, "paused") ? WALDO_MACHINE_PAUSED
                                                  : WALDO_MACHINE_UNKNOWN,
        .owner_alive = waldo__ident_alive(waldo__json_get_str(labels, E2B_LABEL_PID), start, host),
        .mine = waldo__ident_is_mine(waldo__json_get_str(labels, E2B_LABEL_USER), start, host),
        .id = waldo__json_get_str(item, "sandboxID").ptr,
        .name = waldo__json_get_str(labels, E2B_LABEL_NAME).ptr,
        .owner = waldo__json_get_str(labels, E2B_LABEL_OWNER).ptr,
        .about = about.len > 0 ? about.ptr : waldo__json_get_str(item, "templateID").ptr,
        .created_ms = waldo__rfc3339_ms(waldo__json_get_str(item, "startedAt")),
        .expires_ms = info.state == WALDO_MACHINE_RUNNING
                          ? waldo__rfc3339_ms(waldo__json_get_str(item, "endAt"))
                          : 0
    };

    waldo__str_int(waldo__json_get_str(labels, E2B_LABEL_LEASE), &info.lease_ms);
    info.lease_ms = info.lease_ms > 0 ? info.lease_ms : 0;
    q->each(q->userdata, &info);
}

static void list(query *q, waldo_str next);

static void on_list(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__json *doc = NULL;
    const waldo__json_value *item;
    waldo_str next = { "", 0 };
    char copy[TOKEN_MAX];

    if (status == WALDO_OK) {
        status = waldo__e2b_parse(&q->call, &doc, &q->error);
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
    waldo__buf path = WALDO__BUF_INIT(4096);

    waldo__e2b_put_list(&path, E2B_LABEL, "1", next);
    ask(q, "GET", waldo__buf_str(&path).ptr, "listing sandboxes", on_list);
    waldo__buf_free(&path);
}

/* ---- ending one ---- */

static void on_killed(void *userdata, waldo_status status, const waldo_error *error)
{
    finish(userdata, status, error);
}

/* Only one with our label, so that no id can end another's. */
static void on_looked_at(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__json *doc = NULL;
    char path[2 * E2B_WORD_MAX];
    waldo_str run;

    if (status == WALDO_OK) {
        status = waldo__e2b_parse(&q->call, &doc, &q->error);
    }
    run = waldo__json_get_str(waldo__json_get(waldo__json_root(doc), "metadata"), E2B_LABEL_RUN);
    if (status == WALDO_OK && run.len == 0) {
        status = waldo_error_set(&q->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                 "e2b: the sandbox %s is not one of waldo's", q->place.id);
    }
    waldo__json_free(doc);
    if (status != WALDO_OK) {
        finish(q, status, error);
        return;
    }
    snprintf(path, sizeof path, "/sandboxes/%s", q->place.id);
    ask(q, "DELETE", path, "ending the sandbox", on_killed);
}

/* ---- all ---- */

static void start(const waldo_backend_env *env, const waldo_backend_call *call, query as,
                  const char *id)
{
    const waldo_backend_spec usual = { .size = sizeof usual };
    query *q = WALDO__NEW(query);
    char path[2 * E2B_WORD_MAX];

    if (q == NULL) {
        as.done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    *q = as;
    q->userdata = call->userdata;
    q->deadline_ns = call->deadline_ns;
    waldo__task_init(&q->task, complete, q);
    q->status = waldo__e2b_place_find(&q->place, env, &usual, &q->error);
    q->place.env = env;
    waldo__e2b_call_init(&q->call, &q->place, q);
    if (q->status == WALDO_OK && q->probing && waldo__hand_native() == NULL) {
        q->status = waldo_error_set(&q->error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                    "e2b: this build has no hand");
    }
    if (q->status == WALDO_OK && id != NULL && !waldo__e2b_is_word(waldo__str(id))) {
        q->status = waldo_error_set(&q->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                    "e2b: no sandbox has such an id");
    }
    if (q->status == WALDO_OK) {
        q->status = env->key(env, E2B_KEY, 0, &q->error);
        /* Who has no key has no sandboxes here. */
        if (q->status == WALDO_EAUTH && q->each != NULL) {
            waldo_error_free(q->error);
            q->error = NULL;
            waldo__task_queue(env->loop, &q->task);
            q->status = WALDO_OK;
            return;
        }
    }
    if (q->status != WALDO_OK) {
        waldo__task_queue(env->loop, &q->task);
    } else if (id != NULL) {
        snprintf(q->place.id, sizeof q->place.id, "%s", id);
        snprintf(path, sizeof path, "/sandboxes/%s", id);
        ask(q, "GET", path, "looking at the sandbox", on_looked_at);
    } else {
        list(q, waldo__str(""));
    }
}

void waldo__e2b_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    start(env, call, (query){ .probing = 1, .done = done }, NULL);
}

void waldo__e2b_list(const waldo_backend_env *env, const waldo_backend_call *call,
                     waldo_backend_id_fn each, waldo_backend_done_fn done)
{
    start(env, call, (query){ .each = each, .done = done }, NULL);
}

void waldo__e2b_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                           const char *id, waldo_backend_done_fn done)
{
    start(env, call, (query){ .done = done }, id);
}
