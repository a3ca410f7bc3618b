/* The inside of a machine of the e2b backend. */
#ifndef WALDO_E2B_MACHINE_H
#define WALDO_E2B_MACHINE_H

#include "backend/cloud.h"
#include "backend/launch.h"
#include "e2b.h"

enum { E2B_PARTS = 4 };

struct waldo_machine {
    waldo__cloud cloud; /* first */
    waldo__launch launch;
    e2b_channel *channel; /* that is being made */
    waldo_backend_channel_fn channel_done;
    void *channel_userdata;
    waldo__buf create; /* body of the request, whose first byte is the brace */
    e2b_stream hand;   /* its start, until that is heard of */
    e2b_place place;
    /* All while it is prepared; then the first for one at a time, the last for the next stream. */
    waldo__api_call calls[E2B_PARTS];
    waldo__api_call life; /* extends the sandbox's time */
};

/* ---- open.c ---- */

/* How the hand comes into it. */
extern const waldo__launch_fns waldo__e2b_launch;

/* Make or reach it; waldo__cloud_opened() ends that. On failure nothing was begun. */
waldo_status waldo__e2b_begin(waldo_machine *machine, const waldo_backend_spec *spec,
                              waldo_str saved, waldo_error **ret_err);

/* root's file is there, for a stream (machine.c). */
void waldo__e2b_brought(void *userdata, waldo_status status, const waldo_error *error);

/* "allow_internet_access" and so on, for a new sandbox or (update) one that is there. */
void waldo__e2b_put_net(waldo__json_writer *jw, waldo_net net, const char *const *hosts,
                        int update);

/* As a body {"KEY":N} the seconds that it is to live from now on. */
void waldo__e2b_put_seconds(const waldo_machine *machine, const char *key, waldo__buf *out);

/* The answer to a connect; resumes what is paused. */
void waldo__e2b_connect(waldo_machine *machine, waldo__api_fn done);

#endif
