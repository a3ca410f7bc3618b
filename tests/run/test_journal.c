/* Append, durable, act: what a run does, and when, over stores that delay, refuse and keep. */
#include "fixture.h"
#include "keeper.h"
#include "store/store.h"
#include "transcript/transcript.h"

static waldo_store *use(fixture *f, keeper *s)
{
    waldo_store *store = keeper_store(s);

    fixture_runtime(f, &WALDO_RUNTIME(.store = store));
    return store;
}

/* The "t" of all records as words. */
static const char *types(const keeper *s)
{
    static char text[4096];
    waldo_str record;
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; keeper_next(s, &at, &record); i++) {
        waldo_str json;
        char type[32];

        assert_int_equal(waldo__record_read(record, i, &json), WALDO_OK);
        assert_int_equal(sscanf(json.ptr, "{\"t\":\"%31[a-z]\"", type), 1);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", type);
    }
    return text;
}

static void drain(waldo_runtime *rt)
{
    while (waldo_runtime_step(rt, 50) == WALDO_OK) {
    }
}

/* Drive until these are the records; nothing more comes then. */
static void drive_to(waldo_runtime *rt, const keeper *s, const char *wanted)
{
    while (strlen(types(s)) < strlen(wanted)) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    drain(rt);
    assert_string_equal(types(s), wanted);
}

static void nothing_is_done_before_it_is_durable(void **state)
{
    fixture *f = *state;
    keeper s = { .held = 1 };
    waldo_store *store = use(f, &s);
    int calls = 0;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"), .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":"
                       "\"{\\\"text\\\":\\\"a\\\"}\"}]},{\"text\":\"end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));

    /* The user's text is appended, not durable: no request. */
    drive_to(f->rt, &s, "run item epoch ");
    assert_int_equal(standin_request_count(f->server), 0);
    assert_int_equal(waldo_run_item_count(run), 0);

    keeper_answer(&s);
    /* The response is read and appended, not durable: no call, no item. */
    drive_to(f->rt, &s, "run item epoch item usage ");
    assert_int_equal(standin_request_count(f->server), 1);
    assert_int_equal(waldo_run_item_count(run), 1);
    assert_int_equal(calls, 0);

    keeper_answer(&s);
    /* The dispatch record is not durable: still no call. */
    drive_to(f->rt, &s, "run item epoch item usage dispatched ");
    assert_int_equal(calls, 0);

    keeper_answer(&s);
    /* The call has run; its result is not durable. */
    drive_to(f->rt, &s, "run item epoch item usage dispatched finished ");
    assert_int_equal(calls, 1);
    assert_int_equal(standin_request_count(f->server), 1);

    keeper_answer(&s);
    drive_to(f->rt, &s, "run item epoch item usage dispatched finished results ");
    assert_int_equal(standin_request_count(f->server), 1);

    s.held = 0;
    keeper_answer(&s);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(standin_request_count(f->server), 2);
    assert_int_equal(calls, 1);
    assert_false(s.out_of_order);
    drive_to(f->rt, &s, "run item epoch item usage dispatched finished results item usage rest ");
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
}

/* The response is with the store, its calls are not begun: they get results all the same. */
static void a_cancel_before_a_response_is_durable_leaves_a_usable_history(void **state)
{
    fixture *f = *state;
    keeper s = { .held = 1 };
    waldo_store *store = use(f, &s);
    int calls = 0;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"), .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":"
                       "\"{\\\"text\\\":\\\"a\\\"}\"}]},{\"text\":\"end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    drive_to(f->rt, &s, "run item epoch ");
    keeper_answer(&s);
    drive_to(f->rt, &s, "run item epoch item usage ");
    waldo_run_cancel(run);
    s.held = 0;
    keeper_answer(&s);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_contains(fixture_items(run), "The call was not run.");
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "end");
    assert_int_equal(calls, 0);
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
}

static void a_store_that_refuses_fails_the_run(void **state)
{
    fixture *f = *state;
    keeper s = { .answer = WALDO_ESTORE };
    waldo_store *store = use(f, &s);
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text")));
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ESTORE);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
    assert_int_equal(waldo_error_get_class(waldo_run_error(run)), WALDO_CLASS_STORE);
    assert_int_equal(standin_request_count(f->server), 0);
    assert_int_equal(waldo_run_item_count(run), 0);
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
}

/* The records of a type, one a line. */
static const char *records_of(const keeper *s, const char *type)
{
    static char text[16384];
    char want[64];
    waldo_str record;
    size_t at = 0;

    text[0] = '\0';
    snprintf(want, sizeof want, "{\"t\":\"%s\"", type);
    for (size_t i = 0; keeper_next(s, &at, &record); i++) {
        waldo_str json;

        assert_int_equal(waldo__record_read(record, i, &json), WALDO_OK);
        if (strncmp(json.ptr, want, strlen(want)) == 0) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s\n", (int)json.len,
                     json.ptr);
        }
    }
    return text;
}

static void epochs_and_cut_answers_are_recorded(void **state)
{
    fixture *f = *state;
    keeper s = { 0 };
    waldo_store *store = use(f, &s);
    const char *second = fixture_model(f, "second");
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "first"), .fallback_models = WALDO_STRINGS(second)));
    waldo_run *run;

    fixture_replies(f, "[{\"text\":\"cut\",\"no_finish\":true},{\"status\":401,\"json\":"
                       "{\"error\":{\"message\":\"gone\"}}},{\"text\":\"end\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    drive_to(f->rt, &s, "run item epoch usage epoch item usage rest ");
    assert_contains(
        records_of(&s, "usage"),
        "{\"t\":\"usage\",\"input_tokens\":-1,\"output_tokens\":-1,\"cached_tokens\":-1,"
        "\"cache_write_tokens\":-1,\"reasoning_tokens\":-1,\"cost\":-1,\"incomplete\":true}\n");
    assert_contains(records_of(&s, "usage"), "\"incomplete\":false}\n");
    assert_contains(records_of(&s, "epoch"), second);
    assert_contains(records_of(&s, "epoch"),
                    "\"plain_until\":0,\"cut_until\":0,\"cut_newest\":0}\n");
    assert_false(s.out_of_order);
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
}

/* What was left out of requests can be told from the record of their epoch. */
static void shorter_results_are_recorded(void **state)
{
    fixture *f = *state;
    keeper s = { 0 };
    waldo_store *store = use(f, &s);
    int calls = 0;
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"), .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    char replies[12000], text[9001];
    waldo_run *run;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(replies, sizeof replies,
             "[{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":{\"text\":\"%s\"}}]},"
             "{\"status\":400,\"json\":{\"error\":{\"message\":\"no\",\"code\":"
             "\"context_length_exceeded\"}}},{\"text\":\"end\"}]",
             text);
    fixture_replies(f, replies);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    drive_to(f->rt, &s,
             "run item epoch item usage dispatched finished results epoch item usage rest ");
    assert_contains(records_of(&s, "epoch"), "\"cut_until\":3,\"cut_newest\":2}\n");
    assert_contains(records_of(&s, "finished"), text);
    waldo_agent_unref(agent);
    fixture_runtime(f, NULL);
    waldo_store_unref(store);
}

static void a_store_that_never_answers_stops_nothing_else(void **state)
{
    fixture *f = *state;
    keeper s = { .held = 1 };
    waldo_store *store = use(f, &s);
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text")));
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));

    assert_int_equal(waldo_run_wait(run, 100), WALDO_ETIMEDOUT);
    waldo_run_free(run);
    keeper_answer(&s); /* late: the run is gone */
    drain(f->rt);
    waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    waldo_runtime_free(f->rt); /* with an append on its way */
    f->rt = waldo_runtime_new(NULL);
    waldo_agent_unref(agent);
    waldo_store_unref(store);
}

static waldo_status count_record(void *userdata, uint64_t seq, waldo_str record)
{
    size_t *count = userdata;
    waldo_str json;

    assert_int_equal(seq, *count);
    assert_int_equal(waldo__record_read(record, seq, &json), WALDO_OK);
    (*count)++;
    return WALDO_OK;
}

static void note(void *userdata, waldo_status status)
{
    *(waldo_status *)userdata = status;
}

static void the_memory_store_keeps_a_run(void **state)
{
    fixture *f = *state;
    waldo_store *store = waldo_store_memory_new();
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text")));
    const waldo_store_ops *ops;
    waldo_status status = WALDO_PENDING;
    waldo_run *run;
    void *self;
    size_t count = 0;

    fixture_runtime(f, &WALDO_RUNTIME(.store = store));
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi", .id = "mine"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_id(run), "mine");
    drain(f->rt);
    fixture_runtime(f, NULL); /* the store outlives the runtime */

    ops = waldo__store_ops(store);
    self = waldo__store_self(store);
    assert_int_equal(ops->load(self, "mine", 0, count_record, &count), WALDO_OK);
    assert_int_equal(count, 6); /* run, item, epoch, item, usage, rest */
    assert_int_equal(ops->load(self, "other", 0, count_record, &count), WALDO_ENOTFOUND);
    ops->append(self, "mine", 3, &(waldo_str){ "x", 1 }, 1, note, &status);
    assert_int_equal(status, WALDO_PENDING); /* never from inside the call */
    ops->commit(self);
    assert_int_equal(status, WALDO_ECONFLICT);
    waldo_agent_unref(agent);
    waldo_store_unref(store);
}

static void damaged_records_are_refused(void **state)
{
    waldo__buf record = WALDO__BUF_INIT(1000);
    waldo_str json;

    (void)state;
    assert_int_equal(waldo__record_write(7, WALDO__S("{\"t\":\"run\"}"), &record), WALDO_OK);
    assert_int_equal(waldo__record_read(waldo__buf_str(&record), 7, &json), WALDO_OK);
    assert_true(waldo__str_is(json, "{\"t\":\"run\"}"));
    assert_int_equal(waldo__record_read(waldo__buf_str(&record), 8, &json), WALDO_EPROTO);
    for (size_t i = 0; i < record.len; i++) {
        record.ptr[i] ^= 4;
        assert_int_equal(waldo__record_read(waldo__buf_str(&record), 7, &json), WALDO_EPROTO);
        record.ptr[i] ^= 4;
        assert_int_equal(waldo__record_read(waldo__strn(record.ptr, i), 7, &json), WALDO_EPROTO);
    }
    waldo__buf_free(&record);
}

static void bad_stores_are_refused(void **state)
{
    waldo_store_ops ops = keeper_ops;
    keeper s = { .held = 1 };

    (void)state;
    assert_null(waldo_store_from_ops(NULL, &s));
    ops.append = NULL;
    assert_null(waldo_store_from_ops(&ops, &s));
    ops = keeper_ops;
    ops.size = 16;
    assert_null(waldo_store_from_ops(&ops, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(nothing_is_done_before_it_is_durable),
        ROW(a_cancel_before_a_response_is_durable_leaves_a_usable_history),
        ROW(a_store_that_refuses_fails_the_run),
        ROW(epochs_and_cut_answers_are_recorded),
        ROW(shorter_results_are_recorded),
        ROW(a_store_that_never_answers_stops_nothing_else),
        ROW(the_memory_store_keeps_a_run),
        ROW(damaged_records_are_refused),
        ROW(bad_stores_are_refused),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
