/* Many runs in the loops of others, on the one descriptor; and the bounded queue of events. */
#include <poll.h>
#include <uv.h>

#include "agent/events.h"
#include "fixture.h"

enum { RUNS = 100 };

typedef struct many {
    waldo_runtime *rt;
    int done, good;
    uv_poll_t watch;
} many;

static void on_ready(void *userdata, waldo_run *run)
{
    many *m = userdata;
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, 0, &event)) == WALDO_OK) {
    }
    if (status == WALDO_END) {
        m->done++;
        m->good += waldo_run_status(run) == WALDO_OK &&
                   strcmp(waldo_run_text(run), waldo_run_label(run)) == 0;
        waldo_run_free(run);
    }
}

static void start_many(fixture *f, many *m, waldo_agent *agent)
{
    m->rt = f->rt;
    for (int i = 0; i < RUNS; i++) {
        char text[32];
        waldo_run *run;

        snprintf(text, sizeof text, "prompt %d", i);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = text, .label = text));
        waldo_run_on_ready(run, on_ready, m);
    }
}

static void poll_drives_many_runs(void **state)
{
    fixture *f = *state;
    many m = { 0 };
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "echo")));

    start_many(f, &m, agent);
    while (m.done < RUNS) {
        struct pollfd fd = { waldo_runtime_fd(f->rt), POLLIN, 0 };

        assert_int_equal(poll(&fd, 1, 60000), 1);
        assert_int_equal(waldo_runtime_dispatch(f->rt, 0), WALDO_OK);
    }
    assert_int_equal(m.good, RUNS);
    waldo_agent_unref(agent);
}

static void uv_ready(uv_poll_t *watch, int status, int events)
{
    many *m = watch->data;

    (void)events;
    if (status == 0) {
        waldo_runtime_dispatch(m->rt, 0);
    }
    if (m->done == RUNS) {
        uv_poll_stop(watch);
    }
}

static void libuv_drives_many_runs(void **state)
{
    fixture *f = *state;
    many m = { 0 };
    uv_loop_t loop;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "echo")));

    start_many(f, &m, agent);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_poll_init(&loop, &m.watch, waldo_runtime_fd(f->rt)), 0);
    m.watch.data = &m;
    assert_int_equal(uv_poll_start(&m.watch, UV_READABLE, uv_ready), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(m.done, RUNS);
    assert_int_equal(m.good, RUNS);
    uv_close((uv_handle_t *)&m.watch, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    waldo_agent_unref(agent);
}

/* A frame budget: dispatch comes back, and the descriptor says that there is more. */
static void dispatch_obeys_a_budget(void **state)
{
    fixture *f = *state;
    many m = { 0 };
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "echo")));
    int rounds = 0;

    start_many(f, &m, agent);
    while (m.done < RUNS) {
        struct pollfd fd = { waldo_runtime_fd(f->rt), POLLIN, 0 };

        assert_int_equal(poll(&fd, 1, 60000), 1);
        assert_int_equal(waldo_runtime_dispatch(f->rt, 1), WALDO_OK);
        rounds++;
    }
    assert_true(rounds > 10);
    assert_int_equal(m.good, RUNS);
    waldo_agent_unref(agent);
}

/* 8 MiB of text: pulling slowly stops the stream, not pulling at all loses nothing but events. */
static void a_long_answer_is_bounded_and_whole(void **state)
{
    enum { PIECES = 64, PIECE = 128 * 1024 };
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x")));
    size_t size = (size_t)PIECES * (PIECE + 4) + 64, len = 0, text = 0;
    char *reply = malloc(size);
    const waldo_event *event;
    waldo_run *run;

    len += (size_t)snprintf(reply, size, "[{\"pieces\":[");
    for (int i = 0; i < PIECES; i++) {
        len += (size_t)snprintf(reply + len, size - len, "%s\"", i > 0 ? "," : "");
        memset(reply + len, 'a' + i % 26, PIECE);
        len += PIECE;
        reply[len++] = '"';
    }
    snprintf(reply + len, size - len, "]}]");

    fixture_replies(f, reply);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        if (waldo_event_type(event) == WALDO_EVENT_TEXT) {
            text += waldo_event_text(event).len;
            assert_true(waldo_event_text(event).len <= 2 * 1024 * 1024);
        }
    }
    assert_int_equal(text, PIECES * PIECE);
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    assert_int_equal(strlen(waldo_run_text(run)), PIECES * PIECE);
    waldo_run_free(run);

    fixture_replies(f, reply);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(strlen(waldo_run_text(run)), PIECES * PIECE);
    waldo_run_free(run);

    /* Pulled once, then waited for with all others: its full queue must not stop it. */
    fixture_replies(f, reply);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_next(run, 60000, &event), WALDO_OK);
    assert_ptr_equal(waldo_runtime_next(f->rt, 60000), run);
    assert_int_equal(strlen(waldo_run_text(run)), PIECES * PIECE);
    free(reply);
    waldo_agent_unref(agent);
}

static void live_output_has_its_own_share(void **state)
{
    waldo__events events = { .observed = 1 };
    char block[4096];
    const waldo_event *event;
    size_t output = 0;
    char warning[128] = "";

    (void)state;
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 100; i++) {
        waldo__events_output(&events, "c1", "exec_command", 1, waldo__strn(block, sizeof block));
    }
    assert_false(waldo__events_full(&events));
    while ((event = waldo__events_pull(&events)) != NULL) {
        if (waldo_event_type(event) == WALDO_EVENT_OUTPUT) {
            output += waldo_event_text(event).len;
            assert_string_equal(waldo_event_call_id(event), "c1");
            assert_int_equal(waldo_event_stream(event), 1);
        } else {
            snprintf(warning, sizeof warning, "%s", waldo_event_text(event).ptr);
        }
    }
    assert_int_equal(output, 65536);
    assert_contains(warning, "344064 bytes"); /* the rest of the 100 blocks, exactly */
    waldo__events_free(&events);
}

static void streams_are_not_mixed(void **state)
{
    waldo__events events = { .observed = 1 };
    static const struct {
        const char *call;
        int stream;
        const char *text;
    } wanted[] = { { "c1", 1, "ab" }, { "c1", 2, "c" }, { "c2", 2, "d" }, { "c1", 1, "e" } };

    (void)state;
    waldo__events_output(&events, "c1", "t", 1, WALDO__S("a"));
    waldo__events_output(&events, "c1", "t", 1, WALDO__S("b"));
    waldo__events_output(&events, "c1", "t", 2, WALDO__S("c"));
    waldo__events_output(&events, "c2", "t", 2, WALDO__S("d"));
    waldo__events_output(&events, "c1", "t", 1, WALDO__S("e"));
    for (size_t i = 0; i < 4; i++) {
        const waldo_event *event = waldo__events_pull(&events);

        assert_string_equal(waldo_event_call_id(event), wanted[i].call);
        assert_int_equal(waldo_event_stream(event), wanted[i].stream);
        assert_string_equal(waldo_event_text(event).ptr, wanted[i].text);
    }
    assert_null(waldo__events_pull(&events));
    waldo__events_free(&events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(poll_drives_many_runs),         ROW(libuv_drives_many_runs),
        ROW(dispatch_obeys_a_budget),       ROW(a_long_answer_is_bounded_and_whole),
        ROW(live_output_has_its_own_share), ROW(streams_are_not_mixed),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
