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

static void test_cancel(void **state)
{
    fixture *f = *state;
    outcome out;
    waldo_tool_call *call;

    /* A pattern that takes long on a file that is long. */
    shell(f, "head -c 200000 /dev/zero | tr '\\0' a >slow");
    call = start(f, "grep", "{\"pattern\":\"(a*)*(a*)*\\\\1\\\\2b\"}", &out);
    for (int i = 0; i < 20 && out.count == 0; i++) {
        waldo_runtime_step(f->rt, 50);
    }
    waldo__tool_call_cancel(call);
    waldo__tool_call_release(call);
    assert_contains(
        reply_of(f, "exec_command",
                 "{\"cmd\":\"while pgrep -x grep >/dev/null; do sleep 0.05; done; echo gone\","
                 "\"timeout_ms\":20000}"),
        "gone\n");
    outcome_free(&out);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { ONE(test_golden), ONE(test_many), ONE(test_unreadable),
                                        ONE(test_cancel) };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}
