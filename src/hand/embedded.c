/*
 * The hands inside the library are packed to two thirds of their size; each is unpacked when its
 * image is first asked for. Bits, the highest of a byte first: 0 and the eight of a byte; or 1, and
 * bytes that were there before: 1 at the distance of the last ones, or 0 and a distance, then how
 * many. In a hand for x86-64 each call is packed with the place it goes to instead of how far that
 * is, so that calls of one function are equal bytes.
 */
#include "hand/embedded.h"

#include <stdint.h>

typedef struct bits {
    const unsigned char *next;
    const unsigned char *end; /* zeroes follow */
    unsigned byte;
    unsigned left;
} bits;

static size_t take(bits *from, unsigned count)
{
    size_t value = 0;

    while (count-- > 0) {
        if (from->left == 0) {
            from->byte = from->next < from->end ? *from->next++ : 0;
            from->left = 8;
        }
        from->left--;
        value = value << 1 | (from->byte >> from->left & 1);
    }
    return value;
}

/* A number from 1 on: as many zeros as bits follow its first one, then those bits. */
static size_t take_number(bits *from)
{
    unsigned more = 0;

    while (more < 24 && take(from, 1) == 0) {
        more++;
    }
    return (size_t)1 << more | take(from, more);
}

static void unpack_bytes(const unsigned char *packed, size_t packed_len, unsigned char *image,
                         size_t len)
{
    bits from = { packed, packed + packed_len, 0, 0 };
    size_t have = 0, distance = 1, count;

    while (have < len) {
        if (take(&from, 1) == 0) {
            image[have++] = (unsigned char)take(&from, 8);
            continue;
        }
        count = 0;
        if (take(&from, 1) == 0) {
            distance = (take_number(&from) - 1) << 8;
            distance += take(&from, 8) + 1;
            count = 1;
        }
        count += take_number(&from);
        for (; count > 0 && have < len && distance <= have; count--, have++) {
            image[have] = image[have - distance];
        }
    }
}

/* Whatever has the byte of a call is taken for one, there as here. */
static void restore_calls(unsigned char *image, size_t len)
{
    enum { CALL = 0xe8, CALL_LEN = 5 };
    uint32_t where;

    for (size_t at = 0; at + CALL_LEN <= len; at++) {
        if (image[at] == CALL) {
            where = 0;
            for (size_t i = CALL_LEN; --i > 0;) {
                where = where << 8 | image[at + i];
            }
            where -= (uint32_t)at + CALL_LEN;
            for (size_t i = 1; i < CALL_LEN; i++, where >>= 8) {
                image[at + i] = (unsigned char)where;
            }
            at += CALL_LEN - 1;
        }
    }
}

void waldo__hand_unpack(const unsigned char *packed, size_t packed_len, unsigned char *image,
                        size_t len)
{
    enum { MACHINE_AT = 18, X86_64 = 62 }; /* of ELF */

    unpack_bytes(packed, packed_len, image, len);
    if (len > MACHINE_AT && image[MACHINE_AT] == X86_64) {
        restore_calls(image, len);
    }
}

const waldo__hand_program *waldo__hand_at(size_t index)
{
    return index < waldo__hand_count ? &waldo__hands[index] : NULL;
}

const waldo__hand_program *waldo__hand_native(void)
{
    return waldo__hand_at(waldo__hand_native_index);
}

const char *waldo__hand_image(const waldo__hand_program *program)
{
    pthread_once(program->once, program->unpack);
    return (const char *)program->room;
}
