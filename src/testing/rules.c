/* Which command of a script is meant, and what to say when none is. */
#include "script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_MAX = 300 };

/* A star stands for any text; the last one is tried at every place, so there is no recursion. */
static int fits(const char *pattern, const char *text)
{
    const char *star = NULL;
    const char *mark = NULL;

    while (*text != '\0') {
        int escaped = pattern[0] == '\\' && pattern[1] == '*';

        if (*pattern == '*') {
            star = ++pattern;
            mark = text;
        } else if (pattern[escaped] == *text) {
            pattern += 1 + escaped;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++mark;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static int32_t times_of(const waldo_testing_command *command)
{
    return command->times > 0 ? command->times : 1;
}

static int is_open(const waldo__testing_rule *rule)
{
    return rule->command->times != WALDO_TESTING_ALWAYS && rule->used < times_of(rule->command);
}

static int is_meant(const waldo_testing_command *command, const char *text, const char *cwd)
{
    char folder[WALDO__INMEM_PATH_BYTES];

    if (command->cwd != NULL &&
        (waldo__tree_path(WALDO__INMEM_HOME, command->cwd, folder, sizeof folder) != WALDO_OK ||
         strcmp(folder, cwd) != 0)) {
        return 0;
    }
    return command->cmd == NULL || fits(command->cmd, text);
}

const waldo_testing_command *waldo__testing_match(waldo_testing_sandbox *sandbox, const char *text,
                                                  const char *cwd)
{
    int in_order = (sandbox->flags & WALDO_TESTING_ANY_ORDER) == 0;
    waldo__testing_rule *found = NULL;
    int looking = 1;

    for (size_t i = 0; i < sandbox->rule_count && found == NULL && looking; i++) {
        waldo__testing_rule *rule = &sandbox->rules[i];

        if (is_open(rule)) {
            found = is_meant(rule->command, text, cwd) ? rule : NULL;
            looking = !in_order;
        }
    }
    for (size_t i = 0; i < sandbox->rule_count && found == NULL; i++) {
        waldo__testing_rule *rule = &sandbox->rules[i];

        if (rule->command->times == WALDO_TESTING_ALWAYS && is_meant(rule->command, text, cwd)) {
            found = rule;
        }
    }
    if (found == NULL) {
        return NULL;
    }
    found->used += found->used < INT32_MAX;
    return found->command;
}

/* "make *" in /workspace/src: a command as a script has it. */
static void show(const waldo_testing_command *command, waldo__testing_text *out)
{
    char shown[2 * SHOWN_MAX + 64];

    if (command->cmd == NULL) {
        snprintf(shown, sizeof shown, "any command");
    } else {
        snprintf(shown, sizeof shown, "\"%.*s\"", SHOWN_MAX, command->cmd);
    }
    waldo__testing_puts(out, shown);
    if (command->cwd != NULL) {
        snprintf(shown, sizeof shown, " in %.*s", SHOWN_MAX, command->cwd);
        waldo__testing_puts(out, shown);
    }
}

/* What might have come, in order only the next one; and what always may. */
static void show_expected(const waldo_testing_sandbox *sandbox, waldo__testing_text *out)
{
    int in_order = (sandbox->flags & WALDO_TESTING_ANY_ORDER) == 0;
    int shown = 0;

    for (size_t i = 0; i < sandbox->rule_count; i++) {
        const waldo__testing_rule *rule = &sandbox->rules[i];

        if (is_open(rule) && !(in_order && shown)) {
            waldo__testing_puts(out, shown ? " or " : "");
            show(rule->command, out);
            shown = 1;
        }
    }
    waldo__testing_puts(out, shown ? "" : "no more commands");
    for (size_t i = 0; i < sandbox->rule_count; i++) {
        if (sandbox->rules[i].command->times == WALDO_TESTING_ALWAYS) {
            waldo__testing_puts(out, ", or at any time ");
            show(sandbox->rules[i].command, out);
        }
    }
}

static size_t commands_asked(const waldo_testing_sandbox *sandbox)
{
    size_t count = 0;

    while (waldo_testing_sandbox_asked(sandbox, WALDO_TESTING_EXEC, count) != NULL) {
        count++;
    }
    return count;
}

waldo_status waldo__testing_unexpected(waldo_testing_sandbox *sandbox, const char *text,
                                       const char *cwd, waldo_error **ret_err)
{
    waldo__testing_text expected = { 0 };

    show_expected(sandbox, &expected);
    if (sandbox->problem == NULL) {
        waldo_error_set(&sandbox->problem, WALDO_EINVAL, WALDO_CLASS_USAGE,
                        "%s: command %zu is \"%.*s\" in %.*s, the script has %s", sandbox->label,
                        commands_asked(sandbox), SHOWN_MAX, text, SHOWN_MAX, cwd,
                        expected.failed ? "others" : expected.ptr);
    }
    waldo__testing_memory.free_fn(NULL, expected.ptr);
    return waldo__testing_refuse(sandbox, ret_err);
}

waldo_status waldo__testing_refuse(const waldo_testing_sandbox *sandbox, waldo_error **ret_err)
{
    if (sandbox->problem == NULL) {
        return WALDO_OK;
    }
    if (ret_err != NULL && *ret_err == NULL) {
        *ret_err = waldo_error_copy(sandbox->problem);
    }
    return WALDO_EINVAL;
}

waldo_status waldo_testing_sandbox_check(const waldo_testing_sandbox *sandbox,
                                         waldo_error **ret_err)
{
    waldo__testing_text shown = { 0 };
    waldo_status status = waldo__testing_refuse(sandbox, ret_err);

    for (size_t i = 0; i < sandbox->rule_count && status == WALDO_OK; i++) {
        const waldo__testing_rule *rule = &sandbox->rules[i];

        if (is_open(rule)) {
            show(rule->command, &shown);
            status = waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                                     "%s: the script has %s, which came %" PRId32 " of %" PRId32
                                     " times",
                                     sandbox->label, shown.failed ? "a command" : shown.ptr,
                                     rule->used, times_of(rule->command));
        }
    }
    waldo__testing_memory.free_fn(NULL, shown.ptr);
    return status;
}
