/* The option table: parsing, help and shell completion all come from it. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct option_row {
    char letter;   /* as in command.options */
    char is_short; /* -letter works too */
    const char *name;
    const char *value; /* NULL: takes none */
    const char *about;
    int (*set)(args *a, const char *value);
} option_row;

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
    char *end;

    errno = 0;
    *ret = strtol(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || *ret < 1 || *ret > 1000000) {
        return usage_error("\"%s\" is not a whole number from 1 to 1000000", value);
    }
    return EXIT_DONE;
}

/* words: such as "copy|ro|rw"; the index of the one that value is */
static int parse_word(const char *value, const char *words, int *ret)
{
    size_t len = strlen(value);

    *ret = 0;
    for (const char *at = words; *at != '\0'; at += strspn(at, "|")) {
        size_t size = strcspn(at, "|");

        if (size == len && memcmp(at, value, len) == 0) {
            return EXIT_DONE;
        }
        at += size;
        ++*ret;
    }
    return usage_error("\"%s\" is not one of %s", value, words);
}

static const char answers[] = "ask|never|always";

static int parse_answer(const char *value, answer *ret)
{
    int word, code = parse_word(value, answers, &word);

    *ret = (answer)(ANSWER_ASK + word);
    return code;
}

static int set_model(args *a, const char *value)
{
    if (a->model != NULL) {
        return add_to_list(a->fallbacks, MAX_MODELS, value, "models");
    }
    a->model = value;
    return EXIT_DONE;
}

static int set_key(args *a, const char *value)
{
    a->key = value;
    return EXIT_DONE;
}

static int set_plain_http(args *a, const char *value)
{
    (void)value;
    a->plain_http = 1;
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

static const char modes[] = "copy|ro|rw"; /* as waldo_workspace_mode */

static int set_mode(args *a, const char *value)
{
    return parse_word(value, modes, &a->mode);
}

static int set_patch(args *a, const char *value)
{
    a->patch = value;
    return EXIT_DONE;
}

static int set_record(args *a, const char *value)
{
    a->record = value;
    return EXIT_DONE;
}

static int set_image(args *a, const char *value)
{
    return add_to_list(a->images, MAX_IMAGES, value, "images");
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

static int set_max_output(args *a, const char *value)
{
    return parse_count(value, &a->max_output);
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

static int set_max_time(args *a, const char *value)
{
    return parse_number(value, 0.001, 1e6, &a->max_time_s);
}

static int set_max_cost(args *a, const char *value)
{
    return parse_number(value, 0.000001, 1e6, &a->max_cost);
}

static int set_facts(args *a, const char *value)
{
    a->facts = value;
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

static int set_tty(args *a, const char *value)
{
    (void)value;
    a->tty = a->with_input = 1;
    return EXIT_DONE;
}

static int set_all(args *a, const char *value)
{
    (void)value;
    a->all = 1;
    return EXIT_DONE;
}

static int set_dry_run(args *a, const char *value)
{
    (void)value;
    a->dry_run = 1;
    return EXIT_DONE;
}

static int set_quiet(args *a, const char *value)
{
    (void)value;
    a->quiet = 1;
    return EXIT_DONE;
}

static const char colors[] = "auto|never|always";

static int set_color(args *a, const char *value)
{
    int word, code = parse_word(value, colors, &word);

    a->color = word == 0 ? ANSWER_DEFAULT : word == 1 ? ANSWER_NEVER : ANSWER_ALWAYS;
    return code;
}

static const option_row rows[] = {
    { 'm', 1, "model", "MODEL",
      "such as openai:NAME, anthropic:NAME or chat:URL#NAME; once more: one to fall back to",
      set_model },
    { 'k', 0, "key", "NAME", "variable with the server's key, when it is not a known vendor's",
      set_key },
    { 'H', 0, "allow-plain-http", NULL,
      "let others read requests and keys on the way to an http:// server elsewhere",
      set_plain_http },
    { 's', 1, "sandbox", "SANDBOX", "such as local: ; once more: one to fall back to",
      set_sandbox },
    { 'w', 1, "workspace", "DIR", "the directory to work on", set_dir },
    { 'M', 0, "mode", modes, "how the directory goes in; default copy", set_mode },
    { 'p', 0, "patch", "FILE", "save what changed in the copy as a patch", set_patch },
    { 'g', 0, "image", "FILE", "an image for the model, behind the prompt; may be given again",
      set_image },
    { 'a', 0, "apply", answers, "apply the patch to the directory; default ask on a terminal",
      set_apply },
    { 'A', 0, "approve", answers,
      "ask before changes (default on a terminal), never ask, or approve all calls", set_approve },
    { 'I', 0, "instructions", "TEXT", "what the agent is for", set_instructions },
    { 'e', 0, "each", "GLOB", "one run for each directory that matches, instead of -w", set_each },
    { 'j', 1, "jobs", "N", "runs at once with --each; default 4", set_jobs },
    { 'o', 0, "out", "DIR", "where --each puts its patches, one a directory; default .", set_out },
    { 'N', 0, "max-turns", "N", "model requests for one prompt; default 50", set_max_turns },
    { 'L', 0, "max-time", "SECONDS", "wall clock for one prompt; default: no limit", set_max_time },
    { 'b', 0, "max-cost", "X", "what the whole run may cost in dollars, such as 0.50; see --facts",
      set_max_cost },
    { 'f', 0, "facts", "FILE", "sizes and prices of models, as JSON, for the built-in ones",
      set_facts },
    { 'R', 0, "record", "FILE",
      "write what goes to and from the model; -m replay:FILE reads it again", set_record },
    { 'u', 0, "max-output", "TOKENS", "what one answer may be at most; default: the server's",
      set_max_output },
    { 'T', 0, "temperature", "X", "sampling temperature", set_temperature },
    { 'c', 0, "tool-choice", "auto|required|none|TOOL", "how the first request must use tools",
      set_tool_choice },
    { 'O', 0, "timeout", "SECONDS", "end the command after so long; default: no limit",
      set_timeout },
    { 'E', 0, "env", "NAME=VALUE", "for every command; may be given again", set_env },
    { 'i', 1, "input", NULL, "pass standard input on to the command", set_input },
    { 't', 1, "tty", NULL, "run the command on a terminal, connected to this one", set_tty },
    { 'l', 0, "all", NULL, "those of other users and machines, too", set_all },
    { 'n', 1, "dry-run", NULL, "only say what would be ended", set_dry_run },
    { 'x', 0, "json", NULL, "print one object (event, sandbox) a line as JSON and nothing else",
      set_json },
    { 'C', 0, "color", colors, "colours on stderr; NO_COLOR is obeyed", set_color },
    { 'q', 1, "quiet", NULL, "no progress on stderr", set_quiet },
    { 'v', 1, "verbose", NULL, "log to stderr", set_verbose },
};

enum { ROWS = sizeof rows / sizeof rows[0], LONG_BASE = 256, HELP = LONG_BASE + ROWS };

static int takes(const command *c, const option_row *row)
{
    return strchr(c->options, row->letter) != NULL;
}

int option_at(const command *c, int index, option_info *ret)
{
    for (int i = 0; i < ROWS; i++) {
        if (takes(c, &rows[i]) && index-- == 0) {
            *ret = (option_info){ rows[i].is_short ? rows[i].letter : '\0', rows[i].name,
                                  rows[i].value, rows[i].about };
            return 1;
        }
    }
    if (index == 0) {
        *ret = (option_info){ 'h', "help", NULL, "show this help" };
    }
    return index == 0;
}

void args_help(const command *c)
{
    option_info option;

    printf("Usage: waldo %s %s\n\n%s\n\nOptions:\n", c->name, c->usage, c->about);
    for (int i = 0; option_at(c, i, &option); i++) {
        const char *value = option.value != NULL ? option.value : "";
        int width = 4 + printf("  %c%c%c --%s %s", option.letter != '\0' ? '-' : ' ',
                               option.letter != '\0' ? option.letter : ' ',
                               option.letter != '\0' ? ',' : ' ', option.name, value);

        printf("%*s%s\n", width < 39 ? 40 - width : 2, "", option.about);
    }
}

/* The tables of getopt for one command, from ours. */
static void make_tables(const command *c, struct option *longs, char *shorts)
{
    size_t count = 0;

    if (c->run == cmd_exec) {
        *shorts++ = '+'; /* options end at the first word: the rest is a command of its own */
    }
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
    if (found >= LONG_BASE && found < HELP) {
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
    argv[0] = (char *)"waldo"; /* what getopt's own messages begin with */
    while ((found = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const option_row *row = row_of(found);

        if (found == 'h' || found == HELP) {
            args_help(c);
            return EXIT_DONE;
        }
        if (found == '?' || row == NULL) {
            usage_error("see waldo %s --help", c->name);
            return c->usage_code;
        }
        if (row->set(a, optarg) != EXIT_DONE) {
            return c->usage_code;
        }
    }
    a->rest = argv + optind;
    a->rest_count = argc - optind;
    return -1;
}
