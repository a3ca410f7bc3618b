/* Files and folders between host and sandbox: an archive made on one side, taken on the other. */
#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/archive.h"

/* One copy; its completion is that of the operation behind it. */
typedef struct copying {
    waldo_sandbox *sandbox;
    waldo__task task; /* of a failure before any operation */
    char *host_path;
    waldo_sandbox_fn done;
    void *userdata;
    waldo_status status;
    waldo_error *error;
} copying;

static void finish(copying *copy, waldo_status status, const waldo_error *error)
{
    waldo_sandbox *sandbox = copy->sandbox;

    if (copy->done != NULL) {
        copy->done(copy->userdata, status, error);
    }
    waldo_error_free(copy->error);
    waldo__free(copy->host_path);
    waldo__free(copy);
    waldo__live_release(sandbox);
}

static void finish_failed(void *userdata)
{
    copying *copy = userdata;

    finish(copy, copy->status, copy->error);
}

static copying *copying_new(waldo_sandbox *sandbox, const char *host_path, waldo_sandbox_fn done,
                            void *userdata)
{
    copying *copy = WALDO__NEW(copying);
    char *path = waldo__strdup(host_path != NULL ? host_path : "");

    if (copy == NULL || path == NULL) {
        waldo__free(copy);
        waldo__free(path);
        if (done != NULL) {
            done(userdata, WALDO_ENOMEM, NULL);
        }
        return NULL;
    }
    *copy = (copying){ .sandbox = sandbox, .host_path = path, .done = done, .userdata = userdata };
    waldo__task_init(&copy->task, finish_failed, copy);
    waldo__live_hold(sandbox);
    return copy;
}

/* A path into the folder it lies in and its own name; name stays empty for "/" and the like. */
static void split(char *path, const char **ret_folder, const char **ret_name)
{
    size_t len = strlen(path);
    char *slash;

    while (len > 0 && path[len - 1] == '/') {
        path[--len] = '\0';
    }
    slash = strrchr(path, '/');
    *ret_name = slash != NULL ? slash + 1 : path;
    *ret_folder = slash == NULL ? "." : slash == path ? "/" : path;
    if (slash != NULL) {
        *slash = '\0';
    }
}

/* ---- host to sandbox ---- */

static void uploaded(void *userdata, waldo_status status, const waldo_error *error)
{
    finish(userdata, status, error);
}

void waldo_sandbox_upload(waldo_sandbox *sandbox, const char *host_path, const char *path,
                          waldo_sandbox_fn done, void *userdata)
{
    copying *copy = copying_new(sandbox, host_path, done, userdata);
    char *to = waldo__strdup(path != NULL ? path : "");
    char *parts = waldo__strdup(path != NULL ? path : "");
    waldo__buf archive = WALDO__BUF_INIT(SIZE_MAX / 4);
    const char *folder = "";
    const char *name = "";
    int is_file = 0;

    if (copy != NULL && (to == NULL || parts == NULL)) {
        copy->status = waldo__error_nomem(&copy->error);
    } else if (copy != NULL) {
        split(parts, &folder, &name);
        copy->status = waldo__host_pack(copy->host_path, name, waldo__archive_max(sandbox),
                                        &archive, &is_file, &copy->error);
    }
    if (copy != NULL && copy->status != WALDO_OK) {
        waldo__task_queue(sandbox->env->loop, &copy->task);
    } else if (copy != NULL) {
        waldo_sandbox_unpack(sandbox, is_file ? folder : to, waldo__buf_str(&archive), uploaded,
                             copy);
    }
    waldo__buf_free(&archive);
    waldo__free(to);
    waldo__free(parts);
}

/* ---- sandbox to host ---- */

/* A single entry becomes what was asked for, whatever its name. */
static waldo_status take_file(copying *copy, waldo__unpacked_list *list)
{
    const char *folder;
    const char *name;
    char *own;

    if (list->count != 1) {
        return waldo_error_set(&copy->error, WALDO_EPROTO, WALDO_CLASS_BACKEND,
                               "%s: what is to be copied is no file, folder or link (any more)",
                               copy->host_path);
    }
    split(copy->host_path, &folder, &name);
    own = waldo__strdup(name);
    if (own == NULL) {
        return waldo__error_nomem(&copy->error);
    }
    waldo__free(list->at[0].path);
    list->at[0].path = own;
    if (own[0] == '\0') {
        return waldo_error_set(&copy->error, WALDO_EPATH, WALDO_CLASS_USAGE,
                               "a file cannot take the place of a folder");
    }
    return waldo__host_unpack(list, folder, &copy->error);
}

static void packed(void *userdata, waldo_status status, waldo_str archive, int is_file,
                   const waldo_error *error)
{
    copying *copy = userdata;
    waldo__unpacked_list list = { .at = NULL };

    if (status != WALDO_OK) {
        finish(copy, status, error);
        return;
    }
    status = waldo__unpacked_read(&list, archive, waldo__archive_max(copy->sandbox), &copy->error);
    if (status == WALDO_OK) {
        status = is_file ? take_file(copy, &list)
                         : waldo__host_unpack(&list, copy->host_path, &copy->error);
    }
    waldo__unpacked_free(&list);
    finish(copy, status, copy->error);
}

void waldo_sandbox_download(waldo_sandbox *sandbox, const char *path, const char *host_path,
                            waldo_sandbox_fn done, void *userdata)
{
    copying *copy = copying_new(sandbox, host_path, done, userdata);

    if (copy != NULL) {
        waldo__pack(sandbox, path, packed, copy);
    }
}
