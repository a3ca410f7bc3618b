/* Faults that users of other libraries reported, as far as they concern one run: F.. names each. */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "fixture.h"

/* Everything tools were called with, a line a call. */
typedef struct notes {
    char text[16384];
    char keys[256][96];
    int calls;
    int fail; /* 1: the tool tells of an error after its effect */
} notes;

static waldo_status note(void *userdata, waldo_tool_call *call)
{
    notes *n = userdata;
    size_t len = strlen(n->text);

    snprintf(n->text + len, sizeof n->text - len, "%s %s\n", waldo_tool_call_name(call),
             waldo_tool_call_args(call).ptr);
    assert_true(n->calls < 256);
    snprintf(n->keys[n->calls], sizeof n->keys[0], "%s", waldo_tool_call_key(call));
    n->calls++;
    return n->fail ? waldo_tool_call_fail(call, "it broke")
                   : waldo_tool_call_reply(call, "result %d", n->calls);
}

static waldo_tool *noting(const char *name, notes *n)
{
    return WALDO_TOOL(.name = name, .call = note, .userdata = n, .flags = WALDO_PARALLEL_SAFE,
                      .schema_json = "{\"type\":\"object\"}");
}

static waldo_agent *noting_agent(fixture *f, const char *model, notes *n, waldo_approve approve)
{
    return waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, model), .approve = approve,
                     .capabilities = WALDO_NO_TOOLS,
                     .tools = WALDO_TOOLS(noting("exec_command", n), noting("run_command", n),
                                          noting("list_files", n), noting("write_file", n),
                                          noting("x", n), noting("y", n))));
}

static const struct {
    const char *model;
    const char *calls;
    const char *text;  /* part of the answer, which repeats the results */
    const char *items; /* part of the transcript */
    int warns;
} rows[] = {
    { "f03", "exec_command {\"cmd\":\"ls\"}\n", "were: result 1", "", 0 },
    { "f04-absent", "list_files {}\n", "were: result 1", "", 0 },
    { "f04-null", "list_files {}\n", "were: result 1", "", 0 },
    { "f04-empty", "list_files {}\n", "were: result 1", "", 0 },
    { "f05", "exec_command {}\n", "were: result 1", "", 1 },
    { "f06", "x {\"k\":1}\ny {\"k\":2}\n", "were: result 1\nresult 2", "", 0 },
    { "f07", "exec_command {\"a\":1}\n", "were: result 1", "", 0 },
    { "f08", "exec_command {\"a\":1}\n", "were: result 1", "", 0 },
    { "f09", "exec_command {\"cmd\":\"echo 1\"}\nexec_command {\"cmd\":\"echo 2\"}\n",
      "were: result 1\nresult 2", "", 0 },
    { "f10-length", "", "output limit", "\\\"content\\\": \\\"hel\"", 0 },
    { "f10-calls", "", "not run", "\\\"content\\\": \\\"hel\"", 0 },
    { "f11-empty", "run_command {}\n", "were: result 1", "", 0 },
    { "f11-cut", "", "not run", "{\\\"cmd\\\":\\\"l\"", 0 },
    { "f11-object", "run_command {\"cmd\":\"ls\"}\n", "were: result 1", "", 0 },
};

static void odd_calls_are_taken_as_they_were_meant(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        notes n = { .calls = 0 };
        waldo_agent *agent = noting_agent(f, rows[i].model, &n, WALDO_APPROVE_FLAGGED);
        waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
        const char *kinds;

        if (fixture_pull(run, &kinds) != WALDO_END || strcmp(n.text, rows[i].calls) != 0 ||
            strstr(waldo_run_text(run), rows[i].text) == NULL) {
            fail_msg("%s called:\n%sand ended with:\n%s\n%s", rows[i].model, n.text,
                     waldo_run_text(run), waldo_run_errmsg(run));
        }
        assert_contains(fixture_items(run), rows[i].items);
        assert_int_equal(strstr(kinds, "warning") != NULL, rows[i].warns);
        waldo_run_free(run);
        waldo_agent_unref(agent);
    }
}

/* F10: the host is not asked about a call that cannot be run. */
static void a_cut_call_is_not_put_to_the_host(void **state)
{
    fixture *f = *state;
    notes n = { .calls = 0 };
    waldo_agent *agent = noting_agent(f, "f10-calls", &n, WALDO_APPROVE_ALL);
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    const char *kinds;

    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_lacks(kinds, "approval");
    assert_contains(waldo_run_text(run), "not run");
    assert_contains(waldo_run_text(run), "Schema: {");
    assert_int_equal(n.calls, 0);
    waldo_agent_unref(agent);
}

static const struct {
    const char *model;
    const char *text;
} texts[] = {
    { "f01", "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80" },
    { "f43-lone", "a\xef\xbf\xbd"
                  "b" },
    { "f43-pair", "\xf0\x9f\x98\x80" },
};

/* F01, F43: and the next request, which repeats the text, is one that a strict server takes. */
static void odd_text_arrives_whole(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        waldo_agent *agent =
            waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, texts[i].model)));
        waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));

        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        assert_string_equal(waldo_run_text(run), texts[i].text);
        assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        waldo_run_free(run);
        waldo_agent_unref(agent);
    }
}

/* ---- many at once, and names twice ---- */

typedef struct crowd {
    waldo_tool_call *held[64];
    int begun, at_once, most;
} crowd;

static waldo_status join(void *userdata, waldo_tool_call *call)
{
    crowd *c = userdata;

    assert_true(c->begun < 64);
    c->held[c->begun++] = waldo_tool_call_ref(call);
    c->at_once++;
    c->most = c->at_once > c->most ? c->at_once : c->most;
    return WALDO_PENDING;
}

/* F43: eight at a time, the last that began ends first. */
static void many_calls_wait_their_turn(void **state)
{
    fixture *f = *state;
    crowd c = { .begun = 0 };
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "f43-64"), .capabilities = WALDO_NO_TOOLS,
                     .tools = WALDO_TOOLS(WALDO_TOOL(.name = "exec_command", .call = join,
                                                     .userdata = &c, .flags = WALDO_PARALLEL_SAFE,
                                                     .schema_json = "{\"type\":\"object\"}"))));
    waldo_run *run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    const char *at;
    int ended = 0;

    while (ended < 64) {
        while (c.begun < (ended + 8 < 64 ? ended + 8 : 64)) {
            assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
        }
        assert_int_equal(c.at_once, ended + 8 <= 64 ? 8 : 64 - ended);
        for (int i = c.begun - 1; i >= 0; i--) {
            if (c.held[i] != NULL) {
                c.at_once--;
                ended++;
                waldo_tool_call_reply(c.held[i], "%s;", waldo_tool_call_args(c.held[i]).ptr);
                waldo_tool_call_unref(c.held[i]);
                c.held[i] = NULL;
                break;
            }
        }
    }
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(c.begun, 64);
    assert_int_equal(c.most, 8);
    at = waldo_run_text(run);
    for (int i = 0; i < 64; i++) {
        char wanted[64];

        snprintf(wanted, sizeof wanted, "{\"cmd\":\"echo %d\"};", i);
        at = strstr(at, wanted);
        if (at == NULL) {
            fail_msg("call %d is not where it belongs in %s", i, waldo_run_text(run));
        }
    }
    waldo_agent_unref(agent);
}

#define CALL(id, args) "{\"id\":\"" id "\",\"name\":\"x\",\"arguments\":\"" args "\"}"

static void assert_keys_differ(const notes *n)
{
    for (int i = 0; i < n->calls; i++) {
        assert_true(n->keys[i][0] != '\0');
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(n->keys[i], n->keys[j]);
        }
    }
}

/* F32 too: a key of its own for each logical call, even where all else is the same. */
static void the_same_id_again_is_another_call(void **state)
{
    fixture *f = *state;
    notes n = { .calls = 0 };
    waldo_agent *agent = noting_agent(f, "x", &n, WALDO_APPROVE_FLAGGED);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "{}") "]},{\"calls\":[" CALL(
                           "c1", "{}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(n.text, "x {}\nx {}\n");
    assert_contains(waldo_run_text(run), "result 2");
    assert_keys_differ(&n);
    waldo_agent_unref(agent);
}

/* The second gets an id of its own, by which the host decides it and the server pairs it. */
static void an_id_twice_in_a_response_is_two_calls(void **state)
{
    fixture *f = *state;
    notes n = { .calls = 0 };
    waldo_agent *agent = noting_agent(f, "x", &n, WALDO_APPROVE_ALL);
    const waldo_event *event;
    char ids[2][128];
    int asked = 0;
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "{\\\"k\\\":1}") "," CALL(
                           "c1", "{\\\"k\\\":2}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        if (waldo_event_type(event) == WALDO_EVENT_APPROVAL) {
            assert_true(asked < 2);
            snprintf(ids[asked++], sizeof ids[0], "%s", waldo_event_call_id(event));
        }
    }
    assert_int_equal(asked, 2);
    assert_string_equal(ids[0], "c1");
    assert_string_not_equal(ids[1], "c1");
    assert_int_equal(
        waldo_run_decide(run, ids[1], &(waldo_decision){ .kind = WALDO_DECIDE_REJECT }), WALDO_OK);
    assert_int_equal(
        waldo_run_decide(run, ids[0], &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(n.text, "x {\"k\":1}\n");
    assert_contains(waldo_run_text(run), "result 1\n");
    assert_contains(waldo_run_text(run), "rejected this call");
    waldo_agent_unref(agent);
}

/* ---- after a failure ---- */

#define BROKEN                                                                                     \
    "{\"status\":500,\"headers\":{\"x-should-retry\":\"false\"},\"json\":{\"error\":{\"message\":" \
    "\"down\"}}}"

/* F26, F30: approved and run once, whatever the next request comes to. */
static void a_failed_request_repeats_no_call(void **state)
{
    fixture *f = *state;
    notes n = { .calls = 0 };
    waldo_agent *agent = noting_agent(f, "x", &n, WALDO_APPROVE_ALL);
    waldo_run *run;
    const char *kinds;
    char *body;
    size_t len;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "{}") "]}," BROKEN ",{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_PENDING);
    assert_int_equal(waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE }),
                     WALDO_OK);
    assert_true(waldo_run_wait(run, 60000) < 0);
    assert_int_equal(waldo_run_stop(run), WALDO_STOP_FAILED);
    assert_contains(fixture_items(run), "\"kind\":\"tool_result\",\"id\":\"c1\"");
    while (fixture_pull(run, &kinds) == WALDO_OK) {
    }
    assert_int_equal(waldo_run_send(run, "go on"), WALDO_OK);
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_lacks(kinds, "approval");
    assert_int_equal(n.calls, 1);
    body = standin_request_body(f->server, 2, &len);
    assert_non_null(body);
    assert_contains(body, "result 1");
    free(body);
    waldo_agent_unref(agent);
}

/* F31: a tool that tells of an error after its effect is not tried again. */
static void a_failed_tool_is_not_tried_again(void **state)
{
    fixture *f = *state;
    notes n = { .fail = 1 };
    waldo_agent *agent = noting_agent(f, "x", &n, WALDO_APPROVE_FLAGGED);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[" CALL("c1", "{}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_int_equal(n.calls, 1);
    assert_contains(waldo_run_text(run), "it broke");
    waldo_agent_unref(agent);
}

/* ---- a cancel ---- */

/* Processes "sleep NUMBER" on this machine. */
static int count_sleeps(const char *number)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[300], line[64] = { 0 };
        FILE *file;

        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (file != NULL) {
            size_t len = fread(line, 1, sizeof line - 1, file);

            count += len > 6 && strcmp(line, "sleep") == 0 && strcmp(line + 6, number) == 0;
            fclose(file);
        }
    }
    closedir(dir);
    return count;
}

static void *trigger(void *userdata)
{
    waldo_cancel_trigger(userdata);
    return NULL;
}

/* F22, F28: from another thread, into a real command; nothing of it stays, the history is good. */
static void a_cancel_ends_the_command(void **state)
{
    fixture *f = *state;
    char number[32], replies[512];
    waldo_cancel *cancel = waldo_cancel_new();
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"), .sandbox = "local:"));
    waldo_run *run;
    pthread_t thread;

    snprintf(number, sizeof number, "7%d", (int)getpid());
    snprintf(replies, sizeof replies,
             "[{\"calls\":[{\"id\":\"c1\",\"name\":\"exec_command\",\"arguments\":\"{"
             "\\\"cmd\\\":\\\"setsid sleep %s & sleep %s\\\"}\"}]},{\"text\":\"fine\"}]",
             number, number);
    fixture_replies(f, replies);
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go", .cancel = cancel));
    while (count_sleeps(number) < 2) {
        assert_int_not_equal(waldo_run_get_state(run), WALDO_RUN_IDLE);
        waldo_runtime_step(f->rt, 20);
    }
    assert_int_equal(pthread_create(&thread, NULL, trigger, cancel), 0);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    pthread_join(thread, NULL);
    for (int i = 0; i < 1000 && count_sleeps(number) > 0; i++) {
        waldo_runtime_step(f->rt, 20);
    }
    assert_int_equal(count_sleeps(number), 0);
    assert_contains(fixture_items(run), "\"kind\":\"tool_result\",\"id\":\"c1\"");
    waldo_run_free(run);
    waldo_cancel_unref(cancel);
    waldo_agent_unref(agent);
}

/* F23: what a cancelled tool does later is no surprise: the history says that it had begun. */
static void a_tool_that_goes_on_is_told_of(void **state)
{
    fixture *f = *state;
    crowd c = { .begun = 0 };
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "x"), .capabilities = WALDO_NO_TOOLS,
                     .tools = WALDO_TOOLS(WALDO_TOOL(.name = "x", .call = join, .userdata = &c))));
    waldo_run *run;

    fixture_replies(f,
                    "[{\"calls\":[" CALL("c1", "{}") "," CALL("c2", "{}") "]},"
                                                                          "{\"text\":\"fine\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    while (c.begun == 0) {
        assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
    }
    waldo_run_cancel(run);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_ECANCELED);
    assert_int_equal(c.begun, 1);
    assert_int_equal(waldo_tool_call_cancelled(c.held[0]), 1);
    assert_contains(fixture_items(run), "The call had begun and may have had effects.");
    assert_contains(fixture_items(run), "The call was not run.");
    assert_int_equal(waldo_tool_call_reply(c.held[0], "late"), WALDO_ECLOSED);
    waldo_tool_call_unref(c.held[0]);
    assert_int_equal(waldo_run_send(run, "and?"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "fine");
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(odd_calls_are_taken_as_they_were_meant),
        ROW(a_cut_call_is_not_put_to_the_host),
        ROW(odd_text_arrives_whole),
        ROW(many_calls_wait_their_turn),
        ROW(the_same_id_again_is_another_call),
        ROW(an_id_twice_in_a_response_is_two_calls),
        ROW(a_failed_request_repeats_no_call),
        ROW(a_failed_tool_is_not_tried_again),
        ROW(a_cancel_ends_the_command),
        ROW(a_tool_that_goes_on_is_told_of),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
