/* Reading recordings. A file is hostile input: what is not a whole recording is refused by line. */
#include "model/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "json/json.h"
#include "model/shared.h"

enum {
    FILE_MAX = 1 << 30,
    PIECE = 64 * 1024,
    AROUND = 24, /* bytes shown on both sides of a difference */
    QUOTE_MAX = 512,
    LOWEST_STATUS = -256
};

struct waldo__recording {
    char *name;
    struct {
        WALDO__VEC(waldo__exchange);
    } exchanges;
    struct {
        WALDO__VEC(waldo__recorded_result);
    } results;
    waldo_model_options model;
    double temperature;
    double top_p;
    int64_t seed;
    int has_model;
    int open; /* while it is read: an exchange has not ended */
    struct {
        WALDO__VEC(waldo__json *);
    } docs; /* of the lines: what texts point into */
    struct {
        WALDO__VEC(char *);
    } bytes; /* chunks that were in base64 */
};

/* ---- the lines: each taker gives what is wrong with its line, or NULL ---- */

static const char no_memory[] = "out of memory";

static waldo__exchange *current(waldo__recording *recording)
{
    return recording->open ? &recording->exchanges.at[recording->exchanges.count - 1] : NULL;
}

/* A double that was given becomes an option; 0 when the member is there and no number. */
static int read_double(const waldo__json_value *line, const char *key, double *room,
                       const double **ret)
{
    const waldo__json_value *value = waldo__json_get(line, key);

    if (value == NULL) {
        return 1;
    }
    *ret = room;
    return waldo__json_num(value, room);
}

static const char *read_text(const waldo__json_value *line, const char *key)
{
    waldo_str text;

    return waldo__json_str(waldo__json_get(line, key), &text) ? text.ptr : NULL;
}

/* Only the first says what to ask with; later ones are those of fall-backs. */
static const char *take_model(waldo__recording *recording, const waldo__json_value *line)
{
    waldo_model_options *model = &recording->model;
    int64_t most = waldo__json_get_int(line, "max_output_tokens", 0);
    const char *seed = read_text(line, "seed");

    if (recording->has_model) {
        return NULL;
    }
    recording->has_model = 1;
    model->model = read_text(line, "model");
    model->reasoning = read_text(line, "reasoning");
    model->quirks = read_text(line, "quirks");
    model->max_output_tokens = most > 0 && most <= UINT32_MAX ? (uint32_t)most : 0;
    if (model->model == NULL) {
        return "the model's string is missing";
    }
    if (!read_double(line, "temperature", &recording->temperature, &model->temperature) ||
        !read_double(line, "top_p", &recording->top_p, &model->top_p)) {
        return "an option of the model is no number";
    }
    if (seed != NULL) {
        model->seed = &recording->seed;
        return waldo__str_int(waldo__str(seed), &recording->seed) ? NULL : "seed is no number";
    }
    return NULL;
}

static const char *take_request(waldo__recording *recording, const waldo__json_value *line)
{
    int64_t number = waldo__json_get_int(line, "n", 0);
    waldo__exchange *exchange;

    if (recording->open) {
        return "a request while another has not ended";
    }
    if (!recording->has_model || number != (int64_t)recording->exchanges.count + 1) {
        return "a request out of order";
    }
    exchange = WALDO__VEC_PUSH(&recording->exchanges);
    if (exchange == NULL) {
        return no_memory;
    }
    *exchange = (waldo__exchange){ .model = waldo__json_get_str(line, "model"),
                                   .method = waldo__json_get_str(line, "method"),
                                   .path = waldo__json_get_str(line, "path"),
                                   .headers = waldo__json_get_str(line, "headers"),
                                   .body = waldo__json_get_str(line, "body") };
    recording->open = 1;
    return NULL;
}

static const char *take_head(waldo__recording *recording, const waldo__json_value *line)
{
    waldo__exchange *exchange = current(recording);
    int64_t status = waldo__json_get_int(line, "status", 0);

    if (exchange == NULL || exchange->http_status != 0) {
        return "the head of an answer without a request";
    }
    if (status < 100 || status > 999) {
        return "an answer without a status";
    }
    exchange->http_status = (int)status;
    exchange->answer_headers = waldo__json_get_str(line, "headers");
    return NULL;
}

static const char *take_base64(waldo__recording *recording, waldo_str text, waldo_str *ret)
{
    waldo__buf bytes = WALDO__BUF_INIT(FILE_MAX);
    waldo_status status = waldo__base64_decode(text, &bytes);
    char **slot = status == WALDO_OK ? WALDO__VEC_PUSH(&recording->bytes) : NULL;

    if (slot != NULL) {
        *slot = waldo__buf_take(&bytes, &ret->len);
        ret->ptr = *slot;
    }
    waldo__buf_free(&bytes);
    if (status == WALDO_EINVAL) {
        return "a piece of an answer that is not base64";
    }
    return slot != NULL && *slot != NULL ? NULL : no_memory;
}

static const char *take_chunk(waldo__recording *recording, const waldo__json_value *line)
{
    waldo__exchange *exchange = current(recording);
    waldo_str text = { "", 0 }, *slot;
    const char *why = NULL;

    if (exchange == NULL || exchange->http_status == 0) {
        return "a piece of an answer that has not begun";
    }
    if (waldo__json_str(waldo__json_get(line, "base64"), &text)) {
        why = take_base64(recording, text, &text);
    } else if (!waldo__json_str(waldo__json_get(line, "text"), &text)) {
        return "a piece of an answer without text";
    }
    slot = why == NULL ? WALDO__VEC_PUSH(&exchange->chunks) : NULL;
    if (slot != NULL) {
        *slot = text;
    }
    return why != NULL || slot != NULL ? why : no_memory;
}

static const char *take_end(waldo__recording *recording, const waldo__json_value *line)
{
    waldo__exchange *exchange = current(recording);
    waldo_str name = waldo__json_get_str(line, "status");

    if (exchange == NULL) {
        return "the end of a request that has not begun";
    }
    recording->open = 0;
    exchange->message = waldo__json_get_str(line, "message");
    for (waldo_status status = WALDO_OK; status > LOWEST_STATUS; status--) {
        if (waldo__str_is(name, waldo_status_name(status))) {
            exchange->status = status;
            return status != WALDO_OK || exchange->http_status != 0
                       ? NULL
                       : "a request that succeeded without an answer";
        }
    }
    return "the end of a request without a status";
}

static const char *take_left_out(waldo__exchange *last, const waldo__json_value *parts)
{
    for (const waldo__json_value *part = waldo__json_first(parts); part != NULL;
         part = waldo__json_next(part)) {
        size_t *slot = WALDO__VEC_PUSH(&last->left_out);
        int64_t number;

        if (slot == NULL) {
            return no_memory;
        }
        if (!waldo__json_int(part, &number) || number < 0) {
            return "a part of an answer without a number";
        }
        *slot = (size_t)number;
    }
    return NULL;
}

static const char *take_calls(waldo__recording *recording, const waldo__json_value *line)
{
    size_t count = recording->exchanges.count;
    waldo__exchange *last = count > 0 ? &recording->exchanges.at[count - 1] : NULL;

    if (last == NULL || recording->open || last->call_ids.count + last->left_out.count > 0) {
        return "the calls of an answer that has not ended, or once more";
    }
    for (const waldo__json_value *id = waldo__json_first(waldo__json_get(line, "ids")); id != NULL;
         id = waldo__json_next(id)) {
        waldo_str *slot = WALDO__VEC_PUSH(&last->call_ids);

        if (slot == NULL) {
            return no_memory;
        }
        if (!waldo__json_str(id, slot)) {
            return "the id of a call that is no text";
        }
    }
    return take_left_out(last, waldo__json_get(line, "left_out"));
}

static const char *take_media(waldo__media_list *media, const waldo__json_value *array)
{
    const char *why = NULL;

    for (const waldo__json_value *image = waldo__json_first(array); image != NULL && why == NULL;
         image = waldo__json_next(image)) {
        waldo__buf bytes = WALDO__BUF_INIT(2 * (size_t)WALDO__MEDIA_MAX);
        waldo_status status = waldo__base64_decode(waldo__json_get_str(image, "base64"), &bytes);

        if (status == WALDO_OK) {
            status = waldo__media_add(media, waldo__buf_str(&bytes));
        }
        waldo__buf_free(&bytes);
        why = status == WALDO_OK       ? NULL
              : status == WALDO_ENOMEM ? no_memory
                                       : "an image that is none, or too large";
    }
    return why;
}

static const char *take_result(waldo__recording *recording, const waldo__json_value *line)
{
    int64_t item = waldo__json_get_int(line, "item", -1);
    size_t count = recording->results.count;
    waldo__recorded_result *slot;

    if (item < 0 || (count > 0 && (size_t)item <= recording->results.at[count - 1].item)) {
        return "the result of a call out of order";
    }
    slot = WALDO__VEC_PUSH(&recording->results);
    if (slot == NULL) {
        return no_memory;
    }
    *slot = (waldo__recorded_result){ .item = (size_t)item,
                                      .is_error = waldo__json_get_bool(line, "is_error", 0),
                                      .text = waldo__json_get_str(line, "text") };
    return take_media(&slot->media, waldo__json_get(line, "media"));
}

static const struct {
    const char *type;
    const char *(*take)(waldo__recording *recording, const waldo__json_value *line);
} line_types[] = {
    { "model", take_model },   { "request", take_request }, { "head", take_head },
    { "chunk", take_chunk },   { "end", take_end },         { "calls", take_calls },
    { "result", take_result },
};

static const char *take_line(waldo__recording *recording, const waldo__json_value *line)
{
    waldo_str type = waldo__json_get_str(line, "t");

    for (size_t i = 0; i < WALDO__COUNT(line_types); i++) {
        if (waldo__str_is(type, line_types[i].type)) {
            return line_types[i].take(recording, line);
        }
    }
    return "its kind is not known";
}

static const char *take_version(const waldo__json_value *line)
{
    int64_t version = waldo__json_get_int(line, "waldo_recording", 0);

    if (version == 0) {
        return "this is no recording";
    }
    return version == WALDO__RECORDING_VERSION ? NULL : "a recording of another version of waldo";
}

/* ---- the whole ---- */

static waldo_status refuse(const char *name, size_t line, const char *why, waldo_error **ret_err)
{
    return waldo_error_set(ret_err, WALDO_EPROTO, WALDO_CLASS_USAGE,
                           "recording %.200s, line %zu: %s", name, line, why);
}

static waldo_status parse_line(waldo__recording *recording, waldo_str text, size_t number,
                               waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = FILE_MAX };
    waldo__json **slot = WALDO__VEC_PUSH(&recording->docs);
    waldo_error *error = NULL;
    waldo_status status =
        slot != NULL ? waldo__json_parse(text, &limits, slot, &error) : waldo__error_nomem(&error);
    const waldo__json_value *line;
    const char *why = NULL;

    if (status == WALDO_OK) {
        line = waldo__json_root(*slot);
        why = number == 1 ? take_version(line) : take_line(recording, line);
    } else if (status != WALDO_ENOMEM) {
        why = waldo_error_message(error);
    }
    if (status == WALDO_ENOMEM || why == no_memory) {
        status = waldo__error_nomem(ret_err);
    } else if (why != NULL) {
        status = refuse(recording->name, number, why, ret_err);
    }
    waldo_error_free(error);
    return status;
}

static waldo_status parse_lines(waldo__recording *recording, waldo_str text, waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;
    size_t number = 0, at = 0;

    while (status == WALDO_OK && at < text.len) {
        waldo_str rest = waldo__strn(text.ptr + at, text.len - at);
        size_t len = waldo__str_find(rest, '\n');

        number++;
        if (len == rest.len) {
            return refuse(recording->name, number,
                          "it is cut: the recording was not written to its end", ret_err);
        }
        status = parse_line(recording, waldo__slice(rest.ptr, len), number, ret_err);
        at += len + 1;
    }
    if (status == WALDO_OK && (recording->open || recording->exchanges.count == 0)) {
        status = refuse(recording->name, number + 1,
                        recording->open ? "the end of the last request is missing: the recording "
                                          "was not written to its end"
                                        : "it holds no request",
                        ret_err);
    }
    return status;
}

waldo_status waldo__recording_parse(const char *name, waldo_str text,
                                    waldo__recording **ret_recording, waldo_error **ret_err)
{
    waldo__recording *recording = WALDO__NEW(waldo__recording);
    waldo_status status;

    if (recording == NULL) {
        return waldo__error_nomem(ret_err);
    }
    recording->model.size = sizeof recording->model;
    recording->name = waldo__strdup(name);
    status = recording->name != NULL ? parse_lines(recording, text, ret_err)
                                     : waldo__error_nomem(ret_err);
    if (status != WALDO_OK) {
        waldo__recording_free(recording);
        return status;
    }
    *ret_recording = recording;
    return WALDO_OK;
}

/* 0, or an errno. */
static int read_file(const char *file, waldo__buf *out)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = 0;
    struct stat info;
    ssize_t got = 1;

    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &info) != 0) {
        error = errno;
    } else if (!S_ISREG(info.st_mode)) {
        error = EINVAL;
    }
    while (error == 0 && got > 0) {
        char *room = waldo__buf_reserve(out, PIECE);

        if (room == NULL) {
            break;
        }
        got = read(fd, room, PIECE);
        if (got > 0) {
            waldo__buf_commit(out, (size_t)got);
        } else if (got < 0 && errno == EINTR) {
            got = 1;
        } else if (got < 0) {
            error = errno;
        }
    }
    close(fd);
    return error;
}

waldo_status waldo__recording_read(const char *file, waldo__recording **ret_recording,
                                   waldo_error **ret_err)
{
    waldo__buf text = WALDO__BUF_INIT(FILE_MAX);
    int error = read_file(file, &text);
    waldo_status status;

    if (text.status == WALDO_ENOMEM) {
        status = waldo__error_nomem(ret_err);
    } else if (text.status != WALDO_OK) {
        status = waldo_error_set(ret_err, text.status, WALDO_CLASS_USAGE,
                                 "recording %.200s is larger than 1 GiB", file);
    } else if (error != 0) {
        status = waldo_error_set(ret_err, waldo__errno_status(error), WALDO_CLASS_SYSTEM,
                                 "recording %.200s: %s", file,
                                 error == EINVAL ? "not a regular file" : waldo__errno_text(error));
    } else {
        status = waldo__recording_parse(file, waldo__buf_str(&text), ret_recording, ret_err);
    }
    waldo__buf_free(&text);
    return status;
}

void waldo__recording_free(waldo__recording *recording)
{
    if (recording == NULL) {
        return;
    }
    for (size_t i = 0; i < recording->exchanges.count; i++) {
        WALDO__VEC_FREE(&recording->exchanges.at[i].chunks);
        WALDO__VEC_FREE(&recording->exchanges.at[i].call_ids);
        WALDO__VEC_FREE(&recording->exchanges.at[i].left_out);
    }
    for (size_t i = 0; i < recording->docs.count; i++) {
        waldo__json_free(recording->docs.at[i]);
    }
    for (size_t i = 0; i < recording->bytes.count; i++) {
        waldo__free(recording->bytes.at[i]);
    }
    for (size_t i = 0; i < recording->results.count; i++) {
        waldo__media_free(&recording->results.at[i].media);
    }
    WALDO__VEC_FREE(&recording->exchanges);
    WALDO__VEC_FREE(&recording->results);
    WALDO__VEC_FREE(&recording->docs);
    WALDO__VEC_FREE(&recording->bytes);
    waldo__free(recording->name);
    waldo__free(recording);
}

const waldo_model_options *waldo__recording_model(const waldo__recording *recording)
{
    return &recording->model;
}

size_t waldo__recording_count(const waldo__recording *recording)
{
    return recording->exchanges.count;
}

const waldo__exchange *waldo__recording_at(const waldo__recording *recording, size_t index)
{
    return index < recording->exchanges.count ? &recording->exchanges.at[index] : NULL;
}

const waldo__recorded_result *waldo__recording_result(const waldo__recording *recording,
                                                      size_t item)
{
    size_t from = 0, end = recording->results.count;

    while (from < end) {
        size_t middle = from + (end - from) / 2;

        if (recording->results.at[middle].item == item) {
            return &recording->results.at[middle];
        }
        if (recording->results.at[middle].item < item) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    return NULL;
}

/* ---- comparing ---- */

/* What stands around an offset, with "..." where more would follow. */
static void quote(waldo_str text, size_t at, waldo__buf *out)
{
    size_t from = at > AROUND ? at - AROUND : 0;
    size_t end = text.len - at > AROUND ? at + AROUND : text.len;

    waldo__buf_puts(out, from > 0 ? "\"..." : "\"");
    waldo__provider_quote(waldo__strn(text.ptr + from, end - from), QUOTE_MAX, out);
    waldo__buf_puts(out, end < text.len ? "...\"" : "\"");
}

static waldo_status tell_difference(const waldo__recording *recording, size_t index,
                                    const char *part, waldo_str recorded, waldo_str built,
                                    waldo_error **ret_err)
{
    size_t shorter = recorded.len < built.len ? recorded.len : built.len, at = 0;
    waldo__buf ours = WALDO__BUF_INIT(2 * QUOTE_MAX), theirs = WALDO__BUF_INIT(2 * QUOTE_MAX);
    waldo_error *error = NULL;

    while (at < shorter && recorded.ptr[at] == built.ptr[at]) {
        at++;
    }
    quote(recorded, at, &theirs);
    quote(built, at, &ours);
    waldo_error_set(&error, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                    "replay: request %zu is not the one in %.200s: byte %zu of its %s differs; "
                    "recorded %s, now %s",
                    index + 1, recording->name, at, part, waldo__buf_str(&theirs).ptr,
                    waldo__buf_str(&ours).ptr);
    waldo_error_add_http(error, 0, "replay_mismatch", NULL, -1);
    waldo__buf_free(&ours);
    waldo__buf_free(&theirs);
    waldo__error_move(ret_err, error);
    return WALDO_EPROTO;
}

waldo_status waldo__recording_compare(const waldo__recording *recording, size_t index,
                                      const waldo__exchange *built, waldo_error **ret_err)
{
    const waldo__exchange *old = waldo__recording_at(recording, index);
    waldo_error *error = NULL;

    if (old == NULL) {
        waldo_error_set(&error, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                        "replay: %.200s holds %zu requests, and the run has one more",
                        recording->name, recording->exchanges.count);
        waldo_error_add_http(error, 0, "replay_mismatch", NULL, -1);
        waldo__error_move(ret_err, error);
        return WALDO_EPROTO;
    }
    const struct {
        const char *name;
        waldo_str recorded;
        waldo_str built;
    } parts[] = {
        { "model", old->model, built->model }, { "method", old->method, built->method },
        { "path", old->path, built->path },    { "headers", old->headers, built->headers },
        { "body", old->body, built->body },
    };
    for (size_t i = 0; i < WALDO__COUNT(parts); i++) {
        if (!waldo__str_eq(parts[i].recorded, parts[i].built)) {
            return tell_difference(recording, index, parts[i].name, parts[i].recorded,
                                   parts[i].built, ret_err);
        }
    }
    return WALDO_OK;
}
