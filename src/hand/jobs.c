#define _GNU_SOURCE
/* The table of commands: starting them, and moving each along its states. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"
#include "sys.h"
#include "tree.h"

#define STRAY_TICK_MS 20
#define SCOPES        (WALDO_HAND_SCOPE_TREE + 1)
/* More than a terminal can hold; how much it does hold cannot be asked. */
#define TERMINAL_HOLDS_MAX (256u * 1024u)
#define OVERDUE_MS         (WALDO_HAND_KILL_WAIT_MS + 1000u) /* after SIGKILL was due */

static struct job *slots[WALDO_HAND_SLOTS_MAX];
static size_t slot_count;   /* slots[0 .. slot_count) are in use */
static uint32_t highest_id; /* of all RUNs */
static bool strays;         /* a job parent died: its processes are ours now and must go */

/* Which slot and part each descriptor of the last jobs_poll belongs to. */
enum part { PART_CONTROL, PART_OUT, PART_ERR, PART_IN };
static struct {
    struct job *job;
    enum part part;
} polled[JOBS_FDS_MAX];

struct job *find_job(uint32_t id)
{
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i]->id == id) {
            return slots[i];
        }
    }
    return NULL;
}

struct job *find_reader(uint32_t id)
{
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i]->reader != 0 && slots[i]->reader == id) {
            return slots[i];
        }
    }
    return NULL;
}

bool jobs_has(uint32_t id)
{
    return find_job(id) != NULL || find_reader(id) != NULL;
}

void jobs_abandon(void)
{
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i]->control >= 0 && slots[i]->parent > 0) {
            kill(slots[i]->parent, SIGKILL);
        }
    }
}

size_t jobs_running(void)
{
    size_t count = 0;

    for (size_t i = 0; i < slot_count; i++) {
        count += slots[i]->state != JOB_FINISHED && slots[i]->state != JOB_FREE;
    }
    return count;
}

size_t jobs_alive(void)
{
    size_t count = 0;

    for (size_t i = 0; i < slot_count; i++) {
        count += slots[i]->control >= 0;
    }
    return count + strays;
}

void job_frame(const struct job *job, uint8_t type, const void *payload, size_t len)
{
    if (job->told != TOLD_NOTHING) {
        out_frame(type, job->id, payload, len);
    }
}

static void start_error(uint32_t id, int err, uint8_t phase)
{
    uint8_t payload[WALDO_HAND_START_ERROR_LEN];

    start_error_encode(payload, err, phase);
    out_frame(WALDO_HAND_START_ERROR, id, payload, sizeof payload);
}

/*
 * The job parent keeps the times itself; this is for one that was stopped, or hangs. The earlier
 * time counts.
 */
static void set_overdue(struct job *job, uint32_t reason, uint64_t kill_in_ms)
{
    uint64_t at = now_ms() + kill_in_ms + OVERDUE_MS;

    if (job->overdue_ms == 0 || at < job->overdue_ms) {
        job->overdue_ms = at;
        job->overdue_reason = reason;
    }
}

static struct job *new_job(const struct run *run, uint32_t id)
{
    struct job *job = map_pages(sizeof *job);

    if (job == NULL) {
        return NULL;
    }
    job->state = JOB_STARTING;
    job->id = id;
    job->flags = run->flags;
    job->told = TOLD_ALL;
    job->label_len = (uint8_t)run->label.len;
    if (job->label_len > 0) {
        memcpy(job->label, run->label.ptr, job->label_len);
    }
    job->grace_ms = run->grace_ms;
    if (run->timeout_ms != 0) {
        set_overdue(job, WALDO_HAND_EXIT_TIMED_OUT, (uint64_t)run->timeout_ms + run->grace_ms);
    }
    job->control = job->in = job->capture_fd = -1;
    job->streams[0].fd = job->streams[1].fd = -1;
    job_output_init(job, run);
    return job;
}

static void free_job(struct job *job)
{
    kept_drop(job);
    job_output_free(job);
    job_input_free(job);
    close_fd(&job->streams[0].fd);
    close_fd(&job->streams[1].fd);
    close_fd(&job->control);
    unmap_pages(job, sizeof *job);
}

/* Room for one more kept command: the one that finished first goes. */
static void make_room_for_kept(void)
{
    struct job *oldest = NULL;
    size_t count = 0;

    for (size_t i = 0; i < slot_count; i++) {
        struct job *job = slots[i];

        count += is_kept(job);
        if (is_kept(job) && job->state == JOB_FINISHED &&
            (oldest == NULL || job->ended < oldest->ended)) {
            oldest = job;
        }
    }
    if (count >= WALDO_HAND_KEPT_MAX && oldest != NULL) {
        kept_drop(oldest);
    }
}

int jobs_run(const struct frame *frame)
{
    struct run run;
    struct job *job;
    uint8_t phase;
    int err = run_decode(frame, &run, &phase);

    highest_id = frame->id > highest_id ? frame->id : highest_id;
    if (err < 0) {
        return WALDO_HAND_E_PAYLOAD;
    }
    if (err != 0) {
        start_error(frame->id, err, phase);
        return 0;
    }
    if (jobs_running() >= WALDO_HAND_JOBS_MAX || slot_count >= WALDO_HAND_SLOTS_MAX) {
        start_error(frame->id, EAGAIN, WALDO_HAND_PHASE_LIMIT);
        return 0;
    }
    if ((run.flags & WALDO_HAND_RUN_KEEP) != 0) {
        make_room_for_kept();
    }
    job = new_job(&run, frame->id);
    phase = WALDO_HAND_PHASE_RESOURCES;
    err = job == NULL ? ENOMEM : job_start(job, &run, &phase);
    if (err != 0) {
        start_error(frame->id, err, phase);
        if (job != NULL) {
            free_job(job);
        }
        return 0;
    }
    slots[slot_count++] = job;
    return 0;
}

int jobs_stdin(const struct frame *frame)
{
    struct job *job = find_job(frame->id);

    if (frame->len == 0) {
        return WALDO_HAND_E_PAYLOAD;
    }
    return job == NULL ? 0 : job_input(job, frame->payload, frame->len);
}

int jobs_stdin_eof(const struct frame *frame)
{
    struct job *job = find_job(frame->id);

    if (job != NULL) {
        job_input_eof(job);
    }
    return 0;
}

/* False: a job parent that is stopped, or behind, has no room for it now. */
static bool send_order(struct job *job, const struct order *order)
{
    return job->control < 0 ||
           send(job->control, order, sizeof *order, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
           errno != EAGAIN;
}

static bool send_signal(struct job *job, int scope, int sig)
{
    struct order order = { .kind = ORDER_SIGNAL, .sig = sig, .scope = scope };

    return send_order(job, &order);
}

static bool send_cancel(struct job *job, uint32_t grace_ms)
{
    struct order order = { .kind = ORDER_CANCEL, .grace_ms = grace_ms };

    return send_order(job, &order);
}

/* Sends the orders that had no room; false while some are left. */
static bool send_waiting_orders(struct job *job)
{
    for (int scope = 0; scope < SCOPES; scope++) {
        while (job->waiting_signals[scope] != 0) {
            int sig = __builtin_ctzll(job->waiting_signals[scope]) + 1;

            if (!send_signal(job, scope, sig)) {
                return false;
            }
            job->waiting_signals[scope] &= job->waiting_signals[scope] - 1;
        }
    }
    job->waiting_cancel = job->waiting_cancel && !send_cancel(job, job->waiting_grace_ms);
    return !job->waiting_cancel;
}

int jobs_resize(const struct frame *frame)
{
    struct job *job = find_job(frame->id);

    if (frame->len < 4) {
        return WALDO_HAND_E_PAYLOAD;
    }
    if (job != NULL && is_terminal(job) && job->streams[0].fd >= 0) {
        resize_pty(job->streams[0].fd, get_u16(frame->payload), get_u16(frame->payload + 2));
    }
    return 0;
}

int jobs_signal(const struct frame *frame)
{
    struct job *job = find_job(frame->id);
    int sig, scope;

    if (frame->len < 5) {
        return WALDO_HAND_E_PAYLOAD;
    }
    sig = (int)get_u32(frame->payload);
    scope = frame->payload[4];
    if (sig < 1 || sig > 64 || scope >= SCOPES) {
        return WALDO_HAND_E_PAYLOAD;
    }
    if (job != NULL && !send_signal(job, scope, sig)) {
        /* As with a process's own pending signals, one of a number is enough. */
        job->waiting_signals[scope] |= UINT64_C(1) << (sig - 1);
    }
    return 0;
}

int jobs_credit(const struct frame *frame)
{
    struct job *job = find_job(frame->id);
    struct job *read = find_reader(frame->id);
    uint64_t more, *credit = NULL;

    if (frame->len < 8) {
        return WALDO_HAND_E_PAYLOAD;
    }
    more = get_u64(frame->payload);
    if (job != NULL) {
        credit = &job->credit;
    } else if (read != NULL) {
        credit = &read->reader_credit;
    }
    if (credit != NULL) {
        *credit = more > UINT64_MAX - *credit ? UINT64_MAX : *credit + more;
    }
    return 0;
}

int jobs_list(const struct frame *frame)
{
    uint8_t payload[WALDO_HAND_JOB_LEN];

    if (frame->id == 0) {
        return WALDO_HAND_E_STATE;
    }
    for (size_t i = 0; i < slot_count; i++) {
        struct job *job = slots[i];
        const struct stream *s = &job->streams[0];

        if (is_kept(job)) {
            job_encode(payload, job->id, s->total, s->total - s->tail.used,
                       job->state == JOB_FINISHED ? &job->exit : NULL);
            out_frame2(WALDO_HAND_JOB, frame->id, payload, sizeof payload, job->label,
                       job->label_len);
            job->told = job->told == TOLD_NOTHING ? TOLD_LISTED : job->told;
        }
    }
    out_done(frame->id, 0, 0, 0, highest_id);
    return 0;
}

int jobs_forget(const struct frame *frame)
{
    struct job *job = find_job(frame->id);

    if (job != NULL) {
        kept_drop(job);
    }
    return 0;
}

bool jobs_cancel(uint32_t id, uint32_t grace_ms)
{
    struct job *job = find_job(id);

    if (job != NULL) {
        grace_ms = grace_ms == WALDO_HAND_GRACE_OF_JOB ? job->grace_ms : grace_ms;
        job->hurry = true;
        set_overdue(job, WALDO_HAND_EXIT_CANCELLED, grace_ms);
        if (!send_cancel(job, grace_ms)) {
            if (!job->waiting_cancel || grace_ms < job->waiting_grace_ms) {
                job->waiting_grace_ms = grace_ms;
            }
            job->waiting_cancel = true;
        }
    }
    return job != NULL;
}

void jobs_cancel_all(void)
{
    for (size_t i = 0; i < slot_count; i++) {
        jobs_cancel(slots[i]->id, 0);
    }
}

void jobs_let_go(void)
{
    for (size_t i = 0; i < slot_count; i++) {
        struct job *job = slots[i];

        job->told = TOLD_NOTHING;
        job->reader = 0;
        job->in_stale += job->in_owed - job->in_taken;
        job->in_owed = job->in_taken = 0;
        if (!is_kept(job)) {
            jobs_cancel(job->id, 0);
            job->id = 0; /* free for others while it ends */
        }
    }
}

/* Adds a descriptor to the poll set. */
static void poll_part(struct pollfd *fds, size_t *count, struct job *job, enum part part, int fd,
                      short events)
{
    fds[*count] = (struct pollfd){ .fd = fd, .events = events };
    polled[*count].job = job;
    polled[*count].part = part;
    ++*count;
}

size_t jobs_poll(struct pollfd *fds)
{
    size_t count = 0;

    for (size_t i = 0; i < slot_count; i++) {
        struct job *job = slots[i];

        if (job->control >= 0) {
            poll_part(fds, &count, job, PART_CONTROL, job->control, POLLIN);
        }
        for (int stream = 0; stream < 2; stream++) {
            if (job_wants_output(job, stream)) {
                poll_part(fds, &count, job, stream == 0 ? PART_OUT : PART_ERR,
                          job->streams[stream].fd, POLLIN);
            }
        }
        if (job_wants_input(job)) {
            poll_part(fds, &count, job, PART_IN, job->in, POLLOUT);
        }
    }
    return count;
}

/* The leader ended: what is in the pipes now is owed to the host. */
static void begin_draining(struct job *job, const struct exit_info *info)
{
    uint32_t flags = job->exit.flags;
    struct exit_info counts = job->exit;

    job->exit = *info;
    job->exit.flags |= flags;
    job->exit.capture_errno = counts.capture_errno;
    job->exit.captured = counts.captured;
    job->exit.capture_lost = counts.capture_lost;
    job->state = JOB_DRAINING;
    if ((info->flags & (WALDO_HAND_EXIT_TIMED_OUT | WALDO_HAND_EXIT_LOST)) != 0) {
        job->hurry = true;
    }
    job->drain_end_ms = now_ms() + WALDO_HAND_DRAIN_MS;
    for (int i = 0; i < 2; i++) {
        int waiting = 0;

        if (is_terminal(job)) {
            job->streams[i].owed = TERMINAL_HOLDS_MAX;
        } else if (job->streams[i].fd >= 0 &&
                   control_device(job->streams[i].fd, FIONREAD, (long)&waiting) == 0) {
            job->streams[i].owed = (uint64_t)waiting;
        }
    }
}

/* It did not start. A kept one whose host is gone is kept as lost, for the next to hear of. */
static void on_no_start(struct job *job, int err, uint8_t phase)
{
    struct exit_info info = { .flags = WALDO_HAND_EXIT_LOST };

    if (job->told != TOLD_ALL && is_kept(job)) {
        begin_draining(job, &info);
        return;
    }
    if (job->told == TOLD_ALL) {
        start_error(job->id, err, phase);
    }
    job->state = JOB_FREE;
}

static void on_report(struct job *job, const struct report *report)
{
    uint8_t payload[WALDO_HAND_STARTED_LEN];

    if (report->kind == REPORT_STARTED) {
        if (job->told == TOLD_ALL) {
            put_u32(payload, report->pid);
            out_frame(WALDO_HAND_STARTED, job->id, payload, sizeof payload);
        }
        job->state = JOB_RUNNING;
    } else if (report->kind == REPORT_ERROR) {
        on_no_start(job, report->err, report->phase);
    } else {
        job->alone = report->alone;
        begin_draining(job, &report->exit);
    }
}

/* The job parent is gone without a word: its orphans have come to us. */
static void on_lost(struct job *job)
{
    bool overdue = job->overdue_ms != 0 && now_ms() >= job->overdue_ms;
    struct exit_info info = { .flags = WALDO_HAND_EXIT_LOST | (overdue ? job->overdue_reason : 0) };

    strays = true;
    if (job->state == JOB_STARTING) {
        /* Whatever it had begun to start is among the strays. */
        on_no_start(job, EIO, WALDO_HAND_PHASE_RESOURCES);
    } else if (job->state == JOB_RUNNING) {
        begin_draining(job, &info);
    }
}

static void on_control(struct job *job)
{
    struct report report;

    while (job->control >= 0) {
        ssize_t n = recv(job->control, &report, sizeof report, MSG_DONTWAIT);

        if (n == (ssize_t)sizeof report) {
            on_report(job, &report);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else if (n < 0 && errno == ECONNRESET) {
            /* It ended with orders unread. That is told first, and once; its reports follow. */
            continue;
        } else {
            close_fd(&job->control);
            if (job->state == JOB_STARTING || job->state == JOB_RUNNING) {
                on_lost(job);
            }
        }
    }
}

void jobs_ready(const struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job *job = polled[i].job;

        if (fds[i].revents == 0) {
            continue;
        }
        if (polled[i].part == PART_CONTROL) {
            on_control(job);
        } else if (polled[i].part == PART_IN) {
            if (job->in >= 0) {
                job_write_input(job);
            }
        } else {
            int stream = polled[i].part == PART_OUT ? 0 : 1;

            if (job_wants_output(job, stream)) {
                job_read_output(job, stream);
            }
        }
    }
}

/* Lets what is left go to the tails, or be counted and dropped. */
static void end_heads(struct job *job)
{
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &job->streams[i];

        stream->head = stream->head < stream->total ? stream->head : stream->total;
    }
}

/* Has all been read that the leader wrote, and late output been given its time? */
static bool is_drained(struct job *job, bool late)
{
    for (int i = 0; i < 2; i++) {
        struct stream *stream = &job->streams[i];
        bool owes = stream->owed > 0 && (!is_terminal(job) || is_readable(stream->fd));

        if (job->alone && !owes) {
            close_fd(&stream->fd);
        }
        if (stream->fd >= 0 && (!late || owes)) {
            return false;
        }
    }
    return true;
}

static void finish(struct job *job)
{
    static uint32_t ends;
    uint8_t payload[WALDO_HAND_EXIT_LEN];
    struct exit_info *info = &job->exit;

    for (int i = 0; i < 2; i++) {
        info->total[i] = job->streams[i].total;
        info->sent[i] = job->streams[i].sent;
        if (job->streams[i].fd >= 0) {
            info->flags |= WALDO_HAND_EXIT_OPEN;
        }
        if (info->sent[i] + (is_kept(job) ? job->streams[i].tail.used : 0) < info->total[i]) {
            info->flags |= WALDO_HAND_EXIT_TRUNCATED;
        }
    }
    exit_encode(payload, info);
    job_frame(job, WALDO_HAND_EXIT, payload, sizeof payload);
    job->state = JOB_FINISHED;
    job->ended = ++ends;
    if (is_kept(job)) {
        close_fd(&job->capture_fd);
    } else {
        job_output_free(job);
    }
    job_input_free(job);
}

/* Kills a job parent that should have spoken long ago: its end is then seen on the control. */
static int64_t check_overdue(struct job *job)
{
    uint64_t now = now_ms();

    if (now < job->overdue_ms) {
        return (int64_t)(job->overdue_ms - now);
    }
    if (job->parent > 0) {
        kill(job->parent, SIGKILL);
    }
    return STRAY_TICK_MS;
}

/* Moves a job on; returns ms until it wants to be looked at again, -1: no time matters. */
static int64_t step_job(struct job *job)
{
    uint64_t now;

    job_acknowledge(job);
    if (job->state < JOB_DRAINING && job->overdue_ms != 0) {
        return check_overdue(job);
    }
    if (job->state == JOB_DRAINING) {
        now = now_ms();
        if (job->hurry && job->has_credit && job->credit == 0) {
            end_heads(job);
        }
        if (!is_drained(job, now >= job->drain_end_ms)) {
            return now < job->drain_end_ms ? (int64_t)(job->drain_end_ms - now) : -1;
        }
        job->state = JOB_FLUSHING;
    }
    if (job->state == JOB_FLUSHING && (is_kept(job) || job_send_tails(job))) {
        finish(job);
    }
    return -1;
}

static void reap(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < slot_count; i++) {
            if (slots[i]->parent == pid) {
                slots[i]->parent = 0;
                /* By itself a job parent ends only when nothing of its command is left. */
                strays = strays || WIFSIGNALED(status);
            }
        }
    }
}

/* Kills what dead job parents left behind; everything below living ones is left alone. */
static int64_t end_strays(void)
{
    static pid_t keep[WALDO_HAND_SLOTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i]->control >= 0) {
            keep[count++] = slots[i]->parent;
        }
    }
    strays = tree_signal(SIGKILL, keep, count) > 0;
    return strays ? STRAY_TICK_MS : -1;
}

int64_t jobs_step(void)
{
    int64_t due = -1;

    reap();
    if (strays) {
        due = end_strays();
    }
    for (size_t i = 0; i < slot_count;) {
        struct job *job = slots[i];
        int64_t next = step_job(job);
        bool over = job->state == JOB_FREE ||
                    (job->state == JOB_FINISHED && !is_kept(job) && job->control < 0 &&
                     job->streams[0].fd < 0 && job->streams[1].fd < 0);

        if (over) {
            free_job(job);
            slots[i] = slots[--slot_count];
            continue;
        }
        kept_feed(job);
        if (!send_waiting_orders(job) && (next < 0 || next > STRAY_TICK_MS)) {
            next = STRAY_TICK_MS;
        }
        if (next >= 0 && (due < 0 || next < due)) {
            due = next;
        }
        i++;
    }
    return due;
}
