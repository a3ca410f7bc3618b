/* Conversations as lists of chat messages, the form that many programs keep. Pure. */
#ifndef WALDO_TRANSCRIPT_MESSAGES_H
#define WALDO_TRANSCRIPT_MESSAGES_H

#include "json/json.h"
#include "transcript/media.h"
#include "transcript/transcript.h"

/* What was read: items borrow from the rest. Starts zeroed, is to be freed in any case. */
typedef struct waldo__messages {
    WALDO__VEC(waldo_item);
    waldo__json *doc;
    struct {
        WALDO__VEC(char *);
    } texts;
    struct {
        WALDO__VEC(waldo__media_list *);
    } media;
} waldo__messages;

/* WALDO_EJSON and the like, or WALDO_EINVAL that names the message and what is wrong with it. */
waldo_status waldo__messages_read(waldo_str json, waldo__messages *messages, waldo_error **ret_err);
void waldo__messages_free(waldo__messages *messages);

/*
 * Append the list of the first count items. Reasoning and what providers kept for themselves have
 * no place in it.
 */
waldo_status waldo__messages_write(const waldo__transcript *transcript, size_t count,
                                   waldo__buf *out);

#endif
