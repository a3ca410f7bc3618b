#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/chat_fast.h"
#include "read.h"

/* What is remembered after one event, and what then becomes of another. NULL: it must be parsed. */
static void expect_match(const char *learnt, const char *key, const char *json,
                         const char *expected)
{
    waldo__chat_fast fast;
    waldo_str piece = WALDO__S("untouched");
    int matched;

    waldo__chat_fast_init(&fast);
    waldo__chat_fast_learn(&fast, waldo__str(learnt), WALDO__CHAT_EFFECT_TEXT, key, -1);
    matched = waldo__chat_fast_match(&fast, waldo__str(json), &piece);
    assert_int_equal(matched, expected != NULL);
    assert_int_equal(piece.len, strlen(expected != NULL ? expected : "untouched"));
    assert_memory_equal(piece.ptr, expected != NULL ? expected : "untouched", piece.len);
    waldo__chat_fast_free(&fast);
}

static void pieces(void **state)
{
    static const char learnt[] = "{\"content\":\"x\",\"n\":null}";

    (void)state;
    expect_match(learnt, "content", learnt, "x");
    expect_match(learnt, "content", "{\"content\":\"more \xC3\xA9\",\"n\":null}", "more \xC3\xA9");
    expect_match(learnt, "content", "{\"content\":\"a\\n\\\"\\\\\\/\\t\\r\\b\\f\",\"n\":null}",
                 "a\n\"\\/\t\r\b\f");
    expect_match(learnt, "content", "{\"content\":\"\\\\\",\"n\":null}", "\\");
    /* other surroundings */
    expect_match(learnt, "content", "{\"content\":\"x\",\"n\":1}", NULL);
    expect_match(learnt, "content", "{\"content\": \"x\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"x\",\"n\":null", NULL);
    expect_match(learnt, "content", "", NULL);
    expect_match(learnt, "content", "[DONE]", NULL);
    /* an empty string does something else */
    expect_match(learnt, "content", "{\"content\":\"\",\"n\":null}", NULL);
    /* more than one string, or a broken one */
    expect_match(learnt, "content", "{\"content\":\"x\",\"m\":\"y\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"x\\\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"x\\\\\\\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"\\q\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"\\u0041\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"a\nb\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"\xC3\",\"n\":null}", NULL);
    expect_match(learnt, "content", "{\"content\":\"\xED\xA0\x80\",\"n\":null}", NULL);
}

/* Where it cannot be told which member had the effect nothing is remembered. */
static void not_learnt(void **state)
{
    static const char *const texts[] = {
        "{\"content\": \"x\"}",
        "{\"content\":\"x\",\"content\":\"y\"}",
        "{\"a\":\"content\",\"content\":\"x\"}",
        "{\"content\":\"x\",\"a\":\"content\"}",
        "{\"content\":\"x\",\"a\":{\"content\": \"y\"}}",
        "{\"x\\\"content\":\"x\"}",
        "{\"c\\u006fntent\":\"a\",\"b\":{\"content\":\"x\"}}",
        "{\"content\":\"x\",\"a\":\"\\n\"}",
        "{\"other\":\"x\"}",
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(texts); i++) {
        expect_match(texts[i], "content", texts[i], NULL);
    }
}

static void forgets(void **state)
{
    static const char first[] = "{\"content\":\"x\"}";
    waldo__chat_fast fast;
    waldo_str piece;
    waldo__buf large = WALDO__BUF_INIT(1 << 20);

    (void)state;
    waldo__chat_fast_init(&fast);
    assert_false(waldo__chat_fast_match(&fast, waldo__str(first), &piece));
    waldo__chat_fast_learn(&fast, waldo__str(first), WALDO__CHAT_EFFECT_TEXT, "content", -1);
    assert_true(waldo__chat_fast_match(&fast, waldo__str(first), &piece));
    waldo__chat_fast_learn(&fast, WALDO__S("{\"a\":1}"), WALDO__CHAT_EFFECT_TEXT, "content", -1);
    assert_false(waldo__chat_fast_match(&fast, waldo__str(first), &piece));
    /* surroundings that are not worth keeping */
    waldo__buf_puts(&large, "{\"a\":\"");
    for (int i = 0; i < 5000; i++) {
        waldo__buf_putc(&large, 'a');
    }
    waldo__buf_puts(&large, "\",\"content\":\"x\"}");
    waldo__chat_fast_learn(&fast, waldo__buf_str(&large), WALDO__CHAT_EFFECT_TEXT, "content", -1);
    assert_false(waldo__chat_fast_match(&fast, waldo__buf_str(&large), &piece));
    waldo__chat_fast_learn(&fast, waldo__str(first), WALDO__CHAT_EFFECT_TEXT, "content", -1);
    assert_true(waldo__chat_fast_match(&fast, waldo__str(first), &piece));
    waldo__chat_fast_free(&fast);
    waldo__buf_free(&large);
}

/* ---- the same outcome with and without ---- */

/* %s is where the piece goes. */
static const char *const events[] = {
    "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}",
    "{\"id\":\"c\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"%s\"},"
    "\"finish_reason\":null}],\"usage\":null}",
    "{\"choices\":[{\"delta\":{\"reasoning_content\":\"%s\",\"content\":null}}]}",
    "{\"choices\":[{\"delta\":{\"reasoning_content\":\"%s\",\"reasoning\":\"r\"}}]}",
    "{\"choices\":[{\"delta\":{\"reasoning\":\"%s\"}}]}",
    "{\"choices\":[{\"delta\":{\"content\":\"%s\",\"reasoning\":\"r\"}}]}",
    "{\"choices\":[{\"delta\":{\"content\":\"%s\"}},{\"index\":1,\"delta\":{\"content\":\"n\"}}]}",
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"%s\"}}]}}"
    "]}",
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"%s\"}}]}}"
    "]}",
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"%s\"}}]}}]}",
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a%s\",\"function\":{\"name\":"
    "\"content\",\"arguments\":\"{\"}}]}}]}",
    "{\"choices\":[{\"delta\":{\"refusal\":\"%s\"}}]}",
    "{\"choices\":[{\"delta\":{\"function_call\":{\"arguments\":\"%s\"}}}]}",
};

static const char *const strings[] = {
    "a",
    "hello \xC3\xA9",
    "b\\n\\\"c\\\"",
    "",
    "\\u00e9",
    "\\ud83d",
    "\\ude00",
    "\xF0\x9F\x98\x80",
    "\xEF\xB7\x90"
    "d83d",
    "\xEF\xB7\x90"
    "de00x",
    "{\\\"k\\\":",
    "1}",
    "\\\"\\\"",
    "null",
    "\\\\",
    " ",
};

/* What is dangerous: each ends the reading, or changes what the event is. */
static const char *const hostile[] = {
    "x\",\"refusal\":\"no",
    "x\"}}],\"error\":{\"message\":\"e\"},\"a\":[{\"b\":{\"c\":\"",
    "x\\",
    "\x01",
    "\xFF",
    "\\u12",
    "x\"",
};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

/* A stream of like events; with spread, blanks make each different from those before it. */
static void make_body(unsigned seed, int spread, waldo__buf *body)
{
    unsigned event = 0;

    for (unsigned i = 0; i < 60; i++) {
        unsigned piece = next_random(&seed) % WALDO__COUNT(strings);
        const char *text = strings[piece], *at;

        if (next_random(&seed) % 5 == 0) {
            event = next_random(&seed) % WALDO__COUNT(events);
        }
        if (next_random(&seed) % 150 == 0) {
            text = hostile[next_random(&seed) % WALDO__COUNT(hostile)];
        }
        at = strstr(events[event], "%s");
        waldo__buf_printf(body, "data: {%*s%.*s%s%s\n\n", spread ? (int)i : 0, "",
                          (int)(at - events[event] - 1), events[event] + 1, text, at + 2);
    }
    waldo__buf_puts(body, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
}

/* An error's message quotes what was sent, blanks and all: only its name is compared. */
static void outcome(unsigned seed, int spread, waldo__buf *out)
{
    waldo_model_options options = { .size = sizeof options, .model = "chat:http://h#m" };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);
    size_t failure;

    make_body(seed, spread, &body);
    read_answer(&options, "text/event-stream", waldo__buf_str(&body), (read_cuts){ 0 }, out);
    failure = waldo__str_search(waldo__buf_str(out), WALDO__S("WALDO_E"), 0);
    if (failure < out->len) {
        size_t end = waldo__str_search(waldo__buf_str(out), WALDO__S(" "), failure);

        waldo__buf_truncate(out, end);
    }
    waldo__buf_free(&body);
}

static void same_outcome(void **state)
{
    size_t failures = 0, answers = 0;

    (void)state;
    for (unsigned seed = 0; seed < 3000; seed++) {
        waldo__buf fast = WALDO__BUF_INIT(1 << 20), slow = WALDO__BUF_INIT(1 << 20);

        outcome(seed, 0, &fast);
        outcome(seed, 1, &slow);
        assert_string_equal(waldo__buf_str(&fast).ptr, waldo__buf_str(&slow).ptr);
        failures += waldo__str_search(waldo__buf_str(&fast), WALDO__S("WALDO_E"), 0) < fast.len;
        answers += waldo__str_search(waldo__buf_str(&fast), WALDO__S("\nfinish "), 0) < fast.len;
        waldo__buf_free(&fast);
        waldo__buf_free(&slow);
    }
    assert_true(failures > 300 && answers > 300);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),
        cmocka_unit_test(not_learnt),
        cmocka_unit_test(forgets),
        cmocka_unit_test(same_outcome),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
