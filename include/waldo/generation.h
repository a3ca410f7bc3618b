/**
 * @file
 * Models that are a function of the host: one that runs inside the process, a server that speaks an
 * API of its own, a script for tests. The function is asked once a request; it answers piece by
 * piece, at once or later, from any thread.
 */
#ifndef WALDO_GENERATION_H
#define WALDO_GENERATION_H

#include <waldo/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One request and its answer. Refcounted; valid after its run is gone. */
typedef struct waldo_generation waldo_generation;

/**
 * Answer a request.
 *
 * @param userdata    of the model's options
 * @param generation  lent for the call; take a reference to answer later
 * @retval WALDO_OK       it was ended with waldo_generation_finish() or waldo_generation_fail()
 * @retval WALDO_PENDING  it will be ended later, from any thread
 * @return else a failure, as waldo_generation_fail()
 * Called on the driving thread, from dispatch; it must not block.
 */
typedef waldo_status (*waldo_generate_fn)(void *userdata, waldo_generation *generation);

/** Why the model stopped. */
typedef int32_t waldo_finish;
enum {
    WALDO_FINISH_ANSWER = 1,
    WALDO_FINISH_CALLS,
    WALDO_FINISH_LENGTH, /* cut at the output limit: an unfinished call was dropped or marked */
    WALDO_FINISH_FILTER,
    WALDO_FINISH_REFUSAL,
    WALDO_FINISH_PAUSE /* the provider goes on when it gets the answer back: ask again */
};

/**
 * What is asked, as one JSON object (docs/models.md): instructions, tools, the items so far.
 *
 * @param generation  borrowed for the call
 * @return borrowed until the generation is freed
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_str waldo_generation_request(const waldo_generation *generation);

/**
 * Add a piece of the answer's text.
 *
 * @param generation  borrowed for the call
 * @param text        copied; what is not valid UTF-8 becomes U+FFFD
 * @retval WALDO_OK      taken
 * @retval WALDO_ECLOSED ended before, cancelled, or the run is gone
 * @retval WALDO_ENOMEM  the request fails
 * @retval WALDO_ETOOBIG more than 64 MiB wait to be read: the request fails
 * @retval WALDO_EFORKED called in a forked child
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_generation_text(waldo_generation *generation, waldo_str text);

/**
 * Add a piece of readable reasoning.
 *
 * @param generation  borrowed for the call
 * @param text        copied, as that of waldo_generation_text()
 * @return as waldo_generation_text()
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_generation_reasoning(waldo_generation *generation, waldo_str text);

/**
 * Ask for a tool. It runs when the answer has ended.
 *
 * @param generation  borrowed for the call
 * @param id          copied; NULL: one is made
 * @param name        of the tool; copied
 * @param args        its arguments, JSON text; copied
 * @retval WALDO_EINVAL  no name
 * @return else as waldo_generation_text()
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_generation_call(waldo_generation *generation, const char *id,
                                             const char *name, waldo_str args);

/**
 * Say what the request has used; the last one counts.
 *
 * @param generation  borrowed for the call
 * @param usage       copied; -1 where it is not known; cost is not read
 * @return as waldo_generation_text()
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_generation_usage(waldo_generation *generation,
                                              const waldo_usage *usage);

/**
 * End the answer. A generation ends once.
 *
 * @param generation  borrowed for the call
 * @param finish      why; 0: WALDO_FINISH_CALLS when it holds calls, else WALDO_FINISH_ANSWER
 * @retval WALDO_EINVAL  no such finish
 * @return else as waldo_generation_text()
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_generation_finish(waldo_generation *generation, waldo_finish finish);

/**
 * End the request as failed. A status that is retryable makes the run try again, as the model's
 * options say; WALDO_EOVERFLOW and the like mean what they mean of a server.
 *
 * @param generation  borrowed for the call
 * @param status      a failure
 * @param format      printf format of one sentence that says why
 * @return as waldo_generation_text()
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_generation_fail(waldo_generation *generation, waldo_status status,
                                             const char *format, ...) WALDO_PRINTF(3, 4);

/**
 * @param generation  borrowed for the call
 * @return 1 when its answer is no longer wanted
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_generation_cancelled(const waldo_generation *generation);

/**
 * Be told when the answer is no longer wanted.
 *
 * @param generation  exclusive
 * @param fn          called at most once, from dispatch or from what ends the run, on the driving
 *                    thread; NULL takes it back
 * @param userdata    given to fn
 * Thread: driving, from inside the model's function. Since: 0.1.
 */
WALDO_API void waldo_generation_on_cancel(waldo_generation *generation, void (*fn)(void *userdata),
                                          void *userdata);

/**
 * @param generation  gets one more reference; NULL is accepted
 * @return generation
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_generation *waldo_generation_ref(waldo_generation *generation);

/**
 * @param generation  loses one reference; NULL is a no-op. A request whose last reference goes
 *                    without an end has failed
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_generation_unref(waldo_generation *generation);

#ifdef __cplusplus
}
#endif

#endif
