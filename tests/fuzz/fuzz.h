/* What every fuzz target defines; libFuzzer or replay.c calls it. */
#ifndef WALDO_TESTS_FUZZ_H
#define WALDO_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
