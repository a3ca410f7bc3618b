/* Scripted sandboxes as a host meets them: through the functions of sandboxes, without an agent. */
#include "scripted.h"

#include <stdlib.h>
#include <unistd.h>
#include <waldo/machine.h>

typedef struct world {
    waldo_runtime *rt;
    waldo_testing_sandbox *script;
    waldo_sandbox *sandbox;
} world;

static world open_with(const waldo_testing_sandbox_options *options, const char *workspace)
{
    world w = { .rt = waldo_runtime_new(NULL), .script = waldo_testing_sandbox_new(options, NULL) };
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("scripted:"), .workspace = workspace,
                            .env = WALDO_STRINGS("A=1")));

    assert_non_null(w.script);
    w.sandbox = waldo_sandbox_new(w.rt, spec);
    waldo_sandbox_spec_unref(spec);
    return w;
}

static void end(world *w, const char *said)
{
    waldo_sandbox_unref(w->sandbox);
    waldo_runtime_finish(w->rt);
    assert_checked(w->script, said);
}

/* What a completion was told. */
typedef struct told {
    int times;
    waldo_status status;
    waldo_exec_end end;
    int32_t exit_code;
    char text[512];
} told;

static void on_exec(void *userdata, waldo_status status, const waldo_exec_result *result,
                    const waldo_error *error)
{
    told *t = userdata;

    t->times++;
    t->status = status;
    if (result != NULL) {
        t->end = result->end;
        t->exit_code = result->exit_code;
        snprintf(t->text, sizeof t->text, "%s|%s", result->out.bytes.ptr, result->err.bytes.ptr);
    } else {
        snprintf(t->text, sizeof t->text, "%s", error != NULL ? waldo_error_message(error) : "");
    }
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    told *t = userdata;

    t->times++;
    t->status = status;
    snprintf(t->text, sizeof t->text, "%s", error != NULL ? waldo_error_message(error) : "");
}

static void on_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    on_done(userdata, status, error);
    if (status == WALDO_OK) {
        snprintf(((told *)userdata)->text, sizeof((told *)0)->text, "%d of %d: %s", (int)bytes.len,
                 (int)file_size, bytes.ptr);
    }
}

static void on_patch(void *userdata, waldo_status status, waldo_str patch, const waldo_error *error)
{
    on_done(userdata, status, error);
    if (status == WALDO_OK) {
        snprintf(((told *)userdata)->text, sizeof((told *)0)->text, "%s", patch.ptr);
    }
}

static void wait_for(const world *w, const told *t)
{
    for (int i = 0; i < 1000 && t->times == 0; i++) {
        waldo_runtime_step(w->rt, WAIT_MS);
    }
    assert_int_equal(t->times, 1);
}

static told exec(const world *w, const waldo_exec_options *options)
{
    told t = { 0 };

    assert_int_equal(waldo_sandbox_exec(w->sandbox, options, on_exec, &t, NULL, NULL), WALDO_OK);
    wait_for(w, &t);
    return t;
}

/* ---- what is asked, and what comes back ---- */

static void words_are_shown_as_a_shell_has_them(void **state)
{
    static const waldo_testing_command commands[] = { { .cmd = "sort *", .cwd = "src" } };
    world w = open_with(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), NULL);
    told t = exec(&w, &WALDO_EXEC(.argv = WALDO_STRINGS("sort", "-k 2", "it's")));

    (void)state;
    assert_int_equal(t.status, WALDO_EINVAL);
    end(&w, "scripted: command 1 is \"sort '-k 2' 'it'\\''s'\" in /workspace, the script has "
            "\"sort *\" in src");
}

static void a_command_has_two_streams(void **state)
{
    static const waldo_testing_command commands[] = {
        { .cmd = "sort '-k 2' 'it'\\''s' ''",
          .cwd = "src",
          .output = "o\0o",
          .output_len = 3,
          .errors = "e\n",
          .exit_code = 4 },
        { .output = "o\n", .errors = "e\n" },
    };
    waldo_testing_file folder = { .path = "src/" };
    world w = open_with(
        &WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands), .files = &folder, .file_count = 1),
        NULL);
    waldo_exec_result *result = NULL;
    const waldo_testing_asked *asked;

    (void)state;
    assert_int_equal(
        waldo_sandbox_exec_wait(w.sandbox,
                                &WALDO_EXEC(.argv = WALDO_STRINGS("sort", "-k 2", "it's", ""),
                                            .cwd = "src", .env = WALDO_STRINGS("B=2"),
                                            .input = { "in\n", 3 }, .timeout_ms = 5000),
                                &result, NULL),
        WALDO_OK);
    assert_int_equal(result->exit_code, 4);
    assert_int_equal(result->out.bytes.len, 3);
    assert_memory_equal(result->out.bytes.ptr, "o\0o", 3);
    assert_string_equal(result->err.bytes.ptr, "e\n");
    waldo_exec_result_free(result);
    asked = waldo_testing_sandbox_asked(w.script, WALDO_TESTING_EXEC, 0);
    assert_string_equal(asked->argv[1], "-k 2");
    assert_null(asked->argv[4]);
    assert_string_equal(asked->env[0], "A=1");
    assert_string_equal(asked->env[1], "B=2");
    assert_null(asked->env[2]);
    assert_string_equal(asked->cwd, "/workspace/src");
    assert_string_equal(asked->bytes.ptr, "in\n");
    assert_int_equal(asked->timeout_ms, 5000);
    assert_string_equal(exec(&w, &WALDO_EXEC(.cmd = "x", .flags = WALDO_EXEC_MERGE)).text,
                        "o\ne\n|");
    end(&w, NULL);
}

static void a_long_script_is_one_command(void **state)
{
    static char cmd[200 * 1024];
    static const waldo_testing_command commands[] = { { .cmd = "xxx*x", .output = "long" },
                                                      { .cmd = "xxx*x" } };
    world w = open_with(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), NULL);

    (void)state;
    memset(cmd, 'x', sizeof cmd - 1);
    assert_string_equal(exec(&w, &WALDO_EXEC(.cmd = cmd)).text, "long|");
    assert_string_equal(exec(&w, &WALDO_EXEC(.cmd = cmd, .flags = WALDO_EXEC_LOGIN)).text, "|");
    assert_int_equal(strlen(waldo_testing_sandbox_asked(w.script, WALDO_TESTING_EXEC, 1)->text),
                     sizeof cmd - 1);
    end(&w, NULL);
}

static void files_through_the_api(void **state)
{
    world w = open_with(&WALDO_TESTING_SANDBOX(), NULL);
    told t = { 0 };

    (void)state;
    waldo_sandbox_write(w.sandbox, "a/b", (waldo_str){ "12345", 5 }, 0600, on_done, &t);
    wait_for(&w, &t);
    assert_int_equal(t.status, WALDO_OK);
    t.times = 0;
    waldo_sandbox_read(w.sandbox, "a/b", 1, 3, on_bytes, &t);
    wait_for(&w, &t);
    assert_string_equal(t.text, "3 of 5: 234");
    t.times = 0;
    waldo_sandbox_read(w.sandbox, "a/c", 0, 3, on_bytes, &t);
    wait_for(&w, &t);
    assert_int_equal(t.status, WALDO_ENOTFOUND);
    assert_file(w.script, "/workspace/a/b", "12345");
    end(&w, NULL);
}

static void a_workspace_is_copied_and_compared(void **state)
{
    static const waldo_testing_file made[] = { { .path = "a", .bytes = "two\n" } };
    static const waldo_testing_command commands[] = { { .cmd = "fmt", WALDO_TESTING_FILES(made) } };
    char folder[] = "/tmp/waldo-scripted-XXXXXX";
    char path[64];
    FILE *file;
    world w;
    told t = { 0 };

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("one\n", file);
    fclose(file);
    w = open_with(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), folder);
    assert_int_equal(exec(&w, &WALDO_EXEC(.cmd = "fmt")).end, WALDO_EXEC_EXITED);
    assert_string_equal(waldo_testing_sandbox_asked(w.script, WALDO_TESTING_WRITE, 0)->bytes.ptr,
                        "one\n");
    waldo_sandbox_changes(w.sandbox, on_patch, &t);
    wait_for(&w, &t);
    assert_contains(t.text, "-one\n+two\n");
    end(&w, NULL);
    unlink(path);
    rmdir(folder);
}

/* ---- ends from outside ---- */

static const waldo_testing_command hanging[] = {
    { .cmd = "hang", .output = "so far", .delay_ms = WALDO_FOREVER },
};

static const waldo_testing_sandbox_options hangs = { .size = sizeof hangs,
                                                     .commands = hanging,
                                                     .command_count = 1 };

/* A command that has begun: its output is there. */
static waldo_job *begin_hanging(world *w, told *t)
{
    waldo_job *job = NULL;

    assert_int_equal(waldo_sandbox_exec(w->sandbox,
                                        &WALDO_EXEC(.cmd = "hang", .timeout_ms = WALDO_FOREVER),
                                        on_exec, t, &job, NULL),
                     WALDO_OK);
    for (int i = 0;
         i < 1000 && waldo_testing_sandbox_asked(w->script, WALDO_TESTING_EXEC, 0) == NULL; i++) {
        waldo_runtime_step(w->rt, WAIT_MS);
    }
    waldo_runtime_step(w->rt, 0);
    assert_int_equal(t->times, 0);
    return job;
}

static void a_host_loses_it_in_mid_command(void **state)
{
    world w = open_with(&hangs, NULL);
    told t = { 0 };

    (void)state;
    begin_hanging(&w, &t);
    waldo_testing_sandbox_lose(w.script);
    assert_int_equal(t.times, 0); /* told from dispatch only */
    wait_for(&w, &t);
    assert_int_equal(t.status, WALDO_OK);
    assert_int_equal(t.end, WALDO_EXEC_LOST);
    assert_string_equal(t.text, "so far|");
    t = exec(&w, &WALDO_EXEC(.cmd = "x"));
    assert_int_equal(t.status, WALDO_ELOST);
    assert_contains(t.text, "the script lost the machine");
    waldo_testing_sandbox_lose(w.script); /* which is not open: nothing */
    end(&w, NULL);
}

static void it_is_lost_between_commands(void **state)
{
    static const waldo_testing_command commands[] = { { .cmd = "a" } };
    world w = open_with(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), NULL);
    told t;

    (void)state;
    assert_int_equal(exec(&w, &WALDO_EXEC(.cmd = "a")).status, WALDO_OK);
    waldo_testing_sandbox_lose(w.script);
    t = exec(&w, &WALDO_EXEC(.cmd = "b"));
    assert_int_equal(t.status, WALDO_OK);
    assert_int_equal(t.end, WALDO_EXEC_LOST);
    end(&w, NULL);
}

static void a_command_is_cancelled(void **state)
{
    world w = open_with(&hangs, NULL);
    told t = { 0 };

    (void)state;
    waldo_job_cancel(begin_hanging(&w, &t));
    wait_for(&w, &t);
    assert_int_equal(t.end, WALDO_EXEC_CANCELLED);
    assert_string_equal(t.text, "so far|");
    end(&w, NULL);
}

static void its_time_is_over_before_any_grace(void **state)
{
    world w = open_with(&hangs, NULL);
    told t = exec(&w, &WALDO_EXEC(.cmd = "hang", .timeout_ms = 5, .grace_ms = 3600 * 1000));

    (void)state;
    assert_int_equal(t.end, WALDO_EXEC_TIMED_OUT);
    assert_string_equal(t.text, "so far|");
    end(&w, NULL);
}

static void it_is_closed_in_mid_command(void **state)
{
    world w = open_with(&hangs, NULL);
    told t = { 0 };
    told closed = { 0 };

    (void)state;
    begin_hanging(&w, &t);
    waldo_sandbox_close(w.sandbox, on_done, &closed);
    wait_for(&w, &closed);
    assert_int_equal(t.times, 1);
    assert_int_equal(t.end, WALDO_EXEC_CANCELLED);
    assert_int_equal(closed.status, WALDO_OK);
    end(&w, NULL);
}

static void its_runtime_is_freed_in_mid_command(void **state)
{
    world w = open_with(&hangs, NULL);
    told t = { 0 };

    (void)state;
    begin_hanging(&w, &t);
    waldo_sandbox_unref(w.sandbox); /* being closed */
    waldo_runtime_free(w.rt);
    assert_int_equal(t.times, 1);
    assert_checked(w.script, NULL);
}

static void its_script_is_freed_in_mid_command(void **state)
{
    world w = open_with(&hangs, NULL);
    told t = { 0 };

    (void)state;
    begin_hanging(&w, &t);
    waldo_testing_sandbox_free(w.script);
    wait_for(&w, &t);
    assert_int_equal(t.end, WALDO_EXEC_LOST);
    assert_int_equal(exec(&w, &WALDO_EXEC(.cmd = "x")).status, WALDO_ELOST);
    waldo_sandbox_unref(w.sandbox);
    waldo_runtime_finish(w.rt);
}

/* ---- what machines can do beside ---- */

static void what_is_offered_and_what_not(void **state)
{
    static const waldo_testing_command commands[] = { { .cmd = "a", .times = 2 } };
    world w = open_with(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands),
                                               .isolation = WALDO_ISOLATION_CONTAINER),
                        NULL);
    told t = { 0 };

    (void)state;
    assert_int_equal(exec(&w, &WALDO_EXEC(.cmd = "a")).status, WALDO_OK);
    assert_int_equal(waldo_sandbox_isolation(w.sandbox), WALDO_ISOLATION_CONTAINER);
    assert_string_equal(waldo_sandbox_backend(w.sandbox), "scripted");
    waldo_sandbox_pause(w.sandbox, on_done, &t);
    wait_for(&w, &t);
    assert_int_equal(t.status, WALDO_OK);
    assert_int_equal(exec(&w, &WALDO_EXEC(.cmd = "a")).status, WALDO_OK);
    t.times = 0;
    waldo_sandbox_set_net(w.sandbox, WALDO_NET_HOSTS, WALDO_STRINGS("example.com"), on_done, &t);
    wait_for(&w, &t);
    assert_int_equal(t.status, WALDO_OK);
    t = exec(&w, &WALDO_EXEC(.cmd = "a", .flags = WALDO_EXEC_TTY));
    assert_int_equal(t.status, WALDO_ENOTSUP);
    assert_contains(t.text, "scripted: this sandbox has no terminals");
    t = exec(&w, &WALDO_EXEC(.cmd = "a", .flags = WALDO_EXEC_KEEP_STDIN));
    assert_int_equal(t.status, WALDO_ENOTSUP);
    end(&w, NULL);
}

static void it_answers_a_probe(void **state)
{
    waldo_testing_sandbox *script = waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(), NULL);
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("scripted:")));
    world w = { .rt = rt };
    told t = { 0 };

    (void)state;
    waldo_sandbox_check(rt, spec, on_done, &t);
    wait_for(&w, &t);
    assert_int_equal(t.status, WALDO_OK);
    assert_true(waldo_has_feature("backend.scripted"));
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
    assert_checked(script, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_shown_as_a_shell_has_them),
        cmocka_unit_test(a_command_has_two_streams),
        cmocka_unit_test(a_long_script_is_one_command),
        cmocka_unit_test(files_through_the_api),
        cmocka_unit_test(a_workspace_is_copied_and_compared),
        cmocka_unit_test(a_host_loses_it_in_mid_command),
        cmocka_unit_test(it_is_lost_between_commands),
        cmocka_unit_test(a_command_is_cancelled),
        cmocka_unit_test(its_time_is_over_before_any_grace),
        cmocka_unit_test(it_is_closed_in_mid_command),
        cmocka_unit_test(its_runtime_is_freed_in_mid_command),
        cmocka_unit_test(its_script_is_freed_in_mid_command),
        cmocka_unit_test(what_is_offered_and_what_not),
        cmocka_unit_test(it_answers_a_probe),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
