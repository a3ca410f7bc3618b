/*
 * A container without a hand: commands are execs of the engine, files come and go as archives. The
 * functions are those of the backend's table; which machines have them, describe says.
 */
#ifndef WALDO_DOCKER_PLAIN_H
#define WALDO_DOCKER_PLAIN_H

#include "docker.h"

/* ---- one exec of the engine (exec.c) ---- */

typedef struct docker_exec docker_exec;

/*
 * The command has ended. WALDO_ELOST: its container has, or the engine; WALDO_ESTART: the engine
 * says why it could not begin.
 */
typedef void (*docker_exec_fn)(void *userdata, waldo_status status, int exit_code,
                               const waldo_error *error);

struct docker_exec {
    docker_engine *engine;
    const char *container;
    const char *refused; /* static: what the engine has refused */
    unsigned looks;
    int exit_code;
    int busy; /* in on_output, which may end the owner */
    void (*on_output)(void *userdata, int stream, waldo_str bytes);
    docker_exec_fn done;
    void *userdata;
    void (*release)(void *userdata); /* then frees its memory, when nothing touches it any more */
    waldo__docker_frames frames;
    docker_call call;
    char id[80];
    waldo__buf words; /* the engine's own */
    waldo__timer timer;
};

void waldo__docker_exec_init(docker_exec *exec, docker_engine *engine, const char *container,
                             void *userdata);
void waldo__docker_exec_free(docker_exec *exec); /* nothing is called any more; it may run on */

/* The request goes into exec->call.body before the start. user NULL: the container's own. */
void waldo__docker_put_command(waldo__buf *out, const char *const *argv, const char *const *env,
                               const char *cwd, const char *user, int has_input);
void waldo__docker_exec_start(docker_exec *exec,
                              void (*on_output)(void *userdata, int stream, waldo_str bytes),
                              docker_exec_fn done);

/* ---- a machine (plain.c) ---- */

/* Whatever is on its way, so that the machine's end can end it. */
typedef struct docker_item {
    struct docker_item *next;
    struct docker_item *prev;
    void (*free)(struct docker_item *item);
} docker_item;

typedef struct docker_plain {
    docker_engine *engine;
    const char *container;
    uint32_t uid;
    uint32_t gid;
    int shell;         /* 1: there is a /bin/sh */
    docker_item items; /* head of the ring */
    int ending;
    unsigned inputs;   /* files made so far */
    docker_call ender; /* kills the container when nothing else helps */
    char lost[256];
} docker_plain;

void waldo__docker_plain_init(docker_plain *plain, docker_engine *engine, const char *container,
                              const docker_options *options, int shell);
void waldo__docker_plain_free(docker_plain *plain);
void waldo__docker_plain_end(docker_plain *plain, const char *why); /* kill the container */
void waldo__docker_item_add(docker_plain *plain, docker_item *item);
void waldo__docker_item_remove(docker_item *item);

docker_plain *waldo__docker_plain_of(waldo_machine *machine); /* fallback.c */

void waldo__docker_exec1(waldo_machine *machine, const waldo_backend_exec *exec,
                         const waldo_backend_call *call, waldo_backend_exec_fn done);

/* ---- its files (archive.c) ---- */

void waldo__docker_file_read(waldo_machine *machine, const char *path, uint64_t offset, size_t max,
                             const waldo_backend_call *call, waldo_backend_bytes_fn done);
void waldo__docker_file_write(waldo_machine *machine, const char *path, waldo_str bytes,
                              uint32_t mode, const waldo_backend_call *call,
                              waldo_backend_done_fn done);
void waldo__docker_file_stat(waldo_machine *machine, const char *path,
                             const waldo_backend_call *call, waldo_backend_info_fn done);
void waldo__docker_file_list(waldo_machine *machine, const char *path,
                             const waldo_backend_call *call, waldo_backend_info_fn done);
void waldo__docker_file_remove(waldo_machine *machine, const char *path, int recursive,
                               const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__docker_file_mkdir(waldo_machine *machine, const char *path, uint32_t mode,
                              const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__docker_file_rename(waldo_machine *machine, const char *from, const char *to,
                               const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__docker_restore(waldo_machine *machine, waldo_str snapshot,
                           const waldo_backend_call *call, waldo_backend_done_fn done);

#endif
