/*
 * Generations: ended exactly once, from any thread; what was added by then comes to the sink on the
 * driving thread, from the run queue. Who is first wins: an end or a drop.
 */
#include "agent/generation.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/ident.h"
#include "base/error.h"
#include "json/json.h"

enum { PENDING_MAX = 64 * 1024 * 1024, MESSAGE_MAX = 8192 };

typedef enum generation_state {
    GENERATION_OPEN,  /* more may be added */
    GENERATION_ENDED, /* and to be delivered */
    GENERATION_OVER   /* delivered or dropped */
} generation_state;

struct waldo_generation {
    atomic_int refs;      /* all holders */
    atomic_int host_refs; /* holders that may still end it */
    char *request;
    size_t request_len;
    waldo__generation_sink sink;
    waldo_poster *poster;
    pid_t pid; /* in a forked child it is dead, and its lock may be held */
    waldo__task task;
    pthread_mutex_t lock; /* guards what follows; before the poster's */
    generation_state state;
    int posted; /* the task is with the poster or the loop, and holds a reference */
    int paused;
    waldo__buf pending;
    waldo_status end_status;
    waldo_error *error;
    void (*on_cancel)(void *userdata); /* driving thread only, as its userdata */
    void *on_cancel_userdata;
};

static void release(waldo_generation *generation)
{
    if (atomic_fetch_sub(&generation->refs, 1) != 1) {
        return;
    }
    waldo__free(generation->request);
    waldo_poster_unref(generation->poster);
    waldo__buf_free(&generation->pending);
    waldo_error_free(generation->error);
    if (generation->pid == waldo__process_id()) {
        pthread_mutex_destroy(&generation->lock);
    }
    waldo__free(generation);
}

/* ---- to the sink ---- */

static void deliver(void *userdata)
{
    waldo_generation *generation = userdata;
    waldo__buf bytes = WALDO__BUF_INIT(PENDING_MAX);
    int is_end = 0, is_wanted;

    pthread_mutex_lock(&generation->lock);
    generation->posted = 0;
    is_wanted = generation->state != GENERATION_OVER && !generation->paused;
    if (is_wanted) {
        bytes = generation->pending;
        generation->pending = WALDO__BUF_INIT(PENDING_MAX);
    }
    pthread_mutex_unlock(&generation->lock);
    if (is_wanted && bytes.len > 0) {
        generation->sink.body(generation->sink.userdata, waldo__buf_str(&bytes));
    }
    waldo__buf_free(&bytes);
    pthread_mutex_lock(&generation->lock);
    /* The sink may have paused or dropped it, or another thread added more. */
    if (is_wanted && generation->state == GENERATION_ENDED && !generation->paused &&
        generation->pending.len == 0) {
        generation->state = GENERATION_OVER;
        is_end = 1;
    }
    pthread_mutex_unlock(&generation->lock);
    if (is_end) {
        generation->sink.done(generation->sink.userdata, generation->end_status, generation->error);
        release(generation); /* the sink's */
    }
    release(generation); /* the task's */
}

/* With the lock held. */
static void post(waldo_generation *generation)
{
    if (!generation->posted && !generation->paused &&
        waldo__poster_add(generation->poster, &generation->task) == WALDO_OK) {
        generation->posted = 1;
        atomic_fetch_add(&generation->refs, 1);
    }
}

/* With the lock held: no more is to come. error is taken. */
static void end_with(waldo_generation *generation, waldo_status status, waldo_error *error)
{
    generation->state = GENERATION_ENDED;
    generation->end_status = status;
    generation->error = error;
    post(generation);
}

/* ---- from the host ---- */

/* Take the lock of one that is open; else say why it is not. */
static waldo_status enter(waldo_generation *generation)
{
    if (generation->pid != waldo__process_id()) {
        return WALDO_EFORKED;
    }
    pthread_mutex_lock(&generation->lock);
    if (generation->state == GENERATION_OPEN) {
        return WALDO_OK;
    }
    pthread_mutex_unlock(&generation->lock);
    return WALDO_ECLOSED;
}

/* Add a line of what one call of the host said, and end when it says so; line is freed. */
static waldo_status add_line(waldo_generation *generation, waldo__buf *line, int is_end)
{
    waldo_error *error = NULL;
    waldo_status kept = waldo__buf_putc(line, '\n');
    waldo_status status = enter(generation);

    if (status == WALDO_OK) {
        kept = kept == WALDO_OK ? waldo__buf_add_str(&generation->pending, waldo__buf_str(line))
                                : kept;
        if (kept != WALDO_OK) {
            waldo_error_set(&error, kept, WALDO_CLASS_PROVIDER,
                            "the answer of the host's model could not be kept: %s",
                            waldo_status_text(kept));
            end_with(generation, kept, error);
        } else if (is_end) {
            end_with(generation, WALDO_OK, NULL);
        } else {
            post(generation);
        }
        pthread_mutex_unlock(&generation->lock);
        status = kept;
    }
    waldo__buf_free(line);
    return status;
}

static void begin(waldo__buf *line, waldo__json_writer *jw)
{
    *line = WALDO__BUF_INIT(PENDING_MAX);
    waldo__json_writer_init(jw, line);
    waldo__jw_object(jw, NULL);
}

static waldo_status add_text(waldo_generation *generation, const char *key, waldo_str text)
{
    waldo__json_writer jw;
    waldo__buf line;

    begin(&line, &jw);
    waldo__jw_str(&jw, key, text);
    waldo__jw_end(&jw, '}');
    return add_line(generation, &line, 0);
}

waldo_status waldo_generation_text(waldo_generation *generation, waldo_str text)
{
    return add_text(generation, "text", text);
}

waldo_status waldo_generation_reasoning(waldo_generation *generation, waldo_str text)
{
    return add_text(generation, "reasoning", text);
}

waldo_status waldo_generation_call(waldo_generation *generation, const char *id, const char *name,
                                   waldo_str args)
{
    waldo__json_writer jw;
    waldo__buf line;

    if (name == NULL || name[0] == '\0') {
        return WALDO_EINVAL;
    }
    begin(&line, &jw);
    waldo__jw_object(&jw, "call");
    waldo__jw_text(&jw, "id", id);
    waldo__jw_text(&jw, "name", name);
    waldo__jw_str(&jw, "args", args);
    waldo__jw_end(&jw, '}');
    waldo__jw_end(&jw, '}');
    return add_line(generation, &line, 0);
}

waldo_status waldo_generation_usage(waldo_generation *generation, const waldo_usage *usage)
{
    waldo__json_writer jw;
    waldo__buf line;

    begin(&line, &jw);
    waldo__jw_object(&jw, "usage");
    waldo__jw_int(&jw, "input_tokens", usage->input_tokens);
    waldo__jw_int(&jw, "output_tokens", usage->output_tokens);
    waldo__jw_int(&jw, "cached_tokens", usage->cached_tokens);
    waldo__jw_int(&jw, "cache_write_tokens", usage->cache_write_tokens);
    waldo__jw_int(&jw, "reasoning_tokens", usage->reasoning_tokens);
    waldo__jw_end(&jw, '}');
    waldo__jw_end(&jw, '}');
    return add_line(generation, &line, 0);
}

waldo_status waldo_generation_finish(waldo_generation *generation, waldo_finish finish)
{
    waldo__json_writer jw;
    waldo__buf line;

    if (finish < 0 || finish > WALDO_FINISH_PAUSE) {
        return WALDO_EINVAL;
    }
    begin(&line, &jw);
    waldo__jw_int(&jw, "finish", finish);
    waldo__jw_end(&jw, '}');
    return add_line(generation, &line, 1);
}

/* error is taken; without memory it says so itself. */
static waldo_status fail_with(waldo_generation *generation, waldo_status failure,
                              waldo_error *error)
{
    waldo_status status = enter(generation);

    if (status != WALDO_OK) {
        waldo_error_free(error);
        return status;
    }
    end_with(generation, failure, error);
    pthread_mutex_unlock(&generation->lock);
    return WALDO_OK;
}

static waldo_status fail(waldo_generation *generation, waldo_status status, const char *text)
{
    waldo_error *error = NULL;

    waldo_error_set(&error, status, WALDO_CLASS_PROVIDER, "%s", text);
    return fail_with(generation, status, error);
}

waldo_status waldo_generation_fail(waldo_generation *generation, waldo_status status,
                                   const char *format, ...)
{
    waldo__buf text = WALDO__BUF_INIT(MESSAGE_MAX);
    va_list args;

    va_start(args, format);
    waldo__buf_vprintf(&text, format, args);
    va_end(args);
    status = status < 0 ? status : WALDO_EPROVIDER;
    status = fail(generation, status,
                  text.status == WALDO_OK ? waldo__buf_str(&text).ptr : waldo_status_text(status));
    waldo__buf_free(&text);
    return status;
}

/* ---- making and ending ---- */

waldo_generation *waldo__generation_new(waldo_str request, const waldo__generation_sink *sink)
{
    waldo_generation *generation = WALDO__NEW(waldo_generation);

    if (generation == NULL) {
        return NULL;
    }
    atomic_init(&generation->refs, 1);
    atomic_init(&generation->host_refs, 0);
    pthread_mutex_init(&generation->lock, NULL);
    generation->pid = waldo__process_id();
    generation->sink = *sink;
    generation->pending = WALDO__BUF_INIT(PENDING_MAX);
    waldo__task_init(&generation->task, deliver, generation);
    generation->request = waldo__strndup(request.ptr, request.len);
    generation->request_len = request.len;
    generation->poster = waldo__loop_poster(sink->loop);
    if (generation->request == NULL || generation->poster == NULL) {
        release(generation);
        return NULL;
    }
    return generation;
}

void waldo__generation_start(waldo_generation *generation, waldo_generate_fn generate,
                             void *userdata)
{
    waldo_status status;

    waldo_generation_ref(generation); /* lent to the function */
    status = generate(userdata, generation);
    if (status < 0) {
        waldo_generation_fail(generation, status, "the host's model failed: %s",
                              waldo_status_text(status));
    } else if (status != WALDO_PENDING) {
        fail(generation, WALDO_EPROVIDER, "the host's model ended without an answer");
    }
    waldo_generation_unref(generation);
}

void waldo__generation_pause(waldo_generation *generation, int paused)
{
    pthread_mutex_lock(&generation->lock);
    generation->paused = paused;
    if (!paused && (generation->pending.len > 0 || generation->state == GENERATION_ENDED)) {
        post(generation);
    }
    pthread_mutex_unlock(&generation->lock);
}

void waldo__generation_drop(waldo_generation *generation)
{
    void (*on_cancel)(void *) = generation->on_cancel;
    int was_open, was_posted;

    pthread_mutex_lock(&generation->lock);
    was_open = generation->state == GENERATION_OPEN;
    generation->state = GENERATION_OVER;
    was_posted = generation->posted;
    if (was_posted && !waldo__poster_remove(generation->poster, &generation->task)) {
        waldo__task_cancel(generation->sink.loop, &generation->task);
    }
    generation->posted = 0;
    pthread_mutex_unlock(&generation->lock);
    generation->on_cancel = NULL;
    if (was_open && on_cancel != NULL) {
        on_cancel(generation->on_cancel_userdata);
    }
    if (was_posted) {
        release(generation);
    }
    release(generation); /* the sink's */
}

/* ---- for the host ---- */

waldo_str waldo_generation_request(const waldo_generation *generation)
{
    return waldo__strn(generation->request, generation->request_len);
}

int waldo_generation_cancelled(const waldo_generation *generation)
{
    waldo_generation *mutable_generation = (waldo_generation *)generation;
    int is_over;

    if (generation->pid != waldo__process_id()) {
        return 1;
    }
    pthread_mutex_lock(&mutable_generation->lock);
    is_over = generation->state != GENERATION_OPEN;
    pthread_mutex_unlock(&mutable_generation->lock);
    return is_over;
}

void waldo_generation_on_cancel(waldo_generation *generation, void (*fn)(void *userdata),
                                void *userdata)
{
    generation->on_cancel = fn;
    generation->on_cancel_userdata = userdata;
}

waldo_generation *waldo_generation_ref(waldo_generation *generation)
{
    if (generation != NULL) {
        atomic_fetch_add(&generation->refs, 1);
        atomic_fetch_add(&generation->host_refs, 1);
    }
    return generation;
}

void waldo_generation_unref(waldo_generation *generation)
{
    if (generation == NULL) {
        return;
    }
    if (atomic_fetch_sub(&generation->host_refs, 1) == 1) {
        fail(generation, WALDO_EPROVIDER, "the host's model was given up without an answer");
    }
    release(generation);
}
