/* What a run changed in its copy of the workspace: saved, shown, applied. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

extern char **environ;

enum { SHOWN_LINES = 200 };

typedef struct patch_text {
    char *text;
    size_t len;
    size_t files;
} patch_text;

/*
 * The environment of git: no repository but one that begins at the directory itself. Inside a
 * subdirectory of one, git apply takes paths from the repository's top and ignores the others.
 */
static char **git_environment(char *ceiling)
{
    static const char *const without[] = { "GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE=",
                                           "GIT_PREFIX=", "GIT_CEILING_DIRECTORIES=" };
    size_t count = 0, kept = 0;
    char **env;

    while (environ[count] != NULL) {
        count++;
    }
    env = calloc(count + 2, sizeof *env);
    for (size_t i = 0; env != NULL && i < count; i++) {
        int keep = 1;

        for (size_t k = 0; k < sizeof without / sizeof without[0]; k++) {
            keep = keep && strncmp(environ[i], without[k], strlen(without[k])) != 0;
        }
        if (keep) {
            env[kept++] = environ[i];
        }
    }
    if (env != NULL) {
        env[kept] = ceiling;
    }
    return env;
}

/* Standard output is the caller's: what git says goes to stderr. Our signal settings stay ours. */
static int spawn_git(char *const *argv, char *const *env, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, pipe_signal;
    int error;

    sigemptyset(&none);
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    error = posix_spawnp(ret_pid, "git", &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Both paths are absolute. */
static int git_apply(const char *dir, const char *file)
{
    char *argv[] = {
        (char *)"git", (char *)"-C", (char *)dir, (char *)"apply", (char *)"--whitespace=nowarn",
        (char *)file,  NULL
    };
    char parent[PATH_MAX], ceiling[PATH_MAX + 32];
    char **env;
    pid_t pid;
    int status, error;

    snprintf(parent, sizeof parent, "%s", dir);
    snprintf(ceiling, sizeof ceiling, "GIT_CEILING_DIRECTORIES=%s", dirname(parent));
    env = git_environment(ceiling);
    error = env != NULL ? spawn_git(argv, env, &pid) : ENOMEM;
    free(env);
    if (error != 0) {
        errno = error;
        complain("cannot run git to apply the patch: %m");
        return EXIT_FAILED;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return EXIT_FAILED;
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int load_patch(const char *path, patch_text *p)
{
    FILE *file = fopen(path, "re");
    FILE *to = open_memstream(&p->text, &p->len);
    char block[65536];
    size_t got;
    int loaded = 0;

    while (file != NULL && to != NULL && (got = fread(block, 1, sizeof block, file)) > 0) {
        fwrite(block, 1, got, to);
    }
    if (file != NULL) {
        loaded = !ferror(file);
        fclose(file);
    }
    if (to == NULL || fclose(to) != 0 || !loaded) {
        complain("cannot read the patch %s back", path);
        return 0;
    }
    for (const char *at = p->text; at != NULL && *at != '\0'; at = strchr(at, '\n')) {
        at += *at == '\n';
        p->files += strncmp(at, "diff --git ", 11) == 0;
    }
    return 1;
}

static void show_patch(const patch_text *p, int all)
{
    size_t lines = all ? SIZE_MAX : SHOWN_LINES, len = 0;

    while (len < p->len && lines > 0) {
        lines -= p->text[len++] == '\n';
    }
    put_safe(stderr, (waldo_str){ p->text, len });
    if (len < p->len) {
        fprintf(stderr, "... %zu bytes more; v shows them\n", p->len - len);
    }
}

static int consents(session *s, const char *dir, const patch_text *p)
{
    char question[PATH_MAX + 64];
    waldo_str line;
    line_end end;
    int all = 0;

    snprintf(question, sizeof question,
             "Apply these changes to %s? [y]es, [v]iew all, [N]o: ", dir);
    do {
        show_patch(p, all);
        end = input_ask(s->rt, question, &line);
        all = 1;
    } while (end == LINE_READ && answer_is(line, "v", "view"));
    return end == LINE_READ && answer_is(line, "y", "yes");
}

static int wants_question(const args *a)
{
    return can_ask(a) && (a->apply == ANSWER_ASK ||
                          (a->apply == ANSWER_DEFAULT && a->patch == NULL && a->each == NULL));
}

/* 1: applied, 0: not asked for or not wanted, -1: failed and told */
static int apply_changes(session *s, const char *dir, const char *file, const patch_text *p)
{
    char *where = realpath(dir, NULL), *what = realpath(file, NULL);
    int applied = 0;

    if (where == NULL || what == NULL) {
        complain("%s: %m", where == NULL ? dir : file);
        applied = -1;
    } else if (s->a->apply == ANSWER_ALWAYS || (wants_question(s->a) && consents(s, where, p))) {
        applied = git_apply(where, what) == EXIT_DONE ? 1 : -1;
    }
    free(where);
    free(what);
    return applied;
}

/* ret: what became of a patch that is not empty; *keep: the temporary file is the only copy left */
static int use_patch(session *s, const char *dir, const char *file, int is_temp, int *keep)
{
    patch_text p = { NULL, 0, 0 };
    int applied = 0, code = EXIT_DONE;

    if (!load_patch(file, &p)) {
        *keep = is_temp;
        code = EXIT_FAILED;
    } else if (p.len > 0) {
        applied = was_interrupted() ? 0 : apply_changes(s, dir, file, &p);
        code = applied < 0 ? EXIT_FAILED : EXIT_DONE;
        *keep = is_temp && applied <= 0;
        if (applied < 0) {
            complain("the patch was not applied, %s is as it was; the patch is %s", dir, file);
        } else if (*keep || !s->a->quiet) {
            complain("%zu file%s changed; %s %s", p.files, p.files == 1 ? "" : "s",
                     applied ? "applied to" : "not applied, the patch is", applied ? dir : file);
        }
    }
    free(p.text);
    return code;
}

int check_patch_file(const char *file)
{
    char folder[PATH_MAX];

    if (file == NULL) {
        return EXIT_DONE;
    }
    if (snprintf(folder, sizeof folder, "%s", file) >= (int)sizeof folder ||
        access(dirname(folder), W_OK) != 0) {
        return usage_error("--patch %s: %m", file);
    }
    return EXIT_DONE;
}

int finish_changes(session *s, waldo_run *run, const char *dir, const char *file)
{
    const char *temp_dir = getenv("TMPDIR");
    char temp[PATH_MAX];
    waldo_status status;
    int code, fd = -1, keep = 0;

    if (dir == NULL || s->a->mode != WALDO_WORKSPACE_COPY ||
        (file == NULL && s->a->apply == ANSWER_NEVER)) {
        return EXIT_DONE;
    }
    if (file == NULL) {
        snprintf(temp, sizeof temp, "%s/waldo-XXXXXX.patch",
                 temp_dir != NULL && temp_dir[0] == '/' ? temp_dir : "/tmp");
        fd = mkostemps(temp, (int)strlen(".patch"), O_CLOEXEC);
        if (fd < 0) {
            complain("no temporary file for the patch, %s: %m", temp);
            return EXIT_FAILED;
        }
        close(fd);
    }
    status = waldo_run_save_changes(run, file != NULL ? file : temp);
    if (status == WALDO_OK) {
        code = use_patch(s, dir, file != NULL ? file : temp, file == NULL, &keep);
    } else {
        const waldo_error *error = waldo_run_error(run);

        complain("cannot save the changes: %s",
                 error != NULL ? waldo_error_message(error) : waldo_status_text(status));
        code = EXIT_FAILED;
    }
    if (fd >= 0 && !keep) {
        unlink(temp);
    }
    return code;
}
