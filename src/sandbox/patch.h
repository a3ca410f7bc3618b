/* Patches in git's extended format, byte-exact under git apply. I/O-free. */
#ifndef WALDO_SANDBOX_PATCH_H
#define WALDO_SANDBOX_PATCH_H

#include "base/buf.h"

enum {
    WALDO__PATCH_FILE = 0100000, /* type bits of a mode */
    WALDO__PATCH_LINK = 0120000
};

/* One side of a path. */
typedef struct waldo__patch_side {
    uint32_t mode;   /* type and permission bits; 0: the path does not exist on this side */
    waldo_str bytes; /* content, or the target of a link */
} waldo__patch_side;

/*
 * Add what turns older into newer at path, or nothing when git sees no difference: of the
 * permission bits it knows only whether the owner may execute a file. A file that becomes a link,
 * or the other way round, is removed and made anew.
 *
 * WALDO_EPATH: the path is absolute, empty, or has a component "", ".", ".." or ".git".
 * WALDO_ETOOBIG: out is full.
 */
waldo_status waldo__patch_add(waldo__buf *out, waldo_str path, const waldo__patch_side *older,
                              const waldo__patch_side *newer);

/* 1 when a path may be in a patch. */
int waldo__patch_path_ok(waldo_str path);

#endif
