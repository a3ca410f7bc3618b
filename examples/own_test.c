/* A test of one's own agent: no network, no key, no sandbox, the same every time. */
#include <stdio.h>
#include <string.h>
#include <waldo/testing.h>
#include <waldo/waldo.h>

/* What the model answers, */
static const waldo_testing_turn turns[] = {
    { .text = "Let me see. ", .call = "exec_command", .args = "{\"cmd\":\"make test\"}" },
    { .expect = "1 of 7 failed", .call = "read_file", .args = "{\"path\":\"test.log\"}" },
    { .expect = "SIGFPE", .text = "Test 3 fails: it divides by zero." },
};

/* and the machine. */
static const waldo_testing_file files[] = {
    { .path = "test.log", .bytes = "test 3: SIGFPE\n" },
};
static const waldo_testing_command commands[] = {
    { .cmd = "make *", .output = "1 of 7 failed\n", .exit_code = 2, WALDO_TESTING_FILES(files) },
};

/* In a program of your own this is what is tested: any code that makes agents and runs. */
static int find_out(waldo_model *model, const char *sandbox)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = model, .sandbox = sandbox,
                                     .instructions = "Say which test fails, and why."));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "What is broken?"));
    int good = waldo_run_wait(run, WALDO_FOREVER) == WALDO_OK &&
               strstr(waldo_run_text(run), "Test 3") != NULL;

    if (good) {
        puts(waldo_run_text(run));
    } else {
        fprintf(stderr, "failed: %s\n", waldo_run_errmsg(run));
    }
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return good;
}

int main(void)
{
    waldo_testing_sandbox *machine =
        waldo_testing_sandbox_new(&WALDO_TESTING_SANDBOX(WALDO_TESTING_COMMANDS(commands)), NULL);
    waldo_model *model = WALDO_TESTING_MODEL(turns);
    waldo_error *error = NULL;
    int good = find_out(model, "scripted:");

    if (waldo_testing_sandbox_check(machine, &error) != WALDO_OK) {
        fprintf(stderr, "%s\n", waldo_error_message(error));
        good = 0;
    }
    waldo_error_free(error);
    waldo_model_unref(model);
    waldo_testing_sandbox_free(machine);
    return !good;
}
