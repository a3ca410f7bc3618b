/* Tools that take plain text: how they are declared, and calls of them, there and back. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "model/model.h"
#include "write.h"

#define OPS    (&waldo__responses_ops)
#define MODEL  "openai:gpt-5.1"
#define VENDOR WALDO__S("openai:api.openai.com/gpt")
#define SSE    "text/event-stream"

#define SCHEMA(name)                                                                               \
    WALDO__S("{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\"}},"           \
             "\"required\":[\"" name "\"]}")

static const waldo_tool_decl tools[] = {
    { WALDO__S("sql"), WALDO__S("Ask \"it\"."), SCHEMA("query"), WALDO__S("query"), WALDO__S("") },
    { WALDO__S("run"), WALDO__S(""), SCHEMA("cmd"), WALDO__S(""), WALDO__S("") },
    { WALDO__S("patch"), WALDO__S(""), SCHEMA("text"), WALDO__S("text"),
      WALDO__S("start: \"a\\n\"+\n") },
};

static waldo_encoder *encoder_of(const waldo_model_options *options)
{
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = options,
                                .parallel_calls = 1,
                                .model = WALDO__S("gpt-5.1"),
                                .url = WALDO__S("https://api.openai.com/v1"),
                                .tools = tools,
                                .tool_count = WALDO__COUNT(tools) };
    waldo_encoder *encoder = NULL;

    assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    return encoder;
}

/* The request for items from a member on, in a static buffer. */
static const char *body_of(const waldo_model_options *options, const waldo_item *items,
                           size_t count, const char *choice, const char *from)
{
    static char text[1 << 16];
    waldo_encoder *encoder = encoder_of(options);
    waldo_model_turn turn = { .size = sizeof turn,
                              .tool_choice = choice != NULL ? WALDO_TOOL_CHOICE_NAMED : 0,
                              .tool_choice_name = waldo__str(choice) };
    waldo_model_request made = { 0 };
    size_t at;

    assert_int_equal(OPS->append(encoder, items, count, NULL), WALDO_OK);
    assert_int_equal(OPS->request(encoder, &turn, &made, NULL), WALDO_OK);
    at = waldo__str_search(made.body, waldo__str(from), 0);
    assert_true(at < made.body.len && made.body.len - at < sizeof text);
    memcpy(text, made.body.ptr + at, made.body.len - at + 1);
    OPS->free_encoder(encoder);
    return text;
}

/* ---- declarations ---- */

#define FUNCTION(name, about, key)                                                                 \
    "{\"type\":\"function\",\"name\":\"" name "\"," about                                          \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"" key                                   \
    "\":{\"type\":\"string\"}},\"required\":[\"" key "\"]},\"strict\":false}"
#define ABOUT_SQL      "\"description\":\"Ask \\\"it\\\".\","
#define SQL_FUNCTION   FUNCTION("sql", ABOUT_SQL, "query")
#define RUN_FUNCTION   FUNCTION("run", "", "cmd")
#define PATCH_FUNCTION FUNCTION("patch", "", "text")
#define HELLO          ",\"input\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static const waldo_item hello = USER("hi");

static void declared_as_what_they_are(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };

    (void)state;
    assert_string_equal(
        body_of(&options, &hello, 1, "patch", "\"tools\":"),
        "\"tools\":[{\"type\":\"custom\",\"name\":\"sql\"," ABOUT_SQL
        "\"format\":{\"type\":\"text\"}}," RUN_FUNCTION ",{\"type\":\"custom\","
        "\"name\":\"patch\",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":"
        "\"start: \\\"a\\\\n\\\"+\\n\"}}]" HELLO
        ",\"tool_choice\":{\"type\":\"custom\",\"name\":\"patch\"}}");
    assert_string_equal(body_of(&options, &hello, 1, "run", "\"tool_choice\":"),
                        "\"tool_choice\":{\"type\":\"function\",\"name\":\"run\"}}");
    options.quirks = "freeform=off";
    assert_string_equal(body_of(&options, &hello, 1, "patch", "\"tools\":"),
                        "\"tools\":[" SQL_FUNCTION "," RUN_FUNCTION "," PATCH_FUNCTION "]" HELLO
                        ",\"tool_choice\":{\"type\":\"function\",\"name\":\"patch\"}}");
}

/* Only where it is known that the model has them, unless it is said. */
static void where_they_are_known(void **state)
{
    static const struct {
        const char *model;
        const char *quirks;
        int known;
    } cases[] = {
        { "openai:gpt-5", NULL, 1 },
        { "openai:gpt-5-mini-2025-08-07", NULL, 1 },
        { "openai:gpt-5.1-codex-max", NULL, 1 },
        { "openai:gpt-6.2-sol", NULL, 1 },
        { "openai:https://eu.api.openai.com/v1#gpt-5.4", NULL, 1 },
        { "openai:gpt-5", "freeform=off", 0 },
        { "openai:gpt-5-chat-latest", NULL, 0 },
        { "openai:gpt-4.1", NULL, 0 },
        { "openai:gpt-4o", NULL, 0 },
        { "openai:gpt-", NULL, 0 },
        { "openai:gpt-oss-120b", NULL, 0 },
        { "openai:o3", NULL, 0 },
        { "openai:o4-mini", "freeform=on", 1 },
        { "openai:https://proxy.test/v1#gpt-5", NULL, 0 },
        { "openai:http://127.0.0.1:8080/v1#gpt-5", NULL, 0 },
        { "openai:http://127.0.0.1:8080/v1#qwen3", "freeform=on", 1 },
        { NULL, NULL, 0 },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo_model_options options = { .size = sizeof options,
                                        .model = cases[i].model,
                                        .quirks = cases[i].quirks };

        assert_int_equal(strstr(body_of(&options, &hello, 1, NULL, "\"tools\":"), "\"custom\"") !=
                             NULL,
                         cases[i].known);
    }
}

/* ---- histories ---- */

#define CUSTOM(id, name, input)                                                                    \
    "{\"type\":\"custom_tool_call\",\"call_id\":\"" id "\",\"name\":\"" name                       \
    "\",\"input\":\"" input "\"}"
#define CALLED(id, name, args)                                                                     \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name                          \
    "\",\"arguments\":\"" args "\"}"
#define CUSTOM_OUT(id, text)                                                                       \
    "{\"type\":\"custom_tool_call_output\",\"call_id\":\"" id "\",\"output\":\"" text "\"}"
#define OUT(id, text)                                                                              \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":\"" text "\"}"

static void expect_input(const waldo_model_options *options, const waldo_item *items, size_t count,
                         const char *const *expected)
{
    waldo__buf all = WALDO__BUF_INIT(1 << 16);

    waldo__buf_puts(&all, "\"input\":[");
    for (size_t i = 0; expected[i] != NULL; i++) {
        waldo__buf_printf(&all, "%s%s", i > 0 ? "," : "", expected[i]);
    }
    waldo__buf_puts(&all, "]}");
    assert_string_equal(body_of(options, items, count, NULL, "\"input\":"),
                        waldo__buf_str(&all).ptr);
    waldo__buf_free(&all);
}

/* What another model, or the host, called: in the form of this API, or else as a function. */
static void calls_of_others(void **state)
{
    static const waldo_item items[] = {
        CALL("a", "patch", "{ \"text\" : \"*** \\\"x\\\"\\n\\u00e9\\/\" }"),
        CALL("b", "patch", "{\"text\":\"\"}"),
        CALL("c", "sql", "{\"query\":\"q\",\"more\":1}"),
        CALL("d", "sql", "{\"query\":7}"),
        CALL("e", "sql", "{\"query\":\"cut"),
        CALL("f", "sql", "{\"text\":\"x\"}"),
        CALL("g", "sql", ""),
        CALL("h", "run", "{\"cmd\":\"x\"}"),
        CALL("i", "sql", "[\"x\"]"),
        RESULT("h", "8"),
        RESULT("g", "7"),
        RESULT("f", "6"),
        FAILED("e", "5"),
        RESULT("d", "4"),
        RESULT("c", "3"),
        FAILED("b", "2"),
        RESULT("a", "1"),
        RESULT("i", "9"),
    };
    static const char *const expected[] = {
        CUSTOM("a", "patch", "*** \\\"x\\\"\\n\xC3\xA9/"),
        CUSTOM("b", "patch", ""),
        CALLED("c", "sql", "{\\\"query\\\":\\\"q\\\",\\\"more\\\":1}"),
        CALLED("d", "sql", "{\\\"query\\\":7}"),
        CALLED("e", "sql", "{\\\"query\\\":\\\"cut"),
        CALLED("f", "sql", "{\\\"text\\\":\\\"x\\\"}"),
        CALLED("g", "sql", "{}"),
        CALLED("h", "run", "{\\\"cmd\\\":\\\"x\\\"}"),
        CALLED("i", "sql", "[\\\"x\\\"]"),
        OUT("h", "8"),
        OUT("g", "7"),
        OUT("f", "6"),
        OUT("e", "ERROR: 5"),
        OUT("d", "4"),
        OUT("c", "3"),
        CUSTOM_OUT("b", "ERROR: 2"),
        CUSTOM_OUT("a", "1"),
        OUT("i", "9"),
        NULL,
    };
    static const char *const as_functions[] = {
        CALLED("a", "patch", "{ \\\"text\\\" : \\\"*** \\\\\\\"x\\\\\\\"\\\\n\\\\u00e9\\\\/\\\" }"),
        OUT("a", "1"),
        NULL,
    };
    const waldo_item plain[] = { items[0], RESULT("a", "1") };
    waldo_model_options options = { .size = sizeof options, .model = MODEL };

    (void)state;
    expect_input(&options, items, WALDO__COUNT(items), expected);
    options.quirks = "freeform=off";
    expect_input(&options, plain, 2, as_functions);
}

#define OWN_RAW                                                                                    \
    "{\"id\":\"ctc_1\",\"type\":\"custom_tool_call\",\"status\":\"completed\",\"call_id\":\"a\","  \
    "\"name\":\"patch\",\"input\":\"x\\u00e9\",\"n\":1.50}"
#define OWN_FUNCTION                                                                               \
    "{\"type\":\"function_call\",\"call_id\":\"b\",\"name\":\"patch\",\"arguments\":"              \
    "\"{\\\"text\\\":\\\"y\\\"}\"}"

/* As it came, whatever the tool is now; the id again makes it a new call in the common form. */
static void calls_of_their_own(void **state)
{
    static const waldo_item made[] = {
        { .kind = WALDO_ITEM_TOOL_CALL,
          .id = WALDO__S("a"),
          .name = WALDO__S("patch"),
          .args = WALDO__S("{\"text\":\"x\xC3\xA9\"}"),
          .vendor = VENDOR,
          .raw = WALDO__S(OWN_RAW) },
        { .kind = WALDO_ITEM_TOOL_CALL,
          .id = WALDO__S("b"),
          .name = WALDO__S("patch"),
          .args = WALDO__S("{\"text\":\"y\"}"),
          .vendor = VENDOR,
          .raw = WALDO__S(OWN_FUNCTION) },
    };
    const waldo_item items[] = { made[0],          made[1],          made[0],
                                 RESULT("a", "1"), RESULT("b", "2"), RESULT("a", "3") };
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    const char *input;

    (void)state;
    for (int off = 0; off < 2; off++) {
        options.quirks = off ? "freeform=off" : NULL;
        expect_input(&options, (waldo_item[]){ made[0], made[1], items[3], items[4] }, 4,
                     (const char *const[]){ OWN_RAW, OWN_FUNCTION, CUSTOM_OUT("a", "1"),
                                            OUT("b", "2"), NULL });
    }
    options.quirks = NULL;
    input = body_of(&options, items, WALDO__COUNT(items), NULL, "\"input\":");
    assert_non_null(strstr(input, "{\"type\":\"custom_tool_call\",\"call_id\":\"call_"));
    assert_non_null(
        strstr(input, "\"input\":\"x\xC3\xA9\"},{\"type\":\"custom_tool_call_output\""));
    assert_non_null(strstr(input, "{\"type\":\"custom_tool_call_output\",\"call_id\":\"call_"));
}

/* The provider keeps the call, and the raw of it was not kept here: its result must match it. */
static void calls_that_the_provider_keeps(void **state)
{
    waldo_item items[] = { CALL("a", "patch", "{\"text\":\"x\"}"),
                           CALL("b", "run", "{\"cmd\":\"x\"}"), RESULT("a", "1"),
                           RESULT("b", "2") };
    waldo_model_options options = { .size = sizeof options,
                                    .model = MODEL,
                                    .quirks = "history=provider" };

    (void)state;
    items[0].response = items[1].response = WALDO__S("resp_1");
    assert_string_equal(body_of(&options, items, 4, NULL, "\"input\":"),
                        "\"input\":[" CUSTOM_OUT("a", "1") "," OUT(
                            "b", "2") "],\"previous_response_id\":\"resp_1\"}");
}

/* ---- answers ---- */

#define EVENT(type, members) "data: {\"type\":\"response." type "\"" members "}\n\n"
#define ITEM(members)                                                                              \
    "{\"type\":\"custom_tool_call\",\"id\":\"ctc_1\",\"call_id\":\"c\",\"name\":\"patch\"" members \
    "}"
#define ADDED EVENT("output_item.added", ",\"output_index\":0,\"item\":" ITEM(",\"input\":\"\""))
#define PIECE(text)                                                                                \
    EVENT("custom_tool_call_input.delta",                                                          \
          ",\"item_id\":\"ctc_1\",\"output_index\":0,\"delta\":\"" text "\"")
#define WHOLE(text)                                                                                \
    EVENT("custom_tool_call_input.done",                                                           \
          ",\"item_id\":\"ctc_1\",\"output_index\":0,\"input\":\"" text "\"")
#define DONE(item)        EVENT("output_item.done", ",\"output_index\":0,\"item\":" item)
#define COMPLETED(output) EVENT("completed", ",\"response\":{\"output\":[" output "]}")
#define INCOMPLETE(output)                                                                         \
    EVENT("incomplete", ",\"response\":{\"incomplete_details\":{\"reason\":\"max_output_tokens\"}" \
                        ",\"output\":[" output "]}")

/* What an answer becomes, cut into pieces, by a reader that knows the tools or does not. */
static void read_pieces(const char *type, waldo_str body, size_t step, size_t first, int is_told,
                        waldo__buf *out)
{
    static const char *const finishes[] = { "?", "answer", "calls", "length" };
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo_encoder *encoder = encoder_of(&options);
    waldo_reader *reader = NULL;
    waldo_response response = { 0 };
    waldo_error *error = NULL;

    assert_int_equal(OPS->new_reader(&options, waldo__str(type), &reader), WALDO_OK);
    if (is_told) {
        assert_int_equal(OPS->expect(reader, encoder), WALDO_OK);
    }
    OPS->free_encoder(encoder); /* nothing of it is needed any more */
    for (size_t at = 0, end; at < body.len; at = end) {
        end = step > 0 ? at + step : first > at ? first : body.len;
        end = end < body.len ? end : body.len;
        OPS->feed(reader, waldo__slice(body.ptr + at, end - at), NULL, NULL, NULL);
    }
    if (OPS->finish(reader, &response, &error) != WALDO_OK) {
        waldo__buf_puts(out, waldo_error_message(error));
        waldo_error_free(error);
    } else {
        for (size_t i = 0; i < response.item_count; i++) {
            const waldo_item *item = &response.items[i];

            waldo__buf_printf(out, "%s %s %s %s\n", item->id.ptr, item->name.ptr, item->args.ptr,
                              item->raw.len > 0 ? item->raw.ptr : "-");
        }
        waldo__buf_puts(out, finishes[response.finish]);
    }
    OPS->free_reader(reader);
}

static void expect_read(const char *type, const char *text, int is_told, const char *expected)
{
    waldo__buf out = WALDO__BUF_INIT(1 << 16);
    waldo_str body = waldo__str(text);

    for (size_t i = 0; i < body.len + 3; i++) {
        waldo__buf_clear(&out);
        read_pieces(type, body, i < 3 ? i + 1 : 0, i < 3 ? 0 : i - 3, is_told, &out);
        assert_string_equal(waldo__buf_str(&out).ptr, expected);
    }
    waldo__buf_free(&out);
}

#define IN_FULL ITEM(",\"status\":\"completed\",\"input\":\"*** \\\"a\\\"\\n\\u00e9\"")
#define ARGS    "{\"text\":\"*** \\\"a\\\"\\n\xC3\xA9\"}"

/* Arguments are JSON with exactly the text, however much of it comes how often. */
static void calls_become_arguments(void **state)
{
    static const struct {
        const char *stream;
        const char *raw;
    } cases[] = {
        { ADDED PIECE("*** ") PIECE("\\\"a\\\"") PIECE("\\n\\u00e9")
              WHOLE("*** \\\"a\\\"\\n\\u00e9") DONE(IN_FULL) COMPLETED(IN_FULL),
          IN_FULL },
        /* nothing but pieces; nothing but the whole text; nothing but the item */
        { ADDED PIECE("*** ") PIECE("\\\"a\\\"") PIECE("\\n\\u00e9") EVENT("completed", ""), "-" },
        { ADDED WHOLE("*** \\\"a\\\"\\n\\u00e9") EVENT("completed", ""), "-" },
        { DONE(IN_FULL) EVENT("completed", ""), IN_FULL },
        { COMPLETED(IN_FULL), IN_FULL },
        /* pieces that say something else than the whole text, and than the item */
        { ADDED PIECE("{}") WHOLE("*** \\\"a\\\"\\n\\u00e9") EVENT("completed", ""), "-" },
        { ADDED PIECE("x") WHOLE("y") DONE(IN_FULL) PIECE("z") COMPLETED(""), IN_FULL },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        char expected[512];

        snprintf(expected, sizeof expected, "c patch " ARGS " %s\ncalls", cases[i].raw);
        expect_read(SSE, cases[i].stream, 1, expected);
    }
    expect_read("application/json", "{\"status\":\"completed\",\"output\":[" IN_FULL "]}", 1,
                "c patch " ARGS " " IN_FULL "\ncalls");
}

/* Text that looks like arguments, or like none, is text. */
static void texts_that_look_otherwise(void **state)
{
    (void)state;
    expect_read(SSE, ADDED WHOLE("{}\\\"\\\"") EVENT("completed", ""), 1,
                "c patch {\"text\":\"{}\\\"\\\"\"} -\ncalls");
    expect_read(SSE, ADDED WHOLE("null") EVENT("completed", ""), 1,
                "c patch {\"text\":\"null\"} -\ncalls");
    expect_read(SSE, ADDED PIECE(" \\n") EVENT("completed", ""), 1,
                "c patch {\"text\":\" \\n\"} -\ncalls");
    expect_read(SSE, ADDED EVENT("completed", ""), 1, "c patch {\"text\":\"\"} -\ncalls");
    /* half a character, and NUL, which no text here can hold */
    expect_read(SSE, ADDED WHOLE("a\\ud83d\\u0000") EVENT("completed", ""), 1,
                "c patch {\"text\":\"a\xEF\xBF\xBD\xEF\xBF\xBD\"} -\ncalls");
    /* of a tool that was not declared so, it stays what it is */
    expect_read(SSE, ADDED WHOLE("*** x") EVENT("completed", ""), 0, "c patch *** x -\ncalls");
}

/* Half a text must never look like one. */
static void calls_that_are_cut(void **state)
{
    static const char whole[] =
        ADDED PIECE("*** End Patch") DONE(ITEM(",\"status\":\"completed\",\"input\":\"ab\""))
            INCOMPLETE(ITEM(",\"status\":\"completed\",\"input\":\"ab\""));

    (void)state;
    expect_read(SSE, ADDED PIECE("*** End Patch") INCOMPLETE(""), 1,
                "c patch {\"text\":\"*** End Patch -\nlength");
    expect_read(SSE,
                ADDED WHOLE("ab") INCOMPLETE(ITEM(",\"status\":\"incomplete\",\"input\":\"ab\"")),
                1, "c patch {\"text\":\"ab -\nlength");
    expect_read(SSE, ADDED WHOLE("ab") INCOMPLETE(ITEM(",\"input\":\"ab\"")), 1,
                "c patch {\"text\":\"ab " ITEM(",\"input\":\"ab\"") "\nlength");
    expect_read(
        SSE, whole, 1,
        "c patch {\"text\":\"ab\"} " ITEM(",\"status\":\"completed\",\"input\":\"ab\"") "\nlength");
    expect_read(SSE, ADDED WHOLE("ab"), 1,
                "the model's answer ended without its terminal event: the server has lost it");
}

/* The same pieces as for functions count, and the same limit. */
static void texts_have_a_limit(void **state)
{
    enum { STEP = 1 << 20 };
    waldo__buf body = WALDO__BUF_INIT(64 << 20), out = WALDO__BUF_INIT(1 << 16);

    (void)state;
    waldo__buf_puts(&body, ADDED);
    for (int i = 0; i <= 16; i++) {
        waldo__buf_puts(&body, "data: {\"type\":\"response.custom_tool_call_input.delta\","
                               "\"output_index\":0,\"delta\":\"");
        waldo__buf_reserve(&body, STEP);
        for (int k = 0; k < STEP; k++) {
            waldo__buf_putc(&body, 'x');
        }
        waldo__buf_puts(&body, "\"}\n\n");
    }
    read_pieces(SSE, waldo__buf_str(&body), 0, 0, 1, &out);
    assert_string_equal(waldo__buf_str(&out).ptr,
                        "the model's answer is too large, or has too many parts");
    waldo__buf_free(&body);
    waldo__buf_free(&out);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(declared_as_what_they_are),
        cmocka_unit_test(where_they_are_known),
        cmocka_unit_test(calls_of_others),
        cmocka_unit_test(calls_of_their_own),
        cmocka_unit_test(calls_become_arguments),
        cmocka_unit_test(texts_that_look_otherwise),
        cmocka_unit_test(calls_that_are_cut),
        cmocka_unit_test(texts_have_a_limit),
        cmocka_unit_test(calls_that_the_provider_keeps),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
