/* Writing recordings: what goes between a run and its model, line by line as it happens. */
#ifndef WALDO_AGENT_RECORDER_H
#define WALDO_AGENT_RECORDER_H

#include "http/http.h"
#include "model/model.h"

typedef struct waldo__recorder waldo__recorder;

/* A new file, or an old one made empty, for its owner only. */
waldo_status waldo__recorder_new(const char *file, const waldo__secrets *secrets,
                                 waldo__recorder **ret_recorder, waldo_error **ret_err);
void waldo__recorder_free(waldo__recorder *recorder);

/* All of these accept NULL. Registered secrets are replaced on the way. */
void waldo__recorder_request(waldo__recorder *recorder, const waldo_model *model,
                             const waldo_model_request *request);
void waldo__recorder_head(waldo__recorder *recorder, const waldo__http_head *head);
void waldo__recorder_body(waldo__recorder *recorder, waldo_str bytes);
void waldo__recorder_end(waldo__recorder *recorder, waldo_status status, const waldo_error *error);
void waldo__recorder_calls(waldo__recorder *recorder, const waldo_response *response);
void waldo__recorder_result(waldo__recorder *recorder, size_t call, const waldo_item *result);

/* The first failure, once: nothing is written behind it. WALDO_OK: none, or it was told. */
waldo_status waldo__recorder_failure(waldo__recorder *recorder, const char **ret_text);

#endif
