/*
 * A run and its machine: what is heard of it, and what the model has to know when another one has
 * taken its place. A request waits for that one, so that the model hears of all of it at once.
 */
#include "base/alloc.h"
#include "json/json.h"
#include "agent/run.h"

enum { TEXT_MAX = 1024 * 1024 };

/* One opening that is waited for; outlives its run. */
struct waldo__machine_wait {
    waldo_run *run; /* NULL: gone */
    unsigned generation;
};

/* ---- news ---- */

static void tell(waldo_run *run, waldo_event_kind kind, const char *what, waldo_str text)
{
    waldo__buf line = WALDO__BUF_INIT(TEXT_MAX);

    if (kind == WALDO_EVENT_SANDBOX) {
        waldo__buf_printf(&line, "%s: ", what);
    }
    run->events.lost |= waldo__buf_add_str(&line, text) != WALDO_OK;
    waldo__events_text(&run->events, kind, waldo__buf_str(&line));
    waldo__buf_free(&line);
    waldo__run_notify(run);
}

static void on_news(void *userdata, const char *what, const char *text)
{
    waldo_run *run = userdata;
    int is_snapshot = strcmp(what, "snapshot") == 0, is_saved = strcmp(what, "saved") == 0;
    waldo__json_writer jw;
    waldo__buf json, room;
    waldo_str clean = waldo__str(text);
    int64_t bytes = 0;

    waldo__run_clean(run, &clean, &room);
    if (!is_snapshot && !is_saved) {
        tell(run, strcmp(what, "unsaved") == 0 ? WALDO_EVENT_WARNING : WALDO_EVENT_SANDBOX, what,
             clean);
    }
    if (strcmp(what, "opening") == 0) { /* of no interest later */
        waldo__buf_free(&room);
        return;
    }
    waldo__record_begin(run, &json, &jw, is_snapshot ? "snapshot" : "sandbox");
    waldo__jw_int(&jw, "generation", waldo__sandbox_news_generation(run->sandbox));
    if (is_snapshot) {
        waldo__str_int(clean, &bytes);
        waldo__jw_int(&jw, "bytes", bytes);
    } else {
        waldo__jw_text(&jw, "what", what);
        waldo__jw_str(&jw, is_saved ? "saved" : "text", clean);
    }
    waldo__record_end(run, &json, &jw);
    waldo__buf_free(&room);
}

void waldo__run_take_machine(waldo_run *run)
{
    run->notes = waldo__sandbox_notes(run->sandbox);
    run->notices_taken = run->notices_told = waldo__sandbox_notice_first(run->sandbox);
    run->listener = (waldo__sandbox_listener){ .fn = on_news, .userdata = run };
    waldo__sandbox_listen(run->sandbox, &run->listener);
}

void waldo__run_leave_machine(waldo_run *run)
{
    waldo__sandbox_unlisten(run->sandbox, &run->listener);
    if (run->machine_wait != NULL) {
        run->machine_wait->run = NULL;
        run->machine_wait = NULL;
    }
}

/* ---- another machine ---- */

static void machine_there(void *userdata, waldo_status status, const waldo_error *error)
{
    struct waldo__machine_wait *wait = userdata;
    waldo_run *run = wait->run;
    int current = run != NULL && wait->generation == run->generation;

    (void)error;
    waldo__free(wait);
    if (run != NULL) {
        run->machine_wait = NULL;
        run->machine_hurry = status == WALDO_ENOMEM;
    }
    if (current) {
        waldo__run_ask(run);
    }
}

/* What was said and done so far is durable. */
static void wait_for_machine(waldo_run *run, void *context)
{
    struct waldo__machine_wait *wait = run->machine_wait;

    (void)context;
    if (wait != NULL) { /* of a request that was cancelled */
        wait->generation = run->generation;
        return;
    }
    wait = WALDO__NEW(struct waldo__machine_wait);
    if (wait == NULL) {
        run->machine_hurry = 1;
        waldo__run_ask(run);
        return;
    }
    *wait = (struct waldo__machine_wait){ .run = run, .generation = run->generation };
    run->machine_wait = wait;
    waldo_sandbox_open(run->sandbox, machine_there, wait);
}

int waldo__run_awaits_machine(waldo_run *run)
{
    int waits = run->sandbox != NULL && !run->machine_hurry && waldo__sandbox_moving(run->sandbox);

    run->machine_hurry = 0;
    if (waits) {
        waldo__run_commit(run, wait_for_machine, NULL);
    }
    return waits;
}

waldo_status waldo__run_take_notices(waldo_run *run)
{
    waldo_status status = WALDO_OK;
    size_t count = run->sandbox != NULL ? waldo__sandbox_notice_count(run->sandbox) : 0;

    for (; run->notices_taken < count && status == WALDO_OK; run->notices_taken++) {
        waldo_item item = { .kind = WALDO_ITEM_NOTICE,
                            .text = waldo__str(
                                waldo__sandbox_notice(run->sandbox, run->notices_taken)) };

        if (item.text.len > 0) {
            status = waldo__run_add_items(run, &item, 1);
        }
    }
    return status;
}
