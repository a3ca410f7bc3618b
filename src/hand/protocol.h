/*
 * The wire between the library and waldo-hand, its helper inside a sandbox.
 *
 * This is the only header the two share; docs/hand-protocol.md gives the same as byte tables, with
 * the states and the rules. All numbers are little-endian, errno values are Linux's.
 */
#ifndef WALDO_HAND_PROTOCOL_H
#define WALDO_HAND_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#define WALDO_HAND_VERSION 1 /* digits only: src/hand/main.c makes text of it */
#define WALDO_HAND_MAGIC   "WLD1"

/* Frame: u32 payload length, u8 type, u32 id, payload. */
#define WALDO_HAND_HEADER_LEN  9u
#define WALDO_HAND_PAYLOAD_MAX (256u * 1024u)
#define WALDO_HAND_CHUNK_MAX   (64u * 1024u) /* data bytes in one OUT, ERR or DATA frame */

/* Limits. */
#define WALDO_HAND_JOBS_MAX         64u  /* running commands; more are refused by name */
#define WALDO_HAND_SLOTS_MAX        256u /* running ones plus finished ones with leftovers */
#define WALDO_HAND_KEPT_MAX         64u  /* with RUN_KEEP; the oldest finished one is dropped */
#define WALDO_HAND_OPS_MAX          32u  /* READ, WRITE, LIST in progress */
#define WALDO_HAND_TAIL_MAX         (1024u * 1024u) /* tail bytes kept for one stream */
#define WALDO_HAND_STDIN_WINDOW     (256u * 1024u)  /* unacknowledged STDIN bytes for one job */
#define WALDO_HAND_SCRIPT_ARG_MAX   (96u * 1024u)   /* longer script text is run from a file */
#define WALDO_HAND_ARGS_MAX         4096u           /* ARG fields, and as many ENV fields */
#define WALDO_HAND_PATH_MAX         4095u
#define WALDO_HAND_PING_MAX         64u
#define WALDO_HAND_LABEL_MAX        64u
#define WALDO_HAND_GRACE_DEFAULT_MS 2000u
#define WALDO_HAND_PTY_ROWS         24u
#define WALDO_HAND_PTY_COLUMNS      80u
#define WALDO_HAND_DRAIN_MS         50u   /* wait for late output after the leader's exit */
#define WALDO_HAND_KILL_WAIT_MS     1000u /* EXIT comes at the latest this long after SIGKILL */
#define WALDO_HAND_STDERR_MAX       4096u /* the keeper keeps this much of the program's stderr */

/* A receiver skips unknown types that carry this bit and fails on other unknown ones. */
#define WALDO_HAND_TYPE_OPTIONAL 0x40u

/* Host to hand. */
enum waldo_hand_request {
    WALDO_HAND_HELLO = 0x01, /* both ways */
    WALDO_HAND_RUN = 0x02,
    WALDO_HAND_STDIN = 0x03,
    WALDO_HAND_STDIN_EOF = 0x04,
    WALDO_HAND_SIGNAL = 0x05,
    WALDO_HAND_CREDIT = 0x06, /* both ways */
    WALDO_HAND_CANCEL = 0x07,
    WALDO_HAND_RESIZE = 0x08, /* where PTY */
    WALDO_HAND_PING = 0x09,
    WALDO_HAND_SHUTDOWN = 0x0a,
    WALDO_HAND_READ = 0x10,
    WALDO_HAND_WRITE = 0x11,
    WALDO_HAND_WRITE_DATA = 0x12,
    WALDO_HAND_WRITE_END = 0x13,
    WALDO_HAND_STAT = 0x14,
    WALDO_HAND_LIST = 0x15,
    WALDO_HAND_MKDIR = 0x16,
    WALDO_HAND_REMOVE = 0x17,
    WALDO_HAND_RENAME = 0x18,
    WALDO_HAND_JOB_LIST = 0x20,   /* where JOBS */
    WALDO_HAND_JOB_ATTACH = 0x21, /* where JOBS */
    WALDO_HAND_JOB_FORGET = 0x22, /* where JOBS */
    WALDO_HAND_LEASE = 0x23,      /* where LEASE */
    WALDO_HAND_CONNECT = 0x24,    /* reserved */
    WALDO_HAND_KEEPER_KILL = 0x30,
};

/* Hand to host. */
enum waldo_hand_reply {
    WALDO_HAND_STARTED = 0x80,
    WALDO_HAND_START_ERROR = 0x81,
    WALDO_HAND_OUT = 0x82,
    WALDO_HAND_ERR = 0x83,
    WALDO_HAND_EXIT = 0x84,
    WALDO_HAND_DATA = 0x85,
    WALDO_HAND_DONE = 0x86,
    WALDO_HAND_PONG = 0x87,
    WALDO_HAND_ERROR = 0x88,
    WALDO_HAND_JOB = 0x89,
    WALDO_HAND_KEEPER_STARTED = 0xb0,
    WALDO_HAND_KEEPER_FAILED = 0xb1,
    WALDO_HAND_KEEPER_EXIT = 0xb2,
};

/* HELLO, at least 56 bytes. */
#define WALDO_HAND_HELLO_LEN   56u
#define WALDO_HAND_NONCE_LEN   16u
#define WALDO_HAND_ARCH_NONE   0u /* what the host sends */
#define WALDO_HAND_ARCH_X86_64 1u
#define WALDO_HAND_ARCH_ARM64  2u

#define WALDO_HAND_FEATURE_TREE    (UINT64_C(1) << 0) /* /proc is there: trees can be ended */
#define WALDO_HAND_FEATURE_BENEATH (UINT64_C(1) << 1) /* openat2 works: links below ROOT, too */
#define WALDO_HAND_FEATURE_PTY     (UINT64_C(1) << 2) /* terminals can be opened */
#define WALDO_HAND_FEATURE_JOBS    (UINT64_C(1) << 3) /* RUN_KEEP, LABEL, JOB_* */
#define WALDO_HAND_FEATURE_LEASE   (UINT64_C(1) << 4) /* it outlives its sessions */
#define WALDO_HAND_FEATURE_CONNECT (UINT64_C(1) << 5) /* reserved */

/*
 * Requests RUN, READ, WRITE, STAT, LIST, MKDIR, REMOVE, RENAME are lists of fields:
 * u16 tag, u32 length, value. Unknown tags with the optional bit are skipped, others refused.
 */
#define WALDO_HAND_FIELD_HEADER_LEN 6u
#define WALDO_HAND_FIELD_OPTIONAL   0x8000u

enum waldo_hand_field {
    WALDO_HAND_F_FLAGS = 1,         /* u32 */
    WALDO_HAND_F_ARG = 2,           /* bytes without NUL, repeated, in order */
    WALDO_HAND_F_SCRIPT = 3,        /* bytes without NUL */
    WALDO_HAND_F_CWD = 4,           /* path */
    WALDO_HAND_F_ENV = 5,           /* NAME=VALUE sets, NAME alone removes; repeated */
    WALDO_HAND_F_TIMEOUT_MS = 6,    /* u32; absent or 0: none */
    WALDO_HAND_F_GRACE_MS = 7,      /* u32; absent: the default */
    WALDO_HAND_F_OUT_HEAD = 8,      /* u64; absent: no bound, nothing goes to the tail */
    WALDO_HAND_F_OUT_TAIL = 9,      /* u32; absent: 0 */
    WALDO_HAND_F_ERR_HEAD = 10,     /* u64 */
    WALDO_HAND_F_ERR_TAIL = 11,     /* u32 */
    WALDO_HAND_F_CAPTURE_PATH = 12, /* path */
    WALDO_HAND_F_CAPTURE_MAX = 13,  /* u64; with CAPTURE_PATH */
    WALDO_HAND_F_CREDIT = 14,       /* u64: output bytes that may be sent; absent: no bound */
    WALDO_HAND_F_PTY = 15,          /* u16 rows, u16 columns; with RUN_PTY; absent: 24, 80 */
    WALDO_HAND_F_RLIMIT = 16,       /* reserved: u32 resource, u64 soft, u64 hard; repeated */
    WALDO_HAND_F_USER = 17,         /* reserved: u32 uid, u32 gid */
    WALDO_HAND_F_LABEL = 18,        /* bytes; with RUN_KEEP: told by JOB */
    WALDO_HAND_F_PATH = 32,
    WALDO_HAND_F_ROOT = 33,   /* directory; PATH and TO are then relative and stay beneath it */
    WALDO_HAND_F_TO = 34,     /* path; RENAME */
    WALDO_HAND_F_MODE = 35,   /* u32, permission bits */
    WALDO_HAND_F_OFFSET = 36, /* u64; READ */
    WALDO_HAND_F_LIMIT = 37,  /* u64; READ: bytes, LIST: entries; absent: no bound */
};

/* FLAGS of RUN. */
#define WALDO_HAND_RUN_MERGE          0x01u /* stderr into the stdout pipe: exact order */
#define WALDO_HAND_RUN_STDIN          0x02u /* stdin stays open until STDIN_EOF; else /dev/null */
#define WALDO_HAND_RUN_CLEAR_ENV      0x04u /* start from no environment, then the ENV fields */
#define WALDO_HAND_RUN_KILL_LEFTOVERS 0x08u /* end the rest of the tree when the leader ends */
#define WALDO_HAND_RUN_PTY            0x10u /* stdin, stdout and stderr are one terminal */
#define WALDO_HAND_RUN_KEEP           0x20u /* output and result are kept for JOB_ATTACH */

/* FLAGS of the file requests. */
#define WALDO_HAND_FILE_NOFOLLOW  0x01u /* READ, STAT: a symbolic link at the end is not followed */
#define WALDO_HAND_FILE_PARENTS   0x02u /* WRITE, MKDIR: make missing directories */
#define WALDO_HAND_FILE_ATOMIC    0x04u /* WRITE: temporary file, then rename */
#define WALDO_HAND_FILE_APPEND    0x08u /* WRITE */
#define WALDO_HAND_FILE_EXCL      0x10u /* WRITE: must not exist; RENAME: target must not exist */
#define WALDO_HAND_FILE_RECURSIVE 0x20u /* REMOVE */
#define WALDO_HAND_FILE_SWAP      0x40u /* with ATOMIC: quicker, but not power-failure safe */

#define WALDO_HAND_GRACE_OF_JOB 0xffffffffu /* CANCEL: use the job's own grace */

enum waldo_hand_scope {
    WALDO_HAND_SCOPE_PROCESS = 0, /* the leader only */
    WALDO_HAND_SCOPE_GROUP = 1,   /* the leader's process group */
    WALDO_HAND_SCOPE_TREE = 2,    /* every descendant */
};

enum waldo_hand_phase {
    WALDO_HAND_PHASE_REQUEST = 1,     /* fields missing or malformed */
    WALDO_HAND_PHASE_LIMIT = 2,       /* too many commands */
    WALDO_HAND_PHASE_RESOURCES = 3,   /* pipe, fork, memory */
    WALDO_HAND_PHASE_CHDIR = 4,       /* CWD */
    WALDO_HAND_PHASE_SCRIPT = 5,      /* script text could not be put into a file */
    WALDO_HAND_PHASE_EXEC = 6,        /* the program itself */
    WALDO_HAND_PHASE_UNSUPPORTED = 7, /* a reserved flag or field, or an unknown one */
    WALDO_HAND_PHASE_PTY = 8,         /* no terminal could be opened */
};

#define WALDO_HAND_ATTACH_LEN      24u /* u32 job, u32 0, u64 offset, u64 credit */
#define WALDO_HAND_STARTED_LEN     4u
#define WALDO_HAND_START_ERROR_LEN 8u
#define WALDO_HAND_OUT_HEADER_LEN  8u /* u64 offset of the first byte in its stream */
#define WALDO_HAND_EXIT_LEN        96u
#define WALDO_HAND_DONE_LEN        16u
#define WALDO_HAND_ENTRY_LEN       40u
#define WALDO_HAND_ERROR_LEN       4u
#define WALDO_HAND_LEASE_LEN       4u   /* u32 ms, not 0 */
#define WALDO_HAND_JOB_LEN         120u /* with an EXIT; the label follows */

enum waldo_hand_state {
    WALDO_HAND_STATE_RUNNING = 1,
    WALDO_HAND_STATE_ENDED = 2,
};

enum waldo_hand_how {
    WALDO_HAND_HOW_UNKNOWN = 0, /* see EXIT_UNCONFIRMED, EXIT_LOST */
    WALDO_HAND_HOW_EXITED = 1,
    WALDO_HAND_HOW_SIGNALLED = 2,
};

/* Flags of EXIT. */
#define WALDO_HAND_EXIT_TIMED_OUT    0x0001u
#define WALDO_HAND_EXIT_CANCELLED    0x0002u
#define WALDO_HAND_EXIT_OPEN         0x0004u /* output descriptors are still held by others */
#define WALDO_HAND_EXIT_TRUNCATED    0x0008u /* bytes dropped between head and tail */
#define WALDO_HAND_EXIT_LEFTOVERS    0x0010u /* other processes of the command still run */
#define WALDO_HAND_EXIT_KILLED       0x0020u /* SIGKILL was sent to the tree */
#define WALDO_HAND_EXIT_UNCONFIRMED  0x0040u /* the tree could not be seen to be gone in time */
#define WALDO_HAND_EXIT_LOST         0x0080u /* the job parent died: how it ended is unknown */
#define WALDO_HAND_EXIT_STDIN_BROKEN 0x0100u /* stdin bytes were not taken */
#define WALDO_HAND_EXIT_CORE         0x0200u
#define WALDO_HAND_EXIT_OOM          0x0400u /* meanwhile the kernel killed for want of memory */

enum waldo_hand_where {
    WALDO_HAND_WHERE_NONE = 0,
    WALDO_HAND_WHERE_REQUEST = 1, /* fields missing or malformed */
    WALDO_HAND_WHERE_LIMIT = 2,   /* too many file requests in progress */
    WALDO_HAND_WHERE_ROOT = 3,    /* ROOT could not be opened */
    WALDO_HAND_WHERE_PATH = 4,    /* PATH (or a directory on the way) */
    WALDO_HAND_WHERE_TO = 5,      /* TO */
    WALDO_HAND_WHERE_IO = 6,      /* reading, writing, closing, renaming */
    WALDO_HAND_WHERE_CANCELLED = 8,
    WALDO_HAND_WHERE_UNSUPPORTED = 9, /* a reserved type, flag or field, or an unknown one */
};

#define WALDO_HAND_DONE_MORE 0x01u /* LIMIT ended it: there is more */

enum waldo_hand_kind {
    WALDO_HAND_KIND_OTHER = 0,
    WALDO_HAND_KIND_FILE = 1,
    WALDO_HAND_KIND_DIR = 2,
    WALDO_HAND_KIND_LINK = 3,
    WALDO_HAND_KIND_FIFO = 4,
    WALDO_HAND_KIND_SOCKET = 5,
    WALDO_HAND_KIND_CHAR = 6,
    WALDO_HAND_KIND_BLOCK = 7,
};

/* Codes of ERROR: the session ends with it. */
enum waldo_hand_error {
    WALDO_HAND_E_LENGTH = 1,    /* payload longer than the maximum */
    WALDO_HAND_E_HELLO = 2,     /* first frame is not HELLO, or its magic is wrong */
    WALDO_HAND_E_VERSION = 3,   /* no common version */
    WALDO_HAND_E_TYPE = 4,      /* unknown type without the optional bit */
    WALDO_HAND_E_STATE = 5,     /* frame not allowed now: second HELLO, id in use, id 0 */
    WALDO_HAND_E_PAYLOAD = 6,   /* payload too short, or its fields overrun it */
    WALDO_HAND_E_WINDOW = 7,    /* more STDIN than was allowed */
    WALDO_HAND_E_TRUNCATED = 8, /* input ended inside a frame */
    WALDO_HAND_E_MEMORY = 9,
    WALDO_HAND_E_TAKEN = 10, /* durable: a newer session has taken its place */
};

/* Exit statuses of the program itself. */
#define WALDO_HAND_STATUS_OK       0  /* SHUTDOWN, input ended between frames, lease ran out */
#define WALDO_HAND_STATUS_PROTOCOL 2  /* after an ERROR frame */
#define WALDO_HAND_STATUS_OUTPUT   3  /* its output broke */
#define WALDO_HAND_STATUS_ABSENT   4  /* attach, read: nothing is there, or it refuses */
#define WALDO_HAND_STATUS_USAGE    64 /* wrong arguments */

#endif
