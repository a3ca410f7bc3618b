#define _GNU_SOURCE
/* Kept commands: the end of their output stays here, to be read by offset as often as wanted. */
#include <errno.h>

#include "job.h"

/* Ends the reading of a command, with the count of bytes there were so far. */
static void end_reader(struct job *job, int err, uint8_t where)
{
    if (job->reader != 0) {
        out_done(job->reader, err, where, 0, job->streams[0].total);
        job->reader = 0;
    }
}

int kept_attach(const struct frame *frame)
{
    const uint8_t *p = frame->payload;
    struct job *job;
    int err = 0;

    if (frame->len < WALDO_HAND_ATTACH_LEN) {
        return WALDO_HAND_E_PAYLOAD;
    }
    job = find_job(get_u32(p));
    if (job == NULL || !is_kept(job)) {
        err = ENOENT;
    } else if (job->reader != 0) {
        err = EBUSY;
    } else if (get_u64(p + 8) > job->streams[0].total) {
        err = EINVAL;
    }
    if (err != 0) {
        out_done(frame->id, err, WALDO_HAND_WHERE_REQUEST, 0, 0);
        return 0;
    }
    job->reader = frame->id;
    job->reader_at = get_u64(p + 8);
    job->reader_credit = get_u64(p + 16);
    return 0;
}

bool kept_cancel(uint32_t id)
{
    struct job *job = find_reader(id);

    if (job != NULL) {
        end_reader(job, ECANCELED, WALDO_HAND_WHERE_CANCELLED);
    }
    return job != NULL;
}

void kept_feed(struct job *job)
{
    const struct stream *s = &job->streams[0];

    while (job->reader != 0 && out_room_for_data()) {
        uint64_t first = s->total - s->tail.used, left;
        uint32_t at, n;

        job->reader_at = job->reader_at > first ? job->reader_at : first;
        left = s->total - job->reader_at;
        if (left == 0) {
            if (job->state == JOB_FINISHED) {
                end_reader(job, 0, WALDO_HAND_WHERE_NONE);
            }
            return;
        }
        left = left < job->reader_credit ? left : job->reader_credit;
        at = (uint32_t)((s->tail.start + (job->reader_at - first)) % s->tail.cap);
        n = s->tail.cap - at < WALDO_HAND_CHUNK_MAX ? s->tail.cap - at : WALDO_HAND_CHUNK_MAX;
        n = n < left ? n : (uint32_t)left;
        if (n == 0) {
            return;
        }
        out_output(WALDO_HAND_OUT, job->reader, job->reader_at, s->tail.ring + at, n);
        job->reader_at += n;
        job->reader_credit -= job->reader_credit != UINT64_MAX ? n : 0;
    }
}

void kept_drop(struct job *job)
{
    end_reader(job, ENOENT, WALDO_HAND_WHERE_REQUEST);
    if (is_kept(job)) {
        job->flags &= ~WALDO_HAND_RUN_KEEP;
        drop_tail(&job->streams[0].tail);
    }
}
