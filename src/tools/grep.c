/*
 * grep: the files are listed through the sandbox layer and searched by the sandbox's own grep, so
 * that a pattern that runs away spends the sandbox's time and ends at a timeout.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "tools/tools.h"

enum {
    WALK_MAX = 100000,
    ARGS_MAX = 64 * 1024, /* of file names in one command; the kernel takes 128 KiB an argument */
    TIMEOUT_MS = 60000,
    NAMES_MAX = 16 * 1024 * 1024
};

typedef struct state {
    waldo_tool_call *call;
    waldo_job *job;
    const char *root;
    waldo__buf names; /* NUL-terminated, one after the other */
    size_t at;        /* of the next name */
    waldo__buf found;
} state;

static void search_on(state *s);

static void end(state *s)
{
    waldo_tool_call_on_cancel(s->call, NULL, NULL);
    waldo__buf_free(&s->names);
    waldo__buf_free(&s->found);
    waldo_tool_call_unref(s->call);
}

static void reply(state *s)
{
    size_t max = waldo__tool_call_max_output(s->call);
    waldo__buf out = WALDO__BUF_INIT(4 * max + 4096);

    if (s->found.len == 0) {
        waldo__buf_puts(&out, "[no match]");
    } else {
        waldo__tool_show_lines(waldo__buf_str(&s->found), max, &out);
    }
    if (s->found.status == WALDO_ETOOBIG || s->at < s->names.len) {
        waldo__buf_puts(&out, "[there are more matches: use a narrower pattern, path or glob]\n");
    }
    waldo_tool_call_reply_text(s->call, waldo__buf_str(&out));
    waldo__buf_free(&out);
    end(s);
}

/* grep's exit codes: 0 found, 1 not found, 2 trouble (which may follow matches). */
static void searched(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    state *s = userdata;

    s->job = NULL;
    if (status != WALDO_OK) {
        waldo_tool_call_fail(s->call, "grep could not be run in the sandbox: %s",
                             error != NULL ? waldo_error_message(error)
                                           : waldo_status_text(status));
        end(s);
        return;
    }
    if (result->end != WALDO_EXEC_EXITED ||
        (result->exit_code > 1 && result->out.total == 0 && result->err.total > 0)) {
        waldo_tool_call_fail(s->call, "grep %s: %.*s",
                             result->end == WALDO_EXEC_TIMED_OUT ? "timed out" : "failed",
                             (int)(result->err.bytes.len < 1000 ? result->err.bytes.len : 1000),
                             result->err.bytes.ptr);
        end(s);
        return;
    }
    waldo__buf_add_str(&s->found, result->out.bytes);
    if (s->found.len > waldo__tool_call_max_output(s->call) || s->at >= s->names.len) {
        reply(s);
    } else {
        search_on(s);
    }
}

/* The next files, as many as fit into one command. */
static void search_on(state *s)
{
    struct {
        WALDO__VEC(const char *);
    } argv = { 0 };
    const char *fixed[] = { "grep",
                            "-nHIE",
                            waldo_tool_call_bool(s->call, "ignore_case", 0) ? "-i" : NULL,
                            "-e",
                            waldo_tool_call_str(s->call, "pattern"),
                            "--" };
    size_t from = s->at;
    waldo_error *error = NULL;
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < WALDO__COUNT(fixed); i++) {
        if (fixed[i] != NULL) {
            const char **slot = WALDO__VEC_PUSH(&argv);

            status = slot != NULL ? status : WALDO_ENOMEM;
            if (slot != NULL) {
                *slot = fixed[i];
            }
        }
    }
    while (status == WALDO_OK && s->at < s->names.len && s->at - from < ARGS_MAX) {
        const char **slot = WALDO__VEC_PUSH(&argv);

        status = slot != NULL ? WALDO_OK : WALDO_ENOMEM;
        if (slot != NULL) {
            *slot = s->names.ptr + s->at;
            s->at += strlen(*slot) + 1;
        }
    }
    if (status == WALDO_OK && WALDO__VEC_PUSH(&argv) != NULL) {
        status = waldo_sandbox_exec(waldo__tool_call_sandbox(s->call),
                                    &WALDO_EXEC(.argv = argv.at, .cwd = s->root,
                                                .timeout_ms = TIMEOUT_MS,
                                                .max_output = waldo__tool_call_max_output(s->call)),
                                    searched, s, &s->job, &error);
    }
    WALDO__VEC_FREE(&argv);
    if (status != WALDO_OK) {
        waldo__tool_fail_with(s->call, status, error);
        waldo_error_free(error);
        end(s);
    }
}

static int is_wanted(const waldo_file_info *info, const char *pattern)
{
    waldo_str name = info->name;

    return S_ISREG(info->mode) && !waldo__str_starts(name, ".git/") &&
           waldo__str_search(name, WALDO__S("/.git/"), 0) == name.len &&
           (pattern == NULL || waldo__glob_match(pattern, name.ptr));
}

static void walked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    state *s = userdata;
    const char *pattern = waldo_tool_call_str(s->call, "glob");

    if (status == WALDO_EPATH) {
        /* Not a folder: search the one file. */
        s->root = NULL;
        waldo__buf_add(&s->names, waldo_tool_call_str(s->call, "path"),
                       strlen(waldo_tool_call_str(s->call, "path")) + 1);
    } else if (status != WALDO_OK) {
        waldo__tool_fail_with(s->call, status, error);
        end(s);
        return;
    }
    for (size_t i = 0; status == WALDO_OK && i < count; i++) {
        if (is_wanted(&infos[i], pattern)) {
            waldo__buf_add(&s->names, infos[i].name.ptr, infos[i].name.len + 1);
        }
    }
    if (s->names.len == 0 || waldo_tool_call_cancelled(s->call)) {
        reply(s);
    } else {
        search_on(s);
    }
}

static void on_cancel(void *userdata)
{
    state *s = userdata;

    if (s->job != NULL) {
        waldo_job_cancel(s->job);
    }
}

static waldo_status grep(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    const char *path = waldo_tool_call_str(call, "path");
    const char *pattern = waldo_tool_call_str(call, "glob");
    waldo_error *error = NULL;

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    if (pattern != NULL && waldo__glob_check(pattern, &error) != WALDO_OK) {
        waldo__tool_fail_with(call, WALDO_EINVAL, error);
        waldo_error_free(error);
        return WALDO_OK;
    }
    s->call = waldo_tool_call_ref(call);
    s->root = path != NULL && path[0] != '\0' ? path : ".";
    waldo__buf_init(&s->names, NAMES_MAX);
    waldo__buf_init(&s->found, 4 * waldo__tool_call_max_output(call) + ARGS_MAX);
    waldo_tool_call_on_cancel(call, on_cancel, s);
    waldo__sandbox_list(waldo__tool_call_sandbox(call), s->root, 1, WALK_MAX, walked, s);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_grep = {
    .size = sizeof(waldo_tool_options),
    .name = "grep",
    .about = "Search files in the sandbox for an extended regular expression. Answers "
             "path:line:text. Binary files and .git are left out.",
    .params =
        (const waldo_param[]){ { .name = "pattern",
                                 .type = WALDO_STRING,
                                 .about = "Extended regular expression (ERE)." },
                               { .name = "path",
                                 .type = WALDO_STRING,
                                 .optional = 1,
                                 .about = "Folder or file to search; default /workspace." },
                               { .name = "glob",
                                 .type = WALDO_STRING,
                                 .optional = 1,
                                 .about = "Only files that match this pattern, such as *.c." },
                               { .name = "ignore_case",
                                 .type = WALDO_BOOLEAN,
                                 .optional = 1,
                                 .about = "Letters match without regard to case; default false." },
                               { .name = NULL } },
    .call = grep,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY | WALDO__TOOL_SANDBOX,
};
