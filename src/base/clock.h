/*
 * Time and sleep-free waiting. Deadlines use the monotonic clock, leases and stamps the wall clock.
 */
#ifndef WALDO_BASE_CLOCK_H
#define WALDO_BASE_CLOCK_H

#include <stdint.h>

#define WALDO__NS_PER_MS INT64_C(1000000)
#define WALDO__NS_PER_S  INT64_C(1000000000)
#define WALDO__NEVER     INT64_MAX

int64_t waldo__now_ns(void);  /* monotonic */
int64_t waldo__wall_ms(void); /* since 1970 */

/* now + ms, saturating; WALDO_FOREVER (any negative ms) gives WALDO__NEVER. */
int64_t waldo__deadline_ns(int64_t ms);

#endif
