/**
 * @file
 * Stores: where journals rest. A store knows only bytes.
 */
#ifndef WALDO_STORE_H
#define WALDO_STORE_H

#include <waldo/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A store in memory: it lasts as long as its last reference and survives its runtimes.
 *
 * @return one reference, release with waldo_store_unref(); NULL when out of memory
 * Thread: any; used by one runtime at a time. Since: 0.1.
 */
WALDO_API waldo_store *waldo_store_memory_new(void);

/**
 * @param store  gets one more reference; NULL is accepted
 * @return store
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_store *waldo_store_ref(waldo_store *store);

/**
 * @param store  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_store_unref(waldo_store *store);

#ifdef __cplusplus
}
#endif

#endif
