#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/model.h"
#include "read.h"

#define MODEL "openai:gpt-5.6-sol"
#define SSE   "text/event-stream"

#define EVENTS(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

#define EVENT(type, members) "{\"type\":\"response." type "\"" members "}"
#define ADDED(at, item)      EVENT("output_item.added", ",\"output_index\":" #at ",\"item\":" item)
#define ITEM(at, item)       EVENT("output_item.done", ",\"output_index\":" #at ",\"item\":" item)
#define TEXT(index, piece)                                                                         \
    EVENT("output_text.delta",                                                                     \
          ",\"output_index\":" #index ",\"content_index\":0,\"delta\":\"" piece "\"")
#define COMPLETED(output)                                                                          \
    EVENT("completed",                                                                             \
          ",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"output\":[" output "]}")
#define MESSAGE(text)                                                                              \
    "{\"type\":\"message\",\"id\":\"msg_1\",\"content\":[{\"type\":\"output_text\",\"text\":"      \
    "\"" text "\",\"annotations\":[]}]}"
#define CALL(id, name, args)                                                                       \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name                          \
    "\",\"arguments\":\"" args "\"}"
#define FAILED(code)                                                                               \
    EVENT("failed", ",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"" code             \
                    "\",\"message\":\"it broke\"}}")

#define REASONING_RAW                                                                              \
    "{\"id\":\"rs_01\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":"               \
    "\"gAAAA-done\"}"
#define TOOL_OUTCOME                                                                               \
    "call run_command\n"                                                                           \
    "reasoning  " REASONING_RAW "\n"                                                               \
    "tool_call call_AbC123 run_command {\"cmd\":\"echo h\xC3\xA9\"} "                              \
    "{\"id\":\"fc_01\",\"type\":\"function_call\",\"status\":\"completed\",\"arguments\":"         \
    "\"{\\\"cmd\\\":\\\"echo h\xC3\xA9\\\"}\",\"call_id\":\"call_AbC123\",\"name\":"               \
    "\"run_command\"}\n"                                                                           \
    "finish calls usage 312 58 256 32\n"

static void expect(const char *const *events, const char *expected)
{
    expect_model_events(MODEL, events, expected);
}

static void example_at_every_split(void **state)
{
    size_t len;
    char *text = read_file("standins/responses/tool.sse", &len);

    (void)state;
    expect_in_any_dress(MODEL, SSE, waldo__strn(text, len), ",\"item\":", TOOL_OUTCOME);
    waldo__free(text);
}

static void example_in_other_dress(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } forms[] = {
        { "event: response.", "id: 7\nretry: 1\nx: " }, /* the type inside of the JSON will do */
        { "\"type\":\"response.", "\"types\":\"" },     /* and so will the one outside */
    };
    size_t len;
    char *text = read_file("standins/responses/tool.sse", &len);

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(forms); i++) {
        waldo__buf changed = WALDO__BUF_INIT(1 << 20);

        change_words(waldo__strn(text, len), forms[i].from, forms[i].to, &changed);
        assert_int_not_equal(changed.len, len);
        expect_answer(MODEL, SSE, waldo__buf_str(&changed), TOOL_OUTCOME);
        waldo__buf_free(&changed);
    }
    waldo__free(text);
}

/* The losses that the official client does not notice. */
static void example_that_is_cut(void **state)
{
    size_t len, cut;
    char *text = read_file("standins/responses/tool.sse", &len);
    waldo_str whole = waldo__strn(text, len);
    waldo__buf changed = WALDO__BUF_INIT(1 << 20);

    (void)state;
    cut = waldo__str_search(whole, WALDO__S("event: response.completed"), 0);
    expect_answer(MODEL, SSE, waldo__strn(text, cut),
                  "call run_command\nWALDO_ETRUNCATED the model's answer ended without its "
                  "terminal event: the server has lost it\n");
    waldo__buf_add(&changed, text, cut);
    waldo__buf_puts(&changed, "data: [DONE]\n\n");
    expect_answer(MODEL, SSE, waldo__buf_str(&changed),
                  "call run_command\nWALDO_ETRUNCATED the model's answer ended without its "
                  "terminal event: the server has lost it\n");
    cut = waldo__str_search(whole, WALDO__S("event: response.function_call"), 0);
    waldo__buf_clear(&changed);
    waldo__buf_add(&changed, text, cut);
    waldo__buf_puts(&changed, "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\","
                              "\"message\":\"it broke\",\"param\":null,\"sequence_number\":5}\n\n");
    expect_answer(MODEL, SSE, waldo__buf_str(&changed),
                  "call run_command\nWALDO_EPROVIDER the model server reported inside its answer: "
                  "it broke\n");
    waldo__buf_free(&changed);
    waldo__free(text);
}

/* Wherever the body ends before the terminal event, no answer comes of it. */
static void example_that_is_cut_anywhere(void **state)
{
    const waldo_model_options options = WALDO_MODEL(.model = MODEL);
    size_t len, last;
    char *text = read_file("standins/responses/tool.sse", &len);
    waldo__buf out = WALDO__BUF_INIT(1 << 20);

    (void)state;
    last = waldo__str_search(waldo__strn(text, len), WALDO__S("event: response.completed"), 0);
    assert_true(last > len / 2 && last < len);
    for (size_t cut = 0; cut <= last; cut++) {
        waldo__buf_clear(&out);
        read_answer(&options, SSE, waldo__strn(text, cut), (read_cuts){ 0 }, &out);
        assert_non_null(strstr(waldo__buf_str(&out).ptr, "WALDO_E"));
        assert_null(strstr(waldo__buf_str(&out).ptr, "finish"));
    }
    waldo__buf_free(&out);
    waldo__free(text);
}

static void text_answer(void **state)
{
    (void)state;
    expect(EVENTS(EVENT("created", ",\"response\":{\"id\":\"resp_9\"}"),
                  ADDED(0, "{\"type\":\"message\",\"id\":\"msg_1\",\"content\":[]}"),
                  EVENT("content_part.added", ",\"output_index\":0,\"part\":{}"), TEXT(0, "Hel"),
                  TEXT(0, "lo"), ITEM(0, MESSAGE("Hello")), COMPLETED(MESSAGE("Hello"))),
           "~text Hello\nassistant Hello " MESSAGE("Hello") "\nfinish answer\n");
    /* the phase and whatever else the provider said are kept; space between parts is not */
    expect(EVENTS(COMPLETED(
               "{ \"type\": \"message\", \"phase\": \"final_answer\", \"n\": 1.50,\ndata: "
               "\"content\": [ {\"type\":\"output_text\",\"text\":\"a b\"} ] }")),
           "~text a b\nassistant a b {\"type\":\"message\",\"phase\":\"final_answer\",\"n\":1.50,"
           "\"content\":[{\"type\":\"output_text\",\"text\":\"a b\"}]}\nfinish answer\n");
    /* two messages, of which the second was whole at once */
    expect(EVENTS(TEXT(0, "a"), ITEM(0, MESSAGE("a")), ITEM(1, MESSAGE("b")),
                  COMPLETED(MESSAGE("a") "," MESSAGE("b"))),
           "~text ab\nassistant a " MESSAGE("a") "\nassistant b " MESSAGE("b") "\nfinish answer\n");
    /* an empty message is an answer */
    expect(EVENTS(COMPLETED(MESSAGE(""))), "assistant  " MESSAGE("") "\nfinish answer\n");
    /* bytes behind the end */
    expect(EVENTS(COMPLETED(MESSAGE("x")), "garbage"),
           "~text x\nassistant x " MESSAGE("x") "\nfinish answer\n");
}

static void refusals(void **state)
{
    (void)state;
    expect(
        EVENTS(EVENT("refusal.delta", ",\"output_index\":0,\"content_index\":0,\"delta\":"
                                      "\"I can\""),
               EVENT("refusal.delta", ",\"output_index\":0,\"content_index\":0,\"delta\":\"not.\""),
               COMPLETED("{\"type\":\"message\",\"content\":[{\"type\":\"refusal\",\"refusal\":"
                         "\"I cannot.\"}]}")),
        "~text I cannot.\nassistant I cannot. {\"type\":\"message\",\"content\":[{\"type\":"
        "\"refusal\",\"refusal\":\"I cannot.\"}]}\nfinish refusal\n");
}

#define SUMMARIES                                                                                  \
    "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"one\"},{\"type\":" \
    "\"summary_text\",\"text\":\"two\"}],\"encrypted_content\":\"gA\"}"
#define READABLE                                                                                   \
    "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":"   \
    "\"hm\"}]}"

static void reasoning(void **state)
{
    (void)state;
    expect(EVENTS(EVENT("reasoning_summary_text.delta",
                        ",\"output_index\":0,\"summary_index\":0,\"delta\":\"o\""),
                  EVENT("reasoning_summary_text.delta",
                        ",\"output_index\":0,\"summary_index\":0,\"delta\":\"ne\""),
                  EVENT("reasoning_summary_text.done",
                        ",\"output_index\":0,\"summary_index\":0,\"text\":\"one\""),
                  EVENT("reasoning_summary_text.done",
                        ",\"output_index\":0,\"summary_index\":1,\"text\":\"two\""),
                  ITEM(0, SUMMARIES), TEXT(1, "x"), COMPLETED(SUMMARIES "," MESSAGE("x"))),
           "~reasoning one\n\ntwo\n~text x\nreasoning one\n\ntwo " SUMMARIES
           "\nassistant x " MESSAGE("x") "\nfinish answer\n");
    expect(EVENTS(EVENT("reasoning_text.delta",
                        ",\"output_index\":0,\"content_index\":0,\"delta\":\"hm\""),
                  COMPLETED(READABLE "," MESSAGE("x"))),
           "~reasoning hm\n~text x\nreasoning hm " READABLE
           "\nassistant x " MESSAGE("x") "\nfinish answer\n");
    /* an answer of reasoning alone was seen in the field: asking again helps */
    expect(EVENTS(COMPLETED(READABLE)),
           "~reasoning hm\nWALDO_EPROVIDER the model server ended its answer without a message or "
           "a call\n");
    expect(EVENTS(COMPLETED("")),
           "WALDO_EPROVIDER the model server ended its answer without a message or a call\n");
}

static void calls(void **state)
{
    (void)state;
    /* two calls whose pieces alternate */
    expect(
        EVENTS(ADDED(0, CALL("a", "f", "")), ADDED(1, CALL("b", "g", "")),
               EVENT("function_call_arguments.delta", ",\"output_index\":1,\"delta\":\"{\\\"y\""),
               EVENT("function_call_arguments.delta", ",\"output_index\":0,\"delta\":\"{\\\"x\""),
               EVENT("function_call_arguments.delta", ",\"output_index\":1,\"delta\":\"\\\":2}\""),
               EVENT("function_call_arguments.delta", ",\"output_index\":0,\"delta\":\"\\\":1}\""),
               EVENT("completed", ",\"response\":{}")),
        "call f\ncall g\ntool_call a f {\"x\":1}\ntool_call b g {\"y\":2}\nfinish calls\n");
    /* items in another order than their places */
    expect(EVENTS(ITEM(1, CALL("b", "g", "{}")), ITEM(0, CALL("a", "f", "{}")),
                  EVENT("completed", ",\"response\":{\"output\":[]}")),
           "call g\ncall f\ntool_call a f {} " CALL("a", "f", "{}") "\ntool_call b g {} " CALL(
               "b", "g", "{}") "\nfinish calls\n");
    /* no arguments are none; the same id twice, or none, gets one that is made */
    expect(
        EVENTS(COMPLETED(CALL("a", "f", "") "," CALL(
            "a", "g", "{}") ","
                            "{\"type\":\"function_call\",\"name\":\"h\",\"arguments\":{\"k\":1}}")),
        "call f\ncall g\ncall h\ntool_call a f {} " CALL(
            "a", "f", "") "\ntool_call <made> g {}\ntool_call <made> h {\"k\":1}\nfinish calls\n");
    /* a call without a name is none */
    expect(EVENTS(COMPLETED(CALL("a", "", "{}") "," MESSAGE("x"))),
           "~text x\nassistant x " MESSAGE("x") "\nfinish answer\n");
    /* a free-form call keeps its text */
    expect(EVENTS(ADDED(0, "{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"p\"}"),
                  EVENT("custom_tool_call_input.delta", ",\"output_index\":0,\"delta\":\"*** \""),
                  EVENT("custom_tool_call_input.done", ",\"output_index\":0,\"input\":\"*** B\""),
                  EVENT("completed", "")),
           "call p\ntool_call c p *** B\nfinish calls\n");
}

#define PIECE(at, text)                                                                            \
    EVENT("function_call_arguments.delta", ",\"output_index\":" #at ",\"delta\":\"" text "\"")
#define DONE         EVENT("completed", ",\"response\":{}")
#define BARE_CALL    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\""
#define CALLED(args) "call f\ntool_call c f " args "\nfinish calls\n"
#define STRAY                                                                                      \
    "warning the server sent something besides the arguments of a tool call; it was left out\n"

/* What users of other libraries met, in the form that it has here. */
static void reported_faults(void **state)
{
    (void)state;
    /* F03: an empty piece first */
    expect(EVENTS(ADDED(0, CALL("c", "f", "")), PIECE(0, ""), PIECE(0, "{\\\"cm"),
                  PIECE(0, "d\\\":\\\"ls\\\"}"), DONE),
           CALLED("{\"cmd\":\"ls\"}"));
    /* F04: no arguments in three forms */
    expect(EVENTS(ADDED(0, CALL("c", "f", "")), DONE), CALLED("{}"));
    expect(EVENTS(ADDED(0, BARE_CALL "}"), DONE), CALLED("{}"));
    expect(EVENTS(ADDED(0, BARE_CALL ",\"arguments\":null}"), DONE), CALLED("{}"));
    /* F05: something stray behind whole arguments */
    expect(EVENTS(ADDED(0, CALL("c", "f", "")), PIECE(0, "{}"), PIECE(0, "\\\"\\\""), DONE),
           "call f\n" STRAY "tool_call c f {}\nfinish calls\n");
    /* F09: one tool twice */
    expect(EVENTS(ADDED(0, CALL("c", "f", "")), PIECE(0, "{\\\"a\\\":1}"),
                  ADDED(1, CALL("d", "f", "")), PIECE(1, "{\\\"a\\\":2}"), DONE),
           "call f\ncall f\ntool_call c f {\"a\":1}\ntool_call d f {\"a\":2}\nfinish calls\n");
    /* F11: arguments of an answer that is no stream: empty, and an object instead of text */
    expect_answer(MODEL, "application/json", WALDO__S("{\"output\":[" BARE_CALL "}]}"),
                  "call f\ntool_call c f {} " BARE_CALL "}\nfinish calls\n");
    expect_answer(MODEL, "application/json",
                  WALDO__S("{\"output\":[" BARE_CALL ",\"arguments\":{\"cmd\":\"ls\"}}]}"),
                  "call f\ntool_call c f {\"cmd\":\"ls\"} " BARE_CALL
                  ",\"arguments\":{\"cmd\":\"ls\"}}\nfinish calls\n");
}

static void unfinished(void **state)
{
    (void)state;
    expect(EVENTS(TEXT(0, "and"),
                  EVENT("incomplete", ",\"response\":{\"status\":\"incomplete\","
                                      "\"incomplete_details\":{\"reason\":\"max_output_tokens\"},"
                                      "\"output\":[" MESSAGE(
                                          "and so") "],\"usage\":{"
                                                    "\"input_tokens\":3,\"output_tokens\":4}}")),
           "~text and so\nassistant and so " MESSAGE("and so") "\nfinish length usage 3 4 0 0\n");
    /* what was cut is not kept as the provider's own, and its arguments stay as they are */
    expect(EVENTS(EVENT("incomplete",
                        ",\"response\":{\"incomplete_details\":{\"reason\":\"max_output_tokens\"},"
                        "\"output\":[{\"type\":\"function_call\",\"status\":\"incomplete\","
                        "\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"{\\\"x\"}]}")),
           "call f\ntool_call a f {\"x\nfinish length\n");
    expect(EVENTS(EVENT("incomplete",
                        ",\"response\":{\"incomplete_details\":{\"reason\":\"content_filter\"},"
                        "\"output\":[]}")),
           "finish filter\n");
}

static void failures(void **state)
{
    (void)state;
    expect(EVENTS(TEXT(0, "x"), FAILED("server_error")),
           "~text x\nWALDO_EPROVIDER the model server reported inside its answer: it broke\n");
    expect(EVENTS(FAILED("rate_limit_exceeded")),
           "WALDO_ERATE the model server reported inside its answer: it broke\n");
    expect(EVENTS(FAILED("invalid_prompt")),
           "WALDO_EINVAL the model server reported inside its answer: it broke\n");
    expect(EVENTS(FAILED("bio_policy")),
           "WALDO_EFILTER the model server reported inside its answer: it broke\n");
    expect(EVENTS(FAILED("something_new")),
           "WALDO_EHTTP the model server reported inside its answer: it broke\n");
    expect(EVENTS(EVENT("failed", ",\"response\":{\"error\":null}")),
           "WALDO_EPROVIDER the model server reported inside its answer: (no message)\n");
    expect(EVENTS("{\"type\":\"error\",\"code\":\"context_length_exceeded\",\"message\":\"long\"}"),
           "WALDO_EOVERFLOW the model server reported inside its answer: long; the conversation is "
           "too long for the model\n");
    /* the other form, on an event of any name */
    expect(EVENTS("{\"type\":\"response.in_progress\",\"error\":{\"message\":\"no\"}}"),
           "WALDO_EPROVIDER the model server reported inside its answer: no\n");
    expect(EVENTS("{\"type\":\"resp"),
           "WALDO_EPROTO the model server sent what is not JSON "
           "(JSON: a string without its end at byte 8): {\"type\":\"resp\n");
    expect(EVENTS("[1]"), "WALDO_EPROTO the model server sent JSON that is not an object\n");
    expect_answer(MODEL, SSE, WALDO__S(""),
                  "WALDO_ETRUNCATED the model server answered with an empty body\n");
    expect_answer(MODEL, "text/html", WALDO__S("<html>no</html>"),
                  "WALDO_EPROTO the model server answered with HTML: is the URL that of an API? "
                  "(Content-Type \"text/html\"): no\n");
}

/* llama.cpp and gateways: events without sequence, positions, ids or whole items. */
static void sparse_servers(void **state)
{
    (void)state;
    expect(
        EVENTS(EVENT("output_item.added",
                     ",\"item\":{\"type\":\"message\",\"id\":\"m\",\"content\":[]}"),
               EVENT("output_text.delta", ",\"item_id\":\"m\",\"delta\":\"hi\""),
               EVENT("output_item.done", ",\"item\":" MESSAGE("hi")),
               EVENT("output_item.added", ",\"item\":" CALL("fc_1", "f", "")),
               EVENT("function_call_arguments.delta", ",\"item_id\":\"x\",\"delta\":\"{}\""),
               EVENT("output_item.done", ",\"item\":" CALL("fc_1", "f", "{}")),
               EVENT("completed", ",\"response\":{\"status\":\"completed\",\"usage\":{"
                                  "\"input_tokens\":1,\"output_tokens\":2,\"total_tokens\":3}}")),
        "~text hi\ncall f\nassistant hi " MESSAGE("hi") "\ntool_call fc_1 f {} " CALL(
            "fc_1", "f", "{}") "\nfinish calls usage 1 2 0 0\n");
    /* nothing but pieces */
    expect(EVENTS(EVENT("output_text.delta", ",\"delta\":\"h\""),
                  EVENT("output_text.delta", ",\"delta\":\"i\""), EVENT("completed", "")),
           "~text hi\nassistant hi\nfinish answer\n");
    /* nothing but whole texts */
    expect(EVENTS(EVENT("output_text.done", ",\"text\":\"hi\""), EVENT("completed", "")),
           "~text hi\nassistant hi\nfinish answer\n");
    /* another id in every event */
    expect(
        EVENTS(ADDED(0, "{\"type\":\"message\",\"id\":\"a\"}"),
               EVENT("output_text.delta", ",\"output_index\":0,\"item_id\":\"b\",\"delta\":\"hi\""),
               ITEM(0, MESSAGE("hi")), EVENT("completed", "")),
        "~text hi\nassistant hi " MESSAGE("hi") "\nfinish answer\n");
}

/* Items and events that are not known: kept for their provider, or passed over. */
static void unknown_things(void **state)
{
    (void)state;
    expect(
        EVENTS(EVENT("web_search_call.searching", ",\"output_index\":0"),
               EVENT("compaction.compacting", ",\"output_index\":0"), "{\"type\":\"keepalive\"}",
               "{}", "",
               COMPLETED("{\"type\":\"compaction\",\"encrypted_content\":\"gC\"}," MESSAGE("x"))),
        "~text x\nreasoning  {\"type\":\"compaction\",\"encrypted_content\":\"gC\"}\n"
        "assistant x " MESSAGE("x") "\nfinish answer\n");
    expect(EVENTS(EVENT(
               "completed",
               ",\"response\":{\"output\":[" MESSAGE(
                   "x") "],\"input_transformations\":[{"
                        "\"type\":\"reasoning\",\"id\":\"rs_1\",\"action\":\"removed\",\"reason\":"
                        "\"model_mismatch\"}]}")),
           "~text x\nwarning the provider left out 1 items of earlier reasoning: model_mismatch\n"
           "assistant x " MESSAGE("x") "\nfinish answer\n");
}

static void halves_of_characters(void **state)
{
    (void)state;
    expect(EVENTS(TEXT(0, "a\\ud83d"), TEXT(0, "\\ude00b"), EVENT("completed", "")),
           "~text a\xF0\x9F\x98\x80"
           "b\nassistant a\xF0\x9F\x98\x80"
           "b\nfinish answer\n");
    /* neither for us nor for the provider may half of one come back */
    expect(EVENTS(COMPLETED(MESSAGE("a\\ud83d\\u0000\xFF"))),
           "~text a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\nassistant "
           "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD " MESSAGE(
               "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") "\nfinish answer\n");
}

static void whole_answers(void **state)
{
    (void)state;
    expect_answer(MODEL, "application/json",
                  WALDO__S("{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\","
                           "\"error\":null,\"output\":[" MESSAGE(
                               "hi") "],\"usage\":{"
                                     "\"input_tokens\":1,\"output_tokens\":2}}\n"),
                  "~text hi\nassistant hi " MESSAGE("hi") "\nfinish answer usage 1 2 0 0\n");
    expect_answer(MODEL, "application/json",
                  WALDO__S("{\"status\":\"failed\",\"error\":{\"code\":\"server_error\","
                           "\"message\":\"no\"}}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: no\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"status\":\"queued\",\"output\":[]}"),
                  "WALDO_EPROVIDER the model server answered with a response that is \"queued\"\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"error\":{\"message\":\"no\"}}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: no\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"detail\":\"Not Found\"}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: Not Found\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"output\":[{"),
                  "WALDO_ETRUNCATED the model's answer ended in the middle of its JSON\n");
}

static void limits(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo__buf body = WALDO__BUF_INIT(1 << 20), out = WALDO__BUF_INIT(1 << 20);

    (void)state;
    for (int i = 0; i < 1100; i++) {
        waldo__buf_puts(&body, "data: " EVENT("output_item.added", ",\"item\":{}") "\n\n");
    }
    read_answer(&options, SSE, waldo__buf_str(&body), (read_cuts){ 0 }, &out);
    assert_string_equal(out.ptr, "WALDO_ETOOBIG the model's answer is too large, or has too many "
                                 "parts\n");
    waldo__buf_free(&body);
    waldo__buf_free(&out);
}

static void complete_and_finish_twice(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo_response response = { 0 };
    waldo_reader *reader;

    (void)state;
    assert_int_equal(waldo__responses_ops.new_reader(&options, waldo__str(SSE), &reader), WALDO_OK);
    assert_false(waldo__responses_ops.complete(reader));
    assert_int_equal(waldo__responses_ops.feed(reader,
                                               WALDO__S("data: " COMPLETED(MESSAGE("x")) "\n\n"),
                                               NULL, NULL, NULL),
                     WALDO_OK);
    assert_true(waldo__responses_ops.complete(reader));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waldo__responses_ops.finish(reader, &response, NULL), WALDO_OK);
        assert_int_equal(response.item_count, 1);
        assert_true(waldo__str_is(response.items[0].vendor, "openai:api.openai.com/gpt"));
        assert_true(waldo__str_is(response.request_id, "resp_1"));
    }
    waldo__responses_ops.free_reader(reader);
    waldo__responses_ops.free_reader(NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_at_every_split),
        cmocka_unit_test(example_in_other_dress),
        cmocka_unit_test(example_that_is_cut),
        cmocka_unit_test(example_that_is_cut_anywhere),
        cmocka_unit_test(text_answer),
        cmocka_unit_test(refusals),
        cmocka_unit_test(reasoning),
        cmocka_unit_test(calls),
        cmocka_unit_test(reported_faults),
        cmocka_unit_test(unfinished),
        cmocka_unit_test(failures),
        cmocka_unit_test(sparse_servers),
        cmocka_unit_test(unknown_things),
        cmocka_unit_test(halves_of_characters),
        cmocka_unit_test(whole_answers),
        cmocka_unit_test(limits),
        cmocka_unit_test(complete_and_finish_twice),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
