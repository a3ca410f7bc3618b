#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "json/json.h"
#include "model/model.h"
#include "write.h"

#define URL       "https://api.anthropic.com/v1"
#define OTHER_URL "http://127.0.0.1:8080/v1"
#define OPUS      "claude-opus-5-5"
#define VENDOR    WALDO__S("anthropic:api.anthropic.com/claude")
#define SPACED_ID "call_PpIAVxdSnQq4oJJr88JoorQt" /* made from an id that cannot go out */
#define OPS       (&waldo__messages_ops)

#define OWN(k, t, r)                                                                               \
    {                                                                                              \
        .kind = (k), .text = WALDO__S(t), .vendor = VENDOR, .raw = WALDO__S(r)                     \
    }
#define THINKING(r) OWN(WALDO_ITEM_REASONING, "", r)
#define OWN_CALL(i, n, a, r)                                                                       \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_CALL, .id = WALDO__S(i), .name = WALDO__S(n), .args = WALDO__S(a), \
        .vendor = VENDOR, .raw = WALDO__S(r)                                                       \
    }

#define TH                                                                                         \
    "{\"type\":\"thinking\",\"thinking\":\"Run it.\",\"signature\":"                               \
    "\"EqQBCkgIARAB\"}"
#define TEXT(t)       "{\"type\":\"text\",\"text\":\"" t "\"}"
#define USE(i, n, in) "{\"type\":\"tool_use\",\"id\":\"" i "\",\"name\":\"" n "\",\"input\":" in "}"
#define TOOL_RESULT(i, t)                                                                          \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"" i                                               \
    "\",\"content\":[{\"type\":\"text\",\"text\":\"" t "\"}]"
#define OK                 "}"
#define WRONG              ",\"is_error\":true}"
#define SAYS(role, blocks) "{\"role\":\"" role "\",\"content\":[" blocks "]}"
#define CHOICE             ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}"

/* What items become: each role, and behind it the blocks of one message. */
static void expect_messages(const waldo_item *items, size_t count, const char *const *parts)
{
    waldo_model_options options = { .size = sizeof options };
    waldo__buf body = WALDO__BUF_INIT(1 << 20), expected = WALDO__BUF_INIT(1 << 20);
    const char *end = "";
    size_t at;

    for (; *parts != NULL; parts++) {
        if (**parts != '{') {
            waldo__buf_printf(&expected, "%s{\"role\":\"%s\",\"content\":[", end, *parts);
            end = "";
        } else {
            waldo__buf_printf(&expected, "%s%s", end, *parts);
            end = parts[1] != NULL && parts[1][0] != '{' ? "]}," : ",";
        }
    }
    encode(OPS, &options, URL, OPUS, items, count, WALDO_TOOL_CHOICE_AUTO, &body);
    at = waldo__str_search(waldo__buf_str(&body), WALDO__S("\"messages\":["), 0);
    assert_true(at < body.len);
    waldo__buf_puts(&expected, "]}]" CHOICE "}");
    assert_string_equal(body.ptr + at + 12, expected.ptr);
    waldo__buf_free(&body);
    waldo__buf_free(&expected);
}

#define PARTS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* The second request of the documented example, byte for byte, but for the space in its input. */
static void documented_example(void **state)
{
    static const waldo_item items[] = {
        USER("say h\xC3\xA9"),
        THINKING(TH),
        { .kind = WALDO_ITEM_ASSISTANT,
          .text = WALDO__S("Running caf\xC3\xA9 \xF0\x9F\x98\x80."),
          .vendor = VENDOR },
        CALL("toolu_01A", "run_command", "{\"cmd\": \"echo h\xC3\xA9\"}"),
        RESULT("toolu_01A", "h\xC3\xA9\n"),
    };

    (void)state;
    expect_messages(items, WALDO__COUNT(items),
                    PARTS("user", TEXT("say h\xC3\xA9"), "assistant", TH,
                          TEXT("Running caf\xC3\xA9 \xF0\x9F\x98\x80."),
                          USE("toolu_01A", "run_command", "{\"cmd\": \"echo h\xC3\xA9\"}"), "user",
                          TOOL_RESULT("toolu_01A", "h\xC3\xA9\\n") OK));
}

#define TOOLS                                                                                      \
    "\"tools\":[{\"name\":\"run_command\",\"description\":\"Run a \\\"command\\\".\","             \
    "\"input_schema\":{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"}},"        \
    "\"required\":[\"cmd\"]}},{\"name\":\"read_file\",\"input_schema\":{\"type\":\"object\","      \
    "\"properties\":{}}}]"
#define HI "\"messages\":[" SAYS("user", TEXT("hi")) "]"

static void whole_body(void **state)
{
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options,
                                    .max_output_tokens = 4096,
                                    .reasoning = "high",
                                    .quirks = "display=summarized" };
    waldo_encoder *encoder = new_encoder(OPS, &options, URL, OPUS, DECLARED);
    waldo_model_request made;

    (void)state;
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_NAMED);
    assert_string_equal(
        made.body.ptr,
        "{\"model\":\"claude-opus-5-5\",\"max_tokens\":4096,\"stream\":true,\"cache_control\":{"
        "\"type\":\"ephemeral\"},\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"},"
        "\"output_config\":{\"effort\":\"high\"},\"system\":[{\"type\":\"text\",\"text\":"
        "\"Use tools.\",\"cache_control\":{\"type\":\"ephemeral\"}}]," TOOLS "," HI
        ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"run_command\","
        "\"disable_parallel_tool_use\":true}}");
    assert_string_equal(made.path.ptr, "/messages");
    assert_string_equal(made.headers.ptr, "Content-Type: application/json\n"
                                          "Accept: text/event-stream\n"
                                          "anthropic-version: 2026-10-21\n");
    assert_int_equal(made.streamed, 1);
    OPS->free_encoder(encoder);
}

/* Other servers: the older version, no caching, sampling as they like it. */
static void other_servers(void **state)
{
    static const double temperature = 0.2, top_p = 0.95;
    static const waldo_item hello = USER("hi");
    waldo_model_options options = {
        .size = sizeof options, .temperature = &temperature, .top_p = &top_p, .reasoning = "low"
    };
    waldo_encoder *encoder = new_encoder(OPS, &options, OTHER_URL, "qwen3", 0);
    waldo_model_request made;

    (void)state;
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_AUTO);
    assert_string_equal(made.body.ptr,
                        "{\"model\":\"qwen3\",\"max_tokens\":8192,\"stream\":true,\"thinking\":{"
                        "\"type\":\"enabled\",\"budget_tokens\":2048},\"temperature\":0.2,"
                        "\"top_p\":0.95,\"system\":[{\"type\":\"text\",\"text\":\"Use tools.\"}]"
                        "," HI "}");
    assert_string_equal(made.headers.ptr, "Content-Type: application/json\n"
                                          "Accept: text/event-stream\n"
                                          "anthropic-version: 2023-06-01\n");
    OPS->free_encoder(encoder);
}

/* Without tools and instructions nothing about them is said; the mark goes where the head ends. */
static void marks(void **state)
{
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options,
                                    .max_output_tokens = 9,
                                    .quirks = "stream=off,cache=1h,binding=drop_block" };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .parallel_calls = 1,
                                .model = WALDO__S(OPUS),
                                .url = WALDO__S(URL),
                                .tools = declared,
                                .tool_count = DECLARED };
    waldo_encoder *encoder = NULL;
    waldo_model_request made;

    (void)state;
    assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_AUTO);
    assert_string_equal(
        made.body.ptr,
        "{\"model\":\"claude-opus-5-5\",\"max_tokens\":9,\"cache_control\":{\"type\":"
        "\"ephemeral\",\"ttl\":\"1h\"},\"thinking\":{\"type\":\"adaptive\",\"block_binding\":{"
        "\"prefix_mismatch_behavior\":\"drop_block\"}},\"tools\":[{\"name\":\"run_command\","
        "\"description\":\"Run a \\\"command\\\".\",\"input_schema\":{\"type\":\"object\","
        "\"properties\":{\"cmd\":{\"type\":\"string\"}},\"required\":[\"cmd\"]}},{\"name\":"
        "\"read_file\",\"input_schema\":{\"type\":\"object\",\"properties\":{}},\"cache_control\":"
        "{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}]," HI "}");
    assert_string_equal(made.headers.ptr,
                        "Content-Type: application/json\nAccept: application/json\n"
                        "anthropic-version: 2026-10-21\n"
                        "anthropic-beta: thinking-binding-controls-2026-08-01\n");
    assert_int_equal(made.streamed, 0);
    OPS->free_encoder(encoder);
    epoch.tool_count = 0;
    epoch.max_output = 64000; /* what is asked for comes before what is known */
    options.quirks = "cache=none";
    assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_REQUIRED);
    assert_string_equal(made.body.ptr, "{\"model\":\"claude-opus-5-5\",\"max_tokens\":9,"
                                       "\"stream\":true," HI "}");
    OPS->free_encoder(encoder);
    options.max_output_tokens = 0;
    assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_AUTO);
    assert_string_equal(made.body.ptr, "{\"model\":\"claude-opus-5-5\",\"max_tokens\":64000,"
                                       "\"stream\":true," HI "}");
    OPS->free_encoder(encoder);
}

static void tool_choice(void **state)
{
    static const struct {
        waldo_tool_choice choice;
        const char *serial;
        const char *parallel;
    } cases[] = {
        { WALDO_TOOL_CHOICE_AUTO, CHOICE, "" },
        { WALDO_TOOL_CHOICE_NONE, ",\"tool_choice\":{\"type\":\"none\"}",
          ",\"tool_choice\":{\"type\":\"none\"}" },
        { WALDO_TOOL_CHOICE_REQUIRED,
          ",\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":true}",
          ",\"tool_choice\":{\"type\":\"any\"}" },
    };
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options };

    (void)state;
    for (size_t i = 0; i < 2 * WALDO__COUNT(cases); i++) {
        int parallel = i >= WALDO__COUNT(cases);
        size_t at = i % WALDO__COUNT(cases);
        waldo_model_epoch epoch = { .size = sizeof epoch,
                                    .options = &options,
                                    .parallel_calls = parallel,
                                    .model = WALDO__S("m"),
                                    .url = WALDO__S(OTHER_URL),
                                    .tools = declared,
                                    .tool_count = DECLARED };
        waldo__buf expected = WALDO__BUF_INIT(1 << 20);
        waldo_encoder *encoder = NULL;

        assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
        assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
        waldo__buf_printf(&expected, "\"hi\"}]}]%s}",
                          parallel ? cases[at].parallel : cases[at].serial);
        assert_true(waldo__str_ends(request(OPS, encoder, cases[at].choice).body, expected.ptr));
        OPS->free_encoder(encoder);
        waldo__buf_free(&expected);
    }
}

/* What is asked for goes by the model; the budget leaves room for an answer. */
static void reasoning(void **state)
{
    static const struct {
        const char *model;
        const char *reasoning;
        uint32_t max_tokens;
        const char *says;
    } cases[] = {
        { OPUS, "adaptive", 0,
          "\"max_tokens\":32000,\"stream\":true,\"thinking\":{\"type\":"
          "\"adaptive\"},\"system\"" },
        { OPUS, "max", 0,
          "\"thinking\":{\"type\":\"adaptive\"},\"output_config\":{\"effort\":"
          "\"max\"},\"system\"" },
        { OPUS, "none", 0, "\"thinking\":{\"type\":\"disabled\"},\"system\"" },
        { "claude-opus-4-6", "low", 0, "\"adaptive\"},\"output_config\":{\"effort\":\"low\"}" },
        { "claude-haiku-4-5-20251001", "high", 0,
          "\"max_tokens\":32000,\"stream\":true,\"thinking\":{\"type\":\"enabled\","
          "\"budget_tokens\":16384},\"system\"" },
        { "claude-sonnet-4-5", "max", 0, "\"budget_tokens\":24000}" },
        { "claude-sonnet-4-5", "max", 4096, "\"budget_tokens\":3072}" },
        { "claude-sonnet-4-20250514", "low", 1366, "\"budget_tokens\":1025}" },
        { "claude-sonnet-4-5", "4095", 4096, "\"budget_tokens\":4095}" },
        { "claude-3-7-sonnet", "none", 0,
          "\"max_tokens\":8192,\"stream\":true,\"thinking\":{"
          "\"type\":\"disabled\"},\"system\"" },
    };
    static const waldo_item hello = USER("hi");

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo_model_options options = { .size = sizeof options,
                                        .reasoning = cases[i].reasoning,
                                        .max_output_tokens = cases[i].max_tokens };
        waldo__buf body = WALDO__BUF_INIT(1 << 20);

        encode(OPS, &options, OTHER_URL, cases[i].model, &hello, 1, WALDO_TOOL_CHOICE_AUTO, &body);
        if (strstr(body.ptr, cases[i].says) == NULL) {
            print_error("%s\n%s\n", cases[i].says, body.ptr);
        }
        assert_non_null(strstr(body.ptr, cases[i].says));
        waldo__buf_free(&body);
    }
}

/* What another vendor made goes out in the common form, without its reasoning. */
static void other_vendors(void **state)
{
    static const waldo_item items[] = {
        SUMMARY("they met"),
        NOTICE("careful"),
        REASONING("chat:deepseek/deepseek", "hm"),
        { .kind = WALDO_ITEM_REASONING,
          .vendor = WALDO__S("anthropic:other.test/claude"),
          .raw = WALDO__S(TH) },
        { .kind = WALDO_ITEM_ASSISTANT,
          .text = WALDO__S("a \"b\""),
          .vendor = WALDO__S("openai:api.openai.com/gpt"),
          .raw = WALDO__S("{\"type\":\"message\"}") },
        CALL("call_1", "functions.run", "{\"cmd\":"),
        CALL("an id with spaces", "g", ""),
        FAILED("call_1", "no"),
        RESULT("an id with spaces", " \n"),
        ASSISTANT("done"),
        ASSISTANT(" "),
        USER(""),
        USER("on"),
    };

    (void)state;
    expect_messages(items, WALDO__COUNT(items),
                    PARTS("user", TEXT("[summary of the conversation so far]\\nthey met"),
                          TEXT("[notice from the host] careful"), "assistant", TEXT("a \\\"b\\\""),
                          USE("call_1", "functions_run", "{\"_raw\":\"{\\\"cmd\\\":\"}"),
                          USE(SPACED_ID, "g", "{}"), "user", TOOL_RESULT("call_1", "no") WRONG,
                          TOOL_RESULT(SPACED_ID, "(no output)") OK, "assistant", TEXT("done"),
                          "user", TEXT("on")));
}

#define REDACTED "{\"type\":\"redacted_thinking\",\"data\":\"Em8=\"}"
#define SEARCH                                                                                     \
    "{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":\"web_search\",\"input\":{"      \
    "\"n\":1.50}}"
#define CITED "{\"type\":\"text\",\"text\":\"x\",\"citations\":[{\"n\":1}]}"
#define USED                                                                                       \
    "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{\"a\": 1},\"caller\":{"   \
    "\"type\":\"direct\"}}"

/* The provider's own blocks: verbatim, in their places. */
static void own_blocks(void **state)
{
    static const waldo_item items[] = {
        USER("u"),
        THINKING(TH),
        THINKING(REDACTED),
        THINKING(SEARCH),
        OWN(WALDO_ITEM_ASSISTANT, "x", CITED),
        OWN_CALL("toolu_1", "f", "{\"a\": 1}", USED),
        RESULT("toolu_1", "ok"),
    };
    /* thinking that led to nothing goes, what a paused turn ended with stays */
    static const waldo_item unled[] = { USER("u"), ASSISTANT("t"), THINKING(TH), USER("v") };
    static const waldo_item paused[] = { USER("u"), THINKING(TH), THINKING(SEARCH) };
    static const waldo_item odd[] = {
        USER("u"),
        THINKING("{\"type\":\"tool_use\",\"id\":\"x\",\"name\":\"f\",\"input\":{}}"),
        THINKING("{}"),
        THINKING("not JSON"),
        OWN(WALDO_ITEM_ASSISTANT, "x", "{\"type\":\"tool_use\"}"),
        OWN_CALL("toolu_1", "f", "{\"a\":1}", "{\"type\":\"tool_use\",\"id\":\"other\"}"),
        RESULT("toolu_1", "ok"),
    };

    (void)state;
    expect_messages(items, WALDO__COUNT(items),
                    PARTS("user", TEXT("u"), "assistant", TH, REDACTED, SEARCH, CITED, USED, "user",
                          TOOL_RESULT("toolu_1", "ok") OK));
    expect_messages(unled, WALDO__COUNT(unled),
                    PARTS("user", TEXT("u"), "assistant", TEXT("t"), "user", TEXT("v")));
    expect_messages(paused, WALDO__COUNT(paused),
                    PARTS("user", TEXT("u"), "assistant", TH, SEARCH));
    expect_messages(odd, WALDO__COUNT(odd),
                    PARTS("user", TEXT("u"), "assistant", TEXT("x"),
                          USE("toolu_1", "f", "{\"a\":1}"), "user",
                          TOOL_RESULT("toolu_1", "ok") OK));
}

#define LOST "ERROR: the host restarted before this call finished; it may or may not have run"

/* Histories that a server would refuse for ever are mended in the same way each time. */
static void mended_histories(void **state)
{
    static const waldo_item lost[] = {
        USER("u"),           CALL("a", "f", "{}"), CALL("b", "f", "{}"),
        NOTICE("n"),         RESULT("a", "ok"),    ASSISTANT("so?"),
        RESULT("b", "late"), RESULT("c", "never"), USER("v"),
    };
    static const waldo_item first[] = { ASSISTANT("hello"), USER("u") };
    waldo_item again[7] = { USER("u") };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);
    waldo_model_options options = { .size = sizeof options };

    (void)state;
    expect_messages(lost, WALDO__COUNT(lost),
                    PARTS("user", TEXT("u"), "assistant", USE("a", "f", "{}"), USE("b", "f", "{}"),
                          "user", TOOL_RESULT("a", "ok") OK, TOOL_RESULT("b", LOST) WRONG,
                          TEXT("[notice from the host] n"), "assistant", TEXT("so?"), "user",
                          TEXT("v")));
    expect_messages(first, WALDO__COUNT(first),
                    PARTS("user", TEXT("[the conversation begins]"), "assistant", TEXT("hello"),
                          "user", TEXT("u")));
    /* an id is good once in the whole conversation; servers that count from 0 in every answer */
    for (size_t i = 0; i < 3; i++) {
        again[2 * i + 1] = (waldo_item)CALL("0", "f", "{}");
        again[2 * i + 2] = (waldo_item)RESULT("0", "r");
    }
    encode(OPS, &options, URL, OPUS, again, 7, WALDO_TOOL_CHOICE_AUTO, &body);
    {
        const char *one = strstr(body.ptr, "\"id\":\"call_"), *two = NULL;

        assert_non_null(strstr(body.ptr, "\"id\":\"0\""));
        assert_non_null(one);
        two = strstr(one + 1, "\"id\":\"call_");
        assert_non_null(two);
        assert_memory_not_equal(one, two, 36);
    }
    waldo__buf_free(&body);
}

static void refusals(void **state)
{
    waldo_model_options options = { .size = sizeof options, .reasoning = "low" };
    waldo_encoder *encoder = new_encoder(OPS, &options, URL, "claude-sonnet-4-5", DECLARED);

    (void)state;
    expect_refusals(OPS, encoder);
    expect_request_error(OPS, encoder, WALDO_TOOL_CHOICE_REQUIRED,
                         "this model does not take a demanded tool together with reasoning: leave "
                         "out one of tool_choice and reasoning");
    OPS->free_encoder(encoder);
    OPS->free_encoder(NULL);
}

/* Options that the API or the model does not know are refused when the model is made. */
static void refused_options(void **state)
{
    static const double cool = 0.5, one = 1, hot = 1.5;
    static const int64_t seed = 7;
    waldo_model *model;

    (void)state;
    expect_option_error(&WALDO_MODEL(.model = "anthropic:" OPUS, .temperature = &one),
                        "model option temperature: version 2026-10-21 of the Messages API has "
                        "none: leave it out, or set the quirk version=2023-06-01 for a model that "
                        "takes it");
    expect_option_error(
        &WALDO_MODEL(.model = "anthropic:" OPUS, .top_p = &cool, .quirks = "version=2023-06-01"),
        "model option top_p: this model does not take it: leave it out");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:claude-opus-4-6", .temperature = &hot,
                                     .quirks = "version=2023-06-01"),
                        "model option temperature: the Messages API takes 0 to 1");
    model = waldo_model_new(&WALDO_MODEL(.model = "anthropic:" OPUS, .temperature = &one,
                                         .top_p = &one, .quirks = "version=2023-06-01"));
    assert_null(waldo_model_error(model));
    waldo_model_unref(model);
    expect_option_error(&WALDO_MODEL(.model = "anthropic:m", .seed = &seed),
                        "model option seed: the Messages API has none: leave it out");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:" OPUS, .reasoning = "minimal"),
                        "model option reasoning: this model knows none, adaptive, low, medium, "
                        "high, xhigh, max");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:claude-haiku-4-5", .reasoning = "some"),
                        "model option reasoning: this model knows none, low, medium, high, xhigh, "
                        "max, or a number of tokens");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:claude-haiku-4-5", .reasoning = "1000"),
                        "model option reasoning: the number of tokens is at least 1024 and below "
                        "max_output_tokens");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:claude-haiku-4-5", .reasoning = "32000"),
                        "model option reasoning: the number of tokens is at least 1024 and below "
                        "max_output_tokens");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:claude-haiku-4-5", .reasoning = "low",
                                     .max_output_tokens = 1000),
                        "model option max_output_tokens: it holds the reasoning, too: at least "
                        "1366");
    expect_option_error(
        &WALDO_MODEL(.model = "anthropic:m", .quirks = "store=on"),
        "model quirks: \"store=on\" is not a quirk, written as name=value; known: "
        "stream, output_format, sampling, version, cache, thinking, display, binding, auth");
    expect_option_error(&WALDO_MODEL(.model = "anthropic:m", .quirks = "version=2020-01-01"),
                        "model quirks: \"version=2020-01-01\" has a value that is not known; "
                        "known: 2026-10-21, 2023-06-01");
}

#define SEES                                                                                       \
    "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","            \
    "\"data\":\"iVBORw0KGgo=\"}}"

/* Of errors the API takes text alone. */
static void images(void **state)
{
    static const waldo_media image = IMAGE;
    static const waldo_item items[] = {
        USER_SHOWS("what is this?", &image),
        USER_SHOWS("", &image),
        CALL("a", "look", "{}"),
        CALL("b", "look", "{}"),
        RESULT_SHOWS("a", "one", &image),
        USER_SHOWS("meanwhile", &image),
        { .kind = WALDO_ITEM_TOOL_RESULT,
          .id = WALDO__S("b"),
          .text = WALDO__S("dark"),
          .is_error = 1,
          .media = &image,
          .media_count = 1 },
    };

    (void)state;
    expect_messages(items, WALDO__COUNT(items),
                    PARTS("user", TEXT("what is this?"), SEES, SEES, "assistant",
                          USE("a", "look", "{}"), USE("b", "look", "{}"), "user",
                          "{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":["
                          "{\"type\":\"text\",\"text\":\"one\"}," SEES "]}",
                          "{\"type\":\"tool_result\",\"tool_use_id\":\"b\",\"content\":["
                          "{\"type\":\"text\",\"text\":\"dark\"}],\"is_error\":true}",
                          TEXT("meanwhile"), SEES));
}

static void requests_only_grow(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        expect_growth(OPS, seed % 2 ? URL : OTHER_URL, OPUS, seed);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(documented_example),
        cmocka_unit_test(whole_body),
        cmocka_unit_test(other_servers),
        cmocka_unit_test(marks),
        cmocka_unit_test(tool_choice),
        cmocka_unit_test(reasoning),
        cmocka_unit_test(other_vendors),
        cmocka_unit_test(own_blocks),
        cmocka_unit_test(mended_histories),
        cmocka_unit_test(refusals),
        cmocka_unit_test(refused_options),
        cmocka_unit_test(requests_only_grow),
        cmocka_unit_test(images),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
