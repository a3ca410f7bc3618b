#include "base/utf8.h"

#include <stdint.h>

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

static const char replacement[] = "\xef\xbf\xbd";

enum { REPLACEMENT_LEN = sizeof replacement - 1, LONGEST = 4 };

/*
 * What may follow a first byte: the sequence's length and the range of the second byte (Unicode
 * standard, table 3-7). Later bytes are 80..BF. Bytes in no row begin nothing.
 */
static const struct {
    unsigned char first, last, len, low, high;
} forms[] = {
    { 0xc2, 0xdf, 2, 0x80, 0xbf }, { 0xe0, 0xe0, 3, 0xa0, 0xbf }, { 0xe1, 0xec, 3, 0x80, 0xbf },
    { 0xed, 0xed, 3, 0x80, 0x9f }, { 0xee, 0xef, 3, 0x80, 0xbf }, { 0xf0, 0xf0, 4, 0x90, 0xbf },
    { 0xf1, 0xf3, 4, 0x80, 0xbf }, { 0xf4, 0xf4, 4, 0x80, 0x8f },
};

static int is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

int waldo__utf8_step(const char *ptr, size_t len)
{
    const unsigned char *at = (const unsigned char *)ptr;
    size_t form = 0;

    if (at[0] < 0x80) {
        return 1;
    }
    while (form < sizeof forms / sizeof forms[0] && at[0] > forms[form].last) {
        form++;
    }
    if (form == sizeof forms / sizeof forms[0] || at[0] < forms[form].first) {
        return -1;
    }
    for (int i = 1; i < forms[form].len; i++) {
        if ((size_t)i == len) {
            return 0;
        }
        if (i == 1 ? at[1] < forms[form].low || at[1] > forms[form].high : !is_tail(at[i])) {
            return -i;
        }
    }
    return forms[form].len;
}

/* How many bytes at the front are ASCII; with stop_at_nul, other than NUL. */
static size_t ascii_run(const char *ptr, size_t len, int stop_at_nul)
{
    size_t at = 0;
    uint64_t word, nul = stop_at_nul ? ONES : 0;

    for (; len - at >= sizeof word; at += sizeof word) {
        memcpy(&word, ptr + at, sizeof word);
        /* With nul: borrows set the high bit of a zero byte, so this finds both kinds at once. */
        if (((word - nul) | word) & HIGHS) {
            break;
        }
    }
    while (at < len && (unsigned char)ptr[at] < 0x80 && (ptr[at] != '\0' || !stop_at_nul)) {
        at++;
    }
    return at;
}

/* The longest prefix of whole valid characters; with stop_at_nul, without NUL. */
static size_t valid_run(waldo_str text, int stop_at_nul)
{
    size_t at = 0;
    int step;

    while (at < text.len) {
        size_t ascii = ascii_run(text.ptr + at, text.len - at, stop_at_nul);

        at += ascii;
        if (at == text.len) {
            break;
        }
        step =
            (unsigned char)text.ptr[at] < 0x80 ? 0 : waldo__utf8_step(text.ptr + at, text.len - at);
        if (step <= 0) {
            break;
        }
        at += (size_t)step;
    }
    return at;
}

size_t waldo__utf8_run(waldo_str text)
{
    return valid_run(text, 0);
}

int waldo__utf8_valid(waldo_str text)
{
    return valid_run(text, 0) == text.len;
}

/*
 * The character that offset at lies inside of, but not at the start of: its start; else at itself.
 */
static size_t start_of(waldo_str text, size_t at, size_t *ret_end)
{
    for (size_t back = 1; back < LONGEST && back <= at; back++) {
        int step = waldo__utf8_step(text.ptr + at - back, text.len - (at - back));

        if (step > (int)back) {
            *ret_end = at - back + (size_t)step;
            return at - back;
        }
        if (!is_tail((unsigned char)text.ptr[at - back])) {
            break;
        }
    }
    *ret_end = at;
    return at;
}

size_t waldo__utf8_cut(waldo_str text, size_t max)
{
    size_t end;

    return max >= text.len ? text.len : start_of(text, max, &end);
}

size_t waldo__utf8_start(waldo_str text, size_t from)
{
    size_t end = text.len;

    if (from < text.len) {
        start_of(text, from, &end);
    }
    return end;
}

static waldo_status add_replacement(waldo__buf *out)
{
    return waldo__buf_add(out, replacement, REPLACEMENT_LEN);
}

/* Complete the sequence held from the last feed; gives how many of the new bytes it took. */
static size_t feed_held(waldo__utf8 *decoder, waldo_str bytes, waldo__buf *out)
{
    size_t used = 0;

    while (decoder->held_len > 0 && used < bytes.len) {
        int step;

        decoder->held[decoder->held_len++] = (unsigned char)bytes.ptr[used++];
        step = waldo__utf8_step((const char *)decoder->held, decoder->held_len);
        if (step > 0) {
            waldo__buf_add(out, decoder->held, decoder->held_len);
        } else if (step < 0) {
            /* What was held began a character, so it is the newest byte that does not fit. */
            add_replacement(out);
            used--;
        }
        decoder->held_len = step != 0 ? 0 : decoder->held_len;
    }
    return used;
}

waldo_status waldo__utf8_feed(waldo__utf8 *decoder, waldo_str bytes, waldo__buf *out)
{
    size_t at = feed_held(decoder, bytes, out);

    while (at < bytes.len) {
        waldo_str rest = { bytes.ptr + at, bytes.len - at };
        size_t run = valid_run(rest, 1);
        int step;

        waldo__buf_add(out, rest.ptr, run);
        at += run;
        if (at == bytes.len) {
            break;
        }
        step = bytes.ptr[at] == '\0' ? -1 : waldo__utf8_step(bytes.ptr + at, bytes.len - at);
        if (step == 0) {
            decoder->held_len = (unsigned char)(bytes.len - at);
            memcpy(decoder->held, bytes.ptr + at, decoder->held_len);
            break;
        }
        add_replacement(out);
        at += (size_t)-step;
    }
    return out->status;
}

waldo_status waldo__utf8_finish(waldo__utf8 *decoder, waldo__buf *out)
{
    if (decoder->held_len > 0) {
        decoder->held_len = 0;
        add_replacement(out);
    }
    return out->status;
}

waldo_status waldo__utf8_clean(waldo_str bytes, waldo__buf *out)
{
    waldo__utf8 decoder = { .held_len = 0 };

    waldo__utf8_feed(&decoder, bytes, out);
    return waldo__utf8_finish(&decoder, out);
}
