/* The life of a machine: opening, losing, closing, abandoning. */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/background.h"
#include "sandbox/live.h"

enum {
    OPEN_MS = 120000, /* for the backend to make a machine */
    HELLO_MS = 10000, /* for the hand to answer */
    REST_MS = 1000,   /* a stream that breaks sooner is not tried again */
    KILL_MS = 1500,   /* for commands to be gone after their grace */
    END_MS = 5000     /* for the backend to end a machine */
};

static const waldo_backend_ops *ops_of(const waldo_sandbox *sandbox)
{
    return waldo__live_entry(sandbox)->ops;
}

static waldo_backend_call call_until(waldo_sandbox *sandbox, int64_t ms)
{
    return (waldo_backend_call){ .size = sizeof(waldo_backend_call),
                                 .deadline_ns = waldo__deadline_ns(ms),
                                 .userdata = sandbox };
}

/* What its machine is: as its class, unless the backend knows more. */
static waldo_machine_info describe(const waldo_sandbox *sandbox)
{
    const waldo_backend_ops *ops = ops_of(sandbox);
    waldo_machine_info info = { .size = sizeof info,
                                .caps = ops->caps,
                                .isolation = ops->isolation };

    if (WALDO__BACKEND_HAS(ops, describe)) {
        ops->describe(sandbox->machine, &info);
    }
    return info;
}

/* Is the machine to go on without this sandbox? */
static int is_let_go(const waldo_sandbox *sandbox)
{
    if (sandbox->machine == NULL || !waldo__live_durable(sandbox) ||
        !WALDO__BACKEND_HAS(ops_of(sandbox), detach)) {
        return 0;
    }
    if (!sandbox->was_open) { /* once it runs, whoever knows its name may have it */
        return describe(sandbox).reached ||
               (waldo__live_entry(sandbox)->name != NULL && sandbox->info.size != 0);
    }
    return sandbox->detaching || sandbox->lost != NULL || waldo__live_entry(sandbox)->name != NULL;
}

/* Has it been made elsewhere, and is its hand to end with this sandbox? */
static int ends_hand(const waldo_sandbox *sandbox)
{
    return (sandbox->info.flags & WALDO_MACHINE_FOREIGN) != 0 && sandbox->hand != NULL &&
           !is_let_go(sandbox);
}

/* Everything of the machine at once, without waiting. */
void waldo__live_drop_machine(waldo_sandbox *sandbox)
{
    waldo__workspace_stop(sandbox);
    if (ends_hand(sandbox) && !waldo__loop_forked(sandbox->env->loop)) {
        waldo__live_shut_hand(sandbox, NULL);
    }
    waldo__hand_free(sandbox->hand);
    sandbox->hand = NULL;
    if (is_let_go(sandbox)) {
        ops_of(sandbox)->detach(sandbox->machine);
    } else if (sandbox->machine != NULL) {
        ops_of(sandbox)->abandon(sandbox->machine);
    }
    sandbox->machine = NULL;
    sandbox->was_open = sandbox->pausing = sandbox->resuming = 0;
    waldo__background_lost(sandbox);
    waldo__error_clear(&sandbox->broke);
    waldo__ops_drop_zombies(sandbox);
    waldo__scratch_drop(sandbox->env->loop, &sandbox->scratch);
    sandbox->info = (waldo_machine_info){ .size = 0 };
}

void waldo__live_give_machine(waldo_sandbox *from, waldo_sandbox *to)
{
    to->machine = from->machine;
    to->hand = from->hand;
    to->scratch = from->scratch;
    to->info = from->info;
    memcpy(to->id, from->id, sizeof to->id);
    if (to->hand != NULL) {
        waldo__hand_give(to->hand, to);
    }
    from->machine = NULL;
    from->hand = NULL;
    from->scratch = NULL;
    from->info = (waldo_machine_info){ .size = 0 };
}

/* ---- opening ---- */

static void open_failed(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    waldo__buf context = WALDO__BUF_INIT(2 * WALDO__SPEC_TEXT_MAX);
    waldo_error *copy = NULL;

    if (error == NULL) {
        waldo_error_set(&copy, status, WALDO_CLASS_BACKEND, "%s", waldo_status_text(status));
    } else {
        copy = waldo_error_copy(error);
    }
    waldo__buf_printf(&context, "sandbox \"%s\"", waldo__live_entry(sandbox)->text);
    waldo__error_prefix(copy, waldo__buf_str(&context).ptr);
    waldo__buf_free(&context);
    waldo__ops_stop(sandbox, status, copy);
    waldo__live_drop_machine(sandbox);
    waldo__workspace_free(sandbox->workspace);
    sandbox->workspace = NULL;
    sandbox->state = WALDO__LIVE_NEW;
    waldo_error_free(copy);
}

/* Neither the stream that broke nor another: now it is lost. */
static void rejoin_failed(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    waldo_error *both = NULL;

    waldo_error_set(&both, WALDO_ELOST, WALDO_CLASS_BACKEND, "%s; nor can it be reached again: %s",
                    waldo_error_message(sandbox->broke), waldo__error_text(status, error));
    waldo__error_clear(&sandbox->broke);
    sandbox->resuming = 0;
    sandbox->state = WALDO__LIVE_OPEN;
    waldo__live_lose(sandbox, both);
    waldo__background_lost(sandbox);
    waldo_error_free(both);
}

static void opening_failed(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    if (sandbox->broke != NULL) {
        rejoin_failed(sandbox, status, error);
    } else if (!waldo__spares_opening_failed(sandbox, error) &&
               !waldo__failover_refused(sandbox, status, error)) {
        /* That one backend has no key says less than that another has no machine of the name. */
        if (sandbox->failover.absent != NULL && status == WALDO_EAUTH) {
            error = sandbox->failover.absent;
            status = WALDO_ENOTFOUND;
        }
        open_failed(sandbox, status, error);
    }
}

static void opened(waldo_sandbox *sandbox)
{
    sandbox->state = WALDO__LIVE_OPEN;
    sandbox->was_open = 1;
    sandbox->joined_ns = waldo__now_ns();
    waldo__live_news(sandbox, "opened", "%s: a machine was %s (isolation: %s)",
                     ops_of(sandbox)->name, sandbox->info.reached ? "reached" : "opened",
                     waldo__isolation_name(sandbox->info.isolation));
    waldo__failover_opened(sandbox);
    waldo__ops_start(sandbox);
    waldo__live_op_gone(sandbox); /* perhaps nothing waited for it */
    waldo__spares_refill(sandbox);
}

void waldo__live_prepared(waldo_sandbox *sandbox, waldo_status status, waldo_error *error)
{
    if (sandbox->state == WALDO__LIVE_PREPARING && status != WALDO_OK) {
        opening_failed(sandbox, status, error);
    } else if (sandbox->state == WALDO__LIVE_PREPARING) {
        opened(sandbox);
    }
    waldo_error_free(error);
}

/* It is to be no less than what was asked for. */
static waldo_status take_info(waldo_sandbox *sandbox, waldo_error **ret_err)
{
    const waldo_backend_ops *ops = ops_of(sandbox);
    const waldo__spec_entry *entry = waldo__live_entry(sandbox);
    waldo_machine_info info = describe(sandbox);

    if (info.isolation <= WALDO_ISOLATION_ANY || info.isolation < entry->min_isolation) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                               "min_isolation is %s, but the machine that was opened separates by "
                               "%s only",
                               waldo__isolation_name(entry->min_isolation),
                               waldo__isolation_name(info.isolation));
    }
    sandbox->info = info;
    if ((info.flags & WALDO_MACHINE_FOREIGN) != 0) {
        waldo__live_name_files(sandbox);
    }
    if (info.note != NULL) {
        waldo__log(sandbox->env->loop, WALDO_LOG_WARN, "sandbox", "%s: %s", ops->name, info.note);
        waldo__live_news(sandbox, "limited", "%s: %s", ops->name, info.note);
    }
    return WALDO_OK;
}

/* One that was there before has its workspace, as it was left. */
void waldo__live_machine_ready(waldo_sandbox *sandbox)
{
    if (sandbox->is_spare) {
        waldo__spare_ready(sandbox);
        return;
    }
    sandbox->state = WALDO__LIVE_PREPARING;
    if (sandbox->broke != NULL) {
        waldo__live_news(sandbox, "rejoined", "%s: the machine was reached again after: %s",
                         ops_of(sandbox)->name, waldo_error_message(sandbox->broke));
        waldo__error_clear(&sandbox->broke);
        waldo__live_prepared(sandbox, WALDO_OK, NULL);
    } else if (sandbox->info.reached) {
        waldo__live_prepared(sandbox, WALDO_OK, NULL);
    } else {
        waldo__workspace_begin(sandbox);
    }
}

static void lease_ended(void *userdata, const waldo__hand_end *end)
{
    waldo_sandbox *sandbox = userdata;

    if (end->status != WALDO_OK) {
        waldo__log(sandbox->env->loop, WALDO_LOG_WARN, "sandbox",
                   "%s: the lease stays as it was: %s", ops_of(sandbox)->name,
                   waldo_error_message(end->error));
    }
}

/* A machine that was there before has the lease it was made with, unless another was asked for. */
static void set_lease(waldo_sandbox *sandbox)
{
    static const waldo__hand_call_fns fns = { .ended = lease_ended };
    const waldo__spec_entry *entry = waldo__live_entry(sandbox);
    waldo__hand_call *call;

    if (sandbox->info.reached && entry->lease_asked) {
        waldo__hand_start_lease(sandbox->hand, (uint32_t)entry->lease_ms, &fns, sandbox, &call);
    }
}

void waldo__live_recovered(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    waldo__live_hold(sandbox);
    if (status == WALDO_OK) {
        set_lease(sandbox);
        waldo__live_machine_ready(sandbox);
    } else {
        opening_failed(sandbox, status, error);
    }
    waldo__live_release(sandbox);
}

static void hand_ready(void *userdata)
{
    waldo_sandbox *sandbox = userdata;

    if (waldo__live_durable(sandbox) || sandbox->broke != NULL) {
        waldo__background_recover(sandbox);
    } else {
        waldo__live_machine_ready(sandbox);
    }
}

static void on_open(void *userdata, waldo_status status, const waldo_error *error);

/* It cannot run here at all; the backend may know another way, but none that keeps a machine. */
static int do_without(waldo_sandbox *sandbox, const waldo_error *error)
{
    const waldo_backend_ops *ops = ops_of(sandbox);
    waldo_backend_call call = call_until(sandbox, OPEN_MS);
    waldo_error *why;

    if (sandbox->state != WALDO__LIVE_OPENING || sandbox->hand == NULL || sandbox->broke != NULL ||
        waldo__live_durable(sandbox) || waldo_error_status(error) != WALDO_EUNAVAILABLE ||
        !WALDO__BACKEND_HAS(ops, without_hand)) {
        return 0;
    }
    why = waldo_error_copy(error);
    waldo__hand_free(sandbox->hand);
    sandbox->hand = NULL;
    ops->without_hand(sandbox->machine, waldo_error_message(why), &call, on_open);
    waldo_error_free(why);
    return 1;
}

static void on_channel(void *userdata, waldo_status status, waldo_channel *channel,
                       const waldo_error *error);

static void join(waldo_sandbox *sandbox)
{
    waldo_backend_call call = call_until(sandbox, OPEN_MS);

    ops_of(sandbox)->channel(sandbox->machine, &call, on_channel);
}

/* What its background commands came to, another session will tell. */
static void end_session(waldo_sandbox *sandbox)
{
    waldo__hand_free(sandbox->hand);
    sandbox->hand = NULL;
    waldo__background_unknown(sandbox);
}

/*
 * A stream may break while the machine goes on: with its network, or the engine's process. Another
 * is tried once, for a machine that goes on without one; plain commands have ended as lost.
 */
static int rejoin(waldo_sandbox *sandbox, const waldo_error *error)
{
    if (sandbox->state != WALDO__LIVE_OPEN || !sandbox->was_open || !waldo__live_rejoins(sandbox) ||
        !waldo__hand_broke(sandbox->hand) ||
        waldo__now_ns() - sandbox->joined_ns < REST_MS * WALDO__NS_PER_MS) {
        return 0;
    }
    sandbox->broke = waldo_error_copy(error);
    if (sandbox->broke == NULL) {
        return 0;
    }
    end_session(sandbox);
    sandbox->state = WALDO__LIVE_OPENING;
    join(sandbox);
    return 1;
}

/* The stream of a machine that is paused, or is about to go on. 1: that makes another. */
static int lost_while_paused(waldo_sandbox *sandbox)
{
    if (sandbox->state != WALDO__LIVE_PAUSED && !sandbox->resuming) {
        return 0;
    }
    if (waldo__live_rejoins(sandbox) && waldo__hand_broke(sandbox->hand)) {
        end_session(sandbox);
        return 1;
    }
    if (sandbox->state == WALDO__LIVE_PAUSED) {
        sandbox->state = WALDO__LIVE_OPEN;
        sandbox->pausing = 0;
    }
    return 0;
}

void waldo__live_resumed(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    if (!sandbox->resuming) {
        return; /* it is lost, or being closed */
    }
    sandbox->resuming = 0;
    if (sandbox->hand != NULL && (sandbox->info.flags & WALDO_MACHINE_REJOINS) != 0) {
        end_session(sandbox); /* a pause may have ended its stream, unheard as yet */
    }
    if (status != WALDO_OK) {
        opening_failed(sandbox, status, error);
    } else if (sandbox->hand == NULL && (sandbox->info.caps & WALDO_BACKEND_CHANNEL) != 0) {
        join(sandbox);
    } else {
        waldo__error_clear(&sandbox->broke);
        sandbox->state = WALDO__LIVE_OPEN;
        waldo__live_news(sandbox, "resumed", "%s: the machine goes on", ops_of(sandbox)->name);
        waldo__ops_start(sandbox);
        waldo__live_op_gone(sandbox);
    }
}

static void hand_lost(void *userdata, const waldo_error *error)
{
    waldo_sandbox *sandbox = userdata;

    waldo__live_hold(sandbox);
    if (lost_while_paused(sandbox) || do_without(sandbox, error)) {
        waldo__live_release(sandbox);
        return;
    }
    if (sandbox->state == WALDO__LIVE_OPENING || sandbox->state == WALDO__LIVE_PREPARING) {
        opening_failed(sandbox, waldo_error_status(error), error);
    } else {
        if (sandbox->is_spare && sandbox->state == WALDO__LIVE_OPEN) {
            waldo__spare_lost(sandbox);
        }
        if (!rejoin(sandbox, error)) {
            waldo__live_lose(sandbox, error);
        }
    }
    waldo__live_release(sandbox);
}

static void on_channel(void *userdata, waldo_status status, waldo_channel *channel,
                       const waldo_error *error)
{
    waldo_sandbox *sandbox = userdata;
    const waldo__hand_events events = { .userdata = sandbox,
                                        .ready = hand_ready,
                                        .lost = hand_lost };

    if (sandbox->state != WALDO__LIVE_OPENING) { /* closed meanwhile */
        if (channel != NULL) {
            channel->ops->close(channel);
        }
        return;
    }
    waldo__live_hold(sandbox);
    if (status == WALDO_OK) {
        status = waldo__hand_new(sandbox->env->loop, channel, waldo__deadline_ns(HELLO_MS), &events,
                                 &sandbox->hand);
    }
    if (status != WALDO_OK) {
        opening_failed(sandbox, status, error);
    }
    waldo__live_release(sandbox);
}

static void on_open(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_sandbox *sandbox = userdata;
    waldo_error *less = NULL;

    waldo__live_hold(sandbox);
    if (status == WALDO_OK) {
        status = take_info(sandbox, &less);
    }
    if (status != WALDO_OK) {
        opening_failed(sandbox, status, less != NULL ? less : error);
    } else if ((sandbox->info.caps & WALDO_BACKEND_CHANNEL) != 0) {
        join(sandbox);
    } else {
        waldo__live_machine_ready(sandbox);
    }
    waldo_error_free(less);
    waldo__live_release(sandbox);
}

/* What could not even be begun fails from the run queue, like everything else. */
static void open_refused(void *userdata)
{
    waldo_sandbox *sandbox = userdata;
    waldo_error *error = sandbox->refusal;

    sandbox->refusal = NULL;
    waldo__live_hold(sandbox);
    opening_failed(sandbox, waldo_error_status(error), error);
    waldo_error_free(error);
    waldo__live_release(sandbox);
}

/* A machine in memory without a workspace leaves nothing on the host's disk. */
static int needs_scratch(const waldo_sandbox *sandbox)
{
    return sandbox->spec->workspace != NULL ||
           (ops_of(sandbox)->caps & (WALDO_BACKEND_CHANNEL | WALDO_BACKEND_BIND)) != 0;
}

static void on_progress(void *userdata, const char *text)
{
    waldo__live_news(userdata, "opening", "%s", text);
}

void waldo__live_open(waldo_sandbox *sandbox)
{
    waldo_backend_spec spec = waldo__spec_for_backend(sandbox->spec, waldo__live_entry(sandbox));
    waldo_backend_call call = call_until(sandbox, OPEN_MS);
    waldo_error *error = NULL;
    waldo_status status;

    if (waldo__spares_take(sandbox)) {
        return;
    }
    sandbox->state = WALDO__LIVE_OPENING;
    status = needs_scratch(sandbox) ? waldo__scratch_make(waldo__runtime_state_dir(sandbox->rt),
                                                          &sandbox->scratch, &error)
                                    : WALDO_OK;
    if (status == WALDO_OK) {
        spec.scratch = sandbox->scratch;
        spec.owner = waldo__runtime_owner(sandbox->rt);
        spec.id = sandbox->id;
        spec.on_progress = on_progress;
        spec.progress_userdata = sandbox;
        status = ops_of(sandbox)->open(sandbox->env, &spec, waldo__str(sandbox->saved), &call,
                                       on_open, &sandbox->machine, &error);
    }
    if (status != WALDO_OK) {
        if (error == NULL) {
            waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "%s", waldo_status_text(status));
        }
        sandbox->refusal = error;
        sandbox->end_task.fn = open_refused;
        waldo__task_queue(sandbox->env->loop, &sandbox->end_task);
    }
}

/* ---- the end ---- */

void waldo__live_add_closer(waldo_sandbox *sandbox, waldo__sandbox_closer *link)
{
    waldo__sandbox_closer **at = &sandbox->closers;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    link->next = NULL;
    *at = link;
    if (sandbox->state == WALDO__LIVE_CLOSED) {
        waldo__task_queue(sandbox->env->loop, &sandbox->closed_task);
    }
}

static void tell_closers(void *userdata)
{
    waldo_sandbox *sandbox = userdata;

    waldo__live_hold(sandbox);
    while (sandbox->closers != NULL) {
        waldo__sandbox_closer *link = sandbox->closers;

        sandbox->closers = link->next;
        link->tell(link);
    }
    waldo__live_release(sandbox);
}

/* The machine is gone, and with it the sandbox's place in the runtime. */
void waldo__live_leave(waldo_sandbox *sandbox)
{
    waldo_runtime *rt = sandbox->rt;
    int was_open = sandbox->state >= WALDO__LIVE_CLOSING && sandbox->lost == NULL;

    sandbox->state = WALDO__LIVE_CLOSED;
    waldo__timer_disarm(sandbox->env->loop, &sandbox->close_timer);
    waldo__timer_disarm(sandbox->env->loop, &sandbox->idle_timer);
    waldo__timer_disarm(sandbox->env->loop, &sandbox->spare_timer);
    waldo__timer_disarm(sandbox->env->loop, &sandbox->failover.timer);
    waldo__ops_drop_zombies(sandbox);
    waldo__workspace_free(sandbox->workspace);
    sandbox->workspace = NULL;
    waldo__scratch_drop(sandbox->env->loop, &sandbox->scratch);
    if (was_open) {
        waldo__live_news(sandbox, "closed", "the sandbox was closed: %s", sandbox->why_closed);
    }
    waldo__task_queue(sandbox->env->loop, &sandbox->closed_task);
    if (sandbox->node.next != NULL) {
        sandbox->node.next->prev = sandbox->node.prev;
        sandbox->node.prev->next = sandbox->node.next;
        sandbox->node.next = sandbox->node.prev = NULL;
        waldo__runtime_sandbox_gone(rt);
    }
}

static void on_machine_closed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_sandbox *sandbox = userdata;

    if (status != WALDO_OK) {
        waldo__log(sandbox->env->loop, WALDO_LOG_ERROR, "sandbox", "ending a machine of %s: %s",
                   ops_of(sandbox)->name, waldo_error_message(error));
    }
    sandbox->machine = NULL;
    waldo__live_leave(sandbox);
    waldo__live_release(sandbox);
}

/* End the machine through its backend; the hold is released when it is gone. */
static void end_machine(waldo_sandbox *sandbox)
{
    waldo_backend_call call = call_until(sandbox, END_MS);

    sandbox->state = WALDO__LIVE_ENDING;
    waldo__timer_disarm(sandbox->env->loop, &sandbox->close_timer);
    waldo__workspace_stop(sandbox);
    waldo__hand_free(sandbox->hand);
    sandbox->hand = NULL;
    waldo__live_hold(sandbox);
    if (is_let_go(sandbox)) {
        ops_of(sandbox)->detach(sandbox->machine);
        sandbox->machine = NULL;
    }
    if (sandbox->machine == NULL) {
        waldo__live_leave(sandbox);
        waldo__live_release(sandbox);
        return;
    }
    ops_of(sandbox)->close(sandbox->machine, &call, on_machine_closed);
}

void waldo__live_lose(waldo_sandbox *sandbox, const waldo_error *error)
{
    if (sandbox->state == WALDO__LIVE_PREPARING) {
        opening_failed(sandbox, WALDO_ELOST, error);
        return;
    }
    if ((sandbox->state != WALDO__LIVE_OPEN && sandbox->state != WALDO__LIVE_CLOSING) ||
        waldo__failover_begin(sandbox, error)) {
        return;
    }
    if (sandbox->lost == NULL && sandbox->state == WALDO__LIVE_OPEN) {
        waldo_error_set(&sandbox->lost, WALDO_ELOST, WALDO_CLASS_BACKEND,
                        "the sandbox was lost: %s", waldo_error_message(error));
        waldo__live_news(sandbox, "lost", "%s", waldo_error_message(sandbox->lost));
    }
    waldo__ops_stop(sandbox, sandbox->lost != NULL ? WALDO_ELOST : WALDO_ECANCELED, sandbox->lost);
    end_machine(sandbox);
}

static void hand_settled(void *userdata, const waldo__hand_end *end)
{
    waldo_sandbox *sandbox = userdata;

    (void)end;
    waldo__live_hold(sandbox);
    if (sandbox->state == WALDO__LIVE_CLOSING) {
        end_machine(sandbox);
    }
    waldo__live_release(sandbox);
}

/*
 * What was sent to a hand that goes on has to arrive before the stream is closed: an answer to
 * whatever is asked last says so. One in a machine that goes on without it ends now. 0 when there
 * is nobody to ask.
 */
static int settle_hand(waldo_sandbox *sandbox)
{
    static const waldo__hand_call_fns fns = { .ended = hand_settled };
    int ends = ends_hand(sandbox);
    waldo__hand_call *call;

    if ((!sandbox->detaching && !ends) || sandbox->settled || sandbox->hand == NULL) {
        return 0;
    }
    sandbox->settled = 1;
    return waldo__timer_arm(sandbox->env->loop, &sandbox->close_timer,
                            waldo__deadline_ns(KILL_MS)) == WALDO_OK &&
           (ends ? waldo__live_shut_hand(sandbox, &fns)
                 : waldo__hand_start_list(sandbox->hand, &fns, sandbox, &call)) == WALDO_OK;
}

/* Commands had their grace. */
static void close_now(void *userdata)
{
    waldo_sandbox *sandbox = userdata;
    waldo_error *error = NULL;

    if (sandbox->state != WALDO__LIVE_CLOSING ||
        (sandbox->settled && waldo__timer_armed(&sandbox->close_timer))) {
        return; /* or the hand's answer is still to come */
    }
    waldo__live_hold(sandbox);
    if (sandbox->detaching) {
        waldo_error_set(&error, WALDO_ECLOSED, WALDO_CLASS_USAGE,
                        "the sandbox was let go; what runs in its background goes on there");
    }
    waldo__ops_stop(sandbox, error != NULL ? WALDO_ECLOSED : WALDO_ECANCELED, error);
    waldo_error_free(error);
    if (!settle_hand(sandbox)) {
        end_machine(sandbox);
    }
    waldo__live_release(sandbox);
}

static void close_soon(waldo_sandbox *sandbox)
{
    sandbox->end_task.fn = close_now;
    waldo__task_queue(sandbox->env->loop, &sandbox->end_task);
}

void waldo__live_begin_close(waldo_sandbox *sandbox, const char *why, int64_t grace_ms)
{
    waldo__live_state before = sandbox->state;

    if (before >= WALDO__LIVE_CLOSING) {
        return;
    }
    if (waldo__loop_forked(sandbox->env->loop)) {
        return; /* the machine is the parent's: not a byte to it, and nothing to wait for */
    }
    sandbox->state = WALDO__LIVE_CLOSING;
    sandbox->why_closed = why;
    sandbox->detaching |= waldo__live_durable(sandbox) && waldo__live_entry(sandbox)->name != NULL;
    waldo__timer_disarm(sandbox->env->loop, &sandbox->idle_timer);
    waldo__task_cancel(sandbox->env->loop, &sandbox->end_task);
    waldo__error_clear(&sandbox->refusal);
    if (before == WALDO__LIVE_NEW && sandbox->ops.next == &sandbox->ops) {
        sandbox->state = WALDO__LIVE_NEW; /* nothing was ever there: no news */
        waldo__live_leave(sandbox);
        return;
    }
    if (before == WALDO__LIVE_PAUSED || sandbox->broke != NULL) {
        waldo__ops_end_waiting(sandbox, WALDO_ECANCELED, NULL);
        sandbox->settled = 1; /* there is no session in which a hand could be asked */
        sandbox->resuming = 0;
        close_soon(sandbox);
        return;
    }
    if (before != WALDO__LIVE_OPEN) {
        waldo__ops_stop(sandbox, WALDO_ECANCELED, NULL);
        waldo__live_drop_machine(sandbox);
        close_soon(sandbox);
        return;
    }
    waldo__ops_end_waiting(sandbox, WALDO_ECANCELED, NULL);
    for (waldo__op *op = sandbox->ops.next; op != &sandbox->ops; op = op->next) {
        if (op->kind->is_job && op->state == WALDO__OP_RUNNING &&
            !(op->goes_on && sandbox->detaching)) {
            waldo__job_op_cancel(op, grace_ms);
        }
    }
    if (!waldo__ops_have_jobs(sandbox)) {
        close_soon(sandbox);
        return;
    }
    if (waldo__timer_arm(sandbox->env->loop, &sandbox->close_timer,
                         waldo__deadline_ns(grace_ms + KILL_MS)) != WALDO_OK) {
        close_soon(sandbox);
    }
}

void waldo__live_op_gone(waldo_sandbox *sandbox)
{
    int64_t idle_ms;

    if (sandbox->state == WALDO__LIVE_CLOSING && !waldo__ops_have_jobs(sandbox)) {
        close_soon(sandbox);
        return;
    }
    if (sandbox->state != WALDO__LIVE_OPEN || sandbox->ops.next != &sandbox->ops) {
        return;
    }
    idle_ms = waldo__live_entry(sandbox)->idle_ms;
    if (idle_ms > 0) {
        waldo__timer_arm(sandbox->env->loop, &sandbox->idle_timer, waldo__deadline_ns(idle_ms));
    }
}

void waldo__live_abandon(waldo_sandbox *sandbox)
{
    waldo__live_hold(sandbox);
    waldo__task_cancel(sandbox->env->loop, &sandbox->end_task);
    waldo__error_clear(&sandbox->refusal);
    if (sandbox->state != WALDO__LIVE_CLOSED) {
        int ending = sandbox->state == WALDO__LIVE_ENDING;

        sandbox->state = WALDO__LIVE_CLOSING;
        sandbox->why_closed = "the runtime was freed";
        waldo__ops_stop(sandbox, WALDO_ECANCELED, NULL);
        if (waldo_sandbox_spec_error(sandbox->spec) == NULL) {
            waldo__live_drop_machine(sandbox);
        }
        sandbox->state = WALDO__LIVE_ENDING;
        waldo__ops_finish_now(sandbox);
        waldo__live_leave(sandbox);
        if (ending) {
            waldo__live_release(sandbox); /* the completion of close does not come any more */
        }
    }
    waldo__ops_finish_now(sandbox);
    waldo__task_cancel(sandbox->env->loop, &sandbox->closed_task);
    tell_closers(sandbox);
    waldo__task_cancel(sandbox->env->loop, &sandbox->news_task);
    waldo__live_release(sandbox);
}

void waldo__live_init(waldo_sandbox *sandbox)
{
    waldo__task_init(&sandbox->closed_task, tell_closers, sandbox);
    waldo__timer_init(&sandbox->close_timer, close_now, sandbox);
    waldo__spares_init(sandbox);
    waldo__failover_init(sandbox);
}
