/* UTF-8: validation and the incremental decoder that turns any bytes into valid text. */
#ifndef WALDO_BASE_UTF8_H
#define WALDO_BASE_UTF8_H

#include "base/buf.h"

/* 1 when text is valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
int waldo__utf8_valid(waldo_str text);

/* Length of the longest valid prefix: the offset of the first invalid byte, or text.len. */
size_t waldo__utf8_run(waldo_str text);

/*
 * The sequence at the front of bytes that are not empty: its length when it is one character, minus
 * the length of the maximal invalid part when it is not, 0 when more bytes are needed to tell.
 */
int waldo__utf8_step(const char *ptr, size_t len);

/* Length of the longest prefix of at most max bytes that does not cut a character. */
size_t waldo__utf8_cut(waldo_str text, size_t max);

/* First offset at or after from that begins a character (for cutting a tail). */
size_t waldo__utf8_start(waldo_str text, size_t from);

/*
 * One decoder per stream: bytes split anywhere come in, valid UTF-8 comes out. Each maximal invalid
 * sequence, and each NUL byte, becomes one U+FFFD.
 */
typedef struct waldo__utf8 {
    unsigned char held[4];
    unsigned char held_len;
} waldo__utf8;

waldo_status waldo__utf8_feed(waldo__utf8 *decoder, waldo_str bytes, waldo__buf *out);

/* The end of the stream: an unfinished character becomes one U+FFFD. */
waldo_status waldo__utf8_finish(waldo__utf8 *decoder, waldo__buf *out);

/* Both steps at once. */
waldo_status waldo__utf8_clean(waldo_str bytes, waldo__buf *out);

#endif
