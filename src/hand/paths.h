/* Where a file request points to: a directory descriptor and a path below it. */
#ifndef WALDO_HAND_PATHS_H
#define WALDO_HAND_PATHS_H

#include <sys/types.h>

#include "wire.h"

struct place {
    int root; /* AT_FDCWD, or the opened ROOT: then everything stays beneath it */
    bool beneath;
};

struct request {
    uint32_t flags, mode;
    bool has_mode, has_root, has_to, has_limit;
    uint64_t offset, limit;
    char path[WALDO_HAND_PATH_MAX + 1], root[WALDO_HAND_PATH_MAX + 1], to[WALDO_HAND_PATH_MAX + 1];
};

/* Reads the fields; 0, an errno with ret_where, or -1: they overrun the payload. */
int request_decode(const struct frame *frame, struct request *ret_request, uint8_t *ret_where);

int place_open_at(const struct place *place, const char *path, int flags, mode_t mode);
/* Makes the missing directories above path; 0 or an errno. */
int place_make_parents(const struct place *place, const char *path);
/* Opens the directory that holds path and gives its last name; -1 with errno. */
int place_open_parent(const struct place *place, const char *path, char ret_name[256]);

#endif
