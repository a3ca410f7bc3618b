/* What the files of the Chat Completions adapter share. */
#ifndef WALDO_MODEL_CHAT_H
#define WALDO_MODEL_CHAT_H

#include "base/vec.h"
#include "model/shared.h"

enum {
    WALDO__CHAT_ID_MAX = 40 /* id of a call, where the server sets no other length */
};

/* ---- how servers differ (chat_quirks.c) ---- */

typedef struct waldo__chat_quirks {
    const char *server;           /* name of the row */
    const char *max_tokens;       /* member that carries the output limit */
    const char *seed;             /* member that carries the seed */
    const char *required;         /* how "some tool" is spelled in tool_choice */
    const char *reasoning_field;  /* member that carries reasoning back; "none": it is not sent */
    const char *output_format;    /* type of response_format for a schema; "none": not sent */
    unsigned char stream;         /* answers are streamed */
    unsigned char stream_options; /* the member is known */
    unsigned char no_obfuscation; /* ask for chunks without padding */
    unsigned char tool_choice;    /* the member is known; else tools are left out to forbid them */
    unsigned char parallel;       /* parallel_tool_calls is known */
    unsigned char null_content;   /* content beside calls is null, else "" */
    unsigned char valid_args;     /* arguments in the history must be JSON */
    unsigned char short_ids;      /* ids of calls are exactly 9 letters and digits */
    unsigned char tool_name;      /* results carry the tool's name */
    unsigned char merge;          /* adjacent texts of one role become one message */
    unsigned char assistant_between; /* no user message right behind a result */
    unsigned char images;            /* the model is sent images; else a line in their place */
    unsigned char prefix;            /* an assistant message at the end needs "prefix" */
} waldo__chat_quirks;

/* The row for options->quirks "server=", else for the URL; then the other switches of the text. */
waldo_status waldo__chat_quirks_find(const waldo_model_options *options, waldo_str url,
                                     waldo__chat_quirks *ret_quirks, waldo_error **ret_err);

/* Split "URL#NAME". */
waldo_status waldo__chat_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                               waldo_error **ret_err);

/* "chat:ROW/FAMILY": who understands what a server made besides the common form. */
waldo_status waldo__chat_vendor(const waldo__chat_quirks *quirks, waldo_str model, waldo__buf *out);

/* ---- tool calls out of deltas (chat_calls.c) ---- */

typedef struct waldo__chat_call {
    int64_t index; /* -1: none */
    int64_t alias; /* an index that only its later fragments had; -1: none */
    waldo__buf id;
    waldo__buf name;
    waldo__buf args;
    waldo__buf extra; /* JSON object of further members that the server wants back */
    waldo__json_scan scan;
} waldo__chat_call;

typedef struct waldo__chat_call_list {
    WALDO__VEC(waldo__chat_call *);
} waldo__chat_call_list;

typedef struct waldo__chat_calls {
    waldo__chat_call_list named; /* in the order in which they got their names */
    waldo__chat_call_list late;  /* arguments came, the name did not */
    size_t args_total;
} waldo__chat_calls;

/* One fragment of a call; text that is empty counts as missing. */
typedef struct waldo__chat_fragment {
    int64_t index; /* -1: none */
    waldo_str id;
    waldo_str name;
    waldo_str args;
    waldo_str extra;
    int is_whole; /* of a response that is not streamed: always a call of its own */
} waldo__chat_fragment;

/*
 * Add a fragment. *ret_call is the call it belongs to, NULL when it waits for its name or belongs
 * to none; *ret_is_new says whether it began one. WALDO_ENOMEM, WALDO_ETOOBIG.
 */
waldo_status waldo__chat_calls_add(waldo__chat_calls *calls, const waldo__chat_fragment *fragment,
                                   waldo__chat_call **ret_call, int *ret_is_new);

/* 1 when something was sent that _end() will drop: behind whole arguments, or without a name. */
int waldo__chat_calls_have_stray(const waldo__chat_calls *calls);

/*
 * After the last fragment: put the calls in order, give ids to those without one of their own, and
 * settle arguments that are empty or followed by a stray "" or null. is_cut: the answer ended at
 * the output limit, so that the last call may be unfinished.
 */
waldo_status waldo__chat_calls_end(waldo__chat_calls *calls, int short_ids, int is_cut);
void waldo__chat_calls_free(waldo__chat_calls *calls);

/* ---- encoder (chat_encode.c) and reader (chat_read.c), as in waldo_model_ops ---- */

waldo_status waldo__chat_new_encoder(const waldo_model_epoch *epoch, waldo_encoder **ret_encoder,
                                     waldo_error **ret_err);
waldo_status waldo__chat_append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                                waldo_error **ret_err);
waldo_status waldo__chat_request(waldo_encoder *encoder, const waldo_model_turn *turn,
                                 waldo_model_request *ret_request, waldo_error **ret_err);
void waldo__chat_free_encoder(waldo_encoder *encoder);

waldo_status waldo__chat_new_reader(const waldo_model_options *options, waldo_str content_type,
                                    waldo_reader **ret_reader);
waldo_status waldo__chat_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                              void *userdata, waldo_error **ret_err);
int waldo__chat_complete(const waldo_reader *reader);
void waldo__chat_usage(const waldo_reader *reader, waldo_usage *ret_usage);
waldo_status waldo__chat_finish(waldo_reader *reader, waldo_response *ret_response,
                                waldo_error **ret_err);
void waldo__chat_free_reader(waldo_reader *reader);

#endif
