/*
 * The stream to the hand: what its process prints comes on one long answer; what goes to it are
 * requests, one after the other.
 */
#include "backend/launch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "e2b.h"

struct e2b_channel {
    waldo__attach attach; /* first */
    int64_t idle_ms;
    int64_t pid;
    e2b_stream stream;
    waldo__api_call input;  /* on its way to the process */
    waldo__api_call health; /* asks why the stream ended */
    e2b_place place;        /* a copy, for a callback may free its machine */
};

static void release(void *userdata)
{
    e2b_channel *ch = userdata;

    waldo__e2b_stream_free(&ch->stream);
    waldo__api_call_free(&ch->input);
    waldo__api_call_free(&ch->health);
    waldo__attach_free(&ch->attach);
    waldo__free(ch);
}

void waldo__e2b_channel_free(e2b_channel *ch)
{
    if (ch != NULL) {
        waldo__pipe_close(&ch->attach.pipe);
    }
}

waldo_channel *waldo__e2b_channel_base(e2b_channel *channel)
{
    return &channel->attach.pipe.base;
}

/* ---- what comes ---- */

static waldo_status on_event(void *userdata, waldo__process_event event, int64_t number,
                             waldo_str text)
{
    e2b_channel *ch = userdata;

    if (event == WALDO__PROCESS_STARTED) {
        if (number <= 0 || number > UINT32_MAX) {
            return WALDO_EPROTO;
        }
        ch->pid = number;
    }
    return waldo__attach_event(&ch->attach, event, text);
}

static void on_over(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;
    waldo_error *made = NULL;

    status = waldo__e2b_stream_status(&ch->stream, status, error, &made);
    waldo__attach_broke(&ch->attach, status, made);
}

static waldo_status on_bytes(void *userdata, waldo_str bytes)
{
    e2b_channel *ch = userdata;
    waldo_status status;

    waldo__pipe_enter(&ch->attach.pipe);
    status = waldo__e2b_stream_feed(&ch->stream, bytes, on_event, ch);
    if (status == WALDO_OK && waldo__connect_ended(&ch->stream.frames)) {
        on_over(ch, WALDO_OK, NULL); /* whatever the connection does */
    }
    return waldo__pipe_leave(&ch->attach.pipe) ? status : WALDO_OK;
}

static void pause_stream(void *userdata, int paused)
{
    e2b_channel *ch = userdata;

    if (ch->stream.call.ask.transfer != NULL) {
        waldo__transfer_pause(ch->stream.call.ask.transfer, paused);
    }
}

/* ---- what goes ---- */

static void on_sent(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;

    waldo__attach_sent(&ch->attach, status, error);
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

static void on_health(void *userdata, waldo_status status, const waldo_error *error)
{
    e2b_channel *ch = userdata;

    (void)error;
    waldo__attach_asked(&ch->attach, status);
}

static void ask_health(void *userdata)
{
    e2b_channel *ch = userdata;
    const waldo__api_request request = { .method = "GET",
                                         .path = "/health",
                                         .what = "asking for its health",
                                         .kind = E2B_DAEMON,
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = WALDO__ATTACH_ASK_MS };

    waldo__api_call_start(&ch->health, &request, on_health);
}

/* As root, for the durable hand believes nobody else who brings a stream. */
waldo_status waldo__e2b_channel_new(const e2b_place *place, const e2b_channel_options *options,
                                    waldo__api_fn done, void *userdata, e2b_channel **ret_channel)
{
    static const waldo__attach_fns fns = { send_piece, ask_health, pause_stream, release };
    const char *const args[] = { options->hand, options->address, NULL };
    waldo__api_request limits = { .what = "the hand's stream", .user = "root" };
    e2b_channel *ch = WALDO__NEW(e2b_channel);

    if (ch == NULL) {
        return WALDO_ENOMEM;
    }
    *ch =
        (e2b_channel){ .place = *place,
                       .idle_ms = options->idle_ms > 0 ? options->idle_ms : WALDO__ATTACH_IDLE_MS };
    waldo__e2b_stream_init(&ch->stream, &ch->place, ch);
    waldo__e2b_call_init(&ch->input, &ch->place, ch);
    waldo__e2b_call_init(&ch->health, &ch->place, ch);
    if (waldo__attach_init(&ch->attach, "e2b", place->env->loop, &fns, ch, options->start_ms, done,
                           userdata) != WALDO_OK) {
        release(ch);
        return WALDO_ENOMEM;
    }
    limits.idle_ms = ch->idle_ms;
    waldo__e2b_stream_start(&ch->stream, &limits, WALDO__LAUNCH_ATTACH, args, 1, on_bytes, on_over);
    *ret_channel = ch;
    return WALDO_OK;
}
