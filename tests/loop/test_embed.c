/* The one descriptor inside of other loops: poll(2) and libuv. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "loop/loop.h"

enum { ROUNDS = 200 };

/*
 * One task, then a byte over a socket, then a timer, and so on: every kind of work follows another.
 */
struct chain {
    waldo__loop *loop;
    int pair[2];
    waldo__watch *watch;
    waldo__timer timer;
    waldo__task task;
    int done;
    uv_poll_t poll;
    uv_timer_t limit;
    uv_timer_t outside;
    int outside_calls;
};

static void on_task(void *userdata)
{
    struct chain *chain = userdata;

    if (write(chain->pair[1], "x", 1) != 1) {
        chain->done = -1;
    }
}

static void on_byte(void *userdata, unsigned events)
{
    struct chain *chain = userdata;
    char byte;

    (void)events;
    if (read(chain->pair[0], &byte, 1) == 1) {
        waldo__timer_arm(chain->loop, &chain->timer, waldo__now_ns() + 100000);
    }
}

static void on_tick(void *userdata)
{
    struct chain *chain = userdata;

    if (++chain->done < ROUNDS) {
        waldo__task_queue(chain->loop, &chain->task);
    }
}

static void chain_open(struct chain *chain)
{
    assert_int_equal(waldo__loop_new(&chain->loop, NULL), WALDO_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, chain->pair), 0);
    assert_int_equal(
        waldo__watch_new(chain->loop, chain->pair[0], WALDO__READ, on_byte, chain, &chain->watch),
        WALDO_OK);
    waldo__timer_init(&chain->timer, on_tick, chain);
    waldo__task_init(&chain->task, on_task, chain);
    waldo__task_queue(chain->loop, &chain->task);
}

static void chain_close(struct chain *chain)
{
    waldo__watch_free(chain->watch);
    waldo__loop_free(chain->loop);
    close(chain->pair[0]);
    close(chain->pair[1]);
}

static void inside_poll(void **state)
{
    struct chain chain = { 0 };
    struct pollfd item = { .events = POLLIN };

    (void)state;
    chain_open(&chain);
    item.fd = waldo__loop_fd(chain.loop);
    while (chain.done >= 0 && chain.done < ROUNDS && poll(&item, 1, 60000) == 1) {
        waldo__loop_round(chain.loop, 0, 0);
    }
    assert_int_equal(chain.done, ROUNDS);
    assert_int_equal(poll(&item, 1, 0), 0);
    chain_close(&chain);
}

static void on_uv_poll(uv_poll_t *poll, int status, int events)
{
    struct chain *chain = poll->data;

    (void)status;
    (void)events;
    waldo__loop_round(chain->loop, 0, 0);
    if (chain->done < 0 || chain->done >= ROUNDS) {
        uv_stop(poll->loop);
    }
}

static void on_uv_limit(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Work armed by the host's own callbacks, outside of any round. */
static void on_uv_outside(uv_timer_t *timer)
{
    struct chain *chain = timer->data;

    chain->outside_calls++;
    waldo__task_queue(chain->loop, &chain->task);
}

static void inside_libuv(void **state)
{
    struct chain chain = { 0 };
    uv_loop_t uv;

    (void)state;
    chain_open(&chain);
    waldo__task_cancel(chain.loop, &chain.task); /* the uv timer below starts the chain */
    assert_int_equal(uv_loop_init(&uv), 0);
    assert_int_equal(uv_poll_init(&uv, &chain.poll, waldo__loop_fd(chain.loop)), 0);
    uv_timer_init(&uv, &chain.limit);
    uv_timer_init(&uv, &chain.outside);
    chain.poll.data = &chain;
    chain.outside.data = &chain;
    uv_timer_start(&chain.outside, on_uv_outside, 1, 0);
    uv_timer_start(&chain.limit, on_uv_limit, 60000, 0);
    uv_poll_start(&chain.poll, UV_READABLE, on_uv_poll);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(chain.outside_calls, 1);
    assert_int_equal(chain.done, ROUNDS);
    uv_close((uv_handle_t *)&chain.poll, NULL);
    uv_close((uv_handle_t *)&chain.limit, NULL);
    uv_close((uv_handle_t *)&chain.outside, NULL);
    uv_run(&uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&uv), 0);
    chain_close(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_poll),
        cmocka_unit_test(inside_libuv),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
