/*
 * A machine that a provider runs: what each of them has besides requests. Whose it is and who ends
 * it, its time, which is extended while it is open here, what is known of it without a request, and
 * its end. It decides, and the backend asks its provider.
 */
#ifndef WALDO_BACKEND_CLOUD_H
#define WALDO_BACKEND_CLOUD_H

#include "backend/finder.h"
#include "loop/loop.h"

enum {
    WALDO__CLOUD_SLOW_MS = 90000,  /* for one request to the provider */
    WALDO__CLOUD_MADE_MS = 120000, /* life of one that is being made, at most */
    WALDO__CLOUD_LIFE_MS = 300000, /* of one without a lease */
    WALDO__CLOUD_STAYS_MS = 10000  /* of the hand in one that somebody else made */
};

typedef struct waldo__cloud_fns {
    /* Let it live waldo__cloud_seconds() from now on; then waldo__cloud_extended(). */
    void (*extend)(waldo_machine *machine);
    /* Nobody waits: let it live for that time and no longer, or end it. */
    void (*leave)(waldo_machine *machine);
    void (*discard)(waldo_machine *machine);
    void (*end)(waldo_machine *machine); /* then waldo__cloud_ended() */
    /* Nothing is heard any more, whatever goes on; it may still be asked to end. */
    void (*quiet)(waldo_machine *machine);
    void (*free)(waldo_machine *machine); /* after quiet */
} waldo__cloud_fns;

/* First member of the backend's struct waldo_machine. */
typedef struct waldo__cloud {
    const waldo__cloud_fns *fns;
    const waldo_backend_env *env;
    int64_t deadline_ns; /* of what goes on, and the next two */
    waldo_backend_done_fn done;
    void *userdata;
    waldo_status status; /* of the opening, and the next two */
    waldo_error *error;
    waldo__task task;
    waldo__timer life;
    waldo__buf text; /* what is told later, without a request */
    waldo_backend_bytes_fn text_done;
    void *text_userdata;
    waldo__task text_task;
    waldo__finder finder; /* last, as it is large */
} waldo__cloud;

void waldo__cloud_init(waldo__cloud *cloud, const waldo_backend_env *env,
                       const waldo__cloud_fns *fns);
void waldo__cloud_free(waldo_machine *machine); /* all of it; for an open that did not begin */

/* What of its time begins now: the lease, or the usual. */
int64_t waldo__cloud_seconds(const waldo__cloud *cloud);
int64_t waldo__cloud_hand_ms(const waldo__cloud *cloud); /* lease of the hand in it */

/* ---- operations ---- */

/* One with a completion begins, and ends: by _finish() from the run queue. */
void waldo__cloud_begin(waldo__cloud *cloud, const waldo_backend_call *call,
                        waldo_backend_done_fn done);
void waldo__cloud_finish(waldo__cloud *cloud, waldo_status status, const waldo_error *error);

/* The opening has ended, completed from the run queue; may be called from anywhere. */
void waldo__cloud_opened(waldo__cloud *cloud, waldo_status status, const waldo_error *error);

/* Its time is extended from now on, or not: while it is paused. */
void waldo__cloud_live(waldo__cloud *cloud);
void waldo__cloud_rest(waldo__cloud *cloud);

/* An operation that gives a text completes from the run queue with what is written here. */
waldo__buf *waldo__cloud_text(waldo__cloud *cloud, const waldo_backend_call *call,
                              waldo_backend_bytes_fn done);

/* The answers to fns; from the run queue. */
void waldo__cloud_extended(waldo__cloud *cloud, waldo_status status, const waldo_error *error);
void waldo__cloud_ended(waldo__cloud *cloud, waldo_status status, const waldo_error *error);

/* ---- as they are in the table of a backend ---- */

void waldo__cloud_save(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_bytes_fn done);
void waldo__cloud_close(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_done_fn done);
void waldo__cloud_abandon(waldo_machine *machine);
void waldo__cloud_detach(waldo_machine *machine);
void waldo__cloud_describe(const waldo_machine *machine, waldo_machine_info *ret_info);

#endif
