#include "model/facts.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "json/json.h"

enum { PER = 1000 * 1000 };

/* Larger ones are taken for mistakes, and sums of them fit into 63 bits. */
static const int64_t most = 1000LL * PER * 1000;

typedef struct row {
    char *match;
    waldo__model_facts facts;
} row;

struct waldo__facts {
    WALDO__VEC(row);
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
};

static const waldo__model_facts unknown = { -1, -1, -1, -1, -1 };

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
                        "is not known: match, window, max_output, input, cached_input and output "
                        "are",
                        ret_err);
}

static waldo_status read_row(waldo__facts *facts, const waldo__json_value *entry, size_t index,
                             waldo_error **ret_err)
{
    waldo__model_facts found = unknown;
    waldo_str match = waldo__json_get_str(entry, "match");
    waldo_status status = WALDO_OK;
    row *slot;

    if (match.len == 0) {
        return refuse(index, "match", "is missing: write a model string such as openai:NAME*",
                      ret_err);
    }
    for (const waldo__json_value *value = waldo__json_first(entry);
         value != NULL && status == WALDO_OK; value = waldo__json_next(value)) {
        status = read_member(value, index, &found, ret_err);
    }
    if (status != WALDO_OK) {
        return status;
    }
    if ((found.input < 0) != (found.output < 0) || (found.cached_input >= 0 && found.input < 0)) {
        return refuse(index, "input", "and \"output\" are given together or not at all", ret_err);
    }
    if (found.cached_input < 0) {
        found.cached_input = found.input;
    }
    slot = WALDO__VEC_PUSH(facts);
    if (slot == NULL) {
        return waldo__error_nomem(ret_err);
    }
    *slot = (row){ .match = waldo__strndup(match.ptr, match.len), .facts = found };
    return slot->match != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
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

waldo_status waldo__facts_new(const char *json, waldo__facts **ret_facts, waldo_error **ret_err)
{
    waldo__facts *facts = WALDO__NEW(waldo__facts);
    waldo_str text =
        json != NULL ? waldo__str(json)
                     : waldo__strn((const char *)waldo__facts_builtin, waldo__facts_builtin_len);
    waldo_error *error = NULL;
    waldo__json *doc = NULL;
    waldo_status status;

    if (facts == NULL) {
        return waldo__error_nomem(ret_err);
    }
    status = waldo__json_parse(text, NULL, &doc, &error);
    if (status != WALDO_OK) {
        bad_json(status, error, ret_err);
    } else {
        status = read_list(facts, waldo__json_root(doc), ret_err);
    }
    waldo__json_free(doc);
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

waldo__model_facts waldo__facts_find(const waldo__facts *facts, const char *model)
{
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

int64_t waldo__facts_cost(const waldo__model_facts *facts, const waldo_usage *usage)
{
    int64_t cached = usage->cached_tokens > 0 ? usage->cached_tokens : 0, whole = 0, rest = 0;
    int64_t counts[] = { 0, cached, usage->output_tokens };
    const int64_t prices[] = { facts->input, facts->cached_input, facts->output };

    if (!waldo__facts_has_prices(facts) || usage->input_tokens < 0 || usage->output_tokens < 0) {
        return -1;
    }
    counts[1] = cached < usage->input_tokens ? cached : usage->input_tokens;
    counts[0] = usage->input_tokens - counts[1];
    for (size_t i = 0; i < WALDO__COUNT(counts); i++) {
        int64_t count = counts[i] < most ? counts[i] : most;

        whole += count / PER * prices[i];
        rest += count % PER * prices[i];
    }
    return whole + rest / PER + (rest % PER != 0);
}
