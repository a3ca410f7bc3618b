#define _GNU_SOURCE
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys.h"

#define DEFAULT_PATH   "/usr/local/bin:/usr/bin:/bin"
#define INHERITED_MAX  2048u
#define EXTRA_ARGS_MAX 4u

extern char **environ;

static char *args[WALDO_HAND_ARGS_MAX + EXTRA_ARGS_MAX];
static char *envs[WALDO_HAND_ARGS_MAX + INHERITED_MAX + 1];

/* Ends a field's bytes with NUL: in place of the next field's tag, which has been read already. */
static char *terminate(const struct field *field)
{
    char *text = (char *)(uintptr_t)field->ptr;

    text[field->len] = '\0';
    return text;
}

static size_t name_length(const char *assignment)
{
    return length_until(assignment, '=');
}

/* Sets or removes one variable. */
static bool apply_env(size_t *count, char *assignment)
{
    size_t len = name_length(assignment);
    bool sets = assignment[len] == '=';
    size_t at = 0;

    while (at < *count && (strncmp(envs[at], assignment, len) != 0 || envs[at][len] != '=')) {
        at++;
    }
    if (!sets) {
        if (at < *count) {
            envs[at] = envs[--*count];
        }
        return true;
    }
    if (at == *count) {
        if (*count == sizeof envs / sizeof *envs - 1) {
            return false;
        }
        ++*count;
    }
    envs[at] = assignment;
    return true;
}

/* Fills args and envs from the request; all fields are read before the first is terminated. */
static bool collect(const struct run *run)
{
    static struct field arg_fields[WALDO_HAND_ARGS_MAX], env_fields[WALDO_HAND_ARGS_MAX];
    struct fields it;
    struct field field;
    size_t arg_count = 0, env_count = 0, vars = 0;

    fields_init(&it, run->frame);
    while (fields_next(&it, &field) == 1) {
        if (field.tag == WALDO_HAND_F_ARG && arg_count < WALDO_HAND_ARGS_MAX) {
            arg_fields[arg_count++] = field;
        } else if (field.tag == WALDO_HAND_F_ENV && env_count < WALDO_HAND_ARGS_MAX) {
            env_fields[env_count++] = field;
        }
    }
    for (size_t i = 0; i < arg_count; i++) {
        args[i] = terminate(&arg_fields[i]);
    }
    if ((run->flags & WALDO_HAND_RUN_CLEAR_ENV) == 0) {
        while (environ[vars] != NULL && vars < INHERITED_MAX) {
            envs[vars] = environ[vars];
            vars++;
        }
    }
    for (size_t i = 0; i < env_count; i++) {
        if (!apply_env(&vars, terminate(&env_fields[i]))) {
            return false;
        }
    }
    envs[vars] = NULL;
    return true;
}

static bool write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* Adds the script to args: as an argument, or as an unnamed file when it is too long for one. */
static bool add_script(const struct run *run)
{
    static char shell[] = "/bin/sh", option[] = "-c", path[] = "/proc/self/fd/3";
    size_t count = run->args;
    int fd;

    if (count == 0) {
        args[count++] = shell;
    }
    if (run->script.len <= WALDO_HAND_SCRIPT_ARG_MAX) {
        args[count++] = option;
        args[count] = terminate(&run->script);
        return true;
    }
    fd = make_memory_file("script");
    if (fd < 0 || !write_all(fd, run->script.ptr, run->script.len)) {
        return false;
    }
    if (fd != SCRIPT_FD && (dup2(fd, SCRIPT_FD) < 0 || close(fd) != 0)) {
        return false;
    }
    args[count] = path;
    return true;
}

static const char *find_path(void)
{
    for (size_t i = 0; envs[i] != NULL; i++) {
        if (strncmp(envs[i], "PATH=", 5) == 0) {
            return envs[i] + 5;
        }
    }
    return DEFAULT_PATH;
}

/* Tries the program in every directory of PATH; returns the errno that says most. */
static int exec_in_path(void)
{
    static char path[WALDO_HAND_PATH_MAX + 1];
    const char *at = find_path();
    size_t name_len = strlen(args[0]);
    int err = ENOENT;

    if (name_len == 0) {
        return ENOENT;
    }
    if (name_len > 255) {
        return ENAMETOOLONG;
    }
    for (;;) {
        size_t len = length_until(at, ':');

        if (len + 1 + name_len < sizeof path) {
            memcpy(path, at, len);
            if (len > 0) {
                path[len] = '/';
            }
            memcpy(path + len + (len > 0), args[0], name_len + 1);
            execve(path, args, envs);
            if (errno == EACCES) {
                /* A folder that may not be searched holds nothing for us. */
                err = access(path, F_OK) == 0 ? EACCES : err;
            } else if (errno != ENOENT && errno != ENOTDIR) {
                return errno;
            }
        }
        if (at[len] == '\0') {
            return err;
        }
        at += len + 1;
    }
}

/* What the child tells its parent: they share memory until exec. */
static struct {
    bool has_terminal;
    const char *cwd;
    volatile int err;
    volatile uint8_t phase;
} shared;

/* The child's part: system calls only. */
static _Noreturn void child(void)
{
    setsid();
    if (shared.has_terminal) {
        control_device(STDIN_FILENO, TIOCSCTTY, 0);
    }
    if (shared.cwd != NULL && chdir(shared.cwd) != 0) {
        shared.err = errno;
        shared.phase = WALDO_HAND_PHASE_CHDIR;
        _exit(127);
    }
    signals_unblock();
    if (has_slash(args[0])) {
        execve(args[0], args, envs);
        shared.err = errno;
    } else {
        shared.err = exec_in_path();
    }
    shared.phase = WALDO_HAND_PHASE_EXEC;
    _exit(127);
}

static pid_t failed(int err, uint8_t phase, int *ret_err, uint8_t *ret_phase)
{
    *ret_err = err;
    *ret_phase = phase;
    return -1;
}

pid_t spawn_run(const struct run *run, int *ret_err, uint8_t *ret_phase)
{
    pid_t pid;

    if (!collect(run)) {
        return failed(E2BIG, WALDO_HAND_PHASE_REQUEST, ret_err, ret_phase);
    }
    shared.has_terminal = (run->flags & WALDO_HAND_RUN_PTY) != 0;
    if (run->cwd.ptr != NULL) {
        shared.cwd = terminate(&run->cwd);
    }
    if (run->script.ptr != NULL && !add_script(run)) {
        return failed(errno, WALDO_HAND_PHASE_SCRIPT, ret_err, ret_phase);
    }
    pid = vfork();
    if (pid == 0) {
        child();
    }
    if (pid < 0) {
        return failed(errno, WALDO_HAND_PHASE_RESOURCES, ret_err, ret_phase);
    }
    if (shared.phase != 0) {
        return failed(shared.err, shared.phase, ret_err, ret_phase);
    }
    return pid;
}
