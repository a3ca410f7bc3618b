#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "codec/sse.h"

/* What came out, as text: [name|data] an event. */
struct seen {
    waldo__buf text;
    int stop_at; /* fail at this event; 0: never */
    int count;
};

static waldo_status on_event(void *userdata, waldo_str name, waldo_str data)
{
    struct seen *seen = userdata;

    if (++seen->count == seen->stop_at) {
        return WALDO_EUSER;
    }
    waldo__buf_putc(&seen->text, '[');
    waldo__buf_add_str(&seen->text, name);
    waldo__buf_putc(&seen->text, '|');
    waldo__buf_add_str(&seen->text, data);
    return waldo__buf_putc(&seen->text, ']');
}

/* Feed pieces in blocks of exactly their size, so that a sanitizer sees any read behind them. */
static waldo_status feed_block(waldo__sse *sse, waldo_str piece, struct seen *seen)
{
    char *copy = waldo__strndup(piece.ptr, piece.len);
    waldo_status status;

    assert_non_null(copy);
    status = waldo__sse_feed(sse, waldo__strn(copy, piece.len), on_event, seen);
    waldo__free(copy);
    return status;
}

static void expect_cut(waldo_str input, size_t first, size_t second, const char *expected)
{
    struct seen seen = { .text = WALDO__BUF_INIT(1 << 20) };
    waldo__sse sse;

    waldo__sse_init(&sse, 1 << 16);
    assert_int_equal(feed_block(&sse, waldo__strn(input.ptr, first), &seen), WALDO_OK);
    assert_int_equal(feed_block(&sse, waldo__strn(input.ptr + first, second - first), &seen),
                     WALDO_OK);
    assert_int_equal(feed_block(&sse, waldo__strn(input.ptr + second, input.len - second), &seen),
                     WALDO_OK);
    assert_int_equal(waldo__sse_finish(&sse, on_event, &seen), WALDO_OK);
    assert_string_equal(waldo__buf_str(&seen.text).ptr, expected);
    assert_int_equal(sse.events, (uint64_t)seen.count);
    waldo__sse_free(&sse);
    waldo__buf_free(&seen.text);
}

static void expect_bytewise(waldo_str input, const char *expected)
{
    struct seen seen = { .text = WALDO__BUF_INIT(1 << 20) };
    waldo__sse sse;

    waldo__sse_init(&sse, 1 << 16);
    for (size_t i = 0; i < input.len; i++) {
        assert_int_equal(feed_block(&sse, waldo__strn(input.ptr + i, 1), &seen), WALDO_OK);
    }
    assert_int_equal(waldo__sse_finish(&sse, on_event, &seen), WALDO_OK);
    assert_string_equal(waldo__buf_str(&seen.text).ptr, expected);
    waldo__sse_free(&sse);
    waldo__buf_free(&seen.text);
}

/* At every split into three pieces, and bytewise. */
static void expect(const char *text, const char *expected)
{
    waldo_str input = waldo__str(text);

    for (size_t first = 0; first <= input.len; first++) {
        for (size_t second = first; second <= input.len; second++) {
            expect_cut(input, first, second, expected);
        }
    }
    expect_bytewise(input, expected);
}

static void line_ends(void **state)
{
    (void)state;
    expect("data: a\n\ndata: b\n\n", "[|a][|b]");
    expect("data: a\r\n\r\ndata: b\r\n\r\n", "[|a][|b]");
    expect("data: a\r\rdata: b\r\r", "[|a][|b]");
    expect("data: a\n\r\ndata: b\r\n\n", "[|a][|b]");
    expect("data: a\r\n\rdata: b\n\r", "[|a][|b]");
    /* CR LF is one line end, LF CR are two. */
    expect("data: a\r\ndata: b\r\n\r\n", "[|a\nb]");
    expect("data: a\n\rdata: b\n\r", "[|a][|b]");
}

static void byte_order_mark(void **state)
{
    (void)state;
    expect("\xEF\xBB\xBF"
           "data: a\n\n",
           "[|a]");
    expect("\xEF\xBB\xBF\n\ndata: a\n\n", "[|a]");
    /* Only one, and only before the first line: else it is part of an unknown field's name. */
    expect("\xEF\xBB\xBF\xEF\xBB\xBF"
           "data: a\n\ndata: b\n\n",
           "[|b]");
    expect("data: x\n\n\xEF\xBB\xBF"
           "data: a\n\n",
           "[|x]");
}

static void comments_and_unknown_fields(void **state)
{
    (void)state;
    expect(": ping\n\n:\n\ndata: a\n: in between\ndata: b\n\n", "[|a\nb]");
    expect("id: 7\nretry: 10\ndata: a\nDATA: b\ndatax: c\n data: d\n\n", "[|a]");
    expect("error: {}\n\n", "");
    expect("", "");
    expect("\n\n\r\r", "");
}

static void fields(void **state)
{
    (void)state;
    expect("data:a\n\ndata:  a\n\ndata: a: b\n\n", "[|a][| a][|a: b]");
    expect("event: error\ndata: x\n\n", "[error|x]");
    expect("event: one\nevent: two\ndata: x\n\n", "[two|x]");
    expect("event: ping\n\ndata: x\n\n", "[ping|][|x]");
    /* Empty data is data, an empty name is none. */
    expect("data\n\n", "[|]");
    expect("data:\n\n", "[|]");
    expect("data:\ndata\n\n", "[|\n]");
    expect("event\n\nevent:\n\n", "");
    expect("event: a\ndata: x\n\ndata: y\n\n", "[a|x][|y]");
}

static void end_of_body(void **state)
{
    (void)state;
    expect("data: a\n\ndata: b\n", "[|a][|b]");
    expect("data: a\n\ndata: b", "[|a][|b]");
    expect("data: [DONE]", "[|[DONE]]");
    expect("data: a\r", "[|a]");
    expect("da", "");
}

static void text_is_cut_anywhere(void **state)
{
    (void)state;
    expect("data: {\"t\":\"\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80\"}\n\n",
           "[|{\"t\":\"\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80\"}]");
}

static void nul_bytes_pass(void **state)
{
    struct seen seen = { .text = WALDO__BUF_INIT(64) };
    waldo__sse sse;

    (void)state;
    waldo__sse_init(&sse, 64);
    assert_int_equal(waldo__sse_feed(&sse, WALDO__S("data: a\0b\n\n"), on_event, &seen), WALDO_OK);
    assert_int_equal(seen.text.len, 6);
    assert_memory_equal(seen.text.ptr, "[|a\0b]", 6);
    waldo__sse_free(&sse);
    waldo__buf_free(&seen.text);
}

static void limits(void **state)
{
    static const struct {
        const char *input;
        waldo_status status;
    } cases[] = {
        { "data: 12345678\n\n", WALDO_OK },
        { "data: 123456789\n\n", WALDO_ETOOBIG },
        { "data: 1234\ndata: 678\n\n", WALDO_OK },
        { "data: 1234\ndata: 6789\n\n", WALDO_ETOOBIG },
        { "data: 1234\n\ndata: 12345678\n\n", WALDO_OK },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        struct seen seen = { .text = WALDO__BUF_INIT(1024) };
        waldo__sse sse;

        waldo__sse_init(&sse, 8);
        assert_int_equal(waldo__sse_feed(&sse, waldo__str(cases[i].input), on_event, &seen),
                         cases[i].status);
        waldo__sse_free(&sse);
        waldo__buf_free(&seen.text);
    }
}

/* A line without an end must not collect bytes for ever, whatever field it is. */
static void endless_line(void **state)
{
    struct seen seen = { .text = WALDO__BUF_INIT(1024) };
    waldo_status status = WALDO_OK;
    size_t fed = 0;
    waldo__sse sse;

    (void)state;
    waldo__sse_init(&sse, 1000);
    while (status == WALDO_OK && fed < 100000) {
        status = waldo__sse_feed(&sse, WALDO__S("xxxxxxxxxx"), on_event, &seen);
        fed += 10;
    }
    assert_int_equal(status, WALDO_ETOOBIG);
    assert_true(fed < 1200);
    waldo__sse_free(&sse);

    waldo__sse_init(&sse, 1 << 20);
    waldo__sse_feed(&sse, WALDO__S("event: "), on_event, &seen);
    for (int i = 0; i < 200; i++) {
        waldo__sse_feed(&sse, WALDO__S("xxxxxxxxxx"), on_event, &seen);
    }
    assert_int_equal(waldo__sse_feed(&sse, WALDO__S("\n"), on_event, &seen), WALDO_ETOOBIG);
    waldo__sse_free(&sse);
    assert_int_equal(seen.count, 0);
    waldo__buf_free(&seen.text);
}

static void callback_failure_stops(void **state)
{
    struct seen seen = { .text = WALDO__BUF_INIT(1024), .stop_at = 2 };
    waldo__sse sse;

    (void)state;
    waldo__sse_init(&sse, 64);
    assert_int_equal(
        waldo__sse_feed(&sse, WALDO__S("data: a\n\ndata: b\n\ndata: c\n\n"), on_event, &seen),
        WALDO_EUSER);
    assert_int_equal(seen.count, 2);
    assert_string_equal(waldo__buf_str(&seen.text).ptr, "[|a]");
    waldo__sse_free(&sse);
    waldo__buf_free(&seen.text);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_ends),
        cmocka_unit_test(byte_order_mark),
        cmocka_unit_test(comments_and_unknown_fields),
        cmocka_unit_test(fields),
        cmocka_unit_test(end_of_body),
        cmocka_unit_test(text_is_cut_anywhere),
        cmocka_unit_test(nul_bytes_pass),
        cmocka_unit_test(limits),
        cmocka_unit_test(endless_line),
        cmocka_unit_test(callback_failure_stops),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
