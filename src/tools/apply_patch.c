/*
 * A patch over several files: all are read and all new contents made before the first is written,
 * so that a patch that does not apply changes nothing.
 */
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/tools.h"
#include "tools/v4a.h"

enum {
    CONTENT_MAX = 2 * WALDO__V4A_FILE_MAX, /* bytes of a changed file */
    TOTAL_MAX = 64 * 1024 * 1024,          /* bytes read for one patch */
    TEXT_MAX = 256 * 1024,                 /* bytes of a result */
    PATH_LEN_MAX = 4096
};

/* A file that the patch names: as it was found, and as the sections make it. */
typedef struct file {
    char *path; /* relative to the workspace, without "." and ".." */
    waldo__buf content;
    uint32_t mode;     /* as found; 0: it does not exist */
    uint32_t new_mode; /* to write it with; 0: its own */
    int wants_content;
    int exists; /* at this point of the patch */
    int changed;
    int is_done; /* written or removed */
} file;

/* Which files a section is about. */
typedef struct target {
    size_t from, to;
} target;

typedef struct state {
    waldo__tool_turn turn; /* first */
    struct {
        WALDO__VEC(file);
    } files;
    struct {
        WALDO__VEC(target);
    } targets;
    size_t at; /* of files: the one that is read, written or removed */
    size_t total;
    waldo__buf report; /* what was done, for the model */
    waldo__buf notes;
    waldo__buf why; /* of the first failure */
    size_t failures;
    int is_applied;
    int add_must_not_exist;
    waldo__v4a patch;
} state;

static void drop(waldo__tool_turn *turn)
{
    state *s = (state *)turn;

    for (size_t i = 0; i < s->files.count; i++) {
        waldo__free(s->files.at[i].path);
        waldo__buf_free(&s->files.at[i].content);
    }
    WALDO__VEC_FREE(&s->files);
    WALDO__VEC_FREE(&s->targets);
    waldo__v4a_free(&s->patch);
    waldo__buf_free(&s->report);
    waldo__buf_free(&s->notes);
    waldo__buf_free(&s->why);
}

/* ---- paths ---- */

/* "a/./b/../c" as "a/c"; 0 when it leaves the workspace or names nothing below it. */
static int normal_path(waldo_str path, waldo__buf *out)
{
    waldo_str rest = path, part;

    if (waldo__str_starts(path, WALDO__WORKSPACE "/")) {
        rest = waldo__slice(path.ptr + sizeof WALDO__WORKSPACE, path.len - sizeof WALDO__WORKSPACE);
    } else if (path.len > 0 && path.ptr[0] == '/') {
        return 0;
    }
    while (waldo__str_split(&rest, '/', &part)) {
        if (part.len == 0 || waldo__str_is(part, ".")) {
            continue;
        }
        if (!waldo__str_is(part, "..")) {
            waldo__buf_add(out, "/", out->len > 0);
            waldo__buf_add_str(out, part);
            continue;
        }
        if (out->len == 0) {
            return 0;
        }
        while (out->len > 0 && out->ptr[out->len - 1] != '/') {
            waldo__buf_truncate(out, out->len - 1);
        }
        waldo__buf_truncate(out, out->len - (out->len > 0));
    }
    return out->len > 0;
}

/* The file of a path, made known if need be. WALDO_EPATH for one that leaves the workspace. */
static waldo_status file_of(state *s, waldo_str path, size_t *ret_index)
{
    waldo__buf normal = WALDO__BUF_INIT(PATH_LEN_MAX);
    int is_inside = normal_path(path, &normal);
    waldo_status status = normal.status != WALDO_OK ? normal.status : WALDO_OK;
    file *f;

    if (status != WALDO_OK || !is_inside) {
        waldo__buf_free(&normal);
        return status == WALDO_ENOMEM ? status : WALDO_EPATH;
    }
    for (size_t i = 0; i < s->files.count; i++) {
        if (strcmp(s->files.at[i].path, normal.ptr) == 0) {
            waldo__buf_free(&normal);
            *ret_index = i;
            return WALDO_OK;
        }
    }
    f = WALDO__VEC_PUSH(&s->files);
    if (f != NULL) {
        f->content = WALDO__BUF_INIT(CONTENT_MAX);
        f->path = waldo__buf_take(&normal, NULL);
        *ret_index = s->files.count - 1;
    }
    waldo__buf_free(&normal);
    return f != NULL && f->path != NULL ? WALDO_OK : WALDO_ENOMEM;
}

static waldo_status bad_path(state *s, size_t line, waldo_str path)
{
    waldo__buf_printf(&s->why, "patch line %zu: ", line);
    waldo__tool_show_name(path, &s->why);
    waldo__buf_puts(&s->why, " is not below " WALDO__WORKSPACE ", where relative paths start\n");
    return WALDO_EPATH;
}

static waldo_status take_targets(state *s)
{
    for (size_t i = 0; i < s->patch.sections.count; i++) {
        const waldo__v4a_section *section = &s->patch.sections.at[i];
        target *t = WALDO__VEC_PUSH(&s->targets);
        waldo_status status = t == NULL ? WALDO_ENOMEM : file_of(s, section->path, &t->from);

        if (status == WALDO_EPATH) {
            return bad_path(s, section->line, section->path);
        }
        if (status != WALDO_OK) {
            return status;
        }
        t->to = t->from;
        s->files.at[t->from].wants_content |= section->kind == WALDO__V4A_UPDATE;
        if (section->move_to.len > 0) {
            status = file_of(s, section->move_to, &t->to);
        }
        if (status == WALDO_EPATH) {
            return bad_path(s, section->line + 1, section->move_to);
        }
        if (status != WALDO_OK) {
            return status;
        }
    }
    return WALDO_OK;
}

/* ---- the end ---- */

/* End the call with why it failed before anything was written. */
static void fail(state *s)
{
    if (s->failures > 1) {
        waldo__buf_printf(&s->why, "%zu more hunk%s or section%s cannot be applied either\n",
                          s->failures - 1, s->failures == 2 ? "" : "s",
                          s->failures == 2 ? "" : "s");
    }
    while (s->why.len > 0 && s->why.ptr[s->why.len - 1] == '\n') {
        waldo__buf_truncate(&s->why, s->why.len - 1);
    }
    waldo_tool_call_fail(s->turn.call, "%s: nothing was changed.\n%s",
                         s->is_applied ? "already applied" : "apply_patch failed",
                         waldo__buf_str(&s->why).ptr);
    waldo__tool_turn_end(&s->turn);
}

static void fail_at(state *s, const file *f, waldo_status status, const waldo_error *error)
{
    waldo__tool_show_name(waldo__str(f->path), &s->why);
    waldo__buf_printf(&s->why, ": %s", waldo__error_text(status, error));
    fail(s);
}

static void succeed(state *s)
{
    waldo__buf_add_str(&s->report, waldo__buf_str(&s->notes));
    if (s->report.len > 0) {
        waldo__buf_truncate(&s->report, s->report.len - 1);
    }
    if (s->report.status == WALDO_ENOMEM) {
        waldo_tool_call_abort(s->turn.call, WALDO_ENOMEM);
    } else {
        waldo_tool_call_reply_text(s->turn.call, waldo__buf_str(&s->report));
    }
    waldo__tool_turn_end(&s->turn);
}

/* ---- writing ---- */

static int is_to_write(const file *f)
{
    return f->exists && f->changed;
}

static int is_to_remove(const file *f)
{
    return !f->exists && f->mode != 0;
}

/* Say what was done and what was not when it had to stop in between. */
static void fail_between(state *s, const file *f, waldo_status status, const waldo_error *error)
{
    waldo__buf text = WALDO__BUF_INIT(TEXT_MAX);
    size_t done = 0;

    waldo__tool_show_name(waldo__str(f->path), &text);
    waldo__buf_printf(&text, " could not be %s: %s\n", f->exists ? "written" : "removed",
                      waldo__error_text(status, error));
    for (size_t i = 0; i < s->files.count; i++) {
        const file *other = &s->files.at[i];

        if (is_to_write(other) || is_to_remove(other)) {
            done += other->is_done;
            waldo__buf_puts(&text, other->is_done ? (other->exists ? "written: " : "removed: ")
                                                  : "as before: ");
            waldo__tool_show_name(waldo__str(other->path), &text);
            waldo__buf_puts(&text, "\n");
        }
    }
    waldo__buf_truncate(&text, text.len - (text.len > 0));
    waldo_tool_call_fail(s->turn.call, "apply_patch failed%s.\n%s",
                         done > 0 ? " in between: a part of the patch was applied"
                                  : ": nothing was changed",
                         waldo__buf_str(&text).ptr);
    waldo__buf_free(&text);
    waldo__tool_turn_end(&s->turn);
}

static void next_removal(state *s);
static void next_write(state *s);

/* The file at hand is in place, or gone; 0 when it is not, and the patch has failed. */
static int finish_file(state *s, waldo_status status, const waldo_error *error)
{
    file *f = &s->files.at[s->at];

    if (status != WALDO_OK) {
        fail_between(s, f, status, error);
        return 0;
    }
    f->is_done = 1;
    s->at++;
    return 1;
}

static void removed(void *userdata, waldo_status status, const waldo_error *error)
{
    if (finish_file(userdata, status, error)) {
        next_removal(userdata);
    }
}

/* What goes is removed last: until then nothing is lost. */
static void next_removal(state *s)
{
    while (s->at < s->files.count && !is_to_remove(&s->files.at[s->at])) {
        s->at++;
    }
    if (s->at == s->files.count) {
        succeed(s);
        return;
    }
    waldo__sandbox_remove(s->turn.sandbox, s->files.at[s->at].path, 0, removed, s);
}

static void written(void *userdata, waldo_status status, const waldo_error *error)
{
    if (finish_file(userdata, status, error)) {
        next_write(userdata);
    }
}

static void next_write(state *s)
{
    const file *f;

    while (s->at < s->files.count && !is_to_write(&s->files.at[s->at])) {
        s->at++;
    }
    if (s->at == s->files.count) {
        s->at = 0;
        next_removal(s);
        return;
    }
    f = &s->files.at[s->at];
    waldo_sandbox_write(s->turn.sandbox, f->path, waldo__buf_str(&f->content), f->new_mode, written,
                        s);
}

/* ---- making the new contents ---- */

static int is_first_failure(state *s)
{
    return s->failures++ == 0;
}

static void fails(state *s, const file *f, const char *what)
{
    if (is_first_failure(s)) {
        waldo__tool_show_name(waldo__str(f->path), &s->why);
        waldo__buf_printf(&s->why, " %s\n", what);
    }
}

/* Can a file be written, or read as text? Says why not. */
static int is_plain(state *s, const file *f)
{
    const char *what = !f->exists || f->mode == 0 || S_ISREG(f->mode) ? NULL
                       : S_ISDIR(f->mode)                             ? "is a folder"
                       : S_ISLNK(f->mode) ? "is a link: change the file it leads to, or delete the "
                                            "link first"
                                          : "is not a regular file";

    if (what != NULL) {
        fails(s, f, what);
    }
    return what == NULL;
}

static int is_there(state *s, const file *f)
{
    if (!f->exists) {
        fails(s, f, "does not exist: look for it with a command, or add it");
    }
    return f->exists;
}

static void report(state *s, const char *what, const file *f)
{
    waldo__buf_puts(&s->report, what);
    waldo__tool_show_name(waldo__str(f->path), &s->report);
}

static waldo_status add_file(state *s, const waldo__v4a_section *section, file *f)
{
    if (f->exists && s->add_must_not_exist) {
        fails(s, f, "exists: update it, or delete it first");
        return WALDO_OK;
    }
    if (!is_plain(s, f)) {
        return WALDO_OK;
    }
    report(s, f->exists ? "Replaced " : "Created ", f);
    waldo__buf_printf(&s->report, " (%zu line%s)\n", section->line_count,
                      section->line_count == 1 ? "" : "s");
    waldo__buf_clear(&f->content);
    for (size_t i = 0; i < section->line_count; i++) {
        waldo__buf_add_str(&f->content, s->patch.lines.at[section->first_line + i].text);
        waldo__buf_putc(&f->content, '\n');
    }
    f->exists = f->changed = 1;
    return f->content.status;
}

static void delete_file(state *s, file *f)
{
    if (!is_there(s, f)) {
        return;
    }
    if (S_ISLNK(f->mode) || is_plain(s, f)) {
        report(s, "Deleted ", f);
        waldo__buf_puts(&s->report, "\n");
        f->exists = 0;
    }
}

/* Put new content, which is taken, where a section wants it. */
static void put_content(state *s, const waldo__v4a_section *section, file *from, file *to,
                        waldo__buf *content, const waldo__v4a_change *change)
{
    int moves = from != to;

    report(s, moves ? "Moved " : "Updated ", from);
    if (moves) {
        report(s, " to ", to);
    }
    if (section->hunk_count > 0) {
        waldo__buf_printf(&s->report, " (+%zu -%zu)", change->added, change->removed);
    }
    waldo__buf_puts(&s->report, "\n");
    if (moves && to->exists) {
        report(s, "note: ", to);
        waldo__buf_puts(&s->report, " existed and was replaced\n");
    }
    to->changed |= moves || !waldo__str_eq(waldo__buf_str(content), waldo__buf_str(&from->content));
    if (moves) {
        to->new_mode = from->mode & 07777u;
        from->exists = 0;
    }
    to->exists = 1;
    waldo__buf_free(&to->content);
    to->content = *content;
    *content = WALDO__BUF_INIT(CONTENT_MAX);
}

static waldo_status update_file(state *s, const waldo__v4a_section *section, file *from, file *to)
{
    waldo__buf content = WALDO__BUF_INIT(CONTENT_MAX), why = WALDO__BUF_INIT(TEXT_MAX);
    waldo_str text = waldo__buf_str(&from->content);
    waldo__v4a_change change = { .added = 0 };
    waldo_status status = WALDO_OK;

    if (!is_there(s, from) || !is_plain(s, from) || !is_plain(s, to)) {
        return WALDO_OK;
    }
    if (section->hunk_count == 0) {
        waldo__buf_add_str(&content, text);
        status = content.status;
    } else if (waldo__str_find(text, '\0') < text.len) {
        waldo__tool_show_name(waldo__str(from->path), &why);
        waldo__buf_puts(&why, " is not a text file: it holds NUL bytes\n");
        status = WALDO_EINVAL;
    } else {
        status = waldo__v4a_apply(&s->patch, section, text, &content, &s->notes, &why, &change);
    }
    if (status == WALDO_OK) {
        put_content(s, section, from, to, &content, &change);
    } else if (status == WALDO_EINVAL || status == WALDO_EEXISTS || status == WALDO_ETOOBIG) {
        if (is_first_failure(s)) {
            waldo__buf_free(&s->why);
            s->why = why;
            why = WALDO__BUF_INIT(TEXT_MAX);
            s->is_applied = status == WALDO_EEXISTS;
        }
        s->failures += change.failed > 1 ? change.failed - 1 : 0;
        status = WALDO_OK;
    }
    waldo__buf_free(&content);
    waldo__buf_free(&why);
    return status;
}

static void apply(state *s)
{
    waldo_status status = WALDO_OK;

    for (size_t i = 0; status == WALDO_OK && i < s->patch.sections.count; i++) {
        const waldo__v4a_section *section = &s->patch.sections.at[i];
        file *from = &s->files.at[s->targets.at[i].from], *to = &s->files.at[s->targets.at[i].to];

        if (section->kind == WALDO__V4A_ADD) {
            status = add_file(s, section, from);
        } else if (section->kind == WALDO__V4A_DELETE) {
            delete_file(s, from);
        } else {
            status = update_file(s, section, from, to);
        }
    }
    if (status != WALDO_OK) {
        waldo_tool_call_abort(s->turn.call, status);
        waldo__tool_turn_end(&s->turn);
    } else if (s->failures > 0) {
        fail(s);
    } else if (waldo_tool_call_cancelled(s->turn.call)) {
        waldo__tool_turn_end(&s->turn);
    } else {
        s->at = 0;
        next_write(s);
    }
}

/* ---- reading ---- */

static void look_at_next(state *s);

static void got_file(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    state *s = userdata;
    file *f = &s->files.at[s->at];

    if (status != WALDO_OK) {
        fail_at(s, f, status, error);
        return;
    }
    s->total += bytes.len;
    if (bytes.len != file_size || s->total > TOTAL_MAX) {
        waldo__tool_show_name(waldo__str(f->path), &s->why);
        waldo__buf_puts(
            &s->why,
            file_size > WALDO__V4A_FILE_MAX ? " is larger than 16 MiB: edit it with a command"
            : s->total > TOTAL_MAX ? ": the files of the patch have more than 64 MiB: send several"
                                   : " changed while it was read: try again");
        fail(s);
        return;
    }
    waldo__buf_add_str(&f->content, bytes);
    if (f->content.status != WALDO_OK) {
        fail_at(s, f, f->content.status, NULL);
        return;
    }
    s->at++;
    look_at_next(s);
}

static void looked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    state *s = userdata;
    file *f = &s->files.at[s->at];

    if (status == WALDO_OK && count == 1) {
        f->mode = infos[0].mode;
        f->exists = 1;
    } else if (status != WALDO_ENOTFOUND) {
        fail_at(s, f, status, error);
        return;
    }
    if (f->wants_content && S_ISREG(f->mode) && !waldo_tool_call_cancelled(s->turn.call)) {
        waldo_sandbox_read(s->turn.sandbox, f->path, 0, WALDO__V4A_FILE_MAX, got_file, s);
        return;
    }
    s->at++;
    look_at_next(s);
}

static void look_at_next(state *s)
{
    if (waldo_tool_call_cancelled(s->turn.call)) {
        waldo__tool_turn_end(&s->turn);
    } else if (s->at < s->files.count) {
        waldo__sandbox_stat(s->turn.sandbox, s->files.at[s->at].path, looked, s);
    } else {
        apply(s);
    }
}

static void my_turn(waldo__tool_turn *turn)
{
    look_at_next((state *)turn);
}

/* ---- the call ---- */

/* The patch as text, under the names that models give it, or the arguments themselves. */
static waldo_str patch_of(const waldo_tool_call *call)
{
    static const char *const names[] = { "patch", "input", "diff" };
    int is_operation = waldo_tool_call_has(call, "type");

    for (size_t i = 0; !is_operation && i < WALDO__COUNT(names); i++) {
        const char *text = waldo_tool_call_str(call, names[i]);

        if (text != NULL) {
            return waldo__str(text);
        }
    }
    if (is_operation || waldo_tool_call_has(call, "operation") ||
        waldo_tool_call_has(call, "operations") ||
        waldo__str_starts(waldo__str_trim(waldo_tool_call_args(call)), "[")) {
        return waldo_tool_call_args(call);
    }
    return (waldo_str){ "", 0 };
}

static waldo_status apply_patch(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    waldo_error *error = NULL;
    waldo_status status;

    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    s->add_must_not_exist = userdata != NULL;
    s->report = s->notes = s->why = WALDO__BUF_INIT(TEXT_MAX);
    status = waldo__v4a_parse(&s->patch, patch_of(call), &error);
    if (status == WALDO_OK) {
        status = take_targets(s);
    }
    if (status == WALDO_OK) {
        s->turn.has_no_path = 1;
        s->turn.drop = drop;
        waldo__tool_turn_take(&s->turn, call, my_turn);
        return WALDO_PENDING;
    }
    if (status != WALDO_ENOMEM) {
        waldo__buf_truncate(&s->why, s->why.len - (s->why.len > 0));
        status = waldo_tool_call_fail(call, "apply_patch failed: nothing was changed.\n%s",
                                      error != NULL ? waldo_error_message(error)
                                                    : waldo__buf_str(&s->why).ptr);
    }
    waldo_error_free(error);
    drop(&s->turn);
    return status;
}

const waldo_tool_options waldo__tool_apply_patch = {
    .size = sizeof(waldo_tool_options),
    .name = "apply_patch",
    .about =
        "Add, change, delete and rename text files of the sandbox by one patch, which is applied "
        "as a whole or not at all. It is no unified diff: there are no line numbers. Form:\n"
        "*** Begin Patch\n"
        "*** Add File: path\n"
        "+each line of the new file\n"
        "*** Update File: path\n"
        "*** Move to: new path (only to rename it)\n"
        "@@ a line above the change, such as a class or function (only where it helps)\n"
        " line that stays\n"
        "-line that goes\n"
        "+line that comes\n"
        "*** Delete File: path\n"
        "*** End Patch\n"
        "Each change shows about three unchanged lines before and after it; several changes of a "
        "file stand in its order, each begun by a line with @@. The line *** End of File behind a "
        "change says that it is at the end of the file.",
    .params =
        (const waldo_param[]){
            { .name = "patch",
              .type = WALDO_STRING,
              .about = "The whole patch, from *** Begin Patch to *** End Patch. Paths are relative "
                       "to /workspace." },
            { .name = NULL } },
    .freeform = "patch",
    .grammar = waldo__v4a_grammar,
    .call = apply_patch,
    .flags = WALDO_PARALLEL_SAFE | WALDO__TOOL_SANDBOX | WALDO__TOOL_FREE_ARGS,
};
