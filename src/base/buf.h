/*
 * A growing byte buffer with a maximum set at birth. The first failure sticks: appends after it do
 * nothing and return it again, so a run of appends needs one check at the end.
 */
#ifndef WALDO_BASE_BUF_H
#define WALDO_BASE_BUF_H

#include <stdarg.h>
#include <stdint.h>

#include "base/str.h"
#include <waldo/status.h>

typedef struct waldo__buf {
    char *ptr; /* NUL-terminated once anything was appended */
    size_t len;
    size_t cap;
    size_t max;
    waldo_status status; /* WALDO_OK, WALDO_ENOMEM or WALDO_ETOOBIG */
    int is_wiped;        /* memory is overwritten before it is given back, when it grows, too */
} waldo__buf;

#define WALDO__BUF_INIT(maximum) ((waldo__buf){ .max = (maximum) })

/* For secrets, and for what a server says before it is scrubbed: it may quote the key. */
#define WALDO__BUF_WIPED(maximum) ((waldo__buf){ .max = (maximum), .is_wiped = 1 })

void waldo__buf_init(waldo__buf *buf, size_t max);
void waldo__buf_init_wiped(waldo__buf *buf, size_t max);
void waldo__buf_free(waldo__buf *buf);  /* back to empty; the maximum stays */
void waldo__buf_clear(waldo__buf *buf); /* empty and without failure; the memory stays */

waldo_status waldo__buf_add(waldo__buf *buf, const void *bytes, size_t len);
waldo_status waldo__buf_add_str(waldo__buf *buf, waldo_str text);
waldo_status waldo__buf_puts(waldo__buf *buf, const char *text);
waldo_status waldo__buf_putc(waldo__buf *buf, char byte);
waldo_status waldo__buf_int(waldo__buf *buf, int64_t value);  /* in decimal */
waldo_status waldo__buf_url(waldo__buf *buf, waldo_str text); /* escaped for a part of a URL */
waldo_status waldo__buf_printf(waldo__buf *buf, const char *format, ...) WALDO_PRINTF(2, 3);
waldo_status waldo__buf_vprintf(waldo__buf *buf, const char *format, va_list args)
    WALDO_PRINTF(2, 0);

/* Room for len more bytes at the end: write there, then waldo__buf_commit(). NULL on failure. */
char *waldo__buf_reserve(waldo__buf *buf, size_t len);
void waldo__buf_commit(waldo__buf *buf, size_t len);

void waldo__buf_consume(waldo__buf *buf, size_t len);  /* drop bytes from the front */
void waldo__buf_truncate(waldo__buf *buf, size_t len); /* drop bytes from the end */

/* The content, NUL-terminated; empty text when there is none. Borrowed until the next change. */
waldo_str waldo__buf_str(const waldo__buf *buf);

/* Give the content away as a NUL-terminated block for waldo__free(); NULL when out of memory. */
char *waldo__buf_take(waldo__buf *buf, size_t *ret_len);

#endif
