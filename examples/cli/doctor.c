/* `waldo doctor`: what works here, and what is missing. */
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

static void put_indented(const char *text)
{
    fputs("      ", stdout);
    put_safe(stdout, (waldo_str){ text, strlen(text) });
    fputc('\n', stdout);
}

static void report(void *userdata, const waldo_backend_report *backend)
{
    checkup *c = userdata;

    printf("  %s  %-8s isolation %-10s %s\n", backend->usable ? "ok" : "no", backend->name,
           isolation_name(backend->isolation), backend->about);
    if (!backend->usable) {
        put_indented(backend->reason);
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

    printf("Sandboxes of this build\n");
    waldo_backend_probe(rt, report, reported, &c);
    while (!c.over && waldo_runtime_step(rt, WALDO_FOREVER) == WALDO_OK) {
    }
    return c.usable > 0;
}

/* Open the chosen sandbox and run a command in it. */
static int check_sandbox(waldo_runtime *rt, const args *a, waldo_sandbox_spec *spec)
{
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;
    int works = 0;

    if (sandbox != NULL) {
        works = waldo_sandbox_exec_wait(sandbox, &WALDO_EXEC(.cmd = "exit 42"), &result, &error) ==
                    WALDO_OK &&
                result->end == WALDO_EXEC_EXITED && result->exit_code == 42;
        printf("  %s  %s  isolation %s\n", works ? "ok" : "no", a->sandboxes[0],
               isolation_name(waldo_sandbox_isolation(sandbox)));
    }
    if (sandbox != NULL && !works) {
        put_indented(error != NULL ? waldo_error_message(error)
                                   : "a command did not end as it should");
    }
    waldo_error_free(error);
    waldo_exec_result_free(result);
    waldo_sandbox_unref(sandbox);
    return works;
}

/* Ask for one word, with no tools and no sandbox. model: a reference that is taken. */
static int check_model(waldo_runtime *rt, const char *name, waldo_model *model)
{
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    waldo_run *run = waldo_run_new(rt, agent,
                                   &WALDO_RUN(.prompt = "Answer with one word: ready?",
                                              .limits = &(waldo_limits){ .max_time_ms = 60000 }));
    waldo_status status = waldo_run_wait(run, WALDO_FOREVER);

    printf("  %s  %s\n", status == WALDO_OK ? "ok" : "no", name);
    fflush(stdout);
    if (status != WALDO_OK) {
        put_indented(waldo_run_errmsg(run));
    }
    waldo_run_free(run);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
    return status == WALDO_OK;
}

/* Each that was given, or the one that was chosen. */
static int check_models(waldo_runtime *rt, args *a)
{
    int all = choose_model(a) == EXIT_DONE && check_model(rt, a->model, make_model(a));

    for (const char *const *name = a->fallbacks; *name != NULL; name++) {
        all &= check_model(rt, *name, waldo_model_new(&WALDO_MODEL(.model = *name)));
    }
    return all;
}

int cmd_doctor(args *a)
{
    waldo_sandbox_spec *spec;
    waldo_runtime *rt;
    const char *feature;
    int model_ok, sandbox_ok;

    if (a->rest_count != 0) {
        return usage_error("doctor takes no words behind its options");
    }
    if (choose_facts(a) != EXIT_DONE) {
        return EXIT_USAGE;
    }
    choose_sandbox(a);
    a->only_checks = 1;
    spec = make_spec(a, 0);
    rt = spec != NULL ? open_runtime(a) : NULL;
    if (rt == NULL) {
        waldo_sandbox_spec_unref(spec);
        return spec != NULL ? EXIT_FAILED : EXIT_USAGE;
    }
    printf("waldo %s:", waldo_version());
    for (size_t i = 0; (feature = waldo_feature_at(i)) != NULL; i++) {
        printf(" %s", feature);
    }
    printf("\n\n");
    sandbox_ok = check_backends(rt);
    printf("\nSandbox\n");
    fflush(stdout);
    sandbox_ok = check_sandbox(rt, a, spec) && sandbox_ok;
    printf("\nModel\n");
    fflush(stdout);
    model_ok = check_models(rt, a);
    printf("\nStores\n  ok  memory\n");
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
    return model_ok && sandbox_ok ? EXIT_DONE : EXIT_UNAVAILABLE;
}
