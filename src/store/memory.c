/*
 * A store in memory. Appends are acknowledged by commit, at the end of the loop turn that made
 * them, as a store on disk would do after its one fsync.
 */
#include "store/store.h"

#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

typedef struct stream {
    char *name;
    WALDO__VEC(waldo_str); /* the records */
} stream;

typedef struct waiting {
    waldo_store_done_fn done;
    void *userdata;
    waldo_status status;
} waiting;

typedef struct memory {
    struct {
        WALDO__VEC(stream *);
    } streams; /* sorted by name */
    struct {
        WALDO__VEC(waiting);
    } waiting;
} memory;

/* Position of a name among the sorted streams, or where it belongs. */
static size_t find(const memory *store, const char *name, int *ret_found)
{
    size_t low = 0, high = store->streams.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(store->streams.at[middle]->name, name);

        if (order == 0) {
            *ret_found = 1;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *ret_found = 0;
    return low;
}

static stream *stream_of(memory *store, const char *name)
{
    int found;
    size_t at = find(store, name, &found);
    stream *made;

    if (found) {
        return store->streams.at[at];
    }
    made = WALDO__NEW(stream);
    if (made == NULL || (made->name = waldo__strdup(name)) == NULL ||
        WALDO__VEC_PUSH(&store->streams) == NULL) {
        if (made != NULL) {
            waldo__free(made->name);
        }
        waldo__free(made);
        return NULL;
    }
    memmove(&store->streams.at[at + 1], &store->streams.at[at],
            (store->streams.count - 1 - at) * sizeof *store->streams.at);
    store->streams.at[at] = made;
    return made;
}

static void forget_last(stream *s, size_t how_many)
{
    while (how_many-- > 0) {
        waldo__free((char *)s->at[--s->count].ptr);
    }
}

/* All records or none. */
static waldo_status keep_records(memory *store, const char *name, uint64_t expected_seq,
                                 const waldo_str *records, size_t count)
{
    stream *s = stream_of(store, name);

    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    if (s->count != expected_seq) {
        return WALDO_ECONFLICT;
    }
    for (size_t i = 0; i < count; i++) {
        char *copy = waldo__strndup(records[i].ptr, records[i].len);
        waldo_str *slot = copy != NULL ? WALDO__VEC_PUSH(s) : NULL;

        if (slot == NULL) {
            waldo__free(copy);
            forget_last(s, i);
            return WALDO_ENOMEM;
        }
        *slot = (waldo_str){ copy, records[i].len };
    }
    return WALDO_OK;
}

static void memory_append(void *self, const char *name, uint64_t expected_seq,
                          const waldo_str *records, size_t count, waldo_store_done_fn done,
                          void *userdata)
{
    memory *store = self;
    waiting *entry = WALDO__VEC_PUSH(&store->waiting);
    waldo_status status = WALDO_ENOMEM;

    if (entry != NULL) {
        status = keep_records(store, name, expected_seq, records, count);
    }
    if (status == WALDO_ENOMEM) {
        store->waiting.count -= entry != NULL;
        done(userdata, status);
        return;
    }
    *entry = (waiting){ .done = done, .userdata = userdata, .status = status };
}

static waldo_status memory_load(void *self, const char *name, uint64_t from_seq,
                                waldo_store_record_fn each, void *userdata)
{
    memory *store = self;
    waldo_status status = WALDO_OK;
    int found;
    size_t at = find(store, name, &found);

    if (!found) {
        return WALDO_ENOTFOUND;
    }
    for (uint64_t i = from_seq; i < store->streams.at[at]->count && status == WALDO_OK; i++) {
        status = each(userdata, i, store->streams.at[at]->at[i]);
    }
    return status;
}

/* Completions may append again: those wait for the next commit. */
static void memory_commit(void *self)
{
    memory *store = self;
    waiting *list = store->waiting.at;
    size_t count = store->waiting.count;

    store->waiting.at = NULL;
    store->waiting.count = store->waiting.cap = 0;
    for (size_t i = 0; i < count; i++) {
        list[i].done(list[i].userdata, list[i].status);
    }
    waldo__free(list);
}

static void memory_destroy(void *self)
{
    memory *store = self;

    for (size_t i = 0; i < store->streams.count; i++) {
        stream *s = store->streams.at[i];

        forget_last(s, s->count);
        WALDO__VEC_FREE(s);
        waldo__free(s->name);
        waldo__free(s);
    }
    WALDO__VEC_FREE(&store->streams);
    WALDO__VEC_FREE(&store->waiting);
    waldo__free(store);
}

/* A runtime that stops takes its unanswered appends with it. */
static void memory_attach(void *self, waldo_poster *poster)
{
    memory *store = self;

    if (poster == NULL) {
        store->waiting.count = 0;
    }
}

static const waldo_store_ops memory_ops = {
    .version = WALDO_STORE_VERSION,
    .size = sizeof(waldo_store_ops),
    .name = "memory",
    .append = memory_append,
    .load = memory_load,
    .commit = memory_commit,
    .destroy = memory_destroy,
    .attach = memory_attach,
};

waldo_store *waldo_store_memory_new(void)
{
    memory *self = WALDO__NEW(memory);
    waldo_store *store;

    if (self == NULL) {
        return NULL;
    }
    store = waldo_store_from_ops(&memory_ops, self);
    if (store == NULL) {
        waldo__free(self);
    }
    return store;
}
