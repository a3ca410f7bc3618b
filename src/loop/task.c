/* The run queue: rings of tasks whose memory belongs to their owners. */
#include "loop/internal.h"

/*
 * Tasks queued by tasks run in the same round, but sockets are looked at again after so many
 * passes.
 */
enum { MAX_PASSES = 8 };

void waldo__task_ring_init(waldo__task *head)
{
    head->next = head;
    head->prev = head;
}

int waldo__task_ring_empty(const waldo__task *head)
{
    return head->next == head;
}

void waldo__task_ring_add(waldo__task *head, waldo__task *task, int state)
{
    task->next = head;
    task->prev = head->prev;
    head->prev->next = task;
    head->prev = task;
    task->queued = state;
}

void waldo__task_ring_remove(waldo__task *task)
{
    task->prev->next = task->next;
    task->next->prev = task->prev;
    task->next = NULL;
    task->prev = NULL;
    task->queued = WALDO__TASK_IDLE;
}

void waldo__task_ring_prepend(waldo__task *head, waldo__task *from)
{
    if (waldo__task_ring_empty(from)) {
        return;
    }
    from->prev->next = head->next;
    head->next->prev = from->prev;
    head->next = from->next;
    from->next->prev = head;
    waldo__task_ring_init(from);
}

void waldo__task_init(waldo__task *task, waldo__task_fn fn, void *userdata)
{
    *task = (waldo__task){ .fn = fn, .userdata = userdata };
}

void waldo__task_queue(waldo__loop *loop, waldo__task *task)
{
    if (task->queued != WALDO__TASK_IDLE) {
        return;
    }
    waldo__task_ring_add(&loop->tasks, task, WALDO__TASK_QUEUED);
    if (!loop->in_round) {
        waldo__loop_wake(loop);
    }
}

void waldo__task_cancel(waldo__loop *loop, waldo__task *task)
{
    (void)loop;
    if (task->queued == WALDO__TASK_QUEUED) {
        waldo__task_ring_remove(task);
    }
}

size_t waldo__tasks_run(waldo__loop *loop)
{
    size_t count = 0;

    for (int pass = 0; pass < MAX_PASSES; pass++) {
        waldo__poster_take(loop->poster, &loop->tasks);
        if (waldo__task_ring_empty(&loop->tasks)) {
            break;
        }
        waldo__task_ring_prepend(&loop->running, &loop->tasks);
        while (!waldo__task_ring_empty(&loop->running)) {
            waldo__task *task = loop->running.next;

            if (count > 0 && waldo__round_over(loop)) {
                waldo__task_ring_prepend(&loop->tasks, &loop->running);
                return count;
            }
            waldo__task_ring_remove(task);
            count++;
            task->fn(task->userdata);
        }
    }
    return count;
}
