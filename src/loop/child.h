/*
 * Children as descriptors: no SIGCHLD, no handler, no zombie. A child is started with exit signal 0
 * and a pidfd, so the host's own waits and its SIGCHLD disposition do not matter. Its standard
 * input and output are whatever descriptors the caller gives; sockets, never pipes.
 */
#ifndef WALDO_LOOP_CHILD_H
#define WALDO_LOOP_CHILD_H

#include "loop/loop.h"

typedef struct waldo__child waldo__child;

typedef struct waldo__child_fd {
    int from; /* descriptor in this process; stays the caller's */
    int to;   /* number in the child */
} waldo__child_fd;

typedef struct waldo__child_options {
    int exec_fd; /* program as a descriptor (a memfd), or -1 and path */
    const char *path;
    const char *const *argv;
    const char *const *envp;    /* the child's whole environment */
    const waldo__child_fd *fds; /* every descriptor the child gets; all others are closed */
    size_t fd_count;
    int new_group; /* 1: its own process group */
} waldo__child_options;

/*
 * Exit code 0 to 255 and signal 0, or the signal; exit code -1 when the host's own waits, or its
 * ignored SIGCHLD, took the status. Once, from a round; the child may be freed there.
 */
typedef void (*waldo__child_fn)(void *userdata, int exit_code, int signal);

/* Signals at default, mask empty, in the child. ESTART with the system's reason. */
waldo_status waldo__child_spawn(waldo__loop *loop, const waldo__child_options *options,
                                waldo__child_fn exited, void *userdata, waldo__child **ret_child,
                                waldo_error **ret_err);
int waldo__child_pid(const waldo__child *child);
/* never hits a reused pid */
void waldo__child_kill(waldo__child *child, int signal, int whole_group);

/*
 * Forget the child: exited is not called any more. A living child (with new_group its whole group)
 * is killed first and reaped. In a forked child process it only forgets memory.
 */
void waldo__child_free(waldo__child *child);

#endif
