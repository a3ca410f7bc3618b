/*
 * Patches as a model may write them, onto any file. The input is the file, NUL, the patch; one that
 * has no begin marker is put between markers. What a patch keeps must be the file's.
 */
#include "fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "tools/v4a.h"

enum { OUT_MAX = 1024 * 1024 };

static size_t count_lines(waldo_str text)
{
    size_t lines = 0;

    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n' || i + 1 == text.len;
    }
    return lines;
}

static int only_crlf(waldo_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n' && (i == 0 || text.ptr[i - 1] != '\r')) {
            return 0;
        }
    }
    return text.len > 0 && text.ptr[text.len - 1] == '\n';
}

static void check_section(const waldo__v4a *patch, const waldo__v4a_section *section,
                          waldo_str text)
{
    waldo__buf out = WALDO__BUF_INIT(OUT_MAX), notes = WALDO__BUF_INIT(OUT_MAX);
    waldo__buf why = WALDO__BUF_INIT(OUT_MAX);
    waldo__v4a_change change = { .added = 0 };
    waldo_status status = waldo__v4a_apply(patch, section, text, &out, &notes, &why, &change);

    if (status != WALDO_OK) {
        must_hold(status == WALDO_EINVAL || status == WALDO_EEXISTS || status == WALDO_ETOOBIG,
                  "a failure is one of those named");
        must_hold(why.len > 0, "and says why");
        must_hold((change.failed > 0) == (status != WALDO_ETOOBIG) || status == WALDO_ETOOBIG,
                  "failed hunks are counted");
    } else {
        waldo_str made = waldo__buf_str(&out);

        must_hold(count_lines(made) == count_lines(text) + change.added - change.removed ||
                      waldo__str_find(text, '\xef') < text.len,
                  "lines are added and removed as counted");
        must_hold(!only_crlf(text) || made.len == 0 || only_crlf(made),
                  "a file with CR LF stays one");
        must_hold(change.added + change.removed > 0 || waldo__str_eq(made, text),
                  "nothing changes nothing");
    }
    waldo__buf_free(&out);
    waldo__buf_free(&notes);
    waldo__buf_free(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_str all = waldo__strn((const char *)data, size);
    size_t cut = waldo__str_find(all, '\0');
    waldo_str text = waldo__strn(all.ptr, cut);
    waldo_str given = waldo__strn(all.ptr + cut + (cut < size), size - cut - (cut < size));
    waldo__buf whole = WALDO__BUF_INIT(OUT_MAX);
    waldo__v4a patch = { .doc = NULL };
    waldo_error *error = NULL;

    if (waldo__str_search(given, WALDO__S("*** Begin"), 0) == given.len &&
        !waldo__str_starts(given, "{") && !waldo__str_starts(given, "[")) {
        waldo__buf_puts(&whole, "*** Begin Patch\n*** Update File: f\n");
        waldo__buf_add_str(&whole, given);
        waldo__buf_puts(&whole, "\n*** End Patch");
        given = waldo__buf_str(&whole);
    }
    if (waldo__v4a_parse(&patch, given, &error) != WALDO_OK) {
        must_hold(strlen(waldo_error_message(error)) > 0, "a refusal says why");
        waldo_error_free(error);
    } else {
        must_hold(patch.sections.count > 0, "there is something to do");
        for (size_t i = 0; i < patch.sections.count; i++) {
            must_hold(patch.sections.at[i].path.len > 0, "a path is not empty");
            if (patch.sections.at[i].hunk_count > 0) {
                check_section(&patch, &patch.sections.at[i], text);
            }
        }
    }
    waldo__v4a_free(&patch);
    waldo__buf_free(&whole);
    return 0;
}
