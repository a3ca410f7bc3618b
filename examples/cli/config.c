/* The configuration file: lines of key = value or key = "value", # for comments. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static FILE *open_config(void)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[4096];

    if (xdg != NULL && xdg[0] == '/') {
        snprintf(path, sizeof path, "%s/waldo/config", xdg);
    } else if (home != NULL) {
        snprintf(path, sizeof path, "%s/.config/waldo/config", home);
    } else {
        return NULL;
    }
    return fopen(path, "re");
}

/* Cut white space at both ends, in place. */
static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1]) != NULL) {
        *--end = '\0';
    }
    return text;
}

/* The text between quotes, in place, when there are any. */
static char *unquote(char *text)
{
    size_t len = strlen(text);

    if (len >= 2 && (text[0] == '"' || text[0] == '\'') && text[len - 1] == text[0]) {
        text[len - 1] = '\0';
        text++;
    }
    return text;
}

const char *config_get(const char *key)
{
    static char value[4096];
    char line[4096];
    FILE *file = open_config();
    const char *found = NULL;

    while (file != NULL && found == NULL && fgets(line, sizeof line, file) != NULL) {
        char *equals = strchr(line, '=');

        if (line[strspn(line, " \t")] == '#' || equals == NULL) {
            continue;
        }
        *equals = '\0';
        if (strcmp(trim(line), key) == 0) {
            snprintf(value, sizeof value, "%s", unquote(trim(equals + 1)));
            found = value;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}
