/* Reads a Responses answer, streamed or not: bytes in, deltas and at the end items out. */
#include "base/alloc.h"
#include "model/history.h"
#include "model/responses.h"

waldo_status waldo__responses_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                                   void *userdata, waldo_error **ret_err)
{
    return waldo__body_feed(&reader->body, bytes, delta, userdata, ret_err);
}

void waldo__responses_usage(const waldo_reader *reader, waldo_usage *ret_usage)
{
    waldo__answer_usage(&reader->answer, ret_usage);
}

int waldo__responses_complete(const waldo_reader *reader)
{
    return reader->body.is_done;
}

/* ---- the end ---- */

static size_t count_kind(const waldo_reader *reader, waldo__part_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < reader->parts.count; i++) {
        const waldo__part *part = reader->parts.at[i];

        count += part->kind == kind && (kind != WALDO__PART_CALL || part->name.len > 0);
    }
    return count;
}

static int has_refusal(const waldo_reader *reader)
{
    for (size_t i = 0; i < reader->parts.count; i++) {
        if (reader->parts.at[i]->is_refusal) {
            return 1;
        }
    }
    return 0;
}

static waldo_status judge_ending(waldo_reader *reader)
{
    size_t calls = count_kind(reader, WALDO__PART_CALL);

    switch (reader->ending) {
    case WALDO__RESPONSES_ENDING_NONE:
        return waldo__body_fail(
            &reader->body, WALDO_ETRUNCATED,
            "the model's answer ended without its terminal event: the server has lost it");
    case WALDO__RESPONSES_ENDING_LENGTH:
        reader->answer.finish = WALDO_FINISH_LENGTH;
        return WALDO_OK;
    case WALDO__RESPONSES_ENDING_FILTER:
        reader->answer.finish = WALDO_FINISH_FILTER;
        return WALDO_OK;
    default:
        break;
    }
    if (calls == 0 && count_kind(reader, WALDO__PART_MESSAGE) == 0) {
        return waldo__body_fail(&reader->body, WALDO_EPROVIDER,
                                "the model server ended its answer without a message or a call");
    }
    reader->answer.finish = calls > 0             ? WALDO_FINISH_CALLS
                            : has_refusal(reader) ? WALDO_FINISH_REFUSAL
                                                  : WALDO_FINISH_ANSWER;
    return WALDO_OK;
}

static waldo_item item_of(const waldo__part *part)
{
    static const waldo_item_kind kinds[] = {
        [WALDO__PART_OTHER] = WALDO_ITEM_REASONING,
        [WALDO__PART_MESSAGE] = WALDO_ITEM_ASSISTANT,
        [WALDO__PART_REASONING] = WALDO_ITEM_REASONING,
        [WALDO__PART_CALL] = WALDO_ITEM_TOOL_CALL,
    };
    waldo_item item = { .kind = kinds[part->kind], .raw = waldo__buf_str(&part->raw) };

    if (part->kind == WALDO__PART_CALL) {
        item.id = waldo__buf_str(&part->call_id);
        item.name = waldo__buf_str(&part->name);
        item.args = waldo__buf_str(&part->args);
    } else {
        /* Without the event that holds the item whole, its pieces are all there is. */
        item.text = waldo__buf_str(part->is_done ? &part->text : &part->shown.text);
    }
    return item;
}

/* What holds nothing, for us or for its provider, is no item. */
static int is_empty(const waldo_item *item)
{
    return item->kind == WALDO_ITEM_TOOL_CALL ? item->name.len == 0
                                              : item->text.len + item->raw.len == 0;
}

/* Where the provider keeps the conversation, an answer of nothing must be told by its id, too. */
static waldo_status push_item(waldo_reader *reader, waldo_item item)
{
    if (reader->is_remote) {
        item.response = waldo__buf_str(&reader->answer.id);
    }
    return waldo__answer_push(&reader->answer, item);
}

/*
 * The answer begins with the first message that says it is final, else it is the last one: what
 * models say on their way there is none.
 */
static waldo_status make_items(waldo_reader *reader)
{
    int is_final = 0;

    for (size_t i = 0; i < reader->parts.count; i++) {
        waldo_item item = item_of(reader->parts.at[i]);

        if (is_empty(&item)) {
            continue;
        }
        if (item.kind == WALDO_ITEM_ASSISTANT && !is_final) {
            reader->answer.answer_from = reader->answer.count;
            is_final = waldo__wire_raw_says(item.raw, "phase", WALDO__S("final_answer"));
        }
        if (push_item(reader, item) != WALDO_OK) {
            return WALDO_ENOMEM;
        }
    }
    return reader->is_remote && reader->answer.count == 0
               ? push_item(reader, (waldo_item){ .kind = WALDO_ITEM_REASONING })
               : WALDO_OK;
}

static waldo_status end_texts(waldo_reader *reader)
{
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < reader->parts.count && status == WALDO_OK; i++) {
        status = waldo__model_text_end(&reader->parts.at[i]->shown);
    }
    return status;
}

static waldo_status finish_once(waldo_reader *reader)
{
    waldo_status status = waldo__body_end(&reader->body);

    if (status < 0) {
        return status;
    }
    waldo__parts_settle(&reader->parts, reader->has_output);
    status = judge_ending(reader);
    if (status != WALDO_OK) {
        return status;
    }
    if (reader->is_remote && reader->answer.id.len == 0) {
        return waldo__body_fail(&reader->body, WALDO_EPROTO,
                                "the model server's response has no id to go on from");
    }
    status = end_texts(reader);
    if (status == WALDO_OK) {
        status = waldo__parts_settle_calls(&reader->parts, &reader->freeform,
                                           reader->ending != WALDO__RESPONSES_ENDING_COMPLETED);
    }
    if (status == WALDO_OK) {
        status = make_items(reader);
    }
    return status == WALDO_OK ? WALDO_OK : waldo__body_fail_memory(&reader->body, status);
}

waldo_status waldo__responses_finish(waldo_reader *reader, waldo_response *ret_response,
                                     waldo_error **ret_err)
{
    return waldo__answer_finish(&reader->answer, &reader->body, finish_once, ret_response, ret_err);
}

waldo_status waldo__responses_new_reader(const waldo_model_options *options, waldo_str content_type,
                                         waldo_reader **ret_reader)
{
    waldo_reader *reader = WALDO__NEW(waldo_reader);
    waldo_str url = WALDO__S(""), name = WALDO__S("");
    waldo__responses_quirks quirks;
    waldo_status status;

    if (reader == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__body_init(&reader->body, reader, content_type, waldo__responses_read_event,
                     waldo__responses_read_whole);
    waldo__fast_init(&reader->fast);
    waldo__answer_init(&reader->answer);
    waldo__buf_init(&reader->freeform, WALDO__MODEL_EVENT_MAX);
    waldo__responses_parse(waldo__model_rest(options), &url, &name, NULL);
    reader->is_remote = waldo__responses_quirks_find(options, &quirks, NULL) == WALDO_OK &&
                        waldo__responses_is_remote(&quirks);
    status = waldo__responses_vendor(url, name, &reader->answer.vendor);
    if (status != WALDO_OK) {
        waldo__responses_free_reader(reader);
        return status;
    }
    *ret_reader = reader;
    return WALDO_OK;
}

void waldo__responses_free_reader(waldo_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    waldo__body_free(&reader->body);
    waldo__fast_free(&reader->fast);
    waldo__parts_free(&reader->parts);
    waldo__answer_free(&reader->answer);
    waldo__buf_free(&reader->freeform);
    waldo__free(reader);
}
