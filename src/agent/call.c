/*
 * Tool calls. Ended exactly once, from any thread; the sink hears of it on the driving thread, from
 * the run queue. Who is done first wins: an end, a cancel or the timeout.
 */
#include "agent/tool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/ident.h"
#include "base/utf8.h"
#include "json/schema.h"

enum { RESULT_MAX = 64 * 1024 * 1024 };

typedef enum call_state {
    CALL_NEW,
    CALL_RUNNING,
    CALL_ENDED,
    CALL_CANCELLED,
    CALL_DELIVERED
} call_state;

typedef struct fetch {
    waldo_tool_call *call;
    waldo__transfer *transfer;
    waldo_fetch_fn done;
    void *userdata;
    waldo__buf body;
    int http_status;
} fetch;

struct waldo_tool_call {
    atomic_int refs;      /* all holders */
    atomic_int host_refs; /* holders that may still end it */
    waldo_tool *tool;
    char *id;
    char *key;
    char *args_text;
    size_t args_len;
    waldo__json *args;
    waldo_poster *poster;
    pid_t pid;            /* in a forked child the call is dead, and its lock may be held */
    pthread_mutex_t lock; /* guards state, the end and the queueing of task; before the poster's */
    call_state state;
    waldo__call_end end;
    waldo_status end_status;
    void (*on_cancel)(void *userdata);
    void *on_cancel_userdata;
    void *tool_state;
    fetch *fetch;
    waldo__call_sink sink;
    waldo__task task; /* delivers the end */
    waldo__timer timeout;
    waldo__buf text;
    waldo__media_list media; /* guarded by lock */
};

static void release(waldo_tool_call *call)
{
    if (atomic_fetch_sub(&call->refs, 1) != 1) {
        return;
    }
    waldo_tool_unref(call->tool);
    waldo__free(call->id);
    waldo__free(call->key);
    waldo__free(call->args_text);
    waldo__json_free(call->args);
    waldo_poster_unref(call->poster);
    waldo__buf_free(&call->text);
    waldo__media_free(&call->media);
    waldo__free(call->tool_state);
    if (call->pid == waldo__process_id()) {
        pthread_mutex_destroy(&call->lock);
    }
    waldo__free(call);
}

/* ---- the end ---- */

static void deliver(void *userdata)
{
    waldo_tool_call *call = userdata;
    int wanted;

    pthread_mutex_lock(&call->lock);
    wanted = call->state == CALL_ENDED;
    if (wanted) {
        call->state = CALL_DELIVERED;
    }
    pthread_mutex_unlock(&call->lock);
    if (wanted) {
        waldo__timer_disarm(call->sink.loop, &call->timeout);
        call->sink.ended(call->sink.userdata, call, call->end, call->end_status,
                         waldo__buf_str(&call->text));
    }
    release(call);
}

static waldo_status end_call(waldo_tool_call *call, waldo__call_end end, waldo_status status,
                             waldo_str text)
{
    waldo__buf clean = WALDO__BUF_INIT(RESULT_MAX);
    waldo_status kept;

    if (call->pid != waldo__process_id()) {
        return WALDO_EFORKED;
    }
    if (waldo__utf8_clean(text, &clean) == WALDO_ETOOBIG) {
        waldo__buf_free(&clean);
        waldo__buf_puts(&clean, "the result is larger than 64 MiB");
        end = WALDO__CALL_FAIL;
    }
    kept = clean.status;
    if (kept != WALDO_OK) {
        end = WALDO__CALL_ABORT; /* without its result the turn cannot go on */
        status = kept;
    }
    pthread_mutex_lock(&call->lock);
    if (call->state != CALL_RUNNING) {
        pthread_mutex_unlock(&call->lock);
        waldo__buf_free(&clean);
        return WALDO_ECLOSED;
    }
    call->state = CALL_ENDED;
    call->end = end;
    call->end_status = status;
    call->text = clean;
    if (waldo__poster_add(call->poster, &call->task) == WALDO_OK) {
        atomic_fetch_add(&call->refs, 1); /* for the delivery */
    }
    pthread_mutex_unlock(&call->lock);
    return kept;
}

static WALDO_PRINTF(3, 0) waldo_status
    end_printf(waldo_tool_call *call, waldo__call_end end, const char *format, va_list args)
{
    waldo__buf text = WALDO__BUF_INIT(RESULT_MAX);
    waldo_status status = waldo__buf_vprintf(&text, format, args);

    if (status != WALDO_OK) {
        end = WALDO__CALL_FAIL;
    }
    if (status == WALDO_ENOMEM) {
        waldo_status ended = end_call(call, WALDO__CALL_ABORT, WALDO_ENOMEM, WALDO__S(""));

        status = ended == WALDO_OK ? WALDO_ENOMEM : ended;
    } else {
        status = end_call(call, end, WALDO_OK,
                          status == WALDO_OK ? waldo__buf_str(&text)
                                             : WALDO__S("the result could not be formatted"));
    }
    waldo__buf_free(&text);
    return status;
}

waldo_status waldo_tool_call_reply(waldo_tool_call *call, const char *format, ...)
{
    va_list args;
    waldo_status status;

    va_start(args, format);
    status = end_printf(call, WALDO__CALL_REPLY, format, args);
    va_end(args);
    return status;
}

waldo_status waldo_tool_call_reply_text(waldo_tool_call *call, waldo_str text)
{
    return end_call(call, WALDO__CALL_REPLY, WALDO_OK, text);
}

waldo_status waldo_tool_call_fail(waldo_tool_call *call, const char *format, ...)
{
    va_list args;
    waldo_status status;

    va_start(args, format);
    status = end_printf(call, WALDO__CALL_FAIL, format, args);
    va_end(args);
    return status;
}

waldo_status waldo_tool_call_abort(waldo_tool_call *call, waldo_status status)
{
    return end_call(call, WALDO__CALL_ABORT, status < 0 ? status : WALDO_ETOOL, WALDO__S(""));
}

waldo_status waldo_tool_call_add_image(waldo_tool_call *call, waldo_str bytes)
{
    waldo_status status = WALDO_ECLOSED;

    if (call->pid != waldo__process_id()) {
        return WALDO_EFORKED;
    }
    pthread_mutex_lock(&call->lock);
    if (call->state == CALL_RUNNING) {
        status = waldo__media_add(&call->media, bytes);
    }
    pthread_mutex_unlock(&call->lock);
    return status;
}

void waldo__tool_call_take_media(waldo_tool_call *call, waldo__media_list *ret_media)
{
    pthread_mutex_lock(&call->lock);
    *ret_media = call->media;
    call->media = (waldo__media_list){ .count = 0 };
    pthread_mutex_unlock(&call->lock);
}

/* ---- making and running ---- */

static waldo_status parse_args(waldo_tool *tool, waldo_str args, waldo__json **ret_doc,
                               waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = 16 * 1024 * 1024, .max_depth = 64 };
    waldo_str text = waldo__str_trim(args).len > 0 ? args : WALDO__S("{}");
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(text, &limits, &doc, ret_err);

    if (status == WALDO_OK && waldo__tool_rules(tool) != NULL) {
        status = waldo__schema_check(waldo__tool_rules(tool), waldo__json_root(doc), ret_err);
    }
    if (status != WALDO_OK) {
        waldo__json_free(doc);
        return status;
    }
    *ret_doc = doc;
    return WALDO_OK;
}

static void on_timeout(void *userdata)
{
    waldo_tool_call *call = userdata;
    void (*on_cancel)(void *) = call->on_cancel;
    char text[96];

    snprintf(text, sizeof text, "the tool %s did not answer within %lld ms",
             waldo__tool_options(call->tool)->name,
             (long long)waldo__tool_options(call->tool)->timeout_ms);
    if (end_call(call, WALDO__CALL_FAIL, WALDO_ETIMEDOUT, waldo__str(text)) == WALDO_OK &&
        on_cancel != NULL) {
        call->on_cancel = NULL;
        on_cancel(call->on_cancel_userdata);
    }
}

waldo_status waldo__tool_call_new(waldo_tool *tool, const char *id, const char *key, waldo_str args,
                                  const waldo__call_sink *sink, waldo_tool_call **ret_call,
                                  waldo_error **ret_err)
{
    waldo__json *doc = NULL;
    waldo_tool_call *call;
    waldo_status status = parse_args(tool, args, &doc, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    call = WALDO__NEW(waldo_tool_call);
    if (call == NULL) {
        waldo__json_free(doc);
        return waldo__error_nomem(ret_err);
    }
    atomic_init(&call->refs, 1);
    atomic_init(&call->host_refs, 0);
    pthread_mutex_init(&call->lock, NULL);
    call->tool = waldo_tool_ref(tool);
    call->args = doc;
    call->sink = *sink;
    call->text = WALDO__BUF_INIT(RESULT_MAX);
    call->id = waldo__strdup(id);
    call->key = waldo__strdup(key);
    call->args_text = waldo__strndup(args.ptr, args.len);
    call->args_len = args.len;
    call->poster = waldo__loop_poster(sink->loop);
    call->pid = waldo__process_id();
    waldo__task_init(&call->task, deliver, call);
    waldo__timer_init(&call->timeout, on_timeout, call);
    if (call->id == NULL || call->key == NULL || call->args_text == NULL || call->poster == NULL) {
        release(call);
        return waldo__error_nomem(ret_err);
    }
    *ret_call = call;
    return WALDO_OK;
}

void waldo__tool_call_start(waldo_tool_call *call)
{
    const waldo_tool_options *options = waldo__tool_options(call->tool);
    waldo_status status;

    pthread_mutex_lock(&call->lock); /* who decides about approvals may hold the call already */
    call->state = CALL_RUNNING;
    pthread_mutex_unlock(&call->lock);
    waldo_tool_call_ref(call); /* lent to the function */
    if (options->timeout_ms > 0 &&
        waldo__timer_arm(call->sink.loop, &call->timeout,
                         waldo__deadline_ns(options->timeout_ms)) != WALDO_OK) {
        waldo_tool_call_abort(call, WALDO_ENOMEM);
        waldo_tool_call_unref(call);
        return;
    }
    status = options->call(options->userdata, call);
    if (status < 0) {
        waldo_tool_call_abort(call, status);
    } else if (status != WALDO_PENDING) {
        end_call(call, WALDO__CALL_FAIL, WALDO_OK, WALDO__S("the tool ended without an answer"));
    }
    waldo_tool_call_unref(call);
}

void waldo__tool_call_cancel(waldo_tool_call *call)
{
    void (*on_cancel)(void *) = call->on_cancel;
    int running, queued;

    pthread_mutex_lock(&call->lock);
    running = call->state == CALL_RUNNING;
    queued = call->state == CALL_ENDED;
    if (call->state != CALL_DELIVERED) {
        call->state = CALL_CANCELLED;
    }
    if (queued && !waldo__poster_remove(call->poster, &call->task)) {
        queued = call->task.queued;
        waldo__task_cancel(call->sink.loop, &call->task);
    }
    pthread_mutex_unlock(&call->lock);
    waldo__timer_disarm(call->sink.loop, &call->timeout);
    if (queued) {
        release(call);
    }
    if (call->fetch != NULL) {
        waldo__transfer_end(call->fetch->transfer, WALDO_ECANCELED);
    }
    if (running && on_cancel != NULL) {
        call->on_cancel = NULL;
        on_cancel(call->on_cancel_userdata);
    }
}

waldo_tool_call *waldo_tool_call_ref(waldo_tool_call *call)
{
    if (call != NULL) {
        atomic_fetch_add(&call->refs, 1);
        atomic_fetch_add(&call->host_refs, 1);
    }
    return call;
}

void waldo_tool_call_unref(waldo_tool_call *call)
{
    if (call == NULL) {
        return;
    }
    if (atomic_fetch_sub(&call->host_refs, 1) == 1) {
        end_call(call, WALDO__CALL_FAIL, WALDO_OK,
                 WALDO__S("the tool was given up without an answer"));
    }
    release(call);
}

void waldo__tool_call_release(waldo_tool_call *call)
{
    if (call != NULL) {
        release(call);
    }
}

int waldo_tool_call_cancelled(const waldo_tool_call *call)
{
    waldo_tool_call *mutable_call = (waldo_tool_call *)call;
    int running;

    if (call->pid != waldo__process_id()) {
        return 1;
    }
    pthread_mutex_lock(&mutable_call->lock);
    running = call->state == CALL_RUNNING || call->state == CALL_NEW;
    pthread_mutex_unlock(&mutable_call->lock);
    return !running;
}

void waldo_tool_call_on_cancel(waldo_tool_call *call, void (*fn)(void *userdata), void *userdata)
{
    call->on_cancel = fn;
    call->on_cancel_userdata = userdata;
}

/* ---- what it was called with ---- */

const char *waldo_tool_call_id(const waldo_tool_call *call)
{
    return call->id;
}

const char *waldo_tool_call_key(const waldo_tool_call *call)
{
    return call->key;
}

const char *waldo_tool_call_name(const waldo_tool_call *call)
{
    return waldo__tool_options(call->tool)->name;
}

waldo_str waldo_tool_call_args(const waldo_tool_call *call)
{
    return waldo__strn(call->args_text, call->args_len);
}

static const waldo__json_value *arg(const waldo_tool_call *call, const char *name)
{
    return waldo__json_get(waldo__json_root(call->args), name);
}

int waldo_tool_call_has(const waldo_tool_call *call, const char *name)
{
    return waldo__json_type_of(arg(call, name)) > WALDO__JSON_NULL;
}

const char *waldo_tool_call_str(const waldo_tool_call *call, const char *name)
{
    waldo_str text;

    return waldo__json_str(arg(call, name), &text) ? text.ptr : NULL;
}

int64_t waldo_tool_call_int(const waldo_tool_call *call, const char *name, int64_t fallback)
{
    waldo__json_int(arg(call, name), &fallback);
    return fallback;
}

double waldo_tool_call_num(const waldo_tool_call *call, const char *name, double fallback)
{
    waldo__json_num(arg(call, name), &fallback);
    return fallback;
}

int waldo_tool_call_bool(const waldo_tool_call *call, const char *name, int fallback)
{
    waldo__json_bool(arg(call, name), &fallback);
    return fallback;
}

const char *waldo_tool_call_str_at(const waldo_tool_call *call, const char *name, size_t index)
{
    const waldo__json_value *element = waldo__json_first(arg(call, name));
    waldo_str text;

    while (element != NULL && index-- > 0) {
        element = waldo__json_next(element);
    }
    return waldo__json_str(element, &text) ? text.ptr : NULL;
}

/* ---- fetching ---- */

static void fetch_head(void *userdata, const waldo__http_head *head)
{
    fetch *f = userdata;

    f->http_status = head->status;
}

static waldo_status fetch_body(void *userdata, waldo_str bytes)
{
    fetch *f = userdata;

    return waldo__buf_add_str(&f->body, bytes);
}

static void fetch_done(void *userdata, waldo_status status, const waldo_error *error)
{
    fetch *f = userdata;
    waldo_tool_call *call = f->call;

    call->fetch = NULL;
    f->done(f->userdata, status, f->http_status,
            status == WALDO_OK ? waldo__buf_str(&f->body) : WALDO__S(""), error);
    waldo__buf_free(&f->body);
    waldo__free(f);
    waldo_tool_call_unref(call);
}

waldo_status waldo_tool_call_fetch(waldo_tool_call *call, const char *url, size_t max_bytes,
                                   waldo_fetch_fn done, void *userdata)
{
    fetch *f;
    waldo_status status;

    if (waldo_tool_call_cancelled(call) || call->sink.http == NULL) {
        return WALDO_ECLOSED;
    }
    if (call->fetch != NULL) {
        return WALDO_EBUSY;
    }
    f = WALDO__NEW(fetch);
    if (f == NULL) {
        return WALDO_ENOMEM;
    }
    *f = (fetch){ .call = call, .done = done, .userdata = userdata };
    waldo__buf_init(&f->body, max_bytes);
    status = waldo__http_start(call->sink.http,
                               &(waldo__http_request){ .method = "GET",
                                                       .url = url,
                                                       .replay = WALDO__REPLAY_SAFE,
                                                       .idle_timeout_ms = 60000,
                                                       .max_body = max_bytes,
                                                       .compressed = 1,
                                                       .userdata = f,
                                                       .on_head = fetch_head,
                                                       .on_body = fetch_body,
                                                       .on_done = fetch_done },
                               &f->transfer, NULL);
    if (status != WALDO_OK) {
        waldo__free(f);
        return status;
    }
    call->fetch = f;
    waldo_tool_call_ref(call);
    return WALDO_OK;
}

/* ---- for built-in tools ---- */

waldo_sandbox *waldo__tool_call_sandbox(const waldo_tool_call *call)
{
    return call->sink.sandbox;
}

waldo__http *waldo__tool_call_http(const waldo_tool_call *call)
{
    return call->sink.http;
}

size_t waldo__tool_call_max_output(const waldo_tool_call *call)
{
    return call->sink.max_output;
}

void waldo__tool_call_output(waldo_tool_call *call, int stream, waldo_str bytes)
{
    if (call->sink.output != NULL && !waldo_tool_call_cancelled(call)) {
        call->sink.output(call->sink.userdata, call, stream, bytes);
    }
}

void *waldo__tool_call_state(waldo_tool_call *call, size_t size)
{
    if (call->tool_state == NULL) {
        call->tool_state = waldo__zalloc(size);
    }
    return call->tool_state;
}
