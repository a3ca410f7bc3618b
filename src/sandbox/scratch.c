/* Host directories of a sandbox: made private, removed whatever was put into them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "sandbox/live.h"

enum { ATTEMPTS = 8 };

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

/*
 * Names say who made a directory: pid namespace, pid and start time of the process. What a killed
 * process left is removed by the next one of the same user that makes a directory there.
 */
typedef struct maker {
    unsigned long long pid_namespace;
    unsigned long long pid;
    unsigned long long start; /* in ticks since boot; 0: no such process */
} maker;

/* Field 22 of stat, counted from the end of the name, which may hold anything. */
static unsigned long long start_time(unsigned long long pid)
{
    char path[64];
    char text[1024] = "";
    unsigned long long start = 0;
    const char *at;
    ssize_t len;
    int fd;

    snprintf(path, sizeof path, "/proc/%llu/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    at = len > 0 ? strrchr(text, ')') : NULL;
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL || sscanf(at, "%llu", &start) != 1) {
        return 0;
    }
    return start;
}

static maker this_process(void)
{
    maker self = { .pid = (unsigned long long)getpid() };
    struct stat info;

    self.start = start_time(self.pid);
    if (stat("/proc/self/ns/pid", &info) == 0) {
        self.pid_namespace = info.st_ino;
    }
    return self;
}

/* 1 when a directory of this name was made by a process that is gone. */
static int is_left_over(const char *name, const maker *self)
{
    maker other;
    int end = 0;

    if (sscanf(name, "waldo-%llu-%llu-%llu-%n", &other.pid_namespace, &other.pid, &other.start,
               &end) != 3 ||
        end == 0 || other.pid_namespace != self->pid_namespace || self->start == 0) {
        return 0;
    }
    return start_time(other.pid) != other.start;
}

static void remove_left_overs(const char *parent, const maker *self)
{
    DIR *dir = opendir(parent);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat info;
        waldo__buf path = WALDO__BUF_INIT(8192);

        if (is_left_over(entry->d_name, self) &&
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
            waldo__buf_printf(&path, "%s/%s", parent, entry->d_name) == WALDO_OK) {
            waldo__scratch_remove(waldo__buf_take(&path, NULL));
        }
        waldo__buf_free(&path);
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

waldo_status waldo__scratch_make(const char *parent, char **ret_path, waldo_error **ret_err)
{
    static atomic_flag looked = ATOMIC_FLAG_INIT;
    waldo__buf path = WALDO__BUF_INIT(8192);
    maker self = this_process();
    int error = EEXIST;
    char word[9];

    if (!atomic_flag_test_and_set(&looked)) {
        remove_left_overs(parent, &self);
    }
    for (int i = 0; i < ATTEMPTS && error == EEXIST; i++) {
        waldo__random_word(word, sizeof word - 1);
        waldo__buf_clear(&path);
        if (waldo__buf_printf(&path, "%s/waldo-%llu-%llu-%llu-%s", parent, self.pid_namespace,
                              self.pid, self.start, word) != WALDO_OK) {
            waldo__buf_free(&path);
            return waldo__error_nomem(ret_err);
        }
        error = mkdir(path.ptr, 0700) == 0 ? 0 : errno;
    }
    if (error != 0) {
        waldo__buf_free(&path);
        return waldo_error_set(ret_err, waldo__errno_status(error), WALDO_CLASS_SYSTEM,
                               "no directory for the sandbox's files could be made in \"%s\": %s; "
                               "set the runtime's state_dir, or TMPDIR, to a writable directory",
                               parent, waldo__errno_text(error));
    }
    *ret_path = waldo__buf_take(&path, NULL);
    return *ret_path != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}
