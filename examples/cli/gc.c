/* `waldo gc`: end the machines whose owner is gone and whose lease is over, or those named. */
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
    printf(" (%s, owner %s) ", machine_state_name(info->state), machine_owner_state(info));
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

/* word: "@NAME", or the beginning of an id */
static int is_meant(const waldo_sandbox_info *info, const char *word)
{
    enum { SHORTEST = 6 };
    size_t len = strlen(word);

    if (info->mine != 1) {
        return 0;
    }
    return word[0] == '@' ? info->name[0] != '\0' && strcmp(info->name, word + 1) == 0
                          : len >= SHORTEST && strncmp(info->id, word, len) == 0;
}

static int end_or_tell(waldo_runtime *rt, const args *a, const waldo_sandbox_info *info)
{
    if (a->dry_run) {
        tell("would end", info);
        return 1;
    }
    return end_machine(rt, info);
}

/* Those that were asked for, whoever uses them; what others could not list does not matter then. */
static int end_named(waldo_runtime *rt, const args *a, const machine_list *list)
{
    int code = EXIT_DONE;

    for (int i = 0; i < a->rest_count; i++) {
        const waldo_sandbox_info *found = NULL;
        int matches = 0;

        for (size_t j = 0; j < list->count; j++) {
            if (is_meant(&list->at[j], a->rest[i])) {
                found = &list->at[j];
                matches++;
            }
        }
        if (matches != 1) {
            complain("%s: %s of this user's sandboxes; see waldo ps", a->rest[i],
                     matches == 0 ? "none" : "more than one");
        }
        if (matches != 1 || !end_or_tell(rt, a, found)) {
            code = EXIT_FAILED;
        }
    }
    return code;
}

static int end_left_over(waldo_runtime *rt, const args *a, const machine_list *list)
{
    int code = list->code;
    size_t found = 0;

    for (size_t i = 0; i < list->count; i++) {
        if (!is_left_over(&list->at[i])) {
            continue;
        }
        found++;
        if (!end_or_tell(rt, a, &list->at[i])) {
            code = EXIT_FAILED;
        }
    }
    if (found == 0 && code == EXIT_DONE) {
        puts("nothing is left over");
    }
    return code;
}

int cmd_gc(args *a)
{
    waldo_runtime *rt = open_runtime(a);
    machine_list list;
    int code;

    if (rt == NULL) {
        return EXIT_FAILED;
    }
    machines_list(rt, &list);
    code = a->rest_count > 0 ? end_named(rt, a, &list) : end_left_over(rt, a, &list);
    machines_free(&list);
    waldo_runtime_finish(rt);
    return code;
}
