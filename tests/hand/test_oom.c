/*
 * Want of memory is told as such where the sandbox's cgroup shows it. The cgroup's file is one of
 * the test's own here, put in its place by bubblewrap; the command itself raises the count.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#define EVENTS  "/sys/fs/cgroup/memory.events"
#define CONTROL "/sys/fs/cgroup/memory/memory.oom_control" /* cgroup version 1 */
#define GROWS   "printf 'max 1\\noom 2\\noom_kill 13\\noom_group_kill 0\\n' > " EVENTS "; "

static char folder[] = "/tmp/waldo-oom-XXXXXX";
static char wrapper[64], events[64];

static void put(const char *path, unsigned mode, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* Runs a script in a sandbox whose cgroup counted text before, in a file of its; the EXIT. */
static waldo__hand_exit run_with(const char *file, const char *text, const char *script)
{
    struct client hand;
    waldo__hand_exit ended;

    put(events, 0666, text);
    setenv("WALDO_TEST_EVENTS", file, 1);
    client_open(&hand);
    ended = client_ended(&hand, client_sh(&hand, script, WALDO__HAND_RUN_INIT))->exit;
    client_close(&hand);
    return ended;
}

static waldo__hand_exit run_in(const char *text, const char *script)
{
    return run_with(EVENTS, text, script);
}

static void test_told(void **state)
{
    const char *before = "max 0\noom 0\noom_kill 12\n";
    waldo__hand_exit ended = run_in(before, GROWS "kill -9 $$");

    (void)state;
    assert_int_equal(ended.flags, WALDO_HAND_EXIT_OOM);
    assert_int_equal(ended.value, SIGKILL);
    ended = run_in(before, GROWS "exit 137");
    assert_int_equal(ended.flags, WALDO_HAND_EXIT_OOM);
    /* Killed, but not for memory; or the count grew and the command was content. */
    assert_int_equal(run_in(before, "kill -9 $$").flags, 0);
    assert_int_equal(run_in(before, GROWS "exit 0").flags, 0);
}

static void test_told_by_version_1(void **state)
{
    const char *before = "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n";
    const char *script = "echo oom_kill 1 > " CONTROL "; kill -9 $$";

    (void)state;
    assert_int_equal(run_with(CONTROL, before, script).flags, WALDO_HAND_EXIT_OOM);
    assert_int_equal(run_with(CONTROL, before, "kill -9 $$").flags, 0);
}

static void test_unknown(void **state)
{
    (void)state;
    assert_int_equal(run_in("", GROWS "kill -9 $$").flags, 0);
    assert_int_equal(run_in("no such counts\n", GROWS "kill -9 $$").flags, 0);
}

static int make_wrapper(void **state)
{
    char script[1024];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(wrapper, sizeof wrapper, "%s/hand", folder);
    snprintf(events, sizeof events, "%s/events", folder);
    snprintf(script, sizeof script,
             "#!/bin/sh\nexec bwrap --unshare-user --unshare-pid --die-with-parent --ro-bind / / "
             "--dev /dev --proc /proc --tmpfs /sys --bind %s \"$WALDO_TEST_EVENTS\" %s server\n",
             events, client_program);
    put(wrapper, 0700, script);
    client_program = wrapper;
    return 0;
}

static int remove_wrapper(void **state)
{
    (void)state;
    unlink(wrapper);
    unlink(events);
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_told_by_version_1),
        cmocka_unit_test(test_unknown),
    };

    static char program[PATH_MAX];

    client_program = realpath(argc > 1 ? argv[1] : "waldo-hand", program);
    return !!cmocka_run_group_tests(tests, make_wrapper, remove_wrapper);
}
