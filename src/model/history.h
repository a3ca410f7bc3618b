/*
 * What the encoders of all adapters share: names, ids and texts as servers take them, and the
 * bookkeeping that mends a history which a server would refuse: every call gets exactly one result,
 * and nothing stands between calls and their results.
 */
#ifndef WALDO_MODEL_HISTORY_H
#define WALDO_MODEL_HISTORY_H

#include "base/vec.h"
#include "model/shared.h"
#include "transcript/media.h"

enum {
    WALDO__WIRE_ID_MAX = 65,       /* ids of at most 64 bytes, and a NUL */
    WALDO__REQUEST_MAX = 256 << 20 /* one request */
};

/* What a server takes as the id of a call. */
typedef enum waldo__id_rule {
    WALDO__ID_PRINTABLE,
    WALDO__ID_EXACT, /* letters and digits, as many as the most */
    WALDO__ID_WORD,  /* letters, digits, _ and -, each id once in the whole conversation */
} waldo__id_rule;

typedef struct waldo__history_call {
    char *id;   /* as in the transcript */
    char *wire; /* as this server takes it */
    char *name;
    int form; /* the adapter's own */
    int answered;
} waldo__history_call;

typedef struct waldo__history_held {
    waldo_item_kind kind;
    char *text;
    size_t len;
    waldo__media_list media;
} waldo__history_held;

/* Starts zeroed. */
typedef struct waldo__history {
    int has_results; /* some call of the group was answered */
    size_t images;   /* of its results, that are shown behind them */
    size_t unanswered;
    struct {
        WALDO__VEC(waldo__history_call);
    } group; /* calls of the last answer that has any */
    struct {
        WALDO__VEC(waldo__history_held);
    } held; /* texts that came between calls and their results */
    struct {
        WALDO__VEC(uint64_t);
    } used; /* hashes of all ids, for WALDO__ID_WORD */
} waldo__history;

/*
 * How an adapter writes what the functions below decide; of a result its text, is_error and media
 * count, of what was said its kind, too. The second half is for waldo__history_add() alone.
 */
typedef struct waldo__history_writer {
    void (*result)(void *userdata, const waldo__history_call *call, const waldo_item *item);
    void (*said)(void *userdata, const waldo_item *item);
    void *userdata;
    int media_behind; /* results are text only: their images are said behind the last of them */

    void (*begin_answer)(void *userdata); /* may be NULL */
    waldo_status (*assistant)(void *userdata, const waldo_item *item);
    /* The count - 1 items behind this one are of the same answer. */
    waldo_status (*reasoning)(void *userdata, const waldo_item *item, size_t count);
    waldo_status (*call)(void *userdata, const waldo_item *item);
} waldo__history_writer;

/* to is free of memory; it must be freed whatever is returned. */
waldo_status waldo__history_copy(waldo__history *to, const waldo__history *from);
void waldo__history_free(waldo__history *history);

/* A text between calls and their results: it goes out behind the last of these. */
waldo_status waldo__history_hold(waldo__history *history, const waldo_item *item);

/* The calls that follow are those of another answer. */
void waldo__history_begin_group(waldo__history *history);
waldo_status waldo__history_add_call(waldo__history *history, waldo_str id, waldo_str wire,
                                     waldo_str name, int form);

/* A result belongs to the first call of its id that has none; one without a call is left out. */
waldo_status waldo__history_add_result(waldo__history *history, const waldo__history_writer *writer,
                                       const waldo_item *item);

/* A new answer of the model although calls of the last one have no result: they never will. */
void waldo__history_lose_calls(waldo__history *history, const waldo__history_writer *writer);

/*
 * Items of the transcript, mended. Neighbours that are parts of a response are one answer; one of
 * calls alone may belong to the calls before it, as long as none of these is answered.
 */
waldo_status waldo__history_add(waldo__history *history, const waldo__history_writer *writer,
                                const waldo_item *items, size_t count);

/* The error for a request while calls have no result. */
waldo_status waldo__history_refuse(const waldo__history *history, waldo_error **ret_err);

/* A request could not be what: its body loses all behind the frozen part, and the failure. */
waldo_status waldo__request_fail(waldo__buf *body, size_t frozen, waldo_status status,
                                 const char *what, waldo_error **ret_err);

/* An epoch's encoder could not be made; an error that is set already stays. */
waldo_status waldo__request_unbegun(waldo_status status, waldo_error **ret_err);

/* Content-Type and Accept. */
waldo_str waldo__request_headers(int streamed);

/* ---- names, ids and texts ---- */

/* Servers refuse a history with a name that a tool could not have; models make such names up. */
waldo_str waldo__wire_name(waldo_str name, char wire[WALDO__MODEL_NAME_MAX + 1]);

/*
 * The id as it is when it has at most max bytes, the rule allows it and no call of the group has
 * it; else one made from it: the same for the same id, and different from those of the other calls
 * of its group (WALDO__ID_WORD: of all calls).
 */
void waldo__wire_id(const waldo__history *history, waldo_str id, size_t max, waldo__id_rule rule,
                    char wire[WALDO__WIRE_ID_MAX]);
int waldo__wire_id_is_taken(const waldo__history *history, waldo_str wire);

/* From now on no other call gets this id. */
waldo_status waldo__wire_id_use(waldo__history *history, waldo_str wire);

/* Append the inside of a JSON string: what the host or the user said, and what a tool answered. */
void waldo__wire_said(waldo_item_kind kind, waldo_str text, waldo__buf *out);
void waldo__wire_result(waldo_str text, int is_error, waldo__buf *out);
void waldo__wire_data_url(const waldo_media *media, waldo__buf *out);

/* The tool's schema, {} when it has none; WALDO_EJSON when it is no JSON object. */
waldo_status waldo__wire_schema(const waldo_tool_decl *tool, waldo_str *ret_schema,
                                waldo_error **ret_err);

/* Whether text is a JSON object, or 0 with *ret_status when memory was out. */
int waldo__wire_is_object(waldo_str text, waldo_status *ret_status);

/* The provider's own JSON of an item that this vendor made, else empty. *ret_status as above. */
waldo_str waldo__wire_own_raw(const waldo_item *item, const waldo__buf *vendor,
                              waldo_status *ret_status);

/* Whether an object's JSON has a member that is a string of exactly these bytes. */
int waldo__wire_raw_says(waldo_str raw, const char *member, waldo_str value);

#endif
