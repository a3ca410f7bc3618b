/* Changing files of a container without a hand: by archives, and by programs of the image. */
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/tar.h"
#include "archive.h"

enum {
    PATHS_MAX = 64 * 1024,
    FOLDERS_MAX = 32 * 1024 * 1024,
    TEXT_MAX = 4096,
    MODE_FILE = 0644,
    MODE_FOLDER = 0755
};

/* ---- folders: made from the deepest one that is there ---- */

static void put_file(file_op *op);

static void on_folders(void *userdata, waldo_status status, const waldo_error *error)
{
    file_op *op = userdata;

    if (status != WALDO_OK || op->call.ask.http_status != 200) {
        waldo__docker_op_refused(op, status, error, "making a folder");
    } else if (op->made_room) {
        put_file(op);
    } else {
        waldo__docker_op_finish(op, WALDO_OK, NULL);
    }
}

/* How much of the path names folders: all of it, or all but the file. */
static size_t folders_of(const file_op *op)
{
    size_t len = op->path.len;

    while (op->made_room && len > 0 && op->path.ptr[len - 1] != '/') {
        len--;
    }
    return op->made_room && len > 0 ? len - 1 : len;
}

static void put_folders(file_op *op)
{
    waldo__buf name = WALDO__BUF_INIT(PATHS_MAX);
    waldo_str rest = waldo__buf_str(&op->path);
    waldo_str part;

    rest = waldo__slice(rest.ptr + op->known, folders_of(op) - op->known);
    waldo__buf_free(&op->call.body);
    waldo__buf_init(&op->call.body, FOLDERS_MAX);
    while (waldo__str_split(&rest, '/', &part)) {
        waldo__tar_entry entry = { .is_folder = 1,
                                   .mode = op->folder_mode,
                                   .uid = op->plain->uid,
                                   .gid = op->plain->gid,
                                   .mtime_s = waldo__wall_ms() / 1000 };

        if (part.len == 0) {
            continue;
        }
        waldo__buf_puts(&name, name.len > 0 ? "/" : "");
        waldo__buf_add_str(&name, part);
        entry.name = waldo__buf_str(&name).ptr;
        waldo__tar_put(&op->call.body, &entry);
    }
    waldo__tar_end(&op->call.body);
    waldo__buf_free(&name);
    waldo__docker_op_ask(op, "PUT", waldo__strn(op->path.ptr, op->known), "&noOverwriteDirNonDir=1",
                         on_folders);
}

static void folder_looked(file_op *op, waldo_status status, const waldo_error *error)
{
    (void)error;
    if (status == WALDO_ENOTFOUND && op->known > 0) {
        while (op->path.ptr[--op->known] != '/') {
        }
        if (op->known > 0) {
            waldo__docker_op_look(op, waldo__strn(op->path.ptr, op->known), folder_looked);
        } else {
            put_folders(op);
        }
    } else if (status != WALDO_OK || (!S_ISDIR(op->info.mode) && !S_ISLNK(op->info.mode))) {
        waldo__docker_op_not_there(op, WALDO_EPATH);
    } else if (op->known == folders_of(op) && !op->made_room) {
        waldo__docker_op_finish(op, WALDO_OK, NULL);
    } else {
        put_folders(op);
    }
}

static void make_folders(file_op *op)
{
    op->known = folders_of(op);
    if (op->known == 0) {
        waldo__docker_op_finish(op, WALDO_OK, NULL);
        return;
    }
    waldo__docker_op_look(op, waldo__strn(op->path.ptr, op->known), folder_looked);
}

/* ---- write ---- */

static void on_written(void *userdata, waldo_status status, const waldo_error *error)
{
    file_op *op = userdata;

    if (status == WALDO_OK && op->call.ask.http_status == 404 && !op->made_room) {
        op->made_room = 1;
        make_folders(op);
    } else if (status != WALDO_OK || op->call.ask.http_status != 200) {
        waldo__docker_op_refused(op, status, error, "writing a file");
    } else {
        waldo__docker_op_finish(op, WALDO_OK, NULL);
    }
}

static void put_file(file_op *op)
{
    waldo_str path = waldo__buf_str(&op->path);
    size_t slash = path.len;
    waldo__tar_entry entry = { .mode = op->mode,
                               .uid = op->plain->uid,
                               .gid = op->plain->gid,
                               .mtime_s = waldo__wall_ms() / 1000,
                               .bytes = waldo__buf_str(&op->data) };

    while (slash > 0 && path.ptr[slash - 1] != '/') {
        slash--;
    }
    entry.name = path.ptr + slash;
    waldo__buf_free(&op->call.body);
    waldo__buf_init(&op->call.body, op->data.len + 4 * (size_t)PATHS_MAX);
    waldo__tar_put(&op->call.body, &entry);
    waldo__tar_end(&op->call.body);
    waldo__docker_op_ask(op, "PUT", waldo__slice(path.ptr, slash > 1 ? slash - 1 : slash),
                         "&noOverwriteDirNonDir=1", on_written);
}

static void write_looked(file_op *op, waldo_status status, const waldo_error *error)
{
    (void)error;
    if (status == WALDO_EPATH || (status == WALDO_OK && S_ISDIR(op->info.mode))) {
        waldo__docker_op_fail(op, WALDO_EPATH, "is a directory, or a part of the path is none");
        return;
    }
    op->mode = status == WALDO_OK && S_ISREG(op->info.mode) ? op->info.mode & 07777 : MODE_FILE;
    put_file(op);
}

/* ---- by programs of the image ---- */

static void on_said(void *userdata, int stream, waldo_str bytes)
{
    file_op *op = userdata;
    size_t room = op->data.max - op->data.len;

    (void)stream;
    waldo__buf_add_str(&op->data, waldo__slice(bytes.ptr, bytes.len < room ? bytes.len : room));
}

/* Exit codes of the scripts below. */
enum { CODE_MISSING = 44, CODE_EXISTS = 45, CODE_KIND = 46, CODE_NO_PROGRAM = 127 };

static void on_program(void *userdata, waldo_status status, int exit_code, const waldo_error *error)
{
    static const struct {
        int code;
        waldo_status status;
        const char *words;
    } rows[] = { { CODE_MISSING, WALDO_ENOTFOUND, "no such file or directory" },
                 { CODE_EXISTS, WALDO_EEXISTS, "a directory there is not empty" },
                 { CODE_KIND, WALDO_EPATH, "a directory is there" },
                 { CODE_NO_PROGRAM, WALDO_ENOTSUP,
                   "docker: without a hand this needs rm, rmdir and mv in the image" } };
    file_op *op = userdata;
    waldo_str said = waldo__str_trim(waldo__buf_str(&op->data));

    if (status != WALDO_OK) {
        waldo__docker_op_finish(op, status, error);
        return;
    }
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        if (rows[i].code == exit_code) {
            waldo__docker_op_fail(op, rows[i].status, rows[i].words);
            return;
        }
    }
    if (exit_code != 0) {
        waldo_error *made = NULL;

        status = waldo_error_set(&made, waldo__docker_meaning(said, WALDO_EIO), WALDO_CLASS_BACKEND,
                                 "%.*s", (int)said.len, said.ptr);
        waldo__docker_op_finish(op, status, made);
        waldo_error_free(made);
        return;
    }
    waldo__docker_op_finish(op, WALDO_OK, NULL);
}

static void run_script(file_op *op, const char *script, const char *a, const char *b)
{
    const char *const argv[] = { "/bin/sh", "-c", script, "sh", a, b, NULL };

    if (!op->plain->shell) {
        op->status = waldo_error_set(&op->error, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                                     "docker: without a hand this needs /bin/sh in the image");
        waldo__task_queue(op->plain->engine->env->loop, &op->early);
        return;
    }
    waldo__docker_put_command(&op->exec.call.body, argv, NULL, "/", NULL, 0);
    waldo__docker_exec_start(&op->exec, on_said, on_program);
}

static const char remove_script[] =
    "[ -e \"$1\" ] || [ -L \"$1\" ] || exit 44\n"
    "if [ \"$2\" = all ]; then exec rm -rf -- \"$1\"; fi\n"
    "if [ -d \"$1\" ] && [ ! -L \"$1\" ]; then\n"
    "command -v rmdir >/dev/null || exit 127\nrmdir -- \"$1\" || exit 45\nexit 0\nfi\n"
    "exec rm -f -- \"$1\"\n";

/* As rename(2): a folder takes the place of an empty one only, and a file that of no folder. */
static const char rename_script[] =
    "[ -e \"$1\" ] || [ -L \"$1\" ] || exit 44\n"
    "if [ -d \"$2\" ] && [ ! -L \"$2\" ]; then\n"
    "[ -d \"$1\" ] && [ ! -L \"$1\" ] || exit 46\nrmdir -- \"$2\" || exit 45\nfi\n"
    "exec mv -f -- \"$1\" \"$2\"\n";

static void on_part_gone(void *userdata, waldo_status status, int exit_code,
                         const waldo_error *error)
{
    (void)status;
    (void)exit_code;
    (void)error;
    waldo__docker_op_finish_early(userdata);
}

/* The engine leaves what did fit; error, which is taken, is told behind that. */
static void remove_part(file_op *op, waldo_error *error)
{
    const char *const argv[] = { "rm", "-f", "--", waldo__buf_str(&op->path).ptr, NULL };

    op->status = waldo_error_status(error);
    op->error = error;
    waldo__docker_put_command(&op->exec.call.body, argv, NULL, "/", NULL, 0);
    waldo__docker_exec_start(&op->exec, NULL, on_part_gone);
}

/* One of those that only succeed or fail. */
static file_op *new_change(waldo_machine *machine, const char *path, size_t data_max,
                           const waldo_backend_call *call, waldo_backend_done_fn done)
{
    file_op *op = waldo__docker_op_new(machine, path, data_max, call);

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
    } else {
        op->on_done = done;
    }
    return op;
}

void waldo__docker_file_write(waldo_machine *machine, const char *path, waldo_str bytes,
                              uint32_t mode, const waldo_backend_call *call,
                              waldo_backend_done_fn done)
{
    file_op *op = new_change(machine, path, bytes.len + 1, call, done);

    if (op == NULL) {
        return;
    }
    waldo__buf_add_str(&op->data, bytes);
    op->on_full = op->plain->shell ? remove_part : NULL;
    op->folder_mode = MODE_FOLDER;
    op->mode = mode & 07777;
    if (!waldo__docker_op_may_begin(op)) {
        return;
    }
    if (mode == 0) {
        waldo__docker_op_look(op, waldo__buf_str(&op->path), write_looked);
    } else {
        put_file(op);
    }
}

void waldo__docker_file_mkdir(waldo_machine *machine, const char *path, uint32_t mode,
                              const waldo_backend_call *call, waldo_backend_done_fn done)
{
    file_op *op = new_change(machine, path, 1, call, done);

    if (op == NULL) {
        return;
    }
    op->folder_mode = mode != 0 ? mode & 07777 : MODE_FOLDER;
    if (waldo__docker_op_may_begin(op)) {
        make_folders(op);
    }
}

void waldo__docker_file_remove(waldo_machine *machine, const char *path, int recursive,
                               const waldo_backend_call *call, waldo_backend_done_fn done)
{
    file_op *op = new_change(machine, path, TEXT_MAX, call, done);

    if (op != NULL && waldo__docker_op_may_begin(op)) {
        run_script(op, remove_script, path, recursive ? "all" : "one");
    }
}

void waldo__docker_file_rename(waldo_machine *machine, const char *from, const char *to,
                               const waldo_backend_call *call, waldo_backend_done_fn done)
{
    file_op *op = new_change(machine, from, TEXT_MAX, call, done);

    if (op != NULL && waldo__docker_op_may_begin(op)) {
        run_script(op, rename_script, from, to);
    }
}

static void on_restored(void *userdata, waldo_status status, const waldo_error *error)
{
    file_op *op = userdata;

    if (status != WALDO_OK || op->call.ask.http_status != 200) {
        waldo__docker_op_refused(op, status, error, "unpacking an archive");
    } else {
        waldo__docker_op_finish(op, WALDO_OK, NULL);
    }
}

void waldo__docker_restore(waldo_machine *machine, waldo_str snapshot,
                           const waldo_backend_call *call, waldo_backend_done_fn done)
{
    file_op *op = new_change(machine, "/workspace", 1, call, done);

    if (op == NULL) {
        return;
    }
    waldo__buf_free(&op->call.body);
    waldo__buf_init(&op->call.body, snapshot.len);
    op->data.status = waldo__buf_add_str(&op->call.body, snapshot);
    if (waldo__docker_op_may_begin(op)) {
        waldo__docker_op_ask(op, "PUT", waldo__buf_str(&op->path), "&noOverwriteDirNonDir=1",
                             on_restored);
    }
}
