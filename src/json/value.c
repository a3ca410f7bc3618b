/* Reading and printing the values of a parsed document. */
#include <cjson/cJSON.h>
#include <math.h>

#include "json/check.h"

#define EXACT_MAX (INT64_C(1) << 53)

/* A value is a cJSON item; a number whose text must be kept has it as its valuestring. */
static const cJSON *item_of(const waldo__json_value *value)
{
    return (const cJSON *)value;
}

/* As libcJSON's functions say it, without a call of the library for each. */
static int is(const cJSON *item, int kinds)
{
    return item != NULL && (item->type & kinds) != 0;
}

waldo__json_type waldo__json_type_of(const waldo__json_value *value)
{
    static const struct {
        int cjson;
        waldo__json_type type;
    } types[] = {
        { cJSON_String, WALDO__JSON_STRING }, { cJSON_Object, WALDO__JSON_OBJECT },
        { cJSON_Number, WALDO__JSON_NUMBER }, { cJSON_Array, WALDO__JSON_ARRAY },
        { cJSON_NULL, WALDO__JSON_NULL },     { cJSON_True, WALDO__JSON_BOOL },
        { cJSON_False, WALDO__JSON_BOOL },
    };
    int kind = value != NULL ? item_of(value)->type & 0xff : cJSON_Invalid;

    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if (types[i].cjson == kind) {
            return types[i].type;
        }
    }
    return WALDO__JSON_NONE;
}

static const waldo__json_value *member(const waldo__json_value *object, waldo_str key)
{
    char first = key.len > 0 ? key.ptr[0] : '\0'; /* most members differ in it */

    if (!is(item_of(object), cJSON_Object)) {
        return NULL;
    }
    for (const cJSON *at = item_of(object)->child; at != NULL; at = at->next) {
        if (*at->string == first && strncmp(at->string, key.ptr, key.len) == 0 &&
            at->string[key.len] == '\0') {
            return (const waldo__json_value *)at;
        }
    }
    return NULL;
}

const waldo__json_value *waldo__json_get(const waldo__json_value *object, const char *key)
{
    return member(object, waldo__str(key));
}

static const waldo__json_value *element(const waldo__json_value *array, waldo_str position)
{
    const waldo__json_value *at = waldo__json_first(array);
    int64_t index;

    if (!waldo__str_int(position, &index) || index < 0) {
        return NULL;
    }
    while (at != NULL && index-- > 0) {
        at = waldo__json_next(at);
    }
    return at;
}

const waldo__json_value *waldo__json_path(const waldo__json_value *value, const char *dotted)
{
    waldo_str rest = waldo__str(dotted), part;

    while (value != NULL && waldo__str_split(&rest, '.', &part)) {
        value = is(item_of(value), cJSON_Array) ? element(value, part) : member(value, part);
    }
    return value;
}

const waldo__json_value *waldo__json_first(const waldo__json_value *container)
{
    return container != NULL ? (const waldo__json_value *)item_of(container)->child : NULL;
}

const waldo__json_value *waldo__json_next(const waldo__json_value *element)
{
    return element != NULL ? (const waldo__json_value *)item_of(element)->next : NULL;
}

const char *waldo__json_key(const waldo__json_value *member)
{
    return member != NULL ? item_of(member)->string : NULL;
}

size_t waldo__json_count(const waldo__json_value *container)
{
    size_t count = 0;

    for (const waldo__json_value *at = waldo__json_first(container); at != NULL;
         at = waldo__json_next(at)) {
        count++;
    }
    return count;
}

/* Strings hold no NUL: the check refuses them. */
int waldo__json_str(const waldo__json_value *value, waldo_str *ret)
{
    if (!is(item_of(value), cJSON_String)) {
        return 0;
    }
    *ret = waldo__str(item_of(value)->valuestring);
    return 1;
}

/* The exponent of a number's text; far beyond any whole number of interest it stays there. */
static int exponent(const char *text)
{
    const char *at = text + strcspn(text, "eE");
    int negative, value = 0;

    if (*at == '\0') {
        return 0;
    }
    negative = *++at == '-';
    at += *at == '-' || *at == '+';
    for (; *at != '\0' && value < 1000; at++) {
        value = value * 10 + (*at - '0');
    }
    return negative ? -value : value;
}

/*
 * The exact value of a number's text when it is whole, also as 1.50e1. Zeroes at the end of the
 * digits are held back, as they may stand behind the point.
 */
static int exact_int(const char *text, int64_t *ret)
{
    int negative = *text == '-', power = exponent(text), zeroes = 0, behind = 0;
    int64_t value = 0;

    for (const char *at = text + negative; *at != '\0' && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            behind = 1;
            continue;
        }
        power -= behind;
        if (*at == '0') {
            zeroes++;
            continue;
        }
        for (; value != 0 && zeroes > 0; zeroes--) {
            if (__builtin_mul_overflow(value, 10, &value)) {
                return 0;
            }
        }
        zeroes = 0;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value)) {
            return 0;
        }
    }
    power += zeroes;
    for (; value != 0 && power > 0; power--) {
        if (__builtin_mul_overflow(value, 10, &value)) {
            return 0;
        }
    }
    if (value > EXACT_MAX || (value != 0 && power < 0)) {
        return 0;
    }
    *ret = negative ? -value : value;
    return 1;
}

int waldo__json_int(const waldo__json_value *value, int64_t *ret)
{
    const cJSON *item = item_of(value);

    if (!is(item, cJSON_Number)) {
        return 0;
    }
    if (item->valuestring != NULL) {
        return exact_int(item->valuestring, ret);
    }
    *ret = (int64_t)item->valuedouble;
    return 1;
}

int waldo__json_num(const waldo__json_value *value, double *ret)
{
    if (!is(item_of(value), cJSON_Number) || !isfinite(item_of(value)->valuedouble)) {
        return 0;
    }
    *ret = item_of(value)->valuedouble;
    return 1;
}

int waldo__json_bool(const waldo__json_value *value, int *ret)
{
    if (!is(item_of(value), cJSON_False | cJSON_True)) {
        return 0;
    }
    *ret = is(item_of(value), cJSON_True);
    return 1;
}

waldo_str waldo__json_get_str(const waldo__json_value *object, const char *key)
{
    waldo_str text = WALDO__S("");

    waldo__json_str(waldo__json_get(object, key), &text);
    return text;
}

int64_t waldo__json_get_int(const waldo__json_value *object, const char *key, int64_t fallback)
{
    waldo__json_int(waldo__json_get(object, key), &fallback);
    return fallback;
}

int waldo__json_get_bool(const waldo__json_value *object, const char *key, int fallback)
{
    waldo__json_bool(waldo__json_get(object, key), &fallback);
    return fallback;
}

static void print_string(const char *text, waldo__buf *out)
{
    waldo__buf_putc(out, '"');
    waldo__json_escape(waldo__str(text), out);
    waldo__buf_putc(out, '"');
}

/* Anything but a container with something in it. */
static void print_leaf(const cJSON *item, waldo__buf *out)
{
    if (is(item, cJSON_String)) {
        print_string(item->valuestring, out);
    } else if (is(item, cJSON_Number) && item->valuestring != NULL) {
        waldo__buf_puts(out, item->valuestring);
    } else if (is(item, cJSON_Number)) {
        waldo__buf_printf(out, "%lld", (long long)item->valuedouble);
    } else if (is(item, cJSON_False | cJSON_True)) {
        waldo__buf_puts(out, is(item, cJSON_True) ? "true" : "false");
    } else if (is(item, cJSON_Object)) {
        waldo__buf_puts(out, "{}");
    } else {
        waldo__buf_puts(out, is(item, cJSON_Array) ? "[]" : "null");
    }
}

waldo_status waldo__json_print(const waldo__json_value *value, waldo__buf *out)
{
    const cJSON *parents[WALDO__JSON_DEEPEST];
    const cJSON *item = item_of(value);
    size_t depth = 0;

    while (out->status == WALDO_OK) {
        if (depth > 0 && is(parents[depth - 1], cJSON_Object)) {
            print_string(item->string, out);
            waldo__buf_putc(out, ':');
        }
        if (item != NULL && item->child != NULL) {
            waldo__buf_putc(out, is(item, cJSON_Object) ? '{' : '[');
            parents[depth++] = item;
            item = item->child;
            continue;
        }
        print_leaf(item, out);
        while (depth > 0 && item->next == NULL) {
            item = parents[--depth];
            waldo__buf_putc(out, is(item, cJSON_Object) ? '}' : ']');
        }
        if (depth == 0) {
            break;
        }
        waldo__buf_putc(out, ',');
        item = item->next;
    }
    return out->status;
}
