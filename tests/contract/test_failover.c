/*
 * Machines that are lost, and others in their place. The backend in memory is registered once more
 * as counted:, which counts what is opened and ended, and refuses when told to.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "failing.h"
#include "held.h"
#include "sandbox/live.h"
#include "sandbox/registry.h"
#include <waldo/background.h>
#include <waldo/machine.h>

enum { PATIENCE_MS = 60000, MOST_ALLOCATIONS = 5000 };

static const waldo_backend_ops *fake;
static int opens, ends;
static int32_t reached;     /* what describe says */
static waldo_status refuse; /* what opening fails with; WALDO_OK: it does not */
static int holds;           /* openings complete when the test says so */

static waldo_status counted_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                                 waldo_str saved, const waldo_backend_call *call,
                                 waldo_backend_done_fn done, waldo_machine **ret_machine,
                                 waldo_error **ret_err)
{
    waldo_status status;

    if (refuse != WALDO_OK) {
        return waldo_error_set(ret_err, refuse, WALDO_CLASS_BACKEND, "as the test asks");
    }
    done = holds ? held_back(env, done) : done;
    status = fake->open(env, spec, saved, call, done, ret_machine, ret_err);
    opens += status == WALDO_OK;
    return status;
}

static void counted_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    if (fake->describe != NULL) {
        fake->describe(machine, ret_info);
    }
    ret_info->reached = reached;
}

static void counted_close(waldo_machine *machine, const waldo_backend_call *call,
                          waldo_backend_done_fn done)
{
    ends++;
    fake->close(machine, call, done);
}

static void counted_abandon(waldo_machine *machine)
{
    ends++;
    fake->abandon(machine);
}

/* ---- what the cases share ---- */

typedef struct world {
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
    waldo__sandbox_listener listener;
    char heard[4096]; /* words of news */
    char last[4096];  /* text of the newest */
} world;

typedef struct outcome {
    int count;
    waldo_status status;
    waldo_exec_end end;
    char text[4096]; /* what was read or written, or why not */
} outcome;

static void hear(void *userdata, const char *what, const char *text)
{
    world *w = userdata;
    size_t used = strlen(w->heard);

    snprintf(w->heard + used, sizeof w->heard - used, "%s ", what);
    if (strcmp(what, "snapshot") != 0) {
        snprintf(w->last, sizeof w->last, "%s", text);
    }
}

static int begin(void **state)
{
    world *w = calloc(1, sizeof *w);

    opens = ends = 0;
    refuse = WALDO_OK;
    holds = 0;
    w->rt = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN));
    w->listener = (waldo__sandbox_listener){ .fn = hear, .userdata = w };
    *state = w;
    return w->rt == NULL;
}

static int end(void **state)
{
    world *w = *state;

    waldo_sandbox_unref(w->sandbox);
    waldo_runtime_finish(w->rt);
    free(w);
    return opens != ends;
}

static void use(world *w, const waldo_sandbox_spec_options *options)
{
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(options);

    assert_null(waldo_sandbox_spec_error(spec));
    w->sandbox = waldo_sandbox_new(w->rt, spec);
    waldo__sandbox_listen(w->sandbox, &w->listener);
    waldo_sandbox_spec_unref(spec);
}

static void use_list(world *w, const char *const *backends)
{
    use(w, &WALDO_SANDBOX_SPEC(.backends = backends));
}

static void took_end(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    outcome *out = userdata;

    out->count++;
    out->status = status;
    out->end = status == WALDO_OK ? result->end : 0;
    if (status == WALDO_OK) {
        snprintf(out->text, sizeof out->text, "%.*s", (int)result->out.bytes.len,
                 result->out.bytes.ptr);
    } else {
        snprintf(out->text, sizeof out->text, "%s", waldo_error_message(error));
    }
}

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    outcome *out = userdata;

    out->count++;
    out->status = status;
    snprintf(out->text, sizeof out->text, "%s", waldo_error_message(error));
}

static void took_bytes(void *userdata, waldo_status status, waldo_str bytes,
                       const waldo_error *error)
{
    outcome *out = userdata;

    took_done(out, status, error);
    if (status == WALDO_OK) {
        snprintf(out->text, sizeof out->text, "%.*s", (int)bytes.len, bytes.ptr);
    }
}

static void drive(world *w, const outcome *out)
{
    while (out->count == 0) {
        assert_int_equal(waldo_runtime_step(w->rt, PATIENCE_MS), WALDO_OK);
    }
}

static void wait_word(world *w, const char *word)
{
    while (strstr(w->heard, word) == NULL) {
        assert_int_equal(waldo_runtime_step(w->rt, PATIENCE_MS), WALDO_OK);
    }
}

static outcome run(world *w, const char *cmd)
{
    outcome out = { 0 };

    assert_int_equal(
        waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = cmd), took_end, &out, NULL, NULL),
        WALDO_OK);
    drive(w, &out);
    return out;
}

static void expect(world *w, const char *cmd, const char *text)
{
    outcome out = run(w, cmd);

    if (out.status != WALDO_OK) {
        fail_msg("%s: %s", cmd, out.text);
    }
    assert_int_equal(out.end, WALDO_EXEC_EXITED);
    assert_string_equal(out.text, text);
}

static void keep(world *w)
{
    w->heard[0] = '\0';
    waldo__sandbox_checkpoint(w->sandbox);
    wait_word(w, "snapshot");
}

static void lose(world *w)
{
    int is_local = strcmp(waldo_sandbox_backend(w->sandbox), "local") == 0;
    outcome out = run(w, is_local ? "kill -9 2; kill 1; sleep 100" : "lose");

    assert_int_equal(out.status, WALDO_OK);
    assert_int_equal(out.end, WALDO_EXEC_LOST);
}

static const char *notice(const world *w, size_t index)
{
    assert_true(index < waldo__sandbox_notice_count(w->sandbox));
    return waldo__sandbox_notice(w->sandbox, index);
}

#define assert_has(text, part)                                                                     \
    do {                                                                                           \
        if (strstr((text), (part)) == NULL) {                                                      \
            fail_msg("\"%s\" is not in: %s", (part), (text));                                      \
        }                                                                                          \
    } while (0)

/* ---- cases ---- */

static void the_newest_snapshot_goes_along(void **state)
{
    world *w = *state;
    char word[8];

    use_list(w, WALDO_STRINGS("counted:", "fake:"));
    assert_int_equal(waldo_sandbox_generation(w->sandbox), 1);
    expect(w, "mkdir d; echo one > d/f; echo gone > old", "");
    keep(w);
    expect(w, "echo two > d/f; rm old", "");
    keep(w);
    expect(w, "echo three > d/f; echo late > /tmp/x", "");
    lose(w);
    expect(w, "cat d/f; ls; ls /tmp", "two\nd\n");
    assert_int_equal(waldo_sandbox_generation(w->sandbox), 2);
    assert_string_equal(waldo_sandbox_backend(w->sandbox), "fake");
    assert_has(w->heard, "lost opened moved ");
    assert_int_equal(waldo__sandbox_notice_count(w->sandbox), 1);
    assert_has(notice(w, 0), "The sandbox (counted) was lost.");
    assert_has(notice(w, 0), "Another one (fake) has taken its place.");
    assert_has(notice(w, 0), "/workspace is as it was ");
    assert_int_equal(sscanf(strstr(notice(w, 0), "/workspace"),
                            "/workspace is as it was %*u seconds before the %7s", word),
                     1);
    assert_string_equal(word, "loss;");
    assert_string_equal(w->last, notice(w, 0));
}

/* Nobody asked for that one: it is waited for. */
static void pause_waits_for_a_snapshot(void **state)
{
    world *w = *state;
    outcome paused = { 0 }, busy = { 0 }, command = { 0 };
    waldo_job *job = NULL;

    use_list(w, WALDO_STRINGS("counted:", "fake:"));
    expect(w, "echo one > f", "");
    w->heard[0] = '\0';
    waldo__sandbox_checkpoint(w->sandbox);
    waldo_sandbox_pause(w->sandbox, took_done, &paused);
    drive(w, &paused);
    assert_int_equal(paused.status, WALDO_OK);
    wait_word(w, "paused");
    assert_has(w->heard, "snapshot paused ");
    expect(w, "cat f", "one\n");
    waldo__sandbox_checkpoint(w->sandbox);
    waldo_sandbox_pause(w->sandbox, took_done, &busy); /* but not for what comes then */
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "cat f; sleep 100"), took_end, &command, &job,
                       NULL);
    drive(w, &busy);
    assert_int_equal(busy.status, WALDO_EBUSY);
    assert_int_equal(command.count, 0);
    waldo_job_cancel(job);
    drive(w, &command);
    assert_int_equal(command.end, WALDO_EXEC_CANCELLED);
    assert_string_equal(command.text, "one\n");
}

/* Nothing comes after the last backend: what would be kept could never be used. */
static void none_is_taken_of_the_last_machine(void **state)
{
    world *w = *state;

    use_list(w, WALDO_STRINGS("counted:", "fake:"));
    expect(w, "true", "");
    lose(w);
    expect(w, "echo one > f", "");
    w->heard[0] = '\0';
    waldo__sandbox_checkpoint(w->sandbox);
    expect(w, "cat f", "one\n");
    expect(w, "cat f", "one\n");
    assert_null(strstr(w->heard, "snapshot"));
}

/* Without memory for who waits the machine is ended all the same. */
static void a_close_without_memory_is_told(void **state)
{
    world *w = *state;
    outcome closed = { 0 };

    use_list(w, WALDO_STRINGS("counted:"));
    expect(w, "true", "");
    failing.asked = failing.failed = 0;
    failing.fail_at = 1;
    failing.on = 1;
    waldo_sandbox_close(w->sandbox, took_done, &closed);
    failing.on = 0;
    failing.fail_at = 0;
    assert_int_equal(failing.failed, 1);
    assert_int_equal(closed.count, 1);
    assert_int_equal(closed.status, WALDO_ENOMEM);
    wait_word(w, "closed");
    assert_int_equal(ends, 1);
}

static void without_one_it_begins_empty(void **state)
{
    world *w = *state;

    use_list(w, WALDO_STRINGS("counted:,snapshots=never", "fake:"));
    expect(w, "echo one > f", "");
    waldo__sandbox_checkpoint(w->sandbox);
    lose(w);
    expect(w, "ls", "");
    assert_has(notice(w, 0), "/workspace is empty.");
    assert_null(strstr(w->heard, "snapshot"));
}

static void the_host_directory_is_copied_as_it_was_at_first(void **state)
{
    world *w = *state;
    char folder[] = "/tmp/waldo-failover-XXXXXX";
    char file[64];
    outcome out = { 0 };
    FILE *f;

    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/f", folder);
    f = fopen(file, "we");
    assert_true(fputs("host\n", f) >= 0 && fclose(f) == 0);
    use(w, &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("counted:", "fake:", "counted:"),
                               .workspace = folder));
    expect(w, "cat f; echo mine > g", "host\n");
    f = fopen(file, "we"); /* another process changes it: not our base line */
    assert_true(fputs("changed\n", f) >= 0 && fclose(f) == 0);
    lose(w);
    expect(w, "cat f; ls", "host\nf\n");
    assert_has(notice(w, 0), "/workspace is the user's directory as it was copied at first");
    expect(w, "echo more >> f", "");
    keep(w);
    lose(w);
    expect(w, "cat f", "host\nmore\n");
    waldo_sandbox_changes(w->sandbox, took_bytes, &out);
    drive(w, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_has(out.text, " host\n+more\n");
    assert_null(strstr(out.text, "changed"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* What one that was there before held at first nobody knows, nor after it went on elsewhere. */
static void no_changes_without_what_was_there_at_first(void **state)
{
    world *w = *state;
    char folder[] = "/tmp/waldo-failover-XXXXXX";
    outcome out = { 0 };

    assert_non_null(mkdtemp(folder));
    use(w,
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("counted:", "fake:"), .workspace = folder));
    reached = 1;
    expect(w, "echo one > f", "");
    reached = 0;
    keep(w);
    lose(w);
    expect(w, "cat f", "one\n");
    waldo_sandbox_changes(w->sandbox, took_bytes, &out);
    drive(w, &out);
    assert_int_equal(out.status, WALDO_ENOTSUP);
    assert_int_equal(rmdir(folder), 0);
}

static void what_runs_is_lost_and_what_waits_goes_on(void **state)
{
    world *w = *state;
    outcome running = { 0 }, lost = { 0 }, waiting = { 0 }, file = { 0 };

    use_list(w, WALDO_STRINGS("counted:", "counted:"));
    expect(w, "true", "");
    holds = 1;
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &running, NULL, NULL);
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "echo once >> f; lose"), took_end, &lost,
                       NULL, NULL);
    drive(w, &lost);
    drive(w, &running);
    assert_int_equal(running.end, WALDO_EXEC_LOST);
    assert_int_equal(lost.end, WALDO_EXEC_LOST);
    assert_true(waldo__sandbox_moving(w->sandbox));
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "echo once >> f; cat f"), took_end, &waiting,
                       NULL, NULL);
    waldo_sandbox_write(w->sandbox, "g", (waldo_str){ "x", 1 }, 0, took_done, &file);
    held_wait(w->rt, PATIENCE_MS);
    assert_int_equal(waiting.count + file.count, 0);
    holds = 0;
    held_release();
    drive(w, &waiting);
    drive(w, &file);
    assert_string_equal(waiting.text, "once\n");
    assert_int_equal(file.status, WALDO_OK);
    assert_int_equal(running.count + lost.count + waiting.count + file.count, 4);
    assert_int_equal(opens, 2);
    assert_int_equal(ends, 1); /* through the backend, while the next one was opened */
}

static void one_after_the_other_and_then_it_is_lost(void **state)
{
    world *w = *state;
    outcome out;

    use_list(w, WALDO_STRINGS("counted:", "counted:", "counted:"));
    expect(w, "echo kept > f", "");
    keep(w);
    lose(w);
    expect(w, "cat f", "kept\n");
    lose(w);
    expect(w, "cat f", "kept\n");
    assert_int_equal(waldo_sandbox_generation(w->sandbox), 3);
    assert_int_equal(waldo__sandbox_notice_count(w->sandbox), 2);
    lose(w);
    out = run(w, "true");
    assert_int_equal(out.status, WALDO_ELOST);
    assert_has(out.text, "the sandbox was lost: ");
    assert_has(w->heard, "lost opened moved lost opened moved lost ");
    assert_int_equal(waldo_sandbox_generation(w->sandbox), 3);
    assert_int_equal(opens, 3);
}

/* For whatever reason, before there was a machine and after one was lost. */
static void who_refuses_is_passed_over(void **state)
{
    static const waldo_status reasons[] = { WALDO_EUNAVAILABLE, WALDO_EAUTH, WALDO_ENOTFOUND,
                                            WALDO_EQUOTA, WALDO_ETIMEDOUT };
    world *w = *state;

    for (size_t i = 0; i < WALDO__COUNT(reasons); i++) {
        refuse = reasons[i];
        use_list(w, WALDO_STRINGS("counted:", "fake:", "counted:", "fake:,fail=open", "fake:"));
        w->heard[0] = '\0';
        expect(w, "echo f > f", "");
        assert_string_equal(w->heard, "refused opened ");
        lose(w);
        expect(w, "ls", "");
        assert_string_equal(w->heard, "refused opened lost refused refused opened moved ");
        assert_int_equal(waldo_sandbox_generation(w->sandbox), 2);
        waldo_sandbox_unref(w->sandbox);
        w->sandbox = NULL;
    }
    assert_int_equal(opens, 0);
}

static void nobody_takes_its_place(void **state)
{
    world *w = *state;
    outcome waiting = { 0 };

    use_list(w, WALDO_STRINGS("counted:", "fake:,fail=open,open_ms=5", "fake:,fail=open"));
    expect(w, "true", "");
    lose(w);
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "true"), took_end, &waiting, NULL, NULL);
    drive(w, &waiting);
    assert_int_equal(waiting.status, WALDO_ELOST);
    assert_has(waiting.text, "told to be lost by the command");
    assert_has(waiting.text, "no other machine could take its place: sandbox \"fake:,fail=open\"");
    assert_has(waiting.text, "told to fail by fail=open");
    assert_has(w->heard, "lost refused lost ");
    assert_false(waldo__sandbox_moving(w->sandbox));
    assert_string_equal(notice(w, 0), "");
}

static void a_workspace_that_has_no_room_is_restored_elsewhere(void **state)
{
    world *w = *state;

    use_list(w, WALDO_STRINGS("counted:", "counted:,space=100", "counted:"));
    expect(w,
           "echo a > small; echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa > f; "
           "echo bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb > g",
           "");
    keep(w);
    w->heard[0] = '\0';
    lose(w);
    expect(w, "cat small; ls", "a\nf\ng\nsmall\n");
    assert_string_equal(w->heard, "lost refused opened moved ");
    assert_int_equal(opens, 3);
    assert_int_equal(waldo_sandbox_generation(w->sandbox), 2);
}

/* A machine may go while the workspace is being put into it. */
static void lost_again_while_it_is_restored(void **state)
{
    world *w = *state;

    use_list(w, WALDO_STRINGS("counted:", "counted:,lose_after=2", "counted:"));
    expect(w, "echo a > a; echo b > b; echo c > c", "");
    keep(w);
    w->heard[0] = '\0';
    lose(w);
    expect(w, "ls", "a\nb\nc\n");
    assert_string_equal(w->heard, "lost refused opened moved ");
    assert_int_equal(opens, 3);
}

static void too_large_a_workspace_is_said_once(void **state)
{
    world *w = *state;

    use(w, &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("counted:", "fake:"),
                               .workspace_max_bytes = 16));
    expect(w, "echo small > f", "");
    keep(w);
    expect(w, "echo far more than sixteen bytes > f", "");
    w->heard[0] = '\0';
    waldo__sandbox_checkpoint(w->sandbox);
    waldo__sandbox_checkpoint(w->sandbox); /* that waits for the one before */
    wait_word(w, "unsaved");
    expect(w, "sleep 0.05", "");
    waldo__sandbox_checkpoint(w->sandbox);
    expect(w, "sleep 0.05", "");
    assert_string_equal(w->heard, "unsaved ");
    assert_has(w->last, "raise workspace_max_bytes");
    lose(w);
    expect(w, "cat f", "small\n");
}

static void closed_while_it_moves(void **state)
{
    world *w = *state;
    outcome waiting = { 0 }, closed = { 0 };

    use_list(w, WALDO_STRINGS("counted:", "counted:,open_ms=60000"));
    expect(w, "true", "");
    lose(w);
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "true"), took_end, &waiting, NULL, NULL);
    waldo_sandbox_close(w->sandbox, took_done, &closed);
    drive(w, &closed);
    assert_int_equal(waiting.count, 1);
    assert_int_equal(waiting.end, WALDO_EXEC_CANCELLED);
    assert_false(waldo__sandbox_moving(w->sandbox));
    assert_has(w->heard, "lost closed ");
}

static void freed_while_it_moves(void **state)
{
    world *w = *state;
    outcome running = { 0 }, lost = { 0 };

    use_list(w, WALDO_STRINGS("counted:", "counted:,open_ms=60000"));
    expect(w, "true", "");
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &running, NULL, NULL);
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "lose"), took_end, &lost, NULL, NULL);
    while (!waldo__sandbox_moving(w->sandbox)) {
        waldo_runtime_step(w->rt, PATIENCE_MS);
    }
    waldo_sandbox_unref(w->sandbox);
    w->sandbox = NULL;
    waldo_runtime_free(w->rt);
    assert_int_equal(running.count + lost.count, 2);
    assert_int_equal(opens, ends);
    w->rt = waldo_runtime_new(NULL);
}

/* With nobody waiting the idle time runs in the new machine, too. */
static void idle_time_goes_on(void **state)
{
    world *w = *state;

    use_list(w, WALDO_STRINGS("counted:,idle=60s", "counted:,idle=20ms"));
    expect(w, "true", "");
    lose(w);
    wait_word(w, "closed");
    assert_has(w->heard, "moved closed ");
}

/* ---- real machines ---- */

static void a_real_one_is_followed_by_another(void **state)
{
    world *w = *state;
    outcome running = { 0 };
    int64_t first = 0, second = 0, third = 0;
    waldo_background_info infos[WALDO_BACKGROUND_MAX];

    if (waldo__backend_find(waldo__str("local")) == NULL) {
        skip();
    }
    use_list(w, WALDO_STRINGS("local:", "local:", "counted:"));
    expect(w, "mkdir -p d/e; echo \"it's\" > d/e/f; ln -s e d/l; chmod 500 d/e; chmod 750 d", "");
    keep(w);
    waldo_background_start(w->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), &first, NULL);
    waldo_background_start(w->sandbox, &WALDO_EXEC(.cmd = "true"), &second, NULL);
    waldo_background_start(w->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), &third, NULL);
    while (waldo_background_list(w->sandbox, infos, WALDO_BACKGROUND_MAX), infos[1].running) {
        waldo_runtime_step(w->rt, PATIENCE_MS);
    }
    waldo_sandbox_exec(w->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &running, NULL, NULL);
    lose(w);
    drive(w, &running);
    assert_int_equal(running.end, WALDO_EXEC_LOST);
    expect(w, "cat d/l/f; stat -c %a d d/e; readlink d/l", "it's\n750\n500\ne\n");
    assert_int_equal(waldo_background_list(w->sandbox, infos, WALDO_BACKGROUND_MAX), 3);
    assert_false(infos[0].running || infos[1].running || infos[2].running);
    assert_has(notice(w, 0), "Background commands that are gone: 1, 3.");
    assert_int_equal(
        waldo_background_start(w->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), &first, NULL),
        WALDO_OK);
    assert_int_equal(first, 4);
    expect(w, "chmod 700 d/e; rm -rf d; echo new > n", "");
    keep(w);
    lose(w);
    expect(w, "cat n; ls", "new\nn\n");
    assert_has(notice(w, 1), "Background commands that are gone: 4.");
}

/* ---- without memory ---- */

/* At each allocation in turn: what was asked for ends once, and well or with a name. */
static waldo_status one_move(void)
{
    world w = { .rt = waldo_runtime_new(NULL) };
    outcome first = { 0 }, waiting = { 0 };

    w.listener = (waldo__sandbox_listener){ .fn = hear, .userdata = &w };
    use_list(&w, WALDO_STRINGS("counted:", "counted:,fail=open", "counted:"));
    expect(&w, "echo kept > f", "");
    keep(&w);
    failing.on = 1;
    if (waldo_sandbox_exec(w.sandbox, &WALDO_EXEC(.cmd = "lose"), took_end, &first, NULL, NULL) ==
        WALDO_OK) {
        drive(&w, &first);
    }
    waldo_sandbox_open(w.sandbox, took_done, &waiting);
    drive(&w, &waiting);
    failing.on = 0;
    if (waiting.status == WALDO_OK) {
        expect(&w, "cat f", "kept\n");
        assert_int_equal(waldo__sandbox_notice_count(w.sandbox),
                         waldo_sandbox_generation(w.sandbox) - 1);
    }
    waldo_sandbox_unref(w.sandbox);
    waldo_runtime_finish(w.rt);
    assert_int_equal(opens, ends);
    return waiting.status;
}

static void walks_a_move(void **state)
{
    size_t steps = 0;

    (void)state;
    opens = ends = 0;
    refuse = WALDO_OK;
    failing_begin();
    assert_int_equal(one_move(), WALDO_OK);
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status = one_move();

        if (status != WALDO_OK && status != WALDO_ENOMEM && status != WALDO_ELOST) {
            fail_msg("allocation %zu: %s", failing.fail_at, waldo_status_name(status));
        }
        steps += status != WALDO_OK;
    }
    assert_true(steps > 5);
}

int main(void)
{
    static waldo_backend_ops counted;
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, begin, end)
        ROW(the_newest_snapshot_goes_along),
        ROW(pause_waits_for_a_snapshot),
        ROW(none_is_taken_of_the_last_machine),
        ROW(a_close_without_memory_is_told),
        ROW(without_one_it_begins_empty),
        ROW(the_host_directory_is_copied_as_it_was_at_first),
        ROW(no_changes_without_what_was_there_at_first),
        ROW(what_runs_is_lost_and_what_waits_goes_on),
        ROW(one_after_the_other_and_then_it_is_lost),
        ROW(who_refuses_is_passed_over),
        ROW(nobody_takes_its_place),
        ROW(a_workspace_that_has_no_room_is_restored_elsewhere),
        ROW(lost_again_while_it_is_restored),
        ROW(too_large_a_workspace_is_said_once),
        ROW(closed_while_it_moves),
        ROW(freed_while_it_moves),
        ROW(idle_time_goes_on),
        ROW(a_real_one_is_followed_by_another),
#undef ROW
        cmocka_unit_test(walks_a_move),
    };

    failing_install();
    fake = waldo__backend_find(waldo__str("fake"));
    counted = *fake;
    counted.name = "counted";
    counted.open = counted_open;
    counted.close = counted_close;
    counted.abandon = counted_abandon;
    counted.describe = counted_describe;
    if (waldo_backend_register(&counted, NULL) != WALDO_OK) {
        return 1;
    }
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
