/* `waldo run`: one prompt. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { PROMPT_MAX = 16 * 1024 * 1024 };

/* All of standard input as text; NULL when it is too long, holds a NUL byte or cannot be read. */
static char *read_input(void)
{
    char *text = malloc(PROMPT_MAX + 1);
    size_t len = 0;

    if (text != NULL) {
        len = fread(text, 1, PROMPT_MAX + 1, stdin);
    }
    if (text == NULL || len > PROMPT_MAX || ferror(stdin) || memchr(text, '\0', len) != NULL) {
        usage_error("standard input holds a NUL byte, is longer than 16 MiB, or cannot be read");
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

static char *read_prompt(const args *a)
{
    char *text;

    if (a->rest_count != 1) {
        usage_error("run takes one PROMPT, not %d words: quote it, put -- before it if it begins "
                    "with -, or give - to read standard input",
                    a->rest_count);
        return NULL;
    }
    text = strcmp(a->rest[0], "-") == 0 ? read_input() : strdup(a->rest[0]);
    if (text != NULL && text[strspn(text, " \t\r\n")] == '\0') {
        usage_error("the prompt is empty");
        free(text);
        return NULL;
    }
    return text;
}

static int run_one(const args *a, const char *prompt)
{
    session s;
    int code = session_open(&s, a);

    if (code == EXIT_DONE) {
        int has_images = a->images[0] != NULL;

        s.run = waldo_run_new(s.rt, s.agent,
                              &WALDO_RUN(.prompt = has_images ? NULL : prompt, .cancel = s.cancel,
                                         .record = a->record));
        code = s.run == NULL ? show_end(a, NULL, NULL, WALDO_ENOMEM)
               : has_images  ? send_prompt(a, s.run, prompt)
                             : EXIT_DONE;
        code = code == EXIT_DONE ? finish_run(&s, s.run, a->patch, drive(&s, s.run)) : code;
    }
    session_close(&s);
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}

/* What does not go together, before anything is started. */
static int check_options(const args *a)
{
    int code = check_directory(a);

    if (a->each != NULL && (a->dir != NULL || a->patch != NULL)) {
        return usage_error("--each takes the place of -w, and --out that of --patch");
    }
    if (a->each != NULL && a->record != NULL) {
        return usage_error("--record is for one run, not for --each");
    }
    if (a->each != NULL && (a->approve == ANSWER_ASK || a->apply == ANSWER_ASK)) {
        return usage_error("--each cannot ask: runs go on side by side");
    }
    if (a->each != NULL && a->images[0] != NULL) {
        return usage_error("--image is for one run, without --each");
    }
    if (a->each == NULL && (a->out_dir != NULL || a->jobs > 0)) {
        return usage_error("--out and --jobs are for --each");
    }
    if (a->patch != NULL && (a->dir == NULL || a->mode != WALDO_WORKSPACE_COPY)) {
        return usage_error("--patch needs -w DIR with --mode copy");
    }
    return code == EXIT_DONE ? check_patch_file(a->patch) : code;
}

int cmd_run(args *a)
{
    int code = check_options(a);
    char *prompt = code == EXIT_DONE ? read_prompt(a) : NULL;

    if (prompt == NULL) {
        return EXIT_USAGE;
    }
    code = choose_facts(a);
    code = code == EXIT_DONE ? choose_model(a) : code;
    if (code == EXIT_DONE) {
        choose_sandbox(a);
        code = a->each != NULL ? run_each(a, prompt) : run_one(a, prompt);
    }
    free(prompt);
    return code;
}
