#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/model.h"
#include "read.h"

#define MODEL "chat:http://127.0.0.1:1/v1#m"
#define SSE   "text/event-stream"

#define DELTA(json)  "{\"choices\":[{\"index\":0,\"delta\":" json "}]}"
#define FINISH(word) "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" word "\"}]}"
#define DONE         "[DONE]"

#define EVENTS(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* One fragment of a call. */
#define CALL(json) DELTA("{\"tool_calls\":[" json "]}")

#define PARALLEL_OUTCOME                                                                           \
    "call run_command\ncall read_file\n"                                                           \
    "tool_call call_AbC123 run_command {\"cmd\":\"echo h\xC3\xA9\"}\n"                             \
    "tool_call call_DeF456 read_file {\"path\":\"/etc/hosts\"}\n"                                  \
    "finish calls usage 280 41 0 0\n"

static void example_at_every_split(void **state)
{
    size_t len;
    char *text = read_file("standins/chat/parallel.sse", &len);

    (void)state;
    expect_in_any_dress(MODEL, SSE, waldo__strn(text, len), ",\"choices\":", PARALLEL_OUTCOME);
    waldo__free(text);
}

/* [DONE] may be missing; what was cut before it knew its reason is lost. */
static void example_that_is_cut(void **state)
{
    size_t len, cut;
    char *text = read_file("standins/chat/parallel.sse", &len);
    waldo_str whole = waldo__strn(text, len);

    (void)state;
    cut = waldo__str_search(whole, WALDO__S("data: [DONE]"), 0);
    assert_true(cut < len);
    expect_answer(MODEL, SSE, waldo__strn(text, cut), PARALLEL_OUTCOME);
    cut = waldo__str_search(whole, WALDO__S("data: {"), len * 6 / 10);
    expect_answer(MODEL, SSE, waldo__strn(text, cut),
                  "call run_command\ncall read_file\nWALDO_ETRUNCATED the model's answer ended "
                  "without a finish_reason: the server has lost it\n");
    waldo__free(text);
}

static void text_answer(void **state)
{
    (void)state;
    expect_events(EVENTS(DELTA("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}"),
                         DELTA("{\"content\":\"Hel\"}"), DELTA("{\"content\":\"lo\"}"),
                         FINISH("stop"), DONE),
                  "~text Hello\nassistant Hello\nfinish answer\n");
    /* F01: a character cut by the network */
    expect_events(
        EVENTS(DELTA("{\"content\":\"\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80\"}"), FINISH("stop")),
        "~text \xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80\n"
        "assistant \xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80\nfinish answer\n");
    /* the last delta may share its chunk with the reason */
    expect_events(
        EVENTS("{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}"),
        "~text x\nassistant x\nfinish answer\n");
    /* an empty answer is an answer when the server says so */
    expect_events(EVENTS(FINISH("stop"), DONE), "finish answer\n");
    /* chunks that hold nothing for us, and bytes behind the end */
    expect_events(EVENTS("{\"prompt_filter_results\":[]}", "{\"choices\":[]}",
                         "{\"status\":\"processing\"}", "", DELTA("{\"content\":\"x\"}"),
                         "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}}]}",
                         "{\"error\":null,\"choices\":[]}", FINISH("stop"), DONE, "garbage"),
                  "~text x\nassistant x\nfinish answer\n");
}

static void reasoning(void **state)
{
    (void)state;
    expect_events(EVENTS(DELTA("{\"reasoning_content\":\"h\"}"), DELTA("{\"reasoning\":\"m\"}"),
                         DELTA("{\"reasoning_content\":\"!\",\"reasoning\":\"!\"}"),
                         DELTA("{\"content\":\"x\"}"), FINISH("stop")),
                  "~reasoning hm!\n~text x\nreasoning hm!\nassistant x\nfinish answer\n");
    expect_events(
        EVENTS(DELTA("{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\","
                     "\"text\":\"hm\"}]},{\"type\":\"text\",\"text\":\"x\"}]}"),
               FINISH("stop")),
        "~reasoning hm\n~text x\nreasoning hm\nassistant x\nfinish answer\n");
    expect_events(EVENTS(DELTA("{\"content\":\"<think>a</think>b\"}"), FINISH("stop")),
                  "~text <think>a</think>b\nassistant <think>a</think>b\nfinish answer\n");
}

static void finish_reasons(void **state)
{
    static const char *const call = CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                                         "\"arguments\":\"{}\"}}");

    (void)state;
    expect_events(EVENTS(call, FINISH("function_call")),
                  "call f\ntool_call c f {}\nfinish calls\n");
    expect_events(EVENTS(call, FINISH("stop")), "call f\ntool_call c f {}\nfinish calls\n");
    expect_events(EVENTS(call, FINISH("eos_token")), "call f\ntool_call c f {}\nfinish calls\n");
    expect_events(EVENTS(DELTA("{\"content\":\"x\"}"), FINISH("length")),
                  "~text x\nassistant x\nfinish length\n");
    expect_events(EVENTS(DELTA("{\"content\":\"x\"}"), FINISH("model_length")),
                  "~text x\nassistant x\nfinish length\n");
    expect_events(EVENTS(DELTA("{\"content\":\"x\"}"), FINISH("content_filter")),
                  "~text x\nassistant x\nfinish filter\n");
    expect_events(
        EVENTS(DELTA("{\"refusal\":\"I \"}"), DELTA("{\"refusal\":\"won't\"}"), FINISH("stop")),
        "~text I won't\nassistant I won't\nfinish refusal\n");
    expect_events(
        EVENTS(DELTA("{\"refusal\":false,\"role\":\"\",\"content\":\"x\"}"), FINISH("stop")),
        "~text x\nassistant x\nfinish answer\n");
    /* a prompt that fills the window, which some servers do not say */
    expect_events(
        EVENTS(FINISH("length"), "{\"choices\":[],\"usage\":{\"prompt_tokens\":8192,"
                                 "\"completion_tokens\":0}}"),
        "WALDO_EOVERFLOW the prompt fills the context window: the model could not answer\n");
    expect_events(EVENTS(FINISH("tool_calls")),
                  "WALDO_EPROVIDER the model server ended with finish_reason \"tool_calls\" and "
                  "sent nothing\n");
    expect_events(EVENTS(FINISH("mystery")),
                  "WALDO_EPROVIDER the model server ended with finish_reason \"mystery\" and "
                  "sent nothing\n");
    expect_events(EVENTS(FINISH("error")),
                  "WALDO_EPROVIDER the model server gave up: finish_reason \"error\"\n");
}

static void broken_answers(void **state)
{
    static const char *const cut = DELTA("{\"content\":\"cut\"}");
    static const char no_reason[] =
        "~text cut\nWALDO_ETRUNCATED the model's answer ended without a "
        "finish_reason: the server has lost it\n";

    (void)state;
    expect_in_any_dress(MODEL, SSE, WALDO__S("data: " DELTA("{\"content\":\"cut\"}") "\n\n"), NULL,
                        no_reason);
    expect_events(EVENTS(cut), no_reason);                              /* q8 */
    expect_events(EVENTS(cut, DELTA("{\"content\":\"\"}")), no_reason); /* Ollama's lost error */
    expect_events(EVENTS(cut, DONE), no_reason);
    expect_events_in_any_dress(
        EVENTS(cut, "{\"error\":{\"message\":\"x\",\"code\":500}}"), /* q9 */
        "~text cut\nWALDO_EPROVIDER the model server reported inside its answer: x\n");
    expect_events(EVENTS(cut, FINISH("stop"), "{\"error\":\"too bad\"}"),
                  "~text cut\nWALDO_EPROVIDER the model server reported inside its answer: "
                  "too bad\n");
    expect_events(EVENTS("{\"object\":\"error\",\"message\":\"m\",\"code\":\"1\"}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: m\n");
    expect_events(EVENTS(cut, "{\"choices\":[{\"index\":0,\"delta\":{\"conte"),
                  "~text cut\nWALDO_EPROTO the model server sent what is not JSON (JSON: a string "
                  "without its end at byte 32): {\"choices\":[{\"index\":0,\"delta\":{\"conte\n");
    expect_events(EVENTS("7"), "WALDO_EPROTO the model server sent JSON that is not an object\n");
    expect_answer(MODEL, SSE, WALDO__S("event: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n"),
                  "WALDO_EPROVIDER the model server reported inside its answer: x\n");
    expect_answer(MODEL, SSE, WALDO__S("event: error\ndata: sorry\n\n"),
                  "WALDO_EPROVIDER the model server reported inside its answer: sorry\n");
    /* q10 */
    expect_answer(MODEL, SSE, WALDO__S(""),
                  "WALDO_ETRUNCATED the model server answered with an empty body\n");
    expect_answer(MODEL, SSE, WALDO__S("\n\n"),
                  "WALDO_ETRUNCATED the model server answered with an empty body\n");
    expect_answer(MODEL, SSE, WALDO__S(": OPENROUTER PROCESSING\n\n"),
                  "WALDO_ETRUNCATED the model's answer ended before its first event: the server "
                  "has lost it\n");
    expect_answer(MODEL, SSE, WALDO__S("error: {\"message\":\"x\"}\n\n"),
                  "WALDO_EPROTO the model server answered with neither events nor JSON "
                  "(Content-Type \"text/event-stream\"): error: {\"message\":\"x\"}\n");
    expect_answer(MODEL, "text/html",
                  WALDO__S("\n<html><head><title>502 Bad</title></head><p>n\n</html>"),
                  "WALDO_EPROTO the model server answered with HTML: is the URL that of an API? "
                  "(Content-Type \"text/html\"): 502 Bad n\n");
    /* an overflow or a rate limit inside a stream is what it is */
    expect_events(
        EVENTS("{\"error\":{\"message\":\"request (9 tokens) exceeds the available context "
               "size (8 tokens)\",\"code\":400}}"),
        "WALDO_EOVERFLOW the model server reported inside its answer: request (9 tokens) "
        "exceeds the available context size (8 tokens); the conversation is too long "
        "for the model\n");
    expect_events(EVENTS("{\"error\":{\"message\":\"Rate limit reached\"}}"),
                  "WALDO_ERATE the model server reported inside its answer: Rate limit reached\n");
}

static void usage_forms(void **state)
{
    (void)state;
    expect_events(EVENTS(FINISH("stop"), "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
                                         "\"completion_tokens\":4}}"),
                  "finish answer usage 3 4 -1 -1\n");
    expect_events(EVENTS("{\"choices\":[],\"usage\":null}", FINISH("stop"),
                         "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,"
                         "\"prompt_tokens_details\":{\"cached_tokens\":1},"
                         "\"completion_tokens_details\":{\"reasoning_tokens\":2}}}"),
                  "finish answer usage 3 4 1 2\n");
    /* Groq */
    expect_events(EVENTS("{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":"
                         "{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}}"),
                  "finish answer usage 3 4 -1 -1\n");
    /* DeepSeek */
    expect_events(EVENTS(FINISH("stop"),
                         "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,"
                         "\"prompt_cache_hit_tokens\":2,\"prompt_cache_miss_tokens\":1}}"),
                  "finish answer usage 3 4 2 -1\n");
    expect_events(EVENTS(FINISH("stop"), "{\"usage\":{\"prompt_tokens\":\"x\","
                                         "\"completion_tokens\":null}}"),
                  "finish answer\n");
}

static void halves_of_characters(void **state)
{
    (void)state;
    /* F43: a pair cut between two deltas, alone, in the middle, in the wrong order */
    expect_events(EVENTS(DELTA("{\"content\":\"a\\ud83d\"}"), DELTA("{\"content\":\"\\ude00b\"}"),
                         FINISH("stop")),
                  "~text a\xF0\x9F\x98\x80"
                  "b\nassistant a\xF0\x9F\x98\x80"
                  "b\nfinish answer\n");
    expect_events(EVENTS(DELTA("{\"content\":\"\\uD83D\"}"), DELTA("{\"content\":\"\\uDE00\"}"),
                         FINISH("stop")),
                  "~text \xF0\x9F\x98\x80\nassistant \xF0\x9F\x98\x80\nfinish answer\n");
    expect_events(EVENTS(DELTA("{\"content\":\"a\\ud83db\"}"), FINISH("stop")),
                  "~text a\xEF\xBF\xBD"
                  "b\nassistant a\xEF\xBF\xBD"
                  "b\nfinish answer\n");
    expect_events(EVENTS(DELTA("{\"content\":\"\\ude00\\ud83d\"}"), DELTA("{\"content\":\"x\"}"),
                         FINISH("stop")),
                  "~text \xEF\xBF\xBD\xEF\xBF\xBDx\nassistant \xEF\xBF\xBD\xEF\xBF\xBDx\n"
                  "finish answer\n");
    expect_events(EVENTS(DELTA("{\"content\":\"\\ud83d\\ud83d\"}"),
                         DELTA("{\"content\":\"\\ude00\"}"), FINISH("stop")),
                  "~text \xEF\xBF\xBD\xF0\x9F\x98\x80\nassistant \xEF\xBF\xBD\xF0\x9F\x98\x80\n"
                  "finish answer\n");
    /* whole pairs, other escapes and escaped backslashes stay */
    expect_events(
        EVENTS(DELTA("{\"content\":\"\\ud83d\\ude00\\u00e9\\\\ud83d\\n\"}"), FINISH("stop")),
        "~text \xF0\x9F\x98\x80\xC3\xA9\\ud83d\n\nassistant \xF0\x9F\x98\x80\xC3\xA9"
        "\\ud83d\n\nfinish answer\n");
    expect_events(EVENTS(DELTA("{\"content\":\"a\\u0000b\"}"), FINISH("stop")),
                  "~text a\xEF\xBF\xBD"
                  "b\nassistant a\xEF\xBF\xBD"
                  "b\nfinish answer\n");
    /* bytes that are not UTF-8 */
    expect_events(EVENTS(DELTA("{\"content\":\"a\xFF"
                               "b\"}"),
                         FINISH("stop")),
                  "~text a\xEF\xBF\xBD"
                  "b\nassistant a\xEF\xBF\xBD"
                  "b\nfinish answer\n");
    expect_events(
        EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":"
                    "\"{\\\"a\\\":\\\"\\ud83d\\\"}\"}}"),
               FINISH("tool_calls")),
        "call f\ntool_call c f {\"a\":\"\xEF\xBF\xBD\"}\nfinish calls\n");
}

/* At the very end there is no next piece to bring the other half: the item has U+FFFD. */
static void half_a_character_at_the_end(void **state)
{
    (void)state;
    expect_events(EVENTS(DELTA("{\"content\":\"a\\ud83d\"}"), FINISH("stop")),
                  "~text a\nassistant a\xEF\xBF\xBD\nfinish answer\n");
}

static void whole_answers(void **state)
{
    (void)state;
    expect_answer(MODEL, "application/json",
                  WALDO__S(" {\"id\":\"c1\",\"choices\":[{\"index\":0,\"finish_reason\":\"stop\","
                           "\"message\":{\"role\":\"assistant\",\"content\":\"hi\"}}],\"usage\":"
                           "{\"prompt_tokens\":1,\"completion_tokens\":2}}\n"),
                  "~text hi\nassistant hi\nfinish answer usage 1 2 -1 -1\n");
    /* the first byte counts, not what the header says */
    expect_answer(
        MODEL, SSE,
        WALDO__S("{\"choices\":[{\"finish_reason\":\"tool_calls\",\"message\":{\"content\":"
                 "null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":"
                 "{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}},{\"id\":\"b\",\"type\":"
                 "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":2}}}]}}]}"),
        "call f\ncall f\ntool_call a f {\"x\":1}\ntool_call b f {\"x\":2}\n"
        "finish calls\n");
    /* F11, and the same id twice with arguments that are cut */
    expect_answer(
        MODEL, "application/json",
        WALDO__S("{\"choices\":[{\"finish_reason\":\"tool_calls\",\"message\":{\"content\":"
                 "null,\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"\"}},{\"id\":\"a\",\"function\":{\"name\":\"g\","
                 "\"arguments\":\"{\\\"cmd\\\":\\\"l\"}},{\"id\":\"c\",\"function\":"
                 "{\"name\":\"h\"}}]}}]}"),
        "call f\ncall g\ncall h\ntool_call a f {}\n"
        "tool_call <made> g {\"cmd\":\"l\ntool_call c h {}\nfinish calls\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"error\":{\"message\":\"no\"}}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: no\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"detail\":\"Not Found\"}"),
                  "WALDO_EPROVIDER the model server reported inside its answer: Not Found\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"choices\":[{\"message\":{"),
                  "WALDO_ETRUNCATED the model's answer ended in the middle of its JSON\n");
    expect_answer(MODEL, "application/json", WALDO__S("{\"choices\":[]}"),
                  "WALDO_ETRUNCATED the model's answer ended without a finish_reason: the server "
                  "has lost it\n");
    expect_answer(MODEL, "application/json", WALDO__S("[1]"),
                  "WALDO_EPROTO the model server sent JSON that is not an object\n");
}

/* Of a page of any size the beginning is quoted. */
static void large_page(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo__buf body = WALDO__BUF_INIT(1 << 20), out = WALDO__BUF_INIT(1 << 20);

    (void)state;
    waldo__buf_puts(&body, "<html><title>Not here</title>");
    for (int i = 0; i < 10000; i++) {
        waldo__buf_puts(&body, "<p>text</p>");
    }
    read_answer(&options, "text/html", waldo__buf_str(&body), (read_cuts){ 0 }, &out);
    assert_true(waldo__str_search(waldo__buf_str(&out), WALDO__S("Not here text text"), 0) <
                out.len);
    assert_true(out.len < 500);
    waldo__buf_free(&body);
    waldo__buf_free(&out);
}

/* A sink that has had enough. */
static waldo_status refuse_delta(void *userdata, waldo_delta_kind kind, waldo_str text)
{
    (void)kind;
    (void)text;
    ++*(int *)userdata;
    return WALDO_EUSER;
}

static void failures_stick(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo_str event = WALDO__S("data: " DELTA("{\"content\":\"x\"}") "\n\n");
    waldo_response response = { 0 };
    waldo_reader *reader;
    waldo_error *error = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(waldo__chat_ops.new_reader(&options, waldo__str(SSE), &reader), WALDO_OK);
    assert_int_equal(waldo__chat_ops.feed(reader, event, refuse_delta, &calls, &error),
                     WALDO_EUSER);
    assert_int_equal(waldo_error_status(error), WALDO_EUSER);
    waldo_error_free(error);
    assert_int_equal(waldo__chat_ops.feed(reader, event, refuse_delta, &calls, NULL), WALDO_EUSER);
    assert_int_equal(calls, 1);
    assert_int_equal(waldo__chat_ops.finish(reader, &response, NULL), WALDO_EUSER);
    assert_int_equal(response.size, 0);
    waldo__chat_ops.free_reader(reader);
    waldo__chat_ops.free_reader(NULL);
}

static void complete_and_finish_twice(void **state)
{
    waldo_model_options options = { .size = sizeof options, .model = MODEL };
    waldo_response response = { 0 };
    waldo_reader *reader;

    (void)state;
    assert_int_equal(waldo__chat_ops.new_reader(&options, waldo__str(SSE), &reader), WALDO_OK);
    assert_int_equal(waldo__chat_ops.feed(reader,
                                          WALDO__S("data: {\"id\":\"chatcmpl-7\",\"choices\":[{"
                                                   "\"delta\":{\"content\":\"x\"},"
                                                   "\"finish_reason\":\"stop\"}]}\n\n"),
                                          NULL, NULL, NULL),
                     WALDO_OK);
    assert_false(waldo__chat_ops.complete(reader)); /* usage may follow */
    assert_int_equal(waldo__chat_ops.feed(reader, WALDO__S("data: [DONE]\n\n"), NULL, NULL, NULL),
                     WALDO_OK);
    assert_true(waldo__chat_ops.complete(reader));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waldo__chat_ops.finish(reader, &response, NULL), WALDO_OK);
        assert_int_equal(response.item_count, 1);
        assert_true(waldo__str_is(response.items[0].text, "x"));
        assert_true(waldo__str_is(response.items[0].vendor, "chat:generic/m"));
        assert_true(waldo__str_is(response.request_id, "chatcmpl-7"));
    }
    waldo__chat_ops.free_reader(reader);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_at_every_split),
        cmocka_unit_test(example_that_is_cut),
        cmocka_unit_test(text_answer),
        cmocka_unit_test(reasoning),
        cmocka_unit_test(finish_reasons),
        cmocka_unit_test(broken_answers),
        cmocka_unit_test(usage_forms),
        cmocka_unit_test(halves_of_characters),
        cmocka_unit_test(half_a_character_at_the_end),
        cmocka_unit_test(whole_answers),
        cmocka_unit_test(large_page),
        cmocka_unit_test(failures_stick),
        cmocka_unit_test(complete_and_finish_twice),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
