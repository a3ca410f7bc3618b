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
    "{\"match\":\"*#local\",\"input\":0,\"output\":0},"
    "{\"match\":\"openai:*\",\"input\":2,\"output\":3}]}";

static const struct {
    const char *model;
    waldo__model_facts facts;
} found[] = {
    { "openai:one", { 1000, 10, -1, -1, -1 } },
    { "openai:o3-mini", { -1, -1, 1000000, 100000, 4000000 } },
    { "openai:o-mini-mini", { -1, -1, 1000000, 100000, 4000000 } },
    { "openai:one-minimal", { -1, -1, 2, 2, 3 } },
    { "openai:", { -1, -1, 2, 2, 3 } },
    { "chat:http://127.0.0.1:1/v1#local", { -1, -1, 0, 0, 0 } },
    { "chat:http://127.0.0.1:1/v1#local2", { -1, -1, -1, -1, -1 } },
    { "", { -1, -1, -1, -1, -1 } },
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

static void the_built_in_list_is_one(void **state)
{
    waldo__facts *facts = NULL;

    (void)state;
    assert_int_equal(waldo__facts_new(NULL, &facts, NULL), WALDO_OK);
    waldo__facts_free(facts);
    waldo__facts_free(NULL);
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
        cmocka_unit_test(the_built_in_list_is_one),
        cmocka_unit_test(survives_want_of_memory),
    };

    failing_install();
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
