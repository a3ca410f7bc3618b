/* Writes requests through an adapter's ops, for the tests here. */
#ifndef WALDO_TESTS_MODEL_WRITE_H
#define WALDO_TESTS_MODEL_WRITE_H

#include "base/buf.h"
#include <waldo/agent.h>
#include <waldo/sys/model.h>

#define USER(t)                                                                                    \
    {                                                                                              \
        .kind = WALDO_ITEM_USER, .text = WALDO__S(t)                                               \
    }
#define NOTICE(t)                                                                                  \
    {                                                                                              \
        .kind = WALDO_ITEM_NOTICE, .text = WALDO__S(t)                                             \
    }
#define SUMMARY(t)                                                                                 \
    {                                                                                              \
        .kind = WALDO_ITEM_COMPACTION, .text = WALDO__S(t)                                         \
    }
#define ASSISTANT(t)                                                                               \
    {                                                                                              \
        .kind = WALDO_ITEM_ASSISTANT, .text = WALDO__S(t)                                          \
    }
#define REASONING(v, t)                                                                            \
    {                                                                                              \
        .kind = WALDO_ITEM_REASONING, .vendor = WALDO__S(v), .text = WALDO__S(t)                   \
    }
#define CALL(i, n, a)                                                                              \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_CALL, .id = WALDO__S(i), .name = WALDO__S(n), .args = WALDO__S(a)  \
    }
#define RESULT(i, t)                                                                               \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S(i), .text = WALDO__S(t)                     \
    }
#define FAILED(i, t)                                                                               \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S(i), .text = WALDO__S(t), .is_error = 1      \
    }

#define IMAGE                                                                                      \
    {                                                                                              \
        .mime = WALDO__S("image/png"), .base64 = WALDO__S("iVBORw0KGgo=")                          \
    }
#define USER_SHOWS(t, images)                                                                      \
    {                                                                                              \
        .kind = WALDO_ITEM_USER, .text = WALDO__S(t), .media = (images), .media_count = 1          \
    }
#define RESULT_SHOWS(i, t, images)                                                                 \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_RESULT, .id = WALDO__S(i), .text = WALDO__S(t), .media = (images), \
        .media_count = 1                                                                           \
    }

enum { DECLARED = 2 };
extern const waldo_tool_decl declared[DECLARED];

/* With the instructions "Use tools." */
waldo_encoder *new_encoder(const waldo_model_ops *ops, const waldo_model_options *options,
                           const char *url, const char *model, size_t tool_count);

/* The tool that may be named is run_command. */
waldo_model_request request(const waldo_model_ops *ops, waldo_encoder *encoder,
                            waldo_tool_choice choice);

/* The request for items, copied to out. */
void encode(const waldo_model_ops *ops, const waldo_model_options *options, const char *url,
            const char *model, const waldo_item *items, size_t count, waldo_tool_choice choice,
            waldo__buf *out);

/* WALDO_EINVAL with the message, and nothing made. */
void expect_request_error(const waldo_model_ops *ops, waldo_encoder *encoder,
                          waldo_tool_choice choice, const char *message);

/* An encoder without items: what it refuses to send or to add, and that it loses nothing by it. */
void expect_refusals(const waldo_model_ops *ops, waldo_encoder *encoder);

/* A model of these options is refused with WALDO_EINVAL and the message. */
void expect_option_error(const waldo_model_options *options, const char *message);

/* With WALDO_GOLDEN=write the file is made instead. */
void expect_golden(const char *name, waldo_str body);

/*
 * Item by item: each body begins with the frozen part of all before it and is JSON; and what comes
 * out does not depend on how many items were added at a time.
 */
void expect_growth(const waldo_model_ops *ops, const char *url, const char *model,
                   unsigned seed_value);

#endif
