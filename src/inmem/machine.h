/*
 * What machines in memory share: operations that complete later, and files. fake: and the testing
 * library's machines are made of it; what commands do is theirs. On public headers alone, as tree.h
 * says.
 */
#ifndef WALDO_INMEM_MACHINE_H
#define WALDO_INMEM_MACHINE_H

#include "inmem/tree.h"
#include <waldo/sys/backend.h>

typedef struct waldo__inmem waldo__inmem;
typedef struct waldo__inmem_op waldo__inmem_op;

typedef enum waldo__inmem_kind {
    WALDO__INMEM_EXEC,
    WALDO__INMEM_READ,
    WALDO__INMEM_STAT,
    WALDO__INMEM_LIST,
    WALDO__INMEM_WRITE,
    WALDO__INMEM_REMOVE,
    WALDO__INMEM_MKDIR,
    WALDO__INMEM_RENAME
} waldo__inmem_kind;

/* An operation on files. */
typedef struct waldo__inmem_request {
    waldo__inmem_kind kind;
    const char *path;
    const char *to; /* of RENAME; else NULL */
    waldo_str bytes;
    uint32_t mode;
    int recursive;
} waldo__inmem_request;

typedef struct waldo__inmem_class {
    const char *name; /* of the backend, for errors */
    const waldo_allocator *memory;
    /* May it be done? Its paths are in normal form. */
    waldo_status (*admit)(waldo__inmem *machine, const waldo__inmem_request *request,
                          waldo_error **ret_err);
    void (*free)(waldo__inmem *machine); /* all of it, operations are gone already */
} waldo__inmem_class;

/* First member of a struct waldo_machine. */
struct waldo__inmem {
    const waldo__inmem_class *type;
    const waldo_backend_env *env;
    waldo__tree *tree;
    waldo__inmem_op *ops; /* not yet completed, newest first */
};

typedef enum waldo__inmem_wake {
    WALDO__INMEM_DUE,
    WALDO__INMEM_DEADLINE,
    WALDO__INMEM_CANCELLED
} waldo__inmem_wake;

/* One operation until its completion was called; may be the first member of something larger. */
struct waldo__inmem_op {
    waldo__inmem_op *next;
    waldo__inmem_op **at; /* who points here; NULL: of no machine */
    const waldo__inmem_class *type;
    waldo__inmem *machine;
    waldo_backend_wait *wait;
    void *userdata;
    int64_t deadline_ns;
    int64_t due_ns;
    void (*wake)(waldo__inmem_op *op, waldo__inmem_wake why); /* until it has ended */
    void (*drop)(waldo__inmem_op *op); /* what it is larger by; may be NULL */
    void (*tell)(waldo__inmem_op *op); /* call the completion */
    union {
        waldo_backend_done_fn plain;
        waldo_backend_bytes_fn bytes;
        waldo_backend_info_fn infos;
        waldo_backend_exec_fn exec;
    } done;
    waldo_status status;
    waldo_error *error;
    char *bytes; /* of READ */
    size_t len;
    waldo_file_info *infos; /* names are owned */
    size_t info_count;
    waldo_exec_end end;
    int exit_code;
    int signal;
    int ended;
    int is_close; /* the machine is freed after the completion */
};

/* A new one, size bytes large, the rest of them zero. machine may be NULL. NULL: out of memory. */
waldo__inmem_op *waldo__inmem_op_new(const waldo__inmem_class *type, const waldo_backend_env *env,
                                     waldo__inmem *machine, const waldo_backend_call *call,
                                     size_t size);
void waldo__inmem_tell_plain(waldo__inmem_op *op);

/* A command; may be the first member of something larger. */
typedef struct waldo__inmem_exec {
    waldo__inmem_op base; /* first */
    waldo_output_fn on_output;
    int merge;
} waldo__inmem_exec;

/* Its deadline is in force when it sleeps. NULL: out of memory, and done was told. */
waldo__inmem_exec *waldo__inmem_exec_new(waldo_machine *machine, const waldo_backend_exec *exec,
                                         const waldo_backend_call *call, waldo_backend_exec_fn done,
                                         size_t size);
void waldo__inmem_say(const waldo__inmem_exec *exec, int stream, waldo_str bytes);
void waldo__inmem_stop(waldo__inmem_op *op, waldo_exec_end end, int signal);

/* It is over; its completion comes later. Only the first end counts; error is taken. */
void waldo__inmem_end(waldo__inmem_op *op, waldo_status status, waldo_error *error);
void waldo__inmem_fail(waldo__inmem_op *op, waldo_status status, const char *why);
/* Wake it after so long, or at its deadline. 0: as soon as possible. */
void waldo__inmem_sleep(waldo__inmem_op *op, int64_t delay_ns);

/* Complete with this, later; error is taken. */
void waldo__inmem_answer(const waldo__inmem_class *type, const waldo_backend_env *env,
                         waldo__inmem *machine, const waldo_backend_call *call,
                         waldo_backend_done_fn done, waldo_status status, waldo_error *error);

int64_t waldo__inmem_now_ns(void);   /* of CLOCK_MONOTONIC */
int64_t waldo__inmem_ns(int64_t ms); /* INT64_MAX: for ever, as what is below 0 or too long */
void *waldo__inmem_alloc(const waldo__inmem_class *type, size_t size); /* zeroed */
void waldo__inmem_drop(const waldo__inmem_class *type, const void *block);

/* Members of waldo_backend_ops. */
void waldo__inmem_close(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_done_fn done);
void waldo__inmem_abandon(waldo_machine *machine);
void waldo__inmem_read(waldo_machine *machine, const char *path, uint64_t offset, size_t max,
                       const waldo_backend_call *call, waldo_backend_bytes_fn done);
void waldo__inmem_stat(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                       waldo_backend_info_fn done);
void waldo__inmem_list(waldo_machine *machine, const char *path, const waldo_backend_call *call,
                       waldo_backend_info_fn done);
void waldo__inmem_write(waldo_machine *machine, const char *path, waldo_str bytes, uint32_t mode,
                        const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__inmem_remove(waldo_machine *machine, const char *path, int recursive,
                         const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__inmem_mkdir(waldo_machine *machine, const char *path, uint32_t mode,
                        const waldo_backend_call *call, waldo_backend_done_fn done);
void waldo__inmem_rename(waldo_machine *machine, const char *from, const char *to,
                         const waldo_backend_call *call, waldo_backend_done_fn done);

#endif
