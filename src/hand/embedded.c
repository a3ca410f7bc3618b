/*
 * The hands inside the library are packed to two thirds of their size; the first that is asked for
 * unpacks them. Bits, the highest of a byte first: 0 and the eight of a byte; or 1, and bytes that
 * were there before: 1 at the distance of the last ones, or 0 and a distance, then how many.
 */
#include "hand/embedded.h"

#include <pthread.h>

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

static void unpack(const waldo__hand_program *program)
{
    bits from = { program->packed, program->packed + program->packed_len, 0, 0 };
    unsigned char *image = program->image;
    size_t have = 0, distance = 1, count;

    while (have < program->len) {
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
        for (; count > 0 && have < program->len && distance <= have; count--, have++) {
            image[have] = image[have - distance];
        }
    }
}

static void unpack_all(void)
{
    for (size_t i = 0; i < waldo__hand_count; i++) {
        unpack(&waldo__hands[i]);
    }
}

const waldo__hand_program *waldo__hand_at(size_t index)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, unpack_all);
    return index < waldo__hand_count ? &waldo__hands[index] : NULL;
}

const waldo__hand_program *waldo__hand_native(void)
{
    return waldo__hand_at(waldo__hand_native_index);
}
