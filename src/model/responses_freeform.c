/*
 * Tools that take plain text: "custom" tools of the API. Everywhere else such a call is what it is
 * with other vendors, an object whose one property is that text.
 */
#include "base/alloc.h"
#include "model/responses.h"

int waldo__freeform_is_known(waldo_str url, waldo_str model)
{
    static const char family[] = "gpt-";
    const char *key = waldo__key_for_url(url);
    size_t version = sizeof family - 1;

    return key != NULL && strcmp(key, "OPENAI_API_KEY") == 0 && waldo__str_starts(model, family) &&
           model.len > version && model.ptr[version] >= '5' && model.ptr[version] <= '9' &&
           waldo__str_search(model, WALDO__S("-chat"), 0) == model.len;
}

waldo_status waldo__freeform_declare(const waldo_tool_decl *tool, waldo__buf *tools,
                                     waldo__json_writer *writer)
{
    waldo__jw_object(writer, NULL);
    waldo__jw_str(writer, "type", WALDO__S("custom"));
    waldo__jw_str(writer, "name", tool->name);
    if (tool->about.len > 0) {
        waldo__jw_str(writer, "description", tool->about);
    }
    waldo__jw_object(writer, "format");
    if (tool->grammar.len > 0) {
        waldo__jw_str(writer, "type", WALDO__S("grammar"));
        waldo__jw_str(writer, "syntax", WALDO__S("lark"));
        waldo__jw_str(writer, "definition", tool->grammar);
    } else {
        waldo__jw_str(writer, "type", WALDO__S("text"));
    }
    waldo__jw_end(writer, '}');
    waldo__jw_end(writer, '}');
    waldo__buf_add_str(tools, tool->name);
    waldo__buf_putc(tools, '\0');
    waldo__buf_add_str(tools, tool->freeform);
    return waldo__buf_putc(tools, '\0');
}

const char *waldo__freeform_find(const waldo__buf *tools, waldo_str name)
{
    for (size_t at = 0; at < tools->len;) {
        waldo_str tool = waldo__str(tools->ptr + at),
                  property = waldo__str(tool.ptr + tool.len + 1);

        if (waldo__str_eq(tool, name)) {
            return property.ptr;
        }
        at += tool.len + property.len + 2;
    }
    return NULL;
}

waldo_status waldo__freeform_wrap(const char *property, int is_whole, waldo__buf *args)
{
    waldo__buf text = *args;

    waldo__buf_init_wiped(args, WALDO__MODEL_EVENT_MAX);
    waldo__buf_puts(args, "{\"");
    waldo__json_escape(waldo__str(property), args);
    waldo__buf_puts(args, "\":\"");
    waldo__json_escape(waldo__buf_str(&text), args);
    waldo__buf_puts(args, is_whole ? "\"}" : "");
    waldo__buf_free(&text);
    return args->status;
}

waldo_status waldo__freeform_unwrap(const char *property, waldo_str args, waldo__json **ret_doc,
                                    waldo_str *ret_text)
{
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(args, NULL, &doc, NULL);
    const waldo__json_value *root = waldo__json_root(doc);

    if (status == WALDO_OK && (waldo__json_count(root) != 1 ||
                               !waldo__json_str(waldo__json_get(root, property), ret_text))) {
        status = WALDO_EINVAL;
    }
    if (status != WALDO_OK) {
        waldo__json_free(doc);
        return status;
    }
    *ret_doc = doc;
    return WALDO_OK;
}
