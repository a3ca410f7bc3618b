/* Response headers as text, "Name: value" lines that end in LF or CRLF. Pure. */
#ifndef WALDO_BASE_HEADER_H
#define WALDO_BASE_HEADER_H

#include "base/str.h"

/* The first header of that name, without regard to case; 0 when there is none. */
int waldo__header_get(waldo_str headers, const char *name, waldo_str *ret_value);

/* retry-after-ms, else retry-after (seconds or a date); -1: not said or not understood. */
int64_t waldo__header_retry_after_ms(waldo_str headers, int64_t wall_ms);

/* RFC 3339 text in UTC, such as "2026-01-02T03:04:05.678Z", since 1970; 0: it is none. */
int64_t waldo__rfc3339_ms(waldo_str text);

/* x-should-retry: 1, 0, or -1 when not said. */
int waldo__header_should_retry(waldo_str headers);

#endif
