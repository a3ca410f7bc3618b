/* The file tree of a fake machine: paths to bytes, in memory. */
#ifndef WALDO_FAKE_TREE_H
#define WALDO_FAKE_TREE_H

#include "base/vec.h"
#include <waldo/sys/backend.h>

typedef struct fake_node {
    char *path; /* absolute, without "//", "." and ".." */
    char *bytes;
    size_t len;
    uint32_t mode; /* type and permission bits */
    int64_t mtime_ns;
} fake_node;

typedef struct fake_tree {
    WALDO__VEC(fake_node);
    size_t used;  /* bytes of all files */
    size_t space; /* at most so many */
} fake_tree;

waldo_status waldo__fake_tree_init(fake_tree *tree, size_t space); /* with /, /tmp and /workspace */
void waldo__fake_tree_free(fake_tree *tree);

/* NULL: not there. Valid until the next change. */
fake_node *waldo__fake_tree_find(const fake_tree *tree, const char *path);

waldo_status waldo__fake_tree_write(fake_tree *tree, const char *path, waldo_str bytes, int append,
                                    uint32_t mode); /* mode 0: kept, else 0644; parents are made */
waldo_status waldo__fake_tree_mkdir(fake_tree *tree, const char *path, uint32_t mode);
waldo_status waldo__fake_tree_remove(fake_tree *tree, const char *path, int recursive);
waldo_status waldo__fake_tree_rename(fake_tree *tree, const char *from, const char *to);

/* 1 when child is an entry of folder itself (deep: or of any folder below it). */
int waldo__fake_tree_below(const char *folder, const char *child, int deep);

/* path against a directory, in normal form; WALDO_EPATH when too long. */
waldo_status waldo__fake_path(const char *cwd, const char *path, char *ret_path, size_t size);

#endif
