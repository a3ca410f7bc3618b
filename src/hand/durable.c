#define _GNU_SOURCE
/*
 * Durable mode: a process that attaches hands its stdin and stdout over, and so makes a session. It
 * is one only from a good HELLO on; until then the session before it is not disturbed.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "server.h"
#include "sys.h"

#define ADDRESS_MAX     100u
#define BACKLOG         64
#define HELLO_ROOM      256u /* more than any HELLO of this version */
#define HELLO_WAIT_MS   10000u
#define ATTACH_TRIES    100u
#define ATTACH_AGAIN_MS 20

/* One that has attached: the process that waits, and the streams it gave. */
struct attached {
    int conn, in, out;
};

static int listener = -1;
static struct attached now = { -1, -1, -1 }, next = { -1, -1, -1 };
static uint8_t hello[HELLO_ROOM];
static size_t hello_len;
static bool greeted; /* next has sent a good HELLO */
static uint64_t next_end_ms, lease_end_ms;
static uint32_t lease_ms;

/* A socket at an abstract address, by SYS_bind or SYS_connect; -1. */
static int open_address(const char *address, long use)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    size_t len = strlen(address);
    int fd;

    if (len == 0 || len > ADDRESS_MAX) {
        return -1;
    }
    memcpy(name.sun_path + 1, address, len);
    fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && syscall(use, fd, &name, offsetof(struct sockaddr_un, sun_path) + 1 + len) != 0) {
        close_fd(&fd);
    }
    return fd;
}

/* Lets go of the streams; a byte tells the one that waits that its session is over. */
static void let_go(struct attached *who, bool was_session)
{
    if (was_session && who->conn >= 0) {
        send(who->conn, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    close_fd(&who->conn);
    close_fd(&who->in);
    close_fd(&who->out);
}

bool durable_open(const struct durable *durable)
{
    lease_ms = durable->lease_ms;
    lease_end_ms = now_ms() + lease_ms;
    listener = open_address(durable->address, SYS_bind);
    set_nonblock(listener);
    return listener >= 0 && syscall(SYS_listen, listener, BACKLOG) == 0;
}

void durable_close(void)
{
    let_go(&next, false);
    close_fd(&listener);
}

void durable_set_lease(uint32_t ms)
{
    lease_ms = ms;
}

/* Only root: the commands may have this program's own user id, but never gain root's. */
static void accept_next(void)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    int conn = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (conn < 0) {
        return;
    }
    if (syscall(SYS_getsockopt, conn, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || peer.uid != 0) {
        close(conn);
        return;
    }
    let_go(&next, false);
    next.conn = conn;
    hello_len = 0;
    next_end_ms = now_ms() + HELLO_WAIT_MS;
}

/* Takes the two streams; false: it gave something else. */
static bool take_streams(void)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    char byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    ssize_t n = syscall(SYS_recvmsg, next.conn, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int streams[2] = { -1, -1 };

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    /* What did not fit is closed already. */
    if (n > 0 && head != NULL && head->cmsg_type == SCM_RIGHTS) {
        memcpy(streams, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    }
    next.in = streams[0];
    next.out = streams[1];
    set_nonblock(next.in);
    return next.out >= 0 && (message.msg_flags & MSG_CTRUNC) == 0;
}

/* Reads not a byte more than the HELLO; false: it is none. */
static bool read_hello(void)
{
    struct frame frame = { .len = get_u32(hello), .payload = hello + WALDO_HAND_HEADER_LEN };
    size_t want = WALDO_HAND_HEADER_LEN + (hello_len >= WALDO_HAND_HEADER_LEN ? frame.len : 0);
    ssize_t n = read(next.in, hello + hello_len, want - hello_len);

    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    hello_len += (size_t)n;
    if (hello_len < want) {
        return true;
    }
    frame.len = get_u32(hello);
    frame.type = hello[4];
    frame.id = get_u32(hello + 5);
    if (hello_len == WALDO_HAND_HEADER_LEN) {
        return frame.type == WALDO_HAND_HELLO && frame.len > 0 &&
               frame.len <= HELLO_ROOM - WALDO_HAND_HEADER_LEN;
    }
    greeted = check_hello(&frame) == 0;
    return greeted;
}

void durable_poll(struct pollfd fds[DURABLE_FDS])
{
    fds[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = now.conn, .events = POLLIN };
    fds[2] = (struct pollfd){ .fd = next.in >= 0 ? next.in : next.conn, .events = POLLIN };
}

int durable_ready(const struct pollfd fds[DURABLE_FDS])
{
    if (fds[2].revents != 0 && !(next.in >= 0 ? read_hello() : take_streams())) {
        let_go(&next, false);
    }
    if (greeted) {
        return now.in >= 0 ? WALDO_HAND_E_TAKEN : -1;
    }
    if (fds[0].revents != 0) {
        accept_next();
    }
    /* The process that waits ended before its session. */
    return fds[1].revents != 0 ? -1 : 0;
}

bool durable_next(struct inbuf *input, int *ret_in, int *ret_out)
{
    input->start = input->end = 0;
    let_go(&now, true);
    lease_end_ms = now_ms() + lease_ms;
    if (!greeted) {
        return false;
    }
    greeted = false;
    now = next;
    next = (struct attached){ -1, -1, -1 };
    memcpy(input->bytes, hello, hello_len);
    input->end = hello_len;
    *ret_in = now.in;
    *ret_out = now.out;
    return true;
}

int64_t durable_step(void)
{
    uint64_t time = now_ms(), end = now.in < 0 ? lease_end_ms : UINT64_MAX;

    if (listener < 0) {
        return -1;
    }
    if (time >= end) {
        return 0;
    }
    if (next.conn >= 0) {
        if (time >= next_end_ms) {
            let_go(&next, false);
        } else {
            end = next_end_ms < end ? next_end_ms : end;
        }
    }
    return end == UINT64_MAX ? -1 : (int64_t)(end - time);
}

/* Hands stdin and stdout over. */
static bool give_streams(int fd)
{
    static const int streams[2] = { STDIN_FILENO, STDOUT_FILENO };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof streams)];
    } control = { .head = { .cmsg_len = CMSG_LEN(sizeof streams),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS } };
    char byte = 0;
    struct iovec part = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };

    memcpy(CMSG_DATA(&control.head), streams, sizeof streams);
    return syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL) == 1;
}

int attach_main(const char *address)
{
    char byte;
    int fd;

    control_process(PR_SET_DUMPABLE, 0);
    open_standard_fds();
    /* The durable hand may have been started a moment ago. */
    for (unsigned i = 0; (fd = open_address(address, SYS_connect)) < 0 && i < ATTACH_TRIES; i++) {
        wait_fds(NULL, 0, ATTACH_AGAIN_MS);
    }
    if (fd < 0 || !give_streams(fd)) {
        return WALDO_HAND_STATUS_ABSENT;
    }
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close_between(3, (unsigned)fd - 1);
    close_between((unsigned)fd + 1, ~0u);
    return read(fd, &byte, 1) == 1 ? WALDO_HAND_STATUS_OK : WALDO_HAND_STATUS_ABSENT;
}
