#include "base/str.h"

#include <stdlib.h>

waldo_str waldo__str(const char *text)
{
    return (waldo_str){ text != NULL ? text : "", text != NULL ? strlen(text) : 0 };
}

int waldo__str_eq(waldo_str a, waldo_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Words are short and mostly differ at once: no calls for them. */
int waldo__str_is(waldo_str a, const char *b)
{
    size_t at = 0;

    b = b != NULL ? b : "";
    while (at < a.len && a.ptr[at] == b[at] && b[at] != '\0') {
        at++;
    }
    return at == a.len && b[at] == '\0';
}

int waldo__str_starts(waldo_str text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && memcmp(text.ptr, prefix, len) == 0;
}

int waldo__str_ends(waldo_str text, const char *suffix)
{
    size_t len = strlen(suffix);

    return text.len >= len && memcmp(text.ptr + text.len - len, suffix, len) == 0;
}

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

int waldo__str_ieq(waldo_str a, waldo_str b)
{
    if (a.len != b.len) {
        return 0;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i])) {
            return 0;
        }
    }
    return 1;
}

static int is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

waldo_str waldo__str_trim(waldo_str text)
{
    while (text.len > 0 && is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && is_space(text.ptr[text.len - 1])) {
        text.len--;
    }
    return text;
}

size_t waldo__str_find(waldo_str text, char byte)
{
    const char *at = text.len > 0 ? memchr(text.ptr, byte, text.len) : NULL;

    return at != NULL ? (size_t)(at - text.ptr) : text.len;
}

size_t waldo__str_search(waldo_str text, waldo_str needle, size_t from)
{
    const char *at;

    if (from > text.len || needle.len > text.len - from) {
        return text.len;
    }
    if (needle.len == 0) {
        return from;
    }
    at = memmem(text.ptr + from, text.len - from, needle.ptr, needle.len);
    return at != NULL ? (size_t)(at - text.ptr) : text.len;
}

int waldo__str_split(waldo_str *rest, char separator, waldo_str *ret_part)
{
    size_t at;

    if (rest->ptr == NULL) {
        return 0;
    }
    at = waldo__str_find(*rest, separator);
    *ret_part = (waldo_str){ rest->ptr, at };
    if (at == rest->len) {
        *rest = (waldo_str){ NULL, 0 };
    } else {
        *rest = (waldo_str){ rest->ptr + at + 1, rest->len - at - 1 };
    }
    return 1;
}

int waldo__str_int(waldo_str text, int64_t *ret_value)
{
    int negative = text.len > 0 && text.ptr[0] == '-';
    int64_t value = 0;

    if (text.len == (size_t)negative) {
        return 0;
    }
    for (size_t i = (size_t)negative; i < text.len; i++) {
        int digit = text.ptr[i] - '0';

        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value)) {
            return 0;
        }
    }
    /* Collected as a negative number, whose range is one larger. */
    if (!negative && value == INT64_MIN) {
        return 0;
    }
    *ret_value = negative ? value : -value;
    return 1;
}

int waldo__str_made_of(waldo_str text, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        int alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && (c == '\0' || strchr(more, c) == NULL)) {
            return 0;
        }
    }
    return text.len > 0;
}
