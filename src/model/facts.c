#include "model/facts.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "json/json.h"

enum { PER = 1000 * 1000, PERCENT = 100, PERCENT_MAX = 1000 };

/* Larger ones are taken for mistakes, and sums of them fit into 63 bits. */
static const int64_t most = 1000LL * PER * 1000;

typedef struct row {
    char *match;
    waldo__model_facts facts;
} row;

struct waldo__facts {
    WALDO__VEC(row);
    int is_builtin;
};

static const struct {
    const char *name;
    size_t offset;
} members[] = {
    { "window", offsetof(waldo__model_facts, window) },
    { "max_output", offsetof(waldo__model_facts, max_output) },
    { "input", offsetof(waldo__model_facts, input) },
    { "cached_input", offsetof(waldo__model_facts, cached_input) },
    { "output", offsetof(waldo__model_facts, output) },
    { "cache_write", offsetof(waldo__model_facts, cache_write) },
    { "long_from", offsetof(waldo__model_facts, long_from) },
    { "long_input", offsetof(waldo__model_facts, long_input) },
    { "long_output", offsetof(waldo__model_facts, long_output) },
};

static const waldo__model_facts unknown = { -1, -1, -1, -1, -1, -1, 0, 0, 0 };

/* What a cache costs when nothing is said of it. */
static void fill_in(waldo__model_facts *facts)
{
    if (facts->cached_input < 0) {
        facts->cached_input = facts->input;
    }
    if (facts->cache_write < 0) {
        facts->cache_write = facts->input;
    }
}

/* ---- reading ---- */

static waldo_status refuse(size_t index, const char *member, const char *what,
                           waldo_error **ret_err)
{
    return waldo__error_invalid(ret_err, "model facts: entry %zu: \"%.64s\" %s", index, member,
                                what);
}

static waldo_status read_member(const waldo__json_value *value, size_t index,
                                waldo__model_facts *into, waldo_error **ret_err)
{
    const char *key = waldo__json_key(value);
    int64_t number;

    for (size_t i = 0; i < WALDO__COUNT(members); i++) {
        if (strcmp(members[i].name, key) != 0) {
            continue;
        }
        if (!waldo__json_int(value, &number) || number < 0 || number > most) {
            return refuse(index, key, "is not a whole number from 0 to 10^12", ret_err);
        }
        *(int64_t *)((char *)into + members[i].offset) = number;
        return WALDO_OK;
    }
    return strcmp(key, "match") == 0
               ? WALDO_OK
               : refuse(index, key,
                        "is not known: match, window, max_output, input, cached_input, "
                        "cache_write, output, long_from, long_input and long_output are",
                        ret_err);
}

/* Prices that do not go with each other are refused. */
static waldo_status check(const waldo__model_facts *facts, size_t index, waldo_error **ret_err)
{
    int has_prices = facts->input >= 0;
    int has_long = facts->long_from > 0;

    if (has_prices != (facts->output >= 0) ||
        (!has_prices && (facts->cached_input >= 0 || facts->cache_write >= 0))) {
        return refuse(index, "input", "and \"output\" are given together or not at all", ret_err);
    }
    if (has_long != (facts->long_input > 0) || has_long != (facts->long_output > 0) ||
        (has_long && !has_prices) || facts->long_input > PERCENT_MAX ||
        facts->long_output > PERCENT_MAX) {
        return refuse(index, "long_from",
                      "comes with prices and with \"long_input\" and \"long_output\", which are "
                      "percent of them, from 1 to 1000",
                      ret_err);
    }
    return WALDO_OK;
}

static waldo_status add_row(waldo__facts *facts, const waldo__json_value *match,
                            const waldo__model_facts *found, size_t index, waldo_error **ret_err)
{
    waldo_str text;
    row *slot;

    if (!waldo__json_str(match, &text) || text.len == 0) {
        return refuse(index, "match", "is missing: write a model string such as openai:NAME*",
                      ret_err);
    }
    slot = WALDO__VEC_PUSH(facts);
    if (slot == NULL) {
        return waldo__error_nomem(ret_err);
    }
    *slot = (row){ .match = waldo__strndup(text.ptr, text.len), .facts = *found };
    return slot->match != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

static waldo_status read_row(waldo__facts *facts, const waldo__json_value *entry, size_t index,
                             waldo_error **ret_err)
{
    const waldo__json_value *match = waldo__json_get(entry, "match");
    int is_list =
        waldo__json_type_of(match) == WALDO__JSON_ARRAY && waldo__json_first(match) != NULL;
    waldo__model_facts found = unknown;
    waldo_status status = WALDO_OK;

    for (const waldo__json_value *value = waldo__json_first(entry);
         value != NULL && status == WALDO_OK; value = waldo__json_next(value)) {
        status = read_member(value, index, &found, ret_err);
    }
    if (status == WALDO_OK) {
        status = check(&found, index, ret_err);
    }
    fill_in(&found);
    if (is_list) {
        match = waldo__json_first(match);
    }
    while (status == WALDO_OK) {
        status = add_row(facts, match, &found, index, ret_err);
        match = is_list ? waldo__json_next(match) : NULL;
        if (match == NULL) {
            break;
        }
    }
    return status;
}

static waldo_status read_list(waldo__facts *facts, const waldo__json_value *root,
                              waldo_error **ret_err)
{
    const waldo__json_value *models = waldo__json_get(root, "models");
    waldo_status status = WALDO_OK;
    size_t index = 0;

    if (waldo__json_type_of(models) != WALDO__JSON_ARRAY) {
        return waldo__error_invalid(ret_err, "model facts: no array \"models\" in them");
    }
    for (const waldo__json_value *entry = waldo__json_first(models);
         entry != NULL && status == WALDO_OK; entry = waldo__json_next(entry)) {
        status = read_row(facts, entry, ++index, ret_err);
    }
    return status;
}

/* The parser's own error, with what it was about in front. */
static waldo_status bad_json(waldo_status status, waldo_error *error, waldo_error **ret_err)
{
    if (status == WALDO_ENOMEM) {
        waldo__error_nomem(ret_err);
    } else {
        waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "model facts: %s",
                        waldo_error_message(error));
    }
    waldo_error_free(error);
    return status;
}

static waldo_status read_text(waldo__facts *facts, waldo_str text, waldo_error **ret_err)
{
    waldo_error *error = NULL;
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(text, NULL, &doc, &error);

    status = status != WALDO_OK ? bad_json(status, error, ret_err)
                                : read_list(facts, waldo__json_root(doc), ret_err);
    waldo__json_free(doc);
    return status;
}

waldo_status waldo__facts_new(const char *json, waldo__facts **ret_facts, waldo_error **ret_err)
{
    waldo__facts *facts = WALDO__NEW(waldo__facts);
    waldo_status status = WALDO_OK;

    if (facts == NULL) {
        return waldo__error_nomem(ret_err);
    }
    facts->is_builtin = json == NULL;
    if (json != NULL) {
        status = read_text(facts, waldo__str(json), ret_err);
    }
    if (status != WALDO_OK) {
        waldo__facts_free(facts);
        return status;
    }
    *ret_facts = facts;
    return WALDO_OK;
}

void waldo__facts_free(waldo__facts *facts)
{
    if (facts != NULL) {
        for (size_t i = 0; i < facts->count; i++) {
            waldo__free(facts->at[i].match);
        }
        WALDO__VEC_FREE(facts);
        waldo__free(facts);
    }
}

/* ---- looking up ---- */

/* A star stands for any text, the rest for itself; going back to the last star is enough. */
static int matches(const char *pattern, const char *text)
{
    const char *star = NULL, *again = NULL;

    while (*text != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            again = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++again;
        } else {
            return 0;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

/* One byte more than are the same as before, then the others and a NUL. */
const char *waldo__facts_next_pattern(const char *at, char pattern[WALDO__FACTS_PATTERN_MAX])
{
    size_t same = (unsigned char)*at++ - 1u;
    size_t len = strlen(at) + 1;

    memcpy(pattern + same, at, len);
    return at + len;
}

static int64_t unpack(uint8_t place)
{
    uint32_t number = waldo__facts_numbers[place];

    return number != UINT32_MAX ? (int64_t)number : -1;
}

static waldo__model_facts find_builtin(const char *model)
{
    const char *match = waldo__facts_patterns;
    char pattern[WALDO__FACTS_PATTERN_MAX];

    for (const uint8_t *at = waldo__facts_rows[0]; *match != '\0';
         at += WALDO__MODEL_FACTS, match++) {
        int is_found = 0;

        while (*match != '\0') {
            match = waldo__facts_next_pattern(match, pattern);
            is_found |= matches(pattern, model);
        }
        if (is_found) {
            waldo__model_facts facts = { unpack(at[0]), unpack(at[1]), unpack(at[2]),
                                         unpack(at[3]), unpack(at[4]), unpack(at[5]),
                                         unpack(at[6]), unpack(at[7]), unpack(at[8]) };

            fill_in(&facts);
            return facts;
        }
    }
    return unknown;
}

waldo__model_facts waldo__facts_find(const waldo__facts *facts, const char *model)
{
    if (facts != NULL && facts->is_builtin) {
        return find_builtin(model);
    }
    for (size_t i = 0; facts != NULL && i < facts->count; i++) {
        if (matches(facts->at[i].match, model)) {
            return facts->at[i].facts;
        }
    }
    return unknown;
}

int waldo__facts_has_prices(const waldo__model_facts *facts)
{
    return facts->input >= 0 && facts->output >= 0;
}

static int64_t scaled(int64_t price, int64_t percent)
{
    int64_t result = price * percent / PERCENT;

    return result < most ? result : most;
}

static int64_t within(int64_t count, int64_t limit)
{
    return count < 0 ? 0 : count < limit ? count : limit;
}

int64_t waldo__facts_cost(const waldo__model_facts *facts, const waldo_usage *usage)
{
    int is_long = facts->long_from > 0 && usage->input_tokens > facts->long_from;
    int64_t in = is_long ? facts->long_input : PERCENT;
    int64_t out = is_long ? facts->long_output : PERCENT;
    int64_t cached = within(usage->cached_tokens, usage->input_tokens);
    int64_t written = within(usage->cache_write_tokens, usage->input_tokens - cached);
    const int64_t counts[] = { usage->input_tokens - cached - written, cached, written,
                               usage->output_tokens };
    const int64_t prices[] = { scaled(facts->input, in), scaled(facts->cached_input, in),
                               scaled(facts->cache_write, in), scaled(facts->output, out) };
    int64_t whole = 0, rest = 0;

    if (!waldo__facts_has_prices(facts) || usage->input_tokens < 0 || usage->output_tokens < 0) {
        return -1;
    }
    for (size_t i = 0; i < WALDO__COUNT(counts); i++) {
        int64_t count = counts[i] < most ? counts[i] : most;

        whole += count / PER * prices[i];
        rest += count % PER * prices[i];
    }
    return whole + rest / PER + (rest % PER != 0);
}
