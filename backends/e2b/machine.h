/* The inside of a machine of the e2b backend. */
#ifndef WALDO_E2B_MACHINE_H
#define WALDO_E2B_MACHINE_H

#include "e2b.h"

enum { E2B_MADE_MS = 120000, E2B_LIFE_MS = 300000, E2B_PARTS = 4 };

struct waldo_machine {
    e2b_channel *channel;
    unsigned pending; /* parts of the preparation */
    int brought;      /* the hand's file is there, for one channel */
    int64_t deadline_ns;
    waldo_backend_done_fn done;
    void *userdata;
    waldo_status status;
    waldo_error *error;
    waldo__task task; /* of done */
    waldo_backend_channel_fn channel_done;
    void *channel_userdata;
    waldo__task text_task; /* of text_done */
    waldo__buf text;
    waldo_backend_bytes_fn text_done;
    void *text_userdata;
    char path[E2B_WORD_MAX + 24];
    char address[E2B_WORD_MAX + 8];
    waldo__buf create; /* body of the request, whose first byte is the brace */
    waldo__finder finder;
    e2b_stream hand; /* its start, until that is heard of */
    waldo__timer life_timer;
    e2b_place place;
    /* All while it is prepared; then the first for one at a time, the last for the next stream. */
    waldo__api_call calls[E2B_PARTS];
    waldo__api_call life; /* extends the sandbox's time */
};

/* ---- open.c ---- */

/* Make or reach it; machine->task completes. On failure nothing was begun. */
waldo_status waldo__e2b_begin(waldo_machine *machine, const waldo_backend_spec *spec,
                              waldo_str saved, waldo_error **ret_err);

/* Put the hand's file for the next stream into the sandbox. */
void waldo__e2b_bring(waldo_machine *machine, waldo__api_fn done);

/* "allow_internet_access" and so on, for a new sandbox or (update) one that is there. */
void waldo__e2b_put_net(waldo__json_writer *jw, waldo_net net, const char *const *hosts,
                        int update);

/* Seconds that the sandbox is to live from now on; as a body {"KEY":N}. */
int64_t waldo__e2b_seconds(const waldo_machine *machine);
void waldo__e2b_put_seconds(const waldo_machine *machine, const char *key, waldo__buf *out);

/* The answer to a connect; resumes what is paused. */
void waldo__e2b_connect(waldo_machine *machine, waldo__api_fn done);

#endif
