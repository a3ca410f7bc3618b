/*
 * Append -> durable -> act. Records collect in the run; a commit appends them in one piece and
 * remembers what to do once they are durable. Commits of one run become durable in their order.
 */
#include "agent/run.h"

#include "base/alloc.h"
#include "base/error.h"
#include "json/json.h"

enum { RECORD_MAX = 256 * 1024 * 1024 };

/* One commit on its way. Outlives its run, which then is NULL. */
struct waldo__journal_op {
    waldo__ring ring;   /* of the runtime: freed with it when the store never answers */
    waldo__ring of_run; /* of the run, while there is one */
    waldo_runtime *rt;
    waldo_run *run;
    waldo__task task;
    waldo__run_fn next;
    void *context;
    unsigned generation;
    size_t items; /* length of the transcript when it was made */
    waldo_status status;
};

typedef struct waldo__journal_op journal_op;

void waldo__record_begin(waldo__buf *json, waldo__json_writer *jw, const char *type)
{
    *json = WALDO__BUF_INIT(RECORD_MAX);
    waldo__json_writer_init(jw, json);
    waldo__jw_object(jw, NULL);
    waldo__jw_str(jw, "t", waldo__str(type));
}

void waldo__record_end(waldo_run *run, waldo__buf *json, waldo__json_writer *jw)
{
    waldo__buf record = WALDO__BUF_INIT(RECORD_MAX);
    waldo_str *slot;
    size_t len = 0;
    char *bytes;

    waldo__jw_end(jw, '}');
    if (json->status == WALDO_OK) {
        waldo__record_write(run->seq + run->records.count, waldo__buf_str(json), &record);
    }
    slot = json->status == WALDO_OK && record.status == WALDO_OK ? WALDO__VEC_PUSH(&run->records)
                                                                 : NULL;
    bytes = slot != NULL ? waldo__buf_take(&record, &len) : NULL;
    if (slot == NULL) {
        run->events.lost = 1;
    } else if (bytes == NULL) {
        run->records.count--;
        run->events.lost = 1;
    } else {
        *slot = (waldo_str){ bytes, len };
    }
    waldo__buf_free(&record);
    waldo__buf_free(json);
}

waldo_status waldo__run_add_items(waldo_run *run, const waldo_item *items, size_t count)
{
    waldo_status status = waldo__transcript_append(&run->transcript, items, count);

    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        waldo__json_writer jw;
        waldo__buf json, item = WALDO__BUF_INIT(RECORD_MAX);

        waldo__record_begin(&json, &jw, "item");
        status = waldo__item_write(&items[i], &item);
        waldo__jw_raw(&jw, "item", waldo__buf_str(&item));
        waldo__record_end(run, &json, &jw);
        waldo__buf_free(&item);
    }
    return status;
}

/* Items up to here will survive a crash: now they may be reported as final. */
static void announce(waldo_run *run, size_t items)
{
    for (; run->announced < items; run->announced++) {
        waldo_event *event = waldo__events_push(&run->events, WALDO_EVENT_ITEM);

        if (event != NULL) {
            event->items = &run->transcript;
            event->item = run->announced;
        }
    }
}

static void act(void *userdata)
{
    journal_op *op = userdata;
    waldo_run *run = op->run;
    waldo_status status = op->status;
    waldo_error *error = NULL;

    waldo__ring_remove(&op->ring);
    if (run != NULL) {
        waldo__ring_remove(&op->of_run);
    }
    if (run != NULL && status == WALDO_OK) {
        announce(run, op->items);
        waldo__run_notify(run);
        if (op->next != NULL && op->generation == run->generation) {
            op->next(run, op->context);
        }
    } else if (run != NULL && op->generation == run->generation) {
        waldo_error_set(&error, status, WALDO_CLASS_STORE,
                        "the store did not keep the run's journal: %s", waldo_status_text(status));
        waldo__run_interrupt(run, WALDO_STOP_FAILED, error);
    }
    waldo__free(op);
}

/* Called by the store, maybe in the middle of its own work: only note the answer. */
static void durable(void *userdata, waldo_status status)
{
    journal_op *op = userdata;

    op->status = status;
    waldo__task_queue(op->rt->loop, &op->task);
}

static void free_records(waldo_run *run)
{
    for (size_t i = 0; i < run->records.count; i++) {
        waldo__free((char *)run->records.at[i].ptr);
    }
    run->records.count = 0;
}

void waldo__run_commit(waldo_run *run, waldo__run_fn next, void *context)
{
    journal_op *op = WALDO__NEW(journal_op);
    size_t count = run->records.count;
    uint64_t seq = run->seq;

    if (op == NULL || run->events.lost) {
        waldo_error *error = NULL;

        waldo__free(op);
        run->events.lost = 0;
        free_records(run);
        waldo__error_nomem(&error);
        waldo__run_rest(run, WALDO_STOP_FAILED, error);
        return;
    }
    *op = (journal_op){ .rt = run->rt,
                        .run = run,
                        .next = next,
                        .context = context,
                        .generation = run->generation,
                        .items = run->transcript.count };
    waldo__task_init(&op->task, act, op);
    waldo__ring_init(&op->ring);
    waldo__ring_init(&op->of_run);
    waldo__ring_add(&run->rt->journal, &op->ring);
    waldo__ring_add(&run->journal, &op->of_run);
    run->seq += count;
    waldo__runtime_append(run->rt, run->id, seq, run->records.at, count, durable, op);
    free_records(run);
}

void waldo__run_journal_drop(waldo_run *run)
{
    while (!waldo__ring_empty(&run->journal)) {
        journal_op *op = WALDO__CONTAINER(run->journal.next, journal_op, of_run);

        waldo__ring_remove(&op->of_run);
        op->run = NULL;
    }
    free_records(run);
    WALDO__VEC_FREE(&run->records);
}

void waldo__journal_forget(waldo_runtime *rt)
{
    while (!waldo__ring_empty(&rt->journal)) {
        journal_op *op = WALDO__CONTAINER(rt->journal.next, journal_op, ring);

        waldo__ring_remove(&op->ring);
        waldo__task_cancel(rt->loop, &op->task);
        waldo__free(op);
    }
}
