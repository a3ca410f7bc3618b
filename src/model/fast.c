#include "model/fast.h"

#include "base/utf8.h"

enum { AROUND_MAX = 4096, PIECE_MAX = 1 << 16, KEY_MAX = 64, DIGITS_MAX = 15 };

void waldo__fast_init(waldo__fast *fast)
{
    *fast = (waldo__fast){ .effect = 0 };
    waldo__buf_init_wiped(&fast->before.text, AROUND_MAX);
    waldo__buf_init_wiped(&fast->after.text, AROUND_MAX);
    waldo__buf_init_wiped(&fast->piece, PIECE_MAX);
}

void waldo__fast_free(waldo__fast *fast)
{
    waldo__buf_free(&fast->before.text);
    waldo__buf_free(&fast->after.text);
    waldo__buf_free(&fast->piece);
    fast->effect = 0;
}

static int contains(waldo_str text, waldo_str part)
{
    return waldo__str_search(text, part, 0) < text.len;
}

/* Where the string that begins at a place of valid JSON ends: the place of its closing quote. */
static size_t string_end(waldo_str json, size_t at)
{
    while (at < json.len && json.ptr[at] != '"') {
        at += json.ptr[at] == '\\' ? 2 : 1;
    }
    return at < json.len ? at : json.len;
}

static size_t count_digits(waldo_str text, size_t at)
{
    size_t end = at;

    while (end < text.len && text.ptr[end] >= '0' && text.ptr[end] <= '9') {
        end++;
    }
    return end - at;
}

/* A whole number as JSON has it. */
static int is_number(waldo_str text, size_t at, size_t len)
{
    return len > 0 && len <= DIGITS_MAX && (text.ptr[at] != '0' || len == 1);
}

/* Keep one side; the digits of the counter are left out. */
static waldo_status keep_side(waldo__fast_side *side, waldo_str text, const char *counter)
{
    waldo__buf quoted = WALDO__BUF_INIT(KEY_MAX);
    size_t at = text.len, digits = 0;

    if (counter != NULL) {
        waldo__buf_printf(&quoted, "\"%s\":", counter);
        at = waldo__str_search(text, waldo__buf_str(&quoted), 0);
        at = at < text.len ? at + quoted.len : at;
        digits = count_digits(text, at);
        waldo__buf_free(&quoted);
    }
    side->has_number = is_number(text, at, digits);
    side->number_at = at;
    waldo__buf_clear(&side->text);
    waldo__buf_add(&side->text, text.ptr, at);
    digits = side->has_number ? digits : 0;
    return waldo__buf_add(&side->text, text.ptr + at + digits, text.len - at - digits);
}

/*
 * The key stands there once, and no backslash outside of the string: so no other place of the
 * document can be a member of that name, and this one is the member that had the effect.
 */
void waldo__fast_learn(waldo__fast *fast, waldo_str json, int effect, const char *key,
                       const char *counter)
{
    waldo__buf quoted = WALDO__BUF_INIT(KEY_MAX);
    waldo_str before = WALDO__S(""), after = before, name;
    size_t at, end;
    int known = 0;

    waldo__buf_printf(&quoted, "\"%s\":\"", key);
    at = waldo__str_search(json, waldo__buf_str(&quoted), 0);
    if (at < json.len) {
        at += quoted.len;
        end = string_end(json, at);
        before = waldo__slice(json.ptr, at);
        after = waldo__slice(json.ptr + end, json.len - end);
        name = waldo__strn(quoted.ptr, quoted.len - 2);
        known = end < json.len && !contains(before, WALDO__S("\\")) &&
                !contains(after, WALDO__S("\\")) && !contains(after, name) &&
                waldo__str_search(before, name, 0) == at - quoted.len;
    }
    waldo__buf_free(&quoted);
    known = known && keep_side(&fast->before, before, counter) == WALDO_OK &&
            keep_side(&fast->after, after, counter) == WALDO_OK;
    fast->effect = known ? effect : 0;
}

/* The inside of a string without \u escapes; 0 when it is not valid, or has some. */
static int unescape(waldo_str raw, waldo__buf *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";

    for (size_t at = 0; at < raw.len;) {
        size_t plain = waldo__str_find(waldo__slice(raw.ptr + at, raw.len - at), '\\');
        const char *name;

        waldo__buf_add(out, raw.ptr + at, plain);
        at += plain;
        if (at == raw.len) {
            break;
        }
        name = at + 1 < raw.len ? memchr(names, raw.ptr[at + 1], sizeof names - 1) : NULL;
        if (name == NULL) {
            return 0;
        }
        waldo__buf_putc(out, values[name - names]);
        at += 2;
    }
    return out->status == WALDO_OK;
}

/* A quote may only stand behind a backslash that is not itself escaped. */
static int is_inside_of_string(waldo_str raw, int *ret_escaped)
{
    int escaped = 0;

    for (size_t at = 0; at < raw.len; at++) {
        unsigned char byte = (unsigned char)raw.ptr[at];

        if (byte == '\\') {
            escaped = 1;
            at++;
        } else if (byte == '"') {
            return 0;
        }
        if (byte < ' ') {
            return 0;
        }
    }
    *ret_escaped = escaped;
    return waldo__utf8_valid(raw);
}

static int same(waldo_str text, size_t at, waldo_str part)
{
    return text.len - at >= part.len && memcmp(text.ptr + at, part.ptr, part.len) == 0;
}

/* The length of a side that stands at the front of text; 0: another one does. */
static size_t match_front(const waldo__fast_side *side, waldo_str text)
{
    waldo_str all = waldo__buf_str(&side->text);
    size_t at = side->has_number ? side->number_at : all.len, digits = 0;

    if (!same(text, 0, waldo__slice(all.ptr, at))) {
        return 0;
    }
    if (side->has_number) {
        digits = count_digits(text, at);
        if (!is_number(text, at, digits) ||
            !same(text, at + digits, waldo__slice(all.ptr + at, all.len - at))) {
            return 0;
        }
    }
    return all.len + digits;
}

/* The same at the end. What stands before the digits is no digit. */
static size_t match_back(const waldo__fast_side *side, waldo_str text)
{
    waldo_str all = waldo__buf_str(&side->text);
    size_t tail = side->has_number ? all.len - side->number_at : 0, digits = 0;

    while (side->has_number && tail + digits < text.len &&
           count_digits(text, text.len - tail - digits - 1) == digits + 1) {
        digits++;
    }
    if (text.len < all.len + digits) {
        return 0;
    }
    return match_front(side,
                       waldo__slice(text.ptr + text.len - all.len - digits, all.len + digits));
}

int waldo__fast_match(waldo__fast *fast, waldo_str json, waldo_str *ret_piece)
{
    size_t before, after;
    waldo_str raw;
    int escaped;

    if (fast->effect == 0) {
        return 0;
    }
    before = match_front(&fast->before, json);
    after = before > 0 ? match_back(&fast->after, json) : 0;
    /* An empty piece has no effect of its own: what then counts must be looked for. */
    if (after == 0 || json.len <= before + after || json.len - before - after > PIECE_MAX) {
        return 0;
    }
    raw = waldo__slice(json.ptr + before, json.len - before - after);
    if (!is_inside_of_string(raw, &escaped)) {
        return 0;
    }
    if (!escaped) {
        *ret_piece = raw;
        return 1;
    }
    waldo__buf_clear(&fast->piece);
    if (!unescape(raw, &fast->piece)) {
        return 0;
    }
    *ret_piece = waldo__buf_str(&fast->piece);
    return 1;
}
