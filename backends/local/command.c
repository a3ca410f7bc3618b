/* bubblewrap's command line. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "hand/embedded.h"
#include "local.h"

/*
 * The user that sandboxes of root run as, of a range that nobody gives out (systemd's documentation
 * of user ids): files that only root or a real user may read stay unreadable inside.
 */
enum { NOBODY = 65530, FILES_MAX = 4096, PROCESSES_DEFAULT = 512 };

#define SETPRIV "/usr/bin/setpriv"
#define PRLIMIT "/usr/bin/prlimit"

int waldo__local_size(waldo_str text, uint64_t *ret_bytes)
{
    int64_t number;
    unsigned shift = waldo__str_ends(text, "k")   ? 10
                     : waldo__str_ends(text, "m") ? 20
                     : waldo__str_ends(text, "g") ? 30
                                                  : 0;

    text.len -= shift != 0;
    if (!waldo__str_int(text, &number) || number < 1 || number > INT64_MAX >> shift) {
        return 0;
    }
    *ret_bytes = (uint64_t)number << shift;
    return 1;
}

int waldo__local_memfd(const char *name, const void *bytes, size_t len)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    const char *at = bytes;

    while (fd >= 0 && len > 0) {
        ssize_t part = write(fd, at, len);

        if (part <= 0) {
            close(fd);
            return -1;
        }
        at += part;
        len -= (size_t)part;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void waldo__local_fail(local_command *command, waldo_status status, const char *format, ...)
{
    char text[8192];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    waldo_error_set(&command->error, status, WALDO_CLASS_BACKEND, "%s", text);
    command->status = command->status != WALDO_OK ? command->status : status;
}

void waldo__local_add(local_command *command, const char *arg)
{
    char **slot = WALDO__VEC_PUSH(&command->args);

    if (slot == NULL || (*slot = waldo__strdup(arg)) == NULL) {
        waldo__local_fail(command, WALDO_ENOMEM, "out of memory");
    }
}

static void add_all(local_command *command, const char *const *args)
{
    for (size_t i = 0; args[i] != NULL; i++) {
        waldo__local_add(command, args[i]);
    }
}

/*
 * Inside the number is the same as here, so it must be one that the keeper does not use itself: it
 * is moved above them.
 */
void waldo__local_add_fd(local_command *command, const char *option, int fd)
{
    int moved = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 16) : -1;
    int *slot = WALDO__VEC_PUSH(&command->fds);
    char number[16];

    if (fd >= 0) {
        close(fd);
    }
    if (moved < 0 || slot == NULL) {
        waldo__local_fail(command, WALDO_EBUSY, "local: no descriptor for %s: %s", option,
                          waldo__errno_text(errno));
        if (slot != NULL) {
            command->fds.count--;
        }
        if (moved >= 0) {
            close(moved);
        }
        return;
    }
    *slot = moved;
    snprintf(number, sizeof number, "%d", moved);
    waldo__local_add(command, option);
    waldo__local_add(command, number);
}

void waldo__local_add_data(local_command *command, const char *path, const void *bytes, size_t len,
                           const char *mode)
{
    waldo__local_add(command, "--perms");
    waldo__local_add(command, mode);
    waldo__local_add_fd(command, "--ro-bind-data", waldo__local_memfd("data", bytes, len));
    waldo__local_add(command, path);
}

/* Since Linux 5.14 processes are counted in each user namespace apart; before, with all others. */
static int counts_apart(void)
{
    struct utsname name;
    long major;
    char *end;

    if (uname(&name) != 0) {
        return 0;
    }
    major = strtoll(name.release, &end, 10);
    return major > 5 || (major == 5 && *end == '.' && strtoll(end + 1, NULL, 10) >= 14);
}

/* Never above what holds already: that would be refused. */
static void add_limit(local_command *command, const char *name, __rlimit_resource_t what,
                      uint64_t value)
{
    struct rlimit now;
    char text[64];

    if (getrlimit(what, &now) == 0 && now.rlim_max < value) {
        value = now.rlim_max;
    }
    snprintf(text, sizeof text, "--%s=%llu:%llu", name, (unsigned long long)value,
             (unsigned long long)value);
    waldo__local_add(command, text);
}

/*
 * Limits that hold for each process, but for the number of processes, which is counted for the
 * sandbox. They are set inside, where the user namespace begins: outside, the limit of processes
 * would count what else the user runs.
 */
static void add_limits(local_command *command, const waldo_backend_spec *spec)
{
    if (access(PRLIMIT, X_OK) != 0) {
        if (spec->max_processes != 0 || spec->memory_bytes != 0) {
            waldo__local_fail(command, WALDO_EUNAVAILABLE,
                              "local: limits need " PRLIMIT
                              "; install util-linux, or leave pids and "
                              "memory out");
        }
        return;
    }
    waldo__local_add(command, PRLIMIT);
    add_limit(command, "core", RLIMIT_CORE, 0);
    add_limit(command, "nofile", RLIMIT_NOFILE, FILES_MAX);
    add_limit(command, "memlock", RLIMIT_MEMLOCK, 1 << 20);
    if (spec->max_processes != 0) {
        add_limit(command, "nproc", RLIMIT_NPROC, spec->max_processes);
    } else if (counts_apart()) {
        add_limit(command, "nproc", RLIMIT_NPROC, PROCESSES_DEFAULT);
    }
    if (spec->memory_bytes != 0) {
        add_limit(command, "data", RLIMIT_DATA, spec->memory_bytes);
    }
}

/*
 * The hand is process 1: bubblewrap's own would hold the stream to the host as well, and lets
 * itself be traced by its user, so a command could take the stream or write into it.
 */
static void add_isolation(local_command *command, const waldo_backend_spec *spec)
{
    static const char *const always[] = { "--unshare-all",
                                          "--unshare-user",
                                          "--disable-userns",
                                          "--die-with-parent",
                                          "--new-session",
                                          "--as-pid-1",
                                          "--cap-drop",
                                          "ALL",
                                          "--clearenv",
                                          "--setenv",
                                          "PATH",
                                          "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                                          "--setenv",
                                          "HOME",
                                          "/tmp/home",
                                          "--setenv",
                                          "USER",
                                          "sandbox",
                                          "--setenv",
                                          "LANG",
                                          "C.UTF-8",
                                          "--setenv",
                                          "TMPDIR",
                                          "/tmp",
                                          "--setenv",
                                          "TERM",
                                          "dumb",
                                          "--hostname",
                                          "sandbox",
                                          "--uid",
                                          "1000",
                                          "--gid",
                                          "1000",
                                          NULL };

    add_all(command, always);
    if (spec->net == WALDO_NET_ALL) {
        waldo__local_add(command, "--share-net");
    }
}

waldo_status waldo__local_command_make(local_command *command, const waldo_backend_spec *spec,
                                       waldo_error **ret_err)
{
    static const char *const go[] = { "--chdir", "/workspace", "--", NULL };
    static const char *const end[] = { "/run/waldo-hand", "server", "no-openat2", NULL };
    const waldo__hand_program *hand = waldo__hand_native();
    char *bwrap;

    command->drop = geteuid() == 0;
    command->uid = command->gid = NOBODY;
    bwrap = waldo__local_find_bwrap(spec, ret_err);
    if (bwrap == NULL) {
        return WALDO_EUNAVAILABLE;
    }
    if (hand == NULL) {
        waldo__local_fail(command, WALDO_EUNAVAILABLE,
                          "local: this build has no hand for this processor; build it with "
                          "-Dhands=native");
    }
    if (command->drop && access(SETPRIV, X_OK) != 0) {
        waldo__local_fail(command, WALDO_EUNAVAILABLE,
                          "local: for root, " SETPRIV
                          " is needed to become an ordinary user; install "
                          "util-linux");
    }
    waldo__local_add(command, bwrap);
    waldo__free(bwrap);
    add_isolation(command, spec);
    waldo__local_add_root(command, spec);
    waldo__local_add_workspace(command, spec);
    waldo__local_add_data(command, "/run/waldo-hand", hand != NULL ? waldo__hand_image(hand) : "",
                          hand != NULL ? hand->len : 0, "0555");
    waldo__local_add(command, "--remount-ro");
    waldo__local_add(command, "/");
    waldo__local_add_fd(command, "--seccomp", waldo__local_seccomp_fd(spec->net == WALDO_NET_ALL));
    add_all(command, go);
    add_limits(command, spec);
    add_all(command, end);
    if (command->status != WALDO_OK) {
        waldo__error_move(ret_err, command->error);
        command->error = NULL;
    }
    return command->status;
}

void waldo__local_command_free(local_command *command)
{
    for (size_t i = 0; i < command->args.count; i++) {
        waldo__free(command->args.at[i]);
    }
    WALDO__VEC_FREE(&command->args);
    for (size_t i = 0; i < command->fds.count; i++) {
        close(command->fds.at[i]);
    }
    WALDO__VEC_FREE(&command->fds);
    waldo__error_clear(&command->error);
}
