#define _GNU_SOURCE
#include "tree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "sys.h"

#define PROCS_MAX 32768

enum mark { MARK_UNKNOWN, MARK_OURS, MARK_KEPT };

struct proc {
    pid_t pid, parent, group, session;
    enum mark mark;
};

/* Touched only as far as there are processes. */
static struct proc procs[PROCS_MAX];

long next_number(const char **at)
{
    long value = 0;

    while (**at >= '0' && **at <= '9') {
        value = value * 10 + (*(*at)++ - '0');
    }
    if (**at == ' ') {
        (*at)++;
    }
    return value;
}

/* Fills in parent, group and session from PID/stat: pid (name) state parent group session ... */
static bool read_proc(int dir, const char *name, struct proc *proc)
{
    char path[32], text[512];
    const char *at;
    size_t len = strlen(name);
    ssize_t n;
    int fd;

    memcpy(path, name, len);
    memcpy(path + len, "/stat", 6);
    fd = open_at(dir, path, O_RDONLY, 0);
    if (fd < 0) {
        return false;
    }
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    /* The name may hold any bytes, blanks and brackets too: the last bracket ends it. */
    at = strrchr(text, ')');
    if (at == NULL || strlen(at) < 4) {
        return false;
    }
    at += 4;
    proc->parent = (pid_t)next_number(&at);
    proc->group = (pid_t)next_number(&at);
    proc->session = (pid_t)next_number(&at);
    proc->mark = MARK_UNKNOWN;
    return true;
}

/* The kernel lists processes in the order of their ids; this makes sure. */
static void sort_procs(int count)
{
    for (int i = 1; i < count; i++) {
        struct proc moved = procs[i];
        int at = i;

        for (; at > 0 && procs[at - 1].pid > moved.pid; at--) {
            procs[at] = procs[at - 1];
        }
        procs[at] = moved;
    }
}

/* Reads the process table; -1 if there is none. */
static int read_procs(void)
{
    static char buf[8192] __attribute__((aligned(8)));
    int dir = open_path("/proc", O_RDONLY | O_DIRECTORY);
    int count = 0;
    ssize_t got;

    if (dir < 0) {
        return -1;
    }
    while ((got = read_dents(dir, buf, sizeof buf)) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct dent *dent = (const struct dent *)(const void *)(buf + at);
            const char *digits = dent->name;

            at += dent->reclen;
            if (*digits < '1' || *digits > '9' || strlen(digits) > 10 || count == PROCS_MAX) {
                continue;
            }
            if (read_proc(dir, dent->name, &procs[count])) {
                procs[count].pid = (pid_t)next_number(&digits);
                count++;
            }
        }
    }
    close(dir);
    sort_procs(count);
    return count > 0 ? count : -1;
}

static bool is_kept(pid_t pid, const pid_t *keep, size_t keep_count)
{
    for (size_t i = 0; i < keep_count; i++) {
        if (keep[i] == pid) {
            return true;
        }
    }
    return false;
}

static const struct proc *find_proc(int count, pid_t pid)
{
    int low = 0, high = count - 1;

    while (low <= high) {
        int middle = low + (high - low) / 2;

        if (procs[middle].pid == pid) {
            return &procs[middle];
        }
        if (procs[middle].pid < pid) {
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    return NULL;
}

/* Spreads marks from parents to children until nothing changes. */
static void mark_procs(int count, const pid_t *keep, size_t keep_count)
{
    pid_t self = getpid();
    bool changed = true;

    for (int i = 0; i < count; i++) {
        if (procs[i].parent == self) {
            procs[i].mark = is_kept(procs[i].pid, keep, keep_count) ? MARK_KEPT : MARK_OURS;
        }
    }
    while (changed) {
        changed = false;
        for (int i = 0; i < count; i++) {
            const struct proc *parent =
                procs[i].mark == MARK_UNKNOWN ? find_proc(count, procs[i].parent) : NULL;

            if (parent != NULL && parent->mark != MARK_UNKNOWN) {
                procs[i].mark = parent->mark;
                changed = true;
            }
        }
    }
}

bool tree_visible(void)
{
    return read_procs() > 0;
}

int tree_signal(int sig, const pid_t *keep, size_t keep_count)
{
    pid_t own_session = getsid(0);
    int count = read_procs();
    int found = 0;

    if (count < 0) {
        return -1;
    }
    mark_procs(count, keep, keep_count);
    for (int i = 0; i < count; i++) {
        if (procs[i].mark != MARK_OURS) {
            continue;
        }
        found++;
        /*
         * A group of a session that began in the tree has only members of the tree, and a
         * group is killed at once: a chain of forks cannot run ahead of it.
         */
        if (sig == SIGKILL && procs[i].session > 1 && procs[i].session != own_session &&
            procs[i].group > 1) {
            kill(-procs[i].group, SIGKILL);
        }
        kill(procs[i].pid, sig);
    }
    return found;
}
