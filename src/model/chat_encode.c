/*
 * Builds Chat Completions requests. The body only grows: behind a frozen head come the messages,
 * and the last of them stays open so that what follows may still join it. A request closes it for
 * the moment and adds what may differ from turn to turn.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "json/schema.h"
#include "model/chat.h"
#include "model/history.h"
#include <waldo/agent.h>

#define ROLE(role) "{\"role\":\"" role "\""

/* What the end of the body is the inside of. */
typedef enum open_part {
    OPEN_NOTHING,
    OPEN_USER,
    OPEN_PARTS,
    OPEN_ASSISTANT,
    OPEN_CALLS
} open_part;

/* What append() changes besides the body; copied first, so that a failure leaves the old one. */
typedef struct tail_state {
    open_part open;
    int has_messages;
    int after_result;
    waldo__history history;
    waldo__buf reasoning; /* for the next assistant message */
} tail_state;

struct waldo_encoder {
    waldo__chat_quirks quirks;
    waldo__buf body;
    size_t tools_at; /* where the tools stand in the head, and how long they are */
    size_t tools_len;
    size_t frozen; /* bytes of body that are not the end of one request */
    tail_state tail;
    waldo__buf other; /* a body without tools, for servers that have no other way to forbid them */
    waldo__buf vendor;
};

/* ---- the tail's memory ---- */

static void free_tail(tail_state *tail)
{
    waldo__history_free(&tail->history);
    waldo__buf_free(&tail->reasoning);
}

/* to is free of memory; it must be freed whatever is returned. */
static waldo_status copy_tail(tail_state *to, const tail_state *from)
{
    waldo_status status;

    *to = *from;
    waldo__buf_init(&to->reasoning, WALDO__MODEL_EVENT_MAX);
    status = waldo__history_copy(&to->history, &from->history);
    return status == WALDO_OK ? waldo__buf_add_str(&to->reasoning, waldo__buf_str(&from->reasoning))
                              : status;
}

/* ---- messages ---- */

static waldo_status put(waldo_encoder *encoder, const char *text)
{
    return waldo__buf_puts(&encoder->body, text);
}

static waldo_status put_escaped(waldo_encoder *encoder, waldo_str text)
{
    return waldo__json_escape(text, &encoder->body);
}

static const char *closing(open_part open)
{
    static const char *const texts[] = { [OPEN_NOTHING] = "",
                                         [OPEN_USER] = "\"}",
                                         [OPEN_PARTS] = "]}",
                                         [OPEN_ASSISTANT] = "\"}",
                                         [OPEN_CALLS] = "]}" };

    return texts[open];
}

/* Close the open message and begin the next. */
static void begin_message(waldo_encoder *encoder, tail_state *tail, const char *begin)
{
    put(encoder, closing(tail->open));
    put(encoder, tail->has_messages ? "," : "");
    put(encoder, begin);
    tail->open = OPEN_NOTHING;
    tail->has_messages = 1;
    tail->after_result = 0;
}

/* Everything up to the inside of the content. */
static void begin_assistant(waldo_encoder *encoder, tail_state *tail, const char *content)
{
    const char *field = encoder->quirks.reasoning_field;

    begin_message(encoder, tail, ROLE("assistant"));
    if (strcmp(field, "none") != 0) {
        waldo__buf_printf(&encoder->body, ",\"%s\":\"", field);
        put_escaped(encoder, waldo__buf_str(&tail->reasoning));
        put(encoder, "\"");
    }
    waldo__buf_clear(&tail->reasoning);
    put(encoder, content);
}

static void begin_user(waldo_encoder *encoder, tail_state *tail, const char *content)
{
    if (tail->after_result && encoder->quirks.assistant_between) {
        begin_message(encoder, tail, ROLE("assistant") ",\"content\":\"Understood.\"}");
    }
    begin_message(encoder, tail, ROLE("user"));
    put(encoder, content);
}

/* What a server that is not sent images shows the model in their place. */
static void put_missing_images(waldo_encoder *encoder, const waldo_item *item)
{
    for (size_t i = 0; i < item->media_count; i++) {
        put(encoder, i > 0 || item->text.len > 0 ? "\\n[" : "[");
        put_escaped(encoder, item->media[i].mime);
        put(encoder, ": this model is not shown images]");
    }
}

/* A text with images is a list of parts, which what follows may join. */
static void add_parts(waldo_encoder *encoder, tail_state *tail, const waldo_item *item)
{
    if (tail->open == OPEN_PARTS && encoder->quirks.merge) {
        put(encoder, ",");
    } else {
        begin_user(encoder, tail, ",\"content\":[");
    }
    tail->open = OPEN_PARTS;
    put(encoder, "{\"type\":\"text\",\"text\":\"");
    waldo__wire_said(item->kind, item->text.len > 0 ? item->text : WALDO__S("(image)"),
                     &encoder->body);
    put(encoder, "\"}");
    for (size_t i = 0; i < item->media_count; i++) {
        put(encoder, ",{\"type\":\"image_url\",\"image_url\":{\"url\":\"");
        waldo__wire_data_url(&item->media[i], &encoder->body);
        put(encoder, "\"}}");
    }
}

static void add_user(waldo_encoder *encoder, tail_state *tail, const waldo_item *item)
{
    int has_images = item->media_count > 0 && encoder->quirks.images;

    if (has_images || (tail->open == OPEN_PARTS && encoder->quirks.merge)) {
        add_parts(encoder, tail, item);
        return;
    }
    if (tail->open == OPEN_USER && encoder->quirks.merge) {
        put(encoder, "\\n\\n");
    } else {
        begin_user(encoder, tail, ",\"content\":\"");
        tail->open = OPEN_USER;
    }
    waldo__wire_said(item->kind, item->text, &encoder->body);
    put_missing_images(encoder, item);
}

static void add_assistant(waldo_encoder *encoder, tail_state *tail, waldo_str text)
{
    if (tail->open == OPEN_ASSISTANT && encoder->quirks.merge) {
        put(encoder, "\\n\\n");
    } else {
        begin_assistant(encoder, tail, ",\"content\":\"");
        tail->open = OPEN_ASSISTANT;
    }
    put_escaped(encoder, text);
}

/* What the functions of a history write to. */
typedef struct written {
    waldo_encoder *encoder;
    tail_state *tail;
} written;

static void write_result(void *userdata, const waldo__history_call *call, const waldo_item *item)
{
    waldo_encoder *encoder = ((written *)userdata)->encoder;
    tail_state *tail = ((written *)userdata)->tail;

    begin_message(encoder, tail, ROLE("tool") ",\"tool_call_id\":\"");
    put_escaped(encoder, waldo__str(call->wire));
    if (encoder->quirks.tool_name) {
        put(encoder, "\",\"name\":\"");
        put_escaped(encoder, waldo__str(call->name));
    }
    put(encoder, "\",\"content\":\"");
    waldo__wire_result(item->text, item->is_error, &encoder->body);
    put(encoder, "\"}");
    tail->after_result = 1;
}

static void write_said(void *userdata, const waldo_item *item)
{
    add_user(((written *)userdata)->encoder, ((written *)userdata)->tail, item);
}

static waldo_status add_result(waldo_encoder *encoder, tail_state *tail, const waldo_item *item)
{
    waldo__history_writer writer = { .result = write_result,
                                     .said = write_said,
                                     .userdata = &(written){ encoder, tail },
                                     .media_behind = 1 };

    return waldo__history_add_result(&tail->history, &writer, item);
}

static void answer_lost_calls(waldo_encoder *encoder, tail_state *tail)
{
    waldo__history_writer writer = { .result = write_result,
                                     .said = write_said,
                                     .userdata = &(written){ encoder, tail },
                                     .media_behind = 1 };

    waldo__history_lose_calls(&tail->history, &writer);
}

/* Arguments as the model wrote them, "{}" where the server would refuse the history for them. */
static waldo_str wire_args(const waldo_encoder *encoder, waldo_str args, waldo_status *ret_status)
{
    if (args.len == 0) {
        return WALDO__S("{}");
    }
    return !encoder->quirks.valid_args || waldo__wire_is_object(args, ret_status) ? args
                                                                                  : WALDO__S("{}");
}

/* Members that the same server sent with the call: the inside of a JSON object. */
static waldo_str wire_extra(const waldo_encoder *encoder, const waldo_item *item,
                            waldo_status *ret_status)
{
    waldo_str raw = waldo__str_trim(waldo__wire_own_raw(item, &encoder->vendor, ret_status));

    return raw.len > 0 ? waldo__str_trim(waldo__slice(raw.ptr + 1, raw.len - 2)) : raw;
}

/* The open message becomes, or is, one with calls. */
static void open_calls(waldo_encoder *encoder, tail_state *tail)
{
    if (tail->open == OPEN_CALLS) {
        put(encoder, ",");
        return;
    }
    if (tail->open == OPEN_ASSISTANT) {
        put(encoder, "\"");
    } else {
        begin_assistant(encoder, tail,
                        encoder->quirks.null_content ? ",\"content\":null" : ",\"content\":\"\"");
    }
    put(encoder, ",\"tool_calls\":[");
    tail->open = OPEN_CALLS;
    waldo__history_begin_group(&tail->history);
}

static waldo_status add_call(waldo_encoder *encoder, tail_state *tail, const waldo_item *item)
{
    char wire[WALDO__WIRE_ID_MAX], name_text[WALDO__MODEL_NAME_MAX + 1];
    waldo_str name = waldo__wire_name(item->name, name_text);
    waldo_status status = WALDO_OK;
    waldo_str extra = wire_extra(encoder, item, &status);
    waldo_str args = wire_args(encoder, item->args, &status);
    int exact = encoder->quirks.short_ids;
    waldo__id_rule rule = exact ? WALDO__ID_EXACT : WALDO__ID_PRINTABLE;

    if (status != WALDO_OK) {
        return status;
    }
    if (tail->history.unanswered > 0 && tail->history.has_results) {
        answer_lost_calls(encoder, tail);
    }
    open_calls(encoder, tail);
    waldo__wire_id(&tail->history, item->id, exact ? 9 : WALDO__CHAT_ID_MAX, rule, wire);
    status = waldo__history_add_call(&tail->history, item->id, waldo__str(wire), name, 0);
    put(encoder, "{\"id\":\"");
    put_escaped(encoder, waldo__str(wire));
    put(encoder, "\",\"type\":\"function\",\"function\":{\"name\":\"");
    put_escaped(encoder, name);
    put(encoder, "\",\"arguments\":\"");
    put_escaped(encoder, args);
    put(encoder, "\"}");
    if (extra.len > 0) {
        put(encoder, ",");
        waldo__buf_add_str(&encoder->body, extra);
    }
    put(encoder, "}");
    return status;
}

static waldo_status add_item(waldo_encoder *encoder, tail_state *tail, const waldo_item *item)
{
    switch (item->kind) {
    case WALDO_ITEM_USER:
    case WALDO_ITEM_NOTICE:
    case WALDO_ITEM_COMPACTION:
        waldo__buf_clear(&tail->reasoning);
        if (tail->history.unanswered > 0) {
            return waldo__history_hold(&tail->history, item);
        }
        add_user(encoder, tail, item);
        return WALDO_OK;
    case WALDO_ITEM_ASSISTANT:
        if (tail->history.unanswered > 0) {
            answer_lost_calls(encoder, tail);
        }
        if (item->text.len > 0) {
            add_assistant(encoder, tail, item->text);
        }
        return WALDO_OK;
    case WALDO_ITEM_REASONING:
        /* Only ever back to the server and family of models that made it. */
        return waldo__str_eq(item->vendor, waldo__buf_str(&encoder->vendor))
                   ? waldo__buf_add_str(&tail->reasoning, item->text)
                   : WALDO_OK;
    case WALDO_ITEM_TOOL_CALL:
        return add_call(encoder, tail, item);
    case WALDO_ITEM_TOOL_RESULT:
        waldo__buf_clear(&tail->reasoning);
        return add_result(encoder, tail, item);
    default:
        return WALDO_EINVAL;
    }
}

waldo_status waldo__chat_append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                                waldo_error **ret_err)
{
    tail_state next;
    waldo_status status = copy_tail(&next, &encoder->tail);

    waldo__buf_truncate(&encoder->body, encoder->frozen);
    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        status = add_item(encoder, &next, &items[i]);
    }
    status = status == WALDO_OK ? encoder->body.status : status;
    if (status != WALDO_OK) {
        free_tail(&next);
        return waldo__request_fail(&encoder->body, encoder->frozen, status, "extended", ret_err);
    }
    free_tail(&encoder->tail);
    encoder->tail = next;
    encoder->frozen = encoder->body.len;
    return WALDO_OK;
}

/* ---- requests ---- */

/* How a turn restricts tools; AUTO is every server's default and needs no word. */
static void put_tool_choice(waldo_encoder *encoder, const waldo_model_turn *turn)
{
    waldo__buf *body = &encoder->body;

    if (!encoder->quirks.tool_choice || encoder->tools_len == 0) {
        return;
    }
    if (turn->tool_choice == WALDO_TOOL_CHOICE_REQUIRED) {
        waldo__buf_printf(body, ",\"tool_choice\":\"%s\"", encoder->quirks.required);
    } else if (turn->tool_choice == WALDO_TOOL_CHOICE_NONE) {
        put(encoder, ",\"tool_choice\":\"none\"");
    } else if (turn->tool_choice == WALDO_TOOL_CHOICE_NAMED) {
        put(encoder, ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"");
        put_escaped(encoder, turn->tool_choice_name);
        put(encoder, "\"}}");
    }
}

/* The body without its tools, which is how such a server is kept from calling any. */
static waldo_status drop_tools(waldo_encoder *encoder)
{
    size_t behind = encoder->tools_at + encoder->tools_len;

    waldo__buf_clear(&encoder->other);
    waldo__buf_add(&encoder->other, encoder->body.ptr, encoder->tools_at);
    return waldo__buf_add(&encoder->other, encoder->body.ptr + behind, encoder->body.len - behind);
}

waldo_status waldo__chat_request(waldo_encoder *encoder, const waldo_model_turn *turn,
                                 waldo_model_request *ret_request, waldo_error **ret_err)
{
    int drop = turn->tool_choice == WALDO_TOOL_CHOICE_NONE && !encoder->quirks.tool_choice &&
               encoder->tools_len > 0;
    const waldo__buf *body = drop ? &encoder->other : &encoder->body;
    waldo_status status;

    if (encoder->tail.history.unanswered > 0) {
        return waldo__history_refuse(&encoder->tail.history, ret_err);
    }
    if (!encoder->tail.has_messages) {
        return waldo__error_invalid(ret_err, "there is no message to send to the model");
    }
    waldo__buf_truncate(&encoder->body, encoder->frozen);
    put(encoder, encoder->tail.open == OPEN_ASSISTANT && encoder->quirks.prefix
                     ? "\",\"prefix\":true}"
                     : closing(encoder->tail.open));
    put(encoder, "]");
    put_tool_choice(encoder, turn);
    status = put(encoder, "}");
    if (status == WALDO_OK && drop) {
        status = drop_tools(encoder);
    }
    if (status != WALDO_OK) {
        return waldo__request_fail(&encoder->body, encoder->frozen, status, "built", ret_err);
    }
    *ret_request =
        (waldo_model_request){ .size = sizeof *ret_request,
                               .streamed = encoder->quirks.stream,
                               .path = WALDO__S("/chat/completions"),
                               .headers = waldo__request_headers(encoder->quirks.stream),
                               .body = waldo__buf_str(body),
                               .frozen_len = drop ? encoder->tools_at : encoder->frozen };
    return WALDO_OK;
}

/* ---- the frozen head ---- */

static waldo_status write_tool(waldo__json_writer *writer, const waldo_tool_decl *tool,
                               waldo_error **ret_err)
{
    waldo_str schema;
    waldo_status status = waldo__wire_schema(tool, &schema, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    waldo__jw_object(writer, NULL);
    waldo__jw_str(writer, "type", WALDO__S("function"));
    waldo__jw_object(writer, "function");
    waldo__jw_str(writer, "name", tool->name);
    if (tool->about.len > 0) {
        waldo__jw_str(writer, "description", tool->about);
    }
    waldo__jw_raw(writer, "parameters", schema);
    waldo__jw_end(writer, '}');
    waldo__jw_end(writer, '}');
    return WALDO_OK;
}

static void write_sampling(const waldo__chat_quirks *quirks, const waldo_model_epoch *epoch,
                           waldo__json_writer *writer)
{
    const waldo_model_options *options = epoch->options;
    const double *temperature =
        epoch->temperature != NULL ? epoch->temperature : options->temperature;

    if (quirks->stream) {
        waldo__jw_bool(writer, "stream", 1);
    }
    if (quirks->stream && quirks->stream_options) {
        waldo__jw_object(writer, "stream_options");
        waldo__jw_bool(writer, "include_usage", 1);
        if (quirks->no_obfuscation) {
            waldo__jw_bool(writer, "include_obfuscation", 0);
        }
        waldo__jw_end(writer, '}');
    }
    if (options->max_output_tokens != 0) {
        waldo__jw_int(writer, quirks->max_tokens, options->max_output_tokens);
    }
    if (temperature != NULL) {
        waldo__jw_num(writer, "temperature", *temperature);
    }
    if (options->top_p != NULL) {
        waldo__jw_num(writer, "top_p", *options->top_p);
    }
    if (options->seed != NULL) {
        waldo__jw_int(writer, quirks->seed, *options->seed);
    }
    if (options->reasoning != NULL) {
        waldo__jw_text(writer, "reasoning_effort", options->reasoning);
    }
}

/* How far the server holds the model to the schema that the instructions tell. */
static void write_format(const waldo__chat_quirks *quirks, waldo_str schema,
                         waldo__json_writer *writer)
{
    if (schema.len == 0 || strcmp(quirks->output_format, "none") == 0) {
        return;
    }
    waldo__jw_object(writer, "response_format");
    waldo__jw_text(writer, "type", quirks->output_format);
    if (strcmp(quirks->output_format, "json_schema") == 0) {
        waldo__jw_object(writer, "json_schema");
        waldo__jw_str(writer, "name", WALDO__S("answer"));
        waldo__jw_raw(writer, "schema", schema);
        waldo__jw_bool(writer, "strict",
                       waldo__schema_is_strict(schema, NULL, &writer->out->status));
        waldo__jw_end(writer, '}');
    }
    waldo__jw_end(writer, '}');
}

/* With a stable order and nothing that changes: every request of the epoch begins with it. */
static waldo_status write_head(waldo_encoder *encoder, const waldo_model_epoch *epoch,
                               waldo_error **ret_err)
{
    waldo__json_writer writer;
    waldo_status status = WALDO_OK;

    waldo__json_writer_init(&writer, &encoder->body);
    waldo__jw_object(&writer, NULL);
    waldo__jw_str(&writer, "model", epoch->model);
    write_sampling(&encoder->quirks, epoch, &writer);
    write_format(&encoder->quirks, epoch->output_schema, &writer);
    encoder->tools_at = encoder->body.len;
    if (epoch->tool_count > 0) {
        if (!epoch->parallel_calls && encoder->quirks.parallel) {
            waldo__jw_bool(&writer, "parallel_tool_calls", 0);
        }
        waldo__jw_array(&writer, "tools");
        for (size_t i = 0; i < epoch->tool_count && status == WALDO_OK; i++) {
            status = write_tool(&writer, &epoch->tools[i], ret_err);
        }
        waldo__jw_end(&writer, ']');
    }
    encoder->tools_len = encoder->body.len - encoder->tools_at;
    waldo__jw_array(&writer, "messages");
    if (epoch->instructions.len > 0) {
        put(encoder, ROLE("system") ",\"content\":\"");
        put_escaped(encoder, epoch->instructions);
        put(encoder, "\"}");
        encoder->tail.has_messages = 1;
    }
    encoder->frozen = encoder->body.len;
    return status == WALDO_OK ? encoder->body.status : status;
}

waldo_status waldo__chat_new_encoder(const waldo_model_epoch *epoch, waldo_encoder **ret_encoder,
                                     waldo_error **ret_err)
{
    waldo_encoder *encoder = WALDO__NEW(waldo_encoder);
    waldo_status status;

    if (encoder == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__buf_init(&encoder->vendor, 1024);
    waldo__buf_init(&encoder->body, WALDO__REQUEST_MAX);
    waldo__buf_init(&encoder->other, WALDO__REQUEST_MAX);
    waldo__buf_init(&encoder->tail.reasoning, WALDO__MODEL_EVENT_MAX);
    status = waldo__chat_quirks_find(epoch->options, epoch->url, &encoder->quirks, ret_err);
    if (status == WALDO_OK) {
        status = waldo__chat_vendor(&encoder->quirks, epoch->model, &encoder->vendor);
    }
    if (status == WALDO_OK) {
        status = write_head(encoder, epoch, ret_err);
    }
    if (status != WALDO_OK) {
        waldo__chat_free_encoder(encoder);
        return waldo__request_unbegun(status, ret_err);
    }
    *ret_encoder = encoder;
    return WALDO_OK;
}

void waldo__chat_free_encoder(waldo_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    waldo__buf_free(&encoder->vendor);
    waldo__buf_free(&encoder->body);
    waldo__buf_free(&encoder->other);
    free_tail(&encoder->tail);
    waldo__free(encoder);
}
