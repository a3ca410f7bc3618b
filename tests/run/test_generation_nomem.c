/* Out of memory at every allocation in turn, where a function of the host is the model. */
#include "failing.h"
#include "fixture.h"

enum { WAIT_MS = 60000, MOST_ALLOCATIONS = 8000 };

#define S(literal) ((waldo_str){ (literal), sizeof(literal) - 1 })

static waldo_status generate(void *userdata, waldo_generation *generation)
{
    int *turn = userdata;

    if (++*turn == 1) {
        waldo_generation_text(generation, S("so "));
        waldo_generation_call(generation, NULL, "echo", S("{\"text\":\"x\"}"));
    } else {
        waldo_generation_text(generation, S("done"));
    }
    waldo_generation_finish(generation, 0);
    return WALDO_OK;
}

static waldo_status whole_run(void)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_status status = WALDO_ENOMEM;
    waldo_model *model;
    waldo_agent *agent;
    waldo_run *run;
    int calls = 0, turn = 0;

    failing.on = 1;
    model = waldo_model_new(&WALDO_MODEL(.generate = generate, .userdata = &turn, .no_retries = 1));
    agent = model == NULL
                ? NULL
                : waldo_agent_new(&WALDO_AGENT(.model_object = model, .instructions = "Do it.",
                                               .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    run = agent != NULL ? waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go")) : NULL;
    if (run != NULL) {
        status = waldo_run_wait(run, WAIT_MS);
    }
    failing.on = 0;
    if (status == WALDO_OK) {
        assert_string_equal(waldo_run_text(run), "done");
    }
    waldo_model_unref(model);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status;
}

static void without_memory(void **state)
{
    size_t steps = 0;

    (void)state;
    failing_begin();
    assert_int_equal(whole_run(), WALDO_OK);
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status = whole_run();

        if (status != WALDO_OK && failing.failed == 0) {
            fail_msg("allocation %zu: %s", failing.fail_at, waldo_status_name(status));
        }
        steps += status != WALDO_OK;
    }
    assert_true(steps > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(without_memory) };

    failing_install();
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
