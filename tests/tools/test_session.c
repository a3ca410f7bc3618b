/* exec_command that leaves a command running, and write_stdin that goes on with it. */
#include "fixture.h"

/* Adds what a session that still runs has printed. */
static void add_output(const char *reply, waldo__buf *all)
{
    const char *output = strstr(reply, "Output:\n");

    assert_contains(reply, "Still running as session ");
    waldo__buf_puts(all, output != NULL ? output + 8 : "");
}

/* Reads a session on until a text came. */
static void until(fixture *f, int session, const char *text, waldo__buf *all)
{
    char args[100];

    snprintf(args, sizeof args, "{\"session_id\":%d,\"yield_time_ms\":20}", session);
    while (strstr(waldo__buf_str(all).ptr, text) == NULL) {
        add_output(reply_of(f, "write_stdin", args), all);
    }
}

static void test_quick_ones(void **state)
{
    fixture *f = *state;
    const char *text =
        reply_of(f, "exec_command", "{\"cmd\":\"echo out; exit 3\",\"yield_time_ms\":60000}");

    assert_contains(text, "Exit code: 3\nWall time: ");
    assert_contains(text, "\nOutput:\nout\n");
    text = reply_of(f, "exec_command", "{\"cmd\":\"true\",\"yield_time_ms\":60000}");
    assert_contains(text, "Exit code: 0\n");
    assert_contains(text, "No output\n");
    /* The number of one that is over names nothing. */
    assert_contains(failure_of(f, "write_stdin", "{\"session_id\":1}"),
                    "no background command has the number 1");
}

static void test_left_and_read_on(void **state)
{
    waldo__buf all = WALDO__BUF_INIT(4096);
    fixture *f = *state;
    const char *text;

    add_output(
        reply_of(f, "exec_command",
                 "{\"cmd\":\"echo one; read x; echo got $x; cat; exit 5\",\"yield_time_ms\":0}"),
        &all);
    until(f, 1, "one\n", &all);
    text =
        reply_of(f, "write_stdin", "{\"session_id\":1,\"chars\":\"two\\n\",\"yield_time_ms\":0}");
    assert_contains(text, "Still running as session 1; write_stdin reads on, writes to it, stops "
                          "it\nWall time: ");
    add_output(text, &all);
    until(f, 1, "got two\n", &all);
    /* Other commands run beside it. */
    assert_contains(reply_of(f, "exec_command", "{\"cmd\":\"echo beside\"}"), "beside\n");
    text = reply_of(f, "write_stdin",
                    "{\"session_id\":1,\"chars\":\"end\\n\",\"eof\":true,\"yield_time_ms\":60000}");
    assert_contains(text, "Exit code: 5\n");
    assert_contains(text, "end\n");
    assert_null(strstr(text, "one"));
    assert_contains(failure_of(f, "write_stdin", "{\"session_id\":1,\"chars\":\"x\"}"),
                    "no background command has the number 1");
    waldo__buf_free(&all);
}

static void test_terminal(void **state)
{
    waldo__buf all = WALDO__BUF_INIT(4096);
    fixture *f = *state;
    const char *text;

    text = reply_of(f, "exec_command",
                    "{\"cmd\":\"test -t 0 && stty size && echo $TERM\",\"tty\":true,"
                    "\"yield_time_ms\":60000}");
    assert_contains(text, "Output:\n24 80\r\ndumb\r\n");
    add_output(
        reply_of(f, "exec_command",
                 "{\"cmd\":\"trap 'echo bye; exit 7' INT; echo ready; while :; do sleep 0.02; "
                 "done\",\"tty\":true,\"yield_time_ms\":0}"),
        &all);
    until(f, 2, "ready\r\n", &all);
    waldo__buf_free(&all);
    text = reply_of(f, "write_stdin",
                    "{\"session_id\":2,\"chars\":\"\\u0003\",\"yield_time_ms\":60000}");
    assert_contains(text, "Exit code: 7\n");
    assert_contains(text, "^Cbye\r\n");
}

static void test_stop(void **state)
{
    fixture *f = *state;
    const char *text =
        reply_of(f, "exec_command",
                 "{\"cmd\":\"(setsid sh -c 'while :; do echo x >>beat; sleep 0.02; done' &); sleep "
                 "600\",\"yield_time_ms\":50}");

    assert_contains(text, "Still running as session 1");
    shell(f, "while ! test -e beat; do sleep 0.02; done");
    text = reply_of(f, "write_stdin", "{\"session_id\":1,\"stop\":true}");
    assert_contains(text, "Cancelled\n");
    wait_quiet(f, "beat");
}

static void test_flood(void **state)
{
    fixture *f = *state;
    const char *text = reply_of(f, "exec_command", "{\"cmd\":\"yes\",\"yield_time_ms\":300}");

    for (;;) { /* until it prints */
        assert_contains(text, "Still running as session 1");
        assert_true(strlen(text) < f->max_output + 600);
        if (strstr(text, "bytes omitted ...]") != NULL) {
            break;
        }
        text = reply_of(f, "write_stdin", "{\"session_id\":1,\"yield_time_ms\":300}");
    }
    text = reply_of(f, "write_stdin", "{\"session_id\":1,\"stop\":true}");
    assert_true(strlen(text) < f->max_output + 600);
    reply_of(f, "exec_command",
             "{\"cmd\":\"read x; head -c 3000000 /dev/zero | tr '\\\\0' y\",\"yield_time_ms\":0}");
    text = reply_of(f, "write_stdin",
                    "{\"session_id\":2,\"chars\":\"go\\n\",\"yield_time_ms\":60000}");
    assert_contains(text, "bytes omitted ...]");
    assert_contains(text, "Whole output: /tmp/waldo-output-");
}

/* The command of a cancelled call goes, that of a cancelled wait stays. */
static void test_cancel(void **state)
{
    fixture *f = *state;
    outcome out;
    waldo_tool_call *call;

    reply_of(f, "exec_command", "{\"cmd\":\"sleep 600\",\"yield_time_ms\":0}");
    call = start(f, "write_stdin", "{\"session_id\":1,\"yield_time_ms\":60000}", &out);
    waldo__tool_call_cancel(call);
    waldo__tool_call_release(call);
    outcome_free(&out);
    for (;;) {
        outcome again;

        /* Until the cancelled wait is over, another one is refused. */
        call = start(f, "write_stdin", "{\"session_id\":1,\"yield_time_ms\":0}", &again);
        finish(f, &again);
        waldo__tool_call_release(call);
        if (again.end == WALDO__CALL_REPLY) {
            assert_contains(again.text, "Still running as session 1");
            outcome_free(&again);
            break;
        }
        assert_contains(again.text, "waited for already");
        outcome_free(&again);
    }
    call = start(f, "exec_command",
                 "{\"cmd\":\"while :; do echo x >>beat; sleep 0.02; done\","
                 "\"yield_time_ms\":60000}",
                 &out);
    shell(f, "while ! test -e beat; do sleep 0.02; done");
    waldo__tool_call_cancel(call);
    waldo__tool_call_release(call);
    outcome_free(&out);
    wait_quiet(f, "beat");
    reply_of(f, "write_stdin", "{\"session_id\":1,\"stop\":true}");
}

static void test_refusals(void **state)
{
    fixture *f = *state;

    assert_contains(failure_of(f, "exec_command", "{\"cmd\":\"true\",\"yield_time_ms\":-1}"),
                    "yield_time_ms must be from 0 to 600000");
    assert_contains(failure_of(f, "write_stdin", "{\"session_id\":9,\"yield_time_ms\":600001}"),
                    "yield_time_ms must be from 0 to 600000");
    assert_contains(failure_of(f, "write_stdin", "{\"session_id\":9,\"chars\":\"x\"}"),
                    "no background command has the number 9");
    assert_contains(failure_of(f, "exec_command",
                               "{\"cmd\":\"pwd\",\"workdir\":\"missing\",\"yield_time_ms\":9000}"),
                    "no such file or directory (workdir: missing)");
    reply_of(f, "exec_command", "{\"cmd\":\"sleep 600\",\"yield_time_ms\":0}");
    reply_of(f, "write_stdin", "{\"session_id\":2,\"eof\":true,\"yield_time_ms\":0}");
    assert_contains(failure_of(f, "write_stdin", "{\"session_id\":2,\"chars\":\"x\"}"),
                    "session 2 takes no more input");
    reply_of(f, "write_stdin", "{\"session_id\":2,\"stop\":true}");
}

static void test_timeout(void **state)
{
    fixture *f = *state;

    assert_contains(reply_of(f, "exec_command",
                             "{\"cmd\":\"echo part; sleep 600\",\"yield_time_ms\":60000,"
                             "\"timeout_ms\":100}"),
                    "Timed out after 100 ms (timeout_ms of the command)");
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quick_ones, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_left_and_read_on, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_terminal, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_stop, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_flood, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cancel, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_timeout, fixture_setup, fixture_teardown),
    };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}
