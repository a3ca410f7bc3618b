/**
 * @file
 * Log lines. The library never writes to stderr by itself; secrets are replaced before the sink
 * sees a line.
 */
#ifndef WALDO_LOG_H
#define WALDO_LOG_H

#include <waldo/defs.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t waldo_log_level;
enum {
    WALDO_LOG_DEFAULT = 0, /* as an option: WALDO_LOG_WARN */
    WALDO_LOG_ERROR,
    WALDO_LOG_WARN,
    WALDO_LOG_INFO,
    WALDO_LOG_DEBUG,
    WALDO_LOG_TRACE
};

/**
 * Receives one line without a newline.
 *
 * @param userdata  as given in the runtime's options
 * @param level     severity
 * @param area      static text: "http", "sandbox", "run", ...
 * @param line      borrowed for the call
 * Called on the thread that drives the runtime; may call nothing of the library.
 */
typedef void (*waldo_log_fn)(void *userdata, waldo_log_level level, const char *area,
                             waldo_str line);

#ifdef __cplusplus
}
#endif

#endif
