/* Commands. */
#include "contract.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

static void exit_codes(void **state)
{
    contract *c = *state;
    static const int codes[] = { 0, 1, 2, 77, 126, 127, 255 };

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char cmd[32];
        waldo_exec_result *result;

        snprintf(cmd, sizeof cmd, "exit %d", codes[i]);
        result = run(c, &WALDO_EXEC(.cmd = cmd));
        assert_int_equal(result->end, WALDO_EXEC_EXITED);
        assert_int_equal(result->exit_code, codes[i]);
        assert_int_equal(result->timeout_ms, 120000);
        waldo_exec_result_free(result);
    }
}

static void argv_is_not_shell(void **state)
{
    contract *c = *state;
    waldo_exec_result *result =
        run(c, &WALDO_EXEC(.argv = WALDO_STRINGS("echo", "$HOME; exit 3", "a  b")));

    assert_int_equal(result->exit_code, 0);
    expect_text(&result->out, "$HOME; exit 3 a  b\n");
    waldo_exec_result_free(result);
}

static void streams_apart_and_together(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_SEPARATE);
    result = run(c, &WALDO_EXEC(.cmd = "printf one; printf two >&2"));
    expect_text(&result->out, "one");
    expect_text(&result->err, "two");
    assert_int_equal(result->both.total, 6);
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "printf one; printf two >&2; printf three",
                                .flags = WALDO_EXEC_MERGE));
    expect_text(&result->out, "onetwothree");
    expect_text(&result->err, "");
    waldo_exec_result_free(result);
}

static void environment_and_directory(void **state)
{
    contract *c = *state;
    waldo_exec_result *result =
        run(c, &WALDO_EXEC(.cmd = "echo $GREETING; pwd", .env = WALDO_STRINGS("GREETING=hello")));

    expect_text(&result->out, "hello\n/workspace\n");
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "mkdir -p sub; cd sub; pwd"));
    expect_text(&result->out, "/workspace/sub\n");
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "pwd", .cwd = "sub"));
    expect_text(&result->out, "/workspace/sub\n");
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "pwd", .cwd = "/tmp"));
    expect_text(&result->out, "/tmp\n");
    waldo_exec_result_free(result);
}

static void input(void **state)
{
    contract *c = *state;
    static const char bytes[] = "a\0b\xff\n";
    waldo_exec_result *result =
        run(c, &WALDO_EXEC(.cmd = "cat", .input = { bytes, sizeof bytes - 1 }));

    assert_int_equal(result->out.bytes.len, sizeof bytes - 1);
    assert_memory_equal(result->out.bytes.ptr, bytes, sizeof bytes - 1);
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "cat"));
    assert_int_equal(result->exit_code, 0);
    expect_text(&result->out, "");
    waldo_exec_result_free(result);
}

static void any_bytes_come_out(void **state)
{
    contract *c = *state;
    waldo_exec_result *result = run(c, &WALDO_EXEC(.cmd = "printf 'x\\000y\\377\\376z'"));

    assert_int_equal(result->out.bytes.len, 6);
    assert_memory_equal(result->out.bytes.ptr, "x\0y\xff\xfez", 6);
    waldo_exec_result_free(result);
}

static void start_errors(void **state)
{
    contract *c = *state;
    char message[1024];

    assert_int_equal(run_status(c, &WALDO_EXEC(.argv = WALDO_STRINGS("/no/such/program")), message,
                                sizeof message),
                     WALDO_ESTART);
    assert_non_null(strstr(message, "no such"));
    assert_int_equal(
        run_status(c, &WALDO_EXEC(.cmd = "true", .cwd = "/no/where"), message, sizeof message),
        WALDO_ESTART);
    assert_int_equal(
        run_status(c, &WALDO_EXEC(.cmd = "true", .cwd = "../.."), message, sizeof message),
        WALDO_EPATH);
    assert_int_equal(run_status(c, &WALDO_EXEC(0), message, sizeof message), WALDO_EINVAL);
    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true", .argv = WALDO_STRINGS("true")),
                                message, sizeof message),
                     WALDO_EINVAL);
    assert_int_equal(run_status(c, &WALDO_EXEC(.argv = WALDO_STRINGS("")), message, sizeof message),
                     WALDO_EINVAL);
}

/* The time of a command that is to do something first; more of it where a machine is slow. */
static const int64_t times_ms[] = { 300, 3000, 30000 };

static void timeout_keeps_output(void **state)
{
    contract *c = *state;
    waldo_exec_result *result = NULL;

    for (size_t i = 0; i < WALDO__COUNT(times_ms) && (i == 0 || result->out.total == 0); i++) {
        waldo_exec_result_free(result);
        result = run(c, &WALDO_EXEC(.cmd = "printf partial; sleep 100", .timeout_ms = times_ms[i]));
        assert_int_equal(result->end, WALDO_EXEC_TIMED_OUT);
        assert_int_equal(result->timeout_ms, times_ms[i]);
    }
    expect_text(&result->out, "partial");
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "echo still here"));
    expect_text(&result->out, "still here\n");
    waldo_exec_result_free(result);
}

/* Several commands at once: what became of each. */
typedef struct many {
    int done;
    int ends[80];
    size_t bytes;
} many;

typedef struct one {
    many *all;
    int at;
} one;

static void took_one(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    one *job = userdata;

    (void)error;
    job->all->done++;
    job->all->ends[job->at] = status == WALDO_OK ? result->end : status;
    job->all->bytes += status == WALDO_OK ? result->out.bytes.len : 0;
}

static void drive_many(contract *c, many *all, int count)
{
    while (all->done < count) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
}

static void parallel(void **state)
{
    contract *c = *state;
    many all = { 0 };
    one jobs[40];

    for (int i = 0; i < 40; i++) {
        jobs[i] = (one){ &all, i };
        assert_int_equal(waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 0.05; echo x"),
                                            took_one, &jobs[i], NULL, NULL),
                         WALDO_OK);
    }
    drive_many(c, &all, 40);
    assert_int_equal(all.bytes, 80);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(all.ends[i], WALDO_EXEC_EXITED);
    }
}

static void one_times_out_the_other_lives(void **state)
{
    contract *c = *state;
    many all = { 0 };
    one jobs[2] = { { &all, 0 }, { &all, 1 } };
    waldo_job *other;

    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100", .timeout_ms = 300), took_one,
                       &jobs[0], NULL, NULL);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_one, &jobs[1], &other,
                       NULL);
    drive_many(c, &all, 1);
    assert_int_equal(all.ends[0], WALDO_EXEC_TIMED_OUT);
    waldo_exec_result_free(run(c, &WALDO_EXEC(.cmd = "sleep 0.1")));
    assert_int_equal(all.done, 1);
    waldo_job_cancel(other);
    waldo_job_cancel(other);
    drive_many(c, &all, 2);
    assert_int_equal(all.ends[1], WALDO_EXEC_CANCELLED);
}

/* Cancels at its eighth chunk, and keeps the thread for longer than any grace. */
typedef struct stall {
    waldo_job *job;
    int chunks;
    int count;
    waldo_status status;
    waldo_exec_end end;
} stall;

static void stall_output(void *userdata, int stream, waldo_str bytes)
{
    stall *s = userdata;

    (void)stream;
    (void)bytes;
    if (++s->chunks == 8) {
        waldo_job_cancel(s->job);
        poll(NULL, 0, 4000);
    }
}

static void stall_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                       const waldo_error *error)
{
    stall *s = userdata;

    (void)error;
    s->count++;
    s->status = status;
    s->end = result != NULL ? result->end : WALDO_EXEC_LOST;
}

/* A host that did not look for a while finds the end that came meanwhile, not a lost machine. */
static void a_busy_host_loses_nothing(void **state)
{
    contract *c = *state;
    stall s = { .count = 0 };
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "echo kept > /tmp/marker"));
    waldo_exec_result_free(result);
    assert_int_equal(waldo_sandbox_exec(c->sandbox,
                                        &WALDO_EXEC(.cmd = "yes", .flags = WALDO_EXEC_ALL_OUTPUT,
                                                    .on_output = stall_output, .grace_ms = 1),
                                        stall_done, &s, &s.job, NULL),
                     WALDO_OK);
    while (s.count == 0) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(s.status, WALDO_OK);
    assert_int_equal(s.end, WALDO_EXEC_CANCELLED);
    result = run(c, &WALDO_EXEC(.cmd = "cat /tmp/marker"));
    expect_text(&result->out, "kept\n");
    waldo_exec_result_free(result);
}

static void cancel_object(void **state)
{
    contract *c = *state;
    many all = { 0 };
    one jobs[2] = { { &all, 0 }, { &all, 1 } };
    waldo_cancel *cancel = waldo_cancel_new();

    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100", .cancel = cancel), took_one,
                       &jobs[0], NULL, NULL);
    assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    waldo_cancel_trigger(cancel);
    drive_many(c, &all, 1);
    assert_int_equal(all.ends[0], WALDO_EXEC_CANCELLED);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100", .cancel = cancel), took_one,
                       &jobs[1], NULL, NULL);
    drive_many(c, &all, 2);
    assert_int_equal(all.ends[1], WALDO_EXEC_CANCELLED);
    waldo_cancel_unref(cancel);
}

static void output_is_bounded_and_counted(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "printf HEAD; head -c 100000000 /dev/zero; printf TAIL",
                                .max_output = 65536, .max_capture = 1000000));
    assert_int_equal(result->exit_code, 0);
    assert_int_equal(result->out.total, 100000008);
    assert_int_equal(result->out.bytes.len, 65536);
    assert_int_equal(result->out.omitted, 100000008 - 65536);
    assert_int_equal(result->out.gap_at, 32768);
    assert_memory_equal(result->out.bytes.ptr, "HEAD", 4);
    assert_memory_equal(result->out.bytes.ptr + 65532, "TAIL", 4);
    assert_non_null(result->capture_path);
    assert_int_equal(result->capture_bytes, 1000000);
    assert_int_equal(result->capture_lost, 99000008);
    waldo_exec_result_free(result);
}

/* The names of capture files can be known before: a link in their place is not followed. */
static void captures_follow_no_links(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "echo mine > target; i=0; while [ $i -lt 20 ]; do "
                                       "ln -s /workspace/target /tmp/waldo-output-$i.txt; "
                                       "i=$((i + 1)); done"));
    assert_int_equal(result->exit_code, 0);
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "head -c 100000 /dev/zero", .max_output = 1000,
                                .max_capture = 1000000));
    assert_int_equal(result->out.total, 100000);
    assert_null(result->capture_path);
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "cat target"));
    expect_text(&result->out, "mine\n");
    waldo_exec_result_free(result);
}

/* Above what a hand keeps as a tail, the head is longer; everything asked for is kept. */
static void large_outputs_are_kept(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "head -c 20000000 /dev/zero", .max_output = 8000000));
    assert_int_equal(result->out.bytes.len, 8000000);
    assert_int_equal(result->out.omitted, 12000000);
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "head -c 8000000 /dev/zero", .max_output = 8000000));
    assert_int_equal(result->out.bytes.len, 8000000);
    assert_int_equal(result->out.omitted, 0);
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "head -c 1001 /dev/zero", .max_output = 1));
    assert_int_equal(result->out.bytes.len, 1);
    assert_int_equal(result->out.omitted, 1000);
    waldo_exec_result_free(result);
}

/* All of it, in order, with a bound on what is on its way. */
typedef struct sum {
    uint64_t bytes;
    int wrong;
    int done;
} sum;

static void add_output(void *userdata, int stream, waldo_str bytes)
{
    sum *total = userdata;

    total->wrong |= stream != 1;
    total->bytes += bytes.len;
}

static void sum_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    sum *total = userdata;

    (void)error;
    total->done = 1;
    total->wrong |= status != WALDO_OK || result->out.total != total->bytes;
}

static void all_output(void **state)
{
    contract *c = *state;
    sum total = { 0 };

    NEED(c, WALDO_BACKEND_CHANNEL);
    waldo_sandbox_exec(c->sandbox,
                       &WALDO_EXEC(.cmd = "head -c 20000000 /dev/zero", .max_output = 1000,
                                   .flags = WALDO_EXEC_ALL_OUTPUT, .on_output = add_output),
                       sum_done, &total, NULL, NULL);
    while (!total.done) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(total.bytes, 20000000);
    assert_false(total.wrong);
}

static void signals(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    many all = { 0 };
    one job = { &all, 0 };
    waldo_job *running;

    NEED(c, WALDO_BACKEND_SIGNAL);
    result = run(c, &WALDO_EXEC(.cmd = "kill -9 $$"));
    assert_int_equal(result->end, WALDO_EXEC_SIGNALED);
    assert_int_equal(result->signal, 9);
    waldo_exec_result_free(result);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.argv = WALDO_STRINGS("sleep", "100")), took_one,
                       &job, &running, NULL);
    assert_int_equal(waldo_job_signal(running, 0), WALDO_EINVAL);
    assert_int_equal(waldo_job_signal(running, 15), WALDO_OK);
    drive_many(c, &all, 1);
    assert_int_equal(all.ends[0], WALDO_EXEC_SIGNALED);
}

static void written_input(void **state)
{
    contract *c = *state;
    many all = { 0 };
    one job = { &all, 0 };
    waldo_job *running;
    char piece[100000];

    NEED(c, WALDO_BACKEND_STDIN);
    memset(piece, 'x', sizeof piece);
    waldo_sandbox_exec(c->sandbox,
                       &WALDO_EXEC(.argv = WALDO_STRINGS("cat"), .flags = WALDO_EXEC_KEEP_STDIN,
                                   .max_output = 8000000),
                       took_one, &job, &running, NULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(waldo_job_write(running, waldo__strn(piece, sizeof piece), i == 19),
                         WALDO_OK);
    }
    assert_int_equal(waldo_job_write(running, waldo__str("x"), 0), WALDO_ECLOSED);
    drive_many(c, &all, 1);
    assert_int_equal(all.bytes, 2000000);
}

/* What was left of a tree is looked for by a marker in its arguments. */
static void no_process_left(contract *c, const char *marker)
{
    char cmd[256];
    waldo_exec_result *result;

    snprintf(cmd, sizeof cmd,
             "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | "
             "grep -q '^sleep %s' && echo $p; done; true",
             marker);
    result = run(c, &WALDO_EXEC(.cmd = cmd));
    expect_text(&result->out, "");
    waldo_exec_result_free(result);
}

static void timeout_ends_the_tree(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_TREE_KILL | WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "env -i setsid sleep 7101 & (setsid sleep 7101 &) ; "
                                       "trap '' TERM; sleep 7101",
                                .timeout_ms = 300, .grace_ms = 200));
    assert_int_equal(result->end, WALDO_EXEC_TIMED_OUT);
    waldo_exec_result_free(result);
    no_process_left(c, "7101");
}

/* A command that ends its own job parent, however early, was started: its end is not known. */
static void losing_its_parent_is_no_failed_start(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_CHANNEL);
    for (int i = 0; i < 30; i++) {
        result = run(c, &WALDO_EXEC(.cmd = "kill -9 $PPID"));
        assert_true(result->end == WALDO_EXEC_LOST || result->end == WALDO_EXEC_EXITED);
        waldo_exec_result_free(result);
    }
}

static void daemon_does_not_delay(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "setsid sleep 7102 & echo started"));
    assert_int_equal(result->exit_code, 0);
    assert_int_equal(result->still_open, 1);
    expect_text(&result->out, "started\n");
    assert_true(result->wall_ns < INT64_C(60000000000));
    waldo_exec_result_free(result);
    result = run(c, &WALDO_EXEC(.cmd = "pidof sleep"));
    assert_int_equal(result->exit_code, 0);
    waldo_exec_result_free(result);
}

static void long_scripts(void **state)
{
    contract *c = *state;
    static const size_t sizes[] = { 1000, 98304, 98305, 131072, 300000 };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        waldo__buf script = WALDO__BUF_INIT(1024 * 1024);
        waldo_exec_result *result;

        waldo__buf_puts(&script, "echo begin\n");
        while (script.len < sizes[i] - 9) {
            waldo__buf_putc(&script, script.len % 80 == 0 ? '\n' : ' ');
        }
        waldo__buf_puts(&script, "\necho end");
        result = run(c, &WALDO_EXEC(.cmd = script.ptr));
        expect_text(&result->out, "begin\nend\n");
        waldo_exec_result_free(result);
        waldo__buf_free(&script);
    }
}

const struct CMUnitTest exec_cases[] = {
    CASE(exit_codes),
    CASE(argv_is_not_shell),
    CASE(streams_apart_and_together),
    CASE(environment_and_directory),
    CASE(input),
    CASE(any_bytes_come_out),
    CASE(start_errors),
    CASE(timeout_keeps_output),
    CASE(parallel),
    CASE(one_times_out_the_other_lives),
    CASE(cancel_object),
    CASE(a_busy_host_loses_nothing),
    CASE(output_is_bounded_and_counted),
    CASE(captures_follow_no_links),
    CASE(large_outputs_are_kept),
    CASE(all_output),
    CASE(signals),
    CASE(written_input),
    CASE(timeout_ends_the_tree),
    CASE(losing_its_parent_is_no_failed_start),
    CASE(daemon_does_not_delay),
    CASE(long_scripts),
};
const size_t exec_case_count = sizeof exec_cases / sizeof *exec_cases;
