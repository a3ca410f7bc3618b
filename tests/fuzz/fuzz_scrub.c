/*
 * The first line is a secret, whose first byte cuts the rest into pieces. No form of the secret is
 * left in what comes out, the pieces give what the whole gives, and nothing but forms is changed.
 */
#include "fuzz.h"

#include <string.h>

#include "secret/secret.h"

enum { MAX_OUT = 1 << 24 };

static void check_stream(const waldo__secrets *secrets, waldo_str text, size_t step,
                         waldo_str whole)
{
    waldo__buf out = WALDO__BUF_INIT(MAX_OUT);
    waldo__scrubber scrubber;

    waldo__scrubber_init(&scrubber, secrets);
    for (size_t at = 0; at < text.len; at += step) {
        size_t len = text.len - at < step ? text.len - at : step;

        waldo__scrubber_feed(&scrubber, waldo__strn(text.ptr + at, len), &out);
    }
    must_hold(waldo__scrubber_finish(&scrubber, &out) == WALDO_OK, "the stream can be scrubbed");
    must_hold(waldo__str_eq(waldo__buf_str(&out), whole), "cuts change nothing");
    waldo__scrubber_free(&scrubber);
    waldo__buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_str text = waldo__strn((const char *)data, size), value;
    waldo__buf out = WALDO__BUF_INIT(MAX_OUT);
    waldo__secrets *secrets = NULL;
    int found;

    if (!waldo__str_split(&text, '\n', &value) || text.ptr == NULL || value.len > 1000) {
        return 0;
    }
    must_hold(waldo__secrets_new(&secrets, NULL) == WALDO_OK, "a slab can be made");
    must_hold(waldo__secrets_put(secrets, "KEY", value, 0) == WALDO_OK, "the value fits");
    must_hold(waldo__scrub(secrets, text, &out) == WALDO_OK, "any text can be scrubbed");
    found = waldo__secrets_found(secrets, text);
    must_hold(found == !waldo__str_eq(waldo__buf_str(&out), text), "only forms are changed");
    must_hold(found || waldo__str_search(text, value, 0) == text.len || value.len < 8,
              "the value itself is found");
    /* A value with brackets may be made again by what replaces it. */
    if (waldo__str_find(value, '[') == value.len && waldo__str_find(value, ']') == value.len) {
        must_hold(!waldo__secrets_found(secrets, waldo__buf_str(&out)), "nothing is left");
    }
    check_stream(secrets, text, value.len > 0 ? (unsigned char)value.ptr[0] % 7U + 1 : 1,
                 waldo__buf_str(&out));
    waldo__buf_free(&out);
    waldo__secrets_free(secrets);
    return 0;
}
