/* One event of a Messages stream, or a whole message: what it adds to the answer. */
#include "base/alloc.h"
#include "model/messages.h"

enum { WORD_MAX = 256 };

static waldo_status fail_size(waldo_reader *reader, waldo_status status)
{
    if (status == WALDO_ETOOBIG) {
        return waldo__body_fail(&reader->body, status,
                                "the model's answer is too large, or has too many parts");
    }
    return waldo__body_fail_memory(&reader->body, status);
}

/* ---- the message ---- */

/* The whole prompt counts as input; what was read from the cache is told besides. */
static void make_usage(waldo_reader *reader)
{
    const waldo__messages_usage *from = &reader->usage;
    waldo_usage *to = &reader->answer.usage;
    int64_t read = from->cache_read > 0 ? from->cache_read : 0;
    int64_t written = from->cache_write > 0 ? from->cache_write : 0;

    if (from->input >= 0) {
        to->input_tokens = from->input + read + written;
        to->cached_tokens = read;
        to->cache_write_tokens = written;
    }
    if (from->output >= 0) {
        to->output_tokens = from->output;
        to->reasoning_tokens = from->thinking > 0 ? from->thinking : 0;
    }
}

/* Counts are totals: those that are there replace what was known. */
static void read_usage(waldo_reader *reader, const waldo__json_value *usage)
{
    waldo__messages_usage *known = &reader->usage;
    const waldo__json_value *details = waldo__json_get(usage, "output_tokens_details");

    known->input = waldo__json_get_int(usage, "input_tokens", known->input);
    known->output = waldo__json_get_int(usage, "output_tokens", known->output);
    known->cache_read = waldo__json_get_int(usage, "cache_read_input_tokens", known->cache_read);
    known->cache_write =
        waldo__json_get_int(usage, "cache_creation_input_tokens", known->cache_write);
    known->thinking = waldo__json_get_int(details, "thinking_tokens", known->thinking);
    make_usage(reader);
}

static void begin_message(waldo_reader *reader, const waldo__json_value *message)
{
    read_usage(reader, waldo__json_get(message, "usage"));
    if (reader->answer.id.len == 0) {
        waldo__provider_quote(waldo__json_get_str(message, "id"), 128, &reader->answer.id);
    }
}

/* A refusal says why; there is nothing else of it that could be kept. */
static waldo_status warn(waldo_reader *reader, const char *what, waldo_str category, waldo_str why)
{
    waldo__buf text = WALDO__BUF_WIPED(8 * WALDO__MODEL_MESSAGE_MAX);
    waldo_status status;

    waldo__buf_puts(&text, what);
    if (category.len > 0) {
        waldo__buf_puts(&text, " (");
        waldo__provider_quote(category, 64, &text);
        waldo__buf_puts(&text, ")");
    }
    if (why.len > 0) {
        waldo__buf_puts(&text, ": ");
        waldo__provider_quote(why, WALDO__MODEL_MESSAGE_MAX, &text);
    }
    status = waldo__body_emit(&reader->body, WALDO_DELTA_WARNING, waldo__buf_str(&text));
    waldo__buf_free(&text);
    return status;
}

/* Behind whole arguments, some servers send what stands for none. */
static waldo_status drop_stray(waldo_reader *reader)
{
    int told = 0;

    for (size_t i = 0; i < reader->blocks.count; i++) {
        waldo__block *block = reader->blocks.at[i];

        told |= block->kind == WALDO__BLOCK_CALL && waldo__args_drop_stray(&block->args);
    }
    return told ? waldo__body_tell_stray(&reader->body) : WALDO_OK;
}

/* Members of a message that come at its end: of the event's delta, or of the message itself. */
static waldo_status end_message(waldo_reader *reader, const waldo__json_value *message)
{
    waldo_str reason = waldo__json_get_str(message, "stop_reason");
    waldo_status status = WALDO_OK;

    if (reason.len == 0) {
        return WALDO_OK;
    }
    waldo__buf_clear(&reader->stop);
    waldo__provider_quote(reason, WORD_MAX, &reader->stop);
    if (waldo__str_is(reason, "refusal")) {
        message = waldo__json_get(message, "stop_details");
        return warn(reader, "the model refused", waldo__json_get_str(message, "category"),
                    waldo__json_get_str(message, "explanation"));
    }
    if (!waldo__messages_stop_is_known(reason)) { /* it ends the answer, but may mean more */
        status = warn(reader, "the model stopped for a reason that is not known", WALDO__S(""),
                      waldo__buf_str(&reader->stop));
    }
    return status >= 0 ? drop_stray(reader) : status;
}

/* ---- blocks ---- */

static waldo_status add_text(waldo_reader *reader, waldo__block *block, waldo_str piece)
{
    waldo_status status;

    if (piece.len == 0) {
        return WALDO_OK;
    }
    status = waldo__blocks_count(&reader->blocks, piece.len);
    if (status != WALDO_OK) {
        return fail_size(reader, status);
    }
    if (block->kind == WALDO__BLOCK_OTHER) {
        status = waldo__model_text_add(&block->shown, piece);
        return status == WALDO_OK ? WALDO_OK : fail_size(reader, status);
    }
    return waldo__body_add_text(
        &reader->body, &block->shown,
        block->kind == WALDO__BLOCK_THINKING ? WALDO_DELTA_REASONING : WALDO_DELTA_TEXT, piece);
}

static waldo_status keep(waldo_reader *reader, waldo__buf *into, waldo_str text)
{
    waldo_status status = waldo__blocks_count(&reader->blocks, text.len);

    if (status == WALDO_OK) {
        status = waldo__model_text_plain(text, into);
    }
    return status == WALDO_OK ? WALDO_OK : fail_size(reader, status);
}

static waldo_status keep_json(waldo_reader *reader, waldo__buf *into, waldo_str raw)
{
    waldo__buf compact = WALDO__BUF_WIPED(WALDO__MODEL_EVENT_MAX);
    waldo_status status = waldo__json_raw_compact(raw, &compact);

    status = status == WALDO_OK ? keep(reader, into, waldo__buf_str(&compact))
                                : fail_size(reader, status);
    waldo__buf_free(&compact);
    return status;
}

/* raw are the bytes of the block. */
static waldo_status begin_block(waldo_reader *reader, int64_t index, const waldo__json_value *value,
                                waldo_str raw)
{
    waldo__block_kind kind = waldo__block_kind_of(waldo__json_get_str(value, "type"));
    waldo__block *block;
    waldo_status status = waldo__blocks_add(&reader->blocks, kind, index, &block);

    if (status != WALDO_OK) {
        return fail_size(reader, status);
    }
    status = keep_json(reader, &block->begun, raw);
    if (status == WALDO_OK) {
        status = keep(reader, &block->signature, waldo__json_get_str(value, "signature"));
    }
    if (status == WALDO_OK) {
        status = keep(reader, &block->name, waldo__str_trim(waldo__json_get_str(value, "name")));
    }
    if (status == WALDO_OK) {
        status = keep(reader, &block->id, waldo__str_trim(waldo__json_get_str(value, "id")));
    }
    if (status != WALDO_OK) {
        return status;
    }
    if (kind == WALDO__BLOCK_CALL) {
        return block->name.len > 0
                   ? waldo__body_emit(&reader->body, WALDO_DELTA_CALL, waldo__buf_str(&block->name))
                   : WALDO_OK;
    }
    return kind == WALDO__BLOCK_OTHER
               ? WALDO_OK
               : add_text(
                     reader, block,
                     waldo__json_get_str(value, kind == WALDO__BLOCK_TEXT ? "text" : "thinking"));
}

/* The block that a piece is for; one that has no beginning begins with it. */
static waldo_status find_block(waldo_reader *reader, int64_t index, waldo__block_kind kind,
                               waldo__block **ret_block)
{
    waldo__block *block = waldo__blocks_find(&reader->blocks, index);
    waldo_status status = WALDO_OK;

    if (block == NULL || (block->kind != kind && block->kind != WALDO__BLOCK_OTHER)) {
        status = waldo__blocks_add(&reader->blocks, kind, index, &block);
    }
    *ret_block = block;
    return status == WALDO_OK ? WALDO_OK : fail_size(reader, status);
}

/* ---- pieces ---- */

typedef enum piece_action {
    PIECE_TEXT = 1,
    PIECE_ARGS,
    PIECE_SIGNATURE, /* replaces the one before */
    PIECE_CITATION
} piece_action;

static const struct {
    const char *type;
    const char *member;
    waldo__block_kind kind;
    piece_action action;
} pieces[] = {
    { "text_delta", "text", WALDO__BLOCK_TEXT, PIECE_TEXT },
    { "thinking_delta", "thinking", WALDO__BLOCK_THINKING, PIECE_TEXT },
    { "input_json_delta", "partial_json", WALDO__BLOCK_CALL, PIECE_ARGS },
    { "signature_delta", "signature", WALDO__BLOCK_THINKING, PIECE_SIGNATURE },
    { "citations_delta", "citation", WALDO__BLOCK_TEXT, PIECE_CITATION },
};

static waldo_status add_citation(waldo_reader *reader, waldo__block *block, waldo_str delta_raw)
{
    waldo_str raw;

    if (!waldo__json_raw_get(delta_raw, "citation", &raw)) {
        return WALDO_OK;
    }
    waldo__buf_puts(&block->citations, block->citations.len > 0 ? "," : "");
    return keep_json(reader, &block->citations, raw);
}

/* A piece of a string goes where it belongs. */
static waldo_status take_piece(waldo_reader *reader, waldo__block *block, int action,
                               waldo_str piece)
{
    return action == PIECE_TEXT ? add_text(reader, block, piece)
                                : keep(reader, &block->args, piece);
}

/* text is the whole event, raw its delta. */
static waldo_status add_piece(waldo_reader *reader, int64_t index, const waldo__json_value *delta,
                              waldo_str raw, waldo_str text)
{
    waldo_str type = waldo__json_get_str(delta, "type");
    size_t row = 0;
    waldo__block *block;
    waldo_status status;
    waldo_str piece;

    while (row < WALDO__COUNT(pieces) && !waldo__str_is(type, pieces[row].type)) {
        row++;
    }
    if (row == WALDO__COUNT(pieces)) {
        return WALDO_OK;
    }
    status = find_block(reader, index, pieces[row].kind, &block);
    if (status != WALDO_OK) {
        return status;
    }
    piece = waldo__json_get_str(delta, pieces[row].member);
    switch (pieces[row].action) {
    case PIECE_TEXT:
    case PIECE_ARGS:
        if (piece.len > 0) {
            waldo__fast_learn(&reader->fast, text, (int)pieces[row].action, pieces[row].member,
                              NULL);
            reader->fast_block = block;
        }
        return take_piece(reader, block, (int)pieces[row].action, piece);
    case PIECE_SIGNATURE:
        waldo__buf_clear(&block->signature);
        return keep(reader, &block->signature, piece);
    default:
        return add_citation(reader, block, raw);
    }
}

/* ---- one event ---- */

typedef enum event_action {
    ACTION_BEGIN,
    ACTION_BLOCK,
    ACTION_PIECE,
    ACTION_END,
    ACTION_DONE,
    ACTION_ERROR
} event_action;

static const struct {
    const char *type;
    event_action action;
    const char *member;
} rows[] = {
    { "message_start", ACTION_BEGIN, "message" },
    { "content_block_start", ACTION_BLOCK, "content_block" },
    { "content_block_delta", ACTION_PIECE, "delta" },
    { "message_delta", ACTION_END, "delta" },
    { "message_stop", ACTION_DONE, "" },
    { "error", ACTION_ERROR, "" },
};

static waldo_status read_row(waldo_reader *reader, size_t row, const waldo__json_value *root,
                             waldo_str text)
{
    const waldo__json_value *inner = waldo__json_get(root, rows[row].member);
    int64_t index = waldo__json_get_int(root, "index", -1);
    waldo_str raw = WALDO__S("{}");

    waldo__json_raw_get(text, rows[row].member, &raw);
    switch (rows[row].action) {
    case ACTION_BEGIN:
        begin_message(reader, inner);
        return WALDO_OK;
    case ACTION_BLOCK:
        return begin_block(reader, index, inner, raw);
    case ACTION_PIECE:
        return add_piece(reader, index, inner, raw, text);
    case ACTION_END:
        read_usage(reader, waldo__json_get(root, "usage"));
        return end_message(reader, inner);
    case ACTION_DONE:
        reader->body.is_done = 1;
        return WALDO_OK;
    default:
        return waldo__body_fail_provider(&reader->body, root, text);
    }
}

/* The type inside of the JSON counts; ping, ends of blocks and what is not known say nothing. */
static waldo_status read_parsed(waldo_reader *reader, waldo_str name, const waldo__json_value *root,
                                waldo_str text)
{
    waldo_str said = waldo__json_get_str(root, "type"), type = said.len > 0 ? said : name;

    if (waldo__json_type_of(root) != WALDO__JSON_OBJECT) {
        return waldo__body_fail(&reader->body, WALDO_EPROTO,
                                "the model server sent JSON that is not an object");
    }
    if (waldo__body_holds_error(root)) {
        return waldo__body_fail_provider(&reader->body, root, text);
    }
    for (size_t row = 0; row < WALDO__COUNT(rows); row++) {
        if (waldo__str_is(type, rows[row].type)) {
            waldo_status status = read_row(reader, row, root, text);

            if (said.len == 0) {
                reader->fast.effect = 0; /* its name belongs to it */
            }
            return status;
        }
    }
    return WALDO_OK;
}

waldo_status waldo__messages_read_event(void *userdata, waldo_str name, waldo_str data)
{
    waldo_reader *reader = userdata;
    waldo_str text = waldo__str_trim(data), parsed;
    waldo__json *doc = NULL;
    waldo_status status;

    if (reader->body.is_done || text.len == 0 || waldo__str_is(text, "[DONE]")) {
        return WALDO_OK;
    }
    if (waldo__fast_match(&reader->fast, text, &parsed)) {
        return take_piece(reader, reader->fast_block, reader->fast.effect, parsed);
    }
    reader->fast.effect = 0; /* what comes may begin or end the block */
    status = waldo__body_parse(&reader->body, text, &doc, &parsed);
    if (status == WALDO_OK) {
        status = read_parsed(reader, name, waldo__json_root(doc), parsed);
        waldo__json_free(doc);
    }
    return status;
}

/* ---- a body that is not a stream ---- */

static waldo_status read_message(waldo_reader *reader, const waldo__json_value *root,
                                 waldo_str text)
{
    const waldo__json_value *content = waldo__json_get(root, "content");
    const waldo__json_value *block = waldo__json_first(content);
    waldo_str raw = WALDO__S("[]"), key, bytes;
    waldo_status status = WALDO_OK;
    waldo__json_raw elements;
    int64_t index = 0;

    if (waldo__body_holds_error(root) || waldo__json_type_of(content) != WALDO__JSON_ARRAY) {
        return waldo__body_fail_provider(&reader->body, root, text);
    }
    begin_message(reader, root);
    waldo__json_raw_get(text, "content", &raw);
    waldo__json_raw_begin(&elements, raw);
    for (; block != NULL && status >= 0 && waldo__json_raw_next(&elements, &key, &bytes);
         block = waldo__json_next(block)) {
        status = begin_block(reader, index++, block, bytes);
    }
    return status >= 0 ? end_message(reader, root) : status;
}

waldo_status waldo__messages_read_whole(waldo_reader *reader, waldo_str text)
{
    waldo__json *doc = NULL;
    waldo_str parsed;
    waldo_status status = waldo__body_parse(&reader->body, text, &doc, &parsed);

    if (status != WALDO_OK) {
        return status;
    }
    status = waldo__json_type_of(waldo__json_root(doc)) == WALDO__JSON_OBJECT
                 ? read_message(reader, waldo__json_root(doc), parsed)
                 : waldo__body_fail(&reader->body, WALDO_EPROTO,
                                    "the model server sent JSON that is not an object");
    waldo__json_free(doc);
    return status;
}
