/* From a RUN request to a running program, with exact errors. */
#ifndef WALDO_HAND_SPAWN_H
#define WALDO_HAND_SPAWN_H

#include <sys/types.h>

#include "parent.h"

#define SCRIPT_FD 3 /* named in docs/hand-protocol.md */

/*
 * Starts the program with descriptors 0 to 2 of this process. Writes NUL bytes into the frame, so
 * it is only for a process that does not read the frame again. Returns the process id, or -1 with
 * ret_err and ret_phase.
 */
pid_t spawn_run(const struct run *run, int *ret_err, uint8_t *ret_phase);

#endif
