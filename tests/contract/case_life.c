/* Opening, closing, losing, the workspace. */
#include "contract.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/registry.h"

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

typedef struct news {
    waldo__sandbox_listener listener;
    char heard[256];
} news;

static void hear(void *userdata, const char *what, const char *text)
{
    news *n = userdata;
    size_t used = strlen(n->heard);

    (void)text;
    snprintf(n->heard + used, sizeof n->heard - used, "%s ", what);
}

static void opens_once_and_closes(void **state)
{
    contract *c = *state;
    news n = { .listener = { .fn = hear, .userdata = &n } };
    outcome outs[3];

    waldo__sandbox_listen(c->sandbox, &n.listener);
    assert_int_equal(waldo_sandbox_isolation(c->sandbox), WALDO_ISOLATION_ANY);
    assert_string_equal(waldo_sandbox_backend(c->sandbox), c->backend->name);
    for (int i = 0; i < 3; i++) {
        outcome_init(&outs[i]);
        waldo_sandbox_open(c->sandbox, took_done, &outs[i]);
        assert_int_equal(outs[i].count, 0);
    }
    for (int i = 0; i < 3; i++) {
        drive(c, &outs[i]);
        assert_int_equal(outs[i].status, WALDO_OK);
        outcome_free(&outs[i]);
    }
    assert_int_equal(waldo_sandbox_isolation(c->sandbox), c->backend->isolation);
    waldo_sandbox_ref(c->sandbox);
    close_sandbox(c, c->sandbox);
    assert_int_equal(
        waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "true"), NULL, NULL, NULL, NULL),
        WALDO_EINVAL);
    waldo_runtime_step(c->rt, 0);
    assert_string_equal(n.heard, "opened closed ");
    waldo__sandbox_unlisten(c->sandbox, &n.listener);
}

static void took_end(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    int *end = userdata;

    (void)error;
    *end = status == WALDO_OK ? (int)result->end : (int)status;
}

static void close_ends_commands(void **state)
{
    contract *c = *state;
    int end = 0;
    outcome out;

    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &end, NULL, NULL);
    outcome_init(&out);
    waldo_sandbox_open(c->sandbox, took_done, &out);
    drive(c, &out);
    outcome_free(&out);
    waldo_sandbox_ref(c->sandbox);
    close_sandbox(c, c->sandbox);
    assert_int_equal(end, WALDO_EXEC_CANCELLED);
    assert_int_equal(
        waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "true"), took_end, &end, NULL, NULL),
        WALDO_ECLOSED);
}

static void abandon_delivers_at_once(void **state)
{
    contract *c = *state;
    int end = 0;
    outcome out;

    outcome_init(&out);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &end, NULL, NULL);
    waldo_sandbox_read(c->sandbox, "x", 0, 1, took_bytes, &out);
    assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    waldo__sandbox_abandon(c->sandbox);
    assert_int_equal(end, WALDO_EXEC_CANCELLED);
    assert_int_equal(out.count, 1);
    outcome_free(&out);
}

static void abandon_while_open(void **state)
{
    contract *c = *state;
    int end = 0;

    waldo_exec_result_free(run(c, &WALDO_EXEC(.cmd = "true")));
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &end, NULL, NULL);
    waldo_runtime_step(c->rt, 20);
    waldo__sandbox_abandon(c->sandbox);
    assert_int_equal(end, WALDO_EXEC_CANCELLED);
}

static void closes_when_idle(void **state)
{
    contract *c = *state;
    news n = { .listener = { .fn = hear, .userdata = &n } };
    waldo_exec_result *result = NULL;

    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, "idle=50ms", NULL, WALDO_WORKSPACE_COPY);
    waldo__sandbox_listen(c->sandbox, &n.listener);
    result = run(c, &WALDO_EXEC(.cmd = "true"));
    waldo_exec_result_free(result);
    while (strstr(n.heard, "closed") == NULL) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    waldo__sandbox_unlisten(c->sandbox, &n.listener);
}

static void patch_of_a_copy(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    outcome out;

    host_write(c, "a/old.txt", "one\ntwo\n", 8, 0644);
    host_write(c, "gone", "x\n", 2, 0644);
    host_write(c, ".git/config", "[core]\n", 7, 0644);
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, "", c->folder, WALDO_WORKSPACE_COPY);
    result = run(c, &WALDO_EXEC(.cmd = "cat a/old.txt .git/config"));
    expect_text(&result->out, "one\ntwo\n[core]\n");
    waldo_exec_result_free(result);
    outcome_init(&out);
    waldo_sandbox_changes(c->sandbox, took_patch, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_int_equal(out.bytes.len, 0);
    outcome_free(&out);
    result = run(c, &WALDO_EXEC(.cmd = "echo three >> a/old.txt; rm gone; echo new > b; "
                                       "echo x > .git/y"));
    assert_int_equal(result->exit_code, 0);
    waldo_exec_result_free(result);
    outcome_init(&out);
    waldo_sandbox_changes(c->sandbox, took_patch, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_non_null(strstr(out.bytes.ptr, "+three\n"));
    assert_non_null(strstr(out.bytes.ptr, "deleted file mode 100644\n"));
    assert_non_null(strstr(out.bytes.ptr, "+++ b/b\n"));
    assert_null(strstr(out.bytes.ptr, ".git"));
    outcome_free(&out);
}

static void bad_workspaces(void **state)
{
    contract *c = *state;
    char path[256];
    char message[1024];

    host_write(c, "file", "x", 1, 0644);
    snprintf(path, sizeof path, "%s/missing", c->folder);
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, "", path, WALDO_WORKSPACE_COPY);
    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true"), message, sizeof message),
                     WALDO_ENOTFOUND);
    assert_non_null(strstr(message, path));
    snprintf(path, sizeof path, "%s/file", c->folder);
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, "", path, WALDO_WORKSPACE_COPY);
    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true"), message, sizeof message),
                     WALDO_EPATH);
    assert_non_null(strstr(message, "not a directory"));
    snprintf(path, sizeof path, "%s/fifo", c->folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, "", c->folder, WALDO_WORKSPACE_COPY);
    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true"), message, sizeof message),
                     WALDO_EPATH);
    assert_non_null(strstr(message, "fifo"));
}

static void each_machine_its_own(void **state)
{
    contract *c = *state;
    waldo_sandbox *first = c->sandbox;
    waldo_exec_result *result = run(c, &WALDO_EXEC(.cmd = "echo one > f"));

    waldo_exec_result_free(result);
    c->sandbox = other_sandbox(c, "", NULL, WALDO_WORKSPACE_COPY);
    result = run(c, &WALDO_EXEC(.cmd = "cat f"));
    assert_int_equal(result->exit_code, 1);
    waldo_exec_result_free(result);
    close_sandbox(c, c->sandbox);
    c->sandbox = first;
    result = run(c, &WALDO_EXEC(.cmd = "cat f"));
    expect_text(&result->out, "one\n");
    waldo_exec_result_free(result);
}

/* What ends the hand and all that runs, from inside. */
static const char *deadly(const contract *c)
{
    if (strcmp(c->backend->name, "fake") == 0) {
        return "lose";
    }
    if (strcmp(c->backend->name, "e2b") == 0) { /* its hand is no first process */
        return "kill -9 $(pgrep -of '[d]urable'); sleep 100";
    }
    return "kill -9 2; kill 1; sleep 100";
}

static void losing_the_machine(void **state)
{
    contract *c = *state;
    news n = { .listener = { .fn = hear, .userdata = &n } };
    int ends[2] = { 0, 0 };
    char message[256];
    outcome out;

    waldo__sandbox_listen(c->sandbox, &n.listener);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &ends[0], NULL, NULL);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = deadly(c)), took_end, &ends[1], NULL, NULL);
    outcome_init(&out);
    while (ends[0] == 0 || ends[1] == 0) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(ends[0], WALDO_EXEC_LOST);
    assert_int_equal(ends[1], WALDO_EXEC_LOST);
    waldo_sandbox_read(c->sandbox, "f", 0, 1, took_bytes, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_ELOST);
    outcome_free(&out);
    assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true"), message, sizeof message),
                     WALDO_ELOST);
    assert_non_null(strstr(message, "lost"));
    assert_string_equal(n.heard, "opened lost ");
    waldo__sandbox_unlisten(c->sandbox, &n.listener);
}

/* One refuses, the next serves. */
static void next_backend(void **state)
{
    contract *c = *state;
    char own[64];
    waldo_sandbox_spec *spec;
    waldo_exec_result *result;

    snprintf(own, sizeof own, "%s:%s", c->backend->name, contract_target);
    spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:,fail=open", own)));
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = waldo_sandbox_new(c->rt, spec);
    waldo_sandbox_spec_unref(spec);
    assert_string_equal(waldo_sandbox_backend(c->sandbox), "fake");
    result = run(c, &WALDO_EXEC(.cmd = "echo served"));
    expect_text(&result->out, "served\n");
    waldo_exec_result_free(result);
    assert_string_equal(waldo_sandbox_backend(c->sandbox), c->backend->name);
}

static void failing_to_open_can_be_tried_again(void **state)
{
    contract *c = *state;
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:,fail=open")));
    char message[256];

    waldo_sandbox_unref(c->sandbox);
    c->sandbox = waldo_sandbox_new(c->rt, spec);
    waldo_sandbox_spec_unref(spec);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_status(c, &WALDO_EXEC(.cmd = "true"), message, sizeof message),
                         WALDO_EUNAVAILABLE);
        assert_non_null(strstr(message, "fail=open"));
    }
}

typedef struct reports {
    int count;
    int usable;
    const char *wanted;
} reports;

static void take_report(void *userdata, const waldo_backend_report *report)
{
    reports *r = userdata;

    r->count++;
    r->usable += report->usable && strcmp(report->name, r->wanted) == 0;
    if (!report->usable) {
        print_error("%s: %s\n", report->name, report->reason);
    }
}

static void took_reports(void *userdata, waldo_status status, const waldo_error *error)
{
    reports *r = userdata;

    (void)error;
    r->count = status == WALDO_OK ? r->count + 100 : -1;
}

static void probing(void **state)
{
    contract *c = *state;
    reports r = { .wanted = c->backend->name };
    size_t count;

    waldo_backend_probe(c->rt, take_report, took_reports, &r);
    while (r.count >= 0 && r.count < 100) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    for (count = 0; waldo__backend_at(count) != NULL; count++) {
    }
    assert_int_equal(r.count, 100 + count);
    assert_int_equal(r.usable, 1);
}

/* Whether one could be opened is told without opening it, and by the first that would serve. */
static void checking_opens_nothing(void **state)
{
    contract *c = *state;
    char own[64];
    const char *const lists[][3] = { { own, NULL },
                                     { "docker:no-such-image,host=unix:///no/engine", own, NULL },
                                     { own, "docker:no-such-image,host=unix:///no/engine", NULL },
                                     { "docker:no-such-image,host=unix:///no/engine", NULL },
                                     { "no-such-backend:", NULL } };
    static const waldo_status expected[] = { WALDO_OK, WALDO_OK, WALDO_OK, WALDO_EUNAVAILABLE,
                                             WALDO_EINVAL };

    if (waldo__backend_find(waldo__str("docker")) == NULL) {
        skip();
    }
    snprintf(own, sizeof own, "%s:%s", c->backend->name, contract_target);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        waldo_sandbox_spec *spec =
            waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = lists[i]));
        outcome out;

        outcome_init(&out);
        waldo_sandbox_check(c->rt, spec, took_done, &out);
        waldo_sandbox_spec_unref(spec);
        assert_int_equal(out.count, 0);
        drive(c, &out);
        if (out.status != expected[i]) {
            fail_msg("%zu: %s: %s", i, waldo_status_name(out.status), out.message);
        }
        assert_int_equal(strlen(out.message) > 0, expected[i] != WALDO_OK);
        outcome_free(&out);
    }
}

static void changes_open_nothing(void **state)
{
    contract *c = *state;
    outcome out;

    outcome_init(&out);
    waldo_sandbox_changes(c->sandbox, took_patch, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_int_equal(out.bytes.len, 0);
    assert_int_equal(waldo_sandbox_isolation(c->sandbox), WALDO_ISOLATION_ANY);
    outcome_free(&out);
}

/* What a forked child does to its copies is no harm to the machine. */
static void forked_child_does_no_harm(void **state)
{
    contract *c = *state;
    waldo_exec_result *result = run(c, &WALDO_EXEC(.cmd = "echo kept > f"));
    waldo_exec_result *none = NULL;
    int child_status = -1;
    pid_t pid;

    waldo_exec_result_free(result);
    pid = fork();
    if (pid == 0) {
        waldo_status status =
            waldo_sandbox_exec_wait(c->sandbox, &WALDO_EXEC(.cmd = "true"), &none, NULL);

        waldo_sandbox_unref(c->sandbox);
        waldo_runtime_free(c->rt);
        _exit(status == WALDO_EFORKED ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &child_status, 0), pid);
    assert_int_equal(child_status, 0);
    result = run(c, &WALDO_EXEC(.cmd = "cat f"));
    expect_text(&result->out, "kept\n");
    waldo_exec_result_free(result);
}

static void grant(void *userdata)
{
    ++*(int *)userdata;
}

static void turns_come_one_by_one(void **state)
{
    contract *c = *state;
    int granted[3] = { 0, 0, 0 };
    waldo__turn turns[3];

    for (int i = 0; i < 3; i++) {
        turns[i] = (waldo__turn){ .granted = grant, .userdata = &granted[i] };
        waldo__sandbox_turn_take(c->sandbox, &turns[i]);
    }
    waldo_runtime_step(c->rt, 1000);
    assert_int_equal(granted[0] + granted[1] + granted[2], 1);
    waldo__sandbox_turn_give(c->sandbox, &turns[1]); /* while it waits */
    waldo__sandbox_turn_give(c->sandbox, &turns[0]);
    waldo_runtime_step(c->rt, 1000);
    assert_int_equal(granted[1], 0);
    assert_int_equal(granted[2], 1);
    waldo__sandbox_turn_give(c->sandbox, &turns[2]);
    waldo_runtime_step(c->rt, 0);
}

const struct CMUnitTest life_cases[] = {
    CASE(opens_once_and_closes),
    CASE(close_ends_commands),
    CASE(abandon_delivers_at_once),
    CASE(abandon_while_open),
    CASE(closes_when_idle),
    CASE(patch_of_a_copy),
    CASE(losing_the_machine),
    CASE(next_backend),
    CASE(failing_to_open_can_be_tried_again),
    CASE(probing),
    CASE(checking_opens_nothing),
    CASE(changes_open_nothing),
    CASE(turns_come_one_by_one),
    CASE(forked_child_does_no_harm),
    CASE(bad_workspaces),
    CASE(each_machine_its_own),
};
const size_t life_case_count = sizeof life_cases / sizeof *life_cases;
