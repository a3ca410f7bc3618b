/* ls and glob: what is there. */
#include <inttypes.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "tools/tools.h"

/* Lists are made complete, however long, so that what is left out can be counted. */
enum { LIST_BYTES_MAX = 64 * 1024 * 1024, PATH_BYTES_MAX = 16 * 1024, NOTE_ROOM = 4096 };

static const char *path_or_root(const waldo_tool_call *call)
{
    const char *path = waldo_tool_call_str(call, "path");

    return path != NULL && path[0] != '\0' ? path : ".";
}

static void write_entry(const waldo_file_info *info, waldo__buf *out)
{
    waldo__tool_show_name(info->name, out);
    if (S_ISDIR(info->mode)) {
        waldo__buf_putc(out, '/');
    } else if (S_ISLNK(info->mode)) {
        waldo__buf_puts(out, " -> ");
        waldo__tool_show_name(info->link_target, out);
    } else if (S_ISREG(info->mode)) {
        waldo__buf_printf(out, "  %" PRIu64 "%s", info->bytes,
                          (info->mode & S_IXUSR) != 0 ? "  executable" : "");
    } else {
        waldo__buf_puts(out, "  special file");
    }
    waldo__buf_putc(out, '\n');
}

static void reply_list(waldo_tool_call *call, const waldo__buf *list, const char *if_empty,
                       const char *note)
{
    size_t max = waldo__tool_call_max_output(call);
    waldo__buf out = WALDO__BUF_INIT(max + NOTE_ROOM);

    if (list->len == 0) {
        waldo__buf_puts(&out, if_empty);
    }
    waldo__tool_show_lines(waldo__buf_str(list), max, &out);
    if (note != NULL) {
        waldo__buf_printf(&out, "[%s]\n", note);
    }
    if (list->status == WALDO_OK && out.status == WALDO_OK) {
        waldo_tool_call_reply_text(call, waldo__buf_str(&out));
    } else {
        waldo__tool_fail_with(call, list->status != WALDO_OK ? list->status : out.status, NULL);
    }
    waldo__buf_free(&out);
}

static void listed(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    waldo_tool_call *call = userdata;
    waldo__buf list = WALDO__BUF_INIT(LIST_BYTES_MAX);

    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
    } else {
        for (size_t i = 0; i < count; i++) {
            write_entry(&infos[i], &list);
        }
        reply_list(call, &list, "[the folder is empty]\n",
                   count >= WALDO__TOOL_WALK_MAX ? "only the first 100000 entries were looked at"
                                                 : NULL);
    }
    waldo__buf_free(&list);
    waldo_tool_call_unref(call);
}

static waldo_status ls(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    waldo_tool_call_ref(call);
    waldo__sandbox_list(waldo__tool_call_sandbox(call), path_or_root(call), 0, WALDO__TOOL_WALK_MAX,
                        listed, call);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_ls = {
    .size = sizeof(waldo_tool_options),
    .name = "ls",
    .about = "List a folder in the sandbox: one entry a line, folders with a slash, files with "
             "their size in bytes, links with their target.",
    .params = (const waldo_param[]){ { .name = "path",
                                       .type = WALDO_STRING,
                                       .optional = 1,
                                       .about = "The folder; default /workspace." },
                                     { .name = NULL } },
    .call = ls,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY | WALDO__TOOL_SANDBOX,
};

/* ---- glob ---- */

typedef struct state {
    waldo_tool_call *call;
    waldo__glob glob;
    int with_git; /* the pattern names it */
} state;

static void walked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    state *s = userdata;
    waldo__buf list = WALDO__BUF_INIT(LIST_BYTES_MAX), path = WALDO__BUF_INIT(PATH_BYTES_MAX);

    if (status != WALDO_OK) {
        waldo__tool_fail_with(s->call, status, error);
    } else {
        for (size_t i = 0; i < count; i++) {
            if (!S_ISDIR(infos[i].mode) && (s->with_git || !waldo__path_in_git(infos[i].name)) &&
                waldo__glob_match(&s->glob, infos[i].name)) {
                waldo__buf_clear(&path);
                waldo__tool_add_folder(path_or_root(s->call), &path);
                waldo__buf_add_str(&path, infos[i].name);
                waldo__tool_show_name(waldo__buf_str(&path), &list);
                waldo__buf_putc(&list, '\n');
            }
        }
        reply_list(s->call, &list, "[no file matches]\n",
                   s->glob.steps == 0 ? "the pattern was too much work: this is not all, use a "
                                        "simpler one or a deeper path"
                   : count >= WALDO__TOOL_WALK_MAX
                       ? "only the first 100000 entries were looked at: use a deeper path"
                       : NULL);
    }
    waldo__buf_free(&path);
    waldo__buf_free(&list);
    waldo__glob_free(&s->glob);
    waldo_tool_call_unref(s->call);
}

static waldo_status glob(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    const char *pattern = waldo_tool_call_str(call, "pattern");
    waldo_error *error = NULL;
    waldo_status status;

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    status = waldo__glob_init(&s->glob, pattern, &error);
    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
        waldo_error_free(error);
        return WALDO_OK;
    }
    s->call = waldo_tool_call_ref(call);
    s->with_git = waldo__str_search(waldo__str(pattern), WALDO__S(".git/"), 0) < strlen(pattern);
    waldo__sandbox_list(waldo__tool_call_sandbox(call), path_or_root(call), 1, WALDO__TOOL_WALK_MAX,
                        walked, s);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_glob = {
    .size = sizeof(waldo_tool_options),
    .name = "glob",
    .about =
        "Find files in the sandbox by a pattern: * and ? within a name, ** across folders, "
        "[a-z] sets, {a,b} alternatives. Answers sorted paths that the other tools take; hidden "
        "files are among them, the content of .git only when the pattern names it.",
    .params =
        (const waldo_param[]){
            { .name = "pattern",
              .type = WALDO_STRING,
              .about = "Such as **/*.py; without a slash it is held against file names anywhere." },
            { .name = "path",
              .type = WALDO_STRING,
              .optional = 1,
              .about = "Folder to look in; default /workspace. The pattern is relative to it." },
            { .name = NULL } },
    .call = glob,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY | WALDO__TOOL_SANDBOX,
};
