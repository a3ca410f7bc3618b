/*
 * Spares, with the backend's calls counted and made to fail: two backends are registered once more
 * under other names, the one in memory as silent: and the local one as counted:.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sandbox/live.h"
#include "sandbox/registry.h"

enum { PATIENCE_MS = 60000 };

static const waldo_backend_ops *fake;
static const waldo_backend_ops *local;
static int opens, ends;
static int fail_from; /* opens from this one on fail; 0: none */

static waldo_status counted_open(const waldo_backend_ops *inner, const waldo_backend_env *env,
                                 const waldo_backend_spec *spec, waldo_str saved,
                                 const waldo_backend_call *call, waldo_backend_done_fn done,
                                 waldo_machine **ret_machine, waldo_error **ret_err)
{
    opens++;
    if (fail_from > 0 && opens >= fail_from) {
        return waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                               "as the test asks");
    }
    return inner->open(env, spec, saved, call, done, ret_machine, ret_err);
}

static waldo_status fake_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                              waldo_str saved, const waldo_backend_call *call,
                              waldo_backend_done_fn done, waldo_machine **ret_machine,
                              waldo_error **ret_err)
{
    return counted_open(fake, env, spec, saved, call, done, ret_machine, ret_err);
}

static void fake_close(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    ends++;
    fake->close(machine, call, done);
}

static void fake_abandon(waldo_machine *machine)
{
    ends++;
    fake->abandon(machine);
}

static waldo_status local_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                               waldo_str saved, const waldo_backend_call *call,
                               waldo_backend_done_fn done, waldo_machine **ret_machine,
                               waldo_error **ret_err)
{
    return counted_open(local, env, spec, saved, call, done, ret_machine, ret_err);
}

/* ---- channels that can be cut ---- */

typedef struct cut {
    waldo_channel base;
    waldo_channel *inner;
    waldo_channel_events events;
} cut;

static enum { WORKS, REFUSES, SWALLOWS } sending;
static cut *newest; /* the channel of the machine that was opened last */
static waldo_backend_channel_fn waiting;

static void cut_listen(waldo_channel *channel, const waldo_channel_events *events)
{
    cut *c = (cut *)channel;

    c->events = *events;
    c->inner->ops->listen(c->inner, events);
}

static waldo_status cut_send(waldo_channel *channel, waldo_str bytes)
{
    cut *c = (cut *)channel;

    if (sending == REFUSES && c == newest) {
        return WALDO_ECLOSED;
    }
    return sending == SWALLOWS && c == newest ? WALDO_OK : c->inner->ops->send(c->inner, bytes);
}

static size_t cut_queued(const waldo_channel *channel)
{
    const cut *c = (const cut *)channel;

    return c->inner->ops->queued(c->inner);
}

static void cut_pause(waldo_channel *channel, int paused)
{
    cut *c = (cut *)channel;

    c->inner->ops->pause(c->inner, paused);
}

static void cut_close(waldo_channel *channel)
{
    cut *c = (cut *)channel;

    c->inner->ops->close(c->inner);
    newest = newest == c ? NULL : newest;
    free(c);
}

static const waldo_channel_ops cut_ops = { .version = WALDO_BACKEND_VERSION,
                                           .size = sizeof(waldo_channel_ops),
                                           .listen = cut_listen,
                                           .send = cut_send,
                                           .queued = cut_queued,
                                           .pause = cut_pause,
                                           .close = cut_close };

static void got_channel(void *userdata, waldo_status status, waldo_channel *channel,
                        const waldo_error *error)
{
    if (status == WALDO_OK) {
        newest = calloc(1, sizeof *newest);
        newest->base.ops = &cut_ops;
        newest->inner = channel;
        channel = &newest->base;
        sending = WORKS;
    }
    waiting(userdata, status, channel, error);
}

static void local_channel(waldo_machine *machine, const waldo_backend_call *call,
                          waldo_backend_channel_fn done)
{
    waiting = done; /* one channel is opened at a time here */
    local->channel(machine, call, got_channel);
}

/* ---- what the cases share ---- */

typedef struct outcome {
    int count;
    waldo_status status;
    int opens; /* so many there had been */
} outcome;

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    outcome *out = userdata;

    (void)error;
    out->count++;
    out->status = status;
    out->opens = opens;
}

static waldo_sandbox *open_new(waldo_runtime *rt, const char *text, outcome *ret_out)
{
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);

    waldo_sandbox_spec_unref(spec);
    *ret_out = (outcome){ 0 };
    waldo_sandbox_open(sandbox, took_done, ret_out);
    while (ret_out->count == 0) {
        assert_int_equal(waldo_runtime_step(rt, PATIENCE_MS), WALDO_OK);
    }
    return sandbox;
}

static waldo_sandbox *spare_of(waldo_runtime *rt, int with_machine)
{
    const waldo__sandbox_node *head = waldo__runtime_sandboxes(rt);

    for (waldo__sandbox_node *node = head->next; node != head; node = node->next) {
        waldo_sandbox *other = waldo__sandbox_of_node(node);

        if (other->is_spare && (with_machine ? other->state == WALDO__LIVE_OPEN
                                             : other->state < WALDO__LIVE_PREPARING)) {
            return other;
        }
    }
    return NULL;
}

static void wait_for_spare(waldo_runtime *rt)
{
    while (spare_of(rt, 1) == NULL) {
        assert_int_equal(waldo_runtime_step(rt, PATIENCE_MS), WALDO_OK);
    }
}

static int begin(void **state)
{
    opens = ends = fail_from = 0;
    sending = WORKS;
    *state = waldo_runtime_new(NULL);
    return *state == NULL;
}

/* ---- cases ---- */

static void no_open_is_on_the_way_of_the_next(void **state)
{
    waldo_runtime *rt = *state;
    waldo_sandbox *boxes[5];
    outcome out;

    boxes[0] = open_new(rt, "silent:,spares=1", &out);
    assert_int_equal(out.opens, 1);
    for (int i = 1; i < 5; i++) {
        wait_for_spare(rt);
        assert_int_equal(opens, i + 1);
        boxes[i] = open_new(rt, "silent:,spares=1", &out);
        assert_int_equal(out.status, WALDO_OK);
        assert_int_equal(out.opens, i + 1);
    }
    for (int i = 0; i < 5; i++) {
        waldo_sandbox_unref(boxes[i]);
    }
    waldo_runtime_finish(rt);
    assert_int_equal(ends, opens);
}

static void spares_that_fail_disturb_nobody(void **state)
{
    waldo_runtime *rt = *state;
    int64_t begun = waldo__now_ns();
    waldo_sandbox *first, *second;
    outcome out;
    int failed;

    fail_from = 2;
    first = open_new(rt, "silent:,spares=3", &out);
    while (spare_of(rt, 0)->failures == 0) {
        waldo_runtime_step(rt, 50);
    }
    for (int i = 0; i < 20; i++) {
        waldo_runtime_step(rt, 5);
    }
    /* Tried once, and not again at once: at most once more in each second. */
    failed = opens - 1;
    assert_true(failed - 1 <= (waldo__now_ns() - begun) / WALDO__NS_PER_S);
    assert_null(spare_of(rt, 1));
    assert_int_equal(spare_of(rt, 0)->failures, failed);
    fail_from = 0;
    second = open_new(rt, "silent:,spares=3", &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_true(out.opens == failed + 2 || waldo__now_ns() - begun >= WALDO__NS_PER_S);
    wait_for_spare(rt); /* a second later */
    assert_int_equal(spare_of(rt, 1)->failures, 0);
    waldo_sandbox_unref(first);
    waldo_sandbox_unref(second);
    waldo_runtime_finish(rt);
    assert_int_equal(ends, opens - failed);
}

static void a_spare_that_always_fails_is_given_up(void **state)
{
    waldo_runtime *rt = *state;
    waldo_sandbox *first;
    waldo_sandbox *spare;
    outcome out;

    fail_from = 2;
    first = open_new(rt, "silent:,spares=1", &out);
    while ((spare = spare_of(rt, 0)) == NULL || spare->failures == 0) {
        waldo_runtime_step(rt, 5);
    }
    spare->failures = 100; /* as if time had passed */
    while (spare_of(rt, 0) != NULL) {
        assert_int_equal(waldo_runtime_step(rt, PATIENCE_MS), WALDO_OK);
    }
    waldo_sandbox_unref(first);
    waldo_runtime_finish(rt);
    assert_int_equal(ends, 1);
}

static void a_failing_next_entry_is_not_tried_for_spares(void **state)
{
    waldo_runtime *rt = *state;
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("silent:", "fake:"), .spares = 1));
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    outcome out = { 0 };

    waldo_sandbox_spec_unref(spec);
    fail_from = 1;
    waldo_sandbox_open(sandbox, took_done, &out);
    while (out.count == 0) {
        waldo_runtime_step(rt, PATIENCE_MS);
    }
    assert_string_equal(waldo_sandbox_backend(sandbox), "fake");
    wait_for_spare(rt);
    assert_int_equal(opens, 1); /* the spare is of the entry that works */
    waldo_sandbox_unref(sandbox);
    waldo_runtime_finish(rt);
}

static void freeing_the_runtime_ends_them_at_once(void **state)
{
    waldo_runtime *rt = *state;
    outcome out;
    waldo_sandbox *sandbox = open_new(rt, "silent:,spares=2", &out);

    wait_for_spare(rt);
    waldo_sandbox_unref(sandbox);
    waldo_runtime_free(rt);
    assert_int_equal(ends, opens);
}

static void a_spare_that_dies_is_replaced(void **state)
{
    waldo_runtime *rt = *state;
    waldo_sandbox *first, *second;
    outcome out;

    first = open_new(rt, "counted:,spares=1", &out);
    wait_for_spare(rt);
    newest->events.on_closed(newest->events.userdata, WALDO_ELOST, NULL);
    assert_null(spare_of(rt, 1));
    assert_int_equal(spare_of(rt, 0)->failures, 1);
    wait_for_spare(rt);
    assert_int_equal(opens, 3);
    second = open_new(rt, "counted:,spares=1", &out);
    assert_int_equal(out.opens, 3);
    waldo_sandbox_unref(first);
    waldo_sandbox_unref(second);
    waldo_runtime_finish(rt);
}

/* Nobody has heard of its end when it is taken. */
static void a_dead_spare_is_not_given_to_anybody(void **state)
{
    static const int ways[] = { REFUSES, SWALLOWS };
    outcome out;

    for (int i = 0; i < 2; i++) {
        waldo_runtime *rt = *state != NULL ? *state : waldo_runtime_new(NULL);
        waldo_sandbox *first = open_new(rt, "counted:,spares=1", &out);
        waldo_sandbox *second;
        waldo_exec_result *result = NULL;

        *state = NULL;
        wait_for_spare(rt);
        opens = 0;
        sending = ways[i];
        second = open_new(rt, "counted:,spares=1", &out);
        assert_int_equal(out.status, WALDO_OK);
        assert_int_equal(out.opens, 1);
        assert_int_equal(waldo_sandbox_exec_wait(second, &WALDO_EXEC(.argv = WALDO_STRINGS("true")),
                                                 &result, NULL),
                         WALDO_OK);
        waldo_exec_result_free(result);
        waldo_sandbox_unref(first);
        waldo_sandbox_unref(second);
        waldo_runtime_finish(rt);
    }
}

static void bad_numbers_are_refused(void **state)
{
    static const char *const texts[] = { "silent:,spares=17", "silent:,spares=-1",
                                         "silent:,spares=x", "silent:,spares=" };
    waldo_sandbox_spec *spec;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(texts[i])));
        assert_int_equal(waldo_error_status(waldo_sandbox_spec_error(spec)), WALDO_EINVAL);
        assert_non_null(strstr(waldo_error_message(waldo_sandbox_spec_error(spec)), "0 to 16"));
        waldo_sandbox_spec_unref(spec);
    }
    spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("silent:"), .spares = 17));
    assert_int_equal(waldo_error_status(waldo_sandbox_spec_error(spec)), WALDO_EINVAL);
    waldo_sandbox_spec_unref(spec);
    for (int i = 0; i < 2 && waldo__backend_find(WALDO__S("docker")) != NULL; i++) {
        const char *text = i == 0 ? "docker:x,spares=1,lease=60" : "docker:x,spares=1,name=lab";

        spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
        assert_int_equal(waldo_error_status(waldo_sandbox_spec_error(spec)), WALDO_EINVAL);
        assert_non_null(strstr(waldo_error_message(waldo_sandbox_spec_error(spec)), "no spares"));
        waldo_sandbox_spec_unref(spec);
    }
    waldo_runtime_free(*state);
}

static int register_both(void **state)
{
    static waldo_backend_ops silent, counted;

    (void)state;
    fake = waldo__backend_find(WALDO__S("fake"));
    local = waldo__backend_find(WALDO__S("local"));
    if (fake == NULL || local == NULL) {
        return -1;
    }
    silent = *fake;
    silent.name = "silent";
    silent.open = fake_open;
    silent.close = fake_close;
    silent.abandon = fake_abandon;
    counted = *local;
    counted.name = "counted";
    counted.open = local_open;
    counted.channel = local_channel;
    return waldo_backend_register(&silent, NULL) == WALDO_OK &&
                   waldo_backend_register(&counted, NULL) == WALDO_OK
               ? 0
               : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_open_is_on_the_way_of_the_next, begin),
        cmocka_unit_test_setup(spares_that_fail_disturb_nobody, begin),
        cmocka_unit_test_setup(a_spare_that_always_fails_is_given_up, begin),
        cmocka_unit_test_setup(a_failing_next_entry_is_not_tried_for_spares, begin),
        cmocka_unit_test_setup(freeing_the_runtime_ends_them_at_once, begin),
        cmocka_unit_test_setup(a_spare_that_dies_is_replaced, begin),
        cmocka_unit_test_setup(a_dead_spare_is_not_given_to_anybody, begin),
        cmocka_unit_test_setup(bad_numbers_are_refused, begin),
    };

    return !!cmocka_run_group_tests(tests, register_both, NULL);
}
