/* A growing array, typed at its use: struct { WALDO__VEC(type); } or a typedef of it. */
#ifndef WALDO_BASE_VEC_H
#define WALDO_BASE_VEC_H

#include "base/alloc.h"

#define WALDO__VEC(type)                                                                           \
    type *at;                                                                                      \
    size_t count;                                                                                  \
    size_t cap

/* Room for one more element: its address, zeroed, now counted; NULL when out of memory. */
#define WALDO__VEC_PUSH(vec) ((__typeof__((vec)->at))waldo__vec_push(&(vec)->at, sizeof *(vec)->at))

#define WALDO__VEC_FREE(vec) waldo__vec_free(&(vec)->at)

/* at is the first of the three members; size is an element's. */
void *waldo__vec_push(void *at, size_t size);
void waldo__vec_free(void *at);

#endif
