/* What servers do wrong, and keys: retries, named errors, nothing lost, no secret told. */
#include "fixture.h"

static const struct {
    const char *reply; /* for every try */
    waldo_status status;
    const char *message;
    size_t requests;
} failures[] = {
    { "{\"status\":401,\"json\":{\"error\":{\"message\":\"bad key\"}}}", WALDO_EAUTH, "bad key",
      1 },
    { "{\"status\":404,\"json\":{\"error\":{\"message\":\"no such model\"}}}", WALDO_ENOTFOUND,
      "no such model", 1 },
    { "{\"status\":400,\"json\":{\"error\":{\"message\":\"wrong\"}}}", WALDO_EINVAL, "wrong", 1 },
    { "{\"status\":429,\"headers\":{\"retry-after-ms\":\"1\"},\"json\":{\"error\":{\"message\":"
      "\"slow down\"}}}",
      WALDO_ERATE, "slow down", 3 },
    { "{\"status\":429,\"json\":{\"error\":{\"message\":\"no money\",\"code\":"
      "\"insufficient_quota\"}}}",
      WALDO_EQUOTA, "no money", 1 },
    { "{\"status\":500,\"headers\":{\"retry-after-ms\":\"1\"},\"json\":{\"error\":{\"message\":"
      "\"oops\"}}}",
      WALDO_EPROVIDER, "oops", 3 },
    { "{\"status\":500,\"headers\":{\"x-should-retry\":\"false\"},\"json\":{\"error\":{\"message\":"
      "\"oops\"}}}",
      WALDO_EHTTP, "oops", 1 },
    { "{\"status\":400,\"json\":{\"error\":{\"message\":\"This model's maximum context length is "
      "10 "
      "tokens\",\"code\":\"context_length_exceeded\"}}}",
      WALDO_EOVERFLOW, "maximum context length", 1 },
};

static waldo_agent *agent_of(fixture *f, const char *model)
{
    return waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, model)));
}

static void failures_have_names(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "x");

    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        char replies[2048];
        waldo_run *run;

        standin_reset(f->server);
        snprintf(replies, sizeof replies, "[%s,%s,%s,{\"text\":\"well again\"}]", failures[i].reply,
                 failures[i].reply, failures[i].reply);
        fixture_replies(f, replies);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        assert_int_equal(waldo_run_wait(run, 60000), failures[i].status);
        assert_contains(waldo_run_errmsg(run), failures[i].message);
        assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
        assert_int_equal(standin_request_count(f->server), failures[i].requests);
        waldo_run_free(run);
    }
    waldo_agent_unref(agent);
}

/* Broken streams: tried again, told by an event, and the text shown before is void. */
static const char *const broken[] = {
    "{\"text\":\"cut\",\"no_finish\":true}",
    "{\"raw\":\"\"}",
    "{\"text\":\"some\",\"stream_error\":\"object\"}",
};

static void broken_streams_are_tried_again(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "x");

    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char replies[512];
        waldo_run *run;
        const char *kinds;

        standin_reset(f->server);
        snprintf(replies, sizeof replies, "[%s,{\"text\":\"whole\"}]", broken[i]);
        fixture_replies(f, replies);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
        assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
        assert_contains(kinds, "retry ");
        assert_int_equal(waldo_run_status(run), WALDO_OK);
        assert_string_equal(waldo_run_text(run), "whole");
        assert_string_equal(fixture_items(run), "{\"kind\":\"user\",\"text\":\"hi\"}\n"
                                                "{\"kind\":\"assistant\",\"text\":\"whole\"}\n");
        waldo_run_free(run);
    }
    waldo_agent_unref(agent);
}

static void a_stream_that_stays_broken_fails(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = agent_of(f, "q8");
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));

    assert_int_equal(waldo_run_wait(run, 30000), WALDO_ETRUNCATED);
    assert_int_equal(standin_request_count(f->server), 3);
    /* Nothing of the cut answers is in the history. */
    assert_string_equal(fixture_items(run), "{\"kind\":\"user\",\"text\":\"hi\"}\n");
    waldo_agent_unref(agent);
}

static void a_page_instead_of_json_is_named(void **state)
{
    fixture *f = *state;
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.model = fixture_model(f, "html"), .no_retries = 1));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    waldo_run *run;

    fixture_replies(f, "[{\"status\":200,\"html\":"
                       "\"<html><body>hello from a proxy</body></html>\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_true(waldo_run_wait(run, 60000) < 0);
    assert_int_not_equal(waldo_run_status(run), WALDO_ETIMEDOUT);
    assert_int_equal(standin_request_count(f->server), 1);
    assert_true(strlen(waldo_run_errmsg(run)) > 10);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

static void an_absent_server_is_named(void **state)
{
    fixture *f = *state;
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.model = "chat:http://127.0.0.1:1/v1#x", .no_retries = 1));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECONNECT);
    assert_contains(waldo_run_errmsg(run), "127.0.0.1:1");
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

static const struct {
    const char *model;
    waldo_status status;
    waldo_stop stop;
} ends[] = {
    { "refusal", WALDO_EREFUSED, WALDO_STOP_REFUSED },
    { "length", WALDO_ELIMIT, WALDO_STOP_LIMIT },
    { "content-filter", WALDO_EFILTER, WALDO_STOP_FAILED },
};

static void every_finish_has_its_stop(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        waldo_agent *agent = agent_of(f, ends[i].model);
        waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));

        assert_int_equal(waldo_run_wait(run, 60000), ends[i].status);
        assert_int_equal(waldo_run_stop(run), ends[i].stop);
        waldo_agent_unref(agent);
    }
}

/* ---- keys ---- */

#define KEY     "sk-test-0123456789abcdef"
#define OLD_KEY "sk-old-fedcba9876543210"

typedef struct key_source {
    int asked;
} key_source;

/* The first answer is stale. */
static waldo_status get_key(void *userdata, const char *name, waldo_str *ret_value,
                            int64_t *ret_expires_at)
{
    key_source *source = userdata;

    assert_string_equal(name, "TEST_KEY");
    *ret_value = source->asked++ == 0 ? (waldo_str){ OLD_KEY, strlen(OLD_KEY) }
                                      : (waldo_str){ KEY, strlen(KEY) };
    *ret_expires_at = 0;
    return WALDO_OK;
}

static char log_text[65536];

static void keep_log(void *userdata, waldo_log_level level, const char *area, waldo_str line)
{
    size_t len = strlen(log_text);

    (void)userdata;
    (void)level;
    (void)area;
    if (len + line.len + 2 < sizeof log_text) {
        memcpy(log_text + len, line.ptr, line.len);
        log_text[len + line.len] = '\n';
        log_text[len + line.len + 1] = '\0';
    }
}

static waldo_agent *keyed_agent(fixture *f)
{
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.model = fixture_model(f, "echo"), .key_name = "TEST_KEY"));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));

    waldo_model_unref(model);
    return agent;
}

static void a_refused_key_is_asked_for_once_more(void **state)
{
    fixture *f = *state;
    key_source source = { 0 };
    waldo_keys keys = { .size = sizeof keys, .userdata = &source, .get = get_key };
    waldo_agent *agent = keyed_agent(f);
    waldo_run *run;
    char *requests;

    fixture_runtime(f, &WALDO_RUNTIME(.keys = &keys));
    standin_control(f->server, "{\"key\":\"" KEY "\"}");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(source.asked, 2);
    requests = standin_requests(f->server);
    assert_contains(requests, "Bearer " OLD_KEY);
    assert_contains(requests, "Bearer " KEY);
    free(requests);
    waldo_agent_unref(agent);
}

static void a_run_may_have_its_own_keys(void **state)
{
    fixture *f = *state;
    key_source source = { .asked = 1 };
    waldo_keys keys = { .size = sizeof keys, .userdata = &source, .get = get_key };
    waldo_agent *agent = keyed_agent(f);
    waldo_run *run;

    standin_control(f->server, "{\"key\":\"" KEY "\"}");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_EAUTH);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi", .keys = &keys));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    waldo_agent_unref(agent);
}

/* A server that says back what it was sent must not make us say it. */
static void a_key_is_told_nowhere(void **state)
{
    fixture *f = *state;
    key_source source = { .asked = 1 };
    waldo_keys keys = { .size = sizeof keys, .userdata = &source, .get = get_key };
    waldo_agent *agent = keyed_agent(f);
    const waldo_event *event;
    waldo_run *run;
    char all[65536] = "";

    log_text[0] = '\0';
    fixture_runtime(f,
                    &WALDO_RUNTIME(.keys = &keys, .log = keep_log, .log_level = WALDO_LOG_TRACE));
    fixture_replies(f, "[{\"status\":422,\"echo\":true},{\"text\":\"the key is " KEY
                       ", or in pieces sk-test-01\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        waldo_str json = waldo_event_json(event);

        strncat(all, json.ptr, sizeof all - strlen(all) - 1);
    }
    strncat(all, waldo_run_errmsg(run), sizeof all - strlen(all) - 1);
    assert_true(waldo_run_status(run) < 0);
    assert_int_equal(waldo_run_send(run, "what is the key?"), WALDO_OK);
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        waldo_str json = waldo_event_json(event);

        strncat(all, json.ptr, sizeof all - strlen(all) - 1);
    }
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    strncat(all, waldo_run_text(run), sizeof all - strlen(all) - 1);
    strncat(all, fixture_items(run), sizeof all - strlen(all) - 1);
    assert_lacks(all, KEY);
    assert_lacks(log_text, KEY);
    assert_contains(all, "[TEST_KEY]");
    assert_string_equal(waldo_run_text(run), "the key is [TEST_KEY], or in pieces sk-test-01");
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(failures_have_names),
        ROW(broken_streams_are_tried_again),
        ROW(a_stream_that_stays_broken_fails),
        ROW(a_page_instead_of_json_is_named),
        ROW(an_absent_server_is_named),
        ROW(every_finish_has_its_stop),
        ROW(a_refused_key_is_asked_for_once_more),
        ROW(a_run_may_have_its_own_keys),
        ROW(a_key_is_told_nowhere),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
