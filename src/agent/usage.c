/* What requests have used and cost, and whether the next one is still within the limits. */
#include "agent/run.h"

#include <inttypes.h>

#include "base/error.h"
#include "json/json.h"

enum {
    IMAGE_BYTES = 6000, /* an image counts as text of this length: 1 500 tokens */
    NOTE_MAX = 512,
    BYTES_A_TOKEN = 4, /* of ordinary text, as a rule of thumb */
    HTTP_BAD_GATEWAY = 502,
    HTTP_GATEWAY_TIMEOUT = 504
};

const waldo_usage waldo__no_usage = { -1, -1, -1, -1, -1, 0, 0, -1 };

/* ---- sums ---- */

static void add_count(int64_t *total, int64_t more)
{
    if (more >= 0) {
        *total = (*total >= 0 ? *total : 0) + more;
    }
}

static int has_tokens(const waldo_usage *usage)
{
    return usage->input_tokens >= 0 || usage->output_tokens >= 0;
}

static void add_usage(waldo_usage *total, const waldo_usage *more)
{
    int both = has_tokens(total) && has_tokens(more);

    total->incomplete |= more->incomplete | (both && (total->cost < 0) != (more->cost < 0));
    add_count(&total->input_tokens, more->input_tokens);
    add_count(&total->output_tokens, more->output_tokens);
    add_count(&total->cached_tokens, more->cached_tokens);
    add_count(&total->cache_write_tokens, more->cache_write_tokens);
    add_count(&total->reasoning_tokens, more->reasoning_tokens);
    add_count(&total->cost, more->cost);
}

/* ---- recording ---- */

/* Reported when it is durable. */
static void record(waldo_run *run, waldo_usage usage)
{
    waldo__json_writer jw;
    waldo__buf json;

    usage.cost = waldo__facts_cost(&run->facts, &usage);
    usage.incomplete |= usage.input_tokens < 0 || usage.output_tokens < 0;
    add_usage(&run->new_usage, &usage);
    waldo__record_begin(run, &json, &jw, "usage");
    waldo__jw_int(&jw, "input_tokens", usage.input_tokens);
    waldo__jw_int(&jw, "output_tokens", usage.output_tokens);
    waldo__jw_int(&jw, "cached_tokens", usage.cached_tokens);
    waldo__jw_int(&jw, "cache_write_tokens", usage.cache_write_tokens);
    waldo__jw_int(&jw, "reasoning_tokens", usage.reasoning_tokens);
    waldo__jw_int(&jw, "cost", usage.cost);
    waldo__jw_bool(&jw, "incomplete", usage.incomplete);
    waldo__record_end(run, &json, &jw);
}

/* Some servers cut a conversation that is too long without a word; their counts tell it. */
static void check_window(waldo_run *run, int64_t window, const waldo_usage *usage)
{
    waldo__buf text = WALDO__BUF_INIT(NOTE_MAX);

    if (window < 0 || usage->input_tokens <= window) {
        return;
    }
    waldo__buf_printf(&text,
                      "the prompt had %" PRId64 " tokens and the model's window has %" PRId64
                      ": the server may have left out the beginning without a word",
                      usage->input_tokens, window);
    run->events.lost |= text.status != WALDO_OK;
    waldo__events_text(&run->events, WALDO_EVENT_WARNING, waldo__buf_str(&text));
    waldo__buf_free(&text);
}

void waldo__run_record_usage(waldo_run *run, const waldo_usage *usage)
{
    record(run, *usage);
    check_window(run, run->facts.window, usage);
    run->context_tokens = usage->input_tokens >= 0 && usage->output_tokens >= 0
                              ? usage->input_tokens + usage->output_tokens
                              : -1;
    run->context_items = run->transcript.count;
}

/* Failures before the server had the request. */
static const waldo_status unsent[] = { WALDO_ERESOLVE, WALDO_ECONNECT, WALDO_ETIMEDOUT_CONNECT,
                                       WALDO_ETLS, WALDO_ETRANSPORT };

/* A refusal says that it has not; a gateway's failure says nothing of the server behind it. */
int waldo__run_may_have_used(const waldo_run *run, waldo_status status)
{
    if (run->http_status != 0) {
        return (run->http_status >= 200 && run->http_status < 300) ||
               run->http_status == HTTP_BAD_GATEWAY || run->http_status == HTTP_GATEWAY_TIMEOUT;
    }
    for (size_t i = 0; i < WALDO__COUNT(unsent); i++) {
        if (status == unsent[i]) {
            return 0;
        }
    }
    return 1;
}

void waldo__run_record_cut(waldo_run *run, waldo_status status)
{
    const waldo_model_ops *ops = waldo__model_ops(run->model);
    waldo_usage usage = waldo__no_usage;

    if (!waldo__run_may_have_used(run, status)) {
        return;
    }
    if (run->reader != NULL && ops->usage != NULL) {
        ops->usage(run->reader, &usage);
    }
    usage.incomplete = 1;
    record(run, usage);
}

void waldo__run_announce_usage(waldo_run *run, const waldo_usage *usage)
{
    waldo_event *event = has_tokens(usage) || usage->incomplete
                             ? waldo__events_push(&run->events, WALDO_EVENT_USAGE)
                             : NULL;

    add_usage(&run->usage, usage);
    if (event != NULL) {
        event->usage = *usage;
    }
}

/* ---- limits ---- */

static int64_t known(int64_t count)
{
    return count > 0 ? count : 0;
}

/* Tokens of the next prompt: those of the last exchange and what was added since. */
static int64_t estimate(const waldo_run *run)
{
    int counted = run->context_tokens >= 0;
    size_t bytes = counted ? 0 : strlen(run->agent->instructions);

    for (size_t i = counted ? run->context_items : 0; i < run->transcript.count; i++) {
        const waldo_item *item = waldo__transcript_item(&run->transcript, i);

        bytes += waldo__run_sent_len(run, i) + item->args.len +
                 waldo__run_sent_images(run, i) * IMAGE_BYTES;
    }
    return known(run->context_tokens) + (int64_t)(bytes / BYTES_A_TOKEN);
}

static int too_many_tokens(const waldo_run *run, waldo_error **ret_err)
{
    int64_t used = known(run->usage.input_tokens) + known(run->usage.output_tokens), next;

    if (run->limits.max_tokens == 0) {
        return 0;
    }
    next = estimate(run);
    if ((uint64_t)(used + next) < run->limits.max_tokens) {
        return 0;
    }
    waldo_error_set(ret_err, WALDO_ELIMIT, WALDO_CLASS_USAGE,
                    "limit reached: %" PRId64 " tokens used by the run and about %" PRId64
                    " more for the next prompt, of %" PRIu64 " (max_tokens)",
                    used, next, run->limits.max_tokens);
    return 1;
}

/* The first model that this run may ask of which no prices are known. */
static const char *unpriced_model(const waldo_run *run)
{
    const waldo_model *model = run->model;

    for (size_t i = run->next_model;; i++) {
        waldo__model_facts facts = waldo__facts_find(run->rt->facts, waldo__model_string(model));

        if (!waldo__facts_has_prices(&facts)) {
            return waldo__model_string(model);
        }
        if (i == run->agent->fallbacks.count) {
            return NULL;
        }
        model = run->agent->fallbacks.at[i];
    }
}

static int too_much_money(const waldo_run *run, waldo_error **ret_err)
{
    int64_t used = known(run->usage.cost), next;
    const char *unpriced;

    if (run->limits.max_cost <= 0) {
        return 0;
    }
    unpriced = unpriced_model(run);
    if (unpriced != NULL) {
        waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                        "max_cost is set, but no prices are known of model %.200s: give them with "
                        "the runtime's model_facts, or drop the limit",
                        unpriced);
        return 1;
    }
    next = waldo__facts_cost(&run->facts, &(waldo_usage){ .input_tokens = estimate(run) });
    if (used < run->limits.max_cost && used + next <= run->limits.max_cost) {
        return 0;
    }
    waldo_error_set(ret_err, WALDO_ELIMIT, WALDO_CLASS_USAGE,
                    "limit reached: the run has cost %" PRId64
                    " and the next prompt is about %" PRId64 " more, of %" PRId64
                    " micro-units (max_cost)",
                    used, next, run->limits.max_cost);
    return 1;
}

int waldo__run_budget_is_used(const waldo_run *run, waldo_error **ret_err)
{
    return too_many_tokens(run, ret_err) || too_much_money(run, ret_err);
}

waldo_stop waldo__stop_for(const waldo_error *error)
{
    return waldo_error_status(error) == WALDO_ELIMIT ? WALDO_STOP_LIMIT : WALDO_STOP_FAILED;
}

int waldo__run_limit_reached(const waldo_run *run, waldo_error **ret_err)
{
    if (run->turns >= run->limits.max_turns) {
        waldo_error_set(ret_err, WALDO_ELIMIT, WALDO_CLASS_USAGE,
                        "limit reached: %u model requests for one prompt (max_turns)",
                        run->limits.max_turns);
        return 1;
    }
    return waldo__run_budget_is_used(run, ret_err);
}
