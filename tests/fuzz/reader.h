/* Reads an answer through an adapter's ops: whatever the pieces, the outcome is the same. */
#ifndef WALDO_TESTS_FUZZ_READER_H
#define WALDO_TESTS_FUZZ_READER_H

#include "fuzz.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "model/model.h"

static waldo_status note(void *userdata, waldo_delta_kind kind, waldo_str text)
{
    waldo__buf *out = userdata;

    if (!waldo__utf8_valid(text)) {
        abort();
    }
    waldo__buf_putc(out, (char)('0' + kind));
    waldo__buf_add_str(out, text);
    return WALDO_OK;
}

static void note_text(waldo__buf *out, waldo_str text)
{
    if (!waldo__utf8_valid(text)) {
        abort();
    }
    waldo__buf_add_str(out, text);
    waldo__buf_putc(out, '\n');
}

static void note_end(const waldo_model_ops *ops, waldo_reader *reader, waldo__buf *out)
{
    waldo_response response = { 0 };
    waldo_error *error = NULL;
    waldo_status status = ops->finish(reader, &response, &error);

    waldo__buf_printf(out, "%d %zu %d\n", status, response.item_count, response.finish);
    note_text(out, waldo__str(waldo_error_message(error)));
    if ((status == WALDO_OK) != (error == NULL)) {
        abort();
    }
    for (size_t i = 0; i < response.item_count; i++) {
        const waldo_item *item = &response.items[i];

        note_text(out, item->text);
        note_text(out, item->name);
        note_text(out, item->args);
        note_text(out, item->raw);
        /* ids that were made are random */
        if (item->kind == WALDO_ITEM_TOOL_CALL && item->id.len == 0) {
            abort();
        }
    }
    waldo_error_free(error);
}

/* Tell a reader of a tool that takes plain text, where its API has those. */
static void tell_tool(const waldo_model_ops *ops, waldo_model_options *options,
                      waldo_reader *reader)
{
    static const waldo_tool_decl tool = { WALDO__S("p"), WALDO__S(""), WALDO__S(""),
                                          WALDO__S("text"), WALDO__S("") };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S("http://h/v1"),
                                .tools = &tool,
                                .tool_count = 1 };
    waldo_encoder *encoder = NULL;

    options->quirks = "freeform=on";
    if (ops->new_encoder(&epoch, &encoder, NULL) != WALDO_OK ||
        ops->expect(reader, encoder) != WALDO_OK) {
        abort();
    }
    ops->free_encoder(encoder);
}

static void read_all(const waldo_model_ops *ops, const char *model, const uint8_t *data,
                     size_t size, size_t step, waldo__buf *out)
{
    waldo_model_options options = { .size = sizeof options, .model = model };
    waldo_reader *reader = NULL;
    waldo_status status = WALDO_OK;

    if (ops->new_reader(&options, waldo__str("text/event-stream"), &reader) != WALDO_OK) {
        abort();
    }
    if (ops->expect != NULL) {
        tell_tool(ops, &options, reader);
    }
    for (size_t at = 0; at < size && status == WALDO_OK; at += step) {
        size_t len = size - at < step ? size - at : step;

        status = ops->feed(reader, waldo__strn((const char *)data + at, len), note, out, NULL);
    }
    note_end(ops, reader, out);
    ops->free_reader(reader);
}

/* The first byte cuts the rest into pieces; every text that comes out must be valid UTF-8. */
static void fuzz_reader(const waldo_model_ops *ops, const char *model, const uint8_t *data,
                        size_t size)
{
    waldo__buf whole = WALDO__BUF_INIT(1 << 26);
    waldo__buf cut = WALDO__BUF_INIT(1 << 26);

    if (size < 2) {
        return;
    }
    read_all(ops, model, data + 1, size - 1, size, &whole);
    read_all(ops, model, data + 1, size - 1, (size_t)data[0] % 32 + 1, &cut);
    if (!waldo__str_eq(waldo__buf_str(&whole), waldo__buf_str(&cut))) {
        abort();
    }
    waldo__buf_free(&whole);
    waldo__buf_free(&cut);
}

#endif
