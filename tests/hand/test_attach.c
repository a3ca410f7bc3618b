/* Who may attach to a hand that outlives its sessions, and what becomes of the others. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "durable.h"

static int abandon_hand(void **state)
{
    (void)state;
    kill(hand, SIGKILL);
    waitpid(hand, NULL, 0);
    return 0;
}

static void assert_output(struct record *record, const char *text)
{
    assert_int_equal(record->streams[0].len, strlen(text));
    assert_memory_equal(record->streams[0].ptr, text, strlen(text));
}

/* Whoever does not greet disturbs nobody. */
static void test_strangers_wait(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int ends; /* seen to be no greeting */
    } cases[] = {
        { "", 0, 0 },
        { "\70\0\0\0\1\0\0\0\0WLD1", 13, 0 },
        { "HELLO, hello", 12, 1 },
        { "\0\0\0\0\1\0\0\0\0", 9, 1 },
        { "\377\377\377\377\1\0\0\0\0", 9, 1 },
        { "\4\0\0\0\2\1\0\0\0abcd", 13, 1 },
        { "\4\0\0\0\1\0\0\0\0WLD1", 13, 1 },
    };
    static struct client live, stranger;

    (void)state;
    attach_first(&live);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        client_attach_silently(&stranger, address);
        client_send_raw(&stranger, cases[i].bytes, cases[i].len);
        client_ping(&live);
        if (cases[i].ends) {
            assert_int_equal(client_read(&stranger, 60000), 0);
            assert_int_equal(client_wait_exit(&stranger), WALDO_HAND_STATUS_ABSENT);
        } else {
            assert_int_equal(client_read(&stranger, 0), -1);
            assert_int_equal(client_wait_exit(&stranger), WALDO_HAND_STATUS_ABSENT);
        }
        client_ping(&live);
    }
    client_close(&live);
}

static void test_nobody_there(void **state)
{
    static struct client client;
    char much[128];

    (void)state;
    client_attach_silently(&client, "waldo-test-nobody-is-here");
    assert_int_equal(client_wait_exit(&client), WALDO_HAND_STATUS_ABSENT);
    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    client_attach_silently(&client, much);
    assert_int_equal(client_wait_exit(&client), WALDO_HAND_STATUS_ABSENT);
    client_attach_silently(&client, "");
    assert_int_equal(client_wait_exit(&client), WALDO_HAND_STATUS_ABSENT);
    assert_int_equal(client_status(client_exec("durable", "x", "0", 0)), WALDO_HAND_STATUS_USAGE);
    assert_int_equal(client_status(client_exec("durable", "x", "1s", 0)), WALDO_HAND_STATUS_USAGE);
    assert_int_equal(client_status(client_exec("durable", "x", NULL, 0)), WALDO_HAND_STATUS_USAGE);
    assert_int_equal(client_status(client_exec("attach", "x", "y", 0)), WALDO_HAND_STATUS_USAGE);
}

static void test_hand_dies(void **state)
{
    static struct client client;
    const char *number = sleep_number();
    char script[64];

    (void)state;
    attach_first(&client);
    snprintf(script, sizeof script, "sleep %s", number);
    client_started(&client, client_sh(&client, script, kept("")));
    /* The name is taken. */
    assert_int_equal(client_status(client_exec("durable", address, "1000", 0)),
                     WALDO_HAND_STATUS_ABSENT);
    client_ping(&client);
    kill(hand, SIGKILL);
    read_to_end(&client);
    assert_int_equal(client_wait_exit(&client), WALDO_HAND_STATUS_ABSENT);
    assert_int_equal(wait_no_sleeps(number), 0);
}

/* The session of one that was killed is over; the hand goes on. */
static void test_attach_dies(void **state)
{
    static struct client client;

    (void)state;
    attach_first(&client);
    client_started(&client, client_sh(&client, "cat", kept("c")));
    kill(client.pid, SIGKILL);
    read_to_end(&client);
    client_wait_exit(&client);
    attach_next(&client);
    client_list(&client);
    assert_int_equal(client.job_count, 1);
    client_close(&client);
}

static int connect_to_hand(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(name.sun_path + 1, address, strlen(address));
    if (connect(fd, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address))) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Sends one byte with count descriptors. */
static void send_fds(int fd, size_t count)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(250 * sizeof(int))];
    } control = { .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    char byte = 0;
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof null);
        control.head.cmsg_len = CMSG_LEN(count * sizeof null);
        for (size_t i = 0; i < count; i++) {
            memcpy(CMSG_DATA(&control.head) + i * sizeof null, &null, sizeof null);
        }
    }
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), 1);
    close(null);
}

static int count_fds(pid_t pid)
{
    char path[64];
    DIR *dir;
    int count = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (dir == NULL) {
        return -1;
    }
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* Waits for the end of a connection that is refused. */
static void assert_closed(int fd)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };
    char byte;

    assert_int_equal(poll(&one, 1, 60000), 1);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

static void test_wrong_descriptors(void **state)
{
    needs(NEED_CONTROL);

    static const size_t counts[] = { 0, 1, 3, 250 };
    static struct client live;
    int before;

    (void)state;
    attach_first(&live);
    client_ping(&live);
    before = count_fds(hand);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int fd = connect_to_hand();

        assert_true(fd >= 0);
        send_fds(fd, counts[i]);
        assert_closed(fd);
        client_ping(&live);
    }
    assert_int_equal(count_fds(hand), before);
    client_close(&live);
}

/* As nobody: attaches, then a thousand connections that are kept as long as the hand lets them. */
static int be_nobody(void)
{
    int fds[200], bad = 0;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid;

    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 90;
    }
    pid = client_exec("attach", address, NULL, null);
    bad = client_status(pid) != WALDO_HAND_STATUS_ABSENT;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 200; i++) {
            fds[i] = connect_to_hand();
            if (fds[i] >= 0) {
                send(fds[i], "x", 1, MSG_NOSIGNAL);
            }
        }
        for (size_t i = 0; i < 200; i++) {
            char byte;

            /* Not a byte comes back, only the end. */
            bad += fds[i] >= 0 && recv(fds[i], &byte, 1, 0) > 0;
            close(fds[i]);
        }
    }
    return bad > 0;
}

static void test_other_users(void **state)
{
    static struct client live, next;
    int before;
    pid_t pid;

    (void)state;
    if (!is_root) {
        skip();
    }
    attach_first(&live);
    client_ping(&live);
    before = count_fds(hand);
    pid = fork();
    if (pid == 0) {
        _exit(be_nobody());
    }
    for (int i = 0; i < 50; i++) {
        client_ping(&live);
    }
    assert_int_equal(client_status(pid), 0);
    client_ping(&live);
    assert_int_equal(count_fds(hand), before);
    attach_next(&next);
    client_ping(&next);
    client_close(&next);
    client_close(&live);
}

/*
 * As in a container: the hand and its commands are one user, who may not attach, and root is who
 * attaches.
 */
static void test_commands_cannot_attach(void **state)
{
    static struct client client;
    char script[512];
    struct record *r;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)state;
    if (!is_root) {
        close(null);
        skip();
    }
    start_hand("1");
    assert_int_equal(client_status(hand), WALDO_HAND_STATUS_OK);
    hand = fork();
    assert_true(hand >= 0);
    if (hand == 0) {
        if (setgid(65534) == 0 && setuid(65534) == 0) {
            execl(client_program, "waldo-hand", "durable", address, LONG_LEASE, (char *)NULL);
        }
        _exit(99);
    }
    close(null);
    attach_first(&client);
    assert_int_equal(client.hello.uid, 65534);
    snprintf(script, sizeof script,
             "%s attach %s; echo $?; ls /proc/%d/fd 2>/dev/null; cat /proc/%d/environ 2>/dev/null; "
             "ls /proc/self/fd | wc -l",
             client_program, address, (int)client.hello.pid, (int)client.hello.pid);
    for (int i = 0; i < 2; i++) {
        r = client_ended(&client, client_sh(&client, script, WALDO__HAND_RUN_INIT));
        /* Refused, nothing to be seen, and no descriptor but the four of ls itself. */
        assert_output(r, "4\n4\n");
        client_ping(&client);
    }
    client_close(&client);
    close_hand(state);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_HAND(test_strangers_wait),
        WITH_HAND(test_attach_dies),
        WITH_HAND(test_wrong_descriptors),
        WITH_HAND(test_other_users),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_commands_cannot_attach),
        cmocka_unit_test_setup_teardown(test_hand_dies, open_hand, abandon_hand),
    };

    return run_durable_tests(argc, argv, tests, sizeof tests / sizeof *tests);
}
