/* A hand that outlives its sessions: what ends with one, what stays for the next, who may come. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define LONG_LEASE "3600000"

static char address[64];
static pid_t hand;
static int is_root; /* of the machine: may become other users */

static void start_hand(const char *lease)
{
    static int count;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(address, sizeof address, "waldo-test-%d-%d", (int)getpid(), ++count);
    hand = client_exec("durable", address, lease, null);
    close(null);
}

/* Attaches as soon as the hand listens. */
static void attach_first(struct client *client)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address));
    uint64_t end = test_now_ms() + 30000;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(name.sun_path + 1, address, strlen(address));
    while (connect(fd, (struct sockaddr *)&name, len) != 0 && test_now_ms() < end) {
        poll(NULL, 0, 2);
    }
    close(fd);
    client_attach(client, address);
    client->next_id = 1;
}

/* A later session: its ids are above those of commands that were kept. */
static void attach_next(struct client *client)
{
    client_attach(client, address);
    client->next_id = 100;
}

static int open_hand(void **state)
{
    (void)state;
    start_hand(LONG_LEASE);
    return 0;
}

/* Ends the hand as SIGTERM does. */
static int close_hand(void **state)
{
    (void)state;
    kill(hand, SIGTERM);
    assert_int_equal(client_status(hand), 0);
    return 0;
}

static int abandon_hand(void **state)
{
    (void)state;
    kill(hand, SIGKILL);
    waitpid(hand, NULL, 0);
    return 0;
}

static waldo__hand_run kept(const char *label)
{
    waldo__hand_run run = WALDO__HAND_RUN_INIT;

    run.flags = WALDO_HAND_RUN_KEEP | WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_STDIN;
    run.tail[0] = 65536;
    run.label = waldo__str(label);
    return run;
}

static uint32_t read_job(struct client *client, uint32_t job, uint64_t offset)
{
    waldo__buf out = WALDO__BUF_INIT(64);
    uint32_t id = client->next_id++;

    assert_int_equal(waldo__hand_put_attach(&out, id, job, offset, UINT64_MAX), WALDO_OK);
    client_send(client, &out);
    return id;
}

static struct record *lease(struct client *client, uint32_t ms)
{
    waldo__buf out = WALDO__BUF_INIT(64);
    uint32_t id = client->next_id++;

    assert_int_equal(waldo__hand_put_lease(&out, id, ms), WALDO_OK);
    client_send(client, &out);
    return client_ended(client, id);
}

/* Reads until the stream's end. */
static void read_to_end(struct client *client)
{
    int got;

    while ((got = client_read(client, 30000)) > 0) {
    }
    assert_int_equal(got, 0);
}

static void assert_output(struct record *record, const char *text)
{
    assert_int_equal(record->streams[0].len, strlen(text));
    assert_memory_equal(record->streams[0].ptr, text, strlen(text));
}

static void test_two_sessions(void **state)
{
    static struct client first, second;
    struct record *r;
    uint32_t job, reader;

    (void)state;
    attach_first(&first);
    assert_true((first.hello.features & WALDO_HAND_FEATURE_LEASE) != 0);
    first.next_id = 7;
    job = client_sh(&first, "printf 'one\\0\\377\\n'; read x; echo $x; exit 3", kept("bg-1"));
    client_has_output(&first, read_job(&first, job, 0), 0, 6);
    client_close(&first);

    attach_next(&second);
    assert_int_equal(client_list(&second), 7);
    assert_int_equal(second.job_count, 1);
    assert_int_equal(second.jobs[0].id, job);
    assert_int_equal(second.jobs[0].state, WALDO_HAND_STATE_RUNNING);
    assert_int_equal(second.jobs[0].total, 6);
    assert_int_equal(second.jobs[0].oldest, 0);
    assert_string_equal(second.labels[0], "bg-1");
    reader = read_job(&second, job, 0);
    client_stdin(&second, job, WALDO__S("two\n"));
    r = client_ended(&second, job);
    assert_int_equal(r->started, 0);
    assert_int_equal(r->exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(r->exit.value, 3);
    assert_int_equal(r->exit.total[0], 10);
    assert_int_equal(r->credited, 4);
    r = client_ended(&second, reader);
    assert_int_equal(r->streams[0].len, 10);
    assert_memory_equal(r->streams[0].ptr, "one\0\377\ntwo\n", 10);
    client_close(&second);
}

/* Attaches until a list says that a command has ended. */
static void attach_when_ended(struct client *client)
{
    for (;;) {
        attach_next(client);
        client_list(client);
        if (client->job_count == 1 && client->jobs[0].state == WALDO_HAND_STATE_ENDED) {
            return;
        }
        client_close(client);
    }
}

static void test_ends_between(void **state)
{
    static struct client first, second;
    char folder[] = "/tmp/waldo-durable-XXXXXX", path[64], script[128];
    uint32_t job;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    attach_first(&first);
    snprintf(script, sizeof script, "echo out; cat %s; echo late; exit 9", path);
    job = client_sh(&first, script, kept(""));
    client_has_output(&first, read_job(&first, job, 0), 0, 4);
    client_close(&first);
    /* Nobody listens now; this lets it go on to its end. */
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    attach_when_ended(&second);
    assert_int_equal(second.jobs[0].id, job);
    assert_int_equal(second.jobs[0].exit.how, WALDO_HAND_HOW_EXITED);
    assert_int_equal(second.jobs[0].exit.value, 9);
    assert_int_equal(second.jobs[0].exit.total[0], 9);
    assert_int_equal(second.jobs[0].total, 9);
    assert_string_equal(second.labels[0], "");
    assert_output(client_ended(&second, read_job(&second, job, 0)), "out\nlate\n");
    assert_int_equal(client_record(&second, job)->exits, 0);
    client_close(&second);
    unlink(path);
    rmdir(folder);
}

/* Its tree too, whatever it did to get away; the same ids are free at once. */
static void test_plain_ends_with_its_session(void **state)
{
    static struct client first, second;
    const char *number = sleep_number();
    char plain[20], script[200];
    uint32_t job;

    (void)state;
    snprintf(plain, sizeof plain, "%s", number);
    number = sleep_number();
    attach_first(&first);
    snprintf(script, sizeof script, "setsid sleep %s & trap '' TERM HUP; sleep %s; sleep %s", plain,
             plain, plain);
    client_sh(&first, script, WALDO__HAND_RUN_INIT);
    snprintf(script, sizeof script, "sleep %s", number);
    first.next_id = 50;
    job = client_sh(&first, script, kept("k"));
    client_started(&first, job);
    while (count_sleeps(plain) < 2 || count_sleeps(number) < 1) {
    }
    client_close(&first);
    attach_next(&second);
    second.next_id = 1;
    assert_int_equal(
        client_ended(&second, client_sh(&second, "exit 4", WALDO__HAND_RUN_INIT))->exit.value, 4);
    assert_int_equal(wait_no_sleeps(plain), 0);
    assert_int_equal(count_sleeps(number), 1);
    /* By its id it can be ended from here. */
    second.next_id = 100;
    client_list(&second);
    assert_int_equal(second.job_count, 1);
    client_cancel(&second, job, 0);
    assert_true((client_ended(&second, job)->exit.flags & WALDO_HAND_EXIT_CANCELLED) != 0);
    assert_int_equal(wait_no_sleeps(number), 0);
    client_close(&second);
}

static void test_cut_frames(void **state)
{
    static struct client client;
    waldo__hand_run run = WALDO__HAND_RUN_INIT;
    waldo__buf out = WALDO__BUF_INIT(1 << 20);
    uint32_t job;

    (void)state;
    attach_first(&client);
    job = client_sh(&client, "read x; echo $x", kept("stays"));
    client_started(&client, job);
    /* Half a request, then nothing more. */
    run.script = WALDO__S("echo never");
    assert_int_equal(waldo__hand_put_run(&out, 90, &run), WALDO_OK);
    client_send_raw(&client, out.ptr, out.len - 3);
    shutdown(client.fd, SHUT_WR);
    read_to_end(&client);
    assert_int_equal(client.error_code, WALDO_HAND_E_TRUNCATED);
    client_close(&client);
    /* More output than anything takes, and nobody reads it. */
    attach_next(&client);
    client_started(&client, client_sh(&client, "exec cat /dev/zero", WALDO__HAND_RUN_INIT));
    client_has_output(&client, 100, 0, 1);
    client_close(&client);
    /* Something that is no frame. */
    attach_next(&client);
    client_send_raw(&client, "\1\0\0\0\77\1\0\0\0x", 10);
    read_to_end(&client);
    assert_int_equal(client.error_code, WALDO_HAND_E_TYPE);
    client_close(&client);
    /* All that was before is forgotten, but for what is kept. */
    attach_next(&client);
    assert_int_equal(client_list(&client), 100);
    assert_int_equal(client.job_count, 1);
    assert_string_equal(client.labels[0], "stays");
    client_stdin(&client, job, WALDO__S("still here\n"));
    client_ended(&client, job);
    assert_output(client_ended(&client, read_job(&client, job, 0)), "still here\n");
    client_close(&client);
    waldo__buf_free(&out);
}

/* Bytes that a command has not taken stay its own, and the next session has a whole window. */
static void test_stdin_over_sessions(void **state)
{
    static struct client client;
    static char bytes[WALDO_HAND_STDIN_WINDOW];
    struct record *r;
    uint32_t job;

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    attach_first(&client);
    job = client_sh(&client, "kill -STOP $$; wc -c", kept(""));
    client_started(&client, job);
    client_stdin(&client, job, waldo__strn(bytes, sizeof bytes));
    client_ping(&client);
    client_close(&client);
    attach_next(&client);
    client_list(&client);
    client_stdin(&client, job, waldo__strn(bytes, sizeof bytes));
    client_stdin(&client, job, (waldo_str){ NULL, 0 });
    client_ping(&client);
    {
        waldo__buf out = WALDO__BUF_INIT(64);

        assert_int_equal(waldo__hand_put_signal(&out, job, SIGCONT, WALDO_HAND_SCOPE_TREE),
                         WALDO_OK);
        client_send(&client, &out);
    }
    r = client_ended(&client, job);
    assert_int_equal(r->exit.value, 0);
    assert_int_equal(r->credited, sizeof bytes);
    assert_output(client_ended(&client, read_job(&client, job, 0)), "524288\n");
    client_close(&client);
}

static void test_unfinished_file_goes(void **state)
{
    static struct client client;
    char folder[] = "/tmp/waldo-durable-XXXXXX", path[64];
    waldo__hand_file file = WALDO__HAND_FILE_INIT;
    waldo__buf out = WALDO__BUF_INIT(64);
    uint32_t id;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/f", folder);
    file.path = waldo__str(path);
    file.flags = WALDO_HAND_FILE_ATOMIC;
    attach_first(&client);
    for (int i = 0; i < 2; i++) {
        id = client_file(&client, WALDO_HAND_WRITE, file);
        assert_int_equal(waldo__hand_put_write_data(&out, id, WALDO__S("half")), WALDO_OK);
        client_send(&client, &out);
        client_ping(&client);
        client_close(&client);
        attach_next(&client);
    }
    file.flags = 0;
    assert_int_equal(client_ended(&client, client_file(&client, WALDO_HAND_STAT, file))->done.err,
                     ENOENT);
    client_close(&client);
    assert_int_equal(rmdir(folder), 0);
}

static void test_lease(void **state)
{
    static struct client client;
    const char *number = sleep_number();
    char script[64];

    (void)state;
    start_hand("200");
    attach_first(&client);
    assert_int_equal(lease(&client, 1)->done.err, 0);
    /* It does not run while there is a session. */
    assert_int_equal(
        client_ended(&client, client_sh(&client, "sleep 0.3", WALDO__HAND_RUN_INIT))->exit.value,
        0);
    snprintf(script, sizeof script, "setsid sleep %s", number);
    client_started(&client, client_sh(&client, script, kept("")));
    while (count_sleeps(number) == 0) {
    }
    client_close(&client);
    assert_int_equal(client_status(hand), WALDO_HAND_STATUS_OK);
    assert_int_equal(count_sleeps(number), 0);
    /* Nobody ever came. */
    start_hand("1");
    assert_int_equal(client_status(hand), WALDO_HAND_STATUS_OK);
}

static void test_lease_is_refused(void **state)
{
    static const uint8_t none[4];
    static struct client client;
    uint8_t frame[13] = { 4, 0, 0, 0, WALDO_HAND_LEASE, 9 };

    (void)state;
    client_open(&client);
    assert_true((client.hello.features & WALDO_HAND_FEATURE_LEASE) == 0);
    assert_int_equal(lease(&client, 5)->done.err, EOPNOTSUPP);
    assert_int_equal(client_list(&client), 0);
    client_close(&client);
    start_hand(LONG_LEASE);
    attach_first(&client);
    memcpy(frame + 9, none, 4);
    client_send_raw(&client, frame, sizeof frame);
    assert_int_equal(client_ended(&client, 9)->done.err, EINVAL);
    frame[0] = 3;
    frame[5] = 10;
    client_send_raw(&client, frame, sizeof frame - 1);
    read_to_end(&client);
    assert_int_equal(client.error_code, WALDO_HAND_E_PAYLOAD);
    client_close(&client);
    close_hand(state);
}

static void test_shutdown(void **state)
{
    static struct client client;
    waldo__buf out = WALDO__BUF_INIT(64);
    const char *number = sleep_number();
    char script[64];
    uint32_t job;

    (void)state;
    start_hand(LONG_LEASE);
    attach_first(&client);
    snprintf(script, sizeof script, "sleep %s", number);
    job = client_sh(&client, script, kept(""));
    client_started(&client, job);
    assert_int_equal(waldo__hand_put_shutdown(&out, 99), WALDO_OK);
    client_send(&client, &out);
    client_ended(&client, 99);
    assert_int_equal(client_record(&client, job)->exits, 1);
    read_to_end(&client);
    client_close(&client);
    assert_int_equal(client_status(hand), WALDO_HAND_STATUS_OK);
    assert_int_equal(count_sleeps(number), 0);
}

static void test_newest_wins(void **state)
{
    static struct client old, new;
    const char *number = sleep_number();
    char script[64];
    uint32_t job;

    (void)state;
    attach_first(&old);
    snprintf(script, sizeof script, "sleep %s", number);
    client_started(&old, client_sh(&old, script, WALDO__HAND_RUN_INIT));
    job = client_sh(&old, "read x; exit $x", kept("mine"));
    client_started(&old, job);
    attach_next(&new);
    read_to_end(&old);
    assert_int_equal(old.error_code, WALDO_HAND_E_TAKEN);
    client_close(&old);
    client_list(&new);
    assert_int_equal(new.job_count, 1);
    assert_string_equal(new.labels[0], "mine");
    client_stdin(&new, job, WALDO__S("6\n"));
    assert_int_equal(client_ended(&new, job)->exit.value, 6);
    assert_int_equal(wait_no_sleeps(number), 0);
    client_close(&new);
}

/* One that does not read what it asked for holds nobody up for long. */
static void test_a_deaf_host_is_replaced(void **state)
{
    static struct client old, new;

    (void)state;
    attach_first(&old);
    client_has_output(&old, client_sh(&old, "exec cat /dev/zero", WALDO__HAND_RUN_INIT), 0, 1);
    attach_next(&new);
    client_ping(&new);
    client_close(&old);
    client_close(&new);
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
            assert_int_equal(client_read(&stranger, 30000), 0);
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

    assert_int_equal(poll(&one, 1, 30000), 1);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

static void test_wrong_descriptors(void **state)
{
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

/* Without root: as root of a user namespace of our own. */
static int become_root(void)
{
    char map[64];
    int fd, good;

    is_root = geteuid() == 0;
    if (is_root) {
        return 1;
    }
    snprintf(map, sizeof map, "0 %d 1", (int)geteuid());
    if (unshare(CLONE_NEWUSER) != 0) {
        return 0;
    }
    fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    good = fd >= 0 && write(fd, map, strlen(map)) > 0;
    close(fd);
    return good;
}

#define WITH_HAND(test) cmocka_unit_test_setup_teardown(test, open_hand, close_hand)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        WITH_HAND(test_two_sessions),
        WITH_HAND(test_ends_between),
        WITH_HAND(test_plain_ends_with_its_session),
        WITH_HAND(test_cut_frames),
        WITH_HAND(test_stdin_over_sessions),
        WITH_HAND(test_unfinished_file_goes),
        WITH_HAND(test_newest_wins),
        WITH_HAND(test_a_deaf_host_is_replaced),
        WITH_HAND(test_strangers_wait),
        WITH_HAND(test_attach_dies),
        WITH_HAND(test_wrong_descriptors),
        WITH_HAND(test_other_users),
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_lease_is_refused),
        cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test_setup_teardown(test_hand_dies, open_hand, abandon_hand),
    };

    client_program = argc > 1 ? argv[1] : "waldo-hand";
    if (!become_root()) {
        fputs("skipped: neither root nor a user namespace, and only root may attach\n", stderr);
        return 77;
    }
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
