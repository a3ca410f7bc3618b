/*
 * Children. clone() with exit signal 0 and a pidfd: it shares memory like vfork(), so that a large
 * host pays no copy of its page tables, and it works where a seccomp profile refuses clone3().
 */
#include "loop/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum { STACK_SIZE = 256 * 1024, REPORT_WAIT_MS = 1000, KILLED_WAIT_MS = 1000, EXEC_FAILED = 127 };

/* pidfd_send_signal() to the whole process group, since Linux 6.9. */
#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1u << 2)
#endif

struct waldo__child {
    waldo__loop *loop;
    waldo__watch *watch;
    pid_t pid;
    int pidfd;
    int new_group;
    int reaped;
    int in_callback;
    int freed; /* within the callback */
    waldo__child_fn exited;
    void *userdata;
};

/* ---- in the child, before exec: async-signal-safe calls only, the memory is the parent's ---- */

struct start {
    const waldo__child_options *options;
    int *moved;    /* fd_count numbers above every target */
    int report_fd; /* write end: the errno of what failed */
};

/*
 * Move everything needed out of the way of the targets, close the rest at exec, put targets in
 * place.
 */
static int arrange_descriptors(const struct start *start, int *ret_report_fd, int *ret_exec_fd)
{
    const waldo__child_options *options = start->options;
    int above = 3;

    for (size_t i = 0; i < options->fd_count; i++) {
        above = options->fds[i].to >= above ? options->fds[i].to + 1 : above;
    }
    *ret_report_fd = fcntl(start->report_fd, F_DUPFD_CLOEXEC, above);
    if (*ret_report_fd < 0) {
        *ret_report_fd = start->report_fd;
        return -1;
    }
    if (options->exec_fd >= 0) {
        *ret_exec_fd = fcntl(options->exec_fd, F_DUPFD_CLOEXEC, above);
        if (*ret_exec_fd < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < options->fd_count; i++) {
        start->moved[i] = fcntl(options->fds[i].from, F_DUPFD_CLOEXEC, above);
        if (start->moved[i] < 0) {
            return -1;
        }
    }
    if (syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_CLOEXEC) != 0) {
        return -1;
    }
    for (size_t i = 0; i < options->fd_count; i++) {
        if (dup2(start->moved[i], options->fds[i].to) < 0) {
            return -1;
        }
    }
    return 0;
}

/*
 * An ignored signal would stay ignored over exec; handlers must be gone before the mask is emptied.
 */
static void reset_signals(void)
{
    struct sigaction standard = { .sa_handler = SIG_DFL };
    sigset_t none;

    for (int number = 1; number <= SIGRTMAX; number++) {
        sigaction(number, &standard, NULL);
    }
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static int child_main(void *argument)
{
    const struct start *start = argument;
    const waldo__child_options *options = start->options;
    char *const *argv = (char *const *)options->argv;
    char *const *envp = (char *const *)options->envp;
    int report_fd = -1;
    int exec_fd = -1;
    int error_number;
    ssize_t done;

    if (options->new_group && setpgid(0, 0) != 0) {
        goto fail;
    }
    if (arrange_descriptors(start, &report_fd, &exec_fd) != 0) {
        goto fail;
    }
    reset_signals();
    if (exec_fd >= 0) {
        fexecve(exec_fd, argv, envp);
    } else {
        execve(options->path, argv, envp);
    }

fail:
    error_number = errno;
    done = write(report_fd >= 0 ? report_fd : start->report_fd, &error_number, sizeof error_number);
    (void)done;
    return EXEC_FAILED; /* the exit code, by way of clone() */
}

/* ---- in the parent ---- */

/* All signals are blocked meanwhile, so that no handler of the host runs on shared memory. */
static pid_t start_child(struct start *start, void *stack, int *ret_pidfd)
{
    sigset_t all, old;
    pid_t pid;
    int error_number;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pid = clone(child_main, (char *)stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | CLONE_PIDFD, start,
                ret_pidfd);
    error_number = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error_number;
    return pid;
}

static void reap(waldo__child *child)
{
    siginfo_t info;

    if (!child->reaped) {
        child->reaped = 1;
        waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG | __WALL);
    }
}

static void release(waldo__child *child)
{
    waldo__watch_free(child->watch);
    close(child->pidfd);
    waldo__free(child);
}

/*
 * The status is read first and the process reaped after the callback, so that within it the pid and
 * the group still belong to the child. ECHILD: the host waits for all its children, or ignores
 * SIGCHLD; the status is lost with it.
 */
static void on_exit_event(void *userdata, unsigned events)
{
    waldo__child *child = userdata;
    siginfo_t info = { 0 };
    int code = -1;
    int signal_number = 0;

    (void)events;
    if (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) {
        if (info.si_pid == 0) {
            return;
        }
        code = info.si_code == CLD_EXITED ? info.si_status : 0;
        signal_number = info.si_code == CLD_EXITED ? 0 : info.si_status;
    } else {
        child->reaped = 1;
    }
    waldo__watch_set(child->watch, 0);
    child->in_callback = 1;
    child->exited(child->userdata, code, signal_number);
    child->in_callback = 0;
    reap(child);
    if (child->freed) {
        release(child);
    }
}

static waldo_status start_failed(waldo_error **ret_err, const waldo__child_options *options,
                                 const char *step, int error_number)
{
    return waldo_error_set(ret_err, WALDO_ESTART, WALDO_CLASS_SYSTEM, "cannot start %s: %s%s",
                           options->path != NULL ? options->path : options->argv[0], step,
                           waldo__errno_text(error_number));
}

/*
 * What failed in the child, or 0. When clone() has returned, the child runs its program or is gone
 * (CLONE_VFORK), so there is something to read at once. The limit is for emulators that make it a
 * plain fork, and for a process forked by another thread that holds the pipe open.
 */
static int read_report(int fd)
{
    struct pollfd item = { .fd = fd, .events = POLLIN };
    int error_number = 0;

    poll(&item, 1, REPORT_WAIT_MS);
    return read(fd, &error_number, sizeof error_number) == (ssize_t)sizeof error_number
               ? error_number
               : 0;
}

/* Start it and learn whether it runs its program: 0, or an errno and *ret_step. */
static int start_and_check(waldo__child *child, struct start *start, const char **ret_step)
{
    int report[2];
    int error_number = 0;
    void *stack;

    if (pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0) {
        *ret_step = "no pipe: ";
        return errno;
    }
    stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
                 -1, 0);
    if (stack == MAP_FAILED) {
        error_number = errno;
        close(report[0]);
        close(report[1]);
        return error_number;
    }
    start->report_fd = report[1];
    child->pid = start_child(start, stack, &child->pidfd);
    if (child->pid < 0) {
        error_number = errno;
        child->pidfd = -1;
        *ret_step = "no new process: ";
    }
    close(report[1]);
    if (child->pid >= 0) {
        error_number = read_report(report[0]);
    }
    if (child->pid >= 0 && error_number != 0) {
        siginfo_t info;

        waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | __WALL);
        child->reaped = 1;
    }
    close(report[0]);
    munmap(stack, STACK_SIZE);
    return error_number;
}

waldo_status waldo__child_spawn(waldo__loop *loop, const waldo__child_options *options,
                                waldo__child_fn exited, void *userdata, waldo__child **ret_child,
                                waldo_error **ret_err)
{
    struct start start = { .options = options };
    const char *step = "";
    waldo__child *child;
    waldo_status status;
    int error_number;

    if (waldo__loop_forked(loop)) {
        return waldo_error_set(ret_err, WALDO_EFORKED, WALDO_CLASS_USAGE,
                               "this loop belongs to the parent process");
    }
    child = WALDO__NEW(waldo__child);
    start.moved = waldo__calloc(options->fd_count, sizeof *start.moved);
    if (child == NULL || start.moved == NULL) {
        waldo__free(child);
        waldo__free(start.moved);
        return waldo__error_nomem(ret_err);
    }
    child->loop = loop;
    child->pidfd = -1;
    child->new_group = options->new_group;
    child->exited = exited;
    child->userdata = userdata;
    error_number = start_and_check(child, &start, &step);
    waldo__free(start.moved);
    if (error_number != 0) {
        status = start_failed(ret_err, options, step, error_number);
        goto fail;
    }
    status = waldo__watch_new(loop, child->pidfd, WALDO__READ, on_exit_event, child, &child->watch);
    if (status != WALDO_OK) {
        status = waldo_error_set(ret_err, status, WALDO_CLASS_SYSTEM,
                                 "cannot watch the child process: %s", waldo_status_text(status));
        goto fail;
    }
    *ret_child = child;
    return WALDO_OK;

fail:
    if (child->pidfd >= 0) {
        waldo__child_free(child);
    } else {
        waldo__free(child);
    }
    return status;
}

int waldo__child_pid(const waldo__child *child)
{
    return child->pid;
}

/*
 * Through the pidfd; emulators without the call (ENOSYS) get the number, which is ours till reaped.
 */
static int send_signal(const waldo__child *child, int signal, unsigned flags)
{
    int result = (int)syscall(SYS_pidfd_send_signal, child->pidfd, signal, NULL, flags);

    if (result != 0 && errno == ENOSYS) {
        result = kill(flags != 0 ? -child->pid : child->pid, signal);
    }
    return result;
}

/*
 * Before Linux 6.9 a group can only be reached by number. The number is the child's as long as the
 * child is not reaped, which signal 0 through the pidfd tells.
 */
void waldo__child_kill(waldo__child *child, int signal, int whole_group)
{
    if (child->reaped || waldo__loop_forked(child->loop)) {
        return;
    }
    if (!whole_group || !child->new_group) {
        send_signal(child, signal, 0);
    } else if (send_signal(child, signal, PIDFD_SIGNAL_PROCESS_GROUP) != 0 && errno == EINVAL &&
               send_signal(child, 0, 0) == 0) {
        kill(-child->pid, signal);
    }
}

/* A killed process is gone at once unless the kernel holds it; then its zombie is left to init. */
void waldo__child_free(waldo__child *child)
{
    struct pollfd dead = { .events = POLLIN };

    if (child == NULL) {
        return;
    }
    if (!child->reaped && !waldo__loop_forked(child->loop)) {
        waldo__child_kill(child, SIGKILL, 1);
        dead.fd = child->pidfd;
        poll(&dead, 1, KILLED_WAIT_MS);
        reap(child);
    }
    if (child->in_callback) {
        child->freed = 1;
        return;
    }
    release(child);
}
