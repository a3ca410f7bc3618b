#include "sandbox/registry.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sandbox/backend_list.h"

enum { OWN_MAX = 32, NAME_MAX_LEN = 32 };

#define DECLARE(name) extern const waldo_backend_ops waldo__backend_##name;
WALDO__BACKEND_LIST(DECLARE)
#undef DECLARE

/* In the order of meson's option; the host's own come after. */
static const waldo_backend_ops *const built_in[] = {
#define ENTRY(name) &waldo__backend_##name,
    WALDO__BACKEND_LIST(ENTRY)
#undef ENTRY
        NULL
};

static const waldo_backend_ops *own[OWN_MAX];
static size_t own_count;

const waldo_backend_ops *waldo__backend_at(size_t index)
{
    size_t built = WALDO__COUNT(built_in) - 1;

    if (index < built) {
        return built_in[index];
    }
    return index - built < own_count ? own[index - built] : NULL;
}

const waldo_backend_ops *waldo__backend_find(waldo_str name)
{
    const waldo_backend_ops *ops;

    for (size_t i = 0; (ops = waldo__backend_at(i)) != NULL; i++) {
        if (waldo__str_is(name, ops->name)) {
            return ops;
        }
    }
    return NULL;
}

void waldo__backend_names(waldo__buf *out)
{
    const waldo_backend_ops *ops;

    for (size_t i = 0; (ops = waldo__backend_at(i)) != NULL; i++) {
        waldo__buf_printf(out, "%s%s:", i > 0 ? ", " : "", ops->name);
    }
}

/* Lower-case letters, digits and dashes: what stands before the colon of a sandbox string. */
static int good_name(const char *name)
{
    size_t len = name != NULL ? strnlen(name, NAME_MAX_LEN + 1) : 0;

    for (size_t i = 0; i < len; i++) {
        int letter = name[i] >= 'a' && name[i] <= 'z';
        int other = (name[i] >= '0' && name[i] <= '9') || name[i] == '-';

        if (!letter && (i == 0 || !other)) {
            return 0;
        }
    }
    return len > 0 && len <= NAME_MAX_LEN;
}

#define MEMBER(member, needed_by)                                                                  \
    {                                                                                              \
#member, offsetof(waldo_backend_ops, member), needed_by                                    \
    }

/* Pointers of the table; the bits are those of the capabilities that need one, 0: it always is. */
static const struct {
    char name[14];
    uint16_t at;
    uint32_t needed_by;
} members[] = {
    MEMBER(about, 0),
    MEMBER(option_names, 0),
    MEMBER(parse, 0),
    MEMBER(probe, 0),
    MEMBER(open, 0),
    MEMBER(close, 0),
    MEMBER(abandon, 0),
    MEMBER(channel, WALDO_BACKEND_CHANNEL),
    MEMBER(exec1, WALDO_BACKEND_EXEC1),
    MEMBER(file_read, WALDO_BACKEND_FILES),
    MEMBER(file_write, WALDO_BACKEND_FILES),
    MEMBER(file_stat, WALDO_BACKEND_FILES),
    MEMBER(file_list, WALDO_BACKEND_FILES),
    MEMBER(file_remove, WALDO_BACKEND_FILES),
    MEMBER(file_mkdir, WALDO_BACKEND_FILES),
    MEMBER(file_rename, WALDO_BACKEND_FILES),
    MEMBER(pty, WALDO_BACKEND_PTY),
    MEMBER(attach_job, WALDO_BACKEND_ATTACH),
    MEMBER(save, WALDO_BACKEND_ATTACH),
    MEMBER(detach, WALDO_BACKEND_ATTACH),
    MEMBER(describe, WALDO_BACKEND_ADOPT),
    MEMBER(pause, WALDO_BACKEND_PAUSE),
    MEMBER(resume, WALDO_BACKEND_PAUSE),
    MEMBER(set_net, WALDO_BACKEND_SET_NET),
    MEMBER(snapshot, WALDO_BACKEND_SNAPSHOT),
    MEMBER(port_url, WALDO_BACKEND_PORTS),
};

/* The first member that is missing or contradicts the capability bits; NULL: none. */
static const char *missing_member(const waldo_backend_ops *ops)
{
    int by_hand = (ops->caps & WALDO_BACKEND_CHANNEL) != 0;

    for (size_t i = 0; i < WALDO__COUNT(members); i++) {
        uint32_t bits = members[i].needed_by;
        const void *member = NULL; /* or the address of a function */

        if (bits != 0 && ((ops->caps & bits) == 0 || (by_hand && (bits & WALDO_BACKEND_PTY) != 0) ||
                          (by_hand && members[i].at == offsetof(waldo_backend_ops, attach_job)))) {
            continue;
        }
        if (ops->size >= members[i].at + sizeof member) {
            memcpy(&member, (const char *)ops + members[i].at, sizeof member);
        }
        if (member == NULL) {
            return members[i].name;
        }
    }
    return NULL;
}

waldo_status waldo_backend_register(const waldo_backend_ops *ops, waldo_error **ret_err)
{
    const char *missing;

    if (ops == NULL || ops->version == 0 || ops->version > WALDO_BACKEND_VERSION ||
        ops->size < offsetof(waldo_backend_ops, attach_job)) {
        return waldo__error_invalid(
            ret_err,
            "backend: set version to WALDO_BACKEND_VERSION (at most %u) and "
            "size to sizeof(waldo_backend_ops)",
            WALDO_BACKEND_VERSION);
    }
    if (!good_name(ops->name)) {
        return waldo__error_invalid(ret_err,
                                    "backend: name must be 1 to %d lower-case letters, digits and "
                                    "dashes",
                                    NAME_MAX_LEN);
    }
    missing = missing_member(ops);
    if (missing != NULL) {
        return waldo__error_invalid(
            ret_err,
            "backend %s: member %s is missing, but is mandatory or promised by "
            "a capability bit",
            ops->name, missing);
    }
    if ((ops->caps & (WALDO_BACKEND_CHANNEL | WALDO_BACKEND_EXEC1)) == 0) {
        return waldo__error_invalid(
            ret_err, "backend %s: needs WALDO_BACKEND_CHANNEL or WALDO_BACKEND_EXEC1", ops->name);
    }
    if (ops->isolation <= WALDO_ISOLATION_ANY || ops->isolation > WALDO_ISOLATION_REMOTE) {
        return waldo__error_invalid(ret_err, "backend %s: isolation must be one of the grades",
                                    ops->name);
    }
    if (waldo__backend_find(waldo__str(ops->name)) != NULL) {
        return waldo_error_set(ret_err, WALDO_EEXISTS, WALDO_CLASS_USAGE,
                               "backend %s: the name is taken", ops->name);
    }
    if (own_count == OWN_MAX) {
        return waldo_error_set(ret_err, WALDO_ELIMIT, WALDO_CLASS_USAGE,
                               "backend %s: at most %d can be added", ops->name, OWN_MAX);
    }
    own[own_count++] = ops;
    return WALDO_OK;
}
