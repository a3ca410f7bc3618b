/* Model strings: "URL#NAME", and what goes by the URL. */
#include "model/shared.h"

#include "base/error.h"

static waldo_status refuse(const char *kind, const char *example, waldo_str rest, const char *why,
                           waldo_error **ret_err)
{
    return waldo__error_invalid(ret_err, "model \"%s:%.*s\": %s; write it as %s", kind,
                                (int)(rest.len < 200 ? rest.len : 200), rest.ptr, why, example);
}

/* Where the host begins; 0 when the scheme is neither http nor https. */
static size_t after_scheme(waldo_str url)
{
    return waldo__str_starts(url, "https://") ? 8 : waldo__str_starts(url, "http://") ? 7 : 0;
}

waldo_status waldo__model_split(const char *kind, const char *example, waldo_str rest,
                                waldo_str *ret_url, waldo_str *ret_model, waldo_error **ret_err)
{
    size_t hash = waldo__str_find(rest, '#');
    waldo_str url = waldo__slice(rest.ptr, hash);
    size_t host = after_scheme(url);

    if (host == 0) {
        return refuse(kind, example, rest, "the URL does not begin with http:// or https://",
                      ret_err);
    }
    for (size_t i = 0; i < rest.len; i++) {
        if ((unsigned char)rest.ptr[i] <= ' ' || rest.ptr[i] == 0x7f) {
            return refuse(kind, example, WALDO__S("URL#NAME"),
                          "it holds a space or a control character", ret_err);
        }
    }
    if (waldo__str_find(url, '@') < url.len) {
        /* What stands in front of the @ may be a password and is not repeated. */
        return refuse(kind, example, WALDO__S("URL#NAME"),
                      "the URL holds a user name; name a key instead", ret_err);
    }
    if (waldo__str_find(url, '?') < url.len) {
        return refuse(kind, example, rest, "the URL has a query, and a path must be appended to it",
                      ret_err);
    }
    if (url.len == host || url.ptr[host] == '/' || url.ptr[host] == ':') {
        return refuse(kind, example, rest, "the URL has no host", ret_err);
    }
    if (hash + 1 >= rest.len) {
        return refuse(kind, example, rest, "the model's name is missing behind a #", ret_err);
    }
    *ret_url = waldo__slice(url.ptr, url.len - (url.ptr[url.len - 1] == '/'));
    *ret_model = waldo__slice(rest.ptr + hash + 1, rest.len - hash - 1);
    return WALDO_OK;
}

waldo_status waldo__model_split_at(const char *kind, const char *example, const char *server_url,
                                   waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                                   waldo_error **ret_err)
{
    if (waldo__str_search(rest, WALDO__S("://"), 0) < rest.len ||
        waldo__str_find(rest, '#') < rest.len) {
        return waldo__model_split(kind, example, rest, ret_url, ret_model, ret_err);
    }
    for (size_t i = 0; i < rest.len; i++) {
        if ((unsigned char)rest.ptr[i] <= ' ' || rest.ptr[i] == 0x7f) {
            return waldo__error_invalid(ret_err,
                                        "model \"%s:NAME\": the name holds a space or a control "
                                        "character; write it as %s",
                                        kind, example);
        }
    }
    if (rest.len == 0) {
        return waldo__error_invalid(
            ret_err, "model \"%s:\": the model's name is missing; write it as %s", kind, example);
    }
    *ret_url = waldo__str(server_url);
    *ret_model = rest;
    return WALDO_OK;
}

void waldo__url_split(waldo_str url, waldo_str *ret_host, waldo_str *ret_port)
{
    size_t start = waldo__str_search(url, WALDO__S("://"), 0) + 3, end, colon;
    waldo_str rest =
        start < url.len ? waldo__slice(url.ptr + start, url.len - start) : WALDO__S("");

    rest.len = waldo__str_find(rest, '/');
    end = rest.len > 0 && rest.ptr[0] == '[' ? waldo__str_find(rest, ']') : 0;
    colon = end + waldo__str_find(waldo__slice(rest.ptr + end, rest.len - end), ':');
    *ret_host = waldo__slice(rest.ptr, colon);
    *ret_port =
        colon < rest.len ? waldo__slice(rest.ptr + colon + 1, rest.len - colon - 1) : WALDO__S("");
}

waldo_str waldo__model_rest(const waldo_model_options *options)
{
    waldo_str text = waldo__str(options->model);
    size_t colon = waldo__str_find(text, ':');

    return colon < text.len ? waldo__slice(text.ptr + colon + 1, text.len - colon - 1)
                            : WALDO__S("");
}

waldo_status waldo__model_vendor(const char *kind, waldo_str server, waldo_str model,
                                 waldo__buf *out)
{
    waldo_str part = model, name = model;
    size_t len = 0;

    /* "vendor/model-1.5" belongs to the family "model" */
    while (waldo__str_split(&part, '/', &name)) {
    }
    while (len < name.len && ((name.ptr[len] | 0x20) >= 'a' && (name.ptr[len] | 0x20) <= 'z')) {
        len++;
    }
    return waldo__buf_printf(out, "%s:%.*s/%.*s", kind, (int)server.len, server.ptr, (int)len,
                             name.ptr);
}

waldo_status waldo__model_vendor_at(const char *kind, waldo_str url, waldo_str model,
                                    waldo__buf *out)
{
    waldo_str host, port;

    waldo__url_split(url, &host, &port);
    host.len = host.len < 256 ? host.len : 256;
    return waldo__model_vendor(kind, host, model, out);
}
