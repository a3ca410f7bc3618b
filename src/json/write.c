#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "base/word.h"

enum { MAX_DEPTH = 63 };

/* How many bytes at the front are ASCII that a JSON string holds as it is. */
static size_t plain_run(const char *ptr, size_t len)
{
    size_t at = 0;

    for (; len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t flags = waldo__word_flags(waldo__word_load(ptr + at), 0x20, '"', '\\');

        if (flags != 0) {
            return at + waldo__word_first(flags);
        }
    }
    while (at < len && (unsigned char)ptr[at] >= 0x20 && (unsigned char)ptr[at] < 0x80 &&
           ptr[at] != '"' && ptr[at] != '\\') {
        at++;
    }
    return at;
}

/* The escape of a control byte, quote or backslash. */
static void add_escape(unsigned char byte, waldo__buf *out)
{
    static const char names[][3] = { ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
                                     ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\" };

    if (byte < sizeof names / sizeof names[0] && names[byte][0] != '\0') {
        waldo__buf_add(out, names[byte], 2);
    } else {
        waldo__buf_printf(out, "\\u%04x", byte);
    }
}

waldo_status waldo__json_escape(waldo_str text, waldo__buf *out)
{
    size_t at = 0, start = 0; /* text from start to at is fine as it is and not written yet */

    for (;;) {
        size_t special;
        int step;

        if (at < text.len && (unsigned char)text.ptr[at] < 0x80) {
            at += plain_run(text.ptr + at, text.len - at);
        }
        if (at == text.len) {
            break;
        }
        step = waldo__utf8_step(text.ptr + at, text.len - at);
        if (step > 1) {
            at += (size_t)step;
            continue;
        }
        special = step > 0 ? 1 : step < 0 ? (size_t)-step : text.len - at;
        waldo__buf_add(out, text.ptr + start, at - start);
        if (step > 0 && text.ptr[at] != '\0') {
            add_escape((unsigned char)text.ptr[at], out);
        } else {
            waldo__buf_add(out, "\xef\xbf\xbd", 3);
        }
        at += special;
        start = at;
    }
    return waldo__buf_add(out, text.ptr + start, at - start);
}

void waldo__json_writer_init(waldo__json_writer *writer, waldo__buf *out)
{
    *writer = (waldo__json_writer){ .out = out, .first = 1 };
}

/* The comma and the key that come before a value. */
static void begin(waldo__json_writer *writer, const char *key)
{
    uint64_t bit = UINT64_C(1) << writer->depth;

    if (writer->depth > 0 && !(writer->first & bit)) {
        waldo__buf_putc(writer->out, ',');
    }
    writer->first &= ~bit;
    if (key != NULL) {
        waldo__buf_putc(writer->out, '"');
        waldo__json_escape(waldo__str(key), writer->out);
        waldo__buf_add(writer->out, "\":", 2);
    }
}

static void open_container(waldo__json_writer *writer, const char *key, char opening)
{
    begin(writer, key);
    if (writer->depth == MAX_DEPTH) {
        writer->out->status = writer->out->status != WALDO_OK ? writer->out->status : WALDO_ETOOBIG;
        return;
    }
    waldo__buf_putc(writer->out, opening);
    writer->depth++;
    writer->first |= UINT64_C(1) << writer->depth;
}

void waldo__jw_object(waldo__json_writer *writer, const char *key)
{
    open_container(writer, key, '{');
}

void waldo__jw_array(waldo__json_writer *writer, const char *key)
{
    open_container(writer, key, '[');
}

void waldo__jw_end(waldo__json_writer *writer, char closing)
{
    /* Too deep or one too many: the failure is recorded, and the depth stays within its range. */
    if (writer->depth == 0) {
        writer->out->status = writer->out->status != WALDO_OK ? writer->out->status : WALDO_EINVAL;
        return;
    }
    writer->depth--;
    waldo__buf_putc(writer->out, closing);
}

void waldo__jw_str(waldo__json_writer *writer, const char *key, waldo_str text)
{
    begin(writer, key);
    waldo__buf_putc(writer->out, '"');
    waldo__json_escape(text, writer->out);
    waldo__buf_putc(writer->out, '"');
}

void waldo__jw_text(waldo__json_writer *writer, const char *key, const char *text)
{
    waldo__jw_str(writer, key, waldo__str(text));
}

void waldo__jw_int(waldo__json_writer *writer, const char *key, int64_t value)
{
    begin(writer, key);
    waldo__buf_int(writer->out, value);
}

/* The host's locale may use another decimal point, of one or more bytes. */
static void add_number(waldo__buf *out, const char *text)
{
    static const char allowed[] = "0123456789+-e";
    size_t len = strspn(text, allowed);

    waldo__buf_add(out, text, len);
    if (text[len] != '\0') {
        waldo__buf_putc(out, '.');
        waldo__buf_puts(out, text + len + strcspn(text + len, allowed));
    }
}

void waldo__jw_num(waldo__json_writer *writer, const char *key, double value)
{
    char text[64];
    int digits = 15;

    begin(writer, key);
    if (!isfinite(value)) {
        waldo__buf_puts(writer->out, "null");
        return;
    }
    do { /* the fewest digits that give the same number back: 17 always do */
        snprintf(text, sizeof text, "%.*g", digits, value);
    } while (digits++ < 17 && strtod(text, NULL) != value);
    add_number(writer->out, text);
}

void waldo__jw_bool(waldo__json_writer *writer, const char *key, int value)
{
    begin(writer, key);
    waldo__buf_puts(writer->out, value ? "true" : "false");
}

void waldo__jw_null(waldo__json_writer *writer, const char *key)
{
    begin(writer, key);
    waldo__buf_puts(writer->out, "null");
}

void waldo__jw_raw(waldo__json_writer *writer, const char *key, waldo_str json)
{
    begin(writer, key);
    waldo__buf_add_str(writer->out, json);
}

void waldo__jw_base64(waldo__json_writer *writer, const char *key, waldo_str prefix,
                      waldo_str bytes)
{
    begin(writer, key);
    waldo__buf_putc(writer->out, '"');
    waldo__json_escape(prefix, writer->out);
    waldo__base64(bytes, writer->out);
    waldo__buf_putc(writer->out, '"');
}
