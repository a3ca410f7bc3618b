/* Runtime, spec and agent from the command line. */
#include <unistd.h>

#include "cli.h"

static void print_log(void *userdata, waldo_log_level level, const char *area, waldo_str line)
{
    static const char *const names[] = { "", "error", "warn", "info", "debug", "trace" };

    (void)userdata;
    fprintf(stderr, "[%s %s] %.*s\n", names[level], area, (int)line.len, line.ptr);
}

waldo_runtime *open_runtime(const args *a)
{
    waldo_runtime *rt = waldo_runtime_new(
        &WALDO_RUNTIME(.keys = WALDO_KEYS_FROM_ENV, .log = print_log,
                       .log_level = a->verbose ? WALDO_LOG_DEBUG : WALDO_LOG_ERROR));

    if (rt == NULL || waldo_runtime_error(rt) != NULL) {
        fail_with("runtime", waldo_runtime_error(rt), WALDO_ENOMEM);
        waldo_runtime_free(rt);
        return NULL;
    }
    return rt;
}

waldo_sandbox_spec *make_spec(const args *a)
{
    return waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = a->sandboxes, .workspace = a->dir,
                                                      .workspace_mode = a->mode, .env = a->env));
}

static waldo_approve approve_policy(const args *a)
{
    answer approve = a->approve;

    if (approve == ANSWER_DEFAULT) {
        approve = has_terminal() && !a->json ? ANSWER_ASK : ANSWER_NEVER;
    }
    if (approve == ANSWER_ASK) {
        return WALDO_APPROVE_CHANGES;
    }
    return approve == ANSWER_ALWAYS ? WALDO_APPROVE_NONE : WALDO_APPROVE_FLAGGED;
}

int session_open(session *s, const args *a)
{
    *s = (session){ .rt = open_runtime(a), .cancel = waldo_cancel_new() };
    if (s->rt == NULL || s->cancel == NULL || !stop_on_signals(s->cancel)) {
        return EXIT_FAILED;
    }
    s->spec = make_spec(a);
    s->agent = waldo_agent_new(
        &WALDO_AGENT(.model = a->model, .spec = s->spec, .instructions = a->instructions,
                     .approve = approve_policy(a), .tool_choice = a->tool_choice,
                     .tool_choice_name = a->tool_choice_name,
                     .temperature = a->has_temperature ? &a->temperature : NULL,
                     .limits = { .max_turns = (uint32_t)a->max_turns }));
    if (s->agent == NULL || waldo_agent_error(s->agent) != NULL) {
        return fail_with("", waldo_agent_error(s->agent), WALDO_ENOMEM);
    }
    return EXIT_DONE;
}

void session_close(session *s)
{
    waldo_agent_unref(s->agent);
    waldo_sandbox_spec_unref(s->spec);
    waldo_runtime_finish(s->rt);
    waldo_cancel_unref(s->cancel);
}
