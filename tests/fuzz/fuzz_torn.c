/*
 * The body of an answer that may hold the key in pieces. What is to be replaced lies within
 * strings, in order, and once it is replaced nothing is left to be found.
 */
#include "fuzz.h"

#include <string.h>

#include "agent/torn.h"

#define KEY "sk-a\"b/c+dEF"

enum { MAX_OUT = 1 << 26 };

static void mend(const waldo__secrets *secrets, waldo_str body, waldo__buf *out, size_t *ret_edits)
{
    waldo__torn_edits edits = { .count = 0 };
    size_t done = 0;

    must_hold(waldo__torn_find(secrets, body, &edits) == WALDO_OK, "any body can be searched");
    for (size_t i = 0; i < edits.count; i++) {
        const waldo__torn_edit *edit = &edits.at[i];

        must_hold(edit->at > done && edit->len <= body.len - edit->at, "edits are in order");
        must_hold(body.ptr[edit->at - 1] == '"', "a string begins there");
        must_hold(edit->at + edit->len < body.len && body.ptr[edit->at + edit->len] == '"',
                  "and ends there");
        waldo__buf_add(out, body.ptr + done, edit->at - done);
        waldo__buf_add_str(out, waldo__buf_str(&edit->json));
        done = edit->at + edit->len;
    }
    waldo__buf_add(out, body.ptr + done, body.len - done);
    must_hold(out->status == WALDO_OK, "there is room");
    *ret_edits = edits.count;
    waldo__torn_free(&edits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_str body = waldo__strn((const char *)data, size);
    waldo__buf clean = WALDO__BUF_INIT(MAX_OUT), again = WALDO__BUF_INIT(MAX_OUT);
    waldo__secrets *secrets = NULL;
    size_t edits;

    must_hold(waldo__secrets_new(&secrets, NULL) == WALDO_OK, "a slab can be made");
    must_hold(waldo__secrets_put(secrets, "KEY", waldo__str(KEY), 0) == WALDO_OK, "it fits");
    mend(secrets, body, &clean, &edits);
    must_hold(edits > 0 || waldo__str_eq(waldo__buf_str(&clean), body), "nothing else changes");
    mend(secrets, waldo__buf_str(&clean), &again, &edits);
    must_hold(edits == 0, "nothing is left");
    waldo__buf_free(&clean);
    waldo__buf_free(&again);
    waldo__secrets_free(secrets);
    return 0;
}
