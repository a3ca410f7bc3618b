/* The bytes of parts of a document, for what must be handed on as it came. */
#include "json/json.h"

static int is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static void skip(waldo__json_raw *raw, char also)
{
    while (raw->at < raw->text.len &&
           (is_space(raw->text.ptr[raw->at]) || raw->text.ptr[raw->at] == also)) {
        raw->at++;
    }
}

/* The place behind the string that begins at a place. */
static size_t string_end(waldo_str text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        at += text.ptr[at] == '\\';
    }
    return at < text.len ? at + 1 : text.len;
}

/* The place behind the value that begins at a place. */
static size_t value_end(waldo_str text, size_t at)
{
    size_t depth = 0;

    while (at < text.len) {
        char byte = text.ptr[at];

        if (byte == '"') {
            at = string_end(text, at);
        } else if (byte == '{' || byte == '[') {
            depth++;
            at++;
        } else if (depth > 0 && (byte == '}' || byte == ']')) {
            depth--;
            at++;
        } else if (depth == 0 && (byte == ',' || byte == '}' || byte == ']' || is_space(byte))) {
            return at;
        } else {
            at++;
            continue;
        }
        if (depth == 0) {
            return at;
        }
    }
    return at;
}

void waldo__json_raw_begin(waldo__json_raw *raw, waldo_str container)
{
    *raw = (waldo__json_raw){ .text = waldo__str_trim(container) };
    raw->in_object = waldo__str_starts(raw->text, "{");
    raw->at = raw->in_object || waldo__str_starts(raw->text, "[") ? 1 : raw->text.len;
}

int waldo__json_raw_next(waldo__json_raw *raw, waldo_str *ret_key, waldo_str *ret_value)
{
    waldo_str key = WALDO__S("");
    size_t from;

    skip(raw, ',');
    if (raw->at >= raw->text.len || raw->text.ptr[raw->at] == '}' ||
        raw->text.ptr[raw->at] == ']') {
        return 0;
    }
    if (raw->in_object) {
        from = raw->at;
        raw->at = value_end(raw->text, from);
        key = waldo__strn(raw->text.ptr + from, raw->at - from);
        if (key.len < 2 || key.ptr[0] != '"') {
            return 0;
        }
        key = waldo__slice(key.ptr + 1, key.len - 2);
        skip(raw, ':');
    }
    from = raw->at;
    raw->at = value_end(raw->text, from);
    *ret_key = key;
    *ret_value = waldo__strn(raw->text.ptr + from, raw->at - from);
    return raw->at > from;
}

int waldo__json_raw_get(waldo_str object, const char *key, waldo_str *ret_value)
{
    waldo__json_raw raw;
    waldo_str name, value;

    waldo__json_raw_begin(&raw, object);
    while (raw.in_object && waldo__json_raw_next(&raw, &name, &value)) {
        if (waldo__str_is(name, key)) {
            *ret_value = value;
            return 1;
        }
    }
    return 0;
}

/* How much of the text reads like form, spaces outside of its strings aside; 0: it does not. */
static size_t read_like(waldo_str text, const char *form, int in_string)
{
    size_t at = 0;

    for (; *form != '\0'; form++, at++) {
        while (!in_string && at < text.len && text.ptr[at] == ' ') {
            at++;
        }
        if (at == text.len || text.ptr[at] != *form) {
            return 0;
        }
        in_string ^= *form == '"';
    }
    return at;
}

int waldo__json_raw_between(waldo_str text, const char *before, const char *after,
                            waldo_str *ret_inside)
{
    size_t from = read_like(text, before, 0);
    waldo_str rest = { text.ptr + from, text.len - from };
    size_t len = waldo__str_find(rest, '"');
    waldo_str inside = { rest.ptr, len };
    waldo_str end = { rest.ptr + len, rest.len - len };

    if (from == 0 || end.len == 0 || waldo__str_find(inside, '\\') < len ||
        read_like(end, after, 1) != end.len) {
        return 0;
    }
    *ret_inside = inside;
    return 1;
}

waldo_status waldo__json_raw_compact(waldo_str text, waldo__buf *out)
{
    size_t kept = 0, at = 0;

    while (at < text.len) {
        if (text.ptr[at] == '"') {
            at = string_end(text, at);
        } else if (is_space(text.ptr[at])) {
            waldo__buf_add(out, text.ptr + kept, at - kept);
            kept = ++at;
        } else {
            at++;
        }
    }
    return waldo__buf_add(out, text.ptr + kept, text.len - kept);
}
