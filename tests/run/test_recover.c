/* Models to fall back to, and conversations that have become too long. */
#include "fixture.h"

#define SOON         "\"headers\":{\"retry-after-ms\":\"1\"}"
#define ERROR(words) "\"json\":{\"error\":{\"message\":\"" words "\"}}"

#define ECHO "{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":{\"text\":\"hi\"}}]}"

static waldo_agent *agent_of(fixture *f, const char *const *fallbacks, waldo_tool *tool)
{
    return waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "first"),
                                        .fallback_models = fallbacks, .max_output = 1000000,
                                        .tools = tool != NULL ? WALDO_TOOLS(tool) : NULL));
}

/* Does request number index ask this model? */
static void assert_asks(fixture *f, size_t index, const char *model)
{
    char want[64], *body;
    size_t len;

    snprintf(want, sizeof want, "\"model\":\"%s\"", model);
    body = standin_request_body(f->server, index, &len);
    assert_non_null(body);
    assert_contains(body, want);
    free(body);
}

/* ---- models to fall back to ---- */

static const struct {
    const char *reply;
    size_t tries; /* of the first model */
    int helps;    /* another one is asked */
} failures[] = {
    { "{\"status\":401," ERROR("bad key") "}", 1, 1 },
    { "{\"status\":403," ERROR("not for you") "}", 1, 1 },
    { "{\"status\":404," ERROR("no such model") "}", 1, 1 },
    { "{\"status\":402," ERROR("no money") "}", 1, 1 },
    { "{\"status\":429," SOON "," ERROR("slow down") "}", 3, 1 },
    { "{\"status\":429,\"headers\":{\"retry-after\":\"3600\"}," ERROR("come back later") "}", 1,
      1 },
    { "{\"status\":429," SOON ",\"json\":{\"error\":{\"message\":\"x\",\"code\":"
      "\"insufficient_quota\"}}}",
      1, 1 },
    { "{\"status\":500," SOON "," ERROR("oops") "}", 3, 1 },
    { "{\"status\":503,\"headers\":{\"x-should-retry\":\"false\"}," ERROR("oops") "}", 1, 1 },
    { "{\"status\":400,\"headers\":{\"x-should-retry\":\"true\",\"retry-after-ms\":\"1\"}," ERROR(
          "odd") "}",
      3, 1 },
    { "{\"status\":200,\"html\":\"<html>a proxy</html>\"}", 1, 1 },
    { "{\"status\":400," ERROR("maximum context length is 10 tokens") "}", 1, 1 },
    { "{\"status\":400," ERROR("what you sent is wrong") "}", 1, 0 },
    { "{\"status\":422," ERROR("what you sent is wrong") "}", 1, 0 },
    { "{\"text\":\"x\",\"finish\":\"content_filter\"}", 1, 0 },
    { "{\"refusal\":\"no\"}", 1, 0 },
};

static void another_model_is_asked_where_that_may_help(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, WALDO_STRINGS(fixture_model(f, "second")), NULL);

    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        char replies[4096] = "[";
        waldo_run *run;

        standin_reset(f->server);
        for (size_t k = 0; k < failures[i].tries; k++) {
            strcat(strcat(replies, failures[i].reply), ",");
        }
        fixture_replies(f, strcat(replies, "{\"text\":\"from the second\"}]"));
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        waldo_run_wait(run, 60000);
        assert_int_equal(standin_request_count(f->server), failures[i].tries + failures[i].helps);
        assert_asks(f, failures[i].tries - 1, "first");
        if (failures[i].helps) {
            assert_int_equal(waldo_run_status(run), WALDO_OK);
            assert_string_equal(waldo_run_text(run), "from the second");
            assert_asks(f, failures[i].tries, "second");
        } else {
            assert_true(waldo_run_status(run) < 0);
        }
        waldo_run_free(run);
    }
    waldo_agent_unref(agent);
}

static void a_change_of_model_is_told_and_lasts(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, WALDO_STRINGS(fixture_model(f, "second")), NULL);
    waldo_run *run;
    const char *said;

    fixture_replies(f, "[{\"text\":\"shown\",\"no_finish\":true," SOON "},"
                       "{\"text\":\"shown\",\"no_finish\":true},"
                       "{\"text\":\"shown\",\"no_finish\":true},"
                       "{\"text\":\"one\"},{\"text\":\"two\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    said = fixture_texts(run, WALDO_EVENT_EPOCH);
    assert_contains(said, "first request\nmodel chat:");
    assert_contains(said, "#first failed (");
    assert_contains(said, "#second\n");
    assert_string_equal(fixture_items(run), "{\"kind\":\"user\",\"text\":\"hi\"}\n"
                                            "{\"kind\":\"assistant\",\"text\":\"one\"}\n");
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_string_equal(fixture_texts(run, WALDO_EVENT_EPOCH), "");
    assert_string_equal(waldo_run_text(run), "two");
    assert_asks(f, 4, "second");
    waldo_agent_unref(agent);
}

static void what_was_shown_before_a_change_is_void(void **state)
{
    fixture *f = *state;
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.model = fixture_model(f, "first"), .no_retries = 1));
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = model,
                                     .fallback_models = WALDO_STRINGS(fixture_model(f, "second"))));
    waldo_run *run;
    const char *kinds;

    fixture_replies(f, "[{\"text\":\"shown\",\"no_finish\":true},{\"text\":\"one\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_string_equal(kinds, "state epoch item text epoch retry usage text usage item state ");
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

static void the_list_is_gone_through_once(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(
        f, WALDO_STRINGS("chat:http://127.0.0.1:1/v1#absent", fixture_model(f, "third")), NULL);
    waldo_run *run;

    fixture_replies(f, "[{\"status\":401," ERROR("first") "},{\"status\":404," ERROR(
                           "third") "},"
                                    "{\"text\":\"never\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ENOTFOUND);
    assert_contains(waldo_run_errmsg(run), "third");
    assert_int_equal(standin_request_count(f->server), 2);
    assert_asks(f, 1, "third");
    waldo_agent_unref(agent);
}

/* Calls that were made are not made again, whoever goes on. */
static void another_vendor_gets_the_whole_history(void **state)
{
    fixture *f = *state;
    standin *other = standin_start("responses", NULL);
    char model[320];
    int calls = 0;
    waldo_agent *agent;
    waldo_run *run;
    char *body;
    size_t len;

    assert_non_null(other);
    snprintf(model, sizeof model, "openai:%s#second", standin_url(other));
    agent = agent_of(f, WALDO_STRINGS(model), echo_tool(&calls, 0));
    fixture_replies(f, "[" ECHO ",{\"status\":401," ERROR("gone") "}]");
    assert_true(standin_control(other, "{\"replies\":[{\"text\":\"the end\"}]}"));
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "the end");
    assert_int_equal(calls, 1);
    body = standin_request_body(other, 0, &len);
    assert_non_null(body);
    assert_contains(body, "\"function_call_output\"");
    assert_contains(body, "echo: hi");
    free(body);
    standin_stop(other);
    waldo_agent_unref(agent);
}

static void a_bad_model_to_fall_back_to_is_refused(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, WALDO_STRINGS("walk:x"), NULL);
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EINVAL);
    assert_contains(waldo_run_errmsg(run), "walk");
    assert_int_equal(standin_request_count(f->server), 0);
    waldo_agent_unref(agent);
}

static void a_money_limit_needs_prices_of_all_models(void **state)
{
    fixture *f = *state;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "first"),
                                     .fallback_models = WALDO_STRINGS(fixture_model(f, "second")),
                                     .limits = { .max_cost = 1000 }));
    waldo_run *run;

    fixture_runtime(f, &WALDO_RUNTIME(.model_facts = "{\"models\":[{\"match\":\"*#first\","
                                                     "\"input\":1,\"output\":1}]}"));
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ENOTSUP);
    assert_contains(waldo_run_errmsg(run), "#second");
    assert_int_equal(standin_request_count(f->server), 0);
    waldo_agent_unref(agent);
}

/* ---- conversations that are too long ---- */

static waldo_status talk(void *userdata, waldo_tool_call *call)
{
    static char text[100001];

    for (size_t i = 0; i + 1 < sizeof text; i += 2) {
        memcpy(text + i, "\xc3\xa9", 2); /* a cut must not fall into one */
    }
    (*(int *)userdata)++;
    return waldo_tool_call_reply(call, "begin %s end", text);
}

#define TALK(id) "{\"id\":\"" id "\",\"name\":\"talk\",\"arguments\":{}}"
#define TOO_LONG "{\"status\":400," ERROR("This model's maximum context length is 4000 tokens") "}"

static waldo_tool *talk_tool(int *calls)
{
    return WALDO_TOOL(.name = "talk", .about = "Says much.", .call = talk, .userdata = calls);
}

/* F42: a result larger than the window. */
static void a_large_result_is_sent_shorter_once(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, NULL, talk_tool(&calls));
    waldo_run *run;
    const char *said;
    char *body, *next;
    size_t len, next_len;

    fixture_replies(f, "[{\"calls\":[" TALK("c1") "]}," TOO_LONG
                                                  ",{\"text\":\"good\"},{\"text\":\"again\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    said = fixture_texts(run, WALDO_EVENT_EPOCH);
    assert_string_equal(said, "first request\nthe conversation is too long for the model: old tool "
                              "output is sent shortened\n");
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "good");
    assert_int_equal(calls, 1);
    assert_int_equal(standin_request_count(f->server), 3);
    body = standin_request_body(f->server, 1, &len);
    assert_true(len > 100000);
    free(body);
    body = standin_request_body(f->server, 2, &len);
    assert_true(len < 4 * 4000);
    assert_contains(body, "begin \xc3\xa9");
    assert_contains(body, "\xc3\xa9 end");
    assert_contains(body, " bytes left out here");
    assert_lacks(body, "\xef\xbf\xbd");
    /* All of it is in the transcript. */
    assert_true(strlen(fixture_items(run)) > 100000);
    assert_lacks(fixture_items(run), "left out");

    /* The epoch goes on: the next request begins with the one before. */
    assert_int_equal(waldo_run_send(run, "more"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    next = standin_request_body(f->server, 3, &next_len);
    assert_memory_equal(next, body, len - 40);
    free(next);
    free(body);
    waldo_agent_unref(agent);
}

static void what_stays_too_long_fails_by_name(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, NULL, talk_tool(&calls));
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" TALK("c1") "]}," TOO_LONG "," TOO_LONG
                                                  ",{\"text\":\"never\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EOVERFLOW);
    assert_int_equal(standin_request_count(f->server), 3);
    waldo_agent_unref(agent);
}

/* Older results give way further; those of the last batch share what they may have. */
static void old_results_are_cut_further(void **state)
{
    fixture *f = *state;
    int calls = 0;
    waldo_agent *agent = agent_of(f, NULL, talk_tool(&calls));
    waldo_run *run;
    char *body;
    size_t len;

    fixture_replies(f, "[{\"calls\":[" TALK("c1") "]}," TOO_LONG ",{\"calls\":[" TALK(
                           "c2") ","
                                 "" TALK("c3") "]}," TOO_LONG ",{\"text\":\"good\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(calls, 3);
    body = standin_request_body(f->server, 4, &len);
    assert_contains(body, "[... 98986 bytes left out here");
    assert_contains(strstr(body, "98986 bytes"), "[... 95914 bytes left out here");
    assert_contains(strstr(body, "95914 bytes") + 1, "[... 95914 bytes left out here");
    free(body);
    waldo_agent_unref(agent);
}

static waldo_status picture(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    assert_int_equal(waldo_tool_call_add_image(call, (waldo_str){ "GIF89a", 6 }), WALDO_OK);
    return waldo_tool_call_reply(call, "look");
}

/* Images of results that were answered go; those the model has not seen yet stay. */
static void old_images_are_left_out(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, NULL, WALDO_TOOL(.name = "talk", .call = picture));
    waldo_run *run;
    char *body, *behind;
    size_t len;

    fixture_replies(f, "[{\"calls\":[" TALK("c1") "]},{\"calls\":[" TALK(
                           "c2") "]}," TOO_LONG ",{\"text\":\"good\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    body = standin_request_body(f->server, 3, &len);
    assert_contains(body, "look\\n[1 image left out]");
    behind = strstr(body, "look\\n[image 1 attached below]");
    assert_non_null(behind);
    assert_contains(behind, "data:image/gif");
    assert_null(strstr(strstr(body, "data:image/gif") + 1, "data:image/gif"));
    free(body);
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(another_model_is_asked_where_that_may_help),
        ROW(a_change_of_model_is_told_and_lasts),
        ROW(what_was_shown_before_a_change_is_void),
        ROW(the_list_is_gone_through_once),
        ROW(another_vendor_gets_the_whole_history),
        ROW(a_bad_model_to_fall_back_to_is_refused),
        ROW(a_money_limit_needs_prices_of_all_models),
        ROW(a_large_result_is_sent_shorter_once),
        ROW(what_stays_too_long_fails_by_name),
        ROW(old_results_are_cut_further),
        ROW(old_images_are_left_out),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
