/* Commands on a terminal: size, echo, Ctrl-C, the end of input, the last byte, the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "client.h"

static struct client hand;

static int open_hand(void **state)
{
    (void)state;
    client_open(&hand);
    return 0;
}

static int close_hand(void **state)
{
    (void)state;
    client_close(&hand);
    return 0;
}

static waldo__hand_run terminal(void)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.flags = WALDO_HAND_RUN_PTY;
    return run;
}

static void assert_text(const struct record *record, const char *text)
{
    assert_string_equal(waldo__buf_str(&record->streams[0]).ptr, text);
    assert_int_equal(record->streams[1].len, 0);
}

/* Waits for a text at the end of the output so far. */
static void wait_text(uint32_t id, const char *text)
{
    struct record *record = client_record(&hand, id);

    while (record->streams[0].len < strlen(text) ||
           strcmp(record->streams[0].ptr + record->streams[0].len - strlen(text), text) != 0) {
        assert_int_equal(record->exits + record->start_error, 0);
        assert_true(client_read(&hand, 60000) > 0);
    }
}

static void resize(uint32_t id, uint16_t rows, uint16_t columns)
{
    waldo__buf out = WALDO__BUF_INIT(64);

    assert_int_equal(waldo__hand_put_resize(&out, id, rows, columns), WALDO_OK);
    client_send(&hand, &out);
}

static void test_is_a_terminal(void **state)
{
    waldo__hand_run run = terminal();
    struct record *r;

    (void)state;
    assert_true((hand.hello.features & WALDO_HAND_FEATURE_PTY) != 0);
    r = client_ended(&hand, client_sh(&hand, "test -t 0 -a -t 1 -a -t 2 && stty size", run));
    assert_text(r, "24 80\r\n");
    assert_int_equal(r->exit.flags, 0);
    run.rows = 7;
    run.columns = 300;
    r = client_ended(&hand, client_sh(&hand, "stty size; echo err >&2; echo out; exit 3", run));
    assert_text(r, "7 300\r\nerr\r\nout\r\n");
    assert_int_equal(r->exit.value, 3);
    assert_int_equal(r->exit.total[0], r->streams[0].len);
    /* It is the controlling one, of a session of the command's own, with nothing else open. */
    r = client_ended(&hand, client_sh(&hand,
                                      "echo here > /dev/tty; read -r p c s pp g sid tty fg rest < "
                                      "/proc/$$/stat; test $sid = $$ -a $fg = $$ && "
                                      "ls /proc/self/fd | wc -w",
                                      terminal()));
    assert_text(r, "here\r\n4\r\n");
}

static void test_input_is_echoed(void **state)
{
    uint32_t id = client_sh(&hand, "read x; echo got $x", terminal());
    struct record *r;

    (void)state;
    client_started(&hand, id);
    client_stdin(&hand, id, WALDO__S("hi\n"));
    r = client_ended(&hand, id);
    assert_text(r, "hi\r\ngot hi\r\n");
    assert_int_equal(r->credited, 3);
    assert_int_equal(r->exit.flags, 0);
}

static void test_end_of_input(void **state)
{
    uint32_t id = client_sh(&hand, "stty -echo; echo ready; cat; echo end", terminal());
    struct record *r;

    (void)state;
    wait_text(id, "ready\r\n");
    client_stdin(&hand, id, WALDO__S("line\n"));
    client_stdin(&hand, id, (waldo_str){ 0 });
    /* Too late for the terminal; acknowledged all the same. */
    client_stdin(&hand, id, WALDO__S("more"));
    r = client_ended(&hand, id);
    assert_text(r, "ready\r\nline\r\nend\r\n");
    assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_STDIN_BROKEN);
    assert_int_equal(r->credited, 9);
}

static void test_control_c(void **state)
{
    uint32_t id =
        client_sh(&hand, "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.02; done",
                  terminal());
    struct record *r;

    (void)state;
    wait_text(id, "ready\r\n");
    client_stdin(&hand, id, WALDO__S("\003"));
    r = client_ended(&hand, id);
    assert_text(r, "ready\r\n^Ccaught\r\n");
    assert_int_equal(r->exit.value, 9);
    id = client_sh(&hand, "echo ready; exec sleep 1000", terminal());
    wait_text(id, "ready\r\n");
    client_stdin(&hand, id, WALDO__S("\003"));
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_SIGNALLED);
    assert_int_equal(r->exit.value, SIGINT);
}

static void test_resize(void **state)
{
    uint32_t id = client_sh(&hand,
                            "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; "
                            "done",
                            terminal());

    (void)state;
    wait_text(id, "ready\r\n");
    resize(id, 50, 132);
    assert_text(client_ended(&hand, id), "ready\r\n50 132\r\n");
    /* Not for a terminal, too late, for nobody: nothing happens. */
    resize(id, 1, 1);
    resize(690, 1, 1);
    id = client_sh(&hand, "sleep 0.1; echo still", WALDO__HAND_RUN_INIT);
    resize(id, 1, 1);
    assert_text(client_ended(&hand, id), "still\n");
}

/* What a terminal still holds when the command ends comes out, however slowly it is taken. */
static void test_last_bytes(void **state)
{
    waldo__hand_run run = terminal();
    struct record *r;
    uint32_t id;

    (void)state;
    for (int i = 0; i < 20; i++) {
        r = client_ended(&hand, client_sh(&hand, "seq 1 2000; printf last", terminal()));
        assert_int_equal(r->streams[0].len, 8893 + 2000 + 4);
        assert_memory_equal(r->streams[0].ptr + r->streams[0].len - 4, "last", 4);
    }
    run.credit = 100;
    id = client_sh(&hand, "printf '%020000d' 0; printf last", run);
    r = client_record(&hand, id);
    while (r->exits == 0) {
        waldo__buf out = WALDO__BUF_INIT(64);

        /* Longer than the hand waits for late output, once; nothing asserted depends on it. */
        poll(NULL, 0, r->streams[0].len == 100 ? 100 : 0);
        waldo__hand_put_credit(&out, id, 700);
        client_send(&hand, &out);
        assert_true(client_read(&hand, 60000) > 0);
    }
    assert_int_equal(r->streams[0].len, 20004);
    assert_memory_equal(r->streams[0].ptr + 20000, "last", 4);
    assert_int_equal(r->exit.flags, 0);
}

/* A command may close its terminal and open it again by name. */
static void test_closed_and_opened_again(void **state)
{
    struct record *r = client_ended(
        &hand, client_sh(&hand, "exec 0<&- 1>&- 2>&-; sleep 0.1; echo back > /dev/tty; exit 4",
                         terminal()));

    (void)state;
    assert_text(r, "back\r\n");
    assert_int_equal(r->exit.value, 4);
}

static void test_timeout_ends_the_tree(void **state)
{
    needs(NEED_SUBREAPER);

    waldo__hand_run run = terminal();
    const char *number = sleep_number();
    char script[256];
    struct record *r = NULL;

    (void)state;
    snprintf(script, sizeof script,
             "trap '' HUP TERM INT; setsid sleep %s & sleep %s & echo begun; wait", number, number);
    run.timeout_ms = 200;
    run.has_grace = 1;
    run.grace_ms = 100;
    while (run.timeout_ms <= 60000 && (r == NULL || r->streams[0].len == 0)) {
        r = client_ended(&hand, client_sh(&hand, script, run));
        run.timeout_ms *= 10; /* where it is too slow to print by then */
    }
    assert_text(r, "begun\r\n");
    assert_int_equal(r->exit.flags & WALDO_HAND_EXIT_TIMED_OUT, WALDO_HAND_EXIT_TIMED_OUT);
    assert_int_equal(r->exit.value, SIGKILL);
    assert_int_equal(wait_no_sleeps(number), 0);
}

static void test_leftovers(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = sleep_number();
    char script[256];
    struct record *r;
    uint32_t id;

    (void)state;
    snprintf(script, sizeof script, "trap '' HUP; sleep %s & echo begun", number);
    id = client_sh(&hand, script, terminal());
    r = client_ended(&hand, id);
    assert_text(r, "begun\r\n");
    assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_OPEN | WALDO_HAND_EXIT_LEFTOVERS);
    assert_true(r->exit.wall_ns < UINT64_C(30000000000));
    assert_int_equal(wait_sleeps(number, 1), 1);
    client_cancel(&hand, id, 0);
    assert_int_equal(wait_no_sleeps(number), 0);
}

static void test_refusals(void **state)
{
    needs(NEED_VFORK);

    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo_str program = WALDO__S("/no/such/program");
    struct record *r;

    (void)state;
    run.rows = 1; /* without the flag */
    r = client_ended(&hand, client_sh(&hand, "true", run));
    assert_int_equal(r->start_error, EINVAL);
    assert_int_equal(r->start_phase, WALDO_HAND_PHASE_REQUEST);
    run = terminal();
    run.args = &program;
    run.arg_count = 1;
    r = client_ended(&hand, client_run(&hand, &run));
    assert_int_equal(r->start_error, ENOENT);
    assert_int_equal(r->start_phase, WALDO_HAND_PHASE_EXEC);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_a_terminal),
        cmocka_unit_test(test_input_is_echoed),
        cmocka_unit_test(test_end_of_input),
        cmocka_unit_test(test_control_c),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_last_bytes),
        cmocka_unit_test(test_closed_and_opened_again),
        cmocka_unit_test(test_timeout_ends_the_tree),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_refusals),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    return !!cmocka_run_group_tests(tests, open_hand, close_hand);
}
