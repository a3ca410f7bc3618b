/* What becomes of text between a tool and the model, and exact replacement. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tools/tools.h"

/* ---- output ---- */

static const char *shown(waldo_str bytes, size_t gap_at, uint64_t omitted, size_t max)
{
    static waldo__buf out = WALDO__BUF_INIT(1024 * 1024);
    waldo_output output = {
        .bytes = bytes, .gap_at = gap_at, .omitted = omitted, .total = bytes.len + omitted
    };

    waldo__buf_clear(&out);
    assert_int_equal(waldo__tool_show(&output, max, &out), WALDO_OK);
    return waldo__buf_str(&out).ptr;
}

static void test_show_whole(void **state)
{
    (void)state;
    assert_string_equal(shown(WALDO__S("hello\n"), 6, 0, 6), "hello\n");
    assert_string_equal(shown(WALDO__S(""), 0, 0, 6), "");
    assert_string_equal(shown(WALDO__S("a\0b"), 3, 0, 5), "a\xef\xbf\xbd"
                                                          "b");
    assert_string_equal(shown(WALDO__S("a\xff"), 2, 0, 4), "a\xef\xbf\xbd");
    assert_string_equal(shown(WALDO__S("a\xe6\xbc"), 3, 0, 4), "a\xef\xbf\xbd");
}

static void test_show_cut(void **state)
{
    (void)state;
    /* max/2 at the front, the rest at the end */
    assert_string_equal(shown(WALDO__S("0123456789"), 10, 0, 5),
                        "01\n[... 5 bytes omitted ...]\n789");
    /* the layer's own gap */
    assert_string_equal(shown(WALDO__S("01236789"), 4, 2, 40),
                        "0123\n[... 2 bytes omitted ...]\n6789");
    /* both gaps become one, counted exactly */
    assert_string_equal(shown(WALDO__S("01236789"), 4, 100, 4),
                        "01\n[... 104 bytes omitted ...]\n89");
    /* what the head does not need is the tail's, which is what matters at the end */
    assert_string_equal(shown(WALDO__S("0123456789"), 1, 7, 6),
                        "0\n[... 11 bytes omitted ...]\n56789");
    assert_string_equal(shown(WALDO__S("0123456789"), 10, 1, 6),
                        "012\n[... 8 bytes omitted ...]\n");
    /* characters are not cut */
    assert_string_equal(shown(WALDO__S("\xc3\xa9\xc3\xa9\xc3\xa9"), 6, 0, 3),
                        "\n[... 4 bytes omitted ...]\n\xc3\xa9");
    /* nor shown when the layer cut them: 'x', first byte of two | last byte of two, 'y' */
    assert_string_equal(shown(WALDO__S("x\xc3\xa9y"), 2, 10, 40),
                        "x\n[... 12 bytes omitted ...]\ny");
    /* a byte that becomes U+FFFD costs three */
    assert_string_equal(shown(WALDO__S("\0\0\0\0"), 4, 0, 7),
                        "\xef\xbf\xbd\n[... 2 bytes omitted ...]\n\xef\xbf\xbd");
    assert_string_equal(shown(WALDO__S("abc"), 3, 0, 0), "\n[... 3 bytes omitted ...]\n");
}

/* Any bytes, any gap, any budget: never more than the budget, and the count is exact. */
static void test_show_all(void **state)
{
    static const char bytes[] = "a\0\xc3\xa9\xff\n\xe6\xbc\xa2\xf0\x9f\x98\x80\xe6zz";
    size_t len = sizeof bytes - 1;

    (void)state;
    for (size_t gap = 0; gap <= len; gap++) {
        for (size_t max = 0; max < 40; max++) {
            const char *text = shown(waldo__strn(bytes, len), gap, 1000, max);
            const char *mark = strstr(text, "\n[... ");
            uint64_t omitted = strtoull(mark + 6, NULL, 10);
            const char *tail = strstr(mark, " bytes omitted ...]\n") + 20;
            size_t used = (size_t)(mark - text) + strlen(tail);

            assert_true(waldo__utf8_valid(waldo__str(text)));
            assert_true(used <= max);
            assert_in_range(omitted, 1000, 1000 + len);
        }
    }
}

static const char *lines(waldo_str text, size_t max)
{
    static waldo__buf out = WALDO__BUF_INIT(1024 * 1024);

    waldo__buf_clear(&out);
    assert_int_equal(waldo__tool_show_lines(text, max, &out), WALDO_OK);
    return waldo__buf_str(&out).ptr;
}

static void test_lines(void **state)
{
    (void)state;
    assert_string_equal(lines(WALDO__S("a\nb\n"), 4), "a\nb\n");
    assert_string_equal(lines(WALDO__S("a\nb"), 3), "a\nb");
    assert_string_equal(lines(WALDO__S("aa\nbb\ncc\n"), 7),
                        "aa\nbb\n[... 1 line (3 bytes) omitted ...]\n");
    assert_string_equal(lines(WALDO__S("aa\nbb\ncc"), 4),
                        "aa\n[... 2 lines (5 bytes) omitted ...]\n");
    assert_string_equal(lines(WALDO__S("abcdef\nx\n"), 3),
                        "abc\n[... 2 lines (6 bytes) omitted ...]\n");
    assert_string_equal(lines(WALDO__S(""), 0), "");
}

static void test_names(void **state)
{
    static const struct {
        waldo_str name;
        const char *want;
    } rows[] = {
        { WALDO__S("a.c"), "a.c" },
        { WALDO__S("a b"), "a b" },
        { WALDO__S("-x"), "-x" },
        { WALDO__S("a\nb"), "\"a\\nb\"" },
        { WALDO__S("\x7f"), "\"\x7f\"" },
        { WALDO__S(" a"), "\" a\"" },
        { WALDO__S("a "), "\"a \"" },
        { WALDO__S("\"a"), "\"\\\"a\"" },
        { WALDO__S("a\"b"), "a\"b" },
        { WALDO__S(""), "\"\"" },
        { WALDO__S("\x1b[1m"), "\"\\u001b[1m\"" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo__buf out = WALDO__BUF_INIT(100);

        assert_int_equal(waldo__tool_show_name(rows[i].name, &out), WALDO_OK);
        assert_string_equal(out.ptr, rows[i].want);
        waldo__buf_free(&out);
    }
}

/* ---- replacing ---- */

static void test_edit(void **state)
{
    static const struct {
        const char *text, *old_text, *new_text;
        int everywhere;
        size_t matches;
        const char *want; /* NULL: nothing is written */
    } rows[] = {
        { "abc", "b", "x", 0, 1, "axc" },
        { "abc", "abc", "", 0, 1, "" },
        { "abc", "z", "x", 0, 0, NULL },
        { "aba", "a", "x", 0, 2, NULL },
        { "aba", "a", "x", 1, 2, "xbx" },
        { "aaa", "aa", "b", 0, 1, "ba" },
        { "a\nb\n", "a\nb", "a\nc", 0, 1, "a\nc\n" },
        { "a\nb", "b", "b\n", 0, 1, "a\nb\n" },
        { "", "a", "b", 0, 0, NULL },
        { "abcabc", "abcabcabc", "", 0, 0, NULL },
        /* a file with CR LF is edited as it is shown, and stays one */
        { "a\r\nb\r\n", "a\nb", "a\nc", 0, 1, "a\r\nc\r\n" },
        { "a\r\nb\r\n", "b", "b\nc", 0, 1, "a\r\nb\r\nc\r\n" },
        { "a\r\nb", "b", "b\nc", 0, 1, "a\r\nb\r\nc" },
        { "a\r\nb\r\n", "b\n", "", 0, 1, "a\r\n" },
        { "a\r\nb\r\n", "\nb", "", 0, 1, "a\r\n" },
        { "a\r\n\r\nb", "\n\n", "\n", 0, 1, "a\r\nb" },
        { "a\r\na\r\n", "a\n", "x\ny\n", 1, 2, "x\r\ny\r\nx\r\ny\r\n" },
        { "a\r\nb\r\n", "b", "x\r\ny", 0, 1, "a\r\nx\r\ny\r\n" },
        /* mixed: each place keeps its own */
        { "a\nb\r\nc\n", "a", "a\nx", 0, 1, "a\nx\nb\r\nc\n" },
        { "a\nb\r\nc\n", "b", "b\nx", 0, 1, "a\nb\r\nx\r\nc\n" },
        { "k\nk\r\nk\n", "k", "k\nx", 1, 3, "k\nx\nk\r\nx\r\nk\nx\n" },
        { "a\nb\r\na\r\nb\n", "a\nb", "z", 0, 2, NULL },
        { "\nk", "k", "k\nx", 0, 1, "\nk\nx" },
        { "\r\nk", "k", "k\nx", 0, 1, "\r\nk\r\nx" },
        { "k\nx\r\n", "k", "k\ny", 0, 1, "k\ny\nx\r\n" },
        /* who writes CR means it */
        { "a\r\nb\r\n", "a\r\n", "a\n", 0, 1, "a\nb\r\n" },
        { "a\nb\n", "a\r\n", "x", 0, 0, NULL },
        { "a\rb", "a\rb", "c", 0, 1, "c" },
        { "a\rb", "a\nb", "c", 0, 0, NULL },
        /* bytes that are no text stay as they are */
        { "\xff\xfe"
          "a\xff",
          "a", "b", 0, 1,
          "\xff\xfe"
          "b\xff" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo__buf out = WALDO__BUF_INIT(1000);
        size_t matches = 99;

        assert_int_equal(waldo__edit_text(waldo__str(rows[i].text), waldo__str(rows[i].old_text),
                                          waldo__str(rows[i].new_text), rows[i].everywhere, &out,
                                          &matches),
                         WALDO_OK);
        if (matches != rows[i].matches ||
            !waldo__str_is(waldo__buf_str(&out), rows[i].want != NULL ? rows[i].want : "")) {
            fail_msg("row %zu (\"%s\"): %zu matches, \"%s\"", i, rows[i].old_text, matches,
                     waldo__buf_str(&out).ptr);
        }
        waldo__buf_free(&out);
    }
}

/* NUL bytes of the file are kept; what grows too large is refused. */
static void test_edit_bounds(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(10);
    size_t matches;

    (void)state;
    assert_int_equal(
        waldo__edit_text(WALDO__S("a\0b"), WALDO__S("b"), WALDO__S("c"), 0, &out, &matches),
        WALDO_OK);
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.ptr, "a\0c", 3);
    waldo__buf_clear(&out);
    assert_int_equal(
        waldo__edit_text(WALDO__S("aaaa"), WALDO__S("a"), WALDO__S("xxx"), 1, &out, &matches),
        WALDO_ETOOBIG);
    assert_int_equal(matches, 4);
    waldo__buf_free(&out);
}

/* Work grows with the text, not with its square: what repeats itself must not matter. */
static void test_edit_is_linear(void **state)
{
    size_t len = 8 * 1024 * 1024, matches;
    char *text = malloc(len);
    waldo__buf out = WALDO__BUF_INIT(4 * len);

    (void)state;
    memset(text, 'a', len);
    memcpy(text + len - 4, "\r\nab", 4);
    text[len / 2] = '\n';
    assert_int_equal(waldo__edit_text(waldo__strn(text, len), waldo__strn(text + 1, len / 2 + 9),
                                      WALDO__S("x\n"), 0, &out, &matches),
                     WALDO_OK);
    assert_int_equal(matches, 1);
    waldo__buf_clear(&out);
    len = 128 * 1024; /* less, as sanitizers look at all of it with every search */
    memcpy(text + len - 4, "\r\nab", 4);
    assert_int_equal(
        waldo__edit_text(waldo__strn(text, len), WALDO__S("a"), WALDO__S("b\n"), 1, &out, &matches),
        WALDO_OK);
    assert_int_equal(matches, len - 3);
    waldo__buf_free(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_show_whole),  cmocka_unit_test(test_show_cut),
        cmocka_unit_test(test_show_all),    cmocka_unit_test(test_lines),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_edit),
        cmocka_unit_test(test_edit_bounds), cmocka_unit_test(test_edit_is_linear),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
