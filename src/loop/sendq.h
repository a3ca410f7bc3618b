/* Bytes on their way to who may take them slowly: what a channel has queued. */
#ifndef WALDO_LOOP_SENDQ_H
#define WALDO_LOOP_SENDQ_H

#include "base/buf.h"

typedef struct waldo__sendq {
    waldo__buf out;
    size_t sent; /* of its front */
} waldo__sendq;

#define WALDO__SENDQ_INIT(maximum) ((waldo__sendq){ .out = WALDO__BUF_INIT(maximum) })

void waldo__sendq_free(waldo__sendq *queue);
size_t waldo__sendq_left(const waldo__sendq *queue);

/* WALDO_EBUSY when it would hold more than its maximum, WALDO_ENOMEM: nothing was added. */
waldo_status waldo__sendq_add(waldo__sendq *queue, waldo_str bytes);

int waldo__sendq_took(waldo__sendq *queue, size_t len); /* its front is sent; 1: that was all */

/*
 * Give the socket what it takes now; 1 when that emptied the queue. A broken stream is no news
 * here: it shows when it is read.
 */
int waldo__sendq_flush(waldo__sendq *queue, int fd);

#endif
