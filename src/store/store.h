/* Stores as the run engine uses them. */
#ifndef WALDO_STORE_STORE_H
#define WALDO_STORE_STORE_H

#include <waldo/sys/store.h>

const waldo_store_ops *waldo__store_ops(const waldo_store *store);
void *waldo__store_self(const waldo_store *store);

#endif
