/* Containers that outlive their host process: found again by id or name, entered by an exec. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "machine.h"

enum {
    ID_LEN = 64,
    SAVED_MAX = 4096,
    LOOK_MS = 50, /* between two looks at a container that another process is making */
    LOOKS = 100
};

static int is_hex(waldo_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return 0;
        }
    }
    return text.len == ID_LEN;
}

int waldo__docker_take_id(waldo_machine *machine, waldo_str id)
{
    if (!is_hex(id)) {
        return 0;
    }
    snprintf(machine->name, sizeof machine->name, "%.*s", ID_LEN, id.ptr);
    return 1;
}

/* What the hand's address may hold; labels are whoever's who may use the engine. */
static int is_word(waldo_str text)
{
    return text.len <= 64 && waldo__str_made_of(text, "");
}

/* ---- saved states ---- */

waldo_status waldo__docker_take_saved(waldo_machine *machine, waldo_str saved,
                                      waldo_error **ret_err)
{
    waldo__json *doc = NULL;
    const waldo__json_limits limits = { .max_bytes = SAVED_MAX, .max_depth = 4, .max_values = 32 };
    waldo_str container;
    waldo_str run;
    int64_t place;
    waldo_status status = waldo__json_parse(saved, &limits, &doc, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    container = waldo__json_get_str(waldo__json_root(doc), "container");
    run = waldo__json_get_str(waldo__json_root(doc), "run");
    place = waldo__json_get_int(waldo__json_root(doc), "place", 0);
    if (!is_word(run) || place < 0 || place > DOCKER_PLACES ||
        !waldo__docker_take_id(machine, container)) {
        status = waldo__error_invalid(ret_err, "docker: the saved state names no container");
    } else {
        machine->options.place = (int)place;
        waldo__free(machine->options.attach);
        machine->options.attach = NULL;
        machine->saved_run = waldo__strndup(run.ptr, run.len);
        status = machine->saved_run != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
    }
    waldo__json_free(doc);
    return status;
}

static void give_saved(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo__buf text = WALDO__BUF_INIT(SAVED_MAX);
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, &text);
    waldo__jw_object(&jw, NULL);
    waldo__jw_text(&jw, "container", machine->name);
    waldo__jw_text(&jw, "run", machine->options.id);
    if (machine->options.place > 0) {
        waldo__jw_int(&jw, "place", machine->options.place);
    }
    waldo__jw_text(&jw, "engine", machine->engine.text); /* for people: not used */
    waldo__jw_end(&jw, '}');
    machine->save_done(machine->save_userdata, text.status, waldo__buf_str(&text), NULL);
    waldo__buf_free(&text);
}

void waldo__docker_save(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_bytes_fn done)
{
    machine->save_done = done;
    machine->save_userdata = call->userdata;
    waldo__task_init(&machine->save_task, give_saved, machine);
    waldo__task_queue(machine->engine.env->loop, &machine->save_task);
}

/* ---- looking at what is there ---- */

static waldo_status gone(const waldo_machine *machine, waldo_error **ret_err)
{
    if (machine->saved_run != NULL) {
        return waldo_error_set(ret_err, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                               "docker: the engine at %s has no container %.12s any more: its "
                               "lease ended, it was removed, or it is on another engine; open a "
                               "new sandbox",
                               machine->engine.text, machine->name);
    }
    return waldo_error_set(ret_err, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                           "docker: the engine at %s has no machine named %s; make one with "
                           "docker:IMAGE,name=%s",
                           machine->engine.text, machine->options.name, machine->options.name);
}

/* Is it what was asked for, and a durable one of ours? */
static waldo_status check_labels(waldo_machine *machine, const waldo__json_value *root,
                                 waldo_error **ret_err)
{
    const waldo__json_value *labels = waldo__json_path(root, "Config.Labels");
    waldo_str run = waldo__json_get_str(labels, WALDO__LABEL_RUN);
    const char *wrong = NULL;

    if (!is_word(run) || !is_hex(waldo__json_get_str(root, "Id"))) {
        wrong = "is not one of waldo's; it is left alone";
    } else if (waldo__labels_lease(labels) == 0) {
        wrong = "has no lease: it ends with the process that made it and cannot be reached again";
    } else if (machine->saved_run != NULL && !waldo__str_is(run, machine->saved_run)) {
        wrong = "is not the one that was saved";
    } else if (machine->saved_run == NULL &&
               !waldo__str_is(waldo__json_get_str(labels, WALDO__LABEL_NAME),
                              machine->options.name)) {
        wrong = "was not made under this name";
    }
    if (wrong != NULL) {
        return waldo_error_set(ret_err, WALDO_EACCESS, WALDO_CLASS_BACKEND,
                               "docker: the container %s %s", machine->name, wrong);
    }
    return WALDO_OK;
}

/* It runs: from now on the machine is this one, whatever the options say of a new one. */
static waldo_status take(waldo_machine *machine, const waldo__json_value *root,
                         waldo_error **ret_err)
{
    const waldo__json_value *labels = waldo__json_path(root, "Config.Labels");
    waldo_str run = waldo__json_get_str(labels, WALDO__LABEL_RUN);
    int64_t memory = waldo__json_get_int(waldo__json_get(root, "HostConfig"), "Memory", 0);
    char *id = waldo__strndup(run.ptr, run.len);

    if (id == NULL) {
        return waldo__error_nomem(ret_err);
    }
    waldo__free(machine->options.id);
    machine->options.id = id;
    machine->options.lease_ms = waldo__labels_lease(labels);
    machine->options.memory = memory > 0 ? (uint64_t)memory : 0;
    machine->options.isolation =
        waldo__docker_grade(waldo__json_get_str(waldo__json_get(root, "HostConfig"), "Runtime"));
    waldo__docker_parse_user(&machine->options,
                             waldo__json_get_str(waldo__json_get(root, "Config"), "User"));
    waldo__docker_take_id(machine, waldo__json_get_str(root, "Id"));
    machine->created = machine->reached = 1;
    return WALDO_OK;
}

static void look_again(void *userdata)
{
    waldo__docker_reach(userdata);
}

static waldo_status not_running(const waldo_machine *machine, const waldo__json_value *state,
                                waldo_str status, waldo_error **ret_err)
{
    const char *shown = machine->options.name != NULL ? machine->options.name : machine->name;

    return waldo_error_set(
        ret_err, WALDO_ELOST, WALDO_CLASS_BACKEND,
        "docker: the machine %s has ended (%.*s, exit code %lld); remove it with "
        "docker rm -fv %s, and open a new one",
        shown, (int)(status.len < 40 ? status.len : 40), status.ptr,
        (long long)waldo__json_get_int(state, "ExitCode", -1), machine->name);
}

/* Is the hand a file of the host in it, which nobody has to put there? */
static int is_shared(const waldo__json_value *root)
{
    const waldo__json_value *mount = waldo__json_first(waldo__json_get(root, "Mounts"));

    for (; mount != NULL; mount = waldo__json_next(mount)) {
        if (waldo__str_is(waldo__json_get_str(mount, "Type"), "bind") &&
            waldo__str_starts(waldo__json_get_str(mount, "Destination"),
                              waldo__docker_hand_folder())) {
            return 1;
        }
    }
    return 0;
}

static void on_unpaused(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK || machine->looks++ >= LOOKS) {
        waldo__docker_open_failed(machine, status, error, "letting the container go on");
    } else {
        waldo__docker_reach(machine); /* whoever let it go on */
    }
}

/*
 * What to do with a container that is there. WALDO_PENDING: wait for another process; WALDO_AGAIN:
 * that one has died on the way, go on where it stopped; WALDO_EBUSY: it is paused, let it go on.
 */
static waldo_status judge(waldo_machine *machine, const waldo__json_value *root,
                          waldo_error **ret_err)
{
    const waldo__json_value *state = waldo__json_get(root, "State");
    waldo_str word = waldo__json_get_str(state, "Status");
    waldo_status status = check_labels(machine, root, ret_err);
    int made = waldo__str_is(word, "created") || waldo__str_is(word, "configured");
    int ending = waldo__str_is(word, "removing") || waldo__str_is(word, "exited") ||
                 waldo__str_is(word, "stopped");

    if (status != WALDO_OK) {
        return status;
    }
    if (waldo__str_is(word, "running")) {
        return take(machine, root, ret_err);
    }
    if (waldo__str_is(word, "paused")) {
        return WALDO_EBUSY;
    }
    /* Another process is making it, or it removes itself just now. */
    if (machine->saved_run == NULL && machine->looks < LOOKS && (made || ending)) {
        machine->looks++;
        return WALDO_PENDING;
    }
    if (made && machine->saved_run == NULL && !machine->options.find) {
        status = take(machine, root, ret_err);
        machine->resumed = 1;
        machine->options.shared = is_shared(root);
        machine->reached = machine->created = 0; /* its maker may be only slow: not ours to end */
        return status == WALDO_OK ? WALDO_AGAIN : status;
    }
    return not_running(machine, state, word, ret_err);
}

static void on_container(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__json *doc = NULL;
    waldo_error *made = NULL;

    if (status == WALDO_OK && machine->call.ask.http_status == 404) {
        if (machine->saved_run == NULL && !machine->options.find) {
            waldo__docker_make(machine);
            return;
        }
        status = gone(machine, &made);
        waldo__docker_opened(machine, status, made);
        return;
    }
    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "looking for the container");
        return;
    }
    status = waldo__json_parse_answer(waldo__buf_str(&machine->call.ask.answer), &doc, &made);
    if (status == WALDO_OK) {
        status = judge(machine, waldo__json_root(doc), &made);
    }
    waldo__json_free(doc);
    if (status == WALDO_EBUSY) {
        waldo__docker_begin(machine, "POST", "/unpause", DOCKER_SLOW_MS, on_unpaused);
        return;
    }
    if (status == WALDO_AGAIN) {
        waldo__docker_make(machine); /* from the image on, which says what hand it is to be */
        return;
    }
    if (status == WALDO_PENDING) {
        machine->timer.fn = look_again;
        status = waldo__timer_arm(machine->engine.env->loop, &machine->timer,
                                  waldo__deadline_ns(LOOK_MS));
        if (status == WALDO_OK) {
            return;
        }
    }
    waldo__docker_opened(machine, status, made);
}

void waldo__docker_reach(waldo_machine *machine)
{
    waldo__buf_clear(&machine->call.body);
    waldo__docker_begin(machine, "GET", "/json", DOCKER_QUICK_MS, on_container);
}

/* ---- a stream to the hand inside ---- */

static void on_exec_attached(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK) {
        waldo__docker_channel_free(machine->channel);
        machine->channel = NULL;
    }
    machine->entered(machine, status, error);
}

waldo_status waldo__docker_exec_path(const waldo_machine *machine, char *path, size_t size,
                                     waldo_error **ret_err)
{
    waldo__json *doc = NULL;
    waldo_status status =
        waldo__json_parse(waldo__buf_str(&machine->call.ask.answer), NULL, &doc, ret_err);
    waldo_str id = waldo__json_get_str(waldo__json_root(doc), "Id");

    if (status == WALDO_OK && !is_hex(id)) {
        status = waldo_error_set(ret_err, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                                 "docker: the engine gave no id for what is to be run");
    }
    snprintf(path, size, "/exec/%.*s/start", ID_LEN, status == WALDO_OK ? id.ptr : "");
    waldo__json_free(doc);
    return status;
}

static void on_exec_made(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    char path[128];
    docker_hijack hijack = { .path = path,
                             .body = WALDO__S("{\"Detach\":false,\"Tty\":false}"),
                             .what = "entering the container",
                             .container = machine->name,
                             .memory = machine->options.memory,
                             .durable = 1 };
    int64_t until = waldo__deadline_ns(DOCKER_ATTACH_MS);
    waldo_error *made = NULL;

    if (status != WALDO_OK || machine->call.ask.http_status != 201) {
        status = waldo__docker_call_error(&machine->call, status, error, hijack.what, &made);
        status = machine->call.ask.http_status == 409 ? WALDO_ELOST : status;
    } else {
        status = waldo__docker_exec_path(machine, path, sizeof path, &made);
    }
    if (status == WALDO_OK) {
        status = waldo__docker_channel_new(
            &machine->engine, &hijack, until < machine->deadline_ns ? until : machine->deadline_ns,
            on_exec_attached, machine, &machine->channel, &made);
    }
    if (status != WALDO_OK) {
        machine->entered(machine, status, made);
        waldo_error_free(made);
    }
}

void waldo__docker_enter(waldo_machine *machine, docker_call_fn done)
{
    machine->entered = done;
    waldo__docker_begin(machine, "POST", "/exec", DOCKER_QUICK_MS, on_exec_made);
}

static void on_entered(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    docker_channel *channel = machine->channel;

    machine->channel = NULL;
    machine->channel_done(machine->channel_userdata, status,
                          channel != NULL ? waldo__docker_channel_base(channel) : NULL, error);
}

/* By the program that passes its streams on to a durable hand. */
void waldo__docker_exec_channel(waldo_machine *machine)
{
    char hand[160];
    char address[128];
    const char *const argv[] = { hand, "attach", address, NULL };

    waldo__docker_hand_path(&machine->options, hand, sizeof hand);
    snprintf(address, sizeof address, DOCKER_ADDRESS "%s", machine->options.id);
    waldo__buf_clear(&machine->call.body);
    /* As whom the hand lets attach; in a container of ours without capabilities. */
    waldo__docker_put_command(&machine->call.body, argv, NULL, "/", "0:0", 1);
    waldo__docker_enter(machine, on_entered);
}
