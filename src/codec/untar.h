/*
 * Reading tar archives (POSIX ustar and pax, GNU's long names and sizes), without I/O: bytes split
 * anywhere in, entries and pieces of their content out. Nothing is believed: who uses a name checks
 * it.
 */
#ifndef WALDO_CODEC_UNTAR_H
#define WALDO_CODEC_UNTAR_H

#include "base/buf.h"

enum { WALDO__UNTAR_BLOCK = 512, WALDO__UNTAR_NAME_MAX = 16 * 1024 };

typedef enum waldo__untar_kind {
    WALDO__UNTAR_FILE,
    WALDO__UNTAR_HARD_LINK, /* to the entry that link names; without content */
    WALDO__UNTAR_LINK,
    WALDO__UNTAR_FOLDER,
    WALDO__UNTAR_OTHER /* devices, pipes, and what is not known */
} waldo__untar_kind;

/* Borrowed for the call; texts end in NUL and hold none. */
typedef struct waldo__untar_entry {
    waldo__untar_kind kind;
    waldo_str name;
    waldo_str link;
    uint32_t mode; /* permission bits */
    uint64_t size;
    int64_t mtime_s; /* since 1970; 0 for what is before */
} waldo__untar_entry;

/* A failure of either stops the feed and sticks. */
typedef struct waldo__untar_fns {
    waldo_status (*entry)(void *userdata, const waldo__untar_entry *entry);
    waldo_status (*data)(void *userdata, waldo_str bytes); /* of the last entry, never empty */
} waldo__untar_fns;

typedef struct waldo__untar {
    const waldo__untar_fns *fns;
    void *userdata;
    size_t have;
    uint64_t left;  /* content */
    size_t padding; /* behind it */
    waldo__buf *to; /* where content goes that describes the next entry; NULL: to the user */
    char meta;      /* its kind: x, L, K */
    uint64_t size;
    int has_size;
    int64_t mtime_s;
    int has_mtime;
    int zeroes; /* whole blocks of them: two end the archive */
    waldo_status status;
    waldo__buf text; /* of the entry that meta is about */
    waldo__buf name; /* of the next entry, when it does not fit the header */
    waldo__buf link;
    unsigned char block[WALDO__UNTAR_BLOCK]; /* a header that is not whole yet */
} waldo__untar;

void waldo__untar_init(waldo__untar *untar, const waldo__untar_fns *fns, void *userdata);
void waldo__untar_free(waldo__untar *untar);

/*
 * WALDO_EPROTO for what is no archive; a name above 16 KiB is WALDO_ETOOBIG, a sparse file
 * WALDO_ENOTSUP.
 */
waldo_status waldo__untar_feed(waldo__untar *untar, waldo_str bytes);

/* 1 when the archive's end was seen; bytes behind it are ignored. */
int waldo__untar_whole(const waldo__untar *untar);

/*
 * The normal form of an entry's name for a place below some folder: relative, without empty parts,
 * "." and a slash at the end; "" for the folder itself. EPATH for an absolute name and any "..".
 */
waldo_status waldo__untar_path(waldo_str name, waldo__buf *out);

#endif
