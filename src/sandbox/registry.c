#include "sandbox/registry.h"

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

/* The first member that is missing or contradicts the capability bits; NULL: none. */
static const char *missing_member(const waldo_backend_ops *ops)
{
    int by_hand = (ops->caps & WALDO_BACKEND_CHANNEL) != 0;
    const struct {
        const char *name;
        int present;
        uint32_t needed_by; /* bits; 0: always */
    } members[] = {
        { "about", WALDO__BACKEND_HAS(ops, about), 0 },
        { "option_names", WALDO__BACKEND_HAS(ops, option_names), 0 },
        { "parse", WALDO__BACKEND_HAS(ops, parse), 0 },
        { "probe", WALDO__BACKEND_HAS(ops, probe), 0 },
        { "open", WALDO__BACKEND_HAS(ops, open), 0 },
        { "close", WALDO__BACKEND_HAS(ops, close), 0 },
        { "abandon", WALDO__BACKEND_HAS(ops, abandon), 0 },
        { "channel", WALDO__BACKEND_HAS(ops, channel), WALDO_BACKEND_CHANNEL },
        { "exec1", WALDO__BACKEND_HAS(ops, exec1), WALDO_BACKEND_EXEC1 },
        { "file_read", WALDO__BACKEND_HAS(ops, file_read), WALDO_BACKEND_FILES },
        { "file_write", WALDO__BACKEND_HAS(ops, file_write), WALDO_BACKEND_FILES },
        { "file_stat", WALDO__BACKEND_HAS(ops, file_stat), WALDO_BACKEND_FILES },
        { "file_list", WALDO__BACKEND_HAS(ops, file_list), WALDO_BACKEND_FILES },
        { "file_remove", WALDO__BACKEND_HAS(ops, file_remove), WALDO_BACKEND_FILES },
        { "file_mkdir", WALDO__BACKEND_HAS(ops, file_mkdir), WALDO_BACKEND_FILES },
        { "file_rename", WALDO__BACKEND_HAS(ops, file_rename), WALDO_BACKEND_FILES },
        { "pty", WALDO__BACKEND_HAS(ops, pty), WALDO_BACKEND_PTY },
        { "attach_job", WALDO__BACKEND_HAS(ops, attach_job) || by_hand, WALDO_BACKEND_ATTACH },
        { "save", WALDO__BACKEND_HAS(ops, save), WALDO_BACKEND_ATTACH },
        { "detach", WALDO__BACKEND_HAS(ops, detach), WALDO_BACKEND_ATTACH },
        { "describe", WALDO__BACKEND_HAS(ops, describe), WALDO_BACKEND_ADOPT },
        { "pause", WALDO__BACKEND_HAS(ops, pause), WALDO_BACKEND_PAUSE },
        { "resume", WALDO__BACKEND_HAS(ops, resume), WALDO_BACKEND_PAUSE },
        { "set_net", WALDO__BACKEND_HAS(ops, set_net), WALDO_BACKEND_SET_NET },
        { "snapshot", WALDO__BACKEND_HAS(ops, snapshot), WALDO_BACKEND_SNAPSHOT },
        { "port_url", WALDO__BACKEND_HAS(ops, port_url), WALDO_BACKEND_PORTS },
    };

    for (size_t i = 0; i < WALDO__COUNT(members); i++) {
        uint32_t bits = members[i].needed_by;

        if (!members[i].present && (bits == 0 || (ops->caps & bits) != 0) &&
            !(by_hand && (bits & WALDO_BACKEND_PTY) != 0)) {
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
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "backend: set version to WALDO_BACKEND_VERSION (at most %u) and "
                               "size to sizeof(waldo_backend_ops)",
                               WALDO_BACKEND_VERSION);
    }
    if (!good_name(ops->name)) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "backend: name must be 1 to %d lower-case letters, digits and "
                               "dashes",
                               NAME_MAX_LEN);
    }
    missing = missing_member(ops);
    if (missing != NULL) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "backend %s: member %s is missing, but is mandatory or promised by "
                               "a capability bit",
                               ops->name, missing);
    }
    if ((ops->caps & (WALDO_BACKEND_CHANNEL | WALDO_BACKEND_EXEC1)) == 0) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "backend %s: needs WALDO_BACKEND_CHANNEL or WALDO_BACKEND_EXEC1",
                               ops->name);
    }
    if (ops->isolation <= WALDO_ISOLATION_ANY || ops->isolation > WALDO_ISOLATION_REMOTE) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "backend %s: isolation must be one of the grades", ops->name);
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
