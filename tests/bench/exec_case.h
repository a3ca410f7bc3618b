/* Ways to do one thing, and their comparison in turn: shared by the programs that time commands. */
#ifndef WALDO_TESTS_BENCH_EXEC_CASE_H
#define WALDO_TESTS_BENCH_EXEC_CASE_H

#include <stdbool.h>
#include <stddef.h>

#define BENCH_COMMAND "/usr/bin/true"

struct exec_case {
    const char *name;
    bool (*open)(void);     /* NULL: nothing to prepare */
    bool (*once)(void);     /* does it to its end; false when that failed */
    void (*after)(void);    /* after each, not timed; may be NULL */
    void (*close)(void);    /* NULL: nothing to end */
    double (*cpu_us)(void); /* used so far by whoever does it; NULL: not looked at */
    long (*requests)(void); /* that a server has got so far; NULL: not looked at */
};

/* waldo's exec on a live local sandbox. */
extern const struct exec_case exec_case_waldo;

/* A bubblewrap of its own for the command. */
extern const struct exec_case exec_case_bwrap;

/* Runs a program and waits; true when it exited with 0. */
bool bench_spawn(const char *program, const char *const *argv);

/*
 * Each way once a round, after some rounds that do not count. Prints one JSON object, microseconds
 * by name: the median, and as NAME_fast the end of the fastest tenth; where they are looked at, as
 * NAME_cpu the mean of processor time and as NAME_requests the median of requests. False when one
 * failed.
 */
bool bench_compare(const struct exec_case *const *cases, size_t count, long warmup, long rounds);

#endif
