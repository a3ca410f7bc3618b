/* Machines of the e2b backend: used, kept alive, paused, ended. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "hand/embedded.h"
#include "machine.h"

enum { PERIOD_MAX_MS = 100000, TEXT_MAX = 1024 };

static const char *const option_names[] = { "user", "domain", "api", "envd", NULL };

/* Nothing is heard any more; what may still be asked of it is what ends it. */
static void quiet(waldo_machine *machine)
{
    waldo__loop *loop = machine->place.env->loop;

    waldo__task_cancel(loop, &machine->task);
    waldo__task_cancel(loop, &machine->text_task);
    waldo__timer_disarm(loop, &machine->life_timer);
    waldo__finder_free(&machine->finder);
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__api_call_free(&machine->calls[i]);
    }
    waldo__api_call_free(&machine->life);
    waldo__e2b_stream_free(&machine->hand);
    waldo__e2b_channel_free(machine->channel);
    machine->channel = NULL;
    waldo__error_clear(&machine->error);
}

static void machine_free(waldo_machine *machine)
{
    quiet(machine);
    if (machine->place.token[0] != '\0') {
        waldo__secrets_retire(machine->place.env->secrets, machine->place.token);
    }
    waldo__buf_free(&machine->create);
    waldo__buf_free(&machine->text);
    waldo__free(machine);
}

/* ---- its time ---- */

static void on_extended(void *userdata, waldo_status status, const waldo_error *error);

/* Somebody else's is never to end sooner than it would have: a refresh only extends. */
static void life_due(void *userdata)
{
    waldo_machine *machine = userdata;

    waldo__e2b_put_seconds(machine, machine->finder.foreign ? "duration" : "timeout",
                           &machine->life.body);
    waldo__e2b_about(&machine->place, &machine->life, "POST",
                     machine->finder.foreign ? "/refreshes" : "/timeout",
                     "extending the sandbox's time", 0, on_extended);
}

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

static void begin(waldo_machine *machine, const waldo_backend_call *call,
                  waldo_backend_done_fn done)
{
    machine->done = done;
    machine->userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
    waldo__buf_clear(&machine->calls[0].body);
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
    status = waldo__e2b_place_find(&machine->place, env, spec, ret_err);
    machine->text = WALDO__BUF_INIT(TEXT_MAX);
    waldo__task_init(&machine->task, complete_open, machine);
    waldo__timer_init(&machine->life_timer, life_due, machine);
    for (size_t i = 0; i < E2B_PARTS; i++) {
        waldo__e2b_call_init(&machine->calls[i], &machine->place, machine);
    }
    waldo__e2b_call_init(&machine->life, &machine->place, machine);
    waldo__e2b_stream_init(&machine->hand, &machine->place, machine);
    begin(machine, call, done);
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
        machine_free(machine);
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

static void no_channel(void *userdata)
{
    on_channel(userdata, WALDO_ENOMEM, NULL);
}

/* The hand's file is there. */
static void on_brought(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    const e2b_channel_options options = { .hand = machine->path, .address = machine->address };

    machine->brought = 0;
    if (status != WALDO_OK) {
        on_channel(machine, status, error);
    } else if (waldo__e2b_channel_new(&machine->place, &options, on_channel, machine,
                                      &machine->channel) != WALDO_OK) {
        waldo__task_init(&machine->task, no_channel, machine);
        waldo__task_queue(machine->place.env->loop, &machine->task);
    }
}

static void e2b_channel_op(waldo_machine *machine, const waldo_backend_call *call,
                           waldo_backend_channel_fn done)
{
    machine->channel_done = done;
    machine->channel_userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
    if (machine->brought) {
        on_brought(machine, WALDO_OK, NULL);
    } else {
        uint64_t random[2];

        waldo__random(random, sizeof random); /* nobody has put anything under this name */
        snprintf(machine->path, sizeof machine->path, "/tmp/.waldo-hand-%016llx%016llx",
                 (unsigned long long)random[0], (unsigned long long)random[1]);
        waldo__e2b_bring(machine, on_brought);
    }
}

/* ---- what is known here, told later ---- */

static void give_text(void *userdata)
{
    waldo_machine *machine = userdata;

    machine->text_done(machine->text_userdata, machine->text.status, waldo__buf_str(&machine->text),
                       NULL);
}

static waldo__buf *begin_text(waldo_machine *machine, const waldo_backend_call *call,
                              waldo_backend_bytes_fn done)
{
    machine->text_done = done;
    machine->text_userdata = call->userdata;
    waldo__buf_clear(&machine->text);
    waldo__task_init(&machine->text_task, give_text, machine);
    waldo__task_queue(machine->place.env->loop, &machine->text_task);
    return &machine->text;
}

static void e2b_save(waldo_machine *machine, const waldo_backend_call *call,
                     waldo_backend_bytes_fn done)
{
    waldo__finder_put_saved(&machine->finder, begin_text(machine, call, done));
}

static void e2b_port_url(waldo_machine *machine, uint32_t port, const waldo_backend_call *call,
                         waldo_backend_bytes_fn done)
{
    waldo__buf_printf(begin_text(machine, call, done), "https://%u-%s.%s", (unsigned)port,
                      machine->place.id, machine->place.domain);
}

/* ---- one request each ---- */

static void on_told(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    machine->done(machine->userdata, status, error);
}

/* It may be paused already; if it cannot be, its time goes on. */
static void on_paused(void *userdata, waldo_status status, const waldo_error *error)
{
    if (status != WALDO_OK && status != WALDO_EBUSY) {
        arm_life(userdata);
    }
    on_told(userdata, status == WALDO_EBUSY ? WALDO_OK : status,
            status == WALDO_EBUSY ? NULL : error);
}

static void e2b_pause(waldo_machine *machine, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    begin(machine, call, done);
    waldo__timer_disarm(machine->place.env->loop, &machine->life_timer);
    waldo__api_call_free(&machine->life);
    waldo__buf_puts(&machine->calls[0].body, "{}");
    waldo__e2b_about(&machine->place, &machine->calls[0], "POST", "/pause", "pausing the sandbox",
                     machine->deadline_ns, on_paused);
}

static void on_resumed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__buf_free(&machine->calls[0].ask.answer);
    if (status == WALDO_OK) {
        arm_life(machine);
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
                     "changing the sandbox's network", machine->deadline_ns, on_told);
}

/* ---- ending ---- */

/* error may be of the machine's own call. */
static void closed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_backend_done_fn done = machine->done;
    void *to = machine->userdata;
    int gone = status == WALDO_ENOTFOUND;

    machine_free(machine);
    done(to, gone ? WALDO_OK : status, gone ? NULL : error);
}

static void nothing_to_end(void *userdata)
{
    closed(userdata, WALDO_OK, NULL);
}

/* One that is still being made has a short time to live, for nobody knows its name. */
static int is_ours(const waldo_machine *machine)
{
    return !machine->finder.foreign && (machine->finder.made || machine->finder.reached) &&
           !waldo__loop_forked(machine->place.env->loop);
}

static void e2b_close(waldo_machine *machine, const waldo_backend_call *call,
                      waldo_backend_done_fn done)
{
    quiet(machine);
    begin(machine, call, done);
    if (is_ours(machine)) {
        waldo__e2b_about(&machine->place, &machine->calls[0], "DELETE", "", "ending the sandbox",
                         machine->deadline_ns, closed);
        return;
    }
    waldo__task_init(&machine->task, nothing_to_end, machine);
    waldo__task_queue(machine->place.env->loop, &machine->task);
}

static void e2b_abandon(waldo_machine *machine)
{
    if (is_ours(machine)) {
        waldo__e2b_about(&machine->place, NULL, "DELETE", "", "", 0, NULL);
    }
    machine_free(machine);
}

/* Left to its lease, which begins now. */
static void e2b_detach(waldo_machine *machine)
{
    if (is_ours(machine)) {
        waldo__e2b_put_seconds(machine, "timeout", &machine->text);
        waldo__e2b_about(&machine->place, NULL, "POST", "/timeout",
                         waldo__buf_str(&machine->text).ptr, 0, NULL);
    }
    machine_free(machine);
}

static void e2b_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    ret_info->reached = machine->finder.reached;
    ret_info->flags = machine->finder.foreign
                          ? (uint32_t)WALDO_MACHINE_REJOINS | (uint32_t)WALDO_MACHINE_FOREIGN
                          : (uint32_t)WALDO_MACHINE_REJOINS;
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
    .save = e2b_save,
    .close = e2b_close,
    .abandon = e2b_abandon,
    .channel = e2b_channel_op,
    .pause = e2b_pause,
    .resume = e2b_resume,
    .port_url = e2b_port_url,
    .set_net = e2b_set_net,
    .describe = e2b_describe,
    .detach = e2b_detach,
};
