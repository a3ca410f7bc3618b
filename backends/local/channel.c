/* The stream to the hand: one end of a socket pair. Everything is told from the run queue. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "loop/sendq.h"
#include "local.h"

enum { PIECE = 128 * 1024, PIECES = 4, SAID_WAIT_MS = 2500 };
#define QUEUE_MAX ((size_t)256 * 1024 * 1024)

struct local_channel {
    waldo_channel base;
    waldo__loop *loop;
    waldo_machine *machine; /* NULL: gone */
    int fd;
    waldo__watch *watch;
    int listening;
    int paused;
    int got_bytes;
    int over; /* 1: nothing comes any more; 2: and that was told */
    int in_callback;
    int closed;
    waldo_channel_events events;
    waldo__sendq out;
    waldo__task read_task;
    waldo__task drained_task;
    waldo__timer said_timer; /* the stream is over; the keeper's report is awaited */
};

static unsigned wanted(const local_channel *ch)
{
    unsigned events = 0;

    if (ch->listening && !ch->paused && !ch->over && !ch->read_task.queued) {
        events |= WALDO__READ;
    }
    return waldo__sendq_left(&ch->out) > 0 && !ch->over ? events | WALDO__WRITE : events;
}

static void update(local_channel *ch)
{
    waldo__watch_set(ch->watch, wanted(ch));
}

static void release(local_channel *ch)
{
    waldo__task_cancel(ch->loop, &ch->read_task);
    waldo__task_cancel(ch->loop, &ch->drained_task);
    waldo__timer_disarm(ch->loop, &ch->said_timer);
    waldo__watch_free(ch->watch);
    close(ch->fd);
    waldo__sendq_free(&ch->out);
    waldo__free(ch);
}

/* A callback may close the channel: it is freed when the last one has returned. */
static int leave(local_channel *ch)
{
    ch->in_callback--;
    if (ch->closed && ch->in_callback == 0) {
        release(ch);
        return 0;
    }
    return !ch->closed;
}

static void tell_over(local_channel *ch, waldo_str said)
{
    waldo_error *error = NULL;
    waldo_status status = WALDO_ELOST;

    if (ch->over == 2 || ch->closed) {
        return;
    }
    ch->over = 2;
    waldo__timer_disarm(ch->loop, &ch->said_timer);
    if (!ch->got_bytes) {
        status = WALDO_EUNAVAILABLE;
        waldo__local_explain(&error, said);
    } else {
        waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "local: the sandbox ended%s%.*s",
                        said.len > 0 ? ": " : "", (int)(said.len < 1000 ? said.len : 1000),
                        said.ptr);
    }
    ch->in_callback++;
    if (ch->listening) {
        ch->events.on_closed(ch->events.userdata, status, error);
    }
    waldo_error_free(error);
    leave(ch);
}

static void said_nothing(void *userdata)
{
    tell_over(userdata, WALDO__S(""));
}

void waldo__local_channel_end(local_channel *ch, waldo_str said)
{
    ch->machine = NULL;
    ch->over = ch->over == 0 ? 1 : ch->over;
    tell_over(ch, said);
}

/* The stream's end. Why is known to the keeper, who reports soon. */
static void stream_over(local_channel *ch)
{
    if (ch->over != 0) {
        return;
    }
    ch->over = 1;
    update(ch);
    if (ch->machine == NULL || ch->machine->state == LOCAL_ENDED ||
        waldo__timer_arm(ch->loop, &ch->said_timer, waldo__deadline_ns(SAID_WAIT_MS)) != WALDO_OK) {
        tell_over(ch, ch->machine != NULL ? waldo__buf_str(&ch->machine->said) : WALDO__S(""));
    }
}

static void read_some(void *userdata)
{
    local_channel *ch = userdata;
    char *piece = waldo__alloc(PIECE);
    ssize_t len = 1;

    ch->in_callback++;
    for (int i = 0; piece != NULL && i < PIECES && len > 0 && !ch->paused && !ch->closed; i++) {
        len = recv(ch->fd, piece, PIECE, MSG_DONTWAIT);
        if (len > 0) {
            ch->got_bytes = 1;
            ch->events.on_bytes(ch->events.userdata, waldo__strn(piece, (size_t)len));
        }
    }
    if (!ch->closed && (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))) {
        stream_over(ch);
    }
    waldo__free(piece);
    if (leave(ch)) {
        update(ch);
    }
}

static void tell_drained(void *userdata)
{
    local_channel *ch = userdata;

    ch->in_callback++;
    if (ch->events.on_drained != NULL) {
        ch->events.on_drained(ch->events.userdata);
    }
    leave(ch);
}

static void write_some(local_channel *ch)
{
    if (!ch->over && waldo__sendq_flush(&ch->out, ch->fd)) {
        waldo__task_queue(ch->loop, &ch->drained_task);
    }
}

static void on_ready(void *userdata, unsigned events)
{
    local_channel *ch = userdata;

    if ((events & WALDO__WRITE) != 0) {
        write_some(ch);
    }
    if ((events & (WALDO__READ | WALDO__HANGUP)) != 0 && ch->listening && !ch->over &&
        !ch->paused) {
        waldo__task_queue(ch->loop, &ch->read_task);
    }
    update(ch);
}

static void channel_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    local_channel *ch = (local_channel *)channel;

    ch->events = *events;
    ch->listening = 1;
    update(ch);
}

static waldo_status channel_send(waldo_channel *channel, waldo_str bytes)
{
    local_channel *ch = (local_channel *)channel;
    int idle = waldo__sendq_left(&ch->out) == 0;
    waldo_status status;

    if (ch->over) {
        return WALDO_ECLOSED;
    }
    status = waldo__sendq_add(&ch->out, bytes);
    if (status == WALDO_OK && idle) {
        write_some(ch);
    }
    update(ch);
    return status;
}

static size_t channel_queued(const waldo_channel *channel)
{
    const local_channel *ch = (const local_channel *)channel;

    return waldo__sendq_left(&ch->out);
}

static void channel_pause(waldo_channel *channel, int paused)
{
    local_channel *ch = (local_channel *)channel;

    ch->paused = paused;
    update(ch);
}

static void channel_close(waldo_channel *channel)
{
    local_channel *ch = (local_channel *)channel;

    if (ch->machine != NULL) {
        waldo__local_channel_gone(ch->machine);
        ch->machine = NULL;
    }
    ch->closed = 1;
    ch->in_callback++;
    leave(ch);
}

static const waldo_channel_ops ops = { .version = WALDO_BACKEND_VERSION,
                                       .size = sizeof(waldo_channel_ops),
                                       .listen = channel_listen,
                                       .send = channel_send,
                                       .queued = channel_queued,
                                       .pause = channel_pause,
                                       .close = channel_close };

local_channel *waldo__local_channel_new(waldo__loop *loop, int fd, waldo_machine *machine)
{
    local_channel *ch = WALDO__NEW(local_channel);

    if (ch == NULL) {
        close(fd);
        return NULL;
    }
    *ch = (local_channel){ .base = { &ops },
                           .loop = loop,
                           .machine = machine,
                           .fd = fd,
                           .out = WALDO__SENDQ_INIT(QUEUE_MAX) };
    waldo__task_init(&ch->read_task, read_some, ch);
    waldo__task_init(&ch->drained_task, tell_drained, ch);
    waldo__timer_init(&ch->said_timer, said_nothing, ch);
    if (waldo__watch_new(loop, fd, 0, on_ready, ch, &ch->watch) != WALDO_OK) {
        release(ch);
        return NULL;
    }
    return ch;
}

waldo_channel *waldo__local_channel_base(local_channel *channel)
{
    return &channel->base;
}
