/* What a channel has queued: sent in pieces of any size, it stays whole and gives memory back. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/sendq.h"

static waldo_str left_of(const waldo__sendq *queue)
{
    return waldo__slice(queue->out.ptr + queue->sent, waldo__sendq_left(queue));
}

static void is_taken_from_its_front(void **state)
{
    waldo__sendq queue = WALDO__SENDQ_INIT(80);

    (void)state;
    assert_int_equal(waldo__sendq_add(&queue, WALDO__S("0123456789abcdefghij")), WALDO_OK);
    assert_int_equal(waldo__sendq_took(&queue, 10), 0); /* an eighth: not moved yet */
    assert_int_equal(queue.sent, 10);
    assert_int_equal(waldo__sendq_took(&queue, 1), 0);
    assert_int_equal(queue.sent, 0);
    assert_true(waldo__str_is(left_of(&queue), "bcdefghij"));
    assert_int_equal(waldo__sendq_took(&queue, 0), 0);
    assert_int_equal(waldo__sendq_add(&queue, WALDO__S("kl")), WALDO_OK);
    assert_int_equal(waldo__sendq_took(&queue, 9), 0);
    assert_true(waldo__str_is(left_of(&queue), "kl"));
    assert_int_equal(waldo__sendq_took(&queue, 2), 1);
    assert_int_equal(waldo__sendq_left(&queue), 0);
    waldo__sendq_free(&queue);
}

static void one_that_is_full_takes_more_when_some_is_gone(void **state)
{
    waldo__sendq queue = WALDO__SENDQ_INIT(8);

    (void)state;
    assert_int_equal(waldo__sendq_add(&queue, WALDO__S("01234567")), WALDO_OK);
    assert_int_equal(waldo__sendq_add(&queue, WALDO__S("8")), WALDO_EBUSY);
    assert_int_equal(waldo__sendq_took(&queue, 2), 0);
    assert_int_equal(waldo__sendq_add(&queue, WALDO__S("89")), WALDO_OK);
    assert_true(waldo__str_is(left_of(&queue), "23456789"));
    waldo__sendq_free(&queue);
}

/* As much as a socket takes at once, until it was all. */
static void goes_through_a_socket(void **state)
{
    static char text[1000 * 1000];
    static char got[sizeof text];
    waldo__sendq queue = WALDO__SENDQ_INIT(4 * sizeof text);
    size_t len = 0;
    int parts = 0;
    int ends[2];

    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i % 251);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(waldo__sendq_flush(&queue, ends[0]), 0); /* nothing that could be all */
    assert_int_equal(waldo__sendq_add(&queue, waldo__slice(text, sizeof text)), WALDO_OK);
    while (!waldo__sendq_flush(&queue, ends[0])) {
        ssize_t part = read(ends[1], got + len, sizeof got - len);

        assert_true(part > 0);
        len += (size_t)part;
        parts++;
    }
    assert_true(parts > 0);
    assert_null(queue.out.ptr); /* so much is not kept */
    assert_int_equal(close(ends[0]), 0);
    for (ssize_t part = 1; part > 0; len += (size_t)part) {
        part = read(ends[1], got + len, sizeof got - len);
        assert_true(part >= 0);
    }
    assert_int_equal(len, sizeof text);
    assert_memory_equal(got, text, sizeof text);
    close(ends[1]);
    waldo__sendq_free(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_taken_from_its_front),
        cmocka_unit_test(one_that_is_full_takes_more_when_some_is_gone),
        cmocka_unit_test(goes_through_a_socket),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
