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

struct sample {
    double us;
    double cpu_us;
    double requests;
};

static int order(double a, double b)
{
    return a < b ? -1 : a > b;
}

static int compare(const void *a, const void *b)
{
    return order(((const struct sample *)a)->us, ((const struct sample *)b)->us);
}

static int compare_requests(const void *a, const void *b)
{
    return order(((const struct sample *)a)->requests, ((const struct sample *)b)->requests);
}

static bool once(const struct exec_case *way, struct sample *ret)
{
    long requests = way->requests != NULL ? way->requests() : 0;
    double cpu = way->cpu_us != NULL ? way->cpu_us() : 0;
    double start = bench_wall_us();
    bool works = way->once();

    ret->us = bench_wall_us() - start;
    ret->cpu_us = way->cpu_us != NULL ? way->cpu_us() - cpu : 0;
    ret->requests = way->requests != NULL ? (double)(way->requests() - requests) : 0;
    if (works && way->after != NULL) {
        way->after();
    }
    return works;
}

/* Prepares a case and takes its first, slower rounds off; false takes it out of the comparison. */
static bool prepare(const struct exec_case *way, long warmup)
{
    bool works = way->open == NULL || way->open();
    struct sample sample;

    for (long i = 0; works && i < warmup; i++) {
        works = once(way, &sample);
    }
    if (!works) {
        fprintf(stderr, "%s: does not work\n", way->name);
    }
    return works;
}

/* Leaves the samples in the order of their requests. */
static void print(const struct exec_case *way, struct sample *samples, long rounds)
{
    double cpu = 0;

    qsort(samples, (size_t)rounds, sizeof(*samples), compare);
    printf("\"%s\":%.1f,\"%s_fast\":%.1f", way->name, samples[rounds / 2].us, way->name,
           samples[rounds / 10].us);
    for (long i = 0; i < rounds; i++) {
        cpu += samples[i].cpu_us;
    }
    if (way->cpu_us != NULL) {
        printf(",\"%s_cpu\":%.1f", way->name, cpu / (double)rounds);
    }
    if (way->requests != NULL) {
        qsort(samples, (size_t)rounds, sizeof(*samples), compare_requests);
        printf(",\"%s_requests\":%.0f", way->name, samples[rounds / 2].requests);
    }
}

bool bench_compare(const struct exec_case *const *cases, size_t count, long warmup, long rounds)
{
    struct sample *samples = calloc((size_t)rounds * count, sizeof(*samples));
    bool usable[CASES_MAX] = { false };
    const char *separator = "{";
    bool all = samples != NULL && count <= CASES_MAX;

    for (size_t i = 0; all && i < count; i++) {
        usable[i] = prepare(cases[i], warmup);
    }
    for (long round = 0; all && round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            usable[i] = usable[i] && once(cases[i], samples + (size_t)rounds * i + round);
        }
    }
    for (size_t i = 0; samples != NULL && i < count; i++) {
        if (usable[i]) {
            fputs(separator, stdout);
            print(cases[i], samples + (size_t)rounds * i, rounds);
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
