/* The golden files, and the library's decoder as text of what it saw. */
#ifndef WALDO_TESTS_HAND_GOLDEN_H
#define WALDO_TESTS_HAND_GOLDEN_H

#include "codec/hand.h"

/* What golden/make.py puts into every frame. */
#define ID 0x01020304u
extern const uint8_t nonce[WALDO_HAND_NONCE_LEN];

extern const char *golden_dir;

waldo_str golden(const char *name); /* the memory lasts until the next */

/* A waldo__hand_fn: adds a line of text for each event to a buffer. */
waldo_status describe(void *userdata, const waldo__hand_event *event);

/* Feeds bytes in two pieces, then the end; all must be good. */
void decode(waldo__hand_decoder *decoder, waldo_str bytes, size_t cut, waldo__buf *text);

#endif
