/* `waldo cp`: files and folders into a sandbox and out of it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { PIECE = 4 * 1024 * 1024, INPUT_MAX = 128 * 1024 * 1024, PATH_BYTES = 4096 };

/* One side of the copy. */
typedef struct place {
    const char *text;
    const char *path;  /* behind the colon; NULL: on this machine */
    char sandbox[256]; /* what stands before it; empty: that of -s */
    int is_stream;     /* "-" */
} place;

typedef struct copying {
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
    int over;
    int code;
    int is_folder; /* of the last look */
    int is_missing;
    const char *path; /* being read */
    uint64_t offset;
} copying;

static int parse_place(const char *text, place *p)
{
    const char *colon = strchr(text, ':');

    *p = (place){ .text = text, .is_stream = strcmp(text, "-") == 0 };
    if (text[0] != '@' && text[0] != ':') {
        return EXIT_DONE;
    }
    if (colon == NULL || colon[1] == '\0' || (size_t)(colon - text) >= sizeof p->sandbox) {
        return usage_error("\"%s\": a place in a sandbox is @NAME:PATH, or :PATH with -s", text);
    }
    memcpy(p->sandbox, text, (size_t)(colon - text));
    p->path = colon + 1;
    return EXIT_DONE;
}

static void told_end(copying *c, waldo_status status, const waldo_error *error)
{
    c->over = 1;
    if (status != WALDO_OK) {
        complain("%s", error != NULL ? waldo_error_message(error) : waldo_status_text(status));
        c->code = exit_code_of(error, status);
        if (c->code == EXIT_FAILED && waldo_sandbox_isolation(c->sandbox) == WALDO_ISOLATION_ANY) {
            c->code = EXIT_UNAVAILABLE; /* it was never opened */
        }
    }
}

static void done(void *userdata, waldo_status status, const waldo_error *error)
{
    told_end(userdata, status, error);
}

/* 0: over with a failure, or interrupted. */
static int drive_copy(copying *c)
{
    while (!c->over && !was_interrupted() && waldo_runtime_step(c->rt, WALDO_FOREVER) == WALDO_OK) {
    }
    if (!c->over) {
        c->code = was_interrupted() ? EXIT_INTERRUPTED : EXIT_FAILED;
    }
    c->over = 0;
    return c->code == EXIT_DONE;
}

/* The last part of a path; empty when that is no name: "/", "." and "..". */
static void last_part(const char *path, char *ret_name)
{
    size_t len = strlen(path);
    size_t begin;

    while (len > 0 && path[len - 1] == '/') {
        len--;
    }
    for (begin = len; begin > 0 && path[begin - 1] != '/'; begin--) {
    }
    snprintf(ret_name, PATH_BYTES, "%.*s", (int)(len - begin), path + begin);
    if (strcmp(ret_name, ".") == 0 || strcmp(ret_name, "..") == 0) {
        ret_name[0] = '\0';
    }
}

/* What a copy of from becomes: to itself, or something of its name in the folder to. */
static void destination(const char *to, int into, const char *from, char *ret_path)
{
    char name[PATH_BYTES];

    last_part(from, name);
    snprintf(ret_path, 2 * PATH_BYTES, "%s%s%s", to, into && name[0] != '\0' ? "/" : "",
             into ? name : "");
}

/* ---- into the sandbox ---- */

static void looked(void *userdata, waldo_status status, waldo_str bytes, uint64_t size,
                   const waldo_error *error)
{
    copying *c = userdata;

    (void)bytes;
    (void)size;
    c->is_folder = status == WALDO_EPATH; /* a path that leads out fails once more, and is told */
    c->is_missing = status == WALDO_ENOTFOUND;
    told_end(c, c->is_folder || c->is_missing ? WALDO_OK : status, error);
}

/* NULL: told why. Given back with free(). */
static char *read_input(size_t *ret_len)
{
    char *bytes = NULL;
    size_t len = 0;
    size_t room = 0;

    for (;;) {
        struct pollfd fds[] = { { STDIN_FILENO, POLLIN, 0 }, { stop_fd(), POLLIN, 0 } };
        ssize_t got;

        if (len == room) {
            char *more = room < INPUT_MAX ? realloc(bytes, 2 * room + PIECE) : NULL;

            if (more == NULL) {
                complain("standard input: at most %d bytes can be copied from it", INPUT_MAX);
                break;
            }
            bytes = more;
            room = 2 * room + PIECE;
        }
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            complain("poll: %m");
            break;
        }
        if (was_interrupted()) {
            break;
        }
        got = fds[0].revents != 0 ? read(STDIN_FILENO, bytes + len, room - len) : -1;
        if (got == 0 && len <= INPUT_MAX) {
            *ret_len = len;
            return bytes;
        }
        if (got < 0 && fds[0].revents != 0 && errno != EINTR && errno != EAGAIN) {
            complain("standard input: %m");
            break;
        }
        len += got > 0 ? (size_t)got : 0;
    }
    free(bytes);
    return NULL;
}

static int copy_in(copying *c, const place *from, const place *to)
{
    size_t len = strlen(to->path);
    char path[2 * PATH_BYTES];
    char *bytes;

    if (from->is_stream) {
        bytes = read_input(&len);
        if (bytes == NULL) {
            return was_interrupted() ? EXIT_INTERRUPTED : EXIT_FAILED;
        }
        waldo_sandbox_write(c->sandbox, to->path, (waldo_str){ bytes, len }, 0, done, c);
        free(bytes);
        drive_copy(c);
        return c->code;
    }
    waldo_sandbox_read(c->sandbox, to->path, 0, 1, looked, c);
    if (!drive_copy(c)) {
        return c->code;
    }
    destination(to->path, c->is_folder || (c->is_missing && to->path[len - 1] == '/'), from->text,
                path);
    waldo_sandbox_upload(c->sandbox, from->text, path, done, c);
    drive_copy(c);
    return c->code;
}

/* ---- out of it ---- */

static void got_archive(void *userdata, waldo_status status, waldo_str archive,
                        const waldo_error *error)
{
    if (status == WALDO_OK) {
        output_write(archive);
    }
    told_end(userdata, status, error);
}

/* A file piece by piece; a folder as an archive. */
static void got_piece(void *userdata, waldo_status status, waldo_str bytes, uint64_t size,
                      const waldo_error *error)
{
    copying *c = userdata;

    if (status == WALDO_EPATH && c->offset == 0) {
        waldo_sandbox_pack(c->sandbox, c->path, got_archive, c);
        return;
    }
    if (status != WALDO_OK) {
        told_end(c, status, error);
        return;
    }
    output_write(bytes);
    c->offset += bytes.len;
    if (bytes.len == 0 || c->offset >= size || output_error() != 0) {
        told_end(c, WALDO_OK, NULL);
        return;
    }
    waldo_sandbox_read(c->sandbox, c->path, c->offset, PIECE, got_piece, c);
}

static int copy_out(copying *c, const place *from, const place *to)
{
    char path[2 * PATH_BYTES];
    struct stat info;

    if (to->is_stream) {
        c->path = from->path;
        waldo_sandbox_read(c->sandbox, from->path, 0, PIECE, got_piece, c);
    } else {
        destination(to->text, stat(to->text, &info) == 0 && S_ISDIR(info.st_mode), from->path,
                    path);
        waldo_sandbox_download(c->sandbox, from->path, path, done, c);
    }
    drive_copy(c);
    return c->code;
}

static void interrupted(void *userdata)
{
    (void)userdata; /* the loop has made a round, which is all that was missing */
}

int cmd_cp(args *a)
{
    waldo_sandbox_spec *spec;
    copying c = { .code = EXIT_DONE };
    place from, to;
    int code;

    if (a->rest_count != 2) {
        return usage_error("cp takes FROM and TO, not %d words", a->rest_count);
    }
    if (parse_place(a->rest[0], &from) != EXIT_DONE || parse_place(a->rest[1], &to) != EXIT_DONE ||
        check_directory(a) != EXIT_DONE) {
        return EXIT_USAGE;
    }
    if ((from.path == NULL) == (to.path == NULL)) {
        return usage_error("cp: one of FROM and TO is in a sandbox, as @NAME:PATH or :PATH");
    }
    if (from.sandbox[0] != '\0' || to.sandbox[0] != '\0') {
        if (a->sandboxes[0] != NULL) {
            return usage_error("cp: the sandbox is given twice, by -s and before the colon");
        }
        a->sandboxes[0] = from.path != NULL ? from.sandbox : to.sandbox;
    } else {
        choose_sandbox(a);
    }
    spec = make_spec(a, 0);
    if (spec == NULL) {
        return EXIT_USAGE;
    }
    c.rt = open_runtime(a);
    code = EXIT_FAILED;
    if (c.rt != NULL && stop_on_signals(c.rt, interrupted, &c)) {
        c.sandbox = waldo_sandbox_new(c.rt, spec);
        code = c.sandbox == NULL   ? EXIT_FAILED
               : from.path != NULL ? copy_out(&c, &from, &to)
                                   : copy_in(&c, &from, &to);
    }
    waldo_sandbox_unref(c.sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(c.rt);
    return code;
}
