/*
 * Recordings of what went between a run and its model, as docs/recordings.md describes them: one
 * JSON object a line. Here they are read and held; src/agent/recorder.c writes them.
 */
#ifndef WALDO_MODEL_RECORDING_H
#define WALDO_MODEL_RECORDING_H

#include "base/buf.h"
#include "base/vec.h"
#include "transcript/media.h"
#include <waldo/sys/model.h>

#define WALDO__RECORDING_VERSION 1

/* One request and its answer; all text is borrowed from the recording. */
typedef struct waldo__exchange {
    waldo_str model; /* string of the model that was asked */
    waldo_str method;
    waldo_str path;
    waldo_str headers;
    waldo_str body;
    int http_status; /* 0: no answer came */
    waldo_str answer_headers;
    struct {
        WALDO__VEC(waldo_str);
    } chunks;            /* of the answer's body, as they came */
    waldo_status status; /* how the transfer ended */
    waldo_str message;   /* why, when it failed */
    struct {
        WALDO__VEC(waldo_str);
    } call_ids; /* of the answer's calls in their order: an adapter may have made them up */
    struct {
        WALDO__VEC(size_t);
    } left_out; /* parts of the answer whose provider's JSON held a secret, and was not kept */
} waldo__exchange;

/* What a tool call was answered, by the index of the call's item in the transcript. */
typedef struct waldo__recorded_result {
    size_t item;
    int is_error;
    waldo_str text;
    waldo__media_list media;
} waldo__recorded_result;

/* Immutable. */
typedef struct waldo__recording waldo__recording;

/* Read a file. WALDO_ENOTFOUND and the like, WALDO_EPROTO: no recording, with line and reason. */
waldo_status waldo__recording_read(const char *file, waldo__recording **ret_recording,
                                   waldo_error **ret_err);

/* The same for its text; name is for messages. */
waldo_status waldo__recording_parse(const char *name, waldo_str text,
                                    waldo__recording **ret_recording, waldo_error **ret_err);
void waldo__recording_free(waldo__recording *recording);

/* Of the first model; its texts and numbers are borrowed. */
const waldo_model_options *waldo__recording_model(const waldo__recording *recording);

size_t waldo__recording_count(const waldo__recording *recording);

/* From 0; NULL past the end. */
const waldo__exchange *waldo__recording_at(const waldo__recording *recording, size_t index);

/* NULL when there is none. */
const waldo__recorded_result *waldo__recording_result(const waldo__recording *recording,
                                                      size_t item);

/*
 * Compare a request with the one recorded at index: WALDO_EPROTO with provider code
 * "replay_mismatch" names the part, the offset and what stands there in both.
 */
waldo_status waldo__recording_compare(const waldo__recording *recording, size_t index,
                                      const waldo__exchange *built, waldo_error **ret_err);

#endif
