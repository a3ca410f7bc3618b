#include "codec/sse.h"

enum {
    STATE_FIRST_LINE = 1, /* a byte order mark may stand before it */
    STATE_SKIP_LF = 2     /* the last byte was a CR that ended a line */
};

#define NO_DATA ((waldo_str){ NULL, 0 })

enum { NAME_MAX_LEN = 1024, FIELD_MAX = 64 };

void waldo__sse_init(waldo__sse *sse, size_t max_event)
{
    *sse = (waldo__sse){ .state = STATE_FIRST_LINE };
    waldo__buf_init_wiped(&sse->line, max_event + FIELD_MAX);
    waldo__buf_init_wiped(&sse->name, NAME_MAX_LEN);
    waldo__buf_init_wiped(&sse->data, max_event);
}

void waldo__sse_free(waldo__sse *sse)
{
    waldo__buf_free(&sse->line);
    waldo__buf_free(&sse->name);
    waldo__buf_free(&sse->data);
    sse->has_data = 0;
    sse->lent = NO_DATA;
}

/* An event exists when it has a name or data lines, even empty ones. */
static waldo_status dispatch(waldo__sse *sse, waldo__sse_fn fn, void *userdata)
{
    waldo_status status;

    if (!sse->has_data && sse->name.len == 0) {
        return WALDO_OK;
    }
    sse->events++;
    status = fn(userdata, waldo__buf_str(&sse->name),
                sse->lent.ptr != NULL ? sse->lent : waldo__buf_str(&sse->data));
    sse->lent = NO_DATA;
    waldo__buf_clear(&sse->name);
    waldo__buf_clear(&sse->data);
    sse->has_data = 0;
    return status;
}

/* What was left in the input must be copied: more comes, or the input goes. */
static waldo_status keep_lent(waldo__sse *sse)
{
    waldo_str lent = sse->lent;

    sse->lent = NO_DATA;
    return lent.ptr != NULL ? waldo__buf_add_str(&sse->data, lent) : WALDO_OK;
}

/* Several data lines of one event are joined by newlines; a single one stays where it is. */
static waldo_status add_data(waldo__sse *sse, waldo_str value, int is_input)
{
    if (!sse->has_data && is_input && value.len <= sse->data.max) {
        sse->has_data = 1;
        sse->lent = value;
        return WALDO_OK;
    }
    keep_lent(sse);
    if (sse->has_data) {
        waldo__buf_putc(&sse->data, '\n');
    }
    sse->has_data = 1;
    return waldo__buf_add_str(&sse->data, value);
}

/*
 * One line without its end: a field, a comment, or the empty line that ends an event. is_input: it
 * stays where it is until the feed is over.
 */
static waldo_status take_line(waldo__sse *sse, waldo_str line, int is_input, waldo__sse_fn fn,
                              void *userdata)
{
    size_t colon;
    waldo_str field, value;

    if ((sse->state & STATE_FIRST_LINE) != 0) {
        sse->state &= (unsigned char)~STATE_FIRST_LINE;
        if (waldo__str_starts(line, "\xEF\xBB\xBF")) {
            line = waldo__slice(line.ptr + 3, line.len - 3);
        }
    }
    if (line.len == 0) {
        return dispatch(sse, fn, userdata);
    }
    colon = waldo__str_find(line, ':');
    field = waldo__slice(line.ptr, colon);
    value = waldo__slice(line.ptr + line.len, 0);
    if (colon < line.len) {
        value = waldo__slice(line.ptr + colon + 1, line.len - colon - 1);
    }
    if (value.len > 0 && value.ptr[0] == ' ') {
        value = waldo__slice(value.ptr + 1, value.len - 1);
    }
    if (waldo__str_is(field, "data")) {
        return add_data(sse, value, is_input);
    }
    if (waldo__str_is(field, "event")) {
        waldo__buf_clear(&sse->name);
        return waldo__buf_add_str(&sse->name, value);
    }
    return WALDO_OK;
}

/* A line whose end was found: from the input itself unless its beginning was kept. */
static waldo_status end_line(waldo__sse *sse, waldo_str part, waldo__sse_fn fn, void *userdata)
{
    waldo_status status;

    if (sse->line.len == 0) {
        return part.len > sse->line.max ? WALDO_ETOOBIG : take_line(sse, part, 1, fn, userdata);
    }
    status = waldo__buf_add_str(&sse->line, part);
    if (status == WALDO_OK) {
        status = take_line(sse, waldo__buf_str(&sse->line), 0, fn, userdata);
        waldo__buf_clear(&sse->line);
    }
    return status;
}

static waldo_status feed(waldo__sse *sse, waldo_str bytes, waldo__sse_fn fn, void *userdata)
{
    size_t from_cr = SIZE_MAX; /* bytes from the next CR on; hardly any server sends one */

    while (bytes.len > 0) {
        waldo_status status;
        waldo_str part;
        int skip = (sse->state & STATE_SKIP_LF) != 0;

        sse->state &= (unsigned char)~STATE_SKIP_LF;
        if (skip && bytes.ptr[0] == '\n') {
            bytes = waldo__slice(bytes.ptr + 1, bytes.len - 1);
            continue;
        }
        if (from_cr > bytes.len) {
            from_cr = bytes.len - waldo__str_find(bytes, '\r');
        }
        part = waldo__slice(bytes.ptr, bytes.len - from_cr);
        part.len = waldo__str_find(part, '\n');
        if (part.len == bytes.len) {
            return waldo__buf_add_str(&sse->line, part);
        }
        if (bytes.ptr[part.len] == '\r') {
            sse->state |= STATE_SKIP_LF;
        }
        bytes = waldo__slice(bytes.ptr + part.len + 1, bytes.len - part.len - 1);
        status = end_line(sse, part, fn, userdata);
        if (status < 0) {
            return status;
        }
    }
    return WALDO_OK;
}

waldo_status waldo__sse_feed(waldo__sse *sse, waldo_str bytes, waldo__sse_fn fn, void *userdata)
{
    waldo_status status = feed(sse, bytes, fn, userdata), kept = keep_lent(sse);

    return status < 0 ? status : kept;
}

waldo_status waldo__sse_finish(waldo__sse *sse, waldo__sse_fn fn, void *userdata)
{
    waldo_status status = WALDO_OK;

    if (sse->line.len > 0) {
        status = end_line(sse, WALDO__S(""), fn, userdata);
    }
    return status < 0 ? status : dispatch(sse, fn, userdata);
}
