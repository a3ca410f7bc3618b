/*
 * Out of memory at every allocation in turn, once and from then on: models, encoder and reader say
 * so, or do exactly what they do otherwise, and give everything back.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "failing.h"
#include "base/buf.h"
#include "model/model.h"
#include <waldo/agent.h>

enum { MOST_ALLOCATIONS = 5000, OUT_MAX = 8192 };

/* The work writes what came out to text, without the library's failing. */
struct outcome {
    char text[OUT_MAX];
    size_t len;
};

static void note(struct outcome *out, waldo_str text)
{
    assert_true(text.len < sizeof out->text - out->len);
    if (text.len > 0) {
        memcpy(out->text + out->len, text.ptr, text.len);
    }
    out->len += text.len;
    out->text[out->len] = '\0';
}

typedef waldo_status (*work_fn)(struct outcome *out);

static void walk(work_fn work)
{
    static struct outcome expected, out;
    size_t steps = 0;

    failing_begin();
    expected.len = 0;
    assert_int_equal(work(&expected), WALDO_OK);
    assert_true(expected.len > 0);
    assert_int_equal(failing.living, 0);
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status;

        out.len = 0;
        status = work(&out);
        if (status == WALDO_OK) {
            assert_string_equal(out.text, expected.text);
        } else {
            assert_int_equal(status, WALDO_ENOMEM);
            assert_true(failing.failed > 0);
            steps++;
        }
    }
    assert_true(steps > 5);
}

static const char model_string[] = "chat:https://api.deepseek.com#deepseek-v4";

static waldo_status make_model(struct outcome *out)
{
    static const char *const headers[] = { "A: b", "C: d", NULL };
    static const double temperature = 0.5;
    waldo_model *model = waldo_model_new(
        &WALDO_MODEL(.model = model_string, .headers = headers, .reasoning = "low",
                     .quirks = "merge=on", .key_name = "K", .temperature = &temperature));
    waldo_status status = WALDO_ENOMEM;

    if (model != NULL) {
        status = waldo_error_status(waldo_model_error(model));
    }
    if (status == WALDO_OK) {
        note(out, waldo__model_url(model));
        note(out, waldo__model_name(model));
        note(out, waldo__str(waldo__model_key_name(model)));
        note(out, waldo__str(waldo__model_options(model)->headers[1]));
    }
    waldo_model_unref(model);
    return status;
}

static const waldo_tool_decl declared = { WALDO__S("f"), WALDO__S("about"),
                                          WALDO__S("{\"type\":\"object\"}") };

static const waldo_media image = { WALDO__S("image/gif"), WALDO__S("R0lGODlh") };

static const waldo_item items[] = {
    { .kind = WALDO_ITEM_USER, .text = WALDO__S("hello"), .media = &image, .media_count = 1 },
    { .kind = WALDO_ITEM_ASSISTANT,
      .text = WALDO__S("hi"),
      .vendor = WALDO__S("openai:h/gpt"),
      .raw = WALDO__S("{\"type\":\"message\",\"status\":null,\"content\":[]}") },
    { .kind = WALDO_ITEM_REASONING,
      .text = WALDO__S("hm"),
      .vendor = WALDO__S("chat:deepseek/deepseek") },
    { .kind = WALDO_ITEM_REASONING,
      .vendor = WALDO__S("anthropic:h/claude"),
      .raw = WALDO__S("{\"type\":\"thinking\",\"thinking\":\"t\",\"signature\":\"s\"}") },
    { .kind = WALDO_ITEM_ASSISTANT, .text = WALDO__S("text") },
    { .kind = WALDO_ITEM_TOOL_CALL,
      .id = WALDO__S("c1"),
      .name = WALDO__S("f"),
      .args = WALDO__S("{\"a\":[1,2]}"),
      .vendor = WALDO__S("chat:deepseek/deepseek"),
      .raw = WALDO__S("{\"extra_content\":{\"a\":1}}") },
    { .kind = WALDO_ITEM_TOOL_CALL,
      .id = WALDO__S("c2"),
      .name = WALDO__S("f"),
      .args = WALDO__S("{\"a\":") },
    { .kind = WALDO_ITEM_NOTICE, .text = WALDO__S("meanwhile") },
    { .kind = WALDO_ITEM_TOOL_RESULT,
      .id = WALDO__S("c1"),
      .text = WALDO__S("r1"),
      .media = &image,
      .media_count = 1 },
    { .kind = WALDO_ITEM_USER, .text = WALDO__S("see"), .media = &image, .media_count = 1 },
    { .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S("c2"), .text = WALDO__S("r2") },
};

static waldo_status encode_through(const waldo_model_ops *ops, const char *name, const char *url,
                                   struct outcome *out)
{
    waldo_model_options options = { .size = sizeof options };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = waldo__str(name),
                                .url = waldo__str(url),
                                .instructions = WALDO__S("be nice"),
                                .tools = &declared,
                                .tool_count = 1,
                                .output_schema = WALDO__S("{\"type\":\"object\","
                                                          "\"additionalProperties\":false}") };
    waldo_model_turn turn = { .size = sizeof turn, .tool_choice = WALDO_TOOL_CHOICE_REQUIRED };
    waldo_model_request request = { 0 };
    waldo_encoder *encoder = NULL;
    waldo_status status = ops->new_encoder(&epoch, &encoder, NULL);

    for (size_t i = 0; i < WALDO__COUNT(items) && status == WALDO_OK; i++) {
        status = ops->append(encoder, &items[i], 1, NULL);
    }
    if (status == WALDO_OK) {
        status = ops->request(encoder, &turn, &request, NULL);
    }
    if (status == WALDO_OK) {
        note(out, request.body);
    }
    ops->free_encoder(encoder);
    return status;
}

static waldo_status encode_chat(struct outcome *out)
{
    return encode_through(&waldo__chat_ops, "deepseek-v4", "https://api.deepseek.com", out);
}

static waldo_status encode_responses(struct outcome *out)
{
    return encode_through(&waldo__responses_ops, "gpt-5", "https://h/v1", out);
}

static waldo_status encode_messages(struct outcome *out)
{
    return encode_through(&waldo__messages_ops, "claude-opus-5-5", "https://h/v1", out);
}

#define DELTA(json) "data: {\"choices\":[{\"delta\":{" json "}}]}\n\n"

static const char answer[] = DELTA("\"reasoning\":\"hm\"") DELTA("\"content\":\"a\\ud83d\"") DELTA(
    "\"content\":\"\\ude00b\"") DELTA("\"content\":\"c\xFF\"") DELTA("\"content\":\"d\\n\"")
    DELTA("\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"},"
          "\"extra_content\":{\"x\":1}}]")
        DELTA("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"k\\\":\"}}]")
            DELTA("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]")
                DELTA("\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\"}}]") DELTA(
                    "\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":"
                    "\"g\",\"arguments\":{\"y\":2}}}]") "data: "
                                                        "{\"id\":\"i\",\"choices\":[{\"delta\":{},"
                                                        "\"finish_reason\":"
                                                        "\"tool_calls\"}]}\n\ndata: [DONE]\n\n";

static waldo_status on_delta(void *userdata, waldo_delta_kind kind, waldo_str text)
{
    (void)userdata;
    (void)kind;
    (void)text;
    return WALDO_OK;
}

static waldo_status read_through(const waldo_model_ops *ops, const char *model, waldo_str body,
                                 struct outcome *out)
{
    waldo_model_options options = { .size = sizeof options, .model = model };
    waldo_response response = { 0 };
    waldo_reader *reader = NULL;
    waldo_error *error = NULL;
    waldo_status status = ops->new_reader(&options, waldo__str("a/b"), &reader);

    for (size_t at = 0; at < body.len && status == WALDO_OK; at += 50) {
        size_t len = body.len - at < 50 ? body.len - at : 50;

        status = ops->feed(reader, waldo__strn(body.ptr + at, len), on_delta, NULL, NULL);
    }
    if (status == WALDO_OK) {
        status = ops->finish(reader, &response, &error);
    }
    for (size_t i = 0; i < response.item_count; i++) {
        const waldo_item *item = &response.items[i];

        note(out, item->text);
        note(out, item->id);
        note(out, item->name);
        note(out, item->args);
        note(out, item->raw);
        note(out, item->vendor);
    }
    waldo_error_free(error);
    ops->free_reader(reader);
    return status;
}

static waldo_status read_chat(struct outcome *out)
{
    return read_through(&waldo__chat_ops, model_string, WALDO__S(answer), out);
}

#define EVENT(type, members) "data: {\"type\":\"response." type "\"" members "}\n\n"

static const char responses_answer[] = EVENT(
    "output_item.added", ",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"r\"}")
    EVENT("reasoning_summary_text.delta", ",\"output_index\":0,\"delta\":\"a\\ud83d\"") EVENT(
        "reasoning_summary_text.delta", ",\"output_index\":0,\"delta\":\"\\ude00\xFF\"")
        EVENT("output_item.added", ",\"output_index\":1,\"item\":{\"type\":\"function_call\","
                                   "\"call_id\":\"c\",\"name\":\"f\"}")
            EVENT("function_call_arguments.delta", ",\"output_index\":1,\"delta\":\"{}\"") EVENT(
                "output_item.done", ",\"output_index\":1,\"item\":{\"type\":\"function_call\","
                                    "\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}")
                EVENT(
                    "completed",
                    ",\"response\":{\"id\":\"i\",\"output\":[{\"type\":\"reasoning\",\"summary\":[{"
                    "\"text\":\"b\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":"
                    "\"f\","
                    "\"arguments\":\"{ }\"},{\"type\":\"message\",\"content\":[{\"text\":\"x\"}]}],"
                    "\"input_transformations\":[{\"action\":\"removed\",\"reason\":\"r\"}]}");

static waldo_status read_responses(struct outcome *out)
{
    return read_through(&waldo__responses_ops, "openai:gpt-5", WALDO__S(responses_answer), out);
}

#define BLOCK(type, members)                                                                       \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"" type      \
    "\"" members "}}\n\n"
#define PIECE(type, members)                                                                       \
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"" type              \
    "_delta\"" members "}}\n\n"

static const char messages_answer[] =
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"i\"}}\n\n" BLOCK(
        "thinking", ",\"thinking\":\"\"") PIECE("thinking", ",\"thinking\":\"a\\ud83d\"")
        PIECE("thinking", ",\"thinking\":\"\\ude00\xFF\"")
            PIECE("signature", ",\"signature\":\"s\"") BLOCK("text", ",\"text\":\"x\"")
                PIECE("citations", ",\"citation\":{\"n\": 1}")
                    BLOCK("tool_use", ",\"id\":\"c\",\"name\":\"f\",\"caller\":{}")
                        PIECE("input_json", ",\"partial_json\":\"{}\"")
                            BLOCK("redacted_thinking",
                                  ",\"data\":\"d\"") "data: "
                                                     "{\"type\":\"message_delta\",\"delta\":{"
                                                     "\"stop_reason\":\"tool_use\"}}\n\n"
                                                     "data: {\"type\":\"message_stop\"}\n\n";

static waldo_status read_messages(struct outcome *out)
{
    return read_through(&waldo__messages_ops, "anthropic:claude", WALDO__S(messages_answer), out);
}

static waldo_status read_kept(struct outcome *out)
{
    waldo_model_options options = { .size = sizeof options,
                                    .model = "openai:gpt-5",
                                    .quirks = "history=provider" };
    waldo_response response = { .size = sizeof response };
    waldo_reader *reader = NULL;
    waldo_status status =
        waldo__responses_ops.new_reader(&options, WALDO__S("text/event-stream"), &reader);

    if (status == WALDO_OK) {
        status = waldo__responses_ops.feed(reader, WALDO__S(responses_answer), NULL, NULL, NULL);
        status = status == WALDO_OK ? waldo__responses_ops.finish(reader, &response, NULL) : status;
    }
    if (status == WALDO_OK) {
        note(out, response.items[0].response);
    }
    waldo__responses_ops.free_reader(reader);
    return status;
}

static const waldo_tool_decl freeform = { WALDO__S("p"), WALDO__S("about"),
                                          WALDO__S("{\"type\":\"object\"}"), WALDO__S("text"),
                                          WALDO__S("start: \"a\"") };

/* A call in plain text, declared, read, and sent to the provider as another made it. */
static waldo_status read_freeform(struct outcome *out)
{
    static const waldo_item made[] = {
        { .kind = WALDO_ITEM_TOOL_CALL,
          .id = WALDO__S("c"),
          .name = WALDO__S("p"),
          .args = WALDO__S("{\"text\":\"x\"}") },
        { .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S("c"), .text = WALDO__S("r") },
    };
    waldo_model_options options = { .size = sizeof options, .model = "openai:gpt-5" };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S("http://h/v1"),
                                .tools = &freeform,
                                .tool_count = 1 };
    waldo_model_turn turn = { .size = sizeof turn };
    waldo_model_request request = { .size = sizeof request };
    waldo_response response = { .size = sizeof response };
    const waldo_model_ops *ops = &waldo__responses_ops;
    waldo_encoder *encoder = NULL;
    waldo_reader *reader = NULL;
    waldo_status status = ops->new_encoder(&epoch, &encoder, NULL);

    if (status == WALDO_OK) {
        status = ops->append(encoder, made, WALDO__COUNT(made), NULL);
    }
    if (status == WALDO_OK) {
        status = ops->request(encoder, &turn, &request, NULL);
    }
    if (status == WALDO_OK) {
        note(out, request.body);
        status = ops->new_reader(&options, WALDO__S("text/event-stream"), &reader);
    }
    if (status == WALDO_OK) {
        status = ops->expect(reader, encoder);
    }
    if (status == WALDO_OK) {
        status = ops->feed(
            reader,
            WALDO__S(EVENT("output_item.done", ",\"item\":{\"type\":\"custom_tool_call\","
                                               "\"call_id\":\"c\",\"name\":\"p\",\"input\":"
                                               "\"\\n\"}") EVENT("completed", "")),
            NULL, NULL, NULL);
    }
    if (status == WALDO_OK) {
        status = ops->finish(reader, &response, NULL);
    }
    if (status == WALDO_OK) {
        note(out, response.items[0].args);
    }
    ops->free_reader(reader);
    ops->free_encoder(encoder);
    return status;
}

static waldo_status read_failure(struct outcome *out)
{
    waldo_status status = read_through(
        &waldo__responses_ops, "openai:gpt-5",
        WALDO__S(EVENT("failed", ",\"response\":{\"error\":{\"code\":\"bio_policy\"}}")), out);

    note(out, WALDO__S("over"));
    return status == WALDO_EFILTER ? WALDO_OK : status;
}

/* The history is at the provider: what it has goes, what is new stays. */
static waldo_status encode_kept(struct outcome *out)
{
    static const waldo_item answered[] = {
        { .kind = WALDO_ITEM_ASSISTANT, .text = WALDO__S("t"), .response = WALDO__S("resp_1") },
        { .kind = WALDO_ITEM_USER, .text = WALDO__S("more") },
    };
    waldo_model *model = waldo_model_new(&WALDO_MODEL(.model = "openai:gpt-5,history=provider"));
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = waldo__model_options(model),
                                .model = waldo__model_name(model),
                                .url = waldo__model_url(model) };
    waldo_model_turn turn = { .size = sizeof turn };
    waldo_model_request request = { .size = sizeof request };
    waldo_encoder *encoder = NULL;
    waldo_status status =
        model != NULL ? waldo_error_status(waldo_model_error(model)) : WALDO_ENOMEM;

    status = status == WALDO_OK ? waldo__responses_ops.new_encoder(&epoch, &encoder, NULL) : status;
    status = status == WALDO_OK ? waldo__responses_ops.append(encoder, items, 1, NULL) : status;
    status = status == WALDO_OK ? waldo__responses_ops.append(encoder, answered, 2, NULL) : status;
    status =
        status == WALDO_OK ? waldo__responses_ops.request(encoder, &turn, &request, NULL) : status;
    if (status == WALDO_OK) {
        note(out, request.body);
    }
    waldo__responses_ops.free_encoder(encoder);
    waldo_model_unref(model);
    return status;
}

static void models(void **state)
{
    (void)state;
    walk(make_model);
}

static void encoders(void **state)
{
    (void)state;
    walk(encode_chat);
    walk(encode_responses);
    walk(encode_messages);
    walk(encode_kept);
}

static void readers(void **state)
{
    (void)state;
    walk(read_chat);
    walk(read_responses);
    walk(read_messages);
    walk(read_kept);
    walk(read_freeform);
    walk(read_failure);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test(encoders),
        cmocka_unit_test(readers),
    };
    static cJSON_Hooks cjson_hooks = { .malloc_fn = failing_malloc, .free_fn = failing_free };

    cJSON_InitHooks(&cjson_hooks);
    failing_install();
    failing.on = 1;
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
