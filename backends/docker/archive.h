/* One operation on files of a container without a hand: what both directions share. */
#ifndef WALDO_DOCKER_ARCHIVE_H
#define WALDO_DOCKER_ARCHIVE_H

#include "base/vec.h"
#include "codec/untar.h"
#include "plain.h"

typedef struct docker_file_op file_op;

struct docker_file_op {
    docker_item item;
    docker_plain *plain;
    waldo_status status;
    uint32_t mode;
    waldo_error *error;
    uint64_t offset;
    size_t max;
    void *userdata;
    size_t known;  /* bytes of path that lead to what exists */
    int unpacking; /* untar is in use */
    int enough;    /* the rest of the stream is of no interest */
    int made_room; /* parents were made */
    uint32_t folder_mode;
    docker_call call;
    waldo__buf path;
    waldo__buf data;  /* read, to be written, or what a program said */
    docker_exec exec; /* of a program of the image */
    waldo__task early;
    waldo_file_info info; /* of the last look; link_target leads into link */
    waldo__buf link;
    void (*looked)(file_op *op, waldo_status status, const waldo_error *error);
    waldo__untar untar;
    size_t entries;
    waldo__buf folder; /* of entries: how their names begin */
    struct {
        WALDO__VEC(waldo_file_info);
    } infos; /* names and targets are owned */
    size_t names;
    void (*on_full)(file_op *op, waldo_error *error); /* no space; error is taken */
    /* one of them */
    waldo_backend_done_fn on_done;
    waldo_backend_bytes_fn on_bytes;
    waldo_backend_info_fn on_infos;
};

/* archive.c */
file_op *waldo__docker_op_new(waldo_machine *machine, const char *path, size_t data_max,
                              const waldo_backend_call *call); /* NULL: out of memory */
int waldo__docker_op_may_begin(file_op *op);                   /* 0: its end is on its way */
void waldo__docker_op_finish(file_op *op, waldo_status status, const waldo_error *error);
void waldo__docker_op_finish_early(void *userdata); /* with op->status and op->error */
void waldo__docker_op_fail(file_op *op, waldo_status status, const char *what);

/* An answer that is no success. */
void waldo__docker_op_refused(file_op *op, waldo_status status, const waldo_error *error,
                              const char *what);

/* What words of an engine or of a program mean. */
waldo_status waldo__docker_meaning(waldo_str text, waldo_status otherwise);

/* A request to the archive endpoint; more: further parameters. */
void waldo__docker_op_ask(file_op *op, const char *method, waldo_str path, const char *more,
                          docker_call_fn done);

/* What is there? In op->info; WALDO_ENOTFOUND, or WALDO_EPATH. */
void waldo__docker_op_look(file_op *op, waldo_str path,
                           void (*looked)(file_op *op, waldo_status status,
                                          const waldo_error *error));
void waldo__docker_op_not_there(file_op *op, waldo_status status);

#endif
