/* Posts and cancel objects from other threads; for ThreadSanitizer too. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "loop/loop.h"

enum { THREADS = 4, POSTS = 5000 };

struct sender {
    waldo_poster *poster;
    waldo_cancel *cancel;
    pthread_t thread;
    int got; /* on the driving thread only */
    waldo_status last;
};

static void count(void *userdata)
{
    ++*(int *)userdata;
}

static void *send_posts(void *argument)
{
    struct sender *sender = argument;

    for (int i = 0; i < POSTS; i++) {
        sender->last = waldo_poster_post(sender->poster, count, &sender->got);
    }
    waldo_poster_unref(sender->poster);
    return NULL;
}

static void posts_from_threads_all_arrive(void **state)
{
    struct sender senders[THREADS] = { 0 };
    waldo__loop *loop = NULL;
    int all = 0;

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    for (int i = 0; i < THREADS; i++) {
        senders[i].poster = waldo__loop_poster(loop);
        pthread_create(&senders[i].thread, NULL, send_posts, &senders[i]);
    }
    while (all < THREADS * POSTS) {
        struct pollfd item = { .fd = waldo__loop_fd(loop), .events = POLLIN };

        if (poll(&item, 1, 60000) != 1) {
            break;
        }
        waldo__loop_round(loop, 0, 0);
        all = 0;
        for (int i = 0; i < THREADS; i++) {
            all += senders[i].got;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_int_equal(senders[i].got, POSTS);
    }
    waldo__loop_free(loop);
}

struct chain {
    waldo_poster *poster;
    int left;
    int calls;
};

static void post_again(void *userdata)
{
    struct chain *chain = userdata;

    chain->calls++;
    if (chain->left-- > 0) {
        waldo_poster_post(chain->poster, post_again, chain);
    }
}

/* What is posted from within a round runs in it, or is told by the descriptor. */
static void posts_from_within(void **state)
{
    struct chain few = { .left = 3 }, many = { .left = 100 };
    struct pollfd item = { .events = POLLIN };
    waldo__loop *loop = NULL;
    int is_told = 1;

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    few.poster = many.poster = waldo__loop_poster(loop);
    item.fd = waldo__loop_fd(loop);
    assert_int_equal(poll(&item, 1, 0), 0);
    waldo_poster_post(few.poster, post_again, &few);
    assert_int_equal(poll(&item, 1, 0), 1);
    waldo__loop_round(loop, 0, 0);
    assert_int_equal(few.calls, 4);
    assert_int_equal(poll(&item, 1, 0), 0); /* nobody woke it for what it had seen */

    waldo_poster_post(many.poster, post_again, &many);
    while (many.calls < 101 && is_told) {
        waldo__loop_round(loop, 0, 0);
        is_told = many.calls == 101 || poll(&item, 1, 0) == 1;
    }
    assert_true(is_told);
    assert_int_equal(many.calls, 101);
    waldo__loop_round(loop, 0, 0);
    assert_int_equal(poll(&item, 1, 0), 0);
    waldo_poster_unref(few.poster);
    waldo__loop_free(loop);
}

static void *post_until_closed(void *argument)
{
    struct sender *sender = argument;

    do {
        sender->last = waldo_poster_post(sender->poster, count, &sender->got);
    } while (sender->last == WALDO_OK);
    return NULL;
}

static void poster_outlives_its_loop(void **state)
{
    struct sender sender = { 0 };
    waldo__loop *loop = NULL;
    int before;

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    sender.poster = waldo__loop_poster(loop);
    pthread_create(&sender.thread, NULL, post_until_closed, &sender);
    while (sender.got == 0) {
        waldo__loop_round(loop, waldo__deadline_ns(60000), 0);
    }
    before = sender.got;
    waldo__loop_free(loop);
    pthread_join(sender.thread, NULL);
    assert_int_equal(sender.last, WALDO_ECLOSED);
    assert_int_equal(sender.got, before); /* what was posted since is dropped */
    assert_int_equal(waldo_poster_post(sender.poster, count, &sender.got), WALDO_ECLOSED);
    waldo_poster_unref(waldo_poster_ref(sender.poster));
    waldo_poster_unref(sender.poster);
    waldo_poster_unref(NULL);
    assert_int_equal(waldo_poster_post(NULL, count, NULL), WALDO_EINVAL);
}

static void *trigger(void *argument)
{
    struct sender *sender = argument;

    waldo_cancel_trigger(sender->cancel);
    waldo_cancel_trigger(sender->cancel);
    waldo_cancel_unref(sender->cancel);
    return NULL;
}

static void cancel_wakes_every_watch_once(void **state)
{
    struct sender sender = { 0 };
    waldo_cancel *cancel = waldo_cancel_new();
    waldo__cancel_watch *watches[3] = { 0 };
    waldo__cancel_watch *late = NULL;
    waldo__loop *loop = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    for (size_t i = 0; i < WALDO__COUNT(watches); i++) {
        assert_int_equal(waldo__cancel_watch_new(loop, cancel, count, &calls, &watches[i]),
                         WALDO_OK);
    }
    waldo__cancel_watch_free(watches[1]); /* no call comes for it */
    assert_false(waldo_cancel_triggered(cancel));
    sender.cancel = waldo_cancel_ref(cancel);
    pthread_create(&sender.thread, NULL, trigger, &sender);
    while (calls < 2) {
        if (waldo__loop_round(loop, waldo__deadline_ns(60000), 0) != WALDO_OK) {
            break;
        }
    }
    pthread_join(sender.thread, NULL);
    assert_true(waldo_cancel_triggered(cancel));
    waldo__loop_round(loop, 0, 0);
    assert_int_equal(calls, 2);

    assert_int_equal(waldo__cancel_watch_new(loop, cancel, count, &calls, &late), WALDO_OK);
    assert_int_equal(calls, 2); /* not from within the call */
    waldo__loop_round(loop, 0, 0);
    assert_int_equal(calls, 3);
    waldo__cancel_watch_free(late);
    waldo__cancel_watch_free(watches[0]);
    waldo__cancel_watch_free(watches[2]);
    waldo_cancel_unref(cancel);
    waldo__loop_free(loop);
}

/* Freed while the message is under way, or queued: no call comes after. */
static void watch_freed_after_the_trigger(void **state)
{
    waldo_cancel *cancel = waldo_cancel_new();
    waldo__cancel_watch *watch = NULL;
    waldo__loop *loop = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    assert_int_equal(waldo__cancel_watch_new(loop, cancel, count, &calls, &watch), WALDO_OK);
    waldo_cancel_trigger(cancel);
    waldo__cancel_watch_free(watch);
    assert_int_equal(waldo__cancel_watch_new(loop, cancel, count, &calls, &watch), WALDO_OK);
    waldo__cancel_watch_free(watch);
    waldo__loop_round(loop, 0, 0);
    assert_int_equal(calls, 0);
    waldo_cancel_unref(cancel);
    waldo__loop_free(loop);
}

/* Triggers race with frees of the watches. */
static void trigger_against_free(void **state)
{
    waldo__loop *loop = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(waldo__loop_new(&loop, NULL), WALDO_OK);
    for (int i = 0; i < 200; i++) {
        struct sender sender = { 0 };
        waldo_cancel *cancel = waldo_cancel_new();
        waldo__cancel_watch *watch = NULL;
        int before;

        assert_int_equal(waldo__cancel_watch_new(loop, cancel, count, &calls, &watch), WALDO_OK);
        sender.cancel = cancel;
        pthread_create(&sender.thread, NULL, trigger, &sender);
        if (i % 2 == 0) {
            waldo__loop_round(loop, 0, 0);
        }
        waldo__cancel_watch_free(watch);
        before = calls;
        waldo__loop_round(loop, 0, 0);
        pthread_join(sender.thread, NULL);
        waldo__loop_round(loop, 0, 0);
        assert_int_equal(calls, before);
    }
    waldo__loop_free(loop);
}

static void cancel_accepts_null(void **state)
{
    (void)state;
    waldo_cancel_trigger(NULL);
    waldo_cancel_unref(NULL);
    assert_null(waldo_cancel_ref(NULL));
    assert_int_equal(waldo_cancel_triggered(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_from_threads_all_arrive),
        cmocka_unit_test(posts_from_within),
        cmocka_unit_test(poster_outlives_its_loop),
        cmocka_unit_test(cancel_wakes_every_watch_once),
        cmocka_unit_test(watch_freed_after_the_trigger),
        cmocka_unit_test(trigger_against_free),
        cmocka_unit_test(cancel_accepts_null),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
