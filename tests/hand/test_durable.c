/* A hand that outlives its sessions: what ends with one, and what stays for the next. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "durable.h"

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
    needs(NEED_SUBREAPER);

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

/* Waits until a process has stopped: what lets it go on would be lost before. */
static void wait_stopped(uint32_t pid)
{
    char path[64], text[512], state = 0;

    snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)pid);
    while (state != 'T') {
        FILE *file = fopen(path, "re");
        size_t len;

        assert_non_null(file);
        len = fread(text, 1, sizeof text - 1, file);
        text[len] = '\0';
        fclose(file);
        assert_non_null(strrchr(text, ')'));
        state = strrchr(text, ')')[2];
        poll(NULL, 0, 1);
    }
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
    wait_stopped(client_started(&client, job)->pid);
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
    needs(NEED_SUBREAPER);

    static struct client client;
    const char *number = sleep_number();
    char script[64];

    (void)state;
    start_hand("20000");
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
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_lease_is_refused),
        cmocka_unit_test(test_shutdown),
    };

    return run_durable_tests(argc, argv, tests, sizeof tests / sizeof *tests);
}
