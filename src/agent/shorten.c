/*
 * Old tool output cut down, when a conversation has become too long for its model: in what is sent,
 * never in the transcript or the journal. Same rule, same bytes: what an item comes to depends on
 * nothing but the two marks of the run, which move only when an epoch ends.
 */
#include "agent/run.h"

#include "base/alloc.h"
#include "base/utf8.h"

enum {
    KEEP_OLD = 1024,    /* bytes of a result that was followed by an answer of the model */
    KEEP_NEWEST = 8192, /* bytes of those behind its last answer, together */
    NOTE_MAX = 256
};

/* What is sent of the item at index, with the marks until and newest. */
static size_t allowance(const waldo_run *run, size_t index, size_t until, size_t newest)
{
    size_t share;

    if (index >= until ||
        waldo__transcript_item(&run->transcript, index)->kind != WALDO_ITEM_TOOL_RESULT) {
        return SIZE_MAX;
    }
    if (index < newest) {
        return KEEP_OLD;
    }
    share = KEEP_NEWEST / (until - newest);
    return share > KEEP_OLD ? share : KEEP_OLD;
}

size_t waldo__run_sent_len(const waldo_run *run, size_t index)
{
    size_t len = waldo__transcript_item(&run->transcript, index)->text.len;
    size_t most = allowance(run, index, run->cut_until, run->cut_newest);

    return len < most ? len : most;
}

/* Images of old results go whole: what they show was answered. */
static size_t images_allowed(const waldo_run *run, size_t index, size_t newest)
{
    const waldo_item *item = waldo__transcript_item(&run->transcript, index);

    return index < newest && item->kind == WALDO_ITEM_TOOL_RESULT ? 0 : item->media_count;
}

size_t waldo__run_sent_images(const waldo_run *run, size_t index)
{
    return images_allowed(run, index, run->cut_newest);
}

/* Where the results behind the last part of an answer begin. */
static size_t newest_results(const waldo_run *run)
{
    size_t at = run->transcript.count;

    while (at > 0 &&
           !waldo__is_response_part(waldo__transcript_item(&run->transcript, at - 1)->kind)) {
        at--;
    }
    return at;
}

int waldo__run_shorten(waldo_run *run)
{
    size_t until = run->transcript.count, newest = newest_results(run);
    int gains = 0;

    for (size_t i = 0; i < until && !gains; i++) {
        gains = waldo__run_sent_len(run, i) > allowance(run, i, until, newest) ||
                waldo__run_sent_images(run, i) > images_allowed(run, i, newest);
    }
    if (gains) {
        run->cut_until = until;
        run->cut_newest = newest;
    }
    return gains;
}

/* The text with its middle left out. */
static void cut_middle(waldo_str *text, size_t most, waldo__buf *room)
{
    size_t head, tail;

    head = waldo__utf8_cut(*text, most / 2);
    tail = text->len - most / 2;
    while (tail < text->len && ((unsigned char)text->ptr[tail] & 0xc0) == 0x80) {
        tail++; /* not into a character */
    }
    waldo__buf_add(room, text->ptr, head);
    waldo__buf_printf(room,
                      "\n[... %zu bytes left out here, as the conversation was too long for the "
                      "model ...]\n",
                      tail - head);
    waldo__buf_add(room, text->ptr + tail, text->len - tail);
    *text = waldo__buf_str(room);
}

waldo_status waldo__run_sent_item(const waldo_run *run, size_t index, waldo_item *item,
                                  waldo__buf *room)
{
    size_t most = allowance(run, index, run->cut_until, run->cut_newest);
    size_t images = waldo__run_sent_images(run, index);

    waldo__buf_init(room, KEEP_NEWEST + NOTE_MAX);
    if (item->text.len > most) {
        cut_middle(&item->text, most, room);
    }
    if (images < item->media_count) {
        if (room->len == 0) {
            waldo__buf_add_str(room, item->text);
        }
        waldo__buf_printf(room, "%s[%zu image%s left out]", room->len > 0 ? "\n" : "",
                          item->media_count, item->media_count == 1 ? "" : "s");
        item->text = waldo__buf_str(room);
        item->media_count = images;
    }
    return room->status;
}
