/* What some machines can do: pause and go on, show ports, change their network. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "sandbox/background.h"
#include "sandbox/live.h"
#include <waldo/machine.h>

enum { FILES_MAX = 1024, PAUSE_MS = 60000, QUICK_MS = 30000, PORT_LAST = 65535, URL_MAX = 4096 };

/* Any of the operations here. */
typedef struct machine_op {
    waldo__op op;
    uint32_t port;
    waldo_net net;
    char **hosts;
    waldo__buf url;
    waldo_sandbox_fn done; /* or: */
    waldo_url_fn told;
    void *userdata;
} machine_op;

static const waldo_backend_ops *ops_of(const waldo__op *op)
{
    return waldo__live_entry(op->sandbox)->ops;
}

static void finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    machine_op *m = (machine_op *)op;

    if (m->done != NULL) {
        m->done(m->userdata, status, error);
    } else if (m->told != NULL) {
        m->told(m->userdata, status, status == WALDO_OK ? waldo__buf_str(&m->url) : WALDO__S(""),
                error);
    }
}

static void op_free(waldo__op *op)
{
    machine_op *m = (machine_op *)op;

    waldo__strings_free(m->hosts);
    waldo__buf_free(&m->url);
    waldo__free(m);
}

static machine_op *op_new(waldo_sandbox_fn done, waldo_url_fn told, void *userdata)
{
    machine_op *m = WALDO__NEW(machine_op);

    if (m == NULL && done != NULL) {
        done(userdata, WALDO_ENOMEM, NULL);
    } else if (m == NULL && told != NULL) {
        told(userdata, WALDO_ENOMEM, WALDO__S(""), NULL);
    } else if (m != NULL) {
        *m = (machine_op){
            .url = WALDO__BUF_INIT(URL_MAX), .done = done, .told = told, .userdata = userdata
        };
    }
    return m;
}

static void over(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo__op *op = userdata;

    if (waldo__op_backend_done(op)) {
        waldo__op_end(op, status, waldo_error_copy(error));
    }
}

static int offers(waldo__op *op, uint32_t bit, const char *what)
{
    if ((waldo__live_caps(op->sandbox) & bit) == 0) {
        waldo__op_fail(op, WALDO_ENOTSUP, "%s: this machine cannot %s", ops_of(op)->name, what);
        return 0;
    }
    return 1;
}

/* ---- pause ---- */

static void on_paused(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_sandbox *sandbox = ((waldo__op *)userdata)->sandbox;
    int waiting = 0;

    waldo__live_hold(sandbox);
    sandbox->pausing = 0;
    for (waldo__op *op = sandbox->ops.next; op != &sandbox->ops; op = op->next) {
        waiting |= op->state == WALDO__OP_WAITING;
    }
    over(userdata, status, error);
    if (sandbox->state == WALDO__LIVE_PAUSED) {
        if (status == WALDO_OK) {
            waldo__live_news(sandbox, "paused", "%s: the machine was paused",
                             waldo__live_entry(sandbox)->ops->name);
        }
        if (status != WALDO_OK &&
            (sandbox->hand != NULL || (sandbox->info.caps & WALDO_BACKEND_CHANNEL) == 0)) {
            sandbox->state = WALDO__LIVE_OPEN;
            waldo__ops_start(sandbox);
        } else if (status != WALDO_OK || waiting) {
            waldo__live_resume(sandbox);
        }
    }
    waldo__live_release(sandbox);
}

static void pause_start(waldo__op *op)
{
    waldo_sandbox *sandbox = op->sandbox;
    waldo_backend_call call;

    if (!offers(op, WALDO_BACKEND_PAUSE, "be paused")) {
        return;
    }
    if (sandbox->failover.taking_ns != 0) { /* no use of the host's: begun again behind it */
        op->state = WALDO__OP_WAITING;
        return;
    }
    for (waldo__op *other = sandbox->ops.next; other != &sandbox->ops; other = other->next) {
        if (other != op && other->state != WALDO__OP_ENDED && !other->goes_on) {
            waldo__op_fail(op, WALDO_EBUSY,
                           "the sandbox is in use: a machine is paused when nothing but background "
                           "commands is in progress");
            return;
        }
    }
    sandbox->state = WALDO__LIVE_PAUSED;
    sandbox->pausing = 1;
    waldo__op_backend_call(op, &call, waldo__deadline_ns(PAUSE_MS));
    ops_of(op)->pause(sandbox->machine, &call, on_paused);
}

static const waldo__op_kind pause_kind = { .start = pause_start,
                                           .finish = finish,
                                           .free = op_free };

void waldo_sandbox_pause(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata)
{
    machine_op *m = op_new(done, NULL, userdata);
    waldo_error *error = NULL;

    if (m == NULL) {
        return;
    }
    if (sandbox->state == WALDO__LIVE_PAUSED && sandbox->pausing) {
        waldo_error_set(&error, WALDO_EBUSY, WALDO_CLASS_USAGE, "the machine is being paused");
        waldo__op_begin_ended(sandbox, &m->op, &pause_kind, WALDO_EBUSY, error);
    } else if ((sandbox->state == WALDO__LIVE_NEW || sandbox->state == WALDO__LIVE_PAUSED) &&
               waldo__live_check(sandbox, NULL) == WALDO_OK) {
        waldo__op_begin_ended(sandbox, &m->op, &pause_kind, WALDO_OK, NULL);
    } else {
        waldo__op_begin(sandbox, &m->op, &pause_kind);
    }
}

/* ---- resume ---- */

static void on_resumed(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_sandbox *sandbox = userdata;

    waldo__live_hold(sandbox);
    waldo__live_resumed(sandbox, status, error);
    waldo__live_release(sandbox);
}

void waldo__live_resume(waldo_sandbox *sandbox)
{
    waldo_backend_call call = { .size = sizeof call,
                                .deadline_ns = waldo__deadline_ns(PAUSE_MS),
                                .userdata = sandbox };

    if (sandbox->pausing || sandbox->state != WALDO__LIVE_PAUSED) {
        return;
    }
    sandbox->state = WALDO__LIVE_OPENING;
    sandbox->resuming = 1;
    waldo_error_set(&sandbox->broke, WALDO_ELOST, WALDO_CLASS_BACKEND, "the machine was paused");
    waldo__live_entry(sandbox)->ops->resume(sandbox->machine, &call, on_resumed);
}

static void resume_start(waldo__op *op)
{
    waldo__op_end(op, WALDO_OK, NULL);
}

static const waldo__op_kind resume_kind = { .start = resume_start,
                                            .finish = finish,
                                            .free = op_free };

void waldo_sandbox_resume(waldo_sandbox *sandbox, waldo_sandbox_fn done, void *userdata)
{
    machine_op *m = op_new(done, NULL, userdata);

    if (m == NULL) {
        return;
    }
    if (sandbox->state == WALDO__LIVE_NEW && waldo__live_check(sandbox, NULL) == WALDO_OK) {
        waldo__op_begin_ended(sandbox, &m->op, &resume_kind, WALDO_OK, NULL);
    } else {
        waldo__op_begin(sandbox, &m->op, &resume_kind); /* as whatever is begun */
    }
}

/* ---- machines made elsewhere ---- */

void waldo__live_name_files(waldo_sandbox *sandbox)
{
    uint32_t number;

    waldo__random(&number, sizeof number);
    sandbox->next_file = sandbox->first_file = number;
}

waldo_status waldo__live_shut_hand(waldo_sandbox *sandbox, const waldo__hand_call_fns *fns)
{
    uint64_t first = sandbox->first_file;
    waldo__hand_call *call;
    char path[64];

    if (sandbox->next_file - first > FILES_MAX) {
        first = sandbox->next_file - FILES_MAX;
    }
    for (uint64_t i = 2 * first + 2; i < 2 * sandbox->next_file + 2; i++) {
        waldo__hand_file file = WALDO__HAND_FILE_INIT;

        snprintf(path, sizeof path, i % 2 == 0 ? WALDO__CAPTURE_NAME : WALDO__SCRIPT_NAME,
                 (unsigned long long)(i / 2));
        file.path = waldo__str(path);
        waldo__hand_start_file(sandbox->hand, WALDO_HAND_REMOVE, &file, NULL, NULL, &call);
    }
    return waldo__hand_shutdown(sandbox->hand, fns, sandbox);
}

/* ---- ports ---- */

static void on_url(void *userdata, waldo_status status, waldo_str url, const waldo_error *error)
{
    machine_op *m = userdata;

    if (status == WALDO_OK) {
        status = waldo__buf_add_str(&m->url, url);
    }
    over(m, status, error);
}

static void port_start(waldo__op *op)
{
    waldo_backend_call call;

    if (offers(op, WALDO_BACKEND_PORTS, "show a port to the outside")) {
        waldo__op_backend_call(op, &call, waldo__deadline_ns(QUICK_MS));
        ops_of(op)->port_url(op->sandbox->machine, ((machine_op *)op)->port, &call, on_url);
    }
}

static const waldo__op_kind port_kind = { .start = port_start, .finish = finish, .free = op_free };

void waldo_sandbox_port_url(waldo_sandbox *sandbox, uint32_t port, waldo_url_fn done,
                            void *userdata)
{
    machine_op *m = op_new(NULL, done, userdata);
    waldo_error *error = NULL;

    if (m == NULL) {
        return;
    }
    m->port = port;
    if (port == 0 || port > PORT_LAST) {
        waldo__error_invalid(&error, "a port is 1 to 65535");
        waldo__op_begin_ended(sandbox, &m->op, &port_kind, WALDO_EINVAL, error);
    } else {
        waldo__op_begin(sandbox, &m->op, &port_kind);
    }
}

/* ---- the network ---- */

static void net_start(waldo__op *op)
{
    machine_op *m = (machine_op *)op;
    const char *const *hosts = (const char *const *)m->hosts;
    waldo_net net = m->net;
    waldo_backend_call call;
    uint32_t needs;

    if (!offers(op, WALDO_BACKEND_SET_NET, "change its network")) {
        return;
    }
    if (net == WALDO_NET_DEFAULT) { /* which only now is known: each backend may have its own */
        net = waldo__live_entry(op->sandbox)->net;
        hosts = net == WALDO_NET_HOSTS ? (const char *const *)op->sandbox->spec->hosts : hosts;
    }
    if (net == WALDO_NET_DEFAULT) {
        waldo__op_fail(op, WALDO_EINVAL, "set_net: a machine made elsewhere has no default");
        return;
    }
    needs = waldo__net_bit(net);
    if ((waldo__live_caps(op->sandbox) & needs) != needs) {
        waldo__op_fail(op, WALDO_ENOTSUP, "net=%s cannot be had from %s:", waldo__net_name(net),
                       ops_of(op)->name);
        return;
    }
    waldo__op_backend_call(op, &call, waldo__deadline_ns(QUICK_MS));
    ops_of(op)->set_net(op->sandbox->machine, net, hosts, &call, over);
}

static const waldo__op_kind net_kind = { .start = net_start, .finish = finish, .free = op_free };

void waldo_sandbox_set_net(waldo_sandbox *sandbox, waldo_net net, const char *const *hosts,
                           waldo_sandbox_fn done, void *userdata)
{
    machine_op *m = op_new(done, NULL, userdata);
    waldo_error *error = NULL;
    waldo_status status = WALDO_OK;
    size_t count = 0;

    if (m == NULL) {
        return;
    }
    m->net = net;
    m->hosts = waldo__strings_copy(hosts, &count);
    if (m->hosts == NULL) {
        status = waldo__error_nomem(&error);
    } else if (net < WALDO_NET_DEFAULT || net > WALDO_NET_ALL || count > WALDO__SPEC_LIST_MAX ||
               (net == WALDO_NET_HOSTS) != (count > 0)) {
        status =
            waldo__error_invalid(&error,
                                 "set_net: hosts are for WALDO_NET_HOSTS, at most %d, and for no "
                                 "other level",
                                 WALDO__SPEC_LIST_MAX);
    }
    if (status != WALDO_OK) {
        waldo__op_begin_ended(sandbox, &m->op, &net_kind, status, error);
    } else {
        waldo__op_begin(sandbox, &m->op, &net_kind);
    }
}
