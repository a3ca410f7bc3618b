/* Frames of an engine at every split, and archives byte for byte. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "codec/docker_frames.h"
#include "codec/tar.h"

typedef struct heard {
    char text[4][256];
    size_t pieces;
    waldo_status answer;
} heard;

static waldo_status hear(void *userdata, waldo__docker_stream stream, waldo_str bytes)
{
    heard *h = userdata;

    h->pieces++;
    strncat(h->text[stream], bytes.ptr, bytes.len);
    return bytes.len > 0 ? h->answer : WALDO_EPROTO;
}

static const char sample[] = "\1\0\0\0\0\0\0\5hello"
                             "\2\0\0\0\0\0\0\3err"
                             "\1\0\0\0\0\0\0\0"
                             "\0\0\0\0\0\0\0\1!"
                             "\3\0\0\0\0\0\0\4gone"
                             "\1\0\0\0\0\0\0\6 world";

static void every_split(void **state)
{
    const size_t len = sizeof sample - 1;

    (void)state;
    for (size_t a = 0; a <= len; a++) {
        for (size_t b = a; b <= len; b++) {
            waldo__docker_frames frames = { .left = 0 };
            heard h = { .answer = WALDO_OK };

            assert_int_equal(waldo__docker_frames_feed(&frames, waldo__strn(sample, a), hear, &h),
                             WALDO_OK);
            assert_int_equal(
                waldo__docker_frames_feed(&frames, waldo__strn(sample + a, b - a), hear, &h),
                WALDO_OK);
            assert_int_equal(
                waldo__docker_frames_feed(&frames, waldo__strn(sample + b, len - b), hear, &h),
                WALDO_OK);
            assert_int_equal(waldo__docker_frames_whole(&frames), 1);
            assert_string_equal(h.text[WALDO__DOCKER_STDOUT], "hello world");
            assert_string_equal(h.text[WALDO__DOCKER_STDERR], "err");
            assert_string_equal(h.text[WALDO__DOCKER_STDIN], "!");
            assert_string_equal(h.text[WALDO__DOCKER_ERROR], "gone");
        }
    }
}

static void not_whole(void **state)
{
    (void)state;
    for (size_t len = 1; len < 13; len++) {
        waldo__docker_frames frames = { .left = 0 };
        heard h = { .answer = WALDO_OK };

        waldo__docker_frames_feed(&frames, waldo__strn(sample, len), hear, &h);
        assert_int_equal(waldo__docker_frames_whole(&frames), 0);
    }
}

static void not_frames(void **state)
{
    static const char bad[][9] = { "\4\0\0\0\0\0\0\1", "\1\1\0\0\0\0\0\1", "\1\0\1\0\0\0\0\1",
                                   "\1\0\0\1\0\0\0\1", "\1\0\0\0\1\0\0\1", "HTTP/1.1" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        waldo__docker_frames frames = { .left = 0 };
        heard h = { .answer = WALDO_OK };

        assert_int_equal(waldo__docker_frames_feed(&frames, waldo__strn(bad[i], 8), hear, &h),
                         WALDO_EPROTO);
        assert_int_equal(h.pieces, 0);
    }
}

static void a_failure_stops(void **state)
{
    waldo__docker_frames frames = { .left = 0 };
    heard h = { .answer = WALDO_ECLOSED };

    (void)state;
    assert_int_equal(
        waldo__docker_frames_feed(&frames, waldo__strn(sample, sizeof sample - 1), hear, &h),
        WALDO_ECLOSED);
    assert_int_equal(h.pieces, 1);
}

/* Offsets and values as POSIX lays down for ustar. */
static void archives(void **state)
{
    const waldo__tar_entry folder = {
        .name = "/", .is_folder = 1, .mode = 0755, .uid = 1000, .gid = 1001
    };
    const waldo__tar_entry file = { .name = "f", .mode = 0555, .bytes = WALDO__S("abc") };
    waldo__buf out = WALDO__BUF_INIT(10000);
    unsigned sum = 0;

    (void)state;
    assert_int_equal(waldo__tar_put(&out, &folder), WALDO_OK);
    assert_int_equal(waldo__tar_put(&out, &file), WALDO_OK);
    assert_int_equal(waldo__tar_end(&out), WALDO_OK);
    assert_int_equal(out.len, 5 * 512);
    assert_memory_equal(out.ptr, "/\0\0", 3);
    assert_memory_equal(out.ptr + 100, "0000755\0000001750\0000001751\00000000000000\0", 36);
    assert_memory_equal(out.ptr + 156, "5\0", 2);
    assert_memory_equal(out.ptr + 257, "ustar\00000", 8);
    assert_memory_equal(out.ptr + 512 + 124, "00000000003\0", 12);
    assert_int_equal(out.ptr[512 + 156], '0');
    assert_memory_equal(out.ptr + 1024, "abc\0\0", 5);
    for (int i = 0; i < 512; i++) {
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)out.ptr[i];
        assert_int_equal(out.ptr[1536 + i], 0);
        assert_int_equal(out.ptr[2048 + i], 0);
    }
    assert_int_equal(strtoul(out.ptr + 148, NULL, 8), sum);
    waldo__buf_free(&out);
}

static void archives_that_cannot_be(void **state)
{
    char name[102];
    waldo__buf out = WALDO__BUF_INIT(10000);
    waldo__tar_entry entry = { .name = name };

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[101] = '\0';
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_ETOOBIG);
    name[100] = '\0';
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_OK);
    entry.uid = 2097152;
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_ETOOBIG);
    entry.name = "";
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split), cmocka_unit_test(not_whole),
        cmocka_unit_test(not_frames),  cmocka_unit_test(a_failure_stops),
        cmocka_unit_test(archives),    cmocka_unit_test(archives_that_cannot_be),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
