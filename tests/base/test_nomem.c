/*
 * Out of memory at every allocation in turn, once and from then on: JSON, errors, text and secrets
 * answer WALDO_ENOMEM or succeed, and give everything back. cJSON's allocations fail too.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "failing.h"
#include "base/error.h"
#include "base/utf8.h"
#include "json/schema.h"
#include "secret/secret.h"

enum { MOST_ALLOCATIONS = 2000 };

/* Do the work again and again, with the first allocation failing, then the second, and so on. */
static void walk(waldo_status (*work)(void))
{
    size_t steps = 0;

    assert_int_equal(failing.living, 0);
    failing_begin();
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status = work();

        assert_int_equal(status, failing.failed > 0 ? WALDO_ENOMEM : WALDO_OK);
        steps += status != WALDO_OK;
    }
    assert_true(steps > 1); /* something was allocated at all */
}

static const char document[] = "{\"z\":1,\"y\":[1.50,12345678901234567890,{\"\\u0061\\n\":"
                               "\"\\ud83d\\ude00\",\"b\":\"\"}],\"x\":true,"
                               "\"w\":null,\"v\":-0.1e5,\"lone\":\"\\ud83d\",\"k1\":1,\"k2\":1,"
                               "\"k3\":1,\"k4\":1,\"\\u006b5\":[[[]]]}";

static waldo_status parse_and_print(void)
{
    const waldo__json_limits limits = { .repair_surrogates = 1 };
    waldo__json *doc = NULL;
    waldo_error *error = NULL;
    waldo__buf out = WALDO__BUF_INIT(10000);
    waldo_status status = waldo__json_parse(waldo__str(document), &limits, &doc, &error);

    assert_int_equal(waldo_error_status(error), status);
    assert_int_equal(doc != NULL, status == WALDO_OK);
    if (status == WALDO_OK) {
        status = waldo__json_print(waldo__json_root(doc), &out);
    }
    waldo__json_free(doc);
    waldo__buf_free(&out);
    waldo_error_free(error);
    return status;
}

static waldo_status write_json(void)
{
    waldo__buf out = WALDO__BUF_INIT(100000);
    waldo__json_writer jw;
    waldo_status status;

    waldo__json_writer_init(&jw, &out);
    waldo__jw_object(&jw, NULL);
    for (int i = 0; i < 30; i++) {
        waldo__jw_str(&jw, "text", WALDO__S("some \"text\"\n\xff\x01"));
        waldo__jw_num(&jw, "number", 0.1 * i);
        waldo__jw_base64(&jw, "data", WALDO__S("data:"), WALDO__S("\1\2\3\4\5\6\7\10"));
    }
    waldo__jw_end(&jw, '}');
    status = out.status;
    waldo__buf_free(&out);
    return status;
}

static waldo_status clean_text(void)
{
    waldo__buf out = WALDO__BUF_INIT(100000);
    waldo__utf8 decoder = { .held_len = 0 };
    waldo_status status;

    for (int i = 0; i < 100; i++) {
        waldo__utf8_feed(&decoder, WALDO__S("text \xe6\xbc"), &out);
    }
    status = waldo__utf8_finish(&decoder, &out);
    waldo__buf_free(&out);
    return status;
}

static waldo_status scrub_stream(const waldo__secrets *secrets)
{
    waldo__buf out = WALDO__BUF_INIT(100000);
    waldo__scrubber scrubber;
    waldo_status status = WALDO_OK;

    waldo__scrubber_init(&scrubber, secrets);
    for (int i = 0; i < 20 && status == WALDO_OK; i++) {
        status = waldo__scrubber_feed(&scrubber, WALDO__S("text a-secret-"), &out);
        if (status == WALDO_OK) {
            status = waldo__scrubber_feed(&scrubber, WALDO__S("value more a-secret-"), &out);
        }
    }
    if (status == WALDO_OK) {
        status = waldo__scrubber_finish(&scrubber, &out);
    }
    if (status == WALDO_OK) {
        assert_null(strstr(waldo__buf_str(&out).ptr, "secret-value"));
    }
    waldo__scrubber_free(&scrubber);
    waldo__buf_free(&out);
    return status;
}

static waldo_status get_key(void *userdata, const char *name, waldo_str *ret_value,
                            int64_t *ret_expires_at)
{
    (void)userdata;
    (void)name;
    *ret_value = WALDO__S("key-from-a-source");
    *ret_expires_at = 0;
    return WALDO_OK;
}

static waldo_status keep_and_scrub_secrets(void)
{
    const waldo_keys keys = { sizeof keys, NULL, get_key };
    waldo__secrets *secrets = NULL;
    waldo__buf value = WALDO__BUF_INIT(100);
    waldo_status status = waldo__secrets_new(&secrets, NULL);

    if (status == WALDO_OK) {
        status = waldo__secrets_put(secrets, "A", WALDO__S("a-secret-value"), 0);
    }
    for (int i = 0; i < 20 && status == WALDO_OK; i++) {
        status = waldo__secrets_put(secrets, "B",
                                    i % 2 ? WALDO__S("even-value") : WALDO__S("odd--value"), 0);
    }
    if (status == WALDO_OK) {
        status = waldo__secrets_fetch(secrets, &keys, "C", 0, NULL);
    }
    if (status == WALDO_OK) {
        status = waldo__secrets_append(secrets, "C", &value);
    }
    if (status == WALDO_OK) {
        status = scrub_stream(secrets);
    }
    waldo__buf_free(&value);
    waldo__secrets_free(secrets);
    return status;
}

/* An older value stays when a newer one cannot be kept. */
static void keeps_the_old_value_when_out_of_memory(void **state)
{
    waldo__secrets *secrets = NULL;
    waldo__buf out = WALDO__BUF_INIT(100);

    (void)state;
    assert_int_equal(waldo__secrets_new(&secrets, NULL), WALDO_OK);
    waldo__secrets_put(secrets, "A", WALDO__S("older-value"), 0);
    failing.asked = 0;
    failing.fail_at = 1;
    assert_int_equal(waldo__secrets_put(secrets, "A", WALDO__S("newer-value"), 0), WALDO_ENOMEM);
    failing.fail_at = 0;
    assert_int_equal(waldo__secrets_append(secrets, "A", &out), WALDO_OK);
    assert_string_equal(waldo__buf_str(&out).ptr, "older-value");
    waldo__buf_free(&out);
    waldo__secrets_free(secrets);
    assert_int_equal(failing.living, 0);
}

/* A failed check reports its own status or that memory is out, never success. */
static void reports_a_schema_problem_without_memory(void **state)
{
    waldo__json *schema = NULL, *value = NULL;
    size_t before;

    (void)state;
    waldo__json_parse(WALDO__S("{\"properties\":{\"a\":{\"enum\":[1,\"b\"]}}}"), NULL, &schema,
                      NULL);
    waldo__json_parse(WALDO__S("{\"a\":[true]}"), NULL, &value, NULL);
    before = failing.living;
    failing.failed = 1;
    for (size_t number = 1; failing.failed > 0; number++) {
        waldo_error *error = NULL;
        waldo_status status;

        failing.asked = failing.failed = 0;
        failing.fail_at = number;
        status = waldo__schema_check(waldo__json_root(schema), waldo__json_root(value), &error);
        assert_true(status == WALDO_EINVAL || (status == WALDO_ENOMEM && failing.failed > 0));
        assert_non_null(error);
        waldo_error_free(error);
        assert_int_equal(failing.living, before);
    }
    failing.fail_at = 0;
    waldo__json_free(schema);
    waldo__json_free(value);
    assert_int_equal(failing.living, 0);
}

/* An error can always be made, copied and freed; at worst it is the one that needs no failing. */
static void makes_errors_without_memory(void **state)
{
    (void)state;
    failing.failed = 1;
    for (size_t number = 1; failing.failed > 0; number++) {
        waldo_error *error = NULL, *copy;

        failing.asked = failing.failed = 0;
        failing.fail_at = number;
        assert_int_equal(waldo_error_set(&error, WALDO_ERATE, WALDO_CLASS_HTTP, "text %d", 1),
                         WALDO_ERATE);
        waldo_error_add_http(error, 429, "code", "id", 5);
        waldo__error_prefix(error, "where");
        copy = waldo_error_copy(error);
        assert_non_null(error);
        assert_non_null(copy);
        assert_true(strlen(waldo_error_message(copy)) > 0);
        waldo_error_free(error);
        waldo_error_free(copy);
        assert_int_equal(failing.living, 0);
    }
    failing.fail_at = 0;
}

static void walks_parse_and_print(void **state)
{
    (void)state;
    walk(parse_and_print);
}

static void walks_the_writer(void **state)
{
    (void)state;
    walk(write_json);
}

static void walks_the_decoder(void **state)
{
    (void)state;
    walk(clean_text);
}

static void walks_secrets(void **state)
{
    (void)state;
    walk(keep_and_scrub_secrets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_parse_and_print),
        cmocka_unit_test(walks_the_writer),
        cmocka_unit_test(walks_the_decoder),
        cmocka_unit_test(walks_secrets),
        cmocka_unit_test(keeps_the_old_value_when_out_of_memory),
        cmocka_unit_test(reports_a_schema_problem_without_memory),
        cmocka_unit_test(makes_errors_without_memory),
    };

    cJSON_InitHooks(&(cJSON_Hooks){ failing_malloc, failing_free });
    failing_install();
    failing.on = 1;
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
