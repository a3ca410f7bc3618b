#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/fast.h"
#include "read.h"

enum { EFFECT = 1 };

/* What is remembered after one event, and what then becomes of another. NULL: it must be parsed. */
static void expect_match(const char *learnt, const char *key, const char *json,
                         const char *expected)
{
    waldo__fast fast;
    waldo_str piece = WALDO__S("untouched");
    int matched;

    waldo__fast_init(&fast);
    waldo__fast_learn(&fast, waldo__str(learnt), EFFECT, key, NULL);
    matched = waldo__fast_match(&fast, waldo__str(json), &piece);
    assert_int_equal(matched, expected != NULL);
    assert_int_equal(piece.len, strlen(expected != NULL ? expected : "untouched"));
    assert_memory_equal(piece.ptr, expected != NULL ? expected : "untouched", piece.len);
    waldo__fast_free(&fast);
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

/* A number that counts the events, on either side, may have any value. */
static void counted(void **state)
{
    static const char *const learnt[] = { "{\"n\":9,\"text\":\"x\",\"a\":1}",
                                          "{\"text\":\"x\",\"n\":9,\"a\":1}",
                                          "{\"text\":\"x\",\"n\":9}" };
    static const struct {
        const char *json[3];
        const char *expected;
    } rows[] = {
        { { "{\"n\":10,\"text\":\"y\",\"a\":1}", "{\"text\":\"y\",\"n\":10,\"a\":1}",
            "{\"text\":\"y\",\"n\":10}" },
          "y" },
        { { "{\"n\":0,\"text\":\"7\",\"a\":1}", "{\"text\":\"7\",\"n\":0,\"a\":1}",
            "{\"text\":\"7\",\"n\":0}" },
          "7" },
        { { "{\"n\":01,\"text\":\"y\",\"a\":1}", "{\"text\":\"y\",\"n\":01,\"a\":1}",
            "{\"text\":\"y\",\"n\":01}" },
          NULL },
        { { "{\"n\":,\"text\":\"y\",\"a\":1}", "{\"text\":\"y\",\"n\":,\"a\":1}",
            "{\"text\":\"y\",\"n\":}" },
          NULL },
        { { "{\"n\":-1,\"text\":\"y\",\"a\":1}", "{\"text\":\"y\",\"n\":-1,\"a\":1}",
            "{\"text\":\"y\",\"n\":1.5}" },
          NULL },
        { { "{\"n\":1234567890123456,\"text\":\"y\",\"a\":1}",
            "{\"text\":\"y\",\"n\":1234567890123456,\"a\":1}",
            "{\"text\":\"y\",\"n\":1234567890123456}" },
          NULL },
        { { "{\"n\":1,\"text\":\"\",\"a\":1}", "{\"text\":\"\",\"n\":1,\"a\":1}",
            "{\"text\":\"\",\"n\":1}" },
          NULL },
        { { "", "1", "{" }, NULL },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(learnt); i++) {
        for (size_t row = 0; row < WALDO__COUNT(rows); row++) {
            waldo__fast fast;
            waldo_str piece = WALDO__S("");

            waldo__fast_init(&fast);
            waldo__fast_learn(&fast, waldo__str(learnt[i]), EFFECT, "text", "n");
            assert_int_equal(waldo__fast_match(&fast, waldo__str(rows[row].json[i]), &piece),
                             rows[row].expected != NULL);
            assert_int_equal(piece.len, rows[row].expected != NULL ? 1 : 0);
            waldo__fast_free(&fast);
        }
    }
}

static void forgets(void **state)
{
    static const char first[] = "{\"content\":\"x\"}";
    waldo__fast fast;
    waldo_str piece;
    waldo__buf large = WALDO__BUF_INIT(1 << 20);

    (void)state;
    waldo__fast_init(&fast);
    assert_false(waldo__fast_match(&fast, waldo__str(first), &piece));
    waldo__fast_learn(&fast, waldo__str(first), EFFECT, "content", NULL);
    assert_true(waldo__fast_match(&fast, waldo__str(first), &piece));
    waldo__fast_learn(&fast, WALDO__S("{\"a\":1}"), EFFECT, "content", NULL);
    assert_false(waldo__fast_match(&fast, waldo__str(first), &piece));
    /* surroundings that are not worth keeping */
    waldo__buf_puts(&large, "{\"a\":\"");
    for (int i = 0; i < 5000; i++) {
        waldo__buf_putc(&large, 'a');
    }
    waldo__buf_puts(&large, "\",\"content\":\"x\"}");
    waldo__fast_learn(&fast, waldo__buf_str(&large), EFFECT, "content", NULL);
    assert_false(waldo__fast_match(&fast, waldo__buf_str(&large), &piece));
    waldo__fast_learn(&fast, waldo__str(first), EFFECT, "content", NULL);
    assert_true(waldo__fast_match(&fast, waldo__str(first), &piece));
    waldo__fast_free(&fast);
    waldo__buf_free(&large);
}

/* ---- the same outcome with and without ---- */

/* %s is where the piece goes, @ becomes the number of the event. */
static const char *const chat_events[] = {
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

#define RESPONSES(type, rest) "{\"type\":\"response." type "\",\"sequence_number\":@," rest "}"
#define DELTA(n, rest)                                                                             \
    "{\"type\":\"content_block_delta\",\"index\":" n ",\"delta\":{\"type\":" rest "}}"

static const char *const responses_events[] = {
    RESPONSES("output_text.delta", "\"output_index\":0,\"content_index\":0,\"delta\":\"%s\""),
    RESPONSES("output_text.delta", "\"output_index\":0,\"content_index\":1,\"delta\":\"%s\""),
    RESPONSES("output_text.delta", "\"item_id\":\"m\",\"delta\":\"%s\",\"logprobs\":[]"),
    "{\"type\":\"response.output_text.delta\",\"output_index\":3,\"delta\":\"%s\","
    "\"sequence_number\":@,\"obfuscation\":\"x\"}",
    RESPONSES("output_text.done", "\"output_index\":0,\"content_index\":1,\"text\":\"%s\""),
    RESPONSES("refusal.delta", "\"output_index\":0,\"content_index\":0,\"delta\":\"%s\""),
    RESPONSES("reasoning_summary_text.delta",
              "\"output_index\":1,\"summary_index\":0,\"delta\":\"%s\""),
    RESPONSES("reasoning_summary_text.delta",
              "\"output_index\":1,\"summary_index\":1,\"delta\":\"%s\""),
    RESPONSES("function_call_arguments.delta", "\"output_index\":2,\"delta\":\"%s\""),
    RESPONSES("function_call_arguments.done", "\"output_index\":2,\"arguments\":\"%s\""),
    RESPONSES("output_item.added", "\"output_index\":2,\"item\":{\"type\":\"function_call\","
                                   "\"name\":\"f\",\"call_id\":\"c%s\"}"),
    RESPONSES("output_item.done", "\"output_index\":0,\"item\":{\"type\":\"message\","
                                  "\"content\":[{\"type\":\"output_text\",\"text\":\"%s\"}]}"),
};

static const char *const messages_events[] = {
    DELTA("0", "\"text_delta\",\"text\":\"%s\""),
    DELTA("1", "\"text_delta\",\"text\":\"%s\""),
    DELTA("0", "\"thinking_delta\",\"thinking\":\"%s\""),
    DELTA("1", "\"signature_delta\",\"signature\":\"%s\""),
    DELTA("2", "\"input_json_delta\",\"partial_json\":\"%s\""),
    DELTA("2", "\"citations_delta\",\"citation\":{\"text\":\"%s\"}"),
    "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}",
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
    "\"text\":\"%s\"}}",
    "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\","
    "\"id\":\"c%s\",\"name\":\"f\",\"input\":{}}}",
    "{\"type\":\"message_start\",\"message\":{\"id\":\"m%s\"}}",
};

static const struct {
    const char *model;
    const char *const *events;
    size_t count;
    const char *end;
} dialects[] = {
    { "chat:http://h#m", chat_events, WALDO__COUNT(chat_events),
      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" },
    { "openai:http://h#m", responses_events, WALDO__COUNT(responses_events),
      "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n" },
    { "anthropic:http://h#m", messages_events, WALDO__COUNT(messages_events),
      "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"
      "data: {\"type\":\"message_stop\"}\n\n" },
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

/* One event; blanks of its own make it different from those before it. */
static void add_event(const char *event, const char *text, unsigned number, int spread,
                      waldo__buf *body)
{
    const char *at = strstr(event, "%s");
    waldo__buf json = WALDO__BUF_INIT(1 << 16);

    waldo__buf_printf(&json, "{%*s%.*s%s%s", spread ? (int)number : 0, "", (int)(at - event - 1),
                      event + 1, text, at + 2);
    waldo__buf_puts(body, "data: ");
    for (size_t i = 0; i < json.len; i++) {
        if (json.ptr[i] == '@') {
            waldo__buf_printf(body, "%u", number);
        } else {
            waldo__buf_putc(body, json.ptr[i]);
        }
    }
    waldo__buf_puts(body, "\n\n");
    waldo__buf_free(&json);
}

/* A stream of like events. */
static void make_body(size_t dialect, unsigned seed, int spread, waldo__buf *body)
{
    unsigned event = 0;

    for (unsigned i = 0; i < 60; i++) {
        unsigned piece = next_random(&seed) % WALDO__COUNT(strings);
        const char *text = strings[piece];

        if (next_random(&seed) % 5 == 0) {
            event = next_random(&seed) % (unsigned)dialects[dialect].count;
        }
        if (next_random(&seed) % 150 == 0) {
            text = hostile[next_random(&seed) % WALDO__COUNT(hostile)];
        }
        add_event(dialects[dialect].events[event], text, i, spread, body);
    }
    waldo__buf_puts(body, dialects[dialect].end);
}

/* An error's message quotes what was sent, blanks and all: only its name is compared. */
static void outcome(size_t dialect, unsigned seed, int spread, waldo__buf *out)
{
    waldo_model_options options = { .size = sizeof options, .model = dialects[dialect].model };
    waldo__buf body = WALDO__BUF_INIT(1 << 20);
    size_t failure;

    make_body(dialect, seed, spread, &body);
    read_answer(&options, "text/event-stream", waldo__buf_str(&body), (read_cuts){ 0 }, out);
    failure = waldo__str_search(waldo__buf_str(out), WALDO__S("WALDO_E"), 0);
    if (failure < out->len) {
        size_t end = waldo__str_search(waldo__buf_str(out), WALDO__S(" "), failure);

        waldo__buf_truncate(out, end);
    }
    waldo__buf_free(&body);
}

static void same_outcomes(size_t dialect)
{
    size_t failures = 0, answers = 0;

    for (unsigned seed = 0; seed < 2000; seed++) {
        waldo__buf fast = WALDO__BUF_INIT(1 << 20), slow = WALDO__BUF_INIT(1 << 20);

        outcome(dialect, seed, 0, &fast);
        outcome(dialect, seed, 1, &slow);
        assert_string_equal(waldo__buf_str(&fast).ptr, waldo__buf_str(&slow).ptr);
        failures += waldo__str_search(waldo__buf_str(&fast), WALDO__S("WALDO_E"), 0) < fast.len;
        answers += waldo__str_search(waldo__buf_str(&fast), WALDO__S("\nfinish "), 0) < fast.len;
        waldo__buf_free(&fast);
        waldo__buf_free(&slow);
    }
    assert_true(failures > 200 && answers > 200);
}

static void same_outcome(void **state)
{
    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(dialects); i++) {
        same_outcomes(i);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),  cmocka_unit_test(not_learnt),   cmocka_unit_test(counted),
        cmocka_unit_test(forgets), cmocka_unit_test(same_outcome),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
