/* Finding bubblewrap, and what to do when it does not work. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "local.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* 1: the first number in the file is zero. */
static int is_zero(const char *path)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (fd >= 0) {
        close(fd);
    }
    return len > 0 && strtoll(text, NULL, 10) == 0;
}

static int is_one(const char *path)
{
    return access(path, R_OK) == 0 && !is_zero(path);
}

/* What the system itself says about user namespaces; NULL: nothing. */
static const char *system_reason(void)
{
    if (is_zero("/proc/sys/user/max_user_namespaces")) {
        return "user namespaces are switched off: set sysctl user.max_user_namespaces above 0";
    }
    if (is_zero("/proc/sys/kernel/unprivileged_userns_clone")) {
        return "user namespaces are closed to ordinary users: set sysctl "
               "kernel.unprivileged_userns_clone=1";
    }
    if (is_one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) {
        return "AppArmor restricts user namespaces: install an AppArmor profile for bwrap, or set "
               "sysctl kernel.apparmor_restrict_unprivileged_userns=0";
    }
    return NULL;
}

/* Words of bubblewrap's messages, and what they mean. */
static const struct {
    const char *words;
    const char *reason;
} known[] = {
    { "Unknown option", "bubblewrap is too old: 0.8 or newer is needed, with --bind-fd (0.10, or "
                        "Debian 12's)" },
    { "No permissions to create", NULL },
    { "No permissions to creating", NULL },
    { "setting up uid map", NULL },
    { "Creating new namespace failed", NULL },
    { "loopback", "a container around this process forbids network namespaces: give it "
                  "CAP_NET_ADMIN in its user namespace, or choose another sandbox" },
    { "Can't mount proc", "a container around this process masks /proc: run it with an unmasked "
                          "/proc, or choose another sandbox" },
};

void waldo__local_explain(waldo_error **ret_err, waldo_str said)
{
    const char *reason = NULL;
    const char *userns = system_reason();
    int found = 0;

    for (size_t i = 0; i < WALDO__COUNT(known) && !found; i++) {
        if (waldo__str_search(said, waldo__str(known[i].words), 0) < said.len) {
            reason = known[i].reason;
            found = 1;
        }
    }
    if (found && reason == NULL) {
        reason = userns != NULL ? userns
                                : "user namespaces are forbidden here: a container without the "
                                  "right to make them, or a security policy";
    } else if (reason == NULL) {
        reason = userns != NULL ? userns : "bubblewrap could not make a sandbox";
    }
    said = waldo__str_trim(said);
    waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND, "local: %s%s%.*s%s", reason,
                    said.len > 0 ? " (it said: " : "", (int)(said.len < 1000 ? said.len : 1000),
                    said.ptr, said.len > 0 ? ")" : "");
}

/* A program in the workspace could have been put there by what ran in it. */
static int inside_workspace(const waldo_backend_spec *spec, const char *path)
{
    char *real = realpath(path, NULL);
    char *workspace = spec->workspace != NULL ? realpath(spec->workspace, NULL) : NULL;
    size_t len = workspace != NULL ? strlen(workspace) : 0;
    int inside = real != NULL && workspace != NULL && strncmp(real, workspace, len) == 0 &&
                 (real[len] == '/' || real[len] == '\0');

    (free)(real); /* realpath() took them from the C library */
    (free)(workspace);
    return inside;
}

static char *try_path(const waldo_backend_spec *spec, waldo_str folder)
{
    waldo__buf path = WALDO__BUF_INIT(4096);
    struct stat info;

    if (!waldo__str_starts(folder, "/")) {
        return NULL;
    }
    waldo__buf_printf(&path, "%.*s/bwrap", (int)folder.len, folder.ptr);
    if (path.status == WALDO_OK && stat(path.ptr, &info) == 0 && S_ISREG(info.st_mode) &&
        access(path.ptr, X_OK) == 0 && !inside_workspace(spec, path.ptr)) {
        return waldo__buf_take(&path, NULL);
    }
    waldo__buf_free(&path);
    return NULL;
}

char *waldo__local_find_bwrap(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    waldo_str named = waldo__backend_option(spec, "bwrap");
    const char *from_env = waldo__env("PATH");
    waldo_str rest = waldo__str(from_env != NULL ? from_env : DEFAULT_PATH);
    waldo_str folder;
    char *found = NULL;

    if (named.len > 0) {
        found = waldo__strndup(named.ptr, named.len);
        if (found != NULL && found[0] == '/' && access(found, X_OK) == 0 &&
            !inside_workspace(spec, found)) {
            return found;
        }
        waldo__free(found);
        waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                        "local: bwrap=%.*s is not a program outside of the workspace that can be "
                        "executed; name bubblewrap by its absolute path",
                        (int)named.len, named.ptr);
        return NULL;
    }
    while (found == NULL && waldo__str_split(&rest, ':', &folder)) {
        found = try_path(spec, folder);
    }
    if (found == NULL) {
        waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                        "local: bubblewrap (bwrap) was not found in PATH; install it (Debian, "
                        "Ubuntu: apt-get install bubblewrap), or name it with bwrap=/path");
    }
    return found;
}
