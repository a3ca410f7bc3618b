/* What became of a copied workspace: its files now against the baseline, as a patch. */
#include <sys/stat.h>

#include "base/alloc.h"
#include "sandbox/patch.h"
#include "sandbox/workspace.h"

enum { FILES_MAX = 1000000, PIECE = 16 * 1024 * 1024 };
#define CONTENT_MAX ((size_t)512 * 1024 * 1024) /* of one file */
#define PATCH_MAX   ((size_t)1024 * 1024 * 1024)

/* Lives until the op is over and no operation of its own is on its way. */
typedef struct changes {
    waldo__op *op; /* NULL: over */
    waldo_sandbox *sandbox;
    int in_flight;
    struct {
        WALDO__VEC(waldo_file_info);
    } now;         /* sorted; names and targets are owned */
    size_t at;     /* in now */
    size_t old_at; /* in the baseline */
    waldo__buf content;
    waldo__buf patch;
} changes;

typedef struct changes_op {
    waldo__op op;
    changes *changes;
    waldo_changes_fn done;
    void *userdata;
} changes_op;

static void go_on(changes *ch);

static void changes_free(changes *ch)
{
    if (ch->op != NULL || ch->in_flight) {
        return;
    }
    for (size_t i = 0; i < ch->now.count; i++) {
        waldo__free((char *)ch->now.at[i].name.ptr);
        waldo__free((char *)ch->now.at[i].link_target.ptr);
    }
    WALDO__VEC_FREE(&ch->now);
    waldo__buf_free(&ch->content);
    waldo__buf_free(&ch->patch);
    waldo__free(ch);
}

/* An operation of its own is over: 0 when nobody waits for it any more. */
static int back(changes *ch)
{
    ch->in_flight = 0;
    if (ch->op == NULL || ch->op->state == WALDO__OP_ENDED) {
        changes_free(ch);
        return 0;
    }
    return 1;
}

/* Neither folders nor git's own files are part of a patch; nor is what a patch cannot say. */
static int in_patch(uint32_t mode, const char *path)
{
    return (S_ISREG(mode) || S_ISLNK(mode)) && waldo__patch_path_ok(waldo__str(path));
}

static const waldo__baseline *old_entry(const changes *ch, size_t at)
{
    const waldo__workspace *base = ch->sandbox->workspace;

    return base != NULL && at < base->entries.count ? &base->entries.at[at] : NULL;
}

/* ---- one path ---- */

static waldo_status old_side(changes *ch, const waldo__baseline *old, waldo__buf *content,
                             waldo__patch_side *side)
{
    waldo_status status = WALDO_OK;

    if (old == NULL) {
        return WALDO_OK;
    }
    side->mode = old->mode;
    if (old->target != NULL) {
        side->bytes = waldo__str(old->target);
        return WALDO_OK;
    }
    status = waldo__baseline_read(ch->sandbox->workspace, old, content);
    side->bytes = waldo__buf_str(content);
    return status;
}

/* Both sides are known: write what differs. info NULL: it is gone; old NULL: it is new. */
static int add_path(changes *ch, const char *path, const waldo__baseline *old,
                    const waldo_file_info *info)
{
    waldo__buf content = WALDO__BUF_INIT(CONTENT_MAX);
    waldo__patch_side before = { .bytes = { "", 0 } };
    waldo__patch_side after = { .bytes = { "", 0 } };
    waldo_status status = old_side(ch, old, &content, &before);

    if (info != NULL) {
        after.mode = info->mode;
        after.bytes = S_ISLNK(info->mode) ? info->link_target : waldo__buf_str(&ch->content);
    }
    if (status == WALDO_OK) {
        status = waldo__patch_add(&ch->patch, waldo__str(path), &before, &after);
    }
    waldo__buf_free(&content);
    waldo__buf_clear(&ch->content);
    if (status != WALDO_OK) {
        waldo__op_fail(ch->op, status, "changes: %s: %s", path, waldo_status_text(status));
    }
    return status == WALDO_OK;
}

static void read_more(changes *ch);

static void on_read(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                    const waldo_error *error)
{
    changes *ch = userdata;
    const waldo_file_info *info;
    const waldo__baseline *old;
    int gone = status == WALDO_ENOTFOUND;
    int same_path;

    if (!back(ch)) {
        return;
    }
    info = &ch->now.at[ch->at];
    if (status != WALDO_OK && !gone) {
        waldo__op_pass_on(ch->op, status, "changes", error);
        return;
    }
    waldo__buf_add_str(&ch->content, bytes);
    if (ch->content.status != WALDO_OK || file_size > CONTENT_MAX) {
        waldo__op_fail(ch->op, ch->content.status != WALDO_OK ? ch->content.status : WALDO_ETOOBIG,
                       "changes: %s is too large for a patch", info->name.ptr);
        return;
    }
    if (!gone && bytes.len > 0 && ch->content.len < file_size) {
        read_more(ch);
        return;
    }
    old = old_entry(ch, ch->old_at);
    same_path = old != NULL && strcmp(old->path, info->name.ptr) == 0;
    old = same_path && in_patch(old->mode, old->path) ? old : NULL;
    ch->at++;
    ch->old_at += (size_t)same_path;
    if (add_path(ch, info->name.ptr, old, gone ? NULL : info)) {
        go_on(ch);
    }
}

static void read_more(changes *ch)
{
    ch->in_flight = 1;
    waldo_sandbox_read(ch->sandbox, ch->now.at[ch->at].name.ptr, ch->content.len, PIECE, on_read,
                       ch);
}

/* ---- all paths: two sorted lists side by side ---- */

/* Take the next path that needs no reading; 0 when a file must be read, or all is over. */
static int step(changes *ch)
{
    const waldo__baseline *old = old_entry(ch, ch->old_at);
    const waldo_file_info *info = ch->at < ch->now.count ? &ch->now.at[ch->at] : NULL;
    int order = old == NULL ? 1 : info == NULL ? -1 : strcmp(old->path, info->name.ptr);

    if (old == NULL && info == NULL) {
        waldo__op_end(ch->op, WALDO_OK, NULL);
        return 0;
    }
    if (order < 0) {
        ch->old_at++;
        return !in_patch(old->mode, old->path) || add_path(ch, old->path, old, NULL);
    }
    if (in_patch(info->mode, info->name.ptr) && S_ISREG(info->mode)) {
        read_more(ch);
        return 0;
    }
    ch->at++;
    ch->old_at += order == 0;
    old = order == 0 && in_patch(old->mode, old->path) ? old : NULL;
    info = in_patch(info->mode, info->name.ptr) ? info : NULL;
    return (old == NULL && info == NULL) ||
           add_path(ch, info != NULL ? info->name.ptr : old->path, old, info);
}

static void go_on(changes *ch)
{
    while (step(ch)) {
    }
}

static void on_list(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                    const waldo_error *error)
{
    changes *ch = userdata;

    if (!back(ch)) {
        return;
    }
    if (status != WALDO_OK || count >= FILES_MAX) {
        waldo__op_end(ch->op, status != WALDO_OK ? status : WALDO_ETOOBIG, waldo_error_copy(error));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        waldo_file_info *info = WALDO__VEC_PUSH(&ch->now);

        if (info == NULL) {
            waldo__op_end(ch->op, WALDO_ENOMEM, NULL);
            return;
        }
        *info = infos[i];
        info->name.ptr = waldo__strndup(infos[i].name.ptr, infos[i].name.len);
        info->link_target.ptr = waldo__strndup(infos[i].link_target.ptr, infos[i].link_target.len);
        if (info->name.ptr == NULL || info->link_target.ptr == NULL) {
            waldo__op_end(ch->op, WALDO_ENOMEM, NULL);
            return;
        }
    }
    go_on(ch);
}

/* ---- the op ---- */

/* A machine that was made from a snapshot of one that was there before has none. */
static int lacks_baseline(const waldo_sandbox *sandbox)
{
    return sandbox->spec->workspace != NULL && sandbox->workspace == NULL;
}

static void changes_start(waldo__op *op)
{
    changes *ch = ((changes_op *)op)->changes;

    if (op->sandbox->spec->options.workspace_mode != WALDO_WORKSPACE_COPY) {
        waldo__op_fail(op, WALDO_ENOTSUP,
                       "changes: only a copied workspace has them; in mode rw they are in the "
                       "directory itself");
        return;
    }
    if (op->sandbox->info.reached ? !op->sandbox->saved_empty : lacks_baseline(op->sandbox)) {
        waldo__op_fail(op, WALDO_ENOTSUP,
                       "changes: the machine was there before, and what its workspace held at "
                       "first is known only to the process that made it; compare inside, such as "
                       "by git, or read the files");
        return;
    }
    ch->in_flight = 1;
    waldo__sandbox_list(op->sandbox, ".", 1, FILES_MAX, on_list, ch);
}

static void changes_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    changes_op *wanted = (changes_op *)op;

    wanted->done(wanted->userdata, status,
                 status == WALDO_OK ? waldo__buf_str(&wanted->changes->patch) : WALDO__S(""),
                 error);
}

static void changes_op_free(waldo__op *op)
{
    changes_op *wanted = (changes_op *)op;

    wanted->changes->op = NULL;
    changes_free(wanted->changes);
    waldo__free(wanted);
}

static const waldo__op_kind changes_kind = { .start = changes_start,
                                             .finish = changes_finish,
                                             .free = changes_op_free };

void waldo_sandbox_changes(waldo_sandbox *sandbox, waldo_changes_fn done, void *userdata)
{
    changes_op *wanted = WALDO__NEW(changes_op);
    changes *ch = WALDO__NEW(changes);

    if (wanted == NULL || ch == NULL) {
        waldo__free(wanted);
        waldo__free(ch);
        done(userdata, WALDO_ENOMEM, WALDO__S(""), NULL);
        return;
    }
    ch->op = &wanted->op;
    ch->sandbox = sandbox;
    waldo__buf_init(&ch->content, CONTENT_MAX);
    waldo__buf_init(&ch->patch, PATCH_MAX);
    wanted->changes = ch;
    wanted->done = done;
    wanted->userdata = userdata;
    if (sandbox->state == WALDO__LIVE_NEW && waldo__live_check(sandbox, NULL) == WALDO_OK &&
        !waldo__live_durable(sandbox) &&
        sandbox->spec->options.workspace_mode == WALDO_WORKSPACE_COPY) {
        /* No machine was needed so far: nothing changed. */
        waldo__op_begin_ended(sandbox, &wanted->op, &changes_kind, WALDO_OK, NULL);
        return;
    }
    waldo__op_begin(sandbox, &wanted->op, &changes_kind);
}
