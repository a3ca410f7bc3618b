#include <stdarg.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/live.h"

static void ring_add(waldo__op *head, waldo__op *op)
{
    op->next = head;
    op->prev = head->prev;
    head->prev->next = op;
    head->prev = op;
}

static void ring_remove(waldo__op *op)
{
    op->next->prev = op->prev;
    op->prev->next = op->next;
    op->next = op->prev = op;
}

/* The memory goes once the user and the backend have both had their last word. */
static void op_release(waldo__op *op)
{
    waldo_sandbox *sandbox = op->sandbox;

    waldo__task_cancel(sandbox->env->loop, &op->task);
    waldo_error_free(op->error);
    ring_remove(op);
    op->kind->free(op);
    waldo__live_release(sandbox);
}

static void op_finish(waldo__op *op)
{
    waldo_sandbox *sandbox = op->sandbox;

    waldo__live_hold(sandbox);
    ring_remove(op);
    op->finished = 1;
    op->kind->finish(op, op->status, op->status != WALDO_OK ? op->error : NULL);
    if (op->in_backend && sandbox->machine != NULL) {
        ring_add(&sandbox->zombies, op);
    } else {
        op_release(op);
    }
    waldo__live_op_gone(sandbox);
    waldo__live_release(sandbox);
}

static void finish_task(void *userdata)
{
    op_finish(userdata);
}

void waldo__op_end(waldo__op *op, waldo_status status, waldo_error *error)
{
    if (op->state == WALDO__OP_ENDED) {
        waldo_error_free(error);
        return;
    }
    op->state = WALDO__OP_ENDED;
    op->status = status;
    if (status != WALDO_OK && error == NULL) {
        waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "%s", waldo_status_text(status));
    }
    op->error = error;
    waldo__task_queue(op->sandbox->env->loop, &op->task);
}

void waldo__op_pass_on(waldo__op *op, waldo_status status, const char *name,
                       const waldo_error *error)
{
    waldo_error *copy = waldo_error_copy(error);

    waldo__error_prefix(copy, name);
    waldo__op_end(op, status, copy);
}

void waldo__op_fail(waldo__op *op, waldo_status status, const char *format, ...)
{
    waldo__buf text = WALDO__BUF_INIT(16384);
    waldo_error *error = NULL;
    va_list args;

    va_start(args, format);
    waldo__buf_vprintf(&text, format, args);
    va_end(args);
    waldo_error_set(&error, status, WALDO_CLASS_BACKEND, "%s", waldo__buf_str(&text).ptr);
    waldo__buf_free(&text);
    waldo__op_end(op, status, error);
}

static void enter(waldo_sandbox *sandbox, waldo__op *op, const waldo__op_kind *kind)
{
    op->sandbox = sandbox;
    op->kind = kind;
    op->state = WALDO__OP_WAITING;
    waldo__task_init(&op->task, finish_task, op);
    waldo__live_hold(sandbox);
    ring_add(&sandbox->ops, op);
}

void waldo__op_begin_ended(waldo_sandbox *sandbox, waldo__op *op, const waldo__op_kind *kind,
                           waldo_status status, waldo_error *error)
{
    enter(sandbox, op, kind);
    waldo__op_end(op, status, error);
}

void waldo__op_begin(waldo_sandbox *sandbox, waldo__op *op, const waldo__op_kind *kind)
{
    waldo_error *error = NULL;
    waldo_status status;

    enter(sandbox, op, kind);
    op->internal = sandbox->inside > 0;
    waldo__timer_disarm(sandbox->env->loop, &sandbox->idle_timer);
    status = waldo__live_check(sandbox, &error);
    if (status != WALDO_OK) {
        waldo__op_end(op, status, error);
    } else if (sandbox->state == WALDO__LIVE_OPEN ||
               (op->internal && sandbox->state == WALDO__LIVE_PREPARING)) {
        op->state = WALDO__OP_RUNNING;
        kind->start(op);
    } else if (sandbox->state == WALDO__LIVE_NEW) {
        waldo__live_open(sandbox);
    } else if (sandbox->state == WALDO__LIVE_PAUSED) {
        waldo__live_resume(sandbox);
    }
}

void waldo__ops_start(waldo_sandbox *sandbox)
{
    waldo__op *op = sandbox->ops.next;

    /* start() ends an op at most by a task, so the ring only grows here. */
    for (; op != &sandbox->ops; op = op->next) {
        if (op->state == WALDO__OP_WAITING) {
            op->state = WALDO__OP_RUNNING;
            op->kind->start(op);
        }
    }
}

void waldo__ops_end_waiting(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    for (waldo__op *op = sandbox->ops.next; op != &sandbox->ops; op = op->next) {
        if (op->state == WALDO__OP_WAITING) {
            waldo__op_end(op, status, waldo_error_copy(error));
        }
    }
}

void waldo__ops_stop(waldo_sandbox *sandbox, waldo_status status, const waldo_error *error)
{
    for (waldo__op *op = sandbox->ops.next; op != &sandbox->ops; op = op->next) {
        if (op->state == WALDO__OP_RUNNING && op->kind->stop != NULL) {
            op->kind->stop(op);
        }
        if (op->state != WALDO__OP_ENDED) {
            waldo__op_end(op, status, waldo_error_copy(error));
        }
    }
}

static void move_one(waldo__op *op, waldo__op *head, waldo_sandbox *to)
{
    waldo_sandbox *from = op->sandbox;

    ring_remove(op);
    ring_add(head, op);
    op->sandbox = to;
    waldo__live_hold(to);
    waldo__live_release(from);
}

void waldo__ops_move(waldo_sandbox *from, waldo_sandbox *to)
{
    for (waldo__op *op = from->ops.next, *next; op != &from->ops; op = next) {
        next = op->next;
        if (op->state == WALDO__OP_RUNNING || op->in_backend) {
            move_one(op, &to->ops, to);
        }
    }
    while (from->zombies.next != &from->zombies) {
        move_one(from->zombies.next, &to->zombies, to);
    }
}

void waldo__ops_finish_now(waldo_sandbox *sandbox)
{
    while (sandbox->ops.next != &sandbox->ops) {
        waldo__op *op = sandbox->ops.next;

        waldo__task_cancel(sandbox->env->loop, &op->task);
        op_finish(op);
    }
}

void waldo__ops_drop_zombies(waldo_sandbox *sandbox)
{
    while (sandbox->zombies.next != &sandbox->zombies) {
        op_release(sandbox->zombies.next);
    }
}

int waldo__ops_have_jobs(const waldo_sandbox *sandbox)
{
    return waldo__ops_have_other_jobs(sandbox, NULL);
}

int waldo__ops_have_other_jobs(const waldo_sandbox *sandbox, const waldo__op *than)
{
    for (const waldo__op *op = sandbox->ops.next; op != &sandbox->ops; op = op->next) {
        if (op->kind->is_job && op != than && !(op->goes_on && sandbox->detaching)) {
            return 1;
        }
    }
    return 0;
}

void waldo__op_backend_call(waldo__op *op, waldo_backend_call *call, int64_t deadline_ns)
{
    op->in_backend = 1;
    *call =
        (waldo_backend_call){ .size = sizeof *call, .deadline_ns = deadline_ns, .userdata = op };
}

int waldo__op_backend_done(waldo__op *op)
{
    op->in_backend = 0;
    if (op->finished) {
        op_release(op);
        return 0;
    }
    return op->state != WALDO__OP_ENDED;
}
