#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

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

uint32_t waldo__random_below(uint32_t limit)
{
    uint32_t value, reject;

    if (limit == 0) {
        return 0;
    }
    reject = (uint32_t)(-limit) % limit; /* 2^32 mod limit: values below it would be favoured */
    do {
        waldo__random(&value, sizeof value);
    } while (value < reject);
    return value % limit;
}

void waldo__random_word(char *text, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    for (size_t i = 0; i < len; i++) {
        text[i] = letters[waldo__random_below(sizeof letters - 1)];
    }
    text[len] = '\0';
}
