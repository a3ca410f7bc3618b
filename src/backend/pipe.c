#include "backend/pipe.h"

#include "base/error.h"

#define QUEUE_MAX ((size_t)256 * 1024 * 1024)

void waldo__pipe_enter(waldo__pipe *pipe)
{
    pipe->busy++;
}

int waldo__pipe_leave(waldo__pipe *pipe)
{
    pipe->busy--;
    if (pipe->closed && pipe->busy == 0) {
        pipe->fns->free(pipe->owner);
        return 0;
    }
    return !pipe->closed;
}

void waldo__pipe_close(waldo__pipe *pipe)
{
    pipe->closed = 1;
    pipe->open = 0;
    waldo__pipe_enter(pipe);
    waldo__pipe_leave(pipe);
}

void waldo__pipe_free(waldo__pipe *pipe)
{
    waldo__task_cancel(pipe->loop, &pipe->task);
    waldo__sendq_free(&pipe->out);
}

void waldo__pipe_bytes(waldo__pipe *pipe, waldo_str bytes)
{
    if (pipe->open && pipe->listening) {
        pipe->got_bytes = 1;
        pipe->events.on_bytes(pipe->events.userdata, bytes);
    }
}

void waldo__pipe_diagnostic(waldo__pipe *pipe, waldo_str bytes)
{
    if (pipe->open && pipe->listening && pipe->events.on_diagnostic != NULL) {
        pipe->events.on_diagnostic(pipe->events.userdata, bytes);
    }
}

static void send_some(void *userdata)
{
    waldo__pipe *pipe = userdata;
    size_t len = waldo__sendq_left(&pipe->out);

    if (pipe->open && pipe->sending == 0 && len > 0) {
        pipe->sending = len < pipe->piece ? len : pipe->piece;
        pipe->fns->send(pipe->owner,
                        waldo__strn(pipe->out.out.ptr + pipe->out.sent, pipe->sending));
    }
}

void waldo__pipe_sent(waldo__pipe *pipe)
{
    int was_all = waldo__sendq_took(&pipe->out, pipe->sending);

    pipe->sending = 0;
    if (!was_all) {
        send_some(pipe);
    } else if (pipe->open && pipe->listening && pipe->events.on_drained != NULL) {
        pipe->events.on_drained(pipe->events.userdata);
    }
}

void waldo__pipe_over(waldo__pipe *pipe, const char *backend, const char *what,
                      const waldo_error *cause)
{
    waldo_status status = pipe->got_bytes ? WALDO_ELOST : WALDO_EUNAVAILABLE;
    waldo_error *told = NULL;

    pipe->open = 0;
    if (pipe->told || !pipe->listening) {
        return;
    }
    pipe->told = 1;
    waldo_error_set(&told, status, WALDO_CLASS_BACKEND, "%s: %s%s%s", backend, what,
                    cause != NULL ? ": " : "", waldo_error_message(cause));
    pipe->events.on_closed(pipe->events.userdata, status, told);
    waldo_error_free(told);
}

/* ---- the channel's functions ---- */

static waldo__pipe *pipe_of(const waldo_channel *channel)
{
    return (waldo__pipe *)(uintptr_t)channel;
}

static void pipe_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    waldo__pipe *pipe = pipe_of(channel);

    pipe->events = *events;
    pipe->listening = 1;
}

/* All that one round sends goes in one piece. */
static waldo_status pipe_send(waldo_channel *channel, waldo_str bytes)
{
    waldo__pipe *pipe = pipe_of(channel);
    waldo_status status;

    if (!pipe->open) {
        return WALDO_ECLOSED;
    }
    status = waldo__sendq_add(&pipe->out, bytes);
    if (status == WALDO_OK && pipe->sending == 0) {
        waldo__task_queue(pipe->loop, &pipe->task);
    }
    return status;
}

static size_t pipe_queued(const waldo_channel *channel)
{
    return waldo__sendq_left(&pipe_of(channel)->out);
}

static void pipe_pause(waldo_channel *channel, int paused)
{
    pipe_of(channel)->fns->pause(pipe_of(channel)->owner, paused);
}

static void pipe_shut(waldo_channel *channel)
{
    waldo__pipe_close(pipe_of(channel));
}

static const waldo_channel_ops ops = { .version = WALDO_BACKEND_VERSION,
                                       .size = sizeof(waldo_channel_ops),
                                       .listen = pipe_listen,
                                       .send = pipe_send,
                                       .queued = pipe_queued,
                                       .pause = pipe_pause,
                                       .close = pipe_shut };

void waldo__pipe_init(waldo__pipe *pipe, waldo__loop *loop, const waldo__pipe_fns *fns, void *owner,
                      size_t piece)
{
    *pipe = (waldo__pipe){ .base = { &ops },
                           .loop = loop,
                           .fns = fns,
                           .owner = owner,
                           .piece = piece,
                           .out = WALDO__SENDQ_INIT(QUEUE_MAX) };
    waldo__task_init(&pipe->task, send_some, pipe);
}
