/* What the files of src/http share. */
#ifndef WALDO_HTTP_INTERNAL_H
#define WALDO_HTTP_INTERNAL_H

#include <curl/curl.h>

#include "base/buf.h"
#include "base/vec.h"
#include "http/http.h"

typedef struct waldo__multi waldo__multi;

/* A descriptor that a multi has or had an interest in. */
typedef struct waldo__sock {
    waldo__multi *multi;
    waldo__watch *watch;
    int fd;
    int opened; /* by our open-socket callback: lives until the close-socket callback */
} waldo__sock;

struct waldo__multi {
    waldo__http *http;
    waldo__multi *next;
    CURLM *curl;
    size_t transfers;
    waldo__timer timer; /* curl's one timer */
    waldo__task kick;   /* its timeout of 0, which must not be answered within the callback */
    int starved;        /* memory was out for a watch or timer: it is polled until it is empty */
    /*
     * Memory was out for what libcurl knows of a socket, maybe of one that it would use again: what
     * it destroyed then (transfers of a socket, singlesocket() of its multi.c) it divides by later.
     * It is polled, which does not look there, and is replaced once it is empty.
     */
    int spoiled;
    waldo__timer poll;
};

/* What is known of a URL. */
typedef struct waldo__site {
    char *url;
    CURLU *parsed;
    char *peer; /* "host:port" */
    int plain;  /* http:// */
    int local;  /* loopback */
    size_t refs;
} waldo__site;

/* The headers of requests that have the same ones, but for the key. */
typedef struct waldo__header_list {
    char *text; /* as the requests have them */
    size_t len;
    struct curl_slist *lines;
    size_t refs;
} waldo__header_list;

struct waldo__http {
    waldo__loop *loop;
    waldo__secrets *secrets;
    char *proxy;
    char *ca_file;
    int allow_plain;
    uint32_t max_host_connections;
    size_t next_site;
    size_t next_list;
    waldo__multi *multis;
    waldo__transfer *transfers;
    struct {
        WALDO__VEC(waldo__sock *);
    } socks; /* by descriptor number */
    struct {
        WALDO__VEC(CURL *);
    } spare; /* easy handles to use again, with the options that all requests have */
    struct {
        WALDO__VEC(waldo__buf);
    } bodies;              /* memory of bodies to use again, overwritten */
    waldo__site *sites[8]; /* the last few */
    waldo__header_list *lists[8];
};

struct waldo__transfer {
    waldo__http *http;
    waldo__transfer *next;
    waldo__transfer *prev;
    waldo__multi *multi;
    CURL *easy; /* NULL once curl is done with it */
    void *userdata;
    void (*on_head)(void *userdata, const waldo__http_head *head);
    waldo_status (*on_body)(void *userdata, waldo_str bytes);
    void (*on_done)(void *userdata, waldo_status status, const waldo_error *error);
    waldo_status status;
    int http_status;
    waldo_error *error;
    int in_callback;
    int dropped; /* within a callback */
    int done;
    int ended; /* by its owner or by a limit: what came and was not given is dropped */
    int head_ready;
    int head_given;
    waldo__site *site;
    char *peer; /* "host:port", for errors; the site's, or of a Unix socket */
    waldo__header_list *headers;
    struct curl_slist auth; /* before them: the key, in auth_line */
    waldo__buf auth_line;
    waldo__replay replay;
    int public_only;
    int address_refused; /* for the sake of public_only */
    int odd;             /* its handle has options that not all requests have */
    int64_t idle_ns;
    int64_t deadline_ns;
    uint64_t max_body;
    size_t high_water;

    waldo__timer timer; /* idle and deadline, checked lazily */
    int64_t active_ns;  /* when the peer was last heard; 0: not asked yet */
    curl_off_t uploaded;
    int sends;      /* how often curl was about to send it */
    int resend_cut; /* a second send was refused */

    waldo__buf head;
    waldo__buf body;
    uint64_t received;
    waldo_status stopped; /* why our own callback stopped curl */

    waldo__task task; /* gives what has come to the owner */
    int owner_paused;
    int curl_paused;
    char error_text[CURL_ERROR_SIZE];
};

/* ---- multis ---- */

/* One with room for a transfer; NULL when out of memory. */
waldo__multi *waldo__multi_get(waldo__http *http);
waldo_status waldo__multi_add(waldo__multi *multi, waldo__transfer *transfer);
void waldo__multi_remove(waldo__transfer *transfer); /* gives the easy handle back */
void waldo__multi_free(waldo__multi *multi);
curl_socket_t waldo__socket_open(void *clientp, curlsocktype purpose,
                                 struct curl_sockaddr *address);
int waldo__socket_close(void *clientp, curl_socket_t fd);
int waldo__address_is_public(const struct sockaddr *address);
void waldo__socks_forget(waldo__http *http); /* in a forked child: close the copies */

/* ---- transfers ---- */

CURL *waldo__easy_get(waldo__http *http);
waldo_status waldo__easy_set_up(waldo__http *http, CURL *easy); /* what all requests have */
void waldo__site_unref(waldo__site *site);
void waldo__header_list_unref(waldo__header_list *list);
waldo_status waldo__transfer_set_up(waldo__transfer *transfer, const waldo__http_request *request,
                                    waldo_error **ret_err);
void waldo__easy_callbacks(CURL *easy);                    /* head, body, send, sockets */
void waldo__transfer_callbacks(waldo__transfer *transfer); /* whom they are for */
void waldo__transfer_deliver(void *userdata);              /* the task */
void waldo__transfer_result(waldo__transfer *transfer, CURLcode code);
void waldo__transfer_failed(waldo__transfer *transfer, CURLcode code); /* status and error of it */
void waldo__transfer_check_time(void *userdata);
waldo_status waldo__transfer_arm(waldo__transfer *transfer);
void waldo__transfer_free(waldo__transfer *transfer);

#endif
