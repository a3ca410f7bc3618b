/* The baseline of a copied workspace: what the host directory held when the machine was opened. */
#ifndef WALDO_SANDBOX_WORKSPACE_H
#define WALDO_SANDBOX_WORKSPACE_H

#include <dirent.h>

#include "sandbox/live.h"

/* One path. The content of file number N is folder/N. */
typedef struct waldo__baseline {
    char *path;   /* relative to the workspace */
    char *target; /* of a link */
    uint32_t mode;
    uint64_t size;
    unsigned number;
} waldo__baseline;

struct waldo__workspace {
    waldo_sandbox *sandbox; /* NULL: nobody waits any more */
    const waldo__loop *loop;
    char *home; /* host directory of the copy */
    int whole;  /* the copy on the host is complete */
    struct {
        WALDO__VEC(waldo__baseline);
    } entries;           /* sorted by path once the copy is there */
    waldo_status status; /* the first failure */
    waldo_error *error;
    /* uploading */
    size_t next;      /* entry */
    uint64_t offset;  /* within its file */
    size_t in_flight; /* operations that have not answered */
    size_t in_bytes;  /* what they hold */
    size_t next_link;
    /* scanning the host directory */
    int root; /* of it; -1: none */
    int base; /* the home */
    int folder_fd;
    DIR *folder;
    char *folder_path; /* relative; "" is the root */
    struct {
        WALDO__VEC(char *);
    } folders;    /* still to be read */
    int from, to; /* a file being copied; -1: none */
    uint64_t bytes;
    waldo__task task;
};

/* Content of a baseline file; WALDO_EIO when it is not what it was. */
waldo_status waldo__baseline_read(const waldo__workspace *workspace, const waldo__baseline *entry,
                                  waldo__buf *out);

/* upload.c: put the baseline into the machine. */
void waldo__workspace_upload(waldo__workspace *workspace);
void waldo__put_quoted(waldo__buf *out, const char *text); /* as one word of a shell */
void waldo__workspace_done(waldo__workspace *workspace, waldo_status status, waldo_error *error);

#endif
