/*
 * The state of an answer being read: chat_read.c takes the body, chat_chunk.c one JSON text of it.
 */
#ifndef WALDO_MODEL_CHAT_READER_H
#define WALDO_MODEL_CHAT_READER_H

#include "codec/sse.h"
#include "model/chat.h"
#include "model/chat_fast.h"
#include "model/chat_text.h"

/* What the body is; told by its first byte, whatever Content-Type claims. */
typedef enum waldo__chat_body {
    WALDO__CHAT_BODY_UNKNOWN,
    WALDO__CHAT_BODY_EVENTS,
    WALDO__CHAT_BODY_JSON,
    WALDO__CHAT_BODY_HTML
} waldo__chat_body;

typedef enum waldo__chat_ending {
    WALDO__CHAT_ENDING_NONE,
    WALDO__CHAT_ENDING_STOP,
    WALDO__CHAT_ENDING_CALLS,
    WALDO__CHAT_ENDING_LENGTH,
    WALDO__CHAT_ENDING_FILTER,
    WALDO__CHAT_ENDING_FAILED,
    WALDO__CHAT_ENDING_UNKNOWN
} waldo__chat_ending;

struct waldo_reader {
    waldo__chat_quirks quirks;
    waldo__buf vendor;
    waldo__buf content_type;
    waldo__chat_body mode;
    int is_done; /* [DONE], or the whole of a JSON body */
    waldo__buf preview;
    unsigned char marks; /* bytes of a byte order mark that were skipped */
    waldo__sse sse;
    waldo__buf body;
    waldo__json_scan scan;
    waldo__buf scratch;
    waldo__chat_text text;
    waldo__chat_text reasoning;
    waldo__chat_text refusal;
    waldo__chat_calls calls;
    waldo__chat_fast fast;
    waldo__chat_effect effect; /* of the event being read, by which member and of which call */
    const char *effect_key;
    int64_t effect_index;
    waldo__buf reason;
    waldo__chat_ending ending;
    int warned;
    waldo_usage usage;
    waldo__buf id;
    waldo_error *error; /* a failure that ended the reading */
    waldo_status status;
    waldo_delta_fn delta; /* during feed() */
    void *userdata;
    WALDO__VEC(waldo_item);
    int is_finished;
    waldo_finish finish;
};

/* Set the failure that ends the reading, and hand its status back. */
waldo_status waldo__chat_fail(waldo_reader *reader, waldo_status status, const char *format, ...)
    WALDO_PRINTF(3, 4);
waldo_status waldo__chat_fail_memory(waldo_reader *reader, waldo_status status);
waldo_status waldo__chat_fail_provider(waldo_reader *reader, const waldo__json_value *root,
                                       waldo_str text);

/* Read a chunk of a stream, or a whole answer; the long way, or as one like the one before it. */
waldo_status waldo__chat_read_json(waldo_reader *reader, waldo_str text);
waldo_status waldo__chat_read_piece(waldo_reader *reader, waldo_str piece);

#endif
