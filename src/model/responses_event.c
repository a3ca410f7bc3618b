/* One event of a Responses stream, or a whole response: what it adds to the answer. */
#include "base/alloc.h"
#include "model/responses.h"

enum { WORD_MAX = 128 };

typedef enum event_action {
    ACTION_PIECE,      /* of text */
    ACTION_WHOLE,      /* the same text from its beginning to its end */
    ACTION_ARGS_PIECE, /* of the arguments of a call */
    ACTION_ARGS_WHOLE,
    ACTION_ITEM_ADDED,
    ACTION_ITEM_DONE,
    ACTION_BEGIN,
    ACTION_COMPLETED, /* from here on: terminal */
    ACTION_INCOMPLETE,
    ACTION_FAILED,
    ACTION_ERROR
} event_action;

typedef struct waldo__responses_row {
    const char *type;
    event_action action;
    waldo__part_kind kind;
    const char *member;  /* what holds the text */
    const char *section; /* what tells one text of an item from the next */
} event_row;

/* Events that are not here say nothing that the items and the terminal event do not. */
static const event_row rows[] = {
    { "response.output_text.delta", ACTION_PIECE, WALDO__PART_MESSAGE, "delta", "content_index" },
    { "response.output_text.done", ACTION_WHOLE, WALDO__PART_MESSAGE, "text", "content_index" },
    { "response.refusal.delta", ACTION_PIECE, WALDO__PART_MESSAGE, "delta", "content_index" },
    { "response.refusal.done", ACTION_WHOLE, WALDO__PART_MESSAGE, "refusal", "content_index" },
    { "response.reasoning_summary_text.delta", ACTION_PIECE, WALDO__PART_REASONING, "delta",
      "summary_index" },
    { "response.reasoning_summary_text.done", ACTION_WHOLE, WALDO__PART_REASONING, "text",
      "summary_index" },
    { "response.reasoning_text.delta", ACTION_PIECE, WALDO__PART_REASONING, "delta",
      "content_index" },
    { "response.reasoning_text.done", ACTION_WHOLE, WALDO__PART_REASONING, "text",
      "content_index" },
    { "response.function_call_arguments.delta", ACTION_ARGS_PIECE, WALDO__PART_CALL, "delta",
      NULL },
    { "response.function_call_arguments.done", ACTION_ARGS_WHOLE, WALDO__PART_CALL, "arguments",
      NULL },
    { "response.custom_tool_call_input.delta", ACTION_ARGS_PIECE, WALDO__PART_CALL, "delta", NULL },
    { "response.custom_tool_call_input.done", ACTION_ARGS_WHOLE, WALDO__PART_CALL, "input", NULL },
    { "response.output_item.added", ACTION_ITEM_ADDED, WALDO__PART_OTHER, "item", NULL },
    { "response.output_item.done", ACTION_ITEM_DONE, WALDO__PART_OTHER, "item", NULL },
    { "response.created", ACTION_BEGIN, WALDO__PART_OTHER, "response", NULL },
    { "response.completed", ACTION_COMPLETED, WALDO__PART_OTHER, "response", NULL },
    { "response.incomplete", ACTION_INCOMPLETE, WALDO__PART_OTHER, "response", NULL },
    { "response.failed", ACTION_FAILED, WALDO__PART_OTHER, "response", NULL },
    { "error", ACTION_ERROR, WALDO__PART_OTHER, NULL, NULL },
};

static waldo_status fail_size(waldo_reader *reader, waldo_status status)
{
    if (status == WALDO_ETOOBIG) {
        return waldo__body_fail(&reader->body, status,
                                "the model's answer is too large, or has too many parts");
    }
    return waldo__body_fail_memory(&reader->body, status);
}

/* ---- pieces ---- */

static waldo_status find_or_add(waldo_reader *reader, const waldo__place *place,
                                waldo__part **ret_part)
{
    *ret_part = waldo__parts_find(&reader->parts, place);
    return *ret_part != NULL ? WALDO_OK : waldo__parts_add(&reader->parts, place, ret_part);
}

static waldo_delta_kind delta_kind(const waldo__part *part)
{
    return part->kind == WALDO__PART_REASONING ? WALDO_DELTA_REASONING : WALDO_DELTA_TEXT;
}

/* Texts of reasoning are paragraphs; those of a message follow each other directly. */
static waldo_status begin_section(waldo_reader *reader, waldo__part *part, int64_t section)
{
    int is_next = part->section != section && part->section >= 0;

    part->section_len = part->section != section ? 0 : part->section_len;
    part->section = section;
    return is_next && part->kind == WALDO__PART_REASONING && part->shown.text.len > 0
               ? waldo__body_add_text(&reader->body, &part->shown, WALDO_DELTA_REASONING,
                                      WALDO__S("\n\n"))
               : WALDO_OK;
}

static waldo_status add_piece(waldo_reader *reader, waldo__part *part, const event_row *row,
                              waldo_str piece, int64_t section)
{
    waldo_status status;

    if (piece.len == 0 || part->is_done) {
        return WALDO_OK;
    }
    status = begin_section(reader, part, section);
    if (status < 0 || (row->action == ACTION_WHOLE && part->section_len > 0)) {
        return status;
    }
    part->section_len += piece.len;
    status = waldo__parts_count(&reader->parts, piece.len);
    return status == WALDO_OK
               ? waldo__body_add_text(&reader->body, &part->shown, delta_kind(part), piece)
               : fail_size(reader, status);
}

static waldo_status tell_call(waldo_reader *reader, waldo__part *part)
{
    if (part->kind != WALDO__PART_CALL || part->is_told || part->name.len == 0) {
        return WALDO_OK;
    }
    part->is_told = 1;
    return waldo__body_emit(&reader->body, WALDO_DELTA_CALL, waldo__buf_str(&part->name));
}

/* The next event like this one needs no parse; every other event makes it forgotten. */
static void learn(waldo_reader *reader, waldo_str text, waldo__part *part, const event_row *row)
{
    int is_piece =
        row->action == ACTION_PIECE || (row->action == ACTION_ARGS_PIECE && part->is_told);

    if (is_piece && !part->is_done) {
        waldo__fast_learn(&reader->fast, text, 1, row->member, "sequence_number");
        reader->fast_part = part;
        reader->fast_row = row;
    }
}

/* What the event that was learnt did, with another piece. */
static waldo_status read_piece(waldo_reader *reader, waldo_str piece)
{
    waldo__part *part = reader->fast_part;
    waldo_status status;

    if (reader->fast_row->action == ACTION_PIECE) {
        return add_piece(reader, part, reader->fast_row, piece, part->section);
    }
    status = waldo__parts_count(&reader->parts, piece.len);
    status = status == WALDO_OK ? waldo__model_text_plain(piece, &part->args) : status;
    return status == WALDO_OK ? WALDO_OK : fail_size(reader, status);
}

static waldo_status add_args(waldo_reader *reader, waldo__part *part, const event_row *row,
                             const waldo__json_value *root)
{
    const waldo__json_value *value = waldo__json_get(root, row->member);
    waldo_status status = WALDO_OK;

    if (part->is_done || value == NULL) {
        return WALDO_OK;
    }
    if (row->action == ACTION_ARGS_WHOLE) {
        waldo__buf_clear(&part->args);
    }
    if (part->name.len == 0) {
        status = waldo__buf_add_str(&part->name, waldo__json_get_str(root, "name"));
    }
    if (status == WALDO_OK) {
        size_t before = part->args.len;

        status = waldo__body_read_args(value, &part->args);
        status = status == WALDO_OK ? waldo__parts_count(&reader->parts, part->args.len - before)
                                    : status;
    }
    return status == WALDO_OK ? tell_call(reader, part) : fail_size(reader, status);
}

/* ---- items ---- */

/* What was not shown of an item's text before the item was whole. */
static waldo_status show_rest(waldo_reader *reader, waldo__part *part)
{
    waldo_str shown = waldo__buf_str(&part->shown.text), text = waldo__buf_str(&part->text);

    if (shown.len >= text.len || memcmp(shown.ptr, text.ptr, shown.len) != 0) {
        return WALDO_OK;
    }
    part->shown.high = 0;
    return waldo__body_add_text(&reader->body, &part->shown, delta_kind(part),
                                waldo__strn(text.ptr + shown.len, text.len - shown.len));
}

static waldo_status take_item(waldo_reader *reader, waldo__part *part,
                              const waldo__json_value *item, waldo_str raw)
{
    waldo_status status = waldo__parts_count(&reader->parts, raw.len);

    if (status == WALDO_OK) {
        status = waldo__part_fill(part, item, raw);
    }
    if (status != WALDO_OK) {
        return fail_size(reader, status);
    }
    status = tell_call(reader, part);
    return status >= 0 ? show_rest(reader, part) : status;
}

static waldo_status add_item(waldo_reader *reader, const waldo__place *place,
                             const waldo__json_value *item)
{
    waldo__part *part;
    waldo_status status = waldo__parts_add(&reader->parts, place, &part);

    if (status == WALDO_OK) {
        part->is_freeform = waldo__part_is_freeform(item);
        waldo__buf_add_str(&part->name, waldo__str_trim(waldo__json_get_str(item, "name")));
        status = waldo__buf_add_str(&part->call_id,
                                    waldo__str_trim(waldo__json_get_str(item, "call_id")));
    }
    return status == WALDO_OK ? tell_call(reader, part) : fail_size(reader, status);
}

static waldo_status end_item(waldo_reader *reader, const waldo__place *place,
                             const waldo__json_value *item, waldo_str raw)
{
    waldo__part *part = waldo__parts_find(&reader->parts, place);
    waldo_status status = WALDO_OK;

    if (part == NULL || part->is_done) {
        status = waldo__parts_add(&reader->parts, place, &part);
    }
    return status == WALDO_OK ? take_item(reader, part, item, raw) : fail_size(reader, status);
}

/* ---- the response ---- */

/* The part that an element of the output is: by its place, for one that was not taken yet. */
static waldo__part *part_of_output(const waldo__parts *parts, waldo__part_kind kind, int64_t order,
                                   waldo_str item_id)
{
    waldo__part *same = NULL;

    for (size_t i = 0; i < parts->count; i++) {
        waldo__part *part = parts->at[i];

        if (part->kind != kind || part->order >= 0) {
            continue;
        }
        if (part->index == order ||
            (item_id.len > 0 && waldo__str_eq(waldo__buf_str(&part->item_id), item_id))) {
            return part;
        }
        same = same == NULL && part->index < 0 ? part : same;
    }
    return same;
}

/* The items as the terminal event lists them replace what was collected. */
static waldo_status read_output(waldo_reader *reader, const waldo__json_value *output,
                                waldo_str raw)
{
    const waldo__json_value *item = waldo__json_first(output);
    waldo_status status = WALDO_OK;
    waldo__json_raw elements;
    waldo_str key, bytes;
    int64_t order = 0;

    waldo__json_raw_begin(&elements, raw);
    for (; item != NULL && status >= 0 && waldo__json_raw_next(&elements, &key, &bytes);
         item = waldo__json_next(item), order++) {
        waldo__place place = { .index = order,
                               .item_id = waldo__json_get_str(item, "id"),
                               .kind = waldo__part_kind_of(item) };
        waldo__part *part = part_of_output(&reader->parts, place.kind, order, place.item_id);

        if (part == NULL) {
            status = waldo__parts_add(&reader->parts, &place, &part);
            if (status != WALDO_OK) {
                return fail_size(reader, status);
            }
        }
        part->order = order;
        status = take_item(reader, part, item, bytes);
    }
    reader->has_output = order > 0;
    return status;
}

/* Counts that a server leaves out of a usage that it does report are zero. */
static void read_usage(waldo_reader *reader, const waldo__json_value *usage)
{
    const waldo__json_value *input = waldo__json_get(usage, "input_tokens_details");
    const waldo__json_value *output = waldo__json_get(usage, "output_tokens_details");

    if (waldo__json_type_of(usage) != WALDO__JSON_OBJECT) {
        return;
    }
    reader->answer.usage = (waldo_usage){
        .input_tokens = waldo__json_get_int(usage, "input_tokens", -1),
        .output_tokens = waldo__json_get_int(usage, "output_tokens", -1),
        .cached_tokens = waldo__json_get_int(input, "cached_tokens", 0),
        .cache_write_tokens = waldo__json_get_int(input, "cache_write_tokens", 0),
        .reasoning_tokens = waldo__json_get_int(output, "reasoning_tokens", 0),
    };
}

/* Newer servers leave out reasoning that belongs to another model or user, and say so. */
static waldo_status warn_removed(waldo_reader *reader, const waldo__json_value *changes)
{
    waldo__buf text = WALDO__BUF_WIPED(512);
    waldo_str reason = WALDO__S("");
    size_t removed = 0;
    waldo_status status = WALDO_OK;

    if (waldo__json_type_of(changes) != WALDO__JSON_ARRAY) {
        return WALDO_OK;
    }
    for (const waldo__json_value *change = waldo__json_first(changes); change != NULL;
         change = waldo__json_next(change)) {
        if (waldo__str_is(waldo__json_get_str(change, "action"), "removed")) {
            removed++;
            reason = waldo__json_get_str(change, "reason");
        }
    }
    if (removed > 0) {
        waldo__buf_printf(&text, "the provider left out %zu items of earlier reasoning: ", removed);
        waldo__provider_quote(reason, 64, &text);
        status = waldo__body_emit(&reader->body, WALDO_DELTA_WARNING, waldo__buf_str(&text));
    }
    waldo__buf_free(&text);
    return status;
}

/* What the provider may do better next time; every other failure is final. */
static int may_try_again(const waldo__json_value *error)
{
    static const char *const codes[] = { "server_error", "rate_limit_exceeded",
                                         "vector_store_timeout" };
    waldo_str code = waldo__json_get_str(error, "code");

    for (size_t i = 0; i < WALDO__COUNT(codes); i++) {
        if (waldo__str_is(code, codes[i])) {
            return 1;
        }
    }
    return code.len == 0;
}

static waldo_status fail_response(waldo_reader *reader, const waldo__json_value *response)
{
    const waldo__json_value *error = waldo__json_get(response, "error");

    return reader->body.status = waldo__provider_error(
               0, waldo__str(may_try_again(error) ? "" : "x-should-retry: false\n"), response,
               WALDO__S(""), &reader->body.error);
}

static void read_id(waldo_reader *reader, const waldo__json_value *response)
{
    if (reader->answer.id.len == 0) {
        waldo__provider_quote(waldo__json_get_str(response, "id"), WORD_MAX, &reader->answer.id);
    }
}

/* An item sent back as it came would hold it again. */
static waldo_status drop_stray(waldo_reader *reader)
{
    int told = 0;

    for (size_t i = 0; i < reader->parts.count; i++) {
        waldo__part *part = reader->parts.at[i];

        if (part->kind == WALDO__PART_CALL && !part->is_freeform &&
            waldo__args_drop_stray(&part->args)) {
            waldo__buf_clear(&part->raw);
            told = 1;
        }
    }
    return told ? waldo__body_tell_stray(&reader->body) : WALDO_OK;
}

/* The id to go on from must be all of it; one that is too long is none. */
static waldo_status take_id(waldo_reader *reader, waldo_str id)
{
    waldo__buf_clear(&reader->answer.id);
    return id.len > WALDO__MODEL_ID_MAX || waldo__buf_add_str(&reader->answer.id, id) == WALDO_OK
               ? WALDO_OK
               : waldo__body_fail_memory(&reader->body, reader->answer.id.status);
}

static waldo_status end_response(waldo_reader *reader, event_action action,
                                 const waldo__json_value *response, waldo_str raw)
{
    const waldo__json_value *output = waldo__json_get(response, "output");
    waldo_str reason =
        waldo__json_get_str(waldo__json_get(response, "incomplete_details"), "reason");
    waldo_str raw_output;
    waldo_status status = WALDO_OK;

    reader->body.is_done = 1;
    if (!reader->is_remote) {
        read_id(reader, response);
    } else if (take_id(reader, waldo__json_get_str(response, "id")) != WALDO_OK) {
        return reader->body.status;
    }
    read_usage(reader, waldo__json_get(response, "usage"));
    if (action == ACTION_FAILED) {
        return fail_response(reader, response);
    }
    if (reader->is_remote && !waldo__json_get_bool(response, "store", 1)) {
        return waldo__body_fail(&reader->body, WALDO_ENOTSUP,
                                "the model server does not keep its responses (store: false), so "
                                "history=provider loses the conversation: drop that option");
    }
    reader->ending = action == ACTION_COMPLETED                ? WALDO__RESPONSES_ENDING_COMPLETED
                     : waldo__str_is(reason, "content_filter") ? WALDO__RESPONSES_ENDING_FILTER
                                                               : WALDO__RESPONSES_ENDING_LENGTH;
    if (waldo__json_type_of(output) == WALDO__JSON_ARRAY &&
        waldo__json_raw_get(raw, "output", &raw_output)) {
        status = read_output(reader, output, raw_output);
    }
    if (status >= 0) {
        status = drop_stray(reader);
    }
    return status >= 0 ? warn_removed(reader, waldo__json_get(response, "input_transformations"))
                       : status;
}

/* ---- one event ---- */

static const event_row *find_row(waldo_str type)
{
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        if (waldo__str_is(type, rows[i].type)) {
            return &rows[i];
        }
    }
    return NULL;
}

static waldo_status read_row(waldo_reader *reader, const event_row *row,
                             const waldo__json_value *root, waldo_str text)
{
    const waldo__json_value *inner = waldo__json_get(root, row->member != NULL ? row->member : "");
    waldo__place place = { .index = waldo__json_get_int(root, "output_index", -1),
                           .item_id = waldo__json_get_str(root, "item_id"),
                           .kind = row->kind };
    waldo__part *part;
    waldo_str raw = WALDO__S("");
    waldo_status status;

    if (row->action >= ACTION_ITEM_ADDED) {
        waldo__json_raw_get(text, row->member != NULL ? row->member : "", &raw);
        place.kind = waldo__part_kind_of(inner);
        place.item_id = waldo__json_get_str(inner, "id");
    }
    switch (row->action) {
    case ACTION_ITEM_ADDED:
        return add_item(reader, &place, inner);
    case ACTION_ITEM_DONE:
        return end_item(reader, &place, inner, raw);
    case ACTION_BEGIN:
        read_id(reader, inner);
        return WALDO_OK;
    case ACTION_COMPLETED:
    case ACTION_INCOMPLETE:
    case ACTION_FAILED:
        return end_response(reader, row->action, inner, raw);
    case ACTION_ERROR:
        return waldo__body_fail_provider(&reader->body, root, text);
    default:
        break;
    }
    status = find_or_add(reader, &place, &part);
    if (status != WALDO_OK) {
        return fail_size(reader, status);
    }
    status = row->action == ACTION_PIECE || row->action == ACTION_WHOLE
                 ? add_piece(reader, part, row, waldo__json_get_str(root, row->member),
                             waldo__json_get_int(root, row->section, 0))
                 : add_args(reader, part, row, root);
    if (status == WALDO_OK && waldo__json_get_str(root, "type").len > 0 &&
        waldo__json_get_str(root, row->member).len > 0) {
        learn(reader, text, part, row);
    }
    return status;
}

/* The type inside of the JSON counts; some servers leave out one or the other. */
static waldo_status read_event(waldo_reader *reader, waldo_str name, waldo_str text)
{
    waldo__json *doc = NULL;
    waldo_str parsed, type;
    const waldo__json_value *root;
    const event_row *row;
    waldo_status status = waldo__body_parse(&reader->body, text, &doc, &parsed);

    if (status != WALDO_OK) {
        return status;
    }
    root = waldo__json_root(doc);
    type = waldo__json_get_str(root, "type");
    row = find_row(type.len > 0 ? type : name);
    if (waldo__json_type_of(root) != WALDO__JSON_OBJECT) {
        status = waldo__body_fail(&reader->body, WALDO_EPROTO,
                                  "the model server sent JSON that is not an object");
    } else if (waldo__body_holds_error(root)) {
        status = waldo__body_fail_provider(&reader->body, root, text);
    } else if (row != NULL) {
        status = read_row(reader, row, root, parsed);
    }
    waldo__json_free(doc);
    return status;
}

waldo_status waldo__responses_read_event(void *userdata, waldo_str name, waldo_str data)
{
    waldo_reader *reader = userdata;
    waldo_str text = waldo__str_trim(data), piece;

    if (reader->body.is_done || text.len == 0) {
        return WALDO_OK;
    }
    if (waldo__str_is(text, "[DONE]")) {
        reader->body.is_done = 1;
        return WALDO_OK;
    }
    if (waldo__fast_match(&reader->fast, text, &piece)) {
        return read_piece(reader, piece);
    }
    reader->fast.effect = 0;
    return read_event(reader, name, text);
}

/* ---- a body that is not a stream ---- */

static waldo_status read_response(waldo_reader *reader, const waldo__json_value *root,
                                  waldo_str parsed)
{
    waldo_str status = waldo__json_get_str(root, "status");
    int has_output = waldo__json_type_of(waldo__json_get(root, "output")) == WALDO__JSON_ARRAY;

    if (waldo__str_is(status, "failed")) {
        return end_response(reader, ACTION_FAILED, root, parsed);
    }
    if (waldo__body_holds_error(root) || (status.len == 0 && !has_output)) {
        return waldo__body_fail_provider(&reader->body, root, parsed);
    }
    if (waldo__str_is(status, "incomplete")) {
        return end_response(reader, ACTION_INCOMPLETE, root, parsed);
    }
    if (status.len > 0 && !waldo__str_is(status, "completed")) {
        waldo__buf word = WALDO__BUF_WIPED(WORD_MAX);

        waldo__provider_quote(status, 32, &word);
        waldo__body_fail(&reader->body, WALDO_EPROVIDER,
                         "the model server answered with a response that is \"%s\"",
                         waldo__buf_str(&word).ptr);
        waldo__buf_free(&word);
        return reader->body.status;
    }
    return end_response(reader, ACTION_COMPLETED, root, parsed);
}

waldo_status waldo__responses_read_whole(waldo_reader *reader, waldo_str text)
{
    waldo__json *doc = NULL;
    waldo_str parsed;
    waldo_status status = waldo__body_parse(&reader->body, text, &doc, &parsed);

    if (status != WALDO_OK) {
        return status;
    }
    status = waldo__json_type_of(waldo__json_root(doc)) == WALDO__JSON_OBJECT
                 ? read_response(reader, waldo__json_root(doc), parsed)
                 : waldo__body_fail(&reader->body, WALDO_EPROTO,
                                    "the model server sent JSON that is not an object");
    waldo__json_free(doc);
    return status;
}
