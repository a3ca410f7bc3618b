/* Chat Completions: the adapter's row, and its model strings. */
#include "model/chat.h"

#include "model/model.h"

waldo_status waldo__chat_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                               waldo_error **ret_err)
{
    return waldo__model_split("chat", "chat:URL#NAME, such as chat:http://127.0.0.1:8080/v1#qwen3",
                              rest, ret_url, ret_model, ret_err);
}

waldo_status waldo__chat_vendor(const waldo__chat_quirks *quirks, waldo_str model, waldo__buf *out)
{
    return waldo__model_vendor("chat", waldo__str(quirks->server), model, out);
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
    .classify = waldo__provider_classify,
    .key_for = waldo__key_for_url,
    .usage = waldo__chat_usage,
};
