/* Inside of the testing library: a scripted sandbox. */
#ifndef WALDO_TESTING_SCRIPT_H
#define WALDO_TESTING_SCRIPT_H

#include "inmem/machine.h"
#include <waldo/testing.h>

/* Text that grows; failed sticks. */
typedef struct waldo__testing_text {
    char *ptr; /* NUL-terminated; NULL: empty */
    size_t len;
    size_t cap;
    int failed;
} waldo__testing_text;

void waldo__testing_add(waldo__testing_text *text, const char *bytes, size_t len);
void waldo__testing_puts(waldo__testing_text *text, const char *more);

typedef struct waldo__testing_rule {
    const waldo_testing_command *command;
    int32_t used;
} waldo__testing_rule;

struct waldo_testing_sandbox {
    waldo_testing_sandbox *next; /* of this process */
    char *label;                 /* "scripted:NAME", or "scripted": for messages */
    const char *name;            /* the end of it */
    uint32_t flags;
    waldo__testing_rule *rules;
    size_t rule_count;
    const waldo_testing_file *files;
    size_t file_count;
    int64_t open_ms;
    waldo_status fail_open;
    uint32_t fail_open_times;
    uint32_t openings;
    waldo_isolation isolation;
    waldo__tree tree;
    waldo_error *problem; /* the first command that was not expected */
    waldo_testing_asked **asked;
    size_t asked_count;
    size_t asked_cap;
    waldo_machine *machines; /* that are open */
    int refs;                /* of its owner and of its machines */
};

extern const waldo_allocator waldo__testing_memory;
extern const waldo_backend_ops waldo__testing_backend;

/* NULL: there is none of this name. */
waldo_testing_sandbox *waldo__testing_find(waldo_str name);

void waldo__testing_unref(waldo_testing_sandbox *sandbox);

/* ---- rules.c ---- */

/*
 * The command that expects this one, which is now counted; NULL: none does. A folder of NULL is
 * not looked at.
 */
const waldo_testing_command *waldo__testing_match(waldo_testing_sandbox *sandbox, const char *text,
                                                  const char *cwd);
/* Remember that none does, and say so. */
waldo_status waldo__testing_unexpected(waldo_testing_sandbox *sandbox, const char *text,
                                       const char *cwd, waldo_error **ret_err);
waldo_status waldo__testing_refuse(const waldo_testing_sandbox *sandbox, waldo_error **ret_err);

/* ---- asked.c ---- */

/* Copied with all it points to. NULL: out of memory. */
waldo_testing_asked *waldo__testing_note(waldo_testing_sandbox *sandbox,
                                         const waldo_testing_asked *asked);
void waldo__testing_forget(waldo_testing_sandbox *sandbox);

/* The command of an argv as a script has it. */
void waldo__testing_command_text(const waldo__tree *tree, const char *const *argv,
                                 waldo__testing_text *ret_text);

/* ---- own.c ---- */

/*
 * What the library itself runs for its tools: 1 when this is such a command, which was carried
 * out; a text that failed says that memory was out.
 */
int waldo__testing_own(const waldo__tree *tree, const char *const *argv, const char *cwd,
                       waldo__testing_text *ret_out, waldo__testing_text *ret_err,
                       int *ret_exit_code);

#endif
