#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/chat.h"
#include "model/model.h"

static void expect_error(const waldo_model_options *options, waldo_status status,
                         const char *message)
{
    waldo_model *model = waldo_model_new(options);

    assert_non_null(model);
    assert_int_equal(waldo_error_status(waldo_model_error(model)), status);
    assert_string_equal(waldo_error_message(waldo_model_error(model)), message);
    assert_null(waldo__model_ops(model));
    assert_int_equal(waldo__model_url(model).len, 0);
    assert_int_equal(waldo__model_name(model).len, 0);
    assert_null(waldo__model_key_name(model));
    waldo_model_unref(model);
}

static void expect_string_error(const char *text, const char *message)
{
    expect_error(&WALDO_MODEL(.model = text), WALDO_EINVAL, message);
}

#define KNOWN                                                                                      \
    "known kinds: openai:NAME speaks the Responses API to OpenAI, openai:URL#NAME to the server "  \
    "at URL; anthropic:NAME speaks the Messages API to Anthropic, anthropic:URL#NAME to the "      \
    "server at URL; chat:URL#NAME speaks Chat Completions to the server at URL; callback:NAME is " \
    "a function of the host; replay:FILE reads a recording"
#define ANTHROPIC_FORM                                                                             \
    "; write it as anthropic:NAME, such as anthropic:claude-sonnet-5-5, or anthropic:URL#NAME"
#define OPENAI_FORM "; write it as openai:NAME, such as openai:gpt-5.1, or openai:URL#NAME"
#define FORM        "; write it as chat:URL#NAME, such as chat:http://127.0.0.1:8080/v1#qwen3"

static void remembers_errors(void **state)
{
    (void)state;
    expect_string_error(NULL,
                        "no model given: set it to a string such as openai:NAME, anthropic:NAME or "
                        "chat:URL#NAME");
    expect_string_error("",
                        "no model given: set it to a string such as openai:NAME, anthropic:NAME or "
                        "chat:URL#NAME");
    expect_string_error("gpt-4", "model \"gpt-4\" has no kind in front of a colon: write it as "
                                 "openai:NAME, anthropic:NAME or chat:URL#NAME");
    expect_string_error("nope:x", "unknown model kind \"nope\"; " KNOWN);
    expect_string_error(":x", "unknown model kind \"\"; " KNOWN);
    expect_string_error("openai:", "model \"openai:\": the model's name is missing" OPENAI_FORM);
    expect_string_error("openai:gpt 5",
                        "model \"openai:NAME\": the name holds a space or a control "
                        "character" OPENAI_FORM);
    expect_string_error("openai:http://h/v1",
                        "model \"openai:http://h/v1\": the model's name is missing behind a "
                        "#" OPENAI_FORM);
    expect_string_error("openai:h#m",
                        "model \"openai:h#m\": the URL does not begin with http:// or "
                        "https://" OPENAI_FORM);
    expect_string_error("anthropic:", "model \"anthropic:\": the model's name is "
                                      "missing" ANTHROPIC_FORM);
    expect_string_error("anthropic:http://h/v1",
                        "model \"anthropic:http://h/v1\": the model's name is missing behind a "
                        "#" ANTHROPIC_FORM);
    expect_error(&WALDO_MODEL(.model = "replay:"), WALDO_EINVAL,
                 "model \"replay:\": the file is missing; write replay:FILE");
    expect_error(&WALDO_MODEL(.model = "replay:/nowhere"), WALDO_ENOTFOUND,
                 "recording /nowhere: no such file or directory");
    expect_string_error("chat:localhost#m",
                        "model \"chat:localhost#m\": the URL does not begin with http:// or "
                        "https://" FORM);
    expect_string_error("chat:http://h/v1",
                        "model \"chat:http://h/v1\": the model's name is missing behind a #" FORM);
    expect_string_error("chat:http://h/v1#",
                        "model \"chat:http://h/v1#\": the model's name is missing behind a #" FORM);
    expect_string_error("chat:http://#m", "model \"chat:http://#m\": the URL has no host" FORM);
    expect_string_error("chat:http:///v1#m",
                        "model \"chat:http:///v1#m\": the URL has no host" FORM);
    expect_string_error("chat:http://h?a=b#m",
                        "model \"chat:http://h?a=b#m\": the URL has a query, and a path must be "
                        "appended to it" FORM);
    expect_string_error("chat:http://h/v 1#m",
                        "model \"chat:URL#NAME\": it holds a space or a control character" FORM);
    /* a password must not come out again */
    expect_string_error("chat:http://u:secret@h/v1#m",
                        "model \"chat:URL#NAME\": the URL holds a user name; name a key "
                        "instead" FORM);
    assert_null(waldo_model_error(NULL));
    assert_null(waldo__model_ops(NULL));
    assert_string_equal(waldo__model_string(NULL), "");
    assert_int_equal(waldo__model_options(NULL)->size, sizeof(waldo_model_options));
    waldo_model_unref(NULL);
    assert_null(waldo_model_ref(NULL));
}

static void options_are_checked(void **state)
{
    static const char *const no_colon[] = { "Authorization secret", NULL };
    static const char *const two_lines[] = { "A: b", "X: y\r\nEvil: z", NULL };
    static const char *const no_name[] = { ": x", NULL };
    const char *many[66] = { 0 };
    struct {
        waldo_model_options known;
        int64_t unknown;
    } newer = { { .size = sizeof newer, .model = "chat:http://h#m" }, 1 };

    (void)state;
    for (size_t i = 0; i < 65; i++) {
        many[i] = "A: b";
    }
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .headers = no_colon), WALDO_EINVAL,
                 "extra header number 1 is not \"Name: value\" on one line");
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .headers = two_lines), WALDO_EINVAL,
                 "extra header number 2 is not \"Name: value\" on one line");
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .headers = no_name), WALDO_EINVAL,
                 "extra header number 1 is not \"Name: value\" on one line");
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .headers = many), WALDO_ETOOBIG,
                 "a model may have 64 extra headers of 16384 bytes together");
    expect_error(&newer.known, WALDO_EINVAL,
                 "waldo_model_options.size is wrong or members are set that this version does not "
                 "know: start from WALDO_MODEL()");
    expect_error(NULL, WALDO_EINVAL,
                 "no model given: set it to a string such as openai:NAME, anthropic:NAME or "
                 "chat:URL#NAME");
}

static void quirks_are_checked(void **state)
{
    (void)state;
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .quirks = "server=ollamaa"), WALDO_EINVAL,
                 "model quirks: \"server=ollamaa\" is not a server that is known; known: generic, "
                 "openai, llama.cpp, ollama, vllm, deepseek, mistral, gemini, groq");
    expect_error(
        &WALDO_MODEL(.model = "chat:http://h#m", .quirks = "merge"), WALDO_EINVAL,
        "model quirks: \"merge\" is not a quirk, written as name=value; known: server, "
        "max_tokens, seed, required, reasoning_field, output_format, stream, stream_options, "
        "no_obfuscation, tool_choice, parallel, null_content, valid_args, short_ids, "
        "tool_name, merge, assistant_between, images, prefix");
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .quirks = "merge=on,prefix=maybe"),
                 WALDO_EINVAL,
                 "model quirks: \"prefix=maybe\" has a value that is not known; known: on, off");
    expect_error(&WALDO_MODEL(.model = "chat:http://h#m", .quirks = "max_tokens=tokens"),
                 WALDO_EINVAL,
                 "model quirks: \"max_tokens=tokens\" has a value that is not known; known: "
                 "max_tokens, max_completion_tokens");
}

/* Nothing of what was given is needed after waldo_model_new(). */
static void options_are_copied(void **state)
{
    char text[64] = "chat:http://127.0.0.1:8080/v1/#org/qwen#3", header[] = "X-A: b";
    char reasoning[] = "low", quirks[] = "merge=off", key_name[] = "MY_KEY";
    const char *headers[] = { header, NULL };
    double temperature = 0.5, top_p = 0.25;
    int64_t seed = 42;
    waldo_model *model = waldo_model_new(
        &WALDO_MODEL(.model = text, .headers = headers, .temperature = &temperature,
                     .top_p = &top_p, .seed = &seed, .reasoning = reasoning, .quirks = quirks,
                     .key_name = key_name, .max_output_tokens = 9, .idle_timeout_ms = 7));
    const waldo_model_options *options = waldo__model_options(model);

    (void)state;
    memset(text, 'x', sizeof text - 1);
    memset(header, 'x', sizeof header - 1);
    memset(reasoning, 'x', sizeof reasoning - 1);
    memset(quirks, 'x', sizeof quirks - 1);
    memset(key_name, 'x', sizeof key_name - 1);
    headers[0] = NULL;
    temperature = top_p = 0;
    seed = 0;
    assert_null(waldo_model_error(model));
    assert_ptr_equal(waldo__model_ops(model), &waldo__chat_ops);
    assert_string_equal(waldo__model_string(model), "chat:http://127.0.0.1:8080/v1/#org/qwen#3");
    assert_string_equal(waldo__model_url(model).ptr, "http://127.0.0.1:8080/v1");
    assert_string_equal(waldo__model_name(model).ptr, "org/qwen#3");
    assert_string_equal(waldo__model_key_name(model), "MY_KEY");
    assert_string_equal(options->headers[0], "X-A: b");
    assert_null(options->headers[1]);
    assert_true(*options->temperature == 0.5 && *options->top_p == 0.25 && *options->seed == 42);
    assert_string_equal(options->reasoning, "low");
    assert_string_equal(options->quirks, "merge=off");
    assert_int_equal(options->max_output_tokens, 9);
    assert_int_equal(options->idle_timeout_ms, 7);
    assert_ptr_equal(waldo_model_ref(model), model);
    waldo_model_unref(model);
    assert_string_equal(waldo__model_name(model).ptr, "org/qwen#3");
    waldo_model_unref(model);
}

static void servers_by_url(void **state)
{
    static const struct {
        const char *url;
        const char *server;
        const char *key_name;
    } cases[] = {
        { "https://api.openai.com/v1", "openai", "OPENAI_API_KEY" },
        { "https://API.openai.com:443/v1", "openai", "OPENAI_API_KEY" },
        { "https://api.deepseek.com", "deepseek", "DEEPSEEK_API_KEY" },
        { "https://api.mistral.ai/v1", "mistral", "MISTRAL_API_KEY" },
        { "https://codestral.mistral.ai/v1", "mistral", NULL },
        { "https://generativelanguage.googleapis.com/v1beta/openai", "gemini", "GEMINI_API_KEY" },
        { "https://api.groq.com/openai/v1", "groq", "GROQ_API_KEY" },
        { "https://api.anthropic.com/v1", "generic", "ANTHROPIC_API_KEY" },
        { "https://api.anthropic.com.example.test/v1", "generic", NULL },
        { "http://127.0.0.1:11434/v1", "ollama", NULL },
        { "http://gpu.example.test:11434/v1", "ollama", NULL },
        { "http://localhost:8080/v1", "llama.cpp", NULL },
        { "http://[::1]:8080/v1", "llama.cpp", NULL },
        { "http://127.0.0.1:8000/v1", "vllm", NULL },
        { "http://gpu.example.test:8080/v1", "generic", NULL },
        { "https://openrouter.ai/api/v1", "generic", NULL },
        /* a key goes to its owner only, and never in clear text */
        { "http://api.openai.com/v1", "openai", NULL },
        { "https://api.openai.com:8443/v1", "openai", NULL },
        { "https://api.openai.com.example.test/v1", "generic", NULL },
        { "https://example.test/api.openai.com", "generic", NULL },
        { "https://evilapi.openai.com/v1", "generic", NULL },
        { "https://mistral.ai/v1", "generic", NULL },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__chat_quirks quirks;
        waldo_model_options options = { .size = sizeof options };
        const char *key = waldo__key_for_url(waldo__str(cases[i].url));

        assert_int_equal(waldo__chat_quirks_find(&options, waldo__str(cases[i].url), &quirks, NULL),
                         WALDO_OK);
        assert_string_equal(quirks.server, cases[i].server);
        assert_string_equal(key != NULL ? key : "none",
                            cases[i].key_name != NULL ? cases[i].key_name : "none");
    }
}

static void quirks_overrule(void **state)
{
    waldo_model_options options = { .size = sizeof options,
                                    .quirks = "short_ids=off,server=mistral,max_tokens="
                                              "max_completion_tokens,,merge=0,"
                                              "reasoning_field=reasoning" };
    waldo__chat_quirks quirks;

    (void)state;
    assert_int_equal(
        waldo__chat_quirks_find(&options, WALDO__S("https://api.openai.com"), &quirks, NULL),
        WALDO_OK);
    assert_string_equal(quirks.server, "mistral");
    assert_int_equal(quirks.short_ids, 0);
    assert_int_equal(quirks.tool_name, 1);
    assert_int_equal(quirks.merge, 0);
    assert_string_equal(quirks.max_tokens, "max_completion_tokens");
    assert_string_equal(quirks.reasoning_field, "reasoning");
}

static void vendors(void **state)
{
    static const struct {
        const char *url;
        const char *model;
        const char *vendor;
    } cases[] = {
        { "https://api.deepseek.com", "deepseek-v4-pro", "chat:deepseek/deepseek" },
        { "http://h", "org/Qwen3-8B", "chat:generic/Qwen" },
        { "http://h", "4ever", "chat:generic/" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo__buf vendor = WALDO__BUF_INIT(256);
        waldo__chat_quirks quirks;

        assert_int_equal(waldo__chat_quirks_find(NULL, waldo__str(cases[i].url), &quirks, NULL),
                         WALDO_OK);
        waldo__chat_vendor(&quirks, waldo__str(cases[i].model), &vendor);
        assert_string_equal(vendor.ptr, cases[i].vendor);
        waldo__buf_free(&vendor);
    }
}

static void named_strings(void **state)
{
    static const struct {
        const waldo_model_ops *ops;
        const char *text;
        const char *url;
        const char *name;
        const char *key_name;
    } cases[] = {
        { &waldo__responses_ops, "openai:gpt-5.1", "https://api.openai.com/v1", "gpt-5.1",
          "OPENAI_API_KEY" },
        { &waldo__responses_ops, "openai:ft:gpt-4.1:org/x", "https://api.openai.com/v1",
          "ft:gpt-4.1:org/x", "OPENAI_API_KEY" },
        { &waldo__responses_ops, "openai:https://eu.api.openai.com/v1/#m",
          "https://eu.api.openai.com/v1", "m", "OPENAI_API_KEY" },
        { &waldo__responses_ops, "openai:http://127.0.0.1:8080/v1#m", "http://127.0.0.1:8080/v1",
          "m", NULL },
        { &waldo__responses_ops, "openai:https://example.test/v1#m", "https://example.test/v1", "m",
          NULL },
        { &waldo__messages_ops, "anthropic:claude-opus-5-5", "https://api.anthropic.com/v1",
          "claude-opus-5-5", "ANTHROPIC_API_KEY" },
        { &waldo__messages_ops, "anthropic:https://api.deepseek.com/anthropic/v1#m",
          "https://api.deepseek.com/anthropic/v1", "m", "DEEPSEEK_API_KEY" },
        { &waldo__messages_ops, "anthropic:http://127.0.0.1:8080/v1#m", "http://127.0.0.1:8080/v1",
          "m", NULL },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        waldo_model *model = waldo_model_new(&WALDO_MODEL(.model = cases[i].text));

        assert_null(waldo_model_error(model));
        assert_ptr_equal(waldo__model_ops(model), cases[i].ops);
        assert_string_equal(waldo__model_url(model).ptr, cases[i].url);
        assert_string_equal(waldo__model_name(model).ptr, cases[i].name);
        if (cases[i].key_name != NULL) {
            assert_string_equal(waldo__model_key_name(model), cases[i].key_name);
        } else {
            assert_null(waldo__model_key_name(model));
        }
        waldo_model_unref(model);
    }
}

/* Every adapter has what the interface calls mandatory. */
static void adapters_are_whole(void **state)
{
    size_t count = 0;

    (void)state;
    for (const waldo_model_ops *ops; (ops = waldo__model_ops_at(count)) != NULL; count++) {
        assert_int_equal(ops->version, WALDO_MODEL_VERSION);
        assert_int_equal(ops->size, sizeof *ops);
        assert_true(ops->name != NULL && ops->about != NULL && ops->parse != NULL);
        assert_true(ops->new_encoder != NULL && ops->append != NULL && ops->request != NULL);
        assert_true(ops->free_encoder != NULL && ops->new_reader != NULL && ops->feed != NULL);
        assert_true(ops->complete != NULL && ops->finish != NULL && ops->free_reader != NULL);
        assert_non_null(ops->classify);
        assert_non_null(strstr(ops->about, ops->name));
    }
    assert_int_equal(count, 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(remembers_errors),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(quirks_are_checked),
        cmocka_unit_test(options_are_copied),
        cmocka_unit_test(servers_by_url),
        cmocka_unit_test(quirks_overrule),
        cmocka_unit_test(vendors),
        cmocka_unit_test(named_strings),
        cmocka_unit_test(adapters_are_whole),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
