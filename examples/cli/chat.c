/* `waldo chat`: a conversation, a line of standard input a turn. */
#include "cli.h"

static void prompt_for_line(const args *a)
{
    if (can_ask(a)) {
        fputs("you> ", stderr);
    }
}

/*
 * On a terminal a signal stops the turn and a failure leaves the conversation as it is; a program
 * at the other end of a pipe would go on talking to nobody, so there both end it.
 */
static int talk(session *s)
{
    int interactive = can_ask(s->a), code = EXIT_DONE;
    waldo_str line;
    line_end end;

    prompt_for_line(s->a);
    while ((end = input_line(s->rt, &line)) == LINE_READ) {
        if (line.len > 0) {
            waldo_status status = waldo_run_send_text(s->run, line);

            code = status == WALDO_OK ? drive(s, s->run) : show_end(s->a, NULL, NULL, status);
            if (!interactive && code != EXIT_DONE) {
                return code;
            }
            if (was_interrupted()) {
                stop_again();
            }
        }
        if (output_error() != 0) {
            return EXIT_FAILED;
        }
        prompt_for_line(s->a);
    }
    if (interactive && end == LINE_EOF) {
        fputc('\n', stderr);
    }
    return end == LINE_FAILED ? EXIT_FAILED : end == LINE_STOPPED ? EXIT_INTERRUPTED : code;
}

int cmd_chat(args *a)
{
    session s;
    int code = check_directory(a);

    if (a->rest_count != 0) {
        return usage_error("chat takes no words behind its options");
    }
    if (a->patch != NULL && (a->dir == NULL || a->mode != WALDO_WORKSPACE_COPY)) {
        return usage_error("--patch needs -w DIR with --mode copy");
    }
    code = code == EXIT_DONE ? check_patch_file(a->patch) : code;
    code = code == EXIT_DONE ? choose_facts(a) : code;
    code = code == EXIT_DONE ? choose_model(a) : code;
    if (code != EXIT_DONE) {
        return code;
    }
    choose_sandbox(a);
    code = session_open(&s, a);
    if (code == EXIT_DONE) {
        s.run = waldo_run_new(s.rt, s.agent, &WALDO_RUN(.record = a->record));
        code = s.run == NULL || waldo_run_error(s.run) != NULL
                   ? show_end(a, NULL, waldo_run_error(s.run), WALDO_ENOMEM)
                   : finish_run(&s, s.run, a->patch, talk(&s));
    }
    session_close(&s);
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}
