/* What a run says: the answer on stdout, progress on stderr. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { RESULT_LINES = 12, ARGS_SHOWN = 400 };

int use_color(const args *a, FILE *to)
{
    const char *no_color = getenv("NO_COLOR");

    if (a->color == ANSWER_ALWAYS || a->color == ANSWER_NEVER) {
        return a->color == ANSWER_ALWAYS;
    }
    return isatty(fileno(to)) && (no_color == NULL || no_color[0] == '\0');
}

/*
 * Text from a model or a command must not drive the terminal: control bytes other than newline and
 * tab are shown as '?'.
 */
static void put_safe(FILE *to, waldo_str text)
{
    int terminal = isatty(fileno(to));

    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];

        if (terminal && ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f)) {
            byte = '?';
        }
        fputc(byte, to);
    }
}

static void put_dim(const args *a, const char *mark, waldo_str text)
{
    int color = use_color(a, stderr);

    fputs(color ? "\033[2m" : "", stderr);
    fputs(mark, stderr);
    put_safe(stderr, text);
    fputs(color ? "\033[0m\n" : "\n", stderr);
}

static waldo_str first_lines(waldo_str text, int lines)
{
    size_t len = 0;

    while (len < text.len && (text.ptr[len] != '\n' || --lines > 0)) {
        len++;
    }
    return (waldo_str){ text.ptr, len };
}

static void show_call(const args *a, const waldo_event *event)
{
    waldo_str text = waldo_event_text(event);
    char mark[160];

    snprintf(mark, sizeof mark, "> %s ", waldo_event_tool(event));
    text.len = text.len < ARGS_SHOWN ? text.len : ARGS_SHOWN;
    put_dim(a, mark, text);
}

void show_event(const args *a, const waldo_event *event)
{
    waldo_str text = waldo_event_text(event);

    if (a->json) {
        text = waldo_event_json(event);
        fwrite(text.ptr, 1, text.len, stdout);
        fputc('\n', stdout);
        fflush(stdout);
        return;
    }
    switch (waldo_event_type(event)) {
    case WALDO_EVENT_TEXT:
        put_safe(stdout, text);
        fflush(stdout);
        break;
    case WALDO_EVENT_TOOL_CALL:
        show_call(a, event);
        break;
    case WALDO_EVENT_TOOL_RESULT:
        put_dim(a, "  ", first_lines(text, RESULT_LINES));
        break;
    case WALDO_EVENT_RETRY:
    case WALDO_EVENT_WARNING:
        put_dim(a, "! ", text);
        break;
    case WALDO_EVENT_SANDBOX:
        if (a->verbose) {
            put_dim(a, "# ", text);
        }
        break;
    default:
        break;
    }
}

void show_end_of_turn(const args *a)
{
    if (!a->json) {
        fputc('\n', stdout);
        fflush(stdout);
    }
}

static const struct {
    waldo_status status;
    int code;
} codes[] = {
    { WALDO_OK, EXIT_DONE },
    { WALDO_END, EXIT_DONE },
    { WALDO_PENDING, EXIT_WAITS },
    { WALDO_ELIMIT, EXIT_LIMIT },
    { WALDO_ECANCELED, EXIT_INTERRUPTED },
    { WALDO_EINVAL, EXIT_USAGE },
    { WALDO_ENOTSUP, EXIT_USAGE },
    { WALDO_EUTF8, EXIT_USAGE },
    { WALDO_EAUTH, EXIT_UNAVAILABLE },
    { WALDO_EQUOTA, EXIT_UNAVAILABLE },
    { WALDO_ERATE, EXIT_UNAVAILABLE },
    { WALDO_ECONNECT, EXIT_UNAVAILABLE },
    { WALDO_ERESOLVE, EXIT_UNAVAILABLE },
    { WALDO_ETLS, EXIT_UNAVAILABLE },
    { WALDO_ETIMEDOUT_CONNECT, EXIT_UNAVAILABLE },
    { WALDO_EUNAVAILABLE, EXIT_UNAVAILABLE },
    { WALDO_ESETUP, EXIT_UNAVAILABLE },
};

int exit_code_of(waldo_status status)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].status == status) {
            return codes[i].code;
        }
    }
    return EXIT_FAILED;
}

int fail_with(const char *what, const waldo_error *error, waldo_status status)
{
    fprintf(stderr, "waldo: %s%s%s\n", what, what[0] != '\0' ? ": " : "",
            error != NULL ? waldo_error_message(error) : waldo_status_text(status));
    return exit_code_of(error != NULL ? waldo_error_status(error) : status);
}
