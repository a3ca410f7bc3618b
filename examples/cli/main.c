/* waldo: try the library from a shell. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

const command commands[] = {
    { "run", "[options] [--] PROMPT", "give one prompt to an agent; PROMPT - reads standard input",
      "mkHswMpagAIejoNLbfRuTcExCqv", EXIT_USAGE, cmd_run },
    { "chat", "[options]", "talk with an agent, a line a turn", "mkHswMpaAINLbfRuTEcxCqv",
      EXIT_USAGE, cmd_chat },
    { "exec", "[options] [--] COMMAND [ARG]...",
      "run one command in a sandbox and pass its exit code on", "swMOEitv", EXIT_EXEC_FAILED,
      cmd_exec },
    { "cp", "[options] FROM TO", "copy files and folders: one of the two is @NAME:PATH, or :PATH",
      "swv", EXIT_USAGE, cmd_cp },
    { "ps", "[options]", "list the sandboxes that exist beyond this process", "xlv", EXIT_USAGE,
      cmd_ps },
    { "gc", "[options] [@NAME|ID]...",
      "end sandboxes left over by processes that are gone, or those named", "nv", EXIT_USAGE,
      cmd_gc },
    { "doctor", "[options]", "say which models and sandboxes work here, and what is missing",
      "mkHsfv", EXIT_USAGE, cmd_doctor },
    { NULL, NULL, NULL, NULL, 0, NULL },
};

static const char more_help[] =
    "\n"
    "waldo COMMAND --help   the options of a command\n"
    "waldo --version        what this build holds\n"
    "man waldo              all of it\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use, 3 a limit was reached, 4 a call waits for "
    "approval,\n"
    "5 model or sandbox unavailable, 130 interrupted. exec passes on its command's; its own are "
    "124\n"
    "timed out, 125 a failure of waldo, 127 the command could not be started.\n"
    "\n"
    "Example: waldo run -s local: -w . --patch fix.diff \"make the failing test pass\"\n";

static void print_help(FILE *to)
{
    fputs("Usage: waldo COMMAND [options] ...\n\nCommands:\n", to);
    for (const command *c = commands; c->name != NULL; c++) {
        fprintf(to, "  %-8s %s\n", c->name, c->about);
    }
    fputs(more_help, to);
}

static void print_version(void)
{
    const char *feature;

    printf("waldo %s\n", waldo_version());
    for (size_t i = 0; (feature = waldo_feature_at(i)) != NULL; i++) {
        printf("  %s\n", feature);
    }
}

static const command *find_command(const char *name)
{
    for (const command *c = commands; c->name != NULL; c++) {
        if (strcmp(name, c->name) == 0) {
            return c;
        }
    }
    return NULL;
}

static int run_command(const command *c, int argc, char **argv)
{
    args a = { .rest = NULL };
    int code = args_parse(c, argc, argv, &a);

    if (code < 0) {
        code = c->run(&a);
    }
    return output_finish(code, c->usage_code == EXIT_USAGE ? EXIT_FAILED : c->usage_code);
}

/* `waldo help [COMMAND]` */
static int help_command(const char *name)
{
    const command *c = name != NULL ? find_command(name) : NULL;

    if (name != NULL && c == NULL) {
        return usage_error("there is no command \"%s\"; see waldo --help", name);
    }
    if (c != NULL) {
        args_help(c);
    } else {
        print_help(stdout);
    }
    return output_finish(EXIT_DONE, EXIT_FAILED);
}

/* What is opened later must not become descriptor 0, 1 or 2. A write to a closed pipe must be an
 * error, not the end: what runs elsewhere has to be ended first. */
static int prepare_process(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0) {
            return 0;
        }
    } while (fd <= STDERR_FILENO);
    close(fd);
    return signal(SIGPIPE, SIG_IGN) != SIG_ERR;
}

int main(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : "";
    const command *c = find_command(first);

    if (!prepare_process()) {
        return EXIT_FAILED;
    }
    if (c != NULL) {
        return run_command(c, argc - 1, argv + 1);
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        return help_command(argc > 2 ? argv[2] : NULL);
    }
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        print_version();
        return output_finish(EXIT_DONE, EXIT_FAILED);
    }
    if (strcmp(first, "completion") == 0 && argc == 3) {
        return output_finish(print_completion(argv[2]), EXIT_FAILED);
    }
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    return usage_error("there is no command \"%s\"; see waldo --help", first);
}
