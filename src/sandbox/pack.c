/* A folder of the sandbox as a tar archive: listed once, files read many at once, put in order. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "codec/tar.h"
#include "sandbox/archive.h"

enum {
    FILES_MAX = 1000000,
    WINDOW = 16, /* entries on their way at once */
    WINDOW_BYTES = 16 * 1024 * 1024,
    PIECE = 4 * 1024 * 1024,
    PATH_DEEPEST = WALDO_HAND_PATH_MAX - 256 /* what a folder there holds might not be listed */
};
#define BYTES_DEFAULT (UINT64_C(1) << 30)
#define HEADERS_MAX   (UINT64_C(1) << 29)
#define TIME_LAST     INT64_C(077777777777) /* of a tar header */

typedef struct packing packing;

/* One entry on its way. */
typedef struct packed {
    packing *pack;
    size_t index;
    waldo__buf content;
    int ready;
    int gone;
} packed;

/* Lives until the op is over and no operation of its own is on its way. */
struct packing {
    waldo__op *op; /* NULL: over */
    waldo_sandbox *sandbox;
    char *folder;
    int is_file; /* what was asked for is a file or link: the only entry */
    size_t in_flight;
    size_t in_bytes;
    struct {
        WALDO__VEC(waldo_file_info);
    } found;        /* sorted; names and targets are owned */
    size_t next;    /* to be read */
    size_t written; /* entries that are in the archive */
    uint64_t bytes; /* of contents */
    size_t skipped; /* neither file, folder nor link */
    char *first_skipped;
    waldo__buf archive;
    packed window[WINDOW];
};

typedef struct pack_op {
    waldo__op op;
    packing *pack;
    waldo_archive_fn done;
    waldo__packed_fn packed; /* or this */
    void *userdata;
} pack_op;

static void go_on(packing *pack);

uint64_t waldo__archive_max(const waldo_sandbox *sandbox)
{
    uint64_t max = sandbox->spec->options.workspace_max_bytes;

    return max != 0 ? max : BYTES_DEFAULT;
}

static void pack_free(packing *pack)
{
    if (pack->op != NULL || pack->in_flight > 0) {
        return;
    }
    for (size_t i = 0; i < pack->found.count; i++) {
        waldo__free((char *)pack->found.at[i].name.ptr);
        waldo__free((char *)pack->found.at[i].link_target.ptr);
    }
    WALDO__VEC_FREE(&pack->found);
    for (size_t i = 0; i < WINDOW; i++) {
        waldo__buf_free(&pack->window[i].content);
    }
    waldo__buf_free(&pack->archive);
    waldo__free(pack->folder);
    waldo__free(pack->first_skipped);
    waldo__free(pack);
}

/* An operation of its own is over: 0 when nobody waits for it any more. */
static int back(packing *pack)
{
    pack->in_flight--;
    if (pack->op == NULL || pack->op->state == WALDO__OP_ENDED) {
        pack_free(pack);
        return 0;
    }
    return 1;
}

static void too_big(packing *pack, const char *name)
{
    waldo__op_fail(pack->op, WALDO_ETOOBIG,
                   "archive: %s: more than %llu bytes in all; raise "
                   "workspace_max_bytes, or name a smaller one",
                   name, (unsigned long long)waldo__archive_max(pack->sandbox));
}

/* ---- one entry ---- */

static int count_bytes(packing *pack, const char *name, uint64_t bytes)
{
    uint64_t max = waldo__archive_max(pack->sandbox);

    if (bytes > max || pack->bytes > max - bytes) {
        too_big(pack, name);
        return 0;
    }
    pack->bytes += bytes;
    return 1;
}

static void read_more(packed *one);

static void on_read(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                    const waldo_error *error)
{
    packed *one = userdata;
    packing *pack = one->pack;
    const char *name;

    if (!back(pack)) {
        return;
    }
    name = pack->found.at[one->index].name.ptr;
    if (status == WALDO_ENOTFOUND) {
        one->gone = one->ready = 1; /* removed since it was listed */
        go_on(pack);
        return;
    }
    if (status != WALDO_OK) {
        waldo__op_pass_on(pack->op, status, "archive", error);
        return;
    }
    if (!count_bytes(pack, name, bytes.len)) {
        return;
    }
    if (waldo__buf_add_str(&one->content, bytes) != WALDO_OK) {
        waldo__op_end(pack->op, WALDO_ENOMEM, NULL);
    } else if (bytes.len > 0 && one->content.len < file_size) {
        read_more(one);
    } else {
        one->ready = 1;
        go_on(pack);
    }
}

static void read_more(packed *one)
{
    packing *pack = one->pack;
    waldo__buf path = WALDO__BUF_INIT(3 * WALDO_HAND_PATH_MAX);

    if (strcmp(pack->folder, ".") != 0) {
        waldo__buf_printf(&path, "%s/", pack->folder);
    }
    waldo__buf_puts(&path, pack->found.at[one->index].name.ptr);
    pack->in_flight++;
    waldo_sandbox_read(pack->sandbox, waldo__buf_str(&path).ptr, one->content.len, PIECE, on_read,
                       one);
    waldo__buf_free(&path);
}

static void skip(packing *pack, const waldo_file_info *info)
{
    if (pack->skipped++ == 0) {
        pack->first_skipped = waldo__strdup(info->name.ptr);
    }
}

static void begin_entry(packing *pack, size_t index)
{
    packed *one = &pack->window[index % WINDOW];
    const waldo_file_info *info = &pack->found.at[index];

    waldo__buf_clear(&one->content);
    one->pack = pack;
    one->index = index;
    one->gone = 0;
    one->ready = !S_ISREG(info->mode) || info->bytes == 0;
    pack->in_bytes += S_ISREG(info->mode) ? info->bytes : 0;
    if (!one->ready) {
        read_more(one);
    }
}

static waldo_status end_entry(packing *pack, packed *one)
{
    const waldo_file_info *info = &pack->found.at[one->index];
    int64_t mtime = info->mtime_ns / WALDO__NS_PER_S;
    const waldo__tar_entry entry = { .name = info->name.ptr,
                                     .link = S_ISLNK(info->mode) ? info->link_target.ptr : NULL,
                                     .is_folder = S_ISDIR(info->mode),
                                     .mode = info->mode & 07777,
                                     .mtime_s = mtime < TIME_LAST ? mtime : TIME_LAST,
                                     .bytes = waldo__buf_str(&one->content) };
    waldo_status status = WALDO_OK;

    if (!S_ISREG(info->mode) && !S_ISDIR(info->mode) && !S_ISLNK(info->mode)) {
        skip(pack, info);
    } else if (!one->gone) {
        status = waldo__tar_put(&pack->archive, &entry);
    }
    pack->in_bytes -= S_ISREG(info->mode) ? info->bytes : 0;
    if (one->content.cap > PIECE) {
        waldo__buf_free(&one->content);
    }
    return status;
}

static void whole(packing *pack)
{
    if (pack->skipped > 0) {
        waldo__log(pack->sandbox->env->loop, WALDO_LOG_WARN, "sandbox",
                   "archive of %s: %zu left out that are neither file, folder nor link, such as %s",
                   pack->folder, pack->skipped,
                   pack->first_skipped != NULL ? pack->first_skipped : "");
    }
    waldo__op_end(pack->op, waldo__tar_end(&pack->archive), NULL);
}

static void go_on(packing *pack)
{
    waldo_status status = WALDO_OK;
    int moved = 1;

    while (moved && status == WALDO_OK) {
        moved = 0;
        while (pack->next < pack->found.count && pack->next - pack->written < WINDOW &&
               (pack->in_bytes < WINDOW_BYTES || pack->next == pack->written)) {
            begin_entry(pack, pack->next++);
            moved = 1;
        }
        while (status == WALDO_OK && pack->written < pack->next &&
               pack->window[pack->written % WINDOW].ready) {
            status = end_entry(pack, &pack->window[pack->written % WINDOW]);
            pack->written++;
            moved = 1;
        }
    }
    if (status == WALDO_ETOOBIG) {
        too_big(pack, pack->found.at[pack->written - 1].name.ptr);
    } else if (status != WALDO_OK) {
        waldo__op_end(pack->op, status, NULL);
    } else if (pack->written == pack->found.count) {
        whole(pack);
    }
}

/* ---- what there is ---- */

static waldo_status take_info(packing *pack, const waldo_file_info *from)
{
    waldo_file_info *info = WALDO__VEC_PUSH(&pack->found);

    if (info == NULL) {
        return WALDO_ENOMEM;
    }
    *info = *from;
    info->name.ptr = waldo__strndup(from->name.ptr, from->name.len);
    info->link_target.ptr = waldo__strndup(from->link_target.ptr, from->link_target.len);
    return info->name.ptr != NULL && info->link_target.ptr != NULL ? WALDO_OK : WALDO_ENOMEM;
}

static void on_list(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                    const waldo_error *error)
{
    packing *pack = userdata;
    uint64_t sum = 0;

    if (!back(pack)) {
        return;
    }
    if (status != WALDO_OK) {
        waldo__op_pass_on(pack->op, status, "archive", error);
        return;
    }
    if (count >= FILES_MAX) {
        waldo__op_fail(pack->op, WALDO_ETOOBIG, "archive: %s holds more than %d files",
                       pack->folder, FILES_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        sum += S_ISREG(infos[i].mode) ? infos[i].bytes : 0;
        if (sum > waldo__archive_max(pack->sandbox) || infos[i].bytes > INT64_MAX) {
            too_big(pack, infos[i].name.ptr); /* before a byte of it was read */
            return;
        }
        if (S_ISDIR(infos[i].mode) && infos[i].name.len + strlen(pack->folder) > PATH_DEEPEST) {
            waldo__op_fail(pack->op, WALDO_ETOOBIG, "archive: %.100s...: the path is too long",
                           infos[i].name.ptr);
            return;
        }
        if (take_info(pack, &infos[i]) != WALDO_OK) {
            waldo__op_end(pack->op, WALDO_ENOMEM, NULL);
            return;
        }
    }
    go_on(pack);
}

static void list(packing *pack)
{
    pack->in_flight++;
    waldo__sandbox_list(pack->sandbox, pack->folder, 1, FILES_MAX, on_list, pack);
}

/* A single file is packed under its own name. */
static waldo_status take_single(packing *pack, const waldo_file_info *from)
{
    waldo_file_info info = *from;
    size_t len = strlen(pack->folder);
    char *slash;

    while (len > 1 && pack->folder[len - 1] == '/') {
        pack->folder[--len] = '\0';
    }
    slash = strrchr(pack->folder, '/');
    pack->is_file = 1;
    info.name = waldo__str(slash != NULL ? slash + 1 : pack->folder);
    if (take_info(pack, &info) != WALDO_OK) {
        return WALDO_ENOMEM;
    }
    if (slash == NULL) {
        memcpy(pack->folder, ".", sizeof ".");
    } else {
        slash[slash == pack->folder] = '\0';
    }
    return WALDO_OK;
}

static void on_stat(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                    const waldo_error *error)
{
    packing *pack = userdata;

    if (!back(pack)) {
        return;
    }
    if (status != WALDO_OK || count != 1) {
        waldo__op_pass_on(pack->op, status != WALDO_OK ? status : WALDO_EPROTO, "archive", error);
    } else if (S_ISDIR(infos[0].mode)) {
        list(pack);
    } else if (take_single(pack, &infos[0]) != WALDO_OK) {
        waldo__op_end(pack->op, WALDO_ENOMEM, NULL);
    } else {
        go_on(pack);
    }
}

/* ---- the op ---- */

static void pack_start(waldo__op *op)
{
    packing *pack = ((pack_op *)op)->pack;

    if (strcmp(pack->folder, ".") == 0) {
        list(pack);
        return;
    }
    pack->in_flight++;
    waldo__sandbox_stat(op->sandbox, pack->folder, on_stat, pack);
}

static void pack_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    pack_op *wanted = (pack_op *)op;
    waldo_str archive = status == WALDO_OK ? waldo__buf_str(&wanted->pack->archive) : WALDO__S("");

    if (wanted->done != NULL) {
        wanted->done(wanted->userdata, status, archive, error);
    } else {
        wanted->packed(wanted->userdata, status, archive, wanted->pack->is_file, error);
    }
}

static void pack_op_free(waldo__op *op)
{
    pack_op *wanted = (pack_op *)op;

    wanted->pack->op = NULL;
    pack_free(wanted->pack);
    waldo__free(wanted);
}

static const waldo__op_kind pack_kind = { .start = pack_start,
                                          .finish = pack_finish,
                                          .free = pack_op_free };

static void begin(waldo_sandbox *sandbox, const char *path, waldo_archive_fn done,
                  waldo__packed_fn packed_done, void *userdata)
{
    pack_op *wanted = WALDO__NEW(pack_op);
    packing *pack = WALDO__NEW(packing);
    char *folder = waldo__strdup(path != NULL && path[0] != '\0' ? path : ".");
    uint64_t max = waldo__archive_max(sandbox);

    if (wanted == NULL || pack == NULL || folder == NULL) {
        waldo__free(wanted);
        waldo__free(pack);
        waldo__free(folder);
        if (packed_done != NULL) {
            packed_done(userdata, WALDO_ENOMEM, WALDO__S(""), 0, NULL);
        } else if (done != NULL) {
            done(userdata, WALDO_ENOMEM, WALDO__S(""), NULL);
        }
        return;
    }
    pack->op = &wanted->op;
    pack->sandbox = sandbox;
    pack->folder = folder;
    waldo__buf_init(&pack->archive,
                    max < SIZE_MAX / 4 ? (size_t)(max + HEADERS_MAX) : SIZE_MAX / 4);
    for (size_t i = 0; i < WINDOW; i++) {
        waldo__buf_init(&pack->window[i].content, pack->archive.max);
    }
    wanted->pack = pack;
    wanted->done = done;
    wanted->packed = packed_done;
    wanted->userdata = userdata;
    waldo__op_begin(sandbox, &wanted->op, &pack_kind);
}

void waldo__pack(waldo_sandbox *sandbox, const char *path, waldo__packed_fn done, void *userdata)
{
    begin(sandbox, path, NULL, done, userdata);
}

void waldo_sandbox_pack(waldo_sandbox *sandbox, const char *path, waldo_archive_fn done,
                        void *userdata)
{
    begin(sandbox, path, done, NULL, userdata);
}

void waldo_sandbox_snapshot(waldo_sandbox *sandbox, waldo_archive_fn done, void *userdata)
{
    waldo_sandbox_pack(sandbox, ".", done, userdata);
}
