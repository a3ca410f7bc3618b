#include "transcript/transcript.h"

#include <stdint.h>
#include <stdio.h>

#include "transcript/media.h"

enum { ITEM_MAX = 128 * 1024 * 1024 };

/* One block: the item's texts lie behind the struct. Its JSON is made when somebody asks for it. */
typedef struct waldo__entry {
    waldo_item item;
    char *json;
    size_t json_len;
    waldo_media media[]; /* the texts behind them */
} entry;

static const char *const kind_names[] = {
    [WALDO_ITEM_USER] = "user",
    [WALDO_ITEM_ASSISTANT] = "assistant",
    [WALDO_ITEM_REASONING] = "reasoning",
    [WALDO_ITEM_TOOL_CALL] = "tool_call",
    [WALDO_ITEM_TOOL_RESULT] = "tool_result",
    [WALDO_ITEM_NOTICE] = "notice",
    [WALDO_ITEM_COMPACTION] = "compaction",
};

const char *waldo__item_kind_name(waldo_item_kind kind)
{
    return kind >= WALDO_ITEM_USER && kind <= WALDO_ITEM_COMPACTION ? kind_names[kind] : "?";
}

int waldo__is_response_part(waldo_item_kind kind)
{
    return kind == WALDO_ITEM_ASSISTANT || kind == WALDO_ITEM_REASONING ||
           kind == WALDO_ITEM_TOOL_CALL;
}

static void write_text(waldo__json_writer *jw, const char *key, waldo_str text)
{
    if (text.len > 0) {
        waldo__jw_str(jw, key, text);
    }
}

waldo_status waldo__item_write(const waldo_item *item, waldo__buf *out)
{
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_text(&jw, "kind", waldo__item_kind_name(item->kind));
    write_text(&jw, "id", item->id);
    write_text(&jw, "name", item->name);
    if (item->kind == WALDO_ITEM_TOOL_CALL) {
        waldo__jw_str(&jw, "args", item->args);
    } else {
        waldo__jw_str(&jw, "text", item->text);
    }
    if (item->is_error) {
        waldo__jw_bool(&jw, "is_error", 1);
    }
    waldo__media_write(&jw, item->media, item->media_count);
    write_text(&jw, "vendor", item->vendor);
    if (item->raw.len > 0) {
        waldo__jw_raw(&jw, "raw", item->raw);
    }
    write_text(&jw, "response", item->response);
    waldo__jw_end(&jw, '}');
    return out->status;
}

/* Move a text behind the entry and give its new place. */
static waldo_str move_text(char **at, waldo_str text)
{
    char *place = *at;

    if (text.len > 0) {
        memcpy(place, text.ptr, text.len);
    }
    place[text.len] = '\0';
    *at += text.len + 1;
    return waldo__strn(place, text.len);
}

static void entry_free(entry *e)
{
    if (e != NULL) {
        waldo__free(e->json);
        waldo__free(e);
    }
}

static entry *entry_new(const waldo_item *item)
{
    size_t len = item->text.len + item->id.len + item->name.len + item->args.len +
                 item->vendor.len + item->raw.len + item->response.len + 7;
    size_t count = item->media_count;
    entry *e;
    char *at;

    for (size_t i = 0; i < count; i++) {
        len += item->media[i].mime.len + item->media[i].base64.len + 2;
    }
    e = waldo__alloc(sizeof *e + count * sizeof e->media[0] + len);
    if (e == NULL) {
        return NULL;
    }
    at = (char *)(e->media + count);
    *e = (entry){ .item = *item };
    e->item.text = move_text(&at, item->text);
    e->item.id = move_text(&at, item->id);
    e->item.name = move_text(&at, item->name);
    e->item.args = move_text(&at, item->args);
    e->item.vendor = move_text(&at, item->vendor);
    e->item.raw = move_text(&at, item->raw);
    e->item.response = move_text(&at, item->response);
    e->item.media = count > 0 ? e->media : NULL;
    for (size_t i = 0; i < count; i++) {
        e->media[i].mime = move_text(&at, item->media[i].mime);
        e->media[i].base64 = move_text(&at, item->media[i].base64);
    }
    return e;
}

waldo_status waldo__transcript_append(waldo__transcript *transcript, const waldo_item *items,
                                      size_t count)
{
    size_t before = transcript->count;

    for (size_t i = 0; i < count; i++) {
        entry *made = entry_new(&items[i]);
        entry **slot = made != NULL ? WALDO__VEC_PUSH(transcript) : NULL;

        if (slot == NULL) {
            entry_free(made);
            waldo__transcript_truncate(transcript, before);
            return WALDO_ENOMEM;
        }
        *slot = made;
    }
    return WALDO_OK;
}

void waldo__transcript_truncate(waldo__transcript *transcript, size_t count)
{
    while (transcript->count > count) {
        entry_free(transcript->at[--transcript->count]);
    }
}

void waldo__transcript_free(waldo__transcript *transcript)
{
    waldo__transcript_truncate(transcript, 0);
    WALDO__VEC_FREE(transcript);
}

const waldo_item *waldo__transcript_item(const waldo__transcript *transcript, size_t index)
{
    return index < transcript->count ? &transcript->at[index]->item : NULL;
}

waldo_str waldo__transcript_json(waldo__transcript *transcript, size_t index)
{
    waldo__buf json = WALDO__BUF_INIT(ITEM_MAX);
    entry *e;

    if (index >= transcript->count) {
        return WALDO__S("");
    }
    e = transcript->at[index];
    if (e->json == NULL && waldo__item_write(&e->item, &json) == WALDO_OK) {
        e->json = waldo__buf_take(&json, &e->json_len);
    }
    waldo__buf_free(&json);
    return e->json != NULL ? waldo__strn(e->json, e->json_len) : WALDO__S("");
}
