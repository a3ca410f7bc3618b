/*
 * A model that says the key in pieces, cut anywhere over the events of its stream: it is whole in
 * no event, item, record of the store or recording, and a replay is the same run.
 */
#include <unistd.h>

#include "fixture.h"
#include "httpd.h"
#include "keeper.h"

#define KEY "sk-ab/cd+ef=gh0123456789"

enum { WAIT_MS = 60000, BODY_MAX = 1 << 20, EACH_BYTE = 0 };

static char folder[] = "/tmp/waldo-torn-XXXXXX";
static char file[64], replay[80];

/* ---- what the model says ---- */

/* An event of each kind; the piece of text comes between the two parts of it. */
typedef struct api {
    const char *kind;
    const char *reasoning[2];
    const char *text[2];
    const char *args[2];
    const char *begin, *begin_text, *begin_call, *end_calls, *end;
} api;

#define CHAT(delta) "data: {\"choices\":[{\"index\":0,\"delta\":{" delta "}}]}\n\n"
#define CHAT_END(why)                                                                              \
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" why "\"}]}\n\n"
#define RESPONSES(type, rest) "data: {\"type\":\"response." type "\"," rest "}\n\n"
#define COMPLETED             RESPONSES("completed", "\"response\":{\"status\":\"completed\"}")
#define BLOCK(n, rest)                                                                             \
    "data: {\"type\":\"content_block_start\",\"index\":" n ",\"content_block\":{" rest "}}\n\n"
#define DELTA(n, rest) "data: {\"type\":\"content_block_delta\",\"index\":" n ",\"delta\":{" rest
#define STOP(why)                                                                                  \
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" why "\"},\"usage\":{"        \
    "\"output_tokens\":3}}\n\ndata: {\"type\":\"message_stop\"}\n\n"

static const api apis[] = {
    { "chat",
      { "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"", "\"}}]}\n\n" },
      { "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"", "\"}}]}\n\n" },
      { "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{"
        "\"arguments\":\"",
        "\"}}]}}]}\n\n" },
      "",
      "",
      CHAT("\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{"
           "\"name\":\"echo\",\"arguments\":\"\"}}]"),
      CHAT_END("tool_calls") "data: [DONE]\n\n",
      CHAT_END("stop") "data: [DONE]\n\n" },
    { "openai",
      { "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,"
        "\"summary_index\":0,\"delta\":\"",
        "\"}\n\n" },
      { "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"content_index\":0,"
        "\"delta\":\"",
        "\"}\n\n" },
      { "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":2,"
        "\"delta\":\"",
        "\"}\n\n" },
      "",
      "",
      RESPONSES("output_item.added",
                "\"output_index\":2,\"item\":{\"type\":\"function_call\",\"id\":\"fc\","
                "\"call_id\":\"c1\",\"name\":\"echo\",\"arguments\":\"\"}"),
      COMPLETED,
      COMPLETED },
    { "anthropic",
      { DELTA("0", "\"type\":\"thinking_delta\",\"thinking\":\""), "\"}}\n\n" },
      { DELTA("1", "\"type\":\"text_delta\",\"text\":\""), "\"}}\n\n" },
      { DELTA("2", "\"type\":\"input_json_delta\",\"partial_json\":\""), "\"}}\n\n" },
      "data: "
      "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}"
      "\n\n" BLOCK("0", "\"type\":\"thinking\",\"thinking\":\"\""),
      BLOCK("1", "\"type\":\"text\",\"text\":\"\""),
      BLOCK("2", "\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"echo\",\"input\":{}"),
      STOP("tool_use"),
      STOP("end_turn") },
};

/* The same with a terminal event that holds all items whole. */
static const api whole_items = {
    "openai",
    { "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,"
      "\"summary_index\":0,\"delta\":\"",
      "\"}\n\n" },
    { "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"", "\"}\n\n" },
    { "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":2,"
      "\"delta\":\"",
      "\"}\n\n" },
    "",
    "",
    "",
    RESPONSES("completed",
              "\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[{\"type\":"
              "\"reasoning\",\"id\":\"rs\",\"summary\":[{\"type\":\"summary_text\",\"text\":"
              "\"hm " KEY " hm\"}],\"encrypted_content\":\"x\"},{\"type\":\"message\",\"id\":"
              "\"m\",\"content\":[{\"type\":\"output_text\",\"text\":\"see " KEY
              ", it is\"}]},{\"type\":\"function_call\",\"id\":\"fc\",\"call_id\":\"c1\","
              "\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"a" KEY "b\\\"}\"}]}"),
    COMPLETED,
};

static void say(char *body, const char *const around[2], const char *text, size_t len)
{
    size_t at = strlen(body);

    assert_true(at + strlen(around[0]) + len + strlen(around[1]) < BODY_MAX);
    snprintf(body + at, BODY_MAX - at, "%s%.*s%s", around[0], (int)len, text, around[1]);
}

/* Before the key, the key cut before its byte number cut, and what is behind it. */
static void say_key(char *body, const char *const around[2], const char *before, size_t cut,
                    const char *behind)
{
    say(body, around, before, strlen(before));
    for (size_t at = 0; at < strlen(KEY) && cut == EACH_BYTE; at++) {
        say(body, around, &KEY[at], 1);
    }
    if (cut != EACH_BYTE) {
        say(body, around, KEY, cut);
        say(body, around, &KEY[cut], strlen(KEY) - cut);
    }
    say(body, around, behind, strlen(behind));
}

static void serve(httpd *server, int fd, int connection)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Content-Length: %zu\r\n\r\n";
    httpd_request request;
    char line[256];

    (void)connection;
    while (httpd_read(server, fd, &request)) {
        const char *const *bodies = server->data;
        int is_answer = memmem(request.body, request.body_len, "echo: ", 6) != NULL;
        const char *body = bodies[is_answer];

        free(request.body);
        snprintf(line, sizeof line, head, strlen(body));
        if (!httpd_send(fd, line, strlen(line)) || !httpd_send(fd, body, strlen(body))) {
            return;
        }
    }
}

static keeper kept;

static waldo_status get_key(void *userdata, const char *name, waldo_str *ret_value,
                            int64_t *ret_expires_at)
{
    (void)userdata;
    (void)name;
    *ret_value = (waldo_str){ KEY, strlen(KEY) };
    *ret_expires_at = 0;
    return WALDO_OK;
}

/* ---- the runs ---- */

/* What a run came to: its items, and its deltas in their order. */
typedef struct outcome {
    char items[65536];
    char text[4096];
    char reasoning[4096];
    char answer[4096]; /* what the library says it was */
    char all[65536];   /* every event */
} outcome;

static void add(char *to, size_t size, waldo_str text)
{
    size_t len = strlen(to);

    assert_true(len + text.len < size);
    memcpy(to + len, text.ptr, text.len);
    to[len + text.len] = '\0';
}

/* keys NULL: nothing is scrubbed, so that what is read from a recording is seen as it is. */
static void run_it(const waldo_model_options *options, const waldo_keys *keys, const char *record,
                   outcome *ret)
{
    waldo_store *store = keeper_store(&kept);
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.store = store, .keys = keys));
    waldo_model *model = waldo_model_new(options);
    const waldo_event *event;
    waldo_agent *agent;
    waldo_run *run;
    int calls = 0;

    memset(ret, 0, sizeof *ret);
    memset(&kept, 0, sizeof kept);
    agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = model, .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go", .record = record));
    while (waldo_run_next(run, WAIT_MS, &event) == WALDO_OK) {
        if (waldo_event_type(event) == WALDO_EVENT_TEXT) {
            add(ret->text, sizeof ret->text, waldo_event_text(event));
        } else if (waldo_event_type(event) == WALDO_EVENT_REASONING) {
            add(ret->reasoning, sizeof ret->reasoning, waldo_event_text(event));
        }
        add(ret->all, sizeof ret->all, waldo_event_json(event));
    }
    assert_string_equal(waldo_run_errmsg(run), "");
    add(ret->answer, sizeof ret->answer,
        (waldo_str){ waldo_run_text(run), strlen(waldo_run_text(run)) });
    add(ret->items, sizeof ret->items,
        (waldo_str){ fixture_items(run), strlen(fixture_items(run)) });
    waldo_agent_unref(agent);
    waldo_model_unref(model);
    waldo_runtime_finish(rt);
    waldo_store_unref(store);
}

/* Live with a recording, then the recording without the key being known: no key in either. */
static void lives_and_replays(const waldo_model_options *options)
{
    static const waldo_keys keys = { .size = sizeof keys, .get = get_key };
    static outcome live, again;

    run_it(options, &keys, file, &live);
    assert_contains(kept.text, "see [MY_KEY], it is");
    assert_contains(live.text, "see [MY_KEY], it is");
    assert_contains(live.reasoning, "hm [MY_KEY] hm");
    assert_contains(live.items, "{\\\"text\\\":\\\"a[MY_KEY]b\\\"}");
    assert_contains(live.items, "echo: a[MY_KEY]b");
    assert_lacks(kept.text, KEY);
    assert_lacks(live.all, KEY);
    assert_lacks(live.items, KEY);
    run_it(&WALDO_MODEL(.model = replay), NULL, NULL, &again);
    assert_string_equal(again.items, live.items);
    assert_string_equal(again.text, live.text);
    assert_string_equal(again.reasoning, live.reasoning);
}

static void at_every_cut(const api *from)
{
    static char bodies[2][BODY_MAX];
    const char *const data[2] = { bodies[0], bodies[1] };
    char string[128];
    httpd server;

    assert_int_equal(httpd_start(&server, serve, (void *)data, NULL), 0);
    snprintf(string, sizeof string, "%s:%s#m", from->kind, server.url);
    for (size_t cut = EACH_BYTE; cut < strlen(KEY); cut++) {
        snprintf(bodies[0], BODY_MAX, "%s", from->begin);
        say_key(bodies[0], from->reasoning, "hm ", cut, " hm");
        say(bodies[0], (const char *const[2]){ from->begin_text, "" }, "", 0);
        say_key(bodies[0], from->text, "see ", cut, ", it is");
        say(bodies[0], (const char *const[2]){ from->begin_call, "" }, "", 0);
        say_key(bodies[0], from->args, "{\\\"text\\\":\\\"a", cut, "b\\\"}");
        say(bodies[0], (const char *const[2]){ from->end_calls, "" }, "", 0);
        snprintf(bodies[1], BODY_MAX, "%s%s", from->begin, from->begin_text);
        say(bodies[1], from->text, "ok", 2);
        say(bodies[1], (const char *const[2]){ from->end, "" }, "", 0);
        lives_and_replays(&WALDO_MODEL(.model = string, .key_name = "MY_KEY"));
    }
    httpd_stop(&server);
}

static void in_chat(void **state)
{
    (void)state;
    at_every_cut(&apis[0]);
}

static void in_responses(void **state)
{
    (void)state;
    at_every_cut(&apis[1]);
}

static void in_messages(void **state)
{
    (void)state;
    at_every_cut(&apis[2]);
}

static void beside_whole_items(void **state)
{
    (void)state;
    at_every_cut(&whole_items);
}

/* Two parts of an answer are two items, and one text to who reads it. */
static void over_two_parts(void **state)
{
    static const waldo_keys keys = { .size = sizeof keys, .get = get_key };
    static const char body[] =
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n" BLOCK(
            "0", "\"type\":\"text\",\"text\":\"see sk-ab/cd+e\"")
            BLOCK("1", "\"type\":\"text\",\"text\":\"f=gh0123456789, it is\"") STOP("end_turn");
    const char *const data[2] = { body, body };
    static outcome live;
    char string[128];
    httpd server;

    (void)state;
    assert_int_equal(httpd_start(&server, serve, (void *)data, NULL), 0);
    snprintf(string, sizeof string, "anthropic:%s#m", server.url);
    run_it(&WALDO_MODEL(.model = string, .key_name = "MY_KEY"), &keys, NULL, &live);
    assert_string_equal(live.text, "see [MY_KEY], it is");
    assert_string_equal(live.answer, live.text);
    httpd_stop(&server);
}

/* ---- a function of the host ---- */

typedef struct teller {
    size_t cut;
    int asked;
} teller;

static void tell_key(waldo_generation *generation,
                     waldo_status (*tell)(waldo_generation *, waldo_str), const char *before,
                     size_t cut, const char *behind)
{
    tell(generation, (waldo_str){ before, strlen(before) });
    tell(generation, (waldo_str){ KEY, cut });
    tell(generation, (waldo_str){ &KEY[cut], strlen(KEY) - cut });
    tell(generation, (waldo_str){ behind, strlen(behind) });
}

static waldo_status generate(void *userdata, waldo_generation *generation)
{
    static const char args[] = "{\"text\":\"a" KEY "b\"}";
    teller *self = userdata;

    if (self->asked++ > 0) {
        waldo_generation_text(generation, (waldo_str){ "ok", 2 });
        return waldo_generation_finish(generation, WALDO_FINISH_ANSWER);
    }
    tell_key(generation, waldo_generation_reasoning, "hm ", self->cut, " hm");
    tell_key(generation, waldo_generation_text, "see ", self->cut, ", it is");
    waldo_generation_call(generation, "c1", "echo", (waldo_str){ args, sizeof args - 1 });
    return waldo_generation_finish(generation, WALDO_FINISH_CALLS);
}

static void in_process(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < strlen(KEY); cut++) {
        teller self = { .cut = cut };

        lives_and_replays(&WALDO_MODEL(.model = "callback:m", .key_name = "MY_KEY",
                                       .generate = generate, .userdata = &self));
    }
}

static int start(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(file, sizeof file, "%s/run.jsonl", folder);
    snprintf(replay, sizeof replay, "replay:%s", file);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_chat),        cmocka_unit_test(in_responses),
        cmocka_unit_test(in_messages),    cmocka_unit_test(beside_whole_items),
        cmocka_unit_test(over_two_parts), cmocka_unit_test(in_process),
    };

    return !!cmocka_run_group_tests(tests, start, stop);
}
