#include "standin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS         16
#define MAX_ANSWER       ((size_t)512 << 20)
#define START_TIMEOUT_MS 60000

struct standin {
    pid_t pid;
    int life; /* its stdin: it ends when this closes */
    unsigned port;
    unsigned control;
    char url[64];
};

/* Reads the two lines with which a stand-in says where it listens. */
static bool read_ports(int fd, unsigned *ret_port, unsigned *ret_control)
{
    char text[128];
    size_t len = 0;

    while (len < sizeof text - 1) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        ssize_t n;

        if (poll(&p, 1, START_TIMEOUT_MS) != 1) {
            return false;
        }
        n = read(fd, text + len, sizeof text - 1 - len);
        if (n <= 0) {
            return false;
        }
        len += (size_t)n;
        text[len] = '\0';
        if (sscanf(text, "PORT %u\nCONTROL %u\n", ret_port, ret_control) == 2 &&
            text[len - 1] == '\n') {
            return true;
        }
    }
    return false;
}

static bool spawn(standin *s, char *const argv[], int *ret_out)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    int err = -1;

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        goto done;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    err = posix_spawn(&s->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err == 0) {
        s->life = in[1];
        *ret_out = out[0];
        in[1] = out[0] = -1;
    }
done:
    for (int i = 0; i < 2; i++) {
        if (in[i] >= 0) {
            close(in[i]);
        }
        if (out[i] >= 0) {
            close(out[i]);
        }
    }
    return err == 0;
}

standin *standin_start(const char *name, ...)
{
    static char python[] = "/usr/bin/python3", no_cache[] = "-B", until_eof[] = "--until-eof";
    char path[4096];
    char *argv[MAX_ARGS] = { python, no_cache, path, until_eof };
    standin *s = calloc(1, sizeof *s);
    size_t argc = 4;
    va_list args;
    bool ok;
    int out = -1;

    if (s == NULL) {
        return NULL;
    }
    s->life = -1;
    snprintf(path, sizeof path, "%s/standins/%s/server.py", WALDO_TESTS_DIR, name);
    va_start(args, name);
    while (argc < MAX_ARGS - 1 && (argv[argc] = va_arg(args, char *)) != NULL) {
        argc++;
    }
    va_end(args);
    argv[MAX_ARGS - 1] = NULL;
    ok = spawn(s, argv, &out) && read_ports(out, &s->port, &s->control);
    if (out >= 0) {
        close(out);
    }
    if (!ok) {
        fprintf(stderr, "stand-in %s does not start\n", path);
        standin_stop(s);
        return NULL;
    }
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u/v1", s->port);
    return s;
}

unsigned standin_port(const standin *s)
{
    return s->port;
}

const char *standin_url(const standin *s)
{
    return s->url;
}

static int dial(const standin *s)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)s->control) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return true;
}

/* Reads until the peer closes; NUL-terminated. */
static char *receive_all(int fd, size_t *ret_len)
{
    size_t len = 0, room = 65536;
    char *data = malloc(room);

    while (data != NULL) {
        ssize_t n;

        if (room - len < 2) {
            char *larger = room < MAX_ANSWER ? realloc(data, room * 2) : NULL;

            if (larger == NULL) {
                break;
            }
            data = larger;
            room *= 2;
        }
        n = recv(fd, data + len, room - len - 1, 0);
        if (n == 0) {
            data[len] = '\0';
            *ret_len = len;
            return data;
        }
        if (n < 0 && errno != EINTR) {
            break;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    free(data);
    return NULL;
}

/* One exchange with the control port; the body of a 200 answer, else NULL. */
static char *ask(const standin *s, const char *method, const char *target, const char *body,
                 size_t *ret_len)
{
    char head[512];
    char *answer = NULL, *start, *out = NULL;
    size_t len = 0;
    int fd = dial(s);

    snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: control\r\nContent-Length: %zu\r\n\r\n",
             method, target, strlen(body));
    if (fd < 0 || !send_all(fd, head, strlen(head)) || !send_all(fd, body, strlen(body)) ||
        shutdown(fd, SHUT_WR) != 0) {
        goto done;
    }
    answer = receive_all(fd, &len);
    if (answer == NULL || strncmp(answer, "HTTP/1.1 200 ", 13) != 0 ||
        (start = strstr(answer, "\r\n\r\n")) == NULL) {
        goto done;
    }
    start += 4;
    len -= (size_t)(start - answer);
    out = malloc(len + 1);
    if (out != NULL) {
        memcpy(out, start, len);
        out[len] = '\0';
        *ret_len = len;
    }
done:
    if (answer != NULL && out == NULL) {
        fprintf(stderr, "stand-in: %s %s: %.400s\n", method, target, answer);
    }
    free(answer);
    if (fd >= 0) {
        close(fd);
    }
    return out;
}

static bool command(const standin *s, const char *method, const char *target, const char *body)
{
    size_t len;
    char *answer = ask(s, method, target, body, &len);
    bool ok = answer != NULL;

    free(answer);
    return ok;
}

bool standin_control(standin *s, const char *json)
{
    return command(s, "POST", "/_control", json);
}

bool standin_reset(standin *s)
{
    return command(s, "POST", "/_reset", "");
}

bool standin_wait(standin *s, size_t requests, size_t aborted)
{
    char target[96];

    snprintf(target, sizeof target, "/_wait?requests=%zu&aborted=%zu", requests, aborted);
    return command(s, "GET", target, "");
}

char *standin_requests(standin *s)
{
    size_t len;

    return ask(s, "GET", "/_requests", "", &len);
}

size_t standin_request_count(standin *s)
{
    size_t len, count = 0;
    char *answer = ask(s, "GET", "/_requests/count", "", &len);

    if (answer != NULL) {
        count = strtoul(answer, NULL, 10);
    }
    free(answer);
    return count;
}

char *standin_request_body(standin *s, size_t index, size_t *ret_len)
{
    char target[64];

    snprintf(target, sizeof target, "/_requests/%zu/body", index);
    return ask(s, "GET", target, "", ret_len);
}

void standin_stop(standin *s)
{
    if (s == NULL) {
        return;
    }
    if (s->life >= 0) {
        close(s->life);
    }
    if (s->pid > 0) {
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    free(s);
}
