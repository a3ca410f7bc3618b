#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * WALDO__NS_PER_S + now.tv_nsec;
}

int64_t waldo__now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t waldo__wall_ms(void)
{
    return read_clock(CLOCK_REALTIME) / WALDO__NS_PER_MS;
}

int64_t waldo__deadline_ns(int64_t ms)
{
    int64_t ns;

    if (ms < 0 || __builtin_mul_overflow(ms, WALDO__NS_PER_MS, &ns) ||
        __builtin_add_overflow(ns, waldo__now_ns(), &ns)) {
        return WALDO__NEVER;
    }
    return ns;
}
