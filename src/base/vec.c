#include "base/vec.h"

#include <string.h>

int waldo__vec_grow(void **at, size_t *cap, size_t count, size_t size)
{
    if (count == *cap) {
        size_t more = *cap < 4 ? 8 : *cap * 2;
        void *grown = waldo__reallocarray(*at, more, size);

        if (grown == NULL) {
            return 0;
        }
        *at = grown;
        *cap = more;
    }
    memset((char *)*at + count * size, 0, size);
    return 1;
}
