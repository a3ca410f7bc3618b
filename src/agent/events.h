/*
 * The queue of events of one run: bounded. Deltas of one kind coalesce. A run whose events are
 * pulled stops reading its model's stream while the queue is full; one that nobody has pulled from
 * yet forgets its oldest events instead.
 */
#ifndef WALDO_AGENT_EVENTS_H
#define WALDO_AGENT_EVENTS_H

#include "base/buf.h"
#include "transcript/transcript.h"
#include <waldo/event.h>

struct waldo_event {
    struct waldo_event *next;
    waldo_event_kind kind;
    int32_t state;
    int stream;
    waldo_usage usage;
    waldo__buf text;
    char *call_id;            /* NULL: none */
    char *tool;               /* NULL: none */
    waldo__transcript *items; /* of an item event */
    size_t item;
    waldo__buf json; /* made when asked for */
};

typedef struct waldo__events {
    struct waldo_event *head;
    struct waldo_event *tail;
    struct waldo_event *pulled; /* lent to the host until the next pull */
    size_t count;
    size_t bytes;        /* of text in the queue */
    size_t output_bytes; /* of live output among them */
    uint64_t skipped;    /* bytes of live output that found no room */
    int observed;        /* somebody pulls */
    int lost;            /* memory was out: the run has to fail */
} waldo__events;

void waldo__events_free(waldo__events *events);
int waldo__events_full(const waldo__events *events);

/* A new event at the end, to be filled in at once; NULL when out of memory. */
struct waldo_event *waldo__events_push(waldo__events *events, waldo_event_kind kind);

/* An event with text, and one about a call. */
void waldo__events_text(waldo__events *events, waldo_event_kind kind, waldo_str text);
void waldo__events_call(waldo__events *events, waldo_event_kind kind, const char *call_id,
                        const char *tool, waldo_str text);

/* A piece of a stream: joined with the last event when that is of the same stream. */
void waldo__events_delta(waldo__events *events, waldo_event_kind kind, waldo_str text);
void waldo__events_output(waldo__events *events, const char *call_id, const char *tool, int stream,
                          waldo_str bytes);

/* The next event, lent until the next pull; NULL when there is none. */
const struct waldo_event *waldo__events_pull(waldo__events *events);

#endif
