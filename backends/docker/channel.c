/* The stream to the hand: an attached connection of our own. Everything is told from the queue. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "loop/sendq.h"
#include "docker.h"

enum {
    PIECE = 64 * 1024,
    PIECES = 4,
    HEAD_MAX = 64 * 1024,
    WORDS_MAX = 2048,
    WHY_MS = 2000,
    SPEAK_MS = 20000,
    FRAME_HEAD = 8
};
#define QUEUE_MAX ((size_t)256 * 1024 * 1024)

typedef enum stage { CONNECTING, ASKING, ATTACHED, OVER, TOLD } stage;

struct docker_channel {
    waldo_channel base;
    waldo__loop *loop;
    waldo__watch *watch;
    int fd;
    stage stage;
    docker_call_fn attached;
    void *userdata;
    waldo_error *error;
    waldo_status status;
    int listening;
    int paused;
    int got_bytes;
    int in_callback;
    int closed;
    int durable;            /* the container may go on without this stream */
    docker_call_fn awaited; /* NULL: nobody waits for the container's first word */
    void *awaited_by;
    char *container;
    const char *what;   /* is being done, until attached; static */
    uint64_t memory;    /* its limit, for words about its end */
    waldo__timer timer; /* until attached */
    waldo__task attached_task;

    waldo_channel_events events;
    waldo__sendq out;
    waldo__buf head; /* of the answer; then what of the stream came with it */
    waldo__docker_frames frames;
    waldo__buf words; /* the engine's last */
    waldo__task read_task;
    waldo__task drained_task;
    docker_call why;      /* asks how the container ended */
    docker_engine engine; /* a copy, for a callback may free its machine */
};

static unsigned wanted(const docker_channel *ch)
{
    unsigned events = 0;

    if (ch->stage == CONNECTING) {
        return WALDO__WRITE;
    }
    if (ch->stage == ASKING || (ch->stage == ATTACHED && (ch->listening || ch->awaited != NULL) &&
                                !ch->paused && !ch->read_task.queued)) {
        events |= WALDO__READ;
    }
    return waldo__sendq_left(&ch->out) > 0 && ch->stage < OVER ? events | WALDO__WRITE : events;
}

static void update(docker_channel *ch)
{
    waldo__watch_set(ch->watch, wanted(ch));
}

static void release(docker_channel *ch)
{
    waldo__timer_disarm(ch->loop, &ch->timer);
    waldo__task_cancel(ch->loop, &ch->attached_task);
    waldo__task_cancel(ch->loop, &ch->read_task);
    waldo__task_cancel(ch->loop, &ch->drained_task);
    waldo__docker_call_free(&ch->why);
    waldo__watch_free(ch->watch);
    if (ch->fd >= 0) {
        close(ch->fd);
    }
    waldo_error_free(ch->error);
    waldo__sendq_free(&ch->out);
    waldo__buf_free(&ch->head);
    waldo__buf_free(&ch->words);
    waldo__free(ch->container);
    waldo__free(ch);
}

/* A callback may close the channel: it is freed when the last one has returned. */
static int leave(docker_channel *ch)
{
    ch->in_callback--;
    if (ch->closed && ch->in_callback == 0) {
        release(ch);
        return 0;
    }
    return !ch->closed;
}

void waldo__docker_channel_free(docker_channel *ch)
{
    if (ch != NULL) {
        ch->closed = 1;
        ch->in_callback++;
        leave(ch);
    }
}

/* ---- the end ---- */

/* What the engine knows of a container that has ended; AutoRemove may have been faster. */
static void describe_end(const docker_channel *ch, waldo__buf *out)
{
    waldo__json *doc = NULL;
    const waldo__json_value *state;

    if (ch->why.ask.http_status != 200 ||
        waldo__json_parse_answer(waldo__buf_str(&ch->why.ask.answer), &doc, NULL) != WALDO_OK) {
        waldo__buf_puts(out, "the container ended and is gone");
        return;
    }
    state = waldo__json_get(waldo__json_root(doc), "State");
    if (waldo__json_get_bool(state, "OOMKilled", 0)) {
        waldo__buf_printf(out, "the container used more than its %llu MiB of memory",
                          (unsigned long long)(ch->memory >> 20));
    } else if (waldo__json_get_bool(state, "Running", 0)) {
        waldo__buf_puts(out, ch->durable ? "the stream ended while the container ran"
                                         : "the engine closed the stream");
    } else {
        waldo__buf_printf(out, "the container ended with exit code %lld",
                          (long long)waldo__json_get_int(state, "ExitCode", -1));
    }
    waldo__json_free(doc);
}

static void tell_over(void *userdata, waldo_status status, const waldo_error *error)
{
    docker_channel *ch = userdata;
    waldo__buf text = WALDO__BUF_INIT(WORDS_MAX);
    waldo_error *told = NULL;
    int ended;

    if (ch->stage == TOLD) {
        return;
    }
    ch->stage = TOLD;
    if (status != WALDO_OK) {
        waldo__buf_printf(&text,
                          ch->durable ? "the engine at %s stopped, restarted or hangs (%s)"
                                      : "the engine at %s stopped, restarted or hangs, and the "
                                        "container is lost with it (%s)",
                          ch->engine.text, waldo__error_text(status, error));
    } else {
        describe_end(ch, &text);
    }
    if (ch->status == WALDO_EPROTO) {
        waldo__buf_puts(&text, "; what it sent last is no frame of a stream");
    } else if (!waldo__docker_frames_whole(&ch->frames)) {
        waldo__buf_puts(&text, "; the stream broke off in the middle of a frame");
    }
    if (ch->words.len > 0) {
        waldo__buf_printf(&text, "; it said: %s", waldo__buf_str(&ch->words).ptr);
    }
    ended = status == WALDO_OK && ch->status == WALDO_OK;
    status = ch->got_bytes ? WALDO_ELOST : WALDO_EUNAVAILABLE;
    status = ch->awaited != NULL && ended ? WALDO_ESTART : status;
    waldo_error_set(&told, status, WALDO_CLASS_BACKEND, "docker: %s", waldo__buf_str(&text).ptr);
    ch->in_callback++;
    if (ch->listening) {
        ch->events.on_closed(ch->events.userdata, status, told);
    } else if (ch->awaited != NULL) {
        docker_call_fn awaited = ch->awaited;

        ch->awaited = NULL;
        awaited(ch->awaited_by, status, told);
    }
    waldo_error_free(told);
    waldo__buf_free(&text);
    leave(ch);
}

/* The stream's end; the engine is asked why. */
static void stream_over(docker_channel *ch)
{
    if (ch->stage >= OVER) {
        return;
    }
    ch->stage = OVER;
    update(ch);
    waldo__buf_printf(&ch->why.path, "/containers/%s/json", ch->container);
    waldo__docker_call_start(&ch->why, "GET", WHY_MS, WALDO__NEVER, tell_over);
}

/* ---- attaching ---- */

static void tell_attached(void *userdata)
{
    docker_channel *ch = userdata;
    waldo_error *error = ch->error;

    ch->error = NULL;
    ch->in_callback++;
    ch->attached(ch->userdata, ch->status, error);
    waldo_error_free(error);
    leave(ch);
}

/* error is taken; NULL: attached. */
static void settle(docker_channel *ch, waldo_error *error)
{
    waldo__timer_disarm(ch->loop, &ch->timer);
    ch->stage = error != NULL ? TOLD : ATTACHED;
    ch->status = waldo_error_status(error);
    ch->error = error;
    waldo__task_queue(ch->loop, &ch->attached_task);
}

static void too_late(void *userdata)
{
    docker_channel *ch = userdata;
    waldo_error *error = NULL;

    if (ch->stage == ATTACHED) {
        ch->status = WALDO_EUNAVAILABLE;
        stream_over(ch);
        return;
    }
    waldo_error_set(&error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                    "docker: %s: the engine at %s did not answer in time", ch->what,
                    ch->engine.text);
    settle(ch, error);
    update(ch);
}

/*
 * "HTTP/1.1 101 UPGRADED", or 200 without an upgrade, for the connection is taken over all the same
 * (Docker Engine API, ContainerAttach).
 */
static void on_answer(docker_channel *ch)
{
    waldo_str text = waldo__buf_str(&ch->head);
    size_t end = waldo__str_search(text, WALDO__S("\r\n\r\n"), 0);
    size_t space = waldo__str_find(text, ' ');
    int64_t code = 0;
    waldo_str said;
    waldo_error *error = NULL;

    if (end == text.len && ch->head.status == WALDO_OK) {
        return;
    }
    if (end < text.len && space + 4 <= end && waldo__str_starts(text, "HTTP/1.")) {
        waldo__str_int(waldo__strn(text.ptr + space + 1, 3), &code);
    }
    if (code == 101 || code == 200) {
        waldo__buf_consume(&ch->head, end + 4);
        settle(ch, NULL);
        return;
    }
    said = end + 4 < text.len ? waldo__str_trim(waldo__strn(text.ptr + end + 4, text.len - end - 4))
                              : WALDO__S("");
    waldo_error_set(&error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                    "docker: %s: the engine answered %lld: %.*s", ch->what, (long long)code,
                    (int)(said.len < 300 ? said.len : 300), said.ptr);
    settle(ch, error);
}

static void read_answer(docker_channel *ch)
{
    char piece[4096];
    ssize_t len = recv(ch->fd, piece, sizeof piece, MSG_DONTWAIT);
    waldo_error *error = NULL;

    if (len > 0) {
        waldo__buf_add(&ch->head, piece, (size_t)len);
        on_answer(ch);
    } else if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
        waldo__docker_engine_refused(&ch->engine, len == 0 ? ECONNRESET : errno, &error);
        settle(ch, error);
    }
}

static void write_some(docker_channel *ch)
{
    if (ch->stage < OVER && waldo__sendq_flush(&ch->out, ch->fd) && ch->listening) {
        waldo__task_queue(ch->loop, &ch->drained_task);
    }
}

static void on_connected(docker_channel *ch)
{
    int failure = 0;
    socklen_t len = sizeof failure;
    waldo_error *error = NULL;

    if (getsockopt(ch->fd, SOL_SOCKET, SO_ERROR, &failure, &len) != 0 || failure != 0) {
        waldo__docker_engine_refused(&ch->engine, failure != 0 ? failure : errno, &error);
        settle(ch, error);
        return;
    }
    ch->stage = ASKING;
    write_some(ch);
}

/* ---- the stream ---- */

static waldo_status on_frame(void *userdata, waldo__docker_stream stream, waldo_str bytes)
{
    docker_channel *ch = userdata;

    if (stream == WALDO__DOCKER_ERROR) {
        waldo__buf_add_str(&ch->words, bytes);
    } else if (stream == WALDO__DOCKER_STDERR) {
        if (ch->events.on_diagnostic != NULL) {
            ch->events.on_diagnostic(ch->events.userdata, bytes);
        }
    } else {
        ch->got_bytes = 1;
        ch->events.on_bytes(ch->events.userdata, bytes);
    }
    return ch->closed ? WALDO_ECLOSED : WALDO_OK;
}

static int feed(docker_channel *ch, waldo_str bytes)
{
    waldo_status status = waldo__docker_frames_feed(&ch->frames, bytes, on_frame, ch);

    if (status == WALDO_EPROTO) {
        ch->status = status;
        stream_over(ch);
    }
    return status == WALDO_OK;
}

static void read_some(void *userdata)
{
    docker_channel *ch = userdata;
    char *piece = waldo__alloc(PIECE);
    ssize_t len = 1;
    int good = piece != NULL;

    ch->in_callback++;
    if (good && ch->head.len > 0 && !ch->paused) { /* came with the answer's head */
        good = feed(ch, waldo__buf_str(&ch->head));
        waldo__buf_free(&ch->head);
    }
    for (int i = 0; good && i < PIECES && len > 0 && !ch->paused && !ch->closed; i++) {
        len = recv(ch->fd, piece, PIECE, MSG_DONTWAIT);
        if (len > 0) {
            good = feed(ch, waldo__strn(piece, (size_t)len));
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

/* ---- before anyone listens ---- */

/* Is there a byte of output in what was read, or what is no frame at all? */
static int has_spoken(waldo_str text)
{
    while (text.len > FRAME_HEAD) {
        const unsigned char *head = (const unsigned char *)text.ptr;
        size_t len = (size_t)head[4] << 24 | (size_t)head[5] << 16 | (size_t)head[6] << 8 | head[7];

        if ((head[0] <= WALDO__DOCKER_STDOUT && len > 0) || head[0] > WALDO__DOCKER_ERROR) {
            return 1;
        }
        len += FRAME_HEAD;
        text = len < text.len ? waldo__strn(text.ptr + len, text.len - len) : WALDO__S("");
    }
    return 0;
}

static waldo_status on_last_words(void *userdata, waldo__docker_stream stream, waldo_str bytes)
{
    docker_channel *ch = userdata;

    (void)stream;
    waldo__buf_add_str(&ch->words, bytes);
    return WALDO_OK;
}

static void await_some(void *userdata)
{
    docker_channel *ch = userdata;
    char *room = waldo__buf_reserve(&ch->head, PIECE / 4);
    ssize_t len = room != NULL ? recv(ch->fd, room, PIECE / 4, MSG_DONTWAIT) : -1;
    docker_call_fn awaited = ch->awaited;
    int failed = len < 0 && room != NULL && errno != EAGAIN && errno != EINTR;

    if (len > 0) {
        waldo__buf_commit(&ch->head, (size_t)len);
    }
    if (room == NULL || has_spoken(waldo__buf_str(&ch->head))) {
        ch->awaited = NULL;
        waldo__timer_disarm(ch->loop, &ch->timer);
        ch->in_callback++;
        awaited(ch->awaited_by, WALDO_OK, NULL);
        if (leave(ch)) {
            update(ch);
        }
    } else if (len == 0 || failed) {
        ch->status =
            waldo__docker_frames_feed(&ch->frames, waldo__buf_str(&ch->head), on_last_words, ch);
        stream_over(ch);
    } else {
        update(ch);
    }
}

void waldo__docker_channel_await(docker_channel *ch, docker_call_fn done, void *userdata)
{
    ch->awaited = done;
    ch->awaited_by = userdata;
    ch->read_task.fn = await_some;
    waldo__task_queue(ch->loop, &ch->read_task);
    waldo__timer_arm(ch->loop, &ch->timer, waldo__deadline_ns(SPEAK_MS));
}

static void tell_drained(void *userdata)
{
    docker_channel *ch = userdata;

    ch->in_callback++;
    if (ch->events.on_drained != NULL) {
        ch->events.on_drained(ch->events.userdata);
    }
    leave(ch);
}

static void on_ready(void *userdata, unsigned events)
{
    docker_channel *ch = userdata;

    if (ch->stage == CONNECTING) {
        on_connected(ch);
    } else if ((events & WALDO__WRITE) != 0) {
        write_some(ch);
    }
    if ((events & (WALDO__READ | WALDO__HANGUP)) != 0) {
        if (ch->stage == ASKING) {
            read_answer(ch);
        } else if (ch->stage == ATTACHED && !ch->paused && (ch->listening || ch->awaited != NULL)) {
            waldo__task_queue(ch->loop, &ch->read_task);
        }
    }
    update(ch);
}

/* ---- the channel's functions ---- */

static void channel_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    docker_channel *ch = (docker_channel *)channel;

    ch->events = *events;
    ch->listening = 1;
    ch->read_task.fn = read_some;
    if (ch->head.len > 0) {
        waldo__task_queue(ch->loop, &ch->read_task);
    }
    update(ch);
}

static waldo_status channel_send(waldo_channel *channel, waldo_str bytes)
{
    docker_channel *ch = (docker_channel *)channel;
    int idle = waldo__sendq_left(&ch->out) == 0;
    waldo_status status;

    if (ch->stage >= OVER) {
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
    const docker_channel *ch = (const docker_channel *)channel;

    return waldo__sendq_left(&ch->out);
}

static void channel_pause(waldo_channel *channel, int paused)
{
    docker_channel *ch = (docker_channel *)channel;

    ch->paused = paused;
    if (!paused && ch->head.len > 0 && ch->stage == ATTACHED) {
        waldo__task_queue(ch->loop, &ch->read_task);
    }
    update(ch);
}

static void channel_close(waldo_channel *channel)
{
    waldo__docker_channel_free((docker_channel *)channel);
}

static const waldo_channel_ops ops = { .version = WALDO_BACKEND_VERSION,
                                       .size = sizeof(waldo_channel_ops),
                                       .listen = channel_listen,
                                       .send = channel_send,
                                       .queued = channel_queued,
                                       .pause = channel_pause,
                                       .close = channel_close };

waldo_channel *waldo__docker_channel_base(docker_channel *channel)
{
    return &channel->base;
}

waldo_status waldo__docker_channel_new(const docker_engine *engine, const docker_hijack *hijack,
                                       int64_t deadline_ns, docker_call_fn done, void *userdata,
                                       docker_channel **ret_channel, waldo_error **ret_err)
{
    docker_channel *ch = WALDO__NEW(docker_channel);
    waldo_status status;

    if (ch == NULL) {
        return waldo__error_nomem(ret_err);
    }
    *ch = (docker_channel){ .base = { &ops },
                            .engine = *engine,
                            .loop = engine->env->loop,
                            .container = waldo__strdup(hijack->container),
                            .what = hijack->what,
                            .memory = hijack->memory,
                            .durable = hijack->durable,
                            .fd = waldo__docker_engine_connect(engine),
                            .attached = done,
                            .userdata = userdata,
                            .out = WALDO__SENDQ_INIT(QUEUE_MAX),
                            .head = WALDO__BUF_INIT(HEAD_MAX),
                            .words = WALDO__BUF_INIT(WORDS_MAX) };
    if (ch->fd < 0) {
        waldo__docker_engine_refused(engine, errno, ret_err);
    }
    waldo__docker_call_init(&ch->why, &ch->engine, ch);
    waldo__timer_init(&ch->timer, too_late, ch);
    waldo__task_init(&ch->attached_task, tell_attached, ch);
    waldo__task_init(&ch->read_task, read_some, ch);
    waldo__task_init(&ch->drained_task, tell_drained, ch);
    waldo__buf_printf(&ch->out.out,
                      "POST %s/v%s%s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                      "Upgrade: tcp\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n\r\n",
                      engine->prefix, engine->version, hijack->path, hijack->body.len);
    waldo__buf_add_str(&ch->out.out, hijack->body);
    status = ch->container == NULL ? WALDO_ENOMEM : ch->out.out.status;
    if (ch->fd < 0) {
        status = WALDO_EUNAVAILABLE;
    } else if (status == WALDO_OK) {
        status = waldo__watch_new(ch->loop, ch->fd, WALDO__WRITE, on_ready, ch, &ch->watch);
    }
    if (status == WALDO_OK) {
        status = waldo__timer_arm(ch->loop, &ch->timer, deadline_ns);
    }
    if (status != WALDO_OK) {
        release(ch);
        return status;
    }
    *ret_channel = ch;
    return WALDO_OK;
}
