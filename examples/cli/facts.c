/* Sizes and prices of models, from a file. */
#include "cli.h"

#include <string.h>

enum { FACTS_MAX = 1024 * 1024 };

/* Whoever reads them says what is wrong. */
static int check(const char *path, const char *text)
{
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.model_facts = text));
    const waldo_error *error = waldo_runtime_error(rt);
    int code =
        error != NULL ? usage_error("facts %s: %s", path, waldo_error_message(error)) : EXIT_DONE;

    waldo_runtime_free(rt);
    return code;
}

int choose_facts(args *a)
{
    static char text[FACTS_MAX + 1], configured[4096];
    const char *path = a->facts != NULL ? a->facts : config_get("facts");
    FILE *file;
    size_t len;

    if (path == NULL) {
        return EXIT_DONE;
    }
    snprintf(configured, sizeof configured, "%s", path);
    file = fopen(configured, "re");
    if (file == NULL) {
        return usage_error("facts %s: %m", configured);
    }
    len = fread(text, 1, FACTS_MAX, file);
    if (ferror(file) || len == 0 || len == FACTS_MAX || strlen(text) != len) {
        usage_error("facts %s: %s", configured,
                    ferror(file)       ? "cannot be read"
                    : len == FACTS_MAX ? "larger than 1 MiB"
                                       : "not JSON");
        fclose(file);
        return EXIT_USAGE;
    }
    fclose(file);
    a->facts_text = text;
    return check(configured, text);
}
