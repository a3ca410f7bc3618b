#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static waldo_allocator hook;
static atomic_int in_use;

waldo_status waldo_set_allocator(const waldo_allocator *allocator)
{
    if (atomic_load(&in_use)) {
        return WALDO_EBUSY;
    }
    if (allocator == NULL) {
        hook = (waldo_allocator){ 0 };
        return WALDO_OK;
    }
    if (allocator->malloc_fn == NULL || allocator->realloc_fn == NULL ||
        allocator->free_fn == NULL) {
        return WALDO_EINVAL;
    }
    hook = *allocator;
    return WALDO_OK;
}

/* From the first allocation on the hook is fixed: a block must go back where it came from. */
static void mark_in_use(void)
{
    if (!atomic_load_explicit(&in_use, memory_order_relaxed)) {
        atomic_store(&in_use, 1);
    }
}

void *waldo__alloc(size_t size)
{
    mark_in_use();
    size = size != 0 ? size : 1;
    return hook.malloc_fn != NULL ? hook.malloc_fn(hook.userdata, size) : malloc(size);
}

void *waldo__zalloc(size_t size)
{
    void *ptr = waldo__alloc(size);

    if (ptr != NULL) {
        memset(ptr, 0, size);
    }
    return ptr;
}

void *waldo__realloc(void *ptr, size_t size)
{
    if (ptr == NULL) {
        return waldo__alloc(size);
    }
    size = size != 0 ? size : 1;
    return hook.realloc_fn != NULL ? hook.realloc_fn(hook.userdata, ptr, size) : realloc(ptr, size);
}

void *waldo__calloc(size_t count, size_t size)
{
    size_t bytes;

    return __builtin_mul_overflow(count, size, &bytes) ? NULL : waldo__zalloc(bytes);
}

void *waldo__reallocarray(void *ptr, size_t count, size_t size)
{
    size_t bytes;

    return __builtin_mul_overflow(count, size, &bytes) ? NULL : waldo__realloc(ptr, bytes);
}

void waldo__free(void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    if (hook.free_fn != NULL) {
        hook.free_fn(hook.userdata, ptr);
    } else {
        free(ptr);
    }
}

void waldo__free_wiped(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        waldo__free(text);
    }
}

char *waldo__strdup(const char *text)
{
    return text != NULL ? waldo__strndup(text, strlen(text)) : NULL;
}

char *waldo__strndup(const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? waldo__alloc(len + 1) : NULL;

    if (copy != NULL) {
        if (len > 0) {
            memcpy(copy, text, len);
        }
        copy[len] = '\0';
    }
    return copy;
}

waldo_status waldo__options_copy(void *to, size_t to_size, const void *from)
{
    uint32_t size;

    memset(to, 0, to_size);
    if (from == NULL) {
        memcpy(to, &(uint32_t){ (uint32_t)to_size }, sizeof(uint32_t));
        return WALDO_OK;
    }
    memcpy(&size, from, sizeof size);
    if (size < sizeof size) {
        return WALDO_EINVAL;
    }
    for (size_t at = to_size; at < size; at++) {
        if (((const unsigned char *)from)[at] != 0) {
            return WALDO_EINVAL;
        }
    }
    memcpy(to, from, size < to_size ? size : to_size);
    memcpy(to, &(uint32_t){ (uint32_t)to_size }, sizeof(uint32_t));
    return WALDO_OK;
}
