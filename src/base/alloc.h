/* Memory: the allocator hook and overflow-checked wrappers. NULL means out of memory. */
#ifndef WALDO_BASE_ALLOC_H
#define WALDO_BASE_ALLOC_H

#include <stdint.h>

#include <waldo/alloc.h>

void *waldo__alloc(size_t size);                /* uninitialised */
void *waldo__zalloc(size_t size);               /* zeroed */
void *waldo__realloc(void *ptr, size_t size);   /* the old block stays on failure */
void *waldo__calloc(size_t count, size_t size); /* zeroed, overflow-checked */
void *waldo__reallocarray(void *ptr, size_t count, size_t size); /* overflow-checked */
void waldo__free(void *ptr);
void waldo__free_wiped(char *text); /* overwrites a string first; NULL does nothing */

char *waldo__strdup(const char *text);              /* NULL gives NULL */
char *waldo__strndup(const char *text, size_t len); /* copies len bytes and adds a NUL */

#define WALDO__NEW(type) ((type *)waldo__zalloc(sizeof(type)))

#define WALDO__CONTAINER(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define WALDO__COUNT(array)                 (sizeof(array) / sizeof((array)[0]))

/*
 * Copy a sized options struct of any version into one of ours: a short one gets zeroes (=
 * defaults), a longer one must be zero in the part we do not know.
 */
waldo_status waldo__options_copy(void *to, size_t to_size, const void *from);

#endif
