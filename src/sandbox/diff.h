/* Which lines of two texts differ. I/O-free; memory and time are bounded whatever the texts are. */
#ifndef WALDO_SANDBOX_DIFF_H
#define WALDO_SANDBOX_DIFF_H

#include "base/str.h"
#include <waldo/status.h>

/* One text in lines; a line keeps its newline, the last may lack it. */
typedef struct waldo__diff_side {
    waldo_str *lines;
    uint64_t *hashes;
    unsigned char *changed; /* 1: the line is on this side only */
    size_t count;
} waldo__diff_side;

/* The lines point into text. WALDO_ENOMEM frees what was made. */
waldo_status waldo__diff_side_init(waldo__diff_side *side, waldo_str text);
void waldo__diff_side_free(waldo__diff_side *side);

/*
 * Fill changed on both sides: what is not changed is the same text in the same order. The smallest
 * difference up to some size (Myers), above it the whole middle.
 */
waldo_status waldo__diff(waldo__diff_side *older, waldo__diff_side *newer);

#endif
