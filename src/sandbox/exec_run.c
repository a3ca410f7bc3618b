/* Commands as the machine sees them: through the hand, or through the backend's exec1. */
#include <signal.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/job.h"

enum {
    SCRIPT_FRAME_MAX = 192 * 1024,   /* longer text is written to a file first */
    SCRIPT_ARGUMENT_MAX = 96 * 1024, /* without a hand; the kernel's limit is 128 KiB */
    CREDIT = 1024 * 1024,            /* output bytes on their way, with WALDO_EXEC_ALL_OUTPUT */
    CREDIT_STEP = 256 * 1024,
    BACKSTOP_MS = 10000, /* after timeout and grace, for a hand that does not do its work */
    LATE_NS = 200000000, /* more than a loop that turns is late */
    ARGS_MAX = 4096,
    SHELL_KILLED = 128 + SIGKILL /* what a shell exits with when its last command was killed */
};

static waldo__loop *loop_of(const waldo_job *job)
{
    return job->op.sandbox->env->loop;
}

void waldo__job_stop(waldo_job *job)
{
    waldo__timer_disarm(loop_of(job), &job->backstop);
    waldo__cancel_watch_free(job->cancel_watch);
    job->cancel_watch = NULL;
    if (job->script != NULL) {
        job->script->job = NULL;
        job->script = NULL;
    }
    if (job->call != NULL) {
        waldo__hand_forget(job->call);
        job->call = NULL;
    }
    if (job->op.in_backend && job->backend_cancel != NULL) {
        waldo_cancel_trigger(job->backend_cancel);
    }
}

/* ---- output ---- */

/* The callback comes last: it may end the job. */
void waldo__job_output(waldo_job *job, int stream, waldo_str bytes)
{
    waldo__collect *collect = stream == 2 ? &job->err : &job->out;

    job->seen[stream - 1] += bytes.len;
    waldo__collect_add(collect, bytes);
    waldo__merge_add(&job->merge, &job->both, stream, bytes);
    if ((job->flags & WALDO_EXEC_ALL_OUTPUT) != 0 && job->call != NULL) {
        job->owed += bytes.len;
        if (job->owed >= CREDIT_STEP) {
            waldo__hand_credit(job->call, job->owed);
            job->owed = 0;
        }
    }
    if (job->on_output != NULL && job->op.state == WALDO__OP_RUNNING) {
        job->on_output(job->userdata, stream, bytes);
    }
}

/* Bytes of a stream that were dropped on the other side. */
static void skip_to(waldo_job *job, int stream, uint64_t offset)
{
    uint64_t gap = offset - job->seen[stream - 1];

    if (offset > job->seen[stream - 1]) {
        waldo__collect_skip(stream == 2 ? &job->err : &job->out, gap);
        waldo__merge_flush(&job->merge, &job->both);
        waldo__collect_skip(&job->both, gap);
        job->seen[stream - 1] = offset;
    }
}

static void hand_output(void *userdata, int stream, uint64_t offset, waldo_str bytes)
{
    skip_to(userdata, stream, offset);
    waldo__job_output(userdata, stream, bytes);
}

/* ---- input ---- */

void waldo__job_pump(waldo_job *job)
{
    if (job->call == NULL || job->input_ended) {
        return;
    }
    while (job->input.len > 0 && job->window > 0) {
        size_t part = job->input.len < job->window ? job->input.len : job->window;

        if (waldo__hand_stdin(job->call, waldo__strn(job->input.ptr, part)) != WALDO_OK) {
            return;
        }
        waldo__buf_consume(&job->input, part);
        job->window -= part;
    }
    if (job->input.len == 0 && job->input_ends) {
        job->input_ended = 1;
        waldo__hand_stdin_eof(job->call);
    }
}

static void hand_taken(void *userdata, uint64_t bytes)
{
    waldo_job *job = userdata;
    size_t used = WALDO_HAND_STDIN_WINDOW - job->window;

    job->window += bytes < used ? (size_t)bytes : used;
    waldo__job_pump(job);
}

/* ---- the end ---- */

static waldo_exec_end end_of(const waldo__hand_exit *exit)
{
    if ((exit->flags & WALDO_HAND_EXIT_LOST) != 0) {
        return WALDO_EXEC_LOST;
    }
    if ((exit->flags & WALDO_HAND_EXIT_TIMED_OUT) != 0) {
        return WALDO_EXEC_TIMED_OUT;
    }
    if ((exit->flags & WALDO_HAND_EXIT_CANCELLED) != 0) {
        return WALDO_EXEC_CANCELLED;
    }
    if (exit->how == WALDO_HAND_HOW_UNKNOWN) {
        return WALDO_EXEC_LOST;
    }
    /* The kernel killed for memory meanwhile: the leader, or a child that a shell waited for. */
    if ((exit->flags & WALDO_HAND_EXIT_OOM) != 0 &&
        exit->value == (exit->how == WALDO_HAND_HOW_EXITED ? SHELL_KILLED : SIGKILL)) {
        return WALDO_EXEC_OOM;
    }
    return exit->how == WALDO_HAND_HOW_EXITED ? WALDO_EXEC_EXITED : WALDO_EXEC_SIGNALED;
}

void waldo__exec_result_of(const waldo__hand_exit *exit, waldo_exec_result *ret_result)
{
    ret_result->end = end_of(exit);
    if (exit->how == WALDO_HAND_HOW_EXITED) {
        ret_result->exit_code = exit->value;
    } else if (exit->how == WALDO_HAND_HOW_SIGNALLED) {
        ret_result->signal = exit->value;
    }
    ret_result->still_open = (exit->flags & WALDO_HAND_EXIT_OPEN) != 0;
    ret_result->wall_ns = exit->wall_ns < INT64_MAX ? (int64_t)exit->wall_ns : INT64_MAX;
    if (exit->user_us < INT64_MAX / 2000 && exit->system_us < INT64_MAX / 2000) {
        ret_result->cpu_ns = (int64_t)(exit->user_us + exit->system_us) * 1000;
    }
}

static void take_exit(waldo_job *job, const waldo__hand_exit *exit)
{
    waldo_exec_result *result = &job->result;
    int truncated;

    skip_to(job, 1, exit->total[0]);
    skip_to(job, 2, exit->total[1]);
    waldo__merge_flush(&job->merge, &job->both);
    truncated = job->both.gap || job->out.gap || job->err.gap || job->both.total > job->max_output;
    waldo__exec_result_of(exit, result);
    if (job->capture[0] != '\0' && truncated && exit->captured > 0) {
        result->capture_path = job->capture;
        result->capture_bytes = exit->captured;
        result->capture_lost = exit->capture_lost;
    } else if (job->capture[0] != '\0') {
        job->op.sandbox->reuse_capture = 1;
    }
}

/* What was to be run, for an error message. */
static const char *name_of(const waldo_job *job)
{
    return job->cmd != NULL ? job->shell : job->argv[0];
}

static void hand_ended(void *userdata, const waldo__hand_end *end)
{
    waldo_job *job = userdata;
    waldo_error *error = NULL;

    job->call = NULL;
    if (end->status == WALDO_OK) {
        take_exit(job, end->exit);
    } else {
        error = waldo_error_copy(end->error);
        if (end->status != WALDO_ELOST) {
            waldo__error_prefix(error, name_of(job));
        }
    }
    waldo__op_end(&job->op, end->status, error);
}

static const waldo__hand_call_fns job_fns = { .output = hand_output,
                                              .taken = hand_taken,
                                              .ended = hand_ended };

waldo_status waldo__job_adopt(waldo_job *job, uint32_t hand_id)
{
    job->started_ns = waldo__now_ns();
    return waldo__hand_adopt(job->op.sandbox->hand, hand_id, &job_fns, job, &job->call);
}

/* The earlier time counts: who asks again and again gives a silent hand no more of it. */
static void arm_backstop(waldo_job *job, int64_t ms)
{
    int64_t due_ns = waldo__deadline_ns(ms);

    if (waldo__timer_armed(&job->backstop) && job->backstop.due_ns <= due_ns) {
        return;
    }
    if (waldo__timer_arm(loop_of(job), &job->backstop, due_ns) != WALDO_OK) {
        waldo__op_fail(&job->op, WALDO_ENOMEM, "out of memory");
    }
}

/* The hand did not keep its promise: the machine is ended from outside. */
void waldo__job_too_late(void *userdata)
{
    waldo_job *job = userdata;
    waldo_error *error = NULL;

    /* This thread did not come to look in time: what the hand sent meanwhile is read first. */
    if (waldo__now_ns() - job->backstop.due_ns > LATE_NS) {
        arm_backstop(job, BACKSTOP_MS);
        return;
    }
    waldo_error_set(&error, WALDO_ELOST, WALDO_CLASS_BACKEND,
                    "a command was not ended in time: the hand, or what its stream goes through, "
                    "does not answer");
    waldo__live_lose(job->op.sandbox, error);
    waldo_error_free(error);
}

/* ---- through the hand ---- */

/* A name is used again when the file before was not needed. */
static void name_capture(waldo_job *job)
{
    waldo_sandbox *sandbox = job->op.sandbox;

    sandbox->next_file +=
        sandbox->reuse_capture && !waldo__ops_have_other_jobs(sandbox, &job->op) ? 0 : 1;
    sandbox->reuse_capture = 0;
    snprintf(job->capture, sizeof job->capture, WALDO__CAPTURE_NAME,
             (unsigned long long)sandbox->next_file);
}

static void fill_limits(waldo_job *job, waldo__hand_run *run)
{
    run->timeout_ms = job->timeout_ms > 0 ? (uint32_t)job->timeout_ms : 0;
    run->grace_ms = (uint32_t)job->grace_ms;
    run->has_grace = 1;
    if (job->kept) {
        run->tail[0] = (uint32_t)job->max_output;
    } else if ((job->flags & WALDO_EXEC_ALL_OUTPUT) != 0) {
        run->credit = CREDIT;
    } else {
        run->head[0] = run->head[1] = job->out.head_max;
        run->tail[0] = run->tail[1] = (uint32_t)job->out.tail_max;
    }
    if (job->max_capture > 0) {
        name_capture(job);
        run->capture_path = waldo__str(job->capture);
        run->capture_max = job->max_capture;
    }
}

typedef struct texts {
    WALDO__VEC(waldo_str);
} texts;

static waldo_status add_texts(texts *list, char *const *strings)
{
    for (size_t i = 0; strings != NULL && strings[i] != NULL; i++) {
        waldo_str *text = list->count < ARGS_MAX ? WALDO__VEC_PUSH(list) : NULL;

        if (text == NULL) {
            return WALDO_ETOOBIG;
        }
        *text = waldo__str(strings[i]);
    }
    return WALDO_OK;
}

static void after_start(waldo_job *job)
{
    int64_t limit = job->timeout_ms;

    if (limit > 0) {
        arm_backstop(job, limit + job->grace_ms + BACKSTOP_MS);
    }
    if (job->on_started != NULL) {
        job->on_started(job->userdata, waldo__hand_call_id(job->call));
    }
    if (job->pending_signal != 0) {
        waldo__hand_signal(job->call, job->pending_signal, WALDO_HAND_SCOPE_GROUP);
    }
    waldo__job_pump(job);
}

/* What the program text or argv becomes. */
static waldo_status fill_args(const waldo_job *job, const char *script_path, waldo__hand_run *run,
                              texts *args)
{
    char *const by_script[] = { job->shell, (char *)"-l", NULL };
    char *const by_path[] = { (char *)script_path, NULL };
    int login = (job->flags & WALDO_EXEC_LOGIN) != 0;
    waldo_status status;

    if (job->cmd == NULL) {
        return add_texts(args, job->argv);
    }
    status = add_texts(args, login ? by_script : (char *const[]){ job->shell, NULL });
    if (script_path == NULL) {
        run->script = waldo__str(job->cmd);
        return status;
    }
    return status == WALDO_OK ? add_texts(args, by_path) : status;
}

static void fill_streams(waldo_job *job, waldo__hand_run *run)
{
    if ((job->flags & WALDO_EXEC_MERGE) != 0) {
        run->flags |= WALDO_HAND_RUN_MERGE;
    }
    /* Without a terminal no input is /dev/null: nothing to end. */
    job->input_ended = job->input_ends && job->input.len == 0 && (job->flags & WALDO_EXEC_TTY) == 0;
    if (!job->input_ended) {
        run->flags |= WALDO_HAND_RUN_STDIN;
    }
    if (job->kept) {
        run->flags |= WALDO_HAND_RUN_KEEP | WALDO_HAND_RUN_MERGE;
    }
    if ((job->flags & WALDO_EXEC_TTY) != 0) {
        run->flags |= WALDO_HAND_RUN_PTY;
        run->rows = job->rows;
        run->columns = job->columns;
    }
}

static void send_run(waldo_job *job, const char *script_path)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo_sandbox *sandbox = job->op.sandbox;
    char *const terminal[] = { (char *)"TERM=dumb", NULL };
    char label[24];
    waldo__buf cwd = WALDO__BUF_INIT(8192);
    texts args = { 0 };
    texts envs = { 0 };
    waldo_status status;

    waldo__path_absolute(&job->cwd, &cwd);
    run.cwd = waldo__buf_str(&cwd);
    fill_streams(job, &run);
    status = fill_args(job, script_path, &run, &args);
    if (status == WALDO_OK && (job->flags & WALDO_EXEC_TTY) != 0) {
        status = add_texts(&envs, terminal);
    }
    status = status == WALDO_OK ? add_texts(&envs, waldo__live_entry(sandbox)->env) : status;
    status = status == WALDO_OK ? add_texts(&envs, job->env) : status;
    run.args = args.at;
    run.arg_count = args.count;
    run.envs = envs.at;
    run.env_count = envs.count;
    fill_limits(job, &run);
    if (job->number > 0 && waldo__live_rejoins(sandbox)) { /* by which a later session knows it */
        snprintf(label, sizeof label, "%lld", (long long)job->number);
        run.label = waldo__str(label);
    }
    job->started_ns = waldo__now_ns();
    if (status == WALDO_OK) {
        status = waldo__hand_start_run(sandbox->hand, &run, &job_fns, job, &job->call);
    }
    WALDO__VEC_FREE(&args);
    WALDO__VEC_FREE(&envs);
    waldo__buf_free(&cwd);
    if (status == WALDO_OK) {
        after_start(job);
    } else {
        job->started_ns = 0;
        waldo__op_fail(&job->op, status, "%s: %s", name_of(job),
                       status == WALDO_ETOOBIG ? "arguments and environment are too long"
                                               : waldo_status_text(status));
    }
}

static void run_exec1(waldo_job *job, const char *script_path);

static void script_written(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__script *script = userdata;
    waldo_job *job = script->job;

    if (job != NULL) {
        job->script = NULL;
        if (status == WALDO_OK && job->op.sandbox->hand == NULL) {
            run_exec1(job, script->path);
        } else if (status == WALDO_OK) {
            send_run(job, script->path);
        } else {
            waldo__op_end(&job->op, status, waldo_error_copy(error));
        }
    }
    waldo__free(script);
}

static void write_script(waldo_job *job)
{
    waldo__script *script = WALDO__NEW(waldo__script);
    waldo_sandbox *sandbox = job->op.sandbox;

    if (script == NULL) {
        waldo__op_fail(&job->op, WALDO_ENOMEM, "out of memory");
        return;
    }
    script->job = job;
    job->script = script;
    snprintf(script->path, sizeof script->path, WALDO__SCRIPT_NAME,
             (unsigned long long)++sandbox->next_file);
    sandbox->inside += job->op.internal;
    waldo__files_write(sandbox, script->path, waldo__str(job->cmd), 0700, WALDO__WRITE_PLAIN,
                       script_written, script);
    sandbox->inside -= job->op.internal;
}

/* ---- through exec1 ---- */

static void exec1_output(void *userdata, int stream, waldo_str bytes)
{
    waldo_job *job = userdata;

    if (job->op.state == WALDO__OP_RUNNING && (stream == 1 || stream == 2)) {
        waldo__job_output(job, stream, bytes);
    }
}

static void exec1_done(void *userdata, waldo_status status, waldo_exec_end end, int exit_code,
                       int signal, const waldo_error *error)
{
    waldo_job *job = userdata;

    if (!waldo__op_backend_done(&job->op)) {
        return;
    }
    if (status == WALDO_ELOST) {
        waldo__live_lose(job->op.sandbox, error);
        return;
    }
    if (status == WALDO_OK) {
        job->result.end = end;
        job->result.exit_code = end == WALDO_EXEC_EXITED ? exit_code : 0;
        job->result.signal = end != WALDO_EXEC_EXITED ? signal : 0;
    }
    waldo__op_end(&job->op, status, waldo_error_copy(error));
}

static void run_exec1(waldo_job *job, const char *script_path)
{
    waldo_sandbox *sandbox = job->op.sandbox;
    int login = (job->flags & WALDO_EXEC_LOGIN) != 0;
    const char *const by_shell[] = { job->shell, login ? "-lc" : "-c", job->cmd, NULL };
    const char *const by_file[] = { job->shell, login ? "-l" : script_path,
                                    login ? script_path : NULL, NULL };
    waldo__buf cwd = WALDO__BUF_INIT(8192);
    char *const *lists[] = { waldo__live_entry(sandbox)->env, job->env };
    waldo_backend_call call;
    waldo_backend_exec exec = { .size = sizeof exec,
                                .flags = job->flags & WALDO_EXEC_MERGE,
                                .argv = script_path != NULL ? by_file
                                        : job->cmd != NULL  ? by_shell
                                                            : (const char *const *)job->argv,
                                .input = waldo__buf_str(&job->input),
                                .timeout_ms = job->timeout_ms,
                                .grace_ms = job->grace_ms,
                                .on_output = exec1_output };
    struct {
        WALDO__VEC(const char *);
    } env = { 0 };
    const char **slot;

    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; lists[i][j] != NULL; j++) {
            slot = WALDO__VEC_PUSH(&env);
            if (slot != NULL) {
                *slot = lists[i][j];
            }
        }
    }
    slot = WALDO__VEC_PUSH(&env); /* the NULL at the end */
    job->backend_cancel = waldo_cancel_new();
    if (slot == NULL || job->backend_cancel == NULL) {
        waldo__op_fail(&job->op, WALDO_ENOMEM, "out of memory");
    } else if (!job->input_ends) {
        waldo__op_fail(&job->op, WALDO_ENOTSUP, "%s: cannot keep standard input open",
                       waldo__live_entry(sandbox)->ops->name);
    } else {
        waldo__path_absolute(&job->cwd, &cwd);
        exec.cwd = waldo__buf_str(&cwd).ptr;
        exec.env = env.at;
        job->started_ns = waldo__now_ns();
        waldo__op_backend_call(&job->op, &call,
                               job->timeout_ms > 0
                                   ? waldo__deadline_ns(job->timeout_ms + job->grace_ms)
                                   : WALDO__NEVER);
        call.cancel = job->backend_cancel;
        waldo__live_entry(sandbox)->ops->exec1(sandbox->machine, &exec, &call, exec1_done);
    }
    WALDO__VEC_FREE(&env);
    waldo__buf_free(&cwd);
}

/* ---- both ---- */

static int hand_has(const waldo_sandbox *sandbox, uint64_t feature)
{
    return sandbox->hand != NULL && (waldo__hand_features(sandbox->hand) & feature) != 0;
}

void waldo__job_run(waldo_job *job)
{
    waldo_sandbox *sandbox = job->op.sandbox;

    if (job->cancel != NULL && waldo_cancel_triggered(job->cancel)) {
        waldo__op_end(&job->op, WALDO_ECANCELED, NULL);
    } else if ((job->flags & WALDO_EXEC_TTY) != 0 && !hand_has(sandbox, WALDO_HAND_FEATURE_PTY)) {
        waldo__op_fail(&job->op, WALDO_ENOTSUP, "%s: this sandbox has no terminals",
                       waldo__live_entry(sandbox)->ops->name);
    } else if (job->kept && !hand_has(sandbox, WALDO_HAND_FEATURE_JOBS)) {
        waldo__op_fail(&job->op, WALDO_ENOTSUP, "%s: this sandbox has no background commands",
                       waldo__live_entry(sandbox)->ops->name);
    } else if (sandbox->hand == NULL && job->cmd != NULL &&
               strlen(job->cmd) > SCRIPT_ARGUMENT_MAX &&
               (waldo__live_caps(sandbox) & WALDO_BACKEND_FILES) != 0) {
        write_script(job);
    } else if (sandbox->hand == NULL) {
        run_exec1(job, NULL);
    } else if (job->cmd != NULL && strlen(job->cmd) > SCRIPT_FRAME_MAX) {
        write_script(job);
    } else {
        send_run(job, NULL);
    }
}

void waldo__job_op_cancel(waldo__op *op, int64_t grace_ms)
{
    waldo_job *job = (waldo_job *)op;
    int64_t end_ns;

    if (op->state == WALDO__OP_ENDED) {
        return;
    }
    if (op->in_backend) {
        waldo_cancel_trigger(job->backend_cancel);
        return;
    }
    if (job->call == NULL) {
        waldo__job_stop(job);
        waldo__op_end(op, WALDO_ECANCELED, NULL);
        return;
    }
    grace_ms = grace_ms < job->grace_ms ? grace_ms : job->grace_ms;
    arm_backstop(job, grace_ms + BACKSTOP_MS);
    end_ns = waldo__deadline_ns(grace_ms);
    /* Only an earlier end is news to the hand. */
    if ((job->cancel_end_ns == 0 || end_ns < job->cancel_end_ns) &&
        waldo__hand_cancel(job->call, (uint32_t)grace_ms) == WALDO_OK) {
        job->cancel_end_ns = end_ns;
    }
}
