#define _GNU_SOURCE
/* Output of a command: the head is sent, the tail kept, the middle counted, all captured. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "sys.h"

static const uint8_t stream_types[2] = { WALDO_HAND_OUT, WALDO_HAND_ERR };

void job_output_init(struct job *job, const struct run *run)
{
    for (int i = 0; i < 2; i++) {
        job->streams[i].head = run->head[i];
        job->streams[i].tail.cap = run->tail[i];
    }
    job->has_credit = run->has_credit;
    job->credit = run->credit;
    job->capture_max = run->capture_max;
    if (run->capture_path.ptr != NULL) {
        memcpy(job->capture_path, run->capture_path.ptr, run->capture_path.len);
        job->capture_path[run->capture_path.len] = '\0';
    }
}

void drop_tail(struct tail *tail)
{
    unmap_pages(tail->ring, tail->cap);
    *tail = (struct tail){ 0 };
}

void job_output_free(struct job *job)
{
    drop_tail(&job->streams[0].tail);
    drop_tail(&job->streams[1].tail);
    close_fd(&job->capture_fd);
}

static bool in_head(const struct stream *stream)
{
    return stream->total < stream->head;
}

bool job_wants_output(const struct job *job, int stream)
{
    const struct stream *s = &job->streams[stream];

    if (s->fd < 0 || job->state == JOB_STARTING || job->state == JOB_FLUSHING) {
        return false;
    }
    if (job->state == JOB_FINISHED || !in_head(s)) {
        return true;
    }
    return out_room_for_data() && (!job->has_credit || job->credit > 0);
}

static void capture_failed(struct job *job, int err)
{
    job->exit.capture_errno = err;
    close_fd(&job->capture_fd);
}

/* Writes to the capture file; what does not go there is counted. */
static void capture(struct job *job, const uint8_t *bytes, size_t len)
{
    uint64_t left = job->capture_max - job->exit.captured;
    size_t want = left < len ? (size_t)left : len;
    size_t done = 0;

    if (job->capture_path[0] == '\0') {
        return;
    }
    if (job->capture_fd < 0 && job->exit.capture_errno == 0) {
        job->capture_fd = open_path(job->capture_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW |
                                                           O_NONBLOCK | O_NOCTTY);
        if (job->capture_fd < 0) {
            capture_failed(job, errno);
        }
    }
    while (job->capture_fd >= 0 && done < want) {
        ssize_t n = write(job->capture_fd, bytes + done, want - done);

        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            capture_failed(job, errno);
        }
    }
    job->exit.captured += done;
    job->exit.capture_lost += len - done;
}

/* Notes that len bytes of a stream came next; neighbours of one stream are one note. */
static void note(struct job *job, int stream, size_t len)
{
    size_t last = (job->note_start + job->note_count - 1) % NOTES_MAX;

    if (job->note_count > 0 && job->notes[last].stream == stream) {
        job->notes[last].len += len;
        return;
    }
    if (job->note_count == NOTES_MAX) {
        job->note_start = (job->note_start + 1) % NOTES_MAX;
        job->note_count--;
    }
    last = (job->note_start + job->note_count++) % NOTES_MAX;
    job->notes[last].stream = stream;
    job->notes[last].len = len;
}

static void keep_tail(struct job *job, int stream, const uint8_t *bytes, size_t len)
{
    struct tail *tail = &job->streams[stream].tail;

    /* Most commands never need it. */
    if (tail->ring == NULL && tail->cap > 0) {
        tail->ring = map_pages(tail->cap);
        tail->cap = tail->ring != NULL ? tail->cap : 0;
    }
    if (tail->cap == 0) {
        return;
    }
    note(job, stream, len);
    if (len > tail->cap) {
        bytes += len - tail->cap;
        len = tail->cap;
    }
    while (len > 0) {
        uint32_t at = (uint32_t)(((uint64_t)tail->start + tail->used) % tail->cap);
        size_t n = tail->cap - at < len ? tail->cap - at : len;

        memcpy(tail->ring + at, bytes, n);
        bytes += n;
        len -= n;
        if (tail->used + n > tail->cap) {
            uint32_t evicted = (uint32_t)(tail->used + n - tail->cap);

            tail->start = (uint32_t)(((uint64_t)tail->start + evicted) % tail->cap);
            tail->used = tail->cap;
        } else {
            tail->used += (uint32_t)n;
        }
    }
}

static void send_output(struct job *job, int stream, uint64_t offset, const uint8_t *bytes,
                        size_t len)
{
    if (job->told == TOLD_ALL) {
        out_output(stream_types[stream], job->id, offset, bytes, len);
    }
    job->streams[stream].sent += len;
}

/* At most this much may be read now so that all of it has a place to go. */
static size_t read_size(const struct job *job, const struct stream *stream)
{
    size_t size = WALDO_HAND_CHUNK_MAX;

    if (job->state != JOB_FINISHED && in_head(stream) && job->has_credit && job->credit < size) {
        size = (size_t)job->credit;
    }
    return size;
}

void job_read_output(struct job *job, int stream)
{
    static uint8_t chunk[WALDO_HAND_CHUNK_MAX];
    struct stream *s = &job->streams[stream];
    ssize_t n = read(s->fd, chunk, read_size(job, s));
    size_t len, head = 0;

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close_fd(&s->fd);
    }
    if (n <= 0 || job->state == JOB_FINISHED) {
        return;
    }
    len = (size_t)n;
    s->owed -= s->owed < len ? s->owed : len;
    capture(job, chunk, len);
    if (in_head(s)) {
        head = s->head - s->total < len ? (size_t)(s->head - s->total) : len;
        send_output(job, stream, s->total, chunk, head);
        job->credit -= job->has_credit ? head : 0;
    }
    s->total += len;
    if (head < len) {
        keep_tail(job, stream, chunk + head, len - head);
    }
}

/* Sends up to len bytes from the front of a tail; returns how many. */
static size_t send_from_tail(struct job *job, int stream, uint64_t len)
{
    struct stream *s = &job->streams[stream];
    struct tail *tail = &s->tail;
    uint32_t n = tail->cap - tail->start;

    n = n < tail->used ? n : tail->used;
    n = n < WALDO_HAND_CHUNK_MAX ? n : WALDO_HAND_CHUNK_MAX;
    n = n < len ? n : (uint32_t)len;
    if (n > 0) {
        send_output(job, stream, s->total - tail->used, tail->ring + tail->start, n);
        tail->start = (tail->start + n) % tail->cap;
        tail->used -= n;
    }
    return n;
}

/* Bytes of a stream that the notes speak of; the tail may hold fewer, or ones forgotten there. */
static uint64_t noted(const struct job *job, int stream)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < job->note_count; i++) {
        const struct note *n = &job->notes[(job->note_start + i) % NOTES_MAX];

        sum += n->stream == stream ? n->len : 0;
    }
    return sum;
}

bool job_send_tails(struct job *job)
{
    while (job->streams[0].tail.used > 0 || job->streams[1].tail.used > 0) {
        struct note *first = &job->notes[job->note_start];
        int stream = 0;
        uint64_t kept, told;

        if (!out_room_for_data()) {
            return false;
        }
        /* Bytes older than the notes go first. */
        for (stream = 0; stream < 2; stream++) {
            kept = job->streams[stream].tail.used;
            told = noted(job, stream);
            if (kept > told) {
                send_from_tail(job, stream, kept - told);
                break;
            }
        }
        if (stream < 2) {
            continue;
        }
        /* Bytes that were noted but pushed out since are skipped. */
        stream = first->stream;
        kept = job->streams[stream].tail.used;
        told = noted(job, stream);
        if (told > kept) {
            uint64_t skip = told - kept < first->len ? told - kept : first->len;

            first->len -= skip;
        } else {
            first->len -= send_from_tail(job, stream, first->len);
        }
        if (first->len == 0) {
            job->note_start = (job->note_start + 1) % NOTES_MAX;
            job->note_count--;
        }
    }
    return true;
}
