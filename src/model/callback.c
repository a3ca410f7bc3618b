/*
 * A model that is a function of the host, as an adapter: the request is the conversation in the
 * common form (docs/models.md), the answer one JSON object a line, which src/agent/generation.c
 * writes for the function. So it is tried again, limited, recorded and replayed like any other.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "model/body.h"
#include "model/history.h"
#include "model/model.h"
#include "transcript/transcript.h"
#include <waldo/agent.h>

/* ---- requests ---- */

struct waldo_encoder {
    waldo__buf vendor;
    waldo__buf body;
    size_t frozen; /* bytes of body that are not the end of one request */
    int has_items;
};

static waldo_status parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                          waldo_error **ret_err)
{
    if (rest.len == 0) {
        return waldo__error_invalid(ret_err,
                                    "model \"callback:\": the model's name is missing; write it as "
                                    "callback:NAME, such as callback:mine");
    }
    *ret_url = WALDO__S("");
    *ret_model = rest;
    return WALDO_OK;
}

static void free_encoder(waldo_encoder *encoder)
{
    if (encoder != NULL) {
        waldo__buf_free(&encoder->vendor);
        waldo__buf_free(&encoder->body);
        waldo__free(encoder);
    }
}

static waldo_status write_tools(const waldo_model_epoch *epoch, waldo__json_writer *jw,
                                waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;

    waldo__jw_array(jw, "tools");
    for (size_t i = 0; i < epoch->tool_count && status == WALDO_OK; i++) {
        waldo_str schema = WALDO__S("{}");

        status = waldo__wire_schema(&epoch->tools[i], &schema, ret_err);
        waldo__jw_object(jw, NULL);
        waldo__jw_str(jw, "name", epoch->tools[i].name);
        waldo__jw_str(jw, "about", epoch->tools[i].about);
        waldo__jw_raw(jw, "schema", schema);
        waldo__jw_end(jw, '}');
    }
    waldo__jw_end(jw, ']');
    return status;
}

static void write_options(const waldo_model_epoch *epoch, waldo__json_writer *jw)
{
    const waldo_model_options *options = epoch->options;
    const double *temperature =
        epoch->temperature != NULL ? epoch->temperature : options->temperature;

    if (options->max_output_tokens != 0) {
        waldo__jw_int(jw, "max_output_tokens", options->max_output_tokens);
    }
    if (temperature != NULL) {
        waldo__jw_num(jw, "temperature", *temperature);
    }
    if (options->top_p != NULL) {
        waldo__jw_num(jw, "top_p", *options->top_p);
    }
    if (options->seed != NULL) {
        waldo__jw_int(jw, "seed", *options->seed);
    }
    if (options->reasoning != NULL) {
        waldo__jw_text(jw, "reasoning", options->reasoning);
    }
}

static waldo_status new_encoder(const waldo_model_epoch *epoch, waldo_encoder **ret_encoder,
                                waldo_error **ret_err)
{
    waldo_encoder *encoder = WALDO__NEW(waldo_encoder);
    waldo__json_writer jw;
    waldo_status status;

    if (encoder == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__buf_init(&encoder->vendor, WALDO__MODEL_MESSAGE_MAX);
    waldo__buf_init(&encoder->body, WALDO__REQUEST_MAX);
    waldo__model_vendor("callback", WALDO__S("host"), epoch->model, &encoder->vendor);
    waldo__json_writer_init(&jw, &encoder->body);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "model", epoch->model);
    write_options(epoch, &jw);
    if (epoch->output_schema.len > 0) {
        waldo__jw_raw(&jw, "output_schema", epoch->output_schema);
    }
    waldo__jw_bool(&jw, "parallel_calls", epoch->parallel_calls);
    waldo__jw_str(&jw, "instructions", epoch->instructions);
    status = write_tools(epoch, &jw, ret_err);
    waldo__jw_array(&jw, "items");
    if (status == WALDO_OK && encoder->body.status != WALDO_OK) {
        status = waldo__request_fail(&encoder->body, 0, encoder->body.status, "begun", ret_err);
    }
    if (status == WALDO_OK && encoder->vendor.status != WALDO_OK) {
        status = waldo__error_nomem(ret_err);
    }
    if (status != WALDO_OK) {
        free_encoder(encoder);
        return status;
    }
    encoder->frozen = encoder->body.len;
    *ret_encoder = encoder;
    return WALDO_OK;
}

/* Reasoning is for who made it; what providers kept for themselves is for nobody here. */
static waldo_status append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                           waldo_error **ret_err)
{
    size_t before = encoder->frozen;
    int had_items = encoder->has_items;
    waldo_status status;

    waldo__buf_truncate(&encoder->body, before);
    for (size_t i = 0; i < count; i++) {
        waldo_item item = items[i];

        if (item.kind == WALDO_ITEM_REASONING &&
            !waldo__str_eq(item.vendor, waldo__buf_str(&encoder->vendor))) {
            continue;
        }
        item.raw = item.vendor = WALDO__S("");
        waldo__buf_puts(&encoder->body, encoder->has_items ? ",\n" : "\n");
        waldo__item_write(&item, &encoder->body);
        encoder->has_items = 1;
    }
    status = encoder->body.status;
    if (status != WALDO_OK) {
        encoder->has_items = had_items;
        return waldo__request_fail(&encoder->body, before, status, "made longer", ret_err);
    }
    encoder->frozen = encoder->body.len;
    return WALDO_OK;
}

static waldo_status request(waldo_encoder *encoder, const waldo_model_turn *turn,
                            waldo_model_request *ret_request, waldo_error **ret_err)
{
    static const char *const choices[] = {
        [WALDO_TOOL_CHOICE_AUTO] = "auto",
        [WALDO_TOOL_CHOICE_REQUIRED] = "required",
        [WALDO_TOOL_CHOICE_NONE] = "none",
        [WALDO_TOOL_CHOICE_NAMED] = "named",
    };
    waldo__buf *body = &encoder->body;

    waldo__buf_truncate(body, encoder->frozen);
    waldo__buf_printf(body, "],\"tool_choice\":\"%s\"", choices[turn->tool_choice]);
    if (turn->tool_choice == WALDO_TOOL_CHOICE_NAMED) {
        waldo__buf_puts(body, ",\"tool_choice_name\":\"");
        waldo__json_escape(turn->tool_choice_name, body);
        waldo__buf_putc(body, '"');
    }
    if (waldo__buf_putc(body, '}') != WALDO_OK) {
        return waldo__request_fail(body, encoder->frozen, body->status, "ended", ret_err);
    }
    *ret_request = (waldo_model_request){ .size = sizeof *ret_request,
                                          .streamed = 1,
                                          .path = WALDO__S("/generate"),
                                          .headers = waldo__request_headers(1),
                                          .body = waldo__buf_str(body),
                                          .frozen_len = encoder->frozen };
    return WALDO_OK;
}

/* ---- answers ---- */

typedef struct part {
    waldo_item_kind kind;
    waldo__buf id;
    waldo__buf name;
    waldo__buf text; /* of a call: its arguments */
} part;

struct waldo_reader {
    waldo__buf line;
    struct {
        WALDO__VEC(part);
    } parts;
    waldo__answer answer; /* finish 0: not ended */
    int has_calls;
};

static void free_reader(waldo_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    for (size_t i = 0; i < reader->parts.count; i++) {
        waldo__buf_free(&reader->parts.at[i].id);
        waldo__buf_free(&reader->parts.at[i].name);
        waldo__buf_free(&reader->parts.at[i].text);
    }
    WALDO__VEC_FREE(&reader->parts);
    waldo__answer_free(&reader->answer);
    waldo__buf_free(&reader->line);
    waldo__free(reader);
}

static waldo_status new_reader(const waldo_model_options *options, waldo_str content_type,
                               waldo_reader **ret_reader)
{
    waldo_reader *reader = WALDO__NEW(waldo_reader);
    waldo_status status;

    (void)content_type;
    if (reader == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__buf_init_wiped(&reader->line, 2 * (size_t)WALDO__MODEL_EVENT_MAX);
    waldo__answer_init(&reader->answer);
    status = waldo__model_vendor("callback", WALDO__S("host"), waldo__model_rest(options),
                                 &reader->answer.vendor);
    if (status != WALDO_OK) {
        free_reader(reader);
        return status;
    }
    *ret_reader = reader;
    return WALDO_OK;
}

static part *add_part(waldo_reader *reader, waldo_item_kind kind)
{
    part *made = WALDO__VEC_PUSH(&reader->parts);

    if (made != NULL) {
        made->kind = kind;
        waldo__buf_init_wiped(&made->id, WALDO__MODEL_ARGS_MAX);
        waldo__buf_init_wiped(&made->name, WALDO__MODEL_ARGS_MAX);
        waldo__buf_init_wiped(&made->text, WALDO__MODEL_EVENT_MAX);
    }
    return made;
}

/* Pieces of one kind that follow each other are one text. */
static waldo_status take_text(waldo_reader *reader, waldo_item_kind kind, waldo_str text)
{
    part *last = reader->parts.count > 0 ? &reader->parts.at[reader->parts.count - 1] : NULL;

    if (last == NULL || last->kind != kind) {
        last = add_part(reader, kind);
    }
    return last != NULL ? waldo__buf_add_str(&last->text, text) : WALDO_ENOMEM;
}

static waldo_status take_call(waldo_reader *reader, const waldo__json_value *call)
{
    part *made = add_part(reader, WALDO_ITEM_TOOL_CALL);

    if (made == NULL) {
        return WALDO_ENOMEM;
    }
    reader->has_calls = 1;
    waldo__buf_add_str(&made->id, waldo__json_get_str(call, "id"));
    waldo__buf_add_str(&made->name, waldo__json_get_str(call, "name"));
    waldo__buf_add_str(&made->text, waldo__json_get_str(call, "args"));
    return made->id.status != WALDO_OK     ? made->id.status
           : made->name.status != WALDO_OK ? made->name.status
                                           : made->text.status;
}

static waldo_status take_line(waldo_reader *reader, const waldo__json_value *line,
                              waldo_delta_fn delta, void *userdata)
{
    waldo_usage *usage = &reader->answer.usage;
    const waldo__json_value *member;
    waldo_status status = WALDO_OK;
    waldo_str text;

    if (waldo__json_str(waldo__json_get(line, "text"), &text)) {
        status = take_text(reader, WALDO_ITEM_ASSISTANT, text);
        return status == WALDO_OK ? delta(userdata, WALDO_DELTA_TEXT, text) : status;
    }
    if (waldo__json_str(waldo__json_get(line, "reasoning"), &text)) {
        status = take_text(reader, WALDO_ITEM_REASONING, text);
        return status == WALDO_OK ? delta(userdata, WALDO_DELTA_REASONING, text) : status;
    }
    member = waldo__json_get(line, "call");
    if (member != NULL) {
        return take_call(reader, member);
    }
    member = waldo__json_get(line, "usage");
    if (member != NULL) {
        usage->input_tokens = waldo__json_get_int(member, "input_tokens", -1);
        usage->output_tokens = waldo__json_get_int(member, "output_tokens", -1);
        usage->cached_tokens = waldo__json_get_int(member, "cached_tokens", -1);
        usage->cache_write_tokens = waldo__json_get_int(member, "cache_write_tokens", -1);
        usage->reasoning_tokens = waldo__json_get_int(member, "reasoning_tokens", -1);
    }
    member = waldo__json_get(line, "finish");
    if (member != NULL) {
        int64_t finish = waldo__json_get_int(line, "finish", 0);

        reader->answer.finish = finish >= WALDO_FINISH_ANSWER && finish <= WALDO_FINISH_PAUSE
                                    ? (waldo_finish)finish
                                : reader->has_calls ? WALDO_FINISH_CALLS
                                                    : WALDO_FINISH_ANSWER;
    }
    return WALDO_OK;
}

static waldo_status read_line(waldo_reader *reader, waldo_delta_fn delta, void *userdata,
                              waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = 2 * (size_t)WALDO__MODEL_EVENT_MAX };
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(waldo__buf_str(&reader->line), &limits, &doc, ret_err);

    if (status == WALDO_OK) {
        status = take_line(reader, waldo__json_root(doc), delta, userdata);
        if (status != WALDO_OK) {
            waldo_error_set(ret_err, status, WALDO_CLASS_PROTOCOL,
                            "the answer could not be kept: %s", waldo_status_text(status));
        }
    }
    waldo__json_free(doc);
    return status;
}

static waldo_status feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                         void *userdata, waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;

    while (bytes.len > 0 && status == WALDO_OK && reader->answer.finish == 0) {
        size_t len = waldo__str_find(bytes, '\n');
        int is_whole = len < bytes.len;

        status = waldo__buf_add(&reader->line, bytes.ptr, len);
        if (status != WALDO_OK) {
            return waldo_error_set(ret_err, status, WALDO_CLASS_PROTOCOL,
                                   "a piece of the answer could not be kept: %s",
                                   waldo_status_text(status));
        }
        if (is_whole) {
            status = read_line(reader, delta, userdata, ret_err);
            waldo__buf_clear(&reader->line);
        }
        bytes = waldo__slice(bytes.ptr + len + is_whole, bytes.len - len - (size_t)is_whole);
    }
    return status;
}

static int complete(const waldo_reader *reader)
{
    return reader->answer.finish != 0;
}

static waldo_status make_items(waldo_reader *reader)
{
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < reader->parts.count && status == WALDO_OK; i++) {
        part *p = &reader->parts.at[i];
        waldo__buf raw = WALDO__BUF_INIT(1);
        waldo_item item = { .kind = p->kind };

        if (p->kind == WALDO_ITEM_TOOL_CALL) {
            status = waldo__answer_name_call(&reader->answer, &p->id, &raw);
            item.id = waldo__buf_str(&p->id);
            item.name = waldo__buf_str(&p->name);
            item.args = waldo__buf_str(&p->text);
        } else {
            item.text = waldo__buf_str(&p->text);
        }
        if (status == WALDO_OK && (p->kind == WALDO_ITEM_TOOL_CALL || item.text.len > 0)) {
            status = waldo__answer_push(&reader->answer, item);
        }
    }
    return status;
}

static waldo_status finish(waldo_reader *reader, waldo_response *ret_response,
                           waldo_error **ret_err)
{
    waldo__answer *answer = &reader->answer;

    if (answer->finish == 0) {
        return waldo_error_set(ret_err, WALDO_ETRUNCATED, WALDO_CLASS_PROTOCOL,
                               "the host's model stopped before the end of its answer");
    }
    if (!answer->is_finished && make_items(reader) != WALDO_OK) {
        return waldo__error_nomem(ret_err);
    }
    answer->is_finished = 1;
    if (answer->count == 0 && answer->finish == WALDO_FINISH_ANSWER) {
        return waldo_error_set(ret_err, WALDO_EPROVIDER, WALDO_CLASS_PROVIDER,
                               "the host's model ended its answer without text or a call");
    }
    *ret_response = (waldo_response){ .size = sizeof *ret_response,
                                      .finish = answer->finish,
                                      .items = answer->at,
                                      .item_count = answer->count,
                                      .usage = answer->usage };
    return WALDO_OK;
}

static void usage(const waldo_reader *reader, waldo_usage *ret_usage)
{
    waldo__answer_usage(&reader->answer, ret_usage);
}

const waldo_model_ops waldo__callback_ops = {
    .version = WALDO_MODEL_VERSION,
    .size = sizeof(waldo_model_ops),
    .name = "callback",
    .about = "callback:NAME is a function of the host",
    .parse = parse,
    .new_encoder = new_encoder,
    .append = append,
    .request = request,
    .free_encoder = free_encoder,
    .new_reader = new_reader,
    .feed = feed,
    .complete = complete,
    .finish = finish,
    .free_reader = free_reader,
    .classify = waldo__provider_classify,
    .usage = usage,
};
