/**
 * @file
 * Models: an endpoint, a model name and defaults. A string is enough where no option is needed:
 * "openai:NAME" speaks the Responses API to OpenAI, "openai:URL#NAME" to the server at URL,
 * "anthropic:NAME" the Messages API to Anthropic, "anthropic:URL#NAME" to the server at URL, and
 * "chat:URL#NAME" speaks Chat Completions to the server at URL. "replay:FILE" reads a recording
 * (docs/recordings.md); "callback:NAME" is a function of the host (<waldo/generation.h>). Quirks
 * may stand behind the string of a server's model, such as "openai:NAME,history=provider".
 */
#ifndef WALDO_MODEL_H
#define WALDO_MODEL_H

#include <waldo/error.h>
#include <waldo/generation.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Immutable, atomic refcount, usable by any number of agents. */
typedef struct waldo_model waldo_model;

/** Zero means "default" for every member. */
typedef struct waldo_model_options {
    uint32_t size;              /* sizeof(waldo_model_options) */
    uint32_t max_output_tokens; /* 0: the server's default, or one that its API demands */
    const char *model;          /* such as "openai:gpt-5.1"; copied */
    const char *key_name;       /* name of the key to ask for; NULL: the adapter's own */
    const char *const *headers; /* extra "Name: value" lines, NULL-terminated; copied */
    const double *temperature;  /* copied; NULL: not sent */
    const double *top_p;        /* copied; NULL: not sent */
    const int64_t *seed;        /* copied; NULL: not sent */
    const char *reasoning;      /* reasoning effort such as "low"; copied; NULL: not sent */
    const char *quirks;         /* quirk switches, "name=value,..."; copied; NULL: by URL */
    int64_t idle_timeout_ms;    /* longest silence of a stream; 0: 300 s */
    int64_t connect_timeout_ms; /* 0: 10 s */
    uint32_t max_retries;       /* further tries after a failure that may be repeated; 0: 2 */
    uint32_t no_retries;        /* 1: none, since 0 above means the default */
    waldo_generate_fn generate; /* answers in place of a server; .model then is "callback:NAME" */
    void *userdata;             /* given to generate; must outlive the model */
    void (*destroy)(void *userdata); /* when the model is freed, on the last holder's thread */
} waldo_model_options;

#define WALDO_MODEL(...) ((waldo_model_options){ .size = sizeof(waldo_model_options), __VA_ARGS__ })

/**
 * Make a model. It remembers what is wrong with it, for the agent and its runs to report.
 *
 * @param options  copied
 * @return one reference, release with waldo_model_unref(); NULL when out of memory
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_model *waldo_model_new(const waldo_model_options *options);

/**
 * @param model  gets one more reference; NULL is accepted
 * @return model
 * Thread: any. Since: 0.1.
 */
WALDO_API waldo_model *waldo_model_ref(waldo_model *model);

/**
 * @param model  loses one reference; NULL is a no-op
 * Thread: any. Since: 0.1.
 */
WALDO_API void waldo_model_unref(waldo_model *model);

/**
 * @param model  borrowed for the call
 * @return what is wrong with it, borrowed until the model is freed; NULL when nothing is
 * Thread: any. Since: 0.1.
 */
WALDO_API const waldo_error *waldo_model_error(const waldo_model *model);

#ifdef __cplusplus
}
#endif

#endif
