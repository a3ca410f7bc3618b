#include "exec_case.h"

#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

enum { CASES_MAX = 16 };

bool bench_spawn(const char *program, const char *const *argv)
{
    pid_t child;
    int status = -1;
    int error = posix_spawnp(&child, program, NULL, NULL, (char *const *)argv, environ);

    if (error != 0) {
        return false;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return difference < 0 ? -1 : difference > 0;
}

static bool once(const struct exec_case *way, double *ret_us)
{
    double start = bench_wall_us();
    bool works = way->once();

    *ret_us = bench_wall_us() - start;
    if (works && way->after != NULL) {
        way->after();
    }
    return works;
}

/* Prepares a case and takes its first, slower rounds off; false takes it out of the comparison. */
static bool prepare(const struct exec_case *way, long warmup)
{
    bool works = way->open == NULL || way->open();
    double us;

    for (long i = 0; works && i < warmup; i++) {
        works = once(way, &us);
    }
    if (!works) {
        fprintf(stderr, "%s: does not work\n", way->name);
    }
    return works;
}

bool bench_compare(const struct exec_case *const *cases, size_t count, long warmup, long rounds)
{
    double *samples = calloc((size_t)rounds * count, sizeof(double));
    bool usable[CASES_MAX] = { false };
    const char *separator = "{";
    bool all = samples != NULL && count <= CASES_MAX;

    for (size_t i = 0; all && i < count; i++) {
        usable[i] = prepare(cases[i], warmup);
    }
    for (long round = 0; all && round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            double *sample = samples + (size_t)rounds * i + round;

            usable[i] = usable[i] && once(cases[i], sample);
        }
    }
    for (size_t i = 0; samples != NULL && i < count; i++) {
        double *own = samples + (size_t)rounds * i;

        if (usable[i]) {
            qsort(own, (size_t)rounds, sizeof(double), compare);
            printf("%s\"%s\":%.1f,\"%s_fast\":%.1f", separator, cases[i]->name, own[rounds / 2],
                   cases[i]->name, own[rounds / 10]);
            separator = ",";
        }
        if (cases[i]->close != NULL) {
            cases[i]->close();
        }
        all = all && usable[i];
    }
    puts(*separator == '{' ? "{}" : "}");
    free(samples);
    return all;
}

/* What a careful host passes for one command: own namespaces, no rights, a root of its own. */
static bool bwrap_once(void)
{
    static const char *const argv[] = {
        "bwrap",
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--clearenv",
        "--setenv",
        "PATH",
        "/usr/bin:/bin",
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--dir",
        "/workspace",
        "--chdir",
        "/workspace",
        "--",
        BENCH_COMMAND,
        NULL,
    };

    return bench_spawn("bwrap", argv);
}

const struct exec_case exec_case_bwrap = { .name = "bwrap", .once = bwrap_once };
