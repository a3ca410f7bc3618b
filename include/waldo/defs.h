/**
 * @file
 * Export macro, borrowed text, version and feature queries.
 */
#ifndef WALDO_DEFS_H
#define WALDO_DEFS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(WALDO_BUILDING)
#define WALDO_API __attribute__((visibility("default")))
#else
#define WALDO_API
#endif

#if defined(__GNUC__)
#define WALDO_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define WALDO_PRINTF(format_at, first_at)
#endif

#define WALDO_VERSION_MAJOR  0
#define WALDO_VERSION_MINOR  1
#define WALDO_VERSION_PATCH  0
#define WALDO_VERSION_STRING "0.1.0"

/** Wait without a limit; valid wherever a timeout in milliseconds is asked for. */
#define WALDO_FOREVER (-1)

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Borrowed bytes. May hold NUL bytes. Text that the library hands out is followed by a NUL byte
 * that len does not count, so ptr is usable as a C string when the text itself holds no NUL.
 */
typedef struct waldo_str {
    const char *ptr;
    size_t len;
} waldo_str;

/**
 * The version of the linked library, such as "0.1.0".
 *
 * @return static text
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_version(void);

/**
 * Ask what this build of the library contains.
 *
 * @param name  "backend.NAME", "model.NAME", "hand.ARCH"; borrowed for the call
 * @return 1 when it is there, 0 when not or when the name is unknown
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_has_feature(const char *name);

/**
 * List what waldo_has_feature() answers 1 to.
 *
 * @param index  from 0
 * @return static text, or NULL past the end
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_feature_at(size_t index);

/**
 * Release what the library keeps for the whole process, for leak checkers. No object may live.
 * Never needed otherwise; libcurl's global state is left alone because others may use it.
 *
 * Thread: any, once, last. Since: 0.1.
 */
WALDO_API void waldo_library_shutdown(void);

#ifdef __cplusplus
}
#endif

#endif
