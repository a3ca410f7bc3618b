/*
 * The output items of a Responses answer while they come. Every item ends with an event that holds
 * it whole, and so does the response; the pieces before are for who watches, and for servers that
 * leave those events or their contents out.
 */
#include "base/alloc.h"
#include "base/rand.h"
#include "model/responses.h"

enum { PARTS_MAX = 1024, WORD_MAX = 1024, TOTAL_MAX = 2 * WALDO__MODEL_EVENT_MAX };

static const struct {
    const char *type;
    waldo__part_kind kind;
} kinds[] = {
    { "message", WALDO__PART_MESSAGE },
    { "reasoning", WALDO__PART_REASONING },
    { "function_call", WALDO__PART_CALL },
    { "custom_tool_call", WALDO__PART_CALL },
};

waldo__part_kind waldo__part_kind_of(const waldo__json_value *item)
{
    waldo_str type = waldo__json_get_str(item, "type");

    for (size_t i = 0; i < WALDO__COUNT(kinds); i++) {
        if (waldo__str_is(type, kinds[i].type)) {
            return kinds[i].kind;
        }
    }
    return WALDO__PART_OTHER;
}

int waldo__part_is_freeform(const waldo__json_value *item)
{
    return waldo__str_is(waldo__json_get_str(item, "type"), "custom_tool_call");
}

/* ---- memory ---- */

static void free_part(waldo__part *part)
{
    waldo__buf_free(&part->item_id);
    waldo__buf_free(&part->shown.text);
    waldo__buf_free(&part->text);
    waldo__buf_free(&part->name);
    waldo__buf_free(&part->call_id);
    waldo__buf_free(&part->args);
    waldo__buf_free(&part->raw);
    waldo__free(part);
}

void waldo__parts_free(waldo__parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        free_part(parts->at[i]);
    }
    WALDO__VEC_FREE(parts);
}

waldo_status waldo__parts_count(waldo__parts *parts, size_t bytes)
{
    if (bytes > TOTAL_MAX - parts->total) {
        return WALDO_ETOOBIG;
    }
    parts->total += bytes;
    return WALDO_OK;
}

waldo_status waldo__parts_add(waldo__parts *parts, const waldo__place *place,
                              waldo__part **ret_part)
{
    waldo__part *part, **slot;

    if (parts->count >= PARTS_MAX) {
        return WALDO_ETOOBIG;
    }
    part = WALDO__NEW(waldo__part);
    slot = part != NULL ? WALDO__VEC_PUSH(parts) : NULL;
    if (slot == NULL) {
        waldo__free(part);
        return WALDO_ENOMEM;
    }
    *part = (waldo__part){ .kind = place->kind, .index = place->index, .section = -1, .order = -1 };
    waldo__buf_init_wiped(&part->item_id, WORD_MAX);
    waldo__model_text_init(&part->shown);
    waldo__buf_init_wiped(&part->text, WALDO__MODEL_EVENT_MAX);
    waldo__buf_init_wiped(&part->name, WORD_MAX);
    waldo__buf_init_wiped(&part->call_id, WORD_MAX);
    waldo__buf_init_wiped(&part->args, WALDO__MODEL_ARGS_MAX);
    waldo__buf_init_wiped(&part->raw, WALDO__MODEL_EVENT_MAX);
    *slot = part;
    *ret_part = part;
    return waldo__buf_add_str(&part->item_id, place->item_id);
}

/* ---- which part ---- */

/* Positions count where both are known: some gateways give an item another id in every event. */
static int is_at(const waldo__part *part, const waldo__place *place)
{
    if (part->kind != place->kind) {
        return 0;
    }
    if (place->index >= 0 && part->index >= 0) {
        return place->index == part->index;
    }
    if (place->item_id.len > 0 && part->item_id.len > 0) {
        return waldo__str_eq(waldo__buf_str(&part->item_id), place->item_id);
    }
    return 1;
}

/* Without a position, an id that nobody has can only be meant for the one part that is open. */
static waldo__part *find_only_open(const waldo__parts *parts, const waldo__place *place)
{
    waldo__part *open = NULL;

    for (size_t i = 0; i < parts->count; i++) {
        waldo__part *part = parts->at[i];

        if (part->kind == place->kind && !part->is_done && (part->index < 0 || place->index < 0)) {
            if (open != NULL) {
                return NULL;
            }
            open = part;
        }
    }
    return open;
}

waldo__part *waldo__parts_find(const waldo__parts *parts, const waldo__place *place)
{
    waldo__part *done = NULL;

    for (size_t i = parts->count; i-- > 0;) {
        waldo__part *part = parts->at[i];

        if (is_at(part, place)) {
            if (!part->is_done) {
                return part;
            }
            done = done != NULL ? done : part;
        }
    }
    return done != NULL ? done : find_only_open(parts, place);
}

/* ---- whole items ---- */

/* The texts of a list of parts, such as output_text, refusal, summary_text. */
static waldo_status read_texts(waldo__part *part, const waldo__json_value *list,
                               const char *between)
{
    if (waldo__json_type_of(list) != WALDO__JSON_ARRAY) {
        return WALDO_OK;
    }
    for (const waldo__json_value *at = waldo__json_first(list); at != NULL;
         at = waldo__json_next(at)) {
        waldo_str text = WALDO__S("");

        if (!waldo__json_str(waldo__json_get(at, "text"), &text) &&
            waldo__json_str(waldo__json_get(at, "refusal"), &text)) {
            part->is_refusal = 1;
        }
        if (text.len > 0) {
            waldo__buf_puts(&part->text, part->text.len > 0 ? between : "");
            waldo__model_text_plain(text, &part->text);
        }
    }
    return part->text.status;
}

static waldo_status set_word(waldo__buf *word, waldo_str value)
{
    value = waldo__str_trim(value);
    if (value.len == 0) {
        return WALDO_OK;
    }
    waldo__buf_clear(word);
    return waldo__model_text_plain(value, word);
}

static waldo_status fill_call(waldo__part *part, const waldo__json_value *item)
{
    const waldo__json_value *args = waldo__json_get(item, "arguments");
    waldo_status status = set_word(&part->name, waldo__json_get_str(item, "name"));

    if (status == WALDO_OK) {
        status = set_word(&part->call_id, waldo__json_get_str(item, "call_id"));
    }
    if (args == NULL) {
        args = waldo__json_get(item, "input");
    }
    if (status != WALDO_OK || args == NULL) {
        return status;
    }
    waldo__buf_clear(&part->args);
    return waldo__body_read_args(args, &part->args);
}

waldo_status waldo__part_fill(waldo__part *part, const waldo__json_value *item, waldo_str raw)
{
    waldo__buf compact = WALDO__BUF_WIPED(WALDO__MODEL_EVENT_MAX);
    waldo_status status = waldo__json_raw_compact(raw, &compact);

    waldo__buf_clear(&part->raw);
    waldo__buf_clear(&part->text);
    part->is_done = 1;
    part->is_cut = waldo__str_is(waldo__json_get_str(item, "status"), "incomplete");
    part->is_whole = waldo__str_is(waldo__json_get_str(item, "status"), "completed");
    part->is_freeform = waldo__part_is_freeform(item);
    part->is_refusal = 0;
    if (status == WALDO_OK) {
        status = waldo__model_text_plain(waldo__buf_str(&compact), &part->raw);
    }
    waldo__buf_free(&compact);
    if (status != WALDO_OK) {
        return status;
    }
    switch (part->kind) {
    case WALDO__PART_MESSAGE:
        return read_texts(part, waldo__json_get(item, "content"), "");
    case WALDO__PART_REASONING:
        status = read_texts(part, waldo__json_get(item, "summary"), "\n\n");
        return status == WALDO_OK && part->text.len == 0
                   ? read_texts(part, waldo__json_get(item, "content"), "\n\n")
                   : status;
    case WALDO__PART_CALL:
        return fill_call(part, item);
    default:
        return WALDO_OK;
    }
}

/* ---- at the end ---- */

static void sort_parts(waldo__parts *parts, int by_output)
{
    for (size_t i = 1; i < parts->count; i++) {
        waldo__part *part = parts->at[i];
        int64_t place = by_output ? part->order : part->index;
        size_t at = i;

        for (; at > 0 && (by_output ? parts->at[at - 1]->order : parts->at[at - 1]->index) > place;
             at--) {
            parts->at[at] = parts->at[at - 1];
        }
        parts->at[at] = part;
    }
}

void waldo__parts_settle(waldo__parts *parts, int by_output)
{
    size_t kept = 0, indexed = 0;

    for (size_t i = 0; i < parts->count; i++) {
        waldo__part *part = parts->at[i];

        if (by_output && part->order < 0) {
            free_part(part);
        } else {
            indexed += part->index >= 0;
            parts->at[kept++] = part;
        }
    }
    parts->count = kept;
    if (by_output || indexed == kept) {
        sort_parts(parts, by_output);
    }
}

static int id_is_taken(const waldo__parts *parts, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        if (parts->at[i]->kind == WALDO__PART_CALL &&
            waldo__str_eq(waldo__buf_str(&parts->at[i]->call_id),
                          waldo__buf_str(&parts->at[before]->call_id))) {
            return 1;
        }
    }
    return 0;
}

/* With another id than its provider gave, a call cannot be sent back as it came. */
static waldo_status settle_call(waldo__parts *parts, size_t at, const waldo__buf *freeform,
                                int is_cut)
{
    waldo__part *part = parts->at[at];
    const char *property =
        part->is_freeform ? waldo__freeform_find(freeform, waldo__buf_str(&part->name)) : NULL;
    char word[25];

    if (part->call_id.len == 0 || id_is_taken(parts, at)) {
        waldo__random_word(word, sizeof word - 1);
        waldo__buf_clear(&part->call_id);
        waldo__buf_printf(&part->call_id, "call_%s", word);
        waldo__buf_clear(&part->raw);
    }
    if (part->is_cut) {
        waldo__buf_clear(&part->raw);
    }
    if (property != NULL) {
        waldo__freeform_wrap(property, !part->is_cut && (part->is_whole || !is_cut), &part->args);
    } else if (!part->is_cut && waldo__str_trim(waldo__buf_str(&part->args)).len == 0) {
        waldo__buf_clear(&part->args);
        waldo__buf_puts(&part->args, "{}");
    }
    return part->call_id.status != WALDO_OK ? part->call_id.status : part->args.status;
}

waldo_status waldo__parts_settle_calls(waldo__parts *parts, const waldo__buf *freeform, int is_cut)
{
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < parts->count && status == WALDO_OK; i++) {
        if (parts->at[i]->kind == WALDO__PART_CALL) {
            status = settle_call(parts, i, freeform, is_cut);
        }
    }
    return status;
}
