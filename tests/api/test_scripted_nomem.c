/* Out of memory at every allocation in turn, the testing library's own among them. */
#include "failing.h"
#include "scripted.h"

enum { MOST_ALLOCATIONS = 8000 };

static const waldo_testing_turn turns[] = {
    { .text = "so ", RUN("make") },
    { .call = "write_file", .args = "{\"path\":\"a/b\",\"content\":\"one\\ntwo\\n\"}" },
    { .call = "grep", .args = "{\"pattern\":\"t.o\"}" },
    { .call = "ls", .args = "{\"path\":\"a\"}" },
    { RUN("ls"), .more = 1 },
    { .call = "read_file", .args = "{\"path\":\"a/b\"}" },
    { .text = "done" },
};

static const waldo_testing_file made[] = { { .path = "out", .bytes = "x" } };

static const waldo_testing_command commands[] = {
    { .cmd = "make", .output = "o", .errors = "e", .delay_ms = 1, WALDO_TESTING_FILES(made) },
};

static const waldo_testing_file files[] = {
    { .path = "f", .bytes = "y" },
    { .path = "folder/" },
};

/* The turns without the retries of waldo_testing_model(), which would have to be waited for. */
static waldo_status generate(void *userdata, waldo_generation *generation)
{
    size_t *at = userdata;
    int more = 1;

    while (more && *at < COUNT(turns)) {
        const waldo_testing_turn *turn = &turns[(*at)++];

        more = turn->more;
        if (turn->text != NULL) {
            waldo_generation_text(generation, (waldo_str){ turn->text, strlen(turn->text) });
        }
        if (turn->call != NULL) {
            waldo_generation_call(generation, NULL, turn->call,
                                  (waldo_str){ turn->args, strlen(turn->args) });
        }
    }
    waldo_generation_finish(generation, 0);
    return WALDO_OK;
}

/* How a sandbox of this name was made, a run in it ended, and its check. */
static waldo_status whole_run(int *ret_good)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_error *error = NULL;
    waldo_status status = WALDO_ENOMEM;
    waldo_testing_sandbox *sandbox;
    waldo_model *model = NULL;
    waldo_agent *agent = NULL;
    waldo_run *run = NULL;
    size_t at = 0;

    failing.on = 1;
    sandbox = waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(.name = "n",
                                                               WALDO_TESTING_COMMANDS(commands),
                                                               WALDO_TESTING_FILES(files)),
                                        &error);
    if (sandbox != NULL) {
        model =
            waldo_model_new(&WALDO_MODEL(.generate = generate, .userdata = &at, .no_retries = 1));
    }
    if (model != NULL) {
        agent = waldo_agent_new(
            &WALDO_AGENT(.model_object = model, .sandbox = "scripted:n", .instructions = "Do it."));
    }
    run = agent != NULL ? waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go")) : NULL;
    if (run != NULL) {
        status = waldo_run_wait(run, WAIT_MS);
    }
    if (sandbox != NULL && status == WALDO_OK) {
        waldo_testing_sandbox_check(sandbox, &error);
        *ret_good = error != NULL && waldo_error_status(error) == WALDO_EINVAL &&
                    strstr(waldo_error_message(error), "command 3 is \"ls\"") != NULL;
    }
    failing.on = 0;
    waldo_error_free(error);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
    waldo_runtime_finish(rt);
    waldo_testing_sandbox_free(sandbox);
    return status;
}

static void a_model_without_memory(void **state)
{
    waldo_model *model;

    (void)state;
    failing_begin();
    do {
        failing.on = 1;
        model = WALDO_TESTING_MODEL(turns);
        failing.on = 0;
        assert_true(model != NULL || failing.failed > 0);
        waldo_model_unref(model);
    } while (failing_next(100));
}

static void without_memory(void **state)
{
    size_t steps = 0;
    int good = 0;

    (void)state;
    failing_begin();
    assert_int_equal(whole_run(&good), WALDO_OK);
    assert_true(good);
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status = whole_run(&good);

        if (status != WALDO_OK && failing.failed == 0) {
            fail_msg("allocation %zu: %s", failing.fail_at, waldo_status_name(status));
        }
        steps += status != WALDO_OK;
    }
    assert_true(steps > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_model_without_memory),
                                        cmocka_unit_test(without_memory) };

    failing_install();
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
