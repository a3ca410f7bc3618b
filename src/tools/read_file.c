#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tools/tools.h"

enum {
    CHUNK = 256 * 1024,
    SCAN_MAX = 64 * 1024 * 1024, /* how far lines are looked for before byte_offset is better */
    DEFAULT_LINES = 2000,
    PROBE = 8192 /* a NUL byte among the first bytes makes a file binary */
};

typedef struct state {
    waldo_tool_call *call;
    const char *path;
    uint64_t offset; /* of the next chunk */
    int64_t line;    /* number of the line the next byte belongs to */
    int64_t first;
    int64_t last;
    int by_bytes;
    size_t max;
    waldo__buf text;
} state;

static void read_on(state *s);

static void end(state *s)
{
    waldo__buf_free(&s->text);
    waldo_tool_call_unref(s->call);
}

/* What was read, and where to go on when there is more. */
static void reply(state *s, int more, uint64_t file_size)
{
    waldo__buf out = WALDO__BUF_INIT(4 * s->max + 4096);

    waldo__utf8_clean(waldo__buf_str(&s->text), &out);
    if (s->text.len == 0 && s->line < s->first) {
        waldo__buf_printf(&out, "[the file has %" PRId64 " lines]", s->line);
    } else if (s->text.len == 0) {
        waldo__buf_puts(&out, "[the file is empty]");
    } else if (more && s->by_bytes) {
        waldo__buf_printf(
            &out, "\n[%" PRIu64 " of %" PRIu64 " bytes; go on with byte_offset=%" PRIu64 "]",
            s->offset, file_size, s->offset);
    } else if (more) {
        waldo__buf_printf(&out, "[there is more; go on with offset=%" PRId64 "]", s->line);
    }
    waldo_tool_call_reply_text(s->call, waldo__buf_str(&out));
    waldo__buf_free(&out);
    end(s);
}

/* A line that alone is too long is cut; the rest of it can be read by bytes. */
static int take_line(state *s, waldo_str line)
{
    if (s->text.len + line.len <= s->max) {
        waldo__buf_add_str(&s->text, line);
        return 1;
    }
    return 0;
}

/* Lines of a chunk; 1 when no more are wanted. used is how much of the chunk was dealt with. */
static int take_lines(state *s, waldo_str chunk, int is_last, size_t *used)
{
    *used = 0;
    while (*used < chunk.len) {
        waldo_str rest = waldo__strn(chunk.ptr + *used, chunk.len - *used);
        size_t newline = waldo__str_find(rest, '\n');
        size_t len = newline < rest.len ? newline + 1 : rest.len;

        if (s->line > s->last) {
            return 1;
        }
        if (newline == rest.len && !is_last && *used > 0) {
            return 0; /* the line goes on in the next chunk: begin that with it */
        }
        if (s->line >= s->first && !take_line(s, waldo__strn(rest.ptr, len))) {
            if (s->text.len == 0) {
                waldo__buf_add(&s->text, rest.ptr, waldo__utf8_cut(rest, s->max));
            }
            return 1;
        }
        *used += len;
        s->line += newline < rest.len || is_last;
    }
    return 0;
}

static void got_bytes(state *s, waldo_str bytes, uint64_t file_size)
{
    size_t cut = waldo__utf8_cut(bytes, s->max);

    waldo__buf_add(&s->text, bytes.ptr, cut);
    s->offset += cut;
    reply(s, s->offset < file_size, file_size);
}

static void got_chunk(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                      const waldo_error *error)
{
    state *s = userdata;
    int is_last;
    size_t used;

    if (status != WALDO_OK) {
        waldo__tool_fail_with(s->call, status, error);
        end(s);
        return;
    }
    if (s->offset == 0 && memchr(bytes.ptr, '\0', bytes.len < PROBE ? bytes.len : PROBE) != NULL) {
        waldo_tool_call_fail(s->call, "%s is a binary file of %" PRIu64 " bytes", s->path,
                             file_size);
        end(s);
        return;
    }
    if (s->by_bytes) {
        got_bytes(s, bytes, file_size);
        return;
    }
    is_last = s->offset + bytes.len >= file_size || bytes.len == 0;
    if (take_lines(s, bytes, is_last, &used) || is_last) {
        reply(s, s->offset + used < file_size, file_size);
        return;
    }
    s->offset += used;
    if (s->offset > SCAN_MAX) {
        waldo_tool_call_fail(
            s->call, "line %" PRId64 " was not found in the first %d bytes: use byte_offset",
            s->first, SCAN_MAX);
        end(s);
        return;
    }
    read_on(s);
}

static void read_on(state *s)
{
    waldo_sandbox_read(waldo__tool_call_sandbox(s->call), s->path, s->offset,
                       s->by_bytes ? s->max : CHUNK, got_chunk, s);
}

static waldo_status read_file(void *userdata, waldo_tool_call *call)
{
    state *s = waldo__tool_call_state(call, sizeof *s);
    int64_t limit = waldo_tool_call_int(call, "limit", DEFAULT_LINES);

    (void)userdata;
    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    *s = (state){ .call = waldo_tool_call_ref(call),
                  .path = waldo_tool_call_str(call, "path"),
                  .first = waldo_tool_call_int(call, "offset", 1),
                  .line = 1,
                  .max = waldo__tool_call_max_output(call),
                  .by_bytes = waldo_tool_call_has(call, "byte_offset") };
    waldo__buf_init(&s->text, s->max + CHUNK);
    s->first = s->first > 1 ? s->first : 1;
    limit = limit > 0 ? limit : 1;
    s->last = s->first > INT64_MAX - limit ? INT64_MAX : s->first + limit - 1;
    if (s->by_bytes) {
        int64_t at = waldo_tool_call_int(call, "byte_offset", 0);

        s->offset = at > 0 ? (uint64_t)at : 0;
    }
    read_on(s);
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
