/*
 * What holds for every run: nothing is told before it is kept, requests only grow, no secret
 * leaves, limits end in rest, and callbacks may do anything.
 */
#include "fixture.h"
#include "keeper.h"
#include "store/store.h"
#include "transcript/transcript.h"

#define TWO_CALLS                                                                                  \
    "[{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"a\\\"}\"},"   \
    "{\"id\":\"c2\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"b\\\"}\"}]},"              \
    "{\"text\":\"end\"}]"

/* Whatever append fails: the run says so, reports only what was kept, and goes no further. */
static waldo_status run_over_bad_store(fixture *f, keeper *s)
{
    waldo_store *store = keeper_store(s);
    int calls = 0;
    waldo_agent *agent;
    waldo_status status;
    waldo_run *run;
    size_t requests;

    fixture_runtime(f, &WALDO_RUNTIME(.store = store));
    assert_true(standin_reset(f->server));
    agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"),
                                     .tools = WALDO_TOOLS(echo_tool(&calls, WALDO_PARALLEL_SAFE))));
    fixture_replies(f, TWO_CALLS);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    status = waldo_run_wait(run, 60000);
    while (waldo_runtime_step(f->rt, 20) == WALDO_OK) {
    }
    assert_true((size_t)calls <= keeper_holds(s, "\"t\":\"dispatched\""));
    requests = standin_request_count(f->server);
    assert_true(requests == 0 || keeper_holds(s, "\"kind\":\"user\"") == 1);
    assert_true(requests < 2 || keeper_holds(s, "\"t\":\"finished\"") == 2);
    for (size_t i = 0; i < waldo_run_item_count(run); i++) {
        waldo_str item = waldo_run_item(run, i);

        if (strstr(item.ptr, "\"kind\":\"tool_result\"") == NULL) {
            assert_true(keeper_holds(s, item.ptr) == 1);
        } else {
            assert_true(keeper_holds(s, "\"t\":\"results\"") == 1);
        }
    }
    if (s->appends >= s->only && s->only > 0 && status != WALDO_OK) {
        size_t appends = s->appends;

        assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
        assert_int_equal(waldo_error_get_class(waldo_run_error(run)), WALDO_CLASS_STORE);
        assert_int_equal(waldo_run_send(run, "more"),
                         WALDO_OK); /* not over a hole in the journal */
        assert_int_equal(waldo_run_wait(run, 60000), s->answer);
        assert_int_equal(s->appends, appends);
        assert_int_equal(standin_request_count(f->server), requests);
    }
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
    return status;
}

static void survives_a_failure_of_any_append(void **state)
{
    static keeper s;
    size_t appends;

    memset(&s, 0, sizeof s);
    assert_int_equal(run_over_bad_store(*state, &s), WALDO_OK);
    appends = s.appends;
    assert_true(appends > 5);
    for (size_t n = 1; n <= appends; n++) {
        for (int conflict = 0; conflict <= 1; conflict++) {
            waldo_status answer = conflict ? WALDO_ECONFLICT : WALDO_ESTORE;
            waldo_status status;

            s = (keeper){ .only = n, .answer = answer };
            status = run_over_bad_store(*state, &s);
            assert_int_equal(status, n < appends ? answer : WALDO_OK); /* the last says "rest" */
        }
    }
}

/* ---- law 9 ---- */

static void requests_only_grow_within_an_epoch(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"), .instructions = "Be brief.",
                                     .tools = WALDO_TOOLS(echo_tool(&calls, WALDO_PARALLEL_SAFE))));
    waldo_run *run = waldo_run_new(f->rt, agent, NULL);
    char *before = NULL;

    for (int prompt = 0; prompt < 5; prompt++) {
        fixture_replies(f, TWO_CALLS);
        assert_int_equal(waldo_run_send(run, prompt % 2 ? "go \xc3\xa9" : "go"), WALDO_OK);
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    }
    assert_int_equal(standin_request_count(f->server), 10);
    for (size_t i = 0; i < 10; i++) {
        size_t len;
        char *body = standin_request_body(f->server, i, &len);

        assert_non_null(body);
        if (before != NULL) {
            size_t same = 0;

            while (before[same] != '\0' && before[same] == body[same]) {
                same++;
            }
            assert_true(same + 40 >= strlen(before)); /* but for what closes the body */
        }
        free(before);
        before = body;
    }
    free(before);
    waldo_agent_unref(agent);
}

/* ---- limits, approvals, retries ---- */

static void a_prompt_behind_the_token_limit_comes_to_rest(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"), .limits = { .max_tokens = 1 }));
    waldo_run *run;

    fixture_replies(f,
                    "[{\"text\":\"one\",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":5}}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_LIMIT);
    assert_int_equal(standin_request_count(f->server), 1);
    assert_contains(fixture_items(run), "\"more\""); /* the text is not lost */
    waldo_agent_unref(agent);
}

/* What the callback does with its own run. */
static struct {
    int what; /* 0: cancel, 1: free, 2: text and cancel, 3: decide itself */
    int asked;
} asking;

static waldo_decision ask(void *userdata, waldo_run *run, const waldo_tool_call *call)
{
    (void)userdata;
    asking.asked++;
    if (asking.what == 1) {
        waldo_run_free(run);
    } else if (asking.what == 3) {
        waldo_run_decide(run, waldo_tool_call_id(call),
                         &(waldo_decision){ .kind = WALDO_DECIDE_REJECT });
    } else {
        if (asking.what == 2) {
            waldo_run_send(run, "never mind");
        }
        waldo_run_cancel(run);
    }
    return (waldo_decision){ .kind = WALDO_DECIDE_APPROVE };
}

static void an_approval_callback_may_do_anything(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"), .approve = WALDO_APPROVE_ALL,
                                     .on_approval = ask,
                                     .tools = WALDO_TOOLS(echo_tool(&calls, WALDO_PARALLEL_SAFE))));

    for (asking.what = 0; asking.what <= 3; asking.what++) {
        waldo_run *run;

        asking.asked = 0;
        assert_true(standin_reset(f->server));
        fixture_replies(f, TWO_CALLS);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        if (asking.what == 1) {
            assert_null(waldo_runtime_next(f->rt, 60000));
            assert_int_equal(asking.asked, 1);
            continue;
        }
        assert_int_equal(waldo_run_wait(run, 60000), asking.what == 3 ? WALDO_OK : WALDO_ECANCELED);
        assert_int_equal(asking.asked, asking.what == 3 ? 2 : 1);
        waldo_run_free(run);
    }
    assert_int_equal(calls, 0);
    waldo_agent_unref(agent);
}

static waldo_run *freed_by_tool;

static void free_the_run(void *userdata)
{
    waldo_run *run = freed_by_tool;

    (void)userdata;
    freed_by_tool = NULL;
    waldo_run_free(run);
}

static waldo_status waits(void *userdata, waldo_tool_call *call)
{
    waldo_tool_call **kept = userdata;

    *kept = waldo_tool_call_ref(call);
    waldo_tool_call_on_cancel(call, free_the_run, NULL);
    return WALDO_PENDING;
}

static void a_run_may_be_freed_while_it_is_cancelled(void **state)
{
    fixture *f = *state;
    waldo_tool_call *call = NULL;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"),
                                     .tools = WALDO_TOOLS(WALDO_TOOL(.name = "waits", .call = waits,
                                                                     .userdata = &call))));

    for (int how = 0; how <= 1; how++) {
        fixture_replies(f,
                        "[{\"calls\":[{\"id\":\"c1\",\"name\":\"waits\",\"arguments\":\"{}\"}]}]");
        freed_by_tool = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        while (call == NULL) {
            assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
        }
        if (how == 0) {
            waldo_run_cancel(freed_by_tool);
        } else {
            waldo_run_free(freed_by_tool); /* whose tool frees it once more */
        }
        waldo_runtime_step(f->rt, 20);
        assert_null(freed_by_tool);
        assert_int_equal(waldo_tool_call_reply(call, "late"), WALDO_ECLOSED);
        waldo_tool_call_unref(call);
        call = NULL;
    }
    waldo_agent_unref(agent);
}

static void a_run_may_be_freed_while_it_waits_to_try_again(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x")));
    waldo_run *run;
    const waldo_event *event;

    for (int how = 0; how <= 1; how++) {
        assert_true(standin_reset(f->server));
        fixture_replies(f, "[{\"status\":500,\"body\":\"no\"},{\"text\":\"never read\"}]");
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        do {
            assert_int_equal(waldo_run_next(run, 60000, &event), WALDO_OK);
        } while (waldo_event_type(event) != WALDO_EVENT_RETRY);
        if (how == 0) {
            waldo_run_cancel(run);
            assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
        }
        waldo_run_free(run);
    }
    assert_int_equal(standin_request_count(f->server), 1);
    waldo_agent_unref(agent);
}

/* ---- law 3 ---- */

#define SECRET "s3cr3t-value-0123"

static void no_secret_leaves(void **state)
{
    fixture *f = *state;
    static keeper s;
    waldo_store *store;
    int calls = 0;
    waldo_agent *agent;
    waldo_run *run;
    const waldo_event *event;
    char all[65536] = "";

    memset(&s, 0, sizeof s);
    store = keeper_store(&s);
    fixture_runtime(f, &WALDO_RUNTIME(.store = store));
    waldo_runtime_add_secret(f->rt, "TOKEN", (waldo_str){ SECRET, strlen(SECRET) });
    agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"), .approve = WALDO_APPROVE_ALL,
                                     .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    fixture_replies(f, "[{\"text\":\"a " SECRET "\",\"reasoning\":\"r " SECRET "\",\"calls\":["
                       "{\"id\":\"" SECRET "\",\"name\":\"" SECRET "\",\"arguments\":\"{}\"},"
                       "{\"id\":\"c2\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"" SECRET
                       "\\\"}\"}]},{\"status\":400,\"headers\":{\"x-request-id\":\"" SECRET "\"},"
                       "\"body\":\"{\\\"error\\\":{\\\"message\\\":\\\"m " SECRET
                       "\\\",\\\"code\\\":\\\"" SECRET "\\\"}}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    for (;;) {
        waldo_status status = waldo_run_next(run, 60000, &event);

        if (status == WALDO_PENDING) {
            waldo_run_decide(
                run, "c2",
                &(waldo_decision){ .kind = WALDO_DECIDE_EDIT,
                                   .text = { "{\"text\":\"" SECRET "\"}", strlen(SECRET) + 11 } });
        } else if (status != WALDO_OK) {
            break;
        } else {
            waldo_str json = waldo_event_json(event);

            snprintf(all + strlen(all), sizeof all - strlen(all), "%s\n", json.ptr);
        }
    }
    assert_int_equal(calls, 1);
    assert_true(waldo_run_status(run) < 0);
    assert_contains(all, "[TOKEN]");
    assert_lacks(all, SECRET);
    assert_lacks(waldo_run_text(run), SECRET);
    assert_lacks(waldo_run_errmsg(run), SECRET);
    assert_lacks(waldo_error_provider_code(waldo_run_error(run)), SECRET);
    assert_lacks(waldo_error_request_id(waldo_run_error(run)), SECRET);
    assert_lacks(fixture_items(run), SECRET);
    assert_true(s.count > 5);
    assert_int_equal(keeper_holds(&s, SECRET), 0);
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_fresh, fixture_drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(survives_a_failure_of_any_append),
        TEST(requests_only_grow_within_an_epoch),
        TEST(a_prompt_behind_the_token_limit_comes_to_rest),
        TEST(an_approval_callback_may_do_anything),
        TEST(a_run_may_be_freed_while_it_is_cancelled),
        TEST(a_run_may_be_freed_while_it_waits_to_try_again),
        TEST(no_secret_leaves),
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
