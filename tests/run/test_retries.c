/* What is tried again and what is not, over each API; and what each says when it is full. */
#include "fixture.h"

static struct {
    const char *kind;
    const char *server;
    standin *standin;
} apis[] = { { "chat", "chat", NULL },
             { "openai", "responses", NULL },
             { "anthropic", "messages", NULL } };

enum { CHAT = 1, OPENAI = 2, ANTHROPIC = 4, ALL = 7, APIS = sizeof apis / sizeof apis[0] };

static int start(void **state)
{
    (void)state;
    for (size_t i = 0; i < APIS; i++) {
        apis[i].standin = standin_start(apis[i].server, NULL);
        if (apis[i].standin == NULL) {
            return -1;
        }
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < APIS; i++) {
        standin_stop(apis[i].standin);
    }
    return 0;
}

#define SAYS(words) "\"json\":{\"error\":{\"message\":\"" words "\"}}"
#define SOON        "\"headers\":{\"retry-after-ms\":\"1\"},"
#define STATUS(n)   "{\"status\":" #n "," SOON SAYS("no") "}"
#define HEADERS(n, headers)                                                                        \
    "{\"status\":" #n ",\"headers\":{\"retry-after-ms\":\"1\"," headers "}," SAYS("no") "}"

static const struct {
    int apis;
    const char *reply;
    waldo_status status; /* WALDO_OK: it is tried again, and then answered */
    int shown;           /* text came before it failed */
} rows[] = {
    { ALL, STATUS(408), WALDO_OK, 0 },
    { ALL, STATUS(409), WALDO_OK, 0 },
    { ALL, STATUS(429), WALDO_OK, 0 },
    { ALL, STATUS(500), WALDO_OK, 0 },
    { ALL, STATUS(502), WALDO_OK, 0 },
    { ALL, STATUS(503), WALDO_OK, 0 },
    { ALL, STATUS(504), WALDO_OK, 0 },
    { ALL, STATUS(529), WALDO_OK, 0 },
    { ALL, "{\"status\":503,\"headers\":{\"retry-after\":\"0\"}," SAYS("no") "}", WALDO_OK, 0 },
    { ALL, HEADERS(400, "\"x-should-retry\":\"true\""), WALDO_OK, 0 },
    { ALL, HEADERS(429, "\"x-should-retry\":\"false\""), WALDO_EHTTP, 0 },
    { ALL, HEADERS(500, "\"x-should-retry\":\"false\""), WALDO_EHTTP, 0 },
    { ALL, "{\"status\":429,\"headers\":{\"retry-after\":\"61\"}," SAYS("no") "}", WALDO_ERATE, 0 },
    { ALL, STATUS(400), WALDO_EINVAL, 0 },
    { ALL, STATUS(401), WALDO_EAUTH, 0 },
    { ALL, STATUS(403), WALDO_EAUTH, 0 },
    { ALL, STATUS(404), WALDO_ENOTFOUND, 0 },
    { ALL, STATUS(422), WALDO_EINVAL, 0 },
    { CHAT | OPENAI,
      "{\"status\":429," SOON "\"json\":{\"error\":{\"message\":\"no\",\"code\":"
      "\"insufficient_quota\"}}}",
      WALDO_EQUOTA, 0 },
    { ANTHROPIC,
      "{\"status\":429," SOON
      "\"json\":{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\","
      "\"message\":\"no\",\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}}}",
      WALDO_EQUOTA, 0 },
    { ANTHROPIC,
      "{\"status\":529," SOON
      "\"json\":{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
      "\"message\":\"no\"}}}",
      WALDO_OK, 0 },
    /* no answer, and a part of one */
    { ALL, "{\"text\":\"shown\",\"close_before_reply\":true}", WALDO_OK, 0 },
    { ALL, "{\"text\":\"shown\",\"close_before_reply\":true,\"reset\":true}", WALDO_OK, 0 },
    { ALL, "{\"text\":\"shown\",\"drop_at\":60}", WALDO_OK, 0 },
    { ALL, "{\"raw\":\"\"}", WALDO_OK, 0 },
    { CHAT, "{\"text\":\"shown\",\"no_finish\":true}", WALDO_OK, 1 },
    { OPENAI, "{\"text\":\"shown\",\"no_terminal\":true}", WALDO_OK, 1 },
    { ANTHROPIC, "{\"text\":\"shown\",\"no_stop\":true}", WALDO_OK, 1 },
    /* errors inside of an answer that began well */
    { CHAT, "{\"text\":\"shown\",\"stream_error\":\"object\"}", WALDO_OK, 1 },
    { CHAT, "{\"text\":\"shown\",\"stream_error\":\"string\"}", WALDO_OK, 1 },
    { CHAT, "{\"text\":\"shown\",\"stream_error\":\"event\"}", WALDO_OK, 1 },
    { CHAT, "{\"text\":\"shown\",\"stream_error\":\"finish\"}", WALDO_OK, 1 },
    { OPENAI, "{\"text\":\"shown\",\"stream_error\":\"flat\"}", WALDO_OK, 0 },
    { OPENAI, "{\"text\":\"shown\",\"stream_error\":\"object\"}", WALDO_OK, 0 },
    { OPENAI, "{\"text\":\"shown\",\"failed\":\"server_error\"}", WALDO_OK, 1 },
    { OPENAI, "{\"text\":\"shown\",\"failed\":\"rate_limit_exceeded\"}", WALDO_OK, 1 },
    { OPENAI, "{\"text\":\"shown\",\"failed\":\"invalid_prompt\"}", WALDO_EINVAL, 1 },
    { ANTHROPIC, "{\"text\":\"shown\",\"stream_error\":\"overloaded_error\"}", WALDO_OK, 1 },
    { ANTHROPIC, "{\"text\":\"shown\",\"stream_error\":\"api_error\"}", WALDO_OK, 1 },
    { ANTHROPIC, "{\"text\":\"shown\",\"stream_error\":\"rate_limit_error\"}", WALDO_OK, 1 },
    { ANTHROPIC, "{\"text\":\"shown\",\"stream_error\":\"invalid_request_error\"}", WALDO_EINVAL,
      1 },
};

/* Have these replies given, and ask. */
static waldo_run *ask(waldo_runtime *rt, size_t api, const char *replies, waldo_tool *tool)
{
    char model[320], text[8192];
    waldo_agent *agent;
    waldo_run *run;

    snprintf(model, sizeof model, "%s:%s#m", apis[api].kind, standin_url(apis[api].standin));
    snprintf(text, sizeof text, "{\"replies\":[%s]}", replies);
    assert_true(standin_reset(apis[api].standin));
    assert_true(standin_control(apis[api].standin, text));
    agent = waldo_agent_new(&WALDO_AGENT(.model = model, .max_output = 1000000,
                                         .tools = tool != NULL ? WALDO_TOOLS(tool) : NULL));
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi"));
    waldo_agent_unref(agent);
    return run;
}

static void check(waldo_runtime *rt, size_t api, size_t at)
{
    int again = rows[at].status == WALDO_OK;
    char replies[2048];
    const char *kinds;
    waldo_run *run;

    snprintf(replies, sizeof replies, "%s,{\"text\":\"whole\"}", rows[at].reply);
    run = ask(rt, api, replies, NULL);
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    if (waldo_run_status(run) != rows[at].status ||
        standin_request_count(apis[api].standin) != 1u + (size_t)again ||
        (strstr(kinds, "retry ") != NULL) != again) {
        fail_msg("%s: %s: %s after %zu requests: %s (%s)", apis[api].kind, rows[at].reply,
                 waldo_status_name(waldo_run_status(run)), standin_request_count(apis[api].standin),
                 waldo_run_errmsg(run), kinds);
    }
    if (again) {
        assert_string_equal(waldo_run_text(run), "whole");
        assert_lacks(fixture_items(run), "shown");
    }
    if (rows[at].shown && strstr(kinds, again ? "text retry " : "text ") == NULL) {
        fail_msg("%s: %s: %s", apis[api].kind, rows[at].reply, kinds);
    }
    waldo_run_free(run);
}

static void failures_are_tried_again_or_not(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);

    (void)state;
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; at++) {
        for (size_t api = 0; api < APIS; api++) {
            if ((rows[at].apis & 1 << api) != 0) {
                check(rt, api, at);
            }
        }
    }
    waldo_runtime_finish(rt);
}

/* ---- conversations that are too long ---- */

static const struct {
    int apis;
    const char *reply;
} too_long[] = {
    { OPENAI | CHAT, "{\"status\":400,\"json\":{\"error\":{\"message\":\"no\",\"type\":"
                     "\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}}" },
    { OPENAI, "{\"text\":\"a\",\"failed\":\"context_length_exceeded\"}" },
    { CHAT, "{\"status\":400," SAYS("This model's maximum context length is 10 tokens") "}" },
    { CHAT, "{\"status\":400," SAYS("The input (9 tokens) is longer than the model's context "
                                    "length") "}" },
    { CHAT, "{\"status\":400,\"json\":{\"error\":{\"code\":400,\"type\":"
            "\"exceed_context_size_error\",\"message\":\"request (9 tokens) exceeds\","
            "\"n_prompt_tokens\":9,\"n_ctx\":4}}}" },
    { CHAT,
      "{\"status\":400," SAYS("prompt too long; exceeded max context length by 9 tokens") "}" },
    { CHAT, "{\"status\":400,\"json\":{\"object\":\"error\",\"message\":\"Prompt contains 9 tokens "
            "and 0 draft tokens, too large for model with 4 maximum context length\"}}" },
    { CHAT, "{\"status\":413,\"raw\":\"\"}" },
    { CHAT, "{\"text\":\"\",\"finish\":\"length\",\"usage\":{\"prompt_tokens\":9,"
            "\"completion_tokens\":0}}" },
    { ANTHROPIC, "{\"status\":400,\"json\":{\"type\":\"error\",\"error\":{\"type\":"
                 "\"invalid_request_error\",\"message\":\"prompt is too long: 9 tokens > 4 "
                 "maximum\"}}}" },
    { ANTHROPIC, "{\"status\":413,\"json\":{\"type\":\"error\",\"error\":{\"type\":"
                 "\"request_too_large\",\"message\":\"no\"}}}" },
    { ANTHROPIC, "{\"text\":\"a\",\"stop\":\"model_context_window_exceeded\"}" },
};

static waldo_status talk(void *userdata, waldo_tool_call *call)
{
    static char text[50001];

    memset(text, 'x', sizeof text - 1);
    (*(int *)userdata)++;
    return waldo_tool_call_reply(call, "%s", text);
}

static void each_vendors_overflow_is_known(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);

    (void)state;
    for (size_t at = 0; at < sizeof too_long / sizeof too_long[0]; at++) {
        for (size_t api = 0; api < APIS; api++) {
            char replies[2048], *body;
            const char *kinds;
            waldo_run *run;
            int calls = 0;
            size_t len;

            if ((too_long[at].apis & 1 << api) == 0) {
                continue;
            }
            snprintf(replies, sizeof replies,
                     "{\"calls\":[{\"id\":\"c1\",\"name\":\"talk\",\"arguments\":\"{}\"}]},%s,"
                     "{\"text\":\"whole\"}",
                     too_long[at].reply);
            run = ask(rt, api, replies,
                      WALDO_TOOL(.name = "talk", .about = "Says much.", .call = talk,
                                 .userdata = &calls));
            fixture_pull(run, &kinds);
            if (waldo_run_status(run) != WALDO_OK ||
                standin_request_count(apis[api].standin) != 3) {
                fail_msg("%s: %s: %s", apis[api].kind, too_long[at].reply, waldo_run_errmsg(run));
            }
            assert_int_equal(calls, 1);
            body = standin_request_body(apis[api].standin, 2, &len);
            assert_true(len < 16000);
            free(body);
            waldo_run_free(run);
        }
    }
    waldo_runtime_finish(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_are_tried_again_or_not),
        cmocka_unit_test(each_vendors_overflow_is_known),
    };

    return !!cmocka_run_group_tests(tests, start, stop);
}
