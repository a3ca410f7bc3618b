/* `waldo run --each GLOB`: one run and one machine for each directory, one patch file each. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

enum { DEFAULT_JOBS = 4 };

typedef struct batch {
    args *a;
    session *s;
    const char *prompt;
    glob_t dirs;
    size_t next; /* of dirs, to be started */
    size_t failed;
    int code;
} batch;

static int is_directory(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int start_next(batch *b)
{
    while (b->next < b->dirs.gl_pathc) {
        const char *dir = b->dirs.gl_pathv[b->next++];

        if (is_directory(dir)) {
            return waldo_run_new(b->s->rt, b->s->agent,
                                 &WALDO_RUN(.label = dir, .workspace = dir, .prompt = b->prompt,
                                            .cancel = b->s->cancel)) != NULL;
        }
    }
    return 0;
}

/* services/billing -> OUT/services-billing.patch */
static void patch_name(const args *a, const char *dir, char *name, size_t size)
{
    size_t from;

    snprintf(name, size, "%s/", a->out_dir != NULL ? a->out_dir : ".");
    from = strlen(name);
    snprintf(name + from, size - from, "%s", dir);
    while (strlen(name) > from && name[strlen(name) - 1] == '/') {
        name[strlen(name) - 1] = '\0';
    }
    for (char *at = name + from; *at != '\0'; at++) {
        *at = *at == '/' ? '-' : *at;
    }
    snprintf(name + strlen(name), size - strlen(name), ".patch");
}

static void finish_one(batch *b, waldo_run *run)
{
    waldo_status status = waldo_run_status(run);
    char file[4096];

    patch_name(b->a, waldo_run_label(run), file, sizeof file);
    if (status == WALDO_OK) {
        status = waldo_run_save_changes(run, file);
    }
    if (status == WALDO_OK) {
        fprintf(stderr, "%s: %s\n", waldo_run_label(run), file);
    } else {
        b->failed++;
        b->code = fail_with(waldo_run_label(run), waldo_run_error(run), status);
    }
    waldo_run_free(run);
}

static int drive_all(batch *b)
{
    long jobs = b->a->jobs > 0 ? b->a->jobs : DEFAULT_JOBS;
    waldo_run *run;
    size_t started = 0;

    for (long i = 0; i < jobs && start_next(b); i++) {
        started++;
    }
    if (started == 0) {
        return usage_error("no directory matches %s", b->a->each);
    }
    while ((run = waldo_runtime_next(b->s->rt, WALDO_FOREVER)) != NULL) {
        finish_one(b, run);
        if (!was_interrupted() && start_next(b)) {
            started++;
        }
    }
    fprintf(stderr, "%zu run%s, %zu failed\n", started, started == 1 ? "" : "s", b->failed);
    return b->code;
}

int run_each(args *a, const char *prompt)
{
    session s;
    batch b = { .a = a, .s = &s, .prompt = prompt };
    int code = EXIT_DONE;

    if (a->out_dir != NULL && !is_directory(a->out_dir)) {
        return usage_error("--out %s is not a directory", a->out_dir);
    }
    if (glob(a->each, 0, NULL, &b.dirs) != 0) {
        return usage_error("nothing matches %s", a->each);
    }
    code = session_open(&s, a);
    if (code == EXIT_DONE) {
        code = drive_all(&b);
    }
    session_close(&s);
    globfree(&b.dirs);
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}
