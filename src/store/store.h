/* Stores as the run engine uses them, and the one that forgets. */
#ifndef WALDO_STORE_STORE_H
#define WALDO_STORE_STORE_H

#include <waldo/sys/store.h>

const waldo_store_ops *waldo__store_ops(const waldo_store *store);
void *waldo__store_self(const waldo_store *store);

/*
 * For runtimes without a store: checks the order of appends and acknowledges them, but keeps
 * nothing, since the transcript of a living run is in memory already.
 */
waldo_store *waldo__store_volatile_new(void);

#endif
