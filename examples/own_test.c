/* A test of one's own agent: no network, no key, no sandbox, the same every time. */
#include <stdio.h>
#include <string.h>
#include <waldo/testing.h>
#include <waldo/waldo.h>

static const waldo_testing_turn turns[] = {
    { .text = "Let me see. ", .call = "exec_command", .args = "{\"cmd\":\"make test\"}" },
    { .expect = "1 of 7 failed", .call = "exec_command", .args = "{\"cmd\":\"cat log\"}" },
    { .text = "Test 3 fails: it divides by zero." },
};

static const waldo_testing_command commands[] = {
    { .cmd = "make test", .output = "1 of 7 failed\n", .exit_code = 2 },
    { .cmd = "cat *", .output = "test 3: SIGFPE\n" },
};

int main(void)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_model *model = WALDO_TESTING_MODEL(turns);
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = model, .instructions = "Say which test fails, and why.",
                     .capabilities = WALDO_NO_TOOLS, /* but this one: */
                     .tools = WALDO_TOOLS(WALDO_TESTING_SHELL(commands))));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "What is broken?"));
    int good = waldo_run_wait(run, WALDO_FOREVER) == WALDO_OK &&
               strstr(waldo_run_text(run), "Test 3") != NULL;

    if (good) {
        puts(waldo_run_text(run));
    } else {
        fprintf(stderr, "failed: %s\n", waldo_run_errmsg(run));
    }
    waldo_agent_unref(agent);
    waldo_model_unref(model);
    waldo_runtime_finish(rt);
    return !good;
}
