/*
 * usage: docker-tool probe | list | destroy ID
 * The functions of the docker backend that need no machine. Prints what they say.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"

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
    } else {
        fprintf(stderr, "usage: docker-tool probe | list | destroy ID\n");
        out.done = 1;
        out.status = WALDO_EINVAL;
    }
    while (!out.done) {
        waldo_runtime_step(rt, WALDO_FOREVER);
    }
    waldo_runtime_free(rt);
    return out.status != WALDO_OK;
}
