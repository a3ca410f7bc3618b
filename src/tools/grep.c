/*
 * grep: the files are listed through the sandbox layer and searched by the sandbox's own grep, so
 * that a pattern that runs away spends the sandbox's time and ends at a timeout.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "tools/tools.h"

enum {
    ARG_BYTES_MAX = 64 * 1024, /* of file names in one command; the kernel takes 128 KiB of each */
    ARGS_MAX = 2000,
    LINE_MAX_BYTES = 1000, /* of a match: a line of minified code says little */
    TIMEOUT_MS = 60000,
    NAMES_MAX = 64 * 1024 * 1024,
    NOTE_ROOM = 4096
};

typedef struct state {
    waldo_tool_call *call;
    waldo_job *job;
    const char *root; /* folder or file to search; "." is the workspace */
    waldo__glob glob;
    waldo__buf names; /* NUL-terminated, one after the other */
    size_t name_count;
    size_t at;         /* of the next name */
    waldo_str odd;     /* the one file of this command, whose name grep is not to print */
    waldo__buf found;  /* lines */
    int more;          /* there is more than found */
    int unread;        /* some files could not be read */
    const char *limit; /* why not all files were searched */
} state;

static void search_on(state *s);

static void end(state *s)
{
    waldo_tool_call_on_cancel(s->call, NULL, NULL);
    waldo__glob_free(&s->glob);
    waldo__buf_free(&s->names);
    waldo__buf_free(&s->found);
    waldo_tool_call_unref(s->call);
}

static void fail(state *s, waldo_status status, const waldo_error *error)
{
    waldo__tool_fail_with(s->call, status, error);
    end(s);
}

static void reply(state *s)
{
    size_t max = waldo__tool_call_max_output(s->call);
    waldo__buf out = WALDO__BUF_INIT(max + NOTE_ROOM);

    if (s->found.len == 0) {
        waldo__buf_printf(&out, "[no match in %zu file%s]\n", s->name_count,
                          s->name_count == 1 ? "" : "s");
    }
    waldo__tool_show_lines(waldo__buf_str(&s->found), max, &out);
    if (s->more) {
        waldo__buf_puts(&out, "[there are more matches: use a narrower pattern, path or glob]\n");
    }
    if (s->unread) {
        waldo__buf_puts(&out, "[some files could not be read]\n");
    }
    if (s->limit != NULL) {
        waldo__buf_printf(&out, "[%s]\n", s->limit);
    }
    if (out.status == WALDO_OK && s->found.status == WALDO_OK) {
        waldo_tool_call_reply_text(s->call, waldo__buf_str(&out));
    } else {
        waldo__tool_fail_with(s->call, WALDO_ENOMEM, NULL);
    }
    waldo__buf_free(&out);
    end(s);
}

/* ---- one command ---- */

/* Keep lines while there is room for the model. */
static void take_lines(state *s, const waldo_output *output)
{
    waldo_str rest = waldo__strn(output->bytes.ptr, output->gap_at), line;

    s->more |= output->omitted > 0;
    while (rest.len > 0 && !s->more) {
        size_t newline = waldo__str_find(rest, '\n'), len;

        line = waldo__slice(rest.ptr, newline);
        rest = newline < rest.len ? waldo__slice(line.ptr + newline + 1, rest.len - newline - 1)
                                  : waldo__strn(NULL, 0);
        if (s->odd.len > 0) {
            waldo__tool_show_name(s->odd, &s->found);
            waldo__buf_putc(&s->found, ':');
        }
        len = waldo__tool_fit(line, 0, LINE_MAX_BYTES);
        waldo__buf_add(&s->found, line.ptr, len);
        waldo__buf_puts(&s->found, len < line.len ? " [line cut]\n" : "\n");
        s->more = s->found.len > waldo__tool_call_max_output(s->call) && rest.len > 0;
    }
}

/* grep's exit codes: 0 found, 1 not found, 2 trouble, which may be a file that cannot be read. */
static void searched(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    state *s = userdata;

    s->job = NULL;
    if (status != WALDO_OK) {
        waldo_tool_call_fail(s->call, "grep could not be run in the sandbox: %s",
                             waldo__error_text(status, error));
        end(s);
        return;
    }
    if (result->end == WALDO_EXEC_TIMED_OUT) {
        waldo_tool_call_fail(s->call, "grep took longer than %d s: use a narrower path or glob",
                             TIMEOUT_MS / 1000);
        end(s);
        return;
    }
    if (result->end != WALDO_EXEC_EXITED || (result->exit_code > 1 && result->err.total > 0)) {
        waldo_str why = waldo__str_trim(result->err.bytes);

        waldo_tool_call_fail(s->call, "grep failed: %.*s",
                             (int)waldo__tool_fit(why, 0, LINE_MAX_BYTES), why.ptr);
        end(s);
        return;
    }
    s->unread |= result->exit_code > 1;
    take_lines(s, &result->out);
    s->more |= s->found.len > waldo__tool_call_max_output(s->call) && s->at < s->names.len;
    if (s->more || s->at >= s->names.len || waldo_tool_call_cancelled(s->call)) {
        reply(s);
    } else {
        search_on(s);
    }
}

typedef struct arguments {
    WALDO__VEC(const char *);
    size_t bytes;
    waldo_status status;
} arguments;

static void add_argument(arguments *args, const char *text)
{
    const char **slot = WALDO__VEC_PUSH(args);

    if (slot == NULL) {
        args->status = WALDO_ENOMEM;
        return;
    }
    *slot = text;
    args->bytes += text != NULL ? strlen(text) + 1 : 0;
}

/* As many of the next names as fit; one whose name would break lines goes alone. */
static void add_names(state *s, arguments *args)
{
    size_t limit = args->bytes + ARG_BYTES_MAX, first = args->count;

    s->odd = waldo__strn(NULL, 0);
    while (args->status == WALDO_OK && s->at < s->names.len && s->odd.len == 0 &&
           args->bytes < limit && args->count < ARGS_MAX) {
        waldo_str name = waldo__str(s->names.ptr + s->at);

        if (waldo__tool_odd_name(name)) {
            if (args->count > first) {
                break;
            }
            s->odd = name;
        }
        /* "-" alone would be standard input. */
        add_argument(args, waldo__str_is(name, "-") ? "./-" : name.ptr);
        s->at += name.len + 1;
    }
}

static void search_on(state *s)
{
    /* Bytes as they are: in other locales a file that is not valid text would count as binary. */
    static const char *const env[] = { "LC_ALL=C", NULL };
    arguments args = { .status = WALDO_OK };
    waldo_error *error = NULL;
    int is_odd;

    add_argument(&args, "grep");
    add_argument(&args, "-nIsE");
    add_argument(&args, "-H");
    if (waldo_tool_call_bool(s->call, "ignore_case", 0)) {
        add_argument(&args, "-i");
    }
    add_argument(&args, "-e");
    add_argument(&args, waldo_tool_call_str(s->call, "pattern"));
    add_argument(&args, "--");
    add_names(s, &args);
    is_odd = s->odd.len > 0;
    add_argument(&args, NULL);
    if (args.status == WALDO_OK) {
        args.at[2] = is_odd ? "-h" : "-H";
        /* Half of what is kept is the beginning, which is what is shown. */
        args.status = waldo_sandbox_exec(
            waldo__tool_call_sandbox(s->call),
            &WALDO_EXEC(.argv = args.at, .env = env, .timeout_ms = TIMEOUT_MS,
                        .max_output = 2 * (waldo__tool_call_max_output(s->call) + LINE_MAX_BYTES)),
            searched, s, &s->job, &error);
    }
    if (args.status != WALDO_OK) {
        fail(s, args.status, error);
    }
    waldo_error_free(error);
    WALDO__VEC_FREE(&args);
}

/* ---- which files ---- */

static void begin_search(state *s)
{
    if (s->names.status == WALDO_ETOOBIG) {
        s->limit = "the names of all files were too long: not all were searched, use a deeper path";
    }
    if (s->names.len == 0 || waldo_tool_call_cancelled(s->call)) {
        reply(s);
    } else {
        search_on(s);
    }
}

/* A name ends with NUL. */
static void add_name(state *s, const char *folder, waldo_str name)
{
    waldo__tool_add_folder(folder, &s->names);
    waldo__buf_add(&s->names, name.ptr, name.len);
    waldo__buf_putc(&s->names, '\0');
    s->name_count += s->names.status == WALDO_OK;
}

static int is_wanted(state *s, const waldo_file_info *info)
{
    return S_ISREG(info->mode) && !waldo__path_in_git(info->name) &&
           (waldo_tool_call_str(s->call, "glob") == NULL ||
            waldo__glob_match(&s->glob, info->name));
}

/* What was no folder is one file, or nothing that can be searched. */
static void looked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    state *s = userdata;

    if (status != WALDO_OK) {
        fail(s, status, error);
    } else if (count != 1 || !(S_ISREG(infos[0].mode) || S_ISLNK(infos[0].mode))) {
        waldo_tool_call_fail(s->call, "%s is neither a folder nor a file", s->root);
        end(s);
    } else {
        add_name(s, ".", waldo__str(s->root));
        begin_search(s);
    }
}

static void walked(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                   const waldo_error *error)
{
    state *s = userdata;

    if (status == WALDO_EPATH && !waldo_tool_call_cancelled(s->call)) {
        waldo__sandbox_stat(waldo__tool_call_sandbox(s->call), s->root, looked, s);
        return;
    }
    if (status != WALDO_OK) {
        fail(s, status, error);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_wanted(s, &infos[i])) {
            add_name(s, s->root, infos[i].name);
        }
    }
    if (waldo_tool_call_has(s->call, "glob") && s->glob.steps == 0) {
        s->limit = "the glob was too much work: not all files were searched, use a simpler one";
    } else if (count >= WALDO__TOOL_WALK_MAX) {
        s->limit = "only the first 100000 entries were looked at: use a deeper path";
    }
    begin_search(s);
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
    waldo_status status;

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    status = pattern != NULL ? waldo__glob_init(&s->glob, pattern, &error) : WALDO_OK;
    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
        waldo_error_free(error);
        return WALDO_OK;
    }
    s->call = waldo_tool_call_ref(call);
    s->root = path != NULL && path[0] != '\0' ? path : ".";
    waldo__buf_init(&s->names, NAMES_MAX);
    waldo__buf_init(&s->found, waldo__tool_call_max_output(call) + NAMES_MAX);
    waldo_tool_call_on_cancel(call, on_cancel, s);
    waldo__sandbox_list(waldo__tool_call_sandbox(call), s->root, 1, WALDO__TOOL_WALK_MAX, walked,
                        s);
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
