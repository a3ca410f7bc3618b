/*
 * The state of an answer being read: chat_read.c takes the body, chat_chunk.c one JSON text of it.
 */
#ifndef WALDO_MODEL_CHAT_READER_H
#define WALDO_MODEL_CHAT_READER_H

#include "model/body.h"
#include "model/chat.h"
#include "model/fast.h"

typedef enum waldo__chat_ending {
    WALDO__CHAT_ENDING_NONE,
    WALDO__CHAT_ENDING_STOP,
    WALDO__CHAT_ENDING_CALLS,
    WALDO__CHAT_ENDING_LENGTH,
    WALDO__CHAT_ENDING_FILTER,
    WALDO__CHAT_ENDING_FAILED,
    WALDO__CHAT_ENDING_UNKNOWN
} waldo__chat_ending;

/* What an event did. */
typedef enum waldo__chat_effect {
    WALDO__CHAT_EFFECT_NONE,
    WALDO__CHAT_EFFECT_TEXT,
    WALDO__CHAT_EFFECT_REASONING,
    WALDO__CHAT_EFFECT_ARGS,
    WALDO__CHAT_EFFECT_OTHER /* several, or one that is not a piece of a string */
} waldo__chat_effect;

struct waldo_reader {
    waldo__chat_effect effect; /* of the event being read, by which member and of which call */
    const char *effect_key;
    int64_t effect_index;
    waldo__chat_ending ending;
    int warned;
    waldo__model_text text;
    waldo__body body;
    waldo__chat_quirks quirks;
    waldo__answer answer;
    waldo__model_text reasoning;
    waldo__model_text refusal;
    waldo__chat_calls calls;
    waldo__fast fast;
    int64_t fast_index; /* of the call that the piece is for */
    waldo__buf reason;
};

/* Read a chunk of a stream, or a whole answer; the long way, or as one like the one before it. */
waldo_status waldo__chat_read_json(waldo_reader *reader, waldo_str text);
waldo_status waldo__chat_read_piece(waldo_reader *reader, waldo_str piece);

#endif
