/*
 * What every Messages request of an epoch begins with. The mark for caching stands here and nowhere
 * else: at the top it means "up to the last block", so it moves on by itself and no byte of the
 * history ever changes; the one on the instructions lets other conversations share the head.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "json/schema.h"
#include "model/history.h"
#include "model/messages.h"

/* Least budget that the API takes; a part of the output limit stays for the answer. */
enum { BUDGET_MIN = 1024, ANSWER_PART = 4 };

/* What the API calls effort, and the budget of models that think by budget. */
static const struct {
    const char *effort;
    int64_t budget;
} efforts[] = {
    { "low", 2048 }, { "medium", 8192 }, { "high", 16384 }, { "xhigh", 24576 }, { "max", 32000 },
};

static waldo_status refuse(const char *option, const char *why, waldo_error **ret_err)
{
    return waldo__error_invalid(ret_err, "model option %s: %s", option, why);
}

static int by_budget(const waldo__messages_quirks *quirks)
{
    return strcmp(quirks->thinking, "budget") == 0;
}

/* ---- thinking ---- */

static size_t effort_row(const char *reasoning)
{
    size_t row = 0;

    while (row < WALDO__COUNT(efforts) && strcmp(reasoning, efforts[row].effort) != 0) {
        row++;
    }
    return row;
}

static waldo_status check_reasoning(const waldo__messages_quirks *quirks, const char *reasoning,
                                    uint32_t max_tokens, waldo_error **ret_err)
{
    int64_t budget = 0;

    if (reasoning == NULL || strcmp(reasoning, "none") == 0) {
        return WALDO_OK;
    }
    if (!by_budget(quirks)) {
        return effort_row(reasoning) < WALDO__COUNT(efforts) || strcmp(reasoning, "adaptive") == 0
                   ? WALDO_OK
                   : refuse("reasoning",
                            "this model knows none, adaptive, low, medium, high, xhigh, max",
                            ret_err);
    }
    if (effort_row(reasoning) < WALDO__COUNT(efforts)) {
        return max_tokens - max_tokens / ANSWER_PART >= BUDGET_MIN
                   ? WALDO_OK
                   : refuse("max_output_tokens", "it holds the reasoning, too: at least 1366",
                            ret_err);
    }
    if (!waldo__str_int(waldo__str(reasoning), &budget)) {
        return refuse("reasoning",
                      "this model knows none, low, medium, high, xhigh, max, or a number of tokens",
                      ret_err);
    }
    return budget >= BUDGET_MIN && budget < (int64_t)max_tokens
               ? WALDO_OK
               : refuse("reasoning",
                        "the number of tokens is at least 1024 and below max_output_tokens",
                        ret_err);
}

/* Of an effort, or the number itself. */
static int64_t budget_of(const char *reasoning, uint32_t max_tokens)
{
    size_t row = effort_row(reasoning);
    int64_t most = max_tokens - max_tokens / ANSWER_PART, budget = 0;

    if (row < WALDO__COUNT(efforts)) {
        return efforts[row].budget < most ? efforts[row].budget : most;
    }
    waldo__str_int(waldo__str(reasoning), &budget);
    return budget;
}

int waldo__messages_has_budget(const waldo__messages_quirks *quirks,
                               const waldo_model_options *options)
{
    return by_budget(quirks) && options->reasoning != NULL &&
           strcmp(options->reasoning, "none") != 0;
}

static void write_thinking(const waldo__messages_quirks *quirks, const char *reasoning,
                           uint32_t max_tokens, waldo__json_writer *writer)
{
    int has_display = strcmp(quirks->display, "none") != 0;
    int has_binding = strcmp(quirks->binding, "none") != 0;

    if (reasoning == NULL && (by_budget(quirks) || (!has_display && !has_binding))) {
        return;
    }
    waldo__jw_object(writer, "thinking");
    if (reasoning != NULL && strcmp(reasoning, "none") == 0) {
        waldo__jw_str(writer, "type", WALDO__S("disabled"));
        waldo__jw_end(writer, '}');
        return;
    }
    if (by_budget(quirks)) {
        waldo__jw_str(writer, "type", WALDO__S("enabled"));
        waldo__jw_int(writer, "budget_tokens", budget_of(reasoning, max_tokens));
    } else {
        waldo__jw_str(writer, "type", WALDO__S("adaptive"));
    }
    if (has_display) {
        waldo__jw_text(writer, "display", quirks->display);
    }
    if (has_binding) {
        waldo__jw_object(writer, "block_binding");
        waldo__jw_text(writer, "prefix_mismatch_behavior", quirks->binding);
        waldo__jw_end(writer, '}');
    }
    waldo__jw_end(writer, '}');
}

/* What the API can hold a model to: its own clients move all else into descriptions. */
static const char keywords[] = "type\0properties\0required\0items\0anyOf\0allOf\0enum\0const\0"
                               "$ref\0$defs\0description\0title\0additionalProperties\0";

/* A schema that says more, or allows more than it names, is told by the instructions alone. */
static void write_output(const waldo__messages_quirks *quirks, const char *reasoning,
                         waldo_str schema, waldo__json_writer *writer)
{
    int has_effort =
        !by_budget(quirks) && reasoning != NULL && effort_row(reasoning) < WALDO__COUNT(efforts);
    int has_format = quirks->output_format && schema.len > 0 &&
                     waldo__schema_is_strict(schema, keywords, &writer->out->status);

    if (!has_effort && !has_format) {
        return;
    }
    waldo__jw_object(writer, "output_config");
    if (has_effort) {
        waldo__jw_text(writer, "effort", reasoning);
    }
    if (has_format) {
        waldo__jw_object(writer, "format");
        waldo__jw_str(writer, "type", WALDO__S("json_schema"));
        waldo__jw_raw(writer, "schema", schema);
        waldo__jw_end(writer, '}');
    }
    waldo__jw_end(writer, '}');
}

/* ---- sampling ---- */

static waldo_status check_sampling(const waldo__messages_quirks *quirks, const char *option,
                                   const double *value, double least, waldo_error **ret_err)
{
    if (value == NULL) {
        return WALDO_OK;
    }
    if (strcmp(quirks->version, "2023-06-01") != 0) {
        return refuse(option,
                      "version 2026-10-21 of the Messages API has none: leave it out, or set the "
                      "quirk version=2023-06-01 for a model that takes it",
                      ret_err);
    }
    if (!(*value >= 0 && *value <= 1)) {
        return refuse(option, "the Messages API takes 0 to 1", ret_err);
    }
    return quirks->sampling || *value >= least
               ? WALDO_OK
               : refuse(option, "this model does not take it: leave it out", ret_err);
}

static waldo_status check_options(const waldo__messages_quirks *quirks,
                                  const waldo_model_options *options, const double *temperature,
                                  uint32_t max_tokens, waldo_error **ret_err)
{
    waldo_status status = check_reasoning(quirks, options->reasoning, max_tokens, ret_err);

    if (status == WALDO_OK && options->seed != NULL) {
        status = refuse("seed", "the Messages API has none: leave it out", ret_err);
    }
    if (status == WALDO_OK) {
        status = check_sampling(quirks, "temperature", temperature, 1.0, ret_err);
    }
    return status == WALDO_OK ? check_sampling(quirks, "top_p", options->top_p, 0.99, ret_err)
                              : status;
}

/* ---- all of it ---- */

static void write_cache_mark(const waldo__messages_quirks *quirks, waldo__json_writer *writer)
{
    if (strcmp(quirks->cache, "none") == 0) {
        return;
    }
    waldo__jw_object(writer, "cache_control");
    waldo__jw_str(writer, "type", WALDO__S("ephemeral"));
    if (strcmp(quirks->cache, "5m") != 0) {
        waldo__jw_text(writer, "ttl", quirks->cache);
    }
    waldo__jw_end(writer, '}');
}

static waldo_status write_tool(const waldo__messages_quirks *quirks, const waldo_tool_decl *tool,
                               int is_marked, waldo__json_writer *writer, waldo_error **ret_err)
{
    waldo_str schema;
    waldo_status status = waldo__wire_schema(tool, &schema, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    waldo__jw_object(writer, NULL);
    waldo__jw_str(writer, "name", tool->name);
    if (tool->about.len > 0) {
        waldo__jw_str(writer, "description", tool->about);
    }
    waldo__jw_raw(writer, "input_schema", schema);
    if (is_marked) {
        write_cache_mark(quirks, writer);
    }
    waldo__jw_end(writer, '}');
    return WALDO_OK;
}

static void write_system(const waldo__messages_quirks *quirks, waldo_str instructions,
                         waldo__json_writer *writer)
{
    waldo__jw_array(writer, "system");
    waldo__jw_object(writer, NULL);
    waldo__jw_str(writer, "type", WALDO__S("text"));
    waldo__jw_str(writer, "text", instructions);
    write_cache_mark(quirks, writer);
    waldo__jw_end(writer, '}');
    waldo__jw_end(writer, ']');
}

waldo_status waldo__messages_write_head(const waldo__messages_quirks *quirks,
                                        const waldo_model_epoch *epoch, waldo__buf *out,
                                        waldo_error **ret_err)
{
    const waldo_model_options *options = epoch->options;
    const double *temperature =
        epoch->temperature != NULL ? epoch->temperature : options->temperature;
    uint32_t max_tokens = options->max_output_tokens != 0 ? options->max_output_tokens
                          : epoch->max_output != 0        ? epoch->max_output
                                                          : quirks->max_tokens;
    int has_system = waldo__str_trim(epoch->instructions).len > 0;
    waldo_status status = check_options(quirks, options, temperature, max_tokens, ret_err);
    waldo__json_writer writer;

    waldo__json_writer_init(&writer, out);
    waldo__jw_object(&writer, NULL);
    waldo__jw_str(&writer, "model", epoch->model);
    waldo__jw_int(&writer, "max_tokens", max_tokens);
    if (quirks->stream) {
        waldo__jw_bool(&writer, "stream", 1);
    }
    write_cache_mark(quirks, &writer);
    write_thinking(quirks, options->reasoning, max_tokens, &writer);
    write_output(quirks, options->reasoning, epoch->output_schema, &writer);
    if (temperature != NULL) {
        waldo__jw_num(&writer, "temperature", *temperature);
    }
    if (options->top_p != NULL) {
        waldo__jw_num(&writer, "top_p", *options->top_p);
    }
    if (has_system) {
        write_system(quirks, epoch->instructions, &writer);
    }
    if (epoch->tool_count > 0) {
        waldo__jw_array(&writer, "tools");
        for (size_t i = 0; i < epoch->tool_count && status == WALDO_OK; i++) {
            status = write_tool(quirks, &epoch->tools[i], !has_system && i + 1 == epoch->tool_count,
                                &writer, ret_err);
        }
        waldo__jw_end(&writer, ']');
    }
    waldo__jw_array(&writer, "messages");
    return status == WALDO_OK ? out->status : status;
}
