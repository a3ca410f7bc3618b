#include "base/alloc.h"
#include "tools/tools.h"

enum { FILE_LIMIT = 16 * 1024 * 1024 };

typedef struct state {
    waldo__tool_turn turn; /* first */
    const char *path;
    size_t replaced;
} state;

static void written(void *userdata, waldo_status status, const waldo_error *error)
{
    state *s = userdata;

    if (status == WALDO_OK) {
        waldo_tool_call_reply(s->turn.call, "Edited %s: %zu replacement%s", s->path, s->replaced,
                              s->replaced == 1 ? "" : "s");
    } else {
        waldo__tool_fail_with(s->turn.call, status, error);
    }
    waldo__tool_turn_end(&s->turn);
}

static void fail_matches(state *s)
{
    if (s->replaced == 0) {
        waldo_tool_call_fail(s->turn.call,
                             "old_text was not found in %s. It must match exactly, white space "
                             "included: read the file again",
                             s->path);
    } else {
        waldo_tool_call_fail(s->turn.call,
                             "old_text occurs %zu times in %s: add lines around it to make it "
                             "unique, or set replace_all",
                             s->replaced, s->path);
    }
    waldo__tool_turn_end(&s->turn);
}

static void apply(state *s, waldo_str text)
{
    waldo_tool_call *call = s->turn.call;
    waldo__buf result = WALDO__BUF_INIT(2 * (size_t)FILE_LIMIT);
    int everywhere = waldo_tool_call_bool(call, "replace_all", 0);
    waldo_status status = waldo__edit_text(text, waldo__str(waldo_tool_call_str(call, "old_text")),
                                           waldo__str(waldo_tool_call_str(call, "new_text")),
                                           everywhere, &result, &s->replaced);

    if (status == WALDO_ETOOBIG) {
        waldo_tool_call_fail(call, "%s would become larger than 32 MiB", s->path);
        waldo__tool_turn_end(&s->turn);
    } else if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, NULL);
        waldo__tool_turn_end(&s->turn);
    } else if (s->replaced == 0 || (s->replaced > 1 && !everywhere)) {
        fail_matches(s);
    } else {
        waldo_sandbox_write(s->turn.sandbox, s->path, waldo__buf_str(&result), 0, written, s);
    }
    waldo__buf_free(&result);
}

static void got_file(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    state *s = userdata;

    if (status == WALDO_OK && waldo_tool_call_cancelled(s->turn.call)) {
        waldo__tool_turn_end(&s->turn);
        return;
    }
    if (status == WALDO_OK && bytes.len == file_size) {
        apply(s, bytes);
        return;
    }
    if (status != WALDO_OK) {
        waldo__tool_fail_with(s->turn.call, status, error);
    } else if (file_size > FILE_LIMIT) {
        waldo_tool_call_fail(s->turn.call, "%s is larger than 16 MiB: edit it with a command",
                             s->path);
    } else {
        waldo_tool_call_fail(s->turn.call, "%s changed while it was read: try again", s->path);
    }
    waldo__tool_turn_end(&s->turn);
}

static void my_turn(waldo__tool_turn *turn)
{
    state *s = (state *)turn;

    waldo_sandbox_read(turn->sandbox, s->path, 0, FILE_LIMIT, got_file, s);
}

static waldo_status edit_file(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    const char *old_text = waldo_tool_call_str(call, "old_text");

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    if (old_text[0] == '\0') {
        return waldo_tool_call_fail(call, "old_text is empty: use write_file to make a file");
    }
    if (strcmp(old_text, waldo_tool_call_str(call, "new_text")) == 0) {
        return waldo_tool_call_fail(call, "old_text and new_text are the same: nothing to change");
    }
    s->path = waldo_tool_call_str(call, "path");
    waldo__tool_turn_take(&s->turn, call, my_turn);
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
