/* Lists of model facts: what is refused, what matches, what tokens cost. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "failing.h"
#include "model/facts.h"

static const struct {
    const char *json;
    waldo_status status;
    const char *message;
} bad[] = {
    { "", WALDO_EJSON, "model facts: " },
    { "{\"models\":[}", WALDO_EJSON, "model facts: " },
    { "[]", WALDO_EINVAL, "no array \"models\"" },
    { "{\"models\":{}}", WALDO_EINVAL, "no array \"models\"" },
    { "{\"models\":[1]}", WALDO_EINVAL, "entry 1: \"match\" is missing" },
    { "{\"models\":[{\"match\":\"a\"},{\"window\":1}]}", WALDO_EINVAL,
      "entry 2: \"match\" is missing" },
    { "{\"models\":[{\"match\":\"a\",\"windw\":1}]}", WALDO_EINVAL,
      "entry 1: \"windw\" is not known: match, window, max_output, input" },
    { "{\"models\":[{\"match\":\"a\",\"window\":-1}]}", WALDO_EINVAL,
      "entry 1: \"window\" is not a whole number" },
    { "{\"models\":[{\"match\":\"a\",\"window\":1.5}]}", WALDO_EINVAL, "\"window\" is not" },
    { "{\"models\":[{\"match\":\"a\",\"window\":\"1\"}]}", WALDO_EINVAL, "\"window\" is not" },
    { "{\"models\":[{\"match\":\"a\",\"output\":1000000000001,\"input\":1}]}", WALDO_EINVAL,
      "\"output\" is not" },
    { "{\"models\":[{\"match\":\"a\",\"input\":1}]}", WALDO_EINVAL, "given together" },
    { "{\"models\":[{\"match\":\"a\",\"cached_input\":1}]}", WALDO_EINVAL, "given together" },
    { "{\"models\":[{\"match\":\"a\",\"cache_write\":1}]}", WALDO_EINVAL, "given together" },
    { "{\"models\":[{\"match\":[]}]}", WALDO_EINVAL, "entry 1: \"match\" is missing" },
    { "{\"models\":[{\"match\":[\"a\",1]}]}", WALDO_EINVAL, "entry 1: \"match\" is missing" },
    { "{\"models\":[{\"match\":[\"a\",\"\"]}]}", WALDO_EINVAL, "entry 1: \"match\" is missing" },
    { "{\"models\":[{\"match\":\"a\",\"long_from\":9,\"long_input\":200,\"long_output\":150}]}",
      WALDO_EINVAL, "entry 1: \"long_from\" comes with prices" },
    { "{\"models\":[{\"match\":\"a\",\"input\":1,\"output\":1,\"long_from\":9,\"long_input\":200}]"
      "}",
      WALDO_EINVAL, "\"long_from\" comes with prices" },
    { "{\"models\":[{\"match\":\"a\",\"input\":1,\"output\":1,\"long_input\":200,"
      "\"long_output\":150}]}",
      WALDO_EINVAL, "\"long_from\" comes with prices" },
    { "{\"models\":[{\"match\":\"a\",\"input\":1,\"output\":1,\"long_from\":9,\"long_input\":1001,"
      "\"long_output\":1}]}",
      WALDO_EINVAL, "\"long_from\" comes with prices" },
};

static void bad_lists_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        waldo__facts *facts = NULL;
        waldo_error *error = NULL;

        assert_int_equal(waldo__facts_new(bad[i].json, &facts, &error), bad[i].status);
        assert_null(facts);
        if (strstr(waldo_error_message(error), bad[i].message) == NULL) {
            fail_msg("%s: %s", bad[i].json, waldo_error_message(error));
        }
        waldo_error_free(error);
    }
}

static const char list[] =
    "{\"models\":["
    "{\"match\":\"openai:one\",\"window\":1000,\"max_output\":10},"
    "{\"match\":\"openai:o*-mini\",\"input\":1000000,\"cached_input\":100000,\"output\":4000000},"
    "{\"match\":[\"openai:oh\",\"openai:oh-*-dated\"],\"input\":10,\"cache_write\":12,\"output\":"
    "20,"
    "\"long_from\":100,\"long_input\":200,\"long_output\":150},"
    "{\"match\":\"*#local\",\"input\":0,\"output\":0},"
    "{\"match\":\"openai:*\",\"input\":2,\"output\":3}]}";

static const struct {
    const char *model;
    waldo__model_facts facts;
} found[] = {
    { "openai:one", { 1000, 10, -1, -1, -1, -1 } },
    { "openai:o3-mini", { -1, -1, 1000000, 100000, 4000000, 1000000 } },
    { "openai:o-mini-mini", { -1, -1, 1000000, 100000, 4000000, 1000000 } },
    { "openai:one-minimal", { -1, -1, 2, 2, 3, 2 } },
    { "openai:oh", { -1, -1, 10, 10, 20, 12, 100, 200, 150 } },
    { "openai:oh-1-dated", { -1, -1, 10, 10, 20, 12, 100, 200, 150 } },
    { "openai:oh-1", { -1, -1, 2, 2, 3, 2 } },
    { "openai:", { -1, -1, 2, 2, 3, 2 } },
    { "chat:http://127.0.0.1:1/v1#local", { -1, -1, 0, 0, 0, 0 } },
    { "chat:http://127.0.0.1:1/v1#local2", { -1, -1, -1, -1, -1, -1 } },
    { "", { -1, -1, -1, -1, -1, -1 } },
};

static void the_first_match_counts(void **state)
{
    waldo__facts *facts = NULL;

    (void)state;
    assert_int_equal(waldo__facts_new(list, &facts, NULL), WALDO_OK);
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        waldo__model_facts got = waldo__facts_find(facts, found[i].model);

        assert_memory_equal(&got, &found[i].facts, sizeof got);
    }
    waldo__facts_free(facts);
}

static const waldo__model_facts priced = { -1, -1, 1000000, 100000, 4000000 };
static const waldo__model_facts tiny = { -1, -1, 1, 1, 1 };
static const waldo__model_facts free_of_charge = { -1, -1, 0, 0, 0 };
static const waldo__model_facts unpriced = { 100, 100, -1, -1, -1 };
static const waldo__model_facts dear = { -1, -1, 1000000000000, 1000000000000, 1000000000000 };

static const struct {
    const waldo__model_facts *facts;
    int64_t input, cached, output, cost;
} costs[] = {
    { &priced, 1000, 0, 100, 1400 },
    { &priced, 1000, 1000, 100, 500 },
    { &priced, 1000, -1, 0, 1000 },
    { &priced, 10, 50, 0, 1 }, /* more cached than there were */
    { &priced, 0, 0, 0, 0 },
    { &tiny, 1, 0, 0, 1 }, /* up to the next whole one, once */
    { &tiny, 500000, 0, 500000, 1 },
    { &tiny, 500000, 0, 500001, 2 },
    { &free_of_charge, 1000, 0, 1000, 0 },
    { &priced, -1, -1, 5, -1 },
    { &priced, 5, 0, -1, -1 },
    { &unpriced, 5, 0, 5, -1 },
    { &dear, 1LL << 53, 0, 1LL << 53, 2000000000000000000 }, /* no overflow */
};

static void costs_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        waldo_usage usage = { .input_tokens = costs[i].input,
                              .output_tokens = costs[i].output,
                              .cached_tokens = costs[i].cached };

        assert_int_equal(waldo__facts_cost(costs[i].facts, &usage), costs[i].cost);
    }
}

/* Half price read from a cache, a quarter more written to it; double and thrice beyond 100. */
static const waldo__model_facts stepped = {
    -1, -1, 1000000, 500000, 2000000, 1250000, 100, 200, 300
};

static const struct {
    const waldo__model_facts *facts;
    int64_t input, cached, written, output, cost;
} steps[] = {
    { &stepped, 100, 0, 0, 10, 120 },      { &stepped, 100, 40, 20, 10, 40 + 20 + 25 + 20 },
    { &stepped, 100, 100, 20, 0, 50 }, /* more than there were */
    { &stepped, 100, 90, 20, 0, 45 + 13 }, { &stepped, 100, -1, -1, 0, 100 },
    { &stepped, 101, 0, 0, 10, 202 + 60 }, { &stepped, 200, 100, 100, 10, 100 + 250 + 60 },
    { &unpriced, 200, 100, 100, 10, -1 },
};

static void caches_and_long_prompts_have_their_prices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        waldo_usage usage = { .input_tokens = steps[i].input,
                              .output_tokens = steps[i].output,
                              .cached_tokens = steps[i].cached,
                              .cache_write_tokens = steps[i].written };

        assert_int_equal(waldo__facts_cost(steps[i].facts, &usage), steps[i].cost);
    }
}

/* ---- the built-in list ---- */

static waldo__facts *builtin(void)
{
    waldo__facts *facts = NULL;

    assert_int_equal(waldo__facts_new(NULL, &facts, NULL), WALDO_OK);
    return facts;
}

/* The list as it stands in the source, read as a host's is. */
static waldo__facts *source(void)
{
    static char text[64 * 1024];
    waldo__facts *facts = NULL;
    FILE *file = fopen(WALDO_TESTS_DIR "/../src/model/facts.json", "r");
    size_t len;

    assert_non_null(file);
    len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    assert_true(len > 0 && len < sizeof text - 1);
    assert_int_equal(waldo__facts_new(text, &facts, NULL), WALDO_OK);
    return facts;
}

enum { MODEL_MAX = 128, PATTERNS_MAX = 256, THOUSAND = 1000, MILLION = 1000 * 1000 };

/* A model that the pattern stands for. */
static void model_of(const char *pattern, char *model)
{
    assert_true(strlen(pattern) + 2 < MODEL_MAX);
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*') {
            *model++ = 'v';
            *model++ = '1';
        } else {
            *model++ = *pattern;
        }
    }
    *model = '\0';
}

/* How many rows of the list as it is built in there are; their patterns one after the other. */
static size_t patterns_of(char ret_patterns[][WALDO__FACTS_PATTERN_MAX], size_t *ret_count)
{
    const char *match = waldo__facts_patterns;
    char pattern[WALDO__FACTS_PATTERN_MAX] = "";
    size_t rows = 0, count = 0;

    for (; *match != '\0'; match++, rows++) {
        while (*match != '\0') {
            assert_true(count < PATTERNS_MAX);
            match = waldo__facts_next_pattern(match, pattern);
            memcpy(ret_patterns[count++], pattern, sizeof pattern);
        }
    }
    *ret_count = count;
    return rows;
}

/* A row that another one hides would be found by neither its pattern nor the source's reading. */
static void the_built_in_list_is_the_one_of_the_source(void **state)
{
    static char patterns[PATTERNS_MAX][WALDO__FACTS_PATTERN_MAX];
    waldo__facts *built = builtin(), *read = source();
    size_t count, rows = patterns_of(patterns, &count);

    (void)state;
    assert_true(rows > 20 && count >= rows);
    for (size_t i = 0; i < count; i++) {
        char model[MODEL_MAX];
        waldo__model_facts one, other;

        model_of(patterns[i], model);
        one = waldo__facts_find(built, model);
        other = waldo__facts_find(read, model);
        assert_memory_equal(&one, &other, sizeof one);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(patterns[i], patterns[j]);
        }
    }
    waldo__facts_free(built);
    waldo__facts_free(read);
    waldo__facts_free(NULL);
}

static void check_sane(const char *pattern, const waldo__model_facts *facts)
{
    const char *prefix = strchr(pattern, ':');

    assert_non_null(prefix);
    /* the star stands for the path of a URL and never for a part of a model's name */
    assert_null(strchr(strncmp(pattern, "chat:", 5) == 0 ? strchr(pattern, '#') : pattern, '*'));
    if (facts->window >= 0) {
        assert_in_range(facts->window, 100 * THOUSAND, 2 * MILLION);
        assert_true(facts->max_output < facts->window);
    }
    if (facts->max_output >= 0) {
        assert_in_range(facts->max_output, 16 * THOUSAND, 500 * THOUSAND);
    }
    if (waldo__facts_has_prices(facts)) { /* in dollars: a cent to fifty for a million */
        assert_in_range(facts->input, 10 * THOUSAND, 50 * MILLION);
        assert_in_range(facts->output, facts->input, 10 * facts->input);
        assert_in_range(facts->cached_input, facts->input / 100, facts->input);
        assert_in_range(facts->cache_write, facts->input, facts->input / 4 * 5);
    }
    if (facts->long_from > 0) {
        assert_true(waldo__facts_has_prices(facts));
        assert_in_range(facts->long_from, 100 * THOUSAND, facts->window - 1);
        assert_in_range(facts->long_input, 101, 500);
        assert_in_range(facts->long_output, 101, 500);
    }
}

static void each_built_in_row_is_sane(void **state)
{
    static char patterns[PATTERNS_MAX][WALDO__FACTS_PATTERN_MAX];
    waldo__facts *facts = builtin();
    size_t count;

    (void)state;
    patterns_of(patterns, &count);
    for (size_t i = 0; i < count; i++) {
        char model[MODEL_MAX];
        waldo__model_facts row;

        model_of(patterns[i], model);
        row = waldo__facts_find(facts, model);
        assert_true(row.window >= 0 || waldo__facts_has_prices(&row));
        check_sane(patterns[i], &row);
    }
    waldo__facts_free(facts);
}

static const struct {
    const char *model;
    waldo__model_facts facts;
} built_in[] = {
    { "openai:gpt-6.2-sol",
      { 1050000, 128000, 2000000, 100000, 10000000, 2500000, 272000, 200, 150 } },
    { "openai:gpt-5.4", { 1050000, 128000, 2500000, 250000, 15000000, 2500000, 272000, 200, 150 } },
    { "openai:gpt-5.4-mini", { 400000, 128000, 750000, 75000, 4500000, 750000, 0, 0, 0 } },
    { "openai:gpt-5.4-mini-2026-03-17",
      { 400000, 128000, 750000, 75000, 4500000, 750000, 0, 0, 0 } },
    { "openai:gpt-5.6-sol", { 1050000, 128000, -1, -1, -1, -1, 0, 0, 0 } },
    { "anthropic:claude-opus-5-5",
      { 1000000, 128000, 4000000, 200000, 20000000, 5000000, 0, 0, 0 } },
    { "anthropic:claude-opus-5", { 1000000, 128000, 5000000, 500000, 25000000, 6250000, 0, 0, 0 } },
    { "anthropic:claude-haiku-4-5-20251001",
      { 200000, 64000, 1000000, 100000, 5000000, 1250000, 0, 0, 0 } },
    { "anthropic:claude-haiku-5-5",
      { 1000000, 128000, 100000, 10000, 500000, 125000, 100000, 500, 500 } },
    { "chat:https://api.deepseek.com#deepseek-v4-pro",
      { 1000000, -1, 1320000, 44000, 3960000, 1320000, 0, 0, 0 } },
    { "chat:https://api.deepseek.com/v1#deepseek-v4-pro",
      { 1000000, -1, 1320000, 44000, 3960000, 1320000, 0, 0, 0 } },
    { "chat:https://api.groq.com/openai/v1#openai/gpt-oss-120b",
      { 131072, 65536, 150000, 75000, 600000, 150000, 0, 0, 0 } },
    { "chat:https://api.mistral.ai/v1#mistral-small-2603",
      { -1, -1, 150000, 15000, 600000, 150000, 0, 0, 0 } },
    { "openai:gpt-6.2", { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
    { "openai:gpt-6.2-sol-2027-01-01", { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
    { "openai:gpt-7", { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
    { "openai:https://eu.api.openai.com/v1#gpt-6.2-sol", { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
    { "anthropic:http://127.0.0.1:1/v1#claude-opus-5-5", { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
    { "chat:https://api.deepseek.com.example/v1#deepseek-v4-pro",
      { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
    { "", { -1, -1, -1, -1, -1, -1, 0, 0, 0 } },
};

static void known_models_are_built_in_and_others_not(void **state)
{
    waldo__facts *facts = builtin();

    (void)state;
    for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++) {
        waldo__model_facts got = waldo__facts_find(facts, built_in[i].model);

        if (memcmp(&got, &built_in[i].facts, sizeof got) != 0) {
            fail_msg("%s", built_in[i].model);
        }
    }
    waldo__facts_free(facts);
}

static void a_list_of_the_host_replaces_the_built_in_one(void **state)
{
    static const waldo__model_facts unknown = { -1, -1, -1, -1, -1, -1, 0, 0, 0 };
    waldo__facts *facts = NULL;
    waldo__model_facts got;

    (void)state;
    assert_int_equal(
        waldo__facts_new("{\"models\":[{\"match\":\"openai:mine\",\"window\":9}]}", &facts, NULL),
        WALDO_OK);
    assert_int_equal(waldo__facts_find(facts, "openai:mine").window, 9);
    got = waldo__facts_find(facts, "openai:gpt-6.2-sol");
    assert_memory_equal(&got, &unknown, sizeof got);
    waldo__facts_free(facts);
}

static void survives_want_of_memory(void **state)
{
    waldo_status status = WALDO_ENOMEM;
    size_t living = failing.living;

    (void)state;
    for (size_t at = 1; status != WALDO_OK; at++) {
        waldo__facts *facts = NULL;
        waldo_error *error = NULL;

        failing.asked = failing.failed = 0;
        failing.fail_at = at;
        failing.on = 1;
        status = waldo__facts_new(list, &facts, &error);
        failing.on = 0;
        assert_true(status == WALDO_OK || status == WALDO_ENOMEM);
        waldo__facts_free(facts);
        waldo_error_free(error);
        assert_int_equal(failing.living, living);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_lists_are_refused_by_name),
        cmocka_unit_test(the_first_match_counts),
        cmocka_unit_test(costs_are_exact),
        cmocka_unit_test(caches_and_long_prompts_have_their_prices),
        cmocka_unit_test(the_built_in_list_is_the_one_of_the_source),
        cmocka_unit_test(each_built_in_row_is_sane),
        cmocka_unit_test(known_models_are_built_in_and_others_not),
        cmocka_unit_test(a_list_of_the_host_replaces_the_built_in_one),
        cmocka_unit_test(survives_want_of_memory),
    };

    failing_install();
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
