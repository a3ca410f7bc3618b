/* Output as the model reads it. */
#include <inttypes.h>

#include "base/utf8.h"
#include "tools/tools.h"

/*
 * Halves of max for the two ends. What lies between is cut at characters; the gap the sandbox layer
 * left already is swallowed by it, so that there is one gap with one exact number.
 */
waldo_status waldo__tool_show(const waldo_output *output, size_t max, waldo__buf *out)
{
    waldo_str all = output->bytes;
    size_t head = output->gap_at, tail = all.len - output->gap_at;
    uint64_t omitted = output->omitted;

    if (all.len > max) {
        size_t half = max / 2;

        /* An end that is shorter than its half leaves the rest to the other. */
        size_t new_head = head < half ? head : (tail < half ? max - tail : half);
        size_t new_tail = tail < half ? tail : max - new_head;

        if (omitted == 0) {
            new_head = half;
            new_tail = max - half;
        }
        new_head = waldo__utf8_cut(all, new_head);
        new_tail = all.len - waldo__utf8_start(all, all.len - new_tail);
        omitted = output->total - new_head - new_tail;
        head = new_head;
        tail = new_tail;
    }
    waldo__utf8_clean(waldo__strn(all.ptr, head), out);
    if (omitted > 0) {
        waldo__buf_printf(out, "\n[... %" PRIu64 " bytes omitted ...]\n", omitted);
    }
    return waldo__utf8_clean(waldo__strn(all.ptr + all.len - tail, tail), out);
}

waldo_status waldo__tool_show_lines(waldo_str text, size_t max, waldo__buf *out)
{
    size_t end = text.len;

    if (text.len <= max) {
        return waldo__utf8_clean(text, out);
    }
    end = waldo__utf8_cut(text, max);
    for (size_t i = end; i > 0; i--) {
        if (text.ptr[i - 1] == '\n') {
            end = i;
            break;
        }
    }
    waldo__utf8_clean(waldo__strn(text.ptr, end), out);
    return waldo__buf_printf(out, "[... %zu bytes omitted ...]\n", text.len - end);
}

void waldo__tool_fail_with(waldo_tool_call *call, waldo_status status, const waldo_error *error)
{
    waldo_tool_call_fail(call, "%s",
                         error != NULL ? waldo_error_message(error) : waldo_status_text(status));
}
