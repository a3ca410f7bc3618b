/* Where a provider is: the first that is said counts, and what is no address is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend/endpoint.h"
#include "base/buf.h"

static const waldo__endpoint url = { "cloud", "api", "WALDO_TEST_API", "https://api.example.org",
                                     WALDO__ENDPOINT_URL };
static const waldo__endpoint domain = { "cloud", "domain", "WALDO_TEST_DOMAIN", "example.org",
                                        WALDO__ENDPOINT_DOMAIN };

static waldo_status find(const waldo__endpoint *what, const char *said, const char *usual,
                         char ret[WALDO__ENDPOINT_MAX], waldo_error **ret_err)
{
    const waldo_backend_option option = { waldo__str(what->key), waldo__str(said) };
    const waldo_backend_spec spec = { .size = sizeof spec,
                                      .options = &option,
                                      .option_count = said != NULL };

    return waldo__endpoint_find(what, &spec, usual, ret, ret_err);
}

static void the_first_that_is_said(void **state)
{
    char found[WALDO__ENDPOINT_MAX];

    (void)state;
    setenv("WALDO_TEST_API", "https://variable.example.org", 1);
    assert_int_equal(find(&url, "http://127.0.0.1:80", "https://usual", found, NULL), WALDO_OK);
    assert_string_equal(found, "http://127.0.0.1:80");
    assert_int_equal(find(&url, NULL, "https://usual", found, NULL), WALDO_OK);
    assert_string_equal(found, "https://variable.example.org");
    unsetenv("WALDO_TEST_API");
    assert_int_equal(find(&url, NULL, "https://usual", found, NULL), WALDO_OK);
    assert_string_equal(found, "https://usual");
    assert_int_equal(find(&url, NULL, "", found, NULL), WALDO_OK);
    assert_string_equal(found, "");
    assert_int_equal(find(&domain, "a.b-c:443", "", found, NULL), WALDO_OK);
    assert_string_equal(found, "a.b-c:443");
}

static void no_slash_at_the_end(void **state)
{
    char found[WALDO__ENDPOINT_MAX];

    (void)state;
    assert_int_equal(find(&url, "https://[::1]:80/api//", "", found, NULL), WALDO_OK);
    assert_string_equal(found, "https://[::1]:80/api");
}

static void what_is_no_address(void **state)
{
    char longest[WALDO__ENDPOINT_MAX + 1] = "https://";
    char found[WALDO__ENDPOINT_MAX] = "stays";
    static const char *const urls[] = { "ftp://x", "example.org", "https://x?a=b", "https://u@x",
                                        "https://x\ny:" };
    waldo_error *error = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        assert_int_equal(find(&url, urls[i], "https://usual", found, NULL), WALDO_EINVAL);
    }
    assert_int_equal(find(&domain, "https://x", "", found, NULL), WALDO_EINVAL);
    memset(longest + 8, 'a', WALDO__ENDPOINT_MAX - 8);
    assert_int_equal(find(&url, longest, "", found, NULL), WALDO_EINVAL);
    assert_string_equal(found, "stays");
    longest[WALDO__ENDPOINT_MAX - 1] = '\0';
    assert_int_equal(find(&url, longest, "", found, NULL), WALDO_OK);
    assert_int_equal(find(&url, "x", "", found, &error), WALDO_EINVAL);
    assert_non_null(strstr(waldo_error_message(error), "cloud: api (or WALDO_TEST_API"));
    assert_non_null(strstr(waldo_error_message(error), url.example));
    waldo_error_free(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_said),
        cmocka_unit_test(no_slash_at_the_end),
        cmocka_unit_test(what_is_no_address),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
