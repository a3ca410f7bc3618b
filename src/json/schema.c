#include "json/schema.h"

#include <math.h>

#include "base/error.h"
#include "base/utf8.h"
#include "json/check.h"

enum { SHOWN_MAX = 80, MESSAGE_MAX = 2000 };

/* A value and the schema it has to obey; NULL: none. */
typedef struct pair {
    const waldo__json_value *value;
    const waldo__json_value *schema;
} pair;

/* The pairs from the whole value down to the one in work. */
typedef struct walk {
    pair at[WALDO__JSON_DEEPEST + 1];
    size_t depth;
    waldo__buf problem; /* "expected a string, got a number" */
} walk;

static const struct {
    const char *name;
    const char *phrase;
    waldo__json_type type;
} types[] = {
    { "string", "a string", WALDO__JSON_STRING },
    { "object", "an object", WALDO__JSON_OBJECT },
    { "array", "an array", WALDO__JSON_ARRAY },
    { "boolean", "a boolean", WALDO__JSON_BOOL },
    { "integer", "an integer", WALDO__JSON_NUMBER },
    { "number", "a number", WALDO__JSON_NUMBER },
    { "null", "null", WALDO__JSON_NULL },
};

/* What a value is, in the words of the table; the last entry that fits, so not "integer". */
static const char *phrase_of(const waldo__json_value *value)
{
    const char *phrase = "nothing";
    int64_t exact;
    double number;

    if (waldo__json_num(value, &number) && floor(number) == number &&
        !waldo__json_int(value, &exact)) {
        return "a number beyond +-2^53";
    }
    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        phrase = types[i].type == waldo__json_type_of(value) ? types[i].phrase : phrase;
    }
    return phrase;
}

/* Unknown type names are passed: they are the model's and the vendor's matter. */
static int has_type(const waldo__json_value *value, waldo_str name)
{
    int64_t exact;

    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if (waldo__str_is(name, types[i].name)) {
            return waldo__json_type_of(value) == types[i].type &&
                   (!waldo__str_is(name, "integer") || waldo__json_int(value, &exact));
        }
    }
    return 1;
}

static void add_type(waldo__buf *out, waldo_str name)
{
    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if (waldo__str_is(name, types[i].name)) {
            waldo__buf_puts(out, types[i].phrase);
        }
    }
}

/* "type" is a name or a list of names. */
static int check_type(walk *w, const pair *p)
{
    const waldo__json_value *wanted = waldo__json_get(p->schema, "type");
    const waldo__json_value *first =
        waldo__json_type_of(wanted) == WALDO__JSON_ARRAY ? waldo__json_first(wanted) : wanted;
    waldo_str name;

    for (const waldo__json_value *at = first; at != NULL; at = waldo__json_next(at)) {
        if (!waldo__json_str(at, &name) || has_type(p->value, name)) {
            return 1;
        }
        if (at == wanted) {
            break; /* whose neighbours are other keywords */
        }
    }
    if (first == NULL) {
        return 1;
    }
    waldo__buf_puts(&w->problem, "expected ");
    for (const waldo__json_value *at = first; at != NULL;
         at = at == wanted ? NULL : waldo__json_next(at)) {
        waldo__buf_puts(&w->problem, at == first ? "" : " or ");
        waldo__json_str(at, &name);
        add_type(&w->problem, name);
    }
    waldo__buf_printf(&w->problem, ", got %s", phrase_of(p->value));
    return 0;
}

/* Append a value as JSON, or the front of it. */
static void show(waldo__buf *out, const waldo__json_value *value)
{
    waldo__buf text = WALDO__BUF_INIT(MESSAGE_MAX);
    size_t len;

    waldo__json_print(value, &text);
    len = waldo__utf8_cut(waldo__buf_str(&text), SHOWN_MAX);
    waldo__buf_add(out, waldo__buf_str(&text).ptr, len);
    waldo__buf_puts(out, len < text.len ? "..." : "");
    waldo__buf_free(&text);
}

static int same_scalar(const waldo__json_value *a, const waldo__json_value *b)
{
    waldo_str text_a, text_b;
    double number_a, number_b;
    int truth_a, truth_b;

    if (waldo__json_type_of(a) != waldo__json_type_of(b)) {
        return 0;
    }
    if (waldo__json_str(a, &text_a) && waldo__json_str(b, &text_b)) {
        return waldo__str_eq(text_a, text_b);
    }
    if (waldo__json_num(a, &number_a) && waldo__json_num(b, &number_b)) {
        return number_a == number_b;
    }
    if (waldo__json_bool(a, &truth_a) && waldo__json_bool(b, &truth_b)) {
        return truth_a == truth_b;
    }
    return waldo__json_type_of(a) == WALDO__JSON_NULL;
}

/* Choices that are containers are not enforced. */
static int check_enum(walk *w, const pair *p)
{
    const waldo__json_value *choices = waldo__json_get(p->schema, "enum");

    if (waldo__json_type_of(choices) != WALDO__JSON_ARRAY) {
        return 1;
    }
    for (const waldo__json_value *at = waldo__json_first(choices); at != NULL;
         at = waldo__json_next(at)) {
        waldo__json_type type = waldo__json_type_of(at);

        if (type == WALDO__JSON_OBJECT || type == WALDO__JSON_ARRAY || same_scalar(at, p->value)) {
            return 1;
        }
    }
    waldo__buf_puts(&w->problem, "expected one of ");
    for (const waldo__json_value *at = waldo__json_first(choices); at != NULL;
         at = waldo__json_next(at)) {
        show(&w->problem, at);
        waldo__buf_puts(&w->problem, ", ");
    }
    waldo__buf_puts(&w->problem, "got ");
    show(&w->problem, p->value);
    return 0;
}

static int check_range(walk *w, const pair *p)
{
    double number, bound;

    if (!waldo__json_num(p->value, &number)) {
        return 1;
    }
    if (waldo__json_num(waldo__json_get(p->schema, "minimum"), &bound) && number < bound) {
        waldo__buf_printf(&w->problem, "must be at least %.15g, got ", bound);
    } else if (waldo__json_num(waldo__json_get(p->schema, "maximum"), &bound) && number > bound) {
        waldo__buf_printf(&w->problem, "must be at most %.15g, got ", bound);
    } else {
        return 1;
    }
    show(&w->problem, p->value);
    return 0;
}

/* Lengths count characters. */
static int check_length(walk *w, const pair *p)
{
    waldo_str text;
    int64_t bound, count = 0;

    if (!waldo__json_str(p->value, &text)) {
        return 1;
    }
    for (size_t i = 0; i < text.len; i++) {
        count += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    }
    if (waldo__json_int(waldo__json_get(p->schema, "minLength"), &bound) && count < bound) {
        waldo__buf_printf(&w->problem, "must have at least %lld characters, has %lld",
                          (long long)bound, (long long)count);
        return 0;
    }
    if (waldo__json_int(waldo__json_get(p->schema, "maxLength"), &bound) && count > bound) {
        waldo__buf_printf(&w->problem, "must have at most %lld characters, has %lld",
                          (long long)bound, (long long)count);
        return 0;
    }
    return 1;
}

static int check_required(walk *w, const pair *p)
{
    const waldo__json_value *names = waldo__json_get(p->schema, "required");
    waldo_str name;

    if (waldo__json_type_of(p->value) != WALDO__JSON_OBJECT) {
        return 1;
    }
    for (const waldo__json_value *at = waldo__json_first(names); at != NULL;
         at = waldo__json_next(at)) {
        if (waldo__json_str(at, &name) && waldo__json_get(p->value, name.ptr) == NULL) {
            waldo__buf_printf(&w->problem, "\"%s\" is required but missing", name.ptr);
            return 0;
        }
    }
    return 1;
}

static int check_extra(walk *w, const pair *p)
{
    const waldo__json_value *properties = waldo__json_get(p->schema, "properties");
    const char *separator = ", known are: ";

    if (waldo__json_type_of(p->value) != WALDO__JSON_OBJECT ||
        waldo__json_get_bool(p->schema, "additionalProperties", 1)) {
        return 1;
    }
    for (const waldo__json_value *at = waldo__json_first(p->value); at != NULL;
         at = waldo__json_next(at)) {
        if (waldo__json_get(properties, waldo__json_key(at)) != NULL) {
            continue;
        }
        waldo__buf_printf(&w->problem, "\"%.*s\" is not a known property",
                          (int)waldo__utf8_cut(waldo__str(waldo__json_key(at)), SHOWN_MAX),
                          waldo__json_key(at));
        for (at = waldo__json_first(properties); at != NULL; at = waldo__json_next(at)) {
            waldo__buf_printf(&w->problem, "%s%s", separator, waldo__json_key(at));
            separator = ", ";
        }
        return 0;
    }
    return 1;
}

static int check_one(walk *w, const pair *p)
{
    static int (*const checks[])(walk *, const pair *) = { check_type,     check_enum,
                                                           check_range,    check_length,
                                                           check_required, check_extra };

    for (size_t i = 0; i < WALDO__COUNT(checks); i++) {
        if (!checks[i](w, p)) {
            return 0;
        }
    }
    return 1;
}

/* What a member or element has to obey. */
static const waldo__json_value *schema_of(const pair *parent, const waldo__json_value *value)
{
    const char *key = waldo__json_key(value);

    return key != NULL ? waldo__json_get(waldo__json_get(parent->schema, "properties"), key)
                       : waldo__json_get(parent->schema, "items");
}

/* Go to the next pair that has a schema to obey, or not, in the order of the text; 0 at the end. */
static int advance(walk *w)
{
    pair *here = &w->at[w->depth];
    const waldo__json_value *next = here->schema != NULL ? waldo__json_first(here->value) : NULL;

    if (next != NULL && w->depth < WALDO__JSON_DEEPEST) {
        w->depth++;
    } else {
        while (w->depth > 0 && waldo__json_next(w->at[w->depth].value) == NULL) {
            w->depth--;
        }
        if (w->depth == 0) {
            return 0;
        }
        next = waldo__json_next(w->at[w->depth].value);
    }
    w->at[w->depth] = (pair){ next, schema_of(&w->at[w->depth - 1], next) };
    return 1;
}

/* "items[2].name: " in front of the problem. */
static void add_place(const walk *w, waldo__buf *out)
{
    for (size_t i = 1; i <= w->depth; i++) {
        const char *key = waldo__json_key(w->at[i].value);
        size_t index = 0;

        if (key != NULL) {
            waldo__buf_printf(out, "%s%s", i > 1 ? "." : "", key);
            continue;
        }
        for (const waldo__json_value *at = waldo__json_first(w->at[i - 1].value);
             at != w->at[i].value; at = waldo__json_next(at)) {
            index++;
        }
        waldo__buf_printf(out, "[%zu]", index);
    }
    waldo__buf_puts(out, w->depth > 0 ? ": " : "");
}

static waldo_status report(const walk *w, waldo_error **ret_err)
{
    waldo__buf text = WALDO__BUF_INIT(2 * MESSAGE_MAX);
    waldo_status status = WALDO_EINVAL;

    add_place(w, &text);
    waldo__buf_add_str(&text, waldo__buf_str(&w->problem));
    if (text.status == WALDO_ENOMEM || w->problem.status == WALDO_ENOMEM) {
        status = waldo__error_nomem(ret_err);
    } else {
        waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_TOOL, "%s%s", waldo__buf_str(&text).ptr,
                        text.status != WALDO_OK || w->problem.status != WALDO_OK ? " ..." : "");
    }
    waldo__buf_free(&text);
    return status;
}

waldo_status waldo__schema_check(const waldo__json_value *schema, const waldo__json_value *value,
                                 waldo_error **ret_err)
{
    walk w = { .problem = WALDO__BUF_INIT(MESSAGE_MAX) };
    waldo_status status = WALDO_OK;

    w.at[0] = (pair){ value, schema };
    do {
        if (!check_one(&w, &w.at[w.depth])) {
            status = report(&w, ret_err);
        }
    } while (status == WALDO_OK && advance(&w));
    waldo__buf_free(&w.problem);
    return status;
}

waldo_status waldo__schema_valid(waldo_str schema, waldo_error **ret_err)
{
    waldo__json *doc = NULL;
    waldo_error *error = NULL;
    const waldo__json_value *root, *properties;
    waldo_status status = waldo__json_parse(schema, NULL, &doc, &error);

    if (status != WALDO_OK) {
        waldo__error_prefix(error, "the schema cannot be read");
        waldo__error_move(ret_err, error);
        return status;
    }
    root = waldo__json_root(doc);
    properties = waldo__json_get(root, "properties");
    if (!waldo__str_is(waldo__json_get_str(root, "type"), "object")) {
        status =
            waldo__error_invalid(ret_err, "the schema must be an object with \"type\":\"object\"");
    } else if (properties != NULL && waldo__json_type_of(properties) != WALDO__JSON_OBJECT) {
        status = waldo__error_invalid(ret_err, "\"properties\" of the schema must be an object");
    }
    waldo__json_free(doc);
    return status;
}

/* ---- what vendors enforce ---- */

static int says_object(const waldo__json_value *type)
{
    const waldo__json_value *each = waldo__json_first(type);
    waldo_str name = { "", 0 };

    if (waldo__json_type_of(type) != WALDO__JSON_ARRAY) {
        return waldo__json_str(type, &name) && waldo__str_is(name, "object");
    }
    while (each != NULL && !(waldo__json_str(each, &name) && waldo__str_is(name, "object"))) {
        each = waldo__json_next(each);
    }
    return each != NULL;
}

static int lists(const waldo__json_value *list, const char *name)
{
    waldo_str text;

    for (list = waldo__json_first(list); list != NULL; list = waldo__json_next(list)) {
        if (waldo__json_str(list, &text) && waldo__str_is(text, name)) {
            return 1;
        }
    }
    return 0;
}

static int is_closed(const waldo__json_value *schema)
{
    const waldo__json_value *properties = waldo__json_get(schema, "properties");
    const waldo__json_value *required = waldo__json_get(schema, "required");
    const waldo__json_value *member;

    if (!says_object(waldo__json_get(schema, "type")) &&
        waldo__json_type_of(properties) != WALDO__JSON_OBJECT) {
        return 1;
    }
    for (member = waldo__json_first(properties); member != NULL;
         member = waldo__json_next(member)) {
        if (!lists(required, waldo__json_key(member))) {
            return 0;
        }
    }
    return !waldo__json_get_bool(schema, "additionalProperties", 1);
}

static int is_word(const char *words, const char *word)
{
    while (*words != '\0' && strcmp(words, word) != 0) {
        words += strlen(words) + 1;
    }
    return *words != '\0';
}

/* Is this no keyword of a schema, or one of these? As words of waldo__schema_is_strict(). */
static int is_among(const waldo__json_value *at, const waldo__json_value *parent, const char *words)
{
    const char *key = waldo__json_key(at), *map = waldo__json_key(parent);

    return key == NULL || words == NULL || (map != NULL && is_word("properties\0$defs\0", map)) ||
           is_word(words, key);
}

/* Every object anywhere in it is looked at as if it were a schema: one too many does no harm. */
static int all_closed(const waldo__json_value *root, const char *words)
{
    const waldo__json_value *at[WALDO__JSON_DEEPEST + 1] = { root };
    size_t depth = 0;

    for (;;) {
        const waldo__json_value *below = waldo__json_first(at[depth]);

        if ((waldo__json_type_of(at[depth]) == WALDO__JSON_OBJECT && !is_closed(at[depth])) ||
            (depth > 0 && !is_among(at[depth], at[depth - 1], words))) {
            return 0;
        }
        if (below != NULL && depth < WALDO__JSON_DEEPEST) {
            at[++depth] = below;
            continue;
        }
        while (depth > 0 && (at[depth] = waldo__json_next(at[depth])) == NULL) {
            depth--;
        }
        if (depth == 0) {
            return 1;
        }
    }
}

int waldo__schema_is_strict(waldo_str schema, const char *words, waldo_status *ret_status)
{
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(schema, NULL, &doc, NULL);
    int strict = status == WALDO_OK && waldo__json_get(waldo__json_root(doc), "anyOf") == NULL &&
                 all_closed(waldo__json_root(doc), words);

    if (status == WALDO_ENOMEM) {
        *ret_status = status;
    }
    waldo__json_free(doc);
    return strict;
}
