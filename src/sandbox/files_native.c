/* File operations by the backend's own functions. */
#include <sys/stat.h>

#include "sandbox/file_op.h"

static const waldo_backend_ops *ops_of(const waldo__file_op *file)
{
    return waldo__live_entry(file->op.sandbox)->ops;
}

/* The end of a native operation: 0 when there is nothing more to do. */
static int native_done(waldo__file_op *file, waldo_status status, const waldo_error *error)
{
    if (!waldo__op_backend_done(&file->op)) {
        return 0;
    }
    if (status == WALDO_ELOST) {
        waldo__live_lose(file->op.sandbox, error);
        return 0;
    }
    if (status != WALDO_OK) {
        waldo__op_pass_on(&file->op, status, file->shown, error);
        return 0;
    }
    return 1;
}

static void plain_done(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__file_op *file = userdata;

    if (native_done(file, status, error)) {
        waldo__op_end(&file->op, WALDO_OK, NULL);
    }
}

static void read_done(void *userdata, waldo_status status, waldo_str bytes,
                      const waldo_error *error)
{
    waldo__file_op *file = userdata;

    if (native_done(file, status, error)) {
        if (bytes.len > file->max) {
            bytes.len = file->max;
        }
        waldo__op_end(&file->op, waldo__buf_add_str(&file->data, bytes), NULL);
    }
}

static void native_path(const waldo__file_op *file, waldo__buf *path)
{
    waldo__path_absolute(&file->path, path);
    if (file->folder != NULL) {
        waldo__buf_printf(path, "/%s", file->folder);
    }
}

enum { HOPS_MAX = 16 };

/* Read what a link leads to; one below the workspace may not lead out of it. */
static void follow(waldo__file_op *file, waldo_str target)
{
    waldo__buf next = WALDO__BUF_INIT(4 * WALDO_HAND_PATH_MAX);
    waldo__path path = { 0 };
    waldo_error *error = NULL;

    if (target.len > 0 && target.ptr[0] != '/') {
        native_path(file, &next);
        while (next.len > 0 && next.ptr[next.len - 1] != '/') {
            waldo__buf_truncate(&next, next.len - 1);
        }
    }
    waldo__buf_add_str(&next, target);
    if (file->hops++ >= HOPS_MAX) {
        waldo__op_fail(&file->op, WALDO_EPATH, "%s: too many links", file->shown);
    } else if (waldo__path_parse(waldo__buf_str(&next).ptr, &path, &error) != WALDO_OK ||
               (file->path.beneath && !path.beneath)) {
        waldo__op_fail(&file->op, WALDO_EPATH, "%s: its link leads out of the workspace",
                       file->shown);
        waldo__free(path.text);
    } else {
        waldo__free(file->path.text);
        file->path = path;
        waldo__file_native(file);
    }
    waldo_error_free(error);
    waldo__buf_free(&next);
}

/* Reading begins with the size of the file. */
static void size_done(void *userdata, waldo_status status, const waldo_file_info *infos,
                      size_t count, const waldo_error *error)
{
    waldo__file_op *file = userdata;
    waldo__buf path = WALDO__BUF_INIT(2 * WALDO_HAND_PATH_MAX);
    waldo_backend_call call;

    if (!native_done(file, status, error)) {
        return;
    }
    if (count == 1 && S_ISLNK(infos[0].mode)) {
        follow(file, infos[0].link_target);
        return;
    }
    if (count != 1 || !S_ISREG(infos[0].mode)) {
        waldo__op_fail(&file->op, WALDO_EPATH, "%s: is not a file", file->shown);
        return;
    }
    file->file_size = infos[0].bytes;
    native_path(file, &path);
    waldo__op_backend_call(&file->op, &call, WALDO__NEVER);
    ops_of(file)->file_read(file->op.sandbox->machine, waldo__buf_str(&path).ptr, file->offset,
                            file->max, &call, read_done);
    waldo__buf_free(&path);
}

static void infos_done(void *userdata, waldo_status status, const waldo_file_info *infos,
                       size_t count, const waldo_error *error)
{
    waldo__file_op *file = userdata;

    if (!native_done(file, status, error)) {
        return;
    }
    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        waldo_str name = infos[i].name;

        /* A name that is no name could make a path lead elsewhere. */
        if (file->type == WALDO_HAND_LIST &&
            (name.len == 0 || memchr(name.ptr, '/', name.len) != NULL ||
             memchr(name.ptr, '\0', name.len) != NULL || waldo__str_is(name, ".") ||
             waldo__str_is(name, ".."))) {
            continue;
        }
        status = waldo__file_add_info(file, &infos[i]);
    }
    if (status == WALDO_OK && file->recursive && waldo__file_next_folder(file)) {
        waldo__file_native(file);
        return;
    }
    waldo__op_end(&file->op, status == WALDO_END ? WALDO_OK : status, NULL);
}

void waldo__file_native(waldo__file_op *file)
{
    const waldo_backend_ops *ops = ops_of(file);
    waldo_machine *machine = file->op.sandbox->machine;
    waldo__buf path = WALDO__BUF_INIT(2 * WALDO_HAND_PATH_MAX);
    waldo__buf to = WALDO__BUF_INIT(2 * WALDO_HAND_PATH_MAX);
    waldo_backend_call call;
    const char *name;

    native_path(file, &path);
    name = waldo__buf_str(&path).ptr;
    waldo__op_backend_call(&file->op, &call, WALDO__NEVER);
    switch (file->type) {
    case WALDO_HAND_READ:
        ops->file_stat(machine, name, &call, size_done);
        break;
    case WALDO_HAND_STAT:
        ops->file_stat(machine, name, &call, infos_done);
        break;
    case WALDO_HAND_LIST:
        ops->file_list(machine, name, &call, infos_done);
        break;
    case WALDO_HAND_WRITE:
        if ((file->write_flags & WALDO__WRITE_ARCHIVE) != 0) {
            ops->restore(machine, waldo__buf_str(&file->data), &call, plain_done);
            break;
        }
        if ((file->write_flags & WALDO__WRITE_APPEND) != 0) {
            file->op.in_backend = 0;
            waldo__op_fail(&file->op, WALDO_ETOOBIG, "%s: is too large for %s:", file->shown,
                           ops->name);
            break;
        }
        ops->file_write(machine, name, waldo__buf_str(&file->data), file->mode, &call, plain_done);
        break;
    case WALDO_HAND_MKDIR:
        ops->file_mkdir(machine, name, file->mode, &call, plain_done);
        break;
    case WALDO_HAND_REMOVE:
        ops->file_remove(machine, name, file->recursive, &call, plain_done);
        break;
    default:
        waldo__path_absolute(&file->to, &to);
        ops->file_rename(machine, name, waldo__buf_str(&to).ptr, &call, plain_done);
        break;
    }
    waldo__buf_free(&path);
    waldo__buf_free(&to);
}
