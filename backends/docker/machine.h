/* The inside of a machine of the docker backend. */
#ifndef WALDO_DOCKER_MACHINE_H
#define WALDO_DOCKER_MACHINE_H

#include "docker.h"

enum {
    DOCKER_PING_MS = 5000,
    DOCKER_QUICK_MS = 10000,
    DOCKER_SLOW_MS = 60000,
    DOCKER_ATTACH_MS = 20000,
    DOCKER_NAME_SIZE = 80
};

struct waldo_machine {
    docker_engine engine;
    docker_options options;
    docker_call call;            /* one at a time */
    docker_channel *channel;     /* until it is handed over */
    char name[DOCKER_NAME_SIZE]; /* of the container, or its id */
    int created;                 /* 1: a container may be there */
    int creating;                /* 1: the engine is at it */
    int waiting;                 /* for the removal that is in progress */
    int pulled;
    int64_t deadline_ns;
    waldo__buf pull_error;
    waldo__task task; /* completions */
    waldo_backend_done_fn done;
    void *userdata;
    waldo_status status;
    waldo_error *error;
    waldo__task channel_task;
    waldo_backend_channel_fn channel_done;
    void *channel_userdata;
};

/* ---- docker.c ---- */

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

#endif
