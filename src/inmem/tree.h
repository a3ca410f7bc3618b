/*
 * A file tree in memory: paths to bytes. On public headers and the C library alone, because
 * libwaldo_testing, which reaches nothing private, is made of it, too.
 */
#ifndef WALDO_INMEM_TREE_H
#define WALDO_INMEM_TREE_H

#include <waldo/alloc.h>

#define WALDO__INMEM_HOME "/workspace"

enum { WALDO__INMEM_PATH_BYTES = 4096 };

typedef struct waldo__tree_node {
    char *path; /* absolute, without "//", "." and ".." */
    char *bytes;
    size_t len;
    uint32_t mode; /* type and permission bits */
    int64_t mtime_ns;
} waldo__tree_node;

typedef struct waldo__tree {
    waldo__tree_node *at;
    size_t count;
    size_t cap;
    size_t used;  /* bytes of all files */
    size_t space; /* at most so many */
    const waldo_allocator *memory;
} waldo__tree;

/* With /, /tmp and the home. memory is borrowed for its life. */
waldo_status waldo__tree_init(waldo__tree *tree, const waldo_allocator *memory, size_t space);
void waldo__tree_free(waldo__tree *tree);

/* NULL: not there. Valid until the next change. */
waldo__tree_node *waldo__tree_find(const waldo__tree *tree, const char *path);

waldo_status waldo__tree_write(waldo__tree *tree, const char *path, waldo_str bytes, int append,
                               uint32_t mode); /* mode 0: kept, else 0644; parents are made */
waldo_status waldo__tree_mkdir(waldo__tree *tree, const char *path, uint32_t mode);
waldo_status waldo__tree_remove(waldo__tree *tree, const char *path, int recursive);
waldo_status waldo__tree_rename(waldo__tree *tree, const char *from, const char *to);

/* 1 when child is an entry of folder itself (deep: or of any folder below it). */
int waldo__tree_below(const char *folder, const char *child, int deep);

/* path against a folder, in normal form; WALDO_EPATH when too long. */
waldo_status waldo__tree_path(const char *cwd, const char *path, char *ret_path, size_t size);

int64_t waldo__tree_now_ns(void); /* of the wall clock */

#endif
