/* `waldo exec`: one command through a backend, driven by a poll loop of the program's own. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { INPUT_BLOCK = 65536, SIGNAL_BASE = 128, TIMEOUT_CODE = 124 };

typedef struct executing {
    waldo_job *job;
    int over;
    int code;
    int input_open;
} executing;

static void on_output(void *userdata, int stream, waldo_str bytes)
{
    FILE *to = stream == 2 ? stderr : stdout;

    (void)userdata;
    fwrite(bytes.ptr, 1, bytes.len, to);
    fflush(to);
}

static void on_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                    const waldo_error *error)
{
    executing *e = userdata;

    e->over = 1;
    e->job = NULL;
    e->code = EXIT_EXEC_FAILED;
    if (status != WALDO_OK) {
        fail_with("exec", error, status);
    } else if (result->end == WALDO_EXEC_EXITED) {
        e->code = result->exit_code;
    } else if (result->end == WALDO_EXEC_SIGNALED) {
        e->code = SIGNAL_BASE + result->signal;
    } else if (result->end == WALDO_EXEC_TIMED_OUT) {
        fprintf(stderr, "waldo: timed out after %lld ms\n", (long long)result->timeout_ms);
        e->code = TIMEOUT_CODE;
    } else if (result->end == WALDO_EXEC_CANCELLED) {
        e->code = EXIT_INTERRUPTED;
    } else {
        fputs("waldo: the sandbox was lost\n", stderr);
    }
}

static void pass_input(executing *e)
{
    char block[INPUT_BLOCK];
    ssize_t got = read(STDIN_FILENO, block, sizeof block);

    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (got <= 0) {
        e->input_open = 0;
        waldo_job_write(e->job, (waldo_str){ "", 0 }, 1);
        return;
    }
    while (waldo_job_write(e->job, (waldo_str){ block, (size_t)got }, 0) == WALDO_EBUSY) {
        break; /* the block is kept back by not reading further: see wait_for_work() */
    }
}

static int drive_loop(waldo_runtime *rt, executing *e)
{
    while (!e->over) {
        struct pollfd fds[] = { { waldo_runtime_fd(rt), POLLIN, 0 },
                                { e->input_open ? STDIN_FILENO : -1, POLLIN, 0 } };

        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            return EXIT_EXEC_FAILED;
        }
        if (fds[1].revents != 0 && e->job != NULL) {
            pass_input(e);
        }
        waldo_runtime_dispatch(rt, 0);
    }
    return e->code;
}

static int execute(const args *a, waldo_runtime *rt, waldo_sandbox *sandbox, waldo_cancel *cancel)
{
    executing e = { .input_open = a->with_input };
    waldo_error *error = NULL;
    waldo_status status = waldo_sandbox_exec(
        sandbox,
        &WALDO_EXEC(.argv = (const char *const *)a->rest,
                    .timeout_ms = (int64_t)(a->timeout_s * 1000),
                    .flags = WALDO_EXEC_ALL_OUTPUT | (a->with_input ? WALDO_EXEC_KEEP_STDIN : 0),
                    .on_output = on_output, .cancel = cancel),
        on_done, &e, &e.job, &error);

    if (status != WALDO_OK) {
        fail_with("exec", error, status);
        waldo_error_free(error);
        return EXIT_EXEC_FAILED;
    }
    return drive_loop(rt, &e);
}

int cmd_exec(args *a)
{
    waldo_cancel *cancel;
    waldo_runtime *rt;
    waldo_sandbox_spec *spec;
    waldo_sandbox *sandbox;
    int code = EXIT_EXEC_FAILED;

    if (a->rest_count == 0) {
        return usage_error("exec needs a COMMAND behind its options; see waldo exec --help");
    }
    if (choose_sandbox(a) != EXIT_DONE) {
        return EXIT_EXEC_FAILED;
    }
    rt = open_runtime(a);
    cancel = waldo_cancel_new();
    if (rt == NULL || cancel == NULL || !stop_on_signals(cancel)) {
        waldo_cancel_unref(cancel);
        return EXIT_EXEC_FAILED;
    }
    spec = make_spec(a);
    sandbox = waldo_sandbox_new(rt, spec);
    if (sandbox != NULL) {
        code = execute(a, rt, sandbox, cancel);
    }
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
    waldo_cancel_unref(cancel);
    return code;
}
