/* Specs: immutable recipes that remember what is wrong with them. */
#include "sandbox/spec.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

enum { NOTES_MAX = 8192, PATH_BYTES_MAX = 4096 };

void waldo__strings_free(char **strings)
{
    for (size_t i = 0; strings != NULL && strings[i] != NULL; i++) {
        waldo__free(strings[i]);
    }
    waldo__free(strings);
}

char **waldo__strings_copy(const char *const *strings, size_t *ret_count)
{
    size_t count = 0;
    char **copy;

    while (strings != NULL && strings[count] != NULL) {
        count++;
    }
    copy = waldo__calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = waldo__strdup(strings[i]);
        if (copy[i] == NULL) {
            waldo__strings_free(copy);
            return NULL;
        }
    }
    if (copy != NULL && ret_count != NULL) {
        *ret_count = count;
    }
    return copy;
}

/* A relative path means what it means now, whatever directory the host changes to later. */
static waldo_status absolute_path(const char *path, char **ret_path, waldo_error **ret_err)
{
    waldo__buf text = WALDO__BUF_INIT(2 * PATH_BYTES_MAX);
    char here[PATH_BYTES_MAX];

    if (path[0] != '/') {
        if (getcwd(here, sizeof here) == NULL) {
            return waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_SYSTEM,
                                   "workspace \"%s\": the current directory cannot be named: %s",
                                   path, waldo__errno_text(errno));
        }
        waldo__buf_printf(&text, "%s/", here);
    }
    waldo__buf_puts(&text, path);
    *ret_path = waldo__buf_take(&text, NULL);
    return *ret_path != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

static waldo_status check_workspace(waldo_sandbox_spec *spec, const char *path,
                                    waldo_error **ret_err)
{
    struct stat info;
    waldo_status status;

    if (path[0] == '\0' || strnlen(path, PATH_BYTES_MAX) == PATH_BYTES_MAX) {
        return waldo__error_invalid(ret_err, "workspace: the path is %s",
                                    path[0] == '\0' ? "empty" : "too long");
    }
    status = absolute_path(path, &spec->workspace, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    if (stat(spec->workspace, &info) != 0) {
        int error = errno;

        return waldo_error_set(ret_err, waldo__errno_status(error), WALDO_CLASS_USAGE,
                               "workspace \"%s\" cannot be used: %s; name an existing directory",
                               path, waldo__errno_text(error));
    }
    if (!S_ISDIR(info.st_mode)) {
        return waldo_error_set(ret_err, WALDO_EPATH, WALDO_CLASS_USAGE,
                               "workspace \"%s\" is not a directory; name the directory that "
                               "holds it",
                               path);
    }
    return WALDO_OK;
}

static waldo_status check_lists(const waldo_sandbox_spec *spec, size_t env, size_t hosts,
                                size_t backends, waldo_error **ret_err)
{
    if (env > WALDO__SPEC_LIST_MAX || hosts > WALDO__SPEC_LIST_MAX ||
        backends > WALDO__SPEC_BACKENDS_MAX) {
        return waldo_error_set(ret_err, WALDO_ETOOBIG, WALDO_CLASS_USAGE,
                               "sandbox: at most %d backends, %d env and %d hosts entries",
                               WALDO__SPEC_BACKENDS_MAX, WALDO__SPEC_LIST_MAX,
                               WALDO__SPEC_LIST_MAX);
    }
    if (backends == 0) {
        return waldo__error_invalid(ret_err,
                                    "sandbox: name at least one backend, such as \"local:\"");
    }
    for (size_t i = 0; i < env; i++) {
        const char *equals = strchr(spec->env[i], '=');

        if (equals == NULL || equals == spec->env[i]) {
            return waldo__error_invalid(ret_err, "sandbox: env entry %zu is not NAME=value", i + 1);
        }
    }
    return WALDO_OK;
}

/* Everything but the sandbox strings: copied and checked. */
static waldo_status take_options(waldo_sandbox_spec *spec, const waldo_sandbox_spec_options *given,
                                 waldo_error **ret_err)
{
    waldo_sandbox_spec_options *options = &spec->options;
    size_t env = 0;
    size_t hosts = 0;
    size_t backends = 0;
    waldo_status status;

    if (given == NULL || waldo__options_copy(options, sizeof *options, given) != WALDO_OK) {
        return waldo__error_invalid(
            ret_err, "sandbox: options missing or of a newer version of the library");
    }
    spec->env = waldo__strings_copy(options->env, &env);
    spec->hosts = waldo__strings_copy(options->hosts, &hosts);
    spec->backends = waldo__strings_copy(options->backends, &backends);
    options->env = (const char *const *)spec->env;
    options->hosts = (const char *const *)spec->hosts;
    options->backends = (const char *const *)spec->backends;
    spec->name = waldo__strdup(options->name);
    spec->attach = waldo__strdup(options->attach);
    if (spec->env == NULL || spec->hosts == NULL || spec->backends == NULL ||
        (options->name != NULL && spec->name == NULL) ||
        (options->attach != NULL && spec->attach == NULL)) {
        return waldo__error_nomem(ret_err);
    }
    options->name = spec->name;
    options->attach = spec->attach;
    status = check_lists(spec, env, hosts, backends, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    if (options->workspace_mode < WALDO_WORKSPACE_COPY ||
        options->workspace_mode > WALDO_WORKSPACE_RW || options->flags != 0 ||
        !(options->cpus >= 0) || options->min_isolation < WALDO_ISOLATION_ANY ||
        options->min_isolation > WALDO_ISOLATION_REMOTE || options->idle_ms < 0 ||
        options->lease_ms < 0 || options->lease_ms > WALDO__SPEC_LEASE_MAX_MS ||
        options->spares > WALDO__SPEC_SPARES_MAX || options->snapshots < WALDO_SNAPSHOTS_DEFAULT ||
        options->snapshots > WALDO_SNAPSHOTS_TURN) {
        return waldo__error_invalid(
            ret_err, "sandbox: workspace_mode, min_isolation, cpus, idle_ms, lease_ms, spares, "
                     "snapshots or flags is out of range");
    }
    if (options->workspace == NULL) {
        return options->workspace_mode == WALDO_WORKSPACE_COPY
                   ? WALDO_OK
                   : waldo__error_invalid(ret_err,
                                          "sandbox: workspace modes ro and rw need a workspace");
    }
    status = check_workspace(spec, options->workspace, ret_err);
    options->workspace = spec->workspace;
    return status;
}

const char *waldo__spec_net_note(const waldo__spec_entry *entry)
{
    static const char *const notes[] = {
        "", "There is no network: downloads and package installations fail, localhost works.",
        "The network reaches package registries only.",
        "The network reaches a few named hosts only.", "The network is reachable."
    };

    if (entry->net == WALDO_NET_ALL && entry->ops->isolation <= WALDO_ISOLATION_PROCESS) {
        return "The network is that of the user's own machine, with the services on its localhost.";
    }
    return entry->net > 0 && (size_t)entry->net < WALDO__COUNT(notes) ? notes[entry->net] : "";
}

static const char *workspace_note(const waldo_sandbox_spec *spec)
{
    if (spec->entries[0].attach != NULL) {
        return "it is as it was before, in a machine that others may use, too.";
    }
    if (spec->workspace == NULL) {
        return "it starts empty.";
    }
    if (spec->options.workspace_mode == WALDO_WORKSPACE_RO) {
        return "it is the user's directory, read-only; write to /tmp.";
    }
    if (spec->options.workspace_mode == WALDO_WORKSPACE_RW) {
        return "it is the user's own directory: changes are real at once.";
    }
    return "it is a copy of the user's directory, who gets your changes as a patch.";
}

static waldo_status make_notes(waldo_sandbox_spec *spec, waldo_error **ret_err)
{
    const waldo__spec_entry *entry = &spec->entries[0];
    waldo__buf text = WALDO__BUF_INIT(NOTES_MAX);

    waldo__buf_printf(&text,
                      "Commands and files are in a Linux sandbox. The working directory is %s; %s",
                      WALDO__WORKSPACE, workspace_note(spec));
    waldo__buf_printf(&text, " Commands run as an ordinary user without root rights. %s",
                      waldo__spec_net_note(entry));
    if (entry->command_timeout_ms > 0) {
        waldo__buf_printf(&text, " A command that names no timeout is ended after %lld seconds.",
                          (long long)((entry->command_timeout_ms + 999) / 1000));
    }
    spec->notes = waldo__buf_take(&text, NULL);
    waldo__buf_free(&text);
    return spec->notes != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

static int keeps_machines(const waldo_backend_ops *ops)
{
    return (ops->caps & WALDO_BACKEND_ATTACH) != 0;
}

/* "@NAME" may be with any backend that keeps machines. */
static waldo_status take_named(waldo_sandbox_spec *spec, const char *text, waldo_error **ret_err)
{
    const waldo_backend_ops *ops;
    waldo_status status = WALDO_OK;
    size_t before = spec->entry_count;

    for (size_t i = 0; status == WALDO_OK && (ops = waldo__backend_at(i)) != NULL; i++) {
        if (keeps_machines(ops)) {
            status =
                waldo__spec_parse(spec, text, ops, &spec->entries[spec->entry_count++], ret_err);
        }
    }
    if (status == WALDO_OK && spec->entry_count == before) {
        status =
            waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                            "sandbox string \"%s\": no backend of this build keeps machines", text);
    }
    return status;
}

static waldo_status take_backends(waldo_sandbox_spec *spec, waldo_error **ret_err)
{
    const waldo_backend_ops *ops;
    waldo_status status = WALDO_OK;
    size_t count = 0;
    size_t keepers = 1;

    for (size_t i = 0; (ops = waldo__backend_at(i)) != NULL; i++) {
        keepers += (size_t)keeps_machines(ops);
    }
    while (spec->backends[count] != NULL) {
        count++;
    }
    spec->entries = waldo__calloc(count * keepers, sizeof *spec->entries);
    if (spec->entries == NULL) {
        return waldo__error_nomem(ret_err);
    }
    for (size_t i = 0; status == WALDO_OK && i < count; i++) {
        const char *text = spec->backends[i];

        status = text[0] == '@' ? take_named(spec, text, ret_err)
                                : waldo__spec_parse(spec, text, NULL,
                                                    &spec->entries[spec->entry_count++], ret_err);
    }
    return status;
}

waldo_sandbox_spec *waldo_sandbox_spec_new(const waldo_sandbox_spec_options *options)
{
    waldo_sandbox_spec *spec = WALDO__NEW(waldo_sandbox_spec);

    if (spec == NULL) {
        return NULL;
    }
    atomic_init(&spec->refs, 1);
    if (take_options(spec, options, &spec->error) == WALDO_OK &&
        take_backends(spec, &spec->error) == WALDO_OK) {
        make_notes(spec, &spec->error);
    }
    return spec;
}

waldo_sandbox_spec *waldo_sandbox_spec_ref(waldo_sandbox_spec *spec)
{
    if (spec != NULL) {
        atomic_fetch_add_explicit(&spec->refs, 1, memory_order_relaxed);
    }
    return spec;
}

void waldo_sandbox_spec_unref(waldo_sandbox_spec *spec)
{
    if (spec == NULL || atomic_fetch_sub_explicit(&spec->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < spec->entry_count; i++) {
        waldo__spec_entry_free(&spec->entries[i]);
    }
    waldo__free(spec->entries);
    waldo__strings_free(spec->env);
    waldo__strings_free(spec->hosts);
    waldo__strings_free(spec->backends);
    waldo__free(spec->workspace);
    waldo__free(spec->name);
    waldo__free(spec->attach);
    waldo__free(spec->notes);
    waldo_error_free(spec->error);
    waldo__free(spec);
}

const waldo_error *waldo_sandbox_spec_error(const waldo_sandbox_spec *spec)
{
    return spec != NULL ? spec->error : NULL;
}

const char *waldo__sandbox_spec_notes(const waldo_sandbox_spec *spec)
{
    return spec != NULL && spec->notes != NULL ? spec->notes : "";
}

waldo_sandbox_spec *waldo__sandbox_spec_derive(waldo_sandbox_spec *base, const char *sandbox_string,
                                               const char *workspace, waldo_workspace_mode mode)
{
    waldo_sandbox_spec_options options = WALDO_SANDBOX_SPEC(.workspace_mode = mode);
    const char *const backends[] = { sandbox_string, NULL };

    if (base != NULL) {
        options = base->options;
        options.size = sizeof options;
    }
    if (sandbox_string != NULL) {
        options.backends = backends;
        options.attach = NULL; /* one machine's, not a rule for any */
    }
    if (workspace != NULL || mode != WALDO_WORKSPACE_COPY) {
        options.workspace_mode = mode;
    }
    if (workspace != NULL) {
        options.workspace = workspace;
    }
    return waldo_sandbox_spec_new(&options);
}
