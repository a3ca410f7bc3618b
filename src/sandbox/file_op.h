/* One file operation, through the hand or through the backend's own functions. */
#ifndef WALDO_SANDBOX_FILE_OP_H
#define WALDO_SANDBOX_FILE_OP_H

#include "sandbox/live.h"

typedef struct waldo__file_op {
    waldo__op op;
    waldo__hand_call *call;
    enum waldo_hand_request type;
    uint32_t mode;
    waldo__path path;
    waldo__path to;
    char *shown; /* the path as the user wrote it */
    uint64_t offset;
    size_t max;
    unsigned write_flags;
    int recursive;
    waldo__buf data; /* to write, or read */
    size_t sent;     /* of what is to be written */
    uint64_t file_size;
    int hops; /* links that were followed */
    struct {
        WALDO__VEC(waldo_file_info);
    } infos;      /* names and targets are owned */
    size_t names; /* their bytes */
    struct {
        WALDO__VEC(char *);
    } folders;    /* still to be listed, relative to path */
    char *folder; /* being listed; NULL: path itself */
    waldo_read_fn on_read;
    waldo_sandbox_fn on_done;
    waldo__infos_fn on_infos;
    void *userdata;
} waldo__file_op;

void waldo__file_native(waldo__file_op *file); /* files_native.c */

/* Take one entry of the folder being listed; the backend's or the hand's. */
waldo_status waldo__file_add_info(waldo__file_op *file, const waldo_file_info *info);
int waldo__file_next_folder(waldo__file_op *file); /* 1: folder is the next one to list */

#endif
