/**
 * @file
 * The process-wide allocator hook. It covers waldo's own memory, not that of libcurl, cJSON or
 * libsodium.
 */
#ifndef WALDO_ALLOC_H
#define WALDO_ALLOC_H

#include <waldo/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Same contracts as malloc, realloc and free; called from any thread. */
typedef struct waldo_allocator {
    void *(*malloc_fn)(void *userdata, size_t size);
    void *(*realloc_fn)(void *userdata, void *ptr, size_t size);
    void (*free_fn)(void *userdata, void *ptr);
    void *userdata;
} waldo_allocator;

/**
 * Replace the allocator. Must come before the first object is made.
 *
 * @param allocator  copied; all three functions set; NULL restores the C library's
 * @retval WALDO_OK     set
 * @retval WALDO_EINVAL a function is missing
 * @retval WALDO_EBUSY  an allocation was made already
 * Thread: one, before any other call. Since: 0.1.
 */
WALDO_API waldo_status waldo_set_allocator(const waldo_allocator *allocator);

#ifdef __cplusplus
}
#endif

#endif
