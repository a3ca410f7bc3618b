/* The growing buffer: its maximum, its sticky failure, what it hands out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <waldo/alloc.h>

#include "base/alloc.h"
#include "base/buf.h"

/* ---- an allocator that looks at what is given back ---- */

static const char word[] = "sk-the-secret";
static size_t found;

static void *hook_malloc(void *userdata, size_t size)
{
    (void)userdata;
    return calloc(1, size); /* so that what is found is the buffer's */
}

static void hook_free(void *userdata, void *ptr)
{
    (void)userdata;
    found += ptr != NULL && memmem(ptr, malloc_usable_size(ptr), word, sizeof word - 1) != NULL;
    free(ptr);
}

static void *hook_realloc(void *userdata, void *ptr, size_t size)
{
    void *other = hook_malloc(userdata, size);
    size_t old = ptr != NULL ? malloc_usable_size(ptr) : 0;

    if (other != NULL && ptr != NULL) {
        memcpy(other, ptr, old < size ? old : size);
        hook_free(userdata, ptr);
    }
    return other;
}

static void is_empty_text_before_anything_is_added(void **state)
{
    waldo__buf buf = WALDO__BUF_INIT(10);

    (void)state;
    assert_string_equal(waldo__buf_str(&buf).ptr, "");
    assert_int_equal(waldo__buf_str(&buf).len, 0);
    waldo__buf_consume(&buf, 0);
    waldo__buf_truncate(&buf, 0);
    waldo__buf_clear(&buf);
    waldo__buf_init_wiped(&buf, 10);
    waldo__buf_free(&buf);
}

static void appends_in_every_way(void **state)
{
    waldo__buf buf;

    (void)state;
    waldo__buf_init(&buf, 1000);
    waldo__buf_add(&buf, "a\0b", 3);
    waldo__buf_add_str(&buf, WALDO__S("cd"));
    waldo__buf_puts(&buf, "ef");
    waldo__buf_putc(&buf, 'g');
    assert_int_equal(waldo__buf_printf(&buf, "%d-%s", 42, "h"), WALDO_OK);
    waldo__buf_add(&buf, NULL, 0);
    assert_int_equal(buf.len, 12);
    assert_memory_equal(buf.ptr, "a\0bcdefg42-h", 13);
    waldo__buf_free(&buf);
    assert_int_equal(buf.max, 1000);
}

static void fills_to_its_maximum_and_not_beyond(void **state)
{
    (void)state;
    for (size_t max = 0; max < 200; max++) {
        waldo__buf buf = WALDO__BUF_INIT(max);

        for (size_t i = 0; i < max; i++) {
            assert_int_equal(waldo__buf_putc(&buf, 'x'), WALDO_OK);
        }
        assert_int_equal(waldo__buf_putc(&buf, 'x'), WALDO_ETOOBIG);
        assert_int_equal(buf.len, max);
        assert_true(buf.cap <= max + 1);
        assert_int_equal(strlen(waldo__buf_str(&buf).ptr), max);
        waldo__buf_free(&buf);
    }
}

static void keeps_its_first_failure(void **state)
{
    waldo__buf buf = WALDO__BUF_INIT(4);

    (void)state;
    waldo__buf_puts(&buf, "ab");
    assert_int_equal(waldo__buf_puts(&buf, "cde"), WALDO_ETOOBIG);
    assert_int_equal(waldo__buf_putc(&buf, 'c'), WALDO_ETOOBIG);
    assert_int_equal(waldo__buf_printf(&buf, "c"), WALDO_ETOOBIG);
    assert_null(waldo__buf_reserve(&buf, 1));
    assert_null(waldo__buf_take(&buf, NULL));
    assert_string_equal(waldo__buf_str(&buf).ptr, "ab");
    waldo__buf_clear(&buf);
    assert_int_equal(waldo__buf_puts(&buf, "cdef"), WALDO_OK);
    assert_string_equal(waldo__buf_str(&buf).ptr, "cdef");
    waldo__buf_free(&buf);
}

static void refuses_lengths_that_overflow(void **state)
{
    waldo__buf buf = WALDO__BUF_INIT(SIZE_MAX / 2);

    (void)state;
    waldo__buf_puts(&buf, "ab");
    assert_null(waldo__buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(buf.status, WALDO_ETOOBIG);
    waldo__buf_free(&buf);
}

static void reserves_and_commits(void **state)
{
    waldo__buf buf = WALDO__BUF_INIT(100);
    char *at = waldo__buf_reserve(&buf, 50);

    (void)state;
    assert_non_null(at);
    memcpy(at, "hello", 5);
    waldo__buf_commit(&buf, 5);
    at = waldo__buf_reserve(&buf, 95);
    assert_non_null(at);
    at[0] = '!';
    waldo__buf_commit(&buf, 1);
    assert_string_equal(waldo__buf_str(&buf).ptr, "hello!");
    waldo__buf_free(&buf);
}

static void drops_from_both_ends(void **state)
{
    waldo__buf buf = WALDO__BUF_INIT(100);

    (void)state;
    waldo__buf_puts(&buf, "0123456789");
    waldo__buf_consume(&buf, 3);
    assert_string_equal(waldo__buf_str(&buf).ptr, "3456789");
    waldo__buf_truncate(&buf, 4);
    assert_string_equal(waldo__buf_str(&buf).ptr, "3456");
    waldo__buf_truncate(&buf, 100);
    assert_string_equal(waldo__buf_str(&buf).ptr, "3456");
    waldo__buf_consume(&buf, 100);
    assert_string_equal(waldo__buf_str(&buf).ptr, "");
    waldo__buf_puts(&buf, "again");
    assert_string_equal(waldo__buf_str(&buf).ptr, "again");
    waldo__buf_free(&buf);
}

static void gives_its_content_away(void **state)
{
    waldo__buf buf = WALDO__BUF_INIT(100);
    size_t len = 99;
    char *taken = waldo__buf_take(&buf, &len);

    (void)state;
    assert_string_equal(taken, "");
    assert_int_equal(len, 0);
    waldo__free(taken);
    waldo__buf_puts(&buf, "text");
    taken = waldo__buf_take(&buf, &len);
    assert_string_equal(taken, "text");
    assert_int_equal(len, 4);
    assert_int_equal(buf.len, 0);
    assert_null(buf.ptr);
    assert_int_equal(buf.max, 100);
    waldo__free(taken);
}

static void prints_at_the_edge_of_its_room(void **state)
{
    (void)state;
    for (int len = 0; len < 200; len++) {
        waldo__buf buf = WALDO__BUF_INIT(150);

        waldo__buf_puts(&buf, "12345");
        assert_int_equal(waldo__buf_printf(&buf, "%*s", len, ""),
                         len <= 145 ? WALDO_OK : WALDO_ETOOBIG);
        assert_int_equal(buf.len, len <= 145 ? 5 + len : 5);
        waldo__buf_free(&buf);
    }
}

static void escapes_for_a_url(void **state)
{
    static const char all[] = "\0\x01 az-AZ_09.~!*'();:@&=+$,/?#[]%\"<>\\^`{|}\x7f\x80\xff";
    waldo__buf buf = WALDO__BUF_INIT(200);

    (void)state;
    assert_int_equal(waldo__buf_url(&buf, waldo__slice(all, sizeof all - 1)), WALDO_OK);
    assert_string_equal(buf.ptr, "%00%01%20az-AZ_09.~%21%2A%27%28%29%3B%3A%40%26%3D%2B%24%2C%2F%3F"
                                 "%23%5B%5D%25%22%3C%3E%5C%5E%60%7B%7C%7D%7F%80%FF");
    waldo__buf_free(&buf);
    buf.max = 4;
    assert_int_equal(waldo__buf_url(&buf, WALDO__S("a//")), WALDO_ETOOBIG);
    waldo__buf_free(&buf);
}

/* In every block that a buffer had on its way. */
static size_t left_behind_by(waldo__buf *buf)
{
    found = 0;
    for (int i = 0; i < 200; i++) {
        waldo__buf_puts(buf, word);
    }
    assert_int_equal(buf->len, 200 * (sizeof word - 1));
    waldo__buf_free(buf);
    assert_null(buf->ptr);
    return found;
}

static void overwrites_every_block_that_is_to_be_wiped(void **state)
{
    waldo__buf plain = WALDO__BUF_INIT(10000), wiped = WALDO__BUF_WIPED(10000);

    (void)state;
    assert_true(left_behind_by(&plain) > 1); /* the allocator does see them */
    assert_int_equal(left_behind_by(&wiped), 0);
    assert_int_equal(left_behind_by(&wiped), 0); /* it stays what it is */
    waldo__buf_init_wiped(&plain, 10000);
    assert_int_equal(left_behind_by(&plain), 0);
}

int main(void)
{
    const waldo_allocator hook = { hook_malloc, hook_realloc, hook_free, NULL };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_empty_text_before_anything_is_added),
        cmocka_unit_test(appends_in_every_way),
        cmocka_unit_test(fills_to_its_maximum_and_not_beyond),
        cmocka_unit_test(keeps_its_first_failure),
        cmocka_unit_test(refuses_lengths_that_overflow),
        cmocka_unit_test(reserves_and_commits),
        cmocka_unit_test(drops_from_both_ends),
        cmocka_unit_test(gives_its_content_away),
        cmocka_unit_test(prints_at_the_edge_of_its_room),
        cmocka_unit_test(escapes_for_a_url),
        cmocka_unit_test(overwrites_every_block_that_is_to_be_wiped),
    };

    if (waldo_set_allocator(&hook) != WALDO_OK) {
        return 1;
    }
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
