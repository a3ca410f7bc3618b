/* Whatever the history, a request is JSON and each result in it is that of a call before it. */
#include "encoder.h"

static const char *const urls[] = { "https://api.openai.com/v1", "http://h/v1" };

static int is_type(const waldo__json_value *item, const char *first, const char *second)
{
    waldo_str type = waldo__json_get_str(item, "type");

    return waldo__str_is(type, first) || waldo__str_is(type, second);
}

/* Results among the items up to one, with the id of its call. */
static size_t count(const waldo__json_value *input, const waldo__json_value *end, waldo_str id,
                    const char *first, const char *second)
{
    size_t found = 0;

    for (const waldo__json_value *item = waldo__json_first(input); item != end;
         item = waldo__json_next(item)) {
        found +=
            is_type(item, first, second) && waldo__str_eq(waldo__json_get_str(item, "call_id"), id);
    }
    return found;
}

static void check_body(waldo_str body)
{
    waldo__json *doc = NULL;
    const waldo__json_value *input;

    if (waldo__json_parse(body, NULL, &doc, NULL) != WALDO_OK) {
        abort();
    }
    input = waldo__json_get(waldo__json_root(doc), "input");
    if (waldo__json_get(waldo__json_root(doc), "previous_response_id") != NULL) {
        input = NULL; /* the provider has the calls */
    }
    for (const waldo__json_value *item = waldo__json_first(input); item != NULL;
         item = waldo__json_next(item)) {
        waldo_str id = waldo__json_get_str(item, "call_id");
        size_t calls = count(input, item, id, "function_call", "custom_tool_call");
        size_t results = count(input, item, id, "function_call_output", "custom_tool_call_output");

        if (is_type(item, "function_call_output", "custom_tool_call_output") && results >= calls) {
            abort(); /* not one that a call asked for */
        }
        if (is_type(item, "function_call", "custom_tool_call") &&
            count(input, NULL, id, "function_call", "custom_tool_call") !=
                count(input, NULL, id, "function_call_output", "custom_tool_call_output")) {
            abort(); /* a call without its result */
        }
    }
    waldo__json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fuzz_target target = {
        &waldo__responses_ops,        "openai:h/m", urls,
        sizeof urls / sizeof urls[0], check_body,   "history=provider"
    };

    fuzz_encoder(&target, data, size);
    return 0;
}
