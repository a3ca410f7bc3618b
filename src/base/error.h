/* Making errors inside the library: waldo_error_set() of <waldo/sys/error.h> and a few more. */
#ifndef WALDO_BASE_ERROR_H
#define WALDO_BASE_ERROR_H

#include <waldo/sys/error.h>

/* Keep the first of two errors; from is taken. */
void waldo__error_move(waldo_error **ret_err, waldo_error *from);

/* Free an error, and forget it. */
void waldo__error_clear(waldo_error **error);

/* Copy an error to a caller who may not want it. */
void waldo__error_copy_to(waldo_error **ret_err, const waldo_error *from);

/* Put "context: " in front of the message; NULL is a no-op. */
void waldo__error_prefix(waldo_error *error, const char *context);

/* Replace the message, such as by a redacted one. */
void waldo__error_set_message(waldo_error *error, waldo_str message);

/* What was asked for cannot be: WALDO_EINVAL of class usage. */
waldo_status waldo__error_invalid(waldo_error **ret_err, const char *format, ...)
    WALDO_PRINTF(2, 3);

/* What it says; without one, what the status means. */
const char *waldo__error_text(waldo_status status, const waldo_error *error);

/* The error for "out of memory": static, so that it needs none. */
waldo_status waldo__error_nomem(waldo_error **ret_err);

/* Status and text of an errno; the text is a short English phrase, static. */
waldo_status waldo__errno_status(int error_number);
const char *waldo__errno_text(int error_number);

#endif
