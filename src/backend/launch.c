#include "backend/launch.h"

#include <stdio.h>

#include "base/error.h"
#include "base/rand.h"

enum { AGAIN_TRIES = 10, AGAIN_MS = 1000 };

/*
 * From a file of the user's own; the one that root will run is nobody else's. Of two hands with one
 * address the second ends at once.
 */
static const char durable[] = "grep -qs \"@$1\\$\" /proc/net/unix && rm -f \"$0\" && exit\n"
                              "chmod 700 \"$0\" && exec 3<\"$0\" && rm -f \"$0\" && "
                              "exec /proc/self/fd/3 durable \"$1\" \"$2\"";

static void put_user_path(const waldo__launch *launch, char *to, size_t size)
{
    snprintf(to, size, "%s-u", launch->path);
}

/* Told once, and later: what started the hand may then be let go of. error is taken. */
static void finish(waldo__launch *launch, waldo_status status, waldo_error *error)
{
    if (launch->over) {
        waldo_error_free(error);
        return;
    }
    launch->over = 1;
    launch->status = status;
    launch->error = error;
    waldo__task_queue(launch->loop, &launch->task);
}

/* ---- its files ---- */

static void bring_root(waldo__launch *launch)
{
    launch->brought = 1;
    launch->fns->bring(launch->owner, launch->path, 1);
}

void waldo__launch_begin(waldo__launch *launch, const char *mine, const char *run, int64_t lease_ms,
                         unsigned more)
{
    char path[sizeof launch->path + 2];

    snprintf(launch->path, sizeof launch->path, "/tmp/.waldo-hand-%.*s", WALDO__WORD_MAX, mine);
    snprintf(launch->address, sizeof launch->address, "waldo-%.*s", WALDO__WORD_MAX, run);
    put_user_path(launch, path, sizeof path);
    launch->lease_ms = lease_ms;
    launch->parts = 2 + more;
    launch->fns->bring(launch->owner, path, 0);
    bring_root(launch);
}

static void start(waldo__launch *launch)
{
    char path[sizeof launch->path + 2];
    char lease[24];
    const char *const args[] = { path, launch->address, lease, NULL };

    put_user_path(launch, path, sizeof path);
    snprintf(lease, sizeof lease, "%lld", (long long)launch->lease_ms);
    launch->fns->start(launch->owner, durable, args);
}

static void bring_again(void *userdata)
{
    bring_root(userdata);
}

/* Nothing was begun by what failed: the file is written anew. */
static int try_again(waldo__launch *launch, waldo_status status)
{
    return (status == WALDO_EUNAVAILABLE || status == WALDO_EBUSY) &&
           launch->tries++ < AGAIN_TRIES &&
           waldo__timer_arm(launch->loop, &launch->timer, waldo__deadline_ns(AGAIN_MS)) == WALDO_OK;
}

/* Told when all have ended, for they share what the backend has for them. */
void waldo__launch_part(waldo__launch *launch, waldo_status status, const waldo_error *error)
{
    if (launch->over && try_again(launch, status)) {
        return;
    }
    if (launch->over) {
        launch->brought = 0;
        launch->fns->again(launch->owner, status, error);
        return;
    }
    if (status != WALDO_OK && launch->status == WALDO_OK) {
        launch->status = status;
        launch->error = waldo_error_copy(error);
    }
    if (--launch->parts > 0) {
        return;
    }
    if (launch->status != WALDO_OK) {
        finish(launch, launch->status, launch->error);
    } else {
        start(launch);
    }
}

/* ---- its process ---- */

void waldo__launch_event(waldo__launch *launch, waldo__process_event event)
{
    if (event == WALDO__PROCESS_STARTED) {
        finish(launch, WALDO_OK, NULL);
    }
}

void waldo__launch_over(waldo__launch *launch, waldo_status status, const waldo_error *error)
{
    finish(launch, status, waldo_error_copy(error));
}

/* ---- told later ---- */

static void tell(void *userdata)
{
    waldo__launch *launch = userdata;
    waldo_error *error = launch->error;

    if (launch->told) {
        launch->brought = 0;
        launch->fns->again(launch->owner, WALDO_OK, NULL);
        return;
    }
    launch->told = 1;
    launch->error = NULL;
    launch->fns->done(launch->owner, launch->status, error);
    waldo_error_free(error);
}

/* Under a name that nobody can have put anything under. */
void waldo__launch_again(waldo__launch *launch)
{
    uint64_t random[2];

    if (launch->brought) {
        waldo__task_queue(launch->loop, &launch->task);
        return;
    }
    launch->tries = 0;
    waldo__random(random, sizeof random);
    snprintf(launch->path, sizeof launch->path, "/tmp/.waldo-hand-%016llx%016llx",
             (unsigned long long)random[0], (unsigned long long)random[1]);
    bring_root(launch);
}

void waldo__launch_init(waldo__launch *launch, waldo__loop *loop, const waldo__launch_fns *fns,
                        void *owner)
{
    *launch = (waldo__launch){ .loop = loop, .fns = fns, .owner = owner };
    waldo__task_init(&launch->task, tell, launch);
    waldo__timer_init(&launch->timer, bring_again, launch);
}

void waldo__launch_free(waldo__launch *launch)
{
    if (launch->loop != NULL) {
        waldo__task_cancel(launch->loop, &launch->task);
        waldo__timer_disarm(launch->loop, &launch->timer);
    }
    waldo__error_clear(&launch->error);
}
