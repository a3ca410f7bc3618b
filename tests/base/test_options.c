/*
 * Sized option structs: every public one has its size first, is zero after its macro, and is taken
 * in an older (shorter) and a newer (longer) form. The allocator hook.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/str.h"
#include <waldo/testing.h>
#include <waldo/waldo.h>

static const waldo_agent_options agent_options = WALDO_AGENT();
static const waldo_model_options model_options = WALDO_MODEL();
static const waldo_run_options run_options = WALDO_RUN();
static const waldo_runtime_options runtime_options = WALDO_RUNTIME();
static const waldo_sandbox_spec_options sandbox_spec_options = WALDO_SANDBOX_SPEC();
static const waldo_exec_options exec_options = WALDO_EXEC();
static const waldo_testing_sandbox_options testing_sandbox_options = WALDO_TESTING_SANDBOX();
/* Its macro makes a tool at once. */
static const waldo_tool_options tool_options = { .size = sizeof tool_options };

static const struct {
    const char *name;
    const void *initial;
    size_t size;
    size_t size_at;
} structs[] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
        "waldo_" #name, &name, sizeof name, offsetof(waldo_##name, size)                           \
    }
    ROW(agent_options),        ROW(model_options), ROW(run_options),  ROW(runtime_options),
    ROW(sandbox_spec_options), ROW(exec_options),  ROW(tool_options), ROW(testing_sandbox_options),
#undef ROW
};

enum { STRUCTS = sizeof structs / sizeof structs[0], LARGEST = 1024 };

static void macros_set_the_size_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRUCTS; i++) {
        const unsigned char *bytes = structs[i].initial;
        uint32_t size;

        memcpy(&size, bytes, sizeof size);
        assert_int_equal(structs[i].size_at, 0);
        assert_int_equal(size, structs[i].size);
        for (size_t at = sizeof size; at < size; at++) {
            assert_int_equal(bytes[at], 0);
        }
        assert_true(structs[i].size * 2 < LARGEST);
    }
}

/* A member at the end that an older host does not know is the default, which is zero. */
static void takes_older_structs(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRUCTS; i++) {
        for (uint32_t size = sizeof size; size <= structs[i].size; size++) {
            unsigned char old[LARGEST], copy[LARGEST];

            memset(old, 0xaa, sizeof old); /* what lies behind an older struct is not read */
            memset(copy, 0xbb, sizeof copy);
            memcpy(old, &size, sizeof size);
            assert_int_equal(waldo__options_copy(copy, structs[i].size, old), WALDO_OK);
            memcpy(old, &(uint32_t){ (uint32_t)structs[i].size }, sizeof(uint32_t));
            memset(old + size, 0, structs[i].size - size);
            assert_memory_equal(copy, old, structs[i].size);
            assert_int_equal(copy[structs[i].size], 0xbb);
        }
    }
}

/* A member that we do not know must be the default too, or it would be ignored in silence. */
static void takes_newer_structs_only_with_an_unused_tail(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRUCTS; i++) {
        uint32_t size = (uint32_t)structs[i].size * 2;
        unsigned char newer[LARGEST] = { 0 }, copy[LARGEST];

        memset(newer, 0xaa, structs[i].size);
        memcpy(newer, &size, sizeof size);
        assert_int_equal(waldo__options_copy(copy, structs[i].size, newer), WALDO_OK);
        assert_memory_equal(copy + sizeof size, newer + sizeof size, structs[i].size - sizeof size);
        memcpy(&size, copy, sizeof size);
        assert_int_equal(size, structs[i].size);
        for (size_t at = structs[i].size; at < structs[i].size * 2; at++) {
            newer[at] = 1;
            assert_int_equal(waldo__options_copy(copy, structs[i].size, newer), WALDO_EINVAL);
            newer[at] = 0;
        }
    }
}

static void refuses_a_size_that_was_not_set(void **state)
{
    unsigned char copy[LARGEST], zero[LARGEST] = { 0 };

    (void)state;
    for (uint32_t size = 0; size < sizeof size; size++) {
        memcpy(zero, &size, sizeof size);
        assert_int_equal(waldo__options_copy(copy, 64, zero), WALDO_EINVAL);
    }
}

static void takes_null_as_all_defaults(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRUCTS; i++) {
        unsigned char copy[LARGEST];

        memset(copy, 0xbb, sizeof copy);
        assert_int_equal(waldo__options_copy(copy, structs[i].size, NULL), WALDO_OK);
        assert_memory_equal(copy, structs[i].initial, structs[i].size);
    }
}

/* The names of all public structs that end with _options, in the order of the headers. */
static size_t count_options(const char *path, size_t *ret_unknown)
{
    FILE *file = fopen(path, "re");
    char line[256];
    size_t count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        waldo_str rest = waldo__str_trim(waldo__str(line));
        int known = 0;

        if (!waldo__str_starts(rest, "} waldo_") || !waldo__str_ends(rest, "_options;")) {
            continue;
        }
        rest = waldo__strn(rest.ptr + 2, rest.len - 3);
        for (size_t i = 0; i < STRUCTS; i++) {
            known |= waldo__str_is(rest, structs[i].name);
        }
        *ret_unknown += !known;
        count++;
    }
    (void)fclose(file);
    return count;
}

static void this_test_knows_every_options_struct(void **state)
{
    DIR *folder = opendir(PUBLIC_HEADERS);
    struct dirent *entry;
    size_t count = 0, unknown = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        char path[4096];

        if (waldo__str_ends(waldo__str(entry->d_name), ".h")) {
            (void)snprintf(path, sizeof path, "%s/%s", PUBLIC_HEADERS, entry->d_name);
            count += count_options(path, &unknown);
        }
    }
    (void)closedir(folder);
    assert_int_equal(unknown, 0);
    assert_int_equal(count, STRUCTS);
}

/* ---- the allocator ---- */

static size_t calls;

static void *hook_malloc(void *userdata, size_t size)
{
    ++*(size_t *)userdata;
    return malloc(size);
}

static void *hook_realloc(void *userdata, void *ptr, size_t size)
{
    ++*(size_t *)userdata;
    return realloc(ptr, size);
}

static void hook_free(void *userdata, void *ptr)
{
    ++*(size_t *)userdata;
    free(ptr);
}

/* In one test, because the hook is fixed by the first allocation of the process. */
static void sets_the_allocator_before_its_first_use_only(void **state)
{
    waldo_allocator hook = { hook_malloc, hook_realloc, hook_free, &calls }, part = hook;
    char *text;

    (void)state;
    part.realloc_fn = NULL;
    assert_int_equal(waldo_set_allocator(&part), WALDO_EINVAL);
    assert_int_equal(waldo_set_allocator(NULL), WALDO_OK);
    assert_int_equal(waldo_set_allocator(&hook), WALDO_OK);
    waldo__free(NULL);
    assert_int_equal(calls, 0);
    text = waldo__strdup("text");
    assert_string_equal(text, "text");
    text = waldo__realloc(text, 100);
    waldo__free(text);
    assert_int_equal(calls, 3);
    assert_int_equal(waldo_set_allocator(&hook), WALDO_EBUSY);
    assert_int_equal(waldo_set_allocator(NULL), WALDO_EBUSY);
}

static void refuses_sizes_that_overflow(void **state)
{
    void *none;

    (void)state;
    assert_null(waldo__calloc(SIZE_MAX / 2, 3));
    assert_null(waldo__reallocarray(NULL, SIZE_MAX / 2, 3));
    assert_null(waldo__strndup("", SIZE_MAX));
    assert_null(waldo__strdup(NULL));
    none = waldo__alloc(0);
    assert_non_null(none);
    waldo__free(none);
    none = waldo__strndup(NULL, 0);
    assert_string_equal(none, "");
    waldo__free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_the_allocator_before_its_first_use_only),
        cmocka_unit_test(refuses_sizes_that_overflow),
        cmocka_unit_test(macros_set_the_size_and_nothing_else),
        cmocka_unit_test(takes_older_structs),
        cmocka_unit_test(takes_newer_structs_only_with_an_unused_tail),
        cmocka_unit_test(refuses_a_size_that_was_not_set),
        cmocka_unit_test(takes_null_as_all_defaults),
        cmocka_unit_test(this_test_knows_every_options_struct),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
