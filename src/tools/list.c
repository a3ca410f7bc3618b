/* ls and glob: what is there. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "tools/tools.h"

enum { LIST_MAX = 2000, WALK_MAX = 100000, OUT_MAX = 1024 * 1024 };

static const char *path_or_root(const waldo_tool_call *call)
{
    const char *path = waldo_tool_call_str(call, "path");

    return path != NULL && path[0] != '\0' ? path : ".";
}

static void write_entry(const waldo_file_info *info, waldo__buf *out)
{
    waldo__buf_add_str(out, info->name);
    if (S_ISDIR(info->mode)) {
        waldo__buf_putc(out, '/');
    } else if (S_ISLNK(info->mode)) {
        waldo__buf_puts(out, " -> ");
        waldo__buf_add_str(out, info->link_target);
    } else if (S_ISREG(info->mode)) {
        waldo__buf_printf(out, "  %" PRIu64 "%s", info->bytes,
                          (info->mode & S_IXUSR) != 0 ? "  executable" : "");
    } else {
        waldo__buf_puts(out, "  special file");
    }
    waldo__buf_putc(out, '\n');
}

static void reply_list(waldo_tool_call *call, const waldo__buf *list, const char *if_empty)
{
    size_t max = waldo__tool_call_max_output(call);
    waldo__buf out = WALDO__BUF_INIT(4 * max + 4096);

    if (list->len == 0) {
        waldo__buf_puts(&out, if_empty);
    } else {
        waldo__tool_show_lines(waldo__buf_str(list), max, &out);
    }
    waldo_tool_call_reply_text(call, waldo__buf_str(&out));
    waldo__buf_free(&out);
}

static void listed(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    waldo_tool_call *call = userdata;
    waldo__buf list = WALDO__BUF_INIT(OUT_MAX);

    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
    } else {
        for (size_t i = 0; i < count && list.status == WALDO_OK; i++) {
            write_entry(&infos[i], &list);
        }
        if (count >= LIST_MAX) {
            waldo__buf_printf(&list, "[only the first %d entries]\n", LIST_MAX);
        }
        reply_list(call, &list, "[the folder is empty]");
    }
    waldo__buf_free(&list);
    waldo_tool_call_unref(call);
}

static waldo_status ls(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    waldo_tool_call_ref(call);
    waldo__sandbox_list(waldo__tool_call_sandbox(call), path_or_root(call), 0, LIST_MAX, listed,
                        call);
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

static void walked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    waldo_tool_call *call = userdata;
    const char *pattern = waldo_tool_call_str(call, "pattern");
    waldo__buf list = WALDO__BUF_INIT(OUT_MAX);
    size_t matches = 0;

    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
    } else {
        for (size_t i = 0; i < count && matches < LIST_MAX && list.status == WALDO_OK; i++) {
            if (!S_ISDIR(infos[i].mode) && waldo__glob_match(pattern, infos[i].name.ptr)) {
                waldo__buf_add_str(&list, infos[i].name);
                waldo__buf_putc(&list, '\n');
                matches++;
            }
        }
        if (matches >= LIST_MAX || count >= WALK_MAX) {
            waldo__buf_puts(&list, "[there may be more: use a narrower pattern or path]\n");
        }
        reply_list(call, &list, "[no file matches]");
    }
    waldo__buf_free(&list);
    waldo_tool_call_unref(call);
}

static waldo_status glob(void *userdata, waldo_tool_call *call)
{
    waldo_error *error = NULL;

    (void)userdata;
    if (waldo__glob_check(waldo_tool_call_str(call, "pattern"), &error) != WALDO_OK) {
        waldo__tool_fail_with(call, WALDO_EINVAL, error);
        waldo_error_free(error);
        return WALDO_OK;
    }
    waldo_tool_call_ref(call);
    waldo__sandbox_list(waldo__tool_call_sandbox(call), path_or_root(call), 1, WALK_MAX, walked,
                        call);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_glob = {
    .size = sizeof(waldo_tool_options),
    .name = "glob",
    .about = "Find files in the sandbox by a pattern: * and ? within a name, ** across folders, "
             "[a-z] sets, {a,b} alternatives. Answers paths below the folder, sorted.",
    .params =
        (const waldo_param[]){
            { .name = "pattern",
              .type = WALDO_STRING,
              .about = "Such as **/*.py; without a slash it is held against file names anywhere." },
            { .name = "path",
              .type = WALDO_STRING,
              .optional = 1,
              .about = "Folder to look in; default /workspace." },
            { .name = NULL } },
    .call = glob,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY | WALDO__TOOL_SANDBOX,
};
