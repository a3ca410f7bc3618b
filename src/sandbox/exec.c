/* Commands as the user sees them: options in, results out. */
#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/job.h"

enum {
    OUTPUT_DEFAULT = 1024 * 1024,
    OUTPUT_MAX = 256 * 1024 * 1024,
    CMD_MAX = 16 * 1024 * 1024,
    INPUT_MAX = 256 * 1024 * 1024,
    WRITE_MAX = 4 * 1024 * 1024, /* bytes that waldo_job_write() lets wait */
    ENV_MAX = 4096,
    SIGNAL_MAX = 64,
    SIDE_MAX = 65535 /* rows, columns */
};

static void job_start(waldo__op *op)
{
    waldo__job_run((waldo_job *)op);
}

static void job_stop(waldo__op *op)
{
    waldo__job_stop((waldo_job *)op);
}

/* A command that began, or that was cancelled, has a result whatever became of the machine. */
static waldo_status settle(waldo_job *job, waldo_status status)
{
    if (status == WALDO_ECANCELED) {
        job->result.end = WALDO_EXEC_CANCELLED;
        return WALDO_OK;
    }
    if (status == WALDO_ELOST && job->started_ns != 0) {
        job->result.end = WALDO_EXEC_LOST;
        return WALDO_OK;
    }
    return status;
}

static void job_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    waldo_job *job = (waldo_job *)op;
    waldo_exec_result *result = &job->result;

    waldo__job_stop(job);
    status = settle(job, status);
    if (status != WALDO_OK) {
        job->done(job->userdata, status, NULL, error);
        return;
    }
    result->size = sizeof *result;
    result->timeout_ms = job->timeout_ms;
    if (result->wall_ns == 0 && job->started_ns != 0) {
        result->wall_ns = waldo__now_ns() - job->started_ns;
    }
    waldo__merge_flush(&job->merge, &job->both);
    result->out = waldo__collect_output(&job->out);
    result->err = waldo__collect_output(&job->err);
    result->both = waldo__collect_output(&job->both);
    job->done(job->userdata, WALDO_OK, result, NULL);
}

static void job_free(waldo__op *op)
{
    waldo_job *job = (waldo_job *)op;

    waldo__job_stop(job);
    waldo__free(job->cmd);
    waldo__strings_free(job->argv);
    waldo__free(job->shell);
    waldo__free(job->cwd.text);
    waldo__strings_free(job->env);
    waldo__buf_free(&job->input);
    waldo_cancel_unref(job->cancel);
    waldo_cancel_unref(job->backend_cancel);
    waldo__collect_free(&job->out);
    waldo__collect_free(&job->err);
    waldo__collect_free(&job->both);
    waldo__free(job);
}

static const waldo__op_kind job_kind = {
    .start = job_start, .stop = job_stop, .finish = job_finish, .free = job_free, .is_job = 1
};

/* ---- options ---- */

static waldo_status refuse(waldo_error **ret_err, waldo_status status, const char *what)
{
    return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "exec: %s", what);
}

static waldo_status check_options(const waldo_exec_options *options, waldo_error **ret_err)
{
    const uint32_t known = WALDO_EXEC_MERGE | WALDO_EXEC_KEEP_STDIN | WALDO_EXEC_ALL_OUTPUT |
                           WALDO_EXEC_LOGIN | WALDO_EXEC_TTY;
    size_t count = 0;

    if ((options->cmd == NULL) == (options->argv == NULL)) {
        return refuse(ret_err, WALDO_EINVAL, "give either cmd or argv");
    }
    if (options->argv != NULL && (options->argv[0] == NULL || options->argv[0][0] == '\0')) {
        return refuse(ret_err, WALDO_EINVAL, "argv names no program");
    }
    if (options->cmd != NULL && strnlen(options->cmd, CMD_MAX + 1) > CMD_MAX) {
        return refuse(ret_err, WALDO_ETOOBIG, "cmd has more than 16 MiB");
    }
    if ((options->flags & ~known) != 0) {
        return refuse(ret_err, WALDO_EINVAL, "unknown flag");
    }
    if ((options->flags & WALDO_EXEC_ALL_OUTPUT) != 0 && options->on_output == NULL) {
        return refuse(ret_err, WALDO_EINVAL, "WALDO_EXEC_ALL_OUTPUT needs on_output");
    }
    if (options->grace_ms < 0 || options->grace_ms > INT32_MAX ||
        options->timeout_ms < WALDO_FOREVER || options->max_output > OUTPUT_MAX ||
        options->input.len > INPUT_MAX) {
        return refuse(ret_err, WALDO_EINVAL,
                      "grace_ms, timeout_ms, max_output or input is out of range");
    }
    if (options->rows > SIDE_MAX || options->columns > SIDE_MAX ||
        ((options->flags & WALDO_EXEC_TTY) == 0 && (options->rows | options->columns) != 0)) {
        return refuse(ret_err, WALDO_EINVAL,
                      "rows and columns are for WALDO_EXEC_TTY, and at most 65535");
    }
    for (; options->env != NULL && options->env[count] != NULL; count++) {
        const char *equals = strchr(options->env[count], '=');

        if (equals == NULL || equals == options->env[count] || count >= ENV_MAX) {
            return refuse(ret_err, WALDO_EINVAL, "an env entry is not NAME=value");
        }
    }
    return WALDO_OK;
}

static int64_t timeout_of(const waldo_sandbox *sandbox, int64_t asked)
{
    int64_t limit = asked;

    if (asked == 0) {
        limit = waldo_sandbox_spec_error(sandbox->spec) == NULL
                    ? waldo__live_entry(sandbox)->command_timeout_ms
                    : 120000;
    }
    /* More than the hand can count is as good as none. */
    return limit > 0 && limit < INT32_MAX ? limit : WALDO_FOREVER;
}

static waldo_status copy_options(waldo_sandbox *sandbox, waldo_job *job,
                                 const waldo_exec_options *options, waldo_error **ret_err)
{
    waldo_status status =
        waldo__path_parse(options->cwd != NULL ? options->cwd : ".", &job->cwd, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    job->flags = options->flags;
    job->cmd = waldo__strdup(options->cmd);
    job->argv = options->argv != NULL ? waldo__strings_copy(options->argv, NULL) : NULL;
    job->shell = waldo__strdup(options->shell != NULL ? options->shell : "/bin/sh");
    job->env = waldo__strings_copy(options->env, NULL);
    job->timeout_ms = timeout_of(sandbox, options->timeout_ms);
    job->grace_ms = options->grace_ms != 0 ? options->grace_ms : WALDO_HAND_GRACE_DEFAULT_MS;
    job->rows = (uint16_t)(options->rows != 0 ? options->rows : WALDO_HAND_PTY_ROWS);
    job->columns = (uint16_t)(options->columns != 0 ? options->columns : WALDO_HAND_PTY_COLUMNS);
    job->max_output = options->max_output != 0 ? options->max_output : OUTPUT_DEFAULT;
    job->max_capture = options->max_capture;
    job->on_output = options->on_output;
    job->cancel = waldo_cancel_ref(options->cancel);
    job->window = WALDO_HAND_STDIN_WINDOW;
    waldo__buf_init(&job->input, options->input.len + WRITE_MAX + 1);
    waldo__buf_add_str(&job->input, options->input);
    job->input_ends = (options->flags & WALDO_EXEC_KEEP_STDIN) == 0;
    waldo__collect_init(&job->out, job->max_output);
    waldo__collect_init(&job->err, job->max_output);
    waldo__collect_init(&job->both, job->max_output);
    if (job->env == NULL || job->shell == NULL || job->input.status != WALDO_OK ||
        (job->cmd == NULL && job->argv == NULL)) {
        return waldo__error_nomem(ret_err);
    }
    return WALDO_OK;
}

static void cancel_triggered(void *userdata)
{
    waldo_job_cancel(userdata);
}

/* Everything up to the start. */
static waldo_status begin(waldo_sandbox *sandbox, const waldo_exec_options *given, int kept,
                          int64_t number, waldo_exec_fn done, void *userdata, waldo_job **ret_job,
                          waldo_error **ret_err)
{
    waldo_exec_options options;
    waldo_job *job;
    waldo_status status;

    if (given == NULL || waldo__options_copy(&options, sizeof options, given) != WALDO_OK) {
        return refuse(ret_err, WALDO_EINVAL, "options missing or of a newer library");
    }
    status = check_options(&options, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    status = waldo__live_check(sandbox, NULL);
    if (status == WALDO_ECLOSED || status == WALDO_EFORKED) {
        return waldo__live_check(sandbox, ret_err);
    }
    job = WALDO__NEW(waldo_job);
    if (job == NULL) {
        return waldo__error_nomem(ret_err);
    }
    job->op.sandbox = sandbox;
    job->kept = job->op.goes_on = kept;
    job->number = number;
    job->done = done;
    job->userdata = userdata;
    waldo__timer_init(&job->backstop, waldo__job_too_late, job);
    status = copy_options(sandbox, job, &options, ret_err);
    if (status == WALDO_OK && job->cancel != NULL &&
        waldo__cancel_watch_new(sandbox->env->loop, job->cancel, cancel_triggered, job,
                                &job->cancel_watch) != WALDO_OK) {
        status = waldo__error_nomem(ret_err);
    }
    if (status != WALDO_OK) {
        job_free(&job->op);
        return status;
    }
    if (ret_job != NULL) {
        *ret_job = job;
    }
    waldo__op_begin(sandbox, &job->op, &job_kind);
    return WALDO_OK;
}

waldo_status waldo_sandbox_exec(waldo_sandbox *sandbox, const waldo_exec_options *options,
                                waldo_exec_fn done, void *userdata, waldo_job **ret_job,
                                waldo_error **ret_err)
{
    if (sandbox == NULL || done == NULL) {
        return refuse(ret_err, WALDO_EINVAL, "sandbox or done is NULL");
    }
    return begin(sandbox, options, 0, 0, done, userdata, ret_job, ret_err);
}

waldo_status waldo__exec_kept(waldo_sandbox *sandbox, const waldo_exec_options *options,
                              int64_t number, waldo_exec_fn done,
                              void (*started)(void *userdata, uint32_t hand_id), void *userdata,
                              waldo_job **ret_job, waldo_error **ret_err)
{
    waldo_status status = begin(sandbox, options, 1, number, done, userdata, ret_job, ret_err);

    if (status == WALDO_OK) {
        (*ret_job)->on_started = started;
        if ((*ret_job)->call != NULL) {
            started(userdata, waldo__hand_call_id((*ret_job)->call));
        }
    }
    return status;
}

waldo_status waldo__exec_adopt(waldo_sandbox *sandbox, uint32_t hand_id, waldo_exec_fn done,
                               void *userdata, waldo_job **ret_job, waldo_error **ret_err)
{
    /* What it was started with is not known any more; whether it has a terminal, the hand knows. */
    const waldo_exec_options options =
        WALDO_EXEC(.argv = WALDO_STRINGS("?"), .timeout_ms = WALDO_FOREVER,
                   .flags = WALDO_EXEC_MERGE | WALDO_EXEC_KEEP_STDIN | WALDO_EXEC_TTY);
    waldo_job *job = WALDO__NEW(waldo_job);
    waldo_status status;

    if (job == NULL) {
        return waldo__error_nomem(ret_err);
    }
    job->op.sandbox = sandbox;
    job->op.goes_on = job->kept = 1;
    job->done = done;
    job->userdata = userdata;
    waldo__timer_init(&job->backstop, waldo__job_too_late, job);
    status = copy_options(sandbox, job, &options, ret_err);
    if (status == WALDO_OK) {
        status = waldo__job_adopt(job, hand_id);
    }
    if (status != WALDO_OK) {
        job_free(&job->op);
        return status;
    }
    *ret_job = job;
    waldo__op_begin(sandbox, &job->op, &job_kind);
    job->op.state = WALDO__OP_RUNNING; /* there is nothing to be started */
    return WALDO_OK;
}

/* ---- a running command ---- */

waldo_status waldo_job_write(waldo_job *job, waldo_str bytes, int eof)
{
    if (job == NULL || job->op.state == WALDO__OP_ENDED || job->input_ends) {
        return WALDO_ECLOSED;
    }
    if (job->input.len > WRITE_MAX || bytes.len > WRITE_MAX - job->input.len) {
        return WALDO_EBUSY;
    }
    if (waldo__buf_add_str(&job->input, bytes) != WALDO_OK) {
        return WALDO_ENOMEM;
    }
    job->input_ends = eof != 0;
    waldo__job_pump(job);
    return WALDO_OK;
}

waldo_status waldo_job_signal(waldo_job *job, int signal)
{
    if (job == NULL || signal < 1 || signal > SIGNAL_MAX) {
        return WALDO_EINVAL;
    }
    if (job->op.state == WALDO__OP_ENDED) {
        return WALDO_OK;
    }
    if (job->op.in_backend) {
        return WALDO_ENOTSUP;
    }
    if (job->call == NULL) {
        job->pending_signal = signal;
        return WALDO_OK;
    }
    return waldo__hand_signal(job->call, signal, WALDO_HAND_SCOPE_GROUP);
}

waldo_status waldo_job_resize(waldo_job *job, uint32_t rows, uint32_t columns)
{
    if (job == NULL || rows < 1 || rows > SIDE_MAX || columns < 1 || columns > SIDE_MAX ||
        (job->flags & WALDO_EXEC_TTY) == 0) {
        return WALDO_EINVAL;
    }
    if (job->op.state == WALDO__OP_ENDED) {
        return WALDO_OK;
    }
    job->rows = (uint16_t)rows;
    job->columns = (uint16_t)columns;
    return job->call != NULL ? waldo__hand_resize(job->call, job->rows, job->columns) : WALDO_OK;
}

void waldo_job_cancel(waldo_job *job)
{
    if (job != NULL) {
        waldo__job_op_cancel(&job->op, job->grace_ms);
    }
}

/* ---- blocking ---- */

typedef struct waiting {
    int over;
    waldo_status status;
    waldo_exec_result *result;
    waldo_error *error;
    waldo_output_fn on_output;
} waiting;

static void copy_output(char **at, const waldo_output *from, waldo_output *to)
{
    *to = *from;
    to->bytes.ptr = *at;
    if (from->bytes.len > 0) {
        memcpy(*at, from->bytes.ptr, from->bytes.len);
    }
    (*at)[from->bytes.len] = '\0';
    *at += from->bytes.len + 1;
}

/* One block: the result, its outputs, its path. */
waldo_exec_result *waldo__exec_result_copy(const waldo_exec_result *from)
{
    size_t path = from->capture_path != NULL ? strlen(from->capture_path) + 1 : 0;
    waldo_exec_result *copy = waldo__alloc(sizeof *copy + from->out.bytes.len +
                                           from->err.bytes.len + from->both.bytes.len + 3 + path);
    char *at = (char *)(copy + 1);

    if (copy == NULL) {
        return NULL;
    }
    *copy = *from;
    copy_output(&at, &from->out, &copy->out);
    copy_output(&at, &from->err, &copy->err);
    copy_output(&at, &from->both, &copy->both);
    if (path > 0) {
        memcpy(at, from->capture_path, path);
        copy->capture_path = at;
    }
    return copy;
}

static void wait_done(void *userdata, waldo_status status, const waldo_exec_result *result,
                      const waldo_error *error)
{
    waiting *wait = userdata;

    wait->over = 1;
    wait->status = status;
    wait->error = waldo_error_copy(error);
    if (status == WALDO_OK) {
        wait->result = waldo__exec_result_copy(result);
        wait->status = wait->result != NULL ? WALDO_OK : waldo__error_nomem(&wait->error);
    }
}

static void wait_output(void *userdata, int stream, waldo_str bytes)
{
    waiting *wait = userdata;

    wait->on_output(NULL, stream, bytes);
}

waldo_status waldo_sandbox_exec_wait(waldo_sandbox *sandbox, const waldo_exec_options *given,
                                     waldo_exec_result **ret_result, waldo_error **ret_err)
{
    waldo_exec_options options;
    waiting wait = { 0 };
    waldo_status status;

    if (sandbox == NULL || given == NULL || ret_result == NULL ||
        waldo__options_copy(&options, sizeof options, given) != WALDO_OK) {
        return refuse(ret_err, WALDO_EINVAL, "sandbox, options or ret_result is missing");
    }
    status = waldo__loop_check(sandbox->env->loop);
    if (status != WALDO_OK) {
        return refuse(ret_err, status, waldo_status_text(status));
    }
    options.size = sizeof options;
    wait.on_output = options.on_output;
    options.on_output = wait.on_output != NULL ? wait_output : NULL;
    status = waldo_sandbox_exec(sandbox, &options, wait_done, &wait, NULL, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    while (!wait.over && status == WALDO_OK) {
        status = waldo_runtime_step(sandbox->rt, WALDO_FOREVER);
        status = status == WALDO_ETIMEDOUT ? WALDO_OK : status;
    }
    if (!wait.over) {
        waldo__ops_stop(sandbox, status, NULL); /* wait is on this stack: nothing may come later */
        waldo__ops_finish_now(sandbox);
    }
    if (wait.status == WALDO_OK && wait.result != NULL) {
        *ret_result = wait.result;
        return WALDO_OK;
    }
    waldo__error_move(ret_err, wait.error);
    return wait.status != WALDO_OK ? wait.status : status;
}

void waldo_exec_result_free(waldo_exec_result *result)
{
    waldo__free(result);
}
