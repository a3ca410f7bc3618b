#include "tree.h"

#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"

enum { NODES_MAX = 20000 };

fake_node *waldo__fake_tree_find(const fake_tree *tree, const char *path)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (strcmp(tree->at[i].path, path) == 0) {
            return &tree->at[i];
        }
    }
    return NULL;
}

int waldo__fake_tree_below(const char *folder, const char *child, int deep)
{
    size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);

    if (strncmp(folder, child, len) != 0 || child[len] != '/' || child[len + 1] == '\0') {
        return 0;
    }
    return deep || strchr(child + len + 1, '/') == NULL;
}

static fake_node *add_node(fake_tree *tree, const char *path, uint32_t mode)
{
    fake_node *node = tree->count < NODES_MAX ? WALDO__VEC_PUSH(tree) : NULL;

    if (node != NULL) {
        node->path = waldo__strdup(path);
        node->mode = mode;
        node->mtime_ns = waldo__wall_ms() * WALDO__NS_PER_MS;
        if (node->path == NULL) {
            tree->count--;
            node = NULL;
        }
    }
    return node;
}

/* The folder of path must be one; missing ones are made. */
static waldo_status make_parents(fake_tree *tree, const char *path)
{
    char folder[4096];
    size_t len = strnlen(path, sizeof folder);

    if (len == sizeof folder) {
        return WALDO_EPATH;
    }
    for (size_t i = 1; i < len; i++) {
        fake_node *node;

        if (path[i] != '/') {
            continue;
        }
        memcpy(folder, path, i);
        folder[i] = '\0';
        node = waldo__fake_tree_find(tree, folder);
        if (node != NULL && !S_ISDIR(node->mode)) {
            return WALDO_EPATH;
        }
        if (node == NULL && add_node(tree, folder, S_IFDIR | 0755) == NULL) {
            return WALDO_ENOSPACE;
        }
    }
    return WALDO_OK;
}

waldo_status waldo__fake_tree_mkdir(fake_tree *tree, const char *path, uint32_t mode)
{
    fake_node *node = waldo__fake_tree_find(tree, path);
    waldo_status status;

    if (node != NULL) {
        return S_ISDIR(node->mode) ? WALDO_OK : WALDO_EEXISTS;
    }
    status = make_parents(tree, path);
    if (status == WALDO_OK &&
        add_node(tree, path, S_IFDIR | (mode != 0 ? mode & 07777 : 0755)) == NULL) {
        status = WALDO_ENOSPACE;
    }
    return status;
}

waldo_status waldo__fake_tree_init(fake_tree *tree, size_t space)
{
    *tree = (fake_tree){ .space = space };
    if (add_node(tree, "/", S_IFDIR | 0755) == NULL ||
        waldo__fake_tree_mkdir(tree, "/tmp", 01777) != WALDO_OK ||
        waldo__fake_tree_mkdir(tree, "/workspace", 0755) != WALDO_OK) {
        waldo__fake_tree_free(tree);
        return WALDO_ENOMEM;
    }
    return WALDO_OK;
}

void waldo__fake_tree_free(fake_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        waldo__free(tree->at[i].path);
        waldo__free(tree->at[i].bytes);
    }
    WALDO__VEC_FREE(tree);
    tree->used = 0;
}

waldo_status waldo__fake_tree_write(fake_tree *tree, const char *path, waldo_str bytes, int append,
                                    uint32_t mode)
{
    fake_node *node = waldo__fake_tree_find(tree, path);
    waldo_status status = WALDO_OK;
    size_t keep;
    size_t old;
    char *copy;

    if (node != NULL && !S_ISREG(node->mode)) {
        return WALDO_EPATH;
    }
    if (node == NULL) {
        status = make_parents(tree, path);
        node = status == WALDO_OK ? add_node(tree, path, S_IFREG | 0644) : NULL;
        if (node == NULL) {
            return status != WALDO_OK ? status : WALDO_ENOSPACE;
        }
    }
    old = node->len;
    keep = append ? old : 0;
    if (bytes.len > tree->space || tree->used - old + keep > tree->space - bytes.len) {
        return WALDO_ENOSPACE;
    }
    copy = waldo__realloc(node->bytes, keep + bytes.len + 1);
    if (copy == NULL) {
        return WALDO_ENOMEM;
    }
    if (bytes.len > 0) {
        memcpy(copy + keep, bytes.ptr, bytes.len);
    }
    node->bytes = copy;
    node->len = keep + bytes.len;
    node->mtime_ns = waldo__wall_ms() * WALDO__NS_PER_MS;
    if (mode != 0) {
        node->mode = S_IFREG | (mode & 07777);
    }
    tree->used = tree->used - old + node->len;
    return WALDO_OK;
}

static void drop_node(fake_tree *tree, size_t at)
{
    fake_node *node = &tree->at[at];

    tree->used -= node->len;
    waldo__free(node->path);
    waldo__free(node->bytes);
    memmove(node, node + 1, (tree->count - at - 1) * sizeof *node);
    tree->count--;
}

waldo_status waldo__fake_tree_remove(fake_tree *tree, const char *path, int recursive)
{
    fake_node *node = waldo__fake_tree_find(tree, path);

    if (node == NULL) {
        return WALDO_ENOTFOUND;
    }
    if (strcmp(path, "/") == 0) {
        return WALDO_EACCESS;
    }
    for (size_t i = 0; !recursive && i < tree->count; i++) {
        if (waldo__fake_tree_below(path, tree->at[i].path, 1)) {
            return WALDO_EEXISTS;
        }
    }
    for (size_t i = tree->count; i-- > 0;) {
        if (strcmp(tree->at[i].path, path) == 0 ||
            waldo__fake_tree_below(path, tree->at[i].path, 1)) {
            drop_node(tree, i);
        }
    }
    return WALDO_OK;
}

/* A folder takes its content along. */
static waldo_status move_nodes(fake_tree *tree, const char *from, const char *to)
{
    size_t from_len = strlen(from);
    size_t to_len = strlen(to);

    for (size_t i = 0; i < tree->count; i++) {
        fake_node *node = &tree->at[i];
        char *moved;
        size_t rest;

        if (strcmp(node->path, from) != 0 && !waldo__fake_tree_below(from, node->path, 1)) {
            continue;
        }
        rest = strlen(node->path) - from_len;
        moved = waldo__alloc(to_len + rest + 1);
        if (moved == NULL) {
            return WALDO_ENOMEM;
        }
        memcpy(moved, to, to_len);
        memcpy(moved + to_len, node->path + from_len, rest + 1);
        waldo__free(node->path);
        node->path = moved;
    }
    return WALDO_OK;
}

waldo_status waldo__fake_tree_rename(fake_tree *tree, const char *from, const char *to)
{
    const fake_node *source = waldo__fake_tree_find(tree, from);
    const fake_node *target = waldo__fake_tree_find(tree, to);
    waldo_status status;

    if (source == NULL) {
        return WALDO_ENOTFOUND;
    }
    if (strcmp(from, "/") == 0 || waldo__fake_tree_below(from, to, 1)) {
        return WALDO_EINVAL;
    }
    if (strcmp(from, to) == 0) {
        return WALDO_OK;
    }
    if (target != NULL && S_ISDIR(target->mode) != S_ISDIR(source->mode)) {
        return WALDO_EPATH;
    }
    status = target != NULL ? waldo__fake_tree_remove(tree, to, 0) : make_parents(tree, to);
    return status == WALDO_OK ? move_nodes(tree, from, to) : status;
}

waldo_status waldo__fake_path(const char *cwd, const char *path, char *ret_path, size_t size)
{
    const char *const parts[] = { path[0] == '/' ? "" : cwd, path };
    size_t len = 0;

    for (size_t i = 0; i < 2; i++) {
        waldo_str rest = waldo__str(parts[i]);
        waldo_str part;

        while (waldo__str_split(&rest, '/', &part)) {
            if (part.len == 0 || waldo__str_is(part, ".")) {
                continue;
            }
            if (waldo__str_is(part, "..")) {
                while (len > 0 && ret_path[--len] != '/') {
                }
                continue;
            }
            if (len + part.len + 2 > size) {
                return WALDO_EPATH;
            }
            ret_path[len++] = '/';
            memcpy(ret_path + len, part.ptr, part.len);
            len += part.len;
        }
    }
    if (len == 0) {
        ret_path[len++] = '/';
    }
    ret_path[len] = '\0';
    return WALDO_OK;
}
