#include "loop/sendq.h"

#include <sys/socket.h>

enum { KEPT = 64 * 1024 }; /* memory that an empty queue keeps */

void waldo__sendq_free(waldo__sendq *queue)
{
    waldo__buf_free(&queue->out);
    queue->sent = 0;
}

size_t waldo__sendq_left(const waldo__sendq *queue)
{
    return queue->out.len - queue->sent;
}

waldo_status waldo__sendq_add(waldo__sendq *queue, waldo_str bytes)
{
    waldo_status status;

    if (bytes.len > queue->out.max - queue->out.len) {
        return WALDO_EBUSY; /* asked before, since a buffer's failure sticks */
    }
    status = waldo__buf_add_str(&queue->out, bytes);
    queue->out.status = WALDO_OK;
    return status;
}

int waldo__sendq_took(waldo__sendq *queue, size_t len)
{
    waldo__buf *out = &queue->out;

    queue->sent += len;
    if (queue->sent == out->len) {
        if (out->cap > KEPT) {
            waldo__buf_free(out);
        } else {
            waldo__buf_clear(out);
        }
        queue->sent = 0;
        return 1;
    }
    if (queue->sent > out->max / 8) {
        waldo__buf_consume(out, queue->sent);
        queue->sent = 0;
    }
    return 0;
}

int waldo__sendq_flush(waldo__sendq *queue, int fd)
{
    size_t left = waldo__sendq_left(queue);
    size_t took = 0;

    while (took < left) {
        ssize_t len =
            send(fd, queue->out.ptr + queue->sent + took, left - took, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0) {
            break;
        }
        took += (size_t)len;
    }
    return left > 0 && waldo__sendq_took(queue, took);
}
