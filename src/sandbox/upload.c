/* The baseline into the machine: many small operations on their way at once. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/tar.h"
#include "sandbox/workspace.h"

enum {
    FLIGHT_MAX = 24, /* below what the hand takes at once */
    FLIGHT_BYTES = 16 * 1024 * 1024,
    PIECE = 4 * 1024 * 1024,
    LINKS_TEXT = 64 * 1024,          /* of one script that makes links */
    ARCHIVE_SOON = 16 * 1024 * 1024, /* no entry begins behind so much of an archive */
    ARCHIVE_MAX = 128 * 1024 * 1024
};

static void go_on(waldo__workspace *workspace);

/* One operation on its way. It outlives the workspace's interest, never the sandbox. */
typedef struct flight {
    waldo_sandbox *sandbox;
    waldo__workspace *workspace;
    size_t bytes;
} flight;

static flight *take_off(waldo__workspace *workspace, size_t bytes)
{
    flight *plane = WALDO__NEW(flight);

    if (plane != NULL) {
        *plane = (flight){ workspace->sandbox, workspace, bytes };
        workspace->in_flight++;
        workspace->in_bytes += bytes;
    }
    return plane;
}

/* 1 when the workspace still waits for it. */
static int land(flight *plane, waldo_status status, const waldo_error *error)
{
    waldo__workspace *workspace = plane->workspace;
    int current = plane->sandbox->workspace == workspace && workspace->sandbox != NULL;

    if (current) {
        workspace->in_flight--;
        workspace->in_bytes -= plane->bytes;
        if (status != WALDO_OK && workspace->status == WALDO_OK) {
            workspace->status = status;
            workspace->error = waldo_error_copy(error);
            waldo__error_prefix(workspace->error, "copying the workspace into the sandbox");
        }
    }
    waldo__free(plane);
    return current;
}

/* One that ends while it is begun, without memory: whoever begins them looks behind the last. */
static void landed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__workspace *workspace = ((flight *)userdata)->workspace;

    if (land(userdata, status, error) && workspace->sandbox->inside == 0) {
        go_on(workspace);
    }
}

static void fail(waldo__workspace *workspace, waldo_status status, const char *why)
{
    if (workspace->status == WALDO_OK) {
        workspace->status = status;
        waldo_error_set(&workspace->error, status, WALDO_CLASS_SYSTEM,
                        "copying the workspace into the sandbox: %s", why);
    }
}

/* The next piece of a file; the first one makes it. */
static void send_piece(waldo__workspace *workspace, const waldo__baseline *entry)
{
    uint64_t left = entry->size - workspace->offset;
    size_t len = left < PIECE ? (size_t)left : PIECE;
    char *bytes = waldo__alloc(len + 1);
    flight *plane = bytes != NULL ? take_off(workspace, len) : NULL;
    char number[16];
    ssize_t got = 0;
    int fd;

    if (plane == NULL) {
        waldo__free(bytes);
        fail(workspace, WALDO_ENOMEM, "out of memory");
        return;
    }
    snprintf(number, sizeof number, "%u", entry->number);
    fd = openat(workspace->base, number, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        got = pread(fd, bytes, len, (off_t)workspace->offset);
        close(fd);
    }
    if (fd < 0 || got < 0 || (size_t)got != len) {
        fail(workspace, WALDO_EIO, "its copy on the host cannot be read any more");
        land(plane, WALDO_OK, NULL);
    } else {
        waldo__files_write(workspace->sandbox, entry->path, waldo__strn(bytes, len),
                           workspace->offset == 0 ? entry->mode & 0777 : 0,
                           workspace->offset == 0 ? WALDO__WRITE_PLAIN : WALDO__WRITE_APPEND,
                           landed, plane);
    }
    workspace->offset += len;
    if (workspace->offset >= entry->size) {
        workspace->offset = 0;
        workspace->next++;
    }
    waldo__free(bytes);
}

static void send_folder(waldo__workspace *workspace, const waldo__baseline *entry)
{
    flight *plane = take_off(workspace, 0);

    if (plane == NULL) {
        fail(workspace, WALDO_ENOMEM, "out of memory");
        return;
    }
    waldo__files_mkdir(workspace->sandbox, entry->path, (entry->mode & 0777) | 0700, landed, plane);
}

/* ---- links: the hand makes none, so a script does ---- */

static void links_made(void *userdata, waldo_status status, const waldo_exec_result *result,
                       const waldo_error *error)
{
    waldo__workspace *workspace = ((flight *)userdata)->workspace;
    waldo_error *problem = NULL;

    if (status == WALDO_OK && (result->end != WALDO_EXEC_EXITED || result->exit_code != 0)) {
        status = waldo_error_set(&problem, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                                 "its symbolic links could not be made: %.*s",
                                 (int)(result->err.bytes.len & 1023), result->err.bytes.ptr);
        error = problem;
    }
    if (land(userdata, status, error)) {
        go_on(workspace);
    }
    waldo_error_free(problem);
}

void waldo__put_quoted(waldo__buf *out, const char *text)
{
    waldo__buf_putc(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            waldo__buf_puts(out, "'\\''");
        } else {
            waldo__buf_putc(out, *text);
        }
    }
    waldo__buf_puts(out, "'");
}

static void send_links(waldo__workspace *workspace)
{
    waldo__buf script = WALDO__BUF_INIT(4 * LINKS_TEXT);
    waldo_error *error = NULL;
    flight *plane = take_off(workspace, 0);
    waldo_exec_options options = WALDO_EXEC(.timeout_ms = 60000);

    if (plane == NULL) {
        fail(workspace, WALDO_ENOMEM, "out of memory");
        return;
    }
    while (workspace->next_link < workspace->entries.count && script.len < LINKS_TEXT) {
        const waldo__baseline *entry = &workspace->entries.at[workspace->next_link++];

        if (entry->target != NULL) {
            waldo__buf_puts(&script, "ln -s -- ");
            waldo__put_quoted(&script, entry->target);
            waldo__buf_puts(&script, " ./");
            waldo__put_quoted(&script, entry->path);
            waldo__buf_puts(&script, " || exit 1\n");
        }
    }
    if (script.len == 0) {
        land(plane, WALDO_OK, NULL);
        return;
    }
    options.cmd = script.ptr;
    if (waldo_sandbox_exec(workspace->sandbox, &options, links_made, plane, NULL, &error) !=
        WALDO_OK) {
        fail(workspace, waldo_error_status(error), waldo_error_message(error));
        land(plane, WALDO_OK, NULL);
        waldo_error_free(error);
    }
    waldo__buf_free(&script);
}

/* ---- without a hand: archives, when the backend unpacks them ---- */

static int by_archive(const waldo__workspace *workspace)
{
    const waldo_sandbox *sandbox = workspace->sandbox;

    return sandbox->hand == NULL && (waldo__live_caps(sandbox) & WALDO_BACKEND_FILES) != 0 &&
           WALDO__BACKEND_HAS(waldo__live_entry(sandbox)->ops, restore);
}

static waldo_status pack(waldo__workspace *workspace, const waldo__baseline *entry,
                         waldo__buf *archive)
{
    waldo__buf content = WALDO__BUF_INIT(ARCHIVE_MAX);
    waldo__tar_entry item = { .name = entry->path,
                              .link = entry->target,
                              .is_folder = S_ISDIR(entry->mode),
                              .mode = entry->mode & 0777,
                              .uid = workspace->sandbox->info.uid,
                              .gid = workspace->sandbox->info.gid,
                              .mtime_s = waldo__wall_ms() / 1000 };
    waldo_status status = WALDO_OK;

    item.mode |= S_ISDIR(entry->mode) ? 0700 : 0;
    if (S_ISREG(entry->mode)) {
        status = waldo__baseline_read(workspace, entry, &content);
        item.bytes = waldo__buf_str(&content);
    }
    status = status == WALDO_OK ? waldo__tar_put(archive, &item) : status;
    waldo__buf_free(&content);
    return status;
}

static void send_archive(waldo__workspace *workspace)
{
    waldo__buf archive = WALDO__BUF_INIT(ARCHIVE_MAX);
    flight *plane = take_off(workspace, 0);
    waldo_status status = plane != NULL ? WALDO_OK : WALDO_ENOMEM;

    while (status == WALDO_OK && archive.len < ARCHIVE_SOON &&
           workspace->next < workspace->entries.count) {
        const waldo__baseline *entry = &workspace->entries.at[workspace->next++];

        status = pack(workspace, entry, &archive);
        if (status == WALDO_ETOOBIG) {
            waldo__buf text = WALDO__BUF_INIT(8192);

            waldo__buf_printf(&text, "%s is larger than %d MiB", entry->path, ARCHIVE_MAX >> 20);
            fail(workspace, status, waldo__buf_str(&text).ptr);
            waldo__buf_free(&text);
        }
    }
    status = status == WALDO_OK ? waldo__tar_end(&archive) : status;
    if (status != WALDO_OK) {
        fail(workspace, status, waldo_status_text(status));
        if (plane != NULL) {
            land(plane, WALDO_OK, NULL);
        }
    } else {
        waldo__files_write(workspace->sandbox, ".", waldo__buf_str(&archive), 0,
                           WALDO__WRITE_ARCHIVE, landed, plane);
    }
    waldo__buf_free(&archive);
}

/* ---- order: folders and files as sorted (parents first), then links ---- */

static void advance(waldo__workspace *workspace)
{
    if (by_archive(workspace)) {
        workspace->next_link = workspace->entries.count;
        while (workspace->status == WALDO_OK && workspace->in_flight == 0 &&
               workspace->next < workspace->entries.count) {
            send_archive(workspace);
        }
    }
    while (workspace->status == WALDO_OK && workspace->next < workspace->entries.count &&
           !by_archive(workspace) && workspace->in_flight < FLIGHT_MAX &&
           workspace->in_bytes < FLIGHT_BYTES) {
        const waldo__baseline *entry = &workspace->entries.at[workspace->next];

        if (S_ISREG(entry->mode)) {
            send_piece(workspace, entry);
            continue;
        }
        if (S_ISDIR(entry->mode)) {
            send_folder(workspace, entry);
        }
        workspace->next++;
    }
    while (workspace->status == WALDO_OK && workspace->in_flight == 0 &&
           workspace->next_link < workspace->entries.count) {
        send_links(workspace);
    }
}

static void go_on(waldo__workspace *workspace)
{
    waldo_sandbox *sandbox = workspace->sandbox;
    waldo_error *error;
    waldo_status status;

    sandbox->inside++;
    advance(workspace);
    sandbox->inside--;
    if (workspace->in_flight > 0) {
        return;
    }
    status = workspace->status;
    error = workspace->error;
    workspace->error = NULL;
    waldo__workspace_done(workspace, status, error);
}

void waldo__workspace_upload(waldo__workspace *workspace)
{
    go_on(workspace);
}
