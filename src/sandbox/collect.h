/* Head and tail of a stream of any length, with what lies between counted. I/O-free. */
#ifndef WALDO_SANDBOX_COLLECT_H
#define WALDO_SANDBOX_COLLECT_H

#include "base/buf.h"
#include <waldo/sandbox.h>

enum { WALDO__COLLECT_TAIL_MAX = 1024 * 1024 }; /* what a hand keeps of a tail */

typedef struct waldo__collect {
    waldo__buf head;
    waldo__buf tail; /* up to twice tail_max, trimmed from the front */
    size_t head_max;
    size_t tail_max;
    uint64_t total;
    int gap; /* something between head and tail is missing */
} waldo__collect;

void waldo__collect_init(waldo__collect *collect, size_t max);
void waldo__collect_free(waldo__collect *collect);
waldo_status waldo__collect_add(waldo__collect *collect, waldo_str bytes);
void waldo__collect_skip(waldo__collect *collect, uint64_t count); /* bytes that do not come */

/* Borrowed until the collector changes; the head then holds everything. */
waldo_output waldo__collect_output(waldo__collect *collect);

/* Two streams in one collector: neither may come between the halves of a character of the other. */
typedef struct waldo__merge {
    char cut[2][4]; /* the beginning of a character whose rest is to come */
    size_t cut_len[2];
} waldo__merge;

void waldo__merge_add(waldo__merge *merge, waldo__collect *collect, int stream, waldo_str bytes);
void waldo__merge_flush(waldo__merge *merge, waldo__collect *collect); /* what is cut stays so */

#endif
