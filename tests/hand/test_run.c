/* Commands: results, output, stdin, signals, exact start errors. The program is the real one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#include "base/alloc.h"
#include "hand/embedded.h"
#include "secret/secret.h"

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

static void assert_text(const waldo__buf *buf, const char *text)
{
    assert_string_equal(waldo__buf_str(buf).ptr, text);
    assert_int_equal(buf->len, strlen(text));
}

static struct record *run_args(const waldo_str *args, size_t count, waldo__hand_run run)
{
    run.args = args;
    run.arg_count = count;
    return client_ended(&hand, client_run(&hand, &run));
}

static struct record *run_sh(const char *script)
{
    return client_ended(&hand, client_sh(&hand, script, WALDO__HAND_RUN_INIT));
}

static void test_greeting(void **state)
{
    (void)state;
    assert_int_equal(hand.hello.version, WALDO_HAND_VERSION);
    assert_int_equal(hand.hello.pid, hand.pid);
    assert_int_equal(hand.hello.uid, geteuid());
    assert_int_equal(hand.hello.max_jobs, WALDO_HAND_JOBS_MAX);
    assert_int_equal(hand.hello.max_payload, WALDO_HAND_PAYLOAD_MAX);
    assert_true((hand.hello.features & WALDO_HAND_FEATURE_TREE) != 0);
    assert_int_equal(hand.hello.features & ~(WALDO_HAND_FEATURE_TREE | WALDO_HAND_FEATURE_BENEATH |
                                             WALDO_HAND_FEATURE_PTY | WALDO_HAND_FEATURE_JOBS),
                     0);
}

/* The file under test, where client_program only leads to it. */
static const char *hand_file;

/* The library carries exactly this program. */
static void test_embedded(void **state)
{
    const char *name = hand.hello.arch == WALDO_HAND_ARCH_ARM64 ? "aarch64" : "x86_64";
    const waldo__hand_program *program = NULL;
    unsigned char hash[WALDO__HAND_SHA256_LEN];
    FILE *file = fopen(hand_file, "rb");
    const char *image;

    (void)state;
    assert_non_null(file);
    for (size_t i = 0; (program = waldo__hand_at(i)) != NULL; i++) {
        if (strcmp(program->name, name) == 0) {
            break;
        }
    }
    assert_non_null(program);
    assert_in_range(program->len, 1000, 40 * 1024);
    image = waldo__hand_image(program);
    for (size_t i = 0; i < program->len; i++) {
        assert_int_equal(fgetc(file), (unsigned char)image[i]);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    waldo__sha256(waldo__strn(image, program->len), hash);
    assert_memory_equal(hash, program->sha256, sizeof hash);
}

static void test_result(void **state)
{
    struct record *r = run_sh("echo out; echo err >&2; exit 3");

    (void)state;
    assert_int_equal(r->started, 1);
    assert_int_equal(r->exits, 1);
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(r->exit.value, 3);
    assert_int_equal(r->exit.flags, 0);
    assert_text(&r->streams[0], "out\n");
    assert_text(&r->streams[1], "err\n");
    assert_int_equal(r->exit.total[0], 4);
    assert_int_equal(r->exit.sent[1], 4);
    assert_true(r->exit.wall_ns > 0);
    assert_true(r->exit.max_rss_kb > 0);
}

static void test_signalled(void **state)
{
    struct record *r = run_sh("kill -SEGV $$");

    (void)state;
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_SIGNALLED);
    assert_int_equal(r->exit.value, SIGSEGV);
}

static void test_bytes_are_exact(void **state)
{
    struct record *r = run_sh("printf 'a\\000b\\377\\376\\303'; printf '\\000' >&2");

    (void)state;
    assert_int_equal(r->streams[0].len, 6);
    assert_memory_equal(r->streams[0].ptr, "a\0b\377\376\303", 6);
    assert_int_equal(r->streams[1].len, 1);
    assert_memory_equal(r->streams[1].ptr, "\0", 1);
}

static void test_start_errors(void **state)
{
    needs(NEED_VFORK);

    static const struct {
        const char *program, *cwd;
        int err, phase;
    } cases[] = {
        { "/no/such/program", NULL, ENOENT, WALDO_HAND_PHASE_EXEC },
        { "no-such-program-in-path", NULL, ENOENT, WALDO_HAND_PHASE_EXEC },
        { "/etc/passwd", NULL, EACCES, WALDO_HAND_PHASE_EXEC },
        { "/etc", NULL, EACCES, WALDO_HAND_PHASE_EXEC },
        { "", NULL, ENOENT, WALDO_HAND_PHASE_EXEC },
        { "true", "/no/such/folder", ENOENT, WALDO_HAND_PHASE_CHDIR },
        { "true", "/etc/passwd", ENOTDIR, WALDO_HAND_PHASE_CHDIR },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__hand_run run = WALDO__HAND_RUN_INIT;
        waldo_str arg = waldo__str(cases[i].program);
        struct record *r;

        run.cwd = waldo__str(cases[i].cwd);
        r = run_args(&arg, 1, run);
        assert_int_equal(r->start_error, cases[i].err);
        assert_int_equal(r->start_phase, cases[i].phase);
        assert_int_equal(r->started + r->exits, 0);
        assert_int_equal(r->streams[0].len + r->streams[1].len, 0);
    }
}

static void test_argument_too_long(void **state)
{
    needs(NEED_VFORK);

    static char text[131072];
    waldo_str args[2] = { WALDO__S("echo"), { text, sizeof text } };
    struct record *r;

    (void)state;
    memset(text, 'x', sizeof text);
    r = run_args(args, 2, WALDO__HAND_RUN_INIT);
    assert_int_equal(r->start_error, E2BIG);
    assert_int_equal(r->start_phase, WALDO_HAND_PHASE_EXEC);
    args[1].len--;
    r = run_args(args, 2, WALDO__HAND_RUN_INIT);
    assert_int_equal(r->start_error, 0);
    assert_int_equal(r->streams[0].len, 131072);
}

static void test_reserved_is_refused(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    run.flags = 0x80000000u;
    r = client_ended(&hand, client_sh(&hand, "true", run));
    assert_int_equal(r->start_error, EOPNOTSUPP);
    assert_int_equal(r->start_phase, WALDO_HAND_PHASE_UNSUPPORTED);
}

static void test_environment(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo_str envs[] = { WALDO__S("A=1"), WALDO__S("B=x=y"), WALDO__S("A=2"),
                         WALDO__S("C=3"), WALDO__S("C"),     WALDO__S("E=") };
    waldo_str args[] = { WALDO__S("/usr/bin/env") };
    struct record *r;

    (void)state;
    run.envs = envs;
    run.env_count = WALDO__COUNT(envs);
    run.flags = WALDO_HAND_RUN_CLEAR_ENV;
    r = run_args(args, 1, run);
    assert_text(&r->streams[0], "A=2\nB=x=y\nE=\n");
    setenv("WALDO_TEST_INHERITED", "yes", 1);
    client_close(&hand);
    client_open(&hand);
    unsetenv("WALDO_TEST_INHERITED");
    r = run_sh("echo $WALDO_TEST_INHERITED");
    assert_text(&r->streams[0], "yes\n");
}

static void test_surroundings(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    run.cwd = WALDO__S("/usr");
    r = client_ended(&hand, client_sh(&hand, "pwd; umask", run));
    assert_text(&r->streams[0], "/usr\n0022\n");
    /* Own session and group, no signal blocked or ignored, no new privileges. */
    r = run_sh("read -r p c s pp g sid rest < /proc/$$/stat; test $g = $$ && test $sid = $$ && "
               "grep -E '^(SigBlk|SigIgn|NoNewPrivs):' /proc/self/status");
    assert_text(&r->streams[0],
                "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nNoNewPrivs:\t1\n");
    r = run_sh("ls /proc/self/fd | wc -w; cat");
    assert_text(&r->streams[0], "4\n"); /* 0, 1, 2 and the one that lists */
}

static void test_scripts(void **state)
{
    static char script[200001];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo_str args[] = { WALDO__S("/bin/sh"), WALDO__S("-e") };
    struct record *r;
    static const size_t sizes[] = { 95000, WALDO_HAND_SCRIPT_ARG_MAX, WALDO_HAND_SCRIPT_ARG_MAX + 1,
                                    200000 };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(sizes); i++) {
        memset(script, '#', sizes[i]);
        memcpy(script, "echo ran $#\n", 12);
        script[sizes[i]] = '\0';
        r = run_sh(script);
        assert_text(&r->streams[0], "ran 0\n");
        assert_int_equal(r->exit.value, 0);
    }
    run.args = args;
    run.arg_count = 2;
    r = client_ended(&hand, client_sh(&hand, "false; echo not here", run));
    assert_int_equal(r->exit.value, 1);
    assert_int_equal(r->streams[0].len, 0);
    /* Script text is not seen in the arguments of a long script: ps would show it. */
    memcpy(script, "tr '\\0' ' ' < /proc/$$/cmdline\n", 31);
    r = run_sh(script);
    assert_text(&r->streams[0], "/bin/sh /proc/self/fd/3 ");
}

static void test_merge_keeps_order(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    run.flags = WALDO_HAND_RUN_MERGE;
    r = client_ended(&hand, client_sh(&hand, "echo 1; echo 2 >&2; echo 3; echo 4 >&2", run));
    assert_text(&r->streams[0], "1\n2\n3\n4\n");
    assert_int_equal(r->streams[1].len, 0);
    assert_int_equal(r->exit.total[1], 0);
}

static void test_head_and_tail(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    run.head[0] = 10;
    run.tail[0] = 7;
    r = client_ended(&hand, client_sh(&hand, "seq 1 100000", run));
    assert_text(&r->streams[0], "1\n2\n3\n4\n5\n100000\n");
    assert_int_equal(r->exit.total[0], 588895);
    assert_int_equal(r->exit.sent[0], 17);
    assert_int_equal(r->gap[0], 588895 - 17);
    assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_TRUNCATED);
    /* Output that fits head and tail together is whole, without a gap. */
    run.tail[0] = 100;
    r = client_ended(&hand, client_sh(&hand, "seq 1 10", run));
    assert_text(&r->streams[0], "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    assert_int_equal(r->gap[0], 0);
    assert_int_equal(r->exit.flags, 0);
    run.head[0] = 0;
    run.tail[0] = 0;
    r = client_ended(&hand, client_sh(&hand, "seq 1 10", run));
    assert_int_equal(r->exit.sent[0], 0);
    assert_int_equal(r->exit.total[0], 21);
}

/* A tail larger than what the hand queues at once comes as a whole, however fast it is taken. */
static void test_long_tail(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    (void)state;
    run.head[0] = 0;
    run.tail[0] = WALDO_HAND_TAIL_MAX;
    for (int i = 0; i < 50; i++) {
        struct record *r = client_ended(&hand, client_sh(&hand, "head -c 900000 /dev/zero", run));

        assert_int_equal(r->streams[0].len, 900000);
    }
}

/* The hand goes on by itself when its stream takes at once what it had stopped at. */
static void test_stream_that_takes_all(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct client *roomy = calloc(1, sizeof *roomy);
    struct record *r;

    (void)state;
    client_stream_room = 4 * 1024 * 1024;
    client_open(roomy);
    client_stream_room = 0;
    run.head[0] = 0;
    run.tail[0] = WALDO_HAND_TAIL_MAX;
    r = client_ended(roomy, client_sh(roomy, "head -c 2000000 /dev/zero", run));
    assert_int_equal(r->exit.total[0], 2000000);
    assert_int_equal(r->streams[0].len, WALDO_HAND_TAIL_MAX);
    client_close(roomy);
    free(roomy);
}

/* The hand captures what it reads at once: each piece has been read before the next is written. */
static void test_tails_in_order(void **state)
{
    char dir[] = "/tmp/waldo-hand-XXXXXX", path[64], script[256];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/capture", dir);
    for (int i = 0; i < 2; i++) {
        run.head[i] = 2;
        run.tail[i] = 100;
    }
    run.capture_path = waldo__str(path);
    run.capture_max = 1000;
    snprintf(script, sizeof script,
             "n=0; read_too() { n=$((n + 3)); until [ \"$(stat -c %%s %s 2>&1)\" = $n ]; do "
             "sleep 0.01; done; }; for i in 1 2 3 4; do echo o$i; read_too; echo e$i >&2; "
             "read_too; done",
             path);
    r = client_ended(&hand, client_sh(&hand, script, run));
    unlink(path);
    rmdir(dir);
    assert_text(&r->streams[0], "o1\no2\no3\no4\n");
    assert_text(&r->streams[1], "e1\ne2\ne3\ne4\n");
    assert_string_equal(r->order, "oeoeoeoeoe");
}

static void test_long_line_then_fatal(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;

    (void)state;
    run.head[0] = 1000;
    run.tail[0] = 1000;
    r = client_ended(
        &hand,
        client_sh(&hand, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo FATAL: here", run));
    assert_int_equal(r->streams[0].len, 2000);
    assert_non_null(strstr(waldo__buf_str(&r->streams[0]).ptr, "\nFATAL: here\n"));
    assert_int_equal(r->gap[0], 300000 + 1 + 12 - 2000);
}

/* KiB of memory that a process has touched. */
static long memory_kb(pid_t pid)
{
    char path[64], line[256];
    long value = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            value = strtol(line + 6, NULL, 10);
        }
    }
    fclose(file);
    assert_true(value > 0);
    return value;
}

static void test_much_output(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    uint64_t before = hand.received;
    struct record *r;

    (void)state;
    run.head[0] = 20000;
    run.tail[0] = 20000;
    r = client_ended(&hand, client_sh(&hand, "yes | head -c 3145728", run));
    assert_int_equal(r->exit.total[0], 3145728);
    assert_int_equal(r->exit.sent[0], 40000);
    assert_int_equal(r->gap[0], 3145728 - 40000);
    r = client_ended(&hand, client_sh(&hand, "head -c 104857600 /dev/zero; echo end", run));
    assert_int_equal(r->exit.total[0], 104857604);
    assert_int_equal(r->gap[0], 104857604 - 40000);
    assert_memory_equal(r->streams[0].ptr + 39996, "end\n", 4);
    assert_true(hand.received - before < 200000);
    assert_true(client_emulated() || memory_kb(hand.pid) < 8192);
}

static void test_unread_output_is_not_lost(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    uint32_t id = client_sh(&hand, "head -c 20000000 /dev/zero", run);
    struct record *r;

    (void)state;
    client_started(&hand, id);
    /* Time for the hand to run into its own limit; nothing asserted depends on it. */
    poll(NULL, 0, 300);
    assert_true(client_emulated() || memory_kb(hand.pid) < 8192);
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.total[0], 20000000);
    assert_int_equal(r->streams[0].len, 20000000);
    assert_int_equal(r->exit.flags, 0);
}

static void test_credit(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__buf out = WALDO__BUF_INIT(1024);
    uint32_t id, ping;
    struct record *r;

    (void)state;
    run.credit = 5;
    id = client_sh(&hand, "echo 123456789", run);
    client_has_output(&hand, id, 0, 5);
    ping = hand.next_id++;
    waldo__hand_put_ping(&out, ping, WALDO__S("x"));
    client_send(&hand, &out);
    while (client_record(&hand, ping)->pong.len == 0) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    r = client_record(&hand, id);
    assert_int_equal(r->streams[0].len, 5);
    assert_int_equal(r->exits, 0);
    waldo__hand_put_credit(&out, id, 100);
    client_send(&hand, &out);
    client_ended(&hand, id);
    assert_text(&r->streams[0], "123456789\n");
}

static void test_capture(void **state)
{
    char dir[] = "/tmp/waldo-hand-XXXXXX", path[64];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    struct record *r;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/capture", dir);
    run.head[0] = run.head[1] = 4;
    run.capture_path = file.path = waldo__str(path);
    run.capture_max = 100000;
    r = client_ended(&hand, client_sh(&hand, "seq 1 100000; echo err >&2", run));
    assert_int_equal(r->exit.captured, 100000);
    assert_int_equal(r->exit.capture_lost, 588895 + 4 - 100000);
    assert_int_equal(r->exit.capture_errno, 0);
    r = client_ended(&hand, client_file(&hand, WALDO_HAND_READ, file));
    assert_int_equal(r->data.len, 100000);
    assert_memory_equal(r->data.ptr, "1\n2\n3\n", 6);
    assert_int_equal(unlink(path), 0);
    /* No output, no file. */
    r = client_ended(&hand, client_sh(&hand, "true", run));
    assert_int_equal(r->exit.captured, 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(dir), 0);
    r = client_ended(&hand, client_sh(&hand, "echo lost", run));
    assert_int_equal(r->exit.value, 0);
    assert_int_equal(r->exit.capture_errno, ENOENT);
    assert_int_equal(r->exit.capture_lost, 5);
    /* A full disk. */
    run.capture_path = WALDO__S("/dev/full");
    r = client_ended(&hand, client_sh(&hand, "echo lost", run));
    assert_int_equal(r->exit.capture_errno, ENOSPC);
    assert_int_equal(r->exit.capture_lost, 5);
    assert_int_equal(r->streams[0].len, 4);
}

static void test_stdin(void **state)
{
    static char text[WALDO_HAND_STDIN_WINDOW];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct record *r;
    uint32_t id;

    (void)state;
    memset(text, 'i', sizeof text);
    run.flags = WALDO_HAND_RUN_STDIN;
    id = client_sh(&hand, "cat", run);
    r = client_record(&hand, id);
    for (int round = 0; round < 4; round++) {
        client_stdin(&hand, id, waldo__strn(text, sizeof text));
        while (r->credited < (uint64_t)(round + 1) * sizeof text) {
            assert_true(client_read(&hand, 60000) > 0);
        }
    }
    client_stdin(&hand, id, (waldo_str){ 0 });
    client_ended(&hand, id);
    assert_int_equal(r->streams[0].len, 4 * sizeof text);
    assert_int_equal(r->exit.value, 0);
    assert_int_equal(r->exit.flags, 0);
    /* Without the flag there is an empty stdin. */
    r = run_sh("cat; echo $?");
    assert_text(&r->streams[0], "0\n");
}

static void test_stdin_not_read(void **state)
{
    static char text[200000];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__buf out = WALDO__BUF_INIT(64);
    struct record *r;
    uint32_t id;

    (void)state;
    run.flags = WALDO_HAND_RUN_STDIN;
    id = client_sh(&hand,
                   "exec 0<&-; trap 'exit 0' USR1; echo closed; while :; do sleep 0.02; done", run);
    client_has_output(&hand, id, 0, 7);
    client_stdin(&hand, id, waldo__strn(text, sizeof text));
    while (client_record(&hand, id)->credited < sizeof text) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    waldo__hand_put_signal(&out, id, SIGUSR1, WALDO_HAND_SCOPE_PROCESS);
    client_send(&hand, &out);
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_STDIN_BROKEN);
    assert_int_equal(r->credited, sizeof text);
}

static void test_signals(void **state)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__buf out = WALDO__BUF_INIT(1024);
    struct record *r;
    uint32_t id;

    (void)state;
    id = client_sh(&hand, "trap 'echo usr1; exit 9' USR1; echo ready; while :; do sleep 0.02; done",
                   run);
    client_has_output(&hand, id, 0, 6);
    waldo__hand_put_signal(&out, id, SIGUSR1, WALDO_HAND_SCOPE_PROCESS);
    client_send(&hand, &out);
    r = client_ended(&hand, id);
    assert_text(&r->streams[0], "ready\nusr1\n");
    assert_int_equal(r->exit.value, 9);
    id = client_sh(&hand, "echo ready; exec sleep 1000", run);
    client_has_output(&hand, id, 0, 6);
    waldo__hand_put_signal(&out, id, SIGINT, WALDO_HAND_SCOPE_GROUP);
    client_send(&hand, &out);
    r = client_ended(&hand, id);
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_SIGNALLED);
    assert_int_equal(r->exit.value, SIGINT);
    assert_int_equal(r->exit.flags, 0);
    /* For a command that ended, and for none at all: nothing happens. */
    waldo__hand_put_signal(&out, id, SIGINT, WALDO_HAND_SCOPE_TREE);
    waldo__hand_put_signal(&out, 699, SIGINT, WALDO_HAND_SCOPE_TREE);
    client_send(&hand, &out);
    assert_int_equal(run_sh("true")->exit.value, 0);
}

static void test_many_at_once(void **state)
{
    uint32_t ids[WALDO_HAND_JOBS_MAX + 1];
    int refused = 0;

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(ids); i++) {
        char script[64];

        snprintf(script, sizeof script, "echo %zu; exec sleep 1000", i);
        ids[i] = client_sh(&hand, script, WALDO__HAND_RUN_INIT);
    }
    for (size_t i = 0; i < WALDO__COUNT(ids); i++) {
        struct record *r = client_started(&hand, ids[i]);

        if (r->start_error != 0) {
            refused++;
            assert_int_equal(r->start_error, EAGAIN);
            assert_int_equal(r->start_phase, WALDO_HAND_PHASE_LIMIT);
        } else {
            client_has_output(&hand, ids[i], 0, 2);
            assert_int_equal(strtol(waldo__buf_str(&r->streams[0]).ptr, NULL, 10), (long)i);
        }
    }
    assert_int_equal(refused, 1);
    for (size_t i = 0; i < WALDO_HAND_JOBS_MAX; i++) {
        client_cancel(&hand, ids[i], 0);
    }
    for (size_t i = 0; i < WALDO_HAND_JOBS_MAX; i++) {
        assert_int_equal(client_ended(&hand, ids[i])->exit.value, SIGKILL);
    }
    /* Slots are free again, many times over. */
    for (int i = 0; i < 300; i++) {
        assert_int_equal(run_sh("exit 4")->exit.value, 4);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_embedded),
        cmocka_unit_test(test_result),
        cmocka_unit_test(test_signalled),
        cmocka_unit_test(test_bytes_are_exact),
        cmocka_unit_test(test_start_errors),
        cmocka_unit_test(test_argument_too_long),
        cmocka_unit_test(test_reserved_is_refused),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_surroundings),
        cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_merge_keeps_order),
        cmocka_unit_test(test_head_and_tail),
        cmocka_unit_test(test_long_tail),
        cmocka_unit_test(test_stream_that_takes_all),
        cmocka_unit_test(test_tails_in_order),
        cmocka_unit_test(test_long_line_then_fatal),
        cmocka_unit_test(test_much_output),
        cmocka_unit_test(test_unread_output_is_not_lost),
        cmocka_unit_test(test_credit),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_stdin),
        cmocka_unit_test(test_stdin_not_read),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_many_at_once),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    hand_file = argc > 2 ? argv[2] : client_program;
    return !!cmocka_run_group_tests(tests, open_hand, close_hand);
}
