/*
 * Values that the body of an answer holds in pieces, over several of its events: each piece is the
 * inside of a JSON string, and the reader puts them together to the text that a transcript has.
 */
#ifndef WALDO_AGENT_TORN_H
#define WALDO_AGENT_TORN_H

#include "base/vec.h"
#include "secret/secret.h"

/* Part of one JSON string of the body, which lies at at (without quotes), to be replaced. */
typedef struct waldo__torn_edit {
    size_t at;
    size_t len;
    waldo__buf json; /* what comes there: the inside of a string */
} waldo__torn_edit;

/* In the order of the body. Starts zeroed, is to be freed in any case. */
typedef struct waldo__torn_edits {
    WALDO__VEC(waldo__torn_edit);
} waldo__torn_edits;

/*
 * Strings at the same place of several events, such as choices.delta.content, are one text; those
 * of parts that are numbered otherwise ("index" and the like) are not. WALDO_ENOMEM, WALDO_ETOOBIG.
 */
waldo_status waldo__torn_find(const waldo__secrets *secrets, waldo_str body,
                              waldo__torn_edits *edits);
void waldo__torn_free(waldo__torn_edits *edits);

#endif
