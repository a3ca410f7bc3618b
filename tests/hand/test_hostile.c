/* What a broken or hostile host may send: a named ERROR and an end, or a named refusal. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

#include "base/alloc.h"

static struct client hand;

static void put_le(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(value >> 8 * i);
    }
}

/* A frame with any length in its header, whatever follows. */
static void send_frame(uint32_t said_len, uint8_t type, uint32_t id, const void *payload,
                       size_t len)
{
    uint8_t header[WALDO_HAND_HEADER_LEN];

    put_le(header, said_len, 4);
    header[4] = type;
    put_le(header + 5, id, 4);
    client_send_raw(&hand, header, sizeof header);
    client_send_raw(&hand, payload, len);
}

/* The hand has said why and ended, and so has the command that ran meanwhile. */
static void assert_ends(int code, const char *number)
{
    int got;

    while (client_read(&hand, 60000) > 0) {
    }
    got = hand.error_code;
    assert_int_equal(client_wait_exit(&hand), WALDO_HAND_STATUS_PROTOCOL);
    assert_int_equal(got, code);
    if (number != NULL) {
        assert_int_equal(count_sleeps(number), 0);
    }
}

/* A greeted hand with a running command. */
static const char *open_busy(void)
{
    const char *number = sleep_number();
    char script[64];
    uint32_t id;

    client_open(&hand);
    snprintf(script, sizeof script, "echo ready; exec sleep %s", number);
    id = client_sh(&hand, script, WALDO__HAND_RUN_INIT);
    client_has_output(&hand, id, 0, 6);
    return number;
}

static void test_frames_that_end_the_session(void **state)
{
    static const uint8_t zeros[300] = { 0 };
    static const struct {
        uint32_t said_len;
        uint8_t type;
        uint32_t id;
        size_t len;
        int code;
    } cases[] = {
        { WALDO_HAND_PAYLOAD_MAX + 1, WALDO_HAND_PING, 9, 0, WALDO_HAND_E_LENGTH },
        { 0xffffffff, WALDO_HAND_WRITE_DATA, 9, 300, WALDO_HAND_E_LENGTH },
        { 0, 0x3f, 9, 0, WALDO_HAND_E_TYPE },
        { 0, 0xff & ~0x40, 9, 0, WALDO_HAND_E_TYPE },
        { 0, WALDO_HAND_OUT, 9, 0, WALDO_HAND_E_TYPE },
        { 0, WALDO_HAND_KEEPER_KILL, 0, 0, WALDO_HAND_E_TYPE },
        { 56, WALDO_HAND_HELLO, 0, 56, WALDO_HAND_E_STATE },
        { 0, WALDO_HAND_RUN, 0, 0, WALDO_HAND_E_STATE },
        { 0, WALDO_HAND_RUN, 1, 0, WALDO_HAND_E_STATE },
        { 0, WALDO_HAND_READ, 1, 0, WALDO_HAND_E_STATE },
        { 5, WALDO_HAND_RUN, 9, 5, WALDO_HAND_E_PAYLOAD },
        { 5, WALDO_HAND_LIST, 9, 5, WALDO_HAND_E_PAYLOAD },
        { 4, WALDO_HAND_SIGNAL, 1, 4, WALDO_HAND_E_PAYLOAD },
        { 5, WALDO_HAND_SIGNAL, 1, 5, WALDO_HAND_E_PAYLOAD },
        { 7, WALDO_HAND_CREDIT, 1, 7, WALDO_HAND_E_PAYLOAD },
        { 3, WALDO_HAND_CANCEL, 1, 3, WALDO_HAND_E_PAYLOAD },
        { 65, WALDO_HAND_PING, 1, 65, WALDO_HAND_E_PAYLOAD },
        { 0, WALDO_HAND_STDIN, 1, 0, WALDO_HAND_E_PAYLOAD },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        const char *number = open_busy();

        send_frame(cases[i].said_len, cases[i].type, cases[i].id, zeros, cases[i].len);
        assert_ends(cases[i].code, number);
    }
}

static void test_bad_greetings(void **state)
{
    uint8_t hello[56] = "WLD1\1";
    static const struct {
        size_t at;
        uint8_t value;
        int code;
    } cases[] = {
        { 0, 'X', WALDO_HAND_E_HELLO },
        { 4, 0, WALDO_HAND_E_VERSION },
        { 42, 0, WALDO_HAND_E_HELLO }, /* payload maximum */
    };

    (void)state;
    put_le(hello + 40, WALDO_HAND_PAYLOAD_MAX, 4);
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        uint8_t bad[56];

        memcpy(bad, hello, sizeof bad);
        bad[cases[i].at] = cases[i].value;
        client_spawn(&hand);
        send_frame(56, WALDO_HAND_HELLO, 0, bad, 56);
        assert_ends(cases[i].code, NULL);
    }
    client_spawn(&hand);
    send_frame(55, WALDO_HAND_HELLO, 0, hello, 55);
    assert_ends(WALDO_HAND_E_HELLO, NULL);
    client_spawn(&hand);
    send_frame(0, WALDO_HAND_PING, 1, NULL, 0);
    assert_ends(WALDO_HAND_E_HELLO, NULL);
    client_spawn(&hand);
    client_send_raw(&hand, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_ends(WALDO_HAND_E_LENGTH, NULL);
    /* A later host may speak a higher version and a longer greeting. */
    client_spawn(&hand);
    hello[4] = 9;
    memcpy(hello + 16, "0123456789abcde", 16);
    send_frame(60, WALDO_HAND_HELLO, 0, hello, 56);
    client_send_raw(&hand, "more", 4);
    while (!hand.decoder.greeted) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    assert_int_equal(hand.hello.version, 1);
    client_close(&hand);
}

static void test_cut_frames(void **state)
{
    static const size_t cuts[] = { 1, 4, 8, 9, 20 };
    static const uint8_t frame[29] = { 20, 0, 0, 0, WALDO_HAND_RUN, 9 };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cuts); i++) {
        const char *number = open_busy();

        client_send_raw(&hand, frame, cuts[i]);
        assert_int_equal(shutdown(hand.fd, SHUT_WR), 0);
        assert_ends(WALDO_HAND_E_TRUNCATED, number);
    }
}

static void test_too_much_stdin(void **state)
{
    static char bytes[WALDO_HAND_STDIN_WINDOW + 100000];
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    const char *number;
    uint32_t id;

    (void)state;
    number = open_busy();
    run.flags = WALDO_HAND_RUN_STDIN;
    id = client_sh(&hand, "exec sleep 1000", run);
    client_stdin(&hand, id, waldo__strn(bytes, sizeof bytes));
    assert_ends(WALDO_HAND_E_WINDOW, number);
}

/* One request whose single field is given; the answer. */
static struct record *ask(uint8_t type, uint16_t tag, const void *value, size_t len)
{
    uint8_t payload[8192];
    uint32_t id = hand.next_id++;

    put_le(payload, tag, 2);
    put_le(payload + 2, len, 4);
    memcpy(payload + 6, value, len);
    send_frame((uint32_t)len + 6, type, id, payload, len + 6);
    return client_ended(&hand, id);
}

static void test_refusals(void **state)
{
    static const uint8_t reserved[] = { WALDO_HAND_LEASE, WALDO_HAND_CONNECT };
    static char path[5000];
    struct record *r;
    uint32_t id;

    (void)state;
    client_open(&hand);
    memset(path, 'p', sizeof path);
    r = ask(WALDO_HAND_RUN, WALDO_HAND_F_ARG, "a\0b", 3);
    assert_int_equal(r->start_error, EINVAL);
    assert_int_equal(r->start_phase, WALDO_HAND_PHASE_REQUEST);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_CWD, "/", 1)->start_error, EINVAL);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_CWD, path, 4096)->start_error, ENAMETOOLONG);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_ENV, "=x", 2)->start_error, EINVAL);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_TIMEOUT_MS, "123", 3)->start_error, EINVAL);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_OUT_TAIL, "\1\0\x10\0", 4)->start_error,
                     EINVAL);
    r = ask(WALDO_HAND_RUN, 999, "x", 1);
    assert_int_equal(r->start_error, EOPNOTSUPP);
    assert_int_equal(r->start_phase, WALDO_HAND_PHASE_UNSUPPORTED);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_USER, "12345678", 8)->start_phase,
                     WALDO_HAND_PHASE_UNSUPPORTED);
    /* The optional bit: skipped, so what remains wrong is that there is no program. */
    assert_int_equal(ask(WALDO_HAND_RUN, 0x8fff, "x", 1)->start_error, EINVAL);
    assert_int_equal(ask(WALDO_HAND_READ, WALDO_HAND_F_PATH, path, 4096)->done.err, ENAMETOOLONG);
    assert_int_equal(ask(WALDO_HAND_READ, WALDO_HAND_F_PATH, "a\0b", 3)->done.err, EINVAL);
    assert_int_equal(ask(WALDO_HAND_READ, WALDO_HAND_F_ROOT, "/", 1)->done.err, EINVAL);
    assert_int_equal(ask(WALDO_HAND_MKDIR, WALDO_HAND_F_LIMIT, "12345678", 8)->done.err,
                     EOPNOTSUPP);
    assert_int_equal(ask(WALDO_HAND_RENAME, WALDO_HAND_F_PATH, "/x", 2)->done.err, EINVAL);
    for (size_t i = 0; i < sizeof reserved; i++) {
        id = hand.next_id++;
        send_frame(0, reserved[i], id, NULL, 0);
        r = client_ended(&hand, id);
        assert_int_equal(r->done.err, EOPNOTSUPP);
        assert_int_equal(r->done.where, WALDO_HAND_WHERE_UNSUPPORTED);
    }
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_LABEL, path, 65)->start_error, EINVAL);
    assert_int_equal(ask(WALDO_HAND_RUN, WALDO_HAND_F_PTY, "\1\0\1", 3)->start_error, EINVAL);
    /* An unknown type with the optional bit, and frames for ids that are not open: nothing. */
    send_frame(3, 0x7f, 5, "abc", 3);
    send_frame(4, WALDO_HAND_CANCEL, 690, "\0\0\0\0", 4);
    send_frame(3, WALDO_HAND_WRITE_DATA, 690, "abc", 3);
    send_frame(0, WALDO_HAND_WRITE_END, 690, NULL, 0);
    send_frame(0, WALDO_HAND_STDIN_EOF, 690, NULL, 0);
    send_frame(0, WALDO_HAND_JOB_FORGET, 690, NULL, 0);
    send_frame(4, WALDO_HAND_RESIZE, 690, "\0\0\0\0", 4);
    send_frame(2, WALDO_HAND_PING, 77, "ok", 2);
    while (client_record(&hand, 77)->pong.len < 2) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    client_close(&hand);
}

/* A host that only sends: the hand stops taking input instead of growing, and loses nothing. */
static void test_deaf_host(void **state)
{
    static uint8_t ping[WALDO_HAND_HEADER_LEN + 64] = { 64, 0, 0, 0, WALDO_HAND_PING, 5 };
    size_t sent = 0;
    ssize_t n;

    (void)state;
    client_open(&hand);
    for (;;) {
        struct timeval patience = { .tv_usec = 300000 };

        setsockopt(hand.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        n = send(hand.fd, ping + sent % sizeof ping, sizeof ping - sent % sizeof ping,
                 MSG_NOSIGNAL);
        if (n <= 0) {
            break;
        }
        sent += (size_t)n;
        assert_true(sent < (size_t)64 << 20);
    }
    while (client_record(&hand, 5)->after_end == 0 &&
           hand.received < sent / sizeof ping * sizeof ping + 65) {
        assert_true(client_read(&hand, 60000) > 0);
    }
    if (sent % sizeof ping != 0) {
        client_send_raw(&hand, ping + sent % sizeof ping, sizeof ping - sent % sizeof ping);
    }
    client_close(&hand);
}

/* Bytes without any sense, from a fixed seed: the hand ends or goes on, it does not crash. */
static void test_noise(void **state)
{
    unsigned seed = 7;

    (void)state;
    /* Should a path make sense by chance, nothing can be written here. */
    assert_int_equal(chdir("/proc"), 0);
    for (int round = 0; round < 60; round++) {
        int status;

        client_open(&hand);
        for (int i = 0; i < 40; i++) {
            uint8_t payload[64];
            uint32_t len;

            for (size_t k = 0; k < sizeof payload; k++) {
                seed = seed * 1103515245u + 12345u;
                payload[k] = (uint8_t)(seed >> 16) & (k % 3 == 0 ? 0x0f : 0xff);
            }
            len = payload[0] % 50u;
            /* Requests but SHUTDOWN, their fields cut and mixed; no path of theirs exists. */
            send_frame(len,
                       (uint8_t)(payload[1] % 0x24 == WALDO_HAND_SHUTDOWN ? 2 : payload[1] % 0x24),
                       payload[2], payload + 3, len);
        }
        shutdown(hand.fd, SHUT_WR);
        while (client_read(&hand, 60000) > 0) {
        }
        status = client_wait_exit(&hand);
        assert_true(status == WALDO_HAND_STATUS_OK || status == WALDO_HAND_STATUS_PROTOCOL);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_that_end_the_session),
        cmocka_unit_test(test_bad_greetings),
        cmocka_unit_test(test_cut_frames),
        cmocka_unit_test(test_too_much_stdin),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_deaf_host),
        cmocka_unit_test(test_noise),
    };

    client_program = realpath(argc > 1 ? argv[1] : "waldo-hand", NULL);
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
