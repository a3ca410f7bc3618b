#define _GNU_SOURCE
/* Starting a command: its pipes or terminal, and its job parent. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "job.h"
#include "sys.h"

/* Stdin for a command without one: /dev/null, or in an image without it an empty pipe. */
static int open_null(void)
{
    int fd = open_path("/dev/null", O_RDONLY);
    int ends[2];

    if (fd < 0 && make_pipe(ends) == 0) {
        close(ends[1]);
        fd = ends[0];
    }
    return fd;
}

static bool open_output(struct job *job, int stream, int *ret_write_end)
{
    int ends[2];

    if (make_pipe(ends) != 0) {
        return false;
    }
    set_nonblock(ends[0]);
    job->streams[stream].fd = ends[0];
    *ret_write_end = ends[1];
    return true;
}

static bool open_input(struct job *job, int *ret_read_end)
{
    int ends[2];

    if ((job->flags & WALDO_HAND_RUN_STDIN) == 0) {
        *ret_read_end = open_null();
        return *ret_read_end >= 0;
    }
    if (make_pipe(ends) != 0) {
        return false;
    }
    set_nonblock(ends[1]);
    job->in = ends[1];
    *ret_read_end = ends[0];
    return true;
}

/* A terminal is read through one descriptor and written through another. */
static bool open_terminal(struct job *job, const struct run *run, int *ret_program_end)
{
    int ends[2];

    if (!make_pty(ends, run->rows, run->columns)) {
        return false;
    }
    job->streams[0].fd = ends[0];
    *ret_program_end = ends[1];
    job->in = control_fd(ends[0], F_DUPFD_CLOEXEC, 0);
    return job->in >= 0;
}

/* Opens this side's ends into the job and the command's into fds. */
static bool open_fds(struct job *job, const struct run *run, struct job_fds *fds,
                     uint8_t *ret_phase)
{
    int pair[2];

    if (is_terminal(job)) {
        if (!open_terminal(job, run, &fds->in)) {
            *ret_phase = WALDO_HAND_PHASE_PTY;
            return false;
        }
    } else if (!open_input(job, &fds->in) || !open_output(job, 0, &fds->out) ||
               ((job->flags & WALDO_HAND_RUN_MERGE) == 0 && !open_output(job, 1, &fds->err))) {
        return false;
    }
    if (make_socket_pair(pair) != 0) {
        return false;
    }
    job->control = pair[0];
    fds->control = pair[1];
    return true;
}

int job_start(struct job *job, const struct run *run, uint8_t *ret_phase)
{
    struct job_fds fds = { -1, -1, -1, -1 };
    pid_t pid = -1;
    int err = 0;

    if (open_fds(job, run, &fds, ret_phase)) {
        /* The job's pages are not there in the child. */
        pid = fork_alone();
        if (pid == 0) {
            parent_main(run, &fds);
        }
    }
    if (pid < 0) {
        err = errno;
    }
    job->parent = pid;
    close_fd(&fds.in);
    close_fd(&fds.out);
    close_fd(&fds.err);
    close_fd(&fds.control);
    return err;
}
