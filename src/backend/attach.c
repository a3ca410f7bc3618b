#include "backend/attach.h"

#include <stdio.h>

#include "base/error.h"

#define NOBODY ": there is no hand, or another process opened the same machine at this moment"

/* ---- its end ---- */

static void over(waldo__attach *attach, const char *what)
{
    waldo__pipe_enter(&attach->pipe);
    waldo__pipe_over(&attach->pipe, attach->backend, what, attach->cause);
    waldo__pipe_leave(&attach->pipe);
}

void waldo__attach_asked(waldo__attach *attach, waldo_status status)
{
    const char *what = "the stream broke, and nobody answers for the sandbox";

    if (status == WALDO_OK) {
        what = attach->pipe.got_bytes ? "the stream broke, but the sandbox is there"
                                      : "the stream broke" NOBODY;
    } else if (status == WALDO_ELOST) {
        what = "the sandbox is gone: it was killed or paused, or its time is over";
    }
    over(attach, what);
}

/* Of one that was open the machine is asked for: which of the two was lost? */
void waldo__attach_broke(waldo__attach *attach, waldo_status status, waldo_error *error)
{
    waldo__attach_stage before = attach->stage;

    if (before == WALDO__ATTACH_OVER) {
        waldo_error_free(error);
        return;
    }
    attach->cause = error;
    attach->stage = WALDO__ATTACH_OVER;
    attach->pipe.open = before == WALDO__ATTACH_OPEN; /* what came before is still heard */
    if (before == WALDO__ATTACH_OPEN) {
        attach->fns->ask(attach->owner);
        return;
    }
    waldo__timer_disarm(attach->pipe.loop, &attach->timer);
    waldo__pipe_enter(&attach->pipe);
    attach->opened(attach->userdata, status, error);
    waldo__pipe_leave(&attach->pipe);
}

static void too_late(void *userdata)
{
    waldo__attach *attach = userdata;
    waldo_error *error = NULL;

    waldo_error_set(&error, WALDO_EUNAVAILABLE, WALDO_CLASS_TRANSPORT,
                    "%s: the sandbox did not start the hand's stream in time", attach->backend);
    waldo__attach_broke(attach, WALDO_EUNAVAILABLE, error);
}

/* ---- what comes and goes ---- */

waldo_status waldo__attach_event(waldo__attach *attach, waldo__process_event event, waldo_str text)
{
    char what[256];

    if (event == WALDO__PROCESS_STARTED && attach->stage == WALDO__ATTACH_STARTING) {
        attach->stage = WALDO__ATTACH_OPEN;
        attach->pipe.open = 1;
        waldo__timer_disarm(attach->pipe.loop, &attach->timer);
        attach->opened(attach->userdata, WALDO_OK, NULL);
    } else if (event == WALDO__PROCESS_ENDED && attach->stage == WALDO__ATTACH_OPEN) {
        snprintf(what, sizeof what, "the hand's stream ended with its process (%.*s)%s",
                 (int)(text.len < 60 ? text.len : 60), text.ptr,
                 attach->pipe.got_bytes ? "" : NOBODY);
        attach->stage = WALDO__ATTACH_OVER;
        over(attach, what);
    } else if (event == WALDO__PROCESS_OUTPUT) {
        waldo__pipe_bytes(&attach->pipe, text);
    } else if (event == WALDO__PROCESS_DIAGNOSTIC) {
        waldo__pipe_diagnostic(&attach->pipe, text);
    } else if (attach->stage != WALDO__ATTACH_OVER) {
        return WALDO_EPROTO;
    }
    return attach->pipe.closed ? WALDO_ECLOSED : WALDO_OK;
}

void waldo__attach_sent(waldo__attach *attach, waldo_status status, const waldo_error *error)
{
    if (status != WALDO_OK) {
        waldo__attach_broke(attach, status, waldo_error_copy(error));
        return;
    }
    waldo__pipe_enter(&attach->pipe);
    waldo__pipe_sent(&attach->pipe);
    waldo__pipe_leave(&attach->pipe);
}

/* ---- the pipe's functions ---- */

static void send_piece(void *userdata, waldo_str piece)
{
    waldo__attach *attach = userdata;

    if (attach->stage == WALDO__ATTACH_OPEN) {
        attach->fns->send(attach->owner, piece);
    }
}

static void pause_stream(void *userdata, int paused)
{
    waldo__attach *attach = userdata;

    attach->fns->pause(attach->owner, paused);
}

static void release(void *userdata)
{
    waldo__attach *attach = userdata;

    attach->fns->free(attach->owner);
}

waldo_status waldo__attach_init(waldo__attach *attach, const char *backend, waldo__loop *loop,
                                const waldo__attach_fns *fns, void *owner, int64_t start_ms,
                                waldo_backend_done_fn opened, void *userdata)
{
    static const waldo__pipe_fns pipe_fns = { send_piece, pause_stream, release };

    *attach = (waldo__attach){
        .backend = backend, .fns = fns, .owner = owner, .opened = opened, .userdata = userdata
    };
    waldo__pipe_init(&attach->pipe, loop, &pipe_fns, attach, WALDO__ATTACH_PIECE);
    waldo__timer_init(&attach->timer, too_late, attach);
    return waldo__timer_arm(loop, &attach->timer,
                            waldo__deadline_ns(start_ms > 0 ? start_ms : WALDO__ATTACH_START_MS));
}

void waldo__attach_free(waldo__attach *attach)
{
    waldo__timer_disarm(attach->pipe.loop, &attach->timer);
    waldo__pipe_free(&attach->pipe);
    waldo__error_clear(&attach->cause);
}
