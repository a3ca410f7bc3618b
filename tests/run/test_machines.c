/* One machine a run, shared only when told to. */
#include "fixture.h"

enum { RUNS = 1000 };

/* Each run writes its own name into the same path and reads it back. */
static void a_thousand_runs_have_a_machine_each(void **state)
{
    fixture *f = *state;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "files"), .sandbox = "fake:"));
    waldo_run *run;
    int good = 0, count = 0;

    /* The scenario takes its turn from the number of answers in the history. */
    assert_true(standin_control(
        f->server, "{\"model\":\"files\",\"turns\":[{\"calls\":[{\"id\":\"c1\",\"name\":"
                   "\"read_file\",\"arguments\":\"{\\\"path\\\":\\\"me.txt\\\"}\"}]},"
                   "{\"text\":\"{result}\"}]}"));
    for (int i = 0; i < RUNS; i++) {
        char label[32];

        snprintf(label, sizeof label, "run-%d", i);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.label = label));
        waldo_sandbox_write(waldo_run_sandbox(run), "me.txt", (waldo_str){ label, strlen(label) },
                            0, NULL, NULL);
        assert_int_equal(waldo_run_send(run, "read your file"), WALDO_OK);
    }
    while ((run = waldo_runtime_next(f->rt, 60000)) != NULL) {
        count++;
        good += waldo_run_status(run) == WALDO_OK &&
                strcmp(waldo_run_text(run), waldo_run_label(run)) == 0;
        waldo_run_free(run);
    }
    assert_int_equal(count, RUNS);
    assert_int_equal(good, RUNS);
    waldo_agent_unref(agent);
}

static void a_shared_machine_is_shared(void **state)
{
    fixture *f = *state;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"), .sandbox = "fake:"));
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:")));
    waldo_sandbox *sandbox = waldo_sandbox_new(f->rt, spec);
    waldo_run *writer, *reader;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"write_file\",\"arguments\":\"{"
                       "\\\"path\\\":\\\"a\\\",\\\"content\\\":\\\"shared\\\"}\"}]},"
                       "{\"text\":\"ok\"},{\"calls\":[{\"id\":\"c2\",\"name\":\"read_file\","
                       "\"arguments\":\"{\\\"path\\\":\\\"a\\\"}\"}]},{\"text\":\"{result}\"}]");
    writer = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "write", .share = sandbox));
    assert_int_equal(waldo_run_wait(writer, 60000), WALDO_OK);
    waldo_run_free(writer); /* does not end the machine */
    reader = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "read", .share = sandbox));
    assert_int_equal(waldo_run_wait(reader, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(reader), "shared");
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
}

static void without_a_sandbox_there_are_no_sandbox_tools(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "text")));
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi"));
    char *requests;

    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_null(waldo_run_sandbox(run));
    requests = standin_requests(f->server);
    assert_lacks(requests, "exec_command");
    free(requests);
    assert_int_equal(waldo_run_save_changes(run, "/tmp/never"), WALDO_ENOTSUP);

    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "hi", .sandbox = "fake:"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    requests = standin_requests(f->server);
    assert_contains(requests, "exec_command");
    free(requests);
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(a_thousand_runs_have_a_machine_each),
        ROW(a_shared_machine_is_shared),
        ROW(without_a_sandbox_there_are_no_sandbox_tools),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
