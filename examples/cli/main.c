/* waldo: try the library from a shell. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

const command commands[] = {
    { "run", "[options] PROMPT", "give one prompt to an agent; PROMPT - reads standard input",
      "mswMpaAiejotTcxvC", cmd_run },
    { "chat", "[options]", "talk with an agent", "mswMpaAitTcvC", cmd_chat },
    { "exec", "[options] -- COMMAND...", "run one command in a sandbox and pass its exit code on",
      "swMOEIv", cmd_exec },
    { "doctor", "[options]", "say which models and backends work here, and what is missing", "msv",
      cmd_doctor },
    { NULL, NULL, NULL, NULL, NULL },
};

static void print_help(FILE *to)
{
    fputs("Usage: waldo COMMAND [options] ...\n\nCommands:\n", to);
    for (const command *c = commands; c->name != NULL; c++) {
        fprintf(to, "  %-8s %s\n", c->name, c->about);
    }
    fputs("\n`waldo COMMAND --help` tells the options of a command; `waldo --version` what is in "
          "this "
          "build.\n",
          to);
}

static void print_version(void)
{
    const char *feature;

    printf("waldo %s\n", waldo_version());
    for (size_t i = 0; (feature = waldo_feature_at(i)) != NULL; i++) {
        printf("%s\n", feature);
    }
}

static int run_command(const command *c, int argc, char **argv)
{
    args a = { .rest = NULL };
    int code = args_parse(c, argc, argv, &a);

    if (code >= 0) {
        return code;
    }
    return c->run(&a);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        print_version();
        return EXIT_DONE;
    }
    for (const command *c = commands; c->name != NULL; c++) {
        if (strcmp(argv[1], c->name) == 0) {
            return run_command(c, argc - 1, argv + 1);
        }
    }
    return usage_error("there is no command \"%s\"; see waldo --help", argv[1]);
}
