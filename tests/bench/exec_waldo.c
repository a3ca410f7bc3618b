/* The waldo side of exec_latency.c: public headers only. */
#include "exec_case.h"

#include <waldo/waldo.h>

#include <stdio.h>

static waldo_runtime *runtime;
static waldo_sandbox *sandbox;

static bool run_once(void)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;
    waldo_status status = waldo_sandbox_exec_wait(
        sandbox, &WALDO_EXEC(.argv = WALDO_STRINGS(BENCH_COMMAND)), &result, &error);
    bool good = status == WALDO_OK && result->end == WALDO_EXEC_EXITED && result->exit_code == 0;

    if (!good) {
        fprintf(stderr, "waldo: %s\n",
                error == NULL ? "the command did not end well" : waldo_error_message(error));
    }
    waldo_exec_result_free(result);
    waldo_error_free(error);
    return good;
}

static bool open_sandbox(void)
{
    runtime = waldo_runtime_new(NULL);

    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("local:")));

    sandbox = waldo_sandbox_new(runtime, spec);
    waldo_sandbox_spec_unref(spec);
    return runtime != NULL && sandbox != NULL;
}

static void close_sandbox(void)
{
    waldo_sandbox_unref(sandbox);
    waldo_runtime_finish(runtime);
}

const struct exec_case exec_case_waldo = {
    .name = "waldo",
    .open = open_sandbox,
    .once = run_once,
    .close = close_sandbox,
};
