/* The check that a document passes before cJSON sees it. Private to src/json. */
#ifndef WALDO_JSON_CHECK_H
#define WALDO_JSON_CHECK_H

#include "base/vec.h"
#include "json/json.h"

/* Printing keeps a pointer a level on the stack, and cJSON recurses, at most to level 1000. */
enum { WALDO__JSON_DEEPEST = 512 };

/* A number whose text a double or cJSON's printing might change: its place among all numbers. */
typedef struct waldo__json_odd {
    size_t ordinal;
    size_t at;
    size_t len;
} waldo__json_odd;

typedef struct waldo__json_checked {
    struct {
        WALDO__VEC(waldo__json_odd);
    } odd;
    waldo__buf repaired; /* a copy with lone surrogates replaced, when there were any */
    const char *problem; /* on failure: what, and the offset where */
    size_t where;
} waldo__json_checked;

/* limits has no zeroes. Call waldo__json_checked_free() in both outcomes. */
waldo_status waldo__json_check(waldo_str text, const waldo__json_limits *limits,
                               waldo__json_checked *ret_checked);
void waldo__json_checked_free(waldo__json_checked *checked);

#endif
