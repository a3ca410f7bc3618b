#include "codec/hand.h"

#include "base/alloc.h"

#define STDIN_CHUNK (64u * 1024u)
#define DATA_CHUNK  WALDO_HAND_PAYLOAD_MAX

static void put_le(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(value >> 8 * i);
    }
}

/* Starts a frame; its length is put in by end_frame. */
static size_t begin_frame(waldo__buf *out, uint8_t type, uint32_t id)
{
    size_t start = out->len;
    uint8_t header[WALDO_HAND_HEADER_LEN] = { 0 };

    header[4] = type;
    put_le(header + 5, id, 4);
    waldo__buf_add(out, header, sizeof header);
    return start;
}

/* Ends a frame, or takes all back that was appended since start. */
static waldo_status end_frame(waldo__buf *out, size_t start, waldo_status status)
{
    size_t len;

    if (out->status != WALDO_OK) {
        return out->status;
    }
    len = out->len - start - WALDO_HAND_HEADER_LEN;
    if (status == WALDO_OK && len > WALDO_HAND_PAYLOAD_MAX) {
        status = WALDO_ETOOBIG;
    }
    if (status != WALDO_OK) {
        waldo__buf_truncate(out, out->len - start);
        return status;
    }
    put_le((uint8_t *)out->ptr + start, len, 4);
    return WALDO_OK;
}

static waldo_status put_frame(waldo__buf *out, uint8_t type, uint32_t id, const void *payload,
                              size_t len)
{
    size_t start = begin_frame(out, type, id);

    waldo__buf_add(out, payload, len);
    return end_frame(out, start, WALDO_OK);
}

static waldo_status put_id_frame(waldo__buf *out, uint8_t type, uint32_t id, const void *payload,
                                 size_t len)
{
    return id == 0 ? WALDO_EINVAL : put_frame(out, type, id, payload, len);
}

/* Bytes of any length as frames of at most chunk bytes. */
static waldo_status put_chunks(waldo__buf *out, uint8_t type, uint32_t id, waldo_str bytes,
                               size_t chunk)
{
    waldo_status status = id == 0 ? WALDO_EINVAL : WALDO_OK;

    while (status == WALDO_OK && bytes.len > 0) {
        size_t len = bytes.len < chunk ? bytes.len : chunk;

        status = put_frame(out, type, id, bytes.ptr, len);
        bytes.ptr += len;
        bytes.len -= len;
    }
    return status;
}

static void put_field(waldo__buf *out, uint16_t tag, const void *value, size_t len)
{
    uint8_t header[WALDO_HAND_FIELD_HEADER_LEN];

    put_le(header, tag, 2);
    put_le(header + 2, len, 4);
    waldo__buf_add(out, header, sizeof header);
    waldo__buf_add(out, value, len);
}

static void put_u32(waldo__buf *out, uint16_t tag, uint32_t value)
{
    uint8_t bytes[4];

    put_le(bytes, value, sizeof bytes);
    put_field(out, tag, bytes, sizeof bytes);
}

static void put_u64(waldo__buf *out, uint16_t tag, uint64_t value)
{
    uint8_t bytes[8];

    put_le(bytes, value, sizeof bytes);
    put_field(out, tag, bytes, sizeof bytes);
}

static void put_size_bytes(uint8_t out[4], uint16_t rows, uint16_t columns)
{
    put_le(out, rows, 2);
    put_le(out + 2, columns, 2);
}

/* A u64 whose absence means "no bound". */
static void put_bound(waldo__buf *out, uint16_t tag, uint64_t value)
{
    if (value != UINT64_MAX) {
        put_u64(out, tag, value);
    }
}

/* A text that may hold anything but NUL. A text above one frame is not even copied. */
static waldo_status put_text(waldo__buf *out, uint16_t tag, waldo_str text)
{
    if (text.len > WALDO_HAND_PAYLOAD_MAX) {
        return WALDO_ETOOBIG;
    }
    if (text.len > 0 && memchr(text.ptr, 0, text.len) != NULL) {
        return WALDO_EINVAL;
    }
    put_field(out, tag, text.ptr, text.len);
    return WALDO_OK;
}

/* A path, left out when it is empty. */
static waldo_status put_path(waldo__buf *out, uint16_t tag, waldo_str path)
{
    if (path.len == 0) {
        return WALDO_OK;
    }
    return path.len > WALDO_HAND_PATH_MAX ? WALDO_ETOOBIG : put_text(out, tag, path);
}

static waldo_status put_texts(waldo__buf *out, uint16_t tag, const waldo_str *texts, size_t count)
{
    waldo_status status = count > WALDO_HAND_ARGS_MAX ? WALDO_ETOOBIG : WALDO_OK;

    for (size_t i = 0; status == WALDO_OK && i < count; i++) {
        status = put_text(out, tag, texts[i]);
    }
    return status;
}

waldo_status waldo__hand_put_hello(waldo__buf *out, const uint8_t nonce[WALDO_HAND_NONCE_LEN])
{
    uint8_t payload[WALDO_HAND_HELLO_LEN] = { 0 };

    memcpy(payload, WALDO_HAND_MAGIC, 4);
    put_le(payload + 4, WALDO_HAND_VERSION, 2);
    memcpy(payload + 16, nonce, WALDO_HAND_NONCE_LEN);
    put_le(payload + 40, WALDO_HAND_PAYLOAD_MAX, 4);
    return put_frame(out, WALDO_HAND_HELLO, 0, payload, sizeof payload);
}

waldo_status waldo__hand_put_run(waldo__buf *out, uint32_t id, const waldo__hand_run *run)
{
    uint8_t size[4];
    waldo_status status;
    size_t start;

    if (id == 0 || (run->arg_count == 0 && run->script.ptr == NULL) ||
        run->tail[0] > WALDO_HAND_TAIL_MAX || run->tail[1] > WALDO_HAND_TAIL_MAX ||
        run->label.len > WALDO_HAND_LABEL_MAX ||
        (run->label.len > 0 && (run->flags & WALDO_HAND_RUN_KEEP) == 0)) {
        return WALDO_EINVAL;
    }
    start = begin_frame(out, WALDO_HAND_RUN, id);
    if (run->flags != 0) {
        put_u32(out, WALDO_HAND_F_FLAGS, run->flags);
    }
    status = put_texts(out, WALDO_HAND_F_ARG, run->args, run->arg_count);
    if (status == WALDO_OK && run->script.ptr != NULL) {
        status = put_text(out, WALDO_HAND_F_SCRIPT, run->script);
    }
    if (status == WALDO_OK) {
        status = put_path(out, WALDO_HAND_F_CWD, run->cwd);
    }
    if (status == WALDO_OK) {
        status = put_texts(out, WALDO_HAND_F_ENV, run->envs, run->env_count);
    }
    if (status == WALDO_OK) {
        status = put_path(out, WALDO_HAND_F_CAPTURE_PATH, run->capture_path);
    }
    if (run->timeout_ms != 0) {
        put_u32(out, WALDO_HAND_F_TIMEOUT_MS, run->timeout_ms);
    }
    if (run->has_grace) {
        put_u32(out, WALDO_HAND_F_GRACE_MS, run->grace_ms);
    }
    for (uint16_t i = 0; i < 2; i++) {
        put_bound(out, (uint16_t)(WALDO_HAND_F_OUT_HEAD + 2 * i), run->head[i]);
        if (run->tail[i] != 0) {
            put_u32(out, (uint16_t)(WALDO_HAND_F_OUT_TAIL + 2 * i), run->tail[i]);
        }
    }
    put_bound(out, WALDO_HAND_F_CAPTURE_MAX, run->capture_max);
    put_bound(out, WALDO_HAND_F_CREDIT, run->credit);
    if (run->rows != 0 || run->columns != 0) {
        put_size_bytes(size, run->rows, run->columns);
        put_field(out, WALDO_HAND_F_PTY, size, sizeof size);
    }
    if (run->label.len > 0) {
        put_field(out, WALDO_HAND_F_LABEL, run->label.ptr, run->label.len);
    }
    return end_frame(out, start, status);
}

waldo_status waldo__hand_put_stdin(waldo__buf *out, uint32_t id, waldo_str bytes)
{
    return put_chunks(out, WALDO_HAND_STDIN, id, bytes, STDIN_CHUNK);
}

waldo_status waldo__hand_put_stdin_eof(waldo__buf *out, uint32_t id)
{
    return put_id_frame(out, WALDO_HAND_STDIN_EOF, id, NULL, 0);
}

waldo_status waldo__hand_put_signal(waldo__buf *out, uint32_t id, int sig,
                                    enum waldo_hand_scope scope)
{
    uint8_t payload[5];

    if (sig < 1 || sig > 64) {
        return WALDO_EINVAL;
    }
    put_le(payload, (uint32_t)sig, 4);
    payload[4] = (uint8_t)scope;
    return put_id_frame(out, WALDO_HAND_SIGNAL, id, payload, sizeof payload);
}

waldo_status waldo__hand_put_credit(waldo__buf *out, uint32_t id, uint64_t bytes)
{
    uint8_t payload[8];

    put_le(payload, bytes, sizeof payload);
    return put_id_frame(out, WALDO_HAND_CREDIT, id, payload, sizeof payload);
}

waldo_status waldo__hand_put_cancel(waldo__buf *out, uint32_t id, uint32_t grace_ms)
{
    uint8_t payload[4];

    put_le(payload, grace_ms, sizeof payload);
    return put_id_frame(out, WALDO_HAND_CANCEL, id, payload, sizeof payload);
}

waldo_status waldo__hand_put_resize(waldo__buf *out, uint32_t id, uint16_t rows, uint16_t columns)
{
    uint8_t payload[4];

    put_size_bytes(payload, rows, columns);
    return put_id_frame(out, WALDO_HAND_RESIZE, id, payload, sizeof payload);
}

waldo_status waldo__hand_put_attach(waldo__buf *out, uint32_t id, uint32_t job, uint64_t offset,
                                    uint64_t credit)
{
    uint8_t payload[WALDO_HAND_ATTACH_LEN] = { 0 };

    put_le(payload, job, 4);
    put_le(payload + 8, offset, 8);
    put_le(payload + 16, credit, 8);
    return put_id_frame(out, WALDO_HAND_JOB_ATTACH, id, payload, sizeof payload);
}

waldo_status waldo__hand_put_forget(waldo__buf *out, uint32_t job)
{
    return put_id_frame(out, WALDO_HAND_JOB_FORGET, job, NULL, 0);
}

waldo_status waldo__hand_put_job_list(waldo__buf *out, uint32_t id)
{
    return put_id_frame(out, WALDO_HAND_JOB_LIST, id, NULL, 0);
}

waldo_status waldo__hand_put_lease(waldo__buf *out, uint32_t id, uint32_t ms)
{
    uint8_t payload[WALDO_HAND_LEASE_LEN];

    put_le(payload, ms, sizeof payload);
    return ms == 0 ? WALDO_EINVAL
                   : put_id_frame(out, WALDO_HAND_LEASE, id, payload, sizeof payload);
}

waldo_status waldo__hand_put_ping(waldo__buf *out, uint32_t id, waldo_str bytes)
{
    if (bytes.len > WALDO_HAND_PING_MAX) {
        return WALDO_ETOOBIG;
    }
    return put_frame(out, WALDO_HAND_PING, id, bytes.ptr, bytes.len);
}

waldo_status waldo__hand_put_shutdown(waldo__buf *out, uint32_t id)
{
    return put_frame(out, WALDO_HAND_SHUTDOWN, id, NULL, 0);
}

waldo_status waldo__hand_put_file(waldo__buf *out, enum waldo_hand_request type, uint32_t id,
                                  const waldo__hand_file *file)
{
    waldo_status status;
    size_t start;

    if (id == 0 || file->path.len == 0 || (type == WALDO_HAND_RENAME && file->to.len == 0)) {
        return WALDO_EINVAL;
    }
    start = begin_frame(out, (uint8_t)type, id);
    status = put_path(out, WALDO_HAND_F_PATH, file->path);
    if (status == WALDO_OK) {
        status = put_path(out, WALDO_HAND_F_ROOT, file->root);
    }
    if (status == WALDO_OK) {
        status = put_path(out, WALDO_HAND_F_TO, file->to);
    }
    if (file->flags != 0) {
        put_u32(out, WALDO_HAND_F_FLAGS, file->flags);
    }
    if (file->has_mode) {
        put_u32(out, WALDO_HAND_F_MODE, file->mode);
    }
    if (file->offset != 0) {
        put_u64(out, WALDO_HAND_F_OFFSET, file->offset);
    }
    put_bound(out, WALDO_HAND_F_LIMIT, file->limit);
    return end_frame(out, start, status);
}

waldo_status waldo__hand_put_write_data(waldo__buf *out, uint32_t id, waldo_str bytes)
{
    return put_chunks(out, WALDO_HAND_WRITE_DATA, id, bytes, DATA_CHUNK);
}

waldo_status waldo__hand_put_write_end(waldo__buf *out, uint32_t id)
{
    return put_id_frame(out, WALDO_HAND_WRITE_END, id, NULL, 0);
}

waldo_status waldo__hand_put_keeper_kill(waldo__buf *out)
{
    return put_frame(out, WALDO_HAND_KEEPER_KILL, 0, NULL, 0);
}
