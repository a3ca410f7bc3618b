/*
 * The first byte cuts the rest into pieces. The cleaned text is valid whatever came in, the same
 * for every cut, and unchanged when it was valid and held no NUL.
 */
#include "fuzz.h"

#include <string.h>

#include "base/utf8.h"

static void check_offsets(waldo_str text, size_t at)
{
    waldo_str run = { text.ptr, waldo__utf8_run(text) };

    must_hold(run.len <= text.len && waldo__utf8_valid(run), "the valid prefix is valid");
    must_hold((run.len == text.len) == waldo__utf8_valid(text), "both agree on validity");
    must_hold(waldo__utf8_cut(text, at) <= at, "a cut keeps to its maximum");
    must_hold(waldo__utf8_start(text, at) >= at, "a start is not before where it is looked for");
    if (run.len == text.len) {
        waldo_str head = { text.ptr, waldo__utf8_cut(text, at) };
        size_t start = waldo__utf8_start(text, at);
        waldo_str tail = { text.ptr + start, text.len - start };

        must_hold(waldo__utf8_valid(head), "the head of valid text is valid");
        must_hold(waldo__utf8_valid(tail), "the tail of valid text is valid");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__buf whole = WALDO__BUF_INIT(1 << 24);
    waldo__buf cut = WALDO__BUF_INIT(1 << 24);
    waldo__utf8 decoder = { .held_len = 0 };
    size_t step = size > 0 ? data[0] % 7U + 1 : 1;
    waldo_str text = waldo__strn((const char *)data + (size > 0), size - (size > 0));

    must_hold(waldo__utf8_clean(text, &whole) == WALDO_OK, "any bytes can be cleaned");
    for (size_t at = 0; at < text.len; at += step) {
        size_t len = text.len - at < step ? text.len - at : step;

        waldo__utf8_feed(&decoder, waldo__strn(text.ptr + at, len), &cut);
    }
    waldo__utf8_finish(&decoder, &cut);
    must_hold(waldo__str_eq(waldo__buf_str(&whole), waldo__buf_str(&cut)), "cuts change nothing");
    must_hold(waldo__utf8_valid(waldo__buf_str(&whole)), "cleaned text is valid");
    must_hold(waldo__str_find(waldo__buf_str(&whole), '\0') == whole.len, "cleaned: no NUL");
    if (waldo__utf8_valid(text) && waldo__str_find(text, '\0') == text.len) {
        must_hold(waldo__str_eq(waldo__buf_str(&whole), text), "valid text is not changed");
    }
    check_offsets(text, size > 0 ? data[0] % (text.len + 1) : 0);
    waldo__buf_free(&whole);
    waldo__buf_free(&cut);
    return 0;
}
