/* Text that may come from anywhere, and where it may go. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { INVALID = -1, REPLACEMENT = 0xfffd };

int is_terminal(FILE *file)
{
    return isatty(fileno(file));
}

/* The character at the beginning of text and its length; INVALID and 1 for what is not UTF-8. */
static long decode(waldo_str text, size_t *ret_len)
{
    static const long least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = (unsigned char)text.ptr[0];
    size_t len = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    long value = len == 1 ? first : first & (0x7f >> len);

    *ret_len = 1;
    if (len == 0 || len > text.len || first > 0xf4) {
        return INVALID;
    }
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)text.ptr[i] & 0xc0) != 0x80) {
            return INVALID;
        }
        value = value << 6 | ((unsigned char)text.ptr[i] & 0x3f);
    }
    if (value < least[len] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
        return INVALID;
    }
    *ret_len = len;
    return value;
}

/* Line and paragraph separators, marks and overrides of direction. */
static int turns_text(long c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x2028 ||
           c == 0x2029 || c == 0x200e || c == 0x200f || c == 0x061c;
}

void put_safe(FILE *to, waldo_str text)
{
    for (size_t at = 0, len; at < text.len; at += len) {
        long c = decode((waldo_str){ text.ptr + at, text.len - at }, &len);

        if (c == INVALID) {
            fputs("\xef\xbf\xbd", to);
        } else if (c == '\r' && at + 1 < text.len && text.ptr[at + 1] == '\n') {
            continue; /* the line ends anyway */
        } else if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
            fprintf(to, "^%c", (char)(c ^ 0x40));
        } else if ((c >= 0x80 && c < 0xa0) || turns_text(c)) {
            fprintf(to, "<U+%04lX>", c);
        } else {
            fwrite(text.ptr + at, 1, len, to);
        }
    }
}

void put_json_string(FILE *to, const char *text)
{
    waldo_str rest = { text, strlen(text) };
    size_t len;

    fputc('"', to);
    for (; rest.len > 0; rest.ptr += len, rest.len -= len) {
        long c = decode(rest, &len);

        if (c == INVALID) {
            fprintf(to, "\\u%04x", REPLACEMENT);
        } else if (c < ' ' || c == 0x7f) {
            fprintf(to, "\\u%04lx", c);
        } else {
            fputs(c == '"' || c == '\\' ? "\\" : "", to);
            fwrite(rest.ptr, 1, len, to);
        }
    }
    fputc('"', to);
}

static void complain_list(const char *format, va_list list) WALDO_PRINTF(1, 0);

static void complain_list(const char *format, va_list list)
{
    char *text = NULL;

    fputs("waldo: ", stderr);
    if (vasprintf(&text, format, list) >= 0) {
        put_safe(stderr, (waldo_str){ text, strlen(text) });
        free(text);
    }
    fputc('\n', stderr);
}

void complain(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    complain_list(format, list);
    va_end(list);
}

int usage_error(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    complain_list(format, list);
    va_end(list);
    return EXIT_USAGE;
}
