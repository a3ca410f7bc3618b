#include "model/model.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

/* One row for every adapter. */
static const waldo_model_ops *const adapters[] = {
    &waldo__responses_ops,
    &waldo__messages_ops,
    &waldo__chat_ops,
    &waldo__callback_ops,
};

static const char replay_prefix[] = "replay:";
static const char callback_default[] = "callback:host";
static const char callback_prefix[] = "callback:";

enum { HEADER_MAX = 64, HEADERS_MAX_BYTES = 16384, SWITCHES_MAX = 65536 };

struct waldo_model {
    atomic_uint refs;
    const waldo_model_ops *ops;
    waldo_error *error;
    waldo__recording *recording; /* NULL: servers answer */
    waldo_str url;
    waldo_str name;
    char *name_text; /* both NUL-terminated: what parse() finds may be part of a longer text */
    char *url_text;
    waldo_model_options options;
    double temperature;
    double top_p;
    int64_t seed;
    char *headers[HEADER_MAX + 1];
};

const waldo_model_ops *waldo__model_ops_at(size_t index)
{
    return index < WALDO__COUNT(adapters) ? adapters[index] : NULL;
}

/* "chat:URL#NAME (one line about it)" for each adapter. */
static waldo_status unknown_kind(waldo_str kind, waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);
    waldo_status status;

    for (size_t i = 0; i < WALDO__COUNT(adapters); i++) {
        waldo__buf_printf(&known, "%s; ", adapters[i]->about);
    }
    waldo__buf_puts(&known, "replay:FILE reads a recording");
    status = waldo__error_invalid(ret_err, "unknown model kind \"%.*s\"; known kinds: %s",
                                  (int)(kind.len < 64 ? kind.len : 64), kind.ptr,
                                  waldo__buf_str(&known).ptr);
    waldo__buf_free(&known);
    return status;
}

/* Split "kind:rest" and let the adapter check the rest. */
static waldo_status parse_string(waldo_model *model)
{
    waldo_str text = waldo__str(model->options.model);
    size_t colon = waldo__str_find(text, ':');
    waldo_str kind = waldo__slice(text.ptr, colon), rest;
    waldo_status status;

    if (text.len == 0) {
        return waldo__error_invalid(&model->error,
                                    "no model given: set it to a string such as openai:NAME, "
                                    "anthropic:NAME or chat:URL#NAME");
    }
    if (colon == text.len) {
        return waldo__error_invalid(&model->error,
                                    "model \"%.200s\" has no kind in front of a colon: write it as "
                                    "openai:NAME, anthropic:NAME or chat:URL#NAME",
                                    model->options.model);
    }
    for (size_t i = 0; i < WALDO__COUNT(adapters) && model->ops == NULL; i++) {
        model->ops = waldo__str_is(kind, adapters[i]->name) ? adapters[i] : NULL;
    }
    if (model->ops == NULL) {
        return unknown_kind(kind, &model->error);
    }
    rest = waldo__slice(text.ptr + colon + 1, text.len - colon - 1);
    status = model->ops->parse(rest, &model->url, &model->name, &model->error);
    if (status < 0) {
        return status;
    }
    model->url_text = waldo__strndup(model->url.ptr, model->url.len);
    model->name_text = waldo__strndup(model->name.ptr, model->name.len);
    if (model->url_text == NULL || model->name_text == NULL) {
        return waldo__error_nomem(&model->error);
    }
    model->url = waldo__strn(model->url_text, model->url.len);
    model->name = waldo__strn(model->name_text, model->name.len);
    return WALDO_OK;
}

/* A function and the kind of model that is one go together; a recording answers for both. */
static waldo_status check_function(waldo_model *model)
{
    int is_callback = model->ops == &waldo__callback_ops;

    if (model->recording != NULL || (model->options.generate != NULL) == is_callback) {
        return WALDO_OK;
    }
    return waldo__error_invalid(&model->error,
                                is_callback
                                    ? "model \"%.200s\" is a function of the host: set .generate "
                                      "of the model's options"
                                    : "model \"%.200s\" has a .generate: write it as "
                                      "callback:NAME, such as callback:mine",
                                model->options.model);
}

/* Told here, as adapters that have no such thing do not know the names. */
static waldo_status check_history(waldo_model *model)
{
    static const char *const names[] = { "history=", "previous=", "conversation=" };
    waldo_str rest = waldo__str(model->options.quirks), part;

    if (model->ops->history != NULL) {
        return WALDO_OK;
    }
    while (waldo__str_split(&rest, ',', &part)) {
        for (size_t i = 0; i < WALDO__COUNT(names); i++) {
            if (waldo__str_starts(part, names[i])) {
                return waldo__error_invalid(
                    &model->error,
                    "model quirks: \"%.*s\" is for openai: models: the API of %s: models keeps no "
                    "history at the provider",
                    (int)(part.len < 100 ? part.len : 100), part.ptr, model->ops->name);
            }
        }
    }
    return WALDO_OK;
}

/* The quirk switches and whatever else only the adapter can judge: by making an empty encoder. */
static waldo_status try_encoder(waldo_model *model)
{
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .parallel_calls = 1,
                                .options = &model->options,
                                .model = model->name,
                                .url = model->url };
    waldo_encoder *encoder = NULL;
    waldo_status status = model->ops->new_encoder(&epoch, &encoder, &model->error);

    if (status == WALDO_OK) {
        model->ops->free_encoder(encoder);
    }
    return status;
}

/* A header name is letters, digits and a few signs; a value has no control characters. */
static int header_is_valid(const char *line)
{
    const char *colon = strchr(line, ':');

    if (colon == NULL || colon == line) {
        return 0;
    }
    for (const char *at = line; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte == 0x7f || (byte < ' ' && byte != '\t') || (at < colon && byte <= ' ')) {
            return 0;
        }
    }
    return 1;
}

static waldo_status copy_headers(waldo_model *model, const char *const *headers)
{
    size_t count = 0, bytes = 0;

    for (; headers != NULL && headers[count] != NULL; count++) {
        bytes += strlen(headers[count]);
        if (count == HEADER_MAX || bytes > HEADERS_MAX_BYTES) {
            return waldo_error_set(&model->error, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                                   "a model may have %d extra headers of %d bytes together",
                                   HEADER_MAX, HEADERS_MAX_BYTES);
        }
        if (!header_is_valid(headers[count])) {
            /* Its text may hold a secret and is not repeated. */
            return waldo__error_invalid(
                &model->error, "extra header number %zu is not \"Name: value\" on one line",
                count + 1);
        }
        model->headers[count] = waldo__strdup(headers[count]);
        if (model->headers[count] == NULL) {
            return waldo__error_nomem(&model->error);
        }
    }
    model->options.headers = (const char *const *)model->headers;
    return WALDO_OK;
}

/* Replace one borrowed text of the options by a copy; 0 when out of memory. */
static int own_text(const char **text)
{
    if (*text == NULL) {
        return 1;
    }
    *text = waldo__strdup(*text);
    return *text != NULL;
}

/* "STRING,name=value,...": what stands behind the string goes in front of the quirks. */
static int take_switches(waldo_model_options *options)
{
    waldo_str text = waldo__str(options->model);
    size_t hash = waldo__str_find(text, '#'), from = hash < text.len ? hash : 0, comma;
    waldo__buf joined = WALDO__BUF_INIT(SWITCHES_MAX);

    comma = from + waldo__str_find(waldo__slice(text.ptr + from, text.len - from), ',');
    if (comma >= text.len || strchr(text.ptr + comma, '=') == NULL ||
        waldo__str_starts(text, replay_prefix) || waldo__str_starts(text, callback_prefix)) {
        return 1;
    }
    waldo__buf_printf(&joined, "%s,%s", text.ptr + comma + 1,
                      options->quirks != NULL ? options->quirks : "");
    ((char *)options->model)[comma] = '\0';
    waldo__free((char *)options->quirks);
    options->quirks = waldo__buf_take(&joined, NULL);
    return options->quirks != NULL;
}

/*
 * Everything the options point to becomes the model's own; runs to its end so that all can be
 * freed.
 */
static waldo_status own_options(waldo_model *model)
{
    waldo_model_options *options = &model->options;
    const char *const *headers = options->headers;
    int done;

    if (options->model == NULL && options->generate != NULL) {
        options->model = callback_default;
    }
    done = own_text(&options->model);

    done &= own_text(&options->key_name);
    done &= own_text(&options->reasoning);
    done &= own_text(&options->quirks);
    done = done && options->model != NULL ? take_switches(options) : done;
    options->headers = NULL;
    if (options->temperature != NULL) {
        model->temperature = *options->temperature;
        options->temperature = &model->temperature;
    }
    if (options->top_p != NULL) {
        model->top_p = *options->top_p;
        options->top_p = &model->top_p;
    }
    if (options->seed != NULL) {
        model->seed = *options->seed;
        options->seed = &model->seed;
    }
    return done ? copy_headers(model, headers) : waldo__error_nomem(&model->error);
}

/* What was recorded takes the place of what was not given, and the model's string that of FILE. */
static waldo_status open_recording(waldo_model *model)
{
    waldo_model_options *options = &model->options;
    const waldo_model_options *recorded;
    const char *file = options->model + strlen(replay_prefix);
    waldo_status status;
    int done = 1;

    if (file[0] == '\0') {
        return waldo__error_invalid(&model->error,
                                    "model \"replay:\": the file is missing; write replay:FILE");
    }
    status = waldo__recording_read(file, &model->recording, &model->error);
    if (status != WALDO_OK) {
        return status;
    }
    recorded = waldo__recording_model(model->recording);
    waldo__free((char *)options->model);
    options->model = recorded->model;
    done &= own_text(&options->model);
    if (options->reasoning == NULL) {
        options->reasoning = recorded->reasoning;
        done &= own_text(&options->reasoning);
    }
    if (options->quirks == NULL) {
        options->quirks = recorded->quirks;
        done &= own_text(&options->quirks);
    }
    if (options->max_output_tokens == 0) {
        options->max_output_tokens = recorded->max_output_tokens;
    }
    options->temperature =
        options->temperature != NULL ? options->temperature : recorded->temperature;
    options->top_p = options->top_p != NULL ? options->top_p : recorded->top_p;
    options->seed = options->seed != NULL ? options->seed : recorded->seed;
    return done ? WALDO_OK : waldo__error_nomem(&model->error);
}

waldo_model *waldo_model_new(const waldo_model_options *options)
{
    waldo_model *model = WALDO__NEW(waldo_model);
    waldo_status status;

    if (model == NULL) {
        return NULL;
    }
    atomic_init(&model->refs, 1);
    if (waldo__options_copy(&model->options, sizeof model->options, options) != WALDO_OK) {
        model->options = (waldo_model_options){ .size = sizeof model->options };
        waldo__error_invalid(
            &model->error, "waldo_model_options.size is wrong or members are set that this version "
                           "does not know: start from WALDO_MODEL()");
        return model;
    }
    status = own_options(model);
    if (status == WALDO_OK && waldo__str_starts(waldo__str(model->options.model), replay_prefix)) {
        status = open_recording(model);
    }
    if (status == WALDO_OK) {
        status = parse_string(model);
    }
    if (status == WALDO_OK) {
        status = check_function(model);
    }
    if (status == WALDO_OK) {
        status = check_history(model);
    }
    if (status == WALDO_OK) {
        status = try_encoder(model);
    }
    if (status != WALDO_OK && model->error == NULL) {
        waldo_error_set(&model->error, status, WALDO_CLASS_USAGE, "model \"%.200s\": %s",
                        waldo__model_string(model), waldo_status_text(status));
    }
    return model;
}

waldo_model *waldo_model_ref(waldo_model *model)
{
    if (model != NULL) {
        atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
    }
    return model;
}

void waldo_model_unref(waldo_model *model)
{
    if (model == NULL || atomic_fetch_sub_explicit(&model->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    waldo__free((char *)model->options.model);
    waldo__free((char *)model->options.key_name);
    waldo__free((char *)model->options.reasoning);
    waldo__free((char *)model->options.quirks);
    for (size_t i = 0; i < HEADER_MAX; i++) {
        waldo__free(model->headers[i]);
    }
    waldo__free(model->url_text);
    waldo__free(model->name_text);
    waldo__recording_free(model->recording);
    waldo_error_free(model->error);
    if (model->options.destroy != NULL) {
        model->options.destroy(model->options.userdata);
    }
    waldo__free(model);
}

const waldo_error *waldo_model_error(const waldo_model *model)
{
    return model != NULL ? model->error : NULL;
}

const waldo_model_ops *waldo__model_ops(const waldo_model *model)
{
    return model != NULL && model->error == NULL ? model->ops : NULL;
}

const waldo_model_options *waldo__model_options(const waldo_model *model)
{
    static const waldo_model_options defaults = { .size = sizeof defaults };

    return model != NULL ? &model->options : &defaults;
}

waldo_str waldo__model_url(const waldo_model *model)
{
    return waldo__model_ops(model) != NULL ? model->url : WALDO__S("");
}

waldo_str waldo__model_name(const waldo_model *model)
{
    return waldo__model_ops(model) != NULL ? model->name : WALDO__S("");
}

const char *waldo__model_string(const waldo_model *model)
{
    return model != NULL && model->options.model != NULL ? model->options.model : "";
}

waldo_history waldo__model_history(const waldo_model *model)
{
    const waldo_model_ops *ops = waldo__model_ops(model);

    return ops != NULL && ops->history != NULL ? ops->history(&model->options) : WALDO_HISTORY_HOST;
}

const waldo__recording *waldo__model_recording(const waldo_model *model)
{
    return waldo__model_ops(model) != NULL ? model->recording : NULL;
}

const char *waldo__model_key_name(const waldo_model *model)
{
    const waldo_model_ops *ops = waldo__model_ops(model);

    if (ops == NULL) {
        return NULL;
    }
    if (model->options.key_name != NULL) {
        return model->options.key_name;
    }
    return ops->key_for != NULL ? ops->key_for(model->url) : ops->key_name;
}
