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

/* As waldo_sandbox_pack(); is_file: what was asked for is a file or link, and the only entry. */
typedef void (*waldo__packed_fn)(void *userdata, waldo_status status, waldo_str archive,
                                 int is_file, const waldo_error *error);
void waldo__pack(waldo_sandbox *sandbox, const char *path, waldo__packed_fn done, void *userdata);

/* ---- the host's side (host_files.c); they work at once ---- */

/* A file or folder of the host into an archive; a file under name. */
waldo_status waldo__host_pack(const char *path, const char *name, uint64_t max_bytes,
                              waldo__buf *archive, int *ret_is_file, waldo_error **ret_err);

/*
 * What was read into a folder of the host, which is made when it is missing. Nothing is written
 * through a link that is there, and a link that would lead out of the folder is refused before
 * anything is made. The list may come from a hostile sandbox.
 */
waldo_status waldo__host_unpack(const waldo__unpacked_list *list, const char *folder,
                                waldo_error **ret_err);

#endif
