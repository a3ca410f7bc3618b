/**
 * @file
 * For authors of stores. Stable within a minor version only.
 *
 * A store keeps streams of records, all bytes: an append at an expected sequence number, a load,
 * a lease. Everything a run does follows "append, durable, act", so an append that is never
 * reported durable stops the run, and nothing else.
 */
#ifndef WALDO_SYS_STORE_H
#define WALDO_SYS_STORE_H

#include <waldo/store.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WALDO_STORE_VERSION 1u

/**
 * Called exactly once for an append or a lease; from inside the call that asked for it only with
 * WALDO_ENOMEM, when nothing was taken.
 */
typedef void (*waldo_store_done_fn)(void *userdata, waldo_status status);

/** Receives the records of a load in order; a non-zero return stops it and is handed back. */
typedef waldo_status (*waldo_store_record_fn)(void *userdata, uint64_t seq, waldo_str record);

/**
 * What a store implements. Append-only: new members come at the end and raise the version; the core
 * checks version and size before it calls a newer one. All ops are called on the driving thread and
 * return at once.
 */
typedef struct waldo_store_ops {
    uint32_t version; /* WALDO_STORE_VERSION */
    uint32_t size;    /* sizeof(waldo_store_ops) */
    const char *name; /* static */

    /**
     * Mandatory. Add records to a stream, all or none.
     *   stream        name; borrowed for the call
     *   expected_seq  number of records the stream holds now, else WALDO_ECONFLICT
     *   records       copied
     *   done          called exactly once: WALDO_OK when they will survive a crash;
     *                 WALDO_ECONFLICT; WALDO_ESTORE
     */
    void (*append)(void *self, const char *stream, uint64_t expected_seq, const waldo_str *records,
                   size_t count, waldo_store_done_fn done, void *userdata);

    /** Mandatory. Give the records from a sequence number on; WALDO_ENOTFOUND: no such stream. */
    waldo_status (*load)(void *self, const char *stream, uint64_t from_seq,
                         waldo_store_record_fn each, void *userdata);

    /** Optional. Be the only writer of a stream for ttl_ms of wall clock; ttl_ms 0 gives it up. */
    void (*lease)(void *self, const char *stream, const char *owner, int64_t ttl_ms,
                  waldo_store_done_fn done, void *userdata);

    /** Optional. Called once a loop turn after the appends of that turn: one durable commit. */
    void (*commit)(void *self);

    /** Mandatory. Free; pending completions are dropped. */
    void (*destroy)(void *self);

    /**
     * Optional. A runtime begins to use the store; poster lets other threads complete appends.
     * Called with NULL when it stops.
     */
    void (*attach)(void *self, waldo_poster *poster);
} waldo_store_ops;

/**
 * Make a store from its operations.
 *
 * @param ops   borrowed, must outlive the store; mandatory members set
 * @param self  given to every op; freed by ops->destroy
 * @return one reference, release with waldo_store_unref(); NULL when out of memory or ops is bad,
 *         and then self is still the caller's
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_store *waldo_store_from_ops(const waldo_store_ops *ops, void *self);

#ifdef __cplusplus
}
#endif

#endif
