/*
 * One conversation over the models of three vendors: each stand-in is a strict judge of its
 * vendor's rules for histories, so that a run which ends well has kept them all.
 */
#include "fixture.h"
#include "keeper.h"

#define PNG     "\x89PNG\r\n\x1a\n" /* all that is looked at */
#define PNG_B64 "iVBORw0KGgo="
#define GIF     "GIF89a"
#define GIF_B64 "R0lGODlh"

enum { RESPONSES, MESSAGES, CHAT, VENDORS };

/* ---- three vendors ---- */

typedef struct vendors {
    standin *servers[VENDORS];
    waldo_model *models[VENDORS];
    keeper store;
    char told[65536]; /* epochs, warnings and retries */
} vendors;

static int start(void **state)
{
    static const char *const names[] = { "responses", "messages", "chat" };
    static const char *const kinds[] = { "openai", "anthropic", "chat" };
    vendors *v = calloc(1, sizeof *v);

    for (int i = 0; i < VENDORS; i++) {
        char text[320];

        v->servers[i] = standin_start(names[i], NULL);
        if (v->servers[i] == NULL) {
            *state = v;
            return -1;
        }
        snprintf(text, sizeof text, "%s:%s#%s-agent", kinds[i], standin_url(v->servers[i]),
                 kinds[i]);
        v->models[i] = waldo_model_new(
            &WALDO_MODEL(.model = text, .no_retries = 1,
                         .quirks = i == MESSAGES ? "version=2026-10-21,cache=5m" : NULL));
    }
    *state = v;
    return 0;
}

static int stop(void **state)
{
    vendors *v = *state;

    for (int i = 0; i < VENDORS; i++) {
        waldo_model_unref(v->models[i]);
        standin_stop(v->servers[i]);
    }
    free(v);
    return 0;
}

static int fresh(void **state)
{
    vendors *v = *state;

    memset(&v->store, 0, sizeof v->store);
    v->told[0] = '\0';
    for (int i = 0; i < VENDORS; i++) {
        if (!standin_reset(v->servers[i])) {
            return -1;
        }
    }
    return 0;
}

static void replies(vendors *v, int vendor, const char *json)
{
    char text[4096];

    assert_true((size_t)snprintf(text, sizeof text, "{\"replies\": %s}", json) < sizeof text);
    assert_true(standin_control(v->servers[vendor], text));
}

/* Pull all there is; what was told besides text and items is kept. */
static waldo_status pull(vendors *v, waldo_run *run)
{
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, 60000, &event)) == WALDO_OK) {
        waldo_event_kind kind = waldo_event_type(event);
        size_t len = strlen(v->told);

        if (kind == WALDO_EVENT_EPOCH || kind == WALDO_EVENT_WARNING || kind == WALDO_EVENT_RETRY) {
            snprintf(v->told + len, sizeof v->told - len, "%s: %s\n", waldo_event_kind_name(kind),
                     waldo_event_text(event).ptr);
        }
    }
    return status;
}

/* A result with an image. */
static waldo_status show(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    waldo_tool_call_add_image(call, (waldo_str){ GIF, sizeof GIF - 1 });
    return waldo_tool_call_reply(call, "shown");
}

/* A turn with another model, which must end with its answer and so many requests to it in all. */
static void turn(vendors *v, waldo_run *run, int vendor, const char *prompt, const char *json,
                 const char *answer, size_t requests)
{
    const waldo_part said[] = {
        { .text = { prompt, strlen(prompt) } },
        /* of the second prompt */
        { .image = { PNG, strcmp(prompt, "two") == 0 ? sizeof PNG - 1 : 0 } },
    };
    waldo_status status;

    replies(v, vendor, json);
    assert_int_equal(waldo_run_set_model(run, v->models[vendor]), WALDO_OK);
    assert_int_equal(waldo_run_send_parts(run, said, 2), WALDO_OK);
    status = pull(v, run);
    if (status != WALDO_END || waldo_run_stop(run) != WALDO_STOP_ANSWERED) {
        fail_msg("%s: %s", prompt, waldo_run_errmsg(run));
    }
    assert_string_equal(waldo_run_text(run), answer);
    assert_int_equal(standin_request_count(v->servers[vendor]), requests);
}

static char *body(vendors *v, int vendor, size_t index, size_t *ret_len)
{
    char *text = standin_request_body(v->servers[vendor], index, ret_len);

    assert_non_null(text);
    return text;
}

/* Each request of a vendor begins as the one before it, but for the few bytes that close it. */
static void expect_growth(vendors *v, int vendor, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        size_t before_len, after_len;
        char *before = body(v, vendor, i, &before_len), *after = body(v, vendor, i + 1, &after_len);

        assert_true(after_len > before_len);
        assert_memory_equal(before, after, before_len - strlen("]}]}"));
        free(before);
        free(after);
    }
}

static size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) {
        count++;
    }
    return count;
}

#define ECHO(id, text)                                                                             \
    "{\"id\":\"" id "\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"" text "\\\"}\"}"

/* The whole way round, and round again: nothing that was said is lost, nothing is refused. */
static void all_the_way_round(void **state)
{
    vendors *v = *state;
    waldo_store *store = keeper_store(&v->store);
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.store = store));
    int calls = 0;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = v->models[RESPONSES],
                     .instructions = "Echo what you are told.",
                     .tools = WALDO_TOOLS(
                         echo_tool(&calls, WALDO_PARALLEL_SAFE),
                         WALDO_TOOL(.name = "show", .call = show, .flags = WALDO_PARALLEL_SAFE))));
    waldo_run *run = waldo_run_new(rt, agent, NULL);
    size_t len;
    char *text;

    turn(v, run, RESPONSES, "one",
         "[{\"reasoning\":\"Hm.\",\"text\":\"Look.\",\"phase\":\"commentary\",\"calls\":[" ECHO(
             "call_1", "a") "," ECHO("call_2", "b") "]},{\"reasoning\":\"\",\"text\":\"ONE\"}]",
         "ONE", 2);
    turn(v, run, MESSAGES, "two",
         "[{\"thinking\":\"Well.\",\"text\":\"Let me.\",\"calls\":[" ECHO("toolu_1", "c") "," ECHO(
             "toolu_9", "d") "]},{\"thinking\":\"\",\"redacted\":\"Em8=\","
                             "\"text\":\"TWO\"}]",
         "TWO", 2);
    turn(v, run, CHAT, "three",
         "[{\"calls\":[" ECHO("call_1", "e") ",{\"id\":\"c9\",\"name\":\"show\",\"arguments\":\"{}"
                                             "\"}," ECHO("c10", "f") "]},{\"text\":\"THREE\"}]",
         "THREE", 2);
    turn(v, run, RESPONSES, "four",
         "[{\"reasoning\":\"So.\",\"calls\":[" ECHO("call_3", "g") "]},{\"text\":\"FOUR\"}]",
         "FOUR", 4);
    turn(v, run, MESSAGES, "five",
         "[{\"thinking\":\"Yes.\",\"calls\":[" ECHO("toolu_2", "h") "]},{\"text\":\"FIVE\"}]",
         "FIVE", 4);
    assert_int_equal(calls, 8);
    for (int i = 0; i < VENDORS; i++) {
        expect_growth(v, i, i == CHAT ? 2 : 4); /* across the borders, too */
    }

    text = body(v, RESPONSES, 3, &len);
    assert_int_equal(occurrences(text, "\"type\":\"reasoning\""), 3);
    assert_int_equal(occurrences(text, "\"type\":\"function_call\""), 8);
    assert_int_equal(occurrences(text, "\"type\":\"function_call_output\""), 8);
    assert_int_equal(occurrences(text, PNG_B64), 1);
    assert_int_equal(occurrences(text, GIF_B64), 1);
    assert_contains(text, "\"phase\":\"commentary\"");
    assert_lacks(text, "Well.");
    free(text);
    text = body(v, MESSAGES, 3, &len);
    assert_int_equal(occurrences(text, "\"type\":\"thinking\""), 3);
    assert_int_equal(occurrences(text, "\"type\":\"redacted_thinking\""), 1);
    assert_int_equal(occurrences(text, "\"type\":\"tool_use\""), 9);
    assert_int_equal(occurrences(text, "\"type\":\"tool_result\""), 9);
    assert_int_equal(occurrences(text, PNG_B64), 1);
    assert_int_equal(occurrences(text, GIF_B64), 1);
    assert_contains(text, "ONE");
    assert_contains(text, "THREE");
    assert_lacks(text, "gAAAA");
    free(text);
    text = body(v, CHAT, 1, &len);
    assert_int_equal(occurrences(text, "\"role\":\"tool\""), 7);
    assert_int_equal(occurrences(text, PNG_B64), 1);
    assert_int_equal(occurrences(text, GIF_B64), 1);
    assert_contains(text, "Look.");
    assert_lacks(text, "Well.");
    assert_lacks(text, "Hm.");
    free(text);

    assert_string_equal(v->told, "epoch: first request\nepoch: another model\nepoch: another "
                                 "model\nepoch: another model\nepoch: another model\n");
    assert_int_equal(keeper_holds(&v->store, "\"t\":\"epoch\""), 5);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    waldo_store_unref(store);
}

static waldo_status note(void *userdata, waldo_tool_call *call)
{
    char *noted = userdata;
    size_t len = strlen(noted);

    snprintf(noted + len, 256 - len, "%s;", waldo_tool_call_str(call, "text"));
    return waldo_tool_call_reply(call, "noted");
}

#define NOTE(id, text)                                                                             \
    "{\"id\":\"" id "\",\"name\":\"note\",\"arguments\":\"{\\\"text\\\":\\\"" text "\\\"}\"}"

/* A call in plain text is an object to those who know no such calls, and theirs is text again. */
static void plain_text_all_the_way_round(void **state)
{
    vendors *v = *state;
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_model *functions = v->models[RESPONSES];
    char noted[256] = "", name[320], *text;
    waldo_agent *agent;
    waldo_run *run;
    size_t len;

    snprintf(name, sizeof name, "openai:%s#openai-agent,freeform=on",
             standin_url(v->servers[RESPONSES]));
    v->models[RESPONSES] = waldo_model_new(&WALDO_MODEL(.model = name, .no_retries = 1));
    agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = v->models[RESPONSES],
                     .tools = WALDO_TOOLS(WALDO_TOOL(
                             .name = "note", .call = note, .userdata = noted, .freeform = "text",
                             .params = WALDO_PARAMS({ .name = "text", .type = WALDO_STRING })))));
    run = waldo_run_new(rt, agent, NULL);
    turn(v, run, RESPONSES, "one",
         "[{\"reasoning\":\"Hm.\",\"custom\":[{\"id\":\"call_1\",\"name\":\"note\",\"input\":"
         "\"a \\\"b\\\"\"}]},{\"text\":\"ONE\"}]",
         "ONE", 2);
    turn(v, run, MESSAGES, "two",
         "[{\"thinking\":\"Well.\",\"calls\":[" NOTE("toolu_1", "c") "]},{\"text\":\"TWO\"}]",
         "TWO", 2);
    turn(v, run, CHAT, "three", "[{\"calls\":[" NOTE("c9", "d") "]},{\"text\":\"THREE\"}]", "THREE",
         2);
    turn(v, run, RESPONSES, "four",
         "[{\"custom\":[{\"id\":\"call_2\",\"name\":\"note\",\"input\":\"e\"}]},"
         "{\"text\":\"FOUR\"}]",
         "FOUR", 4);
    assert_string_equal(noted, "a \"b\";c;d;e;");
    for (int i = 0; i < VENDORS; i++) {
        expect_growth(v, i, i == RESPONSES ? 4 : 2);
    }
    text = body(v, MESSAGES, 0, &len);
    assert_contains(text, "\"name\":\"note\",\"input\":{\"text\":\"a \\\"b\\\"\"}");
    assert_lacks(text, "custom");
    free(text);
    text = body(v, CHAT, 0, &len);
    assert_contains(text, "\"arguments\":\"{\\\"text\\\":\\\"a \\\\\\\"b\\\\\\\"\\\"}\"");
    assert_lacks(text, "custom");
    free(text);
    text = body(v, RESPONSES, 3, &len);
    assert_int_equal(occurrences(text, "\"type\":\"custom_tool_call\""), 4);
    assert_int_equal(occurrences(text, "\"type\":\"custom_tool_call_output\""), 4);
    assert_int_equal(occurrences(text, "function_call"), 0);
    assert_contains(text, "\"call_id\":\"toolu_1\",\"name\":\"note\",\"input\":\"c\"}");
    free(text);
    waldo_model_unref(v->models[RESPONSES]);
    v->models[RESPONSES] = functions;
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

/* A vendor that fails in the middle of a turn is replaced by another there and then. */
static void in_the_middle_of_a_turn(void **state)
{
    vendors *v = *state;
    waldo_runtime *rt = waldo_runtime_new(NULL);
    char messages[320], chat[320];
    int calls = 0;
    waldo_agent *agent;
    waldo_run *run;
    size_t len;
    char *text;

    snprintf(messages, sizeof messages, "anthropic:%s#other", standin_url(v->servers[MESSAGES]));
    snprintf(chat, sizeof chat, "chat:%s#other", standin_url(v->servers[CHAT]));
    agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = v->models[RESPONSES],
                                     .fallback_models = WALDO_STRINGS(messages, chat),
                                     .tools = WALDO_TOOLS(echo_tool(&calls, WALDO_PARALLEL_SAFE))));
    replies(
        v, RESPONSES,
        "[{\"reasoning\":\"Hm.\",\"calls\":[" ECHO(
            "call_1",
            "a") "]},{\"status\":400,"
                 "\"json\":{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"empty\"}}}]");
    replies(
        v, MESSAGES,
        "[{\"thinking\":\"Well.\",\"calls\":[" ECHO(
            "toolu_1", "b") "]},{\"thinking\":\"\","
                            "\"calls\":[" ECHO(
                                "toolu_2",
                                "c") "]},{\"status\":402,\"json\":{\"error\":{"
                                     "\"type\":\"billing_error\",\"message\":\"empty, too\"}}}]");
    replies(v, CHAT, "[{\"calls\":[" ECHO("call_1", "d") "]},{\"text\":\"END\"}]");
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(pull(v, run), WALDO_END);
    if (waldo_run_stop(run) != WALDO_STOP_ANSWERED) {
        fail_msg("%s\n%s", waldo_run_errmsg(run), v->told);
    }
    assert_string_equal(waldo_run_text(run), "END");
    assert_int_equal(calls, 4);
    assert_int_equal(occurrences(v->told, "epoch: "), 3);
    assert_contains(v->told, "going on with anthropic:");
    assert_contains(v->told, "going on with chat:");
    expect_growth(v, RESPONSES, 2);
    expect_growth(v, MESSAGES, 3);
    expect_growth(v, CHAT, 2);
    text = body(v, MESSAGES, 2, &len);
    assert_int_equal(occurrences(text, "\"type\":\"tool_use\""), 3);
    assert_int_equal(occurrences(text, "\"type\":\"thinking\""), 2);
    assert_lacks(text, "gAAAA");
    free(text);
    text = body(v, CHAT, 1, &len);
    assert_int_equal(occurrences(text, "\"role\":\"tool\""), 4);
    free(text);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

#define SAYS(id, phase, text)                                                                      \
    "{\"id\":\"msg_" id "\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"completed\"," \
    "\"content\":[{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[]}]" phase "}"
#define PHASE(name) ",\"phase\":\"" name "\""

/* What a model says on its way there is no part of its answer, and not held to its form. */
static void the_last_message_is_the_answer(void **state)
{
    vendors *v = *state;
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = v->models[RESPONSES],
                     .output_schema =
                         "{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{"
                         "\"type\":\"integer\"}}}"));
    waldo_run *run = waldo_run_new(rt, agent, NULL);

    turn(v, run, RESPONSES, "one",
         "[{\"output\":[" SAYS("1", PHASE("commentary"), "I count.") "," SAYS(
             "2", PHASE("final_answer"), "{\\\"n\\\":") "," SAYS("3", PHASE("final_answer"),
                                                                 "1}") "]}]",
         "{\"n\":1}", 1);
    turn(v, run, RESPONSES, "again",
         "[{\"output\":[" SAYS("4", "", "I count.") "," SAYS("5", "", "{\\\"n\\\":2}") "]}]",
         "{\"n\":2}", 2);
    turn(v, run, RESPONSES, "more",
         "[{\"output\":[" SAYS("6", PHASE("final_answer"), "{\\\"n\\\":3}") "," SAYS("7", "",
                                                                                     "") "]}]",
         "{\"n\":3}", 3);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

static void when_it_may_change(void **state)
{
    vendors *v = *state;
    waldo_runtime *rt = waldo_runtime_new(
        &WALDO_RUNTIME(.model_facts =
                           "{\"models\":[{\"match\":\"anthropic:*\",\"max_output\":5000}]}"));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = v->models[CHAT]));
    waldo_model *bad = waldo_model_new(&WALDO_MODEL(.model = "openai:"));
    waldo_run *run = waldo_run_new(rt, agent, NULL);
    size_t len;
    char *text;

    assert_int_equal(waldo_run_set_model(NULL, v->models[CHAT]), WALDO_ECLOSED);
    assert_int_equal(waldo_run_set_model(run, NULL), WALDO_EINVAL);
    assert_int_equal(waldo_run_set_model(run, bad), WALDO_EINVAL);
    /* before the first request there is no epoch that could end */
    turn(v, run, MESSAGES, "one", "[{\"text\":\"A\"}]", "A", 1);
    assert_string_equal(v->told, "epoch: first request\n");
    text = body(v, MESSAGES, 0, &len);
    assert_contains(text, "\"max_tokens\":5000,"); /* which the API demands */
    free(text);
    /* the same model is no change; there and back is one */
    turn(v, run, MESSAGES, "two", "[{\"text\":\"B\"}]", "B", 2);
    assert_string_equal(v->told, "epoch: first request\n");
    assert_int_equal(waldo_run_set_model(run, v->models[CHAT]), WALDO_OK);
    turn(v, run, MESSAGES, "three", "[{\"text\":\"C\"}]", "C", 3);
    assert_string_equal(v->told, "epoch: first request\nepoch: another model\n");
    expect_growth(v, MESSAGES, 3);
    replies(v, MESSAGES, "[{\"text\":\"D\",\"stall_at\":20}]");
    assert_int_equal(waldo_run_send(run, "four"), WALDO_OK);
    while (standin_request_count(v->servers[MESSAGES]) < 4) {
        waldo_runtime_step(rt, 20);
    }
    assert_int_equal(waldo_run_set_model(run, v->models[CHAT]), WALDO_EBUSY);
    waldo_run_cancel(run);
    assert_int_equal(pull(v, run), WALDO_END);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_CANCELLED);
    /* a failure of one vendor is mended by another */
    replies(v, MESSAGES,
            "[{\"status\":529,\"json\":{\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"Overloaded\"}}}]");
    assert_int_equal(waldo_run_send(run, "five"), WALDO_OK);
    assert_int_equal(pull(v, run), WALDO_END);
    assert_int_equal(waldo_run_status(run), WALDO_EPROVIDER);
    turn(v, run, CHAT, "six", "[{\"text\":\"E\"}]", "E", 1);
    waldo_model_unref(bad);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

#define ASKS_TO_THINK "\"thinking\":{\"type\":\"enabled\""

/* A model that thinks by budget gets calls that another one has made, and that were cancelled. */
static void thinking_by_budget_behind_other_calls(void **state)
{
    static const int thinks[] = { 1, 1, 0, 0, 1 };
    vendors *v = *state;
    waldo_store *store = keeper_store(&v->store);
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.store = store));
    char name[320], *text;
    int calls = 0;
    waldo_model *model;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = v->models[CHAT], .approve = WALDO_APPROVE_ALL,
                                     .tools = WALDO_TOOLS(echo_tool(&calls, WALDO_PARALLEL_SAFE))));
    waldo_run *run;
    size_t len;

    snprintf(name, sizeof name, "anthropic:%s#claude-sonnet-4-5",
             standin_url(v->servers[MESSAGES]));
    model = waldo_model_new(&WALDO_MODEL(.model = name, .reasoning = "low", .no_retries = 1));
    replies(v, CHAT, "[{\"calls\":[" ECHO("c1", "a") "]}]");
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "begin"));
    assert_int_equal(pull(v, run), WALDO_PENDING);
    waldo_run_cancel(run);
    assert_int_equal(pull(v, run), WALDO_END);
    assert_int_equal(waldo_run_set_model(run, model), WALDO_OK);
    assert_true(standin_control(v->servers[MESSAGES],
                                "{\"replies\":[{\"calls\":[" ECHO(
                                    "toolu_1", "b") "]},{\"text\":\"A\"},"
                                                    "{\"thinking\":\"Hm.\",\"text\":\"B\"}]}"));
    assert_int_equal(waldo_run_send(run, "go on"), WALDO_OK);
    assert_int_equal(pull(v, run), WALDO_PENDING);
    assert_int_equal(
        waldo_run_decide(run, "toolu_1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }),
        WALDO_OK);
    assert_int_equal(pull(v, run), WALDO_END);
    assert_string_equal(waldo_run_text(run), "A");
    assert_int_equal(waldo_run_send(run, "and now?"), WALDO_OK);
    assert_int_equal(pull(v, run), WALDO_END);
    assert_string_equal(waldo_run_text(run), "B");
    assert_int_equal(standin_request_count(v->servers[MESSAGES]), 5);
    for (size_t i = 0; i < 5; i++) {
        text = body(v, MESSAGES, i, &len);
        assert_int_equal(occurrences(text, ASKS_TO_THINK), thinks[i]);
        free(text);
    }
    assert_contains(v->told, "epoch: the provider refuses what it made before\n");
    assert_contains(v->told, "epoch: the provider wants reasoning that is not there: none is asked "
                             "for\n");
    assert_contains(v->told, "epoch: a new prompt: reasoning is asked for again\n");
    assert_int_equal(keeper_holds(&v->store, "\"reasoning\":false"), 1);
    waldo_model_unref(model);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    waldo_store_unref(store);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_the_way_round, fresh),
        cmocka_unit_test_setup(plain_text_all_the_way_round, fresh),
        cmocka_unit_test_setup(in_the_middle_of_a_turn, fresh),
        cmocka_unit_test_setup(the_last_message_is_the_answer, fresh),
        cmocka_unit_test_setup(when_it_may_change, fresh),
        cmocka_unit_test_setup(thinking_by_budget_behind_other_calls, fresh),
    };

    return !!cmocka_run_group_tests(tests, start, stop);
}
