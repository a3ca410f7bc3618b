/*
 * Tool calls are ended, given up and asked about by other threads while their run works, is
 * cancelled or freed, and while the runtime goes: each call ends once, and nobody touches what is
 * gone.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "fixture.h"
#include "httpd.h"

enum { ROUNDS = 60, WORKERS = 3, SLOTS = 64, WAIT_MS = 60000 };

static httpd server;
static char model[128];
static atomic_int requests_with_results;

static void serve(httpd *self, int fd, int connection)
{
    static const char type[] = "Content-Type: text/event-stream\r\n";
    httpd_request *request = malloc(sizeof *request);
    char calls[2048] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[";

    (void)connection;
    for (int i = 0; i < 4; i++) {
        size_t len = strlen(calls);

        snprintf(calls + len, sizeof calls - len,
                 "%s{\"index\":%d,\"id\":\"c%d\",\"function\":{\"name\":\"slow\","
                 "\"arguments\":\"{}\"}}",
                 i > 0 ? "," : "", i, i);
    }
    strcat(calls, "]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
                  "\"tool_calls\"}]}\n\ndata: [DONE]\n\n");
    while (httpd_read(self, fd, request)) {
        int has_results = strstr(request->body, "\"tool_call_id\"") != NULL;

        atomic_fetch_add(&requests_with_results, has_results);
        httpd_reply(fd, 200, type,
                    has_results ? "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":"
                                  "\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
                                : calls);
        free(request->body);
    }
    free(request);
}

/* ---- the other threads ---- */

static struct {
    pthread_mutex_t lock;
    waldo_tool_call *calls[SLOTS];
    size_t count;
    int over;
    atomic_int taken; /* ends that were accepted */
    atomic_int refused;
    waldo_cancel *cancel; /* triggered by the workers, too; under lock */
    int trigger;
} work = { .lock = PTHREAD_MUTEX_INITIALIZER };

static waldo_tool_call *next_call(int *over, waldo_cancel **cancel)
{
    waldo_tool_call *call = NULL;

    pthread_mutex_lock(&work.lock);
    *over = work.over;
    if (work.count > 0) {
        call = work.calls[--work.count];
    }
    *cancel = work.trigger ? waldo_cancel_ref(work.cancel) : NULL;
    pthread_mutex_unlock(&work.lock);
    return call;
}

static void end_somehow(waldo_tool_call *call, unsigned number)
{
    waldo_status status = WALDO_OK;

    (void)waldo_tool_call_cancelled(call);
    (void)waldo_tool_call_args(call);
    switch (number % 4) {
    case 0:
        status = waldo_tool_call_reply(call, "from thread %u", number);
        break;
    case 1:
        status = waldo_tool_call_fail(call, "no");
        break;
    case 2:
        status = waldo_tool_call_reply_text(call, (waldo_str){ "text", 4 });
        break;
    default:
        break; /* the last reference answers */
    }
    atomic_fetch_add(status == WALDO_OK ? &work.taken : &work.refused, 1);
    if (waldo_tool_call_reply(call, "again") == WALDO_OK && number % 4 != 3) {
        atomic_store(&work.taken, -1000000); /* a second end was taken */
    }
    waldo_tool_call_unref(call);
}

static void *worker(void *argument)
{
    unsigned number = (unsigned)(size_t)argument;
    int over = 0;

    while (!over) {
        waldo_cancel *cancel = NULL;
        waldo_tool_call *call = next_call(&over, &cancel);

        waldo_cancel_trigger(cancel);
        waldo_cancel_unref(cancel);
        if (call != NULL) {
            end_somehow(call, number++);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static waldo_status slow(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    pthread_mutex_lock(&work.lock);
    if (work.count < SLOTS) {
        work.calls[work.count++] = waldo_tool_call_ref(call);
    }
    pthread_mutex_unlock(&work.lock);
    return WALDO_PENDING;
}

/* ---- the rounds ---- */

static void one_round(int round)
{
    waldo_cancel *cancel = waldo_cancel_new();
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = model,
                     .tools = WALDO_TOOLS(
                         WALDO_TOOL(.name = "slow", .call = slow, .flags = WALDO_PARALLEL_SAFE))));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi", .cancel = cancel));

    pthread_mutex_lock(&work.lock);
    work.cancel = cancel;
    work.trigger = round % 4 == 1;
    pthread_mutex_unlock(&work.lock);
    switch (round % 4) {
    case 0: /* to its answer */
        assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
        break;
    case 1: /* cancelled by other threads, whenever */
        assert_int_not_equal(waldo_run_wait(run, WAIT_MS), WALDO_ETIMEDOUT);
        break;
    case 2: /* freed in the middle */
        for (int i = 0; i < round; i++) {
            waldo_runtime_step(rt, 5);
        }
        waldo_run_free(run);
        break;
    default: /* cancelled here, in the middle, then the runtime goes at once */
        for (int i = 0; i < round; i++) {
            waldo_runtime_step(rt, 1);
        }
        waldo_run_cancel(run);
        break;
    }
    pthread_mutex_lock(&work.lock);
    work.cancel = NULL;
    work.trigger = 0;
    pthread_mutex_unlock(&work.lock);
    waldo_runtime_free(rt);
    waldo_agent_unref(agent);
    waldo_cancel_unref(cancel);
}

static void ends_each_call_once_from_any_thread(void **state)
{
    pthread_t threads[WORKERS];

    (void)state;
    for (size_t i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(i * 7)), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        one_round(round);
    }
    pthread_mutex_lock(&work.lock);
    work.over = 1;
    pthread_mutex_unlock(&work.lock);
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    while (work.count > 0) {
        waldo_tool_call_unref(work.calls[--work.count]);
    }
    assert_true(work.taken >= ROUNDS); /* four of each run that came to its answer */
    assert_true(requests_with_results >= ROUNDS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_each_call_once_from_any_thread),
    };
    int failed;

    if (httpd_start(&server, serve, NULL, NULL) != 0) {
        return 1;
    }
    snprintf(model, sizeof model, "chat:%s/v1#m", server.url);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    httpd_stop(&server);
    return !!failed;
}
