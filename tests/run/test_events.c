/* The JSON of every kind of event: what docs/events.md says, no more and no less. */
#include "fixture.h"

#include "json/json.h"

/* The members after "type", as docs/events.md has them; s: text, n: number or null, o: object. */
static const struct {
    const char *type;
    struct {
        const char *name;
        char kind;
    } members[7];
} kinds[] = {
    { "text", { { "text", 's' } } },
    { "reasoning", { { "text", 's' } } },
    { "item", { { "index", 'n' }, { "item", 'o' } } },
    { "tool_call", { { "call_id", 's' }, { "tool", 's' }, { "text", 's' } } },
    { "output", { { "call_id", 's' }, { "tool", 's' }, { "stream", 'n' }, { "text", 's' } } },
    { "tool_result", { { "call_id", 's' }, { "tool", 's' }, { "text", 's' } } },
    { "approval", { { "call_id", 's' }, { "tool", 's' }, { "text", 's' } } },
    { "usage",
      { { "input_tokens", 'n' },
        { "output_tokens", 'n' },
        { "cached_tokens", 'n' },
        { "cache_write_tokens", 'n' },
        { "reasoning_tokens", 'n' },
        { "cost", 'n' },
        { "incomplete", 'b' } } },
    { "sandbox", { { "text", 's' } } },
    { "retry", { { "text", 's' } } },
    { "epoch", { { "text", 's' } } },
    { "warning", { { "text", 's' } } },
    { "state", { { "state", 's' } } },
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct seen {
    int count[KINDS];
    char output[256]; /* text members of output, joined */
    char raw[256];    /* and their bytes */
    size_t raw_len;
} seen;

static int is_kind(const waldo__json_value *value, char kind)
{
    waldo__json_type type = waldo__json_type_of(value);

    return (kind == 's' && type == WALDO__JSON_STRING) ||
           (kind == 'o' && type == WALDO__JSON_OBJECT) ||
           (kind == 'b' && type == WALDO__JSON_BOOL) ||
           (kind == 'n' && (type == WALDO__JSON_NUMBER || type == WALDO__JSON_NULL));
}

static void take(const waldo_event *event, seen *s)
{
    waldo_str json = waldo_event_json(event);
    waldo__json *doc = NULL;
    const waldo__json_value *root;
    const char *type;
    size_t at = 0, members = 0;

    if (waldo__json_parse(json, NULL, &doc, NULL) != WALDO_OK || strchr(json.ptr, '\n') != NULL) {
        fail_msg("not one line of JSON: %s", json.ptr);
    }
    root = waldo__json_root(doc);
    type = waldo__json_get_str(root, "type").ptr;
    while (at < KINDS && strcmp(kinds[at].type, type) != 0) {
        at++;
    }
    if (at == KINDS) {
        fail_msg("a type that is not documented: %s", json.ptr);
    }
    assert_string_equal(type, waldo_event_kind_name(waldo_event_type(event)));
    while (members < 7 && kinds[at].members[members].name != NULL) {
        if (!is_kind(waldo__json_get(root, kinds[at].members[members].name),
                     kinds[at].members[members].kind)) {
            fail_msg("%s is missing or of another type: %s", kinds[at].members[members].name,
                     json.ptr);
        }
        members++;
    }
    if (waldo__json_count(root) != members + 1) {
        fail_msg("a member that is not documented: %s", json.ptr);
    }
    s->count[at]++;
    if (strcmp(type, "output") == 0) {
        waldo_str raw = waldo_event_text(event);

        assert_true(s->raw_len + raw.len < sizeof s->raw);
        memcpy(s->raw + s->raw_len, raw.ptr, raw.len);
        s->raw_len += raw.len;
        strncat(s->output, waldo__json_get_str(root, "text").ptr,
                sizeof s->output - strlen(s->output) - 1);
    }
    waldo__json_free(doc);
}

static waldo_status pull(waldo_run *run, seen *s)
{
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, 60000, &event)) == WALDO_OK) {
        take(event, s);
    }
    return status;
}

#define BUSY                                                                                       \
    "{\"status\":503,\"headers\":{\"retry-after-ms\":\"1\"},"                                      \
    "\"json\":{\"error\":{\"message\":\"busy\"}}}"

/* Bytes that are no UTF-8 among some that are. */
#define BYTES                                                                                      \
    "{\"form\":\"deepseek\",\"reasoning\":\"hm\",\"text\":\"I look\",\"calls\":[{\"id\":\"c1\","   \
    "\"name\":\"exec_command\",\"arguments\":\"{\\\"cmd\\\":"                                      \
    "\\\"printf 'a\\\\\\\\377\\\\\\\\303\\\\\\\\251z'\\\"}\"}]}"

/* Arguments with a rest that is dealt with. */
#define TWICE                                                                                      \
    "{\"deltas\":[{\"tool_calls\":[{\"index\":0,\"id\":\"c2\",\"type\":\"function\","              \
    "\"function\":{\"name\":\"exec_command\","                                                     \
    "\"arguments\":\"{\\\"cmd\\\":\\\"true\\\"}\"}}]},"                                            \
    "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"\\\"\"}}]}]}"

static void every_kind_is_as_documented(void **state)
{
    fixture *f = *state;
    waldo_agent *agent =
        waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x"),
                                     .sandbox = "fake:", .approve = WALDO_APPROVE_ALL));
    seen s = { .raw_len = 0 };
    waldo_run *run;

    fixture_replies(f, "[" BUSY "," BYTES "," TWICE ",{\"text\":\"done\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    assert_int_equal(pull(run, &s), WALDO_PENDING);
    assert_int_equal(
        waldo_run_decide(run, "c1", &(waldo_decision){ .kind = WALDO_DECIDE_APPROVE_RUN }),
        WALDO_OK);
    assert_int_equal(pull(run, &s), WALDO_END);
    assert_string_equal(waldo_run_text(run), "done");
    for (size_t i = 0; i < KINDS; i++) {
        if (s.count[i] == 0) {
            fail_msg("no event of the type %s came", kinds[i].type);
        }
    }
    assert_int_equal(s.raw_len, 5);
    assert_memory_equal(s.raw, "a\xff\xc3\xa9z", 5);
    assert_string_equal(s.output, "a\xef\xbf\xbd\xc3\xa9z");
    waldo_agent_unref(agent);
}

/* A provider that does not count: null, not 0 and not -1. */
static void unknown_usage_is_null(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "x")));
    const waldo_event *event;
    waldo_run *run;
    int usages = 0;

    fixture_replies(f,
                    "[{\"text\":\"a\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":0}}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "go"));
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        if (waldo_event_type(event) == WALDO_EVENT_USAGE) {
            usages++;
            assert_string_equal(
                waldo_event_json(event).ptr,
                "{\"type\":\"usage\",\"input_tokens\":3,\"output_tokens\":0,"
                "\"cached_tokens\":null,\"cache_write_tokens\":null,\"reasoning_tokens\":null,"
                "\"cost\":null,\"incomplete\":false}");
        }
    }
    assert_int_equal(usages, 1);
    waldo_agent_unref(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)
        ROW(every_kind_is_as_documented),
        ROW(unknown_usage_is_null),
#undef ROW
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
