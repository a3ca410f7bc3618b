#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Encode 1 to 3 bytes; missing ones become padding. */
static void encode_last(const unsigned char *from, size_t len, char *to)
{
    unsigned word =
        (unsigned)from[0] << 16 | (len > 1 ? (unsigned)from[1] << 8 : 0) | (len > 2 ? from[2] : 0);

    to[0] = alphabet[word >> 18];
    to[1] = alphabet[word >> 12 & 63];
    to[2] = len > 1 ? alphabet[word >> 6 & 63] : '=';
    to[3] = len > 2 ? alphabet[word & 63] : '=';
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

        to[0] = alphabet[word >> 18];
        to[1] = alphabet[word >> 12 & 63];
        to[2] = alphabet[word >> 6 & 63];
        to[3] = alphabet[word & 63];
    }
    if (rest != 0) {
        encode_last(from, rest, to);
    }
    waldo__buf_commit(out, len);
    return WALDO_OK;
}

waldo_status waldo__base64_decode(waldo_str text, waldo__buf *out)
{
    uint32_t word = 0;
    unsigned bits = 0;

    while (text.len > 0 && text.ptr[text.len - 1] == '=') {
        text.len--;
    }
    if (text.len % 4 == 1) {
        return WALDO_EINVAL;
    }
    for (size_t i = 0; i < text.len; i++) {
        const char *at = text.ptr[i] != '\0' ? strchr(alphabet, text.ptr[i]) : NULL;

        if (at == NULL) {
            return WALDO_EINVAL;
        }
        word = word << 6 | (uint32_t)(at - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            waldo__buf_putc(out, (char)(word >> bits & 0xff));
        }
    }
    return out->status;
}
