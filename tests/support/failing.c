#include "failing.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <waldo/alloc.h>

struct failing failing;

static size_t living_before;

void failing_begin(void)
{
    failing.fail_at = 0;
    failing.and_later = 0;
}

int failing_next(size_t most_allocations)
{
    if (failing.fail_at == 0) {
        living_before = failing.living;
    } else if (failing.living != living_before) {
        fail_msg("allocation %zu%s leaks", failing.fail_at, failing.and_later ? " and later" : "");
    }
    if (failing.fail_at > 0 && failing.failed == 0) { /* there were fewer: the round is over */
        failing.fail_at = 0;
        failing.and_later = !failing.and_later;
        if (!failing.and_later) {
            return 0;
        }
    }
    assert_true(failing.fail_at < most_allocations);
    failing.fail_at++;
    failing.asked = failing.failed = 0;
    return 1;
}

int failing_must_fail(void)
{
    size_t number;
    int fails;

    if (!failing.on) {
        return 0;
    }
    number = ++failing.asked;
    fails = number == failing.fail_at || (failing.and_later && number > failing.fail_at);
    failing.failed += (size_t)fails;
    return fails;
}

void *failing_malloc(size_t size)
{
    void *ptr = failing_must_fail() ? NULL : malloc(size);

    failing.living += ptr != NULL;
    return ptr;
}

void *failing_calloc(size_t count, size_t size)
{
    void *ptr = failing_must_fail() ? NULL : calloc(count, size);

    failing.living += ptr != NULL;
    return ptr;
}

void *failing_realloc(void *ptr, size_t size)
{
    if (ptr == NULL) {
        return failing_malloc(size);
    }
    return failing_must_fail() ? NULL : realloc(ptr, size);
}

void failing_free(void *ptr)
{
    failing.living -= ptr != NULL;
    free(ptr);
}

static void *hook_malloc(void *userdata, size_t size)
{
    (void)userdata;
    return failing_malloc(size);
}

static void *hook_realloc(void *userdata, void *ptr, size_t size)
{
    (void)userdata;
    return failing_realloc(ptr, size);
}

static void hook_free(void *userdata, void *ptr)
{
    (void)userdata;
    failing_free(ptr);
}

void failing_install(void)
{
    const waldo_allocator hook = { hook_malloc, hook_realloc, hook_free, NULL };

    if (waldo_set_allocator(&hook) != WALDO_OK) {
        abort();
    }
}
