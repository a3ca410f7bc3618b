/*
 * The library's side of the hand's protocol without I/O: requests to bytes, bytes split anywhere to
 * events. The layouts are those of docs/hand-protocol.md. Nothing that comes in is believed: every
 * length and value is checked here; which ids are open is known to the session, which checks them.
 */
#ifndef WALDO_CODEC_HAND_H
#define WALDO_CODEC_HAND_H

#include "base/buf.h"
#include "hand/protocol.h"

/*
 * Requests. Each appends whole frames to out, or nothing: EINVAL for what the
 * protocol cannot say (id 0, a NUL in a text, an empty path), ETOOBIG for a request above one
 * frame; else what the buffer says, which has failed then.
 */
typedef struct waldo__hand_run {
    uint32_t flags; /* WALDO_HAND_RUN_* */
    const waldo_str *args;
    size_t arg_count;
    waldo_str script; /* ptr NULL: none */
    waldo_str cwd;    /* empty: none */
    const waldo_str *envs;
    size_t env_count;
    uint32_t timeout_ms;
    uint32_t grace_ms;
    int has_grace;
    uint64_t head[2]; /* stdout, stderr; UINT64_MAX: no bound */
    uint32_t tail[2];
    waldo_str capture_path; /* empty: none */
    uint64_t capture_max;   /* UINT64_MAX: no bound */
    uint64_t credit;        /* UINT64_MAX: no bound */
    uint16_t rows, columns; /* with WALDO_HAND_RUN_PTY; both 0: as the hand likes */
    waldo_str label;        /* with WALDO_HAND_RUN_KEEP; empty: none */
} waldo__hand_run;

#define WALDO__HAND_RUN_INIT                                                                       \
    ((waldo__hand_run){                                                                            \
        .head = { UINT64_MAX, UINT64_MAX }, .capture_max = UINT64_MAX, .credit = UINT64_MAX })

typedef struct waldo__hand_file {
    uint32_t flags; /* WALDO_HAND_FILE_* */
    waldo_str path;
    waldo_str root; /* empty: none */
    waldo_str to;   /* RENAME */
    int has_mode;
    uint32_t mode;
    uint64_t offset;
    uint64_t limit; /* UINT64_MAX: no bound */
} waldo__hand_file;

#define WALDO__HAND_FILE_INIT ((waldo__hand_file){ .limit = UINT64_MAX })

waldo_status waldo__hand_put_hello(waldo__buf *out, const uint8_t nonce[WALDO_HAND_NONCE_LEN]);
waldo_status waldo__hand_put_run(waldo__buf *out, uint32_t id, const waldo__hand_run *run);
/* As many frames as it takes; at most WALDO_HAND_STDIN_WINDOW bytes may be unacknowledged. */
waldo_status waldo__hand_put_stdin(waldo__buf *out, uint32_t id, waldo_str bytes);
waldo_status waldo__hand_put_stdin_eof(waldo__buf *out, uint32_t id);
waldo_status waldo__hand_put_signal(waldo__buf *out, uint32_t id, int sig,
                                    enum waldo_hand_scope scope);
waldo_status waldo__hand_put_credit(waldo__buf *out, uint32_t id, uint64_t bytes);
waldo_status waldo__hand_put_cancel(waldo__buf *out, uint32_t id, uint32_t grace_ms);
waldo_status waldo__hand_put_resize(waldo__buf *out, uint32_t id, uint16_t rows, uint16_t columns);
/* Read a command that was run with WALDO_HAND_RUN_KEEP; credit UINT64_MAX: no bound. */
waldo_status waldo__hand_put_attach(waldo__buf *out, uint32_t id, uint32_t job, uint64_t offset,
                                    uint64_t credit);
waldo_status waldo__hand_put_forget(waldo__buf *out, uint32_t job);
/* Answered by a JOB for each kept command, then DONE with the highest id of a RUN so far. */
waldo_status waldo__hand_put_job_list(waldo__buf *out, uint32_t id);
/* How long a durable hand waits without a session before it ends; not 0. */
waldo_status waldo__hand_put_lease(waldo__buf *out, uint32_t id, uint32_t ms);
waldo_status waldo__hand_put_ping(waldo__buf *out, uint32_t id, waldo_str bytes);
waldo_status waldo__hand_put_shutdown(waldo__buf *out, uint32_t id);
/* READ, WRITE, STAT, LIST, MKDIR, REMOVE, RENAME. */
waldo_status waldo__hand_put_file(waldo__buf *out, enum waldo_hand_request type, uint32_t id,
                                  const waldo__hand_file *file);
/* As many frames as it takes. */
waldo_status waldo__hand_put_write_data(waldo__buf *out, uint32_t id, waldo_str bytes);
waldo_status waldo__hand_put_write_end(waldo__buf *out, uint32_t id);
waldo_status waldo__hand_put_keeper_kill(waldo__buf *out);

/* Events: one frame each; texts are borrowed during the call. */
typedef struct waldo__hand_hello {
    uint16_t version, arch;
    uint64_t features;
    uint32_t pid, uid, max_payload, max_jobs, release;
} waldo__hand_hello;

typedef struct waldo__hand_exit {
    uint8_t how;
    int32_t value; /* exit code or signal */
    uint32_t flags;
    int32_t capture_errno;
    uint64_t total[2], sent[2]; /* stdout, stderr */
    uint64_t captured, capture_lost;
    uint64_t wall_ns, user_us, system_us, max_rss_kb;
} waldo__hand_exit;

typedef struct waldo__hand_job {
    uint32_t id;
    uint8_t state;         /* enum waldo_hand_state */
    uint64_t total;        /* bytes of output so far */
    uint64_t oldest;       /* offset of the first that is still kept */
    waldo__hand_exit exit; /* where it has ended */
    waldo_str label;
} waldo__hand_job;

typedef struct waldo__hand_done {
    int32_t err;
    uint8_t where; /* enum waldo_hand_where */
    uint8_t flags;
    uint64_t value;
} waldo__hand_done;

typedef struct waldo__hand_keeper_exit {
    uint8_t how;
    int gone;
    int32_t value;
    uint32_t stderr_total;
    waldo_str stderr_text;
} waldo__hand_keeper_exit;

typedef struct waldo__hand_event {
    uint8_t type;
    uint32_t id;
    union {
        waldo__hand_hello hello;
        uint32_t pid; /* STARTED, KEEPER_STARTED */
        struct {
            int32_t err;
            uint8_t phase;
        } start_error; /* START_ERROR, KEEPER_FAILED */
        struct {
            uint64_t offset;
            waldo_str bytes;
        } output; /* OUT, ERR */
        waldo__hand_exit exit;
        waldo__hand_job job;
        waldo_str bytes; /* DATA, PONG */
        waldo__hand_done done;
        uint64_t credit;
        struct {
            uint16_t code;
            waldo_str text; /* printable ASCII only */
        } error;
        waldo__hand_keeper_exit keeper_exit;
    } u;
} waldo__hand_event;

/* A failure stops the feed and is handed back. */
typedef waldo_status (*waldo__hand_fn)(void *userdata, const waldo__hand_event *event);

typedef struct waldo__hand_decoder {
    waldo__buf partial;
    int is_keeper;
    int greeted; /* HELLO, or the keeper's first frame, has come */
    int ended;   /* ERROR, KEEPER_FAILED or KEEPER_EXIT has come */
    uint8_t nonce[WALDO_HAND_NONCE_LEN];
    waldo_status status;
    const char *problem;
} waldo__hand_decoder;

/* For a hand's output: the first frame must be a HELLO with this nonce. */
void waldo__hand_decoder_init(waldo__hand_decoder *decoder,
                              const uint8_t nonce[WALDO_HAND_NONCE_LEN]);
/* For a keeper's control stream. */
void waldo__hand_decoder_init_keeper(waldo__hand_decoder *decoder);
void waldo__hand_decoder_free(waldo__hand_decoder *decoder);

/* EPROTO for what is not the protocol; a failure sticks. */
waldo_status waldo__hand_feed(waldo__hand_decoder *decoder, waldo_str bytes, waldo__hand_fn fn,
                              void *userdata);
/* At the end of the stream: ETRUNCATED inside a frame or before the first one. */
waldo_status waldo__hand_finish(waldo__hand_decoder *decoder);
/* What was wrong, static text; empty when nothing was. */
const char *waldo__hand_problem(const waldo__hand_decoder *decoder);

typedef struct waldo__hand_entry {
    uint8_t kind; /* enum waldo_hand_kind */
    uint32_t mode;
    uint64_t size;
    int64_t mtime_s;
    uint32_t mtime_ns, uid, gid;
    waldo_str name, target;
} waldo__hand_entry;

/*
 * Takes the first entry off the DATA of a STAT or LIST. OK, END when there is none, EPROTO. A name
 * holds no slash and no NUL and is not "." or "..".
 */
waldo_status waldo__hand_next_entry(waldo_str *rest, waldo__hand_entry *ret_entry);

#endif
