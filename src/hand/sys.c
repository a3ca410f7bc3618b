#define _GNU_SOURCE
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Kernel numbers that an older libc may lack; the same on x86-64 and arm64. */
#define NR_CLOSE_RANGE 436
#define NR_OPENAT2     437

/* Of asm-generic/ioctls.h, for both architectures; opens the other side without its name. */
#define GET_PTY_PEER 0x5441

#define RESOLVE_FLAGS (0x02u | 0x08u) /* RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH */
#define NOREPLACE     1u
#define EXCHANGE      2u

#define UNWATCHED_TICK_MS 20

/* struct open_how of linux/openat2.h, which musl's include path does not hold. */
struct how {
    uint64_t flags, mode, resolve;
};

/* Signals are blocked, and those that matter are read from here. */
static int signal_fd = -1;
static uint64_t watched; /* bit 0 is signal 1 */
static bool end_seen;

uint64_t now_ns(void)
{
    struct timespec ts;

    /* Without the vDSO, whose reading is 900 bytes of code and saves 100 ns. */
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t now_ms(void)
{
    return now_ns() / 1000000u;
}

int make_pipe(int fds[2])
{
    return (int)syscall(SYS_pipe2, fds, O_CLOEXEC);
}

void set_nonblock(int fd)
{
    int flags = control_fd(fd, F_GETFL, 0);

    if (flags >= 0) {
        control_fd(fd, F_SETFL, flags | O_NONBLOCK);
    }
}

void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

int control_fd(int fd, int command, long value)
{
    return (int)syscall(SYS_fcntl, fd, command, value);
}

int control_device(int fd, unsigned long command, long value)
{
    return (int)syscall(SYS_ioctl, fd, command, value);
}

int copy_fd(int from, int to, int flags)
{
    return (int)syscall(SYS_dup3, from, to, flags);
}

int make_socket_pair(int fds[2])
{
    return (int)syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds);
}

void close_between(unsigned first, unsigned last)
{
    struct rlimit limit;

    if (first > last || syscall(NR_CLOSE_RANGE, first, last, 0u) == 0) {
        return;
    }
    /* A kernel before 5.9: one by one. */
    if (syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) == 0 && limit.rlim_cur < last) {
        last = (unsigned)limit.rlim_cur;
    }
    for (unsigned fd = first; fd <= last && fd < 65536; fd++) {
        close((int)fd);
    }
}

void open_standard_fds(void)
{
    int ends[2], fd;

    do {
        fd = open_path("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd >= 0) {
        close(fd);
        return;
    }
    /* No /dev: pipes without a peer do as well. */
    while (make_pipe(ends) == 0 && ends[0] <= 2) {
    }
    close(ends[0]);
    close(ends[1]);
}

bool have_pty(void)
{
    return access("/dev/ptmx", R_OK | W_OK) == 0;
}

void resize_pty(int fd, uint16_t rows, uint16_t columns)
{
    struct winsize size = { .ws_row = rows, .ws_col = columns };

    control_device(fd, TIOCSWINSZ, (long)&size);
}

bool make_pty(int fds[2], uint16_t rows, uint16_t columns)
{
    int unlock = 0;

    fds[0] = open_path("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (fds[0] < 0) {
        return false;
    }
    resize_pty(fds[0], rows, columns);
    fds[1] = control_device(fds[0], TIOCSPTLCK, (long)&unlock);
    if (fds[1] == 0) {
        fds[1] = control_device(fds[0], GET_PTY_PEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    if (fds[1] < 0) {
        int err = errno;

        close(fds[0]);
        errno = err;
    }
    return fds[1] >= 0;
}

bool is_readable(int fd)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };

    return syscall(SYS_ppoll, &one, 1L, &(struct timespec){ 0 }, NULL, 0L) > 0;
}

void *map_pages(size_t size)
{
    long at =
        syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    void *pages = (void *)at;

    if (at == -1) {
        return NULL;
    }
    madvise(pages, size, MADV_DONTFORK);
    return pages;
}

void unmap_pages(void *pages, size_t size)
{
    if (pages != NULL) {
        syscall(SYS_munmap, pages, size);
    }
}

pid_t fork_alone(void)
{
    /* musl's own takes and releases the locks of threads. */
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
}

int control_process(int option, unsigned long value)
{
    return (int)syscall(SYS_prctl, option, value, 0L, 0L, 0L);
}

int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
    return (int)syscall(SYS_openat, dirfd, path, flags | O_CLOEXEC, mode);
}

int open_path(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0644);
}

/* On 64-bit architectures the kernel fills in the very struct that programs see. */
int stat_at(int dirfd, const char *path, int flags, struct stat *ret_st)
{
    return (int)syscall(SYS_newfstatat, dirfd, path, ret_st, flags);
}

int stat_fd(int fd, struct stat *ret_st)
{
    return (int)syscall(SYS_fstat, fd, ret_st);
}

int chmod_at(int dirfd, const char *path, mode_t mode)
{
    return (int)syscall(SYS_fchmodat, dirfd, path, mode);
}

int chmod_fd(int fd, mode_t mode)
{
    return (int)syscall(SYS_fchmod, fd, mode);
}

ssize_t read_link(int dirfd, const char *path, char *buf, size_t size)
{
    return syscall(SYS_readlinkat, dirfd, path, buf, size);
}

/* Behind openat2's arguments, where the kernel does not look and our filter does. */
static uint64_t password;

static int open_how(int dirfd, const char *path, int flags, mode_t mode)
{
    struct how how = { .flags = (uint64_t)flags | O_CLOEXEC,
                       .mode = mode,
                       .resolve = RESOLVE_FLAGS };
    long fd = -1;

    /* EAGAIN: something on the way was renamed meanwhile. */
    for (int tries = 0; tries < 16; tries++) {
        fd = syscall(NR_OPENAT2, dirfd, path, &how, sizeof how, password);
        if (fd >= 0 || errno != EAGAIN) {
            break;
        }
    }
    return (int)fd;
}

bool have_openat2(void)
{
    static enum { UNKNOWN, YES, NO } answer;

    if (answer == UNKNOWN) {
        int fd = open_how(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);

        /* Old container engines answer EPERM to calls that their filter does not know. */
        answer = fd >= 0 || (errno != ENOSYS && errno != EPERM) ? YES : NO;
        close_fd(&fd);
    }
    return answer == YES;
}

/* The same in steps, for kernels and filters without openat2: it follows no link at all. */
static int walk(int dirfd, const char *path, int flags, mode_t mode)
{
    int at = dirfd, fd = -1;
    bool last = false;

    while (!last) {
        size_t len = strcspn(path, "/"), skip = len + strspn(path + len, "/");
        char name[256];

        last = path[skip] == '\0';
        errno = len < sizeof name ? EXDEV : ENAMETOOLONG;
        fd = -1;
        if (len > 0 && len < sizeof name) {
            memcpy(name, path, len);
            name[len] = '\0';
            if (strcmp(name, "..") != 0) {
                fd = open_at(at, name, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW, mode);
            }
        }
        if (at != dirfd) {
            int err = errno;

            close(at);
            errno = err;
        }
        if (fd < 0) {
            return -1;
        }
        at = fd;
        path += skip;
    }
    return fd;
}

int open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
    return (have_openat2() ? open_how : walk)(dirfd, path, flags, mode);
}

bool filter_openat2(void)
{
    /*
     * Load the number; is it openat2's, the same everywhere? Then both halves of the password,
     * else ENOSYS. All else is allowed.
     */
    static struct instruction {
        uint16_t code;
        uint8_t if_true, if_false;
        uint32_t value;
    } code[] = {
        { 0x20, 0, 0, 0 },
        { 0x15, 0, 5, NR_OPENAT2 },
        { 0x20, 0, 0, 48 },
        { 0x15, 0, 2, 0 },
        { 0x20, 0, 0, 52 },
        { 0x15, 1, 0, 0 },
        { 0x06, 0, 0, 0x00050000u | ENOSYS },
        { 0x06, 0, 0, 0x7fff0000u },
    };
    static const struct {
        uint16_t len;
        const struct instruction *code;
    } program = { sizeof code / sizeof *code, code };

    control_process(PR_SET_NO_NEW_PRIVS, 1);
    if (syscall(SYS_getrandom, &password, sizeof password, 0) != sizeof password) {
        return false;
    }
    code[3].value = (uint32_t)password;
    code[5].value = (uint32_t)(password >> 32);
    return syscall(SYS_prctl, PR_SET_SECCOMP, 2, &program) == 0;
}

int rename_noreplace(int from_dir, const char *from, int to_dir, const char *to)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, NOREPLACE);
}

int swap_names(int dir, const char *one, const char *other)
{
    return (int)syscall(SYS_renameat2, dir, one, dir, other, EXCHANGE);
}

ssize_t read_dents(int fd, void *buf, size_t size)
{
    return syscall(SYS_getdents64, fd, buf, size);
}

int make_memory_file(const char *name)
{
    return (int)syscall(SYS_memfd_create, name, 0u);
}

size_t length_until(const char *text, char stop)
{
    size_t len = 0;

    while (text[len] != '\0' && text[len] != stop) {
        len++;
    }
    return len;
}

bool has_slash(const char *text)
{
    return text[length_until(text, '/')] != '\0';
}

/* Nothing of the kernel's struct sigaction is set: the default action. */
static const uint64_t default_action[4];

static void set_mask(uint64_t mask)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

#define SIGNAL_BIT(sig) (UINT64_C(1) << ((sig)-1))

static int watch(void)
{
    return (int)syscall(SYS_signalfd4, -1, &watched, sizeof watched, O_CLOEXEC | O_NONBLOCK);
}

void signals_init(bool is_server)
{
    watched = SIGNAL_BIT(SIGCHLD);
    close_fd(&signal_fd);
    set_mask(~UINT64_C(0));
    for (int sig = 1; sig <= 64; sig++) {
        syscall(SYS_rt_sigaction, sig, default_action, NULL, sizeof watched);
    }
    if (is_server) {
        watched |= SIGNAL_BIT(SIGTERM) | SIGNAL_BIT(SIGINT) | SIGNAL_BIT(SIGHUP);
    }
    signal_fd = watch();
}

void signals_move(int fd)
{
    int fresh = watch();

    signal_fd = copy_fd(fresh, fd, O_CLOEXEC);
    close(fresh);
    if (signal_fd < 0) {
        close(fd);
    }
}

static void read_signals(void)
{
    struct signalfd_siginfo info;

    while (read(signal_fd, &info, sizeof info) > 0) {
        end_seen = end_seen || info.ssi_signo != SIGCHLD;
    }
}

bool signal_end_seen(void)
{
    return end_seen;
}

int wait_fds(struct pollfd *fds, size_t count, int64_t timeout_ms)
{
    static struct pollfd all[WAIT_FDS_MAX + 1];
    struct timespec ts;
    int ready;

    /* Could the signals not be watched, children and ends are looked for from time to time. */
    if (signal_fd < 0 && (timeout_ms < 0 || timeout_ms > UNWATCHED_TICK_MS)) {
        timeout_ms = UNWATCHED_TICK_MS;
    }
    ts.tv_sec = timeout_ms / 1000;
    ts.tv_nsec = timeout_ms % 1000 * 1000000;
    memcpy(all, fds, count * sizeof *fds);
    all[count] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
    ready = (int)syscall(SYS_ppoll, all, count + 1, timeout_ms < 0 ? NULL : &ts, NULL, 0L);
    if (ready > 0 && all[count].revents != 0) {
        read_signals();
        ready--;
    }
    memcpy(fds, all, count * sizeof *fds);
    return ready;
}

void signals_unblock(void)
{
    set_mask(0);
}
