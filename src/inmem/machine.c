#include "inmem/machine.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

int64_t waldo__inmem_now_ns(void)
{
    struct timespec now = { 0 };

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t waldo__inmem_ns(int64_t ms)
{
    return ms >= 0 && ms < INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX;
}

/* Of CLOCK_MONOTONIC, so long from now. */
static int64_t time_in(int64_t delay_ns)
{
    int64_t now_ns = waldo__inmem_now_ns();

    return delay_ns < INT64_MAX - now_ns ? now_ns + delay_ns : INT64_MAX;
}

void *waldo__inmem_alloc(const waldo__inmem_class *type, size_t size)
{
    void *block = type->memory->malloc_fn(type->memory->userdata, size);

    if (block != NULL) {
        memset(block, 0, size);
    }
    return block;
}

void waldo__inmem_drop(const waldo__inmem_class *type, const void *block)
{
    if (block != NULL) {
        type->memory->free_fn(type->memory->userdata, (void *)block);
    }
}

/* ---- operations ---- */

static void op_unlink(waldo__inmem_op *op)
{
    if (op->at != NULL) {
        *op->at = op->next;
        if (op->next != NULL) {
            op->next->at = op->at;
        }
        op->at = NULL;
    }
}

static void op_free(waldo__inmem_op *op)
{
    op_unlink(op);
    waldo_backend_wait_free(op->wait);
    waldo_error_free(op->error);
    waldo__inmem_drop(op->type, op->bytes);
    for (size_t i = 0; i < op->info_count; i++) {
        waldo__inmem_drop(op->type, op->infos[i].name.ptr);
    }
    waldo__inmem_drop(op->type, op->infos);
    if (op->drop != NULL) {
        op->drop(op);
    }
    waldo__inmem_drop(op->type, op);
}

static void machine_free(waldo__inmem *machine)
{
    while (machine->ops != NULL) {
        op_free(machine->ops);
    }
    machine->type->free(machine);
}

static void complete(waldo__inmem_op *op)
{
    waldo__inmem *machine = op->is_close ? op->machine : NULL;

    op_unlink(op);
    op->tell(op);
    op_free(op);
    if (machine != NULL) {
        machine_free(machine);
    }
}

static void woken(void *userdata, int cancelled)
{
    waldo__inmem_op *op = userdata;

    if (op->ended) {
        complete(op);
    } else if (cancelled) {
        op->wake(op, WALDO__INMEM_CANCELLED);
    } else {
        op->wake(op, op->due_ns < op->deadline_ns ? WALDO__INMEM_DUE : WALDO__INMEM_DEADLINE);
    }
}

void waldo__inmem_tell_plain(waldo__inmem_op *op)
{
    op->done.plain(op->userdata, op->status, op->error);
}

static void tell_bytes(waldo__inmem_op *op)
{
    op->done.bytes(op->userdata, op->status,
                   (waldo_str){ op->bytes != NULL ? op->bytes : "", op->len }, op->error);
}

static void tell_infos(waldo__inmem_op *op)
{
    op->done.infos(op->userdata, op->status, op->infos, op->info_count, op->error);
}

static void tell_exec(waldo__inmem_op *op)
{
    op->done.exec(op->userdata, op->status, op->end, op->exit_code, op->signal, op->error);
}

waldo__inmem_op *waldo__inmem_op_new(const waldo__inmem_class *type, const waldo_backend_env *env,
                                     waldo__inmem *machine, const waldo_backend_call *call,
                                     size_t size)
{
    waldo__inmem_op *op = waldo__inmem_alloc(type, size);

    if (op == NULL) {
        return NULL;
    }
    op->type = type;
    op->userdata = call->userdata;
    op->deadline_ns = call->deadline_ns;
    op->tell = waldo__inmem_tell_plain;
    op->wait = waldo_backend_wait_new(env, call->cancel, woken, op);
    if (op->wait == NULL) {
        op_free(op);
        return NULL;
    }
    op->machine = machine;
    if (machine != NULL) {
        op->next = machine->ops;
        op->at = &machine->ops;
        if (op->next != NULL) {
            op->next->at = &op->next;
        }
        machine->ops = op;
    }
    return op;
}

void waldo__inmem_end(waldo__inmem_op *op, waldo_status status, waldo_error *error)
{
    if (op->ended) {
        waldo_error_free(error);
        return;
    }
    op->ended = 1;
    op->status = status;
    op->error = error;
    if (status != WALDO_OK && error == NULL) {
        waldo_error_set(&op->error, status, WALDO_CLASS_BACKEND, "%s: %s", op->type->name,
                        waldo_status_text(status));
    }
    waldo_backend_wait_until(op->wait, 0);
}

void waldo__inmem_fail(waldo__inmem_op *op, waldo_status status, const char *why)
{
    waldo_error *error = NULL;

    waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "%s: %s", op->type->name, why);
    waldo__inmem_end(op, status, error);
}

void waldo__inmem_sleep(waldo__inmem_op *op, int64_t delay_ns)
{
    op->due_ns = delay_ns > 0 ? time_in(delay_ns) : 0;
    if (waldo_backend_wait_until(
            op->wait, op->due_ns < op->deadline_ns ? op->due_ns : op->deadline_ns) != WALDO_OK) {
        waldo__inmem_end(op, WALDO_ENOMEM, NULL);
    }
}

void waldo__inmem_answer(const waldo__inmem_class *type, const waldo_backend_env *env,
                         waldo__inmem *machine, const waldo_backend_call *call,
                         waldo_backend_done_fn done, waldo_status status, waldo_error *error)
{
    waldo__inmem_op *op = waldo__inmem_op_new(type, env, machine, call, sizeof *op);

    if (op == NULL) {
        waldo_error_free(error);
        done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    op->done.plain = done;
    waldo__inmem_end(op, status, error);
}

void waldo__inmem_close(waldo_machine *itself, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    waldo__inmem *machine = (waldo__inmem *)itself;
    waldo__inmem_op *op;

    for (op = machine->ops; op != NULL; op = op->next) {
        if (!op->ended) {
            op->end = WALDO_EXEC_CANCELLED;
            waldo__inmem_fail(op, WALDO_ECANCELED, "the machine was closed");
        }
    }
    op = waldo__inmem_op_new(machine->type, machine->env, machine, call, sizeof *op);
    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
        machine_free(machine);
        return;
    }
    op->done.plain = done;
    op->is_close = 1;
    waldo__inmem_end(op, WALDO_OK, NULL);
}

void waldo__inmem_abandon(waldo_machine *machine)
{
    machine_free((waldo__inmem *)machine);
}

/* ---- commands ---- */

waldo__inmem_exec *waldo__inmem_exec_new(waldo_machine *itself, const waldo_backend_exec *exec,
                                         const waldo_backend_call *call, waldo_backend_exec_fn done,
                                         size_t size)
{
    waldo__inmem *machine = (waldo__inmem *)itself;
    waldo__inmem_op *op = waldo__inmem_op_new(machine->type, machine->env, machine, call, size);
    waldo__inmem_exec *command = (waldo__inmem_exec *)op;

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, 0, 0, 0, NULL);
        return NULL;
    }
    op->done.exec = done;
    op->tell = tell_exec;
    command->on_output = exec->on_output;
    command->merge = (exec->flags & WALDO_EXEC_MERGE) != 0;
    if (exec->timeout_ms > 0) {
        int64_t limit_ns = time_in(waldo__inmem_ns(exec->timeout_ms));

        op->deadline_ns = limit_ns < op->deadline_ns ? limit_ns : op->deadline_ns;
    }
    return command;
}

void waldo__inmem_say(const waldo__inmem_exec *exec, int stream, waldo_str bytes)
{
    if (exec->on_output != NULL) {
        exec->on_output(exec->base.userdata, exec->merge ? 1 : stream, bytes);
    }
}

void waldo__inmem_stop(waldo__inmem_op *op, waldo_exec_end end, int signal)
{
    op->end = end;
    op->signal = signal;
    waldo__inmem_end(op, WALDO_OK, NULL);
}

/* ---- files ---- */

static waldo__inmem_op *file_op(waldo_machine *itself, const waldo_backend_call *call)
{
    waldo__inmem *machine = (waldo__inmem *)itself;

    return waldo__inmem_op_new(machine->type, machine->env, machine, call, sizeof(waldo__inmem_op));
}

typedef struct paths {
    char path[WALDO__INMEM_PATH_BYTES];
    char to[WALDO__INMEM_PATH_BYTES];
} paths;

/* Its paths in normal form; 0: it may not be done and has ended. */
static int begin(waldo__inmem_op *op, const waldo__inmem_request *request, paths *ret_paths)
{
    waldo__inmem_request normal = *request;
    waldo_error *error = NULL;
    waldo_status status =
        waldo__tree_path(WALDO__INMEM_HOME, request->path, ret_paths->path, sizeof ret_paths->path);

    normal.path = ret_paths->path;
    if (status == WALDO_OK && request->to != NULL) {
        status =
            waldo__tree_path(WALDO__INMEM_HOME, request->to, ret_paths->to, sizeof ret_paths->to);
        normal.to = ret_paths->to;
    }
    if (status == WALDO_OK) {
        status = op->type->admit(op->machine, &normal, &error);
    }
    if (status != WALDO_OK) {
        waldo__inmem_end(op, status, error);
    }
    return status == WALDO_OK;
}

/* What an operation looks at; NULL: it has ended. */
static const waldo__tree_node *look(waldo__inmem_op *op, waldo__inmem_kind kind, const char *path)
{
    const waldo__inmem_request request = { .kind = kind, .path = path };
    const waldo__tree_node *node = NULL;
    paths normal;

    if (begin(op, &request, &normal)) {
        node = waldo__tree_find(op->machine->tree, normal.path);
        if (node == NULL) {
            waldo__inmem_fail(op, WALDO_ENOTFOUND, path);
        }
    }
    return node;
}

void waldo__inmem_read(waldo_machine *machine, const char *path, uint64_t offset, size_t max,
                       const waldo_backend_call *call, waldo_backend_bytes_fn done)
{
    waldo__inmem_op *op = file_op(machine, call);
    const waldo__tree_node *node = op != NULL ? look(op, WALDO__INMEM_READ, path) : NULL;
    size_t from;

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, (waldo_str){ "", 0 }, NULL);
        return;
    }
    op->done.bytes = done;
    op->tell = tell_bytes;
    if (node == NULL) {
        return;
    }
    if (!S_ISREG(node->mode)) {
        waldo__inmem_fail(op, WALDO_EPATH, "is a directory");
        return;
    }
    from = offset < node->len ? (size_t)offset : node->len;
    op->len = node->len - from < max ? node->len - from : max;
    op->bytes = waldo__inmem_alloc(op->type, op->len + 1);
    if (op->bytes == NULL) {
        op->len = 0;
        waldo__inmem_end(op, WALDO_ENOMEM, NULL);
        return;
    }
    if (op->len > 0) {
        memcpy(op->bytes, node->bytes + from, op->len);
    }
    waldo__inmem_end(op, WALDO_OK, NULL);
}

/* infos has room for it. */
static waldo_status add_info(waldo__inmem_op *op, const waldo__tree_node *node, const char *name)
{
    size_t len = strlen(name);
    char *copy = waldo__inmem_alloc(op->type, len + 1);

    if (copy == NULL) {
        return WALDO_ENOMEM;
    }
    memcpy(copy, name, len);
    op->infos[op->info_count++] = (waldo_file_info){ .size = sizeof(waldo_file_info),
                                                     .mode = node->mode,
                                                     .bytes = node->len,
                                                     .mtime_ns = node->mtime_ns,
                                                     .name = { copy, len } };
    return WALDO_OK;
}

void waldo__inmem_stat(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                       waldo_backend_info_fn done)
{
    waldo__inmem_op *op = file_op(machine, call);
    const waldo__tree_node *node = op != NULL ? look(op, WALDO__INMEM_STAT, path) : NULL;

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL, 0, NULL);
        return;
    }
    op->done.infos = done;
    op->tell = tell_infos;
    if (node != NULL) {
        op->infos = waldo__inmem_alloc(op->type, sizeof *op->infos);
        waldo__inmem_end(op, op->infos != NULL ? add_info(op, node, "") : WALDO_ENOMEM, NULL);
    }
}

static waldo_status add_entries(waldo__inmem_op *op, const char *folder)
{
    const waldo__tree *tree = op->machine->tree;
    waldo_status status = WALDO_OK;
    size_t count = 0;

    for (size_t i = 0; i < tree->count; i++) {
        count += (size_t)waldo__tree_below(folder, tree->at[i].path, 0);
    }
    op->infos = waldo__inmem_alloc(op->type, (count + 1) * sizeof *op->infos);
    if (op->infos == NULL) {
        return WALDO_ENOMEM;
    }
    for (size_t i = 0; status == WALDO_OK && i < tree->count; i++) {
        const waldo__tree_node *entry = &tree->at[i];

        if (waldo__tree_below(folder, entry->path, 0)) {
            status = add_info(op, entry, strrchr(entry->path, '/') + 1);
        }
    }
    return status;
}

void waldo__inmem_list(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                       waldo_backend_info_fn done)
{
    waldo__inmem_op *op = file_op(machine, call);
    const waldo__tree_node *node = op != NULL ? look(op, WALDO__INMEM_LIST, path) : NULL;

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL, 0, NULL);
        return;
    }
    op->done.infos = done;
    op->tell = tell_infos;
    if (node == NULL) {
        return;
    }
    if (S_ISDIR(node->mode)) {
        waldo__inmem_end(op, add_entries(op, node->path), NULL);
    } else {
        waldo__inmem_fail(op, WALDO_EPATH, "not a directory");
    }
}

/* The operations that only succeed or fail. */
static void apply(waldo_machine *machine, const waldo__inmem_request *what,
                  const waldo_backend_call *call, waldo_backend_done_fn done)
{
    waldo__inmem_op *op = file_op(machine, call);
    waldo__tree *tree = ((waldo__inmem *)machine)->tree;
    waldo_status status;
    paths normal;

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    op->done.plain = done;
    if (!begin(op, what, &normal)) {
        return;
    }
    if (what->kind == WALDO__INMEM_WRITE) {
        status = waldo__tree_write(tree, normal.path, what->bytes, 0, what->mode);
    } else if (what->kind == WALDO__INMEM_REMOVE) {
        status = waldo__tree_remove(tree, normal.path, what->recursive);
    } else if (what->kind == WALDO__INMEM_MKDIR) {
        status = waldo__tree_mkdir(tree, normal.path, what->mode);
    } else {
        status = waldo__tree_rename(tree, normal.path, normal.to);
    }
    waldo__inmem_end(op, status, NULL);
}

void waldo__inmem_write(waldo_machine *machine, const char *path, waldo_str bytes, uint32_t mode,
                        const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine,
          &(waldo__inmem_request){
              .kind = WALDO__INMEM_WRITE, .path = path, .bytes = bytes, .mode = mode },
          call, done);
}

void waldo__inmem_remove(waldo_machine *machine, const char *path, int recursive,
                         const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine,
          &(waldo__inmem_request){
              .kind = WALDO__INMEM_REMOVE, .path = path, .recursive = recursive },
          call, done);
}

void waldo__inmem_mkdir(waldo_machine *machine, const char *path, uint32_t mode,
                        const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine,
          &(waldo__inmem_request){ .kind = WALDO__INMEM_MKDIR, .path = path, .mode = mode }, call,
          done);
}

void waldo__inmem_rename(waldo_machine *machine, const char *from, const char *to,
                         const waldo_backend_call *call, waldo_backend_done_fn done)
{
    apply(machine, &(waldo__inmem_request){ .kind = WALDO__INMEM_RENAME, .path = from, .to = to },
          call, done);
}
