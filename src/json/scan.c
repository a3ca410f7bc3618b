#include "json/json.h"

enum { BETWEEN, STRING, ESCAPE, WORD, BAD };

enum { LEVELS = 8 * sizeof((waldo__json_scan *)0)->in_object };

/* The value ends before or behind the byte at this place of the piece being fed. */
static void complete(waldo__json_scan *scan, size_t at)
{
    scan->complete = 1;
    scan->end = scan->fed + at;
    scan->state = BETWEEN;
}

static void open_level(waldo__json_scan *scan, int is_object)
{
    unsigned char bit = (unsigned char)(1U << scan->depth % 8), *bits;

    if (scan->depth == LEVELS) {
        scan->state = BAD;
        return;
    }
    bits = &scan->in_object[scan->depth++ / 8];
    *bits = (unsigned char)(is_object ? *bits | bit : *bits & ~bit);
}

static void close_level(waldo__json_scan *scan, int is_object, size_t at)
{
    if (scan->depth == 0) {
        scan->state = BAD;
        return;
    }
    scan->depth--;
    if ((scan->in_object[scan->depth / 8] >> scan->depth % 8 & 1) != is_object) {
        scan->state = BAD;
    } else if (scan->depth == 0) {
        complete(scan, at + 1);
    }
}

/* Outside of strings; inside of brackets only those and strings matter. */
static void feed_between(waldo__json_scan *scan, char byte, size_t at)
{
    if (scan->state == WORD && memchr(" \t\r\n,:[]{}\"", byte, 11) != NULL) {
        complete(scan, at);
        return;
    }
    if (byte == '"') {
        scan->state = STRING;
    } else if (byte == '{' || byte == '[') {
        open_level(scan, byte == '{');
    } else if (byte == '}' || byte == ']') {
        close_level(scan, byte == '}', at);
    } else if (scan->depth == 0 && memchr(" \t\r\n", byte, 4) == NULL) {
        scan->state = WORD;
    }
}

void waldo__json_scan_feed(waldo__json_scan *scan, waldo_str bytes)
{
    size_t at = 0;

    for (; at < bytes.len && !scan->complete && scan->state != BAD; at++) {
        if (scan->state == ESCAPE) {
            scan->state = STRING;
            continue;
        }
        if (scan->state != STRING) {
            feed_between(scan, bytes.ptr[at], at);
            continue;
        }
        while (at < bytes.len && bytes.ptr[at] != '"' && bytes.ptr[at] != '\\') {
            at++;
        }
        if (at == bytes.len) {
            break;
        }
        scan->state = bytes.ptr[at] == '\\' ? ESCAPE : BETWEEN;
        if (scan->state == BETWEEN && scan->depth == 0) {
            complete(scan, at + 1);
        }
    }
    scan->fed += bytes.len;
}
