/*
 * What the tests of the tools share: a sandbox, calls without a run, and golden files.
 *
 * Programs take SANDBOX-STRING GOLDEN-FOLDER [--update]; --update writes the golden files anew
 * instead of comparing (docs/testing.md).
 */
#ifndef WALDO_TESTS_TOOLS_FIXTURE_H
#define WALDO_TESTS_TOOLS_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtime.h"
#include "base/alloc.h"
#include "tools/tools.h"

/* How a call ended. */
typedef struct outcome {
    int count; /* of ends */
    waldo__call_end end;
    waldo_status status;
    char *text;
    size_t images;
    uint64_t live[2]; /* bytes of live output, by stream */
} outcome;

typedef struct fixture {
    waldo_runtime *rt;
    waldo_sandbox *sandbox;
    size_t max_output;
    waldo__buf transcript; /* of golden calls */
} fixture;

/* Read the arguments of a program; 2 when they are wrong. */
int fixture_arguments(int argc, char **argv);

/* A runtime and a sandbox that is not open yet. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A built-in tool, one reference. */
waldo_tool *tool_named(const char *name);

/* Make a call and leave it running; args is JSON. Fails the test when it is refused. */
waldo_tool_call *start(fixture *f, const char *tool, const char *args, outcome *out);

/* The same with a tool that is not built in, which is taken. */
waldo_tool_call *start_tool(fixture *f, waldo_tool *tool, const char *args, outcome *out);

/* Drive until it has ended. */
void finish(fixture *f, outcome *out);
void outcome_free(outcome *out);

/* Start, finish, release: the text, until the next call of this. Fails unless it ends so. */
const char *reply_of(fixture *f, const char *tool, const char *args);
const char *failure_of(fixture *f, const char *tool, const char *args);

/* The same and note the call and its end in the transcript. */
void golden_call(fixture *f, const char *tool, const char *args);

/* Hold the transcript to a golden file, or write it. */
void golden_check(fixture *f, const char *name);
void golden_text(const char *name, waldo_str text);

/* Files in the sandbox, beside the tools. */
void put(fixture *f, const char *path, waldo_str bytes);
char *get(fixture *f, const char *path, size_t *ret_len); /* for waldo__free() */

/* A shell command in the sandbox that must succeed. */
void shell(fixture *f, const char *cmd);
/* Return once a file of the sandbox does not grow any more; a process that writes it has ended. */
void wait_quiet(fixture *f, const char *path);
int is_local(void);

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        const char *text_ = (text);                                                                \
        if (strstr(text_, (part)) == NULL) {                                                       \
            fail_msg("\"%s\" is not in:\n%s", (part), text_);                                      \
        }                                                                                          \
    } while (0)

#endif
