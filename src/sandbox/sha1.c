/* FIPS 180-4, section 6.1. */
#include "sandbox/sha1.h"

#include <string.h>

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static void mix(waldo__sha1 *sha)
{
    static const uint32_t constants[] = { 0x5a827999u, 0x6ed9eba1u, 0x8f1bbcdcu, 0xca62c1d6u };
    uint32_t w[80];
    uint32_t a = sha->state[0];
    uint32_t b = sha->state[1];
    uint32_t c = sha->state[2];
    uint32_t d = sha->state[3];
    uint32_t e = sha->state[4];

    for (size_t i = 0; i < 16; i++) {
        const unsigned char *at = sha->block + 4 * i;

        w[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (size_t i = 16; i < 80; i++) {
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    for (size_t i = 0; i < 80; i++) {
        uint32_t choice = (b & c) | (~b & d);
        uint32_t majority = (b & c) | (b & d) | (c & d);
        uint32_t f = i < 20 ? choice : i >= 40 && i < 60 ? majority : b ^ c ^ d;
        uint32_t next = rotate(a, 5) + f + e + constants[i / 20] + w[i];

        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    sha->state[0] += a;
    sha->state[1] += b;
    sha->state[2] += c;
    sha->state[3] += d;
    sha->state[4] += e;
}

void waldo__sha1_init(waldo__sha1 *sha)
{
    *sha = (waldo__sha1){ .state = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u,
                                     0xc3d2e1f0u } };
}

void waldo__sha1_add(waldo__sha1 *sha, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;

    while (len > 0) {
        size_t used = (size_t)(sha->total % sizeof sha->block);
        size_t part = sizeof sha->block - used;

        part = part < len ? part : len;
        memcpy(sha->block + used, from, part);
        sha->total += part;
        from += part;
        len -= part;
        if (sha->total % sizeof sha->block == 0) {
            mix(sha);
        }
    }
}

void waldo__sha1_finish(waldo__sha1 *sha, unsigned char digest[WALDO__SHA1_LEN])
{
    static const unsigned char padding[64] = { 0x80 };
    uint64_t bits = sha->total * 8;
    size_t used = (size_t)(sha->total % 64);
    unsigned char length[8];

    for (size_t i = 0; i < sizeof length; i++) {
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    waldo__sha1_add(sha, padding, used < 56 ? 56 - used : 120 - used);
    waldo__sha1_add(sha, length, sizeof length);
    for (size_t i = 0; i < WALDO__SHA1_LEN; i++) {
        digest[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}
