/* Clocks, memory figures and the command line shared by the C programs of this bench. */
#ifndef WALDO_TESTS_BENCH_BENCH_H
#define WALDO_TESTS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

struct bench_args {
    const char *mode;
    const char *model;
    const char *api; /* "chat", "openai" or "anthropic" */
    long port;
    long runs;        /* measured conversations */
    long warmup;      /* conversations before the clock starts */
    long turns;       /* requests in one conversation */
    long concurrency; /* conversations at a time */
    long hold;        /* streams opened and left open first */
    long slice_us;    /* longest dispatch asked for, 0 = no limit */
    long deltas;      /* what the stand-in streams, see standin.c */
    long delta_bytes;
};

struct bench_mark {
    double wall_us;
    double cpu_us; /* user + system time of this process */
};

/* Reads --name value pairs; false after a message on stderr. */
bool bench_parse(int argc, char **argv, struct bench_args *ret_args);

double bench_wall_us(void);
double bench_thread_cpu_us(void);
struct bench_mark bench_now(void);
struct bench_mark bench_since(struct bench_mark start);

/* Resident set now and at its peak. VmHWM rather than ru_maxrss: the latter survives exec. */
long bench_rss_kib(void);
long bench_peak_kib(void);

/* Raises the descriptor limit to the hard one. */
void bench_many_files(void);

/* One blocking connection to the loopback port, -1 on failure. */
int bench_connect(long port);

#endif
