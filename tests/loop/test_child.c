/* Children: exact start errors, exits under every SIGCHLD disposition, descriptors, signals. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "loop/child.h"

struct ended {
    int calls;
    int code;
    int signal;
    waldo__child *free_this;
};

static void on_exited(void *userdata, int code, int signal_number)
{
    struct ended *ended = userdata;

    ended->calls++;
    ended->code = code;
    ended->signal = signal_number;
    waldo__child_free(ended->free_this);
}

static const char *const no_env[] = { "PATH=/usr/bin:/bin", NULL };

static waldo_status start(waldo__loop *loop, const char *const *argv, const waldo__child_fd *fds,
                          size_t count, struct ended *ended, waldo__child **ret_child,
                          waldo_error **ret_err)
{
    waldo__child_options options = { .exec_fd = -1,
                                     .path = argv[0],
                                     .argv = argv,
                                     .envp = no_env,
                                     .fds = fds,
                                     .fd_count = count,
                                     .new_group = 1 };

    return waldo__child_spawn(loop, &options, on_exited, ended, ret_child, ret_err);
}

static void wait_for(waldo__loop *loop, const struct ended *ended)
{
    int64_t limit = waldo__deadline_ns(60000);

    while (ended->calls == 0 && waldo__now_ns() < limit) {
        waldo__loop_round(loop, limit, 0);
    }
}

static int setup(void **state)
{
    return waldo__loop_new((waldo__loop **)state, NULL) != WALDO_OK;
}

static int teardown(void **state)
{
    waldo__loop_free(*state);
    return 0;
}

/* Run a shell script with a socket as its standard output; its whole output. */
static void run_script(waldo__loop *loop, const char *script, waldo__buf *out, struct ended *ended)
{
    const char *const argv[] = { "/bin/sh", "-c", script, NULL };
    waldo__child *child = NULL;
    int pair[2];
    waldo__child_fd fds[3];
    char bytes[4096];
    ssize_t got;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = (waldo__child_fd){ .from = pair[1], .to = i };
    }
    assert_int_equal(start(loop, argv, fds, 3, ended, &child, NULL), WALDO_OK);
    close(pair[1]);
    while ((got = read(pair[0], bytes, sizeof bytes)) > 0) {
        waldo__buf_add(out, bytes, (size_t)got);
    }
    close(pair[0]);
    wait_for(loop, ended);
    waldo__child_free(child);
}

/* ---- starting ---- */

static void start_errors_are_exact(void **state)
{
    static const struct {
        const char *path;
        const char *text;
    } rows[] = { { "/nonexistent/program", "no such file or directory" },
                 { "/etc/passwd", "permission denied" },
                 { "/bin", "permission denied" },
                 { "/etc/passwd/x", "not a directory" } };

    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        const char *const argv[] = { rows[i].path, NULL };
        struct ended ended = { 0 };
        waldo__child *child = NULL;
        waldo_error *error = NULL;

        assert_int_equal(start(*state, argv, NULL, 0, &ended, &child, &error), WALDO_ESTART);
        assert_null(child);
        assert_int_equal(waldo_error_status(error), WALDO_ESTART);
        assert_non_null(strstr(waldo_error_message(error), rows[i].path));
        assert_non_null(strstr(waldo_error_message(error), rows[i].text));
        waldo_error_free(error);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* no zombie is left */
    assert_int_equal(errno, ECHILD);
}

static void bad_descriptor_is_a_start_error(void **state)
{
    const char *const argv[] = { "/bin/true", NULL };
    waldo__child_fd fds[] = { { .from = 999, .to = 0 } };
    struct ended ended = { 0 };
    waldo__child *child = NULL;

    assert_int_equal(start(*state, argv, fds, 1, &ended, &child, NULL), WALDO_ESTART);
    assert_null(child);
}

static void program_as_memfd(void **state)
{
    const char *const argv[] = { "echo", "from", "memory", NULL };
    int memory = memfd_create("program", MFD_CLOEXEC);
    int source = open("/bin/echo", O_RDONLY | O_CLOEXEC);
    int pair[2];
    struct stat info;
    struct ended ended = { 0 };
    waldo__child *child = NULL;
    char text[64] = { 0 };

    assert_int_equal(fstat(source, &info), 0);
    for (off_t left = info.st_size; left > 0;) {
        char bytes[4096];
        ssize_t got = read(source, bytes, sizeof bytes);

        assert_true(got > 0);
        assert_int_equal(write(memory, bytes, (size_t)got), got);
        left -= got;
    }
    close(source);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);

    waldo__child_fd fds[] = { { .from = pair[1], .to = 1 } };
    waldo__child_options options = {
        .exec_fd = memory, .argv = argv, .envp = no_env, .fds = fds, .fd_count = 1
    };

    assert_int_equal(waldo__child_spawn(*state, &options, on_exited, &ended, &child, NULL),
                     WALDO_OK);
    close(memory);
    close(pair[1]);
    assert_int_equal(read(pair[0], text, sizeof text - 1), 12);
    assert_string_equal(text, "from memory\n");
    close(pair[0]);
    wait_for(*state, &ended);
    assert_int_equal(ended.code, 0);
    waldo__child_free(child);
}

/* ---- ends ---- */

static void reap_all(int number)
{
    int keep = errno;

    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    errno = keep;
}

/* Under each disposition the end is told exactly once; the status unless the host took it. */
static void ends_under_every_sigchld_disposition(void **state)
{
    static const struct {
        void (*handler)(int);
        int flags;
        int certain;
    } rows[] = {
        { SIG_DFL, 0, 1 }, { SIG_IGN, 0, 0 }, { SIG_DFL, SA_NOCLDWAIT, 0 }, { reap_all, 0, 0 }
    };
    struct sigaction old;

    sigaction(SIGCHLD, NULL, &old);
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        struct sigaction action = { .sa_handler = rows[i].handler, .sa_flags = rows[i].flags };
        const char *const exits[] = { "/bin/sh", "-c", "exit 7", NULL };
        const char *const killed[] = { "/bin/sh", "-c", "kill -TERM $$", NULL };
        struct ended ended[2] = { { 0 }, { 0 } };
        waldo__child *child[2] = { NULL, NULL };

        sigaction(SIGCHLD, &action, NULL);
        assert_int_equal(start(*state, exits, NULL, 0, &ended[0], &child[0], NULL), WALDO_OK);
        assert_int_equal(start(*state, killed, NULL, 0, &ended[1], &child[1], NULL), WALDO_OK);
        wait_for(*state, &ended[0]);
        wait_for(*state, &ended[1]);
        waldo__loop_round(*state, 0, 0);
        assert_int_equal(ended[0].calls, 1);
        assert_int_equal(ended[1].calls, 1);
        assert_true(ended[0].code == 7 || (!rows[i].certain && ended[0].code == -1));
        assert_int_equal(ended[0].signal, 0);
        assert_true(ended[1].signal == SIGTERM || (!rows[i].certain && ended[1].code == -1));
        waldo__child_kill(child[0], SIGKILL, 1); /* to nobody */
        waldo__child_free(child[0]);
        waldo__child_free(child[1]);
        sigaction(SIGCHLD, &old, NULL);
        assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    }
}

static void freed_in_its_callback(void **state)
{
    const char *const argv[] = { "/bin/true", NULL };
    struct ended ended = { 0 };

    assert_int_equal(start(*state, argv, NULL, 0, &ended, &ended.free_this, NULL), WALDO_OK);
    assert_true(waldo__child_pid(ended.free_this) > 1);
    wait_for(*state, &ended);
    assert_int_equal(ended.calls, 1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

/* The whole group dies with a freed child, and the line to it gives EOF. */
static void free_kills_the_group(void **state)
{
    const char *const argv[] = { "/bin/sh", "-c", "sleep 600 & echo up; wait", NULL };
    struct ended ended = { 0 };
    waldo__child *child = NULL;
    int pair[2];
    char bytes[16];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);

    waldo__child_fd fds[] = { { .from = pair[1], .to = 1 } };

    assert_int_equal(start(*state, argv, fds, 1, &ended, &child, NULL), WALDO_OK);
    close(pair[1]);
    assert_int_equal(read(pair[0], bytes, sizeof bytes), 3);
    waldo__child_free(child);
    assert_int_equal(read(pair[0], bytes, sizeof bytes), 0);
    close(pair[0]);
    waldo__loop_round(*state, 0, 0);
    assert_int_equal(ended.calls, 0);
}

static void kill_one_and_the_group(void **state)
{
    const char *const argv[] = { "/bin/sleep", "600", NULL };
    struct ended ended[2] = { { 0 }, { 0 } };

    for (int group = 0; group < 2; group++) {
        waldo__child *child = NULL;

        assert_int_equal(start(*state, argv, NULL, 0, &ended[group], &child, NULL), WALDO_OK);
        waldo__child_kill(child, SIGINT, group);
        wait_for(*state, &ended[group]);
        assert_int_equal(ended[group].signal, SIGINT);
        assert_int_equal(ended[group].code, 0);
        waldo__child_free(child);
    }
}

static void forked_child_does_not_kill(void **state)
{
    const char *const argv[] = { "/bin/cat", NULL };
    struct ended ended = { 0 };
    waldo__child *child = NULL;
    int pair[2];
    int status = -1;
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);

    waldo__child_fd fds[] = { { .from = pair[1], .to = 0 } };

    assert_int_equal(start(*state, argv, fds, 1, &ended, &child, NULL), WALDO_OK);
    close(pair[1]);
    pid = fork();
    if (pid == 0) {
        waldo__child_kill(child, SIGKILL, 1);
        waldo__child_free(child);
        waldo__loop_free(*state);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    shutdown(pair[0], SHUT_WR); /* cat ends by itself */
    wait_for(*state, &ended);
    assert_int_equal(ended.signal, 0);
    waldo__child_free(child);
    close(pair[0]);
}

/* ---- what the child inherits ---- */

static void nothing_but_the_given_descriptors(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(4096);
    struct ended ended = { 0 };
    int leak = fcntl(0, F_DUPFD, 200); /* without close-on-exec, as hosts do */

    assert_true(leak >= 200);
    run_script(*state, "exec ls /proc/self/fd", &out, &ended);
    assert_string_equal(waldo__buf_str(&out).ptr, "0\n1\n2\n3\n"); /* 3 is the folder it reads */
    assert_int_equal(ended.code, 0);
    waldo__buf_free(&out);
    close(leak);
}

/* A target that is another row's source: 8 and 9 change places. */
static void descriptors_may_swap(void **state)
{
    const char *const argv[] = { "/bin/sh", "-c", "echo a >&8; echo b >&9", NULL };
    struct ended ended = { 0 };
    waldo__child *child = NULL;
    int first[2], second[2];
    char text[2][4] = { { 0 }, { 0 } };

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);

    int keep[2] = { fcntl(8, F_DUPFD_CLOEXEC, 100), fcntl(9, F_DUPFD_CLOEXEC, 100) };
    int ends[2] = { fcntl(first[0], F_DUPFD_CLOEXEC, 100), fcntl(second[0], F_DUPFD_CLOEXEC, 100) };
    int eight = fcntl(first[1], F_DUPFD_CLOEXEC, 100);
    int nine = fcntl(second[1], F_DUPFD_CLOEXEC, 100);
    waldo__child_fd fds[] = { { .from = 8, .to = 9 }, { .from = 9, .to = 8 } };

    dup3(eight, 8, O_CLOEXEC);
    dup3(nine, 9, O_CLOEXEC);

    waldo_status status = start(*state, argv, fds, 2, &ended, &child, NULL);

    for (int i = 0; i < 2; i++) { /* put back whatever was there */
        if (keep[i] >= 0) {
            dup3(keep[i], 8 + i, O_CLOEXEC);
            close(keep[i]);
        } else {
            close(8 + i);
        }
    }
    assert_int_equal(status, WALDO_OK);
    wait_for(*state, &ended);
    assert_int_equal(ended.code, 0);
    assert_int_equal(read(ends[0], text[0], 3), 2);
    assert_int_equal(read(ends[1], text[1], 3), 2);
    assert_string_equal(text[0], "b\n");
    assert_string_equal(text[1], "a\n");
    waldo__child_free(child);
    for (int i = 0; i < 2; i++) {
        close(first[i]);
        close(second[i]);
        close(ends[i]);
    }
    close(eight);
    close(nine);
}

static void signals_are_at_default(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(8192);
    struct ended ended = { 0 };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    struct sigaction handle = { .sa_handler = reap_all };
    struct sigaction old_pipe, old_user;
    sigset_t block, old_mask;

    sigaction(SIGPIPE, &ignore, &old_pipe);
    sigaction(SIGUSR1, &handle, &old_user);
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &old_mask);
    run_script(*state, "grep -E 'Sig(Blk|Ign)' /proc/self/status", &out, &ended);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    sigaction(SIGPIPE, &old_pipe, NULL);
    sigaction(SIGUSR1, &old_user, NULL);
    assert_int_equal(ended.code, 0);
    assert_string_equal(waldo__buf_str(&out).ptr,
                        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    waldo__buf_free(&out);
}

static void the_hosts_own_mask_is_restored(void **state)
{
    const char *const argv[] = { "/bin/true", NULL };
    struct ended ended = { 0 };
    waldo__child *child = NULL;
    sigset_t before, after;

    sigprocmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(start(*state, argv, NULL, 0, &ended, &child, NULL), WALDO_OK);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&before, &after, 8); /* what the kernel has of it */
    wait_for(*state, &ended);
    waldo__child_free(child);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(start_errors_are_exact),
        CASE(bad_descriptor_is_a_start_error),
        CASE(program_as_memfd),
        CASE(ends_under_every_sigchld_disposition),
        CASE(freed_in_its_callback),
        CASE(free_kills_the_group),
        CASE(kill_one_and_the_group),
        CASE(forked_child_does_not_kill),
        CASE(nothing_but_the_given_descriptors),
        CASE(descriptors_may_swap),
        CASE(signals_are_at_default),
        CASE(the_hosts_own_mask_is_restored),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
