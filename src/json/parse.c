/* Documents: checked text goes through cJSON; the text of odd numbers is kept beside the tree. */
#include "json/json.h"

#include <cjson/cJSON.h>

#include "base/error.h"
#include "json/check.h"

enum { DEFAULT_DEPTH = 128, DEFAULT_BYTES = 64 << 20, DEFAULT_VALUES = 1000000 };

struct waldo__json {
    cJSON *root;
    char *numbers; /* texts with a NUL after each; valuestring of the numbers that are odd */
};

static waldo__json_limits effective(const waldo__json_limits *limits)
{
    waldo__json_limits result = limits != NULL ? *limits : (waldo__json_limits){ 0 };

    result.max_bytes = result.max_bytes != 0 ? result.max_bytes : DEFAULT_BYTES;
    result.max_depth = result.max_depth != 0 ? result.max_depth : DEFAULT_DEPTH;
    result.max_values = result.max_values != 0 ? result.max_values : DEFAULT_VALUES;
    if (result.max_depth > WALDO__JSON_DEEPEST) {
        result.max_depth = WALDO__JSON_DEEPEST;
    }
    return result;
}

/* The node after item in the order of the text, or NULL; parents are those on the way to it. */
static cJSON *next_node(cJSON *item, cJSON **parents, size_t *depth)
{
    if (item->child != NULL) {
        parents[(*depth)++] = item;
        return item->child;
    }
    while (*depth > 0 && item->next == NULL) {
        item = parents[--*depth];
    }
    return *depth > 0 ? item->next : NULL;
}

/* Hang the text of each odd number on its node, as a string that cJSON does not own. */
static waldo_status keep_numbers(waldo__json *doc, waldo_str text,
                                 const waldo__json_checked *checked)
{
    cJSON *parents[WALDO__JSON_DEEPEST], *item;
    size_t depth = 0, ordinal = 0, total = 0, next = 0;
    char *to;

    for (size_t i = 0; i < checked->odd.count; i++) {
        total += checked->odd.at[i].len + 1;
    }
    if (total == 0) {
        return WALDO_OK;
    }
    to = doc->numbers = waldo__zalloc(total);
    if (to == NULL) {
        return WALDO_ENOMEM;
    }
    for (item = doc->root; item != NULL && next < checked->odd.count;
         item = next_node(item, parents, &depth)) {
        const waldo__json_odd *odd = &checked->odd.at[next];

        if (cJSON_IsNumber(item) && ordinal++ == odd->ordinal) {
            memcpy(to, text.ptr + odd->at, odd->len);
            item->valuestring = to;
            item->type |= cJSON_IsReference;
            to += odd->len + 1;
            next++;
        }
    }
    return WALDO_OK;
}

static waldo_status build(waldo_str text, const waldo__json_checked *checked, waldo__json **ret_doc)
{
    waldo__json *doc = WALDO__NEW(waldo__json);
    waldo_str source = checked->repaired.len > 0 ? waldo__buf_str(&checked->repaired) : text;
    size_t mark = waldo__str_starts(source, "\xef\xbb\xbf") ? 3 : 0;

    if (doc == NULL) {
        return WALDO_ENOMEM;
    }
    /* The text is good, so that only memory can be missing. */
    doc->root = cJSON_ParseWithLengthOpts(source.ptr + mark, source.len - mark, NULL, 0);
    if (doc->root == NULL || keep_numbers(doc, text, checked) != WALDO_OK) {
        waldo__json_free(doc);
        return WALDO_ENOMEM;
    }
    *ret_doc = doc;
    return WALDO_OK;
}

waldo_status waldo__json_parse(waldo_str text, const waldo__json_limits *limits,
                               waldo__json **ret_doc, waldo_error **ret_err)
{
    waldo__json_limits used = effective(limits);
    waldo__json_checked checked;
    waldo_status status = waldo__json_check(text, &used, &checked);

    if (status == WALDO_OK) {
        status = build(text, &checked, ret_doc);
    }
    if (status == WALDO_ENOMEM) {
        waldo__error_nomem(ret_err);
    } else if (status != WALDO_OK) {
        waldo_error_set(ret_err, status, WALDO_CLASS_PROTOCOL, "JSON: %s at byte %zu",
                        checked.problem, checked.where);
    }
    waldo__json_checked_free(&checked);
    return status;
}

waldo_status waldo__json_parse_answer(waldo_str text, waldo__json **ret_doc, waldo_error **ret_err)
{
    const waldo__json_limits limits = { .allow_duplicates = 1, .repair_surrogates = 1 };

    return waldo__json_parse(text, &limits, ret_doc, ret_err);
}

/* Numbers may borrow their text; keys and strings are the tree's own. */
static void wipe_texts(cJSON *root)
{
    cJSON *parents[WALDO__JSON_DEEPEST];
    size_t depth = 0;

    for (cJSON *item = root; item != NULL; item = next_node(item, parents, &depth)) {
        if (cJSON_IsString(item)) {
            explicit_bzero(item->valuestring, strlen(item->valuestring));
        }
        if (item->string != NULL) {
            explicit_bzero(item->string, strlen(item->string));
        }
    }
}

void waldo__json_free(waldo__json *doc)
{
    if (doc != NULL) {
        wipe_texts(doc->root);
        cJSON_Delete(doc->root);
        waldo__free(doc->numbers);
        waldo__free(doc);
    }
}

const waldo__json_value *waldo__json_root(const waldo__json *doc)
{
    return doc != NULL ? (const waldo__json_value *)doc->root : NULL;
}
