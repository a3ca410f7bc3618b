#define _GNU_SOURCE
/* Server mode: frames in on stdin, frames out on stdout, one loop. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"
#include "tree.h"

#define END_WAIT_MS      2000u /* for trees to be gone before this program ends */
#define STRAYS_WAIT_MS   500u  /* for the trees of job parents that did not end */
#define FLUSH_WAIT_MS    1000u /* for the last frames to be taken */
#define PIPE_SIZE        (1024 * 1024)
#define HOST_PAYLOAD_MIN 65800u

#if defined(__x86_64__)
#define ARCH WALDO_HAND_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH WALDO_HAND_ARCH_ARM64
#else
#define ARCH WALDO_HAND_ARCH_NONE
#endif

/* Beside the codes of ERROR: why a session is over. */
#define END_INPUT  (-1)
#define END_OUTPUT (-2)
#define END_ALL    (-3) /* and the program with it */

#define OWN_FDS (2u + DURABLE_FDS)

static struct inbuf input;
static struct pollfd fds[OWN_FDS + JOBS_FDS_MAX];
_Static_assert(sizeof fds / sizeof *fds <= WAIT_FDS_MAX, "wait_fds takes them all");
static int in_fd = STDIN_FILENO, out_fd = STDOUT_FILENO; /* -1: no session */
static bool is_durable, greeted, shutting_down;
static uint32_t request_id; /* of a one-shot, when it is known */
static bool request_open;   /* WRITE_END is still to come */
static uint32_t shutdown_id;
static uint64_t shutdown_end_ms;

int check_hello(const struct frame *frame)
{
    struct hello hello;

    if (frame->type != WALDO_HAND_HELLO || frame->id != 0 || !hello_decode(frame, &hello) ||
        hello.max_payload < HOST_PAYLOAD_MIN) {
        return WALDO_HAND_E_HELLO;
    }
    return hello.version < WALDO_HAND_VERSION ? WALDO_HAND_E_VERSION : 0;
}

static int on_hello(const struct frame *frame)
{
    struct hello hello;
    uint8_t payload[WALDO_HAND_HELLO_LEN];
    int err = check_hello(frame);

    if (err != 0) {
        return err;
    }
    hello_decode(frame, &hello);
    hello.version = WALDO_HAND_VERSION;
    hello.arch = ARCH;
    hello.features = WALDO_HAND_FEATURE_JOBS | (tree_visible() ? WALDO_HAND_FEATURE_TREE : 0) |
                     (have_openat2() ? WALDO_HAND_FEATURE_BENEATH : 0) |
                     (have_pty() ? WALDO_HAND_FEATURE_PTY : 0) |
                     (is_durable ? WALDO_HAND_FEATURE_LEASE : 0);
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
    durable_close();
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
    request_open = false;
    files_write_end(frame->id);
    return 0;
}

static int on_reserved(const struct frame *frame)
{
    out_done(frame->id, EOPNOTSUPP, WALDO_HAND_WHERE_UNSUPPORTED, 0, 0);
    return 0;
}

static int on_lease(const struct frame *frame)
{
    uint32_t ms;

    if (!is_durable) {
        return on_reserved(frame);
    }
    if (frame->len < WALDO_HAND_LEASE_LEN) {
        return WALDO_HAND_E_PAYLOAD;
    }
    ms = get_u32(frame->payload);
    if (ms == 0) {
        out_done(frame->id, EINVAL, WALDO_HAND_WHERE_REQUEST, 0, 0);
        return 0;
    }
    durable_set_lease(ms);
    out_done(frame->id, 0, 0, 0, 0);
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
    { WALDO_HAND_JOB_LIST, false, jobs_list },
    { WALDO_HAND_JOB_ATTACH, true, kept_attach },
    { WALDO_HAND_JOB_FORGET, false, jobs_forget },
    { WALDO_HAND_LEASE, false, on_lease },
    { WALDO_HAND_CONNECT, false, on_reserved },
};

/* 0, or the code of the ERROR that ends the session. */
static int dispatch(const struct frame *frame)
{
    if (!greeted) {
        return on_hello(frame);
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
        if (handlers[i].new_id && is_one_shot) {
            if (request_id != 0) {
                return WALDO_HAND_E_STATE;
            }
            request_id = frame->id;
            request_open = frame->type == WALDO_HAND_WRITE;
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

/* The frames of a one-shot are all there. */
static int end_request(void)
{
    struct frame frame = { .id = request_id };

    if (inbuf_partial(&input) || request_id == 0 || request_open) {
        return WALDO_HAND_E_TRUNCATED;
    }
    in_fd = -1;
    return jobs_stdin_eof(&frame);
}

/* Reads once and handles what became whole; 0 or why the session is over. */
static int read_input(void)
{
    size_t room;
    uint8_t *at = inbuf_space(&input, &room);
    ssize_t n = read(in_fd, at, room);

    if (n > 0) {
        n = is_one_shot ? one_shot_decode(at, (size_t)n) : n;
        if (n < 0) {
            return WALDO_HAND_E_PAYLOAD;
        }
        inbuf_added(&input, (size_t)n);
        return dispatch_all();
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (is_one_shot) {
        return end_request();
    }
    return inbuf_partial(&input) ? WALDO_HAND_E_TRUNCATED : END_INPUT;
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
        [WALDO_HAND_E_TAKEN] = "a newer session has taken over",
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
        struct pollfd fd = { .fd = out_fd, .events = POLLOUT };

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
static int end_all(int status)
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

static void server_init(void)
{
    open_standard_fds();
    signals_init(true);
    umask(022);
    control_process(PR_SET_NO_NEW_PRIVS, 1);
    control_process(PR_SET_DUMPABLE, 0);
    control_process(PR_SET_CHILD_SUBREAPER, 1);
}

/* The streams of the next session, or of none. */
static void use_streams(int in, int out)
{
    in_fd = in;
    out_fd = out;
    out_reset(out);
    greeted = false;
    set_nonblock(in);
    set_nonblock(out);
    /* Fewer turns of who copies at the other end; a stream that is no pipe stays as it is. */
    control_fd(in, F_SETPIPE_SZ, PIPE_SIZE);
    control_fd(out, F_SETPIPE_SZ, PIPE_SIZE);
}

/* What belongs to the session ends with it; the kept commands stay for the next. */
static void next_session(void)
{
    int in = -1, out = -1;

    jobs_let_go();
    files_end();
    durable_next(&input, &in, &out);
    use_streams(in, out);
}

/* One wait; 0, or why the session is over. */
static int turn(int64_t due)
{
    size_t jobs;
    int err = 0;

    fds[0] = (struct pollfd){ .fd = in_fd, .events = POLLIN };
    if (shutting_down || out_pending() >= OUT_INPUT_MARK) {
        fds[0].fd = -1;
    }
    fds[1] = (struct pollfd){ .fd = out_fd, .events = out_pending() > 0 ? POLLOUT : (short)0 };
    durable_poll(fds + 2);
    jobs = jobs_poll(fds + OWN_FDS);
    if (wait_fds(fds, OWN_FDS + jobs, due) <= 0) {
        return 0;
    }
    if (fds[0].revents != 0) {
        err = read_input();
    }
    jobs_ready(fds + OWN_FDS, jobs);
    if (err == 0 && (fds[1].revents & (POLLERR | POLLNVAL)) != 0 &&
        (!is_one_shot || one_shot_minds_output())) {
        err = END_OUTPUT;
    }
    return err == 0 ? durable_ready(fds + 2) : err;
}

/* All that can be done now, then a wait; 0, or why the session is over. */
static int do_round(void)
{
    int64_t due, end;
    bool files, was_full;
    /* Whole frames may wait since the output was too full for their answers. */
    int err = dispatch_all();

    if (err != 0) {
        return err;
    }
    due = jobs_step();
    files = files_step();
    was_full = !out_room_for_data();
    if (!out_flush()) {
        return END_OUTPUT;
    }
    if (shutting_down) {
        if ((jobs_alive() == 0 && jobs_running() == 0) || now_ms() >= shutdown_end_ms) {
            out_done(shutdown_id, 0, 0, 0, 0);
            flush_last();
            return END_ALL;
        }
        due = due >= 0 && due < 50 ? due : 50;
    }
    end = durable_step();
    if (signal_end_seen() || end == 0 ||
        (request_id != 0 && jobs_running() == 0 && !files_has(request_id))) {
        return END_ALL;
    }
    due = end > 0 && (due < 0 || end < due) ? end : due;
    /* Nothing else wakes what waited for room when all of the output was taken at once. */
    return turn((files || was_full) && out_room_for_data() ? 0 : due);
}

int server_main(const struct durable *durable)
{
    server_init();
    is_durable = durable != NULL;
    if (is_durable && !durable_open(durable)) {
        return WALDO_HAND_STATUS_ABSENT;
    }
    greeted = is_one_shot;
    if (!is_one_shot) {
        use_streams(is_durable ? -1 : STDIN_FILENO, is_durable ? -1 : STDOUT_FILENO);
    }
    for (;;) {
        int err = do_round();

        if (err > 0) {
            send_error(err);
            flush_last();
        }
        if (err != 0 && is_durable && err != END_ALL && !shutting_down) {
            next_session();
        } else if (err != 0) {
            err = end_all(err > 0             ? WALDO_HAND_STATUS_PROTOCOL
                          : err == END_OUTPUT ? WALDO_HAND_STATUS_OUTPUT
                                              : WALDO_HAND_STATUS_OK);
            durable_next(&input, &in_fd, &out_fd);
            return err;
        }
    }
}
