/* The first byte cuts the rest into pieces; whatever the pieces, the entries must be the same. */
#include "fuzz.h"

#include "codec/untar.h"

typedef struct heard {
    waldo__buf text; /* everything, in order */
    uint64_t left;   /* content still to come */
} heard;

static waldo_status on_entry(void *userdata, const waldo__untar_entry *entry)
{
    heard *h = userdata;
    waldo__buf path = WALDO__BUF_INIT(WALDO__UNTAR_NAME_MAX);
    waldo_str place;

    if (waldo__untar_path(entry->name, &path) == WALDO_OK) {
        place = waldo__buf_str(&path);
        must_hold(place.ptr[0] != '/' && strstr(place.ptr, "//") == NULL &&
                      strncmp(place.ptr, "../", 3) != 0 && strstr(place.ptr, "/../") == NULL &&
                      strcmp(place.ptr, "..") != 0 && !waldo__str_ends(place, "/"),
                  "a place below");
    }
    waldo__buf_free(&path);
    must_hold(h->left == 0, "content is whole before the next entry");
    must_hold(entry->name.len > 0 && entry->name.len <= WALDO__UNTAR_NAME_MAX &&
                  strlen(entry->name.ptr) == entry->name.len &&
                  strlen(entry->link.ptr) == entry->link.len && entry->mode <= 07777,
              "an entry with a name");
    h->left = entry->size;
    return waldo__buf_printf(&h->text, "%d %s %s %u %llu %lld\n", (int)entry->kind, entry->name.ptr,
                             entry->link.ptr, (unsigned)entry->mode,
                             (unsigned long long)entry->size, (long long)entry->mtime_s);
}

static waldo_status on_data(void *userdata, waldo_str bytes)
{
    heard *h = userdata;

    must_hold(bytes.len > 0 && bytes.len <= h->left, "no more content than was said");
    h->left -= bytes.len;
    return waldo__buf_add_str(&h->text, bytes);
}

static waldo_status read_all(const uint8_t *data, size_t size, size_t step, waldo__buf *out,
                             int *ret_whole)
{
    static const waldo__untar_fns fns = { on_entry, on_data };
    heard h = { .text = WALDO__BUF_INIT(1 << 24) };
    waldo__untar untar;
    waldo_status status = WALDO_OK;

    waldo__untar_init(&untar, &fns, &h);
    for (size_t at = 0; at < size && status == WALDO_OK; at += step) {
        size_t len = size - at < step ? size - at : step;

        status = waldo__untar_feed(&untar, waldo__strn((const char *)data + at, len));
    }
    *ret_whole = waldo__untar_whole(&untar);
    waldo__untar_free(&untar);
    *out = h.text;
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__buf whole;
    waldo__buf cut;
    waldo_status status;
    int ends[2];

    if (size < 2) {
        return 0;
    }
    status = read_all(data + 1, size - 1, size, &whole, &ends[0]);
    must_hold(read_all(data + 1, size - 1, (size_t)data[0] % 97 + 1, &cut, &ends[1]) == status &&
                  ends[0] == ends[1],
              "the same end at every split");
    must_hold(waldo__str_eq(waldo__buf_str(&whole), waldo__buf_str(&cut)),
              "the same entries at every split");
    waldo__buf_free(&whole);
    waldo__buf_free(&cut);
    return 0;
}
