/* `waldo exec`: one command through a sandbox, driven by a poll loop of the program's own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

enum { INPUT_BLOCK = 65536, RETRY_MS = 20 };

typedef struct executing {
    waldo_job *job;
    waldo_cancel *cancel;
    int over;
    int lost; /* its machine, or the stream to it */
    int code;
    int input_open;
    size_t held; /* bytes of block that the command had no room for yet */
    char block[INPUT_BLOCK];
} executing;

static void on_output(void *userdata, int stream, waldo_str bytes)
{
    executing *e = userdata;

    if (stream == 2) {
        write_fully(STDERR_FILENO, bytes);
        return;
    }
    if (output_error() == 0) {
        output_write(bytes);
        if (output_error() != 0 && e->job != NULL) {
            waldo_job_cancel(e->job); /* nobody reads what comes */
        }
    }
}

static int code_of_end(const waldo_exec_result *result)
{
    switch (result->end) {
    case WALDO_EXEC_EXITED:
        return result->exit_code;
    case WALDO_EXEC_SIGNALED:
        return EXIT_SIGNAL_BASE + result->signal;
    case WALDO_EXEC_TIMED_OUT:
        complain("timed out after %g seconds", (double)result->timeout_ms / 1000);
        return EXIT_EXEC_TIMEOUT;
    case WALDO_EXEC_OOM:
        complain("the sandbox ran out of memory");
        return EXIT_SIGNAL_BASE + SIGKILL;
    default: /* cancelled or lost */
        return was_interrupted() ? EXIT_INTERRUPTED : EXIT_EXEC_FAILED;
    }
}

static int told_failure(const waldo_error *error, waldo_status status)
{
    if (was_interrupted()) {
        return EXIT_INTERRUPTED;
    }
    complain("%s", error != NULL ? waldo_error_message(error) : waldo_status_text(status));
    return status == WALDO_ESTART ? EXIT_EXEC_NO_START : EXIT_EXEC_FAILED;
}

static void on_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                    const waldo_error *error)
{
    executing *e = userdata;

    terminal_restore(); /* before anything is said */
    e->over = 1;
    e->job = NULL;
    e->lost = status == WALDO_OK && result->end == WALDO_EXEC_LOST && !was_interrupted();
    if (output_error() == EPIPE && (status != WALDO_OK || result->end != WALDO_EXEC_EXITED)) {
        e->code = EXIT_SIGNAL_BASE + SIGPIPE; /* as if it had itself written to the closed pipe */
    } else {
        e->code = status == WALDO_OK ? code_of_end(result) : told_failure(error, status);
    }
}

/* Give the command what is held; it stays held while there is no room. */
static void send_held(executing *e)
{
    int eof = e->held == 0;
    waldo_status status = waldo_job_write(e->job, (waldo_str){ e->block, e->held }, eof);

    if (status == WALDO_EBUSY) {
        return;
    }
    e->held = 0;
    if (status != WALDO_OK || eof) {
        e->input_open = 0; /* or the command has closed its end */
    }
}

static void read_input(executing *e)
{
    ssize_t got = read(STDIN_FILENO, e->block, sizeof e->block);

    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    e->held = got > 0 ? (size_t)got : 0;
    send_held(e);
}

static int drive_command(waldo_runtime *rt, executing *e)
{
    while (!e->over) {
        int reads = e->input_open && e->held == 0;
        struct pollfd fds[] = { { waldo_runtime_fd(rt), POLLIN, 0 },
                                { reads ? STDIN_FILENO : -1, POLLIN, 0 } };

        if (poll(fds, 2, e->held > 0 ? RETRY_MS : -1) < 0 && errno != EINTR) {
            complain("poll: %m");
            return EXIT_EXEC_FAILED;
        }
        if (e->held > 0 && e->input_open) {
            send_held(e);
        } else if (fds[1].revents != 0) {
            read_input(e);
        }
        waldo_runtime_dispatch(rt, 0);
    }
    return e->code;
}

/* The sandbox itself knows why a command was lost. */
static void on_open_again(void *userdata, waldo_status status, const waldo_error *error)
{
    executing *e = userdata;

    e->over = 1;
    complain("%s", status == WALDO_OK ? "the stream to the sandbox broke, and the command was lost"
                   : error != NULL    ? waldo_error_message(error)
                                      : waldo_status_text(status));
}

/* Where there is a further sandbox, that would be made only to be asked. */
static void tell_loss(const args *a, waldo_runtime *rt, waldo_sandbox *sandbox, executing *e)
{
    if (a->sandboxes[1] != NULL) {
        complain("the sandbox was lost");
        return;
    }
    e->over = 0;
    e->input_open = 0;
    e->held = 0;
    waldo_sandbox_open(sandbox, on_open_again, e);
    drive_command(rt, e);
}

static executing work;

static void stop_command(void *userdata)
{
    executing *e = userdata;

    waldo_cancel_trigger(e->cancel);
}

static void resize_command(void *userdata)
{
    executing *e = userdata;
    uint32_t rows, columns;

    if (e->job != NULL && terminal_size(&rows, &columns)) {
        waldo_job_resize(e->job, rows, columns);
    }
}

/* "TERM=..." of a terminal that the command's is connected to, in a list; else an empty one */
static const char *const *terminal_env(const args *a)
{
    static char text[128];
    static const char *list[2];
    const char *term = getenv("TERM");

    if (a->tty && is_terminal(stdin) && term != NULL &&
        snprintf(text, sizeof text, "TERM=%s", term) < (int)sizeof text) {
        list[0] = text;
    }
    return list;
}

static int execute(const args *a, waldo_runtime *rt, waldo_sandbox *sandbox, executing *e)
{
    uint32_t rows = 0, columns = 0;
    waldo_error *error = NULL;
    waldo_status status;
    int code;

    e->input_open = a->with_input;
    if (a->tty) {
        terminal_size(&rows, &columns);
        terminal_make_raw();
    }
    status = waldo_sandbox_exec(
        sandbox,
        &WALDO_EXEC(.argv = (const char *const *)a->rest,
                    .timeout_ms = (int64_t)(a->timeout_s * 1000),
                    .flags = WALDO_EXEC_ALL_OUTPUT | (a->with_input ? WALDO_EXEC_KEEP_STDIN : 0) |
                             (a->tty ? WALDO_EXEC_TTY : 0),
                    .env = terminal_env(a), .rows = rows, .columns = columns,
                    .on_output = on_output, .cancel = e->cancel),
        on_done, e, &e->job, &error);
    code = status == WALDO_OK ? drive_command(rt, e) : told_failure(error, status);
    terminal_restore();
    if (e->lost) {
        tell_loss(a, rt, sandbox, e);
    }
    waldo_error_free(error);
    return code;
}

int cmd_exec(args *a)
{
    waldo_runtime *rt = NULL;
    waldo_sandbox_spec *spec;
    waldo_sandbox *sandbox = NULL;
    int code = EXIT_EXEC_FAILED;

    if (a->rest_count == 0) {
        usage_error("exec needs a COMMAND behind its options; see waldo exec --help");
        return EXIT_EXEC_FAILED;
    }
    if (check_directory(a) != EXIT_DONE) {
        return EXIT_EXEC_FAILED;
    }
    if (a->sandboxes[0] == NULL) {
        a->quiet = !is_terminal(stderr); /* stderr is the command's, too */
        choose_sandbox(a);
    }
    work.cancel = waldo_cancel_new();
    spec = make_spec(a, WALDO_FOREVER); /* a person knows when to stop; a model does not */
    rt = spec != NULL ? open_runtime(a) : NULL;
    if (a->tty) {
        stop_tells_size(resize_command);
    }
    if (rt != NULL && work.cancel != NULL && stop_on_signals(rt, stop_command, &work)) {
        sandbox = waldo_sandbox_new(rt, spec);
        code = sandbox != NULL ? execute(a, rt, sandbox, &work) : EXIT_EXEC_FAILED;
    }
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
    waldo_cancel_unref(work.cancel);
    return code;
}
