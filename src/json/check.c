/*
 * The grammar of RFC 8259 without recursion. More lenient in two points, because models and servers
 * are: control bytes inside strings (not NUL), and a byte order mark in front.
 */
#include "json/check.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "base/word.h"

/* cJSON 1.7.15 copies a number into a buffer of this size with its NUL. */
enum { NUMBER_MAX = 63, EXACT_DIGITS = 15, FEW_KEYS = 8 };

enum state { VALUE, FIRST_VALUE, KEY, FIRST_KEY, AFTER };

typedef struct key {
    const char *ptr; /* decoded; NULL: in scratch at scratch_at */
    size_t scratch_at;
    size_t len;
    size_t offset; /* in the document; 0 for the mark that begins an object, as no key is there */
} key;

typedef struct scan {
    waldo_str text;
    const waldo__json_limits *limits;
    waldo__json_checked *checked;
    size_t at;
    size_t depth;
    size_t values;
    size_t numbers;
    enum state state;
    unsigned char in_object[WALDO__JSON_DEEPEST + 1];
    struct {
        WALDO__VEC(key);
    } keys; /* of all open objects, a mark before those of each */
    waldo__buf scratch;
} scan;

static waldo_status problem_at(scan *s, waldo_status status, const char *problem, size_t where)
{
    s->checked->problem = problem;
    s->checked->where = where;
    return status;
}

static waldo_status problem(scan *s, const char *what)
{
    return problem_at(s, WALDO_EJSON, s->at < s->text.len ? what : "the text ends too early",
                      s->at);
}

static int peek(const scan *s)
{
    return s->at < s->text.len ? (unsigned char)s->text.ptr[s->at] : -1;
}

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The code unit of four hex digits, or -1. */
static int32_t code_unit(const char *ptr, size_t len)
{
    int32_t unit = 0;

    for (size_t i = 0; i < 4; i++) {
        int digit = i < len ? hex_digit(ptr[i]) : -1;

        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* A surrogate without its other half: an error, or U+FFFD (four digits as well) in a copy. */
static waldo_status lone_surrogate(scan *s)
{
    waldo__buf *copy = &s->checked->repaired;

    if (!s->limits->repair_surrogates) {
        return problem(s, "a surrogate escape without its other half");
    }
    if (copy->len == 0) {
        waldo__buf_init_wiped(copy, s->text.len);
        if (waldo__buf_add_str(copy, s->text) != WALDO_OK) {
            return copy->status;
        }
    }
    memcpy(copy->ptr + s->at + 2, "fffd", 4);
    s->at += 6;
    return WALDO_OK;
}

/* At a backslash followed by u. */
static waldo_status unicode_escape(scan *s)
{
    const char *ptr = s->text.ptr + s->at;
    size_t len = s->text.len - s->at;
    int32_t unit = code_unit(ptr + 2, len - 2), next;

    if (unit < 0) {
        return problem(s, "\\u without four hex digits");
    }
    if (unit == 0) {
        return problem(s, "a NUL character in a string");
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        s->at += 6;
        return WALDO_OK;
    }
    next = len >= 12 && ptr[6] == '\\' && ptr[7] == 'u' ? code_unit(ptr + 8, 4) : -1;
    if (unit > 0xdbff || next < 0xdc00 || next > 0xdfff) {
        return lone_surrogate(s);
    }
    s->at += 12;
    return WALDO_OK;
}

static waldo_status escape(scan *s)
{
    int byte = s->at + 1 < s->text.len ? (unsigned char)s->text.ptr[s->at + 1] : -1;

    if (byte == 'u') {
        return unicode_escape(s);
    }
    if (byte <= 0 || strchr("\"\\/bfnrt", byte) == NULL) {
        return problem(s, "an unknown escape in a string");
    }
    s->at += 2;
    return WALDO_OK;
}

/* How many bytes are ASCII without quote, backslash or NUL. */
static size_t plain_run(const char *ptr, size_t len)
{
    size_t at = 0;

    for (; len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t flags = waldo__word_flags(waldo__word_load(ptr + at), 1, '"', '\\');

        if (flags != 0) {
            return at + waldo__word_first(flags);
        }
    }
    while (at < len && ptr[at] != '\0' && ptr[at] != '"' && ptr[at] != '\\' &&
           (unsigned char)ptr[at] < 0x80) {
        at++;
    }
    return at;
}

/* At the opening quote; goes behind the closing one. */
static waldo_status string(scan *s, int *ret_escaped)
{
    size_t start = s->at++;
    waldo_status status;

    for (;;) {
        int byte, step;

        if (peek(s) < 0x80) {
            s->at += plain_run(s->text.ptr + s->at, s->text.len - s->at);
        }
        byte = peek(s);
        if (byte < 0) {
            return problem_at(s, WALDO_EJSON, "a string without its end", start);
        }
        if (byte == '"') {
            s->at++;
            return WALDO_OK;
        }
        if (byte == '\0') {
            return problem(s, "a NUL character in a string");
        }
        if (byte == '\\') {
            *ret_escaped = 1;
            status = escape(s);
            if (status != WALDO_OK) {
                return status;
            }
            continue;
        }
        step = waldo__utf8_step(s->text.ptr + s->at, s->text.len - s->at);
        if (step <= 0) {
            return problem_at(s, WALDO_EUTF8, "invalid UTF-8", s->at);
        }
        s->at += (size_t)step;
    }
}

static size_t digits(scan *s)
{
    size_t start = s->at;

    while (peek(s) >= '0' && peek(s) <= '9') {
        s->at++;
    }
    return s->at - start;
}

static waldo_status number(scan *s)
{
    size_t start = s->at, whole;
    int odd = 0;

    s->at += peek(s) == '-';
    odd = s->at > start && peek(s) == '0'; /* "-0" */
    whole = peek(s) == '0' ? s->at++, 1 : digits(s);
    if (whole == 0) {
        return problem(s, "a number without digits");
    }
    if (peek(s) == '.') {
        s->at++;
        odd = 1;
        if (digits(s) == 0) {
            return problem(s, "a decimal point without digits");
        }
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        s->at += peek(s) == '+' || peek(s) == '-';
        odd = 1;
        if (digits(s) == 0) {
            return problem(s, "an exponent without digits");
        }
    }
    if (s->at - start > NUMBER_MAX) {
        return problem_at(s, WALDO_ETOOBIG, "a number of more than 63 characters", start);
    }
    if (odd || whole > EXACT_DIGITS) {
        waldo__json_odd *entry = WALDO__VEC_PUSH(&s->checked->odd);

        if (entry == NULL) {
            return WALDO_ENOMEM;
        }
        *entry = (waldo__json_odd){ s->numbers, start, s->at - start };
    }
    s->numbers++;
    return WALDO_OK;
}

static waldo_status literal(scan *s, const char *word)
{
    size_t len = strlen(word);

    if (s->text.len - s->at < len || memcmp(s->text.ptr + s->at, word, len) != 0) {
        return problem_at(s, WALDO_EJSON, "an unknown word", s->at);
    }
    s->at += len;
    return WALDO_OK;
}

static waldo_status open_container(scan *s, int is_object)
{
    if (s->depth == s->limits->max_depth) {
        return problem_at(s, WALDO_ETOOBIG, "too many levels", s->at);
    }
    s->at++;
    s->in_object[++s->depth] = (unsigned char)is_object;
    s->state = is_object ? FIRST_KEY : FIRST_VALUE;
    if (is_object && !s->limits->allow_duplicates && WALDO__VEC_PUSH(&s->keys) == NULL) {
        return WALDO_ENOMEM;
    }
    return WALDO_OK;
}

static waldo_status value(scan *s)
{
    int byte = peek(s), escaped;

    if (++s->values > s->limits->max_values) {
        return problem_at(s, WALDO_ETOOBIG, "too many values", s->at);
    }
    s->state = AFTER;
    if (byte == '{' || byte == '[') {
        return open_container(s, byte == '{');
    }
    if (byte == '"') {
        return string(s, &escaped);
    }
    if (byte == '-' || (byte >= '0' && byte <= '9')) {
        return number(s);
    }
    if (byte == 't' || byte == 'f' || byte == 'n') {
        return literal(s, byte == 't' ? "true" : byte == 'f' ? "false" : "null");
    }
    return problem(s, "a value is missing");
}

/* Append the character of a checked \\u escape or pair of them; gives the escape's length. */
static size_t add_unit(const char *ptr, waldo__buf *out)
{
    uint32_t code = (uint32_t)code_unit(ptr + 2, 4);
    size_t len = 6;

    if (code >= 0xd800 && code <= 0xdfff) {
        code = 0x10000 + ((code & 0x3ff) << 10 | ((uint32_t)code_unit(ptr + 8, 4) & 0x3ff));
        len = 12;
    }
    if (code < 0x80) {
        waldo__buf_putc(out, (char)code);
    } else if (code < 0x800) {
        waldo__buf_add(out, (char[]){ (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)) }, 2);
    } else if (code < 0x10000) {
        waldo__buf_add(out,
                       (char[]){ (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
                                 (char)(0x80 | (code & 63)) },
                       3);
    } else {
        waldo__buf_add(out,
                       (char[]){ (char)(0xf0 | code >> 18), (char)(0x80 | (code >> 12 & 63)),
                                 (char)(0x80 | (code >> 6 & 63)), (char)(0x80 | (code & 63)) },
                       4);
    }
    return len;
}

/* Append a checked string's content. */
static waldo_status unescape(const char *ptr, size_t len, waldo__buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t at = 0;

    while (at < len) {
        const char *back = memchr(ptr + at, '\\', len - at);
        size_t run = back != NULL ? (size_t)(back - ptr) - at : len - at;

        waldo__buf_add(out, ptr + at, run);
        at += run;
        if (back == NULL) {
            break;
        }
        if (back[1] != 'u') {
            waldo__buf_putc(out, to[strchr(from, back[1]) - from]);
            at += 2;
            continue;
        }
        at += add_unit(back, out);
    }
    return out->status;
}

static waldo_status remember_key(scan *s, size_t start, int escaped)
{
    const waldo__buf *copy = &s->checked->repaired;
    const char *ptr = (copy->len > 0 ? copy->ptr : s->text.ptr) + start + 1;
    key *k = WALDO__VEC_PUSH(&s->keys);

    if (k == NULL) {
        return WALDO_ENOMEM;
    }
    *k = (key){ .ptr = s->text.ptr + start + 1, .len = s->at - start - 2, .offset = start };
    if (!escaped) {
        return WALDO_OK;
    }
    k->ptr = NULL;
    k->scratch_at = s->scratch.len;
    if (unescape(ptr, k->len, &s->scratch) != WALDO_OK) {
        return s->scratch.status;
    }
    k->len = s->scratch.len - k->scratch_at;
    return WALDO_OK;
}

static int compare_keys(const void *left, const void *right)
{
    const key *a = left, *b = right;
    int order = a->len != b->len ? (a->len < b->len ? -1 : 1) : memcmp(a->ptr, b->ptr, a->len);

    return order != 0 ? order : (a->offset < b->offset ? -1 : 1);
}

static int same_key(const key *a, const key *b)
{
    return a->len == b->len && memcmp(a->ptr, b->ptr, a->len) == 0;
}

/* The offset of a key that was there before, or 0. */
static size_t find_duplicate(key *keys, size_t count)
{
    if (count > FEW_KEYS) {
        qsort(keys, count, sizeof *keys, compare_keys);
        for (size_t i = 1; i < count; i++) {
            if (same_key(&keys[i - 1], &keys[i])) {
                return keys[i].offset;
            }
        }
        return 0;
    }
    for (size_t i = 1; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (same_key(&keys[i], &keys[j])) {
                return keys[i].offset;
            }
        }
    }
    return 0;
}

/* At the end of an object: its keys are those behind the last mark. */
static waldo_status check_keys(scan *s)
{
    size_t count = 0, twice;
    key *last = s->keys.at + s->keys.count - 1;

    for (; last->offset != 0; last--, count++) {
        if (last->ptr == NULL) {
            last->ptr = s->scratch.ptr + last->scratch_at;
        }
    }
    twice = find_duplicate(last + 1, count);
    if (twice != 0) {
        return problem_at(s, WALDO_EJSON, "a key that this object has already", twice);
    }
    s->keys.count -= count + 1;
    return WALDO_OK;
}

static waldo_status close_container(scan *s)
{
    int is_object = s->in_object[s->depth--];

    s->at++;
    s->state = AFTER;
    return is_object && !s->limits->allow_duplicates ? check_keys(s) : WALDO_OK;
}

static void skip_space(scan *s)
{
    int byte = peek(s);

    while (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t') {
        s->at++;
        byte = peek(s);
    }
}

static waldo_status member(scan *s)
{
    size_t start = s->at;
    int escaped = 0;
    waldo_status status;

    if (peek(s) != '"') {
        return problem(s, "a key in quotes is missing");
    }
    status = string(s, &escaped);
    if (status == WALDO_OK && !s->limits->allow_duplicates) {
        status = remember_key(s, start, escaped);
    }
    if (status != WALDO_OK) {
        return status;
    }
    skip_space(s);
    if (peek(s) != ':') {
        return problem(s, "a colon is missing");
    }
    s->at++;
    s->state = VALUE;
    return WALDO_OK;
}

static waldo_status after(scan *s)
{
    int is_object = s->in_object[s->depth], byte = peek(s);

    if (byte == (is_object ? '}' : ']')) {
        return close_container(s);
    }
    if (byte != ',') {
        return problem(s, is_object ? "a comma or } is missing" : "a comma or ] is missing");
    }
    s->at++;
    s->state = is_object ? KEY : VALUE;
    return WALDO_OK;
}

static waldo_status step(scan *s)
{
    if ((s->state == FIRST_VALUE && peek(s) == ']') || (s->state == FIRST_KEY && peek(s) == '}')) {
        return close_container(s);
    }
    if (s->state == VALUE || s->state == FIRST_VALUE) {
        return value(s);
    }
    return s->state == AFTER ? after(s) : member(s);
}

waldo_status waldo__json_check(waldo_str text, const waldo__json_limits *limits,
                               waldo__json_checked *ret_checked)
{
    scan s = { .text = text, .limits = limits, .checked = ret_checked, .state = VALUE };
    waldo_status status = WALDO_OK;

    *ret_checked = (waldo__json_checked){ .problem = "too large", .where = limits->max_bytes };
    if (text.len > limits->max_bytes) {
        return WALDO_ETOOBIG;
    }
    waldo__buf_init_wiped(&s.scratch, text.len);
    s.at = waldo__str_starts(text, "\xef\xbb\xbf") ? 3 : 0;
    skip_space(&s);
    while (status == WALDO_OK && !(s.state == AFTER && s.depth == 0)) {
        status = step(&s);
        skip_space(&s);
    }
    if (status == WALDO_OK && s.at < text.len) {
        status = problem_at(&s, WALDO_EJSON, "more text after the value", s.at);
    }
    WALDO__VEC_FREE(&s.keys);
    waldo__buf_free(&s.scratch);
    return status;
}

void waldo__json_checked_free(waldo__json_checked *checked)
{
    WALDO__VEC_FREE(&checked->odd);
    waldo__buf_free(&checked->repaired);
}
