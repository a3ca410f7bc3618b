/* The guarded parse: what it refuses and where, what it must keep exactly. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "json/json.h"

#define BAD "\xef\xbf\xbd"

static const waldo__json_limits lenient = { .allow_duplicates = 1, .repair_surrogates = 1 };

/* Parse, print, compare. */
static void check_round_trip(waldo_str in, const waldo__json_limits *limits, const char *want)
{
    waldo__buf out = WALDO__BUF_INIT(10000);
    waldo__json *doc = NULL;
    waldo_error *error = NULL;

    assert_int_equal(waldo__json_parse(in, limits, &doc, &error), WALDO_OK);
    assert_null(error);
    assert_int_equal(waldo__json_print(waldo__json_root(doc), &out), WALDO_OK);
    assert_string_equal(waldo__buf_str(&out).ptr, want);
    waldo__buf_free(&out);
    waldo__json_free(doc);
}

static void check_failure(waldo_str in, const waldo__json_limits *limits, waldo_status status,
                          const char *want)
{
    waldo__json *doc = NULL;
    waldo_error *error = NULL;
    char message[200];

    assert_int_equal(waldo__json_parse(in, limits, &doc, &error), status);
    assert_null(doc);
    (void)snprintf(message, sizeof message, "JSON: %s", want);
    assert_string_equal(waldo_error_message(error), message);
    assert_int_equal(waldo_error_status(error), status);
    waldo_error_free(error);
    assert_int_equal(waldo__json_parse(in, limits, &doc, NULL), status);
}

static const struct {
    waldo_str in;
    const char *out; /* NULL: the same */
} good[] = {
    { WALDO__S("null"), NULL },
    { WALDO__S("true"), NULL },
    { WALDO__S("false"), NULL },
    { WALDO__S("\"\""), NULL },
    { WALDO__S("[]"), NULL },
    { WALDO__S("{}"), NULL },
    { WALDO__S("[[],{},[[]],{\"\":{}}]"), NULL },
    { WALDO__S(" \t\r\n[ 1 , 2 ] \t\r\n"), "[1,2]" },
    { WALDO__S("\xef\xbb\xbf[1]"), "[1]" },
    { WALDO__S("\xef\xbb\xbf"
               "1"),
      "1" },
    { WALDO__S("{\"b\":1,\"a\":{\"z\":[true,null],\"y\":2},\"A\":3}"), NULL },
    /* numbers keep their text */
    { WALDO__S("[0,-1,999999999999999,-999999999999999]"), NULL },
    { WALDO__S("[9007199254740993,1234567890123456789,-9223372036854775808]"), NULL },
    { WALDO__S("123456789012345678901234567890"), NULL },
    { WALDO__S("[0.1,0.10,1.0,1e400,-0,-0.0,1E+2,1e-7,0.30000000000000004]"), NULL },
    { WALDO__S("[1,{\"a\":[2,3.50,{\"b\":4}],\"c\":5},6.0,[[7]],8e0,9]"), NULL },
    { WALDO__S("0.1234567890123456789012345678901234567890123456789012345678901"), NULL },
    /* strings */
    { WALDO__S("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\\"\\\\/\\b\\f\\n\\r\\t\"" },
    { WALDO__S("\"\\u0041\\u00e9\\u6f22\\ud83d\\ude00\\uD83D\\uDE00\""),
      "\"A\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\xf0\x9f\x98\x80\"" },
    { WALDO__S("\"\\u001f\\uFFFF\\uFFFE\\ue000\""),
      "\"\\u001f\xef\xbf\xbf\xef\xbf\xbe\xee\x80\x80\"" },
    { WALDO__S("\"raw\nnewline\tand\x01\""), "\"raw\\nnewline\\tand\\u0001\"" },
    { WALDO__S("\"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\x7f\""), NULL },
    /* equal only when one looks away */
    { WALDO__S("{\"a\":1,\"A\":2,\"a \":3,\"\\u0061\\u0061\":4}"),
      "{\"a\":1,\"A\":2,\"a \":3,\"aa\":4}" },
    { WALDO__S("[{\"a\":1},{\"a\":1,\"b\":{\"a\":1}}]"), NULL },
};

static void parses_and_prints(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const char *want = good[i].out != NULL ? good[i].out : good[i].in.ptr;

        check_round_trip(good[i].in, NULL, want);
        check_round_trip(good[i].in, &lenient, want);
    }
}

/* A text ends where its length says, whatever lies behind. */
static void reads_no_further_than_its_end(void **state)
{
    (void)state;
    check_round_trip((waldo_str){ "12345", 3 }, NULL, "123");
    check_round_trip((waldo_str){ "[1]]", 3 }, NULL, "[1]");
    check_round_trip((waldo_str){ "1.5e3", 3 }, NULL, "1.5");
    check_round_trip((waldo_str){ "\"a\"\"", 3 }, NULL, "\"a\"");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char *exact = malloc(good[i].in.len); /* the sanitizer watches its end */
        waldo__json *doc = NULL;

        assert_non_null(exact);
        memcpy(exact, good[i].in.ptr, good[i].in.len);
        assert_int_equal(waldo__json_parse(waldo__strn(exact, good[i].in.len), NULL, &doc, NULL),
                         WALDO_OK);
        waldo__json_free(doc);
        free(exact);
    }
}

static const struct {
    waldo_str in;
    waldo_status status;
    const char *message;
} bad[] = {
    { WALDO__S(""), WALDO_EJSON, "the text ends too early at byte 0" },
    { WALDO__S("  "), WALDO_EJSON, "the text ends too early at byte 2" },
    { WALDO__S("\xef\xbb\xbf"), WALDO_EJSON, "the text ends too early at byte 3" },
    { WALDO__S("["), WALDO_EJSON, "the text ends too early at byte 1" },
    { WALDO__S("[1"), WALDO_EJSON, "the text ends too early at byte 2" },
    { WALDO__S("[1,"), WALDO_EJSON, "the text ends too early at byte 3" },
    { WALDO__S("{\"a\""), WALDO_EJSON, "the text ends too early at byte 4" },
    { WALDO__S("{\"a\":"), WALDO_EJSON, "the text ends too early at byte 5" },
    { WALDO__S("{\"1\":1,"), WALDO_EJSON, "the text ends too early at byte 7" },
    { WALDO__S("[1,]"), WALDO_EJSON, "a value is missing at byte 3" },
    { WALDO__S("[,1]"), WALDO_EJSON, "a value is missing at byte 1" },
    { WALDO__S("{\"a\":1,}"), WALDO_EJSON, "a key in quotes is missing at byte 7" },
    { WALDO__S("{a:1}"), WALDO_EJSON, "a key in quotes is missing at byte 1" },
    { WALDO__S("{\"a\" 1}"), WALDO_EJSON, "a colon is missing at byte 5" },
    { WALDO__S("{\"a\":1]"), WALDO_EJSON, "a comma or } is missing at byte 6" },
    { WALDO__S("[1}"), WALDO_EJSON, "a comma or ] is missing at byte 2" },
    { WALDO__S("[1 2]"), WALDO_EJSON, "a comma or ] is missing at byte 3" },
    { WALDO__S("]"), WALDO_EJSON, "a value is missing at byte 0" },
    { WALDO__S("{\"a\":1} xyz"), WALDO_EJSON, "more text after the value at byte 8" },
    { WALDO__S("{}\"\""), WALDO_EJSON, "more text after the value at byte 2" },
    { WALDO__S("1\0"), WALDO_EJSON, "more text after the value at byte 1" },
    { WALDO__S("tru"), WALDO_EJSON, "an unknown word at byte 0" },
    { WALDO__S("[nul]"), WALDO_EJSON, "an unknown word at byte 1" },
    { WALDO__S("truely"), WALDO_EJSON, "more text after the value at byte 4" },
    { WALDO__S("NaN"), WALDO_EJSON, "a value is missing at byte 0" },
    { WALDO__S("Infinity"), WALDO_EJSON, "a value is missing at byte 0" },
    { WALDO__S("'a'"), WALDO_EJSON, "a value is missing at byte 0" },
    { WALDO__S("\xa0[]"), WALDO_EJSON, "a value is missing at byte 0" },
    /* numbers */
    { WALDO__S("[01]"), WALDO_EJSON, "a comma or ] is missing at byte 2" },
    { WALDO__S("[-]"), WALDO_EJSON, "a number without digits at byte 2" },
    { WALDO__S("[1.]"), WALDO_EJSON, "a decimal point without digits at byte 3" },
    { WALDO__S("[1e]"), WALDO_EJSON, "an exponent without digits at byte 3" },
    { WALDO__S("[1e+]"), WALDO_EJSON, "an exponent without digits at byte 4" },
    { WALDO__S("[.5]"), WALDO_EJSON, "a value is missing at byte 1" },
    { WALDO__S("[+5]"), WALDO_EJSON, "a value is missing at byte 1" },
    { WALDO__S("[0x10]"), WALDO_EJSON, "a comma or ] is missing at byte 2" },
    { WALDO__S("[1234567890123456789012345678901234567890123456789012345678901234]"), WALDO_ETOOBIG,
      "a number of more than 63 characters at byte 1" },
    /* strings */
    { WALDO__S("[\"abc"), WALDO_EJSON, "a string without its end at byte 1" },
    { WALDO__S("\"a\\\""), WALDO_EJSON, "a string without its end at byte 0" },
    { WALDO__S("\"\\x41\""), WALDO_EJSON, "an unknown escape in a string at byte 1" },
    { WALDO__S("\"\\\0\""), WALDO_EJSON, "an unknown escape in a string at byte 1" },
    { WALDO__S("\"\\u12g4\""), WALDO_EJSON, "\\u without four hex digits at byte 1" },
    { WALDO__S("\"\\u12"), WALDO_EJSON, "\\u without four hex digits at byte 1" },
    { WALDO__S("[\"ab\\u0000\"]"), WALDO_EJSON, "a NUL character in a string at byte 4" },
    { WALDO__S("{\"a\\u0000b\":1}"), WALDO_EJSON, "a NUL character in a string at byte 3" },
    { WALDO__S("\"a\0b\""), WALDO_EJSON, "a NUL character in a string at byte 2" },
    /* UTF-8: each class once, the rest is the decoder's own test */
    { WALDO__S("\"\xff\""), WALDO_EUTF8, "invalid UTF-8 at byte 1" },
    { WALDO__S("\"ab\x80\""), WALDO_EUTF8, "invalid UTF-8 at byte 3" },
    { WALDO__S("\"\xc0\xaf\""), WALDO_EUTF8, "invalid UTF-8 at byte 1" },
    { WALDO__S("\"12345678\xed\xa0\x80\""), WALDO_EUTF8, "invalid UTF-8 at byte 9" },
    { WALDO__S("\"\xf4\x90\x80\x80\""), WALDO_EUTF8, "invalid UTF-8 at byte 1" },
    { WALDO__S("\"\xe6\xbc\""), WALDO_EUTF8, "invalid UTF-8 at byte 1" },
    { WALDO__S("\"\xe6\xbc"), WALDO_EUTF8, "invalid UTF-8 at byte 1" },
    { WALDO__S("{\"k\xfe\":1}"), WALDO_EUTF8, "invalid UTF-8 at byte 3" },
};

static void refuses_with_the_offset(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_failure(bad[i].in, NULL, bad[i].status, bad[i].message);
        check_failure(bad[i].in, &lenient, bad[i].status, bad[i].message);
    }
}

/* Every proper prefix of a document that ends with a bracket is refused, whatever it cuts. */
static void refuses_every_prefix(void **state)
{
    static const char text[] = "{\"a\":[1.5e3,true,null,\"\\ud83d\\ude00\xe6\xbc\xa2\"],\"b\":{}}";
    unsigned accepted = 0;

    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++) {
        waldo__json *doc = NULL;

        accepted += waldo__json_parse(waldo__strn(text, len), NULL, &doc, NULL) == WALDO_OK;
    }
    assert_int_equal(accepted, 0);
    check_round_trip(waldo__str(text), NULL,
                     "{\"a\":[1.5e3,true,null,\"\xf0\x9f\x98\x80\xe6\xbc\xa2\"],\"b\":{}}");
}

static const struct {
    waldo_str in;
    size_t where;
    const char *repaired;
} surrogates[] = {
    { WALDO__S("\"\\ud83d\""), 1, "\"" BAD "\"" },
    { WALDO__S("\"\\ude00\""), 1, "\"" BAD "\"" },
    { WALDO__S("\"a\\ud83dz\""), 2, "\"a" BAD "z\"" },
    { WALDO__S("\"\\ud83d\\ud83d\\ude00\""), 1, "\"" BAD "\xf0\x9f\x98\x80\"" },
    { WALDO__S("\"\\ude00\\ud83d\""), 1, "\"" BAD BAD "\"" },
    { WALDO__S("\"\\ud83d\\n\""), 1, "\"" BAD "\\n\"" },
    { WALDO__S("\"\\ud83d\\u0041\""), 1, "\"" BAD "A\"" },
    { WALDO__S("\"\\uDBFF\\uE000\""), 1, "\"" BAD "\xee\x80\x80\"" },
    { WALDO__S("{\"\\ud83d\":1.50}"), 2, "{\"" BAD "\":1.50}" },
};

static void reads_a_servers_answer(void **state)
{
    waldo__json *doc = NULL;
    waldo_error *error = NULL;
    waldo_str text = WALDO__S("{\"a\":\"\\ud83d\",\"a\":2}");

    (void)state;
    assert_int_equal(waldo__json_parse_answer(text, &doc, &error), WALDO_OK);
    assert_string_equal(waldo__json_get_str(waldo__json_root(doc), "a").ptr, BAD);
    waldo__json_free(doc);
    doc = NULL;
    assert_int_equal(waldo__json_parse_answer(WALDO__S("{\"a\":1}x"), &doc, &error), WALDO_EJSON);
    assert_null(doc);
    assert_non_null(error);
    waldo_error_free(error);
}

static void treats_lone_surrogates_as_asked(void **state)
{
    static const waldo__json_limits repair = { .repair_surrogates = 1 };

    (void)state;
    for (size_t i = 0; i < sizeof surrogates / sizeof surrogates[0]; i++) {
        char message[100];

        (void)snprintf(message, sizeof message,
                       "a surrogate escape without its other half at byte %zu",
                       surrogates[i].where);
        check_failure(surrogates[i].in, NULL, WALDO_EJSON, message);
        check_round_trip(surrogates[i].in, &repair, surrogates[i].repaired);
    }
    /* two keys that are equal only after the repair */
    check_failure(WALDO__S("{\"\\ud83d\":1,\"\\ud83e\":2}"), &repair, WALDO_EJSON,
                  "a key that this object has already at byte 12");
    check_failure(WALDO__S("\"\\ud83d\\u00\""), &repair, WALDO_EJSON,
                  "\\u without four hex digits at byte 7");
}

static void refuses_duplicate_keys(void **state)
{
    static const struct {
        waldo_str in;
        size_t where;
    } cases[] = {
        { WALDO__S("{\"a\":1,\"a\":2}"), 7 },
        { WALDO__S("{\"\":1,\"\":2}"), 6 },
        { WALDO__S("{\"a\":1,\"b\":{\"a\":1},\"a\":2}"), 19 },
        { WALDO__S("[{\"x\":{\"k\":1,\"l\":2,\"k\":3}}]"), 19 },
        { WALDO__S("{\"a\":1,\"\\u0061\":2}"), 7 },
        { WALDO__S("{\"\\u00e9\":1,\"\xc3\xa9\":2}"), 12 },
        { WALDO__S("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}"), 18 },
        { WALDO__S("{\"\\n\":1,\"\\u000a\":2}"), 8 },
        /* more than a few */
        { WALDO__S("{\"i\":0,\"h\":0,\"g\":0,\"f\":0,\"e\":0,\"d\":0,\"c\":0,\"b\":0,\"a\":0,"
                   "\"d\":0}"),
          55 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[100];
        waldo__json *doc = NULL;

        (void)snprintf(message, sizeof message, "a key that this object has already at byte %zu",
                       cases[i].where);
        check_failure(cases[i].in, NULL, WALDO_EJSON, message);
        assert_int_equal(waldo__json_parse(cases[i].in, &lenient, &doc, NULL), WALDO_OK);
        waldo__json_free(doc);
    }
}

static void takes_the_first_duplicate_when_allowed(void **state)
{
    waldo__json *doc = NULL;

    (void)state;
    assert_int_equal(waldo__json_parse(WALDO__S("{\"a\":1,\"a\":2}"), &lenient, &doc, NULL),
                     WALDO_OK);
    assert_int_equal(waldo__json_get_int(waldo__json_root(doc), "a", 0), 1);
    waldo__json_free(doc);
}

/* Thousands of keys, in falling and in rising order, one of them twice. */
static void finds_a_duplicate_among_many(void **state)
{
    waldo__buf text = WALDO__BUF_INIT(1 << 20);
    waldo__json *doc = NULL;

    (void)state;
    waldo__buf_putc(&text, '{');
    for (int i = 9999; i > 0; i--) {
        waldo__buf_printf(&text, "\"key%d\":[%d],", i, i);
    }
    waldo__buf_puts(&text, "\"key0\":0}");
    assert_int_equal(waldo__json_parse(waldo__buf_str(&text), NULL, &doc, NULL), WALDO_OK);
    assert_int_equal(waldo__json_count(waldo__json_root(doc)), 10000);
    waldo__json_free(doc);
    doc = NULL;
    waldo__buf_truncate(&text, text.len - 1);
    waldo__buf_puts(&text, ",\"key5000\":1}");
    assert_int_equal(waldo__json_parse(waldo__buf_str(&text), NULL, &doc, NULL), WALDO_EJSON);
    assert_null(doc);
    waldo__buf_free(&text);
}

static void fill(waldo__buf *text, const char *piece, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        waldo__buf_puts(text, piece);
    }
}

static waldo_status parse_nested(size_t depth, const waldo__json_limits *limits)
{
    waldo__buf text = WALDO__BUF_INIT(1 << 24);
    waldo__json *doc = NULL;
    waldo_status status;

    fill(&text, "[", depth / 2);
    fill(&text, "{\"a\":", depth - depth / 2);
    waldo__buf_puts(&text, "1.0");
    fill(&text, "}", depth - depth / 2);
    fill(&text, "]", depth / 2);
    status = waldo__json_parse(waldo__buf_str(&text), limits, &doc, NULL);
    if (status == WALDO_OK) {
        waldo__buf out = WALDO__BUF_INIT(1 << 24);

        assert_int_equal(waldo__json_print(waldo__json_root(doc), &out), WALDO_OK);
        assert_string_equal(waldo__buf_str(&out).ptr, waldo__buf_str(&text).ptr);
        waldo__buf_free(&out);
    }
    waldo__json_free(doc);
    waldo__buf_free(&text);
    return status;
}

static void limits_the_depth(void **state)
{
    static const waldo__json_limits three = { .max_depth = 3 }, much = { .max_depth = 100000 };

    (void)state;
    assert_int_equal(parse_nested(128, NULL), WALDO_OK);
    assert_int_equal(parse_nested(129, NULL), WALDO_ETOOBIG);
    assert_int_equal(parse_nested(3, &three), WALDO_OK);
    assert_int_equal(parse_nested(4, &three), WALDO_ETOOBIG);
    assert_int_equal(parse_nested(512, &much), WALDO_OK);
    assert_int_equal(parse_nested(513, &much), WALDO_ETOOBIG);
    assert_int_equal(parse_nested(1000000, &much), WALDO_ETOOBIG);
    check_failure(WALDO__S("[[[{}]]]"), &three, WALDO_ETOOBIG, "too many levels at byte 3");
}

static void limits_bytes_and_values(void **state)
{
    static const waldo__json_limits bytes = { .max_bytes = 5 }, values = { .max_values = 3 };

    (void)state;
    check_round_trip(WALDO__S("[1,2]"), &bytes, "[1,2]");
    check_failure(WALDO__S("[1,2] "), &bytes, WALDO_ETOOBIG, "too large at byte 5");
    check_round_trip(WALDO__S("[1,2]"), &values, "[1,2]");
    check_failure(WALDO__S("[1,{}, 3]"), &values, WALDO_ETOOBIG, "too many values at byte 7");
}

static void keeps_an_earlier_error(void **state)
{
    waldo_error *error = NULL;
    waldo__json *doc = NULL;

    (void)state;
    waldo_error_set(&error, WALDO_EIO, WALDO_CLASS_SYSTEM, "first");
    assert_int_equal(waldo__json_parse(WALDO__S("["), NULL, &doc, &error), WALDO_EJSON);
    assert_string_equal(waldo_error_message(error), "first");
    waldo_error_free(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_and_prints),
        cmocka_unit_test(reads_no_further_than_its_end),
        cmocka_unit_test(refuses_with_the_offset),
        cmocka_unit_test(refuses_every_prefix),
        cmocka_unit_test(treats_lone_surrogates_as_asked),
        cmocka_unit_test(reads_a_servers_answer),
        cmocka_unit_test(refuses_duplicate_keys),
        cmocka_unit_test(takes_the_first_duplicate_when_allowed),
        cmocka_unit_test(finds_a_duplicate_among_many),
        cmocka_unit_test(limits_the_depth),
        cmocka_unit_test(limits_bytes_and_values),
        cmocka_unit_test(keeps_an_earlier_error),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
