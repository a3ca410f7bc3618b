#include "transcript/transcript.h"

#include <stdint.h>

/* CRC-32 as in zip and Ethernet: polynomial 0xEDB88320, a byte a step by its two halves. */
static uint32_t crc32_of(waldo_str bytes)
{
    static const uint32_t low[16] = {
        0x00000000, 0x77073096, 0xee0e612c, 0x990951ba, 0x076dc419, 0x706af48f,
        0xe963a535, 0x9e6495a3, 0x0edb8832, 0x79dcb8a4, 0xe0d5e91e, 0x97d2d988,
        0x09b64c2b, 0x7eb17cbd, 0xe7b82d07, 0x90bf1d91,
    };
    static const uint32_t high[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= (unsigned char)bytes.ptr[i];
        crc = (crc >> 8) ^ low[crc & 15] ^ high[crc >> 4 & 15];
    }
    return ~crc;
}

static const char digits[] = "0123456789abcdef";

waldo_status waldo__record_write(uint64_t seq, waldo_str json, waldo__buf *out)
{
    uint32_t crc = crc32_of(json);

    waldo__buf_int(out, (int64_t)seq);
    waldo__buf_putc(out, ' ');
    for (int shift = 28; shift >= 0; shift -= 4) {
        waldo__buf_putc(out, digits[crc >> shift & 15]);
    }
    waldo__buf_putc(out, ' ');
    return waldo__buf_add_str(out, json);
}

static int parse_hex(waldo_str text, uint32_t *ret_value)
{
    uint32_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        const char *at = memchr(digits, text.ptr[i], 16);

        if (at == NULL) {
            return 0;
        }
        value = value << 4 | (uint32_t)(at - digits);
    }
    *ret_value = value;
    return text.len == 8;
}

waldo_status waldo__record_read(waldo_str record, uint64_t expected_seq, waldo_str *ret_json)
{
    waldo_str rest = record, seq_text, crc_text;
    int64_t seq;
    uint32_t crc;

    if (!waldo__str_split(&rest, ' ', &seq_text) || !waldo__str_split(&rest, ' ', &crc_text) ||
        !waldo__str_int(seq_text, &seq) || !parse_hex(crc_text, &crc) || rest.ptr == NULL ||
        (uint64_t)seq != expected_seq || crc32_of(rest) != crc) {
        return WALDO_EPROTO;
    }
    *ret_json = rest;
    return WALDO_OK;
}
