/**
 * @file
 * What some machines can do beside running commands: be paused, show a port to the outside, change
 * what they reach. Where a backend cannot, WALDO_ENOTSUP says so.
 */
#ifndef WALDO_MACHINE_H
#define WALDO_MACHINE_H

#include <waldo/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Stop the machine where it is: memory, files and background commands stay, nothing runs, and it
 * costs as little as its backend can make it. It goes on with the next operation, whatever that
 * is, or with waldo_sandbox_resume(); background commands then go on under their numbers, and what
 * is written to one, or a signal, waits for that or is refused with WALDO_EBUSY. The
 * idle time does not run meanwhile; a lease does. Closing ends a paused machine, detaching leaves
 * it paused. With a host that dies an ephemeral one may stay: waldo_sandbox_list() tells.
 *
 * @param sandbox   exclusive; one that is paused, or not open, is left as it is: WALDO_OK
 * @param done      called exactly once, from dispatch; may be NULL. WALDO_EBUSY when something
 *                  other than background commands is in progress (a command, a file operation, a
 *                  waldo_background_read()), which is left alone; WALDO_ENOTSUP; other failures of
 *                  the sandbox. A machine that could not be paused goes on. A snapshot of
 *                  WALDO_SNAPSHOTS_TURN that is being taken is waited for
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_pause(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata);

/**
 * Let a paused machine go on. One that cannot is lost, as by any other reason.
 *
 * @param sandbox   exclusive; one that is not paused is left as it is: WALDO_OK
 * @param done      called exactly once, from dispatch; may be NULL. WALDO_ELOST when the machine is
 *                  gone; other failures of the sandbox
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_resume(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata);

/** The URL of a port; borrowed for the call, NUL-terminated, empty unless status is WALDO_OK. */
typedef void (*waldo_url_fn)(void *userdata, waldo_status status, waldo_str url,
                             const waldo_error *error);

/**
 * Get the URL under which a server that listens in the machine can be reached from outside.
 * Whether one listens is not looked at, and who may reach it is the provider's rule: see the page
 * of the backend.
 *
 * @param sandbox   exclusive; opened if need be
 * @param port      1 to 65535
 * @param done      called exactly once, from dispatch; WALDO_EINVAL, WALDO_ENOTSUP; other failures
 *                  of the sandbox
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_port_url(waldo_sandbox *sandbox, uint32_t port, waldo_url_fn done,
                                      void *userdata);

/**
 * Change what the machine may reach, for what runs in it and what comes. Another machine of the
 * same recipe, such as the next one after a failover, begins with the recipe's own. A model that
 * was told of the network by its instructions is not told of the change.
 *
 * @param sandbox   exclusive; opened if need be
 * @param net       a level; WALDO_NET_DEFAULT is the recipe's for the backend in use, and none that
 *                  a machine made elsewhere has
 * @param hosts     reachable hosts for WALDO_NET_HOSTS, NULL-terminated, copied; NULL for other
 *                  levels. With WALDO_NET_DEFAULT the recipe's are used
 * @param done      called exactly once, from dispatch; may be NULL. WALDO_EINVAL, WALDO_ENOTSUP (it
 *                  cannot be changed, or the level cannot be had); other failures of the sandbox.
 *                  On failure the network is as it was
 * @param userdata  given to done
 * Thread: driving. Since: 0.1.
 */
WALDO_API void waldo_sandbox_set_net(waldo_sandbox *sandbox, waldo_net net,
                                     const char *const *hosts, waldo_sandbox_fn done,
                                     void *userdata);

#ifdef __cplusplus
}
#endif

#endif
