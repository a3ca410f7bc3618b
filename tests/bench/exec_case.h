/* The ways to run one command that exec_latency.c compares. */
#ifndef WALDO_TESTS_BENCH_EXEC_CASE_H
#define WALDO_TESTS_BENCH_EXEC_CASE_H

#include <stdbool.h>

#define BENCH_COMMAND "/usr/bin/true"

struct exec_case {
    const char *name;
    bool (*open)(void);  /* NULL: nothing to prepare */
    bool (*once)(void);  /* runs the command to its end; false when that failed */
    void (*close)(void); /* NULL: nothing to end */
};

/* waldo's exec on a live local sandbox. */
extern const struct exec_case exec_case_waldo;

#endif
