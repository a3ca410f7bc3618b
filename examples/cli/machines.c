/* What ps and gc share: the machines that exist, collected. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

typedef struct collecting {
    machine_list *list;
    int over;
    int no_memory;
} collecting;

static void free_texts(waldo_sandbox_info *info)
{
    free((char *)info->backend);
    free((char *)info->id);
    free((char *)info->name);
    free((char *)info->owner);
    free((char *)info->about);
}

static void take(void *userdata, const waldo_sandbox_info *info)
{
    collecting *c = userdata;
    machine_list *list = c->list;
    waldo_sandbox_info *more = realloc(list->at, (list->count + 1) * sizeof *more);
    waldo_sandbox_info copy = *info;

    if (more == NULL) {
        c->no_memory = 1;
        return;
    }
    list->at = more;
    copy.backend = strdup(info->backend);
    copy.id = strdup(info->id);
    copy.name = strdup(info->name);
    copy.owner = strdup(info->owner);
    copy.about = strdup(info->about);
    if (copy.backend == NULL || copy.id == NULL || copy.name == NULL || copy.owner == NULL ||
        copy.about == NULL) {
        free_texts(&copy);
        c->no_memory = 1;
        return;
    }
    list->at[list->count++] = copy;
}

static void taken(void *userdata, waldo_status status, const waldo_error *error)
{
    collecting *c = userdata;

    c->over = 1;
    if (status != WALDO_OK || c->no_memory) {
        complain("%s", error != NULL ? waldo_error_message(error)
                                     : waldo_status_text(c->no_memory ? WALDO_ENOMEM : status));
        c->list->code = c->no_memory ? EXIT_FAILED : EXIT_UNAVAILABLE;
    }
}

/* The oldest first. */
static int by_age(const void *a, const void *b)
{
    const waldo_sandbox_info *one = a;
    const waldo_sandbox_info *two = b;

    if (one->created_ms != two->created_ms) {
        return one->created_ms < two->created_ms ? -1 : 1;
    }
    return strcmp(one->id, two->id);
}

void machines_list(waldo_runtime *rt, machine_list *list)
{
    collecting c = { .list = list };

    *list = (machine_list){ .code = EXIT_DONE };
    waldo_sandbox_list(rt, take, taken, &c);
    while (!c.over && waldo_runtime_step(rt, WALDO_FOREVER) == WALDO_OK) {
    }
    if (!c.over) {
        list->code = EXIT_FAILED;
    }
    if (list->count > 1) {
        qsort(list->at, list->count, sizeof *list->at, by_age);
    }
}

void machines_free(machine_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free_texts(&list->at[i]);
    }
    free(list->at);
    *list = (machine_list){ .code = EXIT_DONE };
}

const char *machine_state_name(waldo_machine_state state)
{
    static const char *const names[] = { "unknown", "created", "running", "paused", "ended" };

    return state >= 0 && (size_t)state < sizeof names / sizeof names[0] ? names[state] : names[0];
}

const char *machine_owner_state(const waldo_sandbox_info *info)
{
    return info->owner_alive == 1 ? "alive" : info->owner_alive == 0 ? "gone" : "unknown";
}

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
