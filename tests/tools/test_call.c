/* Calls that other threads end: delivered once, taken back by a cancel, never lost. */
#include "fixture.h"

#include <pthread.h>

typedef struct job {
    waldo_tool_call *call;
    pthread_t thread;
    waldo_status first;
    waldo_status second;
} job;

static void *end_twice(void *userdata)
{
    job *j = userdata;

    j->first = waldo_tool_call_reply(j->call, "from a thread");
    j->second = waldo_tool_call_fail(j->call, "too late");
    waldo_tool_call_unref(j->call);
    return NULL;
}

static waldo_status in_a_thread(void *userdata, waldo_tool_call *call)
{
    job *j = userdata;

    j->call = waldo_tool_call_ref(call);
    return pthread_create(&j->thread, NULL, end_twice, j) == 0 ? WALDO_PENDING : WALDO_EBUSY;
}

static waldo_tool *thread_tool(job *j)
{
    return WALDO_TOOL(.name = "thread", .about = "", .call = in_a_thread, .userdata = j);
}

static void test_delivered(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 200; i++) {
        job j = { .call = NULL };
        outcome out;
        waldo_tool_call *call = start_tool(f, thread_tool(&j), "", &out);

        finish(f, &out);
        pthread_join(j.thread, NULL);
        assert_int_equal(j.first, WALDO_OK);
        assert_int_equal(j.second, WALDO_ECLOSED);
        assert_int_equal(out.end, WALDO__CALL_REPLY);
        assert_string_equal(out.text, "from a thread");
        waldo__tool_call_release(call);
        outcome_free(&out);
    }
}

/* Cancelled before, while or after the thread ends it, and the runtime freed without a round. */
static void test_cancelled(void **state)
{
    fixture *f = *state;

    for (int i = 0; i < 200; i++) {
        job j = { .call = NULL };
        outcome out;
        waldo_tool_call *call = start_tool(f, thread_tool(&j), "", &out);

        if (i % 2 == 0) {
            pthread_join(j.thread, NULL);
        }
        waldo__tool_call_cancel(call);
        waldo__tool_call_release(call);
        if (i % 2 == 1) {
            pthread_join(j.thread, NULL);
        }
        assert_true(j.first == WALDO_OK || j.first == WALDO_ECLOSED);
        assert_int_equal(j.second, WALDO_ECLOSED);
        assert_int_equal(out.count, 0);
    }
    waldo_sandbox_unref(f->sandbox);
    waldo_runtime_free(f->rt);
    f->sandbox = NULL;
    f->rt = NULL;
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { ONE(test_delivered), ONE(test_cancelled) };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}
