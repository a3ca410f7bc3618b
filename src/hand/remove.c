#define _GNU_SOURCE
#include "remove.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sys.h"

#define DEPTH_MAX 100 /* named in docs/hand-protocol.md */

struct level {
    int fd;
    char name[256];
};

static struct level levels[DEPTH_MAX];

/* Removes a file, link or empty directory. 1: removed, 0: a directory that is not empty, -1 */
static int remove_one(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0) {
        return 1;
    }
    /* POSIX says EPERM for a directory, Linux EISDIR. */
    if (errno != EISDIR && errno != EPERM) {
        return -1;
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0) {
        return 1;
    }
    return errno == ENOTEMPTY || errno == EEXIST ? 0 : -1;
}

static int push(int dir, const char *name, size_t *depth)
{
    struct level *level = &levels[*depth];

    if (*depth == DEPTH_MAX) {
        return ELOOP;
    }
    level->fd = open_at(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (level->fd < 0) {
        return errno;
    }
    memcpy(level->name, name, strlen(name) + 1);
    ++*depth;
    return 0;
}

/* Removes what the top directory lists in one read, until one entry has to be entered first. */
static int sweep(size_t *depth, uint64_t *removed, bool *ret_empty)
{
    static char buf[8192] __attribute__((aligned(8)));
    int fd = levels[*depth - 1].fd;
    ssize_t got;

    lseek(fd, 0, SEEK_SET);
    got = read_dents(fd, buf, sizeof buf);
    *ret_empty = true;
    for (ssize_t at = 0; at < got;) {
        const struct dent *dent = (const struct dent *)(const void *)(buf + at);
        int done;

        at += dent->reclen;
        if (strcmp(dent->name, ".") == 0 || strcmp(dent->name, "..") == 0) {
            continue;
        }
        *ret_empty = false;
        done = remove_one(fd, dent->name);
        if (done < 0 && errno != ENOENT) {
            return errno;
        }
        if (done == 0) {
            return push(fd, dent->name, depth);
        }
        *removed += done > 0;
    }
    return got < 0 ? errno : 0;
}

int remove_tree(int dir, const char *name, uint64_t *removed)
{
    size_t depth = 0;
    int err, done = remove_one(dir, name);

    if (done != 0) {
        *removed += done > 0;
        return done > 0 ? 0 : errno;
    }
    err = push(dir, name, &depth);
    while (err == 0 && depth > 0) {
        bool empty;

        err = sweep(&depth, removed, &empty);
        if (err == 0 && empty) {
            struct level *level = &levels[--depth];

            close(level->fd);
            done = remove_one(depth > 0 ? levels[depth - 1].fd : dir, level->name);
            /* 0: something was added meanwhile, so go in again. */
            err = done < 0   ? errno
                  : done > 0 ? 0
                             : push(depth > 0 ? levels[depth - 1].fd : dir, level->name, &depth);
            *removed += done > 0;
        }
    }
    while (depth > 0) {
        close(levels[--depth].fd);
    }
    return err;
}
