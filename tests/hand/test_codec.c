/*
 * Both sides against the golden files: the library's codec, and the hand's own frame code built
 * natively. The files are made by golden/make.py from the tables of the protocol's page.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "golden.h"

#include "hand/wire.h"

#include "base/alloc.h"

static void assert_bytes(const char *name, const void *bytes, size_t len)
{
    waldo_str want = golden(name);

    assert_int_equal(len, want.len);
    assert_memory_equal(bytes, want.ptr, len);
}

static waldo__hand_file sample_file(uint32_t flags)
{
    waldo__hand_file file = WALDO__HAND_FILE_INIT;

    file.path = WALDO__S("dir/f\xff");
    file.root = WALDO__S("/root");
    file.flags = flags;
    return file;
}

/* The library's requests, each named as its golden file. */
static waldo_status put_run_argv(waldo__buf *out)
{
    static const waldo_str args[] = { { "prog", 4 }, { "", 0 }, { "\xff\xfe", 2 } };
    static const waldo_str envs[] = { { "A=1", 3 }, { "B", 1 } };
    const waldo__hand_run run = {
        .flags = 0x0f,
        .args = args,
        .arg_count = 3,
        .cwd = WALDO__S("/w"),
        .envs = envs,
        .env_count = 2,
        .timeout_ms = 120000,
        .has_grace = 1,
        .head = { 20000, 30000 },
        .tail = { 1000, 2000 },
        .capture_path = WALDO__S("/c/out"),
        .capture_max = UINT64_C(1) << 33,
        .credit = 65536,
    };

    return waldo__hand_put_run(out, ID, &run);
}

static waldo_status put_run_script(waldo__buf *out)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.script = WALDO__S("echo hi\n");
    return waldo__hand_put_run(out, ID, &run);
}

static waldo_status put_run_pty(waldo__buf *out)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.flags = WALDO_HAND_RUN_PTY;
    run.script = WALDO__S("vi");
    run.rows = 50;
    run.columns = 300;
    return waldo__hand_put_run(out, ID, &run);
}

static waldo_status put_run_kept(waldo__buf *out)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.flags = WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_KEEP;
    run.script = WALDO__S("make");
    run.tail[0] = 65536;
    run.label = waldo__strn("l\0\xff", 3);
    return waldo__hand_put_run(out, ID, &run);
}

static waldo_status put_attach(waldo__buf *out)
{
    return waldo__hand_put_attach(out, ID, 77, UINT64_C(5) << 32, 1 << 20);
}

static waldo_status put_forget(waldo__buf *out)
{
    return waldo__hand_put_forget(out, ID);
}

static waldo_status put_job_list(waldo__buf *out)
{
    return waldo__hand_put_job_list(out, ID);
}

static waldo_status put_lease(waldo__buf *out)
{
    return waldo__hand_put_lease(out, ID, 86400000);
}

static waldo_status put_resize(waldo__buf *out)
{
    return waldo__hand_put_resize(out, ID, 50, 300);
}

static waldo_status put_hello(waldo__buf *out)
{
    return waldo__hand_put_hello(out, nonce);
}

static waldo_status put_stdin(waldo__buf *out)
{
    return waldo__hand_put_stdin(out, ID,
                                 waldo__strn("a\0\xff"
                                             "b",
                                             4));
}

static waldo_status put_stdin_eof(waldo__buf *out)
{
    return waldo__hand_put_stdin_eof(out, ID);
}

static waldo_status put_signal(waldo__buf *out)
{
    return waldo__hand_put_signal(out, ID, 15, WALDO_HAND_SCOPE_TREE);
}

static waldo_status put_credit(waldo__buf *out)
{
    return waldo__hand_put_credit(out, ID, UINT64_C(1) << 40);
}

static waldo_status put_cancel(waldo__buf *out)
{
    return waldo__hand_put_cancel(out, ID, WALDO_HAND_GRACE_OF_JOB);
}

static waldo_status put_ping(waldo__buf *out)
{
    return waldo__hand_put_ping(out, ID, WALDO__S("ping"));
}

static waldo_status put_shutdown(waldo__buf *out)
{
    return waldo__hand_put_shutdown(out, ID);
}

static waldo_status put_read(waldo__buf *out)
{
    waldo__hand_file file = sample_file(WALDO_HAND_FILE_NOFOLLOW);

    file.offset = UINT64_C(5) << 32;
    file.limit = 100;
    return waldo__hand_put_file(out, WALDO_HAND_READ, ID, &file);
}

static waldo_status put_write(waldo__buf *out)
{
    waldo__hand_file file =
        sample_file(WALDO_HAND_FILE_PARENTS | WALDO_HAND_FILE_ATOMIC | WALDO_HAND_FILE_EXCL);

    file.has_mode = 1;
    file.mode = 0751;
    return waldo__hand_put_file(out, WALDO_HAND_WRITE, ID, &file);
}

static waldo_status put_write_data(waldo__buf *out)
{
    return waldo__hand_put_write_data(out, ID, waldo__strn("data", 5));
}

static waldo_status put_write_end(waldo__buf *out)
{
    return waldo__hand_put_write_end(out, ID);
}

static waldo_status put_stat(waldo__buf *out)
{
    waldo__hand_file file = sample_file(WALDO_HAND_FILE_NOFOLLOW);

    return waldo__hand_put_file(out, WALDO_HAND_STAT, ID, &file);
}

static waldo_status put_list(waldo__buf *out)
{
    waldo__hand_file file = sample_file(0);

    file.limit = 7;
    return waldo__hand_put_file(out, WALDO_HAND_LIST, ID, &file);
}

static waldo_status put_mkdir(waldo__buf *out)
{
    waldo__hand_file file = sample_file(WALDO_HAND_FILE_PARENTS);

    return waldo__hand_put_file(out, WALDO_HAND_MKDIR, ID, &file);
}

static waldo_status put_remove(waldo__buf *out)
{
    waldo__hand_file file = sample_file(WALDO_HAND_FILE_RECURSIVE);

    return waldo__hand_put_file(out, WALDO_HAND_REMOVE, ID, &file);
}

static waldo_status put_rename(waldo__buf *out)
{
    waldo__hand_file file = sample_file(WALDO_HAND_FILE_EXCL);

    file.to = WALDO__S("to");
    return waldo__hand_put_file(out, WALDO_HAND_RENAME, ID, &file);
}

static const struct {
    const char *name;
    waldo_status (*put)(waldo__buf *out);
} requests[] = {
    { "host-hello", put_hello },
    { "run-argv", put_run_argv },
    { "run-script", put_run_script },
    { "run-pty", put_run_pty },
    { "run-kept", put_run_kept },
    { "job-attach", put_attach },
    { "job-forget", put_forget },
    { "job-list", put_job_list },
    { "lease", put_lease },
    { "resize", put_resize },
    { "stdin", put_stdin },
    { "stdin-eof", put_stdin_eof },
    { "signal", put_signal },
    { "host-credit", put_credit },
    { "cancel", put_cancel },
    { "ping", put_ping },
    { "shutdown", put_shutdown },
    { "read", put_read },
    { "write", put_write },
    { "write-data", put_write_data },
    { "write-end", put_write_end },
    { "stat", put_stat },
    { "list", put_list },
    { "mkdir", put_mkdir },
    { "remove", put_remove },
    { "rename", put_rename },
    { "keeper-kill", waldo__hand_put_keeper_kill },
};

static void test_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(requests); i++) {
        waldo__buf out = WALDO__BUF_INIT(4096);

        assert_int_equal(requests[i].put(&out), WALDO_OK);
        assert_bytes(requests[i].name, out.ptr, out.len);
        waldo__buf_free(&out);
    }
}

/* The hand's reader at every split: nothing before the last byte, then the whole frame. */
static void test_hand_reads_requests(void **state)
{
    static struct inbuf in;

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(requests); i++) {
        waldo_str bytes = golden(requests[i].name);

        for (size_t cut = 0; cut < bytes.len; cut++) {
            struct frame frame;
            size_t room;
            uint8_t *at = inbuf_space(&in, &room);

            memcpy(at, bytes.ptr, cut);
            inbuf_added(&in, cut);
            assert_int_equal(inbuf_next(&in, &frame), 0);
            assert_int_equal(inbuf_partial(&in), cut > 0);
            at = inbuf_space(&in, &room);
            memcpy(at, bytes.ptr + cut, bytes.len - cut);
            inbuf_added(&in, bytes.len - cut);
            assert_int_equal(inbuf_next(&in, &frame), 1);
            assert_int_equal(frame.type, (uint8_t)bytes.ptr[4]);
            assert_int_equal(frame.len, bytes.len - WALDO_HAND_HEADER_LEN);
            assert_int_equal(frame.id, memcmp(bytes.ptr + 5, "\0\0\0\0", 4) != 0 ? ID : 0);
            assert_memory_equal(frame.payload, bytes.ptr + WALDO_HAND_HEADER_LEN, frame.len);
            assert_int_equal(inbuf_next(&in, &frame), 0);
        }
    }
}

static void test_hand_reads_fields(void **state)
{
    waldo_str bytes = golden("run-argv");
    static const uint16_t tags[] = { 1, 2, 2, 2, 4, 5, 5, 12, 6, 7, 8, 9, 10, 11, 13, 14 };
    struct frame frame = { .payload = (const uint8_t *)bytes.ptr + 9,
                           .len = (uint32_t)bytes.len - 9 };
    struct fields it;
    struct field field;
    uint64_t wide = 0;
    uint32_t narrow = 0;

    (void)state;
    fields_init(&it, &frame);
    for (size_t i = 0; i < WALDO__COUNT(tags); i++) {
        assert_int_equal(fields_next(&it, &field), 1);
        assert_int_equal(field.tag, tags[i]);
        if (field.tag == WALDO_HAND_F_CAPTURE_MAX) {
            assert_true(field_u64(&field, &wide));
        } else if (field.tag == WALDO_HAND_F_TIMEOUT_MS) {
            assert_true(field_u32(&field, &narrow));
            assert_false(field_u64(&field, &wide));
        }
    }
    assert_int_equal(fields_next(&it, &field), 0);
    assert_int_equal(wide, UINT64_C(1) << 33);
    assert_int_equal(narrow, 120000);
    /* Cut anywhere, the last field overruns, unless the cut is between two. */
    for (uint32_t cut = 0; cut < frame.len; cut++) {
        struct frame shorter = { .payload = frame.payload, .len = cut };
        int got;

        fields_init(&it, &shorter);
        while ((got = fields_next(&it, &field)) == 1) {
            assert_true(field.ptr + field.len <= shorter.payload + cut);
        }
        assert_true(got == -1 || it.at == it.end);
    }
}

static const struct {
    const char *name;
    size_t len; /* of the text */
    const char *text;
} replies[] = {
#define REPLY(name, text)                                                                          \
    {                                                                                              \
        name, sizeof(text) - 1, text                                                               \
    }
    REPLY("hello", "01 0 v1 arch1 f3 pid7 uid1000 max262144 jobs64 rel102\n"),
    REPLY("credit", "06 1020304 4096\n"),
    REPLY("started", "80 1020304 4321\n"),
    REPLY("start-error", "81 1020304 2 6\n"),
    REPLY("out", "82 1020304 17179869184 out\0\xff\n"),
    REPLY("err", "83 1020304 3 e\n"),
    REPLY("exit", "84 1020304 2 9 2d 28 100 200 50 60 70 80 34359738368 11 12 13\n"),
    REPLY("data", "85 1020304 data\0\xff\n"),
    REPLY("done", "86 1020304 28 6 1 68719476736\n"),
    REPLY("pong", "87 1020304 pong\n"),
    REPLY("job-running", "89 1020304 77 1 8589934592 8589934583 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \n"),
    REPLY("job-ended", "89 1020304 78 2 100 40 2 9 2d 28 100 200 50 60 70 80 34359738368 11 12 13 "
                       "l\0\xff\n"),
    REPLY("error", "88 0 4 unknown frame type\n"),
}, keeper_replies[] = {
    REPLY("keeper-started", "b0 0 4321\n"),
    REPLY("keeper-failed", "b1 0 13 6\n"),
    REPLY("keeper-exit", "b2 0 1 1 3 5000 bad\n\n"),
};

static void test_replies(void **state)
{
    waldo__buf all = WALDO__BUF_INIT(65536), want = WALDO__BUF_INIT(65536);

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(replies); i++) {
        waldo__buf_add_str(&all, golden(replies[i].name));
        waldo__buf_add(&want, replies[i].text, replies[i].len);
    }
    for (size_t cut = 0; cut <= all.len; cut++) {
        waldo__buf text = WALDO__BUF_INIT(65536);
        waldo__hand_decoder decoder;

        waldo__hand_decoder_init(&decoder, nonce);
        decode(&decoder, waldo__buf_str(&all), cut, &text);
        assert_int_equal(text.len, want.len);
        assert_memory_equal(text.ptr, want.ptr, want.len);
        waldo__hand_decoder_free(&decoder);
        waldo__buf_free(&text);
    }
    waldo__buf_free(&all);
    waldo__buf_free(&want);
}

static void test_replies_byte_by_byte(void **state)
{
    waldo__buf text = WALDO__BUF_INIT(65536), want = WALDO__BUF_INIT(65536);
    waldo__hand_decoder decoder;

    (void)state;
    waldo__hand_decoder_init(&decoder, nonce);
    for (size_t i = 0; i < WALDO__COUNT(replies); i++) {
        waldo_str bytes = golden(replies[i].name);

        waldo__buf_add(&want, replies[i].text, replies[i].len);
        for (size_t k = 0; k < bytes.len; k++) {
            assert_int_equal(
                waldo__hand_feed(&decoder, waldo__strn(bytes.ptr + k, 1), describe, &text),
                WALDO_OK);
        }
    }
    assert_int_equal(text.len, want.len);
    assert_memory_equal(text.ptr, want.ptr, want.len);
    waldo__hand_decoder_free(&decoder);
    waldo__buf_free(&text);
    waldo__buf_free(&want);
}

static void test_keeper_replies(void **state)
{
    static const size_t orders[][2] = { { 0, 2 }, { 1, 1 } };

    (void)state;
    for (size_t order = 0; order < 2; order++) {
        waldo__buf all = WALDO__BUF_INIT(4096), want = WALDO__BUF_INIT(4096);

        for (size_t i = orders[order][0]; i <= orders[order][1]; i += 2) {
            waldo__buf_add_str(&all, golden(keeper_replies[i].name));
            waldo__buf_add(&want, keeper_replies[i].text, keeper_replies[i].len);
        }
        for (size_t cut = 0; cut <= all.len; cut++) {
            waldo__buf text = WALDO__BUF_INIT(4096);
            waldo__hand_decoder decoder;

            waldo__hand_decoder_init_keeper(&decoder);
            decode(&decoder, waldo__buf_str(&all), cut, &text);
            assert_string_equal(text.ptr, want.ptr);
            waldo__hand_decoder_free(&decoder);
            waldo__buf_free(&text);
        }
        waldo__buf_free(&all);
        waldo__buf_free(&want);
    }
}

static void test_hand_writes_replies(void **state)
{
    const struct exit_info info = { .how = 2,
                                    .value = 9,
                                    .flags = 0x2d,
                                    .capture_errno = 28,
                                    .total = { 100, 200 },
                                    .sent = { 50, 60 },
                                    .captured = 70,
                                    .capture_lost = 80,
                                    .wall_ns = UINT64_C(1) << 35,
                                    .user_us = 11,
                                    .system_us = 12,
                                    .max_rss_kb = 13 };
    struct hello hello = { .version = 1,
                           .arch = 1,
                           .features = 3,
                           .pid = 7,
                           .uid = 1000,
                           .max_payload = 262144,
                           .max_jobs = 64,
                           .release = 0x102 };
    const struct entry entries[] = {
        { .kind = 1,
          .mode = 0644,
          .size = 5,
          .mtime_s = 1700000000,
          .mtime_ns = 999999999,
          .uid = 1000,
          .gid = 100,
          .name = "na\xffme",
          .name_len = 5 },
        { .kind = 3,
          .mode = 0777,
          .size = 2,
          .mtime_s = -1,
          .name = "l",
          .name_len = 1,
          .target = "to/x",
          .target_len = 4 },
    };
    uint8_t frame[512];
    uint8_t *payload = frame + WALDO_HAND_HEADER_LEN;
    size_t len = 0;

    (void)state;
    memcpy(hello.nonce, nonce, sizeof nonce);
    put_header(frame, WALDO_HAND_HELLO_LEN, WALDO_HAND_HELLO, 0);
    hello_encode(payload, &hello);
    assert_bytes("hello", frame, 9 + WALDO_HAND_HELLO_LEN);
    put_header(frame, WALDO_HAND_EXIT_LEN, WALDO_HAND_EXIT, ID);
    exit_encode(payload, &info);
    assert_bytes("exit", frame, 9 + WALDO_HAND_EXIT_LEN);
    put_header(frame, WALDO_HAND_JOB_LEN, WALDO_HAND_JOB, ID);
    job_encode(payload, 77, UINT64_C(1) << 33, (UINT64_C(1) << 33) - 9, NULL);
    assert_bytes("job-running", frame, 9 + WALDO_HAND_JOB_LEN);
    put_header(frame, WALDO_HAND_JOB_LEN + 3, WALDO_HAND_JOB, ID);
    job_encode(payload, 78, 100, 40, &info);
    memcpy(payload + WALDO_HAND_JOB_LEN, "l\0\xff", 3);
    assert_bytes("job-ended", frame, 9 + WALDO_HAND_JOB_LEN + 3);
    put_header(frame, WALDO_HAND_DONE_LEN, WALDO_HAND_DONE, ID);
    done_encode(payload, 28, 6, 1, UINT64_C(1) << 36);
    assert_bytes("done", frame, 9 + WALDO_HAND_DONE_LEN);
    put_header(frame, WALDO_HAND_START_ERROR_LEN, WALDO_HAND_START_ERROR, ID);
    start_error_encode(payload, 2, 6);
    assert_bytes("start-error", frame, 9 + WALDO_HAND_START_ERROR_LEN);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(entry_encode(payload + len, 40, &entries[i]), 0);
        len += entry_encode(payload + len, sizeof frame - 9 - len, &entries[i]);
    }
    put_header(frame, len, WALDO_HAND_DATA, ID);
    assert_bytes("data-entries", frame, 9 + len);
}

static void test_hand_reads_hello(void **state)
{
    waldo_str bytes = golden("host-hello");
    struct frame frame = { .payload = (const uint8_t *)bytes.ptr + 9,
                           .len = (uint32_t)bytes.len - 9 };
    struct hello hello;

    (void)state;
    assert_true(hello_decode(&frame, &hello));
    assert_int_equal(hello.version, 1);
    assert_int_equal(hello.max_payload, 262144);
    assert_memory_equal(hello.nonce, nonce, sizeof nonce);
    frame.len--;
    assert_false(hello_decode(&frame, &hello));
}

static void test_chunks(void **state)
{
    static char bytes[700000];
    waldo__buf out = WALDO__BUF_INIT(1 << 20);

    (void)state;
    assert_int_equal(waldo__hand_put_write_data(&out, ID, waldo__strn(bytes, sizeof bytes)),
                     WALDO_OK);
    assert_int_equal(out.len, sizeof bytes + (size_t)3 * WALDO_HAND_HEADER_LEN);
    waldo__buf_clear(&out);
    assert_int_equal(waldo__hand_put_stdin(&out, ID, waldo__strn(bytes, 262144)), WALDO_OK);
    assert_int_equal(out.len, 262144 + (size_t)4 * WALDO_HAND_HEADER_LEN);
    waldo__buf_free(&out);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_hand_reads_requests),
        cmocka_unit_test(test_hand_reads_fields),
        cmocka_unit_test(test_hand_reads_hello),
        cmocka_unit_test(test_hand_writes_replies),
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_replies_byte_by_byte),
        cmocka_unit_test(test_keeper_replies),
        cmocka_unit_test(test_chunks),
    };

    golden_dir = argc > 1 ? argv[1] : "golden";
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
