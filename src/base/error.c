#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
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

#define ERRNO_MAP(X)                                                                               \
    X(ENOENT, ENOTFOUND, "no such file or directory")                                              \
    X(EACCES, EACCESS, "permission denied")                                                        \
    X(EPERM, EACCESS, "operation not permitted")                                                   \
    X(EROFS, EACCESS, "read-only file system")                                                     \
    X(EEXIST, EEXISTS, "exists already")                                                           \
    X(ENOTEMPTY, EEXISTS, "directory is not empty")                                                \
    X(ENOTDIR, EPATH, "not a directory")                                                           \
    X(EISDIR, EPATH, "is a directory")                                                             \
    X(ELOOP, EPATH, "symbolic links lead out or in a circle")                                      \
    X(EXDEV, EPATH, "path leaves the allowed directory")                                           \
    X(ENAMETOOLONG, EPATH, "path is too long")                                                     \
    X(ENOSPC, ENOSPACE, "no space left on device")                                                 \
    X(EDQUOT, ENOSPACE, "disk quota exceeded")                                                     \
    X(EFBIG, ETOOBIG, "file is too large")                                                         \
    X(E2BIG, ETOOBIG, "argument list is too long")                                                 \
    X(ENOMEM, ENOMEM, "out of memory")                                                             \
    X(EAGAIN, EBUSY, "too many at once, try again")                                                \
    X(EBUSY, EBUSY, "device or resource busy")                                                     \
    X(ETXTBSY, EBUSY, "program is being written")                                                  \
    X(EMFILE, EBUSY, "too many open files in this process")                                        \
    X(ENFILE, EBUSY, "too many open files in this system")                                         \
    X(EINVAL, EINVAL, "invalid argument")                                                          \
    X(ENOEXEC, EINVAL, "not an executable of this machine")                                        \
    X(ENOSYS, ENOTSUP, "not supported by this kernel")                                             \
    X(EOPNOTSUPP, ENOTSUP, "not supported")                                                        \
    X(EPIPE, ECLOSED, "the other side is closed")                                                  \
    X(ECONNRESET, ECLOSED, "the other side closed the connection")                                 \
    X(ECANCELED, ECANCELED, "cancelled")                                                           \
    X(ETIMEDOUT, ETIMEDOUT, "timed out")                                                           \
    X(EIO, EIO, "input or output error")

/* Their texts in one piece, as those of statuses are. */
static const struct errno_texts {
#define MEMBER(number, status, text) char status##_##number[sizeof(text)];
    ERRNO_MAP(MEMBER)
#undef MEMBER
} errno_texts = {
#define VALUE(number, status, text) text,
    ERRNO_MAP(VALUE)
#undef VALUE
};

static const struct {
    short number;
    short status;
    unsigned short text; /* in errno_texts */
} errno_table[] = {
#define ROW(number, status, text)                                                                  \
    { (number), WALDO_##status, offsetof(struct errno_texts, status##_##number) },
    ERRNO_MAP(ROW)
#undef ROW
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
            return (const char *)&errno_texts + errno_table[i].text;
        }
    }
    return "unexpected system error";
}
