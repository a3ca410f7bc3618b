/* `waldo doctor`: what works here, and what is missing. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct checkup {
    int usable;
    int over;
} checkup;

static const char *isolation_name(waldo_isolation isolation)
{
    static const char *const names[] = { "unknown", "none", "process", "container",
                                         "gvisor",  "vm",   "remote" };

    return isolation >= 0 && (size_t)isolation < sizeof names / sizeof names[0] ? names[isolation]
                                                                                : "unknown";
}

static void report(void *userdata, const waldo_backend_report *backend)
{
    checkup *c = userdata;

    printf("  %-8s %-4s isolation %-10s %s\n", backend->name, backend->usable ? "ok" : "no",
           isolation_name(backend->isolation), backend->about);
    if (!backend->usable) {
        printf("           %s\n", backend->reason);
    }
    c->usable += backend->usable;
}

static void reported(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)status;
    (void)error;
    ((checkup *)userdata)->over = 1;
}

static int check_backends(waldo_runtime *rt)
{
    checkup c = { 0 };

    printf("Sandboxes\n");
    waldo_backend_probe(rt, report, reported, &c);
    while (!c.over && waldo_runtime_step(rt, WALDO_FOREVER) == WALDO_OK) {
    }
    return c.usable > 0;
}

/* Ask for one word, with no tools and no sandbox. */
static int check_model(waldo_runtime *rt, const char *model)
{
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = model));
    waldo_run *run = waldo_run_new(rt, agent,
                                   &WALDO_RUN(.prompt = "Answer with one word: ready?",
                                              .limits = &(waldo_limits){ .max_time_ms = 60000 }));
    waldo_status status = waldo_run_wait(run, WALDO_FOREVER);

    printf("  %s  %s\n", status == WALDO_OK ? "ok" : "no", model);
    if (status != WALDO_OK) {
        printf("      %s\n", waldo_run_errmsg(run));
    }
    waldo_run_free(run);
    waldo_agent_unref(agent);
    return status == WALDO_OK;
}

int cmd_doctor(args *a)
{
    waldo_runtime *rt = open_runtime(a);
    const char *feature;
    int model_ok, sandbox_ok;

    if (rt == NULL) {
        return EXIT_FAILED;
    }
    printf("waldo %s:", waldo_version());
    for (size_t i = 0; (feature = waldo_feature_at(i)) != NULL; i++) {
        printf(" %s", feature);
    }
    printf("\n\n");
    fflush(stdout);
    sandbox_ok = check_backends(rt);
    printf("\nModel\n");
    fflush(stdout);
    model_ok = choose_model(a) == EXIT_DONE && check_model(rt, a->model);
    printf("\nStores\n  ok  memory\n");
    waldo_runtime_finish(rt);
    return model_ok && sandbox_ok ? EXIT_DONE : EXIT_UNAVAILABLE;
}
