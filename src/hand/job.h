/* One command on the server's side: its pipes, what is kept of its output, its stdin. */
#ifndef WALDO_HAND_JOB_H
#define WALDO_HAND_JOB_H

#include <sys/types.h>

#include "parent.h"
#include "server.h"

#define NOTES_MAX 512u

enum job_state {
    JOB_FREE,
    JOB_STARTING, /* no STARTED yet */
    JOB_RUNNING,
    JOB_DRAINING, /* the leader ended; the pipes may hold more */
    JOB_FLUSHING, /* tails are being sent */
    JOB_FINISHED, /* EXIT was sent; leftovers may live */
};

/* What of a command the host of this session has been told. */
enum told {
    TOLD_NOTHING, /* it was started by an earlier session */
    TOLD_LISTED,  /* so it was, but JOB_LIST has named it */
    TOLD_ALL,
};

/* Last bytes of a stream. */
struct tail {
    uint8_t *ring;
    uint32_t cap, used, start;
};

/* Order of the bytes that went to the tails. */
struct note {
    uint64_t len;
    int stream;
};

struct stream {
    int fd;
    uint64_t total, sent, head;
    uint64_t owed; /* bytes that were in the pipe when the leader ended */
    struct tail tail;
};

struct job {
    enum job_state state;
    uint32_t id, flags;
    enum told told;
    int control;
    pid_t parent;
    struct stream streams[2];
    bool has_credit;
    uint64_t credit;
    bool alone;          /* no process of it is left: its outputs end with what is in them */
    bool hurry;          /* EXIT must not wait for CREDIT: timed out or cancelled */
    uint64_t overdue_ms; /* 0, or when a job parent that has not spoken is taken for lost */
    uint32_t grace_ms, overdue_reason;
    uint64_t drain_end_ms;
    struct exit_info exit;
    uint32_t ended; /* when, counted in ends */

    /* orders that the job parent had no room for */
    uint64_t waiting_signals[WALDO_HAND_SCOPE_TREE + 1]; /* by scope; bit 0 is signal 1 */
    bool waiting_cancel;
    uint32_t waiting_grace_ms;

    /* RUN_KEEP: who reads it, 0 for nobody; credit UINT64_MAX is no bound */
    uint32_t reader;
    uint64_t reader_at, reader_credit;

    struct note notes[NOTES_MAX];
    size_t note_start, note_count;

    int capture_fd;
    uint64_t capture_max;
    char capture_path[WALDO_HAND_PATH_MAX + 1];

    int in;
    bool in_ending;
    uint8_t *in_queue;
    size_t in_start, in_end;
    size_t in_owed, in_taken; /* not acknowledged; of those taken */
    size_t in_stale;          /* of earlier sessions, before those */

    uint8_t label_len, label[WALDO_HAND_LABEL_MAX];
};

static inline bool is_terminal(const struct job *job)
{
    return (job->flags & WALDO_HAND_RUN_PTY) != 0;
}

static inline bool is_kept(const struct job *job)
{
    return (job->flags & WALDO_HAND_RUN_KEEP) != 0;
}

/* jobs.c; NULL: none */
struct job *find_job(uint32_t id);
struct job *find_reader(uint32_t id); /* the job that is read under an id */

/* A frame about a job under its id, unless this session's host must not hear of it. */
void job_frame(const struct job *job, uint8_t type, const void *payload, size_t len);

/* start.c: forks the job parent; 0 or an errno with its phase. */
int job_start(struct job *job, const struct run *run, uint8_t *ret_phase);

/* kept.c */
void kept_feed(struct job *job); /* sends what there is to its reader */
void kept_drop(struct job *job); /* it is one of the others from now on */

/* output.c */
void job_output_init(struct job *job, const struct run *run);
void job_output_free(struct job *job);
void drop_tail(struct tail *tail);
bool job_wants_output(const struct job *job, int stream);
void job_read_output(struct job *job, int stream);
/* Sends tails as far as there is room; true when all are sent. */
bool job_send_tails(struct job *job);

/* input.c */
bool job_wants_input(const struct job *job); /* its pipe or terminal is waited for */
int job_input(struct job *job, const uint8_t *bytes, size_t len);
void job_input_eof(struct job *job);
void job_write_input(struct job *job);
void job_acknowledge(struct job *job);
void job_input_free(struct job *job);

/* run.c: reads a RUN request; 0, or an errno with the phase, or -1: fields overrun the payload. */
int run_decode(const struct frame *frame, struct run *ret_run, uint8_t *ret_phase);

#endif
