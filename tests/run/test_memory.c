/* What a run holds of the library's memory while it reads its answer, and at rest. */
#include <malloc.h>
#include <unistd.h>

#include "fixture.h"
#include "httpd.h"

enum { RUNS = 64, WAIT_MS = 60000, IDLE_MAX = 16 * 1024, ACTIVE_MAX = 64 * 1024 };

static httpd server;
static char model[128];
static size_t living; /* bytes */
static atomic_int go_on;

static void *hook_malloc(void *userdata, size_t size)
{
    void *ptr = malloc(size);

    (void)userdata;
    living += malloc_usable_size(ptr);
    return ptr;
}

static void *hook_realloc(void *userdata, void *ptr, size_t size)
{
    (void)userdata;
    living -= malloc_usable_size(ptr);
    ptr = realloc(ptr, size);
    living += malloc_usable_size(ptr);
    return ptr;
}

static void hook_free(void *userdata, void *ptr)
{
    (void)userdata;
    living -= malloc_usable_size(ptr);
    free(ptr);
}

static void serve(httpd *self, int fd, int connection)
{
    static const char half[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    static const char rest[] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},"
                               "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    httpd_request *request = malloc(sizeof *request);
    char text[512];

    (void)connection;
    while (httpd_read(self, fd, request)) {
        snprintf(text, sizeof text,
                 "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %zu\r\n\r\n"
                 "%s",
                 strlen(half) + strlen(rest), half);
        httpd_send(fd, text, strlen(text));
        while (!atomic_load(&go_on)) {
            usleep(1000);
        }
        httpd_send(fd, rest, strlen(rest));
        free(request->body);
    }
    free(request);
}

static void a_run_keeps_within_its_budget(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = model, .instructions = "Be brief."));
    waldo_run *runs[RUNS];
    const waldo_event *event;
    size_t before, active, idle;

    (void)state;
    atomic_store(&go_on, 1);
    assert_int_equal(waldo_run_wait(waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "a")), WAIT_MS),
                     WALDO_OK);
    atomic_store(&go_on, 0);
    before = living;
    for (int i = 0; i < RUNS; i++) {
        runs[i] = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "hi"));
    }
    for (int i = 0; i < RUNS; i++) {
        do {
            assert_int_equal(waldo_run_next(runs[i], WAIT_MS, &event), WALDO_OK);
        } while (waldo_event_type(event) != WALDO_EVENT_TEXT);
    }
    active = (living - before) / RUNS;
    atomic_store(&go_on, 1);
    for (int i = 0; i < RUNS; i++) {
        fixture_pull(runs[i], NULL);
        assert_string_equal(waldo_run_text(runs[i]), "ab");
    }
    idle = (living - before) / RUNS;
    print_message("bytes of a run: %zu while it reads, %zu at rest\n", active, idle);
    assert_true(active < ACTIVE_MAX);
    assert_true(idle < IDLE_MAX);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

int main(void)
{
    const waldo_allocator hook = { hook_malloc, hook_realloc, hook_free, NULL };
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_run_keeps_within_its_budget) };
    int failed;

    if (waldo_set_allocator(&hook) != WALDO_OK || httpd_start(&server, serve, NULL, NULL) != 0) {
        return 1;
    }
    snprintf(model, sizeof model, "chat:%s/v1#m", server.url);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    httpd_stop(&server);
    return !!failed;
}
