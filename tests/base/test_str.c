/* Borrowed text, the array, base64, clocks and randomness. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/vec.h"

static void compares(void **state)
{
    (void)state;
    assert_true(waldo__str_eq(WALDO__S("a\0b"), WALDO__S("a\0b")));
    assert_false(waldo__str_eq(WALDO__S("a\0b"), WALDO__S("a\0c")));
    assert_true(waldo__str_eq(waldo__str(NULL), WALDO__S("")));
    assert_true(waldo__str_eq((waldo_str){ NULL, 0 }, (waldo_str){ "x", 0 }));
    assert_true(waldo__str_is(WALDO__S("word"), "word"));
    assert_false(waldo__str_is(WALDO__S("word\0"), "word"));
    assert_true(waldo__str_ieq(WALDO__S("Content-TYPE"), WALDO__S("content-type")));
    assert_false(waldo__str_ieq(WALDO__S("a["), WALDO__S("A{")));
    assert_false(waldo__str_ieq(WALDO__S("a"), WALDO__S("ab")));
    assert_true(waldo__str_starts(WALDO__S("prefix"), "pre"));
    assert_true(waldo__str_starts(WALDO__S("pre"), ""));
    assert_false(waldo__str_starts(WALDO__S("pr"), "pre"));
    assert_true(waldo__str_ends(WALDO__S("suffix"), "fix"));
    assert_false(waldo__str_ends(WALDO__S("ix"), "fix"));
}

static void trims(void **state)
{
    (void)state;
    assert_true(waldo__str_is(waldo__str_trim(WALDO__S(" \t\r\n a b \n")), "a b"));
    assert_true(waldo__str_is(waldo__str_trim(WALDO__S("a")), "a"));
    assert_int_equal(waldo__str_trim(WALDO__S(" \n ")).len, 0);
    assert_int_equal(waldo__str_trim(WALDO__S("")).len, 0);
}

static void finds(void **state)
{
    (void)state;
    assert_int_equal(waldo__str_find(WALDO__S("a:b:c"), ':'), 1);
    assert_int_equal(waldo__str_find(WALDO__S("abc"), ':'), 3);
    assert_int_equal(waldo__str_find(WALDO__S(""), ':'), 0);
    assert_int_equal(waldo__str_find(WALDO__S("a\0b"), 'b'), 2);
    assert_int_equal(waldo__str_search(WALDO__S("abcabc"), WALDO__S("bc"), 0), 1);
    assert_int_equal(waldo__str_search(WALDO__S("abcabc"), WALDO__S("bc"), 2), 4);
    assert_int_equal(waldo__str_search(WALDO__S("abcabc"), WALDO__S("bc"), 5), 6);
    assert_int_equal(waldo__str_search(WALDO__S("abc"), WALDO__S("bc"), 9), 3);
    assert_int_equal(waldo__str_search(WALDO__S("abc"), WALDO__S(""), 2), 2);
    assert_int_equal(waldo__str_search(WALDO__S("ab"), WALDO__S("abc"), 0), 2);
}

static void splits(void **state)
{
    waldo_str rest = WALDO__S("a,,b,"), part;
    static const char *const want[] = { "a", "", "b", "" };
    size_t count = 0;

    (void)state;
    while (waldo__str_split(&rest, ',', &part)) {
        assert_true(count < 4);
        assert_true(waldo__str_is(part, want[count++]));
    }
    assert_int_equal(count, 4);
    rest = WALDO__S("");
    assert_true(waldo__str_split(&rest, ',', &part));
    assert_int_equal(part.len, 0);
    assert_false(waldo__str_split(&rest, ',', &part));
}

static void reads_whole_numbers(void **state)
{
    static const char *const bad[] = { "",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "0x1",
                                       "1e3",
                                       "--1",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "99999999999999999999999" };
    int64_t value = 5;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(waldo__str_int(waldo__str(bad[i]), &value), 0);
        assert_int_equal(value, 5);
    }
    assert_true(waldo__str_int(WALDO__S("9223372036854775807"), &value) && value == INT64_MAX);
    assert_true(waldo__str_int(WALDO__S("-9223372036854775808"), &value) && value == INT64_MIN);
    assert_true(waldo__str_int(WALDO__S("-0"), &value) && value == 0);
    assert_true(waldo__str_int(WALDO__S("007"), &value) && value == 7);
}

static void grows_arrays(void **state)
{
    struct {
        WALDO__VEC(uint64_t);
    } vec = { 0 };

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t *added = WALDO__VEC_PUSH(&vec);

        assert_non_null(added);
        assert_int_equal(*added, 0);
        *added = i;
    }
    assert_int_equal(vec.count, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(vec.at[i], i);
    }
    vec.count = 3; /* an element that is used again is zero again */
    assert_int_equal(*WALDO__VEC_PUSH(&vec), 0);
    WALDO__VEC_FREE(&vec);
    assert_null(vec.at);
    assert_int_equal(vec.count + vec.cap, 0);
}

/* RFC 4648, section 10. */
static void encodes_base64(void **state)
{
    static const char *const want[] = { "",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
    waldo__buf out = WALDO__BUF_INIT(100);

    (void)state;
    for (size_t len = 0; len <= 6; len++) {
        waldo__buf_clear(&out);
        assert_int_equal(waldo__base64(waldo__strn("foobar", len), &out), WALDO_OK);
        assert_string_equal(waldo__buf_str(&out).ptr, want[len]);
    }
    waldo__buf_clear(&out);
    waldo__base64(WALDO__S("\xff\xef\xbe\x00\xfb\xff"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "/+++APv/");
    waldo__buf_free(&out);
    waldo__buf_init(&out, 7);
    assert_int_equal(waldo__base64(WALDO__S("four"), &out), WALDO_ETOOBIG);
    waldo__buf_clear(&out);
    assert_int_equal(waldo__base64((waldo_str){ "", SIZE_MAX - 1 }, &out), WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

static void tells_the_time(void **state)
{
    int64_t before = waldo__now_ns(), deadline = waldo__deadline_ns(1000), after = waldo__now_ns();

    (void)state;
    assert_true(before <= after);
    assert_true(deadline >= before + WALDO__NS_PER_S && deadline <= after + WALDO__NS_PER_S);
    assert_true(waldo__deadline_ns(-1) == WALDO__NEVER);
    assert_true(waldo__deadline_ns(INT64_MIN) == WALDO__NEVER);
    assert_true(waldo__deadline_ns(INT64_MAX) == WALDO__NEVER);
    assert_true(waldo__deadline_ns(INT64_MAX / WALDO__NS_PER_MS) == WALDO__NEVER);
    assert_true(waldo__wall_ms() > INT64_C(1600000000000)); /* after 2020 */
}

/* Not that it is random, but that it fills everything and keeps to its range. */
static void draws_at_random(void **state)
{
    unsigned char bytes[1000] = { 0 };
    unsigned seen[256] = { 0 }, zeroes = 0;
    char word[21] = "", other[21] = "", many[62001];

    (void)state;
    waldo__random(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        zeroes += bytes[i] == 0;
    }
    assert_true(zeroes < 50);
    waldo__random_word(many, 62000);
    for (size_t i = 0; i < 62000; i++) {
        seen[(unsigned char)many[i]]++;
    }
    for (size_t i = 0; i < 256; i++) {
        /* 1000 of each letter expected, a deviation of 16 standard ones */
        assert_true(seen[i] == 0 || (seen[i] > 500 && seen[i] < 1500));
    }
    assert_int_equal(strlen(many), 62000);
    waldo__random_word(word, 20);
    waldo__random_word(other, 20);
    assert_int_equal(strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
                     20);
    assert_int_equal(word[20], '\0');
    assert_string_not_equal(word, other);
}

static void base64_there_and_back(void **state)
{
    static const char *const wrong[] = {
        "A", "AAAAA", "AA=A", "AA\n=", "-_8=", "A===", "\303\244AA"
    };
    unsigned char bytes[256];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 7);
    }
    for (size_t len = 0; len <= sizeof bytes; len++) {
        waldo__buf text = WALDO__BUF_INIT(1000);
        waldo__buf back = WALDO__BUF_INIT(1000);

        assert_int_equal(waldo__base64(waldo__strn((char *)bytes, len), &text), WALDO_OK);
        assert_int_equal(waldo__base64_decode(waldo__buf_str(&text), &back), WALDO_OK);
        assert_int_equal(back.len, len);
        assert_memory_equal(waldo__buf_str(&back).ptr, bytes, len);
        waldo__buf_free(&text);
        waldo__buf_free(&back);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        waldo__buf back = WALDO__BUF_INIT(1000);

        assert_int_equal(waldo__base64_decode(waldo__str(wrong[i]), &back), WALDO_EINVAL);
        waldo__buf_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(compares),
        cmocka_unit_test(trims),
        cmocka_unit_test(finds),
        cmocka_unit_test(splits),
        cmocka_unit_test(reads_whole_numbers),
        cmocka_unit_test(grows_arrays),
        cmocka_unit_test(encodes_base64),
        cmocka_unit_test(tells_the_time),
        cmocka_unit_test(draws_at_random),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
