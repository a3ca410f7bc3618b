/* Patterns over paths, against answers written down by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tools/tools.h"

static int matches(const char *pattern, const char *path)
{
    waldo__glob glob;
    waldo_error *error = NULL;
    int found;

    if (waldo__glob_init(&glob, pattern, &error) != WALDO_OK) {
        fail_msg("%s: %s", pattern, waldo_error_message(error));
    }
    found = waldo__glob_match(&glob, waldo__str(path));
    waldo__glob_free(&glob);
    return found;
}

static const struct {
    const char *pattern;
    const char *path;
    int want;
} table[] = {
    /* without a slash: the last name, wherever it is */
    { "*.c", "a.c", 1 },
    { "*.c", "src/deep/a.c", 1 },
    { "*.c", "a.cc", 0 },
    { "a.c", "b/a.c", 1 },
    { "a.c", "a.c/b", 0 },
    { "*", "x/y", 1 },
    { "**", "x/y/z", 1 },
    { "*.*", "Makefile", 0 },
    { "a*b*c", "aXbYc", 1 },
    { "a*b*c", "abc", 1 },
    { "a*b*c", "aXbYcd", 0 },
    { "*a*b", "aab", 1 },
    { "***", "abc", 1 },
    /* with a slash: the whole path */
    { "src/*.c", "src/a.c", 1 },
    { "src/*.c", "src/x/a.c", 0 },
    { "src/*.c", "lib/src/a.c", 0 },
    { "./src/*.c", "src/a.c", 1 },
    { "*/a", "x/a", 1 },
    { "*/a", "a", 0 },
    { "*/a", "x/y/a", 0 },
    { "a/b", "a/b/c", 0 },
    { "a/b/c", "a/b", 0 },
    /* any number of folders */
    { "**/*.py", "a.py", 1 },
    { "**/*.py", "x/y/a.py", 1 },
    { "**/*.py", "x/a.pyc", 0 },
    { "**/a", "a", 1 },
    { "**/a", "ba", 0 },
    { "a/**", "a/b", 1 },
    { "a/**", "a/b/c", 1 },
    { "a/**", "a", 0 },
    { "a/**", "ab/c", 0 },
    { "a/**/b", "a/b", 1 },
    { "a/**/b", "a/x/b", 1 },
    { "a/**/b", "a/x/y/b", 1 },
    { "a/**/b", "a/xb", 0 },
    { "a/**/b", "a/b/c", 0 },
    { "a/**/**/b", "a/b", 1 },
    { "**/x/**/y", "x/y", 1 },
    { "**/x/**/y", "p/x/y", 1 },
    { "**/x/**/y", "p/x/q/r/y", 1 },
    { "**/x/**/y", "p/q/y", 0 },
    { "**/x/**/y", "x/x/z/y/y", 1 },
    { "**/x/*/y", "x/x/y/x/a/y", 1 },
    { "**/x/*/y", "x/x/y/x/a/b/y", 0 },
    { "**/a*/**/*b", "q/aa/r/bb", 1 },
    /* two stars that are not a whole name are like one */
    { "a**b", "aXb", 1 },
    { "src/**.c", "src/a.c", 1 },
    { "src/**.c", "src/x/a.c", 0 },
    /* one character */
    { "?", "a", 1 },
    { "?", "ab", 0 },
    { "?", "\xc3\xa9", 1 },
    { "??", "\xc3\xa9", 0 },
    { "?", "\xff", 1 },
    { "a?b/c", "a/b/c", 0 },
    { "?.c", ".c", 0 },
    /* sets */
    { "[abc]", "b", 1 },
    { "[abc]", "d", 0 },
    { "[a-c]x", "bx", 1 },
    { "[a-c]x", "dx", 0 },
    { "[a-cx-z]", "y", 1 },
    { "[!abc]", "d", 1 },
    { "[!abc]", "a", 0 },
    { "[^abc]", "a", 0 },
    { "[]]", "]", 1 },
    { "[]a]", "a", 1 },
    { "[!]]", "]", 0 },
    { "[!]]", "x", 1 },
    { "[a-]", "-", 1 },
    { "[-a]", "-", 1 },
    { "[a-]", "b", 0 },
    { "[\\]]", "]", 1 },
    { "[*?]", "*", 1 },
    { "[*?]", "x", 0 },
    { "[{,}]", ",", 1 },
    { "[\xc3\xa0-\xc3\xaf]", "\xc3\xa9", 1 },
    { "[a-z]", "\xc3\xa9", 0 },
    { "*[0-9].txt", "page12.txt", 1 },
    { "*[0-9].txt", "page.txt", 0 },
    /* alternatives */
    { "*.{c,h}", "a.h", 1 },
    { "*.{c,h}", "a.o", 0 },
    { "{src,lib}/*.c", "lib/a.c", 1 },
    { "{src,lib}/*.c", "bin/a.c", 0 },
    { "{a,b}{c,d}", "bd", 1 },
    { "{a,b}{c,d}", "ab", 0 },
    { "{a,b/c}/d", "b/c/d", 1 },
    { "{a/b,c}", "x/c", 1 },
    { "{**/,}a.c", "x/a.c", 1 },
    { "a{,b}", "a", 1 },
    { "a{,b}", "ab", 1 },
    { "{a}", "a", 1 },
    { "{[,],x}", ",", 1 },
    { "{\\,,y}", ",", 1 },
    { "a}", "a}", 1 },
    /* escapes */
    { "\\*", "*", 1 },
    { "\\*", "a", 0 },
    { "\\[a]", "[a]", 1 },
    { "\\{a,b\\}", "{a,b}", 1 },
    { "a\\\\b", "a\\b", 1 },
    { "]", "]", 1 },
    { "-x", "-x", 1 },
    { " ", " ", 1 },
    /* dots are like others */
    { "*", ".hidden", 1 },
    { "*.yml", ".github/workflows/ci.yml", 1 },
    { "**/*.yml", ".github/workflows/ci.yml", 1 },
    { ".*", ".env", 1 },
    { ".*", "env", 0 },
    { "[!a]x", ".x", 1 },
    /* odd names */
    { "a*b", "a\nb", 1 },
    { "*\xff", "a\xff", 1 },
    { "\xc3\xa9*", "\xc3\xa9t\xc3\xa9", 1 },
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(table); i++) {
        if (matches(table[i].pattern, table[i].path) != table[i].want) {
            fail_msg("pattern \"%s\" and path \"%s\": wanted %d", table[i].pattern, table[i].path,
                     table[i].want);
        }
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *pattern;
        const char *why;
    } rows[] = {
        { "", "the pattern is empty" },
        { "./", "the pattern is empty" },
        { "/src/*.c", "the pattern is absolute: give the folder as path and the pattern relative "
                      "to it" },
        { "src/", "the pattern ends with /: files are matched, not folders; put ** behind it" },
        { "[a", "the pattern has [ without ]; put \\ before a [ that is meant as it is" },
        { "[]", "the pattern has [ without ]; put \\ before a [ that is meant as it is" },
        { "[!]", "the pattern has [ without ]; put \\ before a [ that is meant as it is" },
        { "[a/b]", "the pattern has [ without ]; put \\ before a [ that is meant as it is" },
        { "{a,b", "the pattern has { without }; put \\ before a { that is meant as it is" },
        { "a}{", "the pattern has { without }; put \\ before a { that is meant as it is" },
        { "{a,{b,c}}", "the pattern has { inside of {}: name the alternatives one by one" },
        { "a\\", "the pattern ends with \\" },
        { "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
          "the pattern has more than 256 alternatives" },
    };
    char *text = calloc(1, 1026);

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo_error *error = NULL;
        waldo__glob glob;

        assert_int_equal(waldo__glob_init(&glob, rows[i].pattern, &error), WALDO_EINVAL);
        assert_string_equal(waldo_error_message(error), rows[i].why);
        waldo_error_free(error);
    }
    memset(text, 'a', 1025);
    assert_int_equal(waldo__glob_init(&(waldo__glob){ 0 }, text, NULL), WALDO_EINVAL);
    text[1024] = '\0';
    assert_int_equal(matches(text, text), 1);
    free(text);
    assert_int_equal(matches("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "abababab"), 1);
}

/* A pattern made to go back and forth ends with its budget, and says so. */
static void test_budget(void **state)
{
    char pattern[1001], name[256];
    waldo__glob glob;
    uint64_t rounds = 0;

    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    }
    memcpy(pattern + 999, "b", 2);
    memset(name, 'a', 255);
    name[255] = '\0';
    assert_int_equal(waldo__glob_init(&glob, pattern, NULL), WALDO_OK);
    while (glob.steps > 0 && rounds < 10 * 1000 * 1000) {
        assert_false(waldo__glob_match(&glob, waldo__str(name)));
        rounds++;
    }
    assert_true(glob.steps == 0 && rounds > 10);
    assert_false(waldo__glob_match(&glob, waldo__str("b")));
    waldo__glob_free(&glob);
}

static void test_in_git(void **state)
{
    (void)state;
    assert_true(waldo__path_in_git(waldo__str(".git/config")));
    assert_true(waldo__path_in_git(waldo__str("sub/.git/config")));
    assert_false(waldo__path_in_git(waldo__str(".gitignore")));
    assert_false(waldo__path_in_git(waldo__str("x.git/config")));
    assert_false(waldo__path_in_git(waldo__str(".github/a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_table),
                                        cmocka_unit_test(test_refused),
                                        cmocka_unit_test(test_budget),
                                        cmocka_unit_test(test_in_git) };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
