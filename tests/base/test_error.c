/* The status table and the error object. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ctype.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/str.h"

static const struct {
    waldo_status value;
    int retryable;
    const char *name;
    const char *text;
} all[] = {
#define ROW(name, value, retryable, text) { (value), (retryable), "WALDO_" #name, (text) },
    WALDO_STATUS_MAP(ROW)
#undef ROW
};

enum { ALL = sizeof all / sizeof all[0] };

static void has_each_status_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(all[i].value, all[j].value);
            assert_string_not_equal(all[i].name, all[j].name);
            assert_string_not_equal(all[i].text, all[j].text);
        }
        assert_true(all[i].value < 16);
        assert_true(all[i].retryable == 0 || (all[i].retryable == 1 && all[i].value < 0));
        assert_int_equal(all[i].value < 0, all[i].name[6] == 'E' && all[i].value != WALDO_END);
        assert_true(islower((unsigned char)all[i].text[0]) || all[i].text[0] == 'T');
        assert_int_not_equal(all[i].text[strlen(all[i].text) - 1], '.');
        assert_string_equal(waldo_status_name(all[i].value), all[i].name);
        assert_string_equal(waldo_status_text(all[i].value), all[i].text);
        assert_int_equal(waldo_status_retryable(all[i].value), all[i].retryable);
    }
}

static void answers_for_unknown_statuses(void **state)
{
    (void)state;
    assert_string_equal(waldo_status_name(-9999), "WALDO_E?");
    assert_string_equal(waldo_status_text(INT32_MIN), "unknown status");
    assert_int_equal(waldo_status_retryable(15), 0);
}

static void accepts_null_everywhere(void **state)
{
    (void)state;
    waldo_error_free(NULL);
    waldo_error_add_http(NULL, 1, "a", "b", 2);
    waldo__error_prefix(NULL, "x");
    waldo__error_set_message(NULL, WALDO__S("x"));
    assert_null(waldo_error_copy(NULL));
    assert_int_equal(waldo_error_status(NULL), WALDO_OK);
    assert_int_equal(waldo_error_get_class(NULL), WALDO_CLASS_NONE);
    assert_string_equal(waldo_error_message(NULL), "");
    assert_string_equal(waldo_error_provider_code(NULL), "");
    assert_string_equal(waldo_error_request_id(NULL), "");
    assert_int_equal(waldo_error_http_status(NULL), 0);
    assert_int_equal(waldo_error_retry_after_ms(NULL), -1);
    assert_int_equal(waldo_error_set(NULL, WALDO_EIO, WALDO_CLASS_SYSTEM, "x"), WALDO_EIO);
    assert_int_equal(waldo__error_nomem(NULL), WALDO_ENOMEM);
}

static void carries_what_it_is_given(void **state)
{
    waldo_error *error = NULL, *copy;

    (void)state;
    assert_int_equal(waldo_error_set(&error, WALDO_ERATE, WALDO_CLASS_PROVIDER, "wait %d s", 3),
                     WALDO_ERATE);
    assert_int_equal(waldo_error_retry_after_ms(error), -1);
    waldo_error_add_http(error, 400, "first", "first", 1);
    waldo_error_add_http(error, 429, "slow_down", "req_1", 3000);
    copy = waldo_error_copy(error);
    waldo_error_free(error);
    assert_int_equal(waldo_error_status(copy), WALDO_ERATE);
    assert_int_equal(waldo_error_get_class(copy), WALDO_CLASS_PROVIDER);
    assert_string_equal(waldo_error_message(copy), "wait 3 s");
    assert_int_equal(waldo_error_http_status(copy), 429);
    assert_string_equal(waldo_error_provider_code(copy), "slow_down");
    assert_string_equal(waldo_error_request_id(copy), "req_1");
    assert_int_equal(waldo_error_retry_after_ms(copy), 3000);
    waldo_error_free(copy);
}

static void keeps_the_first_of_two(void **state)
{
    waldo_error *error = NULL, *second = NULL, *third = NULL;

    (void)state;
    waldo_error_set(&error, WALDO_EIO, WALDO_CLASS_SYSTEM, "first");
    assert_int_equal(waldo_error_set(&error, WALDO_EINVAL, WALDO_CLASS_USAGE, "second"),
                     WALDO_EINVAL);
    waldo__error_nomem(&error);
    waldo_error_set(&second, WALDO_EINVAL, WALDO_CLASS_USAGE, "second");
    waldo__error_copy_to(&error, second);
    waldo__error_copy_to(&third, second);
    waldo__error_copy_to(NULL, second);
    assert_string_equal(waldo_error_message(third), "second");
    waldo__error_move(&error, second);
    assert_string_equal(waldo_error_message(error), "first");
    second = NULL;
    waldo__error_move(&second, third);
    assert_ptr_equal(second, third);
    waldo__error_move(NULL, second);
    waldo_error_free(error);
}

static void changes_its_message(void **state)
{
    waldo_error *error = NULL;

    (void)state;
    waldo_error_set(&error, WALDO_EIO, WALDO_CLASS_SYSTEM, "disk is gone");
    waldo__error_prefix(error, "journal");
    assert_string_equal(waldo_error_message(error), "journal: disk is gone");
    waldo__error_set_message(error, waldo__strn("[KEY] refused", 5));
    assert_string_equal(waldo_error_message(error), "[KEY]");
    waldo_error_free(error);
}

/* What comes from outside is cut; a message that is far too long becomes the status's own. */
static void bounds_what_it_keeps(void **state)
{
    waldo_error *error = NULL;
    char *text = malloc(20001);

    (void)state;
    assert_non_null(text);
    memset(text, 'x', 20000);
    text[20000] = '\0';
    waldo_error_set(&error, WALDO_EIO, WALDO_CLASS_SYSTEM, "%s", text);
    assert_string_equal(waldo_error_message(error), "input or output failed");
    waldo_error_add_http(error, 500, text, text, 0);
    assert_int_equal(strlen(waldo_error_provider_code(error)), 256);
    assert_int_equal(strlen(waldo_error_request_id(error)), 256);
    waldo_error_free(error);
    free(text);
}

static void leaves_the_static_error_alone(void **state)
{
    waldo_error *error = NULL;

    (void)state;
    assert_int_equal(waldo__error_nomem(&error), WALDO_ENOMEM);
    waldo__error_prefix(error, "x");
    waldo_error_add_http(error, 500, "a", "b", 1);
    assert_string_equal(waldo_error_message(error), "out of memory");
    assert_int_equal(waldo_error_http_status(error), 0);
    assert_ptr_equal(waldo_error_copy(error), error);
    waldo_error_free(error);
    waldo_error_free(error);
    assert_int_equal(waldo_error_status(error), WALDO_ENOMEM);
}

static void names_system_errors(void **state)
{
    (void)state;
    assert_int_equal(waldo__errno_status(ENOENT), WALDO_ENOTFOUND);
    assert_int_equal(waldo__errno_status(EMFILE), WALDO_EBUSY);
    assert_int_equal(waldo__errno_status(-1), WALDO_EIO);
    assert_string_equal(waldo__errno_text(EACCES), "permission denied");
    assert_string_equal(waldo__errno_text(-1), "unexpected system error");
    for (int number = 1; number < 200; number++) {
        assert_true(waldo__errno_status(number) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_each_status_once),    cmocka_unit_test(answers_for_unknown_statuses),
        cmocka_unit_test(accepts_null_everywhere), cmocka_unit_test(carries_what_it_is_given),
        cmocka_unit_test(keeps_the_first_of_two),  cmocka_unit_test(changes_its_message),
        cmocka_unit_test(bounds_what_it_keeps),    cmocka_unit_test(leaves_the_static_error_alone),
        cmocka_unit_test(names_system_errors),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
