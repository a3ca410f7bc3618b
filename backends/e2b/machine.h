/* The inside of a machine of the e2b backend. */
#ifndef WALDO_E2B_MACHINE_H
#define WALDO_E2B_MACHINE_H

#include "e2b.h"

enum { E2B_MADE_MS = 120000, E2B_LIFE_MS = 300000, E2B_PARTS = 3 };

struct waldo_machine {
    e2b_place place;
    e2b_call calls[E2B_PARTS]; /* the first for one request at a time, all while it is prepared */
    e2b_call life;             /* extends the sandbox's time */
    waldo__timer life_timer;
    e2b_stream hand; /* its start, until that is heard of */
    e2b_channel *channel;
    waldo__buf create;       /* body of the request, whose first byte is the brace */
    char *name;              /* NULL: none */
    char *attach;            /* id of a sandbox that somebody else made; NULL: none */
    char run[E2B_WORD_MAX];  /* label of the sandbox: the durable hand's address */
    char mine[E2B_WORD_MAX]; /* of this user of it: the hand's file */
    char path[E2B_WORD_MAX + 24];
    char address[E2B_WORD_MAX + 8];
    int64_t lease_ms; /* 0: ends with this process */
    int lease_asked;
    int find;         /* by its name; never made */
    int saved;        /* the one of a saved state */
    int creating;     /* the provider is at it */
    int again;        /* it was asked for a second time */
    int made;         /* by this one */
    int reached;      /* it was there before */
    unsigned pending; /* parts of the preparation */
    int64_t deadline_ns;
    waldo__task task; /* completions */
    waldo_backend_done_fn done;
    void *userdata;
    waldo_status status;
    waldo_error *error;
    waldo_backend_channel_fn channel_done;
    void *channel_userdata;
    waldo__task save_task;
    uint32_t port;
    waldo_backend_bytes_fn save_done;
    void *save_userdata;
};

/* ---- open.c ---- */

/* What is to be made of a spec and a saved state; pure. */
waldo_status waldo__e2b_take_spec(waldo_machine *machine, const waldo_backend_spec *spec,
                                  waldo_str saved, waldo_error **ret_err);

/* Make or reach it; machine->task completes. */
void waldo__e2b_begin(waldo_machine *machine);

/* "allow_internet_access" and so on, for a new sandbox or (update) one that is there. */
void waldo__e2b_put_net(waldo__json_writer *jw, waldo_net net, const char *const *hosts,
                        int update);

/* Seconds that the sandbox is to live from now on. */
int64_t waldo__e2b_seconds(const waldo_machine *machine);
void waldo__e2b_put_seconds(const waldo_machine *machine, const char *key, waldo__buf *out);

/* POST /v2/sandboxes/ID/connect, or of the first version; done hears of the last of them. */
void waldo__e2b_connect(waldo_machine *machine, e2b_call_fn done);

#endif
