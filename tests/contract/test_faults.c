/*
 * Faults that users of other libraries have met, each as a small test on a real sandbox; all are
 * listed in peer_faults.txt. usage: test-faults SANDBOX-STRING GOLDEN-FOLDER
 */
#include "../tools/fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

#define QUICK_NS INT64_C(60000000000) /* far below what is slept, far above what is needed */

static const char *sandbox;

/* Blocking, without a tool. */
static waldo_exec_result *run(fixture *f, const waldo_exec_options *options)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;

    if (waldo_sandbox_exec_wait(f->sandbox, options, &result, &error) != WALDO_OK) {
        fail_msg("%s: %s", options->cmd, waldo_error_message(error));
    }
    return result;
}

/* A sandbox of the same kind with more options. */
static void use_options(fixture *f, const char *more)
{
    char text[256];
    const char *backends[] = { text, NULL };
    waldo_sandbox_spec *spec;

    snprintf(text, sizeof text, "%s,%s", sandbox, more);
    spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends));
    waldo_sandbox_unref(f->sandbox);
    f->sandbox = waldo_sandbox_new(f->rt, spec);
    waldo_sandbox_spec_unref(spec);
}

/* Processes of this machine, in whatever sandbox, that were started as `sleep NUMBER`. */
static int sleepers(const char *number)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    while ((entry = readdir(dir)) != NULL) {
        char path[300], words[64] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        file = fopen(path, "re");
        if (file != NULL) {
            size_t len = fread(words, 1, sizeof words - 1, file);

            count += len > 6 && strcmp(words, "sleep") == 0 && strcmp(words + 6, number) == 0;
            fclose(file);
        }
    }
    closedir(dir);
    return count;
}

static void wait_sleepers(fixture *f, const char *number, int count)
{
    int64_t late = waldo__now_ns() + QUICK_NS;

    while (sleepers(number) != count) {
        assert_true(waldo__now_ns() < late);
        waldo_runtime_step(f->rt, 10);
    }
}

static uint64_t peak_kb(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss;
}

static void f02_characters_cut_by_chunks(void **state)
{
    fixture *f = *state;
    const char *text = reply_of(
        f, "exec_command",
        "{\"cmd\":\"printf '\\\\346\\\\274'; sleep 0.2; printf '\\\\346\\\\274' >&2; sleep 0.2; "
        "printf '\\\\242'; sleep 0.2; printf '\\\\242' >&2\"}");
    waldo_exec_result *result;

    assert_null(strstr(text, "\xef\xbf\xbd"));
    assert_non_null(strstr(text, "\xe6\xbc\xa2"));
    /* Cut between two readings of a command in the background. */
    reply_of(f, "exec_command",
             "{\"cmd\":\"printf '<\\\\346\\\\274'; echo >ready; read x; printf '\\\\242>'\","
             "\"yield_time_ms\":0}");
    shell(f, "while [ ! -e ready ]; do sleep 0.02; done");
    text = reply_of(f, "write_stdin", "{\"session_id\":1,\"yield_time_ms\":0}");
    assert_null(strstr(text, "\xef\xbf\xbd"));
    text = reply_of(f, "write_stdin",
                    "{\"session_id\":1,\"chars\":\"go\\n\",\"yield_time_ms\":60000}");
    assert_null(strstr(text, "\xef\xbf\xbd"));
    assert_non_null(strstr(text, "\xe6\xbc\xa2>"));
    text = reply_of(f, "exec_command", "{\"cmd\":\"printf 'a\\\\346\\\\274'\"}");
    assert_non_null(strstr(text, "\na\xef\xbf\xbd"));
    assert_null(strstr(strstr(text, "\xef\xbf\xbd") + 1, "\xef\xbf\xbd"));
    result = run(f, &WALDO_EXEC(.cmd = "printf 'a\\346\\274'"));
    assert_int_equal(result->out.bytes.len, 3);
    assert_memory_equal(result->out.bytes.ptr, "a\xe6\xbc", 3);
    waldo_exec_result_free(result);
}

static void f12_the_end_of_a_log_is_shown(void **state)
{
    const char *text = reply_of(*state, "exec_command",
                                "{\"cmd\":\"head -c 300000 /dev/zero | tr '\\\\0' x; echo; echo "
                                "FATAL: here\"}");

    assert_non_null(strstr(text, "\n[... 260013 bytes omitted ...]\n"));
    assert_non_null(strstr(text, "xxx\nFATAL: here\n"));
}

static void f13_omitted_bytes_are_counted(void **state)
{
    static const struct {
        const char *cmd;
        uint64_t total;
    } cases[] = { { "yes | head -c 3145728", 3145728 },
                  { "head -c 52428800 /dev/zero", 52428800 } };
    fixture *f = *state;

    waldo_exec_result_free(run(f, &WALDO_EXEC(.cmd = "true")));
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        uint64_t before = peak_kb();
        waldo_exec_result *result =
            run(f, &WALDO_EXEC(.cmd = cases[i].cmd, .max_output = 100000, .max_capture = 2000000));

        assert_int_equal(result->out.total, cases[i].total);
        assert_int_equal(result->out.bytes.len, 100000);
        assert_int_equal(result->out.omitted, cases[i].total - 100000);
        assert_non_null(result->capture_path);
        assert_int_equal(result->capture_bytes, 2000000);
        assert_int_equal(result->capture_lost, cases[i].total - 2000000);
        assert_true(peak_kb() - before < 32 * 1024);
        waldo_exec_result_free(result);
    }
}

/* With a time that is over before it ends; a longer one where it has not printed by then. */
static waldo_exec_result *run_out_of_time(fixture *f, const char *cmd, size_t prints,
                                          int64_t *ret_ms)
{
    for (int64_t ms = 500;; ms *= 8) {
        waldo_exec_result *result = run(f, &WALDO_EXEC(.cmd = cmd, .timeout_ms = ms));

        assert_int_equal(result->end, WALDO_EXEC_TIMED_OUT);
        assert_true(result->wall_ns < ms * INT64_C(1000000) + QUICK_NS);
        if (result->both.total >= prints || ms > 30000) {
            *ret_ms = ms;
            return result;
        }
        waldo_exec_result_free(result);
    }
}

static void f14_children_that_hold_the_pipes(void **state)
{
    fixture *f = *state;
    int64_t ms;
    waldo_exec_result *result =
        run_out_of_time(f,
                        "rm -f p; mkfifo p; (while true; do echo child; sleep 7214; done) > p & "
                        "cat p",
                        strlen("child\n"), &ms);

    assert_true(waldo__str_is(result->out.bytes, "child\n"));
    waldo_exec_result_free(result);
    wait_sleepers(f, "7214", 0);
    result =
        run(f, &WALDO_EXEC(.cmd = "cat p & until grep -q ^cat /proc/$!/cmdline; do sleep 0.02; "
                                  "done; for i in /proc/[0-9]*; do tr '\\0' ' ' "
                                  "<$i/cmdline 2>/dev/null | grep -x 'cat p '; done; kill $!"));
    assert_true(waldo__str_is(result->out.bytes, "cat p \n")); /* this one, and no other */
    waldo_exec_result_free(result);
}

static void f15_daemons_do_not_delay_and_end_with_the_sandbox(void **state)
{
    static const char *const cmds[] = { "sleep 7215 & echo started",
                                        "setsid sleep 7215 & echo started",
                                        "(trap '' HUP; sleep 7215 & exit) & wait; echo started" };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(cmds); i++) {
        waldo_exec_result *result = run(f, &WALDO_EXEC(.cmd = cmds[i]));

        assert_true(waldo__str_is(result->out.bytes, "started\n"));
        assert_int_equal(result->end, WALDO_EXEC_EXITED);
        assert_true(result->wall_ns < QUICK_NS);
        waldo_exec_result_free(result);
    }
    wait_sleepers(f, "7215", 3);
    waldo_sandbox_close(f->sandbox, NULL, NULL);
    wait_sleepers(f, "7215", 0);
}

/* Two at once: exactly the one whose time is over. */
static void f16_a_timeout_ends_that_command(void **state)
{
    fixture *f = *state;
    waldo_exec_result *result = run(f, &WALDO_EXEC(.cmd = "sleep 72161 & true"));

    waldo_exec_result_free(result);
    result = run(f, &WALDO_EXEC(.argv = WALDO_STRINGS("sleep", "72162"), .timeout_ms = 300));
    assert_int_equal(result->end, WALDO_EXEC_TIMED_OUT);
    waldo_exec_result_free(result);
    wait_sleepers(f, "72162", 0);
    wait_sleepers(f, "72161", 1);
}

static void f17_the_port_is_free_again(void **state)
{
    fixture *f = *state;
    waldo_exec_result *result =
        run(f, &WALDO_EXEC(.cmd = "busybox nc -l -p 8123 & wait", .timeout_ms = 500));

    assert_int_equal(result->end, WALDO_EXEC_TIMED_OUT);
    waldo_exec_result_free(result);
    result = run(f, &WALDO_EXEC(.cmd = "exec busybox nc -l -p 8123", .timeout_ms = 300));
    assert_int_equal(result->end, WALDO_EXEC_TIMED_OUT);
    assert_int_equal(result->err.total, 0);
    waldo_exec_result_free(result);
}

static void f18_a_timeout_keeps_both_streams(void **state)
{
    fixture *f = *state;
    int64_t ms;
    waldo_exec_result *result =
        run_out_of_time(f, "printf partial; printf err >&2; sleep 7218", 10, &ms);

    assert_true(waldo__str_is(result->out.bytes, "partial"));
    assert_true(waldo__str_is(result->err.bytes, "err"));
    assert_int_equal(result->exit_code, 0);
    assert_int_equal(result->timeout_ms, ms);
    waldo_exec_result_free(result);
    assert_null(strstr(
        reply_of(f, "exec_command", "{\"cmd\":\"printf partial; sleep 7218\",\"timeout_ms\":300}"),
        "Exit code"));
}

static void f19_silence_costs_no_wait(void **state)
{
    fixture *f = *state;
    int64_t start = waldo__now_ns();

    assert_non_null(strstr(
        reply_of(f, "exec_command", "{\"cmd\":\"true\",\"yield_time_ms\":60000}"), "Exit code: 0"));
    assert_non_null(
        strstr(reply_of(f, "exec_command", "{\"cmd\":\"exit 3\",\"yield_time_ms\":60000}"),
               "Exit code: 3"));
    assert_true(waldo__now_ns() - start < QUICK_NS);
}

static void f20_the_limit_and_its_source_are_named(void **state)
{
    fixture *f = *state;

    use_options(f, "timeout=1");
    assert_non_null(strstr(reply_of(f, "exec_command", "{\"cmd\":\"sleep 7220\"}"),
                           "Timed out after 1000 ms (the sandbox's limit"));
    assert_non_null(
        strstr(reply_of(f, "exec_command", "{\"cmd\":\"sleep 7220\",\"timeout_ms\":250}"),
               "Timed out after 250 ms"));
}

static void f21_a_very_large_output(void **state)
{
    fixture *f = *state;
    waldo_exec_result *result = run(f, &WALDO_EXEC(.cmd = "true"));
    uint64_t before = peak_kb();

    waldo_exec_result_free(result);
    result = run(f, &WALDO_EXEC(.cmd = "head -c 629145600 /dev/zero", .max_output = 10485760));
    assert_int_equal(result->end, WALDO_EXEC_EXITED);
    assert_int_equal(result->out.total, 629145600);
    assert_int_equal(result->out.bytes.len, 10485760);
    /* Of 600 MiB; a sanitizer holds on to what was freed, here several times the limit. */
    assert_true(peak_kb() - before < 160 * 1024);
    waldo_exec_result_free(result);
}

static void *trigger(void *cancel)
{
    while (sleepers("7222") == 0) {
        usleep(10000);
    }
    waldo_cancel_trigger(cancel);
    return NULL;
}

static void f22_a_cancel_from_another_thread(void **state)
{
    fixture *f = *state;
    waldo_cancel *cancel = waldo_cancel_new();
    waldo_exec_result *result;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, trigger, cancel), 0);
    result = run(f, &WALDO_EXEC(.cmd = "sleep 7222; echo on", .cancel = cancel));
    pthread_join(thread, NULL);
    assert_int_equal(result->end, WALDO_EXEC_CANCELLED);
    assert_int_equal(result->out.total, 0);
    waldo_exec_result_free(result);
    wait_sleepers(f, "7222", 0);
    waldo_cancel_unref(cancel);
}

static void f24_a_background_command_is_read_on(void **state)
{
    fixture *f = *state;
    const char *args = "{\"session_id\":1,\"yield_time_ms\":60000}";
    const char *text =
        reply_of(f, "exec_command",
                 "{\"cmd\":\"echo first; read x; echo second; exit 4\",\"yield_time_ms\":0}");

    assert_non_null(strstr(text, "Still running as session 1"));
    reply_of(f, "exec_command", "{\"cmd\":\"true\"}");
    text = reply_of(f, "write_stdin",
                    "{\"session_id\":1,\"chars\":\"go\\n\",\"yield_time_ms\":60000}");
    assert_non_null(strstr(text, "second\n"));
    text = strstr(text, "Exit code: 4") != NULL ? text : reply_of(f, "write_stdin", args);
    assert_non_null(strstr(text, "Exit code: 4"));
}

static void f33_lines_that_are_added_end_as_their_neighbours(void **state)
{
    fixture *f = *state;
    char *bytes;
    size_t len;

    put(f, "crlf", WALDO__S("a\r\nb\r\nc\n"));
    reply_of(f, "edit_file", "{\"path\":\"crlf\",\"old_text\":\"b\",\"new_text\":\"b\\nnew\"}");
    bytes = get(f, "crlf", &len);
    assert_int_equal(len, 13);
    assert_memory_equal(bytes, "a\r\nb\r\nnew\r\nc\n", 13);
    waldo__free(bytes);
}

static void f33_a_patch_keeps_line_ends(void **state)
{
    fixture *f = *state;
    char *bytes;
    size_t len;

    put(f, "crlf", WALDO__S("a\r\nb\r\nc\n"));
    reply_of(
        f, "apply_patch",
        "{\"patch\":\"*** Begin Patch\\n*** Update File: crlf\\n@@\\n a\\n-b\\n+B\\n+new\\n c\\n"
        "*** End Patch\\n\"}");
    bytes = get(f, "crlf", &len);
    assert_int_equal(len, 13);
    assert_memory_equal(bytes, "a\r\nB\r\nnew\r\nc\n", 13);
    waldo__free(bytes);
}

static void f35_a_move_onto_itself_loses_nothing(void **state)
{
    fixture *f = *state;
    char *bytes;
    size_t len;

    put(f, "dir/f", WALDO__S("a\n"));
    reply_of(f, "apply_patch",
             "{\"patch\":\"*** Begin Patch\\n*** Update File: dir/f\\n*** Move to: dir/../dir/f\\n"
             "@@\\n-a\\n+b\\n*** End Patch\\n\"}");
    bytes = get(f, "dir/f", &len);
    assert_int_equal(len, 2);
    assert_memory_equal(bytes, "b\n", 2);
    waldo__free(bytes);
}

static void f34_what_was_read_can_be_edited(void **state)
{
    fixture *f = *state;
    char *bytes;
    size_t len;

    put(f, "crlf", WALDO__S("a\r\nb\r\n"));
    reply_of(f, "read_file", "{\"path\":\"crlf\"}");
    reply_of(f, "edit_file", "{\"path\":\"crlf\",\"old_text\":\"a\\nb\",\"new_text\":\"a\\nc\"}");
    bytes = get(f, "crlf", &len);
    assert_int_equal(len, 6);
    assert_memory_equal(bytes, "a\r\nc\r\n", 6);
    waldo__free(bytes);
}

static void f36_links_that_lead_out(void **state)
{
    static const char *const calls[][2] = {
        { "read_file", "{\"path\":\"link/passwd\"}" },
        { "write_file", "{\"path\":\"link/x\",\"content\":\"x\"}" },
        { "edit_file", "{\"path\":\"link/hosts\",\"old_text\":\"a\",\"new_text\":\"b\"}" },
        { "apply_patch",
          "{\"patch\":\"*** Begin Patch\\n*** Add File: link/x\\n+x\\n*** End Patch\"}" },
    };
    fixture *f = *state;

    shell(f, "ln -s /etc link; mkdir real; echo in >real/f; ln -s real inside");
    for (size_t i = 0; i < WALDO__COUNT(calls); i++) {
        const char *text = failure_of(f, calls[i][0], calls[i][1]);

        assert_non_null(strstr(text, "link"));
        assert_non_null(strstr(text, "leaves the allowed directory"));
    }
    assert_non_null(strstr(reply_of(f, "read_file", "{\"path\":\"inside/f\"}"), "in"));
}

static void f37_files_of_any_size(void **state)
{
    static const size_t sizes[] = { 95000, 98304, 98305, 131072, 5000000 };
    fixture *f = *state;
    size_t lens[WALDO__COUNT(sizes)];

    for (size_t i = 0; i < WALDO__COUNT(sizes); i++) {
        char *bytes = waldo__alloc(sizes[i]);
        char cmd[100];
        char *back;

        for (size_t k = 0; k < sizes[i]; k++) {
            bytes[k] = (char)(k * 31 + (k >> 8));
        }
        put(f, "sized", waldo__strn(bytes, sizes[i]));
        snprintf(cmd, sizeof cmd, "test $(wc -c <sized) = %zu && cp sized copy", sizes[i]);
        shell(f, cmd);
        back = get(f, "copy", &lens[i]);
        assert_int_equal(lens[i], sizes[i]);
        assert_memory_equal(back, bytes, sizes[i]);
        waldo__free(back);
        waldo__free(bytes);
    }
}

static void f38_a_look_at_two_gibibytes(void **state)
{
    fixture *f = *state;
    uint64_t before;

    shell(f, "truncate -s 2G sparse");
    before = peak_kb();
    assert_non_null(strstr(failure_of(f, "read_file", "{\"path\":\"sparse\",\"limit\":100}"),
                           "sparse is a binary file of 2147483648 bytes"));
    assert_true(peak_kb() - before < 32 * 1024);
}

static void count_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                       const waldo_error *error)
{
    int *done = userdata;

    (void)error;
    *done += status == WALDO_OK && result->end == WALDO_EXEC_EXITED &&
             waldo__str_is(result->out.bytes, "x\n");
}

static void f43_sixty_four_at_once(void **state)
{
    fixture *f = *state;
    int done = 0;

    for (int i = 0; i < 64; i++) {
        assert_int_equal(waldo_sandbox_exec(f->sandbox, &WALDO_EXEC(.cmd = "sleep 0.05; echo x"),
                                            count_done, &done, NULL, NULL),
                         WALDO_OK);
    }
    while (done < 64) {
        assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        CASE(f02_characters_cut_by_chunks),
        CASE(f12_the_end_of_a_log_is_shown),
        CASE(f13_omitted_bytes_are_counted),
        CASE(f14_children_that_hold_the_pipes),
        CASE(f15_daemons_do_not_delay_and_end_with_the_sandbox),
        CASE(f16_a_timeout_ends_that_command),
        CASE(f17_the_port_is_free_again),
        CASE(f18_a_timeout_keeps_both_streams),
        CASE(f19_silence_costs_no_wait),
        CASE(f20_the_limit_and_its_source_are_named),
        CASE(f21_a_very_large_output),
        CASE(f22_a_cancel_from_another_thread),
        CASE(f24_a_background_command_is_read_on),
        CASE(f33_lines_that_are_added_end_as_their_neighbours),
        CASE(f33_a_patch_keeps_line_ends),
        CASE(f35_a_move_onto_itself_loses_nothing),
        CASE(f34_what_was_read_can_be_edited),
        CASE(f36_links_that_lead_out),
        CASE(f37_files_of_any_size),
        CASE(f38_a_look_at_two_gibibytes),
        CASE(f43_sixty_four_at_once),
    };
    int wrong = fixture_arguments(argc, argv);

    if (wrong) {
        return wrong;
    }
    sandbox = argv[1];
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
