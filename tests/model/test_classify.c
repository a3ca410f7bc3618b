#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "model/model.h"

#define OPENAI(message, type, code)                                                                \
    "{\"error\":{\"message\":\"" message "\",\"type\":\"" type "\",\"param\":null,\"code\":" code  \
    "}}"

#define ANTHROPIC(message, type, more)                                                             \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" message "\"" more        \
    "},\"request_id\":\"req_b\"}"
#define DETAILS(code) ",\"details\":{\"error_code\":\"" code "\"}"

static waldo_error *classify(int http_status, const char *headers, const char *body,
                             waldo_status expected)
{
    waldo_model_options options = { .size = sizeof options };
    waldo_error *error = NULL;
    waldo_status status = waldo__chat_ops.classify(&options, http_status, waldo__str(headers),
                                                   waldo__str(body), &error);

    if (status != expected) {
        print_error("HTTP %d %s: %s\n", http_status, body, waldo_status_name(status));
    }
    assert_int_equal(status, expected);
    assert_int_equal(waldo_error_status(error), expected);
    assert_int_equal(waldo_error_http_status(error), http_status);
    return error;
}

static const struct {
    int http_status;
    const char *body;
    waldo_status status;
    const char *code;
} answers[] = {
    { 400, OPENAI("bad", "invalid_request_error", "null"), WALDO_EINVAL, "invalid_request_error" },
    { 401, OPENAI("no", "invalid_request_error", "\"invalid_api_key\""), WALDO_EAUTH,
      "invalid_api_key" },
    { 403, OPENAI("no", "x", "null"), WALDO_EAUTH, "x" },
    { 404, OPENAI("no", "x", "\"model_not_found\""), WALDO_ENOTFOUND, "model_not_found" },
    { 402, OPENAI("Insufficient Balance", "unknown_error", "null"), WALDO_EQUOTA, "unknown_error" },
    { 408, "", WALDO_ETIMEDOUT, "" },
    { 409, "{}", WALDO_EBUSY, "" },
    { 413, "", WALDO_EOVERFLOW, "" },
    { 418, "teapot", WALDO_EHTTP, "" },
    { 422, "{\"detail\":[{\"msg\":\"field required\"}]}", WALDO_EINVAL, "" },
    { 429, OPENAI("Rate limit reached for gpt", "requests", "\"rate_limit_exceeded\""), WALDO_ERATE,
      "rate_limit_exceeded" },
    { 429,
      OPENAI("You exceeded your current quota", "insufficient_quota", "\"insufficient_quota\""),
      WALDO_EQUOTA, "insufficient_quota" },
    { 429, OPENAI("x", "insufficient_quota", "null"), WALDO_EQUOTA, "insufficient_quota" },
    { 429, OPENAI("Request too large for gpt-4 on tokens per min", "tokens", "null"),
      WALDO_EOVERFLOW, "tokens" },
    /* its code is that of a rate limit, but the same request would never pass */
    { 429,
      OPENAI("Request too large for gpt-4o on tokens per min (TPM): Limit 3, Requested 4", "tokens",
             "\"rate_limit_exceeded\""),
      WALDO_EOVERFLOW, "rate_limit_exceeded" },
    { 429, OPENAI("Request too large", "insufficient_quota", "\"insufficient_quota\""),
      WALDO_EQUOTA, "insufficient_quota" },
    { 500, OPENAI("x", "server_error", "null"), WALDO_EPROVIDER, "server_error" },
    { 503,
      "{\"error\":{\"message\":\"Loading model\",\"type\":\"unavailable_error\","
      "\"code\":503}}",
      WALDO_EPROVIDER, "503" },
    { 503, "Too many requests, slow down", WALDO_ERATE, "" },
    { 301, "moved", WALDO_EHTTP, "" },
    /* context overflow, server by server */
    { 400, OPENAI("x", "invalid_request_error", "\"context_length_exceeded\""), WALDO_EOVERFLOW,
      "context_length_exceeded" },
    { 400, OPENAI("Your input exceeds the context window of this model.", "t", "null"),
      WALDO_EOVERFLOW, "t" },
    { 400,
      "{\"object\":\"error\",\"message\":\"This model's maximum context length is 10 tokens. "
      "However, you requested 9 output tokens and your prompt contains at least 8 input "
      "tokens, .\",\"type\":\"BadRequestError\",\"code\":400}",
      WALDO_EOVERFLOW, "400" },
    { 400,
      "{\"error\":{\"message\":\"The input (9 tokens) is longer than the model's context "
      "length\"}}",
      WALDO_EOVERFLOW, "" },
    { 400, "{\"message\":\"Requested token count exceeds the model's maximum context length\"}",
      WALDO_EOVERFLOW, "" },
    { 400,
      "{\"error\":{\"code\":400,\"type\":\"exceed_context_size_error\",\"message\":\"request "
      "(9 tokens) exceeds the available context size (8 tokens), try increasing it\","
      "\"n_prompt_tokens\":9,\"n_ctx\":8}}",
      WALDO_EOVERFLOW, "400" },
    { 400, OPENAI("prompt too long; exceeded max context length by 3 tokens", "api_error", "null"),
      WALDO_EOVERFLOW, "api_error" },
    { 400,
      "{\"object\":\"error\",\"message\":\"Prompt contains 9 tokens .. too large for model "
      "with 8 maximum context length\",\"code\":\"3051\"}",
      WALDO_EOVERFLOW, "3051" },
    { 400, OPENAI("Please reduce the length of the messages or completion.", "t", "null"),
      WALDO_EOVERFLOW, "t" },
    { 400,
      "[{\"error\":{\"code\":400,\"message\":\"The input token count (9) exceeds the maximum "
      "number of tokens allowed (8)\",\"status\":\"INVALID_ARGUMENT\"}}]",
      WALDO_EOVERFLOW, "400" },
    { 400,
      "{\"error\":\"This model's maximum prompt length is 8 but the request contains 9 "
      "tokens.\"}",
      WALDO_EOVERFLOW, "" },
    { 400,
      OPENAI("This endpoint's maximum context length is 8 tokens. However, you requested "
             "about 9",
             "t", "400"),
      WALDO_EOVERFLOW, "400" },
    { 400, OPENAI("exceeds the maximum allowed input length of 8 tokens", "t", "null"),
      WALDO_EOVERFLOW, "t" },
    { 400, "{\"error\":\"the prompt is greater than the context length\"}", WALDO_EOVERFLOW, "" },
    { 400, "", WALDO_EOVERFLOW, "" },
    { 500, "{\"error\":\"exceeds the available context size\"}", WALDO_EOVERFLOW, "" },
    /* Anthropic: by the code where there is one, else by the type */
    { 400, ANTHROPIC("bad", "invalid_request_error", ""), WALDO_EINVAL, "invalid_request_error" },
    { 400, ANTHROPIC("prompt is too long: 9 tokens > 8 maximum", "invalid_request_error", ""),
      WALDO_EOVERFLOW, "invalid_request_error" },
    { 400,
      ANTHROPIC("input length and `max_tokens` exceed context limit: 7 + 3 > 8",
                "invalid_request_error", ""),
      WALDO_EOVERFLOW, "invalid_request_error" },
    { 400,
      ANTHROPIC("messages.1.content.0: The block is bound to a different conversation prefix.",
                "invalid_request_error", ""),
      WALDO_ESTALE, "invalid_request_error" },
    { 400,
      ANTHROPIC("messages.1.content.0: Invalid `signature` in `thinking` block",
                "invalid_request_error", ""),
      WALDO_ESTALE, "invalid_request_error" },
    { 400,
      ANTHROPIC("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                "`tool_use`",
                "invalid_request_error", ""),
      WALDO_ESTALE, "invalid_request_error" },
    { 401, ANTHROPIC("invalid x-api-key", "authentication_error", ""), WALDO_EAUTH,
      "authentication_error" },
    { 402, ANTHROPIC("no", "billing_error", ""), WALDO_EQUOTA, "billing_error" },
    { 403, ANTHROPIC("no", "permission_error", ""), WALDO_EAUTH, "permission_error" },
    { 403, ANTHROPIC("no", "permission_error", DETAILS("organization_on_hold")), WALDO_EAUTH,
      "organization_on_hold" },
    { 404, ANTHROPIC("model: x", "not_found_error", ""), WALDO_ENOTFOUND, "not_found_error" },
    { 409, ANTHROPIC("busy", "conflict_error", ""), WALDO_EBUSY, "conflict_error" },
    { 413, ANTHROPIC("Request exceeds the maximum size", "request_too_large", ""), WALDO_EOVERFLOW,
      "request_too_large" },
    { 429, ANTHROPIC("slow down", "rate_limit_error", ""), WALDO_ERATE, "rate_limit_error" },
    { 429, ANTHROPIC("no more", "rate_limit_error", DETAILS("enforced_spend_limit_reached")),
      WALDO_EQUOTA, "enforced_spend_limit_reached" },
    { 400, ANTHROPIC("no", "invalid_request_error", DETAILS("contract_spend_limit_reached")),
      WALDO_EQUOTA, "contract_spend_limit_reached" },
    { 400, ANTHROPIC("no", "invalid_request_error", DETAILS("image_dimensions_too_large")),
      WALDO_EINVAL, "image_dimensions_too_large" },
    { 500, ANTHROPIC("Internal", "api_error", ""), WALDO_EPROVIDER, "api_error" },
    { 504, ANTHROPIC("slow", "timeout_error", ""), WALDO_ETIMEDOUT, "timeout_error" },
    { 529, ANTHROPIC("Overloaded", "overloaded_error", ""), WALDO_EPROVIDER, "overloaded_error" },
    { 529, "", WALDO_EPROVIDER, "" },
    /* wording of rate limits is no overflow, and 401 is never one */
    { 400, OPENAI("rate limit: maximum context length per minute", "t", "null"), WALDO_EINVAL,
      "t" },
    { 401, OPENAI("maximum context length", "t", "null"), WALDO_EAUTH, "t" },
    /* reasoning that cannot go back any more */
    { 400, OPENAI("x", "invalid_request_error", "\"invalid_encrypted_content\""), WALDO_ESTALE,
      "invalid_encrypted_content" },
    { 400, OPENAI("The encrypted content gAAA could not be verified.", "t", "null"), WALDO_ESTALE,
      "t" },
    { 404,
      OPENAI("Item with id 'rs_1' not found. Items are not persisted when `store` is set to "
             "false.",
             "t", "null"),
      WALDO_ESTALE, "t" },
    /* a call that was invalid may be better next time */
    { 400, OPENAI("Failed to call a function.", "invalid_request_error", "\"tool_use_failed\""),
      WALDO_EPROVIDER, "tool_use_failed" },
    { 400, OPENAI("blocked", "t", "\"content_filter\""), WALDO_EFILTER, "content_filter" },
    { 502, "<html><title>502 Bad Gateway</title></html>", WALDO_EPROVIDER, "" },
    { 500, "{\"error\":", WALDO_EPROVIDER, "" },
    { 500, "\xFF\xFE", WALDO_EPROVIDER, "" },
};

static void by_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(answers); i++) {
        waldo_error *error =
            classify(answers[i].http_status, "", answers[i].body, answers[i].status);

        assert_string_equal(waldo_error_provider_code(error), answers[i].code);
        assert_int_equal(waldo_error_retry_after_ms(error), -1);
        waldo_error_free(error);
    }
}

static void headers_count(void **state)
{
    waldo_error *error =
        classify(429, "x-request-id: req_1\r\nretry-after: 2\r\n", "{}", WALDO_ERATE);

    (void)state;
    assert_string_equal(waldo_error_request_id(error), "req_1");
    assert_int_equal(waldo_error_retry_after_ms(error), 2000);
    waldo_error_free(error);
    error = classify(529, "request-id: req_2\r\nretry-after: 3\r\n",
                     ANTHROPIC("Overloaded", "overloaded_error", ""), WALDO_EPROVIDER);
    assert_string_equal(waldo_error_request_id(error), "req_2");
    assert_int_equal(waldo_error_retry_after_ms(error), 3000);
    waldo_error_free(error);
    error = classify(529, "", ANTHROPIC("Overloaded", "overloaded_error", ""), WALDO_EPROVIDER);
    assert_string_equal(waldo_error_request_id(error), "req_b");
    waldo_error_free(error);
    /* the server knows better */
    waldo_error_free(classify(400, "x-should-retry: true\n", "{}", WALDO_EPROVIDER));
    waldo_error_free(classify(429, "x-should-retry: false\n", "{}", WALDO_EHTTP));
    waldo_error_free(classify(401, "x-should-retry: false\n", "{}", WALDO_EAUTH));
}

static void expect_message(int http_status, const char *body, waldo_status status,
                           const char *message)
{
    waldo_error *error = classify(http_status, "", body, status);

    assert_string_equal(waldo_error_message(error), message);
    waldo_error_free(error);
}

static void messages(void **state)
{
    (void)state;
    expect_message(400, OPENAI("a\\nb\\u0007  c", "t", "null"), WALDO_EINVAL,
                   "the model server answered HTTP 400: a b c");
    expect_message(401, "", WALDO_EAUTH,
                   "the model server answered HTTP 401: (no message); check the key that belongs "
                   "to this server");
    expect_message(404, "404 page not found", WALDO_ENOTFOUND,
                   "the model server answered HTTP 404: 404 page not found; check the model's URL "
                   "and name");
    expect_message(502, "<html><head><title>502 Bad Gateway</title></head>\n<b>nginx</b></html>",
                   WALDO_EPROVIDER, "the model server answered HTTP 502: 502 Bad Gateway nginx");
    expect_message(308, "", WALDO_EHTTP,
                   "the model server answered HTTP 308: (no message); redirects are not followed: "
                   "use the URL it leads to");
    expect_message(400,
                   OPENAI("Function tools with reasoning_effort are not supported for gpt-5.6 in "
                          "/v1/chat/completions. To use function tools, use /v1/responses or set "
                          "reasoning_effort to 'none'.",
                          "invalid_request_error", "null"),
                   WALDO_EINVAL,
                   "the model server answered HTTP 400: Function tools with reasoning_effort are "
                   "not supported for gpt-5.6 in /v1/chat/completions. To use function tools, use "
                   "/v1/responses or set reasoning_effort to 'none'.; use the model as "
                   "openai:NAME, or set its reasoning to \"none\"");
}

/* However much a server says, an error stays small and valid. */
static void messages_are_bounded(void **state)
{
    waldo__buf body = WALDO__BUF_INIT(4 << 20);
    waldo_error *error;

    (void)state;
    for (int i = 0; i < 300000; i++) {
        waldo__buf_puts(&body, "\xE6\xBC\xA2");
    }
    error = classify(500, "", waldo__buf_str(&body).ptr, WALDO_EPROVIDER);
    assert_in_range(strlen(waldo_error_message(error)), 2000, 2200);
    assert_int_equal(strlen(waldo_error_message(error)) % 3,
                     strlen("the model server answered HTTP 500: ") % 3);
    waldo_error_free(error);
    waldo__buf_free(&body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_answer),
        cmocka_unit_test(headers_count),
        cmocka_unit_test(messages),
        cmocka_unit_test(messages_are_bounded),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
