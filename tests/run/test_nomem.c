/*
 * Out of memory at every allocation in turn, once and from then on, libcurl's and cJSON's too: a
 * run comes to rest as failed with WALDO_ENOMEM or does what it does otherwise; afterwards it and a
 * new run on the same runtime work, and everything is given back.
 */
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "failing.h"
#include "fixture.h"
#include "httpd.h"

enum {
    MOST_ALLOCATIONS = 20000,
    MOST_SECONDS = 1700,
    WAIT_MS = 60000,
    REST_MS = 25,
    LONG_TEXT = 6000
};

static int curl_failed; /* in this step */

static int curl_must_fail(void)
{
    int fails = failing_must_fail();

    curl_failed |= fails;
    return fails;
}

/* libcurl keeps some of its memory for the process, so its blocks are not counted (LSan does). */
static void *curl_malloc(size_t size)
{
    return curl_must_fail() ? NULL : malloc(size);
}

static void *curl_realloc(void *ptr, size_t size)
{
    return curl_must_fail() ? NULL : realloc(ptr, size);
}

static char *curl_strdup(const char *text)
{
    return curl_must_fail() ? NULL : strdup(text);
}

static void *curl_calloc(size_t count, size_t size)
{
    return curl_must_fail() ? NULL : calloc(count, size);
}

/* ---- the model: two calls, then an answer; it wants a result for every call ---- */

static httpd server;
static atomic_int bad_histories;
static char model[128];       /* its name is one of: m; absent, which is not there; tight */
static char other_model[128]; /* to fall back to; "": none */

static const char two_calls[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"so \",\"tool_calls\":["
    "{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"later\","
    "\"arguments\":\"{\\\"n\\\":1}\"}},{\"index\":1,\"id\":\"c2\",\"type\":\"function\","
    "\"function\":{\"name\":\"now\",\"arguments\":\"{\\\"n\\\":2}\"}}]}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";
static const char answer[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"all \"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"done\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"
    "data: [DONE]\n\n";

#define RESPONSE(id, output)                                                                       \
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"" id "\",\"status\":"           \
    "\"completed\",\"output\":[" output                                                            \
    "],\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}}\n\n"
#define SAID(text)                                                                                 \
    "{\"type\":\"message\",\"id\":\"msg_1\",\"content\":[{\"type\":\"output_text\",\"text\":"      \
    "\"" text "\"}]}"
#define CALLED(id, name)                                                                           \
    "{\"type\":\"function_call\",\"id\":\"f" id "\",\"call_id\":\"" id "\",\"name\":\"" name       \
    "\",\"arguments\":\"{\\\"n\\\":1}\"}"

/* The provider keeps the history: results come behind the response with the calls, only there. */
static const char kept_calls[] =
    RESPONSE("resp_calls", SAID("so ") "," CALLED("c1", "later") "," CALLED("c2", "now"));
static const char kept_answer[] = RESPONSE("resp_end", SAID("all done"));

static int count_of(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void serve_kept(int fd, const char *type, const char *body)
{
    int results = count_of(body, "\"function_call_output\"");
    int calls = strstr(body, "\"previous_response_id\":\"resp_calls\"") != NULL ? 2 : 0;

    if (results != calls) {
        atomic_fetch_add(&bad_histories, 1);
    }
    httpd_reply(fd, 200, type, results > 0 ? kept_answer : kept_calls);
}

static void serve(httpd *self, int fd, int connection)
{
    static const char type[] = "Content-Type: text/event-stream\r\n";
    httpd_request *request = malloc(sizeof *request);

    (void)connection;
    while (httpd_read(self, fd, request)) {
        int results = count_of(request->body, "\"tool_call_id\":");

        if (strstr(request->body, "\"input\":[") != NULL) {
            serve_kept(fd, type, request->body);
            free(request->body);
            continue;
        }
        if (results != count_of(request->body, "\"id\":\"c")) {
            atomic_fetch_add(&bad_histories, 1);
        }
        if (strstr(request->body, "\"model\":\"absent\"") != NULL) {
            httpd_reply(fd, 404, "", "{\"error\":{\"message\":\"no such model\"}}");
        } else if (strstr(request->body, "\"model\":\"tight\"") != NULL &&
                   strlen(request->body) > LONG_TEXT) {
            httpd_reply(fd, 400, "",
                        "{\"error\":{\"message\":\"no\",\"code\":\"context_length_exceeded\"}}");
        } else {
            httpd_reply(fd, 200, type, results > 0 ? answer : two_calls);
        }
        free(request->body);
    }
    free(request);
}

/* ---- what is walked ---- */

static struct {
    waldo_tool_call *held;
    waldo_run *run;
    int begun;
    int long_text;
} tools;

static void drop_held(void)
{
    waldo_tool_call *call = tools.held;

    tools.held = NULL;
    waldo_tool_call_unref(call);
}

static void on_cancel(void *userdata)
{
    (void)userdata;
    drop_held();
}

static waldo_status later(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    tools.held = waldo_tool_call_ref(call);
    tools.begun = 1;
    waldo_tool_call_on_cancel(call, on_cancel, NULL);
    return WALDO_PENDING;
}

static waldo_status now(void *userdata, waldo_tool_call *call)
{
    int *hold = userdata;

    if (waldo_tool_call_add_image(call, (waldo_str){ "GIF89a", 6 }) == WALDO_ENOMEM) {
        return WALDO_ENOMEM;
    }
    if (tools.held != NULL && !*hold) {
        waldo_tool_call_reply(tools.held, "later %d", 1);
        drop_held();
    }
    return waldo_tool_call_reply(call, "now %lld%*s", (long long)waldo_tool_call_int(call, "n", 0),
                                 tools.long_text ? LONG_TEXT : 1, "");
}

/* Without retries: they would wait. */
static waldo_agent *make_agent(int *hold)
{
    const waldo_param *params = WALDO_PARAMS({ .name = "n", .type = WALDO_INTEGER });
    waldo_model *object = waldo_model_new(&WALDO_MODEL(.model = model, .no_retries = 1));
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = object == NULL ? model : NULL, .model_object = object,
                     .fallback_models = other_model[0] != '\0' ? WALDO_STRINGS(other_model) : NULL,
                     .instructions = "Do it.", .approve = WALDO_APPROVE_NONE,
                     .tools = WALDO_TOOLS(WALDO_TOOL(.name = "later", .params = params,
                                                     .call = later, .timeout_ms = 100000),
                                          WALDO_TOOL(.name = "now", .params = params, .call = now,
                                                     .userdata = hold))));

    waldo_model_unref(object);
    return agent;
}

/* Pull to the end, reading every event. */
static waldo_status pull(waldo_run *run)
{
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, WAIT_MS, &event)) == WALDO_OK) {
        waldo_str json = waldo_event_json(event);

        assert_true(json.len == 0 || json.ptr[json.len - 1] == '}');
    }
    return status == WALDO_END ? waldo_run_status(run) : status;
}

/* libcurl shows some of its failures as a broken connection, and may leave one in its pool. */
static int is_broken_connection(const waldo_run *run)
{
    return waldo_error_get_class(waldo_run_error(run)) == WALDO_CLASS_TRANSPORT;
}

/* With memory again: the conversation goes on, and another one works. */
static void go_on(waldo_runtime *rt, waldo_agent *agent, waldo_run *run)
{
    waldo_run *other;

    if (run != NULL && waldo_run_send(run, "go on") != WALDO_ECLOSED) {
        waldo_status status = pull(run);

        if (status != WALDO_OK && is_broken_connection(run)) {
            waldo_run_send(run, "go on");
            status = pull(run);
        }
        if (status != WALDO_OK) {
            fail_msg("after allocation %zu: %s: %s", failing.fail_at, waldo_status_name(status),
                     waldo_run_errmsg(run));
        }
        assert_string_equal(waldo_run_text(run), "all done");
    }
    other = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi"));
    assert_int_equal(waldo_run_wait(other, WAIT_MS), WALDO_OK);
    assert_string_equal(waldo_run_text(other), "all done");
    waldo_run_free(other);
}

/* Until nothing of what failed is looked after in a hurry any more (STARVED_POLL_MS). */
static void rest(waldo_runtime *rt)
{
    while (waldo_runtime_step(rt, REST_MS) == WALDO_OK) {
    }
}

static waldo_status whole_run(void)
{
    int hold = 0;
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_agent *agent = make_agent(&hold);
    waldo_status status;
    waldo_run *run;

    failing.on = 1;
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi"));
    status = run != NULL ? pull(run) : WALDO_ENOMEM;
    failing.on = 0;
    if (run != NULL) {
        assert_int_equal(waldo_run_get_state(run), WALDO_RUN_IDLE);
        assert_int_equal(waldo_run_stop(run),
                         status == WALDO_OK ? WALDO_STOP_ANSWERED : WALDO_STOP_FAILED);
    }
    status = status != WALDO_OK && is_broken_connection(run) ? WALDO_ENOMEM : status;
    if (curl_failed && !failing.and_later) {
        rest(rt);
    }
    go_on(rt, agent, run);
    drop_held();
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status;
}

static waldo_status cancelled_run(void)
{
    int hold = 1;
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_agent *agent = make_agent(&hold);
    waldo_cancel *cancel = waldo_cancel_new();
    waldo_status status;
    waldo_run *run;

    tools.begun = 0;
    failing.on = 1;
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi", .cancel = cancel));
    while (run != NULL && !tools.begun && waldo_run_get_state(run) != WALDO_RUN_IDLE) {
        waldo_runtime_step(rt, WAIT_MS);
    }
    if (run != NULL && waldo_run_get_state(run) != WALDO_RUN_IDLE) {
        waldo_cancel_trigger(cancel);
    }
    status = run != NULL ? pull(run) : WALDO_ENOMEM;
    failing.on = 0;
    hold = 0;
    status = status != WALDO_OK && is_broken_connection(run) ? WALDO_ENOMEM : status;
    go_on(rt, agent, run);
    drop_held();
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    waldo_cancel_unref(cancel);
    return status == WALDO_ECANCELED ? WALDO_OK : status;
}

static waldo_status construction(void)
{
    int hold = 0;
    waldo_status status = WALDO_OK;
    waldo_runtime *rt;
    waldo_agent *agent;
    waldo_run *run;

    failing.on = 1;
    rt = waldo_runtime_new(NULL);
    agent = make_agent(&hold);
    run = waldo_run_new(rt, agent, NULL);
    failing.on = 0;
    if (rt == NULL || agent == NULL || run == NULL) {
        status = WALDO_ENOMEM;
    } else {
        status = waldo_error_status(waldo_runtime_error(rt));
        status = status == WALDO_OK ? waldo_error_status(waldo_agent_error(agent)) : status;
        status = status == WALDO_OK ? waldo_error_status(waldo_run_error(run)) : status;
    }
    if (status == WALDO_OK) {
        go_on(rt, agent, run);
    }
    drop_held();
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status;
}

static void walk(waldo_status (*work)(void))
{
    size_t steps = 0;

    failing_begin();
    assert_int_equal(work(), WALDO_OK);
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status;

        curl_failed = 0;
        status = work();
        if (status != WALDO_OK && (status != WALDO_ENOMEM || failing.failed == 0)) {
            fail_msg("allocation %zu%s: %s", failing.fail_at, failing.and_later ? " and later" : "",
                     waldo_status_name(status));
        }
        steps += status != WALDO_OK;
        assert_int_equal(bad_histories, 0);
    }
    assert_true(steps > 5);
}

static void walks_a_whole_run(void **state)
{
    (void)state;
    walk(whole_run);
}

static void walks_a_cancelled_run(void **state)
{
    (void)state;
    walk(cancelled_run);
}

static void use(const char *name, const char *other)
{
    snprintf(model, sizeof model, "chat:%s/v1#%s", server.url, name);
    other_model[0] = '\0';
    if (other != NULL) {
        snprintf(other_model, sizeof other_model, "chat:%s/v1#%s", server.url, other);
    }
}

static void walks_a_change_of_model(void **state)
{
    (void)state;
    use("absent", "m");
    walk(whole_run);
    use("m", NULL);
}

static void walks_a_conversation_that_is_too_long(void **state)
{
    (void)state;
    use("tight", NULL);
    tools.long_text = 1;
    walk(whole_run);
    tools.long_text = 0;
    use("m", NULL);
}

static void walks_a_history_at_the_provider(void **state)
{
    (void)state;
    snprintf(model, sizeof model, "openai:%s/v1#m,history=provider", server.url);
    walk(whole_run);
    use("m", NULL);
}

static void walks_construction(void **state)
{
    (void)state;
    walk(construction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_construction),
        cmocka_unit_test(walks_a_whole_run),
        cmocka_unit_test(walks_a_cancelled_run),
        cmocka_unit_test(walks_a_change_of_model),
        cmocka_unit_test(walks_a_conversation_that_is_too_long),
        cmocka_unit_test(walks_a_history_at_the_provider),
    };
    int failed;

    alarm(MOST_SECONDS); /* a hang ends the test */
    failing_install();
    cJSON_InitHooks(&(cJSON_Hooks){ failing_malloc, failing_free });
    if (curl_global_init_mem(CURL_GLOBAL_ALL, curl_malloc, free, curl_realloc, curl_strdup,
                             curl_calloc) != CURLE_OK ||
        httpd_start(&server, serve, NULL, NULL) != 0) {
        return 1;
    }
    use("m", NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    httpd_stop(&server);
    curl_global_cleanup();
    return !!failed;
}
