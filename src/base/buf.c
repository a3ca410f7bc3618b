#include "base/buf.h"

#include <stdio.h>

#include "base/alloc.h"

enum { SMALLEST = 64, QUARTERS_TO = 16384 };

void waldo__buf_init(waldo__buf *buf, size_t max)
{
    *buf = WALDO__BUF_INIT(max);
}

void waldo__buf_init_wiped(waldo__buf *buf, size_t max)
{
    *buf = WALDO__BUF_WIPED(max);
}

/* Empty, with what was said at its birth. */
static void forget(waldo__buf *buf)
{
    *buf = (waldo__buf){ .max = buf->max, .is_wiped = buf->is_wiped };
}

static void give_back(waldo__buf *buf)
{
    if (buf->is_wiped && buf->ptr != NULL) {
        explicit_bzero(buf->ptr, buf->cap);
    }
    waldo__free(buf->ptr);
}

void waldo__buf_free(waldo__buf *buf)
{
    give_back(buf);
    forget(buf);
}

void waldo__buf_clear(waldo__buf *buf)
{
    buf->len = 0;
    buf->status = WALDO_OK;
    if (buf->ptr != NULL) {
        buf->ptr[0] = '\0';
    }
}

/* Move to a block of another size; the old one stays on failure. */
static waldo_status resize(waldo__buf *buf, size_t cap)
{
    char *ptr = buf->is_wiped ? waldo__alloc(cap) : waldo__realloc(buf->ptr, cap);

    if (ptr == NULL) {
        return buf->status = WALDO_ENOMEM;
    }
    if (buf->is_wiped && buf->ptr != NULL) {
        memcpy(ptr, buf->ptr, buf->len + 1);
        give_back(buf);
    }
    buf->ptr = ptr;
    buf->cap = cap;
    return WALDO_OK;
}

/* Make room for len more bytes and a NUL. */
static waldo_status grow(waldo__buf *buf, size_t len)
{
    size_t need, cap;

    if (buf->status != WALDO_OK) {
        return buf->status;
    }
    if (len > buf->max || buf->len > buf->max - len) {
        return buf->status = WALDO_ETOOBIG;
    }
    need = buf->len + len + 1;
    if (need <= buf->cap) {
        return WALDO_OK;
    }
    cap = buf->cap < SMALLEST ? SMALLEST : buf->cap;
    /* What is wiped lives shortly, and every step on its way costs a copy and a wipe. */
    while (cap < need) {
        cap = cap > SIZE_MAX / 4 ? need : cap * (buf->is_wiped && cap < QUARTERS_TO ? 4 : 2);
    }
    if (cap - 1 > buf->max) {
        cap = buf->max + 1;
    }
    return resize(buf, cap);
}

char *waldo__buf_reserve(waldo__buf *buf, size_t len)
{
    return grow(buf, len) == WALDO_OK ? buf->ptr + buf->len : NULL;
}

void waldo__buf_commit(waldo__buf *buf, size_t len)
{
    buf->len += len;
    buf->ptr[buf->len] = '\0';
}

/* There is room for len more bytes and a NUL, as nearly always. */
static int has_room(const waldo__buf *buf, size_t len)
{
    return buf->status == WALDO_OK && len < buf->cap - buf->len;
}

waldo_status waldo__buf_add(waldo__buf *buf, const void *bytes, size_t len)
{
    waldo_status status = has_room(buf, len) ? WALDO_OK : grow(buf, len);

    if (status == WALDO_OK) {
        if (len > 0) {
            memcpy(buf->ptr + buf->len, bytes, len);
        }
        waldo__buf_commit(buf, len);
    }
    return status;
}

waldo_status waldo__buf_add_str(waldo__buf *buf, waldo_str text)
{
    return waldo__buf_add(buf, text.ptr, text.len);
}

waldo_status waldo__buf_puts(waldo__buf *buf, const char *text)
{
    return waldo__buf_add(buf, text, strlen(text));
}

waldo_status waldo__buf_putc(waldo__buf *buf, char byte)
{
    if (!has_room(buf, 1)) {
        return waldo__buf_add(buf, &byte, 1);
    }
    buf->ptr[buf->len++] = byte;
    buf->ptr[buf->len] = '\0';
    return WALDO_OK;
}

waldo_status waldo__buf_vprintf(waldo__buf *buf, const char *format, va_list args)
{
    va_list again;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    if (len < 0) {
        buf->status = buf->status != WALDO_OK ? buf->status : WALDO_EINVAL;
    } else if (waldo__buf_reserve(buf, (size_t)len) != NULL) {
        vsnprintf(buf->ptr + buf->len, (size_t)len + 1, format, again);
        waldo__buf_commit(buf, (size_t)len);
    }
    va_end(again);
    return buf->status;
}

waldo_status waldo__buf_printf(waldo__buf *buf, const char *format, ...)
{
    va_list args;
    waldo_status status;

    va_start(args, format);
    status = waldo__buf_vprintf(buf, format, args);
    va_end(args);
    return status;
}

waldo_status waldo__buf_int(waldo__buf *buf, int64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    return waldo__buf_add(buf, digits + at, sizeof digits - at);
}

waldo_status waldo__buf_url(waldo__buf *buf, waldo_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (waldo__str_made_of(waldo__slice(text.ptr + i, 1), "-._~")) {
            waldo__buf_putc(buf, text.ptr[i]);
        } else {
            waldo__buf_printf(buf, "%%%02X", (unsigned)(unsigned char)text.ptr[i]);
        }
    }
    return buf->status;
}

void waldo__buf_consume(waldo__buf *buf, size_t len)
{
    if (len == 0) {
        return;
    }
    if (len >= buf->len) {
        len = buf->len;
    }
    memmove(buf->ptr, buf->ptr + len, buf->len - len + 1);
    buf->len -= len;
}

void waldo__buf_truncate(waldo__buf *buf, size_t len)
{
    if (len < buf->len) {
        buf->len = len;
        buf->ptr[len] = '\0';
    }
}

waldo_str waldo__buf_str(const waldo__buf *buf)
{
    return waldo__strn(buf->ptr, buf->len);
}

char *waldo__buf_take(waldo__buf *buf, size_t *ret_len)
{
    char *ptr;
    size_t len = buf->len;

    if (grow(buf, 0) != WALDO_OK) {
        return NULL;
    }
    ptr = buf->ptr;
    ptr[len] = '\0';
    forget(buf);
    if (ret_len != NULL) {
        *ret_len = len;
    }
    return ptr;
}
