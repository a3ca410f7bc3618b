/* Text that comes in pieces, each the inside of a JSON string of its own. */
#ifndef WALDO_MODEL_TEXT_H
#define WALDO_MODEL_TEXT_H

#include "base/buf.h"

typedef struct waldo__model_text {
    waldo__buf text;
    unsigned high; /* the first half of a surrogate pair that ended the last piece; 0: none */
} waldo__model_text;

void waldo__model_text_init(waldo__model_text *text);

/*
 * JSON text in which escapes that no valid text can hold are replaced: \u0000 by U+FFFD, half of a
 * surrogate pair by a mark that the functions below understand. *text is left alone when there are
 * none, else set to what scratch then holds.
 */
waldo_status waldo__model_text_mend(waldo_str *text, waldo__buf *scratch);

/* Add a piece. The two halves of a pair that was cut between pieces become one character. */
waldo_status waldo__model_text_add(waldo__model_text *text, waldo_str piece);

/* After the last piece. */
waldo_status waldo__model_text_end(waldo__model_text *text);

/* 0: nothing in it would be replaced by waldo__model_text_plain(). */
int waldo__model_text_has_mark(waldo_str piece);

/* Append a piece of something else, in which each mark becomes U+FFFD. */
waldo_status waldo__model_text_plain(waldo_str piece, waldo__buf *out);

#endif
