/* Ending whole process trees below a subreaper. */
#ifndef WALDO_HAND_TREE_H
#define WALDO_HAND_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads a decimal number at *at, moves on past it and one blank. */
long next_number(const char **at);

/* Is /proc there and does it list processes? */
bool tree_visible(void);

/*
 * Signals every descendant of this process but those at or below a pid of keep.
 * Returns how many there were, -1 if they cannot be seen.
 */
int tree_signal(int sig, const pid_t *keep, size_t keep_count);

#endif
