/* Arguments: what tools get of them, what is refused, by parameter tables and by schemas. */
#include "fixture.h"

#include "json/json.h"

/* A reply with one call of "probe" and one that repeats its result. */
static void queue_call(fixture *f, const char *args)
{
    waldo__buf text = WALDO__BUF_INIT(65536);

    waldo__buf_puts(&text, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"probe\",\"arguments\":\"");
    waldo__json_escape(waldo__str(args), &text);
    waldo__buf_puts(&text, "\"}]},{\"text\":\"{result}\"}]");
    assert_int_equal(text.status, WALDO_OK);
    fixture_replies(f, text.ptr);
    waldo__buf_free(&text);
}

static const char *text_or(const char *text)
{
    return text != NULL ? text : "(null)";
}

/* Everything every getter says. */
static waldo_status probe(void *userdata, waldo_tool_call *call)
{
    int *calls = userdata;

    (*calls)++;
    return waldo_tool_call_reply(
        call, "i %lld n %.17g b %d s %s l %s,%s,%s c %s has %d%d%d%d%d%d%d%d",
        (long long)waldo_tool_call_int(call, "i", -7), waldo_tool_call_num(call, "n", 0.25),
        waldo_tool_call_bool(call, "b", 9), text_or(waldo_tool_call_str(call, "s")),
        text_or(waldo_tool_call_str_at(call, "l", 0)),
        text_or(waldo_tool_call_str_at(call, "l", 1)),
        text_or(waldo_tool_call_str_at(call, "l", 2)), text_or(waldo_tool_call_str(call, "c")),
        waldo_tool_call_has(call, "i"), waldo_tool_call_has(call, "n"),
        waldo_tool_call_has(call, "b"), waldo_tool_call_has(call, "s"),
        waldo_tool_call_has(call, "l"), waldo_tool_call_has(call, "c"),
        waldo_tool_call_has(call, "j"), waldo_tool_call_has(call, "no such"));
}

typedef struct row {
    const char *args;
    const char *said; /* part of the result */
    int runs;
} row;

static void check_rows(fixture *f, const waldo_tool_options *options, const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int calls = 0;
        waldo_tool_options probed = *options;
        waldo_agent *agent;
        waldo_run *run;

        probed.size = sizeof probed;
        probed.name = "probe";
        probed.call = probe;
        probed.userdata = &calls;
        agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"),
                                             .tools = WALDO_TOOLS(waldo_tool_new(&probed))));
        queue_call(f, rows[i].args);
        run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
        assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
        if (strstr(waldo_run_text(run), rows[i].said) == NULL || calls != rows[i].runs) {
            fail_msg("%s: ran %d times and said:\n%s\nnot:\n%s", rows[i].args, calls,
                     waldo_run_text(run), rows[i].said);
        }
        waldo_run_free(run);
        waldo_agent_unref(agent);
    }
}

#define NOTHING "i -7 n 0.25 b 9 s (null) l (null),(null),(null) c (null) has 00000000"

static const row typed[] = {
    { "{}", NOTHING, 1 },
    { "{\"i\":null,\"n\":null,\"b\":null,\"s\":null,\"l\":null,\"c\":null,\"j\":null}", NOTHING,
      1 },
    { "{\"i\":0,\"n\":0,\"b\":false,\"s\":\"\",\"l\":[],\"c\":\"red\",\"j\":0}",
      "i 0 n 0 b 0 s  l (null),(null),(null) c red has 11111110", 1 },
    { "{\"i\":9007199254740992}", "i 9007199254740992 ", 1 },
    { "{\"i\":-9007199254740992}", "i -9007199254740992 ", 1 },
    { "{\"i\":9007199254740991}", "i 9007199254740991 ", 1 },
    { "{\"i\":3.0}", "i 3 ", 1 },
    { "{\"i\":1e3}", "i 1000 ", 1 },
    { "{\"i\":9007199254740994}", "i: expected an integer or null, got a number beyond +-2^53", 0 },
    { "{\"i\":9007199254740993}", "i: ", 0 },
    { "{\"i\":-9007199254740993}", "i: ", 0 },
    { "{\"i\":-9007199254740994}", "i: ", 0 },
    { "{\"i\":1e300}", "i: ", 0 },
    { "{\"i\":1.5}", "i: ", 0 },
    { "{\"i\":\"1\"}", "i: ", 0 },
    { "{\"i\":true}", "i: ", 0 },
    { "{\"n\":-1.5e-3}", "n -0.0015", 1 },
    { "{\"n\":7}", "n 7 ", 1 },
    { "{\"n\":\"7\"}", "n: ", 0 },
    { "{\"b\":true}", "b 1 ", 1 },
    { "{\"b\":1}", "b: ", 0 },
    { "{\"s\":\"\\u00e9 \\ud83d\\ude00\"}", "s \xc3\xa9 \xf0\x9f\x98\x80 ", 1 },
    { "{\"s\":[]}", "s: ", 0 },
    { "{\"l\":[\"a\",\"b\"]}", "l a,b,(null) ", 1 },
    { "{\"l\":\"a\"}", "l: ", 0 },
    { "{\"l\":[\"a\",1]}", "expected a string", 0 },
    { "{\"l\":[null]}", "expected a string", 0 },
    { "{\"c\":\"green\"}", "c green ", 1 },
    { "{\"c\":\"blue\"}", "expected one of \"red\", \"green\"", 0 },
    { "{\"c\":\"Red\"}", "expected one of", 0 },
    { "{\"c\":1}", "c: ", 0 },
    { "{\"j\":{\"any\":[1,\"x\",null]}}", "has 00000010", 1 },
    { "{\"other\":1}", "\"other\" is not a known property", 0 },
    { "[]", "object", 0 },
};

static void getters_give_what_was_sent(void **state)
{
    fixture *f = *state;
    waldo_tool_options options = { .params = WALDO_PARAMS(
                                       { .name = "i", .type = WALDO_INTEGER, .optional = 1 },
                                       { .name = "n", .type = WALDO_NUMBER, .optional = 1 },
                                       { .name = "b", .type = WALDO_BOOLEAN, .optional = 1 },
                                       { .name = "s", .type = WALDO_STRING, .optional = 1 },
                                       { .name = "l", .type = WALDO_STRING_LIST, .optional = 1 },
                                       { .name = "c",
                                         .type = WALDO_STRING,
                                         .optional = 1,
                                         .one_of = WALDO_STRINGS("red", "green") },
                                       { .name = "j", .type = WALDO_JSON, .optional = 1 }) };

    check_rows(f, &options, typed, sizeof typed / sizeof typed[0]);
}

static const row needed[] = {
    { "{\"i\":1,\"c\":\"red\"}", "c red", 1 },
    { "{\"c\":\"red\"}", "\"i\" is required but missing", 0 },
    { "{\"i\":1}", "\"c\" is required but missing", 0 },
    { "{\"i\":null,\"c\":\"red\"}", "i: ", 0 },
    { "{\"i\":1,\"c\":null}", "c: ", 0 },
};

static void what_is_needed_must_be_there(void **state)
{
    fixture *f = *state;
    waldo_tool_options options = {
        .params = WALDO_PARAMS(
            { .name = "i", .type = WALDO_INTEGER },
            { .name = "c", .type = WALDO_STRING, .one_of = WALDO_STRINGS("red", "green") })
    };

    check_rows(f, &options, needed, sizeof needed / sizeof needed[0]);
}

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"i\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"  \
    "5},"                                                                                          \
    "\"s\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":3},\"c\":{\"enum\":[\"a\",1,null]}," \
    "\"l\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"j\":{\"type\":\"object\","       \
    "\"required\":[\"k\"],\"properties\":{\"k\":{\"type\":[\"boolean\",\"null\"]}}},"              \
    "\"n\":{\"pattern\":\"^x\",\"format\":\"email\"}},\"required\":[\"i\"],"                       \
    "\"additionalProperties\":false}"

static const row by_schema[] = {
    { "{\"i\":1}", "i 1 ", 1 },
    { "{\"i\":5,\"s\":\"\\u00e9\\u00e9\\u00e9\",\"c\":\"a\",\"l\":[\"x\"],\"j\":{\"k\":true}}",
      "i 5 ", 1 },
    { "{\"i\":2,\"c\":1,\"j\":{\"k\":null,\"more\":1},\"n\":\"unchecked\"}", "i 2 ", 1 },
    { "{}", "\"i\" is required but missing", 0 },
    { "{\"i\":0}", "i: must be at least 1, got 0", 0 },
    { "{\"i\":6}", "i: must be at most 5, got 6", 0 },
    { "{\"i\":1,\"s\":\"a\"}", "s: must have at least 2 characters, has 1", 0 },
    { "{\"i\":1,\"s\":\"abcd\"}", "s: must have at most 3 characters, has 4", 0 },
    { "{\"i\":1,\"c\":2}", "c: expected one of \"a\", 1, null", 0 },
    { "{\"i\":1,\"l\":[\"x\",2]}", "expected a string", 0 },
    { "{\"i\":1,\"j\":{}}", "\"k\" is required but missing", 0 },
    { "{\"i\":1,\"j\":{\"k\":0}}", "k: ", 0 },
    { "{\"i\":1,\"x\":0}", "\"x\" is not a known property", 0 },
};

static void schemas_are_enforced_in_their_subset(void **state)
{
    check_rows(*state, &(waldo_tool_options){ .schema_json = SCHEMA }, by_schema,
               sizeof by_schema / sizeof by_schema[0]);
}

static void impossible_schemas_are_refused(void **state)
{
    static const char *const schemas[] = {
        "",
        "no JSON",
        "[]",
        "{}",
        "{\"type\":\"string\"}",
        "{\"type\":\"object\"",
        "null",
        "{\"type\":\"object\"} {}",
    };
    int calls = 0;

    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        waldo_tool *tool = WALDO_TOOL(.name = "probe", .call = probe, .userdata = &calls,
                                      .schema_json = schemas[i]);

        if (waldo_tool_error(tool) == NULL) {
            fail_msg("taken as a schema: %s", schemas[i]);
        }
        assert_contains(waldo_error_message(waldo_tool_error(tool)), "probe");
        waldo_tool_unref(tool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(getters_give_what_was_sent),
        ROW(what_is_needed_must_be_there),
        ROW(schemas_are_enforced_in_their_subset),
        ROW(impossible_schemas_are_refused),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
