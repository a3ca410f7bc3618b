/* Frames of the hand as plain memory: no I/O, so that tests build it natively. */
#ifndef WALDO_HAND_WIRE_H
#define WALDO_HAND_WIRE_H

#include <stdbool.h>

#include "hand/protocol.h"

struct frame {
    uint8_t type;
    uint32_t id;
    uint32_t len;
    const uint8_t *payload;
};

/* Input buffer: room for one whole frame wherever the last one ended. */
#define INBUF_CAP (2u * (WALDO_HAND_HEADER_LEN + WALDO_HAND_PAYLOAD_MAX))
struct inbuf {
    size_t start, end;
    uint8_t bytes[INBUF_CAP];
};

struct field {
    uint16_t tag;
    uint32_t len;
    const uint8_t *ptr;
};

struct fields {
    const uint8_t *at, *end;
};

struct hello {
    uint16_t version, arch;
    uint64_t features;
    uint8_t nonce[WALDO_HAND_NONCE_LEN];
    uint32_t pid, uid, max_payload, max_jobs, release;
};

struct exit_info {
    uint8_t how;
    int32_t value;
    uint32_t flags;
    int32_t capture_errno;
    uint64_t total[2], sent[2];
    uint64_t captured, capture_lost;
    uint64_t wall_ns, user_us, system_us, max_rss_kb;
};

struct entry {
    uint8_t kind;
    uint32_t mode;
    uint64_t size;
    int64_t mtime_s;
    uint32_t mtime_ns, uid, gid;
    const char *name, *target;
    size_t name_len, target_len;
};

uint16_t get_u16(const uint8_t *p);
uint32_t get_u32(const uint8_t *p);
uint64_t get_u64(const uint8_t *p);
void put_u16(uint8_t *p, uint16_t v);
void put_u32(uint8_t *p, uint32_t v);
void put_u64(uint8_t *p, uint64_t v);

void put_header(uint8_t *p, size_t len, uint8_t type, uint32_t id);

uint8_t *inbuf_space(struct inbuf *in, size_t *ret_room);
void inbuf_added(struct inbuf *in, size_t n);
bool inbuf_partial(const struct inbuf *in);
/* 1: a frame, its payload borrowed until inbuf_space; 0: more is needed; -1: too long. */
int inbuf_next(struct inbuf *in, struct frame *ret_frame);

void fields_init(struct fields *it, const struct frame *frame);
/* 1: a field; 0: the end; -1: it overruns the payload. */
int fields_next(struct fields *it, struct field *ret_field);
bool field_u32(const struct field *field, uint32_t *ret_value);
bool field_u64(const struct field *field, uint64_t *ret_value);
bool field_has_nul(const struct field *field);

bool hello_decode(const struct frame *frame, struct hello *ret_hello);
void hello_encode(uint8_t out[WALDO_HAND_HELLO_LEN], const struct hello *hello);
void exit_encode(uint8_t out[WALDO_HAND_EXIT_LEN], const struct exit_info *info);
/* exit: NULL while it runs. */
void job_encode(uint8_t out[WALDO_HAND_JOB_LEN], uint32_t job, uint64_t total, uint64_t oldest,
                const struct exit_info *exit);
void done_encode(uint8_t out[WALDO_HAND_DONE_LEN], int32_t err, uint8_t where, uint8_t flags,
                 uint64_t value);
void start_error_encode(uint8_t out[WALDO_HAND_START_ERROR_LEN], int32_t err, uint8_t phase);
/* Returns the bytes written, 0 if it does not fit. */
size_t entry_encode(uint8_t *out, size_t room, const struct entry *entry);

#endif
