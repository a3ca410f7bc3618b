/* Looking at eight bytes at once: arithmetic that sets the high bit of each byte that matters. */
#ifndef WALDO_BASE_WORD_H
#define WALDO_BASE_WORD_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WALDO__WORD(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The byte at the lowest address becomes the lowest one. */
static inline uint64_t waldo__word_load(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return le64toh(word);
}

/*
 * Flags for bytes that are not ASCII, less than low, or equal to one of two. A borrow may set flags
 * above a true one, so only the first flag and "none" are exact.
 */
static inline uint64_t waldo__word_flags(uint64_t word, unsigned low, char a, char b)
{
    return (word | (word - WALDO__WORD(low)) |
            ((word ^ WALDO__WORD((unsigned char)a)) - WALDO__WORD(1)) |
            ((word ^ WALDO__WORD((unsigned char)b)) - WALDO__WORD(1))) &
           WALDO__WORD(0x80);
}

/* Which byte the first flag is of. */
static inline size_t waldo__word_first(uint64_t flags)
{
    return (size_t)__builtin_ctzll(flags) / 8;
}

#endif
