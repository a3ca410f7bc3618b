/* What the files of the OpenAI Responses adapter share. */
#ifndef WALDO_MODEL_RESPONSES_H
#define WALDO_MODEL_RESPONSES_H

#include "base/vec.h"
#include "model/body.h"
#include "model/fast.h"

/* What may be chosen by quirks of the model's options; zeroed is never right: see _quirks(). */
typedef struct waldo__responses_quirks {
    const char *summary;          /* summary of reasoning that is asked for; "none" */
    unsigned char stream;         /* answers are streamed */
    unsigned char store;          /* the provider keeps the response */
    unsigned char encrypted;      /* reasoning is asked for in a form that can be sent back */
    unsigned char no_obfuscation; /* ask for events without padding */
    unsigned char result_images;  /* results may hold images; else these follow the results */
    unsigned char freeform;       /* tools may take plain text */
    const char *history;          /* "provider": it keeps the conversation; "host" */
    waldo_str previous;           /* response to go on from; borrowed from the options, as ... */
    waldo_str conversation;       /* ... the conversation to go on in; at most one of them */
} waldo__responses_quirks;

int waldo__responses_is_remote(const waldo__responses_quirks *quirks);

waldo_status waldo__responses_quirks_find(const waldo_model_options *options,
                                          waldo__responses_quirks *ret_quirks,
                                          waldo_error **ret_err);

/* Split "NAME", whose server is OpenAI's, or "URL#NAME". */
waldo_status waldo__responses_parse(waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                                    waldo_error **ret_err);

/* "openai:HOST/FAMILY": who understands what a server made besides the common form. */
waldo_status waldo__responses_vendor(waldo_str url, waldo_str model, waldo__buf *out);

/* ---- the parts of an answer (responses_parts.c) ---- */

typedef enum waldo__part_kind {
    WALDO__PART_OTHER, /* kept for its provider */
    WALDO__PART_MESSAGE,
    WALDO__PART_REASONING,
    WALDO__PART_CALL
} waldo__part_kind;

/* One output item while it is put together. */
typedef struct waldo__part {
    waldo__part_kind kind;
    int is_told; /* that a call has begun */
    int is_done; /* the whole item came */
    int is_cut;
    int is_whole; /* the whole item says so itself */
    int is_refusal;
    int is_freeform; /* args are plain text, until the parts are settled */
    int64_t index;   /* output_index; -1: none */
    int64_t section; /* of the message or reasoning that the last piece was for; -1: none */
    int64_t order;   /* place in the terminal event's output; -1: not there */
    size_t section_len;
    waldo__buf text; /* what the whole item holds */
    waldo__buf args;
    waldo__buf name;
    waldo__buf item_id;
    waldo__model_text shown; /* what the pieces held */
    waldo__buf call_id;
    waldo__buf raw;
} waldo__part;

typedef struct waldo__parts {
    WALDO__VEC(waldo__part *);
    size_t total; /* bytes that were taken */
} waldo__parts;

/* Where an event belongs. */
typedef struct waldo__place {
    int64_t index; /* -1: not said */
    waldo_str item_id;
    waldo__part_kind kind;
} waldo__place;

/* WALDO_ETOOBIG, WALDO_ENOMEM. */
waldo_status waldo__parts_add(waldo__parts *parts, const waldo__place *place,
                              waldo__part **ret_part);

/* The part that an event is for: the newest that is not done, else one that is; NULL: none. */
waldo__part *waldo__parts_find(const waldo__parts *parts, const waldo__place *place);
void waldo__parts_free(waldo__parts *parts);

/* Count bytes; WALDO_ETOOBIG when an answer holds more than any should. */
waldo_status waldo__parts_count(waldo__parts *parts, size_t bytes);

waldo__part_kind waldo__part_kind_of(const waldo__json_value *item);
int waldo__part_is_freeform(const waldo__json_value *item);

/* Take over the whole item; raw are its bytes. */
waldo_status waldo__part_fill(waldo__part *part, const waldo__json_value *item, waldo_str raw);

/* After the terminal event: bring the parts into order, those that its output lacks go. */
void waldo__parts_settle(waldo__parts *parts, int by_output);

/*
 * Calls get ids of their own, arguments when they had none, and JSON where these were plain text.
 * is_cut: of a call that does not say that it is whole nobody knows.
 */
waldo_status waldo__parts_settle_calls(waldo__parts *parts, const waldo__buf *freeform, int is_cut);

/* ---- tools that take plain text (responses_freeform.c) ---- */

/* Whether it is known that the model has such tools. */
int waldo__freeform_is_known(waldo_str url, waldo_str model);

/* Write the tool into the list of tools, and note it in tools. */
waldo_status waldo__freeform_declare(const waldo_tool_decl *tool, waldo__buf *tools,
                                     waldo__json_writer *writer);

/* The property that the text of a tool that was noted stands for; NULL: there is no such tool. */
const char *waldo__freeform_find(const waldo__buf *tools, waldo_str name);

/* Text becomes arguments; those of a text that is not whole are not whole, either: no JSON. */
waldo_status waldo__freeform_wrap(const char *property, int is_whole, waldo__buf *args);

/*
 * The text that arguments consist of, borrowed from the document, which the caller frees. A failure
 * but WALDO_ENOMEM: they consist of something else.
 */
waldo_status waldo__freeform_unwrap(const char *property, waldo_str args, waldo__json **ret_doc,
                                    waldo_str *ret_text);

/* ---- reader (responses_read.c, responses_event.c) ---- */

typedef enum waldo__responses_ending {
    WALDO__RESPONSES_ENDING_NONE,
    WALDO__RESPONSES_ENDING_COMPLETED,
    WALDO__RESPONSES_ENDING_LENGTH,
    WALDO__RESPONSES_ENDING_FILTER
} waldo__responses_ending;

struct waldo_reader {
    waldo__parts parts;
    int has_output; /* the terminal event listed the items */
    int is_remote;  /* the provider keeps the conversation */
    waldo__body body;
    waldo__answer answer;
    waldo__buf freeform; /* as waldo__freeform_declare() noted it */
    waldo__responses_ending ending;
    waldo__fast fast;
    waldo__part *fast_part; /* that the piece is for */
    const struct waldo__responses_row *fast_row;
};

/* Read one event, or a body that is a whole response. */
waldo_status waldo__responses_read_event(void *userdata, waldo_str name, waldo_str data);
waldo_status waldo__responses_read_whole(waldo_reader *reader, waldo_str text);

/* ---- as in waldo_model_ops ---- */

waldo_status waldo__responses_new_encoder(const waldo_model_epoch *epoch,
                                          waldo_encoder **ret_encoder, waldo_error **ret_err);
waldo_status waldo__responses_append(waldo_encoder *encoder, const waldo_item *items, size_t count,
                                     waldo_error **ret_err);
waldo_status waldo__responses_request(waldo_encoder *encoder, const waldo_model_turn *turn,
                                      waldo_model_request *ret_request, waldo_error **ret_err);
void waldo__responses_free_encoder(waldo_encoder *encoder);

waldo_status waldo__responses_new_reader(const waldo_model_options *options, waldo_str content_type,
                                         waldo_reader **ret_reader);
waldo_status waldo__responses_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                                   void *userdata, waldo_error **ret_err);
waldo_status waldo__responses_expect(waldo_reader *reader, const waldo_encoder *encoder);
int waldo__responses_complete(const waldo_reader *reader);
void waldo__responses_usage(const waldo_reader *reader, waldo_usage *ret_usage);
waldo_status waldo__responses_finish(waldo_reader *reader, waldo_response *ret_response,
                                     waldo_error **ret_err);
void waldo__responses_free_reader(waldo_reader *reader);

#endif
