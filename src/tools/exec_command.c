#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "sandbox/background.h"
#include "tools/tools.h"

enum {
    CAPTURE_MAX = 64 * 1024 * 1024,
    TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000,
    YIELD_MAX_MS = 10 * 60 * 1000,
    YIELD_DEFAULT_MS = 10000, /* of a command on a terminal */
    HEAD_ROOM = 4096
};

typedef struct state {
    waldo_tool_call *call;
    waldo_job *job;
    int64_t timeout_ms; /* 0: the sandbox's */
    int64_t yield_ms;
} state;

static const char *signal_name(int number)
{
    static const char *const names[] = {
        [1] = "SIGHUP",   [2] = "SIGINT",   [3] = "SIGQUIT",  [4] = "SIGILL",   [6] = "SIGABRT",
        [7] = "SIGBUS",   [8] = "SIGFPE",   [9] = "SIGKILL",  [11] = "SIGSEGV", [13] = "SIGPIPE",
        [14] = "SIGALRM", [15] = "SIGTERM", [24] = "SIGXCPU", [25] = "SIGXFSZ", [31] = "SIGSYS",
    };

    return number > 0 && (size_t)number < WALDO__COUNT(names) && names[number] != NULL
               ? names[number]
               : "signal";
}

void waldo__tool_show_end(const waldo_exec_result *result, const char *limit, waldo__buf *out)
{
    switch (result->end) {
    case WALDO_EXEC_EXITED:
        waldo__buf_printf(out, "Exit code: %d\n", result->exit_code);
        break;
    case WALDO_EXEC_SIGNALED:
        waldo__buf_printf(out, "Ended by signal %d (%s)\n", result->signal,
                          signal_name(result->signal));
        break;
    case WALDO_EXEC_TIMED_OUT:
        waldo__buf_printf(out,
                          "Timed out after %" PRId64 " ms (%s); the command and everything it "
                          "started were ended\n",
                          result->timeout_ms, limit);
        break;
    case WALDO_EXEC_OOM:
        waldo__buf_puts(out, "Ended because memory ran out\n");
        break;
    case WALDO_EXEC_LOST:
        waldo__buf_puts(out, "The command was lost, perhaps with its sandbox: outcome unknown\n");
        break;
    default:
        waldo__buf_puts(out, "Cancelled\n");
        break;
    }
    waldo__tool_show_wall(result->wall_ns, out);
    if (result->still_open) {
        waldo__buf_puts(out, "Something it left running still holds its output open\n");
    }
}

void waldo__tool_show_wall(int64_t wall_ns, waldo__buf *out)
{
    int64_t ms = wall_ns / 1000000;

    waldo__buf_printf(out, "Wall time: %" PRId64 ".%03d s\n", ms / 1000, (int)(ms % 1000));
}

void waldo__tool_show_capture(const waldo_exec_result *result, waldo__buf *out)
{
    if (result->capture_path == NULL) {
        return;
    }
    waldo__buf_printf(out, "Whole output: %s (%" PRIu64 " bytes", result->capture_path,
                      result->capture_bytes);
    if (result->capture_lost > 0) {
        waldo__buf_printf(out, ", %" PRIu64 " more did not fit", result->capture_lost);
    }
    waldo__buf_puts(out, "); read on with read_file and byte_offset\n");
}

static void exec_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                      const waldo_error *error)
{
    state *s = userdata;
    waldo_tool_call *call = s->call;
    const char *workdir = waldo_tool_call_str(call, "workdir");
    size_t max = waldo__tool_call_max_output(call);
    waldo__buf text = WALDO__BUF_INIT(max + HEAD_ROOM);

    s->job = NULL;
    waldo_tool_call_on_cancel(call, NULL, NULL);
    if (status == WALDO_ESTART && workdir != NULL) {
        waldo_tool_call_fail(call, "%s (workdir: %s)", waldo_error_message(error), workdir);
    } else if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
    } else {
        waldo__tool_show_end(result,
                             s->timeout_ms != 0 ? "timeout_ms of this call"
                                                : "the sandbox's limit; timeout_ms allows more",
                             &text);
        waldo__tool_show_capture(result, &text);
        waldo__buf_puts(&text, result->both.total > 0 ? "Output:\n" : "No output\n");
        waldo__tool_show(&result->both, max, &text);
        if (text.status != WALDO_OK) {
            waldo__tool_fail_with(call, text.status, NULL);
        } else if (result->end == WALDO_EXEC_LOST) {
            waldo_tool_call_fail(call, "%s", text.ptr);
        } else {
            waldo_tool_call_reply_text(call, waldo__buf_str(&text));
        }
    }
    waldo__buf_free(&text);
    waldo_tool_call_unref(call);
}

static void on_output(void *userdata, int stream, waldo_str bytes)
{
    state *s = userdata;

    waldo__tool_call_output(s->call, stream, bytes);
}

static void on_cancel(void *userdata)
{
    state *s = userdata;

    if (s->job != NULL) {
        waldo_job_cancel(s->job);
    }
}

/* What both kinds of commands are given. */
static waldo_exec_options options_of(waldo_tool_call *call, int64_t timeout_ms)
{
    return WALDO_EXEC(.cmd = waldo_tool_call_str(call, "cmd"),
                      .cwd = waldo_tool_call_str(call, "workdir"), .timeout_ms = timeout_ms,
                      .flags = waldo_tool_call_bool(call, "login", 0) ? WALDO_EXEC_LOGIN : 0,
                      .max_capture = CAPTURE_MAX);
}

static waldo_status exec_in_background(waldo_tool_call *call, int64_t timeout_ms, int64_t yield_ms)
{
    waldo_exec_options options = options_of(call, timeout_ms);
    waldo_error *error = NULL;
    int64_t number = 0;
    waldo_status status;

    options.flags |= WALDO_EXEC_KEEP_STDIN;
    options.flags |= waldo_tool_call_bool(call, "tty", 0) ? WALDO_EXEC_TTY : 0;
    status = waldo_background_start(waldo__tool_call_sandbox(call), &options, &number, &error);
    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
        waldo_error_free(error);
        return WALDO_OK;
    }
    return waldo__tool_follow(waldo_tool_call_ref(call), number, yield_ms, 1);
}

/* A machine that is reached is open now, and its numbers are known. */
static void opened(void *userdata, waldo_status status, const waldo_error *error)
{
    state *s = userdata;
    waldo_tool_call *call = s->call;

    if (status == WALDO_OK) {
        exec_in_background(call, s->timeout_ms, s->yield_ms);
    } else {
        waldo__tool_fail_with(call, status, error);
    }
    waldo_tool_call_unref(call);
}

/* Does the call ask for what only a background command can do? A sandbox without them waits. */
static int wants_background(waldo_tool_call *call)
{
    return waldo_tool_call_bool(call, "tty", 0) ||
           (waldo_tool_call_has(call, "yield_time_ms") &&
            waldo__background_offered(waldo__tool_call_sandbox(call)));
}

static waldo_status exec_command(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    int64_t yield_ms = waldo_tool_call_int(call, "yield_time_ms", YIELD_DEFAULT_MS);
    waldo_exec_options options;
    waldo_error *error = NULL;
    waldo_status status;

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    s->timeout_ms = waldo_tool_call_int(call, "timeout_ms", 0);
    if (waldo_tool_call_has(call, "timeout_ms") &&
        (s->timeout_ms < 1 || s->timeout_ms > TIMEOUT_MAX_MS)) {
        return waldo_tool_call_fail(call, "timeout_ms must be from 1 to %d", TIMEOUT_MAX_MS);
    }
    if (yield_ms < 0 || yield_ms > YIELD_MAX_MS) {
        return waldo_tool_call_fail(call, "yield_time_ms must be from 0 to %d", YIELD_MAX_MS);
    }
    if (wants_background(call)) {
        if (!waldo__background_ready(waldo__tool_call_sandbox(call))) {
            s->call = waldo_tool_call_ref(call);
            s->yield_ms = yield_ms;
            waldo_sandbox_open(waldo__tool_call_sandbox(call), opened, s);
            return WALDO_PENDING;
        }
        return exec_in_background(call, s->timeout_ms, yield_ms);
    }
    options = options_of(call, s->timeout_ms);
    options.max_output = waldo__tool_call_max_output(call);
    options.on_output = on_output;
    s->call = waldo_tool_call_ref(call);
    status =
        waldo_sandbox_exec(waldo__tool_call_sandbox(call), &options, exec_done, s, &s->job, &error);
    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
        waldo_error_free(error);
        waldo_tool_call_unref(call);
        return WALDO_OK;
    }
    waldo_tool_call_on_cancel(call, on_cancel, s);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_exec_command = {
    .size = sizeof(waldo_tool_options),
    .name = "exec_command",
    .about = "Run a shell command in the sandbox and return its exit code and output. Standard "
             "output and standard error come together, in the order they were written. The command "
             "has no terminal and no standard input, unless tty or yield_time_ms is given. When it "
             "ends, processes it left in the background live on.",
    .params =
        (const waldo_param[]){
            { .name = "cmd", .type = WALDO_STRING, .about = "Shell text, run by /bin/sh -c." },
            { .name = "workdir",
              .type = WALDO_STRING,
              .optional = 1,
              .about = "Folder to run in; default /workspace." },
            { .name = "timeout_ms",
              .type = WALDO_INTEGER,
              .optional = 1,
              .about = "End the command and all it started after so many milliseconds." },
            { .name = "login",
              .type = WALDO_BOOLEAN,
              .optional = 1,
              .about = "Use a login shell (-lc); default false." },
            { .name = "yield_time_ms",
              .type = WALDO_INTEGER,
              .optional = 1,
              .about = "Wait so long at most; a command that still runs then goes on as a session "
                       "for write_stdin. Default: wait for its end, with tty 10000." },
            { .name = "tty",
              .type = WALDO_BOOLEAN,
              .optional = 1,
              .about = "Run on a terminal, for programs that need one; default false." },
            { .name = NULL } },
    .call = exec_command,
    .flags = WALDO_PARALLEL_SAFE | WALDO__TOOL_SANDBOX,
};
