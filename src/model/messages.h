/* What the files of the Anthropic Messages adapter share. */
#ifndef WALDO_MODEL_MESSAGES_H
#define WALDO_MODEL_MESSAGES_H

#include "base/vec.h"
#include "model/body.h"
#include "model/fast.h"

/* What goes by the server and the model, and may be chosen by quirks of the model's options. */
typedef struct waldo__messages_quirks {
    const char *version;  /* of the API */
    const char *cache;    /* how long the provider keeps what it has read; "none": not asked */
    const char *thinking; /* how it is asked for: "adaptive", or with a "budget" of tokens */
    const char *display;  /* form of the thinking that is asked for; "none": the model's own */
    const char *binding;  /* what becomes of thinking behind a changed history; "none": default */
    const char *auth;     /* how the key is sent: "x-api-key", or as "bearer" */
    unsigned char stream; /* answers are streamed */
    unsigned char output_format; /* the model can be held to a schema */
    unsigned char sampling;      /* the model takes temperature and top_p; not in any version */
    uint32_t max_tokens;         /* output limit where none is known: the API demands one */
} waldo__messages_quirks;

waldo_status waldo__messages_quirks_find(const waldo_model_options *options, waldo_str url,
                                         waldo_str model, waldo__messages_quirks *ret_quirks,
                                         waldo_error **ret_err);

/* Split "NAME", whose server is Anthropic's, or "URL#NAME". */
waldo_status waldo__messages_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                                   waldo_error **ret_err);

/* "anthropic:HOST/FAMILY": who understands what a server made besides the common form. */
waldo_status waldo__messages_vendor(waldo_str url, waldo_str model, waldo__buf *out);

/* ---- the head of a request (messages_head.c) ---- */

/* Everything that comes before the first message. WALDO_EINVAL tells what the API refuses. */
waldo_status waldo__messages_write_head(const waldo__messages_quirks *quirks,
                                        const waldo_model_epoch *epoch, waldo__buf *out,
                                        waldo_error **ret_err);

/* Whether the head asks for thinking with a budget, which rules out that a tool is demanded. */
int waldo__messages_has_budget(const waldo__messages_quirks *quirks,
                               const waldo_model_options *options);

/* ---- the blocks of an answer (messages_blocks.c) ---- */

typedef enum waldo__block_kind {
    WALDO__BLOCK_OTHER, /* kept for its provider */
    WALDO__BLOCK_TEXT,
    WALDO__BLOCK_THINKING,
    WALDO__BLOCK_CALL
} waldo__block_kind;

/* One content block while it is put together. */
typedef struct waldo__block {
    waldo__block_kind kind;
    int64_t index;
    waldo__buf args;
    waldo__buf name;
    waldo__buf id;
    waldo__model_text shown; /* text or thinking */
    waldo__buf signature;
    waldo__buf citations; /* elements of the list, with commas between them */
    waldo__buf begun;     /* the block's JSON as it began */
    waldo__buf raw;       /* the whole block for its provider; empty: the common form says it all */
} waldo__block;

typedef struct waldo__blocks {
    WALDO__VEC(waldo__block *);
    size_t total; /* bytes that were taken */
} waldo__blocks;

waldo__block_kind waldo__block_kind_of(waldo_str type);

/* WALDO_ETOOBIG, WALDO_ENOMEM. */
waldo_status waldo__blocks_add(waldo__blocks *blocks, waldo__block_kind kind, int64_t index,
                               waldo__block **ret_block);
void waldo__blocks_free(waldo__blocks *blocks);

/* Count bytes; WALDO_ETOOBIG when an answer holds more than any should. */
waldo_status waldo__blocks_count(waldo__blocks *blocks, size_t bytes);

/* The newest block with this index (-1: with any); NULL: none. */
waldo__block *waldo__blocks_find(const waldo__blocks *blocks, int64_t index);

/* After the last event: bring the blocks into order, end their texts and make their raw JSON. */
waldo_status waldo__blocks_settle(waldo__blocks *blocks, int is_cut);

/* ---- reader (messages_read.c, messages_event.c) ---- */

typedef struct waldo__messages_usage {
    int64_t input; /* neither read from the cache nor written to it */
    int64_t cache_read;
    int64_t cache_write;
    int64_t output;
    int64_t thinking;
} waldo__messages_usage;

struct waldo_reader {
    waldo__body body;
    waldo__answer answer;
    waldo__blocks blocks;
    waldo__messages_usage usage; /* -1: not said */
    waldo__buf stop;             /* stop_reason */
    waldo__fast fast;
    waldo__block *fast_block; /* that the piece is for */
};

int waldo__messages_stop_is_known(waldo_str reason);

/* Read one event, or a body that is a whole message. */
waldo_status waldo__messages_read_event(void *userdata, waldo_str name, waldo_str data);
waldo_status waldo__messages_read_whole(waldo_reader *reader, waldo_str text);

/* ---- as in waldo_model_ops ---- */

waldo_status waldo__messages_new_encoder(const waldo_model_epoch *epoch,
                                         waldo_encoder **ret_encoder, waldo_error **ret_err);
waldo_status waldo__messages_append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                                    waldo_error **ret_err);
waldo_status waldo__messages_request(waldo_encoder *encoder, const waldo_model_turn *turn,
                                     waldo_model_request *ret_request, waldo_error **ret_err);
void waldo__messages_free_encoder(waldo_encoder *encoder);

waldo_status waldo__messages_new_reader(const waldo_model_options *options, waldo_str content_type,
                                        waldo_reader **ret_reader);
waldo_status waldo__messages_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                                  void *userdata, waldo_error **ret_err);
int waldo__messages_complete(const waldo_reader *reader);
void waldo__messages_get_usage(const waldo_reader *reader, waldo_usage *ret_usage);
waldo_status waldo__messages_finish(waldo_reader *reader, waldo_response *ret_response,
                                    waldo_error **ret_err);
void waldo__messages_free_reader(waldo_reader *reader);

#endif
