/*
 * Asking the model: one request a turn, its stream read while it comes, tried again where that
 * helps. Deltas are provisional; the items of a response count once it has ended with its terminal
 * event.
 */
#include "agent/run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "base/rand.h"
#include "http/retry.h"
#include "json/json.h"

enum {
    HEAD_MAX = 64 * 1024,
    REFUSAL_MAX = 64 * 1024,
    ANSWER_MAX = 64 * 1024 * 1024,
    DEFAULT_RETRIES = 2,
    HTTP_UNAUTHORIZED = 401
};

static void send_request(waldo_run *run);

/* ---- the key ---- */

/*
 * Put the key into the slab and its name there into run->key_name; no name: none is needed or there
 * is none, and the server will say so if it minds. A run's own source gets a slab name by value, so
 * that two runs may use two keys of one name.
 */
static waldo_status fetch_key(waldo_run *run, int renew, waldo_error **ret_err)
{
    const char *name = waldo__model_key_name(run->model);
    const waldo_keys *source = run->keys.get != NULL ? &run->keys : &run->rt->keys;
    char hash[65];
    waldo_str value;
    int64_t expires_at = 0;
    waldo_status status;

    waldo__buf_clear(&run->key_name);
    if (name == NULL || source->get == NULL || waldo__source_offline(run)) {
        return WALDO_OK;
    }
    if (source == &run->rt->keys) {
        status = waldo__secrets_fetch(run->rt->secrets, source, name, renew, NULL);
        if (status == WALDO_OK) {
            status = waldo__buf_puts(&run->key_name, name);
        }
        return status == WALDO_ENOMEM ? waldo__error_nomem(ret_err) : WALDO_OK;
    }
    status = source->get(source->userdata, name, &value, &expires_at);
    if (status != WALDO_OK) {
        return WALDO_OK;
    }
    waldo__sha256_hex(value, hash);
    status = waldo__buf_printf(&run->key_name, "%s#%.8s", name, hash);
    if (status == WALDO_OK) {
        status = waldo__secrets_put(run->rt->secrets, run->key_name.ptr, value, expires_at);
    }
    return status == WALDO_OK
               ? status
               : waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "key %s could not be kept: %s",
                                 name, waldo_status_text(status));
}

/* ---- the stream ---- */

static void scrub_delta(waldo_run *run, waldo__scrubber *scrubber, waldo_event_kind kind,
                        waldo_str text)
{
    waldo__buf_clear(&run->delta);
    run->events.lost |= waldo__scrubber_feed(scrubber, text, &run->delta) != WALDO_OK;
    waldo__events_delta(&run->events, kind, waldo__buf_str(&run->delta));
}

static void flush_scrubber(waldo_run *run, waldo__scrubber *scrubber, waldo_event_kind kind)
{
    waldo__buf_clear(&run->delta);
    run->events.lost |= waldo__scrubber_finish(scrubber, &run->delta) != WALDO_OK;
    waldo__events_delta(&run->events, kind, waldo__buf_str(&run->delta));
}

static waldo_status on_delta(void *userdata, waldo_delta_kind kind, waldo_str text)
{
    waldo_run *run = userdata;
    waldo__buf room;

    if (kind == WALDO_DELTA_TEXT) {
        scrub_delta(run, &run->text_scrubber, WALDO_EVENT_TEXT, text);
    } else if (kind == WALDO_DELTA_REASONING) {
        scrub_delta(run, &run->reasoning_scrubber, WALDO_EVENT_REASONING, text);
    } else if (kind == WALDO_DELTA_WARNING) {
        waldo__run_clean(run, &text, &room);
        waldo__events_text(&run->events, WALDO_EVENT_WARNING, text);
        waldo__buf_free(&room);
    }
    return WALDO_OK;
}

static int is_success(int http_status)
{
    return http_status >= 200 && http_status < 300;
}

/* A reader for the answer to what the encoder asked; none when memory was out. */
static void begin_reading(waldo_run *run, waldo_str type)
{
    const waldo_model_ops *ops = waldo__model_ops(run->model);
    waldo_status status = ops->new_reader(waldo__model_options(run->model), type, &run->reader);

    if (status == WALDO_OK && ops->expect != NULL) {
        status = ops->expect(run->reader, run->encoder);
        if (status != WALDO_OK) {
            ops->free_reader(run->reader);
        }
    }
    if (status != WALDO_OK) {
        run->reader = NULL;
        waldo__error_nomem(&run->read_error);
    }
}

void waldo__turn_head(waldo_run *run, const waldo__http_head *head)
{
    waldo_str type = WALDO__S("");

    run->http_status = head->status;
    waldo__buf_clear(&run->head);
    waldo__buf_add_str(&run->head, head->headers);
    if (is_success(head->status)) {
        waldo__header_get(head->headers, "content-type", &type);
        begin_reading(run, type);
    } else if (run->head.status == WALDO_ENOMEM) {
        waldo__error_nomem(&run->read_error);
    }
}

/* Of a refusal only the beginning is kept: it is read by people. */
static void keep_refusal(waldo_run *run, waldo_str bytes)
{
    size_t room = run->refusal.max - run->refusal.len;

    if (waldo__buf_add(&run->refusal, bytes.ptr, bytes.len < room ? bytes.len : room) ==
        WALDO_ENOMEM) {
        waldo__error_nomem(&run->read_error);
    }
}

waldo_status waldo__turn_body(waldo_run *run, waldo_str bytes)
{
    waldo_status status;

    if (!is_success(run->http_status)) {
        keep_refusal(run, bytes);
        return WALDO_OK;
    }
    if (run->reader == NULL) {
        return WALDO_ENOMEM;
    }
    status =
        waldo__model_ops(run->model)->feed(run->reader, bytes, on_delta, run, &run->read_error);
    if (run->events.observed && waldo__events_full(&run->events) && !run->paused) {
        run->paused = 1;
        waldo__source_pause(run, 1);
    }
    waldo__run_notify(run);
    return status;
}

void waldo__run_resume_reading(waldo_run *run)
{
    if (run->paused && waldo__source_open(run)) {
        run->paused = 0;
        waldo__source_pause(run, 0);
    }
}

/* ---- the response ---- */

/* Each part is clean, but a value may be cut over two of them. */
static void clean_answer(waldo_run *run)
{
    waldo_str text = waldo__buf_str(&run->answer);
    waldo__buf room;

    waldo__run_clean(run, &text, &room);
    if (room.len > 0) {
        waldo__buf_clear(&run->answer);
        waldo__buf_add_str(&run->answer, text);
    }
    waldo__buf_free(&room);
}

/* Items come in without secrets; verbatim provider JSON that holds one is dropped. */
static waldo_status add_response_items(waldo_run *run, const waldo_response *response)
{
    waldo_status status = WALDO_OK;
    size_t calls = 0;

    waldo__recorder_calls(run->recorder, response);
    waldo__buf_clear(&run->answer);
    for (size_t i = 0; i < response->item_count && status == WALDO_OK; i++) {
        waldo_item item = response->items[i];
        waldo_str *words[] = { &item.text, &item.args, &item.name, &item.id, &item.response };
        waldo__buf room[WALDO__COUNT(words)];

        if (item.kind == WALDO_ITEM_TOOL_CALL) {
            waldo__source_name_call(run, &calls, &item.id);
        }
        for (size_t k = 0; k < WALDO__COUNT(words); k++) {
            waldo__run_clean(run, words[k], &room[k]);
        }
        if (waldo__secrets_found(run->rt->secrets, item.raw) || waldo__source_left_out(run, i)) {
            item.raw = WALDO__S("");
        }
        if (item.kind == WALDO_ITEM_ASSISTANT && i >= response->answer_from) {
            waldo__buf_add_str(&run->answer, item.text);
        }
        status = waldo__run_add_items(run, &item, 1);
        for (size_t k = 0; k < WALDO__COUNT(words); k++) {
            waldo__buf_free(&room[k]);
        }
    }
    clean_answer(run);
    return status == WALDO_OK ? run->answer.status : status;
}

static int has_calls(const waldo_run *run, size_t from)
{
    for (size_t i = from; i < run->transcript.count; i++) {
        if (waldo__transcript_item(&run->transcript, i)->kind == WALDO_ITEM_TOOL_CALL) {
            return 1;
        }
    }
    return 0;
}

/* Finishes that end the turn even when calls stand in the response. */
static const struct {
    waldo_finish finish;
    waldo_stop stop;
    waldo_status status;
    const char *text;
} dead_ends[] = {
    { WALDO_FINISH_FILTER, WALDO_STOP_FAILED, WALDO_EFILTER,
      "the provider's content filter stopped the answer" },
    { WALDO_FINISH_REFUSAL, WALDO_STOP_REFUSED, WALDO_EREFUSED, "the model refused to answer" },
};

/* 1 when the finish was one of them, and the turn has ended. */
static int end_dead(waldo_run *run, size_t from, waldo_finish finish)
{
    for (size_t i = 0; i < WALDO__COUNT(dead_ends); i++) {
        waldo_error *error = NULL;

        if (dead_ends[i].finish != finish) {
            continue;
        }
        waldo_error_set(&error, dead_ends[i].status, WALDO_CLASS_PROVIDER, "%s", dead_ends[i].text);
        if (has_calls(run, from)) {
            waldo__run_skip_calls(run, from, dead_ends[i].stop, error);
        } else {
            waldo__run_rest(run, dead_ends[i].stop, error);
        }
        return 1;
    }
    return 0;
}

/* What to do once a response is durable; the context is its finish. */
static void after_response(waldo_run *run, void *context)
{
    waldo_finish finish = (waldo_finish)(intptr_t)context;
    waldo_error *error = NULL;
    size_t from = waldo__run_response_start(run);

    if (end_dead(run, from, finish)) {
        return;
    }
    if (has_calls(run, from)) {
        waldo__run_call_tools(run, from, finish == WALDO_FINISH_LENGTH);
    } else if (finish == WALDO_FINISH_LENGTH) {
        waldo_error_set(&error, WALDO_ELIMIT, WALDO_CLASS_PROVIDER,
                        "the answer was cut at the model's output limit: raise max_output_tokens");
        waldo__run_rest(run, WALDO_STOP_LIMIT, error);
    } else if (run->queued.count > 0 || finish == WALDO_FINISH_PAUSE) {
        waldo__run_ask(run);
    } else {
        waldo__run_take_answer(run);
    }
}

static void free_reader(waldo_run *run)
{
    if (run->reader != NULL) {
        waldo__model_ops(run->model)->free_reader(run->reader);
        run->reader = NULL;
    }
}

static void take_response(waldo_run *run, const waldo_response *response)
{
    waldo_status status;

    flush_scrubber(run, &run->reasoning_scrubber, WALDO_EVENT_REASONING);
    flush_scrubber(run, &run->text_scrubber, WALDO_EVENT_TEXT);
    waldo__buf_free(&run->delta);
    status = add_response_items(run, response);
    waldo__run_record_usage(run, &response->usage);
    if (status != WALDO_OK) {
        run->events.lost = 1; /* the commit turns it into the run's failure */
        waldo__run_loses_track(run, NULL);
    }
    waldo__run_commit(run, after_response, (void *)(intptr_t)response->finish);
    free_reader(run);
}

/* ---- trying again ---- */

/* What the try before it has used, as far as it is known, counts by now. */
static void retry_now(void *userdata)
{
    waldo_run *run = userdata;
    waldo_error *limit = NULL;

    if (waldo__run_budget_is_used(run, &limit)) {
        waldo__run_interrupt(run, waldo__stop_for(limit), limit);
    } else {
        send_request(run);
    }
}

static int64_t retry_delay_ms(waldo_run *run, const waldo_error *error)
{
    const waldo_model_options *options = waldo__model_options(run->model);
    uint32_t retries = options->max_retries != 0 ? options->max_retries : DEFAULT_RETRIES;
    /* Asking twice runs nothing twice: calls are made when an answer is whole. */
    const waldo__retry policy = { .max_retries = options->no_retries ? 0 : retries,
                                  .retry_unknown = 1 };
    uint32_t random;
    int64_t delay_ms;

    waldo__random(&random, sizeof random);
    delay_ms = waldo__retry_delay_ms(&policy, run->attempt, error, random);
    return delay_ms > 0 && waldo__source_offline(run) ? 0 : delay_ms;
}

static void tell_retry(waldo_run *run, const waldo_error *error, int64_t delay_ms)
{
    waldo__buf text = WALDO__BUF_INIT(HEAD_MAX);

    waldo__buf_printf(&text, "%s; try %u in %lld ms; what was shown of the answer so far is void",
                      waldo_error_message(error), run->attempt + 1, (long long)delay_ms);
    run->events.lost |= text.status != WALDO_OK;
    waldo__events_text(&run->events, WALDO_EVENT_RETRY, waldo__buf_str(&text));
    waldo__buf_free(&text);
    waldo__run_notify(run);
}

static void encode_and_send(waldo_run *run, void *context)
{
    waldo_error *error = NULL;

    (void)context;
    if (waldo__run_encode(run, &error) != WALDO_OK) {
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
        return;
    }
    send_request(run);
}

/* The same request once more, in an epoch that has begun. error is taken. */
static void send_anew(waldo_run *run, waldo_error *error)
{
    waldo_error *limit = NULL;

    tell_retry(run, error, 0);
    waldo_error_free(error);
    if (waldo__run_budget_is_used(run, &limit)) {
        waldo__run_interrupt(run, waldo__stop_for(limit), limit);
        return;
    }
    waldo__run_commit(run, encode_and_send, NULL);
}

/* A request failed: renew the key once, try again, or come to rest. error is taken. */
static void request_failed(waldo_run *run, waldo_error *error)
{
    int64_t delay_ms;

    waldo__run_record_cut(run, waldo_error_status(error));
    free_reader(run);
    waldo__run_clean_error(run, &error); /* the provider's words may hold what we sent */
    if (waldo__run_loses_track(run, &error)) {
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
        return;
    }
    if (run->http_status == HTTP_UNAUTHORIZED && !run->key_renewed && run->key_name.len > 0) {
        run->key_renewed = 1;
        if (fetch_key(run, 1, NULL) == WALDO_OK && run->key_name.len > 0) {
            tell_retry(run, error, 0);
            waldo_error_free(error);
            send_request(run);
            return;
        }
    }
    if (waldo__run_recover(run, &error)) {
        send_anew(run, error);
        return;
    }
    delay_ms = retry_delay_ms(run, error);
    if (delay_ms < 0 && waldo__run_fall_back(run, &error)) {
        send_anew(run, error);
        return;
    }
    if (delay_ms < 0) {
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
        return;
    }
    tell_retry(run, error, delay_ms);
    waldo__error_clear(&error);
    if (run->records.count > 0) {
        waldo__run_commit(run, NULL, NULL); /* what the try has used */
    }
    if (run->state != WALDO_RUN_MODEL) {
        return;
    }
    if (waldo__timer_arm(run->rt->loop, &run->retry_timer, waldo__deadline_ns(delay_ms)) !=
        WALDO_OK) {
        waldo__error_nomem(&error);
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
    }
}

void waldo__turn_done(waldo_run *run, waldo_status status, const waldo_error *transport)
{
    const waldo_model_ops *ops = waldo__model_ops(run->model);
    waldo_response response = { .size = sizeof response };
    waldo_error *error = run->read_error;

    run->read_error = NULL;
    if (error == NULL && run->reader != NULL &&
        (status == WALDO_OK || ops->complete(run->reader))) {
        /* Whole: what happened to the connection afterwards does not matter. */
        if (ops->finish(run->reader, &response, &error) == WALDO_OK) {
            take_response(run, &response);
            return;
        }
    } else if (error == NULL && status == WALDO_OK && run->http_status != 0) {
        ops->classify(waldo__model_options(run->model), run->http_status,
                      waldo__buf_str(&run->head), waldo__buf_str(&run->refusal), &error);
    } else if (error == NULL) {
        error = waldo_error_copy(transport);
    }
    if (error == NULL) {
        waldo_error_set(&error, status < 0 ? status : WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                        "the model's answer could not be read");
    }
    request_failed(run, error);
}

/* ---- asking ---- */

/* The model must or must not use tools only in the first request after a prompt. */
static waldo_model_turn turn_options(const waldo_run *run)
{
    waldo_model_turn turn = { .size = sizeof turn, .tool_choice = WALDO_TOOL_CHOICE_AUTO };

    if (run->turns == 1) {
        turn.tool_choice = run->agent->tool_choice;
        turn.tool_choice_name = waldo__str(run->agent->tool_choice_name);
    }
    return turn;
}

static void reset_reading(waldo_run *run)
{
    run->http_status = 0;
    run->paused = 0;
    waldo__buf_clear(&run->head);
    waldo__buf_clear(&run->refusal);
    waldo__scrubber_free(&run->text_scrubber);
    waldo__scrubber_free(&run->reasoning_scrubber);
    waldo__scrubber_init(&run->text_scrubber, run->rt->secrets);
    waldo__scrubber_init(&run->reasoning_scrubber, run->rt->secrets);
}

static void send_request(waldo_run *run)
{
    waldo_model_turn turn = turn_options(run);
    waldo_model_request request = { .size = sizeof request };
    waldo_error *error = NULL;
    waldo_status status = fetch_key(run, 0, &error);

    run->attempt++;
    reset_reading(run);
    if (status == WALDO_OK) {
        status = waldo__model_ops(run->model)->request(run->encoder, &turn, &request, &error);
    }
    if (status == WALDO_OK) {
        status = waldo__source_start(run, &request, &error);
    }
    if (status != WALDO_OK) {
        if (error == NULL) {
            waldo_error_set(&error, status, WALDO_CLASS_USAGE, "the request could not be built");
        }
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
    }
}

/* Everything the request is built from is durable. */
static void build_and_send(waldo_run *run, void *context)
{
    run->attempt = 0;
    run->key_renewed = 0;
    run->repaired = run->shortened = 0;
    run->turns++;
    encode_and_send(run, context);
}

static waldo_status take_queued(waldo_run *run)
{
    waldo_status status = WALDO_OK;

    for (; run->taken < run->queued.count && status == WALDO_OK; run->taken++) {
        const waldo__queued *said = &run->queued.at[run->taken];

        status = waldo__run_add_items(run,
                                      &(waldo_item){ .kind = WALDO_ITEM_USER,
                                                     .text = waldo__str(said->text),
                                                     .media = said->media.at,
                                                     .media_count = said->media.count },
                                      1);
    }
    return status;
}

void waldo__run_ask(waldo_run *run)
{
    waldo_error *error = NULL;

    waldo__run_set_state(run, WALDO_RUN_MODEL);
    if (waldo__run_has_lost_track(run, &error)) {
        waldo__run_interrupt(run, WALDO_STOP_FAILED, error);
        return;
    }
    if (waldo__run_awaits_machine(run)) {
        return;
    }
    if (waldo__run_take_notices(run) != WALDO_OK || take_queued(run) != WALDO_OK) {
        run->events.lost = 1;
    }
    if (waldo__run_limit_reached(run, &error)) {
        waldo__run_interrupt(
            run, waldo_error_status(error) == WALDO_ELIMIT ? WALDO_STOP_LIMIT : WALDO_STOP_FAILED,
            error);
        return;
    }
    if (run->thoughtless && run->turns == 0) {
        waldo__run_free_epoch(run);
        run->thoughtless = 0;
        run->epoch_why = "a new prompt: reasoning is asked for again";
    }
    if (run->encoder == NULL) {
        const char *why = run->epoch_why != NULL ? run->epoch_why : "first request";

        if (waldo__run_begin_epoch(run, why, &error) != WALDO_OK) {
            waldo__run_interrupt(run, WALDO_STOP_FAILED, error);
            return;
        }
        run->epoch_why = NULL;
    }
    waldo__run_commit(run, build_and_send, NULL);
}

void waldo__run_drop_request(waldo_run *run)
{
    waldo__timer_disarm(run->rt->loop, &run->retry_timer);
    if (waldo__source_open(run)) {
        waldo__source_drop(run);
        waldo__run_record_cut(run, WALDO_ECANCELED);
        waldo__run_loses_track(run, NULL);
    }
    waldo__error_clear(&run->read_error);
    free_reader(run);
    waldo__buf_free(&run->delta);
    waldo__buf_free(&run->head);
    waldo__buf_free(&run->refusal);
}

void waldo__turn_init(waldo_run *run)
{
    waldo__source_init(run);
    waldo__timer_init(&run->retry_timer, retry_now, run);
    waldo__buf_init_wiped(&run->head, HEAD_MAX);
    waldo__buf_init_wiped(&run->refusal, REFUSAL_MAX);
    waldo__buf_init(&run->answer, ANSWER_MAX);
    waldo__buf_init(&run->delta, ANSWER_MAX);
    waldo__buf_init(&run->key_name, HEAD_MAX);
    run->usage = run->new_usage = waldo__no_usage;
    run->context_tokens = -1;
}
