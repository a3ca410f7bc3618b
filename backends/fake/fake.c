/*
 * The fake backend: machines that are a file tree in memory and a few commands. Nothing of it runs
 * outside of this process. For tests and dry runs.
 */
#include "backend/labels.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "inmem/machine.h"
#include "shell.h"

#define SPACE_DEFAULT ((size_t)64 * 1024 * 1024)

struct waldo_machine {
    waldo__inmem base; /* first */
    waldo__tree tree;
    int64_t lose_after; /* operations until the machine is lost; -1: never */
    int lost;
    int paused;
    int fails; /* 1: pause, 2: resume */
};

/* A command. */
typedef struct command {
    waldo__inmem_exec base; /* first */
    fake_shell shell;
} command;

/* ---- what machines in memory ask for ---- */

static void *memory_new(void *userdata, size_t size)
{
    (void)userdata;
    return waldo__alloc(size);
}

static void *memory_resize(void *userdata, void *ptr, size_t size)
{
    (void)userdata;
    return waldo__realloc(ptr, size);
}

static void memory_drop(void *userdata, void *ptr)
{
    (void)userdata;
    waldo__free(ptr);
}

static const waldo_allocator memory = { memory_new, memory_resize, memory_drop, NULL };

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

static waldo_status admit(waldo__inmem *base, const waldo__inmem_request *request,
                          waldo_error **ret_err)
{
    (void)request;
    return still_there((waldo_machine *)base)
               ? WALDO_OK
               : waldo_error_set(ret_err, WALDO_ELOST, WALDO_CLASS_BACKEND,
                                 "fake: told to be lost by lose_after");
}

static void fake_free(waldo__inmem *base)
{
    waldo_machine *machine = (waldo_machine *)base;

    waldo__tree_free(&machine->tree);
    waldo__free(machine);
}

static const waldo__inmem_class type = {
    .name = "fake", .memory = &memory, .admit = admit, .free = fake_free
};

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
    waldo__inmem_answer(&type, env, NULL, call, done, WALDO_OK, NULL);
}

/* ---- one machine ---- */

static void opened(waldo__inmem_op *op, waldo__inmem_wake why)
{
    waldo__inmem_end(op, why == WALDO__INMEM_DUE ? WALDO_OK : WALDO_ETIMEDOUT_DEADLINE, NULL);
}

static waldo_status fake_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                              waldo_str saved, const waldo_backend_call *call,
                              waldo_backend_done_fn done, waldo_machine **ret_machine,
                              waldo_error **ret_err)
{
    waldo_machine *machine = WALDO__NEW(waldo_machine);
    size_t space = (size_t)option_number(spec, "space", (int64_t)SPACE_DEFAULT);
    waldo_str fail = waldo__backend_option(spec, "fail");
    waldo__inmem_op *op;

    (void)saved;
    if (machine == NULL) {
        return waldo__error_nomem(ret_err);
    }
    machine->base = (waldo__inmem){ .type = &type, .env = env, .tree = &machine->tree };
    machine->lose_after = option_number(spec, "lose_after", -1);
    machine->fails = waldo__str_is(fail, "pause") ? 1 : waldo__str_is(fail, "resume") ? 2 : 0;
    op = waldo__tree_init(&machine->tree, &memory, space) == WALDO_OK
             ? waldo__inmem_op_new(&type, env, &machine->base, call, sizeof *op)
             : NULL;
    if (op == NULL) {
        waldo__inmem_abandon(machine);
        return waldo__error_nomem(ret_err);
    }
    op->done.plain = done;
    op->wake = opened;
    *ret_machine = machine;
    if (waldo__str_is(fail, "open")) {
        waldo__inmem_fail(op, WALDO_EUNAVAILABLE, "told to fail by fail=open");
    } else {
        waldo__inmem_sleep(op, option_number(spec, "open_ms", 0) * WALDO__NS_PER_MS);
    }
    return WALDO_OK;
}

static void set_paused(waldo_machine *machine, int paused, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    waldo_error *error = NULL;
    waldo_status status = WALDO_OK;

    if (machine->fails == (paused ? 1 : 2)) {
        status = waldo_error_set(&error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                 "fake: told to fail by fail=%s", paused ? "pause" : "resume");
    } else {
        machine->paused = paused;
    }
    waldo__inmem_answer(&type, machine->base.env, &machine->base, call, done, status, error);
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
    waldo__inmem_say(userdata, stream, bytes);
}

static void run_on(waldo__inmem_op *op, waldo__inmem_wake why)
{
    command *cmd = (command *)op;

    if (why != WALDO__INMEM_DUE) {
        waldo__inmem_stop(
            op, why == WALDO__INMEM_DEADLINE ? WALDO_EXEC_TIMED_OUT : WALDO_EXEC_CANCELLED, 9);
        return;
    }
    switch (waldo__fake_shell_run(&cmd->shell)) {
    case FAKE_SLEEP:
        waldo__inmem_sleep(op, cmd->shell.sleep_ns);
        break;
    case FAKE_DONE:
        op->exit_code = cmd->shell.exit_code;
        waldo__inmem_stop(op, WALDO_EXEC_EXITED, 0);
        break;
    case FAKE_FAIL:
        waldo__inmem_fail(op, WALDO_EIO, "told to fail by the command");
        break;
    case FAKE_LOSE:
        ((waldo_machine *)op->machine)->lost = 1;
        waldo__inmem_fail(op, WALDO_ELOST, "told to be lost by the command");
        break;
    }
}

static void command_drop(waldo__inmem_op *op)
{
    waldo__fake_shell_free(&((command *)op)->shell);
}

static void fake_exec1(waldo_machine *machine, const waldo_backend_exec *exec,
                       const waldo_backend_call *call, waldo_backend_exec_fn done)
{
    command *cmd = (command *)waldo__inmem_exec_new(machine, exec, call, done, sizeof(command));
    waldo__inmem_op *op = (waldo__inmem_op *)cmd;
    waldo_status status;

    if (cmd == NULL) {
        return;
    }
    op->wake = run_on;
    op->drop = command_drop;
    if (!still_there(machine)) {
        waldo__inmem_fail(op, WALDO_ELOST, "told to be lost by lose_after");
        return;
    }
    status = waldo__fake_shell_init(&cmd->shell, &machine->tree, exec);
    cmd->shell.output = on_output;
    cmd->shell.userdata = cmd;
    if (status == WALDO_OK) {
        waldo__inmem_sleep(op, 0);
    } else if (status == WALDO_ESTART) {
        waldo__inmem_fail(op, status, "no such program or directory");
    } else {
        waldo__inmem_end(op, status, NULL);
    }
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
    .close = waldo__inmem_close,
    .abandon = waldo__inmem_abandon,
    .exec1 = fake_exec1,
    .file_read = waldo__inmem_read,
    .file_write = waldo__inmem_write,
    .file_stat = waldo__inmem_stat,
    .file_list = waldo__inmem_list,
    .file_remove = waldo__inmem_remove,
    .file_mkdir = waldo__inmem_mkdir,
    .file_rename = waldo__inmem_rename,
    .pause = fake_pause,
    .resume = fake_resume,
};
