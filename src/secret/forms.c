#include "secret/forms.h"

#include <string.h>

#include "base/base64.h"

/* Encoders wrap lines with one or two bytes, never more. */
enum { WRAP_MAX = 2 };

static const char upper_hex[] = "0123456789ABCDEF", lower_hex[] = "0123456789abcdef";

/* JSON escapes of one letter: the byte and the letter. */
static const char escaped[] = "\"\\/\n\r\t\b\f", letters[] = "\"\\/nrtbf";

/* What base64 gives from a value at an offset of 0 to 2: the digits that depend on it alone. */
static size_t base64_begin(unsigned offset)
{
    return offset == 0 ? 0 : offset + 1;
}

static size_t base64_end(size_t len, unsigned offset)
{
    return 8 * (offset + len) / 6;
}

static unsigned base64_digit(const unsigned char *value, size_t len, unsigned offset, size_t at)
{
    size_t bit = 6 * at - (size_t)8 * offset;
    unsigned word = (unsigned)value[bit / 8] << 8 | (bit / 8 + 1 < len ? value[bit / 8 + 1] : 0);

    return word >> (10 - bit % 8) & 63;
}

/* The two characters of a digit: standard and URL-safe alphabet. */
static void base64_chars(unsigned digit, char ret[2])
{
    ret[0] = waldo__base64_digits[digit];
    ret[1] = digit == 62 ? '-' : digit == 63 ? '_' : ret[0];
}

/* The two characters of the hex digit number at of a value. */
static void hex_chars(const unsigned char *value, size_t at, char ret[2])
{
    unsigned digit = at % 2 == 0 ? value[at / 2] >> 4 : value[at / 2] & 15;

    ret[0] = upper_hex[digit];
    ret[1] = lower_hex[digit];
}

/* ---- the filter ---- */

/* A few bytes that may stand at one place. */
typedef struct set {
    char at[8];
    size_t count;
} set;

static void set_add(set *to, char byte)
{
    to->at[to->count++] = byte;
}

static void add_first(waldo__form_filter *filter, const set *bytes)
{
    for (size_t i = 0; i < bytes->count; i++) {
        unsigned char byte = (unsigned char)bytes->at[i];

        filter->first[byte / 64] |= UINT64_C(1) << (byte % 64);
    }
}

static void add_pairs(waldo__form_filter *filter, const set *left, const set *right)
{
    for (size_t i = 0; i < left->count; i++) {
        for (size_t j = 0; j < right->count; j++) {
            unsigned pair = (unsigned)(unsigned char)left->at[i] << 8 | (unsigned char)right->at[j];

            filter->pairs[pair / 64] |= UINT64_C(1) << (pair % 64);
        }
    }
}

/* The bytes that a spelling of byte may begin and end with; pairs inside of it go to the filter. */
static void spellings(waldo__form_filter *filter, const unsigned char *value, set *ret_begin,
                      set *ret_end)
{
    char byte = (char)*value;
    const char *letter = byte != '\0' ? strchr(escaped, byte) : NULL;
    set high = { .count = 2 }, low = { .count = 2 };

    hex_chars(value, 0, high.at);
    hex_chars(value, 1, low.at);
    *ret_begin = (set){ .at = { byte, '%' }, .count = 2 };
    *ret_end = (set){ .at = { byte, low.at[0], low.at[1] }, .count = 3 };
    add_pairs(filter, &(set){ .at = { '%' }, .count = 1 }, &high);
    add_pairs(filter, &high, &low);
    if (byte == ' ') {
        set_add(ret_begin, '+');
        set_add(ret_end, '+');
    }
    if (letter != NULL) {
        set end = { .at = { letters[letter - escaped] }, .count = 1 };

        set_add(ret_begin, '\\');
        set_add(ret_end, end.at[0]);
        add_pairs(filter, &(set){ .at = { '\\' }, .count = 1 }, &end);
    }
}

static void filter_spelled(waldo__form_filter *filter, const unsigned char *value)
{
    set begin, end, previous;

    spellings(filter, value, &begin, &previous);
    add_first(filter, &begin);
    for (size_t i = 1; i <= WALDO__FORM_STRIDE; i++) {
        spellings(filter, value + i, &begin, &end);
        add_pairs(filter, &previous, &begin);
        previous = end;
    }
}

/* One more digit of base64 or hex, with a line break before it or not. */
static void filter_digit(waldo__form_filter *filter, set *previous, const char chars[2])
{
    set begin = { .at = { chars[0], chars[1], '\n', '\r' }, .count = 4 };

    if (previous->count == 0) {
        begin.count = 2;
        add_first(filter, &begin);
    } else {
        add_pairs(filter, previous, &begin);
    }
    *previous = (set){ .at = { chars[0], chars[1], '\n', '\r' }, .count = 4 };
}

void waldo__form_filter_add(waldo__form_filter *filter, const unsigned char *value, size_t len)
{
    char chars[2];
    set previous;

    if (len < WALDO__FORM_SHORTEST) {
        return;
    }
    filter_spelled(filter, value);
    previous.count = 0;
    for (size_t i = 0; i <= WALDO__FORM_STRIDE; i++) {
        hex_chars(value, i, chars);
        filter_digit(filter, &previous, chars);
    }
    for (unsigned offset = 0; offset < 3; offset++) {
        size_t begin = base64_begin(offset);

        previous.count = 0;
        for (size_t i = begin; i <= begin + WALDO__FORM_STRIDE; i++) {
            base64_chars(base64_digit(value, len, offset, i), chars);
            filter_digit(filter, &previous, chars);
        }
    }
}

/* ---- matching ---- */

static size_t match_plain(const unsigned char *value, size_t value_len, const char *text,
                          size_t len, int *ret_partial)
{
    size_t both = len < value_len ? len : value_len;

    if (memcmp(value, text, both) != 0) {
        return 0;
    }
    *ret_partial |= both < value_len;
    return both < value_len ? 0 : value_len;
}

/* The bytes of text at the front that spell the byte: 0 none, -1 when text ends too early. */
static int match_spelling(const unsigned char *value, const char *text, size_t len)
{
    char byte = (char)*value, chars[2];
    const char *letter = byte != '\0' ? strchr(escaped, byte) : NULL;

    if (text[0] == '%') {
        for (size_t i = 0; i < 2; i++) {
            if (len == i + 1) {
                return -1;
            }
            hex_chars(value, i, chars);
            if (text[i + 1] != chars[0] && text[i + 1] != chars[1]) {
                return byte == '%';
            }
        }
        return 3;
    }
    if (text[0] == '\\' && letter != NULL) {
        if (len == 1) {
            return -1;
        }
        if (text[1] == letters[letter - escaped]) {
            return 2;
        }
    }
    return text[0] == byte || (text[0] == '+' && byte == ' ');
}

/* An escape is preferred to the byte itself; match_plain() finds values that look like escapes. */
static size_t match_spelled(const unsigned char *value, size_t value_len, const char *text,
                            size_t len, int *ret_partial)
{
    size_t at = 0;

    for (size_t i = 0; i < value_len; i++) {
        int step = at < len ? match_spelling(value + i, text + at, len - at) : -1;

        if (step <= 0) {
            *ret_partial |= step < 0;
            return 0;
        }
        at += (size_t)step;
    }
    return at;
}

/* Go over a line break between digits; 0 when it is none that an encoder makes. */
static int skip_wrap(const char *text, size_t len, size_t *at)
{
    size_t start = *at;

    while (*at < len && *at - start <= WRAP_MAX && (text[*at] == '\n' || text[*at] == '\r')) {
        ++*at;
    }
    return *at - start <= WRAP_MAX;
}

/* One digit of two possible characters: 1 found, 0 not, -1 when text ends too early. */
static int match_digit(const char chars[2], const char *text, size_t len, size_t *at)
{
    if (*at > 0 && !skip_wrap(text, len, at)) {
        return 0;
    }
    if (*at == len) {
        return -1;
    }
    if (text[*at] != chars[0] && text[*at] != chars[1]) {
        return 0;
    }
    ++*at;
    return 1;
}

static size_t match_hex(const unsigned char *value, size_t value_len, const char *text, size_t len,
                        int *ret_partial)
{
    size_t at = 0;

    for (size_t i = 0; i < 2 * value_len; i++) {
        char chars[2];
        int found;

        hex_chars(value, i, chars);
        found = match_digit(chars, text, len, &at);
        if (found <= 0) {
            *ret_partial |= found < 0;
            return 0;
        }
    }
    return at;
}

static size_t match_base64(const unsigned char *value, size_t value_len, unsigned offset,
                           const char *text, size_t len, int *ret_partial)
{
    size_t at = 0, end = base64_end(value_len, offset);

    for (size_t i = base64_begin(offset); i < end; i++) {
        char chars[2];
        int found;

        base64_chars(base64_digit(value, value_len, offset, i), chars);
        found = match_digit(chars, text, len, &at);
        if (found <= 0) {
            *ret_partial |= found < 0;
            return 0;
        }
    }
    return at;
}

static size_t longer(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t waldo__form_match(const unsigned char *value, size_t value_len, const char *text, size_t len,
                         int *ret_partial)
{
    size_t best;

    if (value_len < WALDO__FORM_SHORTEST || len == 0) {
        return 0;
    }
    best = match_plain(value, value_len, text, len, ret_partial);
    best = longer(best, match_spelled(value, value_len, text, len, ret_partial));
    best = longer(best, match_hex(value, value_len, text, len, ret_partial));
    for (unsigned offset = 0; offset < 3; offset++) {
        best = longer(best, match_base64(value, value_len, offset, text, len, ret_partial));
    }
    return best;
}
