/* Machines of the e2b backend: used, kept alive, paused, ended. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "hand/embedded.h"
#include "machine.h"

enum { PERIOD_MAX_MS = 100000 };

static const char *const option_names[] = { "user", "domain", "api", "envd", NULL };

static void machine_free(waldo_machine *machine)
{
    waldo__loop *loop = machine->place.env->loop;

    waldo__task_cancel(loop, &machine->task);
    waldo__task_cancel(loop, &machine->save_task);
    waldo__timer_disarm(loop, &machine->life_timer);
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__e2b_call_free(&machine->calls[i]);
    }
    waldo__e2b_call_free(&machine->life);
    waldo__e2b_stream_free(&machine->hand);
    waldo__e2b_channel_free(machine->channel);
    if (machine->place.token[0] != '\0') {
        waldo__secrets_retire(machine->place.env->secrets, machine->place.token);
    }
    waldo__buf_free(&machine->create);
    waldo__free(machine->name);
    waldo__free(machine->attach);
    waldo_error_free(machine->error);
    waldo__free(machine);
}

/* ---- its time ---- */

static void arm_life(waldo_machine *machine)
{
    int64_t period_ms = waldo__e2b_seconds(machine) * 1000 / 3;

    waldo__timer_arm(machine->place.env->loop, &machine->life_timer,
                     waldo__deadline_ns(period_ms < PERIOD_MAX_MS ? period_ms : PERIOD_MAX_MS));
}

/* What it means that it cannot be had is seen elsewhere: by the stream's end. */
static void on_extended(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK) {
        waldo__log(machine->place.env->loop, WALDO_LOG_WARN, "e2b", "%s",
                   waldo_error_message(error));
    }
    arm_life(machine);
}

static void extend(waldo_machine *machine, e2b_call *call, int64_t deadline_ns, e2b_call_fn done)
{
    char path[2 * E2B_WORD_MAX];
    const e2b_request request = { .method = "POST",
                                  .path = path,
                                  .what = "extending the sandbox's time",
                                  .replay = WALDO__REPLAY_SAFE,
                                  .ms = E2B_QUICK_MS,
                                  .deadline_ns = deadline_ns };

    /* Somebody else's is never to end sooner than it would have. */
    snprintf(path, sizeof path, "/sandboxes/%s/%s", machine->place.id,
             machine->attach != NULL ? "refreshes" : "timeout");
    waldo__e2b_put_seconds(machine, machine->attach != NULL ? "duration" : "timeout", &call->body);
    waldo__e2b_call_start(call, &request, done);
}

static void life_due(void *userdata)
{
    waldo_machine *machine = userdata;

    extend(machine, &machine->life, 0, on_extended);
}

/* ---- opening ---- */

static void complete_open(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_error *error = machine->error;

    machine->error = NULL;
    waldo__e2b_stream_free(&machine->hand);
    if (machine->status == WALDO_OK) {
        arm_life(machine);
    }
    machine->done(machine->userdata, machine->status, error);
    waldo_error_free(error);
}

static waldo_status e2b_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                             waldo_str saved, const waldo_backend_call *call,
                             waldo_backend_done_fn done, waldo_machine **ret_machine,
                             waldo_error **ret_err)
{
    waldo_machine *machine = WALDO__NEW(waldo_machine);
    waldo_status status;

    if (machine == NULL) {
        return waldo__error_nomem(ret_err);
    }
    machine->deadline_ns = call->deadline_ns;
    machine->done = done;
    machine->userdata = call->userdata;
    waldo__task_init(&machine->task, complete_open, machine);
    waldo__task_init(&machine->save_task, NULL, machine);
    waldo__timer_init(&machine->life_timer, life_due, machine);
    status = waldo__e2b_place_find(&machine->place, env, spec, ret_err);
    machine->place.env = env;
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__e2b_call_init(&machine->calls[i], &machine->place, machine);
    }
    waldo__e2b_call_init(&machine->life, &machine->place, machine);
    waldo__e2b_stream_init(&machine->hand, &machine->place, machine);
    if (status == WALDO_OK) {
        status = waldo__e2b_take_spec(machine, spec, saved, ret_err);
    }
    if (status == WALDO_OK && waldo__hand_native() == NULL) {
        status = waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                                 "e2b: this build has no hand (-Dhands=none)");
    }
    if (status == WALDO_OK) {
        status = env->key(env, E2B_KEY, 0, ret_err);
    }
    if (status != WALDO_OK) {
        machine_free(machine);
        return status;
    }
    *ret_machine = machine;
    waldo__e2b_begin(machine);
    return WALDO_OK;
}

/* ---- using ---- */

static void on_channel(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    e2b_channel *channel = machine->channel;

    machine->channel = NULL;
    if (status != WALDO_OK) {
        waldo__e2b_channel_free(channel);
        channel = NULL;
    }
    machine->channel_done(machine->channel_userdata, status,
                          channel != NULL ? waldo__e2b_channel_base(channel) : NULL, error);
}

static void no_channel(void *userdata)
{
    waldo_machine *machine = userdata;

    machine->channel_done(machine->channel_userdata, WALDO_ENOMEM, NULL, NULL);
}

static void e2b_channel_op(waldo_machine *machine, const waldo_backend_call *call,
                           waldo_backend_channel_fn done)
{
    const e2b_channel_options options = { .hand = machine->path, .address = machine->address };

    machine->channel_done = done;
    machine->channel_userdata = call->userdata;
    if (waldo__e2b_channel_new(&machine->place, &options, on_channel, machine, &machine->channel) !=
        WALDO_OK) {
        waldo__task_init(&machine->task, no_channel, machine);
        waldo__task_queue(machine->place.env->loop, &machine->task);
    }
}

static void give_saved(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo__buf text = WALDO__BUF_INIT(1024);
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, &text);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "sandbox", waldo__str(machine->place.id));
    waldo__jw_str(&jw, "run", waldo__str(machine->run));
    waldo__jw_str(&jw, "user", waldo__str(machine->place.user));
    if (machine->attach != NULL) {
        waldo__jw_bool(&jw, "foreign", 1);
    }
    waldo__jw_end(&jw, '}');
    machine->save_done(machine->save_userdata, text.status, waldo__buf_str(&text), NULL);
    waldo__buf_free(&text);
}

static void e2b_save(waldo_machine *machine, const waldo_backend_call *call,
                     waldo_backend_bytes_fn done)
{
    machine->save_done = done;
    machine->save_userdata = call->userdata;
    waldo__task_init(&machine->save_task, give_saved, machine);
    waldo__task_queue(machine->place.env->loop, &machine->save_task);
}

/* ---- one request each ---- */

static void on_told(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    machine->done(machine->userdata, status, error);
}

static void begin(waldo_machine *machine, const waldo_backend_call *call,
                  waldo_backend_done_fn done)
{
    machine->done = done;
    machine->userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
}

static void tell(waldo_machine *machine, const char *method, const char *path, const char *what,
                 e2b_call_fn done)
{
    char whole[2 * E2B_WORD_MAX];
    const e2b_request request = { .method = method,
                                  .path = whole,
                                  .what = what,
                                  .replay = WALDO__REPLAY_SAFE,
                                  .ms = E2B_SLOW_MS,
                                  .deadline_ns = machine->deadline_ns };

    snprintf(whole, sizeof whole, "/sandboxes/%s%s", machine->place.id, path);
    waldo__e2b_call_start(&machine->calls[0], &request, done);
}

/* It may be paused already. */
static void on_paused(void *userdata, waldo_status status, const waldo_error *error)
{
    on_told(userdata, status == WALDO_EBUSY ? WALDO_OK : status,
            status == WALDO_EBUSY ? NULL : error);
}

static void e2b_pause(waldo_machine *machine, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    begin(machine, call, done);
    waldo__timer_disarm(machine->place.env->loop, &machine->life_timer);
    waldo__e2b_call_free(&machine->life);
    waldo__buf_clear(&machine->calls[0].body);
    waldo__buf_puts(&machine->calls[0].body, "{}");
    tell(machine, "POST", "/pause", "pausing the sandbox", on_paused);
}

static void on_resumed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__buf_wipe(&machine->calls[0].ask.answer);
    if (status == WALDO_OK) {
        arm_life(machine);
    }
    machine->done(machine->userdata, status, error);
}

static void e2b_resume(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    begin(machine, call, done);
    waldo__e2b_connect(machine, on_resumed);
}

static void e2b_extend(waldo_machine *machine, int64_t lease_ms, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    begin(machine, call, done);
    machine->lease_ms = lease_ms;
    extend(machine, &machine->calls[0], call->deadline_ns, on_told);
}

/* The update replaces every rule. */
static void e2b_set_net(waldo_machine *machine, waldo_net net, const char *const *hosts,
                        const waldo_backend_call *call, waldo_backend_done_fn done)
{
    waldo__json_writer jw;

    begin(machine, call, done);
    waldo__buf_clear(&machine->calls[0].body);
    waldo__json_writer_init(&jw, &machine->calls[0].body);
    waldo__jw_object(&jw, NULL);
    waldo__e2b_put_net(&jw, net, hosts, 1);
    waldo__jw_end(&jw, '}');
    tell(machine, "PUT", "/network", "changing the sandbox's network", on_told);
}

static void give_url(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo__buf text = WALDO__BUF_INIT(2 * E2B_URL_MAX);

    waldo__buf_printf(&text, "https://%d-%s.%s", (int)machine->port, machine->place.id,
                      machine->place.domain);
    machine->save_done(machine->save_userdata, text.status, waldo__buf_str(&text), NULL);
    waldo__buf_free(&text);
}

static void e2b_port_url(waldo_machine *machine, uint32_t port, const waldo_backend_call *call,
                         waldo_backend_bytes_fn done)
{
    machine->port = port;
    machine->save_done = done;
    machine->save_userdata = call->userdata;
    waldo__task_init(&machine->save_task, give_url, machine);
    waldo__task_queue(machine->place.env->loop, &machine->save_task);
}

/* ---- ending ---- */

static void complete_close(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_backend_done_fn done = machine->done;
    void *to = machine->userdata;

    machine_free(machine);
    done(to, WALDO_OK, NULL);
}

static void on_killed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_backend_done_fn done = machine->done;
    void *to = machine->userdata;

    machine_free(machine);
    if (status == WALDO_ENOTFOUND) {
        done(to, WALDO_OK, NULL);
    } else {
        done(to, status, error);
    }
}

/* One that is still being made has a short time to live, for nobody knows its name. */
static int is_ours(const waldo_machine *machine)
{
    return machine->place.id[0] != '\0' && machine->attach == NULL &&
           (machine->made || machine->reached);
}

static void e2b_close(waldo_machine *machine, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    waldo__loop *loop = machine->place.env->loop;

    waldo__task_cancel(loop, &machine->task);
    waldo__timer_disarm(loop, &machine->life_timer);
    waldo__e2b_call_free(&machine->life);
    waldo__e2b_stream_free(&machine->hand);
    waldo__e2b_channel_free(machine->channel);
    machine->channel = NULL;
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__e2b_call_free(&machine->calls[i]);
    }
    begin(machine, call, done);
    if (is_ours(machine)) {
        tell(machine, "DELETE", "", "ending the sandbox", on_killed);
        return;
    }
    waldo__task_init(&machine->task, complete_close, machine);
    waldo__task_queue(loop, &machine->task);
}

static void e2b_abandon(waldo_machine *machine)
{
    if (is_ours(machine) && !waldo__loop_forked(machine->place.env->loop)) {
        waldo__e2b_tell(&machine->place, "DELETE", "", "");
    }
    machine_free(machine);
}

/* Left to its lease, which begins now. */
static void e2b_detach(waldo_machine *machine)
{
    waldo__buf body = WALDO__BUF_INIT(64);

    if (machine->place.id[0] != '\0' && machine->attach == NULL &&
        !waldo__loop_forked(machine->place.env->loop)) {
        waldo__e2b_put_seconds(machine, "timeout", &body);
        waldo__e2b_tell(&machine->place, "POST", "/timeout", waldo__buf_str(&body).ptr);
        waldo__buf_free(&body);
    }
    machine_free(machine);
}

static void e2b_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    ret_info->reached = machine->reached;
    ret_info->flags =
        WALDO_MACHINE_REJOINS | (machine->attach != NULL ? (uint32_t)WALDO_MACHINE_FOREIGN : 0);
}

static waldo_status e2b_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    e2b_place place;

    return waldo__e2b_place_find(&place, NULL, spec, ret_err);
}

extern const waldo_backend_ops waldo__backend_e2b;

const waldo_backend_ops waldo__backend_e2b = {
    .version = WALDO_BACKEND_VERSION,
    .size = sizeof(waldo_backend_ops),
    .name = "e2b",
    .about = "small virtual machines of E2B, by its API; needs the key " E2B_KEY,
    .option_names = option_names,
    .isolation = WALDO_ISOLATION_REMOTE,
    .caps = WALDO_BACKEND_CHANNEL | WALDO_BACKEND_STDIN | WALDO_BACKEND_SIGNAL |
            WALDO_BACKEND_TREE_KILL | WALDO_BACKEND_PTY | WALDO_BACKEND_ATTACH |
            WALDO_BACKEND_PAUSE | WALDO_BACKEND_PORTS | WALDO_BACKEND_NET_ALL |
            WALDO_BACKEND_NET_HOSTS | WALDO_BACKEND_SEPARATE | WALDO_BACKEND_ADOPT |
            WALDO_BACKEND_SET_NET,
    .parse = e2b_parse,
    .probe = waldo__e2b_probe,
    .list_sandboxes = waldo__e2b_list,
    .destroy_id = waldo__e2b_destroy_id,
    .open = e2b_open,
    .save = e2b_save,
    .close = e2b_close,
    .abandon = e2b_abandon,
    .channel = e2b_channel_op,
    .pause = e2b_pause,
    .resume = e2b_resume,
    .extend = e2b_extend,
    .port_url = e2b_port_url,
    .set_net = e2b_set_net,
    .describe = e2b_describe,
    .detach = e2b_detach,
};
