#include "inmem/tree.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { NODES_MAX = 20000, NODES_FIRST = 16 };

int64_t waldo__tree_now_ns(void)
{
    struct timespec now = { 0 };

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void drop(const waldo__tree *tree, void *block)
{
    if (block != NULL) {
        tree->memory->free_fn(tree->memory->userdata, block);
    }
}

static void *resize(const waldo__tree *tree, void *block, size_t size)
{
    const waldo_allocator *memory = tree->memory;

    return block != NULL ? memory->realloc_fn(memory->userdata, block, size)
                         : memory->malloc_fn(memory->userdata, size);
}

waldo__tree_node *waldo__tree_find(const waldo__tree *tree, const char *path)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (strcmp(tree->at[i].path, path) == 0) {
            return &tree->at[i];
        }
    }
    return NULL;
}

int waldo__tree_below(const char *folder, const char *child, int deep)
{
    size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);

    if (strncmp(folder, child, len) != 0 || child[len] != '/' || child[len + 1] == '\0') {
        return 0;
    }
    return deep || strchr(child + len + 1, '/') == NULL;
}

static int make_room(waldo__tree *tree)
{
    size_t cap = tree->cap != 0 ? 2 * tree->cap : NODES_FIRST;
    waldo__tree_node *at;

    if (tree->count < tree->cap) {
        return 1;
    }
    at = resize(tree, tree->at, cap * sizeof *at);
    if (at == NULL) {
        return 0;
    }
    tree->at = at;
    tree->cap = cap;
    return 1;
}

static waldo__tree_node *add_node(waldo__tree *tree, const char *path, uint32_t mode)
{
    size_t size = strlen(path) + 1;
    char *copy = NULL;

    if (tree->count < NODES_MAX && make_room(tree)) {
        copy = resize(tree, NULL, size);
    }
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, path, size);
    tree->at[tree->count] =
        (waldo__tree_node){ .path = copy, .mode = mode, .mtime_ns = waldo__tree_now_ns() };
    return &tree->at[tree->count++];
}

/* The folder of path must be one; missing ones are made. */
static waldo_status make_parents(waldo__tree *tree, const char *path)
{
    char folder[WALDO__INMEM_PATH_BYTES];
    size_t len = strnlen(path, sizeof folder);

    if (len == sizeof folder) {
        return WALDO_EPATH;
    }
    for (size_t i = 1; i < len; i++) {
        waldo__tree_node *node;

        if (path[i] != '/') {
            continue;
        }
        memcpy(folder, path, i);
        folder[i] = '\0';
        node = waldo__tree_find(tree, folder);
        if (node != NULL && !S_ISDIR(node->mode)) {
            return WALDO_EPATH;
        }
        if (node == NULL && add_node(tree, folder, S_IFDIR | 0755) == NULL) {
            return WALDO_ENOSPACE;
        }
    }
    return WALDO_OK;
}

waldo_status waldo__tree_mkdir(waldo__tree *tree, const char *path, uint32_t mode)
{
    waldo__tree_node *node = waldo__tree_find(tree, path);
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

waldo_status waldo__tree_init(waldo__tree *tree, const waldo_allocator *memory, size_t space)
{
    *tree = (waldo__tree){ .memory = memory, .space = space };
    if (add_node(tree, "/", S_IFDIR | 0755) == NULL ||
        waldo__tree_mkdir(tree, "/tmp", 01777) != WALDO_OK ||
        waldo__tree_mkdir(tree, WALDO__INMEM_HOME, 0755) != WALDO_OK) {
        waldo__tree_free(tree);
        return WALDO_ENOMEM;
    }
    return WALDO_OK;
}

void waldo__tree_free(waldo__tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        drop(tree, tree->at[i].path);
        drop(tree, tree->at[i].bytes);
    }
    if (tree->at != NULL) {
        drop(tree, tree->at);
    }
    *tree = (waldo__tree){ .memory = tree->memory };
}

waldo_status waldo__tree_write(waldo__tree *tree, const char *path, waldo_str bytes, int append,
                               uint32_t mode)
{
    waldo__tree_node *node = waldo__tree_find(tree, path);
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
    copy = resize(tree, node->bytes, keep + bytes.len + 1);
    if (copy == NULL) {
        return WALDO_ENOMEM;
    }
    if (bytes.len > 0) {
        memcpy(copy + keep, bytes.ptr, bytes.len);
    }
    node->bytes = copy;
    node->len = keep + bytes.len;
    copy[node->len] = '\0';
    node->mtime_ns = waldo__tree_now_ns();
    if (mode != 0) {
        node->mode = S_IFREG | (mode & 07777);
    }
    tree->used = tree->used - old + node->len;
    return WALDO_OK;
}

static void drop_node(waldo__tree *tree, size_t at)
{
    waldo__tree_node *node = &tree->at[at];

    tree->used -= node->len;
    drop(tree, node->path);
    drop(tree, node->bytes);
    memmove(node, node + 1, (tree->count - at - 1) * sizeof *node);
    tree->count--;
}

waldo_status waldo__tree_remove(waldo__tree *tree, const char *path, int recursive)
{
    waldo__tree_node *node = waldo__tree_find(tree, path);

    if (node == NULL) {
        return WALDO_ENOTFOUND;
    }
    if (strcmp(path, "/") == 0) {
        return WALDO_EACCESS;
    }
    for (size_t i = 0; !recursive && i < tree->count; i++) {
        if (waldo__tree_below(path, tree->at[i].path, 1)) {
            return WALDO_EEXISTS;
        }
    }
    for (size_t i = tree->count; i-- > 0;) {
        if (strcmp(tree->at[i].path, path) == 0 || waldo__tree_below(path, tree->at[i].path, 1)) {
            drop_node(tree, i);
        }
    }
    return WALDO_OK;
}

/* A folder takes its content along. */
static waldo_status move_nodes(waldo__tree *tree, const char *from, const char *to)
{
    size_t from_len = strlen(from);
    size_t to_len = strlen(to);

    for (size_t i = 0; i < tree->count; i++) {
        waldo__tree_node *node = &tree->at[i];
        char *moved;
        size_t rest;

        if (strcmp(node->path, from) != 0 && !waldo__tree_below(from, node->path, 1)) {
            continue;
        }
        rest = strlen(node->path) - from_len;
        moved = resize(tree, NULL, to_len + rest + 1);
        if (moved == NULL) {
            return WALDO_ENOMEM;
        }
        memcpy(moved, to, to_len);
        memcpy(moved + to_len, node->path + from_len, rest + 1);
        drop(tree, node->path);
        node->path = moved;
    }
    return WALDO_OK;
}

waldo_status waldo__tree_rename(waldo__tree *tree, const char *from, const char *to)
{
    const waldo__tree_node *source = waldo__tree_find(tree, from);
    const waldo__tree_node *target = waldo__tree_find(tree, to);
    waldo_status status;

    if (source == NULL) {
        return WALDO_ENOTFOUND;
    }
    if (strcmp(from, "/") == 0 || waldo__tree_below(from, to, 1)) {
        return WALDO_EINVAL;
    }
    if (strcmp(from, to) == 0) {
        return WALDO_OK;
    }
    if (target != NULL && S_ISDIR(target->mode) != S_ISDIR(source->mode)) {
        return WALDO_EPATH;
    }
    status = target != NULL ? waldo__tree_remove(tree, to, 0) : make_parents(tree, to);
    return status == WALDO_OK ? move_nodes(tree, from, to) : status;
}

waldo_status waldo__tree_path(const char *cwd, const char *path, char *ret_path, size_t size)
{
    const char *const parts[] = { path[0] == '/' ? "" : cwd, path };
    size_t len = 0;

    for (size_t i = 0; i < 2; i++) {
        const char *at = parts[i];

        while (*at != '\0') {
            size_t step = strcspn(at, "/");

            if (step == 2 && at[0] == '.' && at[1] == '.') {
                while (len > 0 && ret_path[--len] != '/') {
                }
            } else if (step > 0 && !(step == 1 && at[0] == '.')) {
                if (len + step + 2 > size) {
                    return WALDO_EPATH;
                }
                ret_path[len++] = '/';
                memcpy(ret_path + len, at, step);
                len += step;
            }
            at += step + (at[step] == '/');
        }
    }
    if (len == 0) {
        ret_path[len++] = '/';
    }
    ret_path[len] = '\0';
    return WALDO_OK;
}
