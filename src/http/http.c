/* The HTTP object: libcurl's process-wide start, options, ends. */
#include "http/internal.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"

enum { SPARE_EASY_HANDLES = 64 };

static pthread_mutex_t global_lock = PTHREAD_MUTEX_INITIALIZER;
static int global_ready;

/* curl_global_init() may race with the host's own use of libcurl unless that is thread-safe. */
static waldo_status start_curl(int host_did_it, waldo_error **ret_err)
{
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    waldo_status status = WALDO_OK;

    if (host_did_it) {
        return WALDO_OK;
    }
    if ((info->features & CURL_VERSION_THREADSAFE) == 0) {
        return waldo_error_set(ret_err, WALDO_ESETUP, WALDO_CLASS_SYSTEM,
                               "this libcurl (%s) cannot be started safely here: call "
                               "curl_global_init() in main() and set WALDO_RUNTIME_CURL_READY",
                               info->version);
    }
    pthread_mutex_lock(&global_lock);
    if (!global_ready) {
        if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
            global_ready = 1;
        } else {
            status = WALDO_ESETUP;
        }
    }
    pthread_mutex_unlock(&global_lock);
    if (status != WALDO_OK) {
        waldo_error_set(ret_err, status, WALDO_CLASS_SYSTEM, "libcurl does not start");
    }
    return status;
}

void waldo_library_shutdown(void)
{
    pthread_mutex_lock(&global_lock);
    if (global_ready) {
        curl_global_cleanup();
        global_ready = 0;
    }
    pthread_mutex_unlock(&global_lock);
}

waldo_status waldo__http_new(waldo__loop *loop, waldo__secrets *secrets,
                             const waldo__http_options *options, waldo__http **ret_http,
                             waldo_error **ret_err)
{
    static const waldo__http_options defaults;
    waldo__http *http;
    waldo_status status;

    options = options != NULL ? options : &defaults;
    status = start_curl(options->curl_ready, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    http = WALDO__NEW(waldo__http);
    if (http == NULL) {
        return waldo__error_nomem(ret_err);
    }
    http->loop = loop;
    http->secrets = secrets;
    http->allow_plain = options->allow_plain;
    http->max_host_connections = options->max_host_connections;
    http->proxy = waldo__strdup(options->proxy);
    http->ca_file = waldo__strdup(options->ca_file);
    if ((http->proxy == NULL && options->proxy != NULL) ||
        (http->ca_file == NULL && options->ca_file != NULL)) {
        waldo__http_free(http);
        return waldo__error_nomem(ret_err);
    }
    *ret_http = http;
    return WALDO_OK;
}

/*
 * In a forked child libcurl is not called: its clean-up would say goodbye to TLS peers on the
 * parent's connections.
 */
void waldo__http_free(waldo__http *http)
{
    int forked;

    if (http == NULL) {
        return;
    }
    forked = waldo__loop_forked(http->loop);
    while (http->transfers != NULL) {
        waldo__transfer_drop(http->transfers);
    }
    while (http->multis != NULL) {
        waldo__multi *multi = http->multis;

        http->multis = multi->next;
        waldo__multi_free(multi);
    }
    for (size_t i = 0; i < http->spare.count && !forked; i++) {
        curl_easy_cleanup(http->spare.at[i]);
    }
    waldo__socks_forget(http);
    for (size_t i = 0; i < http->bodies.count; i++) {
        waldo__buf_free(&http->bodies.at[i]);
    }
    WALDO__VEC_FREE(&http->bodies);
    WALDO__VEC_FREE(&http->spare);
    WALDO__VEC_FREE(&http->socks);
    for (size_t i = 0; i < WALDO__COUNT(http->sites); i++) {
        waldo__site_unref(http->sites[i]);
    }
    for (size_t i = 0; i < WALDO__COUNT(http->lists); i++) {
        waldo__header_list_unref(http->lists[i]);
    }
    waldo__free(http->proxy);
    waldo__free(http->ca_file);
    waldo__free(http);
}

CURL *waldo__easy_get(waldo__http *http)
{
    CURL *easy;

    if (http->spare.count > 0) {
        return http->spare.at[--http->spare.count];
    }
    easy = curl_easy_init();
    if (easy != NULL && waldo__easy_set_up(http, easy) != WALDO_OK) {
        curl_easy_cleanup(easy);
        easy = NULL;
    }
    return easy;
}

/*
 * Connections stay with the multi. The handle forgets what was the request's; an odd one forgets
 * all: there are options that cannot be taken back one by one, and it counts how often it has sent
 * something again.
 */
static void easy_put(waldo__http *http, CURL *easy, int odd)
{
    CURL **place;

    if (odd) {
        curl_easy_reset(easy);
    } else {
        curl_easy_setopt(easy, CURLOPT_CURLU, NULL);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
    }
    place = http->spare.count < SPARE_EASY_HANDLES &&
                    (!odd || waldo__easy_set_up(http, easy) == WALDO_OK)
                ? WALDO__VEC_PUSH(&http->spare)
                : NULL;
    if (place == NULL) {
        curl_easy_cleanup(easy);
        return;
    }
    *place = easy;
}

void waldo__multi_remove(waldo__transfer *transfer)
{
    CURL *easy = transfer->easy;

    transfer->easy = NULL;
    if (easy == NULL || waldo__loop_forked(transfer->http->loop)) {
        return;
    }
    if (transfer->multi != NULL) {
        curl_multi_remove_handle(transfer->multi->curl, easy);
        transfer->multi->transfers--;
        transfer->multi = NULL;
    }
    easy_put(transfer->http, easy, transfer->odd || transfer->sends > 1);
}
