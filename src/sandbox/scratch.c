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

/* Taken. */
static void scratch_remove(char *path)
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

void waldo__scratch_drop(const waldo__loop *loop, char **path)
{
    if (waldo__loop_forked(loop)) {
        waldo__free(*path);
    } else {
        scratch_remove(*path);
    }
    *path = NULL;
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

/* 0 for what is no number: no process starts at 0, and no namespace has that name. */
static unsigned long long number_of(waldo_str text)
{
    int64_t number;

    return waldo__str_int(text, &number) && number > 0 ? (unsigned long long)number : 0;
}

/* Field 22 of stat, counted from the end of the name, which may hold anything. */
static unsigned long long start_time(unsigned long long pid)
{
    char path[64];
    char text[1024] = "";
    const char *at;
    waldo_str rest, field_text;
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
    rest = waldo__str(at != NULL ? at + 1 : "");
    return waldo__str_split(&rest, ' ', &field_text) ? number_of(field_text) : 0;
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
    waldo_str rest = waldo__str(name), parts[4];

    for (size_t i = 0; i < WALDO__COUNT(parts); i++) {
        if (!waldo__str_split(&rest, '-', &parts[i])) {
            return 0;
        }
    }
    if (!waldo__str_is(parts[0], "waldo") || rest.ptr == NULL || self->start == 0 ||
        number_of(parts[1]) != self->pid_namespace || number_of(parts[3]) == 0) {
        return 0;
    }
    return start_time(number_of(parts[2])) != number_of(parts[3]);
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
            scratch_remove(waldo__buf_take(&path, NULL));
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
