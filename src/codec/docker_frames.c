#include "codec/docker_frames.h"

enum { FRAME_MAX = 16 * 1024 * 1024 };

/* Frame header: stream, three zeroes, length in network order. */
static waldo_status begin(waldo__docker_frames *frames)
{
    const unsigned char *head = frames->head;
    uint32_t len = (uint32_t)head[4] << 24 | (uint32_t)head[5] << 16 | (uint32_t)head[6] << 8 |
                   (uint32_t)head[7];

    if (head[0] > WALDO__DOCKER_ERROR || head[1] != 0 || head[2] != 0 || head[3] != 0 ||
        len > FRAME_MAX) {
        return WALDO_EPROTO;
    }
    frames->left = len;
    if (len == 0) {
        frames->head_len = 0;
    }
    return WALDO_OK;
}

waldo_status waldo__docker_frames_feed(waldo__docker_frames *frames, waldo_str bytes,
                                       waldo__docker_frames_fn fn, void *userdata)
{
    waldo_status status = WALDO_OK;

    while (bytes.len > 0 && status == WALDO_OK) {
        size_t len = 1;

        if (frames->head_len < sizeof frames->head) {
            frames->head[frames->head_len++] = (unsigned char)bytes.ptr[0];
            if (frames->head_len == sizeof frames->head) {
                status = begin(frames);
            }
        } else {
            len = bytes.len < frames->left ? bytes.len : frames->left;
            frames->left -= len;
            if (frames->left == 0) {
                frames->head_len = 0;
            }
            status =
                fn(userdata, (waldo__docker_stream)frames->head[0], waldo__slice(bytes.ptr, len));
        }
        bytes = waldo__slice(bytes.ptr + len, bytes.len - len);
    }
    return status;
}

int waldo__docker_frames_whole(const waldo__docker_frames *frames)
{
    return frames->head_len == 0;
}
