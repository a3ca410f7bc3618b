/*
 * One small command, run in each way in turn: on the host, in a bubblewrap of its own, and through
 * waldo on a local sandbox that is already open.
 *
 *   bench_exec_latency [ROUNDS]
 *
 * Prints one JSON object, microseconds by name: the median, and the end of the fastest tenth.
 */
#include "bench.h"
#include "exec_case.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

enum { ROUNDS = 200, WARMUP = 10 };

static bool spawn_and_wait(const char *program, char *const *argv)
{
    pid_t child;
    int status = -1;
    int error = posix_spawnp(&child, program, NULL, NULL, argv, environ);

    if (error != 0) {
        return false;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool host_once(void)
{
    static char *const argv[] = { (char *)BENCH_COMMAND, NULL };

    return spawn_and_wait(BENCH_COMMAND, argv);
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

    return spawn_and_wait("bwrap", (char *const *)argv);
}

static const struct exec_case host_case = { .name = "host", .once = host_once };
static const struct exec_case bwrap_case = { .name = "bwrap", .once = bwrap_once };

static const struct exec_case *const cases[] = { &host_case, &bwrap_case, &exec_case_waldo };

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return difference < 0 ? -1 : difference > 0;
}

/* Prepares a case and takes its first, slower rounds off; false takes it out of the comparison. */
static bool prepare(const struct exec_case *way)
{
    bool works = way->open == NULL || way->open();

    for (int i = 0; works && i < WARMUP; i++) {
        works = way->once();
    }
    if (!works) {
        fprintf(stderr, "%s: could not run %s\n", way->name, BENCH_COMMAND);
    }
    return works;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS;
    double *samples[CASES] = { NULL };
    bool usable[CASES];
    const char *separator = "{";
    bool all = true;

    if (rounds <= 0) {
        fprintf(stderr, "usage: bench_exec_latency [ROUNDS]\n");
        return 2;
    }
    for (size_t i = 0; i < CASES; i++) {
        usable[i] = prepare(cases[i]);
        samples[i] = calloc((size_t)rounds, sizeof(double));
        if (samples[i] == NULL) {
            return 1;
        }
    }
    for (long round = 0; round < rounds; round++) {
        for (size_t i = 0; i < CASES; i++) {
            double start = bench_wall_us();

            usable[i] = usable[i] && cases[i]->once();
            samples[i][round] = bench_wall_us() - start;
        }
    }
    for (size_t i = 0; i < CASES; i++) {
        if (usable[i]) {
            qsort(samples[i], (size_t)rounds, sizeof(double), compare);
            printf("%s\"%s\":%.1f,\"%s_fast\":%.1f", separator, cases[i]->name,
                   samples[i][rounds / 2], cases[i]->name, samples[i][rounds / 10]);
            separator = ",";
        }
        if (cases[i]->close != NULL) {
            cases[i]->close();
        }
        all = all && usable[i];
        free(samples[i]);
    }
    puts(*separator == '{' ? "{}" : "}");
    return !all;
}
