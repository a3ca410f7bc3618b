/* A request whose whole answer is kept. What could not be begun ends from the run queue, too. */
#ifndef WALDO_HTTP_ASK_H
#define WALDO_HTTP_ASK_H

#include "http/http.h"

/* Of the transport, as on_done of a transfer; the answer is in the ask, which may be freed here. */
typedef void (*waldo__ask_fn)(void *userdata, waldo_status status, const waldo_error *error);

typedef struct waldo__ask {
    waldo__loop *loop;
    waldo__http *http; /* NULL: was never made */
    waldo__transfer *transfer;
    waldo_status status;
    waldo_error *error;
    int http_status;
    waldo_status (*on_bytes)(void *userdata, waldo_str bytes); /* takes an answer of status 200 */
    waldo__ask_fn done;
    void *userdata;
    waldo__buf head; /* headers of the answer, one a line */
    waldo__buf answer;
    waldo__task task; /* tells what could not be begun */
} waldo__ask;

void waldo__ask_init(waldo__ask *ask, waldo__loop *loop, waldo__http *http, size_t max_answer,
                     void *userdata);
void waldo__ask_free(waldo__ask *ask); /* nothing is called any more; may be started again */

/*
 * Of the request all but userdata and callbacks. What was kept of an earlier answer goes. written:
 * whether there was memory and room for all of the request; one that is not whole is never sent.
 */
void waldo__ask_start(waldo__ask *ask, waldo__http_request *request, waldo_status written,
                      waldo__ask_fn done);

#endif
