/*
 * Looking at and reading files of a container without a hand, by the engine's archive endpoint.
 * What it sends was written by whoever is inside: it is read with a bound on everything, and only
 * names without a slash are taken. Nothing in the container's own memory file systems is seen.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/header.h"
#include "archive.h"

enum {
    CALL_MS = 120000,
    PATHS_MAX = 64 * 1024,
    STAT_MAX = 12 * 1024,
    TEXT_MAX = 4096,
    LIST_MAX = 1000000,
    NAMES_MAX = 128 * 1024 * 1024 /* bytes of names and link targets */
};

/* Nothing comes any more. */
static void silence(file_op *op)
{
    waldo__task_cancel(op->plain->engine->env->loop, &op->early);
    waldo__docker_call_free(&op->call);
    waldo__docker_exec_free(&op->exec);
}

static void free_memory(file_op *op)
{
    if (op->unpacking) {
        waldo__untar_free(&op->untar);
    }
    waldo_error_free(op->error);
    waldo__buf_free(&op->path);
    waldo__buf_free(&op->link);
    waldo__buf_free(&op->data);
    waldo__buf_free(&op->folder);
    for (size_t i = 0; i < op->infos.count; i++) {
        waldo__free((char *)op->infos.at[i].name.ptr);
        waldo__free((char *)op->infos.at[i].link_target.ptr);
    }
    WALDO__VEC_FREE(&op->infos);
    waldo__free(op);
}

static void op_free(docker_item *item)
{
    silence((file_op *)item);
    free_memory((file_op *)item);
}

/* The machine may be gone when the callback returns. error is not of the op's call. */
void waldo__docker_op_finish(file_op *op, waldo_status status, const waldo_error *error)
{
    waldo_error *copy = waldo_error_copy(error);

    waldo__docker_item_remove(&op->item);
    silence(op);
    if (op->on_bytes != NULL) {
        op->on_bytes(op->userdata, status, waldo__buf_str(&op->data), copy);
    } else if (op->on_infos != NULL) {
        op->on_infos(op->userdata, status, op->infos.at, op->infos.count, copy);
    } else {
        op->on_done(op->userdata, status, copy);
    }
    waldo_error_free(copy);
    free_memory(op);
}

void waldo__docker_op_fail(file_op *op, waldo_status status, const char *what)
{
    waldo_error *made = NULL;

    waldo_error_set(&made, status, WALDO_CLASS_BACKEND, "%s", what);
    waldo__docker_op_finish(op, status, made);
    waldo_error_free(made);
}

void waldo__docker_op_finish_early(void *userdata)
{
    file_op *op = userdata;
    waldo_error *error = op->error;

    op->error = NULL;
    waldo__docker_op_finish(op, op->status, error);
    waldo_error_free(error);
}

/* ---- what engines and programs say ---- */

static int says(waldo_str text, const char *words)
{
    return waldo__str_search(text, waldo__str(words), 0) < text.len;
}

/* Words of Go's and C's errors alike, as engines and the image's programs print them. */
waldo_status waldo__docker_meaning(waldo_str text, waldo_status otherwise)
{
    static const struct {
        const char *words;
        waldo_status status;
    } rows[] = {
        { "No such container", WALDO_ELOST },
        { "no such container", WALDO_ELOST },
        { "no container with", WALDO_ELOST },
        { "is not running", WALDO_ELOST },
        { "o space left", WALDO_ENOSPACE },
        { "isk quota exceeded", WALDO_ENOSPACE },
        { "ot a directory", WALDO_EPATH },
        { "extraction point", WALDO_EPATH },
        { "annot overwrite", WALDO_EPATH },
        { "is a directory", WALDO_EPATH },
        { "ead-only", WALDO_EACCESS },
        { "ermission denied", WALDO_EACCESS },
        { "o such file", WALDO_ENOTFOUND },
        { "ould not find", WALDO_ENOTFOUND },
        { "could not be found", WALDO_ENOTFOUND },
        { "not found", WALDO_ENOTFOUND },
    };

    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        if (says(text, rows[i].words)) {
            return rows[i].status;
        }
    }
    return otherwise;
}

/* An answer that is no success. */
void waldo__docker_op_refused(file_op *op, waldo_status status, const waldo_error *error,
                              const char *what)
{
    waldo__buf said = WALDO__BUF_INIT(TEXT_MAX);
    waldo_error *made = NULL;

    if (status != WALDO_OK) {
        waldo__docker_call_error(&op->call, status, error, what, &made);
        waldo__docker_op_fail(op, WALDO_ELOST, waldo_error_message(made));
        waldo_error_free(made);
        return;
    }
    waldo__docker_call_message(&op->call, &said);
    status = waldo__docker_meaning(waldo__buf_str(&said),
                                   op->call.ask.http_status == 404 ? WALDO_ENOTFOUND : WALDO_EIO);
    waldo_error_set(&made, status, WALDO_CLASS_BACKEND, "%s: %s",
                    status == WALDO_ENOSPACE ? "no space left" : what, waldo__buf_str(&said).ptr);
    waldo__buf_free(&said);
    if (status == WALDO_ENOSPACE && op->on_full != NULL) {
        op->on_full(op, made);
        return;
    }
    waldo__docker_op_finish(op, status, made);
    waldo_error_free(made);
}

void waldo__docker_op_ask(file_op *op, const char *method, waldo_str path, const char *more,
                          docker_call_fn done)
{
    waldo__buf_printf(&op->call.path, "/containers/%s/archive?path=", op->plain->container);
    waldo__buf_url(&op->call.path, path.len > 0 ? path : WALDO__S("/"));
    waldo__buf_puts(&op->call.path, more);
    waldo__docker_call_start(&op->call, method, CALL_MS, WALDO__NEVER, done);
}

/* ---- looking at one path ---- */

/* Bits of the mode as engines send it (Go, io/fs.FileMode). */
static uint32_t mode_of(uint64_t go)
{
    static const struct {
        unsigned bit;
        uint32_t type;
    } types[] = { { 31, S_IFDIR },  { 27, S_IFLNK }, { 25, S_IFIFO },
                  { 24, S_IFSOCK }, { 21, S_IFCHR }, { 26, S_IFBLK } };
    uint32_t mode = (uint32_t)(go & 0777) | ((go >> 23 & 1) != 0 ? S_ISUID : 0) |
                    ((go >> 22 & 1) != 0 ? S_ISGID : 0) | ((go >> 20 & 1) != 0 ? S_ISVTX : 0);

    for (size_t i = 0; i < WALDO__COUNT(types); i++) {
        if ((go >> types[i].bit & 1) != 0) {
            return mode | types[i].type;
        }
    }
    return mode | S_IFREG;
}

static int take_stat(file_op *op)
{
    waldo__buf text = WALDO__BUF_INIT(STAT_MAX);
    waldo__json *doc = NULL;
    const waldo__json_value *root;
    int64_t mode = -1;
    waldo_str stat = { "", 0 };
    int good = waldo__header_get(waldo__buf_str(&op->call.ask.head), "X-Docker-Container-Path-Stat",
                                 &stat) &&
               waldo__base64_decode(stat, &text) == WALDO_OK &&
               waldo__json_parse(waldo__buf_str(&text), NULL, &doc, NULL) == WALDO_OK;

    root = waldo__json_root(doc);
    if (good) {
        mode = waldo__json_get_int(root, "mode", -1);
        op->info = (waldo_file_info){ .size = sizeof op->info,
                                      .name = WALDO__S(""),
                                      .link_target = WALDO__S("") };
        op->info.mode = mode_of((uint64_t)mode);
        op->info.bytes = (uint64_t)waldo__json_get_int(root, "size", 0);
    }
    waldo__json_free(doc);
    waldo__buf_free(&text);
    return good && mode >= 0 && op->info.bytes <= INT64_MAX;
}

/* A HEAD's 404 has no words: is it the file or the whole container that is gone? */
static void on_alive(void *userdata, waldo_status status, const waldo_error *error)
{
    file_op *op = userdata;
    waldo__json *doc = NULL;
    int running = 0;

    if (status == WALDO_OK && op->call.ask.http_status == 200 &&
        waldo__json_parse_answer(waldo__buf_str(&op->call.ask.answer), &doc, NULL) == WALDO_OK) {
        running =
            waldo__json_get_bool(waldo__json_get(waldo__json_root(doc), "State"), "Running", 0);
    }
    waldo__json_free(doc);
    (void)error;
    if (running) {
        op->looked(op, WALDO_ENOTFOUND, NULL);
    } else {
        waldo__docker_op_fail(op, WALDO_ELOST, "docker: the container ended and is gone");
    }
}

static void on_looked(void *userdata, waldo_status status, const waldo_error *error)
{
    file_op *op = userdata;

    if (status == WALDO_OK && op->call.ask.http_status == 404) {
        waldo__buf_printf(&op->call.path, "/containers/%s/json", op->plain->container);
        waldo__docker_call_start(&op->call, "GET", CALL_MS, WALDO__NEVER, on_alive);
    } else if (status == WALDO_OK && op->call.ask.http_status != 200) {
        op->looked(op, WALDO_EPATH, NULL);
    } else if (status != WALDO_OK) {
        waldo__docker_op_refused(op, status, error, "looking at a file");
    } else if (!take_stat(op)) {
        waldo__docker_op_fail(op, WALDO_EPROTO,
                              "docker: the engine does not say what kind of file it is");
    } else {
        op->looked(op, WALDO_OK, NULL);
    }
}

void waldo__docker_op_look(file_op *op, waldo_str path,
                           void (*looked)(file_op *op, waldo_status status,
                                          const waldo_error *error))
{
    op->looked = looked;
    waldo__docker_op_ask(op, "HEAD", path, "", on_looked);
}

/* What looking at the op's own path came to, when that was no success. */
void waldo__docker_op_not_there(file_op *op, waldo_status status)
{
    waldo__docker_op_fail(op, status,
                          status == WALDO_ENOTFOUND ? "no such file or directory"
                                                    : "a part of the path is not a directory");
}

/* ---- reading an archive ---- */

static waldo_status on_archive(void *userdata, waldo_str bytes)
{
    file_op *op = userdata;

    return waldo__untar_feed(&op->untar, bytes);
}

/* Its end, or what ended it; 0: the op was failed. */
static int unpacked(file_op *op, waldo_status status, const waldo_error *error, const char *what)
{
    op->call.on_bytes = NULL;
    if (op->enough) {
        return 1;
    }
    if (status != WALDO_OK && op->untar.status != WALDO_OK) {
        waldo__docker_op_fail(op, op->untar.status,
                              op->untar.status == WALDO_EPROTO
                                  ? "docker: what the engine sent is no archive"
                                  : waldo_status_text(op->untar.status));
        return 0;
    }
    if (status != WALDO_OK || op->call.ask.http_status != 200) {
        waldo__docker_op_refused(op, status, error, what);
        return 0;
    }
    if (!waldo__untar_whole(&op->untar)) {
        waldo__docker_op_fail(op, WALDO_ETRUNCATED, "docker: the engine's archive broke off");
        return 0;
    }
    return 1;
}

static void unpack(file_op *op, const waldo__untar_fns *fns, docker_call_fn done)
{
    waldo__untar_init(&op->untar, fns, op);
    op->unpacking = 1;
    op->call.on_bytes = on_archive;
    waldo__docker_op_ask(op, "GET", waldo__buf_str(&op->path), "", done);
}

static waldo_status enough(file_op *op)
{
    op->enough = 1;
    return WALDO_ECANCELED;
}

static waldo_status no_data(void *userdata, waldo_str bytes)
{
    (void)userdata;
    (void)bytes;
    return WALDO_OK;
}

/* ---- stat: the engine says where a link leads in the end, its archive what the link says ---- */

static waldo_status link_entry(void *userdata, const waldo__untar_entry *entry)
{
    file_op *op = userdata;

    if (entry->kind == WALDO__UNTAR_LINK) {
        waldo__buf_add_str(&op->link, entry->link);
    }
    return enough(op);
}

static void give_info(file_op *op)
{
    waldo_file_info *info = WALDO__VEC_PUSH(&op->infos);
    waldo_str target = waldo__buf_str(&op->link);

    if (info != NULL) {
        *info = op->info;
        info->name = waldo__strn(waldo__strdup(""), 0);
        info->link_target = waldo__strn(waldo__strndup(target.ptr, target.len), target.len);
    }
    waldo__docker_op_finish(op, info != NULL ? WALDO_OK : WALDO_ENOMEM, NULL);
}

static void on_link(void *userdata, waldo_status status, const waldo_error *error)
{
    if (unpacked(userdata, status, error, "reading a link")) {
        give_info(userdata);
    }
}

static void stat_looked(file_op *op, waldo_status status, const waldo_error *error)
{
    static const waldo__untar_fns fns = { link_entry, no_data };

    (void)error;
    if (status != WALDO_OK) {
        waldo__docker_op_not_there(op, status);
    } else if (S_ISLNK(op->info.mode)) {
        unpack(op, &fns, on_link);
    } else {
        give_info(op);
    }
}

/* ---- read ---- */

static waldo_status read_entry(void *userdata, const waldo__untar_entry *entry)
{
    file_op *op = userdata;

    if (op->entries++ > 0) {
        return enough(op);
    }
    if (entry->kind != WALDO__UNTAR_FILE) {
        return WALDO_EPATH;
    }
    return op->max == 0 || op->offset >= entry->size ? enough(op) : WALDO_OK;
}

static waldo_status read_data(void *userdata, waldo_str bytes)
{
    file_op *op = userdata;
    size_t skip = bytes.len < op->offset ? bytes.len : (size_t)op->offset;
    size_t room = op->max - op->data.len;
    waldo_status status;

    op->offset -= skip;
    bytes = waldo__slice(bytes.ptr + skip, bytes.len - skip);
    status =
        waldo__buf_add_str(&op->data, waldo__slice(bytes.ptr, bytes.len < room ? bytes.len : room));
    return status == WALDO_OK && op->data.len == op->max ? enough(op) : status;
}

static void on_read(void *userdata, waldo_status status, const waldo_error *error)
{
    if (unpacked(userdata, status, error, "reading a file")) {
        waldo__docker_op_finish(userdata, WALDO_OK, NULL);
    }
}

/* ---- list: the archive of the whole folder, of which only what lies right in it is kept ---- */

static waldo_status keep(file_op *op, waldo_str name, const waldo__untar_entry *entry)
{
    static const uint32_t types[] = { [WALDO__UNTAR_FILE] = S_IFREG,
                                      [WALDO__UNTAR_HARD_LINK] = S_IFREG,
                                      [WALDO__UNTAR_LINK] = S_IFLNK,
                                      [WALDO__UNTAR_FOLDER] = S_IFDIR,
                                      [WALDO__UNTAR_OTHER] = S_IFIFO };
    waldo_file_info *info;

    op->names += name.len + entry->link.len;
    if (op->infos.count >= LIST_MAX || op->names > NAMES_MAX) {
        return WALDO_ETOOBIG;
    }
    info = WALDO__VEC_PUSH(&op->infos);
    if (info == NULL) {
        return WALDO_ENOMEM;
    }
    *info = (waldo_file_info){ .size = sizeof *info,
                               .mode = types[entry->kind] | entry->mode,
                               .bytes = entry->size,
                               .mtime_ns = entry->mtime_s < INT64_MAX / WALDO__NS_PER_S
                                               ? entry->mtime_s * WALDO__NS_PER_S
                                               : 0,
                               .name = { waldo__strndup(name.ptr, name.len), name.len } };
    if (entry->kind == WALDO__UNTAR_LINK) {
        info->link_target =
            waldo__strn(waldo__strndup(entry->link.ptr, entry->link.len), entry->link.len);
    } else {
        info->link_target = waldo__strn(waldo__strdup(""), 0);
    }
    return info->name.ptr != NULL && info->link_target.ptr != NULL ? WALDO_OK : WALDO_ENOMEM;
}

static waldo_status list_entry(void *userdata, const waldo__untar_entry *entry)
{
    file_op *op = userdata;
    waldo_str name = entry->name;
    waldo_str folder = waldo__buf_str(&op->folder);

    while (name.len > 1 && name.ptr[name.len - 1] == '/') {
        name.len--;
    }
    if (op->entries++ == 0) { /* the folder itself */
        if (entry->kind != WALDO__UNTAR_FOLDER) {
            return WALDO_EPATH;
        }
        waldo__buf_add_str(&op->folder, name);
        return waldo__str_is(name, "/") ? op->folder.status : waldo__buf_putc(&op->folder, '/');
    }
    if (!waldo__str_starts(name, folder.ptr)) {
        return WALDO_OK;
    }
    name = waldo__slice(name.ptr + folder.len, name.len - folder.len);
    return name.len == 0 || waldo__str_find(name, '/') < name.len ? WALDO_OK
                                                                  : keep(op, name, entry);
}

static void on_list(void *userdata, waldo_status status, const waldo_error *error)
{
    file_op *op = userdata;

    if (!unpacked(op, status, error, "listing a folder")) {
        return;
    }
    waldo__docker_op_finish(op, WALDO_OK, NULL);
}

/* ---- the functions ---- */

/* NULL: out of memory, which done cannot be told but at once. */
file_op *waldo__docker_op_new(waldo_machine *machine, const char *path, size_t data_max,
                              const waldo_backend_call *call)
{
    docker_plain *plain = waldo__docker_plain_of(machine);
    file_op *op = WALDO__NEW(file_op);

    if (op == NULL) {
        return NULL;
    }
    op->item.free = op_free;
    op->plain = plain;
    op->path = WALDO__BUF_INIT(PATHS_MAX);
    op->link = WALDO__BUF_INIT(WALDO__UNTAR_NAME_MAX + 1);
    op->folder = WALDO__BUF_INIT(WALDO__UNTAR_NAME_MAX + 2);
    op->data = WALDO__BUF_INIT(data_max);
    op->userdata = call->userdata;
    waldo__buf_puts(&op->path, path);
    waldo__docker_item_add(plain, &op->item);
    waldo__task_init(&op->early, waldo__docker_op_finish_early, op);
    waldo__docker_call_init(&op->call, plain->engine, op);
    waldo__docker_exec_init(&op->exec, plain->engine, plain->container, op);
    return op;
}

/* 1: it can go on; else its end is on its way. */
int waldo__docker_op_may_begin(file_op *op)
{
    if (op->plain->lost[0] != '\0') {
        op->status = waldo_error_set(&op->error, WALDO_ELOST, WALDO_CLASS_BACKEND, "docker: %s",
                                     op->plain->lost);
    } else if (op->path.status != WALDO_OK || op->data.status != WALDO_OK) {
        op->status = op->path.status != WALDO_OK ? op->path.status : op->data.status;
    } else {
        return 1;
    }
    waldo__task_queue(op->plain->engine->env->loop, &op->early);
    return 0;
}

void waldo__docker_file_read(waldo_machine *machine, const char *path, uint64_t offset, size_t max,
                             const waldo_backend_call *call, waldo_backend_bytes_fn done)
{
    static const waldo__untar_fns fns = { read_entry, read_data };
    file_op *op = waldo__docker_op_new(machine, path, max + 1, call);

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, WALDO__S(""), NULL);
        return;
    }
    op->on_bytes = done;
    op->offset = offset;
    op->max = max;
    if (waldo__docker_op_may_begin(op)) {
        unpack(op, &fns, on_read);
    }
}

void waldo__docker_file_stat(waldo_machine *machine, const char *path,
                             const waldo_backend_call *call, waldo_backend_info_fn done)
{
    file_op *op = waldo__docker_op_new(machine, path, 1, call);

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL, 0, NULL);
        return;
    }
    op->on_infos = done;
    if (waldo__docker_op_may_begin(op)) {
        waldo__docker_op_look(op, waldo__buf_str(&op->path), stat_looked);
    }
}

void waldo__docker_file_list(waldo_machine *machine, const char *path,
                             const waldo_backend_call *call, waldo_backend_info_fn done)
{
    static const waldo__untar_fns fns = { list_entry, no_data };
    file_op *op = waldo__docker_op_new(machine, path, 1, call);

    if (op == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL, 0, NULL);
        return;
    }
    op->on_infos = done;
    if (waldo__docker_op_may_begin(op)) {
        unpack(op, &fns, on_list);
    }
}
