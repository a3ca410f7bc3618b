/* "name=value,..." of a model's quirks, applied to a struct by a table. */
#include "model/shared.h"

#include "base/alloc.h"
#include "base/error.h"

/* The word behind this one; empty behind the last. */
static const char *next_word(const char *word)
{
    return word + strlen(word) + 1;
}

waldo_status waldo__switch_refuse(waldo_str part, const char *what, waldo__buf *known,
                                  waldo_error **ret_err)
{
    waldo_status status = waldo__error_invalid(ret_err, "model quirks: \"%.*s\" %s; known: %s",
                                               (int)(part.len < 100 ? part.len : 100), part.ptr,
                                               what, waldo__buf_str(known).ptr);

    waldo__buf_free(known);
    return status;
}

static waldo_status refuse_name(const waldo__switches *switches, waldo_str part,
                                waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);

    waldo__buf_puts(&known, switches->more);
    for (size_t i = 0; i < switches->count; i++) {
        waldo__buf_printf(&known, "%s%s", i > 0 ? ", " : "", switches->at[i].name);
    }
    return waldo__switch_refuse(part, "is not a quirk, written as name=value", &known, ret_err);
}

static waldo_status refuse_value(const waldo__switch *row, waldo_str part, waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);

    if (row->type != WALDO__SWITCH_WORD) {
        waldo__buf_puts(&known, row->type == WALDO__SWITCH_BOOL
                                    ? "on, off"
                                    : "ids of up to 128 letters, digits, _ and -");
    }
    for (const char *word = row->words; *word != '\0'; word = next_word(word)) {
        waldo__buf_printf(&known, "%s%s", word != row->words ? ", " : "", word);
    }
    return waldo__switch_refuse(part, "has a value that is not known", &known, ret_err);
}

static int parse_bool(waldo_str value, unsigned char *ret_value)
{
    static const char words[] = "off\0on\0"
                                "0\0"
                                "1\0"
                                "false\0true\0no\0yes\0";
    unsigned char place = 0;

    for (const char *word = words; *word != '\0'; word = next_word(word)) {
        if (waldo__str_is(value, word)) {
            *ret_value = place % 2;
            return 1;
        }
        place++;
    }
    return 0;
}

static int parse_word(const waldo__switch *row, waldo_str value, const char **ret_word)
{
    for (const char *word = row->words; *word != '\0'; word = next_word(word)) {
        if (waldo__str_is(value, word)) {
            *ret_word = word;
            return 1;
        }
    }
    return 0;
}

static int parse_id(waldo_str value, waldo_str *ret_id)
{
    *ret_id = value;
    return value.len <= WALDO__MODEL_ID_MAX && waldo__str_made_of(value, "_-");
}

waldo_status waldo__switch_apply(const waldo__switches *switches, waldo_str part, void *into,
                                 waldo_error **ret_err)
{
    size_t equals = waldo__str_find(part, '=');
    waldo_str name = waldo__slice(part.ptr, equals), value = WALDO__S("");

    if (equals < part.len) {
        value = waldo__slice(part.ptr + equals + 1, part.len - equals - 1);
    }
    for (size_t i = 0; i < switches->count && equals < part.len; i++) {
        const waldo__switch *row = &switches->at[i];
        char *member = (char *)into + row->offset;
        int known;

        if (!waldo__str_is(name, row->name)) {
            continue;
        }
        known = row->type == WALDO__SWITCH_BOOL ? parse_bool(value, (unsigned char *)member)
                : row->type == WALDO__SWITCH_ID
                    ? parse_id(value, (waldo_str *)(void *)member)
                    : parse_word(row, value, (const char **)(void *)member);
        return known ? WALDO_OK : refuse_value(row, part, ret_err);
    }
    return refuse_name(switches, part, ret_err);
}
