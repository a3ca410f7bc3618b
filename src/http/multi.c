/*
 * The hidden set of multi handles: one walks all its connections to a host for each new request, so
 * none gets more than 256 transfers. Sockets, timers and results of libcurl, on the loop.
 */
#include "http/internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

enum { TRANSFERS_PER_MULTI = 256, CONNECTIONS_PER_MULTI = 512, STARVED_POLL_MS = 20 };

/* ---- after libcurl has worked ---- */

/* Results are taken off at once; owners hear of them from the run queue. */
static void take_results(waldo__multi *multi)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(multi->curl, &left)) != NULL) {
        waldo__transfer *transfer = NULL;
        CURLcode code = message->data.result;

        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        waldo__transfer_result(transfer, code);
    }
}

/* Nobody may wake a starved multi, so it looks for itself; without a timer in the next round. */
static void look_later(waldo__multi *multi)
{
    waldo__loop *loop = multi->http->loop;

    if (multi->starved && !waldo__timer_armed(&multi->poll) &&
        waldo__timer_arm(loop, &multi->poll, waldo__deadline_ns(STARVED_POLL_MS)) != WALDO_OK) {
        waldo__task_queue(loop, &multi->kick);
    }
}

static void act(waldo__multi *multi, curl_socket_t fd, int flags)
{
    int running;

    if (curl_multi_socket_action(multi->curl, fd, flags, &running) != CURLM_OK) {
        multi->starved = 1;
        multi->spoiled = 1;
    }
    take_results(multi);
    look_later(multi);
}

static void look(void *userdata)
{
    waldo__multi *multi = userdata;
    int running;

    multi->starved = multi->transfers > 0;
    if (multi->starved) {
        curl_multi_perform(multi->curl, &running);
        take_results(multi);
    }
    look_later(multi);
}

static void on_timeout(void *userdata)
{
    waldo__multi *multi = userdata;

    if (multi->starved) {
        look(multi);
    } else {
        act(multi, CURL_SOCKET_TIMEOUT, 0);
    }
}

static void on_ready(void *userdata, unsigned events)
{
    waldo__sock *sock = userdata;
    int flags = 0;

    flags |= events & WALDO__READ ? CURL_CSELECT_IN : 0;
    flags |= events & WALDO__WRITE ? CURL_CSELECT_OUT : 0;
    flags |= events & WALDO__HANGUP ? CURL_CSELECT_ERR : 0;
    if (sock->multi->starved) {
        look(sock->multi);
    } else {
        act(sock->multi, sock->fd, flags);
    }
}

/* ---- what libcurl asks for; nothing here may call it again ---- */

static void sock_free(waldo__http *http, waldo__sock *sock)
{
    http->socks.at[sock->fd] = NULL;
    waldo__watch_free(sock->watch);
    waldo__free(sock);
}

/* The record of a descriptor, made when there is none; NULL when out of memory. */
static waldo__sock *sock_get(waldo__http *http, int fd)
{
    while (http->socks.count <= (size_t)fd) {
        if (WALDO__VEC_PUSH(&http->socks) == NULL) {
            return NULL;
        }
    }
    if (http->socks.at[fd] == NULL) {
        waldo__sock *sock = WALDO__NEW(waldo__sock);

        if (sock == NULL) {
            return NULL;
        }
        sock->fd = fd;
        http->socks.at[fd] = sock;
    }
    return http->socks.at[fd];
}

/*
 * A connection that rests keeps its watch without events until its socket is closed. Other sockets
 * are libcurl's own, such as those of its resolver, whose end is told here only. -1 would abort all
 * transfers of the multi, so a multi without a watch it needs is polled instead.
 */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *known)
{
    waldo__multi *multi = userdata;
    waldo__http *http = multi->http;
    waldo__sock *sock = (size_t)fd < http->socks.count ? http->socks.at[fd] : NULL;
    unsigned events = 0;

    (void)easy;
    (void)known;
    if (what == CURL_POLL_REMOVE) {
        if (sock != NULL && sock->opened && sock->watch != NULL) {
            waldo__watch_set(sock->watch, 0);
        } else if (sock != NULL && !sock->opened) {
            sock_free(http, sock);
        }
        return 0;
    }
    sock = sock != NULL ? sock : sock_get(http, fd);
    if (sock == NULL) {
        multi->starved = 1;
        return 0;
    }
    events |= what & CURL_POLL_IN ? WALDO__READ : 0u;
    events |= what & CURL_POLL_OUT ? WALDO__WRITE : 0u;
    sock->multi = multi;
    if ((sock->watch != NULL ? waldo__watch_set(sock->watch, events)
                             : waldo__watch_new(http->loop, fd, events, on_ready, sock,
                                                &sock->watch)) != WALDO_OK) {
        multi->starved = 1;
    }
    return 0;
}

static int on_timer(CURLM *curl, long timeout_ms, void *userdata)
{
    waldo__multi *multi = userdata;
    waldo__loop *loop = multi->http->loop;

    (void)curl;
    if (timeout_ms == 0) {
        waldo__timer_disarm(loop, &multi->timer);
        waldo__task_queue(loop, &multi->kick);
        return 0;
    }
    waldo__task_cancel(loop, &multi->kick);
    if (waldo__timer_arm(loop, &multi->timer,
                         timeout_ms < 0 ? WALDO__NEVER : waldo__deadline_ns(timeout_ms)) !=
        WALDO_OK) {
        multi->starved = 1;
        waldo__task_queue(loop, &multi->kick);
    }
    return 0;
}

/* libcurl before 8 leaves its sockets open across exec. */
curl_socket_t waldo__socket_open(void *clientp, curlsocktype purpose, struct curl_sockaddr *address)
{
    waldo__transfer *transfer = clientp;
    waldo__http *http = transfer->http;
    waldo__sock *sock;
    int fd;

    (void)purpose;
    if (transfer->public_only && !waldo__address_is_public(&address->addr)) {
        transfer->address_refused = 1;
        return CURL_SOCKET_BAD;
    }
    fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) {
        return CURL_SOCKET_BAD;
    }
    if ((size_t)fd < http->socks.count && http->socks.at[fd] != NULL) {
        sock_free(http, http->socks.at[fd]);
    }
    sock = sock_get(http, fd);
    if (sock == NULL) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    sock->opened = 1;
    return fd;
}

int waldo__socket_close(void *clientp, curl_socket_t fd)
{
    waldo__http *http = clientp;

    if ((size_t)fd < http->socks.count && http->socks.at[fd] != NULL) {
        sock_free(http, http->socks.at[fd]);
    }
    return close(fd);
}

void waldo__socks_forget(waldo__http *http)
{
    for (size_t i = 0; i < http->socks.count; i++) {
        waldo__sock *sock = http->socks.at[i];

        if (sock != NULL) {
            waldo__watch_free(sock->watch);
            if (sock->opened) {
                close(sock->fd);
            }
            waldo__free(sock);
        }
    }
}

/* ---- the set ---- */

static waldo__multi *multi_new(waldo__http *http)
{
    waldo__multi *multi = WALDO__NEW(waldo__multi);

    if (multi == NULL) {
        return NULL;
    }
    multi->http = http;
    multi->curl = curl_multi_init();
    if (multi->curl == NULL) {
        waldo__free(multi);
        return NULL;
    }
    waldo__timer_init(&multi->timer, on_timeout, multi);
    waldo__task_init(&multi->kick, on_timeout, multi);
    waldo__timer_init(&multi->poll, look, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_PER_MULTI);
    curl_multi_setopt(multi->curl, CURLMOPT_MAX_HOST_CONNECTIONS, (long)http->max_host_connections);
    return multi;
}

/* A limit of connections to one host is only exact within one multi, so there is but one then. */
waldo__multi *waldo__multi_get(waldo__http *http)
{
    waldo__multi **at = &http->multis;

    while (*at != NULL) {
        waldo__multi *multi = *at;

        if (multi->spoiled && multi->transfers == 0) {
            *at = multi->next;
            waldo__multi_free(multi);
        } else if (http->max_host_connections == 0 && multi->transfers >= TRANSFERS_PER_MULTI) {
            at = &multi->next;
        } else {
            break;
        }
    }
    if (*at == NULL) {
        *at = multi_new(http);
    }
    return *at;
}

waldo_status waldo__multi_add(waldo__multi *multi, waldo__transfer *transfer)
{
    if (curl_multi_add_handle(multi->curl, transfer->easy) != CURLM_OK) {
        return WALDO_ENOMEM;
    }
    transfer->multi = multi;
    multi->transfers++;
    return WALDO_OK;
}

/* Its socket and timer callbacks still come during the clean-up. */
void waldo__multi_free(waldo__multi *multi)
{
    waldo__loop *loop = multi->http->loop;

    if (!waldo__loop_forked(loop)) {
        curl_multi_cleanup(multi->curl);
    }
    waldo__timer_disarm(loop, &multi->timer);
    waldo__timer_disarm(loop, &multi->poll);
    waldo__task_cancel(loop, &multi->kick);
    waldo__free(multi);
}
