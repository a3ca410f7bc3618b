/* A process that passes the hand's stream on: when it is open, and why it is over. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/attach.h"
#include "base/buf.h"
#include <waldo/error.h>

typedef struct scene {
    waldo__attach attach;
    waldo__loop *loop;
    int opened;
    waldo_status opened_status;
    int asked;
    int paused;
    int freed;
    char sent[64];
    char got[64];
    char diagnostic[64];
    int close_when_opened;
    int closed;
    waldo_status status;
    char message[512];
} scene;

static void keep(char *to, size_t size, waldo_str text)
{
    snprintf(to + strlen(to), size - strlen(to), "%.*s", (int)text.len, text.ptr);
}

static void on_send(void *owner, waldo_str piece)
{
    scene *s = owner;

    keep(s->sent, sizeof s->sent, piece);
}

static void on_ask(void *owner)
{
    ((scene *)owner)->asked++;
}

static void on_pause(void *owner, int paused)
{
    ((scene *)owner)->paused = paused;
}

static void on_free(void *owner)
{
    scene *s = owner;

    s->freed++;
    waldo__attach_free(&s->attach);
}

static void on_bytes(void *userdata, waldo_str bytes)
{
    scene *s = userdata;

    keep(s->got, sizeof s->got, bytes);
}

static void on_diagnostic(void *userdata, waldo_str bytes)
{
    scene *s = userdata;

    keep(s->diagnostic, sizeof s->diagnostic, bytes);
}

static void on_closed(void *userdata, waldo_status status, const waldo_error *error)
{
    scene *s = userdata;

    s->closed++;
    s->status = status;
    snprintf(s->message, sizeof s->message, "%s", waldo_error_message(error));
}

static void on_opened(void *userdata, waldo_status status, const waldo_error *error)
{
    scene *s = userdata;
    waldo_channel *channel = &s->attach.pipe.base;

    s->opened++;
    s->opened_status = status;
    snprintf(s->message, sizeof s->message, "%s", waldo_error_message(error));
    if (s->close_when_opened) {
        channel->ops->close(channel);
    } else if (status == WALDO_OK) {
        channel->ops->listen(channel, &(waldo_channel_events){ .size = sizeof(waldo_channel_events),
                                                               .userdata = s,
                                                               .on_bytes = on_bytes,
                                                               .on_diagnostic = on_diagnostic,
                                                               .on_closed = on_closed });
    }
}

static void begin(scene *s, int64_t start_ms)
{
    static const waldo__attach_fns fns = { on_send, on_ask, on_pause, on_free };

    memset(s, 0, sizeof *s);
    assert_int_equal(waldo__loop_new(&s->loop, NULL), WALDO_OK);
    assert_int_equal(
        waldo__attach_init(&s->attach, "cloud", s->loop, &fns, s, start_ms, on_opened, s),
        WALDO_OK);
}

static waldo_status hear(scene *s, waldo__process_event event, const char *text)
{
    waldo_status status;

    waldo__pipe_enter(&s->attach.pipe);
    status = waldo__attach_event(&s->attach, event, waldo__str(text));
    waldo__pipe_leave(&s->attach.pipe);
    return status;
}

static void begin_open(scene *s)
{
    begin(s, 0);
    assert_int_equal(hear(s, WALDO__PROCESS_STARTED, ""), WALDO_OK);
    assert_int_equal(s->opened, 1);
}

static void end(scene *s)
{
    if (!s->freed) {
        waldo__pipe_close(&s->attach.pipe);
    }
    assert_int_equal(s->freed, 1);
    waldo__loop_free(s->loop);
}

static void bytes_both_ways(void **state)
{
    waldo_channel *channel;
    scene s;

    (void)state;
    begin_open(&s);
    channel = &s.attach.pipe.base;
    assert_int_equal(s.opened_status, WALDO_OK);
    assert_int_equal(hear(&s, WALDO__PROCESS_OUTPUT, "ab"), WALDO_OK);
    assert_int_equal(hear(&s, WALDO__PROCESS_DIAGNOSTIC, "oh"), WALDO_OK);
    assert_string_equal(s.got, "ab");
    assert_string_equal(s.diagnostic, "oh");
    assert_int_equal(channel->ops->send(channel, waldo__str("one")), WALDO_OK);
    waldo__loop_round(s.loop, 0, 0);
    assert_string_equal(s.sent, "one");
    assert_int_equal(channel->ops->send(channel, waldo__str("two")), WALDO_OK);
    assert_string_equal(s.sent, "one"); /* the first is still on its way */
    waldo__attach_sent(&s.attach, WALDO_OK, NULL);
    assert_string_equal(s.sent, "onetwo");
    channel->ops->pause(channel, 1);
    assert_int_equal(s.paused, 1);
    end(&s);
}

static void what_cannot_be(void **state)
{
    scene s;

    (void)state;
    begin(&s, 0);
    assert_int_equal(hear(&s, WALDO__PROCESS_ENDED, "exit"), WALDO_EPROTO);
    assert_int_equal(hear(&s, WALDO__PROCESS_STARTED, ""), WALDO_OK);
    assert_int_equal(hear(&s, WALDO__PROCESS_STARTED, ""), WALDO_EPROTO);
    assert_int_equal(s.opened, 1);
    end(&s);
}

static void the_process_ends(void **state)
{
    scene s;

    (void)state;
    begin_open(&s);
    hear(&s, WALDO__PROCESS_OUTPUT, "x");
    assert_int_equal(hear(&s, WALDO__PROCESS_ENDED, "exit status 1"), WALDO_OK);
    assert_int_equal(s.status, WALDO_ELOST);
    assert_string_equal(s.message, "cloud: the hand's stream ended with its process "
                                   "(exit status 1)");
    waldo__attach_broke(&s.attach, WALDO_ETRUNCATED, NULL); /* what comes behind changes nothing */
    assert_int_equal(s.asked, 0);
    assert_int_equal(s.closed, 1);
    end(&s);

    begin_open(&s);
    hear(&s, WALDO__PROCESS_ENDED, "exit status 1");
    assert_int_equal(s.status, WALDO_EUNAVAILABLE); /* it never said a word */
    assert_non_null(strstr(s.message, "there is no hand"));
    end(&s);
}

/* Which of the two was lost is asked, and what came before is heard first. */
static void a_break_is_looked_into(void **state)
{
    static const struct {
        waldo_status answer;
        const char *text;
    } cases[] = { { WALDO_OK, "but the sandbox is there: why" },
                  { WALDO_ELOST, "the sandbox is gone" },
                  { WALDO_EUNAVAILABLE, "nobody answers for the sandbox" } };
    scene s;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        waldo_error *why = NULL;

        begin_open(&s);
        hear(&s, WALDO__PROCESS_OUTPUT, "a");
        waldo_error_set(&why, WALDO_ETRUNCATED, WALDO_CLASS_TRANSPORT, "why");
        waldo__attach_broke(&s.attach, WALDO_ETRUNCATED, why);
        assert_int_equal(s.asked, 1);
        assert_int_equal(s.closed, 0);
        hear(&s, WALDO__PROCESS_OUTPUT, "b");
        assert_string_equal(s.got, "ab");
        waldo__attach_asked(&s.attach, cases[i].answer);
        assert_int_equal(s.closed, 1);
        assert_int_equal(s.status, WALDO_ELOST);
        assert_non_null(strstr(s.message, cases[i].text));
        end(&s);
    }
}

/* Nothing is sent a second time: it may have arrived. */
static void what_was_sent_is_lost(void **state)
{
    waldo_channel *channel;
    waldo_error *why = NULL;
    scene s;

    (void)state;
    begin_open(&s);
    channel = &s.attach.pipe.base;
    channel->ops->send(channel, waldo__str("one"));
    waldo__loop_round(s.loop, 0, 0);
    channel->ops->send(channel, waldo__str("two"));
    waldo_error_set(&why, WALDO_EUNKNOWN_OUTCOME, WALDO_CLASS_TRANSPORT, "reset");
    waldo__attach_sent(&s.attach, WALDO_EUNKNOWN_OUTCOME, why);
    waldo_error_free(why);
    waldo__loop_round(s.loop, 0, 0);
    assert_string_equal(s.sent, "one");
    assert_int_equal(s.asked, 1);
    waldo__attach_asked(&s.attach, WALDO_OK);
    assert_non_null(strstr(s.message, "reset"));
    end(&s);
}

static void it_never_starts(void **state)
{
    waldo_error *why = NULL;
    scene s;

    (void)state;
    begin(&s, 0);
    waldo_error_set(&why, WALDO_EACCESS, WALDO_CLASS_PROVIDER, "no root here");
    waldo__attach_broke(&s.attach, WALDO_EACCESS, why);
    assert_int_equal(s.opened, 1);
    assert_int_equal(s.opened_status, WALDO_EACCESS);
    assert_string_equal(s.message, "no root here");
    assert_int_equal(s.asked, 0);
    end(&s);

    begin(&s, 1);
    while (s.opened == 0) {
        waldo__loop_round(s.loop, waldo__deadline_ns(1000), 0);
    }
    assert_int_equal(s.opened_status, WALDO_EUNAVAILABLE);
    assert_non_null(strstr(s.message, "in time"));
    end(&s);
}

static void closed_from_inside(void **state)
{
    scene s;

    (void)state;
    begin(&s, 0);
    s.close_when_opened = 1;
    assert_int_equal(hear(&s, WALDO__PROCESS_STARTED, ""), WALDO_ECLOSED);
    assert_int_equal(s.freed, 1);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_both_ways),       cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(the_process_ends),      cmocka_unit_test(a_break_is_looked_into),
        cmocka_unit_test(what_was_sent_is_lost), cmocka_unit_test(it_never_starts),
        cmocka_unit_test(closed_from_inside),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
