#include "keeper.h"

#include <string.h>

static void keeper_append(void *self, const char *stream, uint64_t expected_seq,
                          const waldo_str *records, size_t count, waldo_store_done_fn done,
                          void *userdata)
{
    keeper *k = self;
    waldo_status status = ++k->appends == k->only || k->only == 0 ? k->answer : WALDO_OK;
    size_t size = 0;

    (void)stream;
    for (size_t i = 0; i < count; i++) {
        size += records[i].len + 1;
    }
    if (k->waiting_count == KEEPER_WAITING || k->len + size >= sizeof k->text) {
        done(userdata, WALDO_ENOMEM);
        return;
    }
    k->out_of_order |= expected_seq != k->count;
    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        memcpy(k->text + k->len, records[i].ptr, records[i].len);
        k->len += records[i].len;
        k->text[k->len++] = '\n';
        k->count++;
    }
    k->text[k->len] = '\0';
    k->waiting[k->waiting_count].done = done;
    k->waiting[k->waiting_count].status = status;
    k->waiting[k->waiting_count++].userdata = userdata;
}

void keeper_answer(keeper *k)
{
    size_t count = k->waiting_count;

    k->waiting_count = 0;
    for (size_t i = 0; i < count; i++) {
        k->waiting[i].done(k->waiting[i].userdata, k->waiting[i].status);
    }
}

static void keeper_commit(void *self)
{
    keeper *k = self;

    if (!k->held) {
        keeper_answer(k);
    }
}

static waldo_status keeper_load(void *self, const char *stream, uint64_t from,
                                waldo_store_record_fn each, void *userdata)
{
    (void)self;
    (void)stream;
    (void)from;
    (void)each;
    (void)userdata;
    return WALDO_ENOTFOUND;
}

static void keeper_destroy(void *self)
{
    (void)self;
}

const waldo_store_ops keeper_ops = {
    .version = WALDO_STORE_VERSION,
    .size = sizeof(waldo_store_ops),
    .name = "keeper",
    .append = keeper_append,
    .load = keeper_load,
    .commit = keeper_commit,
    .destroy = keeper_destroy,
};

waldo_store *keeper_store(keeper *k)
{
    return waldo_store_from_ops(&keeper_ops, k);
}

int keeper_next(const keeper *k, size_t *at, waldo_str *ret_record)
{
    const char *end = memchr(k->text + *at, '\n', k->len - *at);

    if (end == NULL) {
        return 0;
    }
    *ret_record = (waldo_str){ k->text + *at, (size_t)(end - k->text) - *at };
    *at += ret_record->len + 1;
    return 1;
}

size_t keeper_holds(const keeper *k, const char *part)
{
    waldo_str record;
    size_t at = 0, count = 0;

    while (keeper_next(k, &at, &record)) {
        count += memmem(record.ptr, record.len, part, strlen(part)) != NULL;
    }
    return count;
}
