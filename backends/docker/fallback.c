/* Machines whose hand cannot run: a container that waits, and execs of the engine. */
#include <stdio.h>

#include "base/error.h"
#include "base/rand.h"
#include "machine.h"

/* Its removal is on the way, or it removes itself; its name may be taken for a while. */
static void on_first_gone(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    char word[17];

    if (status != WALDO_OK) {
        waldo__docker_open_failed(machine, status, error, "removing the container");
        return;
    }
    waldo__random_word(word, sizeof word - 1);
    snprintf(machine->name, sizeof machine->name, "waldo-%s", word);
    machine->created = 0;
    waldo__docker_create(machine);
}

static void again(waldo_machine *machine)
{
    if (machine->engine.podman && machine->options.tmp_asked) {
        waldo_error *error = NULL;

        waldo_error_set(&error, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                        "docker: without a hand Podman cannot keep /tmp to tmp=; leave it out");
        waldo__docker_opened(machine, WALDO_ENOTSUP, error);
        return;
    }
    waldo__docker_channel_free(machine->channel);
    machine->channel = NULL;
    waldo__buf_clear(&machine->call.body);
    if (machine->created) {
        waldo__docker_begin(machine, "DELETE", "?force=1&v=1", DOCKER_SLOW_MS, on_first_gone);
    } else {
        waldo__docker_create(machine);
    }
}

void waldo__docker_fall_back(waldo_machine *machine, const char *why)
{
    waldo__buf note = WALDO__BUF_INIT(4096);

    machine->options.main = DOCKER_MAIN_SHELL;
    machine->options.shared = 0;
    if (why[0] != '\0') {
        waldo__buf_printf(&note,
                          "no hand in this container (%s): commands are slower, a timeout ends "
                          "their process group only, and there is no writing to them, no terminal "
                          "and no background",
                          why);
        waldo__buf_free(&machine->note);
        machine->note = note;
    }
    again(machine);
}

int waldo__docker_try_other(waldo_machine *machine, const char *why)
{
    if (machine->options.shared) {
        machine->options.shared = 0; /* perhaps it was the way that the hand took */
        again(machine);
        return 1;
    }
    if (machine->options.main == DOCKER_MAIN_HAND) {
        if (machine->options.hand != DOCKER_HAND_AUTO) {
            return 0;
        }
        waldo__docker_fall_back(machine, why);
        return 1;
    }
    if (machine->options.main == DOCKER_MAIN_SHELL) {
        machine->options.main = DOCKER_MAIN_CAT;
        again(machine);
        return 1;
    }
    return 0;
}

void waldo__docker_plain_opened(waldo_machine *machine)
{
    waldo__docker_plain_init(&machine->plain, &machine->engine, machine->name, &machine->options,
                             machine->options.main == DOCKER_MAIN_SHELL);
    waldo__docker_opened(machine, WALDO_OK, NULL);
}

docker_plain *waldo__docker_plain_of(waldo_machine *machine)
{
    return &machine->plain;
}

static void cannot(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo_error *error = machine->error;

    machine->error = NULL;
    machine->done(machine->userdata, machine->status, error);
    waldo_error_free(error);
}

void waldo__docker_without_hand(waldo_machine *machine, const char *why,
                                const waldo_backend_call *call, waldo_backend_done_fn done)
{
    machine->done = done;
    machine->userdata = call->userdata;
    machine->deadline_ns = call->deadline_ns;
    if (!waldo__docker_try_other(machine, why)) {
        machine->status =
            waldo_error_set(&machine->error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND, "%s", why);
        waldo__task_init(&machine->task, cannot, machine);
        waldo__task_queue(machine->engine.env->loop, &machine->task);
    }
}
