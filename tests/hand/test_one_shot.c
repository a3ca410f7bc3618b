/* One request in one run of the program, and its record read back. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define NONCE    "n0nce"
#define ID       5u
#define MEGABYTE (1024 * 1024)

static char folder[] = "/tmp/waldo-one-shot-XXXXXX";

/* One run of the program: what it prints, and the frames in it. */
struct shot {
    pid_t pid;
    int out; /* -1: ended */
    waldo__buf text;
    struct client frames;
    int began, ended; /* the first and the last line have come */
};

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void add_base64(waldo__buf *out, waldo_str bytes)
{
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i < 3 ? bytes.len - i : 3;
        uint8_t in[3] = { 0 };
        uint32_t bits;

        memcpy(in, bytes.ptr + i, left);
        bits = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        for (size_t k = 0; k < 4; k++) {
            waldo__buf_putc(out, k <= left ? digits[bits >> (18 - 6 * k) & 63] : '=');
        }
    }
}

/* One line, whole and padded; nothing else is base64 here. */
static void decode_line(waldo__buf *out, waldo_str line)
{
    assert_int_equal(line.len % 4, 0);
    for (size_t i = 0; i < line.len; i += 4) {
        uint32_t bits = 0;
        size_t pads = 0;

        for (size_t k = 0; k < 4; k++) {
            const char *at = strchr(digits, line.ptr[i + k]);

            pads += line.ptr[i + k] == '=';
            assert_true(line.ptr[i + k] == '=' || (at != NULL && *at != '\0' && pads == 0));
            bits = bits << 6 | (line.ptr[i + k] == '=' ? 0 : (uint32_t)(at - digits));
        }
        assert_true(pads == 0 || (pads < 3 && i + 4 == line.len));
        for (size_t k = 0; k < 3 - pads; k++) {
            waldo__buf_putc(out, (char)(bits >> (16 - 8 * k)));
        }
    }
}

/* Starts the program with arguments and stdin. */
static void start(struct shot *shot, const char *const *args, int in)
{
    const char *all[8] = { "waldo-hand" };
    int ends[2];

    *shot = (struct shot){ .text = WALDO__BUF_INIT(16 << 20) };
    client_init(&shot->frames);
    shot->frames.decoder.greeted = 1; /* there is no greeting in a one-shot */
    for (size_t i = 0; args[i] != NULL; i++) {
        all[i + 1] = args[i];
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    shot->pid = fork();
    assert_true(shot->pid >= 0);
    if (shot->pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        dup2(in >= 0 ? in : null, 0);
        dup2(ends[1], 1);
        dup2(null, 2);
        execv(client_program, (char *const *)(uintptr_t)all);
        _exit(99);
    }
    close(ends[1]);
    shot->out = ends[0];
}

static void start_request(struct shot *shot, waldo__buf *frames, const char *record)
{
    waldo__buf text = WALDO__BUF_INIT(16 << 20);
    const char *args[] = { "one-shot", NONCE, NULL, record, NULL };

    assert_int_equal(frames->status, WALDO_OK);
    add_base64(&text, waldo__buf_str(frames));
    args[2] = waldo__buf_str(&text).ptr;
    start(shot, args, -1);
    waldo__buf_free(&text);
    waldo__buf_free(frames);
}

static void start_sh(struct shot *shot, const char *script, waldo__hand_run run, const char *record)
{
    waldo__buf frames = WALDO__BUF_INIT(1 << 20);

    run.script = waldo__str(script);
    waldo__hand_put_run(&frames, ID, &run);
    start_request(shot, &frames, record);
}

/* Takes the whole lines that have come. */
static void take_lines(struct shot *shot)
{
    waldo_str text = waldo__buf_str(&shot->text);
    const char *end;

    while ((end = memchr(text.ptr, '\n', text.len)) != NULL) {
        waldo_str line = waldo__strn(text.ptr, (size_t)(end - text.ptr));
        waldo__buf bytes = WALDO__BUF_INIT(1 << 16);

        assert_false(shot->ended);
        if (!shot->began) {
            assert_true(waldo__str_is(line, NONCE));
            shot->began = 1;
        } else if (waldo__str_is(line, NONCE " end")) {
            shot->ended = 1;
        } else {
            assert_true(line.len <= 4096);
            decode_line(&bytes, line);
            client_feed(&shot->frames, waldo__buf_str(&bytes));
            waldo__buf_free(&bytes);
        }
        waldo__buf_consume(&shot->text, line.len + 1);
        text = waldo__buf_str(&shot->text);
    }
}

/* Reads once; 0 at the end. */
static int read_more(struct shot *shot)
{
    static char chunk[65536];
    struct pollfd one = { .fd = shot->out, .events = POLLIN };
    ssize_t n;

    assert_int_equal(poll(&one, 1, 60000), 1);
    n = read(shot->out, chunk, sizeof chunk);
    if (n > 0) {
        waldo__buf_add(&shot->text, chunk, (size_t)n);
        take_lines(shot);
    }
    return n > 0;
}

/* Reads to the end; the exit status. */
static int finish(struct shot *shot)
{
    while (shot->out >= 0 && read_more(shot)) {
    }
    if (shot->out >= 0) {
        close(shot->out);
    }
    assert_int_equal(shot->text.len, 0);
    return client_status(shot->pid);
}

static struct record *reply(struct shot *shot)
{
    return client_record(&shot->frames, ID);
}

static void free_shot(struct shot *shot)
{
    client_free(&shot->frames);
    waldo__buf_free(&shot->text);
}

static void put_file(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* Every byte there is, many times, then another megabyte that no text could be. */
static const uint8_t *sample(void)
{
    static uint8_t bytes[MEGABYTE];
    uint32_t state = 1;

    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = i < 65536 ? (uint8_t)i : (uint8_t)(state >> 24);
    }
    return bytes;
}

static void test_exact_bytes(void **state)
{
    const char *path = in_folder("sample");
    char script[256];
    struct shot shot;

    (void)state;
    put_file(path, sample(), MEGABYTE);
    snprintf(script, sizeof script, "cat %s; printf 'e\\0\\377' >&2; exit 3", path);
    start_sh(&shot, script, WALDO__HAND_RUN_INIT, NULL);
    assert_int_equal(finish(&shot), 0);
    assert_true(shot.ended);
    assert_int_equal(reply(&shot)->started, 1);
    assert_int_equal(reply(&shot)->exits, 1);
    assert_int_equal(reply(&shot)->after_end, 0);
    assert_int_equal(reply(&shot)->exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(reply(&shot)->exit.value, 3);
    assert_int_equal(reply(&shot)->streams[0].len, MEGABYTE);
    assert_memory_equal(reply(&shot)->streams[0].ptr, sample(), MEGABYTE);
    assert_int_equal(reply(&shot)->streams[1].len, 3);
    assert_memory_equal(reply(&shot)->streams[1].ptr, "e\0\377", 3);
    free_shot(&shot);
}

static void test_no_program(void **state)
{
    needs(NEED_VFORK);

    waldo__buf frames = WALDO__BUF_INIT(1 << 20);
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo_str arg = WALDO__S("/no/such/program");
    struct shot shot;

    (void)state;
    run.args = &arg;
    run.arg_count = 1;
    waldo__hand_put_run(&frames, ID, &run);
    start_request(&shot, &frames, NULL);
    assert_int_equal(finish(&shot), 0);
    assert_int_equal(reply(&shot)->start_error, ENOENT);
    assert_true(shot.ended);
    free_shot(&shot);
}

static void test_timeout(void **state)
{
    needs(NEED_SUBREAPER);

    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    const char *number = sleep_number();
    struct shot shot;
    char script[128];

    (void)state;
    run.timeout_ms = 200;
    run.has_grace = 1;
    snprintf(script, sizeof script, "echo before; setsid sleep %s & sleep %s", number, number);
    for (;;) {
        start_sh(&shot, script, run, NULL);
        assert_int_equal(finish(&shot), 0);
        assert_true((reply(&shot)->exit.flags & WALDO_HAND_EXIT_TIMED_OUT) != 0);
        if (reply(&shot)->streams[0].len > 0 || run.timeout_ms > 10000) {
            break;
        }
        free_shot(&shot);
        run.timeout_ms *= 10; /* where it is too slow to print by then */
    }
    assert_string_equal(waldo__buf_str(&reply(&shot)->streams[0]).ptr, "before\n");
    assert_int_equal(count_sleeps(number), 0);
    free_shot(&shot);
}

static void test_leftovers_go(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = sleep_number();
    struct shot shot;
    char script[128];

    (void)state;
    snprintf(script, sizeof script, "setsid sleep %s >/dev/null 2>&1 & exit 0", number);
    start_sh(&shot, script, WALDO__HAND_RUN_INIT, NULL);
    assert_int_equal(finish(&shot), 0);
    assert_true(shot.ended);
    assert_int_equal(count_sleeps(number), 0);
    free_shot(&shot);
}

/* A provider that ends the program ends the command: at once, or when it has been told. */
static void test_killed(void **state)
{
    needs(NEED_SUBREAPER);

    static const int signals[] = { SIGTERM, SIGHUP, SIGKILL };

    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        const char *number = sleep_number();
        struct shot shot;
        char script[128];

        snprintf(script, sizeof script, "setsid sleep %s & echo up; wait", number);
        start_sh(&shot, script, WALDO__HAND_RUN_INIT, NULL);
        while (reply(&shot)->streams[0].len < 3 || count_sleeps(number) == 0) {
            if (reply(&shot)->streams[0].len < 3) {
                assert_true(read_more(&shot));
            }
        }
        kill(shot.pid, signals[i]);
        assert_int_equal(finish(&shot), signals[i] == SIGKILL ? -1 : 0);
        assert_int_equal(shot.ended, signals[i] != SIGKILL);
        assert_int_equal(reply(&shot)->exits, 0);
        assert_int_equal(wait_no_sleeps(number), 0);
        free_shot(&shot);
    }
}

static void test_broken_output(void **state)
{
    needs(NEED_SUBREAPER);

    const char *number = sleep_number();
    struct shot shot;
    char script[128];

    (void)state;
    snprintf(script, sizeof script, "echo up; sleep %s", number);
    start_sh(&shot, script, WALDO__HAND_RUN_INIT, NULL);
    while (reply(&shot)->streams[0].len < 3 || count_sleeps(number) == 0) {
        if (reply(&shot)->streams[0].len < 3) {
            assert_true(read_more(&shot));
        }
    }
    close(shot.out);
    shot.out = -1;
    assert_int_equal(finish(&shot), WALDO_HAND_STATUS_OUTPUT);
    assert_int_equal(count_sleeps(number), 0);
    free_shot(&shot);
}

/* Writes text to the program's stdin while reading what it prints. */
static int run_with_stdin(struct shot *shot, waldo_str text)
{
    static const char *const args[] = { "one-shot", NONCE, "-", NULL };
    int ends[2];
    pid_t writer;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    start(shot, args, ends[0]);
    close(ends[0]);
    writer = fork();
    if (writer == 0) {
        signal(SIGPIPE, SIG_IGN);
        for (size_t at = 0; at < text.len;) {
            ssize_t n = write(ends[1], text.ptr + at, text.len - at);

            at = n > 0 ? at + (size_t)n : text.len;
        }
        _exit(0);
    }
    close(ends[1]);
    client_status(writer);
    return finish(shot);
}

static void test_stdin(void **state)
{
    waldo__buf frames = WALDO__BUF_INIT(1 << 20), text = WALDO__BUF_INIT(1 << 20);
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct shot shot;

    (void)state;
    run.flags = WALDO_HAND_RUN_STDIN;
    run.script = WALDO__S("cat; echo end");
    waldo__hand_put_run(&frames, ID, &run);
    /* Frames encoded each by itself, on lines, with blanks: all the same. */
    add_base64(&text, waldo__buf_str(&frames));
    waldo__buf_puts(&text, "\r\n ");
    waldo__buf_clear(&frames);
    waldo__hand_put_stdin(&frames, ID, waldo__strn("in\0\377", 4));
    add_base64(&text, waldo__buf_str(&frames));
    waldo__buf_puts(&text, "\n");
    assert_int_equal(run_with_stdin(&shot, waldo__buf_str(&text)), 0);
    assert_int_equal(reply(&shot)->streams[0].len, 8);
    assert_memory_equal(reply(&shot)->streams[0].ptr, "in\0\377end\n", 8);
    assert_int_equal(reply(&shot)->credited, 4);
    free_shot(&shot);
    waldo__buf_free(&frames);
    waldo__buf_free(&text);
}

static void test_files(void **state)
{
    waldo__buf frames = WALDO__BUF_INIT(4 << 20), text = WALDO__BUF_INIT(4 << 20);
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    struct shot shot;

    (void)state;
    file.path = waldo__str(in_folder("written"));
    file.flags = WALDO_HAND_FILE_ATOMIC;
    waldo__hand_put_file(&frames, WALDO_HAND_WRITE, ID, &file);
    waldo__hand_put_write_data(&frames, ID, waldo__strn((const char *)sample(), MEGABYTE));
    add_base64(&text, waldo__buf_str(&frames));
    /* Cut short: an error, and no file. */
    assert_int_equal(run_with_stdin(&shot, waldo__buf_str(&text)), WALDO_HAND_STATUS_PROTOCOL);
    assert_int_equal(shot.frames.error_code, WALDO_HAND_E_TRUNCATED);
    assert_true(shot.ended);
    assert_int_not_equal(access(file.path.ptr, F_OK), 0);
    free_shot(&shot);

    waldo__hand_put_write_end(&frames, ID);
    waldo__buf_clear(&text);
    add_base64(&text, waldo__buf_str(&frames));
    assert_int_equal(run_with_stdin(&shot, waldo__buf_str(&text)), 0);
    assert_int_equal(reply(&shot)->done.err, 0);
    assert_int_equal(reply(&shot)->done.value, MEGABYTE);
    free_shot(&shot);

    waldo__buf_clear(&frames);
    file.flags = 0;
    waldo__hand_put_file(&frames, WALDO_HAND_READ, ID, &file);
    start_request(&shot, &frames, NULL);
    assert_int_equal(finish(&shot), 0);
    assert_int_equal(reply(&shot)->data.len, MEGABYTE);
    assert_memory_equal(reply(&shot)->data.ptr, sample(), MEGABYTE);
    assert_int_equal(reply(&shot)->done.value, MEGABYTE);
    free_shot(&shot);

    file.path = waldo__str(in_folder("absent"));
    waldo__hand_put_file(&frames, WALDO_HAND_STAT, ID, &file);
    start_request(&shot, &frames, NULL);
    assert_int_equal(finish(&shot), 0);
    assert_int_equal(reply(&shot)->done.err, ENOENT);
    free_shot(&shot);
    waldo__buf_free(&text);
}

/* The ERROR that frames are answered with. */
static int refused(waldo_str frames)
{
    waldo__buf text = WALDO__BUF_INIT(1 << 20);
    struct shot shot;
    int code;

    waldo__buf_add_str(&text, frames);
    start_request(&shot, &text, NULL);
    assert_int_equal(finish(&shot), WALDO_HAND_STATUS_PROTOCOL);
    assert_true(shot.ended);
    code = shot.frames.error_code;
    free_shot(&shot);
    return code;
}

static void test_refused(void **state)
{
    static const uint8_t nonce[WALDO_HAND_NONCE_LEN];
    waldo__buf frames = WALDO__BUF_INIT(1 << 20);
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    struct shot shot;

    (void)state;
    assert_int_equal(refused(WALDO__S("")), WALDO_HAND_E_TRUNCATED);
    run.script = WALDO__S("sleep 100");
    waldo__hand_put_run(&frames, ID, &run);
    for (size_t cut = 1; cut < frames.len; cut += 7) {
        assert_int_equal(refused(waldo__strn(frames.ptr, cut)), WALDO_HAND_E_TRUNCATED);
    }
    waldo__hand_put_run(&frames, ID + 1, &run);
    assert_int_equal(refused(waldo__buf_str(&frames)), WALDO_HAND_E_STATE);
    waldo__buf_clear(&frames);
    waldo__hand_put_hello(&frames, nonce);
    assert_int_equal(refused(waldo__buf_str(&frames)), WALDO_HAND_E_STATE);
    waldo__buf_clear(&frames);
    waldo__hand_put_ping(&frames, ID, WALDO__S("x"));
    assert_int_equal(refused(waldo__buf_str(&frames)), WALDO_HAND_E_TRUNCATED);
    waldo__buf_free(&frames);
    start(&shot, (const char *const[]){ "one-shot", NONCE, "not base64!", NULL }, -1);
    assert_int_equal(finish(&shot), WALDO_HAND_STATUS_PROTOCOL);
    assert_int_equal(shot.frames.error_code, WALDO_HAND_E_PAYLOAD);
    free_shot(&shot);
    assert_int_equal(run_with_stdin(&shot, WALDO__S("QUJD-")), WALDO_HAND_STATUS_PROTOCOL);
    assert_int_equal(shot.frames.error_code, WALDO_HAND_E_PAYLOAD);
    free_shot(&shot);
}

static void test_usage(void **state)
{
    static const char much[] = "12345678901234567890123456789012345678901234567890123456789012345";
    static const char *const cases[][6] = {
        { "one-shot", "n", NULL },        { "one-shot", "", "-", NULL },

        { "one-shot", much, "-", NULL },  { "one-shot", "n", "-", "r", "more", NULL },
        { "read", "n", "r", NULL },       { "read", "n", "r", "", NULL },
        { "read", "n", "r", "1x", NULL }, { "read", "n", "r", "-1", NULL },
        { "read", "", "r", "0", NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shot shot;

        start(&shot, cases[i], -1);
        assert_int_equal(finish(&shot), WALDO_HAND_STATUS_USAGE);
        free_shot(&shot);
    }
}

static void start_read(struct shot *shot, const char *record, const char *offset)
{
    const char *args[] = { "read", NONCE, record, offset, NULL };

    start(shot, args, -1);
}

static void test_record(void **state)
{
    const char *record = in_folder("record"), *fifo = in_folder("fifo");
    struct shot writer, reader, later;
    char script[256], offset[32];
    struct stat st;
    int fd;

    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(script, sizeof script, "printf 'one\\0\\n'; cat %s; exit 5", fifo);
    start_sh(&writer, script, WALDO__HAND_RUN_INIT, record);
    while (reply(&writer)->streams[0].len < 5) {
        assert_true(read_more(&writer));
    }
    /* It is followed while it grows; its writer's own output may break meanwhile. */
    start_read(&reader, record, "0");
    while (reply(&reader)->streams[0].len < 5) {
        assert_true(read_more(&reader));
    }
    close(writer.out);
    writer.out = -1;
    fd = open(fifo, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "two\n", 4), 4);
    close(fd);
    assert_int_equal(finish(&writer), 0);
    assert_int_equal(finish(&reader), 0);
    assert_true(reader.ended);
    assert_int_equal(reply(&reader)->exit.value, 5);
    assert_int_equal(reply(&reader)->streams[0].len, 9);
    assert_memory_equal(reply(&reader)->streams[0].ptr, "one\0\ntwo\n", 9);
    /* Later, from where somebody else stopped. */
    assert_int_equal(stat(record, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(offset, sizeof offset, "%d", WALDO_HAND_HEADER_LEN + WALDO_HAND_STARTED_LEN);
    start_read(&later, record, offset);
    assert_int_equal(finish(&later), 0);
    assert_int_equal(reply(&later)->started, 0);
    assert_int_equal(reply(&later)->exit.value, 5);
    assert_int_equal(reply(&later)->streams[0].len, 9);
    free_shot(&writer);
    free_shot(&reader);
    free_shot(&later);
    start_read(&later, record, "100000");
    assert_int_equal(finish(&later), 0);
    assert_true(later.ended);
    free_shot(&later);
    /* Nothing is ever written over. */
    start_sh(&writer, "echo never", WALDO__HAND_RUN_INIT, record);
    assert_int_equal(finish(&writer), WALDO_HAND_STATUS_ABSENT);
    free_shot(&writer);
    start_read(&later, in_folder("no-record"), "0");
    assert_int_equal(finish(&later), WALDO_HAND_STATUS_ABSENT);
    free_shot(&later);
}

static void test_record_of_the_dead(void **state)
{
    const char *record = in_folder("dead"), *number = sleep_number();
    struct shot writer, reader;
    char script[128];

    (void)state;
    snprintf(script, sizeof script, "echo up; sleep %s", number);
    start_sh(&writer, script, WALDO__HAND_RUN_INIT, record);
    while (reply(&writer)->streams[0].len < 3) {
        assert_true(read_more(&writer));
    }
    start_read(&reader, record, "0");
    while (reply(&reader)->streams[0].len < 3) {
        assert_true(read_more(&reader));
    }
    kill(writer.pid, SIGKILL);
    finish(&writer);
    assert_int_equal(finish(&reader), 0);
    assert_true(reader.ended);
    assert_int_equal(reply(&reader)->exits, 0);
    assert_int_equal(wait_no_sleeps(number), 0);
    free_shot(&writer);
    free_shot(&reader);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    static const char *const names[] = { "sample", "written", "record", "fifo", "dead" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unlink(in_folder(names[i]));
    }
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_bytes), cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_timeout),     cmocka_unit_test(test_leftovers_go),
        cmocka_unit_test(test_killed),      cmocka_unit_test(test_broken_output),
        cmocka_unit_test(test_stdin),       cmocka_unit_test(test_files),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_usage),
        cmocka_unit_test(test_record),      cmocka_unit_test(test_record_of_the_dead),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    return !!cmocka_run_group_tests(tests, make_folder, remove_folder);
}
