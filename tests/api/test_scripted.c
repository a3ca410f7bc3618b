/* Scripted sandboxes as an agent meets them: every tool, every kind of command, every failure. */
#include "scripted.h"

/* ---- commands ---- */

static void an_agent_works_in_it(void **state)
{
    static const waldo_testing_turn turns[] = {
        { .text = "I see. ", RUN("make test") },
        { .expect = "Exit code: 2", .call = "read_file", .args = "{\"path\":\"log\"}" },
        { .expect = "test 3: SIGFPE",
          .call = "edit_file",
          .args = "{\"path\":\"src/a.c\",\"old_text\":\"a / b\",\"new_text\":\"b ? a / b : 0\"}" },
        { RUN("make test") },
        { .expect = "all good", .text = "done" },
    };
    static const waldo_testing_file log[] = { { .path = "log", .bytes = "test 3: SIGFPE\n" } };
    static const waldo_testing_command commands[] = {
        { .cmd = "make test",
          .output = "1 of 7 failed\n",
          .errors = "make: *** [test] Error 1\n",
          .exit_code = 2,
          WALDO_TESTING_FILES(log) },
        { .cmd = "make *", .output = "all good\n" },
    };
    static const waldo_testing_file files[] = { { .path = "src/a.c", .bytes = "return a / b;\n" } };
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands), WALDO_TESTING_FILES(files)), NULL);
    const waldo_testing_asked *asked;

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:,memory=1g,net=packages,min_isolation=vm"));
    assert_file(sandbox, "src/a.c", "return b ? a / b : 0;\n");
    asked = waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_EXEC, 1);
    assert_string_equal(asked->text, "make test");
    assert_string_equal(asked->cwd, "/workspace");
    assert_string_equal(asked->argv[0], "/bin/sh");
    assert_string_equal(asked->argv[1], "-c");
    assert_int_equal(asked->timeout_ms, 120000);
    assert_int_equal(asked->command, 1);
    assert_null(waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_EXEC, 2));
    asked = waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_WRITE, 0);
    assert_string_equal(asked->text, "/workspace/src/a.c");
    assert_string_equal(asked->bytes.ptr, "return b ? a / b : 0;\n");
    assert_int_equal(waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_ANY, 0)->kind,
                     WALDO_TESTING_EXEC);
    assert_int_equal(waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_ANY, 1)->kind,
                     WALDO_TESTING_WRITE);
    assert_checked(sandbox, NULL);
}

static void commands_end_as_told(void **state)
{
    static const waldo_testing_turn turns[] = {
        { RUN("killed") },
        { .expect = "Ended by signal 9 (SIGKILL)", RUN("term") },
        { .expect = "Ended by signal 15 (SIGTERM)", RUN("slow") },
        { .expect = "Timed out after 120000 ms", RUN("oom") },
        { .expect = "Ended because memory ran out", RUN("away") },
        { .expect = "outcome unknown", RUN("nothing") },
        { .expect = "nothing: not here", RUN("broken") },
        { .expect = "input or output failed", RUN("slowly") },
        { .expect = "Exit code: 3",
          .call = "exec_command",
          .args = "{\"cmd\":\"hang\",\"timeout_ms\":20}" },
        { .expect = "Timed out after 20 ms", .text = "done" },
    };
    static const waldo_testing_command commands[] = {
        { .cmd = "killed", .end = WALDO_EXEC_SIGNALED },
        { .cmd = "term", .signal = 15 },
        { .cmd = "slow", .end = WALDO_EXEC_TIMED_OUT },
        { .cmd = "oom", .end = WALDO_EXEC_OOM },
        { .cmd = "away", .end = WALDO_EXEC_LOST },
        { .cmd = "nothing", .errors = "nothing: not here\n", .exit_code = 127 },
        { .cmd = "broken", .fail = WALDO_EIO },
        { .cmd = "slowly", .delay_ms = 5, .exit_code = 3 },
        { .cmd = "hang", .output = "so far", .delay_ms = WALDO_FOREVER },
    };
    waldo_testing_sandbox *sandbox =
        waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), NULL);

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_checked(sandbox, NULL);
}

static void an_unexpected_command_is_named(void **state)
{
    static const waldo_testing_turn turns[] = {
        { RUN("ls") },
        { .expect = "command 1 is \\\"ls\\\" in /workspace", RUN("make all") },
        { .expect = "command 1 is", .call = "read_file", .args = "{\"path\":\"a\"}" },
        { .text = "done" },
    };
    static const waldo_testing_command commands[] = {
        { .cmd = "make *" },
        { .cmd = "git status", .times = WALDO_TESTING_ALWAYS },
        { .cmd = "later" },
    };
    static const waldo_testing_file files[] = { { .path = "a", .bytes = "x" } };
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands), WALDO_TESTING_FILES(files)), NULL);

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_int_equal(waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_EXEC, 0)->command,
                     SIZE_MAX);
    assert_checked(sandbox, "scripted: command 1 is \"ls\" in /workspace, the script has "
                            "\"make *\", or at any time \"git status\"");
}

static void what_did_not_come_is_named(void **state)
{
    static const waldo_testing_turn turns[] = { { RUN("make") }, { .text = "done" } };
    static const waldo_testing_command commands[] = {
        { .cmd = "make", .cwd = "/workspace/.", .times = 3 }
    };
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(.name = "a.b", WALDO_TESTING_COMMANDS(commands)), NULL);

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:a.b"));
    assert_checked(sandbox,
                   "scripted:a.b: the script has \"make\" in /workspace/., which came 1 of "
                   "3 times");
}

/* One command after another, in a sandbox that is opened once; says where it goes wrong. */
static const char *commands_of(const waldo_testing_sandbox_options *options,
                               const char *const *cmds)
{
    static char said[512];
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(options, NULL);
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("scripted:")));
    waldo_sandbox *machine = waldo_sandbox_new(rt, spec);
    waldo_error *error = NULL;

    for (size_t i = 0; cmds[i] != NULL && error == NULL; i++) {
        waldo_exec_result *result = NULL;

        waldo_sandbox_exec_wait(machine, &WALDO_EXEC(.cmd = cmds[i]), &result, &error);
        waldo_exec_result_free(result);
    }
    if (error == NULL) {
        waldo_testing_sandbox_check(sandbox, &error);
    }
    snprintf(said, sizeof said, "%s", error != NULL ? waldo_error_message(error) : "");
    waldo_error_free(error);
    waldo_sandbox_unref(machine);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
    waldo_testing_sandbox_free(sandbox);
    return said;
}

static void order_and_times(void **state)
{
    static const waldo_testing_command commands[] = {
        { .cmd = "a", .times = 2 },
        { .cmd = "b" },
        { .cmd = "pwd", .times = WALDO_TESTING_ALWAYS },
    };
    const waldo_testing_sandbox_options in_order =
        WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands));
    const waldo_testing_sandbox_options any_order =
        WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands), .flags = WALDO_TESTING_ANY_ORDER);

    (void)state;
    assert_string_equal(commands_of(&in_order, WALDO_STRINGS("a", "pwd", "a", "b", "pwd")), "");
    assert_contains(commands_of(&in_order, WALDO_STRINGS("a", "b")), "command 2 is \"b\"");
    assert_contains(commands_of(&in_order, WALDO_STRINGS("a", "a", "a")),
                    "the script has \"b\", or at any time");
    assert_contains(commands_of(&in_order, WALDO_STRINGS("a", "a", "b", "b")),
                    "the script has no more commands, or at any time \"pwd\"");
    assert_string_equal(commands_of(&any_order, WALDO_STRINGS("b", "a", "a")), "");
    assert_contains(commands_of(&any_order, WALDO_STRINGS("c")), "has \"a\" or \"b\", or at any");
    assert_contains(commands_of(&any_order, WALDO_STRINGS("b", "a")), "came 1 of 2 times");
}

static void patterns(void **state)
{
    static const struct {
        const char *pattern;
        const char *cmd;
        int fits;
    } cases[] = {
        { "make", "make", 1 },
        { "make", "make ", 0 },
        { "make*", "make", 1 },
        { "make *", "make", 0 },
        { "*", "", 1 },
        { "", "", 1 },
        { "*.c", "ls a.c b.c", 1 },
        { "*.c", "ls a.c.h", 0 },
        { "a*b*c", "aXbXbXc", 1 },
        { "a*b*c", "aXcXb", 0 },
        { "**", "x", 1 },
        { "ls \\*.c", "ls *.c", 1 },
        { "ls \\*.c", "ls x.c", 0 },
        { "ls \\*.c", "ls \\*.c", 0 },
        { "a\\b", "a\\b", 1 },
        { "*\\**", "1 * 2", 1 },
        { "*\\**", "1 + 2", 0 },
        { "x*", "yx", 0 },
        { "*aab", "aaab", 1 },
        { NULL, "anything", 1 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const waldo_testing_command commands[] = { { .cmd = cases[i].pattern } };
        const waldo_testing_sandbox_options options =
            WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands));
        const char *said = commands_of(&options, WALDO_STRINGS(cases[i].cmd));

        if ((said[0] == '\0') != cases[i].fits) {
            fail_msg("%s and %s: %s", cases[i].pattern, cases[i].cmd, said);
        }
    }
}

/* ---- files ---- */

static void every_tool_of_files(void **state)
{
    static const waldo_testing_turn turns[] = {
        { .call = "ls" },
        { .expect = "README  4",
          .call = "write_file",
          .args = "{\"path\":\"out/x.txt\",\"content\":\"one\\ntwo\\n\"}" },
        { .call = "glob", .args = "{\"pattern\":\"**/*.txt\"}" },
        { .expect = "out/x.txt", .call = "grep", .args = "{\"pattern\":\"^t.o$\"}" },
        { .expect = "\"text\":\"out/x.txt:2:two\\n\"",
          .call = "grep",
          .args = "{\"pattern\":\"HI+\",\"ignore_case\":true,\"path\":\"README\"}" },
        { .expect = "README:1:hi", .call = "grep", .args = "{\"pattern\":\"nowhere\"}" },
        { .expect = "[no match in 3 files]", .call = "grep", .args = "{\"pattern\":\"(\"}" },
        { .expect = "grep failed: grep: ",
          .call = "apply_patch",
          .args = "{\"patch\":\"*** Begin Patch\\n*** Update File: out/x.txt\\n-one\\n+1\\n"
                  "*** Delete File: README\\n*** Add File: new\\n+n\\n*** End Patch\"}" },
        { .expect = "Updated", .call = "read_file", .args = "{\"path\":\"out/x.txt\"}" },
        { .expect = "1\\ntwo", .call = "read_file", .args = "{\"path\":\"README\"}" },
        { .expect = "README does not exist", .text = "done" },
    };
    static const waldo_testing_file files[] = {
        { .path = "README", .bytes = "hi\n\n" },
        { .path = "empty/" },
        { .path = "/workspace/bin", .bytes = "two\n\0", .len = 5, .mode = 0755 },
    };
    waldo_testing_sandbox *sandbox =
        waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(WALDO_TESTING_FILES(files)), NULL);
    waldo_str bytes;

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_file(sandbox, "out/x.txt", "1\ntwo\n");
    assert_file(sandbox, "/workspace/new", "n\n");
    assert_int_equal(waldo_testing_sandbox_file(sandbox, "README", &bytes), WALDO_ENOTFOUND);
    assert_int_equal(waldo_testing_sandbox_file(sandbox, "empty", &bytes), WALDO_EPATH);
    assert_string_equal(waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_REMOVE, 0)->text,
                        "/workspace/README");
    assert_checked(sandbox, NULL);
}

static void files_fail_as_told(void **state)
{
    static const waldo_testing_turn turns[] = {
        { .call = "read_file", .args = "{\"path\":\"secret\"}" },
        { .expect = "permission denied",
          .call = "write_file",
          .args = "{\"path\":\"full\",\"content\":\"x\"}" },
        { .expect = "no space left", .call = "read_file", .args = "{\"path\":\"full\"}" },
        { .expect = "old", .call = "write_file", .args = "{\"path\":\"no\",\"content\":\"\"}" },
        { .expect = "permission denied", .text = "done" },
    };
    static const waldo_testing_file files[] = {
        { .path = "secret", .bytes = "s", .fail_read = WALDO_EACCESS },
        { .path = "full", .bytes = "old", .fail_write = WALDO_ENOSPACE },
        { .path = "no", .fail_write = WALDO_EACCESS },
    };
    waldo_testing_sandbox *sandbox =
        waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(WALDO_TESTING_FILES(files)), NULL);
    waldo_str bytes;

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_file(sandbox, "full", "old");
    assert_int_equal(waldo_testing_sandbox_file(sandbox, "no", &bytes), WALDO_ENOTFOUND);
    assert_checked(sandbox, NULL);
}

static void files_are_put_at_any_time(void **state)
{
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(), NULL);
    static const waldo_testing_turn turns[] = {
        { .call = "read_file", .args = "{\"path\":\"a/b\"}" },
        { .expect = "second", .text = "done" },
    };

    (void)state;
    assert_int_equal(
        waldo_testing_sandbox_put(sandbox, &(waldo_testing_file){ .path = "a/b", .bytes = "1" }),
        WALDO_OK);
    assert_int_equal(waldo_testing_sandbox_put(
                         sandbox, &(waldo_testing_file){ .path = "a/b", .bytes = "second" }),
                     WALDO_OK);
    assert_int_equal(waldo_testing_sandbox_put(sandbox, &(waldo_testing_file){ .path = "a/b/" }),
                     WALDO_EEXISTS);
    assert_int_equal(
        waldo_testing_sandbox_put(sandbox, &(waldo_testing_file){ .path = "a", .bytes = "x" }),
        WALDO_EPATH);
    assert_int_equal(
        waldo_testing_sandbox_put(sandbox, &(waldo_testing_file){ .path = "a/b/c", .bytes = "x" }),
        WALDO_EPATH);
    assert_int_equal(waldo_testing_sandbox_put(sandbox, &(waldo_testing_file){ .path = "x" }),
                     WALDO_EINVAL);
    assert_int_equal(
        waldo_testing_sandbox_put(
            sandbox, &(waldo_testing_file){ .path = "x", .bytes = "", .fail_read = WALDO_EIO }),
        WALDO_EINVAL);
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_null(waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_ANY, 0));
    assert_checked(sandbox, NULL);
}

/* ---- failing machines ---- */

static void opening_fails(void **state)
{
    static const waldo_testing_turn turns[] = {
        { RUN("a") },
        { .expect = "scripted: the script lets opening fail", RUN("a") },
        { .expect = "Exit code: 0", .text = "done" },
    };
    static const waldo_testing_command commands[] = { { .cmd = "a" } };
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands), .open_ms = 5,
                               .fail_open = WALDO_EQUOTA, .fail_open_times = 1),
        NULL);

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_checked(sandbox, NULL);
}

static void another_backend_takes_over(void **state)
{
    static const waldo_testing_turn turns[] = {
        { .call = "write_file", .args = "{\"path\":\"note\",\"content\":\"kept\"}" },
        { RUN("crash") },
        { .expect = "lost", .call = "read_file", .args = "{\"path\":\"note\"}" },
        { .expect = "kept", RUN("go on") },
        { .expect = "Exit code: 0", .text = "done" },
    };
    static const waldo_testing_command first[] = {
        { .cmd = "crash", .output = "last words", .delay_ms = 5, .fail = WALDO_ELOST },
    };
    static const waldo_testing_command second[] = { { .cmd = "go on" } };
    waldo_testing_sandbox *none = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(.name = "none", .fail_open = WALDO_EUNAVAILABLE), NULL);
    waldo_testing_sandbox *one = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(.name = "one", WALDO_TESTING_COMMANDS(first)), NULL);
    waldo_testing_sandbox *two = waldo_testing_sandbox_new(
        &WALDO_TESTING_SANDBOX(.name = "two", WALDO_TESTING_COMMANDS(second)), NULL);

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:none", "scripted:one", "scripted:two"));
    assert_file(two, "note", "kept");
    assert_checked(none, NULL);
    assert_checked(one, NULL);
    assert_checked(two, NULL);
}

static void the_only_machine_is_lost(void **state)
{
    static const waldo_testing_turn turns[] = {
        { RUN("crash") },
        { .expect = "outcome unknown", RUN("again") },
        { .expect = "the sandbox was lost", .text = "done" },
    };
    static const waldo_testing_command commands[] = { { .cmd = "crash", .fail = WALDO_ELOST } };
    waldo_testing_sandbox *sandbox =
        waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), NULL);

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:"));
    assert_checked(sandbox, NULL);
}

static void bad_scripts_are_refused(void **state)
{
    static const waldo_testing_file folder_with_bytes[] = { { .path = "a/", .bytes = "x" } };
    static const waldo_testing_file nothing[] = { { .path = NULL } };
    static const struct {
        waldo_testing_command command;
        const char *said;
    } commands[] = {
        { { .times = -2 }, "times" },
        { { .delay_ms = -2 }, "delay_ms" },
        { { .fail = 3 }, "fail is not" },
        { { .end = 99 }, "WALDO_EXEC_" },
        { { .output_len = 3 }, "without its bytes" },
        { { .file_count = 1 }, "files without" },
        { { .files = nothing, .file_count = 1 }, "leaves behind" },
    };
    const struct {
        waldo_testing_sandbox_options options;
        const char *said;
    } cases[] = {
        { WALDO_TESTING_SANDBOX(.name = "a b"), "letters" },
        { WALDO_TESTING_SANDBOX(.flags = 8), "out of range" },
        { WALDO_TESTING_SANDBOX(.open_ms = -1), "out of range" },
        { WALDO_TESTING_SANDBOX(.open_ms = INT64_MAX), "out of range" },
        { WALDO_TESTING_SANDBOX(.fail_open = 1), "out of range" },
        { WALDO_TESTING_SANDBOX(.isolation = 99), "out of range" },
        { WALDO_TESTING_SANDBOX(.file_count = 1), "without its array" },
        { WALDO_TESTING_SANDBOX(.files = folder_with_bytes, .file_count = 1), "file 0" },
        { { .size = 2 }, "WALDO_TESTING_SANDBOX()" },
    };
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(), NULL);
    waldo_error *error = NULL;

    (void)state;
    assert_non_null(sandbox);
    assert_null(waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(), &error));
    assert_int_equal(waldo_error_status(error), WALDO_EEXISTS);
    waldo_error_free(error);
    waldo_testing_sandbox_free(sandbox);
    for (size_t i = 0; i < COUNT(commands) + COUNT(cases); i++) {
        const waldo_testing_sandbox_options one =
            WALDO_TESTING_SANDBOX(.commands = &commands[i % COUNT(commands)].command,
                                  .command_count = 1);
        const char *said = i < COUNT(commands) ? commands[i].said : cases[i - COUNT(commands)].said;

        error = NULL;
        assert_null(waldo_testing_sandbox_new(
            i < COUNT(commands) ? &one : &cases[i - COUNT(commands)].options, &error));
        assert_int_equal(waldo_error_status(error), WALDO_EINVAL);
        assert_contains(waldo_error_message(error), said);
        waldo_error_free(error);
    }
    waldo_testing_sandbox_free(NULL);
}

static void options_of_other_versions(void **state)
{
    struct {
        waldo_testing_sandbox_options known;
        int32_t more;
    } newer = { .known = { .size = sizeof newer } };
    waldo_testing_sandbox *sandbox = waldo_testing_sandbox_new(NULL, NULL);
    waldo_error *error = NULL;

    (void)state;
    assert_non_null(sandbox);
    waldo_testing_sandbox_free(sandbox);
    sandbox = waldo_testing_sandbox_new(
        &(waldo_testing_sandbox_options){ .size = 4, .isolation = 99 }, NULL);
    assert_non_null(sandbox);
    waldo_testing_sandbox_free(sandbox);
    sandbox = waldo_testing_sandbox_new(&newer.known, NULL);
    assert_non_null(sandbox);
    waldo_testing_sandbox_free(sandbox);
    newer.more = 1;
    assert_null(waldo_testing_sandbox_new(&newer.known, &error));
    assert_contains(waldo_error_message(error), "of this version");
    waldo_error_free(error);
}

static void one_that_is_not_there_is_named(void **state)
{
    static const waldo_testing_turn turns[] = {
        { RUN("a") },
        { .expect = "waldo_testing_sandbox_new()", .text = "done" },
    };

    (void)state;
    assert_ran(RUN_IN(turns, "scripted:gone"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_works_in_it),
        cmocka_unit_test(commands_end_as_told),
        cmocka_unit_test(an_unexpected_command_is_named),
        cmocka_unit_test(what_did_not_come_is_named),
        cmocka_unit_test(order_and_times),
        cmocka_unit_test(patterns),
        cmocka_unit_test(every_tool_of_files),
        cmocka_unit_test(files_fail_as_told),
        cmocka_unit_test(files_are_put_at_any_time),
        cmocka_unit_test(opening_fails),
        cmocka_unit_test(another_backend_takes_over),
        cmocka_unit_test(the_only_machine_is_lost),
        cmocka_unit_test(bad_scripts_are_refused),
        cmocka_unit_test(options_of_other_versions),
        cmocka_unit_test(one_that_is_not_there_is_named),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
