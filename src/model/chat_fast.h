/*
 * Most events of a stream differ from the one before in a single string: the piece of text, or of
 * arguments. After an event was parsed and did nothing but add that piece, what stands around it is
 * remembered; an event with the same surroundings is the same JSON but for that string, and needs
 * no parse. Everything else takes the long way.
 */
#ifndef WALDO_MODEL_CHAT_FAST_H
#define WALDO_MODEL_CHAT_FAST_H

#include "base/buf.h"

typedef enum waldo__chat_effect {
    WALDO__CHAT_EFFECT_NONE,
    WALDO__CHAT_EFFECT_TEXT,
    WALDO__CHAT_EFFECT_REASONING,
    WALDO__CHAT_EFFECT_ARGS,
    WALDO__CHAT_EFFECT_OTHER /* several, or one that is not a piece of a string */
} waldo__chat_effect;

typedef struct waldo__chat_fast {
    waldo__buf before; /* up to the first byte inside of the string */
    waldo__buf after;  /* from its closing quote on */
    waldo__buf piece;
    waldo__chat_effect effect;
    int64_t index; /* of the call */
} waldo__chat_fast;

void waldo__chat_fast_init(waldo__chat_fast *fast);
void waldo__chat_fast_free(waldo__chat_fast *fast);

/*
 * The JSON of an event had this one effect: by the string member key, which is not empty. Forgets
 * what it knew when it cannot tell where that string stands.
 */
void waldo__chat_fast_learn(waldo__chat_fast *fast, waldo_str json, waldo__chat_effect effect,
                            const char *key, int64_t index);

/* 1: json has that effect, with *ret_piece, borrowed until the next call. 0: it must be parsed. */
int waldo__chat_fast_match(waldo__chat_fast *fast, waldo_str json, waldo_str *ret_piece);

#endif
