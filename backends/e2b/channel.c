/*
 * The stream to the hand: what its process prints comes on one long answer; what goes to it are
 * requests, one after the other.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "e2b.h"

enum { PIECE = 512 * 1024, START_MS = 20000, IDLE_MS = 70000, WHY_MS = 5000 };

#define NOBODY ": there is no hand, or another process opened the same machine at this moment"

typedef enum stage { STARTING, OPEN, OVER } stage;

struct e2b_channel {
    waldo__pipe pipe; /* first */
    stage stage;
    int64_t idle_ms;
    int64_t pid;
    waldo__api_fn opened;
    void *userdata;
    waldo_error *cause;
    waldo__timer timer; /* until it is open */
    e2b_stream stream;
    waldo__api_call input;  /* on its way to the process */
    waldo__api_call health; /* asks why the stream ended */
    e2b_place place;        /* a copy, for a callback may free its machine */
};

static void release(void *userdata)
{
    e2b_channel *ch = userdata;

    waldo__timer_disarm(ch->place.env->loop, &ch->timer);
    waldo__e2b_stream_free(&ch->stream);
    waldo__api_call_free(&ch->input);
    waldo__api_call_free(&ch->health);
    waldo__pipe_free(&ch->pipe);
    waldo_error_free(ch->cause);
    waldo__free(ch);
}

void waldo__e2b_channel_free(e2b_channel *ch)
{
    if (ch != NULL) {
        waldo__pipe_close(&ch->pipe);
    }
}

/* ---- the end ---- */

static void over(e2b_channel *ch, const char *what)
{
    waldo__pipe_enter(&ch->pipe);
    waldo__pipe_over(&ch->pipe, "e2b", what, ch->cause);
    waldo__pipe_leave(&ch->pipe);
}

static void on_health(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;
    const char *what = "the stream broke, and nobody answers for the sandbox";

    (void)error;
    if (status == WALDO_OK) {
        what = ch->pipe.got_bytes ? "the stream broke, but the sandbox is there"
                                  : "the stream broke" NOBODY;
    } else if (status == WALDO_ELOST) {
        what = "the sandbox is gone: it was killed or paused, or its time is over";
    }
    over(ch, what);
}

/* A stream that ended without a word: is the sandbox still there? error is taken. */
static void broke(e2b_channel *ch, waldo_status status, waldo_error *error)
{
    const waldo__api_request request = { .method = "GET",
                                         .path = "/health",
                                         .what = "asking for its health",
                                         .kind = E2B_DAEMON,
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = WHY_MS };
    stage before = ch->stage;

    if (before == OVER) {
        waldo_error_free(error);
        return;
    }
    ch->cause = error;
    ch->stage = OVER;
    ch->pipe.open = before == OPEN; /* what came before is still heard, nothing is sent */
    if (before == OPEN) {
        waldo__api_call_start(&ch->health, &request, on_health);
        return;
    }
    waldo__timer_disarm(ch->place.env->loop, &ch->timer);
    waldo__pipe_enter(&ch->pipe);
    ch->opened(ch->userdata, status, error);
    waldo__pipe_leave(&ch->pipe);
}

static void on_over(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;
    waldo_error *made = NULL;

    status = waldo__e2b_stream_status(&ch->stream, status, error, &made);
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

static waldo_status on_event(void *userdata, e2b_event event, int64_t number, waldo_str text)
{
    e2b_channel *ch = userdata;
    char what[256];

    if (event == E2B_STARTED && ch->stage == STARTING && number > 0 && number <= UINT32_MAX) {
        ch->pid = number;
        ch->stage = OPEN;
        ch->pipe.open = 1;
        waldo__timer_disarm(ch->place.env->loop, &ch->timer);
        ch->opened(ch->userdata, WALDO_OK, NULL);
    } else if (event == E2B_ENDED && ch->stage == OPEN) {
        snprintf(what, sizeof what, "the hand's stream ended with its process (%.*s)%s",
                 (int)(text.len < 60 ? text.len : 60), text.ptr, ch->pipe.got_bytes ? "" : NOBODY);
        ch->stage = OVER;
        over(ch, what);
    } else if (event == E2B_OUTPUT) {
        waldo__pipe_bytes(&ch->pipe, text);
    } else if (event == E2B_DIAGNOSTIC) {
        waldo__pipe_diagnostic(&ch->pipe, text);
    } else if (ch->stage != OVER) {
        return WALDO_EPROTO;
    }
    return ch->pipe.closed ? WALDO_ECLOSED : WALDO_OK;
}

static waldo_status on_bytes(void *userdata, waldo_str bytes)
{
    e2b_channel *ch = userdata;
    waldo_status status;

    waldo__pipe_enter(&ch->pipe);
    status = waldo__e2b_stream_feed(&ch->stream, bytes, on_event, ch);
    if (status == WALDO_OK && waldo__connect_ended(&ch->stream.frames)) {
        on_over(ch, WALDO_OK, NULL); /* whatever the connection does */
    }
    return waldo__pipe_leave(&ch->pipe) ? status : WALDO_OK;
}

/* ---- what goes ---- */

static void on_sent(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;

    if (status != WALDO_OK) {
        broke(ch, status, waldo_error_copy(error));
        return;
    }
    waldo__pipe_enter(&ch->pipe);
    waldo__pipe_sent(&ch->pipe);
    waldo__pipe_leave(&ch->pipe);
}

static void send_piece(void *userdata, waldo_str piece)
{
    e2b_channel *ch = userdata;
    const waldo__api_request request = { .method = "POST",
                                         .path = "/process.Process/SendInput",
                                         .what = "sending to the hand",
                                         .kind = E2B_DAEMON,
                                         .replay = WALDO__REPLAY_NEVER,
                                         .idle_ms = ch->idle_ms };
    waldo__json_writer jw;

    if (ch->stage != OPEN) {
        return;
    }
    waldo__buf_clear(&ch->input.body);
    waldo__json_writer_init(&jw, &ch->input.body);
    waldo__jw_object(&jw, NULL);
    waldo__jw_object(&jw, "process");
    waldo__jw_int(&jw, "pid", ch->pid);
    waldo__jw_end(&jw, '}');
    waldo__jw_object(&jw, "input");
    waldo__jw_base64(&jw, "stdin", WALDO__S(""), piece);
    waldo__jw_end(&jw, '}');
    waldo__jw_end(&jw, '}');
    waldo__api_call_start(&ch->input, &request, on_sent);
}

static void pause_stream(void *userdata, int paused)
{
    e2b_channel *ch = userdata;

    if (ch->stream.call.ask.transfer != NULL) {
        waldo__transfer_pause(ch->stream.call.ask.transfer, paused);
    }
}

waldo_channel *waldo__e2b_channel_base(e2b_channel *channel)
{
    return &channel->pipe.base;
}

/*
 * As root, for the durable hand believes nobody else who brings a stream; its file is gone when it
 * runs.
 */
waldo_status waldo__e2b_channel_new(const e2b_place *place, const e2b_channel_options *options,
                                    waldo__api_fn done, void *userdata, e2b_channel **ret_channel)
{
    static const waldo__pipe_fns fns = { send_piece, pause_stream, release };
    static const char script[] = "chmod 755 \"$0\" && exec 3<\"$0\" && rm -f \"$0\" && "
                                 "exec /proc/self/fd/3 attach \"$1\"";
    const char *const args[] = { options->hand, options->address, NULL };
    int64_t start_ms = options->start_ms > 0 ? options->start_ms : START_MS;
    waldo__api_request limits = { .what = "the hand's stream", .user = "root" };
    e2b_channel *ch = WALDO__NEW(e2b_channel);

    if (ch == NULL) {
        return WALDO_ENOMEM;
    }
    *ch = (e2b_channel){ .place = *place,
                         .idle_ms = options->idle_ms > 0 ? options->idle_ms : IDLE_MS,
                         .opened = done,
                         .userdata = userdata };
    waldo__pipe_init(&ch->pipe, place->env->loop, &fns, ch, PIECE);
    waldo__e2b_stream_init(&ch->stream, &ch->place, ch);
    waldo__e2b_call_init(&ch->input, &ch->place, ch);
    waldo__e2b_call_init(&ch->health, &ch->place, ch);
    waldo__timer_init(&ch->timer, too_late, ch);
    if (waldo__timer_arm(place->env->loop, &ch->timer, waldo__deadline_ns(start_ms)) != WALDO_OK) {
        release(ch);
        return WALDO_ENOMEM;
    }
    limits.idle_ms = ch->idle_ms;
    waldo__e2b_stream_start(&ch->stream, &limits, script, args, 1, on_bytes, on_over);
    *ret_channel = ch;
    return WALDO_OK;
}
