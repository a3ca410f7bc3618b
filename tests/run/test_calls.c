/* Calls of host tools: order, limits, errors, late answers, approvals. */
#include <pthread.h>
#include <unistd.h>

#include "fixture.h"

static waldo_agent *agent_with(fixture *f, waldo_tool *tool, const waldo_agent_options *more)
{
    waldo_agent_options options = more != NULL ? *more : WALDO_AGENT();
    waldo_tool *const *tools = WALDO_TOOLS(tool);

    options.model = fixture_model(f, "scripted");
    options.tools = tools;
    return waldo_agent_new(&options);
}

#define CALL(id, name, args) "{\"id\":\"" id "\",\"name\":\"" name "\",\"arguments\":\"" args "\"}"
#define ECHO(id, text)       CALL(id, "echo", "{\\\"text\\\":\\\"" text "\\\"}")

static void runs_calls_and_answers_in_call_order(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_with(f, echo_tool(&calls, WALDO_PARALLEL_SAFE), NULL);
    waldo_run *run;
    const char *kinds;

    fixture_replies(f, "[{\"text\":\"on it\",\"calls\":[" ECHO("c1", "one") "," ECHO(
                           "c2", "two") "]},{\"text\":\"done: {results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_int_equal(calls, 2);
    assert_string_equal(waldo_run_text(run), "done: echo: one\necho: two");
    assert_string_equal(
        fixture_items(run),
        "{\"kind\":\"user\",\"text\":\"go\"}\n"
        "{\"kind\":\"assistant\",\"text\":\"on it\"}\n"
        "{\"kind\":\"tool_call\",\"id\":\"c1\",\"name\":\"echo\",\"args\":\"{\\\"text\\\":"
        "\\\"one\\\"}\"}\n"
        "{\"kind\":\"tool_call\",\"id\":\"c2\",\"name\":\"echo\",\"args\":\"{\\\"text\\\":"
        "\\\"two\\\"}\"}\n"
        "{\"kind\":\"tool_result\",\"id\":\"c1\",\"name\":\"echo\",\"text\":\"echo: one\"}\n"
        "{\"kind\":\"tool_result\",\"id\":\"c2\",\"name\":\"echo\",\"text\":\"echo: two\"}\n"
        "{\"kind\":\"assistant\",\"text\":\"done: echo: one\\necho: two\"}\n");
    assert_contains(kinds, "tool_call tool_call");
    assert_contains(kinds, "tool_result tool_result");
    waldo_agent_unref(agent);
}

/* Gives no answer until told; notes how many run beside each other. */
typedef struct gate {
    waldo_tool_call *held[64];
    int count, at_once, most;
    int cancelled;
} gate;

static void gate_cancelled(void *userdata)
{
    ((gate *)userdata)->cancelled++;
}

static waldo_status gate_call(void *userdata, waldo_tool_call *call)
{
    gate *g = userdata;

    g->held[g->count++] = waldo_tool_call_ref(call);
    g->at_once++;
    g->most = g->at_once > g->most ? g->at_once : g->most;
    waldo_tool_call_on_cancel(call, gate_cancelled, g);
    return WALDO_PENDING;
}

static void gate_open(gate *g, int index, const char *text)
{
    waldo_tool_call_reply(g->held[index], "%s", text);
    waldo_tool_call_unref(g->held[index]);
    g->held[index] = NULL;
    g->at_once--;
}

static waldo_tool *gate_tool(gate *g, uint32_t flags)
{
    return WALDO_TOOL(.name = "gate", .about = "Wait.", .call = gate_call, .userdata = g,
                      .flags = flags);
}

static void drive_until(waldo_runtime *rt, const int *value, int wanted)
{
    while (*value < wanted) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
}

static void results_keep_call_order_whatever_ends_first(void **state)
{
    fixture *f = *state;
    gate g = { .count = 0 };
    waldo_agent *agent = agent_with(f, gate_tool(&g, WALDO_PARALLEL_SAFE), NULL);
    waldo_run *run;

    fixture_replies(f,
                    "[{\"calls\":[" CALL("c1", "gate", "{}") "," CALL("c2", "gate", "{}") "," CALL(
                        "c3", "gate", "{}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    drive_until(f->rt, &g.count, 3);
    gate_open(&g, 2, "third");
    gate_open(&g, 0, "first");
    gate_open(&g, 1, "second");
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "first\nsecond\nthird");
    waldo_agent_unref(agent);
}

static void parallel_calls_are_bounded(void **state)
{
    fixture *f = *state;
    gate g = { .count = 0 };
    waldo_agent *agent = agent_with(f, gate_tool(&g, WALDO_PARALLEL_SAFE),
                                    &WALDO_AGENT(.limits = { .max_parallel = 2 }));
    waldo_run *run;

    fixture_replies(f,
                    "[{\"calls\":[" CALL("c1", "gate", "{}") "," CALL("c2", "gate", "{}") "," CALL(
                        "c3", "gate", "{}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    drive_until(f->rt, &g.count, 2);
    while (waldo_runtime_step(f->rt, 50) == WALDO_OK) {
    }
    assert_int_equal(g.count, 2);
    gate_open(&g, 1, "b");
    drive_until(f->rt, &g.count, 3);
    gate_open(&g, 0, "a");
    gate_open(&g, 2, "c");
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "a\nb\nc");
    assert_int_equal(g.most, 2);
    waldo_agent_unref(agent);
}

static void a_tool_that_is_not_parallel_safe_takes_turns(void **state)
{
    fixture *f = *state;
    gate g = { .count = 0 };
    waldo_agent *agent = agent_with(f, gate_tool(&g, 0), NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "gate", "{}") "," CALL(
                           "c2", "gate", "{}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    drive_until(f->rt, &g.count, 1);
    while (waldo_runtime_step(f->rt, 50) == WALDO_OK) {
    }
    assert_int_equal(g.count, 1);
    gate_open(&g, 0, "a");
    drive_until(f->rt, &g.count, 2);
    gate_open(&g, 1, "b");
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(g.most, 1);
    waldo_agent_unref(agent);
}

static void *reply_from_another_thread(void *userdata)
{
    waldo_tool_call *call = userdata;

    waldo_tool_call_reply(call, "from a thread");
    assert_true(waldo_tool_call_reply(call, "again") == WALDO_ECLOSED);
    waldo_tool_call_unref(call);
    return NULL;
}

static waldo_status threaded_call(void *userdata, waldo_tool_call *call)
{
    pthread_t *thread = userdata;

    return pthread_create(thread, NULL, reply_from_another_thread, waldo_tool_call_ref(call)) == 0
               ? WALDO_PENDING
               : WALDO_ENOMEM;
}

static void a_call_may_be_ended_from_any_thread(void **state)
{
    fixture *f = *state;
    pthread_t thread;
    waldo_agent *agent = agent_with(
        f, WALDO_TOOL(.name = "threaded", .call = threaded_call, .userdata = &thread), NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "threaded", "{}") "]},{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "from a thread");
    pthread_join(thread, NULL);
    waldo_agent_unref(agent);
}

static waldo_status forgetful(void *userdata, waldo_tool_call *call)
{
    (void)call;
    return *(waldo_status *)userdata;
}

static void a_call_without_an_answer_is_an_error_for_the_model(void **state)
{
    static const waldo_status statuses[] = { WALDO_OK, WALDO_PENDING };
    fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        waldo_status status = statuses[i];
        waldo_agent *agent = agent_with(
            f, WALDO_TOOL(.name = "forgetful", .call = forgetful, .userdata = &status), NULL);
        waldo_run *run;

        fixture_replies(
            f, "[{\"calls\":[" CALL("c1", "forgetful", "{}") "]},{\"text\":\"{result}\"}]");
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        assert_contains(waldo_run_text(run), "without an answer");
        assert_contains(fixture_items(run), "\"is_error\":true");
        waldo_agent_unref(agent);
    }
}

static void a_failing_status_ends_the_turn(void **state)
{
    fixture *f = *state;
    waldo_status status = WALDO_EIO;
    waldo_agent *agent = agent_with(
        f, WALDO_TOOL(.name = "forgetful", .call = forgetful, .userdata = &status), NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "forgetful", "{}") "]},{\"text\":\"went on\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EIO);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
    assert_contains(waldo_run_errmsg(run), "forgetful");
    /* The history is whole: the conversation goes on. */
    assert_int_equal(waldo_run_send(run, "and?"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "went on");
    waldo_agent_unref(agent);
}

static void a_tool_that_takes_too_long_is_an_error_for_the_model(void **state)
{
    fixture *f = *state;
    gate g = { .count = 0 };
    waldo_agent *agent = agent_with(
        f, WALDO_TOOL(.name = "gate", .call = gate_call, .userdata = &g, .timeout_ms = 30), NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "gate", "{}") "]},{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_contains(waldo_run_text(run), "30 ms");
    assert_int_equal(g.cancelled, 1);
    assert_int_equal(waldo_tool_call_reply(g.held[0], "late"), WALDO_ECLOSED);
    waldo_tool_call_unref(g.held[0]);
    waldo_agent_unref(agent);
}

static const struct {
    const char *calls;
    const char *finish;
    const char *said; /* part of the result */
    int runs;
} bad_calls[] = {
    { CALL("c1", "absent", "{}"), "tool_calls", "no tool named absent. Tools: echo", 0 },
    { CALL("c1", "echo", "{}"), "tool_calls", "text", 0 },
    { CALL("c1", "echo", "{\\\"text\\\":1}"), "tool_calls", "Schema: ", 0 },
    { CALL("c1", "echo", "{\\\"text\\\":\\\"a"), "tool_calls", "not run", 0 },
    { CALL("c1", "echo", "{\\\"text\\\":\\\"a"), "length", "output limit", 0 },
    { CALL("c1", "echo", "{\\\"text\\\":\\\"a\\\",\\\"more\\\":1}"), "tool_calls", "more", 0 },
    { CALL("c1", "echo", "{\\\"text\\\":\\\"a\\\"}"), "stop", "echo: a", 1 },
};

static void bad_calls_are_told_to_the_model(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < sizeof bad_calls / sizeof bad_calls[0]; i++) {
        int calls = 0;
        waldo_agent *agent = agent_with(f, echo_tool(&calls, 0), NULL);
        char replies[1024];
        waldo_run *run;

        snprintf(replies, sizeof replies,
                 "[{\"calls\":[%s],\"finish\":\"%s\"},{\"text\":\"{result}\"}]", bad_calls[i].calls,
                 bad_calls[i].finish);
        fixture_replies(f, replies);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        assert_contains(waldo_run_text(run), bad_calls[i].said);
        assert_int_equal(calls, bad_calls[i].runs);
        waldo_agent_unref(agent);
    }
}

/* The model was stopped while it asked: what it asked for is not run. */
static void calls_of_a_filtered_answer_are_not_run(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_with(f, echo_tool(&calls, 0), NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" ECHO("c1", "x") "," ECHO(
                           "c2", "y") "],\"finish\":\"content_filter\"},{\"text\":\"fine\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EFILTER);
    assert_int_equal(calls, 0);
    assert_contains(fixture_items(run), "The call was not run.");
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_agent_unref(agent);
}

static void limits_stop_a_run(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *turns = agent_with(f, echo_tool(&calls, WALDO_PARALLEL_SAFE),
                                    &WALDO_AGENT(.limits = { .max_turns = 2 }));
    waldo_agent *tools = agent_with(f, echo_tool(&calls, WALDO_PARALLEL_SAFE),
                                    &WALDO_AGENT(.limits = { .max_tool_calls = 1 }));
    waldo_agent *tokens = agent_with(f, echo_tool(&calls, WALDO_PARALLEL_SAFE),
                                     &WALDO_AGENT(.limits = { .max_tokens = 300 }));
    const char *one =
        "[{\"calls\":[" ECHO("c1", "x") "]},{\"calls\":[" ECHO("c2", "y") "]},{\"text\":\"end\"}]";
    waldo_run *run;

    fixture_replies(f, one);
    run = waldo_run_new(f->rt, turns, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_LIMIT);
    assert_contains(waldo_run_errmsg(run), "max_turns");
    assert_int_equal(calls, 2);
    assert_int_equal(standin_request_count(f->server), 2);
    /* A new prompt has a new budget, and the history is still one the server accepts. */
    assert_int_equal(waldo_run_send(run, "go on"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "end");

    standin_reset(f->server);
    calls = 0;
    fixture_replies(f, "[{\"calls\":[" ECHO("c1", "x") "," ECHO("c2", "y") "]},{\"text\":\"ok\"}]");
    run = waldo_run_new(f->rt, tools, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_contains(waldo_run_errmsg(run), "max_tool_calls");
    assert_int_equal(calls, 0);
    assert_int_equal(waldo_run_send(run, "go on"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);

    standin_reset(f->server);
    fixture_replies(f, one);
    run = waldo_run_new(f->rt, tokens, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_contains(waldo_run_errmsg(run), "max_tokens");
    assert_int_equal(standin_request_count(f->server), 1);
    waldo_agent_unref(turns);
    waldo_agent_unref(tools);
    waldo_agent_unref(tokens);
}

static void time_limit_stops_a_run(void **state)
{
    fixture *f = *state;
    gate g = { .count = 0 };
    waldo_agent *agent =
        agent_with(f, gate_tool(&g, 0), &WALDO_AGENT(.limits = { .max_time_ms = 300 }));
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "gate", "{}") "]},{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_contains(waldo_run_errmsg(run), "max_time_ms");
    assert_int_equal(g.cancelled, g.count);
    for (int i = 0; i < g.count; i++) {
        waldo_tool_call_unref(g.held[i]);
    }
    waldo_agent_unref(agent);
}

/* ---- approvals ---- */

static waldo_agent *asking_agent(fixture *f, int *calls, waldo_approve approve)
{
    return agent_with(f, echo_tool(calls, WALDO_PARALLEL_SAFE | WALDO_NEEDS_APPROVAL),
                      &WALDO_AGENT(.approve = approve));
}

static void a_call_waits_for_the_host(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = asking_agent(f, &calls, WALDO_APPROVE_FLAGGED);
    waldo_run *run;
    const char *kinds;

    fixture_replies(f, "[{\"calls\":[" ECHO("c1", "one") "]},{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(fixture_pull(run, &kinds), WALDO_PENDING);
    assert_contains(kinds, "approval");
    assert_int_equal(waldo_run_get_state(run), WALDO_RUN_WAITING);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    assert_int_equal(calls, 0);
    assert_ptr_equal(waldo_runtime_next(f->rt, 0), run);

    assert_int_equal(waldo_run_decide(run, "c2", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }),
                     WALDO_ENOTFOUND);
    assert_int_equal(waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_LATER }),
                     WALDO_EINVAL);
    assert_int_equal(waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }),
                     WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(calls, 1);
    assert_string_equal(waldo_run_text(run), "echo: one");
    assert_int_equal(waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }),
                     WALDO_ENOTFOUND);
    waldo_agent_unref(agent);
}

#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

static const struct {
    waldo_decision decision;
    const char *result;
    int calls;
} decisions[] = {
    { { .kind = WALDO_DECIDE_REJECT, .text = TEXT("too risky") }, "Reason: too risky", 0 },
    { { .kind = WALDO_DECIDE_REJECT }, "rejected this call", 0 },
    { { .kind = WALDO_DECIDE_ANSWER, .text = TEXT("forty-two") }, "forty-two", 0 },
    { { .kind = WALDO_DECIDE_EDIT, .text = TEXT("{\"text\":\"other\"}") }, "echo: other", 1 },
};

static void the_host_decides(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < sizeof decisions / sizeof decisions[0]; i++) {
        int calls = 0;
        waldo_agent *agent = asking_agent(f, &calls, WALDO_APPROVE_FLAGGED);
        waldo_run *run;

        fixture_replies(f, "[{\"calls\":[" ECHO("c1", "one") "]},{\"text\":\"{result}\"}]");
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
        if (decisions[i].decision.kind == WALDO_DECIDE_EDIT) {
            assert_int_equal(
                waldo_run_decide(
                    run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_EDIT, .text = TEXT("{}") }),
                WALDO_EINVAL);
        }
        assert_int_equal(waldo_run_decide(run, "c1", &decisions[i].decision), WALDO_OK);
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        assert_contains(waldo_run_text(run), decisions[i].result);
        assert_int_equal(calls, decisions[i].calls);
        waldo_agent_unref(agent);
    }
}

static void approval_for_the_run_is_asked_once(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = asking_agent(f, &calls, WALDO_APPROVE_ALL);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" ECHO("c1", "one") "]},{\"calls\":[" ECHO(
                           "c2", "two") "]},{\"text\":\"end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    assert_int_equal(
        waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE_RUN }),
        WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(calls, 2);
    waldo_agent_unref(agent);
}

static const struct {
    waldo_approve policy;
    uint32_t flags;
    int asks;
} policies[] = {
    { WALDO_APPROVE_FLAGGED, 0, 0 },
    { WALDO_APPROVE_FLAGGED, WALDO_NEEDS_APPROVAL, 1 },
    { WALDO_APPROVE_CHANGES, 0, 1 },
    { WALDO_APPROVE_CHANGES, WALDO_READ_ONLY, 0 },
    { WALDO_APPROVE_CHANGES, WALDO_READ_ONLY | WALDO_NEEDS_APPROVAL, 1 },
    { WALDO_APPROVE_ALL, WALDO_READ_ONLY, 1 },
    { WALDO_APPROVE_NONE, WALDO_NEEDS_APPROVAL, 0 },
};

static void policies_say_what_asks(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        int calls = 0;
        waldo_agent *agent = agent_with(f, echo_tool(&calls, policies[i].flags),
                                        &WALDO_AGENT(.approve = policies[i].policy));
        waldo_run *run;

        fixture_replies(f, "[{\"calls\":[" ECHO("c1", "one") "]},{\"text\":\"end\"}]");
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
        assert_int_equal(waldo_run_wait(run, 60000), policies[i].asks ? WALDO_PENDING : WALDO_OK);
        assert_int_equal(calls, !policies[i].asks);
        waldo_run_free(run);
        standin_reset(f->server);
        waldo_agent_unref(agent);
    }
}

typedef struct asked {
    int count;
    int free_it;
    waldo_decision_kind answer;
} asked;

static waldo_decision on_approval(void *userdata, waldo_run *run, const waldo_tool_call *call)
{
    asked *a = userdata;

    a->count++;
    assert_string_equal(waldo_tool_call_name(call), "echo");
    assert_string_equal(waldo_tool_call_str(call, "text"), "one");
    if (a->free_it) {
        waldo_run_free(run);
    }
    return (waldo_decision){ .kind = a->answer };
}

static void a_callback_may_decide(void **state)
{
    fixture *f = *state;
    asked a = { .answer = WALDO_DECIDE_APPROVE };
    int calls = 0;
    waldo_agent *agent =
        agent_with(f, echo_tool(&calls, WALDO_NEEDS_APPROVAL),
                   &WALDO_AGENT(.on_approval = on_approval, .approval_userdata = &a));
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" ECHO("c1", "one") "]},{\"text\":\"end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(a.count, 1);
    assert_int_equal(calls, 1);

    a = (asked){ .answer = WALDO_DECIDE_APPROVE, .free_it = 1 };
    fixture_replies(f, "[{\"calls\":[" ECHO("c1", "one") "]},{\"text\":\"end\"}]");
    waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_ptr_equal(waldo_runtime_next(f->rt, 60000), run);
    assert_null(waldo_runtime_next(f->rt, 60000));
    assert_int_equal(a.count, 1);
    assert_int_equal(calls, 1);
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(runs_calls_and_answers_in_call_order),
        ROW(results_keep_call_order_whatever_ends_first),
        ROW(parallel_calls_are_bounded),
        ROW(a_tool_that_is_not_parallel_safe_takes_turns),
        ROW(a_call_may_be_ended_from_any_thread),
        ROW(a_call_without_an_answer_is_an_error_for_the_model),
        ROW(a_failing_status_ends_the_turn),
        ROW(a_tool_that_takes_too_long_is_an_error_for_the_model),
        ROW(bad_calls_are_told_to_the_model),
        ROW(calls_of_a_filtered_answer_are_not_run),
        ROW(limits_stop_a_run),
        ROW(time_limit_stops_a_run),
        ROW(a_call_waits_for_the_host),
        ROW(the_host_decides),
        ROW(approval_for_the_run_is_asked_once),
        ROW(policies_say_what_asks),
        ROW(a_callback_may_decide),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
