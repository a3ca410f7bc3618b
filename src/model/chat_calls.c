/*
 * Puts tool calls together from deltas. Servers disagree about index, id and name of a fragment;
 * the one procedure here gives the intended calls for all forms that are known: see tests/model.
 */
#include "base/alloc.h"
#include "base/rand.h"
#include "model/body.h"
#include "model/chat.h"

enum { CALLS_MAX = 1024, WORD_MAX = 1024, EXTRA_MAX = 1 << 20, PLACEHOLDER_MAX = 16 };

/* The first byte that is not a space; NUL when there is none. */
static char first_byte(waldo_str text)
{
    text = waldo__str_trim(text);
    return text.len > 0 ? text.ptr[0] : '\0';
}

static int opens_container(waldo_str text)
{
    char byte = first_byte(text);

    return byte == '{' || byte == '[';
}

static int has_all_args(const waldo__chat_call *call)
{
    return call->scan.complete && opens_container(waldo__buf_str(&call->args));
}

static int has_index(const waldo__chat_call *call, int64_t index)
{
    return index >= 0 && (call->index == index || call->alias == index);
}

static int has_id(const waldo__chat_call *call, waldo_str id)
{
    return id.len > 0 && waldo__str_eq(waldo__buf_str(&call->id), id);
}

static void free_call(waldo__chat_call *call)
{
    waldo__buf_free(&call->id);
    waldo__buf_free(&call->name);
    waldo__buf_free(&call->args);
    waldo__buf_free(&call->extra);
    waldo__free(call);
}

static void free_list(waldo__chat_call_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free_call(list->at[i]);
    }
    WALDO__VEC_FREE(list);
}

void waldo__chat_calls_free(waldo__chat_calls *calls)
{
    free_list(&calls->named);
    free_list(&calls->late);
    calls->args_total = 0;
}

/* Some call was given this id: the last of them that the index allows; *ret_drop: ambiguous. */
static waldo__chat_call *find_by_id(const waldo__chat_calls *calls,
                                    const waldo__chat_fragment *fragment, int starts, int *ret_drop)
{
    for (size_t i = calls->named.count; i-- > 0;) {
        waldo__chat_call *call = calls->named.at[i];

        if (has_id(call, fragment->id) &&
            (has_index(call, fragment->index) || fragment->index < 0 || call->index < 0)) {
            return starts && has_all_args(call) ? NULL : call;
        }
    }
    *ret_drop = fragment->name.len == 0;
    return NULL;
}

/* The call that was given this index, unless the fragment shows that it begins another. */
static waldo__chat_call *judge_by_index(waldo__chat_call *call,
                                        const waldo__chat_fragment *fragment, int starts)
{
    int named = fragment->name.len > 0, all = has_all_args(call);

    if (named && !waldo__str_eq(fragment->name, waldo__buf_str(&call->name))) {
        return NULL;
    }
    if (fragment->id.len > 0 && (starts || (named && all))) {
        return NULL;
    }
    return fragment->id.len == 0 && starts && all ? NULL : call;
}

/* The only call whose arguments are not complete; none when there are several. */
static waldo__chat_call *only_open_call(const waldo__chat_calls *calls)
{
    waldo__chat_call *open = NULL;

    for (size_t i = 0; i < calls->named.count; i++) {
        if (!has_all_args(calls->named.at[i])) {
            if (open != NULL) {
                return NULL;
            }
            open = calls->named.at[i];
        }
    }
    return open;
}

/* The named call a fragment continues; NULL with *ret_drop 0: it begins one, or waits. */
static waldo__chat_call *find_call(const waldo__chat_calls *calls,
                                   const waldo__chat_fragment *fragment, int *ret_drop)
{
    int starts = fragment->name.len > 0 && opens_container(fragment->args);
    waldo__chat_call *open;

    *ret_drop = 0;
    if (fragment->is_whole) {
        return NULL;
    }
    for (size_t i = 0; i < calls->named.count; i++) {
        if (has_id(calls->named.at[i], fragment->id)) {
            return find_by_id(calls, fragment, starts, ret_drop);
        }
    }
    for (size_t i = calls->named.count; i-- > 0;) {
        if (has_index(calls->named.at[i], fragment->index)) {
            return judge_by_index(calls->named.at[i], fragment, starts);
        }
    }
    if (fragment->index >= 0 || fragment->id.len > 0 || fragment->name.len > 0) {
        return NULL;
    }
    open = only_open_call(calls);
    *ret_drop = open == NULL;
    return open;
}

/* Position of the waiting call with the fragment's index or id, or the count. */
static size_t find_late(const waldo__chat_calls *calls, const waldo__chat_fragment *fragment)
{
    size_t i;

    for (i = 0; i < calls->late.count; i++) {
        const waldo__chat_call *call = calls->late.at[i];

        if (has_index(call, fragment->index) || has_id(call, fragment->id)) {
            break;
        }
    }
    return i;
}

static waldo__chat_call *push_new(waldo__chat_call_list *list, int64_t index)
{
    waldo__chat_call *call = WALDO__NEW(waldo__chat_call);
    waldo__chat_call **slot = call != NULL ? WALDO__VEC_PUSH(list) : NULL;

    if (slot == NULL) {
        waldo__free(call);
        return NULL;
    }
    call->index = index;
    call->alias = -1;
    waldo__buf_init_wiped(&call->id, WORD_MAX);
    waldo__buf_init_wiped(&call->name, WORD_MAX);
    waldo__buf_init_wiped(&call->args, WALDO__MODEL_ARGS_MAX);
    waldo__buf_init_wiped(&call->extra, EXTRA_MAX);
    return *slot = call;
}

/* A waiting call got its name. */
static waldo__chat_call *name_late(waldo__chat_calls *calls, size_t at)
{
    waldo__chat_call *call = calls->late.at[at];
    waldo__chat_call **slot = WALDO__VEC_PUSH(&calls->named);

    if (slot != NULL) {
        *slot = call;
        memmove(&calls->late.at[at], &calls->late.at[at + 1],
                (calls->late.count - at - 1) * sizeof *calls->late.at);
        calls->late.count--;
    }
    return slot != NULL ? call : NULL;
}

/*
 * A fragment with arguments alone and an index that no call has: it belongs to the call that was
 * opened last when that one still lacks arguments (servers that count on in continuations).
 */
static waldo__chat_call *adopt(waldo__chat_calls *calls, const waldo__chat_fragment *fragment)
{
    waldo__chat_call *last =
        calls->named.count > 0 ? calls->named.at[calls->named.count - 1] : NULL;

    if (last == NULL || fragment->id.len > 0 || fragment->index < 0 || has_all_args(last)) {
        return NULL;
    }
    last->alias = fragment->index;
    return last;
}

/* The call for a fragment that continues none of the named ones. */
static waldo__chat_call *begin_call(waldo__chat_calls *calls, const waldo__chat_fragment *fragment,
                                    int *ret_is_new)
{
    size_t late = fragment->is_whole ? calls->late.count : find_late(calls, fragment);
    waldo__chat_call *call;

    if (fragment->name.len > 0) {
        *ret_is_new = 1;
        return late < calls->late.count ? name_late(calls, late)
                                        : push_new(&calls->named, fragment->index);
    }
    if (late < calls->late.count) {
        return calls->late.at[late];
    }
    call = adopt(calls, fragment);
    return call != NULL ? call : push_new(&calls->late, fragment->index);
}

static waldo_status add_args(waldo__chat_calls *calls, waldo__chat_call *call, waldo_str args)
{
    waldo_status status;

    if (args.len > WALDO__MODEL_EVENT_MAX - calls->args_total) {
        return WALDO_ETOOBIG;
    }
    if (call->args.len > 0 && call->args.len < PLACEHOLDER_MAX && opens_container(args) &&
        waldo__args_are_placeholder(waldo__buf_str(&call->args))) {
        calls->args_total -= call->args.len;
        waldo__buf_clear(&call->args);
        call->scan = (waldo__json_scan){ 0 };
    }
    status = waldo__buf_add_str(&call->args, args);
    if (status == WALDO_OK) {
        waldo__json_scan_feed(&call->scan, args);
        calls->args_total += args.len;
    }
    return status;
}

static waldo_status set_if_unset(waldo__buf *word, waldo_str value)
{
    return word->len == 0 ? waldo__buf_add_str(word, value) : WALDO_OK;
}

waldo_status waldo__chat_calls_add(waldo__chat_calls *calls, const waldo__chat_fragment *fragment,
                                   waldo__chat_call **ret_call, int *ret_is_new)
{
    int drop, is_new = 0;
    waldo__chat_call *call = find_call(calls, fragment, &drop);
    waldo_status status;

    if (call == NULL && !drop) {
        if (calls->named.count + calls->late.count >= CALLS_MAX) {
            return WALDO_ETOOBIG;
        }
        call = begin_call(calls, fragment, &is_new);
        if (call == NULL) {
            return WALDO_ENOMEM;
        }
    }
    if (call != NULL) {
        if ((status = set_if_unset(&call->id, fragment->id)) < 0 ||
            (status = set_if_unset(&call->name, fragment->name)) < 0 ||
            (status = set_if_unset(&call->extra, fragment->extra)) < 0 ||
            (status = add_args(calls, call, fragment->args)) < 0) {
            return status;
        }
    }
    *ret_call = call != NULL && call->name.len > 0 ? call : NULL;
    *ret_is_new = is_new;
    return WALDO_OK;
}

/* By index when every call has one, in order of arrival between equals; else as they arrived. */
static void sort_calls(waldo__chat_call_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i]->index < 0) {
            return;
        }
    }
    for (size_t i = 1; i < list->count; i++) {
        waldo__chat_call *call = list->at[i];
        size_t at = i;

        for (; at > 0 && list->at[at - 1]->index > call->index; at--) {
            list->at[at] = list->at[at - 1];
        }
        list->at[at] = call;
    }
}

static int id_is_taken(const waldo__chat_call_list *list, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        if (has_id(list->at[i], waldo__buf_str(&list->at[before]->id))) {
            return 1;
        }
    }
    return 0;
}

/* A call without an id, or with that of a call before it, gets one of its own. */
static waldo_status settle_id(waldo__chat_call_list *list, size_t at, int short_ids)
{
    waldo__buf *id = &list->at[at]->id;
    char word[25];

    if (id->len > 0 && !id_is_taken(list, at)) {
        return WALDO_OK;
    }
    waldo__random_word(word, short_ids ? 9 : 24);
    waldo__buf_clear(id);
    if (!short_ids) {
        waldo__buf_puts(id, "call_");
    }
    return waldo__buf_puts(id, word);
}

/* Whole arguments are followed by nothing but blanks, "" or null: they are what was meant. */
static int has_stray_end(const waldo__chat_call *call)
{
    waldo_str args = waldo__buf_str(&call->args);
    size_t end = call->scan.end;

    if (!has_all_args(call) || end >= args.len) {
        return 0;
    }
    return waldo__args_are_placeholder(waldo__slice(args.ptr + end, args.len - end));
}

int waldo__chat_calls_have_stray(const waldo__chat_calls *calls)
{
    for (size_t i = 0; i < calls->named.count; i++) {
        const waldo__chat_call *call = calls->named.at[i];

        if (has_stray_end(call) &&
            waldo__str_trim(waldo__buf_str(&call->args)).len > call->scan.end) {
            return 1;
        }
    }
    return calls->late.count > 0;
}

static waldo_status settle_args(waldo__chat_call *call, int may_be_cut)
{
    waldo_str text = waldo__buf_str(&call->args);

    if (has_stray_end(call)) {
        waldo__buf_truncate(&call->args, call->scan.end);
    } else if (text.len < PLACEHOLDER_MAX && waldo__args_are_placeholder(text) && !may_be_cut) {
        waldo__buf_clear(&call->args);
        waldo__buf_puts(&call->args, "{}");
    }
    return call->args.status;
}

waldo_status waldo__chat_calls_end(waldo__chat_calls *calls, int short_ids, int is_cut)
{
    waldo_status status = WALDO_OK;

    sort_calls(&calls->named);
    for (size_t i = 0; i < calls->named.count && status == WALDO_OK; i++) {
        status = settle_id(&calls->named, i, short_ids);
        if (status == WALDO_OK) {
            status = settle_args(calls->named.at[i], is_cut && i + 1 == calls->named.count);
        }
    }
    return status;
}
