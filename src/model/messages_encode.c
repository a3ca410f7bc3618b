/*
 * Builds Messages requests. The body only grows: behind a frozen head come the messages, whose
 * roles alternate; the last one stays open, since the next block may belong into it. A request
 * closes it and adds what may differ from turn to turn.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "model/history.h"
#include "model/messages.h"
#include <waldo/agent.h>

enum { CALL_ID_MAX = 64 };

typedef enum open_role { ROLE_NONE, ROLE_USER, ROLE_ASSISTANT } open_role;

struct waldo_encoder {
    waldo__messages_quirks quirks;
    waldo__buf body;
    size_t frozen; /* bytes of body that are not the end of one request */
    int has_tools;
    int parallel;
    int has_budget;
    open_role role; /* of the message that is open */
    waldo__history history;
    waldo__buf vendor;
    waldo__buf headers;
};

/* What append() works on; the encoder gets it when all went well. */
typedef struct work {
    waldo_encoder *encoder;
    waldo__buf *body;
    waldo__history history;
    open_role role;
} work;

/* ---- blocks ---- */

/* A conversation begins with the user, whatever was left of it. */
static void begin_block(work *w, open_role role)
{
    static const char *const begins[] = { [ROLE_USER] = "{\"role\":\"user\",\"content\":[",
                                          [ROLE_ASSISTANT] =
                                              "{\"role\":\"assistant\",\"content\":[" };

    if (w->role == role) {
        waldo__buf_puts(w->body, ",");
        return;
    }
    if (w->role != ROLE_NONE) {
        waldo__buf_puts(w->body, "]},");
    } else if (role == ROLE_ASSISTANT) {
        waldo__buf_puts(w->body, begins[ROLE_USER]);
        waldo__buf_puts(w->body, "{\"type\":\"text\",\"text\":\"[the conversation begins]\"}]},");
    }
    waldo__buf_puts(w->body, begins[role]);
    w->role = role;
}

/* Texts without anything to read in them are refused. */
static int is_blank(waldo_str text)
{
    return waldo__str_trim(text).len == 0;
}

static void write_image(work *w, const waldo_media *media)
{
    waldo__buf_puts(w->body, "{\"type\":\"image\",\"source\":{\"type\":\"base64\","
                             "\"media_type\":\"");
    waldo__json_escape(media->mime, w->body);
    waldo__buf_puts(w->body, "\",\"data\":\"");
    waldo__json_escape(media->base64, w->body);
    waldo__buf_puts(w->body, "\"}}");
}

static void write_said(void *userdata, const waldo_item *item)
{
    work *w = userdata;

    if (!is_blank(item->text) || item->kind != WALDO_ITEM_USER) {
        begin_block(w, ROLE_USER);
        waldo__buf_puts(w->body, "{\"type\":\"text\",\"text\":\"");
        waldo__wire_said(item->kind, item->text, w->body);
        waldo__buf_puts(w->body, "\"}");
    }
    for (size_t i = 0; i < item->media_count; i++) {
        begin_block(w, ROLE_USER);
        write_image(w, &item->media[i]);
    }
}

static void write_result(void *userdata, const waldo__history_call *call, const waldo_item *item)
{
    work *w = userdata;

    begin_block(w, ROLE_USER);
    waldo__buf_puts(w->body, "{\"type\":\"tool_result\",\"tool_use_id\":\"");
    waldo__json_escape(waldo__str(call->wire), w->body);
    waldo__buf_puts(w->body, "\",\"content\":[{\"type\":\"text\",\"text\":\"");
    waldo__wire_result(is_blank(item->text) ? WALDO__S("") : item->text, 0, w->body);
    waldo__buf_puts(w->body, "\"}");
    /* what is an error may hold text alone */
    for (size_t i = 0; i < item->media_count && !item->is_error; i++) {
        waldo__buf_puts(w->body, ",");
        write_image(w, &item->media[i]);
    }
    waldo__buf_puts(w->body, item->is_error ? "],\"is_error\":true}" : "]}");
}

static void write_raw(work *w, waldo_str raw)
{
    begin_block(w, ROLE_ASSISTANT);
    waldo__buf_add_str(w->body, raw);
}

/* Input must be an object: what is none, and was answered with an error, goes into one. */
static waldo_status write_call(work *w, waldo_str wire, waldo_str name, waldo_str args)
{
    waldo_status status = WALDO_OK;
    int is_object = waldo__wire_is_object(args, &status);

    begin_block(w, ROLE_ASSISTANT);
    waldo__buf_puts(w->body, "{\"type\":\"tool_use\",\"id\":\"");
    waldo__json_escape(wire, w->body);
    waldo__buf_puts(w->body, "\",\"name\":\"");
    waldo__json_escape(name, w->body);
    waldo__buf_puts(w->body, "\",\"input\":");
    if (is_object || is_blank(args)) {
        waldo__buf_add_str(w->body, is_object ? waldo__str_trim(args) : WALDO__S("{}"));
    } else {
        waldo__buf_puts(w->body, "{\"_raw\":\"");
        waldo__json_escape(args, w->body);
        waldo__buf_puts(w->body, "\"}");
    }
    waldo__buf_puts(w->body, "}");
    return status;
}

/* ---- one item of the transcript ---- */

static int is_thinking(waldo_str raw)
{
    return waldo__wire_raw_says(raw, "type", WALDO__S("thinking")) ||
           waldo__wire_raw_says(raw, "type", WALDO__S("redacted_thinking"));
}

/* What the common form of an item says must not come in by the back door. */
static int is_common(waldo_str raw)
{
    static const char *const types[] = { "text", "tool_use", "tool_result" };
    waldo_str bytes;

    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if (waldo__wire_raw_says(raw, "type", waldo__str(types[i]))) {
            return 1;
        }
    }
    return !waldo__json_raw_get(raw, "type", &bytes);
}

static waldo_status add_assistant(void *userdata, const waldo_item *item)
{
    work *w = userdata;
    waldo_status status = WALDO_OK;
    waldo_str raw = waldo__wire_own_raw(item, &w->encoder->vendor, &status);

    if (status != WALDO_OK || is_blank(item->text)) {
        return status;
    }
    if (waldo__wire_raw_says(raw, "type", WALDO__S("text"))) {
        write_raw(w, raw);
        return WALDO_OK;
    }
    begin_block(w, ROLE_ASSISTANT);
    waldo__buf_puts(w->body, "{\"type\":\"text\",\"text\":\"");
    waldo__json_escape(item->text, w->body);
    return waldo__buf_puts(w->body, "\"}");
}

/* Whether something follows in the same answer that is no thinking. */
static int leads_to_something(const waldo_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const waldo_item *item = &items[i];

        if (item->kind == WALDO_ITEM_TOOL_CALL ||
            (item->kind == WALDO_ITEM_ASSISTANT && !is_blank(item->text)) ||
            (item->kind == WALDO_ITEM_REASONING && item->raw.len > 0 && !is_thinking(item->raw))) {
            return 1;
        }
    }
    return 0;
}

/* Thinking goes back to its maker alone, unchanged, and only in front of what it led to. */
static waldo_status add_reasoning(void *userdata, const waldo_item *item, size_t count)
{
    work *w = userdata;
    waldo_status status = WALDO_OK;
    waldo_str raw = waldo__wire_own_raw(item, &w->encoder->vendor, &status);

    if (status == WALDO_OK && raw.len > 0 &&
        (leads_to_something(item, count) || !is_thinking(raw)) && !is_common(raw)) {
        write_raw(w, raw);
    }
    return status;
}

static waldo_status add_call(void *userdata, const waldo_item *item)
{
    work *w = userdata;
    char wire[WALDO__WIRE_ID_MAX], name_text[WALDO__MODEL_NAME_MAX + 1];
    waldo_str name = waldo__wire_name(item->name, name_text), id = item->id, input = WALDO__S("");
    waldo_status status = WALDO_OK;
    waldo_str raw = waldo__wire_own_raw(item, &w->encoder->vendor, &status);

    if (status != WALDO_OK) {
        return status;
    }
    if (w->history.unanswered == 0) {
        waldo__history_begin_group(&w->history);
    }
    waldo__wire_id(&w->history, id, CALL_ID_MAX, WALDO__ID_WORD, wire);
    waldo__json_raw_get(raw, "input", &input);
    if (waldo__str_is(id, wire) && waldo__wire_raw_says(raw, "type", WALDO__S("tool_use")) &&
        waldo__wire_raw_says(raw, "id", id) && waldo__wire_raw_says(raw, "name", name) &&
        waldo__str_starts(input, "{")) {
        write_raw(w, raw);
    } else {
        status = write_call(w, waldo__str(wire), name, item->args);
    }
    if (status == WALDO_OK) {
        status = waldo__wire_id_use(&w->history, waldo__str(wire));
    }
    return status == WALDO_OK ? waldo__history_add_call(&w->history, id, waldo__str(wire), name, 0)
                              : status;
}

waldo_status waldo__messages_append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                                    waldo_error **ret_err)
{
    work w = { .encoder = encoder, .body = &encoder->body, .role = encoder->role };
    const waldo__history_writer writer = { .result = write_result,
                                           .said = write_said,
                                           .userdata = &w,
                                           .assistant = add_assistant,
                                           .reasoning = add_reasoning,
                                           .call = add_call };
    waldo_status status = waldo__history_copy(&w.history, &encoder->history);

    waldo__buf_truncate(&encoder->body, encoder->frozen);
    if (status == WALDO_OK) {
        status = waldo__history_add(&w.history, &writer, items, count);
    }
    status = status == WALDO_OK ? encoder->body.status : status;
    if (status != WALDO_OK) {
        waldo__history_free(&w.history);
        return waldo__request_fail(&encoder->body, encoder->frozen, status, "extended", ret_err);
    }
    waldo__history_free(&encoder->history);
    encoder->history = w.history;
    encoder->role = w.role;
    encoder->frozen = encoder->body.len;
    return WALDO_OK;
}

/* ---- requests ---- */

static const char *const choices[] = { [WALDO_TOOL_CHOICE_AUTO] = "auto",
                                       [WALDO_TOOL_CHOICE_NONE] = "none",
                                       [WALDO_TOOL_CHOICE_REQUIRED] = "any",
                                       [WALDO_TOOL_CHOICE_NAMED] = "tool" };

/* Whether calls may come in parallel is a part of it, so that the default may need a word. */
static void put_tool_choice(waldo_encoder *encoder, const waldo_model_turn *turn)
{
    waldo__buf *body = &encoder->body;
    size_t choice = (size_t)turn->tool_choice < WALDO__COUNT(choices) ? (size_t)turn->tool_choice
                                                                      : WALDO_TOOL_CHOICE_AUTO;

    if (!encoder->has_tools || (choice == WALDO_TOOL_CHOICE_AUTO && encoder->parallel)) {
        return;
    }
    waldo__buf_printf(body, ",\"tool_choice\":{\"type\":\"%s\"", choices[choice]);
    if (choice == WALDO_TOOL_CHOICE_NAMED) {
        waldo__buf_puts(body, ",\"name\":\"");
        waldo__json_escape(turn->tool_choice_name, body);
        waldo__buf_puts(body, "\"");
    }
    if (!encoder->parallel && choice != WALDO_TOOL_CHOICE_NONE) {
        waldo__buf_puts(body, ",\"disable_parallel_tool_use\":true");
    }
    waldo__buf_puts(body, "}");
}

static waldo_status check_request(const waldo_encoder *encoder, const waldo_model_turn *turn,
                                  waldo_error **ret_err)
{
    if (encoder->history.unanswered > 0) {
        return waldo__history_refuse(&encoder->history, ret_err);
    }
    if (encoder->role == ROLE_NONE) {
        return waldo__error_invalid(ret_err, "there is no message to send to the model");
    }
    if (encoder->has_tools && encoder->has_budget &&
        (turn->tool_choice == WALDO_TOOL_CHOICE_REQUIRED ||
         turn->tool_choice == WALDO_TOOL_CHOICE_NAMED)) {
        return waldo__error_invalid(
            ret_err, "this model does not take a demanded tool together with reasoning: "
                     "leave out one of tool_choice and reasoning");
    }
    return WALDO_OK;
}

waldo_status waldo__messages_request(waldo_encoder *encoder, const waldo_model_turn *turn,
                                     waldo_model_request *ret_request, waldo_error **ret_err)
{
    waldo_status status = check_request(encoder, turn, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    waldo__buf_truncate(&encoder->body, encoder->frozen);
    waldo__buf_puts(&encoder->body, "]}]");
    put_tool_choice(encoder, turn);
    status = waldo__buf_puts(&encoder->body, "}");
    if (status != WALDO_OK) {
        return waldo__request_fail(&encoder->body, encoder->frozen, status, "built", ret_err);
    }
    *ret_request = (waldo_model_request){ .size = sizeof *ret_request,
                                          .streamed = encoder->quirks.stream,
                                          .path = WALDO__S("/messages"),
                                          .headers = waldo__buf_str(&encoder->headers),
                                          .body = waldo__buf_str(&encoder->body),
                                          .frozen_len = encoder->frozen };
    return WALDO_OK;
}

/* ---- an epoch ---- */

static waldo_status begin_epoch(waldo_encoder *encoder, const waldo_model_epoch *epoch,
                                waldo_error **ret_err)
{
    waldo_status status = waldo__messages_quirks_find(epoch->options, epoch->url, epoch->model,
                                                      &encoder->quirks, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    encoder->has_tools = epoch->tool_count > 0;
    encoder->parallel = epoch->parallel_calls;
    encoder->has_budget = waldo__messages_has_budget(&encoder->quirks, epoch->options);
    status = waldo__messages_vendor(epoch->url, epoch->model, &encoder->vendor);
    if (status == WALDO_OK) {
        waldo__buf_add_str(&encoder->headers, waldo__request_headers(encoder->quirks.stream));
        status = waldo__buf_printf(&encoder->headers, "anthropic-version: %s\n",
                                   encoder->quirks.version);
    }
    if (status == WALDO_OK && strcmp(encoder->quirks.binding, "none") != 0) {
        status = waldo__buf_puts(&encoder->headers,
                                 "anthropic-beta: thinking-binding-controls-2026-08-01\n");
    }
    if (status == WALDO_OK) {
        status = waldo__messages_write_head(&encoder->quirks, epoch, &encoder->body, ret_err);
    }
    encoder->frozen = encoder->body.len;
    return status;
}

waldo_status waldo__messages_new_encoder(const waldo_model_epoch *epoch,
                                         waldo_encoder **ret_encoder, waldo_error **ret_err)
{
    waldo_encoder *encoder = WALDO__NEW(waldo_encoder);
    waldo_status status;

    if (encoder == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__buf_init(&encoder->vendor, 1024);
    waldo__buf_init(&encoder->headers, 1024);
    waldo__buf_init(&encoder->body, WALDO__REQUEST_MAX);
    status = begin_epoch(encoder, epoch, ret_err);
    if (status != WALDO_OK) {
        waldo__messages_free_encoder(encoder);
        return waldo__request_unbegun(status, ret_err);
    }
    *ret_encoder = encoder;
    return WALDO_OK;
}

void waldo__messages_free_encoder(waldo_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    waldo__buf_free(&encoder->vendor);
    waldo__buf_free(&encoder->headers);
    waldo__buf_free(&encoder->body);
    waldo__history_free(&encoder->history);
    waldo__free(encoder);
}
