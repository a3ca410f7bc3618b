#include "sandbox/hand_session.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"

enum {
    REQUEST_MAX = 4 * 1024 * 1024,  /* bytes of frames made at once */
    LISTING_MAX = 64 * 1024 * 1024, /* bytes of entries of one LIST */
    DIAGNOSTIC_MAX = 2048
};
#define ID_LAST 0xf0000000u /* a hand that has seen more cannot go on for long */

struct waldo__hand_call {
    waldo__hand_call *next;
    waldo__hand_call *prev;
    waldo__hand *hand;
    const waldo__hand_call_fns *fns; /* NULL: forgotten */
    void *userdata;
    uint32_t id;
    uint8_t type;
    int started;
    enum { HEARS_NOTHING, HEARS_NEXT, HEARS_NOW } drained;
    uint64_t offset[2];  /* next byte of each stream, at the earliest */
    uint64_t allowed[2]; /* bytes of each stream that may still come; file: data bytes */
    uint64_t credit;     /* output bytes that may still come; UINT64_MAX: no bound */
};

struct waldo__hand {
    waldo__loop *loop;
    waldo_channel *channel;
    int ready;
    int broke;
    int lost;
    int depth; /* callbacks being made: free only marks */
    int dead;
    uint32_t next_id;
    uint64_t features;
    size_t listed_count;
    waldo__hand_call calls; /* head of a ring */
    waldo__hand_events events;
    waldo__hand_decoder decoder;
    waldo__timer hello_timer;
    waldo__buf diagnostic;
    uint32_t listed[WALDO_HAND_KEPT_MAX]; /* ids told by the list that is coming */
};

static void call_unlink(waldo__hand_call *call)
{
    call->next->prev = call->prev;
    call->prev->next = call->next;
}

static void leave(waldo__hand *hand)
{
    hand->depth--;
    if (hand->depth == 0 && hand->dead) {
        waldo__hand_decoder_free(&hand->decoder);
        waldo__buf_free(&hand->diagnostic);
        waldo__free(hand);
    }
}

void waldo__hand_free(waldo__hand *hand)
{
    if (hand == NULL || hand->dead) {
        return;
    }
    hand->depth++;
    hand->dead = 1;
    waldo__timer_disarm(hand->loop, &hand->hello_timer);
    while (hand->calls.next != &hand->calls) {
        waldo__hand_call *call = hand->calls.next;

        call_unlink(call);
        waldo__free(call);
    }
    if (hand->channel != NULL) {
        hand->channel->ops->close(hand->channel);
        hand->channel = NULL;
    }
    leave(hand);
}

/* Take a call off and tell its owner. */
static void end_call(waldo__hand_call *call, const waldo__hand_end *end)
{
    const waldo__hand_call_fns *fns = call->fns;
    void *userdata = call->userdata;

    call_unlink(call);
    waldo__free(call);
    if (fns != NULL) {
        fns->ended(userdata, end);
    }
}

/* The session is over: calls end first, then the owner hears of it. */
static void lose(waldo__hand *hand, waldo_status status, const char *why, const waldo_error *cause)
{
    waldo_error *error = NULL;
    waldo_str note = waldo__str_trim(waldo__buf_str(&hand->diagnostic));
    waldo__hand_end end = { .status = WALDO_ELOST };

    if (hand->lost || hand->dead) {
        return;
    }
    hand->lost = 1;
    waldo__timer_disarm(hand->loop, &hand->hello_timer);
    waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "%s%s%s%s%.*s", why,
                    cause != NULL ? ": " : "", cause != NULL ? waldo_error_message(cause) : "",
                    note.len > 0 ? "; it said: " : "", (int)note.len, note.ptr);
    end.error = error;
    hand->depth++;
    while (!hand->dead && hand->calls.next != &hand->calls) {
        end_call(hand->calls.next, &end);
    }
    if (!hand->dead) {
        hand->events.lost(hand->events.userdata, error);
    }
    waldo_error_free(error);
    leave(hand);
}

/* ---- what comes in ---- */

static waldo__hand_call *find_call(waldo__hand *hand, uint32_t id)
{
    for (waldo__hand_call *call = hand->calls.next; call != &hand->calls; call = call->next) {
        if (call->id == id) {
            return call;
        }
    }
    return NULL;
}

static waldo_status on_output(waldo__hand_call *call, int stream, const waldo__hand_event *event)
{
    uint64_t offset = event->u.output.offset;
    waldo_str bytes = event->u.output.bytes;
    int at = stream - 1;

    if ((call->type != WALDO_HAND_RUN && call->type != WALDO_HAND_JOB_ATTACH) || !call->started ||
        offset < call->offset[at] || offset > UINT64_MAX - bytes.len ||
        bytes.len > call->allowed[at] || bytes.len > call->credit) {
        return WALDO_EPROTO;
    }
    call->offset[at] = offset + bytes.len;
    if (call->allowed[at] != UINT64_MAX) {
        call->allowed[at] -= bytes.len;
    }
    if (call->credit != UINT64_MAX) {
        call->credit -= bytes.len;
    }
    if (call->fns != NULL && call->fns->output != NULL) {
        call->fns->output(call->userdata, stream, offset, bytes);
    }
    return WALDO_OK;
}

/* Why a command did not start: words that say which part of the request to look at. */
static waldo_status on_start_error(waldo__hand_call *call, const waldo__hand_event *event)
{
    static const struct {
        waldo_status status;
        const char *what;
    } phases[] = {
        [0] = { WALDO_ESTART, "could not be started" },
        [WALDO_HAND_PHASE_REQUEST] = { WALDO_EINVAL, "is not a possible request" },
        [WALDO_HAND_PHASE_LIMIT] = { WALDO_EBUSY, "is one too many at once" },
        [WALDO_HAND_PHASE_RESOURCES] = { WALDO_EBUSY,
                                         "could not be started for lack of resources" },
        [WALDO_HAND_PHASE_CHDIR] = { WALDO_ESTART, "cannot use its working directory" },
        [WALDO_HAND_PHASE_SCRIPT] = { WALDO_ESTART, "could not be given its script" },
        [WALDO_HAND_PHASE_EXEC] = { WALDO_ESTART, "could not be started" },
        [WALDO_HAND_PHASE_UNSUPPORTED] = { WALDO_ENOTSUP, "asks for what the hand cannot do" },
        [WALDO_HAND_PHASE_PTY] = { WALDO_ESTART, "could not be given a terminal" },
    };
    static const waldo__hand_exit unknown = { .flags = WALDO_HAND_EXIT_LOST,
                                              .how = WALDO_HAND_HOW_UNKNOWN };
    size_t phase = event->u.start_error.phase;
    waldo_error *error = NULL;
    waldo__hand_end end;

    if (call->type != WALDO_HAND_RUN || call->started) {
        return WALDO_EPROTO;
    }
    /* The process that was to start it died, perhaps by its command: that may have run. */
    if (phase == WALDO_HAND_PHASE_RESOURCES && event->u.start_error.err == EIO) {
        end_call(call, &(waldo__hand_end){ .exit = &unknown });
        return WALDO_OK;
    }
    phase = phase < WALDO__COUNT(phases) ? phase : 0;
    end = (waldo__hand_end){ .status = phases[phase].status };
    waldo_error_set(&error, end.status, WALDO_CLASS_BACKEND, "the command %s: %s",
                    phases[phase].what, waldo__errno_text(event->u.start_error.err));
    end.error = error;
    end_call(call, &end);
    waldo_error_free(error);
    return WALDO_OK;
}

static waldo_status on_exit_frame(waldo__hand_call *call, const waldo__hand_event *event)
{
    const waldo__hand_exit *ended = &event->u.exit;

    if (call->type != WALDO_HAND_RUN || !call->started || call->offset[0] > ended->total[0] ||
        call->offset[1] > ended->total[1]) {
        return WALDO_EPROTO;
    }
    end_call(call, &(waldo__hand_end){ .exit = ended });
    return WALDO_OK;
}

/* One of the kept commands; each comes once, and there are not more than the hand may keep. */
static waldo_status on_job(waldo__hand_call *call, const waldo__hand_event *event)
{
    waldo__hand *hand = call->hand;
    uint32_t id = event->u.job.id;

    if (call->type != WALDO_HAND_JOB_LIST || hand->listed_count == WALDO__COUNT(hand->listed)) {
        return WALDO_EPROTO;
    }
    for (size_t i = 0; i < hand->listed_count; i++) {
        if (hand->listed[i] == id) {
            return WALDO_EPROTO;
        }
    }
    hand->listed[hand->listed_count++] = id;
    return call->fns != NULL && call->fns->job != NULL
               ? call->fns->job(call->userdata, &event->u.job)
               : WALDO_OK;
}

/* Its value is the highest id of a RUN: no listed one is above it, and ours will be. */
static int list_fits(waldo__hand *hand, const waldo__hand_done *done)
{
    if (done->err != 0) {
        return 1;
    }
    for (size_t i = 0; i < hand->listed_count; i++) {
        if (hand->listed[i] > done->value) {
            return 0;
        }
    }
    if (done->value >= ID_LAST) {
        return 0;
    }
    if (hand->next_id <= done->value) {
        hand->next_id = (uint32_t)done->value + 1;
    }
    return 1;
}

static waldo_status on_done(waldo__hand_call *call, const waldo__hand_event *event)
{
    const waldo__hand_done *done = &event->u.done;
    waldo_error *error = NULL;
    waldo__hand_end end = { .done = done };

    if (call->type == WALDO_HAND_RUN ||
        (call->type == WALDO_HAND_JOB_LIST && !list_fits(call->hand, done))) {
        return WALDO_EPROTO;
    }
    if (done->err != 0) {
        end.status =
            done->where == WALDO_HAND_WHERE_LIMIT ? WALDO_EBUSY : waldo__errno_status(done->err);
        waldo_error_set(&error, end.status, WALDO_CLASS_BACKEND, "%s",
                        waldo__errno_text(done->err));
        end.error = error;
    }
    end_call(call, &end);
    waldo_error_free(error);
    return WALDO_OK;
}

static waldo_status on_data(waldo__hand_call *call, const waldo__hand_event *event)
{
    waldo_str bytes = event->u.bytes;

    if ((call->type != WALDO_HAND_READ && call->type != WALDO_HAND_LIST &&
         call->type != WALDO_HAND_STAT) ||
        bytes.len > call->allowed[0]) {
        return WALDO_EPROTO;
    }
    call->allowed[0] -= bytes.len;
    if (call->fns != NULL && call->fns->data != NULL) {
        call->fns->data(call->userdata, bytes);
    }
    return WALDO_OK;
}

static waldo_status on_credit(waldo__hand_call *call, const waldo__hand_event *event)
{
    if (call->fns != NULL && call->fns->taken != NULL) {
        call->fns->taken(call->userdata, event->u.credit);
    }
    return WALDO_OK;
}

static waldo_status on_call_event(waldo__hand *hand, const waldo__hand_event *event)
{
    waldo__hand_call *call = find_call(hand, event->id);

    if (call == NULL) {
        /* Acknowledged input of a command that has ended meanwhile. */
        return event->type == WALDO_HAND_CREDIT ? WALDO_OK : WALDO_EPROTO;
    }
    switch (event->type) {
    case WALDO_HAND_STARTED:
        if (call->type != WALDO_HAND_RUN || call->started) {
            return WALDO_EPROTO;
        }
        call->started = 1;
        return WALDO_OK;
    case WALDO_HAND_START_ERROR:
        return on_start_error(call, event);
    case WALDO_HAND_OUT:
        return on_output(call, 1, event);
    case WALDO_HAND_ERR:
        return on_output(call, 2, event);
    case WALDO_HAND_EXIT:
        return on_exit_frame(call, event);
    case WALDO_HAND_DATA:
        return on_data(call, event);
    case WALDO_HAND_DONE:
        return on_done(call, event);
    case WALDO_HAND_CREDIT:
        return on_credit(call, event);
    case WALDO_HAND_JOB:
        return on_job(call, event);
    default:
        return WALDO_EPROTO;
    }
}

static waldo_status on_event(void *userdata, const waldo__hand_event *event)
{
    waldo__hand *hand = userdata;
    waldo_status status = WALDO_OK;
    char why[256];

    if (event->type == WALDO_HAND_HELLO) {
        hand->ready = 1;
        hand->features = event->u.hello.features;
        waldo__timer_disarm(hand->loop, &hand->hello_timer);
        hand->events.ready(hand->events.userdata);
    } else if (event->type == WALDO_HAND_ERROR) {
        snprintf(why, sizeof why, "the hand ended the session with error %u (%.*s)",
                 event->u.error.code, (int)(event->u.error.text.len & 127),
                 event->u.error.text.ptr);
        lose(hand, WALDO_ELOST,
             event->u.error.code == WALDO_HAND_E_TAKEN
                 ? "another process has opened the same machine and goes on with it"
                 : why,
             NULL);
    } else if (event->type != WALDO_HAND_PONG) {
        status = on_call_event(hand, event);
    }
    return hand->dead || hand->lost ? WALDO_ECLOSED : status;
}

static void on_bytes(void *userdata, waldo_str bytes)
{
    waldo__hand *hand = userdata;
    waldo_status status;
    char why[256];

    if (hand->lost || hand->dead) {
        return;
    }
    hand->depth++;
    status = waldo__hand_feed(&hand->decoder, bytes, on_event, hand);
    if (status != WALDO_OK && !hand->lost && !hand->dead) {
        const char *problem = waldo__hand_problem(&hand->decoder);

        snprintf(why, sizeof why, "what the sandbox sent is not the hand's protocol (%s)",
                 problem[0] != '\0' ? problem : "a frame out of its state");
        lose(hand, status == WALDO_ENOMEM ? WALDO_ENOMEM : WALDO_ELOST, why, NULL);
    }
    leave(hand);
}

static void on_closed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__hand *hand = userdata;

    hand->broke = hand->ready && !hand->lost;
    lose(hand, status != WALDO_OK && !hand->ready ? status : WALDO_ELOST,
         hand->ready ? "the sandbox's stream ended" : "the sandbox ended before its hand answered",
         error);
}

/* The last words only. */
static void on_diagnostic(void *userdata, waldo_str bytes)
{
    waldo__hand *hand = userdata;
    size_t room = DIAGNOSTIC_MAX - hand->diagnostic.len;

    waldo__buf_add(&hand->diagnostic, bytes.ptr, bytes.len < room ? bytes.len : room);
}

/* Who asks again while it is told hears of the next time. */
static void on_drained(void *userdata)
{
    waldo__hand *hand = userdata;
    waldo__hand_call *call = hand->calls.next;

    for (; call != &hand->calls; call = call->next) {
        call->drained = call->drained == HEARS_NEXT ? HEARS_NOW : call->drained;
    }
    hand->depth++;
    for (call = hand->calls.next; !hand->dead && call != &hand->calls;) {
        if (call->drained == HEARS_NOW) {
            call->drained = HEARS_NOTHING;
            if (call->fns != NULL) {
                call->fns->drained(call->userdata);
            }
            call = hand->calls.next; /* calls may have gone */
        } else {
            call = call->next;
        }
    }
    leave(hand);
}

static void no_hello(void *userdata)
{
    lose(userdata, WALDO_ETIMEDOUT, "the hand did not answer in time", NULL);
}

/* ---- what goes out ---- */

static waldo_status send_frames(waldo__hand *hand, waldo__buf *frames, waldo_status status)
{
    if (status == WALDO_OK) {
        status = hand->lost || hand->channel == NULL
                     ? WALDO_ELOST
                     : hand->channel->ops->send(hand->channel, waldo__buf_str(frames));
    }
    waldo__buf_free(frames);
    return status;
}

waldo_status waldo__hand_new(waldo__loop *loop, waldo_channel *channel, int64_t deadline_ns,
                             const waldo__hand_events *events, waldo__hand **ret_hand)
{
    waldo__hand *hand = WALDO__NEW(waldo__hand);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);
    uint8_t nonce[WALDO_HAND_NONCE_LEN];
    waldo_status status;

    if (hand == NULL) {
        channel->ops->close(channel);
        return WALDO_ENOMEM;
    }
    *hand = (waldo__hand){ .loop = loop,
                           .channel = channel,
                           .events = *events,
                           .diagnostic = WALDO__BUF_INIT(DIAGNOSTIC_MAX),
                           .next_id = 1 };
    hand->calls.next = hand->calls.prev = &hand->calls;
    waldo__random(nonce, sizeof nonce);
    waldo__hand_decoder_init(&hand->decoder, nonce);
    waldo__timer_init(&hand->hello_timer, no_hello, hand);
    channel->ops->listen(channel, &(waldo_channel_events){ .size = sizeof(waldo_channel_events),
                                                           .userdata = hand,
                                                           .on_bytes = on_bytes,
                                                           .on_drained = on_drained,
                                                           .on_closed = on_closed,
                                                           .on_diagnostic = on_diagnostic });
    status = waldo__timer_arm(loop, &hand->hello_timer, deadline_ns);
    if (status == WALDO_OK) {
        status = send_frames(hand, &frames, waldo__hand_put_hello(&frames, nonce));
    }
    if (status != WALDO_OK) {
        waldo__hand_free(hand);
        return status;
    }
    *ret_hand = hand;
    return WALDO_OK;
}

void waldo__hand_give(waldo__hand *hand, void *userdata)
{
    hand->events.userdata = userdata;
}

int waldo__hand_broke(const waldo__hand *hand)
{
    return hand->broke;
}

uint64_t waldo__hand_features(const waldo__hand *hand)
{
    return hand->features;
}

size_t waldo__hand_queued(const waldo__hand *hand)
{
    return hand->channel != NULL ? hand->channel->ops->queued(hand->channel) : 0;
}

static waldo__hand_call *new_call(waldo__hand *hand, uint8_t type, const waldo__hand_call_fns *fns,
                                  void *userdata)
{
    waldo__hand_call *call = WALDO__NEW(waldo__hand_call);

    if (call == NULL) {
        return NULL;
    }
    *call = (waldo__hand_call){
        .hand = hand, .fns = fns, .userdata = userdata, .type = type, .credit = UINT64_MAX
    };
    do {
        call->id = hand->next_id++;
    } while (call->id == 0 || find_call(hand, call->id) != NULL);
    call->next = &hand->calls;
    call->prev = hand->calls.prev;
    call->prev->next = call;
    hand->calls.prev = call;
    return call;
}

static waldo_status finish_start(waldo__hand_call *call, waldo__buf *frames, waldo_status status,
                                 waldo__hand_call **ret_call)
{
    status = send_frames(call->hand, frames, status);
    if (status != WALDO_OK) {
        call_unlink(call);
        waldo__free(call);
        return status;
    }
    *ret_call = call;
    return WALDO_OK;
}

waldo_status waldo__hand_start_run(waldo__hand *hand, const waldo__hand_run *run,
                                   const waldo__hand_call_fns *fns, void *userdata,
                                   waldo__hand_call **ret_call)
{
    waldo__hand_call *call = new_call(hand, WALDO_HAND_RUN, fns, userdata);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    for (int i = 0; i < 2; i++) {
        call->allowed[i] =
            run->head[i] <= UINT64_MAX - run->tail[i] ? run->head[i] + run->tail[i] : UINT64_MAX;
    }
    if ((run->flags & WALDO_HAND_RUN_KEEP) != 0) {
        call->allowed[0] = call->allowed[1] = 0; /* its output comes when it is asked for */
    }
    call->credit = run->credit;
    return finish_start(call, &frames, waldo__hand_put_run(&frames, call->id, run), ret_call);
}

waldo_status waldo__hand_start_file(waldo__hand *hand, enum waldo_hand_request type,
                                    const waldo__hand_file *file, const waldo__hand_call_fns *fns,
                                    void *userdata, waldo__hand_call **ret_call)
{
    waldo__hand_call *call = new_call(hand, (uint8_t)type, fns, userdata);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    call->allowed[0] = type == WALDO_HAND_READ ? file->limit : LISTING_MAX;
    return finish_start(call, &frames, waldo__hand_put_file(&frames, type, call->id, file),
                        ret_call);
}

waldo_status waldo__hand_start_attach(waldo__hand *hand, uint32_t job, uint64_t offset,
                                      uint64_t credit, const waldo__hand_call_fns *fns,
                                      void *userdata, waldo__hand_call **ret_call)
{
    waldo__hand_call *call = new_call(hand, WALDO_HAND_JOB_ATTACH, fns, userdata);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    call->started = 1;
    call->offset[0] = offset;
    call->allowed[0] = UINT64_MAX;
    call->credit = credit;
    return finish_start(call, &frames,
                        waldo__hand_put_attach(&frames, call->id, job, offset, credit), ret_call);
}

waldo_status waldo__hand_start_list(waldo__hand *hand, const waldo__hand_call_fns *fns,
                                    void *userdata, waldo__hand_call **ret_call)
{
    waldo__hand_call *call = new_call(hand, WALDO_HAND_JOB_LIST, fns, userdata);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    hand->listed_count = 0;
    return finish_start(call, &frames, waldo__hand_put_job_list(&frames, call->id), ret_call);
}

waldo_status waldo__hand_adopt(waldo__hand *hand, uint32_t job, const waldo__hand_call_fns *fns,
                               void *userdata, waldo__hand_call **ret_call)
{
    waldo__hand_call *call =
        find_call(hand, job) == NULL ? new_call(hand, WALDO_HAND_RUN, fns, userdata) : NULL;

    if (call == NULL) {
        return hand->lost ? WALDO_ELOST : WALDO_ENOMEM;
    }
    hand->next_id = call->id; /* not used up */
    call->id = job;
    call->started = 1;
    *ret_call = call;
    return WALDO_OK;
}

waldo_status waldo__hand_start_lease(waldo__hand *hand, uint32_t ms,
                                     const waldo__hand_call_fns *fns, void *userdata,
                                     waldo__hand_call **ret_call)
{
    waldo__hand_call *call = new_call(hand, WALDO_HAND_LEASE, fns, userdata);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    return finish_start(call, &frames, waldo__hand_put_lease(&frames, call->id, ms), ret_call);
}

waldo_status waldo__hand_shutdown(waldo__hand *hand, const waldo__hand_call_fns *fns,
                                  void *userdata)
{
    waldo__hand_call *call = new_call(hand, WALDO_HAND_SHUTDOWN, fns, userdata);
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    if (call == NULL) {
        return WALDO_ENOMEM;
    }
    return finish_start(call, &frames, waldo__hand_put_shutdown(&frames, call->id), &call);
}

uint32_t waldo__hand_call_id(const waldo__hand_call *call)
{
    return call->id;
}

waldo_status waldo__hand_forget_job(waldo__hand *hand, uint32_t job)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(hand, &frames, waldo__hand_put_forget(&frames, job));
}

waldo_status waldo__hand_stdin(waldo__hand_call *call, waldo_str bytes)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames, waldo__hand_put_stdin(&frames, call->id, bytes));
}

waldo_status waldo__hand_stdin_eof(waldo__hand_call *call)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames, waldo__hand_put_stdin_eof(&frames, call->id));
}

waldo_status waldo__hand_signal(waldo__hand_call *call, int number, enum waldo_hand_scope scope)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames,
                       waldo__hand_put_signal(&frames, call->id, number, scope));
}

waldo_status waldo__hand_resize(waldo__hand_call *call, uint16_t rows, uint16_t columns)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames,
                       waldo__hand_put_resize(&frames, call->id, rows, columns));
}

waldo_status waldo__hand_credit(waldo__hand_call *call, uint64_t bytes)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    call->credit += bytes;
    return send_frames(call->hand, &frames, waldo__hand_put_credit(&frames, call->id, bytes));
}

waldo_status waldo__hand_cancel(waldo__hand_call *call, uint32_t grace_ms)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames, waldo__hand_put_cancel(&frames, call->id, grace_ms));
}

void waldo__hand_wait_drained(waldo__hand_call *call)
{
    call->drained = HEARS_NEXT;
}

waldo_status waldo__hand_write(waldo__hand_call *call, waldo_str bytes)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames, waldo__hand_put_write_data(&frames, call->id, bytes));
}

waldo_status waldo__hand_write_end(waldo__hand_call *call)
{
    waldo__buf frames = WALDO__BUF_INIT(REQUEST_MAX);

    return send_frames(call->hand, &frames, waldo__hand_put_write_end(&frames, call->id));
}

void waldo__hand_forget(waldo__hand_call *call)
{
    call->fns = NULL;
}
