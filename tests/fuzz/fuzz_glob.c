/*
 * Patterns and replacements as a model may write them. The input is a pattern, NUL, a path or text,
 * NUL, what is put in.
 */
#include "fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "tools/tools.h"

/* Does a pattern mean nothing but itself? */
static int is_plain(const char *pattern)
{
    return strpbrk(pattern, "*?[{\\") == NULL;
}

static void check_glob(const char *pattern, waldo_str path)
{
    waldo__glob glob;
    waldo_error *error = NULL;

    if (waldo__glob_init(&glob, pattern, &error) != WALDO_OK) {
        must_hold(strlen(waldo_error_message(error)) > 0, "a refusal says why");
        waldo_error_free(error);
        return;
    }
    glob.steps = 1000 * 1000;
    waldo__glob_match(&glob, path);
    if (is_plain(pattern) && glob.steps > 0 && pattern[0] != '.' && strstr(pattern, "//") == NULL) {
        must_hold(waldo__glob_match(&glob, waldo__str(pattern)), "a plain pattern matches itself");
    }
    must_hold(glob.patterns.len > 0, "there is a pattern");
    waldo__glob_free(&glob);
}

static size_t bare_newlines(waldo_str text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == '\n' && (i == 0 || text.ptr[i - 1] != '\r');
    }
    return count;
}

static int has_cr(waldo_str text)
{
    return waldo__str_find(text, '\r') < text.len;
}

static void check_edit(waldo_str old_text, waldo_str text, waldo_str new_text)
{
    waldo__buf once = WALDO__BUF_INIT(1024 * 1024), all = WALDO__BUF_INIT(64 * 1024 * 1024);
    size_t matches = 0, again = 0;
    waldo_status status = waldo__edit_text(text, old_text, new_text, 0, &once, &matches);

    must_hold(status == WALDO_OK, "one replacement fits");
    must_hold(matches == 1 || once.len == 0, "only one match is replaced");
    waldo__edit_text(text, old_text, new_text, 1, &all, &again);
    must_hold(matches == again, "the count does not depend on the mode");
    if (matches == 1) {
        must_hold(all.len == once.len &&
                      (once.len == 0 || memcmp(all.ptr, once.ptr, once.len) == 0),
                  "both modes replace one match alike");
    }
    if (matches > 0 && bare_newlines(text) == 0 && !has_cr(old_text) && !has_cr(new_text) &&
        waldo__str_search(text, WALDO__S("\r\n"), 0) < text.len) {
        must_hold(bare_newlines(waldo__buf_str(&all)) == 0, "a file with CR LF stays one");
    }
    waldo__buf_free(&once);
    waldo__buf_free(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_str rest = waldo__strn((const char *)data, size), parts[3];
    char *pattern;

    for (size_t i = 0; i < WALDO__COUNT(parts); i++) {
        size_t len = i < 2 ? waldo__str_find(rest, '\0') : rest.len;

        parts[i] = waldo__strn(rest.ptr, len);
        rest = waldo__strn(rest.ptr + len + (len < rest.len), rest.len - len - (len < rest.len));
    }
    pattern = waldo__strndup(parts[0].ptr, parts[0].len);
    check_glob(pattern, parts[1]);
    if (parts[0].len > 0) {
        check_edit(parts[0], parts[1], parts[2]);
    }
    waldo__free(pattern);
    return 0;
}
