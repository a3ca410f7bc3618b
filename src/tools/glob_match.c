/* Patterns over paths, without recursion over what the model wrote. */
#include "base/error.h"
#include "tools/tools.h"

enum { MAX_ALTERNATIVES = 256, MAX_PATTERN = 1024 };

/* One set such as [a-z]; *pattern stands behind '[' and moves behind ']'. 1: byte is in it. */
static int match_set(const char **pattern, char byte)
{
    const char *at = *pattern;
    int negated = *at == '!' || *at == '^', found = 0;

    at += negated;
    do {
        char low = *at, high = at[1] == '-' && at[2] != ']' && at[2] != '\0' ? at[2] : low;

        found |=
            (unsigned char)low <= (unsigned char)byte && (unsigned char)byte <= (unsigned char)high;
        at += high != low || (at[1] == '-' && at[2] != ']' && at[2] != '\0') ? 3 : 1;
    } while (*at != ']' && *at != '\0');
    *pattern = *at == ']' ? at + 1 : at;
    return found != negated;
}

/* One name or path against a pattern without braces; stars by going back to the last one. */
static int match_plain(const char *pattern, const char *text)
{
    const char *star = NULL, *star_text = NULL, *deep = NULL, *deep_text = NULL;

    while (*text != '\0') {
        const char *next = pattern + 1;

        if (pattern[0] == '*' && pattern[1] == '*') {
            deep = pattern + 2 + (pattern[2] == '/');
            deep_text = text;
            star = NULL;
            pattern = deep;
        } else if (pattern[0] == '*') {
            star = next;
            star_text = text;
            pattern = next;
        } else if ((pattern[0] == '?' && *text != '/') ||
                   (pattern[0] == '[' && *text != '/' && match_set(&next, *text)) ||
                   (pattern[0] == *text && pattern[0] != '[' && pattern[0] != '?')) {
            pattern = next;
            text++;
        } else if (star != NULL && *star_text != '/') {
            pattern = star;
            text = ++star_text;
        } else if (deep != NULL) {
            /* Behind "**" + '/' only the beginning of a name counts. */
            do {
                deep_text++;
            } while (deep[-1] == '/' && *deep_text != '\0' && deep_text[-1] != '/');
            star = NULL;
            pattern = deep;
            text = deep_text;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

/* Fill out with the pattern in which every brace stands for one alternative, numbered by choice. */
static int expand(const char *pattern, size_t choice, char *out)
{
    size_t len = 0;

    for (const char *at = pattern; *at != '\0'; at++) {
        size_t count = 1, pick;
        const char *end, *from = at + 1;

        if (*at != '{' || (end = strchr(at, '}')) == NULL) {
            out[len++] = *at;
            continue;
        }
        for (const char *c = at; c < end; c++) {
            count += *c == ',';
        }
        pick = choice % count;
        choice /= count;
        while (pick-- > 0) {
            from = strchr(from, ',') + 1;
        }
        while (from < end && *from != ',') {
            out[len++] = *from++;
        }
        at = end;
    }
    out[len] = '\0';
    return choice == 0;
}

static size_t count_choices(const char *pattern)
{
    size_t choices = 1;

    for (const char *at = strchr(pattern, '{'); at != NULL; at = strchr(at, '{')) {
        const char *end = strchr(at, '}');
        size_t count = 1;

        if (end == NULL) {
            break;
        }
        for (const char *c = at; c < end; c++) {
            count += *c == ',';
        }
        choices = choices > MAX_ALTERNATIVES ? choices : choices * count;
        at = end;
    }
    return choices;
}

waldo_status waldo__glob_check(const char *pattern, waldo_error **ret_err)
{
    const char *brace = strchr(pattern, '{'), *bracket = strchr(pattern, '[');
    const char *what = NULL;

    if (pattern[0] == '\0') {
        what = "is empty";
    } else if (strlen(pattern) > MAX_PATTERN) {
        what = "is longer than 1024 bytes";
    } else if (brace != NULL && strchr(brace, '}') == NULL) {
        what = "has { without }";
    } else if (bracket != NULL && strchr(bracket, ']') == NULL) {
        what = "has [ without ]";
    } else if (count_choices(pattern) > MAX_ALTERNATIVES) {
        what = "has too many alternatives";
    }
    return what == NULL
               ? WALDO_OK
               : waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE, "the pattern %s", what);
}

int waldo__glob_match(const char *pattern, const char *path)
{
    char plain[MAX_PATTERN + 1];
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    for (size_t i = 0, count = count_choices(pattern); i < count; i++) {
        expand(pattern, i, plain);
        if (match_plain(plain, strchr(plain, '/') != NULL ? path : name)) {
            return 1;
        }
    }
    return 0;
}
