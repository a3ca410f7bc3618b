/**
 * @file
 * For authors of model adapters. Stable within a minor version only.
 *
 * An adapter is a pure translator without I/O: an encoder turns items into HTTP requests, a reader
 * turns response bytes into deltas and items. It knows nothing of sandboxes, runs or sockets.
 */
#ifndef WALDO_SYS_MODEL_H
#define WALDO_SYS_MODEL_H

#include <waldo/error.h>
#include <waldo/event.h>
#include <waldo/model.h>
#include <waldo/sys/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WALDO_MODEL_VERSION 1u

/** Kinds of transcript items. */
typedef int32_t waldo_item_kind;
enum {
    WALDO_ITEM_USER = 1,
    WALDO_ITEM_ASSISTANT,
    WALDO_ITEM_REASONING,
    WALDO_ITEM_TOOL_CALL,
    WALDO_ITEM_TOOL_RESULT,
    WALDO_ITEM_NOTICE,    /* host to model, beside the conversation */
    WALDO_ITEM_COMPACTION /* stands for everything before it */
};

/** An image that belongs to an item: one of PNG, JPEG, GIF, WebP. Borrowed as the item is. */
typedef struct waldo_media {
    waldo_str mime;   /* such as "image/png" */
    waldo_str base64; /* its bytes in the standard alphabet, with padding */
} waldo_media;

/**
 * One item, as the adapter reads and writes it. All text is borrowed and valid UTF-8 without being
 * JSON-escaped, except raw and extra, which are JSON.
 */
typedef struct waldo_item {
    waldo_item_kind kind;
    int32_t is_error; /* of a tool result */
    waldo_str text;   /* user, assistant, notice, reasoning text, result text, compaction summary */
    waldo_str id;     /* call id of a call and its result */
    waldo_str name;   /* tool of a call */
    waldo_str args;   /* of a call: the model's own text, verbatim, even when it is not JSON */
    waldo_str vendor; /* adapter and model family that made raw; empty: made by the host */
    waldo_str raw;    /* provider's own JSON for this item, sent back verbatim to the same vendor */
    const waldo_media *media; /* images of a user's text or a tool's result, behind its text */
    size_t media_count;
    waldo_str response; /* id of the response it is part of, where the provider keeps the history */
} waldo_item;

/** A tool as the adapter declares it to the model. */
typedef struct waldo_tool_decl {
    waldo_str name;
    waldo_str about;
    waldo_str schema;   /* JSON */
    waldo_str freeform; /* property that may come as plain text, the only required one; or empty */
    waldo_str grammar;  /* of that text, in the syntax of Lark; empty: any text */
} waldo_tool_decl;

/** The frozen part of every request of an epoch. Everything is borrowed for the call. */
typedef struct waldo_model_epoch {
    uint32_t size;
    int32_t parallel_calls;             /* 0: ask for one call at a time */
    const waldo_model_options *options; /* defaults and quirks of the model */
    waldo_str model;                    /* name as the server knows it */
    waldo_str url;                      /* base URL, for quirks that go by server */
    waldo_str instructions;
    const waldo_tool_decl *tools;
    size_t tool_count;
    const double *temperature; /* NULL: the model's */
    waldo_str output_schema;   /* JSON schema of final answers; empty: none. Instructions tell it */
    uint32_t max_output;       /* most tokens of one answer, where that is known; 0: it is not */
} waldo_model_epoch;

/** The part of a request that may differ from turn to turn; it stands behind the messages. */
typedef struct waldo_model_turn {
    uint32_t size;
    int32_t tool_choice; /* waldo_tool_choice */
    waldo_str tool_choice_name;
} waldo_model_turn;

/** One request, ready to send; everything is borrowed from the encoder until its next call. */
typedef struct waldo_model_request {
    uint32_t size;
    int32_t streamed;  /* 1: the answer is read while it comes */
    waldo_str path;    /* below the base URL, such as "/chat/completions" */
    waldo_str headers; /* "Name: value\n" lines beside authorisation and those of the options */
    waldo_str body;
    size_t frozen_len; /* body bytes that every later request of this epoch begins with */
} waldo_model_request;

/** Who keeps the conversation between requests. */
typedef int32_t waldo_history;
enum {
    WALDO_HISTORY_HOST = 0,    /* every request holds all of it */
    WALDO_HISTORY_RESPONSES,   /* the provider: a request goes on from a response and may be tried
                                  again, for it changes nothing that was there */
    WALDO_HISTORY_CONVERSATION /* the provider, in one place that each answer adds to: what may have
                                  been answered cannot be asked again */
};

/** Builds the requests of one epoch; the adapter's own. Append-only by construction. */
typedef struct waldo_encoder waldo_encoder;

/** What a response is made of, given to the sink of feed() while bytes are read. */
typedef int32_t waldo_delta_kind;
enum {
    WALDO_DELTA_TEXT = 1,  /* text: a piece of the answer */
    WALDO_DELTA_REASONING, /* text: a piece of readable reasoning */
    WALDO_DELTA_CALL,      /* a call has begun: text is its name when known; provisional */
    WALDO_DELTA_WARNING    /* text: something was odd and dealt with */
};

/**
 * Receives a delta; text is borrowed for the call. A failure stops the reading.
 */
typedef waldo_status (*waldo_delta_fn)(void *userdata, waldo_delta_kind kind, waldo_str text);

/** The finished response. Borrowed from the reader until it is freed. */
typedef struct waldo_response {
    uint32_t size;
    waldo_finish finish;
    const waldo_item *items; /* in the order they belong into the transcript */
    size_t item_count;
    waldo_usage usage;
    waldo_str request_id;
    size_t answer_from; /* texts of items before this one are no part of the answer */
} waldo_response;

/** State of one response being read; the adapter's own. */
typedef struct waldo_reader waldo_reader;

/**
 * What an adapter implements. Append-only, as every vtable. All ops are pure and synchronous and
 * may be called from any thread as long as each reader stays on one.
 */
typedef struct waldo_model_ops {
    uint32_t version;        /* WALDO_MODEL_VERSION */
    uint32_t size;           /* sizeof(waldo_model_ops) */
    const char *name;        /* "chat": the kind before the colon of a model string; static */
    const char *about;       /* one line; static */
    const char *key_name;    /* key asked for when the model names none; NULL: none needed */
    const char *auth_header; /* header that carries the key, such as "Authorization" */
    const char *auth_prefix; /* in front of the key in it, such as "Bearer " */

    /**
     * Mandatory. Check what follows the colon and split it: base URL and model name, both set to
     * parts of rest or static text. A failure carries an actionable message.
     */
    waldo_status (*parse)(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                          waldo_error **ret_err);

    /** Mandatory. Begin an epoch. */
    waldo_status (*new_encoder)(const waldo_model_epoch *epoch, waldo_encoder **ret_encoder,
                                waldo_error **ret_err);

    /**
     * Mandatory. Add items behind those added before. The items of one response come in one call;
     * what they become depends on nothing but the epoch and the items, so requests only grow.
     * On failure nothing was added.
     */
    waldo_status (*append)(waldo_encoder *encoder, const waldo_item *items, size_t count,
                           waldo_error **ret_err);

    /** Mandatory. The request for what was added so far. Same input, same bytes. */
    waldo_status (*request)(waldo_encoder *encoder, const waldo_model_turn *turn,
                            waldo_model_request *ret_request, waldo_error **ret_err);

    /** Mandatory. */
    void (*free_encoder)(waldo_encoder *encoder);

    /**
     * Mandatory. A reader for the 2xx response to a request. content_type is the header's value,
     * empty when there was none: some proxies answer 200 with JSON or HTML instead of a stream.
     */
    waldo_status (*new_reader)(const waldo_model_options *options, waldo_str content_type,
                               waldo_reader **ret_reader);

    /** Mandatory. Response bytes of a 2xx answer, split anywhere. A failure ends the response. */
    waldo_status (*feed)(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                         void *userdata, waldo_error **ret_err);

    /** Mandatory. 1 once the terminal event was read: later bytes do not matter. */
    int (*complete)(const waldo_reader *reader);

    /**
     * Mandatory. The body has ended. Sets *ret_response (borrowed from the reader) only when the
     * response is whole; else WALDO_ETRUNCATED, WALDO_EPROTO, WALDO_EPROVIDER, ...
     */
    waldo_status (*finish)(waldo_reader *reader, waldo_response *ret_response,
                           waldo_error **ret_err);

    /** Mandatory. */
    void (*free_reader)(waldo_reader *reader);

    /**
     * Mandatory. Make an error from an answer that is not 2xx: status tells retryable from final,
     * message is the provider's own text, bounded. headers are "Name: value" lines.
     */
    waldo_status (*classify)(const waldo_model_options *options, int http_status, waldo_str headers,
                             waldo_str body, waldo_error **ret_err);

    /**
     * Optional. Name of the key that the server at url wants when the model names none; NULL when
     * it needs none. NULL here: key_name, whatever the server.
     */
    const char *(*key_for)(waldo_str url);

    /**
     * Optional. What the bytes read so far say of the answer's usage, for answers that are cut;
     * members that they do not tell are left alone.
     */
    void (*usage)(const waldo_reader *reader, waldo_usage *ret_usage);

    /**
     * Optional. Who keeps the conversation, by options that new_encoder() has accepted; NULL: the
     * host. Where it is the provider, items of a response carry its id, and what stands before the
     * last such response is not sent any more: requests grow from there.
     */
    waldo_history (*history)(const waldo_model_options *options);

    /**
     * Optional. What carries the key by options that new_encoder() has accepted, where that is not
     * always auth_header and auth_prefix; both static.
     */
    void (*auth)(const waldo_model_options *options, const char **ret_header,
                 const char **ret_prefix);

    /**
     * Optional. Tell a new reader whose request it reads the answer to, before the first feed(): it
     * takes from the encoder what it must know, and keeps no pointer. Fails by WALDO_ENOMEM alone.
     */
    waldo_status (*expect)(waldo_reader *reader, const waldo_encoder *encoder);
} waldo_model_ops;

#ifdef __cplusplus
}
#endif

#endif
