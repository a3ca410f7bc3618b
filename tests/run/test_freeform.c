/* Tools that take plain text: a run, its journal and its recording know no difference. */
#include <unistd.h>

#include "fixture.h"
#include "keeper.h"

#define PATCH                                                                                      \
    "*** Begin Patch\\n*** Add File: a b.txt\\n+\\\"one\\\" \\\\ \xC3\xA9\\n+\\n*** End Patch"
#define CUSTOM "{\"id\":\"call_1\",\"name\":\"apply_patch\",\"input\":\"" PATCH "\"}"
#define CALLED                                                                                     \
    "{\"id\":\"ctc_00\",\"type\":\"custom_tool_call\",\"status\":\"completed\",\"call_id\":"       \
    "\"call_1\",\"name\":\"apply_patch\",\"input\":\"" PATCH "\"}"
#define OUTPUT                                                                                     \
    "{\"type\":\"custom_tool_call_output\",\"call_id\":\"call_1\",\"output\":"                     \
    "\"Created a b.txt (2 lines)\"}"

enum { WAIT_MS = 60000 };

static char folder[] = "/tmp/waldo-freeform-XXXXXX";
static char file[64], replay[80];

static int start(void **state)
{
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(file, sizeof file, "%s/recording", folder);
    snprintf(replay, sizeof replay, "replay:%s", file);
    return fixture_start_of(state, "responses");
}

static int stop(void **state)
{
    unlink(file);
    rmdir(folder);
    return fixture_stop(state);
}

/* A model whose API has such tools, or one that is said to have none. */
static waldo_model *model_of(fixture *f, const char *quirks)
{
    char text[320];

    snprintf(text, sizeof text, "openai:%s#agent", f->url);
    return waldo_model_new(&WALDO_MODEL(.model = text, .quirks = quirks, .no_retries = 1));
}

static char *body(fixture *f, size_t index)
{
    size_t len;
    char *text = standin_request_body(f->server, index, &len);

    assert_non_null(text);
    return text;
}

static waldo_run *patch_with(waldo_runtime *rt, waldo_model *model, const char *record)
{
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = model,
                     .sandbox = "fake:", .capabilities = WALDO_APPLY_PATCH | WALDO_FILES));
    waldo_run *run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "do it", .record = record));

    waldo_agent_unref(agent);
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    return run;
}

/* The patch reaches the tool, the answer its call, and the call the provider as it came. */
static void apply_patch_in_plain_text(void **state)
{
    fixture *f = *state;
    static keeper kept;
    waldo_store *store = keeper_store(&kept);
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.store = store));
    waldo_model *model = model_of(f, "freeform=on");
    waldo_run *run;
    char *first, *second;

    fixture_replies(f, "[{\"custom\":[" CUSTOM "]},{\"calls\":[{\"id\":\"call_2\",\"name\":"
                       "\"read_file\",\"arguments\":\"{\\\"path\\\":\\\"a b.txt\\\"}\"}]},"
                       "{\"text\":\"{result}\"}]");
    run = patch_with(rt, model, file);
    assert_string_equal(waldo_run_errmsg(run), "");
    assert_contains(waldo_run_text(run), "\"one\" \\ \xC3\xA9\n");
    first = body(f, 0);
    assert_contains(first, "{\"type\":\"custom\",\"name\":\"apply_patch\",\"description\":\"Add,");
    assert_contains(first, "\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":"
                           "\"start: \\\"*** Begin Patch\\\\n\\\" section+");
    second = body(f, 2);
    assert_contains(second, CALLED "," OUTPUT ",");
    assert_memory_equal(first, second, strlen(first) - strlen("]}"));
    free(first);
    free(second);
    assert_contains(fixture_items(run),
                    "\"name\":\"apply_patch\",\"args\":\"{\\\"patch\\\":\\\"*** "
                    "Begin Patch\\\\n*** Add File: a b.txt\\\\n+");
    assert_true(keeper_holds(&kept, "\\\"patch\\\":\\\"*** Begin Patch") > 0);
    waldo_model_unref(model);
    waldo_runtime_finish(rt);
    waldo_store_unref(store);
}

/* Adding over a file replaces it, unless the host says that it must not. */
static void adding_over_a_file(void **state)
{
#define ADD "*** Add File: f\\n+"
#define PATCHES(id, sections)                                                                      \
    "{\"calls\":[{\"id\":\"" id "\",\"name\":\"apply_patch\",\"arguments\":{\"patch\":"            \
    "\"*** Begin Patch\\n" sections "\\n*** End Patch\"}}]}"
    static const uint32_t flags[] = { 0, WALDO_ADD_MUST_NOT_EXIST };
    fixture *f = *state;

    for (size_t i = 0; i < 2; i++) {
        waldo_model *model = model_of(f, NULL);
        waldo_agent *agent = waldo_agent_new(
            &WALDO_AGENT(.model_object = model, .sandbox = "fake:",
                         .capabilities = WALDO_APPLY_PATCH | WALDO_FILES | flags[i]));
        waldo_run *run;

        fixture_replies(f, "[" PATCHES("c1", ADD "a") "," PATCHES("c2", ADD "b") "," PATCHES(
                               "c3", "*** Delete File: f\\n" ADD "c") ",{\"text\":\"{result}\"}]");
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "do it"));
        assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
        assert_contains(fixture_items(run), "\"text\":\"Created f (1 line)\"");
        assert_contains(fixture_items(run), i == 0 ? "\"text\":\"Replaced f (1 line)\""
                                                   : "apply_patch failed: nothing was changed.\\nf "
                                                     "exists: update it, or delete it first");
        assert_contains(waldo_run_text(run), "Deleted f\nCreated f (1 line)");
        waldo_run_free(run);
        waldo_agent_unref(agent);
        waldo_model_unref(model);
    }
}

/* It was recorded above: the model's string and quirks say how to read it. */
static void the_recording_replays(void **state)
{
    fixture *f = *state;
    waldo_model *model = waldo_model_new(&WALDO_MODEL(.model = replay));
    size_t requests = standin_request_count(f->server);
    waldo_run *run = patch_with(f->rt, model, NULL);

    assert_string_equal(waldo_run_errmsg(run), "");
    assert_contains(waldo_run_text(run), "\"one\" \\ \xC3\xA9\n");
    assert_int_equal(standin_request_count(f->server), requests);
    waldo_model_unref(model);
}

/* ---- tools of the host ---- */

static waldo_status note(void *userdata, waldo_tool_call *call)
{
    waldo_str args = waldo_tool_call_args(call);
    char *noted = userdata;
    size_t len = strlen(noted);

    snprintf(noted + len, 1024 - len, "%.*s\n", (int)args.len, args.ptr);
    return waldo_tool_call_reply(call, "noted: %s", waldo_tool_call_str(call, "text"));
}

static waldo_tool *note_tool(char *noted, uint32_t flags)
{
    return WALDO_TOOL(.name = "note", .call = note, .userdata = noted, .flags = flags,
                      .params = WALDO_PARAMS({ .name = "text", .type = WALDO_STRING }),
                      .freeform = "text");
}

#define NOTE(id, text) "{\"id\":\"" id "\",\"name\":\"note\",\"input\":\"" text "\"}"

static void several_at_once_that_are_demanded_and_approved(void **state)
{
    fixture *f = *state;
    char noted[1024] = "";
    waldo_model *model = model_of(f, "freeform=on");
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model_object = model, .tool_choice = WALDO_TOOL_CHOICE_NAMED,
                                     .tool_choice_name = "note",
                                     .tools = WALDO_TOOLS(note_tool(noted, WALDO_NEEDS_APPROVAL))));
    waldo_run *run;
    const char *kinds;
    char *text;

    fixture_replies(f, "[{\"reasoning\":\"Hm.\",\"custom\":[" NOTE("c1", "a\\nb") "," NOTE(
                           "c2", "{}") "]},{\"text\":\"{results}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(fixture_pull(run, &kinds), WALDO_PENDING);
    assert_string_equal(noted, "");
    waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE });
    waldo_run_decide(run, "c2", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE });
    assert_int_equal(fixture_pull(run, &kinds), WALDO_END);
    assert_string_equal(noted, "{\"text\":\"a\\nb\"}\n{\"text\":\"{}\"}\n");
    assert_string_equal(waldo_run_text(run), "noted: a\nb\nnoted: {}");
    text = body(f, 0);
    assert_contains(text, "\"format\":{\"type\":\"text\"}");
    assert_contains(text, "\"tool_choice\":{\"type\":\"custom\",\"name\":\"note\"}}");
    free(text);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

/* A call of an answer that was cut must not run, however whole its text looks. */
static void half_a_text_is_not_run(void **state)
{
    fixture *f = *state;
    char noted[1024] = "", *text;
    waldo_model *model = model_of(f, "freeform=on");
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = model, .tools = WALDO_TOOLS(note_tool(noted, 0))));
    waldo_run *run;

    fixture_replies(f, "[{\"custom\":[" NOTE("c1", "a") "],\"incomplete\":\"max_output_tokens\"},"
                                                        "{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_string_equal(noted, "");
    assert_contains(waldo_run_text(run), "The response hit the output limit");
    text = body(f, 1); /* which the server has judged */
    assert_contains(text, "\"type\":\"function_call_output\",\"call_id\":\"c1\"");
    free(text);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

/* Without such tools at the server it is a function as any other. */
static void a_function_elsewhere(void **state)
{
    fixture *f = *state;
    char noted[1024] = "", *text;
    waldo_model *model = model_of(f, NULL);
    waldo_agent *agent = waldo_agent_new(
        &WALDO_AGENT(.model_object = model, .tools = WALDO_TOOLS(note_tool(noted, 0))));
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"note\",\"arguments\":"
                       "\"{\\\"text\\\":\\\"x\\\"}\"}]},{\"text\":\"{result}\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(waldo_run_wait(run, WAIT_MS), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "noted: x");
    text = body(f, 1);
    assert_lacks(text, "custom");
    free(text);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
}

static void impossible_tools_are_refused(void **state)
{
    static const waldo_param two[] = { { .name = "a", .type = WALDO_STRING },
                                       { .name = "b", .type = WALDO_STRING },
                                       { .name = NULL } };
    static const waldo_param odd[] = { { .name = "a", .type = WALDO_STRING, .optional = 1 },
                                       { .name = "b", .type = WALDO_INTEGER },
                                       { .name = NULL } };
    static const struct {
        const waldo_param *params;
        const char *schema, *freeform, *grammar, *message;
    } cases[] = {
        { two, NULL, "a", NULL, "tool t: .freeform \"a\" is not the only one that is required" },
        { odd, NULL, "a", NULL, "tool t: .freeform \"a\" is not a string" },
        { odd, NULL, "b", NULL, "tool t: .freeform \"b\" is not a string" },
        { two, NULL, "c", NULL, "tool t: .freeform \"c\" is no parameter of it" },
        { NULL, NULL, "a", NULL, "tool t: .freeform \"a\" is no parameter of it" },
        { NULL, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}", "a", NULL,
          "tool t: .freeform \"a\" is not required" },
        { two, NULL, NULL, "start: \"x\"", "tool t has a .grammar but no .freeform: set both" },
    };
    waldo_tool *good =
        WALDO_TOOL(.name = "t", .call = note, .freeform = "a", .grammar = "start: \"x\"",
                   .schema_json =
                       "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},"
                       "\"b\":{\"type\":\"integer\"}},\"required\":[\"a\"]}");

    (void)state;
    assert_null(waldo_tool_error(good));
    waldo_tool_unref(good);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        waldo_tool *tool = WALDO_TOOL(.name = "t", .call = note, .params = cases[i].params,
                                      .schema_json = cases[i].schema, .freeform = cases[i].freeform,
                                      .grammar = cases[i].grammar);

        assert_int_equal(waldo_error_status(waldo_tool_error(tool)), WALDO_EINVAL);
        assert_string_equal(waldo_error_message(waldo_tool_error(tool)), cases[i].message);
        waldo_tool_unref(tool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(apply_patch_in_plain_text),    ROW(adding_over_a_file),
        ROW(the_recording_replays),        ROW(several_at_once_that_are_demanded_and_approved),
        ROW(half_a_text_is_not_run),       ROW(a_function_elsewhere),
        ROW(impossible_tools_are_refused),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, start, stop);
}
