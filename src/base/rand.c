#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/base64.h"

/*
 * getrandom() fails only where there is no entropy device at all: nothing safe is left to do then.
 */
void waldo__random(void *bytes, size_t len)
{
    char *at = bytes;

    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno != EINTR) {
            abort();
        }
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        }
    }
}

void waldo__random_word(char *text, size_t len)
{
    unsigned char bytes[64];
    size_t left = 0;

    /* Six bits choose one of 62 letters, or none. */
    for (size_t i = 0; i < len;) {
        unsigned choice;

        if (left == 0) {
            waldo__random(bytes, sizeof bytes);
            left = sizeof bytes;
        }
        choice = bytes[--left] & 63;
        if (choice < WALDO__ALNUM) {
            text[i++] = waldo__base64_digits[choice];
        }
    }
    text[len] = '\0';
}
