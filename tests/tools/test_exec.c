/* exec_command over real commands: what the model reads, bounds, ends. */
#include "fixture.h"

#include <sys/resource.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What takes its time is done again where a machine that stood still has spoilt it. */
static void golden_call_in_time(fixture *f, const char *args)
{
    static const char *const slow[][2] = { { "printf three", "onetwothree" },
                                           { "printf partial", "partialerr" } };
    const char *wanted = "";

    for (size_t i = 0; i < WALDO__COUNT(slow); i++) {
        wanted = strstr(args, slow[i][0]) != NULL ? slow[i][1] : wanted;
    }
    for (int i = 0; i < 5; i++) {
        size_t begin = f->transcript.len;

        golden_call(f, "exec_command", args);
        if (i == 4 || strstr(waldo__buf_str(&f->transcript).ptr + begin, wanted) != NULL) {
            break;
        }
        f->transcript.len = begin;
    }
}

static void test_golden(void **state)
{
    static const char *const calls[] = {
        "{\"cmd\":\"echo hello\"}",
        "{\"cmd\":\"true\"}",
        "{\"cmd\":\"printf 'no newline'; exit 3\"}",
        "{\"cmd\":\"pwd; echo $0\"}",
        "{\"cmd\":\"pwd\",\"workdir\":\"sub dir\"}",
        "{\"cmd\":\"pwd\",\"workdir\":\"/tmp\"}",
        "{\"cmd\":\"pwd\",\"workdir\":\"missing\"}",
        "{\"cmd\":\"pwd\",\"workdir\":\"../..\"}",
        "{\"cmd\":\"pwd\",\"workdir\":null,\"timeout_ms\":null,\"login\":null}",
        "{\"cmd\":\"cat\"}",
        "{\"cmd\":\"kill -SEGV $$\"}",
        "{\"cmd\":\"kill -9 $$\"}",
        "{\"cmd\":\"no-such-program-here\"}",
        "{\"cmd\":\"printf 'a\\\\0b\\\\377\\\\303\\\\251\\\\343\\\\n'\"}",
        "{\"cmd\":\"printf one; sleep 0.4; printf two >&2; sleep 0.4; printf three\"}",
        "{\"cmd\":\"printf partial; printf err >&2; sleep 60\",\"timeout_ms\":1500}",
        "{\"cmd\":\"true\",\"timeout_ms\":0}",
        "{\"cmd\":\"true\",\"timeout_ms\":-1}",
        "{\"cmd\":\"true\",\"timeout_ms\":86400001}",
        "{\"cmd\":\"\"}",
        "{\"cmd\":\"echo done\",\"login\":true}",
        "{\"cmd\":\"# only a comment\"}",
        "{\"cmd\":\"echo a\\necho b\"}",
    };
    fixture *f = *state;

    shell(f, "mkdir 'sub dir'");
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        golden_call_in_time(f, calls[i]);
    }
    golden_check(f, "exec_command.results");
}

/* The limit of the sandbox is named when the call gave none. */
static void test_default_timeout(void **state)
{
    fixture *f = *state;
    const char *backends[] = { "local:", NULL };
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = backends, .command_timeout_ms = 200));

    waldo_sandbox_unref(f->sandbox);
    f->sandbox = waldo_sandbox_new(f->rt, spec);
    waldo_sandbox_spec_unref(spec);
    assert_contains(reply_of(f, "exec_command", "{\"cmd\":\"sleep 60\"}"),
                    "Timed out after 200 ms (the sandbox's limit; timeout_ms allows more); the "
                    "command and everything it started were ended\n");
}

/* The end of a log is what matters, however long the line before it. */
static void test_long_line_then_error(void **state)
{
    fixture *f = *state;
    const char *text =
        reply_of(f, "exec_command",
                 "{\"cmd\":\"head -c 300000 /dev/zero | tr '\\\\0' x; echo; echo FATAL: "
                 "here\"}");

    assert_true(strlen(text) < 40500);
    assert_contains(text, "Whole output: /tmp/waldo-output-1.txt (300013 bytes); read on with "
                          "read_file and byte_offset\nOutput:\nxxx");
    assert_contains(text, "\n[... 260013 bytes omitted ...]\nxxx");
    assert_contains(text, "xxx\nFATAL: here\n");
}

static uint64_t peak_kb(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss;
}

/* 100 MB: bounded here, counted exactly, and what was kept can be read on. */
static void test_hundred_megabytes(void **state)
{
    fixture *f = *state;
    uint64_t before, total = 100 * 1000 * 1000, omitted;
    char args[200], want[100];
    const char *text;

    reply_of(f, "exec_command", "{\"cmd\":\"true\"}");
    before = peak_kb();
    text = reply_of(f, "exec_command", "{\"cmd\":\"yes 123456789 | head -c 100000000\"}");
    assert_true(peak_kb() - before < 8 * 1024);
    assert_true(strlen(text) < 40500);
    assert_contains(text, "Exit code: 0\n");
    snprintf(want, sizeof want, "(%d bytes, %d more did not fit)", 64 * 1024 * 1024,
             100 * 1000 * 1000 - 64 * 1024 * 1024);
    assert_contains(text, want);
    omitted = strtoull(strstr(text, "[... ") + 5, NULL, 10);
    assert_int_equal(omitted, total - 40000);
    /* read on where the head ended */
    snprintf(args, sizeof args, "{\"path\":\"/tmp/waldo-output-1.txt\",\"byte_offset\":20000}");
    text = reply_of(f, "read_file", args);
    assert_memory_equal(text, "123456789\n123456789\n", 20);
    assert_contains(text, "[bytes 20000 to 60000 of 67108864; go on with byte_offset=60000]");
}

static void test_zeros(void **state)
{
    fixture *f = *state;
    const char *text = reply_of(f, "exec_command", "{\"cmd\":\"head -c 52428800 /dev/zero\"}");

    /* each NUL is three bytes to the model, and the budget is counted in those */
    assert_true(strlen(text) < 40500);
    assert_contains(text, "[... 52415467 bytes omitted ...]");
    assert_contains(
        reply_of(f, "read_file", "{\"path\":\"/tmp/waldo-output-1.txt\",\"byte_offset\":0}"),
        "[bytes 0 to 13333 of 52428800; go on with byte_offset=13333]");
}

/* What a command leaves behind neither delays its result nor dies with it. */
static void test_daemons(void **state)
{
    static const char *const cmds[] = {
        "{\"cmd\":\"sleep 300 & echo started\"}",
        "{\"cmd\":\"setsid sleep 300 & echo started\"}",
        "{\"cmd\":\"nohup sh -c 'sleep 300' & echo started\"}",
        "{\"cmd\":\"(while :; do echo x | tee -a beat; sleep 0.01; done) & echo started\"}",
    };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(cmds); i++) {
        double begun = seconds();
        const char *text = reply_of(f, "exec_command", cmds[i]);

        assert_true(seconds() - begun < 60); /* of the 300 that they go on */
        assert_contains(text, "started\n");
        assert_contains(text, "Something it left running still holds its output open\n");
    }
    shell(f, "a=$(wc -c <beat); while [ \"$a\" = \"$(wc -c <beat)\" ]; do sleep 0.02; done");
}

static void test_timeout_ends_the_tree(void **state)
{
    fixture *f = *state;
    const char *text = "";
    size_t len, later;

    for (int ms = 1500; ms < 60000 && strstr(text, "it has begun") == NULL; ms *= 6) {
        char args[256], wanted[64];

        snprintf(args, sizeof args,
                 "{\"cmd\":\"(setsid env -i sh -c 'while :; do echo x >>beat; sleep 0.02; done' "
                 ">/dev/null 2>&1 &); sleep 300\",\"timeout_ms\":%d}",
                 ms);
        snprintf(wanted, sizeof wanted, "Timed out after %d ms (timeout_ms of this call)", ms);
        assert_contains(reply_of(f, "exec_command", args), wanted);
        /* Else it was too slow for that: it gets more time. */
        text = reply_of(f, "exec_command", "{\"cmd\":\"test -s beat && echo it has begun\"}");
    }
    waldo__free(get(f, "beat", &len));
    reply_of(f, "exec_command", "{\"cmd\":\"sleep 0.2\"}");
    waldo__free(get(f, "beat", &later));
    assert_int_equal(len, later);
}

/* Two at once: the timeout of one does not touch the other. */
static void test_parallel(void **state)
{
    fixture *f = *state;
    outcome outs[2];
    waldo_tool_call *calls[2];

    calls[0] = start(f, "exec_command",
                     "{\"cmd\":\"while ! test -e go; do sleep 0.02; done; echo lived\"}", &outs[0]);
    calls[1] = start(f, "exec_command", "{\"cmd\":\"sleep 100\",\"timeout_ms\":100}", &outs[1]);
    finish(f, &outs[1]);
    assert_contains(outs[1].text, "Timed out after 100 ms");
    assert_int_equal(outs[0].count, 0);
    put(f, "go", WALDO__S(""));
    finish(f, &outs[0]);
    assert_contains(outs[0].text, "Exit code: 0\n");
    assert_contains(outs[0].text, "lived\n");
    for (int i = 0; i < 2; i++) {
        waldo__tool_call_release(calls[i]);
        outcome_free(&outs[i]);
    }
}

static void test_cancel(void **state)
{
    fixture *f = *state;
    outcome out;
    waldo_tool_call *call =
        start(f, "exec_command",
              "{\"cmd\":\"(setsid sh -c 'while :; do echo x >>beat; sleep 0.02; done' &); sleep "
              "600\"}",
              &out);

    shell(f, "while ! test -s beat; do sleep 0.02; done");
    assert_int_equal(out.count, 0);
    waldo__tool_call_cancel(call);
    waldo__tool_call_release(call);
    wait_quiet(f, "beat");
    assert_int_equal(out.count, 0);
}

static void test_live_output(void **state)
{
    fixture *f = *state;
    outcome out;
    waldo_tool_call *call =
        start(f, "exec_command", "{\"cmd\":\"printf 12345; printf 123 >&2\"}", &out);

    finish(f, &out);
    assert_int_equal(out.live[0], 5);
    assert_int_equal(out.live[1], 3);
    waldo__tool_call_release(call);
    outcome_free(&out);
}

static void test_small_budget(void **state)
{
    fixture *f = *state;

    f->max_output = 10;
    assert_contains(reply_of(f, "exec_command", "{\"cmd\":\"printf abcdefghijklmnopqrstuvwxyz\"}"),
                    "(26 bytes); read on with read_file and byte_offset\nOutput:\nabcde\n[... 16 "
                    "bytes omitted ...]\nvwxyz");
}

/* Text beyond one argument and one frame. */
static void test_long_script(void **state)
{
    static const size_t sizes[] = { 100000, 131072, 300000 };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(sizes); i++) {
        char *args = malloc(sizes[i] + 200);
        size_t len = (size_t)sprintf(args, "{\"cmd\":\"echo begin; : '");

        memset(args + len, 'x', sizes[i]);
        memcpy(args + len + sizes[i], "'; echo end\"}", 14);
        assert_contains(reply_of(f, "exec_command", args), "begin\nend\n");
        free(args);
    }
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ONE(test_golden),
        ONE(test_default_timeout),
        ONE(test_long_line_then_error),
        ONE(test_hundred_megabytes),
        ONE(test_zeros),
        ONE(test_daemons),
        ONE(test_timeout_ends_the_tree),
        ONE(test_parallel),
        ONE(test_cancel),
        ONE(test_live_output),
        ONE(test_small_budget),
        ONE(test_long_script),
    };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}
