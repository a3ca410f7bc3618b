/*
 * What the library itself runs for its tools, carried out on files in memory: the search of the
 * tool grep, and the setting of times, which are not kept.
 */
#include "script.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct search {
    regex_t pattern;
    int with_names;
    int found;
    int missed; /* a file that is not there */
} search;

static const char *end_of_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));

    return newline != NULL ? newline : end;
}

/* A file without NUL bytes ends with one. Lines are cut out by putting one in their place. */
static void search_lines(search *s, const char *name, const waldo__tree_node *node,
                         waldo__testing_text *out)
{
    char *copy = malloc(node->len + 1);
    const char *end = copy != NULL ? copy + node->len : NULL;
    char number[32];
    size_t line = 0;

    if (copy == NULL) {
        out->failed = 1;
        return;
    }
    memcpy(copy, node->bytes, node->len + 1);
    for (char *at = copy, *next; at < end; at = next) {
        next = (char *)end_of_line(at, end);
        *next++ = '\0';
        line++;
        if (regexec(&s->pattern, at, 0, NULL, 0) != 0) {
            continue;
        }
        s->found = 1;
        snprintf(number, sizeof number, "%zu:", line);
        if (s->with_names) {
            waldo__testing_puts(out, name);
            waldo__testing_puts(out, ":");
        }
        waldo__testing_puts(out, number);
        waldo__testing_puts(out, at);
        waldo__testing_puts(out, "\n");
    }
    free(copy);
}

static void search_file(search *s, const waldo__tree *tree, const char *cwd, const char *name,
                        waldo__testing_text *out)
{
    char path[WALDO__INMEM_PATH_BYTES];
    const waldo__tree_node *node = waldo__tree_path(cwd, name, path, sizeof path) == WALDO_OK
                                       ? waldo__tree_find(tree, path)
                                       : NULL;

    if (node == NULL || !S_ISREG(node->mode)) {
        s->missed = 1;
    } else if (node->len > 0 && memchr(node->bytes, '\0', node->len) == NULL) {
        search_lines(s, name, node, out);
    }
}

/* grep -nIsE -H|-h [-i] -e PATTERN -- FILE... */
static int own_grep(const waldo__tree *tree, const char *const *argv, const char *cwd,
                    waldo__testing_text *ret_out, waldo__testing_text *ret_err, int *ret_exit_code)
{
    search s = { .with_names = strcmp(argv[2], "-H") == 0 };
    size_t at = 3;
    int flags = REG_EXTENDED | REG_NOSUB;
    int problem;

    if (argv[at] != NULL && strcmp(argv[at], "-i") == 0) {
        flags |= REG_ICASE;
        at++;
    }
    if (argv[at] == NULL || strcmp(argv[at], "-e") != 0 || argv[at + 1] == NULL ||
        argv[at + 2] == NULL || strcmp(argv[at + 2], "--") != 0) {
        return 0;
    }
    problem = regcomp(&s.pattern, argv[at + 1], flags);
    if (problem != 0) {
        char text[128];

        regerror(problem, &s.pattern, text, sizeof text);
        waldo__testing_puts(ret_err, "grep: ");
        waldo__testing_puts(ret_err, text);
        waldo__testing_puts(ret_err, "\n");
        *ret_exit_code = 2;
        return 1;
    }
    for (at += 3; argv[at] != NULL; at++) {
        search_file(&s, tree, cwd, argv[at], ret_out);
    }
    regfree(&s.pattern);
    *ret_exit_code = s.missed ? 2 : !s.found;
    return 1;
}

int waldo__testing_own(const waldo__tree *tree, const char *const *argv, const char *cwd,
                       waldo__testing_text *ret_out, waldo__testing_text *ret_err,
                       int *ret_exit_code)
{
    static const char times[] = "touch -c -h -d @";
    int words = 0;

    while (words < 3 && argv[words] != NULL) {
        words++;
    }
    if (words == 3 && strcmp(argv[0], "grep") == 0 && strcmp(argv[1], "-nIsE") == 0) {
        return own_grep(tree, argv, cwd, ret_out, ret_err, ret_exit_code);
    }
    *ret_exit_code = 0;
    return words == 3 && strcmp(argv[1], "-c") == 0 &&
           strncmp(argv[2], times, sizeof times - 1) == 0;
}
