/* A growing array, typed at its use: struct { WALDO__VEC(type); } or a typedef of it. */
#ifndef WALDO_BASE_VEC_H
#define WALDO_BASE_VEC_H

#include "base/alloc.h"

#define WALDO__VEC(type)                                                                           \
    type *at;                                                                                      \
    size_t count;                                                                                  \
    size_t cap

/* Room for one more element: its address, zeroed, now counted; NULL when out of memory. */
#define WALDO__VEC_PUSH(vec)                                                                       \
    (waldo__vec_grow((void **)&(vec)->at, &(vec)->cap, (vec)->count, sizeof *(vec)->at)            \
         ? &(vec)->at[(vec)->count++]                                                              \
         : NULL)

#define WALDO__VEC_FREE(vec)                                                                       \
    do {                                                                                           \
        waldo__free((vec)->at);                                                                    \
        (vec)->at = NULL;                                                                          \
        (vec)->count = (vec)->cap = 0;                                                             \
    } while (0)

/* Make element number count exist and zero it; 0 when out of memory. */
int waldo__vec_grow(void **at, size_t *cap, size_t count, size_t size);

#endif
