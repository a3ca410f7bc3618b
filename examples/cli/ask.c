/* Questions on the terminal. */
#include <string.h>
#include <unistd.h>

#include "cli.h"

int has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

int ask_yes_no(const char *question)
{
    char line[64];

    if (!has_terminal()) {
        return 0;
    }
    fprintf(stderr, "%s [y/N] ", question);
    return fgets(line, sizeof line, stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}
