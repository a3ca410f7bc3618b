#include "codec/connect.h"

#include "base/alloc.h"

enum { LAST = 2 }; /* flag; the other one there is, 1, says that a message is compressed */

void waldo__connect_init(waldo__connect *connect, size_t max_message)
{
    *connect = (waldo__connect){ .message = WALDO__BUF_INIT(max_message) };
}

void waldo__connect_free(waldo__connect *connect)
{
    waldo__buf_free(&connect->message);
}

/* Flags, then the length in network order. */
static waldo_status begin(waldo__connect *connect)
{
    const unsigned char *head = connect->head;

    connect->len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if ((head[0] & ~(unsigned)LAST) != 0) {
        return WALDO_EPROTO;
    }
    return connect->len <= connect->message.max ? WALDO_OK : WALDO_ETOOBIG;
}

static waldo_status give(waldo__connect *connect, waldo_str message, waldo__connect_fn fn,
                         void *userdata)
{
    connect->head_len = 0;
    connect->ended = connect->head[0] == LAST;
    return fn(userdata, connect->ended, message);
}

waldo_status waldo__connect_feed(waldo__connect *connect, waldo_str bytes, waldo__connect_fn fn,
                                 void *userdata)
{
    waldo__buf *kept = &connect->message;
    waldo_status status = WALDO_OK;

    while (status == WALDO_OK && bytes.len > 0) {
        size_t len = 1;

        if (connect->ended) {
            return WALDO_EPROTO;
        }
        if (connect->head_len < sizeof connect->head) {
            connect->head[connect->head_len++] = (unsigned char)bytes.ptr[0];
            if (connect->head_len == sizeof connect->head) {
                status = begin(connect);
            }
            if (status == WALDO_OK && connect->head_len == sizeof connect->head &&
                connect->len == 0) {
                status = give(connect, WALDO__S(""), fn, userdata);
            }
        } else if (kept->len == 0 && bytes.len >= connect->len) { /* in one piece: not copied */
            len = connect->len;
            status = give(connect, waldo__slice(bytes.ptr, len), fn, userdata);
        } else {
            len = connect->len - kept->len;
            len = len < bytes.len ? len : bytes.len;
            status = waldo__buf_add(kept, bytes.ptr, len);
            if (status == WALDO_OK && kept->len == connect->len) {
                status = give(connect, waldo__buf_str(kept), fn, userdata);
                waldo__buf_clear(kept);
            }
        }
        bytes = waldo__slice(bytes.ptr + len, bytes.len - len);
    }
    return status;
}

int waldo__connect_ended(const waldo__connect *connect)
{
    return connect->ended && connect->head_len == 0;
}

waldo_status waldo__connect_put(waldo__buf *out, waldo_str message)
{
    const unsigned char head[5] = { 0, (unsigned char)(message.len >> 24),
                                    (unsigned char)(message.len >> 16),
                                    (unsigned char)(message.len >> 8), (unsigned char)message.len };

    waldo__buf_add(out, head, sizeof head);
    return waldo__buf_add_str(out, message);
}

/* Connect protocol reference, "Error codes". */
static const struct {
    char code[sizeof("failed_precondition")]; /* the longest */
    short status;
} codes[] = {
    { "canceled", WALDO_ECANCELED },
    { "unknown", WALDO_EPROVIDER },
    { "invalid_argument", WALDO_EINVAL },
    { "deadline_exceeded", WALDO_ETIMEDOUT },
    { "not_found", WALDO_ENOTFOUND },
    { "already_exists", WALDO_EEXISTS },
    { "permission_denied", WALDO_EACCESS },
    { "resource_exhausted", WALDO_ERATE },
    { "failed_precondition", WALDO_EINVAL },
    { "aborted", WALDO_EBUSY },
    { "out_of_range", WALDO_EINVAL },
    { "unimplemented", WALDO_ENOTSUP },
    { "internal", WALDO_EPROVIDER },
    { "unavailable", WALDO_EUNAVAILABLE },
    { "data_loss", WALDO_EIO },
    { "unauthenticated", WALDO_EAUTH },
};

waldo_status waldo__connect_status(waldo_str code, waldo_status otherwise)
{
    for (size_t i = 0; i < WALDO__COUNT(codes); i++) {
        if (waldo__str_is(code, codes[i].code)) {
            return codes[i].status;
        }
    }
    return otherwise;
}
