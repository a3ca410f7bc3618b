#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/chat.h"
#include "read.h"

#define EVENTS(...)                                                                                \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* One or more fragments in one chunk, in the short form of the quirks q1 to q11. */
#define CALL(json)   "{\"choices\":[{\"delta\":{\"tool_calls\":[" json "]}}]}"
#define FINISH(word) "{\"choices\":[{\"delta\":{},\"finish_reason\":\"" word "\"}]}"
#define ENDED        FINISH("tool_calls")

#define RUN_ARGS  "{\\\"cmd\\\":\\\"ls\\\"}"
#define READ_ARGS "{\\\"path\\\":\\\"x\\\"}"
#define TWO                                                                                        \
    "call run_command\ncall read_file\ntool_call a1 run_command {\"cmd\":\"ls\"}\n"                \
    "tool_call a2 read_file {\"path\":\"x\"}\nfinish calls\n"

#define RUN_WHOLE(id, index)                                                                       \
    "{" index "\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"run_command\","    \
    "\"arguments\":\"" RUN_ARGS "\"}}"
#define READ_WHOLE(id, index)                                                                      \
    "{" index "\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"read_file\","      \
    "\"arguments\":\"" READ_ARGS "\"}}"

static void numbered_quirks(void **state)
{
    (void)state;
    /* q1: no index */
    expect_events_in_any_dress(EVENTS(CALL(RUN_WHOLE("a1", "")), CALL(READ_WHOLE("a2", "")), ENDED),
                               TWO);
    /* q2: index 0 twice */
    expect_events_in_any_dress(EVENTS(CALL(RUN_WHOLE("a1", "\"index\":0,")),
                                      CALL(READ_WHOLE("a2", "\"index\":0,")), ENDED),
                               TWO);
    /* q3: the name and the first brace in one fragment */
    expect_events_in_any_dress(
        EVENTS(CALL("{\"index\":0,\"id\":\"a1\",\"type\":\"function\",\"function\":"
                    "{\"name\":\"run_command\",\"arguments\":\"{\"}}"),
               CALL("{\"index\":0,\"function\":{\"arguments\":"
                    "\"\\\"cmd\\\":\\\"ls\\\"}\"}}"),
               CALL("{\"index\":1,\"id\":\"a2\",\"function\":{\"name\":\"read_file\","
                    "\"arguments\":\"{\"}}"),
               CALL("{\"index\":1,\"function\":{\"arguments\":"
                    "\"\\\"path\\\":\\\"x\\\"}\"}}"),
               ENDED),
        TWO);
    /* q4: name and id in every fragment */
    expect_events_in_any_dress(
        EVENTS(CALL("{\"index\":0,\"id\":\"a1\",\"function\":{\"name\":\"run_command\","
                    "\"arguments\":\"\"}}"),
               CALL("{\"index\":0,\"id\":\"a1\",\"function\":{\"name\":\"run_command\","
                    "\"arguments\":\"{\\\"cmd\\\":\"}}"),
               CALL("{\"index\":0,\"id\":\"a1\",\"function\":{\"name\":\"run_command\","
                    "\"arguments\":\"\\\"ls\\\"}\"}}"),
               CALL(READ_WHOLE("a2", "\"index\":1,")), ENDED),
        TWO);
    /* q5: blank ids and names in continuations */
    expect_events_in_any_dress(
        EVENTS(CALL("{\"index\":0,\"id\":\"a1\",\"function\":{\"name\":\"run_command\","
                    "\"arguments\":\"\"}}"),
               CALL("{\"index\":0,\"id\":\"\",\"function\":{\"name\":\"\","
                    "\"arguments\":\"{\\\"cmd\\\":\"}}"),
               CALL("{\"index\":0,\"id\":\" \",\"function\":{\"name\":null,"
                    "\"arguments\":\"\\\"ls\\\"}\"}}"),
               CALL(READ_WHOLE("a2", "\"index\":1,")), ENDED),
        TWO);
    /* q6: arguments first */
    expect_events_in_any_dress(
        EVENTS(CALL("{\"index\":0,\"id\":\"a1\",\"function\":{\"arguments\":"
                    "\"{\\\"cmd\\\"\"}}"),
               CALL("{\"index\":0,\"function\":{\"name\":\"run_command\","
                    "\"arguments\":\":\\\"ls\\\"}\"}}"),
               CALL("{\"id\":\"a2\",\"function\":{\"arguments\":\"{\\\"path\\\"\"}}"),
               CALL("{\"id\":\"a2\",\"function\":{\"arguments\":\":\"}}"),
               CALL("{\"id\":\"a2\",\"function\":{\"name\":\"read_file\","
                    "\"arguments\":\"\\\"x\\\"}\"}}"),
               ENDED),
        TWO);
    /* q7: the server says stop */
    expect_events_in_any_dress(
        EVENTS(CALL(RUN_WHOLE("a1", "")), CALL(READ_WHOLE("a2", "")), FINISH("stop")), TWO);
    /* q11: one id for two calls */
    expect_events_in_any_dress(
        EVENTS(CALL(RUN_WHOLE("a1", "\"index\":0,")), CALL(READ_WHOLE("a1", "\"index\":1,")),
               ENDED),
        "call run_command\ncall read_file\ntool_call a1 run_command {\"cmd\":\"ls\"}\n"
        "tool_call <made> read_file {\"path\":\"x\"}\nfinish calls\n");
    expect_events_in_any_dress(
        EVENTS(CALL(RUN_WHOLE("a1", "")), CALL(READ_WHOLE("a1", "")), ENDED),
        "call run_command\ncall read_file\ntool_call a1 run_command {\"cmd\":\"ls\"}\n"
        "tool_call <made> read_file {\"path\":\"x\"}\nfinish calls\n");
}

static void forms_of_servers(void **state)
{
    (void)state;
    /* Gemini: both in one array, without index, with something that must go back */
    expect_events(
        EVENTS(CALL("{\"id\":\"a1\",\"type\":\"function\",\"function\":{\"name\":\"run_command\","
                    "\"arguments\":\"" RUN_ARGS "\"},\"extra_content\":{\"google\":"
                    "{\"thought_signature\":\"s/1=\"}}}," READ_WHOLE("a2", "")),
               FINISH("stop")),
        "call run_command\ncall read_file\ntool_call a1 run_command {\"cmd\":\"ls\"} "
        "{\"extra_content\":{\"google\":{\"thought_signature\":\"s/1=\"}}}\n"
        "tool_call a2 read_file {\"path\":\"x\"}\nfinish calls\n");
    /* Gemini and some templates: empty ids */
    expect_events(EVENTS(CALL(RUN_WHOLE("", "")), CALL(READ_WHOLE("", "")), ENDED),
                  "call run_command\ncall read_file\ntool_call <made> run_command "
                  "{\"cmd\":\"ls\"}\ntool_call <made> read_file {\"path\":\"x\"}\nfinish calls\n");
    /* neither ids nor indexes, in fragments */
    expect_events(EVENTS(CALL("{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}"),
                         CALL("{\"function\":{\"arguments\":\"}\"}}"),
                         CALL("{\"function\":{\"name\":\"g\",\"arguments\":\"\"}}"),
                         CALL("{\"function\":{\"arguments\":\"{}\"}}"), ENDED),
                  "call f\ncall g\ntool_call <made> f {}\ntool_call <made> g {}\nfinish calls\n");
    /* the same tool twice with index 0 and no id */
    expect_events(EVENTS(CALL("{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":"
                              "\"{\\\"a\\\":1}\"}}"),
                         CALL("{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":"
                              "\"{\\\"a\\\":2}\"}}"),
                         ENDED),
                  "call f\ncall f\ntool_call <made> f {\"a\":1}\ntool_call <made> f {\"a\":2}\n"
                  "finish calls\n");
    /* an id that changes in a continuation */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{\"}}"),
                         CALL("{\"index\":0,\"id\":\"b\",\"function\":{\"arguments\":\"}\"}}"),
                         ENDED),
                  "call f\ntool_call a f {}\nfinish calls\n");
    /* a gateway: arguments as an object */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
                              "\"arguments\":{\"x\":[1,\"\xC3\xA9\"]}}}"),
                         ENDED),
                  "call f\ntool_call a f {\"x\":[1,\"\xC3\xA9\"]}\nfinish calls\n");
    /* indexes out of order */
    expect_events(EVENTS(CALL(READ_WHOLE("a2", "\"index\":1,")),
                         CALL(RUN_WHOLE("a1", "\"index\":0,")), ENDED),
                  "call read_file\ncall run_command\ntool_call a1 run_command {\"cmd\":\"ls\"}\n"
                  "tool_call a2 read_file {\"path\":\"x\"}\nfinish calls\n");
    /* fragments of two calls in turn */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}},"
                              "{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\"}}"),
                         CALL("{\"index\":1,\"function\":{\"arguments\":\"{\\\"g\\\":\"}}"),
                         CALL("{\"index\":0,\"function\":{\"arguments\":\"{\\\"f\\\":\"}}"),
                         CALL("{\"index\":1,\"function\":{\"arguments\":\"1}\"}},"
                              "{\"index\":0,\"function\":{\"arguments\":\"2}\"}}"),
                         ENDED),
                  "call f\ncall g\ntool_call a f {\"f\":2}\ntool_call b g {\"g\":1}\n"
                  "finish calls\n");
    /* the form before there were tools */
    expect_events(EVENTS("{\"choices\":[{\"delta\":{\"function_call\":{\"name\":\"f\","
                         "\"arguments\":\"{\"}}}]}",
                         "{\"choices\":[{\"delta\":{\"function_call\":{\"arguments\":\"}\"}}}]}",
                         FINISH("function_call")),
                  "call f\ntool_call <made> f {}\nfinish calls\n");
    /* reasoning, text and a call in one answer */
    expect_events(EVENTS("{\"choices\":[{\"delta\":{\"reasoning\":\"r\",\"content\":\"t\"}}]}",
                         CALL(RUN_WHOLE("a1", "")), ENDED),
                  "~reasoning r\n~text t\ncall run_command\nreasoning r\nassistant t\n"
                  "tool_call a1 run_command {\"cmd\":\"ls\"}\nfinish calls\n");
}

/* Mistral takes no id but 9 letters and digits, so one that is made looks like that. */
static void ids_for_mistral(void **state)
{
    waldo_model_options options = { .size = sizeof options,
                                    .model = "chat:https://api.mistral.ai/v1#mistral-large" };
    waldo_str body = WALDO__S("data: " CALL(RUN_WHOLE("", "")) "\n\ndata: " ENDED "\n\n");
    waldo__buf out = WALDO__BUF_INIT(4096);
    size_t at;

    (void)state;
    read_answer(&options, "text/event-stream", body, (read_cuts){ 0 }, &out);
    at = waldo__str_search(waldo__buf_str(&out), WALDO__S("tool_call "), 0) + 10;
    assert_true(at + 10 < out.len);
    for (size_t i = 0; i < 9; i++) {
        char byte = out.ptr[at + i];

        assert_true((byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z'));
    }
    assert_int_equal(out.ptr[at + 9], ' ');
    waldo__buf_free(&out);
}

static void reported_faults(void **state)
{
    (void)state;
    /* F03: empty arguments first */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"\"}}"),
                         CALL("{\"index\":0,\"function\":{\"arguments\":\"{\\\"cm\"}}"),
                         CALL("{\"index\":0,\"function\":{\"arguments\":\"d\\\":\\\"ls\\\"}\"}}"),
                         ENDED),
                  "call f\ntool_call c f {\"cmd\":\"ls\"}\nfinish calls\n");
    /* F04: no arguments in three forms */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\"}}"), ENDED),
                  "call f\ntool_call c f {}\nfinish calls\n");
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                              "\"arguments\":null}}"),
                         ENDED),
                  "call f\ntool_call c f {}\nfinish calls\n");
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"\"}}"),
                         ENDED),
                  "call f\ntool_call c f {}\nfinish calls\n");
    /* F05: something stray behind whole arguments */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{}\"}}"),
                         CALL("{\"index\":0,\"function\":{\"arguments\":\"\\\"\\\"\"}}"), ENDED),
                  "call f\nwarning the server sent something besides the arguments of a tool "
                  "call; it was left out\ntool_call c f {}\nfinish calls\n");
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{\\\"a\\\":1} null \"}}"),
                         ENDED),
                  "call f\nwarning the server sent something besides the arguments of a tool "
                  "call; it was left out\ntool_call c f {\"a\":1}\nfinish calls\n");
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{}{}\"}}"),
                         ENDED),
                  "call f\ntool_call c f {}{}\nfinish calls\n");
    /* F06: the head of the second call has the index of the first */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\","
                              "\"arguments\":\"{\\\"k\\\":\"}}"),
                         CALL("{\"index\":0,\"function\":{\"arguments\":\"1}\"}}"),
                         CALL("{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"y\","
                              "\"arguments\":\"\"}}"),
                         CALL("{\"index\":1,\"function\":{\"arguments\":\"{\\\"k\\\"\"}}"),
                         CALL("{\"index\":1,\"function\":{\"arguments\":\":2}\"}}"), ENDED),
                  "call x\ncall y\ntool_call a x {\"k\":1}\ntool_call b y {\"k\":2}\n"
                  "finish calls\n");
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\","
                              "\"arguments\":\"{\\\"k\\\":1}\"}}"),
                         CALL("{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"y\","
                              "\"arguments\":\"\\\"\\\"\"}}"),
                         CALL("{\"index\":1,\"function\":{\"arguments\":\"{\\\"k\\\":2}\"}}"),
                         ENDED),
                  "call x\ncall y\ntool_call a x {\"k\":1}\ntool_call b y {\"k\":2}\n"
                  "finish calls\n");
    /* F07: an empty id never opens a call */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"\"}}"),
                         CALL("{\"index\":0,\"id\":\"\",\"function\":{\"arguments\":"
                              "\"{\\\"a\\\":1}\"}}"),
                         ENDED),
                  "call f\ntool_call c1 f {\"a\":1}\nfinish calls\n");
    /* F09: one tool twice */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{\\\"a\\\":1}\"}}"),
                         CALL("{\"index\":1,\"id\":\"c2\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{\\\"a\\\":2}\"}}"),
                         ENDED),
                  "call f\ncall f\ntool_call c1 f {\"a\":1}\ntool_call c2 f {\"a\":2}\n"
                  "finish calls\n");
}

#define FRAGMENT(head, args) CALL("{" head "\"function\":{\"arguments\":\"" args "\"}}")
#define NAMED(head, name)    CALL("{" head "\"function\":{\"name\":\"" name "\"}}")

static void ambiguous_fragments(void **state)
{
    (void)state;
    /* one tool twice, one index, two ids */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{\\\"a\\\":1}\"}}"),
                         CALL("{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{\\\"a\\\":2}\"}}"),
                         ENDED),
                  "call f\ncall f\ntool_call a f {\"a\":1}\ntool_call b f {\"a\":2}\n"
                  "finish calls\n");
    /* a known id with the index of no call of that id */
    expect_events(EVENTS(NAMED("\"index\":0,\"id\":\"a\",", "f"),
                         FRAGMENT("\"index\":1,\"id\":\"a\",", "lost"),
                         FRAGMENT("\"index\":0,", "{}"), ENDED),
                  "call f\ntool_call a f {}\nfinish calls\n");
    /* neither id nor index nor name: nowhere, or to the one call that is open */
    expect_events(EVENTS(FRAGMENT("", "lost"), NAMED("\"id\":\"a\",", "f"),
                         NAMED("\"id\":\"b\",", "g"), FRAGMENT("", "lost"),
                         FRAGMENT("\"id\":\"a\",", "{}"), FRAGMENT("", "{\\\"b\\\":1}"), ENDED),
                  "call f\ncall g\ntool_call a f {}\ntool_call b g {\"b\":1}\nfinish calls\n");
    /* an index that only the continuations of a call have stays with it */
    expect_events(EVENTS(NAMED("\"index\":0,\"id\":\"a\",", "f"),
                         FRAGMENT("\"index\":1,", "{\\\"k\\\":"),
                         NAMED("\"index\":2,\"id\":\"b\",", "g"), FRAGMENT("\"index\":1,", "1}"),
                         FRAGMENT("\"index\":2,", "{}"), ENDED),
                  "call f\ncall g\ntool_call a f {\"k\":1}\ntool_call b g {}\nfinish calls\n");
    /* a stand-in for no arguments, then arguments, then another */
    expect_events(EVENTS(NAMED("\"index\":0,\"id\":\"a\",", "f"),
                         FRAGMENT("\"index\":0,", "\\\"\\\""),
                         FRAGMENT("\"index\":0,", "{\\\"k\\\""), FRAGMENT("\"index\":0,", ":1}"),
                         FRAGMENT("\"index\":0,", "null"), ENDED),
                  "call f\nwarning the server sent something besides the arguments of a tool "
                  "call; it was left out\ntool_call a f {\"k\":1}\nfinish calls\n");
}

/* F10: what was cut stays as it came, so that nobody runs it and nothing is lost. */
static void cut_calls(void **state)
{
    static const char *const head = CALL("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\","
                                         "\"arguments\":\"{\\\"path\\\": \\\"hel\"}}");

    (void)state;
    expect_events(EVENTS(head, FINISH("length")),
                  "call f\ntool_call c f {\"path\": \"hel\nfinish length\n");
    expect_events(EVENTS(head, FINISH("tool_calls")),
                  "call f\ntool_call c f {\"path\": \"hel\nfinish calls\n");
    /* cut before the arguments began: not the same as a call without any */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}}"),
                         CALL("{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\"}}"),
                         FINISH("length")),
                  "call f\ncall g\ntool_call a f {}\ntool_call b g \nfinish length\n");
    expect_events(EVENTS(NAMED("\"index\":0,\"id\":\"a\",", "f"), FINISH("content_filter")),
                  "call f\ntool_call a f \nfinish filter\n");
    /* a name that never came */
    expect_events(EVENTS(CALL("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
                              "\"arguments\":\"{}\"}}"),
                         CALL("{\"index\":1,\"id\":\"b\",\"function\":{\"arguments\":\"{}\"}}"),
                         ENDED),
                  "call f\nwarning the server sent something besides the arguments of a tool "
                  "call; it was left out\ntool_call a f {}\nfinish calls\n");
}

static void limits(void **state)
{
    waldo__chat_calls calls = { 0 };
    waldo__chat_call *call;
    waldo_status status = WALDO_OK;
    char *block = waldo__zalloc(1 << 20);
    size_t added = 0;
    int is_new;

    (void)state;
    assert_non_null(block);
    memset(block, 'x', 1 << 20);
    /* one call's arguments */
    while (status == WALDO_OK && added < 64) {
        waldo__chat_fragment fragment = { .index = 0,
                                          .name = WALDO__S("f"),
                                          .args = waldo__strn(block, 1 << 20) };

        status = waldo__chat_calls_add(&calls, &fragment, &call, &is_new);
        added++;
    }
    assert_int_equal(status, WALDO_ETOOBIG);
    assert_int_equal(added, 17);
    waldo__chat_calls_free(&calls);
    /* the number of calls */
    status = WALDO_OK;
    for (added = 0; status == WALDO_OK && added < 10000; added++) {
        waldo__chat_fragment fragment = { .index = (int64_t)added, .name = WALDO__S("f") };

        status = waldo__chat_calls_add(&calls, &fragment, &call, &is_new);
    }
    assert_int_equal(status, WALDO_ETOOBIG);
    assert_int_equal(added, 1025);
    waldo__chat_calls_free(&calls);
    waldo__free(block);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbered_quirks),
        cmocka_unit_test(forms_of_servers),
        cmocka_unit_test(ids_for_mistral),
        cmocka_unit_test(reported_faults),
        cmocka_unit_test(ambiguous_fragments),
        cmocka_unit_test(cut_calls),
        cmocka_unit_test(limits),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
