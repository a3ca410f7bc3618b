/* Log lines: formatted once, scrubbed, handed to the host's sink. */
#include <stdarg.h>

#include "base/buf.h"
#include "loop/internal.h"

enum { MAX_LINE = 4096 };

void waldo__loop_set_log(waldo__loop *loop, waldo_log_level level, waldo_log_fn fn, void *userdata,
                         void (*scrub)(void *context, waldo_str line, waldo_log_fn fn,
                                       void *userdata, waldo_log_level level, const char *area),
                         void *scrub_context)
{
    loop->log_level = level == WALDO_LOG_DEFAULT ? WALDO_LOG_WARN : level;
    loop->log_fn = fn;
    loop->log_userdata = userdata;
    loop->scrub = scrub;
    loop->scrub_context = scrub_context;
}

int waldo__log_wants(const waldo__loop *loop, waldo_log_level level)
{
    return loop->log_fn != NULL && level <= loop->log_level;
}

/* A line too long for the limit is a defect of its caller; it is named instead of printed. */
void waldo__log(waldo__loop *loop, waldo_log_level level, const char *area, const char *format, ...)
{
    waldo__buf line = WALDO__BUF_INIT(MAX_LINE);
    waldo_status status;
    waldo_str text;
    va_list args;

    if (!waldo__log_wants(loop, level)) {
        return;
    }
    va_start(args, format);
    status = waldo__buf_vprintf(&line, format, args);
    va_end(args);
    if (status == WALDO_OK) {
        for (size_t i = 0; i < line.len; i++) {
            line.ptr[i] = line.ptr[i] == '\n' || line.ptr[i] == '\r' ? ' ' : line.ptr[i];
        }
        text = waldo__buf_str(&line);
    } else {
        text = WALDO__S("(a log line was too long or memory is short)");
    }
    if (loop->scrub != NULL) {
        loop->scrub(loop->scrub_context, text, loop->log_fn, loop->log_userdata, level, area);
    } else {
        loop->log_fn(loop->log_userdata, level, area, text);
    }
    waldo__buf_free(&line);
}
