/* Typed getters: the right type or nothing, and integers exactly or not at all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "json/json.h"

static waldo__json *parse(const char *text)
{
    waldo__json *doc = NULL;

    assert_int_equal(waldo__json_parse(waldo__str(text), NULL, &doc, NULL), WALDO_OK);
    return doc;
}

static void knows_types(void **state)
{
    static const waldo__json_type want[] = { WALDO__JSON_NULL,   WALDO__JSON_BOOL,
                                             WALDO__JSON_BOOL,   WALDO__JSON_NUMBER,
                                             WALDO__JSON_NUMBER, WALDO__JSON_STRING,
                                             WALDO__JSON_ARRAY,  WALDO__JSON_OBJECT };
    waldo__json *doc = parse("[null,true,false,1,1.5,\"\",[],{}]");
    const waldo__json_value *at = waldo__json_first(waldo__json_root(doc));

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        assert_int_equal(waldo__json_type_of(at), want[i]);
        assert_null(waldo__json_key(at));
        at = waldo__json_next(at);
    }
    assert_null(at);
    waldo__json_free(doc);
}

static void answers_none_to_null(void **state)
{
    waldo_str text = WALDO__S("kept");
    int64_t number = 7;
    double real = 7;
    int truth = 7;

    (void)state;
    assert_int_equal(waldo__json_type_of(NULL), WALDO__JSON_NONE);
    assert_null(waldo__json_root(NULL));
    assert_null(waldo__json_get(NULL, "a"));
    assert_null(waldo__json_path(NULL, "a.b"));
    assert_null(waldo__json_first(NULL));
    assert_null(waldo__json_next(NULL));
    assert_null(waldo__json_key(NULL));
    assert_int_equal(waldo__json_count(NULL), 0);
    assert_int_equal(waldo__json_str(NULL, &text) + waldo__json_int(NULL, &number) +
                         waldo__json_num(NULL, &real) + waldo__json_bool(NULL, &truth),
                     0);
    assert_string_equal(text.ptr, "kept");
    assert_true(number == 7 && real == 7 && truth == 7);
    waldo__json_free(NULL);
}

static void refuses_other_types(void **state)
{
    waldo__json *doc =
        parse("{\"s\":\"1\",\"n\":1,\"b\":true,\"z\":null,\"a\":[1],\"o\":{\"n\":1}}");
    const waldo__json_value *root = waldo__json_root(doc);

    (void)state;
    for (const waldo__json_value *at = waldo__json_first(root); at != NULL;
         at = waldo__json_next(at)) {
        waldo__json_type type = waldo__json_type_of(at);
        waldo_str text;
        int64_t number;
        double real;
        int truth;

        assert_int_equal(waldo__json_str(at, &text), type == WALDO__JSON_STRING);
        assert_int_equal(waldo__json_int(at, &number), type == WALDO__JSON_NUMBER);
        assert_int_equal(waldo__json_num(at, &real), type == WALDO__JSON_NUMBER);
        assert_int_equal(waldo__json_bool(at, &truth), type == WALDO__JSON_BOOL);
    }
    assert_int_equal(waldo__json_get_int(root, "s", -5), -5);
    assert_int_equal(waldo__json_get_int(root, "missing", -5), -5);
    assert_int_equal(waldo__json_get_int(root, "n", -5), 1);
    assert_int_equal(waldo__json_get_bool(root, "n", 1), 1);
    assert_int_equal(waldo__json_get_bool(root, "b", 0), 1);
    assert_string_equal(waldo__json_get_str(root, "n").ptr, "");
    assert_string_equal(waldo__json_get_str(root, "s").ptr, "1");
    assert_null(waldo__json_get(root, "S"));
    assert_null(waldo__json_get(waldo__json_get(root, "a"), "n"));
    waldo__json_free(doc);
}

static void follows_paths(void **state)
{
    waldo__json *doc = parse("{\"a\":{\"b\":[{\"c\":5},{\"d\":6}],\"bb\":1,\"\":2}}");
    const waldo__json_value *root = waldo__json_root(doc);
    int64_t number = 0;

    (void)state;
    assert_true(waldo__json_int(waldo__json_path(root, "a.b.1.d"), &number) && number == 6);
    assert_true(waldo__json_int(waldo__json_path(root, "a.bb"), &number) && number == 1);
    assert_true(waldo__json_int(waldo__json_path(root, "a."), &number) && number == 2);
    assert_null(waldo__json_path(root, "a.b.2"));
    assert_null(waldo__json_path(root, "a.b.-1"));
    assert_null(waldo__json_path(root, "a.b.x"));
    assert_null(waldo__json_path(root, "a.bbb"));
    assert_null(waldo__json_path(root, "b"));
    assert_null(waldo__json_path(root, "a.bb.c"));
    waldo__json_free(doc);
}

static void iterates_in_order(void **state)
{
    waldo__json *doc = parse("{\"z\":1,\"a\":2,\"m\":3}");
    char keys[8] = "";
    size_t count = 0;

    (void)state;
    for (const waldo__json_value *at = waldo__json_first(waldo__json_root(doc)); at != NULL;
         at = waldo__json_next(at)) {
        keys[count++] = waldo__json_key(at)[0];
    }
    assert_string_equal(keys, "zam");
    assert_int_equal(waldo__json_count(waldo__json_root(doc)), 3);
    waldo__json_free(doc);
}

static const struct {
    const char *text;
    int whole;
    int64_t value;
} integers[] = {
    { "0", 1, 0 },
    { "-0", 1, 0 },
    { "-1", 1, -1 },
    { "30000000000", 1, 30000000000 },
    { "999999999999999", 1, 999999999999999 },
    { "1000000000000000", 1, 1000000000000000 },
    { "9007199254740991", 1, 9007199254740991 },
    { "9007199254740992", 1, 9007199254740992 },
    { "-9007199254740992", 1, -9007199254740992 },
    { "9007199254740993", 0, 0 },
    { "-9007199254740993", 0, 0 },
    { "1234567890123456789", 0, 0 },
    { "9223372036854775808", 0, 0 },
    { "123456789012345678901234567890", 0, 0 },
    { "1.0", 1, 1 },
    { "1.50e1", 1, 15 },
    { "1e3", 1, 1000 },
    { "1000e-3", 1, 1 },
    { "100.00E-2", 1, 1 },
    { "0.001e3", 1, 1 },
    { "0.0", 1, 0 },
    { "0e99999999999", 1, 0 },
    { "1e15", 1, 1000000000000000 },
    { "9007199254740992.0", 1, 9007199254740992 },
    { "1.5", 0, 0 },
    { "1e-1", 0, 0 },
    { "1e400", 0, 0 },
    { "1e99999999999", 0, 0 },
    { "1e-99999999999", 0, 0 },
    { "9007199254740992.5", 0, 0 },
    { "9007199254740991.9999999999", 0, 0 },
    { "1.00000000000000000000000000001", 0, 0 },
    { "-0.000000000000000000000000000000000000000000000001", 0, 0 },
};

static void reads_integers_exactly_or_not_at_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        waldo__json *doc = parse(integers[i].text);
        int64_t value = 77;

        assert_int_equal(waldo__json_int(waldo__json_root(doc), &value), integers[i].whole);
        assert_int_equal(value, integers[i].whole ? integers[i].value : 77);
        waldo__json_free(doc);
    }
}

/* Around each power of two and ten: the number itself when it is within 2^53, else nothing. */
static void reads_integers_around_the_edges(void **state)
{
    uint64_t edge = 1;

    (void)state;
    for (int i = 0; i < 63; i++, edge *= 2) {
        for (int offset = -2; offset <= 2; offset++) {
            int64_t want = (int64_t)edge + offset, got = 0;
            int within = want <= INT64_C(9007199254740992);
            char text[32];
            waldo__json *doc;

            (void)snprintf(text, sizeof text, "%lld", (long long)want);
            doc = parse(text);
            assert_int_equal(waldo__json_int(waldo__json_root(doc), &got), within);
            assert_int_equal(got, within ? want : 0);
            waldo__json_free(doc);
        }
    }
}

static void reads_numbers(void **state)
{
    waldo__json *doc = parse("[0.5,-2e3,1e400,12345678901234567890]");
    const waldo__json_value *at = waldo__json_first(waldo__json_root(doc));
    double real = 0;

    (void)state;
    assert_true(waldo__json_num(at, &real) && real == 0.5);
    at = waldo__json_next(at);
    assert_true(waldo__json_num(at, &real) && real == -2000);
    at = waldo__json_next(at);
    assert_false(waldo__json_num(at, &real));
    at = waldo__json_next(at);
    assert_true(waldo__json_num(at, &real) && real == 12345678901234567890.0);
    waldo__json_free(doc);
}

/* Only the value itself is printed, not its key and what follows it. */
static void prints_a_part(void **state)
{
    waldo__json *doc = parse("{\"a\":{\"x\":[1,2.50]},\"b\":12345678901234567890,\"c\":\"\"}");
    waldo__buf out = WALDO__BUF_INIT(100);

    (void)state;
    waldo__json_print(waldo__json_get(waldo__json_root(doc), "a"), &out);
    waldo__buf_putc(&out, ' ');
    waldo__json_print(waldo__json_get(waldo__json_root(doc), "b"), &out);
    waldo__buf_putc(&out, ' ');
    waldo__json_print(NULL, &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "{\"x\":[1,2.50]} 12345678901234567890 null");
    waldo__buf_free(&out);
    waldo__buf_init(&out, 5);
    assert_int_equal(waldo__json_print(waldo__json_root(doc), &out), WALDO_ETOOBIG);
    waldo__buf_free(&out);
    waldo__json_free(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_types),
        cmocka_unit_test(answers_none_to_null),
        cmocka_unit_test(refuses_other_types),
        cmocka_unit_test(follows_paths),
        cmocka_unit_test(iterates_in_order),
        cmocka_unit_test(reads_integers_exactly_or_not_at_all),
        cmocka_unit_test(reads_integers_around_the_edges),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(prints_a_part),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
