/* A machine that a provider runs: its time, what is told of it, and who ends it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/cloud.h"
#include "base/buf.h"
#include <waldo/error.h>

struct waldo_machine {
    waldo__cloud cloud;
};

static struct {
    waldo__loop *loop;
    waldo_machine machine;
    char asked[128];
    int done;
    waldo_status status;
    char message[64];
    char text[512];
} s;

static void note(const char *text)
{
    size_t len = strlen(s.asked);

    snprintf(s.asked + len, sizeof s.asked - len, "%s ", text);
}

#define FN(name)                                                                                   \
    static void on_##name(waldo_machine *machine)                                                  \
    {                                                                                              \
        assert_ptr_equal(machine, &s.machine);                                                     \
        note(#name);                                                                               \
    }

FN(extend)
FN(leave)
FN(discard)
FN(end)
FN(quiet)
FN(free)

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    assert_ptr_equal(userdata, &s);
    s.done++;
    s.status = status;
    snprintf(s.message, sizeof s.message, "%s", waldo_error_message(error));
}

static void on_text(void *userdata, waldo_status status, waldo_str bytes, const waldo_error *error)
{
    on_done(userdata, status, error);
    snprintf(s.text, sizeof s.text, "%.*s", (int)bytes.len, bytes.ptr);
}

static waldo_backend_env env;
static const waldo_backend_call call = { .size = sizeof call,
                                         .deadline_ns = INT64_MAX,
                                         .userdata = &s };

static int begin(void **state)
{
    static const waldo__cloud_fns fns = {
        on_extend, on_leave, on_discard, on_end, on_quiet, on_free
    };
    static const waldo__finder_fns none;
    const waldo_backend_spec spec = { .size = sizeof spec, .id = "run1" };

    (void)state;
    memset(&s, 0, sizeof s);
    assert_int_equal(waldo__loop_new(&s.loop, NULL), WALDO_OK);
    env = (waldo_backend_env){ .size = sizeof env, .loop = s.loop };
    waldo__cloud_init(&s.machine.cloud, &env, &fns);
    assert_int_equal(waldo__finder_init(&s.machine.cloud.finder, s.loop, "cloud", &none, &s.machine,
                                        &spec, WALDO__S(""), NULL),
                     WALDO_OK);
    waldo__take_word(s.machine.cloud.finder.id, WALDO__S("id1"));
    s.machine.cloud.finder.made = 1;
    waldo__cloud_begin(&s.machine.cloud, &call, on_done);
    return 0;
}

static int end(void **state)
{
    (void)state;
    waldo__loop_free(s.loop);
    return 0;
}

static void turn(void)
{
    waldo__loop_round(s.loop, 0, 0);
}

/* Until something is asked, at most for a time. */
static void wait_for(int64_t ms)
{
    int64_t until = waldo__deadline_ns(ms);

    while (s.asked[0] == '\0' && waldo__now_ns() < until) {
        waldo__loop_round(s.loop, until, 0);
    }
}

static void opened(void)
{
    waldo__cloud_opened(&s.machine.cloud, WALDO_OK, NULL);
    assert_int_equal(s.done, 0);
    turn();
    assert_int_equal(s.done, 1);
    s.done = 0;
}

static void its_time_is_extended(void **state)
{
    waldo_error *why = NULL;

    (void)state;
    s.machine.cloud.finder.lease_ms = 900; /* a third of the whole second that it gets */
    assert_int_equal(waldo__cloud_seconds(&s.machine.cloud), 1);
    opened();
    wait_for(60000);
    assert_string_equal(s.asked, "extend ");
    s.asked[0] = '\0';
    wait_for(500);
    assert_string_equal(s.asked, ""); /* one at a time */
    waldo_error_set(&why, WALDO_EUNAVAILABLE, WALDO_CLASS_TRANSPORT, "away");
    waldo__cloud_extended(&s.machine.cloud, WALDO_EUNAVAILABLE, why);
    waldo_error_free(why);
    wait_for(60000);
    assert_string_equal(s.asked, "extend "); /* another time it may be had */
    s.asked[0] = '\0';
    waldo__cloud_extended(&s.machine.cloud, WALDO_OK, NULL);
    waldo__cloud_rest(&s.machine.cloud);
    wait_for(500);
    assert_string_equal(s.asked, "");
    waldo__cloud_free(&s.machine);
}

static void how_long_it_lives(void **state)
{
    waldo__cloud *cloud = &s.machine.cloud;

    (void)state;
    assert_int_equal(waldo__cloud_seconds(cloud), 300);
    assert_int_equal(waldo__cloud_hand_ms(cloud), 300000);
    cloud->finder.foreign = 1;
    assert_int_equal(waldo__cloud_hand_ms(cloud), 10000);
    cloud->finder.lease_ms = 60001;
    assert_int_equal(waldo__cloud_seconds(cloud), 61);
    assert_int_equal(waldo__cloud_hand_ms(cloud), 60001);
    waldo__cloud_free(&s.machine);
}

static void an_opening_fails(void **state)
{
    waldo_error *why = NULL;

    (void)state;
    waldo_error_set(&why, WALDO_EQUOTA, WALDO_CLASS_PROVIDER, "too many");
    waldo__cloud_opened(&s.machine.cloud, WALDO_EQUOTA, why);
    waldo_error_free(why);
    turn();
    assert_int_equal(s.status, WALDO_EQUOTA);
    assert_string_equal(s.message, "too many");
    waldo__cloud_free(&s.machine);
    assert_string_equal(s.asked, "quiet free ");
}

static void what_is_told_of_it(void **state)
{
    waldo_machine_info info = { .size = sizeof info };

    (void)state;
    opened();
    waldo__cloud_save(&s.machine, &call, on_text);
    assert_int_equal(s.done, 0);
    turn();
    assert_int_equal(s.done, 1);
    assert_string_equal(s.text, "{\"machine\":\"id1\",\"run\":\"run1\",\"user\":\"\","
                                "\"foreign\":false}");
    waldo__buf_puts(waldo__cloud_text(&s.machine.cloud, &call, on_text), "https://x");
    turn();
    assert_string_equal(s.text, "https://x");
    waldo__cloud_describe(&s.machine, &info);
    assert_int_equal(info.flags, WALDO_MACHINE_REJOINS);
    assert_int_equal(info.reached, 0);
    s.machine.cloud.finder.foreign = 1;
    s.machine.cloud.finder.reached = 1;
    waldo__cloud_describe(&s.machine, &info);
    assert_int_equal(info.flags, WALDO_MACHINE_REJOINS | WALDO_MACHINE_FOREIGN);
    assert_int_equal(info.reached, 1);
    waldo__cloud_free(&s.machine);
}

static void close_ends_it(void **state)
{
    static const waldo_status answers[] = { WALDO_OK, WALDO_ENOTFOUND, WALDO_ERATE };
    waldo_error *why = NULL;

    (void)state;
    waldo_error_set(&why, WALDO_ERATE, WALDO_CLASS_PROVIDER, "why");
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (i > 0) {
            end(NULL);
            begin(NULL);
        }
        opened();
        waldo__cloud_close(&s.machine, &call, on_done);
        assert_string_equal(s.asked, "quiet end ");
        turn();
        assert_int_equal(s.done, 0);
        waldo__cloud_ended(&s.machine.cloud, answers[i], why);
        assert_string_equal(s.asked, "quiet end quiet free ");
        assert_int_equal(s.done, 1);
        assert_int_equal(s.status, i == 2 ? WALDO_ERATE : WALDO_OK);
        assert_string_equal(s.message, i == 1 ? "" : "why");
    }
    waldo_error_free(why);
}

static void anothers_is_left_alone(void **state)
{
    (void)state;
    s.machine.cloud.finder.foreign = 1;
    opened();
    waldo__cloud_close(&s.machine, &call, on_done);
    assert_int_equal(s.done, 0);
    turn();
    assert_int_equal(s.done, 1);
    assert_int_equal(s.status, WALDO_OK);
    assert_string_equal(s.asked, "quiet quiet free ");
}

/* In the middle of its opening: that one is told of nothing. */
static void abandoned(void **state)
{
    (void)state;
    waldo__cloud_opened(&s.machine.cloud, WALDO_OK, NULL);
    waldo__cloud_abandon(&s.machine);
    turn();
    assert_string_equal(s.asked, "discard quiet free ");
    assert_int_equal(s.done, 0);
}

static void never_made(void **state)
{
    (void)state;
    s.machine.cloud.finder.made = 0;
    waldo__cloud_abandon(&s.machine);
    assert_string_equal(s.asked, "quiet free ");
}

static void detached(void **state)
{
    (void)state;
    opened();
    waldo__cloud_detach(&s.machine);
    assert_string_equal(s.asked, "leave quiet free ");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(its_time_is_extended),
        CASE(how_long_it_lives),
        CASE(an_opening_fails),
        CASE(what_is_told_of_it),
        CASE(close_ends_it),
        CASE(anothers_is_left_alone),
        CASE(abandoned),
        CASE(never_made),
        CASE(detached),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
