/* `waldo run --each GLOB`: one run and one machine for each directory, one patch file each. */
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { DEFAULT_JOBS = 4 };

typedef struct task {
    const char *dir;
    char *patch; /* OUT/services-billing.patch for services/billing */
} task;

typedef struct batch {
    const args *a;
    session s;
    const char *prompt;
    task *tasks;
    size_t count;
    size_t next; /* to be started */
    size_t failed;
    int code; /* what the failures have in common, else EXIT_FAILED */
} batch;

static int is_directory(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int name_is_taken(const batch *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++) {
        if (strcmp(b->tasks[i].patch, name) == 0) {
            return 1;
        }
    }
    return 0;
}

/* "../services/billing/" -> "services-billing"; "a/b" and "a-b" get different names. */
static char *patch_name(const batch *b, const char *dir)
{
    const char *out = b->a->out_dir != NULL ? b->a->out_dir : ".";
    char *flat, *name = NULL;
    size_t len;

    dir += strspn(dir, "./");
    flat = strdup(*dir != '\0' ? dir : "workspace");
    len = flat != NULL ? strlen(flat) : 0;
    while (len > 0 && flat[len - 1] == '/') {
        flat[--len] = '\0';
    }
    for (size_t i = 0; i < len; i++) {
        flat[i] = flat[i] == '/' ? '-' : flat[i];
    }
    for (int copy = 1; flat != NULL; copy++) {
        char number[16] = "";

        if (copy > 1) {
            snprintf(number, sizeof number, "-%d", copy);
        }
        if (asprintf(&name, "%s/%s%s.patch", out, flat, number) < 0) {
            name = NULL;
        }
        if (name == NULL || !name_is_taken(b, name)) {
            break;
        }
        free(name);
    }
    free(flat);
    return name;
}

static int collect_tasks(batch *b, const glob_t *found)
{
    b->tasks = calloc(found->gl_pathc + 1, sizeof *b->tasks);
    for (size_t i = 0; b->tasks != NULL && i < found->gl_pathc; i++) {
        if (is_directory(found->gl_pathv[i])) {
            char *patch = patch_name(b, found->gl_pathv[i]);

            if (patch == NULL) {
                return 0;
            }
            b->tasks[b->count++] = (task){ found->gl_pathv[i], patch };
        }
    }
    return b->tasks != NULL;
}

static void show_events(void *userdata, waldo_run *run)
{
    batch *b = userdata;
    const waldo_event *event;

    while (waldo_run_next(run, 0, &event) == WALDO_OK) {
        show_event(b->a, waldo_run_label(run), event);
    }
    if (output_error() != 0) {
        waldo_cancel_trigger(b->s.cancel); /* nobody reads what comes */
    }
}

static void note_failure(batch *b, int code)
{
    b->code = b->failed == 0 || b->code == code ? code : EXIT_FAILED;
    b->failed++;
}

static int start_next(batch *b)
{
    task *t = &b->tasks[b->next];
    waldo_run *run;

    if (b->next == b->count || was_interrupted() || output_error() != 0) {
        return 0;
    }
    b->next++;
    run = waldo_run_new(b->s.rt, b->s.agent,
                        &WALDO_RUN(.label = t->dir, .workspace = t->dir, .prompt = b->prompt,
                                   .workspace_mode = b->a->mode, .cancel = b->s.cancel,
                                   .userdata = t));
    if (run == NULL) {
        note_failure(b, show_end(b->a, t->dir, NULL, WALDO_ENOMEM));
    } else {
        waldo_run_on_ready(run, show_events, b);
    }
    return run != NULL;
}

static void show_answer(const batch *b, const waldo_run *run)
{
    const char *label = waldo_run_label(run), *text = waldo_run_text(run);

    if (!b->a->json && text[0] != '\0') {
        output_write((waldo_str){ "==> ", 4 });
        output_write((waldo_str){ label, strlen(label) });
        output_write((waldo_str){ " <==\n", 5 });
        if (is_terminal(stdout)) {
            put_safe(stdout, (waldo_str){ text, strlen(text) });
            fflush(stdout);
        } else {
            output_write((waldo_str){ text, strlen(text) });
        }
        output_write((waldo_str){ "\n", 1 });
    }
}

static void finish_one(batch *b, waldo_run *run)
{
    const task *t = waldo_run_userdata(run);
    struct stat info;
    int code;

    show_events(b, run);
    show_answer(b, run);
    show_usage(b->a, t->dir, run);
    code = show_end(b->a, t->dir, waldo_run_error(run), waldo_run_status(run));
    code = finish_run(&b->s, run, t->patch, code);
    if (stat(t->patch, &info) == 0 && info.st_size == 0) {
        unlink(t->patch); /* nothing changed, and git apply takes no empty file */
    }
    if (code != EXIT_DONE) {
        note_failure(b, code);
    }
    waldo_run_free(run);
}

static int drive_all(batch *b)
{
    long jobs = b->a->jobs > 0 ? b->a->jobs : DEFAULT_JOBS;
    waldo_run *run;

    for (long i = 0; i < jobs; i++) {
        start_next(b);
    }
    while ((run = waldo_runtime_next(b->s.rt, WALDO_FOREVER)) != NULL) {
        finish_one(b, run);
        start_next(b);
    }
    if (!b->a->quiet) {
        complain("%zu of %zu runs done, %zu failed", b->next - b->failed, b->count, b->failed);
    }
    return b->code;
}

static int drive_batch(batch *b)
{
    int code = session_open(&b->s, b->a);

    if (code == EXIT_DONE) {
        code = drive_all(b);
    }
    session_close(&b->s);
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}

int run_each(args *a, const char *prompt)
{
    batch b = { .a = a, .prompt = prompt };
    glob_t found = { 0 };
    int code;

    if (a->out_dir != NULL && mkdir(a->out_dir, 0777) != 0 && errno != EEXIST) {
        return usage_error("--out %s: %m", a->out_dir);
    }
    if (a->out_dir != NULL && (!is_directory(a->out_dir) || access(a->out_dir, W_OK) != 0)) {
        return usage_error("--out %s is not a directory to write to", a->out_dir);
    }
    if (glob(a->each, GLOB_BRACE, NULL, &found) == GLOB_NOSPACE || !collect_tasks(&b, &found)) {
        code = show_end(a, NULL, NULL, WALDO_ENOMEM);
    } else if (b.count == 0) {
        code = usage_error("no directory matches %s", a->each);
    } else {
        code = drive_batch(&b);
    }
    for (size_t i = 0; i < b.count; i++) {
        free(b.tasks[i].patch);
    }
    free(b.tasks);
    globfree(&found);
    return code;
}
