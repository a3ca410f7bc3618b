/* The same patches as JSON operations, whose "diff" is the body of a section. */
#include "base/error.h"
#include "tools/v4a.h"

static const struct {
    const char *type;
    waldo__v4a_kind kind;
} types[] = {
    { "create_file", WALDO__V4A_ADD },
    { "update_file", WALDO__V4A_UPDATE },
    { "delete_file", WALDO__V4A_DELETE },
};

static waldo__v4a_kind kind_of(waldo_str type)
{
    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if (waldo__str_is(type, types[i].type)) {
            return types[i].kind;
        }
    }
    return 0;
}

static waldo_status take_body(waldo__v4a *patch, waldo__v4a_section *section, waldo_str diff,
                              waldo_error **ret_err)
{
    waldo__v4a_source source = { .rest = diff };
    waldo_status status;

    if (section->kind == WALDO__V4A_UPDATE) {
        status = waldo__v4a_hunks(patch, section, &source, ret_err);
    } else {
        status = waldo__v4a_added(patch, section, &source);
        if (status != WALDO_OK) {
            return waldo__error_nomem(ret_err);
        }
    }
    if (status == WALDO_OK && waldo__str_trim(source.rest).len > 0) {
        return waldo__error_invalid(ret_err, "the diff of %.*s has something else at line %zu: %s",
                                    (int)section->path.len, section->path.ptr, source.number + 1,
                                    section->kind == WALDO__V4A_ADD
                                        ? "each line of a new file begins with '+'"
                                        : "only hunks belong there");
    }
    return status;
}

static waldo_status take_operation(waldo__v4a *patch, const waldo__json_value *value,
                                   waldo_error **ret_err)
{
    waldo__v4a_kind kind = kind_of(waldo__json_get_str(value, "type"));
    waldo__v4a_section *section;
    waldo_str diff = { "", 0 };

    if (kind == 0) {
        return waldo__error_invalid(
            ret_err, "an operation has \"type\": \"create_file\", \"update_file\" or "
                     "\"delete_file\"");
    }
    if (patch->sections.count == WALDO__V4A_SECTIONS_MAX) {
        return waldo_error_set(ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                               "more than %d operations: send several patches",
                               (int)WALDO__V4A_SECTIONS_MAX);
    }
    section = WALDO__VEC_PUSH(&patch->sections);
    if (section == NULL) {
        return waldo__error_nomem(ret_err);
    }
    section->kind = kind;
    section->line = 1;
    section->path = waldo__str_trim(waldo__json_get_str(value, "path"));
    section->move_to = waldo__str_trim(waldo__json_get_str(value, "move_to"));
    if (section->path.len == 0) {
        return waldo__error_invalid(ret_err, "an operation has no path");
    }
    if (section->move_to.len > 0 && kind != WALDO__V4A_UPDATE) {
        return waldo__error_invalid(ret_err, "only an update_file can have move_to");
    }
    if (kind == WALDO__V4A_DELETE) {
        return WALDO_OK;
    }
    if (!waldo__json_str(waldo__json_get(value, "diff"), &diff) && section->move_to.len == 0) {
        return waldo__error_invalid(ret_err, "the operation on %.*s has no diff",
                                    (int)section->path.len, section->path.ptr);
    }
    return take_body(patch, section, diff, ret_err);
}

waldo_status waldo__v4a_operations(waldo__v4a *patch, const waldo__json_value *value,
                                   waldo_error **ret_err)
{
    const waldo__json_value *one = waldo__json_get(value, "operation");
    const waldo__json_value *many = waldo__json_get(value, "operations");
    waldo_status status = WALDO_OK;

    if (waldo__json_type_of(value) == WALDO__JSON_ARRAY) {
        many = value;
    }
    if (waldo__json_type_of(many) != WALDO__JSON_ARRAY) {
        return take_operation(patch, one != NULL ? one : value, ret_err);
    }
    for (value = waldo__json_first(many); status == WALDO_OK && value != NULL;
         value = waldo__json_next(value)) {
        status = take_operation(patch, value, ret_err);
    }
    if (status == WALDO_OK && patch->sections.count == 0) {
        status = waldo__error_invalid(ret_err, "there are no operations");
    }
    return status;
}
