#include "sandbox/collect.h"

#include "base/utf8.h"

void waldo__collect_init(waldo__collect *collect, size_t max)
{
    size_t tail = max / 2 < WALDO__COLLECT_TAIL_MAX ? max / 2 : WALDO__COLLECT_TAIL_MAX;

    *collect = (waldo__collect){ .head_max = max - tail, .tail_max = tail };
    waldo__buf_init(&collect->head, max + 1);
    waldo__buf_init(&collect->tail, 2 * collect->tail_max + 1);
}

void waldo__collect_free(waldo__collect *collect)
{
    waldo__buf_free(&collect->head);
    waldo__buf_free(&collect->tail);
}

static waldo_status add_tail(waldo__collect *collect, waldo_str bytes)
{
    size_t max = collect->tail_max;

    if (bytes.len >= max) {
        collect->gap |= collect->tail.len > 0 || bytes.len > max;
        waldo__buf_clear(&collect->tail);
        return waldo__buf_add(&collect->tail, bytes.ptr + (bytes.len - max), max);
    }
    if (collect->tail.len + bytes.len > 2 * max) {
        waldo__buf_consume(&collect->tail, collect->tail.len - max);
        collect->gap = 1;
    }
    return waldo__buf_add_str(&collect->tail, bytes);
}

waldo_status waldo__collect_add(waldo__collect *collect, waldo_str bytes)
{
    size_t part = 0;

    collect->total += bytes.len;
    if (!collect->gap && collect->tail.len == 0) {
        size_t room = collect->head_max - collect->head.len;

        part = bytes.len < room ? bytes.len : room;
        waldo__buf_add(&collect->head, bytes.ptr, part);
    }
    if (part < bytes.len) {
        add_tail(collect, waldo__slice(bytes.ptr + part, bytes.len - part));
    }
    return collect->head.status != WALDO_OK ? collect->head.status : collect->tail.status;
}

/* A gap inside the tail would be a second one: what came before it goes, too. */
void waldo__collect_skip(waldo__collect *collect, uint64_t count)
{
    if (count > 0) {
        collect->total += count;
        collect->gap = 1;
        waldo__buf_clear(&collect->tail);
    }
}

waldo_output waldo__collect_output(waldo__collect *collect)
{
    waldo_output output = { .gap_at = collect->head.len, .total = collect->total };

    if (collect->tail.len > collect->tail_max) {
        waldo__buf_consume(&collect->tail, collect->tail.len - collect->tail_max);
        collect->gap = 1;
    }
    waldo__buf_add_str(&collect->head, waldo__buf_str(&collect->tail));
    waldo__buf_clear(&collect->tail);
    output.bytes = waldo__buf_str(&collect->head);
    output.omitted = collect->total - output.bytes.len;
    if (output.omitted == 0) {
        output.gap_at = output.bytes.len;
    }
    return output;
}

static void flush_one(waldo__merge *merge, waldo__collect *collect, int at)
{
    waldo__collect_add(collect, waldo__strn(merge->cut[at], merge->cut_len[at]));
    merge->cut_len[at] = 0;
}

void waldo__merge_flush(waldo__merge *merge, waldo__collect *collect)
{
    flush_one(merge, collect, 0);
    flush_one(merge, collect, 1);
}

void waldo__merge_add(waldo__merge *merge, waldo__collect *collect, int stream, waldo_str bytes)
{
    int at = stream == 2;
    char *cut = merge->cut[at];

    while (merge->cut_len[at] > 0 && bytes.len > 0) {
        int step;

        cut[merge->cut_len[at]] = bytes.ptr[0];
        step = waldo__utf8_step(cut, merge->cut_len[at] + 1);
        if (step >= 0) {
            merge->cut_len[at]++;
            bytes = waldo__slice(bytes.ptr + 1, bytes.len - 1);
        }
        if (step != 0) {
            flush_one(merge, collect, at);
        }
    }
    for (size_t len = 1; len < sizeof merge->cut[at] && len <= bytes.len; len++) {
        if (waldo__utf8_step(bytes.ptr + bytes.len - len, len) == 0) {
            bytes.len -= len;
            memcpy(cut, bytes.ptr + bytes.len, len);
            merge->cut_len[at] = len;
            break;
        }
    }
    waldo__collect_add(collect, bytes);
}
