/**
 * @file
 * Cancel objects: the one way to stop work from any thread.
 */
#ifndef WALDO_CANCEL_H
#define WALDO_CANCEL_H

#include <waldo/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Refcounted; one object may stop any number of runs and calls. */
typedef struct waldo_cancel waldo_cancel;

/**
 * @return a new object with one reference, free with waldo_cancel_unref(); NULL when out of memory
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_cancel *waldo_cancel_new(void);

/**
 * @param cancel  gets one more reference; NULL is accepted
 * @return cancel
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_cancel *waldo_cancel_ref(waldo_cancel *cancel);

/**
 * @param cancel  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_cancel_unref(waldo_cancel *cancel);

/**
 * Ask everything that was given this object to stop. Idempotent; wakes the driving threads, which
 * then end the work. Not for signal handlers: post a byte to your own pipe there.
 *
 * @param cancel  borrowed for the call; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_cancel_trigger(waldo_cancel *cancel);

/**
 * @param cancel  borrowed for the call
 * @return 1 once triggered; 0 for NULL
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_cancel_triggered(const waldo_cancel *cancel);

#ifdef __cplusplus
}
#endif

#endif
