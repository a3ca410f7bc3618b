#include "backend/cloud.h"

#include "base/error.h"

enum { PERIOD_MAX_MS = 100000, TEXT_MAX = 4096 };

static waldo__cloud *cloud_of(waldo_machine *machine)
{
    return (waldo__cloud *)machine;
}

static waldo_machine *machine_of(waldo__cloud *cloud)
{
    return (waldo_machine *)cloud;
}

int64_t waldo__cloud_seconds(const waldo__cloud *cloud)
{
    int64_t lease_ms = cloud->finder.lease_ms;

    return ((lease_ms > 0 ? lease_ms : WALDO__CLOUD_LIFE_MS) + 999) / 1000;
}

int64_t waldo__cloud_hand_ms(const waldo__cloud *cloud)
{
    if (cloud->finder.lease_ms > 0) {
        return cloud->finder.lease_ms;
    }
    return cloud->finder.foreign ? WALDO__CLOUD_STAYS_MS : WALDO__CLOUD_LIFE_MS;
}

/* ---- its time ---- */

static void life_due(void *userdata)
{
    waldo__cloud *cloud = userdata;

    cloud->fns->extend(machine_of(cloud));
}

void waldo__cloud_live(waldo__cloud *cloud)
{
    int64_t period_ms = waldo__cloud_seconds(cloud) * 1000 / 3;

    waldo__timer_arm(cloud->env->loop, &cloud->life,
                     waldo__deadline_ns(period_ms < PERIOD_MAX_MS ? period_ms : PERIOD_MAX_MS));
}

void waldo__cloud_rest(waldo__cloud *cloud)
{
    waldo__timer_disarm(cloud->env->loop, &cloud->life);
}

/* What it means that it cannot be had is seen elsewhere: by the stream's end. */
void waldo__cloud_extended(waldo__cloud *cloud, waldo_status status, const waldo_error *error)
{
    if (status != WALDO_OK) {
        waldo__log(cloud->env->loop, WALDO_LOG_WARN, cloud->finder.backend, "%s",
                   waldo__error_text(status, error));
    }
    waldo__cloud_live(cloud);
}

/* ---- operations ---- */

void waldo__cloud_begin(waldo__cloud *cloud, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    cloud->done = done;
    cloud->userdata = call->userdata;
    cloud->deadline_ns = call->deadline_ns;
}

void waldo__cloud_finish(waldo__cloud *cloud, waldo_status status, const waldo_error *error)
{
    cloud->done(cloud->userdata, status, error);
}

static void complete_open(void *userdata)
{
    waldo__cloud *cloud = userdata;
    waldo_error *error = cloud->error;

    cloud->error = NULL;
    if (cloud->status == WALDO_OK) {
        waldo__cloud_live(cloud);
    }
    waldo__cloud_finish(cloud, cloud->status, error);
    waldo_error_free(error);
}

void waldo__cloud_opened(waldo__cloud *cloud, waldo_status status, const waldo_error *error)
{
    cloud->status = status;
    cloud->error = waldo_error_copy(error);
    waldo__task_queue(cloud->env->loop, &cloud->task);
}

static void give_text(void *userdata)
{
    waldo__cloud *cloud = userdata;

    cloud->text_done(cloud->text_userdata, cloud->text.status, waldo__buf_str(&cloud->text), NULL);
}

waldo__buf *waldo__cloud_text(waldo__cloud *cloud, const waldo_backend_call *call,
                              waldo_backend_bytes_fn done)
{
    cloud->text_done = done;
    cloud->text_userdata = call->userdata;
    waldo__buf_clear(&cloud->text);
    waldo__task_queue(cloud->env->loop, &cloud->text_task);
    return &cloud->text;
}

void waldo__cloud_save(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_bytes_fn done)
{
    waldo__cloud *cloud = cloud_of(machine);

    waldo__finder_put_saved(&cloud->finder, waldo__cloud_text(cloud, call, done));
}

void waldo__cloud_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    const waldo__cloud *cloud = (const waldo__cloud *)machine;

    ret_info->reached = cloud->finder.reached;
    ret_info->flags = WALDO_MACHINE_REJOINS;
    if (cloud->finder.foreign) {
        ret_info->flags |= WALDO_MACHINE_FOREIGN;
    }
}

/* ---- its end ---- */

static void quiet(waldo__cloud *cloud)
{
    waldo__task_cancel(cloud->env->loop, &cloud->task);
    waldo__task_cancel(cloud->env->loop, &cloud->text_task);
    waldo__cloud_rest(cloud);
    waldo__finder_free(&cloud->finder);
    waldo__error_clear(&cloud->error);
    cloud->fns->quiet(machine_of(cloud));
}

void waldo__cloud_free(waldo_machine *machine)
{
    waldo__cloud *cloud = cloud_of(machine);

    quiet(cloud);
    waldo__buf_free(&cloud->text);
    cloud->fns->free(machine);
}

/* One that is still being made has a short time to live, for nobody knows its name. */
static int is_ours(const waldo__cloud *cloud)
{
    return !cloud->finder.foreign && (cloud->finder.made || cloud->finder.reached) &&
           !waldo__loop_forked(cloud->env->loop);
}

/* One that is there no more has ended, too. */
void waldo__cloud_ended(waldo__cloud *cloud, waldo_status status, const waldo_error *error)
{
    waldo_backend_done_fn done = cloud->done;
    void *to = cloud->userdata;
    int gone = status == WALDO_ENOTFOUND;

    waldo__cloud_free(machine_of(cloud));
    done(to, gone ? WALDO_OK : status, gone ? NULL : error);
}

static void nothing_to_end(void *userdata)
{
    waldo__cloud_ended(userdata, WALDO_OK, NULL);
}

void waldo__cloud_close(waldo_machine *machine, const waldo_backend_call *call,
                        waldo_backend_done_fn done)
{
    waldo__cloud *cloud = cloud_of(machine);

    quiet(cloud);
    waldo__cloud_begin(cloud, call, done);
    if (is_ours(cloud)) {
        cloud->fns->end(machine);
        return;
    }
    waldo__task_init(&cloud->task, nothing_to_end, cloud);
    waldo__task_queue(cloud->env->loop, &cloud->task);
}

void waldo__cloud_abandon(waldo_machine *machine)
{
    if (is_ours(cloud_of(machine))) {
        cloud_of(machine)->fns->discard(machine);
    }
    waldo__cloud_free(machine);
}

/* Left to its lease, which begins now. */
void waldo__cloud_detach(waldo_machine *machine)
{
    if (is_ours(cloud_of(machine))) {
        cloud_of(machine)->fns->leave(machine);
    }
    waldo__cloud_free(machine);
}

void waldo__cloud_init(waldo__cloud *cloud, const waldo_backend_env *env,
                       const waldo__cloud_fns *fns)
{
    *cloud = (waldo__cloud){ .fns = fns, .env = env, .text = WALDO__BUF_INIT(TEXT_MAX) };
    waldo__task_init(&cloud->task, complete_open, cloud);
    waldo__task_init(&cloud->text_task, give_text, cloud);
    waldo__timer_init(&cloud->life, life_due, cloud);
}
