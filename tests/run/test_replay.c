/*
 * Recordings: a run that is read again from its file is the same run, without a server, a key or a
 * tool; no key is in the file; and what is not that run, or no recording, is refused by name.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "failing.h"
#include "fixture.h"

#define KEY       "sk-very/secret+key 123"
#define KEY_HEX   "736b2d766572792f7365637265742b6b657920313233"
#define KEY_URL   "sk-very%2Fsecret%2Bkey%20123"
#define KEY_BASE  "c2stdmVyeS9zZWNyZXQra2V5IDEyMw"
#define WAIT_MS   60000
#define MODEL_MAX 512

enum { MOST_ALLOCATIONS = 8000 };

static char folder[] = "/tmp/waldo-replay-XXXXXX";
static char file[64], model[MODEL_MAX], replay[80];

static waldo_status get_key(void *userdata, const char *name, waldo_str *ret_value,
                            int64_t *ret_expires_at)
{
    ++*(int *)userdata;
    (void)name;
    *ret_value = (waldo_str){ KEY, strlen(KEY) };
    *ret_expires_at = 0;
    return WALDO_OK;
}

/* The whole file; the caller frees it. */
static char *read_all(size_t *ret_len)
{
    FILE *from = fopen(file, "rb");
    char *text = calloc(1, 1 << 20);

    assert_non_null(from);
    *ret_len = fread(text, 1, (1 << 20) - 1, from);
    fclose(from);
    return text;
}

static void write_all(const char *text, size_t len)
{
    FILE *to = fopen(file, "wb");

    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, len, to), len);
    assert_int_equal(fclose(to), 0);
}

/* Every item as it is, vendor and all. */
static const char *all_items(const waldo_run *run, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < waldo_run_item_count(run); i++) {
        waldo_str item = waldo_run_item(run, i);

        assert_true(len + item.len + 2 < size);
        len += (size_t)snprintf(text + len, size - len, "%s\n", item.ptr);
    }
    return text;
}

typedef struct setting {
    const char *model;
    const char *prompt;
    const char *record;
    const char *sandbox;
    waldo_tool *tool;
    const waldo_keys *keys;
} setting;

/* One run in a runtime of its own, which the caller finishes. */
static waldo_run *run_of(const setting *s, waldo_runtime **ret_rt)
{
    waldo_model *object =
        waldo_model_new(&WALDO_MODEL(.model = s->model, .key_name = "TEST_KEY", .max_retries = 1));
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = object, .sandbox = s->sandbox,
                                     .instructions = "Do it.", .tools = WALDO_TOOLS(s->tool)));
    waldo_run *run;

    *ret_rt = waldo_runtime_new(&WALDO_RUNTIME(.keys = s->keys));
    run = waldo_run_new(*ret_rt, agent, &WALDO_RUN(.prompt = s->prompt, .record = s->record));
    waldo_model_unref(object);
    waldo_agent_unref(agent);
    assert_non_null(run);
    waldo_run_wait(run, WAIT_MS);
    return run;
}

static const char calls_then_text[] =
    "[{\"calls\":[{\"id\":\"c1\",\"name\":\"write_file\",\"arguments\":\"{\\\"path\\\":\\\"a\\\","
    "\\\"content\\\":\\\"one\\\"}\"},{\"id\":\"c2\",\"name\":\"echo\",\"arguments\":"
    "\"{\\\"text\\\":\\\"h\xc3\xa9\\\"}\"}]},{\"calls\":[{\"id\":\"c3\",\"name\":\"read_file\","
    "\"arguments\":\"{\\\"path\\\":\\\"a\\\"}\"}]},{\"text\":\"it is {result}\"}]";

static void records_and_replays(standin *server, const char *string)
{
    static char first[65536], again[65536];
    int asked = 0, calls = 0;
    const waldo_keys keys = { sizeof keys, &asked, get_key };
    setting s = {
        .model = string, .prompt = "do it", .record = file, .sandbox = "fake:", .keys = &keys
    };
    waldo_usage usage, usage_again;
    waldo_runtime *rt;
    waldo_run *run;
    size_t requests;

    s.tool = echo_tool(&calls, 0);
    run = run_of(&s, &rt);
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "it is one");
    all_items(run, first, sizeof first);
    waldo_run_usage(run, &usage);
    waldo_runtime_finish(rt);
    requests = standin_request_count(server);
    assert_int_equal(requests, 3);
    assert_int_equal(calls, 1);
    assert_true(asked > 0);
    asked = 0;
    s.model = replay;
    s.record = NULL;
    for (int i = 0; i < 2; i++) {
        s.tool = echo_tool(&calls, 0);
        run = run_of(&s, &rt);
        assert_string_equal(waldo_run_errmsg(run), "");
        assert_string_equal(all_items(run, again, sizeof again), first);
        waldo_run_usage(run, &usage_again);
        assert_memory_equal(&usage, &usage_again, sizeof usage);
        waldo_runtime_finish(rt);
    }
    assert_int_equal(standin_request_count(server), requests);
    assert_int_equal(calls, 1); /* tools do not run again */
    assert_int_equal(asked, 0);
}

static void chat_replays(void **state)
{
    fixture *f = *state;

    fixture_replies(f, calls_then_text);
    records_and_replays(f->server, fixture_model(f, "x"));
}

static void responses_replay(void **state)
{
    standin *server = standin_start("responses", NULL);
    char text[2048];

    (void)state;
    assert_non_null(server);
    snprintf(text, sizeof text, "{\"replies\": %s}", calls_then_text);
    assert_true(standin_control(server, text));
    snprintf(model, sizeof model, "openai:%s#x", standin_url(server));
    records_and_replays(server, model);
    standin_stop(server);
}

/* A recording of two requests in file. */
static void record_one(fixture *f, const char *replies)
{
    int calls = 0, asked = 0;
    const waldo_keys keys = { sizeof keys, &asked, get_key };
    waldo_runtime *rt;

    fixture_replies(f, replies);
    run_of(&(setting){ .model = fixture_model(f, "x"),
                       .prompt = "do it",
                       .record = file,
                       .tool = echo_tool(&calls, 0),
                       .keys = &keys },
           &rt);
    waldo_runtime_finish(rt);
}

#define ECHO_THEN_TEXT                                                                             \
    "[{\"calls\":[{\"id\":\"c1\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":\\\"x\\\"}\"}]}," \
    "{\"text\":\"it is {result}\"}]"

/* The server says the key in each of its forms, in answers and in a refusal. */
static void no_key_is_in_the_file(void **state)
{
    static const char *const forms[] = { KEY, KEY_HEX, KEY_URL, KEY_BASE };
    fixture *f = *state;
    struct stat info;
    size_t len;
    char *text;

    record_one(f, "[{\"status\":500,\"error\":\"your key is " KEY "\"},"
                  "{\"text\":\"" KEY " and " KEY_HEX " and " KEY_URL " and " KEY_BASE "==\"}]");
    text = read_all(&len);
    assert_contains(text, "[TEST_KEY]");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_lacks(text, forms[i]);
    }
    assert_lacks(text, "uthorization");
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    free(text);
}

static waldo_run *replay_with(const char *prompt, waldo_runtime **ret_rt)
{
    static int calls;

    return run_of(&(setting){ .model = replay, .prompt = prompt, .tool = echo_tool(&calls, 0) },
                  ret_rt);
}

static void a_difference_is_named(void **state)
{
    fixture *f = *state;
    waldo_runtime *rt;
    waldo_run *run;

    record_one(f, ECHO_THEN_TEXT);
    run = replay_with("do it!", &rt);
    assert_int_equal(waldo_run_status(run), WALDO_EPROTO);
    assert_string_equal(waldo_error_provider_code(waldo_run_error(run)), "replay_mismatch");
    assert_contains(waldo_run_errmsg(run), "replay: request 1 is not the one in ");
    assert_contains(waldo_run_errmsg(run), "of its body differs; recorded \"...");
    assert_contains(waldo_run_errmsg(run), "\"content\":\"do it\"}");
    assert_contains(waldo_run_errmsg(run), "\"content\":\"do it!\"}");
    waldo_runtime_finish(rt);
    run = replay_with("do it", &rt);
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    waldo_run_send(run, "and more");
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_EPROTO);
    assert_contains(waldo_run_errmsg(run), "holds 2 requests, and the run has one more");
    waldo_runtime_finish(rt);
}

static void failures_replay_too(void **state)
{
    fixture *f = *state;
    waldo_runtime *rt;
    waldo_run *run;

    record_one(f, "[{\"status\":500,\"error\":\"no\"},{\"text\":\"yes\"}]");
    run = replay_with("do it", &rt);
    assert_int_equal(waldo_run_status(run), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "yes");
    waldo_runtime_finish(rt);
    record_one(f,
               "[{\"status\":401,\"error\":\"bad key\"},{\"status\":401,\"error\":\"bad key\"}]");
    run = replay_with("do it", &rt);
    assert_int_equal(waldo_run_status(run), WALDO_EAUTH);
    waldo_runtime_finish(rt);
}

/* Ids that are made up here are random, and the same again in a replay. */
static void calls_without_ids_come_back(void **state)
{
    static char first[16384];
    fixture *f = *state;
    int calls = 0;
    setting s = { .model = fixture_model(f, "x"), .prompt = "go", .record = file };
    waldo_runtime *rt;

    fixture_replies(f,
                    "[{\"calls\":[{\"id\":\"c\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":"
                    "\\\"1\\\"}\"},{\"id\":\"c\",\"name\":\"echo\",\"arguments\":\"{\\\"text\\\":"
                    "\\\"2\\\"}\"}]},{\"text\":\"done\"}]");
    for (int i = 0; i < 2; i++) {
        static char again[16384];
        waldo_run *run;

        s.tool = echo_tool(&calls, 0);
        run = run_of(&s, &rt);
        assert_string_equal(waldo_run_errmsg(run), "");
        all_items(run, i == 0 ? first : again, sizeof first);
        if (i == 1) {
            assert_string_equal(first, again);
        }
        waldo_runtime_finish(rt);
        s.model = replay;
        s.record = NULL;
    }
    assert_contains(first, "\"id\":\"call_");
}

static waldo_status picture(void *userdata, waldo_tool_call *call)
{
    static const char gif[] = "GIF89a and more";

    ++*(int *)userdata;
    waldo_tool_call_add_image(call, (waldo_str){ gif, sizeof gif - 1 });
    return waldo_tool_call_reply(call, "here");
}

static void images_of_results_come_back(void **state)
{
    static char first[16384], again[16384];
    fixture *f = *state;
    int calls = 0;
    setting s = { .model = fixture_model(f, "x"), .prompt = "show", .record = file };
    waldo_runtime *rt;
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"picture\",\"arguments\":\"{}\"}]},"
                       "{\"text\":\"seen\"}]");
    for (int i = 0; i < 2; i++) {
        s.tool = WALDO_TOOL(.name = "picture", .call = picture, .userdata = &calls);
        run = run_of(&s, &rt);
        assert_string_equal(waldo_run_errmsg(run), "");
        all_items(run, i == 0 ? first : again, sizeof first);
        waldo_runtime_finish(rt);
        s.model = replay;
        s.record = NULL;
    }
    assert_contains(first, "\"media\":[{\"mime\":\"image/gif\"");
    assert_string_equal(first, again);
    assert_int_equal(calls, 1);
}

/* Cut anywhere, or a byte changed: an error by name, or, cut between requests, a shorter one. */
static void damage_is_refused(void **state)
{
    fixture *f = *state;
    size_t len, good = 0;
    char *text;

    record_one(f, ECHO_THEN_TEXT);
    text = read_all(&len);
    for (size_t cut = 0; cut < len; cut++) {
        waldo_model *object;

        write_all(text, cut);
        object = waldo_model_new(&WALDO_MODEL(.model = replay));
        if (waldo_model_error(object) != NULL) {
            assert_int_equal(waldo_error_status(waldo_model_error(object)), WALDO_EPROTO);
            assert_contains(waldo_error_message(waldo_model_error(object)), ", line ");
        } else {
            assert_true(cut > 0 && text[cut - 1] == '\n');
            good++;
        }
        waldo_model_unref(object);
    }
    assert_true(good == 3); /* behind the first request, its calls, and their result */
    for (size_t at = 0; at < len; at++) {
        char was = text[at];

        text[at] = (char)(was ^ (1 << at % 8));
        write_all(text, len);
        waldo_model_unref(waldo_model_new(&WALDO_MODEL(.model = replay)));
        text[at] = was;
    }
    free(text);
}

static const char begun[] =
    "{\"waldo_recording\":1}\n{\"t\":\"model\",\"model\":\"chat:http://h#m\"}\n"
    "{\"t\":\"request\",\"n\":1,\"body\":\"{}\"}\n";

static void nonsense_is_refused(void **state)
{
    static const struct {
        const char *text; /* NULL: behind what is above */
        const char *more;
        const char *why;
    } cases[] = {
        { "", "", "it holds no request" },
        { "hello\n", "", "line 1: " },
        { "{}\n", "", "line 1: this is no recording" },
        { "{\"waldo_recording\":2}\n", "", "another version" },
        { "{\"waldo_recording\":1}\n", "", "line 2: it holds no request" },
        { "{\"waldo_recording\":1}\n{\"t\":\"odd\"}\n", "", "line 2: its kind is not known" },
        { "{\"waldo_recording\":1}\n{\"t\":\"request\",\"n\":1}\n", "", "a request out of order" },
        { NULL, "{\"t\":\"request\",\"n\":2}\n", "another has not ended" },
        { NULL, "{\"t\":\"chunk\",\"text\":\"x\"}\n", "that has not begun" },
        { NULL, "{\"t\":\"head\",\"status\":0}\n", "without a status" },
        { NULL, "{\"t\":\"head\",\"status\":200}\n{\"t\":\"chunk\",\"base64\":\"*\"}\n", "base64" },
        { NULL, "{\"t\":\"head\",\"status\":200}\n{\"t\":\"chunk\"}\n", "without text" },
        { NULL, "{\"t\":\"end\",\"status\":\"WALDO_OK\"}\n", "succeeded without an answer" },
        { NULL, "{\"t\":\"end\",\"status\":\"WALDO_PENDING\"}\n", "without a status" },
        { NULL, "{\"t\":\"end\"}\n", "without a status" },
        { NULL, "{\"t\":\"result\",\"item\":-1}\n", "out of order" },
        { NULL,
          "{\"t\":\"end\",\"status\":\"WALDO_EIO\"}\n"
          "{\"t\":\"result\",\"item\":1,\"media\":[{\"base64\":\"eHg=\"}]}\n",
          "an image that is none" },
        { NULL, "", "the end of the last request is missing" },
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo_model *object;

        snprintf(text, sizeof text, "%s%s", cases[i].text != NULL ? cases[i].text : begun,
                 cases[i].more);
        write_all(text, strlen(text));
        object = waldo_model_new(&WALDO_MODEL(.model = replay));
        assert_contains(waldo_error_message(waldo_model_error(object)), cases[i].why);
        assert_int_equal(waldo_error_status(waldo_model_error(object)), WALDO_EPROTO);
        waldo_model_unref(object);
    }
}

static void files_that_are_none(void **state)
{
    fixture *f = *state;
    waldo_model *object = waldo_model_new(&WALDO_MODEL(.model = "replay:/nowhere/file"));
    waldo_runtime *rt;
    waldo_run *run;

    assert_int_equal(waldo_error_status(waldo_model_error(object)), WALDO_ENOTFOUND);
    assert_contains(waldo_error_message(waldo_model_error(object)), "recording /nowhere/file: ");
    waldo_model_unref(object);
    object = waldo_model_new(&WALDO_MODEL(.model = "replay:/tmp"));
    assert_contains(waldo_error_message(waldo_model_error(object)), "not a regular file");
    waldo_model_unref(object);
    run = run_of(
        &(setting){ .model = fixture_model(f, "text"), .prompt = "x", .record = "/nowhere/x" },
        &rt);
    assert_int_equal(waldo_run_status(run), WALDO_ENOTFOUND);
    assert_contains(waldo_run_errmsg(run), "recording /nowhere/x: ");
    waldo_runtime_finish(rt);
    run = run_of(
        &(setting){ .model = fixture_model(f, "text"), .prompt = "x", .record = "/dev/full" }, &rt);
    assert_contains(waldo_run_errmsg(run), "not a regular file");
    waldo_runtime_finish(rt);
    assert_int_equal(standin_request_count(f->server), 0);
}

/* ---- memory ---- */

static waldo_status replay_and_record(void)
{
    static char copy[80];
    static int calls;
    waldo_runtime *rt = waldo_runtime_new(NULL);
    waldo_model *object;
    waldo_agent *agent;
    waldo_run *run;
    waldo_status status = WALDO_ENOMEM;

    snprintf(copy, sizeof copy, "%s.copy", file);
    failing.on = 1;
    object = waldo_model_new(&WALDO_MODEL(.model = replay, .no_retries = 1));
    agent = object == NULL
                ? NULL
                : waldo_agent_new(&WALDO_AGENT(.model_object = object, .instructions = "Do it.",
                                               .tools = WALDO_TOOLS(echo_tool(&calls, 0))));
    run = agent != NULL ? waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "do it", .record = copy))
                        : NULL;
    if (run != NULL) {
        status = waldo_run_wait(run, WAIT_MS);
    }
    failing.on = 0;
    if (status == WALDO_OK) {
        assert_string_equal(waldo_run_text(run), "it is echo: x");
    }
    waldo_model_unref(object);
    waldo_agent_unref(agent);
    waldo_runtime_finish(rt);
    return status;
}

static void without_memory(void **state)
{
    size_t steps = 0;

    record_one(*state, ECHO_THEN_TEXT);
    failing_begin();
    assert_int_equal(replay_and_record(), WALDO_OK);
    while (failing_next(MOST_ALLOCATIONS)) {
        waldo_status status = replay_and_record();

        if (status != WALDO_OK && (status != WALDO_ENOMEM || failing.failed == 0)) {
            fail_msg("allocation %zu: %s", failing.fail_at, waldo_status_name(status));
        }
        steps += status != WALDO_OK;
    }
    assert_true(steps > 20);
}

static int clean_up(void **state)
{
    char command[80];

    snprintf(command, sizeof command, "%s.copy", file);
    unlink(command);
    unlink(file);
    rmdir(folder);
    return fixture_stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(chat_replays),
        ROW(responses_replay),
        ROW(no_key_is_in_the_file),
        ROW(a_difference_is_named),
        ROW(failures_replay_too),
        ROW(damage_is_refused),
        ROW(calls_without_ids_come_back),
        ROW(images_of_results_come_back),
        ROW(nonsense_is_refused),
        ROW(files_that_are_none),
        ROW(without_memory),
#undef ROW
    };

    failing_install();
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(file, sizeof file, "%s/recording", folder);
    snprintf(replay, sizeof replay, "replay:%s", file);
    return !!cmocka_run_group_tests(tests, fixture_start, clean_up);
}
