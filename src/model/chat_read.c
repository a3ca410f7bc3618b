/* Reads a Chat Completions answer, streamed or not: bytes in, deltas and at the end items out. */
#include "base/alloc.h"
#include "base/error.h"
#include "model/chat_reader.h"

enum { WORD_MAX = 256 };

static waldo_status on_event(void *userdata, waldo_str name, waldo_str data)
{
    waldo_reader *reader = userdata;
    waldo_str text = waldo__str_trim(data), piece;

    if (reader->body.is_done) {
        return WALDO_OK;
    }
    if (waldo__str_is(name, "error")) {
        waldo__json *doc = NULL;

        if (waldo__json_parse(text, NULL, &doc, NULL) != WALDO_OK) {
            doc = NULL;
        }
        waldo__body_fail_provider(&reader->body, waldo__json_root(doc), text);
        waldo__json_free(doc);
        return reader->body.status;
    }
    if (waldo__fast_match(&reader->fast, text, &piece)) {
        return waldo__chat_read_piece(reader, piece);
    }
    if (waldo__str_is(text, "[DONE]")) {
        reader->body.is_done = 1;
        return WALDO_OK;
    }
    return text.len > 0 ? waldo__chat_read_json(reader, text) : WALDO_OK;
}

waldo_status waldo__chat_feed(waldo_reader *reader, waldo_str bytes, waldo_delta_fn delta,
                              void *userdata, waldo_error **ret_err)
{
    return waldo__body_feed(&reader->body, bytes, delta, userdata, ret_err);
}

void waldo__chat_usage(const waldo_reader *reader, waldo_usage *ret_usage)
{
    waldo__answer_usage(&reader->answer, ret_usage);
}

int waldo__chat_complete(const waldo_reader *reader)
{
    return reader->body.is_done;
}

/* ---- the end ---- */

static int has_output(const waldo_reader *reader)
{
    return reader->text.text.len + reader->refusal.text.len + reader->calls.named.count > 0;
}

static waldo_status judge_ending(waldo_reader *reader)
{
    int calls = reader->calls.named.count > 0;

    switch (reader->ending) {
    case WALDO__CHAT_ENDING_NONE:
        return waldo__body_fail(
            &reader->body, WALDO_ETRUNCATED,
            "the model's answer ended without a finish_reason: the server has lost it");
    case WALDO__CHAT_ENDING_LENGTH:
        /* Some servers cut a prompt that is too long without a word. */
        if (!has_output(reader) && reader->answer.usage.output_tokens == 0) {
            return waldo__body_fail(
                &reader->body, WALDO_EOVERFLOW,
                "the prompt fills the context window: the model could not answer");
        }
        reader->answer.finish = WALDO_FINISH_LENGTH;
        return WALDO_OK;
    case WALDO__CHAT_ENDING_FILTER:
        reader->answer.finish = WALDO_FINISH_FILTER;
        return WALDO_OK;
    case WALDO__CHAT_ENDING_CALLS:
    case WALDO__CHAT_ENDING_UNKNOWN:
        if (!has_output(reader)) {
            return waldo__body_fail(
                &reader->body, WALDO_EPROVIDER,
                "the model server ended with finish_reason \"%s\" and sent nothing",
                waldo__buf_str(&reader->reason).ptr);
        }
        break;
    default:
        break;
    }
    reader->answer.finish = calls                          ? WALDO_FINISH_CALLS
                            : reader->refusal.text.len > 0 ? WALDO_FINISH_REFUSAL
                                                           : WALDO_FINISH_ANSWER;
    return WALDO_OK;
}

/* Reasoning, text, calls: the order in which they belong into a history. */
static waldo_status make_items(waldo_reader *reader)
{
    const waldo__chat_call_list *calls = &reader->calls.named;
    waldo_status status = WALDO_OK;

    if (reader->reasoning.text.len > 0) {
        status = waldo__answer_push(
            &reader->answer, (waldo_item){ .kind = WALDO_ITEM_REASONING,
                                           .text = waldo__buf_str(&reader->reasoning.text) });
    }
    if (status == WALDO_OK && reader->text.text.len > 0) {
        status = waldo__answer_push(&reader->answer,
                                    (waldo_item){ .kind = WALDO_ITEM_ASSISTANT,
                                                  .text = waldo__buf_str(&reader->text.text) });
    }
    for (size_t i = 0; i < calls->count && status == WALDO_OK; i++) {
        const waldo__chat_call *call = calls->at[i];

        status = waldo__answer_push(&reader->answer,
                                    (waldo_item){ .kind = WALDO_ITEM_TOOL_CALL,
                                                  .id = waldo__buf_str(&call->id),
                                                  .name = waldo__buf_str(&call->name),
                                                  .args = waldo__buf_str(&call->args),
                                                  .raw = waldo__buf_str(&call->extra) });
    }
    return status;
}

static waldo_status end_body(waldo_reader *reader)
{
    waldo_status status = waldo__body_end(&reader->body);

    if (status >= 0 && (waldo__model_text_end(&reader->text) < 0 ||
                        waldo__model_text_end(&reader->reasoning) < 0 ||
                        waldo__model_text_end(&reader->refusal) < 0)) {
        return waldo__body_fail_memory(&reader->body, WALDO_ENOMEM);
    }
    return status;
}

static waldo_status finish_once(waldo_reader *reader)
{
    waldo_status status = end_body(reader);

    if (status == WALDO_OK) {
        status = judge_ending(reader);
    }
    if (status != WALDO_OK) {
        return status;
    }
    /* A refusal is what the model said. */
    status = waldo__buf_add_str(&reader->text.text, waldo__buf_str(&reader->refusal.text));
    if (status == WALDO_OK) {
        status = waldo__chat_calls_end(&reader->calls, reader->quirks.short_ids,
                                       reader->answer.finish == WALDO_FINISH_LENGTH ||
                                           reader->answer.finish == WALDO_FINISH_FILTER);
    }
    if (status == WALDO_OK) {
        status = make_items(reader);
    }
    return status == WALDO_OK ? WALDO_OK : waldo__body_fail_memory(&reader->body, status);
}

waldo_status waldo__chat_finish(waldo_reader *reader, waldo_response *ret_response,
                                waldo_error **ret_err)
{
    return waldo__answer_finish(&reader->answer, &reader->body, finish_once, ret_response, ret_err);
}

waldo_status waldo__chat_new_reader(const waldo_model_options *options, waldo_str content_type,
                                    waldo_reader **ret_reader)
{
    waldo_reader *reader = WALDO__NEW(waldo_reader);
    waldo_str url = WALDO__S(""), name = WALDO__S("");
    waldo_status status;

    if (reader == NULL) {
        return WALDO_ENOMEM;
    }
    waldo__answer_init(&reader->answer);
    waldo__body_init(&reader->body, reader, content_type, on_event, waldo__chat_read_json);
    waldo__buf_init_wiped(&reader->reason, WORD_MAX);
    waldo__model_text_init(&reader->text);
    waldo__model_text_init(&reader->reasoning);
    waldo__model_text_init(&reader->refusal);
    waldo__fast_init(&reader->fast);
    waldo__chat_parse(waldo__model_rest(options), &url, &name, NULL);
    status = waldo__chat_quirks_find(options, url, &reader->quirks, NULL);
    if (status == WALDO_OK) {
        status = waldo__chat_vendor(&reader->quirks, name, &reader->answer.vendor);
    }
    if (status != WALDO_OK) {
        waldo__chat_free_reader(reader);
        return status;
    }
    *ret_reader = reader;
    return WALDO_OK;
}

void waldo__chat_free_reader(waldo_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    waldo__body_free(&reader->body);
    waldo__chat_calls_free(&reader->calls);
    waldo__fast_free(&reader->fast);
    waldo__answer_free(&reader->answer);
    waldo__buf_free(&reader->text.text);
    waldo__buf_free(&reader->reasoning.text);
    waldo__buf_free(&reader->refusal.text);
    waldo__buf_free(&reader->reason);
    waldo__free(reader);
}
