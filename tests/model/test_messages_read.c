#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/model.h"
#include "read.h"

#define MODEL "anthropic:claude-opus-5-5"
#define SSE   "text/event-stream"

#define EVENTS(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

#define START(usage)                                                                               \
    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"content\":[],\"usage\":{" usage   \
    "}}}"
#define BLOCK(at, block)                                                                           \
    "{\"type\":\"content_block_start\",\"index\":" #at ",\"content_block\":" block "}"
#define TEXT_BLOCK(at)     BLOCK(at, "{\"type\":\"text\",\"text\":\"\"}")
#define THINKING_BLOCK(at) BLOCK(at, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
#define CALL_BLOCK(at, id, name)                                                                   \
    BLOCK(at, "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"" name "\",\"input\":{}}")
#define DELTA(at, type, member, value)                                                             \
    "{\"type\":\"content_block_delta\",\"index\":" #at ",\"delta\":{\"type\":\"" type              \
    "_delta\",\"" member "\":\"" value "\"}}"
#define TEXT(at, piece)      DELTA(at, "text", "text", piece)
#define THINKING(at, piece)  DELTA(at, "thinking", "thinking", piece)
#define SIGNATURE(at, piece) DELTA(at, "signature", "signature", piece)
#define ARGS(at, piece)      DELTA(at, "input_json", "partial_json", piece)
#define BLOCK_END(at)        "{\"type\":\"content_block_stop\",\"index\":" #at "}"
#define STOP(reason)                                                                               \
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason                             \
    "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":null}}"
#define STOP_USED                                                                                  \
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"             \
    "\"output_tokens\":7}}"
#define DONE "{\"type\":\"message_stop\"}"

#define TOOL_OUTCOME                                                                               \
    "~reasoning Run it.\n"                                                                         \
    "~text Running caf\xC3\xA9 \xF0\x9F\x98\x80.\n"                                                \
    "call run_command\n"                                                                           \
    "reasoning Run it. {\"type\":\"thinking\",\"thinking\":\"Run it.\",\"signature\":"             \
    "\"EqQBCkgIARAB\"}\n"                                                                          \
    "assistant Running caf\xC3\xA9 \xF0\x9F\x98\x80.\n"                                            \
    "tool_call toolu_01A run_command {\"cmd\": \"echo h\xC3\xA9\"} "                               \
    "{\"type\":\"tool_use\",\"id\":\"toolu_01A\",\"name\":\"run_command\",\"input\":"              \
    "{\"cmd\": \"echo h\xC3\xA9\"},\"caller\":{\"type\":\"direct\"}}\n"                            \
    "finish calls usage 412 47 0 9\n"

static void expect(const char *const *events, const char *expected)
{
    expect_model_events(MODEL, events, expected);
}

static void example_at_every_split(void **state)
{
    size_t len;
    char *text = read_file("standins/messages/tool.sse", &len);

    (void)state;
    expect_in_any_dress(MODEL, SSE, waldo__strn(text, len), ",\"delta\":", TOOL_OUTCOME);
    waldo__free(text);
}

static void example_in_other_dress(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } forms[] = {
        { "event: content", "id: 7\nretry: 1\nx: " },    /* the type inside of the JSON will do */
        { "data: {\"type\":\"", "data: {\"types\":\"" }, /* and so will the one outside */
        { "event: ping\n", "event: something_new\n" },
    };
    size_t len;
    char *text = read_file("standins/messages/tool.sse", &len);

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

#define LOST                                                                                       \
    "WALDO_ETRUNCATED the model's answer ended without its terminal event: the server has lost "   \
    "it\n"

static void example_that_is_cut(void **state)
{
    size_t len, cut;
    char *text = read_file("standins/messages/tool.sse", &len);
    waldo_str whole = waldo__strn(text, len);
    waldo__buf changed = WALDO__BUF_INIT(1 << 20);

    (void)state;
    cut = waldo__str_search(whole, WALDO__S("event: message_stop"), 0);
    expect_answer(MODEL, SSE, waldo__strn(text, cut),
                  "~reasoning Run it.\n~text Running caf\xC3\xA9 \xF0\x9F\x98\x80.\n"
                  "call run_command\n" LOST);
    /* in the middle of the arguments, with neither the block's end nor the message's */
    cut = waldo__str_search(whole, WALDO__S("event: content_block_delta"), len * 7 / 10);
    expect_answer(MODEL, SSE, waldo__strn(text, cut),
                  "~reasoning Run it.\n~text Running caf\xC3\xA9 \xF0\x9F\x98\x80.\n"
                  "call run_command\n" LOST);
    cut = waldo__str_search(whole, WALDO__S("event: content_block_start"), 0);
    waldo__buf_add(&changed, text, cut);
    waldo__buf_puts(&changed, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                              "\"overloaded_error\",\"message\":\"Overloaded\"},\"request_id\":"
                              "\"req_9\"}\n\n");
    expect_answer(MODEL, SSE, waldo__buf_str(&changed),
                  "WALDO_EPROVIDER the model server reported inside its answer: Overloaded\n");
    waldo__buf_free(&changed);
    waldo__free(text);
}

static void texts(void **state)
{
    (void)state;
    expect(EVENTS(START("\"input_tokens\":3"), TEXT_BLOCK(0), TEXT(0, "Hel"), TEXT(0, "lo"),
                  BLOCK_END(0), STOP_USED, DONE, "garbage"),
           "~text Hello\nassistant Hello\nfinish answer usage 3 7 0 0\n");
    /* blank texts are no item; half a character is completed by the next piece */
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "\\n"), TEXT_BLOCK(1), TEXT(1, "a\\ud83d"),
                  TEXT(1, "\\ude00b"), STOP("stop_sequence"), DONE),
           "~text \na\xF0\x9F\x98\x80"
           "b\nassistant a\xF0\x9F\x98\x80"
           "b\nfinish answer\n");
    /* an empty answer after results is one: to ask the same again would not help */
    expect(EVENTS(START(""), STOP("end_turn"), DONE), "finish answer\n");
    /* the text that a block begins with counts; a piece without a beginning begins one */
    expect(EVENTS(BLOCK(0, "{\"type\":\"text\",\"text\":\"so \"}"), TEXT(0, "it is"), TEXT(4, "!"),
                  STOP("end_turn"), DONE),
           "~text so it is!\nassistant so it is\nassistant !\nfinish answer\n");
    /* citations are kept for the provider */
    expect(EVENTS(BLOCK(0, "{\"type\":\"text\",\"text\":\"\",\"citations\":[]}"), TEXT(0, "a"),
                  "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                  "\"citations_delta\",\"citation\":{\"n\": 1.50}}}",
                  "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
                  "\"citations_delta\",\"citation\":{\"n\":2}}}",
                  STOP("end_turn"), DONE),
           "~text a\nassistant a {\"type\":\"text\",\"text\":\"a\",\"citations\":[{\"n\":1.50},{"
           "\"n\":2}]}\nfinish answer\n");
}

static void thinking(void **state)
{
    (void)state;
    /* the last signature counts; quotes in the text survive */
    expect(EVENTS(THINKING_BLOCK(0), THINKING(0, "say \\\"x\\\""), SIGNATURE(0, "one"),
                  SIGNATURE(0, "two=="), TEXT_BLOCK(1), TEXT(1, "x"), STOP("end_turn"), DONE),
           "~reasoning say \"x\"\n~text x\nreasoning say \"x\" {\"type\":\"thinking\","
           "\"thinking\":\"say \\\"x\\\"\",\"signature\":\"two==\"}\nassistant x\nfinish answer\n");
    /* nothing to read, but a signature */
    expect(EVENTS(THINKING_BLOCK(0), SIGNATURE(0, "sig"), TEXT_BLOCK(1), TEXT(1, "x"),
                  STOP("end_turn"), DONE),
           "~text x\nreasoning  {\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"sig\"}\n"
           "assistant x\nfinish answer\n");
    /* what cannot be read at all, and what is not known, is kept as it came, null left out */
    expect(EVENTS(BLOCK(0, "{ \"type\": \"redacted_thinking\", \"data\": \"Em8=\" }"),
                  BLOCK(1, "{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":"
                           "\"web_search\",\"input\":{},\"x\":null}"),
                  ARGS(1, "{\\\"q\\\":1}"), TEXT_BLOCK(2), TEXT(2, "x"), STOP("end_turn"), DONE),
           "~text x\nreasoning  {\"type\":\"redacted_thinking\",\"data\":\"Em8=\"}\n"
           "reasoning  {\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":"
           "\"web_search\",\"input\":{\"q\":1}}\nassistant x\nfinish answer\n");
    /* an empty block is nothing; members that are not known are kept */
    expect(EVENTS(THINKING_BLOCK(0),
                  BLOCK(1, "{\"type\":\"thinking\",\"thinking\":\"hm\",\"n\":[1, 2]}"),
                  STOP("end_turn"), DONE),
           "~reasoning hm\nreasoning hm {\"type\":\"thinking\",\"thinking\":\"hm\",\"n\":[1,2]}\n"
           "finish answer\n");
}

static void calls(void **state)
{
    (void)state;
    /* two calls whose pieces alternate, and ends that come last: llama.cpp's order */
    expect(EVENTS(CALL_BLOCK(0, "a", "f"),
                  BLOCK(1, "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"g\"}"),
                  ARGS(1, "{\\\"y\\\""), ARGS(0, "{\\\"x\\\""), ARGS(1, ":2}"), ARGS(0, ":1}"),
                  BLOCK_END(0), BLOCK_END(1), STOP("tool_use"), DONE),
           "call f\ncall g\ntool_call a f {\"x\":1}\ntool_call b g {\"y\":2}\nfinish calls\n");
    /* no pieces are no arguments; arguments may come whole with the beginning */
    expect(EVENTS(CALL_BLOCK(0, "a", "f"), ARGS(0, ""),
                  BLOCK(1, "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"g\",\"input\":{ \"k\": "
                           "1.50 }}"),
                  STOP("tool_use"), DONE),
           "call f\ncall g\ntool_call a f {}\ntool_call b g {\"k\":1.50}\nfinish calls\n");
    /* eager pieces may come to no JSON at all, and are the model's own text */
    expect(EVENTS(CALL_BLOCK(0, "a", "f"), ARGS(0, "{\\\"x\\\":"), STOP("tool_use"), DONE),
           "call f\ntool_call a f {\"x\":\nfinish calls\n");
    /* the same id twice, or none, gets one that is made, and cannot go back as it came */
    expect(EVENTS(CALL_BLOCK(0, "a", "f"),
                  BLOCK(1, "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"g\",\"caller\":1}"),
                  BLOCK(2, "{\"type\":\"tool_use\",\"name\":\"h\"}"), STOP("tool_use"), DONE),
           "call f\ncall g\ncall h\ntool_call a f {}\ntool_call <made> g {}\ntool_call <made> h "
           "{}\nfinish calls\n");
    /* whatever the reason that is given; blocks that all have one index keep their order */
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "x"), CALL_BLOCK(0, "a", "f"), ARGS(0, "{}"),
                  CALL_BLOCK(0, "b", "g"), ARGS(0, "{}"), STOP("end_turn"), DONE),
           "~text x\ncall f\ncall g\nassistant x\ntool_call a f {}\ntool_call b g {}\n"
           "finish calls\n");
    /* a call without a name is none */
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "x"), CALL_BLOCK(1, "a", ""), STOP("end_turn"), DONE),
           "~text x\nassistant x\nfinish answer\n");
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "x"), STOP("tool_use"), DONE),
           "~text x\nWALDO_EPROVIDER the model server ended its answer without the call it told "
           "of\n");
}

#define CALLED(args) "call f\ntool_call c f " args "\nfinish calls\n"
#define STRAY                                                                                      \
    "warning the server sent something besides the arguments of a tool call; it was left out\n"

/* What users of other libraries met, in the form that it has here. */
static void reported_faults(void **state)
{
    (void)state;
    /* F03: an empty piece first */
    expect(EVENTS(CALL_BLOCK(0, "c", "f"), ARGS(0, ""), ARGS(0, "{\\\"cm"),
                  ARGS(0, "d\\\":\\\"ls\\\"}"), BLOCK_END(0), STOP("tool_use"), DONE),
           CALLED("{\"cmd\":\"ls\"}"));
    /* F04: no arguments in three forms */
    expect(EVENTS(CALL_BLOCK(0, "c", "f"), BLOCK_END(0), STOP("tool_use"), DONE), CALLED("{}"));
    expect(EVENTS(BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\"}"), BLOCK_END(0),
                  STOP("tool_use"), DONE),
           CALLED("{}"));
    expect(EVENTS(BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":null}"),
                  BLOCK_END(0), STOP("tool_use"), DONE),
           CALLED("{}"));
    /* F05: something stray behind whole arguments */
    expect(EVENTS(CALL_BLOCK(0, "c", "f"), ARGS(0, "{}"), ARGS(0, "\\\"\\\""), BLOCK_END(0),
                  STOP("tool_use"), DONE),
           "call f\n" STRAY "tool_call c f {}\nfinish calls\n");
    /* F09: one tool twice */
    expect(EVENTS(CALL_BLOCK(0, "c", "f"), ARGS(0, "{\\\"a\\\":1}"), BLOCK_END(0),
                  CALL_BLOCK(1, "d", "f"), ARGS(1, "{\\\"a\\\":2}"), BLOCK_END(1), STOP("tool_use"),
                  DONE),
           "call f\ncall f\ntool_call c f {\"a\":1}\ntool_call d f {\"a\":2}\nfinish calls\n");
    /* F11: arguments of an answer that is no stream, as text instead of an object */
    expect_answer(MODEL, "application/json",
                  WALDO__S("{\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\","
                           "\"input\":\"\"}],\"stop_reason\":\"tool_use\"}"),
                  CALLED("{}"));
}

static void endings(void **state)
{
    (void)state;
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "and"), STOP("max_tokens"), DONE),
           "~text and\nassistant and\nfinish length\n");
    /* what was cut is not kept as the provider's own, and its arguments stay as they are */
    expect(EVENTS(BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"caller\":{}}"),
                  ARGS(0, "{}"),
                  BLOCK(1, "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"g\",\"caller\":{}}"),
                  ARGS(1, "{\\\"x"), STOP("max_tokens"), DONE),
           "call f\ncall g\ntool_call a f {} {\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\","
           "\"caller\":{},\"input\":{}}\ntool_call b g {\"x\nfinish length\n");
    expect(EVENTS(CALL_BLOCK(0, "a", "f"), STOP("max_tokens"), DONE),
           "call f\ntool_call a f \nfinish length\n");
    expect(EVENTS(BLOCK(0, "{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\"}"),
                  STOP("pause_turn"), DONE),
           "reasoning  {\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\"}\n"
           "finish pause\n");
    expect(EVENTS(CALL_BLOCK(0, "a", "f"), STOP("pause_turn"), DONE),
           "call f\ntool_call a f {}\nfinish calls\n");
    /* of a refusal nothing is kept but why */
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "I"),
                  "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\","
                  "\"stop_details\":{\"type\":\"refusal\",\"category\":\"cyber\",\"explanation\":"
                  "\"Not\\nthat.\"}}}",
                  DONE),
           "~text I\nwarning the model refused (cyber): Not that.\nfinish refusal\n");
    expect(EVENTS(STOP("refusal"), DONE), "warning the model refused\nfinish refusal\n");
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "x"), STOP("model_context_window_exceeded"), DONE),
           "~text x\nWALDO_EOVERFLOW the model's answer was cut by its context window: the "
           "conversation is too long for the model\n");
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "x"), STOP("something_new"), DONE),
           "~text x\nwarning the model stopped for a reason that is not known: something_new\n"
           "assistant x\nfinish answer\n");
    expect(EVENTS(TEXT_BLOCK(0), TEXT(0, "x"), DONE), "~text x\nassistant x\nfinish answer\n");
    expect(EVENTS(DONE), "WALDO_EPROVIDER the model server ended its answer without a message or "
                         "a reason\n");
}

static void usages(void **state)
{
    (void)state;
    /* the prompt is what was read from the cache, written to it, and the rest; totals replace */
    expect(EVENTS(START("\"input_tokens\":10,\"cache_creation_input_tokens\":20,"
                        "\"cache_read_input_tokens\":300,\"output_tokens\":1"),
                  TEXT_BLOCK(0), TEXT(0, "x"), STOP_USED, DONE),
           "~text x\nassistant x\nfinish answer usage 330 7 300 0\n");
    expect(EVENTS(START("\"input_tokens\":10,\"cache_creation_input_tokens\":null"), TEXT_BLOCK(0),
                  TEXT(0, "x"),
                  "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
                  "\"input_tokens\":12,\"cache_read_input_tokens\":5,\"output_tokens\":9,"
                  "\"output_tokens_details\":{\"thinking_tokens\":4}}}",
                  DONE),
           "~text x\nassistant x\nfinish answer usage 17 9 5 4\n");
}

static void failures(void **state)
{
    static const struct {
        const char *type;
        const char *status;
    } cases[] = {
        { "overloaded_error", "WALDO_EPROVIDER" },   { "api_error", "WALDO_EPROVIDER" },
        { "rate_limit_error", "WALDO_ERATE" },       { "timeout_error", "WALDO_ETIMEDOUT" },
        { "invalid_request_error", "WALDO_EINVAL" }, { "request_too_large", "WALDO_EOVERFLOW" },
        { "billing_error", "WALDO_EQUOTA" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__buf event = WALDO__BUF_INIT(1024), expected = WALDO__BUF_INIT(1024);

        waldo__buf_printf(&event,
                          "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":"
                          "\"m\"}}",
                          cases[i].type);
        waldo__buf_printf(&expected, "~text x\n%s the model server reported inside its answer: m%s",
                          cases[i].status,
                          i == 5 ? "; the conversation is too long for the model\n" : "\n");
        expect(EVENTS(TEXT(0, "x"), event.ptr, DONE), expected.ptr);
        waldo__buf_free(&event);
        waldo__buf_free(&expected);
    }
    expect(EVENTS(TEXT(0, "x"), "{\"type\":\"content_bl"),
           "~text x\nWALDO_EPROTO the model server sent what is not JSON (JSON: a string without "
           "its end at byte 8): "
           "{\"type\":\"content_bl\n");
    expect(EVENTS("[]"), "WALDO_EPROTO the model server sent JSON that is not an object\n");
    expect_answer(MODEL, SSE, WALDO__S("data: [DONE]\n\n"), LOST);
    expect_answer(MODEL, SSE, WALDO__S(": keep-alive\n\n: keep-alive\n\n"),
                  "WALDO_ETRUNCATED the model's answer ended before its first event: the server "
                  "has lost it\n");
    expect_answer(MODEL, "text/html", WALDO__S("<html>no</html>"),
                  "WALDO_EPROTO the model server answered with HTML: is the URL that of an API? "
                  "(Content-Type \"text/html\"): no\n");
}

static void whole_messages(void **state)
{
    (void)state;
    expect_answer(
        MODEL, "application/json",
        WALDO__S(
            "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":["
            "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},"
            "{\"type\":\"text\",\"text\":\"x\",\"citations\":null},"
            "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\"a\": 1}}],"
            "\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}"),
        "~reasoning hm\n~text x\ncall f\nreasoning hm {\"type\":\"thinking\",\"thinking\":\"hm\","
        "\"signature\":\"s\"}\nassistant x\ntool_call t f {\"a\":1}\nfinish calls usage 3 4 0 0\n");
    expect_answer(MODEL, "application/json",
                  WALDO__S("{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"
                           "\"it broke\"}}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: it broke\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"detail\":\"odd\"}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: odd\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"content\":["),
                  "WALDO_ETRUNCATED the model's answer ended in the middle of its JSON\n");
}

/* More parts than any answer has end the reading, in bounded memory. */
static void too_many_blocks(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo__buf body = WALDO__BUF_INIT(1 << 20), out = WALDO__BUF_INIT(1 << 20);

    (void)state;
    for (int i = 0; i < 1025; i++) {
        waldo__buf_puts(&body, "data: " TEXT_BLOCK(0) "\n\n");
    }
    read_answer(&options, SSE, waldo__buf_str(&body), (read_cuts){ 0 }, &out);
    assert_string_equal(out.ptr, "WALDO_ETOOBIG the model's answer is too large, or has too many "
                                 "parts\n");
    waldo__buf_free(&body);
    waldo__buf_free(&out);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_at_every_split),
        cmocka_unit_test(example_in_other_dress),
        cmocka_unit_test(example_that_is_cut),
        cmocka_unit_test(texts),
        cmocka_unit_test(thinking),
        cmocka_unit_test(calls),
        cmocka_unit_test(reported_faults),
        cmocka_unit_test(endings),
        cmocka_unit_test(usages),
        cmocka_unit_test(failures),
        cmocka_unit_test(whole_messages),
        cmocka_unit_test(too_many_blocks),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
