/* What a run has used and cost, of answers that came whole and of others; and limits on it. */
#include "fixture.h"

#define PRICES                                                                                     \
    "{\"models\":[{\"match\":\"chat:*#dear\",\"input\":1000000,\"output\":2000000},"               \
    "{\"match\":\"chat:*#sized\",\"window\":1000}]}"
#define USED(in, out)                                                                              \
    "\"usage\":{\"prompt_tokens\":" #in ",\"completion_tokens\":" #out                             \
    ",\"prompt_tokens_details\":{\"cached_tokens\":0},"                                            \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0}}"

static waldo_runtime *with_prices(fixture *f)
{
    return fixture_runtime(f, &WALDO_RUNTIME(.model_facts = PRICES));
}

static waldo_agent *agent_of(fixture *f, const char *name, waldo_limits limits)
{
    return waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, name), .limits = limits));
}

/* Pull everything; the usage events as JSON, one a line, in a static buffer. */
static const char *usage_events(waldo_run *run)
{
    static char text[8192];
    const waldo_event *event;

    text[0] = '\0';
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        if (waldo_event_type(event) == WALDO_EVENT_USAGE) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n",
                     waldo_event_json(event).ptr);
        }
    }
    return text;
}

static void tokens_have_a_cost(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "dear", (waldo_limits){ 0 });
    waldo_usage usage;
    waldo_run *run;

    with_prices(f);
    fixture_replies(f, "[{\"text\":\"a\"," USED(10, 3) "},{\"text\":\"b\"," USED(20, 4) "}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_string_equal(usage_events(run),
                        "{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":3,"
                        "\"cached_tokens\":0,\"cache_write_tokens\":null,"
                        "\"reasoning_tokens\":0,\"cost\":16,"
                        "\"incomplete\":false}\n");
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.input_tokens, 30);
    assert_int_equal(usage.output_tokens, 7);
    assert_int_equal(usage.cost, 44);
    assert_false(usage.incomplete);
    waldo_agent_unref(agent);
}

/* 3 tokens as they are, 5 read from a cache, 2 written to it; then a prompt beyond the step. */
static void caches_and_long_prompts_have_their_prices(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "cached", (waldo_limits){ 0 });
    waldo_usage usage;
    waldo_run *run;

    fixture_runtime(f, &WALDO_RUNTIME(.model_facts =
                                          "{\"models\":[{\"match\":[\"openai:x\",\"*#cached\"],"
                                          "\"input\":100000000,\"cached_input\":10000000,"
                                          "\"cache_write\":125000000,\"output\":200000000,"
                                          "\"long_from\":10,\"long_input\":200,"
                                          "\"long_output\":150}]}"));
    fixture_replies(f, "[{\"text\":\"a\",\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1,"
                       "\"prompt_tokens_details\":{\"cached_tokens\":5,"
                       "\"cache_write_tokens\":2}}},{\"text\":\"b\"," USED(11, 1) "}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.cached_tokens, 5);
    assert_int_equal(usage.cache_write_tokens, 2);
    assert_int_equal(usage.cost, 300 + 50 + 250 + 200);
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.cost, 800 + 2200 + 300);
    waldo_agent_unref(agent);
}

static void no_prices_no_cost(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "x", (waldo_limits){ 0 });
    waldo_usage usage;
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"a\"," USED(10, 3) "},{\"text\":\"b\",\"usage\":null}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.cost, -1);
    assert_false(usage.incomplete);
    /* A server that says nothing of its usage: the rest is a part. */
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.input_tokens, 10);
    assert_true(usage.incomplete);
    waldo_agent_unref(agent);
}

static void a_prompt_beyond_the_window_is_told(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "sized", (waldo_limits){ 0 });
    const char *kinds;
    waldo_run *run;

    with_prices(f);
    fixture_replies(f, "[{\"text\":\"a\"," USED(1000, 3) "},{\"text\":\"b\"," USED(1001, 3) "}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_lacks(kinds, "warning");
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_contains(kinds, "warning");
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    waldo_agent_unref(agent);
}

static void bad_facts_are_named(void **state)
{
    fixture *f = *state;
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.model_facts = "{\"models\":[{}]}"));
    waldo_agent *agent = agent_of(f, "x", (waldo_limits){ 0 });
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi"));

    assert_int_equal(waldo_error_status(waldo_runtime_error(rt)), WALDO_EINVAL);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EINVAL);
    assert_contains(waldo_run_errmsg(run), "model facts: entry 1: \"match\" is missing");
    waldo_runtime_finish(rt);
    waldo_agent_unref(agent);
}

/* ---- the limit on money ---- */

static void a_money_limit_needs_prices(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "sized", (waldo_limits){ .max_cost = 1000 });
    waldo_run *run;

    with_prices(f);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ENOTSUP);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
    assert_contains(waldo_run_errmsg(run), "no prices are known of model chat:");
    assert_contains(waldo_run_errmsg(run), "#sized");
    assert_int_equal(standin_request_count(f->server), 0);
    waldo_agent_unref(agent);
}

static void money_is_checked_before_each_request(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "dear", (waldo_limits){ .max_cost = 50 });
    waldo_run *run;

    with_prices(f);
    fixture_replies(f, "[{\"text\":\"a\"," USED(10, 3) "},{\"text\":\"b\"," USED(15, 3) "}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK); /* 16 */
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK); /* 37 */
    /* The next prompt is at least the last exchange again: 18 tokens, 18 micro-units. */
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_LIMIT);
    assert_contains(waldo_run_errmsg(run), "cost 37 and the next prompt is about 19 more, of 50");
    assert_contains(waldo_run_errmsg(run), "max_cost");
    assert_int_equal(standin_request_count(f->server), 2);
    waldo_agent_unref(agent);
}

static void a_prompt_too_dear_is_not_sent(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "dear", (waldo_limits){ .max_cost = 100 });
    static char prompt[4001];
    waldo_run *run;

    with_prices(f);
    memset(prompt, 'x', sizeof prompt - 1);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = prompt));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_contains(waldo_run_errmsg(run), "about 1000 more");
    assert_int_equal(standin_request_count(f->server), 0);
    waldo_agent_unref(agent);
}

/* Nothing is asked: what the prompt costs is known before. */
static void prices_of_known_models_are_built_in(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *model;
        const char *facts;
        waldo_status status;
        const char *says;
    } cases[] = {
        { "openai:gpt-6.2-sol", NULL, WALDO_ELIMIT, "about 2000 more, of 100 micro-units" },
        { "anthropic:claude-opus-5-5", NULL, WALDO_ELIMIT, "about 4000 more" },
        { "openai:gpt-1", NULL, WALDO_ENOTSUP, "no prices are known of model openai:gpt-1" },
        { "openai:gpt-6.2-sol", PRICES, WALDO_ENOTSUP,
          "no prices are known of model openai:gpt-6" },
    };
    static char prompt[4001];

    memset(prompt, 'x', sizeof prompt - 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo_agent *agent =
            waldo_agent_new(&WALDO_AGENT(.model = cases[i].model, .limits = { .max_cost = 100 }));
        waldo_runtime *rt = fixture_runtime(f, &WALDO_RUNTIME(.model_facts = cases[i].facts));
        waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = prompt));

        assert_int_equal(waldo_run_wait(run, 60000), cases[i].status);
        assert_contains(waldo_run_errmsg(run), cases[i].says);
        waldo_agent_unref(agent);
    }
}

static void tokens_of_the_next_prompt_count(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "x", (waldo_limits){ .max_tokens = 40 });
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"a\"," USED(17, 3) "}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_contains(waldo_run_errmsg(run), "20 tokens used by the run and about 21 more");
    assert_int_equal(standin_request_count(f->server), 1);
    waldo_agent_unref(agent);
}

/* ---- answers that did not come whole ---- */

#define UNKNOWN                                                                                    \
    "{\"type\":\"usage\",\"input_tokens\":null,\"output_tokens\":null,\"cached_tokens\":null,"     \
    "\"cache_write_tokens\":null,\"reasoning_tokens\":null,\"cost\":null,\"incomplete\":true}\n"
#define WHOLE                                                                                      \
    "{\"type\":\"usage\",\"input_tokens\":10,\"output_tokens\":3,\"cached_tokens\":0,"             \
    "\"cache_write_tokens\":null,\"reasoning_tokens\":0,\"cost\":16,\"incomplete\":false}\n"
#define GOOD ",{\"text\":\"a\"," USED(10, 3) "}]"
#define SOON "\"headers\":{\"retry-after-ms\":\"1\"},\"json\":{\"error\":{\"message\":\"no\"}}"

static const struct {
    const char *replies;
    const char *events;
} cuts[] = {
    { "[{\"text\":\"cut\",\"no_finish\":true}" GOOD, UNKNOWN WHOLE },
    { "[{\"text\":\"cut\",\"stream_error\":\"object\"}" GOOD, UNKNOWN WHOLE },
    { "[{\"no_finish\":true,\"chunks\":[{\"choices\":[],\"usage\":{\"prompt_tokens\":7,"
      "\"completion_tokens\":1}},{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}]"
      "}" GOOD,
      "{\"type\":\"usage\",\"input_tokens\":7,\"output_tokens\":1,\"cached_tokens\":null,"
      "\"cache_write_tokens\":null,\"reasoning_tokens\":null,\"cost\":9,\"incomplete\":true}"
      "\n" WHOLE },
    { "[{\"status\":504," SOON "}" GOOD, UNKNOWN WHOLE },
    { "[{\"status\":429," SOON "}" GOOD, WHOLE }, /* refused: nothing was used */
    { "[{\"status\":503," SOON "}" GOOD, WHOLE },
};

static void what_a_cut_answer_used_is_unknown(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "dear", (waldo_limits){ 0 });

    with_prices(f);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        waldo_usage usage;
        waldo_run *run;

        standin_reset(f->server);
        fixture_replies(f, cuts[i].replies);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        assert_string_equal(usage_events(run), cuts[i].events);
        assert_int_equal(waldo_run_status(run), WALDO_OK);
        waldo_run_usage(run, &usage);
        assert_int_equal(usage.incomplete, strstr(cuts[i].events, "true") != NULL);
        waldo_run_free(run);
    }
    waldo_agent_unref(agent);
}

static void a_try_beyond_the_budget_is_not_made(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "dear", (waldo_limits){ .max_cost = 9 });
    waldo_usage usage;
    waldo_run *run;

    with_prices(f);
    fixture_replies(f, cuts[2].replies);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_LIMIT);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.cost, 9);
    assert_int_equal(standin_request_count(f->server), 1);
    waldo_agent_unref(agent);
}

static void what_a_cancelled_answer_used_is_unknown(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "dear", (waldo_limits){ 0 });
    waldo_usage usage;
    waldo_run *run;

    with_prices(f);
    fixture_replies(f, "[{\"text\":\"never ends\",\"stall_at\":100}" GOOD);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    while (standin_request_count(f->server) == 0) {
        waldo_runtime_step(f->rt, 20);
    }
    waldo_run_cancel(run);
    assert_string_equal(usage_events(run), UNKNOWN);
    assert_int_equal(waldo_run_status(run), WALDO_ECANCELED);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.input_tokens, -1);
    assert_int_equal(usage.cost, -1);
    assert_true(usage.incomplete);
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_string_equal(usage_events(run), WHOLE);
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.cost, 16);
    assert_true(usage.incomplete);
    waldo_agent_unref(agent);
}

static void a_server_that_was_not_reached_cost_nothing(void **state)
{
    fixture *f = *state;
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.model = "chat:http://127.0.0.1:1/v1#x", .no_retries = 1));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    waldo_usage usage;

    assert_string_equal(usage_events(run), "");
    assert_int_equal(waldo_run_status(run), WALDO_ECONNECT);
    waldo_run_usage(run, &usage);
    assert_false(usage.incomplete);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(tokens_have_a_cost),
        ROW(caches_and_long_prompts_have_their_prices),
        ROW(no_prices_no_cost),
        ROW(a_prompt_beyond_the_window_is_told),
        ROW(bad_facts_are_named),
        ROW(a_money_limit_needs_prices),
        ROW(money_is_checked_before_each_request),
        ROW(a_prompt_too_dear_is_not_sent),
        ROW(prices_of_known_models_are_built_in),
        ROW(tokens_of_the_next_prompt_count),
        ROW(what_a_cut_answer_used_is_unknown),
        ROW(a_try_beyond_the_budget_is_not_made),
        ROW(what_a_cancelled_answer_used_is_unknown),
        ROW(a_server_that_was_not_reached_cost_nothing),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
