#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "write.h"

#include "base/alloc.h"
#include "json/json.h"

const waldo_tool_decl declared[DECLARED] = {
    { WALDO__S("run_command"), WALDO__S("Run a \"command\"."),
      WALDO__S("{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"}},"
               "\"required\":[\"cmd\"]}") },
    { WALDO__S("read_file"), WALDO__S(""), WALDO__S("") },
};

waldo_encoder *new_encoder(const waldo_model_ops *ops, const waldo_model_options *options,
                           const char *url, const char *model, size_t tool_count)
{
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = options,
                                .model = waldo__str(model),
                                .url = waldo__str(url),
                                .instructions = WALDO__S("Use tools."),
                                .tools = declared,
                                .tool_count = tool_count };
    waldo_encoder *encoder = NULL;

    assert_int_equal(ops->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    return encoder;
}

waldo_model_request request(const waldo_model_ops *ops, waldo_encoder *encoder,
                            waldo_tool_choice choice)
{
    waldo_model_turn turn = { .size = sizeof turn,
                              .tool_choice = choice,
                              .tool_choice_name = WALDO__S("run_command") };
    waldo_model_request made = { 0 };

    assert_int_equal(ops->request(encoder, &turn, &made, NULL), WALDO_OK);
    return made;
}

void encode(const waldo_model_ops *ops, const waldo_model_options *options, const char *url,
            const char *model, const waldo_item *items, size_t count, waldo_tool_choice choice,
            waldo__buf *out)
{
    waldo_encoder *encoder = new_encoder(ops, options, url, model, DECLARED);

    assert_int_equal(ops->append(encoder, items, count, NULL), WALDO_OK);
    waldo__buf_add_str(out, request(ops, encoder, choice).body);
    ops->free_encoder(encoder);
}

void expect_request_error(const waldo_model_ops *ops, waldo_encoder *encoder,
                          waldo_tool_choice choice, const char *message)
{
    waldo_model_turn turn = { .size = sizeof turn, .tool_choice = choice };
    waldo_model_request made = { 0 };
    waldo_error *error = NULL;

    assert_int_equal(ops->request(encoder, &turn, &made, &error), WALDO_EINVAL);
    assert_string_equal(waldo_error_message(error), message);
    assert_int_equal(made.size, 0);
    waldo_error_free(error);
}

void expect_refusals(const waldo_model_ops *ops, waldo_encoder *encoder)
{
    static const waldo_item items[] = { USER("u"), CALL("a", "f", "{}"), RESULT("a", "r") };
    static const waldo_item unknown = { .kind = 99 };
    waldo__buf before = WALDO__BUF_INIT(4096);
    waldo_error *error = NULL;

    expect_request_error(ops, encoder, 0, "there is no message to send to the model");
    assert_int_equal(ops->append(encoder, items, 2, NULL), WALDO_OK);
    expect_request_error(ops, encoder, 0, "call \"a\" of tool \"f\" has no result yet");
    assert_int_equal(ops->append(encoder, items + 2, 1, NULL), WALDO_OK);
    waldo__buf_add_str(&before, request(ops, encoder, 0).body);
    /* an append that fails adds nothing */
    assert_int_equal(ops->append(encoder,
                                 (waldo_item[]){ USER("lost"), CALL("x", "f", ""), unknown }, 3,
                                 &error),
                     WALDO_EINVAL);
    assert_non_null(error);
    waldo_error_free(error);
    assert_string_equal(request(ops, encoder, 0).body.ptr, before.ptr);
    waldo__buf_free(&before);
}

void expect_option_error(const waldo_model_options *options, const char *message)
{
    waldo_model *model = waldo_model_new(options);

    assert_int_equal(waldo_error_status(waldo_model_error(model)), WALDO_EINVAL);
    assert_string_equal(waldo_error_message(waldo_model_error(model)), message);
    waldo_model_unref(model);
}

void expect_golden(const char *name, waldo_str body)
{
    const char *write = getenv("WALDO_GOLDEN");
    char path[4096];
    char *text = waldo__zalloc(1 << 20);
    FILE *file;

    assert_non_null(text);
    snprintf(path, sizeof path, "%s/model/golden/%s.json", WALDO_TESTS_DIR, name);
    file = fopen(path, write != NULL ? "wbe" : "rbe");
    assert_non_null(file);
    if (write != NULL) {
        fwrite(body.ptr, 1, body.len, file);
    } else {
        assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
        assert_string_equal(body.ptr, text);
    }
    fclose(file);
    waldo__free(text);
}

/* ---- requests only grow ---- */

enum { MANY = 120, TEXT_MAX = 24 };

struct made_item {
    waldo_item item;
    char text[TEXT_MAX];
    char id[TEXT_MAX];
};

static unsigned next_random(unsigned *state)
{
    return *state = *state * 1103515245u + 12345u, *state >> 16;
}

/* A history as a run may make it, with results missing and texts in between here and there. */
static size_t make_history(struct made_item *made, unsigned seed_value)
{
    static const waldo_media image = IMAGE;
    size_t count = 0, open = 0;

    while (count < MANY) {
        struct made_item *at = &made[count++];
        unsigned kind = next_random(&seed_value) % 12;

        snprintf(at->text, sizeof at->text, "text\t%zu \xC3\xA9\\\"", count);
        at->item = (waldo_item){ .kind = WALDO_ITEM_USER, .text = waldo__str(at->text) };
        if (open > 0 && kind < 9) {
            at->item.kind = WALDO_ITEM_TOOL_RESULT;
            at->item.id = made[count - 2].item.kind == WALDO_ITEM_TOOL_CALL
                              ? made[count - 2].item.id
                              : waldo__str("0");
            open--;
        } else if (kind < 5) {
            at->item.kind = WALDO_ITEM_TOOL_CALL;
            snprintf(at->id, sizeof at->id, "%zu", count % 7);
            at->item.id = waldo__str(at->id);
            at->item.name = WALDO__S("f");
            at->item.args = kind < 2 ? WALDO__S("{\"a\":") : WALDO__S("{}");
            open++;
        } else if (kind < 7) {
            at->item.kind = WALDO_ITEM_ASSISTANT;
            open = 0;
        } else if (kind == 7) {
            at->item.kind = WALDO_ITEM_REASONING;
            at->item.vendor = WALDO__S("chat:deepseek/deepseek");
        } else if (kind == 8) {
            at->item.kind = WALDO_ITEM_NOTICE;
        }
        if (next_random(&seed_value) % 4 == 0) {
            at->item.media = &image;
            at->item.media_count = 1;
        }
    }
    return count;
}

void expect_growth(const waldo_model_ops *ops, const char *url, const char *model,
                   unsigned seed_value)
{
    static struct made_item made[MANY];
    waldo_model_options options = { .size = sizeof options };
    waldo_encoder *encoder = new_encoder(ops, &options, url, model, DECLARED);
    size_t count = make_history(made, seed_value), requests = 0;
    waldo__buf frozen = WALDO__BUF_INIT(1 << 20), whole = WALDO__BUF_INIT(1 << 20);
    waldo_item items[MANY];

    for (size_t i = 0; i < count; i++) {
        waldo_model_turn turn = { .size = sizeof turn,
                                  .tool_choice = (waldo_tool_choice)(i % 4),
                                  .tool_choice_name = WALDO__S("run_command") };
        waldo_model_request out = { 0 };
        waldo__json *doc = NULL;

        items[i] = made[i].item;
        assert_int_equal(ops->append(encoder, &items[i], 1, NULL), WALDO_OK);
        if (i % 4 == WALDO_TOOL_CHOICE_NONE ||
            ops->request(encoder, &turn, &out, NULL) != WALDO_OK) {
            continue; /* calls without results */
        }
        requests++;
        assert_true(out.body.len >= out.frozen_len && out.frozen_len >= frozen.len);
        assert_memory_equal(out.body.ptr, frozen.ptr, frozen.len);
        assert_int_equal(waldo__json_parse(out.body, NULL, &doc, NULL), WALDO_OK);
        waldo__json_free(doc);
        waldo__buf_clear(&frozen);
        waldo__buf_add(&frozen, out.body.ptr, out.frozen_len);
        waldo__buf_clear(&whole);
        encode(ops, &options, url, model, items, i + 1, turn.tool_choice, &whole);
        assert_string_equal(whole.ptr, out.body.ptr);
    }
    assert_true(requests > 20);
    ops->free_encoder(encoder);
    waldo__buf_free(&frozen);
    waldo__buf_free(&whole);
}
