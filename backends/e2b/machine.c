/* Machines of the e2b backend: used, kept alive, paused, ended. */
#include "base/alloc.h"
#include "base/error.h"
#include "hand/embedded.h"
#include "machine.h"

static const char *const option_names[] = { "user", "domain", "api", "envd", NULL };

/* ---- what the shared part asks for ---- */

static void on_extended(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__cloud_extended(&machine->cloud, status, error);
}

/* Somebody else's is never to end sooner than it would have: a refresh only extends. */
static void extend(waldo_machine *machine)
{
    int foreign = machine->cloud.finder.foreign;

    waldo__e2b_put_seconds(machine, foreign ? "duration" : "timeout", &machine->life.body);
    waldo__e2b_about(&machine->place, &machine->life, "POST", foreign ? "/refreshes" : "/timeout",
                     "extending the sandbox's time", 0, on_extended);
}

static void leave(waldo_machine *machine)
{
    waldo__buf *body = &machine->cloud.text;

    waldo__e2b_put_seconds(machine, "timeout", body);
    waldo__e2b_about(&machine->place, NULL, "POST", "/timeout", waldo__buf_str(body).ptr, 0, NULL);
}

static void discard(waldo_machine *machine)
{
    waldo__e2b_about(&machine->place, NULL, "DELETE", "", "", 0, NULL);
}

static void on_ended(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__cloud_ended(&machine->cloud, status, error);
}

static void end(waldo_machine *machine)
{
    waldo__buf_clear(&machine->calls[0].body);
    waldo__e2b_about(&machine->place, &machine->calls[0], "DELETE", "", "ending the sandbox",
                     machine->cloud.deadline_ns, on_ended);
}

static void quiet(waldo_machine *machine)
{
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__api_call_free(&machine->calls[i]);
    }
    waldo__api_call_free(&machine->life);
    waldo__launch_free(&machine->launch);
    waldo__e2b_stream_free(&machine->hand);
    waldo__e2b_channel_free(machine->channel);
    machine->channel = NULL;
}

static void machine_free(waldo_machine *machine)
{
    if (machine->place.token[0] != '\0') {
        waldo__secrets_retire(machine->place.env->secrets, machine->place.token);
    }
    waldo__buf_free(&machine->create);
    waldo__free(machine);
}

/* ---- opening ---- */

static waldo_status e2b_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                             waldo_str saved, const waldo_backend_call *call,
                             waldo_backend_done_fn done, waldo_machine **ret_machine,
                             waldo_error **ret_err)
{
    static const waldo__cloud_fns fns = { extend, leave, discard, end, quiet, machine_free };
    waldo_machine *machine = WALDO__NEW(waldo_machine);
    waldo_status status;

    if (machine == NULL) {
        return waldo__error_nomem(ret_err);
    }
    status = waldo__e2b_place_find(&machine->place, env, spec, ret_err);
    waldo__cloud_init(&machine->cloud, env, &fns);
    waldo__launch_init(&machine->launch, env->loop, &waldo__e2b_launch, machine);
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__e2b_call_init(&machine->calls[i], &machine->place, machine);
    }
    waldo__e2b_call_init(&machine->life, &machine->place, machine);
    waldo__e2b_stream_init(&machine->hand, &machine->place, machine);
    waldo__cloud_begin(&machine->cloud, call, done);
    if (status == WALDO_OK && waldo__hand_native() == NULL) {
        status = waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_USAGE,
                                 "e2b: this build has no hand (-Dhands=none)");
    }
    if (status == WALDO_OK) {
        status = env->key(env, E2B_KEY, 0, ret_err);
    }
    if (status == WALDO_OK) {
        status = waldo__e2b_begin(machine, spec, saved, ret_err);
    }
    if (status != WALDO_OK) {
        waldo__cloud_free(machine);
        return status;
    }
    *ret_machine = machine;
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

void waldo__e2b_brought(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    const e2b_channel_options options = { .hand = machine->launch.path,
                                          .address = machine->launch.address };

    if (status == WALDO_OK) {
        status = waldo__e2b_channel_new(&machine->place, &options, on_channel, machine,
                                        &machine->channel);
    }
    if (status != WALDO_OK) {
        on_channel(machine, status, error);
    }
}

static void e2b_channel_op(waldo_machine *machine, const waldo_backend_call *call,
                           waldo_backend_channel_fn done)
{
    machine->channel_done = done;
    machine->channel_userdata = call->userdata;
    machine->cloud.deadline_ns = call->deadline_ns;
    waldo__launch_again(&machine->launch);
}

static void e2b_port_url(waldo_machine *machine, uint32_t port, const waldo_backend_call *call,
                         waldo_backend_bytes_fn done)
{
    waldo__buf_printf(waldo__cloud_text(&machine->cloud, call, done), "https://%u-%s.%s",
                      (unsigned)port, machine->place.id, machine->place.domain);
}

/* ---- one request each ---- */

static void begin(waldo_machine *machine, const waldo_backend_call *call,
                  waldo_backend_done_fn done)
{
    waldo__cloud_begin(&machine->cloud, call, done);
    waldo__buf_clear(&machine->calls[0].body);
}

static void on_told(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__cloud_finish(&machine->cloud, status, error);
}

/* It may be paused already; if it cannot be, its time goes on. */
static void on_paused(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK && status != WALDO_EBUSY) {
        waldo__cloud_live(&machine->cloud);
    }
    on_told(userdata, status == WALDO_EBUSY ? WALDO_OK : status,
            status == WALDO_EBUSY ? NULL : error);
}

static void e2b_pause(waldo_machine *machine, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    begin(machine, call, done);
    waldo__cloud_rest(&machine->cloud);
    waldo__api_call_free(&machine->life);
    waldo__buf_puts(&machine->calls[0].body, "{}");
    waldo__e2b_about(&machine->place, &machine->calls[0], "POST", "/pause", "pausing the sandbox",
                     machine->cloud.deadline_ns, on_paused);
}

static void on_resumed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__buf_free(&machine->calls[0].ask.answer);
    if (status == WALDO_OK) {
        waldo__cloud_live(&machine->cloud);
    }
    on_told(userdata, status, error);
}

static void e2b_resume(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    begin(machine, call, done);
    waldo__e2b_connect(machine, on_resumed);
}

/* The update replaces every rule. */
static void e2b_set_net(waldo_machine *machine, waldo_net net, const char *const *hosts,
                        const waldo_backend_call *call, waldo_backend_done_fn done)
{
    waldo__json_writer jw;

    begin(machine, call, done);
    waldo__json_writer_init(&jw, &machine->calls[0].body);
    waldo__jw_object(&jw, NULL);
    waldo__e2b_put_net(&jw, net, hosts, 1);
    waldo__jw_end(&jw, '}');
    waldo__e2b_about(&machine->place, &machine->calls[0], "PUT", "/network",
                     "changing the sandbox's network", machine->cloud.deadline_ns, on_told);
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
    .check = waldo__e2b_check,
    .list_sandboxes = waldo__e2b_list,
    .destroy_id = waldo__e2b_destroy_id,
    .open = e2b_open,
    .save = waldo__cloud_save,
    .close = waldo__cloud_close,
    .abandon = waldo__cloud_abandon,
    .channel = e2b_channel_op,
    .pause = e2b_pause,
    .resume = e2b_resume,
    .port_url = e2b_port_url,
    .set_net = e2b_set_net,
    .describe = waldo__cloud_describe,
    .detach = waldo__cloud_detach,
};
