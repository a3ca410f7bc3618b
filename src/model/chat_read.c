/* Reads a Chat Completions answer, streamed or not: bytes in, deltas and at the end items out. */
#include "base/alloc.h"
#include "base/error.h"
#include "model/chat_reader.h"

enum { PREVIEW_MAX = 512, WORD_MAX = 256 };

static waldo_status on_event(void *userdata, waldo_str name, waldo_str data)
{
    waldo_reader *reader = userdata;
    waldo_str text = waldo__str_trim(data), piece;

    if (reader->is_done) {
        return WALDO_OK;
    }
    if (waldo__str_is(name, "error")) {
        waldo__json *doc = NULL;

        if (waldo__json_parse(text, NULL, &doc, NULL) != WALDO_OK) {
            doc = NULL;
        }
        waldo__chat_fail_provider(reader, waldo__json_root(doc), text);
        waldo__json_free(doc);
        return reader->status;
    }
    if (waldo__chat_fast_match(&reader->fast, text, &piece)) {
        return waldo__chat_read_piece(reader, piece);
    }
    if (waldo__str_is(text, "[DONE]")) {
        reader->is_done = 1;
        return WALDO_OK;
    }
    return text.len > 0 ? waldo__chat_read_json(reader, text) : WALDO_OK;
}

/* ---- the body ---- */

/* Skip spaces and one byte order mark; the first byte behind them says what the body is. */
static waldo_str find_mode(waldo_reader *reader, waldo_str bytes)
{
    static const char mark[] = "\xEF\xBB\xBF";

    while (bytes.len > 0 && reader->mode == WALDO__CHAT_BODY_UNKNOWN) {
        char byte = bytes.ptr[0];

        if (reader->marks < 3 && byte == mark[reader->marks]) {
            reader->marks++;
        } else if (byte == '{' || byte == '[') {
            reader->mode = WALDO__CHAT_BODY_JSON;
        } else if (byte == '<') {
            reader->mode = WALDO__CHAT_BODY_HTML;
        } else if (byte != ' ' && byte != '\t' && byte != '\r' && byte != '\n') {
            reader->mode = WALDO__CHAT_BODY_EVENTS;
        }
        if (reader->mode == WALDO__CHAT_BODY_UNKNOWN) {
            bytes = waldo__strn(bytes.ptr + 1, bytes.len - 1);
        }
    }
    return bytes;
}

/* A body that is one JSON value is read as soon as it is whole. */
static waldo_status feed_json(waldo_reader *reader, waldo_str bytes)
{
    waldo_status status;

    if (reader->is_done) {
        return WALDO_OK;
    }
    status = waldo__buf_add_str(&reader->body, bytes);
    if (status < 0) {
        return waldo__chat_fail_memory(reader, status);
    }
    waldo__json_scan_feed(&reader->scan, bytes);
    if (!reader->scan.complete) {
        return WALDO_OK;
    }
    reader->is_done = 1;
    return waldo__chat_read_json(reader, waldo__strn(reader->body.ptr, reader->scan.end));
}

static waldo_status feed_body(waldo_reader *reader, waldo_str bytes)
{
    waldo_status status = WALDO_OK;

    bytes = find_mode(reader, bytes);
    if (reader->mode != WALDO__CHAT_BODY_UNKNOWN && reader->preview.len < PREVIEW_MAX) {
        size_t room = PREVIEW_MAX - reader->preview.len;

        waldo__buf_add(&reader->preview, bytes.ptr, bytes.len < room ? bytes.len : room);
    }
    if (reader->mode == WALDO__CHAT_BODY_JSON) {
        return feed_json(reader, bytes);
    }
    if (reader->mode == WALDO__CHAT_BODY_EVENTS) {
        status = waldo__sse_feed(&reader->sse, bytes, on_event, reader);
    }
    /* on_event() has its own errors; without one the engine itself or the sink failed. */
    if (status < 0 && reader->status == WALDO_OK &&
        (status == WALDO_ETOOBIG || status == WALDO_ENOMEM)) {
        waldo__chat_fail_memory(reader, status);
    }
    return status;
}

waldo_status waldo__chat_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                              void *userdata, waldo_error **ret_err)
{
    waldo_status status = reader->status;

    if (status == WALDO_OK) {
        reader->delta = delta;
        reader->userdata = userdata;
        status = feed_body(reader, bytes);
        reader->delta = NULL;
    }
    if (status < 0) {
        if (reader->status == WALDO_OK) {
            waldo__chat_fail(reader, status, "reading the model's answer was stopped");
        }
        waldo__error_copy_to(ret_err, reader->error);
    }
    return status < 0 ? status : WALDO_OK;
}

int waldo__chat_complete(const waldo_reader *reader)
{
    return reader->is_done;
}

/* ---- the end ---- */

/* Bytes came, but none of what was expected. */
static waldo_status fail_preview(waldo_reader *reader, const char *what)
{
    waldo__buf quoted = WALDO__BUF_INIT(4 * PREVIEW_MAX);

    waldo__chat_quote(waldo__buf_str(&reader->preview), 300, &quoted);
    waldo__chat_fail(reader, WALDO_EPROTO,
                     "the model server answered with %s (Content-Type \"%s\"): %s", what,
                     waldo__buf_str(&reader->content_type).ptr, waldo__buf_str(&quoted).ptr);
    waldo__buf_free(&quoted);
    return reader->status;
}

static waldo_status check_whole(waldo_reader *reader)
{
    switch (reader->mode) {
    case WALDO__CHAT_BODY_UNKNOWN:
        return waldo__chat_fail(reader, WALDO_ETRUNCATED,
                                "the model server answered with an empty body");
    case WALDO__CHAT_BODY_HTML:
        return fail_preview(reader, "HTML: is the URL that of an API?");
    case WALDO__CHAT_BODY_JSON:
        return reader->is_done
                   ? WALDO_OK
                   : waldo__chat_fail(reader, WALDO_ETRUNCATED,
                                      "the model's answer ended in the middle of its JSON");
    default:
        return reader->sse.events > 0 ? WALDO_OK : fail_preview(reader, "neither events nor JSON");
    }
}

static int has_output(const waldo_reader *reader)
{
    return reader->text.text.len + reader->refusal.text.len + reader->calls.named.count > 0;
}

static waldo_status judge_ending(waldo_reader *reader)
{
    int calls = reader->calls.named.count > 0;

    switch (reader->ending) {
    case WALDO__CHAT_ENDING_NONE:
        return waldo__chat_fail(
            reader, WALDO_ETRUNCATED,
            "the model's answer ended without a finish_reason: the server has lost it");
    case WALDO__CHAT_ENDING_LENGTH:
        /* Some servers cut a prompt that is too long without a word. */
        if (!has_output(reader) && reader->usage.output_tokens == 0) {
            return waldo__chat_fail(
                reader, WALDO_EOVERFLOW,
                "the prompt fills the context window: the model could not answer");
        }
        reader->finish = WALDO_FINISH_LENGTH;
        return WALDO_OK;
    case WALDO__CHAT_ENDING_FILTER:
        reader->finish = WALDO_FINISH_FILTER;
        return WALDO_OK;
    case WALDO__CHAT_ENDING_CALLS:
    case WALDO__CHAT_ENDING_UNKNOWN:
        if (!has_output(reader)) {
            return waldo__chat_fail(
                reader, WALDO_EPROVIDER,
                "the model server ended with finish_reason \"%s\" and sent nothing",
                waldo__buf_str(&reader->reason).ptr);
        }
        break;
    default:
        break;
    }
    reader->finish = calls                          ? WALDO_FINISH_CALLS
                     : reader->refusal.text.len > 0 ? WALDO_FINISH_REFUSAL
                                                    : WALDO_FINISH_ANSWER;
    return WALDO_OK;
}

static waldo_status push_item(waldo_reader *reader, waldo_item item)
{
    waldo_item *slot = WALDO__VEC_PUSH(reader);

    if (slot == NULL) {
        return WALDO_ENOMEM;
    }
    *slot = item;
    slot->vendor = waldo__buf_str(&reader->vendor);
    return WALDO_OK;
}

/* Reasoning, text, calls: the order in which they belong into a history. */
static waldo_status make_items(waldo_reader *reader)
{
    const waldo__chat_call_list *calls = &reader->calls.named;
    waldo_status status = WALDO_OK;

    if (reader->reasoning.text.len > 0) {
        status = push_item(reader, (waldo_item){ .kind = WALDO_ITEM_REASONING,
                                                 .text = waldo__buf_str(&reader->reasoning.text) });
    }
    if (status == WALDO_OK && reader->text.text.len > 0) {
        status = push_item(reader, (waldo_item){ .kind = WALDO_ITEM_ASSISTANT,
                                                 .text = waldo__buf_str(&reader->text.text) });
    }
    for (size_t i = 0; i < calls->count && status == WALDO_OK; i++) {
        const waldo__chat_call *call = calls->at[i];

        status = push_item(reader, (waldo_item){ .kind = WALDO_ITEM_TOOL_CALL,
                                                 .id = waldo__buf_str(&call->id),
                                                 .name = waldo__buf_str(&call->name),
                                                 .args = waldo__buf_str(&call->args),
                                                 .raw = waldo__buf_str(&call->extra) });
    }
    return status;
}

static waldo_status end_body(waldo_reader *reader)
{
    waldo_status status = WALDO_OK;

    if (reader->mode == WALDO__CHAT_BODY_EVENTS && !reader->is_done) {
        status = waldo__sse_finish(&reader->sse, on_event, reader);
        if (status < 0 && reader->status == WALDO_OK) {
            return waldo__chat_fail_memory(reader, status);
        }
    }
    if (status >= 0) {
        status = check_whole(reader);
    }
    if (status >= 0 &&
        (waldo__chat_text_end(&reader->text) < 0 || waldo__chat_text_end(&reader->reasoning) < 0 ||
         waldo__chat_text_end(&reader->refusal) < 0)) {
        return waldo__chat_fail_memory(reader, WALDO_ENOMEM);
    }
    return status;
}

static waldo_status finish_once(waldo_reader *reader)
{
    waldo_status status = end_body(reader);

    if (status == WALDO_OK) {
        status = judge_ending(reader);
    }
    if (status != WALDO_OK) {
        return status;
    }
    /* A refusal is what the model said. */
    status = waldo__buf_add_str(&reader->text.text, waldo__buf_str(&reader->refusal.text));
    if (status == WALDO_OK) {
        status = waldo__chat_calls_end(&reader->calls, reader->quirks.short_ids,
                                       reader->finish == WALDO_FINISH_LENGTH ||
                                           reader->finish == WALDO_FINISH_FILTER);
    }
    if (status == WALDO_OK) {
        status = make_items(reader);
    }
    return status == WALDO_OK ? WALDO_OK : waldo__chat_fail_memory(reader, status);
}

waldo_status waldo__chat_finish(waldo_reader *reader, waldo_response *ret_response,
                                waldo_error **ret_err)
{
    if (reader->status == WALDO_OK && !reader->is_finished) {
        reader->is_finished = finish_once(reader) == WALDO_OK;
    }
    if (!reader->is_finished) {
        waldo__error_copy_to(ret_err, reader->error);
        return reader->status;
    }
    *ret_response = (waldo_response){ .size = sizeof *ret_response,
                                      .finish = reader->finish,
                                      .items = reader->at,
                                      .item_count = reader->count,
                                      .usage = reader->usage,
                                      .request_id = waldo__buf_str(&reader->id) };
    return WALDO_OK;
}

waldo_status waldo__chat_new_reader(const waldo_model_options *options, waldo_str content_type,
                                    waldo_reader **ret_reader)
{
    waldo_reader *reader = WALDO__NEW(waldo_reader);
    waldo_str text = waldo__str(options->model), url = WALDO__S(""), name = WALDO__S("");
    size_t colon = waldo__str_find(text, ':');
    waldo_status status;

    if (reader == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__buf_init(&reader->vendor, WORD_MAX + PREVIEW_MAX);
    waldo__buf_init(&reader->content_type, WORD_MAX);
    waldo__buf_init(&reader->preview, PREVIEW_MAX);
    waldo__buf_init(&reader->body, WALDO__CHAT_EVENT_MAX);
    waldo__buf_init(&reader->scratch, 2 * (size_t)WALDO__CHAT_EVENT_MAX);
    waldo__buf_init(&reader->reason, WORD_MAX);
    waldo__buf_init(&reader->id, WORD_MAX);
    waldo__chat_text_init(&reader->text);
    waldo__chat_text_init(&reader->reasoning);
    waldo__chat_text_init(&reader->refusal);
    waldo__chat_fast_init(&reader->fast);
    waldo__sse_init(&reader->sse, WALDO__CHAT_EVENT_MAX);
    reader->usage = (waldo_usage){ -1, -1, -1, -1 };
    /* A model string was checked when the model was made. */
    if (colon < text.len) {
        waldo__chat_parse(waldo__strn(text.ptr + colon + 1, text.len - colon - 1), &url, &name,
                          NULL);
    }
    status = waldo__chat_quirks_find(options, url, &reader->quirks, NULL);
    if (status == WALDO_OK) {
        status = waldo__chat_vendor(&reader->quirks, name, &reader->vendor);
    }
    waldo__chat_quote(waldo__strn(content_type.ptr, content_type.len < 60 ? content_type.len : 60),
                      60, &reader->content_type);
    if (status != WALDO_OK) {
        waldo__chat_free_reader(reader);
        return status;
    }
    *ret_reader = reader;
    return WALDO_OK;
}

void waldo__chat_free_reader(waldo_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    waldo__sse_free(&reader->sse);
    waldo__chat_calls_free(&reader->calls);
    waldo__chat_fast_free(&reader->fast);
    waldo__buf_free(&reader->vendor);
    waldo__buf_free(&reader->content_type);
    waldo__buf_free(&reader->preview);
    waldo__buf_free(&reader->body);
    waldo__buf_free(&reader->scratch);
    waldo__buf_free(&reader->text.text);
    waldo__buf_free(&reader->reasoning.text);
    waldo__buf_free(&reader->refusal.text);
    waldo__buf_free(&reader->reason);
    waldo__buf_free(&reader->id);
    waldo_error_free(reader->error);
    WALDO__VEC_FREE(reader);
    waldo__free(reader);
}
