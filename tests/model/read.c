#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "read.h"

#include "base/alloc.h"
#include "model/model.h"

#define CHAT "chat:http://127.0.0.1:1/v1#m"
#define SSE  "text/event-stream"

struct sink {
    waldo__buf text;
    waldo__buf reasoning;
    waldo__buf rest;
};

static waldo_status on_delta(void *userdata, waldo_delta_kind kind, waldo_str text)
{
    struct sink *sink = userdata;

    switch (kind) {
    case WALDO_DELTA_TEXT:
        return waldo__buf_add_str(&sink->text, text);
    case WALDO_DELTA_REASONING:
        return waldo__buf_add_str(&sink->reasoning, text);
    default:
        waldo__buf_puts(&sink->rest, kind == WALDO_DELTA_CALL ? "call " : "warning ");
        waldo__buf_add_str(&sink->rest, text);
        return waldo__buf_putc(&sink->rest, '\n');
    }
}

static void write_item(const waldo_item *item, waldo__buf *out)
{
    static const char *const names[] = { "?",         "user",        "assistant", "reasoning",
                                         "tool_call", "tool_result", "notice",    "compaction" };

    waldo__buf_puts(out, names[item->kind]);
    waldo__buf_puts(out, " ");
    if (waldo__str_starts(item->id, "call_") && item->id.len == 29) {
        waldo__buf_puts(out, "<made>"); /* random */
    } else {
        waldo__buf_add_str(out, item->kind == WALDO_ITEM_TOOL_CALL ? item->id : item->text);
    }
    if (item->kind == WALDO_ITEM_TOOL_CALL) {
        waldo__buf_puts(out, " ");
        waldo__buf_add_str(out, item->name);
        waldo__buf_puts(out, " ");
        waldo__buf_add_str(out, item->args);
    }
    waldo__buf_puts(out, item->raw.len > 0 ? " " : "");
    waldo__buf_add_str(out, item->raw);
    waldo__buf_putc(out, '\n');
}

const waldo_model_ops *read_ops(const waldo_model_options *options)
{
    waldo_str model = waldo__str(options->model);

    return waldo__str_starts(model, "openai:")      ? &waldo__responses_ops
           : waldo__str_starts(model, "anthropic:") ? &waldo__messages_ops
                                                    : &waldo__chat_ops;
}

static void write_end(const waldo_model_ops *ops, waldo_reader *reader, waldo__buf *out)
{
    static const char *const finishes[] = { "?",      "answer",  "calls", "length",
                                            "filter", "refusal", "pause" };
    waldo_response response = { 0 };
    waldo_error *error = NULL;
    waldo_status status = ops->finish(reader, &response, &error);

    if (status != WALDO_OK) {
        waldo__buf_printf(out, "%s %s\n", waldo_status_name(status), waldo_error_message(error));
        waldo_error_free(error);
        return;
    }
    for (size_t i = 0; i < response.item_count; i++) {
        write_item(&response.items[i], out);
    }
    waldo__buf_printf(out, "finish %s", finishes[response.finish]);
    if (response.usage.input_tokens >= 0 || response.usage.output_tokens >= 0) {
        waldo__buf_printf(out, " usage %d %d %d %d", (int)response.usage.input_tokens,
                          (int)response.usage.output_tokens, (int)response.usage.cached_tokens,
                          (int)response.usage.reasoning_tokens);
    }
    waldo__buf_putc(out, '\n');
}

static waldo_status feed_piece(const waldo_model_ops *ops, waldo_reader *reader, waldo_str piece,
                               struct sink *sink)
{
    char *copy = waldo__strndup(piece.ptr, piece.len);
    waldo_status status = ops->feed(reader, waldo__strn(copy, piece.len), on_delta, sink, NULL);

    waldo__free(copy);
    return status;
}

static void add_line(waldo__buf *out, const char *name, const waldo__buf *text)
{
    if (text->len > 0) {
        waldo__buf_printf(out, "%s ", name);
        waldo__buf_add_str(out, waldo__buf_str(text));
        waldo__buf_putc(out, '\n');
    }
}

void read_answer(const waldo_model_options *options, const char *content_type, waldo_str body,
                 read_cuts cuts, waldo__buf *out)
{
    struct sink sink = { WALDO__BUF_INIT(1 << 20), WALDO__BUF_INIT(1 << 20),
                         WALDO__BUF_INIT(1 << 20) };
    const waldo_model_ops *ops = read_ops(options);
    waldo_reader *reader = NULL;
    waldo_status status = WALDO_OK;
    size_t at = 0;

    assert_int_equal(ops->new_reader(options, waldo__str(content_type), &reader), WALDO_OK);
    while (at < body.len && status == WALDO_OK) {
        size_t end = cuts.step != 0 ? at + cuts.step : body.len;

        end = cuts.first > at && cuts.first < end ? cuts.first : end;
        end = cuts.second > at && cuts.second < end ? cuts.second : end;
        end = end < body.len ? end : body.len;
        status = feed_piece(ops, reader, waldo__strn(body.ptr + at, end - at), &sink);
        at = end;
    }
    add_line(out, "~reasoning", &sink.reasoning);
    add_line(out, "~text", &sink.text);
    waldo__buf_add_str(out, waldo__buf_str(&sink.rest));
    write_end(ops, reader, out);
    ops->free_reader(reader);
    waldo__buf_free(&sink.text);
    waldo__buf_free(&sink.reasoning);
    waldo__buf_free(&sink.rest);
}

static void expect_cut(const waldo_model_options *options, const char *content_type, waldo_str body,
                       read_cuts cuts, const char *expected)
{
    waldo__buf out = WALDO__BUF_INIT(1 << 22);

    read_answer(options, content_type, body, cuts, &out);
    assert_string_equal(waldo__buf_str(&out).ptr, expected);
    waldo__buf_free(&out);
}

void expect_answer(const char *options_model, const char *content_type, waldo_str body,
                   const char *expected)
{
    waldo_model_options options = { .size = sizeof options, .model = options_model };

    expect_cut(&options, content_type, body, (read_cuts){ 0 }, expected);
    expect_cut(&options, content_type, body, (read_cuts){ .step = 1 }, expected);
    expect_cut(&options, content_type, body, (read_cuts){ .step = 3 }, expected);
    for (size_t first = 1; first < body.len; first++) {
        expect_cut(&options, content_type, body, (read_cuts){ .first = first }, expected);
    }
}

/* The stream with these line ends, marks and words. */
static void expect_dress(const char *options_model, const char *content_type, waldo_str body,
                         const char *start, const char *end, const char *expected)
{
    waldo__buf changed = WALDO__BUF_INIT(1 << 20);

    waldo__buf_puts(&changed, start);
    change_line_ends(body, end, &changed);
    expect_answer(options_model, content_type, waldo__buf_str(&changed), expected);
    waldo__buf_free(&changed);
}

void expect_in_any_dress(const char *options_model, const char *content_type, waldo_str body,
                         const char *torn_behind, const char *expected)
{
    static const char *const ends[] = { "\n", "\r\n", "\r" };
    char torn[64];
    const struct {
        const char *from;
        const char *to;
    } forms[] = {
        { "data: ", "data:" },
        { "data: ", "id: 7\nretry: 1\nx\ndata: " },
        { torn_behind, torn },
    };

    snprintf(torn, sizeof torn, "%s\ndata: ", torn_behind != NULL ? torn_behind : "");
    for (size_t i = 0; i < WALDO__COUNT(ends); i++) {
        waldo__buf changed = WALDO__BUF_INIT(1 << 20);
        char comment[32];

        snprintf(comment, sizeof comment, "%s: keep-alive%s", ends[i], ends[i]);
        expect_dress(options_model, content_type, body, "", ends[i], expected);
        expect_dress(options_model, content_type, body, "\xEF\xBB\xBF", comment, expected);
        if (torn_behind != NULL) {
            expect_dress(options_model, "", waldo__str_trim(body), "", ends[i], expected);
        }
        if (forms[i].from != NULL) {
            change_words(body, forms[i].from, forms[i].to, &changed);
            assert_int_not_equal(changed.len, body.len);
            expect_dress(options_model, content_type, waldo__buf_str(&changed), "", ends[i],
                         expected);
        }
        waldo__buf_free(&changed);
    }
}

static void join_events(const char *const *events, waldo__buf *body)
{
    for (size_t i = 0; events[i] != NULL; i++) {
        waldo__buf_printf(body, "data: %s\n\n", events[i]);
    }
}

void expect_model_events(const char *model, const char *const *events, const char *expected)
{
    waldo__buf body = WALDO__BUF_INIT(1 << 20);

    join_events(events, &body);
    expect_answer(model, SSE, waldo__buf_str(&body), expected);
    waldo__buf_free(&body);
}

void expect_events(const char *const *events, const char *expected)
{
    expect_model_events(CHAT, events, expected);
}

void expect_events_in_any_dress(const char *const *events, const char *expected)
{
    waldo__buf body = WALDO__BUF_INIT(1 << 20);

    join_events(events, &body);
    expect_in_any_dress(CHAT, SSE, waldo__buf_str(&body), "\"choices\":", expected);
    waldo__buf_free(&body);
}

char *read_file(const char *name, size_t *ret_len)
{
    char path[4096];
    char *text = waldo__alloc(1 << 20);
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", WALDO_TESTS_DIR, name);
    file = fopen(path, "rbe");
    assert_non_null(file);
    assert_non_null(text);
    *ret_len = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

void change_words(waldo_str text, const char *from, const char *to, waldo__buf *out)
{
    waldo_str word = waldo__str(from);
    size_t at = 0, found;

    while ((found = waldo__str_search(text, word, at)) < text.len) {
        waldo__buf_add(out, text.ptr + at, found - at);
        waldo__buf_puts(out, to);
        at = found + word.len;
    }
    waldo__buf_add(out, text.ptr + at, text.len - at);
}

void change_line_ends(waldo_str text, const char *end, waldo__buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            waldo__buf_puts(out, end);
        } else {
            waldo__buf_putc(out, text.ptr[i]);
        }
    }
}
