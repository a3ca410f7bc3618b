/* When to try again: full jitter, provider's wishes honoured up to a cap. Pure. */
#ifndef WALDO_HTTP_RETRY_H
#define WALDO_HTTP_RETRY_H

#include "base/str.h"
#include <waldo/error.h>

typedef struct waldo__retry {
    uint32_t max_retries; /* further tries */
    int64_t first_ms;     /* 0: 500 */
    int64_t max_ms;       /* 0: 8000 */
    int64_t max_wait_ms;  /* cap on what a provider may ask for; 0: 60 000 */
    int retry_unknown;    /* a request whose outcome is unknown may be repeated, too */
} waldo__retry;

/*
 * Delay before try number attempt + 1 (attempt: tries made so far, from 1), or -1: give up. random
 * is 0 to UINT32_MAX. Uses the error's status and retry-after.
 */
int64_t waldo__retry_delay_ms(const waldo__retry *policy, uint32_t attempt,
                              const waldo_error *error, uint32_t random);

#endif
