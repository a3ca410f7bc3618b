#include "store/store.h"

#include <stdatomic.h>

#include "base/alloc.h"

struct waldo_store {
    atomic_int refs;
    const waldo_store_ops *ops;
    void *self;
};

static int ops_are_good(const waldo_store_ops *ops)
{
    return ops != NULL && ops->version >= 1 &&
           ops->size >= offsetof(waldo_store_ops, attach) + sizeof ops->attach &&
           ops->append != NULL && ops->load != NULL && ops->destroy != NULL;
}

waldo_store *waldo_store_from_ops(const waldo_store_ops *ops, void *self)
{
    waldo_store *store = ops_are_good(ops) ? WALDO__NEW(waldo_store) : NULL;

    if (store != NULL) {
        atomic_init(&store->refs, 1);
        store->ops = ops;
        store->self = self;
    }
    return store;
}

waldo_store *waldo_store_ref(waldo_store *store)
{
    if (store != NULL) {
        atomic_fetch_add(&store->refs, 1);
    }
    return store;
}

void waldo_store_unref(waldo_store *store)
{
    if (store != NULL && atomic_fetch_sub(&store->refs, 1) == 1) {
        store->ops->destroy(store->self);
        waldo__free(store);
    }
}

const waldo_store_ops *waldo__store_ops(const waldo_store *store)
{
    return store->ops;
}

void *waldo__store_self(const waldo_store *store)
{
    return store->self;
}
