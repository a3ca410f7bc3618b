/*
 * Running what the model asked for. Each call goes asking -> waiting -> ready -> dispatch ->
 * running -> ended -> done; every step that could have an effect waits for its record to be
 * durable. Results become items in call order once all are done.
 */
#include "agent/run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "json/json.h"
#include "json/schema.h"

enum { RESULT_MAX = 64 * 1024 * 1024, TEXT_MAX = 256 * 1024 };

static void pump(waldo_run *run);

static const waldo_item *call_item(const waldo__slot *slot)
{
    return waldo__transcript_item(&slot->run->transcript, slot->item);
}

static const char *slot_name(const waldo__slot *slot)
{
    return call_item(slot)->name.ptr;
}

static const char *slot_id(const waldo__slot *slot)
{
    return call_item(slot)->id.ptr;
}

static uint32_t slot_flags(const waldo__slot *slot)
{
    return slot->tool != NULL ? waldo__tool_options(slot->tool)->flags : 0;
}

/* ---- records ---- */

/* is_text: the value is no part of a call. */
static void record_call(waldo__slot *slot, const char *type, const char *key, waldo_str value,
                        int is_text)
{
    waldo__json_writer jw;
    waldo__buf json;

    waldo__record_begin(slot->run, &json, &jw, type);
    waldo__jw_int(&jw, "item", (int64_t)slot->item);
    waldo__jw_str(&jw, "call", call_item(slot)->id);
    waldo__jw_str(&jw, "tool", call_item(slot)->name);
    waldo__jw_text(&jw, "key", slot->key);
    if (key != NULL && is_text && waldo__run_is_remote(slot->run)) {
        waldo__jw_str(&jw, key, WALDO__S(""));
        waldo__remote_write_text(&jw, value);
    } else if (key != NULL) {
        waldo__jw_str(&jw, key, value);
    }
    waldo__record_end(slot->run, &json, &jw);
}

static void record_result(waldo__slot *slot)
{
    waldo__json_writer jw;
    waldo__buf json;

    waldo__record_begin(slot->run, &json, &jw, "finished");
    waldo__jw_int(&jw, "item", (int64_t)slot->item);
    waldo__jw_str(&jw, "call", call_item(slot)->id);
    waldo__jw_text(&jw, "key", slot->key);
    waldo__jw_bool(&jw, "is_error", slot->is_error);
    if (waldo__run_is_remote(slot->run)) {
        waldo__remote_write_text(&jw, waldo__buf_str(&slot->result));
        waldo__remote_write_media(&jw, slot->media.at, slot->media.count);
    } else {
        waldo__jw_str(&jw, "text", waldo__buf_str(&slot->result));
        waldo__media_write(&jw, slot->media.at, slot->media.count);
    }
    waldo__record_end(slot->run, &json, &jw);
}

/* ---- results ---- */

/* May the calls have changed the workspace? */
static int changed_machine(const waldo_run *run)
{
    int changed = 0;

    for (size_t i = 0; i < run->slots.count; i++) {
        changed |= run->slots.at[i]->call != NULL &&
                   (slot_flags(run->slots.at[i]) & (WALDO__TOOL_SANDBOX | WALDO_READ_ONLY)) ==
                       WALDO__TOOL_SANDBOX;
    }
    return changed;
}

/* The whole batch as items in call order; the calls go when these are with the store. */
static void take_results(waldo_run *run)
{
    waldo__json_writer jw;
    waldo__buf json;

    for (size_t i = 0; i < run->slots.count; i++) {
        waldo__slot *slot = run->slots.at[i];
        waldo_item item = { .kind = WALDO_ITEM_TOOL_RESULT,
                            .is_error = slot->is_error,
                            .id = call_item(slot)->id,
                            .name = call_item(slot)->name,
                            .text = waldo__buf_str(&slot->result),
                            .media = slot->media.at,
                            .media_count = slot->media.count };

        waldo__recorder_result(run->recorder, slot->item, &item);
        if (waldo__transcript_append(&run->transcript, &item, 1) != WALDO_OK) {
            run->events.lost = 1;
        }
    }
    waldo__record_begin(run, &json, &jw, "results");
    waldo__jw_int(&jw, "count", (int64_t)run->slots.count);
    waldo__record_end(run, &json, &jw);
    run->batch_over = 1;
}

static int all_in(const waldo_run *run, waldo__slot_state state)
{
    for (size_t i = 0; i < run->slots.count; i++) {
        if (run->slots.at[i]->state != state) {
            return 0;
        }
    }
    return 1;
}

/* Nothing runs or can run, and something waits for the host: then the run waits. */
static void update_state(waldo_run *run)
{
    int waiting = 0, moving = 0;

    if (!waldo__run_is_busy(run) || run->interrupted != WALDO_STOP_NONE || run->slots.count == 0) {
        return;
    }
    for (size_t i = 0; i < run->slots.count; i++) {
        waiting |= run->slots.at[i]->state == WALDO__SLOT_WAITING;
        moving |= run->slots.at[i]->state != WALDO__SLOT_WAITING &&
                  run->slots.at[i]->state != WALDO__SLOT_DONE;
    }
    waldo__run_set_state(run, waiting && !moving ? WALDO_RUN_WAITING : WALDO_RUN_TOOLS);
}

static void result_durable(waldo_run *run, void *context)
{
    waldo__slot *slot = context;

    slot->state = WALDO__SLOT_DONE;
    waldo__events_call(&run->events, WALDO_EVENT_TOOL_RESULT, slot_id(slot), slot_name(slot),
                       waldo__buf_str(&slot->result));
    waldo__run_notify(run);
    if (all_in(run, WALDO__SLOT_DONE)) {
        if (changed_machine(run)) {
            waldo__sandbox_checkpoint(run->sandbox);
        }
        take_results(run);
        waldo__run_ask(run);
        return;
    }
    pump(run);
    update_state(run);
}

/* A call has its result: free of secrets from here on. */
static void slot_end(waldo__slot *slot, waldo_str text, int is_error)
{
    waldo_run *run = slot->run;

    waldo__buf_clear(&slot->result);
    if (waldo__scrub(run->rt->secrets, text, &slot->result) == WALDO_ETOOBIG) {
        waldo__buf_free(&slot->result);
        waldo__buf_puts(&slot->result, "the result is larger than 64 MiB");
        is_error = 1;
    }
    if (slot->result.status != WALDO_OK) {
        run->events.lost = 1;
        waldo__run_commit(run, NULL, NULL); /* the run fails; the call stays as it was */
        return;
    }
    slot->is_error = is_error;
    slot->state = WALDO__SLOT_ENDED;
    record_result(slot);
    waldo__run_commit(run, result_durable, slot);
}

static void slot_fail(waldo__slot *slot, const char *format, ...) WALDO_PRINTF(2, 3);

static void slot_fail(waldo__slot *slot, const char *format, ...)
{
    waldo__buf text = WALDO__BUF_INIT(TEXT_MAX);
    va_list args;

    va_start(args, format);
    waldo__buf_vprintf(&text, format, args);
    va_end(args);
    slot->run->events.lost |= text.status == WALDO_ENOMEM;
    slot_end(slot, text.status == WALDO_OK ? waldo__buf_str(&text) : WALDO__S("call not run"), 1);
    waldo__buf_free(&text);
}

/* ---- running ---- */

static void feed_live(waldo__slot *slot, int stream, waldo_str bytes, int flush)
{
    waldo__scrubber *scrubber = &slot->live[stream == 2];
    waldo__buf clean = WALDO__BUF_INIT(RESULT_MAX);
    waldo_status status = waldo__scrubber_feed(scrubber, bytes, &clean);

    if (status == WALDO_OK && flush) {
        status = waldo__scrubber_finish(scrubber, &clean);
    }
    slot->run->events.lost |= status != WALDO_OK;
    if (clean.len > 0) {
        waldo__events_output(&slot->run->events, slot_id(slot), slot_name(slot), stream,
                             waldo__buf_str(&clean));
        waldo__run_notify(slot->run);
    }
    waldo__buf_free(&clean);
}

static void call_output(void *userdata, waldo_tool_call *call, int stream, waldo_str bytes)
{
    (void)call;
    feed_live(userdata, stream, bytes, 0);
}

static void call_ended(void *userdata, waldo_tool_call *call, waldo__call_end end,
                       waldo_status status, waldo_str text)
{
    waldo__slot *slot = userdata;
    waldo_run *run = slot->run;
    waldo_error *error = NULL;

    run->running--;
    feed_live(slot, 1, WALDO__S(""), 1);
    feed_live(slot, 2, WALDO__S(""), 1);
    if (end == WALDO__CALL_ABORT) {
        waldo_error_set(&error, status, WALDO_CLASS_TOOL, "tool %s ended the turn: %s",
                        slot_name(slot), waldo_status_text(status));
        waldo__run_interrupt(run, WALDO_STOP_FAILED, error);
        return;
    }
    if (end == WALDO__CALL_REPLY) {
        waldo__media_free(&slot->media);
        waldo__tool_call_take_media(call, &slot->media);
    }
    slot_end(slot, text, end == WALDO__CALL_FAIL);
}

static void start_slot(waldo_run *run, void *context)
{
    waldo__slot *slot = context;

    if (run->doomed) {
        return;
    }
    slot->state = WALDO__SLOT_RUNNING;
    waldo__tool_call_start(slot->call); /* last: the tool may free the run */
}

/* Calls of a tool that is not safe beside itself take turns. */
static int tool_is_busy(const waldo_run *run, const waldo__slot *slot)
{
    if ((slot_flags(slot) & WALDO_PARALLEL_SAFE) != 0) {
        return 0;
    }
    for (size_t i = 0; i < run->slots.count; i++) {
        const waldo__slot *other = run->slots.at[i];

        if (other->tool == slot->tool &&
            (other->state == WALDO__SLOT_DISPATCH || other->state == WALDO__SLOT_RUNNING)) {
            return 1;
        }
    }
    return 0;
}

/* Dispatch what there is room for, in call order. */
static void pump(waldo_run *run)
{
    unsigned generation = run->generation;

    for (size_t i = 0; i < run->slots.count && run->running < run->limits.max_parallel &&
                       generation == run->generation;
         i++) {
        waldo__slot *slot = run->slots.at[i];

        if (slot->state == WALDO__SLOT_READY && !tool_is_busy(run, slot)) {
            slot->state = WALDO__SLOT_DISPATCH;
            run->running++;
            record_call(slot, "dispatched", NULL, WALDO__S(""), 0);
            waldo__run_commit(run, start_slot, slot);
        }
    }
}

/* ---- approvals ---- */

static int was_approved(const waldo_run *run, const waldo_tool *tool)
{
    for (size_t i = 0; i < run->approved.count; i++) {
        if (run->approved.at[i] == tool) {
            return 1;
        }
    }
    return 0;
}

static int needs_approval(const waldo__slot *slot)
{
    const waldo_agent *agent = slot->run->agent;
    uint32_t flags = slot_flags(slot);

    if (agent->approve == WALDO_APPROVE_NONE || was_approved(slot->run, slot->tool)) {
        return 0;
    }
    return agent->approve == WALDO_APPROVE_ALL || (flags & WALDO_NEEDS_APPROVAL) != 0 ||
           (agent->approve == WALDO_APPROVE_CHANGES && (flags & WALDO_READ_ONLY) == 0);
}

static void approve_tool(waldo_run *run, waldo_tool *tool)
{
    waldo_tool **place = was_approved(run, tool) ? NULL : WALDO__VEC_PUSH(&run->approved);

    if (place != NULL) {
        *place = tool;
    } else if (!was_approved(run, tool)) {
        run->events.lost = 1;
    }
}

static const waldo__call_sink *make_sink(waldo__slot *slot, waldo__call_sink *sink)
{
    waldo_run *run = slot->run;

    *sink = (waldo__call_sink){ .userdata = slot,
                                .loop = run->rt->loop,
                                .http = run->rt->http,
                                .sandbox = run->sandbox,
                                .max_output = run->agent->max_output,
                                .output = call_output,
                                .ended = call_ended };
    return sink;
}

/* Put other arguments in a waiting call's place. */
static waldo_status edit_args(waldo__slot *slot, waldo_str args)
{
    waldo__call_sink sink;
    waldo_tool_call *call = NULL;
    waldo_status status = waldo__tool_call_new(slot->tool, slot_id(slot), slot->key, args,
                                               make_sink(slot, &sink), &call, NULL);

    if (status != WALDO_OK) {
        return status == WALDO_ENOMEM ? status : WALDO_EINVAL;
    }
    waldo__tool_call_cancel(slot->call);
    waldo__tool_call_release(slot->call);
    slot->call = call;
    return WALDO_OK;
}

static const char *const decision_names[] = { "later", "approve", "approve_run",
                                              "edit",  "reject",  "answer" };

/* Act on a decision; the slot may be done with afterwards. */
static waldo_status decide(waldo__slot *slot, const waldo_decision *decision)
{
    waldo_run *run = slot->run;
    waldo_status status = WALDO_OK;
    waldo_str text = decision->text;
    waldo__buf room;

    if (decision->kind == WALDO_DECIDE_EDIT) {
        status = edit_args(slot, decision->text);
        if (status != WALDO_OK) {
            return status;
        }
    }
    waldo__run_clean(run, &text, &room);
    record_call(slot, "decided", decision_names[decision->kind], text,
                decision->kind != WALDO_DECIDE_EDIT);
    waldo__buf_free(&room);
    if (decision->kind == WALDO_DECIDE_REJECT) {
        slot_fail(slot, "The host rejected this call, so it was not run.%s%.*s",
                  decision->text.len > 0 ? " Reason: " : "", (int)decision->text.len,
                  decision->text.ptr != NULL ? decision->text.ptr : "");
    } else if (decision->kind == WALDO_DECIDE_ANSWER) {
        slot_end(slot, decision->text, 0);
    } else {
        if (decision->kind == WALDO_DECIDE_APPROVE_RUN) {
            approve_tool(run, slot->tool);
        }
        slot->state = WALDO__SLOT_READY;
        pump(run);
        if (run->records.count > 0) {
            waldo__run_commit(run, NULL, NULL); /* no room to run it yet: the decision is kept */
        }
    }
    update_state(run);
    return WALDO_OK;
}

/* The request is durable: now the host may see it. */
static void approval_asked(waldo_run *run, void *context)
{
    waldo__slot *slot = context;
    waldo_decision decision = { .kind = WALDO_DECIDE_LATER };
    unsigned generation = run->generation;

    if (run->doomed) {
        return;
    }
    slot->state = WALDO__SLOT_WAITING;
    waldo__events_call(&run->events, WALDO_EVENT_APPROVAL, slot_id(slot), slot_name(slot),
                       call_item(slot)->args);
    waldo__run_notify(run);
    if (run->agent->on_approval != NULL) {
        run->in_callback++;
        decision = run->agent->on_approval(run->agent->approval_userdata, run, slot->call);
        run->in_callback--;
        if (run->doomed || generation != run->generation) {
            return; /* the host has ended the run, or what it did */
        }
    }
    if (decision.kind <= WALDO_DECIDE_LATER || decision.kind > WALDO_DECIDE_ANSWER ||
        slot->state != WALDO__SLOT_WAITING || decide(slot, &decision) != WALDO_OK) {
        update_state(run);
    }
}

waldo_status waldo_run_decide(waldo_run *run, const char *call_id, const waldo_decision *decision)
{
    if (run == NULL || call_id == NULL || decision == NULL ||
        decision->kind <= WALDO_DECIDE_LATER || decision->kind > WALDO_DECIDE_ANSWER) {
        return WALDO_EINVAL;
    }
    if (run->rt->loop != NULL && waldo__loop_forked(run->rt->loop)) {
        return WALDO_EFORKED;
    }
    if (!waldo__run_is_busy(run) || run->interrupted != WALDO_STOP_NONE) {
        return WALDO_ENOTFOUND;
    }
    for (size_t i = 0; i < run->slots.count; i++) {
        waldo__slot *slot = run->slots.at[i];

        if (slot->state == WALDO__SLOT_WAITING && strcmp(slot_id(slot), call_id) == 0) {
            return decide(slot, decision);
        }
    }
    return WALDO_ENOTFOUND;
}

/* ---- from items to calls ---- */

static waldo_tool *find_tool(const waldo__tools *tools, waldo_str name)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (waldo__str_is(name, waldo__tool_options(tools->at[i])->name)) {
            return tools->at[i];
        }
    }
    return NULL;
}

static void list_names(const waldo__tools *tools, waldo__buf *out)
{
    for (size_t i = 0; i < tools->count; i++) {
        waldo__buf_printf(out, "%s%s", out->len > 0 ? ", " : "",
                          waldo__tool_options(tools->at[i])->name);
    }
}

static void fail_unknown(waldo__slot *slot)
{
    const waldo_run *run = slot->run;
    waldo__buf names = WALDO__BUF_INIT(TEXT_MAX / 2);

    if (run->sandbox != NULL) {
        list_names(&run->agent->sandbox_tools, &names);
    }
    list_names(&run->agent->host_tools, &names);
    slot->run->events.lost |= names.status == WALDO_ENOMEM;
    slot_fail(slot, "There is no tool named %.200s. Tools: %s.", slot_name(slot),
              names.len > 0 ? names.ptr : "none");
    waldo__buf_free(&names);
}

static void fail_args(waldo__slot *slot, int cut, const waldo_error *error)
{
    waldo_str schema = waldo__tool_schema(slot->tool);
    const char *why = cut && waldo_error_status(error) == WALDO_EJSON
                          ? "The response hit the output limit before the call was complete. "
                          : "";

    slot_fail(slot, "%sThe arguments are not acceptable, so the call was not run: %s. Schema: %.*s",
              why, waldo_error_message(error), (int)schema.len, schema.ptr);
}

/* A key: the same for this logical call whenever it is tried, another for every other. */
static void make_key(waldo__slot *slot)
{
    const waldo_item *item = call_item(slot);
    waldo__buf text = WALDO__BUF_INIT(RESULT_MAX);

    waldo__buf_printf(&text, "%s\n%zu\n%s\n", slot->run->id, slot->item, item->name.ptr);
    waldo__buf_add_str(&text, item->args);
    slot->run->events.lost |= text.status != WALDO_OK;
    waldo__sha256_hex(waldo__buf_str(&text), slot->key);
    waldo__buf_free(&text);
}

static void prepare(waldo__slot *slot, int cut)
{
    waldo_run *run = slot->run;
    const waldo_item *item = call_item(slot);
    waldo_error *error = NULL;
    const waldo__recorded_result *recorded = waldo__source_result(run, slot->item);
    waldo__call_sink sink;
    waldo_status status = WALDO_OK;

    make_key(slot);
    if (recorded != NULL) {
        run->events.lost |=
            waldo__media_copy(&slot->media, recorded->media.at, recorded->media.count) != WALDO_OK;
        slot_end(slot, recorded->text, recorded->is_error);
        return;
    }
    slot->tool = run->sandbox != NULL ? find_tool(&run->agent->sandbox_tools, item->name) : NULL;
    if (slot->tool == NULL) {
        slot->tool = find_tool(&run->agent->host_tools, item->name);
    }
    if (slot->tool != NULL) {
        status = waldo__tool_call_new(slot->tool, item->id.ptr, slot->key, item->args,
                                      make_sink(slot, &sink), &slot->call, &error);
    }
    if (slot->tool == NULL) {
        fail_unknown(slot);
    } else if (status == WALDO_ENOMEM) {
        run->events.lost = 1;
        waldo__run_commit(run, NULL, NULL); /* which fails the run */
    } else if (status != WALDO_OK) {
        fail_args(slot, cut, error);
    } else if (needs_approval(slot)) {
        slot->state = WALDO__SLOT_ASKING;
        record_call(slot, "asked", NULL, WALDO__S(""), 0);
        waldo__run_commit(run, approval_asked, slot);
    } else {
        slot->state = WALDO__SLOT_READY;
    }
    waldo_error_free(error);
}

static waldo__slot *add_slot(waldo_run *run, size_t item)
{
    waldo__slot *slot = WALDO__NEW(waldo__slot);
    waldo__slot **place = slot != NULL ? WALDO__VEC_PUSH(&run->slots) : NULL;

    if (place == NULL) {
        waldo__free(slot);
        return NULL;
    }
    *place = slot;
    slot->run = run;
    slot->item = item;
    slot->state = WALDO__SLOT_READY;
    waldo__buf_init(&slot->result, RESULT_MAX);
    waldo__scrubber_init(&slot->live[0], run->rt->secrets);
    waldo__scrubber_init(&slot->live[1], run->rt->secrets);
    return slot;
}

static waldo_status add_slots(waldo_run *run, size_t from)
{
    for (size_t i = from; i < run->transcript.count; i++) {
        const waldo_item *item = waldo__transcript_item(&run->transcript, i);

        if (item->kind != WALDO_ITEM_TOOL_CALL) {
            continue;
        }
        if (add_slot(run, i) == NULL) {
            return WALDO_ENOMEM;
        }
        waldo__events_call(&run->events, WALDO_EVENT_TOOL_CALL, item->id.ptr, item->name.ptr,
                           item->args);
    }
    return WALDO_OK;
}

void waldo__run_call_tools(waldo_run *run, size_t from, int cut)
{
    unsigned generation = run->generation;
    waldo_error *error = NULL;

    waldo__run_set_state(run, WALDO_RUN_TOOLS);
    if (add_slots(run, from) != WALDO_OK) {
        waldo__error_nomem(&error);
        waldo__run_interrupt(run, WALDO_STOP_FAILED, error);
        return;
    }
    if (run->slots.count > run->limits.max_tool_calls - run->calls_made) {
        waldo_error_set(&error, WALDO_ELIMIT, WALDO_CLASS_USAGE,
                        "limit reached: %u tool calls for one prompt (max_tool_calls)",
                        run->limits.max_tool_calls);
        waldo__run_interrupt(run, WALDO_STOP_LIMIT, error);
        return;
    }
    run->calls_made += (uint32_t)run->slots.count;
    for (size_t i = 0; i < run->slots.count && generation == run->generation; i++) {
        prepare(run->slots.at[i], cut);
    }
    if (generation == run->generation && run->state != WALDO_RUN_IDLE) {
        pump(run);
        waldo__run_notify(run);
    }
}

void waldo__run_skip_calls(waldo_run *run, size_t from, waldo_stop stop, waldo_error *error)
{
    if (add_slots(run, from) != WALDO_OK) {
        run->events.lost = 1;
    }
    waldo__run_interrupt(run, stop, error);
}

/* ---- the end ---- */

static void settle(waldo__slot *slot, const char *text)
{
    int started = slot->state == WALDO__SLOT_RUNNING;

    if (slot->call != NULL) {
        waldo__tool_call_cancel(slot->call);
    }
    if (slot->state == WALDO__SLOT_ENDED || slot->state == WALDO__SLOT_DONE) {
        if (slot->unrecorded && slot->state == WALDO__SLOT_ENDED) {
            record_result(slot);
        }
        return;
    }
    waldo__buf_clear(&slot->result);
    waldo__buf_printf(&slot->result, "%s %s", text,
                      started ? "The call had begun and may have had effects."
                              : "The call was not run.");
    slot->run->events.lost |= slot->result.status != WALDO_OK;
    slot->is_error = 1;
    record_result(slot);
}

/* Calls of a response that was not acted upon any more, or for which memory was out. */
static void add_missing_slots(waldo_run *run)
{
    size_t first = waldo__run_response_start(run);

    if (run->slots.count > 0) {
        first = run->slots.at[run->slots.count - 1]->item + 1;
    }
    for (size_t i = first; i < run->transcript.count; i++) {
        if (waldo__transcript_item(&run->transcript, i)->kind != WALDO_ITEM_TOOL_CALL) {
            continue;
        }
        if (add_slot(run, i) == NULL) {
            run->events.lost = 1;
            return;
        }
        make_key(run->slots.at[run->slots.count - 1]);
    }
}

void waldo__run_settle_calls(waldo_run *run, const char *text)
{
    add_missing_slots(run);
    if (run->slots.count == 0) {
        return;
    }
    for (size_t i = 0; i < run->slots.count; i++) {
        settle(run->slots.at[i], text);
    }
    take_results(run);
}

void waldo__run_stop_calls(waldo_run *run)
{
    run->in_callback++; /* tools hear of the end, and may free the run then */
    for (size_t i = 0; i < run->slots.count; i++) {
        waldo_tool_call *call = run->slots.at[i]->call;

        run->slots.at[i]->call = NULL;
        if (call != NULL) {
            waldo__tool_call_cancel(call);
            waldo__tool_call_release(call);
        }
    }
    run->in_callback--;
    run->running = 0;
}

void waldo__run_free_calls(waldo_run *run)
{
    waldo__run_stop_calls(run);
    for (size_t i = 0; i < run->slots.count; i++) {
        waldo__slot *slot = run->slots.at[i];

        waldo__buf_free(&slot->result);
        waldo__media_free(&slot->media);
        waldo__scrubber_free(&slot->live[0]);
        waldo__scrubber_free(&slot->live[1]);
        waldo__free(slot);
    }
    WALDO__VEC_FREE(&run->slots);
}
