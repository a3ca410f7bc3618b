/* The table of backends: those of this build, then the host's own. */
#ifndef WALDO_SANDBOX_REGISTRY_H
#define WALDO_SANDBOX_REGISTRY_H

#include "base/buf.h"
#include <waldo/sys/backend.h>

const waldo_backend_ops *waldo__backend_at(size_t index); /* NULL past the end */
const waldo_backend_ops *waldo__backend_find(waldo_str name);

/* "local, fake", for error messages. */
void waldo__backend_names(waldo__buf *out);

/* 1 when ops is recent enough to have the member and it is not NULL. */
#define WALDO__BACKEND_HAS(ops, member)                                                            \
    ((ops)->size >= offsetof(waldo_backend_ops, member) + sizeof((ops)->member) &&                 \
     (ops)->member != NULL)

#endif
