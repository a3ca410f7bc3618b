/* Files of the host into an archive, and an archive into files of the host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "codec/tar.h"
#include "sandbox/archive.h"

enum { PATH_BYTES = 4096, ENTRIES_MAX = 1000000, PIECE = 1024 * 1024, MODE_BITS = 0777 };

static waldo_status fail(waldo_error **ret_err, waldo_status status, const char *path,
                         const char *why)
{
    return waldo_error_set(ret_err, status, WALDO_CLASS_SYSTEM, "%s: %s", path, why);
}

static waldo_status fail_errno(waldo_error **ret_err, const char *path)
{
    int error = errno;

    return fail(ret_err, waldo__errno_status(error), path, waldo__errno_text(error));
}

/* ---- into an archive ---- */

typedef struct packing {
    int root;
    uint64_t bytes;
    uint64_t max;
    size_t entries;
    struct {
        WALDO__VEC(char *);
    } folders; /* still to be read; "" is the root */
    waldo__buf *archive;
    waldo_error **ret_err;
} packing;

static waldo_status read_file(packing *pack, int fd, const char *path, waldo__buf *content)
{
    ssize_t got = 1;

    while (got > 0) {
        char *room = waldo__buf_reserve(content, PIECE);

        got = room != NULL ? read(fd, room, PIECE) : 0;
        if (room == NULL) {
            return content->status;
        }
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got < 0) {
            return fail_errno(pack->ret_err, path);
        }
        waldo__buf_commit(content, (size_t)got);
        pack->bytes += (uint64_t)got;
        if (pack->bytes > pack->max) {
            return waldo_error_set(pack->ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                                   "%s: more than %llu bytes are to be copied; raise "
                                   "workspace_max_bytes",
                                   path, (unsigned long long)pack->max);
        }
    }
    return WALDO_OK;
}

static waldo_status put_file(packing *pack, int fd, const char *path, waldo__tar_entry *entry)
{
    waldo__buf content = WALDO__BUF_INIT(SIZE_MAX / 4);
    waldo_status status = read_file(pack, fd, path, &content);

    if (status == WALDO_OK) {
        entry->bytes = waldo__buf_str(&content);
        status = waldo__tar_put(pack->archive, entry);
    }
    waldo__buf_free(&content);
    return status;
}

/* path is relative to the root. */
static waldo_status add_path(packing *pack, const char *path)
{
    char target[PATH_BYTES];
    struct stat info;
    waldo__tar_entry entry = { .name = path };
    waldo_status status;
    ssize_t len;
    int fd;

    if (++pack->entries > ENTRIES_MAX) {
        return fail(pack->ret_err, WALDO_ETOOBIG, path, "there are too many files");
    }
    if (fstatat(pack->root, path, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return fail_errno(pack->ret_err, path);
    }
    entry.mode = info.st_mode & 07777;
    entry.mtime_s = info.st_mtim.tv_sec;
    if (S_ISDIR(info.st_mode)) {
        char **slot = WALDO__VEC_PUSH(&pack->folders);

        entry.is_folder = 1;
        return slot != NULL && (*slot = waldo__strdup(path)) != NULL
                   ? waldo__tar_put(pack->archive, &entry)
                   : WALDO_ENOMEM;
    }
    if (S_ISLNK(info.st_mode)) {
        len = readlinkat(pack->root, path, target, sizeof target - 1);
        if (len < 0) {
            return fail_errno(pack->ret_err, path);
        }
        target[len] = '\0';
        entry.link = target;
        return waldo__tar_put(pack->archive, &entry);
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(pack->ret_err, WALDO_EPATH, path, "is neither file, folder nor link");
    }
    fd = openat(pack->root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno(pack->ret_err, path);
    }
    status = put_file(pack, fd, path, &entry);
    close(fd);
    return status;
}

static waldo_status add_folder(packing *pack, const char *folder)
{
    int fd = openat(pack->root, folder[0] != '\0' ? folder : ".",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    waldo_status status = WALDO_OK;
    struct dirent *found;

    if (dir == NULL) {
        status = fail_errno(pack->ret_err, folder);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    while (status == WALDO_OK && (found = readdir(dir)) != NULL) {
        waldo__buf path = WALDO__BUF_INIT(PATH_BYTES - 1);

        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) {
            continue;
        }
        if (folder[0] != '\0') {
            waldo__buf_printf(&path, "%s/", folder);
        }
        status = waldo__buf_puts(&path, found->d_name);
        if (status == WALDO_OK) {
            status = add_path(pack, path.ptr);
        } else if (status == WALDO_ETOOBIG) {
            fail(pack->ret_err, status, folder, "a path below it is too long");
        }
        waldo__buf_free(&path);
    }
    closedir(dir);
    return status;
}

static waldo_status pack_folder(packing *pack)
{
    waldo_status status = add_folder(pack, "");

    while (status == WALDO_OK && pack->folders.count > 0) {
        char *folder = pack->folders.at[--pack->folders.count];

        status = add_folder(pack, folder);
        waldo__free(folder);
    }
    while (pack->folders.count > 0) {
        waldo__free(pack->folders.at[--pack->folders.count]);
    }
    WALDO__VEC_FREE(&pack->folders);
    return status;
}

waldo_status waldo__host_pack(const char *path, const char *name, uint64_t max_bytes,
                              waldo__buf *archive, int *ret_is_file, waldo_error **ret_err)
{
    packing pack = { .max = max_bytes, .archive = archive, .ret_err = ret_err };
    struct stat info;
    waldo_status status;

    pack.root = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (pack.root < 0 || fstat(pack.root, &info) != 0) {
        status = fail_errno(ret_err, path);
    } else if (S_ISDIR(info.st_mode)) {
        status = pack_folder(&pack);
    } else if (S_ISREG(info.st_mode)) {
        status = put_file(&pack, pack.root, path,
                          &(waldo__tar_entry){ .name = name,
                                               .mode = info.st_mode & 07777,
                                               .mtime_s = info.st_mtim.tv_sec });
    } else {
        status = fail(ret_err, WALDO_EPATH, path, "is neither file nor folder");
    }
    if (status == WALDO_OK) {
        *ret_is_file = !S_ISDIR(info.st_mode);
        status = waldo__tar_end(archive);
    }
    if (pack.root >= 0) {
        close(pack.root);
    }
    if (status != WALDO_OK) {
        fail(ret_err, status, path, waldo_status_text(status)); /* unless it was said */
    }
    return status;
}

/* ---- out of an archive ---- */

/* 0: the target of a link at path leads above the folder that all is put into. */
static int stays_inside(const char *path, const char *target)
{
    waldo_str rest = waldo__str(target);
    waldo_str part;
    long depth = 0;

    for (const char *at = path; *at != '\0'; at++) {
        depth += *at == '/';
    }
    if (target[0] == '/') {
        return 0;
    }
    while (waldo__str_split(&rest, '/', &part)) {
        if (waldo__str_is(part, "..")) {
            depth--;
        } else if (part.len > 0 && !waldo__str_is(part, ".")) {
            /* It may itself be a link to somewhere above: what follows it must not go up. */
            if (memmem(rest.ptr != NULL ? rest.ptr : "", rest.len, "..", 2) != NULL) {
                return 0;
            }
            return depth >= 0;
        }
        if (depth < 0) {
            return 0;
        }
    }
    return 1;
}

static waldo_status check_links(const waldo__unpacked_list *list, waldo_error **ret_err)
{
    for (size_t i = 0; i < list->count; i++) {
        const waldo__unpacked *entry = &list->at[i];

        if (entry->link != NULL && !entry->dropped && !stays_inside(entry->path, entry->link)) {
            return waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_BACKEND,
                                   "%s: the link leads out of the folder, to %.200s", entry->path,
                                   entry->link);
        }
    }
    return WALDO_OK;
}

/*
 * The folder that an entry lies in, made when it is missing, one part after the other so that no
 * link is followed; -1 and errno. name is the last part.
 */
static int open_parent(int root, const char *path, const char **ret_name)
{
    char part[256];
    int dir = fcntl(root, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    while (dir >= 0 && (slash = strchr(path, '/')) != NULL) {
        int next;

        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdirat(dir, part, 0755) != 0 && errno != EEXIST) {
            next = -1;
        } else {
            next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        {
            int error = errno;

            close(dir);
            errno = error;
        }
        dir = next;
        path = slash + 1;
    }
    *ret_name = path;
    return dir;
}

static int write_all(int fd, waldo_str bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(fd, bytes.ptr, bytes.len < PIECE ? bytes.len : PIECE);

        if (put < 0 && errno != EINTR) {
            return 0;
        }
        put = put > 0 ? put : 0;
        bytes = waldo__slice(bytes.ptr + put, bytes.len - (size_t)put);
    }
    return 1;
}

/* Beside it under another name first: what is there stays whole, and is not followed. */
static int make_file(int dir, const char *name, const waldo__unpacked *entry)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = entry->mtime_s } };
    char temp[32] = ".waldo-";
    int fd;
    int good;
    int error;

    waldo__random_word(temp + 7, 16);
    fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return 0;
    }
    good = write_all(fd, entry->bytes) && fchmod(fd, entry->mode & MODE_BITS) == 0 &&
           futimens(fd, times) == 0;
    good = close(fd) == 0 && good && renameat(dir, temp, dir, name) == 0;
    if (!good) {
        error = errno;
        unlinkat(dir, temp, 0);
        errno = error;
    }
    return good;
}

static int make_link(int dir, const char *name, const waldo__unpacked *entry)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = entry->mtime_s } };

    if (unlinkat(dir, name, 0) != 0 && errno != ENOENT) {
        return 0;
    }
    return symlinkat(entry->link, dir, name) == 0 &&
           utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) == 0;
}

static int make_folder(int dir, const char *name)
{
    int fd;

    if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST) {
        return 0;
    }
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* Modes and times of folders come last: both would be in the way, or change, before. */
static int finish_folder(int dir, const char *name, const waldo__unpacked *entry)
{
    const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = entry->mtime_s } };
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int good = fd >= 0 && futimens(fd, times) == 0 && fchmod(fd, entry->mode & MODE_BITS) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* A device, a pipe or a socket is for its readers: a file must not take its place. */
static int is_special(int dir, const char *name)
{
    struct stat info;

    return fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(info.st_mode) &&
           !S_ISLNK(info.st_mode) && !S_ISDIR(info.st_mode);
}

static waldo_status make_entry(int root, const waldo__unpacked *entry, int last,
                               waldo_error **ret_err)
{
    const char *name;
    int dir = open_parent(root, entry->path, &name);
    int good = dir >= 0;
    waldo_status status = WALDO_OK;

    if (good && is_special(dir, name)) {
        status = fail(ret_err, WALDO_EPATH, entry->path, "is neither file, folder nor link");
    } else if (good && last) {
        good = finish_folder(dir, name, entry);
    } else if (good) {
        good = entry->is_folder      ? make_folder(dir, name)
               : entry->link != NULL ? make_link(dir, name, entry)
                                     : make_file(dir, name, entry);
    }
    if (!good) {
        status = fail_errno(ret_err, entry->path);
    }
    if (dir >= 0) {
        close(dir);
    }
    return status;
}

waldo_status waldo__host_unpack(const waldo__unpacked_list *list, const char *folder,
                                waldo_error **ret_err)
{
    waldo_status status = check_links(list, ret_err);
    int root;

    if (status != WALDO_OK) {
        return status;
    }
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
        return fail_errno(ret_err, folder);
    }
    root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return fail_errno(ret_err, folder);
    }
    for (size_t i = 0; i < list->count && status == WALDO_OK; i++) {
        if (!list->at[i].dropped) {
            status = make_entry(root, &list->at[i], 0, ret_err);
        }
    }
    for (size_t i = list->count; i-- > 0 && status == WALDO_OK;) {
        if (list->at[i].is_folder && !list->at[i].dropped) {
            status = make_entry(root, &list->at[i], 1, ret_err);
        }
    }
    close(root);
    return status;
}
