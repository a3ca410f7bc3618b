/* What a server says went wrong, as a status that tells what to do about it. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/header.h"
#include "base/utf8.h"
#include "model/shared.h"

enum { CODE_MAX = 128 };

/* The parts of an error body; text is borrowed from its document or from code_text. */
typedef struct said_parts {
    waldo_str message;
    waldo_str code;
    waldo_str type;
    waldo_str request_id;
    char code_text[32];
} said_parts;

static const struct {
    const char *word; /* code or type */
    waldo_status status;
} by_word[] = {
    { "insufficient_quota", WALDO_EQUOTA },
    { "billing_hard_limit_reached", WALDO_EQUOTA },
    { "context_length_exceeded", WALDO_EOVERFLOW },
    { "exceed_context_size_error", WALDO_EOVERFLOW },
    { "rate_limit_exceeded", WALDO_ERATE },
    { "invalid_api_key", WALDO_EAUTH },
    { "model_not_found", WALDO_ENOTFOUND },
    { "previous_response_not_found", WALDO_ENOTFOUND },
    { "tool_use_failed", WALDO_EPROVIDER }, /* the model's call was invalid: another try may do */
    { "content_filter", WALDO_EFILTER },
    { "invalid_encrypted_content", WALDO_ESTALE },
    { "invalid_prompt", WALDO_EINVAL },
    { "bio_policy", WALDO_EFILTER },
    { "misalignment_policy_violation", WALDO_EFILTER },
    { "image_content_policy_violation", WALDO_EFILTER },
    /* Anthropic: types first, so that a code, which is narrower, has the last word */
    { "authentication_error", WALDO_EAUTH },
    { "permission_error", WALDO_EAUTH },
    { "billing_error", WALDO_EQUOTA },
    { "not_found_error", WALDO_ENOTFOUND },
    { "conflict_error", WALDO_EBUSY },
    { "request_too_large", WALDO_EOVERFLOW },
    { "rate_limit_error", WALDO_ERATE },
    { "timeout_error", WALDO_ETIMEDOUT },
    { "overloaded_error", WALDO_EPROVIDER },
    { "organization_on_hold", WALDO_EAUTH },
    { "enforced_spend_limit_reached", WALDO_EQUOTA },
    { "contract_spend_limit_reached", WALDO_EQUOTA },
};

static const struct {
    int http_status;
    waldo_status status;
} by_http[] = {
    { 400, WALDO_EINVAL }, { 401, WALDO_EAUTH },     { 402, WALDO_EQUOTA },
    { 403, WALDO_EAUTH },  { 404, WALDO_ENOTFOUND }, { 408, WALDO_ETIMEDOUT },
    { 409, WALDO_EBUSY },  { 413, WALDO_EOVERFLOW }, { 422, WALDO_EINVAL },
    { 429, WALDO_ERATE },
};

/* In lower case. Wording of rate limits is looked for first: some of it mentions tokens, too. */
static const char *const rate_texts[] = { "rate limit", "too many requests", "throttl" };

static const char *const overflow_texts[] = {
    "exceeds the context window",               /* OpenAI */
    "maximum context length",                   /* OpenAI, vLLM, OpenRouter, SGLang, Mistral */
    "longer than the model's context length",   /* SGLang */
    "exceeds the available context size",       /* llama.cpp */
    "exceeded max context length",              /* Ollama */
    "reduce the length of the messages",        /* Groq */
    "exceeds the maximum number of tokens",     /* Gemini */
    "maximum prompt length is",                 /* xAI */
    "exceeds the maximum allowed input length", /* OpenRouter */
    "greater than the context length",          /* LM Studio */
    "prompt is too long",                       /* Anthropic */
    "exceed context limit",                     /* Anthropic: prompt and max_tokens together */
};

/* Of reasoning that was sent back, where the code is missing. */
static const char *const stale_texts[] = {
    "the encrypted content",
    "items are not persisted when `store` is set to false", /* OpenAI */
    "items are not persisted when store is set to false",
    "bound to a different conversation",   /* Anthropic */
    "invalid `signature` in `thinking`",   /* Anthropic */
    "invalid `signature` in `redacted_th", /* Anthropic */
    "expected `thinking` or `redacted_th", /* Anthropic: of a turn that another model began */
};

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* needle is in lower case. */
static int contains(waldo_str text, const char *needle)
{
    size_t len = strlen(needle);

    for (size_t at = 0; at + len <= text.len; at++) {
        size_t same = 0;

        while (same < len && lower(text.ptr[at + same]) == needle[same]) {
            same++;
        }
        if (same == len) {
            return 1;
        }
    }
    return 0;
}

static int contains_any(waldo_str text, const char *const *needles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (contains(text, needles[i])) {
            return 1;
        }
    }
    return 0;
}

waldo_status waldo__provider_quote(waldo_str text, size_t max, waldo__buf *out)
{
    waldo__buf clean = WALDO__BUF_WIPED(4 * max + 16);
    int in_tag = 0, gap = 0, is_html;

    text = waldo__str_trim(text);
    is_html = waldo__str_starts(text, "<");
    waldo__utf8_clean(waldo__slice(text.ptr, waldo__utf8_cut(text, max)), &clean);
    for (size_t i = 0; i < clean.len; i++) {
        char byte = clean.ptr[i];

        if (is_html && (byte == '<' || in_tag)) {
            in_tag = byte != '>';
            gap = 1;
        } else if ((unsigned char)byte <= ' ' || byte == 0x7f) {
            gap = 1;
        } else {
            if (gap && out->len > 0) {
                waldo__buf_putc(out, ' ');
            }
            gap = 0;
            waldo__buf_putc(out, byte);
        }
    }
    waldo__buf_free(&clean);
    return out->status;
}

/* A code is text or a number. */
static waldo_str read_code(const waldo__json_value *value, said_parts *into)
{
    waldo__buf number = WALDO__BUF_WIPED(sizeof into->code_text - 1);
    int64_t whole;
    waldo_str text = WALDO__S("");

    if (waldo__json_int(value, &whole)) {
        waldo__buf_printf(&number, "%lld", (long long)whole);
        memcpy(into->code_text, waldo__buf_str(&number).ptr, number.len);
        text = waldo__strn(into->code_text, number.len);
        waldo__buf_free(&number);
    } else if (!waldo__json_str(value, &text)) {
        text = WALDO__S("");
    }
    return text;
}

/* error.message, else error as text, else message, else detail, else what stands there. */
static void read_said(const waldo__json_value *root, waldo_str text, said_parts *into)
{
    const waldo__json_value *error = waldo__json_get(root, "error");
    const waldo__json_value *from = error;

    if (waldo__json_type_of(error) != WALDO__JSON_OBJECT) {
        from = root;
    }
    into->message = waldo__json_get_str(from, "message");
    if (into->message.len == 0 && !waldo__json_str(error, &into->message)) {
        into->message = waldo__json_get_str(root, "detail");
    }
    if (into->message.len == 0) {
        into->message = text;
    }
    into->type = waldo__json_get_str(from, "type");
    into->code = read_code(waldo__json_get(from, "code"), into);
    if (into->code.len == 0) {
        into->code = waldo__json_get_str(waldo__json_get(from, "details"), "error_code");
    }
    into->request_id = waldo__json_get_str(root, "request_id");
    if (into->code.len == 0) {
        into->code = into->type;
    }
}

static waldo_status base_status(int http_status)
{
    for (size_t i = 0; i < WALDO__COUNT(by_http); i++) {
        if (by_http[i].http_status == http_status) {
            return by_http[i].status;
        }
    }
    return http_status == 0 || http_status >= 500 ? WALDO_EPROVIDER : WALDO_EHTTP;
}

static waldo_status judge(int http_status, waldo_str headers, const said_parts *said)
{
    waldo_status status = base_status(http_status);
    waldo_str message = waldo__strn(said->message.ptr, said->message.len < WALDO__MODEL_MESSAGE_MAX
                                                           ? said->message.len
                                                           : WALDO__MODEL_MESSAGE_MAX);
    int should_retry = waldo__header_should_retry(headers);
    int is_rate = contains_any(message, rate_texts, WALDO__COUNT(rate_texts));
    int may_overflow = http_status == 0 || http_status == 400 || http_status == 413 ||
                       http_status == 422 || http_status >= 500;

    if (is_rate && (http_status == 0 || http_status == 503)) {
        status = WALDO_ERATE;
    } else if (!is_rate && may_overflow &&
               (contains_any(message, overflow_texts, WALDO__COUNT(overflow_texts)) ||
                (contains(message, "too large for model with") &&
                 contains(message, "context length")))) {
        status = WALDO_EOVERFLOW;
    } else if ((http_status == 400 || http_status == 404) &&
               contains_any(message, stale_texts, WALDO__COUNT(stale_texts))) {
        status = WALDO_ESTALE;
    } else if (contains(message, "previous response with id")) {
        status = WALDO_ENOTFOUND;
    } else if (http_status == 0 && waldo__str_is(said->type, "invalid_request_error")) {
        status = WALDO_EINVAL;
    } else if (http_status == 400 && waldo__str_trim(said->message).len == 0) {
        status = WALDO_EOVERFLOW; /* Cerebras answers so, without a word */
    }
    for (size_t i = 0; i < WALDO__COUNT(by_word); i++) {
        if (waldo__str_is(said->code, by_word[i].word) ||
            waldo__str_is(said->type, by_word[i].word)) {
            status = by_word[i].status;
        }
    }
    /* Its code is that of a rate limit, but the same request would never pass. */
    if (http_status == 429 && status == WALDO_ERATE && contains(message, "request too large")) {
        status = WALDO_EOVERFLOW;
    }
    if (should_retry == 1 && !waldo_status_retryable(status)) {
        return WALDO_EPROVIDER;
    }
    return should_retry == 0 && waldo_status_retryable(status) ? WALDO_EHTTP : status;
}

/* What the user can do about it. */
static const char *hint_for(waldo_status status, int http_status, waldo_str message)
{
    if (contains(message, "function tools with reasoning_effort are not supported")) {
        return "; use the model as openai:NAME, or set its reasoning to \"none\"";
    }
    if (status == WALDO_ENOTFOUND &&
        (contains(message, "response with id") || contains(message, "conversation with id"))) {
        return "; the provider does not have that part of the conversation, or not any more, and "
               "its text is not kept here: begin a new run, with the history that you have";
    }
    if (http_status >= 300 && http_status < 400) {
        return "; redirects are not followed: use the URL it leads to";
    }
    switch (status) {
    case WALDO_EAUTH:
        return "; check the key that belongs to this server";
    case WALDO_ENOTFOUND:
        return "; check the model's URL and name";
    case WALDO_EOVERFLOW:
        return "; the conversation is too long for the model";
    default:
        return "";
    }
}

/* A word of the server as a NUL-terminated text of bounded length. */
static void copy_word(waldo_str word, char *text, size_t size)
{
    size_t len = waldo__utf8_cut(word, size - 1), at = 0;

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)word.ptr[i] > ' ' && word.ptr[i] != 0x7f) {
            text[at++] = word.ptr[i];
        }
    }
    text[at] = '\0';
}

waldo_status waldo__provider_error(int http_status, waldo_str headers,
                                   const waldo__json_value *root, waldo_str text,
                                   waldo_error **ret_err)
{
    said_parts said = { 0 };
    waldo__buf message = WALDO__BUF_WIPED(4 * WALDO__MODEL_MESSAGE_MAX + 64);
    char code[CODE_MAX], request_id[CODE_MAX], where[64] = "reported inside its answer";
    waldo_error *error = NULL;
    waldo_status status;
    waldo_str id;
    int64_t number;

    read_said(root, text, &said);
    /* vLLM and llama.cpp put an HTTP status where others have a word. */
    if (http_status == 0 && waldo__str_int(said.code, &number) && number >= 400 && number < 600) {
        http_status = (int)number;
    } else if (http_status != 0) {
        snprintf(where, sizeof where, "answered HTTP %d", http_status);
    }
    status = judge(http_status, headers, &said);
    waldo__provider_quote(said.message, WALDO__MODEL_MESSAGE_MAX, &message);
    waldo_error_set(&error, status, WALDO_CLASS_PROVIDER, "the model server %s: %s%s", where,
                    message.len > 0 ? waldo__buf_str(&message).ptr : "(no message)",
                    hint_for(status, http_status, said.message));
    id = said.request_id;
    if (!waldo__header_get(headers, "x-request-id", &id)) {
        waldo__header_get(headers, "request-id", &id);
    }
    copy_word(said.code, code, sizeof code);
    copy_word(id, request_id, sizeof request_id);
    waldo_error_add_http(error, http_status, code, request_id,
                         waldo__header_retry_after_ms(headers, waldo__wall_ms()));
    waldo__error_move(ret_err, error);
    waldo__buf_free(&message);
    return status;
}

waldo_status waldo__provider_classify(const waldo_model_options *options, int http_status,
                                      waldo_str headers, waldo_str body, waldo_error **ret_err)
{
    static const waldo__json_limits limits = { .max_bytes = 1 << 20,
                                               .allow_duplicates = 1,
                                               .repair_surrogates = 1 };
    waldo__json *doc = NULL;
    const waldo__json_value *root = NULL;
    waldo_status status;

    (void)options;
    status = waldo__json_parse(body, &limits, &doc, NULL);
    if (status == WALDO_ENOMEM) {
        return waldo__error_nomem(ret_err); /* what it said decides what is done about it */
    }
    if (status == WALDO_OK) {
        root = waldo__json_root(doc);
        /* Gemini's own form: the object stands in an array. */
        if (waldo__json_type_of(root) == WALDO__JSON_ARRAY) {
            root = waldo__json_first(root);
        }
    }
    status = waldo__provider_error(http_status, headers, root, body, ret_err);
    waldo__json_free(doc);
    return status;
}
