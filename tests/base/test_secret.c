/* The slab: keeping, replacing, fetching, forgetting; nothing readable outside of a call. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "secret/secret.h"
#include "secret/slab.h"

static int make(void **state)
{
    waldo__secrets *secrets = NULL;

    if (waldo__secrets_new(&secrets, NULL) != WALDO_OK) {
        return -1;
    }
    *state = secrets;
    return 0;
}

static int drop(void **state)
{
    waldo__secrets_free(*state);
    return 0;
}

static void assert_held(waldo__secrets *secrets, const char *name, const char *want)
{
    waldo__buf out = WALDO__BUF_INIT(100000);

    assert_int_equal(waldo__secrets_append(secrets, name, &out), WALDO_OK);
    assert_string_equal(waldo__buf_str(&out).ptr, want);
    waldo__buf_free(&out);
}

static void keeps_and_replaces(void **state)
{
    waldo__secrets *secrets = *state;
    waldo__buf out = WALDO__BUF_INIT(100);

    assert_int_equal(waldo__secrets_append(secrets, "A", &out), WALDO_ENOTFOUND);
    assert_int_equal(waldo__secrets_put(secrets, "A", WALDO__S("first-value-1"), 0), WALDO_OK);
    assert_int_equal(waldo__secrets_put(secrets, "B", WALDO__S("other-value-2"), 0), WALDO_OK);
    assert_held(secrets, "A", "first-value-1");
    assert_int_equal(waldo__secrets_put(secrets, "A", WALDO__S("newer-value-3"), 0), WALDO_OK);
    assert_held(secrets, "A", "newer-value-3");
    assert_held(secrets, "B", "other-value-2");
    /* the older one is still looked for */
    waldo__scrub(secrets, WALDO__S("first-value-1 newer-value-3 other-value-2"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "[A] [A] [B]");
    waldo__buf_free(&out);
}

static void keeps_the_same_value_once(void **state)
{
    waldo__secrets *secrets = *state;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(waldo__secrets_put(secrets, "A", WALDO__S("the-same-value"), i), WALDO_OK);
    }
    assert_int_equal(secrets->all.count, 1);
    assert_int_equal(secrets->used, 14);
}

static void keeps_short_values_but_does_not_scrub_them(void **state)
{
    waldo__secrets *secrets = *state;

    assert_int_equal(waldo__secrets_put(secrets, "PIN", WALDO__S("1234567"), 0), WALDO_OK);
    assert_int_equal(waldo__secrets_put(secrets, "NONE", WALDO__S(""), 0), WALDO_OK);
    assert_held(secrets, "PIN", "1234567");
    assert_held(secrets, "NONE", "");
    assert_int_equal(waldo__secrets_found(secrets, WALDO__S("1234567")), 0);
    assert_int_equal(waldo__secrets_put(secrets, "LONG", WALDO__S("12345678"), 0), WALDO_OK);
    assert_int_equal(waldo__secrets_found(secrets, WALDO__S("12345678")), 1);
}

/* Tokens that are renewed for ever: current ones stay, the oldest replaced ones go. */
static void makes_room_for_new_tokens(void **state)
{
    waldo__secrets *secrets = *state;
    char token[2001];

    waldo__secrets_put(secrets, "FIXED", WALDO__S("fixed-value-0"), 0);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(token, sizeof token, "%02000d", i);
        assert_int_equal(waldo__secrets_put(secrets, "TOKEN", waldo__str(token), 0), WALDO_OK);
    }
    assert_held(secrets, "TOKEN", token);
    assert_held(secrets, "FIXED", "fixed-value-0");
    assert_int_equal(waldo__secrets_found(secrets, waldo__str(token)), 1);
    (void)snprintf(token, sizeof token, "%02000d", 198);
    assert_int_equal(waldo__secrets_found(secrets, waldo__str(token)), 1);
    (void)snprintf(token, sizeof token, "%02000d", 0);
    assert_int_equal(waldo__secrets_found(secrets, waldo__str(token)), 0);
}

static void refuses_more_than_the_slab_holds(void **state)
{
    waldo__secrets *secrets = *state;
    char *large = malloc(65537);

    assert_non_null(large);
    memset(large, 'x', 65537);
    assert_int_equal(waldo__secrets_put(secrets, "A", waldo__strn(large, 65537), 0), WALDO_ETOOBIG);
    assert_int_equal(waldo__secrets_put(secrets, "A", WALDO__S("small-value"), 0), WALDO_OK);
    assert_int_equal(waldo__secrets_put(secrets, "A", waldo__strn(large, 65536), 0), WALDO_ETOOBIG);
    assert_held(secrets, "A", "small-value");
    assert_int_equal(waldo__secrets_put(secrets, "B", waldo__strn(large, 65536 - 11), 0), WALDO_OK);
    assert_int_equal(waldo__secrets_put(secrets, "C", WALDO__S("c"), 0), WALDO_ETOOBIG);
    free(large);
}

/* The kernel says whether a page may be read: no signal handler needed. */
static int readable(const void *at)
{
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)at, 1 };

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static void locks_the_slab_between_calls(void **state)
{
    waldo__secrets *secrets = *state;
    waldo__buf out = WALDO__BUF_INIT(100);

    assert_int_equal(readable(secrets), 1);
    waldo__secrets_put(secrets, "A", WALDO__S("sleeping-value"), 0);
    assert_int_equal(readable(secrets->slab), 0);
    waldo__scrub(secrets, WALDO__S("a sleeping-value"), &out);
    assert_int_equal(readable(secrets->slab), 0);
    waldo__secrets_append(secrets, "A", &out);
    assert_int_equal(readable(secrets->slab), 0);
    waldo__secrets_put(secrets, "A", WALDO__S("sleeping-value"), 0);
    assert_int_equal(readable(secrets->slab), 0);
    waldo__slab_open(secrets);
    assert_int_equal(readable(secrets->slab), 1);
    waldo__slab_close(secrets);
    waldo__buf_free(&out);
}

/* It begins with a page and moves; what it leaves is unreadable, too. */
static void slab_grows(void **state)
{
    waldo__secrets *secrets = *state;
    const unsigned char *before = secrets->slab;
    size_t first = secrets->size;
    char value[1001];
    char name[16];

    waldo__secrets_put(secrets, "FIRST", WALDO__S("first-value"), 0);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(value, sizeof value, "%01000d", i);
        (void)snprintf(name, sizeof name, "K%d", i);
        assert_int_equal(waldo__secrets_put(secrets, name, waldo__str(value), 0), WALDO_OK);
        assert_int_equal(readable(secrets->slab), 0);
        assert_held(secrets, name, value);
    }
    assert_true(secrets->size > first && secrets->size < 40000);
    assert_true(secrets->slab != before);
    assert_int_equal(readable(before), 0);
    assert_held(secrets, "FIRST", "first-value");
    assert_held(secrets, name, value);
    assert_int_equal(waldo__secrets_found(secrets, WALDO__S("xfirst-value")), 1);
}

typedef struct source {
    const char *value;
    int64_t expires_at;
    waldo_status status;
    int asked;
    char name[32];
} source;

static waldo_status get(void *userdata, const char *name, waldo_str *ret_value,
                        int64_t *ret_expires_at)
{
    source *from = userdata;

    from->asked++;
    (void)snprintf(from->name, sizeof from->name, "%s", name);
    if (from->status == WALDO_OK) {
        *ret_value = waldo__str(from->value);
        *ret_expires_at = from->expires_at;
    }
    return from->status;
}

static void asks_a_source_once(void **state)
{
    waldo__secrets *secrets = *state;
    source from = { .value = "value-from-source" };
    waldo_keys keys = { sizeof keys, &from, get };

    assert_int_equal(waldo__secrets_fetch(secrets, &keys, "KEY", 0, NULL), WALDO_OK);
    assert_int_equal(waldo__secrets_fetch(secrets, &keys, "KEY", 0, NULL), WALDO_OK);
    assert_int_equal(from.asked, 1);
    assert_string_equal(from.name, "KEY");
    assert_held(secrets, "KEY", "value-from-source");
    from.value = "renewed-value";
    assert_int_equal(waldo__secrets_fetch(secrets, &keys, "KEY", 1, NULL), WALDO_OK);
    assert_int_equal(from.asked, 2);
    assert_held(secrets, "KEY", "renewed-value");
}

static void asks_again_when_a_key_has_expired(void **state)
{
    waldo__secrets *secrets = *state;
    source from = { .value = "short-lived-value", .expires_at = waldo__wall_ms() / 1000 - 1 };
    waldo_keys keys = { sizeof keys, &from, get };

    waldo__secrets_fetch(secrets, &keys, "KEY", 0, NULL);
    from.expires_at = waldo__wall_ms() / 1000 + 3600;
    waldo__secrets_fetch(secrets, &keys, "KEY", 0, NULL);
    assert_int_equal(from.asked, 2);
    waldo__secrets_fetch(secrets, &keys, "KEY", 0, NULL);
    assert_int_equal(from.asked, 2);
}

static void names_the_key_that_is_missing(void **state)
{
    waldo__secrets *secrets = *state;
    source from = { .status = WALDO_ENOTFOUND };
    waldo_keys keys = { sizeof keys, &from, get };
    waldo_error *error = NULL;

    assert_int_equal(waldo__secrets_fetch(secrets, &keys, "MY_KEY", 0, &error), WALDO_EAUTH);
    assert_string_equal(waldo_error_message(error),
                        "the key MY_KEY is needed, but the source of keys has none (not found)");
    waldo_error_free(error);
    error = NULL;
    assert_int_equal(waldo__secrets_fetch(secrets, NULL, "MY_KEY", 0, &error), WALDO_EAUTH);
    assert_string_equal(waldo_error_message(error),
                        "the key MY_KEY is needed, but no source of keys is set");
    waldo_error_free(error);
    from = (source){ .value = "" };
    assert_int_equal(waldo__secrets_fetch(secrets, &keys, "MY_KEY", 0, NULL), WALDO_EAUTH);
}

static void refuses_a_key_that_does_not_fit(void **state)
{
    waldo__secrets *secrets = *state;
    char *large = malloc(70001);
    source from = { .value = large };
    waldo_keys keys = { sizeof keys, &from, get };
    waldo_error *error = NULL;

    assert_non_null(large);
    memset(large, 'y', 70000);
    large[70000] = '\0';
    assert_int_equal(waldo__secrets_fetch(secrets, &keys, "BIG", 0, &error), WALDO_ETOOBIG);
    assert_null(strstr(waldo_error_message(error), "yyyy"));
    assert_non_null(strstr(waldo_error_message(error), "BIG"));
    waldo_error_free(error);
    free(large);
}

static void reads_keys_from_the_environment(void **state)
{
    waldo__secrets *secrets = *state;
    const waldo_keys *keys = waldo_keys_from_env();

    setenv("WALDO_TEST_KEY", "value-of-the-environment", 1);
    setenv("WALDO_TEST_EMPTY", "", 1);
    unsetenv("WALDO_TEST_NONE");
    assert_int_equal(keys->size, sizeof *keys);
    assert_int_equal(waldo__secrets_fetch(secrets, keys, "WALDO_TEST_KEY", 0, NULL), WALDO_OK);
    assert_held(secrets, "WALDO_TEST_KEY", "value-of-the-environment");
    assert_int_equal(waldo__secrets_fetch(secrets, keys, "WALDO_TEST_EMPTY", 0, NULL), WALDO_EAUTH);
    assert_int_equal(waldo__secrets_fetch(secrets, keys, "WALDO_TEST_NONE", 0, NULL), WALDO_EAUTH);
}

/* FIPS 180-2, appendix B. */
static void hashes(void **state)
{
    char hex[65];

    (void)state;
    waldo__sha256_hex(WALDO__S("abc"), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    waldo__sha256_hex(WALDO__S(""), hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void frees_nothing(void **state)
{
    (void)state;
    waldo__secrets_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_and_replaces, make, drop),
        cmocka_unit_test_setup_teardown(keeps_the_same_value_once, make, drop),
        cmocka_unit_test_setup_teardown(keeps_short_values_but_does_not_scrub_them, make, drop),
        cmocka_unit_test_setup_teardown(makes_room_for_new_tokens, make, drop),
        cmocka_unit_test_setup_teardown(refuses_more_than_the_slab_holds, make, drop),
        cmocka_unit_test_setup_teardown(locks_the_slab_between_calls, make, drop),
        cmocka_unit_test_setup_teardown(slab_grows, make, drop),
        cmocka_unit_test_setup_teardown(asks_a_source_once, make, drop),
        cmocka_unit_test_setup_teardown(asks_again_when_a_key_has_expired, make, drop),
        cmocka_unit_test_setup_teardown(names_the_key_that_is_missing, make, drop),
        cmocka_unit_test_setup_teardown(refuses_a_key_that_does_not_fit, make, drop),
        cmocka_unit_test_setup_teardown(reads_keys_from_the_environment, make, drop),
        cmocka_unit_test(hashes),
        cmocka_unit_test(frees_nothing),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
