/*
 * Checking tool arguments against the subset of JSON schema that is enforced: type, enum, required,
 * properties, additionalProperties (boolean), items, minimum, maximum, minLength, maxLength. The
 * rest of a schema is passed to the model and not checked. An integer is one within +-2^53: more
 * would reach the tool as another number.
 */
#ifndef WALDO_JSON_SCHEMA_H
#define WALDO_JSON_SCHEMA_H

#include "json/json.h"

/*
 * WALDO_EINVAL with a sentence for the model, such as "order_id: expected a string, got a number".
 */
waldo_status waldo__schema_check(const waldo__json_value *schema, const waldo__json_value *value,
                                 waldo_error **ret_err);

/*
 * Would vendors that hold a model to a schema take this one: does every object in it name all its
 * members as required, and allow no others? words: the keywords that they take, each
 * NUL-terminated, then an empty one; NULL: all. When memory was out 0, and *ret_status says so; it
 * is otherwise untouched.
 */
int waldo__schema_is_strict(waldo_str schema, const char *words, waldo_status *ret_status);

/* Is this a schema a tool may have: valid JSON, an object with "type":"object"? */
waldo_status waldo__schema_valid(waldo_str schema, waldo_error **ret_err);

#endif
