#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#include "base/alloc.h"

#define WAIT_MS    60000 /* against hangs; nothing is measured by it */
#define STREAM_MAX ((size_t)160 << 20)

const char *client_program;
int client_stream_room;
int client_without_openat2;

static const uint8_t nonce[WALDO_HAND_NONCE_LEN] = "0123456789abcde";

int client_emulated(void)
{
    return getenv("WALDO_TEST_EMULATED") != NULL;
}

void needs(enum need need)
{
    static const char *const reasons[] = {
        [NEED_VFORK] = "the emulator's vfork shares no memory",
        [NEED_SUBREAPER] = "the emulator refuses PR_SET_CHILD_SUBREAPER",
        [NEED_CONTROL] = "the emulator's recvmsg keeps descriptors that do not fit",
    };

    if (client_emulated()) {
        print_message("%s\n", reasons[need]);
        skip();
    }
}

uint64_t test_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void filter_openat2(void)
{
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(98);
    }
}

pid_t client_exec(const char *mode, const char *address, const char *lease, int fd)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fd, 0);
        dup2(fd, 1);
        if (client_without_openat2) {
            filter_openat2();
        }
        execl(client_program, "waldo-hand", mode, address, lease, (char *)NULL);
        _exit(99);
    }
    return pid;
}

void client_init(struct client *client)
{
    *client = (struct client){ .next_id = 1, .fd = -1 };
    waldo__hand_decoder_init(&client->decoder, nonce);
    client->records = calloc(CLIENT_IDS, sizeof *client->records);
    assert_non_null(client->records);
    for (size_t i = 0; i < CLIENT_IDS; i++) {
        for (size_t k = 0; k < 2; k++) {
            waldo__buf_init(&client->records[i].streams[k], STREAM_MAX);
        }
        waldo__buf_init(&client->records[i].data, STREAM_MAX);
        waldo__buf_init(&client->records[i].pong, 1024);
    }
}

void client_free(struct client *client)
{
    for (size_t i = 0; i < CLIENT_IDS; i++) {
        waldo__buf_free(&client->records[i].streams[0]);
        waldo__buf_free(&client->records[i].streams[1]);
        waldo__buf_free(&client->records[i].data);
        waldo__buf_free(&client->records[i].pong);
    }
    free(client->records);
    waldo__hand_decoder_free(&client->decoder);
}

static void start(struct client *client, const char *mode, const char *address)
{
    int pair[2];

    client_init(client);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    if (client_stream_room > 0) {
        setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &client_stream_room, sizeof client_stream_room);
    }
    client->pid = client_exec(mode, address, NULL, pair[1]);
    close(pair[1]);
    client->fd = pair[0];
}

void client_spawn(struct client *client)
{
    start(client, "server", NULL);
}

void client_attach_silently(struct client *client, const char *address)
{
    start(client, "attach", address);
}

static void greet(struct client *client)
{
    waldo__buf out = WALDO__BUF_INIT(1024);

    assert_int_equal(waldo__hand_put_hello(&out, nonce), WALDO_OK);
    client_send(client, &out);
    while (!client->decoder.greeted) {
        assert_true(client_read(client, WAIT_MS) > 0);
    }
}

void client_open(struct client *client)
{
    client_spawn(client);
    greet(client);
}

void client_attach(struct client *client, const char *address)
{
    client_attach_silently(client, address);
    greet(client);
}

static void add_job(struct client *client, const waldo__hand_job *job)
{
    if (client->job_count < CLIENT_JOBS) {
        client->jobs[client->job_count] = *job;
        memcpy(client->labels[client->job_count], job->label.ptr, job->label.len);
        client->labels[client->job_count][job->label.len] = '\0';
        client->job_count++;
    }
}

static void add_output(struct record *record, int stream, const waldo__hand_event *event)
{
    size_t len = strlen(record->order);
    char mark = stream == 0 ? 'o' : 'e';
    waldo__buf *buf = &record->streams[stream];
    uint64_t expected = buf->len + record->gap[stream];

    record->gap[stream] += event->u.output.offset - expected;
    waldo__buf_add_str(buf, event->u.output.bytes);
    if (len + 1 < sizeof record->order && (len == 0 || record->order[len - 1] != mark)) {
        record->order[len] = mark;
    }
}

static waldo_status on_event(void *userdata, const waldo__hand_event *event)
{
    struct client *client = userdata;
    struct record *record = &client->records[event->id < CLIENT_IDS ? event->id : 0];

    record->after_end += record->exits + record->dones + (record->start_error != 0) > 0;
    switch (event->type) {
    case WALDO_HAND_HELLO:
        client->hello = event->u.hello;
        break;
    case WALDO_HAND_ERROR:
        client->error_code = event->u.error.code;
        break;
    case WALDO_HAND_STARTED:
        record->started++;
        record->pid = event->u.pid;
        break;
    case WALDO_HAND_START_ERROR:
        record->start_error = event->u.start_error.err;
        record->start_phase = event->u.start_error.phase;
        break;
    case WALDO_HAND_OUT:
    case WALDO_HAND_ERR:
        add_output(record, event->type == WALDO_HAND_ERR, event);
        break;
    case WALDO_HAND_EXIT:
        record->exits++;
        record->exit = event->u.exit;
        break;
    case WALDO_HAND_DATA:
        waldo__buf_add_str(&record->data, event->u.bytes);
        break;
    case WALDO_HAND_DONE:
        record->dones++;
        record->done = event->u.done;
        break;
    case WALDO_HAND_PONG:
        waldo__buf_add_str(&record->pong, event->u.bytes);
        break;
    case WALDO_HAND_JOB:
        add_job(client, &event->u.job);
        break;
    case WALDO_HAND_CREDIT:
        record->credited += event->u.credit;
        break;
    default:
        return WALDO_EPROTO;
    }
    return WALDO_OK;
}

void client_feed(struct client *client, waldo_str bytes)
{
    if (waldo__hand_feed(&client->decoder, bytes, on_event, client) != WALDO_OK) {
        fail_msg("hand broke the protocol: %s", waldo__hand_problem(&client->decoder));
    }
}

int client_read(struct client *client, int timeout_ms)
{
    static char chunk[1 << 18];
    struct pollfd fd = { .fd = client->fd, .events = POLLIN };
    ssize_t n;

    if (poll(&fd, 1, timeout_ms) <= 0) {
        return -1;
    }
    n = recv(client->fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n <= 0) {
        return 0;
    }
    client->received += (uint64_t)n;
    client_feed(client, waldo__strn(chunk, (size_t)n));
    return 1;
}

void client_send_raw(struct client *client, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        struct pollfd fd = { .fd = client->fd, .events = POLLIN | POLLOUT };
        ssize_t n = send(client->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            at += n;
            len -= (size_t)n;
            continue;
        }
        if (n < 0 && errno != EAGAIN) {
            return; /* the hand is gone; what it said before is for the test to read */
        }
        client->input_full++;
        assert_true(poll(&fd, 1, WAIT_MS) > 0);
        if ((fd.revents & POLLIN) != 0 && client_read(client, 0) == 0) {
            return;
        }
    }
}

void client_send(struct client *client, waldo__buf *bytes)
{
    assert_int_equal(bytes->status, WALDO_OK);
    client_send_raw(client, bytes->ptr, bytes->len);
    waldo__buf_free(bytes);
}

int client_status(pid_t pid)
{
    int status = -1;
    uint64_t end = test_now_ms() + WAIT_MS;

    while (waitpid(pid, &status, WNOHANG) == 0 && test_now_ms() < end) {
        poll(NULL, 0, 5);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int client_wait_exit(struct client *client)
{
    int status;

    if (client->fd >= 0) {
        close(client->fd);
    }
    status = client_status(client->pid);
    client_free(client);
    return status;
}

void client_close(struct client *client)
{
    assert_int_equal(client_wait_exit(client), WALDO_HAND_STATUS_OK);
}

uint32_t client_run(struct client *client, const waldo__hand_run *run)
{
    waldo__buf out = WALDO__BUF_INIT(1 << 20);
    uint32_t id = client->next_id++;

    assert_true(id < CLIENT_IDS);
    assert_int_equal(waldo__hand_put_run(&out, id, run), WALDO_OK);
    client_send(client, &out);
    return id;
}

uint32_t client_sh(struct client *client, const char *script, waldo__hand_run run)
{
    run.script = waldo__str(script);
    return client_run(client, &run);
}

uint32_t client_file(struct client *client, enum waldo_hand_request type, waldo__hand_file file)
{
    waldo__buf out = WALDO__BUF_INIT(1 << 20);
    uint32_t id = client->next_id++;

    assert_true(id < CLIENT_IDS);
    assert_int_equal(waldo__hand_put_file(&out, type, id, &file), WALDO_OK);
    client_send(client, &out);
    return id;
}

void client_cancel(struct client *client, uint32_t id, uint32_t grace_ms)
{
    waldo__buf out = WALDO__BUF_INIT(1024);

    assert_int_equal(waldo__hand_put_cancel(&out, id, grace_ms), WALDO_OK);
    client_send(client, &out);
}

void client_stdin(struct client *client, uint32_t id, waldo_str bytes)
{
    waldo__buf out = WALDO__BUF_INIT(1 << 20);

    if (bytes.ptr == NULL) {
        assert_int_equal(waldo__hand_put_stdin_eof(&out, id), WALDO_OK);
    } else {
        assert_int_equal(waldo__hand_put_stdin(&out, id, bytes), WALDO_OK);
    }
    client_send(client, &out);
}

void client_write(struct client *client, uint32_t id, waldo_str bytes)
{
    waldo__buf out = WALDO__BUF_INIT(STREAM_MAX);

    assert_int_equal(waldo__hand_put_write_data(&out, id, bytes), WALDO_OK);
    assert_int_equal(waldo__hand_put_write_end(&out, id), WALDO_OK);
    client_send(client, &out);
}

void client_ping(struct client *client)
{
    waldo__buf out = WALDO__BUF_INIT(64);
    uint32_t id = client->next_id++;

    assert_int_equal(waldo__hand_put_ping(&out, id, WALDO__S("?")), WALDO_OK);
    client_send(client, &out);
    while (client_record(client, id)->pong.len == 0) {
        assert_true(client_read(client, WAIT_MS) > 0);
    }
}

uint32_t client_list(struct client *client)
{
    waldo__buf out = WALDO__BUF_INIT(64);
    uint32_t id = client->next_id++;

    client->job_count = 0;
    assert_int_equal(waldo__hand_put_job_list(&out, id), WALDO_OK);
    client_send(client, &out);
    assert_int_equal(client_ended(client, id)->done.err, 0);
    return (uint32_t)client_record(client, id)->done.value;
}

struct record *client_record(struct client *client, uint32_t id)
{
    return &client->records[id];
}

struct record *client_started(struct client *client, uint32_t id)
{
    struct record *record = client_record(client, id);

    while (!record->started && record->start_error == 0) {
        assert_true(client_read(client, WAIT_MS) > 0);
    }
    return record;
}

struct record *client_ended(struct client *client, uint32_t id)
{
    struct record *record = client_record(client, id);

    while (!record->exits && !record->dones && record->start_error == 0) {
        assert_true(client_read(client, WAIT_MS) > 0);
    }
    return record;
}

void client_has_output(struct client *client, uint32_t id, int stream, size_t len)
{
    while (client_record(client, id)->streams[stream].len < len) {
        assert_true(client_read(client, WAIT_MS) > 0);
    }
}

int count_sleeps(const char *number)
{
    char path[300], text[256], wanted[64];
    size_t wanted_len = (size_t)snprintf(wanted, sizeof wanted, "sleep%c%s", 0, number) + 1;
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        ssize_t n;
        int fd;

        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, text, sizeof text) : 0;
        if (fd >= 0) {
            close(fd);
        }
        count += n == (ssize_t)wanted_len && memcmp(text, wanted, wanted_len) == 0;
    }
    closedir(dir);
    return count;
}

int wait_sleeps(const char *number, int wanted)
{
    uint64_t end = test_now_ms() + WAIT_MS;
    int count;

    while ((count = count_sleeps(number)) != wanted && test_now_ms() < end) {
        poll(NULL, 0, 5);
    }
    return count;
}

int wait_no_sleeps(const char *number)
{
    return wait_sleeps(number, 0);
}

const char *sleep_number(void)
{
    static char text[32];
    static int next;

    snprintf(text, sizeof text, "9%d%02d", (int)getpid(), ++next % 100);
    return text;
}
