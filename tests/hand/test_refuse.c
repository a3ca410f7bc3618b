/* The codec and what is wrong: hostile frames, broken streams, requests that cannot be said. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "golden.h"

#include "base/alloc.h"
#include "hand/wire.h"

static void test_entries(void **state)
{
    waldo_str whole = golden("data-entries"), rest;
    waldo__hand_entry entry;

    (void)state;
    whole.ptr += WALDO_HAND_HEADER_LEN;
    whole.len -= WALDO_HAND_HEADER_LEN;
    rest = whole;
    assert_int_equal(waldo__hand_next_entry(&rest, &entry), WALDO_OK);
    assert_true(waldo__str_is(entry.name, "na\xffme"));
    assert_int_equal(entry.mtime_s, 1700000000);
    assert_int_equal(entry.gid, 100);
    assert_int_equal(waldo__hand_next_entry(&rest, &entry), WALDO_OK);
    assert_true(waldo__str_is(entry.target, "to/x"));
    assert_int_equal(entry.mtime_s, -1);
    assert_int_equal(waldo__hand_next_entry(&rest, &entry), WALDO_END);
    for (size_t cut = 1; cut < whole.len; cut++) {
        waldo_status status = WALDO_OK;

        for (rest = waldo__strn(whole.ptr, cut); status == WALDO_OK;) {
            status = waldo__hand_next_entry(&rest, &entry);
        }
        assert_int_equal(status, cut == WALDO_HAND_ENTRY_LEN + 5 ? WALDO_END : WALDO_EPROTO);
    }
}

/* Names that would lead out of a directory are refused, whatever the hand says. */
static void test_hostile_entries(void **state)
{
    static const struct {
        size_t len;
        const char *name;
    } names[] = { { 1, "." }, { 2, ".." }, { 4, "../x" }, { 3, "a/b" }, { 3, "a\0b" } };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(names); i++) {
        struct entry entry = { .kind = 1, .name = names[i].name, .name_len = names[i].len };
        waldo__hand_entry out;
        uint8_t bytes[64];
        waldo_str rest = waldo__strn((char *)bytes, entry_encode(bytes, sizeof bytes, &entry));

        assert_int_equal(waldo__hand_next_entry(&rest, &out), WALDO_EPROTO);
    }
}

/* A greeted decoder gets a golden frame with one byte changed. */
static void assert_refused(const char *name, size_t at, uint8_t value, const char *problem)
{
    waldo__buf text = WALDO__BUF_INIT(65536);
    waldo__hand_decoder decoder;
    waldo_str bytes;

    waldo__hand_decoder_init(&decoder, nonce);
    if (strcmp(name, "hello") != 0) {
        assert_int_equal(waldo__hand_feed(&decoder, golden("hello"), describe, &text), WALDO_OK);
    }
    bytes = golden(name);
    ((char *)(uintptr_t)bytes.ptr)[at] = (char)value;
    assert_int_equal(waldo__hand_feed(&decoder, bytes, describe, &text), WALDO_EPROTO);
    assert_string_equal(waldo__hand_problem(&decoder), problem);
    /* It stays refused. */
    assert_int_equal(waldo__hand_feed(&decoder, golden("pong"), describe, &text), WALDO_EPROTO);
    waldo__hand_decoder_free(&decoder);
    waldo__buf_free(&text);
}

static void test_hostile_frames(void **state)
{
    static const struct {
        const char *name;
        size_t at;
        uint8_t value;
        const char *problem;
    } cases[] = {
        { "hello", 9, 'X', "greeting is not a hand's" },
        { "hello", 13, 2, "hand speaks another protocol version" },
        { "hello", 25, 0, "greeting does not answer ours: the nonce differs" },
        { "hello", 51, 0, "hand takes smaller frames or fewer commands than the protocol says" },
        { "hello", 5, 1, "frame whose id does not fit its type" },
        { "hello", 4, 0x80, "first bytes are not a greeting" },
        { "hello", 0, 55, "frame is too short for its type" },
        { "pong", 4, 0x01, "second greeting" },
        { "pong", 4, 0x02, "unknown frame type" },
        { "pong", 4, 0xb0, "second greeting" },
        { "pong", 4, 0xb2, "unknown frame type" },
        { "pong", 3, 1, "frame is too long" },
        { "started", 0, 3, "frame is too short for its type" },
        { "start-error", 13, 0, "start error with an impossible errno or phase" },
        { "start-error", 12, 0x80, "start error with an impossible errno or phase" },
        { "exit", 9, 3, "exit frame with an impossible status" },
        { "exit", 14, 1, "exit frame with an impossible status" },
        { "exit", 42, 1, "exit frame counts more output sent than read" },
        { "done", 12, 0x80, "done frame with an impossible errno or place" },
        { "done", 13, 10, "done frame with an impossible errno or place" },
        { "credit", 12, 1, "credit above the window" },
        { "job-running", 0, 119, "frame is too short for its type" },
        { "job-running", 9, 0, "job frame with an impossible id, state, count or label" },
        { "job-running", 13, 3, "job frame with an impossible id, state, count or label" },
        { "job-running", 13, 0, "job frame with an impossible id, state, count or label" },
        { "job-running", 32, 1, "job frame with an impossible id, state, count or label" },
        { "job-running", 29, 0, "job frame with an impossible id, state, count or label" },
        { "job-running", 33, 3, "exit frame with an impossible status" },
        { "error", 15, 27, "error frame whose text is not printable" },
        { "error", 5, 1, "frame whose id does not fit its type" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        assert_refused(cases[i].name, cases[i].at, cases[i].value, cases[i].problem);
    }
}

static void test_hostile_offset(void **state)
{
    waldo__buf text = WALDO__BUF_INIT(65536);
    waldo__hand_decoder decoder;
    waldo_str bytes;

    (void)state;
    waldo__hand_decoder_init(&decoder, nonce);
    assert_int_equal(waldo__hand_feed(&decoder, golden("hello"), describe, &text), WALDO_OK);
    bytes = golden("out");
    memset((char *)(uintptr_t)bytes.ptr + 9, 0xff, 8);
    assert_int_equal(waldo__hand_feed(&decoder, bytes, describe, &text), WALDO_EPROTO);
    assert_string_equal(waldo__hand_problem(&decoder),
                        "output frame with an impossible length or offset");
    waldo__hand_decoder_free(&decoder);
    waldo__buf_free(&text);
}

static void test_stream_ends(void **state)
{
    waldo__buf text = WALDO__BUF_INIT(65536);
    waldo__hand_decoder decoder;

    (void)state;
    waldo__hand_decoder_init(&decoder, nonce);
    assert_int_equal(waldo__hand_finish(&decoder), WALDO_ETRUNCATED);
    assert_string_equal(waldo__hand_problem(&decoder), "stream ended before a greeting");
    waldo__hand_decoder_free(&decoder);
    waldo__hand_decoder_init(&decoder, nonce);
    assert_int_equal(waldo__hand_feed(&decoder, golden("hello"), describe, &text), WALDO_OK);
    assert_int_equal(
        waldo__hand_feed(&decoder, waldo__strn(golden("exit").ptr, 50), describe, &text), WALDO_OK);
    assert_int_equal(waldo__hand_finish(&decoder), WALDO_ETRUNCATED);
    assert_string_equal(waldo__hand_problem(&decoder), "stream ended inside a frame");
    waldo__hand_decoder_free(&decoder);
    /* Text of an image that prints something is refused at once, not waited upon. */
    waldo__hand_decoder_init(&decoder, nonce);
    assert_int_equal(waldo__hand_feed(&decoder, WALDO__S("Starting up\n"), describe, &text),
                     WALDO_EPROTO);
    assert_string_equal(waldo__hand_problem(&decoder), "first bytes are not a greeting");
    waldo__hand_decoder_free(&decoder);
    waldo__buf_free(&text);
}

/* Later versions: longer frames and unknown optional types are no trouble. */
static void test_growth(void **state)
{
    waldo__buf text = WALDO__BUF_INIT(65536), bytes = WALDO__BUF_INIT(65536);
    static const uint8_t optional[] = { 3, 0, 0, 0, 0xc9, 1, 0, 0, 0, 'a', 'b', 'c' };
    waldo__hand_decoder decoder;

    (void)state;
    waldo__buf_add_str(&bytes, golden("hello"));
    waldo__buf_add(&bytes, optional, sizeof optional);
    waldo__buf_add_str(&bytes, golden("started"));
    bytes.ptr[bytes.len - 13] = 6;
    waldo__buf_add(&bytes, "zz", 2);
    for (size_t cut = 0; cut <= bytes.len; cut++) {
        waldo__hand_decoder_init(&decoder, nonce);
        waldo__buf_clear(&text);
        decode(&decoder, waldo__buf_str(&bytes), cut, &text);
        assert_non_null(strstr(text.ptr, "\n80 1020304 4321\n"));
        waldo__hand_decoder_free(&decoder);
    }
    waldo__buf_free(&text);
    waldo__buf_free(&bytes);
}

static void test_bad_requests(void **state)
{
    static char long_text[WALDO_HAND_PAYLOAD_MAX + 1];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    waldo_str arg = WALDO__S("x");
    waldo__buf out = WALDO__BUF_INIT(1 << 20);

    (void)state;
    memset(long_text, 'x', sizeof long_text);
    waldo__buf_puts(&out, "before");
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_EINVAL);
    run.args = &arg;
    run.arg_count = 1;
    assert_int_equal(waldo__hand_put_run(&out, 0, &run), WALDO_EINVAL);
    arg = waldo__strn("a\0b", 3);
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_EINVAL);
    arg = waldo__strn(long_text, sizeof long_text);
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_ETOOBIG);
    arg.len = WALDO_HAND_PAYLOAD_MAX - 5;
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_ETOOBIG);
    run.cwd = waldo__strn(long_text, 4096);
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_ETOOBIG);
    run.tail[1] = WALDO_HAND_TAIL_MAX + 1;
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_EINVAL);
    run = WALDO__HAND_RUN_INIT;
    run.script = WALDO__S("x");
    run.label = WALDO__S("without KEEP");
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_EINVAL);
    run.flags = WALDO_HAND_RUN_KEEP;
    run.label = waldo__strn(long_text, WALDO_HAND_LABEL_MAX + 1);
    assert_int_equal(waldo__hand_put_run(&out, ID, &run), WALDO_EINVAL);
    assert_int_equal(waldo__hand_put_job_list(&out, 0), WALDO_EINVAL);
    assert_int_equal(waldo__hand_put_lease(&out, ID, 0), WALDO_EINVAL);
    assert_int_equal(waldo__hand_put_lease(&out, 0, 1), WALDO_EINVAL);
    assert_int_equal(waldo__hand_put_file(&out, WALDO_HAND_READ, ID, &file), WALDO_EINVAL);
    file.path = WALDO__S("x");
    assert_int_equal(waldo__hand_put_file(&out, WALDO_HAND_RENAME, ID, &file), WALDO_EINVAL);
    assert_int_equal(waldo__hand_put_signal(&out, ID, 65, WALDO_HAND_SCOPE_TREE), WALDO_EINVAL);
    assert_int_equal(waldo__hand_put_ping(&out, ID, waldo__strn(long_text, 65)), WALDO_ETOOBIG);
    assert_int_equal(waldo__hand_put_stdin(&out, 0, WALDO__S("x")), WALDO_EINVAL);
    assert_string_equal(out.ptr, "before");
    waldo__buf_free(&out);
    /* A buffer that is full says so. */
    out = WALDO__BUF_INIT(10);
    assert_int_equal(waldo__hand_put_write_data(&out, ID, WALDO__S("123")), WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),        cmocka_unit_test(test_hostile_entries),
        cmocka_unit_test(test_hostile_frames), cmocka_unit_test(test_hostile_offset),
        cmocka_unit_test(test_stream_ends),    cmocka_unit_test(test_growth),
        cmocka_unit_test(test_bad_requests),
    };

    golden_dir = argc > 1 ? argv[1] : "golden";
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
