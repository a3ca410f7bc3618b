/*
 * The forms a secret may take in text: as it is, percent-encoded or JSON-escaped in any mixture,
 * base64 (both alphabets, at each of the three offsets in a larger text, wrapped or not), hex
 * (either case, wrapped or not). Private to src/secret.
 */
#ifndef WALDO_SECRET_FORMS_H
#define WALDO_SECRET_FORMS_H

#include <stddef.h>
#include <stdint.h>

/* Shorter values are not looked for: they would match by chance. */
enum { WALDO__FORM_SHORTEST = 8 };

/* A form is probed at one of so many neighbouring places, whose pairs the filter knows. */
enum { WALDO__FORM_STRIDE = 4 };

/*
 * Which two bytes may stand next to each other at the front of a form, and which byte may come
 * first. This lies in ordinary memory, so that text without secrets costs no system call; of a
 * secret it shows a few characters at the front without their order.
 */
typedef struct waldo__form_filter {
    uint64_t pairs[65536 / 64];
    uint64_t first[256 / 64];
} waldo__form_filter;

void waldo__form_filter_add(waldo__form_filter *filter, const unsigned char *value, size_t len);

static inline int waldo__form_pair(const waldo__form_filter *filter, const char *at)
{
    unsigned pair = (unsigned)(unsigned char)at[0] << 8 | (unsigned char)at[1];

    return filter->pairs[pair / 64] >> (pair % 64) & 1;
}

static inline int waldo__form_first(const waldo__form_filter *filter, char byte)
{
    return filter->first[(unsigned char)byte / 64] >> ((unsigned char)byte % 64) & 1;
}

/*
 * The length of the longest form of value at the front of text, 0 when there is none.
 * *ret_partial becomes 1 when text ends within what may be a form, and stays else.
 */
size_t waldo__form_match(const unsigned char *value, size_t value_len, const char *text, size_t len,
                         int *ret_partial);

#endif
