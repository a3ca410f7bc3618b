/* What a run says: the answer on stdout, progress on stderr. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { RESULT_LINES = 12, ARGS_SHOWN = 400 };

static int in_line; /* the answer so far does not end with a newline */

int use_color(const args *a)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

    if (a->color == ANSWER_ALWAYS || a->color == ANSWER_NEVER) {
        return a->color == ANSWER_ALWAYS;
    }
    return is_terminal(stderr) && (no_color == NULL || no_color[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

static void put_answer(waldo_str text)
{
    if (text.len == 0) {
        return;
    }
    if (is_terminal(stdout)) {
        put_safe(stdout, text);
        fflush(stdout);
    } else {
        output_write(text);
    }
    in_line = text.ptr[text.len - 1] != '\n';
}

static void end_line(void)
{
    if (in_line) {
        put_answer((waldo_str){ "\n", 1 });
    }
}

static void put_text(const char *text)
{
    put_safe(stderr, (waldo_str){ text, strlen(text) });
}

/* A remark on stderr. Beside others' each of its lines begins with the label. */
static void put_dim(const args *a, const char *label, const char *mark, const char *name,
                    waldo_str text)
{
    const char *begin = use_color(a) ? "\033[2m" : "", *end = use_color(a) ? "\033[0m" : "";

    end_line();
    do {
        const char *newline = label != NULL ? memchr(text.ptr, '\n', text.len) : NULL;
        size_t len = newline != NULL ? (size_t)(newline - text.ptr) : text.len;

        fputs(begin, stderr);
        put_text(label != NULL ? label : "");
        fputs(label != NULL ? ": " : "", stderr);
        fputs(mark, stderr);
        put_text(name);
        fputs(name[0] != '\0' ? " " : "", stderr);
        put_safe(stderr, (waldo_str){ text.ptr, len });
        fprintf(stderr, "%s\n", end);
        len += newline != NULL;
        text = (waldo_str){ text.ptr + len, text.len - len };
    } while (text.len > 0);
}

static void put_call(const args *a, const char *label, const waldo_event *event)
{
    waldo_str text = waldo_event_text(event);

    text.len = text.len < ARGS_SHOWN ? text.len : ARGS_SHOWN;
    put_dim(a, label, "> ", waldo_event_tool(event), text);
}

static void put_result(const args *a, const char *label, const waldo_event *event)
{
    waldo_str text = waldo_event_text(event);
    int lines = RESULT_LINES;
    size_t len = 0;

    while (text.len > 0 && text.ptr[text.len - 1] == '\n') {
        text.len--;
    }
    while (len < text.len && (text.ptr[len] != '\n' || --lines > 0)) {
        len++;
    }
    put_dim(a, label, "  ", "", (waldo_str){ text.ptr, len });
    if (len < text.len) {
        put_dim(a, label, "  ...", "", (waldo_str){ "", 0 });
    }
}

static void put_remark(const args *a, const char *label, const waldo_event *event)
{
    put_dim(a, label, "! ", "", waldo_event_text(event));
}

static void put_detail(const args *a, const char *label, const waldo_event *event)
{
    if (a->verbose) {
        put_dim(a, label, "# ", "", waldo_event_text(event));
    }
}

/* Where commands run is for everyone to know when it is not what was named first. */
static void put_sandbox(const args *a, const char *label, const waldo_event *event)
{
    static const char *const words[] = { "lost: ", "moved: ", "refused: " };
    const char *text = waldo_event_text(event).ptr;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(text, words[i], strlen(words[i])) == 0) {
            put_remark(a, label, event);
            return;
        }
    }
    put_detail(a, label, event);
}

static const struct {
    waldo_event_kind kind;
    void (*put)(const args *a, const char *label, const waldo_event *event);
} remarks[] = {
    { WALDO_EVENT_TOOL_CALL, put_call },   { WALDO_EVENT_TOOL_RESULT, put_result },
    { WALDO_EVENT_RETRY, put_remark },     { WALDO_EVENT_WARNING, put_remark },
    { WALDO_EVENT_REASONING, put_detail }, { WALDO_EVENT_SANDBOX, put_sandbox },
    { WALDO_EVENT_EPOCH, put_detail },
};

/* {"run":LABEL, and the members of json, which begins with a brace */
static void put_json_line(const char *label, waldo_str json)
{
    char *line = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&line, &size);

    if (to == NULL) {
        return;
    }
    if (label != NULL && json.len > 0) {
        fputs("{\"run\":", to);
        put_json_string(to, label);
        fputc(',', to);
        json.ptr++;
        json.len--;
    }
    fwrite(json.ptr, 1, json.len, to);
    fputc('\n', to);
    if (fclose(to) == 0) {
        output_write((waldo_str){ line, size });
    }
    free(line);
}

void show_event(const args *a, const char *label, const waldo_event *event)
{
    waldo_event_kind kind = waldo_event_type(event);

    if (a->json) {
        put_json_line(label, waldo_event_json(event));
        return;
    }
    if (kind == WALDO_EVENT_TEXT && label == NULL) {
        put_answer(waldo_event_text(event));
    }
    for (size_t i = 0; !a->quiet && i < sizeof remarks / sizeof remarks[0]; i++) {
        if (remarks[i].kind == kind) {
            remarks[i].put(a, label, event);
        }
    }
}

static void put_count(FILE *to, int64_t count, const char *what)
{
    if (count >= 0) {
        fprintf(to, "%lld %s", (long long)count, what);
    } else {
        fprintf(to, "unknown %s", what);
    }
}

void show_usage(const args *a, const char *label, const waldo_run *run)
{
    waldo_usage usage;
    char *text = NULL;
    size_t size = 0;
    FILE *to = a->json || a->quiet ? NULL : open_memstream(&text, &size);

    waldo_run_usage(run, &usage);
    if (to == NULL) {
        return;
    }
    put_count(to, usage.input_tokens, "tokens in");
    if (usage.cached_tokens > 0) {
        fputs(" (", to);
        put_count(to, usage.cached_tokens, "cached)");
    }
    fputs(", ", to);
    put_count(to, usage.output_tokens, "out");
    if (usage.cost >= 0) {
        fprintf(to, ", cost %lld.%06lld", (long long)(usage.cost / 1000000),
                (long long)(usage.cost % 1000000));
    }
    fputs(usage.incomplete ? ", and what cut answers used" : "", to);
    if (fclose(to) == 0 && (usage.input_tokens >= 0 || usage.incomplete)) {
        put_dim(a, label, "= ", "", (waldo_str){ text, size });
    }
    free(text);
}

static const struct {
    waldo_status status;
    int code;
} codes[] = {
    { WALDO_OK, EXIT_DONE },
    { WALDO_END, EXIT_DONE },
    { WALDO_PENDING, EXIT_WAITS },
    { WALDO_ELIMIT, EXIT_LIMIT },
    { WALDO_EINVAL, EXIT_USAGE },
    { WALDO_ENOTSUP, EXIT_USAGE },
    { WALDO_EUTF8, EXIT_USAGE },
    { WALDO_EAUTH, EXIT_UNAVAILABLE },
    { WALDO_EQUOTA, EXIT_UNAVAILABLE },
    { WALDO_ERATE, EXIT_UNAVAILABLE },
    { WALDO_EHTTP, EXIT_UNAVAILABLE },
    { WALDO_EPROVIDER, EXIT_UNAVAILABLE },
    { WALDO_ECONNECT, EXIT_UNAVAILABLE },
    { WALDO_ERESOLVE, EXIT_UNAVAILABLE },
    { WALDO_ETLS, EXIT_UNAVAILABLE },
    { WALDO_ETRANSPORT, EXIT_UNAVAILABLE },
    { WALDO_ETIMEDOUT_CONNECT, EXIT_UNAVAILABLE },
    { WALDO_EUNAVAILABLE, EXIT_UNAVAILABLE },
    { WALDO_ESETUP, EXIT_UNAVAILABLE },
    { WALDO_ELOST, EXIT_UNAVAILABLE },
};

int exit_code_of(const waldo_error *error, waldo_status status)
{
    int http_status = waldo_error_http_status(error), code = EXIT_FAILED;

    if (error != NULL) {
        status = waldo_error_status(error);
    }
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].status == status) {
            code = codes[i].code;
        }
    }
    if (http_status == 404) {
        code = EXIT_UNAVAILABLE; /* no such model, or no such service */
    } else if (http_status != 0 && code == EXIT_USAGE) {
        code = EXIT_FAILED; /* it was the server that did not like the request */
    } else if (code == EXIT_FAILED && status != WALDO_ECANCELED &&
               waldo_error_get_class(error) == WALDO_CLASS_USAGE) {
        code = EXIT_USAGE;
    }
    return code;
}

static void put_json_end(const char *label, const waldo_error *error, waldo_status status, int code)
{
    char *json = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&json, &size);

    if (to == NULL) {
        return;
    }
    fprintf(to, "{\"type\":\"end\",\"exit_code\":%d,\"status\":\"%s\",\"http_status\":%d", code,
            waldo_status_name(status), waldo_error_http_status(error));
    fputs(",\"provider_code\":", to);
    put_json_string(to, waldo_error_provider_code(error));
    fputs(",\"request_id\":", to);
    put_json_string(to, waldo_error_request_id(error));
    fputs(",\"message\":", to);
    put_json_string(to, waldo_error_message(error));
    fputc('}', to);
    if (fclose(to) == 0) {
        put_json_line(label, (waldo_str){ json, size });
    }
    free(json);
}

int show_end(const args *a, const char *label, const waldo_error *error, waldo_status status)
{
    int code = exit_code_of(error, status);

    status = error != NULL ? waldo_error_status(error) : status;
    if (was_interrupted()) {
        code = EXIT_INTERRUPTED;
    }
    end_line();
    if (a->json) {
        put_json_end(label, error, status, code);
    }
    if (status == WALDO_PENDING) {
        complain("%s%sa call waits for approval, and nobody can be asked here; see --approve",
                 label != NULL ? label : "", label != NULL ? ": " : "");
    } else if (code != EXIT_DONE && code != EXIT_INTERRUPTED && output_error() == 0) {
        complain("%s%s%s", label != NULL ? label : "", label != NULL ? ": " : "",
                 error != NULL ? waldo_error_message(error) : waldo_status_text(status));
    }
    return code;
}
