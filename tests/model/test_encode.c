#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "json/json.h"
#include "write.h"
#include "model/model.h"

/* What a conversation may hold, once; vendors of the raw parts differ on purpose. */
static const waldo_item everything[] = {
    USER("say h\xC3\xA9 and \"show\"\n\thosts"),
    USER("in one go"),
    REASONING("chat:deepseek/deepseek", "hm\n"),
    REASONING("chat:generic/other", "not ours"),
    { .kind = WALDO_ITEM_TOOL_CALL,
      .id = WALDO__S("call_AbC123"),
      .name = WALDO__S("run_command"),
      .args = WALDO__S("{\"cmd\": \"echo h\xC3\xA9\"}"),
      .vendor = WALDO__S("chat:gemini/gemini"),
      .raw = WALDO__S("{\"extra_content\":{\"google\":{\"thought_signature\":\"s1\"}}}") },
    { .kind = WALDO_ITEM_TOOL_CALL,
      .id = WALDO__S("aB3456789"),
      .name = WALDO__S("read_file"),
      .args = WALDO__S(""),
      .vendor = WALDO__S("chat:gemini/gemini"),
      .raw = WALDO__S("{\"extra_content\":{\"google\":{\"thought_signature\":\"s2\"}}}") },
    NOTICE("the sandbox was reopened"), /* before the results: must not part them */
    RESULT("call_AbC123", "h\xC3\xA9\n"),
    RESULT("aB3456789", ""),
    USER("and now?"),
    ASSISTANT("One more."),
    { .kind = WALDO_ITEM_TOOL_CALL,
      .id = WALDO__S("a-very-long-id-0123456789-0123456789-0123456789"),
      .name = WALDO__S("functions.run command"),
      .args = WALDO__S("{\"cmd\":\"cut"),
      .vendor = WALDO__S("chat:gemini/gemini"),
      .raw = WALDO__S("{\"extra_content\":{\"google\":{\"thought_signature\":\"s3\"}}}") },
    FAILED("a-very-long-id-0123456789-0123456789-0123456789", "the JSON ended early"),
    REASONING("chat:deepseek/deepseek", "so"),
    ASSISTANT("Done."),
    USER("thanks"),
};

static const struct {
    const char *golden;
    const char *url;
    const char *model;
} servers[] = {
    { "generic", "https://example.test/v1", "some/model-1" },
    { "openai", "https://api.openai.com/v1", "gpt-4.1" },
    { "llamacpp", "http://127.0.0.1:8080/v1", "qwen3" },
    { "ollama", "http://127.0.0.1:11434/v1", "qwen3" },
    { "vllm", "http://localhost:8000/v1", "qwen3" },
    { "deepseek", "https://api.deepseek.com", "deepseek-v4-pro" },
    { "mistral", "https://api.mistral.ai/v1", "mistral-large" },
    { "gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro" },
    { "groq", "https://api.groq.com/openai/v1", "llama-4" },
};

static const double temperature = 0.2, top_p = 0.95;
static const int64_t seed = 7;

static void golden_bodies(void **state)
{
    waldo_model_options options = { .size = sizeof options,
                                    .max_output_tokens = 1000,
                                    .temperature = &temperature,
                                    .top_p = &top_p,
                                    .seed = &seed,
                                    .reasoning = "low" };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(servers); i++) {
        waldo__buf body = WALDO__BUF_INIT(1 << 20);

        encode(&waldo__chat_ops, &options, servers[i].url, servers[i].model, everything,
               WALDO__COUNT(everything), WALDO_TOOL_CHOICE_REQUIRED, &body);
        expect_golden(servers[i].golden, waldo__buf_str(&body));
        waldo__buf_free(&body);
    }
}

/* The messages of the documented example, byte for byte. */
static void documented_example(void **state)
{
    static const waldo_item items[] = {
        USER("say h\xC3\xA9 and show hosts"),
        CALL("call_AbC123", "run_command", "{\"cmd\":\"echo h\xC3\xA9\"}"),
        CALL("call_DeF456", "read_file", "{\"path\":\"/etc/hosts\"}"),
        RESULT("call_AbC123", "h\xC3\xA9\n"),
        RESULT("call_DeF456", "127.0.0.1 localhost\n"),
    };
    static const char expected[] =
        "\"messages\":[{\"role\":\"system\",\"content\":\"Use tools.\"},"
        "{\"role\":\"user\",\"content\":\"say h\xC3\xA9 and show hosts\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_AbC123\",\"type\":"
        "\"function\",\"function\":{\"name\":\"run_command\",\"arguments\":"
        "\"{\\\"cmd\\\":\\\"echo h\xC3\xA9\\\"}\"}},{\"id\":\"call_DeF456\",\"type\":\"function\","
        "\"function\":{\"name\":\"read_file\",\"arguments\":\"{\\\"path\\\":\\\"/etc/hosts\\\"}\"}}"
        "]},{\"role\":\"tool\",\"tool_call_id\":\"call_AbC123\",\"content\":\"h\xC3\xA9\\n\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_DeF456\",\"content\":"
        "\"127.0.0.1 localhost\\n\"}]}";
    waldo_model_options options = { .size = sizeof options };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);
    size_t at;

    (void)state;
    encode(&waldo__chat_ops, &options, "https://api.openai.com/v1", "gpt-4.1", items,
           WALDO__COUNT(items), WALDO_TOOL_CHOICE_AUTO, &body);
    assert_true(waldo__str_starts(waldo__buf_str(&body),
                                  "{\"model\":\"gpt-4.1\",\"stream\":true,\"stream_options\":"
                                  "{\"include_usage\":true,\"include_obfuscation\":false},"));
    at = waldo__str_search(waldo__buf_str(&body), WALDO__S("\"messages\""), 0);
    assert_true(at < body.len);
    assert_string_equal(body.ptr + at, expected);
    waldo__buf_free(&body);
}

static void tool_choice(void **state)
{
    static const struct {
        const char *url;
        waldo_tool_choice choice;
        const char *end;
        int has_tools;
    } cases[] = {
        { "http://h/v1", WALDO_TOOL_CHOICE_AUTO, "\"hi\"}]}", 1 },
        { "http://h/v1", WALDO_TOOL_CHOICE_NONE, "\"hi\"}],\"tool_choice\":\"none\"}", 1 },
        { "http://h/v1", WALDO_TOOL_CHOICE_REQUIRED, "\"hi\"}],\"tool_choice\":\"required\"}", 1 },
        { "http://h/v1", WALDO_TOOL_CHOICE_NAMED,
          "\"hi\"}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
          "\"run_command\"}}}",
          1 },
        { "https://api.mistral.ai/v1", WALDO_TOOL_CHOICE_REQUIRED,
          "\"hi\"}],\"tool_choice\":\"any\"}", 1 },
        { "http://h:11434/v1", WALDO_TOOL_CHOICE_REQUIRED, "\"hi\"}]}", 1 },
        { "http://h:11434/v1", WALDO_TOOL_CHOICE_NONE, "\"hi\"}]}", 0 },
    };
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__buf body = WALDO__BUF_INIT(1 << 20);
        size_t found;

        encode(&waldo__chat_ops, &options, cases[i].url, "m", &hello, 1, cases[i].choice, &body);
        assert_true(waldo__str_ends(waldo__buf_str(&body), cases[i].end));
        found = waldo__str_search(waldo__buf_str(&body), WALDO__S("\"tools\":["), 0);
        assert_int_equal(found < body.len, cases[i].has_tools);
        waldo__buf_free(&body);
    }
}

/* Without tools nothing about tools is said, and only what was set is sent. */
static void smallest_body(void **state)
{
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options, .quirks = "stream=off" };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S("http://h/v1") };
    waldo_encoder *encoder = NULL;
    waldo_model_request made;

    (void)state;
    assert_int_equal(waldo__chat_ops.new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    assert_int_equal(waldo__chat_ops.append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(&waldo__chat_ops, encoder, WALDO_TOOL_CHOICE_REQUIRED);
    assert_string_equal(made.body.ptr,
                        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(made.streamed, 0);
    assert_string_equal(made.path.ptr, "/chat/completions");
    assert_string_equal(made.headers.ptr,
                        "Content-Type: application/json\nAccept: application/json\n");
    waldo__chat_ops.free_encoder(encoder);
}

/* Headers of the options are the same for every adapter and added where requests are sent. */
static void headers(void **state)
{
    static const char *const lines[] = { "X-Title: test", NULL };
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options, .headers = lines };
    waldo_encoder *encoder = new_encoder(&waldo__chat_ops, &options, "http://h/v1", "m", 0);

    (void)state;
    assert_int_equal(waldo__chat_ops.append(encoder, &hello, 1, NULL), WALDO_OK);
    assert_string_equal(request(&waldo__chat_ops, encoder, WALDO_TOOL_CHOICE_AUTO).headers.ptr,
                        "Content-Type: application/json\nAccept: text/event-stream\n");
    waldo__chat_ops.free_encoder(encoder);
}

/* Histories that a server would refuse for ever are mended in the same way each time. */
static void mended_histories(void **state)
{
    static const waldo_item lost[] = {
        USER("u"),
        CALL("a", "f", "{}"),
        CALL("b", "f", "{}"),
        RESULT("a", "ok"),
        ASSISTANT("so?"),
        RESULT("b", "late"),
        RESULT("c", "never asked for"),
        RESULT("a", "twice"),
    };
    static const waldo_item twice[] = {
        USER("u"), CALL("a", "f", "{}"), CALL("a", "g", "{}"), RESULT("a", "1"), RESULT("a", "2"),
    };
    static const waldo_item empty[] = {
        SUMMARY("they met"), ASSISTANT(""), NOTICE("n"), ASSISTANT("x"), ASSISTANT("y"),
    };
    waldo_model_options options = { .size = sizeof options };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);

    (void)state;
    encode(&waldo__chat_ops, &options, "http://h/v1", "m", lost, WALDO__COUNT(lost), 0, &body);
    expect_golden("mended-lost", waldo__buf_str(&body));
    waldo__buf_clear(&body);
    encode(&waldo__chat_ops, &options, "http://h/v1", "m", twice, WALDO__COUNT(twice), 0, &body);
    expect_golden("mended-twice", waldo__buf_str(&body));
    waldo__buf_clear(&body);
    encode(&waldo__chat_ops, &options, "http://h/v1", "m", empty, WALDO__COUNT(empty), 0, &body);
    expect_golden("mended-empty", waldo__buf_str(&body));
    waldo__buf_free(&body);
}

/* Between calls and results nothing stands: images of results come behind the last of them. */
static const waldo_media image = IMAGE;
static const waldo_item shown[] = {
    USER_SHOWS("what is this?", &image),
    USER("and that?"),
    CALL("a", "look", "{}"),
    CALL("b", "look", "{}"),
    RESULT_SHOWS("a", "one", &image),
    USER_SHOWS("meanwhile", &image),
    RESULT_SHOWS("b", "", &image),
    ASSISTANT("nice"),
    USER_SHOWS("", &image),
};

static void images(void **state)
{
    waldo_model_options options = { .size = sizeof options };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);

    (void)state;
    encode(&waldo__chat_ops, &options, "http://h/v1", "m", shown, WALDO__COUNT(shown), 0, &body);
    expect_golden("generic-images", waldo__buf_str(&body));
    waldo__buf_clear(&body);
    options.quirks = "merge=off";
    encode(&waldo__chat_ops, &options, "http://h/v1", "m", shown, WALDO__COUNT(shown), 0, &body);
    expect_golden("generic-images-apart", waldo__buf_str(&body));
    waldo__buf_clear(&body);
    options.quirks = "images=off";
    encode(&waldo__chat_ops, &options, "http://h/v1", "m", shown, WALDO__COUNT(shown), 0, &body);
    expect_golden("generic-images-off", waldo__buf_str(&body));
    waldo__buf_free(&body);
}

/* Reasoning goes into the message it came before, and into no other. */
static void reasoning_once(void **state)
{
    static const waldo_item items[] = {
        USER("u"),      REASONING("chat:deepseek/deepseek", "r1"),      ASSISTANT("a"),
        ASSISTANT("b"), REASONING("chat:deepseek/deepseek", "dropped"), USER("v"),
        ASSISTANT("c"),
    };
    waldo_model_options options = { .size = sizeof options };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);

    (void)state;
    encode(&waldo__chat_ops, &options, "https://api.deepseek.com", "deepseek-v4-pro", items,
           WALDO__COUNT(items), 0, &body);
    assert_true(
        waldo__str_ends(waldo__buf_str(&body),
                        "{\"role\":\"user\",\"content\":\"u\"},"
                        "{\"role\":\"assistant\",\"reasoning_content\":\"r1\",\"content\":\"a\"},"
                        "{\"role\":\"assistant\",\"reasoning_content\":\"\",\"content\":\"b\"},"
                        "{\"role\":\"user\",\"content\":\"v\"},"
                        "{\"role\":\"assistant\",\"reasoning_content\":\"\",\"content\":\"c\"}]}"));
    waldo__buf_free(&body);
}

static void refusals(void **state)
{
    waldo_model_options options = { .size = sizeof options };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S("http://h/v1") };
    waldo_tool_decl bad = { WALDO__S("t"), WALDO__S(""), WALDO__S("[1]") };
    waldo_encoder *encoder = NULL;
    waldo_error *error = NULL;

    (void)state;
    assert_int_equal(waldo__chat_ops.new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    expect_refusals(&waldo__chat_ops, encoder);
    waldo__chat_ops.free_encoder(encoder);

    epoch.tools = &bad;
    epoch.tool_count = 1;
    encoder = NULL;
    assert_int_equal(waldo__chat_ops.new_encoder(&epoch, &encoder, &error), WALDO_EJSON);
    assert_string_equal(waldo_error_message(error), "tool \"t\": its schema is not a JSON object");
    assert_null(encoder);
    waldo_error_free(error);
    error = NULL;
    bad.schema = WALDO__S("{\"type\":");
    assert_int_equal(waldo__chat_ops.new_encoder(&epoch, &encoder, &error), WALDO_EJSON);
    waldo_error_free(error);
}

/* An assistant message at the end, which one server takes only with "prefix". */
static void prefix_at_the_end(void **state)
{
    static const waldo_item items[] = { USER("u"), ASSISTANT("half a") };
    waldo_model_options options = { .size = sizeof options };
    waldo_encoder *encoder =
        new_encoder(&waldo__chat_ops, &options, "https://api.mistral.ai/v1", "m", DECLARED);
    waldo_str body;

    (void)state;
    assert_int_equal(waldo__chat_ops.append(encoder, items, 2, NULL), WALDO_OK);
    body = request(&waldo__chat_ops, encoder, 0).body;
    assert_true(waldo__str_ends(body, "\"content\":\"half a\",\"prefix\":true}]}"));
    assert_int_equal(waldo__chat_ops.append(encoder, items, 1, NULL), WALDO_OK);
    body = request(&waldo__chat_ops, encoder, 0).body;
    assert_true(waldo__str_ends(body, "\"content\":\"half a\"},{\"role\":\"user\",\"content\":"
                                      "\"u\"}]}"));
    waldo__chat_ops.free_encoder(encoder);
}

/* ---- requests only grow ---- */

static void requests_only_grow(void **state)
{
    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(servers); i++) {
        for (unsigned seed_value = 1; seed_value <= 20; seed_value++) {
            expect_growth(&waldo__chat_ops, servers[i].url, servers[i].model, seed_value);
        }
    }
}

/* A body without tools says how far it agrees with the others. */
static void frozen_without_tools(void **state)
{
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options };
    waldo_encoder *encoder =
        new_encoder(&waldo__chat_ops, &options, "http://h:11434/v1", "m", DECLARED);
    waldo_model_request with, without;
    waldo__buf copy = WALDO__BUF_INIT(1 << 20);

    (void)state;
    assert_int_equal(waldo__chat_ops.append(encoder, &hello, 1, NULL), WALDO_OK);
    without = request(&waldo__chat_ops, encoder, WALDO_TOOL_CHOICE_NONE);
    waldo__buf_add(&copy, without.body.ptr, without.frozen_len);
    assert_true(copy.len > 10);
    with = request(&waldo__chat_ops, encoder, WALDO_TOOL_CHOICE_AUTO);
    assert_memory_equal(with.body.ptr, copy.ptr, copy.len);
    waldo__chat_ops.free_encoder(encoder);
    waldo__buf_free(&copy);
}

int main(void)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(golden_bodies),
        cmocka_unit_test(documented_example),
        cmocka_unit_test(tool_choice),
        cmocka_unit_test(smallest_body),
        cmocka_unit_test(headers),
        cmocka_unit_test(mended_histories),
        cmocka_unit_test(images),
        cmocka_unit_test(reasoning_once),
        cmocka_unit_test(refusals),
        cmocka_unit_test(prefix_at_the_end),
        cmocka_unit_test(requests_only_grow),
        cmocka_unit_test(frozen_without_tools),
    };

    return !!cmocka_run_group_tests(cases, NULL, NULL);
}
