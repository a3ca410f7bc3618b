/*
 * The frames in which an engine sends a container's standard output and error (Docker Engine API,
 * "Stream format" of ContainerAttach): bytes split anywhere in, pieces of streams out.
 */
#ifndef WALDO_CODEC_DOCKER_FRAMES_H
#define WALDO_CODEC_DOCKER_FRAMES_H

#include "base/str.h"
#include <waldo/status.h>

typedef enum waldo__docker_stream {
    WALDO__DOCKER_STDIN, /* an echo, which engines do not send */
    WALDO__DOCKER_STDOUT,
    WALDO__DOCKER_STDERR,
    WALDO__DOCKER_ERROR /* the engine's own last words */
} waldo__docker_stream;

/* A frame may come in several pieces, none of them empty. A failure stops the feed. */
typedef waldo_status (*waldo__docker_frames_fn)(void *userdata, waldo__docker_stream stream,
                                                waldo_str bytes);

/* Starts zeroed; holds no memory. */
typedef struct waldo__docker_frames {
    unsigned char head[8];
    size_t head_len;
    size_t left; /* of the payload */
} waldo__docker_frames;

/* WALDO_EPROTO for what is no frame, or one above 16 MiB. */
waldo_status waldo__docker_frames_feed(waldo__docker_frames *frames, waldo_str bytes,
                                       waldo__docker_frames_fn fn, void *userdata);

/* The stream has ended: 1 when that was between two frames. */
int waldo__docker_frames_whole(const waldo__docker_frames *frames);

#endif
