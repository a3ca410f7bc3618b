/*
 * What can be done about a request that failed for good, besides failing: a new epoch in which the
 * same request is built anew, in the common form, with shorter tool output, or for another model.
 */
#include "agent/run.h"

#include "base/error.h"

enum { WHY_MAX = 64 * 1024 };

/* What another model may still do. Not there: what is wrong with the request, and with us. */
static const waldo_status unavailable[] = {
    WALDO_EAUTH,     WALDO_EQUOTA,     WALDO_ERATE,
    WALDO_ENOTFOUND, WALDO_EHTTP,      WALDO_EPROVIDER,
    WALDO_EBUSY,     WALDO_ETIMEDOUT,  WALDO_ETIMEDOUT_CONNECT,
    WALDO_ERESOLVE,  WALDO_ECONNECT,   WALDO_ETIMEDOUT_IDLE,
    WALDO_ETLS,      WALDO_ETRANSPORT, WALDO_EUNKNOWN_OUTCOME,
    WALDO_EPROTO,    WALDO_ETRUNCATED, WALDO_EOVERFLOW,
    WALDO_ESTALE,
};

void waldo__run_use_model(waldo_run *run, waldo_model *model)
{
    waldo__run_free_epoch(run);
    waldo_model_ref(model);
    waldo_model_unref(run->model);
    run->model = model;
}

/* The provider refuses what it made before: the history in the common form, once. */
static int make_plain(waldo_run *run, const waldo_error *error)
{
    if (waldo_error_status(error) != WALDO_ESTALE || run->repaired) {
        return 0;
    }
    run->repaired = 1;
    run->plain_until = run->transcript.count;
    waldo__run_free_epoch(run);
    return waldo__run_begin_epoch(run, "the provider refuses what it made before", NULL) ==
           WALDO_OK;
}

/* The conversation is too long: old tool output cut down, once, if that makes it shorter. */
static int make_short(waldo_run *run, const waldo_error *error)
{
    if (waldo_error_status(error) != WALDO_EOVERFLOW || run->shortened ||
        !waldo__run_shorten(run)) {
        return 0;
    }
    run->shortened = 1;
    waldo__run_free_epoch(run);
    return waldo__run_begin_epoch(run,
                                  "the conversation is too long for the model: old tool output is "
                                  "sent shortened",
                                  NULL) == WALDO_OK;
}

static int is_unavailable(waldo_status status)
{
    for (size_t i = 0; i < WALDO__COUNT(unavailable); i++) {
        if (unavailable[i] == status) {
            return 1;
        }
    }
    return 0;
}

static waldo_status begin_with(waldo_run *run, waldo_model *model, const waldo_error *error,
                               waldo_error **ret_err)
{
    waldo__buf why = WALDO__BUF_INIT(WHY_MAX);
    waldo_status status;

    waldo__buf_printf(&why, "model %s failed (%.1000s): going on with %s",
                      waldo__model_string(run->model), waldo_error_message(error),
                      waldo__model_string(model));
    waldo__run_use_model(run, model);
    status = why.status == WALDO_OK ? waldo__run_begin_epoch(run, waldo__buf_str(&why).ptr, ret_err)
                                    : waldo__error_nomem(ret_err);
    waldo__buf_free(&why);
    return status;
}

int waldo__run_fall_back(waldo_run *run, const waldo_error *error)
{
    const waldo_agent *agent = run->agent;

    if (!is_unavailable(waldo_error_status(error))) {
        return 0;
    }
    while (run->next_model < agent->fallbacks.count) {
        waldo_model *model = agent->fallbacks.at[run->next_model++];

        if (begin_with(run, model, error, NULL) == WALDO_OK) {
            run->attempt = 0;
            run->key_renewed = run->repaired = run->shortened = 0;
            return 1;
        }
    }
    return 0;
}

int waldo__run_recover(waldo_run *run, const waldo_error *error)
{
    return make_plain(run, error) || make_short(run, error);
}
