/* Ends: timeouts, cancels and lost hosts leave no process behind; finished commands may. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#include "base/alloc.h"

static struct client hand;
static char script[2000];
static const char *number;

static int open_hand(void **state)
{
    (void)state;
    number = sleep_number();
    client_open(&hand);
    return 0;
}

static int close_hand(void **state)
{
    (void)state;
    client_close(&hand);
    return 0;
}

/* Puts the number of this test into a script in place of each @. */
static const char *with_number(const char *text)
{
    size_t len = 0;

    for (; *text != '\0'; text++) {
        len += (size_t)snprintf(script + len, sizeof script - len, *text == '@' ? "%s" : "%.1s",
                                *text == '@' ? number : text);
    }
    return script;
}

static waldo__hand_run limits(uint32_t timeout_ms, uint32_t grace_ms)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.timeout_ms = timeout_ms;
    run.grace_ms = grace_ms;
    run.has_grace = 1;
    return run;
}

/*
 * Runs a script that a timeout ends, and which prints something first: with a longer timeout where
 * it has not printed all of that by then.
 */
static struct record *run_out_of_time(const char *text, size_t prints, uint32_t grace_ms)
{
    struct record *r = NULL;

    for (uint32_t ms = 200; ms <= 60000 && (r == NULL || r->exit.total[0] < prints); ms *= 10) {
        r = client_ended(&hand, client_sh(&hand, with_number(text), limits(ms, grace_ms)));
        assert_true((r->exit.flags & WALDO_HAND_EXIT_TIMED_OUT) != 0);
    }
    return r;
}

static void assert_ended_by(const struct record *r, uint32_t reason)
{
    assert_int_equal(r->exits, 1);
    assert_int_equal(r->exit.flags & (WALDO_HAND_EXIT_TIMED_OUT | WALDO_HAND_EXIT_CANCELLED),
                     reason);
    assert_int_equal(r->exit.flags & (WALDO_HAND_EXIT_UNCONFIRMED | WALDO_HAND_EXIT_LOST), 0);
    assert_int_equal(count_sleeps(number), 0);
}

static void test_timeout_keeps_output(void **state)
{
    struct record *r = run_out_of_time("printf err >&2; printf partial; sleep @", 7, 2000);

    (void)state;
    assert_ended_by(r, WALDO_HAND_EXIT_TIMED_OUT);
    assert_string_equal(waldo__buf_str(&r->streams[0]).ptr, "partial");
    assert_string_equal(waldo__buf_str(&r->streams[1]).ptr, "err");
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_SIGNALLED);
    assert_int_equal(r->exit.value, SIGTERM);
    assert_int_equal(r->exit.flags & WALDO_HAND_EXIT_KILLED, 0);
}

static void test_grace_lets_it_finish(void **state)
{
    struct record *r =
        run_out_of_time("trap 'echo bye; exit 7' TERM; echo ready; sleep @ & wait", 6, 20000);

    (void)state;
    assert_ended_by(r, WALDO_HAND_EXIT_TIMED_OUT);
    assert_string_equal(waldo__buf_str(&r->streams[0]).ptr, "ready\nbye\n");
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(r->exit.value, 7);
}

static void test_timeout_of_a_tree(void **state)
{
    needs(NEED_SUBREAPER);

    static const char *const scripts[] = {
        "trap '' TERM; sleep @ & setsid sleep @ & setsid env -i sleep @ & sleep @",
        "(setsid setsid sh -c 'trap \"\" TERM HUP; setsid sleep @; :' &) ; trap '' TERM; sleep @; "
        ":",
        "nohup sh -c 'sleep @ & sleep @; :' > /dev/null 2>&1 & trap '' TERM; while :; do sleep @; "
        "done",
        "mkfifo p$$; (while :; do echo child; sleep 0.05; done) > p$$ & exec 3< p$$; rm p$$; "
        "cat <&3; :",
        "kill -STOP $$",
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(scripts); i++) {
        waldo__hand_run run = limits(300, 100);
        struct record *r;

        run.cwd = WALDO__S("/tmp");
        r = client_ended(&hand, client_sh(&hand, with_number(scripts[i]), run));
        assert_ended_by(r, WALDO_HAND_EXIT_TIMED_OUT);
    }
}

static void test_fork_chain(void **state)
{
    /* Each process starts its successor and ends: no parent stays to be followed. */
    static const char *const chains[] = {
        "chain() { test $(date +%s) -gt $end || (chain) & }; chain",
        /* And each is in a session of its own: no group either. */
        "s='test $(date +%s) -gt $end || setsid sh -c \"$s\" &'; export s; sh -c \"$s\"",
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(chains); i++) {
        char text[400];
        struct record *r;

        /* Should they not be caught, they end after a minute. */
        snprintf(text, sizeof text,
                 "trap '' TERM; export end=$(($(date +%%s) + 60)); %s; echo ready; sleep @",
                 chains[i]);
        r = run_out_of_time(text, 6, 100);
        assert_ended_by(r, WALDO_HAND_EXIT_TIMED_OUT);
        assert_true((r->exit.flags & WALDO_HAND_EXIT_KILLED) != 0);
    }
}

static void test_cancel(void **state)
{
    uint32_t id =
        client_sh(&hand, with_number("sleep @ & echo ready; sleep @; :"), WALDO__HAND_RUN_INIT);
    struct record *r;

    (void)state;
    client_has_output(&hand, id, 0, 6);
    client_cancel(&hand, id, WALDO_HAND_GRACE_OF_JOB);
    client_cancel(&hand, id, 50);
    client_cancel(&hand, id, WALDO_HAND_GRACE_OF_JOB);
    r = client_ended(&hand, id);
    assert_ended_by(r, WALDO_HAND_EXIT_CANCELLED);
    client_cancel(&hand, id, 0);
    client_cancel(&hand, 600, 0);
    id = client_sh(&hand, "echo still there", WALDO__HAND_RUN_INIT);
    assert_int_equal(client_ended(&hand, id)->exit.value, 0);
    assert_int_equal(r->after_end, 0);
}

static void test_one_of_two_times_out(void **state)
{
    uint32_t stays = client_sh(&hand, with_number("echo ready; exec sleep @"), limits(0, 0));
    char other[32];
    uint32_t goes;

    (void)state;
    client_has_output(&hand, stays, 0, 6);
    snprintf(other, sizeof other, "%s", number);
    number = sleep_number();
    goes = client_sh(&hand, with_number("exec sleep @"), limits(200, 2000));
    assert_ended_by(client_ended(&hand, goes), WALDO_HAND_EXIT_TIMED_OUT);
    assert_int_equal(wait_sleeps(other, 1), 1);
    assert_int_equal(client_record(&hand, stays)->exits, 0);
    client_cancel(&hand, stays, 0);
    client_ended(&hand, stays);
    assert_int_equal(count_sleeps(other), 0);
}

static void test_daemons_do_not_delay(void **state)
{
    needs(NEED_SUBREAPER);

    static const char *const scripts[] = {
        "sleep @ & echo started",
        "setsid sleep @ & echo started",
        "nohup sh -c 'sleep @' & echo started",
    };
    uint64_t begin = test_now_ms();

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(scripts); i++) {
        uint32_t id = client_sh(&hand, with_number(scripts[i]), WALDO__HAND_RUN_INIT);
        struct record *r = client_ended(&hand, id);

        assert_string_equal(waldo__buf_str(&r->streams[0]).ptr, "started\n");
        assert_int_equal(r->exit.value, 0);
        assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_OPEN | WALDO_HAND_EXIT_LEFTOVERS);
    }
    assert_true(test_now_ms() - begin < 60000); /* against a wait for them */
    assert_int_equal(wait_sleeps(number, 3), 3);
}

static void test_leftovers_can_be_ended(void **state)
{
    needs(NEED_SUBREAPER);

    uint32_t id = client_sh(&hand, with_number("sleep @ & echo started"), WALDO__HAND_RUN_INIT);
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    client_ended(&hand, id);
    assert_int_equal(wait_sleeps(number, 1), 1);
    client_cancel(&hand, id, 0);
    assert_int_equal(wait_no_sleeps(number), 0);
    run.flags = WALDO_HAND_RUN_KILL_LEFTOVERS;
    r = client_ended(&hand, client_sh(&hand, with_number("setsid sleep @ & echo started"), run));
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_KILLED);
    assert_int_equal(count_sleeps(number), 0);
}

static void test_late_output(void **state)
{
    /* What comes after the leader's end but at once is still part of the result. */
    static const char late[] = "(while kill -0 $$ 2> /dev/null; do :; done; echo late) & exit 3";
    waldo__hand_run run = limits(0, 0);
    struct record *r = NULL;
    uint32_t id;

    (void)state;
    for (int i = 0; i < 50 && (r == NULL || (r->exit.flags & WALDO_HAND_EXIT_OPEN) != 0); i++) {
        /* One that is too slow for "at once" is tried again. */
        r = client_ended(&hand, client_sh(&hand, late, WALDO__HAND_RUN_INIT));
        assert_int_equal(r->exit.value, 3);
    }
    assert_string_equal(waldo__buf_str(&r->streams[0]).ptr, "late\n");
    assert_int_equal(r->exit.flags & WALDO_HAND_EXIT_OPEN, 0);
    /* What never stops is cut, and goes on without harm to others. */
    run.flags |= WALDO_HAND_RUN_STDIN;
    id = client_sh(&hand, "yes & read x; exit 4", run);
    client_has_output(&hand, id, 0, 2);
    client_stdin(&hand, id, WALDO__S("\n"));
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.value, 4);
    assert_true((r->exit.flags & WALDO_HAND_EXIT_OPEN) != 0);
    assert_true(r->exit.total[0] > 0);
    assert_int_equal(r->exit.total[0], r->streams[0].len);
    r = client_ended(&hand, client_sh(&hand, "echo fine", WALDO__HAND_RUN_INIT));
    assert_string_equal(waldo__buf_str(&r->streams[0]).ptr, "fine\n");
}

/*
 * Starts a command that stops its job parent once that has reported the start; until it has done
 * so, or its time is over.
 */
static uint32_t run_stopped(waldo__hand_run run)
{
    uint32_t id;

    run.flags |= WALDO_HAND_RUN_STDIN;
    id = client_sh(
        &hand,
        with_number("echo ready; read x; kill -STOP $PPID; setsid sleep @ & echo stopped; "
                    "sleep @; :"),
        run);
    while (client_record(&hand, id)->streams[0].len < 6 && !client_record(&hand, id)->exits) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    client_stdin(&hand, id, WALDO__S("\n"));
    while (client_record(&hand, id)->streams[0].len < 14 && !client_record(&hand, id)->exits) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    return id;
}

/* A command that stops its own job parent gains nothing but a few seconds. */
static void test_stopped_job_parent(void **state)
{
    needs(NEED_SUBREAPER);

    struct record *r = NULL;
    uint32_t id;

    (void)state;
    for (uint32_t ms = 300; ms < 20000 && (r == NULL || r->streams[0].len < 14); ms *= 8) {
        r = client_ended(&hand, run_stopped(limits(ms, 100)));
    }
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_UNKNOWN);
    assert_int_equal(r->exit.flags & (WALDO_HAND_EXIT_LOST | WALDO_HAND_EXIT_TIMED_OUT),
                     WALDO_HAND_EXIT_LOST | WALDO_HAND_EXIT_TIMED_OUT);
    assert_int_equal(wait_no_sleeps(number), 0);
    id = run_stopped(limits(0, 100));
    client_cancel(&hand, id, 0);
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.flags & (WALDO_HAND_EXIT_LOST | WALDO_HAND_EXIT_CANCELLED),
                     WALDO_HAND_EXIT_LOST | WALDO_HAND_EXIT_CANCELLED);
    assert_int_equal(wait_no_sleeps(number), 0);
    assert_int_equal(client_ended(&hand, client_sh(&hand, "exit 6", limits(0, 0)))->exit.value, 6);
}

/* The parent of a process, and the letter of its state. */
static pid_t parent_of(pid_t pid, char *ret_state)
{
    char path[64], text[512] = { 0 };
    const char *at;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    at = strrchr(text, ')');
    assert_non_null(at);
    *ret_state = at[2];
    return (pid_t)strtol(at + 3, NULL, 10);
}

static void wait_zombie(pid_t pid)
{
    char how;

    for (parent_of(pid, &how); how != 'Z'; parent_of(pid, &how)) {
        poll(NULL, 0, 1);
    }
}

static void send_signals(uint32_t id, int count, int sig)
{
    waldo__buf frames = WALDO__BUF_INIT(1024 * 1024);

    for (int i = 0; i < count; i++) {
        waldo__hand_put_signal(&frames, id, sig, WALDO_HAND_SCOPE_PROCESS);
    }
    client_send(&hand, &frames);
}

/* The hand handles frames in order: after PONG it has passed on what came before. */
static void wait_handled(uint32_t id)
{
    waldo__buf frames = WALDO__BUF_INIT(1024);
    struct record *r = client_record(&hand, id);
    size_t had = r->pong.len;

    waldo__hand_put_ping(&frames, id, WALDO__S("?"));
    client_send(&hand, &frames);
    while (r->pong.len == had) {
        assert_true(client_read(&hand, 60000) > 0);
    }
}

/* Orders that come while a job parent is ending do not lose its report. */
static void test_orders_at_the_end(void **state)
{
    waldo__hand_run run = limits(0, 100);
    struct record *r;
    uint32_t id;
    pid_t parent;
    char how;

    (void)state;
    run.flags |= WALDO_HAND_RUN_STDIN;
    id = client_sh(&hand, "echo ready; read x; kill -STOP $PPID; exit 7", run);
    client_has_output(&hand, id, 0, 6);
    r = client_record(&hand, id);
    parent = parent_of((pid_t)r->pid, &how);
    client_stdin(&hand, id, WALDO__S("\n"));
    wait_zombie((pid_t)r->pid);
    /* The child's end interrupts its wait, so that it does not look for orders. */
    send_signals(id, 3, SIGWINCH);
    client_cancel(&hand, id, 0);
    wait_handled(id);
    /* All of the end is there before the hand looks. */
    kill(hand.pid, SIGSTOP);
    kill(parent, SIGCONT);
    wait_zombie(parent);
    kill(hand.pid, SIGCONT);
    client_ended(&hand, id);
    assert_int_equal(r->exit.flags & WALDO_HAND_EXIT_LOST, 0);
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(r->exit.value, 7);
}

/* Orders that find no room wait: however many came before, a cancel and a last signal arrive. */
static void test_orders_without_room(void **state)
{
    static const int last[] = { SIGUSR1, 0 };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct record *r;
        pid_t parent;
        char how;
        uint32_t id = client_sh(&hand,
                                "trap 'echo got; exit 5' USR1; trap : WINCH; echo ready; "
                                "while :; do sleep 0.02; done",
                                limits(0, 100));

        client_has_output(&hand, id, 0, 6);
        r = client_record(&hand, id);
        parent = parent_of((pid_t)r->pid, &how);
        kill(parent, SIGSTOP);
        send_signals(id, 5000, SIGWINCH);
        if (last[i] != 0) {
            send_signals(id, 1, last[i]);
        } else {
            client_cancel(&hand, id, 100);
        }
        wait_handled(id);
        kill(parent, SIGCONT);
        client_ended(&hand, id);
        assert_int_equal(r->exit.flags & WALDO_HAND_EXIT_LOST, 0);
        if (last[i] != 0) {
            assert_int_equal(r->exit.value, 5);
        } else {
            assert_true((r->exit.flags & WALDO_HAND_EXIT_CANCELLED) != 0);
        }
    }
}

static void test_end_with_stopped_job_parent(void **state)
{
    needs(NEED_SUBREAPER);

    (void)state;
    run_stopped(limits(0, 0));
    assert_int_equal(client_wait_exit(&hand), 0);
    assert_int_equal(count_sleeps(number), 0);
    client_open(&hand);
}

/* Leftovers whose job parent is killed are not forgotten: nobody could end them later. */
static void test_leftovers_without_job_parent(void **state)
{
    needs(NEED_SUBREAPER);

    uint32_t id = client_sh(&hand, with_number("setsid sleep @ & echo $PPID"), limits(0, 0));
    struct record *r = client_ended(&hand, id);

    (void)state;
    assert_int_equal(r->exit.value, 0);
    assert_int_equal(wait_sleeps(number, 1), 1);
    assert_int_equal(kill((pid_t)strtol(waldo__buf_str(&r->streams[0]).ptr, NULL, 10), SIGKILL), 0);
    assert_int_equal(wait_no_sleeps(number), 0);
}

static void test_leader_killed_from_inside(void **state)
{
    needs(NEED_SUBREAPER);

    uint32_t id =
        client_sh(&hand, with_number("setsid sleep @ & setsid sleep @ & echo $PPID; sleep @; :"),
                  WALDO__HAND_RUN_INIT);
    struct record *r;

    (void)state;
    client_has_output(&hand, id, 0, 2);
    r = client_record(&hand, id);
    /* The job parent of the command, killed as a hostile command might do it. */
    assert_int_equal(kill((pid_t)strtol(waldo__buf_str(&r->streams[0]).ptr, NULL, 10), SIGKILL), 0);
    client_ended(&hand, id);
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_UNKNOWN);
    assert_true((r->exit.flags & WALDO_HAND_EXIT_LOST) != 0);
    assert_int_equal(wait_no_sleeps(number), 0);
}

/* EXIT does not wait for credit that a host may never give. */
static void test_ends_without_credit(void **state)
{
    waldo__hand_run run = limits(200, 100);
    struct record *r = NULL;
    uint32_t id;

    (void)state;
    run.credit = 10;
    run.tail[0] = 5;
    while (run.timeout_ms <= 60000 && (r == NULL || r->exit.total[0] == 0)) {
        r = client_ended(&hand, client_sh(&hand, with_number("seq 1 50; sleep @"), run));
        run.timeout_ms *= 10; /* where it is too slow to print by then */
    }
    assert_ended_by(r, WALDO_HAND_EXIT_TIMED_OUT);
    assert_int_equal(r->exit.total[0], 141);
    assert_int_equal(r->exit.sent[0], 15);
    assert_string_equal(waldo__buf_str(&r->streams[0]).ptr, "1\n2\n3\n4\n5\n9\n50\n");
    run.timeout_ms = 0;
    id = client_sh(&hand, "seq 1 50", run);
    client_has_output(&hand, id, 0, 10);
    client_cancel(&hand, id, 0);
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.total[0], 141);
    assert_int_equal(r->exit.sent[0], 15);
}

static void test_shutdown(void **state)
{
    needs(NEED_SUBREAPER);

    waldo__buf out = WALDO__BUF_INIT(1024);
    uint32_t done = client_sh(&hand, with_number("setsid sleep @ & echo started"), limits(0, 0));
    uint32_t runs =
        client_sh(&hand, with_number("trap '' TERM; echo ready; sleep @; :"), limits(0, 0));
    uint32_t last = hand.next_id++;
    struct record *r;

    (void)state;
    client_ended(&hand, done);
    client_has_output(&hand, runs, 0, 6);
    waldo__hand_put_shutdown(&out, last);
    client_send(&hand, &out);
    r = client_ended(&hand, last);
    assert_int_equal(r->done.err, 0);
    r = client_record(&hand, runs);
    assert_ended_by(r, WALDO_HAND_EXIT_CANCELLED);
    assert_int_equal(client_record(&hand, done)->after_end, 0);
    assert_int_equal(client_read(&hand, 60000), 0);
}

static void test_end_of_input(void **state)
{
    needs(NEED_SUBREAPER);

    uint32_t done = client_sh(&hand, with_number("setsid sleep @ & echo started"), limits(0, 0));
    uint32_t runs =
        client_sh(&hand, with_number("trap '' TERM; echo ready; sleep @; :"), limits(0, 0));

    (void)state;
    client_ended(&hand, done);
    client_has_output(&hand, runs, 0, 6);
    assert_int_equal(count_sleeps(number) > 0, 1);
    assert_int_equal(client_wait_exit(&hand), 0);
    assert_int_equal(count_sleeps(number), 0);
    client_open(&hand);
}

static void test_killed_hand(void **state)
{
    needs(NEED_SUBREAPER);

    uint32_t done = client_sh(&hand, with_number("setsid sleep @ & echo started"), limits(0, 0));
    uint32_t runs =
        client_sh(&hand, with_number("trap '' TERM; echo ready; sleep @; :"), limits(0, 0));

    (void)state;
    client_ended(&hand, done);
    client_has_output(&hand, runs, 0, 6);
    assert_int_equal(kill(hand.pid, SIGKILL), 0);
    assert_int_equal(client_wait_exit(&hand), -1);
    assert_int_equal(wait_no_sleeps(number), 0);
    client_open(&hand);
}

static void test_terminated_hand(void **state)
{
    uint32_t runs =
        client_sh(&hand, with_number("trap '' TERM; echo ready; sleep @; :"), limits(0, 0));

    (void)state;
    client_has_output(&hand, runs, 0, 6);
    assert_int_equal(kill(hand.pid, SIGTERM), 0);
    while (client_read(&hand, 60000) > 0) {
    }
    assert_int_equal(client_wait_exit(&hand), 0);
    assert_int_equal(count_sleeps(number), 0);
    client_open(&hand);
}

/* A host process of its own starts a hand and a command, tells the hand's pid, and is killed. */
static void test_killed_host(void **state)
{
    needs(NEED_SUBREAPER);

    int pipe_fds[2];
    pid_t host, pid = 0;
    char byte;

    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    host = fork();
    if (host == 0) {
        struct client own;
        uint32_t id;

        client_open(&own);
        id = client_sh(&own, with_number("setsid sleep @ & echo ready; sleep @; :"), limits(0, 0));
        client_has_output(&own, id, 0, 6);
        (void)!write(pipe_fds[1], &own.pid, sizeof own.pid);
        pause();
        _exit(0);
    }
    assert_int_equal(read(pipe_fds[0], &pid, sizeof pid), sizeof pid);
    assert_int_equal(kill(host, SIGKILL), 0);
    assert_int_equal(waitpid(host, NULL, 0), host);
    assert_int_equal(wait_no_sleeps(number), 0);
    close(pipe_fds[1]);
    /* The hand held this end since the fork; when it ends, so does the pipe. */
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0);
    close(pipe_fds[0]);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_hand, close_hand)
        CASE(test_timeout_keeps_output),
        CASE(test_grace_lets_it_finish),
        CASE(test_timeout_of_a_tree),
        CASE(test_fork_chain),
        CASE(test_cancel),
        CASE(test_one_of_two_times_out),
        CASE(test_daemons_do_not_delay),
        CASE(test_leftovers_can_be_ended),
        CASE(test_late_output),
        CASE(test_stopped_job_parent),
        CASE(test_orders_at_the_end),
        CASE(test_orders_without_room),
        CASE(test_end_with_stopped_job_parent),
        CASE(test_leftovers_without_job_parent),
        CASE(test_leader_killed_from_inside),
        CASE(test_ends_without_credit),
        CASE(test_shutdown),
        CASE(test_end_of_input),
        CASE(test_killed_hand),
        CASE(test_terminated_hand),
        CASE(test_killed_host),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
