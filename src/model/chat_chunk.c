/* One JSON text of an answer: what its deltas hold, how it ends, what went wrong. */
#include "base/alloc.h"
#include "model/chat_reader.h"

static const struct {
    const char *reason;
    waldo__chat_ending ending;
} endings[] = {
    { "stop", WALDO__CHAT_ENDING_STOP },
    { "tool_calls", WALDO__CHAT_ENDING_CALLS },
    { "function_call", WALDO__CHAT_ENDING_CALLS },
    { "length", WALDO__CHAT_ENDING_LENGTH },
    { "model_length", WALDO__CHAT_ENDING_LENGTH }, /* Mistral */
    { "content_filter", WALDO__CHAT_ENDING_FILTER },
    { "error", WALDO__CHAT_ENDING_FAILED },                        /* Mistral */
    { "insufficient_system_resource", WALDO__CHAT_ENDING_FAILED }, /* DeepSeek */
};

/* ---- what a delta holds ---- */

/* What an event does is noted, so that the next one like it needs no parse. */
static void note_effect(waldo_reader *reader, waldo__chat_effect effect, const char *key,
                        int64_t index)
{
    reader->effect = reader->effect == WALDO__CHAT_EFFECT_NONE ? effect : WALDO__CHAT_EFFECT_OTHER;
    reader->effect_key = key;
    reader->effect_index = index;
}

/* Mistral: content is a list of texts and of thoughts, which are lists of texts. */
static waldo_status add_parts(waldo_reader *reader, const waldo__json_value *parts)
{
    waldo_status status = WALDO_OK;

    note_effect(reader, WALDO__CHAT_EFFECT_OTHER, NULL, -1);
    for (const waldo__json_value *part = waldo__json_first(parts); part != NULL && status >= 0;
         part = waldo__json_next(part)) {
        const waldo__json_value *thoughts = waldo__json_get(part, "thinking");
        waldo_str piece;

        if (waldo__json_str(waldo__json_get(part, "text"), &piece)) {
            status = waldo__body_add_text(&reader->body, &reader->text, WALDO_DELTA_TEXT, piece);
        } else if (waldo__json_str(thoughts, &piece)) {
            status = waldo__body_add_text(&reader->body, &reader->reasoning, WALDO_DELTA_REASONING,
                                          piece);
        }
        if (waldo__json_type_of(thoughts) != WALDO__JSON_ARRAY) {
            continue;
        }
        for (const waldo__json_value *thought = waldo__json_first(thoughts);
             thought != NULL && status >= 0; thought = waldo__json_next(thought)) {
            status = waldo__body_add_text(&reader->body, &reader->reasoning, WALDO_DELTA_REASONING,
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

static waldo_str trimmed(const waldo__json_value *object, const char *key)
{
    return waldo__str_trim(waldo__json_get_str(object, key));
}

static waldo_status add_fragment(waldo_reader *reader, const waldo__chat_fragment *fragment)
{
    waldo__chat_call *target = NULL;
    int is_new = 0;
    waldo_status status = waldo__chat_calls_add(&reader->calls, fragment, &target, &is_new);

    if (status == WALDO_ETOOBIG) {
        return waldo__body_fail(
            &reader->body, status,
            "a tool call in the model's answer is too large, or there are too many");
    }
    if (status < 0) {
        return waldo__body_fail_memory(&reader->body, status);
    }
    return is_new ? waldo__body_emit(&reader->body, WALDO_DELTA_CALL, waldo__buf_str(&target->name))
                  : WALDO_OK;
}

/* call is an entry of tool_calls; function its function, or the older function_call. */
static waldo_status add_call(waldo_reader *reader, const waldo__json_value *call,
                             const waldo__json_value *function, int is_whole)
{
    const waldo__json_value *arguments = waldo__json_get(function, "arguments");
    waldo__buf args = WALDO__BUF_WIPED(WALDO__MODEL_ARGS_MAX);
    waldo__buf extra = WALDO__BUF_WIPED(1 << 20);
    waldo__chat_fragment fragment = { .is_whole = is_whole };
    waldo_status status = waldo__body_read_args(arguments, &args);
    int is_piece;

    if (status == WALDO_OK) {
        status = read_extra(call, &extra);
    }
    fragment.index = waldo__json_get_int(call, "index", -1);
    fragment.id = trimmed(call, "id");
    fragment.name = trimmed(function, "name");
    fragment.args = waldo__buf_str(&args);
    fragment.extra = waldo__buf_str(&extra);
    is_piece = !is_whole && fragment.id.len + fragment.name.len + extra.len == 0 && args.len > 0 &&
               waldo__json_type_of(arguments) == WALDO__JSON_STRING;
    note_effect(reader, is_piece ? WALDO__CHAT_EFFECT_ARGS : WALDO__CHAT_EFFECT_OTHER, "arguments",
                fragment.index);
    status = status == WALDO_OK ? add_fragment(reader, &fragment)
                                : waldo__body_fail_memory(&reader->body, status);
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

static waldo_status add_reasoning(waldo_reader *reader, const waldo__json_value *delta)
{
    static const char *const keys[] = { "reasoning_content", "reasoning" };

    for (size_t i = 0; i < WALDO__COUNT(keys); i++) {
        waldo_str piece = waldo__json_get_str(delta, keys[i]);

        if (piece.len > 0) {
            note_effect(reader, WALDO__CHAT_EFFECT_REASONING, keys[i], -1);
            return waldo__body_add_text(&reader->body, &reader->reasoning, WALDO_DELTA_REASONING,
                                        piece);
        }
    }
    return WALDO_OK;
}

static waldo_status add_refusal(waldo_reader *reader, const waldo__json_value *delta)
{
    waldo_str piece = waldo__json_get_str(delta, "refusal");

    if (piece.len > 0) {
        note_effect(reader, WALDO__CHAT_EFFECT_OTHER, NULL, -1);
    }
    return waldo__body_add_text(&reader->body, &reader->refusal, WALDO_DELTA_TEXT, piece);
}

static waldo_status add_delta(waldo_reader *reader, const waldo__json_value *delta, int is_whole)
{
    const waldo__json_value *content = waldo__json_get(delta, "content");
    waldo_status status = add_reasoning(reader, delta);
    waldo_str piece = WALDO__S("");

    if (status >= 0 && waldo__json_str(content, &piece) && piece.len > 0) {
        note_effect(reader, WALDO__CHAT_EFFECT_TEXT, "content", -1);
        status = waldo__body_add_text(&reader->body, &reader->text, WALDO_DELTA_TEXT, piece);
    } else if (status >= 0 && waldo__json_type_of(content) == WALDO__JSON_ARRAY) {
        status = add_parts(reader, content);
    }
    if (status >= 0) {
        status = add_refusal(reader, delta);
    }
    return status >= 0 ? add_calls(reader, delta, is_whole) : status;
}

/* ---- one chunk, or one whole answer ---- */

static void read_usage(waldo_reader *reader, const waldo__json_value *usage)
{
    const waldo__json_value *details = waldo__json_get(usage, "prompt_tokens_details");
    waldo_usage *to = &reader->answer.usage;
    int64_t cached;

    if (waldo__json_type_of(usage) != WALDO__JSON_OBJECT) {
        return;
    }
    note_effect(reader, WALDO__CHAT_EFFECT_OTHER, NULL, -1);
    to->input_tokens = waldo__json_get_int(usage, "prompt_tokens", to->input_tokens);
    to->output_tokens = waldo__json_get_int(usage, "completion_tokens", to->output_tokens);
    cached =
        waldo__json_get_int(usage, "prompt_cache_hit_tokens", to->cached_tokens); /* DeepSeek */
    to->cached_tokens = waldo__json_get_int(details, "cached_tokens", cached);
    to->cache_write_tokens =
        waldo__json_get_int(details, "cache_write_tokens", to->cache_write_tokens);
    to->reasoning_tokens = waldo__json_get_int(waldo__json_get(usage, "completion_tokens_details"),
                                               "reasoning_tokens", to->reasoning_tokens);
}

static waldo_status read_reason(waldo_reader *reader, waldo_str reason)
{
    note_effect(reader, WALDO__CHAT_EFFECT_OTHER, NULL, -1);
    reader->ending = WALDO__CHAT_ENDING_UNKNOWN;
    for (size_t i = 0; i < WALDO__COUNT(endings); i++) {
        if (waldo__str_is(reason, endings[i].reason)) {
            reader->ending = endings[i].ending;
        }
    }
    waldo__buf_clear(&reader->reason);
    waldo__provider_quote(waldo__slice(reason.ptr, reason.len < 64 ? reason.len : 64), 64,
                          &reader->reason);
    if (waldo__chat_calls_have_stray(&reader->calls) && !reader->warned) {
        reader->warned = 1;
        return waldo__body_tell_stray(&reader->body);
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

/* Mistral says it in its own way. */
static int holds_error(const waldo__json_value *root)
{
    return waldo__body_holds_error(root) ||
           waldo__str_is(waldo__json_get_str(root, "object"), "error");
}

static waldo_status read_root(waldo_reader *reader, const waldo__json_value *root, waldo_str text)
{
    const waldo__json_value *choices = waldo__json_get(root, "choices");
    waldo_status status = WALDO_OK;

    if (waldo__json_type_of(root) != WALDO__JSON_OBJECT) {
        return waldo__body_fail(&reader->body, WALDO_EPROTO,
                                "the model server sent JSON that is not an object");
    }
    if (holds_error(root)) {
        return waldo__body_fail_provider(&reader->body, root, text);
    }
    if (reader->answer.id.len == 0) {
        waldo__provider_quote(waldo__json_get_str(root, "id"), 128, &reader->answer.id);
    }
    read_usage(reader, waldo__json_get(root, "usage"));
    read_usage(reader, waldo__json_path(root, "x_groq.usage"));
    if (waldo__json_type_of(choices) == WALDO__JSON_ARRAY) {
        for (const waldo__json_value *choice = waldo__json_first(choices);
             choice != NULL && status >= 0; choice = waldo__json_next(choice)) {
            status = read_choice(reader, choice);
        }
    } else if (reader->body.kind == WALDO__BODY_JSON) {
        return waldo__body_fail_provider(&reader->body, root, text);
    }
    if (status >= 0 && reader->ending == WALDO__CHAT_ENDING_FAILED) {
        return waldo__body_fail(&reader->body, WALDO_EPROVIDER,
                                "the model server gave up: finish_reason \"%s\"",
                                waldo__buf_str(&reader->reason).ptr);
    }
    return status;
}

waldo_status waldo__chat_read_json(waldo_reader *reader, waldo_str text)
{
    waldo__json *doc = NULL;
    waldo_str parsed;
    waldo_status status = waldo__body_parse(&reader->body, text, &doc, &parsed);

    reader->effect = WALDO__CHAT_EFFECT_NONE;
    if (status == WALDO_OK) {
        status = read_root(reader, waldo__json_root(doc), text);
        waldo__json_free(doc);
    }
    if (status == WALDO_OK && reader->effect != WALDO__CHAT_EFFECT_NONE &&
        reader->effect != WALDO__CHAT_EFFECT_OTHER) {
        waldo__fast_learn(&reader->fast, text, (int)reader->effect, reader->effect_key, NULL);
        reader->fast_index = reader->effect_index;
    }
    return status;
}

/* What waldo__chat_read_json() would do with an event that is like one before it. */
waldo_status waldo__chat_read_piece(waldo_reader *reader, waldo_str piece)
{
    waldo__buf args = WALDO__BUF_WIPED(WALDO__MODEL_ARGS_MAX);
    waldo__chat_fragment fragment = { .index = reader->fast_index };
    waldo_status status;

    if (reader->fast.effect == WALDO__CHAT_EFFECT_TEXT) {
        return waldo__body_add_text(&reader->body, &reader->text, WALDO_DELTA_TEXT, piece);
    }
    if (reader->fast.effect == WALDO__CHAT_EFFECT_REASONING) {
        return waldo__body_add_text(&reader->body, &reader->reasoning, WALDO_DELTA_REASONING,
                                    piece);
    }
    /* Nearly always nothing in it must be replaced, and no copy is needed. */
    fragment.args = piece;
    status = WALDO_OK;
    if (waldo__model_text_has_mark(piece)) {
        status = waldo__model_text_plain(piece, &args);
        fragment.args = waldo__buf_str(&args);
    }
    status = status == WALDO_OK ? add_fragment(reader, &fragment)
                                : waldo__body_fail_memory(&reader->body, status);
    waldo__buf_free(&args);
    return status;
}
