/* The run as an object: making, text in, events out, coming to rest, ending. */
#include "agent/run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "base/utf8.h"
#include "json/json.h"

enum { ID_LETTERS = 22, TEXT_MAX = 64 * 1024 * 1024 };

waldo_run *waldo__run_of_all(waldo__ring *node)
{
    return WALDO__CONTAINER(node, waldo_run, all);
}

waldo_run *waldo__run_of_rested(waldo__ring *node)
{
    return WALDO__CONTAINER(node, waldo_run, rested);
}

/* ---- secrets ---- */

void waldo__run_clean(waldo_run *run, waldo_str *text, waldo__buf *room)
{
    waldo__buf_init(room, TEXT_MAX);
    if (text->len == 0 || !waldo__secrets_found(run->rt->secrets, *text)) {
        return;
    }
    run->events.lost |= waldo__scrub(run->rt->secrets, *text, room) != WALDO_OK;
    *text = room->status == WALDO_OK ? waldo__buf_str(room) : WALDO__S("");
}

void waldo__run_clean_error(waldo_run *run, waldo_error **error)
{
    const char *from[] = { waldo_error_message(*error), waldo_error_provider_code(*error),
                           waldo_error_request_id(*error) };
    waldo__buf clean[WALDO__COUNT(from)];
    waldo_status status = WALDO_OK;
    int found = 0;

    for (size_t i = 0; i < WALDO__COUNT(from); i++) {
        waldo__buf_init(&clean[i], TEXT_MAX);
        found |= waldo__secrets_found(run->rt->secrets, waldo__str(from[i]));
    }
    for (size_t i = 0; i < WALDO__COUNT(from) && found && status == WALDO_OK; i++) {
        status = waldo__scrub(run->rt->secrets, waldo__str(from[i]), &clean[i]);
    }
    if (found && status == WALDO_OK) {
        waldo__error_set_message(*error, waldo__buf_str(&clean[0]));
        waldo_error_add_http(*error, waldo_error_http_status(*error), clean[1].ptr, clean[2].ptr,
                             waldo_error_retry_after_ms(*error));
        /* A message that could not be replaced for want of memory stands there as it was. */
        found = waldo__secrets_found(run->rt->secrets, waldo__str(waldo_error_message(*error)));
    }
    if (found) {
        waldo__error_clear(error);
        waldo__error_nomem(error);
    }
    for (size_t i = 0; i < WALDO__COUNT(from); i++) {
        waldo__buf_free(&clean[i]);
    }
}

/* ---- states ---- */

static int is_working(waldo_run_state state)
{
    return state == WALDO_RUN_MODEL || state == WALDO_RUN_TOOLS;
}

int waldo__run_is_busy(const waldo_run *run)
{
    return is_working(run->state) || run->state == WALDO_RUN_WAITING;
}

static void call_ready(void *userdata)
{
    waldo_run *run = userdata;

    if (run->doomed) {
        waldo_run_free(run);
    } else if (run->on_ready != NULL) {
        run->on_ready(run->ready_userdata, run); /* last: it may free the run */
    }
}

void waldo__run_notify(waldo_run *run)
{
    if (run->on_ready != NULL) {
        waldo__task_queue(run->rt->loop, &run->ready_task);
    }
}

void waldo__run_set_state(waldo_run *run, waldo_run_state state)
{
    waldo_event *event;

    if (run->state == state) {
        return;
    }
    run->rt->working += (size_t)is_working(state);
    run->rt->working -= (size_t)is_working(run->state);
    run->state = state;
    event = waldo__events_push(&run->events, WALDO_EVENT_STATE);
    if (event != NULL) {
        event->state = state;
    }
    waldo__ring_remove(&run->rested);
    if (!is_working(state) && state != WALDO_RUN_CLOSED) {
        waldo__ring_add(&run->rt->rested, &run->rested);
    }
    waldo__run_notify(run);
}

static void keep_error(waldo_run *run, waldo_error *error)
{
    if (error != NULL) {
        waldo__run_clean_error(run, &error);
    }
    waldo_error_free(run->error);
    run->error = error;
    run->status = error != NULL ? waldo_error_status(error) : WALDO_OK;
}

static const char *const stop_names[] = { "none",  "answered", "cancelled",
                                          "limit", "failed",   "refused" };

static void record_rest(waldo_run *run)
{
    waldo__json_writer jw;
    waldo__buf json;

    waldo__record_begin(run, &json, &jw, "rest");
    waldo__jw_text(&jw, "stop", stop_names[run->stop]);
    waldo__jw_text(&jw, "status", waldo_status_name(run->status));
    waldo__record_end(run, &json, &jw);
    waldo__run_commit(run, NULL, NULL);
}

static waldo_error *take_interrupt_error(waldo_run *run)
{
    waldo_error *error = run->interrupt_error;

    run->interrupt_error = NULL;
    return error;
}

void waldo__run_rest(waldo_run *run, waldo_stop stop, waldo_error *error)
{
    if (!waldo__run_is_busy(run)) {
        waldo_error_free(error);
        return;
    }
    waldo__run_drop_request(run);
    waldo__run_stop_calls(run);
    waldo__timer_disarm(run->rt->loop, &run->time_limit);
    waldo_error_free(take_interrupt_error(run));
    run->interrupted = WALDO_STOP_NONE;
    run->generation++;
    run->stop = stop;
    keep_error(run, error);
    waldo__run_set_state(run, WALDO_RUN_IDLE);
    record_rest(run);
    waldo__runtime_settle(run->rt);
}

static void rest_interrupted(waldo_run *run, void *context)
{
    (void)context;
    waldo__run_rest(run, run->interrupted, take_interrupt_error(run));
}

static const char *const settle_texts[] = {
    [WALDO_STOP_CANCELLED] = "The host cancelled the run.",
    [WALDO_STOP_LIMIT] = "A limit of the run was reached.",
    [WALDO_STOP_FAILED] = "The run failed.",
    [WALDO_STOP_REFUSED] = "The model refused.",
};

void waldo__run_interrupt(waldo_run *run, waldo_stop stop, waldo_error *error)
{
    if (!waldo__run_is_busy(run)) {
        waldo_error_free(error);
        return;
    }
    if (run->interrupted != WALDO_STOP_NONE) {
        /* The second one comes when even the first could not be journalled: do not wait again. */
        waldo_error_free(error);
        waldo__run_rest(run, run->interrupted, take_interrupt_error(run));
        return;
    }
    run->interrupted = stop;
    run->interrupt_error = error;
    run->generation++;
    waldo__run_drop_request(run);
    run->in_callback++; /* tools hear of the end, and may free the run then */
    waldo__run_settle_calls(run, settle_texts[stop]);
    if (run->state == WALDO_RUN_WAITING) {
        waldo__run_set_state(run, WALDO_RUN_TOOLS); /* it does not wait for the host any more */
    }
    waldo__run_commit(run, rest_interrupted, NULL);
    run->in_callback--;
}

void waldo_run_cancel(waldo_run *run)
{
    waldo_error *error = NULL;

    if (run == NULL || run->interrupted != WALDO_STOP_NONE || !waldo__run_is_busy(run) ||
        waldo__loop_forked(run->rt->loop)) {
        return;
    }
    waldo_error_set(&error, WALDO_ECANCELED, WALDO_CLASS_USAGE, "the run was cancelled");
    waldo__run_interrupt(run, WALDO_STOP_CANCELLED, error);
}

static void cancel_triggered(void *userdata)
{
    waldo_run_cancel(userdata);
}

static void time_is_over(void *userdata)
{
    waldo_run *run = userdata;
    waldo_error *error = NULL;

    waldo_error_set(&error, WALDO_ELIMIT, WALDO_CLASS_USAGE,
                    "limit reached: %lld ms for one prompt (max_time_ms)",
                    (long long)run->limits.max_time_ms);
    waldo__run_interrupt(run, WALDO_STOP_LIMIT, error);
}

/* ---- making ---- */

/* The run's own machine, made from the agent's recipe and what the options say of it. */
static void make_sandbox(waldo_run *run, const waldo_run_options *options)
{
    waldo_sandbox_spec *base = run->agent->spec;

    run->spec = options->sandbox != NULL || options->workspace != NULL
                    ? waldo__sandbox_spec_derive(base, options->sandbox, options->workspace,
                                                 options->workspace_mode)
                    : waldo_sandbox_spec_ref(base);
    run->sandbox = run->spec != NULL ? waldo_sandbox_new(run->rt, run->spec) : NULL;
    if (run->sandbox == NULL) {
        waldo__error_nomem(&run->error);
        return;
    }
    waldo__error_copy_to(&run->error, waldo_sandbox_spec_error(run->spec));
}

static void take_sandbox(waldo_run *run, const waldo_run_options *options)
{
    int own = options->sandbox != NULL || options->workspace != NULL;

    if (options->share != NULL && own) {
        waldo__error_invalid(
            &run->error,
            "a run that shares a machine cannot have .sandbox or .workspace of its own");
    } else if (options->share != NULL) {
        run->sandbox = waldo_sandbox_ref(options->share);
        run->sandbox_shared = 1;
    } else if (run->agent->spec != NULL || options->sandbox != NULL) {
        make_sandbox(run, options);
    } else if (options->workspace != NULL) {
        waldo__error_invalid(
            &run->error, "the run has a workspace but no sandbox: set .sandbox of agent or run");
    }
    if (run->sandbox != NULL) {
        waldo__run_take_machine(run);
    }
}

static void take_options(waldo_run *run, const waldo_run_options *options)
{
    char id[ID_LETTERS + 1];

    waldo__random_word(id, ID_LETTERS);
    run->id = waldo__strdup(options->id != NULL ? options->id : id);
    run->label = waldo__strdup(options->label != NULL ? options->label : "");
    run->userdata = options->userdata;
    run->limits =
        options->limits != NULL ? waldo__limits_resolve(options->limits) : run->agent->limits;
    if (options->keys != NULL) {
        waldo__options_copy(&run->keys, sizeof run->keys, options->keys);
    }
    if (run->id == NULL || run->label == NULL) {
        waldo__error_nomem(&run->error);
    }
    if (options->record != NULL && run->error == NULL) {
        waldo__recorder_new(options->record, run->rt->secrets, &run->recorder, &run->error);
    }
}

/* What else a run that can work needs. */
static void take_parts(waldo_run *run, const waldo_run_options *options)
{
    waldo_status status = WALDO_OK;

    if (options->prompt != NULL && !waldo__utf8_valid(waldo__str(options->prompt))) {
        waldo_error_set(&run->error, WALDO_EUTF8, WALDO_CLASS_USAGE,
                        "the prompt is not valid UTF-8: nothing was sent");
        return;
    }
    if (options->cancel != NULL) {
        status = waldo__cancel_watch_new(run->rt->loop, options->cancel, cancel_triggered, run,
                                         &run->cancel_watch);
    }
    if (status == WALDO_ENOMEM) {
        waldo__error_nomem(&run->error);
    } else if (status != WALDO_OK) {
        waldo_error_set(&run->error, status, WALDO_CLASS_USAGE, "the run's cancel object: %s",
                        waldo_status_text(status));
    } else {
        take_sandbox(run, options);
    }
}

static void init_parts(waldo_run *run)
{
    waldo__ring_init(&run->all);
    waldo__ring_init(&run->rested);
    waldo__ring_init(&run->journal);
    waldo__task_init(&run->ready_task, call_ready, run);
    waldo__timer_init(&run->time_limit, time_is_over, run);
    waldo__turn_init(run);
    run->state = WALDO_RUN_IDLE;
    run->status = WALDO_PENDING;
}

/* A run that could not be made is at rest as failed, and is handed out as such. */
static void start_broken(waldo_run *run)
{
    run->broken = 1;
    run->stop = WALDO_STOP_FAILED;
    run->status = waldo_error_status(run->error);
    waldo__ring_add(&run->rt->rested, &run->rested);
}

waldo_run *waldo_run_new(waldo_runtime *rt, waldo_agent *agent, const waldo_run_options *from)
{
    waldo_run *run = rt != NULL ? WALDO__NEW(waldo_run) : NULL;
    waldo_run_options options;

    if (run == NULL) {
        return NULL;
    }
    run->rt = rt;
    init_parts(run);
    waldo__ring_add(&rt->runs, &run->all);
    waldo__error_copy_to(&run->error, waldo_agent_error(agent));
    if (waldo__options_copy(&options, sizeof options, from) != WALDO_OK) {
        options = (waldo_run_options){ .size = sizeof options };
        waldo__error_invalid(&run->error, "run options have no valid size: use WALDO_RUN()");
    }
    waldo__runtime_check(rt, &run->error);
    if (agent != NULL && rt->error == NULL) {
        run->agent = waldo_agent_ref(agent);
        waldo__run_use_model(run, agent->model);
        take_options(run, &options);
    }
    if (run->error == NULL) {
        take_parts(run, &options);
    }
    if (run->error == NULL) {
        waldo__record_created(run);
    }
    if (run->events.lost || (run->error == NULL && options.prompt != NULL &&
                             waldo_run_send(run, options.prompt) == WALDO_ENOMEM)) {
        waldo__error_nomem(&run->error);
    }
    if (run->error != NULL && run->status == WALDO_PENDING) {
        start_broken(run);
    }
    return run;
}

/* ---- text from the user ---- */

static void begin_prompt(waldo_run *run)
{
    waldo_error *error = NULL;

    run->turns = 0;
    run->calls_made = 0;
    run->answer_repaired = 0;
    run->stop = WALDO_STOP_NONE;
    keep_error(run, NULL);
    run->status = WALDO_PENDING;
    waldo__run_set_state(run, WALDO_RUN_MODEL);
    if (run->seq == 0 && run->records.count == 0) {
        waldo__record_created(run); /* the first try did not get so far */
    }
    waldo__run_settle_calls(run, settle_texts[WALDO_STOP_FAILED]);
    if (run->limits.max_time_ms > 0 &&
        waldo__timer_arm(run->rt->loop, &run->time_limit,
                         waldo__deadline_ns(run->limits.max_time_ms)) != WALDO_OK) {
        waldo__error_nomem(&error);
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
        return;
    }
    waldo__run_ask(run);
}

/* Texts one below the other, then the images. */
static waldo_status join_parts(const waldo_part *parts, size_t count, waldo__buf *text,
                               waldo__media_list *media)
{
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        waldo_str part = parts[i].text;

        if (!waldo__utf8_valid(part) || waldo__str_find(part, '\0') < part.len) {
            return WALDO_EUTF8;
        }
        if (part.len > 0 && text->len > 0) {
            waldo__buf_puts(text, "\n");
        }
        status = waldo__buf_add_str(text, part);
        if (status == WALDO_OK && parts[i].image.len > 0) {
            status = waldo__media_add(media, parts[i].image);
        }
    }
    return status;
}

waldo_status waldo_run_send_parts(waldo_run *run, const waldo_part *parts, size_t count)
{
    waldo__queued said = { .text = NULL }, *slot = NULL;
    waldo__buf text = WALDO__BUF_INIT(TEXT_MAX);
    waldo_status status;

    if (run == NULL || run->broken || run->rt->closing) {
        return WALDO_ECLOSED;
    }
    if (waldo__loop_forked(run->rt->loop)) {
        return WALDO_EFORKED;
    }
    if (count == 0) {
        return WALDO_EINVAL;
    }
    status = join_parts(parts, count, &text, &said.media);
    if (status == WALDO_OK) {
        said.text = waldo__buf_take(&text, NULL);
        slot = said.text != NULL ? WALDO__VEC_PUSH(&run->queued) : NULL;
        status = slot != NULL ? WALDO_OK : WALDO_ENOMEM;
    }
    waldo__buf_free(&text);
    if (status != WALDO_OK) {
        waldo__free(said.text);
        waldo__media_free(&said.media);
        return status;
    }
    *slot = said;
    if (run->state == WALDO_RUN_IDLE) {
        begin_prompt(run);
    }
    return WALDO_OK;
}

waldo_status waldo_run_send_text(waldo_run *run, waldo_str text)
{
    return waldo_run_send_parts(run, &(waldo_part){ .text = text }, 1);
}

waldo_status waldo_run_send(waldo_run *run, const char *text)
{
    return text != NULL ? waldo_run_send_text(run, waldo__str(text)) : WALDO_EINVAL;
}

waldo_status waldo_run_set_model(waldo_run *run, waldo_model *model)
{
    if (run == NULL || run->broken || run->rt->closing) {
        return WALDO_ECLOSED;
    }
    if (waldo__loop_forked(run->rt->loop)) {
        return WALDO_EFORKED;
    }
    if (model == NULL || waldo_model_error(model) != NULL) {
        return model == NULL ? WALDO_EINVAL : waldo_error_status(waldo_model_error(model));
    }
    if (run->state != WALDO_RUN_IDLE) {
        return WALDO_EBUSY;
    }
    if (run->model == model) {
        return WALDO_OK;
    }
    if (run->transcript.count > 0 &&
        (waldo__run_is_remote(run) || waldo__model_history(model) != WALDO_HISTORY_HOST)) {
        return waldo__run_refuse_move(run, "it cannot change its model", NULL);
    }
    if (run->encoder != NULL) {
        run->epoch_why = "another model";
    }
    waldo__run_use_model(run, model);
    run->next_model = 0;
    return WALDO_OK;
}

/* ---- driving ---- */

static int has_come_to_rest(void *userdata)
{
    return !is_working(((const waldo_run *)userdata)->state);
}

static waldo_status rest_status(const waldo_run *run)
{
    return run->state == WALDO_RUN_WAITING ? WALDO_PENDING : run->status;
}

void waldo__run_stop_observing(waldo_run *run)
{
    if (run->on_ready == NULL) {
        run->events.observed = 0;
        waldo__run_resume_reading(run);
    }
}

waldo_status waldo_run_wait(waldo_run *run, int64_t timeout_ms)
{
    waldo_status status;

    if (run == NULL) {
        return WALDO_ENOMEM;
    }
    if (run->broken) {
        return run->status;
    }
    run->events.observed = 0; /* who waits does not pull: a full queue must not stop the run */
    waldo__run_resume_reading(run);
    status = waldo__runtime_drive(run->rt, timeout_ms, has_come_to_rest, run);
    return status == WALDO_OK ? rest_status(run) : status;
}

static int can_pull(void *userdata)
{
    const waldo_run *run = userdata;

    return run->events.head != NULL || run->events.skipped > 0 || !is_working(run->state);
}

waldo_status waldo_run_next(waldo_run *run, int64_t timeout_ms, const waldo_event **ret_event)
{
    const waldo_event *event;
    waldo_status status;

    if (run == NULL || ret_event == NULL) {
        return WALDO_EINVAL;
    }
    if (run->rt->loop != NULL && waldo__loop_forked(run->rt->loop)) {
        return WALDO_EFORKED;
    }
    run->events.observed = 1;
    if (timeout_ms != 0 && !can_pull(run)) {
        status = waldo__runtime_drive(run->rt, timeout_ms, can_pull, run);
        if (status != WALDO_OK) {
            return status;
        }
    }
    event = waldo__events_pull(&run->events);
    if (event != NULL) {
        if (!waldo__events_full(&run->events)) {
            waldo__run_resume_reading(run);
        }
        *ret_event = event;
        return WALDO_OK;
    }
    if (is_working(run->state)) {
        return WALDO_AGAIN;
    }
    return run->state == WALDO_RUN_WAITING ? WALDO_PENDING : WALDO_END;
}

void waldo_run_on_ready(waldo_run *run, waldo_run_ready_fn ready, void *userdata)
{
    if (run == NULL || run->rt->loop == NULL || waldo__loop_forked(run->rt->loop)) {
        return;
    }
    run->on_ready = ready;
    run->ready_userdata = userdata;
    run->events.observed |= ready != NULL;
    if (ready != NULL && can_pull(run)) {
        waldo__run_notify(run);
    }
}

/* ---- the end ---- */

static void free_queued(waldo_run *run)
{
    for (size_t i = 0; i < run->queued.count; i++) {
        waldo__free(run->queued.at[i].text);
        waldo__media_free(&run->queued.at[i].media);
    }
    WALDO__VEC_FREE(&run->queued);
}

static void let_sandbox_go(waldo_run *run)
{
    if (run->sandbox == NULL) {
        return;
    }
    waldo__run_leave_machine(run);
    if (!run->sandbox_shared) {
        waldo_sandbox_close(run->sandbox, NULL, NULL);
    }
    waldo_sandbox_unref(run->sandbox);
    run->sandbox = NULL;
}

/* Undo what needs the loop; not there for a run of a runtime that could not be made. */
static void stop_work(waldo_run *run)
{
    waldo_runtime *rt = run->rt;

    if (run->agent != NULL && rt->loop != NULL) {
        waldo__run_drop_request(run);
        waldo__run_free_calls(run);
        waldo__run_free_epoch(run);
        waldo__timer_disarm(rt->loop, &run->time_limit);
        waldo__task_cancel(rt->loop, &run->ready_task);
        let_sandbox_go(run);
    }
    waldo__run_journal_drop(run);
    waldo__cancel_watch_free(run->cancel_watch);
    rt->working -= (size_t)is_working(run->state);
    run->state = WALDO_RUN_CLOSED;
    waldo__ring_remove(&run->all);
    waldo__ring_remove(&run->rested);
}

void waldo_run_free(waldo_run *run)
{
    waldo_runtime *rt;

    if (run == NULL) {
        return;
    }
    rt = run->rt;
    if (rt->loop != NULL && waldo__loop_forked(rt->loop)) {
        return; /* its requests and machines are the parent's: touch nothing */
    }
    if (run->in_callback > 0) {
        run->doomed = 1; /* freed from the run queue, when the callback has returned */
        waldo__task_queue(rt->loop, &run->ready_task);
        return;
    }
    run->in_callback = 1;
    stop_work(run);
    waldo__events_free(&run->events);
    waldo__transcript_free(&run->transcript);
    free_queued(run);
    WALDO__VEC_FREE(&run->approved);
    waldo__scrubber_free(&run->text_scrubber);
    waldo__scrubber_free(&run->reasoning_scrubber);
    waldo__buf_free(&run->answer);
    waldo__buf_free(&run->exported);
    waldo__buf_free(&run->head);
    waldo__buf_free(&run->refusal);
    waldo__buf_free(&run->key_name);
    waldo__recorder_free(run->recorder);
    waldo_error_free(run->error);
    waldo_error_free(run->interrupt_error);
    waldo_error_free(run->journal_error);
    waldo_sandbox_spec_unref(run->spec);
    waldo_model_unref(run->model);
    waldo_agent_unref(run->agent);
    waldo__free(run->id);
    waldo__free(run->label);
    waldo__free(run);
    waldo__runtime_settle(rt);
}
