/* In a forked child objects are dead, and what the child does with them harms nobody. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/loop.h"

struct things {
    waldo__loop *loop;
    int pair[2];
    waldo__watch *watch;
    waldo__timer timer;
    waldo__task task;
    waldo_poster *poster;
    waldo_cancel *cancel;
    waldo__cancel_watch *cancel_watch;
    int reads, ticks, tasks, posts, cancels;
};

static void on_read(void *userdata, unsigned events)
{
    struct things *things = userdata;
    char byte;

    things->reads += (events & WALDO__READ) != 0 && read(things->pair[0], &byte, 1) == 1;
}

static void tick(void *userdata)
{
    ((struct things *)userdata)->ticks++;
}

static void task(void *userdata)
{
    ((struct things *)userdata)->tasks++;
}

static void post(void *userdata)
{
    ((struct things *)userdata)->posts++;
}

static void cancelled(void *userdata)
{
    ((struct things *)userdata)->cancels++;
}

/*
 * Everything a program may do with its objects after fork(); the number of the first wrong answer.
 */
static int misuse(struct things *things)
{
    waldo__watch *watch = NULL;
    waldo__cancel_watch *cancel_watch = NULL;
    waldo__loop *own = NULL;
    int fd = dup(things->pair[0]);
    int calls = 0;
    waldo__task task_of_own;

    if (waldo__loop_fd(things->loop) != -1 || !waldo__loop_forked(things->loop)) {
        return 1;
    }
    if (waldo__loop_round(things->loop, 0, 0) != WALDO_EFORKED ||
        waldo__loop_check(things->loop) != WALDO_EFORKED) {
        return 2;
    }
    if (waldo_poster_post(things->poster, post, things) != WALDO_EFORKED) {
        return 3;
    }
    if (waldo__watch_new(things->loop, fd, WALDO__READ, on_read, things, &watch) != WALDO_EFORKED ||
        waldo__watch_set(things->watch, WALDO__WRITE) != WALDO_EFORKED) {
        return 4;
    }
    if (waldo__cancel_watch_new(things->loop, things->cancel, cancelled, things, &cancel_watch) !=
        WALDO_EFORKED) {
        return 5;
    }
    waldo_cancel_trigger(things->cancel);
    waldo__timer_arm(things->loop, &things->timer, 1);
    waldo__task_queue(things->loop, &things->task);
    waldo__cancel_watch_free(things->cancel_watch);
    waldo__watch_free(things->watch);
    waldo__loop_free(things->loop);
    waldo_poster_unref(things->poster);
    waldo_cancel_unref(things->cancel);

    if (waldo__loop_new(&own, NULL) != WALDO_OK) { /* a child may begin anew */
        return 6;
    }
    waldo__task_init(&task_of_own, task, things);
    calls = things->tasks;
    waldo__task_queue(own, &task_of_own);
    if (waldo__loop_round(own, 0, 0) != WALDO_OK || things->tasks != calls + 1) {
        return 7;
    }
    waldo__loop_free(own);
    return 0;
}

static void forked_child_does_no_harm(void **state)
{
    struct things things = { 0 };
    struct pollfd item;
    int64_t limit;
    int status = -1;
    pid_t pid;

    (void)state;
    assert_int_equal(waldo__loop_new(&things.loop, NULL), WALDO_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, things.pair), 0);
    assert_int_equal(
        waldo__watch_new(things.loop, things.pair[0], WALDO__READ, on_read, &things, &things.watch),
        WALDO_OK);
    things.poster = waldo__loop_poster(things.loop);
    things.cancel = waldo_cancel_new();
    assert_int_equal(waldo__cancel_watch_new(things.loop, things.cancel, cancelled, &things,
                                             &things.cancel_watch),
                     WALDO_OK);
    waldo__timer_init(&things.timer, tick, &things);
    waldo__task_init(&things.task, task, &things);
    waldo__timer_arm(things.loop, &things.timer, waldo__deadline_ns(3600 * 1000));

    pid = fork();
    if (pid == 0) {
        _exit(misuse(&things));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);

    item = (struct pollfd){ .fd = waldo__loop_fd(things.loop), .events = POLLIN };
    assert_int_equal(poll(&item, 1, 0), 0); /* the child armed nothing of ours */
    assert_int_equal(write(things.pair[1], "x", 1), 1);
    assert_int_equal(waldo_poster_post(things.poster, post, &things), WALDO_OK);
    waldo_cancel_trigger(things.cancel);
    waldo__task_queue(things.loop, &things.task);
    waldo__timer_arm(things.loop, &things.timer, waldo__deadline_ns(2));
    limit = waldo__deadline_ns(60000);
    while (things.ticks == 0 && waldo__now_ns() < limit) {
        waldo__loop_round(things.loop, limit, 0);
    }
    assert_int_equal(things.reads, 1);
    assert_int_equal(things.posts, 1);
    assert_int_equal(things.cancels, 1);
    assert_int_equal(things.tasks, 1);
    assert_int_equal(things.ticks, 1);

    waldo__cancel_watch_free(things.cancel_watch);
    waldo__watch_free(things.watch);
    waldo__loop_free(things.loop);
    waldo_poster_unref(things.poster);
    waldo_cancel_unref(things.cancel);
    close(things.pair[0]);
    close(things.pair[1]);
}

/* Open descriptors, and how many of them would survive an exec. */
static int count_descriptors(int *ret_inherited)
{
    int count = 0;

    *ret_inherited = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);

        count += flags >= 0;
        *ret_inherited += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    return count;
}

static void descriptors_are_close_on_exec(void **state)
{
    waldo__loop *loop = NULL;
    int inherited, inherited_before;
    int before = count_descriptors(&inherited_before);

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    assert_int_equal(count_descriptors(&inherited), before + 3); /* epoll, timer, wake-up */
    assert_int_equal(inherited, inherited_before);
    waldo__loop_free(loop);
    assert_int_equal(count_descriptors(&inherited), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forked_child_does_no_harm),
        cmocka_unit_test(descriptors_are_close_on_exec),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
