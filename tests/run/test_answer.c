/* Prompts, answers, events, items; and runs that cannot start. */
#include "fixture.h"

static waldo_agent *plain_agent(fixture *f, const char *model)
{
    return waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, model)));
}

static void answers_a_prompt(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = plain_agent(f, "text");
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi", .label = "one"));
    waldo_usage usage;

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "hello");
    assert_string_equal(waldo_run_label(run), "one");
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_ANSWERED);
    assert_int_equal(waldo_run_get_state(run), WALDO_RUN_IDLE);
    assert_string_equal(waldo_run_errmsg(run), "");
    assert_string_equal(fixture_items(run), "{\"kind\":\"user\",\"text\":\"hi\"}\n"
                                            "{\"kind\":\"assistant\",\"text\":\"hello\"}\n");
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.input_tokens, 280);
    assert_int_equal(usage.output_tokens, 41);
    waldo_agent_unref(agent);
}

static void gives_events_in_order(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = plain_agent(f, "text");
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    const char *kinds;

    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_string_equal(kinds, "state epoch item text usage item state ");
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_string_equal(kinds, "");
    waldo_agent_unref(agent);
}

static void keeps_the_conversation(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = plain_agent(f, "echo");
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "first"));
    size_t first_len, second_len, same = 0;
    char *first, *second;

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "first");
    assert_int_equal(waldo_run_send(run, "second"), WALDO_OK);
    assert_int_equal(waldo_run_status(run), WALDO_PENDING);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "second");

    /* Within an epoch a request begins with the one before, up to where its messages end. */
    first = standin_request_body(f->server, 0, &first_len);
    second = standin_request_body(f->server, 1, &second_len);
    while (same < first_len && same < second_len && first[same] == second[same]) {
        same++;
    }
    assert_true(same > first_len - 40);
    assert_contains(second + same, "second");
    free(first);
    free(second);
    waldo_agent_unref(agent);
}

static void takes_text_while_it_works(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = plain_agent(f, "echo");
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "first"));

    assert_int_equal(waldo_run_send(run, "second"), WALDO_OK);
    assert_int_equal(waldo_run_send(run, "third"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_contains(waldo_run_text(run), "third");
    assert_contains(fixture_items(run), "\"first\"");
    assert_contains(fixture_items(run), "\"second\"");
    assert_int_equal(standin_request_count(f->server), 2);
    waldo_agent_unref(agent);
}

/* 0x18 bytes that a struct of a later version would have set. */
typedef struct newer_options {
    waldo_run_options known;
    uint64_t unknown;
} newer_options;

static void starts_as_failed(fixture *f, waldo_agent *agent, const waldo_run_options *options,
                             waldo_status status, const char *message)
{
    waldo_run *run = waldo_run_new(f->rt, agent, options);

    assert_non_null(run);
    assert_int_equal(waldo_run_wait(run, 60000), status);
    assert_int_equal(waldo_run_status(run), status);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
    assert_contains(waldo_run_errmsg(run), message);
    assert_int_equal(waldo_run_send(run, "more"), WALDO_ECLOSED);
    assert_ptr_equal(waldo_runtime_next(f->rt, 0), run);
    assert_int_equal(standin_request_count(f->server), 0);
    waldo_run_free(run);
}

static void remembers_bad_configuration(void **state)
{
    fixture *f = *state;
    waldo_agent *unknown = waldo_agent_new(&WALDO_AGENT(.model = "nobody:x"));
    waldo_agent *nothing = waldo_agent_new(&WALDO_AGENT(.instructions = "x"));
    waldo_agent *latin1 =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text"), .instructions = "caf\xe9"));
    waldo_agent *sandbox =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text"), .sandbox = "nowhere:"));
    waldo_agent *good = plain_agent(f, "text");
    newer_options newer = { .known = WALDO_RUN(.prompt = "hi"), .unknown = 1 };

    newer.known.size = sizeof newer;
    starts_as_failed(f, unknown, &WALDO_RUN(.prompt = "hi"), WALDO_EINVAL, "chat:");
    starts_as_failed(f, nothing, &WALDO_RUN(.prompt = "hi"), WALDO_EINVAL, "set .model");
    starts_as_failed(f, latin1, &WALDO_RUN(.prompt = "hi"), WALDO_EUTF8, "instructions");
    starts_as_failed(f, sandbox, &WALDO_RUN(.prompt = "hi"), WALDO_EINVAL, "fake");
    starts_as_failed(f, good, &WALDO_RUN(.prompt = "caf\xe9"), WALDO_EUTF8, "UTF-8");
    starts_as_failed(f, good, &newer.known, WALDO_EINVAL, "WALDO_RUN()");
    starts_as_failed(f, good, &WALDO_RUN(.prompt = "hi", .workspace = "/tmp"), WALDO_EINVAL,
                     "no sandbox");
    starts_as_failed(f, NULL, &WALDO_RUN(.prompt = "hi"), WALDO_ENOMEM, "memory");
    waldo_agent_unref(unknown);
    waldo_agent_unref(nothing);
    waldo_agent_unref(latin1);
    waldo_agent_unref(sandbox);
    waldo_agent_unref(good);
}

static void remembers_bad_tools(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *name =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text"),
                                     .tools = WALDO_TOOLS(WALDO_TOOL(.name = "no spaces"))));
    waldo_agent *schema = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "text"),
                     .tools =
                         WALDO_TOOLS(WALDO_TOOL(.name = "t", .schema_json = "{\"type\": \"object\"",
                                                .call = (waldo_tool_fn)abort))));
    waldo_agent *twice = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "text"),
                     .tools = WALDO_TOOLS(echo_tool(&calls, 0), echo_tool(&calls, 0))));
    waldo_agent *choice = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text"),
                                                       .tool_choice = WALDO_TOOL_CHOICE_NAMED,
                                                       .tool_choice_name = "absent"));
    waldo_agent *bits =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text"), .capabilities = 1u << 20));

    starts_as_failed(f, name, &WALDO_RUN(.prompt = "hi"), WALDO_EINVAL, "no spaces");
    starts_as_failed(f, schema, &WALDO_RUN(.prompt = "hi"), WALDO_EJSON, "t");
    starts_as_failed(f, twice, &WALDO_RUN(.prompt = "hi"), WALDO_EEXISTS, "echo");
    starts_as_failed(f, choice, &WALDO_RUN(.prompt = "hi"), WALDO_ENOTFOUND, "absent");
    starts_as_failed(f, bits, &WALDO_RUN(.prompt = "hi"), WALDO_EINVAL, ".capabilities");
    waldo_agent_unref(name);
    waldo_agent_unref(schema);
    waldo_agent_unref(twice);
    waldo_agent_unref(choice);
    waldo_agent_unref(bits);
}

static void gives_out_runs_as_they_rest(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = plain_agent(f, "echo");
    waldo_agent *bad = waldo_agent_new(&WALDO_AGENT(.model = "nobody:x"));
    waldo_run *run;
    int good = 0, failed = 0;

    for (int i = 0; i < 3; i++) {
        waldo_run_new(f->rt, i == 1 ? bad : agent, &WALDO_RUN(.prompt = "hi"));
    }
    while ((run = waldo_runtime_next(f->rt, 60000)) != NULL) {
        good += waldo_run_status(run) == WALDO_OK;
        failed += waldo_run_status(run) != WALDO_OK;
        waldo_run_free(run);
    }
    assert_int_equal(good, 2);
    assert_int_equal(failed, 1);
    waldo_agent_unref(agent);
    waldo_agent_unref(bad);
}

static void refuses_work_when_closed(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = plain_agent(f, "text");
    waldo_run *run;

    assert_int_equal(waldo_runtime_close(f->rt, 0, NULL, NULL), WALDO_OK);
    assert_int_equal(waldo_runtime_close(f->rt, 0, NULL, NULL), WALDO_ECLOSED);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECLOSED);
    waldo_agent_unref(agent);
}

static void accepts_null_everywhere(void **state)
{
    waldo_usage usage;

    (void)state;
    assert_null(waldo_run_new(NULL, NULL, NULL));
    assert_int_equal(waldo_run_wait(NULL, 0), WALDO_ENOMEM);
    assert_int_equal(waldo_run_status(NULL), WALDO_ENOMEM);
    assert_contains(waldo_run_errmsg(NULL), "memory");
    assert_string_equal(waldo_run_text(NULL), "");
    assert_string_equal(waldo_run_label(NULL), "");
    assert_int_equal(waldo_run_send(NULL, "x"), WALDO_ECLOSED);
    assert_int_equal(waldo_run_item_count(NULL), 0);
    waldo_run_usage(NULL, &usage);
    assert_int_equal(usage.input_tokens, -1);
    waldo_run_cancel(NULL);
    waldo_run_free(NULL);
    waldo_agent_unref(NULL);
    waldo_runtime_finish(NULL);
    waldo_runtime_free(NULL);
    assert_null(waldo_runtime_next(NULL, 0));
    assert_int_equal(waldo_runtime_fd(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_a_prompt, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(gives_events_in_order, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(keeps_the_conversation, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(takes_text_while_it_works, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(remembers_bad_configuration, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(remembers_bad_tools, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(gives_out_runs_as_they_rest, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(refuses_work_when_closed, fixture_fresh, fixture_drop),
        cmocka_unit_test_setup_teardown(accepts_null_everywhere, fixture_fresh, fixture_drop),
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
