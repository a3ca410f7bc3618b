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
    waldo_usage usage;
    int answered;
    waldo_status status;
};

typedef struct waldo__journal_op journal_op;

/* Without a store there is no journal, and its records are counted instead of written. */
void waldo__record_begin(const waldo_run *run, waldo__buf *json, waldo__json_writer *jw,
                         const char *type)
{
    *json = WALDO__BUF_INIT(run->rt->store != NULL ? RECORD_MAX : 0);
    waldo__json_writer_init(jw, json);
    waldo__jw_object(jw, NULL);
    waldo__jw_text(jw, "t", type);
}

/* The record as it goes to the store; 0 when it could not be written. */
static int write_record(const waldo_run *run, const waldo__buf *json, waldo_str *ret_record)
{
    waldo__buf record = WALDO__BUF_INIT(RECORD_MAX);

    if (json->status == WALDO_OK) {
        waldo__record_write(run->seq + run->records.count, waldo__buf_str(json), &record);
        ret_record->ptr = waldo__buf_take(&record, &ret_record->len);
    }
    waldo__buf_free(&record);
    return ret_record->ptr != NULL;
}

void waldo__record_end(waldo_run *run, waldo__buf *json, waldo__json_writer *jw)
{
    waldo_str record = { NULL, 0 }, *slot = NULL;

    waldo__jw_end(jw, '}');
    if (run->rt->store == NULL || write_record(run, json, &record)) {
        slot = WALDO__VEC_PUSH(&run->records);
    }
    if (slot != NULL) {
        *slot = record;
    } else {
        waldo__free((char *)record.ptr);
        run->events.lost = 1;
    }
    waldo__buf_free(json);
}

void waldo__record_created(waldo_run *run)
{
    waldo__json_writer jw;
    waldo__buf json;

    waldo__record_begin(run, &json, &jw, "run");
    waldo__jw_int(&jw, "version", 1);
    waldo__jw_text(&jw, "id", run->id);
    waldo__jw_text(&jw, "label", run->label);
    waldo__jw_int(&jw, "created_ms", waldo__wall_ms());
    waldo__record_end(run, &json, &jw);
}

waldo_status waldo__run_add_items(waldo_run *run, const waldo_item *items, size_t count)
{
    waldo_status status = waldo__transcript_append(&run->transcript, items, count);

    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        waldo__json_writer jw;
        waldo__buf json, item = WALDO__BUF_INIT(RECORD_MAX);

        waldo__record_begin(run, &json, &jw, "item");
        if (run->rt->store != NULL) {
            status = waldo__run_is_remote(run) ? waldo__remote_write_item(&items[i], &item)
                                               : waldo__item_write(&items[i], &item);
        }
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

/*
 * The store did not keep records: what comes behind them has no place any more, so the journal ends
 * here, and with it what the run can do.
 */
static void store_failed(waldo_run *run, waldo_status status)
{
    if (status == WALDO_ECONFLICT) {
        waldo_error_set(&run->journal_error, status, WALDO_CLASS_STORE,
                        "someone else has written to the journal of run %s", run->id);
    } else {
        waldo_error_set(&run->journal_error, status, WALDO_CLASS_STORE,
                        "the store did not keep the run's journal: %s", waldo_status_text(status));
    }
}

static void act(void *userdata)
{
    journal_op *op = userdata;
    waldo_run *run = op->run;
    int current = run != NULL && op->generation == run->generation;

    waldo__ring_remove(&op->ring);
    if (run != NULL) {
        waldo__ring_remove(&op->of_run);
    }
    if (run != NULL && op->status != WALDO_OK && run->journal_error == NULL) {
        store_failed(run, op->status);
    }
    if (run != NULL && run->journal_error == NULL) {
        waldo__run_announce_usage(run, &op->usage);
        announce(run, op->items);
        waldo__run_notify(run);
        if (op->next != NULL && current) {
            op->next(run, op->context);
        }
    } else if (current) {
        waldo__run_interrupt(run, WALDO_STOP_FAILED, waldo_error_copy(run->journal_error));
    }
    waldo__free(op);
}

/* Called by the store, maybe in the middle of its own work: only note the answer. */
static void durable(void *userdata, waldo_status status)
{
    journal_op *op = userdata;

    op->answered = 1;
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

/*
 * What cannot be handed to the store is taken back: items out of the transcript, texts back into
 * the queue, results back to their calls, which the next prompt settles.
 */
static void commit_failed(waldo_run *run)
{
    waldo_error *error = NULL;

    if (run->journal_error != NULL) {
        error = waldo_error_copy(run->journal_error);
    } else {
        waldo__error_nomem(&error);
    }
    run->events.lost = 0;
    free_records(run);
    run->new_usage = waldo__no_usage;
    for (size_t i = run->journalled; i < run->transcript.count; i++) {
        if (waldo__transcript_item(&run->transcript, i)->response.len > 0) {
            waldo__run_loses_track(run, NULL); /* the provider has what goes here */
        }
    }
    waldo__transcript_truncate(&run->transcript, run->journalled);
    run->taken = 0;
    run->notices_taken = run->notices_told;
    run->batch_over = 0;
    if (run->new_epoch) {
        waldo__run_free_epoch(run);
    }
    for (size_t i = 0; i < run->slots.count; i++) {
        run->slots.at[i]->unrecorded = 1;
    }
    waldo__run_rest(run, WALDO_STOP_FAILED, error);
}

static void handed_over(waldo_run *run)
{
    free_records(run);
    run->new_usage = waldo__no_usage;
    run->journalled = run->transcript.count;
    run->notices_told = run->notices_taken;
    run->new_epoch = 0;
    for (size_t i = 0; i < run->taken; i++) {
        waldo__free(run->queued.at[i].text);
        waldo__media_free(&run->queued.at[i].media);
    }
    run->queued.count -= run->taken;
    if (run->queued.count > 0) {
        memmove(run->queued.at, run->queued.at + run->taken,
                run->queued.count * sizeof *run->queued.at);
    }
    run->taken = 0;
    if (run->batch_over) {
        run->batch_over = 0;
        waldo__run_free_calls(run);
    }
}

void waldo__run_commit(waldo_run *run, waldo__run_fn next, void *context)
{
    int possible = run->journal_error == NULL && !run->events.lost;
    journal_op *op = possible ? WALDO__NEW(journal_op) : NULL;

    if (op == NULL) {
        commit_failed(run);
        return;
    }
    *op = (journal_op){ .rt = run->rt,
                        .run = run,
                        .next = next,
                        .context = context,
                        .generation = run->generation,
                        .usage = run->new_usage,
                        .items = run->transcript.count };
    waldo__task_init(&op->task, act, op);
    waldo__ring_init(&op->ring);
    waldo__ring_init(&op->of_run);
    waldo__ring_add(&run->rt->journal, &op->ring);
    waldo__ring_add(&run->journal, &op->of_run);
    waldo__runtime_append(run->rt, run->id, run->seq, run->records.at, run->records.count, durable,
                          op);
    if (op->answered && op->status == WALDO_ENOMEM) { /* nothing was taken */
        waldo__ring_remove(&op->ring);
        waldo__ring_remove(&op->of_run);
        waldo__task_cancel(run->rt->loop, &op->task);
        waldo__free(op);
        commit_failed(run);
        return;
    }
    run->seq += run->records.count;
    handed_over(run);
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
