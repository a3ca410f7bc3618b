/* The backend "scripted", through the public table, as anybody's own backend would be. */
#include "script.h"

#include <stdlib.h>
#include <string.h>

struct waldo_machine {
    waldo__inmem base; /* first */
    waldo_testing_sandbox *sandbox;
    waldo_machine *next; /* of the same sandbox */
    int lost;
};

/* A command. */
typedef struct running {
    waldo__inmem_exec base;               /* first */
    const waldo_testing_command *command; /* NULL: the library's own */
    waldo_str output[2];
    waldo__testing_text own[2];
    int begun; /* output was given */
} running;

/* ---- losing it ---- */

static void machine_lose(waldo_machine *machine)
{
    waldo__inmem_op *op;

    machine->lost = 1;
    for (op = machine->base.ops; op != NULL; op = op->next) {
        if (!op->ended) {
            waldo__inmem_fail(op, WALDO_ELOST, "the script lost the machine");
        }
    }
}

void waldo_testing_sandbox_lose(waldo_testing_sandbox *sandbox)
{
    for (waldo_machine *machine = sandbox->machines; machine != NULL; machine = machine->next) {
        machine_lose(machine);
    }
}

/* May anything be asked of it at all? */
static waldo_status check(const waldo_machine *machine, waldo_error **ret_err)
{
    return machine->lost
               ? waldo_error_set(ret_err, WALDO_ELOST, WALDO_CLASS_BACKEND,
                                 "%s: the script lost the machine", machine->sandbox->label)
               : waldo__testing_refuse(machine->sandbox, ret_err);
}

/* ---- files ---- */

/* What the script says of a path; 0: nothing. */
static waldo_status failure_of(const waldo_testing_sandbox *sandbox, const char *path, int writing)
{
    for (size_t i = 0; i < sandbox->file_count; i++) {
        const waldo_testing_file *file = &sandbox->files[i];
        waldo_status status = writing ? file->fail_write : file->fail_read;
        char normal[WALDO__INMEM_PATH_BYTES];

        if (status != WALDO_OK && path != NULL &&
            waldo__tree_path(WALDO__INMEM_HOME, file->path, normal, sizeof normal) == WALDO_OK &&
            strcmp(normal, path) == 0) {
            return status;
        }
    }
    return WALDO_OK;
}

/* By the kind of a request; 0: it is not noted. */
static const waldo_testing_kind kinds[] = { [WALDO__INMEM_WRITE] = WALDO_TESTING_WRITE,
                                            [WALDO__INMEM_REMOVE] = WALDO_TESTING_REMOVE,
                                            [WALDO__INMEM_MKDIR] = WALDO_TESTING_MKDIR,
                                            [WALDO__INMEM_RENAME] = WALDO_TESTING_RENAME };

static waldo_status admit(waldo__inmem *base, const waldo__inmem_request *request,
                          waldo_error **ret_err)
{
    const waldo_machine *machine = (waldo_machine *)base;
    waldo_testing_sandbox *sandbox = machine->sandbox;
    waldo_testing_kind kind = kinds[request->kind];
    const waldo_testing_asked asked = { .kind = kind,
                                        .text = request->path,
                                        .to = request->to,
                                        .bytes = request->bytes,
                                        .command = SIZE_MAX };
    waldo_status status = check(machine, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    if (kind != 0 && waldo__testing_note(sandbox, &asked) == NULL) {
        return WALDO_ENOMEM;
    }
    status = failure_of(sandbox, request->path, kind != 0);
    status = status == WALDO_OK ? failure_of(sandbox, request->to, kind != 0) : status;
    return status == WALDO_OK ? WALDO_OK
                              : waldo_error_set(ret_err, status, WALDO_CLASS_BACKEND,
                                                "%s: the script lets the file fail: %s",
                                                sandbox->label, waldo_status_text(status));
}

/* ---- the life of a machine ---- */

static void machine_free(waldo__inmem *base)
{
    waldo_machine *machine = (waldo_machine *)base;

    for (waldo_machine **at = &machine->sandbox->machines; *at != NULL; at = &(*at)->next) {
        if (*at == machine) {
            *at = machine->next;
            break;
        }
    }
    waldo__testing_unref(machine->sandbox);
    free(machine);
}

static const waldo__inmem_class type = {
    .name = "scripted", .memory = &waldo__testing_memory, .admit = admit, .free = machine_free
};

static waldo_status scripted_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    (void)spec;
    (void)ret_err;
    return WALDO_OK; /* a sandbox of the target's name may still be made */
}

static void scripted_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                           waldo_backend_done_fn done)
{
    waldo__inmem_answer(&type, env, NULL, call, done, WALDO_OK, NULL);
}

static void fail_as_told(waldo__inmem_op *op, waldo_status status, const char *what)
{
    const waldo_machine *machine = (waldo_machine *)op->machine;
    waldo_error *error = NULL;

    waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "%s: the script lets %s fail: %s",
                    machine->sandbox->label, what, waldo_status_text(status));
    waldo__inmem_end(op, status, error);
}

static void opened(waldo__inmem_op *op, waldo__inmem_wake why)
{
    waldo_testing_sandbox *sandbox = ((waldo_machine *)op->machine)->sandbox;

    if (why != WALDO__INMEM_DUE) {
        waldo__inmem_end(op, WALDO_ETIMEDOUT_DEADLINE, NULL);
    } else if (sandbox->fail_open < 0 &&
               (sandbox->fail_open_times == 0 || sandbox->openings <= sandbox->fail_open_times)) {
        fail_as_told(op, sandbox->fail_open, "opening");
    } else {
        waldo__inmem_end(op, WALDO_OK, NULL);
    }
}

static waldo_status scripted_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                                  waldo_str saved, const waldo_backend_call *call,
                                  waldo_backend_done_fn done, waldo_machine **ret_machine,
                                  waldo_error **ret_err)
{
    waldo_testing_sandbox *sandbox = waldo__testing_find(spec->target);
    waldo_machine *machine;
    waldo__inmem_op *op;

    (void)saved;
    if (sandbox == NULL) {
        return waldo_error_set(ret_err, WALDO_ENOTFOUND, WALDO_CLASS_USAGE,
                               "scripted:%.*s is not there: make it with "
                               "waldo_testing_sandbox_new(), and free it after the runtime",
                               (int)spec->target.len, spec->target.ptr);
    }
    machine = calloc(1, sizeof *machine);
    if (machine == NULL) {
        return waldo_error_set(ret_err, WALDO_ENOMEM, WALDO_CLASS_BACKEND, "out of memory");
    }
    machine->base = (waldo__inmem){ .type = &type, .env = env, .tree = &sandbox->tree };
    machine->sandbox = sandbox;
    op = waldo__inmem_op_new(&type, env, &machine->base, call, sizeof *op);
    if (op == NULL) {
        free(machine);
        return waldo_error_set(ret_err, WALDO_ENOMEM, WALDO_CLASS_BACKEND, "out of memory");
    }
    machine->next = sandbox->machines;
    sandbox->machines = machine;
    sandbox->openings++;
    sandbox->refs++;
    op->done.plain = done;
    op->wake = opened;
    *ret_machine = machine;
    waldo__inmem_sleep(op, waldo__inmem_ns(sandbox->open_ms));
    return WALDO_OK;
}

static void scripted_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    ret_info->isolation = machine->sandbox->isolation;
}

/* What says yes and changes nothing, for nothing runs. */
static void agree(waldo_machine *machine, const waldo_backend_call *call,
                  waldo_backend_done_fn done)
{
    waldo_error *error = NULL;
    waldo_status status = check(machine, &error);

    waldo__inmem_answer(&type, machine->base.env, &machine->base, call, done, status, error);
}

static void scripted_set_net(waldo_machine *machine, waldo_net net, const char *const *hosts,
                             const waldo_backend_call *call, waldo_backend_done_fn done)
{
    (void)net;
    (void)hosts;
    agree(machine, call, done);
}

/* ---- commands ---- */

/* As the script has it. */
static void end_as_told(running *run)
{
    const waldo_testing_command *command = run->command;
    waldo__inmem_op *op = &run->base.base;
    waldo_testing_sandbox *sandbox = ((waldo_machine *)op->machine)->sandbox;
    waldo_status status = WALDO_OK;

    if (command == NULL) {
        waldo__inmem_stop(op, WALDO_EXEC_EXITED, 0);
    } else if (command->fail < 0) {
        fail_as_told(op, command->fail, "the command"); /* WALDO_ELOST ends the machine, too */
    } else if (command->end > WALDO_EXEC_EXITED || command->signal > 0) {
        waldo__inmem_stop(op, command->end != 0 ? command->end : WALDO_EXEC_SIGNALED,
                          command->signal > 0 ? command->signal : 9);
    } else {
        for (size_t i = 0; i < command->file_count && status == WALDO_OK; i++) {
            status = waldo_testing_sandbox_put(sandbox, &command->files[i]);
        }
        op->exit_code = command->exit_code;
        op->end = WALDO_EXEC_EXITED;
        waldo__inmem_end(op, status, NULL);
    }
}

static void go_on(waldo__inmem_op *op, waldo__inmem_wake why)
{
    running *run = (running *)op;
    int64_t delay_ms = run->command != NULL ? run->command->delay_ms : 0;

    if (why != WALDO__INMEM_DUE) {
        waldo__inmem_stop(
            op, why == WALDO__INMEM_DEADLINE ? WALDO_EXEC_TIMED_OUT : WALDO_EXEC_CANCELLED, 9);
        return;
    }
    for (int i = 0; i < 2 && !run->begun && !op->ended; i++) {
        if (run->output[i].len > 0) {
            waldo__inmem_say(&run->base, i + 1, run->output[i]);
        }
    }
    if (op->ended) {
        return;
    }
    if (run->begun || delay_ms == 0) {
        end_as_told(run);
        return;
    }
    run->begun = 1;
    waldo__inmem_sleep(op, waldo__inmem_ns(delay_ms));
}

static void running_drop(waldo__inmem_op *op)
{
    running *run = (running *)op;

    free(run->own[0].ptr);
    free(run->own[1].ptr);
}

static waldo_str bytes_of(const char *bytes, size_t len)
{
    return (waldo_str){ bytes, bytes == NULL ? 0 : len > 0 ? len : strlen(bytes) };
}

/* Find out what becomes of it. */
static waldo_status look_up(running *run, const waldo_backend_exec *exec, const char *text,
                            waldo_error **ret_err)
{
    waldo_testing_sandbox *sandbox = ((waldo_machine *)run->base.base.machine)->sandbox;
    waldo_testing_asked *note =
        waldo__testing_note(sandbox, &(waldo_testing_asked){ .kind = WALDO_TESTING_EXEC,
                                                             .text = text,
                                                             .bytes = exec->input,
                                                             .argv = exec->argv,
                                                             .env = exec->env,
                                                             .cwd = exec->cwd,
                                                             .timeout_ms = exec->timeout_ms,
                                                             .command = SIZE_MAX });

    if (note == NULL) {
        return WALDO_ENOMEM;
    }
    run->command = waldo__testing_match(sandbox, text, exec->cwd);
    if (run->command != NULL) {
        note->command = (size_t)(run->command - sandbox->rules[0].command);
        run->output[0] = bytes_of(run->command->output, run->command->output_len);
        run->output[1] = bytes_of(run->command->errors, run->command->errors_len);
        return WALDO_OK;
    }
    if (!waldo__testing_own(&sandbox->tree, exec->argv, exec->cwd, &run->own[0], &run->own[1],
                            &run->base.base.exit_code)) {
        return waldo__testing_unexpected(sandbox, text, exec->cwd, ret_err);
    }
    for (int i = 0; i < 2; i++) {
        run->output[i] = (waldo_str){ run->own[i].ptr, run->own[i].len };
    }
    return run->own[0].failed || run->own[1].failed ? WALDO_ENOMEM : WALDO_OK;
}

static void scripted_exec1(waldo_machine *machine, const waldo_backend_exec *exec,
                           const waldo_backend_call *call, waldo_backend_exec_fn done)
{
    running *run = (running *)waldo__inmem_exec_new(machine, exec, call, done, sizeof(running));
    waldo__inmem_op *op = (waldo__inmem_op *)run;
    waldo__testing_text text = { 0 };
    waldo_error *error = NULL;
    waldo_status status;

    if (run == NULL) {
        return;
    }
    op->wake = go_on;
    op->drop = running_drop;
    status = check(machine, &error);
    if (status == WALDO_OK) {
        waldo__testing_command_text(&machine->sandbox->tree, exec->argv, &text);
        status = text.failed ? WALDO_ENOMEM : look_up(run, exec, text.ptr, &error);
    }
    free(text.ptr);
    if (status == WALDO_OK) {
        waldo__inmem_sleep(op, 0);
    } else {
        waldo__inmem_end(op, status, error);
    }
}

static const char *const no_options[] = { NULL };

const waldo_backend_ops waldo__testing_backend = {
    .version = WALDO_BACKEND_VERSION,
    .size = sizeof(waldo_backend_ops),
    .name = "scripted",
    .about = "a machine in memory that follows a script, for tests",
    .option_names = no_options,
    .isolation = WALDO_ISOLATION_REMOTE,
    /* Limits, networks and trees: nothing runs that could exceed, reach or leave anything. */
    .caps = WALDO_BACKEND_EXEC1 | WALDO_BACKEND_FILES | WALDO_BACKEND_SEPARATE |
            WALDO_BACKEND_TREE_KILL | WALDO_BACKEND_LIMITS | WALDO_BACKEND_NET_ALL |
            WALDO_BACKEND_NET_HOSTS | WALDO_BACKEND_NET_PACKAGES | WALDO_BACKEND_SET_NET |
            WALDO_BACKEND_PAUSE,
    .parse = scripted_parse,
    .probe = scripted_probe,
    .open = scripted_open,
    .close = waldo__inmem_close,
    .abandon = waldo__inmem_abandon,
    .exec1 = scripted_exec1,
    .file_read = waldo__inmem_read,
    .file_write = waldo__inmem_write,
    .file_stat = waldo__inmem_stat,
    .file_list = waldo__inmem_list,
    .file_remove = waldo__inmem_remove,
    .file_mkdir = waldo__inmem_mkdir,
    .file_rename = waldo__inmem_rename,
    .pause = agree,
    .resume = agree,
    .set_net = scripted_set_net,
    .describe = scripted_describe,
};
