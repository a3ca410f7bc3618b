/*
 * A stream that breaks while its machine goes on without a lease: with a hand that plays one, over
 * a channel in memory. A machine that does not say so is lost.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hand/wire.h"
#include "loop/loop.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"
#include <waldo/background.h>
#include <waldo/machine.h>

enum { JOBS_MAX = 4, REST_NS = 1100 * 1000000 };

static const waldo_backend_ops *fake;
static waldo_backend_ops stream;

/* A hand's side of one stream; what it says comes from the run queue. */
typedef struct wire {
    waldo_channel base;
    waldo_channel_events events;
    waldo__task task;
    struct inbuf in;
    waldo__buf out;
} wire;

/* The machine behind the streams, of which it hears one at a time. */
static struct {
    waldo__loop *loop;
    wire *now;
    uint32_t flags; /* describe says */
    int streams, refuse, closes, abandons, shutdowns;
    int paused, breaks; /* with a pause */
    int removed;        /* capture, before the shutdown */
    char capture[64];   /* the last one */
    uint32_t highest;
    struct {
        uint32_t id;
        int keeps;
        char label[24];
    } jobs[JOBS_MAX];
    size_t job_count;
    uint32_t attach_id; /* of the last JOB_ATTACH */
    uint32_t cancel_id; /* of the last CANCEL */
} machine;

/* ---- the hand ---- */

static void say(uint8_t type, uint32_t id, const void *payload, size_t len)
{
    uint8_t header[WALDO_HAND_HEADER_LEN];

    put_header(header, len, type, id);
    waldo__buf_add(&machine.now->out, header, sizeof header);
    waldo__buf_add(&machine.now->out, payload, len);
    waldo__task_queue(machine.loop, &machine.now->task);
}

static void greet(const struct frame *frame)
{
    struct hello hello = { .version = WALDO_HAND_VERSION,
                           .arch = WALDO_HAND_ARCH_X86_64,
                           .features = WALDO_HAND_FEATURE_JOBS | WALDO_HAND_FEATURE_LEASE,
                           .max_payload = WALDO_HAND_PAYLOAD_MAX,
                           .max_jobs = 64 };
    uint8_t bytes[WALDO_HAND_HELLO_LEN];

    memcpy(hello.nonce, frame->payload + 16, WALDO_HAND_NONCE_LEN);
    hello_encode(bytes, &hello);
    say(WALDO_HAND_HELLO, 0, bytes, sizeof bytes);
}

static void run(const struct frame *frame)
{
    struct fields fields;
    struct field field;
    static const uint8_t pid[WALDO_HAND_STARTED_LEN] = { 7 };
    size_t at = machine.job_count++;

    machine.highest = frame->id;
    machine.jobs[at].id = frame->id;
    fields_init(&fields, frame);
    while (fields_next(&fields, &field) == 1) {
        if (field.tag == WALDO_HAND_F_FLAGS) {
            machine.jobs[at].keeps = (get_u32(field.ptr) & WALDO_HAND_RUN_KEEP) != 0;
        } else if (field.tag == WALDO_HAND_F_CAPTURE_PATH) {
            snprintf(machine.capture, sizeof machine.capture, "%.*s", (int)field.len,
                     (const char *)field.ptr);
        } else if (field.tag == WALDO_HAND_F_LABEL) {
            snprintf(machine.jobs[at].label, sizeof machine.jobs[at].label, "%.*s", (int)field.len,
                     (const char *)field.ptr);
        }
    }
    say(WALDO_HAND_STARTED, frame->id, pid, sizeof pid);
}

static void list(uint32_t id)
{
    uint8_t bytes[WALDO_HAND_JOB_LEN + 24];
    uint8_t done[WALDO_HAND_DONE_LEN];

    for (size_t i = 0; i < machine.job_count; i++) {
        size_t len = strlen(machine.jobs[i].label);

        job_encode(bytes, machine.jobs[i].id, 0, 0, NULL);
        memcpy(bytes + WALDO_HAND_JOB_LEN, machine.jobs[i].label, len);
        say(WALDO_HAND_JOB, id, bytes, WALDO_HAND_JOB_LEN + len);
    }
    done_encode(done, 0, 0, 0, machine.highest);
    say(WALDO_HAND_DONE, id, done, sizeof done);
}

static void remove_file(const struct frame *frame)
{
    uint8_t done[WALDO_HAND_DONE_LEN];
    struct fields fields;
    struct field field;

    fields_init(&fields, frame);
    while (fields_next(&fields, &field) == 1) {
        if (field.tag == WALDO_HAND_F_PATH) {
            machine.removed += machine.capture[0] != '\0' && field.len == strlen(machine.capture) &&
                               memcmp(field.ptr, machine.capture, field.len) == 0;
        }
    }
    done_encode(done, 2, WALDO_HAND_WHERE_PATH, 0, 0);
    say(WALDO_HAND_DONE, frame->id, done, sizeof done);
}

static void hear(const struct frame *frame)
{
    if (frame->type == WALDO_HAND_HELLO) {
        greet(frame);
    } else if (frame->type == WALDO_HAND_RUN) {
        run(frame);
    } else if (frame->type == WALDO_HAND_JOB_LIST) {
        list(frame->id);
    } else if (frame->type == WALDO_HAND_JOB_ATTACH) {
        machine.attach_id = frame->id;
    } else if (frame->type == WALDO_HAND_CANCEL) {
        machine.cancel_id = frame->id;
    } else if (frame->type == WALDO_HAND_REMOVE) {
        remove_file(frame);
    } else if (frame->type == WALDO_HAND_SHUTDOWN) {
        uint8_t done[WALDO_HAND_DONE_LEN];

        machine.shutdowns++;
        done_encode(done, 0, 0, 0, 0);
        say(WALDO_HAND_DONE, frame->id, done, sizeof done);
    }
}

/* A command is over. */
static void exit_job(uint32_t id, int code)
{
    const struct exit_info info = { .how = WALDO_HAND_HOW_EXITED, .value = code };
    uint8_t bytes[WALDO_HAND_EXIT_LEN];
    uint8_t done[WALDO_HAND_DONE_LEN];

    exit_encode(bytes, &info);
    say(WALDO_HAND_EXIT, id, bytes, sizeof bytes);
    if (machine.attach_id != 0) {
        done_encode(done, 0, 0, 0, 0);
        say(WALDO_HAND_DONE, machine.attach_id, done, sizeof done);
    }
}

/* The network is gone; a hand that goes on drops what is not kept. */
static void break_stream(void)
{
    wire *w = machine.now;
    size_t kept = 0;

    for (size_t i = 0; i < machine.job_count; i++) {
        if (machine.jobs[i].keeps) {
            machine.jobs[kept++] = machine.jobs[i];
        }
    }
    machine.job_count = kept;
    machine.attach_id = 0;
    w->events.on_closed(w->events.userdata, WALDO_ELOST, NULL);
}

/* ---- the channel ---- */

static void tell(void *userdata)
{
    wire *w = userdata;
    size_t len;
    char *bytes = waldo__buf_take(&w->out, &len);

    waldo__buf_init(&w->out, 1 << 20);
    w->events.on_bytes(w->events.userdata, waldo__strn(bytes, len));
    waldo__free(bytes);
}

static void wire_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    ((wire *)channel)->events = *events;
}

static waldo_status wire_send(waldo_channel *channel, waldo_str bytes)
{
    wire *w = (wire *)channel;
    struct frame frame;
    size_t room;
    uint8_t *space = inbuf_space(&w->in, &room);

    assert_true(bytes.len <= room);
    memcpy(space, bytes.ptr, bytes.len);
    inbuf_added(&w->in, bytes.len);
    while (inbuf_next(&w->in, &frame) == 1) {
        hear(&frame);
    }
    return WALDO_OK;
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
    wire *w = (wire *)channel;

    waldo__task_cancel(machine.loop, &w->task);
    waldo__buf_free(&w->out);
    machine.now = NULL;
    waldo__free(w);
}

static const waldo_channel_ops wire_ops = { .version = WALDO_BACKEND_VERSION,
                                            .size = sizeof wire_ops,
                                            .listen = wire_listen,
                                            .send = wire_send,
                                            .queued = wire_queued,
                                            .pause = wire_pause,
                                            .close = wire_close };

/* ---- the backend ---- */

static waldo_status stream_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                                waldo_str saved, const waldo_backend_call *call,
                                waldo_backend_done_fn done, waldo_machine **ret_machine,
                                waldo_error **ret_err)
{
    machine.loop = env->loop;
    return fake->open(env, spec, saved, call, done, ret_machine, ret_err);
}

static struct {
    waldo__task task;
    waldo_backend_channel_fn done;
    void *userdata;
} wanted;

static void give_channel(void *userdata)
{
    wire *w;

    (void)userdata;
    if (machine.refuse) {
        wanted.done(wanted.userdata, WALDO_EUNAVAILABLE, NULL, NULL);
        return;
    }
    w = WALDO__NEW(wire);
    w->base.ops = &wire_ops;
    waldo__buf_init(&w->out, 1 << 20);
    waldo__task_init(&w->task, tell, w);
    machine.now = w;
    machine.streams++;
    wanted.done(wanted.userdata, WALDO_OK, &w->base, NULL);
}

static void stream_channel(waldo_machine *of, const waldo_backend_call *call,
                           waldo_backend_channel_fn done)
{
    (void)of;
    wanted.done = done;
    wanted.userdata = call->userdata;
    waldo__task_init(&wanted.task, give_channel, NULL);
    waldo__task_queue(machine.loop, &wanted.task);
}

static void stream_describe(const waldo_machine *of, waldo_machine_info *ret_info)
{
    (void)of;
    ret_info->flags = machine.flags;
}

static void stream_close(waldo_machine *of, const waldo_backend_call *call,
                         waldo_backend_done_fn done)
{
    machine.closes++;
    waldo__task_cancel(machine.loop, &wanted.task);
    fake->close(of, call, done);
}

static void stream_abandon(waldo_machine *of)
{
    machine.abandons++;
    waldo__task_cancel(machine.loop, &wanted.task);
    fake->abandon(of);
}

static struct {
    waldo__task task;
    waldo_backend_done_fn done;
    void *userdata;
} asked;

static void answer(void *userdata)
{
    (void)userdata;
    if (machine.paused && machine.breaks) {
        break_stream();
    }
    asked.done(asked.userdata, WALDO_OK, NULL);
}

static void set_paused(int paused, const waldo_backend_call *call, waldo_backend_done_fn done)
{
    machine.paused = paused;
    asked.done = done;
    asked.userdata = call->userdata;
    waldo__task_init(&asked.task, answer, NULL);
    waldo__task_queue(machine.loop, &asked.task);
}

static void stream_pause(waldo_machine *of, const waldo_backend_call *call,
                         waldo_backend_done_fn done)
{
    (void)of;
    set_paused(1, call, done);
}

static void stream_resume(waldo_machine *of, const waldo_backend_call *call,
                          waldo_backend_done_fn done)
{
    (void)of;
    set_paused(0, call, done);
}

static int add_backend(void **state)
{
    (void)state;
    fake = waldo__backend_find(waldo__str("fake"));
    stream = *fake;
    stream.name = "stream";
    stream.caps = WALDO_BACKEND_CHANNEL | WALDO_BACKEND_SEPARATE | WALDO_BACKEND_PAUSE;
    stream.pause = stream_pause;
    stream.resume = stream_resume;
    stream.open = stream_open;
    stream.channel = stream_channel;
    stream.describe = stream_describe;
    stream.close = stream_close;
    stream.abandon = stream_abandon;
    return waldo_backend_register(&stream, NULL) != WALDO_OK;
}

/* ---- one sandbox with a plain and a background command ---- */

typedef struct told {
    int done;
    waldo_status status;
    int end, code;
    char text[512];
} told;

typedef struct host {
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
    waldo__sandbox_listener listener;
    char news[256];
    told plain;
    int64_t number;
} host;

static void on_news(void *userdata, const char *what, const char *text)
{
    host *h = userdata;
    size_t used = strlen(h->news);

    (void)text;
    snprintf(h->news + used, sizeof h->news - used, "%s ", what);
}

static void take(told *t, waldo_status status, const waldo_exec_result *result,
                 const waldo_error *error)
{
    t->done++;
    t->status = status;
    t->end = result != NULL ? (int)result->end : 0;
    t->code = result != NULL ? (int)result->exit_code : -1;
    snprintf(t->text, sizeof t->text, "%s", waldo_error_message(error));
}

static void on_ended(void *userdata, waldo_status status, const waldo_exec_result *result,
                     const waldo_error *error)
{
    take(userdata, status, result, error);
}

static void on_read(void *userdata, waldo_status status, const waldo_background_news *news,
                    const waldo_error *error)
{
    take(userdata, status, news != NULL ? news->result : NULL, error);
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    take(userdata, status, NULL, error);
}

static void step(host *h)
{
    assert_int_equal(waldo_runtime_step(h->rt, 60000), WALDO_OK);
}

static void wait_for(host *h, const told *t)
{
    while (!t->done) {
        step(h);
    }
    assert_int_equal(t->done, 1);
}

static void wait_for_news(host *h, const char *word)
{
    while (strstr(h->news, word) == NULL) {
        step(h);
    }
}

static int64_t idle_ms; /* of the recipe */

static void begin(host *h, uint32_t flags)
{
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("stream:"), .idle_ms = idle_ms));
    told open = { 0 };
    int64_t rested;

    memset(&machine, 0, sizeof machine);
    machine.flags = flags;
    memset(h, 0, sizeof *h);
    h->rt = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_ERROR));
    h->sandbox = waldo_sandbox_new(h->rt, spec);
    waldo_sandbox_spec_unref(spec);
    h->listener = (waldo__sandbox_listener){ .fn = on_news, .userdata = h };
    waldo__sandbox_listen(h->sandbox, &h->listener);
    waldo_sandbox_open(h->sandbox, on_done, &open);
    wait_for(h, &open);
    assert_int_equal(open.status, WALDO_OK);
    rested = waldo__now_ns() + REST_NS;
    assert_int_equal(waldo_sandbox_exec(h->sandbox, &WALDO_EXEC(.cmd = "plain"), on_ended,
                                        &h->plain, NULL, NULL),
                     WALDO_OK);
    assert_int_equal(
        waldo_background_start(h->sandbox, &WALDO_EXEC(.cmd = "kept"), &h->number, NULL), WALDO_OK);
    assert_int_equal(machine.job_count, 2);
    assert_string_equal(machine.jobs[0].label, "");
    /* A stream that breaks at once is not tried again. */
    while (waldo__now_ns() < rested) {
        waldo_runtime_step(h->rt, (rested - waldo__now_ns()) / 1000000 + 1);
    }
}

static void finish(host *h)
{
    waldo__sandbox_unlisten(h->sandbox, &h->listener);
    waldo_sandbox_unref(h->sandbox);
    waldo_runtime_finish(h->rt);
}

/* ---- the cases ---- */

static void goes_on_without_a_lease(void **state)
{
    host h;
    told read = { 0 };
    told after = { 0 };
    waldo_background_info info;

    (void)state;
    begin(&h, WALDO_MACHINE_REJOINS);
    assert_string_equal(machine.jobs[1].label, "1");
    break_stream();
    wait_for(&h, &h.plain);
    assert_int_equal(h.plain.end, WALDO_EXEC_LOST);
    wait_for_news(&h, "rejoined");
    assert_null(strstr(h.news, "lost"));
    assert_int_equal(machine.streams, 2);
    assert_int_equal(waldo_background_list(h.sandbox, &info, 1), 1);
    assert_true(info.running);
    assert_int_equal(
        waldo_background_read(h.sandbox, h.number, 0, 100, 60000, on_read, &read, NULL, NULL),
        WALDO_OK);
    exit_job(machine.jobs[0].id, 5);
    wait_for(&h, &read);
    assert_int_equal(read.status, WALDO_OK);
    assert_int_equal(read.end, WALDO_EXEC_EXITED);
    assert_int_equal(read.code, 5);
    assert_int_equal(
        waldo_sandbox_exec(h.sandbox, &WALDO_EXEC(.cmd = "next"), on_ended, &after, NULL, NULL),
        WALDO_OK);
    assert_true(machine.highest > machine.jobs[0].id);
    machine.attach_id = 0;
    exit_job(machine.highest, 0);
    wait_for(&h, &after);
    assert_int_equal(after.status, WALDO_OK);
    finish(&h);
    assert_int_equal(machine.closes, 1);
}

/* Nobody uses it after that: its idle time runs; more of it where there is no stream by its end. */
static void idle_behind_a_broken_stream(void **state)
{
    static const int64_t idles_ms[] = { 50, 5000, 20000 };
    int rejoined = 0;

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(idles_ms) && !rejoined; i++) {
        host h;
        told read = { 0 };

        idle_ms = idles_ms[i];
        begin(&h, WALDO_MACHINE_REJOINS);
        idle_ms = 0;
        waldo_background_read(h.sandbox, h.number, 0, 100, 60000, on_read, &read, NULL, NULL);
        exit_job(machine.jobs[1].id, 0);
        wait_for(&h, &read);
        break_stream();
        wait_for(&h, &h.plain);
        wait_for_news(&h, "closed");
        rejoined = strstr(h.news, "rejoined ") != NULL;
        assert_int_equal(machine.closes, 1);
        finish(&h);
    }
    assert_true(rejoined);
}

/* What is asked for while no stream is there is done when one is. */
static void cancelled_behind_a_broken_stream(void **state)
{
    host h;
    told read = { 0 };

    (void)state;
    begin(&h, WALDO_MACHINE_REJOINS);
    break_stream();
    assert_int_equal(waldo_background_signal(h.sandbox, h.number, 15), WALDO_EBUSY);
    waldo_background_cancel(h.sandbox, h.number);
    wait_for_news(&h, "rejoined");
    assert_int_equal(machine.cancel_id, machine.jobs[0].id);
    waldo_background_read(h.sandbox, h.number, 0, 100, 60000, on_read, &read, NULL, NULL);
    exit_job(machine.jobs[0].id, 0);
    wait_for(&h, &read);
    finish(&h);
}

static void lost_unless_it_says_so(void **state)
{
    host h;
    told read = { 0 };

    (void)state;
    begin(&h, 0);
    assert_string_equal(machine.jobs[1].label, "");
    break_stream();
    wait_for(&h, &h.plain);
    assert_int_equal(h.plain.end, WALDO_EXEC_LOST);
    wait_for_news(&h, "lost");
    assert_int_equal(machine.streams, 1);
    waldo_background_read(h.sandbox, h.number, 0, 100, 0, on_read, &read, NULL, NULL);
    wait_for(&h, &read);
    assert_int_equal(read.end, WALDO_EXEC_LOST);
    finish(&h);
    assert_int_equal(machine.closes, 1);
}

/* Nor is another way than a hand tried for a machine that had one. */
static void lost_when_it_cannot_be_reached(void **state)
{
    host h;
    told read = { 0 };
    told next = { 0 };

    (void)state;
    begin(&h, WALDO_MACHINE_REJOINS);
    machine.refuse = 1;
    break_stream();
    waldo_sandbox_open(h.sandbox, on_done, &next); /* waits for the new stream */
    wait_for(&h, &next);
    assert_int_equal(next.status, WALDO_ELOST);
    assert_non_null(strstr(next.text, "nor can it be reached again"));
    waldo_background_read(h.sandbox, h.number, 0, 100, 0, on_read, &read, NULL, NULL);
    wait_for(&h, &read);
    assert_int_equal(read.status, WALDO_OK);
    assert_int_equal(read.end, WALDO_EXEC_LOST);
    finish(&h);
    assert_int_equal(machine.closes, 1);
}

static void closed_while_it_is_reached(void **state)
{
    host h;

    (void)state;
    begin(&h, WALDO_MACHINE_REJOINS);
    break_stream();
    finish(&h); /* a second stream that comes is closed */
    assert_null(machine.now);
    assert_int_equal(machine.closes, 1);
    assert_int_equal(machine.abandons, 0);
}

static waldo_status pause_it(host *h)
{
    told t = { 0 };

    waldo_sandbox_pause(h->sandbox, on_done, &t);
    wait_for(h, &t);
    return t.status;
}

/* By the provider's pause, or for another reason while it lasts. */
static void stream_that_ends_with_a_pause(void **state)
{
    (void)state;
    for (int breaks = 0; breaks < 2; breaks++) {
        host h;
        told read = { 0 };
        told after = { 0 };

        begin(&h, WALDO_MACHINE_REJOINS);
        exit_job(machine.jobs[0].id, 0);
        wait_for(&h, &h.plain);
        machine.jobs[0] = machine.jobs[1];
        machine.job_count = 1;
        machine.breaks = breaks;
        assert_int_equal(pause_it(&h), WALDO_OK);
        if (!breaks) {
            break_stream();
        }
        assert_int_equal(waldo_runtime_step(h.rt, 0), WALDO_OK);
        assert_int_equal(machine.streams, 1);
        waldo_sandbox_exec(h.sandbox, &WALDO_EXEC(.cmd = "next"), on_ended, &after, NULL, NULL);
        while (machine.job_count < 2) {
            step(&h);
        }
        assert_int_equal(machine.paused, 0);
        assert_int_equal(machine.streams, 2);
        assert_null(strstr(h.news, "lost"));
        assert_non_null(strstr(h.news, "paused rejoined "));
        exit_job(machine.highest, 0);
        wait_for(&h, &after);
        assert_int_equal(after.end, WALDO_EXEC_EXITED);
        waldo_background_read(h.sandbox, h.number, 0, 100, 60000, on_read, &read, NULL, NULL);
        exit_job(machine.jobs[0].id, 5);
        wait_for(&h, &read);
        assert_int_equal(read.code, 5);
        finish(&h);
    }
}

static void lost_while_paused(void **state)
{
    host h;
    told next = { 0 };

    (void)state;
    begin(&h, 0);
    exit_job(machine.jobs[0].id, 0);
    wait_for(&h, &h.plain);
    assert_int_equal(pause_it(&h), WALDO_OK);
    break_stream();
    wait_for_news(&h, "lost");
    waldo_sandbox_resume(h.sandbox, on_done, &next);
    wait_for(&h, &next);
    assert_int_equal(next.status, WALDO_ELOST);
    assert_int_equal(pause_it(&h), WALDO_ELOST);
    finish(&h);
    assert_int_equal(machine.closes, 1);
}

/* One that was made elsewhere goes on: before it is let go, what was brought in ends. */
static void foreign_one_keeps_no_hand(void **state)
{
    host h;
    told much = { 0 };

    (void)state;
    begin(&h, WALDO_MACHINE_REJOINS | WALDO_MACHINE_FOREIGN);
    exit_job(machine.jobs[0].id, 0);
    exit_job(machine.jobs[1].id, 0);
    wait_for(&h, &h.plain);
    waldo_sandbox_exec(h.sandbox, &WALDO_EXEC(.cmd = "much", .max_capture = 100), on_ended, &much,
                       NULL, NULL);
    exit_job(machine.highest, 0);
    wait_for(&h, &much);
    assert_int_equal(machine.shutdowns, 0);
    finish(&h);
    assert_int_equal(machine.shutdowns, 1);
    assert_true(strlen(machine.capture) > 0);
    assert_int_equal(machine.removed, 1);
    assert_int_equal(machine.closes, 1);
    begin(&h, WALDO_MACHINE_REJOINS | WALDO_MACHINE_FOREIGN);
    waldo__sandbox_abandon(h.sandbox);
    assert_int_equal(machine.shutdowns, 1);
    assert_int_equal(machine.abandons, 1);
    finish(&h);
    begin(&h, 0);
    exit_job(machine.jobs[0].id, 0);
    exit_job(machine.jobs[1].id, 0);
    finish(&h);
    assert_int_equal(machine.shutdowns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_without_a_lease),
        cmocka_unit_test(idle_behind_a_broken_stream),
        cmocka_unit_test(cancelled_behind_a_broken_stream),
        cmocka_unit_test(lost_unless_it_says_so),
        cmocka_unit_test(lost_when_it_cannot_be_reached),
        cmocka_unit_test(closed_while_it_is_reached),
        cmocka_unit_test(foreign_one_keeps_no_hand),
        cmocka_unit_test(stream_that_ends_with_a_pause),
        cmocka_unit_test(lost_while_paused),
    };

    return !!cmocka_run_group_tests(tests, add_backend, NULL);
}
