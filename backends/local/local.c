/* Machines of the local backend: started through the keeper, ended through it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "hand/embedded.h"
#include "local.h"

enum {
    CONTROL = 3, /* the keeper's descriptors */
    STREAM = 4,
    START_MS = 10000,
    SAID_MAX = 8192,
    CONTROL_PIECE = 8192,
    ABANDON_MS = 1000
};

static const char *const option_names[] = { "tmp", "bwrap", NULL };

/* ---- completions ---- */

static void machine_free(waldo_machine *machine);

static void complete(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_backend_done_fn done = machine->done;
    waldo_status status = machine->status;
    waldo_error *error = machine->error;
    void *to = machine->userdata;

    machine->done = NULL;
    machine->error = NULL;
    if (machine->closing || machine->probing) {
        machine_free(machine);
    }
    if (done != NULL) {
        done(to, status, status != WALDO_OK ? error : NULL);
    }
    waldo_error_free(error);
}

/* error is taken. */
static void finish(waldo_machine *machine, waldo_status status, waldo_error *error)
{
    if (machine->done == NULL || machine->task.queued) {
        waldo_error_free(error);
        return;
    }
    waldo__timer_disarm(machine->loop, &machine->timer);
    machine->status = status;
    machine->error = error;
    waldo__task_queue(machine->loop, &machine->task);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/*
 * The end of the control stream makes the keeper kill everything and exit. Killing the keeper
 * itself would leave behind what bubblewrap has not yet tied to its parent: seen with 0.8.0, whose
 * child waits for an event that only its parent could send.
 */
static void end_keeper(waldo_machine *machine)
{
    struct pollfd item = { .fd = machine->control, .events = POLLIN };
    int64_t until = waldo__deadline_ns(ABANDON_MS);
    char piece[512];
    ssize_t len = 1;

    if (machine->keeper == NULL || machine->control < 0 || waldo__loop_forked(machine->loop)) {
        return;
    }
    shutdown(machine->control, SHUT_WR);
    while (len > 0 && waldo__now_ns() < until) {
        if (poll(&item, 1, ABANDON_MS) <= 0) {
            return;
        }
        len = recv(machine->control, piece, sizeof piece, MSG_DONTWAIT);
    }
}

/* Whatever lives is killed. */
static void machine_free(waldo_machine *machine)
{
    end_keeper(machine);
    waldo__task_cancel(machine->loop, &machine->task);
    waldo__task_cancel(machine->loop, &machine->ended_task);
    waldo__task_cancel(machine->loop, &machine->channel_task);
    waldo__timer_disarm(machine->loop, &machine->timer);
    waldo__watch_free(machine->control_watch);
    waldo__child_free(machine->keeper);
    if (machine->channel != NULL) {
        local_channel *channel = machine->channel;

        machine->channel = NULL;
        waldo__local_channel_end(channel, WALDO__S(""));
    }
    close_fd(&machine->control);
    close_fd(&machine->stream);
    waldo__local_command_free(&machine->command);
    waldo__hand_decoder_free(&machine->decoder);
    waldo__buf_free(&machine->said);
    waldo_error_free(machine->error);
    waldo__free(machine);
}

void waldo__local_channel_gone(waldo_machine *machine)
{
    machine->channel = NULL;
}

/* ---- the end of the keeper or of bubblewrap ---- */

/* From the run queue. The channel comes last: whoever hears of its end may end the machine. */
static void tell_ended(void *userdata)
{
    waldo_machine *machine = userdata;
    local_channel *channel = machine->channel;
    waldo_error *error = NULL;

    if (machine->closing || (machine->probing && machine->exit_code == 0)) {
        finish(machine, WALDO_OK, NULL);
    } else {
        waldo__local_explain(&error, waldo__buf_str(&machine->said));
        finish(machine, WALDO_EUNAVAILABLE, error);
    }
    if (channel != NULL) {
        machine->channel = NULL;
        waldo__local_channel_end(channel, waldo__buf_str(&machine->said));
    }
}

static void set_ended(waldo_machine *machine)
{
    if (machine->state != LOCAL_ENDED) {
        machine->state = LOCAL_ENDED;
        waldo__task_queue(machine->loop, &machine->ended_task);
    }
}

static void keeper_exited(void *userdata, int exit_code, int signal)
{
    (void)exit_code;
    (void)signal;
    set_ended(userdata);
}

static waldo_status on_keeper(void *userdata, const waldo__hand_event *event)
{
    waldo_machine *machine = userdata;

    if (event->type == WALDO_HAND_KEEPER_STARTED) {
        machine->state = LOCAL_RUNNING;
        if (machine->probing) {
            shutdown(machine->stream, SHUT_WR); /* the hand ends itself, with success */
        } else {
            finish(machine, WALDO_OK, NULL);
        }
    } else if (event->type == WALDO_HAND_KEEPER_FAILED) {
        waldo__buf_printf(&machine->said, "bubblewrap could not be started: %s",
                          waldo__errno_text(event->u.start_error.err));
        set_ended(machine);
    } else if (event->type == WALDO_HAND_KEEPER_EXIT) {
        waldo__buf_add_str(&machine->said, event->u.keeper_exit.stderr_text);
        if (event->u.keeper_exit.how == WALDO_HAND_HOW_EXITED) {
            machine->exit_code = event->u.keeper_exit.value;
        }
        set_ended(machine);
    }
    return WALDO_OK;
}

static void on_control(void *userdata, unsigned events)
{
    waldo_machine *machine = userdata;
    char piece[CONTROL_PIECE];
    ssize_t len = recv(machine->control, piece, sizeof piece, MSG_DONTWAIT);

    (void)events;
    if (len > 0) {
        if (waldo__hand_feed(&machine->decoder, waldo__strn(piece, (size_t)len), on_keeper,
                             machine) == WALDO_OK) {
            return;
        }
    } else if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    waldo__watch_set(machine->control_watch, 0);
    set_ended(machine);
}

/* ---- starting ---- */

static void start_too_long(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_error *error = NULL;

    waldo_error_set(&error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                    "local: bubblewrap did not start a sandbox within %d s", START_MS / 1000);
    finish(machine, WALDO_EUNAVAILABLE, error);
}

/* keeper CONTROL IN OUT KEEP... -- [setpriv ... --] bwrap ... */
static waldo_status spawn_keeper(waldo_machine *machine, int control, int stream, int image,
                                 waldo_error **ret_err)
{
    local_command *command = &machine->command;
    struct {
        WALDO__VEC(const char *);
    } argv = { 0 };
    struct {
        WALDO__VEC(waldo__child_fd);
    } fds = { 0 };
    static const char *const head[] = { "waldo-hand", "keeper", "3", "4", "4" };
    static const char *const no_env[] = { NULL };
    char numbers[64][12];
    char reuid[32];
    char regid[32];
    const char *const drop[] = { "/usr/bin/setpriv", reuid, regid, "--clear-groups", "--" };
    size_t places =
        WALDO__COUNT(head) + command->fds.count + 1 + WALDO__COUNT(drop) + command->args.count + 1;
    waldo_status status = WALDO_ENOMEM;
    size_t n = 0;

    snprintf(reuid, sizeof reuid, "--reuid=%u", (unsigned)command->uid);
    snprintf(regid, sizeof regid, "--regid=%u", (unsigned)command->gid);
    argv.at = waldo__calloc(places, sizeof *argv.at);
    fds.at = waldo__calloc(command->fds.count + 2, sizeof *fds.at);
    if (argv.at == NULL || fds.at == NULL || command->fds.count > WALDO__COUNT(numbers)) {
        goto end;
    }
    fds.at[fds.count++] = (waldo__child_fd){ control, CONTROL };
    fds.at[fds.count++] = (waldo__child_fd){ stream, STREAM };
    for (size_t i = 0; i < WALDO__COUNT(head); i++) {
        argv.at[n++] = head[i];
    }
    for (size_t i = 0; i < command->fds.count; i++) {
        int fd = command->fds.at[i];

        snprintf(numbers[i], sizeof numbers[i], "%d", fd);
        argv.at[n++] = numbers[i];
        fds.at[fds.count++] = (waldo__child_fd){ fd, fd };
    }
    argv.at[n++] = "--";
    for (size_t i = 0; command->drop && i < WALDO__COUNT(drop); i++) {
        argv.at[n++] = drop[i];
    }
    for (size_t i = 0; i < command->args.count; i++) {
        argv.at[n++] = command->args.at[i];
    }
    status = waldo__child_spawn(machine->loop,
                                &(waldo__child_options){ .exec_fd = image,
                                                         .argv = argv.at,
                                                         .envp = no_env,
                                                         .fds = fds.at,
                                                         .fd_count = fds.count,
                                                         .new_group = 1 },
                                keeper_exited, machine, &machine->keeper, ret_err);

end:
    WALDO__VEC_FREE(&argv);
    WALDO__VEC_FREE(&fds);
    return status;
}

static waldo_status start(waldo_machine *machine, waldo_error **ret_err)
{
    int control[2] = { -1, -1 };
    int stream[2] = { -1, -1 };
    const waldo__hand_program *hand = waldo__hand_native();
    int image_fd = waldo__local_memfd("waldo-hand", waldo__hand_image(hand), hand->len);
    waldo_status status;

    if (image_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) != 0) {
        status =
            waldo_error_set(ret_err, WALDO_EBUSY, WALDO_CLASS_SYSTEM,
                            "local: no descriptors for a sandbox: %s", waldo__errno_text(errno));
    } else {
        status = spawn_keeper(machine, control[1], stream[1], image_fd, ret_err);
    }
    machine->control = control[0];
    machine->stream = stream[0];
    close_fd(&control[1]);
    close_fd(&stream[1]);
    close_fd(&image_fd);
    for (size_t i = 0; i < machine->command.fds.count; i++) {
        close(machine->command.fds.at[i]);
    }
    machine->command.fds.count = 0;
    if (status == WALDO_OK) {
        status = waldo__watch_new(machine->loop, machine->control, WALDO__READ, on_control, machine,
                                  &machine->control_watch);
    }
    if (status == WALDO_OK) {
        waldo__timer_init(&machine->timer, start_too_long, machine);
        status = waldo__timer_arm(machine->loop, &machine->timer, waldo__deadline_ns(START_MS));
    }
    return status;
}

static void give_channel(void *userdata)
{
    waldo_machine *machine = userdata;
    int fd = machine->stream;
    waldo_error *error = NULL;

    machine->stream = -1;
    if (fd >= 0) {
        machine->channel = waldo__local_channel_new(machine->loop, fd, machine);
    }
    if (fd >= 0 && machine->channel != NULL) {
        machine->channel_done(machine->channel_userdata, WALDO_OK,
                              waldo__local_channel_base(machine->channel), NULL);
        return;
    }
    waldo_error_set(&error, WALDO_EBUSY, WALDO_CLASS_BACKEND, "local: a machine has one channel");
    machine->channel_done(machine->channel_userdata, WALDO_EBUSY, NULL, error);
    waldo_error_free(error);
}

static waldo_status local_start(const waldo_backend_env *env, const waldo_backend_spec *spec,
                                int probing, const waldo_backend_call *call,
                                waldo_backend_done_fn done, waldo_machine **ret_machine,
                                waldo_error **ret_err)
{
    waldo_machine *machine = WALDO__NEW(waldo_machine);
    waldo_status status;

    if (machine == NULL) {
        return waldo__error_nomem(ret_err);
    }
    machine->loop = env->loop;
    machine->control = machine->stream = machine->exit_code = -1;
    machine->probing = probing;
    machine->done = done;
    machine->userdata = call->userdata;
    waldo__hand_decoder_init_keeper(&machine->decoder);
    waldo__buf_init(&machine->said, SAID_MAX);
    waldo__timer_init(&machine->timer, NULL, machine);
    waldo__task_init(&machine->task, complete, machine);
    waldo__task_init(&machine->ended_task, tell_ended, machine);
    waldo__task_init(&machine->channel_task, give_channel, machine);
    status = waldo__local_command_make(&machine->command, spec, ret_err);
    if (status == WALDO_OK) {
        status = start(machine, ret_err);
    }
    if (status != WALDO_OK) {
        machine_free(machine);
        return status;
    }
    *ret_machine = machine;
    return WALDO_OK;
}

/* ---- the backend's functions ---- */

static waldo_status local_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    waldo_str tmp = waldo__backend_option(spec, "tmp");
    uint64_t bytes;

    if (spec->target.len > 0) {
        return waldo__error_invalid(
            ret_err, "local: takes no target; write \"local:\" or \"local:,KEY=VALUE\"");
    }
    if (tmp.len > 0 && !waldo__local_size(tmp, &bytes)) {
        return waldo__error_invalid(ret_err, "local: tmp must be a size such as 512m or 1g");
    }
    if (spec->cpus > 0) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "local: cannot limit cpus; leave it out");
    }
    return WALDO_OK;
}

static waldo_status local_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                               waldo_str saved, const waldo_backend_call *call,
                               waldo_backend_done_fn done, waldo_machine **ret_machine,
                               waldo_error **ret_err)
{
    if (saved.len > 0) {
        return waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                               "local: machines end with their host and cannot be reached again");
    }
    return local_start(env, spec, 0, call, done, ret_machine, ret_err);
}

/* A probe that could not even begin is completed from the run queue, too. */
typedef struct failed_probe {
    waldo__task task;
    waldo_backend_done_fn done;
    void *userdata;
    waldo_status status;
    waldo_error *error;
} failed_probe;

static void probe_failed(void *userdata)
{
    failed_probe *probe = userdata;

    probe->done(probe->userdata, probe->status, probe->error);
    waldo_error_free(probe->error);
    waldo__free(probe);
}

static void local_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    const waldo_backend_spec spec = { .size = sizeof spec,
                                      .target = { "", 0 },
                                      .net = WALDO_NET_NONE };
    waldo_machine *machine = NULL;
    waldo_error *error = NULL;
    waldo_status status = local_start(env, &spec, 1, call, done, &machine, &error);
    failed_probe *probe;

    if (status == WALDO_OK) {
        return;
    }
    probe = WALDO__NEW(failed_probe);
    if (probe == NULL) {
        done(call->userdata, WALDO_ENOMEM, NULL);
        waldo_error_free(error);
        return;
    }
    *probe = (failed_probe){
        .done = done, .userdata = call->userdata, .status = status, .error = error
    };
    waldo__task_init(&probe->task, probe_failed, probe);
    waldo__task_queue(env->loop, &probe->task);
}

static void close_too_long(void *userdata)
{
    waldo_error *error = NULL;

    waldo_error_set(&error, WALDO_ETIMEDOUT, WALDO_CLASS_BACKEND,
                    "local: the sandbox was killed, but its end was not seen in time");
    finish(userdata, WALDO_ETIMEDOUT, error);
}

static void local_close(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    waldo__buf frame = WALDO__BUF_INIT(64);

    machine->closing = 1;
    waldo__task_cancel(machine->loop, &machine->task);
    machine->done = done;
    machine->userdata = call->userdata;
    if (machine->state == LOCAL_ENDED) {
        finish(machine, WALDO_OK, NULL);
        return;
    }
    if (waldo__hand_put_keeper_kill(&frame) != WALDO_OK ||
        send(machine->control, frame.ptr, frame.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        waldo__child_kill(machine->keeper, 9, 0);
    }
    waldo__buf_free(&frame);
    waldo__timer_disarm(machine->loop, &machine->timer);
    waldo__timer_init(&machine->timer, close_too_long, machine);
    if (waldo__timer_arm(machine->loop, &machine->timer, call->deadline_ns) != WALDO_OK) {
        finish(machine, WALDO_OK, NULL);
    }
}

static void local_channel_op(waldo_machine *machine, const waldo_backend_call *call,
                             waldo_backend_channel_fn done)
{
    machine->channel_done = done;
    machine->channel_userdata = call->userdata;
    waldo__task_queue(machine->loop, &machine->channel_task);
}

extern const waldo_backend_ops waldo__backend_local;

const waldo_backend_ops waldo__backend_local = {
    .version = WALDO_BACKEND_VERSION,
    .size = sizeof(waldo_backend_ops),
    .name = "local",
    .about = "bubblewrap on this host: namespaces, no network, system call filter",
    .option_names = option_names,
    .isolation = WALDO_ISOLATION_PROCESS,
    .caps = WALDO_BACKEND_CHANNEL | WALDO_BACKEND_BIND | WALDO_BACKEND_STDIN |
            WALDO_BACKEND_SIGNAL | WALDO_BACKEND_TREE_KILL | WALDO_BACKEND_PTY |
            WALDO_BACKEND_NET_ALL | WALDO_BACKEND_SEPARATE,
    .parse = local_parse,
    .probe = local_probe,
    .open = local_open,
    .close = local_close,
    .abandon = machine_free,
    .channel = local_channel_op,
};
