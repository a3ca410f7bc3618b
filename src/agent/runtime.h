/* The runtime inside the library: what a run needs from it. */
#ifndef WALDO_AGENT_RUNTIME_H
#define WALDO_AGENT_RUNTIME_H

#include "base/ring.h"
#include "http/http.h"
#include "loop/loop.h"
#include "model/facts.h"
#include "sandbox/sandbox.h"
#include "secret/secret.h"
#include "store/store.h"

struct waldo_runtime {
    waldo__loop *loop;
    waldo__secrets *secrets;
    waldo__http *http;
    waldo_store *store;   /* NULL: what runs do is in memory alone */
    waldo_poster *poster; /* lent to the store */
    waldo__facts *facts;
    waldo_error *error;
    size_t working;     /* runs that are not at rest */
    int closing;        /* 1: begun, 2: over */
    waldo__ring runs;   /* all of them */
    waldo__ring rested; /* those that came to rest and were not yet given out */
    waldo__sandbox_node sandboxes;
    waldo__ring journal; /* commits on their way */
    waldo_keys keys;
    char *state_dir;
    waldo__hook commit;
    waldo__task wake; /* makes a round happen when appends wait for a commit */
    waldo_closed_fn closed;
    void *closed_userdata;
    waldo__timer close_timer;
    waldo__task close_task;
    char owner[40];
    waldo_backend_env env;
};

/* WALDO_OK, or why no new work is taken; with the detail. */
waldo_status waldo__runtime_check(const waldo_runtime *rt, waldo_error **ret_err);

/* A run was freed or came to rest: a close may be over now. */
void waldo__runtime_settle(waldo_runtime *rt);

/* Append to the journal; done may come at once. */
void waldo__runtime_append(waldo_runtime *rt, const char *stream, uint64_t expected_seq,
                           const waldo_str *records, size_t count, waldo_store_done_fn done,
                           void *userdata);

/* Drive until done(userdata) is true. WALDO_ETIMEDOUT, WALDO_EREENTRANT, WALDO_EFORKED. */
waldo_status waldo__runtime_drive(waldo_runtime *rt, int64_t timeout_ms,
                                  int (*done)(void *userdata), void *userdata);

#endif
