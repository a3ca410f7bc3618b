/*
 * The local backend: one bubblewrap per machine, with the hand inside and the hand's keeper as its
 * parent outside.
 */
#ifndef WALDO_LOCAL_LOCAL_H
#define WALDO_LOCAL_LOCAL_H

#include <sys/types.h>

#include "backend/labels.h"
#include "base/buf.h"
#include "base/vec.h"
#include "codec/hand.h"
#include "loop/child.h"
#include "loop/loop.h"
#include <waldo/sys/backend.h>

/* ---- how to start one (command.c) ---- */

/* Descriptors and arguments of bubblewrap; everything is owned. */
typedef struct local_command {
    struct {
        WALDO__VEC(char *);
    } args;
    struct {
        WALDO__VEC(int);
    } fds;      /* kept open for bubblewrap, each under the number the arguments say */
    int status; /* WALDO_OK, or the first failure */
    waldo_error *error;
    uid_t uid; /* the user that bubblewrap runs as */
    gid_t gid;
    int drop; /* 1: we are root, and it is not to be */
} local_command;

waldo_status waldo__local_command_make(local_command *command, const waldo_backend_spec *spec,
                                       waldo_error **ret_err);
void waldo__local_command_free(local_command *command);

/* Adding to it (shared by command.c, mounts.c). */
void waldo__local_add(local_command *command, const char *arg);
void waldo__local_add_fd(local_command *command, const char *option, int fd); /* fd is taken */
void waldo__local_add_data(local_command *command, const char *path, const void *bytes, size_t len,
                           const char *mode);
void waldo__local_fail(local_command *command, waldo_status status, const char *format, ...)
    WALDO_PRINTF(3, 4);

void waldo__local_add_root(local_command *command, const waldo_backend_spec *spec); /* mounts.c */
void waldo__local_add_workspace(local_command *command,
                                const waldo_backend_spec *spec); /* mounts.c */

int waldo__local_size(waldo_str text, uint64_t *ret_bytes); /* 512m, 1g */

/* A memfd with these bytes, to be read from its beginning; -1 and errno. */
int waldo__local_memfd(const char *name, const void *bytes, size_t len);

/* The system call filter as bubblewrap reads it; net: AF_UNIX is closed, AF_INET reaches out. */
int waldo__local_seccomp_fd(int net); /* seccomp.c */

/* ---- why it does not work here (explain.c) ---- */

/* bubblewrap's place, owned; or the reason why there is none. */
char *waldo__local_find_bwrap(const waldo_backend_spec *spec, waldo_error **ret_err);
void waldo__local_explain(waldo_error **ret_err, waldo_str said); /* WALDO_EUNAVAILABLE */

/* ---- the stream to the hand (channel.c) ---- */

typedef struct local_channel local_channel;

local_channel *waldo__local_channel_new(waldo__loop *loop, int fd,
                                        waldo_machine *machine); /* fd taken */
waldo_channel *waldo__local_channel_base(local_channel *channel);
void waldo__local_channel_end(local_channel *channel, waldo_str said); /* its process is gone */

/* ---- one machine ---- */

typedef enum local_state {
    LOCAL_STARTING,
    LOCAL_RUNNING,
    LOCAL_ENDED, /* the keeper has said so, or is gone */
} local_state;

struct waldo_machine {
    waldo__loop *loop;
    waldo__child *keeper;
    int control;
    int stream; /* to the hand, until a channel takes it; -1 */
    waldo_status status;
    int exit_code; /* of bubblewrap; -1 unknown */
    int closing;
    int probing;
    waldo__watch *control_watch;
    local_channel *channel;
    waldo_backend_done_fn done; /* of open or close; NULL: none pending */
    void *userdata;
    waldo_error *error;
    waldo__hand_decoder decoder;
    local_command command;
    local_state state;
    waldo__buf said;        /* bubblewrap's stderr */
    waldo__timer timer;     /* for opening, then for closing */
    waldo__task task;       /* completions */
    waldo__task ended_task; /* the keeper is gone */
    waldo__task channel_task;
    waldo_backend_channel_fn channel_done;
    void *channel_userdata;
};

void waldo__local_channel_gone(waldo_machine *machine);

#endif
