#include "agent/events.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "json/json.h"

enum {
    QUEUE_BYTES = 256 * 1024,
    QUEUE_COUNT = 1024,
    OUTPUT_BYTES = 64 * 1024,
    TEXT_MAX = 64 * 1024 * 1024,
    JSON_MAX = 512 * 1024 * 1024
};

static const char *const kind_names[] = {
    [WALDO_EVENT_TEXT] = "text",         [WALDO_EVENT_REASONING] = "reasoning",
    [WALDO_EVENT_ITEM] = "item",         [WALDO_EVENT_TOOL_CALL] = "tool_call",
    [WALDO_EVENT_OUTPUT] = "output",     [WALDO_EVENT_TOOL_RESULT] = "tool_result",
    [WALDO_EVENT_APPROVAL] = "approval", [WALDO_EVENT_USAGE] = "usage",
    [WALDO_EVENT_SANDBOX] = "sandbox",   [WALDO_EVENT_RETRY] = "retry",
    [WALDO_EVENT_EPOCH] = "epoch",       [WALDO_EVENT_WARNING] = "warning",
    [WALDO_EVENT_STATE] = "state",
};

static const char *const state_names[] = { "?", "idle", "model", "tools", "waiting", "closed" };

const char *waldo_event_kind_name(waldo_event_kind kind)
{
    return kind >= WALDO_EVENT_TEXT && kind <= WALDO_EVENT_STATE ? kind_names[kind] : "?";
}

/* ---- the queue ---- */

static void event_free(waldo_event *event)
{
    if (event != NULL) {
        waldo__buf_free(&event->text);
        waldo__buf_free(&event->json);
        waldo__free(event->call_id);
        waldo__free(event->tool);
        waldo__free(event);
    }
}

static waldo_event *take_head(waldo__events *events)
{
    waldo_event *event = events->head;

    if (event != NULL) {
        events->head = event->next;
        events->tail = event->next != NULL ? events->tail : NULL;
        events->count--;
        events->bytes -= event->text.len;
        if (event->kind == WALDO_EVENT_OUTPUT) {
            events->output_bytes -= event->text.len;
        }
    }
    return event;
}

void waldo__events_free(waldo__events *events)
{
    while (events->head != NULL) {
        event_free(take_head(events));
    }
    event_free(events->pulled);
    events->pulled = NULL;
}

int waldo__events_full(const waldo__events *events)
{
    return events->count >= QUEUE_COUNT || events->bytes >= QUEUE_BYTES;
}

/* Nobody has pulled so far: what happened longest ago makes room. */
static void make_room(waldo__events *events)
{
    while (!events->observed && waldo__events_full(events)) {
        event_free(take_head(events));
    }
}

waldo_event *waldo__events_push(waldo__events *events, waldo_event_kind kind)
{
    waldo_event *event = WALDO__NEW(waldo_event);

    if (event == NULL) {
        events->lost = 1;
        return NULL;
    }
    make_room(events);
    event->kind = kind;
    event->text.max = TEXT_MAX;
    event->json.max = JSON_MAX;
    if (events->tail != NULL) {
        events->tail->next = event;
    } else {
        events->head = event;
    }
    events->tail = event;
    events->count++;
    return event;
}

static void add_text(waldo__events *events, waldo_event *event, waldo_str text)
{
    if (waldo__buf_add_str(&event->text, text) == WALDO_OK) {
        events->bytes += text.len;
    } else {
        events->lost = 1;
    }
}

void waldo__events_text(waldo__events *events, waldo_event_kind kind, waldo_str text)
{
    waldo__events_call(events, kind, NULL, NULL, text);
}

static char *copy_or_lose(waldo__events *events, const char *text)
{
    char *copy = waldo__strdup(text);

    events->lost |= text != NULL && copy == NULL;
    return copy;
}

void waldo__events_call(waldo__events *events, waldo_event_kind kind, const char *call_id,
                        const char *tool, waldo_str text)
{
    waldo_event *event = waldo__events_push(events, kind);

    if (event != NULL) {
        event->call_id = copy_or_lose(events, call_id);
        event->tool = copy_or_lose(events, tool);
        add_text(events, event, text);
    }
}

void waldo__events_delta(waldo__events *events, waldo_event_kind kind, waldo_str text)
{
    waldo_event *tail = events->tail;

    if (text.len == 0) {
        return;
    }
    if (tail == NULL || tail->kind != kind ||
        (!events->observed && tail->text.len >= QUEUE_BYTES / 4)) {
        tail = waldo__events_push(events, kind);
    }
    if (tail != NULL) {
        add_text(events, tail, text);
    }
}

/* Say once how much live output found no room; the tool's result is not touched by that. */
static void tell_skipped(waldo__events *events)
{
    waldo_event *event;

    if (events->skipped == 0) {
        return;
    }
    event = waldo__events_push(events, WALDO_EVENT_WARNING);
    if (event != NULL) {
        size_t before = event->text.len;

        waldo__buf_printf(&event->text,
                          "%" PRIu64 " bytes of live output are not shown: events were not pulled "
                          "in time",
                          events->skipped);
        events->bytes += event->text.len - before;
    }
    events->skipped = 0;
}

void waldo__events_output(waldo__events *events, const char *call_id, const char *tool, int stream,
                          waldo_str bytes)
{
    waldo_event *tail = events->tail;

    if (bytes.len == 0) {
        return;
    }
    if (events->output_bytes + bytes.len > OUTPUT_BYTES) {
        events->skipped += bytes.len;
        return;
    }
    tell_skipped(events);
    if (tail == NULL || tail != events->tail || tail->kind != WALDO_EVENT_OUTPUT ||
        tail->stream != stream || tail->call_id == NULL || strcmp(tail->call_id, call_id) != 0) {
        tail = waldo__events_push(events, WALDO_EVENT_OUTPUT);
        if (tail == NULL) {
            return;
        }
        tail->stream = stream;
        tail->call_id = copy_or_lose(events, call_id);
        tail->tool = copy_or_lose(events, tool);
    }
    add_text(events, tail, bytes);
    events->output_bytes += bytes.len;
}

const waldo_event *waldo__events_pull(waldo__events *events)
{
    event_free(events->pulled);
    events->pulled = NULL;
    if (events->head == NULL) {
        tell_skipped(events);
    }
    events->pulled = take_head(events);
    return events->pulled;
}

/* ---- reading ---- */

waldo_event_kind waldo_event_type(const waldo_event *event)
{
    return event != NULL ? event->kind : 0;
}

waldo_str waldo_event_text(const waldo_event *event)
{
    return event != NULL ? waldo__buf_str(&event->text) : WALDO__S("");
}

const char *waldo_event_call_id(const waldo_event *event)
{
    return event != NULL && event->call_id != NULL ? event->call_id : "";
}

const char *waldo_event_tool(const waldo_event *event)
{
    return event != NULL && event->tool != NULL ? event->tool : "";
}

int waldo_event_stream(const waldo_event *event)
{
    return event != NULL ? event->stream : 0;
}

const waldo_usage *waldo_event_usage(const waldo_event *event)
{
    return event != NULL && event->kind == WALDO_EVENT_USAGE ? &event->usage : NULL;
}

int32_t waldo_event_state(const waldo_event *event)
{
    return event != NULL && event->kind == WALDO_EVENT_STATE ? event->state : 0;
}

static void write_count(waldo__json_writer *jw, const char *key, int64_t value)
{
    if (value >= 0) {
        waldo__jw_int(jw, key, value);
    } else {
        waldo__jw_null(jw, key);
    }
}

static void write_usage(waldo__json_writer *jw, const waldo_usage *usage)
{
    write_count(jw, "input_tokens", usage->input_tokens);
    write_count(jw, "output_tokens", usage->output_tokens);
    write_count(jw, "cached_tokens", usage->cached_tokens);
    write_count(jw, "cache_write_tokens", usage->cache_write_tokens);
    write_count(jw, "reasoning_tokens", usage->reasoning_tokens);
    write_count(jw, "cost", usage->cost);
    waldo__jw_bool(jw, "incomplete", usage->incomplete);
}

static void write_event(const waldo_event *event, waldo__buf *out)
{
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_text(&jw, "type", waldo_event_kind_name(event->kind));
    if (event->call_id != NULL) {
        waldo__jw_text(&jw, "call_id", event->call_id);
    }
    if (event->tool != NULL) {
        waldo__jw_text(&jw, "tool", event->tool);
    }
    if (event->kind == WALDO_EVENT_OUTPUT) {
        waldo__jw_int(&jw, "stream", event->stream);
    }
    if (event->kind == WALDO_EVENT_USAGE) {
        write_usage(&jw, &event->usage);
    } else if (event->kind == WALDO_EVENT_STATE) {
        waldo__jw_text(&jw, "state", state_names[event->state]);
    } else if (event->kind == WALDO_EVENT_ITEM) {
        waldo_str item = waldo__transcript_json(event->items, event->item);

        if (item.len == 0) {
            out->status = WALDO_ENOMEM;
        }
        waldo__jw_int(&jw, "index", (int64_t)event->item);
        waldo__jw_raw(&jw, "item", item);
    } else {
        waldo__jw_str(&jw, "text", waldo__buf_str(&event->text));
    }
    waldo__jw_end(&jw, '}');
}

waldo_str waldo_event_json(const waldo_event *event)
{
    waldo_event *lent = (waldo_event *)event; /* a cache, not a change */

    if (event == NULL) {
        return WALDO__S("{}");
    }
    if (lent->json.len == 0) {
        write_event(event, &lent->json);
    }
    if (lent->json.status != WALDO_OK) {
        waldo__buf_free(&lent->json); /* to be tried again; never half of it */
    }
    return waldo__buf_str(&lent->json);
}
