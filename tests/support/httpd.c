#include "httpd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct connection {
    httpd *server;
    int fd;
    int number;
};

static void *serve_one(void *argument)
{
    struct connection one = *(struct connection *)argument;

    free(argument);
    one.server->serve(one.server, one.fd, one.number);
    close(one.fd);
    atomic_fetch_sub(&one.server->open, 1);
    return NULL;
}

static void *accept_all(void *argument)
{
    httpd *server = argument;
    pthread_attr_t attributes;
    int fd;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    while ((fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct connection *one = malloc(sizeof *one);
        pthread_t thread;

        *one = (struct connection){ server, fd, atomic_fetch_add(&server->connections, 1) };
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        atomic_fetch_add(&server->open, 1);
        if (pthread_create(&thread, &attributes, serve_one, one) != 0) {
            perror("httpd: thread");
            close(fd);
            free(one);
            atomic_fetch_sub(&server->open, 1);
        }
    }
    pthread_attr_destroy(&attributes);
    return NULL;
}

int httpd_start(httpd *server, httpd_fn serve, void *data, const char *unix_path)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    socklen_t len = sizeof in;
    int failed;

    memset(server, 0, sizeof *server);
    server->serve = serve;
    server->data = data;
    server->unix_path = unix_path;
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(unix_path != NULL ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (unix_path != NULL) {
        snprintf(un.sun_path, sizeof un.sun_path, "%s", unix_path);
        failed = bind(server->listener, (struct sockaddr *)&un, sizeof un);
    } else {
        failed = bind(server->listener, (struct sockaddr *)&in, sizeof in) ||
                 getsockname(server->listener, (struct sockaddr *)&in, &len);
        server->port = ntohs(in.sin_port);
        snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", server->port);
    }
    failed = failed || listen(server->listener, 4096) ||
             pthread_create(&server->acceptor, NULL, accept_all, server);
    if (failed) {
        perror("httpd");
    }
    return failed ? -1 : 0;
}

void httpd_stop(httpd *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->acceptor, NULL);
    close(server->listener);
    while (atomic_load(&server->open) > 0) {
        usleep(1000);
    }
    if (server->unix_path != NULL) {
        unlink(server->unix_path);
    }
    pthread_mutex_destroy(&server->lock);
}

/* Bytes of the head that were read with some of the body behind; 0 at the end of the stream. */
static size_t read_head(int fd, httpd_request *request, size_t *ret_len)
{
    size_t len = 0;

    for (;;) {
        ssize_t got = recv(fd, request->head + len, sizeof request->head - 1 - len, 0);
        char *end;

        if (got <= 0) {
            return 0;
        }
        len += (size_t)got;
        request->head[len] = '\0';
        end = strstr(request->head, "\r\n\r\n");
        if (end != NULL) {
            *ret_len = len;
            return (size_t)(end - request->head) + 4;
        }
        if (len == sizeof request->head - 1) {
            return 0;
        }
    }
}

int httpd_read(httpd *server, int fd, httpd_request *request)
{
    size_t len = 0;
    size_t head = read_head(fd, request, &len);
    const char *length;
    size_t have;

    if (head == 0) {
        atomic_fetch_add(&server->eofs, 1);
        return 0;
    }
    length = strcasestr(request->head, "\r\ncontent-length:");
    request->body_len = length != NULL ? strtoul(length + 17, NULL, 10) : 0;
    request->body = malloc(request->body_len + 1);
    have = len - head < request->body_len ? len - head : request->body_len;
    memcpy(request->body, request->head + head, have);
    request->head[head] = '\0';
    while (have < request->body_len) {
        ssize_t got = recv(fd, request->body + have, request->body_len - have, 0);

        if (got <= 0) {
            free(request->body);
            atomic_fetch_add(&server->eofs, 1);
            return 0;
        }
        have += (size_t)got;
    }
    request->body[request->body_len] = '\0';
    pthread_mutex_lock(&server->lock);
    memcpy(server->last_head, request->head, head + 1);
    pthread_mutex_unlock(&server->lock);
    atomic_fetch_add(&server->requests, 1);
    return 1;
}

int httpd_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return 0;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return 1;
}

int httpd_reply(int fd, int status, const char *headers, const char *body)
{
    char head[2048];
    int len = snprintf(head, sizeof head, "HTTP/1.1 %d Text\r\n%sContent-Length: %zu\r\n\r\n",
                       status, headers, strlen(body));

    return httpd_send(fd, head, (size_t)len) && httpd_send(fd, body, strlen(body));
}
