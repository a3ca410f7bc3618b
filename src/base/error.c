#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { MESSAGE_MAX = 8192, WORD_MAX = 256 };

struct waldo_error {
    waldo_status status;
    waldo_error_class error_class;
    int http_status;
    int64_t retry_after_ms;
    char *message;
    char *provider_code;
    char *request_id;
};

static waldo_error out_of_memory = { .status = WALDO_ENOMEM,
                                     .error_class = WALDO_CLASS_SYSTEM,
                                     .retry_after_ms = -1,
                                     .message = (char *)"out of memory" };

void waldo_error_free(waldo_error *error)
{
    if (error == NULL || error == &out_of_memory) {
        return;
    }
    waldo__free_wiped(error->message);
    waldo__free_wiped(error->provider_code);
    waldo__free_wiped(error->request_id);
    waldo__free(error);
}

waldo_status waldo__error_nomem(waldo_error **ret_err)
{
    if (ret_err != NULL && *ret_err == NULL) {
        *ret_err = &out_of_memory;
    }
    return WALDO_ENOMEM;
}

static waldo_status set(waldo_error **ret_err, waldo_status status, waldo_error_class error_class,
                        const char *format, va_list args) WALDO_PRINTF(4, 0);

static waldo_status set(waldo_error **ret_err, waldo_status status, waldo_error_class error_class,
                        const char *format, va_list args)
{
    waldo__buf text = WALDO__BUF_WIPED(MESSAGE_MAX);
    waldo_error *error;

    if (ret_err == NULL || *ret_err != NULL) {
        return status;
    }
    error = WALDO__NEW(waldo_error);
    if (error == NULL) {
        waldo__error_nomem(ret_err);
        return status;
    }
    if (waldo__buf_vprintf(&text, format, args) == WALDO_ETOOBIG) {
        waldo__buf_clear(&text);
        waldo__buf_puts(&text, waldo_status_text(status));
    }
    *error = (waldo_error){ .status = status, .error_class = error_class, .retry_after_ms = -1 };
    error->message = waldo__buf_take(&text, NULL);
    waldo__buf_free(&text);
    *ret_err = error;
    return status;
}

waldo_status waldo_error_set(waldo_error **ret_err, waldo_status status,
                             waldo_error_class error_class, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    status = set(ret_err, status, error_class, format, args);
    va_end(args);
    return status;
}

waldo_status waldo__error_invalid(waldo_error **ret_err, const char *format, ...)
{
    waldo_status status;
    va_list args;

    va_start(args, format);
    status = set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE, format, args);
    va_end(args);
    return status;
}

void waldo__error_clear(waldo_error **error)
{
    waldo_error_free(*error);
    *error = NULL;
}

const char *waldo__error_text(waldo_status status, const waldo_error *error)
{
    return error != NULL ? waldo_error_message(error) : waldo_status_text(status);
}

/* Copy at most max bytes of a word that came from outside. */
static char *copy_word(const char *word)
{
    return word != NULL && word[0] != '\0' ? waldo__strndup(word, strnlen(word, WORD_MAX)) : NULL;
}

void waldo_error_add_http(waldo_error *error, int http_status, const char *provider_code,
                          const char *request_id, int64_t retry_after_ms)
{
    if (error == NULL || error == &out_of_memory) {
        return;
    }
    error->http_status = http_status;
    error->retry_after_ms = retry_after_ms;
    waldo__free_wiped(error->provider_code);
    waldo__free_wiped(error->request_id);
    error->provider_code = copy_word(provider_code);
    error->request_id = copy_word(request_id);
}

waldo_error *waldo_error_copy(const waldo_error *error)
{
    waldo_error *copy;

    if (error == NULL || error == &out_of_memory) {
        return (waldo_error *)error;
    }
    copy = WALDO__NEW(waldo_error);
    if (copy == NULL) {
        return &out_of_memory;
    }
    *copy = *error;
    copy->message = waldo__strdup(error->message);
    copy->provider_code = waldo__strdup(error->provider_code);
    copy->request_id = waldo__strdup(error->request_id);
    return copy;
}

void waldo__error_copy_to(waldo_error **ret_err, const waldo_error *from)
{
    if (ret_err != NULL && *ret_err == NULL) {
        *ret_err = waldo_error_copy(from);
    }
}

void waldo__error_move(waldo_error **ret_err, waldo_error *from)
{
    if (ret_err != NULL && *ret_err == NULL) {
        *ret_err = from;
    } else {
        waldo_error_free(from);
    }
}

void waldo__error_set_message(waldo_error *error, waldo_str message)
{
    char *copy;

    if (error == NULL || error == &out_of_memory) {
        return;
    }
    copy = waldo__strndup(message.ptr, message.len);
    if (copy != NULL) {
        waldo__free_wiped(error->message);
        error->message = copy;
    }
}

void waldo__error_prefix(waldo_error *error, const char *context)
{
    waldo__buf text = WALDO__BUF_WIPED(2 * MESSAGE_MAX);

    if (waldo__buf_printf(&text, "%s: %s", context, waldo_error_message(error)) == WALDO_OK) {
        waldo__error_set_message(error, waldo__buf_str(&text));
    }
    waldo__buf_free(&text);
}

waldo_status waldo_error_status(const waldo_error *error)
{
    return error != NULL ? error->status : WALDO_OK;
}

waldo_error_class waldo_error_get_class(const waldo_error *error)
{
    return error != NULL ? error->error_class : WALDO_CLASS_NONE;
}

/* A message that could not be copied falls back to the status's own text. */
const char *waldo_error_message(const waldo_error *error)
{
    if (error == NULL) {
        return "";
    }
    return error->message != NULL ? error->message : waldo_status_text(error->status);
}

int waldo_error_http_status(const waldo_error *error)
{
    return error != NULL ? error->http_status : 0;
}

const char *waldo_error_provider_code(const waldo_error *error)
{
    return error != NULL && error->provider_code != NULL ? error->provider_code : "";
}

const char *waldo_error_request_id(const waldo_error *error)
{
    return error != NULL && error->request_id != NULL ? error->request_id : "";
}

int64_t waldo_error_retry_after_ms(const waldo_error *error)
{
    return error != NULL ? error->retry_after_ms : -1;
}

static const struct {
    int number;
    waldo_status status;
    const char *text;
} errno_table[] = {
    { ENOENT, WALDO_ENOTFOUND, "no such file or directory" },
    { EACCES, WALDO_EACCESS, "permission denied" },
    { EPERM, WALDO_EACCESS, "operation not permitted" },
    { EROFS, WALDO_EACCESS, "read-only file system" },
    { EEXIST, WALDO_EEXISTS, "exists already" },
    { ENOTEMPTY, WALDO_EEXISTS, "directory is not empty" },
    { ENOTDIR, WALDO_EPATH, "not a directory" },
    { EISDIR, WALDO_EPATH, "is a directory" },
    { ELOOP, WALDO_EPATH, "symbolic links lead out or in a circle" },
    { EXDEV, WALDO_EPATH, "path leaves the allowed directory" },
    { ENAMETOOLONG, WALDO_EPATH, "path is too long" },
    { ENOSPC, WALDO_ENOSPACE, "no space left on device" },
    { EDQUOT, WALDO_ENOSPACE, "disk quota exceeded" },
    { EFBIG, WALDO_ETOOBIG, "file is too large" },
    { E2BIG, WALDO_ETOOBIG, "argument list is too long" },
    { ENOMEM, WALDO_ENOMEM, "out of memory" },
    { EAGAIN, WALDO_EBUSY, "too many at once, try again" },
    { EBUSY, WALDO_EBUSY, "device or resource busy" },
    { ETXTBSY, WALDO_EBUSY, "program is being written" },
    { EMFILE, WALDO_EBUSY, "too many open files in this process" },
    { ENFILE, WALDO_EBUSY, "too many open files in this system" },
    { EINVAL, WALDO_EINVAL, "invalid argument" },
    { ENOEXEC, WALDO_EINVAL, "not an executable of this machine" },
    { ENOSYS, WALDO_ENOTSUP, "not supported by this kernel" },
    { EOPNOTSUPP, WALDO_ENOTSUP, "not supported" },
    { EPIPE, WALDO_ECLOSED, "the other side is closed" },
    { ECONNRESET, WALDO_ECLOSED, "the other side closed the connection" },
    { ECANCELED, WALDO_ECANCELED, "cancelled" },
    { ETIMEDOUT, WALDO_ETIMEDOUT, "timed out" },
    { EIO, WALDO_EIO, "input or output error" },
};

waldo_status waldo__errno_status(int error_number)
{
    for (size_t i = 0; i < WALDO__COUNT(errno_table); i++) {
        if (errno_table[i].number == error_number) {
            return errno_table[i].status;
        }
    }
    return WALDO_EIO;
}

const char *waldo__errno_text(int error_number)
{
    for (size_t i = 0; i < WALDO__COUNT(errno_table); i++) {
        if (errno_table[i].number == error_number) {
            return errno_table[i].text;
        }
    }
    return "unexpected system error";
}
