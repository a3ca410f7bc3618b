/* Without a machine: does the key work, which sandboxes are ours, end one of them. */
#include "backend/cloud.h"
#include "backend/query.h"
#include "base/error.h"
#include "base/header.h"
#include "e2b.h"

typedef struct query {
    waldo__query query; /* first */
    e2b_place place;
    waldo__api_call call;
} query;

static waldo_status init(waldo__query *base, const waldo_backend_spec *spec, waldo_error **ret_err)
{
    query *q = (query *)base;
    waldo_status status = waldo__e2b_place_find(&q->place, base->env, spec, ret_err);

    waldo__e2b_call_init(&q->call, &q->place, q);
    return status;
}

static void release(waldo__query *base)
{
    waldo__api_call_free(&((query *)base)->call);
}

/* ---- a list ---- */

/* Key and value are escaped twice within the whole, which changes nothing about plain ones. */
void waldo__e2b_put_list(waldo__buf *out, const char *key, const char *value, waldo_str next)
{
    waldo__buf_clear(out);
    waldo__buf_printf(out, "/v2/sandboxes?metadata=%s%%3D%s&state=running,paused&limit=100%s", key,
                      value, next.len > 0 ? "&nextToken=" : "");
    waldo__buf_url(out, next);
}

static void see(query *q, const waldo__json_value *item)
{
    waldo_str state = waldo__json_get_str(item, "state");
    waldo_str about = waldo__json_get_str(item, "alias");
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
    waldo__query_see(&q->query, &info, waldo__json_get(item, "metadata"));
}

static void on_list(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    const waldo__json_value *item;
    waldo__api_answer answer;
    waldo_str next = { "", 0 };

    waldo__api_read(&q->call, status, error, &answer);
    for (item = waldo__json_first(answer.root); item != NULL; item = waldo__json_next(item)) {
        see(q, item);
    }
    waldo__header_get(waldo__buf_str(&q->call.ask.head), "X-Next-Token", &next);
    waldo__query_listed(&q->query, answer.status, answer.error, next);
    waldo__api_answer_free(&answer);
}

static void list(waldo__query *base, waldo_str next)
{
    query *q = (query *)base;
    const waldo__api_request request = { .method = "GET",
                                         .what = "listing sandboxes",
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = WALDO__CLOUD_SLOW_MS,
                                         .deadline_ns = base->deadline_ns };

    waldo__e2b_put_list(&q->call.path, E2B_LABEL, "1", next);
    waldo__api_call_start(&q->call, &request, on_list);
}

/* ---- ending one ---- */

static void on_inspected(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__api_answer answer;

    waldo__api_read(&q->call, status, error, &answer);
    waldo__query_inspected(&q->query, answer.status, answer.error,
                           waldo__json_get(answer.root, "metadata"));
    waldo__api_answer_free(&answer);
}

static void inspect(waldo__query *base)
{
    query *q = (query *)base;

    waldo__take_word(q->place.id, waldo__str(base->id));
    waldo__e2b_about(&q->place, &q->call, "GET", "", "looking at the sandbox", base->deadline_ns,
                     on_inspected);
}

static void on_ended(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__query_ended(userdata, status, error);
}

static void end(waldo__query *base)
{
    query *q = (query *)base;

    waldo__e2b_about(&q->place, &q->call, "DELETE", "", "ending the sandbox", base->deadline_ns,
                     on_ended);
}

/* ---- all ---- */

static const waldo__query_fns fns = { "e2b", E2B_KEY, sizeof(query), init,
                                      list,  inspect, end,           release };

void waldo__e2b_check(const waldo_backend_env *env, const waldo_backend_spec *spec,
                      const waldo_backend_call *call, waldo_backend_done_fn done)
{
    waldo__query_check(&fns, env, spec, call, done);
}

void waldo__e2b_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    waldo__query_check(&fns, env, NULL, call, done);
}

void waldo__e2b_list(const waldo_backend_env *env, const waldo_backend_call *call,
                     waldo_backend_id_fn each, waldo_backend_done_fn done)
{
    waldo__query_list(&fns, env, call, each, done);
}

void waldo__e2b_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                           const char *id, waldo_backend_done_fn done)
{
    waldo__query_end(&fns, env, call, id, done);
}
