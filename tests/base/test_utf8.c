/* UTF-8: every class of invalid sequence, whole, cut at every place, and byte by byte. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/utf8.h"

#define BAD "\xef\xbf\xbd"

/* An input with NUL bytes, its cleaned form, and the offset of the first invalid byte. */
static const struct {
    waldo_str in;
    const char *out;
    size_t run;
} cases[] = {
    { WALDO__S(""), "", 0 },
    { WALDO__S("plain ascii, longer than one machine word"),
      "plain ascii, longer than one machine word", 41 },
    { WALDO__S("\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80"), "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", 9 },
    { WALDO__S("12345678\xc3\xa9"), "12345678\xc3\xa9", 10 },
    /* NUL is valid UTF-8 but is cleaned */
    { WALDO__S("a\0b"), "a" BAD "b", 3 },
    { WALDO__S("\0\0"), BAD BAD, 2 },
    { WALDO__S("0123456\0 89012345"), "0123456" BAD " 89012345", 17 },
    { WALDO__S("\xe6\0"), BAD BAD, 0 },
    /* lone continuation bytes */
    { WALDO__S("a\x80z"), "a" BAD "z", 1 },
    { WALDO__S("\xbf\xbf"), BAD BAD, 0 },
    /* overlong: no first byte of these is ever valid, or the second is out of its range */
    { WALDO__S("\xc0\xaf"), BAD BAD, 0 },
    { WALDO__S("\xc1\xbf"), BAD BAD, 0 },
    { WALDO__S("\xe0\x80\xaf"), BAD BAD BAD, 0 },
    { WALDO__S("\xe0\x9f\xbf"), BAD BAD BAD, 0 },
    { WALDO__S("\xf0\x80\x80\xaf"), BAD BAD BAD BAD, 0 },
    { WALDO__S("\xf0\x8f\xbf\xbf"), BAD BAD BAD BAD, 0 },
    /* surrogates */
    { WALDO__S("\xed\xa0\x80"), BAD BAD BAD, 0 },
    { WALDO__S("\xed\xbf\xbf!"), BAD BAD BAD "!", 0 },
    { WALDO__S("\xed\x9f\xbf\xee\x80\x80"), "\xed\x9f\xbf\xee\x80\x80", 6 },
    /* beyond U+10FFFF, and bytes that never occur */
    { WALDO__S("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf", 4 },
    { WALDO__S("\xf4\x90\x80\x80"), BAD BAD BAD BAD, 0 },
    { WALDO__S("\xf5\x80"), BAD BAD, 0 },
    { WALDO__S("\xf8\x88\x80\x80\x80"), BAD BAD BAD BAD BAD, 0 },
    { WALDO__S("ok\xfe\xff"), "ok" BAD BAD, 2 },
    /* truncated sequences: one replacement for the maximal part (Unicode standard, table 3-11) */
    { WALDO__S("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), BAD BAD BAD BAD "A", 0 },
    { WALDO__S("\xf0\x9f\x98"
               "A"),
      BAD "A", 0 },
    { WALDO__S("\xe6\xbc"
               "A"),
      BAD "A", 0 },
    { WALDO__S("\xc3"
               "A"),
      BAD "A", 0 },
    { WALDO__S("\xe6\xbc\xe6\xbc\xa2"), BAD "\xe6\xbc\xa2", 0 },
    { WALDO__S("\xf0\x9f\xc3\xa9"), BAD "\xc3\xa9", 0 },
    { WALDO__S("x\xf0\x9f\x98"), "x" BAD, 1 },
    { WALDO__S("x\xe6"), "x" BAD, 1 },
};

static waldo_str piece(waldo_str text, size_t from, size_t to)
{
    return (waldo_str){ text.ptr + from, to - from };
}

static void cleans_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo__buf out = WALDO__BUF_INIT(1000);

        assert_int_equal(waldo__utf8_clean(cases[i].in, &out), WALDO_OK);
        assert_string_equal(waldo__buf_str(&out).ptr, cases[i].out);
        assert_int_equal(out.len, strlen(cases[i].out));
        assert_true(waldo__utf8_valid(waldo__buf_str(&out)));
        waldo__buf_free(&out);
    }
}

static void cleans_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo_str in = cases[i].in;

        for (size_t a = 0; a <= in.len; a++) {
            for (size_t b = a; b <= in.len; b++) {
                waldo__buf out = WALDO__BUF_INIT(1000);
                waldo__utf8 decoder = { .held_len = 0 };

                waldo__utf8_feed(&decoder, piece(in, 0, a), &out);
                waldo__utf8_feed(&decoder, piece(in, a, b), &out);
                waldo__utf8_feed(&decoder, piece(in, b, in.len), &out);
                assert_int_equal(waldo__utf8_finish(&decoder, &out), WALDO_OK);
                assert_string_equal(waldo__buf_str(&out).ptr, cases[i].out);
                waldo__buf_free(&out);
            }
        }
    }
}

static void cleans_byte_by_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo__buf out = WALDO__BUF_INIT(1000);
        waldo__utf8 decoder = { .held_len = 0 };

        for (size_t at = 0; at < cases[i].in.len; at++) {
            waldo__utf8_feed(&decoder, piece(cases[i].in, at, at + 1), &out);
        }
        waldo__utf8_finish(&decoder, &out);
        assert_string_equal(waldo__buf_str(&out).ptr, cases[i].out);
        waldo__buf_free(&out);
    }
}

static void finish_starts_anew(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__utf8 decoder = { .held_len = 0 };

    (void)state;
    waldo__utf8_feed(&decoder, WALDO__S("\xe6\xbc"), &out);
    waldo__utf8_finish(&decoder, &out);
    waldo__utf8_feed(&decoder, WALDO__S("\xa2"), &out);
    waldo__utf8_finish(&decoder, &out);
    waldo__utf8_finish(&decoder, &out);
    assert_string_equal(waldo__buf_str(&out).ptr, BAD BAD);
    waldo__buf_free(&out);
}

/* Two frames of one stream whose border lies inside a character. */
static void joins_a_split_character(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__utf8 decoder = { .held_len = 0 };

    (void)state;
    waldo__utf8_feed(&decoder, WALDO__S("\xe6\xbc"), &out);
    assert_int_equal(out.len, 0);
    waldo__utf8_feed(&decoder, WALDO__S("\xa2"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "\xe6\xbc\xa2");
    waldo__buf_free(&out);
}

static void reports_a_full_buffer(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(4);

    (void)state;
    assert_int_equal(waldo__utf8_clean(WALDO__S("12\x80"), &out), WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

static void finds_the_first_invalid_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(waldo__utf8_run(cases[i].in), cases[i].run);
        assert_int_equal(waldo__utf8_valid(cases[i].in), cases[i].run == cases[i].in.len);
    }
}

/* Encode by shifts alone, surrogates and too large numbers included. */
static size_t encode(uint32_t code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

static void knows_every_code_point(void **state)
{
    uint32_t wrong = 0;

    (void)state;
    for (uint32_t code = 0; code < 0x140000; code++) {
        char text[4];
        size_t len = encode(code, text);
        int valid = code < 0xd800 || (code > 0xdfff && code < 0x110000);

        wrong += waldo__utf8_valid(waldo__strn(text, len)) != valid;
        wrong += valid && len > 1 && waldo__utf8_valid(waldo__strn(text, len - 1));
    }
    assert_int_equal(wrong, 0);
}

/* All sequences of two and three bytes: valid ones are exactly those that encode() makes. */
static void knows_every_short_sequence(void **state)
{
    unsigned two = 0, three = 0;

    (void)state;
    for (uint32_t bytes = 0; bytes < 0x1000000; bytes++) {
        char text[] = { (char)(bytes >> 16), (char)(bytes >> 8), (char)bytes };

        three += waldo__utf8_step(text, 3) == 3;
        two += bytes < 0x10000 && waldo__utf8_step(text + 1, 2) == 2;
    }
    assert_int_equal(two, 0x800 - 0x80);
    assert_int_equal(three, 0x10000 - 0x800 - 0x800);
}

static void cuts_between_characters(void **state)
{
    waldo_str text = WALDO__S("a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80");
    static const size_t cut[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10 };
    static const size_t start[] = { 0, 1, 3, 3, 6, 6, 6, 10, 10, 10, 10, 10 };

    (void)state;
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        assert_int_equal(waldo__utf8_cut(text, i), cut[i]);
        assert_int_equal(waldo__utf8_start(text, i), start[i]);
    }
    assert_int_equal(waldo__utf8_cut(WALDO__S(""), 5), 0);
    assert_int_equal(waldo__utf8_start(WALDO__S(""), 0), 0);
    /* invalid bytes belong to no character, so nothing is moved */
    assert_int_equal(waldo__utf8_cut(WALDO__S("\x80\x80\x80\x80\x80"), 4), 4);
    assert_int_equal(waldo__utf8_start(WALDO__S("\xe6\x80"), 1), 1);
    assert_int_equal(waldo__utf8_cut(WALDO__S("\xed\xa0\x80!"), 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleans_whole),
        cmocka_unit_test(cleans_at_every_split),
        cmocka_unit_test(cleans_byte_by_byte),
        cmocka_unit_test(finish_starts_anew),
        cmocka_unit_test(joins_a_split_character),
        cmocka_unit_test(reports_a_full_buffer),
        cmocka_unit_test(finds_the_first_invalid_byte),
        cmocka_unit_test(knows_every_code_point),
        cmocka_unit_test(knows_every_short_sequence),
        cmocka_unit_test(cuts_between_characters),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
