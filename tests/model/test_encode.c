#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "json/json.h"
#include "model/model.h"
#include <waldo/agent.h>

static const waldo_tool_decl declared[] = {
    { WALDO__S("run_command"), WALDO__S("Run a \"command\"."),
      WALDO__S("{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"}},"
               "\"required\":[\"cmd\"]}") },
    { WALDO__S("read_file"), WALDO__S(""), WALDO__S("") },
};

#define USER(t)                                                                                    \
    {                                                                                              \
        .kind = WALDO_ITEM_USER, .text = WALDO__S(t)                                               \
    }
#define NOTICE(t)                                                                                  \
    {                                                                                              \
        .kind = WALDO_ITEM_NOTICE, .text = WALDO__S(t)                                             \
    }
#define SUMMARY(t)                                                                                 \
    {                                                                                              \
        .kind = WALDO_ITEM_COMPACTION, .text = WALDO__S(t)                                         \
    }
#define ASSISTANT(t)                                                                               \
    {                                                                                              \
        .kind = WALDO_ITEM_ASSISTANT, .text = WALDO__S(t)                                          \
    }
#define REASONING(v, t)                                                                            \
    {                                                                                              \
        .kind = WALDO_ITEM_REASONING, .vendor = WALDO__S(v), .text = WALDO__S(t)                   \
    }
#define CALL(i, n, a)                                                                              \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_CALL, .id = WALDO__S(i), .name = WALDO__S(n), .args = WALDO__S(a)  \
    }
#define RESULT(i, t)                                                                               \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S(i), .text = WALDO__S(t)                     \
    }
#define FAILED(i, t)                                                                               \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S(i), .text = WALDO__S(t), .is_error = 1      \
    }

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

static waldo_encoder *new_encoder(const waldo_model_options *options, const char *url,
                                  const char *model, size_t tool_count)
{
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = options,
                                .model = waldo__str(model),
                                .url = waldo__str(url),
                                .instructions = WALDO__S("Use tools."),
                                .tools = declared,
                                .tool_count = tool_count };
    waldo_encoder *encoder = NULL;

    assert_int_equal(waldo__chat_ops.new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    return encoder;
}

static waldo_model_request request(waldo_encoder *encoder, waldo_tool_choice choice)
{
    waldo_model_turn turn = { .size = sizeof turn,
                              .tool_choice = choice,
                              .tool_choice_name = WALDO__S("run_command") };
    waldo_model_request made = { 0 };

    assert_int_equal(waldo__chat_ops.request(encoder, &turn, &made, NULL), WALDO_OK);
    return made;
}

/* The request for items, copied to out. */
static void encode(const waldo_model_options *options, const char *url, const char *model,
                   const waldo_item *items, size_t count, waldo_tool_choice choice, waldo__buf *out)
{
    waldo_encoder *encoder = new_encoder(options, url, model, WALDO__COUNT(declared));

    assert_int_equal(waldo__chat_ops.append(encoder, items, count, NULL), WALDO_OK);
    waldo__buf_add_str(out, request(encoder, choice).body);
    waldo__chat_ops.free_encoder(encoder);
}

/* With WALDO_GOLDEN=write the file is made instead. */
static void expect_golden(const char *name, waldo_str body)
{
    const char *write = getenv("WALDO_GOLDEN");
    char path[4096];
    char *text = waldo__zalloc(1 << 20);
    FILE *file;

    assert_non_null(text);
    snprintf(path, sizeof path, "%s/model/golden/%s.json", WALDO_TESTS_DIR, name);
    file = fopen(path, write != NULL ? "wbe" : "rbe");
    assert_non_null(file);
    if (write != NULL) {
        fwrite(body.ptr, 1, body.len, file);
    } else {
        assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
        assert_string_equal(body.ptr, text);
    }
    fclose(file);
    waldo__free(text);
}

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

        encode(&options, servers[i].url, servers[i].model, everything, WALDO__COUNT(everything),
               WALDO_TOOL_CHOICE_REQUIRED, &body);
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
    encode(&options, "https://api.openai.com/v1", "gpt-4.1", items, WALDO__COUNT(items),
           WALDO_TOOL_CHOICE_AUTO, &body);
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

        encode(&options, cases[i].url, "m", &hello, 1, cases[i].choice, &body);
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
    made = request(encoder, WALDO_TOOL_CHOICE_REQUIRED);
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
    waldo_encoder *encoder = new_encoder(&options, "http://h/v1", "m", 0);

    (void)state;
    assert_int_equal(waldo__chat_ops.append(encoder, &hello, 1, NULL), WALDO_OK);
    assert_string_equal(request(encoder, WALDO_TOOL_CHOICE_AUTO).headers.ptr,
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
    encode(&options, "http://h/v1", "m", lost, WALDO__COUNT(lost), 0, &body);
    expect_golden("mended-lost", waldo__buf_str(&body));
    waldo__buf_clear(&body);
    encode(&options, "http://h/v1", "m", twice, WALDO__COUNT(twice), 0, &body);
    expect_golden("mended-twice", waldo__buf_str(&body));
    waldo__buf_clear(&body);
    encode(&options, "http://h/v1", "m", empty, WALDO__COUNT(empty), 0, &body);
    expect_golden("mended-empty", waldo__buf_str(&body));
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
    encode(&options, "https://api.deepseek.com", "deepseek-v4-pro", items, WALDO__COUNT(items), 0,
           &body);
    assert_true(
        waldo__str_ends(waldo__buf_str(&body),
                        "{\"role\":\"user\",\"content\":\"u\"},"
                        "{\"role\":\"assistant\",\"reasoning_content\":\"r1\",\"content\":\"a\"},"
                        "{\"role\":\"assistant\",\"reasoning_content\":\"\",\"content\":\"b\"},"
                        "{\"role\":\"user\",\"content\":\"v\"},"
                        "{\"role\":\"assistant\",\"reasoning_content\":\"\",\"content\":\"c\"}]}"));
    waldo__buf_free(&body);
}

static void expect_refusal(waldo_encoder *encoder, const char *message)
{
    waldo_model_turn turn = { .size = sizeof turn };
    waldo_model_request made = { 0 };
    waldo_error *error = NULL;

    assert_int_equal(waldo__chat_ops.request(encoder, &turn, &made, &error), WALDO_EINVAL);
    assert_string_equal(waldo_error_message(error), message);
    assert_int_equal(made.size, 0);
    waldo_error_free(error);
}

static void refusals(void **state)
{
    static const waldo_item items[] = { USER("u"), CALL("a", "f", "{}"), RESULT("a", "r") };
    static const waldo_item unknown = { .kind = 99 };
    waldo_model_options options = { .size = sizeof options };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S("http://h/v1") };
    waldo_tool_decl bad = { WALDO__S("t"), WALDO__S(""), WALDO__S("[1]") };
    waldo_encoder *encoder = NULL;
    waldo_error *error = NULL;
    waldo__buf before = WALDO__BUF_INIT(4096);

    (void)state;
    assert_int_equal(waldo__chat_ops.new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    expect_refusal(encoder, "there is no message to send to the model");
    assert_int_equal(waldo__chat_ops.append(encoder, items, 2, NULL), WALDO_OK);
    expect_refusal(encoder, "call \"a\" of tool \"f\" has no result yet");
    assert_int_equal(waldo__chat_ops.append(encoder, items + 2, 1, NULL), WALDO_OK);
    waldo__buf_add_str(&before, request(encoder, 0).body);
    /* an append that fails adds nothing */
    assert_int_equal(
        waldo__chat_ops.append(encoder, (waldo_item[]){ USER("lost"), CALL("x", "f", ""), unknown },
                               3, &error),
        WALDO_EINVAL);
    assert_non_null(error);
    waldo_error_free(error);
    error = NULL;
    assert_string_equal(request(encoder, 0).body.ptr, before.ptr);
    waldo__chat_ops.free_encoder(encoder);
    waldo__buf_free(&before);

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
        new_encoder(&options, "https://api.mistral.ai/v1", "m", WALDO__COUNT(declared));
    waldo_str body;

    (void)state;
    assert_int_equal(waldo__chat_ops.append(encoder, items, 2, NULL), WALDO_OK);
    body = request(encoder, 0).body;
    assert_true(waldo__str_ends(body, "\"content\":\"half a\",\"prefix\":true}]}"));
    assert_int_equal(waldo__chat_ops.append(encoder, items, 1, NULL), WALDO_OK);
    body = request(encoder, 0).body;
    assert_true(waldo__str_ends(body, "\"content\":\"half a\"},{\"role\":\"user\",\"content\":"
                                      "\"u\"}]}"));
    waldo__chat_ops.free_encoder(encoder);
}

/* ---- requests only grow ---- */

enum { MANY = 120, TEXT_MAX = 24 };

struct made_item {
    waldo_item item;
    char text[TEXT_MAX];
    char id[TEXT_MAX];
};

static unsigned next_random(unsigned *state)
{
    return *state = *state * 1103515245u + 12345u, *state >> 16;
}

/* A history as a run may make it, with results missing and texts in between here and there. */
static size_t make_history(struct made_item *made, unsigned seed_value)
{
    size_t count = 0, open = 0;

    while (count < MANY) {
        struct made_item *at = &made[count++];
        unsigned kind = next_random(&seed_value) % 12;

        snprintf(at->text, sizeof at->text, "text\t%zu \xC3\xA9\\\"", count);
        at->item = (waldo_item){ .kind = WALDO_ITEM_USER, .text = waldo__str(at->text) };
        if (open > 0 && kind < 9) {
            at->item.kind = WALDO_ITEM_TOOL_RESULT;
            at->item.id = made[count - 2].item.kind == WALDO_ITEM_TOOL_CALL
                              ? made[count - 2].item.id
                              : waldo__str("0");
            open--;
        } else if (kind < 5) {
            at->item.kind = WALDO_ITEM_TOOL_CALL;
            snprintf(at->id, sizeof at->id, "%zu", count % 7);
            at->item.id = waldo__str(at->id);
            at->item.name = WALDO__S("f");
            at->item.args = kind < 2 ? WALDO__S("{\"a\":") : WALDO__S("{}");
            open++;
        } else if (kind < 7) {
            at->item.kind = WALDO_ITEM_ASSISTANT;
            open = 0;
        } else if (kind == 7) {
            at->item.kind = WALDO_ITEM_REASONING;
            at->item.vendor = WALDO__S("chat:deepseek/deepseek");
        } else if (kind == 8) {
            at->item.kind = WALDO_ITEM_NOTICE;
        }
    }
    return count;
}

/*
 * Item by item: each body begins with the frozen part of all before it and is JSON; and what comes
 * out does not depend on how many items were added at a time.
 */
static void expect_growth(const char *url, const char *model, unsigned seed_value)
{
    static struct made_item made[MANY];
    waldo_model_options options = { .size = sizeof options };
    waldo_encoder *encoder = new_encoder(&options, url, model, WALDO__COUNT(declared));
    size_t count = make_history(made, seed_value), requests = 0;
    waldo__buf frozen = WALDO__BUF_INIT(1 << 20), whole = WALDO__BUF_INIT(1 << 20);
    waldo_item items[MANY];

    for (size_t i = 0; i < count; i++) {
        waldo_model_turn turn = { .size = sizeof turn,
                                  .tool_choice = (waldo_tool_choice)(i % 4),
                                  .tool_choice_name = WALDO__S("run_command") };
        waldo_model_request out = { 0 };
        waldo__json *doc = NULL;

        items[i] = made[i].item;
        assert_int_equal(waldo__chat_ops.append(encoder, &items[i], 1, NULL), WALDO_OK);
        if (i % 4 == WALDO_TOOL_CHOICE_NONE ||
            waldo__chat_ops.request(encoder, &turn, &out, NULL) != WALDO_OK) {
            continue; /* calls without results */
        }
        requests++;
        assert_true(out.body.len >= out.frozen_len && out.frozen_len >= frozen.len);
        assert_memory_equal(out.body.ptr, frozen.ptr, frozen.len);
        assert_int_equal(waldo__json_parse(out.body, NULL, &doc, NULL), WALDO_OK);
        waldo__json_free(doc);
        waldo__buf_clear(&frozen);
        waldo__buf_add(&frozen, out.body.ptr, out.frozen_len);
        waldo__buf_clear(&whole);
        encode(&options, url, model, items, i + 1, turn.tool_choice, &whole);
        assert_string_equal(whole.ptr, out.body.ptr);
    }
    assert_true(requests > 20);
    waldo__chat_ops.free_encoder(encoder);
    waldo__buf_free(&frozen);
    waldo__buf_free(&whole);
}

static void requests_only_grow(void **state)
{
    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(servers); i++) {
        for (unsigned seed_value = 1; seed_value <= 20; seed_value++) {
            expect_growth(servers[i].url, servers[i].model, seed_value);
        }
    }
}

/* A body without tools says how far it agrees with the others. */
static void frozen_without_tools(void **state)
{
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options };
    waldo_encoder *encoder =
        new_encoder(&options, "http://h:11434/v1", "m", WALDO__COUNT(declared));
    waldo_model_request with, without;
    waldo__buf copy = WALDO__BUF_INIT(1 << 20);

    (void)state;
    assert_int_equal(waldo__chat_ops.append(encoder, &hello, 1, NULL), WALDO_OK);
    without = request(encoder, WALDO_TOOL_CHOICE_NONE);
    waldo__buf_add(&copy, without.body.ptr, without.frozen_len);
    assert_true(copy.len > 10);
    with = request(encoder, WALDO_TOOL_CHOICE_AUTO);
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
        cmocka_unit_test(reasoning_once),
        cmocka_unit_test(refusals),
        cmocka_unit_test(prefix_at_the_end),
        cmocka_unit_test(requests_only_grow),
        cmocka_unit_test(frozen_without_tools),
    };

    return !!cmocka_run_group_tests(cases, NULL, NULL);
}
