/*
 * The stream to the hand: what its process prints comes on one long answer; what goes to it are
 * requests, one after the other, each with all that has gathered meanwhile.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "loop/sendq.h"
#include "e2b.h"

enum { PIECE = 512 * 1024, START_MS = 20000, IDLE_MS = 70000, WHY_MS = 5000, KEPT = 1024 * 1024 };
#define QUEUE_MAX ((size_t)256 * 1024 * 1024)

typedef enum stage { STARTING, OPEN, OVER, TOLD } stage;

struct e2b_channel {
    waldo_channel base;
    e2b_place place; /* a copy, for a callback may free its machine */
    stage stage;
    e2b_stream stream;
    e2b_call input;  /* on its way to the process */
    e2b_call health; /* asks why the stream ended */
    waldo__timer timer;
    waldo__task send_task;
    int64_t idle_ms;
    int64_t pid;
    e2b_call_fn opened;
    void *userdata;
    waldo_channel_events events;
    waldo__sendq out;
    size_t sending; /* of its front */
    waldo_error *cause;
    int listening;
    int got_bytes;
    int in_callback;
    int closed;
};

static void release(e2b_channel *ch)
{
    waldo__loop *loop = ch->place.env->loop;

    waldo__timer_disarm(loop, &ch->timer);
    waldo__task_cancel(loop, &ch->send_task);
    waldo__e2b_stream_free(&ch->stream);
    waldo__e2b_call_free(&ch->input);
    waldo__e2b_call_free(&ch->health);
    waldo__sendq_free(&ch->out);
    waldo_error_free(ch->cause);
    waldo__free(ch);
}

/* A callback may close the channel: it is freed when the last one has returned. */
static int leave(e2b_channel *ch)
{
    ch->in_callback--;
    if (ch->closed && ch->in_callback == 0) {
        release(ch);
        return 0;
    }
    return !ch->closed;
}

void waldo__e2b_channel_free(e2b_channel *ch)
{
    if (ch != NULL) {
        ch->closed = 1;
        ch->in_callback++;
        leave(ch);
    }
}

/* ---- the end ---- */

/* status is the opener's to see when there never was a stream. */
static void tell(e2b_channel *ch, waldo_status status, const char *what)
{
    waldo_error *told = NULL;
    int was_open = ch->stage != STARTING;

    if (ch->stage == TOLD) {
        return;
    }
    ch->stage = TOLD;
    waldo__timer_disarm(ch->place.env->loop, &ch->timer);
    if (!was_open) {
        told = waldo_error_copy(ch->cause);
    } else {
        status = ch->got_bytes ? WALDO_ELOST : WALDO_EUNAVAILABLE;
    }
    waldo_error_set(&told, status, WALDO_CLASS_BACKEND, "e2b: %s%s%s", what,
                    ch->cause != NULL ? ": " : "", waldo_error_message(ch->cause));
    ch->in_callback++;
    if (!was_open) {
        ch->opened(ch->userdata, status, told);
    } else if (ch->listening) {
        ch->events.on_closed(ch->events.userdata, status, told);
    }
    waldo_error_free(told);
    leave(ch);
}

static void on_health(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;

    (void)error;
    tell(ch, WALDO_ELOST,
         status == WALDO_OK      ? "the stream broke, but the sandbox is there"
         : status == WALDO_ELOST ? "the sandbox is gone: it was killed or paused, or its time is "
                                   "over"
                                 : "the stream broke, and the sandbox cannot be reached");
}

/* A stream that ended without a word: is the sandbox still there? error is taken. */
static void broke(e2b_channel *ch, waldo_status status, waldo_error *error)
{
    const e2b_request request = { .method = "GET",
                                  .path = "/health",
                                  .what = "asking for its health",
                                  .in_sandbox = 1,
                                  .replay = WALDO__REPLAY_SAFE,
                                  .ms = WHY_MS };

    if (ch->stage >= OVER) {
        waldo_error_free(error);
        return;
    }
    ch->cause = error;
    if (ch->stage == STARTING) {
        tell(ch, status, "the hand's stream could not be opened");
        return;
    }
    ch->stage = OVER;
    waldo__e2b_call_start(&ch->health, &request, on_health);
}

static void on_over(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;
    waldo_error *made = NULL;

    status = waldo__e2b_stream_status(&ch->stream, status, error, &made);
    if (status == WALDO_OK) {
        status = waldo_error_set(&made, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                                 "e2b: the stream ended, and its process did not");
    }
    broke(ch, status, made);
}

static void too_late(void *userdata)
{
    waldo_error *error = NULL;

    waldo_error_set(&error, WALDO_EUNAVAILABLE, WALDO_CLASS_TRANSPORT,
                    "e2b: the sandbox did not start the hand's stream in time");
    broke(userdata, WALDO_EUNAVAILABLE, error);
}

/* ---- what comes ---- */

static void started(e2b_channel *ch, int64_t pid)
{
    ch->pid = pid;
    ch->stage = OPEN;
    waldo__timer_disarm(ch->place.env->loop, &ch->timer);
    ch->opened(ch->userdata, WALDO_OK, NULL);
}

static waldo_status on_event(void *userdata, e2b_event event, int64_t number, waldo_str text)
{
    e2b_channel *ch = userdata;
    char what[160];

    if (event == E2B_STARTED && ch->stage == STARTING) {
        started(ch, number);
    } else if (event == E2B_ENDED && ch->stage < OVER) {
        snprintf(what, sizeof what, "the hand's stream ended with its process (%.*s)",
                 (int)(text.len < 60 ? text.len : 60), text.ptr);
        tell(ch, WALDO_EUNAVAILABLE, what);
    } else if (event == E2B_OUTPUT && ch->stage == OPEN && ch->listening) {
        ch->got_bytes = 1;
        ch->events.on_bytes(ch->events.userdata, text);
    } else if (event == E2B_DIAGNOSTIC && ch->stage == OPEN && ch->listening) {
        ch->events.on_diagnostic(ch->events.userdata, text);
    } else if (event != E2B_DIAGNOSTIC && ch->stage < OVER) {
        return WALDO_EPROTO;
    }
    return ch->closed ? WALDO_ECLOSED : WALDO_OK;
}

static waldo_status on_bytes(void *userdata, waldo_str bytes)
{
    e2b_channel *ch = userdata;
    waldo_status status;

    ch->in_callback++;
    status = waldo__e2b_stream_feed(&ch->stream, bytes, on_event, ch);
    return leave(ch) ? status : WALDO_OK;
}

/* ---- what goes ---- */

static void send_some(void *userdata);

static void tell_drained(void *userdata)
{
    e2b_channel *ch = userdata;

    if (ch->listening && ch->events.on_drained != NULL) {
        ch->in_callback++;
        ch->events.on_drained(ch->events.userdata);
        leave(ch);
    }
}

static void on_sent(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;

    if (status != WALDO_OK) {
        broke(ch, status, waldo_error_copy(error));
        return;
    }
    ch->out.sent += ch->sending;
    ch->sending = 0;
    if (waldo__sendq_left(&ch->out) > 0) {
        send_some(ch);
        return;
    }
    ch->out.sent = 0;
    if (ch->out.out.cap > KEPT) {
        waldo__buf_free(&ch->out.out);
    }
    waldo__buf_clear(&ch->out.out);
    tell_drained(ch);
}

static void send_some(void *userdata)
{
    e2b_channel *ch = userdata;
    const e2b_request request = { .method = "POST",
                                  .path = "/process.Process/SendInput",
                                  .what = "sending to the hand",
                                  .in_sandbox = 1,
                                  .replay = WALDO__REPLAY_NEVER,
                                  .idle_ms = ch->idle_ms };
    size_t len = waldo__sendq_left(&ch->out);
    waldo__json_writer jw;

    if (ch->stage != OPEN || ch->sending > 0 || len == 0) {
        return;
    }
    ch->sending = len < PIECE ? len : PIECE;
    waldo__buf_clear(&ch->input.body);
    waldo__json_writer_init(&jw, &ch->input.body);
    waldo__jw_object(&jw, NULL);
    waldo__jw_object(&jw, "process");
    waldo__jw_int(&jw, "pid", ch->pid);
    waldo__jw_end(&jw, '}');
    waldo__jw_object(&jw, "input");
    waldo__jw_base64(&jw, "stdin", WALDO__S(""),
                     waldo__strn(ch->out.out.ptr + ch->out.sent, ch->sending));
    waldo__jw_end(&jw, '}');
    waldo__jw_end(&jw, '}');
    waldo__e2b_call_start(&ch->input, &request, on_sent);
}

/* ---- the channel's functions ---- */

static void channel_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    e2b_channel *ch = (e2b_channel *)channel;

    ch->events = *events;
    ch->listening = 1;
}

/* All that one round sends goes in one request. */
static waldo_status channel_send(waldo_channel *channel, waldo_str bytes)
{
    e2b_channel *ch = (e2b_channel *)channel;
    waldo_status status;

    if (ch->stage != OPEN) {
        return WALDO_ECLOSED;
    }
    if (ch->sending == 0 || ch->out.sent > QUEUE_MAX / 8) {
        waldo__buf_consume(&ch->out.out, ch->out.sent);
        ch->out.sent = 0;
    }
    status = waldo__sendq_add(&ch->out, bytes);
    if (status == WALDO_OK && ch->sending == 0) {
        waldo__task_queue(ch->place.env->loop, &ch->send_task);
    }
    return status;
}

static size_t channel_queued(const waldo_channel *channel)
{
    return waldo__sendq_left(&((const e2b_channel *)channel)->out);
}

static void channel_pause(waldo_channel *channel, int paused)
{
    e2b_channel *ch = (e2b_channel *)channel;

    if (ch->stream.call.ask.transfer != NULL) {
        waldo__transfer_pause(ch->stream.call.ask.transfer, paused);
    }
}

static void channel_close(waldo_channel *channel)
{
    waldo__e2b_channel_free((e2b_channel *)channel);
}

static const waldo_channel_ops ops = { .version = WALDO_BACKEND_VERSION,
                                       .size = sizeof(waldo_channel_ops),
                                       .listen = channel_listen,
                                       .send = channel_send,
                                       .queued = channel_queued,
                                       .pause = channel_pause,
                                       .close = channel_close };

waldo_channel *waldo__e2b_channel_base(e2b_channel *channel)
{
    return &channel->base;
}

/* As root, for the durable hand believes nobody else who brings a stream. */
waldo_status waldo__e2b_channel_new(const e2b_place *place, const e2b_channel_options *options,
                                    e2b_call_fn done, void *userdata, e2b_channel **ret_channel)
{
    static const char script[] = "chmod 755 \"$0\" && exec \"$0\" attach \"$1\"";
    const char *const args[] = { options->hand, options->address, NULL };
    e2b_channel *ch = WALDO__NEW(e2b_channel);
    e2b_request limits = { .what = "the hand's stream", .user = "root" };

    if (ch == NULL) {
        return WALDO_ENOMEM;
    }
    *ch = (e2b_channel){ .base = { &ops },
                         .place = *place,
                         .idle_ms = options->idle_ms > 0 ? options->idle_ms : IDLE_MS,
                         .opened = done,
                         .userdata = userdata,
                         .out = WALDO__SENDQ_INIT(QUEUE_MAX) };
    waldo__e2b_stream_init(&ch->stream, &ch->place, ch);
    waldo__e2b_call_init(&ch->input, &ch->place, ch);
    waldo__e2b_call_init(&ch->health, &ch->place, ch);
    waldo__timer_init(&ch->timer, too_late, ch);
    waldo__task_init(&ch->send_task, send_some, ch);
    if (waldo__timer_arm(
            place->env->loop, &ch->timer,
            waldo__deadline_ns(options->start_ms > 0 ? options->start_ms : START_MS)) != WALDO_OK) {
        release(ch);
        return WALDO_ENOMEM;
    }
    limits.idle_ms = ch->idle_ms;
    waldo__e2b_stream_start(&ch->stream, &limits, script, args, 1, on_bytes, on_over);
    *ret_channel = ch;
    return WALDO_OK;
}
