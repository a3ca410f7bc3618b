/*
 * usage: docker-tool probe | list | destroy ID | open STRING MS
 * The functions of the docker backend that need no machine, and the making of one within a time.
 * Prints what they say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"
#include "sandbox/spec.h"

typedef struct outcome {
    int done;
    waldo_status status;
} outcome;

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    outcome *out = userdata;

    out->done++;
    out->status = status;
    printf("%s %s\n", waldo_status_name(status), waldo_error_message(error));
}

static void on_each(void *userdata, const waldo_sandbox_info *info)
{
    (void)userdata;
    printf("%s %s state=%d alive=%d mine=%d lease=%lld created=%lld name=%s %s\n", info->id,
           info->owner, (int)info->state, (int)info->owner_alive, (int)info->mine,
           (long long)info->lease_ms, (long long)info->created_ms, info->name, info->about);
}

static void on_progress(void *userdata, const char *text)
{
    (void)userdata;
    printf("progress %s\n", text);
}

static void drive(waldo_runtime *rt, const outcome *out)
{
    while (!out->done) {
        waldo_runtime_step(rt, WALDO_FOREVER);
    }
}

static void on_closed(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)status;
    (void)error;
    ((outcome *)userdata)->done++;
}

/* Make a machine, and end it again. */
static void open_it(waldo_runtime *rt, const waldo_backend_ops *ops, const char *text, int64_t ms,
                    outcome *out)
{
    const waldo_backend_env *env = waldo__runtime_backend_env(rt);
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
    waldo_backend_spec one = waldo__spec_for_backend(spec, &spec->entries[0]);
    waldo_backend_call call = { .size = sizeof call,
                                .deadline_ns = waldo__deadline_ns(ms),
                                .userdata = out };
    waldo_machine *machine = NULL;
    outcome closed = { 0 };

    one.owner = "1-owner";
    one.id = "0123456789abcdef";
    one.on_progress = on_progress;
    out->status = ops->open(env, &one, waldo__str(NULL), &call, on_done, &machine, NULL);
    if (out->status != WALDO_OK) {
        out->done = 1;
    } else {
        drive(rt, out);
        call.deadline_ns = waldo__deadline_ns(20000);
        call.userdata = &closed;
        ops->close(machine, &call, on_closed);
        drive(rt, &closed);
    }
    waldo_sandbox_spec_unref(spec);
}

int main(int argc, char **argv)
{
    const waldo_backend_ops *ops = waldo__backend_find(waldo__str("docker"));
    waldo_runtime *rt = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN));
    const waldo_backend_env *env = waldo__runtime_backend_env(rt);
    outcome out = { 0 };
    const waldo_backend_call call = { .size = sizeof call,
                                      .deadline_ns = waldo__deadline_ns(20000),
                                      .userdata = &out };

    if (argc == 2 && strcmp(argv[1], "probe") == 0) {
        ops->probe(env, &call, on_done);
    } else if (argc == 2 && strcmp(argv[1], "list") == 0) {
        ops->list_sandboxes(env, &call, on_each, on_done);
    } else if (argc == 3 && strcmp(argv[1], "destroy") == 0) {
        ops->destroy_id(env, &call, argv[2], on_done);
    } else if (argc == 4 && strcmp(argv[1], "open") == 0) {
        open_it(rt, ops, argv[2], strtol(argv[3], NULL, 10), &out);
    } else {
        fprintf(stderr, "usage: docker-tool probe | list | destroy ID | open STRING MS\n");
        out.done = 1;
        out.status = WALDO_EINVAL;
    }
    drive(rt, &out);
    waldo_runtime_free(rt);
    return out.status != WALDO_OK;
}
