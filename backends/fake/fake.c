/*
 * The fake backend: machines that are a file tree in memory and a few commands. Nothing of it runs
 * outside of this process. For tests and dry runs.
 */
#include <string.h>
#include <sys/stat.h>

#include "backend/labels.h"
#include "base/error.h"
#include "loop/loop.h"
#include "shell.h"

enum { PATH_BYTES = 4096 };
#define SPACE_DEFAULT ((size_t)64 * 1024 * 1024)

typedef struct op op;

struct waldo_machine {
    waldo__loop *loop;
    op *ops; /* not yet completed, in no order */
    fake_tree tree;
    int64_t lose_after; /* operations until the machine is lost; -1: never */
    int lost;
    int paused;
    int fails; /* 1: pause, 2: resume */
};

typedef enum op_kind { OP_DONE, OP_BYTES, OP_INFOS, OP_EXEC } op_kind;

/* One operation until its completion was called. */
struct op {
    op *next;
    op **at; /* who points here */
    waldo_machine *machine;
    waldo__loop *loop;
    waldo_status status;
    op_kind kind;
    union {
        waldo_backend_done_fn plain;
        waldo_backend_bytes_fn bytes;
        waldo_backend_info_fn infos;
        waldo_backend_exec_fn exec;
    } done;
    waldo_error *error;
    waldo__cancel_watch *cancel;
    void *userdata;
    waldo_output_fn on_output;
    waldo__task task;
    waldo__timer timer;
    waldo__buf result; /* OP_BYTES */
    struct {
        WALDO__VEC(waldo_file_info);
    } infos; /* names are owned */
    fake_shell shell;
    int merge;
    int64_t deadline_ns;
    waldo_exec_end end;
    int is_close; /* the machine is freed after the completion */
    int is_open;
};

static void op_unlink(op *o)
{
    if (o->at != NULL) {
        *o->at = o->next;
        if (o->next != NULL) {
            o->next->at = o->at;
        }
        o->at = NULL;
    }
}

static void op_free(op *o)
{
    op_unlink(o);
    waldo__task_cancel(o->loop, &o->task);
    waldo__timer_disarm(o->loop, &o->timer);
    waldo__cancel_watch_free(o->cancel);
    waldo_error_free(o->error);
    waldo__buf_free(&o->result);
    for (size_t i = 0; i < o->infos.count; i++) {
        waldo__free((char *)o->infos.at[i].name.ptr);
    }
    WALDO__VEC_FREE(&o->infos);
    waldo__fake_shell_free(&o->shell);
    waldo__free(o);
}

static void machine_free(waldo_machine *machine)
{
    while (machine->ops != NULL) {
        op_free(machine->ops);
    }
    waldo__fake_tree_free(&machine->tree);
    waldo__free(machine);
}

static void op_call(const op *o)
{
    const waldo_error *error = o->status != WALDO_OK ? o->error : NULL;

    switch (o->kind) {
    case OP_DONE:
        o->done.plain(o->userdata, o->status, error);
        break;
    case OP_BYTES:
        o->done.bytes(o->userdata, o->status, waldo__buf_str(&o->result), error);
        break;
    case OP_INFOS:
        o->done.infos(o->userdata, o->status, o->infos.at, o->infos.count, error);
        break;
    case OP_EXEC:
        o->done.exec(o->userdata, o->status, o->end, o->shell.exit_code,
                     o->end == WALDO_EXEC_EXITED ? 0 : 9, error);
        break;
    }
}

/* The end of an operation, from the run queue. */
static void op_complete(void *userdata)
{
    op *o = userdata;
    waldo_machine *machine = o->is_close ? o->machine : NULL;

    op_unlink(o);
    op_call(o);
    op_free(o);
    if (machine != NULL) {
        machine_free(machine);
    }
}

static void op_end(op *o, waldo_status status, const char *why)
{
    waldo__timer_disarm(o->loop, &o->timer);
    o->status = status;
    if (status != WALDO_OK && o->error == NULL) {
        waldo_error_set(&o->error, status, WALDO_CLASS_BACKEND, "fake: %s",
                        why != NULL ? why : waldo_status_text(status));
    }
    o->task.fn = op_complete;
    waldo__task_queue(o->loop, &o->task);
}

static op *op_new(waldo__loop *loop, waldo_machine *machine, const waldo_backend_call *call,
                  op_kind kind)
{
    op *o = WALDO__NEW(op);

    if (o == NULL) {
        return NULL;
    }
    o->loop = loop;
    o->machine = machine;
    o->userdata = call->userdata;
    o->kind = kind;
    o->deadline_ns = call->deadline_ns;
    o->result = WALDO__BUF_INIT(SIZE_MAX / 2);
    waldo__task_init(&o->task, op_complete, o);
    waldo__timer_init(&o->timer, NULL, o);
    if (machine != NULL) {
        o->next = machine->ops;
        o->at = &machine->ops;
        if (o->next != NULL) {
            o->next->at = &o->next;
        }
        machine->ops = o;
    }
    return o;
}

/* Count an operation; the machine dies under the one after lose_after. */
static int still_there(waldo_machine *machine)
{
    if (machine->lose_after == 0 || machine->paused) { /* which nobody uses */
        machine->lost = 1;
    } else if (machine->lose_after > 0) {
        machine->lose_after--;
    }
    return !machine->lost;
}

/* ---- class ---- */

static const char *const option_names[] = { "fail", "lose_after", "open_ms", "space", NULL };

static int64_t option_number(const waldo_backend_spec *spec, const char *key, int64_t otherwise)
{
    int64_t value;

    return waldo__str_int(waldo__backend_option(spec, key), &value) && value >= 0 ? value
                                                                                  : otherwise;
}

static waldo_status fake_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    static const char *const numbers[] = { "lose_after", "open_ms", "space" };
    waldo_str fail = waldo__backend_option(spec, "fail");

    if (spec->target.len > 0) {
        return waldo__error_invalid(ret_err, "fake: takes no target, write \"fake:\"");
    }
    if (fail.len > 0 && !waldo__str_is(fail, "open") && !waldo__str_is(fail, "pause") &&
        !waldo__str_is(fail, "resume")) {
        return waldo__error_invalid(ret_err, "fake: fail must be open, pause or resume");
    }
    for (size_t i = 0; i < WALDO__COUNT(numbers); i++) {
        if (waldo__backend_option(spec, numbers[i]).len > 0 &&
            option_number(spec, numbers[i], -1) < 0) {
            return waldo__error_invalid(ret_err, "fake: %s must be a number", numbers[i]);
        }
    }
    return WALDO_OK;
}

static void fake_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    op *o = op_new(env->loop, NULL, call, OP_DONE);

    if (o != NULL) {
        o->done.plain = done;
        op_end(o, WALDO_OK, NULL);
    }
}

/* ---- one machine ---- */

static void opened(void *userdata)
{
    op_end(userdata, WALDO_OK, NULL);
}

static waldo_status fake_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                              waldo_str saved, const waldo_backend_call *call,
                              waldo_backend_done_fn done, waldo_machine **ret_machine,
                              waldo_error **ret_err)
{
    waldo_machine *machine = WALDO__NEW(waldo_machine);
    size_t space = (size_t)option_number(spec, "space", (int64_t)SPACE_DEFAULT);
    int64_t open_ms = option_number(spec, "open_ms", 0);
    op *o;

    (void)saved;
    if (machine == NULL) {
        return waldo__error_nomem(ret_err);
    }
    machine->loop = env->loop;
    machine->lose_after = option_number(spec, "lose_after", -1);
    machine->fails = waldo__str_is(waldo__backend_option(spec, "fail"), "pause")    ? 1
                     : waldo__str_is(waldo__backend_option(spec, "fail"), "resume") ? 2
                                                                                    : 0;
    o = waldo__fake_tree_init(&machine->tree, space) == WALDO_OK
            ? op_new(env->loop, machine, call, OP_DONE)
            : NULL;
    if (o == NULL) {
        machine_free(machine);
        return waldo__error_nomem(ret_err);
    }
    o->done.plain = done;
    o->is_open = 1;
    *ret_machine = machine;
    if (waldo__str_is(waldo__backend_option(spec, "fail"), "open")) {
        op_end(o, WALDO_EUNAVAILABLE, "told to fail by fail=open");
    } else if (open_ms > 0) {
        waldo__timer_init(&o->timer, opened, o);
        waldo__timer_arm(env->loop, &o->timer, waldo__deadline_ns(open_ms));
    } else {
        op_end(o, WALDO_OK, NULL);
    }
    return WALDO_OK;
}

static void fake_close(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    op *o;

    for (o = machine->ops; o != NULL; o = o->next) {
        if (o->task.queued == 0) {
            o->end = WALDO_EXEC_CANCELLED;
            op_end(o, WALDO_ECANCELED, "the machine was closed");
        }
    }
    o = op_new(machine->loop, machine, call, OP_DONE);
    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
        machine_free(machine);
        return;
    }
    o->done.plain = done;
    o->is_close = 1;
    op_end(o, WALDO_OK, NULL);
}

static void set_paused(waldo_machine *machine, int paused, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    op *o = op_new(machine->loop, machine, call, OP_DONE);

    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    o->done.plain = done;
    if (machine->fails == (paused ? 1 : 2)) {
        op_end(o, WALDO_EUNAVAILABLE, paused ? "told to fail by fail=pause" : "by fail=resume");
        return;
    }
    machine->paused = paused;
    op_end(o, WALDO_OK, NULL);
}

static void fake_pause(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    set_paused(machine, 1, call, done);
}

static void fake_resume(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    set_paused(machine, 0, call, done);
}

/* ---- commands ---- */

static void on_output(void *userdata, int stream, waldo_str bytes)
{
    op *o = userdata;

    if (o->on_output != NULL) {
        o->on_output(o->userdata, o->merge ? 1 : stream, bytes);
    }
}

static void timed_out(void *userdata)
{
    op *o = userdata;

    o->end = WALDO_EXEC_TIMED_OUT;
    op_end(o, WALDO_OK, NULL);
}

static void run_on(void *userdata);

/* Sleep, unless the deadline comes first. */
static void go_to_sleep(op *o)
{
    int64_t wake = waldo__now_ns() + o->shell.sleep_ns;

    if (o->deadline_ns <= wake) {
        waldo__timer_init(&o->timer, timed_out, o);
        wake = o->deadline_ns;
    } else {
        waldo__timer_init(&o->timer, run_on, o);
    }
    if (waldo__timer_arm(o->loop, &o->timer, wake) != WALDO_OK) {
        op_end(o, WALDO_ENOMEM, NULL);
    }
}

static void run_on(void *userdata)
{
    op *o = userdata;

    switch (waldo__fake_shell_run(&o->shell)) {
    case FAKE_SLEEP:
        go_to_sleep(o);
        break;
    case FAKE_DONE:
        o->end = WALDO_EXEC_EXITED;
        op_end(o, WALDO_OK, NULL);
        break;
    case FAKE_FAIL:
        op_end(o, WALDO_EIO, "told to fail by the command");
        break;
    case FAKE_LOSE:
        o->machine->lost = 1;
        op_end(o, WALDO_ELOST, "told to be lost by the command");
        break;
    }
}

static void cancelled(void *userdata)
{
    op *o = userdata;

    if (o->task.queued == 0 || o->task.fn == run_on) {
        waldo__task_cancel(o->loop, &o->task);
        o->end = WALDO_EXEC_CANCELLED;
        op_end(o, WALDO_OK, NULL);
    }
}

static void fake_exec1(waldo_machine *machine, const waldo_backend_exec *exec,
                       const waldo_backend_call *call, waldo_backend_exec_fn done)
{
    op *o = op_new(machine->loop, machine, call, OP_EXEC);
    waldo_status status;

    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, 0, 0, 0, NULL);
        return;
    }
    o->done.exec = done;
    o->on_output = exec->on_output;
    o->merge = (exec->flags & WALDO_EXEC_MERGE) != 0;
    if (exec->timeout_ms > 0) {
        int64_t limit = waldo__deadline_ns(exec->timeout_ms);

        o->deadline_ns = limit < o->deadline_ns ? limit : o->deadline_ns;
    }
    if (!still_there(machine)) {
        op_end(o, WALDO_ELOST, "told to be lost by lose_after");
        return;
    }
    status = waldo__fake_shell_init(&o->shell, &machine->tree, exec);
    o->shell.output = on_output;
    o->shell.userdata = o;
    if (status == WALDO_OK && call->cancel != NULL) {
        status = waldo__cancel_watch_new(machine->loop, call->cancel, cancelled, o, &o->cancel);
    }
    if (status != WALDO_OK) {
        op_end(o, status, status == WALDO_ESTART ? "no such program or directory" : NULL);
        return;
    }
    o->task.fn = run_on;
    waldo__task_queue(machine->loop, &o->task);
}

/* ---- files ---- */

static const fake_node *node_of(op *o, const char *path)
{
    char normal[PATH_BYTES];

    return still_there(o->machine) &&
                   waldo__fake_path("/workspace", path, normal, sizeof normal) == WALDO_OK
               ? waldo__fake_tree_find(&o->machine->tree, normal)
               : NULL;
}

/* Why an operation did not find its file. */
static void end_missing(op *o, const char *path)
{
    op_end(o, o->machine->lost ? WALDO_ELOST : WALDO_ENOTFOUND,
           o->machine->lost ? "told to be lost by lose_after" : path);
}

static void fake_read(waldo_machine *machine, const char *path, uint64_t offset, size_t max,
                      const waldo_backend_call *call, waldo_backend_bytes_fn done)
{
    op *o = op_new(machine->loop, machine, call, OP_BYTES);
    const fake_node *node = o != NULL ? node_of(o, path) : NULL;

    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, WALDO__S(""), NULL);
        return;
    }
    o->done.bytes = done;
    if (node == NULL) {
        end_missing(o, path);
    } else if (!S_ISREG(node->mode)) {
        op_end(o, WALDO_EPATH, "is a directory");
    } else {
        size_t from = offset < node->len ? (size_t)offset : node->len;
        size_t len = node->len - from < max ? node->len - from : max;

        op_end(o, waldo__buf_add(&o->result, node->len > 0 ? node->bytes + from : "", len), NULL);
    }
}

static waldo_status add_info(op *o, const fake_node *node, const char *name)
{
    waldo_file_info *info = WALDO__VEC_PUSH(&o->infos);
    char *copy = waldo__strdup(name);

    if (info == NULL || copy == NULL) {
        waldo__free(copy);
        return WALDO_ENOMEM;
    }
    *info = (waldo_file_info){ .size = sizeof *info,
                               .mode = node->mode,
                               .bytes = node->len,
                               .mtime_ns = node->mtime_ns,
                               .name = waldo__str(copy) };
    return WALDO_OK;
}

static void fake_stat(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                      waldo_backend_info_fn done)
{
    op *o = op_new(machine->loop, machine, call, OP_INFOS);
    const fake_node *node = o != NULL ? node_of(o, path) : NULL;

    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL, 0, NULL);
        return;
    }
    o->done.infos = done;
    if (node == NULL) {
        end_missing(o, path);
        return;
    }
    op_end(o, add_info(o, node, ""), NULL);
}

static void fake_list(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                      waldo_backend_info_fn done)
{
    op *o = op_new(machine->loop, machine, call, OP_INFOS);
    const fake_node *node = o != NULL ? node_of(o, path) : NULL;
    waldo_status status = WALDO_OK;

    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL, 0, NULL);
        return;
    }
    o->done.infos = done;
    if (node == NULL) {
        end_missing(o, path);
        return;
    }
    if (!S_ISDIR(node->mode)) {
        op_end(o, WALDO_EPATH, "not a directory");
        return;
    }
    for (size_t i = 0; status == WALDO_OK && i < machine->tree.count; i++) {
        const fake_node *entry = &machine->tree.at[i];

        if (waldo__fake_tree_below(node->path, entry->path, 0)) {
            status = add_info(o, entry, strrchr(entry->path, '/') + 1);
        }
    }
    op_end(o, status, NULL);
}

typedef enum change { CHANGE_WRITE, CHANGE_REMOVE, CHANGE_MKDIR, CHANGE_RENAME } change;

/* The operations that only succeed or fail. */
static void apply(waldo_machine *machine, change what, const char *path, const char *to,
                  waldo_str bytes, uint32_t mode, int recursive, const waldo_backend_call *call,
                  waldo_backend_done_fn done)
{
    op *o = op_new(machine->loop, machine, call, OP_DONE);
    char from[PATH_BYTES];
    char target[PATH_BYTES];
    waldo_status status;

    if (o == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    o->done.plain = done;
    status = waldo__fake_path("/workspace", path, from, sizeof from);
    if (!still_there(machine)) {
        status = WALDO_ELOST;
    } else if (status == WALDO_OK && what == CHANGE_WRITE) {
        status = waldo__fake_tree_write(&machine->tree, from, bytes, 0, mode);
    } else if (status == WALDO_OK && what == CHANGE_REMOVE) {
        status = waldo__fake_tree_remove(&machine->tree, from, recursive);
    } else if (status == WALDO_OK && what == CHANGE_MKDIR) {
        status = waldo__fake_tree_mkdir(&machine->tree, from, mode);
    } else if (status == WALDO_OK) {
        status = waldo__fake_path("/workspace", to, target, sizeof target);
        status =
            status == WALDO_OK ? waldo__fake_tree_rename(&machine->tree, from, target) : status;
    }
    op_end(o, status, NULL);
}

static void fake_write(waldo_machine *machine, const char *path, waldo_str bytes, uint32_t mode,
                       const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine, CHANGE_WRITE, path, NULL, bytes, mode, 0, call, done);
}

static void fake_remove(waldo_machine *machine, const char *path, int recursive,
                        const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine, CHANGE_REMOVE, path, NULL, WALDO__S(""), 0, recursive, call, done);
}

static void fake_mkdir(waldo_machine *machine, const char *path, uint32_t mode,
                       const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine, CHANGE_MKDIR, path, NULL, WALDO__S(""), mode, 0, call, done);
}

static void fake_rename(waldo_machine *machine, const char *from, const char *to,
                        const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine, CHANGE_RENAME, from, to, WALDO__S(""), 0, 0, call, done);
}

extern const waldo_backend_ops waldo__backend_fake;

const waldo_backend_ops waldo__backend_fake = {
    .version = WALDO_BACKEND_VERSION,
    .size = sizeof(waldo_backend_ops),
    .name = "fake",
    .about = "a file tree and a few commands in memory, for tests and dry runs",
    .option_names = option_names,
    .isolation = WALDO_ISOLATION_NONE,
    .caps =
        WALDO_BACKEND_EXEC1 | WALDO_BACKEND_FILES | WALDO_BACKEND_SEPARATE | WALDO_BACKEND_PAUSE,
    .parse = fake_parse,
    .probe = fake_probe,
    .open = fake_open,
    .close = fake_close,
    .abandon = machine_free,
    .exec1 = fake_exec1,
    .file_read = fake_read,
    .file_write = fake_write,
    .file_stat = fake_stat,
    .file_list = fake_list,
    .file_remove = fake_remove,
    .file_mkdir = fake_mkdir,
    .file_rename = fake_rename,
    .pause = fake_pause,
    .resume = fake_resume,
};
