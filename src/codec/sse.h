/* Server-sent events without I/O: bytes split anywhere in, events out. */
#ifndef WALDO_CODEC_SSE_H
#define WALDO_CODEC_SSE_H

#include "base/buf.h"

/*
 * name is empty when the event had none; no NUL need stand behind data. A failure stops the feed
 * and is handed back.
 */
typedef waldo_status (*waldo__sse_fn)(void *userdata, waldo_str name, waldo_str data);

typedef struct waldo__sse {
    waldo__buf line;
    waldo__buf name;
    waldo__buf data;
    unsigned char state;
    int has_data;
    waldo_str lent;  /* the event's data so far, when it is one line of the input being fed */
    uint64_t events; /* dispatched so far */
} waldo__sse;

void waldo__sse_init(waldo__sse *sse, size_t max_event); /* max of one event's data */
void waldo__sse_free(waldo__sse *sse);
/* After a failure only waldo__sse_free() may follow. */
waldo_status waldo__sse_feed(waldo__sse *sse, waldo_str bytes, waldo__sse_fn fn, void *userdata);
waldo_status waldo__sse_finish(waldo__sse *sse, waldo__sse_fn fn,
                               void *userdata); /* a pending event */

#endif
