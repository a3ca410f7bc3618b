/* Included before the sources of the testing library, so that its memory fails with failing.h's. */
#ifndef WALDO_TEST_FAILING_MEMORY_H
#define WALDO_TEST_FAILING_MEMORY_H

#include <stdlib.h>

#include "failing.h"

#define malloc(size)        failing_malloc(size)
#define calloc(count, size) failing_calloc(count, size)
#define realloc(ptr, size)  failing_realloc(ptr, size)
#define free                failing_free

#endif
