/* Whatever the history, a request is JSON and no call in it is without its result. */
#include "encoder.h"

static const char *const models[] = {
    "https://api.openai.com/v1",
    "https://api.mistral.ai/v1",
    "https://api.deepseek.com",
    "http://127.0.0.1:11434/v1",
    "http://h/v1",
};

/* The ids of the calls of an assistant message, each answered by one of the messages behind it. */
static const waldo__json_value *check_calls(const waldo__json_value *message)
{
    const waldo__json_value *call = waldo__json_first(waldo__json_get(message, "tool_calls"));
    const waldo__json_value *result = message;

    for (; call != NULL; call = waldo__json_next(call)) {
        const waldo__json_value *answer = waldo__json_next(message);
        waldo_str id = waldo__json_get_str(call, "id");

        while (waldo__str_is(waldo__json_get_str(answer, "role"), "tool") &&
               !waldo__str_eq(waldo__json_get_str(answer, "tool_call_id"), id)) {
            answer = waldo__json_next(answer);
        }
        if (!waldo__str_is(waldo__json_get_str(answer, "role"), "tool")) {
            abort();
        }
        result = waldo__json_next(result);
    }
    return waldo__json_next(result);
}

static void check_body(waldo_str body)
{
    waldo__json *doc = NULL;
    const waldo__json_value *message;

    if (waldo__json_parse(body, NULL, &doc, NULL) != WALDO_OK) {
        abort();
    }
    message = waldo__json_first(waldo__json_get(waldo__json_root(doc), "messages"));
    while (message != NULL) {
        if (waldo__str_is(waldo__json_get_str(message, "role"), "tool")) {
            abort(); /* not one that a call asked for */
        }
        message = check_calls(message);
    }
    waldo__json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fuzz_target target = { &waldo__chat_ops, "chat:generic/m", models,
                                        sizeof models / sizeof models[0], check_body };

    fuzz_encoder(&target, data, size);
    return 0;
}
