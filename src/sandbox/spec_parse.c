/* Sandbox strings: BACKEND ":" [TARGET] { "," KEY "=" VALUE }. */
#include "sandbox/spec.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

enum { LEASE_OF_NAMED_MS = 24 * 3600 * 1000, ATTACH_MAX = 256 };

static const char *const net_names[] = { "default", "none", "packages", "hosts", "all" };
static const char *const isolation_names[] = { "any",    "none", "process", "container",
                                               "gvisor", "vm",   "remote" };

const char *waldo__net_name(waldo_net net)
{
    return net >= 0 && (size_t)net < WALDO__COUNT(net_names) ? net_names[net] : "?";
}

uint32_t waldo__net_bit(waldo_net net)
{
    static const uint32_t bits[] = { 0, 0, WALDO_BACKEND_NET_PACKAGES, WALDO_BACKEND_NET_HOSTS,
                                     WALDO_BACKEND_NET_ALL };

    return bits[net];
}

const char *waldo__isolation_name(waldo_isolation isolation)
{
    return isolation >= 0 && (size_t)isolation < WALDO__COUNT(isolation_names)
               ? isolation_names[isolation]
               : "?";
}

/* Digits, then an optional unit; the product, or 0 when it is neither or too large. */
static int parse_scaled(waldo_str text, const char *const *units, const int64_t *factors,
                        size_t unit_count, int64_t bare, int64_t *ret_value)
{
    size_t digits = 0;
    int64_t value;
    int64_t factor = bare;

    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9') {
        digits++;
    }
    if (!waldo__str_int(waldo__slice(text.ptr, digits), &value) || value <= 0) {
        return 0;
    }
    if (digits < text.len) {
        waldo_str unit = waldo__slice(text.ptr + digits, text.len - digits);

        factor = 0;
        for (size_t i = 0; i < unit_count; i++) {
            if (waldo__str_ieq(unit, waldo__str(units[i]))) {
                factor = factors[i];
            }
        }
    }
    if (factor == 0 || value > INT64_MAX / factor) {
        return 0;
    }
    *ret_value = value * factor;
    return 1;
}

/* 60 and 60s are seconds; ms, m and h are allowed. */
static int parse_time(waldo_str text, int64_t *ret_ms)
{
    static const char *const units[] = { "ms", "s", "m", "h" };
    static const int64_t factors[] = { 1, 1000, 60000, 3600000 };

    return parse_scaled(text, units, factors, WALDO__COUNT(units), 1000, ret_ms) &&
           *ret_ms <= INT64_C(1000) * 3600 * 24 * 365;
}

/* As engines and file systems take it everywhere. */
static int good_name(waldo_str name)
{
    return name.len <= WALDO__SPEC_NAME_MAX && waldo__str_made_of(name, "_.-") &&
           strchr("_.-", name.ptr[0]) == NULL;
}

static int set_net(waldo__spec_entry *entry, waldo_str value)
{
    for (size_t i = 1; i < WALDO__COUNT(net_names); i++) {
        if (waldo__str_is(value, net_names[i])) {
            entry->net = (waldo_net)i;
            return 1;
        }
    }
    return 0;
}

static int set_min_isolation(waldo__spec_entry *entry, waldo_str value)
{
    for (size_t i = 0; i < WALDO__COUNT(isolation_names); i++) {
        if (waldo__str_is(value, isolation_names[i])) {
            entry->min_isolation = (waldo_isolation)i;
            return 1;
        }
    }
    return 0;
}

static int set_cpus(waldo__spec_entry *entry, waldo_str value)
{
    char text[32];
    char *end;

    if (value.len == 0 || value.len >= sizeof text) {
        return 0;
    }
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    if (strspn(text, "0123456789.") != value.len) {
        return 0;
    }
    entry->cpus = strtod(text, &end);
    return *end == '\0' && isfinite(entry->cpus) && entry->cpus > 0 && entry->cpus <= 4096;
}

static int set_memory(waldo__spec_entry *entry, waldo_str value)
{
    static const char *const units[] = { "k", "m", "g", "t" };
    static const int64_t factors[] = { 1 << 10, 1 << 20, 1 << 30, INT64_C(1) << 40 };
    int64_t bytes;

    if (!parse_scaled(value, units, factors, WALDO__COUNT(units), 1, &bytes)) {
        return 0;
    }
    entry->memory_bytes = (uint64_t)bytes;
    return 1;
}

static int set_timeout(waldo__spec_entry *entry, waldo_str value)
{
    return parse_time(value, &entry->command_timeout_ms);
}

static int set_idle(waldo__spec_entry *entry, waldo_str value)
{
    return parse_time(value, &entry->idle_ms);
}

static int set_lease(waldo__spec_entry *entry, waldo_str value)
{
    entry->lease_asked = 1;
    return parse_time(value, &entry->lease_ms) && entry->lease_ms <= WALDO__SPEC_LEASE_MAX_MS;
}

static int set_name(waldo__spec_entry *entry, waldo_str value)
{
    waldo__free(entry->name);
    entry->name = waldo__strndup(value.ptr, value.len);
    return entry->name != NULL && good_name(value);
}

static int set_attach(waldo__spec_entry *entry, waldo_str value)
{
    waldo__free(entry->attach);
    entry->attach = waldo__strndup(value.ptr, value.len);
    return entry->attach != NULL;
}

static int set_pids(waldo__spec_entry *entry, waldo_str value)
{
    int64_t count;

    if (!waldo__str_int(value, &count) || count < 1 || count > 1000000) {
        return 0;
    }
    entry->max_processes = (uint32_t)count;
    return 1;
}

/* "NAME=value"; appended, so a later one of the same name wins where commands get them. */
static int set_env(waldo__spec_entry *entry, waldo_str value)
{
    size_t count = 0;
    size_t equals = waldo__str_find(value, '=');
    char **grown;

    if (equals == 0 || equals == value.len) {
        return 0;
    }
    while (entry->env[count] != NULL) {
        count++;
    }
    grown = count < WALDO__SPEC_LIST_MAX ? waldo__reallocarray(entry->env, count + 2, sizeof *grown)
                                         : NULL;
    if (grown == NULL) {
        return 0;
    }
    entry->env = grown;
    grown[count] = waldo__strndup(value.ptr, value.len);
    grown[count + 1] = NULL;
    return grown[count] != NULL;
}

static int set_spares(waldo__spec_entry *entry, waldo_str value)
{
    int64_t count;

    if (!waldo__str_int(value, &count) || count < 0 || count > WALDO__SPEC_SPARES_MAX) {
        return 0;
    }
    entry->spares = (uint32_t)count;
    return 1;
}

static int set_snapshots(waldo__spec_entry *entry, waldo_str value)
{
    entry->snapshots = waldo__str_is(value, "turn") ? WALDO_SNAPSHOTS_TURN : WALDO_SNAPSHOTS_NEVER;
    return entry->snapshots == WALDO_SNAPSHOTS_TURN || waldo__str_is(value, "never");
}

/* Keys the sandbox layer understands itself. */
static const struct generic_key {
    const char *name;
    int (*set)(waldo__spec_entry *entry, waldo_str value);
    const char *form;
} generic_keys[] = {
    { "net", set_net, "none, packages, hosts or all" },
    { "cpus", set_cpus, "a number such as 2 or 0.5" },
    { "memory", set_memory, "a size such as 512m or 1g" },
    { "timeout", set_timeout, "a time such as 60, 500ms or 10m" },
    { "idle", set_idle, "a time such as 60, 500ms or 10m" },
    { "env", set_env, "NAME=value" },
    { "min_isolation", set_min_isolation, "none, process, container, gvisor, vm or remote" },
    { "pids", set_pids, "a number from 1 to 1000000" },
    { "lease", set_lease, "a time of at most 49 days such as 600, 30m or 24h" },
    { "name", set_name, "1 to 48 letters, digits, dots, dashes or underscores" },
    { "spares", set_spares, "a number from 0 to 16" },
    { "attach", set_attach, "the id of a machine" },
    { "snapshots", set_snapshots, "never or turn" },
};

/* Keys of the grammar that need a backend which keeps or names machines. */
static const char *const later_keys[] = {
    "gpu", "user", "runtime", "region", "pull", "from", NULL
};

static int in_list(const char *const *list, waldo_str name)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        if (waldo__str_is(name, list[i])) {
            return 1;
        }
    }
    return 0;
}

static waldo_status unknown_option(const waldo__spec_entry *entry, waldo_str key,
                                   waldo_error **ret_err)
{
    waldo__buf known = WALDO__BUF_INIT(4096);
    const char *about =
        in_list(later_keys, key) ? "is not offered by this version" : "is not known";
    waldo_status status = in_list(later_keys, key) ? WALDO_ENOTSUP : WALDO_EINVAL;

    for (size_t i = 0; i < WALDO__COUNT(generic_keys); i++) {
        waldo__buf_printf(&known, "%s%s", i > 0 ? ", " : "", generic_keys[i].name);
    }
    for (size_t i = 0; entry->ops->option_names[i] != NULL; i++) {
        waldo__buf_printf(&known, ", %s", entry->ops->option_names[i]);
    }
    waldo_error_set(ret_err, status, WALDO_CLASS_USAGE,
                    "sandbox string \"%s\": option \"%.*s\" %s by %s: (options: %s)", entry->text,
                    (int)key.len, key.ptr, about, entry->ops->name, waldo__buf_str(&known).ptr);
    waldo__buf_free(&known);
    return status;
}

static waldo_status add_own_option(waldo__spec_entry *entry, waldo_str key, waldo_str value,
                                   waldo_error **ret_err)
{
    waldo_backend_option *grown =
        waldo__reallocarray(entry->options, entry->option_count + 1, sizeof *entry->options);

    if (grown == NULL) {
        return waldo__error_nomem(ret_err);
    }
    entry->options = grown;
    grown[entry->option_count++] = (waldo_backend_option){ key, value };
    return WALDO_OK;
}

static waldo_status parse_option(waldo__spec_entry *entry, waldo_str part, waldo_error **ret_err)
{
    size_t equals = waldo__str_find(part, '=');
    waldo_str key = waldo__slice(part.ptr, equals);
    waldo_str value;

    if (equals == part.len || equals == 0) {
        return waldo__error_invalid(ret_err, "sandbox string \"%s\": \"%.*s\" is not KEY=VALUE",
                                    entry->text, (int)part.len, part.ptr);
    }
    value = waldo__slice(part.ptr + equals + 1, part.len - equals - 1);
    if (in_list(entry->ops->option_names, key)) {
        return add_own_option(entry, key, value, ret_err);
    }
    for (size_t i = 0; i < WALDO__COUNT(generic_keys); i++) {
        if (waldo__str_is(key, generic_keys[i].name)) {
            return generic_keys[i].set(entry, value)
                       ? WALDO_OK
                       : waldo__error_invalid(ret_err,
                                              "sandbox string \"%s\": %s must be %s, not \"%.*s\"",
                                              entry->text, generic_keys[i].name,
                                              generic_keys[i].form, (int)value.len, value.ptr);
        }
    }
    return unknown_option(entry, key, ret_err);
}

/* The part before the colon, looked up. */
static waldo_status find_kind(waldo__spec_entry *entry, waldo_str *ret_rest, waldo_error **ret_err)
{
    waldo_str text = waldo__str(entry->text);
    size_t colon = waldo__str_find(text, ':');
    waldo__buf names = WALDO__BUF_INIT(4096);

    if (colon < text.len) {
        entry->ops = waldo__backend_find(waldo__slice(text.ptr, colon));
    }
    if (entry->ops == NULL) {
        waldo__backend_names(&names);
        waldo__error_invalid(ret_err, "sandbox string \"%s\" %s; it starts with one of: %s",
                             entry->text,
                             colon < text.len ? "names an unknown kind" : "has no colon",
                             waldo__buf_str(&names).ptr);
        waldo__buf_free(&names);
        return WALDO_EINVAL;
    }
    *ret_rest = waldo__slice(text.ptr + colon + 1, text.len - colon - 1);
    return WALDO_OK;
}

/* "@NAME": a machine of this backend that is there, if it has one of that name. */
static waldo_status find_named(waldo__spec_entry *entry, const waldo_backend_ops *ops,
                               waldo_str *ret_rest, waldo_error **ret_err)
{
    waldo_str name;

    *ret_rest = waldo__str(entry->text + 1);
    if (!waldo__str_split(ret_rest, ',', &name)) {
        name = WALDO__S("");
    }
    entry->ops = ops;
    entry->find = 1;
    if (!set_name(entry, name)) {
        return waldo__error_invalid(
            ret_err,
            "sandbox string \"%s\": behind the @ comes a name of 1 to %d letters, "
            "digits, dots, dashes or underscores",
            entry->text, WALDO__SPEC_NAME_MAX);
    }
    return WALDO_OK;
}

/* A name that is kept has a lease, and both need a backend that keeps machines. */
static waldo_status check_lease(waldo__spec_entry *entry, waldo_error **ret_err)
{
    if (entry->name != NULL && !good_name(waldo__str(entry->name))) {
        return waldo__error_invalid(
            ret_err,
            "sandbox \"%s\": name must be 1 to %d letters, digits, dots, dashes "
            "or underscores",
            entry->text, WALDO__SPEC_NAME_MAX);
    }
    if (entry->name != NULL && entry->lease_ms == 0) {
        entry->lease_ms = LEASE_OF_NAMED_MS;
    }
    if (entry->lease_ms > 0 && (entry->ops->caps & WALDO_BACKEND_ATTACH) == 0) {
        return waldo_error_set(
            ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
            "sandbox \"%s\": %s: cannot keep machines; leave name and lease out, "
            "or use a backend that can",
            entry->text, entry->ops->name);
    }
    return WALDO_OK;
}

/* A machine that was made elsewhere is as it is: what would have to be made so is refused. */
static waldo_status check_attach(const waldo_sandbox_spec *spec, const waldo__spec_entry *entry,
                                 waldo_error **ret_err)
{
    const struct {
        const char *what;
        int asked;
    } cannot[] = {
        { "@NAME", entry->find },
        { "name", entry->name != NULL },
        { "spares", entry->spares > 0 },
        { "memory", entry->memory_bytes > 0 },
        { "cpus", entry->cpus > 0 },
        { "pids", entry->max_processes > 0 },
        { "net", entry->net != WALDO_NET_DEFAULT },
        { "a workspace",
          spec->workspace != NULL || spec->options.workspace_mode != WALDO_WORKSPACE_COPY },
    };
    const char *id = entry->attach;
    size_t len = strnlen(id, ATTACH_MAX + 1);

    if ((entry->ops->caps & WALDO_BACKEND_ADOPT) == 0) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "sandbox \"%s\": %s: cannot use machines made elsewhere; leave "
                               "attach out, or use a backend that can",
                               entry->text, entry->ops->name);
    }
    for (size_t i = 0; i < len; i++) {
        len = id[i] > ' ' && id[i] < 0x7f ? len : 0;
    }
    if (len == 0 || len > ATTACH_MAX) {
        return waldo__error_invalid(ret_err, "sandbox \"%s\": attach must be the id of a machine",
                                    entry->text);
    }
    for (size_t i = 0; i < WALDO__COUNT(cannot); i++) {
        if (cannot[i].asked) {
            return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                                   "sandbox \"%s\": the machine of attach= is as it was made, and "
                                   "%s cannot be asked of it; leave that out",
                                   entry->text, cannot[i].what);
        }
    }
    return WALDO_OK;
}

/* What no machine of this backend could give is refused before one is opened. */
static waldo_status check_offer(const waldo_sandbox_spec *spec, const waldo__spec_entry *entry,
                                waldo_error **ret_err)
{
    const waldo_backend_ops *ops = entry->ops;

    if (entry->net < 0 || entry->net > WALDO_NET_ALL) {
        return waldo__error_invalid(ret_err, "sandbox: net is not one of WALDO_NET_*");
    }
    if ((ops->caps & waldo__net_bit(entry->net)) != waldo__net_bit(entry->net)) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "sandbox \"%s\": net=%s cannot be had from %s:; use net=none%s",
                               entry->text, waldo__net_name(entry->net), ops->name,
                               ops->caps & WALDO_BACKEND_NET_ALL ? " or net=all" : "");
    }
    if (entry->net == WALDO_NET_HOSTS && spec->hosts[0] == NULL) {
        return waldo__error_invalid(
            ret_err,
            "sandbox \"%s\": net=hosts reaches what the recipe's hosts name, "
            "and it names none; use net=none",
            entry->text);
    }
    /* Where machines differ, parse looks at the options, and each machine is asked. */
    if (entry->min_isolation > ops->isolation && !WALDO__BACKEND_HAS(ops, describe)) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "sandbox \"%s\": min_isolation is %s, but %s: separates by %s only; "
                               "use another backend or lower min_isolation",
                               entry->text, waldo__isolation_name(entry->min_isolation), ops->name,
                               waldo__isolation_name(ops->isolation));
    }
    if (entry->spares > 0 && entry->lease_ms > 0) {
        return waldo__error_invalid(ret_err,
                                    "sandbox \"%s\": machines that are kept (name, lease) have no "
                                    "spares; leave one of them out",
                                    entry->text);
    }
    if (spec->options.workspace_mode != WALDO_WORKSPACE_COPY &&
        (ops->caps & WALDO_BACKEND_BIND) == 0) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "sandbox \"%s\": %s: cannot show a host directory itself; use "
                               "workspace mode copy",
                               entry->text, ops->name);
    }
    return WALDO_OK;
}

waldo_backend_spec waldo__spec_for_backend(const waldo_sandbox_spec *spec,
                                           const waldo__spec_entry *entry)
{
    int bound = spec->options.workspace_mode != WALDO_WORKSPACE_COPY;

    return (waldo_backend_spec){
        .size = sizeof(waldo_backend_spec),
        .workspace_mode = spec->options.workspace_mode,
        .target = entry->target,
        .options = entry->options,
        .option_count = entry->option_count,
        .workspace = bound ? spec->workspace : NULL,
        .env = (const char *const *)entry->env,
        .hosts = (const char *const *)spec->hosts,
        .net = entry->net,
        .memory_bytes = entry->memory_bytes,
        .cpus = entry->cpus,
        .max_processes = entry->max_processes,
        .flags = (entry->find ? (uint32_t)WALDO_BACKEND_FIND : 0) |
                 (entry->lease_asked ? (uint32_t)WALDO_BACKEND_LEASE : 0),
        .lease_ms = entry->lease_ms,
        .name = entry->name,
        .min_isolation = entry->min_isolation,
        .attach = entry->attach,
    };
}

/* What the spec's options say, before the string's own. */
static waldo_status take_defaults(const waldo_sandbox_spec *spec, waldo__spec_entry *entry)
{
    const waldo_sandbox_spec_options *options = &spec->options;

    entry->net = options->net;
    entry->min_isolation = options->min_isolation;
    entry->memory_bytes = options->memory_bytes;
    entry->cpus = options->cpus;
    entry->max_processes = options->max_processes;
    entry->spares = options->spares;
    entry->command_timeout_ms =
        options->command_timeout_ms != 0 ? options->command_timeout_ms : 120000;
    entry->idle_ms = options->idle_ms;
    entry->lease_ms = options->lease_ms;
    entry->lease_asked = options->lease_ms > 0;
    entry->snapshots = options->snapshots != WALDO_SNAPSHOTS_DEFAULT ? options->snapshots
                       : spec->backends[0] != NULL && spec->backends[1] != NULL
                           ? WALDO_SNAPSHOTS_TURN
                           : WALDO_SNAPSHOTS_NEVER;
    entry->name = waldo__strdup(options->name);
    entry->attach = waldo__strdup(options->attach);
    if ((options->name != NULL && entry->name == NULL) ||
        (options->attach != NULL && entry->attach == NULL)) {
        return WALDO_ENOMEM;
    }
    entry->env = waldo__strings_copy((const char *const *)spec->env, NULL);
    return entry->env != NULL ? WALDO_OK : WALDO_ENOMEM;
}

waldo_status waldo__spec_parse(const waldo_sandbox_spec *spec, const char *text,
                               const waldo_backend_ops *ops, waldo__spec_entry *entry,
                               waldo_error **ret_err)
{
    waldo_str rest;
    waldo_str part;
    waldo_status status;
    waldo_backend_spec offer;

    if (strnlen(text, WALDO__SPEC_TEXT_MAX + 1) > WALDO__SPEC_TEXT_MAX) {
        return waldo_error_set(ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                               "a sandbox string has at most %d bytes", WALDO__SPEC_TEXT_MAX);
    }
    entry->text = waldo__strdup(text);
    if (entry->text == NULL || take_defaults(spec, entry) != WALDO_OK) {
        return waldo__error_nomem(ret_err);
    }
    status =
        ops != NULL ? find_named(entry, ops, &rest, ret_err) : find_kind(entry, &rest, ret_err);
    if (status == WALDO_OK) {
        entry->target = WALDO__S("");
        if (ops == NULL && waldo__str_split(&rest, ',', &part)) {
            entry->target = part;
        }
        while (status == WALDO_OK && waldo__str_split(&rest, ',', &part)) {
            status = parse_option(entry, part, ret_err);
        }
    }
    if (entry->attach == NULL && entry->net == WALDO_NET_DEFAULT) {
        entry->net = WALDO_NET_NONE;
    }
    if (status == WALDO_OK && entry->attach != NULL) {
        status = check_attach(spec, entry, ret_err);
    }
    if (status == WALDO_OK) {
        status = check_lease(entry, ret_err);
    }
    if (status == WALDO_OK) {
        status = check_offer(spec, entry, ret_err);
    }
    if (status == WALDO_OK) {
        offer = waldo__spec_for_backend(spec, entry);
        status = entry->ops->parse(&offer, ret_err);
    }
    return status;
}

void waldo__spec_entry_free(waldo__spec_entry *entry)
{
    waldo__free(entry->text);
    waldo__free(entry->name);
    waldo__free(entry->attach);
    waldo__free(entry->options);
    waldo__strings_free(entry->env);
}
