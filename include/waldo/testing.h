/**
 * @file
 * For tests of programs that embed waldo: a model and a shell that follow a script. A library of
 * its own: pkg-config waldo_testing, or -lwaldo_testing.
 */
#ifndef WALDO_TESTING_H
#define WALDO_TESTING_H

#include <waldo/model.h>
#include <waldo/tool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A part of what a scripted model answers. Zero means "not" for every member. */
typedef struct waldo_testing_turn {
    const char *expect;    /* text that the request's JSON (docs/models.md) must hold */
    const char *reasoning; /* thought */
    const char *text;      /* said */
    const char *call;      /* tool asked for */
    const char *args;      /* its arguments, JSON; NULL: {} */
    waldo_status fail;     /* the request fails with this */
    int32_t more;          /* 1: the next turn belongs to the same answer */
} waldo_testing_turn;

/**
 * A model that gives answers in order, whatever it is asked, and fails with WALDO_EINVAL where a
 * request does not hold what it is expected to, or nothing is left.
 *
 * @param turns  borrowed for the model's life, as all text in them
 * @param count  of them
 * @return one reference, release with waldo_model_unref(); NULL when out of memory
 * Thread: any; used by one runtime at a time. Since: 0.1.
 */
WALDO_API waldo_model *waldo_testing_model(const waldo_testing_turn *turns, size_t count);

/** waldo_testing_model() of an array. */
#define WALDO_TESTING_MODEL(turns) waldo_testing_model((turns), sizeof(turns) / sizeof((turns)[0]))

/** A command that a scripted shell expects, and what comes of it. */
typedef struct waldo_testing_command {
    const char *cmd; /* as the model writes it; with a * at its end: what it begins with */
    const char *output;
    int32_t exit_code;
    int32_t reserved;
} waldo_testing_command;

/**
 * A tool exec_command in place of a sandbox: nothing is run. Commands must come in order; another
 * one, or one more, is told on stderr and ends the run as failed with WALDO_EINVAL.
 *
 * @param commands  borrowed for the tool's life, as all text in them
 * @param count     of them
 * @return as waldo_tool_new()
 * Thread: any; used by one runtime at a time. Since: 0.1.
 */
WALDO_API waldo_tool *waldo_testing_shell(const waldo_testing_command *commands, size_t count);

/** waldo_testing_shell() of an array. */
#define WALDO_TESTING_SHELL(commands)                                                              \
    waldo_testing_shell((commands), sizeof(commands) / sizeof((commands)[0]))

#ifdef __cplusplus
}
#endif

#endif
