#include "http/retry.h"

enum { FIRST_MS = 500, MAX_MS = 8000, MAX_WAIT_MS = 60000 };

static int64_t or_default(int64_t value, int64_t standard)
{
    return value > 0 ? value : standard;
}

/* Full jitter: anything between nothing and the step, so that clients that failed together part. */
int64_t waldo__retry_delay_ms(const waldo__retry *policy, uint32_t attempt,
                              const waldo_error *error, uint32_t random)
{
    waldo_status status = waldo_error_status(error);
    int64_t wished = waldo_error_retry_after_ms(error);
    int64_t step = or_default(policy->first_ms, FIRST_MS);
    int64_t most = or_default(policy->max_ms, MAX_MS);

    if (!waldo_status_retryable(status) &&
        !(policy->retry_unknown && status == WALDO_EUNKNOWN_OUTCOME)) {
        return -1;
    }
    if (attempt > policy->max_retries) {
        return -1;
    }
    if (wished >= 0) {
        return wished <= or_default(policy->max_wait_ms, MAX_WAIT_MS) ? wished : -1;
    }
    for (uint32_t i = 1; i < attempt && step < most; i++) {
        step = step > most / 2 ? most : step * 2;
    }
    step = step < most ? step : most;
    return (int64_t)((double)step * ((double)random / UINT32_MAX));
}
