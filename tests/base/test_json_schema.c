/* Tool arguments against their schema: each keyword that is enforced, and the sentence it gives. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "json/schema.h"

static const char order[] =
    "{\"type\":\"object\",\"required\":[\"order_id\",\"lines\"],\"additionalProperties\":false,"
    "\"properties\":{"
    "\"order_id\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":4},"
    "\"count\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10},"
    "\"price\":{\"type\":\"number\",\"minimum\":0.5},"
    "\"note\":{\"type\":[\"string\",\"null\"]},"
    "\"color\":{\"enum\":[\"red\",\"green\",3,null,true]},"
    "\"flag\":{\"type\":\"boolean\"},"
    "\"any\":{},"
    "\"free\":{\"type\":\"object\"},"
    "\"odd\":{\"type\":\"quaternion\",\"enum\":[{}]},"
    "\"lines\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"sku\"],"
    "\"properties\":{\"sku\":{\"type\":\"string\"},\"tags\":{\"type\":\"array\","
    "\"items\":{\"type\":\"string\"}}}}}}}";

static void check(const char *members, const char *want)
{
    waldo__json *schema = NULL, *value = NULL;
    waldo_error *error = NULL;
    waldo__buf text = WALDO__BUF_INIT(10000);
    waldo_status status;

    waldo__buf_printf(&text, "{\"order_id\":\"abc\",\"lines\":[]%s}", members);
    assert_int_equal(waldo__json_parse(waldo__str(order), NULL, &schema, NULL), WALDO_OK);
    assert_int_equal(waldo__json_parse(waldo__buf_str(&text),
                                       &(waldo__json_limits){ .allow_duplicates = 1 }, &value,
                                       NULL),
                     WALDO_OK);
    status = waldo__schema_check(waldo__json_root(schema), waldo__json_root(value), &error);
    assert_string_equal(waldo_error_message(error), want != NULL ? want : "");
    assert_int_equal(status, want != NULL ? WALDO_EINVAL : WALDO_OK);
    waldo_error_free(error);
    waldo__json_free(schema);
    waldo__json_free(value);
    waldo__buf_free(&text);
}

static void check_whole(const char *schema_text, const char *value_text, const char *want)
{
    waldo__json *schema = NULL, *value = NULL;
    waldo_error *error = NULL;

    assert_int_equal(waldo__json_parse(waldo__str(schema_text), NULL, &schema, NULL), WALDO_OK);
    assert_int_equal(waldo__json_parse(waldo__str(value_text), NULL, &value, NULL), WALDO_OK);
    assert_int_equal(waldo__schema_check(waldo__json_root(schema), waldo__json_root(value), &error),
                     want != NULL ? WALDO_EINVAL : WALDO_OK);
    assert_string_equal(waldo_error_message(error), want != NULL ? want : "");
    waldo_error_free(error);
    waldo__json_free(schema);
    waldo__json_free(value);
}

static void accepts_what_fits(void **state)
{
    (void)state;
    check("", NULL);
    check(",\"count\":1,\"price\":0.5,\"note\":null,\"color\":\"red\",\"flag\":false", NULL);
    check(",\"count\":10,\"price\":1e3,\"note\":\"x\",\"color\":3", NULL);
    check(",\"count\":2.0,\"color\":null", NULL);
    check(",\"color\":true", NULL);
    check(",\"any\":[[{\"x\":1}]],\"free\":{\"what\":[1,\"ever\"]},\"odd\":5", NULL);
}

static void names_the_type_that_is_wrong(void **state)
{
    (void)state;
    check_whole(order, "[]", "expected an object, got an array");
    check_whole(order, "null", "expected an object, got null");
    check_whole(order, "{\"order_id\":5,\"lines\":[]}",
                "order_id: expected a string, got a number");
    check(",\"count\":\"1\"", "count: expected an integer, got a string");
    check(",\"count\":1.5", "count: expected an integer, got a number");
    check(",\"price\":true", "price: expected a number, got a boolean");
    check(",\"note\":{}", "note: expected a string or null, got an object");
    check(",\"flag\":0", "flag: expected a boolean, got a number");
    check_whole("{\"type\":\"object\",\"properties\":{\"n\":{\"minimum\":1,\"type\":\"null\","
                "\"title\":\"string\"}}}",
                "{\"n\":\"x\"}", "n: expected null, got a string");
}

static void names_the_place_inside(void **state)
{
    (void)state;
    check_whole(order,
                "{\"order_id\":\"ab\",\"lines\":[{\"sku\":\"a\"},{\"sku\":\"b\",\"tags\":"
                "[\"x\",\"y\",7]}]}",
                "lines[1].tags[2]: expected a string, got a number");
    check_whole(order, "{\"order_id\":\"ab\",\"lines\":[{\"sku\":\"a\"},{}]}",
                "lines[1]: \"sku\" is required but missing");
    check_whole(order, "{\"order_id\":\"ab\",\"lines\":[1]}",
                "lines[0]: expected an object, got a number");
    check_whole("{\"items\":{\"items\":{\"type\":\"number\"}}}", "[[1,2],[],[3,\"x\"]]",
                "[2][1]: expected a number, got a string");
}

static void names_what_is_missing_or_extra(void **state)
{
    (void)state;
    check_whole(order, "{\"lines\":[]}", "\"order_id\" is required but missing");
    check_whole(order, "{\"order_id\":\"ab\"}", "\"lines\" is required but missing");
    check(",\"colour\":\"red\"",
          "\"colour\" is not a known property, known are: order_id, count, price, note, color, "
          "flag, any, free, odd, lines");
    check_whole("{\"type\":\"object\",\"additionalProperties\":false}", "{\"a\":1}",
                "\"a\" is not a known property");
    check_whole("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}",
                NULL);
}

static void checks_choices(void **state)
{
    (void)state;
    check(",\"color\":\"blue\"",
          "color: expected one of \"red\", \"green\", 3, null, true, got \"blue\"");
    check(",\"color\":3.5", "color: expected one of \"red\", \"green\", 3, null, true, got 3.5");
    check(",\"color\":false",
          "color: expected one of \"red\", \"green\", 3, null, true, got false");
    check(",\"color\":3.0", NULL);
}

static void checks_ranges_and_lengths(void **state)
{
    (void)state;
    check(",\"count\":0", "count: must be at least 1, got 0");
    check(",\"count\":11", "count: must be at most 10, got 11");
    check(",\"price\":0.25", "price: must be at least 0.5, got 0.25");
    check_whole(order, "{\"order_id\":\"a\",\"lines\":[]}",
                "order_id: must have at least 2 characters, has 1");
    check_whole(order, "{\"order_id\":\"abcde\",\"lines\":[]}",
                "order_id: must have at most 4 characters, has 5");
    /* characters, not bytes */
    check_whole(order,
                "{\"order_id\":\"\xe6\xbc\xa2\xe6\xbc\xa2\xf0\x9f\x98\x80\xc3\xa9\","
                "\"lines\":[]}",
                NULL);
    check_whole(order, "{\"order_id\":\"\xe6\xbc\xa2\",\"lines\":[]}",
                "order_id: must have at least 2 characters, has 1");
}

/* A message stays short and is valid text, however long the value is. */
static void shortens_what_it_shows(void **state)
{
    waldo__buf text = WALDO__BUF_INIT(100000);
    waldo__json *schema = NULL, *value = NULL;
    waldo_error *error = NULL;

    (void)state;
    waldo__buf_puts(&text, "\"");
    for (int i = 0; i < 200; i++) {
        waldo__buf_puts(&text, "\xe6\xbc\xa2");
    }
    waldo__buf_puts(&text, "\"");
    waldo__json_parse(WALDO__S("{\"enum\":[1]}"), NULL, &schema, NULL);
    waldo__json_parse(waldo__buf_str(&text), NULL, &value, NULL);
    assert_int_equal(waldo__schema_check(waldo__json_root(schema), waldo__json_root(value), &error),
                     WALDO_EINVAL);
    assert_int_equal(strlen(waldo_error_message(error)),
                     strlen("expected one of 1, got \"") + 26 * 3 + 3);
    waldo_error_free(error);
    waldo__json_free(schema);
    waldo__json_free(value);
    waldo__buf_free(&text);
}

static void check_schema(const char *schema, waldo_status status, const char *want)
{
    waldo_error *error = NULL;

    assert_int_equal(waldo__schema_valid(waldo__str(schema), &error), status);
    assert_string_equal(waldo_error_message(error), want);
    waldo_error_free(error);
    assert_int_equal(waldo__schema_valid(waldo__str(schema), NULL), status);
}

static void judges_schemas(void **state)
{
    (void)state;
    check_schema(order, WALDO_OK, "");
    check_schema("{\"type\":\"object\"}", WALDO_OK, "");
    check_schema("{}", WALDO_EINVAL, "the schema must be an object with \"type\":\"object\"");
    check_schema("[]", WALDO_EINVAL, "the schema must be an object with \"type\":\"object\"");
    check_schema("{\"type\":\"string\"}", WALDO_EINVAL,
                 "the schema must be an object with \"type\":\"object\"");
    check_schema("{\"type\":\"object\",\"properties\":[]}", WALDO_EINVAL,
                 "\"properties\" of the schema must be an object");
    check_schema("{", WALDO_EJSON,
                 "the schema cannot be read: JSON: the text ends too early at byte 1");
}

static void tells_strict_schemas(void **state)
{
#define CLOSED(properties, required)                                                               \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required                 \
    "],\"additionalProperties\":false}"
    static const struct {
        const char *schema;
        int strict;
    } rows[] = {
        { CLOSED("", ""), 1 },
        { CLOSED("\"a\":{\"type\":\"string\"}", "\"a\""), 1 },
        { CLOSED("\"a\":{\"type\":\"string\"}", ""), 0 },
        { CLOSED("\"a\":{},\"b\":{}", "\"b\",7"), 0 },
        { "{\"type\":\"object\"}", 0 },
        { "{\"type\":\"object\",\"additionalProperties\":true}", 0 },
        { "{\"properties\":{}}", 0 },
        { CLOSED("\"a\":" CLOSED("\"b\":{\"type\":\"integer\"}", "\"b\""), "\"a\""), 1 },
        { CLOSED("\"a\":{\"type\":\"array\",\"items\":" CLOSED("\"b\":{}", "") "}", "\"a\""), 0 },
        { CLOSED("\"a\":{\"type\":[\"object\",\"null\"]}", "\"a\""), 0 },
        { CLOSED("\"a\":{\"type\":[\"string\",\"null\"]},\"z\":{\"type\":\"object\"}",
                 "\"a\",\"z\""),
          0 },
        { "{\"anyOf\":[],\"type\":\"object\",\"additionalProperties\":false}", 0 },
        { "[]", 1 },
        { "{", 0 },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo_status status = WALDO_OK;

        if (waldo__schema_is_strict(waldo__str(rows[i].schema), NULL, &status) != rows[i].strict ||
            status != WALDO_OK) {
            fail_msg("%s", rows[i].schema);
        }
    }
}

static void tells_schemas_of_few_words(void **state)
{
    static const char words[] =
        "type\0properties\0required\0additionalProperties\0items\0enum\0$defs\0";
    static const struct {
        const char *schema;
        int strict;
    } rows[] = {
        { CLOSED("\"a\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\"]}}", "\"a\""), 1 },
        { CLOSED("\"minimum\":{\"type\":\"integer\"}", "\"minimum\""), 1 },
        { CLOSED("\"a\":{\"type\":\"integer\",\"minimum\":1}", "\"a\""), 0 },
        { CLOSED("\"a\":{\"type\":\"array\",\"items\":{\"pattern\":\"x\"}}", "\"a\""), 0 },
        { "{\"typ\":1}", 0 },
        { "{\"$defs\":{\"pattern\":{\"type\":\"string\"}}}", 1 },
        { "{\"$defs\":{\"pattern\":{\"pattern\":\"x\"}}}", 0 },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo_status status = WALDO_OK;

        if (waldo__schema_is_strict(waldo__str(rows[i].schema), words, &status) != rows[i].strict ||
            !waldo__schema_is_strict(waldo__str(rows[i].schema), NULL, &status)) {
            fail_msg("%s", rows[i].schema);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_fits),      cmocka_unit_test(names_the_type_that_is_wrong),
        cmocka_unit_test(names_the_place_inside), cmocka_unit_test(names_what_is_missing_or_extra),
        cmocka_unit_test(checks_choices),         cmocka_unit_test(checks_ranges_and_lengths),
        cmocka_unit_test(shortens_what_it_shows), cmocka_unit_test(judges_schemas),
        cmocka_unit_test(tells_strict_schemas),   cmocka_unit_test(tells_schemas_of_few_words),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
