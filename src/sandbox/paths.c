/* Paths as users give them: absolute in the sandbox, or relative to the workspace. */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/live.h"

static const char root_prefix[] = WALDO__WORKSPACE;

/* Add the components of a path; 0: ".." leads out above min. */
static int add_parts(waldo__buf *out, waldo_str rest, size_t min)
{
    waldo_str part;

    while (waldo__str_split(&rest, '/', &part)) {
        if (part.len == 0 || waldo__str_is(part, ".")) {
            continue;
        }
        if (waldo__str_is(part, "..")) {
            if (out->len <= min) {
                return 0;
            }
            while (out->ptr[out->len - 1] != '/') {
                waldo__buf_truncate(out, out->len - 1);
            }
            waldo__buf_truncate(out, out->len - 1);
            continue;
        }
        waldo__buf_putc(out, '/');
        waldo__buf_add_str(out, part);
    }
    return 1;
}

waldo_status waldo__path_parse(const char *path, waldo__path *ret_path, waldo_error **ret_err)
{
    waldo__buf full = WALDO__BUF_INIT(WALDO_HAND_PATH_MAX);
    size_t prefix = sizeof root_prefix - 1;
    int absolute = path != NULL && path[0] == '/';
    const char *text;

    if (path == NULL || path[0] == '\0') {
        return waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_USAGE, "the path is empty");
    }
    if (!absolute) {
        waldo__buf_puts(&full, root_prefix);
    }
    /* Above the root of the sandbox there is the root; above the workspace is outside. */
    if (!add_parts(&full, waldo__str(path), absolute ? 0 : prefix)) {
        waldo__buf_free(&full);
        return waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_USAGE,
                               "%.200s: the path leaves %s", path,
                               absolute ? "the sandbox" : "the workspace");
    }
    if (full.status != WALDO_OK) {
        waldo_status status = full.status;

        waldo__buf_free(&full);
        return status == WALDO_ENOMEM
                   ? waldo__error_nomem(ret_err)
                   : waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_USAGE,
                                     "the path is longer than %u bytes", WALDO_HAND_PATH_MAX);
    }
    text = full.len > 0 ? full.ptr : "/";
    ret_path->beneath =
        strncmp(text, root_prefix, prefix) == 0 && (text[prefix] == '/' || text[prefix] == '\0');
    if (ret_path->beneath) {
        text = text[prefix] == '/' ? text + prefix + 1 : ".";
    }
    ret_path->text = waldo__strdup(text);
    waldo__buf_free(&full);
    return ret_path->text != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

void waldo__path_absolute(const waldo__path *path, waldo__buf *out)
{
    if (!path->beneath) {
        waldo__buf_puts(out, path->text);
        return;
    }
    waldo__buf_puts(out, root_prefix);
    if (strcmp(path->text, ".") != 0) {
        waldo__buf_putc(out, '/');
        waldo__buf_puts(out, path->text);
    }
}
