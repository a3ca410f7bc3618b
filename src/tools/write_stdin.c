/* Commands that went on in the background: waiting for them, reading on, writing, stopping. */
#include <inttypes.h>

#include "base/alloc.h"
#include "sandbox/background.h"
#include "tools/tools.h"

enum { YIELD_MAX_MS = 10 * 60 * 1000, YIELD_DEFAULT_MS = 1000, HEAD_ROOM = 4096 };

/* A call that waits for a command. */
typedef struct follower {
    waldo_tool_call *call;
    int64_t number;
    int ends; /* a call of exec_command: the command is ended if it is cancelled */
    waldo_background_reading *read;
} follower;

static void show(const follower *f, const waldo_background_news *news, size_t max, waldo__buf *out)
{
    if (news->result != NULL) {
        waldo__tool_show_end(news->result, "timeout_ms of the command", out);
        if (news->output.omitted > 0) {
            waldo__tool_show_capture(news->result, out);
        }
    } else {
        waldo__buf_printf(out,
                          "Still running as session %" PRId64 "; write_stdin reads on, writes to "
                          "it, stops it\n",
                          f->number);
        waldo__tool_show_wall(news->ran_ns, out);
    }
    waldo__buf_puts(out, news->output.total > 0 ? "Output:\n" : "No output\n");
    waldo__tool_show(&news->output, max, out);
}

static void followed(void *userdata, waldo_status status, const waldo_background_news *news,
                     const waldo_error *error)
{
    follower *f = userdata;
    waldo_tool_call *call = f->call;
    const char *workdir = f->ends ? waldo_tool_call_str(call, "workdir") : NULL;
    size_t max = waldo__tool_call_max_output(call);
    waldo__buf text = WALDO__BUF_INIT(max + HEAD_ROOM);
    int over = status != WALDO_OK || news->result != NULL;

    waldo_tool_call_on_cancel(call, NULL, NULL);
    if (status == WALDO_ESTART && workdir != NULL) {
        waldo_tool_call_fail(call, "%s (workdir: %s)", waldo_error_message(error), workdir);
    } else if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
    } else {
        show(f, news, max, &text);
        if (text.status != WALDO_OK) {
            waldo__tool_fail_with(call, text.status, NULL);
        } else if (over && news->result->end == WALDO_EXEC_LOST) {
            waldo_tool_call_fail(call, "%s", text.ptr);
        } else {
            waldo_tool_call_reply_text(call, waldo__buf_str(&text));
        }
    }
    if (over) {
        waldo_background_forget(waldo__tool_call_sandbox(call), f->number);
    }
    waldo__buf_free(&text);
    waldo__free(f);
    waldo_tool_call_unref(call);
}

static void on_cancel(void *userdata)
{
    follower *f = userdata;

    if (f->ends) {
        waldo_background_cancel(waldo__tool_call_sandbox(f->call), f->number);
    } else {
        waldo_background_hurry(f->read);
    }
}

waldo_status waldo__tool_follow(waldo_tool_call *call, int64_t number, int64_t wait_ms, int ends)
{
    follower *f = WALDO__NEW(follower);
    waldo_error *error = NULL;
    waldo_status status = WALDO_ENOMEM;

    if (f != NULL) {
        *f = (follower){ .call = call, .number = number, .ends = ends };
        status = waldo_background_read(waldo__tool_call_sandbox(call), number, WALDO_BACKGROUND_ON,
                                       waldo__tool_call_max_output(call), wait_ms, followed, f,
                                       &f->read, &error);
    }
    if (status != WALDO_OK) {
        if (ends) {
            waldo_background_cancel(waldo__tool_call_sandbox(call), number);
        }
        waldo__tool_fail_with(call, status, error);
        waldo_error_free(error);
        waldo__free(f);
        waldo_tool_call_unref(call);
        return WALDO_OK;
    }
    waldo_tool_call_on_cancel(call, on_cancel, f);
    return WALDO_PENDING;
}

static waldo_status write_stdin(void *userdata, waldo_tool_call *call)
{
    waldo_sandbox *sandbox = waldo__tool_call_sandbox(call);
    int64_t number = waldo_tool_call_int(call, "session_id", 0);
    int64_t yield_ms = waldo_tool_call_int(call, "yield_time_ms", YIELD_DEFAULT_MS);
    const char *chars = waldo_tool_call_str(call, "chars");
    int eof = waldo_tool_call_bool(call, "eof", 0);
    waldo_status status = WALDO_OK;

    (void)userdata;
    if (yield_ms < 0 || yield_ms > YIELD_MAX_MS) {
        return waldo_tool_call_fail(call, "yield_time_ms must be from 0 to %d", YIELD_MAX_MS);
    }
    if ((chars != NULL && chars[0] != '\0') || eof) {
        status =
            waldo_background_write(sandbox, number, waldo__str(chars != NULL ? chars : ""), eof);
    }
    if (status == WALDO_EBUSY) {
        return waldo_tool_call_fail(call,
                                    "session %" PRId64 " does not read its input: nothing "
                                    "was written",
                                    number);
    }
    if (status == WALDO_ECLOSED) {
        return waldo_tool_call_fail(call,
                                    "session %" PRId64 " takes no more input; leave chars "
                                    "and eof out to read on",
                                    number);
    }
    if (status != WALDO_OK && status != WALDO_ENOTFOUND) {
        waldo__tool_fail_with(call, status, NULL);
        return WALDO_OK;
    }
    if (waldo_tool_call_bool(call, "stop", 0)) {
        waldo_background_cancel(sandbox, number);
        yield_ms = YIELD_MAX_MS; /* its end comes soon */
    }
    return waldo__tool_follow(waldo_tool_call_ref(call), number, yield_ms, 0);
}

const waldo_tool_options waldo__tool_write_stdin = {
    .size = sizeof(waldo_tool_options),
    .name = "write_stdin",
    .about =
        "Go on with a command that exec_command left running: write to its standard input or "
        "its terminal, wait, and return what it has printed since. Without chars it only waits "
        "and reads.",
    .params =
        (const waldo_param[]){
            { .name = "session_id",
              .type = WALDO_INTEGER,
              .about = "Number that exec_command gave." },
            { .name = "chars",
              .type = WALDO_STRING,
              .optional = 1,
              .about = "Text to write, with its newline. On a terminal \\u0003 is Ctrl-C and "
                       "\\u0004 is Ctrl-D." },
            { .name = "yield_time_ms",
              .type = WALDO_INTEGER,
              .optional = 1,
              .about = "Wait so long at most for the command to end; default 1000." },
            { .name = "eof",
              .type = WALDO_BOOLEAN,
              .optional = 1,
              .about = "Close its standard input after chars; default false." },
            { .name = "stop",
              .type = WALDO_BOOLEAN,
              .optional = 1,
              .about = "End the command and all it started; default false." },
            { .name = NULL } },
    .call = write_stdin,
    .flags = WALDO__TOOL_SANDBOX,
};
