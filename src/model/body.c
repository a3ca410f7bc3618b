#include "model/body.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "base/utf8.h"

enum { PREVIEW_MAX = 512, WORD_MAX = 256, JSON_DEPTH = 128 };

void waldo__body_init(waldo__body *body, waldo_reader *reader, waldo_str content_type,
                      waldo__sse_fn on_event,
                      waldo_status (*on_json)(waldo_reader *reader, waldo_str text))
{
    *body = (waldo__body){ .reader = reader, .on_event = on_event, .on_json = on_json };
    waldo__buf_init_wiped(&body->content_type, WORD_MAX);
    waldo__buf_init_wiped(&body->preview, PREVIEW_MAX);
    waldo__buf_init_wiped(&body->whole, WALDO__MODEL_EVENT_MAX);
    waldo__buf_init_wiped(&body->mended, 2 * (size_t)WALDO__MODEL_EVENT_MAX);
    waldo__buf_init_wiped(&body->clean, 4 * (size_t)WALDO__MODEL_EVENT_MAX);
    waldo__sse_init(&body->sse, WALDO__MODEL_EVENT_MAX);
    waldo__provider_quote(
        waldo__slice(content_type.ptr, content_type.len < 60 ? content_type.len : 60), 60,
        &body->content_type);
}

void waldo__body_free(waldo__body *body)
{
    waldo__sse_free(&body->sse);
    waldo__buf_free(&body->content_type);
    waldo__buf_free(&body->preview);
    waldo__buf_free(&body->whole);
    waldo__buf_free(&body->mended);
    waldo__buf_free(&body->clean);
    waldo__error_clear(&body->error);
}

/* ---- failures ---- */

/* Without memory for the error there is still its status. */
waldo_status waldo__body_fail(waldo__body *body, waldo_status status, const char *format, ...)
{
    waldo__buf text = WALDO__BUF_WIPED(8192);
    va_list args;

    va_start(args, format);
    waldo__buf_vprintf(&text, format, args);
    va_end(args);
    body->status = waldo_error_set(&body->error, status, WALDO_CLASS_PROTOCOL, "%s",
                                   waldo__buf_str(&text).ptr);
    waldo__buf_free(&text);
    return status;
}

waldo_status waldo__body_fail_memory(waldo__body *body, waldo_status status)
{
    if (status == WALDO_ETOOBIG) {
        return waldo__body_fail(body, status, "the model server's answer is larger than %d MiB",
                                WALDO__MODEL_EVENT_MAX >> 20);
    }
    return waldo__body_fail(body, status, "the model server's answer: %s",
                            waldo_status_text(status));
}

waldo_status waldo__body_fail_provider(waldo__body *body, const waldo__json_value *root,
                                       waldo_str text)
{
    return body->status = waldo__provider_error(0, WALDO__S(""), root, text, &body->error);
}

/* ---- out ---- */

waldo_status waldo__body_emit(waldo__body *body, waldo_delta_kind kind, waldo_str text)
{
    return body->delta != NULL ? body->delta(body->userdata, kind, text) : WALDO_OK;
}

waldo_status waldo__body_add_text(waldo__body *body, waldo__model_text *text, waldo_delta_kind kind,
                                  waldo_str piece)
{
    size_t before = text->text.len;
    waldo_status status = waldo__model_text_add(text, piece);

    if (status < 0) {
        return waldo__body_fail_memory(body, status);
    }
    if (text->text.len == before) {
        return WALDO_OK;
    }
    return waldo__body_emit(body, kind,
                            waldo__strn(text->text.ptr + before, text->text.len - before));
}

/* ---- in ---- */

/* Skip spaces and one byte order mark; the first byte behind them says what the body is. */
static waldo_str find_kind(waldo__body *body, waldo_str bytes)
{
    static const char mark[] = "\xEF\xBB\xBF";

    while (bytes.len > 0 && body->kind == WALDO__BODY_UNKNOWN) {
        char byte = bytes.ptr[0];

        if (body->marks < 3 && byte == mark[body->marks]) {
            body->marks++;
        } else if (byte == '{' || byte == '[') {
            body->kind = WALDO__BODY_JSON;
        } else if (byte == '<') {
            body->kind = WALDO__BODY_HTML;
        } else if (byte != ' ' && byte != '\t' && byte != '\r' && byte != '\n') {
            body->kind = WALDO__BODY_EVENTS;
        }
        if (body->kind == WALDO__BODY_UNKNOWN) {
            bytes = waldo__slice(bytes.ptr + 1, bytes.len - 1);
        }
    }
    return bytes;
}

/* A body that is one JSON value is read as soon as it is whole. */
static waldo_status feed_json(waldo__body *body, waldo_str bytes)
{
    waldo_status status;

    if (body->is_done) {
        return WALDO_OK;
    }
    status = waldo__buf_add_str(&body->whole, bytes);
    if (status < 0) {
        return waldo__body_fail_memory(body, status);
    }
    waldo__json_scan_feed(&body->scan, bytes);
    if (!body->scan.complete) {
        return WALDO_OK;
    }
    body->is_done = 1;
    return body->on_json(body->reader, waldo__strn(body->whole.ptr, body->scan.end));
}

static waldo_status feed_bytes(waldo__body *body, waldo_str bytes)
{
    waldo_status status = WALDO_OK;

    bytes = find_kind(body, bytes);
    if (body->kind != WALDO__BODY_UNKNOWN && body->preview.len < PREVIEW_MAX) {
        size_t room = PREVIEW_MAX - body->preview.len;

        waldo__buf_reserve(&body->preview, room); /* it will be full */
        waldo__buf_add(&body->preview, bytes.ptr, bytes.len < room ? bytes.len : room);
    }
    if (body->kind == WALDO__BODY_JSON) {
        return feed_json(body, bytes);
    }
    if (body->kind == WALDO__BODY_EVENTS) {
        status = waldo__sse_feed(&body->sse, bytes, body->on_event, body->reader);
    }
    /* The adapter has its own errors; without one the engine itself or the sink failed. */
    if (status < 0 && body->status == WALDO_OK &&
        (status == WALDO_ETOOBIG || status == WALDO_ENOMEM)) {
        waldo__body_fail_memory(body, status);
    }
    return status;
}

waldo_status waldo__body_feed(waldo__body *body, waldo_str bytes, waldo_delta_fn delta,
                              void *userdata, waldo_error **ret_err)
{
    waldo_status status = body->status;

    if (status == WALDO_OK) {
        body->delta = delta;
        body->userdata = userdata;
        status = feed_bytes(body, bytes);
        body->delta = NULL;
    }
    if (status < 0) {
        if (body->status == WALDO_OK) {
            waldo__body_fail(body, status, "reading the model's answer was stopped");
        }
        waldo__error_copy_to(ret_err, body->error);
    }
    return status < 0 ? status : WALDO_OK;
}

/* ---- the end ---- */

/* Bytes came, but none of what was expected. */
static waldo_status fail_preview(waldo__body *body, const char *what)
{
    waldo__buf quoted = WALDO__BUF_WIPED(4 * PREVIEW_MAX);

    waldo__provider_quote(waldo__buf_str(&body->preview), 300, &quoted);
    waldo__body_fail(body, WALDO_EPROTO,
                     "the model server answered with %s (Content-Type \"%s\"): %s", what,
                     waldo__buf_str(&body->content_type).ptr, waldo__buf_str(&quoted).ptr);
    waldo__buf_free(&quoted);
    return body->status;
}

static waldo_status check_whole(waldo__body *body)
{
    switch (body->kind) {
    case WALDO__BODY_UNKNOWN:
        return waldo__body_fail(body, WALDO_ETRUNCATED,
                                "the model server answered with an empty body");
    case WALDO__BODY_HTML:
        return fail_preview(body, "HTML: is the URL that of an API?");
    case WALDO__BODY_JSON:
        return body->is_done
                   ? WALDO_OK
                   : waldo__body_fail(body, WALDO_ETRUNCATED,
                                      "the model's answer ended in the middle of its JSON");
    default:
        if (body->sse.events > 0) {
            return WALDO_OK;
        }
        return waldo__str_starts(waldo__buf_str(&body->preview), ":")
                   ? waldo__body_fail(body, WALDO_ETRUNCATED,
                                      "the model's answer ended before its first event: the "
                                      "server has lost it")
                   : fail_preview(body, "neither events nor JSON");
    }
}

waldo_status waldo__body_end(waldo__body *body)
{
    if (body->kind == WALDO__BODY_EVENTS && !body->is_done) {
        waldo_status status = waldo__sse_finish(&body->sse, body->on_event, body->reader);

        if (status < 0) {
            return body->status != WALDO_OK ? status : waldo__body_fail_memory(body, status);
        }
    }
    return check_whole(body);
}

/* ---- JSON ---- */

int waldo__body_holds_error(const waldo__json_value *root)
{
    const waldo__json_value *error = waldo__json_get(root, "error");
    waldo_str text = WALDO__S("");

    return waldo__json_type_of(error) == WALDO__JSON_OBJECT ||
           (waldo__json_str(error, &text) && text.len > 0);
}

waldo_status waldo__body_parse(waldo__body *body, waldo_str text, waldo__json **ret_doc,
                               waldo_str *ret_text)
{
    static const waldo__json_limits limits = { .max_bytes = WALDO__MODEL_EVENT_MAX + 1024,
                                               .max_depth = JSON_DEPTH,
                                               .allow_duplicates = 1,
                                               .repair_surrogates = 1 };
    waldo_error *error = NULL;
    waldo_str parsed = text;
    waldo_status status = waldo__model_text_mend(&parsed, &body->mended);

    if (status == WALDO_OK) {
        status = waldo__json_parse(parsed, &limits, ret_doc, &error);
    }
    if (status == WALDO_EUTF8) {
        waldo__error_clear(&error);
        waldo__buf_clear(&body->clean);
        status = waldo__utf8_clean(parsed, &body->clean);
        parsed = waldo__buf_str(&body->clean);
        if (status == WALDO_OK) {
            status = waldo__json_parse(parsed, &limits, ret_doc, &error);
        }
    }
    if (status != WALDO_OK) {
        waldo__buf quoted = WALDO__BUF_WIPED(PREVIEW_MAX);

        waldo__provider_quote(waldo__strn(text.ptr, text.len < 120 ? text.len : 120), 120, &quoted);
        waldo__body_fail(body, status == WALDO_ENOMEM ? status : WALDO_EPROTO,
                         "the model server sent what is not JSON (%s): %s",
                         waldo_error_message(error), waldo__buf_str(&quoted).ptr);
        waldo__buf_free(&quoted);
    }
    waldo_error_free(error);
    *ret_text = parsed;
    return status == WALDO_OK ? WALDO_OK : body->status;
}

waldo_status waldo__body_read_args(const waldo__json_value *value, waldo__buf *out)
{
    waldo_str text;

    if (waldo__json_str(value, &text)) {
        return waldo__model_text_plain(text, out);
    }
    if (waldo__json_type_of(value) == WALDO__JSON_OBJECT ||
        waldo__json_type_of(value) == WALDO__JSON_ARRAY) {
        return waldo__json_print(value, out);
    }
    return WALDO_OK;
}

int waldo__args_are_placeholder(waldo_str text)
{
    text = waldo__str_trim(text);
    return text.len == 0 || waldo__str_is(text, "\"\"") || waldo__str_is(text, "null");
}

int waldo__args_drop_stray(waldo__buf *args)
{
    waldo_str text = waldo__buf_str(args), rest;
    waldo__json_scan scan = { .complete = 0 };

    if (!waldo__str_starts(waldo__str_trim(text), "{")) {
        return 0;
    }
    waldo__json_scan_feed(&scan, text);
    rest = waldo__strn(text.ptr + scan.end, text.len - scan.end);
    if (!scan.complete || rest.len == 0 || !waldo__args_are_placeholder(rest)) {
        return 0;
    }
    waldo__buf_truncate(args, scan.end);
    return waldo__str_trim(rest).len > 0;
}

waldo_status waldo__body_tell_stray(waldo__body *body)
{
    return waldo__body_emit(body, WALDO_DELTA_WARNING,
                            WALDO__S("the server sent something besides the arguments of a tool "
                                     "call; it was left out"));
}

/* ---- what an answer came to ---- */

void waldo__answer_init(waldo__answer *answer)
{
    *answer = (waldo__answer){ .usage = { -1, -1, -1, -1, -1, 0, 0, -1 } };
    waldo__buf_init_wiped(&answer->vendor, 4 * WORD_MAX);
    waldo__buf_init_wiped(&answer->id, WORD_MAX);
}

void waldo__answer_free(waldo__answer *answer)
{
    waldo__buf_free(&answer->vendor);
    waldo__buf_free(&answer->id);
    WALDO__VEC_FREE(answer);
}

waldo_status waldo__answer_push(waldo__answer *answer, waldo_item item)
{
    waldo_item *slot = WALDO__VEC_PUSH(answer);

    if (slot == NULL) {
        return WALDO_ENOMEM;
    }
    *slot = item;
    slot->vendor = waldo__buf_str(&answer->vendor);
    return WALDO_OK;
}

void waldo__answer_usage(const waldo__answer *answer, waldo_usage *ret_usage)
{
    ret_usage->input_tokens = answer->usage.input_tokens;
    ret_usage->output_tokens = answer->usage.output_tokens;
    ret_usage->cached_tokens = answer->usage.cached_tokens;
    ret_usage->cache_write_tokens = answer->usage.cache_write_tokens;
    ret_usage->reasoning_tokens = answer->usage.reasoning_tokens;
}

waldo_status waldo__answer_name_call(const waldo__answer *answer, waldo__buf *id, waldo__buf *raw)
{
    char word[25];
    int is_taken = id->len == 0;

    for (size_t i = 0; i < answer->count && !is_taken; i++) {
        is_taken = answer->at[i].kind == WALDO_ITEM_TOOL_CALL &&
                   waldo__str_eq(answer->at[i].id, waldo__buf_str(id));
    }
    if (!is_taken) {
        return WALDO_OK;
    }
    waldo__random_word(word, sizeof word - 1);
    waldo__buf_clear(raw);
    waldo__buf_clear(id);
    return waldo__buf_printf(id, "call_%s", word);
}

waldo_status waldo__answer_finish(waldo__answer *answer, waldo__body *body,
                                  waldo_status (*once)(waldo_reader *reader),
                                  waldo_response *ret_response, waldo_error **ret_err)
{
    if (body->status == WALDO_OK && !answer->is_finished) {
        answer->is_finished = once(body->reader) == WALDO_OK;
    }
    if (!answer->is_finished) {
        waldo__error_copy_to(ret_err, body->error);
        return body->status;
    }
    *ret_response = (waldo_response){ .size = sizeof *ret_response,
                                      .finish = answer->finish,
                                      .items = answer->at,
                                      .item_count = answer->count,
                                      .answer_from = answer->answer_from,
                                      .usage = answer->usage,
                                      .request_id = waldo__buf_str(&answer->id) };
    return WALDO_OK;
}
