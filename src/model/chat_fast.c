#include "model/chat_fast.h"

#include "base/utf8.h"

enum { AROUND_MAX = 4096, PIECE_MAX = 1 << 16, KEY_MAX = 64 };

void waldo__chat_fast_init(waldo__chat_fast *fast)
{
    *fast = (waldo__chat_fast){ .effect = WALDO__CHAT_EFFECT_NONE };
    waldo__buf_init_wiped(&fast->before, AROUND_MAX);
    waldo__buf_init_wiped(&fast->after, AROUND_MAX);
    waldo__buf_init_wiped(&fast->piece, PIECE_MAX);
}

void waldo__chat_fast_free(waldo__chat_fast *fast)
{
    waldo__buf_free(&fast->before);
    waldo__buf_free(&fast->after);
    waldo__buf_free(&fast->piece);
    fast->effect = WALDO__CHAT_EFFECT_NONE;
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

/*
 * The key stands there once, and no backslash outside of the string: so no other place of the
 * document can be a member of that name, and this one is the member that had the effect.
 */
void waldo__chat_fast_learn(waldo__chat_fast *fast, waldo_str json, waldo__chat_effect effect,
                            const char *key, int64_t index)
{
    waldo__buf quoted = WALDO__BUF_WIPED(KEY_MAX);
    waldo_str before = waldo__str(""), after = before, name;
    size_t at, end;
    int known = 0;

    waldo__buf_printf(&quoted, "\"%s\":\"", key);
    at = waldo__str_search(json, waldo__buf_str(&quoted), 0);
    if (at < json.len) {
        at += quoted.len;
        end = string_end(json, at);
        before = waldo__strn(json.ptr, at);
        after = waldo__strn(json.ptr + end, json.len - end);
        name = waldo__strn(quoted.ptr, quoted.len - 2);
        known = end < json.len && !contains(before, WALDO__S("\\")) &&
                !contains(after, WALDO__S("\\")) && !contains(after, name) &&
                waldo__str_search(before, name, 0) == at - quoted.len;
    }
    waldo__buf_free(&quoted);
    waldo__buf_clear(&fast->before);
    waldo__buf_clear(&fast->after);
    known = known && waldo__buf_add_str(&fast->before, before) == WALDO_OK &&
            waldo__buf_add_str(&fast->after, after) == WALDO_OK;
    fast->effect = known ? effect : WALDO__CHAT_EFFECT_NONE;
    fast->index = index;
}

/* The inside of a string without \u escapes; 0 when it is not valid, or has some. */
static int unescape(waldo_str raw, waldo__buf *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";

    for (size_t at = 0; at < raw.len;) {
        size_t plain = waldo__str_find(waldo__strn(raw.ptr + at, raw.len - at), '\\');
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

int waldo__chat_fast_match(waldo__chat_fast *fast, waldo_str json, waldo_str *ret_piece)
{
    size_t before = fast->before.len, after = fast->after.len;
    waldo_str raw;
    int escaped;

    /* An empty piece has no effect of its own: what then counts must be looked for. */
    if (fast->effect == WALDO__CHAT_EFFECT_NONE || json.len <= before + after ||
        json.len - before - after > PIECE_MAX || memcmp(json.ptr, fast->before.ptr, before) != 0 ||
        memcmp(json.ptr + json.len - after, fast->after.ptr, after) != 0) {
        return 0;
    }
    raw = waldo__strn(json.ptr + before, json.len - before - after);
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
