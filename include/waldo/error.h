/**
 * @file
 * The error object: what went wrong, where, and what to do about it. It never holds a key, a
 * header value or a prompt.
 */
#ifndef WALDO_ERROR_H
#define WALDO_ERROR_H

#include <waldo/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Owned by whoever received it; every function accepts NULL. */
typedef struct waldo_error waldo_error;

/** The part of the world that failed. */
typedef int32_t waldo_error_class;
enum {
    WALDO_CLASS_NONE = 0,
    WALDO_CLASS_USAGE,
    WALDO_CLASS_TRANSPORT,
    WALDO_CLASS_TLS,
    WALDO_CLASS_HTTP,
    WALDO_CLASS_PROTOCOL,
    WALDO_CLASS_PROVIDER,
    WALDO_CLASS_BACKEND,
    WALDO_CLASS_TOOL,
    WALDO_CLASS_STORE,
    WALDO_CLASS_SYSTEM
};

/**
 * Free an error.
 *
 * @param error  taken; NULL is a no-op; the built-in out-of-memory error is left alone
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_error_free(waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return its status; WALDO_OK for NULL
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_error_status(const waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return its class; WALDO_CLASS_NONE for NULL
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_error_class waldo_error_get_class(const waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return one actionable English sentence, borrowed until the error is freed; "" for NULL
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_error_message(const waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return the HTTP status, or 0 when there was none
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_error_http_status(const waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return the provider's own code such as "rate_limit_exceeded", borrowed until the error is freed;
 *         "" when there was none
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_error_provider_code(const waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return the provider's request id, borrowed until the error is freed; "" when there was none
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_error_request_id(const waldo_error *error);

/**
 * @param error  borrowed for the call
 * @return milliseconds the provider asked to wait, or -1 when it did not say
 * Thread: any. Since: 0.1.
 */
WALDO_API int64_t waldo_error_retry_after_ms(const waldo_error *error);

#ifdef __cplusplus
}
#endif

#endif
