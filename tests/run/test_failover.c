/*
 * Runs whose machine is lost in mid-conversation: what the model hears, what is run, what is kept.
 * A function of the test is the model.
 */
#include "failing.h"
#include "fixture.h"
#include "held.h"
#include "keeper.h"

#include "sandbox/registry.h"

enum { WAIT_MS = 60000, TURNS_MAX = 12, MOST_ALLOCATIONS = 8000 };

#define S(literal) ((waldo_str){ (literal), sizeof(literal) - 1 })

/* Each turn is a command for the sandbox; NULL: the answer. */
typedef struct script {
    const char *turns[TURNS_MAX];
    int at;
    char *seen; /* the newest request */
} script;

static waldo_status generate(void *userdata, waldo_generation *generation)
{
    script *s = userdata;
    const char *cmd = s->turns[s->at++];
    waldo_str request = waldo_generation_request(generation);
    char args[512];

    free(s->seen);
    s->seen = strndup(request.ptr, request.len);
    if (cmd != NULL) {
        snprintf(args, sizeof args, "{\"cmd\":\"%s\"}", cmd);
        waldo_generation_call(generation, NULL, "exec_command", (waldo_str){ args, strlen(args) });
    } else {
        waldo_generation_text(generation, S("done"));
    }
    waldo_generation_finish(generation, 0);
    return WALDO_OK;
}

/* ---- held: the backend in memory, whose machines open when the test says so ---- */

static waldo_status held_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                              waldo_str saved, const waldo_backend_call *call,
                              waldo_backend_done_fn done, waldo_machine **ret_machine,
                              waldo_error **ret_err)
{
    return waldo__backend_find(S("fake"))->open(env, spec, saved, call, held_back(env, done),
                                                ret_machine, ret_err);
}

static int add_backend(void **state)
{
    static waldo_backend_ops held;

    (void)state;
    held = *waldo__backend_find(S("fake"));
    held.name = "held";
    held.open = held_open;
    return waldo_backend_register(&held, NULL) != WALDO_OK;
}

/* ---- what the cases share ---- */

static waldo_sandbox_spec *spec_of(const char *const *backends)
{
    return waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = backends));
}

static waldo_agent *agent_of(script *s, waldo_sandbox_spec *spec)
{
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.generate = generate, .userdata = s, .no_retries = 1));
    waldo_agent *agent =
        model == NULL ? NULL : waldo_agent_new(&WALDO_AGENT(.model_object = model, .spec = spec));

    waldo_model_unref(model);
    return agent;
}

/* Kinds of the items, each by its first letter: "u" for the user, "t" for both of a tool's. */
static const char *kinds(const waldo_run *run)
{
    static char text[256];
    size_t count = waldo_run_item_count(run);

    for (size_t i = 0; i < count; i++) {
        waldo_str item = waldo_run_item(run, i);
        const char *kind = strstr(item.ptr, "\"kind\":\"");

        assert_non_null(kind);
        text[i] = kind[strlen("\"kind\":\"")];
    }
    text[count] = '\0';
    return text;
}

typedef struct outcome {
    int count;
    waldo_status status;
} outcome;

static void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    outcome *out = userdata;

    (void)error;
    out->count++;
    out->status = status;
}

/* ---- cases ---- */

static void the_model_is_told_once_and_the_run_goes_on(void **state)
{
    static keeper kept;
    waldo_store *store = keeper_store(&kept);
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.store = store));
    script s = { .turns = { "echo once >> log", "echo later >> log; lose", "cat log", NULL } };
    waldo_sandbox_spec *spec = spec_of(WALDO_STRINGS("fake:", "fake:,open_ms=30"));
    waldo_agent *agent = agent_of(&s, spec);
    waldo_run *run;
    const char *lost, *notice;
    char word[8];

    (void)state;
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_null(waldo_run_error(run));
    /* The request after the loss waited for the new machine: the notice is behind the result. */
    assert_string_equal(kinds(run), "uttttntta");
    lost = strstr(s.seen, "outcome unknown");
    assert_non_null(lost);
    notice = strstr(lost, "Another one (fake) has taken its place");
    assert_non_null(notice);
    assert_null(strstr(notice + 1, "Another one (fake)"));
    notice = strstr(notice, "/workspace is as it was ");
    assert_non_null(notice);
    assert_int_equal(sscanf(notice, "/workspace is as it was %*u seconds before the %7s", word), 1);
    assert_string_equal(word, "loss;");
    assert_non_null(strstr(notice, "once\\n"));
    assert_null(strstr(s.seen, "later\\n"));
    assert_int_equal(s.at, 4);
    assert_contains(kept.text, "{\"t\":\"sandbox\",\"generation\":1,\"what\":\"opened\"");
    assert_contains(kept.text, "{\"t\":\"snapshot\",\"generation\":1,\"bytes\":");
    assert_contains(kept.text, "\"generation\":1,\"what\":\"lost\"");
    assert_contains(kept.text, "\"generation\":2,\"what\":\"moved\"");
    assert_lacks(kept.text, "unsaved");
    free(s.seen);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    waldo_store_unref(store);
}

static void what_nobody_could_replace_is_lost_by_name(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    script s = { .turns = { "lose", "lose", "lose", "true", NULL } };
    waldo_sandbox_spec *spec = spec_of(WALDO_STRINGS("fake:", "fake:,fail=open", "fake:", "fake:"));
    waldo_agent *agent = agent_of(&s, spec);
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));

    (void)state;
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_string_equal(kinds(run), "uttnttntttta");
    assert_contains(s.seen, "the sandbox was lost");
    free(s.seen);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

static void all_who_share_a_machine_are_told(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    script one = { .turns = { "echo x > f", NULL, "lose", NULL } },
           two = { .turns = { NULL, NULL } };
    script late = { .turns = { NULL } };
    waldo_sandbox_spec *spec = spec_of(WALDO_STRINGS("fake:", "fake:"));
    waldo_sandbox *sandbox = waldo_sandbox_new(rt, spec);
    waldo_agent *agents[] = { agent_of(&one, spec), agent_of(&two, spec), agent_of(&late, spec) };
    waldo_run *runs[3];

    (void)state;
    for (int i = 0; i < 2; i++) {
        runs[i] = waldo_run_new(rt, agents[i], &WALDO_RUN(.prompt = "go", .share = sandbox));
        assert_int_equal(waldo_run_wait(runs[i], WAIT_MS), WALDO_OK);
    }
    assert_int_equal(waldo_run_send(runs[0], "on"), WALDO_OK);
    assert_int_equal(waldo_run_wait(runs[0], WAIT_MS), WALDO_OK);
    assert_string_equal(kinds(runs[0]), "uttauttna");
    assert_string_equal(kinds(runs[1]), "ua"); /* at rest it is not asked for that */
    assert_int_equal(waldo_run_send(runs[1], "on"), WALDO_OK);
    assert_int_equal(waldo_run_wait(runs[1], WAIT_MS), WALDO_OK);
    assert_string_equal(kinds(runs[1]), "uanua");
    assert_contains(two.seen, "Another one (fake) has taken its place");
    runs[2] = waldo_run_new(rt, agents[2], &WALDO_RUN(.prompt = "go", .share = sandbox));
    assert_int_equal(waldo_run_wait(runs[2], WAIT_MS), WALDO_OK);
    assert_string_equal(kinds(runs[2]), "ua"); /* it knows no other machine */
    free(one.seen);
    free(two.seen);
    free(late.seen);
    for (int i = 0; i < 3; i++) {
        waldo_agent_unref(agents[i]);
    }
    waldo_sandbox_unref(sandbox);
    waldo_sandbox_spec_unref(spec);
    waldo_runtime_finish(rt);
}

/* Drive until a lost machine is being replaced, which takes for ever. */
static waldo_run *waiting_run(waldo_runtime *rt, waldo_agent *agent)
{
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));

    while (waldo_sandbox_generation(waldo_run_sandbox(run)) < 2 ||
           waldo_run_get_state(run) != WALDO_RUN_MODEL || waldo_run_item_count(run) < 3) {
        assert_int_equal(waldo_runtime_step(rt, WAIT_MS), WALDO_OK);
    }
    return run;
}

static void cancelled_and_asked_again_while_it_waits(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    script s = { .turns = { "lose", NULL } };
    waldo_sandbox_spec *spec = spec_of(WALDO_STRINGS("fake:", "held:"));
    waldo_agent *agent = agent_of(&s, spec);
    waldo_run *run = waiting_run(rt, agent);

    (void)state;
    for (int i = 0; i < 3; i++) {
        waldo_run_cancel(run);
        assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_ECANCELED);
        assert_int_equal(waldo_run_stop(run), WALDO_STOP_CANCELLED);
        assert_int_equal(s.at, 1);
        assert_int_equal(waldo_run_send(run, "on"), WALDO_OK);
        waldo_runtime_step(rt, 0);
    }
    held_wait(rt, WAIT_MS);
    held_release();
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_int_equal(s.at, 2);
    assert_contains(s.seen, "has taken its place");
    assert_string_equal(kinds(run) + 3, "nuuua");
    free(s.seen);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

/* However it ends, whoever waits hears of it. */
static void ended_while_it_waits(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        waldo_runtime *rt = waldo_runtime_new(NULL);
        script s = { .turns = { "lose", NULL } };
        waldo_sandbox_spec *spec = spec_of(WALDO_STRINGS("fake:", "fake:,open_ms=60000"));
        waldo_agent *agent = agent_of(&s, spec);
        waldo_run *run = waiting_run(rt, agent);
        outcome out = { 0 };

        if (how == 0) {
            waldo_run_free(run);
        } else if (how == 1) {
            waldo_sandbox_close(waldo_run_sandbox(run), took_done, &out);
            assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
            assert_string_equal(kinds(run), "utta"); /* nothing has taken its place */
            assert_int_equal(out.count, 1);
        }
        free(s.seen);
        waldo_sandbox_spec_unref(spec);
        waldo_agent_unref(agent);
        if (how == 2) {
            waldo_runtime_free(rt);
        } else {
            waldo_runtime_finish(rt);
        }
    }
}

static void snapshots_that_cannot_be_are_a_warning(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    script s = { .turns = { "echo more than eight bytes > f", "true", "sleep 0.05", NULL } };
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:", "fake:"), .workspace_max_bytes = 8));
    waldo_agent *agent = agent_of(&s, spec);
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));
    const char *seen, *first;

    (void)state;
    assert_int_equal(fixture_pull(run, &seen), WALDO_END);
    first = strstr(seen, "warning");
    assert_non_null(first);
    assert_null(strstr(first + 1, "warning"));
    free(s.seen);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

/* The network is not what the model was told of the first backend. */
static void another_network_is_told(void **state)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    script s = { .turns = { "true", NULL } }, late = { .turns = { NULL } };
    waldo_sandbox_spec *spec =
        spec_of(WALDO_STRINGS("docker:x,net=all,host=unix:///no/engine", "fake:"));
    waldo_agent *agent = agent_of(&s, spec), *late_agent = agent_of(&late, spec);
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go")), *late_run;

    (void)state;
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_string_equal(kinds(run), "uttna");
    assert_contains(s.seen, "There is no network");
    late_run =
        waldo_run_new(rt, late_agent, &WALDO_RUN(.prompt = "go", .share = waldo_run_sandbox(run)));
    assert_int_equal(waldo_run_wait(late_run, WAIT_MS), WALDO_OK);
    assert_string_equal(kinds(late_run), "nua"); /* its instructions say the same of it */
    assert_contains(late.seen, "There is no network");
    free(s.seen);
    free(late.seen);
    waldo_agent_unref(late_agent);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

/* ---- without memory ---- */

static waldo_status whole_run(void)
{
    waldo_runtime *rt = waldo_runtime_new(NULL);
    script s = { .turns = { "echo kept > f", "lose", "cat f", NULL, NULL } };
    waldo_sandbox_spec *spec = spec_of(WALDO_STRINGS("fake:", "fake:"));
    waldo_agent *agent = agent_of(&s, spec);
    waldo_run *run = waldo_run_new(rt, agent, NULL);
    waldo_status status;

    failing.on = 1;
    status = waldo_run_send(run, "go");
    status = status == WALDO_OK ? waldo_run_wait(run, WAIT_MS) : status;
    failing.on = 0;
    if (status == WALDO_OK && waldo_sandbox_generation(waldo_run_sandbox(run)) == 2) {
        if (strstr(s.seen, "has taken its place") == NULL &&
            strstr(s.seen, "no other machine could take its place") == NULL) {
            fail_msg("allocation %zu: not told in %s", failing.fail_at, strstr(s.seen, "\"items"));
        }
    }
    if (status != WALDO_OK) { /* the conversation is whole, and goes on */
        s.at = 3;
        assert_int_equal(waldo_run_send(run, "on"), WALDO_OK);
        assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    }
    free(s.seen);
    waldo_sandbox_spec_unref(spec);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status;
}

static void walks_a_run_whose_machine_is_lost(void **state)
{
    size_t steps = 0;

    (void)state;
    failing_begin();
    assert_int_equal(whole_run(), WALDO_OK);
    while (failing_next(MOST_ALLOCATIONS) && !failing.and_later) {
        waldo_status status = whole_run();

        if (status != WALDO_OK && failing.failed == 0) {
            fail_msg("allocation %zu: %s", failing.fail_at, waldo_status_name(status));
        }
        steps += status != WALDO_OK;
    }
    failing_begin();
    assert_true(steps > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_told_once_and_the_run_goes_on),
        cmocka_unit_test(what_nobody_could_replace_is_lost_by_name),
        cmocka_unit_test(all_who_share_a_machine_are_told),
        cmocka_unit_test(cancelled_and_asked_again_while_it_waits),
        cmocka_unit_test(ended_while_it_waits),
        cmocka_unit_test(snapshots_that_cannot_be_are_a_warning),
        cmocka_unit_test(another_network_is_told),
        cmocka_unit_test(walks_a_run_whose_machine_is_lost),
    };

    failing_install();
    return !!cmocka_run_group_tests(tests, add_backend, NULL);
}
