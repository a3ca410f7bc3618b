/* What the model adapters share besides body.h (answers), history.h (requests) and text.h. */
#ifndef WALDO_MODEL_SHARED_H
#define WALDO_MODEL_SHARED_H

#include "base/buf.h"
#include "json/json.h"
#include <waldo/sys/model.h>

enum {
    WALDO__MODEL_EVENT_MAX = 64 << 20, /* one event, one body, the text of one answer */
    WALDO__MODEL_ARGS_MAX = 16 << 20,  /* arguments of one call */
    WALDO__MODEL_MESSAGE_MAX = 2048,   /* a server's own words in an error */
    WALDO__MODEL_NAME_MAX = 64         /* name of a tool */
};

/* ---- errors (provider.c) ---- */

/*
 * Make the error that a server described: root is the parsed answer or NULL, and then text is what
 * it said instead. http_status 0: the error came inside of a 200 answer.
 */
waldo_status waldo__provider_error(int http_status, waldo_str headers,
                                   const waldo__json_value *root, waldo_str text,
                                   waldo_error **ret_err);

/* As in waldo_model_ops. */
waldo_status waldo__provider_classify(const waldo_model_options *options, int http_status,
                                      waldo_str headers, waldo_str body, waldo_error **ret_err);

/* Append at most max bytes of a server's text: valid UTF-8, in one line. */
waldo_status waldo__provider_quote(waldo_str text, size_t max, waldo__buf *out);

/* ---- model strings (url.c) ---- */

/* Split "URL#NAME" and refuse what is neither; kind and example are for the message. */
waldo_status waldo__model_split(const char *kind, const char *example, waldo_str rest,
                                waldo_str *ret_url, waldo_str *ret_model, waldo_error **ret_err);

/* The same, but a NAME alone is that of a model at the server with the URL given here. */
waldo_status waldo__model_split_at(const char *kind, const char *example, const char *server_url,
                                   waldo_str rest, waldo_str *ret_url, waldo_str *ret_model,
                                   waldo_error **ret_err);

/* Host and port of a URL that was accepted; an IPv6 address keeps its brackets. */
void waldo__url_split(waldo_str url, waldo_str *ret_host, waldo_str *ret_port);

/* Name of the key of the server at url; NULL for servers that are not known (chat_quirks.c). */
const char *waldo__key_for_url(waldo_str url);

/* What follows the colon of the options' model string, which was checked when it was made. */
waldo_str waldo__model_rest(const waldo_model_options *options);

/* "KIND:SERVER/FAMILY": who understands what a server made besides the common form. */
waldo_status waldo__model_vendor(const char *kind, waldo_str server, waldo_str model,
                                 waldo__buf *out);

/* "KIND:HOST/FAMILY", for what is bound to where it was made. */
waldo_status waldo__model_vendor_at(const char *kind, waldo_str url, waldo_str model,
                                    waldo__buf *out);

/* ---- switches of the options' quirks (switches.c) ---- */

typedef enum waldo__switch_type {
    WALDO__SWITCH_BOOL,
    WALDO__SWITCH_WORD,
    WALDO__SWITCH_ID /* borrowed from the quirks */
} waldo__switch_type;

enum { WALDO__MODEL_ID_MAX = 128 }; /* bytes of a provider's id of a response */

typedef struct waldo__switch {
    const char *name;
    unsigned char type;    /* waldo__switch_type */
    unsigned short offset; /* of an unsigned char, a const char *, or a waldo_str */
    const char *words;     /* allowed, for WALDO__SWITCH_WORD, each with a NUL behind it; else "" */
} waldo__switch;

typedef struct waldo__switches {
    const waldo__switch *at;
    size_t count;
    const char *more; /* names besides those, such as "server", with ", " behind them; or "" */
} waldo__switches;

/* Apply one "name=value" to the struct at into; WALDO_EINVAL tells what is known. */
waldo_status waldo__switch_apply(const waldo__switches *switches, waldo_str part, void *into,
                                 waldo_error **ret_err);

/* The refusal of part, for what is wrong with it; known is freed. */
waldo_status waldo__switch_refuse(waldo_str part, const char *what, waldo__buf *known,
                                  waldo_error **ret_err);

#endif
