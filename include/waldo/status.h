/**
 * @file
 * Status codes: one list, from which names, texts and retry advice are made.
 */
#ifndef WALDO_STATUS_H
#define WALDO_STATUS_H

#include <waldo/defs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** 0 is success, 1 to 15 are successes that say something, negative values are failures. */
typedef int32_t waldo_status;

/**
 * X(name, value, retryable, text). Values never change and are never reused.
 * Retryable means: the same call may succeed later and repeating it harms nothing.
 */
#define WALDO_STATUS_MAP(X)                                                                        \
    X(OK, 0, 0, "success")                                                                         \
    X(END, 1, 0, "nothing more to come")                                                           \
    X(PENDING, 2, 0, "will be completed later")                                                    \
    X(AGAIN, 3, 0, "nothing yet, drive the loop")                                                  \
    X(EINVAL, -1, 0, "invalid argument")                                                           \
    X(ENOMEM, -2, 1, "out of memory")                                                              \
    X(ECANCELED, -3, 0, "cancelled")                                                               \
    X(ECLOSED, -4, 0, "object is closed")                                                          \
    X(EREENTRANT, -5, 0, "called from a callback that may not drive the loop")                     \
    X(EFORKED, -6, 0, "object belongs to the parent process")                                      \
    X(EBUSY, -7, 1, "busy")                                                                        \
    X(ENOTSUP, -8, 0, "not supported")                                                             \
    X(ETOOBIG, -9, 0, "larger than the limit")                                                     \
    X(ENOTFOUND, -10, 0, "not found")                                                              \
    X(EEXISTS, -11, 0, "exists already")                                                           \
    X(EACCESS, -12, 0, "permission denied")                                                        \
    X(EIO, -13, 0, "input or output failed")                                                       \
    X(ENOSPACE, -14, 0, "no space left")                                                           \
    X(EPATH, -15, 0, "path leaves the allowed folder or has the wrong kind")                       \
    X(EUTF8, -16, 0, "text is not valid UTF-8")                                                    \
    X(EJSON, -17, 0, "not valid JSON")                                                             \
    X(ESETUP, -18, 0, "the environment is not set up")                                             \
    X(ETIMEDOUT, -19, 1, "timed out")                                                              \
    X(ETIMEDOUT_CONNECT, -20, 1, "timed out while connecting")                                     \
    X(ETIMEDOUT_IDLE, -21, 1, "timed out: no byte arrived for too long")                           \
    X(ETIMEDOUT_DEADLINE, -22, 0, "deadline passed")                                               \
    X(ERESOLVE, -23, 1, "host name could not be resolved")                                         \
    X(ECONNECT, -24, 1, "could not connect")                                                       \
    X(ETLS, -25, 0, "TLS failed")                                                                  \
    X(ETRANSPORT, -26, 1, "connection failed before the request was sent")                         \
    X(EUNKNOWN_OUTCOME, -27, 0, "connection failed after the request was sent: outcome unknown")   \
    X(EHTTP, -28, 0, "unexpected HTTP status")                                                     \
    X(EPROTO, -29, 0, "peer broke the protocol")                                                   \
    X(ETRUNCATED, -30, 1, "stream ended before its end mark")                                      \
    X(EAUTH, -31, 0, "credentials refused or missing")                                             \
    X(EQUOTA, -32, 0, "quota used up")                                                             \
    X(ERATE, -33, 1, "rate limited")                                                               \
    X(EOVERFLOW, -34, 0, "request exceeds the context window of the model")                        \
    X(EPROVIDER, -35, 1, "provider failed")                                                        \
    X(EREFUSED, -36, 0, "model refused")                                                           \
    X(EFILTER, -37, 0, "stopped by a content filter")                                              \
    X(ELIMIT, -38, 0, "limit reached")                                                             \
    X(EUNAVAILABLE, -39, 1, "backend is unavailable here")                                         \
    X(ELOST, -40, 0, "sandbox was lost")                                                           \
    X(ESTART, -41, 0, "command could not be started")                                              \
    X(ESTORE, -42, 0, "store failed")                                                              \
    X(ECONFLICT, -43, 0, "somebody else changed it first")                                         \
    X(ETOOL, -44, 0, "host tool failed the turn")                                                  \
    X(EUSER, -45, 0, "a callback of the host asked to stop")                                       \
    X(EINTERNAL, -46, 0, "internal error")                                                         \
    X(ESTALE, -47, 0, "the provider refuses what it made before")

enum {
#define WALDO_STATUS_ENUM_(name, value, retryable, text) WALDO_##name = (value),
    WALDO_STATUS_MAP(WALDO_STATUS_ENUM_)
#undef WALDO_STATUS_ENUM_
};

/**
 * @param status  any value
 * @return static text, the name such as "WALDO_ETIMEDOUT"; "WALDO_E?" for an unknown value
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_status_name(waldo_status status);

/**
 * @param status  any value
 * @return static text, one short English phrase
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_status_text(waldo_status status);

/**
 * @param status  any value
 * @return 1 when repeating the call later may succeed and harms nothing
 * Thread: any. Since: 0.1.
 */
WALDO_API int waldo_status_retryable(waldo_status status);

#ifdef __cplusplus
}
#endif

#endif
