#include "agent/tool.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"
#include "json/schema.h"

enum { NAME_MAX_LEN = 64, SCHEMA_MAX = 256 * 1024 };

struct waldo_tool {
    atomic_int refs;
    waldo_tool_options options; /* strings owned, params not kept: they live on as the schema */
    char *schema;
    size_t schema_len;
    waldo__json *rules; /* the schema parsed; NULL: the tool checks its arguments itself */
    waldo_error *error;
};

/* Answers every allocation failure, so that a list of tools never ends early. */
static waldo_tool no_memory_tool = { .refs = 1, .options = { .name = "" }, .schema = (char *)"" };

static const char no_text[] = ""; /* stands for text there was no memory for */

static int is_shared(const waldo_tool *tool)
{
    return tool == &no_memory_tool;
}

static int name_is_good(const char *name)
{
    waldo_str text = waldo__str(name);

    return text.len <= NAME_MAX_LEN && waldo__str_made_of(text, "_-");
}

static const char *const type_names[] = {
    [WALDO_STRING] = "string",   [WALDO_INTEGER] = "integer",   [WALDO_NUMBER] = "number",
    [WALDO_BOOLEAN] = "boolean", [WALDO_STRING_LIST] = "array", [WALDO_JSON] = NULL,
};

static int type_is_good(waldo_type type)
{
    return type >= WALDO_STRING && type <= WALDO_JSON;
}

static void write_type(waldo__json_writer *jw, const waldo_param *param)
{
    const char *name = type_names[param->type];

    if (name == NULL) {
        return;
    }
    if (param->optional) {
        waldo__jw_array(jw, "type");
        waldo__jw_text(jw, NULL, name);
        waldo__jw_str(jw, NULL, WALDO__S("null"));
        waldo__jw_end(jw, ']');
    } else {
        waldo__jw_text(jw, "type", name);
    }
    if (param->type == WALDO_STRING_LIST) {
        waldo__jw_raw(jw, "items", WALDO__S("{\"type\":\"string\"}"));
    }
}

static void write_property(waldo__json_writer *jw, const waldo_param *param)
{
    waldo__jw_object(jw, param->name);
    write_type(jw, param);
    if (param->about != NULL) {
        waldo__jw_text(jw, "description", param->about);
    }
    if (param->one_of != NULL) {
        waldo__jw_array(jw, "enum");
        for (size_t i = 0; param->one_of[i] != NULL; i++) {
            waldo__jw_text(jw, NULL, param->one_of[i]);
        }
        if (param->optional) {
            waldo__jw_null(jw, NULL);
        }
        waldo__jw_end(jw, ']');
    }
    waldo__jw_end(jw, '}');
}

static waldo_status write_schema(const waldo_param *params, waldo__buf *out)
{
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "type", WALDO__S("object"));
    waldo__jw_object(&jw, "properties");
    for (const waldo_param *param = params; param != NULL && param->name != NULL; param++) {
        write_property(&jw, param);
    }
    waldo__jw_end(&jw, '}');
    waldo__jw_array(&jw, "required");
    for (const waldo_param *param = params; param != NULL && param->name != NULL; param++) {
        if (!param->optional) {
            waldo__jw_text(&jw, NULL, param->name);
        }
    }
    waldo__jw_end(&jw, ']');
    waldo__jw_bool(&jw, "additionalProperties", 0);
    waldo__jw_end(&jw, '}');
    return out->status;
}

static waldo_status check_params(const char *tool, const waldo_param *params, waldo_error **ret_err)
{
    for (const waldo_param *param = params; param != NULL && param->name != NULL; param++) {
        if (!type_is_good(param->type)) {
            return waldo__error_invalid(
                ret_err, "tool %s: parameter %s has no valid type: use WALDO_STRING, ...", tool,
                param->name);
        }
        for (const waldo_param *other = params; other != param; other++) {
            if (strcmp(other->name, param->name) == 0) {
                return waldo__error_invalid(ret_err, "tool %s: parameter %s is there twice", tool,
                                            param->name);
            }
        }
    }
    return WALDO_OK;
}

static waldo_status check_options(const waldo_tool_options *options, waldo_error **ret_err)
{
    if (!name_is_good(options->name)) {
        return waldo__error_invalid(ret_err, "tool name \"%s\" must be 1 to 64 of a-z A-Z 0-9 _ -",
                                    options->name != NULL ? options->name : "");
    }
    if (options->call == NULL) {
        return waldo__error_invalid(ret_err, "tool %s has no function: set .call", options->name);
    }
    if (options->params != NULL && options->schema_json != NULL) {
        return waldo__error_invalid(ret_err, "tool %s has both .params and .schema_json: set one",
                                    options->name);
    }
    if (options->grammar != NULL && options->freeform == NULL) {
        return waldo__error_invalid(ret_err, "tool %s has a .grammar but no .freeform: set both",
                                    options->name);
    }
    return check_params(options->name, options->params, ret_err);
}

/* Plain text can only stand for all of the arguments when nothing else must be there. */
static waldo_status check_freeform(const waldo_tool_options *options,
                                   const waldo__json_value *schema, waldo_error **ret_err)
{
    const waldo__json_value *member =
        waldo__json_get(waldo__json_get(schema, "properties"), options->freeform);
    const waldo__json_value *required = waldo__json_first(waldo__json_get(schema, "required"));
    const char *wrong = member == NULL ? "is no parameter of it"
                        : !waldo__str_is(waldo__json_get_str(member, "type"), "string")
                            ? "is not a string"
                        : required == NULL ? "is not required"
                                           : NULL;
    waldo_str name;

    for (; wrong == NULL && required != NULL; required = waldo__json_next(required)) {
        if (!waldo__json_str(required, &name) || !waldo__str_is(name, options->freeform)) {
            wrong = "is not the only one that is required";
        }
    }
    return wrong == NULL ? WALDO_OK
                         : waldo__error_invalid(ret_err, "tool %s: .freeform \"%s\" %s",
                                                options->name, options->freeform, wrong);
}

/* What calls are held to. */
static waldo_status make_rules(waldo_tool *tool, const waldo_tool_options *options,
                               waldo_error **ret_err)
{
    int has_rules = (options->flags & WALDO__TOOL_FREE_ARGS) == 0;
    waldo__json *rules = NULL;
    waldo_status status = WALDO_OK;

    if (has_rules || options->freeform != NULL) {
        status = waldo__json_parse(waldo__tool_schema(tool), NULL, &rules, ret_err);
    }
    if (status == WALDO_OK && options->freeform != NULL) {
        status = check_freeform(options, waldo__json_root(rules), ret_err);
    }
    if (has_rules) {
        tool->rules = rules;
    } else {
        waldo__json_free(rules);
    }
    return status;
}

static waldo_status make_schema(waldo_tool *tool, const waldo_tool_options *options,
                                waldo_error **ret_err)
{
    waldo__buf text = WALDO__BUF_INIT(SCHEMA_MAX);
    waldo_status status;

    if (options->schema_json != NULL) {
        status = waldo__schema_valid(waldo__str(options->schema_json), ret_err);
        if (status != WALDO_OK) {
            if (ret_err != NULL) {
                waldo__error_prefix(*ret_err, options->name);
            }
            return status;
        }
        waldo__buf_puts(&text, options->schema_json);
    } else {
        write_schema(options->params, &text);
    }
    status = text.status;
    if (status == WALDO_OK) {
        tool->schema = waldo__buf_take(&text, &tool->schema_len);
        status = tool->schema != NULL ? WALDO_OK : WALDO_ENOMEM;
    }
    waldo__buf_free(&text);
    if (status != WALDO_OK) {
        return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "tool %s: schema is too large",
                               options->name);
    }
    return make_rules(tool, options, ret_err);
}

static const char *keep_text(waldo_tool *tool, const char *text)
{
    const char *copy = waldo__strdup(text != NULL ? text : "");

    if (copy == NULL) {
        waldo__error_nomem(&tool->error);
    }
    return copy != NULL ? copy : no_text;
}

static void free_text(const char *text)
{
    if (text != no_text) {
        waldo__free((char *)text);
    }
}

/* Fill a zeroed tool; what goes wrong is remembered in it. */
static void fill(waldo_tool *tool, const waldo_tool_options *from)
{
    waldo_tool_options *options = &tool->options;

    if (from == NULL || waldo__options_copy(options, sizeof *options, from) != WALDO_OK) {
        *options =
            (waldo_tool_options){ .size = sizeof *options, .name = no_text, .about = no_text };
        waldo__error_invalid(&tool->error, "tool options have no valid size: use WALDO_TOOL()");
        return;
    }
    if (check_options(options, &tool->error) == WALDO_OK) {
        make_schema(tool, options, &tool->error);
    }
    options->name = keep_text(tool, options->name);
    options->about = keep_text(tool, options->about);
    options->freeform = options->freeform != NULL ? keep_text(tool, options->freeform) : NULL;
    options->grammar = options->grammar != NULL ? keep_text(tool, options->grammar) : NULL;
    options->params = NULL;
    options->schema_json = NULL;
}

waldo_tool *waldo_tool_new(const waldo_tool_options *options)
{
    waldo_tool *tool = WALDO__NEW(waldo_tool);

    if (tool == NULL) {
        return &no_memory_tool;
    }
    atomic_init(&tool->refs, 1);
    fill(tool, options);
    return tool;
}

waldo_tool *waldo_tool_ref(waldo_tool *tool)
{
    if (tool != NULL && !is_shared(tool)) {
        atomic_fetch_add(&tool->refs, 1);
    }
    return tool;
}

void waldo_tool_unref(waldo_tool *tool)
{
    if (tool == NULL || is_shared(tool) || atomic_fetch_sub(&tool->refs, 1) != 1) {
        return;
    }
    if (tool->options.destroy != NULL) {
        tool->options.destroy(tool->options.userdata);
    }
    free_text(tool->options.name);
    free_text(tool->options.about);
    free_text(tool->options.freeform);
    free_text(tool->options.grammar);
    waldo__free(tool->schema);
    waldo__json_free(tool->rules);
    waldo_error_free(tool->error);
    waldo__free(tool);
}

const waldo_error *waldo_tool_error(const waldo_tool *tool)
{
    waldo_error *error = NULL;

    if (tool == NULL || is_shared(tool)) {
        waldo__error_nomem(&error); /* static: nothing to free */
        return error;
    }
    return tool->error;
}

const waldo_tool_options *waldo__tool_options(const waldo_tool *tool)
{
    return &tool->options;
}

waldo_str waldo__tool_schema(const waldo_tool *tool)
{
    return waldo__strn(tool->schema, tool->schema_len);
}

const waldo__json_value *waldo__tool_rules(const waldo_tool *tool)
{
    return waldo__json_root(tool->rules);
}
