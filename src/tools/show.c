/* Text as the model reads it. What counts is its length after cleaning: U+FFFD has three bytes. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"
#include "json/json.h"
#include "tools/tools.h"

enum { REPLACED = 3, ODD_NAME_MAX = 32 * 1024 };

/*
 * The character or the invalid bytes at an offset: their number, and what they cost. An unfinished
 * character at the end is 0 bytes when more was cut off there.
 */
static size_t step_at(waldo_str text, size_t at, int is_cut, size_t *ret_cost)
{
    int step = waldo__utf8_step(text.ptr + at, text.len - at);

    if (step > 0) {
        *ret_cost = text.ptr[at] != '\0' ? (size_t)step : REPLACED;
        return (size_t)step;
    }
    *ret_cost = REPLACED;
    return step < 0 ? (size_t)-step : is_cut ? 0 : text.len - at;
}

static size_t fit_head(waldo_str text, int is_cut, size_t max, size_t *ret_cost)
{
    size_t at = 0, used = 0, cost = 0;

    while (at < text.len) {
        size_t step = step_at(text, at, is_cut, &cost);

        if (step == 0 || cost > max - used) {
            break;
        }
        at += step;
        used += cost;
    }
    *ret_cost = used;
    return at;
}

size_t waldo__tool_fit(waldo_str text, int is_cut, size_t max)
{
    size_t cost;

    return fit_head(text, is_cut, max, &cost);
}

/* Where the longest tail of at most max bytes begins. */
static size_t fit_tail(waldo_str text, size_t from, size_t max)
{
    size_t total, cost = 0;

    fit_head(waldo__slice(text.ptr + from, text.len - from), 0, SIZE_MAX, &total);
    while (total > max) {
        from += step_at(text, from, 0, &cost);
        total -= cost;
    }
    return from;
}

waldo_status waldo__tool_show(const waldo_output *output, size_t max, waldo__buf *out)
{
    waldo_str all = output->bytes, head = all;
    size_t head_cost, head_len = fit_head(all, 0, max, &head_cost), tail_at = 0;

    if (output->omitted == 0 && head_len == all.len) {
        return waldo__utf8_clean(all, out);
    }
    if (output->omitted > 0) {
        head.len = output->gap_at;
        tail_at = head.len;
        /* The gap may have cut a character: the rest of it would be noise. */
        while (tail_at < all.len && tail_at < head.len + 3 && (all.ptr[tail_at] & 0xc0) == 0x80) {
            tail_at++;
        }
    }
    head_len = fit_head(head, 1, max / 2, &head_cost);
    tail_at = fit_tail(all, tail_at > head_len ? tail_at : head_len, max - head_cost);
    waldo__utf8_clean(waldo__slice(all.ptr, head_len), out);
    waldo__buf_printf(out, "\n[... %" PRIu64 " bytes omitted ...]\n",
                      output->total - head_len - (all.len - tail_at));
    return waldo__utf8_clean(waldo__slice(all.ptr + tail_at, all.len - tail_at), out);
}

static size_t count_lines(waldo_str text)
{
    size_t lines = 0;

    for (size_t i = 0; i < text.len; i++) {
        lines += text.ptr[i] == '\n' || i + 1 == text.len;
    }
    return lines;
}

waldo_status waldo__tool_show_lines(waldo_str text, size_t max, waldo__buf *out)
{
    size_t end = waldo__tool_fit(text, 0, max), line_end = end;
    waldo_str rest;

    if (end == text.len) {
        return waldo__utf8_clean(text, out);
    }
    while (line_end > 0 && text.ptr[line_end - 1] != '\n') {
        line_end--;
    }
    end = line_end > 0 ? line_end : end; /* a first line that is too long is cut */
    rest = waldo__slice(text.ptr + end, text.len - end);
    waldo__utf8_clean(waldo__slice(text.ptr, end), out);
    return waldo__buf_printf(out, "%s[... %zu line%s (%zu bytes) omitted ...]\n",
                             line_end > 0 ? "" : "\n", count_lines(rest),
                             count_lines(rest) == 1 ? "" : "s", rest.len);
}

int waldo__tool_odd_name(waldo_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char)name.ptr[i] < ' ' || name.ptr[i] == 0x7f) {
            return 1;
        }
    }
    return name.len == 0 || name.ptr[0] == ' ' || name.ptr[0] == '"' ||
           name.ptr[name.len - 1] == ' ';
}

waldo_status waldo__tool_show_name(waldo_str name, waldo__buf *out)
{
    waldo__buf quoted = WALDO__BUF_INIT(ODD_NAME_MAX);
    waldo__json_writer jw;

    if (!waldo__tool_odd_name(name)) {
        return waldo__buf_add_str(out, name);
    }
    waldo__json_writer_init(&jw, &quoted);
    waldo__jw_str(&jw, NULL, name);
    waldo__buf_add_str(out, waldo__buf_str(&quoted));
    waldo__buf_free(&quoted);
    return out->status;
}

waldo_status waldo__tool_add_folder(const char *folder, waldo__buf *out)
{
    size_t len = strlen(folder);

    if (strcmp(folder, ".") == 0) {
        return out->status;
    }
    waldo__buf_add(out, folder, len);
    return len > 0 && folder[len - 1] == '/' ? out->status : waldo__buf_putc(out, '/');
}

/* What the model can do about a failure whose own text does not say it. */
static const struct {
    waldo_status status;
    const char *hint;
} hints[] = {
    { WALDO_ENOSPACE, "the disk of the sandbox is full: remove what is not needed" },
    { WALDO_EINVAL, "only regular files can be read and written" },
    { WALDO_ELOST, "the sandbox was lost; what was not finished may or may not have happened" },
};

void waldo__tool_fail_with(waldo_tool_call *call, waldo_status status, const waldo_error *error)
{
    const char *text = waldo__error_text(status, error);
    const char *path = waldo_tool_call_str(call, "path");

    /* The most common one reads the same whatever the sandbox is. */
    if (status == WALDO_ENOTFOUND && path != NULL) {
        waldo_tool_call_fail(call, "%s does not exist: look for it with ls or glob", path);
        return;
    }
    for (size_t i = 0; i < WALDO__COUNT(hints); i++) {
        if (hints[i].status == status && waldo_error_get_class(error) != WALDO_CLASS_USAGE) {
            waldo_tool_call_fail(call, "%s (%s)", text, hints[i].hint);
            return;
        }
    }
    waldo_tool_call_fail(call, "%s", text);
}
