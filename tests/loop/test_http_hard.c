/* What libcurl does by itself and must not: send twice, wait for lookups, trust, leak. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "http_client.h"
#include "httpd.h"
#include "loop/child.h"

static httpd server;
static struct client client;

/* ---- a resolver of our own: libcurl's threads call this one ---- */

static atomic_int lookups;
static atomic_int lookups_over;
static atomic_int lookups_hang; /* for as long as this is set */

int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict result)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if (name != NULL && strcmp(name, "hangs.test") == 0) {
        atomic_fetch_add(&lookups, 1);
        while (atomic_load(&lookups_hang)) {
            usleep(1000);
        }
        atomic_fetch_add(&lookups_over, 1);
        return EAI_AGAIN;
    }
    if (name != NULL && strcmp(name, "nowhere.test") == 0) {
        return EAI_NONAME;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(name != NULL && strcmp(name, "private.test") == 0 ? "127.0.0.1" : name, service,
                hints, result);
}

/* ---- a server that reads, executes and dies ---- */

/* The first request of each connection is answered; a later one executed, then the line cut. */
static void serve_once_each(httpd *on, int fd, int connection)
{
    httpd_request request;

    for (int i = 0; httpd_read(on, fd, &request); i++) {
        int dies = i > 0 && connection == 0;

        free(request.body);
        if (dies) {
            return;
        }
        httpd_reply(fd, 200, "", "done");
    }
}

/* Reads each request and cuts the line without an answer. */
static void serve_never(httpd *on, int fd, int connection)
{
    httpd_request request;

    (void)connection;
    if (httpd_read(on, fd, &request)) {
        free(request.body);
    }
}

static void serve_silently(httpd *on, int fd, int connection)
{
    httpd_request request;

    (void)connection;
    if (httpd_read(on, fd, &request)) {
        free(request.body);
        httpd_read(on, fd, &request); /* waits for the end */
    }
}

static void open_all(httpd_fn fn)
{
    waldo__http_options options = { .proxy = "none", .allow_plain = 1 };

    assert_int_equal(httpd_start(&server, fn, NULL, NULL), 0);
    assert_int_equal(client_open(&client, &options), 0);
}

static void close_all(void)
{
    client_close(&client);
    httpd_stop(&server);
}

static void second_request(waldo__replay replay, struct course *course)
{
    waldo__http_request request = {
        .url = server.url, .method = "POST", .body = WALDO__S("do it"), .replay = replay
    };
    struct course first = { 0 };

    course_run(&client, &first, &request);
    assert_int_equal(first.result, WALDO_OK);
    course_free(&first);
    course_run(&client, course, &request);
}

static void dying_connection_never_sends_twice(void **state)
{
    static const waldo__replay replays[] = { WALDO__REPLAY_NEVER, WALDO__REPLAY_IF_UNSENT };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct course course = { 0 };

        open_all(serve_once_each);
        second_request(replays[i], &course);
        assert_int_equal(course.result, WALDO_EUNKNOWN_OUTCOME);
        assert_int_equal(course.dones, 1);
        assert_non_null(strstr(waldo_error_message(course.error), "unknown"));
        assert_int_equal(server.requests, 2); /* the first one, and this one once */
        course_free(&course);
        close_all();
    }
}

static void safe_request_is_sent_again(void **state)
{
    struct course course = { 0 };

    (void)state;
    open_all(serve_once_each);
    second_request(WALDO__REPLAY_SAFE, &course);
    assert_int_equal(course.result, WALDO_OK);
    assert_string_equal(text_of(&course.body), "done");
    assert_int_equal(server.requests, 3); /* executed twice: that is what safe means */
    course_free(&course);
    close_all();
}

static void fresh_connection_that_dies(void **state)
{
    static const struct {
        waldo__replay replay;
        waldo_status status;
    } rows[] = { { WALDO__REPLAY_NEVER, WALDO_EUNKNOWN_OUTCOME },
                 { WALDO__REPLAY_IF_UNSENT, WALDO_EUNKNOWN_OUTCOME },
                 { WALDO__REPLAY_SAFE, WALDO_ETRANSPORT } };

    (void)state;
    open_all(serve_never);
    for (int i = 0; i < 3; i++) {
        waldo__http_request request = { .url = server.url, .replay = rows[i].replay };
        struct course course = { 0 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, rows[i].status);
        course_free(&course);
    }
    assert_int_equal(server.requests, 3);
    close_all();
}

static void serve_rudely(httpd *on, int fd, int connection)
{
    char some[1000];

    (void)on;
    (void)connection;
    (void)!recv(fd, some, sizeof some, 0);
}

/* SIGPIPE is at its default here: a write to a closed connection must not end the process. */
static void closed_while_sending_is_no_sigpipe(void **state)
{
    enum { LARGE = 8 * 1024 * 1024 };
    char *large = calloc(1, LARGE);

    (void)state;
    open_all(serve_rudely);
    for (int i = 0; i < 5; i++) {
        waldo__http_request request = { .url = server.url,
                                        .method = "POST",
                                        .body = { large, LARGE } };
        struct course course = { 0 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, WALDO_EUNKNOWN_OUTCOME);
        course_free(&course);
    }
    close_all();
    free(large);
}

/* An idle connection that the server closed meanwhile is noticed before anything is sent. */
static void serve_one_each(httpd *on, int fd, int connection)
{
    httpd_request request;

    (void)connection;
    if (httpd_read(on, fd, &request)) {
        free(request.body);
        httpd_reply(fd, 200, "", "done");
    }
}

static void closed_idle_connection_is_no_failure(void **state)
{
    struct course course = { 0 };
    waldo__http_request request = { .url = server.url, .method = "POST" };
    int64_t limit = waldo__deadline_ns(60000);

    (void)state;
    open_all(serve_one_each);
    course_run(&client, &course, &request);
    course_free(&course);
    while (server.open > 0 && waldo__now_ns() < limit) {
        waldo__loop_round(client.loop, waldo__deadline_ns(2), 0);
    }
    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_OK);
    assert_int_equal(server.requests, 2);
    course_free(&course);
    close_all();
}

/* ---- names ---- */

static void lookup_failures_and_limits(void **state)
{
    static const struct {
        const char *url;
        int64_t connect_ms;
        int public_only;
        waldo_status status;
    } rows[] = { { "http://nowhere.test/", 0, 0, WALDO_ERESOLVE },
                 { "http://hangs.test/", 50, 0, WALDO_ETIMEDOUT_CONNECT },
                 { "http://private.test:9/", 0, 1, WALDO_EACCESS } };

    (void)state;
    open_all(serve_never);
    atomic_store(&lookups_hang, 1);
    for (int i = 0; i < 3; i++) {
        waldo__http_request request = { .url = rows[i].url,
                                        .connect_timeout_ms = rows[i].connect_ms,
                                        .public_only = rows[i].public_only };
        struct course course = { 0 };

        course_run(&client, &course, &request);
        assert_int_equal(course.result, rows[i].status);
        assert_non_null(strstr(waldo_error_message(course.error), ".test:"));
        course_free(&course);
    }
    atomic_store(&lookups_hang, 0);
    close_all();
}

/* Ended, and even freed, long before the lookup is over. */
static void cancel_during_a_lookup_returns_at_once(void **state)
{
    waldo__http_request request = { .url = "http://hangs.test/" };
    struct course course = { 0 };
    int64_t limit = waldo__deadline_ns(60000);
    int before, over;

    (void)state;
    open_all(serve_never);
    while (atomic_load(&lookups_over) < atomic_load(&lookups)) { /* those of other cases */
        usleep(1000);
    }
    before = atomic_load(&lookups);
    over = atomic_load(&lookups_over);
    atomic_store(&lookups_hang, 1);
    assert_int_equal(course_start(&client, &course, &request, NULL), WALDO_OK);
    while (atomic_load(&lookups) == before && waldo__now_ns() < limit) {
        waldo__loop_round(client.loop, waldo__deadline_ns(5), 0);
    }
    assert_int_equal(atomic_load(&lookups), before + 1);
    waldo__transfer_end(course.transfer, WALDO_ECANCELED);
    course_wait(&client, &course);
    assert_int_equal(course.result, WALDO_ECANCELED);
    close_all();
    assert_int_equal(atomic_load(&lookups_over), over); /* it still hangs */
    atomic_store(&lookups_hang, 0);
    course_free(&course);
}

/* ---- TLS ---- */

struct tls {
    char folder[64];
    char ca[96];
    int line[2];
    pid_t pid;
    int port;
};

static int tls_open(struct tls *tls)
{
    char text[16] = { 0 };

    snprintf(tls->folder, sizeof tls->folder, "/tmp/waldo-tls-XXXXXX");
    if (getenv("TLS_SERVER") == NULL || mkdtemp(tls->folder) == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, tls->line) != 0) {
        return -1;
    }
    snprintf(tls->ca, sizeof tls->ca, "%s/ca.pem", tls->folder);
    tls->pid = fork();
    if (tls->pid == 0) {
        dup2(tls->line[1], 0);
        dup2(tls->line[1], 1);
        execlp("python3", "python3", getenv("TLS_SERVER"), tls->folder, (char *)NULL);
        _exit(127);
    }
    close(tls->line[1]);
    if (read(tls->line[0], text, sizeof text - 1) <= 0) {
        return -1;
    }
    tls->port = atoi(text);
    return tls->port > 0 ? 0 : -1;
}

static void tls_close(struct tls *tls)
{
    char path[128];

    close(tls->line[0]);
    waitpid(tls->pid, NULL, 0);
    unlink(tls->ca);
    snprintf(path, sizeof path, "%s/key.pem", tls->folder);
    unlink(path);
    rmdir(tls->folder);
}

static void certificates_are_checked(void **state)
{
    struct tls tls = { 0 };
    struct {
        int with_ca;
        const char *host;
        waldo_status status;
    } rows[] = { { 0, "localhost", WALDO_ETLS }, /* nobody vouches for it */
                 { 1, "localhost", WALDO_OK },
                 { 1, "127.0.0.1", WALDO_ETLS } /* the name is not in it */ };

    (void)state;
    assert_int_equal(tls_open(&tls), 0);
    for (int i = 0; i < 3; i++) {
        waldo__http_options options = { .ca_file = rows[i].with_ca ? tls.ca : NULL };
        struct course course = { 0 };
        char url[64];

        snprintf(url, sizeof url, "https://%s:%d/", rows[i].host, tls.port);

        waldo__http_request request = { .url = url };

        assert_int_equal(client_open(&client, &options), 0);
        course_run(&client, &course, &request);
        assert_int_equal(course.result, rows[i].status);
        if (rows[i].status == WALDO_OK) {
            assert_string_equal(text_of(&course.body), "secure");
        } else {
            assert_int_equal(waldo_error_get_class(course.error), WALDO_CLASS_TLS);
        }
        course_free(&course);
        client_close(&client);
    }
    tls_close(&tls);
}

/* Speaks first, and not TLS. */
static void serve_nonsense(httpd *on, int fd, int connection)
{
    (void)on;
    (void)connection;
    httpd_send(fd, "HTTP/1.1 400 Bad\r\n\r\n", 20);
}

static void port_that_does_not_speak_tls(void **state)
{
    struct course course = { 0 };
    char url[64];

    (void)state;
    open_all(serve_nonsense);
    snprintf(url, sizeof url, "https://127.0.0.1:%d/", server.port);

    waldo__http_request request = { .url = url };

    course_run(&client, &course, &request);
    assert_int_equal(course.result, WALDO_ETLS);
    course_free(&course);
    close_all();
}

/* ---- processes ---- */

/*
 * A host with an open request and a child of its own, which it started by fork and exec, is killed.
 * The server sees the end at once although the child lives.
 */
static void killed_host_gives_the_peer_its_end(void **state)
{
    int64_t limit = waldo__deadline_ns(60000);
    pid_t host, grandchild = -1;
    int line[2], started[2];
    char byte;

    (void)state;
    assert_int_equal(httpd_start(&server, serve_silently, NULL, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, started), 0);
    host = fork();
    if (host == 0) {
        waldo__http_request request = { .url = server.url };
        struct course course = { 0 };
        ssize_t got;

        close(line[0]);
        client_open(&client, NULL);
        course_start(&client, &course, &request, NULL);
        while ((got = recv(line[1], &byte, 1, MSG_DONTWAIT)) != 1) { /* the server has it then */
            if (got == 0) {
                _exit(1);
            }
            waldo__loop_round(client.loop, waldo__deadline_ns(2), 0);
        }
        grandchild = fork();
        if (grandchild == 0) {
            execlp("sleep", "sleep", "300", (char *)NULL); /* ends by itself if we fail */
            _exit(127);
        }
        close(started[1]);
        if (read(started[0], &byte, 1) != 0) { /* ends when the child has its program */
            _exit(1);
        }
        if (write(line[1], &grandchild, sizeof grandchild) < 0) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    close(started[1]);
    while (atomic_load(&server.requests) == 0 && waldo__now_ns() < limit) {
        usleep(1000);
    }
    assert_int_equal(server.requests, 1);
    assert_int_equal(write(line[0], "x", 1), 1);
    assert_int_equal(read(line[0], &grandchild, sizeof grandchild), (int)sizeof grandchild);
    assert_int_equal(server.eofs, 0);
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    while (atomic_load(&server.eofs) == 0 && waldo__now_ns() < limit) {
        usleep(1000);
    }
    assert_int_equal(server.eofs, 1);
    assert_int_equal(kill(grandchild, 0), 0); /* still there */
    kill(grandchild, SIGKILL);
    close(line[0]);
    close(line[1]);
    close(started[0]);
    httpd_stop(&server);
}

/* A forked child frees everything; the parent's transfer and its connection go on. */
static void forked_child_does_no_harm(void **state)
{
    waldo__http_request request = { .url = server.url, .method = "POST" };
    struct course course = { 0 };
    int status = -1;
    pid_t pid;

    (void)state;
    open_all(serve_once_each);
    request.url = server.url;
    course_run(&client, &course, &request); /* leaves an idle connection */
    course_free(&course);
    assert_int_equal(course_start(&client, &course, &request, NULL), WALDO_OK);
    pid = fork();
    if (pid == 0) {
        waldo__transfer *none = NULL;

        if (waldo__http_start(client.http, &request, &none, NULL) != WALDO_EFORKED) {
            _exit(1);
        }
        waldo__transfer_end(course.transfer, WALDO_ECANCELED);
        waldo__http_free(client.http);
        waldo__loop_free(client.loop);
        _exit(course.dones == 0 ? 0 : 2);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    course_wait(&client, &course);
    assert_int_equal(course.dones, 1);
    assert_int_equal(server.requests, 2);
    course_free(&course);
    close_all();
}

/* libcurl's abandoned resolver threads own memory until they return. */
static void wait_for_threads(void)
{
    int64_t limit = waldo__deadline_ns(60000);
    struct stat info = { 0 };

    /* A folder has two links beside those of the folders in it, one for each thread. */
    while (stat("/proc/self/task", &info) == 0 && info.st_nlink > 3 && waldo__now_ns() < limit) {
        usleep(1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dying_connection_never_sends_twice),
        cmocka_unit_test(safe_request_is_sent_again),
        cmocka_unit_test(fresh_connection_that_dies),
        cmocka_unit_test(closed_while_sending_is_no_sigpipe),
        cmocka_unit_test(closed_idle_connection_is_no_failure),
        cmocka_unit_test(lookup_failures_and_limits),
        cmocka_unit_test(cancel_during_a_lookup_returns_at_once),
        cmocka_unit_test(certificates_are_checked),
        cmocka_unit_test(port_that_does_not_speak_tls),
        cmocka_unit_test(killed_host_gives_the_peer_its_end),
        cmocka_unit_test(forked_child_does_no_harm),
    };
    int failed;

    signal(SIGPIPE, SIG_DFL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    wait_for_threads();
    waldo_library_shutdown();
    return !!failed;
}
