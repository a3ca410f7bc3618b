/*
 * Builds Responses requests. The body only grows: behind a frozen head come the input items, each
 * of them whole; a request closes the list and adds what may differ from turn to turn.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "json/schema.h"
#include "model/history.h"
#include "model/responses.h"
#include <waldo/agent.h>

enum { CALL_ID_MAX = 64 };

/* Which kind of result a call wants. */
enum { FORM_FUNCTION, FORM_CUSTOM };

struct waldo_encoder {
    waldo__responses_quirks quirks;
    waldo__buf body;
    size_t head;   /* bytes of body in front of the items */
    size_t frozen; /* bytes of body that are not the end of one request */
    int has_tools;
    int has_items;
    char previous[WALDO__MODEL_ID_MAX + 1]; /* response that the next request goes on from */
    waldo__history history;
    waldo__buf vendor;
    waldo__buf freeform; /* as waldo__freeform_declare() noted it */
};

/* What append() works on; the encoder gets it when all went well. */
typedef struct work {
    waldo_encoder *encoder;
    waldo__buf *body;
    waldo__history history;
    int has_items;
    int lost_reason;    /* reasoning of this answer was left out: what follows loses its id */
    size_t known;       /* the provider has what stands in body up to here ... */
    waldo_str response; /* ... and this response, which came behind it */
} work;

/*
 * 1: the provider keeps the item, and with it all that stands in front of it: the next request goes
 * on behind its response.
 */
static int leave_to_provider(work *w, const waldo_item *item)
{
    if (item->response.len == 0 || item->response.len > WALDO__MODEL_ID_MAX ||
        !waldo__responses_is_remote(&w->encoder->quirks)) {
        return 0;
    }
    w->known = w->body->len;
    w->response = item->response;
    w->has_items = 0;
    return 1;
}

/* Drop what the provider has. */
static void go_on_behind(waldo_encoder *encoder, const work *w)
{
    waldo__buf *body = &encoder->body;

    if (w->response.len == 0) {
        return;
    }
    memcpy(encoder->previous, w->response.ptr, w->response.len);
    encoder->previous[w->response.len] = '\0';
    memmove(body->ptr + encoder->head, body->ptr + w->known, body->len - w->known);
    waldo__buf_truncate(body, body->len - (w->known - encoder->head));
}

/* ---- items that are made ---- */

static void begin_item(work *w, const char *text)
{
    waldo__buf_puts(w->body, w->has_items ? "," : "");
    waldo__buf_puts(w->body, text);
    w->has_items = 1;
}

static void write_images(work *w, const waldo_item *item)
{
    for (size_t i = 0; i < item->media_count; i++) {
        waldo__buf_puts(w->body, ",{\"type\":\"input_image\",\"image_url\":\"");
        waldo__wire_data_url(&item->media[i], w->body);
        waldo__buf_puts(w->body, "\"}");
    }
}

static void write_said(void *userdata, const waldo_item *item)
{
    work *w = userdata;

    if (item->media_count == 0) {
        begin_item(w, "{\"role\":\"user\",\"content\":\"");
        waldo__wire_said(item->kind, item->text, w->body);
        waldo__buf_puts(w->body, "\"}");
        return;
    }
    begin_item(w, "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"");
    waldo__wire_said(item->kind, item->text.len > 0 ? item->text : WALDO__S("(image)"), w->body);
    waldo__buf_puts(w->body, "\"}");
    write_images(w, item);
    waldo__buf_puts(w->body, "]}");
}

static void write_result(void *userdata, const waldo__history_call *call, const waldo_item *item)
{
    work *w = userdata;

    begin_item(w, call->form == FORM_CUSTOM ? "{\"type\":\"custom_tool_call_output\",\"call_id\":\""
                                            : "{\"type\":\"function_call_output\",\"call_id\":\"");
    waldo__json_escape(waldo__str(call->wire), w->body);
    if (item->media_count == 0) {
        waldo__buf_puts(w->body, "\",\"output\":\"");
        waldo__wire_result(item->text, item->is_error, w->body);
        waldo__buf_puts(w->body, "\"}");
        return;
    }
    waldo__buf_puts(w->body, "\",\"output\":[{\"type\":\"input_text\",\"text\":\"");
    waldo__wire_result(item->text, item->is_error, w->body);
    waldo__buf_puts(w->body, "\"}");
    write_images(w, item);
    waldo__buf_puts(w->body, "]}");
}

static void write_call(work *w, int form, waldo_str wire, waldo_str name, waldo_str text)
{
    begin_item(w, form == FORM_CUSTOM ? "{\"type\":\"custom_tool_call\",\"call_id\":\""
                                      : "{\"type\":\"function_call\",\"call_id\":\"");
    waldo__json_escape(wire, w->body);
    waldo__buf_puts(w->body, "\",\"name\":\"");
    waldo__json_escape(name, w->body);
    waldo__buf_puts(w->body, form == FORM_CUSTOM ? "\",\"input\":\"" : "\",\"arguments\":\"");
    waldo__json_escape(text, w->body);
    waldo__buf_puts(w->body, "\"}");
}

/*
 * A call in the form that its tool has here; wire empty: it is not written. One that does not
 * consist of the tool's text stays a function call, which every history may hold.
 */
static waldo_status make_call(work *w, const waldo_item *item, waldo_str name, waldo_str wire,
                              int *ret_form)
{
    const char *property = waldo__freeform_find(&w->encoder->freeform, name);
    waldo_str text = item->args.len > 0 ? item->args : WALDO__S("{}");
    waldo__json *doc = NULL;
    waldo_status status = WALDO_EINVAL;

    if (property != NULL) {
        status = waldo__freeform_unwrap(property, item->args, &doc, &text);
    }
    if (status == WALDO_ENOMEM) {
        return status;
    }
    *ret_form = status == WALDO_OK ? FORM_CUSTOM : FORM_FUNCTION;
    if (wire.len > 0) {
        write_call(w, *ret_form, wire, name, text);
    }
    waldo__json_free(doc);
    return WALDO_OK;
}

/* ---- items as their provider made them ---- */

/*
 * Verbatim, but for members that are null, which are refused in requests although answers have
 * them, and for the id of an item whose reasoning is not there.
 */
static void write_raw(work *w, waldo_str raw)
{
    waldo__json_raw members;
    waldo_str key, value;
    int any = 0;

    begin_item(w, "{");
    waldo__json_raw_begin(&members, raw);
    while (waldo__json_raw_next(&members, &key, &value)) {
        if (waldo__str_is(value, "null") || (w->lost_reason && waldo__str_is(key, "id"))) {
            continue;
        }
        waldo__buf_printf(w->body, "%s\"", any ? "," : "");
        waldo__buf_add_str(w->body, key);
        waldo__buf_puts(w->body, "\":");
        waldo__buf_add_str(w->body, value);
        any = 1;
    }
    waldo__buf_puts(w->body, "}");
}

/* A text or a list that holds something. */
static int raw_holds(waldo_str raw, const char *member)
{
    waldo_str bytes = WALDO__S("");

    return waldo__json_raw_get(raw, member, &bytes) && bytes.len > 2 &&
           !waldo__str_is(bytes, "null");
}

/* ---- one item of the transcript ---- */

static void begin_answer(void *userdata)
{
    ((work *)userdata)->lost_reason = 0;
}

static waldo_status add_assistant(void *userdata, const waldo_item *item)
{
    work *w = userdata;
    waldo_status status = WALDO_OK;
    waldo_str raw;

    if (leave_to_provider(w, item)) {
        return WALDO_OK;
    }
    raw = waldo__wire_own_raw(item, &w->encoder->vendor, &status);
    if (status != WALDO_OK) {
        return status;
    }
    if (raw.len > 0) {
        write_raw(w, raw);
    } else if (item->text.len > 0) {
        begin_item(w, "{\"role\":\"assistant\",\"content\":\"");
        waldo__json_escape(item->text, w->body);
        waldo__buf_puts(w->body, "\"}");
    }
    return WALDO_OK;
}

/* Whether something of the same answer follows that is no reasoning. */
static int leads_to_something(const waldo_item *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (items[i].kind != WALDO_ITEM_REASONING) {
            return 1;
        }
    }
    return 0;
}

/*
 * Reasoning goes back to its maker alone, and only in front of what it led to. Without its
 * encrypted or its readable content the provider would look for it in its own memory.
 */
static waldo_status add_reasoning(void *userdata, const waldo_item *item, size_t count)
{
    work *w = userdata;
    waldo_status status = WALDO_OK;
    waldo_str raw;
    int is_reasoning;

    if (leave_to_provider(w, item)) {
        return WALDO_OK;
    }
    raw = waldo__wire_own_raw(item, &w->encoder->vendor, &status);
    is_reasoning = waldo__wire_raw_says(raw, "type", WALDO__S("reasoning"));
    if (status != WALDO_OK) {
        return status;
    }
    if (raw.len == 0 ||
        (is_reasoning && (!leads_to_something(item, count) ||
                          (!raw_holds(raw, "encrypted_content") && !raw_holds(raw, "content"))))) {
        w->lost_reason |= is_reasoning || raw.len == 0;
        return WALDO_OK;
    }
    write_raw(w, raw);
    return WALDO_OK;
}

static waldo_status add_call(void *userdata, const waldo_item *item)
{
    work *w = userdata;
    char wire[WALDO__WIRE_ID_MAX], name_text[WALDO__MODEL_NAME_MAX + 1];
    waldo_str name = waldo__wire_name(item->name, name_text), id = item->id;
    waldo_status status = WALDO_OK;
    waldo_str raw = waldo__wire_own_raw(item, &w->encoder->vendor, &status);
    int kept = leave_to_provider(w, item), form = FORM_FUNCTION;

    if (status != WALDO_OK) {
        return status;
    }
    if (w->history.unanswered == 0) {
        waldo__history_begin_group(&w->history);
    }
    if (kept && raw.len == 0) {
        status = make_call(w, item, name, WALDO__S(""), &form);
    } else if (kept || (waldo__wire_raw_says(raw, "call_id", id) &&
                        !waldo__wire_id_is_taken(&w->history, id))) {
        form = waldo__wire_raw_says(raw, "type", WALDO__S("custom_tool_call")) ? FORM_CUSTOM
                                                                               : FORM_FUNCTION;
        if (!kept) {
            write_raw(w, raw);
        }
    } else {
        waldo__wire_id(&w->history, id, CALL_ID_MAX, WALDO__ID_PRINTABLE, wire);
        id = waldo__str(wire);
        status = make_call(w, item, name, id, &form);
    }
    return status == WALDO_OK ? waldo__history_add_call(&w->history, item->id, id, name, form)
                              : status;
}

waldo_status waldo__responses_append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                                     waldo_error **ret_err)
{
    work w = { .encoder = encoder, .body = &encoder->body, .has_items = encoder->has_items };
    const waldo__history_writer writer = { .result = write_result,
                                           .said = write_said,
                                           .userdata = &w,
                                           .media_behind = !encoder->quirks.result_images,
                                           .begin_answer = begin_answer,
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
    encoder->has_items = w.has_items;
    go_on_behind(encoder, &w);
    encoder->frozen = encoder->body.len;
    return WALDO_OK;
}

/* ---- requests ---- */

/* How a turn restricts tools; AUTO is the default and needs no word. */
static void put_tool_choice(waldo_encoder *encoder, const waldo_model_turn *turn)
{
    waldo__buf *body = &encoder->body;

    if (!encoder->has_tools) {
        return;
    }
    if (turn->tool_choice == WALDO_TOOL_CHOICE_REQUIRED) {
        waldo__buf_puts(body, ",\"tool_choice\":\"required\"");
    } else if (turn->tool_choice == WALDO_TOOL_CHOICE_NONE) {
        waldo__buf_puts(body, ",\"tool_choice\":\"none\"");
    } else if (turn->tool_choice == WALDO_TOOL_CHOICE_NAMED) {
        waldo__buf_printf(body, ",\"tool_choice\":{\"type\":\"%s\",\"name\":\"",
                          waldo__freeform_find(&encoder->freeform, turn->tool_choice_name) != NULL
                              ? "custom"
                              : "function");
        waldo__json_escape(turn->tool_choice_name, body);
        waldo__buf_puts(body, "\"}");
    }
}

waldo_status waldo__responses_request(waldo_encoder *encoder, const waldo_model_turn *turn,
                                      waldo_model_request *ret_request, waldo_error **ret_err)
{
    waldo_status status;

    if (encoder->history.unanswered > 0) {
        return waldo__history_refuse(&encoder->history, ret_err);
    }
    if (!encoder->has_items) {
        return waldo__error_invalid(ret_err, "there is no message to send to the model");
    }
    waldo__buf_truncate(&encoder->body, encoder->frozen);
    waldo__buf_puts(&encoder->body, "]");
    put_tool_choice(encoder, turn);
    if (encoder->previous[0] != '\0' && encoder->quirks.conversation.len == 0) {
        waldo__buf_puts(&encoder->body, ",\"previous_response_id\":\"");
        waldo__json_escape(waldo__str(encoder->previous), &encoder->body);
        waldo__buf_puts(&encoder->body, "\"");
    }
    status = waldo__buf_puts(&encoder->body, "}");
    if (status != WALDO_OK) {
        return waldo__request_fail(&encoder->body, encoder->frozen, status, "built", ret_err);
    }
    *ret_request = (waldo_model_request){ .size = sizeof *ret_request,
                                          .streamed = encoder->quirks.stream,
                                          .path = WALDO__S("/responses"),
                                          .headers = waldo__request_headers(encoder->quirks.stream),
                                          .body = waldo__buf_str(&encoder->body),
                                          .frozen_len = waldo__responses_is_remote(&encoder->quirks)
                                                            ? encoder->head
                                                            : encoder->frozen };
    return WALDO_OK;
}

/* ---- the frozen head ---- */

/* Effort that some model takes; which one takes what is the server's to say. */
static const char *const efforts[] = { "none", "minimal", "low", "medium", "high", "xhigh", "max" };

static waldo_status refuse_option(const char *what, const char *why, waldo_error **ret_err)
{
    return waldo__error_invalid(ret_err, "model option %s: %s", what, why);
}

/* What the API does not know at all is told here rather than by its 400. */
static waldo_status check_options(const waldo_model_options *options, const double *temperature,
                                  waldo_error **ret_err)
{
    int known = options->reasoning == NULL;

    for (size_t i = 0; i < WALDO__COUNT(efforts) && !known; i++) {
        known = strcmp(options->reasoning, efforts[i]) == 0;
    }
    if (!known) {
        return refuse_option("reasoning",
                             "the Responses API knows none, minimal, low, medium, high, xhigh, max",
                             ret_err);
    }
    if (options->seed != NULL) {
        return refuse_option("seed", "the Responses API has none: leave it out", ret_err);
    }
    if (temperature != NULL && !(*temperature >= 0 && *temperature <= 2)) {
        return refuse_option("temperature", "the Responses API takes 0 to 2", ret_err);
    }
    if (options->top_p != NULL && !(*options->top_p >= 0 && *options->top_p <= 1)) {
        return refuse_option("top_p", "the Responses API takes 0 to 1", ret_err);
    }
    return WALDO_OK;
}

static void write_reasoning(const waldo__responses_quirks *quirks,
                            const waldo_model_options *options, waldo__json_writer *writer)
{
    int summary = strcmp(quirks->summary, "none") != 0;

    if (options->reasoning == NULL && !summary) {
        return;
    }
    waldo__jw_object(writer, "reasoning");
    if (options->reasoning != NULL) {
        waldo__jw_text(writer, "effort", options->reasoning);
    }
    if (summary) {
        waldo__jw_text(writer, "summary", quirks->summary);
    }
    waldo__jw_end(writer, '}');
}

static void write_options(const waldo__responses_quirks *quirks, const waldo_model_options *options,
                          const double *temperature, waldo__json_writer *writer)
{
    if (quirks->stream) {
        waldo__jw_bool(writer, "stream", 1);
        if (quirks->no_obfuscation) {
            waldo__jw_raw(writer, "stream_options", WALDO__S("{\"include_obfuscation\":false}"));
        }
    }
    waldo__jw_bool(writer, "store", quirks->store);
    if (quirks->conversation.len > 0) {
        waldo__jw_str(writer, "conversation", quirks->conversation);
    }
    if (quirks->encrypted) {
        waldo__jw_raw(writer, "include", WALDO__S("[\"reasoning.encrypted_content\"]"));
    }
    if (options->max_output_tokens != 0) {
        waldo__jw_int(writer, "max_output_tokens", options->max_output_tokens);
    }
    if (temperature != NULL) {
        waldo__jw_num(writer, "temperature", *temperature);
    }
    if (options->top_p != NULL) {
        waldo__jw_num(writer, "top_p", *options->top_p);
    }
    write_reasoning(quirks, options, writer);
}

static void write_format(waldo_str schema, waldo__json_writer *writer)
{
    if (schema.len == 0) {
        return;
    }
    waldo__jw_object(writer, "text");
    waldo__jw_object(writer, "format");
    waldo__jw_str(writer, "type", WALDO__S("json_schema"));
    waldo__jw_str(writer, "name", WALDO__S("answer"));
    waldo__jw_raw(writer, "schema", schema);
    waldo__jw_bool(writer, "strict", waldo__schema_is_strict(schema, NULL, &writer->out->status));
    waldo__jw_end(writer, '}');
    waldo__jw_end(writer, '}');
}

/* Left out, "strict" means different things to different servers. */
static waldo_status write_tool(waldo_encoder *encoder, waldo__json_writer *writer,
                               const waldo_tool_decl *tool, waldo_error **ret_err)
{
    waldo_str schema;
    waldo_status status = waldo__wire_schema(tool, &schema, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    if (encoder->quirks.freeform && tool->freeform.len > 0) {
        return waldo__freeform_declare(tool, &encoder->freeform, writer);
    }
    waldo__jw_object(writer, NULL);
    waldo__jw_str(writer, "type", WALDO__S("function"));
    waldo__jw_str(writer, "name", tool->name);
    if (tool->about.len > 0) {
        waldo__jw_str(writer, "description", tool->about);
    }
    waldo__jw_raw(writer, "parameters", schema);
    waldo__jw_bool(writer, "strict", 0);
    waldo__jw_end(writer, '}');
    return WALDO_OK;
}

/* With a stable order and nothing that changes: every request of the epoch begins with it. */
static waldo_status write_head(waldo_encoder *encoder, const waldo_model_epoch *epoch,
                               waldo_error **ret_err)
{
    const double *temperature =
        epoch->temperature != NULL ? epoch->temperature : epoch->options->temperature;
    waldo_status status = check_options(epoch->options, temperature, ret_err);
    waldo__json_writer writer;

    waldo__json_writer_init(&writer, &encoder->body);
    waldo__jw_object(&writer, NULL);
    waldo__jw_str(&writer, "model", epoch->model);
    write_options(&encoder->quirks, epoch->options, temperature, &writer);
    write_format(epoch->output_schema, &writer);
    encoder->has_tools = epoch->tool_count > 0;
    if (encoder->has_tools) {
        if (!epoch->parallel_calls) {
            waldo__jw_bool(&writer, "parallel_tool_calls", 0);
        }
        waldo__jw_array(&writer, "tools");
        for (size_t i = 0; i < epoch->tool_count && status == WALDO_OK; i++) {
            status = write_tool(encoder, &writer, &epoch->tools[i], ret_err);
        }
        waldo__jw_end(&writer, ']');
    }
    if (epoch->instructions.len > 0) {
        waldo__jw_str(&writer, "instructions", epoch->instructions);
    }
    waldo__jw_array(&writer, "input");
    encoder->head = encoder->frozen = encoder->body.len;
    return status == WALDO_OK ? encoder->body.status : status;
}

waldo_status waldo__responses_new_encoder(const waldo_model_epoch *epoch,
                                          waldo_encoder **ret_encoder, waldo_error **ret_err)
{
    waldo_encoder *encoder = WALDO__NEW(waldo_encoder);
    waldo_status status;

    if (encoder == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__buf_init(&encoder->vendor, 1024);
    waldo__buf_init(&encoder->body, WALDO__REQUEST_MAX);
    waldo__buf_init(&encoder->freeform, WALDO__MODEL_EVENT_MAX);
    status = waldo__responses_quirks_find(epoch->options, &encoder->quirks, ret_err);
    if (status == WALDO_OK) {
        if (encoder->quirks.previous.len > 0) {
            memcpy(encoder->previous, encoder->quirks.previous.ptr, encoder->quirks.previous.len);
        }
        status = waldo__responses_vendor(epoch->url, epoch->model, &encoder->vendor);
    }
    if (status == WALDO_OK) {
        status = write_head(encoder, epoch, ret_err);
    }
    if (status != WALDO_OK) {
        waldo__responses_free_encoder(encoder);
        return waldo__request_unbegun(status, ret_err);
    }
    *ret_encoder = encoder;
    return WALDO_OK;
}

void waldo__responses_free_encoder(waldo_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    waldo__buf_free(&encoder->vendor);
    waldo__buf_free(&encoder->body);
    waldo__buf_free(&encoder->freeform);
    waldo__history_free(&encoder->history);
    waldo__free(encoder);
}

waldo_status waldo__responses_expect(waldo_reader *reader, const waldo_encoder *encoder)
{
    return waldo__buf_add_str(&reader->freeform, waldo__buf_str(&encoder->freeform));
}
