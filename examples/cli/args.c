/* The option table: parsing, help and shell completion all come from it. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct option_row {
    char letter; /* as in command.options; lower-case ones exist as short options too if shown */
    const char *name;  /* long name */
    const char *value; /* NULL: takes none */
    const char *about;
    int is_short; /* -letter works */
    int (*set)(args *a, const char *value);
} option_row;

int usage_error(const char *format, ...)
{
    va_list list;

    fputs("waldo: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static int add_to_list(const char **list, int max, const char *value, const char *what)
{
    int count = 0;

    while (list[count] != NULL) {
        count++;
    }
    if (count == max) {
        return usage_error("too many %s", what);
    }
    list[count] = value;
    return EXIT_DONE;
}

static int parse_number(const char *value, double low, double high, double *ret)
{
    char *end;

    errno = 0;
    *ret = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !(*ret >= low && *ret <= high)) {
        return usage_error("\"%s\" is not a number from %g to %g", value, low, high);
    }
    return EXIT_DONE;
}

static int parse_count(const char *value, long *ret)
{
    double number;
    int code = parse_number(value, 1, 1000000, &number);

    *ret = code == EXIT_DONE ? (long)number : 0;
    return code;
}

static int parse_word(const char *value, const char *const *words, int *ret)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(value, words[i]) == 0) {
            *ret = i;
            return EXIT_DONE;
        }
    }
    fprintf(stderr, "waldo: \"%s\" is not one of:", value);
    for (int i = 0; words[i] != NULL; i++) {
        fprintf(stderr, " %s", words[i]);
    }
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static int parse_answer(const char *value, answer *ret)
{
    int word = 0,
        code = parse_word(value, (const char *const[]){ "ask", "never", "always", NULL }, &word);

    *ret = (answer)(word + 1);
    return code;
}

static int set_model(args *a, const char *value)
{
    a->model = value;
    return EXIT_DONE;
}

static int set_sandbox(args *a, const char *value)
{
    return add_to_list(a->sandboxes, MAX_SANDBOXES, value, "sandboxes");
}

static int set_env(args *a, const char *value)
{
    if (strchr(value, '=') == NULL || value[0] == '=') {
        return usage_error("--env takes NAME=VALUE, not \"%s\"", value);
    }
    return add_to_list(a->env, MAX_ENV, value, "environment variables");
}

static int set_dir(args *a, const char *value)
{
    a->dir = value;
    return EXIT_DONE;
}

static int set_mode(args *a, const char *value)
{
    int word = 0,
        code = parse_word(value, (const char *const[]){ "copy", "ro", "rw", NULL }, &word);

    a->mode = word;
    return code;
}

static int set_patch(args *a, const char *value)
{
    a->patch = value;
    return EXIT_DONE;
}

static int set_apply(args *a, const char *value)
{
    return parse_answer(value, &a->apply);
}

static int set_approve(args *a, const char *value)
{
    return parse_answer(value, &a->approve);
}

static int set_instructions(args *a, const char *value)
{
    a->instructions = value;
    return EXIT_DONE;
}

static int set_each(args *a, const char *value)
{
    a->each = value;
    return EXIT_DONE;
}

static int set_jobs(args *a, const char *value)
{
    return parse_count(value, &a->jobs);
}

static int set_out(args *a, const char *value)
{
    a->out_dir = value;
    return EXIT_DONE;
}

static int set_max_turns(args *a, const char *value)
{
    return parse_count(value, &a->max_turns);
}

static int set_temperature(args *a, const char *value)
{
    a->has_temperature = 1;
    return parse_number(value, 0, 2, &a->temperature);
}

static int set_tool_choice(args *a, const char *value)
{
    static const char *const words[] = { "auto", "required", "none", NULL };

    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(value, words[i]) == 0) {
            a->tool_choice = i;
            return EXIT_DONE;
        }
    }
    a->tool_choice = WALDO_TOOL_CHOICE_NAMED;
    a->tool_choice_name = value;
    return EXIT_DONE;
}

static int set_timeout(args *a, const char *value)
{
    return parse_number(value, 0.001, 1e6, &a->timeout_s);
}

static int set_json(args *a, const char *value)
{
    (void)value;
    a->json = 1;
    return EXIT_DONE;
}

static int set_verbose(args *a, const char *value)
{
    (void)value;
    a->verbose = 1;
    return EXIT_DONE;
}

static int set_input(args *a, const char *value)
{
    (void)value;
    a->with_input = 1;
    return EXIT_DONE;
}

static int set_color(args *a, const char *value)
{
    int word = 0,
        code = parse_word(value, (const char *const[]){ "auto", "never", "always", NULL }, &word);

    a->color = word == 0 ? ANSWER_DEFAULT : word == 1 ? ANSWER_NEVER : ANSWER_ALWAYS;
    return code;
}

static const option_row rows[] = {
    { 'm', "model", "MODEL", "such as chat:http://127.0.0.1:8080/v1#NAME", 1, set_model },
    { 's', "sandbox", "SANDBOX", "such as local: ; again for one to fall back to", 1, set_sandbox },
    { 'w', "workspace", "DIR", "work on this directory", 1, set_dir },
    { 'M', "mode", "copy|ro|rw", "how the directory goes in; default copy", 0, set_mode },
    { 'p', "patch", "FILE", "save what changed in the copy as a patch", 0, set_patch },
    { 'a', "apply", "ask|never|always",
      "apply the patch to the directory; default: ask on a terminal", 0, set_apply },
    { 'A', "approve", "ask|never|always",
      "ask before calls that change something, never ask, or approve everything; default: ask on a "
      "terminal, else never",
      0, set_approve },
    { 'i', "instructions", "TEXT", "what the agent is for", 0, set_instructions },
    { 'e', "each", "GLOB", "one run for each directory that matches, instead of -w", 0, set_each },
    { 'j', "jobs", "N", "runs at once with --each; default 4", 1, set_jobs },
    { 'o', "out", "DIR", "patches of --each, one file a directory; default .", 0, set_out },
    { 't', "max-turns", "N", "model requests for one prompt; default 50", 0, set_max_turns },
    { 'T', "temperature", "X", "sampling temperature", 0, set_temperature },
    { 'c', "tool-choice", "auto|required|none|TOOL", "how the first request must use tools", 0,
      set_tool_choice },
    { 'O', "timeout", "SECONDS", "end the command after so long; default 120", 0, set_timeout },
    { 'E', "env", "NAME=VALUE", "environment of the command; may be given again", 0, set_env },
    { 'I', "input", NULL, "pass standard input on to the command", 0, set_input },
    { 'x', "json", NULL, "print one event a line as JSON (docs/events.md), and nothing else", 0,
      set_json },
    { 'C', "color", "auto|never|always", "colours on stderr; NO_COLOR is obeyed", 0, set_color },
    { 'v', "verbose", NULL, "log to stderr", 1, set_verbose },
};

enum { ROWS = sizeof rows / sizeof rows[0], LONG_BASE = 256, HELP = LONG_BASE + ROWS };

static int takes(const command *c, const option_row *row)
{
    return strchr(c->options, row->letter) != NULL;
}

void args_help(const command *c, FILE *to)
{
    fprintf(to, "Usage: waldo %s %s\n\n%s\n\nOptions:\n", c->name, c->usage, c->about);
    for (int i = 0; i < ROWS; i++) {
        if (takes(c, &rows[i])) {
            char left[80];

            snprintf(left, sizeof left, "%s%c%s--%s%s%s", rows[i].is_short ? "-" : " ",
                     rows[i].is_short ? rows[i].letter : ' ', rows[i].is_short ? ", " : "  ",
                     rows[i].name, rows[i].value != NULL ? " " : "",
                     rows[i].value != NULL ? rows[i].value : "");
            fprintf(to, "  %-36s %s\n", left, rows[i].about);
        }
    }
}

/* The tables of getopt for one command, from ours. */
static void make_tables(const command *c, struct option *longs, char *shorts)
{
    size_t count = 0;

    *shorts++ = '+'; /* options end at the first word: what follows may be a command of its own */
    for (int i = 0; i < ROWS; i++) {
        if (!takes(c, &rows[i])) {
            continue;
        }
        longs[count++] =
            (struct option){ rows[i].name, rows[i].value != NULL ? required_argument : no_argument,
                             NULL, LONG_BASE + i };
        if (rows[i].is_short) {
            *shorts++ = rows[i].letter;
            if (rows[i].value != NULL) {
                *shorts++ = ':';
            }
        }
    }
    longs[count++] = (struct option){ "help", no_argument, NULL, HELP };
    longs[count] = (struct option){ NULL, 0, NULL, 0 };
    *shorts++ = 'h';
    *shorts = '\0';
}

static const option_row *row_of(int found)
{
    if (found >= LONG_BASE) {
        return &rows[found - LONG_BASE];
    }
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].letter == found) {
            return &rows[i];
        }
    }
    return NULL;
}

int args_parse(const command *c, int argc, char **argv, args *a)
{
    struct option longs[ROWS + 2];
    char shorts[2 * ROWS + 4];
    int found;

    make_tables(c, longs, shorts);
    while ((found = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const option_row *row;
        int code;

        if (found == 'h' || found == HELP) {
            args_help(c, stdout);
            return EXIT_DONE;
        }
        row = row_of(found);
        if (found == '?' || row == NULL) {
            return usage_error("see waldo %s --help", c->name);
        }
        code = row->set(a, optarg);
        if (code != EXIT_DONE) {
            return code;
        }
    }
    a->rest = argv + optind;
    a->rest_count = argc - optind;
    return -1;
}
