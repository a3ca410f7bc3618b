#include <stdio.h>
#include <waldo/waldo.h>

int main(void)
{
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = "openai:gpt-5.1", .sandbox = "local:",
                     .instructions = "You are a Python coding assistant with sandbox access."));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "Run a small python script"));
    waldo_status status = waldo_run_wait(run, WALDO_FOREVER);

    puts(status == WALDO_OK ? waldo_run_text(run) : waldo_run_errmsg(run));
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt); /* ends the sandbox, frees run and runtime */
    return status != WALDO_OK;
}
