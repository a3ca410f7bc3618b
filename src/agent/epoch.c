/*
 * The epoch of a run: the frozen part of its requests, and the encoder that items are added to.
 * What was added is never encoded again.
 */
#include "agent/run.h"

#include "base/alloc.h"
#include "base/error.h"
#include "json/json.h"

enum { INSTRUCTIONS_MAX = 64 * 1024 * 1024 };

static waldo_status write_instructions(const waldo_run *run, waldo__buf *out)
{
    const waldo_agent *agent = run->agent;

    waldo__buf_puts(out, agent->instructions);
    if (run->sandbox != NULL) {
        const char *blocks[] = { agent->prompt, run->notes };

        for (size_t i = 0; i < WALDO__COUNT(blocks); i++) {
            if (blocks[i] != NULL && blocks[i][0] != '\0') {
                waldo__buf_printf(out, "%s%s", out->len > 0 ? "\n\n" : "", blocks[i]);
            }
        }
    }
    if (run->agent->output_schema[0] != '\0') {
        waldo__buf_printf(out,
                          "%sThe final answer must be one JSON value that follows this schema, and "
                          "nothing else: no text around it, no Markdown.\n%s",
                          out->len > 0 ? "\n\n" : "", run->agent->output_schema);
    }
    return out->status;
}

static void declare_tools(const waldo__tools *tools, waldo_tool_decl *decls, size_t *count)
{
    for (size_t i = 0; i < tools->count; i++) {
        const waldo_tool_options *options = waldo__tool_options(tools->at[i]);

        decls[(*count)++] = (waldo_tool_decl){ .name = waldo__str(options->name),
                                               .about = waldo__str(options->about),
                                               .schema = waldo__tool_schema(tools->at[i]),
                                               .freeform = waldo__str(options->freeform),
                                               .grammar = waldo__str(options->grammar) };
    }
}

static uint32_t known_max_output(const waldo_run *run)
{
    int64_t known = run->facts.max_output;

    return known > 0 && known <= UINT32_MAX ? (uint32_t)known : 0;
}

static waldo_status make_encoder(waldo_run *run, waldo_error **ret_err)
{
    const waldo_agent *agent = run->agent;
    waldo__buf instructions = WALDO__BUF_INIT(INSTRUCTIONS_MAX);
    size_t count = 0, most = agent->host_tools.count + agent->sandbox_tools.count;
    waldo_tool_decl *decls = waldo__calloc(most + 1, sizeof *decls);
    waldo_model_options options = *waldo__model_options(run->model);
    waldo_status status = decls != NULL ? write_instructions(run, &instructions) : WALDO_ENOMEM;

    if (status != WALDO_OK) {
        waldo__error_nomem(ret_err);
    } else {
        if (run->sandbox != NULL) {
            declare_tools(&agent->sandbox_tools, decls, &count);
        }
        declare_tools(&agent->host_tools, decls, &count);
        options.reasoning = run->thoughtless ? NULL : options.reasoning;
        status = waldo__model_ops(run->model)
                     ->new_encoder(
                         &(waldo_model_epoch){
                             .size = sizeof(waldo_model_epoch),
                             .parallel_calls = run->limits.max_parallel > 1,
                             .options = &options,
                             .model = waldo__model_name(run->model),
                             .url = waldo__model_url(run->model),
                             .instructions = waldo__buf_str(&instructions),
                             .tools = decls,
                             .tool_count = count,
                             .temperature = agent->has_temperature ? &agent->temperature : NULL,
                             .output_schema = waldo__str(agent->output_schema),
                             .max_output = known_max_output(run) },
                         &run->encoder, ret_err);
    }
    waldo__buf_free(&instructions);
    waldo__free(decls);
    return status;
}

void waldo__run_free_epoch(waldo_run *run)
{
    if (run->encoder != NULL) {
        waldo__model_ops(run->model)->free_encoder(run->encoder);
        run->encoder = NULL;
    }
    run->encoded = 0;
    run->new_epoch = 0;
    run->context_tokens = -1;
}

/* An epoch is journalled and told before the first request that is built in it. */
static void record_epoch(waldo_run *run, const char *why)
{
    waldo__json_writer jw;
    waldo__buf json;

    waldo__record_begin(run, &json, &jw, "epoch");
    waldo__jw_text(&jw, "model", waldo__model_string(run->model));
    waldo__jw_text(&jw, "why", why);
    if (waldo__run_is_remote(run)) {
        waldo__jw_str(&jw, "history", WALDO__S("provider"));
    }
    if (run->thoughtless) {
        waldo__jw_bool(&jw, "reasoning", 0);
    }
    waldo__jw_int(&jw, "plain_until", (int64_t)run->plain_until);
    waldo__jw_int(&jw, "cut_until", (int64_t)run->cut_until);
    waldo__jw_int(&jw, "cut_newest", (int64_t)run->cut_newest);
    waldo__record_end(run, &json, &jw);
    run->new_epoch = 1;
    waldo__events_text(&run->events, WALDO_EVENT_EPOCH, waldo__str(why));
}

waldo_status waldo__run_begin_epoch(waldo_run *run, const char *why, waldo_error **ret_err)
{
    waldo_status status = make_encoder(run, ret_err);

    if (status == WALDO_OK) {
        record_epoch(run, why);
    }
    return status;
}

size_t waldo__run_response_start(const waldo_run *run)
{
    size_t from = run->transcript.count;

    while (from > 0 &&
           waldo__is_response_part(waldo__transcript_item(&run->transcript, from - 1)->kind)) {
        from--;
    }
    return from;
}

/* Parts of one response belong into one append; everything else stands alone or with its kind. */
static size_t group_end(const waldo_run *run, size_t from)
{
    waldo_item_kind first = waldo__transcript_item(&run->transcript, from)->kind;
    size_t end = from + 1;

    while (end < run->transcript.count) {
        waldo_item_kind kind = waldo__transcript_item(&run->transcript, end)->kind;

        if (waldo__is_response_part(first) ? !waldo__is_response_part(kind) : kind != first) {
            break;
        }
        end++;
    }
    return end;
}

/* Give the encoder the items from run->encoded up to end, as they are sent. */
static waldo_status append_group(waldo_run *run, size_t end, waldo_error **ret_err)
{
    size_t first = run->encoded, count = end - first;
    waldo_item *items = waldo__calloc(count, sizeof *items);
    waldo__buf *rooms = waldo__calloc(count, sizeof *rooms);
    waldo_status status = items != NULL && rooms != NULL ? WALDO_OK : WALDO_ENOMEM;

    for (size_t i = 0; i < count && status == WALDO_OK; i++) {
        items[i] = *waldo__transcript_item(&run->transcript, first + i);
        if (first + i < run->plain_until) {
            items[i].raw = WALDO__S("");
        }
        status = waldo__run_sent_item(run, first + i, &items[i], &rooms[i]);
    }
    status = status == WALDO_OK
                 ? waldo__model_ops(run->model)->append(run->encoder, items, count, ret_err)
                 : waldo__error_nomem(ret_err);
    for (size_t i = 0; rooms != NULL && i < count; i++) {
        waldo__buf_free(&rooms[i]);
    }
    waldo__free(rooms);
    waldo__free(items);
    return status;
}

waldo_status waldo__run_encode(waldo_run *run, waldo_error **ret_err)
{
    while (run->encoded < run->transcript.count) {
        size_t end = group_end(run, run->encoded);
        waldo_status status = append_group(run, end, ret_err);

        if (status != WALDO_OK) {
            return status;
        }
        run->encoded = end;
    }
    return WALDO_OK;
}
