/*
 * The envelopes of a Connect stream (Connect protocol reference, "Streaming-RPCs"): bytes split
 * anywhere in, whole messages out. What is in a message is its user's matter.
 */
#ifndef WALDO_CODEC_CONNECT_H
#define WALDO_CODEC_CONNECT_H

#include "base/buf.h"

/* last: the message that ends the stream, with its error or {}. A failure stops the feed. */
typedef waldo_status (*waldo__connect_fn)(void *userdata, int last, waldo_str message);

typedef struct waldo__connect {
    waldo__buf message; /* what there is of one that came in pieces */
    unsigned char head[5];
    size_t head_len;
    size_t len; /* of the message, once its head is there */
    int ended;
} waldo__connect;

void waldo__connect_init(waldo__connect *connect, size_t max_message);
void waldo__connect_free(waldo__connect *connect);

/*
 * WALDO_EPROTO for a compressed message (nothing here asks for one), an unknown flag or bytes after
 * the end; WALDO_ETOOBIG for a message above the maximum, before any of it is kept.
 */
waldo_status waldo__connect_feed(waldo__connect *connect, waldo_str bytes, waldo__connect_fn fn,
                                 void *userdata);

/* The bytes are over: 1 when the last message was there, and whole. */
int waldo__connect_ended(const waldo__connect *connect);

/* What the name of an error code means; otherwise: it is none. */
waldo_status waldo__connect_status(waldo_str code, waldo_status otherwise);

/* Append the envelope of one message. */
waldo_status waldo__connect_put(waldo__buf *out, waldo_str message);

#endif
