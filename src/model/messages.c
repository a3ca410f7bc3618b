/* Anthropic Messages: the adapter's row, its model strings and its quirks. */
#include "model/messages.h"

#include "base/alloc.h"
#include "model/model.h"

#define ANTHROPIC_URL "https://api.anthropic.com/v1"

enum thinking { BUDGET, ADAPTIVE };

/* What goes by the model's name: the first row that it begins with. */
static const struct {
    const char *prefix;
    unsigned char thinking;
    unsigned char sampling; /* newer models refuse it, whatever the version of the API */
    uint32_t max_tokens;
} models[] = {
    { "claude-3", BUDGET, 1, 8192 },
    { "claude-opus-4-0", BUDGET, 1, 32000 },
    { "claude-sonnet-4-0", BUDGET, 1, 32000 },
    { "claude-opus-4-1", BUDGET, 1, 32000 },
    { "claude-opus-4-2", BUDGET, 1, 32000 }, /* 4 with a date */
    { "claude-sonnet-4-2", BUDGET, 1, 32000 },
    { "claude-opus-4-5", BUDGET, 1, 32000 },
    { "claude-sonnet-4-5", BUDGET, 1, 32000 },
    { "claude-haiku-4-5", BUDGET, 1, 32000 },
    { "claude-opus-4-6", ADAPTIVE, 1, 32000 },
    { "claude-sonnet-4-6", ADAPTIVE, 1, 32000 },
    { "claude-", ADAPTIVE, 0, 32000 },
    { "", BUDGET, 1, 8192 }, /* compatible servers, which count it against a small window */
};

static const waldo__switch switches[] = {
    { "stream", WALDO__SWITCH_BOOL, offsetof(waldo__messages_quirks, stream), "" },
    { "output_format", WALDO__SWITCH_BOOL, offsetof(waldo__messages_quirks, output_format), "" },
    { "sampling", WALDO__SWITCH_BOOL, offsetof(waldo__messages_quirks, sampling), "" },
    { "version", WALDO__SWITCH_WORD, offsetof(waldo__messages_quirks, version),
      "2026-10-21\0"
      "2023-06-01\0" },
    { "cache", WALDO__SWITCH_WORD, offsetof(waldo__messages_quirks, cache),
      "none\0"
      "5m\0"
      "1h\0" },
    { "thinking", WALDO__SWITCH_WORD, offsetof(waldo__messages_quirks, thinking),
      "adaptive\0budget\0" },
    { "display", WALDO__SWITCH_WORD, offsetof(waldo__messages_quirks, display),
      "none\0summarized\0omitted\0" },
    { "binding", WALDO__SWITCH_WORD, offsetof(waldo__messages_quirks, binding),
      "none\0error\0drop_block\0" },
    { "auth", WALDO__SWITCH_WORD, offsetof(waldo__messages_quirks, auth), "x-api-key\0bearer\0" },
};

/* Servers of others know the older version, and few of them the caching of prompts. */
static int is_anthropic(waldo_str url)
{
    waldo_str host, port;

    waldo__url_split(url, &host, &port);
    return waldo__str_ieq(host, WALDO__S("api.anthropic.com"));
}

waldo_status waldo__messages_quirks_find(const waldo_model_options *options, waldo_str url,
                                         waldo_str model, waldo__messages_quirks *ret_quirks,
                                         waldo_error **ret_err)
{
    static const waldo__switches known = { switches, WALDO__COUNT(switches), "" };
    int is_theirs = is_anthropic(url);
    waldo__messages_quirks quirks = { .version = is_theirs ? "2026-10-21" : "2023-06-01",
                                      .cache = is_theirs ? "5m" : "none",
                                      .display = "none",
                                      .binding = "none",
                                      .auth = "x-api-key",
                                      .stream = 1 };
    waldo_str rest = waldo__str(options->quirks), part;
    waldo_status status = WALDO_OK;
    size_t row = 0;

    while (!waldo__str_starts(model, models[row].prefix)) {
        row++; /* the last one fits all */
    }
    quirks.thinking = models[row].thinking == ADAPTIVE ? "adaptive" : "budget";
    quirks.output_format = is_theirs && strcmp(quirks.thinking, "adaptive") == 0;
    quirks.sampling = (unsigned char)models[row].sampling;
    quirks.max_tokens = models[row].max_tokens;
    while (status == WALDO_OK && waldo__str_split(&rest, ',', &part)) {
        if (part.len > 0) {
            status = waldo__switch_apply(&known, part, &quirks, ret_err);
        }
    }
    if (status == WALDO_OK) {
        *ret_quirks = quirks;
    }
    return status;
}

waldo_status waldo__messages_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                                   waldo_error **ret_err)
{
    return waldo__model_split_at(
        "anthropic", "anthropic:NAME, such as anthropic:claude-sonnet-5-5, or anthropic:URL#NAME",
        ANTHROPIC_URL, rest, ret_url, ret_model, ret_err);
}

/* A signature is good where it was made, so the host counts. */
waldo_status waldo__messages_vendor(waldo_str url, waldo_str model, waldo__buf *out)
{
    return waldo__model_vendor_at("anthropic", url, model, out);
}

static void auth_of(const waldo_model_options *options, const char **ret_header,
                    const char **ret_prefix)
{
    waldo_str url = WALDO__S(""), model = WALDO__S("");
    waldo__messages_quirks quirks;

    waldo__messages_parse(waldo__model_rest(options), &url, &model, NULL);
    if (waldo__messages_quirks_find(options, url, model, &quirks, NULL) == WALDO_OK &&
        quirks.auth[0] == 'b') {
        *ret_header = "Authorization";
        *ret_prefix = "Bearer ";
    }
}

const waldo_model_ops waldo__messages_ops = {
    .version = WALDO_MODEL_VERSION,
    .size = sizeof(waldo_model_ops),
    .name = "anthropic",
    .about = "anthropic:NAME speaks the Messages API to Anthropic, anthropic:URL#NAME to the "
             "server at URL",
    .key_name = "ANTHROPIC_API_KEY",
    .auth_header = "x-api-key",
    .auth_prefix = "",
    .parse = waldo__messages_parse,
    .new_encoder = waldo__messages_new_encoder,
    .append = waldo__messages_append,
    .request = waldo__messages_request,
    .free_encoder = waldo__messages_free_encoder,
    .new_reader = waldo__messages_new_reader,
    .feed = waldo__messages_feed,
    .complete = waldo__messages_complete,
    .finish = waldo__messages_finish,
    .free_reader = waldo__messages_free_reader,
    .classify = waldo__provider_classify,
    .key_for = waldo__key_for_url,
    .usage = waldo__messages_get_usage,
    .auth = auth_of,
};
