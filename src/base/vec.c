#include "base/vec.h"

#include <string.h>

typedef struct any {
    WALDO__VEC(char);
} any;

void *waldo__vec_push(void *at, size_t size)
{
    any vec;
    char *element;

    memcpy(&vec, at, sizeof vec); /* the pointer in it is one to another type */
    if (vec.count == vec.cap) {
        size_t more = vec.cap < 4 ? 8 : vec.cap * 2;
        char *grown = waldo__reallocarray(vec.at, more, size);

        if (grown == NULL) {
            return NULL;
        }
        vec.at = grown;
        vec.cap = more;
    }
    element = vec.at + vec.count++ * size;
    memcpy(at, &vec, sizeof vec);
    return memset(element, 0, size);
}

void waldo__vec_free(void *at)
{
    any vec;

    memcpy(&vec, at, sizeof vec);
    waldo__free(vec.at);
    memset(at, 0, sizeof vec);
}
