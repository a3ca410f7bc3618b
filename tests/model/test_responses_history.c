/* Responses with history=provider: what requests hold, what answers carry, and what is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>

#include "base/alloc.h"
#include "model/model.h"
#include "write.h"

#define OPS  (&waldo__responses_ops)
#define URL  "https://api.openai.com/v1"
#define MINE WALDO__S("openai:api.openai.com/m")

#define MADE(k, t, r)                                                                              \
    {                                                                                              \
        .kind = (k), .text = WALDO__S(t), .vendor = MINE, .raw = WALDO__S("{}"),                   \
        .response = WALDO__S(r)                                                                    \
    }
#define MADE_CALL(i, type, r)                                                                      \
    {                                                                                              \
        .kind = WALDO_ITEM_TOOL_CALL, .id = WALDO__S(i), .name = WALDO__S("f"),                    \
        .args = WALDO__S("{}"), .vendor = MINE, .response = WALDO__S(r),                           \
        .raw = WALDO__S("{\"id\":\"fc\",\"type\":\"" type "\",\"call_id\":\"" i "\"}")             \
    }

static waldo_encoder *encoder_of(const char *quirks)
{
    waldo_model_options options = { .size = sizeof options, .quirks = quirks };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = WALDO__S("m"),
                                .url = WALDO__S(URL),
                                .instructions = WALDO__S("i") };
    waldo_encoder *encoder = NULL;

    assert_int_equal(OPS->new_encoder(&epoch, &encoder, NULL), WALDO_OK);
    return encoder;
}

#define HEAD_TO_STORE                                                                              \
    "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_obfuscation\":false},"         \
    "\"store\":true,"
#define HEAD HEAD_TO_STORE "\"instructions\":\"i\",\"input\":["

static void expect_body(waldo_encoder *encoder, const char *expected)
{
    waldo_model_turn turn = { .size = sizeof turn };
    waldo_model_request made = { .size = sizeof made };

    /* The same again, as for a second try. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(OPS->request(encoder, &turn, &made, NULL), WALDO_OK);
        assert_string_equal(made.body.ptr, expected);
        if (strstr(expected, "\"store\":false") != NULL) {
            continue;
        }
        assert_int_equal(made.frozen_len,
                         strstr(expected, "\"input\":[") + strlen("\"input\":[") - expected);
    }
}

static void add(waldo_encoder *encoder, const waldo_item *items, size_t count)
{
    assert_int_equal(OPS->append(encoder, items, count, NULL), WALDO_OK);
}

static const waldo_item first[] = { USER("a"), USER("b") };
static const waldo_item answer[] = {
    MADE(WALDO_ITEM_REASONING, "hm", "resp_1"),
    MADE(WALDO_ITEM_ASSISTANT, "t", "resp_1"),
    MADE_CALL("c1", "function_call", "resp_1"),
    MADE_CALL("c2", "custom_tool_call", "resp_1"),
};
static const waldo_item results[] = { RESULT("c1", "r1"), USER("meanwhile"), FAILED("c2", "r2") };
static const waldo_item last[] = { MADE(WALDO_ITEM_ASSISTANT, "end", "resp_2"), USER("more") };

#define SAID(t) "{\"role\":\"user\",\"content\":\"" t "\"}"
#define ANSWERS                                                                                    \
    "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"r1\"},"                    \
    "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c2\",\"output\":\"ERROR: r2\"}," SAID(    \
        "meanwhile")

static void only_new_items_are_sent(void **state)
{
    waldo_encoder *encoder = encoder_of("history=provider");

    (void)state;
    add(encoder, first, 2);
    expect_body(encoder, HEAD SAID("a") "," SAID("b") "]}");
    add(encoder, answer, 4);
    expect_request_error(OPS, encoder, WALDO_TOOL_CHOICE_AUTO,
                         "call \"c1\" of tool \"f\" has no result yet");
    add(encoder, results, 3);
    expect_body(encoder, HEAD ANSWERS "],\"previous_response_id\":\"resp_1\"}");
    add(encoder, last, 2);
    expect_body(encoder, HEAD SAID("more") "],\"previous_response_id\":\"resp_2\"}");
    OPS->free_encoder(encoder);
}

/* An epoch that begins later comes to the same bytes, however many items it is given at a time. */
static void bytes_do_not_depend_on_the_way(void **state)
{
    waldo_encoder *one = encoder_of("history=provider"), *many = encoder_of("history=provider");
    waldo_item all[9];

    (void)state;
    memcpy(all, first, sizeof first);
    memcpy(all + 2, answer, sizeof answer);
    memcpy(all + 6, results, sizeof results);
    add(one, all, 9);
    for (size_t i = 0; i < 9; i++) {
        add(many, &all[i], 1);
    }
    expect_body(one, HEAD ANSWERS "],\"previous_response_id\":\"resp_1\"}");
    expect_body(many, HEAD ANSWERS "],\"previous_response_id\":\"resp_1\"}");
    OPS->free_encoder(one);
    OPS->free_encoder(many);
}

static void the_host_names_where_to_go_on(void **state)
{
    waldo_encoder *encoder = encoder_of("history=provider,previous=resp_0");

    (void)state;
    add(encoder, first, 1);
    expect_body(encoder, HEAD SAID("a") "],\"previous_response_id\":\"resp_0\"}");
    add(encoder, last, 2);
    expect_body(encoder, HEAD SAID("more") "],\"previous_response_id\":\"resp_2\"}");
    OPS->free_encoder(encoder);
    encoder = encoder_of("history=provider,conversation=conv_7");
    add(encoder, first, 1);
    expect_body(encoder, HEAD_TO_STORE "\"conversation\":\"conv_7\",\"instructions\":\"i\","
                                       "\"input\":[" SAID("a") "]}");
    add(encoder, last, 2);
    expect_body(encoder, HEAD_TO_STORE "\"conversation\":\"conv_7\",\"instructions\":\"i\","
                                       "\"input\":[" SAID("more") "]}");
    OPS->free_encoder(encoder);
}

/* With the history here the id of a response means nothing. */
static void the_host_keeps_it_otherwise(void **state)
{
    waldo_encoder *encoder = encoder_of("history=host,stream=off,encrypted=off");

    (void)state;
    add(encoder, first, 1);
    add(encoder, last, 2);
    expect_body(encoder, "{\"model\":\"m\",\"store\":false,\"instructions\":\"i\",\"input\":[" SAID(
                             "a") ",{}," SAID("more") "]}");
    OPS->free_encoder(encoder);
}

/* ---- answers ---- */

static void expect_response(const char *quirks, const char *body, waldo_status status,
                            const char *expected)
{
    waldo_model_options options = { .size = sizeof options, .model = "openai:m", .quirks = quirks };
    waldo_response response = { .size = sizeof response };
    waldo_reader *reader = NULL;
    waldo_error *error = NULL;
    char text[1024] = "";

    assert_int_equal(OPS->new_reader(&options, WALDO__S("application/json"), &reader), WALDO_OK);
    OPS->feed(reader, waldo__str(body), NULL, NULL, &error);
    assert_int_equal(OPS->finish(reader, &response, &error), status);
    for (size_t i = 0; status == WALDO_OK && i < response.item_count; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d %.*s;",
                 (int)response.items[i].kind, (int)response.items[i].response.len,
                 response.items[i].response.ptr != NULL ? response.items[i].response.ptr : "");
    }
    assert_string_equal(status == WALDO_OK ? text : waldo_error_message(error), expected);
    waldo_error_free(error);
    OPS->free_reader(reader);
}

#define REPLY(head, output)                                                                        \
    "{" head "\"status\":\"completed\",\"output\":[" output "],\"usage\":{\"input_tokens\":1}}"
#define TEXT "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"x\"}]}"
#define TEN  "0123456789"

static void answers_carry_the_response(void **state)
{
    static const char no_id[] = "the model server's response has no id to go on from";
    static const char filtered[] = "{\"id\":\"resp_1\",\"status\":\"incomplete\",\"output\":[],"
                                   "\"incomplete_details\":{\"reason\":\"content_filter\"}}";

    (void)state;
    expect_response("history=provider", REPLY("\"id\":\"resp_1\",", TEXT), WALDO_OK, "2 resp_1;");
    expect_response(NULL, REPLY("\"id\":\"resp_1\",", TEXT), WALDO_OK, "2 ;");
    /* nothing was said, and that is known by the id alone */
    expect_response("history=provider", filtered, WALDO_OK, "3 resp_1;");
    expect_response(NULL, filtered, WALDO_OK, "");
    expect_response("history=provider", REPLY("", TEXT), WALDO_EPROTO, no_id);
    expect_response(
        "history=provider",
        REPLY("\"id\":\"" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "\",", TEXT),
        WALDO_EPROTO, no_id);
    expect_response(NULL, REPLY("", TEXT), WALDO_OK, "2 ;");
    expect_response("history=provider", REPLY("\"id\":\"r\",\"store\":true,", TEXT), WALDO_OK,
                    "2 r;");
    expect_response("history=provider", REPLY("\"id\":\"r\",\"store\":false,", TEXT), WALDO_ENOTSUP,
                    "the model server does not keep its responses (store: false), so "
                    "history=provider loses the conversation: drop that option");
    expect_response(NULL, REPLY("\"id\":\"r\",\"store\":false,", TEXT), WALDO_OK, "2 ;");
}

#define HINT                                                                                       \
    "; the provider does not have that part of the conversation, or not any more, and its text "   \
    "is not kept here: begin a new run, with the history that you have"

static void what_has_expired_is_named(void **state)
{
    static const struct {
        int http_status;
        const char *message;
        const char *code;
    } cases[] = {
        { 400, "Previous response with id 'resp_1' not found.", "previous_response_not_found" },
        { 404, "Previous response with id 'resp_1' not found.", "" },
        { 400, "Previous response with id 'resp_1' not found.", "" },
        { 404, "Response with id 'resp_1' not found.", "" },
        { 404, "Conversation with id 'conv_1' not found.", "" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        char body[512], expected[512];
        waldo_error *error = NULL;

        snprintf(body, sizeof body, "{\"error\":{\"message\":\"%s\",\"code\":\"%s\"}}",
                 cases[i].message, cases[i].code);
        snprintf(expected, sizeof expected, "the model server answered HTTP %d: %s" HINT,
                 cases[i].http_status, cases[i].message);
        assert_int_equal(OPS->classify(&WALDO_MODEL(.model = "openai:m"), cases[i].http_status,
                                       WALDO__S(""), waldo__str(body), &error),
                         WALDO_ENOTFOUND);
        assert_string_equal(waldo_error_message(error), expected);
        waldo_error_free(error);
    }
}

/* ---- options ---- */

static void options_are_checked(void **state)
{
    static const char other[] = "model quirks: \"history=provider\" is for openai: models: the API "
                                "of %s: models keeps no history at the provider";
    static const char *const kinds[] = { "chat", "anthropic" };
    static const char ids[] = "known: ids of up to 128 letters, digits, _ and -";
    char model[128], expected[256];

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(kinds); i++) {
        snprintf(expected, sizeof expected, other, kinds[i]);
        snprintf(model, sizeof model, "%s:http://h/v1#m,history=provider", kinds[i]);
        expect_option_error(&WALDO_MODEL(.model = model), expected);
        *strchr(model, ',') = '\0';
        expect_option_error(&WALDO_MODEL(.model = model, .quirks = "stream=on,history=provider"),
                            expected);
    }
    expect_option_error(&WALDO_MODEL(.model = "openai:m,previous=resp_1"),
                        "model quirks: previous and conversation need history=provider");
    expect_option_error(&WALDO_MODEL(.model = "openai:m,history=provider,previous=a,"
                                              "conversation=b"),
                        "model quirks: previous and conversation exclude each other");
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .quirks = "history=provider,store=off"),
                        "model quirks: history=provider needs what store=off forbids");
    snprintf(expected, sizeof expected,
             "model quirks: \"previous=a b\" has a value that is not known; %s", ids);
    expect_option_error(
        &WALDO_MODEL(.model = "openai:m", .quirks = "history=provider,previous=a b"), expected);
    snprintf(expected, sizeof expected,
             "model quirks: \"previous=\" has a value that is not known; %s", ids);
    expect_option_error(&WALDO_MODEL(.model = "openai:m", .quirks = "history=provider,previous="),
                        expected);
    expect_option_error(&WALDO_MODEL(.model = "openai:m,history=here"),
                        "model quirks: \"history=here\" has a value that is not known; known: "
                        "host, provider");
}

/* Quirks behind the string are taken off it: facts and records know the model by its name. */
static void options_may_stand_in_the_string(void **state)
{
    static const struct {
        const char *string;
        const char *quirks;
        const char *bare;
        waldo_history history;
    } cases[] = {
        { "openai:m,history=provider", NULL, "openai:m", WALDO_HISTORY_RESPONSES },
        { "openai:m,history=provider", "history=host", "openai:m", WALDO_HISTORY_HOST },
        { "openai:m", "history=provider", "openai:m", WALDO_HISTORY_RESPONSES },
        { "openai:m,history=provider,conversation=c", NULL, "openai:m",
          WALDO_HISTORY_CONVERSATION },
        { "openai:http://h/a,b=c/v1#m,history=provider", NULL, "openai:http://h/a,b=c/v1#m",
          WALDO_HISTORY_RESPONSES },
        { "openai:m,store=on", NULL, "openai:m", WALDO_HISTORY_HOST },
        { "openai:m,n", NULL, "openai:m,n", WALDO_HISTORY_HOST },
        { "chat:http://h/v1#m,merge=off", NULL, "chat:http://h/v1#m", WALDO_HISTORY_HOST },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo_model *model =
            waldo_model_new(&WALDO_MODEL(.model = cases[i].string, .quirks = cases[i].quirks));

        assert_null(waldo_model_error(model));
        assert_string_equal(waldo__model_string(model), cases[i].bare);
        assert_int_equal(waldo__model_history(model), cases[i].history);
        waldo_model_unref(model);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_new_items_are_sent),
        cmocka_unit_test(bytes_do_not_depend_on_the_way),
        cmocka_unit_test(the_host_names_where_to_go_on),
        cmocka_unit_test(the_host_keeps_it_otherwise),
        cmocka_unit_test(answers_carry_the_response),
        cmocka_unit_test(what_has_expired_is_named),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(options_may_stand_in_the_string),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
