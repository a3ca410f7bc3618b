/* Where a streamed value is complete: the same answer however it is split. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "json/json.h"

static const struct {
    const char *text;
    int end; /* -1: not complete */
} cases[] = {
    { "", -1 },
    { "  ", -1 },
    { "{}", 2 },
    { "{}\"\"", 2 },
    { " {\"cmd\":\"ls\"} ", 13 },
    { "{\"a\":{\"b\":[1,{}]}}null", 18 },
    { "{\"a\":\"}\"}", 9 },
    { "{\"a\":\"\\\"}\"}", 11 },
    { "{\"a\":\"\\\\\"}", 10 },
    { "{\"a\":\"\\\\\\\"}", -1 },
    { "{\"a\":1", -1 },
    { "{\"a\":\"", -1 },
    { "[1,[2],", -1 },
    { "[]]", 2 },
    { "\"text\"", 6 },
    { "\"te\\\"xt\" ", 8 },
    { "\"text", -1 },
    { "12", -1 },
    { "12 ", 2 },
    { "12{}", 2 },
    { "true\"\"", 4 },
    { "null\n", 4 },
    { "{]", -1 },
    { "[}", -1 },
    { "[{]}]", -1 },
    { "}", -1 },
    { "]{}", -1 },
};

static void finds_the_end_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t len = strlen(cases[i].text);

        for (size_t a = 0; a <= len; a++) {
            for (size_t b = a; b <= len; b++) {
                waldo__json_scan scan = { .depth = 0 };

                waldo__json_scan_feed(&scan, waldo__strn(cases[i].text, a));
                waldo__json_scan_feed(&scan, waldo__strn(cases[i].text + a, b - a));
                waldo__json_scan_feed(&scan, waldo__strn(cases[i].text + b, len - b));
                assert_int_equal(scan.complete, cases[i].end >= 0);
                assert_int_equal(scan.fed, len);
                if (scan.complete) {
                    assert_int_equal(scan.end, cases[i].end);
                }
            }
        }
    }
}

/* Every bracket of a deep value is remembered by its kind. */
static void follows_many_levels(void **state)
{
    enum { DEPTH = 512 };
    char text[2 * DEPTH + 4];
    waldo__json_scan scan = { .depth = 0 };

    (void)state;
    for (size_t i = 0; i < DEPTH; i++) {
        int is_object = i % 3 == 0;

        text[i] = is_object ? '{' : '[';
        text[2 * DEPTH - 1 - i] = is_object ? '}' : ']';
    }
    waldo__json_scan_feed(&scan, waldo__strn(text, 2 * (size_t)DEPTH - 1));
    assert_int_equal(scan.complete, 0);
    waldo__json_scan_feed(&scan, waldo__strn(text + 2 * (size_t)DEPTH - 1, 1));
    assert_int_equal(scan.complete, 1);
    scan = (waldo__json_scan){ .depth = 0 };
    text[2 * DEPTH - 300] ^= '{' ^ '[';
    waldo__json_scan_feed(&scan, waldo__strn(text, 2 * (size_t)DEPTH));
    assert_int_equal(scan.complete, 0);
}

static void gives_up_on_too_many_levels(void **state)
{
    waldo__json_scan scan = { .depth = 0 };

    (void)state;
    for (int i = 0; i < 513; i++) {
        waldo__json_scan_feed(&scan, WALDO__S("["));
    }
    for (int i = 0; i < 513; i++) {
        waldo__json_scan_feed(&scan, WALDO__S("]"));
    }
    assert_int_equal(scan.complete, 0);
    assert_int_equal(scan.fed, 1026);
}

/* On every prefix of random brackets and strings the scan and the parse agree about an end. */
static void agrees_with_the_parse(void **state)
{
    static const char *const words[] = {
        "{", "}", "[", "]", "\"a\"", ":", ",", "1", "\"\\\"\"", " "
    };
    unsigned seed = 1, both = 0;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        waldo__buf text = WALDO__BUF_INIT(200);
        waldo__json_scan scan = { .depth = 0 };
        waldo__json *doc = NULL;

        waldo__buf_puts(&text, "{");
        for (unsigned i = rand_r(&seed) % 6; i > 0; i--) {
            waldo__buf_puts(&text, words[(size_t)rand_r(&seed) % 10]);
        }
        waldo__json_scan_feed(&scan, waldo__buf_str(&text));
        if (waldo__json_parse(waldo__buf_str(&text), NULL, &doc, NULL) == WALDO_OK) {
            assert_int_equal(scan.complete, 1);
            assert_int_equal(waldo__str_trim(waldo__buf_str(&text)).len, scan.end);
            both++;
        }
        waldo__json_free(doc);
        waldo__buf_free(&text);
    }
    assert_true(both > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_end_at_every_split),
        cmocka_unit_test(follows_many_levels),
        cmocka_unit_test(gives_up_on_too_many_levels),
        cmocka_unit_test(agrees_with_the_parse),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
