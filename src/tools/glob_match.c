/*
 * Patterns over paths. Braces are taken out once; then path and pattern are compared name by name,
 * and within a name character by character. At both levels a star remembers where it stands, and
 * what does not fit goes back to the last one: no recursion, and work that is counted.
 */
#include "base/error.h"
#include "base/utf8.h"
#include "tools/tools.h"

enum {
    PATTERN_MAX = 1024,
    ALTERNATIVES_MAX = 256,
    STEPS_MAX = 50 * 1000 * 1000 /* characters compared; less than a second */
};

/* ---- characters ---- */

/* Take one character; a byte that is not valid text stands for itself, beyond Unicode. */
static uint32_t take(waldo_str *rest)
{
    static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    int step = waldo__utf8_step(rest->ptr, rest->len);
    size_t len = step > 0 ? (size_t)step : 1;
    uint32_t value = (unsigned char)rest->ptr[0];

    if (step > 0) {
        value &= masks[len];
        for (size_t i = 1; i < len; i++) {
            value = value << 6 | ((unsigned char)rest->ptr[i] & 0x3f);
        }
    } else {
        value += 0x110000;
    }
    *rest = waldo__slice(rest->ptr + len, rest->len - len);
    return value;
}

static int begins(waldo_str text, char byte)
{
    return text.len > 0 && text.ptr[0] == byte;
}

static waldo_str behind(waldo_str text, size_t bytes)
{
    return waldo__slice(text.ptr + bytes, text.len - bytes);
}

/* Length of the set at the front of a pattern, with its brackets; 0: it is not closed. */
static size_t set_len(waldo_str pattern)
{
    size_t at = 1;

    at += at < pattern.len && (pattern.ptr[at] == '!' || pattern.ptr[at] == '^');
    at += at < pattern.len && pattern.ptr[at] == ']'; /* first, it is a member */
    while (at < pattern.len && pattern.ptr[at] != ']') {
        if (pattern.ptr[at] == '/') {
            return 0;
        }
        at += pattern.ptr[at] == '\\' ? 2 : 1;
    }
    return at < pattern.len ? at + 1 : 0;
}

/* Length of what stands at the front of a pattern as one thing: a set, an escape, a byte. */
static size_t item_len(waldo_str pattern)
{
    if (begins(pattern, '[') && set_len(pattern) > 0) {
        return set_len(pattern);
    }
    return begins(pattern, '\\') && pattern.len > 1 ? 2 : 1;
}

static uint32_t take_member(waldo_str *set)
{
    if (begins(*set, '\\') && set->len > 1) {
        *set = behind(*set, 1);
    }
    return take(set);
}

/* Is a character in a set, which comes with its brackets? */
static int in_set(waldo_str set, uint32_t character)
{
    int negated, found = 0;

    set = waldo__slice(set.ptr + 1, set.len - 2);
    negated = begins(set, '!') || begins(set, '^');
    set = behind(set, (size_t)negated);
    while (set.len > 0) {
        uint32_t low = take_member(&set), high = low;

        if (begins(set, '-') && set.len > 1) {
            set = behind(set, 1);
            high = take_member(&set);
        }
        found |= low <= character && character <= high;
    }
    return found != negated;
}

/* ---- names and paths ---- */

static void spend(waldo__glob *glob, uint64_t steps)
{
    glob->steps -= steps < glob->steps ? steps : glob->steps;
}

/*
 * Does the item of so many bytes at the front of the pattern, which is no star, fit the front of
 * the name? Takes both if so.
 */
static int fits(waldo_str *pattern, size_t len, waldo_str *name)
{
    waldo_str rest = *name, after = behind(*pattern, len);
    uint32_t character = take(&rest);

    if (begins(*pattern, '[') && len > 1) {
        if (!in_set(waldo__slice(pattern->ptr, len), character)) {
            return 0;
        }
    } else if (!begins(*pattern, '?')) {
        after = behind(*pattern, len - 1); /* without the backslash */
        if (take(&after) != character) {
            return 0;
        }
    }
    *pattern = after;
    *name = rest;
    return 1;
}

static int match_name(waldo__glob *glob, waldo_str pattern, waldo_str name)
{
    waldo_str star = { NULL, 0 }, star_name = name;

    while (name.len > 0 && glob->steps > 0) {
        size_t len = pattern.len > 0 ? item_len(pattern) : 0;

        spend(glob, 1 + len);
        if (begins(pattern, '*')) {
            pattern = star = behind(pattern, 1);
            star_name = name;
        } else if (len == 0 || !fits(&pattern, len, &name)) {
            if (star.ptr == NULL) {
                return 0;
            }
            take(&star_name);
            pattern = star;
            name = star_name;
        }
    }
    while (begins(pattern, '*')) {
        pattern = behind(pattern, 1);
    }
    return pattern.len == 0 && glob->steps > 0;
}

/* The first name of a path, or of a pattern: there a slash is never inside of a set. */
static waldo_str first_name(waldo_str path)
{
    return waldo__slice(path.ptr, waldo__str_find(path, '/'));
}

static waldo_str next_names(waldo_str path)
{
    size_t len = first_name(path).len;

    return behind(path, len < path.len ? len + 1 : len);
}

static int match_path(waldo__glob *glob, waldo_str pattern, waldo_str path)
{
    waldo_str deep = { NULL, 0 }, deep_path = path;

    while (path.len > 0 && glob->steps > 0) {
        waldo_str name = first_name(pattern);

        spend(glob, 1);
        if (waldo__str_is(name, "**")) {
            pattern = deep = next_names(pattern);
            deep_path = path;
            if (pattern.len == 0) {
                return 1; /* at the end: everything below */
            }
        } else if (pattern.len > 0 && match_name(glob, name, first_name(path))) {
            pattern = next_names(pattern);
            path = next_names(path);
        } else if (deep.ptr != NULL) {
            deep_path = next_names(deep_path);
            pattern = deep;
            path = deep_path;
        } else {
            return 0;
        }
    }
    return pattern.len == 0 && path.len == 0;
}

int waldo__glob_match(waldo__glob *glob, waldo_str path)
{
    size_t name_at = path.len;
    waldo_str rest = waldo__buf_str(&glob->patterns), pattern;

    while (name_at > 0 && path.ptr[name_at - 1] != '/') {
        name_at--;
    }
    while (rest.len > 0) {
        pattern = waldo__slice(rest.ptr, waldo__str_find(rest, '\0'));
        rest = behind(rest, pattern.len + 1);
        spend(glob, 1 + pattern.len / 16);
        if (match_path(glob, pattern,
                       waldo__str_find(pattern, '/') < pattern.len ? path
                                                                   : behind(path, name_at))) {
            return 1;
        }
    }
    return 0;
}

/* ---- braces ---- */

/* Where the next brace group of a pattern is, and how many alternatives it has. */
typedef struct group {
    size_t open;
    size_t close;
    size_t count;
} group;

/* WALDO_END when there is none, WALDO_EINVAL with *ret_what when it cannot be one. */
static waldo_status next_group(waldo_str pattern, size_t from, group *ret_group,
                               const char **ret_what)
{
    int open = 0;

    for (size_t at = from; at < pattern.len; at += item_len(behind(pattern, at))) {
        char byte = pattern.ptr[at];

        if (byte == '{' && open) {
            *ret_what = "has { inside of {}: name the alternatives one by one";
            return WALDO_EINVAL;
        }
        if (byte == '{') {
            open = 1;
            *ret_group = (group){ .open = at, .count = 1 };
        } else if (open && byte == ',') {
            ret_group->count++;
        } else if (open && byte == '}') {
            ret_group->close = at;
            return WALDO_OK;
        } else if (byte == '[' && set_len(behind(pattern, at)) == 0) {
            *ret_what = "has [ without ]; put \\ before a [ that is meant as it is";
            return WALDO_EINVAL;
        } else if (byte == '\\' && at + 1 == pattern.len) {
            *ret_what = "ends with \\";
            return WALDO_EINVAL;
        }
    }
    *ret_what = "has { without }; put \\ before a { that is meant as it is";
    return open ? WALDO_EINVAL : WALDO_END;
}

/* The alternative of a group with a number. */
static waldo_str pick(waldo_str pattern, const group *g, size_t number)
{
    size_t from = g->open + 1, at = from;

    for (; at < g->close; at += item_len(behind(pattern, at))) {
        if (pattern.ptr[at] == ',' && number-- == 0) {
            break;
        }
        from = pattern.ptr[at] == ',' ? at + 1 : from;
    }
    return waldo__slice(pattern.ptr + from, at - from);
}

/* Every group counts like a digit of choice. */
static void expand(waldo_str pattern, size_t choice, waldo__buf *out)
{
    size_t from = 0;
    const char *what;
    group g;

    while (next_group(pattern, from, &g, &what) == WALDO_OK) {
        waldo__buf_add(out, pattern.ptr + from, g.open - from);
        waldo__buf_add_str(out, pick(pattern, &g, choice % g.count));
        choice /= g.count;
        from = g.close + 1;
    }
    waldo__buf_add(out, pattern.ptr + from, pattern.len - from);
    waldo__buf_putc(out, '\0');
}

static const char *problem_of(waldo_str pattern, size_t *ret_choices)
{
    const char *what = NULL;
    size_t from = 0;
    waldo_status status;
    group g;

    if (pattern.len == 0) {
        return "is empty";
    }
    if (pattern.len > PATTERN_MAX) {
        return "is longer than 1024 bytes";
    }
    if (pattern.ptr[0] == '/') {
        return "is absolute: give the folder as path and the pattern relative to it";
    }
    if (pattern.ptr[pattern.len - 1] == '/') {
        return "ends with /: files are matched, not folders; put ** behind it";
    }
    *ret_choices = 1;
    while ((status = next_group(pattern, from, &g, &what)) == WALDO_OK) {
        *ret_choices *= g.count; /* at most 256 x 1024 */
        from = g.close + 1;
        if (*ret_choices > ALTERNATIVES_MAX) {
            return "has more than 256 alternatives";
        }
    }
    return status == WALDO_END ? NULL : what;
}

waldo_status waldo__glob_init(waldo__glob *glob, const char *text, waldo_error **ret_err)
{
    waldo_str pattern = waldo__str(text);
    size_t choices = 0;
    const char *what;

    while (waldo__str_starts(pattern, "./")) {
        pattern = behind(pattern, 2);
    }
    what = problem_of(pattern, &choices);
    if (what != NULL) {
        return waldo__error_invalid(ret_err, "the pattern %s", what);
    }
    *glob = (waldo__glob){ .steps = STEPS_MAX };
    waldo__buf_init(&glob->patterns, (PATTERN_MAX + 1) * ALTERNATIVES_MAX);
    for (size_t i = 0; i < choices; i++) {
        expand(pattern, i, &glob->patterns);
    }
    if (glob->patterns.status != WALDO_OK) {
        waldo__glob_free(glob);
        return waldo__error_nomem(ret_err);
    }
    return WALDO_OK;
}

void waldo__glob_free(waldo__glob *glob)
{
    waldo__buf_free(&glob->patterns);
}

int waldo__path_in_git(waldo_str path)
{
    return waldo__str_starts(path, ".git/") ||
           waldo__str_search(path, WALDO__S("/.git/"), 0) < path.len;
}
