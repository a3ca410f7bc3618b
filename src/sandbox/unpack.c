/*
 * A tar archive into a folder of the sandbox. It was read as a whole before; then come, each when
 * the one before is over: what was there goes (restore only), folders and files, many at once,
 * links, times, modes that would have been in the way.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/archive.h"
#include "sandbox/workspace.h"

enum {
    FLIGHT_MAX = 24, /* below what the hand takes at once */
    FLIGHT_BYTES = 16 * 1024 * 1024,
    PIECE = 4 * 1024 * 1024,
    SCRIPT_TEXT = 64 * 1024,
    SCRIPT_MS = 120000,
    NAMES_MAX = 32,   /* of one command */
    OWNER_BITS = 0700 /* a folder needs them while it is filled */
};

typedef enum step {
    STEP_LIST,
    STEP_CLEAR,
    STEP_UNLOCK, /* and from the start again, when something could not be removed */
    STEP_FOLDER,
    STEP_MAKE,
    STEP_LINKS,
    STEP_TIMES,
    STEP_MODES /* last: they may keep from entering */
} step;

/* Lives until the op is over and no operation of its own is on its way. */
typedef struct unpacking {
    waldo__op *op; /* NULL: over */
    waldo_sandbox *sandbox;
    char *folder;
    char *archive;
    step step;
    size_t in_flight;
    size_t in_bytes;
    int locked;    /* something could not be removed for want of a right */
    int unlocked;  /* the rights were given: from now on that is a failure */
    size_t next;   /* of the step */
    size_t offset; /* within a file */
    waldo_status status;
    waldo_error *error;
    struct {
        WALDO__VEC(char *);
    } old; /* what has to go */
    waldo__unpacked_list list;
} unpacking;

typedef struct unpack_op {
    waldo__op op;
    unpacking *unpack;
    waldo_sandbox_fn done;
    void *userdata;
} unpack_op;

static void go_on(unpacking *un);

static void free_old(unpacking *un)
{
    for (size_t i = 0; i < un->old.count; i++) {
        waldo__free(un->old.at[i]);
    }
    WALDO__VEC_FREE(&un->old);
}

static void unpack_free(unpacking *un)
{
    if (un->op != NULL || un->in_flight > 0) {
        return;
    }
    free_old(un);
    waldo__unpacked_free(&un->list);
    waldo_error_free(un->error);
    waldo__free(un->archive);
    waldo__free(un->folder);
    waldo__free(un);
}

static void fail(unpacking *un, waldo_status status, const waldo_error *error)
{
    if (un->status == WALDO_OK) {
        un->status = status;
        un->error = waldo_error_copy(error);
        waldo__error_prefix(un->error, "unpacking");
    }
}

/* One operation on its way; it outlives the interest in it, never the sandbox. */
typedef struct flight {
    unpacking *un;
    size_t bytes;
    int may_fail; /* a failure is only told to the log */
} flight;

static flight *take_off(unpacking *un, size_t bytes, int may_fail)
{
    flight *plane = WALDO__NEW(flight);

    if (plane != NULL) {
        *plane = (flight){ un, bytes, may_fail };
        un->in_flight++;
        un->in_bytes += bytes;
    } else {
        fail(un, WALDO_ENOMEM, NULL);
    }
    return plane;
}

static void landed(void *userdata, waldo_status status, const waldo_error *error)
{
    flight *plane = userdata;
    unpacking *un = plane->un;
    int may_fail = plane->may_fail;

    un->in_flight--;
    un->in_bytes -= plane->bytes;
    waldo__free(plane);
    if (un->op == NULL || un->op->state == WALDO__OP_ENDED) {
        unpack_free(un);
        return;
    }
    if (status != WALDO_OK && may_fail) {
        waldo__log(un->sandbox->env->loop, WALDO_LOG_WARN, "sandbox",
                   "unpacking: times were not kept: %s", waldo_error_message(error));
    } else if (status != WALDO_OK) {
        fail(un, status, error);
    }
    go_on(un);
}

static void full_path(const unpacking *un, const char *path, waldo__buf *out)
{
    *out = WALDO__BUF_INIT(3 * WALDO_HAND_PATH_MAX);
    if (strcmp(un->folder, ".") != 0) {
        waldo__buf_printf(out, "%s/", un->folder);
    }
    waldo__buf_puts(out, path);
}

/* ---- what was there ---- */

static void on_list(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                    const waldo_error *error)
{
    flight *plane = userdata;
    unpacking *un = plane->un;

    for (size_t i = 0; status == WALDO_OK && i < count && un->op != NULL; i++) {
        char **slot = WALDO__VEC_PUSH(&un->old);

        if (slot == NULL || (*slot = waldo__strdup(infos[i].name.ptr)) == NULL) {
            status = WALDO_ENOMEM;
        }
    }
    landed(plane, status, error);
}

static int list_old(unpacking *un)
{
    flight *plane = un->next++ == 0 ? take_off(un, 0, 0) : NULL;

    if (plane != NULL) {
        waldo__sandbox_list(un->sandbox, un->folder, 0, SIZE_MAX, on_list, plane);
    }
    return plane != NULL;
}

/* Folders that are read-only keep what they hold: for that there is a second try. */
static void on_removed(void *userdata, waldo_status status, const waldo_error *error)
{
    unpacking *un = ((flight *)userdata)->un;
    int again = status == WALDO_EACCESS && !un->unlocked;

    un->locked |= again;
    if (again || status == WALDO_ENOTFOUND) { /* or somebody else has removed it */
        landed(userdata, WALDO_OK, NULL);
        return;
    }
    landed(userdata, status, error);
}

static int remove_old(unpacking *un)
{
    flight *plane = un->next < un->old.count ? take_off(un, 0, 0) : NULL;
    waldo__buf path;

    if (plane != NULL) {
        full_path(un, un->old.at[un->next++], &path);
        waldo__sandbox_remove(un->sandbox, waldo__buf_str(&path).ptr, 1, on_removed, plane);
        waldo__buf_free(&path);
    }
    return plane != NULL;
}

/* A root has no name to be made by (/workspace, /): it is there, or what goes into it says so. */
static void on_base(void *userdata, waldo_status status, const waldo_error *error)
{
    landed(userdata, status == WALDO_EINVAL ? WALDO_OK : status, error);
}

static int make_base(unpacking *un)
{
    flight *plane = un->next++ == 0 && strcmp(un->folder, ".") != 0 ? take_off(un, 0, 0) : NULL;

    if (plane != NULL) {
        waldo__files_mkdir(un->sandbox, un->folder, 0, on_base, plane);
    }
    return plane != NULL;
}

/* ---- folders and files ---- */

static int make_folder(unpacking *un, const waldo__unpacked *entry, const char *path)
{
    flight *plane = take_off(un, 0, 0);

    if (plane != NULL) {
        waldo__files_mkdir(un->sandbox, path, entry->mode | OWNER_BITS, landed, plane);
    }
    un->next++;
    return plane != NULL;
}

/* The next piece of a file. One that is a single piece replaces what is there in one go. */
static int make_file(unpacking *un, const waldo__unpacked *entry, const char *path)
{
    size_t piece = un->sandbox->hand != NULL ? PIECE : SIZE_MAX; /* others cannot append */
    size_t left = entry->bytes.len - un->offset;
    size_t len = left < piece ? left : piece;
    unsigned flags = entry->bytes.len <= piece ? 0
                     : un->offset == 0         ? WALDO__WRITE_PLAIN
                                               : WALDO__WRITE_APPEND;
    flight *plane = take_off(un, len, 0);

    if (plane != NULL) {
        waldo__files_write(un->sandbox, path, waldo__strn(entry->bytes.ptr + un->offset, len),
                           un->offset == 0 ? entry->mode : 0, flags, landed, plane);
    }
    un->offset += len;
    if (un->offset == entry->bytes.len) {
        un->offset = 0;
        un->next++;
    }
    return plane != NULL;
}

static int make_next(unpacking *un)
{
    const waldo__unpacked *entry;
    waldo__buf path;
    int begun;

    while (un->next < un->list.count &&
           (un->list.at[un->next].dropped || un->list.at[un->next].link != NULL)) {
        un->next++;
    }
    if (un->next == un->list.count) {
        return 0;
    }
    entry = &un->list.at[un->next];
    full_path(un, entry->path, &path);
    begun = entry->is_folder ? make_folder(un, entry, waldo__buf_str(&path).ptr)
                             : make_file(un, entry, waldo__buf_str(&path).ptr);
    waldo__buf_free(&path);
    return begun;
}

/* ---- what the hand has no request for: a script, in pieces ---- */

static void script_over(void *userdata, waldo_status status, const waldo_exec_result *result,
                        const waldo_error *error)
{
    waldo_error *problem = NULL;

    if (status == WALDO_OK && (result->end != WALDO_EXEC_EXITED || result->exit_code != 0)) {
        status = waldo_error_set(&problem, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                                 "links, modes or times could not be set: %.*s",
                                 (int)(result->err.bytes.len & 1023), result->err.bytes.ptr);
        error = problem;
    }
    landed(userdata, status, error);
    waldo_error_free(problem);
}

static int run_script(unpacking *un, waldo__buf *script, int may_fail)
{
    flight *plane = script->len > 0 ? take_off(un, 0, may_fail) : NULL;
    waldo_exec_options options = WALDO_EXEC(.cwd = un->folder, .timeout_ms = SCRIPT_MS);
    waldo_error *error = NULL;
    waldo_status status = waldo__buf_puts(script, ":\n"); /* what the last "&&" leads to */

    options.cmd = waldo__buf_str(script).ptr;
    if (plane != NULL && status == WALDO_OK) {
        status = waldo_sandbox_exec(un->sandbox, &options, script_over, plane, NULL, &error);
    }
    waldo__buf_free(script);
    if (plane != NULL && status != WALDO_OK) {
        un->in_flight--;
        waldo__free(plane);
        fail(un, status, error);
        plane = NULL;
    }
    waldo_error_free(error);
    return plane != NULL;
}

/* A relative name, which might begin with a dash. */
static void put_name(waldo__buf *script, const char *path)
{
    waldo__buf_puts(script, " ./");
    waldo__put_quoted(script, path);
}

static int make_links(unpacking *un)
{
    waldo__buf script = WALDO__BUF_INIT(4 * SCRIPT_TEXT);

    for (; un->next < un->list.count && script.len < SCRIPT_TEXT; un->next++) {
        const waldo__unpacked *entry = &un->list.at[un->next];

        if (entry->link != NULL && !entry->dropped) {
            waldo__buf_puts(&script, "ln -sf -- ");
            waldo__put_quoted(&script, entry->link);
            put_name(&script, entry->path);
            waldo__buf_puts(&script, " &&\n");
        }
    }
    return run_script(un, &script, 0);
}

static int unlock(unpacking *un)
{
    waldo__buf script = WALDO__BUF_INIT(SCRIPT_TEXT);

    if (un->locked && !un->unlocked) {
        un->unlocked = 1;
        waldo__buf_puts(&script, "find . -type d -exec chmod u+rwx {} + &&\n");
    }
    return run_script(un, &script, 0);
}

/* Folders that lack a right of their owner's, now that they are full; files without any. */
static int set_modes(unpacking *un)
{
    waldo__buf script = WALDO__BUF_INIT(4 * SCRIPT_TEXT);

    for (; un->next < un->list.count && script.len < SCRIPT_TEXT; un->next++) {
        /* Backwards: what a folder holds comes before it. */
        const waldo__unpacked *entry = &un->list.at[un->list.count - 1 - un->next];
        int late = entry->is_folder ? (entry->mode & OWNER_BITS) != OWNER_BITS : entry->mode == 0;

        if (late && entry->link == NULL && !entry->dropped) {
            waldo__buf_printf(&script, "chmod %o --", (unsigned)entry->mode);
            put_name(&script, entry->path);
            waldo__buf_puts(&script, " &&\n");
        }
    }
    return run_script(un, &script, 0);
}

/* Neighbours with one time share a command; what a folder holds comes before it. */
static int set_times(unpacking *un)
{
    waldo__buf script = WALDO__BUF_INIT(4 * SCRIPT_TEXT);
    const waldo__unpacked *before = NULL;
    int names = 0;

    for (; un->next < un->list.count && script.len < SCRIPT_TEXT; un->next++) {
        const waldo__unpacked *entry = &un->list.at[un->list.count - 1 - un->next];

        if (entry->dropped) {
            continue;
        }
        if (before == NULL || before->mtime_s != entry->mtime_s || names == NAMES_MAX) {
            waldo__buf_printf(&script, "%stouch -c -h -d @%lld --", before != NULL ? " &&\n" : "",
                              (long long)entry->mtime_s);
            names = 0;
        }
        put_name(&script, entry->path);
        names++;
        before = entry;
    }
    waldo__buf_puts(&script, before != NULL ? " &&\n" : "");
    return run_script(un, &script, 1);
}

/* ---- step by step ---- */

/* Each begins the next operation of its step; 0: there is none. */
static int (*const steps[])(unpacking *) = {
    [STEP_LIST] = list_old,    [STEP_CLEAR] = remove_old, [STEP_UNLOCK] = unlock,
    [STEP_FOLDER] = make_base, [STEP_MAKE] = make_next,   [STEP_LINKS] = make_links,
    [STEP_MODES] = set_modes,  [STEP_TIMES] = set_times
};

static void next_step(unpacking *un)
{
    un->next = 0;
    if (un->step != STEP_UNLOCK || !un->locked) {
        un->step++;
        return;
    }
    un->step = STEP_LIST;
    un->locked = 0;
    free_old(un);
}

/* 1: operations are on their way. */
static int advance(unpacking *un)
{
    while (un->status == WALDO_OK && un->step <= STEP_MODES) {
        int one_by_one = un->step >= STEP_LINKS || un->step == STEP_UNLOCK;

        while (un->status == WALDO_OK && un->in_flight < (one_by_one ? 1 : FLIGHT_MAX) &&
               un->in_bytes < FLIGHT_BYTES && steps[un->step](un)) {
        }
        if (un->in_flight > 0) {
            return 1;
        }
        next_step(un);
    }
    return un->in_flight > 0;
}

static void go_on(unpacking *un)
{
    waldo_error *error;
    int busy;

    un->sandbox->inside += un->op->internal;
    busy = advance(un);
    un->sandbox->inside -= un->op->internal;
    if (!busy) {
        error = un->error;
        un->error = NULL;
        waldo__op_end(un->op, un->status, error);
    }
}

/* ---- the op ---- */

static void unpack_start(waldo__op *op)
{
    unpacking *un = ((unpack_op *)op)->unpack;

    if (un->step == STEP_LIST &&
        op->sandbox->spec->options.workspace_mode != WALDO_WORKSPACE_COPY) {
        waldo__op_fail(op, WALDO_ENOTSUP,
                       "restore: it would remove what the directory of the host holds; only a "
                       "copied workspace can be restored");
        return;
    }
    go_on(un);
}

static void unpack_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    unpack_op *wanted = (unpack_op *)op;

    if (wanted->done != NULL) {
        wanted->done(wanted->userdata, status, error);
    }
}

static void unpack_op_free(waldo__op *op)
{
    unpack_op *wanted = (unpack_op *)op;

    wanted->unpack->op = NULL;
    unpack_free(wanted->unpack);
    waldo__free(wanted);
}

static const waldo__op_kind unpack_kind = { .start = unpack_start,
                                            .finish = unpack_finish,
                                            .free = unpack_op_free };

static void begin(waldo_sandbox *sandbox, const char *path, step first, waldo_str archive,
                  waldo_sandbox_fn done, void *userdata)
{
    unpack_op *wanted = WALDO__NEW(unpack_op);
    unpacking *un = WALDO__NEW(unpacking);
    char *folder = waldo__strdup(path != NULL && path[0] != '\0' ? path : ".");
    char *copy = waldo__strndup(archive.ptr, archive.len);
    waldo_error *error = NULL;
    waldo_status status;

    if (wanted == NULL || un == NULL || folder == NULL || copy == NULL) {
        waldo__free(wanted);
        waldo__free(un);
        waldo__free(folder);
        waldo__free(copy);
        if (done != NULL) {
            done(userdata, WALDO_ENOMEM, NULL);
        }
        return;
    }
    un->op = &wanted->op;
    un->sandbox = sandbox;
    un->folder = folder;
    un->archive = copy;
    un->step = first;
    wanted->unpack = un;
    wanted->done = done;
    wanted->userdata = userdata;
    status = waldo__unpacked_read(&un->list, waldo__strn(copy, archive.len),
                                  waldo__archive_max(sandbox), &error);
    if (status != WALDO_OK) {
        waldo__op_begin_ended(sandbox, &wanted->op, &unpack_kind, status, error);
        return;
    }
    waldo__op_begin(sandbox, &wanted->op, &unpack_kind);
}

void waldo_sandbox_unpack(waldo_sandbox *sandbox, const char *path, waldo_str archive,
                          waldo_sandbox_fn done, void *userdata)
{
    begin(sandbox, path, STEP_FOLDER, archive, done, userdata);
}

void waldo_sandbox_restore(waldo_sandbox *sandbox, waldo_str archive, waldo_sandbox_fn done,
                           void *userdata)
{
    begin(sandbox, ".", STEP_LIST, archive, done, userdata);
}
