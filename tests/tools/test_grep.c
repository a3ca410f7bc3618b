/* grep over the sandbox's own grep. */
#include "fixture.h"

static void test_golden(void **state)
{
    static const char *const calls[] = {
        "{\"pattern\":\"needle\"}",
        "{\"pattern\":\"NEEDLE\",\"ignore_case\":true}",
        "{\"pattern\":\"needle\",\"glob\":\"*.c\"}",
        "{\"pattern\":\"needle\",\"glob\":\"src/**\"}",
        "{\"pattern\":\"needle\",\"path\":\"src\"}",
        "{\"pattern\":\"needle\",\"path\":\"src/a.c\"}",
        "{\"pattern\":\"needle\",\"path\":\"line\\nbreak.txt\"}",
        "{\"pattern\":\"needle\",\"path\":\"/workspace/src\"}",
        "{\"pattern\":\"^needle (one|two)$\"}",
        "{\"pattern\":\"-e\"}",
        "{\"pattern\":\"caf.$\"}",
        "{\"pattern\":\"nowhere at all\"}",
        "{\"pattern\":\"needle\",\"glob\":\"*.rs\"}",
        "{\"pattern\":\"(\"}",
        "{\"pattern\":\"needle\",\"glob\":\"{a\"}",
        "{\"pattern\":\"needle\",\"path\":\"missing\"}",
        "{\"pattern\":\"needle\",\"path\":\"..\"}",
        "{\"pattern\":\"needle\",\"path\":\"pipe\"}",
        "{\"pattern\":\"needle\",\"path\":\"\"}",
        "{\"pattern\":\"wide\"}",
    };
    static const struct {
        const char *path;
        waldo_str bytes;
    } files[] = {
        { "src/a.c", WALDO__S("one\nneedle one\n") },
        { "src/b.h", WALDO__S("needle two") },
        { "src/crlf.txt", WALDO__S("needle\r\n") },
        { "-", WALDO__S("needle in dash\n") },
        { "-e", WALDO__S("needle in option\n-e\n") },
        { "two words.txt", WALDO__S("needle\n") },
        { "line\nbreak.txt", WALDO__S("needle A\nneedle B\n") },
        { ".git/config", WALDO__S("needle\n") },
        { ".hidden", WALDO__S("needle\n") },
        { "binary", WALDO__S("needle\0\n") },
        { "latin1", WALDO__S("needle\ncaf\xe9\n") },
    };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(files); i++) {
        put(f, files[i].path, files[i].bytes);
    }
    shell(f, "mkfifo pipe; ln -s src link;"
             "(printf wide; head -c 3000 /dev/zero | tr '\\0' x) >line");
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        golden_call(f, "grep", calls[i]);
    }
    golden_check(f, "grep.results");
}

/* More files than one command takes, and more than the model wants to see. */
static void test_many(void **state)
{
    fixture *f = *state;
    const char *text;

    shell(f,
          "mkdir many; i=0; while [ $i -lt 5000 ]; do echo \"match $i\" >many/$i; i=$((i+1)); done;"
          "echo last >many/z");
    text = reply_of(f, "grep", "{\"pattern\":\"^last$\"}");
    assert_string_equal(text, "many/z:1:last\n");
    text = reply_of(f, "grep", "{\"pattern\":\"absent\"}");
    assert_string_equal(text, "[no match in 5001 files]\n");
    text = reply_of(f, "grep", "{\"pattern\":\"match\"}");
    assert_true(strlen(text) < 40300);
    assert_memory_equal(text, "many/0:1:match 0\nmany/1:1:match 1\nmany/10:1:match 10\n", 53);
    assert_contains(text, "[there are more matches: use a narrower pattern, path or glob]\n");
    f->max_output = 100;
    text = reply_of(f, "grep", "{\"pattern\":\"match\",\"glob\":\"many/1*\"}");
    assert_true(strlen(text) < 300);
    assert_contains(text, "[there are more matches: ");
}

/* Files that may not be read are said, and do not hide what was found elsewhere. */
static void test_unreadable(void **state)
{
    fixture *f = *state;
    const char *text;

    put(f, "good", WALDO__S("needle\n"));
    put(f, "secret", WALDO__S("needle\n"));
    shell(f, "chmod 000 secret");
    text = reply_of(f, "grep", "{\"pattern\":\"needle\"}");
    assert_contains(text, "good:1:needle\n");
    assert_contains(text, "[some files could not be read]\n");
}

/* A sandbox whose programs are looked for somewhere else. */
static void use_path(fixture *f, const char *path)
{
    const char *const backends[] = { "local:", NULL };
    const char *const env[] = { path, NULL };
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends, .env = env));

    waldo_sandbox_unref(f->sandbox);
    f->sandbox = waldo_sandbox_new(f->rt, spec);
    waldo_sandbox_spec_unref(spec);
}

static void test_no_grep(void **state)
{
    fixture *f = *state;

    use_path(f, "PATH=/nowhere");
    put(f, "a", WALDO__S("needle\n"));
    assert_string_equal(failure_of(f, "grep", "{\"pattern\":\"needle\"}"),
                        "grep could not be run in the sandbox: grep: the command could not be "
                        "started: no such file or directory");
}

/* A grep that never ends is ended by a cancel. */
static void test_cancel(void **state)
{
    fixture *f = *state;
    outcome out;
    waldo_tool_call *call;

    use_path(f, "PATH=/workspace/bin:/usr/bin:/bin");
    put(f, "bin/grep", WALDO__S("#!/bin/sh\nwhile :; do echo x >>beat; sleep 0.02; done\n"));
    shell(f, "chmod 755 bin/grep");
    call = start(f, "grep", "{\"pattern\":\"x\"}", &out);
    shell(f, "while ! test -s beat; do sleep 0.02; done");
    assert_int_equal(out.count, 0);
    waldo__tool_call_cancel(call);
    waldo__tool_call_release(call);
    wait_quiet(f, "beat");
    assert_int_equal(out.count, 0);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { ONE(test_golden), ONE(test_many), ONE(test_unreadable),
                                        ONE(test_no_grep), ONE(test_cancel) };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}
