#include "agent/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/torn.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "base/utf8.h"
#include "json/json.h"
#include "transcript/media.h"

enum { LINE_MAX_BYTES = 512 * 1024 * 1024 };

struct waldo__recorder {
    int fd;
    const waldo__secrets *secrets;
    size_t requests;
    int open;    /* a request has not ended */
    char *model; /* string of the model described last */
    waldo__scrubber scrubber;
    waldo__buf body; /* of the answer so far: what its events hold in pieces is found at its end */
    struct {
        WALDO__VEC(size_t);
    } chunks; /* where each piece of it ends */
    waldo_status failed;
    const char *failure; /* static */
    int told;
};

/* Headers of an answer that a reader needs; others may hold what is nobody's business. */
static const char *const kept_headers[] = { "content-type", "retry-after", "retry-after-ms",
                                            "x-request-id", "request-id",  "x-should-retry" };

/* ---- lines ---- */

static void fail(waldo__recorder *recorder, waldo_status status, const char *text)
{
    if (recorder->failed == WALDO_OK) {
        recorder->failed = status;
        recorder->failure = text;
    }
}

static void check(waldo__recorder *recorder, waldo_status status)
{
    if (status != WALDO_OK) {
        fail(recorder, status, waldo_status_text(status));
    }
}

static void write_all(waldo__recorder *recorder, waldo_str bytes)
{
    while (bytes.len > 0 && recorder->failed == WALDO_OK) {
        ssize_t done = write(recorder->fd, bytes.ptr, bytes.len);

        if (done < 0 && errno != EINTR) {
            fail(recorder, waldo__errno_status(errno), waldo__errno_text(errno));
        } else if (done > 0) {
            bytes = waldo__slice(bytes.ptr + done, bytes.len - (size_t)done);
        }
    }
}

static void begin(waldo__json_writer *jw, waldo__buf *line, const char *type)
{
    *line = WALDO__BUF_INIT(LINE_MAX_BYTES);
    waldo__json_writer_init(jw, line);
    waldo__jw_object(jw, NULL);
    if (type != NULL) {
        waldo__jw_text(jw, "t", type);
    }
}

static void end(waldo__recorder *recorder, waldo__json_writer *jw, waldo__buf *line)
{
    waldo__jw_end(jw, '}');
    check(recorder, waldo__buf_putc(line, '\n'));
    write_all(recorder, waldo__buf_str(line));
    waldo__buf_free(line);
}

/* One text without secrets. */
static void put(waldo__recorder *recorder, waldo__json_writer *jw, const char *key, waldo_str text)
{
    waldo__buf clean = WALDO__BUF_WIPED(LINE_MAX_BYTES);

    check(recorder, waldo__scrub(recorder->secrets, text, &clean));
    waldo__jw_str(jw, key, waldo__buf_str(&clean));
    waldo__buf_free(&clean);
}

static void put_option(waldo__recorder *recorder, waldo__json_writer *jw, const char *key,
                       const char *text)
{
    if (text != NULL) {
        put(recorder, jw, key, waldo__str(text));
    }
}

/* ---- making ---- */

waldo_status waldo__recorder_new(const char *file, const waldo__secrets *secrets,
                                 waldo__recorder **ret_recorder, waldo_error **ret_err)
{
    waldo__recorder *recorder = WALDO__NEW(waldo__recorder);
    waldo__json_writer jw;
    waldo__buf line;
    struct stat info;
    int error = 0;

    if (recorder == NULL) {
        return waldo__error_nomem(ret_err);
    }
    recorder->secrets = secrets;
    recorder->fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (recorder->fd < 0 || fstat(recorder->fd, &info) != 0) {
        error = errno;
    } else if (!S_ISREG(info.st_mode)) {
        error = EINVAL;
    } else if (fchmod(recorder->fd, 0600) != 0 || ftruncate(recorder->fd, 0) != 0) {
        error = errno;
    }
    if (error != 0) {
        waldo__recorder_free(recorder);
        return waldo_error_set(ret_err, waldo__errno_status(error), WALDO_CLASS_SYSTEM,
                               "recording %.200s: %s", file,
                               error == EINVAL ? "not a regular file" : waldo__errno_text(error));
    }
    waldo__scrubber_init(&recorder->scrubber, secrets);
    waldo__buf_init_wiped(&recorder->body, LINE_MAX_BYTES);
    begin(&jw, &line, NULL);
    waldo__jw_int(&jw, "waldo_recording", WALDO__RECORDING_VERSION);
    end(recorder, &jw, &line);
    *ret_recorder = recorder;
    return WALDO_OK;
}

void waldo__recorder_free(waldo__recorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    if (recorder->fd >= 0) {
        close(recorder->fd);
    }
    waldo__scrubber_free(&recorder->scrubber);
    waldo__buf_free(&recorder->body);
    WALDO__VEC_FREE(&recorder->chunks);
    waldo__free(recorder->model);
    waldo__free(recorder);
}

waldo_status waldo__recorder_failure(waldo__recorder *recorder, const char **ret_text)
{
    if (recorder == NULL || recorder->failed == WALDO_OK || recorder->told) {
        return WALDO_OK;
    }
    recorder->told = 1;
    *ret_text = recorder->failure;
    return recorder->failed;
}

/* ---- what is written ---- */

/* What it takes to build the same requests again; when it is not the model of before. */
static void write_model(waldo__recorder *recorder, const waldo_model *model)
{
    const waldo_model_options *options = waldo__model_options(model);
    const char *string = waldo__model_string(model);
    waldo__json_writer jw;
    waldo__buf line;
    char seed[32];

    if (recorder->model != NULL && strcmp(recorder->model, string) == 0) {
        return;
    }
    waldo__free(recorder->model);
    recorder->model = waldo__strdup(string);
    check(recorder, recorder->model != NULL ? WALDO_OK : WALDO_ENOMEM);
    begin(&jw, &line, "model");
    put(recorder, &jw, "model", waldo__str(string));
    put_option(recorder, &jw, "reasoning", options->reasoning);
    put_option(recorder, &jw, "quirks", options->quirks);
    if (options->max_output_tokens != 0) {
        waldo__jw_int(&jw, "max_output_tokens", options->max_output_tokens);
    }
    if (options->temperature != NULL) {
        waldo__jw_num(&jw, "temperature", *options->temperature);
    }
    if (options->top_p != NULL) {
        waldo__jw_num(&jw, "top_p", *options->top_p);
    }
    if (options->seed != NULL) {
        snprintf(seed, sizeof seed, "%" PRId64, *options->seed);
        waldo__jw_text(&jw, "seed", seed);
    }
    end(recorder, &jw, &line);
}

void waldo__recorder_request(waldo__recorder *recorder, const waldo_model *model,
                             const waldo_model_request *request)
{
    waldo__json_writer jw;
    waldo__buf line;

    if (recorder == NULL) {
        return;
    }
    write_model(recorder, model);
    begin(&jw, &line, "request");
    waldo__jw_int(&jw, "n", (int64_t)++recorder->requests);
    put(recorder, &jw, "model", waldo__str(waldo__model_string(model)));
    waldo__jw_text(&jw, "method", "POST");
    put(recorder, &jw, "path", request->path);
    put(recorder, &jw, "headers", request->headers);
    put(recorder, &jw, "body", request->body);
    end(recorder, &jw, &line);
    recorder->open = 1;
}

void waldo__recorder_head(waldo__recorder *recorder, const waldo__http_head *head)
{
    waldo__buf headers = WALDO__BUF_WIPED(LINE_MAX_BYTES);
    waldo__json_writer jw;
    waldo__buf line;
    waldo_str value;

    if (recorder == NULL) {
        return;
    }
    for (size_t i = 0; i < WALDO__COUNT(kept_headers); i++) {
        if (waldo__header_get(head->headers, kept_headers[i], &value)) {
            waldo__buf_printf(&headers, "%s: ", kept_headers[i]);
            waldo__buf_add_str(&headers, value);
            waldo__buf_putc(&headers, '\n');
        }
    }
    check(recorder, headers.status);
    begin(&jw, &line, "head");
    waldo__jw_int(&jw, "status", head->status);
    put(recorder, &jw, "headers", waldo__buf_str(&headers));
    end(recorder, &jw, &line);
    waldo__buf_free(&headers);
}

static void write_chunk(waldo__recorder *recorder, waldo_str text)
{
    waldo__json_writer jw;
    waldo__buf line;

    if (text.len == 0) {
        return;
    }
    begin(&jw, &line, "chunk");
    if (waldo__utf8_valid(text) && memchr(text.ptr, '\0', text.len) == NULL) {
        waldo__jw_str(&jw, "text", text);
    } else {
        waldo__jw_base64(&jw, "base64", WALDO__S(""), text);
    }
    end(recorder, &jw, &line);
}

/* A piece up to end, in which everything before *done was written, and with the edits that begin
   in it. */
static void write_edited(waldo__recorder *recorder, size_t end, size_t *done,
                         const waldo__torn_edits *edits, size_t *next)
{
    waldo__buf text = WALDO__BUF_INIT(LINE_MAX_BYTES);
    const char *body = recorder->body.ptr;

    for (; *next < edits->count && edits->at[*next].at < end; ++*next) {
        const waldo__torn_edit *edit = &edits->at[*next];

        waldo__buf_add(&text, body + *done, edit->at - *done);
        waldo__buf_add_str(&text, waldo__buf_str(&edit->json));
        *done = edit->at + edit->len;
    }
    if (*done < end) {
        waldo__buf_add(&text, body + *done, end - *done);
        *done = end;
    }
    check(recorder, text.status);
    write_chunk(recorder, waldo__buf_str(&text));
    waldo__buf_free(&text);
}

static void write_body(waldo__recorder *recorder)
{
    waldo__torn_edits edits = { .count = 0 };
    size_t done = 0, next = 0;

    check(recorder, waldo__torn_find(recorder->secrets, waldo__buf_str(&recorder->body), &edits));
    for (size_t i = 0; i < recorder->chunks.count && recorder->failed == WALDO_OK; i++) {
        write_edited(recorder, recorder->chunks.at[i], &done, &edits, &next);
    }
    waldo__torn_free(&edits);
    waldo__buf_free(&recorder->body);
    recorder->chunks.count = 0;
}

/* What came last may wait in the scrubber; what has come out of it ends a piece. */
static void keep_chunk(waldo__recorder *recorder, waldo_status status)
{
    size_t count = recorder->chunks.count;
    size_t *end = NULL;

    check(recorder, status);
    if (recorder->body.len == (count > 0 ? recorder->chunks.at[count - 1] : 0)) {
        return;
    }
    end = WALDO__VEC_PUSH(&recorder->chunks);
    if (end != NULL) {
        *end = recorder->body.len;
    } else {
        check(recorder, WALDO_ENOMEM);
    }
}

void waldo__recorder_body(waldo__recorder *recorder, waldo_str bytes)
{
    if (recorder != NULL && recorder->failed == WALDO_OK) {
        keep_chunk(recorder, waldo__scrubber_feed(&recorder->scrubber, bytes, &recorder->body));
    }
}

void waldo__recorder_end(waldo__recorder *recorder, waldo_status status, const waldo_error *error)
{
    waldo__json_writer jw;
    waldo__buf line;

    if (recorder == NULL || !recorder->open) {
        return;
    }
    recorder->open = 0;
    keep_chunk(recorder, waldo__scrubber_finish(&recorder->scrubber, &recorder->body));
    write_body(recorder);
    waldo__scrubber_init(&recorder->scrubber, recorder->secrets);
    begin(&jw, &line, "end");
    waldo__jw_text(&jw, "status", waldo_status_name(status));
    if (status != WALDO_OK) {
        put(recorder, &jw, "message", waldo__str(waldo_error_message(error)));
    }
    end(recorder, &jw, &line);
}

static void write_ids(waldo__recorder *recorder, waldo__json_writer *jw,
                      const waldo_response *response)
{
    waldo__jw_array(jw, "ids");
    for (size_t i = 0; i < response->item_count; i++) {
        if (response->items[i].kind == WALDO_ITEM_TOOL_CALL) {
            put(recorder, jw, NULL, response->items[i].id);
        }
    }
    waldo__jw_end(jw, ']');
}

/* With a name in place of the secret it would be sent back in a replay, where it was not before. */
static void write_left_out(waldo__recorder *recorder, waldo__json_writer *jw,
                           const waldo_response *response)
{
    waldo__jw_array(jw, "left_out");
    for (size_t i = 0; i < response->item_count; i++) {
        if (waldo__secrets_found(recorder->secrets, response->items[i].raw)) {
            waldo__jw_int(jw, NULL, (int64_t)i);
        }
    }
    waldo__jw_end(jw, ']');
}

void waldo__recorder_calls(waldo__recorder *recorder, const waldo_response *response)
{
    size_t calls = 0, left_out = 0;
    waldo__json_writer jw;
    waldo__buf line;

    if (recorder == NULL) {
        return;
    }
    for (size_t i = 0; i < response->item_count; i++) {
        calls += response->items[i].kind == WALDO_ITEM_TOOL_CALL;
        left_out += waldo__secrets_found(recorder->secrets, response->items[i].raw);
    }
    if (calls + left_out == 0) {
        return;
    }
    begin(&jw, &line, "calls");
    write_ids(recorder, &jw, response);
    if (left_out > 0) {
        write_left_out(recorder, &jw, response);
    }
    end(recorder, &jw, &line);
}

void waldo__recorder_result(waldo__recorder *recorder, size_t call, const waldo_item *result)
{
    waldo__json_writer jw;
    waldo__buf line;

    if (recorder == NULL) {
        return;
    }
    begin(&jw, &line, "result");
    waldo__jw_int(&jw, "item", (int64_t)call);
    waldo__jw_bool(&jw, "is_error", result->is_error);
    put(recorder, &jw, "text", result->text);
    waldo__media_write(&jw, result->media, result->media_count);
    end(recorder, &jw, &line);
}
