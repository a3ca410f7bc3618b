/* What a container is to be: the options of the sandbox string, the bodies of the requests. */
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "codec/tar.h"
#include "docker.h"

enum { USER_DEFAULT = 1000, PROCESSES_DEFAULT = 512, ATTACH_SIZE = 80 /* DOCKER_NAME_SIZE */ };
#define MEMORY_DEFAULT ((uint64_t)1 << 30)
#define TMP_DEFAULT    ((uint64_t)256 << 20)
#define MEMORY_MIN     ((uint64_t)6 << 20)
#define ID_MAX         2097151 /* what a tar header holds */
#define CPUS_DEFAULT   2

#define HAND_FOLDER "/run/waldo"
#define HAND_NAME   "waldo-hand"
#define WORKSPACE   "/workspace"

const char *waldo__docker_hand_folder(void)
{
    return HAND_FOLDER;
}

const waldo__hand_program *waldo__docker_hand_for(waldo_str arch)
{
    const waldo__hand_program *hand = NULL;

    if (arch.len == 0) {
        hand = waldo__hand_native();
        return hand != NULL ? hand : waldo__hand_at(0);
    }
    for (size_t i = 0; (hand = waldo__hand_at(i)) != NULL; i++) {
        if (waldo__str_is(arch, hand->arch)) {
            return hand;
        }
    }
    return NULL;
}

/* UID[:GID], numbers, for names need a file inside of the image. */
int waldo__docker_parse_user(docker_options *options, waldo_str text)
{
    size_t colon = waldo__str_find(text, ':');
    int64_t uid;
    int64_t gid;

    if (!waldo__str_int(waldo__slice(text.ptr, colon), &uid) || uid < 0 || uid > ID_MAX) {
        return 0;
    }
    gid = uid;
    if (colon < text.len &&
        (!waldo__str_int(waldo__slice(text.ptr + colon + 1, text.len - colon - 1), &gid) ||
         gid < 0 || gid > ID_MAX)) {
        return 0;
    }
    options->uid = (uint32_t)uid;
    options->gid = (uint32_t)gid;
    return 1;
}

/* Digits and perhaps k, m or g. */
static int parse_size(waldo_str text, uint64_t *ret_bytes)
{
    static const char units[] = "kmg";
    const char *unit = text.len > 0 ? strchr(units, text.ptr[text.len - 1] | 0x20) : NULL;
    unsigned shift = unit != NULL && *unit != '\0' ? (unsigned)(unit - units + 1) * 10 : 0;
    int64_t number;

    text.len -= shift != 0;
    if (!waldo__str_int(text, &number) || number < 1 || number > INT64_MAX >> shift) {
        return 0;
    }
    *ret_bytes = (uint64_t)number << shift;
    return 1;
}

static int parse_pull(docker_options *options, waldo_str text)
{
    static const char *const names[] = { "never", "missing", "always" };

    for (size_t i = 0; i < WALDO__COUNT(names); i++) {
        if (waldo__str_is(text, names[i])) {
            options->pull = (docker_pull)i;
            return 1;
        }
    }
    return 0;
}

static int parse_hand(docker_options *options, waldo_str text)
{
    static const char *const names[] = { "auto", "never", "always" };

    for (size_t i = 0; i < WALDO__COUNT(names); i++) {
        if (waldo__str_is(text, names[i])) {
            options->hand = (docker_hand)i;
            return 1;
        }
    }
    return 0;
}

static waldo_status bad(waldo_error **ret_err, const char *what)
{
    return waldo__error_invalid(ret_err, "docker: %s", what);
}

/* ASCII, without regard to case. */
static int holds(waldo_str text, const char *word)
{
    size_t len = strlen(word);

    for (size_t i = 0; i + len <= text.len; i++) {
        if (waldo__str_ieq(waldo__slice(text.ptr + i, len), waldo__strn(word, len))) {
            return 1;
        }
    }
    return 0;
}

/* What a runtime of this name gives; who names runtimes in the engine's settings is believed. */
waldo_isolation waldo__docker_grade(waldo_str runtime)
{
    static const struct {
        const char *word;
        waldo_isolation grade;
    } words[] = { { "runsc", WALDO_ISOLATION_GVISOR },
                  { "gvisor", WALDO_ISOLATION_GVISOR },
                  { "kata", WALDO_ISOLATION_VM } };

    for (size_t i = 0; i < WALDO__COUNT(words); i++) {
        if (holds(runtime, words[i].word)) {
            return words[i].grade;
        }
    }
    return WALDO_ISOLATION_CONTAINER;
}

static waldo_status check(docker_options *options, const waldo_backend_spec *spec,
                          waldo_error **ret_err)
{
    waldo_str user = waldo__backend_option(spec, "user");
    waldo_str pull = waldo__backend_option(spec, "pull");
    waldo_str platform = waldo__backend_option(spec, "platform");
    waldo_str runtime = waldo__backend_option(spec, "runtime");
    waldo_str tmp = waldo__backend_option(spec, "tmp");
    waldo_str hand = waldo__backend_option(spec, "hand");
    int attach = spec->attach != NULL;

    if (attach && (spec->target.len > 0 || pull.len > 0 || platform.len > 0 || runtime.len > 0 ||
                   tmp.len > 0 || waldo__str_is(hand, "never"))) {
        return bad(ret_err, "the container of attach= is as it was made: leave the image, pull, "
                            "platform, runtime, tmp and hand=never out");
    }
    if (attach && (!waldo__str_made_of(waldo__str(spec->attach), "-._") || spec->attach[0] == '-' ||
                   strlen(spec->attach) >= ATTACH_SIZE)) {
        return bad(ret_err, "attach must be the id or name of a container");
    }
    if (spec->target.len == 0 && !options->find && !attach) {
        return bad(ret_err, "name an image, such as docker:debian:12");
    }
    if (!options->find && !attach &&
        (!waldo__str_made_of(spec->target, "-._/:@") || spec->target.ptr[0] == '-')) {
        return bad(ret_err, "the image's name holds a character that no image's name has");
    }
    if (user.len > 0 && !waldo__docker_parse_user(options, user)) {
        return bad(ret_err, "user must be UID or UID:GID, numbers such as 1000:1000");
    }
    if (pull.len > 0 && !parse_pull(options, pull)) {
        return bad(ret_err, "pull must be never (the default), missing or always");
    }
    if (platform.len > 0 && !waldo__str_made_of(platform, "/-._")) {
        return bad(ret_err, "platform must be OS/ARCHITECTURE, such as linux/amd64");
    }
    if (runtime.len > 0 && !waldo__str_made_of(runtime, "-._/")) {
        return bad(ret_err, "runtime must be the name of a runtime of the engine, such as runsc");
    }
    if (hand.len > 0 && !parse_hand(options, hand)) {
        return bad(ret_err, "hand must be auto (the default), never or always");
    }
    if (options->hand == DOCKER_HAND_NEVER && (spec->lease_ms > 0 || spec->name != NULL)) {
        return bad(ret_err, "without a hand nothing outlives this process: no lease, no name");
    }
    if (spec->lease_ms > 0 || spec->name != NULL || attach) {
        options->hand = DOCKER_HAND_ALWAYS;
    }
    options->isolation = waldo__docker_grade(runtime);
    if (spec->min_isolation > options->isolation && !attach) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "docker: min_isolation is above container: name a runtime that "
                               "separates more, such as runtime=runsc (gvisor) or runtime=kata "
                               "(vm), or lower min_isolation");
    }
    if (tmp.len > 0 && !parse_size(tmp, &options->tmp)) {
        return bad(ret_err, "tmp must be a size such as 512m or 1g");
    }
    if (spec->memory_bytes > 0 && spec->memory_bytes < MEMORY_MIN) {
        return bad(ret_err, "memory must be at least 6m");
    }
    return WALDO_OK;
}

static char *copy(waldo_str text, waldo_status *status)
{
    char *made = text.len > 0 ? waldo__strndup(text.ptr, text.len) : NULL;

    if (text.len > 0 && made == NULL) {
        *status = WALDO_ENOMEM;
    }
    return made;
}

/* As many as there are, for an engine refuses more than it has; it may be elsewhere. */
static double default_cpus(void)
{
    long there = sysconf(_SC_NPROCESSORS_ONLN);

    return there > 0 && there < CPUS_DEFAULT ? (double)there : CPUS_DEFAULT;
}

waldo_status waldo__docker_options_parse(docker_options *options, const waldo_backend_spec *spec,
                                         waldo_error **ret_err)
{
    waldo_status status;

    *options = (docker_options){ .pull = DOCKER_PULL_NEVER,
                                 .uid = USER_DEFAULT,
                                 .gid = USER_DEFAULT,
                                 .tmp = TMP_DEFAULT,
                                 .net = spec->net == WALDO_NET_ALL,
                                 .lease_ms = spec->lease_ms,
                                 .find = (spec->flags & WALDO_BACKEND_FIND) != 0,
                                 .memory_asked = spec->memory_bytes > 0,
                                 .user_asked = waldo__backend_option(spec, "user").len > 0,
                                 .tmp_asked = waldo__backend_option(spec, "tmp").len > 0,
                                 .cpus_asked = spec->cpus > 0,
                                 .processes_asked = spec->max_processes > 0 };
    status = check(options, spec, ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    options->memory = options->memory_asked ? spec->memory_bytes : MEMORY_DEFAULT;
    options->cpus = options->cpus_asked ? spec->cpus : default_cpus();
    options->processes = options->processes_asked ? spec->max_processes : PROCESSES_DEFAULT;
    options->image = copy(spec->target, &status);
    options->platform = copy(waldo__backend_option(spec, "platform"), &status);
    options->runtime = copy(waldo__backend_option(spec, "runtime"), &status);
    options->host = copy(waldo__backend_option(spec, "host"), &status);
    options->owner = copy(waldo__str(spec->owner), &status);
    options->id = copy(waldo__str(spec->id), &status);
    options->scratch = copy(waldo__str(spec->scratch), &status);
    options->name = copy(waldo__str(spec->name), &status);
    options->attach = copy(waldo__str(spec->attach), &status);
    return status == WALDO_OK ? WALDO_OK : waldo__error_nomem(ret_err);
}

void waldo__docker_options_free(docker_options *options)
{
    waldo__free(options->image);
    waldo__free(options->platform);
    waldo__free(options->runtime);
    waldo__free(options->host);
    waldo__free(options->owner);
    waldo__free(options->id);
    waldo__free(options->scratch);
    waldo__free(options->name);
    waldo__free(options->attach);
}

/* ---- the container ---- */

static void put_limits(const docker_options *options, waldo__json_writer *jw)
{
    waldo__jw_int(jw, "Memory", (int64_t)options->memory);
    waldo__jw_int(jw, "MemorySwap", (int64_t)options->memory);
    waldo__jw_int(jw, "NanoCpus", (int64_t)(options->cpus * 1e9));
    waldo__jw_int(jw, "PidsLimit", options->processes);
    waldo__jw_array(jw, "Ulimits");
    waldo__jw_object(jw, NULL);
    waldo__jw_text(jw, "Name", "nofile");
    waldo__jw_int(jw, "Soft", 4096);
    waldo__jw_int(jw, "Hard", 4096);
    waldo__jw_end(jw, '}');
    waldo__jw_object(jw, NULL);
    waldo__jw_text(jw, "Name", "core");
    waldo__jw_int(jw, "Soft", 0);
    waldo__jw_int(jw, "Hard", 0);
    waldo__jw_end(jw, '}');
    waldo__jw_end(jw, ']');
}

/* In memory. */
static void put_tmpfs(const docker_options *options, const docker_engine *engine,
                      waldo__json_writer *jw)
{
    char tmp[128];
    int used;

    waldo__jw_object(jw, "Tmpfs");
    used = snprintf(tmp, sizeof tmp, "rw,exec,nosuid,nodev,size=%llu,mode=1777",
                    (unsigned long long)options->tmp);
    if (!engine->podman) { /* which refuses them; runc 1.1 keeps the mode that the image's has */
        snprintf(tmp + used, sizeof tmp - (size_t)used, ",uid=%u,gid=%u", (unsigned)options->uid,
                 (unsigned)options->gid);
    }
    waldo__jw_text(jw, "/tmp", tmp);
    waldo__jw_end(jw, '}');
}

/*
 * In memory as well, but a volume, so that the engine's archives see it: without a hand there is no
 * other way to it (moby, volume/local).
 */
static void put_tmp_volume(const docker_options *options, waldo__json_writer *jw)
{
    char text[160];

    snprintf(text, sizeof text, "size=%llu,uid=%u,gid=%u,mode=1777,nosuid,nodev",
             (unsigned long long)options->tmp, (unsigned)options->uid, (unsigned)options->gid);
    waldo__jw_array(jw, "Mounts");
    waldo__jw_object(jw, NULL);
    waldo__jw_text(jw, "Type", "volume");
    waldo__jw_text(jw, "Target", "/tmp");
    waldo__jw_object(jw, "VolumeOptions");
    waldo__jw_bool(jw, "NoCopy", 1);
    waldo__jw_object(jw, "DriverConfig");
    waldo__jw_text(jw, "Name", "local");
    waldo__jw_object(jw, "Options");
    waldo__jw_text(jw, "type", "tmpfs");
    waldo__jw_text(jw, "device", "tmpfs");
    waldo__jw_text(jw, "o", text);
    waldo__jw_end(jw, '}');
    waldo__jw_end(jw, '}');
    waldo__jw_end(jw, '}');
    waldo__jw_end(jw, '}');
    waldo__jw_end(jw, ']');
}

/*
 * The hand is process 1: it reaps, and nothing inside can kill or stop it. The network is "none"
 * without NetworkDisabled, for with that /etc/hosts would not be made and localhost not resolve;
 * with one of ours it is both, which spares the engine half of the start.
 */
static void put_host_config(const docker_options *options, const docker_engine *engine,
                            waldo__json_writer *jw)
{
    waldo__jw_object(jw, "HostConfig");
    /* Without a hand nobody reaps; Podman's own init is a package of its own. */
    waldo__jw_bool(jw, "Init", options->main != DOCKER_MAIN_HAND && !engine->podman);
    waldo__jw_bool(jw, "AutoRemove", 1);
    waldo__jw_text(jw, "NetworkMode", options->net ? "default" : "none");
    waldo__jw_text(jw, "IpcMode", "private");
    waldo__jw_raw(jw, "CapDrop", WALDO__S("[\"ALL\"]"));
    waldo__jw_raw(jw, "SecurityOpt", WALDO__S("[\"no-new-privileges\"]"));
    waldo__jw_bool(jw, "Privileged", 0);
    waldo__jw_bool(jw, "ReadonlyRootfs", 1);
    if (options->shared) {
        waldo__docker_put_shared(options, jw);
    }
    if (options->main == DOCKER_MAIN_HAND) {
        put_tmpfs(options, engine, jw);
    } else if (!engine->podman) {
        put_tmp_volume(options, jw);
    }
    put_limits(options, jw);
    if (options->runtime != NULL) {
        waldo__jw_text(jw, "Runtime", options->runtime);
    }
    /* Else the engine would keep all that the hand says. */
    waldo__jw_raw(jw, "LogConfig", WALDO__S("{\"Type\":\"none\"}"));
    waldo__jw_raw(jw, "RestartPolicy", WALDO__S("{\"Name\":\"no\"}"));
    waldo__jw_end(jw, '}');
}

/* Always there, else the image's own command would become the hand's arguments. */
static void put_arguments(const docker_options *options, waldo__json_writer *jw)
{
    char text[128];

    waldo__jw_array(jw, "Cmd");
    if (options->lease_ms > 0) {
        waldo__jw_text(jw, NULL, "durable");
        snprintf(text, sizeof text, DOCKER_ADDRESS "%s", options->id);
        waldo__jw_text(jw, NULL, text);
        snprintf(text, sizeof text, "%lld", (long long)options->lease_ms);
        waldo__jw_text(jw, NULL, text);
    }
    waldo__jw_end(jw, ']');
}

/* The shell says something at once, so that it is known to run. */
static void put_main(const docker_options *options, waldo__json_writer *jw)
{
    static const char *const mains[][4] = {
        [DOCKER_MAIN_HAND] = { HAND_FOLDER "/" HAND_NAME },
        [DOCKER_MAIN_SHELL] = { "/bin/sh", "-c", "echo; while read -r x; do :; done" },
        [DOCKER_MAIN_CAT] = { "cat" }
    };

    waldo__jw_array(jw, "Entrypoint");
    for (const char *const *word = mains[options->main]; *word != NULL; word++) {
        waldo__jw_text(jw, NULL, *word);
    }
    waldo__jw_end(jw, ']');
}

waldo_status waldo__docker_put_create(const docker_options *options, const docker_engine *engine,
                                      waldo__buf *out)
{
    waldo__json_writer jw;
    char user[32];

    snprintf(user, sizeof user, "%u:%u", (unsigned)options->uid, (unsigned)options->gid);
    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_text(&jw, "Image", options->image);
    put_main(options, &jw);
    put_arguments(options, &jw);
    waldo__jw_raw(&jw, "Healthcheck", WALDO__S("{\"Test\":[\"NONE\"]}"));
    waldo__jw_text(&jw, "User", user);
    waldo__jw_text(&jw, "WorkingDir", WORKSPACE);
    waldo__jw_text(&jw, "Hostname", "sandbox");
    /* Beside the image's, whose PATH stays. */
    waldo__jw_raw(&jw, "Env", WALDO__S("[\"HOME=/tmp\",\"TERM=dumb\",\"LANG=C.UTF-8\"]"));
    waldo__jw_bool(&jw, "Tty", 0);
    waldo__jw_bool(&jw, "NetworkDisabled", options->shared && !options->net);
    /* This process gone: the hand's input ends, and it. A durable hand has its lease instead. */
    waldo__jw_bool(&jw, "OpenStdin", options->lease_ms == 0);
    waldo__jw_bool(&jw, "StdinOnce", options->lease_ms == 0);
    waldo__jw_text(&jw, "StopSignal", "SIGKILL");
    waldo__jw_object(&jw, "Volumes");
    if (options->main != DOCKER_MAIN_HAND && engine->podman) {
        waldo__jw_raw(&jw, "/tmp", WALDO__S("{}"));
    }
    if (!options->shared) {
        waldo__jw_raw(&jw, HAND_FOLDER, WALDO__S("{}"));
    }
    waldo__jw_raw(&jw, WORKSPACE, WALDO__S("{}"));
    waldo__jw_end(&jw, '}');
    waldo__jw_object(&jw, "Labels");
    /* Always a name, for an image that was made of a named container has its labels. */
    waldo__labels_put(&jw, options->owner, options->id, options->name != NULL ? options->name : "",
                      options->lease_ms);
    waldo__jw_end(&jw, '}');
    put_host_config(options, engine, &jw);
    waldo__jw_end(&jw, '}');
    return out->status;
}

/* NAME[:TAG][@DIGEST]; without a tag the engine would pull all of them. */
waldo_status waldo__docker_put_pull_path(const docker_options *options, waldo__buf *out)
{
    waldo_str image = waldo__str(options->image);
    size_t at = waldo__str_find(image, '@');
    waldo_str name = waldo__slice(image.ptr, at);
    waldo_str tag =
        at < image.len ? waldo__slice(image.ptr + at + 1, image.len - at - 1) : WALDO__S("latest");
    size_t colon = name.len;

    while (colon > 0 && name.ptr[colon - 1] != ':' && name.ptr[colon - 1] != '/') {
        colon--;
    }
    if (colon > 0 && name.ptr[colon - 1] == ':') {
        if (at == image.len) {
            tag = waldo__slice(name.ptr + colon, name.len - colon);
        }
        name.len = colon - 1;
    }
    waldo__buf_puts(out, "/images/create?fromImage=");
    waldo__buf_url(out, name);
    waldo__buf_puts(out, "&tag=");
    waldo__buf_url(out, tag);
    if (options->platform != NULL) {
        waldo__buf_puts(out, "&platform=");
        waldo__buf_url(out, waldo__str(options->platform));
    }
    return out->status;
}

waldo_status waldo__docker_put_hand(const waldo__hand_program *hand, waldo__buf *out)
{
    const waldo__tar_entry entry = { .name = HAND_NAME,
                                     .mode = 0555,
                                     .bytes = { waldo__hand_image(hand), hand->len } };
    waldo_status status;

    status = waldo__tar_put(out, &entry);
    return status == WALDO_OK ? waldo__tar_end(out) : status;
}

/*
 * The volume's own folder belongs to root, and no root is inside to give it away. An entry named
 * "/" is the folder that is unpacked into; one named "." is skipped (moby, pkg/archive).
 */
waldo_status waldo__docker_put_owner(const docker_options *options, uint32_t mode, waldo__buf *out)
{
    const waldo__tar_entry entry = {
        .name = "/", .is_folder = 1, .mode = mode, .uid = options->uid, .gid = options->gid
    };
    waldo_status status = waldo__tar_put(out, &entry);

    return status == WALDO_OK ? waldo__tar_end(out) : status;
}

waldo_status waldo__docker_check_warning(const docker_options *options, waldo_str warning,
                                         waldo_error **ret_err)
{
    const struct {
        const char *word;
        const char *option;
        int asked;
    } limits[] = {
        { "pids", "pids", options->processes_asked },
        { "cpu", "cpus", options->cpus_asked },
        { "memory", "memory", options->memory_asked },
    };

    /* Memory "limited without swap" is limited. */
    for (size_t i = 0; holds(warning, "discarded") && i < WALDO__COUNT(limits); i++) {
        if (limits[i].asked && holds(warning, limits[i].word)) {
            return waldo_error_set(
                ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                "docker: the engine does not keep to %s, which was asked for (it says: %.*s); "
                "leave the option out, or give the engine the cgroup controller",
                limits[i].option, (int)(warning.len < 500 ? warning.len : 500), warning.ptr);
        }
    }
    return WALDO_OK;
}

int waldo__docker_limits_asked(const docker_options *options)
{
    return options->memory_asked || options->cpus_asked || options->processes_asked;
}

/* Podman's socket takes no runtime, a rootless one no limits where it has no control groups. */
waldo_status waldo__docker_check_taken(const docker_options *options, const waldo__json_value *host,
                                       waldo_error **ret_err)
{
    static const struct {
        const char *key, *other; /* one of them holds the limit */
        const char *words;
    } limits[] = {
        { "PidsLimit", "PidsLimit", "pids limit discarded" },
        { "NanoCpus", "CpuQuota", "cpu limit discarded" },
        { "Memory", "Memory", "memory limit discarded" },
    };
    waldo_str runtime = waldo__json_get_str(host, "Runtime");
    waldo_status status = WALDO_OK;

    if (options->runtime != NULL && !waldo__str_is(runtime, options->runtime)) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                               "docker: the engine did not take runtime=%s (it says %.*s); leave "
                               "the option out, and set the engine's own runtime",
                               options->runtime, (int)(runtime.len < 100 ? runtime.len : 100),
                               runtime.ptr);
    }
    for (size_t i = 0; status == WALDO_OK && i < WALDO__COUNT(limits); i++) {
        if (waldo__json_get_int(host, limits[i].key, 0) == 0 &&
            waldo__json_get_int(host, limits[i].other, 0) == 0) {
            status = waldo__docker_check_warning(options, waldo__str(limits[i].words), ret_err);
        }
    }
    return status;
}
