/* What a run changed in its copy of the workspace: saved, shown, applied. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

extern char **environ;

static int run_git_apply(const char *dir, const char *file)
{
    char *argv[] = {
        (char *)"git", (char *)"-C", (char *)dir, (char *)"apply", (char *)"--whitespace=nowarn",
        (char *)file,  NULL
    };
    pid_t pid;
    int status;

    if (posix_spawnp(&pid, "git", NULL, NULL, argv, environ) != 0) {
        fputs("waldo: git is not here to apply the patch\n", stderr);
        return EXIT_FAILED;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return EXIT_FAILED;
        }
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* Copy a file to stderr; its size. */
static long show_file(const char *path, int print)
{
    char block[4096];
    size_t got;
    long size = 0;
    FILE *file = fopen(path, "re");

    while (file != NULL && (got = fread(block, 1, sizeof block, file)) > 0) {
        size += (long)got;
        if (print) {
            fwrite(block, 1, got, stderr);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return size;
}

static int wants_apply(const args *a)
{
    if (a->apply == ANSWER_ALWAYS || a->apply == ANSWER_NEVER) {
        return a->apply == ANSWER_ALWAYS;
    }
    return has_terminal() && !a->json;
}

static int apply_changes(const args *a, const char *file)
{
    char *absolute = realpath(file, NULL);
    int code = EXIT_DONE, ask = a->apply != ANSWER_ALWAYS;

    if (absolute == NULL || show_file(absolute, ask) == 0) {
        free(absolute);
        return EXIT_DONE;
    }
    if (!ask || ask_yes_no("Apply these changes to the directory?")) {
        code = run_git_apply(a->dir, absolute);
        if (code != EXIT_DONE) {
            fprintf(stderr, "waldo: the patch was not applied%s%s\n",
                    a->patch != NULL ? "; it is in " : "", a->patch != NULL ? a->patch : "");
        }
    }
    free(absolute);
    return code;
}

int finish_changes(const args *a, waldo_run *run, const char *patch_file)
{
    char temp[] = "/tmp/waldo-patch-XXXXXX";
    const char *file = patch_file;
    waldo_status status;
    int code = EXIT_DONE, fd = -1;

    if (a->dir == NULL || a->mode != WALDO_WORKSPACE_COPY) {
        return patch_file != NULL ? usage_error("--patch needs -w DIR with --mode copy")
                                  : EXIT_DONE;
    }
    if (patch_file == NULL && !wants_apply(a)) {
        return EXIT_DONE;
    }
    if (patch_file == NULL) {
        fd = mkstemp(temp);
        if (fd < 0) {
            fputs("waldo: no temporary file for the patch in /tmp\n", stderr);
            return EXIT_FAILED;
        }
        close(fd);
        file = temp;
    }
    status = waldo_run_save_changes(run, file);
    if (status != WALDO_OK) {
        code = fail_with("changes", waldo_run_error(run), status);
    } else if (wants_apply(a)) {
        code = apply_changes(a, file);
    }
    if (fd >= 0) {
        unlink(temp);
    }
    return code;
}
