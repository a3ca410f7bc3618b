#include <stdio.h>
#include <waldo/waldo.h>

/* One task, one machine, one patch. */
static int migrate(waldo_runtime *rt)
{
    static const char *const services[] = { "billing", "search", "mail" };
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = "openai:gpt-5.1",
                     .sandbox = "local:", /* a recipe: every run gets a machine of its own */
                     .instructions = "You migrate one service at a time.",
                     .capabilities = WALDO_SHELL | WALDO_FILES));
    int failed = 0;

    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        char dir[100];

        snprintf(dir, sizeof dir, "services/%s", services[i]);
        waldo_run_new(
            rt, agent,
            &WALDO_RUN(.label = services[i], .workspace = dir,
                       .prompt = "Move this service to the Responses API. Run its tests."));
    }
    for (waldo_run *run;
         (run = waldo_runtime_next(rt, WALDO_FOREVER)) != NULL; /* first done first */
         waldo_run_free(run)) {
        char file[100];

        snprintf(file, sizeof file, "%s.patch", waldo_run_label(run));
        if (waldo_run_status(run) == WALDO_OK && waldo_run_save_changes(run, file) == WALDO_OK) {
            continue;
        }
        fprintf(stderr, "%s: %s\n", waldo_run_label(run), waldo_run_errmsg(run));
        failed++; /* one bad start or run spoils no other */
    }
    waldo_agent_unref(agent);
    return failed;
}

int main(void)
{
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV));
    int failed = migrate(rt);

    waldo_runtime_finish(rt);
    return failed != 0;
}
