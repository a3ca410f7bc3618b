/* Reads a Chat Completions answer, streamed or not: bytes in, deltas and at the end items out. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "codec/sse.h"
#include "model/chat.h"
#include "model/chat_text.h"

enum { PREVIEW_MAX = 512, WORD_MAX = 256, JSON_DEPTH = 128 };

/* What the body is; told by its first byte, whatever Content-Type claims. */
typedef enum body_mode { BODY_UNKNOWN, BODY_EVENTS, BODY_JSON, BODY_HTML } body_mode;

typedef enum ending {
    ENDING_NONE,
    ENDING_STOP,
    ENDING_CALLS,
    ENDING_LENGTH,
    ENDING_FILTER,
    ENDING_FAILED,
    ENDING_UNKNOWN
} ending;

static const struct {
    const char *reason;
    ending ending;
} endings[] = {
    { "stop", ENDING_STOP },
    { "tool_calls", ENDING_CALLS },
    { "function_call", ENDING_CALLS },
    { "length", ENDING_LENGTH },
    { "model_length", ENDING_LENGTH }, /* Mistral */
    { "content_filter", ENDING_FILTER },
    { "error", ENDING_FAILED },                        /* Mistral */
    { "insufficient_system_resource", ENDING_FAILED }, /* DeepSeek */
};

struct waldo_reader {
    waldo__chat_quirks quirks;
    waldo__buf vendor;
    waldo__buf content_type;
    body_mode mode;
    int is_done; /* [DONE], or the whole of a JSON body */
    waldo__buf preview;
    unsigned char marks; /* bytes of a byte order mark that were skipped */
    waldo__sse sse;
    waldo__buf body;
    waldo__json_scan scan;
    waldo__buf scratch;
    waldo__chat_text text;
    waldo__chat_text reasoning;
    waldo__chat_text refusal;
    waldo__chat_calls calls;
    waldo__buf reason;
    ending ending;
    int warned;
    waldo_usage usage;
    waldo__buf id;
    waldo_error *error; /* a failure that ended the reading */
    waldo_status status;
    waldo_delta_fn delta; /* during feed() */
    void *userdata;
    WALDO__VEC(waldo_item);
    int is_finished;
    waldo_finish finish;
};

/* ---- failures ---- */

/* Without memory for the error there is still its status. */
static waldo_status fail(waldo_reader *reader, waldo_status status, const char *format, ...)
    WALDO_PRINTF(3, 4);

static waldo_status fail(waldo_reader *reader, waldo_status status, const char *format, ...)
{
    waldo__buf text = WALDO__BUF_INIT(8192);
    va_list args;

    va_start(args, format);
    waldo__buf_vprintf(&text, format, args);
    va_end(args);
    reader->status = waldo_error_set(&reader->error, status, WALDO_CLASS_PROTOCOL, "%s",
                                     waldo__buf_str(&text).ptr);
    waldo__buf_free(&text);
    return status;
}

static waldo_status fail_memory(waldo_reader *reader, waldo_status status)
{
    if (status == WALDO_ETOOBIG) {
        return fail(reader, status, "the model server's answer is larger than %d MiB",
                    WALDO__CHAT_EVENT_MAX >> 20);
    }
    return fail(reader, status, "the model server's answer: %s", waldo_status_text(status));
}

static waldo_status fail_provider(waldo_reader *reader, const waldo__json_value *root,
                                  waldo_str text)
{
    return reader->status = waldo__chat_error(0, waldo__str(""), root, text, &reader->error);
}

static waldo_status emit(waldo_reader *reader, waldo_delta_kind kind, waldo_str text)
{
    return reader->delta != NULL ? reader->delta(reader->userdata, kind, text) : WALDO_OK;
}

/* ---- what a delta holds ---- */

static waldo_status add_text(waldo_reader *reader, waldo__chat_text *text, waldo_delta_kind kind,
                             waldo_str piece)
{
    size_t before = text->text.len;
    waldo_status status = waldo__chat_text_add(text, piece);

    if (status < 0) {
        return fail_memory(reader, status);
    }
    if (text->text.len == before) {
        return WALDO_OK;
    }
    return emit(reader, kind, waldo__strn(text->text.ptr + before, text->text.len - before));
}

/* Mistral: content is a list of texts and of thoughts, which are lists of texts. */
static waldo_status add_parts(waldo_reader *reader, const waldo__json_value *parts)
{
    waldo_status status = WALDO_OK;

    for (const waldo__json_value *part = waldo__json_first(parts); part != NULL && status >= 0;
         part = waldo__json_next(part)) {
        const waldo__json_value *thoughts = waldo__json_get(part, "thinking");
        waldo_str piece;

        if (waldo__json_str(waldo__json_get(part, "text"), &piece)) {
            status = add_text(reader, &reader->text, WALDO_DELTA_TEXT, piece);
        } else if (waldo__json_str(thoughts, &piece)) {
            status = add_text(reader, &reader->reasoning, WALDO_DELTA_REASONING, piece);
        }
        if (waldo__json_type_of(thoughts) != WALDO__JSON_ARRAY) {
            continue;
        }
        for (const waldo__json_value *thought = waldo__json_first(thoughts);
             thought != NULL && status >= 0; thought = waldo__json_next(thought)) {
            status = add_text(reader, &reader->reasoning, WALDO_DELTA_REASONING,
                              waldo__json_get_str(thought, "text"));
        }
    }
    return status;
}

/* Members of a call that its server wants back with it. */
static waldo_status read_extra(const waldo__json_value *value, waldo__buf *out)
{
    const waldo__json_value *extra = waldo__json_get(value, "extra_content");

    if (waldo__json_type_of(extra) != WALDO__JSON_OBJECT) {
        return WALDO_OK;
    }
    waldo__buf_puts(out, "{\"extra_content\":");
    waldo__json_print(extra, out);
    return waldo__buf_putc(out, '}');
}

/* Arguments are text; some gateways send the object itself. */
static waldo_status read_args(const waldo__json_value *value, waldo__buf *out)
{
    waldo_str text;

    if (waldo__json_str(value, &text)) {
        return waldo__chat_text_plain(text, out);
    }
    if (waldo__json_type_of(value) == WALDO__JSON_OBJECT ||
        waldo__json_type_of(value) == WALDO__JSON_ARRAY) {
        return waldo__json_print(value, out);
    }
    return WALDO_OK;
}

static waldo_str trimmed(const waldo__json_value *object, const char *key)
{
    return waldo__str_trim(waldo__json_get_str(object, key));
}

/* call is an entry of tool_calls; function its function, or the older function_call. */
static waldo_status add_call(waldo_reader *reader, const waldo__json_value *call,
                             const waldo__json_value *function, int is_whole)
{
    waldo__buf args = WALDO__BUF_INIT(WALDO__CHAT_ARGS_MAX);
    waldo__buf extra = WALDO__BUF_INIT(1 << 20);
    waldo__chat_fragment fragment = { .is_whole = is_whole };
    waldo__chat_call *target = NULL;
    waldo_status status = read_args(waldo__json_get(function, "arguments"), &args);
    int is_new = 0;

    if (status == WALDO_OK) {
        status = read_extra(call, &extra);
    }
    fragment.index = waldo__json_get_int(call, "index", -1);
    fragment.id = trimmed(call, "id");
    fragment.name = trimmed(function, "name");
    fragment.args = waldo__buf_str(&args);
    fragment.extra = waldo__buf_str(&extra);
    if (status == WALDO_OK) {
        status = waldo__chat_calls_add(&reader->calls, &fragment, &target, &is_new);
    }
    if (status == WALDO_ETOOBIG) {
        fail(reader, status,
             "a tool call in the model's answer is too large, or there are too many");
    } else if (status < 0) {
        fail_memory(reader, status);
    } else if (is_new) {
        status = emit(reader, WALDO_DELTA_CALL, waldo__buf_str(&target->name));
    }
    waldo__buf_free(&args);
    waldo__buf_free(&extra);
    return status;
}

static waldo_status add_calls(waldo_reader *reader, const waldo__json_value *delta, int is_whole)
{
    const waldo__json_value *calls = waldo__json_get(delta, "tool_calls");
    const waldo__json_value *old = waldo__json_get(delta, "function_call");
    waldo_status status = WALDO_OK;

    if (waldo__json_type_of(calls) == WALDO__JSON_ARRAY) {
        for (const waldo__json_value *call = waldo__json_first(calls); call != NULL && status >= 0;
             call = waldo__json_next(call)) {
            status = add_call(reader, call, waldo__json_get(call, "function"), is_whole);
        }
    }
    if (status >= 0 && waldo__json_type_of(old) == WALDO__JSON_OBJECT) {
        status = add_call(reader, NULL, old, is_whole);
    }
    return status;
}

static waldo_status add_delta(waldo_reader *reader, const waldo__json_value *delta, int is_whole)
{
    const waldo__json_value *content = waldo__json_get(delta, "content");
    waldo_str piece = waldo__json_get_str(delta, "reasoning_content");
    waldo_status status;

    if (piece.len == 0) {
        piece = waldo__json_get_str(delta, "reasoning");
    }
    status = add_text(reader, &reader->reasoning, WALDO_DELTA_REASONING, piece);
    if (status >= 0 && waldo__json_str(content, &piece)) {
        status = add_text(reader, &reader->text, WALDO_DELTA_TEXT, piece);
    } else if (status >= 0 && waldo__json_type_of(content) == WALDO__JSON_ARRAY) {
        status = add_parts(reader, content);
    }
    if (status >= 0) {
        status = add_text(reader, &reader->refusal, WALDO_DELTA_TEXT,
                          waldo__json_get_str(delta, "refusal"));
    }
    return status >= 0 ? add_calls(reader, delta, is_whole) : status;
}

/* ---- one chunk, or one whole answer ---- */

static void read_usage(waldo_reader *reader, const waldo__json_value *usage)
{
    waldo_usage *to = &reader->usage;
    int64_t cached;

    if (waldo__json_type_of(usage) != WALDO__JSON_OBJECT) {
        return;
    }
    to->input_tokens = waldo__json_get_int(usage, "prompt_tokens", to->input_tokens);
    to->output_tokens = waldo__json_get_int(usage, "completion_tokens", to->output_tokens);
    cached =
        waldo__json_get_int(usage, "prompt_cache_hit_tokens", to->cached_tokens); /* DeepSeek */
    to->cached_tokens = waldo__json_get_int(waldo__json_get(usage, "prompt_tokens_details"),
                                            "cached_tokens", cached);
    to->reasoning_tokens = waldo__json_get_int(waldo__json_get(usage, "completion_tokens_details"),
                                               "reasoning_tokens", to->reasoning_tokens);
}

static waldo_status read_reason(waldo_reader *reader, waldo_str reason)
{
    reader->ending = ENDING_UNKNOWN;
    for (size_t i = 0; i < WALDO__COUNT(endings); i++) {
        if (waldo__str_is(reason, endings[i].reason)) {
            reader->ending = endings[i].ending;
        }
    }
    waldo__buf_clear(&reader->reason);
    waldo__chat_quote(waldo__strn(reason.ptr, reason.len < 64 ? reason.len : 64), 64,
                      &reader->reason);
    if (waldo__chat_calls_have_stray(&reader->calls) && !reader->warned) {
        reader->warned = 1;
        return emit(reader, WALDO_DELTA_WARNING,
                    waldo__str("the server sent something besides the arguments of a tool call; "
                               "it was left out"));
    }
    return WALDO_OK;
}

/* The delta comes before the reason: other servers put both into one chunk. */
static waldo_status read_choice(waldo_reader *reader, const waldo__json_value *choice)
{
    const waldo__json_value *delta = waldo__json_get(choice, "delta");
    const waldo__json_value *message = waldo__json_get(choice, "message");
    waldo_str reason = waldo__json_get_str(choice, "finish_reason");
    int is_whole = waldo__json_type_of(delta) != WALDO__JSON_OBJECT;
    waldo_status status;

    if (waldo__json_get_int(choice, "index", 0) != 0) {
        return WALDO_OK;
    }
    status = add_delta(reader, is_whole ? message : delta, is_whole);
    return status >= 0 && reason.len > 0 ? read_reason(reader, reason) : status;
}

/* An error is an object or a text; false, null and "" are none. */
static int holds_error(const waldo__json_value *root)
{
    const waldo__json_value *error = waldo__json_get(root, "error");
    waldo_str text = WALDO__S("");

    return waldo__json_type_of(error) == WALDO__JSON_OBJECT ||
           (waldo__json_str(error, &text) && text.len > 0) ||
           waldo__str_is(waldo__json_get_str(root, "object"), "error"); /* Mistral */
}

static waldo_status read_root(waldo_reader *reader, const waldo__json_value *root, waldo_str text)
{
    const waldo__json_value *choices = waldo__json_get(root, "choices");
    waldo_status status = WALDO_OK;

    if (waldo__json_type_of(root) != WALDO__JSON_OBJECT) {
        return fail(reader, WALDO_EPROTO, "the model server sent JSON that is not an object");
    }
    if (holds_error(root)) {
        return fail_provider(reader, root, text);
    }
    if (reader->id.len == 0) {
        waldo__chat_quote(waldo__json_get_str(root, "id"), 128, &reader->id);
    }
    read_usage(reader, waldo__json_get(root, "usage"));
    read_usage(reader, waldo__json_path(root, "x_groq.usage"));
    if (waldo__json_type_of(choices) == WALDO__JSON_ARRAY) {
        for (const waldo__json_value *choice = waldo__json_first(choices);
             choice != NULL && status >= 0; choice = waldo__json_next(choice)) {
            status = read_choice(reader, choice);
        }
    } else if (reader->mode == BODY_JSON) {
        return fail_provider(reader, root, text);
    }
    if (status >= 0 && reader->ending == ENDING_FAILED) {
        return fail(reader, WALDO_EPROVIDER, "the model server gave up: finish_reason \"%s\"",
                    waldo__buf_str(&reader->reason).ptr);
    }
    return status;
}

/* Text that cJSON would refuse for half a pair, a NUL or a wrong byte is mended first. */
static waldo_status parse(waldo_reader *reader, waldo_str text, waldo__json **ret_doc)
{
    static const waldo__json_limits limits = { .max_bytes = WALDO__CHAT_EVENT_MAX + 1024,
                                               .max_depth = JSON_DEPTH,
                                               .allow_duplicates = 1,
                                               .repair_surrogates = 1 };
    waldo_error *error = NULL;
    waldo_str mended = text;
    waldo__buf clean = WALDO__BUF_INIT(4 * (size_t)WALDO__CHAT_EVENT_MAX);
    waldo_status status = waldo__chat_text_mend(&mended, &reader->scratch);

    if (status == WALDO_OK) {
        status = waldo__json_parse(mended, &limits, ret_doc, &error);
    }
    if (status == WALDO_EUTF8 && waldo__utf8_clean(mended, &clean) == WALDO_OK) {
        waldo_error_free(error);
        error = NULL;
        status = waldo__json_parse(waldo__buf_str(&clean), &limits, ret_doc, &error);
    }
    waldo__buf_free(&clean);
    if (status != WALDO_OK) {
        waldo__buf quoted = WALDO__BUF_INIT(PREVIEW_MAX);

        waldo__chat_quote(waldo__strn(text.ptr, text.len < 120 ? text.len : 120), 120, &quoted);
        fail(reader, status == WALDO_ENOMEM ? status : WALDO_EPROTO,
             "the model server sent what is not JSON (%s): %s", waldo_error_message(error),
             waldo__buf_str(&quoted).ptr);
        waldo__buf_free(&quoted);
    }
    waldo_error_free(error);
    return status == WALDO_OK ? WALDO_OK : reader->status;
}

static waldo_status read_json(waldo_reader *reader, waldo_str text)
{
    waldo__json *doc = NULL;
    waldo_status status = parse(reader, text, &doc);

    if (status == WALDO_OK) {
        status = read_root(reader, waldo__json_root(doc), text);
        waldo__json_free(doc);
    }
    return status;
}

static waldo_status on_event(void *userdata, waldo_str name, waldo_str data)
{
    waldo_reader *reader = userdata;
    waldo_str text = waldo__str_trim(data);

    if (reader->is_done) {
        return WALDO_OK;
    }
    if (waldo__str_is(name, "error")) {
        waldo__json *doc = NULL;

        if (waldo__json_parse(text, NULL, &doc, NULL) != WALDO_OK) {
            doc = NULL;
        }
        fail_provider(reader, waldo__json_root(doc), text);
        waldo__json_free(doc);
        return reader->status;
    }
    if (waldo__str_is(text, "[DONE]")) {
        reader->is_done = 1;
        return WALDO_OK;
    }
    return text.len > 0 ? read_json(reader, text) : WALDO_OK;
}

/* ---- the body ---- */

/* Skip spaces and one byte order mark; the first byte behind them says what the body is. */
static waldo_str find_mode(waldo_reader *reader, waldo_str bytes)
{
    static const char mark[] = "\xEF\xBB\xBF";

    while (bytes.len > 0 && reader->mode == BODY_UNKNOWN) {
        char byte = bytes.ptr[0];

        if (reader->marks < 3 && byte == mark[reader->marks]) {
            reader->marks++;
        } else if (byte == '{' || byte == '[') {
            reader->mode = BODY_JSON;
        } else if (byte == '<') {
            reader->mode = BODY_HTML;
        } else if (byte != ' ' && byte != '\t' && byte != '\r' && byte != '\n') {
            reader->mode = BODY_EVENTS;
        }
        if (reader->mode == BODY_UNKNOWN) {
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
        return fail_memory(reader, status);
    }
    waldo__json_scan_feed(&reader->scan, bytes);
    if (!reader->scan.complete) {
        return WALDO_OK;
    }
    reader->is_done = 1;
    return read_json(reader, waldo__strn(reader->body.ptr, reader->scan.end));
}

static waldo_status feed_body(waldo_reader *reader, waldo_str bytes)
{
    waldo_status status = WALDO_OK;

    bytes = find_mode(reader, bytes);
    if (reader->mode != BODY_UNKNOWN && reader->preview.len < PREVIEW_MAX) {
        size_t room = PREVIEW_MAX - reader->preview.len;

        waldo__buf_add(&reader->preview, bytes.ptr, bytes.len < room ? bytes.len : room);
    }
    if (reader->mode == BODY_JSON) {
        return feed_json(reader, bytes);
    }
    if (reader->mode == BODY_EVENTS) {
        status = waldo__sse_feed(&reader->sse, bytes, on_event, reader);
    }
    /* on_event() has its own errors; without one the engine itself or the sink failed. */
    if (status < 0 && reader->status == WALDO_OK &&
        (status == WALDO_ETOOBIG || status == WALDO_ENOMEM)) {
        fail_memory(reader, status);
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
            fail(reader, status, "reading the model's answer was stopped");
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
    fail(reader, WALDO_EPROTO, "the model server answered with %s (Content-Type \"%s\"): %s", what,
         waldo__buf_str(&reader->content_type).ptr, waldo__buf_str(&quoted).ptr);
    waldo__buf_free(&quoted);
    return reader->status;
}

static waldo_status check_whole(waldo_reader *reader)
{
    switch (reader->mode) {
    case BODY_UNKNOWN:
        return fail(reader, WALDO_ETRUNCATED, "the model server answered with an empty body");
    case BODY_HTML:
        return fail_preview(reader, "HTML: is the URL that of an API?");
    case BODY_JSON:
        return reader->is_done ? WALDO_OK
                               : fail(reader, WALDO_ETRUNCATED,
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
    case ENDING_NONE:
        return fail(reader, WALDO_ETRUNCATED,
                    "the model's answer ended without a finish_reason: the server has lost it");
    case ENDING_LENGTH:
        /* Some servers cut a prompt that is too long without a word. */
        if (!has_output(reader) && reader->usage.output_tokens == 0) {
            return fail(reader, WALDO_EOVERFLOW,
                        "the prompt fills the context window: the model could not answer");
        }
        reader->finish = WALDO_FINISH_LENGTH;
        return WALDO_OK;
    case ENDING_FILTER:
        reader->finish = WALDO_FINISH_FILTER;
        return WALDO_OK;
    case ENDING_CALLS:
    case ENDING_UNKNOWN:
        if (!has_output(reader)) {
            return fail(reader, WALDO_EPROVIDER,
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

    if (reader->mode == BODY_EVENTS && !reader->is_done) {
        status = waldo__sse_finish(&reader->sse, on_event, reader);
        if (status < 0 && reader->status == WALDO_OK) {
            return fail_memory(reader, status);
        }
    }
    if (status >= 0) {
        status = check_whole(reader);
    }
    if (status >= 0 &&
        (waldo__chat_text_end(&reader->text) < 0 || waldo__chat_text_end(&reader->reasoning) < 0 ||
         waldo__chat_text_end(&reader->refusal) < 0)) {
        return fail_memory(reader, WALDO_ENOMEM);
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
                                       reader->finish == WALDO_FINISH_LENGTH);
    }
    if (status == WALDO_OK) {
        status = make_items(reader);
    }
    return status == WALDO_OK ? WALDO_OK : fail_memory(reader, status);
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
