/* Reads a Messages answer, streamed or not: bytes in, deltas and at the end items out. */
#include "base/alloc.h"
#include "model/messages.h"

enum { WORD_MAX = 1024 };

waldo_status waldo__messages_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                                  void *userdata, waldo_error **ret_err)
{
    return waldo__body_feed(&reader->body, bytes, delta, userdata, ret_err);
}

void waldo__messages_get_usage(const waldo_reader *reader, waldo_usage *ret_usage)
{
    waldo__answer_usage(&reader->answer, ret_usage);
}

int waldo__messages_complete(const waldo_reader *reader)
{
    return reader->body.is_done;
}

/* ---- why it stopped ---- */

#define CUT_BY_WINDOW "model_context_window_exceeded"

enum { FINISH_BY_CALLS = 0 }; /* the answer's calls tell */

static const struct {
    const char *reason;
    waldo_finish finish;
} stops[] = {
    { "end_turn", FINISH_BY_CALLS },      { "stop_sequence", FINISH_BY_CALLS },
    { "tool_use", FINISH_BY_CALLS },      { "max_tokens", WALDO_FINISH_LENGTH },
    { "pause_turn", WALDO_FINISH_PAUSE }, { "refusal", WALDO_FINISH_REFUSAL },
    { CUT_BY_WINDOW, FINISH_BY_CALLS },
};

/* Its row, or the count. */
static size_t stop_row(waldo_str reason)
{
    size_t row = 0;

    while (row < WALDO__COUNT(stops) && !waldo__str_is(reason, stops[row].reason)) {
        row++;
    }
    return row;
}

int waldo__messages_stop_is_known(waldo_str reason)
{
    return stop_row(reason) < WALDO__COUNT(stops);
}

static size_t count_calls(const waldo_reader *reader)
{
    size_t count = 0;

    for (size_t i = 0; i < reader->blocks.count; i++) {
        const waldo__block *block = reader->blocks.at[i];

        count += block->kind == WALDO__BLOCK_CALL && block->name.len > 0;
    }
    return count;
}

/* A reason that is not known ends the answer like any other. */
static waldo_status judge_stop(waldo_reader *reader)
{
    waldo_str stop = waldo__buf_str(&reader->stop);
    size_t calls = count_calls(reader), row = stop_row(stop);
    waldo_finish finish;

    if (!reader->body.is_done) {
        return waldo__body_fail(
            &reader->body, WALDO_ETRUNCATED,
            "the model's answer ended without its terminal event: the server has lost it");
    }
    if (waldo__str_is(stop, CUT_BY_WINDOW)) {
        return waldo__body_fail(&reader->body, WALDO_EOVERFLOW,
                                "the model's answer was cut by its context window: the "
                                "conversation is too long for the model");
    }
    if ((stop.len == 0 && reader->blocks.count == 0) ||
        (waldo__str_is(stop, "tool_use") && calls == 0)) {
        return waldo__body_fail(&reader->body, WALDO_EPROVIDER,
                                "the model server ended its answer without %s",
                                stop.len == 0 ? "a message or a reason" : "the call it told of");
    }
    finish = row < WALDO__COUNT(stops) ? stops[row].finish : FINISH_BY_CALLS;
    if (finish == FINISH_BY_CALLS || (finish == WALDO_FINISH_PAUSE && calls > 0)) {
        finish = calls > 0 ? WALDO_FINISH_CALLS : WALDO_FINISH_ANSWER;
    }
    reader->answer.finish = finish;
    return WALDO_OK;
}

/* ---- items ---- */

static waldo_item item_of(const waldo__block *block)
{
    static const waldo_item_kind kinds[] = {
        [WALDO__BLOCK_OTHER] = WALDO_ITEM_REASONING,
        [WALDO__BLOCK_TEXT] = WALDO_ITEM_ASSISTANT,
        [WALDO__BLOCK_THINKING] = WALDO_ITEM_REASONING,
        [WALDO__BLOCK_CALL] = WALDO_ITEM_TOOL_CALL,
    };
    waldo_item item = { .kind = kinds[block->kind], .raw = waldo__buf_str(&block->raw) };

    if (block->kind == WALDO__BLOCK_CALL) {
        item.id = waldo__buf_str(&block->id);
        item.name = waldo__buf_str(&block->name);
        item.args = waldo__buf_str(&block->args);
    } else if (block->kind != WALDO__BLOCK_OTHER) {
        item.text = waldo__buf_str(&block->shown.text);
    }
    return item;
}

/* What holds nothing, for us or for its provider, is no item; blank texts may not go back. */
static int is_empty(const waldo__block *block)
{
    switch (block->kind) {
    case WALDO__BLOCK_CALL:
        return block->name.len == 0;
    case WALDO__BLOCK_TEXT:
        return waldo__str_trim(waldo__buf_str(&block->shown.text)).len == 0;
    case WALDO__BLOCK_THINKING:
        return block->shown.text.len + block->signature.len == 0;
    default:
        return block->raw.len == 0;
    }
}

/* Of a refusal nothing is kept: its beginning in the history would be refused again. */
static waldo_status make_items(waldo_reader *reader)
{
    waldo_status status = WALDO_OK;

    if (reader->answer.finish == WALDO_FINISH_REFUSAL) {
        return WALDO_OK;
    }
    for (size_t i = 0; i < reader->blocks.count && status == WALDO_OK; i++) {
        waldo__block *block = reader->blocks.at[i];

        if (is_empty(block)) {
            continue;
        }
        if (block->kind == WALDO__BLOCK_CALL) {
            status = waldo__answer_name_call(&reader->answer, &block->id, &block->raw);
        }
        if (status == WALDO_OK) {
            status = waldo__answer_push(&reader->answer, item_of(block));
        }
    }
    return status;
}

static waldo_status finish_once(waldo_reader *reader)
{
    waldo_status status = waldo__body_end(&reader->body);

    if (status < 0) {
        return status;
    }
    status = judge_stop(reader);
    if (status != WALDO_OK) {
        return status;
    }
    status = waldo__blocks_settle(&reader->blocks, reader->answer.finish == WALDO_FINISH_LENGTH);
    if (status == WALDO_OK) {
        status = make_items(reader);
    }
    return status == WALDO_OK ? WALDO_OK : waldo__body_fail_memory(&reader->body, status);
}

waldo_status waldo__messages_finish(waldo_reader *reader, waldo_response *ret_response,
                                    waldo_error **ret_err)
{
    return waldo__answer_finish(&reader->answer, &reader->body, finish_once, ret_response, ret_err);
}

waldo_status waldo__messages_new_reader(const waldo_model_options *options, waldo_str content_type,
                                        waldo_reader **ret_reader)
{
    waldo_reader *reader = WALDO__NEW(waldo_reader);
    waldo_str url = WALDO__S(""), name = WALDO__S("");
    waldo_status status;

    if (reader == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__body_init(&reader->body, reader, content_type, waldo__messages_read_event,
                     waldo__messages_read_whole);
    waldo__fast_init(&reader->fast);
    waldo__answer_init(&reader->answer);
    waldo__buf_init_wiped(&reader->stop, WORD_MAX);
    reader->usage = (waldo__messages_usage){ -1, -1, -1, -1, -1 };
    waldo__messages_parse(waldo__model_rest(options), &url, &name, NULL);
    status = waldo__messages_vendor(url, name, &reader->answer.vendor);
    if (status != WALDO_OK) {
        waldo__messages_free_reader(reader);
        return status;
    }
    *ret_reader = reader;
    return WALDO_OK;
}

void waldo__messages_free_reader(waldo_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    waldo__body_free(&reader->body);
    waldo__fast_free(&reader->fast);
    waldo__blocks_free(&reader->blocks);
    waldo__answer_free(&reader->answer);
    waldo__buf_free(&reader->stop);
    waldo__free(reader);
}
