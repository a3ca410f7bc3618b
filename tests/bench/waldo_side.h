/* waldo's side of docker_latency.c and cloud_latency.c: public headers only. */
#ifndef WALDO_TESTS_BENCH_WALDO_SIDE_H
#define WALDO_TESTS_BENCH_WALDO_SIDE_H

#include <stdbool.h>
#include <stddef.h>

/* sandbox: a sandbox string. */
bool waldo_side_begin(const char *sandbox);
void waldo_side_end(void);

/* A new sandbox, not yet opened, in place of the one before, which is closed and waited for. */
bool waldo_side_renew(void);

/* Drives the loop until nothing happens any more: spares are ready. */
bool waldo_side_rest(void);

/* So many of `true` at once. */
bool waldo_side_exec(int count);

bool waldo_side_write(size_t bytes);
bool waldo_side_read(size_t bytes);

#endif
