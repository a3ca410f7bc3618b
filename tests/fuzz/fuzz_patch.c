/*
 * Patches from any two contents. What they say is checked: the lines kept and added make the newer
 * side, those kept and removed the older one.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "sandbox/patch.h"

enum { PATCH_MAX = 16 * 1024 * 1024 };

/* Both sides rebuilt from the hunks of a text patch that covers them whole. */
static void check_text(waldo_str patch, waldo_str older, waldo_str newer)
{
    waldo__buf from = WALDO__BUF_INIT(PATCH_MAX);
    waldo__buf to = WALDO__BUF_INIT(PATCH_MAX);
    size_t at = waldo__str_search(patch, WALDO__S("\n@@ "), 0);
    int inside = 0;

    at += at < patch.len;
    while (at < patch.len) {
        waldo_str line = waldo__strn(patch.ptr + at, patch.len - at);
        size_t len = waldo__str_find(line, '\n') + 1;
        waldo_str body = waldo__strn(line.ptr + 1, len - 1);

        at += len;
        if (!inside || line.ptr[0] == '@') {
            inside = 1;
            continue;
        }
        if (line.ptr[0] == '\\') {
            continue;
        }
        if (at < patch.len && patch.ptr[at] == '\\') {
            body.len--; /* the newline is the patch's own */
        }
        if (line.ptr[0] != '+') {
            waldo__buf_add_str(&from, body);
        }
        if (line.ptr[0] != '-') {
            waldo__buf_add_str(&to, body);
        }
    }
    if (!waldo__str_eq(waldo__buf_str(&from), older) ||
        !waldo__str_eq(waldo__buf_str(&to), newer)) {
        abort();
    }
    waldo__buf_free(&from);
    waldo__buf_free(&to);
}

/* At most six lines, so that one hunk with its context covers everything. */
static int small_text(waldo_str text)
{
    size_t lines = 0;

    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n';
    }
    return text.len > 0 && lines <= 3 && memchr(text.ptr, '\0', text.len) == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__buf out = WALDO__BUF_INIT(PATCH_MAX);
    size_t name = size > 4 ? data[0] % 32 : 0;
    size_t cut = size > 4 ? 4 + (size_t)data[1] * (size - 4) / 255 : size;
    waldo__patch_side older = { .bytes = { "", 0 } };
    waldo__patch_side newer = { .bytes = { "", 0 } };
    static const uint32_t modes[] = { 0, 0100644, 0100755, 0120777 };
    waldo_str path;
    waldo_status status;

    if (size <= 4) {
        return 0;
    }
    older.mode = modes[data[2] % 4];
    newer.mode = modes[data[3] % 4];
    older.bytes = older.mode != 0 ? waldo__strn((const char *)data + 4, cut - 4) : older.bytes;
    newer.bytes = newer.mode != 0 ? waldo__strn((const char *)data + cut, size - cut) : newer.bytes;
    path = waldo__strn((const char *)data + 4, name < size - 4 ? name : size - 4);
    status = waldo__patch_add(&out, path, &older, &newer);
    if (status == WALDO_EPATH) {
        path = WALDO__S("f");
        status = waldo__patch_add(&out, path, &older, &newer);
    }
    if (status != WALDO_OK) {
        abort();
    }
    if (older.mode == newer.mode && small_text(older.bytes) && small_text(newer.bytes) &&
        !waldo__str_eq(older.bytes, newer.bytes)) {
        check_text(waldo__buf_str(&out), older.bytes, newer.bytes);
    }
    waldo__buf_free(&out);
    return 0;
}
