/*
 * Conversations that their provider keeps (history=provider). The stand-in keeps them, and refuses
 * what it has already, calls without their results, and what it has forgotten.
 */
#include "fixture.h"
#include "keeper.h"

#define SOON "\"headers\":{\"retry-after-ms\":\"1\"}"
#define ECHO(id)                                                                                   \
    "{\"reasoning\":\"hm\",\"text\":\"let me see\",\"calls\":[{\"id\":\"" id                       \
    "\",\"name\":\"echo\",\"arguments\":{\"text\":\"in the call\"}}]}"

/* ---- what the tests here share ---- */

static int start(void **state)
{
    return fixture_start_of(state, "responses");
}

/* "openai:URL#m,history=provider" and more. */
static const char *model_of(fixture *f, const char *more)
{
    char *text = f->model[f->models++ % 8];

    snprintf(text, sizeof f->model[0], "openai:%s#m,history=provider%s", f->url, more);
    return text;
}

static waldo_agent *agent_of(fixture *f, const char *more, waldo_tool *tool)
{
    return waldo_agent_new(&WALDO_AGENT(.model = model_of(f, more), .instructions = "Be brief.",
                                        .tools = tool != NULL ? WALDO_TOOLS(tool) : NULL));
}

/* The end of request number index, from "input" on. */
static const char *input(fixture *f, size_t index)
{
    static char text[16384];
    size_t len;
    char *body = standin_request_body(f->server, index, &len);

    assert_non_null(body);
    assert_contains(body, "\"store\":true");
    assert_contains(body, "\"instructions\":\"Be brief.\"");
    assert_non_null(strstr(body, "\"input\":"));
    snprintf(text, sizeof text, "%s", strstr(body, "\"input\":"));
    free(body);
    return text;
}

static const char *previous_of(const char *input_text)
{
    const char *at = strstr(input_text, "\"previous_response_id\":");

    return at != NULL ? at : "none";
}

static void assert_same_request(fixture *f, size_t one, size_t other)
{
    size_t len[2];
    char *body[2] = { standin_request_body(f->server, one, &len[0]),
                      standin_request_body(f->server, other, &len[1]) };

    assert_int_equal(len[0], len[1]);
    assert_memory_equal(body[0], body[1], len[0]);
    free(body[0]);
    free(body[1]);
}

static waldo_status say(waldo_run *run, const char *text)
{
    assert_int_equal(waldo_run_send(run, text), WALDO_OK);
    return waldo_run_wait(run, 60000);
}

static void drive_to_request(fixture *f, size_t count)
{
    while (standin_request_count(f->server) < count) {
        waldo_runtime_step(f->rt, 20); /* it may wait for the server alone */
    }
}

/* ---- it works ---- */

static void only_what_is_new_is_sent(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, "", echo_tool(&calls, 0));
    waldo_run *run;

    fixture_replies(f, "[" ECHO("c1") "," ECHO("c2") ",{\"text\":\"one\"},{\"text\":\"two\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "one");
    assert_int_equal(say(run, "more"), WALDO_OK);
    assert_int_equal(calls, 2);
    assert_string_equal(input(f, 0), "\"input\":[{\"role\":\"user\",\"content\":\"begin\"}]}");
    assert_string_equal(input(f, 1),
                        "\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c1\","
                        "\"output\":\"echo: in the call\"}],\"previous_response_id\":"
                        "\"resp_0001\"}");
    assert_string_equal(previous_of(input(f, 2)), "\"previous_response_id\":\"resp_0002\"}");
    assert_string_equal(input(f, 3), "\"input\":[{\"role\":\"user\",\"content\":\"more\"}],"
                                     "\"previous_response_id\":\"resp_0003\"}");
    assert_string_equal(waldo_run_response_id(run), "resp_0004");
    assert_contains(fixture_items(run), "\"response\":\"resp_0004\"");
    waldo_agent_unref(agent);
}

static void another_run_goes_on_from_an_id(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "", NULL), *next;
    waldo_run *run;

    assert_string_equal(waldo_run_response_id(NULL), "");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_string_equal(waldo_run_response_id(run), "");
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_response_id(run), "resp_0001");
    waldo_run_free(run);
    next = agent_of(f, ",previous=resp_0001", NULL);
    run = waldo_run_new(f->rt, next, &WALDO_RUN(.prompt = "more"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(previous_of(input(f, 1)), "\"previous_response_id\":\"resp_0001\"}");
    waldo_agent_unref(agent);
    waldo_agent_unref(next);
}

/* A refusal by the filter and a cut by the output limit are ends, too. */
static void it_goes_on_from_unfinished_responses(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "", NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"and so\",\"incomplete\":\"max_output_tokens\"},"
                       "{\"output\":[],\"incomplete\":\"content_filter\"},{\"text\":\"end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ELIMIT);
    assert_int_equal(say(run, "go on"), WALDO_EFILTER);
    assert_int_equal(say(run, "and now?"), WALDO_OK);
    assert_string_equal(previous_of(input(f, 1)), "\"previous_response_id\":\"resp_0001\"}");
    assert_string_equal(input(f, 2), "\"input\":[{\"role\":\"user\",\"content\":\"and now?\"}],"
                                     "\"previous_response_id\":\"resp_0002\"}");
    waldo_agent_unref(agent);
}

static void the_journal_has_no_texts(void **state)
{
    static const char *const texts[] = { "what I said", "let me see", "hm",        "echo: ",
                                         "the end",     "gAAAA",      "the reason" };
    fixture *f = *state;
    keeper *kept = calloc(1, sizeof *kept);
    waldo_store *store = keeper_store(kept);
    int calls = 0;
    waldo_agent *agent = agent_of(f, "", echo_tool(&calls, WALDO_NEEDS_APPROVAL));
    waldo_run *run;

    fixture_runtime(f, &WALDO_RUNTIME(.store = store));
    fixture_replies(f, "[" ECHO("c1") "," ECHO("c2") ",{\"text\":\"the end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "what I said"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    assert_int_equal(waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }),
                     WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    assert_int_equal(waldo_run_decide(run, "c2",
                                      &(waldo_decision){ .kind = WALDO_DECIDE_REJECT,
                                                         .text = { "the reason", 10 } }),
                     WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_lacks(kept->text, texts[i]);
    }
    assert_contains(kept->text, "\"history\":\"provider\"");
    assert_contains(kept->text,
                    "{\"kind\":\"user\",\"bytes\":11,\"sha256\":"
                    "\"6d084cb436e3825d6b9d167dfa13f257b383da9cd26b4e24d30e9b0a3aed5393\"}");
    assert_contains(kept->text, "{\"kind\":\"assistant\",\"bytes\":10,\"sha256\":");
    assert_contains(kept->text, "\"raw_id\":\"msg_0001_01\",\"response\":\"resp_0001\"}");
    assert_contains(kept->text, "{\"kind\":\"tool_call\",\"id\":\"c1\",\"name\":\"echo\",\"args\":"
                                "\"{\\\"text\\\":\\\"in the call\\\"}\",\"raw_id\":\"fc_0001_02\","
                                "\"response\":\"resp_0001\"}");
    assert_contains(kept->text, "\"t\":\"dispatched\",\"item\":3,\"call\":\"c1\"");
    assert_contains(kept->text, "\"is_error\":false,\"bytes\":17,\"sha256\":\"");
    assert_contains(kept->text, "\"reject\":\"\",\"bytes\":10,\"sha256\":\"");
    assert_contains(kept->text, "\"t\":\"usage\",\"input_tokens\":312");
    /* what is in memory is whole */
    assert_contains(fixture_items(run), "echo: in the call");
    waldo_agent_unref(agent);
    waldo_runtime_finish(f->rt);
    waldo_store_unref(store);
    free(kept);
    f->rt = waldo_runtime_new(NULL);
}

/* ---- what goes wrong ---- */

/* Nothing goes on from an answer that did not come to its end. */
static void a_lost_answer_is_asked_again(void **state)
{
    static const char *const lost[] = {
        "{\"text\":\"some\",\"no_terminal\":true}",
        "{\"text\":\"some\",\"drop_at\":400}",
        "{\"close_before_reply\":true}",
        "{\"text\":\"some\",\"failed\":\"server_error\"}",
        "{\"status\":500,\"json\":{}," SOON "}",
    };
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "", NULL);

    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        char replies[512], first[64];
        waldo_run *run;

        standin_reset(f->server);
        snprintf(replies, sizeof replies, "[{\"text\":\"one\"},%s,{\"text\":\"two\"}]", lost[i]);
        fixture_replies(f, replies);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        snprintf(first, sizeof first, "\"previous_response_id\":\"%s\"}",
                 waldo_run_response_id(run));
        assert_int_equal(say(run, "more"), WALDO_OK);
        assert_int_equal(standin_request_count(f->server), 3);
        assert_string_equal(previous_of(input(f, 1)), first);
        assert_same_request(f, 1, 2);
        assert_int_equal(say(run, "and more"), WALDO_OK);
        assert_string_not_equal(previous_of(input(f, 3)), first);
        waldo_run_free(run);
    }
    waldo_agent_unref(agent);
}

static void a_cancelled_answer_leaves_the_last_whole_one(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, "", echo_tool(&calls, 0));
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"one\"},{\"text\":\"never read\",\"stall_at\":700},"
                       "{\"text\":\"two\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(waldo_run_send(run, "stop this"), WALDO_OK);
    drive_to_request(f, 2);
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_string_equal(waldo_run_response_id(run), "resp_0001");
    assert_int_equal(say(run, "do that"), WALDO_OK);
    assert_string_equal(input(f, 2), "\"input\":[{\"role\":\"user\",\"content\":\"stop this\"},"
                                     "{\"role\":\"user\",\"content\":\"do that\"}],"
                                     "\"previous_response_id\":\"resp_0001\"}");
    waldo_agent_unref(agent);
}

/* Cancelled while calls run: they are answered, behind the response that made them. */
static void calls_that_were_not_run_are_answered(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, "", echo_tool(&calls, WALDO_NEEDS_APPROVAL));
    waldo_run *run;

    fixture_replies(f, "[" ECHO("c1") ",{\"text\":\"well\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_int_equal(say(run, "do without"), WALDO_OK);
    assert_contains(input(f, 1), "\"call_id\":\"c1\",\"output\":\"ERROR: The host cancelled");
    assert_string_equal(previous_of(input(f, 1)), "\"previous_response_id\":\"resp_0001\"}");
    assert_int_equal(calls, 0);
    waldo_agent_unref(agent);
}

static void what_has_expired_is_told(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "", NULL);
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_true(standin_control(f->server, "{\"forget\":true}"));
    assert_int_equal(say(run, "more"), WALDO_ENOTFOUND);
    assert_int_equal(standin_request_count(f->server), 2);
    assert_contains(waldo_run_errmsg(run), "'resp_0001' not found");
    assert_contains(waldo_run_errmsg(run), "begin a new run");
    assert_string_equal(waldo_error_provider_code(waldo_run_error(run)),
                        "previous_response_not_found");
    waldo_agent_unref(agent);
}

static void a_server_without_storage_is_named(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "", NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"one\",\"forgetful\":true}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ENOTSUP);
    assert_contains(waldo_run_errmsg(run), "does not keep its responses");
    assert_int_equal(standin_request_count(f->server), 1);
    waldo_agent_unref(agent);
}

static void what_is_too_long_cannot_be_shortened(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, "", echo_tool(&calls, 0));
    waldo_run *run;

    fixture_replies(f, "[" ECHO("c1") ",{\"status\":400,\"json\":{\"error\":{\"message\":\"x\","
                                      "\"code\":\"context_length_exceeded\"}}}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EOVERFLOW);
    assert_contains(waldo_run_errmsg(run), "HTTP 400: x");
    assert_contains(waldo_run_errmsg(run), "history=provider: the provider keeps the conversation");
    assert_string_equal(waldo_error_provider_code(waldo_run_error(run)), "context_length_exceeded");
    assert_int_equal(standin_request_count(f->server), 2);
    waldo_agent_unref(agent);
}

/* ---- what is refused ---- */

static void no_other_model_can_go_on(void **state)
{
    fixture *f = *state;
    char plain_text[320];
    waldo_agent *agent = agent_of(f, "", NULL), *plain_agent;
    waldo_model *remote = waldo_model_new(&WALDO_MODEL(.model = model_of(f, ""))), *plain;
    waldo_run *run = waldo_run_new(f->rt, agent, NULL);

    snprintf(plain_text, sizeof plain_text, "openai:%s#m", f->url);
    plain = waldo_model_new(&WALDO_MODEL(.model = plain_text));
    plain_agent = waldo_agent_new(&WALDO_AGENT(.model = plain_text, .instructions = "Be brief."));
    /* before anything was said there is nothing to lose */
    assert_int_equal(waldo_run_set_model(run, plain), WALDO_OK);
    assert_int_equal(waldo_run_set_model(run, remote), WALDO_OK);
    assert_int_equal(say(run, "begin"), WALDO_OK);
    assert_int_equal(waldo_run_set_model(run, plain), WALDO_ENOTSUP);
    assert_contains(fixture_texts(run, WALDO_EVENT_WARNING),
                    "history=provider: the provider keeps the conversation, so it "
                    "cannot change its model: begin a new run");
    assert_int_equal(say(run, "more"), WALDO_OK);
    run = waldo_run_new(f->rt, plain_agent, &WALDO_RUN(.prompt = "begin here"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(waldo_run_set_model(run, remote), WALDO_ENOTSUP);
    assert_contains(fixture_texts(run, WALDO_EVENT_WARNING), "cannot change its model");
    waldo_agent_unref(agent);
    waldo_agent_unref(plain_agent);
    waldo_model_unref(remote);
    waldo_model_unref(plain);
}

static void no_model_to_fall_back_to(void **state)
{
    fixture *f = *state;
    char plain[320];

    snprintf(plain, sizeof plain, "openai:%s#m", f->url);
    for (int i = 0; i < 2; i++) {
        waldo_agent *agent = waldo_agent_new(
            &WALDO_AGENT(.model = i == 0 ? model_of(f, "") : plain,
                         .fallback_models = WALDO_STRINGS(i == 0 ? plain : model_of(f, ""))));

        assert_int_equal(waldo_error_status(waldo_agent_error(agent)), WALDO_ENOTSUP);
        assert_contains(waldo_error_message(waldo_agent_error(agent)), "history=provider");
        waldo_agent_unref(agent);
    }
}

static void messages_neither_come_nor_go(void **state)
{
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"x\"}]";
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "", NULL);
    waldo_run *run = waldo_run_new(f->rt, agent, NULL);
    waldo_error *error = NULL;

    assert_int_equal(waldo_run_import(run, (waldo_str){ messages, sizeof messages - 1 }, &error),
                     WALDO_ENOTSUP);
    assert_contains(waldo_error_message(error), "messages from elsewhere cannot be put into it");
    waldo_error_free(error);
    assert_int_equal(waldo_run_item_count(run), 0);
    assert_int_equal(say(run, "begin"), WALDO_OK);
    assert_int_equal(waldo_run_export(run).len, 0);
    assert_contains(fixture_texts(run, WALDO_EVENT_WARNING), "it cannot be exported");
    waldo_agent_unref(agent);
}

/* ---- conversations ---- */

static waldo_agent *agent_in(fixture *f, waldo_tool *tool)
{
    assert_true(standin_control(f->server, "{\"conversation\":\"conv_1\"}"));
    return agent_of(f, ",conversation=conv_1", tool);
}

static void a_conversation_is_gone_on_in(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_in(f, echo_tool(&calls, 0));
    waldo_run *run;
    char *body;
    size_t len;

    fixture_replies(
        f, "[" ECHO("c1") ",{\"text\":\"one\"},{\"status\":429," SOON ",\"json\":{}},"
                          "{\"output\":[],\"incomplete\":\"content_filter\"},{\"text\":\"two\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(say(run, "more"), WALDO_EFILTER); /* a refusal was tried again before */
    assert_int_equal(say(run, "and more"), WALDO_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(standin_request_count(f->server), 5);
    assert_string_equal(input(f, 4), "\"input\":[{\"role\":\"user\",\"content\":\"and more\"}]}");
    body = standin_request_body(f->server, 4, &len);
    assert_contains(body, "\"conversation\":\"conv_1\"");
    free(body);
    waldo_agent_unref(agent);
}

static void assert_in_doubt(fixture *f, waldo_run *run, size_t requests)
{
    assert_int_equal(say(run, "more"), WALDO_EUNKNOWN_OUTCOME);
    assert_contains(waldo_run_errmsg(run), "go on with a new run");
    assert_int_equal(standin_request_count(f->server), requests);
}

static void what_a_conversation_may_hold_is_not_sent_again(void **state)
{
    static const char *const lost[] = {
        "{\"text\":\"some\",\"no_terminal\":true}",      "{\"text\":\"some\",\"drop_at\":400}",
        "{\"text\":\"some\",\"stream_error\":\"flat\"}", "{\"close_before_reply\":true}",
        "{\"status\":502,\"html\":\"bad gateway\"}",
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        char replies[256];
        waldo_agent *agent;
        waldo_run *run;

        standin_reset(f->server);
        agent = agent_in(f, NULL);
        snprintf(replies, sizeof replies, "[%s,{\"text\":\"never\"}]", lost[i]);
        fixture_replies(f, replies);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_EUNKNOWN_OUTCOME);
        assert_contains(waldo_run_errmsg(run), "sending it again could say it twice");
        assert_in_doubt(f, run, 1);
        waldo_run_free(run);
        waldo_agent_unref(agent);
    }
}

static void a_cancelled_turn_of_a_conversation_is_in_doubt(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_in(f, NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"never read\",\"stall_at\":700}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));
    drive_to_request(f, 1);
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_in_doubt(f, run, 1);
    waldo_agent_unref(agent);
}

static void an_unknown_conversation_is_told(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, ",conversation=conv_9", NULL);
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "begin"));

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ENOTFOUND);
    assert_contains(waldo_run_errmsg(run), "'conv_9' not found");
    assert_contains(waldo_run_errmsg(run), "begin a new run");
    waldo_agent_unref(agent);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_fresh, fixture_drop)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(only_what_is_new_is_sent),
        TEST(another_run_goes_on_from_an_id),
        TEST(it_goes_on_from_unfinished_responses),
        TEST(the_journal_has_no_texts),
        TEST(a_lost_answer_is_asked_again),
        TEST(a_cancelled_answer_leaves_the_last_whole_one),
        TEST(calls_that_were_not_run_are_answered),
        TEST(what_has_expired_is_told),
        TEST(a_server_without_storage_is_named),
        TEST(what_is_too_long_cannot_be_shortened),
        TEST(no_other_model_can_go_on),
        TEST(no_model_to_fall_back_to),
        TEST(messages_neither_come_nor_go),
        TEST(a_conversation_is_gone_on_in),
        TEST(what_a_conversation_may_hold_is_not_sent_again),
        TEST(a_cancelled_turn_of_a_conversation_is_in_doubt),
        TEST(an_unknown_conversation_is_told),
    };

    return !!cmocka_run_group_tests(tests, start, fixture_stop);
}
