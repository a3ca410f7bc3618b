/*
 * A container that was made elsewhere. The hand is brought into it as a file of root's and run by
 * an exec; a second exec, root's, waits for its end and takes the file away again, also when this
 * host is gone. Needs the shell, ls, head and mkfifo of the container.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "machine.h"

enum { DIR_SIZE = 128, STAYS_MS = 10000 /* without us, unless it is told another lease */ };

/* Some may not be written to, or nothing may be run there. */
static const char *const places[DOCKER_PLACES] = { "/tmp", "/var/tmp", "/run", "" };

/*
 * The folder, the hand's length, whom /workspace is to belong to. Root runs what is there: nobody
 * else may be able to change it, or to say what mkdir is. Says a word when the hand is there; then
 * the hand's own exec has ten seconds to open the pipe, which it holds until its end.
 */
static const char bring_script[] =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; umask 022; d=$1\n"
    "safe() { set -- $(ls -ldn \"$1\"); case $3:$1 in 0:d????[!w]??[!w]?*|0:d????????[tT]*);;\n"
    "*) echo others may change it >&2; exit 1;; esac; }\n"
    "safe \"${d%/*}/\"; mkdir \"$d\" || exit 1; trap 'rm -rf \"$d\"' EXIT\n"
    "echo '#!/bin/sh' >\"$d/h\" && chmod 755 \"$d/h\" && \"$d/h\" && head -c \"$2\" >\"$d/h\" &&\n"
    "mkfifo \"$d/f\" && chmod 622 \"$d/f\" || exit 1\n"
    "[ -d /workspace ] || { mkdir /workspace && chown \"$3\" /workspace; } || exit 1\n"
    "echo; exec >/dev/null 2>&1 </dev/null\n"
    "sleep 10 >\"$d/f\" & k=$!; exec 3<\"$d/f\"; read -r x <&3; kill $k; wait $k; cat <&3";

static const char run_script[] = "exec >\"$0/f\"; echo; exec \"$0/h\" durable \"$1\" \"$2\"";

static void put_dir(const docker_options *options, char *out, size_t size)
{
    snprintf(out, size, "%s/.waldo-%s", places[options->place - 1], options->id);
}

void waldo__docker_hand_path(const docker_options *options, char *out, size_t size)
{
    char dir[DIR_SIZE];

    if (options->place > 0) {
        put_dir(options, dir, sizeof dir);
        snprintf(out, size, "%s/h", dir);
    } else {
        snprintf(out, size, "%s/waldo-hand", waldo__docker_hand_folder());
    }
}

/* ---- the hand ---- */

static void on_run(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error,
                                  "running the hand, which needs /bin/sh in the container");
        return;
    }
    waldo__docker_opened(machine, WALDO_OK, NULL);
}

static void on_made(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    char path[128];
    waldo_error *made = NULL;

    if (status != WALDO_OK || machine->call.ask.http_status != 201) {
        waldo__docker_open_failed(machine, status, error, "entering the container");
        return;
    }
    status = waldo__docker_exec_path(machine, path, sizeof path, &made);
    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, made);
        return;
    }
    waldo__buf_clear(&machine->call.body);
    waldo__buf_puts(&machine->call.body, "{\"Detach\":true,\"Tty\":false}");
    waldo__buf_puts(&machine->call.path, path);
    waldo__docker_call_start(&machine->call, "POST", DOCKER_QUICK_MS, machine->deadline_ns, on_run);
}

static void put_user(const docker_options *options, char *out, size_t size)
{
    snprintf(out, size, "%u:%u", (unsigned)options->uid, (unsigned)options->gid);
}

static void on_brought(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    const docker_options *options = &machine->options;
    char dir[DIR_SIZE];
    char address[DIR_SIZE];
    char user[32];
    char lease[32];
    const char *const argv[] = { "/bin/sh", "-c", run_script, dir, address, lease, NULL };

    waldo__docker_channel_free(machine->channel); /* what waits there needs none */
    machine->channel = NULL;
    if (status == WALDO_ESTART && options->place < DOCKER_PLACES) {
        waldo__docker_bring_in(machine);
        return;
    }
    if (status != WALDO_OK) {
        waldo_error *made = waldo_error_copy(error);

        waldo__error_prefix(made, "attach= needs /bin/sh, ls, head and mkfifo in the container, "
                                  "and a folder of root's that files may be run from");
        waldo__docker_opened(machine, status == WALDO_ESTART ? WALDO_ENOTSUP : status, made);
        return;
    }
    put_dir(options, dir, sizeof dir);
    put_user(options, user, sizeof user);
    snprintf(address, sizeof address, DOCKER_ADDRESS "%s", options->id);
    snprintf(lease, sizeof lease, "%d", STAYS_MS);
    waldo__buf_clear(&machine->call.body);
    waldo__docker_put_command(&machine->call.body, argv, NULL, "/", user, 0);
    waldo__docker_begin(machine, "POST", "/exec", DOCKER_QUICK_MS, on_made);
}

static void on_entered(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    const waldo__hand_program *hand = machine->hand;
    waldo_channel *channel;

    if (status != WALDO_OK) {
        waldo__docker_opened(machine, status, waldo_error_copy(error));
        return;
    }
    channel = waldo__docker_channel_base(machine->channel);
    channel->ops->send(channel, waldo__strn(waldo__hand_image(hand), hand->len));
    waldo__docker_channel_await(machine->channel, on_brought, machine);
}

void waldo__docker_bring_in(waldo_machine *machine)
{
    char dir[DIR_SIZE];
    char len[32];
    char user[32];
    const char *const argv[] = { "/bin/sh", "-c", bring_script, "sh", dir, len, user, NULL };

    machine->options.place++;
    put_dir(&machine->options, dir, sizeof dir);
    put_user(&machine->options, user, sizeof user);
    snprintf(len, sizeof len, "%zu", machine->hand->len);
    waldo__buf_clear(&machine->call.body);
    waldo__docker_put_command(&machine->call.body, argv, NULL, "/", "0:0", 1);
    waldo__docker_enter(machine, on_entered);
}

/* ---- the container ---- */

static waldo_status judge(const waldo_machine *machine, const waldo__json_value *root,
                          waldo_error **ret_err)
{
    waldo_str state = waldo__json_get_str(waldo__json_get(root, "State"), "Status");

    if (machine->saved_run == NULL &&
        waldo__json_get(waldo__json_path(root, "Config.Labels"), WALDO__LABEL_RUN) != NULL) {
        return waldo_error_set(ret_err, WALDO_EACCESS, WALDO_CLASS_BACKEND,
                               "docker: the container %s is one of waldo's own: come back to it by "
                               "@NAME or its saved state, not by attach=",
                               machine->name);
    }
    if (!waldo__str_is(state, "running")) {
        return waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                               "docker: the container %s does not run (%.*s): docker %s %s",
                               machine->name, (int)(state.len < 40 ? state.len : 40), state.ptr,
                               waldo__str_is(state, "paused") ? "unpause" : "start", machine->name);
    }
    return WALDO_OK;
}

/* As it was made; who may do everything on the host is not separated from it. */
static waldo_status take(waldo_machine *machine, const waldo__json_value *root,
                         waldo_error **ret_err)
{
    docker_options *options = &machine->options;
    const waldo__json_value *config = waldo__json_get(root, "HostConfig");
    waldo_str user = waldo__json_get_str(waldo__json_get(root, "Config"), "User");
    waldo_str image = waldo__json_get_str(root, "Image");
    int64_t memory = waldo__json_get_int(config, "Memory", 0);
    waldo_status status = judge(machine, root, ret_err);

    if (status != WALDO_OK) {
        return status;
    }
    if (!waldo__docker_take_id(machine, waldo__json_get_str(root, "Id"))) {
        return waldo_error_set(ret_err, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                               "docker: the engine gave no id for the container %s", machine->name);
    }
    if (!options->user_asked && waldo__docker_parse_user(options, user) && options->uid == 0) {
        options->uid = options->gid = 1000; /* never root unless asked */
    }
    options->memory = memory > 0 ? (uint64_t)memory : 0;
    options->isolation = waldo__json_get_bool(config, "Privileged", 0) ||
                                 waldo__str_is(waldo__json_get_str(config, "PidMode"), "host")
                             ? WALDO_ISOLATION_PROCESS
                             : waldo__docker_grade(waldo__json_get_str(config, "Runtime"));
    waldo__free(options->image);
    options->image = waldo__strndup(image.ptr, image.len);
    if (machine->saved_run != NULL) { /* which names the hand's socket */
        waldo__free(options->id);
        options->id = waldo__strdup(machine->saved_run);
    }
    machine->reached = 1;
    return options->image != NULL && options->id != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

static void on_container(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__json *doc = NULL;
    waldo_error *made = NULL;

    if (status != WALDO_OK || machine->call.ask.http_status != 200) {
        waldo__docker_open_failed(machine, status, error, "looking for the container of attach=");
        return;
    }
    status = waldo__json_parse_answer(waldo__buf_str(&machine->call.ask.answer), &doc, &made);
    if (status == WALDO_OK) {
        status = take(machine, waldo__json_root(doc), &made);
    }
    waldo__json_free(doc);
    if (status != WALDO_OK || machine->options.place > 0) {
        waldo__docker_opened(machine, status, made);
    } else {
        waldo__docker_make(machine); /* its image says what hand it is to be */
    }
}

void waldo__docker_adopt(waldo_machine *machine)
{
    waldo__docker_begin(machine, "GET", "/json", DOCKER_QUICK_MS, on_container);
}
