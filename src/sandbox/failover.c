/*
 * Going on in another machine. One that is lost, or that is not to be had after all, goes into a
 * grave: a sandbox without a user, which ends the machine as any other is ended, together with the
 * operations that were begun on it. The sandbox itself opens the next backend of its spec; what
 * waited waits for that, and the newest snapshot of the workspace is put there.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "sandbox/background.h"
#include "sandbox/live.h"

enum {
    NOTICE_MAX = 8192,
    CHEAP_MS = 100, /* for a snapshot; those that take longer ... */
    SHARE = 10      /* ... take one part of so many of the time */
};

uint32_t waldo_sandbox_generation(const waldo_sandbox *sandbox)
{
    return sandbox != NULL ? sandbox->failover.generation + 1 : 0;
}

uint32_t waldo__sandbox_news_generation(const waldo_sandbox *sandbox)
{
    return sandbox->failover.news_of;
}

static int has_next(const waldo_sandbox *sandbox)
{
    return sandbox->entry + 1 < sandbox->spec->entry_count &&
           waldo__runtime_accepts(sandbox->rt) == WALDO_OK;
}

int waldo__sandbox_moving(const waldo_sandbox *sandbox)
{
    return (sandbox->failover.moving || (sandbox->broke != NULL && has_next(sandbox))) &&
           sandbox->state < WALDO__LIVE_CLOSING;
}

size_t waldo__sandbox_notice_count(const waldo_sandbox *sandbox)
{
    return sandbox->failover.notices.count - (size_t)sandbox->failover.moving;
}

const char *waldo__sandbox_notice(const waldo_sandbox *sandbox, size_t index)
{
    const char *text = sandbox->failover.notices.at[index];

    if (sandbox->lost != NULL && index + 1 == sandbox->failover.notices.count && text == NULL) {
        return "";
    }
    return text != NULL ? text
                        : "The sandbox was lost and another one has taken its place: look what "
                          "there is before going on.";
}

/* ---- the old machine ---- */

/* 0 without memory, and then nothing has changed. */
static int bury(waldo_sandbox *sandbox, const waldo_error *why)
{
    waldo_sandbox *grave = waldo_sandbox_new(sandbox->rt, sandbox->spec);

    if (grave == NULL) {
        return 0;
    }
    waldo__live_hold(sandbox);
    grave->failover.grave_of = sandbox;
    grave->refs = 0;
    grave->entry = sandbox->entry;
    grave->saved = sandbox->saved;
    grave->was_open = sandbox->was_open;
    waldo__live_give_machine(sandbox, grave);
    waldo__workspace_stop(sandbox);
    waldo__timer_disarm(sandbox->env->loop, &sandbox->idle_timer);
    sandbox->saved = NULL;
    sandbox->saved_empty = 0;
    sandbox->was_open = sandbox->reuse_capture = sandbox->pausing = sandbox->resuming = 0;
    waldo__random_word(sandbox->id, sizeof sandbox->id - 1);
    waldo__ops_move(sandbox, grave);
    grave->state = WALDO__LIVE_OPEN;
    waldo__live_hold(grave);
    waldo__live_lose(grave, why);
    waldo__live_release(grave);
    return 1;
}

/* ---- the next one ---- */

static const char *name_of(const waldo_sandbox *sandbox)
{
    return waldo__live_entry(sandbox)->ops->name;
}

static void open_next(waldo_sandbox *sandbox)
{
    sandbox->entry++;
    sandbox->state = WALDO__LIVE_NEW;
    waldo__live_open(sandbox);
}

/* What is known before there is another machine. Not a word of it is the machine's own. */
static char *begin_notice(waldo_sandbox *sandbox)
{
    waldo__buf text = WALDO__BUF_INIT(NOTICE_MAX);
    waldo__buf numbers = WALDO__BUF_INIT(NOTICE_MAX / 2);
    char *taken;

    waldo__background_gone(sandbox, &numbers);
    waldo__buf_printf(&text,
                      "The sandbox (%s) was lost. What ran in it has ended; it may or may not have "
                      "had its effects.",
                      name_of(sandbox));
    if (numbers.len > 0) {
        waldo__buf_printf(&text, " Background commands that are gone: %s.", numbers.ptr);
    }
    waldo__buf_free(&numbers);
    taken = waldo__buf_take(&text, NULL);
    waldo__buf_free(&text);
    return taken;
}

int waldo__failover_begin(waldo_sandbox *sandbox, const waldo_error *why)
{
    waldo__failover *f = &sandbox->failover;
    char **notice;
    char *text;

    if (sandbox->state != WALDO__LIVE_OPEN || sandbox->is_spare || f->grave_of != NULL ||
        f->moving || !has_next(sandbox)) {
        return 0;
    }
    notice = WALDO__VEC_PUSH(&f->notices);
    if (notice == NULL) {
        return 0;
    }
    text = begin_notice(sandbox);
    if (!bury(sandbox, why)) {
        f->notices.count--;
        waldo__free(text);
        return 0;
    }
    waldo__live_news(sandbox, "lost", "%s: the machine was lost: %s", name_of(sandbox),
                     waldo_error_message(why));
    *notice = text;
    f->moving = 1;
    f->generation++;
    f->lost_ns = waldo__now_ns();
    f->lost = waldo_error_copy(why);
    open_next(sandbox);
    return 1;
}

/* None could take its place. */
static void give_up(waldo_sandbox *sandbox, const waldo_error *why)
{
    waldo__failover *f = &sandbox->failover;
    waldo_error *both = NULL;

    waldo_error_set(&both, WALDO_ELOST, WALDO_CLASS_BACKEND,
                    "%s; and no other machine could take its place: sandbox \"%s\": %s",
                    waldo_error_message(f->lost), waldo__live_entry(sandbox)->text,
                    waldo_error_message(why));
    waldo__free(f->notices.at[f->notices.count - 1]);
    f->notices.at[f->notices.count - 1] = NULL;
    sandbox->state = WALDO__LIVE_OPEN;
    waldo__live_lose(sandbox, both);
    f->moving = 0;
    waldo_error_free(both);
}

/*
 * Whatever is wrong with a backend, the next of the list may serve. What is wrong with the host's
 * directory or its memory is the same everywhere, and a machine that is there is in one place only.
 */
int waldo__failover_refused(waldo_sandbox *sandbox, waldo_status status, const waldo_error *why)
{
    waldo__failover *f = &sandbox->failover;
    int found = status != WALDO_ENOTFOUND && status != WALDO_EUNAVAILABLE && status != WALDO_EAUTH;
    int here = !f->moving && (sandbox->saved != NULL || status == WALDO_ENOMEM ||
                              (found && waldo__live_entry(sandbox)->find) ||
                              (sandbox->state == WALDO__LIVE_PREPARING && status != WALDO_ELOST));
    const char *name = name_of(sandbox), *text;

    if (status == WALDO_ENOTFOUND && waldo__live_entry(sandbox)->find && f->absent == NULL) {
        f->absent = waldo_error_copy(why);
    }
    if (here || !has_next(sandbox) || !bury(sandbox, why)) {
        if (f->moving) {
            give_up(sandbox, why);
        }
        return f->moving || sandbox->lost != NULL;
    }
    text = waldo__error_text(status, why);
    waldo__live_news(sandbox, "refused", "%s: no machine: %s", name, text);
    if (sandbox->listeners == NULL) {
        waldo__log(sandbox->env->loop, WALDO_LOG_WARN, "sandbox", "%s: no machine: %s", name, text);
    }
    open_next(sandbox);
    return 1;
}

/* ---- the workspace ---- */

static void on_restored(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_error *copy = waldo_error_copy(error);

    waldo__error_prefix(copy, "restoring the workspace");
    waldo__live_prepared(userdata, status, copy);
}

int waldo__failover_restore(waldo_sandbox *sandbox)
{
    const waldo__failover *f = &sandbox->failover;

    if (!f->moving || f->snapshot == NULL) {
        return 0;
    }
    sandbox->inside++;
    waldo_sandbox_restore(sandbox, waldo__strn(f->snapshot, f->snapshot_len), on_restored, sandbox);
    sandbox->inside--;
    return 1;
}

static int is_copy(const waldo_sandbox *sandbox)
{
    return sandbox->spec->options.workspace_mode == WALDO_WORKSPACE_COPY;
}

static void on_snapshot(void *userdata, waldo_status status, waldo_str archive,
                        const waldo_error *error)
{
    waldo_sandbox *sandbox = userdata;
    waldo__failover *f = &sandbox->failover;
    char *copy = status == WALDO_OK ? waldo__strndup(archive.ptr, archive.len) : NULL;
    int64_t took_ns;

    if (copy != NULL) {
        waldo__free(f->snapshot);
        f->snapshot = copy;
        f->snapshot_len = archive.len;
        f->snapshot_ns = f->taking_ns;
        waldo__live_news(sandbox, "snapshot", "%zu", archive.len);
        waldo__log(sandbox->env->loop, WALDO_LOG_DEBUG, "sandbox", "a snapshot of %zu bytes",
                   archive.len);
    } else if (status == WALDO_ETOOBIG && !f->told_too_big) {
        f->told_too_big = 1;
        waldo__live_news(sandbox, "unsaved",
                         "no snapshot of the workspace, which would be lost with its machine: %s",
                         waldo_error_message(error));
    } else if (status != WALDO_ETOOBIG) {
        waldo__log(sandbox->env->loop, WALDO_LOG_INFO, "sandbox", "no snapshot: %s",
                   waldo__error_text(WALDO_ENOMEM, error));
    }
    took_ns = waldo__now_ns() - f->taking_ns;
    f->not_before_ns =
        took_ns > CHEAP_MS * WALDO__NS_PER_MS ? waldo__now_ns() + SHARE * took_ns : 0;
    f->taking_ns = 0;
    if (f->again) {
        f->again = 0;
        waldo__sandbox_checkpoint(sandbox);
    }
    if (f->taking_ns == 0 && sandbox->state == WALDO__LIVE_OPEN) {
        waldo__ops_start(sandbox); /* a pause */
    }
}

void waldo__sandbox_checkpoint(waldo_sandbox *sandbox)
{
    waldo__failover *f = &sandbox->failover;

    if (sandbox->state != WALDO__LIVE_OPEN || !is_copy(sandbox) ||
        sandbox->entry + 1 >= sandbox->spec->entry_count || /* nothing would ever be restored */
        waldo__live_entry(sandbox)->snapshots != WALDO_SNAPSHOTS_TURN) {
        return;
    }
    if (f->taking_ns != 0) {
        f->again = 1;
        return;
    }
    if (waldo__now_ns() < f->not_before_ns &&
        waldo__timer_arm(sandbox->env->loop, &f->timer, f->not_before_ns) == WALDO_OK) {
        return;
    }
    f->taking_ns = waldo__now_ns();
    waldo_sandbox_snapshot(sandbox, on_snapshot, sandbox);
}

/* Not in the middle of a command: behind that comes another round's end. */
static void is_time(void *userdata)
{
    if (!waldo__ops_have_jobs(userdata)) {
        waldo__sandbox_checkpoint(userdata);
    }
}

void waldo__failover_init(waldo_sandbox *sandbox)
{
    waldo__timer_init(&sandbox->failover.timer, is_time, sandbox);
}

/* ---- there it is ---- */

static void end_notice(const waldo_sandbox *sandbox, waldo__buf *text)
{
    const waldo__failover *f = &sandbox->failover;

    waldo__buf_printf(text, " Another one (%s) has taken its place. " WALDO__WORKSPACE " is ",
                      name_of(sandbox));
    if (!is_copy(sandbox)) {
        waldo__buf_puts(text, "the user's directory, as before.");
    } else if (sandbox->info.reached) {
        waldo__buf_puts(text, "as it was left there earlier: look before you rely on it.");
    } else if (f->snapshot != NULL) {
        int64_t s = (f->lost_ns - f->snapshot_ns) / WALDO__NS_PER_S;

        waldo__buf_printf(text,
                          "as it was %lld seconds before the loss; what was changed there later is "
                          "gone.",
                          (long long)s);
    } else if (sandbox->spec->workspace != NULL) {
        waldo__buf_puts(text, "the user's directory as it was copied at first: all changes there "
                              "are gone.");
    } else {
        waldo__buf_puts(text, "empty.");
    }
    waldo__buf_puts(text, " Files elsewhere and what was installed or set up are gone.");
}

/* The model knows the network of the first backend. */
static const char *other_network(const waldo_sandbox *sandbox)
{
    const char *first = waldo__spec_net_note(&sandbox->spec->entries[0]);
    const char *now = waldo__spec_net_note(waldo__live_entry(sandbox));

    return strcmp(first, now) != 0 ? now : NULL;
}

static void note_network(const waldo_sandbox *sandbox, waldo__buf *text)
{
    const char *now = other_network(sandbox);

    if (now != NULL) {
        waldo__buf_printf(text, "%s%s", text->len > 0 ? " " : "", now);
    }
}

size_t waldo__sandbox_notice_first(const waldo_sandbox *sandbox)
{
    size_t count = waldo__sandbox_notice_count(sandbox);
    int tells = count > 0 && sandbox->was_open && other_network(sandbox) != NULL;

    return count - (size_t)tells;
}

static void on_saved(void *userdata, waldo_status status, waldo_str saved, const waldo_error *error)
{
    (void)error;
    if (status == WALDO_OK) {
        waldo__live_news(userdata, "saved", "%.*s", (int)saved.len, saved.ptr);
    }
}

static void finish_moving(waldo_sandbox *sandbox)
{
    waldo__failover *f = &sandbox->failover;
    char **notice = &f->notices.at[f->notices.count - 1];
    waldo__buf text = WALDO__BUF_INIT(NOTICE_MAX);

    f->moving = 0;
    waldo__error_clear(&f->lost);
    if (*notice != NULL) {
        waldo__buf_puts(&text, *notice);
        end_notice(sandbox, &text);
        note_network(sandbox, &text);
        waldo__free(*notice);
        *notice = waldo__buf_take(&text, NULL);
        waldo__buf_free(&text);
    }
    waldo__live_news(sandbox, "moved", "%s", waldo__sandbox_notice(sandbox, f->notices.count - 1));
}

void waldo__failover_opened(waldo_sandbox *sandbox)
{
    waldo__failover *f = &sandbox->failover;
    waldo__buf text = WALDO__BUF_INIT(NOTICE_MAX);

    if (f->moving) {
        finish_moving(sandbox);
    } else if (f->generation == 0) {
        char **notice;

        note_network(sandbox, &text);
        notice = text.len > 0 && f->notices.count == 0 ? WALDO__VEC_PUSH(&f->notices) : NULL;
        if (notice != NULL) {
            *notice = waldo__buf_take(&text, NULL);
        }
        waldo__buf_free(&text);
    }
    if (sandbox->listeners != NULL && waldo__live_durable(sandbox)) {
        waldo_sandbox_save(sandbox, on_saved, sandbox);
    }
}

void waldo__failover_free(waldo_sandbox *sandbox)
{
    waldo__failover *f = &sandbox->failover;

    waldo__timer_disarm(sandbox->env->loop, &f->timer);
    for (size_t i = 0; i < f->notices.count; i++) {
        waldo__free(f->notices.at[i]);
    }
    WALDO__VEC_FREE(&f->notices);
    waldo__free(f->snapshot);
    waldo_error_free(f->lost);
    waldo_error_free(f->absent);
    if (f->grave_of != NULL) {
        waldo__live_release(f->grave_of);
    }
}
