#include <stdio.h>
#include <waldo/waldo.h>

static waldo_status show(waldo_run *run)
{
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, WALDO_FOREVER, &event)) == WALDO_OK) {
        if (waldo_event_type(event) == WALDO_EVENT_TEXT) {
            fwrite(waldo_event_text(event).ptr, 1, waldo_event_text(event).len, stdout);
        }
    }
    return status; /* WALDO_END: this turn is over */
}

int main(void)
{
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = "openai:gpt-5.1", .sandbox = "local:"));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "List the primes below 50"));
    int ok = show(run) == WALDO_END &&
             waldo_run_send(run, "Now their sum, by program") == WALDO_OK &&
             show(run) == WALDO_END && waldo_run_status(run) == WALDO_OK; /* same machine */

    if (!ok) {
        fprintf(stderr, "%s\n", waldo_run_errmsg(run));
    }
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return !ok;
}
