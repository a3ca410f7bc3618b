/* Openings of a backend that complete when the test says so, one at a time. */
#ifndef WALDO_TEST_HELD_H
#define WALDO_TEST_HELD_H

#include <waldo/sys/backend.h>

/* What to open with instead of done, of which failures are told at once. */
waldo_backend_done_fn held_back(const waldo_backend_env *env, waldo_backend_done_fn done);

/* Drive until it would complete, which it does behind held_release(). */
void held_wait(waldo_runtime *rt, uint32_t step_ms);
void held_release(void);

#endif
