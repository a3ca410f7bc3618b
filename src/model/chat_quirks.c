/* How the servers that speak Chat Completions differ: one row each, switches to overrule it. */
#include "base/alloc.h"
#include "model/chat.h"

static const waldo__chat_quirks rows[] = {
    /* The first row is for servers that are not known: what most of them accept. */
    { .server = "generic",
      .output_format = "none",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
    /* Its newer models refuse max_tokens. */
    { .server = "openai",
      .output_format = "json_schema",
      .max_tokens = "max_completion_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .no_obfuscation = 1,
      .tool_choice = 1,
      .parallel = 1,
      .null_content = 1 },
    /* Parses arguments of the history (tools/server); its templates want strict alternation. */
    { .server = "llama.cpp",
      .output_format = "json_schema",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
    /* Its request struct (openai/openai.go) has neither tool_choice nor parallel_tool_calls. */
    { .server = "ollama",
      .output_format = "json_schema",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .valid_args = 1,
      .merge = 1 },
    { .server = "vllm",
      .output_format = "json_schema",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
    /*
     * In thinking mode every assistant message must carry reasoning_content, "" when there is none.
     */
    { .server = "deepseek",
      .output_format = "json_object",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "reasoning_content",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1 },
    /* Refuses unknown members, other ids, a user behind a result, an assistant at the end. */
    { .server = "mistral",
      .output_format = "json_schema",
      .max_tokens = "max_tokens",
      .seed = "random_seed",
      .required = "any",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .short_ids = 1,
      .tool_name = 1,
      .merge = 1,
      .assistant_between = 1,
      .prefix = 1 },
    { .server = "gemini",
      .output_format = "json_schema",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .valid_args = 1,
      .merge = 1 },
    { .server = "groq",
      .output_format = "json_schema",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .images = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
};

/* Which row a URL belongs to. A host that begins with a dot stands for all hosts below it. */
static const struct {
    const char *host; /* NULL: any; "": this machine */
    const char *port; /* NULL: any */
    const char *server;
    const char *key_name; /* only ever sent to this host, over TLS */
} hosts[] = {
    { "api.openai.com", NULL, "openai", "OPENAI_API_KEY" },
    { "api.deepseek.com", NULL, "deepseek", "DEEPSEEK_API_KEY" },
    { "api.mistral.ai", NULL, "mistral", "MISTRAL_API_KEY" },
    { ".mistral.ai", NULL, "mistral", NULL },
    { ".api.openai.com", NULL, "openai", "OPENAI_API_KEY" }, /* where data must stay in a region */
    { "generativelanguage.googleapis.com", NULL, "gemini", "GEMINI_API_KEY" },
    { "api.groq.com", NULL, "groq", "GROQ_API_KEY" },
    { "api.anthropic.com", NULL, "generic", "ANTHROPIC_API_KEY" },
    { NULL, "11434", "ollama", NULL },
    { "", "8080", "llama.cpp", NULL },
    { "", "8000", "vllm", NULL },
};

static const waldo__switch switches[] = {
    { "max_tokens", WALDO__SWITCH_WORD, offsetof(waldo__chat_quirks, max_tokens),
      "max_tokens\0max_completion_tokens\0" },
    { "seed", WALDO__SWITCH_WORD, offsetof(waldo__chat_quirks, seed), "seed\0random_seed\0" },
    { "required", WALDO__SWITCH_WORD, offsetof(waldo__chat_quirks, required), "required\0any\0" },
    { "reasoning_field", WALDO__SWITCH_WORD, offsetof(waldo__chat_quirks, reasoning_field),
      "none\0reasoning_content\0reasoning\0" },
    { "output_format", WALDO__SWITCH_WORD, offsetof(waldo__chat_quirks, output_format),
      "json_schema\0json_object\0none\0" },
    { "stream", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, stream), "" },
    { "stream_options", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, stream_options), "" },
    { "no_obfuscation", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, no_obfuscation), "" },
    { "tool_choice", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, tool_choice), "" },
    { "parallel", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, parallel), "" },
    { "null_content", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, null_content), "" },
    { "valid_args", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, valid_args), "" },
    { "short_ids", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, short_ids), "" },
    { "tool_name", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, tool_name), "" },
    { "merge", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, merge), "" },
    { "assistant_between", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, assistant_between),
      "" },
    { "images", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, images), "" },
    { "prefix", WALDO__SWITCH_BOOL, offsetof(waldo__chat_quirks, prefix), "" },
};

static const waldo__switches known_switches = { switches, WALDO__COUNT(switches), "server, " };

static int is_this_machine(waldo_str host)
{
    return waldo__str_ieq(host, WALDO__S("localhost")) || waldo__str_starts(host, "127.") ||
           waldo__str_is(host, "[::1]");
}

static int host_matches(size_t row, waldo_str host, waldo_str port)
{
    const char *wanted = hosts[row].host;
    size_t len = wanted != NULL ? strlen(wanted) : 0;

    if (hosts[row].port != NULL && !waldo__str_is(port, hosts[row].port)) {
        return 0;
    }
    if (wanted == NULL) {
        return 1;
    }
    if (len == 0) {
        return is_this_machine(host);
    }
    if (wanted[0] == '.') {
        return host.len > len &&
               waldo__str_ieq(waldo__slice(host.ptr + host.len - len, len), waldo__str(wanted));
    }
    return waldo__str_ieq(host, waldo__str(wanted));
}

static const char *server_of(waldo_str url)
{
    waldo_str host, port;

    waldo__url_split(url, &host, &port);
    for (size_t i = 0; i < WALDO__COUNT(hosts); i++) {
        if (host_matches(i, host, port)) {
            return hosts[i].server;
        }
    }
    return rows[0].server;
}

const char *waldo__key_for_url(waldo_str url)
{
    waldo_str host, port;

    waldo__url_split(url, &host, &port);
    if (!waldo__str_starts(url, "https://") || (port.len > 0 && !waldo__str_is(port, "443"))) {
        return NULL;
    }
    for (size_t i = 0; i < WALDO__COUNT(hosts); i++) {
        if (hosts[i].key_name != NULL && host_matches(i, host, port)) {
            return hosts[i].key_name;
        }
    }
    return NULL;
}

static const waldo__chat_quirks *find_row(waldo_str server)
{
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        if (waldo__str_is(server, rows[i].server)) {
            return &rows[i];
        }
    }
    return NULL;
}

static waldo_status refuse_server(waldo_str part, waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);

    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo__buf_printf(&known, "%s%s", i > 0 ? ", " : "", rows[i].server);
    }
    return waldo__switch_refuse(part, "is not a server that is known", &known, ret_err);
}

waldo_status waldo__chat_quirks_find(const waldo_model_options *options, waldo_str url,
                                     waldo__chat_quirks *ret_quirks, waldo_error **ret_err)
{
    const waldo__chat_quirks *row = find_row(waldo__str(server_of(url)));
    waldo_str text = waldo__str(options != NULL ? options->quirks : NULL), rest, part;
    waldo__chat_quirks quirks;

    for (rest = text; waldo__str_split(&rest, ',', &part);) {
        if (waldo__str_starts(part, "server=")) {
            row = find_row(waldo__slice(part.ptr + 7, part.len - 7));
            if (row == NULL) {
                return refuse_server(part, ret_err);
            }
        }
    }
    quirks = *row;
    for (rest = text; waldo__str_split(&rest, ',', &part);) {
        waldo_status status = WALDO_OK;

        if (part.len > 0 && !waldo__str_starts(part, "server=")) {
            status = waldo__switch_apply(&known_switches, part, &quirks, ret_err);
        }
        if (status != WALDO_OK) {
            return status;
        }
    }
    *ret_quirks = quirks;
    return WALDO_OK;
}
