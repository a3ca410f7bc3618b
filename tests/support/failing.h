/*
 * An allocator that fails when told to, for walks that make every allocation fail in turn: waldo's,
 * and cJSON's where it is installed for that, too.
 */
#ifndef WALDO_TEST_FAILING_H
#define WALDO_TEST_FAILING_H

#include <stddef.h>

struct failing {
    int on;         /* only then allocations are counted and fail */
    size_t asked;   /* allocations since the walk's last step */
    size_t fail_at; /* the one that fails; 0: none */
    int and_later;  /* and all after it */
    size_t failed;  /* since the walk's last step */
    size_t living;  /* blocks that were not given back, whether on or not */
};

extern struct failing failing;

/*
 * A walk. After failing_begin() nothing fails, and the test does its work once to see how it ends;
 * then it does it again as long as failing_next() says so, which makes an allocation fail: each in
 * turn, at most so many, then each with all after it. It fails a test that leaves something behind.
 */
void failing_begin(void);
int failing_next(size_t most_allocations);

/* Before anything of the library is called. cJSON's hooks are the program's to set, with these. */
void failing_install(void);

int failing_must_fail(void);
void *failing_malloc(size_t size);
void *failing_calloc(size_t count, size_t size);
void *failing_realloc(void *ptr, size_t size);
void failing_free(void *ptr);

#endif
