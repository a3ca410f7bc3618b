#define _GNU_SOURCE
/* The output queue. Its producers stop at marks far below its size, so that it cannot overrun. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server.h"

#define OUT_CAP (4u * 1024u * 1024u)

static uint8_t queue[OUT_CAP];
static size_t queue_start, queue_end;
static bool broken;
static int out_fd = STDOUT_FILENO;

void out_reset(int fd)
{
    queue_start = queue_end = 0;
    broken = false;
    out_fd = fd;
}

size_t out_pending(void)
{
    return queue_end - queue_start;
}

bool out_room_for_data(void)
{
    return out_pending() < OUT_DATA_MARK;
}

void out_frame2(uint8_t type, uint32_t id, const void *head, size_t head_len, const void *body,
                size_t body_len)
{
    size_t need = WALDO_HAND_HEADER_LEN + head_len + body_len;

    if (OUT_CAP - queue_end < need) {
        memmove(queue, queue + queue_start, out_pending());
        queue_end -= queue_start;
        queue_start = 0;
    }
    if (OUT_CAP - queue_end < need) {
        broken = true;
        return;
    }
    put_header(queue + queue_end, head_len + body_len, type, id);
    queue_end += WALDO_HAND_HEADER_LEN;
    if (head_len > 0) {
        memcpy(queue + queue_end, head, head_len);
        queue_end += head_len;
    }
    if (body_len > 0) {
        memcpy(queue + queue_end, body, body_len);
        queue_end += body_len;
    }
}

void out_frame(uint8_t type, uint32_t id, const void *payload, size_t len)
{
    out_frame2(type, id, payload, len, NULL, 0);
}

void out_output(uint8_t type, uint32_t id, uint64_t offset, const void *bytes, size_t len)
{
    uint8_t head[WALDO_HAND_OUT_HEADER_LEN];

    put_u64(head, offset);
    out_frame2(type, id, head, sizeof head, bytes, len);
}

void out_done(uint32_t id, int err, uint8_t where, uint8_t flags, uint64_t value)
{
    uint8_t payload[WALDO_HAND_DONE_LEN];

    done_encode(payload, err, where, flags, value);
    out_frame(WALDO_HAND_DONE, id, payload, sizeof payload);
}

bool out_flush(void)
{
    if (is_one_shot) {
        broken = broken || !one_shot_put(queue + queue_start, out_pending());
        queue_start = queue_end;
    }
    while (!broken && queue_start < queue_end) {
        ssize_t n = write(out_fd, queue + queue_start, out_pending());

        if (n > 0) {
            queue_start += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            break;
        } else if (n < 0 && errno != EINTR) {
            broken = true;
        }
    }
    if (queue_start == queue_end) {
        queue_start = queue_end = 0;
    }
    return !broken;
}
