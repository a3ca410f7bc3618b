/* Scripted sandboxes of this process, and their files. */
#include "script.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_MAX_LEN = 64 };

#define SPACE ((size_t)1024 * 1024 * 1024)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static waldo_testing_sandbox *all;
static int registered;

/* Under the lock. */
static waldo_testing_sandbox *find(waldo_str name)
{
    waldo_testing_sandbox *found = all;

    while (found != NULL &&
           (strlen(found->name) != name.len || memcmp(found->name, name.ptr, name.len) != 0)) {
        found = found->next;
    }
    return found;
}

waldo_testing_sandbox *waldo__testing_find(waldo_str name)
{
    waldo_testing_sandbox *found;

    pthread_mutex_lock(&lock);
    found = find(name);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Put it among the others; the first one brings the backend along. */
static waldo_status enter(waldo_testing_sandbox *sandbox, waldo_error **ret_err)
{
    waldo_status status = WALDO_OK;

    pthread_mutex_lock(&lock);
    if (!registered) {
        status = waldo_backend_register(&waldo__testing_backend, ret_err);
        registered = status == WALDO_OK;
    }
    if (status == WALDO_OK && find((waldo_str){ sandbox->name, strlen(sandbox->name) }) != NULL) {
        status =
            waldo_error_set(ret_err, WALDO_EEXISTS, WALDO_CLASS_USAGE,
                            "%s: another sandbox of this name was not freed yet", sandbox->label);
    }
    if (status == WALDO_OK) {
        sandbox->next = all;
        all = sandbox;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void leave(waldo_testing_sandbox *sandbox)
{
    pthread_mutex_lock(&lock);
    for (waldo_testing_sandbox **at = &all; *at != NULL; at = &(*at)->next) {
        if (*at == sandbox) {
            *at = sandbox->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- files ---- */

static int is_folder(const waldo_testing_file *file)
{
    size_t len = strlen(file->path);

    return len > 0 && file->path[len - 1] == '/';
}

static int can_be_put(const waldo_testing_file *file)
{
    return file->path != NULL && file->fail_read == 0 && file->fail_write == 0 &&
           is_folder(file) == (file->bytes == NULL);
}

waldo_status waldo_testing_sandbox_put(waldo_testing_sandbox *sandbox,
                                       const waldo_testing_file *file)
{
    char path[WALDO__INMEM_PATH_BYTES];
    waldo_status status;

    if (!can_be_put(file)) {
        return WALDO_EINVAL;
    }
    status = waldo__tree_path(WALDO__INMEM_HOME, file->path, path, sizeof path);
    if (status != WALDO_OK) {
        return status;
    }
    if (is_folder(file)) {
        status = waldo__tree_mkdir(&sandbox->tree, path, file->mode);
    } else {
        const waldo_str bytes = { file->bytes, file->len > 0 ? file->len : strlen(file->bytes) };

        status = waldo__tree_write(&sandbox->tree, path, bytes, 0, file->mode);
    }
    return status == WALDO_ENOSPACE ? WALDO_ENOMEM : status;
}

waldo_status waldo_testing_sandbox_file(const waldo_testing_sandbox *sandbox, const char *path,
                                        waldo_str *ret_bytes)
{
    char normal[WALDO__INMEM_PATH_BYTES];
    const waldo__tree_node *node;

    if (waldo__tree_path(WALDO__INMEM_HOME, path, normal, sizeof normal) != WALDO_OK) {
        return WALDO_EPATH;
    }
    node = waldo__tree_find(&sandbox->tree, normal);
    if (node == NULL) {
        return WALDO_ENOTFOUND;
    }
    if (!S_ISREG(node->mode)) {
        return WALDO_EPATH;
    }
    *ret_bytes = (waldo_str){ node->bytes != NULL ? node->bytes : "", node->len };
    return WALDO_OK;
}

/* What is there from the beginning; those that only say what fails are asked later. */
static waldo_status put_files(waldo_testing_sandbox *sandbox, waldo_error **ret_err)
{
    for (size_t i = 0; i < sandbox->file_count; i++) {
        waldo_testing_file file = sandbox->files[i];
        int fails = file.fail_read != 0 || file.fail_write != 0;
        waldo_status status;

        if (file.path != NULL && file.bytes == NULL && fails) {
            continue;
        }
        file.fail_read = file.fail_write = 0;
        status = waldo_testing_sandbox_put(sandbox, &file);
        if (status != WALDO_OK) {
            return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "%s: file %zu: %s",
                                   sandbox->label, i, waldo_status_text(status));
        }
    }
    return WALDO_OK;
}

/* ---- making ---- */

static waldo_status check_command(const waldo_testing_command *command, size_t index,
                                  waldo_error **ret_err)
{
    const char *what = NULL;

    if (command->times < WALDO_TESTING_ALWAYS) {
        what = "times is below WALDO_TESTING_ALWAYS";
    } else if (command->delay_ms < WALDO_FOREVER) {
        what = "delay_ms is below WALDO_FOREVER";
    } else if (command->fail > 0) {
        what = "fail is not a failure";
    } else if (command->end < 0 || command->end > WALDO_EXEC_LOST) {
        what = "end is not one of WALDO_EXEC_*";
    } else if ((command->files == NULL) != (command->file_count == 0) ||
               (command->output == NULL && command->output_len > 0) ||
               (command->errors == NULL && command->errors_len > 0)) {
        what = "a length is without its bytes, or files without their count";
    }
    for (size_t i = 0; what == NULL && i < command->file_count; i++) {
        what = can_be_put(&command->files[i])
                   ? NULL
                   : "a file it leaves behind has no path or no bytes, or says what fails";
    }
    return what == NULL ? WALDO_OK
                        : waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                                          "scripted: command %zu: %s", index, what);
}

static waldo_status check_options(const waldo_testing_sandbox_options *options,
                                  waldo_error **ret_err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_.-";
    const char *name = options->name != NULL ? options->name : "";
    waldo_status status = WALDO_OK;

    if (name[strspn(name, letters)] != '\0' || strlen(name) > NAME_MAX_LEN) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "scripted: a name has at most %d letters, digits, \"_\", \".\" and "
                               "\"-\"",
                               NAME_MAX_LEN);
    }
    if ((options->flags & ~WALDO_TESTING_ANY_ORDER) != 0 || options->open_ms < 0 ||
        options->open_ms > INT32_MAX || options->fail_open > 0 ||
        options->isolation < WALDO_ISOLATION_ANY || options->isolation > WALDO_ISOLATION_REMOTE) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "scripted: flags, open_ms, fail_open or isolation is out of range");
    }
    if ((options->commands == NULL && options->command_count > 0) ||
        (options->files == NULL && options->file_count > 0)) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "scripted: a count is without its array");
    }
    for (size_t i = 0; i < options->command_count && status == WALDO_OK; i++) {
        status = check_command(&options->commands[i], i, ret_err);
    }
    return status;
}

static char *make_label(const char *name)
{
    int named = name != NULL && name[0] != '\0';
    size_t size = sizeof "scripted:" + (named ? strlen(name) : 0);
    char *label = malloc(size);

    if (label != NULL) {
        snprintf(label, size, "scripted%s%s", named ? ":" : "", named ? name : "");
    }
    return label;
}

static waldo_status take_options(waldo_testing_sandbox *sandbox,
                                 const waldo_testing_sandbox_options *options,
                                 waldo_error **ret_err)
{
    sandbox->label = make_label(options->name);
    sandbox->name = sandbox->label != NULL ? strchr(sandbox->label, ':') : NULL;
    sandbox->name = sandbox->name != NULL ? sandbox->name + 1 : "";
    sandbox->flags = options->flags;
    sandbox->files = options->files;
    sandbox->file_count = options->file_count;
    sandbox->open_ms = options->open_ms;
    sandbox->fail_open = options->fail_open;
    sandbox->fail_open_times = options->fail_open_times;
    sandbox->isolation =
        options->isolation != WALDO_ISOLATION_ANY ? options->isolation : WALDO_ISOLATION_REMOTE;
    sandbox->rule_count = options->command_count;
    sandbox->rules = calloc(options->command_count + 1, sizeof *sandbox->rules);
    if (sandbox->label == NULL || sandbox->rules == NULL ||
        waldo__tree_init(&sandbox->tree, &waldo__testing_memory, SPACE) != WALDO_OK) {
        return waldo_error_set(ret_err, WALDO_ENOMEM, WALDO_CLASS_USAGE, "out of memory");
    }
    for (size_t i = 0; i < sandbox->rule_count; i++) {
        sandbox->rules[i].command = &options->commands[i];
    }
    return put_files(sandbox, ret_err);
}

/* Over zeroes. Those of an older header get defaults; what a newer one adds must not be used. */
static waldo_status copy_options(const waldo_testing_sandbox_options *from,
                                 waldo_testing_sandbox_options *ret_options, waldo_error **ret_err)
{
    uint32_t size = from != NULL ? from->size : sizeof *from;
    int known = size >= sizeof size;

    for (size_t at = sizeof *from; known && at < size; at++) {
        known = ((const char *)from)[at] == 0;
    }
    if (!known) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "scripted: make the options with WALDO_TESTING_SANDBOX(), of this "
                               "version");
    }
    if (from != NULL) {
        memcpy(ret_options, from, size < sizeof *from ? size : sizeof *from);
    }
    return WALDO_OK;
}

waldo_testing_sandbox *waldo_testing_sandbox_new(const waldo_testing_sandbox_options *given,
                                                 waldo_error **ret_err)
{
    waldo_testing_sandbox_options options = { .size = 0 };
    waldo_testing_sandbox *sandbox;
    waldo_status status = copy_options(given, &options, ret_err);

    if (status != WALDO_OK || check_options(&options, ret_err) != WALDO_OK) {
        return NULL;
    }
    sandbox = calloc(1, sizeof *sandbox);
    if (sandbox == NULL) {
        waldo_error_set(ret_err, WALDO_ENOMEM, WALDO_CLASS_USAGE, "out of memory");
        return NULL;
    }
    sandbox->refs = 1;
    sandbox->tree.memory = &waldo__testing_memory;
    status = take_options(sandbox, &options, ret_err);
    status = status == WALDO_OK ? enter(sandbox, ret_err) : status;
    if (status != WALDO_OK) {
        waldo_testing_sandbox_free(sandbox);
        sandbox = NULL;
    }
    return sandbox;
}

void waldo__testing_unref(waldo_testing_sandbox *sandbox)
{
    if (--sandbox->refs > 0) {
        return;
    }
    waldo__testing_forget(sandbox);
    waldo_error_free(sandbox->problem);
    waldo__tree_free(&sandbox->tree);
    free(sandbox->rules);
    free(sandbox->label);
    free(sandbox);
}

void waldo_testing_sandbox_free(waldo_testing_sandbox *sandbox)
{
    if (sandbox != NULL) {
        leave(sandbox);
        waldo_testing_sandbox_lose(sandbox);
        waldo__testing_unref(sandbox);
    }
}
