/* Commands on a terminal. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

/* A conversation with a command: what it printed so far, and its end. */
typedef struct talk {
    waldo__buf text;
    int done;
    waldo_status status;
    waldo_exec_end end;
    int code, signal;
} talk;

static void heard(void *userdata, int stream, waldo_str bytes)
{
    talk *t = userdata;

    waldo__buf_puts(&t->text, stream == 1 ? "" : "[error stream]");
    waldo__buf_add_str(&t->text, bytes);
}

static void ended(void *userdata, waldo_status status, const waldo_exec_result *result,
                  const waldo_error *error)
{
    talk *t = userdata;

    (void)error;
    t->done++;
    t->status = status;
    t->end = status == WALDO_OK ? result->end : 0;
    t->code = status == WALDO_OK ? result->exit_code : -1;
    t->signal = status == WALDO_OK ? result->signal : -1;
}

static waldo_job *begin(contract *c, talk *t, waldo_exec_options options)
{
    waldo_job *job = NULL;

    *t = (talk){ .text = WALDO__BUF_INIT(1024 * 1024) };
    options.flags |= WALDO_EXEC_TTY | WALDO_EXEC_KEEP_STDIN;
    options.on_output = heard;
    assert_int_equal(waldo_sandbox_exec(c->sandbox, &options, ended, t, &job, NULL), WALDO_OK);
    return job;
}

/* Drive until a text was printed. */
static void wait_text(contract *c, talk *t, const char *text)
{
    while (strstr(waldo__buf_str(&t->text).ptr, text) == NULL) {
        assert_int_equal(t->done, 0);
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
}

static void finish(contract *c, talk *t, const char *text)
{
    while (!t->done) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(t->status, WALDO_OK);
    assert_string_equal(waldo__buf_str(&t->text).ptr, text);
    waldo__buf_free(&t->text);
}

static void size_and_kind(void **state)
{
    contract *c = *state;
    talk t;

    NEED(c, WALDO_BACKEND_PTY);
    begin(c, &t, WALDO_EXEC(.cmd = "stty size; test -t 0 -a -t 1 -a -t 2; echo $? $TERM >&2"));
    finish(c, &t, "24 80\r\n0 dumb\r\n");
    begin(c, &t,
          WALDO_EXEC(.cmd = "stty size; echo $TERM; exit 3", .rows = 50, .columns = 132,
                     .env = WALDO_STRINGS("TERM=xterm-256color")));
    finish(c, &t, "50 132\r\nxterm-256color\r\n");
    assert_int_equal(t.code, 3);
}

static void echo_and_end_of_input(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    waldo_job *job;
    talk t;

    NEED(c, WALDO_BACKEND_PTY);
    job = begin(c, &t, WALDO_EXEC(.cmd = "echo ready; read x; echo got $x; cat; echo end"));
    wait_text(c, &t, "ready\r\n");
    assert_int_equal(waldo_job_write(job, waldo__str("hello\n"), 0), WALDO_OK);
    wait_text(c, &t, "got hello\r\n");
    assert_int_equal(waldo_job_write(job, waldo__str(""), 1), WALDO_OK);
    finish(c, &t, "ready\r\nhello\r\ngot hello\r\nend\r\n");
    /* Without KEEP_STDIN what reads is not left waiting. */
    result = run(c, &WALDO_EXEC(.cmd = "stty -echo; cat", .flags = WALDO_EXEC_TTY));
    assert_int_equal(result->end, WALDO_EXEC_EXITED);
    assert_int_equal(result->exit_code, 0);
    waldo_exec_result_free(result);
}

static void control_c_and_resize(void **state)
{
    contract *c = *state;
    waldo_job *job;
    talk t;

    NEED(c, WALDO_BACKEND_PTY);
    job = begin(c, &t,
                WALDO_EXEC(.cmd = "trap 'stty size' WINCH; trap 'echo bye; exit 7' INT; echo "
                                  "ready; while :; do sleep 0.02; done"));
    wait_text(c, &t, "ready\r\n");
    assert_int_equal(waldo_job_resize(job, 0, 80), WALDO_EINVAL);
    assert_int_equal(waldo_job_resize(job, 24, 65536), WALDO_EINVAL);
    assert_int_equal(waldo_job_resize(job, 9, 99), WALDO_OK);
    wait_text(c, &t, "9 99\r\n");
    assert_int_equal(waldo_job_write(job, waldo__str("\003"), 0), WALDO_OK);
    finish(c, &t, "ready\r\n9 99\r\n^Cbye\r\n");
    assert_int_equal(t.code, 7);
}

static void tree_is_ended(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    waldo_job *job;
    talk t;

    NEED(c, WALDO_BACKEND_PTY | WALDO_BACKEND_TREE_KILL);
    job =
        begin(c, &t,
              WALDO_EXEC(.cmd = "trap '' HUP TERM INT; setsid sleep 7201 & echo ready; sleep 7201",
                         .grace_ms = 50));
    wait_text(c, &t, "ready\r\n");
    waldo_job_cancel(job);
    finish(c, &t, "ready\r\n");
    assert_int_equal(t.end, WALDO_EXEC_CANCELLED);
    result = run(c, &WALDO_EXEC(.cmd = "pidof sleep"));
    assert_int_equal(result->exit_code, 1);
    waldo_exec_result_free(result);
}

static void refusals(void **state)
{
    contract *c = *state;
    char message[512];
    talk t;

    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true", .rows = 3), message, sizeof message),
                     WALDO_EINVAL);
    assert_int_equal(
        run_status(c, &WALDO_EXEC(.cmd = "true", .flags = WALDO_EXEC_TTY, .columns = 65536),
                   message, sizeof message),
        WALDO_EINVAL);
    if (!offers(c, WALDO_BACKEND_PTY)) {
        assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true", .flags = WALDO_EXEC_TTY), message,
                                    sizeof message),
                         WALDO_ENOTSUP);
        assert_non_null(strstr(message, "no terminals"));
        return;
    }
    begin(c, &t, WALDO_EXEC(.argv = WALDO_STRINGS("/no/such/program")));
    while (!t.done) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(t.status, WALDO_ESTART);
    waldo__buf_free(&t.text);
}

const struct CMUnitTest terminal_cases[] = {
    CASE(size_and_kind),
    CASE(echo_and_end_of_input),
    CASE(control_c_and_resize),
    CASE(tree_is_ended),
    CASE(refusals),
};
const size_t terminal_case_count = sizeof terminal_cases / sizeof *terminal_cases;
