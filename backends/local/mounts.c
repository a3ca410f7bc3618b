/* What is visible inside: a minimal root and the workspace. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "local.h"

#define TMP_DEFAULT (UINT64_C(256) << 20)

/* Parts of /etc that programs need and that hold no secrets. */
static const char *const etc_files[] = {
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/debian_version",
    "/etc/os-release",
    "/etc/terminfo",
    "/etc/perl",
};

/* Things in a workspace that programs outside execute later. */
static const char *const protected_paths[] = {
    ".git/hooks",     ".git/config",   ".git/config.worktree",
    ".git/commondir", ".gitmodules",   ".gitconfig",
    ".bashrc",        ".bash_profile", ".bash_login",
    ".bash_logout",   ".profile",      ".zshrc",
    ".zshenv",        ".zprofile",     ".zlogin",
    ".envrc",         ".mcp.json",     ".vscode",
    ".idea",          ".npmrc",
};

static void add_bind(local_command *command, const char *option, const char *path)
{
    waldo__local_add(command, option);
    waldo__local_add(command, path);
    waldo__local_add(command, path);
}

/* On merged systems /bin and the like are links into /usr. */
static void add_top(local_command *command, const char *path)
{
    char target[256];
    ssize_t len = readlink(path, target, sizeof target - 1);

    if (len > 0) {
        target[len] = '\0';
        waldo__local_add(command, "--symlink");
        waldo__local_add(command, target);
        waldo__local_add(command, path);
    } else if (access(path, F_OK) == 0) {
        add_bind(command, "--ro-bind", path);
    }
}

static void add_etc(local_command *command, const waldo_backend_spec *spec)
{
    static const char passwd[] = "root:x:0:0:root:/nonexistent:/bin/false\n"
                                 "sandbox:x:1000:1000:sandbox:/tmp/home:/bin/sh\n"
                                 "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
    static const char group[] = "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n";
    static const char hosts[] = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n";

    waldo__local_add_data(command, "/etc/passwd", passwd, sizeof passwd - 1, "0444");
    waldo__local_add_data(command, "/etc/group", group, sizeof group - 1, "0444");
    waldo__local_add_data(command, "/etc/hosts", hosts, sizeof hosts - 1, "0444");
    for (size_t i = 0; i < WALDO__COUNT(etc_files); i++) {
        add_bind(command, "--ro-bind-try", etc_files[i]);
    }
    if (spec->net == WALDO_NET_ALL) {
        add_bind(command, "--ro-bind-try", "/etc/resolv.conf");
    }
}

/* In memory, which has to end somewhere. */
static void add_tmpfs(local_command *command, const char *size, const char *path)
{
    waldo__local_add(command, "--perms");
    waldo__local_add(command, "1777");
    waldo__local_add(command, "--size");
    waldo__local_add(command, size);
    waldo__local_add(command, "--tmpfs");
    waldo__local_add(command, path);
}

void waldo__local_add_root(local_command *command, const waldo_backend_spec *spec)
{
    static const char *const tops[] = { "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };
    uint64_t tmp = TMP_DEFAULT;
    char size[32];

    add_bind(command, "--ro-bind", "/usr");
    for (size_t i = 0; i < WALDO__COUNT(tops); i++) {
        add_top(command, tops[i]);
    }
    add_etc(command, spec);
    waldo__local_size(waldo__backend_option(spec, "tmp"), &tmp);
    snprintf(size, sizeof size, "%llu", (unsigned long long)tmp);
    waldo__local_add(command, "--proc");
    waldo__local_add(command, "/proc");
    waldo__local_add(command, "--dev");
    waldo__local_add(command, "/dev");
    add_tmpfs(command, size, "/dev/shm");
    /* It is in memory, too, and without a limit of its own. */
    waldo__local_add(command, "--remount-ro");
    waldo__local_add(command, "/dev");
    add_tmpfs(command, size, "/tmp");
    waldo__local_add(command, "--perms");
    waldo__local_add(command, "0700");
    waldo__local_add(command, "--dir");
    waldo__local_add(command, "/tmp/home");
    waldo__local_add(command, "--dir");
    waldo__local_add(command, "/var");
    waldo__local_add(command, "--symlink");
    waldo__local_add(command, "/tmp");
    waldo__local_add(command, "/var/tmp");
}

/* An open path below the workspace that no symbolic link can redirect; -1: not there, or failed. */
static int open_beneath(local_command *command, int workspace, const char *path)
{
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                            .resolve =
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    int fd = (int)syscall(SYS_openat2, workspace, path, &how, sizeof how);
    struct stat info;

    if (fd < 0 && errno != ENOENT && errno != ENOTDIR) {
        int error = errno;

        waldo__local_fail(
            command, waldo__errno_status(error),
            "local: %s in the workspace cannot be protected in mode rw: %s; use mode copy", path,
            waldo__errno_text(error));
    } else if (fd >= 0 && (fstat(fd, &info) != 0 || S_ISLNK(info.st_mode))) {
        waldo__local_fail(
            command, WALDO_EPATH,
            "local: %s in the workspace is a symbolic link and cannot be protected in mode "
            "rw; use mode copy",
            path);
        close(fd);
        fd = -1;
    }
    return fd;
}

static void bind_inside(local_command *command, const char *option, int fd, const char *path)
{
    char inside[512];

    snprintf(inside, sizeof inside, "/workspace/%s", path);
    waldo__local_add_fd(command, option, fd);
    waldo__local_add(command, inside);
}

/*
 * Read-only covers for what is there. .git becomes a mount of its own first, so that it cannot be
 * renamed away from under its covers; a repository without hooks gets the empty directory.
 */
static void protect(local_command *command, int workspace)
{
    struct stat info;
    int git = open_beneath(command, workspace, ".git");

    if (git >= 0 && fstat(git, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (mkdirat(git, "hooks", 0755) == 0 && command->drop &&
            fchownat(git, "hooks", command->uid, command->gid, AT_SYMLINK_NOFOLLOW) != 0) {
            waldo__local_fail(command, WALDO_EIO, "local: .git/hooks cannot be prepared");
        }
        bind_inside(command, "--bind-fd", git, ".git");
    } else if (git >= 0) {
        bind_inside(command, "--ro-bind-fd", git, ".git"); /* a worktree: names its repository */
    }
    for (size_t i = 0; i < WALDO__COUNT(protected_paths); i++) {
        int fd = open_beneath(command, workspace, protected_paths[i]);

        if (fd >= 0 && fstat(fd, &info) == 0 && (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode))) {
            bind_inside(command, "--ro-bind-fd", fd, protected_paths[i]);
        } else if (fd >= 0) {
            close(fd);
        }
    }
}

/*
 * 1 when everybody can walk to path. bubblewrap resolves the descriptors it is given to
 * paths, so whoever it runs as must be able to walk there.
 */
static int open_to_walk(const char *path)
{
    char *real = realpath(path, NULL);
    int open = real != NULL;
    struct stat info;

    for (char *at = real; open && at != NULL; at = strchr(at + 1, '/')) {
        if (at != real) {
            *at = '\0';
            open = stat(real, &info) == 0 && (info.st_mode & S_IXOTH) != 0;
            *at = '/';
        }
    }
    open = open && stat(real, &info) == 0 && (info.st_mode & S_IXOTH) != 0;
    (free)(real); /* realpath() took it from the C library */
    return open;
}

static int open_to_all(const char *path)
{
    struct stat info;

    return open_to_walk(path) && stat(path, &info) == 0 && (info.st_mode & S_IROTH) != 0;
}

/*
 * The host directory itself. As root, bubblewrap runs as its owner when that is an ordinary user.
 * What root alone may enter, and what it is to write to, leaves no choice: then bubblewrap maps
 * root itself, without its rights, and inside it looks like any other user.
 */
static int open_workspace(local_command *command, const waldo_backend_spec *spec)
{
    int fd = open(spec->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat info;

    if (fd < 0 || fstat(fd, &info) != 0) {
        int error = errno;

        waldo__local_fail(command, waldo__errno_status(error),
                          "workspace \"%s\" cannot be opened: %s", spec->workspace,
                          waldo__errno_text(error));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    if (command->drop && (info.st_uid != 0 || spec->workspace_mode == WALDO_WORKSPACE_RW ||
                          !open_to_all(spec->workspace))) {
        command->uid = info.st_uid;
        command->gid = info.st_gid;
    }
    return fd;
}

/* An empty directory that belongs to the user inside. */
static int make_workspace(local_command *command, const waldo_backend_spec *spec)
{
    int scratch = open(spec->scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = -1;

    if (scratch >= 0 && mkdirat(scratch, "work", 0700) == 0) {
        fd = openat(scratch, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd >= 0 && command->drop && (fchmod(scratch, 0711) != 0 || !open_to_walk(spec->scratch))) {
        waldo__local_fail(
            command, WALDO_EACCESS,
            "local: as root, commands run as another user who cannot reach \"%s\"; set "
            "state_dir or TMPDIR to a directory that everybody may enter (mode 0711)",
            spec->scratch);
        close(fd);
        close(scratch);
        return -1;
    }
    if (fd >= 0 && command->drop && fchown(fd, command->uid, command->gid) != 0) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        int error = errno;

        waldo__local_fail(command, waldo__errno_status(error),
                          "local: no directory for the workspace could be made in \"%s\": %s",
                          spec->scratch, waldo__errno_text(error));
    }
    if (scratch >= 0) {
        close(scratch);
    }
    return fd;
}

static int dup_fd(local_command *command, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (copy < 0) {
        waldo__local_fail(command, WALDO_EBUSY, "local: too many open files");
    }
    return copy;
}

void waldo__local_add_workspace(local_command *command, const waldo_backend_spec *spec)
{
    int ro = spec->workspace_mode == WALDO_WORKSPACE_RO;
    int rw = spec->workspace_mode == WALDO_WORKSPACE_RW;
    int fd;

    if (spec->workspace == NULL && spec->scratch == NULL) {
        waldo__local_add(command, "--tmpfs"); /* a probe */
        waldo__local_add(command, "/workspace");
        return;
    }
    fd = spec->workspace != NULL ? open_workspace(command, spec) : make_workspace(command, spec);
    if (fd < 0) {
        return;
    }
    waldo__local_add_fd(command, ro ? "--ro-bind-fd" : "--bind-fd", dup_fd(command, fd));
    waldo__local_add(command, "/workspace");
    if (rw) {
        protect(command, fd);
    }
    close(fd);
}
