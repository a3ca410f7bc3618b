/**
 * @file
 * The runtime: one loop, its transfers, its keys. Everything made from it belongs to the thread
 * that drives it.
 *
 * Two ways to drive: the blocking calls (waldo_run_wait(), waldo_run_next(), ...) or any host loop
 * that watches waldo_runtime_fd() and calls waldo_runtime_dispatch().
 */
#ifndef WALDO_RUNTIME_H
#define WALDO_RUNTIME_H

#include <waldo/error.h>
#include <waldo/keys.h>
#include <waldo/log.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct waldo_runtime waldo_runtime;
typedef struct waldo_run waldo_run;
typedef struct waldo_store waldo_store;

/** Zero means "default" for every member. */
typedef struct waldo_runtime_options {
    uint32_t size; /* sizeof(waldo_runtime_options) */
    waldo_log_level log_level;
    const waldo_keys *keys;   /* copied; NULL: no keys, local servers only */
    waldo_log_fn log;         /* NULL: no log */
    void *log_userdata;       /* given to log */
    waldo_store *store;       /* gets a reference; NULL: every run is kept in memory only */
    const char *proxy;        /* copied; "env" (default), "none" or a URL; never for loopback */
    const char *ca_file;      /* copied; PEM bundle instead of the system's */
    const char *state_dir;    /* copied; scratch files of local sandboxes; NULL: TMPDIR or /tmp */
    uint32_t max_connections; /* open connections to one host; default 0: no limit */
    uint32_t flags;           /* WALDO_RUNTIME_* */
    const char *model_facts;  /* JSON (docs/models.md) instead of the built-in list; copied */
} waldo_runtime_options;

enum {
    /** The host has called curl_global_init(); needed only where libcurl is not thread-safe. */
    WALDO_RUNTIME_CURL_READY = 1u << 0,
    /** Allow http:// to hosts other than loopback: others can read requests and their keys. */
    WALDO_RUNTIME_ALLOW_PLAIN_HTTP = 1u << 1
};

#define WALDO_RUNTIME(...)                                                                         \
    ((waldo_runtime_options){ .size = sizeof(waldo_runtime_options), __VA_ARGS__ })

/**
 * Make a runtime. It remembers what is wrong with its options; runs made from it then start as
 * failed with that error.
 *
 * @param options  copied; NULL means all defaults
 * @return free with waldo_runtime_finish() or waldo_runtime_free(); NULL when out of memory
 * Thread: any; from then on one thread at a time. Since: 0.1.
 */
WALDO_API waldo_runtime *waldo_runtime_new(const waldo_runtime_options *options);

/**
 * @param rt  borrowed for the call
 * @return the first error of its making, borrowed until rt is freed; NULL when there is none
 * Thread: driving. Since: 0.1.
 */
WALDO_API const waldo_error *waldo_runtime_error(const waldo_runtime *rt);

/**
 * The one descriptor to watch for reading, in poll, epoll, GLib, libuv or asyncio. It becomes
 * readable for everything: sockets, timers, posts and work armed by calls outside of dispatch.
 *
 * @param rt  borrowed for the call
 * @return owned by rt, close-on-exec; -1 for NULL, a failed runtime, or in a forked child
 * Thread: driving. Since: 0.1.
 */
WALDO_API int waldo_runtime_fd(const waldo_runtime *rt);

/**
 * Do what is ready, without waiting.
 *
 * @param rt      exclusive
 * @param max_us  stop starting new work after so many microseconds; 0: no limit
 * @retval WALDO_OK         done; the descriptor is readable again if more is ready
 * @retval WALDO_EREENTRANT called from a callback
 * @retval WALDO_EFORKED    called in a forked child
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_runtime_dispatch(waldo_runtime *rt, uint32_t max_us);

/**
 * Wait for work and do it, once.
 *
 * @param rt          exclusive
 * @param timeout_ms  longest wait in milliseconds; WALDO_FOREVER; 0 is waldo_runtime_dispatch()
 * @retval WALDO_OK         something was done
 * @retval WALDO_ETIMEDOUT  nothing came
 * @retval WALDO_EREENTRANT called from a callback
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_runtime_step(waldo_runtime *rt, int64_t timeout_ms);

/**
 * Drive until some run has come to rest (idle, closed, or waiting for the host), first come first
 * served; each rest is given once.
 *
 * @param rt          exclusive
 * @param timeout_ms  milliseconds; WALDO_FOREVER
 * @return the run, owned by rt until waldo_run_free(); NULL when no run is at work any more or the
 *         time is over
 * Thread: driving, not from callbacks. Since: 0.1.
 */
WALDO_API waldo_run *waldo_runtime_next(waldo_runtime *rt, int64_t timeout_ms);

/**
 * Register a value that must not leave: from now on it, its base64, hex and URL forms are replaced
 * in model text, events, journal and log. Keys that were looked up are registered by themselves.
 *
 * @param rt     exclusive
 * @param name   shown instead, as "[NAME]"; copied
 * @param value  8 bytes or longer; copied into guarded memory
 * @retval WALDO_OK     registered
 * @retval WALDO_EINVAL shorter than 8 bytes
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_runtime_add_secret(waldo_runtime *rt, const char *name,
                                                waldo_str value);

/** Called exactly once when a runtime has ended everything. */
typedef void (*waldo_closed_fn)(void *userdata, waldo_status status);

/**
 * Cancel all runs and end every process and sandbox the runtime owns. New work is refused with
 * WALDO_ECLOSED from now on. Goes on while the runtime is driven.
 *
 * @param rt        exclusive
 * @param grace_ms  commands get so many milliseconds between TERM and KILL; negative: 2 seconds.
 *                  Afterwards what could not be ended is logged
 * @param done      called from dispatch when all is over; may be NULL
 * @param userdata  given to done
 * @retval WALDO_OK      begun; done will be called
 * @retval WALDO_ECLOSED begun before; done is not called
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_status waldo_runtime_close(waldo_runtime *rt, int64_t grace_ms,
                                           waldo_closed_fn done, void *userdata);

/**
 * Close with a grace of 2 seconds, drive until closed, free: the end of a blocking program.
 *
 * @param rt  taken; NULL is a no-op; runs and sandboxes made from it are freed with it
 * Thread: driving, not from callbacks. Since: 0.1.
 */
WALDO_API void waldo_runtime_finish(waldo_runtime *rt);

/**
 * Free at once, without waiting: pending completions are delivered with WALDO_ECANCELED before it
 * returns, child processes are killed. In a forked child it forgets memory only.
 *
 * @param rt  taken; NULL is a no-op
 * Thread: driving, not from callbacks. Since: 0.1.
 */
WALDO_API void waldo_runtime_free(waldo_runtime *rt);

/** Lets any thread run a function on the driving thread. Refcounted; outlives its runtime. */
typedef struct waldo_poster waldo_poster;

/** Posted work, called from dispatch. */
typedef void (*waldo_post_fn)(void *userdata);

/**
 * @param rt  exclusive
 * @return one reference, release with waldo_poster_unref(); NULL when out of memory
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_poster *waldo_runtime_poster(waldo_runtime *rt);

/**
 * Run fn on the driving thread and wake it.
 *
 * @param poster    borrowed for the call
 * @param fn        called once from dispatch, unless the runtime is freed first
 * @param userdata  given to fn
 * @retval WALDO_OK      queued
 * @retval WALDO_ECLOSED the runtime is gone; fn is not called
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_status waldo_poster_post(waldo_poster *poster, waldo_post_fn fn, void *userdata);

/**
 * @param poster  gets one more reference; NULL is accepted
 * @return poster
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_poster *waldo_poster_ref(waldo_poster *poster);

/**
 * @param poster  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_poster_unref(waldo_poster *poster);

#ifdef __cplusplus
}
#endif

#endif
