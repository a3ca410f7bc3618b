/* What the parts of server mode share: the output queue and the calls between them. */
#ifndef WALDO_HAND_SERVER_H
#define WALDO_HAND_SERVER_H

#include <poll.h>
#include <sys/types.h>

#include "wire.h"

/* More unread output than this: no further OUT, ERR, DATA; no further input. */
#define OUT_DATA_MARK  (256u * 1024u)
#define OUT_INPUT_MARK (1024u * 1024u)

/* durable: of a hand that outlives its sessions; NULL: one on stdin and stdout, or a one-shot. */
struct durable;
int server_main(const struct durable *durable);
/* 0, or the code of an ERROR: what is wrong with a first frame. */
int check_hello(const struct frame *frame);

/* Output queue. */
void out_reset(int fd); /* forgets what is in it */
size_t out_pending(void);
bool out_room_for_data(void);
void out_frame(uint8_t type, uint32_t id, const void *payload, size_t len);
/* A frame whose payload is two parts. */
void out_frame2(uint8_t type, uint32_t id, const void *head, size_t head_len, const void *body,
                size_t body_len);
/* OUT or ERR. */
void out_output(uint8_t type, uint32_t id, uint64_t offset, const void *bytes, size_t len);
void out_done(uint32_t id, int err, uint8_t where, uint8_t flags, uint64_t value);
/* False if the output is broken. */
bool out_flush(void);

/* Jobs. An id is in use as long as anything of its job exists. */
bool jobs_has(uint32_t id);
/* Each returns 0 or the code of an ERROR. */
int jobs_run(const struct frame *frame);
int jobs_stdin(const struct frame *frame);
int jobs_stdin_eof(const struct frame *frame);
int jobs_signal(const struct frame *frame);
int jobs_resize(const struct frame *frame);
int jobs_credit(const struct frame *frame);
int jobs_forget(const struct frame *frame);
int jobs_list(const struct frame *frame);
int kept_attach(const struct frame *frame);
/* True if a command is read under the id. */
bool kept_cancel(uint32_t id);
/* True if the id is a job's. */
bool jobs_cancel(uint32_t id, uint32_t grace_ms);
void jobs_cancel_all(void);
/* The session is over: kept commands go on unseen, the others are killed. */
void jobs_let_go(void);
/* Kills the job parents that still live; their processes become ours and are killed as well. */
void jobs_abandon(void);
size_t jobs_running(void); /* without EXIT so far */
size_t jobs_alive(void);   /* whose job parent lives */
#define JOBS_FDS_MAX (WALDO_HAND_SLOTS_MAX * 4u)
size_t jobs_poll(struct pollfd *fds);
void jobs_ready(const struct pollfd *fds, size_t count);
/* Moves on what needs no descriptor; returns ms until it must be called again, -1 for never. */
int64_t jobs_step(void);

/* Files. */
bool files_has(uint32_t id);
int files_request(const struct frame *frame);
void files_write_data(const struct frame *frame);
void files_write_end(uint32_t id);
bool files_cancel(uint32_t id);
/* Makes a chunk of DATA for each READ and LIST while there is room; true if there were any. */
bool files_step(void);
void files_end(void);

/* One-shot mode. */
extern bool is_one_shot;
int one_shot_main(int count, char **args);
int read_main(char **args);
/* Decodes base64 in place; the length, or -1. What is not whole yet waits for the next call. */
ssize_t one_shot_decode(uint8_t *bytes, size_t len);
bool one_shot_put(const uint8_t *bytes, size_t len); /* false if the output is broken */
bool one_shot_minds_output(void);                    /* a broken output ends the request */

/* Durable mode: who attaches, and whose turn it is. */
struct durable {
    const char *address;
    uint32_t lease_ms;
};

#define DURABLE_FDS 3u
bool durable_open(const struct durable *durable);
void durable_close(void); /* nobody may attach any more */
void durable_poll(struct pollfd fds[DURABLE_FDS]);
/* 0 or why the session is over: the code of an ERROR, or -1. */
int durable_ready(const struct pollfd fds[DURABLE_FDS]);
/* Lets go of the session's streams; then those of a next one, if somebody has greeted already. */
bool durable_next(struct inbuf *input, int *ret_in, int *ret_out);
/* Returns ms until it must be called again, -1 for never; 0: the lease has run out. */
int64_t durable_step(void);
void durable_set_lease(uint32_t ms);
int attach_main(const char *address);

#endif
