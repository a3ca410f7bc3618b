/* What tests of the run engine share: a stand-in model, a runtime, tools that note their calls. */
#ifndef WALDO_TEST_RUN_FIXTURE_H
#define WALDO_TEST_RUN_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waldo/waldo.h>

#include "standin.h"

typedef struct fixture {
    standin *server;
    waldo_runtime *rt;
    char url[256];
    char model[8][320]; /* room for model strings, used in turn */
    int models;
} fixture;

/* Group set-up and test set-up: one server for a program, one runtime for a test. */
int fixture_start(void **state);
int fixture_start_of(void **state, const char *server); /* another stand-in than "chat" */
int fixture_stop(void **state);
int fixture_fresh(void **state);
int fixture_drop(void **state);

/* "chat:URL#name", valid until eight more were made. */
const char *fixture_model(fixture *f, const char *name);

/* Queue replies: a JSON array. */
void fixture_replies(fixture *f, const char *json);

/* A new runtime with these options in place of the fixture's. */
waldo_runtime *fixture_runtime(fixture *f, const waldo_runtime_options *options);

/* The JSON of all items of a run without their vendor, one a line, in a static buffer. */
const char *fixture_items(const waldo_run *run);

/* Pull all there is, driving; the kinds as words in a static buffer. Returns the last status. */
waldo_status fixture_pull(waldo_run *run, const char **ret_kinds);

/* Pull all there is; the texts of events of this kind, one a line, in a static buffer. */
const char *fixture_texts(waldo_run *run, waldo_event_kind kind);

/* A tool that answers at once with its "text" argument and counts its calls in *userdata. */
waldo_tool *echo_tool(int *calls, uint32_t flags);

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (strstr((text), (part)) == NULL) {                                                      \
            fail_msg("\"%s\" is not in:\n%s", (part), (text));                                     \
        }                                                                                          \
    } while (0)

#define assert_lacks(text, part)                                                                   \
    do {                                                                                           \
        if (strstr((text), (part)) != NULL) {                                                      \
            fail_msg("\"%s\" is in:\n%s", (part), (text));                                         \
        }                                                                                          \
    } while (0)

#endif
