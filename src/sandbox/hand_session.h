/*
 * One session with a hand over a channel: requests by id, their answers, and the end of it all. The
 * hand is not trusted: what does not fit the protocol, an id that is not open or output beyond what
 * was allowed ends the session with a named error.
 */
#ifndef WALDO_SANDBOX_HAND_SESSION_H
#define WALDO_SANDBOX_HAND_SESSION_H

#include "codec/hand.h"
#include "loop/loop.h"
#include <waldo/sys/backend.h>

typedef struct waldo__hand waldo__hand;
typedef struct waldo__hand_call waldo__hand_call; /* one RUN or file request until it ended */

/* Made from a round; hand and calls may be ended inside of them. */
typedef struct waldo__hand_events {
    void *userdata;
    void (*ready)(void *userdata);
    /* Once, and the last one; every call has ended before. */
    void (*lost)(void *userdata, const waldo_error *error);
} waldo__hand_events;

/* channel is taken, also on failure. deadline_ns: for the hand's HELLO. */
waldo_status waldo__hand_new(waldo__loop *loop, waldo_channel *channel, int64_t deadline_ns,
                             const waldo__hand_events *events, waldo__hand **ret_hand);

/* Events of the session go to this userdata from now on; there is no open call. */
void waldo__hand_give(waldo__hand *hand, void *userdata);

/* Close the channel. No call and no event comes after. */
void waldo__hand_free(waldo__hand *hand);

int waldo__hand_broke(const waldo__hand *hand); /* lost because its stream ended, no other reason */
uint64_t waldo__hand_features(const waldo__hand *hand);
size_t waldo__hand_queued(const waldo__hand *hand); /* bytes not yet on their way */

/* How a call ended. Borrowed for the call. */
typedef struct waldo__hand_end {
    waldo_status status;
    const waldo_error *error;     /* unless status is WALDO_OK */
    const waldo__hand_exit *exit; /* of a command */
    const waldo__hand_done *done; /* of a file request */
} waldo__hand_end;

/* ended mandatory, once, and the last one. */
typedef struct waldo__hand_call_fns {
    void (*output)(void *userdata, int stream, uint64_t offset, waldo_str bytes);
    void (*taken)(void *userdata, uint64_t bytes); /* so many more bytes of stdin may be sent */
    void (*data)(void *userdata, waldo_str bytes);
    void (*drained)(void *userdata); /* once for each waldo__hand_wait_drained() */
    waldo_status (*job)(void *userdata, const waldo__hand_job *job); /* not OK: not believed */
    void (*ended)(void *userdata, const waldo__hand_end *end);
} waldo__hand_call_fns;

/* fns is static. */
waldo_status waldo__hand_start_run(waldo__hand *hand, const waldo__hand_run *run,
                                   const waldo__hand_call_fns *fns, void *userdata,
                                   waldo__hand_call **ret_call);
waldo_status waldo__hand_start_file(waldo__hand *hand, enum waldo_hand_request type,
                                    const waldo__hand_file *file, const waldo__hand_call_fns *fns,
                                    void *userdata, waldo__hand_call **ret_call);

/*
 * Read a command that was started with WALDO_HAND_RUN_KEEP from an offset on, until it is over and
 * read to its end, or until waldo__hand_cancel() (WALDO_ECANCELED). The done of the end counts the
 * bytes there are. job is the id of its call, which may have ended.
 */
waldo_status waldo__hand_start_attach(waldo__hand *hand, uint32_t job, uint64_t offset,
                                      uint64_t credit, const waldo__hand_call_fns *fns,
                                      void *userdata, waldo__hand_call **ret_call);
/*
 * Tell each command that is kept, then end; later ids are above the highest of any RUN. What was
 * told to run is adopted in the end of this call, so that its own end is heard.
 */
waldo_status waldo__hand_start_list(waldo__hand *hand, const waldo__hand_call_fns *fns,
                                    void *userdata, waldo__hand_call **ret_call);
waldo_status waldo__hand_adopt(waldo__hand *hand, uint32_t job, const waldo__hand_call_fns *fns,
                               void *userdata, waldo__hand_call **ret_call);

/* How long a durable hand waits between sessions; not 0. */
waldo_status waldo__hand_start_lease(waldo__hand *hand, uint32_t ms,
                                     const waldo__hand_call_fns *fns, void *userdata,
                                     waldo__hand_call **ret_call);

/* End it with all that runs; fns may be NULL. Nothing can be asked after that. */
waldo_status waldo__hand_shutdown(waldo__hand *hand, const waldo__hand_call_fns *fns,
                                  void *userdata);
uint32_t waldo__hand_call_id(const waldo__hand_call *call);
waldo_status waldo__hand_forget_job(waldo__hand *hand, uint32_t job); /* no longer kept */

waldo_status waldo__hand_stdin(waldo__hand_call *call, waldo_str bytes); /* within the window */
waldo_status waldo__hand_stdin_eof(waldo__hand_call *call);
waldo_status waldo__hand_signal(waldo__hand_call *call, int number, enum waldo_hand_scope scope);
waldo_status waldo__hand_resize(waldo__hand_call *call, uint16_t rows, uint16_t columns);
waldo_status waldo__hand_credit(waldo__hand_call *call, uint64_t bytes);
waldo_status waldo__hand_cancel(waldo__hand_call *call, uint32_t grace_ms);
/* Hear when what was sent is on its way; there is something queued. */
void waldo__hand_wait_drained(waldo__hand_call *call);
waldo_status waldo__hand_write(waldo__hand_call *call, waldo_str bytes);
waldo_status waldo__hand_write_end(waldo__hand_call *call);

/* No fn is called any more; the session still expects the answer. */
void waldo__hand_forget(waldo__hand_call *call);

#endif
