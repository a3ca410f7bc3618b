/* `waldo gc`: end the machines whose owner is gone and whose lease is over. */
#include <string.h>

#include "cli.h"

typedef struct ending {
    int over;
    waldo_status status;
} ending;

/*
 * Left over is what this user made in a process that is gone by now, and what nothing keeps:
 * a lease runs only in a machine that runs. Where it cannot be told, a machine is left alone.
 */
static int is_left_over(const waldo_sandbox_info *info)
{
    int lives = info->state == WALDO_MACHINE_RUNNING || info->state == WALDO_MACHINE_PAUSED ||
                info->state == WALDO_MACHINE_UNKNOWN;
    int expired = info->expires_ms > 0 && info->expires_ms <= now_ms();

    return info->mine == 1 && info->owner_alive == 0 && (info->lease_ms == 0 || !lives || expired);
}

static void ended(void *userdata, waldo_status status, const waldo_error *error)
{
    ending *e = userdata;

    e->over = 1;
    e->status = status;
    if (status != WALDO_OK && status != WALDO_ENOTFOUND) {
        complain("%s", error != NULL ? waldo_error_message(error) : waldo_status_text(status));
    }
}

static void tell(const char *what, const waldo_sandbox_info *info)
{
    printf("%s ", what);
    put_safe(stdout, (waldo_str){ info->backend, strlen(info->backend) });
    putchar(' ');
    put_safe(stdout, (waldo_str){ info->id, strlen(info->id) });
    printf(" (%s, its owner is gone) ", machine_state_name(info->state));
    put_safe(stdout, (waldo_str){ info->about, strlen(info->about) });
    putchar('\n');
    fflush(stdout);
}

/* 0: it could not be ended, and that was told. */
static int end_machine(waldo_runtime *rt, const waldo_sandbox_info *info)
{
    ending e = { .over = 0 };

    waldo_sandbox_destroy(rt, info->backend, info->id, ended, &e);
    while (!e.over && waldo_runtime_step(rt, WALDO_FOREVER) == WALDO_OK) {
    }
    if (!e.over || (e.status != WALDO_OK && e.status != WALDO_ENOTFOUND)) {
        return 0;
    }
    if (e.status == WALDO_OK) {
        tell("ended", info);
    }
    return 1; /* or it had just ended by itself */
}

int cmd_gc(args *a)
{
    machine_list list;
    waldo_runtime *rt;
    size_t found = 0;
    int code;

    if (a->rest_count != 0) {
        return usage_error("gc takes no words behind its options");
    }
    rt = open_runtime(a);
    if (rt == NULL) {
        return EXIT_FAILED;
    }
    machines_list(rt, &list);
    code = list.code;
    for (size_t i = 0; i < list.count; i++) {
        if (!is_left_over(&list.at[i])) {
            continue;
        }
        found++;
        if (a->dry_run) {
            tell("would end", &list.at[i]);
        } else if (!end_machine(rt, &list.at[i])) {
            code = EXIT_FAILED;
        }
    }
    if (found == 0 && code == EXIT_DONE) {
        puts("nothing is left over");
    }
    machines_free(&list);
    waldo_runtime_finish(rt);
    return code;
}
