/* Folders of a sandbox as tar archives: out (pack.c) and in (unpack.c). */
#ifndef WALDO_SANDBOX_ARCHIVE_H
#define WALDO_SANDBOX_ARCHIVE_H

#include "sandbox/live.h"

/* Of the spec: contents that are packed or unpacked at once. */
uint64_t waldo__archive_max(const waldo_sandbox *sandbox);

/* One entry to be made. Texts are owned; bytes point into the archive. */
typedef struct waldo__unpacked {
    char *path;    /* relative to the folder */
    char *link;    /* NULL: it is no symbolic link */
    char *twin_of; /* NULL, or the path of the file that it is a hard link to */
    int is_folder;
    int dropped; /* a later entry has the same path */
    uint32_t mode;
    int64_t mtime_s;
    waldo_str bytes;
    size_t order;
} waldo__unpacked;

typedef struct waldo__unpacked_list {
    WALDO__VEC(waldo__unpacked);
} waldo__unpacked_list;

/*
 * Read a whole archive, which may be hostile, without doing anything: entries sorted by path, so
 * that folders come before what they hold. EPATH for a name outside of the folder, for what lies
 * below a file or link, and for a device; ETOOBIG; EPROTO and ETRUNCATED for what is no archive.
 */
waldo_status waldo__unpacked_read(waldo__unpacked_list *list, waldo_str archive, uint64_t max_bytes,
                                  waldo_error **ret_err);
void waldo__unpacked_free(waldo__unpacked_list *list);

#endif
