/* The helper itself: starts, is scripted, is asked back, ends. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "standin.h"

static int setup(void **state)
{
    *state = standin_start("chat", NULL);
    return *state == NULL;
}

static int teardown(void **state)
{
    standin_stop(*state);
    return 0;
}

/* One raw request on a connection of its own; what came back, up to size. */
static void post(standin *s, const char *body, char *answer, size_t size)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)standin_port(s)) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char head[256];
    size_t len = 0;
    ssize_t n;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    snprintf(head, sizeof head,
             "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             strlen(body));
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    assert_int_equal(send(fd, body, strlen(body), MSG_NOSIGNAL), strlen(body));
    shutdown(fd, SHUT_WR);
    while (len + 1 < size && (n = recv(fd, answer + len, size - 1 - len, 0)) > 0) {
        len += (size_t)n;
    }
    answer[len] = '\0';
    close(fd);
}

#define REQUEST "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"h\xc3\xa9\"}]}"

static void test_queue_then_scenario_then_default(void **state)
{
    char answer[4096];

    assert_true(standin_control(*state, "{\"replies\":[{\"text\":\"first\"}]}"));
    assert_true(
        standin_control(*state, "{\"model\":\"m\",\"turns\":[{\"text\":\"second {user}\"}]}"));
    post(*state, REQUEST, answer, sizeof answer);
    assert_non_null(strstr(answer, "\"content\":\"first\""));
    post(*state, REQUEST, answer, sizeof answer);
    assert_non_null(strstr(answer, "\"content\":\"second h\xc3\xa9\""));
    assert_true(standin_reset(*state));
    post(*state, REQUEST, answer, sizeof answer);
    assert_non_null(strstr(answer, "\"content\":\"ok\""));
}

static void test_requests_come_back_byte_exact(void **state)
{
    char answer[4096];
    char *body, *all;
    size_t len = 0;

    assert_true(standin_reset(*state));
    post(*state, REQUEST, answer, sizeof answer);
    assert_true(standin_wait(*state, 1, 0));
    assert_int_equal(standin_request_count(*state), 1);
    body = standin_request_body(*state, 0, &len);
    assert_non_null(body);
    assert_int_equal(len, strlen(REQUEST));
    assert_memory_equal(body, REQUEST, len);
    all = standin_requests(*state);
    assert_non_null(all);
    assert_non_null(strstr(all, "/v1/chat/completions"));
    free(all);
    free(body);
    assert_null(standin_request_body(*state, 1, &len));
}

static void test_a_bad_history_is_refused(void **state)
{
    char answer[4096];

    post(*state,
         "{\"model\":\"m\",\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":"
         "\"y\"}]}",
         answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 400 "));
    assert_non_null(strstr(answer, "must be a response to a preceeding message with 'tool_calls'"));
}

static void test_a_bad_order_is_an_error(void **state)
{
    assert_false(standin_control(*state, "{\"replies\":"));
    assert_false(standin_control(*state, "[]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_then_scenario_then_default),
        cmocka_unit_test(test_requests_come_back_byte_exact),
        cmocka_unit_test(test_a_bad_history_is_refused),
        cmocka_unit_test(test_a_bad_order_is_an_error),
    };

    return !!cmocka_run_group_tests(tests, setup, teardown);
}
