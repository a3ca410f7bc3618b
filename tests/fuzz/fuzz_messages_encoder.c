/*
 * Whatever the history, a request is JSON, roles alternate from the user on, each call has its one
 * result at the beginning of the next message, and no id occurs twice.
 */
#include "encoder.h"

static const char *const urls[] = { "https://api.anthropic.com/v1", "http://h/v1" };

static int is_type(const waldo__json_value *block, const char *type)
{
    return waldo__str_is(waldo__json_get_str(block, "type"), type);
}

/* Blocks of a type in a message, with an id when one is given. */
static size_t count(const waldo__json_value *message, const char *type, const char *key,
                    const waldo_str *id)
{
    const waldo__json_value *block = waldo__json_first(waldo__json_get(message, "content"));
    size_t found = 0;

    for (; block != NULL; block = waldo__json_next(block)) {
        found += is_type(block, type) &&
                 (id == NULL || waldo__str_eq(waldo__json_get_str(block, key), *id));
    }
    return found;
}

static void check_calls(const waldo__json_value *messages, const waldo__json_value *message)
{
    const waldo__json_value *block = waldo__json_first(waldo__json_get(message, "content"));
    const waldo__json_value *next = waldo__json_next(message);
    size_t results = count(next, "tool_result", "", NULL);

    if (block == NULL || results != count(message, "tool_use", "", NULL)) {
        abort();
    }
    for (; block != NULL; block = waldo__json_next(block)) {
        waldo_str id = waldo__json_get_str(block, "id");
        size_t same = 0;

        if (!is_type(block, "tool_use")) {
            continue;
        }
        for (const waldo__json_value *at = messages; at != NULL; at = waldo__json_next(at)) {
            same += count(at, "tool_use", "id", &id);
        }
        if (same != 1 || count(next, "tool_result", "tool_use_id", &id) != 1 ||
            waldo__json_type_of(waldo__json_get(block, "input")) != WALDO__JSON_OBJECT) {
            abort();
        }
    }
    block = waldo__json_first(waldo__json_get(next, "content"));
    for (; results > 0; results--, block = waldo__json_next(block)) {
        if (!is_type(block, "tool_result")) {
            abort();
        }
    }
}

static void check_body(waldo_str body)
{
    waldo__json *doc = NULL;
    const waldo__json_value *messages;
    int is_user = 1;

    if (waldo__json_parse(body, NULL, &doc, NULL) != WALDO_OK) {
        abort();
    }
    messages = waldo__json_first(waldo__json_get(waldo__json_root(doc), "messages"));
    if (count(messages, "tool_result", "", NULL) > 0) {
        abort();
    }
    for (const waldo__json_value *at = messages; at != NULL; at = waldo__json_next(at)) {
        if (!waldo__str_is(waldo__json_get_str(at, "role"), is_user ? "user" : "assistant")) {
            abort();
        }
        check_calls(messages, at);
        is_user = !is_user;
    }
    waldo__json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const fuzz_target target = { &waldo__messages_ops, "anthropic:h/m", urls,
                                        sizeof urls / sizeof urls[0], check_body };

    fuzz_encoder(&target, data, size);
    return 0;
}
