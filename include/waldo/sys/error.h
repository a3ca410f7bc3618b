/**
 * @file
 * For authors of backends, models and stores: making errors. Stable within a minor version only.
 */
#ifndef WALDO_SYS_ERROR_H
#define WALDO_SYS_ERROR_H

#include <waldo/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make an error unless there is one already: the first error is the one that is kept.
 *
 * @param ret_err      where to put it, free with waldo_error_free(); NULL: nowhere
 * @param status       its status, a failure
 * @param error_class  its class
 * @param format       printf format of one actionable sentence without secrets
 * @return status, so that "return waldo_error_set(...)" reads well
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_error_set(waldo_error **ret_err, waldo_status status,
                                       waldo_error_class error_class, const char *format, ...)
    WALDO_PRINTF(4, 5);

/**
 * Add what a provider said to an error.
 *
 * @param error           exclusive; NULL is a no-op
 * @param http_status     0: none
 * @param provider_code   copied; NULL: none
 * @param request_id      copied; NULL: none
 * @param retry_after_ms  -1: not said
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_error_add_http(waldo_error *error, int http_status, const char *provider_code,
                                    const char *request_id, int64_t retry_after_ms);

/**
 * @param error  borrowed for the call; NULL is accepted
 * @return a copy, free with waldo_error_free(); NULL for NULL; the built-in error when out of
 *         memory
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_error *waldo_error_copy(const waldo_error *error);

#ifdef __cplusplus
}
#endif

#endif
