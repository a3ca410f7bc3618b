/* `waldo ps`: the machines that exist. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { COLUMNS = 7, ID_SHOWN = 12 };

/* Text of a label in one cell: others may have written it. To be freed; NULL: no memory. */
static char *cell_of(const char *text)
{
    char *cell = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&cell, &size);

    if (to == NULL) {
        return NULL;
    }
    put_safe(to, (waldo_str){ text, strlen(text) });
    if (fclose(to) != 0) {
        free(cell);
        return NULL;
    }
    for (char *at = cell; *at != '\0'; at++) {
        *at = *at == '\n' || *at == '\t' ? ' ' : *at;
    }
    return cell;
}

static char *age_of(int64_t created_ms)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
    int64_t age = (now_ms() - created_ms) / 1000;
    char text[32] = "0s";

    if (created_ms <= 0) {
        return strdup("-");
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (age >= units[i].seconds) {
            snprintf(text, sizeof text, "%lld%c", (long long)(age / units[i].seconds),
                     units[i].unit);
            break;
        }
    }
    return strdup(text);
}

static void free_cells(char **cells)
{
    for (int i = 0; i < COLUMNS; i++) {
        free(cells[i]);
    }
}

/* 0: no memory */
static int make_cells(const waldo_sandbox_info *info, char **cells)
{
    char id[ID_SHOWN + 1];

    snprintf(id, sizeof id, "%s", info->id);
    cells[0] = cell_of(info->name[0] != '\0' ? info->name : "-");
    cells[1] = cell_of(id);
    cells[2] = cell_of(info->backend);
    cells[3] = strdup(machine_state_name(info->state));
    cells[4] = age_of(info->created_ms);
    cells[5] = strdup(machine_owner_state(info));
    cells[6] = cell_of(info->about);
    for (int i = 0; i < COLUMNS; i++) {
        if (cells[i] == NULL) {
            free_cells(cells);
            return 0;
        }
    }
    return 1;
}

static void print_row(const char *const *cells, const size_t *widths)
{
    for (int i = 0; i < COLUMNS - 1; i++) {
        printf("%-*s  ", (int)widths[i], cells[i]);
    }
    printf("%s\n", cells[COLUMNS - 1]);
}

static int print_table(const waldo_sandbox_info *infos, size_t info_count)
{
    static const char *const titles[COLUMNS] = { "NAME", "ID",    "BACKEND", "STATE",
                                                 "AGE",  "OWNER", "IMAGE" };
    char *(*rows)[COLUMNS] = calloc(info_count + 1, sizeof *rows);
    size_t widths[COLUMNS];
    size_t count = 0;
    int good = rows != NULL;

    for (int i = 0; i < COLUMNS; i++) {
        widths[i] = strlen(titles[i]);
    }
    for (; good && count < info_count; count += (size_t)good) {
        good = make_cells(&infos[count], rows[count]);
        for (int i = 0; good && i < COLUMNS; i++) {
            size_t width = strlen(rows[count][i]);

            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    if (good) {
        print_row(titles, widths);
        for (size_t i = 0; i < count; i++) {
            print_row((const char *const *)rows[i], widths);
        }
    } else {
        complain("%s", waldo_status_text(WALDO_ENOMEM));
    }
    for (size_t i = 0; i < count; i++) {
        free_cells(rows[i]);
    }
    free(rows);
    return good;
}

static const char *json_bool(int32_t value)
{
    return value == 1 ? "true" : value == 0 ? "false" : "null";
}

static void print_json(const waldo_sandbox_info *info)
{
    const struct {
        const char *key;
        const char *text;
    } texts[] = {
        { "{\"backend\":", info->backend }, { ",\"id\":", info->id },
        { ",\"name\":", info->name },       { ",\"state\":", machine_state_name(info->state) },
        { ",\"owner\":", info->owner },     { ",\"image\":", info->about }
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fputs(texts[i].key, stdout);
        put_json_string(stdout, texts[i].text);
    }
    printf(",\"owner_alive\":%s,\"mine\":%s,\"created_ms\":%lld,\"expires_ms\":%lld,"
           "\"lease_ms\":%lld}\n",
           json_bool(info->owner_alive), json_bool(info->mine), (long long)info->created_ms,
           (long long)info->expires_ms, (long long)info->lease_ms);
}

int cmd_ps(args *a)
{
    machine_list list;
    waldo_runtime *rt;
    size_t shown = 0;
    int code;

    if (a->rest_count != 0) {
        return usage_error("ps takes no words behind its options");
    }
    rt = open_runtime(a);
    if (rt == NULL) {
        return EXIT_FAILED;
    }
    machines_list(rt, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (a->all || list.at[i].mine == 1) { /* to the front */
            waldo_sandbox_info other = list.at[shown];

            list.at[shown++] = list.at[i];
            list.at[i] = other;
        }
    }
    code = list.code;
    for (size_t i = 0; a->json && i < shown; i++) {
        print_json(&list.at[i]);
    }
    if (!a->json && !print_table(list.at, shown)) {
        code = EXIT_FAILED;
    }
    machines_free(&list);
    waldo_runtime_finish(rt);
    return code;
}
