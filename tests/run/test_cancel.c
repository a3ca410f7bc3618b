/* Stopping: in every state, from other threads, by freeing; and what is left afterwards. */
#include <pthread.h>
#include <unistd.h>

#include "fixture.h"

typedef struct held {
    waldo_tool_call *call;
    int begun, cancelled;
} held;

static void on_cancel(void *userdata)
{
    ((held *)userdata)->cancelled++;
}

static waldo_status hold(void *userdata, waldo_tool_call *call)
{
    held *h = userdata;

    h->call = waldo_tool_call_ref(call);
    h->begun++;
    waldo_tool_call_on_cancel(call, on_cancel, h);
    return WALDO_PENDING;
}

static waldo_agent *holding_agent(fixture *f, held *h)
{
    return waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"),
                     .tools =
                         WALDO_TOOLS(WALDO_TOOL(.name = "hold", .call = hold, .userdata = h))));
}

#define HOLD "{\"calls\":[{\"id\":\"c1\",\"name\":\"hold\",\"arguments\":\"{}\"}]}"

static void drive_until(waldo_runtime *rt, const int *value)
{
    while (*value == 0) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
}

static void a_cancelled_request_leaves_a_usable_history(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x")));
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"never ends\",\"stall_at\":100},{\"text\":\"fine\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    while (standin_request_count(f->server) == 0) {
        waldo_runtime_step(f->rt, 20);
    }
    waldo_run_cancel(run);
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_CANCELLED);
    assert_true(standin_wait(f->server, 1, 1)); /* the connection was left */
    assert_string_equal(fixture_items(run), "{\"kind\":\"user\",\"text\":\"hi\"}\n");
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "fine");
    waldo_agent_unref(agent);
}

static void a_cancelled_call_is_answered_in_the_history(void **state)
{
    fixture *f = *state;
    held h = { 0 };
    waldo_agent *agent = holding_agent(f, &h);
    waldo_run *run;

    fixture_replies(f, "[" HOLD ",{\"text\":\"fine\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    drive_until(f->rt, &h.begun);
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_int_equal(h.cancelled, 1);
    assert_true(waldo_tool_call_cancelled(h.call));
    assert_int_equal(waldo_tool_call_reply(h.call, "late"), WALDO_ECLOSED);
    waldo_tool_call_unref(h.call);
    assert_contains(fixture_items(run), "cancelled the run. The call had begun and may have had "
                                        "effects.");
    /* The strict server accepts what is there. */
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "fine");
    waldo_agent_unref(agent);
}

static void a_call_that_waits_for_approval_can_be_cancelled(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"), .approve = WALDO_APPROVE_ALL,
                                     .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    waldo_run *run;

    fixture_replies(f,
                    "[{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":"
                    "\\\"a\\\"}\"}]},{\"text\":\"fine\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_int_equal(calls, 0);
    assert_contains(fixture_items(run), "The call was not run.");
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_agent_unref(agent);
}

static void *trigger_later(void *userdata)
{
    usleep(50000);
    waldo_cancel_trigger(userdata);
    return NULL;
}

static void another_thread_stops_runs(void **state)
{
    fixture *f = *state;
    held h = { 0 };
    waldo_agent *agent = holding_agent(f, &h);
    waldo_cancel *cancel = waldo_cancel_new();
    waldo_run *runs[2];
    pthread_t thread;

    fixture_replies(f, "[{\"text\":\"a\",\"stall_at\":100},{\"text\":\"b\",\"stall_at\":100}]");
    for (int i = 0; i < 2; i++) {
        runs[i] = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi", .cancel = cancel));
    }
    pthread_create(&thread, NULL, trigger_later, cancel);
    assert_int_equal(waldo_run_wait(runs[0], 60000), WALDO_ECANCELED);
    assert_int_equal(waldo_run_wait(runs[1], 60000), WALDO_ECANCELED);
    pthread_join(thread, NULL);
    /* A run that is made with a triggered object does not begin its work. */
    runs[0] = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi", .cancel = cancel));
    assert_int_equal(waldo_run_wait(runs[0], 60000), WALDO_ECANCELED);
    waldo_cancel_unref(cancel);
    waldo_agent_unref(agent);
}

static void a_run_may_be_freed_at_any_time(void **state)
{
    fixture *f = *state;
    held h = { 0 };
    waldo_agent *agent = holding_agent(f, &h);
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));

    waldo_run_free(run); /* before anything */
    fixture_replies(f, "[{\"text\":\"a\",\"stall_at\":100}," HOLD "]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    while (standin_request_count(f->server) == 0) {
        waldo_runtime_step(f->rt, 20);
    }
    waldo_run_free(run); /* in a request */
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    drive_until(f->rt, &h.begun);
    waldo_run_free(run); /* in a call */
    assert_int_equal(h.cancelled, 1);
    assert_int_equal(waldo_tool_call_reply(h.call, "late"), WALDO_ECLOSED);
    waldo_tool_call_unref(h.call);
    assert_null(waldo_runtime_next(f->rt, 0));
    waldo_agent_unref(agent);
}

static waldo_status free_my_run(void *userdata, waldo_tool_call *call)
{
    waldo_run_free(*(waldo_run **)userdata);
    return waldo_tool_call_reply(call, "gone") == WALDO_ECLOSED ? WALDO_OK : WALDO_EINTERNAL;
}

static void a_tool_may_free_its_run(void **state)
{
    fixture *f = *state;
    waldo_run *run;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"),
                     .tools = WALDO_TOOLS(
                         WALDO_TOOL(.name = "hold", .call = free_my_run, .userdata = &run))));

    fixture_replies(f, "[" HOLD "]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_null(waldo_runtime_next(f->rt, 60000));
    waldo_agent_unref(agent);
}

static void note_closed(void *userdata, waldo_status status)
{
    assert_int_equal(status, WALDO_OK);
    (*(int *)userdata)++;
}

static void closing_ends_everything(void **state)
{
    fixture *f = *state;
    held h = { 0 };
    waldo_agent *agent = holding_agent(f, &h);
    int closed = 0;
    waldo_run *run;

    fixture_replies(f, "[" HOLD "]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    drive_until(f->rt, &h.begun);
    assert_int_equal(waldo_runtime_close(f->rt, 60000, note_closed, &closed), WALDO_OK);
    assert_int_equal(closed, 0); /* not from inside the call */
    drive_until(f->rt, &closed);
    assert_int_equal(waldo_run_status(run), WALDO_ECANCELED);
    assert_int_equal(waldo_run_send(run, "x"), WALDO_ECLOSED);
    waldo_tool_call_unref(h.call);
    waldo_agent_unref(agent);
}

static void a_runtime_may_be_freed_with_work_at_hand(void **state)
{
    fixture *f = *state;
    held h = { 0 };
    waldo_agent *agent = holding_agent(f, &h);

    fixture_replies(f, "[" HOLD "]");
    waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    drive_until(f->rt, &h.begun);
    waldo_runtime_free(f->rt);
    f->rt = waldo_runtime_new(NULL);
    assert_int_equal(h.cancelled, 1);
    assert_int_equal(waldo_tool_call_reply(h.call, "late"), WALDO_ECLOSED);
    waldo_tool_call_unref(h.call);
    waldo_agent_unref(agent);
}

static waldo_status drive_inside(void *userdata, waldo_tool_call *call)
{
    waldo_runtime *rt = userdata;

    return waldo_tool_call_reply(call, "%s %s", waldo_status_name(waldo_runtime_step(rt, 100)),
                                 waldo_runtime_next(rt, 100) == NULL ? "none" : "some");
}

static void callbacks_cannot_drive(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"),
                     .tools = WALDO_TOOLS(
                         WALDO_TOOL(.name = "hold", .call = drive_inside, .userdata = f->rt))));
    waldo_run *run;

    fixture_replies(f, "[" HOLD ",{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "WALDO_EREENTRANT none");
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(a_cancelled_request_leaves_a_usable_history),
        ROW(a_cancelled_call_is_answered_in_the_history),
        ROW(a_call_that_waits_for_approval_can_be_cancelled),
        ROW(another_thread_stops_runs),
        ROW(a_run_may_be_freed_at_any_time),
        ROW(a_tool_may_free_its_run),
        ROW(closing_ends_everything),
        ROW(a_runtime_may_be_freed_with_work_at_hand),
        ROW(callbacks_cannot_drive),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
