#define _GNU_SOURCE
#include "paths.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"

static int take_path(const struct field *field, char path[WALDO_HAND_PATH_MAX + 1])
{
    if (field->len == 0 || field_has_nul(field)) {
        return EINVAL;
    }
    if (field->len > WALDO_HAND_PATH_MAX) {
        return ENAMETOOLONG;
    }
    memcpy(path, field->ptr, field->len);
    path[field->len] = '\0';
    return 0;
}

static int take_field(struct request *request, const struct field *field)
{
    switch (field->tag) {
    case WALDO_HAND_F_FLAGS:
        return field_u32(field, &request->flags) ? 0 : EINVAL;
    case WALDO_HAND_F_PATH:
        return take_path(field, request->path);
    case WALDO_HAND_F_ROOT:
        request->has_root = true;
        return take_path(field, request->root);
    case WALDO_HAND_F_TO:
        request->has_to = true;
        return take_path(field, request->to);
    case WALDO_HAND_F_MODE:
        request->has_mode = true;
        return field_u32(field, &request->mode) && request->mode <= 07777 ? 0 : EINVAL;
    case WALDO_HAND_F_OFFSET:
        return field_u64(field, &request->offset) && request->offset <= INT64_MAX ? 0 : EINVAL;
    case WALDO_HAND_F_LIMIT:
        request->has_limit = true;
        return field_u64(field, &request->limit) ? 0 : EINVAL;
    default:
        return (field->tag & WALDO_HAND_FIELD_OPTIONAL) != 0 ? 0 : EOPNOTSUPP;
    }
}

/* Which fields and flags each request takes; bits of fields by tag. */
static const struct {
    uint8_t type;
    uint64_t fields;
    uint32_t flags;
} allowed[] = {
#define BIT(tag) (UINT64_C(1) << (tag))
#define COMMON   (BIT(WALDO_HAND_F_FLAGS) | BIT(WALDO_HAND_F_PATH) | BIT(WALDO_HAND_F_ROOT))
    { WALDO_HAND_READ, COMMON | BIT(WALDO_HAND_F_OFFSET) | BIT(WALDO_HAND_F_LIMIT),
      WALDO_HAND_FILE_NOFOLLOW },
    { WALDO_HAND_WRITE, COMMON | BIT(WALDO_HAND_F_MODE),
      WALDO_HAND_FILE_PARENTS | WALDO_HAND_FILE_ATOMIC | WALDO_HAND_FILE_APPEND |
          WALDO_HAND_FILE_EXCL | WALDO_HAND_FILE_SWAP },
    { WALDO_HAND_STAT, COMMON, WALDO_HAND_FILE_NOFOLLOW },
    { WALDO_HAND_LIST, COMMON | BIT(WALDO_HAND_F_LIMIT), 0 },
    { WALDO_HAND_MKDIR, COMMON | BIT(WALDO_HAND_F_MODE), WALDO_HAND_FILE_PARENTS },
    { WALDO_HAND_REMOVE, COMMON, WALDO_HAND_FILE_RECURSIVE },
    { WALDO_HAND_RENAME, COMMON | BIT(WALDO_HAND_F_TO), WALDO_HAND_FILE_EXCL },
};

/* EOPNOTSUPP for a field or flag that this request does not have. */
static int check_allowed(uint8_t type, uint64_t seen, uint32_t flags)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if (allowed[i].type == type) {
            return (seen & ~allowed[i].fields) != 0 || (flags & ~allowed[i].flags) != 0 ? EOPNOTSUPP
                                                                                        : 0;
        }
    }
    return EOPNOTSUPP;
}

int request_decode(const struct frame *frame, struct request *ret_request, uint8_t *ret_where)
{
    struct fields it;
    struct field field;
    uint64_t seen = 0;
    int err = 0, got;

    memset(ret_request, 0, sizeof *ret_request);
    fields_init(&it, frame);
    while ((got = fields_next(&it, &field)) == 1) {
        bool again = field.tag < 64 && (seen >> field.tag & 1) != 0;
        int field_err = again ? EINVAL : take_field(ret_request, &field);

        seen |= field.tag < 64 ? BIT(field.tag) : 0;
        err = err != 0 ? err : field_err;
    }
    if (got < 0) {
        return -1;
    }
    if (err == 0) {
        err = check_allowed(frame->type, seen, ret_request->flags);
    }
    if (err == 0 && (ret_request->path[0] == '\0' ||
                     (frame->type == WALDO_HAND_RENAME && !ret_request->has_to))) {
        err = EINVAL;
    }
    *ret_where = err == EOPNOTSUPP ? WALDO_HAND_WHERE_UNSUPPORTED : WALDO_HAND_WHERE_REQUEST;
    return err;
}

int place_open_at(const struct place *place, const char *path, int flags, mode_t mode)
{
    if (place->beneath) {
        return open_beneath(place->root, path, flags, mode);
    }
    return open_at(place->root, path, flags, mode);
}

/* Length of path without its last name and the slashes around it; ret_at: where the name is. */
static size_t split(const char *path, size_t *ret_at, size_t *ret_len)
{
    size_t end = strlen(path), at;

    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    at = end;
    while (at > 0 && path[at - 1] != '/') {
        at--;
    }
    *ret_at = at;
    *ret_len = end - at;
    while (at > 1 && path[at - 1] == '/') {
        at--;
    }
    return at;
}

static int open_dir(const struct place *place, const char *path, size_t len)
{
    char dir[WALDO_HAND_PATH_MAX + 1];

    if (len == 0) {
        return place_open_at(place, ".", O_PATH | O_DIRECTORY, 0);
    }
    memcpy(dir, path, len);
    dir[len] = '\0';
    return place_open_at(place, dir, O_PATH | O_DIRECTORY, 0);
}

int place_open_parent(const struct place *place, const char *path, char ret_name[256])
{
    size_t at, len, dir_len = split(path, &at, &len);

    if (len > 255) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(ret_name, path + at, len);
    ret_name[len] = '\0';
    if (len == 0 || strcmp(ret_name, ".") == 0 || strcmp(ret_name, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    return open_dir(place, path, dir_len);
}

/* Makes one directory of the way; one that exists is as good. */
static int make_step(const struct place *place, const char *prefix)
{
    char name[256];
    int dir = place_open_parent(place, prefix, name);
    int err = 0;

    if (dir < 0) {
        return errno;
    }
    if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST) {
        err = errno;
    }
    close(dir);
    return err;
}

int place_make_parents(const struct place *place, const char *path)
{
    char prefix[WALDO_HAND_PATH_MAX + 1];
    size_t at, len, dir_len = split(path, &at, &len);
    int dir = open_dir(place, path, dir_len);
    int err = 0;

    if (dir >= 0) {
        close(dir);
        return 0;
    }
    if (errno != ENOENT) {
        return errno;
    }
    for (size_t i = 1; err == 0 && i <= dir_len; i++) {
        if ((i < dir_len && path[i] != '/') || path[i - 1] == '/') {
            continue;
        }
        memcpy(prefix, path, i);
        prefix[i] = '\0';
        err = make_step(place, prefix);
        /* "." and ".." on the way are not made. */
        err = err == EINVAL ? 0 : err;
    }
    return err;
}
