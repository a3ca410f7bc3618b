/* Files in the sandbox: what the operations mean; through the hand here, natively next door. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/file_op.h"

enum {
    READ_MAX = 64 * 1024 * 1024,
    PIECE = 256 * 1024,       /* bytes of a write put into frames at once */
    QUEUE_MARK = 1024 * 1024, /* with so many not yet on their way it waits */
    LIST_MAX = 1000000,
    NAMES_MAX = 128 * 1024 * 1024, /* bytes of names and link targets of one listing */
    WRITE_MAX = 128 * 1024 * 1024
};

static void file_stop(waldo__op *op)
{
    waldo__file_op *file = (waldo__file_op *)op;

    if (file->call != NULL) {
        waldo__hand_forget(file->call);
        file->call = NULL;
    }
}

static void file_free(waldo__op *op)
{
    waldo__file_op *file = (waldo__file_op *)op;

    waldo__free(file->path.text);
    waldo__free(file->to.text);
    waldo__free(file->shown);
    waldo__buf_free(&file->data);
    for (size_t i = 0; i < file->infos.count; i++) {
        waldo__free((char *)file->infos.at[i].name.ptr);
        waldo__free((char *)file->infos.at[i].link_target.ptr);
    }
    WALDO__VEC_FREE(&file->infos);
    for (size_t i = 0; i < file->folders.count; i++) {
        waldo__free(file->folders.at[i]);
    }
    WALDO__VEC_FREE(&file->folders);
    waldo__free(file->folder);
    waldo__free(file);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const waldo_file_info *)a)->name.ptr, ((const waldo_file_info *)b)->name.ptr);
}

static void file_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    waldo__file_op *file = (waldo__file_op *)op;
    int good = status == WALDO_OK;

    file_stop(op);
    if (file->on_read != NULL) {
        file->on_read(file->userdata, status, good ? waldo__buf_str(&file->data) : WALDO__S(""),
                      good ? file->file_size : 0, error);
    } else if (file->on_infos != NULL) {
        if (good && file->infos.count > 1) {
            qsort(file->infos.at, file->infos.count, sizeof *file->infos.at, by_name);
        }
        file->on_infos(file->userdata, status, good ? file->infos.at : NULL,
                       good ? file->infos.count : 0, error);
    } else if (file->on_done != NULL) {
        file->on_done(file->userdata, status, error);
    }
}

/* ---- entries ---- */

waldo_status waldo__file_add_info(waldo__file_op *file, const waldo_file_info *info)
{
    waldo__buf name = WALDO__BUF_INIT(WALDO_HAND_PATH_MAX);
    waldo_file_info *added;
    char **folder;

    if (file->infos.count >= file->max) {
        return WALDO_END;
    }
    if (file->folder != NULL) {
        waldo__buf_printf(&name, "%s/", file->folder);
    }
    waldo__buf_add_str(&name, info->name);
    if (name.status == WALDO_ETOOBIG) {
        waldo__buf_free(&name);
        return WALDO_OK; /* no path can name it */
    }
    file->names += name.len + info->link_target.len;
    if (file->names > NAMES_MAX) {
        waldo__buf_free(&name);
        return WALDO_ETOOBIG;
    }
    added = WALDO__VEC_PUSH(&file->infos);
    if (added == NULL) {
        waldo__buf_free(&name);
        return WALDO_ENOMEM;
    }
    *added = *info;
    added->size = sizeof *added;
    added->name.len = name.len;
    added->name.ptr = waldo__buf_take(&name, NULL);
    waldo__buf_free(&name);
    added->link_target.ptr = waldo__strndup(info->link_target.ptr, info->link_target.len);
    if (added->name.ptr == NULL || added->link_target.ptr == NULL) {
        return WALDO_ENOMEM;
    }
    if (file->recursive && S_ISDIR(info->mode)) {
        folder = WALDO__VEC_PUSH(&file->folders);
        if (folder == NULL || (*folder = waldo__strdup(added->name.ptr)) == NULL) {
            return WALDO_ENOMEM;
        }
    }
    return WALDO_OK;
}

int waldo__file_next_folder(waldo__file_op *file)
{
    waldo__free(file->folder);
    file->folder = NULL;
    if (file->folders.count == 0 || file->infos.count >= file->max) {
        return 0;
    }
    file->folder = file->folders.at[--file->folders.count];
    return 1;
}

static uint32_t type_bits(uint8_t kind)
{
    static const uint32_t bits[] = {
        [WALDO_HAND_KIND_FILE] = S_IFREG,    [WALDO_HAND_KIND_DIR] = S_IFDIR,
        [WALDO_HAND_KIND_LINK] = S_IFLNK,    [WALDO_HAND_KIND_FIFO] = S_IFIFO,
        [WALDO_HAND_KIND_SOCKET] = S_IFSOCK, [WALDO_HAND_KIND_CHAR] = S_IFCHR,
        [WALDO_HAND_KIND_BLOCK] = S_IFBLK
    };

    return kind < WALDO__COUNT(bits) ? bits[kind] : 0;
}

/* ---- through the hand ---- */

static void start_hand(waldo__file_op *file);

static void hand_data(void *userdata, waldo_str bytes)
{
    waldo__file_op *file = userdata;

    waldo__buf_add_str(&file->data, bytes);
}

/* The entries of one answer; the hand may have sent anything. */
static waldo_status take_entries(waldo__file_op *file)
{
    waldo_str rest = waldo__buf_str(&file->data);
    waldo__hand_entry entry;
    waldo_status status;

    while ((status = waldo__hand_next_entry(&rest, &entry)) == WALDO_OK) {
        const waldo_file_info info = {
            .mode = type_bits(entry.kind) | (entry.mode & 07777),
            .bytes = entry.size,
            .mtime_ns = entry.mtime_s < INT64_MAX / WALDO__NS_PER_S && entry.mtime_s > 0
                            ? entry.mtime_s * WALDO__NS_PER_S + entry.mtime_ns
                            : 0,
            .name = entry.name,
            .link_target = entry.target
        };

        if ((file->type == WALDO_HAND_STAT) != (entry.name.len == 0)) {
            return WALDO_EPROTO;
        }
        status = waldo__file_add_info(file, &info);
        if (status != WALDO_OK) {
            return status == WALDO_END ? WALDO_OK : status;
        }
    }
    return status == WALDO_END ? WALDO_OK : status;
}

static void hand_ended(void *userdata, const waldo__hand_end *end)
{
    waldo__file_op *file = userdata;
    waldo_error *error = NULL;
    waldo_status status = end->status;

    file->call = NULL;
    if (status != WALDO_OK) {
        error = waldo_error_copy(end->error);
        if (status != WALDO_ELOST) {
            waldo__error_prefix(error, file->shown);
        }
    } else if (file->data.status != WALDO_OK) {
        status = file->data.status;
    } else if (file->type == WALDO_HAND_READ) {
        file->file_size = end->done->value;
    } else if (file->type == WALDO_HAND_STAT || file->type == WALDO_HAND_LIST) {
        status = take_entries(file);
        if (status == WALDO_ETOOBIG) {
            waldo_error_set(&error, status, WALDO_CLASS_BACKEND,
                            "%s: the names of its files are longer than %d bytes together",
                            file->shown, NAMES_MAX);
        }
        if (status == WALDO_OK && file->recursive && waldo__file_next_folder(file)) {
            waldo__buf_clear(&file->data);
            start_hand(file);
            return;
        }
    }
    waldo__op_end(&file->op, status, error);
}

static void hand_drained(void *userdata);

static const waldo__hand_call_fns file_fns = { .data = hand_data,
                                               .drained = hand_drained,
                                               .ended = hand_ended };

static uint32_t hand_flags(const waldo__file_op *file)
{
    /* In a directory of the host's own a file is also to survive a power failure. */
    uint32_t atomic = file->op.sandbox->spec->options.workspace_mode == WALDO_WORKSPACE_RW
                          ? WALDO_HAND_FILE_ATOMIC
                          : WALDO_HAND_FILE_ATOMIC | WALDO_HAND_FILE_SWAP;

    switch (file->type) {
    case WALDO_HAND_WRITE:
        return WALDO_HAND_FILE_PARENTS |
               ((file->write_flags & WALDO__WRITE_APPEND) != 0  ? WALDO_HAND_FILE_APPEND
                : (file->write_flags & WALDO__WRITE_PLAIN) != 0 ? 0
                                                                : atomic);
    case WALDO_HAND_MKDIR:
        return WALDO_HAND_FILE_PARENTS;
    case WALDO_HAND_STAT:
        return WALDO_HAND_FILE_NOFOLLOW;
    case WALDO_HAND_REMOVE:
        return file->recursive ? WALDO_HAND_FILE_RECURSIVE : 0;
    default:
        return 0;
    }
}

/* The frames of a WRITE after its first, no faster than the stream takes them. */
static waldo_status send_data(waldo__file_op *file)
{
    waldo_str all = waldo__buf_str(&file->data);
    waldo_status status = WALDO_OK;

    while (status == WALDO_OK && file->sent < all.len) {
        size_t part = all.len - file->sent < PIECE ? all.len - file->sent : PIECE;

        if (waldo__hand_queued(file->op.sandbox->hand) >= QUEUE_MARK) {
            waldo__hand_wait_drained(file->call);
            return WALDO_OK;
        }
        status = waldo__hand_write(file->call, waldo__slice(all.ptr + file->sent, part));
        file->sent += part;
    }
    waldo__buf_free(&file->data);
    return status == WALDO_OK ? waldo__hand_write_end(file->call) : status;
}

static void cannot_send(waldo__file_op *file, waldo_status status)
{
    if (file->call != NULL) {
        waldo__hand_cancel(file->call, 0);
    }
    file_stop(&file->op);
    waldo__op_fail(&file->op, status, "%s: %s", file->shown, waldo_status_text(status));
}

static void hand_drained(void *userdata)
{
    waldo_status status = send_data(userdata);

    if (status != WALDO_OK) {
        cannot_send(userdata, status);
    }
}

/* RENAME takes one ROOT for both paths: it is used when both are beneath the workspace. */
static void start_hand(waldo__file_op *file)
{
    waldo__hand_file request = WALDO__HAND_FILE_INIT;
    waldo__buf path = WALDO__BUF_INIT(2 * WALDO_HAND_PATH_MAX);
    waldo__buf to = WALDO__BUF_INIT(2 * WALDO_HAND_PATH_MAX);
    int beneath = file->path.beneath && (file->to.text == NULL || file->to.beneath);
    waldo_status status;

    if (beneath) {
        request.root = waldo__str(WALDO__WORKSPACE);
        waldo__buf_puts(&path, file->path.text);
        waldo__buf_puts(&to, file->to.text != NULL ? file->to.text : "");
    } else {
        waldo__path_absolute(&file->path, &path);
        if (file->to.text != NULL) {
            waldo__path_absolute(&file->to, &to);
        }
    }
    if (file->folder != NULL) {
        waldo__buf_printf(&path, "/%s", file->folder);
    }
    request.path = waldo__buf_str(&path);
    request.to = waldo__buf_str(&to);
    request.flags = hand_flags(file);
    request.has_mode = file->mode != 0 && file->type != WALDO_HAND_READ;
    request.mode = file->mode & 07777;
    if (file->type == WALDO_HAND_READ) {
        request.offset = file->offset;
        request.limit = file->max;
    } else if (file->type == WALDO_HAND_LIST) {
        request.limit = file->max - file->infos.count;
    }
    status = waldo__hand_start_file(file->op.sandbox->hand, file->type, &request, &file_fns, file,
                                    &file->call);
    if (status == WALDO_OK && file->type == WALDO_HAND_WRITE) {
        status = send_data(file);
    }
    waldo__buf_free(&path);
    waldo__buf_free(&to);
    if (status != WALDO_OK) {
        cannot_send(file, status);
    }
}

static void file_start(waldo__op *op)
{
    waldo__file_op *file = (waldo__file_op *)op;

    if (op->sandbox->hand != NULL) {
        start_hand(file);
    } else if ((waldo__live_caps(op->sandbox) & WALDO_BACKEND_FILES) != 0) {
        waldo__file_native(file);
    } else {
        waldo__op_fail(op, WALDO_ENOTSUP, "%s: has no file operations",
                       waldo__live_entry(op->sandbox)->ops->name);
    }
}

static const waldo__op_kind file_kind = {
    .start = file_start, .stop = file_stop, .finish = file_finish, .free = file_free
};

/* ---- what users call ---- */

static waldo__file_op *new_file(enum waldo_hand_request type, size_t data_max)
{
    waldo__file_op *file = WALDO__NEW(waldo__file_op);

    if (file != NULL) {
        file->type = type;
        waldo__buf_init(&file->data, data_max);
    }
    return file;
}

/* Without memory for the op, its completion is the one thing that can still be done. */
static void no_memory(waldo_read_fn on_read, waldo_sandbox_fn on_done, waldo__infos_fn on_infos,
                      void *userdata)
{
    if (on_read != NULL) {
        on_read(userdata, WALDO_ENOMEM, WALDO__S(""), 0, NULL);
    } else if (on_infos != NULL) {
        on_infos(userdata, WALDO_ENOMEM, NULL, 0, NULL);
    } else if (on_done != NULL) {
        on_done(userdata, WALDO_ENOMEM, NULL);
    }
}

static void begin(waldo_sandbox *sandbox, waldo__file_op *file, const char *path, const char *to)
{
    waldo_error *error = NULL;
    waldo_status status = waldo__path_parse(path, &file->path, &error);

    if (status == WALDO_OK && to != NULL) {
        status = waldo__path_parse(to, &file->to, &error);
    }
    if (status == WALDO_OK && file->data.status == WALDO_ETOOBIG) {
        status = waldo_error_set(&error, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                                 "%s: at most %d bytes can be written at once", path, WRITE_MAX);
    } else if (status == WALDO_OK && file->data.status != WALDO_OK) {
        status = waldo__error_nomem(&error);
    }
    file->shown = waldo__strdup(path != NULL ? path : "");
    if (status == WALDO_OK && file->shown == NULL) {
        status = waldo__error_nomem(&error);
    }
    if (status == WALDO_OK) {
        waldo__op_begin(sandbox, &file->op, &file_kind);
        return;
    }
    waldo__op_begin_ended(sandbox, &file->op, &file_kind, status, error);
}

void waldo_sandbox_read(waldo_sandbox *sandbox, const char *path, uint64_t offset, size_t max,
                        waldo_read_fn done, void *userdata)
{
    waldo__file_op *file = new_file(WALDO_HAND_READ, READ_MAX + 1);

    if (file == NULL) {
        no_memory(done, NULL, NULL, userdata);
        return;
    }
    file->offset = offset;
    file->max = max < READ_MAX ? max : READ_MAX;
    file->on_read = done;
    file->userdata = userdata;
    begin(sandbox, file, path, NULL);
}

void waldo__files_write(waldo_sandbox *sandbox, const char *path, waldo_str bytes, uint32_t mode,
                        unsigned flags, waldo_sandbox_fn done, void *userdata)
{
    waldo__file_op *file = new_file(WALDO_HAND_WRITE, WRITE_MAX);

    if (file == NULL) {
        no_memory(NULL, done, NULL, userdata);
        return;
    }
    waldo__buf_add_str(&file->data, bytes);
    file->mode = mode;
    file->write_flags = flags;
    file->on_done = done;
    file->userdata = userdata;
    begin(sandbox, file, path, NULL);
}

void waldo_sandbox_write(waldo_sandbox *sandbox, const char *path, waldo_str bytes, uint32_t mode,
                         waldo_sandbox_fn done, void *userdata)
{
    waldo__files_write(sandbox, path, bytes, mode, 0, done, userdata);
}

void waldo__sandbox_stat(waldo_sandbox *sandbox, const char *path, waldo__infos_fn done,
                         void *userdata)
{
    waldo__file_op *file = new_file(WALDO_HAND_STAT, 64 * 1024);

    if (file == NULL) {
        no_memory(NULL, NULL, done, userdata);
        return;
    }
    file->max = 1;
    file->on_infos = done;
    file->userdata = userdata;
    begin(sandbox, file, path, NULL);
}

void waldo__sandbox_list(waldo_sandbox *sandbox, const char *path, int recursive, size_t max,
                         waldo__infos_fn done, void *userdata)
{
    waldo__file_op *file = new_file(WALDO_HAND_LIST, READ_MAX + 1);

    if (file == NULL) {
        no_memory(NULL, NULL, done, userdata);
        return;
    }
    file->recursive = recursive;
    file->max = max < LIST_MAX ? max : LIST_MAX;
    file->on_infos = done;
    file->userdata = userdata;
    begin(sandbox, file, path, NULL);
}

/* The operations that only succeed or fail. */
static void change(waldo_sandbox *sandbox, enum waldo_hand_request type, const char *path,
                   const char *to, uint32_t mode, int recursive, waldo_sandbox_fn done,
                   void *userdata)
{
    waldo__file_op *file = new_file(type, 1);

    if (file == NULL) {
        no_memory(NULL, done, NULL, userdata);
        return;
    }
    file->mode = mode;
    file->recursive = recursive;
    file->on_done = done;
    file->userdata = userdata;
    begin(sandbox, file, path, to);
}

void waldo__files_mkdir(waldo_sandbox *sandbox, const char *path, uint32_t mode,
                        waldo_sandbox_fn done, void *userdata)
{
    change(sandbox, WALDO_HAND_MKDIR, path, NULL, mode, 0, done, userdata);
}

void waldo__sandbox_mkdir(waldo_sandbox *sandbox, const char *path, waldo_sandbox_fn done,
                          void *userdata)
{
    change(sandbox, WALDO_HAND_MKDIR, path, NULL, 0, 0, done, userdata);
}

void waldo__sandbox_remove(waldo_sandbox *sandbox, const char *path, int recursive,
                           waldo_sandbox_fn done, void *userdata)
{
    change(sandbox, WALDO_HAND_REMOVE, path, NULL, 0, recursive, done, userdata);
}

void waldo__sandbox_rename(waldo_sandbox *sandbox, const char *from, const char *to,
                           waldo_sandbox_fn done, void *userdata)
{
    change(sandbox, WALDO_HAND_RENAME, from, to != NULL ? to : "", 0, 0, done, userdata);
}
