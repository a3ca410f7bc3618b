/*
 * Starts a stand-in service (tests/standins/NAME/server.py) for a C test and talks to its control
 * port.
 */
#ifndef WALDO_TEST_STANDIN_H
#define WALDO_TEST_STANDIN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct standin standin;

/**
 * Start tests/standins/NAME/server.py with further arguments, ended by NULL.
 *
 * @return the running stand-in, end with standin_stop; NULL after a line on stderr when it does not
 *         start.
 * It ends by itself when this process dies.
 */
standin *standin_start(const char *name, ...) __attribute__((sentinel));

/* The port of the service on 127.0.0.1. */
unsigned standin_port(const standin *s);

/* "http://127.0.0.1:PORT/v1"; borrowed until standin_stop. */
const char *standin_url(const standin *s);

/* POST json to /_control: replies to queue, scenarios, switches; see the head of server.py. */
bool standin_control(standin *s, const char *json);

/* Forget requests, queues and switches; ends stalled replies. */
bool standin_reset(standin *s);

/*
 * Wait until so many requests came, and so many replies were left by their peer; false after 20 s.
 */
bool standin_wait(standin *s, size_t requests, size_t aborted);

/* Every request so far as a JSON array; free with free(). */
char *standin_requests(standin *s);

/* Number of requests so far (those to the control paths are not counted). */
size_t standin_request_count(standin *s);

/*
 * The exact bytes of request index's body, NUL-terminated beyond ret_len; free with free(); NULL if
 * there is none.
 */
char *standin_request_body(standin *s, size_t index, size_t *ret_len);

/* End the process and free s; NULL is a no-op. */
void standin_stop(standin *s);

#endif
