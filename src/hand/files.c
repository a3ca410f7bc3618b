#define _GNU_SOURCE
/* File requests: quick ones at once, READ and LIST in chunks as the output has room. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"
#include "remove.h"
#include "server.h"
#include "sys.h"

struct op {
    uint8_t type; /* 0: free */
    uint32_t id;
    int fd, dir; /* dir: of an ATOMIC write */
    bool has_limit, atomic, excl, swap;
    uint64_t offset, limit, count, size;
    mode_t mode;
    bool set_mode;
    char temp[32], name[256];
};

static struct op ops[WALDO_HAND_OPS_MAX];

static struct op *find_op(uint32_t id)
{
    for (size_t i = 0; i < WALDO_HAND_OPS_MAX; i++) {
        if (ops[i].type != 0 && ops[i].id == id) {
            return &ops[i];
        }
    }
    return NULL;
}

bool files_has(uint32_t id)
{
    return find_op(id) != NULL;
}

static struct op *new_op(const struct frame *frame)
{
    for (size_t i = 0; i < WALDO_HAND_OPS_MAX; i++) {
        if (ops[i].type == 0) {
            ops[i] = (struct op){ .type = frame->type, .id = frame->id, .fd = -1, .dir = -1 };
            return &ops[i];
        }
    }
    return NULL;
}

/* Frees an operation and answers it. An unfinished temporary file goes. */
static void end_op(struct op *op, int err, uint8_t where, uint8_t flags, uint64_t value)
{
    if (op->temp[0] != '\0') {
        unlinkat(op->dir, op->temp, 0);
    }
    close_fd(&op->fd);
    close_fd(&op->dir);
    op->type = 0;
    out_done(op->id, err, where, flags, value);
}

static uint8_t kind_of(mode_t mode)
{
    static const struct {
        mode_t format;
        uint8_t kind;
    } kinds[] = {
        { S_IFREG, WALDO_HAND_KIND_FILE },    { S_IFDIR, WALDO_HAND_KIND_DIR },
        { S_IFLNK, WALDO_HAND_KIND_LINK },    { S_IFIFO, WALDO_HAND_KIND_FIFO },
        { S_IFSOCK, WALDO_HAND_KIND_SOCKET }, { S_IFCHR, WALDO_HAND_KIND_CHAR },
        { S_IFBLK, WALDO_HAND_KIND_BLOCK },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if ((mode & S_IFMT) == kinds[i].format) {
            return kinds[i].kind;
        }
    }
    return WALDO_HAND_KIND_OTHER;
}

/* Encodes one entry; the link's target is read from dir and link. */
static size_t put_entry(uint8_t *out, size_t room, const struct stat *st, const char *name, int dir,
                        const char *link)
{
    char target[WALDO_HAND_PATH_MAX + 1];
    struct entry entry = {
        .kind = kind_of(st->st_mode),
        .mode = st->st_mode & 07777u,
        .size = (uint64_t)st->st_size,
        .mtime_s = st->st_mtim.tv_sec,
        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .name = name,
        .name_len = strlen(name),
    };

    if (entry.kind == WALDO_HAND_KIND_LINK) {
        ssize_t n = read_link(dir, link, target, sizeof target);

        entry.target = target;
        entry.target_len = n > 0 ? (size_t)n : 0;
    }
    return entry_encode(out, room, &entry);
}

static void do_stat(const struct frame *frame, const struct request *request,
                    const struct place *place)
{
    uint8_t out[WALDO_HAND_ENTRY_LEN + WALDO_HAND_PATH_MAX + 1];
    int nofollow = (request->flags & WALDO_HAND_FILE_NOFOLLOW) != 0 ? O_NOFOLLOW : 0;
    int fd = place_open_at(place, request->path, O_PATH | nofollow, 0);
    struct stat st;

    if (fd < 0 || stat_fd(fd, &st) != 0) {
        out_done(frame->id, errno, WALDO_HAND_WHERE_PATH, 0, 0);
    } else {
        out_frame(WALDO_HAND_DATA, frame->id, out, put_entry(out, sizeof out, &st, "", fd, ""));
        out_done(frame->id, 0, 0, 0, 0);
    }
    close_fd(&fd);
}

static void do_mkdir(const struct frame *frame, const struct request *request,
                     const struct place *place)
{
    bool parents = (request->flags & WALDO_HAND_FILE_PARENTS) != 0;
    char name[256];
    struct stat st;
    int dir = -1, err = parents ? place_make_parents(place, request->path) : 0;

    if (err == 0) {
        dir = place_open_parent(place, request->path, name);
        if (dir < 0 || mkdirat(dir, name, 0755) != 0) {
            err = errno;
        } else if (request->has_mode && chmod_at(dir, name, request->mode) != 0) {
            err = errno;
        }
    }
    if (err == EEXIST && parents && stat_at(dir, name, 0, &st) == 0 && S_ISDIR(st.st_mode)) {
        err = 0;
    }
    close_fd(&dir);
    out_done(frame->id, err, err != 0 ? WALDO_HAND_WHERE_PATH : 0, 0, 0);
}

static void do_remove(const struct frame *frame, const struct request *request,
                      const struct place *place)
{
    char name[256];
    uint64_t removed = 0;
    int dir = place_open_parent(place, request->path, name);
    int err = 0;

    if (dir < 0) {
        err = errno;
    } else if ((request->flags & WALDO_HAND_FILE_RECURSIVE) != 0) {
        err = remove_tree(dir, name, &removed);
    } else if (unlinkat(dir, name, 0) == 0 ||
               (errno == EISDIR && unlinkat(dir, name, AT_REMOVEDIR) == 0)) {
        removed = 1;
    } else {
        err = errno;
    }
    close_fd(&dir);
    out_done(frame->id, err, err != 0 ? WALDO_HAND_WHERE_PATH : 0, 0, removed);
}

static void do_rename(const struct frame *frame, const struct request *request,
                      const struct place *place)
{
    bool excl = (request->flags & WALDO_HAND_FILE_EXCL) != 0;
    char from[256], to[256];
    int from_dir = place_open_parent(place, request->path, from);
    int to_dir = -1, err = 0;
    uint8_t where = WALDO_HAND_WHERE_PATH;

    if (from_dir < 0) {
        err = errno;
    } else {
        to_dir = place_open_parent(place, request->to, to);
        where = WALDO_HAND_WHERE_TO;
        if (to_dir < 0) {
            err = errno;
        } else if ((excl ? rename_noreplace(from_dir, from, to_dir, to)
                         : renameat(from_dir, from, to_dir, to)) != 0) {
            err = errno;
            where = WALDO_HAND_WHERE_IO;
        }
    }
    close_fd(&from_dir);
    close_fd(&to_dir);
    out_done(frame->id, err, err != 0 ? where : 0, 0, 0);
}

static void do_read(struct op *op, const struct request *request, const struct place *place)
{
    int nofollow = (request->flags & WALDO_HAND_FILE_NOFOLLOW) != 0 ? O_NOFOLLOW : 0;
    struct stat st;

    op->fd = place_open_at(place, request->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | nofollow, 0);
    if (op->fd < 0 || stat_fd(op->fd, &st) != 0) {
        end_op(op, errno, WALDO_HAND_WHERE_PATH, 0, 0);
    } else if (!S_ISREG(st.st_mode)) {
        end_op(op, S_ISDIR(st.st_mode) ? EISDIR : EINVAL, WALDO_HAND_WHERE_PATH, 0, 0);
    } else {
        op->size = (uint64_t)st.st_size;
        op->offset = request->offset;
        op->has_limit = request->has_limit;
        op->limit = request->limit;
    }
}

static void do_list(struct op *op, const struct request *request, const struct place *place)
{
    op->fd = place_open_at(place, request->path, O_RDONLY | O_DIRECTORY, 0);
    if (op->fd < 0) {
        end_op(op, errno, WALDO_HAND_WHERE_PATH, 0, 0);
        return;
    }
    op->has_limit = request->has_limit;
    op->limit = request->limit;
}

/* A name that is not in the directory yet. */
static int open_temp(struct op *op)
{
    static const char digits[] = "0123456789abcdef";
    static uint64_t counter;

    for (int tries = 0; tries < 100; tries++) {
        uint64_t value = now_ns() ^ (uint64_t)getpid() << 44 ^ ++counter << 32;
        int fd;

        memcpy(op->temp, ".waldo-", 7);
        for (int i = 0; i < 16; i++) {
            op->temp[7 + i] = digits[value >> 4 * i & 15];
        }
        op->temp[23] = '\0';
        fd = open_at(op->dir, op->temp, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

/* Opens an ATOMIC write: a temporary file beside the target; false with errno. */
static bool open_atomic(struct op *op, const struct request *request, const struct place *place)
{
    struct stat st;

    op->atomic = true;
    op->dir = place_open_parent(place, request->path, op->name);
    if (op->dir < 0) {
        return false;
    }
    op->set_mode = true;
    op->mode = request->has_mode ? request->mode : 0644;
    if (stat_at(op->dir, op->name, AT_SYMLINK_NOFOLLOW, &st) == 0) {
        if (op->excl || S_ISDIR(st.st_mode)) {
            errno = op->excl ? EEXIST : EISDIR;
            return false;
        }
        if (S_ISREG(st.st_mode) && !request->has_mode) {
            op->mode = st.st_mode & 01777u;
        }
    }
    op->fd = open_temp(op);
    if (op->fd < 0) {
        int err = errno;

        op->temp[0] = '\0';
        errno = err;
        return false;
    }
    return true;
}

/* Opens the file itself; false with errno. */
static bool open_plain(struct op *op, const struct request *request, const struct place *place)
{
    bool append = (request->flags & WALDO_HAND_FILE_APPEND) != 0;
    int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | (append ? O_APPEND : O_TRUNC) |
                (op->excl ? O_EXCL : 0);
    struct stat st;

    op->fd = place_open_at(place, request->path, flags, 0644);
    if (op->fd < 0 || stat_fd(op->fd, &st) != 0) {
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return false;
    }
    op->set_mode = request->has_mode;
    op->mode = request->mode;
    return true;
}

static void do_write(struct op *op, const struct request *request, const struct place *place)
{
    bool atomic = (request->flags & WALDO_HAND_FILE_ATOMIC) != 0;
    int err = 0;

    op->excl = (request->flags & WALDO_HAND_FILE_EXCL) != 0;
    op->swap = (request->flags & WALDO_HAND_FILE_SWAP) != 0;
    if (atomic && (request->flags & WALDO_HAND_FILE_APPEND) != 0) {
        end_op(op, EINVAL, WALDO_HAND_WHERE_REQUEST, 0, 0);
        return;
    }
    if ((request->flags & WALDO_HAND_FILE_PARENTS) != 0) {
        err = place_make_parents(place, request->path);
    }
    if (err == 0 && !(atomic ? open_atomic : open_plain)(op, request, place)) {
        err = errno;
    }
    if (err != 0) {
        end_op(op, err, WALDO_HAND_WHERE_PATH, 0, 0);
    }
}

void files_write_data(const struct frame *frame)
{
    struct op *op = find_op(frame->id);
    size_t done = 0;

    if (op == NULL || op->type != WALDO_HAND_WRITE) {
        return;
    }
    while (done < frame->len) {
        ssize_t n = write(op->fd, frame->payload + done, frame->len - done);

        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            end_op(op, n == 0 ? EIO : errno, WALDO_HAND_WHERE_IO, 0, op->count + done);
            return;
        }
    }
    op->count += done;
}

/*
 * Gives the temporary file its name; 0 or -1 with errno. A rename over another file makes ext4
 * write the new one out there and then (auto_da_alloc), and the next such rename wait for that;
 * to swap the names does not.
 */
static int name_temp(const struct op *op)
{
    if (op->excl) {
        return rename_noreplace(op->dir, op->temp, op->dir, op->name);
    }
    if (!op->swap || swap_names(op->dir, op->temp, op->name) != 0) {
        return renameat(op->dir, op->temp, op->dir, op->name);
    }
    if (unlinkat(op->dir, op->temp, 0) != 0) { /* a directory, made meanwhile */
        int err = errno;

        swap_names(op->dir, op->temp, op->name);
        errno = err;
        return -1;
    }
    return 0;
}

void files_write_end(uint32_t id)
{
    struct op *op = find_op(id);
    int fd, err = 0;

    if (op == NULL || op->type != WALDO_HAND_WRITE) {
        return;
    }
    if (op->set_mode && chmod_fd(op->fd, op->mode) != 0) {
        err = errno;
    }
    fd = op->fd;
    op->fd = -1;
    if (close(fd) != 0 && err == 0) {
        err = errno;
    }
    if (err == 0 && op->atomic) {
        if (name_temp(op) != 0) {
            err = errno;
        } else {
            op->temp[0] = '\0';
        }
    }
    end_op(op, err, err != 0 ? WALDO_HAND_WHERE_IO : 0, 0, op->count);
}

bool files_cancel(uint32_t id)
{
    struct op *op = find_op(id);

    if (op != NULL) {
        end_op(op, ECANCELED, WALDO_HAND_WHERE_CANCELLED, 0, op->count);
    }
    return op != NULL;
}

/* Opens ROOT if there is one; false: answered. */
static bool open_place(const struct frame *frame, const struct request *request,
                       struct place *ret_place)
{
    *ret_place = (struct place){ .root = AT_FDCWD };
    if (!request->has_root) {
        return true;
    }
    ret_place->beneath = true;
    ret_place->root = open_path(request->root, O_PATH | O_DIRECTORY);
    if (ret_place->root < 0) {
        out_done(frame->id, errno, WALDO_HAND_WHERE_ROOT, 0, 0);
        return false;
    }
    return true;
}

/* Requests that go on after this call. */
static void start_op(const struct frame *frame, const struct request *request,
                     const struct place *place)
{
    struct op *op = new_op(frame);

    if (op == NULL) {
        out_done(frame->id, EAGAIN, WALDO_HAND_WHERE_LIMIT, 0, 0);
    } else if (frame->type == WALDO_HAND_READ) {
        do_read(op, request, place);
    } else if (frame->type == WALDO_HAND_LIST) {
        do_list(op, request, place);
    } else {
        do_write(op, request, place);
    }
}

int files_request(const struct frame *frame)
{
    static struct request request;
    struct place place;
    uint8_t where;
    int err = request_decode(frame, &request, &where);

    if (err < 0) {
        return WALDO_HAND_E_PAYLOAD;
    }
    if (err > 0) {
        out_done(frame->id, err, where, 0, 0);
        return 0;
    }
    if (!open_place(frame, &request, &place)) {
        return 0;
    }
    switch (frame->type) {
    case WALDO_HAND_STAT:
        do_stat(frame, &request, &place);
        break;
    case WALDO_HAND_MKDIR:
        do_mkdir(frame, &request, &place);
        break;
    case WALDO_HAND_REMOVE:
        do_remove(frame, &request, &place);
        break;
    case WALDO_HAND_RENAME:
        do_rename(frame, &request, &place);
        break;
    default:
        start_op(frame, &request, &place);
    }
    if (place.root != AT_FDCWD) {
        close(place.root);
    }
    return 0;
}

/* One chunk of a READ. */
static void step_read(struct op *op)
{
    static uint8_t chunk[WALDO_HAND_CHUNK_MAX];
    size_t want = sizeof chunk;
    ssize_t n = 0;

    if (op->has_limit && op->limit - op->count < want) {
        want = (size_t)(op->limit - op->count);
    }
    if (want > 0) {
        n = pread(op->fd, chunk, want, (off_t)op->offset);
    }
    if (n > 0) {
        op->offset += (uint64_t)n;
        op->count += (uint64_t)n;
        out_frame(WALDO_HAND_DATA, op->id, chunk, (size_t)n);
    } else if (n < 0 && errno != EINTR) {
        end_op(op, errno, WALDO_HAND_WHERE_IO, 0, op->size);
    } else if (n == 0) {
        bool more = want == 0 && op->offset < op->size;

        end_op(op, 0, 0, more ? WALDO_HAND_DONE_MORE : 0, op->size);
    }
}

/* Adds a directory entry to the chunk: 1 added, 0 gone or a dot, -1 no room. */
static int add_entry(struct op *op, const struct dent *dent, uint8_t *chunk, size_t *used)
{
    struct stat st;
    size_t n;

    if (strcmp(dent->name, ".") == 0 || strcmp(dent->name, "..") == 0 ||
        stat_at(op->fd, dent->name, AT_SYMLINK_NOFOLLOW, &st) != 0) {
        return 0;
    }
    n = put_entry(chunk + *used, WALDO_HAND_CHUNK_MAX - *used, &st, dent->name, op->fd, dent->name);
    *used += n;
    return n > 0 ? 1 : -1;
}

/* One chunk of a LIST: the directory is read again from the first entry that did not fit. */
static void step_list(struct op *op)
{
    static uint8_t chunk[WALDO_HAND_CHUNK_MAX];
    static char dents[8192] __attribute__((aligned(8)));
    ssize_t got = read_dents(op->fd, dents, sizeof dents);
    int64_t next = (int64_t)op->offset;
    size_t used = 0;
    bool full = false, more = false;

    for (ssize_t at = 0; at < got && !full && !more;) {
        const struct dent *dent = (const struct dent *)(const void *)(dents + at);
        size_t before = used;
        int added = add_entry(op, dent, chunk, &used);

        if (added > 0 && op->has_limit && op->count == op->limit) {
            used = before;
            more = true;
        } else if (added < 0) {
            full = true;
        } else {
            op->count += added > 0;
            next = dent->off;
            at += dent->reclen;
        }
    }
    op->offset = (uint64_t)next;
    if (full) {
        lseek(op->fd, next, SEEK_SET);
    }
    if (used > 0) {
        out_frame(WALDO_HAND_DATA, op->id, chunk, used);
    }
    if (got <= 0 || more) {
        end_op(op, got < 0 ? errno : 0, got < 0 ? WALDO_HAND_WHERE_IO : 0,
               more ? WALDO_HAND_DONE_MORE : 0, op->count);
    }
}

bool files_step(void)
{
    bool going = false;

    for (size_t i = 0; i < WALDO_HAND_OPS_MAX; i++) {
        struct op *op = &ops[i];

        if (op->type == 0 || op->type == WALDO_HAND_WRITE) {
            continue;
        }
        going = true;
        if (!out_room_for_data()) {
            continue;
        }
        if (op->type == WALDO_HAND_READ) {
            step_read(op);
        } else {
            step_list(op);
        }
    }
    return going;
}

void files_end(void)
{
    for (size_t i = 0; i < WALDO_HAND_OPS_MAX; i++) {
        if (ops[i].type != 0) {
            files_cancel(ops[i].id);
        }
    }
}
