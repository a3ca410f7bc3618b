/*
 * Models inside the library: the adapter table, and what the run engine reads from a model.
 * A new adapter is one file of ops and one row in model.c.
 */
#ifndef WALDO_MODEL_MODEL_H
#define WALDO_MODEL_MODEL_H

#include "base/str.h"
#include "model/recording.h"
#include <waldo/sys/model.h>

/* The adapters of this build, from 0; NULL past the end. */
const waldo_model_ops *waldo__model_ops_at(size_t index);

/*
 * Of a model without waldo_model_error() these are all set; of one with an error ops is NULL and
 * text is empty. Everything is borrowed until the model is freed. model may be NULL.
 */
const waldo_model_ops *waldo__model_ops(const waldo_model *model);
const waldo_model_options *waldo__model_options(const waldo_model *model); /* never NULL */
waldo_str waldo__model_url(const waldo_model *model);  /* base URL without a slash at its end */
waldo_str waldo__model_name(const waldo_model *model); /* as the server knows it */
/* As it was given, without the quirks behind it; "" when it was not. */
const char *waldo__model_string(const waldo_model *model);

waldo_history waldo__model_history(const waldo_model *model);

/* The recording that answers in place of servers; NULL: they do. */
const waldo__recording *waldo__model_recording(const waldo_model *model);

/* The key to ask for: the options' name, else the adapter's for this server; NULL: none needed. */
const char *waldo__model_key_name(const waldo_model *model);

extern const waldo_model_ops waldo__callback_ops;
extern const waldo_model_ops waldo__chat_ops;
extern const waldo_model_ops waldo__responses_ops;
extern const waldo_model_ops waldo__messages_ops;

#endif
