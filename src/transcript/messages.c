#include "transcript/messages.h"

#include "base/base64.h"
#include "base/error.h"

enum { TEXT_MAX = 64 << 20 };

/* ---- reading: each taker gives what is wrong, or NULL ---- */

static const char no_memory[] = "out of memory";

/* One message while it is read. */
typedef struct work {
    waldo__messages *into;
    const waldo__json_value *message;
    size_t calls; /* the last calls that were made are items from here on ... */
    size_t open;  /* ... and so many of them have no result */
} work;

static waldo_item *add_item(work *w, waldo_item_kind kind)
{
    waldo_item *item = WALDO__VEC_PUSH(w->into);

    if (item != NULL) {
        item->kind = kind;
        item->text = item->id = item->name = item->args = item->vendor = item->raw =
            item->response = WALDO__S("");
    }
    return item;
}

static const char *take_image(waldo__media_list *media, waldo_str url)
{
    static const char mark[] = ";base64,";
    size_t at = waldo__str_search(url, waldo__str(mark), 0) + strlen(mark);
    waldo__buf bytes = WALDO__BUF_INIT(2 * (size_t)WALDO__MEDIA_MAX);
    waldo_status status;

    if (!waldo__str_starts(url, "data:image/") || at > url.len) {
        return "an image that is no data: URL in base64; fetch it and put its bytes there";
    }
    status = waldo__base64_decode(waldo__slice(url.ptr + at, url.len - at), &bytes);
    if (status == WALDO_OK) {
        status = waldo__media_add(media, waldo__buf_str(&bytes));
    }
    waldo__buf_free(&bytes);
    return status == WALDO_OK       ? NULL
           : status == WALDO_ENOMEM ? no_memory
                                    : "an image that is no PNG, JPEG, GIF or WebP, or too large";
}

/* Texts of a list of parts, line by line; images where media is not NULL. */
static const char *take_parts(const waldo__json_value *parts, waldo__buf *text,
                              waldo__media_list *media)
{
    const char *why = NULL;

    for (const waldo__json_value *part = waldo__json_first(parts); part != NULL && why == NULL;
         part = waldo__json_next(part)) {
        waldo_str type = waldo__json_get_str(part, "type"), piece;

        if (waldo__str_is(type, "text") || waldo__str_is(type, "refusal")) {
            if (!waldo__json_str(waldo__json_get(part, type.ptr), &piece)) {
                return "a part of its content has no text";
            }
            waldo__buf_puts(text, text->len > 0 ? "\n" : "");
            why = waldo__buf_add_str(text, piece) == WALDO_OK ? NULL : no_memory;
        } else if (waldo__str_is(type, "image_url") && media != NULL) {
            why = take_image(media, waldo__json_get_str(waldo__json_get(part, "image_url"), "url"));
        } else {
            why = "a part of its content is of a kind that it cannot have";
        }
    }
    return why;
}

static const char *take_content(work *w, waldo_item *item, int can_have_images)
{
    const waldo__json_value *content = waldo__json_get(w->message, "content");
    waldo__buf text = WALDO__BUF_INIT(TEXT_MAX);
    waldo__media_list *media = NULL, **kept;
    const char *why;
    char **slot;
    size_t len;

    if (waldo__json_str(content, &item->text)) {
        return NULL;
    }
    if (waldo__json_type_of(content) != WALDO__JSON_ARRAY) {
        return "its content is neither text nor a list of parts";
    }
    if (can_have_images) {
        media = WALDO__NEW(waldo__media_list);
        kept = media != NULL ? WALDO__VEC_PUSH(&w->into->media) : NULL;
        if (kept == NULL) {
            waldo__free(media);
            return no_memory;
        }
        *kept = media;
    }
    why = take_parts(content, &text, media);
    slot = why == NULL ? WALDO__VEC_PUSH(&w->into->texts) : NULL;
    if (slot != NULL) {
        *slot = waldo__buf_take(&text, &len);
        why = *slot != NULL ? NULL : no_memory;
    } else if (why == NULL) {
        why = no_memory;
    }
    waldo__buf_free(&text);
    if (why == NULL) {
        item->text = waldo__strn(*slot, len);
        item->media = media != NULL ? media->at : NULL;
        item->media_count = media != NULL ? media->count : 0;
    }
    return why;
}

static const char *take_said(work *w, waldo_item_kind kind)
{
    waldo_item *item = add_item(w, kind);

    return item != NULL ? take_content(w, item, kind == WALDO_ITEM_USER) : no_memory;
}

static const char *take_user(work *w)
{
    return take_said(w, WALDO_ITEM_USER);
}

static const char *take_notice(work *w)
{
    return take_said(w, WALDO_ITEM_NOTICE);
}

static waldo_item *find_call(const work *w, waldo_str id)
{
    for (size_t i = w->calls; i < w->into->count; i++) {
        if (w->into->at[i].kind == WALDO_ITEM_TOOL_CALL && waldo__str_eq(w->into->at[i].id, id)) {
            return &w->into->at[i];
        }
    }
    return NULL;
}

static const char *take_call(work *w, const waldo__json_value *call)
{
    const waldo__json_value *function = waldo__json_get(call, "function");
    waldo_str id = waldo__json_get_str(call, "id"), name = waldo__json_get_str(function, "name");
    waldo_str args;
    waldo_item *item;

    if (id.len == 0 || name.len == 0 ||
        !waldo__json_str(waldo__json_get(function, "arguments"), &args)) {
        return "a call without id, function name or arguments as text";
    }
    if (find_call(w, id) != NULL) {
        return "two calls with one id";
    }
    item = add_item(w, WALDO_ITEM_TOOL_CALL);
    if (item == NULL) {
        return no_memory;
    }
    item->id = id;
    item->name = name;
    item->args = args;
    w->open++;
    return NULL;
}

static const char *take_assistant(work *w)
{
    const waldo__json_value *content = waldo__json_get(w->message, "content");
    const waldo__json_value *calls = waldo__json_get(w->message, "tool_calls");
    const char *why = NULL;

    w->calls = w->into->count;
    if (waldo__json_get(w->message, "function_call") != NULL) {
        return "function_call is not read: write tool_calls";
    }
    if (waldo__json_type_of(content) > WALDO__JSON_NULL) {
        why = take_said(w, WALDO_ITEM_ASSISTANT);
        if (why == NULL && w->into->at[w->into->count - 1].text.len == 0) {
            w->into->count--;
        }
    }
    for (const waldo__json_value *call = waldo__json_first(calls); call != NULL && why == NULL;
         call = waldo__json_next(call)) {
        why = take_call(w, call);
    }
    return why == NULL && w->into->count == w->calls ? "neither text nor a call" : why;
}

static int has_result(const work *w, waldo_str id)
{
    for (size_t i = w->calls; i < w->into->count; i++) {
        if (w->into->at[i].kind == WALDO_ITEM_TOOL_RESULT && waldo__str_eq(w->into->at[i].id, id)) {
            return 1;
        }
    }
    return 0;
}

static const char *take_tool(work *w)
{
    waldo_str id = waldo__json_get_str(w->message, "tool_call_id");
    waldo_item *call = w->open > 0 ? find_call(w, id) : NULL, *item;
    waldo_str name;

    if (call == NULL || has_result(w, id)) {
        return "the result of no call that waits for one (tool_call_id)";
    }
    name = call->name;
    item = add_item(w, WALDO_ITEM_TOOL_RESULT);
    if (item == NULL) {
        return no_memory;
    }
    item->id = id;
    item->name = name;
    w->open--;
    return take_content(w, item, 1);
}

static const struct {
    const char *role;
    const char *(*take)(work *w);
} roles[] = {
    { "user", take_user },        { "assistant", take_assistant }, { "tool", take_tool },
    { "developer", take_notice }, { "system", take_notice },
};

static const char *take_message(work *w)
{
    waldo_str role = waldo__json_get_str(w->message, "role");

    for (size_t i = 0; i < WALDO__COUNT(roles); i++) {
        if (!waldo__str_is(role, roles[i].role)) {
            continue;
        }
        return w->open > 0 && roles[i].take != take_tool ? "a call before it has no result"
                                                         : roles[i].take(w);
    }
    return "its role is none of user, assistant, tool, developer, system";
}

waldo_status waldo__messages_read(waldo_str json, waldo__messages *messages, waldo_error **ret_err)
{
    work w = { .into = messages };
    waldo_status status = waldo__json_parse(json, NULL, &messages->doc, ret_err);
    const waldo__json_value *root = waldo__json_root(messages->doc);
    const char *why = NULL;
    size_t number = 0;

    if (status != WALDO_OK) {
        return status;
    }
    if (waldo__json_type_of(root) != WALDO__JSON_ARRAY) {
        return waldo__error_invalid(ret_err, "messages are to be a JSON array");
    }
    for (w.message = waldo__json_first(root); w.message != NULL && why == NULL;
         w.message = waldo__json_next(w.message)) {
        number++;
        why = take_message(&w);
    }
    if (why == NULL && w.open > 0) {
        why = "one of its calls has no result behind it";
    }
    if (why == no_memory) {
        return waldo__error_nomem(ret_err);
    }
    return why == NULL ? WALDO_OK
                       : waldo__error_invalid(ret_err, "message number %zu: %s", number, why);
}

void waldo__messages_free(waldo__messages *messages)
{
    for (size_t i = 0; i < messages->texts.count; i++) {
        waldo__free(messages->texts.at[i]);
    }
    for (size_t i = 0; i < messages->media.count; i++) {
        waldo__media_free(messages->media.at[i]);
        waldo__free(messages->media.at[i]);
    }
    WALDO__VEC_FREE(&messages->texts);
    WALDO__VEC_FREE(&messages->media);
    WALDO__VEC_FREE(messages);
    waldo__json_free(messages->doc);
    messages->doc = NULL;
}

/* ---- writing ---- */

static void write_content(const waldo_item *item, waldo__json_writer *jw)
{
    if (item->media_count == 0) {
        waldo__jw_str(jw, "content", item->text);
        return;
    }
    waldo__jw_array(jw, "content");
    waldo__jw_object(jw, NULL);
    waldo__jw_str(jw, "type", WALDO__S("text"));
    waldo__jw_str(jw, "text", item->text);
    waldo__jw_end(jw, '}');
    for (size_t i = 0; i < item->media_count; i++) {
        waldo__jw_object(jw, NULL);
        waldo__jw_str(jw, "type", WALDO__S("image_url"));
        waldo__jw_object(jw, "image_url");
        /* Both are made of letters that JSON takes as they are. */
        waldo__buf_printf(jw->out, "\"url\":\"data:%s;base64,", item->media[i].mime.ptr);
        waldo__buf_add_str(jw->out, item->media[i].base64);
        waldo__buf_putc(jw->out, '"');
        waldo__jw_end(jw, '}');
        waldo__jw_end(jw, '}');
    }
    waldo__jw_end(jw, ']');
}

static void write_said(const waldo_item *item, const char *role, waldo__json_writer *jw)
{
    waldo__jw_object(jw, NULL);
    waldo__jw_text(jw, "role", role);
    if (item->kind == WALDO_ITEM_TOOL_RESULT) {
        waldo__jw_str(jw, "tool_call_id", item->id);
    }
    write_content(item, jw);
    waldo__jw_end(jw, '}');
}

static void write_call(const waldo_item *item, waldo__json_writer *jw)
{
    waldo__jw_object(jw, NULL);
    waldo__jw_str(jw, "id", item->id);
    waldo__jw_str(jw, "type", WALDO__S("function"));
    waldo__jw_object(jw, "function");
    waldo__jw_str(jw, "name", item->name);
    waldo__jw_str(jw, "arguments", item->args);
    waldo__jw_end(jw, '}');
    waldo__jw_end(jw, '}');
}

/* Texts of items [from, end) of one answer together, then its calls. */
static void write_answer(const waldo__transcript *transcript, size_t from, size_t end,
                         waldo__json_writer *jw)
{
    waldo__buf text = WALDO__BUF_INIT(TEXT_MAX);
    size_t calls = 0;

    for (size_t i = from; i < end; i++) {
        const waldo_item *item = waldo__transcript_item(transcript, i);

        calls += item->kind == WALDO_ITEM_TOOL_CALL;
        if (item->kind == WALDO_ITEM_ASSISTANT) {
            waldo__buf_add_str(&text, item->text);
        }
    }
    if (text.status != WALDO_OK) {
        jw->out->status = text.status;
    }
    if (text.len > 0 || calls > 0) {
        waldo__jw_object(jw, NULL);
        waldo__jw_str(jw, "role", WALDO__S("assistant"));
        if (text.len > 0) {
            waldo__jw_str(jw, "content", waldo__buf_str(&text));
        } else {
            waldo__jw_null(jw, "content");
        }
        if (calls > 0) {
            waldo__jw_array(jw, "tool_calls");
            for (size_t i = from; i < end; i++) {
                if (waldo__transcript_item(transcript, i)->kind == WALDO_ITEM_TOOL_CALL) {
                    write_call(waldo__transcript_item(transcript, i), jw);
                }
            }
            waldo__jw_end(jw, ']');
        }
        waldo__jw_end(jw, '}');
    }
    waldo__buf_free(&text);
}

waldo_status waldo__messages_write(const waldo__transcript *transcript, size_t count,
                                   waldo__buf *out)
{
    static const char *const said[] = {
        [WALDO_ITEM_USER] = "user",
        [WALDO_ITEM_TOOL_RESULT] = "tool",
        [WALDO_ITEM_NOTICE] = "developer",
        [WALDO_ITEM_COMPACTION] = "developer",
    };
    waldo__json_writer jw;
    size_t end;

    waldo__json_writer_init(&jw, out);
    waldo__jw_array(&jw, NULL);
    for (size_t i = 0; i < count; i = end) {
        const waldo_item *item = waldo__transcript_item(transcript, i);

        end = i + 1;
        if (!waldo__is_response_part(item->kind)) {
            write_said(item, said[item->kind], &jw);
            continue;
        }
        while (end < count &&
               waldo__is_response_part(waldo__transcript_item(transcript, end)->kind)) {
            end++;
        }
        write_answer(transcript, i, end, &jw);
    }
    waldo__jw_end(&jw, ']');
    return out->status;
}
