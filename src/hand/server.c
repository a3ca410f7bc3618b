#define _GNU_SOURCE
/* Server mode: frames in on stdin, frames out on stdout, one loop. */
#include "server.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"
#include "tree.h"

#define END_WAIT_MS      2000u /* for trees to be gone before this program ends */
#define STRAYS_WAIT_MS   500u  /* for the trees of job parents that did not end */
#define FLUSH_WAIT_MS    1000u /* for the last frames to be taken */
#define HOST_PAYLOAD_MIN 65800u

#if defined(__x86_64__)
#define ARCH WALDO_HAND_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH WALDO_HAND_ARCH_ARM64
#else
#define ARCH WALDO_HAND_ARCH_NONE
#endif

static struct inbuf input;
static struct pollfd fds[2 + JOBS_FDS_MAX];
static bool greeted, shutting_down;
static uint32_t shutdown_id;
static uint64_t shutdown_end_ms;

static int on_hello(const struct frame *frame)
{
    struct hello hello;
    uint8_t payload[WALDO_HAND_HELLO_LEN];

    if (frame->id != 0 || !hello_decode(frame, &hello) || hello.max_payload < HOST_PAYLOAD_MIN) {
        return WALDO_HAND_E_HELLO;
    }
    if (hello.version < WALDO_HAND_VERSION) {
        return WALDO_HAND_E_VERSION;
    }
    hello.version = WALDO_HAND_VERSION;
    hello.arch = ARCH;
    hello.features = WALDO_HAND_FEATURE_JOBS | (tree_visible() ? WALDO_HAND_FEATURE_TREE : 0) |
                     (have_openat2() ? WALDO_HAND_FEATURE_BENEATH : 0) |
                     (have_pty() ? WALDO_HAND_FEATURE_PTY : 0);
    hello.pid = (uint32_t)getpid();
    hello.uid = (uint32_t)geteuid();
    hello.max_payload = WALDO_HAND_PAYLOAD_MAX;
    hello.max_jobs = WALDO_HAND_JOBS_MAX;
    hello.release = HAND_RELEASE;
    hello_encode(payload, &hello);
    out_frame(WALDO_HAND_HELLO, 0, payload, sizeof payload);
    greeted = true;
    return 0;
}

static int on_cancel(const struct frame *frame)
{
    if (frame->len < 4) {
        return WALDO_HAND_E_PAYLOAD;
    }
    if (!jobs_cancel(frame->id, get_u32(frame->payload)) && !kept_cancel(frame->id)) {
        files_cancel(frame->id);
    }
    return 0;
}

static int on_ping(const struct frame *frame)
{
    if (frame->len > WALDO_HAND_PING_MAX) {
        return WALDO_HAND_E_PAYLOAD;
    }
    out_frame(WALDO_HAND_PONG, frame->id, frame->payload, frame->len);
    return 0;
}

static int on_shutdown(const struct frame *frame)
{
    shutting_down = true;
    shutdown_id = frame->id;
    shutdown_end_ms = now_ms() + END_WAIT_MS;
    jobs_cancel_all();
    return 0;
}

static int on_write_data(const struct frame *frame)
{
    files_write_data(frame);
    return 0;
}

static int on_write_end(const struct frame *frame)
{
    files_write_end(frame->id);
    return 0;
}

static int on_reserved(const struct frame *frame)
{
    out_done(frame->id, EOPNOTSUPP, WALDO_HAND_WHERE_UNSUPPORTED, 0, 0);
    return 0;
}

static const struct {
    uint8_t type;
    bool new_id; /* begins something under an id that must be fresh */
    int (*handle)(const struct frame *frame);
} handlers[] = {
    { WALDO_HAND_RUN, true, jobs_run },
    { WALDO_HAND_STDIN, false, jobs_stdin },
    { WALDO_HAND_STDIN_EOF, false, jobs_stdin_eof },
    { WALDO_HAND_SIGNAL, false, jobs_signal },
    { WALDO_HAND_CREDIT, false, jobs_credit },
    { WALDO_HAND_CANCEL, false, on_cancel },
    { WALDO_HAND_RESIZE, false, jobs_resize },
    { WALDO_HAND_PING, false, on_ping },
    { WALDO_HAND_SHUTDOWN, false, on_shutdown },
    { WALDO_HAND_READ, true, files_request },
    { WALDO_HAND_WRITE, true, files_request },
    { WALDO_HAND_WRITE_DATA, false, on_write_data },
    { WALDO_HAND_WRITE_END, false, on_write_end },
    { WALDO_HAND_STAT, true, files_request },
    { WALDO_HAND_LIST, true, files_request },
    { WALDO_HAND_MKDIR, true, files_request },
    { WALDO_HAND_REMOVE, true, files_request },
    { WALDO_HAND_RENAME, true, files_request },
    { WALDO_HAND_JOB_LIST, false, on_reserved },
    { WALDO_HAND_JOB_ATTACH, true, kept_attach },
    { WALDO_HAND_JOB_FORGET, false, jobs_forget },
    { WALDO_HAND_LEASE, false, on_reserved },
    { WALDO_HAND_CONNECT, false, on_reserved },
};

/* 0, or the code of the ERROR that ends the session. */
static int dispatch(const struct frame *frame)
{
    if (!greeted) {
        return frame->type == WALDO_HAND_HELLO ? on_hello(frame) : WALDO_HAND_E_HELLO;
    }
    if (frame->type == WALDO_HAND_HELLO) {
        return WALDO_HAND_E_STATE;
    }
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++) {
        if (handlers[i].type != frame->type) {
            continue;
        }
        if (handlers[i].new_id && (frame->id == 0 || jobs_has(frame->id) || files_has(frame->id))) {
            return WALDO_HAND_E_STATE;
        }
        return handlers[i].handle(frame);
    }
    return (frame->type & WALDO_HAND_TYPE_OPTIONAL) != 0 ? 0 : WALDO_HAND_E_TYPE;
}

static int dispatch_all(void)
{
    struct frame frame;
    int err = 0, got = 0;

    while (err == 0 && !shutting_down && out_pending() < OUT_INPUT_MARK &&
           (got = inbuf_next(&input, &frame)) == 1) {
        err = dispatch(&frame);
    }
    return got < 0 ? WALDO_HAND_E_LENGTH : err;
}

/* Reads once and handles what became whole; -1: end of input. */
static int read_input(void)
{
    size_t room;
    uint8_t *at = inbuf_space(&input, &room);
    ssize_t n = read(STDIN_FILENO, at, room);

    if (n > 0) {
        inbuf_added(&input, (size_t)n);
        return dispatch_all();
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    return inbuf_partial(&input) ? WALDO_HAND_E_TRUNCATED : -1;
}

static void send_error(int code)
{
    static const char *const texts[] = {
        [WALDO_HAND_E_LENGTH] = "payload longer than 262144 bytes",
        [WALDO_HAND_E_HELLO] = "first frame is not a good HELLO",
        [WALDO_HAND_E_VERSION] = "no common protocol version",
        [WALDO_HAND_E_TYPE] = "unknown frame type",
        [WALDO_HAND_E_STATE] = "frame not allowed now",
        [WALDO_HAND_E_PAYLOAD] = "malformed payload",
        [WALDO_HAND_E_WINDOW] = "more stdin than allowed",
        [WALDO_HAND_E_TRUNCATED] = "input ended inside a frame",
        [WALDO_HAND_E_MEMORY] = "out of memory",
    };
    uint8_t head[WALDO_HAND_ERROR_LEN] = { 0 };

    put_u16(head, (uint16_t)code);
    out_frame2(WALDO_HAND_ERROR, 0, head, sizeof head, texts[code], strlen(texts[code]));
}

/* Waits until the last frames are taken, for a while. */
static void flush_last(void)
{
    uint64_t end = now_ms() + FLUSH_WAIT_MS;

    while (out_flush() && out_pending() > 0 && now_ms() < end) {
        struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };

        wait_fds(&fd, 1, 100);
    }
}

/* Waits until no job parent and nothing of a dead one is left, for a while. */
static void wait_gone(uint64_t wait_ms)
{
    uint64_t end = now_ms() + wait_ms;

    while (jobs_step(), jobs_alive() > 0 && now_ms() < end) {
        size_t count = jobs_poll(fds);

        wait_fds(fds, count, 20);
        jobs_ready(fds, count);
    }
}

/* Kills everything and waits for it. */
static int end_session(int status)
{
    jobs_cancel_all();
    files_end();
    /* After SHUTDOWN the time has been given already. */
    wait_gone(shutting_down ? 0 : END_WAIT_MS);
    if (jobs_alive() > 0) {
        jobs_abandon();
        wait_gone(STRAYS_WAIT_MS);
    }
    return status;
}

static int end_by_error(int code)
{
    send_error(code);
    flush_last();
    return end_session(WALDO_HAND_STATUS_PROTOCOL);
}

static void server_init(void)
{
    open_standard_fds();
    signals_init(true);
    umask(022);
    control_process(PR_SET_NO_NEW_PRIVS, 1);
    control_process(PR_SET_DUMPABLE, 0);
    control_process(PR_SET_CHILD_SUBREAPER, 1);
    set_nonblock(STDIN_FILENO);
    set_nonblock(STDOUT_FILENO);
}

/* One wait; returns what read_input does. */
static int turn(int64_t due)
{
    size_t own = 2, jobs;
    int err = 0;

    fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    if (shutting_down || out_pending() >= OUT_INPUT_MARK) {
        fds[0].fd = -1;
    }
    fds[1] =
        (struct pollfd){ .fd = STDOUT_FILENO, .events = out_pending() > 0 ? POLLOUT : (short)0 };
    jobs = jobs_poll(fds + own);
    if (wait_fds(fds, own + jobs, due) <= 0) {
        return 0;
    }
    if (fds[0].revents != 0) {
        err = read_input();
    }
    jobs_ready(fds + own, jobs);
    if (err == 0 && (fds[1].revents & (POLLERR | POLLNVAL)) != 0) {
        return -2;
    }
    return err;
}

int server_main(void)
{
    int err = 0;

    server_init();
    while (err == 0) {
        int64_t due;
        bool files, was_full;

        /* Whole frames may wait since the output was too full for their answers. */
        err = dispatch_all();
        if (err != 0) {
            break;
        }
        due = jobs_step();
        files = files_step();
        was_full = !out_room_for_data();
        if (!out_flush()) {
            return end_session(WALDO_HAND_STATUS_OUTPUT);
        }
        if (shutting_down) {
            if ((jobs_alive() == 0 && jobs_running() == 0) || now_ms() >= shutdown_end_ms) {
                out_done(shutdown_id, 0, 0, 0, 0);
                flush_last();
                return end_session(WALDO_HAND_STATUS_OK);
            }
            due = due >= 0 && due < 50 ? due : 50;
        }
        if (signal_end_seen()) {
            return end_session(WALDO_HAND_STATUS_OK);
        }
        /* Nothing else wakes what waited for room when all of the output was taken at once. */
        err = turn((files || was_full) && out_room_for_data() ? 0 : due);
    }
    if (err > 0) {
        return end_by_error(err);
    }
    return end_session(err == -2 ? WALDO_HAND_STATUS_OUTPUT : WALDO_HAND_STATUS_OK);
}
