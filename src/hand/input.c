#define _GNU_SOURCE
/* Stdin of a command: a bounded queue, acknowledged as the command takes it. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "job.h"
#include "sys.h"

/* What this session may send, and as much that earlier ones have left. */
#define QUEUE_SIZE (2u * WALDO_HAND_STDIN_WINDOW)

static void take(struct job *job, size_t n)
{
    size_t stale = n < job->in_stale ? n : job->in_stale;

    job->in_stale -= stale;
    job->in_taken += n - stale;
}

/* Nobody reads it any more: what waits is thrown away, but acknowledged: the host goes on. */
static void input_broken(struct job *job)
{
    job->exit.flags |= WALDO_HAND_EXIT_STDIN_BROKEN;
    take(job, job->in_end - job->in_start);
    job->in_start = job->in_end = 0;
    close_fd(&job->in);
}

/* Writes what the pipe takes; returns the count, 0 also for a broken pipe. */
static size_t write_some(struct job *job, const uint8_t *bytes, size_t len)
{
    ssize_t n = write(job->in, bytes, len);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            input_broken(job);
        }
        return 0;
    }
    take(job, (size_t)n);
    return (size_t)n;
}

static bool enqueue(struct job *job, const uint8_t *bytes, size_t len)
{
    if (job->in_queue == NULL) {
        job->in_queue = map_pages(QUEUE_SIZE);
        if (job->in_queue == NULL) {
            return false;
        }
    }
    if (QUEUE_SIZE - job->in_end < len) {
        memmove(job->in_queue, job->in_queue + job->in_start, job->in_end - job->in_start);
        job->in_end -= job->in_start;
        job->in_start = 0;
    }
    if (QUEUE_SIZE - job->in_end < len) {
        job->exit.flags |= WALDO_HAND_EXIT_STDIN_BROKEN;
        take(job, len);
        return true;
    }
    memcpy(job->in_queue + job->in_end, bytes, len);
    job->in_end += len;
    return true;
}

int job_input(struct job *job, const uint8_t *bytes, size_t len)
{
    size_t n = 0;

    if (len > WALDO_HAND_STDIN_WINDOW - job->in_owed) {
        return WALDO_HAND_E_WINDOW;
    }
    job->in_owed += len;
    if (job->in >= 0 && !job->in_ending && job->in_start == job->in_end) {
        n = write_some(job, bytes, len);
    }
    if (n == len) {
        return 0;
    }
    if (job->in < 0 || job->in_ending) {
        job->exit.flags |= WALDO_HAND_EXIT_STDIN_BROKEN;
        take(job, len - n);
        return 0;
    }
    return enqueue(job, bytes + n, len - n) ? 0 : WALDO_HAND_E_MEMORY;
}

/* Everything was written: a pipe ends by being closed, a terminal by the character for it. */
static void end_input(struct job *job)
{
    struct termios settings; /* begins as the kernel's, which is shorter */

    if (is_terminal(job) && control_device(job->in, TCGETS, (long)&settings) == 0 &&
        write(job->in, &settings.c_cc[VEOF], 1) < 0 && errno == EAGAIN) {
        return;
    }
    close_fd(&job->in);
}

void job_input_eof(struct job *job)
{
    job->in_ending = true;
    if (job->in >= 0 && job->in_start == job->in_end) {
        end_input(job);
    }
}

bool job_wants_input(const struct job *job)
{
    return job->in >= 0 && (job->in_start < job->in_end || job->in_ending);
}

void job_write_input(struct job *job)
{
    if (job->in_start < job->in_end) {
        job->in_start +=
            write_some(job, job->in_queue + job->in_start, job->in_end - job->in_start);
    }
    if (job->in_start == job->in_end) {
        job->in_start = job->in_end = 0;
        if (job->in >= 0 && job->in_ending) {
            end_input(job);
        }
    }
}

void job_acknowledge(struct job *job)
{
    uint8_t payload[8];

    if (job->in_taken == 0 || job->state == JOB_STARTING) {
        return;
    }
    /* After EXIT no frame of the id may follow. */
    if (job->state != JOB_FINISHED) {
        put_u64(payload, job->in_taken);
        job_frame(job, WALDO_HAND_CREDIT, payload, sizeof payload);
    }
    job->in_owed -= job->in_taken;
    job->in_taken = 0;
}

void job_input_free(struct job *job)
{
    close_fd(&job->in);
    unmap_pages(job->in_queue, QUEUE_SIZE);
    job->in_queue = NULL;
    job->in_start = job->in_end = 0;
}
