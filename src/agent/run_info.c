/* What a host can ask of a run, and the one thing it can save. */
#include "agent/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "transcript/messages.h"

enum { EXPORT_MAX = 256 * 1024 * 1024 };

waldo_run_state waldo_run_get_state(const waldo_run *run)
{
    return run != NULL ? run->state : WALDO_RUN_CLOSED;
}

waldo_stop waldo_run_stop(const waldo_run *run)
{
    return run != NULL ? run->stop : WALDO_STOP_FAILED;
}

waldo_status waldo_run_status(const waldo_run *run)
{
    return run != NULL ? run->status : WALDO_ENOMEM;
}

const waldo_error *waldo_run_error(const waldo_run *run)
{
    waldo_error *error = NULL;

    if (run == NULL) {
        waldo__error_nomem(&error); /* static: nothing to free */
        return error;
    }
    return run->error;
}

const char *waldo_run_errmsg(const waldo_run *run)
{
    return waldo_error_message(waldo_run_error(run));
}

const char *waldo_run_text(const waldo_run *run)
{
    return run != NULL ? waldo__buf_str(&run->answer).ptr : "";
}

const char *waldo_run_label(const waldo_run *run)
{
    return run != NULL && run->label != NULL ? run->label : "";
}

const char *waldo_run_id(const waldo_run *run)
{
    return run != NULL && run->id != NULL ? run->id : "";
}

void *waldo_run_userdata(const waldo_run *run)
{
    return run != NULL ? run->userdata : NULL;
}

void waldo_run_usage(const waldo_run *run, waldo_usage *ret_usage)
{
    *ret_usage = run != NULL ? run->usage : waldo__no_usage;
}

/* Only what is durable counts as there. */
size_t waldo_run_item_count(const waldo_run *run)
{
    return run != NULL ? run->announced : 0;
}

waldo_str waldo_run_item(const waldo_run *run, size_t index)
{
    waldo_run *lent = (waldo_run *)run; /* its JSON is made at the first look and kept */

    if (run == NULL || index >= run->announced) {
        return WALDO__S("");
    }
    return waldo__transcript_json(&lent->transcript, index);
}

waldo_sandbox *waldo_run_sandbox(const waldo_run *run)
{
    return run != NULL ? run->sandbox : NULL;
}

/* ---- saving changes ---- */

typedef struct saving {
    const char *file;
    int over;
    waldo_status status;
    waldo_error *error;
} saving;

static waldo_status write_all(int fd, waldo_str bytes)
{
    while (bytes.len > 0) {
        ssize_t written = write(fd, bytes.ptr, bytes.len);

        if (written < 0 && errno != EINTR) {
            return waldo__errno_status(errno);
        }
        if (written > 0) {
            bytes.ptr += written;
            bytes.len -= (size_t)written;
        }
    }
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? WALDO_OK
                                                               : waldo__errno_status(errno);
}

/* Whole or not at all: a file beside it, then a rename. */
static waldo_status replace_file(const char *file, waldo_str bytes, waldo_error **ret_err)
{
    waldo__buf temp = WALDO__BUF_INIT(4096);
    char word[9];
    waldo_status status;
    int fd;

    waldo__random_word(word, sizeof word - 1);
    waldo__buf_printf(&temp, "%s.%s.tmp", file, word);
    if (temp.status != WALDO_OK) {
        return waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_USAGE, "path is too long");
    }
    fd = open(temp.ptr, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    status = fd >= 0 ? write_all(fd, bytes) : waldo__errno_status(errno);
    if (fd >= 0) {
        close(fd);
        if (status == WALDO_OK && rename(temp.ptr, file) != 0) {
            status = waldo__errno_status(errno);
        }
        if (status != WALDO_OK) {
            unlink(temp.ptr);
        }
    }
    waldo__buf_free(&temp);
    if (status != WALDO_OK) {
        waldo_error_set(ret_err, status, WALDO_CLASS_SYSTEM, "could not write %s: %s", file,
                        waldo_status_text(status));
    }
    return status;
}

static void got_changes(void *userdata, waldo_status status, waldo_str patch,
                        const waldo_error *error)
{
    saving *s = userdata;

    s->over = 1;
    s->status = status;
    waldo__error_copy_to(&s->error, error);
    if (status == WALDO_OK) {
        s->status = replace_file(s->file, patch, &s->error);
    }
}

static int saving_is_over(void *userdata)
{
    return ((const saving *)userdata)->over;
}

waldo_status waldo_run_save_changes(waldo_run *run, const char *file)
{
    saving s = { .file = file };
    waldo_status status;

    if (run == NULL || file == NULL) {
        return WALDO_EINVAL;
    }
    if (run->sandbox == NULL) {
        return WALDO_ENOTSUP;
    }
    status = waldo__loop_check(run->rt->loop);
    if (status != WALDO_OK) {
        return status;
    }
    waldo_sandbox_changes(run->sandbox, got_changes, &s);
    status = waldo__runtime_drive(run->rt, WALDO_FOREVER, saving_is_over, &s);
    status = status == WALDO_OK ? s.status : status;
    if (s.error != NULL) {
        waldo_error_free(run->error);
        run->error = s.error;
    }
    return status;
}

/* ---- as messages ---- */

waldo_status waldo_run_import(waldo_run *run, waldo_str messages, waldo_error **ret_err)
{
    waldo__messages read = { .count = 0 };
    waldo_status status;

    if (run == NULL || run->broken || run->rt->closing) {
        return waldo_error_set(ret_err, WALDO_ECLOSED, WALDO_CLASS_USAGE,
                               "the run takes no messages: it is closed or could not be made");
    }
    if (waldo__loop_forked(run->rt->loop)) {
        return waldo_error_set(ret_err, WALDO_EFORKED, WALDO_CLASS_USAGE,
                               "the run belongs to the parent process");
    }
    if (run->state != WALDO_RUN_IDLE || run->transcript.count > 0) {
        return waldo_error_set(ret_err, WALDO_EBUSY, WALDO_CLASS_USAGE,
                               "messages are only taken by a run that has no conversation yet");
    }
    if (waldo__run_is_remote(run)) {
        return waldo__run_refuse_move(run, "messages from elsewhere cannot be put into it",
                                      ret_err);
    }
    status = waldo__messages_read(messages, &read, ret_err);
    if (status == WALDO_OK && read.count > 0) {
        run->events.lost |= waldo__run_add_items(run, read.at, read.count) != WALDO_OK;
        waldo__run_commit(run, NULL, NULL); /* without memory it takes them out again */
        if (run->transcript.count == 0) {
            status = waldo__error_nomem(ret_err);
        }
    }
    waldo__messages_free(&read);
    return status;
}

waldo_str waldo_run_export(waldo_run *run)
{
    if (run == NULL) {
        return WALDO__S("");
    }
    waldo__buf_free(&run->exported);
    waldo__buf_init(&run->exported, EXPORT_MAX);
    if (run->model != NULL && waldo__run_is_remote(run)) {
        waldo__run_refuse_move(run, "it cannot be exported: a part of it may not be here", NULL);
    } else if (waldo__messages_write(&run->transcript, run->announced, &run->exported) !=
               WALDO_OK) {
        waldo__buf_free(&run->exported);
    }
    return waldo__buf_str(&run->exported);
}
