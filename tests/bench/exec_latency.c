/*
 * One small command, run in each way in turn: on the host, in a bubblewrap of its own, and through
 * waldo on a local sandbox that is already open.
 *
 *   bench_exec_latency [ROUNDS]
 *
 * Prints one JSON object, microseconds by name: the median, and the end of the fastest tenth.
 */
#include "exec_case.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 200, WARMUP = 10 };

static bool host_once(void)
{
    static const char *const argv[] = { BENCH_COMMAND, NULL };

    return bench_spawn(BENCH_COMMAND, argv);
}

static const struct exec_case host_case = { .name = "host", .once = host_once };

static const struct exec_case *const cases[] = { &host_case, &exec_case_bwrap, &exec_case_waldo };

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : ROUNDS;

    if (rounds <= 0) {
        fprintf(stderr, "usage: bench_exec_latency [ROUNDS]\n");
        return 2;
    }
    return !bench_compare(cases, sizeof(cases) / sizeof(cases[0]), WARMUP, rounds);
}
