/*
 * A transfer's life. libcurl's callbacks only put bytes aside and queue a task; owners are called
 * from the task.
 */
#include "http/internal.h"

#include "base/alloc.h"
#include "base/error.h"

enum {
    HIGH_WATER = 256 * 1024,         /* unread bytes at which the connection is paused */
    HIGH_WATER_H2 = 4 * 1024 * 1024, /* pausing one stream of many makes libcurl buffer for it */
    SPARE_BODIES = 16,
    SPARE_BODY_MAX = 32 * 1024
};

/* ---- libcurl's callbacks: never back into libcurl, never to the owner ---- */

static void queue(waldo__transfer *transfer)
{
    waldo__task_queue(transfer->http->loop, &transfer->task);
}

static size_t stop(waldo__transfer *transfer, waldo_status status)
{
    transfer->stopped = status;
    return CURL_WRITEFUNC_ERROR;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *userdata)
{
    waldo__transfer *transfer = userdata;
    size_t len = size * count;
    waldo_status status;

    transfer->active_ns = waldo__loop_now(transfer->http->loop);
    if (transfer->owner_paused || transfer->body.len >= transfer->high_water) {
        transfer->curl_paused = 1;
        queue(transfer);
        return CURL_WRITEFUNC_PAUSE;
    }
    transfer->received += len;
    if (transfer->max_body != 0 && transfer->received > transfer->max_body) {
        return stop(transfer, WALDO_ETOOBIG);
    }
    status = waldo__buf_add(&transfer->body, bytes, len);
    if (status != WALDO_OK) {
        return stop(transfer, status);
    }
    queue(transfer);
    return len;
}

/* A status line begins a head; of several (1xx before the real one) the last counts. */
static size_t on_header(char *bytes, size_t size, size_t count, void *userdata)
{
    waldo__transfer *transfer = userdata;
    size_t len = size * count;
    waldo_str line = waldo__str_trim((waldo_str){ bytes, len });
    long status = 0;

    transfer->active_ns = waldo__loop_now(transfer->http->loop);
    if (transfer->head_ready) {
        return len; /* trailers */
    }
    if (waldo__str_starts(line, "HTTP/")) {
        waldo__buf_clear(&transfer->head);
        return len;
    }
    if (line.len > 0) {
        waldo__buf_add_str(&transfer->head, line);
        if (waldo__buf_putc(&transfer->head, '\n') != WALDO_OK) {
            return stop(transfer, transfer->head.status);
        }
        return len;
    }
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 || status == 101) {
        transfer->http_status = (int)status;
        transfer->head_ready = 1;
        queue(transfer);
    }
    return len;
}

/*
 * Just before the request goes out. libcurl sends again by itself when a reused connection dies
 * before the first byte of an answer, though the server may have read and done it.
 */
static int on_send(void *userdata, char *remote, char *local, int remote_port, int local_port)
{
    waldo__transfer *transfer = userdata;
    long sent = 0;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    transfer->active_ns = waldo__loop_now(transfer->http->loop);
    if (transfer->sends++ == 0 || transfer->replay == WALDO__REPLAY_SAFE) {
        return CURL_PREREQFUNC_OK;
    }
    curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent);
    if (transfer->replay == WALDO__REPLAY_IF_UNSENT && sent == 0) {
        return CURL_PREREQFUNC_OK;
    }
    transfer->resend_cut = 1;
    return CURL_PREREQFUNC_ABORT;
}

void waldo__easy_callbacks(CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, waldo__socket_open);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, waldo__socket_close);
}

void waldo__transfer_callbacks(waldo__transfer *transfer)
{
    CURL *easy = transfer->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
}

/* ---- memory of bodies: growing to the same size again would cost copies and fresh pages ---- */

static void body_get(waldo__transfer *transfer)
{
    waldo__http *http = transfer->http;
    size_t max = transfer->high_water + CURL_MAX_WRITE_SIZE;

    waldo__buf_init_wiped(&transfer->body, max);
    if (http->bodies.count > 0) {
        transfer->body = http->bodies.at[--http->bodies.count];
        transfer->body.max = max;
    }
}

static void body_put(waldo__transfer *transfer)
{
    waldo__http *http = transfer->http;
    waldo__buf *body = &transfer->body, *place = NULL;

    if (body->cap > 0 && body->cap <= SPARE_BODY_MAX && http->bodies.count < SPARE_BODIES) {
        place = WALDO__VEC_PUSH(&http->bodies);
    }
    if (place == NULL) {
        waldo__buf_free(body);
        return;
    }
    explicit_bzero(body->ptr, body->cap);
    waldo__buf_clear(body);
    *place = *body;
}

/* ---- ends ---- */

void waldo__transfer_result(waldo__transfer *transfer, CURLcode code)
{
    if (code != CURLE_OK) {
        waldo__transfer_failed(transfer, code);
    }
    transfer->done = 1;
    waldo__multi_remove(transfer);
    queue(transfer);
}

void waldo__transfer_free(waldo__transfer *transfer)
{
    waldo__http *http = transfer->http;

    waldo__multi_remove(transfer);
    waldo__timer_disarm(http->loop, &transfer->timer);
    waldo__task_cancel(http->loop, &transfer->task);
    if (transfer->prev != NULL) {
        transfer->prev->next = transfer->next;
    } else if (http->transfers == transfer) {
        http->transfers = transfer->next;
    }
    if (transfer->next != NULL) {
        transfer->next->prev = transfer->prev;
    }
    waldo__header_list_unref(transfer->headers);
    waldo__buf_free(&transfer->auth_line);
    waldo_error_free(transfer->error);
    waldo__buf_free(&transfer->head);
    body_put(transfer);
    explicit_bzero(transfer->error_text, sizeof transfer->error_text); /* quotes the server */
    if (transfer->site == NULL || transfer->peer != transfer->site->peer) {
        waldo__free(transfer->peer);
    }
    waldo__site_unref(transfer->site);
    waldo__free(transfer);
}

/* The first end counts. What was received and not given is dropped. */
static void end(waldo__transfer *transfer, waldo_status status)
{
    waldo__multi_remove(transfer);
    if (transfer->status == WALDO_OK) {
        transfer->status = status;
    }
    transfer->done = 1;
    transfer->ended = 1;
    transfer->owner_paused = 0;
    queue(transfer);
}

void waldo__transfer_end(waldo__transfer *transfer, waldo_status status)
{
    if (transfer->status == WALDO_OK && status != WALDO_OK) {
        waldo_error_set(&transfer->error, status, WALDO_CLASS_TRANSPORT, "request to %s: %s",
                        transfer->peer, waldo_status_text(status));
    }
    end(transfer, status);
}

void waldo__transfer_drop(waldo__transfer *transfer)
{
    if (transfer == NULL) {
        return;
    }
    if (transfer->in_callback) {
        transfer->dropped = 1;
        return;
    }
    waldo__transfer_free(transfer);
}

/* ---- to the owner, from the run queue ---- */

static void give_head(waldo__transfer *transfer)
{
    waldo__http_head head = { .status = transfer->http_status,
                              .headers = waldo__buf_str(&transfer->head) };

    transfer->head_given = 1;
    if (transfer->on_head != NULL) {
        transfer->on_head(transfer->userdata, &head);
    }
}

/* libcurl does not run meanwhile, so the bytes stay where they are. */
static void give_body(waldo__transfer *transfer)
{
    waldo_status status = WALDO_OK;

    if (transfer->on_body != NULL) {
        status = transfer->on_body(transfer->userdata, waldo__buf_str(&transfer->body));
    }
    waldo__buf_clear(&transfer->body);
    if (status < 0 && !transfer->dropped) {
        waldo__transfer_end(transfer, status);
    }
}

/* Goes on reading; bytes that libcurl held back come at once, into our buffer. */
static void resume(waldo__transfer *transfer)
{
    transfer->curl_paused = 0;
    if (transfer->easy == NULL) {
        return;
    }
    if (transfer->multi->spoiled) { /* libcurl would look at the socket */
        waldo__transfer_end(transfer, WALDO_ENOMEM);
        return;
    }
    curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
}

static void give_end(waldo__transfer *transfer)
{
    transfer->in_callback = 1;
    if (transfer->on_done != NULL) {
        transfer->on_done(transfer->userdata, transfer->status, transfer->error);
    }
    waldo__transfer_free(transfer);
}

void waldo__transfer_deliver(void *userdata)
{
    waldo__transfer *transfer = userdata;

    transfer->in_callback = 1;
    if (transfer->head_ready && !transfer->head_given && !transfer->ended) {
        give_head(transfer);
    }
    if (!transfer->dropped && !transfer->owner_paused && !transfer->ended &&
        transfer->body.len > 0) {
        give_body(transfer);
    }
    transfer->in_callback = 0;
    if (transfer->ended) { /* not before: the owner may have ended it while reading from it */
        waldo__buf_clear(&transfer->body);
    }
    if (transfer->dropped) {
        waldo__transfer_free(transfer);
        return;
    }
    if (transfer->curl_paused && !transfer->owner_paused && transfer->body.len == 0) {
        resume(transfer);
    }
    if (transfer->done && !transfer->owner_paused && transfer->body.len == 0) {
        give_end(transfer);
    }
}

void waldo__transfer_pause(waldo__transfer *transfer, int paused)
{
    if (!paused && transfer->owner_paused) {
        transfer->active_ns = waldo__now_ns(); /* the silence was ours */
        queue(transfer);
    }
    transfer->owner_paused = paused;
}

/* ---- time ---- */

/* Bytes that the peer takes are a sign of life too. */
static int still_uploading(waldo__transfer *transfer)
{
    curl_off_t uploaded = 0;
    int more;

    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    more = uploaded > transfer->uploaded;
    transfer->uploaded = uploaded;
    return more;
}

/* The timer is not moved by every chunk: when it comes, it looks how long the silence has been. */
waldo_status waldo__transfer_arm(waldo__transfer *transfer)
{
    int64_t due = transfer->deadline_ns;
    int64_t from = transfer->active_ns;

    if (transfer->idle_ns > 0) {
        int64_t idle_due;

        from = from != 0 ? from : waldo__now_ns(); /* until it is sent, other limits hold */
        if (__builtin_add_overflow(from, transfer->idle_ns, &idle_due)) {
            idle_due = WALDO__NEVER;
        }
        due = idle_due < due ? idle_due : due;
    }
    return waldo__timer_arm(transfer->http->loop, &transfer->timer, due);
}

void waldo__transfer_check_time(void *userdata)
{
    waldo__transfer *transfer = userdata;
    int64_t now = waldo__now_ns();

    if (transfer->done) {
        return;
    }
    if (now >= transfer->deadline_ns) {
        waldo_error_set(&transfer->error, WALDO_ETIMEDOUT_DEADLINE, WALDO_CLASS_TRANSPORT,
                        "the time for the request to %s is over", transfer->peer);
        end(transfer, WALDO_ETIMEDOUT_DEADLINE);
        return;
    }
    if (transfer->idle_ns > 0 && transfer->active_ns != 0 &&
        now - transfer->active_ns >= transfer->idle_ns) {
        if (transfer->owner_paused || still_uploading(transfer)) {
            transfer->active_ns = now;
        } else {
            waldo_error_set(&transfer->error, WALDO_ETIMEDOUT_IDLE, WALDO_CLASS_TRANSPORT,
                            "%s was silent for %lld ms", transfer->peer,
                            (long long)(transfer->idle_ns / WALDO__NS_PER_MS));
            end(transfer, WALDO_ETIMEDOUT_IDLE);
            return;
        }
    }
    waldo__transfer_arm(transfer); /* cannot fail: its place in the heap is still there */
}

/* ---- start ---- */

static waldo__transfer *transfer_new(waldo__http *http, const waldo__http_request *request)
{
    waldo__transfer *transfer = WALDO__NEW(waldo__transfer);

    if (transfer == NULL) {
        return NULL;
    }
    transfer->http = http;
    transfer->replay = request->replay;
    transfer->public_only = request->public_only;
    transfer->idle_ns =
        request->idle_timeout_ms > 0 ? request->idle_timeout_ms * WALDO__NS_PER_MS : 0;
    transfer->deadline_ns = request->deadline_ns > 0 ? request->deadline_ns : WALDO__NEVER;
    transfer->max_body = request->max_body;
    transfer->high_water = request->http2 ? HIGH_WATER_H2 : HIGH_WATER;
    transfer->userdata = request->userdata;
    transfer->on_head = request->on_head;
    transfer->on_body = request->on_body;
    transfer->on_done = request->on_done;
    body_get(transfer);
    waldo__task_init(&transfer->task, waldo__transfer_deliver, transfer);
    waldo__timer_init(&transfer->timer, waldo__transfer_check_time, transfer);
    transfer->next = http->transfers;
    if (transfer->next != NULL) {
        transfer->next->prev = transfer;
    }
    http->transfers = transfer;
    return transfer;
}

waldo_status waldo__http_start(waldo__http *http, const waldo__http_request *request,
                               waldo__transfer **ret_transfer, waldo_error **ret_err)
{
    waldo__transfer *transfer;
    waldo__multi *multi;
    waldo_status status;

    if (waldo__loop_forked(http->loop)) {
        return waldo_error_set(ret_err, WALDO_EFORKED, WALDO_CLASS_USAGE,
                               "this HTTP object belongs to the parent process");
    }
    transfer = transfer_new(http, request);
    if (transfer == NULL) {
        return waldo__error_nomem(ret_err);
    }
    status = waldo__transfer_set_up(transfer, request, ret_err);
    if (status != WALDO_OK) {
        goto fail;
    }
    multi = waldo__multi_get(http);
    status = multi != NULL ? waldo__transfer_arm(transfer) : WALDO_ENOMEM;
    if (status == WALDO_OK) {
        status = waldo__multi_add(multi, transfer);
    }
    if (status != WALDO_OK) {
        waldo__error_nomem(ret_err);
        goto fail;
    }
    *ret_transfer = transfer;
    return WALDO_OK;

fail:
    waldo__transfer_free(transfer);
    return status;
}
