/*
 * Spares: machines opened ahead. A spare is a sandbox without a user that stops where its workspace
 * would be copied; it is in the runtime's list like any other, so whatever ends those ends it. A
 * sandbox of the same recipe that is to be opened takes its machine, and what had none keeps
 * nothing: no spare is used twice.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/live.h"

enum {
    ALL_MAX = 64,               /* spares of one runtime */
    ANSWER_MS = 2000,           /* for the hand of a spare that is taken */
    UNUSED_MS = 10 * 60 * 1000, /* then it ends; the next opening makes new ones */
    SOON_MS = 100,   /* before one is opened: whoever has just opened has work to do first */
    AGAIN_MS = 1000, /* after a failure; twice as long after each further one */
    AGAIN_MAX_MS = 60000,
    FAILURES_MAX = 8 /* then it is left until the next opening */
};

/* ---- recipes ---- */

static int same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static int same_list(const char *const *a, const char *const *b)
{
    size_t i = 0;

    while (a != NULL && b != NULL && a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0) {
        i++;
    }
    return (a == NULL || a[i] == NULL) && (b == NULL || b[i] == NULL);
}

static int same_options(const waldo_backend_spec *a, const waldo_backend_spec *b)
{
    size_t i = 0;

    while (i < a->option_count && i < b->option_count &&
           waldo__str_eq(a->options[i].key, b->options[i].key) &&
           waldo__str_eq(a->options[i].value, b->options[i].value)) {
        i++;
    }
    return i == a->option_count && i == b->option_count;
}

/* Would a backend be told the same of both? */
static int same_recipe(const waldo_sandbox *one, const waldo_sandbox *other)
{
    const waldo__spec_entry *entry = waldo__live_entry(one);
    const waldo__spec_entry *other_entry = waldo__live_entry(other);
    waldo_backend_spec a = waldo__spec_for_backend(one->spec, entry);
    waldo_backend_spec b = waldo__spec_for_backend(other->spec, other_entry);

    return entry == other_entry ||
           (entry->ops == other_entry->ops && waldo__str_eq(a.target, b.target) &&
            same_options(&a, &b) && a.workspace_mode == b.workspace_mode &&
            same_text(a.workspace, b.workspace) && same_list(a.env, b.env) &&
            same_list(a.hosts, b.hosts) && a.net == b.net && a.memory_bytes == b.memory_bytes &&
            a.cpus == b.cpus && a.max_processes == b.max_processes &&
            entry->min_isolation == other_entry->min_isolation);
}

/* ---- having them ---- */

static void open_spare(void *userdata)
{
    waldo_sandbox *spare = userdata;

    waldo__live_hold(spare);
    if (spare->state == WALDO__LIVE_NEW) {
        waldo__live_open(spare);
    }
    waldo__live_release(spare);
}

static void end_unused(void *userdata)
{
    waldo_sandbox *spare = userdata;

    waldo__live_hold(spare);
    waldo__live_begin_close(spare, "no sandbox took it", 0);
    waldo__live_release(spare);
}

static int arm(waldo_sandbox *spare, waldo__task_fn fn, int64_t ms)
{
    spare->spare_timer.fn = fn;
    return waldo__timer_arm(spare->env->loop, &spare->spare_timer, waldo__deadline_ns(ms)) ==
           WALDO_OK;
}

/* Try again later, or give up. */
static void back_off(waldo_sandbox *spare)
{
    int64_t ms = AGAIN_MS;

    for (unsigned i = 1; i < spare->failures && ms < AGAIN_MAX_MS; i++) {
        ms *= 2;
    }
    if (spare->failures >= FAILURES_MAX ||
        !arm(spare, open_spare, ms < AGAIN_MAX_MS ? ms : AGAIN_MAX_MS)) {
        end_unused(spare);
    }
}

static waldo_sandbox *make_spare(const waldo_sandbox *like)
{
    waldo_sandbox *spare = waldo_sandbox_new(like->rt, like->spec);

    if (spare != NULL) {
        spare->refs = 0; /* nobody's: it is freed when its machine has ended */
        spare->is_spare = 1;
        spare->entry = like->entry;
    }
    return spare;
}

void waldo__spares_refill(const waldo_sandbox *sandbox)
{
    waldo__sandbox_node *head = waldo__runtime_sandboxes(sandbox->rt);
    uint32_t wanted = waldo__live_entry(sandbox)->spares;
    uint32_t have = 0;
    unsigned all = 0;
    waldo_sandbox *spare;

    if (wanted == 0 || waldo__live_durable(sandbox) ||
        waldo__runtime_accepts(sandbox->rt) != WALDO_OK) {
        return;
    }
    for (waldo__sandbox_node *node = head->next; node != head; node = node->next) {
        const waldo_sandbox *other = waldo__sandbox_of_node(node);

        if (other->is_spare && other->state < WALDO__LIVE_CLOSING) {
            all++;
            if (same_recipe(other, sandbox)) {
                have++;
                if (other->state != WALDO__LIVE_OPEN) {
                    return; /* one at a time; when that is there, it looks again */
                }
            }
        }
    }
    spare = have < wanted && all < ALL_MAX ? make_spare(sandbox) : NULL;
    if (spare != NULL && !arm(spare, open_spare, SOON_MS)) {
        end_unused(spare);
    }
}

void waldo__spare_ready(waldo_sandbox *spare)
{
    spare->state = WALDO__LIVE_OPEN;
    spare->failures = 0;
    if (!arm(spare, end_unused, UNUSED_MS)) {
        end_unused(spare);
        return;
    }
    waldo__spares_refill(spare);
}

/* ---- taking one ---- */

static waldo_sandbox *find_ready(const waldo_sandbox *sandbox)
{
    waldo__sandbox_node *head = waldo__runtime_sandboxes(sandbox->rt);

    for (waldo__sandbox_node *node = head->next; node != head; node = node->next) {
        waldo_sandbox *other = waldo__sandbox_of_node(node);

        if (other->is_spare && other->state == WALDO__LIVE_OPEN && same_recipe(other, sandbox)) {
            return other;
        }
    }
    return NULL;
}

static void taken(waldo_sandbox *sandbox)
{
    sandbox->taking = 0;
    waldo__timer_disarm(sandbox->env->loop, &sandbox->spare_timer);
    waldo__live_machine_ready(sandbox);
}

/* Lost while it was asked: the session's end comes next, and says so. */
static void answered(void *userdata, const waldo__hand_end *end)
{
    waldo_sandbox *sandbox = userdata;

    if (end->done != NULL && sandbox->taking) {
        taken(sandbox);
    }
}

/* Its machine has died, or the engine around it: another one, or a new one. */
static void take_failed(waldo_sandbox *sandbox)
{
    sandbox->taking = 0;
    waldo__timer_disarm(sandbox->env->loop, &sandbox->spare_timer);
    waldo__live_drop_machine(sandbox);
    sandbox->state = WALDO__LIVE_NEW;
    waldo__live_open(sandbox);
}

static void no_answer(void *userdata)
{
    waldo_sandbox *sandbox = userdata;

    waldo__live_hold(sandbox);
    if (sandbox->taking && sandbox->state == WALDO__LIVE_OPENING) {
        take_failed(sandbox);
    }
    waldo__live_release(sandbox);
}

/*
 * From the run queue, as everything that follows an opening. A host that did not drive its loop for
 * a while has not heard of a spare's end: its hand is asked for something small first.
 */
static void take_now(void *userdata)
{
    static const waldo__hand_call_fns fns = { .ended = answered };
    waldo_sandbox *sandbox = userdata;
    const waldo__hand_file file = { .path = { "/", 1 } };
    waldo__hand_call *call;

    waldo__live_hold(sandbox);
    if (sandbox->hand == NULL) {
        taken(sandbox);
    } else if (!arm(sandbox, no_answer, ANSWER_MS) ||
               waldo__hand_start_file(sandbox->hand, WALDO_HAND_STAT, &file, &fns, sandbox,
                                      &call) != WALDO_OK) {
        take_failed(sandbox);
    }
    waldo__live_release(sandbox);
}

int waldo__spares_take(waldo_sandbox *sandbox)
{
    waldo_sandbox *spare = !sandbox->is_spare && !waldo__live_durable(sandbox) &&
                                   waldo__live_entry(sandbox)->spares > 0
                               ? find_ready(sandbox)
                               : NULL;

    if (spare == NULL) {
        return 0;
    }
    sandbox->state = WALDO__LIVE_OPENING;
    sandbox->taking = 1;
    waldo__live_give_machine(spare, sandbox);
    waldo__live_hold(spare);
    waldo__live_leave(spare);
    waldo__live_release(spare);
    sandbox->end_task.fn = take_now;
    waldo__task_queue(sandbox->env->loop, &sandbox->end_task);
    return 1;
}

/* ---- when it goes wrong ---- */

int waldo__spares_opening_failed(waldo_sandbox *sandbox, const waldo_error *error)
{
    if (sandbox->taking) {
        take_failed(sandbox);
        return 1;
    }
    if (!sandbox->is_spare) {
        return 0;
    }
    waldo__log(sandbox->env->loop, WALDO_LOG_INFO, "sandbox", "a spare of \"%s\" did not open: %s",
               waldo__live_entry(sandbox)->text, waldo_error_message(error));
    waldo__live_drop_machine(sandbox);
    sandbox->state = WALDO__LIVE_NEW;
    sandbox->failures++;
    back_off(sandbox);
    return 1;
}

void waldo__spare_lost(const waldo_sandbox *spare)
{
    waldo_sandbox *next = waldo__runtime_accepts(spare->rt) == WALDO_OK ? make_spare(spare) : NULL;

    if (next != NULL) {
        next->failures = 1;
        back_off(next);
    }
}

void waldo__spares_init(waldo_sandbox *sandbox)
{
    waldo__timer_init(&sandbox->spare_timer, NULL, sandbox);
}
