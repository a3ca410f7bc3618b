#include "http/ask.h"

#include "base/error.h"

enum { HEAD_MAX = 64 * 1024 };

static void not_begun(void *userdata)
{
    waldo__ask *ask = userdata;
    waldo_error *error = ask->error;

    ask->error = NULL;
    ask->done(ask->userdata, ask->status, error);
    waldo_error_free(error);
}

void waldo__ask_init(waldo__ask *ask, waldo__loop *loop, waldo__http *http, size_t max_answer,
                     void *userdata)
{
    *ask = (waldo__ask){ .loop = loop,
                         .http = http,
                         .head = WALDO__BUF_WIPED(HEAD_MAX),
                         .answer = WALDO__BUF_WIPED(max_answer),
                         .userdata = userdata };
    waldo__task_init(&ask->task, not_begun, ask);
}

void waldo__ask_free(waldo__ask *ask)
{
    if (ask->http == NULL) {
        return;
    }
    waldo__transfer_drop(ask->transfer);
    ask->transfer = NULL;
    waldo__task_cancel(ask->loop, &ask->task);
    waldo__error_clear(&ask->error);
    waldo__buf_free(&ask->head);
    waldo__buf_free(&ask->answer);
}

static void on_head(void *userdata, const waldo__http_head *head)
{
    waldo__ask *ask = userdata;

    ask->http_status = head->status;
    waldo__buf_add_str(&ask->head, head->headers);
}

static waldo_status on_body(void *userdata, waldo_str bytes)
{
    waldo__ask *ask = userdata;

    if (ask->on_bytes != NULL && ask->http_status == 200) {
        return ask->on_bytes(ask->userdata, bytes);
    }
    return waldo__buf_add_str(&ask->answer, bytes);
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__ask *ask = userdata;

    ask->transfer = NULL;
    ask->done(ask->userdata, status == WALDO_OK ? ask->head.status : status, error);
}

void waldo__ask_start(waldo__ask *ask, waldo__http_request *request, waldo_status written,
                      waldo__ask_fn done)
{
    ask->done = done;
    ask->http_status = 0;
    waldo__buf_clear(&ask->head);
    waldo__buf_clear(&ask->answer);
    request->userdata = ask;
    request->on_head = on_head;
    request->on_body = on_body;
    request->on_done = on_done;
    ask->status = written;
    if (ask->status == WALDO_OK) {
        ask->status = waldo__http_start(ask->http, request, &ask->transfer, &ask->error);
    }
    if (ask->status != WALDO_OK) {
        waldo__task_queue(ask->loop, &ask->task);
    }
}
