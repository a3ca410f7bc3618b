/* The JSON writer: commas, escapes, exact numbers, limits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "json/json.h"

#define BAD "\xef\xbf\xbd"

static void writes_nested_containers(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(1000);
    waldo__json_writer jw;

    (void)state;
    waldo__json_writer_init(&jw, &out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "text", WALDO__S("a\"b"));
    waldo__jw_array(&jw, "list");
    waldo__jw_int(&jw, NULL, -1);
    waldo__jw_object(&jw, NULL);
    waldo__jw_end(&jw, '}');
    waldo__jw_array(&jw, NULL);
    waldo__jw_end(&jw, ']');
    waldo__jw_null(&jw, NULL);
    waldo__jw_end(&jw, ']');
    waldo__jw_bool(&jw, "yes", 1);
    waldo__jw_bool(&jw, "no", 0);
    waldo__jw_raw(&jw, "raw", WALDO__S("{\"x\":[1, 2]}"));
    waldo__jw_base64(&jw, "data", WALDO__S("data:;base64,"), WALDO__S("\0\xff\x10!"));
    waldo__jw_num(&jw, "k\"ey\n", 0.5);
    waldo__jw_end(&jw, '}');
    assert_int_equal(out.status, WALDO_OK);
    assert_string_equal(waldo__buf_str(&out).ptr,
                        "{\"text\":\"a\\\"b\",\"list\":[-1,{},[],null],\"yes\":true,\"no\":false,"
                        "\"raw\":{\"x\":[1, 2]},\"data\":\"data:;base64,AP8QIQ==\","
                        "\"k\\\"ey\\n\":0.5}");
    waldo__buf_free(&out);
}

static void continues_after_an_inner_container(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__json_writer jw;

    (void)state;
    waldo__json_writer_init(&jw, &out);
    waldo__jw_array(&jw, NULL);
    for (int i = 0; i < 3; i++) {
        waldo__jw_array(&jw, NULL);
        waldo__jw_int(&jw, NULL, i);
        waldo__jw_end(&jw, ']');
    }
    waldo__jw_end(&jw, ']');
    assert_string_equal(waldo__buf_str(&out).ptr, "[[0],[1],[2]]");
    waldo__buf_free(&out);
}

static const struct {
    waldo_str in;
    const char *out;
} escapes[] = {
    { WALDO__S(""), "" },
    { WALDO__S("plain text that is longer than a word"), "plain text that is longer than a word" },
    { WALDO__S("\"\\/\b\f\n\r\t"), "\\\"\\\\/\\b\\f\\n\\r\\t" },
    { WALDO__S("\x01\x1f\x7f"), "\\u0001\\u001f\x7f" },
    { WALDO__S("nul\0in the middle"), "nul" BAD "in the middle" },
    { WALDO__S("\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80"), "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80" },
    { WALDO__S("12345678\"2345678\\\xff"
               "9"),
      "12345678\\\"2345678\\\\" BAD "9" },
    { WALDO__S("\xed\xa0\xbd!"), BAD BAD BAD "!" },
    { WALDO__S("\xc0\xaf"), BAD BAD },
    { WALDO__S("tail\xf0\x9f\x98"), "tail" BAD },
    { WALDO__S("\xf0\x9f\x98\"\xe6"), BAD "\\\"" BAD },
};

static void escapes_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        waldo__buf out = WALDO__BUF_INIT(1000);

        assert_int_equal(waldo__json_escape(escapes[i].in, &out), WALDO_OK);
        assert_string_equal(waldo__buf_str(&out).ptr, escapes[i].out);
        waldo__buf_free(&out);
    }
}

/* Every byte at every place of a word, against the rule written down byte by byte. */
static void escapes_every_byte_at_every_place(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        for (size_t place = 0; place < 17; place++) {
            char text[18] = "abcdefghijklmnopq";
            char want[8] = { (char)byte };
            waldo__buf out = WALDO__BUF_INIT(100);
            size_t len;

            if (byte == 0 || byte >= 0x80) {
                memcpy(want, BAD, 4);
            } else if (byte == '"' || byte == '\\') {
                want[0] = '\\';
                want[1] = (char)byte;
            } else if (byte < 0x20) {
                const char *shorts = "\b\t\n\f\r", *at = strchr(shorts, (int)byte);

                if (at != NULL) {
                    want[0] = '\\';
                    want[1] = "btnfr"[at - shorts];
                } else {
                    (void)snprintf(want, sizeof want, "\\u%04x", byte);
                }
            }
            text[place] = (char)byte;
            len = strlen(want);
            waldo__json_escape(waldo__strn(text, 17), &out);
            assert_int_equal(out.len, 16 + len);
            assert_memory_equal(out.ptr, text, place);
            assert_memory_equal(out.ptr + place, want, len);
            assert_memory_equal(out.ptr + place + len, text + place + 1, 16 - place);
            waldo__buf_free(&out);
        }
    }
}

static void writes_exact_integers(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(200);
    waldo__json_writer jw;

    (void)state;
    waldo__json_writer_init(&jw, &out);
    waldo__jw_array(&jw, NULL);
    waldo__jw_int(&jw, NULL, INT64_MIN);
    waldo__jw_int(&jw, NULL, INT64_MAX);
    waldo__jw_int(&jw, NULL, 9007199254740993);
    waldo__jw_end(&jw, ']');
    assert_string_equal(waldo__buf_str(&out).ptr,
                        "[-9223372036854775808,9223372036854775807,9007199254740993]");
    waldo__buf_free(&out);
}

static void write_number(double value, const char *want)
{
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, &out);
    waldo__jw_num(&jw, NULL, value);
    assert_string_equal(waldo__buf_str(&out).ptr, want);
    waldo__buf_free(&out);
}

static void writes_short_exact_numbers(void **state)
{
    (void)state;
    write_number(0.1, "0.1");
    write_number(0.1 + 0.2, "0.30000000000000004");
    write_number(1.0, "1");
    write_number(-2.5e-300, "-2.5e-300");
    write_number(1e22, "1e+22");
    write_number(NAN, "null");
    write_number(INFINITY, "null");
    write_number(-INFINITY, "null");
}

/* The point stays a point whatever locale the host has set. */
static void ignores_the_locale(void **state)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8" };
    int found = 0;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    }
    if (!found) {
        skip();
    }
    write_number(0.1 + 0.2, "0.30000000000000004");
    write_number(-2.5e-300, "-2.5e-300");
    setlocale(LC_NUMERIC, "C");
}

static void refuses_to_go_too_deep(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(1000);
    waldo__json_writer jw;

    (void)state;
    waldo__json_writer_init(&jw, &out);
    for (int i = 0; i < 63; i++) {
        waldo__jw_array(&jw, NULL);
    }
    assert_int_equal(out.status, WALDO_OK);
    waldo__jw_array(&jw, NULL);
    assert_int_equal(out.status, WALDO_ETOOBIG);
    for (int i = 0; i < 70; i++) {
        waldo__jw_end(&jw, ']');
    }
    assert_int_equal(out.status, WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

static void refuses_an_end_too_many(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__json_writer jw;

    (void)state;
    waldo__json_writer_init(&jw, &out);
    waldo__jw_end(&jw, '}');
    assert_int_equal(out.status, WALDO_EINVAL);
    waldo__buf_free(&out);
}

static void keeps_the_first_failure(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(10);
    waldo__json_writer jw;

    (void)state;
    waldo__json_writer_init(&jw, &out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "key", WALDO__S("much longer than ten"));
    waldo__jw_end(&jw, '}');
    assert_int_equal(out.status, WALDO_ETOOBIG);
    assert_true(out.len <= 10);
    waldo__buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_nested_containers),
        cmocka_unit_test(continues_after_an_inner_container),
        cmocka_unit_test(escapes_text),
        cmocka_unit_test(escapes_every_byte_at_every_place),
        cmocka_unit_test(writes_exact_integers),
        cmocka_unit_test(writes_short_exact_numbers),
        cmocka_unit_test(ignores_the_locale),
        cmocka_unit_test(refuses_to_go_too_deep),
        cmocka_unit_test(refuses_an_end_too_many),
        cmocka_unit_test(keeps_the_first_failure),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
