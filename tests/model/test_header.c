#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/header.h"

static void find_by_name(void **state)
{
    waldo_str headers = waldo__str("Content-Type: text/html\r\nx-request-id:  r1 \nEmpty:\nX: a:b");
    waldo_str value = WALDO__S("untouched");

    (void)state;
    assert_false(waldo__header_get(headers, "content", &value));
    assert_true(waldo__str_is(value, "untouched"));
    assert_true(waldo__header_get(headers, "content-type", &value));
    assert_true(waldo__str_is(value, "text/html"));
    assert_true(waldo__header_get(headers, "X-Request-Id", &value));
    assert_true(waldo__str_is(value, "r1"));
    assert_true(waldo__header_get(headers, "empty", &value));
    assert_int_equal(value.len, 0);
    assert_true(waldo__header_get(headers, "x", &value));
    assert_true(waldo__str_is(value, "a:b"));
    assert_false(waldo__header_get(waldo__str(""), "x", &value));
}

static void retry_after(void **state)
{
    static const struct {
        const char *headers;
        int64_t ms;
    } cases[] = {
        { "", -1 },
        { "retry-after: 2\n", 2000 },
        { "Retry-After: 0\r\n", 0 },
        { "retry-after: 1.5\n", 1500 },
        { "retry-after: 0.0009\n", 0 },
        { "retry-after: -1\n", -1 },
        { "retry-after: soon\n", -1 },
        { "retry-after:\n", -1 },
        { "retry-after: .\n", -1 },
        { "retry-after-ms: 250\nretry-after: 9\n", 250 },
        { "retry-after: 9\nretry-after-ms: 0.5\n", 1 },
        { "retry-after-ms: x\nretry-after: 9\n", 9000 },
        { "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\n", 7000 },
        { "retry-after: Sun, 06 Nov 1994 08:49:20 GMT\n", 0 },
        { "retry-after: Thu, 29 Feb 1996 08:49:30 GMT\n", 41472000000 },
        { "retry-after: Sun, 06 Nov 1994 08:49:37 CET\n", -1 },
        { "retry-after: Sun, 06 Xxx 1994 08:49:37 GMT\n", -1 },
        { "retry-after: Sun, 0x Nov 1994 08:49:37 GMT\n", -1 },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        /* 1994-11-06 08:49:30 */
        assert_int_equal(waldo__header_retry_after_ms(waldo__str(cases[i].headers), 784111770000),
                         cases[i].ms);
    }
    assert_true(waldo__header_retry_after_ms(
                    waldo__str("retry-after: 99999999999999999999999999999999"), 0) > 0);
}

static void should_retry(void **state)
{
    (void)state;
    assert_int_equal(waldo__header_should_retry(waldo__str("X-Should-Retry: true\n")), 1);
    assert_int_equal(waldo__header_should_retry(waldo__str("x-should-retry: false\n")), 0);
    assert_int_equal(waldo__header_should_retry(waldo__str("x-should-retry: maybe\n")), -1);
    assert_int_equal(waldo__header_should_retry(waldo__str("")), -1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(find_by_name),
        cmocka_unit_test(retry_after),
        cmocka_unit_test(should_retry),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
