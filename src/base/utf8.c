#include "base/utf8.h"

#include "base/word.h"

static const char replacement[] = "\xef\xbf\xbd";

enum { REPLACEMENT_LEN = sizeof replacement - 1, LONGEST = 4 };

static int is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* A sequence of need bytes whose second one is between low and high. */
static inline int sequence(const unsigned char *at, size_t len, int need, int low, int high)
{
    if (len < 2) {
        return 0;
    }
    if (at[1] < low || at[1] > high) {
        return -1;
    }
    if (need == 2) {
        return 2;
    }
    if (len < 3) {
        return 0;
    }
    if (!is_tail(at[2])) {
        return -2;
    }
    if (need == 3) {
        return 3;
    }
    return len < 4 ? 0 : is_tail(at[3]) ? 4 : -3;
}

/* Unicode standard, table 3-7. Branches, as text stays within one or two of them. */
int waldo__utf8_step(const char *ptr, size_t len)
{
    const unsigned char *at = (const unsigned char *)ptr;

    if (at[0] < 0xc2) {
        return at[0] < 0x80 ? 1 : -1;
    }
    if (at[0] < 0xe0) {
        return sequence(at, len, 2, 0x80, 0xbf);
    }
    if (at[0] < 0xf0) {
        return sequence(at, len, 3, at[0] == 0xe0 ? 0xa0 : 0x80, at[0] == 0xed ? 0x9f : 0xbf);
    }
    if (at[0] < 0xf5) {
        return sequence(at, len, 4, at[0] == 0xf0 ? 0x90 : 0x80, at[0] == 0xf4 ? 0x8f : 0xbf);
    }
    return -1;
}

/* How many bytes at the front are ASCII; with stop_at_nul, other than NUL. */
static size_t ascii_run(const char *ptr, size_t len, int stop_at_nul)
{
    size_t at = 0;
    uint64_t nul = stop_at_nul ? WALDO__WORD(1) : 0;

    for (; len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word = waldo__word_load(ptr + at),
                 flags = ((word - nul) | word) & WALDO__WORD(0x80);

        if (flags != 0) {
            return at + waldo__word_first(flags);
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

    while (at < text.len) {
        int step;

        if ((unsigned char)text.ptr[at] < 0x80) {
            size_t ascii = ascii_run(text.ptr + at, text.len - at, stop_at_nul);

            if (ascii == 0) {
                break;
            }
            at += ascii;
            continue;
        }
        step = waldo__utf8_step(text.ptr + at, text.len - at);
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
