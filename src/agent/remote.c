/*
 * A conversation that its provider keeps (history=provider of a model): what is then journalled in
 * place of texts, and what cannot be done since a part of the conversation is not here.
 */
#include "agent/run.h"

#include "base/error.h"
#include "json/json.h"

#define WHY "history=provider: the provider keeps the conversation, so "

enum { TEXT_MAX = 64 * 1024 };

int waldo__run_is_remote(const waldo_run *run)
{
    return waldo__model_history(run->model) != WALDO_HISTORY_HOST;
}

waldo_status waldo__run_refuse_move(waldo_run *run, const char *what, waldo_error **ret_err)
{
    waldo_error *error = NULL;
    waldo_status status =
        waldo_error_set(&error, WALDO_ENOTSUP, WALDO_CLASS_USAGE, WHY "%s: begin a new run", what);

    waldo__events_text(&run->events, WALDO_EVENT_WARNING, waldo__str(waldo_error_message(error)));
    waldo__error_move(ret_err, error);
    return status;
}

/* Put another error in place of one, with its words and more. */
static void say_more(waldo_error **error, waldo_status status, const char *more)
{
    waldo_error *said = NULL;

    waldo_error_set(&said, status, waldo_error_get_class(*error), "%.4000s; " WHY "%s",
                    waldo_error_message(*error), more);
    waldo_error_add_http(said, waldo_error_http_status(*error), waldo_error_provider_code(*error),
                         waldo_error_request_id(*error), -1);
    waldo_error_free(*error);
    *error = said;
}

void waldo__run_explain_overflow(waldo_run *run, waldo_error **error)
{
    if (waldo__run_is_remote(run) && waldo_error_status(*error) == WALDO_EOVERFLOW) {
        say_more(error, WALDO_EOVERFLOW, "nothing of it can be sent shorter: begin a new run");
    }
}

/* ---- an answer that may have been given unseen ---- */

int waldo__run_loses_track(waldo_run *run, waldo_error **error)
{
    waldo_status status = error != NULL ? waldo_error_status(*error) : WALDO_ECANCELED;

    if (waldo__model_history(run->model) != WALDO_HISTORY_CONVERSATION ||
        !waldo__run_may_have_used(run, status)) {
        return 0;
    }
    run->in_doubt = 1;
    if (error != NULL) {
        say_more(error, WALDO_EUNKNOWN_OUTCOME,
                 "it may hold this turn by now, and sending it again could say it twice: look at "
                 "it there, and go on with a new run");
    }
    return 1;
}

int waldo__run_has_lost_track(waldo_run *run, waldo_error **ret_err)
{
    if (run->in_doubt) {
        waldo_error_set(ret_err, WALDO_EUNKNOWN_OUTCOME, WALDO_CLASS_USAGE,
                        WHY "and whether it holds the turn before this one is not known: look at "
                            "it there, and go on with a new run");
    }
    return run->in_doubt;
}

/* ---- the journal ---- */

void waldo__remote_write_text(waldo__json_writer *jw, waldo_str text)
{
    char hash[65];

    waldo__sha256_hex(text, hash);
    waldo__jw_int(jw, "bytes", (int64_t)text.len);
    waldo__jw_text(jw, "sha256", hash);
}

void waldo__remote_write_media(waldo__json_writer *jw, const waldo_media *media, size_t count)
{
    if (count == 0) {
        return;
    }
    waldo__jw_array(jw, "media");
    for (size_t i = 0; i < count; i++) {
        waldo__jw_object(jw, NULL);
        waldo__jw_str(jw, "mime", media[i].mime);
        waldo__remote_write_text(jw, media[i].base64);
        waldo__jw_end(jw, '}');
    }
    waldo__jw_end(jw, ']');
}

waldo_status waldo__remote_write_item(const waldo_item *item, waldo__buf *out)
{
    waldo_str raw_id = WALDO__S("");
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_text(&jw, "kind", waldo__item_kind_name(item->kind));
    if (item->kind == WALDO_ITEM_TOOL_CALL) {
        waldo__jw_str(&jw, "id", item->id);
        waldo__jw_str(&jw, "name", item->name);
        waldo__jw_str(&jw, "args", item->args);
    } else {
        waldo__remote_write_text(&jw, item->text);
    }
    waldo__remote_write_media(&jw, item->media, item->media_count);
    if (item->raw.len > 0 && waldo__json_raw_get(item->raw, "id", &raw_id)) {
        waldo__jw_raw(&jw, "raw_id", raw_id);
    }
    if (item->response.len > 0) {
        waldo__jw_str(&jw, "response", item->response);
    }
    waldo__jw_end(&jw, '}');
    return out->status;
}

/* ---- for the host ---- */

const char *waldo_run_response_id(const waldo_run *run)
{
    for (size_t i = run != NULL ? run->announced : 0; i-- > 0;) {
        const waldo_item *item = waldo__transcript_item(&run->transcript, i);

        if (item->response.len > 0) {
            return item->response.ptr;
        }
    }
    return "";
}
