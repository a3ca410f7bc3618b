/* Writing tar archives (POSIX ustar; pax for long names), without I/O. */
#ifndef WALDO_CODEC_TAR_H
#define WALDO_CODEC_TAR_H

#include "base/buf.h"

typedef struct waldo__tar_entry {
    const char *name; /* at most 4096 bytes; "/" means the folder that it is unpacked into */
    const char *link; /* NULL, or what a symbolic link says */
    int is_folder;
    int64_t mtime_s;
    uint32_t mode; /* permission bits */
    uint32_t uid;
    uint32_t gid;
    waldo_str bytes; /* of a file */
} waldo__tar_entry;

/* Append an entry with its content; WALDO_ETOOBIG when a field cannot hold its value. */
waldo_status waldo__tar_put(waldo__buf *out, const waldo__tar_entry *entry);

waldo_status waldo__tar_end(waldo__buf *out);

#endif
