/* Background commands, beside what <waldo/background.h> says of them. */
#ifndef WALDO_SANDBOX_BACKGROUND_H
#define WALDO_SANDBOX_BACKGROUND_H

#include "base/buf.h"
#include <waldo/background.h>

/* Can the backend in use have commands in the background? */
int waldo__background_offered(const waldo_sandbox *sandbox);

/* Can one be started? A machine that may have some already has to be open before. */
int waldo__background_ready(const waldo_sandbox *sandbox);

/* Learn what went on in a machine before this session; ends with waldo__live_recovered(). */
void waldo__background_recover(waldo_sandbox *sandbox);

/* The stream broke: what runs is not known until they were recovered. */
void waldo__background_unknown(waldo_sandbox *sandbox);
void waldo__background_lost(waldo_sandbox *sandbox); /* and will not be */

/* The machine is lost: none is known to its successor. Those that ran are told by number. */
void waldo__background_gone(waldo_sandbox *sandbox, waldo__buf *ret_numbers);

/* For sandbox.c: all of them, once no op is left. */
void waldo__background_free_all(waldo_sandbox *sandbox);

#endif
