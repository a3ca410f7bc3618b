/*
 * usage: exec-tool SANDBOX WORKSPACE MODE CMD [changes]
 * Runs CMD, prints its output and, with "changes", the patch after a line "=====". WORKSPACE "-" is
 * none; MODE copy, ro or rw. Exit code of the command; 125 and a message for everything else.
 */
#include <stdio.h>
#include <string.h>

#include "sandbox/sandbox.h"

typedef struct patch {
    int done;
    waldo_status status;
} patch;

static void print_patch(void *userdata, waldo_status status, waldo_str bytes,
                        const waldo_error *error)
{
    patch *p = userdata;

    p->done = 1;
    p->status = status;
    printf("=====\n");
    fwrite(bytes.ptr, 1, bytes.len, stdout);
    fprintf(stderr, "%s", waldo_error_message(error));
}

static void print_output(void *userdata, int stream, waldo_str bytes)
{
    (void)userdata;
    fwrite(bytes.ptr, 1, bytes.len, stream == 2 ? stderr : stdout);
    fflush(stdout);
}

static int run(waldo_runtime *rt, waldo_sandbox *sandbox, const char *cmd, int changes)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;
    patch p = { 0 };
    int code = 125;

    if (waldo_sandbox_exec_wait(sandbox, &WALDO_EXEC(.cmd = cmd, .on_output = print_output),
                                &result, &error) != WALDO_OK) {
        fprintf(stderr, "%s\n", waldo_error_message(error));
        waldo_error_free(error);
        return code;
    }
    code = result->end == WALDO_EXEC_EXITED ? result->exit_code : 124;
    waldo_exec_result_free(result);
    if (changes) {
        waldo_sandbox_changes(sandbox, print_patch, &p);
        while (!p.done) {
            waldo_runtime_step(rt, WALDO_FOREVER);
        }
        code = p.status == WALDO_OK ? code : 125;
    }
    return code;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = { "copy", "ro", "rw" };
    waldo_runtime *rt;
    waldo_sandbox_spec *spec;
    waldo_sandbox *sandbox;
    waldo_workspace_mode mode = 0;
    int code;

    if (argc < 5) {
        return 125;
    }
    while (mode < 2 && strcmp(argv[3], modes[mode]) != 0) {
        mode++;
    }
    rt =
        waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN, .keys = WALDO_KEYS_FROM_ENV));
    spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(argv[1]), .workspace_mode = mode,
                            .workspace = strcmp(argv[2], "-") != 0 ? argv[2] : NULL));
    sandbox = waldo_sandbox_new(rt, spec);
    waldo_sandbox_spec_unref(spec);
    code = run(rt, sandbox, argv[4], argc > 5);
    waldo_sandbox_unref(sandbox);
    waldo_runtime_free(rt);
    return code;
}
