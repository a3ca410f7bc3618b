/* Reads an answer through the adapter's ops and keeps what came out as text, for the tests here. */
#ifndef WALDO_TESTS_MODEL_READ_H
#define WALDO_TESTS_MODEL_READ_H

#include "base/buf.h"
#include <waldo/sys/model.h>

/* How the body is cut. */
typedef struct read_cuts {
    size_t step; /* pieces of that length; 0: none but those below */
    size_t first;
    size_t second;
} read_cuts;

/*
 * out gets one line for each delta that is not cut by the pieces ("call NAME", "warning TEXT"), for
 * text and reasoning all pieces joined, for each item, and last for the finish or the error.
 */
void read_answer(const waldo_model_options *options, const char *content_type, waldo_str body,
                 read_cuts cuts, waldo__buf *out);

/* Compare the outcome at every single cut, at pieces of 1 and of 3 bytes, and in one. */
void expect_answer(const char *options_model, const char *content_type, waldo_str body,
                   const char *expected);

/*
 * The same for a stream in every dress that official decoders take: each line end, plain and with a
 * byte order mark and comments; without the space behind the colon, with lines of other fields;
 * and, unless torn_behind is NULL, without the last blank line, and with JSON that goes on in
 * another data line behind this text.
 */
void expect_in_any_dress(const char *options_model, const char *content_type, waldo_str body,
                         const char *torn_behind, const char *expected);

/* The adapter of the options' model string. */
const waldo_model_ops *read_ops(const waldo_model_options *options);

/* The text of a file below tests/, free with waldo__free(). */
char *read_file(const char *name, size_t *ret_len);

/* Replace every occurrence of a word. */
void change_words(waldo_str text, const char *from, const char *to, waldo__buf *out);

/* Replace each LF by another line end. */
void change_line_ends(waldo_str text, const char *end, waldo__buf *out);

/* With SSE framing: LF. Each text is the JSON of one event. */
void expect_model_events(const char *model, const char *const *events, const char *expected);
void expect_events(const char *const *events, const char *expected);
void expect_events_in_any_dress(const char *const *events, const char *expected);

#endif
