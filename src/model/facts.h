/*
 * What is known about models besides what their servers say: sizes and prices, from a list that the
 * host may replace. Pure; a list is immutable once it is made.
 */
#ifndef WALDO_MODEL_FACTS_H
#define WALDO_MODEL_FACTS_H

#include <stdint.h>

#include "base/str.h"
#include <waldo/error.h>
#include <waldo/event.h>

typedef struct waldo__facts waldo__facts;

/* -1 where it is not known. Prices are micro-units of the list's currency for a million tokens. */
typedef struct waldo__model_facts {
    int64_t window;     /* tokens of prompt and answer together */
    int64_t max_output; /* tokens of one answer */
    int64_t input;
    int64_t cached_input; /* of prompt tokens read from a cache; input's when it is not given */
    int64_t output;
    int64_t cache_write; /* of prompt tokens written to a cache; input's when it is not given */
    int64_t long_from;   /* longer prompts have other prices; 0: there are none */
    int64_t long_input;  /* percent of input, cached_input and cache_write */
    int64_t long_output; /* percent of output */
} waldo__model_facts;

/*
 * Read a list; json NULL: the built-in one, which needs no reading. WALDO_EJSON and such for what
 * is no JSON, WALDO_EINVAL for anything in it that is not as docs/models.md says; both name the
 * place.
 */
waldo_status waldo__facts_new(const char *json, waldo__facts **ret_facts, waldo_error **ret_err);
void waldo__facts_free(waldo__facts *facts);

/* The first row a pattern of which matches the model string; all unknown when none does. */
waldo__model_facts waldo__facts_find(const waldo__facts *facts, const char *model);

int waldo__facts_has_prices(const waldo__model_facts *facts);

/* What so many tokens cost in micro-units, rounded up; -1 when a price or a count is unknown. */
int64_t waldo__facts_cost(const waldo__model_facts *facts, const waldo_usage *usage);

/*
 * Made from facts.json by facts.py: the patterns of each row, with a NUL behind the last; and of
 * each row where its numbers are, in the order of waldo__model_facts. UINT32_MAX is -1.
 */
enum { WALDO__MODEL_FACTS = 9, WALDO__FACTS_PATTERN_MAX = 128 };
extern const char waldo__facts_patterns[];
extern const uint32_t waldo__facts_numbers[];
extern const uint8_t waldo__facts_rows[][WALDO__MODEL_FACTS];

/* The pattern at this place takes that of the one before; returns what follows it. */
const char *waldo__facts_next_pattern(const char *at, char pattern[WALDO__FACTS_PATTERN_MAX]);

#endif
