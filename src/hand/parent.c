#define _GNU_SOURCE
#include "parent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawn.h"
#include "sys.h"
#include "tree.h"

#define CONTROL_FD   4
#define SIGNAL_FD    5
#define KILL_TICK_MS 2
#define SLOW_TICK_MS 50
#define TELL_MS      1 /* a command that ends sooner has its start told with its end */

enum state {
    RUNNING, /* the leader runs, or it ended and others live on (reported) */
    ENDING,  /* SIGTERM was sent, the grace runs */
    KILLING, /* SIGKILL until nothing is left */
};

struct parent {
    const struct run *run;
    int control;
    enum state state;
    pid_t leader; /* 0 once it was waited for */
    pid_t leader_group;
    bool reported, empty; /* EXIT was reported; no process is left */
    bool holds;           /* its outputs, until it reports the end: then nobody else has them */
    struct report untold; /* of the start; kind 0: told */
    uint64_t start_ns, deadline_ms;
    uint64_t state_end_ms; /* ENDING: time of SIGKILL; KILLING: time of the report */
    uint32_t tick_ms;
    int64_t oom_kills; /* of the sandbox when it started; -1: cannot be seen */
    struct exit_info exit;
};

static void send_report(struct parent *p, const struct report *report)
{
    if (p->control >= 0) {
        send(p->control, report, sizeof *report, MSG_NOSIGNAL);
    }
}

static void report_start(struct parent *p)
{
    if (p->untold.kind != 0) {
        send_report(p, &p->untold);
        p->untold.kind = 0;
    }
}

/* The pipes, or the terminal, must end when the command's processes end. */
static void release_fds(void)
{
    for (int fd = 0; fd < CONTROL_FD; fd++) {
        close(fd);
    }
}

/*
 * A terminal stays open while the leader lives: it may close it and open it again by name. So do
 * outputs where every orphan comes here: a command's end is then one event for the hand, not three.
 */
static void release_early(struct parent *p)
{
    if ((p->run->flags & WALDO_HAND_RUN_PTY) != 0) {
        p->holds = false;
    } else if (p->holds) {
        close(STDIN_FILENO);
        close(SCRIPT_FD);
    } else {
        release_fds();
    }
}

static void report_exit(struct parent *p)
{
    struct report report = { .kind = REPORT_EXIT };

    if (p->reported) {
        return;
    }
    p->reported = true;
    if (p->exit.how == WALDO_HAND_HOW_UNKNOWN) {
        p->exit.wall_ns = now_ns() - p->start_ns;
    }
    if (!p->empty) {
        p->exit.flags |=
            p->state == RUNNING ? WALDO_HAND_EXIT_LEFTOVERS : WALDO_HAND_EXIT_UNCONFIRMED;
        release_fds();
    }
    report.alone = p->empty && p->holds;
    report.exit = p->exit;
    report_start(p);
    send_report(p, &report);
}

/* How often the kernel killed in this sandbox's cgroup for want of memory; -1: cannot be seen. */
static int64_t count_oom_kills(void)
{
    static const char key[] = "oom_kill ";
    char text[512];
    int fd = open_path("/sys/fs/cgroup/memory.events", O_RDONLY);
    int64_t count = 0;
    const char *at = text;
    ssize_t n;

    if (fd < 0) {
        fd = open_path("/sys/fs/cgroup/memory/memory.oom_control", O_RDONLY);
    }
    n = read(fd, text, sizeof text - 1);
    close_fd(&fd);
    text[n > 0 ? n : 0] = '\0';
    while (strncmp(at, key, sizeof key - 1) != 0) {
        at += length_until(at, '\n');
        if (*at++ == '\0') {
            return -1;
        }
    }
    for (at += sizeof key - 1; *at >= '0' && *at <= '9'; at++) {
        count = count * 10 + (*at - '0');
    }
    return count;
}

static void leader_ended(struct parent *p, int status, const struct rusage *usage)
{
    struct exit_info *info = &p->exit;

    p->leader = 0;
    if ((p->run->flags & WALDO_HAND_RUN_PTY) != 0) {
        release_fds();
    }
    if (WIFEXITED(status)) {
        info->how = WALDO_HAND_HOW_EXITED;
        info->value = WEXITSTATUS(status);
    } else {
        info->how = WALDO_HAND_HOW_SIGNALLED;
        info->value = WTERMSIG(status);
        if (WCOREDUMP(status)) {
            info->flags |= WALDO_HAND_EXIT_CORE;
        }
    }
    if ((info->how != WALDO_HAND_HOW_EXITED || info->value != 0) && p->oom_kills >= 0 &&
        count_oom_kills() > p->oom_kills) {
        info->flags |= WALDO_HAND_EXIT_OOM;
    }
    info->wall_ns = now_ns() - p->start_ns;
    info->user_us = (uint64_t)usage->ru_utime.tv_sec * 1000000u + (uint64_t)usage->ru_utime.tv_usec;
    info->system_us =
        (uint64_t)usage->ru_stime.tv_sec * 1000000u + (uint64_t)usage->ru_stime.tv_usec;
    info->max_rss_kb = (uint64_t)usage->ru_maxrss;
}

/* Waits for all that ended. Everything below is a child of this process or will become one. */
static void reap(struct parent *p)
{
    struct rusage usage;
    int status;

    for (;;) {
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);

        if (pid > 0 && pid == p->leader) {
            leader_ended(p, status, &usage);
        } else if (pid == 0) {
            return;
        } else if (pid < 0 && errno != EINTR) {
            p->empty = true;
            return;
        }
    }
}

/* Signals the tree; without /proc the group is all that can be named. */
static void signal_tree(struct parent *p, int sig)
{
    if (p->leader != 0) {
        kill(-p->leader_group, sig);
    }
    if (sig == SIGKILL) {
        tree_signal(SIGKILL, NULL, 0);
    }
}

/* For signals other than SIGKILL: once to each process, group members included. */
static void notify_tree(struct parent *p, int sig)
{
    if (tree_signal(sig, NULL, 0) < 0 && p->leader != 0) {
        kill(-p->leader_group, sig);
    }
}

static void begin_killing(struct parent *p)
{
    if (p->state == KILLING) {
        return;
    }
    p->state = KILLING;
    p->tick_ms = KILL_TICK_MS;
    p->state_end_ms = now_ms() + WALDO_HAND_KILL_WAIT_MS;
    p->exit.flags |= WALDO_HAND_EXIT_KILLED;
}

static void begin_ending(struct parent *p, uint32_t reason, uint32_t grace_ms)
{
    uint64_t end_ms = now_ms() + grace_ms;

    if (p->state == RUNNING) {
        p->exit.flags |= reason;
        p->state = ENDING;
        p->state_end_ms = end_ms;
        if (grace_ms > 0) {
            notify_tree(p, SIGTERM);
            /* A stopped process takes the signal only when it goes on. */
            notify_tree(p, SIGCONT);
        }
    } else if (p->state == ENDING && end_ms < p->state_end_ms) {
        p->state_end_ms = end_ms;
    }
    if (p->state == ENDING && grace_ms == 0) {
        begin_killing(p);
    }
}

static void on_signal_order(struct parent *p, const struct order *order)
{
    if (order->scope == WALDO_HAND_SCOPE_TREE) {
        notify_tree(p, order->sig);
    } else if (p->leader != 0) {
        kill(order->scope == WALDO_HAND_SCOPE_GROUP ? -p->leader_group : p->leader, order->sig);
    }
}

static void read_orders(struct parent *p)
{
    struct order order;

    for (;;) {
        ssize_t n = recv(p->control, &order, sizeof order, MSG_DONTWAIT);

        if (n == (ssize_t)sizeof order) {
            if (order.kind == ORDER_SIGNAL) {
                on_signal_order(p, &order);
            } else {
                begin_ending(p, WALDO_HAND_EXIT_CANCELLED,
                             order.grace_ms == WALDO_HAND_GRACE_OF_JOB ? p->run->grace_ms
                                                                       : order.grace_ms);
            }
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            /* The server is gone: nobody will ever ask for this tree again. */
            close_fd(&p->control);
            begin_killing(p);
            return;
        }
    }
}

/* Time until something is due, -1 for never. */
static int64_t next_timeout(const struct parent *p, uint64_t now)
{
    uint64_t due = p->state_end_ms;

    if (p->untold.kind != 0) {
        return TELL_MS;
    }
    if (p->state == KILLING) {
        return p->tick_ms;
    }
    if (p->state == RUNNING) {
        if (p->deadline_ms == 0 || p->reported) {
            return -1;
        }
        due = p->deadline_ms;
    }
    return due > now ? (int64_t)(due - now) : 0;
}

static void on_time(struct parent *p)
{
    uint64_t now = now_ms();

    if (p->state == RUNNING && !p->reported && p->deadline_ms != 0 && now >= p->deadline_ms) {
        begin_ending(p, WALDO_HAND_EXIT_TIMED_OUT, p->run->grace_ms);
    }
    if (p->state == ENDING && now >= p->state_end_ms) {
        begin_killing(p);
    }
    if (p->state == KILLING) {
        if (now >= p->state_end_ms) {
            report_exit(p);
            p->tick_ms = SLOW_TICK_MS;
        }
        signal_tree(p, SIGKILL);
    }
}

/* What the waiting found out: the leader's end, or the end of all. */
static void settle(struct parent *p)
{
    reap(p);
    if (p->state == RUNNING && p->leader == 0) {
        if (!p->reported && !p->empty && (p->run->flags & WALDO_HAND_RUN_KILL_LEFTOVERS) != 0) {
            begin_killing(p);
            return;
        }
        report_exit(p);
    } else if (p->empty) {
        report_exit(p);
    }
}

static void loop(struct parent *p)
{
    while (!p->empty) {
        struct pollfd fd = { .fd = p->control, .events = POLLIN };

        if (wait_fds(&fd, 1, next_timeout(p, now_ms())) > 0) {
            read_orders(p);
        }
        settle(p);
        if (!p->empty) {
            report_start(p);
            on_time(p);
        }
    }
}

/* Puts the command's descriptors to 0, 1, 2, the control socket to 4, signals to 5; no others. */
static bool place_fds(const struct job_fds *fds)
{
    if (dup2(fds->in, 0) < 0 || dup2(fds->out >= 0 ? fds->out : 0, 1) < 0 ||
        dup2(fds->err >= 0 ? fds->err : 1, 2) < 0) {
        return false;
    }
    if (fds->control != CONTROL_FD && copy_fd(fds->control, CONTROL_FD, O_CLOEXEC) < 0) {
        return false;
    }
    close(3);
    signals_move(SIGNAL_FD);
    close_between(SIGNAL_FD + 1, ~0u);
    return true;
}

void parent_main(const struct run *run, const struct job_fds *fds)
{
    struct parent p = { .run = run, .control = CONTROL_FD };
    struct report report = { .kind = REPORT_STARTED };
    int err = 0;

    p.holds = control_process(PR_SET_CHILD_SUBREAPER, 1) == 0;
    if (!place_fds(fds)) {
        _exit(1);
    }
    p.oom_kills = count_oom_kills();
    p.start_ns = now_ns();
    if (run->timeout_ms != 0) {
        p.deadline_ms = p.start_ns / 1000000u + run->timeout_ms;
    }
    p.leader = spawn_run(run, &err, &report.phase);
    if (p.leader < 0) {
        report.kind = REPORT_ERROR;
        report.err = err;
        send_report(&p, &report);
        _exit(0);
    }
    release_early(&p);
    p.leader_group = p.leader;
    report.pid = (uint32_t)p.leader;
    p.untold = report;
    if ((run->flags & (WALDO_HAND_RUN_PTY | WALDO_HAND_RUN_STDIN | WALDO_HAND_RUN_KEEP)) != 0) {
        report_start(&p);
    }
    loop(&p);
    _exit(0);
}
