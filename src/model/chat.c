/* Chat Completions: the adapter's row, and its model strings. */
#include "model/chat.h"

#include "model/model.h"

static waldo_status refuse(waldo_str rest, const char *why, waldo_error **ret_err)
{
    return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                           "model \"chat:%.*s\": %s; write it as chat:URL#NAME, such as "
                           "chat:http://127.0.0.1:8080/v1#qwen3",
                           (int)(rest.len < 200 ? rest.len : 200), rest.ptr, why);
}

/* Where the host begins; 0 when the scheme is neither http nor https. */
static size_t after_scheme(waldo_str url)
{
    return waldo__str_starts(url, "https://") ? 8 : waldo__str_starts(url, "http://") ? 7 : 0;
}

waldo_status waldo__chat_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                               waldo_error **ret_err)
{
    size_t hash = waldo__str_find(rest, '#');
    waldo_str url = waldo__strn(rest.ptr, hash);
    size_t host = after_scheme(url);

    if (host == 0) {
        return refuse(rest, "the URL does not begin with http:// or https://", ret_err);
    }
    for (size_t i = 0; i < rest.len; i++) {
        if ((unsigned char)rest.ptr[i] <= ' ' || rest.ptr[i] == 0x7f) {
            return refuse(waldo__str("URL#NAME"), "it holds a space or a control character",
                          ret_err);
        }
    }
    if (waldo__str_find(url, '@') < url.len) {
        /* What stands in front of the @ may be a password and is not repeated. */
        return refuse(waldo__str("URL#NAME"), "the URL holds a user name; name a key instead",
                      ret_err);
    }
    if (waldo__str_find(url, '?') < url.len) {
        return refuse(rest, "the URL has a query, and a path must be appended to it", ret_err);
    }
    if (url.len == host || url.ptr[host] == '/' || url.ptr[host] == ':') {
        return refuse(rest, "the URL has no host", ret_err);
    }
    if (hash + 1 >= rest.len) {
        return refuse(rest, "the model's name is missing behind a #", ret_err);
    }
    *ret_url = waldo__strn(url.ptr, url.len - (url.ptr[url.len - 1] == '/'));
    *ret_model = waldo__strn(rest.ptr + hash + 1, rest.len - hash - 1);
    return WALDO_OK;
}

waldo_status waldo__chat_vendor(const waldo__chat_quirks *quirks, waldo_str model, waldo__buf *out)
{
    waldo_str part = model, name = model;
    size_t len = 0;

    /* "vendor/model-1.5" belongs to the family "model" */
    while (waldo__str_split(&part, '/', &name)) {
    }
    while (len < name.len && ((name.ptr[len] | 0x20) >= 'a' && (name.ptr[len] | 0x20) <= 'z')) {
        len++;
    }
    return waldo__buf_printf(out, "chat:%s/%.*s", quirks->server, (int)len, name.ptr);
}

const waldo_model_ops waldo__chat_ops = {
    .version = WALDO_MODEL_VERSION,
    .size = sizeof(waldo_model_ops),
    .name = "chat",
    .about = "chat:URL#NAME speaks Chat Completions to the server at URL",
    .auth_header = "Authorization",
    .auth_prefix = "Bearer ",
    .parse = waldo__chat_parse,
    .new_encoder = waldo__chat_new_encoder,
    .append = waldo__chat_append,
    .request = waldo__chat_request,
    .free_encoder = waldo__chat_free_encoder,
    .new_reader = waldo__chat_new_reader,
    .feed = waldo__chat_feed,
    .complete = waldo__chat_complete,
    .finish = waldo__chat_finish,
    .free_reader = waldo__chat_free_reader,
    .classify = waldo__chat_classify,
    .key_for = waldo__chat_key_for,
};
