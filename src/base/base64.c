#include "base/base64.h"

const char waldo__base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Encode 1 to 3 bytes; missing ones become padding. */
static void encode_last(const unsigned char *from, size_t len, char *to)
{
    unsigned word =
        (unsigned)from[0] << 16 | (len > 1 ? (unsigned)from[1] << 8 : 0) | (len > 2 ? from[2] : 0);

    to[0] = waldo__base64_digits[word >> 18];
    to[1] = waldo__base64_digits[word >> 12 & 63];
    to[2] = len > 1 ? waldo__base64_digits[word >> 6 & 63] : '=';
    to[3] = len > 2 ? waldo__base64_digits[word & 63] : '=';
}

waldo_status waldo__base64(waldo_str bytes, waldo__buf *out)
{
    const unsigned char *from = (const unsigned char *)bytes.ptr;
    size_t groups = bytes.len / 3, rest = bytes.len % 3, len;
    char *to;

    if (__builtin_mul_overflow(groups + (rest != 0), 4, &len)) {
        len = SIZE_MAX; /* beyond any buffer's maximum, which makes it fail */
    }
    to = waldo__buf_reserve(out, len);
    if (to == NULL) {
        return out->status;
    }
    for (size_t i = 0; i < groups; i++, from += 3, to += 4) {
        unsigned word = (unsigned)from[0] << 16 | (unsigned)from[1] << 8 | from[2];

        to[0] = waldo__base64_digits[word >> 18];
        to[1] = waldo__base64_digits[word >> 12 & 63];
        to[2] = waldo__base64_digits[word >> 6 & 63];
        to[3] = waldo__base64_digits[word & 63];
    }
    if (rest != 0) {
        encode_last(from, rest, to);
    }
    waldo__buf_commit(out, len);
    return WALDO_OK;
}

/* The six bits that a character stands for; 64: it stands for nothing. */
static unsigned value_of(unsigned char c)
{
    static const unsigned char from[] = { 'A', 'a', '0', '+', '/' };
    static const unsigned char count[] = { 26, 26, 10, 1, 1 };
    unsigned value = 0;

    for (size_t i = 0; i < sizeof from; value += count[i++]) {
        if ((unsigned)(c - from[i]) < count[i]) {
            return value + (unsigned)(c - from[i]);
        }
    }
    return value;
}

waldo_status waldo__base64_decode(waldo_str text, waldo__buf *out)
{
    uint32_t word = 0;
    unsigned bits = 0;
    size_t len;
    char *to;

    while (text.len > 0 && text.ptr[text.len - 1] == '=') {
        text.len--;
    }
    if (text.len % 4 == 1) {
        return WALDO_EINVAL;
    }
    len = text.len / 4 * 3 + text.len % 4 * 3 / 4;
    to = waldo__buf_reserve(out, len);
    if (to == NULL) {
        return out->status;
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned value = value_of((unsigned char)text.ptr[i]);

        if (value == 64) {
            return WALDO_EINVAL;
        }
        word = word << 6 | value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *to++ = (char)(word >> bits & 0xff);
        }
    }
    waldo__buf_commit(out, len);
    return WALDO_OK;
}
