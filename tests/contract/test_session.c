/* The session with a hand that may say anything: over a channel in memory. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hand/wire.h"
#include "sandbox/hand_session.h"

typedef struct wire {
    waldo_channel base;
    waldo_channel_events events;
    waldo__buf sent;
    int closed;
} wire;

static void wire_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    ((wire *)channel)->events = *events;
}

static waldo_status wire_send(waldo_channel *channel, waldo_str bytes)
{
    return waldo__buf_add_str(&((wire *)channel)->sent, bytes);
}

static size_t wire_queued(const waldo_channel *channel)
{
    (void)channel;
    return 0;
}

static void wire_pause(waldo_channel *channel, int paused)
{
    (void)channel;
    (void)paused;
}

static void wire_close(waldo_channel *channel)
{
    ((wire *)channel)->closed = 1;
}

static const waldo_channel_ops wire_ops = { .version = WALDO_BACKEND_VERSION,
                                            .size = sizeof wire_ops,
                                            .listen = wire_listen,
                                            .send = wire_send,
                                            .queued = wire_queued,
                                            .pause = wire_pause,
                                            .close = wire_close };

typedef struct fixture {
    waldo__loop *loop;
    wire channel;
    waldo__hand *hand;
    int ready;
    int lost;
    waldo_status lost_status;
    char why[1024];
    int ended;
    waldo_status end_status;
    size_t output;
    int free_in_output;
    size_t jobs; /* told by lists */
    int64_t labels;
    waldo__hand_call *adopted;
} fixture;

static void on_ready(void *userdata)
{
    ((fixture *)userdata)->ready++;
}

static void on_lost(void *userdata, const waldo_error *error)
{
    fixture *f = userdata;

    f->lost++;
    f->lost_status = waldo_error_status(error);
    snprintf(f->why, sizeof f->why, "%s", waldo_error_message(error));
}

static void on_output(void *userdata, int stream, uint64_t offset, waldo_str bytes)
{
    fixture *f = userdata;

    (void)stream;
    (void)offset;
    f->output += bytes.len;
    if (f->free_in_output) {
        waldo__hand_free(f->hand);
        f->hand = NULL;
    }
}

static void on_ended(void *userdata, const waldo__hand_end *end)
{
    fixture *f = userdata;

    f->ended++;
    f->end_status = end->status;
}

static const waldo__hand_call_fns fns = { .output = on_output, .ended = on_ended };

static int setup(void **state)
{
    fixture *f = WALDO__NEW(fixture);
    const waldo__hand_events events = { .userdata = f, .ready = on_ready, .lost = on_lost };

    if (waldo__loop_new(&f->loop, NULL) != WALDO_OK) {
        return 1;
    }
    f->channel = (wire){ .base = { &wire_ops }, .sent = WALDO__BUF_INIT(1 << 24) };
    if (waldo__hand_new(f->loop, &f->channel.base, waldo__deadline_ns(50), &events, &f->hand) !=
        WALDO_OK) {
        return 1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;

    waldo__hand_free(f->hand);
    waldo__loop_free(f->loop);
    waldo__buf_free(&f->channel.sent);
    waldo__free(f);
    return 0;
}

static void feed(fixture *f, const void *bytes, size_t len)
{
    f->channel.events.on_bytes(f->channel.events.userdata, waldo__strn(bytes, len));
}

static void frame(fixture *f, uint8_t type, uint32_t id, const void *payload, size_t len)
{
    uint8_t bytes[4096];

    put_header(bytes, (uint32_t)len, type, id);
    if (len > 0) {
        memcpy(bytes + WALDO_HAND_HEADER_LEN, payload, len);
    }
    feed(f, bytes, WALDO_HAND_HEADER_LEN + len);
}

/* Answer the HELLO that was sent with its own nonce. */
static void hello(fixture *f)
{
    uint8_t payload[WALDO_HAND_HELLO_LEN] = WALDO_HAND_MAGIC;

    put_u16(payload + 4, 1);
    put_u16(payload + 6, WALDO_HAND_ARCH_X86_64);
    memcpy(payload + 16, f->channel.sent.ptr + WALDO_HAND_HEADER_LEN + 16, WALDO_HAND_NONCE_LEN);
    put_u32(payload + 40, WALDO_HAND_PAYLOAD_MAX);
    put_u32(payload + 44, 64);
    frame(f, WALDO_HAND_HELLO, 0, payload, sizeof payload);
    assert_int_equal(f->ready, 1);
}

static waldo__hand_call *start(fixture *f, uint64_t head)
{
    static const waldo_str args[] = { { "true", 4 } };
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__hand_call *call = NULL;

    run.args = args;
    run.arg_count = 1;
    run.head[0] = run.head[1] = head;
    assert_int_equal(waldo__hand_start_run(f->hand, &run, &fns, f, &call), WALDO_OK);
    return call;
}

static void expect_lost(fixture *f, const char *words)
{
    assert_int_equal(f->lost, 1);
    if (strstr(f->why, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, f->why);
    }
}

static void silence(void **state)
{
    fixture *f = *state;

    while (!f->lost) {
        waldo__loop_round(f->loop, waldo__deadline_ns(10000), 0);
    }
    expect_lost(f, "did not answer in time");
    assert_int_equal(f->lost_status, WALDO_ETIMEDOUT);
}

static void something_else_printed(void **state)
{
    fixture *f = *state;

    feed(f, "Welcome to your image!\n", 23);
    expect_lost(f, "not the hand's protocol");
    feed(f, "more", 4);
    assert_int_equal(f->lost, 1);
}

static void end_before_hello(void **state)
{
    fixture *f = *state;

    f->channel.events.on_diagnostic(f->channel.events.userdata, waldo__str("exec format error\n"));
    f->channel.events.on_closed(f->channel.events.userdata, WALDO_EUNAVAILABLE, NULL);
    expect_lost(f, "exec format error");
    assert_int_equal(f->lost_status, WALDO_EUNAVAILABLE);
}

static void end_with_commands(void **state)
{
    fixture *f = *state;

    hello(f);
    start(f, 10);
    start(f, 10);
    f->channel.events.on_closed(f->channel.events.userdata, WALDO_ELOST, NULL);
    assert_int_equal(f->ended, 2);
    assert_int_equal(f->end_status, WALDO_ELOST);
    expect_lost(f, "ended");
    assert_int_equal(waldo__hand_queued(f->hand), 0);
}

/* Each row ends the session: frames out of their state or beyond what was allowed. */
static void hostile_frames(void **state)
{
    static const uint8_t zeros[256];
    uint8_t out[16] = { 0 };
    uint8_t back[16] = { 0 };
    const struct {
        int started;
        uint8_t type;
        uint32_t id;
        const void *payload;
        size_t len;
    } rows[] = {
        { 1, WALDO_HAND_STARTED, 1, zeros, 4 }, /* twice */
        { 0, WALDO_HAND_OUT, 1, out, 12 },      /* before STARTED */
        { 1, WALDO_HAND_OUT, 7, out, 12 },      /* unknown id */
        { 1, WALDO_HAND_OUT, 1, zeros, 200 },   /* more than HEAD */
        { 1, WALDO_HAND_OUT, 1, out, 4 },       /* too short */
        { 0, WALDO_HAND_EXIT, 1, zeros, WALDO_HAND_EXIT_LEN },
        { 1, WALDO_HAND_DONE, 1, zeros, WALDO_HAND_DONE_LEN },
        { 1, WALDO_HAND_DATA, 1, zeros, 5 },
        { 1, WALDO_HAND_START_ERROR, 1, zeros, WALDO_HAND_START_ERROR_LEN },
        { 1, WALDO_HAND_HELLO, 0, zeros, WALDO_HAND_HELLO_LEN },
        { 1, WALDO_HAND_ERROR, 0, "\2\0\0\0bad", 7 },
        { 1, 0x3f, 1, zeros, 4 },
    };

    (void)back;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *inner = NULL;
        fixture *f;

        assert_int_equal(setup(&inner), 0);
        f = inner;
        hello(f);
        start(f, 100);
        if (rows[i].started) {
            frame(f, WALDO_HAND_STARTED, 1, zeros, 4);
            assert_int_equal(f->lost, 0);
        }
        frame(f, rows[i].type, rows[i].id, rows[i].payload, rows[i].len);
        if (f->lost != 1 || f->ended != 1 || f->end_status != WALDO_ELOST) {
            fail_msg("row %zu: lost %d, ended %d", i, f->lost, f->ended);
        }
        teardown(&inner);
    }
    (void)state;
}

static void offsets_go_forward(void **state)
{
    fixture *f = *state;
    uint8_t out[12] = { 5 };

    hello(f);
    start(f, 100);
    frame(f, WALDO_HAND_STARTED, 1, out, 4);
    frame(f, WALDO_HAND_OUT, 1, out, 12); /* bytes 5 to 8: a gap is fine */
    assert_int_equal(f->output, 4);
    assert_int_equal(f->lost, 0);
    out[0] = 8;
    frame(f, WALDO_HAND_OUT, 1, out, 12);
    expect_lost(f, "out of its state");
}

static void freed_in_a_callback(void **state)
{
    fixture *f = *state;
    uint8_t out[12] = { 0 };
    uint8_t both[2 * (WALDO_HAND_HEADER_LEN + 12)];

    hello(f);
    start(f, 100);
    frame(f, WALDO_HAND_STARTED, 1, out, 4);
    f->free_in_output = 1;
    for (size_t i = 0; i < 2; i++) {
        put_header(both + i * (WALDO_HAND_HEADER_LEN + 12), 12, WALDO_HAND_OUT, 1);
        memset(both + i * (WALDO_HAND_HEADER_LEN + 12) + WALDO_HAND_HEADER_LEN, 0, 12);
    }
    feed(f, both, sizeof both);
    assert_int_equal(f->output, 4);
    assert_int_equal(f->ended, 0);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->channel.closed, 1);
}

static void read_stays_within_its_limit(void **state)
{
    fixture *f = *state;
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    waldo__hand_call *call;
    static const uint8_t bytes[16];

    hello(f);
    file.path = waldo__str("x");
    file.limit = 10;
    assert_int_equal(waldo__hand_start_file(f->hand, WALDO_HAND_READ, &file, &fns, f, &call),
                     WALDO_OK);
    frame(f, WALDO_HAND_DATA, 1, bytes, 10);
    assert_int_equal(f->lost, 0);
    frame(f, WALDO_HAND_DATA, 1, bytes, 1);
    assert_int_equal(f->lost, 1);
}

/* ---- lists of kept commands ---- */

static waldo_status on_job(void *userdata, const waldo__hand_job *job)
{
    fixture *f = userdata;
    int64_t number = 0;

    f->jobs++;
    if (!waldo__str_int(job->label, &number)) {
        return WALDO_EPROTO;
    }
    f->labels += number;
    return WALDO_OK;
}

static void on_listed(void *userdata, const waldo__hand_end *end)
{
    fixture *f = userdata;

    on_ended(userdata, end);
    if (end->status == WALDO_OK && f->jobs > 0) {
        assert_int_equal(waldo__hand_adopt(f->hand, 70, &fns, f, &f->adopted), WALDO_OK);
    }
}

static void put_job(fixture *f, uint32_t list, uint32_t id, uint8_t state, const char *label)
{
    uint8_t payload[WALDO_HAND_JOB_LEN + WALDO_HAND_LABEL_MAX] = { 0 };

    put_u32(payload, id);
    payload[4] = state;
    if (state == WALDO_HAND_STATE_ENDED) {
        payload[24] = WALDO_HAND_HOW_EXITED;
    }
    memcpy(payload + WALDO_HAND_JOB_LEN, label, strlen(label));
    frame(f, WALDO_HAND_JOB, list, payload, WALDO_HAND_JOB_LEN + strlen(label));
}

static void put_done(fixture *f, uint32_t id, uint64_t value)
{
    uint8_t payload[WALDO_HAND_DONE_LEN] = { 0 };

    put_u64(payload + 8, value);
    frame(f, WALDO_HAND_DONE, id, payload, sizeof payload);
}

static uint32_t list(fixture *f)
{
    static const waldo__hand_call_fns list_fns = { .job = on_job, .ended = on_listed };
    waldo__hand_call *call;

    hello(f);
    assert_int_equal(waldo__hand_start_list(f->hand, &list_fns, f, &call), WALDO_OK);
    return waldo__hand_call_id(call);
}

/* One that runs is heard of again under its own id, and new ids are above all that were. */
static void commands_of_an_earlier_session(void **state)
{
    fixture *f = *state;
    uint8_t exit[WALDO_HAND_EXIT_LEN] = { WALDO_HAND_HOW_EXITED };
    uint32_t id = list(f);

    put_job(f, id, 70, WALDO_HAND_STATE_RUNNING, "3");
    put_job(f, id, 7, WALDO_HAND_STATE_ENDED, "2");
    put_done(f, id, 90);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->jobs, 2);
    assert_int_equal(f->labels, 5);
    assert_int_equal(f->ended, 1);
    assert_int_equal(waldo__hand_call_id(f->adopted), 70);
    assert_int_equal(waldo__hand_call_id(start(f, 10)), 91);
    frame(f, WALDO_HAND_EXIT, 70, exit, sizeof exit);
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->ended, 2);
    frame(f, WALDO_HAND_EXIT, 7, exit, sizeof exit); /* has had its end */
    expect_lost(f, "out of its state");
}

/* Each row ends the session. */
static void hostile_lists(void **state)
{
    static const struct {
        uint32_t id; /* 0: that of the list */
        uint32_t jobs[2];
        const char *label;
        uint64_t highest; /* 0: no DONE */
    } rows[] = {
        { 9, { 1 }, "1", 0 },          /* a list that nobody asked for */
        { 0, { 5, 5 }, "1", 0 },       /* twice */
        { 0, { 5 }, "", 0 },           /* no number */
        { 0, { 5 }, "five", 0 },       /* nor this */
        { 0, { 5 }, "5 ", 0 },         /* nor this */
        { 0, { 5, 100 }, "1", 99 },    /* more than there were */
        { 0, { 5 }, "1", 0xffffffff }, /* no ids left */
        { 0, { 5 }, "1", UINT64_MAX }, /* no ids at all */
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *inner = NULL;
        fixture *f;
        uint32_t id;

        assert_int_equal(setup(&inner), 0);
        f = inner;
        id = list(f);
        for (size_t j = 0; j < 2 && rows[i].jobs[j] != 0; j++) {
            put_job(f, rows[i].id != 0 ? rows[i].id : id, rows[i].jobs[j], WALDO_HAND_STATE_RUNNING,
                    rows[i].label);
        }
        if (rows[i].highest != 0) {
            assert_int_equal(f->lost, 0);
            put_done(f, id, rows[i].highest);
        }
        if (f->lost != 1 || f->ended != 1 || f->end_status != WALDO_ELOST) {
            fail_msg("row %zu: lost %d, ended %d", i, f->lost, f->ended);
        }
        teardown(&inner);
    }
    (void)state;
}

static void list_of_too_many(void **state)
{
    fixture *f = *state;
    uint32_t id = list(f);

    for (uint32_t i = 1; i <= WALDO_HAND_KEPT_MAX; i++) {
        put_job(f, id, i, WALDO_HAND_STATE_ENDED, "1");
    }
    assert_int_equal(f->lost, 0);
    assert_int_equal(f->jobs, WALDO_HAND_KEPT_MAX);
    put_job(f, id, WALDO_HAND_KEPT_MAX + 1, WALDO_HAND_STATE_ENDED, "1");
    expect_lost(f, "out of its state");
    assert_int_equal(f->jobs, WALDO_HAND_KEPT_MAX);
}

static void taken_over(void **state)
{
    fixture *f = *state;

    hello(f);
    start(f, 10);
    frame(f, WALDO_HAND_ERROR, 0, "\12\0\0\0taken", 9);
    expect_lost(f, "another process has opened the same machine");
    assert_int_equal(f->end_status, WALDO_ELOST);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(silence),
        CASE(something_else_printed),
        CASE(end_before_hello),
        CASE(end_with_commands),
        CASE(hostile_frames),
        CASE(offsets_go_forward),
        CASE(freed_in_a_callback),
        CASE(read_stays_within_its_limit),
        CASE(commands_of_an_earlier_session),
        CASE(hostile_lists),
        CASE(list_of_too_many),
        CASE(taken_over),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
