/* Sandboxes as their users hold them: references, news, turns, opening and closing on request. */
#include <stdarg.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "sandbox/background.h"
#include "sandbox/live.h"

enum { NEWS_MAX = 64, NEWS_TEXT_MAX = 128 * 1024 };

static const waldo_error *spec_problem(const waldo_sandbox *sandbox)
{
    return waldo_sandbox_spec_error(sandbox->spec);
}

waldo_status waldo__live_check(const waldo_sandbox *sandbox, waldo_error **ret_err)
{
    const waldo_error *problem = spec_problem(sandbox);
    waldo_status status;

    if (problem == NULL) {
        problem = sandbox->lost;
    }
    if (problem != NULL) {
        waldo__error_copy_to(ret_err, problem);
        return waldo_error_status(problem);
    }
    if (sandbox->state >= WALDO__LIVE_CLOSING) {
        return waldo_error_set(ret_err, WALDO_ECLOSED, WALDO_CLASS_USAGE, "the sandbox is closed");
    }
    status = waldo__runtime_accepts(sandbox->rt);
    if (status != WALDO_OK) {
        return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "sandbox: the runtime: %s",
                               waldo_status_text(status));
    }
    return WALDO_OK;
}

/* ---- references ---- */

static void free_sandbox(waldo_sandbox *sandbox)
{
    waldo__loop *loop = sandbox->env->loop;

    waldo__timer_disarm(loop, &sandbox->idle_timer);
    waldo__timer_disarm(loop, &sandbox->close_timer);
    waldo__timer_disarm(loop, &sandbox->spare_timer);
    waldo__task_cancel(loop, &sandbox->end_task);
    waldo__task_cancel(loop, &sandbox->news_task);
    waldo__task_cancel(loop, &sandbox->turn_task);
    waldo__task_cancel(loop, &sandbox->closed_task);
    waldo_error_free(sandbox->refusal);
    for (size_t i = 0; i < sandbox->news.count; i++) {
        waldo__free(sandbox->news.at[i].text);
    }
    waldo__background_free_all(sandbox);
    WALDO__VEC_FREE(&sandbox->news);
    waldo_error_free(sandbox->lost);
    waldo_error_free(sandbox->broke);
    waldo__free(sandbox->saved);
    waldo_sandbox_spec_unref(sandbox->spec);
    waldo__failover_free(sandbox);
    waldo__free(sandbox);
}

void waldo__live_hold(waldo_sandbox *sandbox)
{
    sandbox->holds++;
}

void waldo__live_release(waldo_sandbox *sandbox)
{
    sandbox->holds--;
    if (sandbox->refs == 0 && sandbox->holds == 0 && sandbox->closers == NULL &&
        sandbox->state == WALDO__LIVE_CLOSED) {
        free_sandbox(sandbox);
    }
}

waldo_sandbox *waldo_sandbox_ref(waldo_sandbox *sandbox)
{
    if (sandbox != NULL) {
        sandbox->refs++;
    }
    return sandbox;
}

void waldo_sandbox_unref(waldo_sandbox *sandbox)
{
    if (sandbox == NULL || --sandbox->refs > 0) {
        return;
    }
    waldo__live_hold(sandbox);
    waldo__live_begin_close(sandbox, "its last user let it go", WALDO__CLOSE_GRACE_MS);
    waldo__live_release(sandbox);
}

/* ---- news ---- */

static void tell_news(void *userdata)
{
    waldo_sandbox *sandbox = userdata;

    waldo__live_hold(sandbox);
    while (sandbox->news.count > 0) {
        waldo__news news = sandbox->news.at[0];

        memmove(sandbox->news.at, sandbox->news.at + 1, --sandbox->news.count * sizeof news);
        sandbox->failover.news_of = news.generation;
        sandbox->listener_at = sandbox->listeners;
        while (sandbox->listener_at != NULL) {
            waldo__sandbox_listener *listener = sandbox->listener_at;

            sandbox->listener_at = listener->next;
            listener->fn(listener->userdata, news.what, news.text != NULL ? news.text : "");
        }
        waldo__free(news.text);
    }
    waldo__live_release(sandbox);
}

void waldo__live_news(waldo_sandbox *sandbox, const char *what, const char *format, ...)
{
    waldo__buf text = WALDO__BUF_INIT(NEWS_TEXT_MAX);
    waldo__news *news;
    va_list args;

    if (sandbox->listeners == NULL || sandbox->news.count >= NEWS_MAX) {
        return;
    }
    news = WALDO__VEC_PUSH(&sandbox->news);
    if (news == NULL) {
        return;
    }
    va_start(args, format);
    waldo__buf_vprintf(&text, format, args);
    va_end(args);
    *news = (waldo__news){ .what = what,
                           .text = waldo__buf_take(&text, NULL),
                           .generation = waldo_sandbox_generation(sandbox) };
    waldo__buf_free(&text);
    waldo__task_queue(sandbox->env->loop, &sandbox->news_task);
}

void waldo__sandbox_listen(waldo_sandbox *sandbox, waldo__sandbox_listener *listener)
{
    listener->next = sandbox->listeners;
    sandbox->listeners = listener;
}

void waldo__sandbox_unlisten(waldo_sandbox *sandbox, waldo__sandbox_listener *listener)
{
    waldo__sandbox_listener **at = &sandbox->listeners;

    while (*at != NULL && *at != listener) {
        at = &(*at)->next;
    }
    if (*at == listener) {
        *at = listener->next;
    }
    if (sandbox->listener_at == listener) {
        sandbox->listener_at = listener->next;
    }
}

/* ---- turns ---- */

static void grant_turn(void *userdata)
{
    waldo_sandbox *sandbox = userdata;
    waldo__turn *first = sandbox->turns.next;

    if (first != &sandbox->turns && !first->held) {
        first->held = 1;
        first->granted(first->userdata);
    }
}

void waldo__sandbox_turn_take(waldo_sandbox *sandbox, waldo__turn *turn)
{
    turn->held = 0;
    turn->next = &sandbox->turns;
    turn->prev = sandbox->turns.prev;
    turn->prev->next = turn;
    sandbox->turns.prev = turn;
    waldo__task_queue(sandbox->env->loop, &sandbox->turn_task);
}

void waldo__sandbox_turn_give(waldo_sandbox *sandbox, waldo__turn *turn)
{
    if (turn->next == NULL) {
        return;
    }
    turn->next->prev = turn->prev;
    turn->prev->next = turn->next;
    turn->next = turn->prev = NULL;
    turn->held = 0;
    waldo__task_queue(sandbox->env->loop, &sandbox->turn_task);
}

/* ---- making, opening, closing ---- */

static void idle_too_long(void *userdata)
{
    waldo_sandbox *sandbox = userdata;

    waldo__live_hold(sandbox);
    waldo__live_begin_close(sandbox, "it was not used for its idle time", WALDO__CLOSE_GRACE_MS);
    waldo__live_release(sandbox);
}

waldo_sandbox *waldo_sandbox_new(waldo_runtime *rt, waldo_sandbox_spec *spec)
{
    waldo_sandbox *sandbox = rt != NULL && spec != NULL ? WALDO__NEW(waldo_sandbox) : NULL;
    waldo__sandbox_node *head;

    if (sandbox == NULL) {
        return NULL;
    }
    sandbox->rt = rt;
    sandbox->env = waldo__runtime_backend_env(rt);
    sandbox->spec = waldo_sandbox_spec_ref(spec);
    sandbox->refs = 1;
    sandbox->ops.next = sandbox->ops.prev = &sandbox->ops;
    sandbox->zombies.next = sandbox->zombies.prev = &sandbox->zombies;
    sandbox->turns.next = sandbox->turns.prev = &sandbox->turns;
    waldo__random_word(sandbox->id, sizeof sandbox->id - 1);
    waldo__timer_init(&sandbox->idle_timer, idle_too_long, sandbox);
    waldo__task_init(&sandbox->end_task, NULL, sandbox);
    waldo__task_init(&sandbox->news_task, tell_news, sandbox);
    waldo__task_init(&sandbox->turn_task, grant_turn, sandbox);
    waldo__live_init(sandbox);
    head = waldo__runtime_sandboxes(rt);
    sandbox->node.next = head;
    sandbox->node.prev = head->prev;
    sandbox->node.prev->next = &sandbox->node;
    head->prev = &sandbox->node;
    return sandbox;
}

waldo_sandbox *waldo__sandbox_of_node(waldo__sandbox_node *node)
{
    return WALDO__CONTAINER(node, waldo_sandbox, node);
}

const char *waldo_sandbox_backend(const waldo_sandbox *sandbox)
{
    return sandbox != NULL && spec_problem(sandbox) == NULL ? waldo__live_entry(sandbox)->ops->name
                                                            : "";
}

waldo_isolation waldo_sandbox_isolation(const waldo_sandbox *sandbox)
{
    return sandbox != NULL && sandbox->was_open ? sandbox->info.isolation : WALDO_ISOLATION_ANY;
}

/* Opening and closing as ops that do nothing but wait. */
typedef struct wait_op {
    waldo__op op;
    waldo_sandbox_fn done;
    void *userdata;
} wait_op;

static void open_start(waldo__op *op)
{
    waldo__op_end(op, WALDO_OK, NULL);
}

static void wait_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    wait_op *wait = (wait_op *)op;

    if (wait->done != NULL) {
        wait->done(wait->userdata, status, error);
    }
}

static void wait_free(waldo__op *op)
{
    waldo__free(op);
}

static const waldo__op_kind open_kind = { .start = open_start,
                                          .finish = wait_finish,
                                          .free = wait_free };

void waldo_sandbox_open(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata)
{
    wait_op *wait = WALDO__NEW(wait_op);

    if (wait == NULL) {
        if (done != NULL) {
            done(userdata, WALDO_ENOMEM, NULL);
        }
        return;
    }
    wait->done = done;
    wait->userdata = userdata;
    waldo__op_begin(sandbox, &wait->op, &open_kind);
}

/* A closer is told when the machine is gone, whatever else ends meanwhile. */
typedef struct closer {
    waldo__sandbox_closer link;
    waldo_sandbox_fn done;
    void *userdata;
} closer;

static void closer_tell(waldo__sandbox_closer *link)
{
    closer *waiting = (closer *)link;

    if (waiting->done != NULL) {
        waiting->done(waiting->userdata, WALDO_OK, NULL);
    }
    waldo__free(waiting);
}

void waldo_sandbox_close(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata)
{
    closer *waiting = NULL;

    waldo__live_hold(sandbox);
    if (done != NULL) {
        waiting = WALDO__NEW(closer);
        if (waiting != NULL) {
            *waiting =
                (closer){ .link = { .tell = closer_tell }, .done = done, .userdata = userdata };
            waldo__live_add_closer(sandbox, &waiting->link);
        }
    }
    waldo__live_begin_close(sandbox, "as asked", WALDO__CLOSE_GRACE_MS);
    if (done != NULL && waiting == NULL) {
        done(userdata, WALDO_ENOMEM, NULL);
    }
    waldo__live_release(sandbox);
}

void waldo_sandbox_detach(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata)
{
    waldo_error *error = NULL;
    wait_op *wait;

    if (waldo__live_durable(sandbox) || sandbox->state >= WALDO__LIVE_CLOSING) {
        sandbox->detaching |= sandbox->state < WALDO__LIVE_CLOSING;
        waldo_sandbox_close(sandbox, done, userdata);
        return;
    }
    wait = WALDO__NEW(wait_op);
    if (wait == NULL) {
        if (done != NULL) {
            done(userdata, WALDO_ENOMEM, NULL);
        }
        return;
    }
    *wait = (wait_op){ .done = done, .userdata = userdata };
    waldo_error_set(&error, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                    "the machine has no lease and would not go on without its host; give the spec "
                    "lease= or name=");
    waldo__op_begin_ended(sandbox, &wait->op, &open_kind, WALDO_ENOTSUP, error);
}

void waldo__sandbox_end(waldo_sandbox *sandbox, int64_t grace_ms)
{
    waldo__live_hold(sandbox);
    waldo__live_begin_close(sandbox, "its runtime is closed", grace_ms);
    waldo__live_release(sandbox);
}

void waldo__sandbox_abandon(waldo_sandbox *sandbox)
{
    waldo__live_abandon(sandbox);
}

const char *waldo__sandbox_notes(const waldo_sandbox *sandbox)
{
    return waldo__sandbox_spec_notes(sandbox->spec);
}
