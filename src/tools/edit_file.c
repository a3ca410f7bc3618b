/*
 * Exact replacement of text. A file with CRLF line ends shows LF to the model when it is read by
 * eye, so text with LF is also held against CRLF, and what is put in takes the file's ending.
 */
#include "base/alloc.h"
#include "tools/tools.h"

enum { FILE_LIMIT = 16 * 1024 * 1024 };

typedef struct state {
    waldo_tool_call *call;
    waldo_sandbox *sandbox;
    waldo__turn turn;
    const char *path;
    size_t replaced;
} state;

static void end(state *s)
{
    waldo__sandbox_turn_give(s->sandbox, &s->turn);
    waldo_tool_call_unref(s->call);
}

static void written(void *userdata, waldo_status status, const waldo_error *error)
{
    state *s = userdata;

    if (status == WALDO_OK) {
        waldo_tool_call_reply(s->call, "Edited %s: %zu replacement%s", s->path, s->replaced,
                              s->replaced == 1 ? "" : "s");
    } else {
        waldo__tool_fail_with(s->call, status, error);
    }
    end(s);
}

static size_t count_matches(waldo_str text, waldo_str needle)
{
    size_t count = 0;

    for (size_t at = waldo__str_search(text, needle, 0); at < text.len;
         at = waldo__str_search(text, needle, at + needle.len)) {
        count++;
    }
    return count;
}

/* LF that no CR precedes becomes CRLF. */
static void to_crlf(waldo_str text, waldo__buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n' && (i == 0 || text.ptr[i - 1] != '\r')) {
            waldo__buf_putc(out, '\r');
        }
        waldo__buf_putc(out, text.ptr[i]);
    }
}

static void replace(waldo_str text, waldo_str needle, waldo_str by, waldo__buf *out)
{
    size_t from = 0;

    for (size_t at = waldo__str_search(text, needle, 0); at < text.len;
         at = waldo__str_search(text, needle, from)) {
        waldo__buf_add(out, text.ptr + from, at - from);
        waldo__buf_add_str(out, by);
        from = at + needle.len;
    }
    waldo__buf_add(out, text.ptr + from, text.len - from);
}

static void fail_matches(state *s, size_t matches)
{
    if (matches == 0) {
        waldo_tool_call_fail(s->call,
                             "old_text was not found in %s. It must match exactly, white space "
                             "included: read the file again",
                             s->path);
    } else {
        waldo_tool_call_fail(s->call,
                             "old_text occurs %zu times in %s: add lines around it to make it "
                             "unique, or set replace_all",
                             matches, s->path);
    }
    end(s);
}

static void apply(state *s, waldo_str text)
{
    waldo_str old_text = waldo__str(waldo_tool_call_str(s->call, "old_text"));
    waldo_str new_text = waldo__str(waldo_tool_call_str(s->call, "new_text"));
    waldo__buf old_crlf = WALDO__BUF_INIT(FILE_LIMIT), new_crlf = WALDO__BUF_INIT(FILE_LIMIT);
    waldo__buf result = WALDO__BUF_INIT(4 * (size_t)FILE_LIMIT);
    size_t matches = count_matches(text, old_text);

    if (matches == 0 && waldo__str_search(text, WALDO__S("\r\n"), 0) < text.len) {
        to_crlf(old_text, &old_crlf);
        to_crlf(new_text, &new_crlf);
        old_text = waldo__buf_str(&old_crlf);
        new_text = waldo__buf_str(&new_crlf);
        matches = count_matches(text, old_text);
    }
    s->replaced = matches;
    if (matches == 1 || (matches > 1 && waldo_tool_call_bool(s->call, "replace_all", 0))) {
        replace(text, old_text, new_text, &result);
        if (result.status == WALDO_OK) {
            waldo_sandbox_write(s->sandbox, s->path, waldo__buf_str(&result), 0, written, s);
        } else {
            waldo__tool_fail_with(s->call, result.status, NULL);
            end(s);
        }
    } else {
        fail_matches(s, matches);
    }
    waldo__buf_free(&old_crlf);
    waldo__buf_free(&new_crlf);
    waldo__buf_free(&result);
}

static void got_file(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    state *s = userdata;

    if (status == WALDO_OK && file_size <= FILE_LIMIT) {
        apply(s, bytes);
        return;
    }
    if (status == WALDO_OK) {
        waldo_tool_call_fail(s->call, "%s is larger than 16 MiB: edit it with a command", s->path);
    } else {
        waldo__tool_fail_with(s->call, status, error);
    }
    end(s);
}

static void my_turn(void *userdata)
{
    state *s = userdata;

    if (waldo_tool_call_cancelled(s->call)) {
        end(s);
        return;
    }
    waldo_sandbox_read(s->sandbox, s->path, 0, FILE_LIMIT, got_file, s);
}

static waldo_status edit_file(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    if (waldo_tool_call_str(call, "old_text")[0] == '\0') {
        waldo_tool_call_fail(call, "old_text is empty: use write_file to make a file");
        return WALDO_OK;
    }
    s->call = waldo_tool_call_ref(call);
    s->sandbox = waldo__tool_call_sandbox(call);
    s->path = waldo_tool_call_str(call, "path");
    s->turn = (waldo__turn){ .granted = my_turn, .userdata = s };
    waldo__sandbox_turn_take(s->sandbox, &s->turn);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_edit_file = {
    .size = sizeof(waldo_tool_options),
    .name = "edit_file",
    .about = "Replace text in a file of the sandbox. old_text must occur exactly once, unless "
             "replace_all is set. Line ends of the file (LF or CRLF) are kept.",
    .params =
        (const waldo_param[]){
            { .name = "path",
              .type = WALDO_STRING,
              .about = "Absolute, or relative to /workspace." },
            { .name = "old_text",
              .type = WALDO_STRING,
              .about = "The text to replace, exactly as it is in the file." },
            { .name = "new_text", .type = WALDO_STRING, .about = "What to put in its place." },
            { .name = "replace_all",
              .type = WALDO_BOOLEAN,
              .optional = 1,
              .about = "Replace every occurrence; default false." },
            { .name = NULL } },
    .call = edit_file,
    .flags = WALDO_PARALLEL_SAFE | WALDO__TOOL_SANDBOX,
};
