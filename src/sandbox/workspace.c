/* A copy of the host directory as it is now, a little in each round of the loop. */
#include "sandbox/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum { ENTRIES_MAX = 500000, PATH_BYTES = 4096, PIECE = 1024 * 1024, ROUND_MS = 4 };
#define BYTES_DEFAULT (UINT64_C(1) << 30)

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void close_folder(waldo__workspace *workspace)
{
    if (workspace->folder != NULL) {
        closedir(workspace->folder);
    }
    workspace->folder = NULL;
    workspace->folder_fd = -1;
    waldo__free(workspace->folder_path);
    workspace->folder_path = NULL;
}

static void end_scan(waldo__workspace *workspace)
{
    close_folder(workspace);
    close_fd(&workspace->root);
    close_fd(&workspace->from);
    close_fd(&workspace->to);
    for (size_t i = 0; i < workspace->folders.count; i++) {
        waldo__free(workspace->folders.at[i]);
    }
    WALDO__VEC_FREE(&workspace->folders);
}

void waldo__workspace_stop(waldo_sandbox *sandbox)
{
    waldo__workspace *workspace = sandbox->workspace;

    if (workspace != NULL) {
        waldo__task_cancel(sandbox->env->loop, &workspace->task);
        end_scan(workspace);
        workspace->sandbox = NULL;
    }
}

void waldo__workspace_free(waldo__workspace *workspace)
{
    if (workspace == NULL) {
        return;
    }
    end_scan(workspace);
    close_fd(&workspace->base);
    waldo__scratch_drop(workspace->loop, &workspace->home);
    for (size_t i = 0; i < workspace->entries.count; i++) {
        waldo__free(workspace->entries.at[i].path);
        waldo__free(workspace->entries.at[i].target);
    }
    WALDO__VEC_FREE(&workspace->entries);
    waldo_error_free(workspace->error);
    waldo__free(workspace);
}

void waldo__workspace_done(waldo__workspace *workspace, waldo_status status, waldo_error *error)
{
    waldo_sandbox *sandbox = workspace->sandbox;

    if (sandbox == NULL) {
        waldo_error_free(error);
        return;
    }
    end_scan(workspace);
    workspace->sandbox = NULL;
    waldo__live_prepared(sandbox, status, error);
}

/* ---- scanning ---- */

/* path is relative; why follows the name of what is in the way. */
static waldo_status scan_fail(waldo__workspace *workspace, waldo_status status, const char *path,
                              const char *why)
{
    return waldo_error_set(
        &workspace->error, status, WALDO_CLASS_USAGE, "workspace \"%s\" cannot be copied: %s%s%s",
        workspace->sandbox->spec->workspace, path, path[0] != '\0' ? ": " : "", why);
}

static waldo_status scan_errno(waldo__workspace *workspace, const char *path)
{
    int error = errno;

    return scan_fail(workspace, waldo__errno_status(error), path, waldo__errno_text(error));
}

static uint64_t bytes_max(const waldo__workspace *workspace)
{
    uint64_t max = workspace->sandbox->spec->options.workspace_max_bytes;

    return max != 0 ? max : BYTES_DEFAULT;
}

static waldo_status count_bytes(waldo__workspace *workspace, const char *path, uint64_t bytes)
{
    uint64_t max = bytes_max(workspace);
    char why[160];

    if (bytes <= max && workspace->bytes <= max - bytes) {
        workspace->bytes += bytes;
        return WALDO_OK;
    }
    snprintf(why, sizeof why,
             "the directory holds more than %llu bytes; raise workspace_max_bytes, or name a "
             "smaller directory",
             (unsigned long long)max);
    return scan_fail(workspace, WALDO_ETOOBIG, path, why);
}

static waldo_status open_root(waldo__workspace *workspace)
{
    const waldo_sandbox *sandbox = workspace->sandbox;
    char **first = WALDO__VEC_PUSH(&workspace->folders);
    waldo_status status;

    if (first == NULL || (*first = waldo__strdup("")) == NULL) {
        return WALDO_ENOMEM;
    }
    status = waldo__scratch_make(waldo__runtime_state_dir(sandbox->rt), &workspace->home,
                                 &workspace->error);
    if (status != WALDO_OK) {
        return status;
    }
    workspace->base = open(workspace->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (workspace->base < 0) {
        return scan_errno(workspace, "its copy");
    }
    workspace->root = open(sandbox->spec->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return workspace->root >= 0 ? WALDO_OK : scan_errno(workspace, "");
}

static waldo_status next_folder(waldo__workspace *workspace)
{
    char *path = workspace->folders.at[--workspace->folders.count];
    int fd;

    close_folder(workspace);
    workspace->folder_path = path;
    fd = openat(workspace->root, path[0] != '\0' ? path : ".",
                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return scan_errno(workspace, path);
    }
    workspace->folder = fdopendir(fd);
    if (workspace->folder == NULL) {
        close(fd);
        return scan_errno(workspace, path);
    }
    workspace->folder_fd = fd;
    return WALDO_OK;
}

static waldo_status add_folder(waldo__workspace *workspace, const char *path)
{
    char **slot = WALDO__VEC_PUSH(&workspace->folders);

    if (slot == NULL || (*slot = waldo__strdup(path)) == NULL) {
        return WALDO_ENOMEM;
    }
    return WALDO_OK;
}

static waldo_status add_link(waldo__workspace *workspace, waldo__baseline *entry, const char *name)
{
    char target[PATH_BYTES];
    ssize_t len = readlinkat(workspace->folder_fd, name, target, sizeof target);

    if (len < 0 || (size_t)len == sizeof target) {
        return scan_errno(workspace, entry->path);
    }
    entry->target = waldo__strndup(target, (size_t)len);
    entry->size = (uint64_t)len;
    return entry->target != NULL ? WALDO_OK : WALDO_ENOMEM;
}

/* Open both sides; the bytes follow step by step. */
static waldo_status add_file(waldo__workspace *workspace, waldo__baseline *entry, const char *name)
{
    char number[16];
    waldo_status status = count_bytes(workspace, entry->path, entry->size);

    if (status != WALDO_OK) {
        return status;
    }
    workspace->bytes -= entry->size; /* counted as it comes: the file may grow */
    workspace->from =
        openat(workspace->folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (workspace->from < 0) {
        return scan_errno(workspace, entry->path);
    }
    entry->size = 0;
    snprintf(number, sizeof number, "%u", entry->number);
    workspace->to = openat(workspace->base, number, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return workspace->to >= 0 ? WALDO_OK : scan_errno(workspace, entry->path);
}

static waldo_status copy_piece(waldo__workspace *workspace)
{
    waldo__baseline *entry = &workspace->entries.at[workspace->entries.count - 1];
    char *piece = waldo__alloc(PIECE);
    waldo_status status = WALDO_OK;
    ssize_t len;
    ssize_t done = 0;

    if (piece == NULL) {
        return WALDO_ENOMEM;
    }
    len = read(workspace->from, piece, PIECE);
    if (len < 0 && errno != EINTR && errno != EAGAIN) {
        status = scan_errno(workspace, entry->path);
    }
    while (status == WALDO_OK && done < len) {
        ssize_t part = write(workspace->to, piece + done, (size_t)(len - done));

        if (part < 0) {
            status = scan_errno(workspace, entry->path);
        } else {
            done += part;
        }
    }
    if (status == WALDO_OK && len > 0) {
        entry->size += (uint64_t)len;
        status = count_bytes(workspace, entry->path, (uint64_t)len);
    } else if (len == 0) {
        close_fd(&workspace->from);
        close_fd(&workspace->to);
    }
    waldo__free(piece);
    return status;
}

static waldo_status add_entry(waldo__workspace *workspace, const char *name)
{
    waldo__buf path = WALDO__BUF_INIT(PATH_BYTES - 1);
    waldo__baseline *entry;
    struct stat info;

    if (workspace->folder_path[0] != '\0') {
        waldo__buf_printf(&path, "%s/", workspace->folder_path);
    }
    waldo__buf_puts(&path, name);
    if (path.status == WALDO_ENOMEM) {
        waldo__buf_free(&path);
        return WALDO_ENOMEM;
    }
    if (path.status != WALDO_OK || workspace->entries.count >= ENTRIES_MAX) {
        waldo__buf_free(&path);
        return scan_fail(workspace, WALDO_ETOOBIG, name,
                         "there are too many files, or a path is too long");
    }
    entry = WALDO__VEC_PUSH(&workspace->entries);
    if (entry == NULL) {
        waldo__buf_free(&path);
        return WALDO_ENOMEM;
    }
    entry->path = waldo__buf_take(&path, NULL);
    entry->number = (unsigned)workspace->entries.count;
    if (entry->path == NULL) {
        return WALDO_ENOMEM;
    }
    if (fstatat(workspace->folder_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return scan_errno(workspace, entry->path);
    }
    entry->mode = info.st_mode;
    entry->size = (uint64_t)info.st_size;
    if (S_ISDIR(info.st_mode)) {
        return add_folder(workspace, entry->path);
    }
    if (S_ISLNK(info.st_mode)) {
        return add_link(workspace, entry, name);
    }
    if (S_ISREG(info.st_mode)) {
        return add_file(workspace, entry, name);
    }
    return scan_fail(workspace, WALDO_EPATH, entry->path,
                     "is neither file, directory nor link; remove it, or use workspace mode ro");
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const waldo__baseline *)a)->path, ((const waldo__baseline *)b)->path);
}

/* One small step; WALDO_END when the whole directory was copied. */
static waldo_status scan_step(waldo__workspace *workspace)
{
    struct dirent *found;

    if (workspace->from >= 0) {
        return copy_piece(workspace);
    }
    if (workspace->folder == NULL) {
        if (workspace->root < 0) {
            return open_root(workspace);
        }
        return workspace->folders.count > 0 ? next_folder(workspace) : WALDO_END;
    }
    errno = 0;
    found = readdir(workspace->folder);
    if (found == NULL) {
        if (errno != 0) {
            return scan_errno(workspace, workspace->folder_path);
        }
        close_folder(workspace);
        return WALDO_OK;
    }
    if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) {
        return WALDO_OK;
    }
    return add_entry(workspace, found->d_name);
}

static void scan_some(void *userdata)
{
    waldo__workspace *workspace = userdata;
    int64_t until = waldo__deadline_ns(ROUND_MS);
    waldo_error *error;
    waldo_status status;

    do {
        status = scan_step(workspace);
    } while (status == WALDO_OK && waldo__now_ns() < until);
    if (status == WALDO_OK) {
        waldo__task_queue(workspace->sandbox->env->loop, &workspace->task);
        return;
    }
    if (status != WALDO_END) {
        error = workspace->error;
        workspace->error = NULL;
        waldo__workspace_done(workspace, status, error);
        return;
    }
    end_scan(workspace);
    workspace->whole = 1;
    if (workspace->entries.count > 1) {
        qsort(workspace->entries.at, workspace->entries.count, sizeof *workspace->entries.at,
              by_path);
    }
    waldo__workspace_upload(workspace);
}

/* The same into another machine. */
static void upload_again(waldo__workspace *workspace, waldo_sandbox *sandbox)
{
    workspace->sandbox = sandbox;
    workspace->next = workspace->next_link = 0;
    workspace->offset = 0;
    workspace->in_flight = workspace->in_bytes = 0;
    waldo__error_clear(&workspace->error);
    workspace->status = WALDO_OK;
    waldo__workspace_upload(workspace);
}

void waldo__workspace_begin(waldo_sandbox *sandbox)
{
    const waldo_sandbox_spec *spec = sandbox->spec;
    waldo__workspace *workspace = sandbox->workspace;

    if (waldo__failover_restore(sandbox)) {
        return;
    }
    if (workspace != NULL && workspace->whole) {
        upload_again(workspace, sandbox);
        return;
    }
    waldo__workspace_free(workspace);
    sandbox->workspace = NULL;
    if (spec->options.workspace_mode != WALDO_WORKSPACE_COPY || spec->workspace == NULL) {
        waldo__live_prepared(sandbox, WALDO_OK, NULL);
        return;
    }
    workspace = WALDO__NEW(waldo__workspace);
    if (workspace == NULL) {
        waldo__live_prepared(sandbox, WALDO_ENOMEM, NULL);
        return;
    }
    workspace->sandbox = sandbox;
    workspace->loop = sandbox->env->loop;
    workspace->root = workspace->base = workspace->folder_fd = -1;
    workspace->from = workspace->to = -1;
    waldo__task_init(&workspace->task, scan_some, workspace);
    sandbox->workspace = workspace;
    waldo__task_queue(sandbox->env->loop, &workspace->task);
}

waldo_status waldo__baseline_read(const waldo__workspace *workspace, const waldo__baseline *entry,
                                  waldo__buf *out)
{
    waldo_status status = WALDO_OK;
    char number[16];
    ssize_t len = 1;
    int fd;

    snprintf(number, sizeof number, "%u", entry->number);
    fd = openat(workspace->base, number, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return WALDO_EIO;
    }
    while (status == WALDO_OK && len > 0) {
        char *piece = waldo__buf_reserve(out, PIECE);

        len = piece != NULL ? read(fd, piece, PIECE) : -1;
        if (len < 0) {
            status = out->status != WALDO_OK ? out->status : WALDO_EIO;
        } else {
            waldo__buf_commit(out, (size_t)len);
        }
    }
    close(fd);
    return status;
}
