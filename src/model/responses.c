/* OpenAI Responses: the adapter's row, its model strings and its quirks. */
#include "model/responses.h"

#include "base/alloc.h"
#include "base/error.h"
#include "model/model.h"

#define OPENAI_URL "https://api.openai.com/v1"

static const waldo__switch switches[] = {
    { "stream", WALDO__SWITCH_BOOL, offsetof(waldo__responses_quirks, stream), "" },
    { "store", WALDO__SWITCH_BOOL, offsetof(waldo__responses_quirks, store), "" },
    { "encrypted", WALDO__SWITCH_BOOL, offsetof(waldo__responses_quirks, encrypted), "" },
    { "result_images", WALDO__SWITCH_BOOL, offsetof(waldo__responses_quirks, result_images), "" },
    { "freeform", WALDO__SWITCH_BOOL, offsetof(waldo__responses_quirks, freeform), "" },
    { "no_obfuscation", WALDO__SWITCH_BOOL, offsetof(waldo__responses_quirks, no_obfuscation), "" },
    { "summary", WALDO__SWITCH_WORD, offsetof(waldo__responses_quirks, summary),
      "none\0auto\0concise\0detailed\0" },
    { "history", WALDO__SWITCH_WORD, offsetof(waldo__responses_quirks, history),
      "host\0provider\0" },
    { "previous", WALDO__SWITCH_ID, offsetof(waldo__responses_quirks, previous), "" },
    { "conversation", WALDO__SWITCH_ID, offsetof(waldo__responses_quirks, conversation), "" },
};

enum { UNSAID = 2 };

int waldo__responses_is_remote(const waldo__responses_quirks *quirks)
{
    return quirks->history[0] == 'p';
}

/* What goes together, and what follows from who keeps the conversation. */
static waldo_status settle(waldo__responses_quirks *quirks, const waldo_model_options *options,
                           waldo_error **ret_err)
{
    int is_remote = waldo__responses_is_remote(quirks);
    waldo_str url = WALDO__S(""), model = WALDO__S("");
    const char *wrong = NULL;

    if (quirks->store == UNSAID) {
        quirks->store = (unsigned char)is_remote;
    }
    if (quirks->freeform == UNSAID) {
        waldo__responses_parse(waldo__model_rest(options), &url, &model, NULL);
        quirks->freeform = (unsigned char)waldo__freeform_is_known(url, model);
    }
    if (!is_remote && quirks->previous.len + quirks->conversation.len > 0) {
        wrong = "previous and conversation need history=provider";
    } else if (quirks->previous.len > 0 && quirks->conversation.len > 0) {
        wrong = "previous and conversation exclude each other";
    } else if (is_remote && !quirks->store) {
        wrong = "history=provider needs what store=off forbids";
    }
    if (is_remote) {
        quirks->encrypted = 0; /* reasoning stays where it is */
    }
    return wrong == NULL ? WALDO_OK : waldo__error_invalid(ret_err, "model quirks: %s", wrong);
}

waldo_status waldo__responses_quirks_find(const waldo_model_options *options,
                                          waldo__responses_quirks *ret_quirks,
                                          waldo_error **ret_err)
{
    static const waldo__switches known = { switches, WALDO__COUNT(switches), "" };
    waldo__responses_quirks quirks = { .summary = "none",
                                       .stream = 1,
                                       .encrypted = 1,
                                       .result_images = 1,
                                       .no_obfuscation = 1,
                                       .store = UNSAID,
                                       .freeform = UNSAID,
                                       .history = "host" };
    waldo_str rest = waldo__str(options->quirks), part;
    waldo_status status = WALDO_OK;

    while (status == WALDO_OK && waldo__str_split(&rest, ',', &part)) {
        if (part.len > 0) {
            status = waldo__switch_apply(&known, part, &quirks, ret_err);
        }
    }
    if (status == WALDO_OK) {
        status = settle(&quirks, options, ret_err);
    }
    if (status == WALDO_OK) {
        *ret_quirks = quirks;
    }
    return status;
}

waldo_status waldo__responses_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                                    waldo_error **ret_err)
{
    return waldo__model_split_at("openai",
                                 "openai:NAME, such as openai:gpt-5.1, or openai:URL#NAME",
                                 OPENAI_URL, rest, ret_url, ret_model, ret_err);
}

/* Opaque reasoning is bound to its origin, so the host counts. */
waldo_status waldo__responses_vendor(waldo_str url, waldo_str model, waldo__buf *out)
{
    return waldo__model_vendor_at("openai", url, model, out);
}

static waldo_history history_of(const waldo_model_options *options)
{
    waldo__responses_quirks quirks;

    if (waldo__responses_quirks_find(options, &quirks, NULL) != WALDO_OK ||
        !waldo__responses_is_remote(&quirks)) {
        return WALDO_HISTORY_HOST;
    }
    return quirks.conversation.len > 0 ? WALDO_HISTORY_CONVERSATION : WALDO_HISTORY_RESPONSES;
}

const waldo_model_ops waldo__responses_ops = {
    .version = WALDO_MODEL_VERSION,
    .size = sizeof(waldo_model_ops),
    .name = "openai",
    .about = "openai:NAME speaks the Responses API to OpenAI, openai:URL#NAME to the server at URL",
    .key_name = "OPENAI_API_KEY",
    .auth_header = "Authorization",
    .auth_prefix = "Bearer ",
    .parse = waldo__responses_parse,
    .new_encoder = waldo__responses_new_encoder,
    .append = waldo__responses_append,
    .request = waldo__responses_request,
    .free_encoder = waldo__responses_free_encoder,
    .new_reader = waldo__responses_new_reader,
    .feed = waldo__responses_feed,
    .complete = waldo__responses_complete,
    .finish = waldo__responses_finish,
    .free_reader = waldo__responses_free_reader,
    .classify = waldo__provider_classify,
    .key_for = waldo__key_for_url,
    .usage = waldo__responses_usage,
    .history = history_of,
    .expect = waldo__responses_expect,
};
