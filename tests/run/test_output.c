/* Answers whose form is fixed by a schema: checked, asked for once more, or failed by name. */
#include "fixture.h"

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"],"     \
    "\"additionalProperties\":false}"

static waldo_agent *counting_agent(fixture *f, const char *schema)
{
    return waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "output"), .output_schema = schema));
}

static void an_answer_that_fits(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = counting_agent(f, SCHEMA);
    waldo_run *run;
    char *body;
    size_t len;

    fixture_replies(f, "[{\"text\":\"{\\\"n\\\": 7}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "how many?"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "{\"n\": 7}");
    assert_int_equal(standin_request_count(f->server), 1);
    body = standin_request_body(f->server, 0, &len);
    assert_contains(body, "The final answer must be one JSON value that follows this schema");
    free(body);
    waldo_agent_unref(agent);
}

static void one_more_try(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = counting_agent(f, SCHEMA);
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"Seven!\"},{\"text\":\"{\\\"n\\\":7}\"},"
                       "{\"text\":\"{\\\"n\\\":\\\"8\\\"}\"},{\"text\":\"{\\\"n\\\":8}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "how many?"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "{\"n\":7}");
    assert_contains(fixture_items(run),
                    "{\"kind\":\"assistant\",\"text\":\"Seven!\"}\n{\"kind\":\"notice\",\"text\":"
                    "\"The answer does not follow the schema that was asked for: ");
    /* each prompt has its own */
    assert_int_equal(waldo_run_send(run, "and now?"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "{\"n\":8}");
    assert_contains(fixture_items(run), "n: expected an integer, got a string");
    assert_int_equal(standin_request_count(f->server), 4);
    waldo_agent_unref(agent);
}

static void twice_wrong_is_a_failure(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = counting_agent(f, SCHEMA);
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"{}\"},{\"text\":\"{\\\"n\\\":1,\\\"m\\\":2}\"},"
                       "{\"text\":\"never\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "how many?"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EJSON);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
    assert_contains(waldo_run_errmsg(run),
                    "the model's answer does not follow the output schema: ");
    assert_int_equal(standin_request_count(f->server), 2);
    waldo_agent_unref(agent);
}

/* What is said beside calls is no answer yet. */
static void calls_come_first(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "output"), .output_schema = SCHEMA,
                     .capabilities = WALDO_NO_TOOLS, .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    waldo_run *run;

    fixture_replies(f,
                    "[{\"text\":\"let me see\",\"calls\":[{\"id\":\"c1\",\"name\":\"echo\","
                    "\"arguments\":\"{\\\"text\\\":\\\"x\\\"}\"}]},{\"text\":\"{\\\"n\\\":1}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "how many?"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(calls, 1);
    assert_string_equal(waldo_run_text(run), "{\"n\":1}");
    waldo_agent_unref(agent);
}

static void bad_schemas(void **state)
{
    static const char *const schemas[][2] = {
        { "{\"type\":\"array\"}", "agent's .output_schema: the schema must be an object" },
        { "{\"type\"", "agent's .output_schema: the schema cannot be read" },
    };
    fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        waldo_agent *agent = counting_agent(f, schemas[i][0]);

        assert_non_null(waldo_agent_error(agent));
        assert_contains(waldo_error_message(waldo_agent_error(agent)), schemas[i][1]);
        waldo_agent_unref(agent);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(an_answer_that_fits), CASE(one_more_try), CASE(twice_wrong_is_a_failure),
        CASE(calls_come_first),    CASE(bad_schemas),
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
