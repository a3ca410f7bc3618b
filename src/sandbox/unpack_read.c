/* What an archive would make, known and checked before any of it is made. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/untar.h"
#include "sandbox/archive.h"

enum { ENTRIES_MAX = 1000000, PART_MAX = 255 };

typedef struct reading {
    waldo__unpacked_list *list;
    uint64_t bytes;
    uint64_t max;
    waldo_error *error;
} reading;

static waldo_status refuse(reading *r, waldo_status status, waldo_str name, const char *why)
{
    return waldo_error_set(&r->error, status, WALDO_CLASS_USAGE, "archive: %.*s: %s",
                           (int)(name.len < 300 ? name.len : 300), name.ptr, why);
}

/* The path of an entry; NULL and WALDO_OK for the folder itself. */
static waldo_status take_path(reading *r, waldo_str name, char **ret_path)
{
    waldo__buf path = WALDO__BUF_INIT(WALDO_HAND_PATH_MAX - 16);
    waldo_status status = waldo__untar_path(name, &path);
    waldo_str rest = waldo__buf_str(&path);
    waldo_str part;

    while (status == WALDO_OK && waldo__str_split(&rest, '/', &part)) {
        status = part.len > PART_MAX ? WALDO_ETOOBIG : WALDO_OK;
    }
    if (status == WALDO_OK && path.len > 0) {
        *ret_path = waldo__buf_take(&path, NULL);
        status = *ret_path != NULL ? WALDO_OK : WALDO_ENOMEM;
    }
    waldo__buf_free(&path);
    if (status == WALDO_EPATH) {
        return refuse(r, status, name, "the name leads out of the folder");
    }
    return status == WALDO_ETOOBIG ? refuse(r, status, name, "the name is too long") : status;
}

static waldo_status add_entry(reading *r, const waldo__untar_entry *entry, char *path)
{
    waldo__unpacked *added = WALDO__VEC_PUSH(r->list);

    if (added == NULL) {
        waldo__free(path);
        return WALDO_ENOMEM;
    }
    *added = (waldo__unpacked){ .path = path,
                                .is_folder = entry->kind == WALDO__UNTAR_FOLDER,
                                .mode = entry->mode,
                                .mtime_s = entry->mtime_s,
                                .order = r->list->count };
    if (entry->kind == WALDO__UNTAR_HARD_LINK) {
        waldo_status status = take_path(r, entry->link, &added->twin_of);

        return status == WALDO_OK && added->twin_of == NULL
                   ? refuse(r, WALDO_EPATH, entry->name, "it is linked to the folder itself")
                   : status;
    }
    if (entry->kind == WALDO__UNTAR_LINK) {
        if (entry->link.len == 0 || entry->link.len >= WALDO_HAND_PATH_MAX) {
            return refuse(r, WALDO_EPATH, entry->name,
                          "a link without a target, or a too long one");
        }
        added->link = waldo__strndup(entry->link.ptr, entry->link.len);
        return added->link != NULL ? WALDO_OK : WALDO_ENOMEM;
    }
    return WALDO_OK;
}

static waldo_status on_entry(void *userdata, const waldo__untar_entry *entry)
{
    reading *r = userdata;
    char *path = NULL;
    waldo_status status;

    if (entry->kind == WALDO__UNTAR_OTHER) {
        return refuse(r, WALDO_EPATH, entry->name, "is neither file, folder nor link");
    }
    if (entry->size > r->max || r->bytes > r->max - entry->size || r->list->count >= ENTRIES_MAX) {
        return WALDO_ETOOBIG;
    }
    r->bytes += entry->size;
    status = take_path(r, entry->name, &path);
    if (status != WALDO_OK) {
        return status;
    }
    if (path == NULL && entry->kind != WALDO__UNTAR_FOLDER) {
        return refuse(r, WALDO_EPATH, entry->name, "the folder itself can be no file");
    }
    return path != NULL ? add_entry(r, entry, path) : WALDO_OK;
}

/* The archive is fed at once: what an entry holds is one piece of it. */
static waldo_status on_data(void *userdata, waldo_str bytes)
{
    reading *r = userdata;

    r->list->at[r->list->count - 1].bytes = bytes;
    return WALDO_OK;
}

static int by_path(const void *a, const void *b)
{
    const waldo__unpacked *one = a;
    const waldo__unpacked *two = b;
    int order = strcmp(one->path, two->path);

    return order != 0 ? order : one->order < two->order ? -1 : 1;
}

/* The first entry that lies below path, which is at index; NULL: none. */
static const waldo__unpacked *first_below(const waldo__unpacked_list *list, size_t index)
{
    const char *path = list->at[index].path;
    size_t len = strlen(path);
    size_t low = index + 1;
    size_t high = list->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const char *other = list->at[mid].path;
        int order = strncmp(other, path, len);

        if (order == 0) {
            order = (unsigned char)other[len] < '/' ? -1 : 1; /* to the first that is not before */
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low < list->count && strncmp(list->at[low].path, path, len) == 0 &&
        list->at[low].path[len] == '/') {
        return &list->at[low];
    }
    return NULL;
}

static int is_file(const waldo__unpacked *entry)
{
    return !entry->is_folder && !entry->dropped && entry->link == NULL && entry->twin_of == NULL;
}

/* A hard link becomes a second file with what the first holds. */
static waldo_status make_twin(reading *r, waldo__unpacked *entry)
{
    const waldo__unpacked_list *list = r->list;
    size_t low = 0;
    size_t high = list->count;

    while (low < high) { /* to the last of that path */
        size_t mid = low + (high - low) / 2;

        if (strcmp(list->at[mid].path, entry->twin_of) <= 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == 0 || strcmp(list->at[low - 1].path, entry->twin_of) != 0 ||
        !is_file(&list->at[low - 1])) {
        return refuse(r, WALDO_EPATH, waldo__str(entry->path),
                      "it is linked to what is no file of the archive");
    }
    entry->bytes = list->at[low - 1].bytes;
    entry->mode = list->at[low - 1].mode;
    if (entry->bytes.len > r->max - r->bytes) {
        return WALDO_ETOOBIG;
    }
    r->bytes += entry->bytes.len;
    return WALDO_OK;
}

/* Of several with one path the last counts; nothing lies below what is no folder. */
static waldo_status check_tree(reading *r)
{
    waldo_status status = WALDO_OK;

    waldo__unpacked_list *list = r->list;

    if (list->count > 1) {
        qsort(list->at, list->count, sizeof *list->at, by_path);
    }
    for (size_t i = 0; i + 1 < list->count; i++) {
        list->at[i].dropped = strcmp(list->at[i].path, list->at[i + 1].path) == 0;
    }
    for (size_t i = 0; i < list->count && status == WALDO_OK; i++) {
        if (list->at[i].twin_of != NULL && !list->at[i].dropped) {
            status = make_twin(r, &list->at[i]);
        }
    }
    for (size_t i = 0; i < list->count && status == WALDO_OK; i++) {
        const waldo__unpacked *entry = &list->at[i];
        const waldo__unpacked *below =
            entry->is_folder || entry->dropped ? NULL : first_below(list, i);

        if (below != NULL) {
            status = refuse(r, WALDO_EPATH, waldo__str(below->path),
                            "lies below what is a file or a link");
        }
    }
    return status;
}

waldo_status waldo__unpacked_read(waldo__unpacked_list *list, waldo_str archive, uint64_t max_bytes,
                                  waldo_error **ret_err)
{
    static const waldo__untar_fns fns = { .entry = on_entry, .data = on_data };
    reading r = { .list = list, .max = max_bytes };
    waldo__untar untar;
    waldo_status status;

    waldo__untar_init(&untar, &fns, &r);
    status = waldo__untar_feed(&untar, archive);
    if (status == WALDO_OK && !waldo__untar_whole(&untar)) {
        status = waldo_error_set(&r.error, WALDO_ETRUNCATED, WALDO_CLASS_USAGE,
                                 "archive: it ends before its end mark");
    }
    waldo__untar_free(&untar);
    if (status == WALDO_OK) {
        status = check_tree(&r);
    }
    if (status == WALDO_ETOOBIG) {
        waldo_error_set(&r.error, status, WALDO_CLASS_USAGE,
                        "archive: it holds more than %llu bytes or %d entries; raise "
                        "workspace_max_bytes",
                        (unsigned long long)max_bytes, ENTRIES_MAX);
    } else if (status == WALDO_EPROTO || status == WALDO_ENOTSUP) {
        waldo_error_set(&r.error, status, WALDO_CLASS_USAGE, "archive: %s",
                        status == WALDO_EPROTO ? "these bytes are no tar archive"
                                               : "it holds a sparse file, which is not supported");
    }
    if (status != WALDO_OK && r.error == NULL) {
        waldo_error_set(&r.error, status, WALDO_CLASS_USAGE, "archive: %s",
                        waldo_status_text(status));
    }
    waldo__error_move(ret_err, r.error);
    return status;
}

void waldo__unpacked_free(waldo__unpacked_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        waldo__free(list->at[i].path);
        waldo__free(list->at[i].link);
        waldo__free(list->at[i].twin_of);
    }
    WALDO__VEC_FREE(list);
}
