/* The inside of a machine of the docker backend. */
#ifndef WALDO_DOCKER_MACHINE_H
#define WALDO_DOCKER_MACHINE_H

#include "plain.h"

enum {
    DOCKER_PING_MS = 5000,
    DOCKER_QUICK_MS = 10000,
    DOCKER_SLOW_MS = 60000,
    DOCKER_ATTACH_MS = 20000,
    DOCKER_NAME_SIZE = 80
};

struct waldo_machine {
    waldo_status status;
    const waldo__hand_program *hand; /* the one for the image */
    docker_channel *channel;         /* until it is handed over */
    waldo_backend_done_fn done;
    void *userdata;
    waldo_error *error;
    int64_t deadline_ns;
    docker_call_fn entered;
    char *saved_run; /* the id that a saved state promises; NULL: none */
    int created;     /* 1: a container may be there */
    int creating;    /* 1: the engine is at it */
    int reached;     /* 1: it was there before */
    int resumed;     /* 1: another process has created it and went no further */
    int waiting;     /* for the removal that is in progress */
    int looks;       /* at a container that is not ready yet */
    int pulled;
    docker_call call;            /* one at a time */
    waldo__timer timer;          /* between looks */
    waldo__task task;            /* completions */
    char name[DOCKER_NAME_SIZE]; /* of the container, or its id */
    docker_options options;
    docker_engine engine;
    docker_plain plain; /* without a hand */
    waldo__buf note;    /* why there is none */
    waldo__buf pull_error;
    void (*on_progress)(void *userdata, const char *text); /* of who waits; or NULL */
    void *progress_userdata;
    waldo__task channel_task;
    waldo_backend_channel_fn channel_done;
    void *channel_userdata;
    waldo__task save_task;
    waldo_backend_bytes_fn save_done;
    void *save_userdata;
};

/* ---- docker.c ---- */

void waldo__docker_create(waldo_machine *machine);

/* The opening is over; error is taken. */
void waldo__docker_opened(waldo_machine *machine, waldo_status status, waldo_error *error);
/* By an answer that is not what was hoped for; what: "creating the container". */
void waldo__docker_open_failed(waldo_machine *machine, waldo_status status,
                               const waldo_error *error, const char *what);
/* A request about the container. */
void waldo__docker_begin(waldo_machine *machine, const char *method, const char *what, int64_t ms,
                         docker_call_fn done);
void waldo__docker_make(waldo_machine *machine);   /* from its image on */
void waldo__docker_inject(waldo_machine *machine); /* from the created container on */

/* ---- reaching one that is there (reach.c) ---- */

/* Go by its id from now on; 0: that is none. */
int waldo__docker_take_id(waldo_machine *machine, waldo_str id);

/* Take what save() gave apart; pure. */
waldo_status waldo__docker_take_saved(waldo_machine *machine, waldo_str saved,
                                      waldo_error **ret_err);
void waldo__docker_reach(waldo_machine *machine); /* or, by a name, make it */
void waldo__docker_exec_channel(waldo_machine *machine);
/* Run the exec of call.body: its stream is machine->channel when done is called with WALDO_OK. */
void waldo__docker_enter(waldo_machine *machine, docker_call_fn done);
/* The path that starts the exec which was made. */
waldo_status waldo__docker_exec_path(const waldo_machine *machine, char *path, size_t size,
                                     waldo_error **ret_err);
void waldo__docker_save(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_bytes_fn done);

/* ---- one made elsewhere (attach.c) ---- */

enum { DOCKER_PLACES = 4 }; /* of a hand in a container; numbers from 1 on */
void waldo__docker_adopt(waldo_machine *machine);
void waldo__docker_bring_in(waldo_machine *machine); /* machine->hand is known */
void waldo__docker_hand_path(const docker_options *options, char *out, size_t size);

/* ---- without a hand (fallback.c) ---- */

/* Begin again, and without a hand; the container that was made is removed. */
void waldo__docker_fall_back(waldo_machine *machine, const char *why);

void waldo__docker_without_hand(waldo_machine *machine, const char *why,
                                const waldo_backend_call *call, waldo_backend_done_fn done);

/* It did not start, or ended before it said anything: 1 when another way is tried. */
int waldo__docker_try_other(waldo_machine *machine, const char *why);

/* The started container is whole: ready to be used. */
void waldo__docker_plain_opened(waldo_machine *machine);

#endif
