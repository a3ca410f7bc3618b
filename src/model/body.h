/*
 * The body of an answer, whatever the adapter: events or one JSON text, told by its first byte, cut
 * anywhere. Holds the failure that ended the reading; deltas go out through it.
 */
#ifndef WALDO_MODEL_BODY_H
#define WALDO_MODEL_BODY_H

#include "base/vec.h"
#include "codec/sse.h"
#include "model/shared.h"
#include "model/text.h"

typedef enum waldo__body_kind {
    WALDO__BODY_UNKNOWN,
    WALDO__BODY_EVENTS,
    WALDO__BODY_JSON,
    WALDO__BODY_HTML
} waldo__body_kind;

typedef struct waldo__body {
    waldo__body_kind kind;
    int is_done; /* the terminal event, or the whole of a JSON body, was read */
    waldo_status status;
    unsigned char marks; /* bytes of a byte order mark that were skipped */
    waldo_reader *reader;
    waldo_error *error;   /* a failure that ended the reading */
    waldo_delta_fn delta; /* during feed */
    void *userdata;
    waldo__sse_fn
        on_event; /* with the reader; a failure of its own was set by waldo__body_fail() */
    waldo_status (*on_json)(waldo_reader *reader, waldo_str text);
    waldo__buf content_type;
    waldo__buf preview;
    waldo__sse sse;
    waldo__buf whole;
    waldo__json_scan scan;
    waldo__buf mended; /* of the text parsed last */
    waldo__buf clean;
} waldo__body;

void waldo__body_init(waldo__body *body, waldo_reader *reader, waldo_str content_type,
                      waldo__sse_fn on_event,
                      waldo_status (*on_json)(waldo_reader *reader, waldo_str text));
void waldo__body_free(waldo__body *body);

/* What an adapter's feed() does. */
waldo_status waldo__body_feed(waldo__body *body, waldo_str bytes, waldo_delta_fn delta,
                              void *userdata, waldo_error **ret_err);

/* The body has ended: read a pending event, and refuse what is none of the expected kinds. */
waldo_status waldo__body_end(waldo__body *body);

/* Set the failure that ends the reading, and hand its status back. */
waldo_status waldo__body_fail(waldo__body *body, waldo_status status, const char *format, ...)
    WALDO_PRINTF(3, 4);
waldo_status waldo__body_fail_memory(waldo__body *body, waldo_status status);
waldo_status waldo__body_fail_provider(waldo__body *body, const waldo__json_value *root,
                                       waldo_str text);

/* Give a delta to the sink. */
waldo_status waldo__body_emit(waldo__body *body, waldo_delta_kind kind, waldo_str text);

/* Add a piece to a text, and give what became of it to the sink. */
waldo_status waldo__body_add_text(waldo__body *body, waldo__model_text *text, waldo_delta_kind kind,
                                  waldo_str piece);

/*
 * Parse one JSON text of the answer, mended where cJSON would refuse it for half a character, a NUL
 * or a wrong byte; *ret_text is what was parsed, borrowed until the next call.
 */
waldo_status waldo__body_parse(waldo__body *body, waldo_str text, waldo__json **ret_doc,
                               waldo_str *ret_text);

/* The text of an error, or an object with one: false, null and "" are none. */
int waldo__body_holds_error(const waldo__json_value *root);

/* Arguments of a call are text; some gateways send the object itself. */
waldo_status waldo__body_read_args(const waldo__json_value *value, waldo__buf *out);

/* Servers put these where arguments are missing, or behind them: nothing, blanks, "" and null. */
int waldo__args_are_placeholder(waldo_str text);

/* Cut off a placeholder that stands behind a whole object. 1: it was more than blanks. */
int waldo__args_drop_stray(waldo__buf *args);

/* Say that something was left out. */
waldo_status waldo__body_tell_stray(waldo__body *body);

/* ---- what an answer came to ---- */

typedef struct waldo__answer {
    WALDO__VEC(waldo_item); /* with the vendor below */
    int is_finished;
    waldo_finish finish;
    size_t answer_from; /* as in waldo_response */
    waldo_usage usage;
    waldo__buf vendor;
    waldo__buf id;
} waldo__answer;

void waldo__answer_init(waldo__answer *answer);
void waldo__answer_free(waldo__answer *answer);
waldo_status waldo__answer_push(waldo__answer *answer, waldo_item item);

/* What an adapter's usage() does. */
void waldo__answer_usage(const waldo__answer *answer, waldo_usage *ret_usage);

/*
 * Before a call is pushed: without an id, or with that of a call before it, it gets its own, and
 * loses its raw JSON, since it cannot be sent back as it came.
 */
waldo_status waldo__answer_name_call(const waldo__answer *answer, waldo__buf *id, waldo__buf *raw);

/* What an adapter's finish() does; once() puts the items together and leaves failures in body. */
waldo_status waldo__answer_finish(waldo__answer *answer, waldo__body *body,
                                  waldo_status (*once)(waldo_reader *reader),
                                  waldo_response *ret_response, waldo_error **ret_err);

#endif
