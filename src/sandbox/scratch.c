/* Host directories of a sandbox: made private, removed whatever was put into them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "sandbox/live.h"

enum { ATTEMPTS = 8 };

waldo_status waldo__scratch_make(const char *parent, char **ret_path, waldo_error **ret_err)
{
    waldo__buf path = WALDO__BUF_INIT(8192);
    int error = EEXIST;
    char word[13];

    for (int i = 0; i < ATTEMPTS && error == EEXIST; i++) {
        waldo__random_word(word, sizeof word - 1);
        waldo__buf_clear(&path);
        if (waldo__buf_printf(&path, "%s/waldo-%s", parent, word) != WALDO_OK) {
            waldo__buf_free(&path);
            return waldo__error_nomem(ret_err);
        }
        error = mkdir(path.ptr, 0700) == 0 ? 0 : errno;
    }
    if (error != 0) {
        waldo__buf_free(&path);
        return waldo_error_set(ret_err, waldo__errno_status(error), WALDO_CLASS_SYSTEM,
                               "no directory for the sandbox's files could be made in \"%s\": %s; "
                               "set state_dir of the runtime to a writable directory",
                               parent, waldo__errno_text(error));
    }
    *ret_path = waldo__buf_take(&path, NULL);
    return *ret_path != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

/*
 * Empty one directory below top. Directories in it are moved up to top, so that no depth can
 * exhaust the stack or the descriptors; 1 when something was done.
 */
static int empty_one(int top, const char *name, unsigned *moved)
{
    int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent *entry;
    int done = 0;
    DIR *dir;

    if (fd < 0 && errno == EACCES && fchmodat(top, name, 0700, 0) == 0) {
        fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        return 0;
    }
    fchmod(fd, 0700);
    dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        char up[32];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(fd, entry->d_name, 0) == 0 || unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0) {
            done = 1;
            continue;
        }
        fchmodat(fd, entry->d_name, 0700, AT_SYMLINK_NOFOLLOW);
        snprintf(up, sizeof up, ".gone-%u", (*moved)++);
        done |= renameat(fd, entry->d_name, top, up) == 0;
    }
    closedir(dir);
    return unlinkat(top, name, AT_REMOVEDIR) == 0 || done;
}

/* One pass over the entries of top; 1 when something was done. */
static int empty_top(int top, unsigned *moved)
{
    int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    int done = 0;

    if (dir == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        done |= unlinkat(top, entry->d_name, 0) == 0 || empty_one(top, entry->d_name, moved);
    }
    closedir(dir);
    return done;
}

void waldo__scratch_remove(char *path)
{
    unsigned moved = 0;
    int top;

    if (path == NULL) {
        return;
    }
    top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top >= 0) {
        while (rmdir(path) != 0 && empty_top(top, &moved)) {
        }
        close(top);
    }
    waldo__free(path);
}
