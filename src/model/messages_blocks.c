/* The content blocks of an answer: found by their index, put together, kept as they came. */
#include "base/alloc.h"
#include "model/history.h"
#include "model/messages.h"

enum { BLOCKS_MAX = 1024, WORD_MAX = 1024, TOTAL_MAX = 2 * WALDO__MODEL_EVENT_MAX };

static const struct {
    const char *type;
    waldo__block_kind kind;
} kinds[] = {
    { "text", WALDO__BLOCK_TEXT },
    { "thinking", WALDO__BLOCK_THINKING },
    { "tool_use", WALDO__BLOCK_CALL },
};

waldo__block_kind waldo__block_kind_of(waldo_str type)
{
    for (size_t i = 0; i < WALDO__COUNT(kinds); i++) {
        if (waldo__str_is(type, kinds[i].type)) {
            return kinds[i].kind;
        }
    }
    return WALDO__BLOCK_OTHER;
}

/* ---- memory ---- */

static void free_block(waldo__block *block)
{
    waldo__buf *const bufs[] = { &block->shown.text, &block->args, &block->signature,
                                 &block->citations,  &block->name, &block->id,
                                 &block->begun,      &block->raw };

    for (size_t i = 0; i < WALDO__COUNT(bufs); i++) {
        waldo__buf_free(bufs[i]);
    }
    waldo__free(block);
}

void waldo__blocks_free(waldo__blocks *blocks)
{
    for (size_t i = 0; i < blocks->count; i++) {
        free_block(blocks->at[i]);
    }
    WALDO__VEC_FREE(blocks);
}

waldo_status waldo__blocks_count(waldo__blocks *blocks, size_t bytes)
{
    if (bytes > TOTAL_MAX - blocks->total) {
        return WALDO_ETOOBIG;
    }
    blocks->total += bytes;
    return WALDO_OK;
}

waldo_status waldo__blocks_add(waldo__blocks *blocks, waldo__block_kind kind, int64_t index,
                               waldo__block **ret_block)
{
    waldo__block *block, **slot;

    if (blocks->count >= BLOCKS_MAX) {
        return WALDO_ETOOBIG;
    }
    block = WALDO__NEW(waldo__block);
    slot = block != NULL ? WALDO__VEC_PUSH(blocks) : NULL;
    if (slot == NULL) {
        waldo__free(block);
        return WALDO_ENOMEM;
    }
    *block = (waldo__block){ .kind = kind, .index = index };
    waldo__model_text_init(&block->shown);
    waldo__buf_init_wiped(&block->args, WALDO__MODEL_ARGS_MAX);
    waldo__buf_init_wiped(&block->signature, WALDO__MODEL_EVENT_MAX);
    waldo__buf_init_wiped(&block->citations, WALDO__MODEL_EVENT_MAX);
    waldo__buf_init_wiped(&block->begun, WALDO__MODEL_EVENT_MAX);
    waldo__buf_init_wiped(&block->name, WORD_MAX);
    waldo__buf_init_wiped(&block->id, WORD_MAX);
    waldo__buf_init_wiped(&block->raw, TOTAL_MAX);
    *slot = block;
    *ret_block = block;
    return WALDO_OK;
}

waldo__block *waldo__blocks_find(const waldo__blocks *blocks, int64_t index)
{
    for (size_t i = blocks->count; i-- > 0;) {
        if (index < 0 || blocks->at[i]->index == index) {
            return blocks->at[i];
        }
    }
    return NULL;
}

/* ---- raw JSON ---- */

/* What of a block is not in its JSON as it began: members to write, and how. */
typedef struct member {
    const char *key;
    waldo_str value;
    enum { AS_TEXT, AS_JSON, AS_LIST } form;
    int is_written;
} member;

static void put_member(waldo__buf *out, waldo_str key, const member *from, waldo_str value)
{
    static const char *const begins[] = { "\"", "", "[" };
    static const char *const ends[] = { "\"", "", "]" };

    waldo__buf_puts(out, out->len > 1 ? ",\"" : "\"");
    waldo__buf_add_str(out, key);
    waldo__buf_puts(out, "\":");
    if (from == NULL) {
        waldo__buf_add_str(out, value);
        return;
    }
    waldo__buf_puts(out, begins[from->form]);
    if (from->form == AS_TEXT) {
        waldo__json_escape(from->value, out);
    } else {
        waldo__buf_add_str(out, from->value);
    }
    waldo__buf_puts(out, ends[from->form]);
}

static member *find_member(member *members, size_t count, waldo_str key)
{
    for (size_t i = 0; i < count; i++) {
        if (waldo__str_is(key, members[i].key)) {
            return &members[i];
        }
    }
    return NULL;
}

/* Members that are null, or an empty list, say nothing, and not every server takes them back. */
static int says_nothing(waldo_str value)
{
    return waldo__str_is(value, "null") || waldo__str_is(value, "[]");
}

/*
 * The block as it began, with what came in pieces; *ret_more: it holds more than the common form.
 */
static waldo_status write_raw(waldo__block *block, waldo_str input, int *ret_more)
{
    member members[] = {
        { block->kind == WALDO__BLOCK_THINKING ? "thinking" : "text",
          waldo__buf_str(&block->shown.text), AS_TEXT, 0 },
        { "signature", waldo__buf_str(&block->signature), AS_TEXT, 0 },
        { "input", input, AS_JSON, 0 },
        { "citations", waldo__buf_str(&block->citations), AS_LIST, 0 },
    };
    waldo__json_raw parts;
    waldo_str key, value;

    *ret_more = block->citations.len > 0;
    waldo__buf_clear(&block->raw);
    waldo__buf_puts(&block->raw, "{");
    waldo__json_raw_begin(&parts, waldo__buf_str(&block->begun));
    while (waldo__json_raw_next(&parts, &key, &value)) {
        member *from = find_member(members, WALDO__COUNT(members), key);

        if (from != NULL && from->value.len > 0 && !from->is_written) {
            from->is_written = 1;
            put_member(&block->raw, key, from, value);
        } else if (!says_nothing(value)) {
            *ret_more |= from == NULL && !waldo__str_is(key, "type") && !waldo__str_is(key, "id") &&
                         !waldo__str_is(key, "name");
            put_member(&block->raw, key, NULL, value);
        }
    }
    for (size_t i = 0; i < WALDO__COUNT(members); i++) {
        if (members[i].value.len > 0 && !members[i].is_written) {
            put_member(&block->raw, waldo__str(members[i].key), &members[i], WALDO__S(""));
        }
    }
    return waldo__buf_puts(&block->raw, "}");
}

/* Arguments that came whole with the block's beginning, or not at all. */
static waldo_status settle_args(waldo__block *block)
{
    waldo_str input = WALDO__S("");

    if (!waldo__args_are_placeholder(waldo__buf_str(&block->args))) {
        return WALDO_OK;
    }
    waldo__buf_clear(&block->args);
    waldo__json_raw_get(waldo__buf_str(&block->begun), "input", &input);
    return waldo__buf_add_str(&block->args, waldo__str_starts(input, "{") ? input : WALDO__S("{}"));
}

static waldo_status settle_block(waldo__block *block, int is_cut)
{
    waldo_status status = waldo__model_text_end(&block->shown);
    waldo_str input = waldo__buf_str(&block->args);
    int more = 0;

    if (status == WALDO_OK && block->kind == WALDO__BLOCK_CALL && !is_cut) {
        status = settle_args(block);
        input = waldo__buf_str(&block->args);
    }
    if (input.len > 0 && !waldo__wire_is_object(input, &status)) {
        input = WALDO__S("");
        is_cut |= block->kind == WALDO__BLOCK_CALL;
    }
    if (status != WALDO_OK || block->begun.len == 0 || is_cut) {
        return status;
    }
    status = write_raw(block, input, &more);
    if (!more && (block->kind == WALDO__BLOCK_TEXT || block->kind == WALDO__BLOCK_CALL)) {
        waldo__buf_clear(&block->raw);
    }
    return status;
}

/* Stable: servers that give every block the same index mean the order they came in. */
static void sort_blocks(waldo__blocks *blocks)
{
    for (size_t i = 1; i < blocks->count; i++) {
        waldo__block *block = blocks->at[i];
        size_t at = i;

        for (; at > 0 && blocks->at[at - 1]->index > block->index; at--) {
            blocks->at[at] = blocks->at[at - 1];
        }
        blocks->at[at] = block;
    }
}

waldo_status waldo__blocks_settle(waldo__blocks *blocks, int is_cut)
{
    waldo_status status = WALDO_OK;

    sort_blocks(blocks);
    for (size_t i = 0; i < blocks->count && status == WALDO_OK; i++) {
        status = settle_block(blocks->at[i], is_cut && i + 1 == blocks->count);
    }
    return status;
}
