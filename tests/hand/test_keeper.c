/* The keeper: a host's parent of one program, whatever becomes of the host. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#include "base/alloc.h"

struct keeper {
    pid_t pid;
    int control, stream; /* the program's stdin and stdout */
    waldo__hand_decoder decoder;
    int events;
    uint8_t types[4];
    uint32_t program_pid;
    int err, phase;
    waldo__hand_keeper_exit exit;
    char stderr_text[WALDO_HAND_STDERR_MAX + 1];
};

static struct keeper keeper;

static waldo_status on_event(void *userdata, const waldo__hand_event *event)
{
    struct keeper *k = userdata;

    if (k->events < 4) {
        k->types[k->events] = event->type;
    }
    k->events++;
    if (event->type == WALDO_HAND_KEEPER_STARTED) {
        k->program_pid = event->u.pid;
    } else if (event->type == WALDO_HAND_KEEPER_FAILED) {
        k->err = event->u.start_error.err;
        k->phase = event->u.start_error.phase;
    } else {
        k->exit = event->u.keeper_exit;
        memcpy(k->stderr_text, event->u.keeper_exit.stderr_text.ptr,
               event->u.keeper_exit.stderr_text.len);
    }
    return WALDO_OK;
}

static int host_is_gone; /* 1: nobody has the other end of the next keeper's control */

/* Starts a keeper with a program; keep is a descriptor for it, or -1. */
static void open_keeper(const char *const *program, int keep)
{
    char numbers[3][16];
    const char *args[16] = { "waldo-hand", "keeper", numbers[0], numbers[1], numbers[1] };
    int control[2], stream[2];
    size_t count = 5;

    keeper = (struct keeper){ .events = 0 };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
    snprintf(numbers[0], sizeof numbers[0], "%d", control[1]);
    snprintf(numbers[1], sizeof numbers[1], "%d", stream[1]);
    snprintf(numbers[2], sizeof numbers[2], "%d", keep);
    if (keep >= 0) {
        args[count++] = numbers[2];
    }
    args[count++] = "--";
    while (*program != NULL) {
        args[count++] = *program++;
    }
    if (host_is_gone) {
        close(control[0]);
        control[0] = -1;
    }
    keeper.pid = fork();
    assert_true(keeper.pid >= 0);
    if (keeper.pid == 0) {
        fcntl(control[1], F_SETFD, 0);
        fcntl(stream[1], F_SETFD, 0);
        if (keep >= 0) {
            fcntl(keep, F_SETFD, 0);
        }
        execv(client_program, (char *const *)(uintptr_t)args);
        _exit(99);
    }
    close(control[1]);
    close(stream[1]);
    keeper.control = control[0];
    keeper.stream = stream[0];
    waldo__hand_decoder_init_keeper(&keeper.decoder);
}

/* Reads until so many events have come, or the end. */
static void wait_events(int count)
{
    char chunk[8192];

    while (keeper.events < count) {
        struct pollfd fd = { .fd = keeper.control, .events = POLLIN };
        ssize_t n;

        assert_int_equal(poll(&fd, 1, 60000), 1);
        n = recv(keeper.control, chunk, sizeof chunk, 0);
        if (n <= 0) {
            return;
        }
        assert_int_equal(
            waldo__hand_feed(&keeper.decoder, waldo__strn(chunk, (size_t)n), on_event, &keeper),
            WALDO_OK);
    }
}

/* The keeper says no more and ends well. */
static void close_keeper(int events)
{
    int status = -1;

    wait_events(events + 1);
    assert_int_equal(keeper.events, events);
    close(keeper.control);
    close(keeper.stream);
    assert_int_equal(waitpid(keeper.pid, &status, 0), keeper.pid);
    assert_int_equal(status, 0);
    waldo__hand_decoder_free(&keeper.decoder);
}

static void open_sh(const char *script)
{
    const char *const program[] = { "/bin/sh", "-c", script, NULL };

    open_keeper(program, -1);
}

/* What the program wrote to its stdout, up to len bytes or the end. */
static size_t read_stream(char *text, size_t len)
{
    size_t got = 0;

    while (got < len) {
        struct pollfd fd = { .fd = keeper.stream, .events = POLLIN };
        ssize_t n;

        assert_int_equal(poll(&fd, 1, 60000), 1);
        n = recv(keeper.stream, text + got, len - got, 0);
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
    }
    return got;
}

static void test_exit(void **state)
{
    char text[64] = { 0 };

    (void)state;
    open_sh("echo out; echo problem >&2; exit 7");
    read_stream(text, 4);
    close_keeper(2);
    assert_string_equal(text, "out\n");
    assert_int_equal(keeper.types[0], WALDO_HAND_KEEPER_STARTED);
    assert_int_equal(keeper.types[1], WALDO_HAND_KEEPER_EXIT);
    assert_int_equal(keeper.exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(keeper.exit.value, 7);
    assert_int_equal(keeper.exit.gone, 1);
    assert_string_equal(keeper.stderr_text, "problem\n");
}

static void test_start_failed(void **state)
{
    needs(NEED_VFORK);

    static const char *const program[] = { "/no/such/program", NULL };
    char byte;

    (void)state;
    open_keeper(program, -1);
    /* Its descriptors are given up too. */
    assert_int_equal(read_stream(&byte, 1), 0);
    close_keeper(1);
    assert_int_equal(keeper.types[0], WALDO_HAND_KEEPER_FAILED);
    assert_int_equal(keeper.err, ENOENT);
    assert_int_equal(keeper.phase, WALDO_HAND_PHASE_EXEC);
}

static void test_much_stderr(void **state)
{
    (void)state;
    open_sh("echo first >&2; head -c 1000000 /dev/zero >&2; kill -KILL $$");
    close_keeper(2);
    assert_int_equal(keeper.exit.how, WALDO_HAND_HOW_SIGNALLED);
    assert_int_equal(keeper.exit.value, SIGKILL);
    assert_int_equal(keeper.exit.stderr_total, 1000006);
    assert_int_equal(keeper.exit.stderr_text.len, WALDO_HAND_STDERR_MAX);
    assert_memory_equal(keeper.stderr_text, "first\n\0", 7);
}

static void test_descriptors(void **state)
{
    static const char script[] = "cd /proc/self/fd && echo *; read line && echo got $line";
    const char *const program[] = { "/bin/sh", "-c", script, NULL };
    char text[64] = { 0 }, want[64];
    int keep, leak;

    (void)state;
    /* One descriptor that the program shall have, and one that every child would inherit. */
    leak = fcntl(0, F_DUPFD, 200);
    keep = fcntl(0, F_DUPFD_CLOEXEC, 100);
    open_keeper(program, keep);
    /* In the order of text; 3 is the folder that the shell has open while it lists. */
    snprintf(want, sizeof want, "0 1 %d 2 3\ngot hello\n", keep);
    assert_int_equal(send(keeper.stream, "hello\n", 6, MSG_NOSIGNAL), 6);
    read_stream(text, strlen(want));
    close_keeper(2);
    close(keep);
    close(leak);
    assert_string_equal(text, want);
}

/* A tree that holds every descriptor it can and cannot be reached by its group. */
static const char *start_tree(void)
{
    const char *number = sleep_number();
    char script[200], text[8] = { 0 };

    snprintf(script, sizeof script,
             "trap '' TERM INT HUP; setsid setsid sleep %s & setsid env -i sleep %s & echo ready; "
             "sleep %s; :",
             number, number, number);
    open_sh(script);
    read_stream(text, 6);
    assert_string_equal(text, "ready\n");
    return number;
}

static void test_kill(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = start_tree();
    waldo__buf out = WALDO__BUF_INIT(64);

    (void)state;
    assert_int_equal(waldo__hand_put_keeper_kill(&out), WALDO_OK);
    assert_int_equal(send(keeper.control, out.ptr, out.len, MSG_NOSIGNAL), (ssize_t)out.len);
    waldo__buf_free(&out);
    wait_events(2);
    assert_int_equal(count_sleeps(number), 0);
    close_keeper(2);
    assert_int_equal(keeper.exit.how, WALDO_HAND_HOW_SIGNALLED);
    assert_int_equal(keeper.exit.gone, 1);
}

static void test_host_gone(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = start_tree();
    int status = -1;

    (void)state;
    close(keeper.control);
    assert_int_equal(waitpid(keeper.pid, &status, 0), keeper.pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_sleeps(number), 0);
    close(keeper.stream);
    waldo__hand_decoder_free(&keeper.decoder);
}

/* The first word to the host fails already: nobody will ask for the end. */
static void test_host_gone_before_the_start(void **state)
{
    const char *number = sleep_number();
    char script[100];
    int status = -1;

    (void)state;
    snprintf(script, sizeof script, "trap '' TERM HUP; sleep %s; :", number);
    host_is_gone = 1;
    open_sh(script);
    host_is_gone = 0;
    assert_int_equal(waitpid(keeper.pid, &status, 0), keeper.pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_sleeps(number), 0);
    close(keeper.stream);
    waldo__hand_decoder_free(&keeper.decoder);
}

static void test_leftovers_of_the_program(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = sleep_number();
    char script[100];

    (void)state;
    snprintf(script, sizeof script, "setsid sleep %s & exit 0", number);
    open_sh(script);
    wait_events(2);
    assert_int_equal(count_sleeps(number), 0);
    close_keeper(2);
    assert_int_equal(keeper.exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(keeper.exit.value, 0);
}

static void test_killed_keeper(void **state)
{
    const char *number = sleep_number();
    char script[64], text[8] = { 0 };

    (void)state;
    snprintf(script, sizeof script, "echo ready; exec sleep %s", number);
    open_sh(script);
    read_stream(text, 6);
    assert_int_equal(kill(keeper.pid, SIGKILL), 0);
    assert_int_equal(waitpid(keeper.pid, NULL, 0), keeper.pid);
    assert_int_equal(wait_no_sleeps(number), 0);
    close(keeper.control);
    close(keeper.stream);
    waldo__hand_decoder_free(&keeper.decoder);
}

static void test_terminal_signals_do_not_reach_it(void **state)
{
    char text[8] = { 0 };

    (void)state;
    open_sh("echo ready; read line; exit 5");
    read_stream(text, 6);
    wait_events(1);
    assert_int_equal(kill(keeper.pid, SIGINT), 0);
    assert_int_equal(kill(keeper.pid, SIGTERM), 0);
    assert_int_equal(getpgid((pid_t)keeper.program_pid), (pid_t)keeper.program_pid);
    assert_int_equal(send(keeper.stream, "\n", 1, MSG_NOSIGNAL), 1);
    close_keeper(2);
    assert_int_equal(keeper.exit.value, 5);
}

static void test_usage(void **state)
{
    static const char *const cases[][8] = {
        { "keeper" },
        { "keeper", "3", "4" },
        { "keeper", "0", "1", "2", "--", "/bin/true" },
        { "keeper", "3", "4", "5x", "--", "/bin/true" },
        { "keeper", "990", "991", "992", "--", "/bin/true" },
        { "nonsense" },
        { "server", "more" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        const char *args[10] = { "waldo-hand" };
        int status = -1;
        pid_t pid;

        memcpy(args + 1, cases[i], sizeof cases[i]);
        pid = fork();
        if (pid == 0) {
            close(2);
            execv(client_program, (char *const *)(uintptr_t)args);
            _exit(99);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), WALDO_HAND_STATUS_USAGE);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_start_failed),
        cmocka_unit_test(test_much_stderr),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_host_gone),
        cmocka_unit_test(test_host_gone_before_the_start),
        cmocka_unit_test(test_leftovers_of_the_program),
        cmocka_unit_test(test_killed_keeper),
        cmocka_unit_test(test_terminal_signals_do_not_reach_it),
        cmocka_unit_test(test_usage),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
