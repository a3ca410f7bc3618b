/* Machines of the docker backend: made by a chain of requests, ended by one. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "machine.h"

enum { ABANDON_MS = 250 };

static const char *const option_names[] = { "user", "runtime", "pull", "platform",
                                            "host", "tmp",     "hand", NULL };

static void machine_free(waldo_machine *machine)
{
    waldo__loop *loop = machine->engine.env->loop;

    waldo__task_cancel(loop, &machine->task);
    waldo__task_cancel(loop, &machine->channel_task);
    waldo__task_cancel(loop, &machine->save_task);
    waldo__timer_disarm(loop, &machine->timer);
    waldo__docker_call_free(&machine->call);
    waldo__docker_plain_free(&machine->plain);
    waldo__docker_channel_free(machine->channel);
    waldo__docker_options_free(&machine->options);
    waldo__buf_free(&machine->note);
    waldo__buf_free(&machine->pull_error);
    waldo_error_free(machine->error);
    waldo__free(machine->saved_run);
    waldo__free(machine);
}

/* ---- opening ---- */

static void complete_open(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_error *error = machine->error;

    machine->error = NULL;
    machine->done(machine->userdata, machine->status, error);
    waldo_error_free(error);
}

void waldo__docker_opened(waldo_machine *machine, waldo_status status, waldo_error *error)
{
    machine->status = status;
    machine->error = error;
    waldo__task_queue(machine->engine.env->loop, &machine->task);
}

/* An answer that ends the opening; no image is the one that users meet most. */
void waldo__docker_open_failed(waldo_machine *machine, waldo_status status,
                               const waldo_error *error, const char *what)
{
    waldo_error *made = NULL;

    status = waldo__docker_call_error(&machine->call, status, error, what, &made);
    waldo__docker_opened(machine, status, made);
}

void waldo__docker_begin(waldo_machine *machine, const char *method, const char *what, int64_t ms,
                         docker_call_fn done)
{
    waldo__buf_printf(&machine->call.path, "/containers/%s%s", machine->name, what);
    waldo__docker_call_start(&machine->call, method, ms, machine->deadline_ns, done);
}

/* The shell is there. */
static void on_spoken(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status == WALDO_ESTART && waldo__docker_try_other(machine, waldo_error_message(error))) {
        return;
    }
    if (status == WALDO_OK) {
        waldo__docker_plain_opened(machine);
    } else {
        waldo_error *made = waldo_error_copy(error);

        waldo__error_prefix(made, "without a hand the image needs /bin/sh or cat");
        waldo__docker_opened(machine, WALDO_EUNAVAILABLE, made);
    }
}

static void on_started(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;
    int code = machine->call.ask.http_status;

    /* 304: one with a name, which another process has started meanwhile. */
    if (status != WALDO_OK || (code != 204 && !(code == 304 && machine->options.name != NULL))) {
        waldo__docker_call_error(&machine->call, status, error, "starting the container", &made);
        if (status != WALDO_OK || !waldo__docker_try_other(machine, waldo_error_message(made))) {
            waldo__docker_open_failed(machine, status, error,
                                      machine->options.main == DOCKER_MAIN_CAT
                                          ? "starting the container, which without a hand needs "
                                            "/bin/sh or cat in the image"
                                          : "starting the container");
        }
        waldo_error_free(made);
        return;
    }
    if (machine->options.main == DOCKER_MAIN_HAND) {
        waldo__docker_opened(machine, WALDO_OK, NULL);
        return;
    }
    if (machine->options.main == DOCKER_MAIN_CAT) { /* which says what it hears */
        waldo_channel *channel = waldo__docker_channel_base(machine->channel);

        channel->ops->send(channel, WALDO__S("\n"));
    }
    waldo__docker_channel_await(machine->channel, on_spoken, machine);
}

static void on_attached(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, waldo_error_copy(error));
        return;
    }
    waldo__buf_free(&machine->call.body);
    waldo__docker_begin(machine, "POST", "/start", DOCKER_SLOW_MS, on_started);
}

static void on_workspace(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;
    char path[DOCKER_NAME_SIZE + 80];
    const docker_hijack hijack = { .path = path,
                                   .body = WALDO__S(""),
                                   .what = "attaching to the container",
                                   .container = machine->name,
                                   .memory = machine->options.memory };
    int64_t until = waldo__deadline_ns(DOCKER_ATTACH_MS);

    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "preparing /workspace");
        return;
    }
    if (machine->options.lease_ms > 0) { /* its hand is reached from inside, once it runs */
        on_attached(machine, WALDO_OK, NULL);
        return;
    }
    snprintf(path, sizeof path, "/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1",
             machine->name);
    status = waldo__docker_channel_new(&machine->engine, &hijack,
                                       until < machine->deadline_ns ? until : machine->deadline_ns,
                                       on_attached, machine, &machine->channel, &made);
    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, made);
    }
}

static void give_workspace(waldo_machine *machine)
{
    waldo__docker_put_owner(&machine->options, 0755, &machine->call.body);
    waldo__docker_begin(machine, "PUT", "/archive?path=/workspace", DOCKER_SLOW_MS, on_workspace);
}

static void on_hand(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "putting the hand into the container");
        return;
    }
    waldo__buf_clear(&machine->call.body);
    give_workspace(machine);
}

/* What the engine could not do is said to the log, and is the end when it was asked for. */
static waldo_status read_created(waldo_machine *machine, waldo_error **ret_err)
{
    waldo__json *doc = NULL;
    waldo_str warning;
    waldo_status status =
        waldo__json_parse_answer(waldo__buf_str(&machine->call.ask.answer), &doc, ret_err);
    const waldo__json_value *item =
        waldo__json_first(waldo__json_get(waldo__json_root(doc), "Warnings"));

    if (status == WALDO_OK && machine->options.lease_ms > 0 &&
        !waldo__docker_take_id(machine, waldo__json_get_str(waldo__json_root(doc), "Id"))) {
        status = waldo_error_set(ret_err, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                                 "docker: the engine gave no id for the new container");
    }
    for (; status == WALDO_OK && item != NULL; item = waldo__json_next(item)) {
        if (waldo__json_str(item, &warning)) {
            waldo__log(machine->engine.env->loop, WALDO_LOG_WARN, "docker",
                       "the engine warns: %.*s", (int)(warning.len < 1000 ? warning.len : 1000),
                       warning.ptr);
            status = waldo__docker_check_warning(&machine->options, warning, ret_err);
        }
    }
    waldo__json_free(doc);
    return status;
}

/* Not every engine says what it dropped. */
static void on_looked_at(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__json *doc = NULL;
    waldo_error *made = NULL;

    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "looking at the container");
        return;
    }
    status = waldo__json_parse_answer(waldo__buf_str(&machine->call.ask.answer), &doc, &made);
    if (status == WALDO_OK) {
        status = waldo__docker_check_taken(
            &machine->options, waldo__json_get(waldo__json_root(doc), "HostConfig"), &made);
    }
    waldo__json_free(doc);
    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, made);
        return;
    }
    waldo__docker_inject(machine);
}

/* Podman says so with 500, as it says everything. */
static int name_is_taken(const docker_call *call)
{
    waldo_str answer = waldo__buf_str(&call->ask.answer);

    return call->ask.http_status == 409 ||
           (call->ask.http_status == 500 &&
            waldo__str_search(answer, WALDO__S("already in use"), 0) < answer.len);
}

static void on_created(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;

    machine->creating = 0;
    if (status == WALDO_OK && machine->options.name != NULL && name_is_taken(&machine->call)) {
        machine->created = 0; /* another process was faster */
        waldo__docker_reach(machine);
        return;
    }
    if (status == WALDO_OK && machine->call.ask.http_status != 201 && machine->options.shared) {
        machine->options.shared = 0; /* perhaps the engine does not see this host's files */
        waldo__docker_create(machine);
        return;
    }
    if (status != WALDO_OK || machine->call.ask.http_status != 201) {
        machine->created &= machine->options.name == NULL; /* one of that name is another's */
        waldo__docker_open_failed(machine, status, error, "creating the container");
        return;
    }
    status = read_created(machine, &made);
    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, made);
        return;
    }
    waldo__buf_clear(&machine->call.body);
    if (machine->options.runtime != NULL ||
        (machine->engine.podman && waldo__docker_limits_asked(&machine->options))) {
        waldo__docker_begin(machine, "GET", "/json", DOCKER_QUICK_MS, on_looked_at);
        return;
    }
    waldo__docker_inject(machine);
}

void waldo__docker_inject(waldo_machine *machine)
{
    waldo__buf_clear(&machine->call.body);
    if (machine->options.main != DOCKER_MAIN_HAND && machine->engine.podman) {
        waldo__docker_put_owner(&machine->options, 01777, &machine->call.body);
        waldo__docker_begin(machine, "PUT", "/archive?path=/tmp", DOCKER_SLOW_MS, on_hand);
        return;
    }
    if (machine->options.main != DOCKER_MAIN_HAND || machine->options.shared) {
        give_workspace(machine);
        return;
    }
    waldo__docker_put_hand(machine->hand, &machine->call.body);
    waldo__docker_begin(machine, "PUT", "/archive?path=/run/waldo", DOCKER_SLOW_MS, on_hand);
}

void waldo__docker_create(waldo_machine *machine)
{
    waldo__buf_clear(&machine->call.body);
    waldo__docker_put_create(&machine->options, &machine->engine, &machine->call.body);
    waldo__buf_printf(&machine->call.path, "/containers/create?name=%s", machine->name);
    if (machine->options.platform != NULL) {
        waldo__buf_puts(&machine->call.path, "&platform=");
        waldo__buf_url(&machine->call.path, waldo__str(machine->options.platform));
    }
    machine->created = machine->creating = 1;
    waldo__docker_call_start(&machine->call, "POST", DOCKER_SLOW_MS, machine->deadline_ns,
                             on_created);
}

/* ---- the image ---- */

static void look_at_image(waldo_machine *machine);

/* For the log, and for who waits. */
static void tell_progress(const waldo_machine *machine, waldo_str of, const char *between,
                          waldo_str what)
{
    char text[512];

    snprintf(text, sizeof text, "%.*s%s%.*s", (int)of.len, of.ptr, between, (int)what.len,
             what.ptr);
    waldo__log(machine->engine.env->loop, WALDO_LOG_INFO, "docker", "pull: %s", text);
    if (machine->on_progress != NULL) {
        machine->on_progress(machine->progress_userdata, text);
    }
}

/* One object of the progress; a failure comes as one, too. */
static waldo_status on_progress(void *userdata, waldo_str line)
{
    waldo_machine *machine = userdata;
    waldo__json *doc = NULL;
    const waldo__json_value *root;
    waldo_str failure;
    waldo_str status;
    waldo_str layer;

    if (waldo__str_trim(line).len == 0 || waldo__json_parse_answer(line, &doc, NULL) != WALDO_OK) {
        return WALDO_OK;
    }
    root = waldo__json_root(doc);
    failure = waldo__json_get_str(waldo__json_get(root, "errorDetail"), "message");
    if (failure.len == 0) {
        failure = waldo__json_get_str(root, "error");
    }
    status = waldo__json_get_str(root, "status");
    layer = waldo__json_get_str(root, "id");
    if (failure.len > 0 && machine->pull_error.len == 0) {
        waldo__buf_printf(&machine->pull_error, "%.*s",
                          (int)(failure.len < 1000 ? failure.len : 1000), failure.ptr);
    } else if (status.len > 0 && waldo__json_get_str(root, "progress").len == 0) {
        tell_progress(machine, layer, layer.len > 0 ? ": " : "", status);
    }
    waldo__json_free(doc);
    return WALDO_OK;
}

static void on_pulled(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;

    machine->call.on_line = NULL;
    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "pulling the image");
        return;
    }
    if (machine->pull_error.len > 0) {
        status = waldo_error_set(&made, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                 "docker: the image %s could not be pulled: %s",
                                 machine->options.image, waldo__buf_str(&machine->pull_error).ptr);
        waldo__docker_opened(machine, status, made);
        return;
    }
    look_at_image(machine);
}

static void pull(waldo_machine *machine)
{
    machine->pulled = 1;
    machine->deadline_ns = WALDO__NEVER; /* what comes after it has limits of its own */
    machine->call.on_line = on_progress;
    waldo__docker_put_pull_path(&machine->options, &machine->call.path);
    tell_progress(machine, WALDO__S("fetching"), " ", waldo__str(machine->options.image));
    waldo__docker_call_start(&machine->call, "POST", 0, WALDO__NEVER, on_pulled);
}

static waldo_status check_image(waldo_machine *machine, waldo_error **ret_err)
{
    const waldo__hand_program *one = waldo__docker_hand_for(WALDO__S(""));
    waldo__json *doc = NULL;
    waldo_status status =
        waldo__json_parse_answer(waldo__buf_str(&machine->call.ask.answer), &doc, ret_err);
    waldo_str arch = waldo__json_get_str(waldo__json_root(doc), "Architecture");
    waldo_str os = waldo__json_get_str(waldo__json_root(doc), "Os");

    int other_os = os.len > 0 && !waldo__str_is(os, "linux");
    int other = arch.len > 0 && waldo__docker_hand_for(arch) == NULL;

    machine->hand = waldo__docker_hand_for(arch);

    if (status == WALDO_OK && other && !other_os && machine->options.hand == DOCKER_HAND_AUTO) {
        waldo__buf_printf(&machine->note,
                          "the image is for %.*s, and this build has no hand for it",
                          (int)(arch.len < 64 ? arch.len : 64), arch.ptr);
    } else if (status == WALDO_OK &&
               (other_os || (other && machine->options.hand == DOCKER_HAND_ALWAYS))) {
        status = waldo_error_set(
            ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
            "docker: the image %s is for %.*s/%.*s, and this build has hands for "
            "linux/%s%s; use an image for that, such as by platform=linux/%s",
            machine->options.image, (int)os.len, os.ptr, (int)arch.len, arch.ptr,
            one != NULL ? one->arch : "?", waldo__hand_at(1) != NULL ? " and others" : "",
            one != NULL ? one->arch : "amd64");
    }
    waldo__json_free(doc);
    return status;
}

static void on_image(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;

    if (status == WALDO_OK && machine->call.ask.http_status == 404 && !machine->pulled) {
        if (machine->options.pull != DOCKER_PULL_NEVER) {
            pull(machine);
            return;
        }
        status = waldo_error_set(&made, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                 "docker: the engine at %s has no image %s; fetch it with `docker "
                                 "pull %s`, or allow it: docker:%s,pull=missing",
                                 machine->engine.text, machine->options.image,
                                 machine->options.image, machine->options.image);
        waldo__docker_opened(machine, status, made);
        return;
    }
    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "looking for the image");
        return;
    }
    status = check_image(machine, &made);
    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, made);
        return;
    }
    if (machine->options.attach != NULL) {
        waldo__docker_bring_in(machine);
        return;
    }
    if (machine->options.hand == DOCKER_HAND_NEVER || machine->note.len > 0) {
        waldo__docker_fall_back(machine, waldo__buf_str(&machine->note).ptr);
        return;
    }
    if (machine->resumed) {
        waldo__docker_inject(machine);
        return;
    }
    machine->options.shared =
        waldo__docker_share(&machine->options, &machine->engine, machine->hand);
    waldo__docker_create(machine);
}

static void look_at_image(waldo_machine *machine)
{
    waldo__buf_puts(&machine->call.path, "/images/");
    waldo__buf_url(&machine->call.path, waldo__str(machine->options.image));
    waldo__buf_puts(&machine->call.path, "/json");
    waldo__docker_call_start(&machine->call, "GET", DOCKER_QUICK_MS, machine->deadline_ns,
                             on_image);
}

void waldo__docker_make(waldo_machine *machine)
{
    if (machine->options.pull == DOCKER_PULL_ALWAYS) {
        pull(machine);
    } else {
        look_at_image(machine);
    }
}

static void on_ping(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status == WALDO_OK && machine->engine.version[0] == '\0') {
        waldo_error *made = NULL;

        status = waldo__docker_engine_agree(&machine->engine, WALDO__S(""), &made);
        waldo__docker_opened(machine, status, made);
    } else if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "asking for its version");
    } else if (machine->options.attach != NULL || machine->options.place > 0) {
        waldo__docker_adopt(machine);
    } else if (machine->saved_run != NULL || machine->options.name != NULL) {
        waldo__docker_reach(machine);
    } else {
        waldo__docker_make(machine);
    }
}

static waldo_status docker_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                                waldo_str saved, const waldo_backend_call *call,
                                waldo_backend_done_fn done, waldo_machine **ret_machine,
                                waldo_error **ret_err)
{
    waldo_machine *machine;
    waldo_status status;
    char word[17];

    machine = WALDO__NEW(waldo_machine);
    if (machine == NULL) {
        return waldo__error_nomem(ret_err);
    }
    machine->engine.env = env;
    machine->deadline_ns = call->deadline_ns;
    machine->done = done;
    machine->userdata = call->userdata;
    machine->on_progress = spec->on_progress;
    machine->progress_userdata = spec->progress_userdata;
    machine->pull_error = WALDO__BUF_INIT(4096);
    machine->note = WALDO__BUF_INIT(4096);
    waldo__task_init(&machine->task, complete_open, machine);
    waldo__task_init(&machine->channel_task, NULL, machine);
    waldo__task_init(&machine->save_task, NULL, machine);
    waldo__timer_init(&machine->timer, NULL, machine);
    waldo__random_word(word, sizeof word - 1);
    snprintf(machine->name, sizeof machine->name, "waldo-%s",
             spec->name != NULL ? spec->name : word);
    status = waldo__docker_options_parse(&machine->options, spec, ret_err);
    if (status == WALDO_OK && saved.len > 0) {
        status = waldo__docker_take_saved(machine, saved, ret_err);
        machine->options.hand = DOCKER_HAND_ALWAYS;
    } else if (status == WALDO_OK && spec->attach != NULL) {
        snprintf(machine->name, sizeof machine->name, "%s", spec->attach);
    }
    if (status == WALDO_OK && waldo__hand_at(0) == NULL &&
        (machine->options.hand == DOCKER_HAND_ALWAYS || machine->options.lease_ms > 0)) {
        status = waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                                 "docker: this build has no hand (-Dhands=none)");
    }
    if (status == WALDO_OK) {
        status = waldo__docker_engine_find(&machine->engine, env, waldo__str(machine->options.host),
                                           ret_err);
    }
    waldo__docker_call_init(&machine->call, &machine->engine, machine);
    if (status != WALDO_OK) {
        machine_free(machine);
        return status;
    }
    *ret_machine = machine;
    waldo__buf_puts(&machine->call.path, "/_ping");
    waldo__docker_call_start(&machine->call, "GET", DOCKER_PING_MS, machine->deadline_ns, on_ping);
    return WALDO_OK;
}

/* ---- using and ending ---- */

static void give_channel(void *userdata)
{
    waldo_machine *machine = userdata;
    docker_channel *channel = machine->channel;
    waldo_error *error = NULL;

    machine->channel = NULL;
    if (channel != NULL) {
        machine->channel_done(machine->channel_userdata, WALDO_OK,
                              waldo__docker_channel_base(channel), NULL);
        return;
    }
    waldo_error_set(&error, WALDO_EBUSY, WALDO_CLASS_BACKEND, "docker: a machine has one channel");
    machine->channel_done(machine->channel_userdata, WALDO_EBUSY, NULL, error);
    waldo_error_free(error);
}

static void docker_channel_op(waldo_machine *machine, const waldo_backend_call *call,
                              waldo_backend_channel_fn done)
{
    machine->channel_done = done;
    machine->channel_userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
    if (machine->options.lease_ms > 0 || machine->options.place > 0) {
        waldo__docker_exec_channel(machine);
        return;
    }
    waldo__task_init(&machine->channel_task, give_channel, machine);
    waldo__task_queue(machine->engine.env->loop, &machine->channel_task);
}

/* Whoever may use the engine may have been faster: "already paused", "is not paused". */
static void on_frozen(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_str said = waldo__buf_str(&machine->call.ask.answer);
    waldo_error *made = NULL;

    if (status != WALDO_OK || (machine->call.ask.http_status != 204 &&
                               waldo__str_search(said, WALDO__S("already paused"), 0) == said.len &&
                               waldo__str_search(said, WALDO__S("not paused"), 0) == said.len)) {
        status = waldo__docker_call_error(&machine->call, status, error,
                                          "pausing the container, or letting it go on", &made);
    }
    machine->done(machine->userdata, status, made);
    waldo_error_free(made);
}

static void freeze(waldo_machine *machine, const char *how, const waldo_backend_call *call,
                   waldo_backend_done_fn done)
{
    machine->done = done;
    machine->userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
    waldo__buf_clear(&machine->call.body);
    waldo__docker_begin(machine, "POST", how, DOCKER_SLOW_MS, on_frozen);
}

static void docker_pause(waldo_machine *machine, const waldo_backend_call *call,
                         waldo_backend_done_fn done)
{
    freeze(machine, "/pause", call, done);
}

static void docker_resume(waldo_machine *machine, const waldo_backend_call *call,
                          waldo_backend_done_fn done)
{
    freeze(machine, "/unpause", call, done);
}

static void complete_close(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_backend_done_fn done = machine->done;
    waldo_status status = machine->status;
    waldo_error *error = machine->error;
    void *to = machine->userdata;

    machine->error = NULL;
    machine_free(machine);
    done(to, status, error);
    waldo_error_free(error);
}

/* Podman says so with 500. */
static int is_ending(const docker_call *call)
{
    waldo_str answer = waldo__buf_str(&call->ask.answer);

    return call->ask.http_status == 409 ||
           (call->ask.http_status == 500 &&
            waldo__str_search(answer, WALDO__S("container state improper"), 0) < answer.len);
}

/* Gone; or being removed by its own end, which is waited for. */
static void on_removed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    int code = machine->call.ask.http_status;

    if (status == WALDO_OK && is_ending(&machine->call) && !machine->waiting) {
        machine->waiting = 1;
        waldo__docker_begin(machine, "POST", "/wait?condition=removed", 0, on_removed);
        return;
    }
    machine->status = WALDO_OK;
    if (status != WALDO_OK || (code != 204 && code != 200 && code != 404 && code != 409)) {
        machine->status = waldo__docker_call_error(&machine->call, status, error,
                                                   "removing the container", &machine->error);
    }
    complete_close(machine);
}

/* While one with a name is being created, a container of that name may be another process's. */
static int is_ours(const waldo_machine *machine)
{
    return machine->created && machine->options.place == 0 &&
           !(machine->creating && machine->options.name != NULL);
}

static void docker_close(waldo_machine *machine, const waldo_backend_call *call,
                         waldo_backend_done_fn done)
{
    waldo__loop *loop = machine->engine.env->loop;

    waldo__task_cancel(loop, &machine->task);
    waldo__timer_disarm(loop, &machine->timer);
    waldo__error_clear(&machine->error);
    machine->status = WALDO_OK;
    machine->done = done;
    machine->userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
    waldo__docker_plain_free(&machine->plain);
    machine->plain.engine = NULL;
    waldo__docker_channel_free(machine->channel);
    machine->channel = NULL;
    waldo__docker_call_free(&machine->call);
    waldo__docker_call_init(&machine->call, &machine->engine, machine);
    if (is_ours(machine)) {
        waldo__docker_begin(machine, "DELETE", "?force=1&v=1", 0, on_removed);
        return;
    }
    waldo__task_init(&machine->task, complete_close, machine);
    waldo__task_queue(loop, &machine->task);
}

/* The stream's end ends the hand, and its container with it; before the start there is no hand. */
static void docker_abandon(waldo_machine *machine)
{
    int forked = waldo__loop_forked(machine->engine.env->loop);
    int created = is_ours(machine);
    int creating = created && machine->creating;
    docker_engine engine = machine->engine;
    char name[DOCKER_NAME_SIZE];

    memcpy(name, machine->name, sizeof name);
    machine_free(machine);
    if (created && !forked) {
        waldo__docker_engine_forget(&engine, name, creating ? ABANDON_MS : 0);
    }
}

/* The container is left to its lease. */
static void docker_detach(waldo_machine *machine)
{
    machine_free(machine);
}

static void docker_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    ret_info->isolation = machine->options.isolation;
    ret_info->uid = machine->options.uid;
    ret_info->gid = machine->options.gid;
    ret_info->reached = machine->reached;
    if (machine->options.place > 0) {
        ret_info->flags = WALDO_MACHINE_REJOINS | WALDO_MACHINE_FOREIGN;
        ret_info->caps &= ~(uint32_t)(WALDO_BACKEND_NET_ALL | WALDO_BACKEND_LIMITS |
                                      WALDO_BACKEND_PAUSE); /* others may use it */
    }
    if (machine->options.main != DOCKER_MAIN_HAND) {
        ret_info->caps = WALDO_BACKEND_EXEC1 | WALDO_BACKEND_FILES | WALDO_BACKEND_NET_ALL |
                         WALDO_BACKEND_LIMITS | WALDO_BACKEND_SEPARATE | WALDO_BACKEND_PAUSE;
        ret_info->note = machine->note.len > 0 ? waldo__buf_str(&machine->note).ptr : NULL;
    }
}

static waldo_status docker_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    docker_options options;
    waldo_status status = waldo__docker_options_parse(&options, spec, ret_err);

    waldo__docker_options_free(&options);
    return status;
}

extern const waldo_backend_ops waldo__backend_docker;

const waldo_backend_ops waldo__backend_docker = {
    .version = WALDO_BACKEND_VERSION,
    .size = sizeof(waldo_backend_ops),
    .name = "docker",
    .about = "containers of Docker or Podman: no capabilities, read-only root, no network",
    .option_names = option_names,
    .isolation = WALDO_ISOLATION_CONTAINER,
    .caps = WALDO_BACKEND_CHANNEL | WALDO_BACKEND_STDIN | WALDO_BACKEND_SIGNAL |
            WALDO_BACKEND_TREE_KILL | WALDO_BACKEND_PTY | WALDO_BACKEND_ATTACH |
            WALDO_BACKEND_NET_ALL | WALDO_BACKEND_LIMITS | WALDO_BACKEND_SEPARATE |
            WALDO_BACKEND_ADOPT | WALDO_BACKEND_PAUSE,
    .parse = docker_parse,
    .probe = waldo__docker_probe,
    .list_sandboxes = waldo__docker_list,
    .destroy_id = waldo__docker_destroy_id,
    .open = docker_open,
    .save = waldo__docker_save,
    .close = docker_close,
    .abandon = docker_abandon,
    .channel = docker_channel_op,
    .exec1 = waldo__docker_exec1,
    .file_read = waldo__docker_file_read,
    .file_write = waldo__docker_file_write,
    .file_stat = waldo__docker_file_stat,
    .file_list = waldo__docker_file_list,
    .file_remove = waldo__docker_file_remove,
    .file_mkdir = waldo__docker_file_mkdir,
    .file_rename = waldo__docker_file_rename,
    .restore = waldo__docker_restore,
    .pause = docker_pause,
    .resume = docker_resume,
    .describe = docker_describe,
    .detach = docker_detach,
    .check = waldo__docker_check,
    .without_hand = waldo__docker_without_hand,
};
