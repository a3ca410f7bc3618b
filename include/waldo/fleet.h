/**
 * @file
 * Machines that exist, whoever made them: to find what outlived its process, and to end it.
 */
#ifndef WALDO_FLEET_H
#define WALDO_FLEET_H

#include <waldo/runtime.h>
#include <waldo/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a machine does. */
typedef int32_t waldo_machine_state;
enum {
    WALDO_MACHINE_UNKNOWN = 0,
    WALDO_MACHINE_CREATED, /* made, but not started: nothing runs in it */
    WALDO_MACHINE_RUNNING,
    WALDO_MACHINE_PAUSED,
    WALDO_MACHINE_ENDED /* what is left of one that ran */
};

/** One machine as its backend knows it. Borrowed for the call; texts are never NULL. */
typedef struct waldo_sandbox_info {
    uint32_t size;
    waldo_machine_state state;
    int32_t owner_alive; /* the process that made it lives on this machine: 1, 0; -1: unknown */
    int32_t mine;        /* made by this user on this machine: 1, 0; -1: unknown */
    const char *backend; /* such as "docker" */
    const char *id;      /* for waldo_sandbox_destroy() */
    const char *name;    /* "" unless it was named */
    const char *owner;   /* label of the process that made it */
    const char *about;   /* such as its image */
    int64_t created_ms;  /* since 1970; 0: unknown */
    int64_t expires_ms;  /* since 1970: when it ends by itself; 0: unknown, or never */
    int64_t lease_ms;    /* how long it lives without a host; 0: it ends with its owner */
} waldo_sandbox_info;

typedef void (*waldo_sandbox_info_fn)(void *userdata, const waldo_sandbox_info *info);

/**
 * Tell every machine that a backend of this build has made and can list, other processes' too.
 * Backends whose machines cannot outlive their process list none.
 *
 * @param rt        exclusive
 * @param each      called once for each machine, from dispatch
 * @param done      called exactly once after the last, from dispatch; may be NULL. A backend that
 *                  fails does not keep the others' machines from being told: the status is then
 *                  the first such failure, and the message begins with the backend's name; the
 *                  log tells of the others
 * @param userdata  given to both
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_list(waldo_runtime *rt, waldo_sandbox_info_fn each,
                                  waldo_sandbox_fn done, void *userdata);

/**
 * End a machine that waldo_sandbox_list() told, and all that runs in it, whoever uses it. No
 * machine that a backend did not make itself can be ended.
 *
 * @param rt        exclusive
 * @param backend   its backend
 * @param id        its id; copied
 * @param done      called exactly once, from dispatch; WALDO_ENOTFOUND (no such machine),
 *                  WALDO_EINVAL (no such backend, or no id), WALDO_ENOTSUP (it cannot end machines
 *                  by id) as expected failures; may be NULL
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_destroy(waldo_runtime *rt, const char *backend, const char *id,
                                     waldo_sandbox_fn done, void *userdata);

#ifdef __cplusplus
}
#endif

#endif
