/**
 * @file
 * Events of a run, pulled with waldo_run_next().
 */
#ifndef WALDO_EVENT_H
#define WALDO_EVENT_H

#include <waldo/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Borrowed until the next pull from the same run. */
typedef struct waldo_event waldo_event;

typedef int32_t waldo_event_kind;
enum {
    WALDO_EVENT_TEXT = 1,    /* a piece of the answer; provisional until its item */
    WALDO_EVENT_REASONING,   /* a piece of readable reasoning; provisional */
    WALDO_EVENT_ITEM,        /* an item of the transcript is final: waldo_event_json() holds it */
    WALDO_EVENT_TOOL_CALL,   /* a call begins */
    WALDO_EVENT_OUTPUT,      /* live output of a running call */
    WALDO_EVENT_TOOL_RESULT, /* a call has ended; text is what the model will read */
    WALDO_EVENT_APPROVAL,    /* a call waits for the host */
    WALDO_EVENT_USAGE,       /* tokens of one request; also of one that failed or was cancelled */
    WALDO_EVENT_SANDBOX,     /* opened, lost, closed; text says it */
    WALDO_EVENT_RETRY,       /* a request is tried again; text says why */
    WALDO_EVENT_EPOCH,       /* the frozen part of the request changed; text says why */
    WALDO_EVENT_WARNING,     /* text says what */
    WALDO_EVENT_STATE        /* the run's state changed */
};

/**
 * Tokens as the provider reports them; -1 where it did not. What an answer that was cut, cancelled
 * or lost has used is not known as a whole: the numbers then are what was said of it before.
 */
typedef struct waldo_usage {
    int64_t input_tokens;
    int64_t output_tokens;
    int64_t cached_tokens; /* of the input, read from the provider's cache */
    int64_t reasoning_tokens;
    int64_t cost;       /* micro-units of the currency of the price list; -1: not known */
    int32_t incomplete; /* 1: more was used, or cost more, than the numbers say */
    int32_t reserved;
    int64_t cache_write_tokens; /* of the input, written to the provider's cache */
} waldo_usage;

/**
 * @param event  borrowed for the call
 * @return its kind; 0 for NULL
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_event_kind waldo_event_type(const waldo_event *event);

/**
 * @param event  borrowed for the call
 * @return its text, borrowed until the next pull; empty when the kind has none
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_str waldo_event_text(const waldo_event *event);

/**
 * @param event  borrowed for the call
 * @return id of the call an event is about, borrowed until the next pull; "" for other kinds
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_event_call_id(const waldo_event *event);

/**
 * @param event  borrowed for the call
 * @return name of the tool an event is about, borrowed until the next pull; "" for other kinds
 * Thread: driving. Since: 0.1.
 */
WALDO_API const char *waldo_event_tool(const waldo_event *event);

/**
 * @param event  borrowed for the call
 * @return for WALDO_EVENT_OUTPUT 1 (standard output) or 2 (standard error); else 0
 * Thread: driving. Since: 0.1.
 */
WALDO_API int waldo_event_stream(const waldo_event *event);

/**
 * @param event  borrowed for the call
 * @return usage of a WALDO_EVENT_USAGE, borrowed until the next pull; NULL for other kinds
 * Thread: driving. Since: 0.1.
 */
WALDO_API const waldo_usage *waldo_event_usage(const waldo_event *event);

/**
 * @param event  borrowed for the call
 * @return the run's state after a WALDO_EVENT_STATE (waldo_run_state); else 0
 * Thread: driving. Since: 0.1.
 */
WALDO_API int32_t waldo_event_state(const waldo_event *event);

/**
 * The whole event as one line of JSON without a newline; the schema is docs/events.md.
 *
 * @param event  borrowed for the call
 * @return borrowed until the next pull; empty when out of memory
 * Thread: driving. Since: 0.1.
 */
WALDO_API waldo_str waldo_event_json(const waldo_event *event);

/**
 * @param kind  any value
 * @return static text, the "type" of waldo_event_json(), such as "tool_call"; "?" for unknown
 *         values
 * Thread: any. Since: 0.1.
 */
WALDO_API const char *waldo_event_kind_name(waldo_event_kind kind);

#ifdef __cplusplus
}
#endif

#endif
