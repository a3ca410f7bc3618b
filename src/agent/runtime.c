#include "agent/runtime.h"

#include <stdio.h>
#include <unistd.h>

#include "agent/run.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/error.h"
#include "base/rand.h"

enum { FINISH_GRACE_MS = 2000, CLOSE_SLACK_MS = 5000 };

/* ---- making ---- */

/* Lines pass the scrubber before the host's sink sees them. */
static void log_scrubbed(void *context, waldo_str line, waldo_log_fn fn, void *userdata,
                         waldo_log_level level, const char *area)
{
    const waldo_runtime *rt = context;
    waldo__buf clean = WALDO__BUF_INIT(64 * 1024);

    if (waldo__scrub(rt->secrets, line, &clean) == WALDO_OK) {
        fn(userdata, level, area, waldo__buf_str(&clean));
    }
    waldo__buf_free(&clean);
}

static void commit(void *userdata)
{
    waldo_runtime *rt = userdata;
    const waldo_store_ops *ops = waldo__store_ops(rt->store);

    if (ops->commit != NULL) {
        ops->commit(waldo__store_self(rt->store));
    }
}

static void wake(void *userdata)
{
    (void)userdata;
}

static void close_now(void *userdata);
static void close_late(void *userdata);

static waldo_status make_parts(waldo_runtime *rt, const waldo_runtime_options *options)
{
    const waldo__http_options http = {
        .proxy = options->proxy,
        .ca_file = options->ca_file,
        .curl_ready = (options->flags & WALDO_RUNTIME_CURL_READY) != 0,
        .allow_plain = (options->flags & WALDO_RUNTIME_ALLOW_PLAIN_HTTP) != 0,
        .max_host_connections = options->max_connections,
    };
    waldo_status status = waldo__loop_new(&rt->loop, &rt->error);

    if (status == WALDO_OK) {
        status = waldo__secrets_new(&rt->secrets, &rt->error);
    }
    if (status == WALDO_OK) {
        status = waldo__http_new(rt->loop, rt->secrets, &http, &rt->http, &rt->error);
    }
    if (status == WALDO_OK) {
        status = waldo__facts_new(options->model_facts, &rt->facts, &rt->error);
    }
    if (status == WALDO_OK) {
        rt->store = waldo_store_ref(options->store);
        rt->poster = waldo__loop_poster(rt->loop);
        status = rt->poster != NULL ? WALDO_OK : waldo__error_nomem(&rt->error);
    }
    return status;
}

static waldo_status find_key(const waldo_backend_env *env, const char *name, int renew,
                             waldo_error **ret_err)
{
    const waldo_runtime *rt = WALDO__CONTAINER(env, waldo_runtime, env);

    return waldo__secrets_fetch(rt->secrets, &rt->keys, name, renew, ret_err);
}

static void start_parts(waldo_runtime *rt, const waldo_runtime_options *options)
{
    const waldo_store_ops *store = rt->store != NULL ? waldo__store_ops(rt->store) : NULL;

    if (options->log != NULL) {
        waldo__loop_set_log(rt->loop, options->log_level, options->log, options->log_userdata,
                            log_scrubbed, rt);
    }
    rt->env = (waldo_backend_env){ .size = sizeof rt->env,
                                   .loop = rt->loop,
                                   .http = rt->http,
                                   .secrets = rt->secrets,
                                   .key = find_key };
    rt->commit = (waldo__hook){ .fn = commit, .userdata = rt };
    if (store != NULL) {
        waldo__loop_add_hook(rt->loop, &rt->commit);
    }
    if (store != NULL && store->attach != NULL) {
        store->attach(waldo__store_self(rt->store), rt->poster);
    }
}

static char *pick_state_dir(const waldo_runtime_options *options)
{
    const char *tmpdir = waldo__env("TMPDIR");

    if (options->state_dir != NULL) {
        return waldo__strdup(options->state_dir);
    }
    return waldo__strdup(tmpdir != NULL ? tmpdir : "/tmp");
}

waldo_runtime *waldo_runtime_new(const waldo_runtime_options *from)
{
    waldo_runtime *rt = WALDO__NEW(waldo_runtime);
    waldo_runtime_options options;
    char word[17];

    if (rt == NULL) {
        return NULL;
    }
    waldo__ring_init(&rt->runs);
    waldo__ring_init(&rt->rested);
    waldo__ring_init(&rt->journal);
    rt->sandboxes.next = rt->sandboxes.prev = &rt->sandboxes;
    waldo__task_init(&rt->wake, wake, rt);
    waldo__task_init(&rt->close_task, close_now, rt);
    waldo__timer_init(&rt->close_timer, close_late, rt);
    waldo__random_word(word, sizeof word - 1);
    snprintf(rt->owner, sizeof rt->owner, "%d-%s", (int)getpid(), word);
    if (waldo__options_copy(&options, sizeof options, from) != WALDO_OK) {
        waldo__error_invalid(&rt->error, "runtime options have no valid size: use WALDO_RUNTIME()");
        return rt;
    }
    if (options.keys != NULL) {
        waldo__options_copy(&rt->keys, sizeof rt->keys, options.keys);
    }
    rt->state_dir = pick_state_dir(&options);
    if (rt->state_dir == NULL) {
        waldo__error_nomem(&rt->error);
    } else if (make_parts(rt, &options) == WALDO_OK) {
        start_parts(rt, &options);
    }
    return rt;
}

const waldo_error *waldo_runtime_error(const waldo_runtime *rt)
{
    return rt != NULL ? rt->error : NULL;
}

waldo_status waldo__runtime_check(const waldo_runtime *rt, waldo_error **ret_err)
{
    if (rt->error != NULL) {
        waldo__error_copy_to(ret_err, rt->error);
        return waldo_error_status(rt->error);
    }
    if (waldo__loop_forked(rt->loop)) {
        return waldo_error_set(ret_err, WALDO_EFORKED, WALDO_CLASS_USAGE,
                               "the runtime belongs to the parent process: make one after fork");
    }
    if (rt->closing) {
        return waldo_error_set(ret_err, WALDO_ECLOSED, WALDO_CLASS_USAGE,
                               "the runtime is being closed");
    }
    return WALDO_OK;
}

waldo_status waldo_runtime_add_secret(waldo_runtime *rt, const char *name, waldo_str value)
{
    enum { SHORTEST = 8 };

    if (rt == NULL || name == NULL || value.len < SHORTEST) {
        return WALDO_EINVAL;
    }
    if (rt->error != NULL) {
        return waldo_error_status(rt->error);
    }
    return waldo__loop_forked(rt->loop) ? WALDO_EFORKED
                                        : waldo__secrets_put(rt->secrets, name, value, 0);
}

/* ---- what the sandbox layer needs ---- */

const waldo_backend_env *waldo__runtime_backend_env(waldo_runtime *rt)
{
    return &rt->env;
}

const char *waldo__runtime_state_dir(const waldo_runtime *rt)
{
    return rt->state_dir;
}

const char *waldo__runtime_owner(const waldo_runtime *rt)
{
    return rt->owner;
}

waldo_status waldo__runtime_accepts(const waldo_runtime *rt)
{
    return waldo__runtime_check(rt, NULL);
}

waldo__sandbox_node *waldo__runtime_sandboxes(waldo_runtime *rt)
{
    return &rt->sandboxes;
}

void waldo__runtime_sandbox_gone(waldo_runtime *rt)
{
    waldo__runtime_settle(rt);
}

/* ---- the journal ---- */

void waldo__runtime_append(waldo_runtime *rt, const char *stream, uint64_t expected_seq,
                           const waldo_str *records, size_t count, waldo_store_done_fn done,
                           void *userdata)
{
    if (rt->store == NULL) {
        done(userdata, WALDO_OK); /* nothing is to survive this process */
        return;
    }
    waldo__store_ops(rt->store)->append(waldo__store_self(rt->store), stream, expected_seq, records,
                                        count, done, userdata);
    waldo__task_queue(rt->loop, &rt->wake);
}

/* ---- driving ---- */

int waldo_runtime_fd(const waldo_runtime *rt)
{
    return rt != NULL && rt->loop != NULL && !waldo__loop_forked(rt->loop)
               ? waldo__loop_fd(rt->loop)
               : -1;
}

waldo_status waldo_runtime_dispatch(waldo_runtime *rt, uint32_t max_us)
{
    waldo_status status;

    if (rt == NULL || rt->loop == NULL) {
        return rt == NULL ? WALDO_EINVAL : waldo_error_status(rt->error);
    }
    status = waldo__loop_round(rt->loop, 0, max_us);
    return status == WALDO_ETIMEDOUT ? WALDO_OK : status;
}

waldo_status waldo_runtime_step(waldo_runtime *rt, int64_t timeout_ms)
{
    if (rt == NULL || rt->loop == NULL) {
        return rt == NULL ? WALDO_EINVAL : waldo_error_status(rt->error);
    }
    return waldo__loop_round(rt->loop, timeout_ms == 0 ? 0 : waldo__deadline_ns(timeout_ms), 0);
}

waldo_status waldo__runtime_drive(waldo_runtime *rt, int64_t timeout_ms,
                                  int (*done)(void *userdata), void *userdata)
{
    int64_t deadline = waldo__deadline_ns(timeout_ms);
    waldo_status status = waldo__loop_check(rt->loop);

    while (status == WALDO_OK && !done(userdata)) {
        status = waldo__loop_round(rt->loop, deadline, 0);
        if (status == WALDO_ETIMEDOUT && waldo__now_ns() < deadline) {
            status = WALDO_OK;
        }
    }
    return status;
}

/* Someone is at rest, or nobody works who could come to it. */
static int has_rested(void *userdata)
{
    const waldo_runtime *rt = userdata;

    return !waldo__ring_empty(&rt->rested) || rt->working == 0;
}

/* Who waits here pulls from no run: a full queue must stop none, unless its host is told of it. */
static void stop_observing(waldo_runtime *rt)
{
    for (waldo__ring *node = rt->runs.next; node != &rt->runs; node = node->next) {
        waldo__run_stop_observing(waldo__run_of_all(node));
    }
}

waldo_run *waldo_runtime_next(waldo_runtime *rt, int64_t timeout_ms)
{
    waldo__ring *node;

    if (rt == NULL || (rt->loop != NULL && waldo__loop_forked(rt->loop))) {
        return NULL;
    }
    if (rt->loop != NULL && waldo__ring_empty(&rt->rested)) {
        stop_observing(rt);
        waldo__runtime_drive(rt, timeout_ms, has_rested, rt);
    }
    if (waldo__ring_empty(&rt->rested)) {
        return NULL;
    }
    node = rt->rested.next;
    waldo__ring_remove(node);
    return waldo__run_of_rested(node);
}

waldo_poster *waldo_runtime_poster(waldo_runtime *rt)
{
    return rt != NULL && rt->loop != NULL ? waldo__loop_poster(rt->loop) : NULL;
}

/* ---- the end ---- */

static int all_over(const waldo_runtime *rt)
{
    return rt->working == 0 && rt->sandboxes.next == &rt->sandboxes;
}

static void finish_close(waldo_runtime *rt)
{
    rt->closing = 2;
    waldo__timer_disarm(rt->loop, &rt->close_timer);
    if (rt->closed != NULL) {
        rt->closed(rt->closed_userdata, WALDO_OK);
    }
}

static void close_now(void *userdata)
{
    waldo_runtime *rt = userdata;

    if (rt->closing == 1 && all_over(rt)) {
        finish_close(rt);
    }
}

void waldo__runtime_settle(waldo_runtime *rt)
{
    if (rt->closing == 1 && all_over(rt)) {
        waldo__task_queue(rt->loop, &rt->close_task);
    }
}

static void abandon_sandboxes(waldo_runtime *rt)
{
    while (rt->sandboxes.next != &rt->sandboxes) {
        waldo__sandbox_node *node = rt->sandboxes.next;

        waldo__sandbox_abandon(waldo__sandbox_of_node(node));
        if (rt->sandboxes.next == node) {
            node->prev->next = node->next; /* abandon unlinks; never loop for ever if it did not */
            node->next->prev = node->prev;
        }
    }
}

/* The grace is over: say what is still there and end it without asking. */
static void close_late(void *userdata)
{
    waldo_runtime *rt = userdata;

    waldo__log(rt->loop, WALDO_LOG_WARN, "runtime",
               "close: not everything ended in time; what is left is killed");
    abandon_sandboxes(rt);
    finish_close(rt);
}

waldo_status waldo_runtime_close(waldo_runtime *rt, int64_t grace_ms, waldo_closed_fn done,
                                 void *userdata)
{
    waldo_status status = rt != NULL ? waldo__runtime_check(rt, NULL) : WALDO_EINVAL;

    grace_ms = grace_ms < 0 ? FINISH_GRACE_MS : grace_ms;
    if (status == WALDO_OK) {
        status = waldo__timer_arm(rt->loop, &rt->close_timer,
                                  waldo__deadline_ns(grace_ms + CLOSE_SLACK_MS));
    }
    if (status != WALDO_OK) {
        return status;
    }
    rt->closing = 1;
    rt->closed = done;
    rt->closed_userdata = userdata;
    for (waldo__ring *node = rt->runs.next, *next; node != &rt->runs; node = next) {
        next = node->next;
        waldo_run_cancel(waldo__run_of_all(node));
    }
    for (waldo__sandbox_node *node = rt->sandboxes.next, *next; node != &rt->sandboxes;
         node = next) {
        next = node->next;
        waldo__sandbox_end(waldo__sandbox_of_node(node), grace_ms);
    }
    waldo__task_queue(rt->loop, &rt->close_task);
    return WALDO_OK;
}

static int is_closed(void *userdata)
{
    return ((const waldo_runtime *)userdata)->closing == 2;
}

void waldo_runtime_finish(waldo_runtime *rt)
{
    if (rt == NULL) {
        return;
    }
    if (waldo_runtime_close(rt, FINISH_GRACE_MS, NULL, NULL) == WALDO_OK || rt->closing == 1) {
        waldo__runtime_drive(rt, WALDO_FOREVER, is_closed, rt);
    }
    waldo_runtime_free(rt);
}

static void free_parts(waldo_runtime *rt)
{
    if (rt->store != NULL) {
        const waldo_store_ops *ops = waldo__store_ops(rt->store);

        if (ops->attach != NULL) {
            ops->attach(waldo__store_self(rt->store), NULL);
        }
        waldo__loop_remove_hook(rt->loop, &rt->commit);
        waldo_store_unref(rt->store);
    }
    if (rt->loop != NULL) {
        waldo__loop_round(rt->loop, 0, 0); /* ends that other threads have posted */
        waldo__timer_disarm(rt->loop, &rt->close_timer);
        waldo__task_cancel(rt->loop, &rt->close_task);
        waldo__task_cancel(rt->loop, &rt->wake);
        waldo__journal_forget(rt);
    }
    waldo__http_free(rt->http);
    waldo__facts_free(rt->facts);
    waldo_poster_unref(rt->poster);
    waldo__loop_free(rt->loop);
    waldo__secrets_free(rt->secrets);
}

void waldo_runtime_free(waldo_runtime *rt)
{
    if (rt == NULL) {
        return;
    }
    if (rt->loop != NULL && waldo__loop_forked(rt->loop)) {
        return; /* everything shares descriptors and peers with the parent: touch nothing */
    }
    if (rt->loop != NULL && waldo__loop_check(rt->loop) == WALDO_EREENTRANT) {
        waldo__log(rt->loop, WALDO_LOG_ERROR, "runtime", "not freed: a callback is at work");
        return;
    }
    rt->closing = 2;
    while (!waldo__ring_empty(&rt->runs)) {
        waldo_run_free(waldo__run_of_all(rt->runs.next));
    }
    abandon_sandboxes(rt);
    free_parts(rt);
    waldo_error_free(rt->error);
    waldo__free(rt->state_dir);
    waldo__free(rt);
}
