/* Randomness from the kernel. */
#ifndef WALDO_BASE_RAND_H
#define WALDO_BASE_RAND_H

#include <stddef.h>

void waldo__random(void *bytes, size_t len);

/* Fill text with len letters and digits and a NUL: text has len + 1 bytes. */
void waldo__random_word(char *text, size_t len);

#endif
