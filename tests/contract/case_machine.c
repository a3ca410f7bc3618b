/* Pausing, and what is refused where it is not offered. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <waldo/background.h>
#include <waldo/machine.h>

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

enum { PAUSE_MS = 600, GAP_MS = 300 };

typedef void (*simple)(waldo_sandbox *, waldo_sandbox_fn, void *);

static waldo_status status_of(contract *c, simple function)
{
    outcome out;
    waldo_status status;

    outcome_init(&out);
    function(c->sandbox, took_done, &out);
    assert_int_equal(out.count, 0); /* from dispatch */
    drive(c, &out);
    status = out.status;
    if (status != WALDO_OK) {
        print_message("    %s\n", out.message);
    }
    outcome_free(&out);
    return status;
}

static void expect_output(contract *c, const char *cmd, const char *text)
{
    waldo_exec_result *result = run(c, &WALDO_EXEC(.cmd = cmd));

    expect_text(&result->out, text);
    waldo_exec_result_free(result);
}

static void stand_still(contract *c, int64_t ms)
{
    int64_t end = waldo__now_ns() + ms * 1000000;

    while (waldo__now_ns() < end) {
        waldo_runtime_step(c->rt, (end - waldo__now_ns()) / 1000000 + 1);
    }
}

static void use_ends_a_pause(void **state)
{
    contract *c = *state;
    outcome out;

    NEED(c, WALDO_BACKEND_PAUSE);
    write_file(c, "kept", waldo__str("text\n"), 0644, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    read_file(c, "kept", 0, 100, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_true(waldo__str_is(waldo__buf_str(&out.bytes), "text\n"));
    outcome_free(&out);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
        expect_output(c, "cat kept", "text\n");
    }
}

static void resume_is_for_paused_ones(void **state)
{
    contract *c = *state;

    NEED(c, WALDO_BACKEND_PAUSE);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    assert_int_equal(status_of(c, waldo_sandbox_resume), WALDO_OK);
    assert_int_equal(waldo_sandbox_isolation(c->sandbox), WALDO_ISOLATION_ANY); /* not opened */
    expect_output(c, "echo a", "a\n");
    assert_int_equal(status_of(c, waldo_sandbox_resume), WALDO_OK);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    assert_int_equal(status_of(c, waldo_sandbox_resume), WALDO_OK);
    expect_output(c, "echo b", "b\n");
}

static void took_end(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    int *end = userdata;

    (void)error;
    *end = status == WALDO_OK ? (int)result->end : (int)status;
}

static void what_is_in_use_is_not_paused(void **state)
{
    contract *c = *state;
    waldo_job *job = NULL;
    int end = 0;

    NEED(c, WALDO_BACKEND_PAUSE);
    assert_int_equal(
        waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "sleep 100"), took_end, &end, &job, NULL),
        WALDO_OK);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_EBUSY); /* still being opened */
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_EBUSY);
    assert_int_equal(end, 0);
    waldo_job_cancel(job);
    while (end == 0) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(end, WALDO_EXEC_CANCELLED);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
}

static void begun_while_it_is_paused(void **state)
{
    contract *c = *state;
    outcome paused, again;
    int end = 0;

    NEED(c, WALDO_BACKEND_PAUSE);
    expect_output(c, "echo a", "a\n");
    outcome_init(&paused);
    outcome_init(&again);
    waldo_sandbox_pause(c->sandbox, took_done, &paused);
    waldo_sandbox_pause(c->sandbox, took_done, &again);
    waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "true"), took_end, &end, NULL, NULL);
    while (end == 0) {
        assert_int_equal(waldo_runtime_step(c->rt, 60000), WALDO_OK);
    }
    assert_int_equal(end, WALDO_EXEC_EXITED);
    assert_int_equal(paused.count, 1);
    assert_int_equal(paused.status, WALDO_OK);
    assert_int_equal(again.status, WALDO_EBUSY);
    outcome_free(&paused);
    outcome_free(&again);
}

static void closed_while_paused(void **state)
{
    contract *c = *state;
    int end = 0;

    NEED(c, WALDO_BACKEND_PAUSE);
    expect_output(c, "echo a", "a\n");
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    waldo_sandbox_ref(c->sandbox);
    close_sandbox(c, c->sandbox);
    assert_int_equal(
        waldo_sandbox_exec(c->sandbox, &WALDO_EXEC(.cmd = "true"), took_end, &end, NULL, NULL),
        WALDO_ECLOSED);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_ECLOSED);
    assert_int_equal(status_of(c, waldo_sandbox_resume), WALDO_ECLOSED);
}

static void closed_while_it_is_being_paused(void **state)
{
    contract *c = *state;
    outcome out;

    NEED(c, WALDO_BACKEND_PAUSE);
    expect_output(c, "echo a", "a\n");
    outcome_init(&out);
    waldo_sandbox_pause(c->sandbox, took_done, &out);
    waldo_sandbox_ref(c->sandbox);
    close_sandbox(c, c->sandbox);
    assert_int_equal(out.count, 1);
    outcome_free(&out);
}

static void closed_while_it_goes_on(void **state)
{
    contract *c = *state;
    outcome out;

    NEED(c, WALDO_BACKEND_PAUSE);
    expect_output(c, "echo a", "a\n");
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    outcome_init(&out);
    waldo_sandbox_resume(c->sandbox, took_done, &out);
    waldo_sandbox_ref(c->sandbox);
    close_sandbox(c, c->sandbox);
    assert_int_equal(out.count, 1);
    assert_int_equal(out.status, WALDO_ECANCELED);
    outcome_free(&out);
}

static void abandoned_while_paused(void **state)
{
    contract *c = *state;
    outcome out;

    NEED(c, WALDO_BACKEND_PAUSE);
    expect_output(c, "echo a", "a\n");
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    outcome_init(&out);
    waldo_sandbox_resume(c->sandbox, took_done, &out);
    waldo__sandbox_abandon(c->sandbox);
    assert_int_equal(out.count, 1);
    outcome_free(&out);
}

static void hear(void *userdata, const char *what, const char *text)
{
    (void)text;
    *(int *)userdata += strcmp(what, "closed") == 0;
}

/* 0: it was idle for too long before it could be paused. */
static int pause_outlives_idle_time(contract *c, const char *idle, int64_t pause_ms)
{
    int closed = 0;
    waldo__sandbox_listener listener = { .fn = hear, .userdata = &closed };

    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, idle, NULL, WALDO_WORKSPACE_COPY);
    waldo__sandbox_listen(c->sandbox, &listener);
    expect_output(c, "echo a > kept", "");
    if (status_of(c, waldo_sandbox_pause) == WALDO_OK) {
        stand_still(c, pause_ms);
        expect_output(c, "cat kept", "a\n");
        assert_int_equal(closed, 0);
        closed = -1;
    }
    waldo__sandbox_unlisten(c->sandbox, &listener);
    return closed == -1;
}

static void idle_time_stands_still(void **state)
{
    contract *c = *state;

    NEED(c, WALDO_BACKEND_PAUSE);
    assert_true(pause_outlives_idle_time(c, "idle=200ms", 500) ||
                pause_outlives_idle_time(c, "idle=2", 5000) ||
                pause_outlives_idle_time(c, "idle=10", 20000));
}

static void took_news(void *userdata, waldo_status status, const waldo_background_news *news,
                      const waldo_error *error)
{
    outcome *out = userdata;

    took_done(userdata, status, error);
    if (news != NULL) {
        waldo__buf_add_str(&out->bytes, news->output.bytes);
    }
}

/* It tells the longest time between two of its steps, in hundredths of a second. */
static void background_stands_still(void **state)
{
    static const char cmd[] = "now() { read -r t x < /proc/uptime; t=${t%.*}${t#*.}; }; now; "
                              "last=$t; max=0; echo up; : > up; "
                              "while [ ! -e end ]; do sleep 0.05; now; d=$((t - last)); last=$t; "
                              "[ $d -gt $max ] && max=$d; done; echo $max; exit 4";
    static const char wait_up[] = "while [ ! -e up ]; do sleep 0.02; done; rm up";
    contract *c = *state;
    waldo_background_info info;
    int64_t number = 0;
    outcome first, out;

    NEED(c, WALDO_BACKEND_PAUSE | WALDO_BACKEND_CHANNEL);
    assert_int_equal(waldo_background_start(c->sandbox, &WALDO_EXEC(.cmd = cmd), &number, NULL),
                     WALDO_OK);
    expect_output(c, wait_up, "");
    outcome_init(&first);
    waldo_background_read(c->sandbox, number, 0, 100, 60000, took_news, &first, NULL, NULL);
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_EBUSY); /* it is being read */
    assert_int_equal(first.count, 0);
    write_file(c, "end", waldo__str(""), 0644, &out);
    outcome_free(&out);
    drive(c, &first);
    assert_int_equal(first.status, WALDO_OK);
    outcome_free(&first);
    expect_output(c, "rm end", "");
    assert_int_equal(waldo_background_start(c->sandbox, &WALDO_EXEC(.cmd = cmd), &number, NULL),
                     WALDO_OK);
    expect_output(c, wait_up, "");
    assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_OK);
    stand_still(c, PAUSE_MS);
    assert_int_equal(waldo_background_list(c->sandbox, &info, 1), 2);
    expect_output(c, ": > end", "");
    outcome_init(&out);
    waldo_background_read(c->sandbox, number, 0, 100, 60000, took_news, &out, NULL, NULL);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_true(waldo__str_starts(waldo__buf_str(&out.bytes), "up\n"));
    assert_true(atoi(waldo__buf_str(&out.bytes).ptr + 3) >= GAP_MS / 10);
    outcome_free(&out);
}

static void took_url(void *userdata, waldo_status status, waldo_str url, const waldo_error *error)
{
    took_done(userdata, status, error);
    assert_true(status == WALDO_OK || url.len == 0);
}

static void what_is_not_offered_is_refused(void **state)
{
    contract *c = *state;
    outcome out;

    if (!offers(c, WALDO_BACKEND_PAUSE)) {
        expect_output(c, "echo a", "a\n"); /* before it is open, there is nothing to pause */
        assert_int_equal(status_of(c, waldo_sandbox_pause), WALDO_ENOTSUP);
    }
    if (!offers(c, WALDO_BACKEND_PORTS)) {
        outcome_init(&out);
        waldo_sandbox_port_url(c->sandbox, 80, took_url, &out);
        drive(c, &out);
        assert_int_equal(out.status, WALDO_ENOTSUP);
        outcome_free(&out);
    }
    if (!offers(c, WALDO_BACKEND_SET_NET)) {
        outcome_init(&out);
        waldo_sandbox_set_net(c->sandbox, WALDO_NET_NONE, NULL, took_done, &out);
        drive(c, &out);
        assert_int_equal(out.status, WALDO_ENOTSUP);
        outcome_free(&out);
    }
    expect_output(c, "echo b", "b\n");
}

const struct CMUnitTest machine_cases[] = {
    CASE(use_ends_a_pause),
    CASE(resume_is_for_paused_ones),
    CASE(what_is_in_use_is_not_paused),
    CASE(begun_while_it_is_paused),
    CASE(closed_while_paused),
    CASE(closed_while_it_is_being_paused),
    CASE(closed_while_it_goes_on),
    CASE(abandoned_while_paused),
    CASE(idle_time_stands_still),
    CASE(background_stands_still),
    CASE(what_is_not_offered_is_refused),
};
const size_t machine_case_count = sizeof machine_cases / sizeof *machine_cases;
