/* A server on loopback for tests of HTTP: a thread for each connection, which a function serves. */
#ifndef WALDO_TEST_HTTPD_H
#define WALDO_TEST_HTTPD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

typedef struct httpd httpd;

/* One request as it came. */
typedef struct httpd_request {
    char head[16384]; /* request line and headers, NUL-terminated */
    char *body;
    size_t body_len;
} httpd_request;

/* Serves one connection until it returns; then the connection is closed. */
typedef void (*httpd_fn)(httpd *server, int fd, int connection);

struct httpd {
    httpd_fn serve;
    void *data; /* the test's own */
    int listener;
    int port;
    char url[64];          /* "http://127.0.0.1:PORT" */
    const char *unix_path; /* instead of a port */
    pthread_t acceptor;
    atomic_int connections; /* accepted so far */
    atomic_int requests;    /* read completely so far */
    atomic_int eofs;        /* connections that the client closed */
    atomic_int open;
    pthread_mutex_t lock;
    char last_head[16384]; /* of the newest request; under lock */
};

/* 0 when it listens. unix_path NULL: 127.0.0.1, any free port. */
int httpd_start(httpd *server, httpd_fn serve, void *data, const char *unix_path);
void httpd_stop(httpd *server); /* closes everything and waits for the threads */

/* 1 when a whole request was read; request->body is then to be freed. */
int httpd_read(httpd *server, int fd, httpd_request *request);

/* Everything or, after an error, 0. */
int httpd_send(int fd, const void *bytes, size_t len);
int httpd_reply(int fd, int status, const char *headers, const char *body);

#endif
