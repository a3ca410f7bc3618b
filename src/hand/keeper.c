#define _GNU_SOURCE
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys.h"
#include "tree.h"
#include "wire.h"

#define KEEP_MAX     64
#define KILL_WAIT_MS 2000u
#define TICK_MS      5
#define EXIT_HEAD    12u

extern char **environ;

struct keeper {
    int control, in, out, stderr_read, stderr_write;
    int keep[KEEP_MAX];
    size_t keep_count;
    char **program;
    pid_t pid; /* 0 once it was waited for */
    pid_t group;
    bool killing, empty;
    uint64_t kill_end_ms;
    uint8_t how;
    int value;
    size_t stderr_total;
    uint8_t stderr_text[WALDO_HAND_STDERR_MAX];
};

/* Written by the forked child, which shares memory until exec. */
static volatile int exec_errno;

static bool parse_fd(const char *text, int *ret_fd)
{
    long value = 0;

    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || value > 1000000) {
            return false;
        }
        value = value * 10 + (*text - '0');
    }
    *ret_fd = (int)value;
    return value > 2 && control_fd((int)value, F_GETFD, 0) >= 0;
}

/* Reads CONTROL IN OUT [KEEP...] -- PROGRAM [ARG...]; keeps KEEP in rising order. */
static bool parse_args(struct keeper *k, int count, char **args)
{
    int *const first[] = { &k->control, &k->in, &k->out };
    int at = 0, fd;

    for (; at < count && strcmp(args[at], "--") != 0; at++) {
        size_t place;

        if (!parse_fd(args[at], &fd)) {
            return false;
        }
        if (at < 3) {
            *first[at] = fd;
            continue;
        }
        if (k->keep_count == KEEP_MAX) {
            return false;
        }
        for (place = k->keep_count++; place > 0 && k->keep[place - 1] > fd; place--) {
            k->keep[place] = k->keep[place - 1];
        }
        k->keep[place] = fd;
    }
    k->program = args + at + 1;
    return at >= 3 && at + 1 < count && has_slash(k->program[0]);
}

static void send_all(struct keeper *k, const uint8_t *bytes, size_t len)
{
    while (k->control >= 0 && len > 0) {
        ssize_t n = send(k->control, bytes, len, MSG_NOSIGNAL);

        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (errno != EINTR) {
            close_fd(&k->control);
        }
    }
}

static void send_failed(struct keeper *k, int err, uint8_t phase)
{
    uint8_t frame[WALDO_HAND_HEADER_LEN + WALDO_HAND_START_ERROR_LEN];

    put_header(frame, WALDO_HAND_START_ERROR_LEN, WALDO_HAND_KEEPER_FAILED, 0);
    start_error_encode(frame + WALDO_HAND_HEADER_LEN, err, phase);
    send_all(k, frame, sizeof frame);
}

static void send_started(struct keeper *k)
{
    uint8_t frame[WALDO_HAND_HEADER_LEN + 4];

    put_header(frame, 4, WALDO_HAND_KEEPER_STARTED, 0);
    put_u32(frame + WALDO_HAND_HEADER_LEN, (uint32_t)k->pid);
    send_all(k, frame, sizeof frame);
}

static void send_exit(struct keeper *k)
{
    uint8_t frame[WALDO_HAND_HEADER_LEN + EXIT_HEAD + WALDO_HAND_STDERR_MAX] = { 0 };
    uint8_t *payload = frame + WALDO_HAND_HEADER_LEN;
    size_t kept = k->stderr_total < WALDO_HAND_STDERR_MAX ? k->stderr_total : WALDO_HAND_STDERR_MAX;

    put_header(frame, EXIT_HEAD + kept, WALDO_HAND_KEEPER_EXIT, 0);
    payload[0] = k->how;
    payload[1] = k->empty;
    put_u32(payload + 4, (uint32_t)k->value);
    put_u32(payload + 8, k->stderr_total < UINT32_MAX ? (uint32_t)k->stderr_total : UINT32_MAX);
    memcpy(payload + EXIT_HEAD, k->stderr_text, kept);
    send_all(k, frame, WALDO_HAND_HEADER_LEN + EXIT_HEAD + kept);
}

/* The child's part: system calls only. */
static _Noreturn void child(const struct keeper *k)
{
    unsigned first = 3;

    setpgid(0, 0);
    control_process(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(k->in, 0) < 0 || dup2(k->out, 1) < 0 || dup2(k->stderr_write, 2) < 0) {
        exec_errno = errno;
        _exit(127);
    }
    for (size_t i = 0; i < k->keep_count; i++) {
        if (k->keep[i] > (int)first) {
            close_between(first, (unsigned)k->keep[i] - 1);
        }
        control_fd(k->keep[i], F_SETFD, 0);
        first = (unsigned)k->keep[i] + 1;
    }
    close_between(first, ~0u);
    signals_unblock();
    execve(k->program[0], k->program, environ);
    exec_errno = errno;
    _exit(127);
}

/* Starts the program and gives up every descriptor that is only the program's. */
static bool start(struct keeper *k)
{
    int ends[2], err;

    if (make_pipe(ends) != 0) {
        send_failed(k, errno, WALDO_HAND_PHASE_RESOURCES);
        return false;
    }
    set_nonblock(ends[0]);
    k->stderr_read = ends[0];
    k->stderr_write = ends[1];
    k->pid = vfork();
    if (k->pid == 0) {
        child(k);
    }
    err = k->pid < 0 ? errno : exec_errno;
    close_fd(&k->stderr_write);
    close_fd(&k->in);
    close_fd(&k->out);
    for (size_t i = 0; i < k->keep_count; i++) {
        close(k->keep[i]);
    }
    if (err != 0) {
        send_failed(k, err, k->pid < 0 ? WALDO_HAND_PHASE_RESOURCES : WALDO_HAND_PHASE_EXEC);
        return false;
    }
    k->group = k->pid;
    return true;
}

/* Closes all that was inherited but not named: a host's pipe must not live on in here. */
static void drop_inherited(const struct keeper *k)
{
    int wanted[KEEP_MAX + 3];
    size_t count = 0;
    unsigned first = 3;

    memcpy(wanted, k->keep, k->keep_count * sizeof *wanted);
    count = k->keep_count;
    wanted[count++] = k->control;
    wanted[count++] = k->in;
    wanted[count++] = k->out;
    for (size_t i = 1; i < count; i++) {
        int moved = wanted[i];
        size_t at = i;

        for (; at > 0 && wanted[at - 1] > moved; at--) {
            wanted[at] = wanted[at - 1];
        }
        wanted[at] = moved;
    }
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] > (int)first) {
            close_between(first, (unsigned)wanted[i] - 1);
        }
        if (wanted[i] >= (int)first) {
            first = (unsigned)wanted[i] + 1;
        }
    }
    close_between(first, ~0u);
    close(0);
    close(1);
    close(2);
    open_standard_fds();
}

static void begin_killing(struct keeper *k)
{
    if (!k->killing) {
        k->killing = true;
        k->kill_end_ms = now_ms() + KILL_WAIT_MS;
    }
}

static void reap(struct keeper *k)
{
    int status;

    for (;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);

        if (pid == 0) {
            return;
        }
        if (pid < 0) {
            if (errno == EINTR) {
                continue;
            }
            k->empty = true;
            return;
        }
        if (pid == k->pid) {
            k->pid = 0;
            k->how = WIFEXITED(status) ? WALDO_HAND_HOW_EXITED : WALDO_HAND_HOW_SIGNALLED;
            k->value = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
            begin_killing(k);
        }
    }
}

static void read_stderr(struct keeper *k)
{
    uint8_t chunk[4096];

    while (k->stderr_read >= 0) {
        ssize_t n = read(k->stderr_read, chunk, sizeof chunk);

        if (n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                close_fd(&k->stderr_read);
            }
            return;
        }
        if (k->stderr_total < WALDO_HAND_STDERR_MAX) {
            size_t room = WALDO_HAND_STDERR_MAX - k->stderr_total;

            memcpy(k->stderr_text + k->stderr_total, chunk, (size_t)n < room ? (size_t)n : room);
        }
        k->stderr_total += (size_t)n;
    }
}

/* KEEPER_KILL is the only request: whatever comes, or the end of the stream, means to kill. */
static void read_control(struct keeper *k)
{
    uint8_t bytes[64];
    ssize_t n = recv(k->control, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        close_fd(&k->control);
    }
    begin_killing(k);
}

static void loop(struct keeper *k)
{
    while (!k->empty && !(k->killing && now_ms() >= k->kill_end_ms)) {
        struct pollfd fds[2] = { { .fd = k->control, .events = POLLIN },
                                 { .fd = k->stderr_read, .events = POLLIN } };

        if (k->control < 0) {
            begin_killing(k);
        }
        if (wait_fds(fds, 2, k->killing ? TICK_MS : -1) > 0) {
            if (fds[0].revents != 0) {
                read_control(k);
            }
            if (fds[1].revents != 0) {
                read_stderr(k);
            }
        }
        reap(k);
        if (k->killing && !k->empty) {
            if (k->pid != 0) {
                kill(-k->group, SIGKILL);
            }
            tree_signal(SIGKILL, NULL, 0);
        }
    }
    read_stderr(k);
}

int keeper_main(int count, char **args)
{
    static struct keeper k;

    if (!parse_args(&k, count, args)) {
        return WALDO_HAND_STATUS_USAGE;
    }
    control_process(PR_SET_CHILD_SUBREAPER, 1);
    drop_inherited(&k);
    signals_init(false);
    control_fd(k.control, F_SETFD, FD_CLOEXEC);
    if (!start(&k)) {
        return 0;
    }
    send_started(&k);
    loop(&k);
    send_exit(&k);
    return 0;
}
