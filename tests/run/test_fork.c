/*
 * In a forked child every object is dead: whatever the child calls says so or does nothing, and
 * what the parent has under way goes on.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "httpd.h"

enum { WAIT_MS = 60000 };

static httpd server;
static char model[128];
static atomic_int go_on;

/* A call, or half of an answer, then the rest when the child has been. */
static void serve(httpd *self, int fd, int connection)
{
    static const char call[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\","
        "\"function\":{\"name\":\"keep\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}"
        "]}"
        "\n\ndata: [DONE]\n\n";
    static const char half[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \"}}]}\n\n";
    static const char rest[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two\"},\"finish_reason\":"
        "\"stop\"}]}\n\ndata: [DONE]\n\n";
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Content-Length: %zu\r\n\r\n%s";
    httpd_request *request = malloc(sizeof *request);
    char text[1024];

    (void)connection;
    while (httpd_read(self, fd, request)) {
        if (strstr(request->body, "use the tool") != NULL) {
            httpd_reply(fd, 200, "Content-Type: text/event-stream\r\n", call);
        } else {
            snprintf(text, sizeof text, head, strlen(half) + strlen(rest), half);
            httpd_send(fd, text, strlen(text));
            while (!atomic_load(&go_on)) {
                usleep(1000);
            }
            httpd_send(fd, rest, strlen(rest));
        }
        free(request->body);
    }
    free(request);
}

typedef struct things {
    waldo_runtime *rt;
    waldo_agent *agent;
    waldo_run *run;
    waldo_run *with_machine;
    waldo_tool_call *call;
    waldo_poster *poster;
    waldo_cancel *cancel;
} things;

static waldo_status keep(void *userdata, waldo_tool_call *call)
{
    ((things *)userdata)->call = waldo_tool_call_ref(call);
    return WALDO_PENDING;
}

static void nothing(void *userdata)
{
    (void)userdata;
}

#define WRONG(condition)                                                                           \
    if (condition) {                                                                               \
        return __LINE__;                                                                           \
    }

/* The line of the first wrong answer; 0 when all are right. */
static int misuse(things *t)
{
    const waldo_event *event = NULL;
    waldo_run *run;

    WRONG(waldo_runtime_fd(t->rt) != -1)
    WRONG(waldo_runtime_dispatch(t->rt, 0) != WALDO_EFORKED)
    WRONG(waldo_runtime_step(t->rt, 10) != WALDO_EFORKED)
    WRONG(waldo_runtime_next(t->rt, 10) != NULL)
    WRONG(waldo_runtime_add_secret(t->rt, "a", (waldo_str){ "12345678", 8 }) != WALDO_EFORKED)
    WRONG(waldo_runtime_close(t->rt, 0, NULL, NULL) != WALDO_EFORKED)
    WRONG(waldo_poster_post(t->poster, nothing, NULL) != WALDO_EFORKED)
    WRONG(waldo_run_wait(t->run, 10) != WALDO_EFORKED)
    WRONG(waldo_run_next(t->run, 0, &event) != WALDO_EFORKED)
    WRONG(waldo_run_send(t->run, "more") != WALDO_EFORKED)
    WRONG(waldo_run_decide(t->run, "c", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }) !=
          WALDO_EFORKED)
    WRONG(waldo_run_save_changes(t->with_machine, "/nowhere/x") != WALDO_EFORKED)
    WRONG(waldo_tool_call_reply(t->call, "mine") != WALDO_EFORKED)
    WRONG(!waldo_tool_call_cancelled(t->call))
    run = waldo_run_new(t->rt, t->agent, &WALDO_RUN(.prompt = "hi", .cancel = t->cancel));
    WRONG(run == NULL || waldo_run_status(run) != WALDO_EFORKED)
    waldo_run_cancel(t->run);
    waldo_run_on_ready(t->run, NULL, NULL);
    waldo_cancel_trigger(t->cancel);
    waldo_sandbox_close(waldo_run_sandbox(t->with_machine), NULL, NULL);
    waldo_sandbox_unref(waldo_sandbox_ref(waldo_run_sandbox(t->with_machine)));
    waldo_tool_call_unref(t->call);
    waldo_poster_unref(t->poster);
    waldo_agent_unref(t->agent);
    waldo_cancel_unref(t->cancel);
    waldo_run_free(run);
    waldo_run_free(t->with_machine);
    waldo_run_free(t->run);
    waldo_runtime_finish(t->rt);
    return 0;
}

static int run_child(things *t)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        alarm(60);
        _exit(misuse(t));
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_child_disturbs_nobody(void **state)
{
    things t = { .rt = waldo_runtime_new(NULL), .cancel = waldo_cancel_new() };
    const waldo_event *event;

    (void)state;
    t.poster = waldo_runtime_poster(t.rt);
    t.agent = waldo_agent_new(
        &WALDO_AGENT(.model = model, .tools = WALDO_TOOLS(WALDO_TOOL(.name = "keep", .call = keep,
                                                                     .userdata = &t))));
    waldo_run_new(t.rt, t.agent, &WALDO_RUN(.prompt = "use the tool"));
    while (t.call == NULL) {
        assert_int_equal(waldo_runtime_step(t.rt, WAIT_MS), WALDO_OK);
    }
    t.run = waldo_run_new(t.rt, t.agent, &WALDO_RUN(.prompt = "hi", .cancel = t.cancel));
    t.with_machine = waldo_run_new(t.rt, t.agent, &WALDO_RUN(.sandbox = "fake:"));
    do { /* until the stream is half read */
        assert_int_equal(waldo_run_next(t.run, WAIT_MS, &event), WALDO_OK);
    } while (waldo_event_type(event) != WALDO_EVENT_TEXT);
    assert_int_equal(run_child(&t), 0);
    atomic_store(&go_on, 1);
    assert_int_equal(waldo_run_wait(t.run, WAIT_MS), WALDO_OK);
    assert_string_equal(waldo_run_text(t.run), "one two");
    assert_int_equal(waldo_run_send(t.run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(t.run, WAIT_MS), WALDO_OK);
    assert_int_equal(server.connections, 1); /* it is still the same one */
    waldo_tool_call_unref(t.call);
    waldo_poster_unref(t.poster);
    waldo_agent_unref(t.agent);
    waldo_cancel_unref(t.cancel);
    waldo_runtime_finish(t.rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_child_disturbs_nobody) };
    int failed;

    if (httpd_start(&server, serve, NULL, NULL) != 0) {
        return 1;
    }
    snprintf(model, sizeof model, "chat:%s/v1#m", server.url);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    httpd_stop(&server);
    return !!failed;
}
