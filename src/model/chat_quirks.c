/* How the servers that speak Chat Completions differ: one row each, switches to overrule it. */
#include "base/alloc.h"
#include "model/chat.h"

static const waldo__chat_quirks rows[] = {
    /* The first row is for servers that are not known: what most of them accept. */
    { .server = "generic",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
    /* Its newer models refuse max_tokens. */
    { .server = "openai",
      .max_tokens = "max_completion_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .stream_options = 1,
      .no_obfuscation = 1,
      .tool_choice = 1,
      .parallel = 1,
      .null_content = 1 },
    /* Parses arguments of the history (tools/server); its templates want strict alternation. */
    { .server = "llama.cpp",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
    /* Its request struct (openai/openai.go) has neither tool_choice nor parallel_tool_calls. */
    { .server = "ollama",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .stream_options = 1,
      .valid_args = 1,
      .merge = 1 },
    { .server = "vllm",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .merge = 1 },
    /*
     * In thinking mode every assistant message must carry reasoning_content, "" when there is none.
     */
    { .server = "deepseek",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "reasoning_content",
      .stream = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1 },
    /* Refuses unknown members, other ids, a user behind a result, an assistant at the end. */
    { .server = "mistral",
      .max_tokens = "max_tokens",
      .seed = "random_seed",
      .required = "any",
      .reasoning_field = "none",
      .stream = 1,
      .tool_choice = 1,
      .parallel = 1,
      .valid_args = 1,
      .short_ids = 1,
      .tool_name = 1,
      .merge = 1,
      .assistant_between = 1,
      .prefix = 1 },
    { .server = "gemini",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
      .stream_options = 1,
      .tool_choice = 1,
      .valid_args = 1,
      .merge = 1 },
    { .server = "groq",
      .max_tokens = "max_tokens",
      .seed = "seed",
      .required = "required",
      .reasoning_field = "none",
      .stream = 1,
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
    { "generativelanguage.googleapis.com", NULL, "gemini", "GEMINI_API_KEY" },
    { "api.groq.com", NULL, "groq", "GROQ_API_KEY" },
    { NULL, "11434", "ollama", NULL },
    { "", "8080", "llama.cpp", NULL },
    { "", "8000", "vllm", NULL },
};

typedef enum switch_type { SWITCH_BOOL, SWITCH_WORD } switch_type;

static const struct {
    const char *name;
    switch_type type;
    size_t offset;
    const char *words[4]; /* allowed, for SWITCH_WORD */
} switches[] = {
    { "max_tokens",
      SWITCH_WORD,
      offsetof(waldo__chat_quirks, max_tokens),
      { "max_tokens", "max_completion_tokens" } },
    { "seed", SWITCH_WORD, offsetof(waldo__chat_quirks, seed), { "seed", "random_seed" } },
    { "required", SWITCH_WORD, offsetof(waldo__chat_quirks, required), { "required", "any" } },
    { "reasoning_field",
      SWITCH_WORD,
      offsetof(waldo__chat_quirks, reasoning_field),
      { "none", "reasoning_content", "reasoning" } },
    { "stream", SWITCH_BOOL, offsetof(waldo__chat_quirks, stream), { 0 } },
    { "stream_options", SWITCH_BOOL, offsetof(waldo__chat_quirks, stream_options), { 0 } },
    { "no_obfuscation", SWITCH_BOOL, offsetof(waldo__chat_quirks, no_obfuscation), { 0 } },
    { "tool_choice", SWITCH_BOOL, offsetof(waldo__chat_quirks, tool_choice), { 0 } },
    { "parallel", SWITCH_BOOL, offsetof(waldo__chat_quirks, parallel), { 0 } },
    { "null_content", SWITCH_BOOL, offsetof(waldo__chat_quirks, null_content), { 0 } },
    { "valid_args", SWITCH_BOOL, offsetof(waldo__chat_quirks, valid_args), { 0 } },
    { "short_ids", SWITCH_BOOL, offsetof(waldo__chat_quirks, short_ids), { 0 } },
    { "tool_name", SWITCH_BOOL, offsetof(waldo__chat_quirks, tool_name), { 0 } },
    { "merge", SWITCH_BOOL, offsetof(waldo__chat_quirks, merge), { 0 } },
    { "assistant_between", SWITCH_BOOL, offsetof(waldo__chat_quirks, assistant_between), { 0 } },
    { "prefix", SWITCH_BOOL, offsetof(waldo__chat_quirks, prefix), { 0 } },
};

/* Host and port of a URL that waldo__chat_parse() accepted; an IPv6 address keeps its brackets. */
static void split_url(waldo_str url, waldo_str *ret_host, waldo_str *ret_port)
{
    size_t start = waldo__str_search(url, WALDO__S("://"), 0) + 3, end, colon;
    waldo_str rest =
        start < url.len ? waldo__strn(url.ptr + start, url.len - start) : waldo__str("");

    rest.len = waldo__str_find(rest, '/');
    end = rest.len > 0 && rest.ptr[0] == '[' ? waldo__str_find(rest, ']') : 0;
    colon = end + waldo__str_find(waldo__strn(rest.ptr + end, rest.len - end), ':');
    *ret_host = waldo__strn(rest.ptr, colon);
    *ret_port =
        colon < rest.len ? waldo__strn(rest.ptr + colon + 1, rest.len - colon - 1) : waldo__str("");
}

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
               waldo__str_ieq(waldo__strn(host.ptr + host.len - len, len), waldo__str(wanted));
    }
    return waldo__str_ieq(host, waldo__str(wanted));
}

static const char *server_of(waldo_str url)
{
    waldo_str host, port;

    split_url(url, &host, &port);
    for (size_t i = 0; i < WALDO__COUNT(hosts); i++) {
        if (host_matches(i, host, port)) {
            return hosts[i].server;
        }
    }
    return rows[0].server;
}

const char *waldo__chat_key_for(waldo_str url)
{
    waldo_str host, port;

    split_url(url, &host, &port);
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

static waldo_status refuse_switch(waldo_str part, const char *what, waldo__buf *known,
                                  waldo_error **ret_err)
{
    waldo_status status = waldo_error_set(
        ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE, "model quirks: \"%.*s\" %s; known: %s",
        (int)(part.len < 100 ? part.len : 100), part.ptr, what, waldo__buf_str(known).ptr);

    waldo__buf_free(known);
    return status;
}

static waldo_status refuse_server(waldo_str part, waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);

    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo__buf_printf(&known, "%s%s", i > 0 ? ", " : "", rows[i].server);
    }
    return refuse_switch(part, "is not a server that is known", &known, ret_err);
}

static waldo_status refuse_name(waldo_str part, waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);

    waldo__buf_puts(&known, "server");
    for (size_t i = 0; i < WALDO__COUNT(switches); i++) {
        waldo__buf_printf(&known, ", %s", switches[i].name);
    }
    return refuse_switch(part, "is not a quirk, written as name=value", &known, ret_err);
}

static waldo_status refuse_value(waldo_str part, size_t at, waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);

    if (switches[at].type == SWITCH_BOOL) {
        waldo__buf_puts(&known, "on, off");
    }
    for (size_t i = 0; i < WALDO__COUNT(switches[at].words) && switches[at].words[i] != NULL; i++) {
        waldo__buf_printf(&known, "%s%s", i > 0 ? ", " : "", switches[at].words[i]);
    }
    return refuse_switch(part, "has a value that is not known", &known, ret_err);
}

static int parse_bool(waldo_str value, unsigned char *ret_value)
{
    static const char *const words[] = { "off", "on", "0", "1", "false", "true", "no", "yes" };

    for (size_t i = 0; i < WALDO__COUNT(words); i++) {
        if (waldo__str_is(value, words[i])) {
            *ret_value = i % 2;
            return 1;
        }
    }
    return 0;
}

/* One "name=value" behind the row was found. */
static waldo_status apply_switch(waldo_str part, waldo__chat_quirks *quirks, waldo_error **ret_err)
{
    size_t equals = waldo__str_find(part, '=');
    waldo_str name = waldo__strn(part.ptr, equals);
    waldo_str value = waldo__strn(part.ptr + equals, 0);

    if (equals < part.len) {
        value = waldo__strn(part.ptr + equals + 1, part.len - equals - 1);
    }
    for (size_t i = 0; i < WALDO__COUNT(switches) && equals < part.len; i++) {
        char *member = (char *)quirks + switches[i].offset;

        if (!waldo__str_is(name, switches[i].name)) {
            continue;
        }
        if (switches[i].type == SWITCH_BOOL) {
            return parse_bool(value, (unsigned char *)member) ? WALDO_OK
                                                              : refuse_value(part, i, ret_err);
        }
        for (size_t j = 0; j < WALDO__COUNT(switches[i].words); j++) {
            if (switches[i].words[j] != NULL && waldo__str_is(value, switches[i].words[j])) {
                *(const char **)(void *)member = switches[i].words[j];
                return WALDO_OK;
            }
        }
        return refuse_value(part, i, ret_err);
    }
    return refuse_name(part, ret_err);
}

waldo_status waldo__chat_quirks_find(const waldo_model_options *options, waldo_str url,
                                     waldo__chat_quirks *ret_quirks, waldo_error **ret_err)
{
    const waldo__chat_quirks *row = find_row(waldo__str(server_of(url)));
    waldo_str text = waldo__str(options != NULL ? options->quirks : NULL), rest, part;
    waldo__chat_quirks quirks;

    for (rest = text; waldo__str_split(&rest, ',', &part);) {
        if (waldo__str_starts(part, "server=")) {
            row = find_row(waldo__strn(part.ptr + 7, part.len - 7));
            if (row == NULL) {
                return refuse_server(part, ret_err);
            }
        }
    }
    quirks = *row;
    for (rest = text; waldo__str_split(&rest, ',', &part);) {
        waldo_status status = WALDO_OK;

        if (part.len > 0 && !waldo__str_starts(part, "server=")) {
            status = apply_switch(part, &quirks, ret_err);
        }
        if (status != WALDO_OK) {
            return status;
        }
    }
    *ret_quirks = quirks;
    return WALDO_OK;
}
