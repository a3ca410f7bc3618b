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
    run->facts = waldo__facts_find(run->rt->facts, waldo__model_string(model));
    run->thoughtless = 0;
}

/* An epoch for the same request; when it cannot begin, that is the error. */
static int begin(waldo_run *run, const char *why, waldo_error **error)
{
    waldo_error *failure = NULL;

    waldo__run_free_epoch(run);
    if (waldo__run_begin_epoch(run, why, &failure) == WALDO_OK) {
        return 1;
    }
    waldo_error_free(*error);
    *error = failure;
    return 0;
}

/* The provider refuses what it made before: the history in the common form, once. */
static int make_plain(waldo_run *run, waldo_error **error)
{
    if (waldo_error_status(*error) != WALDO_ESTALE || run->repaired) {
        return 0;
    }
    run->repaired = 1;
    run->plain_until = run->transcript.count;
    return begin(run, "the provider refuses what it made before", error);
}

/* It misses reasoning of its own in what is going on: then without any, until the next prompt. */
static int make_thoughtless(waldo_run *run, waldo_error **error)
{
    const char *reasoning = waldo__model_options(run->model)->reasoning;

    if (waldo_error_status(*error) != WALDO_ESTALE || run->thoughtless || reasoning == NULL ||
        strcmp(reasoning, "none") == 0) {
        return 0;
    }
    run->thoughtless = 1;
    return begin(run, "the provider wants reasoning that is not there: none is asked for", error);
}

/* The conversation is too long: old tool output cut down, once, if that makes it shorter. */
static int make_short(waldo_run *run, waldo_error **error)
{
    if (waldo_error_status(*error) != WALDO_EOVERFLOW || run->shortened ||
        !waldo__run_shorten(run)) {
        return 0;
    }
    run->shortened = 1;
    return begin(run,
                 "the conversation is too long for the model: old tool output is sent shortened",
                 error);
}

int waldo__run_recover(waldo_run *run, waldo_error **error)
{
    if (waldo__run_is_remote(run)) {
        waldo__run_explain_overflow(run, error);
        return 0;
    }
    return make_plain(run, error) || make_thoughtless(run, error) || make_short(run, error);
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

static int begin_with(waldo_run *run, waldo_model *model, waldo_error **error)
{
    waldo__buf why = WALDO__BUF_INIT(WHY_MAX);
    int begun = 0;

    waldo__buf_printf(&why, "model %s failed (%.1000s): going on with %s",
                      waldo__model_string(run->model), waldo_error_message(*error),
                      waldo__model_string(model));
    if (why.status == WALDO_OK) {
        waldo__run_use_model(run, model);
        run->next_model++;
        begun = begin(run, waldo__buf_str(&why).ptr, error);
    } else {
        waldo__error_clear(error);
        waldo__error_nomem(error);
    }
    waldo__buf_free(&why);
    return begun;
}

int waldo__run_fall_back(waldo_run *run, waldo_error **error)
{
    const waldo_agent *agent = run->agent;
    int possible = is_unavailable(waldo_error_status(*error)) && !waldo__run_is_remote(run);

    while (possible && run->next_model < agent->fallbacks.count) {
        if (begin_with(run, agent->fallbacks.at[run->next_model], error)) {
            run->attempt = 0;
            run->key_renewed = run->repaired = run->shortened = 0;
            return 1;
        }
        possible = waldo_error_status(*error) != WALDO_ENOMEM;
    }
    return 0;
}
