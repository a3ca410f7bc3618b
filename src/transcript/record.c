#include "transcript/transcript.h"

#include <inttypes.h>
#include <stdint.h>

/* CRC-32 as in zip and Ethernet: polynomial 0xEDB88320, four bits a step. */
static uint32_t crc32_of(waldo_str bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= (unsigned char)bytes.ptr[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

waldo_status waldo__record_write(uint64_t seq, waldo_str json, waldo__buf *out)
{
    waldo__buf_printf(out, "%" PRIu64 " %08" PRIx32 " ", seq, crc32_of(json));
    return waldo__buf_add_str(out, json);
}

static int parse_hex(waldo_str text, uint32_t *ret_value)
{
    uint32_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        const char *digits = "0123456789abcdef";
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
