/* Conversations in and out as chat messages: the same again, or refused by name. */
#include "failing.h"
#include "fixture.h"

enum { WAIT_MS = 60000 };

#define CALL(id)                                                                                   \
    "{\"id\":\"" id                                                                                \
    "\",\"type\":\"function\",\"function\":{\"name\":\"echo\",\"arguments\":\"{}\"}}"
#define ASKED "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" CALL("a") "]}"

static const char conversation[] =
    "[{\"role\":\"developer\",\"content\":\"be brief\"},{\"role\":\"user\",\"content\":\"h\xc3\xa9 "
    "\\\"x\\\"\"},"
    "{\"role\":\"assistant\",\"content\":\"Let me see.\",\"tool_calls\":[" CALL("a") "," CALL(
        "b") "]},"
             "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"two\"},"
             "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"one\"}," ASKED ","
             "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":[{\"type\":\"text\",\"text\":"
             "\"a picture\"},"
             "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/"
             "gif;base64,R0lGODlheA==\"}}]},"
             "{\"role\":\"assistant\",\"content\":\"Done.\"}]";

static waldo_str str_of(const char *text)
{
    return (waldo_str){ text, strlen(text) };
}

/* A commit and what follows it: one round each. */
static void settle(fixture *f)
{
    for (int i = 0; i < 3; i++) {
        waldo_runtime_dispatch(f->rt, 0);
    }
}

static waldo_run *new_run(fixture *f, waldo_agent **ret_agent)
{
    static int calls;
    waldo_run *run;

    *ret_agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"), .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    run = waldo_run_new(f->rt, *ret_agent, NULL);
    assert_null(waldo_run_error(run));
    return run;
}

static void goes_in_and_out(void **state)
{
    fixture *f = *state;
    waldo_agent *agent;
    waldo_run *run = new_run(f, &agent);
    char *requests;

    assert_int_equal(waldo_run_import(run, str_of(conversation), NULL), WALDO_OK);
    assert_int_equal(waldo_run_import(run, str_of(conversation), NULL), WALDO_EBUSY);
    settle(f);
    assert_int_equal(waldo_run_item_count(run), 10);
    assert_string_equal(waldo_run_export(run).ptr, conversation);
    fixture_replies(f, "[{\"reasoning\":\"hm\",\"text\":\"Still here.\"}]");
    assert_int_equal(waldo_run_send(run, "and now?"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_contains(
        waldo_run_export(run).ptr,
        ",{\"role\":\"assistant\",\"content\":\"Done.\"},{\"role\":\"user\",\"content\":\"and "
        "now?\"},{\"role\":\"assistant\",\"content\":\"Still here.\"}]");
    requests = standin_requests(f->server);
    assert_contains(requests, "Let me see.");
    assert_contains(requests, "R0lGODlheA==");
    free(requests);
    assert_int_equal(waldo_run_import(run, str_of("[]"), NULL), WALDO_EBUSY);
    waldo_agent_unref(agent);
}

static void empty_ones(void **state)
{
    fixture *f = *state;
    waldo_agent *agent;
    waldo_run *run = new_run(f, &agent);

    assert_string_equal(waldo_run_export(run).ptr, "[]");
    assert_int_equal(waldo_run_import(run, str_of(" [ ] "), NULL), WALDO_OK);
    assert_int_equal(waldo_run_item_count(run), 0);
    assert_int_equal(
        waldo_run_import(run,
                         str_of("[{\"role\":\"system\",\"content\":[{\"type\":\"text\","
                                "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]"),
                         NULL),
        WALDO_OK);
    settle(f);
    assert_string_equal(waldo_run_export(run).ptr,
                        "[{\"role\":\"developer\",\"content\":\"a\\nb\"}]");
    assert_int_equal(waldo_run_import(NULL, str_of("[]"), NULL), WALDO_ECLOSED);
    assert_int_equal(waldo_run_export(NULL).len, 0);
    waldo_agent_unref(agent);
}

static void nonsense_is_refused(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        { "", "" },
        { "[", "" },
        { "[{\"role\":\"user\",\"content\":\"\\u0000\"}]", "" },
        { "{}", "messages are to be a JSON array" },
        { "[1]", "message number 1: its role is none of" },
        { "[{\"role\":\"user\"}]", "number 1: its content is neither" },
        { "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"user\",\"content\":5}]",
          "number 2: " },
        { "[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]", "of a kind" },
        { "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "has no text" },
        { "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
          "\"https://h/x.png\"}}]}]",
          "no data: URL" },
        { "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
          "\"data:image/png;base64,eHg=\"}}]}]",
          "no PNG" },
        { "[{\"role\":\"developer\",\"content\":[{\"type\":\"image_url\"}]}]", "of a kind" },
        { "[{\"role\":\"assistant\",\"content\":\"\"}]", "neither text nor a call" },
        { "[{\"role\":\"assistant\",\"function_call\":{}}]", "write tool_calls" },
        { "[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\"}]}]", "without id" },
        { "[{\"role\":\"assistant\",\"tool_calls\":[" CALL("a") "," CALL("a") "]}]", "one id" },
        { "[" ASKED "]", "no result behind it" },
        { "[" ASKED ",{\"role\":\"user\",\"content\":\"x\"}]",
          "number 2: a call before it has no" },
        { "[{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"x\"}]", "result of no call" },
        { "[" ASKED ",{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"x\"}]",
          "of no call" },
        { "[{\"role\":\"assistant\",\"tool_calls\":[" CALL("a") "," CALL(
              "b") "]},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"x\"},"
                   "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"x\"}]",
          "number 3: the result of no call" },
    };
    fixture *f = *state;
    waldo_agent *agent;
    waldo_run *run = new_run(f, &agent);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo_error *error = NULL;
        waldo_status status = waldo_run_import(run, str_of(cases[i].text), &error);

        assert_true(status < 0);
        assert_int_equal(waldo_error_status(error), status);
        assert_contains(waldo_error_message(error), cases[i].why);
        assert_int_equal(waldo_run_item_count(run), 0);
        waldo_error_free(error);
    }
    assert_int_equal(waldo_run_import(run, str_of(conversation), NULL), WALDO_OK);
    waldo_agent_unref(agent);
}

/* Cut or changed anywhere: taken or refused, and never half. */
static void damage_is_harmless(void **state)
{
    fixture *f = *state;
    waldo_agent *agent;
    size_t len = strlen(conversation);
    waldo_run *run = new_run(f, &agent);
    char *text = strdup(conversation);

    for (size_t at = 0; at < len; at++) {
        char was = text[at];
        waldo_status status;

        assert_true(waldo_run_import(run, (waldo_str){ conversation, at }, NULL) < 0);
        text[at] = (char)(was ^ (1 << at % 8));
        status = waldo_run_import(run, (waldo_str){ text, len }, NULL);
        settle(f);
        assert_true(status != WALDO_OK || waldo_run_item_count(run) > 0);
        text[at] = was;
        if (status == WALDO_OK) {
            waldo_run_free(run);
            run = waldo_run_new(f->rt, agent, NULL);
        }
    }
    free(text);
    waldo_agent_unref(agent);
}

static void without_memory(void **state)
{
    fixture *f = *state;
    waldo_agent *agent;
    waldo_run *run = new_run(f, &agent);
    size_t refused = 0;

    failing.fail_at = 0;
    do {
        waldo_status status;
        waldo_str text;

        failing.asked = failing.failed = 0;
        failing.fail_at++;
        failing.on = 1;
        status = waldo_run_import(run, str_of(conversation), NULL);
        settle(f);
        text = status == WALDO_OK ? waldo_run_export(run) : (waldo_str){ "", 0 };
        failing.on = 0;
        assert_true(status == WALDO_OK || status == WALDO_ENOMEM);
        assert_int_equal(waldo_run_item_count(run), status == WALDO_OK ? 10 : 0);
        assert_true(text.len == 0 || strcmp(text.ptr, conversation) == 0);
        refused += text.len == 0;
        waldo_run_free(run);
        run = waldo_run_new(f->rt, agent, NULL);
    } while (failing.failed > 0);
    assert_true(refused > 30);
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(goes_in_and_out),    ROW(empty_ones),     ROW(nonsense_is_refused),
        ROW(damage_is_harmless), ROW(without_memory),
#undef ROW
    };

    failing_install();
    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
