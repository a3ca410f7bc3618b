#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "json/json.h"
#include "model/model.h"
#include "write.h"

#define URL       "https://api.openai.com/v1"
#define GPT       "gpt-5.6-sol"
#define VENDOR    WALDO__S("openai:api.openai.com/gpt")
#define SPACED_ID "onOweIyJ2yZ5t21X1tmqBwGm" /* made from ids that cannot go out */
#define A_ID      "3U7CwxTosb6xOt7kmKW5QgJB"
#define OPS       (&waldo__responses_ops)

#define OWN(k, t, r)                                                                               \
    {                                                                                              \
        .kind = (k), .text = WALDO__S(t), .vendor = VENDOR, .raw = WALDO__S(r)                     \
    }
#define OWN_REASONING(r) OWN(WALDO_ITEM_REASONING, "", r)
#define OWN_CALL(i, n, a, r)                                                                       \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_CALL, .id = WALDO__S(i), .name = WALDO__S(n), .args = WALDO__S(a), \
        .vendor = VENDOR, .raw = WALDO__S(r)                                                       \
    }

#define RS "{\"id\":\"rs_01\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"gA\"}"
#define FC                                                                                         \
    "{\"id\":\"fc_01\",\"type\":\"function_call\",\"status\":\"completed\",\"arguments\":"         \
    "\"{\\\"cmd\\\":\\\"echo h\xC3\xA9\\\"}\",\"call_id\":\"call_AbC123\",\"name\":"               \
    "\"run_command\"}"
#define MSG                                                                                        \
    "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"phase\":\"final_answer\","    \
    "\"content\":[{\"type\":\"output_text\",\"text\":\"x\",\"annotations\":[]}]}"

static void expect_input(const waldo_item *items, size_t count, const char *expected)
{
    waldo_model_options options = { .size = sizeof options };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);
    size_t at;

    encode(OPS, &options, URL, GPT, items, count, WALDO_TOOL_CHOICE_AUTO, &body);
    at = waldo__str_search(waldo__buf_str(&body), WALDO__S("\"input\":"), 0);
    assert_true(at < body.len);
    assert_string_equal(body.ptr + at + 8, expected);
    waldo__buf_free(&body);
}

/* The second request of the documented example, byte for byte. */
static void documented_example(void **state)
{
    static const waldo_item items[] = {
        USER("say h\xC3\xA9"),
        OWN_REASONING(RS),
        OWN_CALL("call_AbC123", "run_command", "{\"cmd\":\"echo h\xC3\xA9\"}", FC),
        RESULT("call_AbC123", "h\xC3\xA9\n"),
    };

    (void)state;
    expect_input(items, WALDO__COUNT(items),
                 "[{\"role\":\"user\",\"content\":\"say h\xC3\xA9\"}," RS "," FC
                 ",{\"type\":\"function_call_output\",\"call_id\":\"call_AbC123\",\"output\":"
                 "\"h\xC3\xA9\\n\"}]}");
}

static void whole_body(void **state)
{
    static const double temperature = 0.2, top_p = 0.95;
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options,
                                    .max_output_tokens = 1000,
                                    .temperature = &temperature,
                                    .top_p = &top_p,
                                    .reasoning = "low",
                                    .quirks = "summary=auto" };
    waldo_encoder *encoder = new_encoder(OPS, &options, URL, GPT, DECLARED);
    waldo_model_request made;

    (void)state;
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_NAMED);
    assert_string_equal(
        made.body.ptr,
        "{\"model\":\"gpt-5.6-sol\",\"stream\":true,\"stream_options\":{\"include_obfuscation\":"
        "false},\"store\":false,\"include\":[\"reasoning.encrypted_content\"],"
        "\"max_output_tokens\":1000,\"temperature\":0.2,\"top_p\":0.95,\"reasoning\":{\"effort\":"
        "\"low\",\"summary\":\"auto\"},\"parallel_tool_calls\":false,\"tools\":[{\"type\":"
        "\"function\",\"name\":\"run_command\",\"description\":\"Run a \\\"command\\\".\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"}},"
        "\"required\":[\"cmd\"]},\"strict\":false},{\"type\":\"function\",\"name\":\"read_file\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{}},\"strict\":false}],"
        "\"instructions\":\"Use tools.\",\"input\":[{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"tool_choice\":{\"type\":\"function\",\"name\":\"run_command\"}}");
    assert_string_equal(made.path.ptr, "/responses");
    assert_string_equal(made.headers.ptr,
                        "Content-Type: application/json\nAccept: text/event-stream\n");
    assert_int_equal(made.streamed, 1);
    OPS->free_encoder(encoder);
}

/* Without tools nothing about tools is said, and only what was set is sent. */
static void smallest_body(void **state)
{
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options,
                                    .quirks = "stream=off,encrypted=off,store=on" };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S("http://h/v1") };
    waldo_encoder *encoder = NULL;
    waldo_model_request made;

    (void)state;
    assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    assert_int_equal(OPS->append(encoder, &hello, 1, NULL), WALDO_OK);
    made = request(OPS, encoder, WALDO_TOOL_CHOICE_REQUIRED);
    assert_string_equal(made.body.ptr, "{\"model\":\"m\",\"store\":true,\"input\":[{\"role\":"
                                       "\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(made.streamed, 0);
    assert_string_equal(made.headers.ptr,
                        "Content-Type: application/json\nAccept: application/json\n");
    OPS->free_encoder(encoder);
}

static void tool_choice(void **state)
{
    static const struct {
        waldo_tool_choice choice;
        const char *end;
    } cases[] = {
        { WALDO_TOOL_CHOICE_AUTO, "\"hi\"}]}" },
        { WALDO_TOOL_CHOICE_NONE, "\"hi\"}],\"tool_choice\":\"none\"}" },
        { WALDO_TOOL_CHOICE_REQUIRED, "\"hi\"}],\"tool_choice\":\"required\"}" },
    };
    static const waldo_item hello = USER("hi");
    waldo_model_options options = { .size = sizeof options };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__buf body = WALDO__BUF_INIT(1 << 20);

        encode(OPS, &options, URL, GPT, &hello, 1, cases[i].choice, &body);
        assert_true(waldo__str_ends(waldo__buf_str(&body), cases[i].end));
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
        { .kind = WALDO_ITEM_ASSISTANT,
          .text = WALDO__S("a \"b\""),
          .vendor = WALDO__S("openai:other.test/gpt"),
          .raw = WALDO__S(MSG) },
        CALL("toolu_1", "functions.run", "{\"cmd\":"),
        CALL("an id with spaces", "g", ""),
        FAILED("toolu_1", "no"),
        RESULT("an id with spaces", ""),
        ASSISTANT("done"),
        ASSISTANT(""),
    };

    (void)state;
    expect_input(
        items, WALDO__COUNT(items),
        "[{\"role\":\"user\",\"content\":\"[summary of the conversation so far]\\nthey met\"},"
        "{\"role\":\"user\",\"content\":\"[notice from the host] careful\"},"
        "{\"role\":\"assistant\",\"content\":\"a \\\"b\\\"\"},"
        "{\"type\":\"function_call\",\"call_id\":\"toolu_1\",\"name\":\"functions_run\","
        "\"arguments\":\"{\\\"cmd\\\":\"},"
        "{\"type\":\"function_call\",\"call_id\":\"call_" SPACED_ID "\",\"name\":\"g\","
        "\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"toolu_1\",\"output\":\"ERROR: no\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"call_" SPACED_ID
        "\",\"output\":\"(no output)\"},"
        "{\"role\":\"assistant\",\"content\":\"done\"}]}");
}

/* The provider's own items: verbatim, in their places, but for members that are null. */
static void own_items(void **state)
{
    static const waldo_item items[] = {
        USER("u"),
        OWN(WALDO_ITEM_REASONING, "", "{\"type\":\"compaction\",\"encrypted_content\":\"gC\"}"),
        OWN_REASONING(RS),
        OWN(WALDO_ITEM_ASSISTANT, "x", MSG),
        OWN_CALL("c", "p", "***",
                 "{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"p\",\"input\":"
                 "\"***\",\"namespace\":null,\"n\":1.50}"),
        RESULT("c", "ok"),
    };

    (void)state;
    expect_input(items, WALDO__COUNT(items),
                 "[{\"role\":\"user\",\"content\":\"u\"},"
                 "{\"type\":\"compaction\",\"encrypted_content\":\"gC\"}," RS "," MSG ","
                 "{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"p\",\"input\":"
                 "\"***\",\"n\":1.50},"
                 "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c\",\"output\":\"ok\"}]}");
}

#define FC_NO_ID                                                                                   \
    "{\"type\":\"function_call\",\"status\":\"completed\",\"arguments\":"                          \
    "\"{\\\"cmd\\\":\\\"echo h\xC3\xA9\\\"}\",\"call_id\":\"call_AbC123\",\"name\":"               \
    "\"run_command\"}"
#define OUT ",{\"type\":\"function_call_output\",\"call_id\":\"call_AbC123\",\"output\":\"r\"}"

/* Reasoning and what it led to stay together, or both go without their ids. */
static void reasoning_pairs(void **state)
{
    static const waldo_item call = OWN_CALL("call_AbC123", "run_command", "{}", FC);
    static const char *const useless[] = {
        "",
        "{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[]}",
        "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":null,\"content\":[]}",
        "not JSON",
    };
    waldo_item items[] = { USER("u"), OWN_REASONING(""), call, RESULT("call_AbC123", "r") };
    static const waldo_item unled[] = { USER("u"), OWN_REASONING(RS), USER("v"),
                                        OWN(WALDO_ITEM_ASSISTANT, "x", MSG) };
    static const waldo_item readable[] = {
        USER("u"),
        OWN_REASONING("{\"type\":\"reasoning\",\"content\":[{\"text\":\"hm\"}],\"status\":null}"),
        OWN(WALDO_ITEM_ASSISTANT, "x", MSG),
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(useless); i++) {
        items[1].raw = waldo__str(useless[i]);
        expect_input(items, WALDO__COUNT(items),
                     "[{\"role\":\"user\",\"content\":\"u\"}," FC_NO_ID OUT "]}");
    }
    expect_input(unled, WALDO__COUNT(unled),
                 "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"user\",\"content\":\"v\"}," MSG
                 "]}");
    expect_input(readable, WALDO__COUNT(readable),
                 "[{\"role\":\"user\",\"content\":\"u\"},{\"type\":\"reasoning\",\"content\":[{"
                 "\"text\":\"hm\"}]}," MSG "]}");
}

#define LOST "ERROR: the host restarted before this call finished; it may or may not have run"

/* Histories that a server would refuse for ever are mended in the same way each time. */
static void mended_histories(void **state)
{
    static const waldo_item lost[] = {
        USER("u"),         CALL("a", "f", "{}"), CALL("b", "f", "{}"), NOTICE("n"),
        RESULT("a", "ok"), ASSISTANT("so?"),     RESULT("b", "late"),  RESULT("c", "never"),
    };
    static const waldo_item twice[] = {
        CALL("a", "f", "{}"),
        OWN_CALL("a", "g", "{}", "{\"type\":\"function_call\",\"call_id\":\"a\"}"),
        RESULT("a", "1"),
        RESULT("a", "2"),
    };
    static const waldo_item mixed[] = { CALL("a", "f", "{}"), ASSISTANT("t"), CALL("b", "g", "{}"),
                                        RESULT("b", "2"), RESULT("a", "1") };

    (void)state;
    expect_input(lost, WALDO__COUNT(lost),
                 "[{\"role\":\"user\",\"content\":\"u\"},"
                 "{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":"
                 "\"{}\"},{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"f\","
                 "\"arguments\":\"{}\"},"
                 "{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"ok\"},"
                 "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":\"" LOST "\"},"
                 "{\"role\":\"user\",\"content\":\"[notice from the host] n\"},"
                 "{\"role\":\"assistant\",\"content\":\"so?\"}]}");
    expect_input(twice, WALDO__COUNT(twice),
                 "[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":"
                 "\"{}\"},{\"type\":\"function_call\",\"call_id\":\"call_" A_ID "\",\"name\":"
                 "\"g\",\"arguments\":\"{}\"},"
                 "{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"1\"},"
                 "{\"type\":\"function_call_output\",\"call_id\":\"call_" A_ID
                 "\",\"output\":\"2\"}]}");
    expect_input(mixed, WALDO__COUNT(mixed),
                 "[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":"
                 "\"{}\"},{\"role\":\"assistant\",\"content\":\"t\"},{\"type\":\"function_call\","
                 "\"call_id\":\"b\",\"name\":\"g\",\"arguments\":\"{}\"},"
                 "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":\"2\"},"
                 "{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"1\"}]}");
}

static void refusals(void **state)
{
    waldo_model_options options = { .size = sizeof options };
    waldo_encoder *encoder = new_encoder(OPS, &options, URL, GPT, 0);

    (void)state;
    expect_refusals(OPS, encoder);
    OPS->free_encoder(encoder);
    OPS->free_encoder(NULL);
}

/* Options that the API does not know are refused when the model is made. */
static void refused_options(void **state)
{
    static const double hot = 2.5, negative = -1;
    static const int64_t seed = 7;

    (void)state;
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .seed = &seed),
                        "model option seed: the Responses API has none: leave it out");
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .temperature = &hot),
                        "model option temperature: the Responses API takes 0 to 2");
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .top_p = &negative),
                        "model option top_p: the Responses API takes 0 to 1");
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .reasoning = "hard"),
                        "model option reasoning: the Responses API knows none, minimal, low, "
                        "medium, high, xhigh, max");
    expect_option_error(
        &WALDO_MODEL(.model = "openai:m", .quirks = "merge=on"),
        "model quirks: \"merge=on\" is not a quirk, written as name=value; known: "
        "stream, store, encrypted, result_images, freeform, no_obfuscation, summary, "
        "history, previous, conversation");
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .quirks = "summary=short"),
                        "model quirks: \"summary=short\" has a value that is not known; known: "
                        "none, auto, concise, detailed");
}

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

#define SEES "{\"type\":\"input_image\",\"image_url\":\"data:image/png;base64,iVBORw0KGgo=\"}"

static void expect_part(const waldo_model_options *options, const char *part)
{
    waldo__buf body = WALDO__BUF_INIT(1 << 20);

    encode(OPS, options, URL, GPT, shown, WALDO__COUNT(shown), WALDO_TOOL_CHOICE_AUTO, &body);
    if (strstr(waldo__buf_str(&body).ptr, part) == NULL) {
        fail_msg("%s is not in %s", part, waldo__buf_str(&body).ptr);
    }
    waldo__buf_free(&body);
}

static void images(void **state)
{
    waldo_model_options options = { .size = sizeof options };

    (void)state;
    expect_part(&options, "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
                          "\"what is this?\"}," SEES "]},{\"role\":\"user\",\"content\":"
                          "\"and that?\"},");
    expect_part(&options,
                "\"call_id\":\"a\",\"output\":[{\"type\":\"input_text\",\"text\":\"one\"}," SEES
                "]},{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":[{\"type\":"
                "\"input_text\",\"text\":\"(no output)\"}," SEES "]},{\"role\":\"user\","
                "\"content\":[{\"type\":\"input_text\",\"text\":\"meanwhile\"}," SEES "]},");
    options.quirks = "result_images=off";
    expect_part(&options,
                "\"call_id\":\"a\",\"output\":\"one\\n[image 1 attached below]\"},"
                "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":"
                "\"[image 2 attached below]\"},{\"role\":\"user\",\"content\":[{\"type\":"
                "\"input_text\",\"text\":\"[notice from the host] image 1 of the result of "
                "look:\"}," SEES "]},");
}

static void requests_only_grow(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        expect_growth(OPS, URL, GPT, seed);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(documented_example), cmocka_unit_test(whole_body),
        cmocka_unit_test(smallest_body),      cmocka_unit_test(tool_choice),
        cmocka_unit_test(other_vendors),      cmocka_unit_test(own_items),
        cmocka_unit_test(reasoning_pairs),    cmocka_unit_test(mended_histories),
        cmocka_unit_test(refusals),           cmocka_unit_test(refused_options),
        cmocka_unit_test(requests_only_grow), cmocka_unit_test(images),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
