/* Frames of an engine at every split, and archives byte for byte. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/docker_frames.h"
#include "codec/tar.h"
#include "codec/untar.h"

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
    char name[4098];
    waldo__buf out = WALDO__BUF_INIT(10000);
    waldo__tar_entry entry = { .name = name };

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[4097] = '\0';
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_ETOOBIG);
    name[4096] = '\0';
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_OK);
    entry.uid = 2097152;
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_ETOOBIG);
    entry.name = "";
    assert_int_equal(waldo__tar_put(&out, &entry), WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

/* ---- reading ---- */

typedef struct found {
    char text[20000];
    size_t pieces;
    waldo_status answer;
} found;

static waldo_status on_entry(void *userdata, const waldo__untar_entry *entry)
{
    found *f = userdata;
    size_t used = strlen(f->text);

    snprintf(f->text + used, sizeof f->text - used, "[%d %s %s %o %d]", (int)entry->kind,
             entry->name.ptr, entry->link.ptr, (unsigned)entry->mode, (int)entry->size);
    return f->answer;
}

static waldo_status on_data(void *userdata, waldo_str bytes)
{
    found *f = userdata;

    f->pieces++;
    strncat(f->text, bytes.ptr, bytes.len);
    return WALDO_OK;
}

static const waldo__untar_fns fns = { on_entry, on_data };

/* Feed it in pieces of one size. */
static waldo_status unpack(waldo_str archive, size_t piece, found *f, int *ret_whole)
{
    waldo__untar untar;
    waldo_status status = WALDO_OK;

    waldo__untar_init(&untar, &fns, f);
    for (size_t at = 0; at < archive.len && status == WALDO_OK; at += piece) {
        size_t len = archive.len - at < piece ? archive.len - at : piece;

        status = waldo__untar_feed(&untar, waldo__strn(archive.ptr + at, len));
    }
    *ret_whole = waldo__untar_whole(&untar);
    waldo__untar_free(&untar);
    return status;
}

/* What our writer makes, of every kind and with names of every length, comes back. */
static void there_and_back(void **state)
{
    static const size_t lengths[] = { 1, 98, 99, 100, 101, 102, 980, 981, 982, 983, 4096 };

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char name[4097];
        char expected[20000];
        const waldo__tar_entry entries[] = {
            { .name = "d", .is_folder = 1, .mode = 0755 },
            { .name = name, .mode = 0640, .bytes = WALDO__S("content"), .mtime_s = 1 },
            { .name = "l", .link = name, .mode = 0777 },
            { .name = "after", .mode = 0600 },
        };
        waldo__buf out = WALDO__BUF_INIT(100000);

        memset(name, 'n', lengths[i]);
        name[lengths[i]] = '\0';
        for (size_t j = 0; j < sizeof entries / sizeof *entries; j++) {
            assert_int_equal(waldo__tar_put(&out, &entries[j]), WALDO_OK);
        }
        waldo__tar_end(&out);
        snprintf(expected, sizeof expected,
                 "[3 d  755 0][0 %s  640 7]content[2 l %s 777 0][0 after  600 0]", name, name);
        for (size_t piece = 1; piece < 1500; piece += piece < 20 ? 1 : 491) {
            found f = { .answer = WALDO_OK };
            int whole = 0;

            assert_int_equal(unpack(waldo__buf_str(&out), piece, &f, &whole), WALDO_OK);
            assert_int_equal(whole, 1);
            assert_string_equal(f.text, expected);
        }
        waldo__buf_free(&out);
    }
}

static void cut_archives(void **state)
{
    const waldo__tar_entry entry = { .name = "f", .bytes = WALDO__S("abc") };
    waldo__buf out = WALDO__BUF_INIT(10000);

    (void)state;
    waldo__tar_put(&out, &entry);
    waldo__tar_end(&out);
    for (size_t len = 0; len < out.len; len++) {
        found f = { .answer = WALDO_OK };
        int whole = 1;

        assert_int_equal(unpack(waldo__strn(out.ptr, len), 7, &f, &whole), WALDO_OK);
        assert_int_equal(whole, 0);
    }
    waldo__buf_free(&out);
}

static void spoil(char *block, size_t at, char byte)
{
    unsigned sum = 0;

    block[at] = byte;
    for (int i = 0; i < 512; i++) {
        sum += i >= 148 && i < 156 ? ' ' : (unsigned char)block[i];
    }
    snprintf(block + 148, 8, "%06o", sum);
}

static void no_archives(void **state)
{
    const waldo__tar_entry entry = { .name = "f", .bytes = WALDO__S("abc") };
    static const struct {
        size_t at;
        char byte;
        waldo_status status;
    } rows[] = {
        { 0, '\0', WALDO_EPROTO },     /* no name */
        { 124, '9', WALDO_EPROTO },    /* no octal size */
        { 124, '\xff', WALDO_EPROTO }, /* a size above 63 bits */
        { 100, 'x', WALDO_EPROTO },    /* no mode */
        { 136, 'x', WALDO_EPROTO },    /* no time */
        { 156, 'Z', WALDO_OK },        /* a kind that is not known */
        { 156, 'x', WALDO_EPROTO },    /* pax records that are none */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        waldo__buf out = WALDO__BUF_INIT(10000);
        found f = { .answer = WALDO_OK };
        int whole;

        waldo__tar_put(&out, &entry);
        waldo__tar_end(&out);
        spoil(out.ptr, rows[i].at, rows[i].byte);
        assert_int_equal(unpack(waldo__buf_str(&out), 100, &f, &whole), rows[i].status);
        waldo__buf_free(&out);
    }
    for (size_t at = 0; at < 512; at += 7) { /* the sum is wrong */
        waldo__buf out = WALDO__BUF_INIT(10000);
        found f = { .answer = WALDO_OK };
        int whole;

        waldo__tar_put(&out, &entry);
        out.ptr[at] ^= 1;
        assert_int_equal(unpack(waldo__buf_str(&out), 512, &f, &whole), WALDO_EPROTO);
        assert_int_equal(f.text[0], 0);
        waldo__buf_free(&out);
    }
}

static void what_describes_is_bounded(void **state)
{
    static char huge[70000];
    const waldo__tar_entry entry = { .name = "f", .bytes = { huge, sizeof huge } };
    waldo__buf out = WALDO__BUF_INIT(100000);
    found f = { .answer = WALDO_OK };
    int whole;

    (void)state;
    memset(huge, 'n', sizeof huge);
    waldo__tar_put(&out, &entry);
    spoil(out.ptr, 156, 'L');
    assert_int_equal(unpack(waldo__buf_str(&out), 512, &f, &whole), WALDO_ETOOBIG);
    waldo__buf_free(&out);
    out = WALDO__BUF_INIT(100000); /* a name above 16 KiB */
    waldo__tar_put(&out, &(waldo__tar_entry){ .name = "f", .bytes = { huge, 20000 } });
    spoil(out.ptr, 156, 'L');
    waldo__tar_put(&out, &entry);
    assert_int_equal(unpack(waldo__buf_str(&out), 512, &f, &whole), WALDO_ETOOBIG);
    waldo__buf_free(&out);
}

static void a_user_may_stop(void **state)
{
    const waldo__tar_entry entry = { .name = "f", .bytes = WALDO__S("abc") };
    waldo__buf out = WALDO__BUF_INIT(10000);
    found f = { .answer = WALDO_ECANCELED };
    int whole;

    (void)state;
    waldo__tar_put(&out, &entry);
    waldo__tar_put(&out, &entry);
    assert_int_equal(unpack(waldo__buf_str(&out), 10000, &f, &whole), WALDO_ECANCELED);
    assert_string_equal(f.text, "[0 f  0 3]");
    waldo__buf_free(&out);
}

static int64_t last_mtime;

static waldo_status on_time(void *userdata, const waldo__untar_entry *entry)
{
    (void)userdata;
    last_mtime = entry->mtime_s;
    return WALDO_OK;
}

static void times(void **state)
{
    static const struct {
        const char *record; /* of pax; NULL: none */
        const char *field;
        int64_t mtime;
    } rows[] = { { NULL, "00000000011", 9 },
                 { NULL, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 0 },
                 { "19 mtime=1700.9999\n", "00000000011", 1700 },
                 { "14 mtime=-1.5\n", "00000000011", 0 },
                 { "11 mtime=x\n", "00000000011", 0 } };
    static const waldo__untar_fns time_fns = { on_time, on_data };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *record = rows[i].record;
        const waldo__tar_entry describing = { .name = "pax", .bytes = waldo__str(record) };
        waldo__buf out = WALDO__BUF_INIT(10000);
        found f = { .answer = WALDO_OK };
        waldo__untar untar;
        size_t at = 0;

        if (record != NULL) {
            waldo__tar_put(&out, &describing);
            spoil(out.ptr, 156, 'x');
            at = out.len;
        }
        waldo__tar_put(&out, &(waldo__tar_entry){ .name = "f" });
        memcpy(out.ptr + at + 136, rows[i].field, strlen(rows[i].field));
        spoil(out.ptr + at, 156, '0');
        waldo__untar_init(&untar, &time_fns, &f);
        assert_int_equal(waldo__untar_feed(&untar, waldo__buf_str(&out)), WALDO_OK);
        assert_int_equal(last_mtime, rows[i].mtime);
        waldo__untar_free(&untar);
        waldo__buf_free(&out);
    }
}

static void sparse_files(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(10000);
    found f = { .answer = WALDO_OK };
    int whole;

    (void)state;
    waldo__tar_put(&out, &(waldo__tar_entry){ .name = "f" });
    spoil(out.ptr, 156, 'S');
    assert_int_equal(unpack(waldo__buf_str(&out), 512, &f, &whole), WALDO_ENOTSUP);
    waldo__buf_clear(&out);
    waldo__tar_put(
        &out, &(waldo__tar_entry){ .name = "pax", .bytes = WALDO__S("22 GNU.sparse.major=1\n") });
    spoil(out.ptr, 156, 'x');
    waldo__tar_put(&out, &(waldo__tar_entry){ .name = "f" });
    assert_int_equal(unpack(waldo__buf_str(&out), 512, &f, &whole), WALDO_ENOTSUP);
    waldo__buf_free(&out);
}

static void places(void **state)
{
    static const struct {
        const char *name;
        const char *path; /* NULL: nowhere */
    } rows[] = { { "a/b", "a/b" },   { "./a//b/", "a/b" }, { ".", "" },
                 { "./", "" },       { "", "" },           { "...", "..." },
                 { "a..b", "a..b" }, { "/a", NULL },       { "/", NULL },
                 { "..", NULL },     { "a/../b", NULL },   { "a/..", NULL },
                 { "../a", NULL },   { "a/./b", "a/b" },   { "a\n\xff", "a\n\xff" } };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        waldo__buf out = WALDO__BUF_INIT(100);
        waldo_status status = waldo__untar_path(waldo__str(rows[i].name), &out);

        assert_int_equal(status, rows[i].path != NULL ? WALDO_OK : WALDO_EPATH);
        if (rows[i].path != NULL) {
            assert_string_equal(waldo__buf_str(&out).ptr, rows[i].path);
        }
        waldo__buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split),     cmocka_unit_test(not_whole),
        cmocka_unit_test(not_frames),      cmocka_unit_test(a_failure_stops),
        cmocka_unit_test(archives),        cmocka_unit_test(archives_that_cannot_be),
        cmocka_unit_test(there_and_back),  cmocka_unit_test(cut_archives),
        cmocka_unit_test(no_archives),     cmocka_unit_test(what_describes_is_bounded),
        cmocka_unit_test(a_user_may_stop), cmocka_unit_test(times),
        cmocka_unit_test(sparse_files),    cmocka_unit_test(places),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
