#include "failing.h"

#include <stdlib.h>
#include <waldo/alloc.h>

struct failing failing;

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
    if (ptr == NULL) {
        return failing_malloc(size);
    }
    return failing_must_fail() ? NULL : realloc(ptr, size);
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
