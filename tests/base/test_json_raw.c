/* Parts of a document as bytes, and a document in one line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "json/json.h"

/* "key=value;" for every part. */
static void expect_parts(const char *text, const char *expected)
{
    waldo__buf out = WALDO__BUF_INIT(4096);
    waldo__json_raw raw;
    waldo_str key, value;

    waldo__json_raw_begin(&raw, waldo__str(text));
    while (waldo__json_raw_next(&raw, &key, &value)) {
        waldo__buf_printf(&out, "%.*s=%.*s;", (int)key.len, key.ptr, (int)value.len, value.ptr);
    }
    assert_string_equal(waldo__buf_str(&out).ptr, expected);
    waldo__buf_free(&out);
}

static void parts(void **state)
{
    (void)state;
    expect_parts("{}", "");
    expect_parts(" [ ] ", "");
    expect_parts("{\"a\":1,\"b\":\"x\"}", "a=1;b=\"x\";");
    expect_parts(" { \"a\" : [1, {\"c\":2}] ,\n\"b\"\t: null } ", "a=[1, {\"c\":2}];b=null;");
    expect_parts("{\"a\":\"}\\\"]\",\"\\\"k\":{\"x\":\"{\"}}", "a=\"}\\\"]\";\\\"k={\"x\":\"{\"};");
    expect_parts("[1,-2.50e3,true,\"a,b\",[],{}]", "=1;=-2.50e3;=true;=\"a,b\";=[];={};");
    expect_parts("12", "");
    expect_parts("", "");
    /* not JSON: some of its bytes, and an end */
    expect_parts("{\"a\":\"x\\", "a=\"x\\;");
    expect_parts("{\"a\":[1,[2", "a=[1,[2;");
    expect_parts("{a:1}", "");
    expect_parts("{\"a\"", "");
}

static void members(void **state)
{
    waldo_str value = WALDO__S("untouched");

    (void)state;
    assert_false(waldo__json_raw_get(WALDO__S("{\"a\":{\"b\":1}}"), "b", &value));
    assert_false(waldo__json_raw_get(WALDO__S("[\"b\",1]"), "b", &value));
    assert_string_equal(value.ptr, "untouched");
    assert_true(waldo__json_raw_get(WALDO__S("{\"a\":\"b\",\"b\": 1.0 ,\"b\":2}"), "b", &value));
    assert_true(waldo__str_is(value, "1.0"));
}

static void compact(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        { " { \"a b\" :\t[ 1 ,\r\n \"x \\\" y\" ] }\n", "{\"a b\":[1,\"x \\\" y\"]}" },
        { "{\"a\":1}", "{\"a\":1}" },
        { "", "" },
        { "\"cut \\", "\"cut \\" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__buf out = WALDO__BUF_INIT(4096);

        assert_int_equal(waldo__json_raw_compact(waldo__str(cases[i].text), &out), WALDO_OK);
        assert_string_equal(waldo__buf_str(&out).ptr, cases[i].expected);
        waldo__buf_free(&out);
    }
}

static void between(void **state)
{
    static const struct {
        const char *text;
        const char *inside; /* NULL: it is of another form */
    } cases[] = {
        { "{\"a\":{\"b\":\"xyz\"}}", "xyz" },
        { "{\"a\":{\"b\":\"\"}}", "" },
        { " { \"a\" : {\"b\":  \" x \" } }", " x " },
        { "{\"a\":{\"b\":\"xyz\"}} ", NULL }, /* left to the parse */
        { "{\"a\":{\"b\":\"xyz\"}}}", NULL },
        { "{\"a\":{\"b\":\"xyz\"}", NULL },
        { "{\"a\":{\"b\":\"xyz", NULL },
        { "{\"a\":{\"b\":", NULL },
        { "{\"a\":{\"b\":\"x\\\"z\"}}", NULL },
        { "{\"a\":{\"b\":\"x\\u0041\"}}", NULL },
        { "{\"a \":{\"b\":\"xyz\"}}", NULL },
        { "{\"a\":{\"b\":\"xyz\",\"b\":\"\"}}", NULL },
        { "{\"a\":{\"c\":\"xyz\"}}", NULL },
        { "", NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        waldo_str inside = WALDO__S("stays");
        const char *want = cases[i].inside;

        assert_int_equal(
            waldo__json_raw_between(waldo__str(cases[i].text), "{\"a\":{\"b\":\"", "\"}}", &inside),
            want != NULL);
        want = want != NULL ? want : "stays";
        assert_int_equal(inside.len, strlen(want));
        assert_memory_equal(inside.ptr, want, inside.len);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),
        cmocka_unit_test(members),
        cmocka_unit_test(compact),
        cmocka_unit_test(between),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
