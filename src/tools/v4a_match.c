/* Lines against lines, from exact to forgiving. */
#include "tools/v4a.h"

/* Sequences of Unicode's white space; of ASCII see is_space(). */
static const struct {
    const char *bytes;
    unsigned char len;
} spaces[] = {
    { "\xc2\x85", 2 },     { "\xc2\xa0", 2 },     { "\xe1\x9a\x80", 3 }, { "\xe2\x80\xa8", 3 },
    { "\xe2\x80\xa9", 3 }, { "\xe2\x80\xaf", 3 }, { "\xe2\x81\x9f", 3 }, { "\xe3\x80\x80", 3 },
};

static int is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r' && byte != '\n');
}

/* Bytes of the white space that ptr points at, of len bytes; 0: it is none. */
static size_t wide_space(const char *ptr, size_t len)
{
    if (len >= 3 && memcmp(ptr, "\xe2\x80", 2) == 0 && (unsigned char)ptr[2] >= 0x80 &&
        (unsigned char)ptr[2] <= 0x8a) {
        return 3;
    }
    for (size_t i = 0; i < WALDO__COUNT(spaces); i++) {
        if (len >= spaces[i].len && memcmp(ptr, spaces[i].bytes, spaces[i].len) == 0) {
            return spaces[i].len;
        }
    }
    return 0;
}

static waldo_str trim_end(waldo_str text)
{
    for (;;) {
        size_t len = text.len;

        if (len > 0 && is_space(text.ptr[len - 1])) {
            text.len--;
        } else if (len >= 2 && wide_space(text.ptr + len - 2, 2) == 2) {
            text.len -= 2;
        } else if (len >= 3 && wide_space(text.ptr + len - 3, 3) == 3) {
            text.len -= 3;
        } else {
            return text;
        }
    }
}

static waldo_str trim(waldo_str text)
{
    size_t step = 1;

    text = trim_end(text);
    while (text.len > 0 && step > 0) {
        step = is_space(text.ptr[0]) ? 1 : wide_space(text.ptr, text.len);
        text = waldo__slice(text.ptr + step, text.len - step);
    }
    return text;
}

int waldo__v4a_is_blank(waldo_str line)
{
    return trim(line).len == 0;
}

/* The next byte of a text in which look-alikes are those of ASCII. */
static int next_alike(waldo_str *rest)
{
    const unsigned char *at = (const unsigned char *)rest->ptr;
    size_t len = rest->len, taken = 1;
    int byte = at[0];

    if (len >= 3 && at[0] == 0xe2 && at[1] == 0x80) {
        int last = at[2];

        byte = last >= 0x90 && last <= 0x95                     ? '-'
               : last >= 0x98 && last <= 0x9b                   ? '\''
               : last >= 0x9c && last <= 0x9f                   ? '"'
               : (last >= 0x82 && last <= 0x8a) || last == 0xaf ? ' '
                                                                : byte;
    } else if (len >= 3 && memcmp(at, "\xe2\x88\x92", 3) == 0) {
        byte = '-';
    } else if (len >= 3 &&
               (memcmp(at, "\xe2\x81\x9f", 3) == 0 || memcmp(at, "\xe3\x80\x80", 3) == 0)) {
        byte = ' ';
    } else if (len >= 2 && at[0] == 0xc2 && at[1] == 0xa0) {
        byte = ' ';
        taken = 2;
    }
    if (byte < 0x80 && at[0] >= 0xe0) {
        taken = 3;
    }
    *rest = waldo__slice(rest->ptr + taken, len - taken);
    return byte;
}

static int same_alike(waldo_str a, waldo_str b)
{
    while (a.len > 0 && b.len > 0) {
        if (next_alike(&a) != next_alike(&b)) {
            return 0;
        }
    }
    return a.len == b.len;
}

int waldo__v4a_same(waldo_str a, waldo_str b, int pass)
{
    if (pass == WALDO__V4A_EXACT) {
        return waldo__str_eq(a, b);
    }
    if (pass == WALDO__V4A_TAIL) {
        return waldo__str_eq(trim_end(a), trim_end(b));
    }
    a = trim(a);
    b = trim(b);
    return pass == WALDO__V4A_TRIM ? waldo__str_eq(a, b) : same_alike(a, b);
}

/* Spend the work of one comparison; 0: there is none left. */
static int spend(waldo__v4a_text *text, waldo_str a, waldo_str b, int pass)
{
    uint64_t cost = 1;

    if (pass != WALDO__V4A_EXACT) {
        cost += (a.len + b.len) / 16;
    } else if (a.len == b.len) {
        cost += a.len / 64;
    }
    if (cost > text->steps) {
        text->steps = 0;
        return 0;
    }
    text->steps -= cost;
    return 1;
}

size_t waldo__v4a_prefix(waldo__v4a_text *text, const waldo_str *old, size_t old_count, size_t at,
                         int pass)
{
    size_t same = 0;

    while (same < old_count && at + same < text->count) {
        waldo_str line = text->lines[at + same].text;

        if (!spend(text, line, old[same], pass) || !waldo__v4a_same(line, old[same], pass)) {
            break;
        }
        same++;
    }
    return same;
}

size_t waldo__v4a_find_pass(waldo__v4a_text *text, const waldo_str *old, size_t old_count,
                            size_t from, size_t to, int pass)
{
    for (size_t at = from; at < to && at + old_count <= text->count && text->steps > 0; at++) {
        if (waldo__v4a_prefix(text, old, old_count, at, pass) == old_count) {
            return at;
        }
    }
    return WALDO__V4A_NOWHERE;
}

size_t waldo__v4a_find(waldo__v4a_text *text, const waldo_str *old, size_t old_count, size_t from,
                       size_t to, int *ret_pass)
{
    for (int pass = WALDO__V4A_EXACT; pass < WALDO__V4A_NO_PASS; pass++) {
        size_t at = waldo__v4a_find_pass(text, old, old_count, from, to, pass);

        if (at != WALDO__V4A_NOWHERE) {
            *ret_pass = pass;
            return at;
        }
    }
    *ret_pass = WALDO__V4A_NO_PASS;
    return WALDO__V4A_NOWHERE;
}
