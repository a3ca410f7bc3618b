#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tools/tools.h"

enum {
    CHUNK = 256 * 1024,
    SCAN_MAX = 64 * 1024 * 1024, /* how far lines are looked for before byte_offset is better */
    DEFAULT_LINES = 2000,
    PROBE = 8192, /* a NUL byte among the first bytes makes a file binary */
    NOTE_ROOM = 8192
};

typedef struct state {
    waldo_tool_call *call;
    const char *path;
    uint64_t offset; /* in the file, of what was not dealt with yet */
    int64_t line;    /* number of the line at offset */
    int64_t first;   /* wanted line */
    int64_t last;    /* wanted line */
    size_t max;      /* of the text, as the model reads it */
    waldo__buf text; /* valid UTF-8 */
} state;

static void end(state *s)
{
    waldo__buf_free(&s->text);
    waldo_tool_call_unref(s->call);
}

static void reply(state *s)
{
    if (s->text.status == WALDO_OK) {
        waldo_tool_call_reply_text(s->call, waldo__buf_str(&s->text));
    } else {
        waldo__tool_fail_with(s->call, s->text.status, NULL);
    }
    end(s);
}

/* A note stands on a line of its own. */
static void begin_note(state *s)
{
    if (s->text.len > 0 && s->text.ptr[s->text.len - 1] != '\n') {
        waldo__buf_putc(&s->text, '\n');
    }
}

/* ---- by bytes ---- */

static void got_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                      const waldo_error *error)
{
    state *s = userdata;
    uint64_t from = s->offset;
    size_t len;

    if (status != WALDO_OK) {
        waldo__tool_fail_with(s->call, status, error);
        end(s);
        return;
    }
    len = waldo__tool_fit(bytes, from + bytes.len < file_size, s->max);
    len = len > 0 ? len : bytes.len; /* always some progress */
    waldo__utf8_clean(waldo__slice(bytes.ptr, len), &s->text);
    s->offset += len;
    if (bytes.len == 0) {
        waldo__buf_printf(&s->text, "[the file has %" PRIu64 " bytes]", file_size);
    } else if (s->offset < file_size) {
        begin_note(s);
        waldo__buf_printf(&s->text,
                          "[bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                          "; go on with byte_offset=%" PRIu64 "]",
                          from, s->offset, file_size, s->offset);
    }
    reply(s);
}

/* ---- by lines ---- */

/* What to do after a line. */
typedef enum next {
    NEXT_LINE,
    NEXT_CHUNK, /* which begins with what was not dealt with */
    NEXT_REPLY
} next;

static void note_more(state *s)
{
    waldo__buf_printf(&s->text, "[there is more; go on with offset=%" PRId64 "]", s->line);
}

/* The first wanted line alone is too long: its beginning, and how to read the rest. */
static void take_long_line(state *s, waldo_str rest)
{
    size_t len = waldo__tool_fit(rest, 1, s->max);

    waldo__utf8_clean(waldo__slice(rest.ptr, len), &s->text);
    begin_note(s);
    waldo__buf_printf(&s->text,
                      "[line %" PRId64 " goes on; read the rest with byte_offset=%" PRIu64 "]",
                      s->line, s->offset + len);
}

/*
 * The line, or part of one, at the front of what is left of a chunk. A chunk is longer than an
 * answer: a line that begins it and does not end in it is too long.
 */
static next take_line(state *s, waldo_str *rest, int begins_chunk, int is_last)
{
    size_t newline = waldo__str_find(*rest, '\n');
    int is_whole = newline < rest->len || is_last;
    waldo_str line = waldo__slice(rest->ptr, newline < rest->len ? newline + 1 : rest->len);

    if (s->line > s->last) {
        note_more(s);
        return NEXT_REPLY;
    }
    if (!is_whole && !begins_chunk) {
        return NEXT_CHUNK;
    }
    if (s->line >= s->first) {
        if (!is_whole || waldo__tool_fit(line, 0, s->max - s->text.len) < line.len) {
            if (s->text.len == 0) {
                take_long_line(s, line);
            } else {
                note_more(s);
            }
            return NEXT_REPLY;
        }
        waldo__utf8_clean(line, &s->text);
    }
    s->offset += line.len;
    s->line += is_whole;
    *rest = waldo__slice(rest->ptr + line.len, rest->len - line.len);
    return NEXT_LINE;
}

static void reply_at_end(state *s, uint64_t file_size)
{
    if (s->text.len == 0 && file_size == 0) {
        waldo__buf_puts(&s->text, "[the file is empty]");
    } else if (s->text.len == 0) {
        waldo__buf_printf(&s->text, "[the file has %" PRId64 " line%s]", s->line - 1,
                          s->line == 2 ? "" : "s");
    }
    reply(s);
}

static void read_lines(state *s);

static void got_lines(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                      const waldo_error *error)
{
    state *s = userdata;
    int is_last = s->offset + bytes.len >= file_size || bytes.len == 0;
    waldo_str rest = bytes;
    next what = NEXT_LINE;

    if (status != WALDO_OK) {
        waldo__tool_fail_with(s->call, status, error);
        end(s);
        return;
    }
    if (s->offset == 0 && memchr(bytes.ptr, '\0', bytes.len < PROBE ? bytes.len : PROBE) != NULL) {
        waldo_tool_call_fail(s->call,
                             "%s is a binary file of %" PRIu64
                             " bytes: look at it with a command, or read it with byte_offset",
                             s->path, file_size);
        end(s);
        return;
    }
    while (rest.len > 0 && what == NEXT_LINE) {
        what = take_line(s, &rest, rest.len == bytes.len, is_last);
    }
    if (what == NEXT_REPLY) {
        reply(s);
    } else if (is_last || waldo_tool_call_cancelled(s->call)) {
        reply_at_end(s, file_size);
    } else if (s->offset > SCAN_MAX && s->line < s->first) {
        waldo_tool_call_fail(s->call,
                             "line %" PRId64 " is not in the first 64 MiB, where line %" PRId64
                             " is the last: use byte_offset",
                             s->first, s->line);
        end(s);
    } else {
        read_lines(s);
    }
}

static void read_lines(state *s)
{
    waldo_sandbox_read(waldo__tool_call_sandbox(s->call), s->path, s->offset, s->max + CHUNK,
                       got_lines, s);
}

static waldo_status read_file(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    int64_t first = waldo_tool_call_int(call, "offset", 1);
    int64_t lines = waldo_tool_call_int(call, "limit", DEFAULT_LINES);

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    if (waldo_tool_call_int(call, "byte_offset", 0) < 0) {
        return waldo_tool_call_fail(call, "byte_offset must be 0 or more");
    }
    if (lines < 1 || first < 0) {
        return waldo_tool_call_fail(call, "offset and limit must be 1 or more");
    }
    first = first > 1 ? first : 1;
    *s = (state){ .call = waldo_tool_call_ref(call),
                  .path = waldo_tool_call_str(call, "path"),
                  .offset = (uint64_t)waldo_tool_call_int(call, "byte_offset", 0),
                  .line = 1,
                  .first = first,
                  .last = first > INT64_MAX - lines ? INT64_MAX : first + lines - 1,
                  .max = waldo__tool_call_max_output(call) };
    waldo__buf_init(&s->text, s->max + NOTE_ROOM);
    if (waldo_tool_call_has(call, "byte_offset")) {
        waldo_sandbox_read(waldo__tool_call_sandbox(call), s->path, s->offset, s->max, got_bytes,
                           s);
    } else {
        read_lines(s);
    }
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_read_file = {
    .size = sizeof(waldo_tool_options),
    .name = "read_file",
    .about = "Read a text file in the sandbox, whole or a range of its lines. The answer is the "
             "text as it is, without line numbers; a note at the end says where to go on.",
    .params =
        (const waldo_param[]){
            { .name = "path",
              .type = WALDO_STRING,
              .about = "Absolute, or relative to /workspace." },
            { .name = "offset",
              .type = WALDO_INTEGER,
              .optional = 1,
              .about = "First line, counted from 1; default 1." },
            { .name = "limit",
              .type = WALDO_INTEGER,
              .optional = 1,
              .about = "Number of lines; default 2000." },
            { .name = "byte_offset",
              .type = WALDO_INTEGER,
              .optional = 1,
              .about =
                  "Read from this byte on instead of by lines: for very long lines and captured "
                  "output." },
            { .name = NULL } },
    .call = read_file,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY | WALDO__TOOL_SANDBOX,
};
