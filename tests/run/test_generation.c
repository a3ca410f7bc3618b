/*
 * Models that are a function of the host: they answer at once or later, from any thread, fail, are
 * cancelled and outlived; each request ends once and nobody touches what is gone.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fixture.h"

enum { WAIT_MS = 60000, ROUNDS = 300, MOST_STEPS = 4 };

#define S(literal) ((waldo_str){ (literal), sizeof(literal) - 1 })

static waldo_str str_of(const char *text)
{
    return (waldo_str){ text, strlen(text) };
}

/* ---- a model that does what a step says ---- */

typedef struct step {
    const char *text;
    const char *reasoning;
    const char *call; /* of the tool echo */
    waldo_status fails;
    waldo_finish finish;
    int ends_with; /* 1: returns OK without an end, 2: returns the failure, 3: gives up */
} step;

typedef struct script {
    step steps[MOST_STEPS];
    int at;
    int destroyed;
    int cancelled;
    waldo_generation *held; /* of a step that says nothing */
    char request[8192];
} script;

static void on_cancel(void *userdata)
{
    ((script *)userdata)->cancelled++;
}

static void destroy(void *userdata)
{
    ((script *)userdata)->destroyed++;
}

static waldo_status generate(void *userdata, waldo_generation *generation)
{
    script *s = userdata;
    const step *now = &s->steps[s->at++];
    waldo_str request = waldo_generation_request(generation);
    const waldo_usage usage = { 3, 2, 1, -1, -1, 0, 0, 1 };

    snprintf(s->request, sizeof s->request, "%s", request.ptr);
    if (now->reasoning != NULL) {
        waldo_generation_reasoning(generation, str_of(now->reasoning));
    }
    if (now->text != NULL) {
        waldo_generation_text(generation, (waldo_str){ now->text, 1 });
        waldo_generation_text(generation, (waldo_str){ now->text + 1, strlen(now->text) - 1 });
    }
    if (now->call != NULL) {
        waldo_generation_call(generation, NULL, "echo", str_of(now->call));
    }
    if (now->ends_with == 1) {
        return WALDO_OK;
    }
    if (now->ends_with == 2) {
        return now->fails;
    }
    if (now->ends_with == 3) {
        return WALDO_PENDING;
    }
    if (now->fails != WALDO_OK) {
        return waldo_generation_fail(generation, now->fails, "step %d says so", s->at);
    }
    if (now->text == NULL && now->call == NULL && now->finish == 0) {
        waldo_generation_on_cancel(generation, on_cancel, s);
        s->held = waldo_generation_ref(generation);
        return WALDO_PENDING;
    }
    waldo_generation_usage(generation, &usage);
    return waldo_generation_finish(generation, now->finish);
}

static waldo_agent *agent_of(script *s, int *calls)
{
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.model = "callback:mine", .generate = generate, .userdata = s,
                                     .destroy = destroy, .max_output_tokens = 99, .no_retries = 1));
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = model, .instructions = "Be \"brief\".",
                                     .tools = WALDO_TOOLS(echo_tool(calls, 0))));

    waldo_model_unref(model);
    return agent;
}

/* One run of a script to its rest; the caller finishes the runtime. */
static waldo_run *run_script(script *s, waldo_runtime **ret_rt, const waldo_run_options *options)
{
    static int calls;
    waldo_agent *agent = agent_of(s, &calls);
    waldo_run *run;

    *ret_rt = waldo_runtime_new(NULL);
    run = waldo_run_new(*ret_rt, agent, options);
    assert_non_null(run);
    waldo_run_wait(run, WAIT_MS);
    waldo_agent_unref(agent);
    return run;
}

static void answers_and_calls(void **state)
{
    script s = { .steps = { { .reasoning = "hm", .text = "I say it. ", .call = "{\"text\":\"x\"}" },
                            { .text = "done" } } };
    waldo_usage usage;
    waldo_runtime *rt;
    waldo_run *run = run_script(&s, &rt, &WALDO_RUN(.prompt = "go"));
    const char *items;

    (void)state;
    assert_string_equal(waldo_run_errmsg(run), "");
    assert_string_equal(waldo_run_text(run), "done");
    items = fixture_items(run);
    assert_contains(items, "{\"kind\":\"reasoning\",\"text\":\"hm\"}\n"
                           "{\"kind\":\"assistant\",\"text\":\"I say it. \"}\n"
                           "{\"kind\":\"tool_call\",\"id\":\"call_");
    assert_contains(items, "\"text\":\"echo: x\"}\n{\"kind\":\"assistant\",\"text\":\"done\"}\n");
    waldo_run_usage(run, &usage);
    assert_int_equal(usage.input_tokens, 6);
    assert_int_equal(usage.output_tokens, 4);
    assert_int_equal(usage.cached_tokens, 2);
    assert_int_equal(usage.cache_write_tokens, 2);
    assert_contains(s.request,
                    "{\"model\":\"mine\",\"max_output_tokens\":99,\"parallel_calls\":true,"
                    "\"instructions\":\"Be \\\"brief\\\".\",\"tools\":[{\"name\":\"echo\","
                    "\"about\":\"Say it again.\",\"schema\":{");
    assert_contains(s.request, "\"items\":[\n{\"kind\":\"user\",\"text\":\"go\"},\n"
                               "{\"kind\":\"reasoning\",\"text\":\"hm\"},\n");
    assert_contains(s.request, "],\"tool_choice\":\"auto\"}");
    waldo_runtime_finish(rt);
    assert_int_equal(s.destroyed, 1);
}

static void ends_as_told(void **state)
{
    static const struct {
        step is;
        waldo_status status;
        waldo_stop stop;
        const char *message;
    } cases[] = {
        { { .fails = WALDO_EQUOTA }, WALDO_EQUOTA, WALDO_STOP_FAILED, "step 1 says so" },
        { { .text = "some", .fails = WALDO_EPROTO }, WALDO_EPROTO, WALDO_STOP_FAILED, "step 1 " },
        { { .ends_with = 1 }, WALDO_EPROVIDER, WALDO_STOP_FAILED, "ended without an answer" },
        { { .ends_with = 2, .fails = WALDO_EIO }, WALDO_EIO, WALDO_STOP_FAILED, "model failed: " },
        { { .ends_with = 3 }, WALDO_EPROVIDER, WALDO_STOP_FAILED, "given up" },
        { { .finish = WALDO_FINISH_ANSWER }, WALDO_EPROVIDER, WALDO_STOP_FAILED, "without text" },
        { { .text = "cu", .finish = WALDO_FINISH_LENGTH }, WALDO_ELIMIT, WALDO_STOP_LIMIT, "cut" },
        { { .text = "no", .finish = WALDO_FINISH_REFUSAL },
          WALDO_EREFUSED,
          WALDO_STOP_REFUSED,
          "" },
        { { .text = "no", .finish = WALDO_FINISH_FILTER }, WALDO_EFILTER, WALDO_STOP_FAILED, "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        script s = { .steps = { cases[i].is } };
        waldo_runtime *rt;
        waldo_run *run = run_script(&s, &rt, &WALDO_RUN(.prompt = "go"));

        assert_int_equal(waldo_run_status(run), cases[i].status);
        assert_int_equal(waldo_run_stop(run), cases[i].stop);
        assert_contains(waldo_run_errmsg(run), cases[i].message);
        waldo_runtime_finish(rt);
    }
}

static void is_tried_again(void **state)
{
    script s = { .steps = { { .text = "half", .fails = WALDO_EPROVIDER }, { .text = "whole" } } };
    waldo_model *model =
        waldo_model_new(&WALDO_MODEL(.generate = generate, .userdata = &s, .max_retries = 1));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));

    (void)state;
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "whole");
    assert_int_equal(s.at, 2);
    waldo_model_unref(model);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
}

static void a_cancel_reaches_it(void **state)
{
    script s = { .steps = { { .text = NULL }, { .text = "again" } } };
    waldo_runtime *rt = waldo_runtime_new(NULL);
    int calls = 0;
    waldo_agent *agent = agent_of(&s, &calls);
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));

    (void)state;
    while (s.held == NULL) {
        assert_int_equal(waldo_runtime_step(rt, WAIT_MS), WALDO_OK);
    }
    assert_int_equal(waldo_generation_text(s.held, S("a piece")), WALDO_OK);
    assert_false(waldo_generation_cancelled(s.held));
    waldo_run_cancel(run);
    assert_int_equal(s.cancelled, 1);
    assert_true(waldo_generation_cancelled(s.held));
    assert_int_equal(waldo_generation_finish(s.held, 0), WALDO_ECLOSED);
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_ECANCELED);
    assert_int_equal(waldo_run_send(run, "again"), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "again");
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    assert_int_equal(waldo_generation_text(s.held, S("late")), WALDO_ECLOSED);
    assert_contains(waldo_generation_request(s.held).ptr, "\"items\"");
    waldo_generation_unref(s.held);
    assert_int_equal(s.cancelled, 1);
}

static void wrong_models_are_refused(void **state)
{
    static const struct {
        const char *model;
        waldo_generate_fn generate;
        const char *message;
    } cases[] = {
        { "callback:mine", NULL, "is a function of the host: set .generate" },
        { "callback:", generate, "the model's name is missing" },
        { "chat:http://h/v1#m", generate, "has a .generate: write it as callback:NAME" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        script s = { .at = 0 };
        waldo_model *model =
            waldo_model_new(&WALDO_MODEL(.model = cases[i].model, .generate = cases[i].generate,
                                         .userdata = &s, .destroy = destroy));

        assert_contains(waldo_error_message(waldo_model_error(model)), cases[i].message);
        waldo_model_unref(model);
        assert_int_equal(s.destroyed, 1);
    }
}

static void is_recorded_and_replayed(void **state)
{
    script s = { .steps = { { .text = "so ", .call = "{\"text\":\"x\"}" }, { .text = "done" } } };
    char folder[] = "/tmp/waldo-generation-XXXXXX", file[64], string[80];
    waldo_agent *agent;
    waldo_runtime *rt;
    waldo_run *run;
    int calls = 0;
    char *items;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/r", folder);
    snprintf(string, sizeof string, "replay:%s", file);
    run = run_script(&s, &rt, &WALDO_RUN(.prompt = "go", .record = file));
    items = strdup(fixture_items(run));
    waldo_runtime_finish(rt);
    agent = waldo_agent_new(&WALDO_AGENT(.model = string, .instructions = "Be \"brief\".",
                                         .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    rt = waldo_runtime_new(NULL);
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));
    waldo_run_wait(run, WAIT_MS);
    assert_string_equal(waldo_run_errmsg(run), "");
    assert_string_equal(fixture_items(run), items);
    assert_int_equal(s.at, 2);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    free(items);
    unlink(file);
    rmdir(folder);
}

/* ---- other threads ---- */

static struct {
    pthread_mutex_t lock;
    waldo_generation *waiting;
    int over;
    atomic_int finished;
    atomic_int twice;
} work = { .lock = PTHREAD_MUTEX_INITIALIZER };

static waldo_status hand_over(void *userdata, waldo_generation *generation)
{
    (void)userdata;
    pthread_mutex_lock(&work.lock);
    assert_null(work.waiting);
    work.waiting = waldo_generation_ref(generation);
    pthread_mutex_unlock(&work.lock);
    return WALDO_PENDING;
}

static void answer_somehow(waldo_generation *generation, unsigned number)
{
    waldo_status status = WALDO_OK;

    for (unsigned i = 0; i < number % 7; i++) {
        status = waldo_generation_text(generation, S("piece "));
    }
    (void)waldo_generation_cancelled(generation);
    (void)status;
    if (number % 5 != 4) { /* else the last reference ends it */
        waldo_generation_text(generation, S("end"));
        if (waldo_generation_finish(generation, 0) == WALDO_OK) {
            atomic_fetch_add(&work.finished, 1);
            atomic_fetch_add(&work.twice, waldo_generation_finish(generation, 0) == WALDO_OK);
        }
    }
    waldo_generation_unref(generation);
}

static void *worker(void *argument)
{
    unsigned number = (unsigned)(size_t)argument;
    int over = 0;

    while (!over) {
        waldo_generation *generation;

        pthread_mutex_lock(&work.lock);
        generation = work.waiting;
        work.waiting = NULL;
        over = work.over && generation == NULL;
        pthread_mutex_unlock(&work.lock);
        if (generation != NULL) {
            answer_somehow(generation, number++);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void one_round(waldo_runtime *rt, waldo_agent *agent, int round)
{
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go"));

    if (round % 3 == 0) { /* goes away at some point */
        for (int i = 0; i < round % 11; i++) {
            waldo_runtime_step(rt, 1);
        }
        if (round % 2 == 0) {
            waldo_run_cancel(run);
        }
    } else if (round % 3 == 1) {
        waldo_status status = fixture_pull(run, NULL);

        assert_int_equal(status, WALDO_END);
    } else {
        waldo_run_wait(run, WAIT_MS);
    }
    if (round % 3 != 0 && waldo_run_status(run) == WALDO_OK) {
        assert_true(strlen(waldo_run_text(run)) % 6 == 3);
    }
    waldo_run_free(run);
    pthread_mutex_lock(&work.lock);
    waldo_generation_unref(work.waiting);
    work.waiting = NULL;
    pthread_mutex_unlock(&work.lock);
}

static void other_threads_answer(void **state)
{
    waldo_model *model = waldo_model_new(&WALDO_MODEL(.generate = hand_over, .no_retries = 1));
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    pthread_t threads[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(i * 3)), 0);
    }
    for (int part = 0; part < 3; part++) {
        waldo_runtime *rt = waldo_runtime_new(NULL);

        for (int round = 0; round < ROUNDS / 3; round++) {
            one_round(rt, agent, round);
        }
        waldo_runtime_free(rt);
    }
    pthread_mutex_lock(&work.lock);
    work.over = 1;
    pthread_mutex_unlock(&work.lock);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(work.twice, 0);
    assert_true(work.finished > 0);
    waldo_model_unref(model);
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_calls),        cmocka_unit_test(ends_as_told),
        cmocka_unit_test(is_tried_again),           cmocka_unit_test(a_cancel_reaches_it),
        cmocka_unit_test(wrong_models_are_refused), cmocka_unit_test(is_recorded_and_replayed),
        cmocka_unit_test(other_threads_answer),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
