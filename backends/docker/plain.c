/*
 * Commands of a container without a hand. With a shell inside, a command says its process id before
 * it becomes what was asked for, so that a second exec can end its process group: the engine makes
 * every exec the leader of one (runc). Without a shell only the container's end ends a command.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "codec/tar.h"
#include "plain.h"

enum {
    PUT_MS = 60000,
    START_MS = 10000, /* for a command that shall end to say who it is */
    KILL_MS = 4000,   /* for its stream to end; engines hold it for 2 s when others do, too */
    HEAD_MAX = 4096,
    EARLY_MAX = 1024 * 1024,
    ARGS_MAX = 8192
};

/* The first line of a command, then its process id. */
#define MARK "waldo:"

/* How an engine begins to tell why a program could not be started (moby, daemon/exec.go). */
#define NO_START "OCI runtime exec failed"

typedef enum stage { STAGE_HEAD, STAGE_OUTPUT, STAGE_FAILED } stage;

typedef struct plain_job {
    docker_item item;
    docker_plain *plain;
    waldo_status status;
    stage stage;
    waldo_error *error;
    int64_t pid;
    waldo__cancel_watch *cancel;
    int64_t grace_ms;
    waldo_exec_end end; /* EXITED: nobody asked for another */
    int signal;         /* that was sent last */
    int merge;
    waldo_output_fn on_output;
    waldo_backend_exec_fn done;
    void *userdata;
    char input[64];    /* file; empty: none */
    waldo__task early; /* ends that are known at once */
    waldo__buf head;   /* of its output, until it is clear what it is; then the engine's words */
    waldo__buf error_head; /* of its error output, until then */
    waldo__timer timer;
    docker_call upload; /* of its input */
    docker_exec command;
    docker_exec killer;
} plain_job;

/* ---- the machine ---- */

void waldo__docker_item_add(docker_plain *plain, docker_item *item)
{
    item->next = &plain->items;
    item->prev = plain->items.prev;
    item->prev->next = item;
    plain->items.prev = item;
}

void waldo__docker_item_remove(docker_item *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
}

void waldo__docker_plain_init(docker_plain *plain, docker_engine *engine, const char *container,
                              const docker_options *options, int shell)
{
    *plain = (docker_plain){ .engine = engine,
                             .container = container,
                             .uid = options->uid,
                             .gid = options->gid,
                             .shell = shell };
    plain->items.next = plain->items.prev = &plain->items;
    waldo__docker_call_init(&plain->ender, engine, plain);
}

void waldo__docker_plain_free(docker_plain *plain)
{
    while (plain->engine != NULL && plain->items.next != &plain->items) {
        docker_item *item = plain->items.next;

        waldo__docker_item_remove(item);
        item->free(item);
    }
    waldo__docker_call_free(&plain->ender);
}

/* Its streams end, and so do the commands that wait for it. */
static void on_ended(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)userdata;
    (void)status;
    (void)error;
}

void waldo__docker_plain_end(docker_plain *plain, const char *why)
{
    if (plain->ending) {
        return;
    }
    plain->ending = 1;
    snprintf(plain->lost, sizeof plain->lost, "%s", why);
    waldo__buf_printf(&plain->ender.path, "/containers/%s/kill?signal=SIGKILL", plain->container);
    waldo__docker_call_start(&plain->ender, "POST", PUT_MS, WALDO__NEVER, on_ended);
}

/* ---- the end of a command ---- */

static void release(void *userdata)
{
    waldo__free(userdata);
}

static void job_free(docker_item *item)
{
    plain_job *job = (plain_job *)item;
    waldo__loop *loop = job->plain->engine->env->loop;

    waldo__task_cancel(loop, &job->early);
    waldo__timer_disarm(loop, &job->timer);
    waldo__cancel_watch_free(job->cancel);
    waldo__docker_exec_free(&job->command);
    waldo__docker_exec_free(&job->killer);
    waldo__docker_call_free(&job->upload);
    waldo__buf_free(&job->head);
    waldo__buf_free(&job->error_head);
    waldo_error_free(job->error);
    if (job->command.busy) {
        job->command.release = release;
    } else {
        waldo__free(job);
    }
}

/* done may free the machine, so it comes last. error is not of the job. */
static void finish(plain_job *job, waldo_status status, int exit_code, const waldo_error *error)
{
    waldo_backend_exec_fn done = job->done;
    void *userdata = job->userdata;
    waldo_exec_end end = job->end;
    int signal = exit_code > 128 ? exit_code - 128 : job->signal;

    waldo__docker_item_remove(&job->item);
    job_free(&job->item);
    if (end != WALDO_EXEC_EXITED) {
        done(userdata, WALDO_OK, end, 0, signal, NULL); /* it was to end, and has */
    } else {
        done(userdata, status, end, exit_code, 0, status != WALDO_OK ? error : NULL);
    }
}

static void finish_early(void *userdata)
{
    plain_job *job = userdata;
    waldo_error *error = job->error;

    job->error = NULL;
    finish(job, job->status, 0, error);
    waldo_error_free(error);
}

/* ---- ending one ---- */

static void send_signal(plain_job *job, int signal);

static void on_timer(void *userdata);

static void arm(plain_job *job, int64_t ms)
{
    waldo__timer_arm(job->plain->engine->env->loop, &job->timer, waldo__deadline_ns(ms));
}

static void on_killed(void *userdata, waldo_status status, int exit_code, const waldo_error *error)
{
    (void)userdata;
    (void)status;
    (void)exit_code;
    (void)error;
}

/* "kill -s TERM -- -1" would be read in more than one way; a signal's number is not. */
static void send_signal(plain_job *job, int signal)
{
    char group[32];
    const char *const argv[] = { "/bin/sh", "-c", signal == 9 ? "kill -9 $0" : "kill -15 $0", group,
                                 NULL };

    job->signal = signal;
    snprintf(group, sizeof group, "-%lld", (long long)job->pid);
    waldo__docker_exec_free(&job->killer);
    waldo__docker_exec_init(&job->killer, job->plain->engine, job->plain->container, job);
    waldo__docker_put_command(&job->killer.call.body, argv, NULL, "/", NULL, 0);
    waldo__docker_exec_start(&job->killer, NULL, on_killed);
    arm(job, signal == 9 ? KILL_MS : job->grace_ms);
}

static void end_container(plain_job *job)
{
    job->signal = 9;
    waldo__docker_plain_end(job->plain,
                            job->plain->shell
                                ? "a command did not end when it was killed, so the container was"
                                : "a command had to end, and without /bin/sh in the image only "
                                  "the container could be ended");
    arm(job, KILL_MS);
}

static void begin_end(plain_job *job)
{
    if (!job->plain->shell) {
        end_container(job);
    } else if (job->pid > 0) {
        send_signal(job, job->grace_ms > 0 ? 15 : 9);
    } else {
        arm(job, START_MS);
    }
}

static void stop(plain_job *job, waldo_exec_end end)
{
    if (job->end == WALDO_EXEC_EXITED) {
        job->end = end;
        begin_end(job);
    }
}

static void on_timer(void *userdata)
{
    plain_job *job = userdata;

    if (job->end == WALDO_EXEC_EXITED) {
        stop(job, WALDO_EXEC_TIMED_OUT);
    } else if (job->plain->ending) {
        finish(job, WALDO_OK, 0, NULL);
    } else if (job->signal == 15) {
        send_signal(job, 9);
    } else {
        end_container(job);
    }
}

static void on_cancel(void *userdata)
{
    plain_job *job = userdata;

    stop(job, WALDO_EXEC_CANCELLED);
}

/* ---- output ---- */

static void give(plain_job *job, int stream, waldo_str bytes)
{
    if (bytes.len > 0) {
        job->on_output(job->userdata, job->merge ? 1 : stream, bytes);
    }
}

/* What was held back is the command's own after all. */
static void begin_output(plain_job *job, size_t skip)
{
    waldo_str head = waldo__buf_str(&job->head);

    waldo__buf both[2] = { job->head, job->error_head }; /* the first piece may end the job */

    job->stage = STAGE_OUTPUT;
    waldo__buf_init(&job->head, 0);
    waldo__buf_init(&job->error_head, 0);
    give(job, 1, waldo__strn(head.ptr + skip, head.len - skip));
    if (job->command.release == NULL) {
        give(job, 2, waldo__buf_str(&both[1]));
    }
    waldo__buf_free(&both[0]);
    waldo__buf_free(&both[1]);
}

/* "waldo:PID" and the end of the line, before anything else. */
static void look_for_mark(plain_job *job)
{
    waldo_str head = waldo__buf_str(&job->head);
    size_t end = waldo__str_find(head, '\n');
    size_t mark = sizeof MARK - 1;
    size_t known = head.len < mark ? head.len : mark;

    if (memcmp(head.ptr, MARK, known) != 0) {
        job->stage = STAGE_FAILED;
    } else if (end < head.len) {
        if (!waldo__str_int(waldo__strn(head.ptr + mark, end - mark), &job->pid) || job->pid < 2) {
            job->stage = STAGE_FAILED;
            return;
        }
        if (job->end != WALDO_EXEC_EXITED) {
            begin_end(job);
        }
        begin_output(job, end + 1);
    }
}

static void look_for_failure(plain_job *job)
{
    waldo_str head = waldo__buf_str(&job->head);
    size_t known = head.len < sizeof NO_START - 1 ? head.len : sizeof NO_START - 1;

    if (memcmp(head.ptr, NO_START, known) != 0) {
        begin_output(job, 0);
    } else if (known == sizeof NO_START - 1) {
        job->stage = STAGE_FAILED;
    }
}

static void on_output(void *userdata, int stream, waldo_str bytes)
{
    plain_job *job = userdata;

    if (job->stage == STAGE_OUTPUT) {
        give(job, stream, bytes);
        return;
    }
    waldo__buf_add_str(stream == 2 ? &job->error_head : &job->head, bytes);
    if (job->stage == STAGE_HEAD && stream == 1) {
        if (job->plain->shell) {
            look_for_mark(job);
        } else {
            look_for_failure(job);
        }
    } else if (job->stage == STAGE_HEAD && !job->plain->shell) {
        begin_output(job, 0); /* the engine's words come as output */
    }
}

static void on_command_over(void *userdata, waldo_status status, int exit_code,
                            const waldo_error *error)
{
    plain_job *job = userdata;
    waldo_error *made = NULL;
    waldo_str said;

    if (status == WALDO_OK && job->stage == STAGE_HEAD && !job->plain->shell) {
        begin_output(job, 0);
    }
    if (status == WALDO_OK && job->stage != STAGE_OUTPUT) {
        said = waldo__str_trim(waldo__buf_str(job->head.len > 0 ? &job->head : &job->error_head));
        if (said.len == 0) {
            said = WALDO__S("the command ended before it began");
        }
        status = waldo_error_set(&made, WALDO_ESTART, WALDO_CLASS_BACKEND, "%.*s",
                                 (int)(said.len < 1000 ? said.len : 1000), said.ptr);
        error = made;
    }
    finish(job, status, exit_code, error);
    waldo_error_free(made);
}

/* ---- beginning one ---- */

static void run(plain_job *job)
{
    waldo__docker_exec_start(&job->command, on_output, on_command_over);
}

static void on_uploaded(void *userdata, waldo_status status, const waldo_error *error)
{
    plain_job *job = userdata;
    waldo_error *made = NULL;

    if (status != WALDO_OK || job->upload.ask.http_status != 200) {
        status = waldo__docker_call_error(&job->upload, status, error, "giving a command its input",
                                          &made);
        finish(job, status, 0, made);
        waldo_error_free(made);
        return;
    }
    waldo__buf_free(&job->upload.body);
    run(job);
}

static void upload(plain_job *job, waldo_str bytes)
{
    waldo__tar_entry entry = { .name = job->input,
                               .mode = 0600,
                               .uid = job->plain->uid,
                               .gid = job->plain->gid,
                               .mtime_s = waldo__wall_ms() / 1000,
                               .bytes = bytes };

    snprintf(job->input, sizeof job->input, ".waldo-input-%u", ++job->plain->inputs);
    waldo__buf_init(&job->upload.body, bytes.len + 4096);
    waldo__tar_put(&job->upload.body, &entry);
    waldo__tar_end(&job->upload.body);
    waldo__buf_printf(&job->upload.path, "/containers/%s/archive?path=/tmp", job->plain->container);
    waldo__docker_call_start(&job->upload, "PUT", PUT_MS, WALDO__NEVER, on_uploaded);
}

/*
 * Say the process id, open the input, become the command. What cannot be found is told before the
 * line that says it has begun.
 */
static void put_script(const plain_job *job, int has_input, waldo__buf *out)
{
    waldo__buf_puts(out, "command -v \"$1\" >/dev/null 2>&1 || { echo \"$1: no such program\" >&2; "
                         "exit 127; }\necho " MARK "$$\n");
    if (job->merge) {
        waldo__buf_puts(out, "exec 2>&1\n");
    }
    if (has_input) {
        waldo__buf_printf(out, "exec </tmp/.waldo-input-%u\nrm -f /tmp/.waldo-input-%u\n",
                          job->plain->inputs + 1, job->plain->inputs + 1);
    }
    waldo__buf_puts(out, "exec \"$@\"\n");
}

static waldo_status put_command(plain_job *job, const waldo_backend_exec *exec,
                                waldo_error **ret_err)
{
    waldo__buf script = WALDO__BUF_INIT(4096);
    const char **argv;
    size_t count = 0;
    size_t at = 0;

    while (exec->argv[count] != NULL) {
        count++;
    }
    if (count > ARGS_MAX) {
        return waldo_error_set(ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                               "docker: a command has at most %d arguments here", ARGS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (!waldo__utf8_valid(waldo__str(exec->argv[i]))) {
            return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                                   "docker: without a hand arguments have to be UTF-8");
        }
    }
    if (exec->input.len > 0 && !job->plain->shell) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                               "docker: without a hand and without /bin/sh in the image a command "
                               "cannot be given input");
    }
    argv = waldo__calloc(count + 5, sizeof *argv);
    if (argv == NULL) {
        return waldo__error_nomem(ret_err);
    }
    if (job->plain->shell) {
        put_script(job, exec->input.len > 0, &script);
        argv[at++] = "/bin/sh";
        argv[at++] = "-c";
        argv[at++] = waldo__buf_str(&script).ptr;
        argv[at++] = "sh";
    }
    memcpy(argv + at, exec->argv, count * sizeof *argv);
    waldo__docker_put_command(&job->command.call.body, argv, exec->env, exec->cwd, NULL, 0);
    waldo__free(argv);
    waldo__buf_free(&script);
    return job->command.call.body.status;
}

static waldo_status prepare(plain_job *job, const waldo_backend_exec *exec,
                            const waldo_backend_call *call)
{
    waldo_status status;

    if (job->plain->lost[0] != '\0') {
        return waldo_error_set(&job->error, WALDO_ELOST, WALDO_CLASS_BACKEND, "docker: %s",
                               job->plain->lost);
    }
    status = put_command(job, exec, &job->error);
    if (status == WALDO_OK && call->cancel != NULL) {
        status = waldo__cancel_watch_new(job->plain->engine->env->loop, call->cancel, on_cancel,
                                         job, &job->cancel);
    }
    return status;
}

void waldo__docker_exec1(waldo_machine *machine, const waldo_backend_exec *exec,
                         const waldo_backend_call *call, waldo_backend_exec_fn done)
{
    docker_plain *plain = waldo__docker_plain_of(machine);
    plain_job *job = WALDO__NEW(plain_job);

    if (job == NULL) {
        done(call->userdata, WALDO_ENOMEM, WALDO_EXEC_EXITED, 0, 0, NULL);
        return;
    }
    *job = (plain_job){ .item = { .free = job_free },
                        .plain = plain,
                        .head = WALDO__BUF_INIT(HEAD_MAX),
                        .error_head = WALDO__BUF_INIT(EARLY_MAX),
                        .grace_ms = exec->grace_ms,
                        .end = WALDO_EXEC_EXITED,
                        .merge = (exec->flags & WALDO_EXEC_MERGE) != 0,
                        .on_output = exec->on_output,
                        .done = done,
                        .userdata = call->userdata };
    waldo__docker_item_add(plain, &job->item);
    waldo__task_init(&job->early, finish_early, job);
    waldo__timer_init(&job->timer, on_timer, job);
    waldo__docker_exec_init(&job->command, plain->engine, plain->container, job);
    waldo__docker_call_init(&job->upload, plain->engine, job);
    job->status = prepare(job, exec, call);
    if (job->status != WALDO_OK) {
        waldo__task_queue(plain->engine->env->loop, &job->early);
        return;
    }
    if (exec->timeout_ms > 0) {
        arm(job, exec->timeout_ms);
    }
    if (exec->input.len > 0) {
        upload(job, exec->input);
    } else {
        run(job);
    }
}
