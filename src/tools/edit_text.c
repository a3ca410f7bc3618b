/*
 * Exact replacement of text, pure and in linear time. A file with CR LF shows as lines to the
 * model, which answers with LF: so what is looked for is held against the text with its CR LF as
 * LF, and what is put in takes the line ends of its place.
 */
#include "tools/tools.h"

/* A place in the text as it is, and the same place when each CR LF counts as one byte. */
typedef struct place {
    size_t raw;
    size_t flat;
    size_t seen; /* behind the last LF that was looked at */
    int crlf;    /* that one follows a CR */
} place;

static int is_crlf(waldo_str text, size_t at)
{
    return at + 1 < text.len && text.ptr[at] == '\r' && text.ptr[at + 1] == '\n';
}

static void flatten(waldo_str text, waldo__buf *out)
{
    size_t from = 0;

    for (size_t at = waldo__str_search(text, WALDO__S("\r\n"), 0); at < text.len;
         at = waldo__str_search(text, WALDO__S("\r\n"), from)) {
        waldo__buf_add(out, text.ptr + from, at - from);
        from = at + 1; /* the LF comes with what follows */
    }
    waldo__buf_add(out, text.ptr + from, text.len - from);
}

static void go_to(place *p, waldo_str text, int is_flat, size_t flat)
{
    while (p->flat < flat) {
        p->raw += is_flat && is_crlf(text, p->raw) ? 2 : 1;
        p->flat++;
    }
}

/* Does the line at a place end with CR LF? A last line without end is like the one before. */
static int has_crlf(place *p, waldo_str text)
{
    while (p->seen <= p->raw) {
        size_t newline =
            p->seen + waldo__str_find(waldo__slice(text.ptr + p->seen, text.len - p->seen), '\n');

        if (newline < text.len) {
            p->crlf = newline > 0 && text.ptr[newline - 1] == '\r';
        }
        p->seen = newline + 1;
    }
    return p->crlf;
}

static void add_with_crlf(waldo_str text, waldo__buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n' && (i == 0 || text.ptr[i - 1] != '\r')) {
            waldo__buf_putc(out, '\r');
        }
        waldo__buf_putc(out, text.ptr[i]);
    }
}

static size_t count_matches(waldo_str text, waldo_str needle)
{
    size_t count = 0;

    for (size_t at = waldo__str_search(text, needle, 0); at < text.len;
         at = waldo__str_search(text, needle, at + needle.len)) {
        count++;
    }
    return count;
}

/* Replace every occurrence; flat is the text without the CR of CR LF, or the text itself. */
static void replace(waldo_str text, waldo_str flat, waldo_str old_text, waldo_str new_text,
                    int adapts, waldo__buf *out)
{
    int is_flat = flat.ptr != text.ptr;
    place p = { 0 };
    size_t from = 0;

    for (size_t at = waldo__str_search(flat, old_text, 0); at < flat.len && out->status == WALDO_OK;
         at = waldo__str_search(flat, old_text, p.flat)) {
        go_to(&p, text, is_flat, at);
        waldo__buf_add(out, text.ptr + from, p.raw - from);
        if (adapts && has_crlf(&p, text)) {
            add_with_crlf(new_text, out);
        } else {
            waldo__buf_add_str(out, new_text);
        }
        go_to(&p, text, is_flat, at + old_text.len);
        from = p.raw;
    }
    waldo__buf_add(out, text.ptr + from, text.len - from);
}

waldo_status waldo__edit_text(waldo_str text, waldo_str old_text, waldo_str new_text,
                              int everywhere, waldo__buf *out, size_t *ret_matches)
{
    /* Who writes CR means it, also when it is to go. */
    int adapts = waldo__str_find(old_text, '\r') == old_text.len;
    waldo__buf copy = WALDO__BUF_INIT(text.len + 1);
    waldo_str flat = text;

    if (adapts && waldo__str_search(text, WALDO__S("\r\n"), 0) < text.len) {
        flatten(text, &copy);
        if (copy.status != WALDO_OK) {
            return copy.status;
        }
        flat = waldo__buf_str(&copy);
    }
    *ret_matches = count_matches(flat, old_text);
    if (*ret_matches == 1 || (*ret_matches > 1 && everywhere)) {
        replace(text, flat, old_text, new_text, adapts, out);
    }
    waldo__buf_free(&copy);
    return out->status;
}
