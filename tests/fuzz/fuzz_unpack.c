/* Whatever an archive says: what it would make lies below the folder, once, and below no file. */
#include "fuzz.h"

#include <string.h>

#include "sandbox/archive.h"

enum { BYTES_MAX = 100000 };

static void check(const waldo__unpacked_list *list, size_t index, uint64_t *bytes)
{
    const waldo__unpacked *entry = &list->at[index];
    size_t len = strlen(entry->path);

    must_hold(len > 0 && entry->path[0] != '/' && entry->path[len - 1] != '/' &&
                  strstr(entry->path, "//") == NULL && strncmp(entry->path, "../", 3) != 0 &&
                  strstr(entry->path, "/../") == NULL && strcmp(entry->path, "..") != 0,
              "a place below");
    must_hold((entry->mode & ~07777u) == 0 && entry->mtime_s >= 0, "a mode and a time");
    must_hold(entry->link == NULL || (!entry->is_folder && entry->link[0] != '\0'),
              "a link with a target");
    *bytes += entry->bytes.len;
    for (size_t i = 0; i < list->count; i++) {
        const waldo__unpacked *other = &list->at[i];

        if (entry->dropped || other->dropped || i == index) {
            continue;
        }
        must_hold(strcmp(entry->path, other->path) != 0, "one entry for each path");
        must_hold(entry->is_folder || strncmp(other->path, entry->path, len) != 0 ||
                      other->path[len] != '/',
                  "nothing below what is no folder");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__unpacked_list list = { .at = NULL };
    waldo_error *error = NULL;
    uint64_t bytes = 0;
    waldo_status status =
        waldo__unpacked_read(&list, waldo__strn((const char *)data, size), BYTES_MAX, &error);

    must_hold((status == WALDO_OK) == (error == NULL), "a failure with its reason");
    for (size_t i = 0; status == WALDO_OK && i < list.count; i++) {
        check(&list, i, &bytes);
    }
    must_hold(bytes <= BYTES_MAX, "no more bytes than allowed");
    waldo_error_free(error);
    waldo__unpacked_free(&list);
    return 0;
}
