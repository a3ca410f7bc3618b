/* `waldo run` and `waldo chat`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { PROMPT_MAX = 16 * 1024 * 1024 };

/* All of a stream as text; NULL when it is too long or cannot be read. */
static char *read_all(FILE *from)
{
    size_t len = 0, cap = 65536, got;
    char *text = malloc(cap), *more;

    while (text != NULL && (got = fread(text + len, 1, cap - len - 1, from)) > 0) {
        len += got;
        if (len + 1 < cap) {
            continue;
        }
        more = cap < PROMPT_MAX ? realloc(text, cap * 2) : NULL;
        if (more == NULL) {
            free(text);
            return NULL;
        }
        text = more;
        cap *= 2;
    }
    if (text != NULL) {
        text[len] = '\0';
    }
    if (text != NULL && (ferror(from) || strlen(text) != len)) {
        free(text);
        return NULL;
    }
    return text;
}

char *read_prompt(const args *a)
{
    if (a->rest_count != 1 || a->rest[0][0] == '\0') {
        usage_error("run takes one PROMPT; quote it, or give - to read standard input");
        return NULL;
    }
    if (strcmp(a->rest[0], "-") == 0) {
        char *text = read_all(stdin);

        if (text == NULL) {
            usage_error(
                "standard input holds a NUL byte, is longer than 16 MiB, or cannot be read");
        }
        return text;
    }
    return strdup(a->rest[0]);
}

/* y: this call, a: all calls of this tool, n with a reason for the model. */
static void decide(waldo_run *run, const waldo_event *event)
{
    waldo_decision decision = { .kind = WALDO_DECIDE_REJECT };
    waldo_str what = waldo_event_text(event);
    char line[1024];

    fprintf(stderr, "Run %s %.*s?\n[y]es, [a]ll calls of it, or no with a reason: ",
            waldo_event_tool(event), (int)(what.len < 2000 ? what.len : 2000), what.ptr);
    if (fgets(line, sizeof line, stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "y") == 0 || strcmp(line, "yes") == 0) {
        decision.kind = WALDO_DECIDE_APPROVE;
    } else if (strcmp(line, "a") == 0 || strcmp(line, "all") == 0) {
        decision.kind = WALDO_DECIDE_APPROVE_RUN;
    } else {
        decision.text = (waldo_str){ line, strlen(line) };
    }
    waldo_run_decide(run, waldo_event_call_id(event), &decision);
}

int drive(const args *a, waldo_run *run)
{
    const waldo_event *event;
    waldo_status status;

    while ((status = waldo_run_next(run, WALDO_FOREVER, &event)) == WALDO_OK) {
        show_event(a, event);
        if (waldo_event_type(event) == WALDO_EVENT_APPROVAL && has_terminal() && !a->json) {
            decide(run, event);
        }
    }
    show_end_of_turn(a);
    if (status == WALDO_PENDING) {
        fputs("waldo: a call waits for approval; nothing was run\n", stderr);
        return EXIT_WAITS;
    }
    if (status != WALDO_END) {
        return fail_with("", NULL, status);
    }
    if (waldo_run_status(run) != WALDO_OK) {
        return fail_with("", waldo_run_error(run), waldo_run_status(run));
    }
    return EXIT_DONE;
}

static int run_one(args *a, const char *prompt)
{
    session s;
    int code = session_open(&s, a);

    if (code == EXIT_DONE) {
        waldo_run *run =
            waldo_run_new(s.rt, s.agent, &WALDO_RUN(.prompt = prompt, .cancel = s.cancel));

        code = run != NULL ? drive(a, run) : fail_with("", NULL, WALDO_ENOMEM);
        if (run != NULL && !was_interrupted()) {
            int saved = finish_changes(a, run, a->patch);

            code = code != EXIT_DONE ? code : saved;
        }
    }
    session_close(&s);
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}

int cmd_run(args *a)
{
    char *prompt = read_prompt(a);
    int code;

    if (prompt == NULL) {
        return EXIT_USAGE;
    }
    code = a->each != NULL && a->dir != NULL ? usage_error("give --each or -w, not both")
                                             : choose_model(a);
    if (code == EXIT_DONE) {
        code = choose_sandbox(a);
    }
    if (code == EXIT_DONE) {
        code = a->each != NULL ? run_each(a, prompt) : run_one(a, prompt);
    }
    free(prompt);
    return code;
}

/* ---- chat ---- */

static int read_line(char **line, size_t *size)
{
    ssize_t len;

    if (has_terminal()) {
        fputs("you> ", stderr);
    }
    len = getline(line, size, stdin);
    while (len > 0 && ((*line)[len - 1] == '\n' || (*line)[len - 1] == '\r')) {
        (*line)[--len] = '\0';
    }
    return len >= 0;
}

static int talk(const args *a, const session *s)
{
    waldo_run *run = waldo_run_new(s->rt, s->agent, &WALDO_RUN(.cancel = s->cancel));
    char *line = NULL;
    size_t size = 0;
    int code = EXIT_DONE;

    if (run == NULL) {
        return fail_with("", NULL, WALDO_ENOMEM);
    }
    if (waldo_run_error(run) != NULL) {
        return fail_with("", waldo_run_error(run), waldo_run_status(run));
    }
    while (!was_interrupted() && read_line(&line, &size)) {
        waldo_status status;

        if (line[0] == '\0') {
            continue;
        }
        status = waldo_run_send(run, line);
        code = status == WALDO_OK ? drive(a, run) : fail_with("", NULL, status);
    }
    free(line);
    if (!was_interrupted()) {
        int saved = finish_changes(a, run, a->patch);

        code = code != EXIT_DONE ? code : saved;
    }
    return code;
}

int cmd_chat(args *a)
{
    session s;
    int code;

    if (a->rest_count != 0) {
        return usage_error("chat takes no words behind its options");
    }
    code = choose_model(a);
    if (code == EXIT_DONE) {
        code = choose_sandbox(a);
    }
    if (code != EXIT_DONE) {
        return code;
    }
    code = session_open(&s, a);
    if (code == EXIT_DONE) {
        code = talk(a, &s);
    }
    session_close(&s);
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}
