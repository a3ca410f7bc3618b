/* From a request to a libcurl handle. */
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    CONNECT_TIMEOUT_MS = 10000,
    MAX_CONNECTION_AGE_S = 600, /* so that revoked certificates and moved hosts are noticed */
    MAX_HEADERS = 64 * 1024,
    MAX_LINE = 16 * 1024
};

static waldo_status bad(waldo_error **ret_err, const char *what, const char *value)
{
    return waldo__error_invalid(ret_err, "%s: %s", value, what);
}

/* ---- the URL ---- */

/* One part of a URL, to free with curl_free(); NULL when it has none, or when memory is out. */
static char *url_part(CURLU *url, CURLUPart part, unsigned flags, waldo_status *status)
{
    char *text = NULL;
    CURLUcode code = curl_url_get(url, part, &text, flags);

    if (code == CURLUE_OUT_OF_MEMORY) {
        *status = WALDO_ENOMEM;
    }
    return code == CURLUE_OK ? text : NULL;
}

static int is_loopback(const char *host)
{
    waldo_str name = waldo__str(host);
    size_t len = name.len;

    return waldo__str_ieq(name, WALDO__S("localhost")) || strcmp(host, "[::1]") == 0 ||
           (len > 10 && waldo__str_ieq(waldo__str(host + len - 10), WALDO__S(".localhost"))) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == len);
}

/* May this request go there at all? */
static waldo_status check_target(const waldo__transfer *transfer, const waldo__site *site,
                                 waldo_error **ret_err)
{
    if (site->plain && !site->local && !transfer->http->allow_plain) {
        return waldo__error_invalid(
            ret_err,
            "http://%s would show requests and keys to everybody on the way: "
            "use https://, or allow it with WALDO_RUNTIME_ALLOW_PLAIN_HTTP",
            site->peer);
    }
    return WALDO_OK;
}

static waldo_status fill_site(waldo__site *site, const char *scheme, const char *host,
                              const char *port, waldo_error **ret_err)
{
    waldo__buf name = WALDO__BUF_INIT(1024);

    site->plain = strcmp(scheme, "http") == 0;
    site->local = is_loopback(host);
    if (!site->plain && strcmp(scheme, "https") != 0) {
        return waldo__error_invalid(
            ret_err, "%s:// is not possible, use https:// (or http:// to this machine)", scheme);
    }
    waldo__buf_printf(&name, "%s:%s", host, port);
    site->peer = waldo__buf_take(&name, NULL);
    waldo__buf_free(&name);
    return site->peer != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

static waldo_status read_url(CURLU *url, waldo__site *site, waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;
    char *scheme = url_part(url, CURLUPART_SCHEME, 0, &status);
    char *host = url_part(url, CURLUPART_HOST, 0, &status);
    char *port = url_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT, &status);
    char *user = url_part(url, CURLUPART_USER, 0, &status);
    char *password = url_part(url, CURLUPART_PASSWORD, 0, &status);

    if (status != WALDO_OK) {
        waldo__error_nomem(ret_err);
    } else if (scheme == NULL || host == NULL) {
        status = waldo__error_invalid(ret_err, "not a valid URL: it needs a scheme and a host");
    } else if (user != NULL || password != NULL) {
        status = waldo__error_invalid(
            ret_err, "the URL of %s holds a user name or password: give keys by name", host);
    } else {
        status = fill_site(site, scheme, host, port != NULL ? port : "?", ret_err);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(user);
    curl_free(password);
    return status;
}

static waldo_status parse_site(waldo__site *site, const char *text, waldo_error **ret_err)
{
    CURLUcode code;

    site->parsed = curl_url();
    site->url = waldo__strdup(text);
    if (site->parsed == NULL || site->url == NULL) {
        return waldo__error_nomem(ret_err);
    }
    code = curl_url_set(site->parsed, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME);
    if (code == CURLUE_OK) {
        return read_url(site->parsed, site, ret_err);
    }
    return code == CURLUE_OUT_OF_MEMORY
               ? waldo__error_nomem(ret_err)
               : waldo__error_invalid(ret_err, "not a valid URL: %s", curl_url_strerror(code));
}

void waldo__site_unref(waldo__site *site)
{
    if (site != NULL && --site->refs == 0) {
        curl_url_cleanup(site->parsed);
        waldo__free(site->url);
        waldo__free(site->peer);
        waldo__free(site);
    }
}

/* Most requests go to the same few URLs; what was found out about them is kept. */
static waldo_status find_site(waldo__http *http, const char *url, waldo__site **ret_site,
                              waldo_error **ret_err)
{
    waldo__site *fresh;
    waldo_status status;

    for (size_t i = 0; i < WALDO__COUNT(http->sites); i++) {
        if (http->sites[i] != NULL && strcmp(http->sites[i]->url, url) == 0) {
            *ret_site = http->sites[i];
            return WALDO_OK;
        }
    }
    fresh = WALDO__NEW(waldo__site);
    if (fresh == NULL) {
        return waldo__error_nomem(ret_err);
    }
    fresh->refs = 1;
    status = parse_site(fresh, url, ret_err);
    if (status != WALDO_OK) {
        waldo__site_unref(fresh);
        return status;
    }
    http->next_site = (http->next_site + 1) % WALDO__COUNT(http->sites);
    waldo__site_unref(http->sites[http->next_site]);
    http->sites[http->next_site] = fresh;
    *ret_site = fresh;
    return WALDO_OK;
}

static char *peer_of(const waldo__site *site, const char *unix_socket)
{
    waldo__buf name = WALDO__BUF_INIT(1024);
    char *taken;

    if (unix_socket == NULL) {
        return site->peer;
    }
    waldo__buf_printf(&name, "unix:%s", unix_socket);
    taken = waldo__buf_take(&name, NULL);
    waldo__buf_free(&name);
    return taken;
}

/* ret_local: loopback or a Unix socket. */
static waldo_status set_target(waldo__transfer *transfer, const waldo__http_request *request,
                               int *ret_local, waldo_error **ret_err)
{
    waldo__site *site = NULL;
    waldo_status status = find_site(transfer->http, request->url, &site, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    *ret_local = site->local || request->unix_socket != NULL;
    if (!*ret_local) {
        status = check_target(transfer, site, ret_err);
    }
    if (status == WALDO_OK) {
        site->refs++;
        transfer->site = site;
        transfer->peer = peer_of(site, request->unix_socket);
        status = transfer->peer != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
    }
    return status;
}

/* ---- headers ---- */

static waldo_status add_header(waldo__header_list *list, const char *line)
{
    struct curl_slist *more = curl_slist_append(list->lines, line);

    if (more == NULL) {
        return WALDO_ENOMEM;
    }
    list->lines = more;
    return WALDO_OK;
}

/* A line that ends in a carriage return, or holds one, would be two headers to the server. */
static int clean(waldo_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\r' || text.ptr[i] == '\n' || text.ptr[i] == '\0') {
            return 0;
        }
    }
    return 1;
}

/* libcurl takes "Name;" for a header without a value, and drops "Name:". */
static waldo_status add_request_headers(waldo__header_list *list, waldo_str rest, int *ret_typed,
                                        waldo_error **ret_err)
{
    waldo__buf text = WALDO__BUF_INIT(MAX_LINE);
    waldo_status status = WALDO_OK;
    waldo_str line;

    while (status == WALDO_OK && rest.ptr != NULL && waldo__str_split(&rest, '\n', &line)) {
        size_t colon = waldo__str_find(line, ':');
        waldo_str name = { line.ptr, colon };

        if (line.len == 0) {
            continue;
        }
        if (colon == 0 || colon == line.len || !clean(line)) {
            status = bad(ret_err, "a header must be \"Name: value\" on one line",
                         colon < line.len ? "request headers" : "request");
            break;
        }
        *ret_typed |= waldo__str_ieq(name, WALDO__S("content-type"));
        waldo__buf_clear(&text);
        if (waldo__str_trim((waldo_str){ line.ptr + colon + 1, line.len - colon - 1 }).len == 0) {
            waldo__buf_add_str(&text, name);
            status = waldo__buf_putc(&text, ';');
        } else {
            status = waldo__buf_add_str(&text, line);
        }
        status = status == WALDO_OK ? add_header(list, text.ptr) : status;
    }
    waldo__buf_free(&text);
    return status;
}

void waldo__header_list_unref(waldo__header_list *list)
{
    if (list != NULL && --list->refs == 0) {
        curl_slist_free_all(list->lines);
        waldo__free(list->text);
        waldo__free(list);
    }
}

static waldo_status new_list(waldo_str headers, waldo__header_list **ret_list,
                             waldo_error **ret_err)
{
    waldo__header_list *list = WALDO__NEW(waldo__header_list);
    waldo_status status;
    int typed = 0;

    if (list == NULL) {
        return WALDO_ENOMEM;
    }
    list->refs = 1;
    list->len = headers.len;
    list->text = waldo__alloc(headers.len + 1);
    status = list->text != NULL ? WALDO_OK : WALDO_ENOMEM;
    if (status == WALDO_OK && headers.len > 0) {
        memcpy(list->text, headers.ptr, headers.len);
    }
    if (status == WALDO_OK) {
        status = add_request_headers(list, headers, &typed, ret_err);
    }
    if (status == WALDO_OK) {
        status = add_header(list, "Expect:"); /* else POSTs wait for a 100 that never comes */
    }
    if (status == WALDO_OK && !typed) {
        status = add_header(list, "Content-Type:"); /* else libcurl says it is a form */
    }
    if (status != WALDO_OK) {
        waldo__header_list_unref(list);
        return status;
    }
    *ret_list = list;
    return WALDO_OK;
}

/* Requests to one place mostly have the same headers; the last few lists are kept. */
static waldo_status find_list(waldo__transfer *transfer, waldo_str headers, waldo_error **ret_err)
{
    waldo__http *http = transfer->http;
    waldo__header_list *list = NULL;
    waldo_status status;

    for (size_t i = 0; i < WALDO__COUNT(http->lists) && transfer->headers == NULL; i++) {
        list = http->lists[i];
        if (list != NULL && list->len == headers.len &&
            (headers.len == 0 || memcmp(list->text, headers.ptr, headers.len) == 0)) {
            transfer->headers = list;
        }
    }
    if (transfer->headers == NULL) {
        status = new_list(headers, &list, ret_err);
        if (status != WALDO_OK) {
            return status;
        }
        http->next_list = (http->next_list + 1) % WALDO__COUNT(http->lists);
        waldo__header_list_unref(http->lists[http->next_list]);
        http->lists[http->next_list] = list;
        transfer->headers = list;
    }
    transfer->headers->refs++;
    return WALDO_OK;
}

/* The key goes from the slab into one line, which lives with the transfer and is wiped with it. */
static waldo_status add_auth(waldo__transfer *transfer, const waldo__http_request *request,
                             waldo_error **ret_err)
{
    waldo__buf *line = &transfer->auth_line;
    waldo_status status;

    if (request->auth_header == NULL || request->auth_key == NULL) {
        return WALDO_OK;
    }
    waldo__buf_puts(line, request->auth_header);
    waldo__buf_puts(line, ": ");
    waldo__buf_puts(line, request->auth_prefix != NULL ? request->auth_prefix : "");
    status = waldo__secrets_append(transfer->http->secrets, request->auth_key, line);
    if (status == WALDO_OK && !clean(waldo__buf_str(line))) {
        return waldo_error_set(ret_err, WALDO_EAUTH, WALDO_CLASS_USAGE,
                               "the key %s holds a line break", request->auth_key);
    }
    if (status == WALDO_ENOTFOUND) {
        return waldo_error_set(ret_err, WALDO_EAUTH, WALDO_CLASS_USAGE, "the key %s is missing",
                               request->auth_key);
    }
    transfer->auth = (struct curl_slist){ line->ptr, transfer->headers->lines };
    return status;
}

static waldo_status add_headers(waldo__transfer *transfer, const waldo__http_request *request,
                                waldo_error **ret_err)
{
    waldo_status status = find_list(transfer, request->headers, ret_err);

    return status == WALDO_OK ? add_auth(transfer, request, ret_err) : status;
}

/* ---- options ---- */

/* Without its text an option would mean something else: another proxy, host or authority. */
static void set_text(CURL *easy, CURLoption option, const char *text, waldo_status *status)
{
    if (curl_easy_setopt(easy, option, text) == CURLE_OUT_OF_MEMORY) {
        *status = WALDO_ENOMEM;
    }
}

static void set_method(waldo__transfer *transfer, const waldo__http_request *request,
                       waldo_status *status)
{
    const char *method = request->method;
    CURL *easy = transfer->easy;

    if (strcmp(method, "HEAD") == 0) {
        transfer->odd = 1;
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (request->body.len > 0 || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
        strcmp(method, "PATCH") == 0) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        /* Who waits for no answer does not keep the body either. */
        set_text(easy, request->on_done != NULL ? CURLOPT_POSTFIELDS : CURLOPT_COPYPOSTFIELDS,
                 request->body.len > 0 ? request->body.ptr : "", status);
    } else {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    if ((strcmp(method, "GET") != 0 || request->body.len > 0) && strcmp(method, "POST") != 0) {
        transfer->odd = 1;
        set_text(easy, CURLOPT_CUSTOMREQUEST, method, status);
    }
}

static void set_proxy(const waldo__transfer *transfer, const waldo__http_request *request,
                      int local, waldo_status *status)
{
    const char *proxy = transfer->http->proxy;

    if (local || request->public_only || (proxy != NULL && strcmp(proxy, "none") == 0)) {
        proxy = "";
    } else if (proxy != NULL && strcmp(proxy, "env") == 0) {
        proxy = NULL;
    }
    set_text(transfer->easy, CURLOPT_PROXY, proxy, status);
}

/* What not every request has makes its handle an odd one. */
static void set_odd_options(waldo__transfer *transfer, const waldo__http_request *request,
                            waldo_status *status)
{
    CURL *easy = transfer->easy;

    transfer->odd |= request->public_only || request->unix_socket != NULL || request->compressed;
    if (request->public_only) { /* not over a connection that was made without the check */
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    }
    if (request->unix_socket != NULL) {
        set_text(easy, CURLOPT_UNIX_SOCKET_PATH, request->unix_socket, status);
    }
    if (request->compressed) {
        set_text(easy, CURLOPT_ACCEPT_ENCODING, "", status);
    }
}

static void set_options(waldo__transfer *transfer, const waldo__http_request *request,
                        waldo_status *status)
{
    CURL *easy = transfer->easy;
    int64_t connect_ms = request->connect_timeout_ms;

    set_text(easy, CURLOPT_URL, request->url, status);
    curl_easy_setopt(easy, CURLOPT_CURLU, transfer->site->parsed); /* so that it need not parse */
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER,
                     transfer->auth.data != NULL ? &transfer->auth : transfer->headers->lines);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error_text);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(connect_ms > 0 ? connect_ms : CONNECT_TIMEOUT_MS));
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                     (long)(request->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, request->http2 ? 1L : 0L);
}

waldo_status waldo__easy_set_up(waldo__http *http, CURL *easy)
{
    waldo_status status = WALDO_OK;

    waldo__easy_callbacks(easy);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, http);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https", &status);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, (long)MAX_CONNECTION_AGE_S);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (http->ca_file != NULL) {
        set_text(easy, CURLOPT_CAINFO, http->ca_file, &status);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    return status;
}

waldo_status waldo__transfer_set_up(waldo__transfer *transfer, const waldo__http_request *request,
                                    waldo_error **ret_err)
{
    int local = 0;
    waldo_status status = set_target(transfer, request, &local, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    waldo__buf_init_wiped(&transfer->auth_line, MAX_LINE);
    status = add_headers(transfer, request, ret_err);
    if (status != WALDO_OK) {
        return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "request to %s: %s",
                               transfer->peer, waldo_status_text(status));
    }
    transfer->easy = waldo__easy_get(transfer->http);
    if (transfer->easy == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__buf_init_wiped(&transfer->head, MAX_HEADERS);
    waldo__transfer_callbacks(transfer);
    set_options(transfer, request, &status);
    set_odd_options(transfer, request, &status);
    set_method(transfer, request, &status);
    set_proxy(transfer, request, local, &status);
    return status == WALDO_OK ? status : waldo__error_nomem(ret_err);
}
