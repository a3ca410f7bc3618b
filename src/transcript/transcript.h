/*
 * The transcript of one run: an append-only list of items with the fields an adapter reads, and
 * their JSON when asked for. Pure; what to append and when is the run's business.
 */
#ifndef WALDO_TRANSCRIPT_TRANSCRIPT_H
#define WALDO_TRANSCRIPT_TRANSCRIPT_H

#include "base/buf.h"
#include "base/vec.h"
#include <waldo/sys/model.h>

typedef struct waldo__transcript {
    WALDO__VEC(struct waldo__entry *);
} waldo__transcript;

/* Append copies of items, all or none. */
waldo_status waldo__transcript_append(waldo__transcript *transcript, const waldo_item *items,
                                      size_t count);
void waldo__transcript_free(waldo__transcript *transcript);

/* Forget the items behind the first count. */
void waldo__transcript_truncate(waldo__transcript *transcript, size_t count);

/* Borrowed until the transcript is freed. */
const waldo_item *waldo__transcript_item(const waldo__transcript *transcript, size_t index);
waldo_str waldo__transcript_json(waldo__transcript *transcript, size_t index); /* "": no memory */

/* Name of a kind as in JSON, such as "tool_call". */
const char *waldo__item_kind_name(waldo_item_kind kind);

/* Text, reasoning and calls: what one response is made of. */
int waldo__is_response_part(waldo_item_kind kind);

/* One item as JSON (docs/events.md), appended. */
waldo_status waldo__item_write(const waldo_item *item, waldo__buf *out);

/* ---- journal records ---- */

/*
 * A record is one line: "sequence number, CRC-32 of what follows, JSON". The JSON object's "t"
 * names what it records.
 */
waldo_status waldo__record_write(uint64_t seq, waldo_str json, waldo__buf *out);

/* The JSON of a record, borrowed from it; WALDO_EPROTO when it is damaged or out of order. */
waldo_status waldo__record_read(waldo_str record, uint64_t expected_seq, waldo_str *ret_json);

#endif
