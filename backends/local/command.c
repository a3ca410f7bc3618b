/* bubblewrap's command line. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "hand/embedded.h"
#include "local.h"

/*
 * The user that sandboxes of root run as, of a range that nobody gives out (systemd's documentation
 * of user ids): files that only root or a real user may read stay unreadable inside.
 */
enum { NOBODY = 65530 };

#define SETPRIV "/usr/bin/setpriv"

waldo_str local_option(const waldo_backend_spec *spec, const char *key)
{
    waldo_str value = { "", 0 };

    for (size_t i = 0; i < spec->option_count; i++) {
        if (waldo__str_is(spec->options[i].key, key)) {
            value = spec->options[i].value;
        }
    }
    return value;
}

int local_size(waldo_str text, uint64_t *ret_bytes)
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

int local_memfd(const char *name, const void *bytes, size_t len)
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

void local_fail(local_command *command, waldo_status status, const char *format, ...)
{
    char text[8192];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    waldo_error_set(&command->error, status, WALDO_CLASS_BACKEND, "%s", text);
    command->status = command->status != WALDO_OK ? command->status : status;
}

void local_add(local_command *command, const char *arg)
{
    char **slot = WALDO__VEC_PUSH(&command->args);

    if (slot == NULL || (*slot = waldo__strdup(arg)) == NULL) {
        local_fail(command, WALDO_ENOMEM, "out of memory");
    }
}

static void add_all(local_command *command, const char *const *args)
{
    for (size_t i = 0; args[i] != NULL; i++) {
        local_add(command, args[i]);
    }
}

/*
 * Inside the number is the same as here, so it must be one that the keeper does not use itself: it
 * is moved above them.
 */
void local_add_fd(local_command *command, const char *option, int fd)
{
    int moved = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 16) : -1;
    int *slot = WALDO__VEC_PUSH(&command->fds);
    char number[16];

    if (fd >= 0) {
        close(fd);
    }
    if (moved < 0 || slot == NULL) {
        local_fail(command, WALDO_EBUSY, "local: no descriptor for %s: %s", option,
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
    local_add(command, option);
    local_add(command, number);
}

void local_add_data(local_command *command, const char *path, const void *bytes, size_t len,
                    const char *mode)
{
    local_add(command, "--perms");
    local_add(command, mode);
    local_add_fd(command, "--ro-bind-data", local_memfd("data", bytes, len));
    local_add(command, path);
}

/* bubblewrap tells the process it made, and waits for a byte before that runs our program. */
static void add_gates(local_command *command)
{
    int info[2] = { -1, -1 };
    int block[2] = { -1, -1 };

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, info) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, block) != 0) {
        local_fail(command, WALDO_EBUSY, "local: no descriptors: %s", waldo__errno_text(errno));
    }
    command->info_fd = info[0];
    command->block_fd = block[0];
    local_add_fd(command, "--info-fd", info[1]);
    local_add_fd(command, "--block-fd", block[1]);
}

static void add_isolation(local_command *command, const waldo_backend_spec *spec)
{
    static const char *const always[] = { "--unshare-all",
                                          "--unshare-user",
                                          "--disable-userns",
                                          "--die-with-parent",
                                          "--new-session",
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
        local_add(command, "--share-net");
    }
}

waldo_status local_command_make(local_command *command, const waldo_backend_spec *spec,
                                waldo_error **ret_err)
{
    static const char *const end[] = { "--chdir",         "/workspace", "--",
                                       "/run/waldo-hand", "server",     NULL };
    size_t image_len = 0;
    const unsigned char *image = waldo__hand_image(&image_len);
    char *bwrap;

    command->info_fd = command->block_fd = -1;
    command->drop = geteuid() == 0;
    command->uid = command->gid = NOBODY;
    bwrap = local_find_bwrap(spec, ret_err);
    if (bwrap == NULL) {
        return WALDO_EUNAVAILABLE;
    }
    if (image == NULL) {
        local_fail(command, WALDO_EUNAVAILABLE,
                   "local: this build has no hand; build it with -Dhands=native");
    }
    if (command->drop && access(SETPRIV, X_OK) != 0) {
        local_fail(command, WALDO_EUNAVAILABLE,
                   "local: for root, " SETPRIV " is needed to become an ordinary user; install "
                   "util-linux");
    }
    local_add(command, bwrap);
    waldo__free(bwrap);
    add_isolation(command, spec);
    local_add_root(command, spec);
    local_add_workspace(command, spec);
    local_add_data(command, "/run/waldo-hand", image != NULL ? (const char *)image : "", image_len,
                   "0555");
    local_add(command, "--remount-ro");
    local_add(command, "/");
    local_add_fd(command, "--seccomp", local_seccomp_fd(spec->net == WALDO_NET_ALL));
    add_gates(command);
    add_all(command, end);
    if (command->status != WALDO_OK) {
        waldo__error_move(ret_err, command->error);
        command->error = NULL;
    }
    return command->status;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

void local_command_free(local_command *command)
{
    for (size_t i = 0; i < command->args.count; i++) {
        waldo__free(command->args.at[i]);
    }
    WALDO__VEC_FREE(&command->args);
    for (size_t i = 0; i < command->fds.count; i++) {
        close(command->fds.at[i]);
    }
    WALDO__VEC_FREE(&command->fds);
    close_fd(&command->info_fd);
    close_fd(&command->block_fd);
    waldo_error_free(command->error);
    command->error = NULL;
}
