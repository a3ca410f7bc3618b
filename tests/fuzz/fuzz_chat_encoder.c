/*
 * Each three bytes begin an item, whose text is what follows; whatever the history, every request
 * is JSON, begins with the frozen part of those before it, and no call is without its result.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/buf.h"
#include "json/json.h"
#include "model/model.h"

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

static waldo_item make_item(const uint8_t *data, size_t len)
{
    waldo_str text = waldo__strn((const char *)data + 3, len - 3);
    waldo_item item = { .kind = data[0] % 8 != 0 ? data[0] % 8 : WALDO_ITEM_USER,
                        .is_error = data[0] >> 7,
                        .text = text,
                        .name = text,
                        .args = text,
                        .raw = text,
                        .vendor = waldo__str("chat:generic/m") };

    /* few ids, so that results find their calls */
    item.id = waldo__strn((const char *)data + 1, data[2] % 3);
    return item;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_model_options options = { .size = sizeof options };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = waldo__str("m") };
    waldo__buf frozen = WALDO__BUF_INIT(1 << 24);
    waldo_encoder *encoder = NULL;

    if (size < 1) {
        return 0;
    }
    epoch.url = waldo__str(models[data[0] % (sizeof models / sizeof models[0])]);
    if (waldo__chat_ops.new_encoder(&epoch, &encoder, NULL) != WALDO_OK) {
        abort();
    }
    for (size_t at = 1; at + 3 <= size;) {
        size_t len = 3 + (size_t)data[at + 1] % 13;
        waldo_model_turn turn = { .size = sizeof turn, .tool_choice = 0 };
        waldo_model_request request;
        waldo_item item;

        len = len < size - at ? len : size - at;
        item = make_item(data + at, len);
        at += len;
        if (waldo__chat_ops.append(encoder, &item, 1, NULL) != WALDO_OK) {
            abort();
        }
        if (waldo__chat_ops.request(encoder, &turn, &request, NULL) == WALDO_OK) {
            check_body(request.body);
            if (request.body.len < frozen.len || request.frozen_len < frozen.len ||
                memcmp(request.body.ptr, waldo__buf_str(&frozen).ptr, frozen.len) != 0) {
                abort();
            }
            waldo__buf_clear(&frozen);
            waldo__buf_add(&frozen, request.body.ptr, request.frozen_len);
        }
    }
    waldo__chat_ops.free_encoder(encoder);
    waldo__buf_free(&frozen);
    return 0;
}
