#include "wire.h"

#include <string.h>

uint16_t get_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t get_u64(const uint8_t *p)
{
    return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

void put_u32(uint8_t *p, uint32_t v)
{
    put_u16(p, (uint16_t)v);
    put_u16(p + 2, (uint16_t)(v >> 16));
}

void put_u64(uint8_t *p, uint64_t v)
{
    put_u32(p, (uint32_t)v);
    put_u32(p + 4, (uint32_t)(v >> 32));
}

void put_header(uint8_t *p, size_t len, uint8_t type, uint32_t id)
{
    put_u32(p, (uint32_t)len);
    p[4] = type;
    put_u32(p + 5, id);
}

/* Moves the unread rest to the front only when a whole frame would not fit behind it. */
uint8_t *inbuf_space(struct inbuf *in, size_t *ret_room)
{
    if (in->start == in->end) {
        in->start = in->end = 0;
    } else if (INBUF_CAP - in->start < WALDO_HAND_HEADER_LEN + WALDO_HAND_PAYLOAD_MAX) {
        memmove(in->bytes, in->bytes + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
    *ret_room = INBUF_CAP - in->end;
    return in->bytes + in->end;
}

void inbuf_added(struct inbuf *in, size_t n)
{
    in->end += n;
}

bool inbuf_partial(const struct inbuf *in)
{
    return in->start != in->end;
}

int inbuf_next(struct inbuf *in, struct frame *ret_frame)
{
    const uint8_t *p = in->bytes + in->start;
    size_t have = in->end - in->start;
    uint32_t len;

    if (have < 4) {
        return 0;
    }
    len = get_u32(p);
    if (len > WALDO_HAND_PAYLOAD_MAX) {
        return -1;
    }
    if (have < WALDO_HAND_HEADER_LEN + (size_t)len) {
        return 0;
    }
    ret_frame->len = len;
    ret_frame->type = p[4];
    ret_frame->id = get_u32(p + 5);
    ret_frame->payload = p + WALDO_HAND_HEADER_LEN;
    in->start += WALDO_HAND_HEADER_LEN + len;
    return 1;
}

void fields_init(struct fields *it, const struct frame *frame)
{
    it->at = frame->payload;
    it->end = frame->payload + frame->len;
}

int fields_next(struct fields *it, struct field *ret_field)
{
    size_t left = (size_t)(it->end - it->at);

    if (left == 0) {
        return 0;
    }
    if (left < WALDO_HAND_FIELD_HEADER_LEN) {
        return -1;
    }
    ret_field->tag = get_u16(it->at);
    ret_field->len = get_u32(it->at + 2);
    ret_field->ptr = it->at + WALDO_HAND_FIELD_HEADER_LEN;
    if (ret_field->len > left - WALDO_HAND_FIELD_HEADER_LEN) {
        return -1;
    }
    it->at = ret_field->ptr + ret_field->len;
    return 1;
}

bool field_u32(const struct field *field, uint32_t *ret_value)
{
    if (field->len != 4) {
        return false;
    }
    *ret_value = get_u32(field->ptr);
    return true;
}

bool field_u64(const struct field *field, uint64_t *ret_value)
{
    if (field->len != 8) {
        return false;
    }
    *ret_value = get_u64(field->ptr);
    return true;
}

bool field_has_nul(const struct field *field)
{
    for (size_t i = 0; i < field->len; i++) {
        if (field->ptr[i] == 0) {
            return true;
        }
    }
    return false;
}

bool hello_decode(const struct frame *frame, struct hello *ret_hello)
{
    const uint8_t *p = frame->payload;

    if (frame->len < WALDO_HAND_HELLO_LEN || memcmp(p, WALDO_HAND_MAGIC, 4) != 0) {
        return false;
    }
    ret_hello->version = get_u16(p + 4);
    ret_hello->arch = get_u16(p + 6);
    ret_hello->features = get_u64(p + 8);
    memcpy(ret_hello->nonce, p + 16, WALDO_HAND_NONCE_LEN);
    ret_hello->pid = get_u32(p + 32);
    ret_hello->uid = get_u32(p + 36);
    ret_hello->max_payload = get_u32(p + 40);
    ret_hello->max_jobs = get_u32(p + 44);
    ret_hello->release = get_u32(p + 48);
    return true;
}

void hello_encode(uint8_t out[WALDO_HAND_HELLO_LEN], const struct hello *hello)
{
    memset(out, 0, WALDO_HAND_HELLO_LEN);
    memcpy(out, WALDO_HAND_MAGIC, 4);
    put_u16(out + 4, hello->version);
    put_u16(out + 6, hello->arch);
    put_u64(out + 8, hello->features);
    memcpy(out + 16, hello->nonce, WALDO_HAND_NONCE_LEN);
    put_u32(out + 32, hello->pid);
    put_u32(out + 36, hello->uid);
    put_u32(out + 40, hello->max_payload);
    put_u32(out + 44, hello->max_jobs);
    put_u32(out + 48, hello->release);
}

void exit_encode(uint8_t out[WALDO_HAND_EXIT_LEN], const struct exit_info *info)
{
    const uint64_t words[] = {
        info->total[0],     info->total[1], info->sent[0], info->sent[1],   info->captured,
        info->capture_lost, info->wall_ns,  info->user_us, info->system_us, info->max_rss_kb,
    };

    memset(out, 0, WALDO_HAND_EXIT_LEN);
    out[0] = info->how;
    put_u32(out + 4, (uint32_t)info->value);
    put_u32(out + 8, info->flags);
    put_u32(out + 12, (uint32_t)info->capture_errno);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        put_u64(out + 16 + 8 * i, words[i]);
    }
}

void job_encode(uint8_t out[WALDO_HAND_JOB_LEN], uint32_t job, uint64_t total, uint64_t oldest,
                const struct exit_info *exit)
{
    memset(out, 0, WALDO_HAND_JOB_LEN);
    put_u32(out, job);
    out[4] = exit == NULL ? WALDO_HAND_STATE_RUNNING : WALDO_HAND_STATE_ENDED;
    put_u64(out + 8, total);
    put_u64(out + 16, oldest);
    if (exit != NULL) {
        exit_encode(out + WALDO_HAND_JOB_LEN - WALDO_HAND_EXIT_LEN, exit);
    }
}

void done_encode(uint8_t out[WALDO_HAND_DONE_LEN], int32_t err, uint8_t where, uint8_t flags,
                 uint64_t value)
{
    memset(out, 0, WALDO_HAND_DONE_LEN);
    put_u32(out, (uint32_t)err);
    out[4] = where;
    out[5] = flags;
    put_u64(out + 8, value);
}

void start_error_encode(uint8_t out[WALDO_HAND_START_ERROR_LEN], int32_t err, uint8_t phase)
{
    memset(out, 0, WALDO_HAND_START_ERROR_LEN);
    put_u32(out, (uint32_t)err);
    out[4] = phase;
}

size_t entry_encode(uint8_t *out, size_t room, const struct entry *entry)
{
    size_t need = WALDO_HAND_ENTRY_LEN + entry->name_len + entry->target_len;

    if (need > room) {
        return 0;
    }
    memset(out, 0, WALDO_HAND_ENTRY_LEN);
    out[0] = entry->kind;
    put_u16(out + 2, (uint16_t)entry->name_len);
    put_u32(out + 4, entry->mode);
    put_u64(out + 8, entry->size);
    put_u64(out + 16, (uint64_t)entry->mtime_s);
    put_u32(out + 24, entry->mtime_ns);
    put_u32(out + 28, entry->uid);
    put_u32(out + 32, entry->gid);
    put_u32(out + 36, (uint32_t)entry->target_len);
    if (entry->name_len > 0) {
        memcpy(out + WALDO_HAND_ENTRY_LEN, entry->name, entry->name_len);
    }
    if (entry->target_len > 0) {
        memcpy(out + WALDO_HAND_ENTRY_LEN + entry->name_len, entry->target, entry->target_len);
    }
    return need;
}
