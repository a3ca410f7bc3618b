/* Removing a directory with all it holds. */
#ifndef WALDO_HAND_REMOVE_H
#define WALDO_HAND_REMOVE_H

#include <stdint.h>

/* 0 or an errno; adds the number of removed entries. */
int remove_tree(int dir, const char *name, uint64_t *removed);

#endif
