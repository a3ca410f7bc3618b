/*
 * JSON: a guarded parse (the only code that touches cJSON) and an append-only writer. A document is
 * checked before cJSON sees it: size, depth, UTF-8, NUL escapes, duplicate keys, trailing text.
 */
#ifndef WALDO_JSON_JSON_H
#define WALDO_JSON_JSON_H

#include "base/buf.h"
#include <waldo/sys/error.h>

/* ---- reading ---- */

typedef struct waldo__json waldo__json;             /* a parsed document */
typedef struct waldo__json_value waldo__json_value; /* borrowed from its document */

typedef struct waldo__json_limits {
    size_t max_bytes;      /* 0: 64 MiB */
    size_t max_depth;      /* 0: 128; more than 512 counts as 512 */
    size_t max_values;     /* 0: one million, each about 64 bytes of memory besides its text */
    int allow_duplicates;  /* 1: the first of two equal keys counts, as servers' output may hold */
    int repair_surrogates; /* 1: a lone surrogate escape becomes U+FFFD instead of an error */
} waldo__json_limits;

/*
 * Parse exactly one value with nothing but white space around it. limits may be NULL.
 * WALDO_EJSON, WALDO_EUTF8, WALDO_ETOOBIG, WALDO_ENOMEM; the message names the offset. A NUL escape
 * is an error, as text ends at a NUL in too many places.
 */
waldo_status waldo__json_parse(waldo_str text, const waldo__json_limits *limits,
                               waldo__json **ret_doc, waldo_error **ret_err);
/* A server's: sound, but it may say a thing twice and hold halves of characters. */
waldo_status waldo__json_parse_answer(waldo_str text, waldo__json **ret_doc, waldo_error **ret_err);
void waldo__json_free(waldo__json *doc); /* overwrites its texts first */
const waldo__json_value *waldo__json_root(const waldo__json *doc);

typedef enum waldo__json_type {
    WALDO__JSON_NONE, /* no such value */
    WALDO__JSON_NULL,
    WALDO__JSON_BOOL,
    WALDO__JSON_NUMBER,
    WALDO__JSON_STRING,
    WALDO__JSON_ARRAY,
    WALDO__JSON_OBJECT
} waldo__json_type;

/* All getters accept NULL and answer "none". */
waldo__json_type waldo__json_type_of(const waldo__json_value *value);
const waldo__json_value *waldo__json_get(const waldo__json_value *object, const char *key);
const char *waldo__json_key(const waldo__json_value *member); /* NULL outside of objects */

/* Follow member names, and positions in arrays, such as "choices.0.delta". */
const waldo__json_value *waldo__json_path(const waldo__json_value *value, const char *dotted);

/* Iterate over members or elements, O(1) a step; NULL at the end. */
const waldo__json_value *waldo__json_first(const waldo__json_value *container);
const waldo__json_value *waldo__json_next(const waldo__json_value *element);
size_t waldo__json_count(const waldo__json_value *container);

/* Typed values; 0 when the type is another or out of range, and then *ret stays. */
int waldo__json_str(const waldo__json_value *value, waldo_str *ret);
int waldo__json_int(const waldo__json_value *value, int64_t *ret); /* whole and within +-2^53 */
int waldo__json_num(const waldo__json_value *value, double *ret);
int waldo__json_bool(const waldo__json_value *value, int *ret);

/* The same for a member, with a fallback; for text it is "". */
waldo_str waldo__json_get_str(const waldo__json_value *object, const char *key);
int64_t waldo__json_get_int(const waldo__json_value *object, const char *key, int64_t fallback);
int waldo__json_get_bool(const waldo__json_value *object, const char *key, int fallback);

/* Append a value as compact JSON text. */
waldo_status waldo__json_print(const waldo__json_value *value, waldo__buf *out);

/*
 * The bytes of a document's parts, for what must be handed on as it came. The text must have been
 * parsed: of anything else the outcome is some of its bytes.
 */
typedef struct waldo__json_raw {
    waldo_str text;
    size_t at;
    int in_object;
} waldo__json_raw;

void waldo__json_raw_begin(waldo__json_raw *raw, waldo_str container); /* an object or an array */

/* The next member or element; 0 at the end. A key is what stands between its quotes. */
int waldo__json_raw_next(waldo__json_raw *raw, waldo_str *ret_key, waldo_str *ret_value);
int waldo__json_raw_get(waldo_str object, const char *key, waldo_str *ret_value);

/*
 * For messages of one form, without a parse: 1 when text is before, the inside of a string without
 * quote or escape, and after, but for spaces; before ends and after begins with its quote. What is
 * within the string is not checked.
 */
int waldo__json_raw_between(waldo_str text, const char *before, const char *after,
                            waldo_str *ret_inside);

/* Append text without the space between its parts, so that it is one line. */
waldo_status waldo__json_raw_compact(waldo_str text, waldo__buf *out);

/*
 * How far text is one complete JSON value: for assembling streamed tool arguments. Starts zeroed.
 * Brackets and strings are followed, the rest is the parse's to judge. A number or a word outside
 * of brackets is complete only with the byte behind it. Brackets that do not match, or more than
 * 512 levels, never become complete.
 */
typedef struct waldo__json_scan {
    unsigned char in_object[64]; /* one bit a level */
    size_t depth;
    unsigned char state;
    int complete; /* 1: a whole top-level value was seen */
    size_t end;   /* bytes fed up to its end */
    size_t fed;
} waldo__json_scan;

void waldo__json_scan_feed(waldo__json_scan *scan, waldo_str bytes);

/* ---- writing: append-only, no tree ---- */

typedef struct waldo__json_writer {
    waldo__buf *out;
    uint64_t first; /* bit n: nothing was written yet at depth n */
    unsigned depth; /* at most 63 */
} waldo__json_writer;

void waldo__json_writer_init(waldo__json_writer *writer, waldo__buf *out);

/*
 * Every call appends; failures stick in out->status. key is NULL inside arrays and at the top.
 * Text is escaped; invalid UTF-8, and NUL, which readers (ours too) refuse even as an escape,
 * become U+FFFD. A number is null unless finite. Raw JSON is spliced as it is.
 */
void waldo__jw_object(waldo__json_writer *writer, const char *key);
void waldo__jw_array(waldo__json_writer *writer, const char *key);
void waldo__jw_end(waldo__json_writer *writer, char closing); /* '}' or ']' */
void waldo__jw_str(waldo__json_writer *writer, const char *key, waldo_str text);
void waldo__jw_text(waldo__json_writer *writer, const char *key, const char *text); /* NULL: "" */
void waldo__jw_int(waldo__json_writer *writer, const char *key, int64_t value);     /* exact */
void waldo__jw_num(waldo__json_writer *writer, const char *key, double value);
void waldo__jw_bool(waldo__json_writer *writer, const char *key, int value);
void waldo__jw_null(waldo__json_writer *writer, const char *key);
void waldo__jw_raw(waldo__json_writer *writer, const char *key, waldo_str json);
void waldo__jw_base64(waldo__json_writer *writer, const char *key, waldo_str prefix,
                      waldo_str bytes); /* one string: prefix, then bytes in base64 */

/* Append text as the inside of a JSON string, without quotes; as waldo__jw_str() does. */
waldo_status waldo__json_escape(waldo_str text, waldo__buf *out);

#endif
