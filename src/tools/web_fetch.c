/*
 * web_fetch: a page fetched by the host for an agent whose sandbox has no network. The name is
 * held against an allow-list before anything is sent; the transfer speaks https only, follows no
 * redirect and refuses private addresses at the moment of connecting.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "tools/tools.h"

enum { PAGE_MAX = 4 * 1024 * 1024, NAME_LIMIT = 253, DEADLINE_MS = 60000, HEAD_MAX = 64 * 1024 };

typedef struct state {
    waldo_tool_call *call;
    waldo__transfer *transfer;
    waldo__buf body;
    int http_status;
    int cut; /* the page is longer than what was kept */
    char location[1024];
} state;

/* One row of the allow-list: a name, or "*." and a name. */
static int host_matches(waldo_str host, waldo_str row)
{
    if (waldo__str_starts(row, "*.")) {
        waldo_str suffix = waldo__slice(row.ptr + 1, row.len - 1); /* with its dot */

        return host.len > suffix.len &&
               waldo__str_ieq(waldo__slice(host.ptr + host.len - suffix.len, suffix.len), suffix);
    }
    return waldo__str_ieq(host, row);
}

static int is_allowed(const char *allow_list, waldo_str host)
{
    waldo_str rest = waldo__str(allow_list), row;

    while (waldo__str_split(&rest, ',', &row)) {
        row = waldo__str_trim(row);
        if (row.len > 0 && host_matches(host, row)) {
            return 1;
        }
    }
    return 0;
}

static int is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_';
}

/*
 * The host of an https URL with the default port. Only plain names: no user, no port, no IP literal
 * in brackets, nothing that another parser could read differently.
 */
static int split_host(waldo_str url, waldo_str *ret_host)
{
    waldo_str rest;
    size_t len = 0;

    if (!waldo__str_starts(url, "https://")) {
        return 0;
    }
    rest = waldo__slice(url.ptr + 8, url.len - 8);
    while (len < rest.len && is_name_byte(rest.ptr[len])) {
        len++;
    }
    if (len == 0 || len > NAME_LIMIT ||
        (len < rest.len && rest.ptr[len] != '/' && rest.ptr[len] != '?')) {
        return 0;
    }
    *ret_host = waldo__slice(rest.ptr, len);
    return 1;
}

static void got_head(void *userdata, const waldo__http_head *head)
{
    state *s = userdata;
    waldo_str location;

    s->http_status = head->status;
    if (waldo__header_get(head->headers, "location", &location)) {
        snprintf(s->location, sizeof s->location, "%.*s", (int)location.len, location.ptr);
    }
}

/* What is too long is cut, not refused: the beginning of a page is of use. */
static waldo_status got_body(void *userdata, waldo_str bytes)
{
    state *s = userdata;
    size_t room = s->body.max - s->body.len;

    waldo__buf_add(&s->body, bytes.ptr, bytes.len < room ? bytes.len : room);
    s->cut = bytes.len > room;
    return bytes.len > room ? WALDO_ETOOBIG : s->body.status;
}

static void reply(state *s)
{
    size_t max = waldo__tool_call_max_output(s->call);
    waldo__buf out = WALDO__BUF_INIT(max + HEAD_MAX);

    waldo__buf_printf(&out, "HTTP status: %d\n", s->http_status);
    if (s->location[0] != '\0') {
        waldo__buf_printf(&out, "Redirect, not followed, to: %s\n", s->location);
    }
    waldo__tool_show_lines(waldo__buf_str(&s->body), max, &out);
    if (s->cut) {
        waldo__buf_puts(&out, "\n[the page has more than 4 MiB; the rest was not fetched]\n");
    }
    waldo_tool_call_reply_text(s->call, waldo__buf_str(&out));
    waldo__buf_free(&out);
}

static void fetched(void *userdata, waldo_status status, const waldo_error *error)
{
    state *s = userdata;

    s->transfer = NULL;
    waldo_tool_call_on_cancel(s->call, NULL, NULL);
    if (status == WALDO_OK || status == WALDO_ETOOBIG) {
        reply(s);
    } else {
        waldo__tool_fail_with(s->call, status, error);
    }
    waldo__buf_free(&s->body);
    waldo_tool_call_unref(s->call);
}

static void on_cancel(void *userdata)
{
    state *s = userdata;

    if (s->transfer != NULL) {
        waldo__transfer_end(s->transfer, WALDO_ECANCELED);
    }
}

static waldo_status web_fetch(void *userdata, waldo_tool_call *call)
{
    const char *allow_list = userdata, *url = waldo_tool_call_str(call, "url");
    state *s = waldo__tool_call_state(call, sizeof *s);
    waldo_error *error = NULL;
    waldo_status status;
    waldo_str host;

    if (s == NULL) {
        return WALDO_ENOMEM;
    }
    if (!split_host(waldo__str(url), &host)) {
        return waldo_tool_call_fail(call, "the URL must be https://NAME/... without a port");
    }
    if (!is_allowed(allow_list, host)) {
        return waldo_tool_call_fail(call, "%.*s is not among the hosts that may be fetched: %s",
                                    (int)host.len, host.ptr, allow_list);
    }
    s->call = waldo_tool_call_ref(call);
    waldo__buf_init(&s->body, PAGE_MAX);
    status =
        waldo__http_start(waldo__tool_call_http(call),
                          &(waldo__http_request){ .method = "GET",
                                                  .url = url,
                                                  .replay = WALDO__REPLAY_SAFE,
                                                  .deadline_ns = waldo__deadline_ns(DEADLINE_MS),
                                                  .public_only = 1,
                                                  .compressed = 1,
                                                  .userdata = s,
                                                  .on_head = got_head,
                                                  .on_body = got_body,
                                                  .on_done = fetched },
                          &s->transfer, &error);
    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
        waldo_error_free(error);
        waldo_tool_call_unref(call);
        return WALDO_OK;
    }
    waldo_tool_call_on_cancel(call, on_cancel, s);
    return WALDO_PENDING;
}

waldo_tool *waldo_tool_web_fetch(const char *hosts)
{
    char *allow_list = waldo__strdup(hosts != NULL ? hosts : "");

    if (allow_list == NULL) {
        return waldo_tool_new(NULL); /* carries an error, as every list of tools needs */
    }
    return WALDO_TOOL(
            .name = "web_fetch",
            .about = "Fetch a web page with GET, from the user's machine. Only https and only the "
                     "allowed hosts; redirects are told, not followed.",
            .params = WALDO_PARAMS({ .name = "url", .type = WALDO_STRING, .about = "https URL." }),
            .call = web_fetch, .userdata = allow_list, .destroy = waldo__free,
            .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY);
}
