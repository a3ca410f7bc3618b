/* Retry delays and public addresses: tables. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/alloc.h"
#include "base/error.h"
#include "http/internal.h"
#include "http/retry.h"

static waldo_error *failure(waldo_status status, int64_t retry_after_ms)
{
    waldo_error *error = NULL;

    waldo_error_set(&error, status, WALDO_CLASS_HTTP, "failed");
    waldo_error_add_http(error, 500, NULL, NULL, retry_after_ms);
    return error;
}

static void delays(void **state)
{
    static const struct {
        waldo__retry policy;
        uint32_t attempt;
        waldo_status status;
        int64_t wished_ms;
        uint32_t random;
        int64_t delay_ms;
    } rows[] = {
        { { 3, 0, 0, 0 }, 1, WALDO_EPROVIDER, -1, UINT32_MAX, 500 },
        { { 3, 0, 0, 0 }, 1, WALDO_EPROVIDER, -1, 0, 0 },
        { { 3, 0, 0, 0 }, 2, WALDO_EPROVIDER, -1, UINT32_MAX, 1000 },
        { { 3, 0, 0, 0 }, 2, WALDO_EPROVIDER, -1, UINT32_MAX / 2, 499 },
        { { 3, 0, 0, 0 }, 3, WALDO_EPROVIDER, -1, UINT32_MAX, 2000 },
        { { 3, 0, 0, 0 }, 4, WALDO_EPROVIDER, -1, UINT32_MAX, -1 },
        { { 0, 0, 0, 0 }, 1, WALDO_EPROVIDER, -1, 0, -1 },
        { { 1000, 0, 0, 0 }, 999, WALDO_ERATE, -1, UINT32_MAX, 8000 },
        { { 9, 100, 350, 0 }, 3, WALDO_ERATE, -1, UINT32_MAX, 350 },
        { { 9, 100, 50, 0 }, 1, WALDO_ERATE, -1, UINT32_MAX, 50 },
        { { 9, 1, INT64_MAX, 0 }, 9, WALDO_ERATE, -1, UINT32_MAX, 256 },
        { { 3, 0, 0, 0 }, 1, WALDO_ERATE, 0, UINT32_MAX, 0 },
        { { 3, 0, 0, 0 }, 1, WALDO_ERATE, 30000, 5, 30000 },
        { { 3, 0, 0, 0 }, 1, WALDO_ERATE, 60001, 5, -1 },
        { { 3, 0, 0, 90000 }, 1, WALDO_ERATE, 60001, 5, 60001 },
        { { 3, 0, 0, 0 }, 1, WALDO_EAUTH, -1, 0, -1 },
        { { 3, 0, 0, 0 }, 1, WALDO_EUNKNOWN_OUTCOME, 1, 0, -1 },
        { { 3, 0, 0, 0, 1 }, 1, WALDO_EUNKNOWN_OUTCOME, 1, 0, 1 },
        { { 3, 0, 0, 0, 1 }, 4, WALDO_EUNKNOWN_OUTCOME, 1, 0, -1 },
        { { 3, 0, 0, 0, 1 }, 1, WALDO_EAUTH, 1, 0, -1 },
        { { 3, 0, 0, 0 }, 1, WALDO_ETIMEDOUT_DEADLINE, -1, 0, -1 },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo_error *error = failure(rows[i].status, rows[i].wished_ms);

        assert_int_equal(
            waldo__retry_delay_ms(&rows[i].policy, rows[i].attempt, error, rows[i].random),
            rows[i].delay_ms);
        waldo_error_free(error);
    }
}

static void addresses(void **state)
{
    static const struct {
        const char *text;
        int is_public;
    } rows[] = {
        { "8.8.8.8", 1 },
        { "1.1.1.1", 1 },
        { "172.15.255.255", 1 },
        { "172.32.0.1", 1 },
        { "100.63.255.255", 1 },
        { "100.128.0.1", 1 },
        { "223.255.255.255", 1 },
        { "0.0.0.0", 0 },
        { "10.1.2.3", 0 },
        { "100.64.0.1", 0 },
        { "127.0.0.1", 0 },
        { "127.255.255.254", 0 },
        { "169.254.169.254", 0 },
        { "172.16.0.1", 0 },
        { "172.31.255.255", 0 },
        { "192.0.0.1", 0 },
        { "192.168.1.1", 0 },
        { "198.18.0.1", 0 },
        { "198.19.255.255", 0 },
        { "224.0.0.1", 0 },
        { "255.255.255.255", 0 },
        { "2606:4700::1111", 1 },
        { "::ffff:8.8.8.8", 1 },
        { "64:ff9b::808:808", 1 },
        { "2002:808:808::1", 1 },
        { "::", 0 },
        { "::1", 0 },
        { "fc00::1", 0 },
        { "fd12::1", 0 },
        { "fe80::1", 0 },
        { "ff02::1", 0 },
        { "::ffff:127.0.0.1", 0 },
        { "::ffff:10.0.0.1", 0 },
        { "64:ff9b::7f00:1", 0 },
        { "2002:7f00:1::1", 0 },
        { "2001::1", 0 },
        { "::127.0.0.1", 0 },
        { "fec0::1", 0 },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        struct sockaddr_in in4 = { .sin_family = AF_INET };
        struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

        if (inet_pton(AF_INET, rows[i].text, &in4.sin_addr) == 1) {
            assert_int_equal(waldo__address_is_public((struct sockaddr *)&in4), rows[i].is_public);
        } else {
            assert_int_equal(inet_pton(AF_INET6, rows[i].text, &in6.sin6_addr), 1);
            assert_int_equal(waldo__address_is_public((struct sockaddr *)&in6), rows[i].is_public);
        }
    }
    assert_false(waldo__address_is_public(&(struct sockaddr){ .sa_family = AF_UNIX }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays),
        cmocka_unit_test(addresses),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
