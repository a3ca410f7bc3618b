#include <stdio.h>
#include <waldo/waldo.h>

/* One agent, wherever its machine is: anywhere local: | docker:debian:12 | e2b:base | fake: */
int main(int argc, char **argv)
{
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = "openai:gpt-5.1", .sandbox = argc > 1 ? argv[1] : "local:",
                     .instructions = "You are a careful assistant with sandbox access."));
    waldo_run *run = waldo_run_new(
        rt, agent, &WALDO_RUN(.prompt = "Write a haiku to haiku.txt, then print the file"));
    waldo_status status = waldo_run_wait(run, WALDO_FOREVER);

    puts(status == WALDO_OK ? waldo_run_text(run) : waldo_run_errmsg(run));
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status != WALDO_OK;
}
