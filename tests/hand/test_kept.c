/* Kept commands: read by offset, now and later, by a host that waits, leaves and comes back. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "client.h"

#define NO_BOUND UINT64_MAX

static struct client hand;

static int open_hand(void **state)
{
    (void)state;
    client_open(&hand);
    return 0;
}

static int close_hand(void **state)
{
    (void)state;
    client_close(&hand);
    return 0;
}

static waldo__hand_run kept(uint32_t flags, uint32_t tail)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.flags = WALDO_HAND_RUN_KEEP | flags;
    run.tail[0] = tail;
    return run;
}

static uint32_t attach(uint32_t job, uint64_t offset, uint64_t credit)
{
    waldo__buf out = WALDO__BUF_INIT(64);
    uint32_t id = hand.next_id++;

    assert_int_equal(waldo__hand_put_attach(&out, id, job, offset, credit), WALDO_OK);
    client_send(&hand, &out);
    return id;
}

static void forget(uint32_t job)
{
    waldo__buf out = WALDO__BUF_INIT(64);

    assert_int_equal(waldo__hand_put_forget(&out, job), WALDO_OK);
    client_send(&hand, &out);
}

static void credit(uint32_t id, uint64_t bytes)
{
    waldo__buf out = WALDO__BUF_INIT(64);

    assert_int_equal(waldo__hand_put_credit(&out, id, bytes), WALDO_OK);
    client_send(&hand, &out);
}

static void assert_text(const struct record *record, const char *text)
{
    assert_string_equal(waldo__buf_str(&record->streams[0]).ptr, text);
}

/* Reads from an offset to the end. */
static struct record *read_on(uint32_t job, uint64_t offset)
{
    return client_ended(&hand, attach(job, offset, NO_BOUND));
}

static void assert_refused(uint32_t id, int err)
{
    struct record *r = client_ended(&hand, id);

    assert_int_equal(r->done.err, err);
    assert_int_equal(r->done.where, WALDO_HAND_WHERE_REQUEST);
    assert_int_equal(r->streams[0].len, 0);
}

static void test_read_after_the_end(void **state)
{
    uint32_t job =
        client_sh(&hand, "echo out; echo err >&2; exit 3", kept(WALDO_HAND_RUN_MERGE, 1000));
    struct record *r = client_ended(&hand, job);

    (void)state;
    assert_int_equal(r->streams[0].len, 0);
    assert_int_equal(r->exit.value, 3);
    assert_int_equal(r->exit.total[0], 8);
    assert_int_equal(r->exit.sent[0], 0);
    assert_int_equal(r->exit.flags, 0);
    for (int i = 0; i < 3; i++) {
        r = read_on(job, 0);
        assert_text(r, "out\nerr\n");
        assert_int_equal(r->done.err, 0);
        assert_int_equal(r->done.value, 8);
    }
    assert_text(read_on(job, 5), "rr\n");
    assert_text(read_on(job, 8), "");
    assert_refused(attach(job, 9, NO_BOUND), EINVAL);
    forget(job);
    assert_refused(attach(job, 0, NO_BOUND), ENOENT);
}

static void test_leave_and_come_back(void **state)
{
    waldo__hand_run run = kept(WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_STDIN, 1000);
    uint32_t job = client_sh(&hand, "echo one; read x; echo $x; read x; exit 5", run);
    uint32_t reader = attach(job, 0, NO_BOUND);
    struct record *r;

    (void)state;
    client_has_output(&hand, reader, 0, 4);
    assert_refused(attach(job, 0, NO_BOUND), EBUSY);
    client_cancel(&hand, reader, 0);
    r = client_ended(&hand, reader);
    assert_text(r, "one\n");
    assert_int_equal(r->done.err, ECANCELED);
    assert_int_equal(r->done.where, WALDO_HAND_WHERE_CANCELLED);
    assert_int_equal(r->done.value, 4);
    client_stdin(&hand, job, WALDO__S("two\n"));
    reader = attach(job, 4, NO_BOUND);
    client_has_output(&hand, reader, 0, 4);
    assert_int_equal(client_record(&hand, reader)->gap[0], 4); /* what was not asked for */
    client_stdin(&hand, job, WALDO__S("three\n"));
    r = client_ended(&hand, reader);
    assert_text(r, "two\n");
    assert_int_equal(r->done.err, 0);
    assert_int_equal(r->after_end, 0);
    r = client_ended(&hand, job);
    assert_int_equal(r->exit.value, 5);
    assert_int_equal(r->credited, 10);
    assert_int_equal(r->streams[0].len, 0);
}

static void test_tail_is_kept(void **state)
{
    uint32_t job = client_sh(&hand, "seq 1 100000", kept(WALDO_HAND_RUN_MERGE, 12));
    struct record *r = client_ended(&hand, job);

    (void)state;
    assert_int_equal(r->exit.total[0], 588895);
    assert_int_equal(r->exit.flags, WALDO_HAND_EXIT_TRUNCATED);
    r = read_on(job, 0);
    assert_text(r, "9999\n100000\n");
    assert_int_equal(r->gap[0], 588895 - 12);
    assert_text(read_on(job, 588888), "100000\n");
}

static void test_credit_and_overtaken_reader(void **state)
{
    waldo__hand_run run = kept(WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_STDIN, 100);
    uint32_t job = client_sh(&hand, "printf 0123456789; read x; head -c 5000 /dev/zero", run);
    uint32_t reader = attach(job, 0, 4);
    struct record *r = client_record(&hand, reader);

    (void)state;
    client_has_output(&hand, reader, 0, 4);
    credit(reader, 3);
    client_has_output(&hand, reader, 0, 7);
    assert_text(r, "0123456");
    /* The command does not wait for its reader. */
    client_stdin(&hand, job, WALDO__S("\n"));
    assert_int_equal(client_ended(&hand, job)->exit.total[0], 5010);
    assert_int_equal(r->dones, 0);
    credit(reader, NO_BOUND);
    client_ended(&hand, reader);
    assert_int_equal(r->streams[0].len, 107);
    assert_int_equal(r->gap[0], 5010 - 107);
    assert_int_equal(r->done.value, 5010);
}

static void test_flood_is_bounded(void **state)
{
    uint32_t job = client_sh(&hand, "yes", kept(WALDO_HAND_RUN_MERGE, 1 << 20));
    uint64_t before;
    uint32_t reader;

    (void)state;
    client_started(&hand, job);
    before = hand.received;
    /* Time for it to print; nothing asserted depends on how much. */
    poll(NULL, 0, 100);
    reader = attach(job, 0, 1000);
    client_has_output(&hand, reader, 0, 1000);
    client_cancel(&hand, reader, 0);
    assert_int_equal(client_ended(&hand, reader)->done.err, ECANCELED);
    client_cancel(&hand, job, 0);
    assert_int_equal(client_ended(&hand, job)->exit.flags & WALDO_HAND_EXIT_CANCELLED,
                     WALDO_HAND_EXIT_CANCELLED);
    assert_true(hand.received - before < 4000);
}

static void test_terminal(void **state)
{
    uint32_t job = client_sh(&hand, "stty -echo; echo ready; read x; echo got $x",
                             kept(WALDO_HAND_RUN_PTY, 1000));
    uint32_t reader = attach(job, 0, NO_BOUND);

    (void)state;
    client_has_output(&hand, reader, 0, 7);
    client_stdin(&hand, job, WALDO__S("it\n"));
    assert_text(client_ended(&hand, reader), "ready\r\ngot it\r\n");
    assert_int_equal(client_ended(&hand, job)->exit.value, 0);
}

static void test_start_error_ends_the_reader(void **state)
{
    needs(NEED_VFORK);

    waldo__hand_run run = kept(WALDO_HAND_RUN_MERGE, 10);
    waldo_str program = WALDO__S("/no/such/program");
    uint32_t job;

    (void)state;
    run.args = &program;
    run.arg_count = 1;
    job = client_run(&hand, &run);
    assert_refused(attach(job, 0, NO_BOUND), ENOENT);
    assert_int_equal(client_record(&hand, job)->start_error, ENOENT);
}

static void test_refusals(void **state)
{
    static const struct {
        uint32_t flags, tail;
        uint64_t head, credit;
    } cases[] = {
        { 0, 10, NO_BOUND, NO_BOUND },
        { WALDO_HAND_RUN_MERGE, 0, NO_BOUND, NO_BOUND },
        { WALDO_HAND_RUN_MERGE, 10, 5, NO_BOUND },
        { WALDO_HAND_RUN_MERGE, 10, NO_BOUND, 5 },
    };
    uint32_t job = client_sh(&hand, "true", WALDO__HAND_RUN_INIT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        waldo__hand_run run = kept(cases[i].flags, cases[i].tail);
        struct record *r;

        run.head[0] = cases[i].head;
        run.credit = cases[i].credit;
        r = client_ended(&hand, client_sh(&hand, "true", run));
        assert_int_equal(r->start_error, EINVAL);
        assert_int_equal(r->start_phase, WALDO_HAND_PHASE_REQUEST);
    }
    assert_refused(attach(job, 0, NO_BOUND), ENOENT);
    assert_refused(attach(699, 0, NO_BOUND), ENOENT);
    client_ended(&hand, job);
}

static void test_forgotten_while_it_runs(void **state)
{
    waldo__hand_run run = kept(WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_STDIN, 1000);
    uint32_t job = client_sh(&hand, "echo one; read x; echo two; exit 6", run);
    uint32_t reader = attach(job, 0, NO_BOUND);
    struct record *r;

    (void)state;
    client_has_output(&hand, reader, 0, 4);
    forget(job);
    r = client_ended(&hand, reader);
    assert_int_equal(r->done.err, ENOENT);
    client_stdin(&hand, job, WALDO__S("\n"));
    r = client_ended(&hand, job);
    assert_int_equal(r->exit.value, 6);
    assert_int_equal(r->exit.total[0], 8);
    assert_int_equal(r->streams[0].len, 0);
}

static void test_leftovers(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = sleep_number();
    char script[100];
    uint32_t job;

    (void)state;
    snprintf(script, sizeof script, "sleep %s & echo begun", number);
    job = client_sh(&hand, script, kept(WALDO_HAND_RUN_MERGE, 1000));
    assert_int_equal(client_ended(&hand, job)->exit.flags,
                     WALDO_HAND_EXIT_OPEN | WALDO_HAND_EXIT_LEFTOVERS);
    assert_text(read_on(job, 0), "begun\n");
    assert_int_equal(wait_sleeps(number, 1), 1);
    client_cancel(&hand, job, 0);
    assert_int_equal(wait_no_sleeps(number), 0);
    assert_text(read_on(job, 0), "begun\n");
}

static void test_oldest_is_dropped(void **state)
{
    uint32_t ids[WALDO_HAND_KEPT_MAX + 2];
    uint32_t running = client_sh(&hand, "echo old; exec sleep 1000", kept(WALDO_HAND_RUN_MERGE, 9));
    uint32_t reader = attach(running, 0, NO_BOUND);

    (void)state;
    client_has_output(&hand, reader, 0, 4);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        ids[i] = client_sh(&hand, "echo x", kept(WALDO_HAND_RUN_MERGE, 9));
        client_ended(&hand, ids[i]);
    }
    /* The one that runs counts and stays; so the first three of the others are gone. */
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct record *r = read_on(ids[i], 0);

        assert_int_equal(r->done.err, i < 3 ? ENOENT : 0);
        assert_text(r, i < 3 ? "" : "x\n");
    }
    assert_int_equal(client_record(&hand, reader)->dones, 0);
    client_cancel(&hand, running, 0);
    assert_int_equal(client_ended(&hand, reader)->done.err, 0);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_after_the_end),
        cmocka_unit_test(test_leave_and_come_back),
        cmocka_unit_test(test_tail_is_kept),
        cmocka_unit_test(test_credit_and_overtaken_reader),
        cmocka_unit_test(test_flood_is_bounded),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_start_error_ends_the_reader),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_forgotten_while_it_runs),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_oldest_is_dropped),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    return !!cmocka_run_group_tests(tests, open_hand, close_hand);
}
