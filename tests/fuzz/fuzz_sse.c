/*
 * The first byte cuts the rest into pieces; whatever the pieces, the events must be those of the
 * bytes fed at once.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/buf.h"
#include "codec/sse.h"

enum { MAX_EVENT = 4096 };

static waldo_status note(void *userdata, waldo_str name, waldo_str data)
{
    waldo__buf *out = userdata;

    waldo__buf_printf(out, "%zu,%zu:", name.len, data.len);
    waldo__buf_add_str(out, name);
    return waldo__buf_add_str(out, data);
}

static waldo_status read_all(const uint8_t *data, size_t size, size_t step, waldo__buf *out)
{
    waldo_status status = WALDO_OK;
    waldo__sse sse;

    waldo__sse_init(&sse, MAX_EVENT);
    for (size_t at = 0; at < size && status == WALDO_OK; at += step) {
        size_t len = size - at < step ? size - at : step;

        status = waldo__sse_feed(&sse, waldo__strn((const char *)data + at, len), note, out);
    }
    if (status == WALDO_OK) {
        status = waldo__sse_finish(&sse, note, out);
    }
    waldo__sse_free(&sse);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__buf whole = WALDO__BUF_INIT(1 << 24);
    waldo__buf cut = WALDO__BUF_INIT(1 << 24);
    waldo_status status;

    if (size < 2) {
        return 0;
    }
    status = read_all(data + 1, size - 1, size, &whole);
    if (read_all(data + 1, size - 1, (size_t)data[0] % 32 + 1, &cut) != status ||
        (status == WALDO_OK && !waldo__str_eq(waldo__buf_str(&whole), waldo__buf_str(&cut)))) {
        abort();
    }
    waldo__buf_free(&whole);
    waldo__buf_free(&cut);
    return 0;
}
