/* Watches, timers, tasks, hooks, log: one thread, no forks. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "loop/loop.h"

struct place {
    waldo__loop *loop;
    int pair[2];
    waldo__watch *watch;
    waldo__watch *other;
    waldo__timer timer;
    waldo__task task;
    waldo__task task2;
    waldo__hook hook;
    int calls;
    int calls2;
    unsigned events;
    waldo_status seen;
    char text[4200];
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);

    *state = place;
    return waldo__loop_new(&place->loop, NULL) != WALDO_OK ||
           socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, place->pair) != 0;
}

static int teardown(void **state)
{
    struct place *place = *state;

    waldo__watch_free(place->watch);
    waldo__watch_free(place->other);
    waldo__loop_free(place->loop);
    close(place->pair[0]);
    close(place->pair[1]);
    free(place);
    return 0;
}

static int readable(struct place *place, int timeout_ms)
{
    struct pollfd item = { .fd = waldo__loop_fd(place->loop), .events = POLLIN };

    return poll(&item, 1, timeout_ms) == 1 && (item.revents & POLLIN) != 0;
}

static void count(void *userdata)
{
    ((struct place *)userdata)->calls++;
}

static void count_events(void *userdata, unsigned events)
{
    struct place *place = userdata;

    place->calls++;
    place->events = events;
}

static void count_other(void *userdata, unsigned events)
{
    (void)events;
    ((struct place *)userdata)->calls2++;
}

/* ---- watches ---- */

static void watch_reports_what_it_asked_for(void **state)
{
    struct place *place = *state;

    assert_int_equal(waldo__watch_new(place->loop, place->pair[0], WALDO__READ, count_events, place,
                                      &place->watch),
                     WALDO_OK);
    assert_false(readable(place, 0));
    assert_int_equal(write(place->pair[1], "x", 1), 1);
    assert_true(readable(place, 0));
    assert_int_equal(waldo__loop_round(place->loop, WALDO__NEVER, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_int_equal(place->events, WALDO__READ);
    assert_true(readable(place, 0)); /* nobody read it */

    assert_int_equal(waldo__watch_set(place->watch, 0), WALDO_OK);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 1);
    assert_int_equal(waldo__watch_set(place->watch, WALDO__READ | WALDO__WRITE), WALDO_OK);
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->events, WALDO__READ | WALDO__WRITE);
}

static void watch_without_events_does_not_spin_on_a_hangup(void **state)
{
    struct place *place = *state;

    assert_int_equal(
        waldo__watch_new(place->loop, place->pair[0], 0, count_events, place, &place->watch),
        WALDO_OK);
    shutdown(place->pair[1], SHUT_RDWR);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 0);
    assert_false(readable(place, 0));
    waldo__watch_set(place->watch, WALDO__READ);
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_true(place->events & WALDO__HANGUP);
}

/* It says nothing to the kernel when it rests, and makes the loop readable at most once then. */
static void watch_that_rests_rings_once(void **state)
{
    struct place *place = *state;

    assert_int_equal(waldo__watch_new(place->loop, place->pair[0], WALDO__READ, count_events, place,
                                      &place->watch),
                     WALDO_OK);
    waldo__watch_set(place->watch, 0);
    assert_int_equal(write(place->pair[1], "x", 1), 1);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 0);
    assert_false(readable(place, 0));
    waldo__watch_set(place->watch, WALDO__READ);
    assert_true(readable(place, 0));
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    waldo__watch_set(place->watch, 0);
    waldo__watch_set(place->watch, WALDO__READ); /* before anything came: as if it never rested */
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 2);
}

static void watch_of_a_file_is_refused(void **state)
{
    struct place *place = *state;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    assert_int_equal(
        waldo__watch_new(place->loop, file, WALDO__READ, count_events, place, &place->watch),
        WALDO_EACCESS);
    assert_null(place->watch);
    close(file);
    assert_int_equal(
        waldo__watch_new(place->loop, file, WALDO__READ, count_events, place, &place->watch),
        WALDO_EIO);
}

static void free_both(void *userdata, unsigned events)
{
    struct place *place = userdata;

    (void)events;
    place->calls++;
    waldo__watch_free(place->watch);
    waldo__watch_free(place->other);
    place->watch = NULL;
    place->other = NULL;
}

/* Both are ready in one batch; whichever comes first frees both. */
static void watches_freed_in_a_callback(void **state)
{
    struct place *place = *state;

    waldo__watch_new(place->loop, place->pair[0], WALDO__READ, free_both, place, &place->watch);
    waldo__watch_new(place->loop, place->pair[1], WALDO__READ, free_both, place, &place->other);
    assert_int_equal(write(place->pair[0], "x", 1), 1);
    assert_int_equal(write(place->pair[1], "x", 1), 1);
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_false(readable(place, 0));
}

/*
 * The number of a closed descriptor is given to another one, which is watched by the same callback.
 */
static void reuse_number(void *userdata, unsigned events)
{
    struct place *place = userdata;
    waldo__watch **gone = place->calls == 0 ? &place->other : NULL;
    int old = place->pair[1];
    int fresh[2];

    (void)events;
    if (gone == NULL || *gone == NULL) {
        return;
    }
    place->calls++;
    waldo__watch_free(*gone);
    *gone = NULL;
    close(old);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fresh) == 0) {
        place->pair[1] = fresh[0];
        place->seen = fresh[0] == old;
        waldo__watch_new(place->loop, fresh[0], WALDO__READ, count_other, place, &place->other);
        close(fresh[1]);
    }
}

static void never(void *userdata, unsigned events)
{
    (void)events;
    ((struct place *)userdata)->calls2 += 100;
}

static void number_reused_in_the_same_round(void **state)
{
    struct place *place = *state;

    waldo__watch_new(place->loop, place->pair[0], WALDO__READ, reuse_number, place, &place->watch);
    waldo__watch_new(place->loop, place->pair[1], WALDO__READ, never, place, &place->other);
    assert_int_equal(write(place->pair[1], "x", 1), 1); /* pair[0] is ready first */
    assert_int_equal(write(place->pair[0], "x", 1), 1);
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_true(place->seen);
    assert_int_equal(place->calls2, 0); /* the old event is not given to the new watch */
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls2, 1); /* the new one has its own: its peer is closed */
}

/* ---- timers ---- */

static void timer_armed_outside_makes_it_readable(void **state)
{
    struct place *place = *state;

    waldo__timer_init(&place->timer, count, place);
    assert_int_equal(waldo__timer_arm(place->loop, &place->timer, waldo__deadline_ns(5)), WALDO_OK);
    assert_true(waldo__timer_armed(&place->timer));
    assert_true(readable(place, 10000));
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_false(waldo__timer_armed(&place->timer));
    assert_false(readable(place, 0));

    waldo__timer_arm(place->loop, &place->timer, 0); /* long ago */
    assert_true(readable(place, 10000));
    waldo__timer_arm(place->loop, &place->timer, WALDO__NEVER);
    assert_int_equal(waldo__loop_round(place->loop, waldo__deadline_ns(1), 0), WALDO_ETIMEDOUT);
    assert_int_equal(place->calls, 1);
    assert_false(readable(place, 0));
}

static void wait_is_not_ended_by_a_timer_that_moved(void **state)
{
    struct place *place = *state;
    int64_t deadline = waldo__deadline_ns(60);

    waldo__timer_init(&place->timer, count, place);
    waldo__timer_arm(place->loop, &place->timer, waldo__deadline_ns(5));
    waldo__timer_arm(place->loop, &place->timer, waldo__deadline_ns(100000));
    assert_int_equal(waldo__loop_round(place->loop, deadline, 0), WALDO_ETIMEDOUT);
    assert_true(waldo__now_ns() >= deadline);
    waldo__timer_arm(place->loop, &place->timer, waldo__deadline_ns(1));
    assert_int_equal(waldo__loop_round(place->loop, WALDO__NEVER, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
}

static void rearm_in_the_past(void *userdata)
{
    struct place *place = userdata;

    place->calls++;
    waldo__timer_arm(place->loop, &place->timer, 1);
}

static void timer_that_rearms_itself_does_not_hold_the_round(void **state)
{
    struct place *place = *state;

    waldo__timer_init(&place->timer, rearm_in_the_past, place);
    waldo__timer_arm(place->loop, &place->timer, 1);
    assert_int_equal(waldo__loop_round(place->loop, 0, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_true(readable(place, 10000));
    waldo__timer_disarm(place->loop, &place->timer);
}

struct many {
    waldo__timer timer;
    struct order *order;
};
struct order {
    int64_t last;
    size_t count;
    int wrong;
};

static void in_order(void *userdata)
{
    struct many *one = userdata;

    one->order->wrong |= one->timer.due_ns < one->order->last;
    one->order->last = one->timer.due_ns;
    one->order->count++;
}

static void many_timers_fire_in_order(void **state)
{
    struct place *place = *state;
    struct order order = { 0 };
    struct many many[1000];
    unsigned seed = 7;
    size_t expected = 0;

    for (size_t i = 0; i < WALDO__COUNT(many); i++) {
        seed = seed * 1103515245u + 12345u;
        many[i].order = &order;
        waldo__timer_init(&many[i].timer, in_order, &many[i]);
        assert_int_equal(waldo__timer_arm(place->loop, &many[i].timer, 1 + seed % 5000), WALDO_OK);
    }
    for (size_t i = 0; i < WALDO__COUNT(many); i++) { /* move some, take some away */
        seed = seed * 1103515245u + 12345u;
        if (i % 3 == 0) {
            waldo__timer_arm(place->loop, &many[i].timer, 1 + seed % 9000);
        } else if (i % 7 == 0) {
            waldo__timer_disarm(place->loop, &many[i].timer);
        }
        expected += (size_t)waldo__timer_armed(&many[i].timer);
    }
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(order.count, expected);
    assert_false(order.wrong);
}

/* ---- tasks and hooks ---- */

static void task_queued_outside_makes_it_readable(void **state)
{
    struct place *place = *state;

    waldo__task_init(&place->task, count, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__task_queue(place->loop, &place->task); /* once at a time */
    assert_true(readable(place, 0));
    assert_int_equal(waldo__loop_round(place->loop, WALDO__NEVER, 0), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_false(readable(place, 0));
    waldo__task_queue(place->loop, &place->task);
    waldo__task_cancel(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 1);
    assert_false(readable(place, 0));
}

static void again(void *userdata)
{
    struct place *place = userdata;

    if (++place->calls < 3 || place->calls2 < 0) {
        waldo__task_queue(place->loop, &place->task);
    }
}

/* The descriptor is asked for when something waits already. */
static void descriptor_tells_of_what_was_queued_before(void **state)
{
    struct place *place = *state;
    waldo__task task;

    waldo__task_init(&task, count, place);
    waldo__task_queue(place->loop, &task);
    assert_true(readable(place, 0));
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 1);
    assert_false(readable(place, 0));
}

static void tasks_of_tasks_run_in_the_same_round(void **state)
{
    struct place *place = *state;

    waldo__task_init(&place->task, again, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 3);
    assert_false(readable(place, 0));
}

static void endless_task_does_not_starve_sockets(void **state)
{
    struct place *place = *state;

    place->calls2 = -1; /* endless */
    waldo__watch_new(place->loop, place->pair[0], WALDO__READ, count_other, place, &place->watch);
    assert_int_equal(write(place->pair[1], "x", 1), 1);
    waldo__task_init(&place->task, again, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls2,
                     0); /* the socket had its turn, and so the task is not endless now */
    assert_true(place->calls >= 1);
    place->calls2 = -1000;
    place->calls = 0;
    waldo__task_queue(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_true(place->calls >= 2 && place->calls < 1000);
    assert_true(readable(place, 0));
    waldo__task_cancel(place->loop, &place->task);
}

static void cancel_second(void *userdata)
{
    struct place *place = userdata;

    place->calls++;
    waldo__task_cancel(place->loop, &place->task2);
}

static void task_cancelled_by_the_one_before_it(void **state)
{
    struct place *place = *state;

    waldo__task_init(&place->task, cancel_second, place);
    waldo__task_init(&place->task2, count, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__task_queue(place->loop, &place->task2);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 1);
}

static void spend(void *userdata)
{
    struct place *place = userdata;
    int64_t until = waldo__now_ns() + 2 * WALDO__NS_PER_MS;

    place->calls++;
    while (waldo__now_ns() < until) {
    }
}

static void max_us_stops_new_work(void **state)
{
    struct place *place = *state;

    waldo__task_init(&place->task, spend, place);
    waldo__task_init(&place->task2, spend, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__task_queue(place->loop, &place->task2);
    assert_int_equal(waldo__loop_round(place->loop, 0, 100), WALDO_OK);
    assert_int_equal(place->calls, 1);
    assert_true(readable(place, 0));
    assert_int_equal(waldo__loop_round(place->loop, 0, 1), WALDO_OK); /* some progress always */
    assert_int_equal(place->calls, 2);
    assert_false(readable(place, 0));
}

static void drive_again(void *userdata)
{
    struct place *place = userdata;

    place->seen = waldo__loop_round(place->loop, 0, 0);
    place->calls++;
}

static void driving_from_a_callback_is_refused(void **state)
{
    struct place *place = *state;

    waldo__task_init(&place->task, drive_again, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 1);
    assert_int_equal(place->seen, WALDO_EREENTRANT);
    assert_int_equal(waldo__loop_check(place->loop), WALDO_OK);
}

static void hook_runs_after_work_only(void **state)
{
    struct place *place = *state;

    place->hook = (waldo__hook){ .fn = count, .userdata = place };
    waldo__loop_add_hook(place->loop, &place->hook);
    waldo__loop_round(place->loop, waldo__deadline_ns(1), 0);
    assert_int_equal(place->calls, 0);
    waldo__task_init(&place->task, count, place);
    waldo__task_queue(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 2);
    waldo__loop_remove_hook(place->loop, &place->hook);
    waldo__task_queue(place->loop, &place->task);
    waldo__loop_round(place->loop, 0, 0);
    assert_int_equal(place->calls, 3);
}

/* ---- log ---- */

static void keep_line(void *userdata, waldo_log_level level, const char *area, waldo_str line)
{
    struct place *place = userdata;

    place->calls++;
    snprintf(place->text, sizeof place->text, "%d %s %.*s", (int)level, area, (int)line.len,
             line.ptr);
}

static void scrub_all(void *context, waldo_str line, waldo_log_fn fn, void *userdata,
                      waldo_log_level level, const char *area)
{
    (void)line;
    fn(userdata, level, area, waldo__str(context));
}

static void log_lines(void **state)
{
    struct place *place = *state;
    char *big = calloc(1, 10001);

    memset(big, 'b', 10000);
    waldo__log(place->loop, WALDO_LOG_ERROR, "loop", "nobody listens");
    waldo__loop_set_log(place->loop, WALDO_LOG_DEFAULT, keep_line, place, NULL, NULL);
    assert_true(waldo__log_wants(place->loop, WALDO_LOG_WARN));
    assert_false(waldo__log_wants(place->loop, WALDO_LOG_INFO));
    waldo__log(place->loop, WALDO_LOG_INFO, "loop", "too quiet");
    assert_int_equal(place->calls, 0);
    waldo__log(place->loop, WALDO_LOG_WARN, "http", "two\nlines %d", 7);
    assert_string_equal(place->text, "2 http two lines 7");
    waldo__log(place->loop, WALDO_LOG_WARN, "http", "%s", big);
    assert_non_null(strstr(place->text, "too long"));
    waldo__loop_set_log(place->loop, WALDO_LOG_WARN, keep_line, place, scrub_all, (char *)"clean");
    waldo__log(place->loop, WALDO_LOG_ERROR, "x", "secret");
    assert_string_equal(place->text, "1 x clean");
    free(big);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(watch_reports_what_it_asked_for),
        CASE(watch_without_events_does_not_spin_on_a_hangup),
        CASE(watch_that_rests_rings_once),
        CASE(watch_of_a_file_is_refused),
        CASE(watches_freed_in_a_callback),
        CASE(number_reused_in_the_same_round),
        CASE(timer_armed_outside_makes_it_readable),
        CASE(wait_is_not_ended_by_a_timer_that_moved),
        CASE(timer_that_rearms_itself_does_not_hold_the_round),
        CASE(many_timers_fire_in_order),
        CASE(task_queued_outside_makes_it_readable),
        CASE(descriptor_tells_of_what_was_queued_before),
        CASE(tasks_of_tasks_run_in_the_same_round),
        CASE(endless_task_does_not_starve_sockets),
        CASE(task_cancelled_by_the_one_before_it),
        CASE(max_us_stops_new_work),
        CASE(driving_from_a_callback_is_refused),
        CASE(hook_runs_after_work_only),
        CASE(log_lines),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
