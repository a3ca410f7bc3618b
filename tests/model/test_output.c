/* How each model API is told of the schema that answers follow. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "json/json.h"
#include "model/model.h"
#include "write.h"

#define STRICT                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"],"     \
    "\"additionalProperties\":false}"
#define LOOSE "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}"
#define BOUNDED                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":1}},"            \
    "\"required\":[\"n\"],\"additionalProperties\":false}"
#define CHAT(schema, strict)                                                                       \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\","          \
    "\"schema\":" schema ",\"strict\":" strict "}}"
#define RESPONSES(schema, strict)                                                                  \
    "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"answer\",\"schema\":" schema        \
    ",\"strict\":" strict "}}"
#define MESSAGES(more)                                                                             \
    "\"output_config\":{" more "\"format\":{\"type\":\"json_schema\",\"schema\":" STRICT "}}"

static const struct {
    const waldo_model_ops *ops;
    const char *url;
    const char *model;
    const char *quirks;
    const char *reasoning;
    const char *schema;
    const char *part; /* of the head; NULL: nothing is said of it */
} rows[] = {
    { &waldo__chat_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, STRICT,
      CHAT(STRICT, "true") },
    { &waldo__chat_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, LOOSE,
      CHAT(LOOSE, "false") },
    { &waldo__chat_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, "", NULL },
    { &waldo__chat_ops, "https://api.deepseek.com/v1", "m", NULL, NULL, STRICT,
      "\"response_format\":{\"type\":\"json_object\"}" },
    { &waldo__chat_ops, "http://h/v1", "m", NULL, NULL, STRICT, NULL },
    { &waldo__chat_ops, "http://h/v1", "m", "output_format=json_schema", NULL, STRICT,
      CHAT(STRICT, "true") },
    { &waldo__responses_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, STRICT,
      RESPONSES(STRICT, "true") },
    { &waldo__responses_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, LOOSE,
      RESPONSES(LOOSE, "false") },
    { &waldo__responses_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, "", NULL },
    { &waldo__responses_ops, "https://api.openai.com/v1", "gpt", NULL, NULL, BOUNDED,
      RESPONSES(BOUNDED, "true") },
    { &waldo__messages_ops, "https://api.anthropic.com/v1", "claude-opus-5-5", NULL, NULL, BOUNDED,
      NULL },
    { &waldo__messages_ops, "https://api.anthropic.com/v1", "claude-opus-5-5", NULL, NULL, STRICT,
      MESSAGES("") },
    { &waldo__messages_ops, "https://api.anthropic.com/v1", "claude-opus-5-5", NULL, "high", STRICT,
      MESSAGES("\"effort\":\"high\",") },
    { &waldo__messages_ops, "https://api.anthropic.com/v1", "claude-opus-5-5", NULL, NULL, LOOSE,
      NULL },
    { &waldo__messages_ops, "https://api.anthropic.com/v1", "claude-opus-5-5", "output_format=off",
      NULL, STRICT, NULL },
    { &waldo__messages_ops, "https://api.anthropic.com/v1", "claude-3-haiku", NULL, NULL, STRICT,
      NULL },
    { &waldo__messages_ops, "http://h/v1", "claude-opus-5-5", NULL, NULL, STRICT, NULL },
};

static void heads(void **state)
{
    static const waldo_item hello = USER("hi");

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        waldo_model_options options = { .size = sizeof options,
                                        .quirks = rows[i].quirks,
                                        .reasoning = rows[i].reasoning };
        waldo_model_epoch epoch = { .size = sizeof epoch,
                                    .options = &options,
                                    .model = waldo__str(rows[i].model),
                                    .url = waldo__str(rows[i].url),
                                    .output_schema = waldo__str(rows[i].schema) };
        waldo_encoder *encoder = NULL;
        waldo_model_request made;
        waldo__json *doc = NULL;
        int says;

        assert_int_equal(rows[i].ops->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
        assert_int_equal(rows[i].ops->append(encoder, &hello, 1, NULL), WALDO_OK);
        made = request(rows[i].ops, encoder, WALDO_TOOL_CHOICE_AUTO);
        assert_int_equal(waldo__json_parse(made.body, NULL, &doc, NULL), WALDO_OK);
        waldo__json_free(doc);
        says = rows[i].part != NULL ? strstr(made.body.ptr, rows[i].part) != NULL
                                    : strstr(made.body.ptr, "format") == NULL;
        if (!says) {
            fail_msg("row %zu: %s", i, made.body.ptr);
        }
        rows[i].ops->free_encoder(encoder);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test(heads) };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
