/*
 * Most events of a stream differ from the one before in a single string: the piece of text, or of
 * arguments. After an event was parsed and did nothing but add that piece, what stands around it is
 * remembered; an event with the same surroundings is the same JSON but for that string, and needs
 * no parse. Everything else takes the long way. A number that counts the events may differ, too.
 */
#ifndef WALDO_MODEL_FAST_H
#define WALDO_MODEL_FAST_H

#include "base/buf.h"

/* Surroundings on one side, with the number or without. */
typedef struct waldo__fast_side {
    waldo__buf text;
    size_t number_at; /* in text; digits are not part of it */
    int has_number;
} waldo__fast_side;

typedef struct waldo__fast {
    waldo__fast_side before; /* up to the first byte inside of the string */
    waldo__fast_side after;  /* from its closing quote on */
    waldo__buf piece;
    int effect; /* the adapter's own; 0: nothing is known */
} waldo__fast;

void waldo__fast_init(waldo__fast *fast);
void waldo__fast_free(waldo__fast *fast);

/*
 * The JSON of an event had this one effect: by the string member key, which is not empty. counter
 * names the number, or is NULL. Forgets what it knew when it cannot tell where that string stands.
 */
void waldo__fast_learn(waldo__fast *fast, waldo_str json, int effect, const char *key,
                       const char *counter);

/* 1: json has that effect, with *ret_piece, borrowed until the next call. 0: it must be parsed. */
int waldo__fast_match(waldo__fast *fast, waldo_str json, waldo_str *ret_piece);

#endif
