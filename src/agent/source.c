/*
 * Where answers come from: a server, a function of the host, or a recording in place of both. What
 * goes to and fro is recorded here, too.
 */
#include "agent/run.h"

#include "base/error.h"

enum { HEAD_MAX = 64 * 1024, DEFAULT_IDLE_MS = 300 * 1000 };

/* ---- on the way in ---- */

/* Say once that the recording is not whole, and why. */
static void check_recorder(waldo_run *run)
{
    waldo__buf text = WALDO__BUF_INIT(HEAD_MAX);
    const char *why;

    if (waldo__recorder_failure(run->recorder, &why) == WALDO_OK) {
        return;
    }
    waldo__buf_printf(&text, "the recording could not be written and ends here: %s", why);
    run->events.lost |= text.status != WALDO_OK;
    waldo__events_text(&run->events, WALDO_EVENT_WARNING, waldo__buf_str(&text));
    waldo__buf_free(&text);
}

static void take_head(void *userdata, const waldo__http_head *head)
{
    waldo_run *run = userdata;

    waldo__recorder_head(run->recorder, head);
    waldo__turn_head(run, head);
}

static waldo_status take_body(void *userdata, waldo_str bytes)
{
    waldo_run *run = userdata;

    waldo__recorder_body(run->recorder, bytes);
    return waldo__turn_body(run, bytes);
}

static void take_done(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_run *run = userdata;

    run->transfer = NULL;
    waldo__recorder_end(run->recorder, status, error);
    check_recorder(run);
    waldo__turn_done(run, status, error);
}

/* ---- a recording ---- */

static const waldo__recording *recording_of(const waldo_run *run)
{
    return waldo__model_recording(run->agent->model);
}

int waldo__source_offline(const waldo_run *run)
{
    return recording_of(run) != NULL;
}

static const waldo__exchange *last_played(const waldo_run *run)
{
    return run->played > 0 ? waldo__recording_at(recording_of(run), run->played - 1) : NULL;
}

int waldo__source_left_out(const waldo_run *run, size_t n)
{
    const waldo__exchange *last = last_played(run);

    for (size_t i = 0; last != NULL && i < last->left_out.count; i++) {
        if (last->left_out.at[i] == n) {
            return 1;
        }
    }
    return 0;
}

void waldo__source_name_call(const waldo_run *run, size_t *n, waldo_str *id)
{
    const waldo__exchange *last = last_played(run);

    if (last != NULL && *n < last->call_ids.count) {
        *id = last->call_ids.at[*n];
    }
    ++*n;
}

const waldo__recorded_result *waldo__source_result(const waldo_run *run, size_t item)
{
    return waldo__source_offline(run) ? waldo__recording_result(recording_of(run), item) : NULL;
}

static void play_end(waldo_run *run, waldo_status failed)
{
    const waldo__exchange *play = run->play;
    waldo_status status = failed != WALDO_OK ? failed : play->status;
    waldo_error *error = NULL;

    run->play = NULL;
    if (status != WALDO_OK) {
        waldo_error_set(&error, status, WALDO_CLASS_TRANSPORT, "%.*s",
                        (int)(play->message.len < HEAD_MAX ? play->message.len : HEAD_MAX),
                        play->message.ptr);
    }
    take_done(run, status, error);
    waldo_error_free(error);
}

/* The answer as far as somebody wants to read it. */
static void play(waldo_run *run)
{
    const waldo__exchange *exchange = run->play;
    const waldo__http_head head = { exchange->http_status, exchange->answer_headers };
    waldo_status status = WALDO_OK;

    if (run->play_chunk == 0 && run->http_status == 0 && head.status != 0) {
        take_head(run, &head);
    }
    while (run->play_chunk < exchange->chunks.count && status == WALDO_OK && !run->paused) {
        status = take_body(run, exchange->chunks.at[run->play_chunk++]);
    }
    if (!run->paused || status != WALDO_OK) {
        play_end(run, status);
    }
}

/* What was recorded had no secrets, so what is compared with it has none. */
static waldo_status start_playing(waldo_run *run, const waldo_model_request *request,
                                  waldo_error **ret_err)
{
    waldo__exchange built = { .model = waldo__str(waldo__model_string(run->model)),
                              .method = WALDO__S("POST"),
                              .path = request->path,
                              .headers = request->headers,
                              .body = request->body };
    waldo__buf headers, body;
    waldo_status status;

    waldo__run_clean(run, &built.headers, &headers);
    waldo__run_clean(run, &built.body, &body);
    status = waldo__recording_compare(recording_of(run), run->played, &built, ret_err);
    if (status == WALDO_OK) {
        run->play = waldo__recording_at(recording_of(run), run->played++);
        run->play_chunk = 0;
        waldo__task_queue(run->rt->loop, &run->source_task);
    }
    waldo__buf_free(&headers);
    waldo__buf_free(&body);
    return status;
}

/* ---- a function of the host ---- */

static void drop_asked(waldo_run *run)
{
    waldo_generation *asked = run->asked;

    run->asked = NULL;
    if (asked != NULL) {
        run->in_callback++; /* the host hears of the end, and may free the run then */
        waldo__generation_drop(asked);
        run->in_callback--;
    }
}

static void asked_body(void *userdata, waldo_str bytes)
{
    waldo_run *run = userdata;
    const waldo__http_head head = { 200, WALDO__S("content-type: application/x-ndjson\n") };
    waldo_status status;

    if (run->http_status == 0) {
        take_head(run, &head);
    }
    status = take_body(run, bytes);
    if (status != WALDO_OK) {
        drop_asked(run);
        take_done(run, status, NULL);
    }
}

static void asked_done(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_run *run = userdata;

    run->asked = NULL;
    take_done(run, status, error);
}

static waldo_status start_asking(waldo_run *run, const waldo_model_request *request,
                                 waldo_error **ret_err)
{
    const waldo__generation_sink sink = {
        .userdata = run, .loop = run->rt->loop, .body = asked_body, .done = asked_done
    };

    run->asked = waldo__generation_new(request->body, &sink);
    if (run->asked == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__task_queue(run->rt->loop, &run->source_task);
    return WALDO_OK;
}

/* From the run queue, as every callback of the host. */
static void work(void *userdata)
{
    waldo_run *run = userdata;
    const waldo_model_options *options = waldo__model_options(run->model);

    if (run->play != NULL) {
        play(run);
    } else if (run->asked != NULL) {
        run->in_callback++;
        waldo__generation_start(run->asked, options->generate, options->userdata);
        run->in_callback--;
    }
}

/* ---- a server ---- */

static waldo_status start_transfer(waldo_run *run, const waldo_model_request *request,
                                   waldo_error **ret_err)
{
    const waldo_model_ops *ops = waldo__model_ops(run->model);
    const waldo_model_options *options = waldo__model_options(run->model);
    waldo__buf url = WALDO__BUF_INIT(HEAD_MAX), headers = WALDO__BUF_INIT(HEAD_MAX);
    const char *auth_header = ops->auth_header, *auth_prefix = ops->auth_prefix;
    waldo_status status;

    if (ops->auth != NULL) {
        ops->auth(options, &auth_header, &auth_prefix);
    }
    waldo__buf_add_str(&url, waldo__model_url(run->model));
    waldo__buf_add_str(&url, request->path);
    waldo__buf_add_str(&headers, request->headers);
    for (const char *const *line = options->headers; line != NULL && *line != NULL; line++) {
        waldo__buf_printf(&headers, "%s\n", *line);
    }
    status = url.status != WALDO_OK ? url.status : headers.status;
    if (status != WALDO_OK) {
        waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "URL or headers are too long");
    } else {
        status = waldo__http_start(
            run->rt->http,
            &(waldo__http_request){
                .method = "POST",
                .url = url.ptr,
                .headers = waldo__buf_str(&headers),
                .body = request->body,
                .auth_header = run->key_name.len > 0 ? auth_header : NULL,
                .auth_prefix = auth_prefix,
                .auth_key = run->key_name.len > 0 ? run->key_name.ptr : NULL,
                .replay = WALDO__REPLAY_NEVER, /* trying again is decided here, and told */
                .connect_timeout_ms = options->connect_timeout_ms,
                .idle_timeout_ms =
                    options->idle_timeout_ms != 0 ? options->idle_timeout_ms : DEFAULT_IDLE_MS,
                .compressed = !request->streamed,
                .userdata = run,
                .on_head = take_head,
                .on_body = take_body,
                .on_done = take_done },
            &run->transfer, ret_err);
    }
    waldo__buf_free(&url);
    waldo__buf_free(&headers);
    return status;
}

/* ---- any of them ---- */

void waldo__source_init(waldo_run *run)
{
    waldo__task_init(&run->source_task, work, run);
}

waldo_status waldo__source_start(waldo_run *run, const waldo_model_request *request,
                                 waldo_error **ret_err)
{
    waldo_status status;

    if (waldo__source_offline(run)) {
        status = start_playing(run, request, ret_err);
    } else if (waldo__model_options(run->model)->generate != NULL) {
        status = start_asking(run, request, ret_err);
    } else {
        status = start_transfer(run, request, ret_err);
    }
    if (status == WALDO_OK) {
        waldo__recorder_request(run->recorder, run->model, request);
    }
    return status;
}

int waldo__source_open(const waldo_run *run)
{
    return run->transfer != NULL || run->play != NULL || run->asked != NULL;
}

void waldo__source_pause(waldo_run *run, int paused)
{
    if (run->transfer != NULL) {
        waldo__transfer_pause(run->transfer, paused);
    } else if (run->asked != NULL) {
        waldo__generation_pause(run->asked, paused);
    } else if (run->play != NULL && !paused) {
        waldo__task_queue(run->rt->loop, &run->source_task);
    }
}

void waldo__source_drop(waldo_run *run)
{
    waldo_error *error = NULL;

    if (run->transfer != NULL) {
        waldo__transfer_drop(run->transfer);
    }
    waldo__task_cancel(run->rt->loop, &run->source_task);
    run->transfer = NULL;
    run->play = NULL;
    drop_asked(run);
    waldo_error_set(&error, WALDO_ECANCELED, WALDO_CLASS_USAGE, "the request was cancelled");
    waldo__recorder_end(run->recorder, WALDO_ECANCELED, error);
    waldo_error_free(error);
    check_recorder(run);
}
