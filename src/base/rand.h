/* Randomness from the kernel. */
#ifndef WALDO_BASE_RAND_H
#define WALDO_BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

void waldo__random(void *bytes, size_t len);
uint32_t waldo__random_below(uint32_t limit); /* uniform; 0 when limit is 0 */

/* Fill text with len letters and digits and a NUL: text has len + 1 bytes. */
void waldo__random_word(char *text, size_t len);

#endif
