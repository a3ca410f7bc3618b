/* Envelopes of Connect streams, byte for byte and at every split. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "codec/connect.h"

enum { LARGEST = 4096 };

typedef struct heard {
    char text[1024];
    size_t count;
    int ended;
    waldo_status answer;
} heard;

static waldo_status hear(void *userdata, int last, waldo_str message)
{
    heard *h = userdata;
    size_t used = strlen(h->text);

    h->count++;
    h->ended += last;
    snprintf(h->text + used, sizeof h->text - used, "%.*s|", (int)message.len, message.ptr);
    return h->answer;
}

/* The worked example of one command, without the chunks around it. */
static const char sample[] =
    "\0\0\0\0\x20{\"event\":{\"start\":{\"pid\":1234}}}"
    "\0\0\0\0\x24{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}"
    "\0\0\0\0\x3a{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"
    "\2\0\0\0\2{}";
static const char sample_text[] = "{\"event\":{\"start\":{\"pid\":1234}}}|"
                                  "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}|"
                                  "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status "
                                  "0\"}}}|{}|";

static void every_split(void **state)
{
    const size_t len = sizeof sample - 1;

    (void)state;
    assert_int_equal(len, 148);
    for (size_t a = 0; a <= len; a++) {
        for (size_t b = a; b <= len; b++) {
            waldo__connect connect;
            heard h = { .answer = WALDO_OK };
            waldo_status status;

            waldo__connect_init(&connect, LARGEST);
            status = waldo__connect_feed(&connect, waldo__strn(sample, a), hear, &h);
            assert_int_equal(status, WALDO_OK);
            status = waldo__connect_feed(&connect, waldo__strn(sample + a, b - a), hear, &h);
            assert_int_equal(status, WALDO_OK);
            assert_int_equal(waldo__connect_ended(&connect), b == len);
            status = waldo__connect_feed(&connect, waldo__strn(sample + b, len - b), hear, &h);
            assert_int_equal(status, WALDO_OK);
            assert_string_equal(h.text, sample_text);
            assert_int_equal(h.count, 4);
            assert_int_equal(h.ended, 1);
            assert_int_equal(waldo__connect_ended(&connect), 1);
            waldo__connect_free(&connect);
        }
    }
}

static void byte_by_byte(void **state)
{
    waldo__connect connect;
    heard h = { .answer = WALDO_OK };

    (void)state;
    waldo__connect_init(&connect, LARGEST);
    for (size_t i = 0; i < sizeof sample - 1; i++) {
        assert_int_equal(waldo__connect_ended(&connect), 0);
        assert_int_equal(waldo__connect_feed(&connect, waldo__strn(sample + i, 1), hear, &h),
                         WALDO_OK);
    }
    assert_string_equal(h.text, sample_text);
    assert_int_equal(waldo__connect_ended(&connect), 1);
    waldo__connect_free(&connect);
}

/* What was made of a request's one message, as on the wire. */
static void one_message(void **state)
{
    static const char message[] =
        "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo hi\"]},"
        "\"stdin\":false}";
    waldo__buf out = WALDO__BUF_INIT(LARGEST);

    (void)state;
    assert_int_equal(waldo__connect_put(&out, waldo__str(message)), WALDO_OK);
    assert_int_equal(out.len, 79);
    assert_memory_equal(out.ptr, "\0\0\0\0\x4a{\"process\"", 15);
    assert_string_equal(out.ptr + 5, message);
    waldo__buf_free(&out);
}

static void what_is_none(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        waldo_status status;
        size_t messages;
    } rows[] = {
        { "\1\0\0\0\2{}", 7, WALDO_EPROTO, 0 },  /* compressed */
        { "\3\0\0\0\2{}", 7, WALDO_EPROTO, 0 },  /* compressed, and the last */
        { "\4\0\0\0\2{}", 7, WALDO_EPROTO, 0 },  /* a flag nobody knows */
        { "HTTP/1.1 200", 12, WALDO_EPROTO, 0 }, /* no envelopes at all */
        { "\0\0\0\x10\1", 5, WALDO_ETOOBIG, 0 }, /* one above the largest */
        { "\0\xff\xff\xff\xff", 5, WALDO_ETOOBIG, 0 },
        { "\2\0\0\0\0\0", 6, WALDO_EPROTO, 1 }, /* a byte after the end */
        { "\2\0\0\0\0\2\0\0\0\0", 10, WALDO_EPROTO, 1 },
        { "\0\0\0\0\0\2\0\0\0\0", 10, WALDO_OK, 2 }, /* empty ones are messages */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t cut = 0; cut <= rows[i].len; cut++) {
            waldo__connect connect;
            heard h = { .answer = WALDO_OK };
            waldo_status status;

            waldo__connect_init(&connect, LARGEST);
            status = waldo__connect_feed(&connect, waldo__strn(rows[i].bytes, cut), hear, &h);
            if (status == WALDO_OK) {
                status = waldo__connect_feed(
                    &connect, waldo__strn(rows[i].bytes + cut, rows[i].len - cut), hear, &h);
            }
            assert_int_equal(status, rows[i].status);
            assert_int_equal(h.count, rows[i].messages);
            assert_true(connect.message.cap <= LARGEST);
            waldo__connect_free(&connect);
        }
    }
}

/* The largest there may be, in pieces; and nothing is kept that was not sent. */
static void large_ones(void **state)
{
    static char bytes[5 + LARGEST];
    waldo__connect connect;
    heard h = { .answer = WALDO_OK };

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "\0\0\0\x10\0", 5);
    waldo__connect_init(&connect, LARGEST);
    assert_int_equal(waldo__connect_feed(&connect, waldo__strn(bytes, 6), hear, &h), WALDO_OK);
    assert_int_equal(connect.message.len, 1);
    for (size_t i = 6; i < sizeof bytes; i += 99) {
        size_t len = sizeof bytes - i < 99 ? sizeof bytes - i : 99;

        assert_int_equal(h.count, 0);
        assert_int_equal(waldo__connect_feed(&connect, waldo__strn(bytes + i, len), hear, &h),
                         WALDO_OK);
    }
    assert_int_equal(h.count, 1);
    waldo__connect_free(&connect);
}

static void a_failure_stops(void **state)
{
    waldo__connect connect;
    heard h = { .answer = WALDO_ECLOSED };

    (void)state;
    waldo__connect_init(&connect, LARGEST);
    assert_int_equal(
        waldo__connect_feed(&connect, waldo__strn(sample, sizeof sample - 1), hear, &h),
        WALDO_ECLOSED);
    assert_int_equal(h.count, 1);
    waldo__connect_free(&connect);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split), cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(one_message), cmocka_unit_test(what_is_none),
        cmocka_unit_test(large_ones),  cmocka_unit_test(a_failure_stops),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
